//! The world: nodes, a clock, an event queue. `step` is the whole simulator.

mod clocks;
mod disk;
mod formed;
mod growth;
mod held;
mod opening;
mod stops;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kringle_core::config::{Config, Safeguard, Settings};
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{
    Command, Ctx, Dial, Event, Failure, Input, Note, Outbox, Output, Reply, RequestId, Timer, Verdict,
};
use kringle_core::id::{Id, Key, NodeId};
use kringle_core::message::{App, Body, Payload, Routed};
use kringle_core::node::Node;
use kringle_core::overlay::Status;
use kringle_core::records::{NoRecords, Records};
use kringle_core::time::Time;
use kringle_core::wire;

use self::clocks::Clock;
use self::disk::{Disk, Stores};
pub use self::disk::{DiskOptions, Snapshot, StoreMaker};
use self::held::{Held, SlotDice};
pub use self::held::{HeldMessage, StillDice};
use crate::network::{Network, Topology};
use crate::queue::{Either, Queue};
use crate::tally::Tally;

/// Many nodes under one virtual clock. Everything in it follows from the settings, the seed and the calls made.
pub struct World {
    /// What lies between the nodes. Change it at any time.
    pub network: Network,
    /// What happened so far, by kind.
    pub tally: Tally,
    /// Whether every message is encoded and decoded on its way, as on a real wire.
    pub through_wire: bool,
    /// Whether nodes check their own invariants after every input.
    pub check: bool,
    config: Config,
    make: Maker,
    /// How nodes get a store, and what their disks are like, if they have any.
    stores: Option<Box<Stores>>,
    seed: u64,
    now: Time,
    slots: Vec<Slot>,
    /// The lives of all slots once more, close together: a sender reads the receiver's.
    lives: Vec<u32>,
    queue: Queue<Arrival, Alarm>,
    pushed: u64,
    out: Outbox,
    connections: BTreeSet<(u32, u32)>,
    /// When each connection is open, if opening one takes time.
    opened: BTreeMap<(u32, u32), Time>,
    /// Pairs that have been trying to talk although their link is cut, and since when.
    parted: BTreeMap<(u32, u32), Time>,
    requests: u64,
    replies: Vec<Answered>,
    deliveries: Vec<Delivery>,
    recording: Option<Vec<(u32, Input)>>,
    hook: Option<Hook>,
    /// This node is stopped right before the next call of its application.
    stop_before_upcall: Option<u32>,
    /// What waits to be told when to arrive, in a world that follows a schedule.
    held: Option<Box<Held>>,
    /// Lookups of fingers, while a ring is formed.
    fingers: Option<Vec<formed::Finger>>,
    trace: u64,
    handled: u64,
    /// The node that handled the last of them.
    touched: u32,
    /// How many events are left of those whose memory was read ahead.
    warm: usize,
    /// Nodes whose disks turned out to be old copies.
    outdated: Vec<u32>,
}

/// How a world makes its nodes.
pub type Maker = fn(NodeId, u32, Addr, &Config) -> Node;

/// An application's say in forwarding: the node, the message, the next hop.
pub type Hook = Box<dyn FnMut(u32, &Routed, Contact) -> Option<Verdict>>;

/// One place in the world, with the node that lives there now. What every event reads comes first.
#[repr(C)]
struct Slot {
    /// When the first of the timers is due, or earlier.
    due: Time,
    /// Counts crashes and restarts: what was meant for an earlier life does not arrive.
    life: u32,
    paused: Option<Box<stops::Paused>>,
    /// The clock of this place, if it does not show the time of the world.
    clock: Option<Box<Clock>>,
    /// What this place stores, in a world with stores.
    disk: Option<Box<Disk>>,
    node: Option<Node>,
    contact: Contact,
    dice: SlotDice,
    timers: [Time; Timer::ALL.len()],
}

/// Names of independent streams of chance within one seed.
const IDS: u64 = 1 << 40;
const SEEDS: u64 = 2 << 40;

/// How long real nodes take to notice that a link is dead, and to find a third one: about a second.
const RELAYED_AFTER: Duration = Duration::from_secs(1);

/// How many events are looked at together before they are handled.
const WARM: usize = 24;

/// A timer that is not set.
const NEVER: Time = Time::from_micros(u64::MAX);

/// Something on its way to a node.
struct Arrival {
    to: u32,
    life: u32,
    /// Whom the sender believes to be there, in which incarnation at least; a transport notices that it is somebody
    /// else.
    meant: Option<(NodeId, u32)>,
    input: Input,
}

/// What happens at a time of its own.
enum Alarm {
    Fires {
        node: u32,
        life: u32,
        timer: Timer,
    },
    /// A sync of a disk ends.
    Synced {
        node: u32,
        life: u32,
    },
    /// Ends a run: the queue may only move forward, so it must not look beyond.
    Stop,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// When it was given.
    pub at: Time,
    /// By which node.
    pub node: u32,
    /// The number of the command.
    pub request: RequestId,
    /// What it said.
    pub reply: Result<Reply, Failure>,
}

/// A message given to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When.
    pub at: Time,
    /// At which node.
    pub node: u32,
    /// For which key.
    pub key: Key,
    /// Sent by whom.
    pub origin: NodeId,
    /// Its number there.
    pub serial: u32,
}

impl Slot {
    /// Says whether whoever lives here is who a sender means.
    fn is_meant(&self, id: NodeId, incarnation: u32) -> bool {
        self.contact.id == id && self.contact.incarnation >= incarnation
    }
}

impl World {
    /// Makes an empty world of Pastry nodes.
    ///
    /// # Panics
    /// If the settings break a rule.
    pub fn new(settings: Settings, seed: u64) -> World {
        World::of(Node::by_config, settings, seed)
    }

    /// Makes an empty world whose nodes are made by `make`.
    ///
    /// # Panics
    /// If the settings break a rule.
    pub fn of(make: Maker, settings: Settings, seed: u64) -> World {
        let config = settings.check().expect("the settings of a world pass their rules");
        let topology = Topology::Flat { min: Duration::from_millis(1), max: Duration::from_millis(10) };
        World {
            network: Network::new(topology, seed),
            tally: Tally::default(),
            through_wire: false,
            check: true,
            config,
            make,
            stores: None,
            seed,
            now: Time::ZERO,
            slots: Vec::new(),
            lives: Vec::new(),
            queue: Queue::new(),
            pushed: 0,
            out: Outbox::new(),
            connections: BTreeSet::new(),
            opened: BTreeMap::new(),
            parted: BTreeMap::new(),
            requests: 0,
            replies: Vec::new(),
            deliveries: Vec::new(),
            recording: None,
            hook: None,
            stop_before_upcall: None,
            held: None,
            fingers: None,
            trace: 0xcbf2_9ce4_8422_2325,
            handled: 0,
            touched: 0,
            warm: 0,
            outdated: Vec::new(),
        }
    }

    /// Returns the configuration all nodes share.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns a hash of everything that has happened: equal seeds give equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.trace
    }

    /// Returns how many inputs nodes have handled.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Returns the node that handled the last input.
    pub fn touched(&self) -> u32 {
        self.touched
    }

    /// Returns how many events are pending.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Adds a node with this id, which is not part of a ring yet.
    pub fn spawn(&mut self, id: Id) -> u32 {
        let index = self.slots.len() as u32;
        let contact = Contact::new(id, 1, Addr(index));
        let (disk, node) = self.start(index, contact, None);
        let dice = match self.held {
            None => SlotDice::Seeded(SeededDice::derive(self.seed, index.into())),
            Some(_) => SlotDice::Still(StillDice::of(index, 1)),
        };
        self.slots.push(Slot {
            due: NEVER,
            life: 0,
            paused: None,
            clock: None,
            disk,
            node: Some(node),
            contact,
            dice,
            timers: [NEVER; Timer::ALL.len()],
        });
        self.lives.push(0);
        index
    }

    /// Adds a node with a random id.
    pub fn spawn_random(&mut self) -> u32 {
        self.spawn(self.random_id(self.slots.len() as u64))
    }

    fn random_id(&self, number: u64) -> Id {
        let mut dice = SeededDice::derive(self.seed ^ IDS, number);
        Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()))
    }

    /// Returns how a node is referred to.
    pub fn contact(&self, node: u32) -> Contact {
        self.slots[node as usize].contact
    }

    /// Returns a node that is running.
    pub fn node(&self, node: u32) -> Option<&Node> {
        self.slots.get(node as usize)?.node.as_ref()
    }

    /// Returns all running nodes.
    pub fn running(&self) -> impl Iterator<Item = (u32, &Node)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index as u32, slot.node.as_ref()?)))
    }

    /// Returns all nodes that are part of a ring and answer.
    pub fn ready(&self) -> impl Iterator<Item = (u32, &Node)> {
        self.running().filter(|(_, node)| node.status() == Status::Ready)
    }

    /// Returns how many places there are, occupied or not.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Says whether the world is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Stops a node without a word.
    pub fn crash(&mut self, node: u32) {
        let slot = &mut self.slots[node as usize];
        slot.node = None;
        slot.life += 1;
        self.lives[node as usize] = slot.life;
        slot.timers = [NEVER; Timer::ALL.len()];
        slot.paused = None;
        if let Some(disk) = &mut slot.disk {
            disk.lose_power();
        }
        self.connections.retain(|(a, b)| *a != node && *b != node);
        self.opened.retain(|(a, b), _| *a != node && *b != node);
        if let Some(held) = &mut self.held {
            held.forget(node);
        }
    }

    /// Starts a crashed node again: same id, next incarnation, empty memory.
    pub fn restart(&mut self, node: u32) {
        self.crash(node);
        let slot = &mut self.slots[node as usize];
        slot.contact.incarnation += 1;
        let contact = slot.contact;
        if let SlotDice::Still(dice) = &mut slot.dice {
            *dice = StillDice::of(node, contact.incarnation);
        }
        let disk = slot.disk.take();
        let (disk, running) = self.start(node, contact, disk);
        let full = disk.as_ref().is_some_and(|disk| disk.is_full());
        let slot = &mut self.slots[node as usize];
        (slot.disk, slot.node) = (disk, Some(running));
        if full {
            self.input(node, Input::Room { enough: false });
        }
    }

    /// Gives a command to a node, now. Returns the number its answer will carry.
    pub fn command(&mut self, node: u32, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.input(node, Input::Command { request, command });
        request
    }

    /// Starts a ring of one.
    pub fn create(&mut self, node: u32) -> RequestId {
        self.command(node, Command::Create)
    }

    /// Lets a node join through others.
    pub fn join(&mut self, node: u32, seeds: &[u32]) -> RequestId {
        let seeds = seeds.iter().map(|seed| self.contact(*seed)).collect();
        self.command(node, Command::Join { seeds })
    }

    /// Asks a node who answers for a key.
    pub fn lookup(&mut self, node: u32, key: Key) -> RequestId {
        self.command(node, Command::Lookup { key, trace: false, deadline: Duration::from_secs(20) })
    }

    /// Lets a node route bytes to a key.
    pub fn route(&mut self, node: u32, key: Key, bytes: &[u8]) -> RequestId {
        let app = App { purpose: 16, bytes: bytes.to_vec() };
        self.command(node, Command::Route { key, app, deadline: Duration::from_secs(20) })
    }

    /// Hands an input to a node, now. Does nothing if it is not running.
    pub fn input(&mut self, node: u32, input: Input) {
        self.hand(node, input);
        while let Some(node) = self.outdated.pop() {
            self.replace_disk(node);
        }
        // Nothing pops the queue of a world that follows a schedule.
        while let Some((node, input)) = self.held.as_mut().and_then(|held| held.next_soon()) {
            self.hand(node, input);
        }
    }

    fn hand(&mut self, node: u32, input: Input) {
        let slot = &mut self.slots[node as usize];
        let Some(running) = &mut slot.node else { return };
        let records: &dyn Records = match &slot.disk {
            None => &NoRecords,
            Some(disk) => disk.records(),
        };
        let mut cx = Ctx {
            now: slot.clock.as_ref().map_or(self.now, |clock| clock.at(self.now)),
            config: &self.config,
            dice: slot.dice.for_a_call(),
            wall: clocks::wall(self.now, slot.clock.as_deref()),
            records,
            out: &mut self.out,
        };
        running.handle(input, &mut cx);
        self.handled += 1;
        self.touched = node;
        if self.check {
            running.check_invariants(&self.config);
        }
        // Executing an output never calls back into a node, so the outbox can be lent out meanwhile.
        let mut out = std::mem::take(&mut self.out);
        for output in out.drain() {
            self.execute(node, output);
        }
        self.out = out;
        self.start_sync(node);
    }

    fn execute(&mut self, node: u32, output: Output) {
        match output {
            Output::Send { to, body, dial } => self.send(node, to, body, dial),
            Output::Forward { to, routed } => self.forward(node, to, *routed),
            Output::Deliver { routed, not_after } => match &mut self.held {
                Some(held) => held.upcall(node, *routed, not_after),
                None if self.stop_before_upcall == Some(node) => {
                    self.stop_in_upcall(node, *routed, not_after)
                }
                None => self.upcall(node, *routed, not_after),
            },
            Output::Measure { peer } => {
                let round_trip = self.network.delay(node, peer.addr.0) * 2;
                let proximity = Proximity(round_trip.as_micros() as u32);
                self.later(node, Input::Measured { peer: peer.id, proximity });
            }
            Output::SetTimer { timer, at } => {
                let slot = &mut self.slots[node as usize];
                let at = slot.clock.as_ref().map_or(at, |clock| clock.when(at)).max(self.now);
                slot.timers[timer as usize] = at;
                slot.due = slot.due.min(at);
                let life = slot.life;
                if self.held.is_none() {
                    self.push(at, Either::Small(Alarm::Fires { node, life, timer }));
                }
            }
            Output::CancelTimer { timer } => self.slots[node as usize].timers[timer as usize] = NEVER,
            Output::Reply { request, reply } => {
                self.mix(&[3, u64::from(node), request.0, u64::from(reply.is_ok())]);
                self.replies.push(Answered { at: self.now, node, request, reply });
            }
            Output::Persist { ticket, writes } => {
                if let Some(disk) = &mut self.slots[node as usize].disk {
                    disk.write(ticket, writes);
                }
            }
            Output::Event(Event::StoreOutdated) => self.outdated.push(node),
            Output::Event(_) => {}
            Output::Note(note) => {
                self.mix(&[4, u64::from(node), note.kind() as u64]);
                self.tally.note(note);
            }
        }
    }

    /// Hands an input to a node as soon as possible, but not from within another input.
    fn later(&mut self, node: u32, input: Input) {
        if let Some(held) = &mut self.held {
            return held.soon(node, input);
        }
        let life = self.slots[node as usize].life;
        self.push(self.now, Either::Large(Arrival { to: node, life, meant: None, input }));
    }

    fn push(&mut self, at: Time, event: Either<Arrival, Alarm>) {
        self.queue.push(at, self.pushed, event);
        self.pushed += 1;
    }

    fn send(&mut self, from: u32, to: Contact, body: Body, dial: Dial) {
        if self.fingers.is_some() && self.is_answered_at_once(from, to, &body) {
            return;
        }
        let target = to.addr.0;
        let link = (from.min(target), from.max(target));
        if dial == Dial::Never && self.network.sparse && !self.connections.contains(&link) {
            return self.later(from, Input::Unsent { to, body });
        }
        self.tally.message(body.kind());
        self.mix(&[1, u64::from(from), u64::from(target), body.kind() as u64]);
        if self.network.sparse {
            self.connections.insert(link);
        }
        let Some(&life) = self.lives.get(target as usize) else { return };
        let sender = self.slots[from as usize].contact;
        let body = if self.through_wire { self.through_wire(body) } else { body };
        let copies = match self.relay(from, target) {
            Some(via) => self.network.transmit_through(from, via, target),
            None => self.network.transmit(from, target),
        };
        if let Some(held) = &mut self.held {
            let slot = &self.slots[target as usize];
            if copies[0].is_some() && slot.node.is_some() && slot.is_meant(to.id, to.incarnation) {
                held.message(from, target, sender, body);
            }
            return;
        }
        let meant = Some((to.id, to.incarnation));
        let leaves = self.open(from, to);
        let mut arrive = |delay: Duration, body: Body| {
            let input = Input::Message { from: sender, body };
            let arrival = Arrival { to: target, life, meant, input };
            self.push(leaves.after(delay), Either::Large(arrival));
        };
        match copies {
            [Some(first), Some(second)] => {
                arrive(second, body.clone());
                arrive(first, body);
            }
            [Some(only), None] | [None, Some(only)] => arrive(only, body),
            [None, None] => {}
        }
    }

    /// Returns the node through which two others talk that cannot do so directly, once they have found one.
    fn relay(&mut self, from: u32, to: u32) -> Option<u32> {
        if !self.network.relays {
            return None;
        }
        let pair = (from.min(to), from.max(to));
        if !self.network.is_parted(from, to) {
            self.parted.remove(&pair);
            return None;
        }
        let since = *self.parted.entry(pair).or_insert(self.now);
        if self.now.since(since) < RELAYED_AFTER {
            return None;
        }
        let goal = self.slots[to as usize].contact.id;
        let network = &self.network;
        let through = self.running().filter(|(via, _)| {
            let apart = network.is_parted(from, *via) || network.is_parted(*via, to);
            *via != from && *via != to && !self.is_paused(*via) && !apart
        });
        through.min_by_key(|(via, node)| (node.me().id.distance(goal), *via)).map(|(via, _)| via)
    }

    /// Encodes and decodes a message; what comes out must be what went in.
    fn through_wire(&mut self, body: Body) -> Body {
        let mut book = wire::IndexBook;
        let mut bytes = Vec::new();
        wire::encode(&body, self.config.cluster, &book, &mut bytes);
        let (decoded, used) =
            wire::decode(&bytes, self.config.cluster, &mut book).expect("our own messages can be read");
        assert_eq!(used, bytes.len());
        self.tally.frame(body.kind(), used);
        assert_eq!(decoded, body, "a message changes on the wire");
        decoded
    }

    fn forward(&mut self, node: u32, to: Contact, routed: Routed) {
        let verdict = self.hook.as_mut().and_then(|hook| hook(node, &routed, to));
        let hop = routed.hop;
        match verdict {
            None => self.send(node, to, Body::Routed(routed), Dial::IfNeeded),
            Some(Verdict::Stop) => self.later(node, Input::Forwarded { hop, verdict: Verdict::Stop }),
            Some(Verdict::Changed { to, app }) => {
                let routed = Routed { payload: Payload::App(Box::new(app.clone())), ..routed };
                self.send(node, to, Body::Routed(routed), Dial::IfNeeded);
                self.later(node, Input::Forwarded { hop, verdict: Verdict::Changed { to, app } });
            }
        }
    }

    /// Calls the application, unless the clock says that it is too late.
    fn upcall(&mut self, node: u32, routed: Routed, not_after: Option<Time>) {
        if not_after.is_some_and(|end| self.clock(node) > end) && self.config.rule(Safeguard::NotAfter) {
            self.later(node, Input::DeliverRefused { routed: Box::new(routed) });
        } else {
            self.deliver(node, routed);
        }
    }

    /// The world's application answers every message with its own bytes in reverse.
    fn deliver(&mut self, node: u32, routed: Routed) {
        let Routed { key, origin, serial, hops, payload, .. } = routed;
        // A message for one node is no claim to a key.
        if matches!(payload, Payload::App(_)) {
            self.deliveries.push(Delivery { at: self.now, node, key, origin: origin.id, serial });
        }
        let (Payload::App(app) | Payload::Direct(app)) = payload else { return };
        let bytes = Some(app.bytes.into_iter().rev().collect());
        self.later(node, Input::Answer { to: origin, serial, hops, bytes });
    }

    /// Takes the next event. `false` if a run ends with it, or nothing is left.
    fn step(&mut self) -> bool {
        if self.warm == 0 {
            self.warm = WARM;
            self.warm_up();
        }
        self.warm -= 1;
        let Some((at, event)) = self.queue.pop() else { return false };
        self.now = at;
        match event {
            Either::Small(Alarm::Stop) => return false,
            Either::Small(Alarm::Fires { node, life, timer }) => {
                let slot = &mut self.slots[node as usize];
                if slot.paused.is_none() && slot.life == life && slot.timers[timer as usize] == at {
                    slot.timers[timer as usize] = NEVER;
                    self.mix(&[2, u64::from(node), timer as u64]);
                    self.input(node, Input::Timer(timer));
                }
            }
            Either::Small(Alarm::Synced { node, life }) => self.synced(node, life),
            Either::Large(arrival) => self.arrived(arrival),
        }
        true
    }

    fn arrived(&mut self, Arrival { to, life, meant, input }: Arrival) {
        let slot = &mut self.slots[to as usize];
        if meant.is_some_and(|(id, incarnation)| !slot.is_meant(id, incarnation)) {
            return;
        }
        if let Some(paused) = slot.paused.as_mut().filter(|_| slot.life == life) {
            return paused.arrived.push(input);
        }
        // The contract of the edge: due timers before any other input.
        while let Some(timer) = self.due_timer(to, life) {
            self.slots[to as usize].timers[timer as usize] = NEVER;
            self.mix(&[2, u64::from(to), timer as u64]);
            self.input(to, Input::Timer(timer));
        }
        if self.slots[to as usize].life == life {
            if let Some(recording) = &mut self.recording
                && matches!(input, Input::Message { .. })
            {
                recording.push((to, input.clone()));
            }
            self.mix(&[5, u64::from(to)]);
            self.input(to, input);
        }
    }

    fn due_timer(&mut self, node: u32, life: u32) -> Option<Timer> {
        let slot = &mut self.slots[node as usize];
        if slot.life != life || slot.due > self.now {
            return None;
        }
        let due = |timer: &&Timer| slot.timers[**timer as usize] <= self.now;
        let timer = Timer::ALL.iter().find(due).copied();
        if timer.is_none() {
            slot.due = slot.timers.iter().copied().min().unwrap_or(NEVER);
        }
        timer
    }

    /// Reads what the next events are going to read. Memory answers many questions at once, but handling one event
    /// after the other asks one at a time: in a large world that would be most of the time.
    fn warm_up(&self) {
        let mut read = 0;
        for arrival in (0..WARM).filter_map(|ahead| self.queue.upcoming(ahead)) {
            let slot = &self.slots[arrival.to as usize];
            read ^= slot.life ^ slot.contact.addr.0 ^ slot.timers[0].micros() as u32;
            read ^= slot.node.as_ref().map_or(0, |node| node.warm_up(None));
        }
        for arrival in (0..WARM).filter_map(|ahead| self.queue.upcoming(ahead)) {
            let about = match &arrival.input {
                Input::Message { from, .. } => from.id,
                _ => continue,
            };
            read ^= self.slots[arrival.to as usize].node.as_ref().map_or(0, |node| node.warm_up(Some(about)));
        }
        std::hint::black_box(read);
    }

    /// Lets time pass.
    pub fn run_for(&mut self, span: Duration) {
        self.push(self.now.after(span), Either::Small(Alarm::Stop));
        while self.step() {}
    }

    /// Lets time pass and looks at the world after every event, until that fails.
    pub fn run_watched<E>(
        &mut self,
        span: Duration,
        mut watch: impl FnMut(&World) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = self.now.after(span);
        self.push(end, Either::Small(Alarm::Stop));
        while self.step() {
            watch(self)?;
        }
        Ok(())
    }

    /// Lets time pass in steps until a condition holds, and says whether it came to hold within `most`.
    pub fn run_until(&mut self, most: Duration, condition: impl Fn(&World) -> bool) -> bool {
        let end = self.now.after(most);
        loop {
            if condition(self) {
                return true;
            }
            if self.now >= end {
                return false;
            }
            self.run_for(Duration::from_millis(100).min(end.since(self.now)));
        }
    }

    /// Runs until a command is answered and returns the answer.
    ///
    /// # Panics
    /// If it is not answered within ten simulated minutes.
    pub fn finish(&mut self, request: RequestId) -> Result<Reply, Failure> {
        let end = self.now.after(Duration::from_secs(600));
        loop {
            if let Some(at) = self.replies.iter().rposition(|answered| answered.request == request) {
                return self.replies.swap_remove(at).reply;
            }
            assert!(
                self.now < end && self.step(),
                "{request:?} is answered within ten minutes (seed {})",
                self.seed
            );
        }
    }

    /// Hands bytes to a node as if a peer had sent them. What is not a message is refused and counted.
    pub fn bytes(&mut self, from: Contact, to: u32, bytes: &[u8]) {
        match wire::decode(bytes, self.config.cluster, &mut wire::IndexBook) {
            Ok((body, _)) => self.input(to, Input::Message { from, body }),
            Err(error) => self.tally.note(Note::Refused(error.refusal())),
        }
    }

    /// Returns how many answers have been given and not taken.
    pub fn answers(&self) -> usize {
        self.replies.len()
    }

    /// Takes all answers given so far.
    pub fn take_replies(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.replies)
    }

    /// Returns what applications were given so far.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// Takes what applications were given so far.
    pub fn take_deliveries(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.deliveries)
    }

    /// Starts to record every message that arrives.
    pub fn record(&mut self) {
        self.recording.get_or_insert_default();
    }

    /// Stops recording and returns the messages with the nodes they arrived at.
    pub fn take_recording(&mut self) -> Vec<(u32, Input)> {
        self.recording.take().unwrap_or_default()
    }

    /// Gives applications a say in forwarding.
    pub fn on_forward(&mut self, hook: impl FnMut(u32, &Routed, Contact) -> Option<Verdict> + 'static) {
        self.hook = Some(Box::new(hook));
    }

    fn mix(&mut self, words: &[u64]) {
        for word in words.iter().chain(&[self.now.micros()]) {
            self.trace = (self.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }
}
