//! What a user can ask of the store, and what it answers.

use alloc::vec::Vec;
use core::time::Duration;

use super::version::Version;
use crate::contact::Contact;
use crate::id::Key;

/// The name of a record: any bytes, and where they are placed on the ring. The driver hashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Its place.
    pub id: Key,
    /// The key itself, one byte at least.
    pub bytes: Vec<u8>,
}

/// Names one value of a set: the first 16 bytes of its BLAKE3 hash. The driver hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 16]);

/// How many copies an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// One: fast, and lost if that one is.
    One,
    /// More than half: what is acknowledged stays, and is read.
    #[default]
    Quorum,
    /// Every one.
    All,
}

/// One operation on the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// On which key. For [`Action::Keys`] only the place matters.
    pub name: Name,
    /// What to do.
    pub action: Action,
    /// How many copies to wait for.
    pub level: Level,
}

/// What to do with a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read its value. Answers [`Found::Value`].
    Get,
    /// Change it, if the condition holds. Answers [`Found::Changed`].
    Change {
        /// How.
        change: Change,
        /// If what. Anything but [`Condition::Always`] takes two rounds, and the level is at least quorum.
        condition: Condition,
    },
    /// Add a value to its set. Answers [`Found::Changed`].
    Add {
        /// Names the value.
        digest: Digest,
        /// The value.
        value: Vec<u8>,
        /// How long it stays.
        ttl: Option<Duration>,
    },
    /// Remove a value from its set. Answers [`Found::Changed`].
    Remove {
        /// Names the value.
        digest: Digest,
    },
    /// Read all values of its set. Answers [`Found::Members`].
    Members,
    /// Say where the copies are and what they hold. Answers [`Found::Place`].
    Place,
    /// List keys from this place on. Answers [`Found::Keys`].
    Keys {
        /// The last key of the page before, if there was one at this very place.
        after: Vec<u8>,
        /// How many at most.
        limit: u32,
    },
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// This value, whatever was there before, a set included.
    Put {
        /// The value; may be empty.
        value: Vec<u8>,
        /// How long it stays; `None`: until it is changed.
        ttl: Option<Duration>,
    },
    /// No value.
    Delete,
    /// A decimal number, greater by this much. Absent counts as 0. A condition that always holds is still conditional.
    Increment(i64),
    /// The same value with another time to live; `None`: no end. Conditional: there must be one.
    Expire(Option<Duration>),
}

/// What must be so for a change to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// The key has no value.
    Absent,
    /// The key has a value or a set.
    Present,
    /// The key is at this version.
    Version(Version),
}

/// A successful answer of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// What was found or done.
    pub found: Found,
    /// Copies that had it, durably, when this was answered.
    pub acked: u8,
    /// Copies the level asks for.
    pub wanted: u8,
    /// Copies there are to be.
    pub replicas: u8,
    /// Hops it took to whoever coordinated.
    pub hops: u8,
}

/// What was found or done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// The value of a key, if it has one.
    Value(Option<Value>),
    /// A change was made, or nothing had to be.
    Changed {
        /// The version of the key (of the value in its set, for a set) now; zero if nothing was changed.
        version: Version,
        /// Whether there was nothing before. For a removal: whether there was something.
        created: bool,
        /// The new number, of an increment.
        number: Option<i64>,
    },
    /// The values of a set, in the order of their digests.
    Members(Vec<Value>),
    /// Where the copies are.
    Place {
        /// The number of the slot.
        slot: u32,
        /// The epoch of its view.
        epoch: u64,
        /// The copies, nearest to the slot first.
        copies: Vec<CopyAt>,
    },
    /// Keys in the order of their places.
    Keys {
        /// The keys.
        keys: Vec<Listed>,
        /// Where to go on: a place and the last key there. `None`: once around.
        next: Option<(Key, Vec<u8>)>,
    },
}

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The version.
    pub version: Version,
    /// When it ends, in milliseconds since 1970.
    pub expires: Option<u64>,
}

/// One copy of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopyAt {
    /// Who holds it.
    pub node: Contact,
    /// Which version; `None`: it did not say. Zero: it has none.
    pub version: Option<Version>,
}

/// One key of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// Its name.
    pub name: Name,
    /// Its version.
    pub version: Version,
    /// Whether it holds a set.
    pub is_set: bool,
    /// When it ends, in milliseconds since 1970.
    pub expires: Option<u64>,
}

/// Why the store did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// Fewer copies than the level asks for could be reached or would take it.
    TooFewReplicas {
        /// Copies that have it.
        acked: u8,
        /// Copies the level asks for.
        wanted: u8,
        /// Whether it happened.
        happened: Happened,
    },
    /// Nobody answered in time.
    Timeout {
        /// Whether it happened.
        happened: Happened,
    },
    /// The condition does not hold; this is the version of the key, zero if it has no value.
    ConditionFailed(Version),
    /// The key holds a set and a value was asked for, or the other way round, or the value is not a number.
    WrongKind,
    /// The key, the value, or what the set would become, is larger than this.
    TooLarge {
        /// The limit that was passed: bytes, or members of a set.
        limit: u32,
    },
    /// The number would not fit 64 bits.
    OutOfRange,
    /// The key is empty, or a time to live makes no sense.
    BadRequest,
    /// There is no room on the disks.
    NoSpace,
    /// The clock of the node that coordinates is too far from the others'.
    ClockOff,
    /// Too much is under way; try again.
    Busy,
    /// Every copy that answered is damaged.
    Damaged,
}

/// Whether a write that failed happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Happened {
    /// It did not, and never will.
    No,
    /// Some copies have it: it may be read one day.
    Some,
    /// Not known.
    Unknown,
}
