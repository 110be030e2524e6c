//! Counts of what happened in a run.

use std::fmt;

use kringle_core::edge::{Note, NoteKind, Refusal};
use kringle_core::message::BodyKind;

/// How often each kind of message and note occurred, and why inputs were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    messages: Vec<u64>,
    bytes: Vec<u64>,
    notes: Vec<u64>,
    refusals: Vec<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            messages: vec![0; BodyKind::ALL.len()],
            bytes: vec![0; BodyKind::ALL.len()],
            notes: vec![0; NoteKind::ALL.len()],
            refusals: vec![0; Refusal::ALL.len()],
        }
    }
}

impl Tally {
    pub(crate) fn message(&mut self, kind: BodyKind) {
        self.messages[kind as usize] += 1;
    }

    pub(crate) fn frame(&mut self, kind: BodyKind, bytes: usize) {
        self.bytes[kind as usize] += bytes as u64;
    }

    pub(crate) fn note(&mut self, note: Note) {
        self.notes[note.kind() as usize] += 1;
        if let Note::Refused(refusal) = note {
            self.refusals[refusal as usize] += 1;
        }
    }

    /// Returns how many messages of a kind were handed to the network.
    pub fn messages(&self, kind: BodyKind) -> u64 {
        self.messages[kind as usize]
    }

    /// Returns the bytes of all frames of a kind, if messages were encoded on their way (`World::through_wire`).
    pub fn bytes(&self, kind: BodyKind) -> u64 {
        self.bytes[kind as usize]
    }

    /// Returns how often a note occurred.
    pub fn notes(&self, kind: NoteKind) -> u64 {
        self.notes[kind as usize]
    }

    /// Returns how often something was refused for a reason.
    pub fn refusals(&self, refusal: Refusal) -> u64 {
        self.refusals[refusal as usize]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Tally) {
        let pairs = self.messages.iter_mut().zip(&other.messages);
        let pairs = pairs.chain(self.bytes.iter_mut().zip(&other.bytes));
        let pairs = pairs.chain(self.notes.iter_mut().zip(&other.notes));
        pairs.chain(self.refusals.iter_mut().zip(&other.refusals)).for_each(|(sum, more)| *sum += more);
    }

    /// Returns the names of messages and notes of overlays that never occurred, apart from those that can not.
    pub fn missing(&self, impossible: &[&str]) -> Vec<&'static str> {
        let messages = BodyKind::ALL.iter().filter(|kind| !kind.is_of_store() && self.messages(**kind) == 0);
        let messages = messages.map(|kind| kind.name());
        let notes = NoteKind::ALL.iter().filter(|kind| self.notes(**kind) == 0).map(|kind| kind.name());
        messages.chain(notes).filter(|name| !impossible.contains(name)).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |what: &str, name: &str, count: u64| writeln!(f, "{what:8} {name:22} {count:>10}");
        for kind in BodyKind::ALL {
            line("message", kind.name(), self.messages(*kind))?;
        }
        for kind in NoteKind::ALL {
            line("note", kind.name(), self.notes(*kind))?;
        }
        for refusal in Refusal::ALL {
            line("refused", refusal.name(), self.refusals(*refusal))?;
        }
        Ok(())
    }
}
