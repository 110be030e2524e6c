//! The holder's side: asking for leases, and what becomes of them when neighbours change.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Asked, FLANKS, Held, NAMED, patience, pause};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::{Ctx, Event, Note, Refusal};
use crate::id::NodeId;
use crate::message::Body;
use crate::overlay::Status;
use crate::overlay::pastry::leaf_set::Source;
use crate::overlay::pastry::{Flank, LeaseRecall, LeaseReply, LeaseRequest, Message, Pastry};
use crate::overlay::probe::Why;

/// Refusals in a row that are told apart.
const REFUSALS_MAX: u8 = 5;

impl Pastry {
    /// The leaf set has changed: leases that no longer fit are void, new neighbours are asked.
    pub(in crate::overlay::pastry) fn review_leases(&mut self, cx: &mut Ctx<'_>) {
        let me = self.router.me().id;
        for flank in FLANKS {
            let (at, neighbour) = (flank as usize, self.neighbour(flank));
            let Some(leases) = &mut self.leases else { return };
            if leases.asked[at].is_some_and(|asked| neighbour.is_none_or(|n| n.id != asked.peer)) {
                leases.asked[at] = None;
            }
            let was_beside = core::mem::replace(&mut leases.beside[at], neighbour.map(|n| n.id));
            if let Some(new) = neighbour.filter(|n| was_beside != Some(n.id)) {
                leases.refusals[at] = 0;
                // Only who is beside us now can tell what an earlier life of ours granted there.
                if let Some(quiet) = &mut leases.quiet {
                    quiet.told[at] = false;
                }
                // It may go on with leases of those we displaced.
                leases.respect(new.id, cx);
            }
            let Some(neighbour) = neighbour else {
                if leases.held[at].take().is_some() {
                    cx.note(Note::LeaseLost);
                }
                continue;
            };
            let Some(held) = &mut leases.held[at] else { continue };
            let reach = |id: NodeId| flank.distance(me, id);
            let bound = held.nearer.unwrap_or(held.from);
            if reach(neighbour.id) < reach(bound) {
                // A nearer one: the rest goes on. The grantor learns that we know.
                held.nearer = Some(neighbour.id);
                let (from, nonce) = (held.from, held.nonce);
                if let Some(grantor) = self.router.get(from) {
                    cx.note(Note::LeaseDisplaced);
                    let nearer = Some(neighbour.id);
                    cx.send(grantor, Body::Pastry(Message::LeaseReturn { nonce, nearer }));
                }
            } else if neighbour.id != bound && cx.config.rule(Safeguard::CurrentNeighbour) {
                // Whoever was nearer is gone.
                leases.held[at] = None;
                cx.note(Note::LeaseLost);
            }
        }
        self.seek_leases(cx);
    }

    /// Asks every neighbour whose lease is missing or due for renewal.
    pub(in crate::overlay::pastry) fn seek_leases(&mut self, cx: &mut Ctx<'_>) {
        if !self.is_in_ring() || self.leases.is_none() {
            return;
        }
        for flank in FLANKS {
            let Some(neighbour) = self.neighbour(flank) else { continue };
            let (at, nonce) = (flank as usize, self.nonce());
            let version = self.router.versions().leaf_set;
            let open = self.is_open(flank, neighbour.id, cx.now);
            let Some(leases) = &mut self.leases else { return };
            let due =
                !open && leases.held[at].is_none_or(|held| held.from != neighbour.id || held.renew <= cx.now);
            if !due || leases.asked[at].is_some() {
                continue;
            }
            let wait = self.timing.at_least(patience(cx.config), 1, cx.config).min(cx.config.lease / 3);
            let deadline = cx.now.after(wait);
            let (peer, sent) = (neighbour.id, cx.now);
            leases.asked[at] = Some(Asked { peer, nonce: Some(nonce), sent, deadline, version });
            // What has not changed since both agreed need not be told again.
            let same = leases.refusals[at] == 0
                && leases.held[at].is_some_and(|held| {
                    (held.from, held.life) == (peer, neighbour.incarnation) && held.agreed == Some(version)
                });
            if let Some(held) = leases.held[at].as_mut().filter(|held| held.from == neighbour.id) {
                held.nonce = nonce;
            }
            let holds = leases.holds(neighbour.id, flank, cx);
            let leaves = if same { Vec::new() } else { self.beside_us(cx.now) };
            let request = LeaseRequest { nonce, side: flank, holds, leaves, same };
            cx.send(neighbour, Body::Pastry(Message::LeaseRequest(Box::new(request))));
        }
        self.arm_leases(cx);
    }

    /// Says whether the neighbour on this side is asked to renew our lease often enough to notice its silence as soon as
    /// heartbeats would: they notice it at the second one.
    pub(in crate::overlay::pastry) fn renews_within(&self, flank: Flank, cx: &Ctx<'_>) -> bool {
        let held = self.leases.as_ref().and_then(|leases| leases.held[flank as usize]);
        let neighbour = self.neighbour(flank).map(|neighbour| neighbour.id);
        held.is_some_and(|held| Some(held.from) == neighbour && cx.now < held.until)
            && cx.config.lease / 3 <= cx.config.heartbeat * 2
    }

    /// The grantor of a lease has been asked by somebody nearer.
    pub(in crate::overlay::pastry) fn handle_lease_recall(
        &mut self,
        from: Contact,
        recall: LeaseRecall,
        cx: &mut Ctx<'_>,
    ) {
        let LeaseRecall { nonce, side, nearer } = recall;
        let (me, at, neighbour) = (self.router.me().id, side as usize, self.neighbour(side));
        let Some(leases) = &mut self.leases else { return cx.refuse(Refusal::Unsolicited) };
        let holds = leases.held[at].is_some_and(|held| held.from == from.id);
        let asks = leases.asked[at].is_some_and(|asked| asked.peer == from.id);
        let reach = |id: NodeId| side.distance(me, id);
        let known = neighbour.filter(|neighbour| reach(neighbour.id) <= reach(nearer.id));
        if known.is_some() || !holds && !asks {
            let nearer = known.map(|neighbour| neighbour.id);
            cx.send(from, Body::Pastry(Message::LeaseReturn { nonce, nearer }));
        } else if nearer.id != me {
            self.consider(nearer, Source::Leaf, Why::VET, cx);
        }
    }

    pub(in crate::overlay::pastry) fn handle_lease_reply(
        &mut self,
        from: Contact,
        mut reply: LeaseReply,
        cx: &mut Ctx<'_>,
    ) {
        reply.leaves.truncate(2 * NAMED);
        let missing = self.is_missing(&reply.leaves, cx.config);
        let version = self.router.versions().leaf_set;
        let Some(leases) = &mut self.leases else { return cx.refuse(Refusal::Unsolicited) };
        let solicited = cx.config.rule(Safeguard::SolicitedOnly);
        let open = |asked: &Option<Asked>| {
            asked.is_some_and(|asked| {
                asked.peer == from.id && (asked.nonce == Some(reply.nonce) || !solicited)
            })
        };
        let Some(at) = leases.asked.iter().position(open) else { return cx.refuse(Refusal::Unsolicited) };
        let Some(asked) = leases.asked[at].take() else { return };
        // Leaves that were left out are known only as long as ours, which they were compared with, have not changed.
        let known = leases.held[at].is_some_and(|held| {
            (held.from, held.life) == (from.id, from.incarnation) && held.agreed == Some(version)
        });
        let vague = reply.same && !known && cx.config.rule(Safeguard::Agreement);
        let granted = reply.granted && !missing && !vague;
        if granted {
            let (until, renew) = (cx.config.lease_held(), cx.config.lease / 3);
            let (until, renew) = (asked.sent.after(until), asked.sent.after(renew));
            leases.held[at] = Some(Held {
                from: from.id,
                life: from.incarnation,
                nonce: reply.nonce,
                until,
                renew,
                agreed: Some(version).filter(|version| *version == asked.version),
                nearer: None,
            });
            leases.refusals[at] = 0;
            self.had_peers = true;
            cx.note(Note::LeaseGranted);
        } else {
            // Asked again when the neighbour changes, or at the next turn.
            leases.refusals[at] = (leases.refusals[at] + 1).min(REFUSALS_MAX);
            let deadline = cx.now.after(pause(leases.refusals[at], cx.config));
            leases.asked[at] = Some(Asked { deadline, nonce: None, ..asked });
            cx.note(Note::LeaseRefused);
        }
        self.learn_held(from, FLANKS[at], reply.holds, cx);
        let cleared = self.prober.clear(from.id);
        self.on_alive(cleared, from, cx);
        if !granted && !reply.same {
            self.doubt_unnamed(from, &reply.leaves, cx);
        }
        self.consider_leaves(from, reply.leaves, Why::VET, cx);
        self.become_ready(cx);
        self.arm_leases(cx);
        if granted {
            // Messages that waited for this lease can go.
            cx.out.raise(Event::Settled(from.id));
        }
    }

    /// Whoever refuses may be right about a node it does not name: look.
    pub(super) fn doubt_unnamed(&mut self, teller: Contact, leaves: &[Contact], cx: &mut Ctx<'_>) {
        for neighbour in FLANKS.map(|flank| self.neighbour(flank)).into_iter().flatten() {
            if neighbour.id != teller.id && !leaves.iter().any(|leaf| leaf.id == neighbour.id) {
                self.probe(neighbour, Why::WATCH, cx);
            }
        }
    }

    /// A node whose neighbours respect it on both sides is ready.
    pub(in crate::overlay::pastry) fn become_ready(&mut self, cx: &mut Ctx<'_>) {
        if self.status != Status::Ok {
            return;
        }
        let entitled = match &self.leases {
            None => true,
            Some(leases) => {
                let valid = |held: &Option<Held>| held.is_some_and(|held| held.until > cx.now);
                leases.quiet.is_none() && leases.held.iter().all(valid)
            }
        };
        if entitled || !cx.config.rule(Safeguard::ReadyNeedsLeases) {
            self.finish_join(cx);
        }
    }
}
