//! The seed's lookup: a client asks one node after the other for the best predecessor of a key until one names itself;
//! the head of that node's list is the owner (VC-35). Here it finds our place in the ring of a peer that vanished, or
//! was named by the user: if somebody else is there, the rings grow together.

use alloc::vec::Vec;

use super::message::{Asker, Message};
use super::ring::between;
use super::{Chord, GONE_MAX};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::{Ctx, Note, Timer};
use crate::message::{Body, Nonce};
use crate::overlay::Status;
use core::time::Duration;

/// A lookup of our own place, through other nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Walk {
    /// Who is asked now.
    at: Contact,
    nonce: Nonce,
    steps: u8,
}

/// Steps a walk may take.
const STEPS_MAX: u8 = 128;
/// For how long after it vanished a peer is asked at every turn, and for how long at all.
const GONE_LATELY: Duration = Duration::from_secs(600);
const GONE_AT_ALL: Duration = Duration::from_secs(5400);
/// Older ones, and seeds, are asked at one turn in so many.
const SELDOM: usize = 6;
/// What a walk costs on the wire, roughly.
const WALK_BYTES: u32 = 500;

impl Chord {
    /// Asks a vanished peer, or a seed, for our place in its ring.
    pub(super) fn on_heal(&mut self, cx: &mut Ctx<'_>) {
        let alone = self.status == Status::Isolated;
        if self.status != Status::Ready && !alone {
            return;
        }
        let span = cx.dice.jitter(if alone { cx.config.tick } else { cx.config.heal });
        cx.set_timer(Timer::Heal, span);
        if !cx.config.rule(Safeguard::Heal) {
            return;
        }
        let now = cx.now;
        self.gone.retain(|(_, since)| now.since(*since) < GONE_AT_ALL);
        let seldom = alone || cx.dice.below(SELDOM) == 0;
        let gone = self.gone.iter().filter(|(_, since)| seldom || now.since(*since) < GONE_LATELY);
        let mut candidates: Vec<Contact> = gone.map(|(contact, _)| *contact).collect();
        if seldom {
            candidates.extend(&self.seeds);
        }
        if alone {
            candidates.extend(self.fingers.entries().iter().map(|finger| finger.node));
            candidates.extend(self.ring.pred());
        }
        candidates.retain(|contact| alone || self.get(contact.id).is_none());
        if candidates.is_empty() || !self.budget.take(WALK_BYTES, cx) {
            return;
        }
        let via = candidates[cx.dice.below(candidates.len())];
        if alone && self.large {
            // Those before us know nobody beyond us either. With any node ahead, step by step, we find the nearest.
            cx.note(Note::HealAsked);
            return self.with_ring(cx, |ring, rules, out| {
                ring.merge(via, rules, out);
            });
        }
        self.look_for_ring(via, cx);
    }

    pub(super) fn remember_gone(&mut self, contact: Contact, cx: &Ctx<'_>) {
        self.gone.retain(|(gone, _)| gone.id != contact.id);
        if self.gone.len() >= GONE_MAX {
            self.gone.remove(0);
        }
        self.gone.push((contact, cx.now));
    }

    /// Starts a walk to our own place, unless one is under way.
    pub(super) fn look_for_ring(&mut self, via: Contact, cx: &mut Ctx<'_>) {
        if self.walk.is_none() && via.id != self.me.id {
            cx.note(Note::HealAsked);
            self.step_to(via, 0, cx);
        }
    }

    fn step_to(&mut self, at: Contact, steps: u8, cx: &mut Ctx<'_>) {
        let nonce = self.nonce();
        self.walk = Some(Walk { at, nonce, steps });
        let of = self.me.id;
        cx.send(at, Body::Chord(Message::GetBestPredecessor { nonce, of, asker: Asker::Client }));
        cx.set_timer(Timer::Walk, cx.config.query_timeout);
    }

    pub(super) fn is_walking(&self, from: Contact, nonce: Nonce) -> bool {
        self.walk.as_ref().is_some_and(|walk| walk.at.id == from.id && walk.nonce == nonce)
    }

    pub(super) fn walk_on(&mut self, from: Contact, node: Contact, cx: &mut Ctx<'_>) {
        let Some(walk) = self.walk.take() else { return };
        self.gone.retain(|(gone, _)| gone.id != from.id);
        if node.id == from.id {
            let nonce = self.nonce();
            self.walk = Some(Walk { nonce, ..walk });
            cx.send(from, Body::Chord(Message::GetSuccList { nonce, asker: Asker::Client }));
            cx.set_timer(Timer::Walk, cx.config.query_timeout);
        } else if between(from.id, node.id, self.me.id) && walk.steps < STEPS_MAX {
            self.step_to(node, walk.steps + 1, cx);
        }
    }

    /// The walk has come to whoever would be our predecessor there.
    pub(super) fn end_walk(&mut self, from: Contact, list: Vec<Contact>, cx: &mut Ctx<'_>) {
        self.walk = None;
        if !self.is_member() {
            return;
        }
        let owner = list.iter().find(|node| node.id != self.me.id).copied().unwrap_or(from);
        if self.large {
            let mut merges = false;
            self.with_ring(cx, |ring, rules, out| merges = ring.merge(owner, rules, out));
            // Whoever is before us there should have us as its successor, unless it is our predecessor anyway.
            if self.ring.pred().is_none_or(|pred| pred.id != from.id) {
                cx.send(from, Body::Chord(Message::Referred { to: self.me, ring: true }));
            }
            if merges {
                cx.note(Note::HealAnswered);
                // If it belongs to a small group, that one comes over to us.
                cx.send(owner, Body::Chord(Message::Referred { to: self.me, ring: true }));
            }
            return;
        }
        let members = self.forming.members();
        if members.iter().any(|member| member.id == owner.id) {
            return;
        }
        cx.note(Note::HealAnswered);
        // Of two small groups the one with the lowest id stays.
        let lowest = list.iter().chain([&from]).map(|node| node.id).min();
        if members.first().map(|member| member.id) < lowest {
            cx.send(owner, Body::Chord(Message::Referred { to: self.me, ring: false }));
        } else {
            self.dissolve(owner, cx);
        }
    }

    pub(super) fn on_walk_timer(&mut self, _cx: &mut Ctx<'_>) {
        self.walk = None;
    }
}
