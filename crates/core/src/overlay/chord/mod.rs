//! Chord: a ring kept by successor lists, as Zave corrected it, with fingers for short ways.
//!
//! [`ring`] is the protocol itself and [`forming`] what comes before it, while a ring is small: two machines without
//! time that the model checker drives too. Around them, this file owns the state and dispatches; `effects` turns what
//! the machines want into messages and timers and tells the layers above what has changed; `routing` decides where
//! messages go; `joining` brings a node in; `census` ends a ring that has become too small; `watching` finds the dead and the lost; `fingers` are shortcuts, hints
//! only; `walk` is the seed's lookup, step by step, which also finds the way back after a split.

mod census;
mod effects;
mod fingers;
pub mod forming;
mod joining;
mod message;
pub mod properties;
pub mod ring;
mod routing;
mod walk;
mod watching;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use census::Census;
pub use fingers::Finger;
use fingers::Fingers;
use forming::Forming;
use joining::Joining;
pub use message::*;
use ring::{Ring, RingTimer, Rules};
use walk::Walk;
pub use walk::{Lookup, Step};

use super::budget::Budget;
use super::probe::Prober;
use super::proximity::ProximityCache;
use super::timing::Timing;
use super::{Memory, NextHop, Overlay, Status};
use crate::config::{Config, Safeguard};
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Event, Failure, Output, Refusal, Reply, RequestId, Timer};
use crate::id::{Closeness, Key, NodeId};
use crate::message::{Body, HopAck, Nonce, Routed, Stage};
use crate::range::IdRange;
use crate::time::Time;

/// How many nodes after a key this node must know to tell who should hold copies.
const AFTER: usize = 4;

/// A Chord node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    me: Contact,
    status: Status,
    /// Whether the ring has taken over from the list of all members.
    large: bool,
    ring: Ring,
    forming: Forming,
    /// The question the query timer is set for.
    query: Option<RingTimer>,
    fingers: Fingers,

    prober: Prober,
    cache: ProximityCache,
    budget: Budget,
    timing: Timing,
    /// Suspected successors, and since when nobody has heard of them.
    silent: Vec<(NodeId, Time)>,
    /// Peers that vanished and when, oldest first.
    gone: Vec<(Contact, Time)>,
    walk: Option<Walk>,
    census: Option<Census>,
    next_nonce: Nonce,

    /// Where to look for the ring again when everybody is gone.
    seeds: Vec<Contact>,
    joining: Option<Box<Joining>>,
    leaving: Option<RequestId>,
    /// Who gets what a leaver still has in hand.
    heirs: Vec<Contact>,

    /// What was last reported upward: the range, and who is beside us.
    range: IdRange,
    beside: Vec<Contact>,
    /// When those beside us last changed.
    changed: Time,
    /// Peers that were found dead or said goodbye in this very call.
    lost: Vec<Contact>,
    /// Peers that are down, as the layers above were told, and not heard since.
    down: Vec<NodeId>,
}

/// Seeds remembered.
const SEEDS_MAX: usize = 16;
/// Vanished peers remembered.
const GONE_MAX: usize = 256;

impl Chord {
    /// Makes a node that is not part of a ring.
    pub fn new(me: Contact) -> Chord {
        Chord {
            me,
            status: Status::Out,
            large: false,
            ring: Ring::new(me, 0),
            forming: Forming::new(me),
            query: None,
            fingers: Fingers::default(),
            prober: Prober::default(),
            cache: ProximityCache::default(),
            budget: Budget::default(),
            timing: Timing::default(),
            silent: Vec::new(),
            gone: Vec::new(),
            walk: None,
            census: None,
            next_nonce: 0,
            seeds: Vec::new(),
            joining: None,
            leaving: None,
            heirs: Vec::new(),
            range: IdRange::Empty,
            beside: Vec::new(),
            changed: Time::ZERO,
            lost: Vec::new(),
            down: Vec::new(),
        }
    }

    /// Returns the ring's part of the state.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the small ring's part of the state, which is kept beside a larger one as long as that is not too large.
    pub fn forming(&self) -> &Forming {
        &self.forming
    }

    /// Says whether the ring is large enough to do without lists of all members.
    pub fn is_large(&self) -> bool {
        self.large
    }

    /// Returns the fingers, farthest first.
    pub fn fingers(&self) -> &[Finger] {
        self.fingers.entries()
    }

    /// Returns whom this node doubts, successors or not.
    pub fn suspects(&self) -> Vec<NodeId> {
        let ring = self.ring.suspects().iter().map(|suspect| suspect.id);
        self.prober.suspects().iter().copied().chain(ring).collect()
    }

    /// Returns how near a peer is, if that was measured and not too long ago.
    pub fn nearness(&self, peer: NodeId, now: Time, config: &Config) -> Option<Proximity> {
        self.cache.get(peer, now, config.proximity_age)
    }

    /// Returns this node's predecessor on the ring, in a small ring the last before it.
    pub fn predecessor(&self) -> Option<Contact> {
        if self.large {
            return self.ring.pred();
        }
        let others = self.forming.members().iter().filter(|member| member.id != self.me.id);
        others.min_by_key(|member| member.id.clockwise_to(self.me.id)).copied()
    }

    /// Returns the nodes after this one that are not in doubt, nearest first.
    pub fn successors(&self) -> Vec<Contact> {
        if self.large {
            return self.ring.succ_list().to_vec();
        }
        let others = self.forming.members().iter().filter(|member| member.id != self.me.id);
        let mut others: Vec<Contact> =
            others.filter(|member| !self.forming.is_dead(member.id)).copied().collect();
        others.sort_by_key(|member| self.me.id.clockwise_to(member.id));
        others
    }

    /// Says whether this node has a place that others know of.
    fn is_member(&self) -> bool {
        if self.large { self.ring.joined() } else { !self.forming.members().is_empty() }
    }

    /// Returns every node known, from whichever table, some more than once.
    fn known(&self) -> impl Iterator<Item = Contact> + '_ {
        let ring = self.ring.succ_list().iter().chain(self.ring.suspects()).copied().chain(self.ring.pred());
        let small: &[Contact] = if self.large { &[] } else { self.forming.members() };
        // Whoever is certainly gone is not heard any more; whoever comes in its place is somebody new.
        let small = small.iter().copied().filter(|member| !self.forming.is_gone(member.id));
        let fingers = self.fingers.entries().iter().map(|finger| finger.node);
        ring.chain(small).chain(fingers).filter(|node| node.id != self.me.id)
    }

    fn get(&self, id: NodeId) -> Option<Contact> {
        self.known().find(|node| node.id == id)
    }

    fn nonce(&mut self) -> Nonce {
        // The upper half is the overlay's own, the lower one the ring's.
        self.next_nonce = self.next_nonce.wrapping_add(1) | WALKS;
        self.next_nonce
    }

    /// Starts numbering at random, so that answers meant for an earlier life do not fit.
    fn seed_numbers(&mut self, cx: &mut Ctx<'_>) {
        self.ring = Ring::new(self.me, cx.dice.roll() as Nonce & (WALKS - 1) >> 1);
        self.next_nonce = cx.dice.roll() as Nonce;
        self.prober.seed(cx);
    }

    /// Forgets the ring.
    fn stop(&mut self, cx: &mut Ctx<'_>) {
        self.end_join(Err(Failure::Ended), cx);
        let (range, status) = (self.range, self.status);
        *self = Chord { range, status, ..Chord::new(self.me) };
        self.set_status(Status::Out, cx);
    }
}

/// Questions of walks have this bit in their numbers.
const WALKS: Nonce = 1 << 31;

/// The part of the configuration the machines go by.
fn rules(config: &Config) -> Rules {
    Rules { successors: config.successors.into(), attempts: config.probe_attempts, without: config.without }
}

impl Overlay for Chord {
    fn me(&self) -> Contact {
        self.me
    }

    fn status(&self) -> Status {
        self.status
    }

    fn next_hop(&self, key: Key, stage: Stage, avoid: &[NodeId], _ignore: Option<NodeId>) -> NextHop {
        self.decide(key, stage, avoid)
    }

    /// Without leases there is no end to it: a node delivers as long as it has a ring.
    fn entitled(&self, _now: Time, _config: &Config) -> Option<Time> {
        (self.status == Status::Ready).then_some(Time::from_micros(u64::MAX))
    }

    fn is_waking(&self, _now: Time) -> bool {
        false
    }

    fn has_leases(&self) -> bool {
        false
    }

    fn replicas(&self, key: Key, n: usize) -> Vec<Contact> {
        let mut nodes: Vec<Contact> = self.neighbours();
        nodes.push(self.me);
        nodes.sort_by_key(|node| key.clockwise_to(node.id));
        nodes.truncate(n);
        nodes
    }

    fn covers(&self, key: Key) -> bool {
        // Beyond the last nodes of the list others follow that are not known here.
        let list = self.ring.succ_list();
        let far = list.len().checked_sub(AFTER + 1).and_then(|at| list.get(at));
        let ahead = far.is_some_and(|far| IdRange::arc(self.me.id, far.id.plus(1)).contains(key));
        !self.large || self.owned().contains(key) || ahead
    }

    fn rank(&self, key: Key, node: NodeId) -> Closeness {
        key.followed_by(node)
    }

    fn range(&self) -> IdRange {
        if self.status == Status::Ready { self.owned() } else { IdRange::Empty }
    }

    fn neighbours(&self) -> Vec<Contact> {
        let mut nodes = self.successors();
        let pred = self.predecessor().filter(|pred| self.large || !self.forming.is_dead(pred.id));
        if let Some(pred) = pred.filter(|pred| nodes.iter().all(|node| node.id != pred.id)) {
            nodes.push(pred);
        }
        nodes
    }

    fn contact(&self, id: NodeId) -> Option<Contact> {
        if id == self.me.id { Some(self.me) } else { self.get(id) }
    }

    fn proximity(&self, peer: NodeId, cx: &Ctx<'_>) -> Option<Proximity> {
        self.nearness(peer, cx.now, cx.config)
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn create(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        if self.status != Status::Out {
            return cx.out.push(Output::Reply { request, reply: Err(Failure::AlreadyJoined) });
        }
        self.seed_numbers(cx);
        self.with_forming(cx, |forming, _, out| forming.found(out));
        self.review(cx);
        cx.out.push(Output::Reply { request, reply: Ok(Reply::Joined) });
    }

    fn join(&mut self, request: RequestId, seeds: Vec<Contact>, back: bool, cx: &mut Ctx<'_>) {
        self.start_join(request, seeds, back, cx);
        self.review(cx);
    }

    fn meet(&mut self, request: RequestId, peers: Vec<Contact>, cx: &mut Ctx<'_>) {
        if !self.is_member() && self.joining.is_none() {
            return cx.out.push(Output::Reply { request, reply: Err(Failure::NotJoined) });
        }
        for peer in peers.into_iter().take(SEEDS_MAX) {
            self.remember_seed(peer);
        }
        if let Some(first) = self.seeds.first().copied().filter(|_| self.is_member()) {
            self.look_for_ring(first, cx);
        }
        cx.out.push(Output::Reply { request, reply: Ok(Reply::Joined) });
    }

    fn leave(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        match self.status {
            Status::Ready | Status::Waiting | Status::Ok => {}
            Status::Joining | Status::Isolated => {
                self.stop(cx);
                return cx.out.push(Output::Reply { request, reply: Ok(Reply::Left) });
            }
            Status::Out | Status::Leaving => {
                return cx.out.push(Output::Reply { request, reply: Err(Failure::NotJoined) });
            }
        }
        self.end_join(Err(Failure::Ended), cx);
        self.heirs = self.successors();
        if self.large {
            self.with_ring(cx, |ring, _, out| ring.leave(out));
        } else {
            for heir in self.heirs.clone() {
                cx.send(heir, Body::Chord(Message::Leaving { list: Vec::new() }));
            }
        }
        self.leaving = Some(request);
        self.set_status(Status::Leaving, cx);
        cx.set_timer(Timer::Leave, cx.config.leave_grace);
    }

    fn on_retired(&mut self, id: NodeId, cx: &mut Ctx<'_>) {
        let member = self.forming.members().iter().find(|member| member.id == id).copied();
        match member {
            Some(member) if self.large => self.forming.farewell(member),
            Some(member) => self.with_forming(cx, |forming, rules, out| forming.left(member, rules, out)),
            None => {}
        }
    }

    fn on_heard(&mut self, from: Contact, cx: &mut Ctx<'_>) -> bool {
        if from.id == self.me.id {
            cx.refuse(Refusal::FromSelf);
            return false;
        }
        let heard = match self.get(from.id) {
            Some(known) if from.incarnation < known.incarnation => {
                cx.refuse(Refusal::StaleIncarnation);
                false
            }
            Some(known) if from.incarnation == known.incarnation && from.addr != known.addr => {
                cx.refuse(Refusal::DuplicateId);
                false
            }
            Some(known) if from.incarnation > known.incarnation => {
                self.on_new_life(from, cx);
                true
            }
            _ => true,
        };
        if heard {
            // It does not answer as who it was before (chaos seed 1001427).
            let earlier = |known: &&mut Contact| known.id == from.id && known.incarnation < from.incarnation;
            let gone = self.gone.iter_mut().map(|(gone, _)| gone);
            self.seeds.iter_mut().chain(gone).filter(earlier).for_each(|known| *known = from);
        }
        // It may be too far away by now to become a neighbour again; services should know all the same.
        if heard && self.down.contains(&from.id) {
            self.down.retain(|id| *id != from.id);
            cx.out.raise(Event::PeerUp(from));
        }
        heard
    }

    fn on_twin(&mut self, _from: Contact, _body: &Body, _cx: &mut Ctx<'_>) {}

    fn handle(&mut self, from: Contact, body: Body, cx: &mut Ctx<'_>) {
        match body {
            // Silence is how peers that missed our goodbye, or know us from before, find out.
            Body::Ping(nonce) if self.is_member() => cx.send(from, Body::Pong(nonce)),
            Body::Ping(_) => cx.refuse(Refusal::NotJoined),
            Body::Pong(nonce) => self.on_pong(from, nonce, cx),
            Body::PingVia { nonce, target } => self.on_ping_via(from, nonce, target, cx),
            Body::PongVia { nonce, target } => self.on_pong_via(from, nonce, target, cx),
            Body::Chord(message) => self.on_message(from, message, cx),
            _ => cx.refuse(Refusal::WrongOverlay),
        }
        self.review(cx);
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Ctx<'_>) {
        match timer {
            Timer::Stabilize => self.fire(RingTimer::Tick, cx),
            Timer::Rectify => self.fire(RingTimer::RectifyTick, cx),
            Timer::Keepalive => self.fire(RingTimer::KeepaliveTick, cx),
            Timer::Retry => self.fire(RingTimer::Retry, cx),
            Timer::Query => {
                if let Some(query) = self.query.take() {
                    self.fire(query, cx);
                }
            }
            Timer::Suspects => self.on_suspects_timer(cx),
            Timer::Form => self.on_form_timer(cx),
            Timer::Join => self.on_join_timer(cx),
            Timer::Probe => self.on_probe_timer(cx),
            Timer::Heartbeat => self.on_heartbeat(cx),
            Timer::Heal => self.on_heal(cx),
            Timer::Walk => self.on_walk_timer(cx),
            Timer::Fingers => self.on_fingers(cx),
            Timer::Leave => {
                if let Some(request) = self.leaving.take() {
                    self.stop(cx);
                    cx.out.push(Output::Reply { request, reply: Ok(Reply::Left) });
                }
            }
            _ => {}
        }
        self.review(cx);
    }

    fn on_silent(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        self.doubt(peer, cx);
    }

    fn on_join_unsent(&mut self, _to: Contact, _nonce: Nonce, _cx: &mut Ctx<'_>) {}

    fn on_opened(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        let wait = self.longest_patience(cx);
        self.prober.opened(peer, wait, cx);
    }

    fn on_met(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        let vanished = self.get(peer.id).is_none() && self.gone.iter().any(|(gone, _)| gone.id == peer.id);
        if vanished && self.status == Status::Ready && cx.config.rule(Safeguard::Heal) {
            // Its ring may be another one by now.
            self.look_for_ring(peer, cx);
        }
    }

    fn on_lost(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        if let Some(peer) = self.get(peer).filter(|_| self.is_member()) {
            self.doubt(peer, cx);
        }
    }

    fn on_answered(&mut self, peer: Contact, rtt: Option<Duration>, cx: &mut Ctx<'_>) {
        self.on_alive(peer, rtt, cx);
    }

    fn on_probe_unsent(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        self.prober.unsent(peer, cx);
    }

    fn on_ack(&mut self, _from: Contact, _ack: &HopAck, _cx: &mut Ctx<'_>) -> bool {
        false
    }

    fn on_better_hop(&mut self, _better: Contact, _cx: &mut Ctx<'_>) {}

    fn better_hop(&self, _sender: NodeId, _key: Key) -> Option<Contact> {
        None
    }

    fn pass(&mut self, _routed: &mut Routed, _cx: &mut Ctx<'_>) {}

    fn on_found(&mut self, serial: u32, root: Contact, cx: &mut Ctx<'_>) -> bool {
        self.finger_found(serial, root, cx)
    }

    fn arrive(&mut self, _routed: Routed, cx: &mut Ctx<'_>) {
        cx.refuse(Refusal::WrongOverlay);
    }

    fn on_measured(&mut self, peer: NodeId, proximity: Proximity, cx: &mut Ctx<'_>) {
        let (age, most) = (cx.config.proximity_age, usize::from(cx.config.proximity_cache));
        self.cache.put(peer, proximity, cx.now, age, most);
    }

    fn check_invariants(&self) {
        self.forming.check_invariants();
        self.prober.check_invariants();
        assert_eq!(self.leaving.is_some(), self.status == Status::Leaving);
        assert!(self.lost.is_empty(), "everything that happened was told");
        assert!(self.status != Status::Ready || self.is_member());
        assert!(self.seeds.len() <= SEEDS_MAX);
        assert!(self.gone.len() <= GONE_MAX && self.down.len() <= GONE_MAX);
        assert!(self.fingers.entries().iter().all(|finger| finger.node.id != self.me.id));
    }

    fn memory(&self) -> Memory {
        Memory {
            tables: self.ring.heap_bytes() + self.forming.heap_bytes() + self.fingers.heap_bytes(),
            spares: 0,
            neighbourhood: 0,
            cache: self.cache.heap_bytes(),
            open: self.prober.heap_bytes()
                + self.gone.capacity() * size_of::<(Contact, Time)>()
                + (self.seeds.capacity() + self.beside.capacity()) * size_of::<Contact>(),
        }
    }
}

impl Chord {
    fn set_status(&mut self, status: Status, cx: &mut Ctx<'_>) {
        if self.status != status {
            self.status = status;
            cx.out.raise(Event::StatusChanged(status));
            self.report_range(cx);
        }
    }
}
