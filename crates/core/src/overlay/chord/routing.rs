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
        if let Some(first) = successors.iter().position(|node| at_or_after(&node)) {
            let owner = successors[first..].iter().find(|node| !in_doubt(node.id));
            return owner.map_or(NextHop::Wait, |owner| NextHop::Peer(*owner, Rule::SuccessorList));
        }
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
