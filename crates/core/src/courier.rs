//! Messages under way: per-hop acknowledgement, another way around a silent hop, delivery once.
//!
//! Whoever has acknowledged a message looks after it: until the next hop acknowledges in turn, it keeps a copy. A
//! silent hop is avoided at once and reported to the overlay, which probes it. Only the last step is different: if the
//! silent node is the one responsible, going elsewhere would be a guess, so it gets a second chance, and then the
//! message is held until probes have shown whether that node is dead.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem::discriminant;
use core::time::Duration;

use crate::config::Config;
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Dial, Event, Note, Output, Refusal, Timer, Verdict};
use crate::id::NodeId;
use crate::message::{Body, Hop, HopAck, Nonce, Outcome, Payload, Receipt, Routed, Rule, Stage};
use crate::overlay::{AnyOverlay, NextHop, Overlay, Status};
use crate::time::Time;
use crate::wire::body::PATH_MAX;

/// All messages a node looks after.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Courier {
    transits: Vec<Transit>,
    seen: Option<Box<Seen>>,
    next_hop: Nonce,
    armed: Option<Time>,
}

/// Messages delivered lately: the set to look up, the queue to forget by age. Most nodes of a large ring have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Seen {
    set: BTreeSet<(NodeId, u32)>,
    order: VecDeque<(Time, NodeId, u32)>,
}

impl Seen {
    /// Forgets what is too old, and the oldest beyond what may be kept.
    fn expire(&mut self, most: usize, cx: &Ctx<'_>) {
        while let Some(&(at, id, old)) = self.order.front()
            && (cx.now.since(at) >= cx.config.seen_for || self.order.len() >= most)
        {
            self.order.pop_front();
            self.set.remove(&(id, old));
        }
    }
}

/// A message this node looks after.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transit {
    routed: Routed,
    state: State,
    /// Hops that did not answer or did not want it.
    tried: Vec<NodeId>,
    /// How often it was sent on from here.
    attempts: u8,
    since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Waits for the acknowledgement of this hop.
    Sent {
        to: Contact,
        rule: Rule,
        again: bool,
        deadline: Time,
        /// When it was sent, if nobody knows how near the hop is.
        timed: Option<Time>,
    },
    /// Waits for doubts to end, or for this moment.
    Held { until: Time },
    /// Just taken; never kept like this.
    Fresh,
}

impl State {
    fn due(self) -> Time {
        match self {
            State::Sent { deadline, .. } => deadline,
            State::Held { until } => until,
            State::Fresh => Time::ZERO,
        }
    }
}

/// How soon after one look at the messages in hand the next may be.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What is left to do for the node when a message ends here.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Tell this node's own user.
    Own(Receipt),
    /// It was the overlay's.
    Overlay(Routed),
}

impl Courier {
    pub(crate) fn seed(&mut self, cx: &mut Ctx<'_>) {
        self.next_hop = cx.dice.roll() as Nonce;
    }

    /// Takes a message from the previous hop: acknowledges it, or says that somebody else must look after it.
    pub(crate) fn receive(
        &mut self,
        from: Contact,
        mut routed: Routed,
        overlay: &mut AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Ended> {
        let hop = routed.hop;
        let same = |transit: &Transit| {
            transit.routed.serial == routed.serial
                && transit.routed.origin.id == routed.origin.id
                && discriminant(&transit.routed.payload) == discriminant(&routed.payload)
        };
        let mut known = self.transits.iter().position(same);
        // Back from the very node it was sent to: that one has dealt with it, its acknowledgement was overtaken.
        if let Some(at) = known
            && matches!(self.transits[at].state, State::Sent { to, .. } if to.id == from.id)
        {
            self.transits.swap_remove(at);
            known = None;
        }
        let room = known.is_some() || self.transits.len() < usize::from(cx.config.transits);
        let join = matches!(routed.payload, Payload::Join(_));
        let taken = room
            && !overlay.is_waking(cx.now)
            && match overlay.status() {
                Status::Ready | Status::Ok | Status::Waiting => true,
                // Whoever looks for its ring may be found by another who does.
                Status::Isolated => join,
                Status::Out | Status::Joining | Status::Leaving => false,
            };
        let better = match routed.stage {
            Stage::Prefix if taken => overlay.better_hop(from.id, routed.key),
            _ => None,
        };
        cx.send(from, Body::HopAck(HopAck { hop, taken, better }));
        if !taken {
            cx.refuse(if room { Refusal::NotJoined } else { Refusal::Full });
            return None;
        }
        let is_app = matches!(routed.payload, Payload::App(_) | Payload::Direct(_));
        if known.is_some() || is_app && self.has_seen(routed.origin.id, routed.serial, cx) {
            // The acknowledgement was lost, the message was not: we are looking after it, or have delivered it. By now it may
            // belong to another node, which could not know.
            cx.note(Note::Duplicate);
            return None;
        }
        overlay.pass(&mut routed, cx);
        self.accept(routed, overlay, cx)
    }

    /// Looks after a message from here on.
    pub(crate) fn accept(
        &mut self,
        routed: Routed,
        overlay: &mut AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Ended> {
        if routed.hops > cx.config.hops_max {
            cx.refuse(Refusal::TooManyHops);
            return self.finish(&routed, Outcome::TooManyHops, overlay, cx);
        }
        let transit = Transit { routed, state: State::Fresh, tried: Vec::new(), attempts: 0, since: cx.now };
        self.advance(transit, overlay, cx)
    }

    /// Decides what happens to a message next.
    fn advance(&mut self, mut transit: Transit, overlay: &mut AnyOverlay, cx: &mut Ctx<'_>) -> Option<Ended> {
        if cx.now.since(transit.since) >= cx.config.transit_max || transit.attempts >= cx.config.hop_attempts
        {
            cx.note(Note::GaveUp);
            return self.finish(&transit.routed, Outcome::NoRoute, overlay, cx);
        }
        let routed = &transit.routed;
        // A joiner that is still in somebody's tables from an earlier life must not be asked for itself.
        let ignore = matches!(routed.payload, Payload::Join(_)).then_some(routed.origin.id);
        match overlay.next_hop(routed.key, routed.stage, &transit.tried, ignore) {
            NextHop::Here if !is_gated(routed) || overlay.entitled(cx.now, cx.config).is_some() => {
                self.deliver(transit.routed, overlay, cx)
            }
            NextHop::Peer(to, rule) => {
                self.send(transit, to, rule, false, overlay, cx);
                None
            }
            NextHop::Here | NextHop::Wait | NextHop::NotReady => {
                if !matches!(transit.state, State::Held { .. }) {
                    cx.note(Note::Held);
                }
                transit.state = State::Held { until: cx.now.after(cx.config.hop_timeout_max) };
                self.keep(transit, cx);
                None
            }
        }
    }

    fn send(
        &mut self,
        mut transit: Transit,
        to: Contact,
        rule: Rule,
        again: bool,
        overlay: &AnyOverlay,
        cx: &mut Ctx<'_>,
    ) {
        // The second copy to the same hop has the number of the first: either acknowledgement will do.
        if !again {
            self.next_hop = self.next_hop.wrapping_add(1);
            transit.routed.hop = self.next_hop;
        }
        let proximity = overlay.proximity(to.id, cx);
        let (least, most) = (cx.config.hop_timeout_min, cx.config.hop_timeout_max);
        let deadline = cx.now.after(overlay.timing().wait(proximity, least, most, cx.config));
        transit.attempts += 1;
        let timed = (proximity.is_none() && !again).then_some(cx.now);
        transit.state = State::Sent { to, rule, again, deadline, timed };
        cx.note(if again { Note::Resent } else { Note::Forwarded(rule) });
        let mut routed = transit.routed.clone();
        routed.hops = routed.hops.saturating_add(1);
        if rule.names_owner() {
            routed.stage = Stage::Leaf;
        }
        if let Payload::Trace(path) = &mut routed.payload
            && path.len() < PATH_MAX
        {
            path.push(Hop { node: overlay.me(), rule, proximity: proximity.unwrap_or(Proximity::UNKNOWN) });
        }
        cx.out.push(match routed.payload {
            Payload::App(_) => Output::Forward { to, routed: Box::new(routed) },
            _ => Output::Send { to, body: Body::Routed(routed), dial: Dial::IfNeeded },
        });
        self.keep(transit, cx);
    }

    fn keep(&mut self, transit: Transit, cx: &mut Ctx<'_>) {
        let due = transit.state.due();
        self.transits.push(transit);
        self.arm(due, cx);
    }

    fn arm(&mut self, due: Time, cx: &mut Ctx<'_>) {
        if self.armed.is_none_or(|armed| due < armed) {
            self.armed = Some(due);
            cx.set_timer(Timer::Hop, due.since(cx.now));
        }
    }

    /// A message has reached the node responsible for it.
    fn deliver(&mut self, routed: Routed, overlay: &mut AnyOverlay, cx: &mut Ctx<'_>) -> Option<Ended> {
        match &routed.payload {
            Payload::Lookup => {
                let outcome = found(Vec::new(), overlay, cx);
                self.finish(&routed, outcome, overlay, cx)
            }
            Payload::Trace(path) => {
                let mut path = path.to_vec();
                path.truncate(PATH_MAX - 1);
                path.push(Hop { node: overlay.me(), rule: Rule::Here, proximity: Proximity(0) });
                let outcome = found(path, overlay, cx);
                self.finish(&routed, outcome, overlay, cx)
            }
            Payload::Direct(_) if routed.key != overlay.me().id => {
                self.finish(&routed, Outcome::NotThere, overlay, cx)
            }
            Payload::App(_) | Payload::Direct(_) => {
                if self.remember(routed.origin.id, routed.serial, cx) {
                    cx.note(Note::Delivered);
                    let timed = is_gated(&routed) && overlay.has_leases();
                    let not_after = overlay.entitled(cx.now, cx.config).filter(|_| timed);
                    cx.out.push(Output::Deliver { routed: Box::new(routed), not_after });
                } else {
                    cx.note(Note::Duplicate);
                }
                None
            }
            Payload::Receipt(receipt) if receipt.to.id == overlay.me().id => {
                Some(Ended::Own(Receipt::clone(receipt)))
            }
            Payload::Receipt(_) => {
                cx.refuse(Refusal::Misrouted);
                None
            }
            Payload::Join(_) => Some(Ended::Overlay(routed)),
        }
    }

    fn has_seen(&mut self, origin: NodeId, serial: u32, cx: &Ctx<'_>) -> bool {
        self.seen.as_mut().is_some_and(|seen| {
            seen.expire(usize::MAX, cx);
            seen.set.contains(&(origin, serial))
        })
    }

    /// Remembers a delivery. `false` if it is remembered already.
    fn remember(&mut self, origin: NodeId, serial: u32, cx: &mut Ctx<'_>) -> bool {
        let seen = &mut **self.seen.get_or_insert_default();
        seen.expire(cx.config.seen.into(), cx);
        let new = seen.set.insert((origin, serial));
        if new {
            seen.order.push_back((cx.now, origin, serial));
        }
        new
    }

    /// A delivery came too late: the message is looked after again.
    pub(crate) fn refused(
        &mut self,
        routed: Routed,
        overlay: &mut AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Ended> {
        if overlay.status() == Status::Out {
            cx.refuse(Refusal::NotJoined);
            return None;
        }
        cx.note(Note::DeliverRefused);
        if let Some(Seen { set, order }) = self.seen.as_deref_mut() {
            set.remove(&(routed.origin.id, routed.serial));
            order.retain(|(_, origin, serial)| (*origin, *serial) != (routed.origin.id, routed.serial));
        }
        self.accept(routed, overlay, cx)
    }

    /// Tells the origin how its message ended. Nobody is told about the overlay's own messages, which have their own
    /// time-outs, nor about receipts, which would never end.
    pub(crate) fn finish(
        &mut self,
        routed: &Routed,
        outcome: Outcome,
        overlay: &AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Ended> {
        if matches!(routed.payload, Payload::Join(_) | Payload::Receipt(_)) {
            return None;
        }
        if matches!(outcome, Outcome::Found(_) | Outcome::Nearest(_)) {
            cx.note(Note::Delivered);
        }
        let Routed { origin, serial, hops, .. } = *routed;
        self.send_receipt(Receipt { to: origin, serial, hops, by: overlay.me(), outcome }, overlay, cx)
    }

    pub(crate) fn send_receipt(
        &mut self,
        receipt: Receipt,
        overlay: &AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Ended> {
        if receipt.to.id == overlay.me().id {
            return Some(Ended::Own(receipt));
        }
        let to = receipt.to;
        // A stranger named as origin must not make us dial: without a connection the receipt is routed.
        cx.out.push(Output::Send { to, body: Body::Receipt(Box::new(receipt)), dial: Dial::Never });
        None
    }

    /// Routes a receipt that could not go directly.
    pub(crate) fn route_receipt(
        &mut self,
        receipt: Box<Receipt>,
        overlay: &mut AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Ended> {
        if self.transits.len() >= usize::from(cx.config.transits) {
            cx.refuse(Refusal::Full);
            return None;
        }
        cx.note(Note::ReceiptRouted);
        self.next_hop = self.next_hop.wrapping_add(1);
        let (key, serial) = (receipt.to.id, self.next_hop);
        let payload = Payload::Receipt(receipt);
        let routed =
            Routed { key, origin: overlay.me(), payload, serial, hop: 0, hops: 0, stage: Stage::Prefix };
        self.accept(routed, overlay, cx)
    }

    /// A hop has acknowledged, one way or the other. `None` if nobody waits for that.
    pub(crate) fn acknowledged(
        &mut self,
        from: Contact,
        ack: HopAck,
        overlay: &mut AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Option<Ended>> {
        let at = self.transits.iter().position(|transit| {
            transit.routed.hop == ack.hop
                && matches!(transit.state, State::Sent { to, .. } if to.id == from.id)
        })?;
        let mut transit = self.transits.swap_remove(at);
        let timed = match transit.state {
            State::Sent { timed, .. } => timed,
            State::Held { .. } | State::Fresh => None,
        };
        overlay.on_answered(from, timed.map(|sent| cx.now.since(sent)), cx);
        if ack.taken {
            if let Some(better) = ack.better {
                overlay.on_better_hop(better, cx);
            }
            return Some(None);
        }
        // Alive but not ready: try others, and if there is nobody else, the same one again a little later. That is
        // no attempt in vain.
        transit.attempts = transit.attempts.saturating_sub(1);
        transit.tried.push(from.id);
        Some(self.advance(transit, overlay, cx))
    }

    /// Goes through the messages whose hop stayed silent or that have been held long enough.
    pub(crate) fn on_timer(&mut self, overlay: &mut AnyOverlay, cx: &mut Ctx<'_>) -> Vec<Ended> {
        self.armed = None;
        let (due, open): (Vec<Transit>, Vec<Transit>) = core::mem::take(&mut self.transits)
            .into_iter()
            .partition(|transit| transit.state.due() <= cx.now);
        self.transits = open;
        let ended = due.into_iter().filter_map(|transit| self.retry(transit, overlay, cx)).collect();
        // With thousands of messages in hand, one look at all of them every few milliseconds serves many at once.
        if let Some(earliest) = self.transits.iter().map(|transit| transit.state.due()).min() {
            self.arm(earliest.max(cx.now.after(LOOK_AGAIN)), cx);
        }
        ended
    }

    /// A message could not even be handed to the network.
    pub(crate) fn unsent(
        &mut self,
        to: Contact,
        hop: Nonce,
        overlay: &mut AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Ended> {
        let at = self.transits.iter().position(|transit| {
            transit.routed.hop == hop
                && matches!(transit.state, State::Sent { to: sent, .. } if sent.id == to.id)
        })?;
        let transit = self.transits.swap_remove(at);
        self.retry(transit, overlay, cx)
    }

    fn retry(&mut self, mut transit: Transit, overlay: &mut AnyOverlay, cx: &mut Ctx<'_>) -> Option<Ended> {
        match transit.state {
            State::Sent { to, rule, again: false, .. }
                if rule.names_owner() && transit.attempts < cx.config.hop_attempts =>
            {
                // Most likely the one packet was lost, and no other node is right.
                self.send(transit, to, rule, true, overlay, cx);
                return None;
            }
            State::Sent { to, .. } => {
                transit.tried.push(to.id);
                cx.note(Note::Rerouted);
                overlay.on_silent(to, cx);
            }
            State::Held { .. } | State::Fresh => transit.tried.clear(),
        }
        self.advance(transit, overlay, cx)
    }

    /// Something changed that may free messages being held.
    pub(crate) fn on_event(
        &mut self,
        event: &Event,
        overlay: &mut AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Vec<Ended> {
        let relevant = matches!(
            event,
            Event::Settled(_) | Event::StatusChanged(_) | Event::NeighboursChanged | Event::PeerDown(_)
        );
        let is_held = |transit: &Transit| matches!(transit.state, State::Held { .. });
        if !relevant || !self.transits.iter().any(is_held) {
            return Vec::new();
        }
        let (held, open): (Vec<Transit>, Vec<Transit>) =
            core::mem::take(&mut self.transits).into_iter().partition(is_held);
        self.transits = open;
        held.into_iter().filter_map(|transit| self.retry(transit, overlay, cx)).collect()
    }

    /// An application intervened while a message was being forwarded.
    pub(crate) fn forwarded(
        &mut self,
        hop: Nonce,
        verdict: Verdict,
        overlay: &AnyOverlay,
        cx: &mut Ctx<'_>,
    ) -> Option<Ended> {
        let at = self
            .transits
            .iter()
            .position(|transit| transit.routed.hop == hop && matches!(transit.state, State::Sent { .. }))?;
        match verdict {
            Verdict::Stop => {
                let transit = self.transits.swap_remove(at);
                self.finish(&transit.routed, Outcome::Stopped, overlay, cx)
            }
            Verdict::Changed { to: new, app } => {
                let transit = &mut self.transits[at];
                transit.routed.payload = Payload::App(Box::new(app));
                if let State::Sent { to, .. } = &mut transit.state {
                    *to = new;
                }
                None
            }
        }
    }

    /// Drops everything: the node has left.
    pub(crate) fn clear(&mut self) {
        *self = Courier { next_hop: self.next_hop, ..Courier::default() };
    }

    /// Returns the heap memory held, in bytes, roughly.
    pub(crate) fn heap_bytes(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, |seen| {
            size_of::<Seen>()
                + seen.order.capacity() * size_of::<(Time, NodeId, u32)>()
                + seen.set.len() * 2 * size_of::<(NodeId, u32)>()
        });
        self.transits.capacity() * size_of::<Transit>() + seen
    }

    pub(crate) fn check_invariants(&self, config: &Config) {
        if let Some(seen) = &self.seen {
            assert_eq!(seen.set.len(), seen.order.len());
            assert!(seen.set.len() <= usize::from(config.seen));
        }
        assert!(self.transits.iter().all(|transit| transit.attempts <= config.hop_attempts));
    }
}

/// Says whether a message may only be delivered by a node entitled to.
fn is_gated(routed: &Routed) -> bool {
    matches!(routed.payload, Payload::App(_))
}

/// The answer to a lookup that has come to the nearest node.
fn found(path: Vec<Hop>, overlay: &AnyOverlay, cx: &Ctx<'_>) -> Outcome {
    match overlay.entitled(cx.now, cx.config) {
        Some(_) => Outcome::Found(path),
        None => Outcome::Nearest(path),
    }
}
