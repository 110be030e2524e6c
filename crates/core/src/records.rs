//! The core's view of local storage.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::kinds::kinds;

kinds! {
    /// What is kept apart on the disk. Each is a map from bytes to bytes, in the order of its keys.
    pub enum Space {
        /// Records: 16 bytes of id, then the key.
        Data = "data",
        /// Values of sets: 16 bytes of id, 4 of the key's length, the key, 16 of the digest.
        Members = "members",
        /// Promised ballots, by the key of what they are for.
        Promises = "promises",
        /// Views of slots.
        Views = "views",
        /// Everything else.
        Meta = "meta",
    }
}

/// A value as it is stored.
pub type Bytes = Arc<[u8]>;

/// One change of what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Where.
    pub space: Space,
    /// Under which key.
    pub key: Bytes,
    /// What; `None`: nothing any more.
    pub value: Option<Bytes>,
}

/// Entries of a space that a damaged disk cannot give back: keys from `from` on, below `to`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gap {
    /// Where.
    pub space: Space,
    /// The first key that may be missing.
    pub from: Bytes,
    /// The first key that is not.
    pub to: Bytes,
}

/// A synchronous, read-only view of what this node stores.
///
/// It already shows everything this node asked to persist in earlier calls, whether or not that has reached the disk:
/// the core never waits for its own writes to become visible, only for them to become durable.
pub trait Records {
    /// Returns what is kept under a key, if anything.
    fn read(&self, space: Space, key: &[u8]) -> Option<Bytes>;

    /// Gives entries to `each`, in the order of their keys, from `from` (included) to `to` (not included), until it says
    /// `false`.
    fn scan(&self, space: Space, from: &[u8], to: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool);
}

/// A node that stores nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecords;

impl Records for NoRecords {
    fn read(&self, _: Space, _: &[u8]) -> Option<Bytes> {
        None
    }

    fn scan(&self, _: Space, _: &[u8], _: &[u8], _: &mut dyn FnMut(&[u8], &[u8]) -> bool) {}
}

/// Records in memory, for simulations, tests, and nodes that need no disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryRecords {
    spaces: [alloc::collections::BTreeMap<Bytes, Bytes>; Space::ALL.len()],
}

impl MemoryRecords {
    /// Makes these changes.
    pub fn apply(&mut self, writes: impl IntoIterator<Item = Write>) {
        for Write { space, key, value } in writes {
            match value {
                Some(value) => self.spaces[space as usize].insert(key, value),
                None => self.spaces[space as usize].remove(&key),
            };
        }
    }

    /// Returns how many entries there are in a space.
    pub fn len(&self, space: Space) -> usize {
        self.spaces[space as usize].len()
    }

    /// Says whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.spaces.iter().all(alloc::collections::BTreeMap::is_empty)
    }

    /// Returns all entries of a space.
    pub fn entries(&self, space: Space) -> Vec<(Bytes, Bytes)> {
        self.spaces[space as usize].iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl Records for MemoryRecords {
    fn read(&self, space: Space, key: &[u8]) -> Option<Bytes> {
        self.spaces[space as usize].get(key).cloned()
    }

    fn scan(&self, space: Space, from: &[u8], to: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        use core::ops::Bound;
        if from >= to {
            return;
        }
        let range =
            self.spaces[space as usize].range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        for (key, value) in range {
            if !each(key, value) {
                return;
            }
        }
    }
}
