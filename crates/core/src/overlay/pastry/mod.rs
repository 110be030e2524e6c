//! Pastry: prefix routing over a ring, with leaf sets and proximity.
//!
//! This file owns the state and dispatches; [`router`] decides where messages go; `join` brings a node in and helps
//! others in; `candidates` decides who enters the tables; `exchange` compares leaf sets; `repair` deals with death and
//! departure; `maintenance` keeps tables good in the background, within a traffic budget; `lease` decides who may deliver.

mod candidates;
mod exchange;
mod join;
pub mod leaf_set;
mod lease;
mod maintenance;
mod message;
pub mod neighbourhood;
mod repair;
pub mod router;
pub mod routing_table;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use leaf_set::Source;
pub use message::*;
use router::Router;
use routing_table::Entry;

use super::budget::Budget;
use super::probe::{Prober, Why};
use super::proximity::ProximityCache;
use super::timing::Timing;
use super::{Memory, NextHop, Overlay, Status};
use crate::config::{Config, Metric, Safeguard};
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Event, Failure, Note, Output, Refusal, Reply, RequestId, Timer};
use crate::id::{Closeness, Key, NodeId};
use crate::message::{Body, HopAck, Nonce, Payload, Routed, Stage};
use crate::range::IdRange;
use crate::time::Time;

/// A Pastry node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Pastry {
    status: Status,
    prober: Prober,
    router: Router,
    /// What was last reported upward as our range.
    range: IdRange,

    timing: Timing,
    cache: ProximityCache,
    /// Questions about state that are not answered yet.
    asks: Vec<Ask>,
    next_nonce: Nonce,
    /// The left and the right neighbour as of the last heartbeat.
    beside: [maintenance::Beside; 2],
    budget: Budget,

    /// Where to look for the ring again when everybody is gone.
    seeds: Vec<Contact>,
    past: Option<Box<Past>>,
    joining: Option<Box<join::Joining>>,
    helping: Option<Box<join::Helping>>,
    /// The search for nearby nodes after a join: whom it has asked last, and how many more it may ask.
    looking: Option<(NodeId, u8)>,
    leases: Option<Box<lease::Leases>>,
    /// Whether this identity has never been part of a ring before: then no earlier life can have granted anything.
    first_life: bool,
    /// Whether this node has granted or held a lease since it last was a ring of one: then being alone means being cut
    /// off.
    had_peers: bool,
    leaving: Option<RequestId>,
}

/// What was and may be again. Most nodes of a calm ring have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Past {
    /// Peers that vanished and when, oldest first.
    gone: Vec<(Contact, Time)>,
    healing: Option<maintenance::Healing>,
    /// When one of them was last found to be alive.
    returned: Option<Time>,
    /// Who has said goodbye lately, and until when what it sent before may still arrive.
    departed: Vec<(Contact, Time)>,
    /// Until when something may be relied on that was granted before this node left the ring.
    bound: Option<Time>,
}

/// An open [`Message::StateRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ask {
    peer: Contact,
    nonce: Nonce,
    purpose: AskFor,
    sent: Time,
    deadline: Time,
}

/// What the answer to a state request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AskFor {
    /// Background exchange: better entries.
    Upkeep,
    /// A cell that lost its last holder.
    Repair { row: u8, column: u8, tries: u8 },
    /// The search for a nearby node to join through.
    Nearby,
}

/// State requests open at once; they are few by design, this only bounds mistakes.
const ASKS_MAX: usize = 64;
/// Seeds remembered.
const SEEDS_MAX: usize = 16;

impl Pastry {
    /// Makes a node that is not part of a ring.
    pub fn new(me: Contact, config: &Config) -> Pastry {
        Pastry {
            router: Router::new(me, config),
            status: Status::Out,
            range: IdRange::Empty,
            prober: Prober::default(),
            timing: Timing::default(),
            cache: ProximityCache::default(),
            asks: Vec::new(),
            next_nonce: 0,
            beside: Default::default(),
            budget: Budget::default(),
            seeds: Vec::new(),
            past: None,
            joining: None,
            helping: None,
            looking: None,
            leases: None,
            first_life: me.incarnation <= 1,
            had_peers: false,
            leaving: None,
        }
    }

    /// Says that this identity has never been part of a ring, whatever its incarnation is.
    pub(crate) fn set_first_life(&mut self) {
        self.first_life = true;
    }

    /// Returns the tables.
    pub fn router(&self) -> &Router {
        &self.router
    }

    pub(crate) fn warm_up(&self, peer: Option<NodeId>) -> u32 {
        match peer {
            Some(peer) => self.router.warm_up(peer),
            None => {
                let near = self.prober.suspects().len()
                    ^ self.asks.len()
                    ^ self.router.neighbourhood().entries().len();
                near as u32 ^ self.router.me().incarnation ^ self.next_nonce ^ self.beside[1].sent
            }
        }
    }

    /// Returns the peers this node doubts.
    pub fn suspects(&self) -> &[NodeId] {
        self.prober.suspects()
    }

    fn past(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }

    /// Returns the peers that vanished and when, oldest first.
    fn gone(&self) -> &[(Contact, Time)] {
        self.past.as_ref().map_or(&[], |past| &past.gone)
    }

    /// Until when something may be relied on that was granted before this node left the ring.
    fn bound_before(&self) -> Option<Time> {
        self.past.as_ref().and_then(|past| past.bound)
    }

    /// Says whether peers may count on this node.
    fn is_member(&self) -> bool {
        matches!(self.status, Status::Waiting | Status::Ok | Status::Ready)
    }

    /// Says whether the leaf set is complete, so that this node has to look after it.
    fn is_in_ring(&self) -> bool {
        matches!(self.status, Status::Ok | Status::Ready)
    }

    fn nonce(&mut self) -> Nonce {
        self.next_nonce = self.next_nonce.wrapping_add(1);
        self.next_nonce
    }

    fn set_status(&mut self, status: Status, cx: &mut Ctx<'_>) {
        if self.status != status {
            self.status = status;
            cx.out.raise(Event::StatusChanged(status));
            self.report_range(cx);
        }
    }

    /// Tells the layers above how our range has changed since they were last told.
    fn report_range(&mut self, cx: &mut Ctx<'_>) {
        let range = self.range();
        if range != self.range {
            range
                .subtract(self.range)
                .into_iter()
                .for_each(|gained| cx.out.raise(Event::RangeGained(gained)));
            self.range.subtract(range).into_iter().for_each(|lost| cx.out.raise(Event::RangeLost(lost)));
            self.range = range;
        }
    }

    /// Opens a state request.
    fn ask(&mut self, peer: Contact, what: What, push: Vec<Entry>, purpose: AskFor, cx: &mut Ctx<'_>) {
        if self.asks.len() >= ASKS_MAX {
            cx.refuse(Refusal::Full);
            return;
        }
        let nonce = self.nonce();
        let deadline = cx.now.after(self.timing.at_least(cx.config.probe_timeout_max * 2, 2, cx.config));
        self.asks.push(Ask { peer, nonce, purpose, sent: cx.now, deadline });
        let proximity = self.known_proximity(peer.id, cx.now, cx.config).unwrap_or(Proximity::UNKNOWN);
        let request = StateRequest { nonce, what, push, proximity };
        cx.send(peer, Body::Pastry(Message::StateRequest(Box::new(request))));
        self.arm_asks(cx);
    }

    fn arm_asks(&self, cx: &mut Ctx<'_>) {
        if let Some(earliest) = self.asks.iter().map(|ask| ask.deadline).min() {
            cx.set_timer(Timer::Ask, earliest.since(cx.now));
        }
    }

    fn on_ask_timer(&mut self, cx: &mut Ctx<'_>) {
        let asks = core::mem::take(&mut self.asks);
        let (late, open): (Vec<Ask>, Vec<Ask>) = asks.into_iter().partition(|ask| ask.deadline <= cx.now);
        self.asks = open;
        for Ask { peer, purpose, .. } in late {
            self.on_silent(peer, cx);
            match purpose {
                AskFor::Upkeep => {}
                AskFor::Repair { row, column, tries } => self.ask_for_cell(row, column, tries, cx),
                AskFor::Nearby => self.join_failed(cx),
            }
        }
        self.arm_asks(cx);
    }

    fn handle_state_request(&mut self, from: Contact, request: StateRequest, cx: &mut Ctx<'_>) {
        let StateRequest { nonce, what, push, proximity } = request;
        // A node that looks for its ring may be asked by others who do.
        if !self.is_member() && self.status != Status::Isolated {
            return cx.refuse(Refusal::NotJoined);
        }
        let base = cx.config.base;
        let (what, contacts) = match what {
            What::LeafSet => {
                (what, self.router.leaf_set().arc().into_iter().map(Entry::unmeasured).collect())
            }
            What::Row(row) => {
                let row = row.min(self.router.table().depth().saturating_sub(1));
                let entries = self.router.table().row(row).map(|(_, entry)| entry);
                let me = Entry { contact: self.router.me(), proximity: Proximity(0) };
                (What::Row(row), entries.chain([me]).collect())
            }
            What::Cell { row, column } => {
                if row >= base.digits() || u16::from(column) >= base.columns() {
                    return cx.refuse(Refusal::OutOfRange);
                }
                let fits = |id: NodeId| {
                    id.shared_digits(from.id, base) == row && id.digit(row, base) == Some(column)
                };
                let known = self.router.nodes().chain([self.router.me()]);
                (what, known.filter(|contact| fits(contact.id)).take(3).map(Entry::unmeasured).collect())
            }
            What::Neighbourhood => (what, self.router.neighbourhood().entries().to_vec()),
        };
        let reply = StateReply { nonce, what, contacts };
        cx.send(from, Body::Pastry(Message::StateReply(Box::new(reply))));
        let measured = self.known_proximity(from.id, cx.now, cx.config);
        let via = measured.or(Some(proximity).filter(|told| *told != Proximity::UNKNOWN));
        for entry in push {
            self.consider_told(entry, via, cx);
        }
    }

    fn handle_state_reply(&mut self, from: Contact, reply: StateReply, cx: &mut Ctx<'_>) {
        let open = self.asks.iter().position(|ask| ask.peer.id == from.id && ask.nonce == reply.nonce);
        let Some(ask) = open.map(|at| self.asks.swap_remove(at)) else {
            return cx.refuse(Refusal::Unsolicited);
        };
        self.timing.measured(cx.now.since(ask.sent), cx.config);
        match ask.purpose {
            AskFor::Nearby => return self.nearby_answered(from, reply, cx),
            AskFor::Repair { row, column, tries } if reply.contacts.is_empty() => {
                self.ask_for_cell(row, column, tries, cx);
            }
            AskFor::Repair { .. } | AskFor::Upkeep => {}
        }
        let via = self.known_proximity(from.id, cx.now, cx.config);
        for entry in reply.contacts {
            self.consider_told(entry, via, cx);
        }
    }

    /// How long to wait for an answer of this peer.
    fn patience(&self, peer: NodeId, now: Time, config: &Config) -> Duration {
        self.patience_for(self.known_proximity(peer, now, config), config)
    }

    fn patience_for(&self, proximity: Option<Proximity>, config: &Config) -> Duration {
        self.timing.wait(proximity, config.probe_timeout_min, config.probe_timeout_max, config)
    }

    fn known_proximity(&self, peer: NodeId, now: Time, config: &Config) -> Option<Proximity> {
        self.router.proximity(peer).or_else(|| self.cache.get(peer, now, config.proximity_age))
    }

    /// Sends a probe: a ping, or a leaf probe if the peer belongs into the leaf set.
    fn probe(&mut self, peer: Contact, why: Why, cx: &mut Ctx<'_>) {
        let wait = self.patience(peer.id, cx.now, cx.config);
        self.probe_within(peer, why, wait, cx);
    }

    fn probe_within(&mut self, peer: Contact, why: Why, wait: Duration, cx: &mut Ctx<'_>) {
        if let Some(nonce) = self.prober.start(peer, why, wait, cx) {
            self.send_probe(peer, nonce, why, cx);
        }
    }

    fn handle_pong(&mut self, from: Contact, nonce: Nonce, cx: &mut Ctx<'_>) {
        let Some(answered) = self.prober.answer(from.id, nonce, false, cx) else {
            if !self.prober.relayed(from.id, nonce, cx) {
                cx.refuse(Refusal::Unsolicited);
            }
            return;
        };
        self.on_alive(answered.cleared, from, cx);
        let proximity = self.measured(from, answered.rtt, cx);
        if answered.why.has(Why::NEARBY) {
            self.nearby_measured(from, candidates::round_trip(answered.rtt));
        }
        if answered.why.has(Why::VET.and(Why::WATCH)) {
            self.admit_for(from, proximity, Source::Elsewhere, answered.why, cx);
        }
        // A pong settles nothing about leaves, so a join waits for it only while it looks for a nearby node.
        if answered.why.has(Why::NEARBY) {
            self.continue_join(cx);
        }
    }

    /// A round trip with a peer has succeeded.
    fn on_alive(&mut self, was_suspected: bool, peer: Contact, cx: &mut Ctx<'_>) {
        self.is_not_dead(peer, cx);
        if was_suspected {
            cx.note(Note::Cleared(peer));
            cx.out.raise(Event::Settled(peer.id));
        }
    }

    fn handle_ping_via(&mut self, from: Contact, nonce: Nonce, target: Contact, cx: &mut Ctx<'_>) {
        // Only for nodes we know ourselves: otherwise anybody could have us dial anywhere.
        match self.router.get(target.id) {
            Some(known) if self.is_in_ring() => self.prober.relay(from, nonce, known, cx),
            _ => cx.refuse(Refusal::UnknownTarget),
        }
    }

    fn handle_pong_via(&mut self, from: Contact, nonce: Nonce, target: NodeId, cx: &mut Ctx<'_>) {
        match self.prober.answer_via(from.id, target, nonce, cx) {
            // Alive, but not for us: stays in the tables and stays avoided. The heartbeat tries again.
            Some((peer, _)) => {
                cx.note(Note::HalfReachable(peer));
                self.prober.suspect(peer, cx);
                self.continue_join(cx);
                self.continue_verifying(cx);
            }
            None => cx.refuse(Refusal::Unsolicited),
        }
    }
}

impl Overlay for Pastry {
    #[inline]
    fn me(&self) -> Contact {
        self.router.me()
    }

    #[inline]
    fn status(&self) -> Status {
        self.status
    }

    #[inline]
    fn next_hop(&self, key: Key, stage: Stage, avoid: &[NodeId], ignore: Option<NodeId>) -> NextHop {
        let suspects = self.prober.suspects();
        match self.status {
            Status::Ready if suspects.is_empty() && avoid.is_empty() && ignore.is_none() => {
                self.router.next_hop(key, stage)
            }
            // Joins do not depend on leases: all leaves know this node, so it can help while its own are on their way.
            status if status == Status::Ready || status == Status::Ok && ignore.is_some() => {
                let avoid = |id: NodeId| avoid.contains(&id) || suspects.binary_search(&id).is_ok();
                self.router.next_hop_except(key, stage, &avoid, ignore)
            }
            // What we still have in hand goes to whoever answers for it without us.
            Status::Leaving => {
                let others = self.router.leaf_set().members().iter().filter(|leaf| !avoid.contains(&leaf.id));
                match others.min_by_key(|leaf| key.closeness(leaf.id)) {
                    Some(heir) => NextHop::Peer(*heir, crate::message::Rule::LeafSet),
                    None => NextHop::NotReady,
                }
            }
            Status::Isolated if ignore.is_some() => NextHop::Here,
            _ => NextHop::NotReady,
        }
    }

    fn entitled(&self, now: Time, config: &Config) -> Option<Time> {
        self.entitled_until(now, config)
    }

    fn is_waking(&self, now: Time) -> bool {
        self.leases.as_ref().is_some_and(|leases| leases.is_waking(now))
    }

    fn has_leases(&self) -> bool {
        self.leases.is_some()
    }

    fn replicas(&self, key: Key, n: usize) -> Vec<Contact> {
        self.router.leaf_set().replicas(key, self.router.me(), n)
    }

    fn covers(&self, key: Key) -> bool {
        let leaf_set = self.router.leaf_set();
        leaf_set.is_whole() || leaf_set.covers(key)
    }

    fn rank(&self, key: Key, node: NodeId) -> Closeness {
        key.closeness(node)
    }

    fn range(&self) -> IdRange {
        if self.status == Status::Ready { self.router.leaf_set().range() } else { IdRange::Empty }
    }

    fn neighbours(&self) -> Vec<Contact> {
        self.router.leaf_set().arc()
    }

    fn contact(&self, id: NodeId) -> Option<Contact> {
        let me = self.router.me();
        if id == me.id { Some(me) } else { self.router.get(id) }
    }

    fn proximity(&self, peer: NodeId, cx: &Ctx<'_>) -> Option<Proximity> {
        self.known_proximity(peer, cx.now, cx.config)
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn create(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        if self.status != Status::Out {
            return cx.out.push(Output::Reply { request, reply: Err(Failure::AlreadyJoined) });
        }
        self.next_nonce = cx.dice.roll() as Nonce;
        self.prober.seed(cx);
        self.start_leases(cx);
        self.enter_ring(cx.now);
        self.set_status(Status::Ready, cx);
        self.start_maintenance(cx);
        cx.out.push(Output::Reply { request, reply: Ok(Reply::Joined) });
    }

    fn join(&mut self, request: RequestId, seeds: Vec<Contact>, back: bool, cx: &mut Ctx<'_>) {
        self.start_join(request, seeds, back, cx);
    }

    fn meet(&mut self, request: RequestId, peers: Vec<Contact>, cx: &mut Ctx<'_>) {
        self.start_meeting(request, peers, cx);
    }

    fn leave(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        self.start_leaving(request, cx);
    }

    fn on_heard(&mut self, from: Contact, cx: &mut Ctx<'_>) -> bool {
        let me = self.router.me();
        if from.id == me.id {
            cx.refuse(Refusal::FromSelf);
            return false;
        }
        let known = self.router.get_routed(from.id);
        match known.or_else(|| self.router.neighbourhood().earlier_life(from)) {
            Some(known) if known.incarnation != from.incarnation && !cx.config.rule(Safeguard::NewLife) => {}
            Some(known) if from.incarnation < known.incarnation => {
                cx.refuse(Refusal::StaleIncarnation);
                return false;
            }
            Some(known) if from.incarnation == known.incarnation && from.addr != known.addr => {
                cx.refuse(Refusal::DuplicateId);
                return false;
            }
            // A new life, proved by the transport, replaces the old one at once.
            Some(known) if from.incarnation > known.incarnation => {
                self.prober.forget(from.id);
                for beside in self.beside.iter_mut().filter(|beside| beside.id == Some(from.id)) {
                    *beside = maintenance::Beside::default();
                }
                self.release(from.id);
                // What its earlier life has granted, it does not know.
                for flank in lease::FLANKS {
                    if self.neighbour(flank).is_some_and(|neighbour| neighbour.id == from.id) {
                        self.inherit(from.id, flank, cx);
                    }
                }
                cx.out.raise(Event::Settled(from.id));
                self.admit(from, Proximity::UNKNOWN, Source::Elsewhere, cx);
            }
            _ => {}
        }
        for beside in self.beside.iter_mut().filter(|beside| beside.id == Some(from.id)) {
            beside.heard = true;
        }
        true
    }

    fn on_twin(&mut self, from: Contact, body: &Body, cx: &mut Ctx<'_>) {
        let nonce = match body {
            Body::Pastry(Message::StateRequest(request)) => request.nonce,
            Body::Routed(Routed { payload: Payload::Join(join), origin, .. }) if origin.id == from.id => {
                join.nonce
            }
            _ => return,
        };
        if self.status == Status::Ready && from.addr != self.router.me().addr {
            let reason = JoinRefusal::IdTaken;
            cx.send(from, Body::Pastry(Message::JoinRefused { nonce, reason }));
        }
    }

    fn handle(&mut self, from: Contact, body: Body, cx: &mut Ctx<'_>) {
        match body {
            Body::Ping(nonce) => match self.status {
                Status::Waiting | Status::Ok | Status::Ready => cx.send(from, Body::Pong(nonce)),
                // Silence is how peers that missed our goodbye, or know us from before, find out.
                _ => cx.refuse(Refusal::NotJoined),
            },
            Body::Pong(nonce) => self.handle_pong(from, nonce, cx),
            Body::PingVia { nonce, target } => self.handle_ping_via(from, nonce, target, cx),
            Body::PongVia { nonce, target } => self.handle_pong_via(from, nonce, target, cx),
            Body::Pastry(Message::LeafProbe(_) | Message::LeaseRequest(_) | Message::Announce(_))
                if self.has_departed(from, cx.now) =>
            {
                cx.refuse(Refusal::Departed)
            }
            Body::Pastry(message) => match message {
                Message::JoinReply(reply) => self.handle_join_reply(from, *reply, cx),
                Message::JoinRefused { nonce, reason } => self.handle_join_refused(from, nonce, reason, cx),
                Message::LeafProbe(probe) => self.handle_leaf_probe(from, *probe, cx),
                Message::LeafReply(reply) => self.handle_leaf_reply(from, *reply, cx),
                Message::Announce(announce) => self.handle_announce(from, announce, cx),
                Message::Race(race) => self.handle_race(from, *race, cx),
                Message::StateRequest(request) => self.handle_state_request(from, *request, cx),
                Message::StateReply(reply) => self.handle_state_reply(from, *reply, cx),
                Message::Goodbye(leaves) => self.handle_goodbye(from, *leaves, cx),
                Message::Obituary(dead) => self.handle_obituary(dead, cx),
                Message::LeaseRequest(request) => self.handle_lease_request(from, *request, cx),
                Message::LeaseReply(reply) => self.handle_lease_reply(from, *reply, cx),
                Message::LeaseRecall(recall) => self.handle_lease_recall(from, *recall, cx),
                Message::LeaseReturn { nonce, nearer } => self.handle_lease_return(from, nonce, nearer, cx),
            },
            _ => cx.refuse(Refusal::WrongOverlay),
        }
        self.settle_forgotten(cx);
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Ctx<'_>) {
        match timer {
            Timer::Probe => self.on_probe_timer(cx),
            Timer::Ask => self.on_ask_timer(cx),
            Timer::Join => self.on_join_timer(cx),
            Timer::Help => self.on_help_timer(cx),
            Timer::Leave => self.on_leave_timer(cx),
            Timer::Lease => self.on_lease_timer(cx),
            Timer::Heal => self.on_heal(cx),
            Timer::Heartbeat => self.on_heartbeat(cx),
            Timer::LeafExchange => self.on_leaf_exchange(cx),
            Timer::RowSwap => self.on_row_swap(cx),
            Timer::Neighbourhood => self.on_neighbourhood_exchange(cx),
            _ => {}
        }
        self.settle_forgotten(cx);
    }

    fn on_silent(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        if self.router.get(peer.id).is_some() {
            self.prober.suspect(peer, cx);
            self.probe(peer, Why::WATCH, cx);
        }
    }

    fn on_join_unsent(&mut self, to: Contact, nonce: Nonce, cx: &mut Ctx<'_>) {
        self.join_unsent(to, nonce, cx);
    }

    fn on_opened(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        let wait = self.patience(peer, cx.now, cx.config);
        self.prober.opened(peer, wait, cx);
    }

    fn on_met(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        if self.router.get_routed(peer.id).is_none() {
            self.found_again(peer, cx);
        }
    }

    fn on_lost(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        if self.is_in_ring()
            && let Some(peer) = self.router.get(peer)
        {
            self.on_silent(peer, cx);
        }
    }

    fn on_probe_unsent(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        self.prober.unsent(peer, cx);
    }

    fn on_answered(&mut self, peer: Contact, rtt: Option<Duration>, cx: &mut Ctx<'_>) {
        if let Some(rtt) = rtt {
            self.timing.measured(rtt, cx.config);
        }
        // What traffic shows need not be asked for by a probe.
        if rtt.is_some()
            && cx.config.metric == Metric::RoundTrip
            && let Some(known) = self.router.get(peer.id)
            && self.known_proximity(peer.id, cx.now, cx.config).is_none()
        {
            self.admit(known, candidates::round_trip(rtt), Source::Elsewhere, cx);
        }
        if !self.prober.suspects().is_empty() && self.prober.clear(peer.id) {
            self.on_alive(true, peer, cx);
        }
    }

    fn on_ack(&mut self, from: Contact, ack: &HopAck, cx: &mut Ctx<'_>) -> bool {
        self.join_acknowledged(from, ack, cx) || self.heal_acknowledged(from, ack)
    }

    fn on_better_hop(&mut self, better: Contact, cx: &mut Ctx<'_>) {
        if self.status == Status::Ready && self.router.get(better.id).is_none() {
            cx.note(Note::LazyRepair);
            self.consider(better, Source::Elsewhere, Why::VET, cx);
        }
    }

    fn better_hop(&self, sender: NodeId, key: Key) -> Option<Contact> {
        let base = self.router.table().base();
        let theirs = sender.shared_digits(key, base);
        // Only if coming here gained the message no digit: then the sender's cell is empty, or it would have used it.
        if self.router.me().id.shared_digits(key, base) > theirs
            || self.router.leaf_set().get(sender).is_some()
        {
            return None;
        }
        self.router.nodes().find(|contact| contact.id.shared_digits(key, base) > theirs)
    }

    fn pass(&mut self, routed: &mut Routed, _cx: &mut Ctx<'_>) {
        let joiner = routed.origin.id;
        if let Payload::Join(join) = &mut routed.payload {
            self.add_rows(joiner, join);
        }
    }

    fn on_found(&mut self, _: u32, _: Contact, _: &mut Ctx<'_>) -> bool {
        false
    }

    fn arrive(&mut self, routed: Routed, cx: &mut Ctx<'_>) {
        self.help(routed, cx);
    }

    fn on_measured(&mut self, peer: NodeId, proximity: Proximity, cx: &mut Ctx<'_>) {
        match self.router.get(peer) {
            Some(contact) => self.admit(contact, proximity, Source::Elsewhere, cx),
            None => self.remember(peer, proximity, cx),
        }
    }

    fn check_invariants(&self) {
        self.router.check_invariants();
        self.prober.check_invariants();
        assert!(self.asks.len() <= ASKS_MAX && self.seeds.len() <= SEEDS_MAX);
        self.check_leases();
        let outside =
            matches!(self.status, Status::Joining | Status::Waiting | Status::Ok | Status::Isolated);
        assert_eq!(self.joining.is_some(), outside);
        assert_eq!(self.leaving.is_some(), self.status == Status::Leaving);
        for suspect in self.prober.suspects() {
            assert!(self.router.get(*suspect).is_some(), "a suspect that is in no table");
        }
    }

    fn memory(&self) -> Memory {
        let (table, spares) = self.router.table().heap_bytes();
        Memory {
            tables: self.router.leaf_set().heap_bytes() + table - spares,
            spares,
            neighbourhood: self.router.neighbourhood().heap_bytes(),
            cache: self.cache.heap_bytes(),
            open: self.lease_bytes()
                + self.past.as_ref().map_or(0, |past| {
                    size_of::<Past>() + past.gone.capacity() * size_of::<(Contact, Time)>()
                })
                + self.prober.heap_bytes()
                + self.asks.capacity() * size_of::<Ask>()
                + self.seeds.capacity() * size_of::<Contact>(),
        }
    }
}
