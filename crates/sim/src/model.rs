//! Pastry with perfect tables: what is possible, and what measurements are checked against.
//!
//! Nothing is simulated. Ids are sorted, so the nodes that fit a cell are a range of them, and a cell is looked at only
//! when a route needs it: a ring of 100,000 nodes takes a few milliseconds to set up. Leaf sets are exact, every cell
//! holds the eligible node that is nearest in the network.

use std::time::Duration;

use kringle_core::contact::{Addr, Contact};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::id::{Base, Id, Key, NodeId};

use crate::lab::ring::Routes;
use crate::network::Network;
use crate::world::World;

/// A ring whose nodes know all they should.
#[derive(Clone, Debug)]
pub struct Model {
    /// All nodes, by id.
    members: Vec<Contact>,
    network: Network,
    base: Base,
    /// Members of a leaf set on each side.
    side: usize,
}

/// Keeps ids and pairs of the model apart from other things drawn from the same seed.
const IDS: u64 = 6 << 40;
const PAIRS: u64 = 7 << 40;
const SAMPLE: u64 = 8 << 40;

impl Model {
    /// Makes a ring of these nodes.
    pub fn new(mut members: Vec<Contact>, network: Network, base: Base, leaf_set: usize) -> Model {
        members.sort();
        Model { members, network, base, side: leaf_set / 2 }
    }

    /// Makes a ring of nodes with random ids.
    pub fn random(nodes: usize, network: Network, base: Base, leaf_set: usize, seed: u64) -> Model {
        let mut dice = SeededDice::derive(seed, IDS);
        let mut id = || Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()));
        let members = (0..nodes as u32).map(|node| Contact::new(id(), 1, Addr(node))).collect();
        Model::new(members, network, base, leaf_set)
    }

    /// Makes a ring of the nodes that are ready in a world, where they are.
    pub fn of(world: &World) -> Model {
        let members = world.ready().map(|(_, node)| node.me()).collect();
        let config = world.config();
        Model::new(members, world.network.clone(), config.base, config.leaf_set.into())
    }

    /// Returns all nodes, by id.
    pub fn members(&self) -> &[Contact] {
        &self.members
    }

    /// Returns the node that answers for a key.
    ///
    /// # Panics
    /// If the ring is empty.
    pub fn owner(&self, key: Key) -> Contact {
        self.members[self.owner_at(key)]
    }

    /// Returns the `k` nodes numerically nearest to a key, nearest first.
    pub fn nearest(&self, key: Key, k: usize) -> Vec<Contact> {
        let (count, at) = (self.members.len(), self.position(key));
        let around = (0..count.min(2 * k)).map(|step| (at + count + step - k.min(count)) % count);
        let mut nodes: Vec<Contact> = around.map(|at| self.members[at]).collect();
        nodes.sort_by_key(|contact| key.closeness(contact.id));
        nodes.truncate(k);
        nodes
    }

    /// Returns all nodes that fit a cell of this node's routing table. In the column of the node's own digit these are
    /// the nodes of all later rows, itself included.
    pub fn fitting(&self, me: NodeId, row: u8, column: u8) -> &[Contact] {
        me.with_digit(row, column, self.base).map_or(&[], |id| self.sharing(id, row + 1))
    }

    /// Returns the node that should hold a cell, with its distance.
    pub fn holder(&self, me: Contact, row: u8, column: u8) -> Option<(Contact, Duration)> {
        let fitting = self.fitting(me.id, row, column).iter();
        fitting.map(|node| (*node, self.distance(me, *node))).min_by_key(|(_, distance)| *distance)
    }

    /// Returns how far one node is from another.
    pub fn distance(&self, from: Contact, to: Contact) -> Duration {
        self.network.direct(from.addr.0, to.addr.0)
    }

    /// Returns the members of a node's leaf set.
    pub fn leaves(&self, me: NodeId) -> impl Iterator<Item = Contact> + '_ {
        let (count, at) = (self.members.len(), self.position(me));
        let (left, right) =
            if self.is_whole() { (0, count.saturating_sub(1)) } else { (self.side, self.side) };
        let steps = (count - left..count).chain(count + 1..=count + right);
        steps.map(move |step| self.members[(at + step) % count])
    }

    /// Returns the holders of a node's routing table, from a row on.
    pub fn holders(&self, me: Contact, from: u8) -> impl Iterator<Item = Contact> + '_ {
        // Later rows are empty once nobody shares so many digits.
        let rows = (from..self.base.digits()).take_while(move |row| self.sharing(me.id, *row).len() > 1);
        let columns = move |row| (0..self.base.columns()).map(move |column| (row, column as u8));
        let cells = rows.flat_map(columns).filter(move |(row, column)| {
            let own = me.id.digit(*row, self.base);
            own != Some(*column)
        });
        cells.filter_map(move |(row, column)| self.holder(me, row, column).map(|(holder, _)| holder))
    }

    /// Decides where a message goes, as [`kringle_core::overlay::pastry::router::Router::next_hop`] does; `None` if it
    /// has arrived.
    pub fn next_hop(&self, me: Contact, key: Key) -> Option<Contact> {
        if self.covers(me.id, key) {
            return Some(self.owner(key)).filter(|owner| *owner != me);
        }
        let row = me.id.shared_digits(key, self.base);
        let cell = key.digit(row, self.base).and_then(|column| self.holder(me, row, column));
        cell.map(|(holder, _)| holder).or_else(|| {
            // The rare case: nobody shares more digits, but somebody with as many is nearer.
            let known = self.leaves(me.id).chain(self.holders(me, row));
            let fits = known.filter(|node| node.id.shared_digits(key, self.base) >= row).chain([me]);
            fits.min_by_key(|node| key.closeness(node.id)).filter(|best| *best != me)
        })
    }

    /// Returns the nodes a message visits, from its sender to the node that answers for the key.
    pub fn route(&self, from: Contact, key: Key) -> Vec<Contact> {
        let mut path = vec![from];
        let mut at = from;
        while let Some(next) = self.next_hop(at, key) {
            path.push(next);
            at = next;
        }
        path
    }

    /// Routes messages between random pairs of nodes, each to the other's id.
    pub fn routes(&self, name: &str, count: usize, seed: u64) -> Routes {
        let mut dice = SeededDice::derive(seed, PAIRS);
        let mut routes = Routes::new(name);
        for _ in 0..count {
            let from = dice.below(self.members.len());
            let to = (from + 1 + dice.below(self.members.len() - 1)) % self.members.len();
            let path = self.route(self.members[from], self.members[to].id);
            let path: Vec<u32> = path.iter().map(|node| node.addr.0).collect();
            routes.add(path.len() as u64 - 1, &path, &self.network);
        }
        routes
    }

    /// Returns how many nodes a node knows, on average: leaves, and holders that are no leaves. Looks at `sample` random
    /// nodes.
    pub fn entries(&self, sample: usize, seed: u64) -> f64 {
        let mut dice = SeededDice::derive(seed, SAMPLE);
        let mut known = 0;
        for _ in 0..sample {
            let me = self.members[dice.below(self.members.len())];
            let leaves: Vec<Contact> = self.leaves(me.id).collect();
            known += leaves.len() + self.holders(me, 0).filter(|holder| !leaves.contains(holder)).count();
        }
        known as f64 / sample.max(1) as f64
    }

    /// Says whether every leaf set holds the whole ring.
    fn is_whole(&self) -> bool {
        self.members.len() <= 2 * self.side + 1
    }

    fn covers(&self, me: NodeId, key: Key) -> bool {
        let (count, at) = (self.members.len(), self.position(me));
        let first = || self.members[(at + count - self.side) % count].id;
        let last = || self.members[(at + self.side) % count].id;
        self.is_whole() || first().clockwise_to(key) <= first().clockwise_to(last())
    }

    fn owner_at(&self, key: Key) -> usize {
        let (count, at) = (self.members.len(), self.position(key));
        let closeness = |at: usize| key.closeness(self.members[at].id);
        let (before, after) = ((at + count - 1) % count, at % count);
        if closeness(after) < closeness(before) { after } else { before }
    }

    /// Returns where an id is among the members, or would be.
    fn position(&self, id: Id) -> usize {
        self.members.partition_point(|member| member.id < id)
    }

    /// Returns the nodes that share so many leading digits with an id.
    fn sharing(&self, id: Id, digits: u8) -> &[Contact] {
        let bits = u32::from(digits) * u32::from(self.base.bits());
        let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
        let first = self.members.partition_point(|member| member.id.value() < id.value() & !rest);
        let beyond = self.members.partition_point(|member| member.id.value() <= id.value() | rest);
        &self.members[first..beyond]
    }
}

#[cfg(test)]
mod tests;
