//! The router: leaf set, routing table and neighbourhood set together, and the decision where a message goes next.

use super::leaf_set::{self, LeafSet, Source};
use super::message::Versions;
use super::neighbourhood::Neighbourhood;
use super::routing_table::{self, Entry, Removal, RoutingTable};
use crate::config::Settings;
use crate::contact::{Contact, Proximity};
use crate::id::{Closeness, Key, NodeId};
use crate::message::{Rule, Stage};
use crate::overlay::NextHop;

/// Everything a Pastry node routes by. It changes only when a node is added or removed.
// In the order in which a routing decision reads it: in a large ring that is one memory access less.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Router {
    leaf_set: LeafSet,
    table: RoutingTable,
    me: Contact,
    neighbourhood: Neighbourhood,
    versions: Versions,
}

/// What adding a node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// What the leaf set made of it.
    pub leaf: leaf_set::Offer,
    /// What the routing table made of it.
    pub cell: routing_table::Offer,
}

/// What removing a node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The member the leaf set lost.
    pub leaf: Option<Contact>,
    /// What the routing table lost.
    pub cell: Removal,
    /// Whether the neighbourhood set lost it.
    pub neighbour: bool,
}

impl Router {
    /// Makes the empty router of a ring of one.
    pub fn new(me: Contact, settings: &Settings) -> Router {
        Router {
            me,
            leaf_set: LeafSet::new(me.id, usize::from(settings.leaf_set / 2)),
            table: RoutingTable::new(me.id, settings.base, settings.spares),
            neighbourhood: Neighbourhood::new(settings.neighbourhood),
            versions: Versions::default(),
        }
    }

    /// Makes a router from tables built elsewhere, such as a lecture's.
    pub fn from_parts(
        me: Contact,
        leaf_set: LeafSet,
        table: RoutingTable,
        neighbourhood: Neighbourhood,
    ) -> Router {
        Router { me, leaf_set, table, neighbourhood, versions: Versions::default() }
    }

    /// Returns this node.
    pub fn me(&self) -> Contact {
        self.me
    }

    /// Returns the leaf set.
    pub fn leaf_set(&self) -> &LeafSet {
        &self.leaf_set
    }

    /// Returns the routing table.
    pub fn table(&self) -> &RoutingTable {
        &self.table
    }

    /// Returns the neighbourhood set.
    pub fn neighbourhood(&self) -> &Neighbourhood {
        &self.neighbourhood
    }

    /// Returns how often each table has changed.
    pub fn versions(&self) -> Versions {
        self.versions
    }

    /// Replaces the leaf set by an empty one, for a join that starts over.
    pub(super) fn reset_leaf_set(&mut self, leaf_set: LeafSet) {
        self.leaf_set = leaf_set;
        self.versions.leaf_set = self.versions.leaf_set.wrapping_add(1);
    }

    pub(super) fn leaf_set_mut(&mut self) -> &mut LeafSet {
        &mut self.leaf_set
    }

    /// Returns every node known, once. The neighbourhood set is not routed by and not counted.
    pub fn nodes(&self) -> impl Iterator<Item = Contact> + '_ {
        let table = self.table.all().map(|entry| entry.contact);
        self.leaf_set.members().iter().copied().chain(table.filter(|c| self.leaf_set.get(c.id).is_none()))
    }

    /// Returns what is known about a node, from whichever table has it.
    pub fn get(&self, id: NodeId) -> Option<Contact> {
        let neighbour = || self.neighbourhood.members().find(|contact| contact.id == id);
        self.get_routed(id).or_else(neighbour)
    }

    /// Returns what is known about a node from the tables that are routed by.
    pub fn get_routed(&self, id: NodeId) -> Option<Contact> {
        self.leaf_set.get(id).or_else(|| self.table.get(id).map(|entry| entry.contact))
    }

    /// Reads what handling a message of this peer reads first, and returns something made of it. A driver of very many
    /// nodes asks several of them before it hands over their inputs, so that their memory is on its way together.
    pub(crate) fn warm_up(&self, peer: NodeId) -> u32 {
        let leaf = self.leaf_set.members().first().map_or(0, |leaf| leaf.incarnation);
        leaf ^ self.table.warm_up(peer)
    }

    /// Returns the proximity of a node in the tables, if it is known.
    pub fn proximity(&self, id: NodeId) -> Option<Proximity> {
        let entry = self
            .table
            .get(id)
            .or_else(|| self.neighbourhood.entries().iter().find(|entry| entry.contact.id == id).copied());
        entry.map(|entry| entry.proximity).filter(|proximity| *proximity != Proximity::UNKNOWN)
    }

    /// Offers a node that is known to be alive to all three tables. A leaf that has to go is offered to the routing
    /// table again.
    pub fn add(
        &mut self,
        contact: Contact,
        proximity: Proximity,
        source: Source,
        settings: &Settings,
    ) -> Added {
        let percent = settings.nearer_percent;
        let leaf = self.leaf_set.offer(contact, source);
        if let leaf_set::Offer::Added(Some(evicted)) = leaf {
            let known = self.proximity(evicted.id).unwrap_or(Proximity::UNKNOWN);
            self.table.offer(evicted, known, percent);
        }
        let cell = match leaf {
            leaf_set::Offer::Stale => routing_table::Offer::Stale,
            leaf_set::Offer::Conflict => routing_table::Offer::Conflict,
            leaf_set::Offer::Myself => routing_table::Offer::Myself,
            _ => self.table.offer(contact, proximity, percent),
        };
        let refused = matches!(
            cell,
            routing_table::Offer::Stale | routing_table::Offer::Conflict | routing_table::Offer::Myself
        );
        if !refused && self.neighbourhood.offer(contact, proximity) {
            self.versions.neighbourhood = self.versions.neighbourhood.wrapping_add(1);
        }
        if matches!(leaf, leaf_set::Offer::Added(_) | leaf_set::Offer::Renewed) {
            self.versions.leaf_set = self.versions.leaf_set.wrapping_add(1);
        }
        if matches!(cell, routing_table::Offer::Filled | routing_table::Offer::Improved) {
            self.versions.table = self.versions.table.wrapping_add(1);
        }
        Added { leaf, cell }
    }

    /// Removes a node from all three tables.
    pub fn remove(&mut self, id: NodeId) -> Removed {
        let removed = Removed {
            leaf: self.leaf_set.remove(id),
            cell: self.table.remove(id),
            neighbour: self.neighbourhood.remove(id),
        };
        if removed.leaf.is_some() {
            self.versions.leaf_set = self.versions.leaf_set.wrapping_add(1);
        }
        if matches!(removed.cell, Removal::Promoted | Removal::Emptied { .. }) {
            self.versions.table = self.versions.table.wrapping_add(1);
        }
        if removed.neighbour {
            self.versions.neighbourhood = self.versions.neighbourhood.wrapping_add(1);
        }
        removed
    }

    /// Decides where a message for `key` goes: leaf set, then cell, then the rare case, else here.
    ///
    /// A step makes progress in the pair (shared digits, ring distance). After a leaf-set step, only strictly nearer
    /// steps are allowed.
    #[inline]
    pub fn next_hop(&self, key: Key, stage: Stage) -> NextHop {
        if self.leaf_set.covers(key) {
            return match self.leaf_set.nearest(key) {
                Some(leaf) => NextHop::Peer(leaf, Rule::LeafSet),
                None => NextHop::Here,
            };
        }
        if stage == Stage::Prefix
            && let Some((contact, rule)) = self.table.lookup(key)
        {
            return NextHop::Peer(contact, rule);
        }
        self.nearer(key, stage, &|_| false, None)
    }

    /// Decides as [`Router::next_hop`] does, but leaves some nodes out. If one of those would have been the right
    /// choice and the alternative is this node itself, the answer is to wait: delivering here would be a guess.
    /// `ignore` is treated as if it were not known at all: a joiner's earlier life.
    pub fn next_hop_except(
        &self,
        key: Key,
        stage: Stage,
        avoid: &dyn Fn(NodeId) -> bool,
        ignore: Option<NodeId>,
    ) -> NextHop {
        if self.leaf_set.covers(key) {
            return match self.leaf_set.nearest_except(key, avoid, ignore) {
                (Some(leaf), _) => NextHop::Peer(leaf, Rule::LeafSet),
                (None, true) => NextHop::Wait,
                (None, false) => NextHop::Here,
            };
        }
        if stage == Stage::Prefix
            && let Some((contact, rule)) = self.table.lookup_except(key, |id| Some(id) == ignore || avoid(id))
        {
            return NextHop::Peer(contact, rule);
        }
        self.nearer(key, stage, avoid, ignore)
    }

    /// The rare case: the nearest known node that makes progress.
    fn nearer(
        &self,
        key: Key,
        stage: Stage,
        avoid: &dyn Fn(NodeId) -> bool,
        ignore: Option<NodeId>,
    ) -> NextHop {
        let base = self.table.base();
        let shared = self.me.id.shared_digits(key, base);
        let mut best: (Option<Contact>, Closeness) = (None, key.closeness(self.me.id));
        let mut skipped = false;
        // Earlier rows share fewer digits with the key than this node does.
        let from = if stage == Stage::Leaf { 0 } else { shared };
        let table = self.table.all_from(from).map(|entry| entry.contact);
        let known = self.leaf_set.members().iter().copied().chain(table);
        for contact in known.filter(|contact| Some(contact.id) != ignore) {
            let closeness = key.closeness(contact.id);
            let fits = stage == Stage::Leaf || contact.id.shared_digits(key, base) >= shared;
            if closeness < best.1 && fits {
                if avoid(contact.id) {
                    skipped = true;
                } else {
                    best = (Some(contact), closeness);
                }
            }
        }
        match best.0 {
            Some(contact) => NextHop::Peer(contact, Rule::RareCase),
            // With a neighbour on each side somebody is always nearer. Without, the nearest node is not known.
            None if skipped || !self.leaf_set.range().contains(key) => NextHop::Wait,
            None => NextHop::Here,
        }
    }

    /// Returns the rows a joiner can use from this node: from `from` up to the digits shared with it, this node
    /// standing in its own column.
    pub fn rows_for(&self, joiner: NodeId, from: u8) -> impl Iterator<Item = Entry> + '_ {
        let shared = self.me.id.shared_digits(joiner, self.table.base());
        (from..=shared).flat_map(|row| self.table.row(row)).map(|(_, entry)| entry)
    }

    /// Checks the invariants of all parts.
    ///
    /// # Panics
    /// If one is broken: that is a mistake in this module.
    pub fn check_invariants(&self) {
        self.leaf_set.check_invariants();
        self.table.check_invariants();
        self.neighbourhood.check_invariants();
        assert!(self.get(self.me.id).is_none(), "a node is never in its own tables");
    }
}

#[cfg(test)]
mod tests;
