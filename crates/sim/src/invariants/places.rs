//! Who is where on the ring: the truth, which no node knows.

use kringle_core::id::{Id, Key, NodeId};

use crate::world::World;

/// Nodes in the order of their ids. Made anew whenever somebody comes or goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(Vec<(Id, u32)>);

impl Places {
    /// Takes down where all running nodes are.
    pub fn of_running(world: &World) -> Places {
        Places::new(world.running().map(|(index, node)| (node.me().id, index)))
    }

    /// Takes down where all ready nodes are.
    pub fn of_ready(world: &World) -> Places {
        Places::new(world.ready().map(|(index, node)| (node.me().id, index)))
    }

    /// Takes down where some of the ready nodes are.
    pub fn of_some(world: &World, some: impl Fn(u32) -> bool) -> Places {
        let ready = world.ready().filter(|(index, _)| some(*index));
        Places::new(ready.map(|(index, node)| (node.me().id, index)))
    }

    fn new(nodes: impl Iterator<Item = (Id, u32)>) -> Places {
        let mut sorted: Vec<(Id, u32)> = nodes.collect();
        sorted.sort_unstable();
        Places(sorted)
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Says whether nobody is there.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all of them in order.
    pub fn all(&self) -> &[(Id, u32)] {
        &self.0
    }

    /// Returns the node with this id.
    pub fn find(&self, id: NodeId) -> Option<u32> {
        self.0.binary_search_by_key(&id, |(other, _)| *other).ok().map(|at| self.0[at].1)
    }

    /// Returns the node nearest to a key.
    pub fn owner(&self, key: Key) -> Option<(NodeId, u32)> {
        let count = self.0.len();
        let after = self.0.partition_point(|(id, _)| *id < key);
        // The nearest is one of those on either side of the key; two more do no harm in a tiny ring.
        let around = (0..4.min(count)).map(|step| self.0[(after + count + step - 2.min(count)) % count]);
        around.min_by_key(|(id, _)| key.closeness(*id))
    }

    /// Returns the first node at or after a key: who answers for it in Chord.
    pub fn successor(&self, key: Key) -> Option<(NodeId, u32)> {
        let after = self.0.partition_point(|(id, _)| *id < key);
        self.0.get(after).or(self.0.first()).copied()
    }

    /// Returns the others that come next on either side of a place, nearest first, up to so many on each.
    pub fn beside(&self, id: NodeId, reach: usize) -> impl Iterator<Item = u32> + '_ {
        let count = self.0.len();
        let at = self.0.partition_point(|(other, _)| *other < id);
        let here = self.0.get(at).is_some_and(|(other, _)| *other == id);
        let others = count - usize::from(here);
        let left = reach.min(others);
        let right = reach.min(others - left);
        let ahead = usize::from(here);
        let right = (0..right).map(move |step| self.0[(at + ahead + step) % count].1);
        let left = (1..=left).map(move |step| self.0[(at + count - step) % count].1);
        left.chain(right)
    }
}

#[cfg(test)]
mod tests {
    use kringle_core::dice::{Dice, SeededDice};

    use super::*;

    #[test]
    fn owners_and_neighbours_are_those_of_a_plain_search() {
        let mut dice = SeededDice::new(1);
        for count in 1..12 {
            let ids: Vec<Id> = (0..count).map(|_| Id::new(u128::from(dice.roll()) << 64)).collect();
            let places = Places::new(ids.iter().copied().zip(0..));
            for key in (0..50).map(|_| Id::new(u128::from(dice.roll()) << 64)).chain(ids.clone()) {
                let nearest = ids.iter().copied().min_by_key(|id| key.closeness(*id));
                assert_eq!(places.owner(key).map(|(id, _)| id), nearest);
                let next = ids.iter().copied().min_by_key(|id| key.clockwise_to(*id));
                assert_eq!(places.successor(key).map(|(id, _)| id), next);
                let mut others: Vec<Id> = ids.iter().copied().filter(|id| *id != key).collect();
                others.sort_by_key(|id| id.clockwise_to(key));
                let beside: Vec<Id> = places.beside(key, 3).map(|node| ids[node as usize]).collect();
                let left = others.iter().take(3);
                let right = others.iter().skip(3).rev().take(3);
                assert_eq!(beside, left.chain(right).copied().collect::<Vec<_>>());
            }
        }
        assert_eq!(Places::default().owner(Id::ZERO), None);
    }
}
