//! Writes on their way to the disk, laid over what is there.
//!
//! The core reads its own writes at once, long before they are durable. So every pending write is kept here until the
//! storage thread has reported it, and reads look here first. Whatever the storage thread does to the database
//! meanwhile can not be seen: each key it touches is covered from here.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use kringle_core::records::{Bytes, Space, Write};

/// Pending writes, by key and by ticket.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    spaces: [BTreeMap<Bytes, Cover>; Space::ALL.len()],
    /// What was asked for, oldest first. Shared with the storage thread.
    asked: VecDeque<(u64, Arc<[Write]>)>,
}

/// What a key will be.
#[derive(Debug)]
struct Cover {
    /// The last ticket that writes it.
    ticket: u64,
    value: Option<Bytes>,
}

impl Overlay {
    /// Shows these writes from now on.
    pub(super) fn add(&mut self, ticket: u64, writes: Arc<[Write]>) {
        for Write { space, key, value } in writes.iter() {
            self.spaces[*space as usize].insert(key.clone(), Cover { ticket, value: value.clone() });
        }
        self.asked.push_back((ticket, writes));
    }

    /// Forgets what the database shows by itself now: everything up to and including this ticket.
    pub(super) fn settle(&mut self, done: u64) {
        while self.asked.front().is_some_and(|(ticket, _)| *ticket <= done) {
            let Some((ticket, writes)) = self.asked.pop_front() else { return };
            for Write { space, key, .. } in writes.iter() {
                let covers = &mut self.spaces[*space as usize];
                // A later ticket may have written it again.
                if covers.get(key).is_some_and(|cover| cover.ticket == ticket) {
                    covers.remove(key);
                }
            }
        }
    }

    /// Returns how many tickets are pending.
    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    /// Returns what covers a key, if anything does. `Some(None)`: it will be removed.
    pub(super) fn get(&self, space: Space, key: &[u8]) -> Option<Option<&Bytes>> {
        self.spaces[space as usize].get(key).map(|cover| cover.value.as_ref())
    }

    /// Merges what is pending with what is below, both in the order of keys. `from` must be less than `to`.
    pub(super) fn scan<K: AsRef<[u8]>, V: AsRef<[u8]>, E>(
        &self,
        (space, from, to): (Space, &[u8], &[u8]),
        below: impl Iterator<Item = Result<(K, V), E>>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), E> {
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut covers = self.spaces[space as usize].range::<[u8], _>(range).peekable();
        for entry in below {
            let (key, value) = entry?;
            let key = key.as_ref();
            while let Some((covered, cover)) = covers.next_if(|(covered, _)| &***covered < key) {
                if cover.value.as_ref().is_some_and(|value| !each(covered, value)) {
                    return Ok(());
                }
            }
            let goes_on = match covers.next_if(|(covered, _)| &***covered == key) {
                Some((_, Cover { value: Some(value), .. })) => each(key, value),
                Some(_) => true,
                None => each(key, value.as_ref()),
            };
            if !goes_on {
                return Ok(());
            }
        }
        for (covered, cover) in covers {
            if cover.value.as_ref().is_some_and(|value| !each(covered, value)) {
                break;
            }
        }
        Ok(())
    }
}
