//! What the stores of two nodes say to each other.

use alloc::vec::Vec;

use minicbor::{Decode, Encode};

use super::coding::{Shared, Sum};
use super::op::{Action, Answer, Ask, Change, Found, Listed, Trouble};
use super::record::{Cell, Rank};
use super::version::Version;
use super::view::{Ballot, Next, View};
use crate::contact::Contact;
use crate::id::NodeId;

/// A message of the store, and nodes it names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The message.
    pub message: Message,
    /// Nodes it names: whoever holds the copies, as far as the sender knows.
    pub contacts: Vec<Contact>,
}

/// A message of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Message {
    /// Asks a holder of the key to do something. Answered by [`Message::Answer`].
    #[n(0)]
    Ask {
        /// The asker's number.
        #[n(0)]
        serial: u32,
        /// What.
        #[n(1)]
        ask: Ask,
        /// The version of what is written, if it is written without condition.
        #[n(2)]
        version: Version,
        /// How long the asker waits, in milliseconds.
        #[n(3)]
        patience: u32,
        /// Counts how often the asker has asked. What answers an earlier turn says nothing about this one.
        #[n(4)]
        turn: u8,
        /// The asker's cluster time when it was asked, in milliseconds: times to live count from here.
        #[n(5)]
        #[cbor(default)]
        at: u64,
        /// The cluster time, in milliseconds, after which the asker no longer waits: a coordinator that was stopped must not
        /// do then what the asker's user took for lost.
        #[n(6)]
        #[cbor(default)]
        until: u64,
    },
    /// Ends an ask.
    #[n(1)]
    Answer {
        /// The asker's number.
        #[n(0)]
        serial: u32,
        /// How it ended.
        #[n(1)]
        response: Response,
        /// The asker's turn.
        #[n(2)]
        turn: u8,
    },
    /// A coordinator wants one step done by a member of the view. Answered by [`Message::Did`].
    #[n(2)]
    Do {
        /// The coordinator's number.
        #[n(0)]
        nonce: u32,
        /// Which slot.
        #[n(1)]
        slot: u32,
        /// Under which epoch; any other is refused.
        #[n(2)]
        epoch: u64,
        /// What.
        #[n(3)]
        step: Step,
    },
    /// A member has done its step, durably, or did not.
    #[n(3)]
    Did {
        /// The coordinator's number.
        #[n(0)]
        nonce: u32,
        /// What came of it.
        #[n(1)]
        verdict: Verdict,
        /// How far the member's disk has come.
        #[n(2)]
        age: u64,
    },
    /// What members of slots tell each other about their views, many slots at a time.
    #[n(4)]
    Slots(#[n(0)] Vec<Item>),
    /// Asks for what the sender lacks of a slot. Answered by [`Message::Page`].
    #[n(5)]
    Pull {
        /// The puller's number.
        #[n(0)]
        nonce: u32,
        /// Which slot.
        #[n(1)]
        slot: u32,
        /// The sums of the puller's records, by part of the slot.
        #[n(2)]
        parts: Vec<Sum>,
        /// Go on after this cell.
        #[n(3)]
        after: Option<Cell>,
        /// Whether records are wanted even if the sender does not rely on them: a slot is rebuilt.
        #[n(4)]
        #[cbor(default)]
        any: bool,
        /// How many bytes are wanted at a time, about.
        #[n(5)]
        #[cbor(default)]
        bytes: u32,
        /// Whether the sender lost records of the slot: what it acknowledged before no longer counts.
        #[n(6)]
        #[cbor(default)]
        doubts: bool,
        /// Then: the cells it doubts. Empty: all of them.
        #[n(7)]
        #[cbor(default)]
        doubted: Vec<u64>,
    },
    /// Records of a slot.
    #[n(6)]
    Page {
        /// The puller's number.
        #[n(0)]
        nonce: u32,
        /// The epoch the source is in; zero: it has nothing to give.
        #[n(1)]
        epoch: u64,
        /// The sum of all records of the source.
        #[n(2)]
        state: Sum,
        /// Whether the source may be relied on alone: it has caught up.
        #[n(3)]
        ready: bool,
        /// The parts that differ: whatever of them is not in this and the next pages, the source does not have.
        #[n(4)]
        parts: Vec<u16>,
        /// Records of those parts, in order.
        #[n(5)]
        records: Vec<(Cell, Shared)>,
        /// Whether there is more.
        #[n(6)]
        more: bool,
        // 7 was the highest ballot that the source promised.
    },
    /// Compares everything the sender looks after and the receiver has a copy of.
    #[n(7)]
    Compare(#[n(0)] Compare),
    // 8 said that the sender wants out. Its clock reading says so now, which is answered.
    /// The sender stops for a while and will be back with all it has.
    #[n(9)]
    Pausing,
    /// What the sender's clocks say.
    #[n(10)]
    Clock(#[n(0)] ClockReading),
    /// Asks what the receiver holds, for a recovery.
    #[n(11)]
    Survey {
        /// Whether slots without a quorum are to be frozen, because they are rebuilt from what is told now.
        #[n(0)]
        freeze: bool,
    },
    /// What the sender holds.
    #[n(12)]
    Surveyed(#[n(0)] StoreReport),
}

impl Message {
    /// Returns about how many bytes it carries.
    pub fn weight(&self) -> usize {
        let records = |records: &[(Cell, Shared)]| -> usize {
            records.iter().map(|(cell, record)| cell.key.0.len() + record.0.len()).sum()
        };
        match self {
            Message::Ask { ask, .. } => match &ask.action {
                Action::Change { change: Change::Put { value, .. }, .. } | Action::Add { value, .. } => {
                    value.len()
                }
                _ => 0,
            },
            Message::Answer { response: Response::Done(answer), .. } => match &answer.found {
                Found::Value(Some(value)) => value.bytes.len(),
                Found::Members(values) => values.iter().map(|value| value.bytes.len() + 24).sum(),
                Found::Keys { keys, .. } => keys.iter().map(|listed| listed.name.bytes.len() + 32).sum(),
                _ => 0,
            },
            Message::Do { step: Step::Accept { record, .. }, .. } => record.0.len(),
            Message::Did { verdict, .. } => match verdict {
                Verdict::Promised(Some(record)) | Verdict::Holds(Some(record)) => record.0.len(),
                Verdict::Listed(list, _) => records(list),
                Verdict::Keys(keys, _) => keys.iter().map(|listed| listed.name.bytes.len() + 32).sum(),
                _ => 0,
            },
            Message::Page { records: list, .. } => records(list),
            _ => 0,
        }
    }

    /// Returns the number that ties answer to question.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Message::Ask { serial, .. } | Message::Answer { serial, .. } => *serial,
            Message::Do { nonce, .. }
            | Message::Did { nonce, .. }
            | Message::Pull { nonce, .. }
            | Message::Page { nonce, .. } => *nonce,
            _ => 0,
        }
    }
}

/// Two nodes compare what they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Compare {
    /// The sum over slots, epochs and states.
    #[n(0)]
    pub sum: Sum,
    /// Whether it answers one, and equal or not.
    #[n(2)]
    pub reply: Option<bool>,
    /// When the sender's disk was empty.
    #[n(3)]
    pub born: u32,
    /// How far the sender's disk has come.
    #[n(4)]
    pub age: u64,
    /// How far the receiver's disk had come when the sender last heard of it.
    #[n(5)]
    pub known: u64,
}

/// What the clocks of a node say, and what all nodes are to know of each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct ClockReading {
    /// The asker's number.
    #[n(0)]
    pub nonce: u32,
    /// Whether it answers one.
    #[n(1)]
    pub is_answer: bool,
    /// The sender's cluster time, in milliseconds since 1970.
    #[n(2)]
    pub time: u64,
    /// Its wall clock, likewise.
    #[n(3)]
    pub wall: u64,
    /// Whether its cluster time is the cluster's, or only its own wall clock.
    #[n(4)]
    pub settled: bool,
    /// The highest version it has stored.
    #[n(5)]
    pub hybrid: Version,
    /// Its disk.
    #[n(6)]
    pub born: u32,
    /// Nodes that were retired for good.
    #[n(7)]
    pub retired: Vec<NodeId>,
    /// Whether it can take more records.
    #[n(8)]
    pub has_room: bool,
    /// Whether it wants out: its copies are to be made elsewhere.
    #[n(9)]
    #[cbor(default)]
    pub leaving: bool,
}

/// What a node holds, as a recovery has to know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct StoreReport {
    /// The lineage of its store; zero: none.
    #[n(0)]
    pub lineage: u64,
    /// Slots it is a replica of and whose view can go on, a bit each.
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub healthy: Vec<u8>,
    /// Slots it is a replica of and whose view cannot.
    #[n(2)]
    pub stuck: Vec<SlotReport>,
}

/// A slot without a quorum, as one replica knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct SlotReport {
    /// The slot.
    #[n(0)]
    pub slot: u32,
    /// The epoch of its view.
    #[n(1)]
    pub epoch: u64,
    /// Records this replica has.
    #[n(2)]
    pub records: u32,
    /// Whether it had caught up and relies on them.
    #[n(3)]
    pub ready: bool,
    /// The members of the view.
    #[n(4)]
    pub members: Vec<NodeId>,
}

/// How an ask ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Response {
    /// Done.
    #[n(0)]
    Done(#[n(0)] Answer),
    /// Not done, or nobody knows.
    #[n(1)]
    Failed(#[n(0)] Trouble),
    /// Nothing was done: the version must be greater than this.
    #[n(2)]
    Outdated(#[n(0)] Version),
    /// Ask somebody else: this one does not hold the key, or no longer.
    #[n(3)]
    Elsewhere {
        /// Whether some members may have taken it.
        #[n(0)]
        begun: bool,
    },
}

/// One step of an operation at one member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Step {
    /// Take this record, unless something greater was taken or promised.
    #[n(0)]
    Accept {
        /// Which record.
        #[n(0)]
        cell: Cell,
        /// The record.
        #[n(1)]
        record: Shared,
        /// For a value of a set: the key must hold the set of this number.
        #[n(2)]
        set: Option<u64>,
        /// And it must have been agreed on under this ballot.
        #[n(3)]
        agreed: Option<Version>,
    },
    /// Promise to take nothing lower than this, and tell what is there.
    #[n(1)]
    Prepare {
        /// Which record.
        #[n(0)]
        cell: Cell,
        /// The ballot.
        #[n(1)]
        ballot: Version,
    },
    /// Tell what is there, unless it is this.
    #[n(2)]
    Read {
        /// Which record.
        #[n(0)]
        cell: Cell,
        /// What the coordinator has.
        #[n(1)]
        known: Rank,
        /// Whether the rank is enough.
        #[n(2)]
        brief: bool,
    },
    /// Tell the set of a key, unless it has this sum.
    #[n(3)]
    List {
        /// The key.
        #[n(0)]
        cell: Cell,
        /// The sum of what the coordinator has.
        #[n(1)]
        known: Sum,
        /// Go on after this record.
        #[n(2)]
        after: Option<Cell>,
    },
    /// Tell which keys there are.
    #[n(4)]
    Keys {
        /// From this cell on, not included.
        #[n(0)]
        after: Cell,
        /// How many.
        #[n(1)]
        limit: u32,
    },
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Verdict {
    /// Taken, durably.
    #[n(0)]
    Taken,
    /// Something at least this great was taken or promised.
    #[n(1)]
    Refused(#[n(0)] Version),
    /// Promised, durably; this is there.
    #[n(2)]
    Promised(#[n(0)] Option<Shared>),
    /// It is what the coordinator has.
    #[n(3)]
    Same,
    /// This is there.
    #[n(4)]
    Holds(#[n(0)] Option<Shared>),
    /// A record of this rank and version is there.
    #[n(5)]
    Ranked(#[n(0)] Rank, #[n(1)] Version),
    /// These records make up the set, the key's own first; whether there are more.
    #[n(6)]
    Listed(
        #[n(0)] Vec<(Cell, Shared)>,
        #[n(1)]
        #[cbor(default)]
        bool,
    ),
    /// These keys are there; whether there are more.
    #[n(7)]
    Keys(#[n(0)] Vec<Listed>, #[n(1)] bool),
    /// The key does not hold that set; this is there instead.
    #[n(8)]
    OtherSet(#[n(0)] Option<Shared>),
    /// The sender is in this epoch, not in that of the step.
    #[n(9)]
    WrongView(#[n(0)] u64),
    /// Not now: the view is changing, or the sender has not caught up.
    #[n(10)]
    NotReady,
    /// The disk is full.
    #[n(11)]
    NoSpace,
    /// The version is too far ahead of the sender's clock.
    #[n(12)]
    Ahead,
    /// The step makes no sense.
    #[n(13)]
    Malformed,
}

/// A word about one slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Item {
    /// Which slot.
    #[n(0)]
    pub slot: u32,
    /// The word.
    #[n(1)]
    pub word: Word,
}

/// What members of one slot tell each other about its view.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Word {
    /// Promise this ballot for the successor of the epoch, and serve no more under the epoch.
    #[n(0)]
    Freeze {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The ballot.
        #[n(1)]
        ballot: Ballot,
    },
    /// Promised; this is the state now, and what was accepted.
    #[n(1)]
    Frozen {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The ballot.
        #[n(1)]
        ballot: Ballot,
        /// The sum of the records.
        #[n(2)]
        state: Sum,
        /// What was accepted before, under which ballot.
        #[n(3)]
        accepted: Option<(Ballot, Next)>,
        /// Whether the sender had caught up with the epoch: if not, its records count for nothing.
        #[n(4)]
        counts: bool,
    },
    /// Pull what you lack from the sender until your state is this.
    #[n(2)]
    Settle {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The ballot.
        #[n(1)]
        ballot: Ballot,
        /// The sum of the records.
        #[n(2)]
        state: Sum,
    },
    /// The state is that.
    #[n(3)]
    Settled {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The ballot.
        #[n(1)]
        ballot: Ballot,
        /// The sum of the records.
        #[n(2)]
        state: Sum,
    },
    /// Accept this as the successor of the epoch.
    #[n(4)]
    Propose {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The ballot.
        #[n(1)]
        ballot: Ballot,
        /// The successor.
        #[n(2)]
        next: Next,
    },
    /// Accepted.
    #[n(5)]
    Accepted {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The ballot.
        #[n(1)]
        ballot: Ballot,
    },
    /// A greater ballot was promised.
    #[n(6)]
    Nack {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The ballot.
        #[n(1)]
        promised: Ballot,
    },
    /// This view was decided, and began with this state.
    #[n(7)]
    View {
        /// The view.
        #[n(0)]
        view: View,
        /// The sum of the records.
        #[n(1)]
        entered: Sum,
    },
    /// Tell me the view; I know this epoch.
    #[n(8)]
    Seek {
        /// The epoch.
        #[n(0)]
        epoch: u64,
    },
    /// You are to become a member: get the records.
    #[n(9)]
    Learn {
        /// The view.
        #[n(0)]
        view: View,
        /// Whether a write waits for it.
        #[n(1)]
        #[cbor(default)]
        urgent: bool,
    },
    /// I have the records, as of this epoch; this is my disk.
    #[n(10)]
    Learnt {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// When the disk was empty.
        #[n(1)]
        born: u32,
    },
    /// This is my state; if yours differs, we exchange.
    #[n(11)]
    State {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The sum of the records.
        #[n(1)]
        state: Sum,
    },
    /// I am not in the view of this epoch: may I forget the slot?
    #[n(12)]
    Forget {
        /// The epoch.
        #[n(0)]
        epoch: u64,
    },
    /// I have caught up with this epoch: as far as I am concerned, you may.
    #[n(13)]
    Safe {
        /// The epoch.
        #[n(0)]
        epoch: u64,
    },
    /// All members have this state: drop what is deleted and older than this.
    #[n(14)]
    Collect {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The sum of the records.
        #[n(1)]
        state: Sum,
        /// How old.
        #[n(2)]
        before: Version,
        /// Values that ended up to this time are reduced to tombstones.
        #[n(3)]
        #[cbor(default)]
        expired: u64,
    },
    /// An operator wants the slot rebuilt from what these replicas have, without a quorum.
    #[n(18)]
    Rebuild {
        /// The epoch that has no quorum.
        #[n(0)]
        epoch: u64,
        /// The replicas there are.
        #[n(1)]
        survivors: Vec<NodeId>,
    },
    /// A write waits until the view has more members.
    #[n(17)]
    Hurry {
        /// The epoch.
        #[n(0)]
        epoch: u64,
    },
    /// You take me for a member I am not: this is my disk.
    #[n(16)]
    Stranger {
        /// When it was empty.
        #[n(0)]
        born: u32,
    },
    /// My state is that of your word.
    #[n(15)]
    Same {
        /// The epoch.
        #[n(0)]
        epoch: u64,
        /// The sum of the records.
        #[n(1)]
        state: Sum,
    },
}
