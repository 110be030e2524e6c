//! How a node comes into a ring, and how a node of the ring helps others in.
//!
//! A joiner looks for a nearby node, routes a join with its own id as key through it, and gets back what the hops had
//! for it and the leaf set of the root. It probes every leaf; each one takes the joiner in before it answers, and
//! names neighbours the joiner has not heard of. When no probe is open any more and, with leases, both neighbours have
//! granted one, the joiner is ready and tells the nodes of its table. Every step may fail; then the join starts over through another seed, after a pause.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::candidates;
use super::leaf_set::{LeafSet, Source};
use super::routing_table::Entry;
use super::{
    Announce, Ask, AskFor, Join, JoinRefusal, JoinReply, Message, Pastry, Race, SEEDS_MAX, StateReply,
    Versions, What,
};
use crate::config::{Metric, Safeguard};
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Failure, Note, Output, Refusal, Reply, RequestId, Timer};
use crate::id::NodeId;
use crate::message::{Body, HopAck, Nonce, Payload, Routed, Stage};
use crate::overlay::probe::Why;
use crate::overlay::{Overlay, Status};
use crate::time::Time;

/// Contacts a join may carry: a full leaf set, a neighbourhood set and all rows anybody has in practice.
pub(crate) const JOIN_CONTACTS_MAX: usize = 2048;
/// Helpers a joiner remembers.
const HELPERS_MAX: usize = 4;
/// Rounds of announce and race before a joiner leaves the rest to maintenance.
const RACE_ROUNDS: u8 = 3;
/// How many nodes are measured in each step of the search for a nearby node.
const NEARBY_PROBES: usize = 6;
/// How often the last row of a nearby node is searched again as long as that helps.
const NEARBY_REPEATS: u8 = 3;

/// A join under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Joining {
    /// Who wants to know; nobody for a node that lost its ring.
    request: Option<RequestId>,
    /// Whether this node was part of a ring: after an attempt that failed it helps others who look for theirs, again.
    isolated: bool,
    attempt: u8,
    next_seed: u8,
    /// The same for all attempts: an answer to an earlier one is as good.
    nonce: Nonce,
    phase: Phase,
    /// Where the join was sent last; its acknowledgement may come after the reply.
    asked: Option<(NodeId, Nonce)>,
    sent: Time,
    /// Table versions seen first hand.
    seen: Vec<(NodeId, Versions)>,
    /// Whoever asked us for help while we look for our ring, and how many seeds we had tried by then: sent on until we
    /// have tried all of ours once more, in case somebody knows more.
    sent_on: Vec<(NodeId, u16)>,
    tried: u16,
    /// The roots that help us: one, or a second one that had us in its queue. They wait to hear that we are done.
    helpers: Vec<Contact>,
}

impl Joining {
    pub(super) fn seen(&self, peer: NodeId) -> Option<Versions> {
        self.seen.iter().find(|(id, _)| *id == peer).map(|(_, versions)| *versions)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Between two attempts.
    Pausing,
    /// Looking for a nearby node to start from.
    Nearby(Nearby),
    /// The join is on its way.
    Asked,
    /// The leaf set is being probed.
    Probing,
    /// All leaves know us; leases may be missing.
    Done,
}

/// The search for a nearby node: at each step the nodes the current one knows are measured, and the nearest is next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Nearby {
    at: Contact,
    nearest: (Contact, Proximity),
    /// What the current node was asked for.
    what: What,
    repeats: u8,
}

/// Joiners helped by this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Helping {
    joiner: Option<Contact>,
    queue: VecDeque<Routed>,
}

impl Helping {
    pub(super) fn joiner(&self) -> Option<NodeId> {
        self.joiner.map(|joiner| joiner.id)
    }
}

// The joiner's side.
impl Pastry {
    pub(super) fn start_join(
        &mut self,
        request: RequestId,
        mut seeds: Vec<Contact>,
        back: bool,
        cx: &mut Ctx<'_>,
    ) {
        let fail = |failure, cx: &mut Ctx<'_>| cx.out.push(Output::Reply { request, reply: Err(failure) });
        if self.status != Status::Out {
            return fail(Failure::AlreadyJoined, cx);
        }
        let me = self.router.me();
        seeds.retain(|seed| seed.id != me.id);
        seeds.truncate(SEEDS_MAX);
        if seeds.is_empty() {
            return fail(Failure::NoSeeds, cx);
        }
        self.seeds = seeds;
        self.next_nonce = cx.dice.roll() as Nonce;
        self.prober.seed(cx);
        self.start_leases(cx);
        // Whoever comes back can be found by others who do: if all of them are gone, the ring is who is left.
        let status = if back { Status::Isolated } else { Status::Joining };
        self.had_peers |= back;
        self.begin(Some(request), status, cx);
    }

    fn begin(&mut self, request: Option<RequestId>, status: Status, cx: &mut Ctx<'_>) {
        let nonce = self.nonce();
        self.joining = Some(Box::new(Joining {
            request,
            isolated: status == Status::Isolated,
            attempt: 0,
            next_seed: 0,
            nonce,
            phase: Phase::Pausing,
            asked: None,
            sent: cx.now,
            seen: Vec::new(),
            sent_on: Vec::new(),
            tried: 0,
            helpers: Vec::new(),
        }));
        // Until the root has told us where we are, nobody is a neighbour.
        let me = self.router.me().id;
        self.router.reset_leaf_set(LeafSet::partial(me, cx.config.leaf_side(), me.plus(1 << 127)));
        self.set_status(status, cx);
        match self.bound_before().filter(|until| *until > cx.now) {
            // Goodbyes of an earlier stay may still be under way, and would undo what is granted to this one.
            Some(until) => cx.set_timer(Timer::Join, until.since(cx.now)),
            None => self.try_join(cx),
        }
    }

    /// The last peer is gone. With leases, a node that was part of a larger ring looks for it, through whoever vanished
    /// and through its seeds. Without, one that has seeds does; any other is a ring of one again.
    pub(super) fn lose_everybody(&mut self, cx: &mut Ctx<'_>) {
        cx.note(Note::Isolated);
        self.drop_leases();
        let isolates = self.leases.is_some() && self.had_peers && cx.config.rule(Safeguard::Isolation);
        if isolates {
            // Whoever was there last is the best bet; seeds come after.
            let seeds = core::mem::take(&mut self.seeds);
            let gone: Vec<Contact> = self.gone().iter().rev().map(|(gone, _)| *gone).collect();
            let mut all: Vec<Contact> = Vec::new();
            for contact in gone.into_iter().take(SEEDS_MAX / 2).chain(seeds) {
                if !all.iter().any(|known| known.id == contact.id) && all.len() < SEEDS_MAX {
                    all.push(contact);
                }
            }
            self.seeds = all;
        }
        if self.seeds.is_empty() || self.leases.is_some() && !isolates {
            self.had_peers = false;
            let side = cx.config.leaf_side();
            self.router.reset_leaf_set(LeafSet::new(self.me().id, side));
            self.report_range(cx);
        } else {
            self.begin(None, Status::Isolated, cx);
        }
    }

    /// Somebody takes us for its neighbour while we are looking for anybody: together we are a ring.
    pub(super) fn end_isolation(&mut self, cx: &mut Ctx<'_>) {
        if let Some(joining) = &mut self.joining {
            joining.phase = Phase::Done;
            self.drop_search();
            let side = cx.config.leaf_side();
            self.router.reset_leaf_set(LeafSet::new(self.me().id, side));
            self.start_verifying(cx.now);
            self.finish_verifying();
            self.wait_for_leases(cx);
        }
    }

    /// The leaf set stands. Should the leases not come, the join starts over.
    fn wait_for_leases(&mut self, cx: &mut Ctx<'_>) {
        self.enter_ring(cx.now);
        self.set_status(Status::Ok, cx);
        cx.set_timer(Timer::Join, cx.config.lease_granted() * 4);
        if self.leases.is_some() {
            self.start_watching(cx);
            self.complete_leaf_set(cx);
        }
    }

    fn try_join(&mut self, cx: &mut Ctx<'_>) {
        self.look_for_ring(cx);
        let Some(joining) = &mut self.joining else { return };
        let Some(&seed) = self.seeds.get(usize::from(joining.next_seed) % self.seeds.len().max(1)) else {
            return;
        };
        joining.next_seed = joining.next_seed.wrapping_add(1);
        joining.tried = joining.tried.saturating_add(1);
        // Who is near does not matter as long as it is not clear who is there at all.
        let first = cx.config.find_nearby && !cx.config.join_first;
        if !first || self.status == Status::Isolated {
            return self.ask_to_join(seed, cx);
        }
        let what = What::LeafSet;
        let nearest = (seed, Proximity::UNKNOWN);
        joining.phase = Phase::Nearby(Nearby { at: seed, nearest, what, repeats: 0 });
        self.ask(seed, what, Vec::new(), AskFor::Nearby, cx);
        self.probe(seed, Why::NEARBY.and(Why::VET).and(Why::JOIN), cx);
    }

    pub(super) fn nearby_answered(&mut self, from: Contact, reply: StateReply, cx: &mut Ctx<'_>) {
        let Some(joining) = &mut self.joining else { return };
        let Phase::Nearby(nearby) = &mut joining.phase else { return };
        if nearby.at.id != from.id {
            return;
        }
        // The seed may be anybody: whatever it answers, the search goes on from what was asked, downwards.
        nearby.what = match (nearby.what, reply.what) {
            (What::Row(asked), What::Row(found)) => What::Row(asked.min(found)),
            (asked, _) => asked,
        };
        let me = self.router.me().id;
        let via = self.known_proximity(from.id, cx.now, cx.config);
        let mut strangers: Vec<(Proximity, Contact)> = Vec::new();
        for Entry { contact, proximity: told } in reply.contacts {
            // The search goes by round trips, whatever the tables are built by: the application is not asked in time.
            let known = self.known_proximity(contact.id, cx.now, cx.config);
            match known.filter(|_| cx.config.metric == Metric::RoundTrip) {
                _ if contact.id == me => {}
                Some(proximity) => self.nearby_measured(contact, proximity),
                None => {
                    let at_least = candidates::at_least(via, told, cx.config);
                    strangers.push((at_least.unwrap_or(Proximity(0)), contact));
                }
            }
        }
        // Those as far from that node as we are may be beside us; those much nearer to it or much farther can not be.
        strangers.sort_by_key(|(at_least, _)| *at_least);
        let nearest = self.nearest_found();
        let strangers = strangers.into_iter().filter(|(at_least, _)| *at_least < nearest);
        // One that is nearer than the nearest so far answers sooner than that. Many of those named may be dead.
        let wait = self.patience_for(Some(nearest), cx.config);
        for (_, contact) in strangers.take(NEARBY_PROBES) {
            self.probe_within(contact, Why::NEARBY.and(Why::VET).and(Why::JOIN), wait, cx);
        }
        self.continue_join(cx);
    }

    fn nearest_found(&self) -> Proximity {
        match self.joining.as_ref().map(|joining| &joining.phase) {
            Some(Phase::Nearby(nearby)) => nearby.nearest.1,
            _ => Proximity::UNKNOWN,
        }
    }

    pub(super) fn nearby_measured(&mut self, peer: Contact, proximity: Proximity) {
        if let Some(joining) = &mut self.joining
            && let Phase::Nearby(nearby) = &mut joining.phase
            && proximity < nearby.nearest.1
        {
            nearby.nearest = (peer, proximity);
        }
    }

    /// Takes the next step of a join if nothing is open that it waits for. Called after every answer and time-out.
    pub(super) fn continue_join(&mut self, cx: &mut Ctx<'_>) {
        let Some(joining) = &self.joining else { return };
        match &joining.phase {
            Phase::Nearby(_) => {
                let asking = self.asks.iter().any(|ask| ask.purpose == AskFor::Nearby);
                if !asking && !self.prober.has_open(Why::NEARBY) {
                    self.search_on(cx);
                }
            }
            Phase::Probing if !self.prober.has_open(Why::LEAF) => self.complete_join(cx),
            _ => {}
        }
    }

    fn search_on(&mut self, cx: &mut Ctx<'_>) {
        let Some(joining) = &mut self.joining else { return };
        let Phase::Nearby(nearby) = &mut joining.phase else { return };
        let moved = nearby.nearest.0.id != nearby.at.id;
        if moved {
            nearby.at = nearby.nearest.0;
            cx.note(Note::NearerSeed);
        }
        let next = match nearby.what {
            What::LeafSet => Some(What::Row(u8::MAX)),
            What::Row(0) if moved && nearby.repeats < NEARBY_REPEATS => {
                nearby.repeats += 1;
                Some(What::Row(0))
            }
            What::Row(row) => row.checked_sub(1).map(What::Row),
            What::Cell { .. } | What::Neighbourhood => None,
        };
        let at = nearby.at;
        match next {
            Some(what) => {
                nearby.what = what;
                self.ask(at, what, Vec::new(), AskFor::Nearby, cx);
            }
            None => self.ask_to_join(at, cx),
        }
    }

    fn ask_to_join(&mut self, via: Contact, cx: &mut Ctx<'_>) {
        let (me, hop, serial) = (self.router.me(), self.nonce(), self.nonce());
        let Some(joining) = &mut self.joining else { return };
        joining.phase = Phase::Asked;
        (joining.asked, joining.sent) = (Some((via.id, hop)), cx.now);
        let nonce = joining.nonce;
        cx.send(via, Body::Routed(own_join(me, nonce, serial, hop)));
        // A seed that is there acknowledges at once: one that is not need not be waited for as long as a join may take.
        let wait = self.timing.at_least(cx.config.hop_timeout_max, 2, cx.config);
        cx.set_timer(Timer::Join, wait.min(self.join_wait(cx)));
    }

    fn join_wait(&self, cx: &Ctx<'_>) -> Duration {
        self.timing.at_least(cx.config.join_timeout, 4, cx.config)
    }

    /// The seed can not be reached: the next one, without waiting for an answer.
    pub(super) fn join_unsent(&mut self, to: Contact, nonce: Nonce, cx: &mut Ctx<'_>) {
        let waiting = self.joining.as_ref().is_some_and(|joining| {
            joining.nonce == nonce
                && joining.phase == Phase::Asked
                && joining.asked.is_some_and(|(asked, _)| asked == to.id)
        });
        if waiting {
            self.join_failed(cx);
        }
    }

    pub(super) fn join_acknowledged(&mut self, from: Contact, ack: &HopAck, cx: &mut Ctx<'_>) -> bool {
        let Some(joining) = &self.joining else { return false };
        if joining.asked != Some((from.id, ack.hop)) {
            return false;
        }
        // The first round trip there is: the probes that follow go by it.
        self.timing.measured(cx.now.since(joining.sent), cx.config);
        match joining.phase {
            Phase::Asked if ack.taken => cx.set_timer(Timer::Join, self.join_wait(cx)),
            Phase::Asked => self.join_failed(cx),
            _ => {}
        }
        true
    }

    pub(super) fn handle_join_reply(&mut self, from: Contact, reply: JoinReply, cx: &mut Ctx<'_>) {
        let healing = self.past.as_ref().and_then(|past| past.healing.as_ref());
        if healing.is_some_and(|healing| healing.nonce == reply.join.nonce) {
            return self.heal_answered(from, reply, cx);
        }
        let JoinReply { join, whole, leaves, versions } = reply;
        let waiting = self.joining.as_mut().filter(|joining| joining.nonce == join.nonce);
        let Some(joining) = waiting else { return cx.refuse(Refusal::Unsolicited) };
        if joining.helpers.len() < HELPERS_MAX && !joining.helpers.contains(&from) {
            joining.helpers.push(from);
        }
        if matches!(joining.phase, Phase::Probing | Phase::Done) {
            return;
        }
        joining.phase = Phase::Probing;
        self.start_verifying(cx.now);
        let Some(joining) = &mut self.joining else { return };
        joining.seen = join.path.iter().map(|(contact, versions)| (contact.id, *versions)).collect();
        // The root was the last hop of the path, too.
        match joining.seen.iter_mut().find(|(id, _)| *id == from.id) {
            Some((_, seen)) => *seen = seen.merge(versions),
            None => joining.seen.push((from.id, versions)),
        }
        self.drop_search();
        let (me, side) = (self.router.me().id, cx.config.leaf_side());
        self.router.reset_leaf_set(if whole {
            LeafSet::new(me, side)
        } else {
            // The arc ends with the farthest leaf on the right: up to there is our right side, too.
            let edge = leaves.last().map_or(me.plus(1 << 127), |last| last.id);
            LeafSet::partial(me, side, edge)
        });
        self.set_status(Status::Waiting, cx);
        cx.set_timer(Timer::Join, self.join_wait(cx));
        let mut arc = leaves;
        let start = arc.first().map_or(from.id, |first| first.id);
        arc.push(from);
        arc.sort_by_key(|contact| start.clockwise_to(contact.id));
        self.consider_leaves(from, arc, Why::JOIN, cx);
        let path = join.path.into_iter().map(|(contact, _)| contact);
        for contact in path.chain(join.contacts) {
            self.consider(contact, Source::Elsewhere, Why::JOIN, cx);
        }
        self.continue_join(cx);
    }

    pub(super) fn handle_join_refused(
        &mut self,
        from: Contact,
        nonce: Nonce,
        reason: JoinRefusal,
        cx: &mut Ctx<'_>,
    ) {
        // A seed that knows our id as somebody else's refuses the very first question of the search.
        let open = |ask: &Ask| ask.purpose == AskFor::Nearby && ask.nonce == nonce && ask.peer.id == from.id;
        let searching = self.asks.iter().any(open);
        let waiting = searching
            || self.joining.as_ref().is_some_and(|joining| {
                joining.nonce == nonce && matches!(joining.phase, Phase::Asked | Phase::Pausing)
            });
        match reason {
            _ if !waiting => cx.refuse(Refusal::Unsolicited),
            JoinRefusal::Busy => self.join_failed(cx),
            JoinRefusal::IdTaken => {
                self.end_join(Failure::JoinRefused(reason), cx);
                self.stop(cx);
            }
        }
    }

    /// All leaves have answered or are given up.
    fn complete_join(&mut self, cx: &mut Ctx<'_>) {
        if self.router.leaf_set().is_empty() {
            return self.join_failed(cx);
        }
        if let Some(joining) = &mut self.joining {
            joining.phase = Phase::Done;
        }
        self.finish_verifying();
        self.wait_for_leases(cx);
        self.become_ready(cx);
        self.seek_leases(cx);
    }

    /// Nothing is missing any more.
    pub(super) fn finish_join(&mut self, cx: &mut Ctx<'_>) {
        let request = self.joining.as_ref().and_then(|joining| joining.request);
        let helpers = self.joining.as_ref().map(|joining| joining.helpers.clone()).unwrap_or_default();
        self.set_status_ready(cx);
        if let Some(request) = request {
            cx.out.push(Output::Reply { request, reply: Ok(Reply::Joined) });
        }
        // Leaves know us from the probes; the nodes of the table are told now, and the helper that it may go on.
        let leaf_set = self.router.leaf_set();
        let holders = self.router.table().holders().map(|entry| entry.contact);
        let told = holders.filter(|contact| leaf_set.get(contact.id).is_none() && !helpers.contains(contact));
        for peer in told.chain(helpers.iter().copied()).collect::<Vec<_>>() {
            self.announce(peer, cx);
        }
        self.joining = None;
        // Leaves that did not answer have left gaps.
        self.complete_leaf_set(cx);
        self.start_looking(cx);
    }

    fn set_status_ready(&mut self, cx: &mut Ctx<'_>) {
        // `announce` still needs the versions seen; everybody else must see a consistent state.
        cx.out.push(Output::CancelTimer { timer: Timer::Join });
        self.set_status(Status::Ready, cx);
        self.start_maintenance(cx);
    }

    pub(super) fn on_join_timer(&mut self, cx: &mut Ctx<'_>) {
        match self.joining.as_ref().map(|joining| &joining.phase) {
            Some(Phase::Pausing) => self.try_join(cx),
            // Probes end by themselves, each in its own time; a ring in turmoil may need more than one round.
            Some(Phase::Probing) => cx.set_timer(Timer::Join, self.join_wait(cx)),
            Some(_) => self.join_failed(cx),
            None => {}
        }
    }

    /// A node that looks for its ring between two attempts need not wait any longer: this peer is there.
    pub(super) fn join_through(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        let bound = self.bound_until().is_some_and(|until| until > cx.now);
        let pauses =
            self.joining.as_mut().filter(|joining| matches!(joining.phase, Phase::Pausing) && !bound);
        if let Some(joining) = pauses {
            joining.next_seed = 0;
            self.seeds.retain(|seed| seed.id != peer.id);
            self.seeds.truncate(SEEDS_MAX - 1);
            self.seeds.insert(0, peer);
            self.try_join(cx);
        }
    }

    /// Pauses, longer each time, and starts over.
    pub(super) fn join_failed(&mut self, cx: &mut Ctx<'_>) {
        // Whoever holds a lease of ours may not be in the leaf set of the next attempt: it begins when none is left.
        let bound = self.bound_until().map_or(Duration::ZERO, |until| until.since(cx.now));
        if matches!(self.status, Status::Waiting | Status::Ok) {
            self.drop_leases();
            self.set_status(Status::Joining, cx);
            if bound.is_zero() {
                self.look_for_ring(cx);
            }
        }
        let Some(joining) = &mut self.joining else { return };
        cx.note(Note::JoinRetried);
        joining.phase = Phase::Pausing;
        joining.helpers.clear();
        let doubled = cx.config.join_backoff_min.saturating_mul(1 << joining.attempt.min(16));
        // Longer from round to round, not from seed to seed: many may be dead.
        let round = usize::from(joining.next_seed) % self.seeds.len().max(1) == 0;
        joining.attempt = joining.attempt.saturating_add(round.into());
        // A ring that is looked for may be there any moment; one that does not want us will not for a while.
        let isolated = self.status == Status::Isolated;
        let most = if isolated { cx.config.heal } else { Duration::MAX }.min(cx.config.join_backoff_max);
        let mut pause = cx.dice.jitter(doubled.min(most));
        if isolated && !round {
            // Somebody may be waiting for us to have asked everybody.
            pause /= 8;
        }
        cx.set_timer(Timer::Join, pause.max(bound));
        self.drop_search();
    }

    /// A node that was part of a ring is isolated again after a failed attempt, once no lease of its runs any more.
    /// If it stayed a joiner, a ring whose members all came back at once and all failed once would never form: joiners
    /// turn others away (`members_that_both_failed_once_form_their_ring_again`).
    fn look_for_ring(&mut self, cx: &mut Ctx<'_>) {
        let isolated = self.joining.as_ref().is_some_and(|joining| joining.isolated);
        if isolated && self.status == Status::Joining {
            let me = self.router.me().id;
            self.router.reset_leaf_set(LeafSet::partial(me, cx.config.leaf_side(), me.plus(1 << 127)));
            self.set_status(Status::Isolated, cx);
        }
    }

    fn drop_search(&mut self) {
        self.asks.retain(|ask| ask.purpose != AskFor::Nearby);
        self.prober.drop_reason(Why::NEARBY);
    }

    /// Ends a join for good.
    pub(super) fn end_join(&mut self, failure: Failure, cx: &mut Ctx<'_>) {
        if let Some(request) = self.joining.take().and_then(|joining| joining.request) {
            cx.out.push(Output::Reply { request, reply: Err(failure) });
        }
    }

    /// The tables we built on have changed: take in what changed and announce again, to this node only.
    pub(super) fn handle_race(&mut self, from: Contact, race: Race, cx: &mut Ctx<'_>) {
        if self.status != Status::Ready || self.router.get(from.id).is_none() || race.round >= RACE_ROUNDS {
            return cx.refuse(Refusal::Unsolicited);
        }
        for contact in race.contacts {
            self.consider(contact, Source::Elsewhere, Why::VET, cx);
        }
        let proximity = self.router.proximity(from.id).unwrap_or(Proximity::UNKNOWN);
        let announce = Announce { seen: Some(race.versions), proximity, round: race.round + 1 };
        cx.send(from, Body::Pastry(Message::Announce(announce)));
    }
}

// The side of the ring.
impl Pastry {
    /// Adds what a joiner can use from here: this node, its rows from the digit they share on, and for the first hop,
    /// which is near the joiner, its neighbourhood set.
    pub(super) fn add_rows(&self, joiner: NodeId, join: &mut Join) {
        let room = JOIN_CONTACTS_MAX.saturating_sub(join.contacts.len());
        let first = join.path.is_empty();
        let near = self.router.neighbourhood().members().filter(|_| first);
        let rows = self.router.rows_for(joiner, join.rows_done).map(|entry| entry.contact);
        let useful = near.chain(rows).filter(|contact| contact.id != joiner);
        join.contacts.extend(useful.take(room));
        join.rows_done = 1 + self.router.me().id.shared_digits(joiner, self.router.table().base());
        if join.path.len() < usize::from(u8::MAX) {
            join.path.push((self.router.me(), self.router.versions()));
        }
    }

    /// We are the root of a joiner's id. One joiner is helped at a time, so that each finds the one before it in
    /// place; the others wait.
    pub(super) fn help(&mut self, routed: Routed, cx: &mut Ctx<'_>) {
        let joiner = routed.origin;
        let Payload::Join(join) = &routed.payload else { return };
        let nonce = join.nonce;
        let refuse = |reason, cx: &mut Ctx<'_>| {
            cx.send(joiner, Body::Pastry(Message::JoinRefused { nonce, reason }));
        };
        let taken = self.router.leaf_set().get(joiner.id).is_some_and(|known| {
            known.incarnation > joiner.incarnation
                || known.incarnation == joiner.incarnation && known.addr != joiner.addr
                || known.incarnation < joiner.incarnation && !cx.config.rule(Safeguard::NewLife)
        });
        if taken && !cx.config.rule(Safeguard::NewLife) {
            return refuse(JoinRefusal::Busy, cx);
        }
        if taken || joiner.id == self.router.me().id {
            return refuse(JoinRefusal::IdTaken, cx);
        }
        let most = usize::from(cx.config.help_queue);
        if self.status == Status::Isolated && !self.has_tried_all_since(joiner.id, cx) {
            return refuse(JoinRefusal::Busy, cx);
        }
        let helping =
            self.helping.get_or_insert_with(|| Box::new(Helping { joiner: None, queue: VecDeque::new() }));
        let one = cx.config.rule(Safeguard::OneJoiner);
        if one && helping.joiner.is_some_and(|current| current.id != joiner.id) {
            helping.queue.retain(|waiting| waiting.origin.id != joiner.id);
            if helping.queue.len() >= most {
                return refuse(JoinRefusal::Busy, cx);
            }
            helping.queue.push_back(routed);
            return cx.note(Note::Queued);
        }
        helping.joiner = Some(joiner);
        cx.note(Note::Helping);
        cx.set_timer(Timer::Help, self.timing.at_least(cx.config.help_timeout, 4, cx.config));
        let Payload::Join(join) = routed.payload else { return };
        let mut join = *join;
        join.contacts.sort_unstable_by_key(|contact| contact.id);
        join.contacts.dedup_by_key(|contact| contact.id);
        let leaf_set = self.router.leaf_set();
        let alone = self.status == Status::Isolated;
        let mut leaves = leaf_set.arc();
        if alone {
            // Those we lost may be there for others.
            leaves.extend(
                self.gone().iter().rev().map(|(gone, _)| *gone).take(usize::from(cx.config.leaf_set)),
            );
            let me = self.router.me().id;
            leaves.sort_by_key(|contact| me.clockwise_to(contact.id));
        }
        leaves.retain(|contact| contact.id != joiner.id);
        let (whole, versions) = (leaf_set.is_whole() || alone, self.router.versions());
        let reply = JoinReply { join, whole, leaves, versions };
        cx.send(joiner, Body::Pastry(Message::JoinReply(Box::new(reply))));
    }

    /// Somebody asks for help while we look for our ring. Says whether we have tried all our seeds since it first did;
    /// if not, we do so now.
    fn has_tried_all_since(&mut self, joiner: NodeId, cx: &mut Ctx<'_>) -> bool {
        let seeds = self.seeds.len() as u16;
        let Some(joining) = &mut self.joining else { return false };
        if let Some((_, tried)) = joining.sent_on.iter().find(|(id, _)| *id == joiner) {
            // The one under way has not failed yet.
            return joining.tried > tried.saturating_add(seeds)
                || joining.tried == tried.saturating_add(seeds) && joining.phase == Phase::Pausing;
        }
        if joining.sent_on.len() >= SEEDS_MAX {
            joining.sent_on.remove(0);
        }
        joining.sent_on.push((joiner, joining.tried));
        joining.attempt = 0;
        if joining.phase == Phase::Pausing {
            self.try_join(cx);
        }
        false
    }

    /// Helps the next joiner. Those who wait may belong to the one just helped by now, so all their joins are routed
    /// anew: the first that still ends here is helped, the others wait again.
    pub(super) fn help_next(&mut self, cx: &mut Ctx<'_>) {
        if let Some(helping) = self.helping.take() {
            helping.queue.into_iter().for_each(|routed| cx.out.route(routed));
        }
    }

    /// The joiner that is helped is in the leaf set now, so the next one will be told of it. That it is ready takes several
    /// round trips and the connections to all its leaves: where round trips are long, the last of a few waited for a minute.
    pub(super) fn helped_is_here(&mut self, joiner: NodeId, cx: &mut Ctx<'_>) {
        let helped = self.helping.as_ref().is_some_and(|helping| helping.joiner() == Some(joiner));
        if helped && self.router.leaf_set().get(joiner).is_some() {
            self.help_next(cx);
        }
    }

    pub(super) fn on_help_timer(&mut self, cx: &mut Ctx<'_>) {
        self.help_next(cx);
    }

    /// A node has joined. It is alive; what it says about its distance only fills an empty cell.
    pub(super) fn handle_announce(&mut self, from: Contact, announce: Announce, cx: &mut Ctx<'_>) {
        if self.status != Status::Ready {
            return cx.refuse(Refusal::NotJoined);
        }
        let before = self.router.versions();
        let place = self.router.table().place(from.id);
        let holder = place.and_then(|(row, column)| self.router.table().cell(row, column).next().copied());
        match holder {
            None => {
                // Nearness that is only claimed counts for nothing; a measurement follows.
                self.admit(from, Proximity::UNKNOWN, Source::Elsewhere, cx);
                if self.budget.take(candidates::PING_BYTES, cx) {
                    self.probe(from, Why::VET, cx);
                }
            }
            Some(holder) if holder.contact.id != from.id && announce.proximity < holder.proximity => {
                self.consider(from, Source::Elsewhere, Why::VET, cx);
            }
            Some(_) => {}
        }
        self.notice(from, cx);
        if let Some(helping) = &mut self.helping {
            helping.queue.retain(|waiting| waiting.origin.id != from.id);
            if helping.joiner() == Some(from.id) {
                self.help_next(cx);
            }
        }
        let Some(seen) = announce.seen else { return };
        let (leaves_moved, table_moved) = (before.leaf_set > seen.leaf_set, before.table > seen.table);
        if !(leaves_moved || table_moved) || announce.round >= RACE_ROUNDS {
            return;
        }
        let mut contacts = if leaves_moved { self.router.leaf_set().arc() } else { Vec::new() };
        if table_moved {
            let shared = self.router.me().id.shared_digits(from.id, self.router.table().base());
            contacts.extend(self.router.rows_for(from.id, shared).map(|entry| entry.contact));
        }
        contacts.retain(|contact| contact.id != from.id);
        cx.note(Note::Raced);
        let race = Race { versions: self.router.versions(), round: announce.round, contacts };
        cx.send(from, Body::Pastry(Message::Race(Box::new(race))));
    }
}

/// A fresh join, on its way to the first hop.
pub(super) fn own_join(me: Contact, nonce: Nonce, serial: u32, hop: Nonce) -> Routed {
    let join = Join { nonce, rows_done: 0, path: Vec::new(), contacts: Vec::new() };
    let payload = Payload::Join(Box::new(join));
    Routed { key: me.id, origin: me, payload, serial, hop, hops: 1, stage: Stage::Prefix }
}
