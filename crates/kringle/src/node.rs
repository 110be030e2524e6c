//! A running node.

use std::fmt;
use std::net::SocketAddr;

use kringle_core::id::NodeId;
use kringle_runtime::error::RequestError;
use kringle_runtime::handle::{Ending, Events, Handle, Info};

use crate::builder::Builder;
use crate::error::JoinError;
use crate::input::{IntoKey, IntoSeed, seeds};
use crate::request::{LookupRequest, ReadyRequest, RouteRequest, SendRequest, SurveyRequest, TraceRequest};

/// A running node: ask it, follow it, end it.
///
/// A cheap clone that can be used from any task and thread. Dropping every clone does not end the node;
/// [`leave`](Node::leave) and [`stop`](Node::stop) do, and so does the end of the program.
#[derive(Clone)]
pub struct Node {
    pub(crate) handle: Handle,
}

impl Node {
    /// Begins a node of this cluster. Names have 1 to 64 of a-z, 0-9, '-', '_' and '.'.
    pub fn builder(cluster: impl Into<String>) -> Builder {
        Builder::new(cluster.into())
    }

    /// Returns the node's id.
    pub fn id(&self) -> NodeId {
        self.handle.id()
    }

    /// Returns an address at which others can join through this node.
    pub fn address(&self) -> SocketAddr {
        let info = self.handle.info();
        let first = info.advertised.first().or(info.bound.first());
        *first.expect("a node that was started is reachable somewhere")
    }

    /// Returns what does not change while the node runs.
    pub fn info(&self) -> &Info {
        self.handle.info()
    }

    /// Returns what this type is made of: reports for people, tokens, counters.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until the node is part of a ring and may deliver. Without `within`, for as long as it takes.
    pub fn ready(&self) -> ReadyRequest {
        ReadyRequest::new(self)
    }

    /// Says whether the node is part of a ring right now.
    pub fn is_ready(&self) -> bool {
        self.handle.is_ready()
    }

    /// Joins the ring of these nodes, tried again and again until one answers; returns when the node is ready. A node
    /// that is part of a ring already has the two rings grow together.
    pub async fn join<S: IntoSeed>(&self, members: impl IntoIterator<Item = S>) -> Result<(), JoinError> {
        let seeds = seeds(members)?;
        Ok(self.handle.join(seeds).await?)
    }

    /// Says goodbye and ends the node. Returns when it has said so; its neighbours answer for its keys at once.
    pub async fn leave(&self) -> Result<(), RequestError> {
        self.handle.leave().await
    }

    /// Ends the node without a goodbye: with a data directory it may come back as the same one. Returns when it has
    /// ended.
    pub async fn stop(&self) -> Ending {
        self.handle.stop().await
    }

    /// Waits until the node has ended, and says how.
    pub async fn ended(&self) -> Ending {
        self.handle.ended().await
    }

    /// Asks who answers for a key.
    pub fn lookup(&self, key: impl IntoKey) -> LookupRequest {
        LookupRequest::new(self, key.into_key())
    }

    /// Asks who answers for a key, and by which way the question went.
    pub fn trace(&self, key: impl IntoKey) -> TraceRequest {
        TraceRequest::new(self, key.into_key())
    }

    /// Carries bytes to the application at whoever answers for a key, and its answer back. The purpose says which
    /// application; 16 if not given.
    pub fn route(&self, key: impl IntoKey, bytes: impl Into<Vec<u8>>) -> RouteRequest {
        RouteRequest::new(self, key.into_key(), bytes.into())
    }

    /// Carries bytes to the application at one node, and its answer back. This node may be meant, too.
    pub fn send(&self, to: NodeId, bytes: impl Into<Vec<u8>>) -> SendRequest {
        SendRequest::new(self, to, bytes.into())
    }

    /// Asks around the ring until everybody is found. For people and tests: it takes a message per node.
    pub fn survey(&self) -> SurveyRequest {
        SurveyRequest::new(self)
    }

    /// Follows what happens at this node from now on.
    pub fn events(&self) -> Events {
        self.handle.events()
    }
}

impl From<Handle> for Node {
    fn from(handle: Handle) -> Node {
        Node { handle }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.id())
    }
}
