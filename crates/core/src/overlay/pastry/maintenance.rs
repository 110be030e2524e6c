//! Background work: heartbeats of the ring neighbours, and exchanges that make tables better. All periods are
//! jittered, all of it stays within a budget of bytes.

use alloc::vec::Vec;
use core::time::Duration;

use super::join::own_join;
use super::leaf_set::Source;
use super::lease::FLANKS;
use super::{AskFor, JoinReply, Pastry, SEEDS_MAX, What};
use crate::config::{Metric, Safeguard};
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Failure, Note, Output, Refusal, Reply, RequestId, Timer};
use crate::id::NodeId;
use crate::message::{Body, HopAck, Nonce};
use crate::overlay::Status;
use crate::overlay::probe::Why;
use crate::time::Time;

/// What we know of the exchange with a ring neighbour: whether it has been heard, and who has seen what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Beside {
    pub(super) id: Option<NodeId>,
    pub(super) heard: bool,
    /// The version of its leaf set we have.
    pub(super) seen: Option<u32>,
    /// The version of our leaf set that was current at the last probe, and the one it has acknowledged.
    pub(super) sent: u32,
    pub(super) told: Option<u32>,
}

/// How many nodes a node asks for those near it after a join.
const LOOKS: u8 = 5;

/// What a list of contacts costs on the wire, roughly, per entry and per message.
const CONTACT_BYTES: u32 = 32;
const MESSAGE_BYTES: u32 = 96;

fn cost(contacts: usize) -> u32 {
    MESSAGE_BYTES + CONTACT_BYTES * u32::try_from(contacts).unwrap_or(u32::MAX / CONTACT_BYTES)
}

impl Pastry {
    /// What keeps the leaf set alive begins as soon as there is one.
    pub(super) fn start_watching(&mut self, cx: &mut Ctx<'_>) {
        self.schedule(Timer::Heartbeat, cx);
        self.schedule(Timer::LeafExchange, cx);
    }

    pub(super) fn start_maintenance(&mut self, cx: &mut Ctx<'_>) {
        let timers =
            [Timer::Heartbeat, Timer::LeafExchange, Timer::RowSwap, Timer::Neighbourhood, Timer::Heal];
        for timer in timers {
            self.schedule(timer, cx);
        }
    }

    fn schedule(&self, timer: Timer, cx: &mut Ctx<'_>) {
        let span = match timer {
            Timer::Heartbeat => cx.config.heartbeat,
            Timer::LeafExchange => cx.config.leaf_exchange,
            Timer::RowSwap => cx.config.row_swap,
            Timer::Heal => cx.config.heal * self.heal_pace(cx.now),
            _ => cx.config.neighbourhood_exchange,
        };
        let span = cx.dice.jitter(span);
        cx.set_timer(timer, span);
    }

    /// Probes the ring neighbours that have been silent, and one peer that is in doubt.
    pub(super) fn on_heartbeat(&mut self, cx: &mut Ctx<'_>) {
        if !self.is_in_ring() {
            return;
        }
        self.schedule(Timer::Heartbeat, cx);

        let leaf_set = self.router.leaf_set();
        let sides = [leaf_set.left().next(), leaf_set.right().next()];
        for (at, neighbour) in sides.into_iter().enumerate() {
            let Some(neighbour) = neighbour else { continue };
            let (renewed, version) = (self.renews_within(FLANKS[at], cx), self.router.versions().leaf_set);
            let beside = &mut self.beside[at];
            if beside.id != Some(neighbour.id) {
                *beside = Beside { id: Some(neighbour.id), ..Beside::default() };
            }
            let quiet = renewed && beside.told == Some(version);
            // A leaf probe, not a ping: it also says "I am your neighbour", so that a ring heals from either side.
            if !core::mem::take(&mut beside.heard) && !quiet {
                self.probe(neighbour, Why::WATCH.and(Why::LEAF), cx);
            }
        }
        self.complete_leaf_set(cx);
        self.measure_leaves(cx);
        let suspects = self.prober.suspects();
        if !suspects.is_empty() {
            let id = suspects[cx.dice.below(suspects.len())];
            if let Some(suspect) = self.router.get(id) {
                self.probe(suspect, Why::WATCH, cx);
            }
        }
    }

    /// Pings leaves whose round trip is not known: the silence of one that was never measured takes five times as long to
    /// notice.
    fn measure_leaves(&mut self, cx: &mut Ctx<'_>) {
        // What cannot be remembered would be measured again and again.
        let remembers = cx.config.proximity_cache > cx.config.leaf_set;
        if cx.config.metric != Metric::RoundTrip || !remembers {
            return;
        }
        let unknown = |leaf: &&Contact| {
            let known = self.known_proximity(leaf.id, cx.now, cx.config);
            known.is_none_or(|known| known == Proximity::UNKNOWN)
        };
        let leaves: Vec<Contact> = self.router.leaf_set().members().iter().filter(unknown).copied().collect();
        // Once for each, so it is not in the budget.
        leaves.into_iter().for_each(|leaf| self.probe(leaf, Why::VET, cx));
    }

    /// Exchanges leaf sets with a random leaf. Its silence is noticed like that of any probe.
    pub(super) fn on_leaf_exchange(&mut self, cx: &mut Ctx<'_>) {
        if !self.is_in_ring() {
            return;
        }
        self.schedule(Timer::LeafExchange, cx);
        let leaves = self.router.leaf_set().members();
        if leaves.is_empty() {
            return;
        }
        let leaf = leaves[cx.dice.below(leaves.len())];
        if self.budget.take(cost(2 * leaves.len()), cx) {
            self.probe(leaf, Why::LEAF.and(Why::WATCH), cx);
        }
    }

    /// Swaps every row with a random member of it: the other end has the same row, seen from elsewhere.
    pub(super) fn on_row_swap(&mut self, cx: &mut Ctx<'_>) {
        if self.status != Status::Ready {
            return;
        }
        self.schedule(Timer::RowSwap, cx);
        for row in 0..self.router.table().depth() {
            let members: Vec<_> = self.router.table().row(row).map(|(_, entry)| entry).collect();
            if members.is_empty() {
                continue;
            }
            let partner = members[cx.dice.below(members.len())].contact;
            if !self.budget.take(cost(2 * members.len()), cx) {
                return;
            }
            let push = members.into_iter().filter(|entry| entry.contact.id != partner.id).collect();
            self.ask(partner, What::Row(row), push, AskFor::Upkeep, cx);
        }
    }

    /// Asks a random neighbour for its neighbourhood set: what is near it is probably near us.
    pub(super) fn on_neighbourhood_exchange(&mut self, cx: &mut Ctx<'_>) {
        if self.status != Status::Ready {
            return;
        }
        if !self.look_on(cx) {
            self.schedule(Timer::Neighbourhood, cx);
            self.exchange_neighbourhood(cx);
        }
    }

    /// A node that has joined through any seed looks for those near it: it asks the nearest it knows, and a nearer one
    /// again if that helped.
    pub(super) fn start_looking(&mut self, cx: &mut Ctx<'_>) {
        if cx.config.find_nearby && cx.config.join_first {
            self.looking = Some((self.router.me().id, LOOKS));
            // What the join has told of is still being measured.
            cx.set_timer(
                Timer::Neighbourhood,
                self.timing.at_least(cx.config.probe_timeout_min, 1, cx.config),
            );
        }
    }

    /// Takes the next step of that search. Returns whether it goes on.
    fn look_on(&mut self, cx: &mut Ctx<'_>) -> bool {
        let Some((last, left)) = self.looking.take() else { return false };
        let nearest = self.router.neighbourhood().entries().first().map(|nearest| nearest.contact);
        let Some(nearest) = nearest.filter(|nearest| nearest.id != last && left > 0) else { return false };
        self.looking = Some((nearest.id, left - 1));
        cx.note(Note::NearerSeed);
        for what in [What::Neighbourhood, What::Row(0)] {
            self.ask(nearest, what, Vec::new(), AskFor::Upkeep, cx);
        }
        // The answers, and the answers of those they name.
        cx.set_timer(Timer::Neighbourhood, self.timing.at_least(cx.config.probe_timeout_min, 2, cx.config));
        true
    }

    /// The same at once, when a neighbour was lost.
    pub(super) fn exchange_neighbourhood(&mut self, cx: &mut Ctx<'_>) {
        let members = self.router.neighbourhood().entries().to_vec();
        if members.is_empty() || !self.budget.take(cost(2 * members.len()), cx) {
            return;
        }
        let partner = members[cx.dice.below(members.len())].contact;
        let push = members.into_iter().filter(|entry| entry.contact.id != partner.id).collect();
        self.ask(partner, What::Neighbourhood, push, AskFor::Upkeep, cx);
    }
}

/// A vanished peer that was asked for the way to our place in its ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Healing {
    via: NodeId,
    asked: Time,
    hop: Nonce,
    pub(super) nonce: Nonce,
}

/// For how long after it vanished a peer is asked at every turn, and for how long at all.
const GONE_LATELY: Duration = Duration::from_secs(3600);
const GONE_AT_ALL: Duration = Duration::from_secs(5400);
/// A vanished peer that shows itself is asked for its ring, unless a peer was asked so shortly before.
const ASKED: Duration = Duration::from_secs(1);
/// Older ones, and seeds, are asked at one turn in so many.
const SELDOM: usize = 6;
/// Nodes that share the work of asking: with more, each asks less often.
const HEALERS: usize = 8;
/// For how long a node asks as often as it can after a vanished peer has come back: the others of its part may be back, too.
const RETURNED: Duration = Duration::from_secs(60);

impl Pastry {
    /// How many times as long as `heal` the pause between two turns is. One node that finds the other part is enough for
    /// the rings to merge, so a part asks as often as [`HEALERS`] nodes would, however large it is.
    fn heal_pace(&self, now: Time) -> u32 {
        let returned = self.past.as_ref().and_then(|past| past.returned);
        if returned.is_some_and(|at| now.since(at) < RETURNED) {
            return 1;
        }
        u32::try_from(self.router.nodes().count() / HEALERS).unwrap_or(1).max(1)
    }

    /// A vanished peer is a leaf again, in the same life: a cut has ended, and this node looks for the others at once.
    pub(super) fn on_return(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        if self.gone().iter().any(|(gone, _)| *gone == peer) {
            let past = self.past();
            past.gone.retain(|(gone, _)| gone.id != peer.id);
            past.returned = Some(cx.now);
            if self.status == Status::Ready {
                self.schedule(Timer::Heal, cx);
            }
        }
    }

    /// Asks a vanished peer, or a seed, to route a join of ours. If it is in another ring, a stranger will answer, and
    /// the rings grow together from there.
    pub(super) fn on_heal(&mut self, cx: &mut Ctx<'_>) {
        if self.status != Status::Ready {
            return;
        }
        self.schedule(Timer::Heal, cx);
        if !cx.config.rule(Safeguard::Heal) {
            return;
        }
        if let Some(past) = &mut self.past {
            past.gone.retain(|(_, since)| cx.now.since(*since) < GONE_AT_ALL);
        }
        let seldom = cx.dice.below(SELDOM) == 0;
        let gone = self.gone().iter().filter(|(_, since)| seldom || cx.now.since(*since) < GONE_LATELY);
        let mut candidates: Vec<Contact> = gone.map(|(contact, _)| *contact).collect();
        if seldom {
            candidates.extend(&self.seeds);
        }
        candidates.retain(|contact| self.router.get(contact.id).is_none());
        if candidates.is_empty() {
            return;
        }
        // One message a turn. It is not in the budget: neither may keep the other from what must happen.
        let via = candidates[cx.dice.below(candidates.len())];
        self.ask_for_ring(via, cx);
    }

    /// The user names nodes that may be in another ring. They are asked now, and as seeds from now on.
    pub(super) fn start_meeting(&mut self, request: RequestId, peers: Vec<Contact>, cx: &mut Ctx<'_>) {
        if self.status != Status::Ready && self.joining.is_none() {
            return cx.out.push(Output::Reply { request, reply: Err(Failure::NotJoined) });
        }
        let me = self.router.me().id;
        let strangers = peers.into_iter().filter(|peer| peer.id != me && self.router.get(peer.id).is_none());
        for stranger in strangers.take(SEEDS_MAX).collect::<Vec<_>>() {
            // What is known of it now is better than what was known before.
            self.seeds.retain(|seed| seed.id != stranger.id);
            self.seeds.truncate(SEEDS_MAX - 1);
            self.seeds.insert(0, stranger);
            if self.status == Status::Ready {
                self.ask_for_ring(stranger, cx);
            }
        }
        cx.out.push(Output::Reply { request, reply: Ok(Reply::Joined) });
    }

    fn ask_for_ring(&mut self, via: Contact, cx: &mut Ctx<'_>) {
        let (me, hop, serial, nonce) = (self.router.me(), self.nonce(), self.nonce(), self.nonce());
        self.past().healing = Some(Healing { via: via.id, asked: cx.now, hop, nonce });
        cx.note(Note::HealAsked);
        cx.send(via, Body::Routed(own_join(me, nonce, serial, hop)));
    }

    /// A service hears from a node that is not known here. If it vanished a while ago, its ring may be another one by now: it is asked
    /// at once, not when its turn comes.
    pub(super) fn found_again(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        let vanished = self.gone().iter().any(|(gone, _)| gone.id == peer.id);
        if !vanished || !cx.config.rule(Safeguard::Heal) {
            return;
        }
        let healing = self.past.as_ref().and_then(|past| past.healing.as_ref());
        let recent = healing.is_some_and(|healing| cx.now.since(healing.asked) < ASKED);
        match self.status {
            Status::Ready if !recent => self.ask_for_ring(peer, cx),
            Status::Isolated => self.join_through(peer, cx),
            _ => {}
        }
    }

    /// The vanished peer lives: it need not be asked again.
    pub(super) fn heal_acknowledged(&mut self, from: Contact, ack: &HopAck) -> bool {
        let ours = |healing: &Healing| healing.via == from.id && healing.hop == ack.hop;
        let Some(past) = self.past.as_mut().filter(|past| past.healing.as_ref().is_some_and(ours)) else {
            return false;
        };
        if ack.taken {
            past.gone.retain(|(gone, _)| gone.id != from.id);
        }
        true
    }

    /// Somebody who is root of our id in the ring of a vanished peer has answered.
    pub(super) fn heal_answered(&mut self, from: Contact, reply: JoinReply, cx: &mut Ctx<'_>) {
        self.past().healing = None;
        if self.status != Status::Ready {
            return cx.refuse(Refusal::Unsolicited);
        }
        cx.note(Note::HealAnswered);
        let known = self.router.get(from.id).is_some();
        let mut arc = reply.leaves;
        let start = arc.first().map_or(from.id, |first| first.id);
        arc.push(from);
        arc.sort_by_key(|contact| start.clockwise_to(contact.id));
        self.consider_leaves(from, arc, Why::VET, cx);
        // From one of our leaves it is most likely the same ring all along: its leaves are enough.
        if self.router.leaf_set().get(from.id).is_none() {
            for contact in reply.join.contacts {
                self.consider(contact, Source::Elsewhere, Why::VET, cx);
            }
        }
        // It keeps a place free for us until it hears that we are done.
        if !known {
            self.probe(from, Why::LEAF, cx);
        }
        self.announce(from, cx);
    }
}
