//! What nodes said to each other during a part of a run.

use kringle_core::message::BodyKind;

use crate::tally::Tally;

/// Messages by kind, between two moments.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic(Vec<f64>);

impl Traffic {
    /// Counts what was sent since `before`.
    pub fn since(before: &Tally, now: &Tally) -> Traffic {
        let sent = |kind: &BodyKind| now.messages(*kind) as f64 - before.messages(*kind) as f64;
        Traffic(BodyKind::ALL.iter().map(sent).collect())
    }

    /// Leaves out what would have been sent anyway: `background` is what a span of its own brought, of which this one is
    /// `part` long.
    #[must_use]
    pub fn without(&self, background: &Traffic, part: f64) -> Traffic {
        Traffic(self.0.iter().zip(&background.0).map(|(all, other)| all - part * other).collect())
    }

    /// Adds the counts of another part.
    #[must_use]
    pub fn and(&self, other: &Traffic) -> Traffic {
        Traffic(self.0.iter().zip(&other.0).map(|(a, b)| a + b).collect())
    }

    /// Returns how many messages of these kinds were sent.
    pub fn of(&self, kinds: &[BodyKind]) -> f64 {
        kinds.iter().map(|kind| self.0[*kind as usize]).sum()
    }

    /// Returns how many messages of other kinds than these were sent.
    pub fn except(&self, kinds: &[BodyKind]) -> f64 {
        self.kinds().filter(|(kind, _)| !kinds.contains(kind)).map(|(_, count)| count).sum()
    }

    /// Returns requests and replies: all but acknowledgements, and pings with their answers.
    pub fn requests_and_replies(&self) -> f64 {
        self.except(&[BodyKind::HopAck, BodyKind::Ping, BodyKind::Pong])
    }

    /// Returns all kinds with their counts.
    pub fn kinds(&self) -> impl Iterator<Item = (BodyKind, f64)> + '_ {
        BodyKind::ALL.iter().copied().zip(self.0.iter().copied())
    }
}
