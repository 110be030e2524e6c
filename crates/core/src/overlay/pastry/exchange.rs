//! Leaf probes: two nodes that belong into each other's leaf set tell each other what the other does not know yet.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::leaf_set::Source;
use super::{LeafProbe, LeafReply, Message, Pastry};
use crate::config::Safeguard;
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Refusal};
use crate::message::{Body, Nonce};
use crate::overlay::Status;
use crate::overlay::probe::Why;

impl Pastry {
    pub(super) fn send_probe(&mut self, peer: Contact, nonce: Nonce, why: Why, cx: &mut Ctx<'_>) {
        if !why.has(Why::LEAF) {
            return cx.send(peer, Body::Ping(nonce));
        }
        let version = self.router.versions().leaf_set;
        let joining = self.joining.as_ref().and_then(|joining| joining.seen(peer.id));
        let beside = self.beside.iter_mut().find(|beside| beside.id == Some(peer.id));
        let known = beside.is_some();
        let seen = joining.map(|seen| seen.leaf_set).or(beside.as_ref().and_then(|beside| beside.seen));
        // A joiner only introduces itself; a ready node exchanges, unless the neighbour has our leaves already.
        let told = beside.is_some_and(|beside| {
            beside.sent = version;
            beside.told == Some(version)
        });
        let news = self.is_in_ring() && !told;
        let (leaf_set, me) = (self.router.leaf_set(), self.router.me());
        // Of other leaves it is not known what they have seen.
        let digest = if news && !known { leaf_set.digest(me, peer.id) } else { None };
        let leaves = if news && digest.is_none() { leaf_set.arc() } else { Vec::new() };
        cx.send(peer, Body::Pastry(Message::LeafProbe(Box::new(LeafProbe { nonce, seen, leaves, digest }))));
    }

    /// A leaf has another view of what is between us: it has sent its leaf set, and gets ours.
    pub(super) fn send_leaves(&mut self, peer: Contact, version: u32, cx: &mut Ctx<'_>) {
        let wait = self.patience(peer.id, cx.now, cx.config);
        if let Some(nonce) = self.prober.start(peer, Why::LEAF, wait, cx) {
            let leaves = self.router.leaf_set().arc();
            let probe = LeafProbe { nonce, seen: Some(version), leaves, digest: None };
            cx.send(peer, Body::Pastry(Message::LeafProbe(Box::new(probe))));
        }
    }

    pub(super) fn handle_leaf_probe(&mut self, from: Contact, probe: LeafProbe, cx: &mut Ctx<'_>) {
        if self.status == Status::Isolated {
            self.end_isolation(cx);
        }
        if !self.is_member() {
            return cx.refuse(Refusal::NotJoined);
        }
        let before = self.router.versions().leaf_set;
        let leaf_set = self.router.leaf_set();
        let same = probe.digest.is_some() && probe.digest == leaf_set.digest(self.router.me(), from.id);
        // Before the answer: whoever has our answer can rely on being in our leaf set.
        let source = self.router.leaf_set().side_of(from.id, from.id, &probe.leaves);
        self.admit(from, Proximity::UNKNOWN, source, cx);
        let reply = LeafReply {
            nonce: probe.nonce,
            version: self.router.versions().leaf_set,
            leaves: (probe.seen != Some(before) && !same).then(|| self.router.leaf_set().arc()),
        };
        cx.send(from, Body::Pastry(Message::LeafReply(Box::new(reply))));
        self.become_ready(cx);
        self.consider_leaves(from, probe.leaves, Why::VET, cx);
        self.helped_is_here(from.id, cx);
    }

    pub(super) fn handle_leaf_reply(&mut self, from: Contact, reply: LeafReply, cx: &mut Ctx<'_>) {
        let nonce = match self.prober.open_nonce(from.id) {
            Some(open) if !cx.config.rule(Safeguard::SolicitedOnly) => open,
            _ => reply.nonce,
        };
        let Some(answered) = self.prober.answer(from.id, nonce, true, cx) else {
            return cx.refuse(Refusal::Unsolicited);
        };
        self.on_alive(answered.cleared, from, cx);
        if let Some(beside) = self.beside.iter_mut().find(|beside| beside.id == Some(from.id)) {
            (beside.seen, beside.told) = (Some(reply.version), Some(beside.sent));
        }
        let proximity = self.measured(from, answered.rtt, cx);
        let leaves = reply.leaves.unwrap_or_default();
        let beside = self.beside.iter().any(|beside| beside.id == Some(from.id));
        let digest = self.router.leaf_set().digest(self.router.me(), from.id);
        if !leaves.is_empty() && self.is_in_ring() && !beside && digest.is_some() {
            self.send_leaves(from, reply.version, cx);
        }
        let source = match answered.why {
            why if why.has(Why::SEEK) && self.seek_on(from, why, &leaves, cx) => Source::Elsewhere,
            why if why.has(Why::LEFT) => Source::Left,
            why if why.has(Why::RIGHT) => Source::Right,
            _ => Source::Leaf,
        };
        self.admit_for(from, proximity, source, answered.why, cx);
        if !leaves.is_empty() {
            self.router.leaf_set_mut().close(from.id, &leaves);
            self.report_range(cx);
            self.consider_leaves(from, leaves, answered.why.only(Why::JOIN), cx);
        }
        self.continue_join(cx);
        self.continue_verifying(cx);
    }
}
