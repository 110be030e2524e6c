//! The leaf set: the nearest nodes on either side, by ring distance.
//!
//! Members are kept once, in ring order. While the *whole* ring fits, the set knows that it is the whole ring: both
//! sides then overlap and every key is covered. Once a node had to be left out, the set is cut at the point opposite,
//! and from then on a hole left by a dead member is not filled with nodes from the other end of the arc: a set with
//! holes must not claim keys it can not judge. It becomes whole again when its two ends turn out to be neighbours.

use alloc::vec::Vec;

use crate::contact::Contact;
use crate::dice::{Dice, SeededDice};
use crate::id::{Closeness, Id, Key, NodeId};
use crate::range::IdRange;

/// A node's nearest peers on the ring.
// What every routing decision reads comes first and stays together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct LeafSet {
    me: NodeId,
    /// How far the last member of each side is, as a point; everything while whole. Kept here, and not looked up in
    /// the list, because every routing decision starts with them.
    left_reach: Id,
    right_reach: Id,
    /// The members, going clockwise from me.
    ring: Vec<Contact>,
    /// A point between the two ends: says to which side a node beyond both belongs.
    edge: Id,
    /// Members a side may have.
    side: u16,
    /// Where the clockwise side ends in `ring`; the rest is the other side. Unused while whole.
    split: u16,
    whole: bool,
}

/// How a node offered to the leaf set became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Somebody who believes to be our neighbour: may extend a side that is too short.
    Leaf,
    /// The leaf set of a neighbour, which shows that it belongs to our left side: may extend it.
    Left,
    /// The same for our right side.
    Right,
    /// Anything else: may only come between members, where nothing is claimed that was not claimed before.
    Elsewhere,
}

/// What became of a node offered to the leaf set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is in now; somebody may have had to go.
    Added(Option<Contact>),
    /// It was in already and is now known in a later incarnation.
    Renewed,
    /// It was in already, nothing changed.
    Known,
    /// Nearer nodes fill its side.
    TooFar,
    /// It is this node itself.
    Myself,
    /// It is in already, in a later incarnation.
    Stale,
    /// It is in already, in the same incarnation at another address.
    Conflict,
}

impl LeafSet {
    /// Makes the empty leaf set of a ring of one, with up to `side` members on each side.
    pub fn new(me: NodeId, side: usize) -> LeafSet {
        let mut set = LeafSet::partial(me, side, me.plus(1 << 127));
        set.set_whole();
        set
    }

    /// Makes the empty leaf set of a node in a ring too large to know. Nodes from here clockwise up to `edge` belong
    /// to the clockwise side.
    pub fn partial(me: NodeId, side: usize, edge: Id) -> LeafSet {
        let side = u16::try_from(side).unwrap_or(u16::MAX);
        let ring = Vec::new();
        LeafSet { me, side, split: 0, whole: false, ring, left_reach: Id::ZERO, right_reach: Id::ZERO, edge }
    }

    /// Returns the counter-clockwise side, nearest first.
    pub fn left(&self) -> impl DoubleEndedIterator<Item = Contact> + ExactSizeIterator + '_ {
        let start =
            if self.whole { self.ring.len().saturating_sub(self.side.into()) } else { self.split.into() };
        self.ring[start..].iter().rev().copied()
    }

    /// Returns the clockwise side, nearest first.
    pub fn right(&self) -> impl DoubleEndedIterator<Item = Contact> + ExactSizeIterator + '_ {
        let end = if self.whole { self.ring.len().min(self.side.into()) } else { self.split.into() };
        self.ring[..end].iter().copied()
    }

    /// Returns every member once, going clockwise from this node.
    pub fn members(&self) -> &[Contact] {
        &self.ring
    }

    /// Returns every member once, going clockwise from the far end of the left side to that of the right one.
    pub fn arc(&self) -> Vec<Contact> {
        let split = if self.whole { self.ring.len().div_ceil(2) } else { self.split.into() };
        self.ring[split..].iter().chain(&self.ring[..split]).copied().collect()
    }

    /// Says whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Returns the member with this id.
    #[inline]
    pub fn get(&self, id: NodeId) -> Option<Contact> {
        // Strangers are most often far away, which shows without a look at the list.
        if !self.covers(id) {
            return None;
        }
        let at = self.position(id);
        self.ring.get(at).filter(|contact| contact.id == id).copied()
    }

    /// Says whether this is the whole ring.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Says whether both sides are as long as they may be, or the whole ring is known.
    pub fn is_complete(&self) -> bool {
        self.whole || self.ring.len() == 2 * usize::from(self.side)
    }

    /// Returns a digest of the nodes that a member's leaf set has in common with this one if both are right, the two nodes
    /// included: of a whole ring all, else all on the side of the member, and as many on the other as its set reaches.
    /// Two nodes that compute the same have nothing to tell each other. `None` unless this set is complete.
    pub fn digest(&self, me: Contact, peer: NodeId) -> Option<u32> {
        if !self.is_complete() || self.get(peer).is_none() {
            return None;
        }
        // A sum: the two nodes go through the same contacts from different ends.
        let sum = |nodes: &mut dyn Iterator<Item = Contact>| nodes.map(digest_of).fold(0, u32::wrapping_add);
        if self.whole {
            return Some(sum(&mut self.ring.iter().copied().chain([me])));
        }
        let side = usize::from(self.side);
        let (left, right) = match self.left().position(|leaf| leaf.id == peer) {
            Some(at) => (side, side - at - 1),
            None => (side - self.right().position(|leaf| leaf.id == peer)? - 1, side),
        };
        Some(sum(&mut self.left().take(left).chain(self.right().take(right)).chain([me])))
    }

    /// Declares that the members are the whole ring.
    pub fn set_whole(&mut self) {
        self.whole = true;
        self.measure();
    }

    /// Says on which side of this node a member of `teller`'s leaf set lies, given that leaf set in ring order.
    ///
    /// The arc a neighbour reports has no holes as far as it knows. If it spans this node, what comes before us on it
    /// is our left; if not, all of it lies where the neighbour does.
    pub fn side_of(&self, id: NodeId, teller: NodeId, arc: &[Contact]) -> Source {
        let (Some(first), Some(last)) = (arc.first(), arc.last()) else { return Source::Leaf };
        let from = |id: NodeId| first.id.clockwise_to(id);
        if from(self.me) <= from(last.id) {
            return if from(id) < from(self.me) { Source::Left } else { Source::Right };
        }
        if self.right().any(|leaf| leaf.id == teller) {
            Source::Right
        } else if self.left().any(|leaf| leaf.id == teller) {
            Source::Left
        } else {
            Source::Leaf
        }
    }

    /// Becomes whole if `peer`, the last member of a side, knows the last member of the other side as its next
    /// neighbour: then the two ends meet and nobody is missing.
    pub fn close(&mut self, peer: NodeId, leaves: &[Contact]) -> bool {
        if self.whole || self.ring.is_empty() {
            return false;
        }
        let ids = || leaves.iter().map(|contact| contact.id).filter(|id| *id != peer);
        let right_end = self.right().next_back().map_or(self.me, |last| last.id);
        let left_end = self.left().next_back().map_or(self.me, |last| last.id);
        let after = ids().min_by_key(|id| peer.clockwise_to(*id));
        let before = ids().min_by_key(|id| id.clockwise_to(peer));
        if peer == right_end && after == Some(left_end) || peer == left_end && before == Some(right_end) {
            self.set_whole();
        }
        self.whole
    }

    /// Offers a node that is known to be alive.
    pub fn offer(&mut self, contact: Contact, source: Source) -> Offer {
        if contact.id == self.me {
            return Offer::Myself;
        }
        let at = self.position(contact.id);
        if let Some(known) = self.ring.get_mut(at).filter(|known| known.id == contact.id) {
            return match contact.incarnation.cmp(&known.incarnation) {
                core::cmp::Ordering::Less => Offer::Stale,
                core::cmp::Ordering::Equal if contact.addr != known.addr => Offer::Conflict,
                core::cmp::Ordering::Equal => Offer::Known,
                core::cmp::Ordering::Greater => {
                    *known = contact;
                    Offer::Renewed
                }
            };
        }
        let Some(place) = self.place(contact.id, source) else { return Offer::TooFar };
        let side = usize::from(self.side);
        if self.ring.len() == self.ring.capacity() {
            // The set fills up once and stays full: exact steps instead of doubling.
            self.ring.reserve_exact(8.min(2 * side + 1 - self.ring.len()));
        }
        self.ring.insert(at, contact);
        let surplus = match place {
            Place::Whole => (self.ring.len() > 2 * side).then(|| {
                // Somebody has to be left out: from now on there are two sides.
                self.whole = false;
                self.split = self.side;
                side
            }),
            Place::Right => {
                self.split += 1;
                (usize::from(self.split) > side).then(|| {
                    self.split -= 1;
                    usize::from(self.split)
                })
            }
            Place::Left => (self.ring.len() - usize::from(self.split) > side).then_some(self.split.into()),
        };
        let evicted = surplus.map(|at| self.ring.remove(at));
        self.measure();
        if evicted == Some(contact) { Offer::TooFar } else { Offer::Added(evicted) }
    }

    /// Says whether a node with this id would be taken in.
    pub fn wants(&self, id: NodeId, source: Source) -> bool {
        if id == self.me || self.get(id).is_some() {
            return false;
        }
        let full = self.ring.len() == 2 * usize::from(self.side);
        match self.place(id, source) {
            None => false,
            Some(Place::Whole) if full => self.position(id) != usize::from(self.side),
            Some(_) => true,
        }
    }

    fn place(&self, id: NodeId, source: Source) -> Option<Place> {
        let (ahead, behind) = (self.me.clockwise_to(id), id.clockwise_to(self.me));
        if self.whole {
            return Some(Place::Whole);
        }
        if ahead < self.right_reach.value() {
            return Some(Place::Right);
        }
        if behind < self.left_reach.value() {
            return Some(Place::Left);
        }
        let (right, left) = (usize::from(self.split), self.ring.len() - usize::from(self.split));
        let is_right = match source {
            Source::Elsewhere => return None,
            Source::Left => false,
            Source::Right => true,
            Source::Leaf => ahead <= self.me.clockwise_to(self.edge),
        };
        if is_right {
            (right < self.side.into()).then_some(Place::Right)
        } else {
            (left < self.side.into()).then_some(Place::Left)
        }
    }

    /// Removes a node and returns it if it was there.
    pub fn remove(&mut self, id: NodeId) -> Option<Contact> {
        let at = self.position(id);
        self.ring.get(at).filter(|contact| contact.id == id)?;
        if at < self.split.into() {
            self.split -= 1;
        }
        let removed = self.ring.remove(at);
        self.measure();
        Some(removed)
    }

    /// Returns where a node is, or would be, going clockwise.
    #[inline]
    fn position(&self, id: Id) -> usize {
        let ahead = self.me.clockwise_to(id);
        self.ring.partition_point(|contact| self.me.clockwise_to(contact.id) < ahead)
    }

    fn measure(&mut self) {
        let me = self.me;
        if self.whole {
            self.split = 0;
            (self.left_reach, self.right_reach) = (Id::MAX, Id::MAX);
            return;
        }
        let (left, right) = (self.left().next_back(), self.right().next_back());
        self.left_reach = left.map_or(Id::ZERO, |last| Id::new(last.id.clockwise_to(me)));
        self.right_reach = right.map_or(Id::ZERO, |last| Id::new(me.clockwise_to(last.id)));
        if let (Some(left), Some(right)) = (left, right) {
            self.edge = right.id.middle_to(left.id);
        }
    }

    /// Says whether a key lies between the two farthest members, so that the node nearest to it is known here.
    #[inline]
    pub fn covers(&self, key: Key) -> bool {
        let ahead = self.me.clockwise_to(key);
        ahead <= self.right_reach.value() || ahead.wrapping_neg() <= self.left_reach.value()
    }

    /// Returns the member nearest to a key, or `None` if that is this node itself. Right for covered keys.
    #[inline]
    pub fn nearest(&self, key: Key) -> Option<Contact> {
        let at = self.position(key);
        // The key lies between the member before `at` and the one at `at`; past either end that is this node.
        let before = at.checked_sub(1).and_then(|i| self.ring.get(i));
        let after = self.ring.get(at);
        let closeness = |contact: Option<&Contact>| key.closeness(contact.map_or(self.me, |c| c.id));
        if closeness(after) < closeness(before) { after.copied() } else { before.copied() }
    }

    /// Returns the nearest member that is not avoided, or `None` if this node is nearer than all of those. The flag
    /// says whether an avoided member would have been nearer. `ignore` counts as no member.
    pub fn nearest_except(
        &self,
        key: Key,
        avoid: impl Fn(NodeId) -> bool,
        ignore: Option<NodeId>,
    ) -> (Option<Contact>, bool) {
        let mut best: (Option<Contact>, Closeness) = (None, key.closeness(self.me));
        let mut skipped = best.1;
        for contact in self.ring.iter().filter(|contact| Some(contact.id) != ignore) {
            let closeness = key.closeness(contact.id);
            if avoid(contact.id) {
                skipped = skipped.min(closeness);
            } else if closeness < best.1 {
                best = (Some(*contact), closeness);
            }
        }
        (best.0, skipped < best.1)
    }

    /// Returns the `n` nodes nearest to a key, nearest first, as far as this leaf set can tell; `me` may be among
    /// them.
    pub fn replicas(&self, key: Key, me: Contact, n: usize) -> Vec<Contact> {
        let mut nodes: Vec<Contact> = self.ring.iter().copied().chain([me]).collect();
        nodes.sort_by_key(|contact| key.closeness(contact.id));
        nodes.truncate(n);
        nodes
    }

    /// Returns the part of the ring for which this node is the nearest.
    pub fn range(&self) -> IdRange {
        match (self.left().next(), self.right().next()) {
            (Some(left), Some(right)) => between(left.id, self.me, right.id),
            (None, None) if self.whole => IdRange::Full,
            // One side is unknown: claim nothing beyond this node itself on it.
            (Some(left), None) => between(left.id, self.me, self.me.plus(1)),
            (None, Some(right)) => between(self.me.minus(1), self.me, right.id),
            (None, None) => IdRange::arc(self.me, self.me.plus(1)),
        }
    }

    /// Returns the keys for which `id` is one of the `rank + 1` nearest nodes, or `None` if this leaf set can not
    /// tell: it would need the nodes `rank + 1` places to either side of it.
    pub fn cumulative_range(&self, id: NodeId, rank: usize) -> Option<IdRange> {
        let mut nodes: Vec<NodeId> = self.ring[self.split.into()..].iter().map(|c| c.id).collect();
        nodes.push(self.me);
        nodes.extend(self.ring[..self.split.into()].iter().map(|c| c.id));
        let at = nodes.iter().position(|node| *node == id)?;
        let (count, step) = (nodes.len(), rank + 1);
        if self.whole {
            if step >= count {
                return Some(IdRange::Full);
            }
            return Some(between(nodes[(at + count - step) % count], id, nodes[(at + step) % count]));
        }
        Some(between(*nodes.get(at.checked_sub(step)?)?, id, *nodes.get(at + step)?))
    }

    /// Returns the keys for which `id` is exactly the `rank`-th nearest node, 0 being the nearest: up to two arcs.
    /// `None` if this leaf set can not tell.
    pub fn range_of_rank(&self, id: NodeId, rank: usize) -> Option<Vec<IdRange>> {
        let outer = self.cumulative_range(id, rank)?;
        match rank.checked_sub(1) {
            None => Some(alloc::vec![outer]),
            Some(inner) => Some(outer.subtract(self.cumulative_range(id, inner)?)),
        }
    }

    /// Returns the heap memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Contact>()
    }

    /// Checks order, bounds and reach.
    ///
    /// # Panics
    /// If one is broken: that is a mistake in this module.
    pub fn check_invariants(&self) {
        let ahead = |contact: &Contact| self.me.clockwise_to(contact.id);
        assert!(self.ring.windows(2).all(|pair| ahead(&pair[0]) < ahead(&pair[1])));
        assert!(self.ring.iter().all(|contact| contact.id != self.me));
        let (side, split) = (usize::from(self.side), usize::from(self.split));
        if self.whole {
            assert!(self.ring.len() <= 2 * side && split == 0);
        } else {
            assert!(split <= side && split <= self.ring.len() && self.ring.len() - split <= side);
            assert_eq!(self.right_reach.value(), self.right().next_back().map_or(0, |c| ahead(&c)));
        }
    }
}

/// Where a node belongs.
enum Place {
    Whole,
    Right,
    Left,
}

/// The keys nearer to `id` than to either of two others. The middle belongs to the node before it.
fn between(left: NodeId, id: NodeId, right: NodeId) -> IdRange {
    IdRange::arc(left.middle_to(id).plus(1), id.middle_to(right).plus(1))
}

/// Returns a number that hardly any other contact has.
fn digest_of(contact: Contact) -> u32 {
    let id = contact.id.value();
    SeededDice::derive((id >> 64) as u64, id as u64 ^ u64::from(contact.incarnation)).roll() as u32
}

#[cfg(test)]
mod tests;
