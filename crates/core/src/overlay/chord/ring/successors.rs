//! Lists of successors: which are believed, and how they are put together.

use alloc::vec::Vec;

use super::{Effect, Out, Ring, RingTimer, Rules, is_same_life};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::id::{Id, NodeId};

/// Says whether `x` is met on the way clockwise from `a` to `b`, not counting the two (VC-04). From a node to itself the
/// way leads past everybody else.
pub fn between(a: Id, x: Id, b: Id) -> bool {
    x != a && x != b && (a == b || a.clockwise_to(x) < a.clockwise_to(b))
}

impl Ring {
    /// VC-12: the node before `x` that is nearest to it, as far as this one knows.
    pub fn best_predecessor(&self, x: Id) -> Contact {
        let before = |node: &&Contact| between(self.ptr.id, node.id, x);
        self.succ_list.iter().rev().find(before).copied().unwrap_or(self.ptr)
    }

    /// says whether a list can be its sender's: clockwise from there, at most once around, nobody twice.
    pub(super) fn is_credible(owner: NodeId, list: &[Contact], rules: &Rules) -> bool {
        if !rules.keeps(Safeguard::CheckLists) {
            return true;
        }
        let mut last = 0;
        list.iter().all(|node| {
            let distance = owner.clockwise_to(node.id);
            let further = distance > last;
            last = distance;
            further
        })
    }

    /// Follows a node that has just answered: the list becomes that node and its successors, up to this node itself
    /// if the ring is that small.
    pub(super) fn follow(&mut self, head: Contact, list: &[Contact], rules: &Rules) {
        self.suspects.retain(|suspect| suspect.id != head.id);
        self.vouch(head.id, false);
        let mut new = Vec::with_capacity(rules.successors);
        new.push(head);
        let checked = rules.keeps(Safeguard::CheckLists);
        let around = self.ptr.id.clockwise_to(head.id);
        for node in list {
            if checked && self.ptr.id.clockwise_to(node.id) <= around {
                break;
            }
            new.push(self.latest(*node));
        }
        new.retain(|node| !self.suspects.iter().any(|suspect| suspect.id == node.id));
        new.truncate(rules.successors);
        self.succ_list = new;
    }

    /// Adds a node that has answered to the list, where it belongs.
    pub(super) fn insert(&mut self, node: Contact, rules: &Rules) {
        let distance = |id: NodeId| self.ptr.id.clockwise_to(id);
        let at = self.succ_list.partition_point(|other| distance(other.id) < distance(node.id));
        match self.succ_list.get_mut(at) {
            Some(same) if same.id == node.id => *same = node,
            _ => self.succ_list.insert(at, node),
        }
        self.succ_list.truncate(rules.successors);
    }

    /// keeps a silent successor in mind.
    pub(super) fn suspect(&mut self, node: Contact, rules: &Rules, out: Out<'_>) {
        if self.suspects.is_empty() {
            out.push(Effect::Arm(RingTimer::Probe));
        }
        let distance = |id: NodeId| self.ptr.id.clockwise_to(id);
        let at = self.suspects.partition_point(|other| distance(other.id) < distance(node.id));
        match self.suspects.get_mut(at) {
            Some(same) if same.id == node.id => *same = node,
            _ => self.suspects.insert(at, node),
        }
        for forgotten in self.suspects.split_off(self.suspects.len().min(2 * rules.successors)) {
            self.vouch(forgotten.id, false);
        }
        out.push(Effect::Suspected(node));
    }

    /// The list as others get it: with suspects that only this node can not reach.
    pub(super) fn list_for(&self, asker: NodeId) -> Vec<Contact> {
        let vouched = self.suspects.iter().filter(|suspect| self.vouched.contains(&suspect.id));
        let mut list: Vec<Contact> = self.succ_list.iter().chain(vouched).copied().collect();
        if list.len() > self.succ_list.len() {
            list.sort_by_key(|node| self.ptr.id.clockwise_to(node.id));
            list.truncate(self.succ_list.len());
        }
        list.retain(|node| node.id != asker);
        list
    }

    /// Returns what is known of the latest life of a node.
    fn latest(&self, node: Contact) -> Contact {
        self.pointers()
            .filter(|known| known.id == node.id)
            .fold(node, |latest, known| if known.incarnation > latest.incarnation { known } else { latest })
    }

    fn pointers(&self) -> impl Iterator<Item = Contact> + '_ {
        let asked = self.cur_request.as_ref().map(|request| request.target);
        let singles = self.pred.into_iter().chain(self.rectify_with).chain(asked);
        self.succ_list.iter().chain(&self.suspects).copied().chain(singles)
    }

    /// says whether to listen to this life of the sender. If it is a later one than known, the earlier one is dead.
    pub(super) fn hear(&mut self, from: Contact, rules: &Rules, out: Out<'_>) -> bool {
        if !rules.keeps(Safeguard::ThisLife) {
            return true;
        }
        let known = self.pointers().filter(|known| known.id == from.id);
        match known.map(|known| known.incarnation).max() {
            Some(known) if known > from.incarnation => {
                out.push(Effect::Refused(crate::edge::Refusal::StaleIncarnation));
                false
            }
            _ => {
                // A join that starts again asks the life that is there, or it would bury it time and again.
                if self.known.id == from.id && self.known.incarnation < from.incarnation {
                    self.known = from;
                }
                self.bury(|node| node.id == from.id && node.incarnation < from.incarnation, rules, out);
                true
            }
        }
    }

    /// Removes pointers to nodes that are certainly not members any more.
    pub(super) fn bury(&mut self, is_dead: impl Fn(&Contact) -> bool, rules: &Rules, out: Out<'_>) {
        if !self.pointers().any(|node| is_dead(&node)) && !self.is_candidate(&is_dead) {
            return;
        }
        self.succ_list.retain(|node| !is_dead(node));
        self.suspects.retain(|node| !is_dead(node));
        self.vouched.retain(|id| self.suspects.iter().any(|suspect| suspect.id == *id));
        self.pred = self.pred.filter(|node| !is_dead(node));
        self.rectify_with = self.rectify_with.filter(|node| !is_dead(node));
        if self.is_candidate(&is_dead) {
            self.end_query(out);
        } else if self.cur_request.as_ref().is_some_and(|request| is_dead(&request.target)) {
            self.on_silence(false, rules, out);
        }
    }

    /// Says whether such a node is the one an open Rectify is about.
    fn is_candidate(&self, is_it: &impl Fn(&Contact) -> bool) -> bool {
        let query = self.cur_request.as_ref().map(|request| request.query);
        matches!(query, Some(super::Query::Rectify(candidate)) if is_it(&candidate))
    }

    /// Says whether this answer is the one waited for.
    pub(super) fn is_from_target(&self, target: &Contact, from: &Contact, rules: &Rules) -> bool {
        target.id == from.id && (is_same_life(target, from) || !rules.keeps(Safeguard::ThisLife))
    }
}
