//! What a user can ask of the store, and what it answers.

use alloc::vec::Vec;
use core::time::Duration;

use super::version::Version;
use minicbor::{Decode, Encode};

use super::coding::{self, millis};
use crate::id::{Key, NodeId};

/// The name of a record: any bytes, and where they are placed on the ring. The driver hashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Name {
    /// Its place.
    #[n(0)]
    pub id: Key,
    /// The key itself, one byte at least.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
}

/// Names one value of a set: the first 16 bytes of its BLAKE3 hash. The driver hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Digest(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 16]);

/// How many copies an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub enum Level {
    /// One: fast, and lost if that one is.
    #[n(0)]
    One,
    /// More than half: what is acknowledged stays, and is read.
    #[default]
    #[n(1)]
    Quorum,
    /// Every one.
    #[n(2)]
    All,
}

/// One operation on the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Ask {
    /// On which key. For [`Action::Keys`] only the place matters.
    #[n(0)]
    pub name: Name,
    /// What to do.
    #[n(1)]
    pub action: Action,
    /// How many copies to wait for.
    #[n(2)]
    pub level: Level,
}

/// What to do with a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Action {
    /// Read its value. Answers [`Found::Value`].
    #[n(0)]
    Get,
    /// Change it, if the condition holds. Answers [`Found::Changed`].
    #[n(1)]
    Change {
        /// How.
        #[n(0)]
        change: Change,
        /// If what. Anything but [`Condition::Always`] takes two rounds, and the level is at least quorum.
        #[n(1)]
        condition: Condition,
    },
    /// Add a value to its set. Answers [`Found::Changed`].
    #[n(2)]
    Add {
        /// Names the value.
        #[n(0)]
        digest: Digest,
        /// The value.
        #[cbor(n(1), with = "minicbor::bytes")]
        value: Vec<u8>,
        /// How long it stays.
        #[cbor(n(2), with = "millis")]
        ttl: Option<Duration>,
    },
    /// Remove a value from its set. Answers [`Found::Changed`].
    #[n(3)]
    Remove {
        /// Names the value.
        #[n(0)]
        digest: Digest,
    },
    /// Read all values of its set. Answers [`Found::Members`].
    #[n(4)]
    Members,
    /// Say where the copies are and what they hold. Answers [`Found::Place`].
    #[n(5)]
    Place,
    /// List keys from this place on. Answers [`Found::Keys`].
    #[n(6)]
    Keys {
        /// The last key of the page before, if there was one at this very place.
        #[cbor(n(0), with = "minicbor::bytes")]
        after: Vec<u8>,
        /// How many at most.
        #[n(1)]
        limit: u32,
    },
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Change {
    /// This value, whatever was there before, a set included.
    #[n(0)]
    Put {
        /// The value; may be empty.
        #[cbor(n(0), with = "minicbor::bytes")]
        value: Vec<u8>,
        /// How long it stays; `None`: until it is changed.
        #[cbor(n(1), with = "millis")]
        ttl: Option<Duration>,
    },
    /// No value.
    #[n(1)]
    Delete,
    /// A decimal number, greater by this much. Absent counts as 0. A condition that always holds is still conditional.
    #[n(2)]
    Increment(#[n(0)] i64),
    /// The same value with another time to live; `None`: no end. Conditional: there must be one.
    #[n(3)]
    Expire(#[cbor(n(0), with = "millis")] Option<Duration>),
}

/// What must be so for a change to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub enum Condition {
    /// Nothing.
    #[default]
    #[n(0)]
    Always,
    /// The key has no value.
    #[n(1)]
    Absent,
    /// The key has a value or a set.
    #[n(2)]
    Present,
    /// The key is at this version.
    #[n(3)]
    Version(#[n(0)] Version),
}

/// A successful answer of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Answer {
    /// What was found or done.
    #[n(0)]
    pub found: Found,
    /// Copies that had it, durably, when this was answered.
    #[n(1)]
    pub acked: u8,
    /// Copies the level asks for.
    #[n(2)]
    pub wanted: u8,
    /// Copies there are to be.
    #[n(3)]
    pub replicas: u8,
    /// Hops it took to whoever coordinated.
    #[n(4)]
    pub hops: u8,
}

/// What was found or done.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Found {
    /// The value of a key, if it has one.
    #[n(0)]
    Value(#[n(0)] Option<Value>),
    /// A change was made, or nothing had to be.
    #[n(1)]
    Changed {
        /// The version of the key (of the value in its set, for a set) now; zero if nothing was changed.
        #[n(0)]
        version: Version,
        /// Whether there was nothing before. For a removal: whether there was something.
        #[n(1)]
        created: bool,
        /// The new number, of an increment.
        #[n(2)]
        number: Option<i64>,
    },
    /// The values of a set, in the order of their digests.
    #[n(2)]
    Members(#[n(0)] Vec<Value>),
    /// Where the copies are.
    #[n(3)]
    Place {
        /// The number of the slot.
        #[n(0)]
        slot: u32,
        /// The epoch of its view.
        #[n(1)]
        epoch: u64,
        /// The copies, nearest to the slot first.
        #[n(2)]
        copies: Vec<CopyAt>,
    },
    /// Keys in the order of their places.
    #[n(4)]
    Keys {
        /// The keys.
        #[n(0)]
        keys: Vec<Listed>,
        /// Where to go on: a place and the last key there. `None`: once around.
        #[cbor(n(1), with = "coding::position")]
        next: Option<(Key, Vec<u8>)>,
    },
}

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Value {
    /// The bytes.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
    /// The version.
    #[n(1)]
    pub version: Version,
    /// When it ends, in milliseconds since 1970.
    #[n(2)]
    pub expires: Option<u64>,
}

/// One copy of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct CopyAt {
    /// Who holds it.
    #[n(0)]
    pub node: NodeId,
    /// Which version; `None`: it did not say. Zero: it has none.
    #[n(1)]
    pub version: Option<Version>,
}

/// One key of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Listed {
    /// Its name.
    #[n(0)]
    pub name: Name,
    /// Its version.
    #[n(1)]
    pub version: Version,
    /// Whether it holds a set.
    #[n(2)]
    pub is_set: bool,
    /// When it ends, in milliseconds since 1970.
    #[n(3)]
    pub expires: Option<u64>,
}

/// Why the store did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum Trouble {
    /// Fewer copies than the level asks for could be reached or would take it.
    #[n(0)]
    TooFewReplicas {
        /// Copies that have it.
        #[n(0)]
        acked: u8,
        /// Copies the level asks for.
        #[n(1)]
        wanted: u8,
        /// Whether it happened.
        #[n(2)]
        happened: Happened,
    },
    /// Nobody answered in time.
    #[n(1)]
    Timeout {
        /// Whether it happened.
        #[n(0)]
        happened: Happened,
    },
    /// The condition does not hold; this is the version of the key, zero if it has no value.
    #[n(2)]
    ConditionFailed(#[n(0)] Version),
    /// The key holds a set and a value was asked for, or the other way round, or the value is not a number.
    #[n(3)]
    WrongKind,
    /// The key, the value, or what the set would become, is larger than this.
    #[n(4)]
    TooLarge {
        /// The limit that was passed: bytes, or members of a set.
        #[n(0)]
        limit: u32,
    },
    /// The number would not fit 64 bits.
    #[n(5)]
    OutOfRange,
    /// The key is empty, or a time to live makes no sense.
    #[n(6)]
    BadRequest,
    /// There is no room on the disks.
    #[n(7)]
    NoSpace {
        /// Whether it happened.
        #[n(0)]
        #[cbor(default)]
        happened: Happened,
    },
    /// The clock of the node that coordinates is too far from the others'.
    #[n(8)]
    ClockOff,
    /// Too much is under way; try again.
    #[n(9)]
    Busy,
    /// Every copy that answered is damaged.
    #[n(10)]
    Damaged,
}

impl Trouble {
    /// The same, if it may have happened for another reason.
    #[must_use]
    pub fn perhaps(self) -> Trouble {
        let happened = Happened::Unknown;
        match self {
            Trouble::TooFewReplicas { acked, wanted, happened: Happened::No } => {
                Trouble::TooFewReplicas { acked, wanted, happened }
            }
            Trouble::Timeout { happened: Happened::No }
            | Trouble::NoSpace { happened: Happened::No }
            | Trouble::ClockOff
            | Trouble::Busy => Trouble::Timeout { happened },
            other => other,
        }
    }
}

/// Whether a write that failed happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub enum Happened {
    /// It did not, and never will.
    #[n(0)]
    #[default]
    No,
    /// Some copies have it: it may be read one day.
    #[n(1)]
    Some,
    /// Not known.
    #[n(2)]
    Unknown,
}
