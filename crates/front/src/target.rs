//! Which node a port speaks for.

use std::sync::{Arc, PoisonError, RwLock};

use kringle_runtime::Handle;

use crate::store::{Data, Store};

/// The node that answers behind a port. It can be replaced while the port stays open: a demonstration moves its port
/// to another node when the first one is killed.
///
/// Clones name the same place. Each request asks once, and stays with the node it got.
#[derive(Clone)]
pub struct Target {
    node: Arc<RwLock<Handle>>,
    store: Option<Arc<dyn Store>>,
}

impl Target {
    /// Starts with this node.
    pub fn new(node: Handle) -> Target {
        Target { node: Arc::new(RwLock::new(node)), store: None }
    }

    /// Lets something else answer for the store, whichever the node is. For tests.
    #[must_use]
    pub fn with_store(self, store: Arc<dyn Store>) -> Target {
        Target { store: Some(store), ..self }
    }

    /// Returns the node that answers right now.
    pub fn get(&self) -> Handle {
        self.node.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns who answers for the store of this node.
    pub(crate) fn data(&self, node: Handle) -> Data {
        Data { node, stand_in: self.store.clone() }
    }

    /// Lets another node answer from now on. Requests under way stay with the old one.
    pub fn set(&self, node: Handle) {
        *self.node.write().unwrap_or_else(PoisonError::into_inner) = node;
    }
}

impl From<Handle> for Target {
    fn from(node: Handle) -> Target {
        Target::new(node)
    }
}
