//! What Chord nodes say to each other, as data.

use alloc::vec::Vec;

use crate::contact::Contact;
use crate::id::Id;
use crate::message::Nonce;

/// A message of Chord. Every answer carries the number of its question; only an answer to the open one counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// Asks for the node before `of` that is nearest to it, as far as the receiver knows.
    GetBestPredecessor {
        /// Returned in the answer.
        nonce: Nonce,
        /// The place on the ring.
        of: Id,
        /// Who wants to know.
        asker: Asker,
    },
    /// Answers [`Message::GetBestPredecessor`]; the sender names itself if it knows nobody nearer.
    GotBestPredecessor {
        /// The question's.
        nonce: Nonce,
        /// The nearest node before that place.
        node: Contact,
    },
    /// Asks for the receiver's successor list.
    GetSuccList {
        /// Returned in the answer.
        nonce: Nonce,
        /// Who wants to know.
        asker: Asker,
    },
    /// Answers [`Message::GetSuccList`]; empty if the sender is not part of a ring.
    GotSuccList {
        /// The question's.
        nonce: Nonce,
        /// The sender's successors, nearest first.
        list: Vec<Contact>,
    },
    /// Asks for the receiver's predecessor and successor list.
    GetPredAndSuccs {
        /// Returned in the answer.
        nonce: Nonce,
    },
    /// Answers [`Message::GetPredAndSuccs`].
    GotPredAndSuccs {
        /// The question's.
        nonce: Nonce,
        /// The sender's predecessor, if it knows one.
        pred: Option<Contact>,
        /// The sender's successors, nearest first.
        list: Vec<Contact>,
    },
    /// The sender takes itself for the receiver's predecessor: look whether that is so.
    Notify,
    /// The question with this number has to wait: the receiver is changing its state itself.
    Busy {
        /// The question's.
        nonce: Nonce,
    },
    /// Asks for a [`Message::Pong`]. Answered at once by every member.
    Ping {
        /// Returned in the answer.
        nonce: Nonce,
    },
    /// Answers a ping.
    Pong {
        /// The question's.
        nonce: Nonce,
    },
    /// The sender leaves the ring. These come after it.
    Leaving {
        /// The leaver's successors, nearest first.
        list: Vec<Contact>,
    },
    /// The sender wants to become a member. A small ring admits it, a large one says how.
    Apply,
    /// Answers [`Message::Apply`], and the questions of those who take a member of a small group for one of their ring:
    /// turn to this node.
    Referred {
        /// The question's; 0 if it has none.
        nonce: Nonce,
        /// Who decides, or whom to join through.
        to: Contact,
        /// Whether that one is part of a ring too large to have lists of all its members: then join that ring.
        ring: bool,
    },
    /// Proposes the next list of all members. Whoever agrees agrees to no other of that number or below.
    Seal {
        /// The number of the list.
        epoch: u32,
        /// The number of the list that holds, as far as the sender knows.
        base: u32,
        /// Whether the members are a ring, which goes by lists of its own.
        ring: bool,
        /// All members-to-be.
        list: Vec<Contact>,
    },
    /// Answers [`Message::Seal`].
    Sealed {
        /// The number of the list, or of a later one that stands in its way.
        epoch: u32,
        /// Whether the sender agrees.
        agreed: bool,
        /// Whether the sender is part of a ring.
        ring: bool,
    },
    /// Everybody has agreed: these are the members.
    Commit {
        /// The number of the list.
        epoch: u32,
        /// Whether they are a ring, which goes by lists of its own.
        ring: bool,
        /// All members.
        list: Vec<Contact>,
    },
}

/// Who asks a question that both members and clients may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Asker {
    /// A node that will build its own state on the answer: it waits while the asked one is changing its state.
    Peer,
    /// Somebody who only wants to know where a key is: answered at once.
    Client,
}

impl Message {
    /// Returns the number that ties question and answer together, if there is one.
    pub fn nonce(&self) -> Option<Nonce> {
        match self {
            Message::GetBestPredecessor { nonce, .. }
            | Message::GotBestPredecessor { nonce, .. }
            | Message::GetSuccList { nonce, .. }
            | Message::GotSuccList { nonce, .. }
            | Message::GetPredAndSuccs { nonce }
            | Message::GotPredAndSuccs { nonce, .. }
            | Message::Busy { nonce }
            | Message::Ping { nonce }
            | Message::Pong { nonce } => Some(*nonce),
            Message::Referred { nonce, .. } if *nonce != 0 => Some(*nonce),
            _ => None,
        }
    }

    /// Gives the message another number. Checkers call states equal that differ only in those.
    pub fn set_nonce(&mut self, new: Nonce) {
        match self {
            Message::GetBestPredecessor { nonce, .. }
            | Message::GotBestPredecessor { nonce, .. }
            | Message::GetSuccList { nonce, .. }
            | Message::GotSuccList { nonce, .. }
            | Message::GetPredAndSuccs { nonce }
            | Message::GotPredAndSuccs { nonce, .. }
            | Message::Busy { nonce }
            | Message::Ping { nonce }
            | Message::Pong { nonce }
            | Message::Referred { nonce, .. } => *nonce = new,
            _ => {}
        }
    }

    /// Says whether this is a question about state, which is answered by [`Message::Busy`] at a bad moment.
    pub fn is_question(&self) -> bool {
        matches!(
            self,
            Message::GetBestPredecessor { .. }
                | Message::GetSuccList { .. }
                | Message::GetPredAndSuccs { .. }
        )
    }

    /// Says whether this question is a client's.
    pub fn is_of_client(&self) -> bool {
        matches!(
            self,
            Message::GetBestPredecessor { asker: Asker::Client, .. }
                | Message::GetSuccList { asker: Asker::Client, .. }
        )
    }
}
