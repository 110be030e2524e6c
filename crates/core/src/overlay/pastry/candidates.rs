//! Who enters the tables: nodes heard of are probed first, nodes that answered are offered everywhere.

use alloc::vec::Vec;
use core::time::Duration;

use super::leaf_set::{self, Source};
use super::routing_table::{Entry, Offer};
use super::{Announce, Message, Pastry};
use crate::config::{Config, Metric};
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Event, Note, Output, Refusal};
use crate::id::NodeId;
use crate::message::Body;
use crate::overlay::Status;
use crate::overlay::probe::Why;

/// What a ping and its answer cost the network, roughly, headers included.
pub(super) const PING_BYTES: u32 = 128;

/// For how long a node that was found dead is not measured again because others name it for a cell.
const DEAD_FOR: Duration = Duration::from_secs(600);

impl Pastry {
    /// A node was heard of. If it may be of use, find out whether it exists and how near it is.
    pub(super) fn consider(&mut self, contact: Contact, source: Source, why: Why, cx: &mut Ctx<'_>) {
        let known = self.router.get(contact.id);
        let is_me = contact.id == self.router.me().id;
        if is_me || !self.is_member() || self.has_departed(contact, cx.now) {
            return;
        }
        // Others name it because they have not noticed yet: all their attempts take that long.
        if self.died_within(cx.config.probe_timeout_max * 6, contact, cx.now) {
            return;
        }
        let wanted = self.router.leaf_set().wants(contact.id, source);
        // Every leaf names the others: most are being asked already.
        if wanted && (self.prober.is_open_for(contact.id, Why::LEAF) || self.outlook(contact.id, cx)) {
            let side = match source {
                Source::Left => Why::LEAF.and(Why::LEFT),
                Source::Right => Why::LEAF.and(Why::RIGHT),
                Source::Leaf | Source::Elsewhere => Why::LEAF,
            };
            self.probe(known.unwrap_or(contact), why.and(side), cx);
            return;
        }
        let unmeasured = source == Source::Elsewhere && self.is_unmeasured(contact.id, cx.config);
        if known.is_some() && !unmeasured || self.prober.is_open(contact.id) {
            return;
        }
        if self.died_within(DEAD_FOR, contact, cx.now) {
            return;
        }
        let measured = self.cache.get(contact.id, cx.now, cx.config.proximity_age);
        if let Some(proximity) = measured {
            // Measured before and found too far. A cell that has become empty since is worth another look.
            let place = self.router.table().place(contact.id);
            let better = place.is_some_and(|(row, column)| {
                self.router.table().cell(row, column).next().is_none_or(|holder| proximity < holder.proximity)
            });
            if !better {
                return;
            }
        }
        // A join must not starve; everything else is background work.
        if self.status == Status::Ready && !self.budget.take(PING_BYTES, cx) {
            return;
        }
        // No table knows its distance, so nothing more is known of it.
        let wait = self.patience_for(measured, cx.config);
        self.probe_within(known.unwrap_or(contact), why.and(Why::VET), wait, cx);
    }

    /// Says whether a node that is known was never measured: a newcomer that made itself known to its leaves, or a leaf
    /// that had to go. It may be the nearest for its cell.
    fn is_unmeasured(&self, id: NodeId, config: &Config) -> bool {
        config.metric == Metric::RoundTrip
            && self.status == Status::Ready
            && self.router.proximity(id).is_none()
    }

    /// A peer has told of a node and how near that is to it. If the peer is near and the node is far from it, or the
    /// other way round, the node is far from us: then it need not be measured to know that it can not win.
    pub(super) fn consider_told(&mut self, told: Entry, via: Option<Proximity>, cx: &mut Ctx<'_>) {
        let Entry { contact, proximity } = told;
        if let Some(at_least) = at_least(via, proximity, cx.config) {
            let router = &self.router;
            if router.table().is_hopeless(contact.id, at_least, cx.config.nearer_percent)
                && !router.neighbourhood().wants(at_least)
                && !router.leaf_set().wants(contact.id, Source::Elsewhere)
            {
                return;
            }
        }
        self.consider(contact, Source::Elsewhere, Why::VET, cx);
    }

    /// A neighbour has told its leaf set.
    pub(super) fn consider_leaves(&mut self, teller: Contact, arc: Vec<Contact>, why: Why, cx: &mut Ctx<'_>) {
        // The nearest first: who is wanted depends on whether nearer ones are being asked (`outlook`). In ring order, one
        // lost leaf on the left had all the sixteen probed that its neighbour named.
        let me = self.router.me().id;
        let mut nearest = arc.clone();
        nearest.sort_by_key(|contact| me.closeness(contact.id));
        for contact in nearest {
            let source = self.router.leaf_set().side_of(contact.id, teller.id, &arc);
            self.consider(contact, source, why, cx);
        }
    }

    /// Says whether a node would still be in the leaf set if everybody answered who is being asked. Without this, a
    /// leaf set that is just filling up asks its way around half the ring.
    fn outlook(&self, id: NodeId, cx: &Ctx<'_>) -> bool {
        let (me, side) = (self.router.me().id, cx.config.leaf_side());
        let leaf_set = self.router.leaf_set();
        let members = leaf_set.members().iter().map(|leaf| leaf.id);
        let (mut left, mut right) = (0, 0);
        for other in members.chain(self.prober.open(Why::LEAF).filter(|id| leaf_set.get(*id).is_none())) {
            right += usize::from(me.clockwise_to(other) < me.clockwise_to(id));
            left += usize::from(other.clockwise_to(me) < id.clockwise_to(me));
        }
        left < side || right < side
    }

    /// A peer has shown itself without being asked. If it belongs into the leaf set, get to know each other.
    pub(super) fn notice(&mut self, from: Contact, cx: &mut Ctx<'_>) {
        let wanted = self.router.leaf_set().wants(from.id, Source::Elsewhere);
        if self.status == Status::Ready && wanted && self.budget.take(PING_BYTES, cx) {
            self.probe(from, Why::LEAF, cx);
        }
    }

    /// Turns the time an answer took into proximity, unless the application measures.
    pub(super) fn measured(&mut self, peer: Contact, rtt: Option<Duration>, cx: &mut Ctx<'_>) -> Proximity {
        if let Some(rtt) = rtt {
            self.timing.measured(rtt, cx.config);
        }
        match cx.config.metric {
            Metric::RoundTrip => round_trip(rtt),
            Metric::Application => self.known_proximity(peer.id, cx.now, cx.config).unwrap_or_else(|| {
                cx.out.push(Output::Measure { peer });
                Proximity::UNKNOWN
            }),
        }
    }

    /// Offers a node that has just answered, and announces ourselves if it entered the table while we join.
    pub(super) fn admit_for(
        &mut self,
        peer: Contact,
        proximity: Proximity,
        source: Source,
        why: Why,
        cx: &mut Ctx<'_>,
    ) {
        let held = self.router.table().get(peer.id).is_some();
        self.admit(peer, proximity, source, cx);
        let holds = || {
            let place = self.router.table().place(peer.id);
            place.and_then(|(row, column)| self.router.table().cell(row, column).next()).map(|e| e.contact.id)
        };
        let fresh = why.has(Why::JOIN) && !held && holds() == Some(peer.id);
        if self.status == Status::Ready && fresh && self.router.leaf_set().get(peer.id).is_none() {
            self.announce(peer, cx);
        }
    }

    /// Tells a peer that we have joined.
    pub(super) fn announce(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        let proximity = self.router.proximity(peer.id).unwrap_or(Proximity::UNKNOWN);
        let seen = self.joining.as_ref().and_then(|joining| joining.seen(peer.id));
        cx.send(peer, Body::Pastry(Message::Announce(Announce { seen, proximity, round: 0 })));
    }

    /// Offers a node known to be alive to all tables, and reports what came of it.
    pub(super) fn admit(&mut self, peer: Contact, proximity: Proximity, source: Source, cx: &mut Ctx<'_>) {
        let added = self.router.add(peer, proximity, source, cx.config);
        match added.cell {
            Offer::Filled => cx.note(Note::CellFilled),
            Offer::Improved => cx.note(Note::CellImproved),
            Offer::Stale => cx.refuse(Refusal::StaleIncarnation),
            Offer::Conflict => cx.refuse(Refusal::DuplicateId),
            Offer::Myself => cx.refuse(Refusal::FromSelf),
            Offer::TooFar => self.remember(peer.id, proximity, cx),
            Offer::Spare | Offer::Known => {}
        }
        if let leaf_set::Offer::Added(_) = added.leaf {
            cx.out.raise(Event::PeerUp(peer));
            cx.out.raise(Event::NeighboursChanged);
            self.report_range(cx);
            self.on_return(peer, cx);
            self.review_leases(cx);
        }
        self.settle_forgotten(cx);
    }

    /// A node that fell out of every table is no longer a suspect: nobody would ever clear it.
    pub(super) fn settle_forgotten(&mut self, cx: &mut Ctx<'_>) {
        if self.prober.suspects().is_empty() {
            return;
        }
        let forgotten = self.prober.suspects().iter().copied().filter(|id| self.router.get(*id).is_none());
        for id in forgotten.collect::<Vec<NodeId>>() {
            self.prober.clear(id);
            cx.out.raise(Event::Settled(id));
        }
    }

    pub(super) fn remember(&mut self, peer: NodeId, proximity: Proximity, cx: &mut Ctx<'_>) {
        if proximity != Proximity::UNKNOWN {
            let (age, most) = (cx.config.proximity_age, cx.config.proximity_cache.into());
            self.cache.put(peer, proximity, cx.now, age, most);
        }
    }
}

/// How far away a node is at least, from the way to a peer and the way from there to the node.
pub(super) fn at_least(via: Option<Proximity>, told: Proximity, config: &Config) -> Option<Proximity> {
    let (Some(via), Metric::RoundTrip) = (via, config.metric) else { return None };
    (told != Proximity::UNKNOWN).then(|| Proximity(via.0.abs_diff(told.0)))
}

/// A round trip as proximity.
pub(super) fn round_trip(rtt: Option<Duration>) -> Proximity {
    rtt.map_or(Proximity::UNKNOWN, |rtt| {
        Proximity(u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).clamp(1, u32::MAX - 1))
    })
}
