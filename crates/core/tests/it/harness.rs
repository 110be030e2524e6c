//! Everything around the one node under test: its clock, its timers, and the peers it believes to have.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kringle_core::config::{Config, Ownership, Settings};
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::dice::SeededDice;
use kringle_core::edge::{Command, Ctx, Input, Note, Outbox, Output, Refusal, RequestId, Timer};
use kringle_core::id::{Id, Key};
use kringle_core::message::{App, Body, HopAck, Nonce, Payload, Routed, Stage};
use kringle_core::node::Node;
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::routing_table::Entry;
use kringle_core::overlay::pastry::{
    Announce, Join, JoinReply, LeafProbe, LeafReply, Message, Pastry, StateReply, StateRequest, Versions,
    What,
};
use kringle_core::records::NoRecords;
use kringle_core::time::Time;

pub(crate) use crate::outputs::*;

/// The node whose id starts with these eight digits.
pub(crate) fn peer(digits: u32) -> Contact {
    Contact::new(key(digits), 1, Addr(digits))
}

/// The same node in another life.
pub(crate) fn life(digits: u32, incarnation: u32) -> Contact {
    Contact { incarnation, ..peer(digits) }
}

/// The point of the ring that starts with these eight digits.
pub(crate) fn key(digits: u32) -> Key {
    Id::new(u128::from(digits) << 96)
}

pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Defaults without background work, so that what comes out is the answer to what went in.
pub(crate) fn calm() -> Settings {
    let never = Duration::from_secs(1_000_000);
    Settings {
        heartbeat: never,
        leaf_exchange: never,
        row_swap: never,
        neighbourhood_exchange: never,
        heal: never,
        join_first: false,
        ownership: Ownership::Hint,
        ..Settings::default()
    }
}

/// As [`calm`], but with one leaf on each side: rings of four already have nodes that are no leaves.
pub(crate) fn narrow() -> Settings {
    Settings { leaf_set: 2, replicas: 0, ..calm() }
}

/// One node, and all that a driver keeps for it.
pub(crate) struct Driver {
    pub(crate) node: Node,
    pub(crate) config: Config,
    pub(crate) now: Time,
    dice: SeededDice,
    out: Outbox,
    timers: BTreeMap<Timer, Time>,
}

/// A peer nobody knows, for messages whose sender must not matter.
pub(crate) const STRANGER: u32 = 0x7777_7777;

impl Driver {
    /// A node that is out of any ring.
    pub(crate) fn out(me: Contact, settings: Settings) -> Driver {
        let config = settings.check().expect("settings of a test follow the rules");
        Driver {
            node: Node::by_config(me.id, me.incarnation, me.addr, &config),
            config,
            now: Time::from_micros(1_000_000),
            dice: SeededDice::new(7),
            out: Outbox::new(),
            timers: BTreeMap::new(),
        }
    }

    /// A ring of one.
    pub(crate) fn founder(me: Contact, settings: Settings) -> Driver {
        let mut driver = Driver::out(me, settings);
        driver.command(0, Command::Create);
        assert_eq!(driver.node.status(), Status::Ready);
        driver
    }

    /// A founder to which these peers have introduced themselves. Nothing is measured, no probe is open.
    pub(crate) fn ready(me: Contact, peers: &[Contact], settings: Settings) -> Driver {
        let mut driver = Driver::founder(me, settings);
        for peer in peers {
            driver.introduce(*peer);
        }
        driver
    }

    /// A joiner whose join is on its way to this seed, without a search. Returns the join, too.
    pub(crate) fn joining(me: Contact, seed: Contact, settings: Settings) -> (Driver, Routed) {
        let mut driver = Driver::out(me, Settings { find_nearby: false, ..settings });
        let outputs = driver.command(0, Command::Join { seeds: vec![seed] });
        let routed = routed_to(&outputs, seed);
        driver.hear(seed, ack(routed.hop));
        (driver, routed)
    }

    /// A node that joined through `root` into a ring of that node and these leaves. It has a seed to go back to.
    pub(crate) fn joined(me: Contact, root: Contact, leaves: &[Contact], settings: Settings) -> Driver {
        let (mut driver, routed) = Driver::joining(me, root, settings);
        let outputs = driver.hear(root, join_reply(&routed, true, leaves));
        driver.answer_probes(outputs);
        assert_eq!(driver.node.status(), Status::Ready);
        driver
    }

    /// Feeds one input. The node's inner rules are checked after every one.
    pub(crate) fn feed(&mut self, input: Input) -> Vec<Output> {
        let mut cx = Ctx {
            now: self.now,
            config: &self.config,
            dice: &mut self.dice,
            wall: 0,
            records: &NoRecords,
            out: &mut self.out,
        };
        self.node.handle(input, &mut cx);
        self.node.check_invariants(&self.config);
        let outputs: Vec<Output> = self.out.drain().collect();
        for output in &outputs {
            match output {
                Output::SetTimer { timer, at } => {
                    self.timers.insert(*timer, *at);
                }
                Output::CancelTimer { timer } => {
                    self.timers.remove(timer);
                }
                _ => {}
            }
        }
        outputs
    }

    pub(crate) fn command(&mut self, request: u64, command: Command) -> Vec<Output> {
        self.feed(Input::Command { request: RequestId(request), command })
    }

    pub(crate) fn hear(&mut self, from: Contact, body: Body) -> Vec<Output> {
        self.feed(Input::Message { from, body })
    }

    pub(crate) fn hear_pastry(&mut self, from: Contact, message: Message) -> Vec<Output> {
        self.hear(from, Body::Pastry(message))
    }

    /// Lets time pass; every timer that becomes due fires at its time.
    pub(crate) fn wait(&mut self, span: Duration) -> Vec<Output> {
        let end = self.now.after(span);
        let mut outputs = Vec::new();
        while let Some((&timer, &at)) =
            self.timers.iter().filter(|(_, at)| **at <= end).min_by_key(|(_, at)| **at)
        {
            self.timers.remove(&timer);
            self.now = self.now.max(at);
            outputs.extend(self.feed(Input::Timer(timer)));
        }
        self.now = end;
        outputs
    }

    /// Lets time pass up to this timer, which must be the next to fire.
    pub(crate) fn fire(&mut self, timer: Timer) -> Vec<Output> {
        let at = self.due(timer).expect("the timer is set");
        assert!(self.timers.values().all(|other| *other >= at), "{timer:?} is not next: {:?}", self.timers);
        self.timers.remove(&timer);
        self.now = self.now.max(at);
        self.feed(Input::Timer(timer))
    }

    /// When a timer will fire.
    pub(crate) fn due(&self, timer: Timer) -> Option<Time> {
        self.timers.get(&timer).copied()
    }

    /// How long it is until a timer fires.
    pub(crate) fn left(&self, timer: Timer) -> Duration {
        self.due(timer).expect("the timer is set").since(self.now)
    }

    /// A peer introduces itself as a neighbour.
    pub(crate) fn introduce(&mut self, peer: Contact) -> Vec<Output> {
        let probe = LeafProbe { nonce: 0, seen: None, leaves: Vec::new(), digest: None };
        self.hear_pastry(peer, Message::LeafProbe(Box::new(probe)))
    }

    /// A peer says that it has joined, and turns out to be this near if it is measured.
    pub(crate) fn announce(&mut self, peer: Contact, micros: u32) -> Vec<Output> {
        let held = !self.cell(peer).is_empty();
        let mut outputs = self.claim(peer, micros);
        let pinged =
            |outputs: &[Output]| sent_to(outputs, peer).iter().any(|body| matches!(body, Body::Ping(_)));
        if !held && pinged(&outputs) {
            let nonce = ping_to(&outputs, peer);
            outputs.retain(|output| !is_to(output, peer));
            self.now = self.now.after(Duration::from_micros(micros.into()));
            outputs.extend(self.hear(peer, Body::Pong(nonce)));
        }
        outputs
    }

    /// A peer says that it has joined, and that it is this near.
    pub(crate) fn claim(&mut self, peer: Contact, micros: u32) -> Vec<Output> {
        let announce = Announce { seen: None, proximity: Proximity(micros), round: 0 };
        self.hear_pastry(peer, Message::Announce(announce))
    }

    /// Somebody names candidates. Returns what the node does about them.
    pub(crate) fn push(&mut self, candidates: &[Contact]) -> Vec<Output> {
        let outputs = self.hear_pastry(peer(STRANGER), request(0, What::Neighbourhood, candidates));
        outputs.into_iter().filter(|output| !is_to(output, peer(STRANGER))).collect()
    }

    /// Has a peer probed and answers after the given time, so that its round trip is known.
    pub(crate) fn measure(&mut self, peer: Contact, rtt: Duration) -> Vec<Output> {
        let outputs = self.hear_pastry(self::peer(STRANGER), Message::Obituary(peer));
        self.answer_after(peer, &outputs, rtt)
    }

    /// Answers the ping to `peer` among the outputs after the given time.
    pub(crate) fn answer_after(&mut self, peer: Contact, outputs: &[Output], rtt: Duration) -> Vec<Output> {
        let nonce = ping_to(outputs, peer);
        let passed = self.wait(rtt);
        assert!(sent(&passed).is_empty(), "a timer came between: {passed:?}");
        self.hear(peer, Body::Pong(nonce))
    }

    /// Answers every probe among the outputs, and every one that follows from the answers, at once.
    pub(crate) fn answer_probes(&mut self, outputs: Vec<Output>) -> Vec<Output> {
        let mut queue: VecDeque<Output> = outputs.into();
        let mut seen = Vec::new();
        while let Some(output) = queue.pop_front() {
            if let Output::Send { to, body, .. } = &output
                && let Some(answer) = answer_to(body)
            {
                queue.extend(self.hear(*to, answer));
            }
            seen.push(output);
        }
        seen
    }

    /// Lets a peer miss every probe until it is dead.
    pub(crate) fn kill(&mut self, peer: Contact) -> Vec<Output> {
        let mut outputs = self.hear_pastry(self::peer(STRANGER), Message::Obituary(peer));
        while !notes(&outputs).contains(&Note::Died(peer)) {
            let left = self.left(Timer::Probe);
            outputs.extend(self.wait(left));
        }
        outputs
    }

    pub(crate) fn pastry(&self) -> &Pastry {
        self.node.overlay().as_pastry().expect("these are tests of Pastry")
    }

    /// The members of the leaf set, clockwise from the node.
    pub(crate) fn leaves(&self) -> Vec<Contact> {
        self.pastry().router().leaf_set().members().to_vec()
    }

    /// Holder and spares of a peer's cell.
    pub(crate) fn cell(&self, peer: Contact) -> Vec<Contact> {
        let table = self.pastry().router().table();
        let (row, column) = table.place(peer.id).expect("not the node itself");
        table.cell(row, column).map(|entry| entry.contact).collect()
    }

    pub(crate) fn knows(&self, peer: Contact) -> bool {
        self.pastry().router().get(peer.id).is_some()
    }

    pub(crate) fn suspects(&self, peer: Contact) -> bool {
        self.pastry().suspects().contains(&peer.id)
    }

    pub(crate) fn versions(&self) -> Versions {
        self.pastry().router().versions()
    }

    pub(crate) fn lookup(&mut self, request: u64, key: Key) -> Vec<Output> {
        let command = Command::Lookup { key, trace: false, deadline: Duration::from_secs(60) };
        self.command(request, command)
    }

    pub(crate) fn route(&mut self, request: u64, key: Key, bytes: &[u8]) -> Vec<Output> {
        let command = Command::Route { key, app: app(bytes), deadline: Duration::from_secs(60) };
        self.command(request, command)
    }

    /// Feeds a message and says whether it was refused for this reason, with nothing else done about it.
    pub(crate) fn refuses(&mut self, from: Contact, body: Body, refusal: Refusal) -> bool {
        let before = self.node.clone();
        let outputs = self.hear(from, body);
        outputs == [Output::Note(Note::Refused(refusal))] && self.node == before
    }
}

/// Carries messages between nodes until nobody says anything more. Applications let everything pass.
pub(crate) fn carry(nodes: &mut [Driver], from: usize, outputs: Vec<Output>) -> Vec<Output> {
    let mut queue: VecDeque<(usize, Output)> = outputs.into_iter().map(|output| (from, output)).collect();
    let mut seen = Vec::new();
    while let Some((from, output)) = queue.pop_front() {
        let message = match &output {
            Output::Send { to, body, .. } => Some((*to, body.clone())),
            Output::Forward { to, routed } => Some((*to, Body::Routed(Routed::clone(routed)))),
            _ => None,
        };
        if let Some((to, body)) = message {
            let sender = nodes[from].node.me();
            let at = nodes.iter().position(|driver| driver.node.me() == to).expect("the receiver is there");
            queue.extend(nodes[at].hear(sender, body).into_iter().map(|output| (at, output)));
        }
        seen.push(output);
    }
    seen
}

/// What a live peer answers to a probe; it has no news about leaves.
pub(crate) fn answer_to(body: &Body) -> Option<Body> {
    match body {
        Body::Ping(nonce) => Some(Body::Pong(*nonce)),
        Body::Pastry(Message::LeafProbe(probe)) => Some(leaf_reply(probe.nonce, None)),
        _ => None,
    }
}

pub(crate) fn app(bytes: &[u8]) -> App {
    App { purpose: 1, bytes: bytes.to_vec() }
}

/// A lookup of somebody else, as a hop sends it.
pub(crate) fn lookup_from(origin: Contact, key: Key, serial: u32) -> Routed {
    Routed { key, origin, payload: Payload::Lookup, serial, hop: serial, hops: 1, stage: Stage::Prefix }
}

/// An application's message of somebody else, as a hop sends it.
pub(crate) fn app_from(origin: Contact, key: Key, serial: u32) -> Routed {
    Routed { payload: Payload::App(Box::new(app(b"bytes"))), ..lookup_from(origin, key, serial) }
}

/// A fresh join, as the joiner sends it.
pub(crate) fn join_from(joiner: Contact, nonce: Nonce) -> Routed {
    let join = Join { nonce, rows_done: 0, path: Vec::new(), contacts: Vec::new() };
    Routed { payload: Payload::Join(Box::new(join)), ..lookup_from(joiner, joiner.id, nonce) }
}

pub(crate) fn ack(hop: Nonce) -> Body {
    Body::HopAck(HopAck { hop, taken: true, better: None })
}

pub(crate) fn no_ack(hop: Nonce) -> Body {
    Body::HopAck(HopAck { hop, taken: false, better: None })
}

/// The root's answer to a join on whose way nothing was collected.
pub(crate) fn join_reply(routed: &Routed, whole: bool, leaves: &[Contact]) -> Body {
    let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
    let (join, leaves) = (Join::clone(join), leaves.to_vec());
    let versions = Versions::default();
    Body::Pastry(Message::JoinReply(Box::new(JoinReply { join, whole, leaves, versions })))
}

pub(crate) fn leaf_reply(nonce: Nonce, leaves: Option<&[Contact]>) -> Body {
    let leaves = leaves.map(<[Contact]>::to_vec);
    Body::Pastry(Message::LeafReply(Box::new(LeafReply { nonce, version: 1, leaves })))
}

pub(crate) fn request(nonce: Nonce, what: What, push: &[Contact]) -> Message {
    let push = push.iter().copied().map(Entry::unmeasured).collect();
    Message::StateRequest(Box::new(StateRequest { nonce, what, push, proximity: Proximity::UNKNOWN }))
}

pub(crate) fn reply(nonce: Nonce, what: What, contacts: &[Contact]) -> Message {
    let contacts = contacts.iter().copied().map(Entry::unmeasured).collect();
    Message::StateReply(Box::new(StateReply { nonce, what, contacts }))
}

/// The nodes of a list that says how near they are.
pub(crate) fn contacts_of(entries: &[Entry]) -> Vec<Contact> {
    entries.iter().map(|entry| entry.contact).collect()
}
