//! The seed's lookup: a client asks one node after the other for the best predecessor of a key until one names itself;
//! the head of that node's list is the owner (VC-35). Here it finds our place in the ring of a peer that vanished, or
//! was named by the user: if somebody else is there, the rings grow together. [`Lookup`] is the same for a user's key.

use alloc::vec::Vec;

use super::message::{Asker, Message};
use super::ring::between;
use super::{Chord, GONE_MAX};
use crate::config::Safeguard;
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Note, Timer};
use crate::id::{Key, NodeId};
use crate::message::{Body, Hop, Nonce, Rule};
use crate::overlay::{Overlay, Status};
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
const GONE_LATELY: Duration = Duration::from_secs(3600);
const GONE_AT_ALL: Duration = Duration::from_secs(5400);
/// Older ones, and seeds, are asked at one turn in so many.
const SELDOM: usize = 6;

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
        if candidates.is_empty() {
            return;
        }
        // One walk a turn. It is not in the budget: neither may keep the other from what must happen.
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
        cx.set_timer(Timer::Walk, self.answer_wait(cx.config));
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
            cx.set_timer(Timer::Walk, self.answer_wait(cx.config));
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
            // Who has nobody after it is no ring that others could come to.
            let alone = self.ring.succ_list().is_empty();
            self.with_ring(cx, |ring, rules, out| merges = ring.merge(owner, rules, out));
            if alone {
                return;
            }
            // Whoever is before us there should have us as its successor, unless it is our predecessor anyway.
            if self.ring.pred().is_none_or(|pred| pred.id != from.id) {
                cx.send(from, Body::Chord(Message::Referred { nonce: 0, to: self.me, ring: true }));
            }
            if merges {
                cx.note(Note::HealAnswered);
                // If it belongs to a small group, that one comes over to us.
                cx.send(owner, Body::Chord(Message::Referred { nonce: 0, to: self.me, ring: true }));
            }
            return;
        }
        let members = self.forming.members();
        if members.iter().any(|member| member.id == owner.id) {
            return;
        }
        cx.note(Note::HealAnswered);
        // Of two small groups the one with the lowest id stays; but several do not follow one that is alone.
        let lowest = list.iter().chain([&from]).map(|node| node.id).min();
        let stays = match (members.len() > 1, !list.is_empty()) {
            (true, false) => true,
            (false, true) => false,
            _ => members.first().map(|member| member.id) < lowest,
        };
        if stays {
            cx.send(owner, Body::Chord(Message::Referred { nonce: 0, to: self.me, ring: false }));
        } else {
            self.dissolve(owner, cx);
        }
    }

    pub(super) fn on_walk_timer(&mut self, _cx: &mut Ctx<'_>) {
        self.walk = None;
    }
}

/// A lookup that this node's user wants done step by step. The node owns it; the overlay only begins it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lookup {
    serial: u32,
    key: Key,
    /// Who is asked now, and the question's number.
    at: Contact,
    nonce: Nonce,
    /// Who has been asked before.
    path: Vec<Hop>,
}

/// What a lookup wants next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this.
    Ask(Contact, Message),
    /// It is done: who answers for the key, and the way there.
    Found(Contact, Vec<Hop>),
    /// The answers lead nowhere: the ring is changing, or somebody is not telling the truth.
    Lost,
}

impl Lookup {
    /// Begins with what this node knows itself.
    pub fn start(chord: &Chord, serial: u32, key: Key, cx: &mut Ctx<'_>) -> (Lookup, Step) {
        let me = chord.me;
        let mut lookup = Lookup { serial, key, at: me, nonce: cx.dice.roll() as Nonce, path: Vec::new() };
        let owner = match chord.range().contains(key) {
            true => Some(me),
            false if !chord.large => chord.forming.owner(key),
            false => None,
        };
        let best = chord.ring.best_predecessor(key);
        let owner = owner.or_else(|| chord.successors().first().copied().filter(|_| best.id == me.id));
        let step = match owner {
            Some(owner) => lookup.end(owner),
            None if best.id == me.id => Step::Lost,
            None => lookup.go_to(best, cx),
        };
        (lookup, step)
    }

    /// Returns the number of the request it is done for.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Says whether this is the question it has open.
    pub fn has_asked(&self, to: NodeId, message: &Message) -> bool {
        message.is_of_client() && self.at.id == to && message.nonce() == Some(self.nonce)
    }

    /// Takes the answer it waits for. `None`: that is not it.
    pub fn handle(
        &mut self,
        me: Contact,
        from: Contact,
        message: &Message,
        cx: &mut Ctx<'_>,
    ) -> Option<Step> {
        if self.at.id != from.id || message.nonce() != Some(self.nonce) {
            return None;
        }
        match message {
            Message::GotBestPredecessor { node, .. } if node.id == from.id => {
                self.nonce = cx.dice.roll() as Nonce;
                Some(Step::Ask(from, Message::GetSuccList { nonce: self.nonce, asker: Asker::Client }))
            }
            Message::GotBestPredecessor { node, .. } => {
                let nearer = between(from.id, node.id, self.key) && node.id != me.id;
                Some(if nearer { self.go_to(*node, cx) } else { Step::Lost })
            }
            Message::GotSuccList { list, .. } => {
                // A small ring does not name the asker, which may be the owner.
                let after = list.iter().chain([&me]).filter(|node| node.id != from.id);
                let owner = after.min_by_key(|node| from.id.clockwise_to(node.id)).copied();
                let owner = owner.filter(|_| !list.is_empty());
                Some(owner.map_or(Step::Lost, |owner| self.end(owner)))
            }
            _ => None,
        }
    }

    fn go_to(&mut self, next: Contact, cx: &mut Ctx<'_>) -> Step {
        if self.path.len() >= usize::from(STEPS_MAX) {
            return Step::Lost;
        }
        self.note(self.at, Rule::Finger { bit: u8::MAX });
        (self.at, self.nonce) = (next, cx.dice.roll() as Nonce);
        Step::Ask(next, Message::GetBestPredecessor { nonce: self.nonce, of: self.key, asker: Asker::Client })
    }

    fn end(&mut self, owner: Contact) -> Step {
        if self.at.id != owner.id {
            self.note(self.at, Rule::SuccessorList);
        }
        self.note(owner, Rule::Here);
        Step::Found(owner, core::mem::take(&mut self.path))
    }

    fn note(&mut self, node: Contact, rule: Rule) {
        self.path.push(Hop { node, rule, proximity: Proximity::UNKNOWN });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::contact::Addr;
    use crate::dice::SeededDice;
    use crate::edge::Outbox;
    use crate::id::Id;
    use crate::records::MemoryRecords;
    use crate::time::Time;
    use alloc::vec;

    fn contact(id: u128) -> Contact {
        Contact::new(Id::new(id), 1, Addr(id as u32))
    }

    fn lookup(key: u128) -> Lookup {
        Lookup { serial: 7, key: Id::new(key), at: contact(10), nonce: 1, path: Vec::new() }
    }

    /// Gives node 90's lookup an answer of this node.
    fn answer(lookup: &mut Lookup, from: u128, message: Message) -> Option<Step> {
        let config = Settings::default().check().unwrap();
        let (mut dice, mut out) = (SeededDice::new(1), Outbox::default());
        let records = MemoryRecords::default();
        let (now, wall) = (Time::ZERO, 0);
        let mut cx = Ctx { now, config: &config, dice: &mut dice, wall, records: &records, out: &mut out };
        lookup.handle(contact(90), contact(from), &message, &mut cx)
    }

    fn best(nonce: Nonce, node: u128) -> Message {
        Message::GotBestPredecessor { nonce, node: contact(node) }
    }

    #[test]
    fn a_lookup_goes_on_until_a_node_names_itself_and_takes_the_head_of_its_list() {
        let mut lookup = lookup(50);
        let asked = answer(&mut lookup, 10, best(1, 30));
        assert!(
            matches!(asked, Some(Step::Ask(to, Message::GetBestPredecessor { of, .. })) if (to, of) == (contact(30), Id::new(50)))
        );
        let nonce = lookup.nonce;
        let asked = answer(&mut lookup, 30, best(nonce, 30));
        assert!(matches!(asked, Some(Step::Ask(to, Message::GetSuccList { .. })) if to == contact(30)));
        let (nonce, list) = (lookup.nonce, vec![contact(60), contact(70)]);
        let Some(Step::Found(owner, path)) = answer(&mut lookup, 30, Message::GotSuccList { nonce, list })
        else {
            panic!("it has come to the end")
        };
        assert_eq!(owner, contact(60));
        let way: Vec<(Contact, Rule)> = path.iter().map(|hop| (hop.node, hop.rule)).collect();
        let finger = Rule::Finger { bit: u8::MAX };
        assert_eq!(way, [(contact(10), finger), (contact(30), Rule::SuccessorList), (owner, Rule::Here)]);
    }

    #[test]
    fn only_the_answer_to_the_open_question_counts_and_steps_back_lead_nowhere() {
        let mut open = lookup(50);
        assert_eq!(answer(&mut open, 10, best(2, 30)), None);
        assert_eq!(answer(&mut open, 20, best(1, 30)), None);
        assert_eq!(answer(&mut open, 10, Message::Pong { nonce: 1 }), None);
        assert_eq!(open, lookup(50));
        for back in [5, 50, 60] {
            assert_eq!(answer(&mut lookup(50), 10, best(1, back)), Some(Step::Lost));
        }
        let nobody = Message::GotSuccList { nonce: 1, list: Vec::new() };
        assert_eq!(answer(&mut lookup(50), 10, nobody), Some(Step::Lost));
    }

    #[test]
    fn the_asker_may_be_the_owner_itself() {
        let list = Message::GotSuccList { nonce: 1, list: vec![contact(95)] };
        assert!(
            matches!(answer(&mut lookup(80), 10, list), Some(Step::Found(owner, _)) if owner == contact(90))
        );
    }
}
