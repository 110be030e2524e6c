//! Drives one node with whatever dice say, and checks after every input what must hold whatever came in.
//!
//! Shared by the fuzz target, where the dice are the fuzzer's bytes, and by the fixed-seed test of the core, where
//! they are a seed.

#[path = "chord.rs"]
mod chord;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kringle_core::config::{Config, Metric, OverlayKind, Ownership, Settings};
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Ctx, Input, NoteKind, Outbox, Output, RequestId, Timer, Verdict};
use kringle_core::id::{Base, Id, NodeId};
use kringle_core::message::{App, Body, Hop, HopAck, Outcome, Payload, Receipt, Routed, Rule, Stage};
use kringle_core::node::Node;
use kringle_core::overlay::chord as chord_message;
use kringle_core::overlay::pastry::routing_table::Entry;
use kringle_core::overlay::pastry::{
    Announce, Flank, Join, JoinRefusal, JoinReply, LeafProbe, LeafReply, LeaseRecall, LeaseReply,
    LeaseRequest, Message, Race, StateReply, StateRequest, Versions, What,
};
use kringle_core::overlay::{Overlay, Status};
use kringle_core::range::IdRange;
use kringle_core::records::NoRecords;
use kringle_core::time::Time;
use kringle_core::wire::{self, IndexBook};

/// Heap a node may hold in these small configurations; it needs a sixth of that.
const MEMORY_MAX: usize = 128 << 10;
/// Outputs one input may cause. Messages here name at most 300 nodes per list.
const OUTPUTS_MAX: usize = 2000;
/// Timers that may be due at one moment before the node is called restless.
const RESTLESS: usize = 1000;
/// Messages remembered, so that they can be answered.
const SENT_MAX: usize = 64;

/// Steps it may take to bring a node into a status.
const BRING_MAX: usize = 4_000;

const ME: Id = Id::new(0x5555_5555_5555_5555_5555_5555_5555_5555);

/// One node, and the little its world remembers.
pub(crate) struct Driver {
    config: Config,
    node: Node,
    now: Time,
    dice: SeededDice,
    out: Outbox,
    ids: Vec<NodeId>,
    timers: BTreeMap<Timer, Time>,
    /// Commands that wait for their reply.
    open: BTreeSet<RequestId>,
    commands: u64,
    inputs: u64,
    /// What has happened in there, by kind.
    notes: BTreeSet<NoteKind>,
    sent: Vec<(Contact, Body)>,
    /// Origin, serial and hops of messages given to the application.
    delivered: Vec<(Contact, u32, u8)>,
    /// The last of them, in case it comes too late.
    late: Option<Box<Routed>>,
}

impl Driver {
    /// Makes a node that is in no ring, in one of several small configurations. Small, so that every limit is met.
    pub(crate) fn new(variant: u64) -> Driver {
        let is = |bit: u64| variant >> bit & 1 == 1;
        let settings = Settings {
            leaf_set: 8,
            replicas: 3,
            base: Base::new([4, 1, 8, 3][variant as usize % 4]).unwrap_or(Base::HEX),
            find_nearby: !is(2),
            metric: if is(3) { Metric::Application } else { Metric::RoundTrip },
            hops_max: if is(3) { most_hops() } else { 64 },
            budget: if is(4) { 64 } else { 4096 },
            budget_burst: if is(4) { 2048 } else { 64 * 1024 },
            proximity_cache: 32,
            transits: 64,
            seen: 32,
            requests: 16,
            probes: 32,
            help_queue: 4,
            hop_attempts: 3,
            ownership: if is(1) { Ownership::Hint } else { Ownership::Lease },
            overlay: if is(6) { OverlayKind::Chord } else { OverlayKind::Pastry },
            successors: 4,
            ..Settings::demo()
        };
        let tiny = Settings {
            leaf_set: 2,
            replicas: 0,
            neighbourhood: 0,
            spares: 0,
            proximity_cache: 0,
            transits: 1,
            seen: 1,
            requests: 1,
            // Two sides, two probes: a node with an empty side is never entitled.
            probes: 2,
            probe_attempts: 1,
            probe_relays: 0,
            help_queue: 0,
            hop_attempts: 1,
            hops_max: 1,
            successors: 2,
            ..settings.clone()
        };
        let settings = if is(5) { tiny } else { settings };
        let config = settings.check().expect("settings within the rules");
        let node = Node::by_config(ME, 1, Addr(0), &config);
        Driver {
            node,
            config,
            now: Time::ZERO,
            dice: SeededDice::new(variant),
            out: Outbox::new(),
            ids: ids(),
            timers: BTreeMap::new(),
            open: BTreeSet::new(),
            commands: 0,
            inputs: 0,
            notes: BTreeSet::new(),
            sent: Vec::new(),
            delivered: Vec::new(),
            late: None,
        }
    }

    /// Returns how far the node has come.
    pub(crate) fn status(&self) -> Status {
        self.node.status()
    }

    /// Returns the node's id.
    pub(crate) fn me(&self) -> NodeId {
        self.node.me().id
    }

    /// Returns the kinds of notes the node has made so far.
    pub(crate) fn notes(&self) -> &BTreeSet<NoteKind> {
        &self.notes
    }

    /// Brings the node into a status, as a quiet ring would. `false` if it does not get there.
    pub(crate) fn bring(&mut self, wanted: Status) -> bool {
        for turn in 1..=BRING_MAX {
            let on_the_way = match wanted {
                Status::Waiting => matches!(self.status(), Status::Joining | Status::Isolated),
                _ => {
                    matches!(self.status(), Status::Joining | Status::Waiting | Status::Ok | Status::Isolated)
                }
            };
            match self.status() {
                status if status == wanted => return true,
                Status::Out if wanted == Status::Ready && self.commands.is_multiple_of(2) => {
                    self.command(Command::Create);
                }
                Status::Out => {
                    let seeds = [20, 21, 22].map(|at| self.peer(at)).to_vec();
                    self.command(Command::Join { seeds });
                }
                _ if wanted == Status::Out || wanted == Status::Joining => self.leave(),
                // A join through a seed that is known in a later life by now never ends: start over after a while.
                _ if on_the_way && turn % 500 != 0 => self.answer_honestly(),
                Status::Ready if wanted == Status::Leaving => self.command(Command::Leave),
                Status::Ready if wanted == Status::Isolated => self.lose_everybody(),
                _ => self.leave(),
            }
        }
        false
    }

    /// Everybody the node knows says goodbye. A node that was never in a larger ring has nothing to lose, and leaves.
    fn lose_everybody(&mut self) {
        if self.is_chord() {
            self.lose_chord();
        }
        let known = self.node.overlay().as_pastry().map(|pastry| pastry.router().nodes().collect());
        let known: Vec<Contact> = known.unwrap_or_default();
        for from in known {
            let body = Body::Pastry(Message::Goodbye(Box::default()));
            self.feed(Input::Message { from, body });
        }
        // The next heartbeat finds out at the latest.
        self.advance(self.config.heartbeat * 2);
        if self.status() == Status::Ready {
            self.leave();
        }
    }

    /// Leaves the ring and sees to it that every command has had its reply.
    pub(crate) fn leave(&mut self) {
        self.command(Command::Leave);
        for _ in 0..4 {
            self.advance(self.config.deadline_max);
        }
        assert_eq!(self.status(), Status::Out, "the node never left");
        assert_eq!(self.open, BTreeSet::new(), "these commands were never answered");
    }

    /// Answers whatever the node last said as a quiet ring would, or lets time pass.
    fn answer_honestly(&mut self) {
        match self.sent.pop() {
            Some((from, Body::Chord(message))) => self.answer_chord_honestly(from, message),
            Some((from, Body::Ping(nonce))) => self.feed(Input::Message { from, body: Body::Pong(nonce) }),
            Some((from, Body::Pastry(Message::StateRequest(request)))) => {
                let reply = StateReply { nonce: request.nonce, what: request.what, contacts: Vec::new() };
                self.feed(Input::Message { from, body: Body::Pastry(Message::StateReply(Box::new(reply))) });
            }
            Some((from, Body::Pastry(Message::LeafProbe(probe)))) => {
                let reply = LeafReply { nonce: probe.nonce, version: 1, leaves: None };
                self.feed(Input::Message { from, body: Body::Pastry(Message::LeafReply(Box::new(reply))) });
            }
            Some((from, Body::Pastry(Message::LeaseRequest(request)))) => {
                let reply = LeaseReply {
                    nonce: request.nonce,
                    granted: true,
                    holds: 0,
                    leaves: Vec::new(),
                    same: false,
                };
                self.feed(Input::Message { from, body: Body::Pastry(Message::LeaseReply(Box::new(reply))) });
            }
            Some((from, Body::Routed(Routed { payload: Payload::Join(join), .. }))) => {
                // Three on either side.
                let mut ring: Vec<Contact> = (16..28).map(|at| self.peer(at)).collect();
                let opposite = self.me().plus(1 << 127);
                ring.sort_by_key(|peer| opposite.clockwise_to(peer.id));
                let right = ring.partition_point(|peer| opposite.clockwise_to(peer.id) < 1 << 127);
                let leaves = ring[right.saturating_sub(3)..ring.len().min(right + 3)].to_vec();
                let reply = JoinReply { join: *join, whole: false, leaves, versions: Versions::default() };
                self.feed(Input::Message { from, body: Body::Pastry(Message::JoinReply(Box::new(reply))) });
            }
            Some(_) => {}
            None => self.advance(Duration::from_millis(200)),
        }
    }

    /// Makes one input of what the dice say and gives it to the node.
    pub(crate) fn step(&mut self, choices: &mut dyn Dice) {
        match choices.below(64) {
            0..24 => match self.answer(choices) {
                Some(answer) => self.feed(answer),
                None => self.advance(Duration::from_millis(100)),
            },
            24..40 => {
                let (from, body) = (self.contact(choices), self.body(choices));
                self.feed(Input::Message { from, body });
            }
            40..45 => {
                let timer = Timer::ALL[choices.below(Timer::ALL.len())];
                self.feed(Input::Timer(timer));
            }
            45..53 => {
                // From a moment to longer than anything a node waits for; mostly about as long as an answer takes.
                let millis =
                    [0, 1, 1, 5, 20, 20, 100, 100, 100, 300, 500, 500, 1_000, 3_000, 40_000, 4_000_000];
                let millis = millis[choices.below(millis.len())];
                self.advance(Duration::from_millis(millis));
            }
            53..57 => {
                let command = self.any_command(choices);
                self.command(command);
            }
            57..59 => {
                let (to, body) = match self.sent.get(choices.below(self.sent.len() + 4)) {
                    Some(sent) => sent.clone(),
                    None => (self.contact(choices), self.body(choices)),
                };
                self.feed(Input::Unsent { to, body });
            }
            59..61 => {
                let hop = self.nonce(choices);
                let verdict = match choices.below(2) {
                    0 => Verdict::Stop,
                    _ => Verdict::Changed {
                        to: self.peer(1 + choices.below(self.ids.len() - 1)),
                        app: app(choices),
                    },
                };
                self.feed(Input::Forwarded { hop, verdict });
            }
            61..63 => {
                let known = self.delivered.get(choices.below(self.delivered.len() + 1)).copied();
                let (to, serial, hops) =
                    known.unwrap_or_else(|| (self.contact(choices), self.nonce(choices), 3));
                let bytes = (choices.below(2) == 0).then(|| vec![7; choices.below(9)]);
                self.feed(Input::Answer { to, serial, hops, bytes });
            }
            _ => match self.late.take() {
                Some(routed) => self.feed(Input::DeliverRefused { routed }),
                None => {
                    let (peer, proximity) = (self.id(choices), proximity(choices));
                    self.feed(Input::Measured { peer, proximity });
                }
            },
        }
    }

    /// Lets time pass and delivers the timers that have become due, late by as much as there was to pass.
    pub(crate) fn advance(&mut self, span: Duration) {
        self.now = self.now.after(span);
        let mut fired = 0;
        while let Some((&timer, _)) =
            self.timers.iter().filter(|(_, at)| **at <= self.now).min_by_key(|(_, at)| **at)
        {
            self.timers.remove(&timer);
            self.feed(Input::Timer(timer));
            fired += 1;
            assert!(fired < RESTLESS, "{timer:?} is due again and again at {:?}", self.now);
        }
    }

    /// Gives the node a command and expects one reply to it.
    pub(crate) fn command(&mut self, command: Command) {
        self.commands += 1;
        let request = RequestId(self.commands);
        self.open.insert(request);
        self.feed(Input::Command { request, command });
    }

    /// Lets somebody say this.
    pub(crate) fn hear(&mut self, body: Body, choices: &mut dyn Dice) {
        let from = self.contact(choices);
        self.feed(Input::Message { from, body });
    }

    /// Gives one input to the node and checks everything there is to check.
    pub(crate) fn feed(&mut self, input: Input) {
        self.inputs += 1;
        let was_out = self.status() == Status::Out;
        let silent = was_out && matches!(input, Input::Timer(_));
        let creates = was_out && matches!(input, Input::Command { command: Command::Create, .. });
        let Driver { config, dice, out, now, .. } = self;
        let mut cx = Ctx { now: *now, wall: 0, config, dice, records: &NoRecords, out };
        self.node.handle(input, &mut cx);
        let outputs: Vec<Output> = self.out.drain().collect();
        assert!(outputs.len() < OUTPUTS_MAX, "{} outputs for one input", outputs.len());
        for output in outputs {
            let speaks = matches!(output, Output::Send { .. } | Output::Forward { .. });
            assert!(!(silent && speaks), "a node that is out speaks by itself");
            self.execute(output);
        }
        assert!(
            !creates || self.node.range() == IdRange::Full,
            "a new ring of one has {:?}",
            self.node.range()
        );
        self.sent.drain(..self.sent.len().saturating_sub(SENT_MAX));
        self.delivered.drain(..self.delivered.len().saturating_sub(SENT_MAX));
        self.node.check_invariants(&self.config);
        self.check();
    }

    fn execute(&mut self, output: Output) {
        match output {
            Output::Send { to, body, .. } => self.send(to, body),
            Output::Forward { to, routed } => self.send(to, Body::Routed(*routed)),
            Output::Deliver { routed, .. } => {
                self.delivered.push((routed.origin, routed.serial, routed.hops));
                self.late = Some(routed);
            }
            Output::SetTimer { timer, at } => {
                self.timers.insert(timer, at);
            }
            Output::CancelTimer { timer } => {
                self.timers.remove(&timer);
            }
            Output::Reply { request, .. } => {
                assert!(self.open.remove(&request), "a second reply to {request:?}");
            }
            Output::Note(note) => {
                self.notes.insert(note.kind());
            }
            Output::Measure { .. } | Output::Event(_) | Output::Persist { .. } => {}
        }
    }

    fn send(&mut self, to: Contact, body: Body) {
        let mut bytes = Vec::new();
        wire::encode(&body, self.config.cluster, &IndexBook, &mut bytes);
        let read = wire::decode(&bytes, self.config.cluster, &mut IndexBook);
        let same = read.as_ref().is_ok_and(|(read, length)| *read == body && *length == bytes.len());
        assert!(same, "a peer can not read what the node says: {:?}, {:?}", body.kind(), read.err());
        // A joiner that has the node's own id must hear of it.
        let clash = matches!(body, Body::Pastry(Message::JoinRefused { reason: JoinRefusal::IdTaken, .. }));
        assert!(to.id != ME || clash, "the node talks to itself: {:?}", body.kind());
        let answer = matches!(body, Body::HopAck(_) | Body::Pong(_) | Body::PongVia { .. })
            || matches!(&body, Body::Chord(message) if is_said_only(message))
            || matches!(
                body,
                Body::Pastry(Message::LeafReply(_) | Message::StateReply(_) | Message::Goodbye(_))
            );
        if !answer {
            self.sent.push((to, body));
        }
    }

    /// What must hold in every status.
    fn check(&self) {
        let (overlay, courier) = self.node.memory();
        let tables = overlay.tables + overlay.spares + overlay.neighbourhood;
        let held = tables + overlay.cache + overlay.open + courier;
        assert!(held < MEMORY_MAX, "the node holds {held} bytes: {overlay:?}, {courier} under way");
        let armed = |timers: &[Timer]| timers.iter().any(|timer| self.timers.contains_key(timer));
        match self.status() {
            Status::Joining if self.is_chord() => {
                assert!(armed(&[Timer::Join, Timer::Query]), "a join that nothing wakes up");
            }
            Status::Waiting if self.is_chord() => {
                assert!(armed(&[Timer::Stabilize]), "a newcomer that tells nobody");
            }
            Status::Isolated if self.is_chord() => assert!(armed(&[Timer::Heal]), "a node that stays alone"),
            Status::Joining | Status::Waiting | Status::Ok | Status::Isolated => {
                assert!(armed(&[Timer::Join, Timer::Ask, Timer::Probe]), "a join that nothing wakes up");
            }
            Status::Ready => {
                assert!(armed(&[Timer::Heartbeat]), "a ring neighbour's death would go unnoticed")
            }
            Status::Leaving => assert!(armed(&[Timer::Leave]), "a node that never leaves"),
            Status::Out => {}
        }
    }
}

impl Drop for Driver {
    /// Says where to look: the same seed gives the same inputs.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in input {} of this run, at {:?}, {:?}", self.inputs, self.now, self.status());
        }
    }
}

// What the dice can say.
impl Driver {
    fn id(&self, choices: &mut dyn Dice) -> NodeId {
        self.ids[choices.below(self.ids.len())]
    }

    /// The one node with this id that really exists.
    fn peer(&self, at: usize) -> Contact {
        Contact::new(self.ids[at], 1, Addr(at as u32))
    }

    /// Mostly nodes that exist, as the node knows them; now and then an earlier or later life, or the same elsewhere.
    fn contact(&self, choices: &mut dyn Dice) -> Contact {
        let peer = self.peer(choices.below(self.ids.len()));
        match choices.below(64) {
            0 => Contact { incarnation: 0, ..peer },
            1 => Contact { incarnation: 2, ..peer },
            2 => Contact { incarnation: u32::MAX, ..peer },
            3 => Contact { addr: Addr(u32::MAX), ..peer },
            4..8 => peer,
            _ => self.known(peer.id).unwrap_or(peer),
        }
    }

    fn known(&self, id: NodeId) -> Option<Contact> {
        match self.node.overlay().as_pastry() {
            Some(pastry) => pastry.router().get(id),
            None => self.node.overlay().contact(id),
        }
    }

    fn is_chord(&self) -> bool {
        self.config.overlay == OverlayKind::Chord
    }

    /// The same with how near each is said to be.
    fn entries(&self, choices: &mut dyn Dice) -> Vec<Entry> {
        let contacts = self.contacts(choices);
        contacts.into_iter().map(|contact| Entry { contact, proximity: proximity(choices) }).collect()
    }

    fn contacts(&self, choices: &mut dyn Dice) -> Vec<Contact> {
        let length = match choices.below(64) {
            0 => 300,
            1..16 => choices.below(64),
            _ => choices.below(5),
        };
        // Long lists repeat a few choices: a fuzzer has only so many bytes.
        let some: Vec<Contact> = (0..length.min(24)).map(|_| self.contact(choices)).collect();
        some.iter().copied().cycle().take(length).collect()
    }

    /// A nonce the node has used lately, or one it may have used or will use.
    fn nonce(&self, choices: &mut dyn Dice) -> u32 {
        let sent = self.sent.get(choices.below(self.sent.len() + 2)).and_then(|(_, body)| nonce_of(body));
        sent.unwrap_or_else(|| [0, 1, 2, u32::MAX][choices.below(4)])
    }

    fn any_command(&self, choices: &mut dyn Dice) -> Command {
        let deadline = [Duration::ZERO, Duration::from_secs(2), Duration::MAX];
        let deadline = deadline[choices.below(3)];
        match choices.below(16) {
            0..2 => Command::Create,
            2..5 => Command::Join { seeds: (0..choices.below(4)).map(|_| self.contact(choices)).collect() },
            5 => Command::Leave,
            6..11 => Command::Lookup { key: self.id(choices), trace: choices.below(2) == 0, deadline },
            _ => Command::Route { key: self.id(choices), app: app(choices), deadline },
        }
    }

    /// An answer that fits one of the last messages, from the node it was for; what it says is another matter.
    fn answer(&mut self, choices: &mut dyn Dice) -> Option<Input> {
        let at = choices.below(self.sent.len());
        let (from, body) = self.sent.get(at)?.clone();
        // Mostly once: answers that come twice are as good as questions never asked.
        if choices.below(4) > 0 {
            self.sent.remove(at);
        }
        let answer = match &body {
            Body::Ping(nonce) => Body::Pong(*nonce),
            Body::PingVia { nonce, target } => Body::PongVia { nonce: *nonce, target: target.id },
            Body::Routed(Routed { payload: Payload::Join(join), .. }) if choices.below(4) > 0 => {
                let reason = if choices.below(8) == 0 { JoinRefusal::IdTaken } else { JoinRefusal::Busy };
                let nonce = join.nonce;
                Body::Pastry(match choices.below(4) {
                    0 => Message::JoinRefused { nonce, reason },
                    _ => Message::JoinReply(Box::new(self.join_reply(nonce, choices))),
                })
            }
            Body::Routed(Routed { serial, hops, payload, .. }) if choices.below(3) == 0 => {
                let outcome = match payload {
                    Payload::Trace(path) => Outcome::Found(path.to_vec()),
                    Payload::App(_) | Payload::Direct(_) => Outcome::Delivered(None),
                    _ => self.outcome(choices),
                };
                let to = self.node.me();
                Body::Receipt(Box::new(Receipt { to, serial: *serial, hops: *hops, by: from, outcome }))
            }
            Body::Routed(routed) => {
                let better = (choices.below(3) == 0).then(|| self.contact(choices));
                Body::HopAck(HopAck { hop: routed.hop, taken: choices.below(3) > 0, better })
            }
            Body::Pastry(Message::LeafProbe(probe)) => {
                let leaves = (choices.below(3) > 0).then(|| self.contacts(choices));
                let reply = LeafReply { nonce: probe.nonce, version: 1, leaves };
                Body::Pastry(Message::LeafReply(Box::new(reply)))
            }
            Body::Pastry(Message::LeaseRequest(request)) => {
                let leaves = if choices.below(2) == 0 { Vec::new() } else { self.contacts(choices) };
                let (granted, holds) = (choices.below(4) > 0, choices.below(2000) as u32);
                let reply =
                    LeaseReply { nonce: request.nonce, granted, holds, leaves, same: choices.below(4) == 0 };
                Body::Pastry(Message::LeaseReply(Box::new(reply)))
            }
            Body::Pastry(Message::LeaseRecall(recall)) => {
                let nearer = (choices.below(2) == 0).then_some(recall.nearer.id);
                Body::Pastry(Message::LeaseReturn { nonce: recall.nonce, nearer })
            }
            Body::Pastry(Message::StateRequest(request)) => {
                let what = if choices.below(4) == 0 { what(choices) } else { request.what };
                let reply = StateReply { nonce: request.nonce, what, contacts: self.entries(choices) };
                Body::Pastry(Message::StateReply(Box::new(reply)))
            }
            Body::Pastry(Message::Announce(announce)) => {
                let contacts = self.contacts(choices);
                let race = Race { versions: versions(choices), round: announce.round, contacts };
                Body::Pastry(Message::Race(Box::new(race)))
            }
            Body::Chord(question) => Body::Chord(self.chord_answer(question, choices)),
            // Told to somebody there is no connection with.
            Body::Receipt(_) => return Some(Input::Unsent { to: from, body }),
            _ => self.body(choices),
        };
        Some(Input::Message { from, body: answer })
    }

    /// Any message at all.
    fn body(&self, choices: &mut dyn Dice) -> Body {
        if self.is_chord() && choices.below(4) > 0 {
            return Body::Chord(self.chord_message(choices));
        }
        let nonce = self.nonce(choices);
        let small = [0, 1, 2, u8::MAX][choices.below(4)];
        let side = if choices.below(2) == 0 { Flank::Left } else { Flank::Right };
        let pastry = match choices.below(28) {
            0..6 => return Body::Routed(self.routed(nonce, choices)),
            6 => {
                let better = (choices.below(2) == 0).then(|| self.contact(choices));
                return Body::HopAck(HopAck { hop: nonce, taken: choices.below(2) == 0, better });
            }
            7 => return Body::Receipt(Box::new(self.receipt(choices))),
            8 => return Body::Ping(nonce),
            9 => return Body::Pong(nonce),
            10 => return Body::PingVia { nonce, target: self.contact(choices) },
            11 => return Body::PongVia { nonce, target: self.id(choices) },
            12 => Message::JoinReply(Box::new(self.join_reply(nonce, choices))),
            13 => Message::JoinRefused { nonce, reason: JoinRefusal::Busy },
            14 | 15 => {
                let seen = (choices.below(2) == 0).then(|| u32::from(small));
                Message::LeafProbe(Box::new(LeafProbe {
                    nonce,
                    seen,
                    leaves: self.contacts(choices),
                    digest: seen,
                }))
            }
            16 => {
                let leaves = (choices.below(2) == 0).then(|| self.contacts(choices));
                Message::LeafReply(Box::new(LeafReply { nonce, version: small.into(), leaves }))
            }
            17 => {
                let seen = (choices.below(3) > 0).then(|| versions(choices));
                Message::Announce(Announce { seen, proximity: proximity(choices), round: small })
            }
            18 => {
                let (versions, contacts) = (versions(choices), self.contacts(choices));
                Message::Race(Box::new(Race { versions, round: small, contacts }))
            }
            19 => {
                let (what, push, proximity) = (what(choices), self.entries(choices), proximity(choices));
                Message::StateRequest(Box::new(StateRequest { nonce, what, push, proximity }))
            }
            20 => {
                let (what, contacts) = (what(choices), self.entries(choices));
                Message::StateReply(Box::new(StateReply { nonce, what, contacts }))
            }
            21 => Message::Goodbye(Box::new(self.contacts(choices))),
            22 | 23 => {
                let (holds, leaves) = (u32::from(small), self.contacts(choices));
                Message::LeaseRequest(Box::new(LeaseRequest {
                    nonce,
                    side,
                    holds,
                    leaves,
                    same: choices.below(4) == 0,
                }))
            }
            24 => {
                let (granted, leaves) = (choices.below(2) == 0, self.contacts(choices));
                Message::LeaseReply(Box::new(LeaseReply {
                    nonce,
                    granted,
                    holds: small.into(),
                    leaves,
                    same: choices.below(4) == 0,
                }))
            }
            25 => {
                let nearer = self.contact(choices);
                Message::LeaseRecall(Box::new(LeaseRecall { nonce, side, nearer }))
            }
            26 => {
                let nearer = (choices.below(2) == 0).then(|| self.id(choices));
                Message::LeaseReturn { nonce, nearer }
            }
            _ => Message::Obituary(self.contact(choices)),
        };
        Body::Pastry(pastry)
    }

    fn routed(&self, hop: u32, choices: &mut dyn Dice) -> Routed {
        let payload = match choices.below(8) {
            0 => Payload::Lookup,
            1 => Payload::Trace(Box::new(self.path(choices))),
            2 => Payload::App(Box::new(app(choices))),
            3 => Payload::Direct(Box::new(app(choices))),
            4 => Payload::Receipt(Box::new(self.receipt(choices))),
            _ => Payload::Join(Box::new(self.join(hop, choices))),
        };
        let origin = self.contact(choices);
        // A join looks for its own origin; anything else for anything.
        let own = matches!(payload, Payload::Join(_)) && choices.below(4) > 0;
        let key = if own { origin.id } else { self.id(choices) };
        let stage = if choices.below(2) == 0 { Stage::Prefix } else { Stage::Leaf };
        let serial = if choices.below(2) == 0 { self.nonce(choices) } else { choices.below(3) as u32 };
        let hops = [0, 1, 2, 63, 64, 65, u8::MAX][choices.below(7)];
        Routed { key, origin, payload, serial, hop, hops, stage }
    }

    fn path(&self, choices: &mut dyn Dice) -> Vec<Hop> {
        let rules = [
            Rule::LeafSet,
            Rule::Cell { row: 255, column: 255 },
            Rule::Spare { row: 0, column: 0 },
            Rule::RareCase,
            Rule::Here,
        ];
        let hop = |node| Hop { node, rule: rules[node.addr.0 as usize % 5], proximity: Proximity::UNKNOWN };
        // The wire carries 255 hops.
        self.contacts(choices).into_iter().take(255).map(hop).collect()
    }

    fn join(&self, nonce: u32, choices: &mut dyn Dice) -> Join {
        let rows_done = [0, 1, 32, 128, u8::MAX][choices.below(5)];
        let path =
            self.contacts(choices).into_iter().take(255).map(|node| (node, versions(choices))).collect();
        Join { nonce, rows_done, path, contacts: self.contacts(choices) }
    }

    fn join_reply(&self, nonce: u32, choices: &mut dyn Dice) -> JoinReply {
        let (join, whole) = (self.join(nonce, choices), choices.below(2) == 0);
        JoinReply { join, whole, leaves: self.contacts(choices), versions: versions(choices) }
    }

    fn receipt(&self, choices: &mut dyn Dice) -> Receipt {
        let to = if choices.below(2) == 0 { self.node.me() } else { self.contact(choices) };
        let (serial, by, outcome) = (self.nonce(choices), self.contact(choices), self.outcome(choices));
        Receipt { to, serial, hops: 3, by, outcome }
    }

    fn outcome(&self, choices: &mut dyn Dice) -> Outcome {
        match choices.below(7) {
            5 => Outcome::Nearest(self.path(choices)),
            0 => Outcome::Found(self.path(choices)),
            1 => Outcome::Delivered(None),
            2 => Outcome::Delivered(Some(vec![1; choices.below(9)])),
            3 => Outcome::Stopped,
            4 => Outcome::TooManyHops,
            _ => Outcome::NoRoute,
        }
    }
}

/// The ids of a small world: the node's own, the ends of the ring, close neighbours, one for each of the first digits,
/// the point opposite, and some spread around.
fn ids() -> Vec<NodeId> {
    let mut ids =
        vec![ME, Id::ZERO, Id::MAX, ME.plus(1 << 127), ME.plus((1 << 127) + 1), ME.plus((1 << 127) - 1)];
    ids.extend([1, 2, 3, 1 << 8, 1 << 40].into_iter().flat_map(|by| [ME.plus(by), ME.minus(by)]));
    ids.extend((0..12).map(|n| ME.plus((1 << 120) * (3 + 21 * n))));
    ids.extend((0..6).map(|row| Id::new(ME.value() ^ 1 << (127 - 4 * row))));
    ids.extend((0..6).map(|row| Id::new(ME.value() ^ 5 << (124 - 4 * row))));
    ids
}

/// The largest limit a configuration may set.
fn most_hops() -> u8 {
    let fits = |hops_max: &u8| Settings { hops_max: *hops_max, ..Settings::demo() }.check().is_ok();
    (0..=u8::MAX).rev().find(fits).unwrap_or(1)
}

/// Says whether nobody answers this.
fn is_said_only(message: &chord_message::Message) -> bool {
    use chord_message::Message as M;
    !message.is_question() && !matches!(message, M::Ping { .. } | M::Apply | M::Seal { .. } | M::Notify)
}

fn nonce_of(body: &Body) -> Option<u32> {
    match body {
        Body::Routed(routed) => Some(routed.hop),
        Body::HopAck(ack) => Some(ack.hop),
        Body::Receipt(receipt) => Some(receipt.serial),
        Body::Ping(nonce) | Body::Pong(nonce) => Some(*nonce),
        Body::PingVia { nonce, .. } | Body::PongVia { nonce, .. } => Some(*nonce),
        Body::Pastry(Message::LeafProbe(probe)) => Some(probe.nonce),
        Body::Pastry(Message::StateRequest(request)) => Some(request.nonce),
        Body::Chord(message) => message.nonce(),
        _ => None,
    }
}

fn proximity(choices: &mut dyn Dice) -> Proximity {
    [Proximity(0), Proximity(1), Proximity(1_000), Proximity(u32::MAX - 1), Proximity::UNKNOWN]
        [choices.below(5)]
}

fn versions(choices: &mut dyn Dice) -> Versions {
    let number = [0, 1, 40, u32::MAX][choices.below(4)];
    Versions { leaf_set: number, table: number, neighbourhood: number }
}

fn what(choices: &mut dyn Dice) -> What {
    let number = [0, 1, 15, 31, 127, u8::MAX][choices.below(6)];
    match choices.below(4) {
        0 => What::LeafSet,
        1 => What::Row(number),
        2 => What::Cell { row: number, column: number },
        _ => What::Neighbourhood,
    }
}

fn app(choices: &mut dyn Dice) -> App {
    App { purpose: choices.below(3) as u32, bytes: vec![7; choices.below(9)] }
}
