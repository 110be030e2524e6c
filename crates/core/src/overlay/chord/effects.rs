//! What the machines want becomes messages and timers; what has changed is told upward.

use alloc::vec::Vec;

use super::forming::Forming;
use super::message::{Asker, Message};
use super::ring::{Effect, Ring, RingTimer, Rules};
use super::{Chord, rules};
use crate::contact::Contact;
use crate::edge::{Ctx, Event, Note, Output, Refusal, Reply, Timer};
use crate::message::Body;
use crate::overlay::{Overlay, Status};
use crate::range::IdRange;

impl Chord {
    pub(super) fn with_ring(
        &mut self,
        cx: &mut Ctx<'_>,
        call: impl FnOnce(&mut Ring, &Rules, &mut Vec<Effect>),
    ) {
        let mut effects = Vec::new();
        call(&mut self.ring, &rules(cx.config), &mut effects);
        self.execute(effects, cx);
    }

    pub(super) fn with_forming(
        &mut self,
        cx: &mut Ctx<'_>,
        call: impl FnOnce(&mut Forming, &Rules, &mut Vec<Effect>),
    ) {
        let mut effects = Vec::new();
        call(&mut self.forming, &rules(cx.config), &mut effects);
        self.execute(effects, cx);
    }

    pub(super) fn fire(&mut self, timer: RingTimer, cx: &mut Ctx<'_>) {
        self.with_ring(cx, |ring, rules, out| ring.fire(timer, rules, out));
    }

    fn execute(&mut self, effects: Vec<Effect>, cx: &mut Ctx<'_>) {
        for effect in effects {
            match effect {
                Effect::Send(to, message) => cx.send(to, Body::Chord(message)),
                Effect::Arm(timer) => self.arm(timer, cx),
                Effect::Clear(timer) => {
                    if matches!(timer, RingTimer::Request { .. }) {
                        self.query = None;
                    }
                    cx.out.push(Output::CancelTimer { timer: kind(timer) });
                }
                // The first question is asked at once: until it is answered, nobody knows this node.
                Effect::Joined => {
                    self.large = true;
                    self.forming.enter_ring();
                    self.fire(RingTimer::Tick, cx);
                }
                Effect::JoinEnded(_) => cx.note(Note::JoinRetried),
                Effect::Refused(refusal) => cx.refuse(refusal),
                Effect::Suspected(peer) => {
                    cx.note(Note::Suspected(peer));
                    self.lost.push(peer);
                    self.silent.retain(|(id, _)| *id != peer.id);
                    self.silent.push((peer.id, cx.now));
                    // Several in a row may have died at once: they are not waited for one after the other.
                    self.probe_successors(cx);
                }
                Effect::Cleared(peer) => {
                    cx.note(Note::Cleared(peer));
                    self.silent.retain(|(id, _)| *id != peer.id);
                    self.prober.clear(peer.id);
                    cx.out.raise(Event::Settled(peer.id));
                }
                Effect::GaveUp => cx.note(Note::GaveWay),
                Effect::Committed => self.on_committed(cx),
                Effect::Expelled(by) => {
                    // Whoever told us last, if there is nobody else.
                    let mut through = self.beside.clone();
                    through.insert(0, by);
                    self.join_again(through, cx);
                }
            }
        }
    }

    fn arm(&mut self, timer: RingTimer, cx: &mut Ctx<'_>) {
        let config = cx.config;
        let span = match timer {
            RingTimer::Tick => cx.dice.jitter(config.tick),
            RingTimer::RectifyTick => cx.dice.jitter(config.rectify),
            RingTimer::KeepaliveTick => config.keepalive,
            RingTimer::Request { .. } => {
                self.query = Some(timer);
                self.answer_wait(config)
            }
            RingTimer::Retry => cx.dice.jitter(config.tick),
            RingTimer::Rejoin => cx.dice.jitter(config.join_backoff_min),
            RingTimer::Probe | RingTimer::Form => cx.dice.jitter(config.tick),
        };
        cx.set_timer(kind(timer), span);
    }

    fn on_committed(&mut self, cx: &mut Ctx<'_>) {
        cx.note(Note::ListHolds);
        match (self.large, self.forming.is_ring()) {
            (false, true) => {
                self.large = true;
                let members = self.forming.members().to_vec();
                self.with_ring(cx, |ring, rules, out| ring.start_ring(&members, rules, out));
            }
            (true, false) => self.go_back(cx),
            // It has been on its way into a ring, too; one of the two is enough.
            (false, false) => self.with_ring(cx, |ring, _, out| ring.end(out)),
            (true, true) => {}
        }
    }

    pub(super) fn on_message(&mut self, from: Contact, message: Message, cx: &mut Ctx<'_>) {
        match message {
            // Whoever wants nothing is not drawn into anything.
            _ if self.status == Status::Out => cx.refuse(Refusal::NotJoined),
            // Whoever leaves agrees to nothing any more, and admits nobody.
            Message::Apply | Message::Seal { .. } | Message::Sealed { .. } | Message::Commit { .. }
                if self.status == Status::Leaving =>
            {
                cx.refuse(Refusal::NotJoined);
            }
            Message::Apply => self.on_apply(from, cx),
            Message::Referred { nonce, to, ring: false } if self.large && nonce != 0 => {
                self.on_elsewhere(from, nonce, to, cx);
            }
            Message::Referred { to, ring, .. } => self.on_referred(from, to, ring, cx),
            Message::Seal { .. } => self.on_seal(from, message, cx),
            Message::Sealed { .. } | Message::Commit { .. } => {
                self.with_forming(cx, |forming, rules, out| forming.receive(from, message, rules, out));
            }
            Message::GotBestPredecessor { nonce, node } if self.is_walking(from, nonce) => {
                self.walk_on(from, node, cx);
            }
            Message::GotSuccList { nonce, list } if self.is_walking(from, nonce) => {
                self.end_walk(from, list, cx);
            }
            Message::GotSuccList { nonce, list } if self.is_counting(from, nonce) => self.count_on(&list, cx),
            Message::GetPredAndSuccs { nonce }
            | Message::GetBestPredecessor { nonce, asker: Asker::Peer, .. }
            | Message::GetSuccList { nonce, asker: Asker::Peer }
            | Message::Ping { nonce }
                if self.is_in_group() && self.tell_of_group(from, nonce, cx) => {}
            Message::GetBestPredecessor { nonce, of, .. } if !self.large && self.is_member() => {
                let node = self.forming_predecessor(of);
                cx.send(from, Body::Chord(Message::GotBestPredecessor { nonce, node }));
            }
            Message::GetSuccList { nonce, .. } if !self.large && self.is_member() => {
                let mut list = self.successors();
                list.retain(|node| node.id != from.id);
                cx.send(from, Body::Chord(Message::GotSuccList { nonce, list }));
            }
            Message::Leaving { list } => self.on_leaving(from, list, cx),
            _ if self.status == Status::Leaving => cx.refuse(Refusal::NotJoined),
            Message::Notify if self.large && self.forming.shuts_out(from) => cx.refuse(Refusal::NotJoined),
            // Newcomers ask these; who is in the ring already, and stabilizes, is not to take this node for silent.
            Message::GetBestPredecessor { nonce, asker: Asker::Peer, .. }
            | Message::GetSuccList { nonce, asker: Asker::Peer }
                if self.large && self.forming.shuts_out(from) =>
            {
                cx.send(from, Body::Chord(Message::Busy { nonce }));
            }
            message => self.with_ring(cx, |ring, rules, out| ring.receive(from, message, rules, out)),
        }
    }

    fn on_leaving(&mut self, from: Contact, list: Vec<Contact>, cx: &mut Ctx<'_>) {
        if self.get(from.id).is_none() {
            return cx.refuse(Refusal::Unsolicited);
        }
        self.lost.push(from);
        self.fingers.remove(from.id);
        self.prober.forget(from.id);
        self.silent.retain(|(id, _)| *id != from.id);
        cx.out.raise(Event::Settled(from.id));
        if !self.large {
            return self.with_forming(cx, |forming, rules, out| forming.left(from, rules, out));
        }
        self.forming.farewell(from);
        let others = self.ring.extended();
        let last = others.iter().all(|node| node.id == from.id);
        if last && list.iter().all(|node| node.id == self.me.id) {
            // The last one leaves and knows of nobody else: that is no cut.
            self.large = false;
            self.with_ring(cx, |ring, _, out| ring.leave(out));
            return self.with_forming(cx, |forming, _, out| forming.found(out));
        }
        self.with_ring(cx, |ring, rules, out| {
            ring.receive(from, Message::Leaving { list }, rules, out);
        });
    }

    /// The end of every call: draws the conclusions and tells the layers above what has changed.
    pub(super) fn review(&mut self, cx: &mut Ctx<'_>) {
        if !matches!(self.status, Status::Leaving) {
            let status = self.standing();
            let before = self.status;
            self.set_status(status, cx);
            match status {
                Status::Ready if before != Status::Ready => self.on_ready(cx),
                Status::Isolated if before != Status::Isolated => {
                    cx.note(Note::Isolated);
                    cx.set_timer(Timer::Heal, cx.config.tick);
                }
                _ => {}
            }
        }
        self.report_peers(cx);
        self.report_lost(cx);
        self.report_range(cx);
    }

    /// How far this node has come, by what it knows.
    fn standing(&self) -> Status {
        match self.status {
            Status::Out if self.joining.is_none() && !self.is_member() => Status::Out,
            _ if !self.is_member() => Status::Joining,
            _ if !self.large && self.forming.is_cut_off() => Status::Isolated,
            _ if !self.large => Status::Ready,
            _ if self.ring.succ_list().is_empty() => Status::Isolated,
            Status::Ready | Status::Isolated => Status::Ready,
            // Before its predecessor is known, a newcomer does not know what it answers for.
            _ if self.ring.pred().is_some() => Status::Ready,
            _ => Status::Waiting,
        }
    }

    fn on_ready(&mut self, cx: &mut Ctx<'_>) {
        self.end_join(Ok(Reply::Joined), cx);
        for (timer, span) in [
            (Timer::Heartbeat, cx.config.heartbeat),
            (Timer::Heal, cx.config.heal),
            (Timer::Fingers, cx.config.tick),
        ] {
            let span = cx.dice.jitter(span);
            cx.set_timer(timer, span);
        }
    }

    fn report_peers(&mut self, cx: &mut Ctx<'_>) {
        let beside = if self.is_member() { self.neighbours() } else { Vec::new() };
        if beside == self.beside {
            return;
        }
        let before = core::mem::replace(&mut self.beside, beside);
        self.changed = cx.now;
        let is_new = |node: &&Contact| !before.contains(node);
        for peer in self.beside.iter().filter(is_new) {
            cx.out.raise(Event::PeerUp(*peer));
        }
        self.down.retain(|id| !self.beside.iter().any(|node| node.id == *id));
        cx.out.raise(Event::NeighboursChanged);
    }

    /// Whoever is only no longer near enough is not down; whoever is dead is, near or not.
    fn report_lost(&mut self, cx: &mut Ctx<'_>) {
        for peer in core::mem::take(&mut self.lost) {
            let is_beside = self.beside.iter().any(|node| node.id == peer.id);
            if is_beside || self.down.contains(&peer.id) {
                continue;
            }
            if self.down.len() >= super::GONE_MAX {
                self.down.remove(0);
            }
            self.down.push(peer.id);
            cx.out.raise(Event::PeerDown(peer));
        }
    }

    /// Tells the layers above how our range has changed since they were last told.
    pub(super) fn report_range(&mut self, cx: &mut Ctx<'_>) {
        let range = self.range();
        if range != self.range {
            let gained = range.subtract(self.range).into_iter();
            gained.for_each(|gained| cx.out.raise(Event::RangeGained(gained)));
            let lost = self.range.subtract(range).into_iter();
            lost.for_each(|lost| cx.out.raise(Event::RangeLost(lost)));
            self.range = range;
        }
    }

    /// The part of the ring this node is first for. Until a new predecessor is known it stays what it was.
    pub(super) fn owned(&self) -> IdRange {
        match self.predecessor() {
            Some(pred) => IdRange::arc(pred.id.plus(1), self.me.id.plus(1)),
            None if !self.large => IdRange::Full,
            None => self.range,
        }
    }
}

/// The node's timer for one of the machines'.
fn kind(timer: RingTimer) -> Timer {
    match timer {
        RingTimer::Tick => Timer::Stabilize,
        RingTimer::RectifyTick => Timer::Rectify,
        RingTimer::KeepaliveTick => Timer::Keepalive,
        RingTimer::Request { .. } => Timer::Query,
        RingTimer::Retry => Timer::Retry,
        RingTimer::Rejoin => Timer::Join,
        RingTimer::Probe => Timer::Suspects,
        RingTimer::Form => Timer::Form,
    }
}
