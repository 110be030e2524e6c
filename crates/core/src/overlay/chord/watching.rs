//! Who is there: probes for those who were silent, questions through others, and what follows from death.

use alloc::vec::Vec;
use core::time::Duration;

use super::Chord;
use super::ring::RingTimer;
use crate::config::{Config, Metric};
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Event, Note, Refusal, Timer};
use crate::id::NodeId;
use crate::message::{Body, Nonce};
use crate::overlay::probe::Why;
use crate::overlay::{Overlay, Status};

impl Chord {
    /// A peer stayed silent once: messages go around it until it is heard, or found dead.
    pub(super) fn doubt(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        if self.get(peer.id).is_some() {
            self.prober.suspect(peer, cx);
            self.probe(peer, cx);
        }
    }

    fn probe(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        let wait = self.patience(peer.id, cx);
        if let Some(nonce) = self.prober.start(peer, Why::WATCH, wait, cx) {
            cx.send(peer, Body::Ping(nonce));
        }
    }

    pub(super) fn probe_successors(&mut self, cx: &mut Ctx<'_>) {
        for peer in self.ring.succ_list().to_vec() {
            self.probe(peer, cx);
        }
    }

    /// How long to wait for an answer of this peer.
    fn patience(&self, peer: NodeId, cx: &Ctx<'_>) -> Duration {
        let (least, most) = (cx.config.probe_timeout_min, cx.config.probe_timeout_max);
        self.timing.wait(self.proximity(peer, cx), least, most, cx.config)
    }

    /// How long to wait for the answer to a question about the ring. A node that joins may have measured nothing yet.
    pub(super) fn answer_wait(&self, config: &Config) -> Duration {
        match self.is_member() {
            true => self.timing.stretch(config.query_timeout),
            false => self.timing.at_least(config.query_timeout, 1, config),
        }
    }

    /// How long to wait for an answer of any peer. Until something was measured, a peer may be far away, and the connection
    /// to it takes two round trips more.
    pub(super) fn longest_patience(&self, cx: &Ctx<'_>) -> Duration {
        let (least, most) = (cx.config.probe_timeout_min, cx.config.probe_timeout_max);
        self.timing.at_least(self.timing.wait(None, least, most, cx.config), 1, cx.config)
    }

    pub(super) fn on_probe_timer(&mut self, cx: &mut Ctx<'_>) {
        let most = self.longest_patience(cx);
        let due = self.prober.due(|_| most, cx);
        for (peer, nonce, _, last) in due.again {
            cx.send(peer, Body::Ping(nonce));
            if last && self.beside.iter().chain(self.ring.suspects()).any(|node| node.id == peer.id) {
                self.ask_relays(peer, nonce, cx);
            }
        }
        for (peer, _) in due.failed {
            match self.get(peer.id) {
                Some(known) if known == peer => self.on_dead(peer, cx),
                _ => self.prober.forget(peer.id),
            }
        }
    }

    /// A broken path is not a dead node: others look too.
    fn ask_relays(&mut self, peer: Contact, nonce: Nonce, cx: &mut Ctx<'_>) {
        let fits = |node: &&Contact| node.id != peer.id && !self.is_in_doubt(node.id);
        let mut relays: Vec<Contact> = self.beside.iter().filter(fits).copied().collect();
        // The one after it has it as its predecessor, those before it in their lists; nobody else knows it.
        relays.sort_by_key(|node| peer.id.distance(node.id));
        relays.truncate(cx.config.probe_relays.into());
        for relay in relays {
            self.prober.asked_via(peer.id, relay.id);
            cx.send(relay, Body::PingVia { nonce, target: peer });
        }
    }

    /// Probes found a peer dead.
    fn on_dead(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        cx.note(Note::Died(peer));
        self.remember_gone(peer, cx);
        self.fingers.remove(peer.id);
        self.prober.forget(peer.id);
        self.lost.push(peer);
        if self.large {
            let head = self.ring.succ_list().first().copied();
            self.with_ring(cx, |ring, rules, out| ring.lost(peer, rules, out));
            // Nobody answers for the keys of a dead successor before the next one knows us: that does not wait.
            if head == Some(peer) {
                self.fire(RingTimer::Tick, cx);
            }
        } else {
            self.with_forming(cx, |forming, rules, out| forming.lost(peer, rules, out));
        }
        if self.ring.pred() == Some(peer) {
            // Kept until another wants its place, and avoided until then.
            self.prober.suspect(peer, cx);
        }
        cx.out.raise(Event::Settled(peer.id));
    }

    /// A peer has answered, whatever it was.
    pub(super) fn on_alive(&mut self, peer: Contact, rtt: Option<Duration>, cx: &mut Ctx<'_>) {
        if let Some(rtt) = rtt {
            self.timing.measured(rtt, cx.config);
        }
        if let Some(rtt) = rtt.filter(|_| cx.config.metric == Metric::RoundTrip) {
            let micros = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX - 1);
            let (age, most) = (cx.config.proximity_age, usize::from(cx.config.proximity_cache));
            self.cache.put(peer.id, Proximity(micros), cx.now, age, most);
        }
        self.forming.alive(peer.id);
        if self.ring.suspects().iter().any(|suspect| suspect.id == peer.id) {
            self.with_ring(cx, |ring, rules, out| ring.alive(peer, rules, out));
        }
        if self.prober.clear(peer.id) {
            cx.note(Note::Cleared(peer));
            cx.out.raise(Event::Settled(peer.id));
        }
    }

    pub(super) fn on_pong(&mut self, from: Contact, nonce: Nonce, cx: &mut Ctx<'_>) {
        match self.prober.answer(from.id, nonce, false, cx) {
            Some(answered) => {
                if answered.cleared {
                    cx.note(Note::Cleared(from));
                    cx.out.raise(Event::Settled(from.id));
                }
                self.on_alive(from, answered.rtt, cx);
            }
            None if self.prober.relayed(from.id, nonce, cx) => {}
            None => cx.refuse(Refusal::Unsolicited),
        }
    }

    pub(super) fn on_ping_via(&mut self, from: Contact, nonce: Nonce, target: Contact, cx: &mut Ctx<'_>) {
        // Only for nodes we know ourselves: otherwise anybody could have us dial anywhere.
        match self.get(target.id) {
            Some(known) if self.is_member() => self.prober.relay(from, nonce, known, cx),
            _ => cx.refuse(Refusal::UnknownTarget),
        }
    }

    pub(super) fn on_pong_via(&mut self, from: Contact, nonce: Nonce, target: NodeId, cx: &mut Ctx<'_>) {
        match self.prober.answer_via(from.id, target, nonce, cx) {
            // Alive, but not for us: kept and avoided. The heartbeat tries again.
            Some((peer, _)) => {
                cx.note(Note::HalfReachable(peer));
                self.prober.suspect(peer, cx);
                self.ring.vouch(target, true);
                self.silent.iter_mut().filter(|(id, _)| *id == target).for_each(|(_, since)| *since = cx.now);
            }
            None => cx.refuse(Refusal::Unsolicited),
        }
    }

    /// A peer is there in a later life; the earlier one is certainly over.
    pub(super) fn on_new_life(&mut self, from: Contact, cx: &mut Ctx<'_>) {
        self.prober.forget(from.id);
        self.fingers.remove(from.id);
        self.silent.retain(|(id, _)| *id != from.id);
        self.lost.push(from);
        match self.large {
            true => self.forming.farewell(from),
            false => self.with_forming(cx, |forming, rules, out| forming.left(from, rules, out)),
        }
        self.with_ring(cx, |ring, rules, out| ring.heard(from, rules, out));
        cx.out.raise(Event::Settled(from.id));
        self.review(cx);
    }

    /// Asks for silent successors again, directly and through others, and forgets those nobody has heard for long.
    pub(super) fn on_suspects_timer(&mut self, cx: &mut Ctx<'_>) {
        let suspects = self.ring.suspects().to_vec();
        self.silent.retain(|(id, _)| suspects.iter().any(|suspect| suspect.id == *id));
        for suspect in suspects {
            let since = self.silent.iter().find(|(id, _)| *id == suspect.id).map(|(_, since)| *since);
            let silent = since.map_or(Duration::ZERO, |since| cx.now.since(since));
            if silent >= cx.config.suspect_for / 2 {
                self.ring.vouch(suspect.id, false);
            }
            if silent >= cx.config.suspect_for {
                self.with_ring(cx, |ring, rules, _| ring.forget(suspect.id, rules));
                self.remember_gone(suspect, cx);
            } else {
                self.probe(suspect, cx);
            }
        }
        self.fire(RingTimer::Probe, cx);
    }

    /// In a small ring everybody watches everybody.
    pub(super) fn on_form_timer(&mut self, cx: &mut Ctx<'_>) {
        if self.status == Status::Leaving {
            return;
        }
        let watched = if self.large { &[] } else { self.forming.members() };
        let others: Vec<Contact> = watched.iter().filter(|member| member.id != self.me.id).copied().collect();
        for member in others {
            self.probe(member, cx);
        }
        self.with_forming(cx, |forming, rules, out| forming.fire(rules, out));
    }

    /// Looks again at whoever is in doubt.
    pub(super) fn on_heartbeat(&mut self, cx: &mut Ctx<'_>) {
        if !matches!(self.status, Status::Ready | Status::Isolated) {
            return;
        }
        let span = cx.dice.jitter(cx.config.heartbeat);
        cx.set_timer(Timer::Heartbeat, span);
        self.count(cx);
        for id in self.prober.suspects().to_vec() {
            match self.get(id) {
                Some(suspect) => self.probe(suspect, cx),
                None => self.prober.forget(id),
            }
        }
    }
}
