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

mod grantor;
mod holder;
mod verify;

use alloc::vec::Vec;
use core::time::Duration;

use super::{Flank, Pastry};
use crate::config::{Config, Safeguard};
use crate::contact::Contact;
use crate::edge::{Ctx, Note, Timer};
use crate::id::NodeId;
use crate::message::Nonce;
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
    /// Whoever may hold a lease we have not granted, and until when: a neighbour whose earlier neighbour we displaced,
    /// or who was beyond a neighbour we lost.
    inherited: Vec<(NodeId, Time)>,
    /// The neighbours as of the last look.
    beside: [Option<NodeId>; 2],
    /// Left and right: a neighbour we lost without knowing who is beyond it, and until when somebody there may hold a
    /// lease of its.
    unknown: [Option<(NodeId, Time)>; 2],
    /// Found dead, but still bound by a grant.
    dead: Vec<NodeId>,
    /// How often in a row each neighbour has refused; asked again soon at first, then less and less often.
    refusals: [u8; 2],
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
    /// The version of our leaf set the grantor has last agreed to, and we to its.
    agreed: Option<u32>,
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
    /// The version of our leaf set it was asked with.
    version: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Grant {
    to: NodeId,
    /// Our side on which the holder is.
    side: Flank,
    nonce: Nonce,
    until: Time,
    /// The version of our leaf set when we last agreed to the holder's.
    agreed: u32,
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

/// How long to sleep on the nth refusal in a row. Most have a reason that is over in a moment: somebody is just coming in.
fn pause(refusals: u8, config: &Config) -> Duration {
    patience(config) / (1 << 5u8.saturating_sub(refusals).min(4))
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

    /// Nobody is left: nothing is held.
    pub(super) fn drop_leases(&mut self) {
        if let Some(leases) = &mut self.leases {
            (leases.held, leases.asked, leases.beside) = ([None; 2], [None; 2], [None; 2]);
            (leases.verified, leases.verifying, leases.since) = (None, None, None);
        }
    }

    /// From now on others count on us.
    pub(super) fn enter_ring(&mut self, now: Time) {
        if let Some(leases) = &mut self.leases {
            leases.since.get_or_insert(now);
        }
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

    pub(super) fn lease_bytes(&self) -> usize {
        self.leases.as_ref().map_or(0, |leases| {
            size_of::<Leases>()
                + leases.granted.capacity() * size_of::<Grant>()
                + leases.inherited.capacity() * size_of::<(NodeId, Time)>()
                + leases.dead.capacity() * size_of::<NodeId>()
        })
    }

    pub(super) fn check_leases(&self) {
        if let Some(leases) = &self.leases {
            let leaves = self.router.leaf_set().members().len();
            // What neighbours tell after a restart comes on top.
            assert!(leases.granted.len() <= GRANTS_MAX + 4);
            assert!(leases.dead.len() <= leaves + GRANTS_MAX && leases.inherited.len() <= GRANTS_MAX);
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

    /// From now on, a node that may hold a lease of somebody else's is not given up before that has run out.
    fn respect(&mut self, id: NodeId, cx: &Ctx<'_>) {
        if !cx.config.rule(Safeguard::Inherit) {
            return;
        }
        self.inherited.retain(|(other, until)| *other != id && *until > cx.now);
        if self.inherited.len() >= GRANTS_MAX {
            self.inherited.remove(0);
        }
        self.inherited.push((id, cx.now.after(cx.config.lease_granted())));
    }

    /// Says whether the leaves of a holder were fine when we last saw them, and ours have not changed since.
    fn has_agreed(&self, to: NodeId, side: Flank, version: u32, now: Time) -> bool {
        self.granted
            .iter()
            .any(|grant| (grant.to, grant.side, grant.agreed) == (to, side, version) && grant.until > now)
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
