//! Which messages came before, so that one that the network delivers twice, or late, is known.

use alloc::collections::{BTreeMap, VecDeque};

/// How many messages are remembered.
const SEEN_MAX: usize = 8192;

/// What came last under each of the youngest keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen<K, V> {
    last: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Seen<K, V> {
    fn default() -> Self {
        Seen { last: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Ord, V> Seen<K, V> {
    /// Returns what was noted last under a key.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.last.get(key)
    }

    /// Notes what came under a key, and drops the oldest key when there are too many.
    pub(super) fn note(&mut self, key: K, value: V) {
        if self.last.insert(key, value).is_none() {
            self.order.push_back(key);
            if self.order.len() > SEEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.last.remove(&oldest);
            }
        }
    }
}
