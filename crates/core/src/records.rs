//! The core's view of local storage.

use alloc::vec::Vec;

use crate::id::Key;

/// A synchronous, read-only view of what this node stores.
///
/// It already shows what the node asked to persist, whether or not that has reached the disk: the core never waits
/// for its own writes to become visible, only for them to become durable. The overlay stores nothing; the store,
/// when there is one, reads through this.
pub trait Records {
    /// Returns the record kept for a key, if any.
    fn read(&self, key: Key) -> Option<Vec<u8>>;
}

/// A node that stores nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecords;

impl Records for NoRecords {
    fn read(&self, _key: Key) -> Option<Vec<u8>> {
        None
    }
}
