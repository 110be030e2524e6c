//! The neighbourhood set: the nearest nodes by proximity. Source of good candidates, never used for routing.

use alloc::vec::Vec;

use super::routing_table::Entry;
use crate::contact::{Contact, Proximity};
use crate::id::NodeId;

/// The nearest nodes in the network, nearest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Neighbourhood {
    most: u16,
    /// No member was ever known in an earlier incarnation than this.
    oldest: u32,
    entries: Vec<Entry>,
}

impl Neighbourhood {
    /// Makes an empty set of up to `most` nodes.
    pub fn new(most: u16) -> Neighbourhood {
        Neighbourhood { most, oldest: u32::MAX, entries: Vec::new() }
    }

    /// Returns the members, nearest first.
    pub fn members(&self) -> impl Iterator<Item = Contact> + '_ {
        self.entries.iter().map(|entry| entry.contact)
    }

    /// Returns the members with their proximity, nearest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Offers a measured node. Of too many the farthest goes. Returns whether the set changed.
    pub fn offer(&mut self, contact: Contact, proximity: Proximity) -> bool {
        let known = self.entries.iter().position(|entry| entry.contact.id == contact.id);
        // A new life of a member is where the old one was until it is measured.
        let proximity = match known {
            Some(at) if proximity == Proximity::UNKNOWN => self.entries[at].proximity,
            _ => proximity,
        };
        if proximity == Proximity::UNKNOWN || self.most == 0 {
            return false;
        }
        if let Some(at) = known {
            let known = self.entries[at];
            if contact.incarnation < known.contact.incarnation || known == (Entry { contact, proximity }) {
                return false;
            }
            self.entries.remove(at);
        } else if self.entries.len() == usize::from(self.most) {
            match self.entries.last() {
                Some(last) if proximity < last.proximity => self.entries.pop(),
                _ => return false,
            };
        }
        if self.entries.len() == self.entries.capacity() {
            // A set of the usual size fills up in any but the smallest ring: once, not in steps that leave holes behind.
            self.entries
                .reserve_exact(usize::from(self.most).saturating_sub(self.entries.len()).clamp(1, 32));
        }
        self.oldest = self.oldest.min(contact.incarnation);
        let at = self.entries.partition_point(|entry| entry.proximity <= proximity);
        self.entries.insert(at, Entry { contact, proximity });
        true
    }

    /// Says whether a node at this distance would be taken in.
    pub fn wants(&self, proximity: Proximity) -> bool {
        self.entries.len() < usize::from(self.most)
            || self.entries.last().is_some_and(|last| proximity < last.proximity)
    }

    /// Returns the earlier life of a node, if that is a member. Asked for every sender of a message, so it does not
    /// look through the set unless there may be one.
    pub fn earlier_life(&self, of: Contact) -> Option<Contact> {
        if of.incarnation <= self.oldest {
            return None;
        }
        self.members().find(|member| member.id == of.id && member.incarnation < of.incarnation)
    }

    /// Removes a node. Returns whether it was there.
    pub fn remove(&mut self, id: NodeId) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.contact.id != id);
        self.entries.len() < before
    }

    /// Returns the heap memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// Checks order, bound and uniqueness.
    ///
    /// # Panics
    /// If one is broken: that is a mistake in this module.
    pub fn check_invariants(&self) {
        assert!(self.entries.len() <= usize::from(self.most));
        assert!(self.members().all(|member| member.incarnation >= self.oldest));
        assert!(self.entries.windows(2).all(|pair| pair[0].proximity <= pair[1].proximity));
        for entry in &self.entries {
            assert_eq!(self.entries.iter().filter(|other| other.contact.id == entry.contact.id).count(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact::Addr;
    use crate::id::Id;

    fn node(n: u128) -> Contact {
        Contact::new(Id::new(n), 1, Addr(n as u32))
    }

    #[test]
    fn a_better_neighbour_displaces_only_the_farthest() {
        // Wendy overwrites whoever stands in front of the newcomer.
        let mut set = Neighbourhood::new(3);
        for (n, proximity) in [(1, 10), (2, 20), (3, 30)] {
            assert!(set.offer(node(n), Proximity(proximity)));
        }
        assert!(set.offer(node(4), Proximity(5)));
        assert_eq!(set.members().collect::<Vec<_>>(), [node(4), node(1), node(2)]);
        assert!(!set.offer(node(5), Proximity(20)), "as far as the farthest is not nearer");
        assert!(!set.offer(node(6), Proximity::UNKNOWN));
        set.check_invariants();
    }

    #[test]
    fn a_new_measurement_moves_a_member_and_stays_one() {
        let mut set = Neighbourhood::new(3);
        set.offer(node(1), Proximity(10));
        set.offer(node(2), Proximity(20));
        assert!(set.offer(node(2), Proximity(1)));
        assert_eq!(set.members().next(), Some(node(2)));
        assert!(!set.offer(node(2), Proximity(1)));
        set.check_invariants();
        assert!(set.remove(node(2).id) && !set.remove(node(2).id));
        assert_eq!(Neighbourhood::new(0).heap_bytes(), 0);
        assert!(!Neighbourhood::new(0).offer(node(1), Proximity(1)));
    }
}
