//! Chord rings that are there from the start. A large ring takes long to grow one by one, and for measuring ways through
//! it nobody needs to have seen it grow: every node is told of its neighbours as a small ring tells them, with the list
//! that makes it take over, and whoever looks fingers up is answered at once, rightly.

use kringle_core::contact::Contact;
use kringle_core::edge::{Command, Input, Timer};
use kringle_core::id::Key;
use kringle_core::message::{Body, HopAck, Outcome, Payload, Receipt, Routed};
use kringle_core::overlay::chord::Message;

use super::World;

/// A lookup that was asked while the ring was made.
pub(super) struct Finger {
    by: Contact,
    to: Contact,
    hop: u32,
    serial: u32,
    key: Key,
}

/// Members before a node that its first list has: the ring begins with three more than successors.
const BEFORE: usize = 2;
/// A round of fingers is looked up in fewer turns than this.
const TURNS: usize = 64;

impl World {
    /// Makes a ring of `count` Chord nodes with random ids, each with its successors, predecessor and fingers. The nodes
    /// are the product's own, and know all this from messages; only those messages come from nobody.
    ///
    /// # Panics
    /// If the world is not empty or its nodes are not Chord's.
    pub fn form_chord(&mut self, count: usize) {
        assert!(self.is_empty(), "a ring is formed in an empty world");
        let mut ring: Vec<Contact> = (0..count)
            .map(|_| {
                let node = self.spawn_random();
                self.contact(node)
            })
            .collect();
        ring.sort_by_key(|node| node.id);
        let successors = usize::from(self.config.successors);
        for (at, node) in ring.iter().enumerate() {
            let neighbour = |step: usize| ring[(at + count + step - BEFORE) % count];
            let mut list: Vec<Contact> = match successors + BEFORE + 1 {
                all if all >= count => ring.clone(),
                some => (0..some).map(neighbour).collect(),
            };
            list.sort_by_key(|member| member.id);
            let next = ring[(at + 1) % count];
            // A ring of one has nobody to join through.
            let command = if count == 1 { Command::Create } else { Command::Join { seeds: vec![next] } };
            self.command(node.addr.0, command);
            if count > 1 {
                let ring = list.len() >= successors + 3;
                let body = Body::Chord(Message::Commit { epoch: 1, ring, list });
                self.input(node.addr.0, Input::Message { from: next, body });
            }
        }
        for node in &ring {
            self.find_fingers(*node, &ring);
        }
        self.replies.clear();
    }

    /// Lets a node look its fingers up, for one round.
    fn find_fingers(&mut self, node: Contact, ring: &[Contact]) {
        let mut farthest = None;
        for _ in 0..TURNS {
            self.fingers = Some(Vec::new());
            self.input(node.addr.0, Input::Timer(Timer::Fingers));
            let asked = self.fingers.take().unwrap_or_default();
            let over = asked.is_empty() || asked.iter().any(|finger| Some(finger.key) == farthest);
            farthest = farthest.or(asked.first().map(|finger| finger.key));
            for Finger { by, to, hop, serial, key } in asked {
                let ack = Body::HopAck(HopAck { hop, taken: true, better: None });
                self.input(node.addr.0, Input::Message { from: to, body: ack });
                let root = ring[ring.partition_point(|member| member.id < key) % ring.len()];
                let receipt =
                    Receipt { to: by, serial, hops: 1, by: root, outcome: Outcome::Found(Vec::new()) };
                let body = Body::Receipt(Box::new(receipt));
                self.input(node.addr.0, Input::Message { from: root, body });
            }
            if over {
                return;
            }
        }
    }

    /// Says whether a message is a lookup that is going to be answered at once.
    pub(super) fn is_answered_at_once(&mut self, from: u32, to: Contact, body: &Body) -> bool {
        let Some(asked) = &mut self.fingers else { return false };
        match body {
            Body::Routed(Routed { payload: Payload::Lookup, origin, key, serial, hop, .. })
                if origin.addr.0 == from =>
            {
                asked.push(Finger { by: *origin, to, hop: *hop, serial: *serial, key: *key });
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kringle_core::config::{OverlayKind, Settings};

    use super::*;
    use crate::invariants::{neighbours_are_exact, one_root_per_key, ring_is_ideal};

    #[test]
    fn a_formed_ring_is_as_one_that_grew() {
        for (count, successors) in [(1, 3), (4, 3), (6, 3), (200, 8)] {
            let settings = Settings { overlay: OverlayKind::Chord, successors, ..Settings::lab() };
            let mut world = World::new(settings, 7);
            world.form_chord(count);
            for again in 0..2 {
                assert_eq!(world.ready().count(), count, "{count} nodes, {again}");
                neighbours_are_exact(&world).unwrap();
                ring_is_ideal(&world).unwrap();
                one_root_per_key(&world, &[world.contact(0).id, world.contact(0).id.plus(1)]).unwrap();
                for (_, node) in world.ready() {
                    let chord = node.overlay().as_chord().unwrap();
                    let me = node.me().id;
                    for finger in chord.fingers() {
                        let start = finger.start(me);
                        let first = world
                            .ready()
                            .map(|(_, other)| other.me())
                            .min_by_key(|other| start.clockwise_to(other.id));
                        assert_eq!(Some(finger.node), first);
                    }
                    assert!(count < 200 || chord.fingers().len() >= 3);
                }
                // Left alone, nothing changes.
                world.run_for(Duration::from_secs(100));
            }
        }
    }
}
