//! What is done without being asked: views follow the ring, copies are compared, what is dead is dropped.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use xxhash_rust::xxh3::xxh3_128;

use super::asking::lookup;
use super::coding::Sum;
use super::message::{Compare, Message, Packet, Word};
use super::pulling::Why;
use super::view::{Cut, Learner, Member, Slot, Standing, View};
use super::{PROOF, Peer, Proof, Seeking, Sought, Store};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::{Ctx, Event};
use crate::id::NodeId;
use crate::message::Body;
use crate::overlay::Routes;
use crate::time::Time;

/// How often all views are looked at, at most.
const EVERY: Duration = Duration::from_millis(50);
/// How long a node has to say which disk it has before it is asked again.
const ASKED: Duration = Duration::from_millis(200);
/// How soon a node that is to become a member is told again that a write waits for that.
const URGENT: Duration = Duration::from_millis(50);
/// How often a node that is to become a member is told so.
pub(super) const TOLD: Duration = Duration::from_secs(1);
/// How long after its start a node counts members as dead that it has not met.
const UNMET: Duration = Duration::from_secs(30);
/// How long a node that comes back waits for all members that can be reached to say that its disk is the one they knew.
const ALL_PROOFS: Duration = Duration::from_secs(3);
/// How often members that are down are asked whether they are back.
const LOOK: Duration = Duration::from_secs(2);
/// Views that one node begins to change at the same time, so that clients do not feel it; with round trips longer than [`NEAR`],
/// more by as much.
const MOVING: usize = 16;
const NEAR: Duration = Duration::from_millis(10);
/// How long a view counts as one of them: a newcomer that is slow or silent holds no others up.
const BEGUN: Duration = Duration::from_millis(200);
/// Slots looked for at the same time, and nodes.
const SEEKING: usize = 16;
/// How long a lookup is waited for.
const SOUGHT: Duration = Duration::from_secs(2);

/// Nodes that are to hold nothing new: those that go, and those without room.
#[derive(Default)]
struct Unfit {
    out: BTreeSet<NodeId>,
    full: BTreeSet<NodeId>,
}

impl Store {
    /// Looks after views and copies.
    pub(super) fn tend(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.hurry(ring, cx);
        if !Self::is_part(ring) {
            return;
        }
        if self.restless && cx.now >= self.tend {
            self.restless = false;
            self.tend = cx.now.after(EVERY);
            self.unsettled.extend(self.slots.keys().copied());
            self.greet(ring, cx);
            self.go_on_leaving(ring, cx);
        }
        let numbers: Vec<u32> = self.unsettled.iter().copied().collect();
        let unfit = self.unfit();
        let most = MOVING * ring.timing().times(NEAR);
        let mut moving = numbers.iter().filter(|number| self.is_moving(**number, cx.now)).count();
        for number in numbers {
            let begun =
                self.slots.get(&number).is_some_and(|slot| slot.learner.is_some() || slot.round.is_some());
            if !begun && moving >= most && !self.urgent.contains(&number) {
                continue;
            }
            if !self.tend_slot(number, &unfit, ring, cx) {
                self.unsettled.remove(&number);
            }
            moving += usize::from(!begun && self.is_moving(number, cx.now));
        }
        if cx.now >= self.sweep {
            // Not all nodes at the same time.
            let half = cx.config.sweep / 2;
            let more = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
            self.sweep = cx.now.after(half + Duration::from_millis(cx.dice.roll() % more));
            self.keep_time(cx);
            self.compare_clocks(ring, cx);
            self.compare(ring, cx);
            self.forget_what_is_old(cx);
            self.restless |= self.peers.values().any(|peer| peer.down.is_some());
        }
    }

    /// Says whether the view of a slot has just begun to change.
    fn is_moving(&self, number: u32, now: Time) -> bool {
        let Some(slot) = self.slots.get(&number) else { return false };
        let learner = slot.learner.map(|learner| learner.begun);
        let begun = slot.round.as_ref().map(|round| round.begun).max(learner);
        begun.is_some_and(|begun| now.since(begun) < BEGUN)
    }

    /// Tells nodes beside this one that there is a store here, and which disk it has: they count on it from then on, and
    /// find out at once if the disk is not the one they knew.
    fn greet(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        for peer in ring.neighbours() {
            let now = cx.now;
            let known = self.peer(peer);
            if known.born.is_none() && known.down.is_none() && now.since(known.greeted) >= TOLD {
                known.greeted = now;
                self.tell_clock(peer.id, ring, cx);
            }
        }
    }

    /// Asks a node which disk it has, unless that was done a moment ago. Only an answer counts: a message of an earlier life
    /// may come late, and would make a member look lost that is not.
    pub(super) fn ask_born(&mut self, id: NodeId, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let recent = |(_, asked): (u32, Time)| cx.now.since(asked) < ASKED;
        if !self.peers.get(&id).and_then(|peer| peer.questions.last().copied()).is_some_and(recent) {
            self.tell_clock(id, ring, cx);
        }
    }

    /// Asks members that are down whether they are back. An answer also tells the overlay where to find the other part of a
    /// ring that was cut in two. Those that have not been met since the start are asked, too: the overlay does not know
    /// them, so it never says that they are dead.
    pub(super) fn look_for_members(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if cx.now.since(self.looked) < LOOK {
            return;
        }
        self.looked = cx.now;
        let long = cx.now.since(*self.began.get_or_insert(cx.now)) >= UNMET;
        let mine = self.slots.values().filter(|slot| slot.view.has(self.me));
        let mut members: BTreeSet<NodeId> =
            mine.flat_map(|slot| &slot.view.members).map(|member| member.id).collect();
        members.remove(&self.me.id);
        for id in members {
            let met = ring.contact(id).is_some() || self.peers.get(&id).is_some_and(|peer| peer.met);
            if !met && long && !self.is_down(id) {
                self.unmet.insert(id, cx.now);
                self.restless = true;
            }
            if !met || self.is_down(id) {
                self.tell_clock(id, ring, cx);
            }
            // A member that has been down for long is dropped from views now.
            let due = self.down_since(id).map(|since| since.after(cx.config.dead_after));
            self.restless |= due.is_some_and(|due| due <= cx.now && cx.now.since(due) < LOOK * 2);
        }
    }

    /// A node tells which disk it has.
    pub(super) fn on_born(&mut self, from: Contact, born: u32) {
        let peer = self.peer(from);
        match peer.born.replace(born) {
            Some(before) if before == born => {}
            _ => self.restless = true,
        }
    }

    /// Returns how many copies there are to be right now: as many as the cluster was made for, or as many as there are
    /// nodes that can hold one.
    pub(super) fn copies(&self, ring: &dyn Routes, cx: &Ctx<'_>) -> u8 {
        if !cx.config.rule(Safeguard::EnoughCopies) {
            return 1;
        }
        let holds = |peer: &Peer| peer.has_store && peer.down.is_none() && !peer.leaving && !peer.full;
        let (around, most) = (ring.neighbours(), usize::from(cx.config.replicas.max(1)));
        let others = around
            .iter()
            .filter(|peer| self.peers.get(&peer.id).is_some_and(holds) && !self.retired.contains(&peer.id));
        let nodes = others.take(most).count() + usize::from(!self.wants_to_leave(ring));
        nodes.clamp(1, most) as u8
    }

    /// A write waits until a slot has more members: that slot comes first.
    pub(super) fn hurry_slot(&mut self, number: u32) {
        let Some(slot) = self.slots.get(&number) else { return };
        let epoch = slot.view.epoch;
        let first = slot.view.members.iter().find(|member| !self.is_gone(member)).map(|member| member.id);
        if self.urgent.insert(number)
            && let Some(first) = first
        {
            self.word(first, number, Word::Hurry { epoch });
        }
    }

    pub(super) fn on_hurry(&mut self, number: u32, cx: &Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        if let Some(learner) = &mut slot.learner
            && learner.learnt.is_none()
            && cx.now.since(learner.told) > URGENT
        {
            // Told again, as urgent.
            learner.told = Time::ZERO;
        }
        self.urgent.insert(number);
        self.unsettled.insert(number);
        self.eager.insert(number);
    }

    /// Looks at views that something has just been learnt about.
    pub(super) fn tend_eagerly(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if !Self::is_part(ring) {
            return self.unsettled.append(&mut self.eager);
        }
        let unfit = if self.eager.is_empty() { Unfit::default() } else { self.unfit() };
        while let Some(number) = self.eager.pop_first() {
            if self.tend_slot(number, &unfit, ring, cx) {
                self.unsettled.insert(number);
            }
        }
    }

    /// Moves the view of a slot one step towards what the ring wishes. `false`: there is nothing to do.
    fn tend_slot(&mut self, number: u32, unfit: &Unfit, ring: &dyn Routes, cx: &mut Ctx<'_>) -> bool {
        let Some(slot) = self.slots.get(&number) else { return false };
        if slot.standing == Standing::Outside {
            return false;
        }
        if !self.answers(slot) || slot.round.is_some() {
            return true;
        }
        if !ring.covers(Cut::of(cx.config.slots).middle(number)) {
            return self.tend_from_afar(number, ring, cx);
        }
        let members = &slot.view.members;
        // A node the ring does not know may be alive, but cannot be waited for.
        let near = |member: &&Member| !self.is_gone(member) && ring.contact(member.id).is_some();
        // One of them acts, the others wait for it.
        if members.iter().find(near).is_none_or(|first| *first != self.me) {
            return false;
        }
        if !self.can_decide(slot) {
            return true;
        }
        let copies = usize::from(cx.config.replicas).max(1);
        let out = &unfit.out;
        // A full disk keeps what it has and takes nothing new.
        let full = |id: &NodeId| unfit.full.contains(id) && slot.view.place(*id).is_none();
        let known = out.iter().filter(|id| ring.contact(**id).is_some()).count();
        let middle = Cut::of(cx.config.slots).middle(number);
        let mut wish: Vec<NodeId> = ring
            .replicas(middle, copies + known + unfit.full.len() + 1)
            .iter()
            .map(|contact| contact.id)
            .filter(|id| !out.contains(id) && !full(id) && (*id != self.me.id || !self.wants_to_leave(ring)))
            .collect();
        wish.truncate(copies);
        // Who is to go: the lost and the dead first, then those that want to, then the farthest.
        let mut extra: Vec<Member> = members
            .iter()
            .filter(|member| !wish.contains(&member.id) || self.is_lost(member))
            .copied()
            .collect();
        extra.sort_by_key(|member| (!self.is_gone(member), near(&member), !out.contains(&member.id)));
        let there = |id: &NodeId| members.iter().any(|member| member.id == *id && !self.is_lost(member));
        let missing: Vec<NodeId> = wish.iter().filter(|id| !there(id)).copied().collect();
        let without =
            |gone: Member| members.iter().filter(|member| **member != gone).copied().collect::<Vec<_>>();
        let worst = extra.first().copied();
        let alive = members.iter().filter(|member| !self.is_gone(member)).count();
        if let Some(worst) = worst
            && members.len() > 1
            && (members.len() > copies
                || (alive < slot.view.quorum() && self.is_lost(&worst))
                || (missing.is_empty() && self.has_no_place(&worst, ring, cx)))
        {
            let wish = without(worst);
            self.start_round(number, wish, cx);
            return true;
        }
        let newcomer = missing.first().copied().filter(|_| members.len() < copies || worst.is_some());
        let Some(newcomer) = newcomer else {
            if let Some(slot) = self.slots.get_mut(&number) {
                slot.learner = None;
            }
            self.urgent.remove(&number);
            // Looked at again, if a member is down: it may be down for long.
            return false;
        };
        if worst.is_some_and(|worst| members.len() >= copies && self.is_pausing(worst.id, cx)) {
            return true;
        }
        let ready = slot.learner.filter(|learner| learner.id == newcomer);
        match (ready, ready.and_then(|learner| learner.born(cx.now))) {
            (Some(_), Some(born)) => {
                // One ballot: the newcomer in and, if the view is complete, the other one out. With both in it, four
                // members would need three.
                let goes = members.iter().find(|member| member.id == newcomer).copied();
                let goes = goes.or(worst.filter(|_| members.len() >= copies));
                let mut wish = goes.map_or_else(|| members.clone(), without);
                wish.push(Member { id: newcomer, born });
                wish.sort_by_key(|member| ring.rank(middle, member.id));
                self.start_round(number, wish, cx);
            }
            (Some(learner), None) if cx.now.since(learner.told) < TOLD => {}
            _ => {
                let (view, urgent) = (slot.view.clone(), self.urgent.contains(&number));
                if let Some(slot) = self.slots.get_mut(&number) {
                    slot.learner = Some(Learner::new(newcomer, slot.learner, false, cx.now));
                }
                self.word(newcomer, number, Word::Learn { view, urgent });
            }
        }
        true
    }

    /// Returns which nodes are to hold nothing new. The ring still has those that want out, and some that are dead.
    fn unfit(&self) -> Unfit {
        let goes = |peer: &Peer| peer.leaving || peer.down.is_some();
        let out = self.peers.iter().filter(|(_, peer)| goes(peer)).map(|(id, _)| *id);
        let full = self.peers.iter().filter(|(_, peer)| peer.full).map(|(id, _)| *id);
        Unfit { out: out.chain(self.retired.iter().copied()).collect(), full: full.collect() }
    }

    /// Says whether a member is in a view to no purpose: its disk is lost, it wants out, or it has been down for long. A
    /// view without a dead member needs no more votes than with it, and can drop tombstones.
    fn has_no_place(&self, member: &Member, ring: &dyn Routes, cx: &Ctx<'_>) -> bool {
        let down = self.down_since(member.id);
        self.is_lost(member)
            || self.wants_out(member.id, ring)
            || down.is_some_and(|since| cx.now.since(since) >= cx.config.dead_after)
    }

    /// Says whether the members that are there can decide about a view: a quorum of them, or all whose disks are not
    /// lost, if those have every acknowledged write between them.
    pub(super) fn can_decide(&self, slot: &Slot) -> bool {
        let present: Vec<NodeId> =
            slot.view.members.iter().filter(|member| !self.is_gone(member)).map(|member| member.id).collect();
        self.is_enough(slot, &present, present.len())
    }

    /// Says whether these members are enough to complete a step of a view change; `counting` of them had caught up with
    /// the epoch. Every write quorum has a member among any `n - q + 1`, so if all others lost their disks, that many
    /// have everything that was acknowledged, and took part in everything that was decided.
    pub(super) fn is_enough(&self, slot: &Slot, votes: &[NodeId], counting: usize) -> bool {
        let (members, quorum) = (&slot.view.members, slot.view.quorum());
        let absent = || members.iter().filter(|member| !votes.contains(&member.id));
        votes.len() >= quorum
            || (counting > members.len() - quorum && absent().all(|member| self.is_lost(member)))
    }

    /// A member that is far from its slot can not tell who should hold it. Whoever answers for the slot can: it is found,
    /// and becomes a member.
    fn tend_from_afar(&mut self, number: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) -> bool {
        let Some(slot) = self.slots.get(&number) else { return false };
        let middle = Cut::of(cx.config.slots).middle(number);
        let members = &slot.view.members;
        if let Some(lost) = members.iter().find(|member| self.is_lost(member)).filter(|_| members.len() > 1) {
            // It may be the very node that answers for the slot, which can become a member only when it is none.
            let wish = members.iter().filter(|member| *member != lost).copied().collect();
            self.start_round(number, wish, cx);
            return true;
        }
        match slot.learner.map(|learner| (learner, learner.born(cx.now))) {
            Some((Learner { id, stands_in, .. }, Some(born))) if slot.view.place(id).is_none() => {
                // One ballot, as for members that are near: a view with one more would need one vote more (chaos seed 500712).
                let goes = |member: &&Member| {
                    (self.is_gone(member), self.wants_out(member.id, ring), ring.rank(middle, member.id))
                };
                let full = members.len() >= usize::from(cx.config.replicas).max(1);
                let goes = members.iter().max_by_key(goes).filter(|_| full).copied();
                let has_place = |member: Member| !self.is_gone(&member) && !self.wants_out(member.id, ring);
                if stands_in && goes.is_some_and(has_place) {
                    // Another one was faster.
                    if let Some(slot) = self.slots.get_mut(&number) {
                        slot.learner = None;
                    }
                    return true;
                }
                let mut wish: Vec<Member> =
                    members.iter().filter(|member| Some(**member) != goes).copied().collect();
                wish.push(Member { id, born });
                wish.sort_by_key(|member| ring.rank(middle, member.id));
                self.start_round(number, wish, cx);
            }
            Some((learner, _)) if cx.now.since(learner.told) < TOLD * 2 => {}
            _ => self.seek(Sought::Slot(number), ring, cx),
        }
        true
    }

    /// Asks the ring for somebody, unless that was done a moment ago. Answers can be lost, so nobody is waited for for
    /// ever.
    pub(super) fn seek(&mut self, what: Sought, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if !Self::is_part(ring) {
            return;
        }
        self.seeking.retain(|_, seeking| cx.now.since(seeking.since) < SOUGHT);
        let alike = |other: &Sought| core::mem::discriminant(other) == core::mem::discriminant(&what);
        let open = self.seeking.values().filter(|seeking| alike(&seeking.what)).count();
        if open >= SEEKING || self.seeking.values().any(|seeking| seeking.what == what) {
            return;
        }
        let key = match what {
            Sought::Slot(number) => Cut::of(cx.config.slots).middle(number),
            Sought::Node(id) => id,
        };
        let serial = cx.dice.roll() as u32;
        self.seeking.insert(serial, Seeking { what, since: cx.now });
        cx.out.route(lookup(key, serial, ring));
    }

    /// Whoever answers for what was looked up was found, or not.
    pub(super) fn sought(
        &mut self,
        serial: u32,
        seeking: Seeking,
        root: Option<Contact>,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let number = match seeking.what {
            Sought::Slot(number) => number,
            Sought::Node(id) => {
                match root.filter(|root| root.id == id) {
                    // What was to be said is said again by whoever wanted to.
                    Some(node) => _ = self.peer(node),
                    // It is not in the ring. Kept, so that it is not looked up again at once.
                    None => _ = self.seeking.insert(serial, seeking),
                }
                return;
            }
        };
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(root) = root.filter(|_| slot.serves()) else { return };
        if slot.view.place(root.id).is_some() {
            // It sees to the slot, unless it has lost the disk it had as a member: then it says so.
            self.peer(root);
            self.tell_view(root.id, number);
            self.unsettled.remove(&number);
            return;
        }
        let view = slot.view.clone();
        let member = self.stand_in(root, number, &view, ring, cx);
        let learner = member.unwrap_or(root);
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.learner = Some(Learner::new(learner.id, slot.learner, learner.id != root.id, cx.now));
        }
        // The view is complete: the slot is looked up again in two seconds, when the node may have left.
        let Some(root) = member else { return };
        self.peer(root);
        let urgent = self.urgent.contains(&number);
        self.word(root.id, number, Word::Learn { view, urgent });
    }

    /// Returns the node that is to become a member: the one that answers for a slot or, if that one leaves, the next that stays, so
    /// that members which leave, too, need not wait for it (chaos seed 9000162). None if there is no need to.
    fn stand_in(
        &self,
        root: Contact,
        number: u32,
        view: &View,
        ring: &dyn Routes,
        cx: &Ctx<'_>,
    ) -> Option<Contact> {
        let leaves = |id: NodeId| self.peers.get(&id).is_some_and(|peer| peer.leaving);
        if !leaves(root.id) {
            return Some(root);
        }
        let mine = |member: &Member| *member == self.me && self.leaving.is_some();
        let goes = |member: &Member| self.is_gone(member) || leaves(member.id) || mine(member);
        if view.members.len() >= usize::from(cx.config.replicas) && !view.members.iter().any(goes) {
            return None;
        }
        let fits = |peer: &&Peer| {
            let stays = peer.has_store && peer.down.is_none() && !peer.leaving && !peer.full;
            let stays = stays && !peer.silent && !peer.unreached;
            stays && view.place(peer.contact.id).is_none() && !self.retired.contains(&peer.contact.id)
        };
        let middle = Cut::of(cx.config.slots).middle(number);
        let next = self.peers.values().filter(fits).min_by_key(|peer| ring.rank(middle, peer.contact.id));
        Some(next.map_or(root, |peer| peer.contact))
    }

    /// Says whether what a member had is lost for good: the node has another disk by now, or was retired.
    pub(super) fn is_lost(&self, member: &Member) -> bool {
        let other = |peer: &Peer| peer.born.is_some_and(|born| born != member.born);
        self.retired.contains(&member.id) || self.peers.get(&member.id).is_some_and(other)
    }

    /// Says whether a member is dead, or its disk lost.
    pub(super) fn is_gone(&self, member: &Member) -> bool {
        self.is_down(member.id) || self.is_lost(member)
    }

    fn wants_out(&self, id: NodeId, ring: &dyn Routes) -> bool {
        match id == self.me.id {
            true => self.wants_to_leave(ring),
            false => self.peers.get(&id).is_some_and(|peer| peer.leaving),
        }
    }

    fn is_pausing(&self, id: NodeId, cx: &Ctx<'_>) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.pausing.is_some_and(|until| until > cx.now))
    }

    /// Returns the slots this node and another share, of which `leader` comes first.
    fn shared(&self, leader: NodeId, other: NodeId) -> impl Iterator<Item = u32> + '_ {
        let shared = move |members: &[Member]| {
            members.first().is_some_and(|first| first.id == leader) && members.iter().any(|m| m.id == other)
        };
        let slots =
            self.slots.iter().filter(move |(_, slot)| slot.view.has(self.me) && shared(&slot.view.members));
        slots.map(|(number, _)| *number)
    }

    fn sum_of_shared(&self, leader: NodeId, other: NodeId) -> Sum {
        let mut sum = Sum::default();
        for number in self.shared(leader, other) {
            let Some(slot) = self.slots.get(&number) else { continue };
            let mut bytes = [0; 28];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            bytes[4..12].copy_from_slice(&slot.view.epoch.to_be_bytes());
            bytes[12..].copy_from_slice(&slot.state.0.to_be_bytes());
            sum.mix(Sum(xxh3_128(&bytes)));
        }
        sum
    }

    /// Asks for newer views of the slots that a node comes first in, as far as this one knows.
    fn seek_views(&mut self, leader: NodeId) {
        let numbers: Vec<u32> = self.shared(leader, self.me.id).collect();
        for number in numbers {
            let Some(epoch) = self.slots.get(&number).map(|slot| slot.view.epoch) else { continue };
            self.word(leader, number, Word::Seek { epoch });
        }
    }

    /// Asks everybody who has a copy of what this node looks after whether it is the same. Whoever should have asked this
    /// node, and has not for long, may know of views without it.
    fn compare(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let silence = cx.config.sweep * 2;
        let leaders: BTreeSet<NodeId> = self
            .slots
            .values()
            .filter(|slot| slot.view.has(self.me))
            .filter_map(|slot| slot.view.members.first())
            .map(|first| first.id)
            .filter(|id| *id != self.me.id)
            .filter(|id| self.peers.get(id).is_none_or(|peer| cx.now.since(peer.compared) > silence))
            .collect();
        for leader in leaders {
            self.seek_views(leader);
        }
        let mut peers: BTreeMap<NodeId, ()> = BTreeMap::new();
        for slot in self.slots.values() {
            if slot.view.members.first() == Some(&self.me) {
                peers.extend(slot.view.members.iter().skip(1).map(|member| (member.id, ())));
            }
        }
        for (peer, ()) in peers {
            let sum = self.sum_of_shared(self.me.id, peer);
            let compare = self.comparing(sum, None, 0);
            self.send(peer, Message::Compare(compare), ring, cx);
        }
    }

    fn comparing(&self, sum: Sum, reply: Option<bool>, known: u64) -> Compare {
        Compare { sum, reply, born: self.me.born, age: self.age, known }
    }

    pub(super) fn on_compare(
        &mut self,
        from: Contact,
        compare: Compare,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Compare { sum, reply, born, age, known } = compare;
        let now = cx.now;
        let peer = self.peer(from);
        (peer.compared, peer.has_store) = (now, true);
        if peer.born != Some(born) {
            self.ask_born(from.id, ring, cx);
        }
        if reply.is_none() {
            // What this node remembers is told before it learns better.
            let same = self.sum_of_shared(from.id, self.me.id) == sum;
            let compare = self.comparing(sum, Some(same), self.ages.of(from.id, born));
            let packet = Packet { message: Message::Compare(compare), contacts: Vec::new() };
            cx.send(from, Body::Store(Box::new(packet)));
            if !same {
                self.seek_views(from.id);
            }
        }
        self.note_age(from.id, Some(born), age);
        if reply.is_some() {
            self.vouch(from, known, ring, cx);
        }
        match reply {
            None => {}
            Some(same) => {
                let numbers: Vec<u32> = self.shared(self.me.id, from.id).collect();
                for number in numbers {
                    let Some(slot) = self.slots.get(&number) else { continue };
                    let (epoch, state) = (slot.view.epoch, slot.state);
                    if same {
                        self.on_same(from.id, number, state);
                    } else {
                        self.word(from.id, number, Word::State { epoch, state });
                    }
                    self.collect(number, cx);
                }
            }
        }
    }

    /// Somebody says how far this node's disk had come when it last heard of it.
    fn vouch(&mut self, from: Contact, known: u64, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if known > self.age && self.proof != Proof::Failed && cx.config.rule(Safeguard::Born) {
            // This is an old copy of the disk: what was promised and taken since is not on it.
            self.proof = Proof::Failed;
            cx.out.raise(Event::StoreOutdated);
            return;
        }
        self.peer(from).vouched = true;
        self.pull_soon |= !self.learners.is_empty();
        self.prove(ring, cx);
    }

    /// A node that comes back serves no slot before enough of its other members have said that its disk is the one they
    /// knew ([`Self::is_vouched_for`]).
    pub(super) fn prove(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Proof::Wanted(asked) = self.proof else { return };
        if !self.may_serve(ring) {
            return;
        }
        self.waited |= cx.now.since(*self.proving.get_or_insert(cx.now)) >= ALL_PROOFS;
        if self.slots.values().filter(|slot| slot.view.has(self.me)).all(|slot| self.is_vouched_for(slot)) {
            self.proof = Proof::Given;
            self.restless = true;
        } else if asked.is_none_or(|asked| cx.now.since(asked) >= PROOF) {
            self.proof = Proof::Wanted(Some(cx.now));
            self.ask_vouchers(ring, cx);
        }
        // What waited for this goes on.
        self.moved.extend(self.slots.keys().copied());
    }

    /// Asks the members of all views that this node knows whether its disk is the one they knew.
    pub(super) fn ask_vouchers(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.waited |= cx.now.since(*self.proving.get_or_insert(cx.now)) >= ALL_PROOFS;
        let members = self.slots.values().flat_map(|slot| slot.view.members.iter().map(|member| member.id));
        let vouched = |id: &NodeId| self.peers.get(id).is_some_and(|peer| peer.vouched);
        let others: BTreeSet<NodeId> = members.filter(|id| *id != self.me.id && !vouched(id)).collect();
        for other in others {
            let sum = self.sum_of_shared(self.me.id, other);
            let compare = self.comparing(sum, None, 0);
            self.send(other, Message::Compare(compare), ring, cx);
        }
    }

    /// Says whether this node may become a member of a slot. An old copy of a disk is emptied when that is found out: if it
    /// were a member by then, the view would have lost one (chaos seed 15000795).
    pub(super) fn may_learn(&self, slot: &Slot) -> bool {
        self.proof != Proof::Failed && (!self.reopened || self.is_vouched_for(slot))
    }

    /// Says whether this node's disk is known to be the one that the members of a slot knew. What it took part in last may be
    /// known only to the member that coordinated it, so all that can be reached are waited for, though not for long.
    fn is_vouched_for(&self, slot: &Slot) -> bool {
        let missing = |id: &NodeId| {
            let peer = self.peers.get(id);
            !peer.is_some_and(|peer| peer.vouched || peer.unreached) && !self.is_down(*id)
        };
        let mut others = slot.view.members.iter().map(|member| member.id).filter(|id| *id != self.me.id);
        let waits = !self.waited && others.any(|id| missing(&id) && !self.retired.contains(&id));
        !waits && self.has_vouchers(slot)
    }

    /// Says whether enough members of a slot have vouched for this node's disk. One that lost its own disk remembers
    /// nothing of the time before, so it does not count; but it is asked, too: it may have met this disk since.
    pub(super) fn has_vouchers(&self, slot: &Slot) -> bool {
        let said = |member: &Member| self.peers.get(&member.id).is_some_and(|peer| peer.vouched);
        let others = || slot.view.members.iter().filter(|member| **member != self.me);
        if others().any(|member| self.is_lost(member) && !self.retired.contains(&member.id) && !said(member))
        {
            return false;
        }
        let vouches = |member: &&Member| **member == self.me || (!self.is_lost(member) && said(member));
        let votes: Vec<NodeId> = slot.view.members.iter().filter(vouches).map(|member| member.id).collect();
        self.is_enough(slot, &votes, votes.len())
    }

    /// Says whether this node's copy of a slot is known to be the one others knew.
    pub(super) fn is_proved(&self, slot: &Slot) -> bool {
        match self.proof {
            Proof::Given => true,
            Proof::Wanted(_) => self.is_vouched_for(slot),
            Proof::Failed => false,
        }
    }

    /// Says whether this node answers for a slot: it has the records, and its disk is not an old one.
    pub(super) fn answers(&self, slot: &Slot) -> bool {
        slot.serves() && self.is_proved(slot)
    }

    /// A member of a slot tells its state.
    pub(super) fn on_state(
        &mut self,
        from: NodeId,
        number: u32,
        state: Sum,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(slot) = self.slots.get(&number) else { return };
        let epoch = slot.view.epoch;
        let leads = slot.view.members.first().is_some_and(|first| first.id == from);
        if slot.state == state {
            return self.word(from, number, Word::Same { epoch, state });
        }
        let mine = slot.state;
        if !slot.serves() || !self.room {
            return;
        }
        self.pull(number, from, Why::Sweep, ring, cx);
        if leads {
            // It does the same with us.
            self.word(from, number, Word::State { epoch, state: mine });
        }
    }

    pub(super) fn on_same(&mut self, from: NodeId, number: u32, state: Sum) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        if slot.state == state
            && let Some(place) = slot.view.place(from)
        {
            slot.agreed |= 1 << place;
        }
    }
}
