//! Going away: for good, once copies are elsewhere, or for a while.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::changing::ROUND;
use super::message::Message;
use super::tending::TOLD;
use super::view::{LEARNT, Member, Slot, Standing};
use super::{Peer, Store};
use crate::edge::{Ctx, RequestId};
use crate::id::NodeId;
use crate::overlay::Routes;
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
            return false;
        }
        // What was to be learnt is not, also if there is nothing to wait for.
        self.learners.clear();
        // What members said about copies may have been said long ago.
        self.slots.values_mut().for_each(|slot| slot.safe = 0);
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

    /// Says whether a slot has no quorum without this node. Others count if they are known to be there, in this life, and
    /// to stay. If all other members leave and no neighbour stays that could take their place, it is not needed.
    fn is_needed(&self, ring: &dyn Routes) -> bool {
        let stays = |member: &&Member| {
            let peer = self.peers.get(&member.id);
            peer.is_some_and(|peer| peer.born == Some(member.born) && peer.down.is_none() && !peer.leaving)
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

    pub(super) fn tell_leaving(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.tell_all(&Message::Leaving, ring, cx);
    }

    /// Says once more that this node leaves, and finds out who is there to stay.
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
        let members = self.slots.values().filter(|slot| slot.view.has(self.me));
        let members = members.flat_map(|slot| slot.view.members.iter().map(|member| member.id));
        let unknown = |id: &NodeId| self.peers.get(id).is_none_or(|peer| peer.born.is_none());
        let unknown: BTreeSet<NodeId> = members.filter(|id| *id != self.me.id && unknown(id)).collect();
        for id in unknown {
            self.ask_born(id, ring, cx);
        }
    }

    /// Tells everybody who shares a slot with this node.
    fn tell_all(&mut self, message: &Message, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let members = self.slots.values().flat_map(|slot| slot.view.members.iter().map(|member| member.id));
        let peers: BTreeSet<NodeId> = members
            .chain(ring.neighbours().iter().map(|peer| peer.id))
            .filter(|id| *id != self.me.id)
            .collect();
        for peer in peers {
            self.send(peer, message.clone(), ring, cx);
        }
    }

    /// Says that this node stops for a while.
    pub(crate) fn pause(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.tell_all(&Message::Pausing, ring, cx);
    }
}
