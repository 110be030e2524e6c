//! The grantor's side: who is granted a lease, and what binds a node that has granted one, or may have.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Grant, NAMED, NEW_HERE, Quiet};
use crate::config::{Ownership, Safeguard};
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Event, Note, Refusal};
use crate::id::NodeId;
use crate::message::{Body, Nonce};
use crate::overlay::Status;
use crate::overlay::pastry::leaf_set::Source;
use crate::overlay::pastry::{Flank, LeaseRecall, LeaseReply, LeaseRequest, Message, Pastry};
use crate::overlay::probe::Why;
use crate::time::Time;

impl Pastry {
    pub(in crate::overlay::pastry) fn start_leases(&mut self, cx: &mut Ctx<'_>) {
        if cx.config.ownership == Ownership::Hint {
            return;
        }
        let bound_before = self.bound_before();
        let leases = self.leases.get_or_insert_default();
        // An earlier life, or this one before it left, may have granted something.
        let restarted = (!self.first_life).then(|| cx.now.after(cx.config.lease_granted()));
        let until = restarted.max(bound_before).filter(|until| *until > cx.now);
        if let Some(until) = until.filter(|_| cx.config.rule(Safeguard::RestartWaits)) {
            leases.quiet = Some(Quiet { until, told: [false; 2] });
        }
    }

    /// A peer was found dead. Returns whether it has to stay until its lease has run out.
    pub(in crate::overlay::pastry) fn keep_dead(&mut self, peer: Contact, cx: &mut Ctx<'_>) -> bool {
        let Some(leases) = &mut self.leases else { return false };
        if leases.bound_until(peer.id, cx.now).is_none() || !cx.config.rule(Safeguard::KeepGranted) {
            return false;
        }
        if !leases.dead.contains(&peer.id) {
            leases.dead.push(peer.id);
            cx.note(Note::KeptDead(peer));
            cx.out.raise(Event::PeerDied(peer));
            // Others need not wait for our lease: they look for themselves.
            self.tell_death(peer, cx);
        }
        self.prober.suspect(peer, cx);
        self.arm_leases(cx);
        true
    }

    /// The neighbour on this side is gone: what it has granted to the next one binds us now.
    pub(in crate::overlay::pastry) fn inherit(&mut self, lost: NodeId, flank: Flank, cx: &mut Ctx<'_>) {
        let leaf_set = self.router.leaf_set();
        let next = match flank {
            Flank::Left => leaf_set.left().find(|leaf| leaf.id != lost),
            Flank::Right => leaf_set.right().find(|leaf| leaf.id != lost),
        };
        // Somebody in between may have been given up before the one whose lease it holds.
        let me = self.router.me().id;
        let reach = |id: NodeId| flank.distance(me, id);
        let forgotten = self.gone().iter().any(|(gone, at)| {
            cx.now < at.after(cx.config.lease_granted())
                && reach(lost) < reach(gone.id)
                && next.is_none_or(|next| reach(gone.id) < reach(next.id))
        });
        let Some(leases) = &mut self.leases else { return };
        leases.lose(lost, flank, cx);
        if !cx.config.rule(Safeguard::Inherit) {
            return;
        }
        if let Some(next) = next {
            leases.respect(next.id, cx);
        }
        if next.is_none() || forgotten {
            let unknown = &mut leases.unknown[flank as usize];
            let nearest = unknown.filter(|(known, until)| *until > cx.now && reach(*known) < reach(lost));
            let lost = nearest.map_or(lost, |(known, _)| known);
            *unknown = Some((lost, cx.now.after(cx.config.lease_granted())));
        }
    }

    /// Says whether somebody unknown between us and a peer on this side may still hold a lease.
    pub(super) fn is_open(&self, flank: Flank, peer: NodeId, now: Time) -> bool {
        let me = self.router.me().id;
        let unknown = self.leases.as_ref().and_then(|leases| leases.unknown[flank as usize]);
        unknown
            .is_some_and(|(lost, until)| now < until && flank.distance(me, lost) < flank.distance(me, peer))
    }

    /// A peer shows that it lives.
    pub(in crate::overlay::pastry) fn is_not_dead(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        if let Some(leases) = &mut self.leases
            && let Some(at) = leases.dead.iter().position(|dead| *dead == peer.id)
        {
            leases.dead.swap_remove(at);
            cx.out.raise(Event::PeerLives(peer));
        }
    }

    /// Until when anybody may rely on something we have granted in this life or before.
    pub(in crate::overlay::pastry) fn bound_until(&self) -> Option<Time> {
        let leases = self.leases.as_ref();
        let granted = leases.and_then(|leases| leases.granted.iter().map(|grant| grant.until).max());
        granted.max(self.bound_before())
    }

    /// A peer has left for good and said so, or came back in a new life: nothing binds us to its old one.
    pub(in crate::overlay::pastry) fn release(&mut self, id: NodeId) {
        if let Some(leases) = &mut self.leases {
            leases.granted.retain(|grant| grant.to != id);
            leases.inherited.retain(|(bound, _)| *bound != id);
            leases.dead.retain(|dead| *dead != id);
        }
    }

    pub(in crate::overlay::pastry) fn handle_lease_request(
        &mut self,
        from: Contact,
        request: LeaseRequest,
        cx: &mut Ctx<'_>,
    ) {
        if self.leases.is_none() || !self.is_member() {
            return cx.refuse(Refusal::NotJoined);
        }
        let LeaseRequest { nonce, side, holds, mut leaves, same } = request;
        leaves.truncate(2 * NAMED);
        let early = self.status == Status::Ok && !cx.config.rule(Safeguard::GrantBeforeReady);
        if self.status == Status::Waiting || early {
            // Here, but not sure yet of what is beside us.
            let reply = LeaseReply { nonce, granted: false, holds: 0, leaves: Vec::new(), same: false };
            return cx.send(from, Body::Pastry(Message::LeaseReply(Box::new(reply))));
        }
        let mine = side.other();
        self.learn_held(from, mine, holds, cx);
        if cx.config.rule(Safeguard::AddFirst) {
            self.admit(from, Proximity::UNKNOWN, Source::Leaf, cx);
        }
        let version = self.router.versions().leaf_set;
        let agreed = !same
            || !cx.config.rule(Safeguard::Agreement)
            || self.leases.as_ref().is_some_and(|leases| leases.has_agreed(from.id, mine, version, cx.now));
        let is_neighbour = self.neighbour(mine).is_some_and(|neighbour| neighbour.id == from.id);
        let granted = (is_neighbour || !cx.config.rule(Safeguard::AddFirst))
            && self.leases.as_mut().is_some_and(|leases| leases.may_grant(from.id, cx))
            && self.is_verified(cx)
            && !self.is_open(mine, from.id, cx.now)
            && agreed
            && !self.is_missing(&leaves, cx.config)
            && self.recall_from_others(from, mine, cx);
        // If nothing has changed on either side, the holder knows our leaves.
        let same = same && granted;
        let leaves_here = if same { Vec::new() } else { self.beside_us(cx.now) };
        let Some(leases) = &mut self.leases else { return };
        if granted {
            if self.status == Status::Ready && !self.had_peers {
                // So far we were the ring, and knew all of it.
                leases.verified = Some(cx.now);
            }
            self.had_peers = true;
            leases.granted.retain(|grant| (grant.to, grant.side) != (from.id, mine));
            let until = cx.now.after(cx.config.lease_granted());
            leases.granted.push(Grant {
                to: from.id,
                side: mine,
                nonce,
                until,
                agreed: version,
                nearer: None,
            });
        }
        let holds = leases.holds(from.id, mine, cx);
        let reply = LeaseReply { nonce, granted, holds, leaves: leaves_here, same };
        cx.send(from, Body::Pastry(Message::LeaseReply(Box::new(reply))));
        self.consider_leaves(from, leaves, Why::VET, cx);
        // It asks us, so it takes us for its neighbour: the question goes the other way, too.
        self.seek_leases(cx);
    }

    /// Says whether nobody else holds a lease on this side without knowing of the asker, and asks those who do.
    pub(super) fn recall_from_others(&mut self, asker: Contact, mine: Flank, cx: &mut Ctx<'_>) -> bool {
        let (me, now) = (self.router.me().id, cx.now);
        let Some(leases) = &self.leases else { return true };
        if !cx.config.rule(Safeguard::Displaced) {
            return true;
        }
        let reach = |id: NodeId| mine.distance(me, id);
        // Whoever knows the asker, or somebody between itself and the asker, claims nothing near the asker.
        let unaware = |grant: &&Grant| {
            grant.to != asker.id
                && grant.side == mine
                && grant.until > now
                && reach(asker.id) < reach(grant.to)
                && grant.nearer.is_none_or(|nearer| reach(nearer) < reach(asker.id))
        };
        let mut nobody = true;
        for grant in leases.granted.iter().filter(unaware) {
            nobody = false;
            if let Some(holder) = self.router.get(grant.to) {
                let recall = LeaseRecall { nonce: grant.nonce, side: mine.other(), nearer: asker };
                cx.note(Note::LeaseRecalled);
                cx.send(holder, Body::Pastry(Message::LeaseRecall(Box::new(recall))));
            }
        }
        nobody
    }

    /// The holder of a lease knows somebody nearer, or does not hold it.
    pub(in crate::overlay::pastry) fn handle_lease_return(
        &mut self,
        from: Contact,
        nonce: Nonce,
        nearer: Option<NodeId>,
        cx: &mut Ctx<'_>,
    ) {
        let me = self.router.me().id;
        let Some(leases) = &mut self.leases else { return cx.refuse(Refusal::Unsolicited) };
        let ours = |grant: &Grant| grant.to == from.id && grant.nonce == nonce;
        let Some(at) = leases.granted.iter().position(ours) else {
            return cx.refuse(Refusal::Unsolicited);
        };
        let Grant { to, side, .. } = leases.granted[at];
        match nearer {
            Some(nearer) if side.distance(me, nearer) < side.distance(me, to) => {
                leases.granted[at].nearer = Some(nearer);
            }
            Some(_) => cx.refuse(Refusal::OutOfRange),
            None => {
                leases.granted.swap_remove(at);
            }
        }
    }

    /// After a restart, a neighbour tells what it holds from our earlier life.
    pub(super) fn learn_held(&mut self, from: Contact, flank: Flank, holds: u32, cx: &mut Ctx<'_>) {
        let is_beside = self.neighbour(flank).is_some_and(|neighbour| neighbour.id == from.id);
        let nonce = self.nonce();
        let Some(leases) = &mut self.leases else { return };
        let Some(quiet) = leases.quiet.as_mut().filter(|_| holds != NEW_HERE) else { return };
        quiet.told[flank as usize] |= is_beside;
        let over = quiet.told == [true; 2];
        if holds > 0 && is_beside {
            let span =
                Duration::from_millis(holds.into()) * u32::from(100 + 2 * cx.config.drift_percent) / 100;
            let until = cx.now.after(span.min(cx.config.lease_granted()));
            leases.granted.retain(|grant| (grant.to, grant.side) != (from.id, flank));
            // What an earlier life of ours agreed to, we do not know: no version is that high.
            let agreed = u32::MAX;
            leases.granted.push(Grant { to: from.id, side: flank, nonce, until, agreed, nearer: None });
        }
        if over {
            leases.quiet = None;
        }
    }
}
