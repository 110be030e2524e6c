//! Remembered proximities of nodes that did not make it into the tables, so that they are not measured again and again.

use alloc::vec::Vec;
use core::time::Duration;

use crate::contact::Proximity;
use crate::id::NodeId;
use crate::time::Time;

/// A bounded cache of measurements that are believed for a while. (Wendy's is emptied hourly and has no bound.)
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ProximityCache {
    /// Sorted by id.
    entries: Vec<Measured>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Measured {
    id: NodeId,
    proximity: Proximity,
    /// Seconds since the driver's start: fine enough for something believed for an hour, and half the size.
    at: u32,
}

impl ProximityCache {
    /// Returns what was measured, if that is recent enough.
    pub fn get(&self, id: NodeId, now: Time, age: Duration) -> Option<Proximity> {
        let at = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        let entry = &self.entries[at];
        is_fresh(entry, now, age).then_some(entry.proximity)
    }

    /// Remembers a measurement. When full, what is too old goes first, then the oldest.
    pub fn put(&mut self, id: NodeId, proximity: Proximity, now: Time, age: Duration, most: usize) {
        let entry = Measured { id, proximity, at: seconds(now) };
        match self.entries.binary_search_by_key(&id, |entry| entry.id) {
            Ok(at) => self.entries[at] = entry,
            Err(_) if most == 0 => {}
            Err(_) => {
                if self.entries.len() >= most {
                    self.entries.retain(|entry| is_fresh(entry, now, age));
                }
                if self.entries.len() >= most
                    && let Some(oldest) = (0..self.entries.len()).min_by_key(|at| self.entries[*at].at)
                {
                    self.entries.remove(oldest);
                }
                if self.entries.len() == self.entries.capacity() {
                    self.entries.reserve_exact(16);
                }
                let at = self.entries.partition_point(|entry| entry.id < id);
                self.entries.insert(at, entry);
            }
        }
    }

    /// Forgets a node.
    pub fn remove(&mut self, id: NodeId) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// Returns how many measurements are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Says whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the heap memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Measured>()
    }
}

fn seconds(time: Time) -> u32 {
    u32::try_from(time.micros() / 1_000_000).unwrap_or(u32::MAX)
}

fn is_fresh(entry: &Measured, now: Time, age: Duration) -> bool {
    u64::from(seconds(now).saturating_sub(entry.at)) < age.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    const AGE: Duration = Duration::from_secs(3600);

    #[test]
    fn the_cache_is_bounded_and_expires() {
        let mut cache = ProximityCache::default();
        let at = |s: u64| Time::from_micros(s * 1_000_000);
        for n in 0..100 {
            cache.put(Id::new(n), Proximity(n as u32), at(n as u64), AGE, 10);
            assert!(cache.len() <= 10);
        }
        assert_eq!(cache.get(Id::new(99), at(99), AGE), Some(Proximity(99)));
        assert_eq!(cache.get(Id::new(3), at(99), AGE), None, "the oldest went");
        assert_eq!(cache.get(Id::new(99), at(99 + 3599), AGE), Some(Proximity(99)));
        assert_eq!(cache.get(Id::new(99), at(99 + 3600), AGE), None);
        cache.put(Id::new(500), Proximity(1), at(9000), AGE, 10);
        assert_eq!(cache.len(), 1, "what is too old goes first");
        cache.remove(Id::new(500));
        assert!(cache.is_empty());
        cache.put(Id::new(1), Proximity(1), at(0), AGE, 0);
        assert!(cache.is_empty());
    }
}
