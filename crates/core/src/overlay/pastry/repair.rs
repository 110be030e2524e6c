//! Death and departure: probes that stay unanswered, goodbyes, and the search for replacements.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::leaf_set::Source;
use super::lease::FLANKS;
use super::routing_table::Removal;
use super::{AskFor, Message, Past, Pastry, What};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::{Ctx, Event, Failure, Note, Output, Refusal, Reply, RequestId, Timer};
use crate::id::NodeId;
use crate::message::Body;
use crate::overlay::probe::Why;
use crate::overlay::{Overlay, Status};
use crate::time::Time;

/// How many members of a row are asked for a lost cell before the search is left to maintenance.
const CELL_TRIES: u8 = 3;
/// Among how many of the nearest nodes a repeated search for a side chooses where to begin.
const SEEK_CHOICES: usize = 4;
/// Vanished peers remembered.
const GONE_MAX: usize = 256;

/// Goodbyes remembered.
const DEPARTED_MAX: usize = 64;

impl Pastry {
    /// Repeats probes that were not answered, and draws the conclusion where all attempts were in vain.
    pub(super) fn on_probe_timer(&mut self, cx: &mut Ctx<'_>) {
        let (config, now) = (cx.config, cx.now);
        let mut prober = core::mem::take(&mut self.prober);
        let due = prober.due(|peer| self.patience(peer, now, config), cx);
        self.prober = prober;
        for (peer, nonce, why, last) in due.again {
            // A candidate that is silent is not tried again: if it is alive, it will be heard of again.
            if why == Why::VET && self.router.get(peer.id).is_none() {
                self.prober.forget(peer.id);
                continue;
            }
            self.send_probe(peer, nonce, why, cx);
            // Only a leaf's death changes who answers for what. Whoever else does not answer us is of no use to us.
            if last && why.has(Why::WATCH) && self.router.leaf_set().get(peer.id).is_some() {
                self.ask_relays(peer, nonce, cx);
            }
        }
        for (peer, why) in due.failed {
            // Silence of another address or an earlier life says nothing about whom we know; and no leaf is dead before
            // others were asked, which only happens for those who are watched.
            match self.router.get(peer.id) {
                Some(known) if known != peer => {}
                Some(_) if why.has(Why::WATCH) => self.bury(peer, cx),
                Some(_) => self.on_silent(peer, cx),
                None => {}
            }
        }
        self.continue_join(cx);
        self.continue_verifying(cx);
    }

    /// A broken path is not a dead node: others look too.
    fn ask_relays(&mut self, peer: Contact, nonce: u32, cx: &mut Ctx<'_>) {
        let suspects = self.prober.suspects();
        let fits = |leaf: &&Contact| leaf.id != peer.id && suspects.binary_search(&leaf.id).is_err();
        let mut relays: Vec<Contact> =
            self.router.leaf_set().members().iter().filter(fits).copied().collect();
        for _ in 0..cx.config.probe_relays {
            if relays.is_empty() {
                break;
            }
            let relay = relays.swap_remove(cx.dice.below(relays.len()));
            self.prober.asked_via(peer.id, relay.id);
            cx.send(relay, Body::PingVia { nonce, target: peer });
        }
    }

    /// Probes found a peer dead.
    fn bury(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        if !self.keep_dead(peer, cx) {
            self.remove_dead(peer, cx);
        }
    }

    /// Nothing holds a dead peer in the tables any more.
    pub(super) fn remove_dead(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        cx.note(Note::Died(peer));
        self.remember_gone(peer, cx.now);
        let leaf_set = self.router.leaf_set();
        let beside = [leaf_set.left().next(), leaf_set.right().next()];
        let was_beside = beside.iter().flatten().any(|neighbour| neighbour.id == peer.id);
        self.forget(peer.id, cx);
        // The two nodes beside it tell the others, who then look for themselves.
        if was_beside {
            self.tell_death(peer, cx);
        }
    }

    pub(super) fn tell_death(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        for leaf in self.router.leaf_set().members().iter().filter(|leaf| leaf.id != peer.id) {
            cx.send(*leaf, Body::Pastry(Message::Obituary(peer)));
        }
    }

    /// Removes a peer from all tables and starts to fill the gaps.
    pub(super) fn forget(&mut self, id: NodeId, cx: &mut Ctx<'_>) {
        let was_left = self.router.leaf_set().left().any(|leaf| leaf.id == id);
        let beside = FLANKS.map(|flank| self.neighbour(flank).is_some_and(|neighbour| neighbour.id == id));
        let removed = self.router.remove(id);
        for (flank, _) in FLANKS.into_iter().zip(beside).filter(|(_, beside)| *beside) {
            self.inherit(id, flank, cx);
        }
        self.cache.remove(id);
        self.prober.forget(id);
        cx.out.raise(Event::Settled(id));
        match removed.cell {
            Removal::Promoted => cx.note(Note::SparePromoted),
            Removal::Emptied { row, column } => self.ask_for_cell(row, column, 0, cx),
            Removal::Spare | Removal::Absent => {}
        }
        if removed.neighbour && self.status == Status::Ready {
            self.exchange_neighbourhood(cx);
        }
        if let Some(leaf) = removed.leaf {
            cx.out.raise(Event::PeerDown(leaf));
            cx.out.raise(Event::NeighboursChanged);
            self.report_range(cx);
            self.repair_leaf_set(was_left, false, cx);
            self.review_leases(cx);
        }
        if self.helping.as_ref().is_some_and(|helping| helping.joiner() == Some(id)) {
            self.help_next(cx);
        }
        if self.router.nodes().next().is_none() {
            match self.status {
                Status::Ready => self.lose_everybody(cx),
                Status::Ok => self.join_failed(cx),
                _ => {}
            }
        }
    }

    /// Remembers who vanished: if a cut in the network is healed, they know the other part.
    fn remember_gone(&mut self, contact: Contact, now: Time) {
        let gone = &mut self.past().gone;
        gone.retain(|(gone, _)| gone.id != contact.id);
        if gone.len() >= GONE_MAX {
            gone.remove(0);
        }
        gone.push((contact, now));
    }

    /// Asks the farthest leaf on the side that has lost one. A whole leaf set has nothing to ask for.
    fn repair_leaf_set(&mut self, left: bool, again: bool, cx: &mut Ctx<'_>) {
        if !self.is_in_ring() {
            return;
        }
        let leaf_set = self.router.leaf_set();
        if leaf_set.is_whole() && !leaf_set.is_empty() {
            return;
        }
        let end = if left { leaf_set.left().next_back() } else { leaf_set.right().next_back() };
        match end {
            Some(end) => {
                cx.note(Note::LeafAsked);
                // We have lost somebody: what we have seen of it before does not help.
                for beside in self.beside.iter_mut().filter(|beside| beside.id == Some(end.id)) {
                    beside.seen = None;
                }
                self.probe(end, Why::LEAF.and(Why::WATCH), cx);
            }
            None => self.seek(left, again, cx),
        }
    }

    /// Asks again where the leaf set is shorter than it could be.
    pub(super) fn complete_leaf_set(&mut self, cx: &mut Ctx<'_>) {
        let (leaf_set, side) = (self.router.leaf_set(), cx.config.leaf_side());
        let short = [leaf_set.left().len() < side, leaf_set.right().len() < side];
        if !leaf_set.is_complete() {
            short[0].then(|| self.repair_leaf_set(true, true, cx));
            short[1].then(|| self.repair_leaf_set(false, true, cx));
        }
    }

    /// A whole side is gone at once: nobody in the leaf set knows who comes there. The nearest known node on that side
    /// knows nearer ones, and so on, until nobody lies between it and us. Only that one becomes a leaf: with a farther
    /// one we would claim keys that belong to those between.
    /// A search that has failed begins elsewhere: the nearest node may be mistaken, or lie.
    fn seek(&mut self, left: bool, again: bool, cx: &mut Ctx<'_>) {
        if !cx.config.rule(Safeguard::SeekSide) {
            return;
        }
        let me = self.router.me().id;
        let distance = |id: NodeId| if left { id.clockwise_to(me) } else { me.clockwise_to(id) };
        let suspects = self.prober.suspects();
        let known = self.router.nodes().filter(|contact| suspects.binary_search(&contact.id).is_err());
        let mut known: Vec<Contact> = known.collect();
        known.sort_by_key(|contact| distance(contact.id));
        let choice = if again { cx.dice.below(known.len().min(SEEK_CHOICES)) } else { 0 };
        let side = if left { Why::LEFT } else { Why::RIGHT };
        if let Some(start) = known.get(choice).filter(|_| !self.prober.is_seeking(side)) {
            cx.note(Note::LeafSought);
            self.probe(*start, Why::LEAF.and(Why::SEEK).and(side), cx);
        }
    }

    /// A node on the way has answered. Returns whether a nearer one is asked now.
    pub(super) fn seek_on(&mut self, from: Contact, why: Why, leaves: &[Contact], cx: &mut Ctx<'_>) -> bool {
        let (me, left) = (self.router.me().id, why.has(Why::LEFT));
        let distance = |id: NodeId| if left { id.clockwise_to(me) } else { me.clockwise_to(id) };
        let between = leaves.iter().filter(|leaf| leaf.id != me && distance(leaf.id) < distance(from.id));
        match between.min_by_key(|leaf| distance(leaf.id)) {
            Some(nearer) => {
                let side = if left { Why::LEFT } else { Why::RIGHT };
                self.probe(*nearer, Why::LEAF.and(Why::SEEK).and(side), cx);
                true
            }
            None => false,
        }
    }

    /// Asks one member of the row, or of a later row, for a node that fits the empty cell.
    pub(super) fn ask_for_cell(&mut self, row: u8, column: u8, tries: u8, cx: &mut Ctx<'_>) {
        if self.status != Status::Ready || tries >= CELL_TRIES {
            return;
        }
        if self.router.table().cell(row, column).next().is_some() || !self.budget.take(256, cx) {
            return;
        }
        let suspects = self.prober.suspects();
        let members = (row..self.router.table().depth())
            .map(|row| self.router.table().row(row).map(|(_, entry)| entry.contact))
            .map(|members| members.filter(|c| suspects.binary_search(&c.id).is_err()).collect::<Vec<_>>())
            .find(|members| !members.is_empty());
        if let Some(members) = members {
            let member = members[cx.dice.below(members.len())];
            cx.note(Note::CellAsked);
            let purpose = AskFor::Repair { row, column, tries: tries + 1 };
            self.ask(member, What::Cell { row, column }, Vec::new(), purpose, cx);
        }
    }

    /// Somebody says a node is dead. That is a reason to look, not to believe.
    pub(super) fn handle_obituary(&mut self, dead: Contact, cx: &mut Ctx<'_>) {
        match self.router.get(dead.id) {
            Some(known) if !cx.config.rule(Safeguard::OwnProbes) => self.bury(known, cx),
            Some(known) if known.incarnation == dead.incarnation => self.probe(known, Why::WATCH, cx),
            _ => {}
        }
    }

    pub(super) fn handle_goodbye(&mut self, from: Contact, leaves: Vec<Contact>, cx: &mut Ctx<'_>) {
        if self.router.get(from.id).is_none() {
            return cx.refuse(Refusal::Unsolicited);
        }
        // The last one leaves, and all it knows of have said goodbye, too: that is no cut.
        let me = self.me().id;
        let gone = |leaf: &Contact| leaf.id == me || self.has_departed(*leaf, cx.now);
        let last = self.router.nodes().all(|node| node.id == from.id) && leaves.iter().all(gone);
        let sides = leaves.iter().map(|leaf| self.router.leaf_set().side_of(leaf.id, from.id, &leaves));
        let sides: Vec<Source> = sides.collect();
        self.note_departure(from, cx);
        if cx.config.rule(Safeguard::ReturnLeases) {
            self.release(from.id);
        }
        if last && self.router.leaf_set().is_whole() {
            self.had_peers = false;
            if self.leases.is_none() {
                // Like a founder: no other node is left to look for.
                self.seeds.clear();
            }
        }
        if !self.keep_dead(from, cx) {
            self.forget(from.id, cx);
        }
        for (contact, source) in leaves.into_iter().zip(sides) {
            self.consider(contact, source, Why::VET, cx);
        }
    }

    /// Remembers a goodbye for as long as something older may still be under way, or somebody may not have heard it: that
    /// must not bring the leaver back, nor have us wait for its answer.
    fn note_departure(&mut self, peer: Contact, cx: &Ctx<'_>) {
        let until = cx.now.after(cx.config.hop_timeout_max * 4);
        let departed = &mut self.past().departed;
        departed.retain(|(other, until)| other.id != peer.id && *until > cx.now);
        if departed.len() >= DEPARTED_MAX {
            departed.remove(0);
        }
        departed.push((peer, until));
    }

    /// Says whether a peer, in this life, has just said goodbye.
    pub(super) fn has_departed(&self, peer: Contact, now: Time) -> bool {
        let departed = self.past.as_ref().map_or(&[][..], |past| &past.departed);
        departed.iter().any(|(other, until)| {
            other.id == peer.id && other.incarnation >= peer.incarnation && now < *until
        })
    }

    /// Says whether our own probes have found a peer dead lately, in this life.
    pub(super) fn died_within(&self, span: Duration, peer: Contact, now: Time) -> bool {
        let lately = self.gone().iter().rev().take_while(|(_, at)| now < at.after(span));
        lately.into_iter().any(|(gone, _)| *gone == peer)
    }

    pub(super) fn start_leaving(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        match self.status {
            Status::Ready | Status::Ok => {}
            Status::Joining | Status::Waiting | Status::Isolated => {
                self.stop(cx);
                return cx.out.push(Output::Reply { request, reply: Ok(Reply::Left) });
            }
            Status::Out | Status::Leaving => {
                return cx.out.push(Output::Reply { request, reply: Err(Failure::NotJoined) });
            }
        }
        let leaves = self.router.leaf_set().arc();
        for peer in self.router.nodes() {
            cx.send(peer, Body::Pastry(Message::Goodbye(Box::new(leaves.clone()))));
        }
        self.end_join(Failure::Ended, cx);
        self.leaving = Some(request);
        self.set_status(Status::Leaving, cx);
        cx.set_timer(Timer::Leave, cx.config.leave_grace);
    }

    pub(super) fn on_leave_timer(&mut self, cx: &mut Ctx<'_>) {
        if let Some(request) = self.leaving.take() {
            self.stop(cx);
            cx.out.push(Output::Reply { request, reply: Ok(Reply::Left) });
        }
    }

    /// Forgets the ring.
    pub(super) fn stop(&mut self, cx: &mut Ctx<'_>) {
        self.end_join(Failure::Ended, cx);
        let blank = Pastry::new(self.me(), cx.config);
        let (range, status, bound) = (self.range, self.status, self.bound_until());
        let past = bound.map(|_| Box::new(Past { bound, ..Past::default() }));
        *self = Pastry { range, status, past, first_life: self.first_life, ..blank };
        self.set_status(Status::Out, cx);
    }
}
