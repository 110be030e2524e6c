//! Why something did not happen: one type per kind of operation, and one that takes them all.
//!
//! Each variant says whether anything changed. What the network answered is a [`RequestError`] inside.

use kringle_core::id::{IdError, NodeId};
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
}
