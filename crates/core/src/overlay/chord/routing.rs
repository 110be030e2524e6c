//! Where a message goes: the owner of a key is the first node at or after it.

use super::Chord;
use super::ring::between;
use crate::contact::Contact;
use crate::id::{Id, Key, NodeId};
use crate::message::{Rule, Stage};
use crate::overlay::{NextHop, Status};

impl Chord {
    /// Decides where a message goes. Nodes in doubt are left out: the one after them sends the message back a step if they
    /// turn out to be there, and answers for their keys if not.
    pub(super) fn decide(&self, key: Key, stage: Stage, avoid: &[NodeId]) -> NextHop {
        match self.status {
            Status::Ready => {}
            // What we still have in hand goes to whoever answers for it without us.
            Status::Leaving => {
                let heir = self.heirs.iter().find(|heir| !avoid.contains(&heir.id));
                return heir.map_or(NextHop::NotReady, |heir| NextHop::Peer(*heir, Rule::SuccessorList));
            }
            _ => return NextHop::NotReady,
        }
        if self.owned().contains(key) {
            return NextHop::Here;
        }
        let in_doubt = |id: NodeId| avoid.contains(&id) || self.is_in_doubt(id);
        if !self.large {
            // With the list of all members there is nothing to find out; a silent one is waited for until the others agree
            // that it is gone.
            return match self.forming.owner(key) {
                Some(owner) if !in_doubt(owner.id) => NextHop::Peer(owner, Rule::SuccessorList),
                _ => NextHop::Wait,
            };
        }
        match stage {
            // Whoever sent it took us for the owner. Somebody must have come between, and only our predecessor can know.
            Stage::Leaf => match self.ring.pred() {
                Some(pred) if !in_doubt(pred.id) => NextHop::Peer(pred, Rule::Predecessor),
                _ => NextHop::Wait,
            },
            Stage::Prefix => self.nearer(key, &in_doubt),
        }
    }

    /// The owner if it is one of the successors, else whoever comes nearest to the key without passing it.
    fn nearer(&self, key: Key, in_doubt: &dyn Fn(NodeId) -> bool) -> NextHop {
        let me = self.me.id;
        let way = me.clockwise_to(key);
        let at_or_after = |node: &&Contact| me.clockwise_to(node.id) >= way;
        let successors = self.ring.succ_list();
        let mut after = successors.iter().skip_while(|node| !at_or_after(node));
        if let Some(owner) = after.find(|node| !in_doubt(node.id)) {
            return NextHop::Peer(*owner, Rule::SuccessorList);
        }
        // The list does not reach that far, or all the rest of it is in doubt: whoever is nearer knows more.
        let before = |id: NodeId| me.clockwise_to(id) <= way && id != me && !in_doubt(id);
        let successor = successors.iter().rev().find(|node| before(node.id));
        let successor = successor.map(|node| (*node, Rule::Finger { bit: u8::MAX }));
        let fingers = self.fingers.entries().iter().filter(|finger| before(finger.node.id));
        let finger = fingers.map(|finger| (finger.node, Rule::Finger { bit: finger.bit }));
        match finger.chain(successor).max_by_key(|(node, _)| me.clockwise_to(node.id)) {
            Some((node, rule)) => NextHop::Peer(node, rule),
            None => NextHop::Wait,
        }
    }

    pub(super) fn is_in_doubt(&self, id: NodeId) -> bool {
        self.prober.suspects().binary_search(&id).is_ok()
            || self.ring.suspects().iter().any(|suspect| suspect.id == id)
    }

    /// In a small ring, the last member before a place; this node's own place is before itself.
    pub(super) fn forming_predecessor(&self, of: Id) -> Contact {
        let before = self.forming.members().iter().filter(|member| between(of, member.id, of));
        before.min_by_key(|member| member.id.clockwise_to(of)).copied().unwrap_or(self.me)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::ring::Rules;
    use super::*;
    use crate::contact::Addr;

    /// If the end of the list is in doubt, whoever comes nearest to the key is asked: it knows others.
    #[test]
    fn keys_behind_doubtful_ends_of_a_list_go_on_to_the_nearest_before_them() {
        let node = |at: u32| Contact::new(Id::new(u128::from(at) << 120), 1, Addr(at));
        let mut chord = Chord::new(node(0));
        let rules = Rules { successors: 3, attempts: 3, without: None };
        let members: Vec<Contact> = [0, 10, 20, 30, 200].map(node).to_vec();
        chord.ring.start_ring(&members, &rules, &mut Vec::new());
        (chord.large, chord.status) = (true, Status::Ready);
        let hop = |key: u32, avoid: &[u32]| {
            let avoid: Vec<NodeId> = avoid.iter().map(|at| node(*at).id).collect();
            match chord.decide(node(key).id, Stage::Prefix, &avoid) {
                NextHop::Peer(to, rule) => Some((to.addr.0, rule == Rule::SuccessorList)),
                _ => None,
            }
        };
        assert_eq!(hop(15, &[]), Some((20, true)));
        assert_eq!(hop(15, &[20]), Some((30, true)));
        assert_eq!(hop(15, &[20, 30]), Some((10, false)));
        assert_eq!(hop(25, &[30]), Some((20, false)));
        assert_eq!(hop(5, &[10, 20, 30]), None, "nobody is nearer");
    }
}
