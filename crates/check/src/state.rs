//! A world in one moment: nodes, messages in flight, timers, and what may still go wrong.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kringle_core::config::{Config, Safeguard};
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::edge::{Command, Ctx, Input, Outbox, Output, RequestId, Timer};
use kringle_core::id::{Id, Key};
use kringle_core::message::{App, Body, Payload, Routed};
use kringle_core::node::Node;
use kringle_core::overlay::pastry::Message as Pastry;
use kringle_core::records::NoRecords;
use kringle_core::time::Time;
use kringle_sim::world::StillDice;

use crate::action::{Action, Flight};
use crate::fingerprint::Fingerprint;
use crate::plan::Faults;

/// A timer that is not set.
pub(crate) const NEVER: Time = Time::from_micros(u64::MAX);
/// What the application of every node measures for every peer.
const PROXIMITY: Proximity = Proximity(1000);

/// A whole world. Cloning shares the nodes; a step copies only the one it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(crate) now: Time,
    /// When something last went wrong or was asked for. Models look no farther ahead than a span from here.
    pub(crate) since: Time,
    pub(crate) slots: Vec<Slot>,
    /// In the order they were sent, which only serves to name them: any may arrive next.
    pub(crate) messages: Vec<Message>,
    /// Links that lead nowhere, each in one direction.
    pub(crate) cuts: Vec<(u8, u8)>,
    /// Links that lead through a third node. Messages on them may take any time, without using up `late`.
    pub(crate) relayed: Vec<(u8, u8)>,
    /// What may still go wrong.
    pub(crate) left: Faults,
    /// An application was given a message.
    pub(crate) delivered: bool,
    /// A message was given to an application by the first while the second was entitled to it.
    pub(crate) delivered_twice: Option<(u8, u8)>,
    /// A node found itself in a state it must not be in.
    pub(crate) broken: Option<String>,
    fingerprint: u64,
}

/// One place, with the node that lives there now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) contact: Contact,
    pub(crate) timers: [Time; Timer::ALL.len()],
    /// What has arrived at a paused node.
    pub(crate) paused: Option<Vec<(Contact, Arc<Body>)>>,
    /// Calls of the application the driver has not made yet, each with the moment after which it must not.
    pub(crate) upcalls: VecDeque<(Arc<Routed>, Option<Time>)>,
    /// Whether it was ever told to be part of a ring.
    pub(crate) told: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) from: u8,
    pub(crate) to: u8,
    sender: Contact,
    body: Arc<Body>,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint);
    }
}

/// What a step needs to know besides the state.
pub(crate) struct Rules<'a> {
    pub(crate) config: &'a Config,
    /// Through whom nodes join.
    pub(crate) seeds: &'a [u8],
    /// The key of the message users send.
    pub(crate) key: Key,
}

impl State {
    /// Makes a world of nodes that are not part of a ring.
    pub(crate) fn new(ids: &[Id], left: Faults, config: &Config) -> State {
        let slots = ids.iter().enumerate().map(|(index, id)| {
            let contact = Contact::new(*id, 1, Addr(index as u32));
            Slot {
                node: Some(Arc::new(Node::pastry(*id, 1, contact.addr, config))),
                contact,
                timers: [NEVER; Timer::ALL.len()],
                paused: None,
                upcalls: VecDeque::new(),
                told: false,
            }
        });
        let mut state = State {
            now: Time::ZERO,
            since: Time::ZERO,
            slots: slots.collect(),
            messages: Vec::new(),
            cuts: Vec::new(),
            relayed: Vec::new(),
            left,
            delivered: false,
            delivered_twice: None,
            broken: None,
            fingerprint: 0,
        };
        state.seal();
        state
    }

    /// From now on these links lead nowhere, each in one direction.
    pub(crate) fn breaks(&mut self, links: &[(u8, u8)]) {
        self.cuts.extend(links);
        self.cuts.sort_unstable();
        self.cuts.dedup();
        self.seal();
    }

    /// Returns all running nodes.
    pub(crate) fn running(&self) -> impl Iterator<Item = (u8, &Node)> {
        let nodes = self.slots.iter().enumerate();
        nodes.filter_map(|(index, slot)| Some((index as u8, &**slot.node.as_ref()?)))
    }

    /// Returns a number that equal states have in common.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Takes one step. `false` if it is not possible here; then the state is to be thrown away.
    pub(crate) fn step(&mut self, action: Action, rules: &Rules<'_>) -> bool {
        let before = self.now;
        let (possible, disturbs) = match action {
            Action::Deliver(flight) => (self.deliver(flight, rules), false),
            Action::Lose(flight) => (self.left.losses.spend() && self.take(flight).is_some(), true),
            Action::Double(flight) => (self.left.doubles.spend() && self.double(flight), true),
            Action::Fire(node, timer) => {
                let late = self.is_busy();
                let fired = self.fire(node, timer, rules);
                let moved = late && self.now > before;
                (fired && (!moved || self.left.late.spend()), moved)
            }
            Action::Create(node) => (self.command(node, Command::Create, rules), true),
            Action::Join(node) => (self.join(node, rules), true),
            Action::Leave(node) => {
                let possible = self.left.leaves.spend() && self.command(node, Command::Leave, rules);
                // Whoever has left is not expected back.
                self.slots[usize::from(node)].told = false;
                (possible, true)
            }
            Action::Crash(node) => (self.left.crashes.spend() && self.crash(node), true),
            Action::Restart(node) => (self.left.restarts.spend() && self.restart(node, rules), true),
            Action::Pause(node) => (self.left.pauses.spend() && self.pause(node), true),
            Action::Resume(node) => (self.resume(node, rules), true),
            Action::Suspect(by, of) => (self.left.suspicions.spend() && self.suspect(by, of, rules), true),
            Action::Cut(a, b) => (self.left.cuts.spend() && self.cut(a, b), true),
            Action::CutOff(node) => {
                let others = (0..self.slots.len() as u8).filter(|other| *other != node);
                let cut = others.filter(|other| self.cut(node, *other)).count() > 0;
                (self.left.cut_offs.spend() && cut, true)
            }
            Action::Mend => (!std::mem::take(&mut self.cuts).is_empty(), true),
            Action::Relay => (self.left.relays.spend() && self.relay(), true),
            Action::Route(node) => {
                let app = App { purpose: 16, bytes: vec![1] };
                let deadline = std::time::Duration::from_secs(20);
                let command = Command::Route { key: rules.key, app, deadline };
                (self.left.routes.spend() && self.command(node, command, rules), true)
            }
            Action::Upcall(node) => (self.upcall(node, rules), false),
        };
        if disturbs {
            self.since = self.now;
        }
        if possible {
            self.seal();
        }
        possible
    }

    /// Says whether something is under way that takes no time, unless it is slow.
    pub(crate) fn is_busy(&self) -> bool {
        let waits = |slot: &Slot| slot.paused.is_none() && !slot.upcalls.is_empty();
        let on_time = |message: &Message| !self.relayed.contains(&(message.from, message.to));
        self.messages.iter().any(on_time) || self.slots.iter().any(waits)
    }

    /// Names all messages in flight. Of two that are the same in every way, only the first.
    pub(crate) fn flights(&self) -> Vec<Flight> {
        let mut flights: Vec<Flight> = Vec::new();
        let mut named = Vec::new();
        for (at, message) in self.messages.iter().enumerate() {
            let kind = message.body.kind();
            let alike = |other: &&(u8, u8, _)| **other == (message.from, message.to, kind);
            let nth = 1 + named.iter().filter(alike).count() as u8;
            named.push((message.from, message.to, kind));
            if !self.messages[..at].contains(message) {
                flights.push(Flight { from: message.from, to: message.to, kind, nth });
            }
        }
        flights
    }

    /// Returns the timers that are due first.
    pub(crate) fn due(&self) -> Vec<(u8, Timer)> {
        let mut earliest = NEVER;
        let mut due = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            if slot.node.is_none() || slot.paused.is_some() {
                continue;
            }
            for timer in Timer::ALL {
                // What is overdue fires now, like what is due now.
                let at = slot.timers[*timer as usize].max(self.now);
                if at < earliest {
                    earliest = at;
                    due.clear();
                }
                if at == earliest && at != NEVER {
                    due.push((index as u8, *timer));
                }
            }
        }
        due
    }

    /// Returns when the first timer is due.
    pub(crate) fn deadline(&self) -> Time {
        self.due().first().map_or(NEVER, |(node, timer)| {
            self.slots[usize::from(*node)].timers[*timer as usize].max(self.now)
        })
    }

    fn position(&self, flight: Flight) -> Option<usize> {
        let fits = |message: &Message| {
            (message.from, message.to, message.body.kind()) == (flight.from, flight.to, flight.kind)
        };
        let mut all = self.messages.iter().enumerate().filter(|(_, message)| fits(message));
        all.nth(usize::from(flight.nth).checked_sub(1)?).map(|(at, _)| at)
    }

    fn take(&mut self, flight: Flight) -> Option<Message> {
        self.position(flight).map(|at| self.messages.remove(at))
    }

    fn double(&mut self, flight: Flight) -> bool {
        let copy = self.position(flight).map(|at| self.messages[at].clone());
        let possible = copy.is_some();
        self.messages.extend(copy);
        possible
    }

    fn deliver(&mut self, flight: Flight, rules: &Rules<'_>) -> bool {
        let Some(Message { to, sender, body, .. }) = self.take(flight) else { return false };
        let slot = &mut self.slots[usize::from(to)];
        if let Some(arrived) = &mut slot.paused {
            arrived.push((sender, body));
            return true;
        }
        self.fire_due(to, rules);
        self.message(to, sender, body, rules);
        true
    }

    fn message(&mut self, to: u8, from: Contact, body: Arc<Body>, rules: &Rules<'_>) {
        let body = Arc::unwrap_or_clone(body);
        self.input(to, Input::Message { from, body }, rules);
    }

    /// The contract of the edge: due timers before any other input.
    fn fire_due(&mut self, node: u8, rules: &Rules<'_>) {
        loop {
            let slot = &mut self.slots[usize::from(node)];
            let due = Timer::ALL.iter().find(|timer| slot.timers[**timer as usize] <= self.now);
            let Some(timer) = due else { return };
            slot.timers[*timer as usize] = NEVER;
            self.input(node, Input::Timer(*timer), rules);
        }
    }

    fn fire(&mut self, node: u8, timer: Timer, rules: &Rules<'_>) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(node)) else { return false };
        let at = slot.timers[timer as usize];
        if at == NEVER || slot.node.is_none() || slot.paused.is_some() {
            return false;
        }
        slot.timers[timer as usize] = NEVER;
        self.now = self.now.max(at);
        self.input(node, Input::Timer(timer), rules);
        true
    }

    fn command(&mut self, node: u8, command: Command, rules: &Rules<'_>) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(node)) else { return false };
        slot.told = true;
        let possible = slot.node.is_some() && slot.paused.is_none();
        self.input(node, Input::Command { request: RequestId(node.into()), command }, rules);
        possible
    }

    fn join(&mut self, node: u8, rules: &Rules<'_>) -> bool {
        let others = rules.seeds.iter().filter(|seed| **seed != node);
        let seeds = others.map(|seed| self.slots[usize::from(*seed)].contact).collect();
        self.command(node, Command::Join { seeds }, rules)
    }

    fn crash(&mut self, node: u8) -> bool {
        let slot = &mut self.slots[usize::from(node)];
        slot.timers = [NEVER; Timer::ALL.len()];
        slot.paused = None;
        slot.upcalls.clear();
        // What was meant for this life does not arrive in the next.
        self.messages.retain(|message| message.to != node);
        self.slots[usize::from(node)].node.take().is_some()
    }

    fn restart(&mut self, node: u8, rules: &Rules<'_>) -> bool {
        let slot = &mut self.slots[usize::from(node)];
        if slot.node.is_some() {
            return false;
        }
        slot.contact.incarnation += 1;
        let Contact { id, incarnation, addr } = slot.contact;
        slot.node = Some(Arc::new(Node::pastry(id, incarnation, addr, rules.config)));
        self.join(node, rules)
    }

    fn pause(&mut self, node: u8) -> bool {
        let slot = &mut self.slots[usize::from(node)];
        let possible = slot.node.is_some() && slot.paused.is_none();
        slot.paused.get_or_insert_default();
        possible
    }

    fn resume(&mut self, node: u8, rules: &Rules<'_>) -> bool {
        let Some(arrived) = self.slots[usize::from(node)].paused.take() else { return false };
        self.fire_due(node, rules);
        for (from, body) in arrived {
            self.message(node, from, body, rules);
        }
        true
    }

    /// Somebody tells `by` that `of` is dead, and the ping that would show otherwise is lost. The probe runs out in its
    /// own time.
    fn suspect(&mut self, by: u8, of: u8, rules: &Rules<'_>) -> bool {
        let dead = self.slots[usize::from(of)].contact;
        let third = (0..self.slots.len() as u8).find(|other| *other != by && *other != of);
        let Some(third) = third else { return false };
        if self.slots[usize::from(by)].paused.is_some() {
            return false;
        }
        let from = self.slots[usize::from(third)].contact;
        let sent = self.messages.len();
        self.fire_due(by, rules);
        self.message(by, from, Arc::new(Body::Pastry(Pastry::Obituary(dead))), rules);
        let is_ping = |message: &Message| message.to == of && matches!(*message.body, Body::Ping(_));
        let ping = self.messages.iter().skip(sent).position(is_ping);
        ping.map(|at| self.messages.remove(sent + at)).is_some()
    }

    fn cut(&mut self, a: u8, b: u8) -> bool {
        if self.cuts.binary_search(&(a, b)).is_ok() {
            return false;
        }
        self.breaks(&[(a, b), (b, a)]);
        true
    }

    /// The ends of cut links find a node that reaches both.
    fn relay(&mut self) -> bool {
        let reaches = |via: u8, end: u8| self.cuts.binary_search(&(via, end)).is_err();
        let bridged = |(a, b): &(u8, u8)| {
            let mut others = self.running().map(|(via, _)| via).filter(|via| via != a && via != b);
            others.any(|via| reaches(via, *a) && reaches(via, *b))
        };
        let possible = !self.cuts.is_empty() && self.cuts.iter().all(bridged);
        self.relayed = std::mem::take(&mut self.cuts);
        possible
    }

    /// The driver reads the clock right before the call, and does not make it if it is too late.
    fn upcall(&mut self, node: u8, rules: &Rules<'_>) -> bool {
        let slot = &mut self.slots[usize::from(node)];
        if slot.paused.is_some() {
            return false;
        }
        let Some((routed, not_after)) = slot.upcalls.pop_front() else { return false };
        let routed = Arc::unwrap_or_clone(routed);
        if not_after.is_some_and(|end| self.now > end) && rules.config.rule(Safeguard::NotAfter) {
            self.input(node, Input::DeliverRefused { routed: Box::new(routed) }, rules);
            return true;
        }
        let Routed { key, origin: to, serial, hops, payload, .. } = routed;
        let other =
            |(index, other): &(u8, &Node)| *index != node && other.delivers(key, self.now, rules.config);
        let other = self.running().find(other).map(|(index, _)| (node, index));
        self.delivered = true;
        self.delivered_twice = self.delivered_twice.or(other);
        if let Payload::App(app) = payload {
            self.input(node, Input::Answer { to, serial, hops, bytes: Some(app.bytes) }, rules);
        }
        true
    }

    /// Hands an input to a node and executes what it wants done.
    fn input(&mut self, node: u8, input: Input, rules: &Rules<'_>) {
        let mut soon = VecDeque::from([input]);
        while let Some(input) = soon.pop_front() {
            let slot = &mut self.slots[usize::from(node)];
            let Some(running) = &mut slot.node else { return };
            let running = Arc::make_mut(running);
            let mut out = Outbox::new();
            let mut cx = Ctx {
                now: self.now,
                config: rules.config,
                dice: &mut StillDice::of(node.into(), slot.contact.incarnation),
                wall: 0,
                records: &NoRecords,
                out: &mut out,
            };
            let handled = catch_unwind(AssertUnwindSafe(|| {
                running.handle(input, &mut cx);
                // Without a rule a node may well be in a state it must not be in.
                if rules.config.without.is_none() {
                    running.check_invariants(rules.config);
                }
            }));
            if handled.is_err() {
                self.broken = Some(format!("node {node} breaks its own rules"));
            }
            for output in out.drain() {
                self.execute(node, output, &mut soon);
            }
        }
    }

    fn execute(&mut self, node: u8, output: Output, soon: &mut VecDeque<Input>) {
        let slot = &mut self.slots[usize::from(node)];
        match output {
            Output::Send { to, body, .. } => self.send(node, to, body),
            Output::Forward { to, routed } => self.send(node, to, Body::Routed(*routed)),
            Output::Deliver { routed, not_after } => slot.upcalls.push_back((Arc::new(*routed), not_after)),
            Output::Measure { peer } => {
                soon.push_back(Input::Measured { peer: peer.id, proximity: PROXIMITY })
            }
            Output::SetTimer { timer, at } => slot.timers[timer as usize] = at.max(self.now),
            Output::CancelTimer { timer } => slot.timers[timer as usize] = NEVER,
            Output::Reply { .. } | Output::Event(_) | Output::Note(_) | Output::Persist { .. } => {}
        }
    }

    fn send(&mut self, from: u8, to: Contact, body: Body) {
        let Some(target) = self.slots.get(to.addr.0 as usize) else { return };
        let index = to.addr.0 as u8;
        let gone = target.node.is_none() || target.contact.incarnation < to.incarnation;
        if gone || self.cuts.binary_search(&(from, index)).is_ok() {
            return;
        }
        let sender = self.slots[usize::from(from)].contact;
        self.messages.push(Message { from, to: index, sender, body: Arc::new(body) });
    }

    /// Computes the fingerprint of a finished step.
    fn seal(&mut self) {
        let mut print = Fingerprint::at(self.now);
        for slot in &self.slots {
            (&slot.node, slot.contact.incarnation, slot.told).hash(&mut print);
            (&slot.timers, &slot.paused, &slot.upcalls).hash(&mut print);
        }
        (self.since, &self.cuts, &self.relayed, &self.left, self.delivered, self.delivered_twice)
            .hash(&mut print);
        // In an order that does not depend on when they were sent.
        let mut order: Vec<(u64, &Message)> = Vec::with_capacity(self.messages.len());
        for message in &self.messages {
            order.push((print.aside(|print| message.hash(print)), message));
        }
        order.sort_by_key(|(hash, message)| (message.from, message.to, *hash));
        order.iter().for_each(|(_, message)| message.hash(&mut print));
        self.fingerprint = print.finish();
    }
}

impl Hash for Message {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.from, self.to, self.sender.incarnation, &*self.body).hash(state);
    }
}
