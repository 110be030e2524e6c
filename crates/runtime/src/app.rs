//! What a program embedding a node can hook into.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kringle_core::id::{Key, NodeId};

/// The first purpose that belongs to applications; smaller ones are Kringle's own.
pub const PURPOSE_MIN: u32 = 16;

/// A message under way, as an application sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which application it is for.
    pub purpose: u32,
    /// Who sent it.
    pub origin: NodeId,
    /// Hops it has taken so far.
    pub hops: u8,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Something that went wrong while an application's message was handled here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    /// What the application made is larger than a message may be. An answer: the origin was told that the message was
    /// delivered, without it. A forwarded message: it went on as it had come.
    #[error("what the application made has {bytes} bytes, more than {limit}")]
    TooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: u32,
    },
    /// A `forward` named a next hop this node does not know. The message went where it would have gone.
    #[error("the next hop {0} named by forward is not known here")]
    UnknownHop(NodeId),
    /// For three leases now this node has not been allowed to deliver: a neighbour does not grant, or is not there.
    #[error("this node has not been allowed to deliver for three leases")]
    LeasesOverdue,
    /// A message was dropped, because so many wait already. Its origin gets an error when its deadline is over.
    #[error("too many messages wait for answers of this application")]
    Busy,
}

/// Answers that the applications of a node make at a time ([`Answer::Later`]).
pub const SERVING_MAX: usize = 256;
/// Messages that wait until one of these is done. Further ones are dropped.
pub const WAITING_MAX: usize = 1024;

/// What an application says to a message.
pub enum Answer {
    /// Nothing; the origin is told that the message was delivered.
    None,
    /// This.
    Now(Vec<u8>),
    /// What this comes to.
    Later(Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>),
}

impl Answer {
    /// An answer that takes time.
    pub fn later(answer: impl Future<Output = Option<Vec<u8>>> + Send + 'static) -> Answer {
        Answer::Later(Box::pin(answer))
    }
}

impl From<Option<Vec<u8>>> for Answer {
    fn from(answer: Option<Vec<u8>>) -> Answer {
        answer.map_or(Answer::None, Answer::Now)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::None => f.write_str("None"),
            Answer::Now(bytes) => f.debug_tuple("Now").field(bytes).finish(),
            Answer::Later(_) => f.write_str("Later"),
        }
    }
}

/// What an application does with messages and changes. Every method has a default that does nothing.
///
/// All of them are called on the node's own thread, one at a time, so whatever takes long belongs into a task of your
/// own. In lease mode a delivery is taken back if the lease ends before `deliver` is called; a pause *inside*
/// `deliver` is not covered by that.
pub trait App: Send + Sync + 'static {
    /// This node answers for `key`, or the message was sent to this very node. What is returned goes back to the
    /// origin.
    fn deliver(&self, key: Key, message: Message) -> Option<Vec<u8>> {
        let _ = (key, message);
        None
    }

    /// The same, for answers that take time; calls [`App::deliver`] unless it is implemented.
    ///
    /// Whether this node may deliver is checked right before the call, and not again while the answer is being made.
    /// Calls begin in the order in which messages came; answers may overtake each other. At most [`SERVING_MAX`] are made at
    /// a time, on the node's own thread: what blocks belongs into `spawn_blocking`.
    fn respond(&self, key: Key, message: Message) -> Answer {
        self.deliver(key, message).into()
    }

    /// A message passes through on its way to `next`. The application may change its bytes or the next hop; `false`
    /// stops it, and its origin is told.
    fn forward(&self, key: Key, message: &mut Message, next: &mut NodeId) -> bool {
        let _ = (key, message, next);
        true
    }

    /// The leaf set changed.
    fn leaf_set_changed(&self, joined: &[NodeId], left: &[NodeId]) {
        let _ = (joined, left);
    }

    /// A node entered this node's leaf set.
    fn node_joined(&self, node: NodeId) {
        let _ = node;
    }

    /// A node left this node's leaf set: it said goodbye, or probes found it dead.
    fn node_left(&self, node: NodeId) {
        let _ = node;
    }

    /// A peer showed that it is alive, by a probe or a lease: by asking, or by answering.
    fn heartbeat(&self, node: NodeId) {
        let _ = node;
    }

    /// Something went wrong that no caller is waiting to hear of.
    fn error(&self, error: AppError) {
        let _ = error;
    }
}

/// An application the program keeps a hold of.
impl<A: App + ?Sized> App for Arc<A> {
    fn deliver(&self, key: Key, message: Message) -> Option<Vec<u8>> {
        A::deliver(self, key, message)
    }

    fn respond(&self, key: Key, message: Message) -> Answer {
        A::respond(self, key, message)
    }

    fn forward(&self, key: Key, message: &mut Message, next: &mut NodeId) -> bool {
        A::forward(self, key, message, next)
    }

    fn leaf_set_changed(&self, joined: &[NodeId], left: &[NodeId]) {
        A::leaf_set_changed(self, joined, left);
    }

    fn node_joined(&self, node: NodeId) {
        A::node_joined(self, node);
    }

    fn node_left(&self, node: NodeId) {
        A::node_left(self, node);
    }

    fn heartbeat(&self, node: NodeId) {
        A::heartbeat(self, node);
    }

    fn error(&self, error: AppError) {
        A::error(self, error);
    }
}
