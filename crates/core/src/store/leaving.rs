//! Going away: for good, once copies are elsewhere, or for a while.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::changing::ROUND;
use super::message::Message;
use super::tending::TOLD;
use super::view::{LEARNT, Member, Slot, Standing};
use super::{Peer, Store};
use crate::edge::{Ctx, Failure, Output, RequestId};
use crate::id::NodeId;
use crate::overlay::{Routes, Status};
use crate::time::Time;

/// This node is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leaving {
    request: RequestId,
    /// Until when it waits for copies to be made elsewhere.
    latest: Time,
    /// When the others were last told.
    told: Time,
    /// When members of views without this node were last asked whether they can do without it.
    asked: Time,
}

/// How soon they are asked again.
const ASKED: Duration = Duration::from_millis(200);

impl Store {
    /// Says goodbye: copies are made elsewhere first. `true`: there is nothing to wait for.
    pub(crate) fn leave(&mut self, request: RequestId, ring: &dyn Routes, cx: &mut Ctx<'_>) -> bool {
        if self.leaving.is_some() {
            cx.out.push(Output::Reply { request, reply: Err(Failure::Ended) });
            return false;
        }
        // What was to be learnt is not, also if there is nothing to wait for.
        self.learners.clear();
        // What members said about copies may have been said long ago, and what was asked before did not say that it leaves.
        self.slots.values_mut().for_each(|slot| slot.safe = 0);
        for peer in self.peers.values_mut() {
            peer.knows_leaving = false;
            peer.questions.clear();
        }
        let sole = |slot: &Slot| slot.view.members == [self.me];
        let alone = ring.neighbours().is_empty()
            && self.slots.values().filter(|slot| slot.view.has(self.me)).all(sole);
        if !self.may_hold(cx.now) || alone {
            return true;
        }
        self.leaving =
            Some(Leaving { request, latest: cx.now.after(cx.config.drain), told: cx.now, asked: cx.now });
        self.restless = true;
        self.tell_leaving(ring, cx);
        self.ask_to_be_released(cx.now);
        self.finish(ring, cx);
        false
    }

    /// Returns the request to leave once nothing is held any more, or it takes too long.
    pub(crate) fn may_leave(&mut self, ring: &dyn Routes, now: Time) -> Option<RequestId> {
        let Leaving { request, latest, .. } = self.leaving?;
        let done = !self.may_hold(now) && self.asks.is_empty();
        // However long it takes, it does not leave a slot without a quorum behind.
        (done || (now >= latest && !self.is_needed(ring))).then(|| {
            self.leaving = None;
            request
        })
    }

    /// The store is taken away: nothing can be waited for.
    pub(crate) fn give_up_leaving(&mut self) -> Option<RequestId> {
        self.leaving.take().map(|leaving| leaving.request)
    }

    /// Says whether it waits for its slots to be held by others.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Says whether this node is about to leave, or leaves.
    pub(super) fn wants_to_leave(&self, ring: &dyn Routes) -> bool {
        self.leaving.is_some() || ring.status() == Status::Leaving
    }

    /// Says whether a slot has no quorum without this node. Others count if they are known to be there, in this life, and
    /// to stay, and know that this node does not: two that leave at a time must not count on each other (chaos seed
    /// 7000075). If all other members leave and no neighbour stays that could take their place, it is not needed.
    fn is_needed(&self, ring: &dyn Routes) -> bool {
        let stays = |member: &&Member| {
            let peer = self.peers.get(&member.id);
            peer.is_some_and(|peer| {
                let stays = peer.knows_leaving && !peer.leaving;
                stays && peer.born == Some(member.born) && peer.down.is_none()
            })
        };
        let leaves = |member: &Member| self.peers.get(&member.id).is_some_and(|peer| peer.leaving);
        let fits = |peer: &Peer| peer.has_store && peer.down.is_none() && !peer.leaving;
        let fits = |id: NodeId| self.peers.get(&id).is_some_and(fits) && !self.retired.contains(&id);
        let neighbour_stays = ring.neighbours().iter().any(|peer| fits(peer.id));
        let mut mine = self.slots.values().filter(|slot| slot.view.has(self.me));
        mine.any(|slot| {
            let others = || slot.view.members.iter().filter(|member| **member != self.me);
            others().filter(stays).count() < slot.view.quorum() && (neighbour_stays || !others().all(leaves))
        })
    }

    /// Says whether this node is a member of a view, or is not released from one.
    fn may_hold(&self, now: Time) -> bool {
        self.slots.values().any(|slot| slot.view.has(self.me)) || self.unreleased(now).next().is_some()
    }

    /// Returns the slots that others may need this node for, although it is in no view of them that it knows. It has records
    /// that the members may lack. Or it said that it has the records, so the members may be voting for it; what one of them
    /// has accepted may be decided at any later time (chaos seed 800269 over Chord).
    fn unreleased(&self, now: Time) -> impl Iterator<Item = (u32, &Slot)> {
        let outside = self.slots.iter().filter(|(_, slot)| slot.standing == Standing::Outside);
        let asked_for = |number: &u32, slot: &Slot| slot.records > 0 || self.learnt.contains_key(number);
        let unreleased = move |number: &u32, slot: &Slot| {
            asked_for(number, slot) && (self.has_just_learnt(*number, now) || !self.is_released(slot))
        };
        outside.map(|(number, slot)| (*number, slot)).filter(move |(number, slot)| unreleased(number, slot))
    }

    /// Says whether a member may yet begin a ballot because this node said that it has the records of a slot. What members
    /// say before that is over does not release it.
    fn has_just_learnt(&self, number: u32, now: Time) -> bool {
        self.learnt.get(&number).is_some_and(|at| now.since(*at) < LEARNT + ROUND)
    }

    /// A member of a slot can do without this node, which is about to leave.
    pub(super) fn released(&mut self, number: u32, place: usize, now: Time) {
        let early = self.has_just_learnt(number, now);
        if let Some(slot) = self.slots.get_mut(&number).filter(|_| !early) {
            slot.safe |= 1 << place;
        }
    }

    /// Says whether all members of a slot that are there have the records, and take part in no ballot.
    fn is_released(&self, slot: &Slot) -> bool {
        let said = |place: &usize| slot.safe & 1 << *place != 0;
        let mut places = 0..slot.view.members.len();
        let quorum = places.clone().filter(said).count() >= slot.view.quorum();
        quorum && places.all(|place| said(&place) || self.is_gone(&slot.view.members[place]))
    }

    /// Asks the members of views without this node whether they can do without it.
    fn ask_to_be_released(&mut self, now: Time) {
        let numbers = self.unreleased(now).map(|(number, _)| number);
        // Answers do not count before.
        let numbers: Vec<u32> = numbers.filter(|number| !self.has_just_learnt(*number, now)).collect();
        for number in numbers {
            self.ask_to_forget(number);
        }
    }

    /// Tells everybody who shares a slot with this node that it leaves. They answer, and say who they are.
    fn tell_leaving(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        for peer in self.sharing(ring) {
            self.tell_clock(peer, ring, cx);
        }
    }

    /// Says once more that this node leaves, and finds out who stays.
    pub(super) fn go_on_leaving(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(leaving) = &mut self.leaving else { return };
        self.restless = true;
        if cx.now.since(leaving.asked) >= ASKED {
            leaving.asked = cx.now;
            self.ask_to_be_released(cx.now);
        }
        let Some(leaving) = &mut self.leaving else { return };
        if cx.now.since(leaving.told) < TOLD {
            return;
        }
        leaving.told = cx.now;
        self.tell_leaving(ring, cx);
    }

    /// Returns everybody who shares a slot with this node, and its neighbours.
    fn sharing(&self, ring: &dyn Routes) -> BTreeSet<NodeId> {
        let members = self.slots.values().flat_map(|slot| slot.view.members.iter().map(|member| member.id));
        let around = ring.neighbours().into_iter().map(|peer| peer.id);
        members.chain(around).filter(|id| *id != self.me.id).collect()
    }

    /// Says that this node stops for a while.
    pub(crate) fn pause(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        for peer in self.sharing(ring) {
            self.send(peer, Message::Pausing, ring, cx);
        }
    }
}
