//! What a node does to its store when it is told to: single operations, and load.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::store::op::{
    Action, Answer, Ask, Change, Condition, Found, Happened, Level, Name, Trouble,
};
use kringle_runtime::key::key_of;
use kringle_runtime::{Handle, RequestError};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::histogram::Histogram;
use super::ledger::{self, Entry, Fetched, Kind, Ledger};
use super::protocol::now;

/// The length of the slices whose operations are counted.
pub(crate) const SLICE: Duration = Duration::from_millis(100);
/// How long somebody who was refused waits before the next try, so that refusals do not take all the time.
const BREATH: Duration = Duration::from_millis(5);

/// What to do, and how often. What is not given is as in [`StoreLoad::default`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreLoad {
    /// Operations kept open.
    pub(crate) outstanding: usize,
    /// For how long; it can be told to end earlier.
    pub(crate) for_ms: u64,
    /// Bytes of a value, 8 at least.
    pub(crate) bytes: usize,
    /// Keys are called PREFIX/0, PREFIX/1 and so on, so many.
    pub(crate) prefix: String,
    pub(crate) keys: u32,
    /// Which keys are taken in which order.
    pub(crate) seed: u64,
    /// How many of a hundred operations are gets, and deletes; the others are puts.
    pub(crate) gets: usize,
    pub(crate) deletes: usize,
    pub(crate) level: String,
    pub(crate) deadline_ms: u64,
    /// The pause after each operation.
    pub(crate) pause_us: u64,
    /// Puts every key once, in order, instead of random ones for a time.
    pub(crate) fill: bool,
    /// Where to write down what was acknowledged. Then each key is written one operation after the other, and it
    /// must be one that nobody else writes.
    pub(crate) ledger: Option<PathBuf>,
}

impl Default for StoreLoad {
    fn default() -> StoreLoad {
        StoreLoad {
            outstanding: 1,
            for_ms: 5_000,
            bytes: 100,
            prefix: "key".into(),
            keys: 100_000,
            seed: 1,
            gets: 0,
            deletes: 0,
            level: "quorum".into(),
            deadline_ms: 10_000,
            pause_us: 0,
            fill: false,
            ledger: None,
        }
    }
}

/// What came of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoreLoaded {
    pub(crate) done: u64,
    /// Hops to whoever coordinated, of all that was done.
    pub(crate) hops: u64,
    /// Gets that found nothing.
    pub(crate) absent: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// When it began, by the machine's clock, and how long it took.
    pub(crate) began: u64,
    pub(crate) micros: u64,
    /// How long each successful operation took, in microseconds.
    pub(crate) took: Histogram,
    /// Successful operations in each slice of the time.
    pub(crate) slices: Vec<u32>,
}

impl StoreLoaded {
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds what another node did at the same time.
    pub(crate) fn merge(&mut self, other: &StoreLoaded) {
        self.done += other.done;
        self.hops += other.hops;
        self.absent += other.absent;
        for (why, count) in &other.errors {
            *self.errors.entry(why.clone()).or_default() += count;
        }
        self.micros = self.micros.max(other.micros);
        self.took.merge(&other.took);
        self.slices.resize(self.slices.len().max(other.slices.len()), 0);
        for (mine, others) in self.slices.iter_mut().zip(&other.slices) {
            *mine += others;
        }
    }
}

/// One acknowledged write, in microseconds of the clock of people: as system call traces have it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Acked {
    pub(crate) asked: u64,
    pub(crate) answered: u64,
    /// Copies that had it durably.
    pub(crate) acked: u8,
}

fn people_time() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Puts together what the store is asked.
pub(crate) fn ask(name: &str, action: Action, level: &str) -> Ask {
    let level = match level {
        "one" => Level::One,
        "all" => Level::All,
        _ => Level::Quorum,
    };
    Ask { name: Name { id: key_of(name), bytes: name.into() }, action, level }
}

fn put(value: Vec<u8>) -> Action {
    Action::Change { change: Change::Put { value, ttl: None }, condition: Condition::Always }
}

fn delete() -> Action {
    Action::Change { change: Change::Delete, condition: Condition::Always }
}

/// Names an error in a word, and says whether a write happened.
fn kind_of(error: &RequestError) -> (String, Happened) {
    match error {
        RequestError::Store(trouble) => {
            let text = format!("{trouble:?}");
            let word = text.split([' ', '(']).next().unwrap_or_default().to_string();
            let happened = match trouble {
                Trouble::TooFewReplicas { happened, .. } | Trouble::Timeout { happened } => *happened,
                _ => Happened::No,
            };
            (format!("{word}/{happened:?}"), happened)
        }
        other => {
            let text = format!("{other:?}");
            let word = text.split([' ', '(']).next().unwrap_or_default().to_string();
            let happened = if other.is_outcome_unknown() { Happened::Unknown } else { Happened::No };
            (format!("{word}/{happened:?}"), happened)
        }
    }
}

/// Writes one value, or deletes it if there is none.
pub(crate) async fn write(
    node: &Handle,
    key: &str,
    value: Option<Vec<u8>>,
    level: &str,
    deadline: Duration,
) -> Result<Acked, String> {
    let asked = people_time();
    let action = value.map_or_else(delete, put);
    let answer = node.store(ask(key, action, level), deadline).await;
    let answered = people_time();
    answer.map(|answer| Acked { asked, answered, acked: answer.acked }).map_err(|error| kind_of(&error).0)
}

/// Reads values, all at the same time.
pub(crate) async fn fetch(node: &Handle, keys: &[String], level: &str, deadline: Duration) -> Vec<Fetched> {
    let mut asking = JoinSet::new();
    for (at, key) in keys.iter().cloned().enumerate() {
        let (node, level) = (node.clone(), level.to_string());
        asking.spawn_local(async move {
            let answer = node.store(ask(&key, Action::Get, &level), deadline).await;
            (at, answer.map(|answer| found(&key, &answer)).map_err(|error| kind_of(&error).0))
        });
    }
    let mut answers = asking.join_all().await;
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, fetched)| fetched).collect()
}

fn found(key: &str, answer: &Answer) -> Option<(u64, bool)> {
    match &answer.found {
        Found::Value(Some(value)) => Some(ledger::number(key, &value.bytes)),
        _ => None,
    }
}

/// Says who holds each of these keys.
pub(crate) async fn places(
    node: &Handle,
    keys: &[String],
    deadline: Duration,
) -> Result<Vec<Vec<String>>, String> {
    let mut all = Vec::new();
    for key in keys {
        let answer = node.store(ask(key, Action::Place, "quorum"), deadline).await;
        match answer.map(|answer| answer.found) {
            Ok(Found::Place { copies, .. }) => {
                all.push(copies.iter().map(|copy| copy.node.to_string()).collect());
            }
            Ok(other) => return Err(format!("{key}: {other:?}")),
            Err(error) => return Err(format!("{key}: {error}")),
        }
    }
    Ok(all)
}

/// One of those who keep an operation open.
struct Worker {
    node: Handle,
    load: Rc<StoreLoad>,
    total: Rc<RefCell<StoreLoaded>>,
    /// The next key to be filled.
    next: Rc<Cell<u32>>,
    ledger: Option<Rc<Ledger>>,
    dice: SeededDice,
    start: Instant,
    /// The keys of a worker with a ledger are those that leave this rest when divided by the number of workers.
    rest: u32,
    /// The number of the last acknowledged write of each of its keys, if it was a put.
    known: BTreeMap<u32, u64>,
    number: u64,
}

/// Does as it is told, until the time is over or `ends` says so.
pub(crate) async fn load(
    node: &Handle,
    load: StoreLoad,
    ends: Rc<Cell<bool>>,
) -> Result<StoreLoaded, String> {
    let ledger = load.ledger.as_ref().map(|path| Ledger::create(path, &load.prefix)).transpose();
    let ledger = ledger.map_err(|error| format!("no ledger: {error}"))?.map(Rc::new);
    let load = Rc::new(load);
    let total = Rc::new(RefCell::new(StoreLoaded { began: now(), ..StoreLoaded::default() }));
    let next = Rc::new(Cell::new(0));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for rest in 0..u32::try_from(load.outstanding).unwrap_or(u32::MAX) {
        let mut worker = Worker {
            node: node.clone(),
            load: load.clone(),
            total: total.clone(),
            next: next.clone(),
            ledger: ledger.clone(),
            dice: SeededDice::new(load.seed.wrapping_mul(1_000_003) + u64::from(rest)),
            start,
            rest,
            known: BTreeMap::new(),
            number: 0,
        };
        let ends = ends.clone();
        workers.spawn_local(async move { while !ends.get() && worker.step().await {} });
    }
    while workers.join_next().await.is_some() {}
    let mut total = total.take();
    total.micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(total)
}

impl Worker {
    /// Does one operation. Says whether there is more to do.
    async fn step(&mut self) -> bool {
        let Some(key) = self.key() else { return false };
        let name = ledger::name(&self.load.prefix, key);
        let roll = if self.load.fill { 100 } else { self.dice.below(100) };
        let is_get = roll < self.load.gets;
        let is_delete = !is_get && roll < self.load.gets + self.load.deletes;
        let action = if is_get {
            Action::Get
        } else {
            self.number += 1;
            if is_delete { delete() } else { put(ledger::value(&name, self.number, self.load.bytes)) }
        };
        let mut entry = Entry {
            kind: Kind::Deleting,
            key,
            number: self.number,
            start: now(),
            end: 0,
            why: String::new(),
        };
        // Whoever finds nothing has to know that a delete may have happened.
        if let (Some(ledger), true) = (&self.ledger, is_delete)
            && !ledger.note(&entry).await
        {
            return false;
        }
        let deadline = Duration::from_millis(self.load.deadline_ms);
        let asked = Instant::now();
        entry.start = now();
        let answer = self.node.store(ask(&name, action, &self.load.level), deadline).await;
        entry.end = now();
        match &answer {
            Ok(answer) => {
                self.count(answer, asked);
                entry.kind = if is_get {
                    self.judge(&name, &mut entry, answer)
                } else if is_delete {
                    self.known.remove(&key);
                    Kind::Delete
                } else {
                    self.known.insert(key, self.number);
                    Kind::Put
                };
            }
            Err(error) => {
                let (why, happened) = kind_of(error);
                entry.kind = match happened {
                    _ if is_get => Kind::Failed,
                    Happened::No => Kind::Not,
                    Happened::Some | Happened::Unknown => Kind::Unknown,
                };
                if is_delete && entry.kind == Kind::Unknown {
                    self.known.remove(&key);
                }
                entry.why.clone_from(&why);
                *self.total.borrow_mut().errors.entry(why).or_default() += 1;
            }
        }
        if let Some(ledger) = &self.ledger
            && !ledger.note(&entry).await
        {
            return false;
        }
        // The node does not run any more.
        if matches!(answer, Err(RequestError::Gone)) {
            return false;
        }
        let pause = Duration::from_micros(self.load.pause_us);
        let pause = if answer.is_err() { pause.max(BREATH) } else { pause };
        if !pause.is_zero() {
            sleep(pause).await;
        }
        true
    }

    /// Chooses a key.
    fn key(&mut self) -> Option<u32> {
        if self.load.fill {
            let key = self.next.get();
            self.next.set(key + 1);
            return (key < self.load.keys).then_some(key);
        }
        if self.start.elapsed() >= Duration::from_millis(self.load.for_ms) {
            return None;
        }
        let workers = u32::try_from(self.load.outstanding).unwrap_or(u32::MAX);
        let (share, all) = (self.load.keys / workers, self.load.keys);
        let below = |dice: &mut SeededDice, n: u32| u32::try_from(dice.below(n.max(1) as usize)).unwrap_or(0);
        match self.ledger {
            None => Some(below(&mut self.dice, all)),
            Some(_) => Some(below(&mut self.dice, share) * workers + self.rest),
        }
    }

    fn count(&self, answer: &Answer, asked: Instant) {
        let mut total = self.total.borrow_mut();
        total.done += 1;
        total.hops += u64::from(answer.hops);
        total.absent += u64::from(answer.found == Found::Value(None));
        total.took.add(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
        let slice = (self.start.elapsed().as_millis() / SLICE.as_millis()) as usize;
        if total.slices.len() <= slice {
            total.slices.resize(slice + 1, 0);
        }
        total.slices[slice] += 1;
    }

    /// Judges what the only writer of a key reads.
    fn judge(&self, name: &str, entry: &mut Entry, answer: &Answer) -> Kind {
        if self.ledger.is_none() || self.load.level == "one" {
            return Kind::Get;
        }
        let found = found(name, answer);
        entry.number = found.map_or(0, |(number, _)| number);
        let known = self.known.get(&entry.key).copied().unwrap_or(0);
        let is_fine = entry.number >= known && found.is_none_or(|(_, whole)| whole);
        if is_fine {
            return Kind::Get;
        }
        entry.why = format!("{found:?},not,{known}").replace(' ', "");
        Kind::Stale
    }
}
