//! Fingers: for each power of two the first node at least that far away. Hints that make ways short: who is
//! responsible for a key never depends on them, and a dead one costs one time-out.

use alloc::vec::Vec;

use super::Chord;
use crate::contact::Contact;
use crate::edge::{Ctx, Note, Timer};
use crate::id::{Id, NodeId};
use crate::message::{Payload, Routed, Stage};
use crate::overlay::Status;

/// A shortcut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finger {
    /// It is the first node at least two to this power away.
    pub bit: u8,
    /// Who that is.
    pub node: Contact,
}

impl Finger {
    /// Returns the place it was looked up for.
    pub fn start(&self, of: Id) -> Id {
        of.plus(1 << self.bit)
    }
}

/// The fingers of a node, the farthest first, each node at most once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Fingers {
    entries: Vec<Finger>,
    /// Lookups under way: their number, and for which power.
    asked: Vec<(u32, u8)>,
    /// The power looked up next, counted down; 0 when a round is over.
    next: u8,
}

/// Lookups at each turn.
const AT_ONCE: usize = 4;
/// Lookups remembered.
const ASKED_MAX: usize = 16;
/// What a lookup and its answer cost on the wire, roughly.
const LOOKUP_BYTES: u32 = 300;

impl Fingers {
    pub(super) fn entries(&self) -> &[Finger] {
        &self.entries
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        self.entries.retain(|finger| finger.node.id != id);
    }

    fn put(&mut self, finger: Finger) {
        self.entries.retain(|other| other.bit != finger.bit && other.node.id != finger.node.id);
        let at = self.entries.partition_point(|other| other.bit > finger.bit);
        self.entries.insert(at, finger);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Finger>() + self.asked.capacity() * size_of::<(u32, u8)>()
    }
}

impl Chord {
    /// Looks the next few fingers up. Powers the successor list covers need none.
    pub(super) fn on_fingers(&mut self, cx: &mut Ctx<'_>) {
        if self.status != Status::Ready {
            return;
        }
        let covered = match self.ring.succ_list().last() {
            Some(last) if self.large => self.me.id.clockwise_to(last.id),
            _ => u128::MAX,
        };
        for _ in 0..AT_ONCE {
            let bit = if self.fingers.next == 0 { 127 } else { self.fingers.next - 1 };
            if bit == 0 || 1u128 << bit <= covered {
                self.fingers.next = 0;
                // What the list covers by now.
                self.fingers.entries.retain(|finger| 1 << finger.bit > covered);
                break;
            }
            if !self.budget.take(LOOKUP_BYTES, cx) {
                break;
            }
            self.fingers.next = bit;
            self.look_finger_up(bit, cx);
        }
        let round_over = self.fingers.next == 0;
        let span = cx.dice.jitter(if round_over { cx.config.fingers } else { cx.config.tick });
        cx.set_timer(Timer::Fingers, span);
    }

    fn look_finger_up(&mut self, bit: u8, cx: &mut Ctx<'_>) {
        let serial = cx.dice.roll() as u32;
        if self.fingers.asked.len() >= ASKED_MAX {
            self.fingers.asked.remove(0);
        }
        self.fingers.asked.push((serial, bit));
        let key = self.me.id.plus(1 << bit);
        let payload = Payload::Lookup;
        cx.out.route(Routed { key, origin: self.me, payload, serial, hop: 0, hops: 0, stage: Stage::Prefix });
    }

    pub(super) fn finger_found(&mut self, serial: u32, node: Contact, cx: &mut Ctx<'_>) -> bool {
        let Some(at) = self.fingers.asked.iter().position(|(asked, _)| *asked == serial) else {
            return false;
        };
        let (_, bit) = self.fingers.asked.swap_remove(at);
        let known = self.get(node.id).is_none_or(|known| known.incarnation <= node.incarnation);
        if node.id != self.me.id && known && self.large {
            self.fingers.put(Finger { bit, node });
            cx.note(Note::FingerFound);
        }
        true
    }
}
