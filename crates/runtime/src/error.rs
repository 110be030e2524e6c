//! Why something a user asked for did not happen. Each variant says whether anything changed.

use kringle_core::edge::Failure;
use kringle_core::store::op::{Happened, Trouble};

use crate::handle::Ending;

/// Why a request ended without what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing came back in time. A routed message may have been delivered all the same.
    #[error("no answer in time; a message may have been delivered all the same")]
    Timeout,
    /// The node is not part of a ring. Nothing was sent. Happens while it joins, and when it is cut off.
    #[error("this node is not part of a ring right now")]
    NotJoined,
    /// The node is part of a ring, or about to be. Nothing changed.
    #[error("this node is part of a ring already")]
    AlreadyJoined,
    /// None of the seeds names anybody but this node. Nothing was sent.
    #[error("nobody to join: every seed is this node itself")]
    NoSeeds,
    /// The cluster of the ring has another name or secret than this node's, or another value of a setting that all nodes
    /// share. Nothing changed.
    #[error("{0}")]
    WrongCluster(String),
    /// The ring refused the join for good.
    #[error("the ring refused: {0}")]
    Refused(String),
    /// Its store and that of the ring were founded apart, and this node's has records or other replicas. Nothing changed.
    #[error("{0}")]
    FoundedApart(String),
    /// Too many requests are open. Nothing was sent; try again.
    #[error("too many requests are open at this node")]
    Busy,
    /// The message is larger than the limit. Nothing was sent.
    #[error("the message is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u32,
    },
    /// An application on the way stopped the message. It was not delivered.
    #[error("an application on the way stopped the message")]
    Stopped,
    /// The message ran out of hops. It was not delivered.
    #[error("the message ran out of hops")]
    TooManyHops,
    /// No next hop answered. The node that says so did not deliver it.
    #[error("no next hop answered")]
    NoRoute,
    /// The node that was to be retired answers. Nothing changed.
    #[error("the node is still there: let it leave, or stop it first")]
    StillThere,
    /// The node that answers for the key has no application for the message's purpose. It was not delivered.
    #[error("the node that answers for the key has no application for this purpose")]
    Unhandled,
    /// There is no such node in the ring. Nothing was delivered.
    #[error("there is no such node")]
    NotFound,
    /// This node left the ring before the request was done. A routed message may have been delivered.
    #[error("this node left the ring before the request was done")]
    Ended,
    /// The node was started without a store. Nothing was done.
    #[error("this node has no store")]
    NoStore,
    /// The overlay this node runs can not do that. Nothing was sent.
    #[error("the overlay of this cluster can not do that")]
    WrongOverlay,
    /// The store did not do it, or can not say whether it did.
    #[error("{}", trouble_text(.0))]
    Store(Trouble),
    /// The node does not run any more. A routed message may have been delivered.
    #[error("this node has stopped")]
    Gone,
}

impl From<Ending> for RequestError {
    /// Returns why a node that has ended does not do what it was asked.
    fn from(ending: Ending) -> RequestError {
        match ending {
            Ending::WrongCluster { what } => RequestError::WrongCluster(what),
            Ending::Refused { what } => RequestError::Refused(what),
            Ending::FoundedApart { what } => RequestError::FoundedApart(what),
            Ending::Retired => RequestError::Refused("this id was retired".into()),
            Ending::Stopped | Ending::Left | Ending::Twin { .. } | Ending::Failed { .. } => {
                RequestError::Gone
            }
        }
    }
}

impl RequestError {
    /// Says whether a routed message may have reached an application although this came back.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, RequestError::Timeout | RequestError::Ended | RequestError::Gone)
    }

    pub(crate) fn of(failure: Failure, payload_max: u32) -> RequestError {
        match failure {
            Failure::Timeout => RequestError::Timeout,
            Failure::NotJoined => RequestError::NotJoined,
            Failure::AlreadyJoined => RequestError::AlreadyJoined,
            Failure::StillThere => RequestError::StillThere,
            Failure::NoSeeds => RequestError::NoSeeds,
            Failure::JoinRefused(reason) => RequestError::Refused(format!("{reason:?}")),
            Failure::Busy => RequestError::Busy,
            Failure::TooLarge => RequestError::TooLarge { limit: payload_max },
            Failure::Stopped => RequestError::Stopped,
            Failure::TooManyHops => RequestError::TooManyHops,
            Failure::NoRoute => RequestError::NoRoute,
            Failure::NotThere => RequestError::NotFound,
            Failure::Unhandled => RequestError::Unhandled,
            Failure::Ended => RequestError::Ended,
            Failure::NoStore => RequestError::NoStore,
            Failure::Store(trouble) => RequestError::Store(trouble),
        }
    }
}

/// Says what went wrong in the store, and whether a write happened.
fn trouble_text(trouble: &Trouble) -> String {
    let fate = |happened: &Happened| match happened {
        Happened::No => "nothing was written",
        Happened::Some => "some copies have it: it may be read one day",
        Happened::Unknown => "it may have been written",
    };
    match trouble {
        Trouble::TooFewReplicas { acked, wanted, happened } => {
            format!("{acked} of {wanted} replicas wanted took it; {}", fate(happened))
        }
        Trouble::Timeout { happened } => format!("no answer in time; {}", fate(happened)),
        Trouble::ConditionFailed(version) if version.0 == 0 => {
            "the condition does not hold: the key has no value".into()
        }
        Trouble::ConditionFailed(version) => {
            format!("the condition does not hold: the key is at version {version}")
        }
        Trouble::WrongKind => "the key holds another kind of thing".into(),
        Trouble::TooLarge { limit } => format!("larger than the limit of {limit}"),
        Trouble::OutOfRange => "the number would not fit 64 bits".into(),
        Trouble::BadRequest => {
            "a key needs at least one byte, and a time to live must be later than now".into()
        }
        Trouble::NoSpace { happened } => format!("no room left on a replica's disk; {}", fate(happened)),
        Trouble::ClockOff => "the clock of this node is too far from the others'".into(),
        Trouble::Busy => "too much is under way".into(),
        Trouble::Damaged => "every copy that answered is damaged".into(),
    }
}
