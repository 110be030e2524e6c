//! What the world says to a Chord node: as a quiet ring would, or whatever dice say.

use std::time::Duration;

use kringle_core::contact::Contact;
use kringle_core::dice::Dice;
use kringle_core::edge::Input;
use kringle_core::message::Body;
use kringle_core::overlay::Overlay;
use kringle_core::overlay::chord::{Asker, Message};

use super::Driver;

impl Driver {
    /// The others of a quiet ring, going clockwise from a node.
    fn ring_after(&self, from: Contact) -> Vec<Contact> {
        let mut ring: Vec<Contact> =
            (16..28).map(|at| self.peer(at)).filter(|peer| peer.id != from.id).collect();
        ring.sort_by_key(|peer| from.id.clockwise_to(peer.id));
        ring.truncate(self.config.successors.into());
        ring
    }

    /// The last of them before this node.
    fn before_me(&self) -> Contact {
        let me = self.me();
        let ring = (16..28).map(|at| self.peer(at)).filter(|peer| peer.id != me);
        ring.min_by_key(|peer| peer.id.clockwise_to(me)).unwrap_or(self.peer(16))
    }

    /// Answers as a quiet ring would.
    pub(super) fn answer_chord_honestly(&mut self, from: Contact, message: Message) {
        let (speaker, answer) = match message {
            Message::Apply => (from, Message::Referred { nonce: 0, to: self.before_me(), ring: true }),
            Message::GetBestPredecessor { nonce, .. } => {
                (from, Message::GotBestPredecessor { nonce, node: self.before_me() })
            }
            Message::GetSuccList { nonce, .. } => {
                (from, Message::GotSuccList { nonce, list: self.ring_after(from) })
            }
            Message::GetPredAndSuccs { nonce } => {
                (from, Message::GotPredAndSuccs { nonce, pred: None, list: self.ring_after(from) })
            }
            Message::Ping { nonce } => (from, Message::Pong { nonce }),
            Message::Seal { epoch, .. } => (from, Message::Sealed { epoch, agreed: true, ring: true }),
            Message::Notify => (self.before_me(), Message::Notify),
            _ => return,
        };
        self.feed(Input::Message { from: speaker, body: Body::Chord(answer) });
    }

    /// Everybody beside the node leaves, and names somebody nobody knows.
    pub(super) fn lose_chord(&mut self) {
        for from in self.node.overlay().neighbours() {
            let body = Body::Chord(Message::Leaving { list: vec![self.peer(1)] });
            self.feed(Input::Message { from, body });
        }
        self.advance(Duration::from_millis(1));
    }

    /// An answer that fits the question; what it says is another matter.
    pub(super) fn chord_answer(&self, question: &Message, choices: &mut dyn Dice) -> Message {
        let nonce = question.nonce().unwrap_or_default();
        match (question, choices.below(8)) {
            (Message::GetBestPredecessor { .. } | Message::GetSuccList { .. }, 0)
            | (Message::GetPredAndSuccs { .. }, 0) => Message::Busy { nonce },
            (Message::GetBestPredecessor { .. }, 1) => {
                Message::GotSuccList { nonce, list: self.contacts(choices) }
            }
            (Message::GetPredAndSuccs { .. } | Message::Ping { .. }, 1) => {
                Message::Referred { nonce, to: self.contact(choices), ring: choices.below(2) == 0 }
            }
            (Message::GetBestPredecessor { .. }, _) => {
                Message::GotBestPredecessor { nonce, node: self.contact(choices) }
            }
            (Message::GetSuccList { .. }, _) => Message::GotSuccList { nonce, list: self.clockwise(choices) },
            (Message::GetPredAndSuccs { .. }, _) => {
                let pred = (choices.below(2) == 0).then(|| self.contact(choices));
                Message::GotPredAndSuccs { nonce, pred, list: self.clockwise(choices) }
            }
            (Message::Ping { .. }, _) => Message::Pong { nonce },
            (Message::Apply, at) => {
                let (to, ring) = (self.contact(choices), at % 2 == 0);
                match at {
                    0..4 => Message::Referred { nonce: 0, to, ring },
                    _ => Message::Commit { epoch: 1 + at as u32, ring, list: self.group(choices) },
                }
            }
            (Message::Seal { epoch, .. }, at) => {
                Message::Sealed { epoch: *epoch, agreed: at > 1, ring: at % 2 == 0 }
            }
            _ => self.chord_message(choices),
        }
    }

    /// A list as somebody's successors may be: in order.
    fn clockwise(&self, choices: &mut dyn Dice) -> Vec<Contact> {
        let (from, mut list) = (self.contact(choices), self.contacts(choices));
        if choices.below(8) > 0 {
            list.sort_by_key(|node| from.id.clockwise_to(node.id));
            list.dedup_by_key(|node| node.id);
        }
        list
    }

    /// A list of all members of a group, mostly with the node itself.
    fn group(&self, choices: &mut dyn Dice) -> Vec<Contact> {
        let mut list = self.contacts(choices);
        if choices.below(8) > 0 {
            list.push(self.node.me());
            list.sort_by_key(|node| node.id);
            list.dedup_by_key(|node| node.id);
        }
        list
    }

    /// Any message at all.
    pub(super) fn chord_message(&self, choices: &mut dyn Dice) -> Message {
        let nonce = self.nonce(choices);
        let asker = if choices.below(2) == 0 { Asker::Peer } else { Asker::Client };
        let number = || [0, 1, 2, 3, 4, u32::MAX - 1, u32::MAX];
        match choices.below(20) {
            0 => Message::GetBestPredecessor { nonce, of: self.id(choices), asker },
            1 => Message::GotBestPredecessor { nonce, node: self.contact(choices) },
            2 => Message::GetSuccList { nonce, asker },
            3 => Message::GotSuccList { nonce, list: self.clockwise(choices) },
            4 | 5 => Message::GetPredAndSuccs { nonce },
            6 => {
                let pred = (choices.below(2) == 0).then(|| self.contact(choices));
                Message::GotPredAndSuccs { nonce, pred, list: self.clockwise(choices) }
            }
            7 | 8 => Message::Notify,
            9 => Message::Busy { nonce },
            10 => Message::Ping { nonce },
            11 => Message::Pong { nonce },
            12 => Message::Leaving { list: self.clockwise(choices) },
            13 => Message::Apply,
            14 | 15 => {
                let (to, ring) = (self.contact(choices), choices.below(2) == 0);
                Message::Referred { nonce: [0, nonce][choices.below(2)], to, ring }
            }
            16 | 17 => {
                let (epoch, base) = (number()[choices.below(7)], number()[choices.below(7)]);
                Message::Seal { epoch, base, ring: choices.below(2) == 0, list: self.group(choices) }
            }
            18 => Message::Sealed {
                epoch: number()[choices.below(7)],
                agreed: choices.below(2) == 0,
                ring: choices.below(2) == 0,
            },
            _ => {
                let (epoch, ring) = (number()[choices.below(7)], choices.below(2) == 0);
                Message::Commit { epoch, ring, list: self.group(choices) }
            }
        }
    }
}
