//! The list of all members beside a small ring, and the way back to it.
//!
//! The proof of the ring needs more members than lists have entries. So while a ring has fewer than twice as many, the
//! node with the lowest id counts them: its own list and that of the last on it go all the way around. What it finds,
//! all agree to as they did when the ring was formed, if most of the list before are on it; with r + 1 members or fewer that
//! ends the ring.

use alloc::vec::Vec;

use super::message::{Asker, Message};
use super::{Chord, Fingers};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::{Ctx, Note, Refusal};
use crate::message::{Body, Nonce};
use crate::overlay::Status;

/// A question to the last successor, who comes after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Census {
    asked: Contact,
    nonce: Nonce,
}

impl Chord {
    /// Counts the members, if this node is the one to do so, or has a list that may have become void.
    pub(super) fn count(&mut self, cx: &mut Ctx<'_>) {
        self.census = None;
        let (Some(pred), Some(last)) = (self.ring.pred(), self.ring.succ_list().last().copied()) else {
            return;
        };
        let ready = self.large && self.is_settled(cx) && cx.config.rule(Safeguard::WayBack);
        let counts = self.is_lowest() || !self.forming.members().is_empty();
        if !ready || !counts {
            return;
        }
        if self.ring.succ_list().contains(&pred) {
            return self.counted(Vec::new(), cx);
        }
        let nonce = self.nonce();
        self.census = Some(Census { asked: last, nonce });
        cx.send(last, Body::Chord(Message::GetSuccList { nonce, asker: Asker::Client }));
    }

    /// Says whether everybody before this node has a higher id.
    fn is_lowest(&self) -> bool {
        self.ring.pred().is_some_and(|pred| pred.id > self.me.id)
    }

    /// Says whether a list has everybody this node counts on, or may soon.
    fn has_beside(&self, list: &[Contact]) -> bool {
        let (pred, candidate) = (self.ring.pred(), self.ring.rectify_with());
        self.ring.succ_list().iter().chain(&pred).chain(&candidate).all(|node| list.contains(node))
    }

    /// Says whether this node has had the same neighbours for a while. In the middle of a change a few nodes of a large ring
    /// can look like all of it: a node that lost all its successors follows any, and those between are appendages for a moment.
    fn is_settled(&self, cx: &Ctx<'_>) -> bool {
        self.status == Status::Ready && cx.now.since(self.changed) >= cx.config.suspect_for
    }

    pub(super) fn is_counting(&self, from: Contact, nonce: Nonce) -> bool {
        self.census.as_ref().is_some_and(|census| census.asked == from && census.nonce == nonce)
    }

    /// The last successor has said who comes after it.
    pub(super) fn count_on(&mut self, rest: &[Contact], cx: &mut Ctx<'_>) {
        let Some(census) = self.census.take() else { return };
        let me = self.me.id;
        let far = me.clockwise_to(census.asked.id);
        let mut last = far;
        let ahead = |node: &&Contact| {
            let distance = me.clockwise_to(node.id);
            core::mem::replace(&mut last, distance) < distance
        };
        let before: Vec<Contact> = rest.iter().take_while(ahead).copied().collect();
        if rest.iter().any(|node| me.clockwise_to(node.id) < far) {
            self.counted(before, cx);
        } else if rest.len() + 1 >= usize::from(cx.config.successors)
            && self.ring.succ_list().len() >= usize::from(cx.config.successors)
        {
            // Two full lists, this node left out of the second, do not go around. Shorter ones are in the middle of a change.
            self.forming.outgrow();
        }
    }

    /// These come after the successors and before this node.
    fn counted(&mut self, before: Vec<Contact>, cx: &mut Ctx<'_>) {
        let mut members = before;
        members.extend(self.ring.succ_list());
        members.push(self.me);
        // Whoever is missing in the middle of a change is there the next time.
        if self.large && self.is_lowest() && self.has_beside(&members) {
            self.with_forming(cx, |forming, rules, out| forming.update(members, rules, out));
        }
    }

    /// A list that leaves out somebody this node counts on is not one of all members.
    pub(super) fn on_seal(&mut self, from: Contact, seal: Message, cx: &mut Ctx<'_>) {
        if let Message::Seal { epoch, list, .. } = &seal
            && self.large
            && !(self.has_beside(list) && self.is_settled(cx))
        {
            return cx.send(from, Body::Chord(Message::Sealed { epoch: *epoch, agreed: false, ring: true }));
        }
        self.with_forming(cx, |forming, rules, out| forming.receive(from, seal, rules, out));
    }

    pub(super) fn is_in_group(&self) -> bool {
        !self.large && self.is_member() && self.status != Status::Leaving
    }

    /// A ring took this node for one of its own. Whoever is on the list learns that it holds, others where to turn to.
    /// `true`: there is nothing else to say.
    pub(super) fn tell_of_group(&mut self, from: Contact, nonce: Nonce, cx: &mut Ctx<'_>) -> bool {
        if self.forming.is_fellow(from) {
            cx.send(from, Body::Chord(self.forming.commit()));
            return false;
        }
        let leader = self.forming.leader().unwrap_or(self.me);
        cx.send(from, Body::Chord(Message::Referred { nonce, to: leader, ring: false }));
        true
    }

    /// All have agreed that there is no ring any more.
    pub(super) fn go_back(&mut self, cx: &mut Ctx<'_>) {
        cx.note(Note::WentBack);
        self.large = false;
        for suspect in self.ring.suspects().to_vec() {
            self.remember_gone(suspect, cx);
        }
        self.with_ring(cx, |ring, _, out| ring.end(out));
        self.fingers = Fingers::default();
        self.silent.clear();
        self.census = None;
    }

    /// Somebody this node took for part of its ring belongs to a small group.
    pub(super) fn on_elsewhere(&mut self, from: Contact, nonce: Nonce, to: Contact, cx: &mut Ctx<'_>) {
        let mut open = false;
        self.with_ring(cx, |ring, rules, out| open = ring.strike(from, nonce, rules, out));
        if !open {
            return cx.refuse(Refusal::Unsolicited);
        }
        if self.ring.succ_list().is_empty() {
            // The ring has ended for all but this node, which came too late to be told.
            return self.join_again(alloc::vec![to, from], cx);
        }
        // If it is a ring after all, the search for lost peers lets the group come.
        self.remember_gone(from, cx);
    }
}
