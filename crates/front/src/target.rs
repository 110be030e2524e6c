//! Which node a port speaks for.

use std::sync::{Arc, PoisonError, RwLock};

use kringle_runtime::Handle;

/// The node that answers behind a port. It can be replaced while the port stays open: a demonstration moves its port
/// to another node when the first one is killed.
///
/// Clones name the same place. Each request asks once, and stays with the node it got.
#[derive(Clone)]
pub struct Target {
    node: Arc<RwLock<Handle>>,
}

impl Target {
    /// Starts with this node.
    pub fn new(node: Handle) -> Target {
        Target { node: Arc::new(RwLock::new(node)) }
    }

    /// Returns the node that answers right now.
    pub fn get(&self) -> Handle {
        self.node.read().unwrap_or_else(PoisonError::into_inner).clone()
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
