//! Leases: the right to deliver, given by the ring neighbours.
//!
//! A lease from the left neighbour says: "until it ends I take you for my right neighbour, whatever I hear, so I claim
//! nothing beyond the middle between us, and nobody nearer gets this lease before you know of it." A node delivers only
//! while it holds the leases of both sides: a neighbour that does not know it would cover its range from either side.
//!
//! - The holder counts from sending its request and a little less, the grantor from receiving it and a little more, so
//!   that the holder always stops first.
//! - Whoever is found dead stays in the leaf set until what it was granted has run out. So does the node beyond a
//!   neighbour we lose: the lost one may have granted it a lease in its last moment.
//! - A newcomer nearer than the grantor only shrinks what the holder covers: the *displaced* lease goes on, as long as
//!   the newcomer (or somebody nearer still) is there. The holder tells the grantor, who may then grant the newcomer.
//! - A grant says "this is how things are beside me", so it takes somebody who knows: a node that has been out of touch
//!   for a lease (it was stopped, or cut off) first hears its whole leaf set again.
//! - Holder and grantor agree about who is beside them: neither counts on the other as long as one of them knows a
//!   node that would be the other's neighbour.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::leaf_set::Source;
use super::{Flank, LeaseRecall, LeaseReply, LeaseRequest, Message, Pastry};
use crate::config::{Config, Ownership, Safeguard};
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Event, Note, Refusal, Timer};
use crate::id::NodeId;
use crate::message::{Body, Nonce};
use crate::overlay::probe::Why;
use crate::overlay::{Overlay, Status};
use crate::time::Time;

/// What somebody holds who can not tell.
const NEW_HERE: u32 = u32::MAX;
/// Leases granted at a time. Two run; the others are those of displaced neighbours, which end soon.
const GRANTS_MAX: usize = 64;
/// Leaves named in lease messages, per side.
const NAMED: usize = 4;
/// Entitled without a lease.
const FOREVER: Time = Time::from_micros(u64::MAX);

/// What a node holds and what it has granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Leases {
    /// Left and right.
    held: [Option<Held>; 2],
    asked: [Option<Asked>; 2],
    granted: Vec<Grant>,
    /// Whoever was beyond a neighbour we lost, and until when it may hold a lease of that neighbour's.
    inherited: Vec<(NodeId, Time)>,
    /// Left and right: a neighbour we lost without knowing who is beyond it, and until when somebody there may hold a
    /// lease of its.
    unknown: [Option<(NodeId, Time)>; 2],
    /// Found dead, but still bound by a grant.
    dead: Vec<NodeId>,
    /// Since when we are part of the ring. Whoever came later cannot know what the nodes around it granted before.
    since: Option<Time>,
    /// After a restart: what an earlier life granted is not known. Ends when both neighbours have told.
    quiet: Option<Quiet>,
    /// Up to when we knew our surroundings: every leaf had answered or was found dead.
    verified: Option<Time>,
    /// Since when all leaves are being asked.
    verifying: Option<Time>,
    /// Since when we may not deliver; moved on when that was reported.
    idle: Option<Time>,
    /// When the timer was to fire. If it comes much later, we were stopped meanwhile.
    due: Option<Time>,
    /// Until when what arrives may have waited while we were stopped.
    awake: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    from: NodeId,
    /// The life that granted it.
    life: u32,
    /// The nonce it was asked with last.
    nonce: Nonce,
    until: Time,
    renew: Time,
    /// Who displaced the grantor. The lease is good as long as the neighbour on this side is no farther away.
    nearer: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asked {
    peer: NodeId,
    /// Nothing is open while a refusal is being slept on.
    nonce: Option<Nonce>,
    sent: Time,
    deadline: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Grant {
    to: NodeId,
    /// Our side on which the holder is.
    side: Flank,
    nonce: Nonce,
    until: Time,
    /// The nearest node the holder has told us it knows.
    nearer: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Quiet {
    until: Time,
    told: [bool; 2],
}

/// How long to wait for an answer, and after a refusal: several tries must fit into what is left when a lease is renewed.
fn patience(config: &Config) -> Duration {
    config.probe_timeout_max.min(config.lease / 6)
}

pub(super) const FLANKS: [Flank; 2] = [Flank::Left, Flank::Right];

impl Flank {
    fn other(self) -> Flank {
        match self {
            Flank::Left => Flank::Right,
            Flank::Right => Flank::Left,
        }
    }

    /// How far it is from one node to another, going to this side. To oneself it is once around.
    fn distance(self, from: NodeId, to: NodeId) -> u128 {
        let ahead = match self {
            Flank::Left => to.clockwise_to(from),
            Flank::Right => from.clockwise_to(to),
        };
        // One less, so that once around is the farthest there is.
        ahead.wrapping_sub(1)
    }
}

impl Pastry {
    /// Returns the grantors of the leases this node holds, left and right, with their incarnations, as far as nobody nearer has displaced them.
    pub fn lessors(&self, now: Time) -> [Option<(NodeId, u32)>; 2] {
        let held = self.leases.as_ref().map_or([None; 2], |leases| leases.held);
        held.map(|held| {
            let held = held.filter(|held| held.until > now && held.nearer.is_none());
            held.map(|held| (held.from, held.life))
        })
    }

    /// Says until when this node may deliver the keys it is nearest to.
    pub(super) fn entitled_until(&self, now: Time, config: &Config) -> Option<Time> {
        let Some(leases) = &self.leases else { return Some(FOREVER) };
        if !config.rule(Safeguard::ReadyNeedsLeases) {
            return Some(FOREVER);
        }
        if !self.had_peers {
            // A ring of one, perhaps with guests that are not part of it yet: nobody else can be entitled to anything
            // before we have granted a lease.
            return (self.status == Status::Ready).then_some(FOREVER);
        }
        let valid = |held: &Held| held.until > now;
        if !config.rule(Safeguard::Sides) {
            // Planted for tests: any lease will do for both sides.
            return leases.held.iter().flatten().filter(|held| valid(held)).map(|held| held.until).max();
        }
        match leases.held {
            [Some(left), Some(right)] if valid(&left) && valid(&right) => Some(left.until.min(right.until)),
            _ => None,
        }
    }

    pub(super) fn neighbour(&self, flank: Flank) -> Option<Contact> {
        match flank {
            Flank::Left => self.router.leaf_set().left().next(),
            Flank::Right => self.router.leaf_set().right().next(),
        }
    }

    pub(super) fn start_leases(&mut self, cx: &mut Ctx<'_>) {
        if cx.config.ownership == Ownership::Hint {
            return;
        }
        let leases = self.leases.get_or_insert_default();
        // An earlier life, or this one before it left, may have granted something.
        let restarted = (self.router.me().incarnation > 1).then(|| cx.now.after(cx.config.lease_granted()));
        let until = restarted.max(self.bound_before).filter(|until| *until > cx.now);
        if let Some(until) = until.filter(|_| cx.config.rule(Safeguard::RestartWaits)) {
            leases.quiet = Some(Quiet { until, told: [false; 2] });
        }
    }

    /// From now on every leaf is asked.
    pub(super) fn start_verifying(&mut self, now: Time) {
        if let Some(leases) = &mut self.leases {
            leases.verifying = Some(now);
        }
    }

    /// Every leaf has answered, or is known to be dead. A joiner can not tell whether it was stopped meanwhile, so for
    /// it only the beginning counts.
    pub(super) fn finish_verifying(&mut self) {
        if let Some(leases) = &mut self.leases {
            leases.verified = leases.verifying.take();
        }
    }

    /// Called after every answer and time-out.
    pub(super) fn continue_verifying(&mut self, cx: &mut Ctx<'_>) {
        let verifying = self.leases.as_ref().is_some_and(|leases| leases.verifying.is_some());
        if verifying && self.is_in_ring() && self.prober.count(Why::LEAF) == 0 {
            self.start_verifying(cx.now);
            self.finish_verifying();
            self.seek_leases(cx);
        }
    }

    /// Says whether what we know of our surroundings is recent enough to be certified.
    fn is_verified(&self, cx: &Ctx<'_>) -> bool {
        let Some(leases) = &self.leases else { return true };
        let lately = |began: Time| cx.now < began.after(cx.config.lease_held());
        !cx.config.rule(Safeguard::Verified)
            || leases.verified.is_some_and(lately)
            || self.entitled_until(cx.now, cx.config).is_some()
    }

    /// Hears every leaf again if we have been out of touch.
    fn verify(&mut self, cx: &mut Ctx<'_>) {
        if self.is_verified(cx) || !self.is_in_ring() {
            return;
        }
        if self.leases.as_ref().is_some_and(|leases| leases.verifying.is_none()) {
            cx.note(Note::Verifying);
            self.start_verifying(cx.now);
            for leaf in self.router.leaf_set().members().to_vec() {
                self.probe(leaf, Why::LEAF.and(Why::WATCH), cx);
            }
        }
    }

    /// Nobody is left: nothing is held.
    pub(super) fn drop_leases(&mut self) {
        if let Some(leases) = &mut self.leases {
            (leases.held, leases.asked) = ([None; 2], [None; 2]);
            (leases.verified, leases.verifying, leases.since) = (None, None, None);
        }
    }

    /// From now on others count on us.
    pub(super) fn enter_ring(&mut self, now: Time) {
        if let Some(leases) = &mut self.leases {
            leases.since.get_or_insert(now);
        }
    }

    /// The leaf set has changed: leases that no longer fit are void, new neighbours are asked.
    pub(super) fn review_leases(&mut self, cx: &mut Ctx<'_>) {
        let me = self.router.me().id;
        for flank in FLANKS {
            let (at, neighbour) = (flank as usize, self.neighbour(flank));
            let Some(leases) = &mut self.leases else { return };
            if leases.asked[at].is_some_and(|asked| neighbour.is_none_or(|n| n.id != asked.peer)) {
                leases.asked[at] = None;
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
    pub(super) fn seek_leases(&mut self, cx: &mut Ctx<'_>) {
        if !self.is_in_ring() || self.leases.is_none() {
            return;
        }
        for flank in FLANKS {
            let Some(neighbour) = self.neighbour(flank) else { continue };
            let (at, nonce) = (flank as usize, self.nonce());
            let leaves = self.beside_us(cx.now);
            let open = self.is_open(flank, neighbour.id, cx.now);
            let Some(leases) = &mut self.leases else { return };
            let due =
                !open && leases.held[at].is_none_or(|held| held.from != neighbour.id || held.renew <= cx.now);
            if !due || leases.asked[at].is_some() {
                continue;
            }
            let deadline = cx.now.after(patience(cx.config));
            leases.asked[at] = Some(Asked { peer: neighbour.id, nonce: Some(nonce), sent: cx.now, deadline });
            if let Some(held) = leases.held[at].as_mut().filter(|held| held.from == neighbour.id) {
                held.nonce = nonce;
            }
            let holds = leases.holds(neighbour.id, cx);
            let request = LeaseRequest { nonce, side: flank, holds, leaves };
            cx.send(neighbour, Body::Pastry(Message::LeaseRequest(Box::new(request))));
        }
        self.arm_leases(cx);
    }

    /// Our nearest leaves in ring order, without those who neither answer nor hold anything from us.
    fn beside_us(&self, now: Time) -> Vec<Contact> {
        let Some(leases) = &self.leases else { return Vec::new() };
        let suspects = self.prober.suspects();
        let counts = |leaf: &Contact| {
            suspects.binary_search(&leaf.id).is_err() || leases.bound_until(leaf.id, now).is_some()
        };
        let mut named: Vec<Contact> = self.router.leaf_set().left().filter(counts).take(NAMED).collect();
        named.reverse();
        for leaf in self.router.leaf_set().right().filter(counts).take(NAMED) {
            if !named.contains(&leaf) {
                named.push(leaf);
            }
        }
        named
    }

    /// Says whether somebody else's leaves name a node that would be beside us, and that we do not have.
    fn is_missing(&self, leaves: &[Contact], config: &Config) -> bool {
        let me = self.router.me().id;
        let beside = |contact: &Contact| {
            let nearer = |flank: Flank| {
                self.neighbour(flank)
                    .is_none_or(|n| flank.distance(me, contact.id) < flank.distance(me, n.id))
            };
            contact.id != me && (nearer(Flank::Left) || nearer(Flank::Right))
        };
        config.rule(Safeguard::Agreement) && leaves.iter().any(beside)
    }

    fn arm_leases(&mut self, cx: &mut Ctx<'_>) {
        let Some(leases) = &mut self.leases else { return };
        let asked = |at: usize| leases.asked[at].map(|asked| asked.deadline);
        // While a question is open, its deadline stands for the renewal it is about.
        let held = (0..2).filter_map(|at| {
            leases.held[at].map(|held| if asked(at).is_some() { held.until } else { held.renew })
        });
        let dead = leases.dead.iter().filter_map(|id| leases.bound_until(*id, cx.now));
        let quiet = leases.quiet.map(|quiet| quiet.until);
        let times = held.chain((0..2).filter_map(asked)).chain(dead).chain(quiet);
        if let Some(earliest) = times.min() {
            // Not in a busy loop, should something stay due; and often enough to notice having been stopped.
            let span = earliest.since(cx.now).clamp(Duration::from_millis(1), cx.config.lease / 3);
            leases.due = Some(cx.now.after(span));
            cx.set_timer(Timer::Lease, span);
        }
    }

    pub(super) fn on_lease_timer(&mut self, cx: &mut Ctx<'_>) {
        let Some(leases) = &mut self.leases else { return };
        let late = leases.due.take().is_some_and(|due| due.after(cx.config.lease / 4) < cx.now);
        if late {
            // Answers that waited while we were stopped say how things were.
            (leases.verified, leases.verifying) = (None, None);
            leases.awake = Some(cx.now.after(cx.config.hop_timeout_max));
            self.prober.close_all();
        }
        let mut silent = [None; 2];
        for (at, silent) in silent.iter_mut().enumerate() {
            if leases.held[at].is_some_and(|held| held.until <= cx.now) {
                leases.held[at] = None;
                cx.note(Note::LeaseLost);
            }
            if let Some(asked) = leases.asked[at].filter(|asked| asked.deadline <= cx.now) {
                leases.asked[at] = None;
                // After a long stop the silence was ours.
                *silent = asked.nonce.filter(|_| !late).map(|_| asked.peer);
            }
        }
        if leases.quiet.is_some_and(|quiet| quiet.until <= cx.now) {
            leases.quiet = None;
        }
        leases.granted.retain(|grant| grant.until > cx.now);
        let dead = core::mem::take(&mut leases.dead);
        let (kept, free): (Vec<NodeId>, Vec<NodeId>) =
            dead.into_iter().partition(|id| leases.bound_until(*id, cx.now).is_some());
        leases.dead = kept;
        for peer in free.into_iter().filter_map(|id| self.router.get(id)).collect::<Vec<_>>() {
            self.remove_dead(peer, cx);
        }
        for peer in silent.into_iter().flatten().filter_map(|id| self.router.get(id)).collect::<Vec<_>>() {
            self.on_silent(peer, cx);
        }
        self.report_idleness(cx);
        self.verify(cx);
        self.become_ready(cx);
        self.seek_leases(cx);
    }

    /// Neighbours that refuse for long have a reason somebody should look into. There is no way around them.
    fn report_idleness(&mut self, cx: &mut Ctx<'_>) {
        let entitled = self.entitled_until(cx.now, cx.config).is_some();
        let waits = self.is_in_ring();
        let Some(leases) = &mut self.leases else { return };
        leases.idle = if entitled { None } else { leases.idle.or(waits.then_some(cx.now)) };
        if waits && leases.idle.is_some_and(|since| cx.now.since(since) >= cx.config.lease * 3) {
            leases.idle = Some(cx.now);
            cx.note(Note::LeasesOverdue);
        }
    }

    /// A peer was found dead. Returns whether it has to stay until its lease has run out.
    pub(super) fn keep_dead(&mut self, peer: Contact, cx: &mut Ctx<'_>) -> bool {
        let Some(leases) = &mut self.leases else { return false };
        if leases.bound_until(peer.id, cx.now).is_none() || !cx.config.rule(Safeguard::KeepGranted) {
            return false;
        }
        if !leases.dead.contains(&peer.id) {
            leases.dead.push(peer.id);
            cx.note(Note::KeptDead(peer));
        }
        self.prober.suspect(peer, cx);
        self.arm_leases(cx);
        true
    }

    /// The neighbour on this side is gone: what it has granted to the next one binds us now.
    pub(super) fn inherit(&mut self, lost: NodeId, flank: Flank, cx: &mut Ctx<'_>) {
        let leaf_set = self.router.leaf_set();
        let next = match flank {
            Flank::Left => leaf_set.left().find(|leaf| leaf.id != lost),
            Flank::Right => leaf_set.right().find(|leaf| leaf.id != lost),
        };
        let Some(leases) = &mut self.leases else { return };
        leases.inherited.retain(|(_, until)| *until > cx.now);
        if !cx.config.rule(Safeguard::Inherit) {
            return;
        }
        let until = cx.now.after(cx.config.lease_granted());
        match next {
            Some(next) => {
                leases.inherited.retain(|(id, _)| *id != next.id);
                leases.inherited.truncate(usize::from(cx.config.leaf_set));
                leases.inherited.push((next.id, until));
            }
            None => leases.unknown[flank as usize] = Some((lost, until)),
        }
    }

    /// Says whether somebody unknown between us and a peer on this side may still hold a lease.
    fn is_open(&self, flank: Flank, peer: NodeId, now: Time) -> bool {
        let me = self.router.me().id;
        let unknown = self.leases.as_ref().and_then(|leases| leases.unknown[flank as usize]);
        unknown
            .is_some_and(|(lost, until)| now < until && flank.distance(me, lost) < flank.distance(me, peer))
    }

    /// A peer shows that it lives.
    pub(super) fn is_not_dead(&mut self, id: NodeId) {
        if let Some(leases) = &mut self.leases {
            leases.dead.retain(|dead| *dead != id);
        }
    }

    /// Until when anybody may rely on something we have granted in this life or before.
    pub(super) fn bound_until(&self) -> Option<Time> {
        let leases = self.leases.as_ref();
        let granted = leases.and_then(|leases| leases.granted.iter().map(|grant| grant.until).max());
        granted.max(self.bound_before)
    }

    /// A peer has left for good and said so, or came back in a new life: nothing binds us to its old one.
    pub(super) fn release(&mut self, id: NodeId) {
        if let Some(leases) = &mut self.leases {
            leases.granted.retain(|grant| grant.to != id);
            leases.inherited.retain(|(bound, _)| *bound != id);
            leases.dead.retain(|dead| *dead != id);
        }
    }

    pub(super) fn handle_lease_request(&mut self, from: Contact, request: LeaseRequest, cx: &mut Ctx<'_>) {
        if self.leases.is_none() || !self.is_member() {
            return cx.refuse(Refusal::NotJoined);
        }
        let LeaseRequest { nonce, side, holds, mut leaves } = request;
        leaves.truncate(2 * NAMED);
        let early = self.status == Status::Ok && !cx.config.rule(Safeguard::GrantBeforeReady);
        if self.status == Status::Waiting || early {
            // Here, but not sure yet of what is beside us.
            let reply = LeaseReply { nonce, granted: false, holds: 0, leaves: Vec::new() };
            return cx.send(from, Body::Pastry(Message::LeaseReply(Box::new(reply))));
        }
        let mine = side.other();
        self.learn_held(from, mine, holds, cx);
        if cx.config.rule(Safeguard::AddFirst) {
            self.admit(from, Proximity::UNKNOWN, Source::Leaf, cx);
        }
        let is_neighbour = self.neighbour(mine).is_some_and(|neighbour| neighbour.id == from.id);
        let granted = (is_neighbour || !cx.config.rule(Safeguard::AddFirst))
            && self.leases.as_mut().is_some_and(|leases| leases.may_grant(from.id, cx))
            && self.is_verified(cx)
            && !self.is_open(mine, from.id, cx.now)
            && !self.is_missing(&leaves, cx.config)
            && self.recall_from_others(from, mine, cx);
        let leaves_here = self.beside_us(cx.now);
        let Some(leases) = &mut self.leases else { return };
        if granted {
            self.had_peers = true;
            leases.granted.retain(|grant| (grant.to, grant.side) != (from.id, mine));
            let until = cx.now.after(cx.config.lease_granted());
            leases.granted.push(Grant { to: from.id, side: mine, nonce, until, nearer: None });
        }
        let holds = leases.holds(from.id, cx);
        let reply = LeaseReply { nonce, granted, holds, leaves: leaves_here };
        cx.send(from, Body::Pastry(Message::LeaseReply(Box::new(reply))));
        self.consider_leaves(from, leaves, Why::VET, cx);
        // It asks us, so it takes us for its neighbour: the question goes the other way, too.
        self.seek_leases(cx);
    }

    /// Says whether nobody else holds a lease on this side without knowing of the asker, and asks those who do.
    fn recall_from_others(&mut self, asker: Contact, mine: Flank, cx: &mut Ctx<'_>) -> bool {
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

    /// The grantor of a lease has been asked by somebody nearer.
    pub(super) fn handle_lease_recall(&mut self, from: Contact, recall: LeaseRecall, cx: &mut Ctx<'_>) {
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

    /// The holder of a lease knows somebody nearer, or does not hold it.
    pub(super) fn handle_lease_return(
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

    pub(super) fn handle_lease_reply(&mut self, from: Contact, mut reply: LeaseReply, cx: &mut Ctx<'_>) {
        reply.leaves.truncate(2 * NAMED);
        let missing = self.is_missing(&reply.leaves, cx.config);
        let Some(leases) = &mut self.leases else { return cx.refuse(Refusal::Unsolicited) };
        let solicited = cx.config.rule(Safeguard::SolicitedOnly);
        let open = |asked: &Option<Asked>| {
            asked.is_some_and(|asked| {
                asked.peer == from.id && (asked.nonce == Some(reply.nonce) || !solicited)
            })
        };
        let Some(at) = leases.asked.iter().position(open) else { return cx.refuse(Refusal::Unsolicited) };
        let Some(asked) = leases.asked[at].take() else { return };
        let granted = reply.granted && !missing;
        if granted {
            let (until, renew) = (cx.config.lease_held(), cx.config.lease / 3);
            let (until, renew) = (asked.sent.after(until), asked.sent.after(renew));
            leases.held[at] = Some(Held {
                from: from.id,
                life: from.incarnation,
                nonce: reply.nonce,
                until,
                renew,
                nearer: None,
            });
            self.had_peers = true;
            cx.note(Note::LeaseGranted);
        } else {
            // Asked again when the neighbour changes, or at the next turn.
            let deadline = cx.now.after(patience(cx.config));
            leases.asked[at] = Some(Asked { deadline, nonce: None, ..asked });
            cx.note(Note::LeaseRefused);
        }
        self.learn_held(from, FLANKS[at], reply.holds, cx);
        let cleared = self.prober.clear(from.id);
        self.on_alive(cleared, from, cx);
        if !granted {
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
    fn doubt_unnamed(&mut self, teller: Contact, leaves: &[Contact], cx: &mut Ctx<'_>) {
        for neighbour in FLANKS.map(|flank| self.neighbour(flank)).into_iter().flatten() {
            if neighbour.id != teller.id && !leaves.iter().any(|leaf| leaf.id == neighbour.id) {
                self.probe(neighbour, Why::WATCH, cx);
            }
        }
    }

    /// After a restart, a neighbour tells what it holds from our earlier life.
    fn learn_held(&mut self, from: Contact, flank: Flank, holds: u32, cx: &mut Ctx<'_>) {
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
            leases.granted.push(Grant { to: from.id, side: flank, nonce, until, nearer: None });
        }
        if over {
            leases.quiet = None;
        }
    }

    /// A node whose neighbours respect it on both sides is ready.
    pub(super) fn become_ready(&mut self, cx: &mut Ctx<'_>) {
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

    pub(super) fn lease_bytes(&self) -> usize {
        self.leases.as_ref().map_or(0, |leases| {
            size_of::<Leases>()
                + leases.granted.capacity() * size_of::<Grant>()
                + leases.dead.capacity() * size_of::<NodeId>()
        })
    }

    pub(super) fn check_leases(&self) {
        if let Some(leases) = &self.leases {
            let leaves = self.router.leaf_set().members().len();
            // What neighbours tell after a restart comes on top.
            assert!(leases.granted.len() <= GRANTS_MAX + 4);
            assert!(leases.dead.len() <= leaves + GRANTS_MAX && leases.inherited.len() <= 513);
        }
    }
}

impl Leases {
    /// Says whether there is anything that forbids to grant a lease to anybody, or to this peer.
    fn may_grant(&mut self, to: NodeId, cx: &Ctx<'_>) -> bool {
        self.granted.retain(|grant| grant.until > cx.now);
        let room = self.granted.len() < GRANTS_MAX || self.granted.iter().any(|grant| grant.to == to);
        room && self.quiet.is_none_or(|quiet| quiet.until <= cx.now)
    }

    /// Until when a node may rely on something we must respect.
    fn bound_until(&self, id: NodeId, now: Time) -> Option<Time> {
        let granted = self.granted.iter().filter(|grant| grant.to == id).map(|grant| grant.until);
        let inherited = self.inherited.iter().filter(|(bound, _)| *bound == id).map(|(_, until)| *until);
        granted.chain(inherited).filter(|until| *until > now).max()
    }

    pub(super) fn is_waking(&self, now: Time) -> bool {
        self.awake.is_some_and(|awake| now < awake)
    }

    /// How much longer we hold something from a peer, in milliseconds, rounded up. A node that has not been here for a
    /// whole lease can not speak for its place: whoever was there before may have held something.
    fn holds(&self, from: NodeId, cx: &Ctx<'_>) -> u32 {
        let now = cx.now;
        if self.since.is_none_or(|since| now.since(since) < cx.config.lease_granted()) {
            return NEW_HERE;
        }
        let held = self.held.iter().flatten().filter(|held| held.from == from && held.until > now);
        let longest = held.map(|held| held.until.since(now)).max().unwrap_or_default();
        u32::try_from(longest.as_micros().div_ceil(1000)).unwrap_or(NEW_HERE).min(NEW_HERE - 1)
    }
}
