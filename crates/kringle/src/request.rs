//! Requests that go over the network: first said, then awaited.
//!
//! Each is a small value that can be given a deadline and becomes a future by `.await`. Dropping that future cancels
//! the waiting; what was sent is not called back.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use kringle_core::id::{Key, NodeId};
use kringle_runtime::app::PURPOSE_MIN;
use kringle_runtime::error::RequestError;
use kringle_runtime::handle::Handle;
use kringle_runtime::report::{Delivered, Found, Survey};

use crate::error::MessageError;
use crate::node::Node;

/// How long requests wait if not told otherwise.
pub const WITHIN: Duration = Duration::from_secs(2);
/// How many nodes a survey asks if not told otherwise.
const AT_MOST: usize = 100_000;

pub(crate) type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Who answers for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The node.
    pub root: NodeId,
    /// Hops the question took.
    pub hops: u8,
    /// Whether the node was entitled to deliver when it answered. If not, another may turn out to be.
    pub is_final: bool,
    /// How long it took.
    pub took: Duration,
}

/// Defines the common part of a request: a node, a deadline, what is asked, and how it becomes a future.
macro_rules! request {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* } -> $output:ty, $run:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        #[must_use = "nothing is asked before it is awaited"]
        pub struct $name {
            pub(crate) handle: Handle,
            pub(crate) within: Duration,
            $(pub(crate) $field: $type,)*
        }

        impl $name {
            /// Gives up after this long, with the error that says so.
            pub fn within(mut self, within: Duration) -> Self {
                self.within = within;
                self
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut out = f.debug_struct(stringify!($name));
                out.field("within", &self.within) $(.field(stringify!($field), &self.$field))*;
                out.finish_non_exhaustive()
            }
        }

        impl IntoFuture for $name {
            type Output = $output;
            type IntoFuture = Pending<$output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.$run())
            }
        }
    };
}
pub(crate) use request;

request! {
    /// Asks who answers for a key. Made by [`Node::lookup`].
    LookupRequest { key: Key } -> Result<Hit, RequestError>, run
}

impl LookupRequest {
    pub(crate) fn new(node: &Node, key: Key) -> LookupRequest {
        LookupRequest { handle: node.handle.clone(), within: WITHIN, key }
    }

    async fn run(self) -> Result<Hit, RequestError> {
        let found = self.handle.lookup(self.key, self.within).await?;
        // Ids are written by us, as 32 digits.
        let root = found.root.parse().map_err(|_| RequestError::NotFound)?;
        let took = Duration::from_micros(found.micros);
        Ok(Hit { root, hops: found.hops, is_final: found.is_final, took })
    }
}

request! {
    /// Asks for the way to a key. Made by [`Node::trace`].
    TraceRequest { key: Key } -> Result<Found, RequestError>, run
}

impl TraceRequest {
    pub(crate) fn new(node: &Node, key: Key) -> TraceRequest {
        TraceRequest { handle: node.handle.clone(), within: WITHIN, key }
    }

    async fn run(self) -> Result<Found, RequestError> {
        self.handle.trace(self.key, self.within).await
    }
}

request! {
    /// Carries bytes to whoever answers for a key. Made by [`Node::route`].
    RouteRequest { key: Key, purpose: u32, bytes: Vec<u8> } -> Result<Delivered, MessageError>, run
}

impl RouteRequest {
    pub(crate) fn new(node: &Node, key: Key, bytes: Vec<u8>) -> RouteRequest {
        RouteRequest { handle: node.handle.clone(), within: WITHIN, key, purpose: PURPOSE_MIN, bytes }
    }

    /// Says which application it is for, 16 or above.
    pub fn purpose(mut self, purpose: u32) -> Self {
        self.purpose = purpose;
        self
    }

    async fn run(self) -> Result<Delivered, MessageError> {
        let purpose = own_purpose(self.purpose)?;
        Ok(self.handle.route(self.key, purpose, self.bytes, self.within).await?)
    }
}

request! {
    /// Carries bytes to one node. Made by [`Node::send`].
    SendRequest { to: NodeId, purpose: u32, bytes: Vec<u8> } -> Result<Delivered, MessageError>, run
}

impl SendRequest {
    pub(crate) fn new(node: &Node, to: NodeId, bytes: Vec<u8>) -> SendRequest {
        SendRequest { handle: node.handle.clone(), within: WITHIN, to, purpose: PURPOSE_MIN, bytes }
    }

    /// Says which application it is for, 16 or above.
    pub fn purpose(mut self, purpose: u32) -> Self {
        self.purpose = purpose;
        self
    }

    async fn run(self) -> Result<Delivered, MessageError> {
        let purpose = own_purpose(self.purpose)?;
        Ok(self.handle.send(self.to, purpose, self.bytes, self.within).await?)
    }
}

fn own_purpose(purpose: u32) -> Result<u32, MessageError> {
    if purpose < PURPOSE_MIN { Err(MessageError::ReservedPurpose { purpose }) } else { Ok(purpose) }
}

request! {
    /// Asks around the ring. Made by [`Node::survey`]. Needs a Tokio runtime.
    SurveyRequest { at_most: usize } -> Result<Survey, RequestError>, run
}

impl SurveyRequest {
    pub(crate) fn new(node: &Node) -> SurveyRequest {
        SurveyRequest { handle: node.handle.clone(), within: WITHIN, at_most: AT_MOST }
    }

    /// Stops when so many nodes are found.
    pub fn at_most(mut self, nodes: usize) -> Self {
        self.at_most = nodes;
        self
    }

    async fn run(self) -> Result<Survey, RequestError> {
        self.handle.survey(self.at_most, self.within).await
    }
}

/// Waits until a node is part of a ring. Made by [`Node::ready`].
#[derive(Clone)]
#[must_use = "nothing is waited for before it is awaited"]
pub struct ReadyRequest {
    handle: Handle,
    within: Option<Duration>,
}

impl ReadyRequest {
    pub(crate) fn new(node: &Node) -> ReadyRequest {
        ReadyRequest { handle: node.handle.clone(), within: None }
    }

    /// Gives up after this long, with [`RequestError::Timeout`]; the node goes on trying. Needs a Tokio runtime.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<(), RequestError> {
        let ready = self.handle.ready();
        match self.within {
            None => ready.await,
            Some(within) => tokio::time::timeout(within, ready).await.unwrap_or(Err(RequestError::Timeout)),
        }
    }
}

impl std::fmt::Debug for ReadyRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadyRequest").field("within", &self.within).finish_non_exhaustive()
    }
}

impl IntoFuture for ReadyRequest {
    type Output = Result<(), RequestError>;
    type IntoFuture = Pending<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
