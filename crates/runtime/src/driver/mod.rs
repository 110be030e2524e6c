//! The event loop of a node: the only caller of `Node::handle`.
//!
//! Everything of one node runs on one thread. Tasks (one per connection, one for timers, one for calls of handles) enter
//! the driver one at a time with what they have, all of it at once; the driver hands it to the node input by input, due
//! timers first, executes the outputs (`effects`), and at the end lets every connection that got something write it,
//! once. `peers` opens and accepts connections, `judging` says who may, `agreeing` compares settings, `lineage` keeps
//! stores that were founded apart apart, `twins` says whether there is another one of us; `joining` finds the ring; `storing` is about what it keeps; `duties` is what happens every now and
//! then.

mod agreeing;
mod delivering;
mod duties;
mod effects;
mod joining;
mod judging;
mod lineage;
mod peers;
mod relaying;
mod storing;
#[cfg(test)]
mod testing;
mod twins;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use kringle_core::config::{ClusterId, Config, Metric};
use kringle_core::dice::SeededDice;
use kringle_core::edge::{Command, Ctx, Failure, Input, Outbox, Output, Refusal, Reply, RequestId, Timer};
use kringle_core::id::NodeId;
use kringle_core::message::{Body, Nonce, Routed};
use kringle_core::node::Node;
use kringle_core::overlay::pastry::Message;
use kringle_core::time::Time;
use kringle_core::wire::{self, DecodeError};
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};

use crate::app::App;
use crate::book::Book;
use crate::clock::{Clock, unix_ms};
use crate::describe::{About, View};
use crate::descriptors::Shares;
use crate::engine::{Engine, Room};
use crate::handle::{Call, Ending};
use crate::home::{Home, Remembered};
use crate::identity::Identity;
use crate::identity::book::Tokens;
use crate::identity::cluster::{Certificate, Cluster};
use crate::identity::credentials::Credentials;
use crate::identity::token::Token;
use crate::metrics::Metrics;
use crate::report::{Event, What};
use crate::seeds::Seed;
use crate::transport::gate::Gate;
use crate::transport::hello::{Refused, Why};
use crate::transport::link::{Link, Owner, READ};
use crate::transport::mem::Hub;
use crate::transport::tls::Tls;
use effects::guarded;
use peers::{Dialling, PeerLinks};
use storing::Away;
pub(crate) use storing::Scrubs;

/// A timer that is not set.
const NEVER: Time = Time::from_micros(u64::MAX);
/// The longest sleep: the timers of the system stand still while the machine does, ours do not.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// Calls of handles taken at once.
const CALLS_AT_ONCE: usize = 256;
/// Marks a frame that belongs to the connection and not to the core.
const CONTROL: &[u8; 2] = b"KB";

/// How to reach others.
pub(crate) enum Network {
    /// Over sockets.
    Tls(Tls),
    /// Inside the process.
    Memory(Hub),
}

/// A driver that tasks share.
pub(crate) struct Shell {
    pub(crate) driver: RefCell<Driver>,
    scratch: Cell<Vec<u8>>,
    /// Set when the earliest timer has moved closer.
    sooner: Notify,
    /// Set when a client adds seeds to a search that may be pausing.
    seeded: Notify,
    /// Set when the node is to end.
    ending: Notify,
    clock: Clock,
    pub(crate) network: Network,
    pub(crate) gate: Rc<Gate>,
    /// Addresses that cannot be reached from here.
    #[cfg(test)]
    unreachable: RefCell<HashSet<std::net::SocketAddr>>,
}

/// A node and everything it needs from the outside.
pub(crate) struct Driver {
    node: Node,
    config: Config,
    dice: SeededDice,
    clock: Clock,
    now: Time,
    out: Outbox,
    timers: [Time; Timer::ALL.len()],
    /// What executing outputs has brought up; handled before anything else comes in.
    soon: VecDeque<Input>,
    /// For when the timer task sleeps.
    wakes_at: Time,

    shell: Weak<Shell>,
    book: Book,
    links: HashMap<NodeId, PeerLinks>,
    dialling: HashMap<(NodeId, bool), Dialling>,
    /// Peers that could not be reached, and when others were asked for them.
    sought: HashMap<(NodeId, bool), Time>,
    /// Shared with every connection that is carried for others.
    relays: Rc<()>,
    /// Links that got something in this round.
    dirty: Vec<Rc<Link>>,
    next_link: u64,
    /// The latest life seen of each peer, proved.
    lives: HashMap<NodeId, (u32, u64)>,

    pub(crate) me: Me,
    /// What the node stores, and whether the disk has room for more.
    engine: Engine,
    room: Option<Room>,
    waiting: HashMap<RequestId, oneshot::Sender<Result<Reply, Failure>>>,
    next_request: u64,
    seeds: Vec<Seed>,
    /// Whether the search for a ring is under way, and for whom.
    joining: bool,
    /// Clients that wait for its outcome.
    clients: Vec<joining::Client>,
    /// The only seeds of that search, if a client has named them.
    named: Option<Vec<Seed>>,
    /// Whether this node has changed for a ring in this search: dropped the lineage of an empty store, or taken settings.
    yielded: bool,
    /// What this node has promised about its lineage.
    pin: Option<lineage::Pin>,
    /// Peers whose stores were founded apart, each reported once.
    apart: HashSet<NodeId>,
    apps: Vec<(u32, Arc<dyn App>)>,
    /// Answers that applications are making, and messages that wait for one of these to be done.
    serving: usize,
    undelivered: VecDeque<(Routed, Option<Time>)>,
    /// Changes of the leaf set in this round.
    joined: Vec<NodeId>,
    left: Vec<NodeId>,

    about: About,
    metrics: Metrics,
    events: broadcast::Sender<Arc<Event>>,
    next_event: u64,
    ready: watch::Sender<bool>,
    ended: watch::Sender<Option<Ending>>,
    ending: Option<Ending>,
    /// Whether it ends without a word.
    crash: bool,
    home: Option<Home>,
    had_peers: bool,
    /// Whether this start has discarded an older store.
    discarded: bool,
    remembered: u64,
    /// Messages that wait for connections to open.
    waiting_to_leave: usize,
    /// When this node last began a new life without being restarted, and how often it has.
    /// The first peers of this life.
    met: Vec<Remembered>,
    reborn_at: Option<Time>,
    rebirths: u32,
    /// Whether this node is finding out if it has a twin.
    doubting: bool,
    /// Whether the store turned out to be an old copy.
    store_outdated: bool,
    /// Whether the node took an input since its invariants were last checked.
    #[cfg(any(test, feature = "checks"))]
    has_handled: bool,
    /// Whether the wall clock was found to be off at the last look.
    clock_off: bool,
    scrubs: Scrubs,
    shares: Shares,
    /// Why the node has no store at the moment, although it should.
    away: Option<Away>,
    /// When the store was last opened again, and how often in short succession.
    reopened: (Time, u32),
}

/// Who this node is.
pub(crate) struct Me {
    pub(crate) identity: Identity,
    pub(crate) incarnation: u32,
    pub(crate) instance: u64,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) cluster_id: ClusterId,
    pub(crate) certificate: Option<Certificate>,
    pub(crate) token: Option<Token>,
    pub(crate) tokens: Tokens,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
    pub(crate) region_factor: u32,
    /// Which of the settings shared with the cluster were given to this node.
    pub(crate) said: u64,
    /// How often the number of copies was changed.
    pub(crate) copies_version: u64,
    /// The lineage of the cluster, as far as it is written down; the store's own counts first.
    pub(crate) lineage: Option<u64>,
    /// Whether no earlier process can have made promises in its name.
    pub(crate) first_life: bool,
}

impl Me {
    fn cluster_id(&self) -> ClusterId {
        self.cluster_id
    }
}

/// What a driver is made of.
pub(crate) struct Parts {
    pub(crate) node: Node,
    pub(crate) config: Config,
    pub(crate) dice: SeededDice,
    pub(crate) clock: Clock,
    pub(crate) network: Network,
    pub(crate) book: Book,
    pub(crate) me: Me,
    pub(crate) engine: Engine,
    pub(crate) room: Option<Room>,
    pub(crate) scrubs: Scrubs,
    pub(crate) shares: Shares,
    /// Whether a store had to be replaced by an empty one.
    pub(crate) suspect: bool,
    pub(crate) seeds: Vec<Seed>,
    pub(crate) apps: Vec<(u32, Arc<dyn App>)>,
    pub(crate) about: About,
    pub(crate) events: broadcast::Sender<Arc<Event>>,
    pub(crate) ready: watch::Sender<bool>,
    pub(crate) ended: watch::Sender<Option<Ending>>,
    pub(crate) home: Option<Home>,
    pub(crate) had_peers: bool,
    pub(crate) discarded: bool,
}

impl Shell {
    pub(crate) fn new(parts: Parts) -> Rc<Shell> {
        let clock = parts.clock;
        let metrics = Metrics::new();
        metrics.store_suspect.inc_by(u64::from(parts.suspect));
        Rc::new_cyclic(|shell| Shell {
            driver: RefCell::new(Driver {
                node: parts.node,
                config: parts.config,
                dice: parts.dice,
                clock,
                now: clock.now(),
                out: Outbox::new(),
                timers: [NEVER; Timer::ALL.len()],
                soon: VecDeque::new(),
                wakes_at: NEVER,
                shell: shell.clone(),
                book: parts.book,
                links: HashMap::new(),
                dialling: HashMap::new(),
                sought: HashMap::new(),
                relays: Rc::default(),
                dirty: Vec::new(),
                next_link: 0,
                lives: HashMap::new(),
                me: parts.me,
                engine: parts.engine,
                room: parts.room,
                waiting: HashMap::new(),
                next_request: 0,
                seeds: parts.seeds,
                joining: false,
                clients: Vec::new(),
                named: None,
                yielded: false,
                pin: None,
                apart: HashSet::new(),
                apps: parts.apps,
                serving: 0,
                undelivered: VecDeque::new(),
                joined: Vec::new(),
                left: Vec::new(),
                about: parts.about,
                metrics,
                events: parts.events,
                next_event: 0,
                ready: parts.ready,
                ended: parts.ended,
                ending: None,
                crash: false,
                home: parts.home,
                had_peers: parts.had_peers,
                discarded: parts.discarded,
                remembered: 0,
                waiting_to_leave: 0,
                met: Vec::new(),
                reborn_at: None,
                rebirths: 0,
                doubting: false,
                store_outdated: false,
                #[cfg(any(test, feature = "checks"))]
                has_handled: false,
                clock_off: false,
                scrubs: parts.scrubs,
                shares: parts.shares,
                away: None,
                reopened: (Time::ZERO, 0),
            }),
            scratch: Cell::default(),
            sooner: Notify::new(),
            seeded: Notify::new(),
            ending: Notify::new(),
            clock,
            network: parts.network,
            gate: Gate::new(parts.shares.strangers),
            #[cfg(test)]
            unreachable: RefCell::default(),
        })
    }

    /// Enters the driver with something to do; afterwards lets every link write.
    pub(crate) fn enter<T>(&self, work: impl FnOnce(&mut Driver) -> T) -> T {
        let driver = &mut *self.driver.borrow_mut();
        driver.now = self.clock.now();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let result = work(driver);
            // The simulator and the checker do so after every input.
            #[cfg(any(test, feature = "checks"))]
            if std::mem::take(&mut driver.has_handled) {
                driver.node.check_invariants(&driver.config);
            }
            result
        }));
        let result = match result {
            Ok(result) => result,
            Err(panic) => {
                // Nobody knows what the node has half done: it must not go on.
                driver.crash = true;
                driver.finish(Ending::Failed { what: "a mistake of ours: the node panicked".into() });
                self.ending.notify_one();
                std::panic::resume_unwind(panic);
            }
        };
        driver.leave_round();
        if driver.earliest() < driver.wakes_at {
            self.sooner.notify_one();
        }
        if driver.ending.is_some() {
            self.ending.notify_one();
        }
        result
    }

    /// Fires timers until the node ends.
    async fn keep_time(self: Rc<Shell>) {
        loop {
            let due = self.enter(|driver| {
                driver.fire();
                driver.wakes_at = driver.earliest();
                driver.wakes_at
            });
            let wait = due.since(self.clock.now()).min(SLEEP_MAX);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.sooner.notified() => {}
            }
        }
    }

    /// Takes calls of handles until the node ends.
    async fn take_calls(self: Rc<Shell>, mut calls: mpsc::Receiver<Call>) {
        let mut batch = Vec::new();
        while calls.recv_many(&mut batch, CALLS_AT_ONCE).await > 0 {
            self.enter(|driver| batch.drain(..).for_each(|call| driver.call(call)));
        }
        // Nobody holds a handle any more: the node goes on.
        std::future::pending().await
    }

    /// Runs the node until it ends.
    pub(crate) async fn run(self: Rc<Shell>, calls: mpsc::Receiver<Call>) -> Ending {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn_local(self.clone().keep_time());
        tasks.spawn_local(self.clone().take_calls(calls));
        tasks.spawn_local(self.clone().do_duties());
        tasks.spawn_local(self.clone().watch_store());
        self.enter(Driver::begin);
        loop {
            tokio::select! {
                () = self.ending.notified() => {}
                Some(Err(error)) = tasks.join_next() => {
                    // Without its timers or its calls a node is worse than none.
                    let what = format!("a mistake of ours: {error}");
                    self.enter(|driver| driver.finish(Ending::Failed { what }));
                }
            }
            if let Some(ending) = self.enter(|driver| driver.ending.clone()) {
                if !self.driver.borrow().crash {
                    self.say_last_words().await;
                }
                self.enter(|driver| driver.end(ending.clone()));
                return ending;
            }
        }
    }
}

impl Shell {
    async fn say_last_words(&self) {
        self.enter(Driver::say_goodbyes);
        // Time for them to leave; nobody waits longer for a peer that does not read.
        for _ in 0..20 {
            if self.enter(|driver| driver.links.is_empty() || driver.crash) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Owner for Shell {
    fn frames(&self, link: &Rc<Link>, bytes: &[u8]) -> Result<usize, ()> {
        self.enter(|driver| driver.frames(link, bytes))
    }

    fn lend(&self) -> Vec<u8> {
        let mut buffer = self.scratch.take();
        buffer.resize(READ, 0);
        buffer
    }

    fn give_back(&self, buffer: Vec<u8>) {
        self.scratch.set(buffer);
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

impl Driver {
    fn earliest(&self) -> Time {
        self.timers.iter().copied().min().unwrap_or(NEVER)
    }

    /// Delivers every timer that is due.
    fn fire(&mut self) {
        // Bounded: a timer that is set again for the past fires in the next round.
        for _ in 0..Timer::ALL.len() {
            let Some(timer) =
                Timer::ALL.iter().copied().find(|timer| self.timers[*timer as usize] <= self.now)
            else {
                return;
            };
            self.timers[timer as usize] = NEVER;
            self.handle(Input::Timer(timer));
        }
    }

    /// Gives something to the node, after the timers that are due.
    pub(crate) fn input(&mut self, input: Input) {
        self.fire();
        self.handle(input);
    }

    fn handle(&mut self, input: Input) {
        self.soon.push_back(input);
        self.settle();
    }

    /// Hands over everything that has come up.
    fn settle(&mut self) {
        while let Some(input) = self.soon.pop_front() {
            let mut out = std::mem::take(&mut self.out);
            let mut cx = Ctx {
                now: self.now,
                config: &self.config,
                dice: &mut self.dice,
                wall: unix_ms(),
                records: &self.engine,
                out: &mut out,
            };
            self.node.handle(input, &mut cx);
            #[cfg(any(test, feature = "checks"))]
            {
                self.has_handled = true;
            }
            if self.away.is_none() && self.engine.trouble().is_some() {
                // The node took for absent what was there. Nothing that follows from it may leave.
                let rest: Vec<Output> = out.drain().filter_map(storing::without_store).collect();
                rest.into_iter().for_each(|output| out.push(output));
                self.could_not_read(&mut out);
            }
            for output in out.drain() {
                self.execute(output);
            }
            self.out = out;
            if std::mem::take(&mut self.store_outdated) {
                let why = "it is an old copy of what this node had, or was given up by `kringle recover`";
                tracing::error!(why, "the store is set aside, and begins empty");
                self.metrics.store_suspect.inc();
                self.set_store_aside(why);
            }
        }
    }

    /// Takes frames that came in over a link. Returns how many bytes were used, or `Err` if the link must end.
    fn frames(&mut self, link: &Rc<Link>, bytes: &[u8]) -> Result<usize, ()> {
        let mut used = 0;
        while let Some(length) = wire::frame_length(&bytes[used..]) {
            let rest = &bytes[used..];
            if length > wire::HEADER + wire::BODY_MAX {
                self.metrics.refused(Refusal::Oversized);
                return Err(());
            }
            if rest.get(4..6).is_some_and(|mark| mark == CONTROL) {
                let Some(control) = rest.get(wire::HEADER..length) else { break };
                self.control(link, control);
                used += length;
                continue;
            }
            match wire::decode(rest, self.me.cluster_id(), &mut self.book) {
                Ok((body, length)) => {
                    used += length;
                    self.metrics.received(body.kind());
                    self.arrived(link, body);
                }
                Err(DecodeError::Truncated) => break,
                // Not the protocol any more: wherever the next frame begins, we would not find it.
                Err(error @ (DecodeError::Oversized | DecodeError::WrongCluster)) => {
                    self.metrics.refused(error.refusal());
                    return Err(());
                }
                Err(DecodeError::Malformed) if rest.get(4..6) != Some(b"KR") => {
                    self.metrics.refused(Refusal::Malformed);
                    return Err(());
                }
                // One frame we can not read; the next may be fine. A frame that is cut off is not there yet.
                Err(error) if rest.len() >= length => {
                    self.metrics.refused(error.refusal());
                    used += length;
                }
                Err(_) => break,
            }
        }
        Ok(used)
    }

    /// Tells the core how near a peer is, if it goes by more than round trips.
    fn tell_distance(&mut self, link: &Link) {
        if self.config.metric == Metric::Application
            && let Some(proximity) = self.distance(link)
        {
            self.input(Input::Measured { peer: link.peer, proximity });
        }
    }

    fn arrived(&mut self, link: &Rc<Link>, body: Body) {
        if let Some((nonce, at)) = link.timed.get()
            && answers(&body) == Some(nonce)
        {
            link.timed.set(None);
            let rtt = u32::try_from(self.now.since(at).as_micros()).unwrap_or(u32::MAX);
            if link.rtt.replace(Some(rtt)).is_none() {
                self.tell_distance(link);
            }
        }
        if self.away.is_some() && matches!(body, Body::Store(_)) {
            return;
        }
        let from = link.contact();
        let alive = is_heartbeat(&body);
        self.input(Input::Message { from, body });
        if alive {
            for (_, app) in &self.apps {
                let _ = guarded(|| app.heartbeat(from.id));
            }
        }
    }

    /// Gives a command to the node.
    fn command(&mut self, command: Command, reply: oneshot::Sender<Result<Reply, Failure>>) {
        let is_stores =
            matches!(command, Command::Store { .. } | Command::Retire { .. } | Command::Recover { .. });
        if let Some(away) = self.away.filter(|_| is_stores) {
            let _ = reply.send(Err(away.failure()));
            return;
        }
        self.next_request += 1;
        let request = RequestId(self.next_request);
        self.waiting.insert(request, reply);
        self.input(Input::Command { request, command });
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Command { command, reply } => self.command(command, reply),
            Call::Join { seeds, reply } => self.join(seeds, reply),
            Call::Look(look) => {
                let view = self.view();
                let _ = guarded(|| look(&view));
            }
            Call::Client(client) => self.about.client = client,
            Call::Token(chore) => self.token(chore),
            Call::Scrub { start, rate, reply } => {
                let told = if start { self.scrub(rate) } else { Ok(self.engine.scrub_report()) };
                let _ = reply.send(told);
            }
            Call::Copies { count, reply } => {
                let _ = reply.send(self.change_copies(count));
            }
            Call::Leave { reply } => self.leave(reply),
            #[cfg(test)]
            Call::Enter(work) => work(self),
            Call::Stop => self.finish(Ending::Stopped),
            Call::Kill => {
                self.finish(Ending::Stopped);
                self.crash = true;
            }
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            node: &self.node,
            config: &self.config,
            now: self.now,
            book: &self.book,
            about: &self.about,
            metrics: &self.metrics,
            disk: self.disk_report(),
            connections: self.links.values().map(PeerLinks::count).sum(),
            linked: Box::new(|peer| {
                self.links.get(&peer).map(|links| links.main().and_then(|link| link.via.get()))
            }),
        }
    }

    /// The end of a round: links write, applications hear what changed.
    fn leave_round(&mut self) {
        for link in self.dirty.drain(..) {
            link.wake();
        }
        if !self.joined.is_empty() || !self.left.is_empty() {
            let (joined, left) = (std::mem::take(&mut self.joined), std::mem::take(&mut self.left));
            for (_, app) in &self.apps {
                let _ = guarded(|| {
                    app.leaf_set_changed(&joined, &left);
                    joined.iter().for_each(|node| app.node_joined(*node));
                    left.iter().for_each(|node| app.node_left(*node));
                });
            }
        }
    }

    /// Tells whoever follows.
    fn tell(&mut self, what: What) {
        self.next_event += 1;
        if self.events.receiver_count() > 0 {
            let event = Event { serial: self.next_event, at_ms: unix_ms(), what };
            let _ = self.events.send(Arc::new(event));
        }
    }

    /// The node is to end.
    fn finish(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
    }

    fn say_goodbyes(&mut self) {
        self.remember();
        if self.ending == Some(Ending::Stopped) {
            // Nobody needs to make copies of what comes back.
            let (nobody, _) = oneshot::channel();
            self.command(Command::Pause, nobody);
        }
        let last = Refused::new(Why::Stopping, "this node stops");
        let links: Vec<Rc<Link>> = self.links.values().flat_map(PeerLinks::all).collect();
        links.iter().for_each(|link| self.dismiss(link, &last));
    }

    fn end(&mut self, ending: Ending) {
        for peer in self.links.values().flat_map(PeerLinks::all) {
            peer.close(false);
        }
        self.links.clear();
        self.waiting.clear();
        // Whoever hears that this node has ended may open its directory.
        self.engine.close(!self.crash);
        self.me.tokens = Tokens::in_memory(&self.me.identity, self.me.cluster_id);
        self.home = None;
        let _ = self.ready.send(false);
        let _ = self.ended.send(Some(ending));
    }
}

/// The number of a question that is answered at once, so that a round trip can be taken from it.
fn asks(body: &Body) -> Option<Nonce> {
    match body {
        Body::Ping(nonce) => Some(*nonce),
        Body::Routed(routed) => Some(routed.hop),
        Body::Pastry(Message::LeafProbe(probe)) => Some(probe.nonce),
        Body::Pastry(Message::LeaseRequest(request)) => Some(request.nonce),
        _ => None,
    }
}

/// Says whether a message is there to show that its sender is alive, or shows it just as well.
fn is_heartbeat(body: &Body) -> bool {
    match body {
        Body::Ping(_) | Body::Pong(_) => true,
        Body::Pastry(message) => matches!(
            message,
            Message::LeafProbe(_) | Message::LeafReply(_) | Message::LeaseRequest(_) | Message::LeaseReply(_)
        ),
        _ => false,
    }
}

/// The number of the question a message answers.
fn answers(body: &Body) -> Option<Nonce> {
    match body {
        Body::Pong(nonce) => Some(*nonce),
        Body::HopAck(ack) => Some(ack.hop),
        Body::Pastry(Message::LeafReply(reply)) => Some(reply.nonce),
        Body::Pastry(Message::LeaseReply(reply)) => Some(reply.nonce),
        _ => None,
    }
}
