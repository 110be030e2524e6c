//! Why something did not happen: one type per kind of operation, and one that takes them all.
//!
//! Each variant says whether anything changed. What the network answered is a [`RequestError`] inside.

use kringle_core::id::{IdError, NodeId};
use kringle_core::store::op::{Happened, Trouble};
use kringle_core::store::version::Version;
use kringle_runtime::app::PURPOSE_MIN;
use kringle_runtime::builder::StartError;
use kringle_runtime::error::RequestError;
use kringle_runtime::seeds::SeedError;

/// Why a message was not carried, or its answer did not come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The purpose is one of Kringle's own. Nothing was sent; a mistake of the caller's.
    #[error("purpose {purpose} is one of Kringle's own; applications have {PURPOSE_MIN} and above")]
    ReservedPurpose {
        /// The purpose that was asked for.
        purpose: u32,
    },
    /// The request was made and ended so. [`RequestError::is_outcome_unknown`] says whether the message may have been
    /// delivered all the same.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Why a node did not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// A seed is no `host:port`. Nothing changed; a mistake of the caller's.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// Every seed is this node itself, it is part of a ring already, or the ring refused it.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Why a question about another node has no answer. Nothing changes by asking.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// It is this node itself. Happens when ids are taken from lists that may contain one's own.
    #[error("{0} is this node itself")]
    Myself(NodeId),
    /// This node does not know it. It may well be in the ring: nobody knows everybody.
    #[error("{0} is not known here")]
    Unknown(NodeId),
    /// This node could not be asked.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Why the store did not do what was asked, or can not say whether it did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no value whose time to live could be changed. Nothing changed.
    #[error("there is no such key")]
    NotFound,
    /// The condition does not hold. Nothing changed. Happens whenever several write one key on conditions.
    #[error("the condition does not hold: {}", current_text(.current))]
    ConditionFailed {
        /// The version the key is at; `None`: it has no value.
        current: Option<Version>,
    },
    /// The key holds a set and a value was asked for, or the other way round, or the value is no number. Nothing
    /// changed.
    #[error("the key holds another kind of thing")]
    WrongKind,
    /// The key, the value, or what the set would become, is larger than allowed. Nothing changed.
    #[error("larger than the limit of {limit}")]
    TooLarge {
        /// The limit: bytes, or values of a set.
        limit: u32,
    },
    /// The number would not fit 64 bits. Nothing changed.
    #[error("the number would not fit 64 bits")]
    OutOfRange,
    /// The key is empty, or the time to live makes no sense. Nothing changed; a mistake of the caller's.
    #[error("a key needs at least one byte, and a time to live must be later than now")]
    BadRequest,
    /// Fewer copies than asked for could be reached. `outcome` says whether a write happened.
    #[error("{acked} of {wanted} copies wanted took it; {}", outcome_text(*.outcome))]
    TooFewReplicas {
        /// Copies that have it.
        acked: u8,
        /// Copies that were asked for.
        wanted: u8,
        /// Whether it happened.
        outcome: Happened,
    },
    /// Nobody answered in time. `outcome` says whether a write happened.
    #[error("no answer in time; {}", outcome_text(*.outcome))]
    Timeout {
        /// Whether it happened.
        outcome: Happened,
    },
    /// A replica has no room on its disk. `outcome` says whether a write happened.
    #[error("no room left on a replica's disk; {}", outcome_text(*.outcome))]
    NoSpace {
        /// Whether it happened.
        outcome: Happened,
    },
    /// A clock is too far from the others. Nothing changed; an operator has to set it.
    #[error("the clock of the node that coordinates is too far from the others'")]
    ClockOff,
    /// Too much is under way. Nothing changed; try again a little later.
    #[error("too much is under way")]
    Busy,
    /// Every copy that answered is damaged.
    #[error("every copy that answered is damaged")]
    Damaged,
    /// The request did not get as far as the store.
    #[error(transparent)]
    Request(RequestError),
}

impl StoreError {
    /// Says whether a write may have happened, in whole or in part, although this came back. Before it is repeated,
    /// read what is there.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            StoreError::TooFewReplicas { outcome, .. }
            | StoreError::Timeout { outcome }
            | StoreError::NoSpace { outcome } => *outcome != Happened::No,
            StoreError::Request(error) => error.is_outcome_unknown(),
            _ => false,
        }
    }
}

impl From<RequestError> for StoreError {
    fn from(error: RequestError) -> StoreError {
        match error {
            RequestError::Store(trouble) => StoreError::from(trouble),
            other => StoreError::Request(other),
        }
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::TooFewReplicas { acked, wanted, happened } => {
                StoreError::TooFewReplicas { acked, wanted, outcome: happened }
            }
            Trouble::Timeout { happened } => StoreError::Timeout { outcome: happened },
            Trouble::ConditionFailed(current) => {
                StoreError::ConditionFailed { current: (current != Version::ZERO).then_some(current) }
            }
            Trouble::WrongKind => StoreError::WrongKind,
            Trouble::TooLarge { limit } => StoreError::TooLarge { limit },
            Trouble::OutOfRange => StoreError::OutOfRange,
            Trouble::BadRequest => StoreError::BadRequest,
            Trouble::NoSpace { happened } => StoreError::NoSpace { outcome: happened },
            Trouble::ClockOff => StoreError::ClockOff,
            Trouble::Busy => StoreError::Busy,
            Trouble::Damaged => StoreError::Damaged,
        }
    }
}

fn current_text(current: &Option<Version>) -> String {
    current.map_or("the key has no value".into(), |version| format!("the key is at version {version}"))
}

fn outcome_text(outcome: Happened) -> &'static str {
    match outcome {
        Happened::No => "nothing was written",
        Happened::Some => "some copies have it: it may be read one day",
        Happened::Unknown => "it may have been written",
    }
}

/// Any of the errors of this crate, for programs that treat them alike.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A node was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A seed is no `host:port`.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// A text or a byte string is no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A request ended without what was asked for.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A message was not carried.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A node did not join.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A question about another node has no answer.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The store did not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_that_may_have_happened_are_in_doubt() {
        let few = |happened| StoreError::from(Trouble::TooFewReplicas { acked: 1, wanted: 2, happened });
        assert!(!few(Happened::No).is_outcome_unknown());
        assert!(few(Happened::Some).is_outcome_unknown() && few(Happened::Unknown).is_outcome_unknown());
        assert!(StoreError::from(RequestError::Timeout).is_outcome_unknown());
        assert!(!StoreError::from(RequestError::Store(Trouble::Busy)).is_outcome_unknown());
        assert!(!StoreError::from(RequestError::NoStore).is_outcome_unknown());
    }

    #[test]
    fn a_failed_condition_names_the_version_or_that_there_is_none() {
        let text = |version| StoreError::from(Trouble::ConditionFailed(version)).to_string();
        assert!(text(Version(7)).ends_with("the key is at version 0000000000000007"));
        assert!(text(Version::ZERO).ends_with("the key has no value"));
    }
}
