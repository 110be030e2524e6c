//! One node as a process.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, Write};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kringle_core::id::Key;
use kringle_runtime::report::Event;
use kringle_runtime::{App, Builder, Ending, Handle, Message, Seed};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::load::{self, Keys};
use super::protocol::{Ask, Delivery, First, Key128, Last, Line, Options, PURPOSE, Question, Record, now};
use super::{ledger, storing};

/// Events kept for whoever asks.
const EVENTS_MAX: usize = 10_000;

/// Remembers what it is given.
#[derive(Default)]
struct Memory {
    deliveries: Mutex<Vec<Delivery>>,
}

impl App for Memory {
    fn deliver(&self, key: Key, message: Message) -> Option<Vec<u8>> {
        let serial = message.bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let delivery = Delivery { origin: Key128(message.origin), serial, key: Key128(key), at: now() };
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
        None
    }
}

/// Takes everything and keeps nothing.
struct Sink;

impl App for Sink {}

struct Running {
    node: Handle,
    memory: Arc<Memory>,
    events: RefCell<Vec<Arc<Event>>>,
    records: RefCell<Vec<Record>>,
    streams: Cell<bool>,
    open: Cell<usize>,
    serial: Cell<u64>,
    /// Set when the loads that run now are to end.
    ends: RefCell<Rc<Cell<bool>>>,
}

/// Runs a node until it ends. Returns the exit code of the process.
pub(crate) fn main(options: &str) -> i32 {
    let options: Options = match serde_json::from_str(options) {
        Ok(options) => options,
        Err(error) => {
            say(&First::Failed { what: error.to_string(), remedy: "see Options in ring/protocol.rs".into() });
            return 2;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return 1;
        }
    };
    LocalSet::new().block_on(&runtime, run(options))
}

async fn run(options: Options) -> i32 {
    let memory = Arc::new(Memory::default());
    let (own_thread, store) = (options.own_thread, options.store());
    let mut builder = Builder::new(if options.cluster.is_empty() { "ring" } else { &options.cluster })
        .settings(options.settings())
        .app(PURPOSE, memory.clone())
        .app(PURPOSE + 1, Arc::new(Sink))
        .join(options.join.iter().copied().map(Seed::Address));
    if let Some(data) = options.data {
        builder = builder.data(data);
    }
    if let Some(listen) = options.listen {
        builder = builder.listen(listen);
    }
    if let Some(secret) = options.secret {
        builder = builder.secret(secret);
    }
    if let Some(store) = store {
        builder = builder.store(store);
    }
    let start = Instant::now();
    let started = if own_thread { builder.start().await } else { builder.start_here().await };
    let start_time = start.elapsed();
    let node = match started {
        Ok(node) => node,
        Err(error) => {
            say(&First::Failed { what: error.to_string(), remedy: error.remedy() });
            return 1;
        }
    };
    let running = Rc::new(Running {
        node: node.clone(),
        memory,
        events: RefCell::default(),
        records: RefCell::default(),
        streams: Cell::new(false),
        open: Cell::new(0),
        serial: Cell::new(0),
        ends: RefCell::default(),
    });
    spawn_local(running.clone().follow());
    let info = node.info();
    say(&First::Started {
        pid: std::process::id(),
        id: node.id().to_string(),
        address: info.bound[0],
        incarnation: info.incarnation,
        start_us: u64::try_from(start_time.as_micros()).unwrap_or(u64::MAX),
    });
    let mut questions = questions();
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return 1 };
    let ending = loop {
        tokio::select! {
            ending = node.ended() => break ending,
            _ = terminate.recv() => break node.stop().await,
            question = questions.recv() => match question {
                Some(question) => drop(spawn_local(running.clone().answer(question))),
                // Whoever started us is gone.
                None => break node.stop().await,
            },
        }
    };
    let (last, code) = match ending {
        Ending::Stopped => (Last::Stopped, 0),
        Ending::Left => (Last::Left, 0),
        Ending::Twin { what } => (Last::Twin(what), 3),
        Ending::Refused { what } | Ending::WrongCluster { what } | Ending::FoundedApart { what } => {
            (Last::Refused(what), 4)
        }
        Ending::Retired => (Last::Refused("its id was retired".into()), 4),
        Ending::Failed { what } => (Last::Failed(what), 1),
    };
    say(&Line::Ended { ended: last });
    code
}

fn say(line: &impl serde::Serialize) {
    let text = serde_json::to_string(line).unwrap_or_else(|error| error.to_string());
    let mut out = std::io::stdout().lock();
    // Nobody may be listening any more.
    let _ = writeln!(out, "\n{text}").and_then(|()| out.flush());
}

/// Reads questions on a thread of its own: standard input has no other way of not being in the way.
fn questions() -> mpsc::UnboundedReceiver<Question> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            match serde_json::from_str(&line).map(|question| tell.send(question).is_ok()) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => eprintln!("not understood: {error}: {line}"),
            }
        }
    });
    told
}

impl Running {
    async fn follow(self: Rc<Self>) {
        let mut events = self.node.events();
        while let Some(event) = events.next().await {
            let mut kept = self.events.borrow_mut();
            if kept.len() < EVENTS_MAX {
                kept.push(event);
            }
        }
    }

    async fn answer(self: Rc<Self>, question: Question) {
        let answer = self.clone().do_it(question.ask).await;
        let answer = answer.unwrap_or_else(|error| json!({ "error": error }));
        say(&Line::Answer { n: question.n, answer });
    }

    async fn do_it(self: Rc<Self>, ask: Ask) -> Result<Value, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let value = match ask {
            Ask::Ready { within_ms } => {
                json!(matches!(
                    timeout(Duration::from_millis(within_ms), self.node.ready()).await,
                    Ok(Ok(()))
                ))
            }
            Ask::Lookup { keys, deadline_ms } => {
                let mut asking = tokio::task::JoinSet::new();
                for (at, key) in keys.iter().enumerate() {
                    let key = key.parse().map_err(|error| text(&error))?;
                    let deadline = Duration::from_millis(deadline_ms);
                    let running = self.clone();
                    asking
                        .spawn_local(async move { running.question(key, deadline, false, at as u64).await });
                }
                json!(asking.join_all().await)
            }
            Ask::Summary => json!(self.node.summary().await.map_err(|error| text(&error))?),
            Ask::Metrics => json!(self.node.metrics().await.map_err(|error| text(&error))?),
            Ask::Events => json!(self.events.borrow().iter().map(|event| &**event).collect::<Vec<_>>()),
            Ask::Stream { every_ms, deadline_ms, seed, route } => {
                self.streams.set(true);
                let deadline = Duration::from_millis(deadline_ms);
                spawn_local(self.stream(Duration::from_millis(every_ms), deadline, seed, route));
                Value::Null
            }
            Ask::EndStreams => {
                self.streams.set(false);
                while self.open.get() > 0 {
                    sleep(Duration::from_millis(10)).await;
                }
                json!(self.records.take())
            }
            Ask::Deliveries => {
                json!(*self.memory.deliveries.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Ask::Load { outstanding, for_ms, bytes, seed, lookup } => {
                let time = Duration::from_millis(for_ms);
                json!(load::load(&self.node, outstanding, time, bytes, seed, lookup).await)
            }
            Ask::Echo => json!(load::echo().await.map_err(|error| text(&error))?),
            Ask::Pace { echoes, rounds, bytes, seed } => {
                json!(load::pace(&self.node, &echoes, rounds, bytes, seed).await?)
            }
            Ask::Write { key, number, bytes, level, deadline_ms } => {
                let deadline = Duration::from_millis(deadline_ms);
                let value = bytes.map(|bytes| ledger::value(&key, number, bytes));
                json!(storing::write(&self.node, &key, value, &level, deadline).await?)
            }
            Ask::Fetch { keys, level, deadline_ms } => {
                let deadline = Duration::from_millis(deadline_ms);
                json!(storing::fetch(&self.node, &keys, &level, deadline).await)
            }
            Ask::Places { keys, deadline_ms } => {
                let deadline = Duration::from_millis(deadline_ms);
                json!(storing::places(&self.node, &keys, deadline).await?)
            }
            Ask::StoreLoad(load) => {
                let ends = self.ends.borrow().clone();
                json!(storing::load(&self.node, load, ends).await?)
            }
            Ask::EndLoads => {
                self.ends.take().set(true);
                Value::Null
            }
            Ask::Stop => {
                self.node.stop().await;
                Value::Null
            }
            Ask::Leave => {
                self.node.leave().await.map_err(|error| text(&error))?;
                Value::Null
            }
        };
        Ok(value)
    }

    /// Asks about a key, or routes a message to it, and records what comes of it.
    async fn question(self: Rc<Self>, key: Key, deadline: Duration, routed: bool, serial: u64) -> Record {
        let start = now();
        let (outcome, is_final) = if routed {
            let done = self.node.route(key, PURPOSE, serial.to_be_bytes().to_vec(), deadline).await;
            (done.map(|done| (Key128(done.root), done.hops)).map_err(|error| error.to_string()), true)
        } else {
            match self.node.lookup(key, deadline).await {
                Ok(found) => {
                    let root = Key128::try_from(found.root);
                    (root.map(|root| (root, found.hops)), found.is_final)
                }
                Err(error) => (Err(error.to_string()), false),
            }
        };
        Record { key: Key128(key), start, end: now(), routed, serial, is_final, outcome }
    }

    async fn stream(self: Rc<Self>, every: Duration, deadline: Duration, seed: u64, route: bool) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for key in Keys::new(seed) {
            ticks.tick().await;
            if !self.streams.get() {
                return;
            }
            self.open.set(self.open.get() + 1);
            let running = self.clone();
            spawn_local(async move {
                running.serial.set(running.serial.get() + 1);
                let serial = running.serial.get();
                let record = running.clone().question(key, deadline, route, serial).await;
                running.records.borrow_mut().push(record);
                running.open.set(running.open.get() - 1);
            });
        }
    }
}
