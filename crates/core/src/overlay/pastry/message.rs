//! What Pastry nodes say to each other, as data.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::contact::{Contact, Proximity};
use crate::id::NodeId;
use crate::message::Nonce;

use super::routing_table::Entry;

/// Pastry's own messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The root of the joiner's id answers: everything collected on the way, and its own leaf set.
    JoinReply(Box<JoinReply>),
    /// The root of the joiner's id does not help, now or at all.
    JoinRefused {
        /// The nonce of the join.
        nonce: Nonce,
        /// Why.
        reason: JoinRefusal,
    },
    /// "I am your neighbour, are you there?" The receiver puts the sender into its leaf set before it answers.
    LeafProbe(Box<LeafProbe>),
    /// Answers a leaf probe, with the leaf set if the prober has not seen this version of it.
    LeafReply(Box<LeafReply>),
    /// "I have joined." The receiver offers the sender to its tables.
    Announce(Announce),
    /// "My tables have changed since you saw them": what changed. The receiver takes it in and announces again.
    Race(Box<Race>),
    /// Asks for a part of the receiver's state and may push the sender's own in exchange.
    StateRequest(Box<StateRequest>),
    /// Answers a state request.
    StateReply(Box<StateReply>),
    /// "I am leaving": the receiver forgets the sender and repairs with the leaf set that comes along.
    Goodbye(Box<Vec<Contact>>),
    /// "You are my neighbour on this side: will you leave my half of what lies between us to me?" The receiver puts the
    /// sender into its leaf set first, and says yes only if the sender is its neighbour, too.
    LeaseRequest(Box<LeaseRequest>),
    /// Answers a lease request, with the nearest leaves, so that whoever is refused learns why; without any from a node
    /// that is not sure of them yet.
    LeaseReply(Box<LeaseReply>),
    /// "Somebody nearer asks for the lease you hold from me: do you know it?"
    LeaseRecall(Box<LeaseRecall>),
    /// "I know somebody nearer than you: what you leased to me goes no farther than the middle between us two."
    LeaseReturn {
        /// The nonce of the lease.
        nonce: Nonce,
        /// The nearer node; nobody if the lease is given back altogether.
        nearer: Option<NodeId>,
    },
    /// "This node does not answer me." The receiver makes up its own mind with its own probes.
    Obituary(Contact),
}

/// How often each of a node's tables has changed: Wendy's counters. A hint that saves transfers, nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Versions {
    /// Changes of the leaf set.
    pub leaf_set: u32,
    /// Changes of the routing table.
    pub table: u32,
    /// Changes of the neighbourhood set.
    pub neighbourhood: u32,
}

impl Versions {
    /// Takes the greater of each counter, since a node's counters only grow.
    pub fn merge(self, other: Versions) -> Versions {
        Versions {
            leaf_set: self.leaf_set.max(other.leaf_set),
            table: self.table.max(other.table),
            neighbourhood: self.neighbourhood.max(other.neighbourhood),
        }
    }
}

/// A join on its way to the root of the joiner's id. The joiner is the origin of the routed message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Join {
    /// The joiner's nonce.
    pub nonce: Nonce,
    /// How many rows have been collected: row i comes from a node that shares at least i digits.
    pub rows_done: u8,
    /// The nodes on the way, with the versions of the tables they gave from.
    pub path: Vec<(Contact, Versions)>,
    /// What they gave: rows of their tables, and the first hop's neighbourhood set.
    pub contacts: Vec<Contact>,
}

/// What a joiner gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JoinReply {
    /// The collected join.
    pub join: Join,
    /// Whether the root's leaf set is the whole ring.
    pub whole: bool,
    /// The root's leaf set, going clockwise from the far end of its left side to that of its right one.
    pub leaves: Vec<Contact>,
    /// The versions of the root's tables.
    pub versions: Versions,
}

/// Why a join is not helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JoinRefusal {
    /// Too many joiners wait for the same helper: try again later.
    Busy,
    /// A live node has this id, in this or a later incarnation.
    IdTaken,
}

/// See [`Message::LeafProbe`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeafProbe {
    /// The prober's nonce.
    pub nonce: Nonce,
    /// The version of the receiver's leaf set the prober has seen, if any.
    pub seen: Option<u32>,
    /// The prober's own leaf set, when it wants to exchange rather than to introduce itself.
    pub leaves: Vec<Contact>,
    /// Instead of the leaf set: a digest of what the receiver should have of it. See [`super::leaf_set::LeafSet::digest`].
    pub digest: Option<u32>,
}

/// See [`Message::LeafReply`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeafReply {
    /// The nonce of the probe.
    pub nonce: Nonce,
    /// The version of this leaf set.
    pub version: u32,
    /// The leaf set, unless the prober has seen this very version.
    pub leaves: Option<Vec<Contact>>,
}

/// See [`Message::Announce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Announce {
    /// The versions of the receiver's tables the sender has built on. Nothing for a node known second hand, so that
    /// it causes no race round.
    pub seen: Option<Versions>,
    /// How near the sender measured the receiver to be: a reason to measure, never a measurement.
    pub proximity: Proximity,
    /// Counts repetitions, which end after a few.
    pub round: u8,
}

/// See [`Message::Race`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Race {
    /// The versions after the change.
    pub versions: Versions,
    /// Which announcement this answers.
    pub round: u8,
    /// The leaf set if that changed, the row the joiner can use if the table changed.
    pub contacts: Vec<Contact>,
}

/// A part of a node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The leaf set.
    LeafSet,
    /// One row of the routing table, with the sender itself in its own column. Rows past the last occupied one mean
    /// that last one.
    Row(u8),
    /// Whatever the receiver has for one cell of the asker's table.
    Cell {
        /// The row in the asker's table.
        row: u8,
        /// The column.
        column: u8,
    },
    /// The neighbourhood set.
    Neighbourhood,
}

/// See [`Message::StateRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateRequest {
    /// The asker's nonce.
    pub nonce: Nonce,
    /// What is wanted.
    pub what: What,
    /// The asker's own part of the same kind, so that one exchange serves both.
    pub push: Vec<Entry>,
    /// How near the asker measured the receiver to be. Like all nearness that is told, it only saves measurements.
    pub proximity: Proximity,
}

/// See [`Message::StateReply`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StateReply {
    /// The nonce of the request.
    pub nonce: Nonce,
    /// What this is; for a row, its real number.
    pub what: What,
    /// The contacts, each with how near it is to the sender.
    pub contacts: Vec<Entry>,
}

/// A side of a node on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flank {
    /// Counter-clockwise.
    Left,
    /// Clockwise.
    Right,
}

/// See [`Message::LeaseRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRequest {
    /// The asker's nonce.
    pub nonce: Nonce,
    /// The side of the asker on which the receiver is.
    pub side: Flank,
    /// For how many milliseconds more the asker holds a lease from the receiver, who may have forgotten it;
    /// `u32::MAX` from one that has not been part of the ring for a whole lease and can not tell.
    pub holds: u32,
    /// The asker's nearest leaves in ring order.
    pub leaves: Vec<Contact>,
    /// Whether the leaves are left out, because they are those the receiver last agreed to.
    pub same: bool,
}

/// See [`Message::LeaseReply`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseReply {
    /// The nonce of the request.
    pub nonce: Nonce,
    /// Whether the lease is granted, from the moment the request was received.
    pub granted: bool,
    /// The same for what the grantor holds from the asker.
    pub holds: u32,
    /// The grantor's nearest leaves in ring order.
    pub leaves: Vec<Contact>,
    /// Whether the leaves are left out: neither side's have changed since the receiver saw them.
    pub same: bool,
}

/// See [`Message::LeaseRecall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRecall {
    /// The nonce of the lease.
    pub nonce: Nonce,
    /// The side of the receiver on which the grantor is.
    pub side: Flank,
    /// Who asks.
    pub nearer: Contact,
}
