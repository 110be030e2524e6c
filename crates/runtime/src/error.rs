//! Why something a user asked for did not happen. Each variant says whether anything changed.

use kringle_core::edge::Failure;

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
    /// The ring refused the join for good.
    #[error("the ring refused: {0}")]
    Refused(String),
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
    /// There is no such node in the ring. Nothing was delivered.
    #[error("there is no such node")]
    NotFound,
    /// This node left the ring before the request was done. A routed message may have been delivered.
    #[error("this node left the ring before the request was done")]
    Ended,
    /// The node does not run any more. A routed message may have been delivered.
    #[error("this node has stopped")]
    Gone,
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
            Failure::NoSeeds => RequestError::NoSeeds,
            Failure::JoinRefused(reason) => RequestError::Refused(format!("{reason:?}")),
            Failure::Busy => RequestError::Busy,
            Failure::TooLarge => RequestError::TooLarge { limit: payload_max },
            Failure::Stopped => RequestError::Stopped,
            Failure::TooManyHops => RequestError::TooManyHops,
            Failure::NoRoute => RequestError::NoRoute,
            Failure::NotThere => RequestError::NotFound,
            Failure::Ended => RequestError::Ended,
        }
    }
}
