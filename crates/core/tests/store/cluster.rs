//! A few nodes with stores, a network that may lose and reorder, and disks that forget what was not synced.

use std::collections::VecDeque;
use std::time::Duration;

use kringle_core::config::{Config, Settings};
use kringle_core::contact::{Addr, Contact};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Ctx, Failure, Input, Outbox, Output, Reply, RequestId, Timer};
use kringle_core::id::Id;
use kringle_core::message::Body;
use kringle_core::node::Node;
use kringle_core::overlay::AnyOverlay;
use kringle_core::overlay::echo::Echo;
use kringle_core::records::{Gap, MemoryRecords, Records, Write};
use kringle_core::store::Store;
use kringle_core::store::op::{
    Action, Answer, Ask, Change, Condition, Digest, Found, Level, Name, Trouble, Value,
};
use kringle_core::store::record::Cell;
use kringle_core::store::version::Version;
use kringle_core::time::Time;

pub(crate) const WALL: u64 = 1_700_000_000_000;

pub(crate) struct Place {
    pub(crate) contact: Contact,
    pub(crate) node: Option<Node>,
    /// What the node sees, what would survive a crash, and what is on its way there.
    pub(crate) seen: MemoryRecords,
    pub(crate) safe: MemoryRecords,
    pub(crate) queue: VecDeque<(u64, Vec<Write>)>,
    pub(crate) born: u32,
    pub(crate) offset: i64,
    /// What its disk cannot give back at the next start.
    pub(crate) gaps: Vec<Gap>,
    timers: Vec<Option<Time>>,
    dice: SeededDice,
}

pub(crate) struct Cluster {
    pub(crate) config: Config,
    pub(crate) places: Vec<Place>,
    pub(crate) now: Time,
    /// Messages under way: when, to whom, from whom, what.
    pub(crate) wire: Vec<(Time, usize, Contact, Body)>,
    pub(crate) dice: SeededDice,
    /// Of a hundred messages, this many are lost.
    pub(crate) loss: u64,
    /// Pairs that can not hear each other.
    pub(crate) cut: Vec<(usize, usize)>,
    pub(crate) replies: Vec<(RequestId, Result<Reply, Failure>)>,
    /// Whether disks sync at all.
    pub(crate) sync: bool,
    requests: u64,
    /// Nodes whose store is to be set aside.
    pub(crate) outdated: std::collections::BTreeSet<usize>,
}

pub(crate) fn settings() -> Settings {
    Settings { slots: 4, leaf_set: 8, sweep: Duration::from_secs(5), ..Settings::default() }
}

impl Cluster {
    /// Makes a cluster: the first node holds everything, the others are there.
    pub(crate) fn of(count: usize, settings: Settings, seed: u64) -> Cluster {
        let config = settings.check().expect("settings are right");
        let mut cluster = Cluster {
            config,
            places: Vec::new(),
            now: Time::ZERO,
            wire: Vec::new(),
            dice: SeededDice::new(seed),
            loss: 0,
            cut: Vec::new(),
            replies: Vec::new(),
            sync: true,
            requests: 0,
            outdated: std::collections::BTreeSet::new(),
        };
        let step = u128::MAX / count as u128;
        for index in 0..count {
            let contact = Contact::new(Id::new(step * index as u128 + 12_345), 1, Addr(index as u32));
            cluster.places.push(Place {
                contact,
                node: None,
                seen: MemoryRecords::default(),
                safe: MemoryRecords::default(),
                queue: VecDeque::new(),
                born: 1 + index as u32,
                offset: 0,
                gaps: Vec::new(),
                timers: vec![None; Timer::ALL.len()],
                dice: SeededDice::derive(seed, index as u64),
            });
        }
        for index in 0..count {
            cluster.start(index);
        }
        cluster
    }

    /// A cluster that has found its views.
    pub(crate) fn ready(count: usize) -> Cluster {
        let mut cluster = Cluster::of(count, settings(), 1);
        cluster.run(Duration::from_secs(5));
        cluster
    }

    pub(crate) fn start(&mut self, index: usize) {
        let others: Vec<Contact> = self
            .places
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != index)
            .map(|(_, place)| place.contact)
            .collect();
        let fresh = self.places[index].contact.incarnation == 1;
        let place = &mut self.places[index];
        place.seen = place.safe.clone();
        place.queue.clear();
        let echo = AnyOverlay::Echo(Echo::among(place.contact, others));
        let mut store = Store::open(place.contact, place.born, &place.seen, &self.config);
        let gaps = std::mem::take(&mut place.gaps);
        store.doubt_gaps(&gaps, &place.seen, &self.config).expect("views are whole");
        place.node = Some(Node::over(echo).with_store(store));
        let command = match index == 0 && fresh {
            true => Command::Create,
            false => Command::Join { seeds: Vec::new() },
        };
        self.command(index, command);
        for other in 0..self.places.len() {
            if other != index {
                let away = self.places[other].node.is_none() && !fresh;
                let peer = self.places[other].contact.id;
                if away {
                    self.input(index, Input::Lost { peer });
                }
                let peer = self.places[index].contact.id;
                if !fresh {
                    self.input(other, Input::Opened { peer });
                }
            }
        }
    }

    /// Stops a node without a word; the others notice.
    pub(crate) fn crash(&mut self, index: usize) {
        self.vanish(index);
        let peer = self.places[index].contact.id;
        for other in 0..self.places.len() {
            self.input(other, Input::Lost { peer });
        }
    }

    /// Stops a node; nobody notices.
    pub(crate) fn vanish(&mut self, index: usize) {
        let place = &mut self.places[index];
        place.node = None;
        place.timers.fill(None);
        place.queue.clear();
        self.wire.retain(|(_, to, ..)| *to != index);
    }

    /// Starts a crashed node again with what its disk has.
    pub(crate) fn restart(&mut self, index: usize) {
        self.places[index].contact.incarnation += 1;
        self.start(index);
    }

    /// Throws a disk away.
    pub(crate) fn forget(&mut self, index: usize) {
        self.places[index].safe = MemoryRecords::default();
        self.places[index].born += 1000;
    }

    /// Damages the copy that a node has of a key.
    pub(crate) fn damage(&mut self, index: usize, key: &str) {
        self.damage_cell(index, &Cell::of(&name(key)));
    }

    pub(crate) fn damage_cell(&mut self, index: usize, cell: &Cell) {
        let place = &mut self.places[index];
        let (space, at) = (cell.space(), cell.key.0.clone());
        let mut value = place.safe.read(space, &at).expect("it has a copy").to_vec();
        *value.last_mut().expect("records are not empty") ^= 1;
        for disk in [&mut place.safe, &mut place.seen] {
            disk.apply([Write { space, key: at.clone(), value: Some(value.clone().into()) }]);
        }
    }

    pub(crate) fn command(&mut self, index: usize, command: Command) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.input(index, Input::Command { request, command });
        request
    }

    pub(crate) fn input(&mut self, index: usize, input: Input) {
        let place = &mut self.places[index];
        let Some(node) = &mut place.node else { return };
        let mut out = Outbox::new();
        let mut cx = Ctx {
            now: self.now,
            wall: (WALL + self.now.micros() / 1000).saturating_add_signed(place.offset),
            config: &self.config,
            dice: &mut place.dice,
            records: &place.seen,
            out: &mut out,
        };
        node.handle(input, &mut cx);
        node.check_invariants(&self.config);
        for output in out.drain() {
            self.execute(index, output);
        }
    }

    fn execute(&mut self, index: usize, output: Output) {
        match output {
            Output::Send { to, body, .. } => {
                let target = to.addr.0 as usize;
                let cut = self.cut.contains(&(index, target)) || self.cut.contains(&(target, index));
                if cut || self.dice.roll() % 100 < self.loss {
                    return;
                }
                let at = self.now.after(Duration::from_micros(100 + self.dice.roll() % 900));
                self.wire.push((at, target, self.places[index].contact, body));
            }
            Output::Persist { ticket, writes } => {
                self.places[index].seen.apply(writes.clone());
                self.places[index].queue.push_back((ticket, writes));
            }
            Output::SetTimer { timer, at } => self.places[index].timers[timer as usize] = Some(at),
            Output::CancelTimer { timer } => self.places[index].timers[timer as usize] = None,
            Output::Event(kringle_core::edge::Event::StoreOutdated) => _ = self.outdated.insert(index),
            Output::Reply { request, reply } => self.replies.push((request, reply)),
            _ => {}
        }
    }

    /// Makes everything asked for durable, at one node.
    pub(crate) fn sync_disk(&mut self, index: usize) {
        let place = &mut self.places[index];
        let mut last = None;
        while let Some((ticket, writes)) = place.queue.pop_front() {
            place.safe.apply(writes);
            last = Some(ticket);
        }
        if let Some(ticket) = last {
            self.input(index, Input::Persisted { ticket });
        }
    }

    /// Lets time pass, a tenth of a millisecond at a time.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now.after(span);
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        // Straight to the next thing that happens.
        let timers = self.places.iter().flat_map(|place| place.timers.iter().flatten().copied());
        let next = self.wire.iter().map(|(at, ..)| *at).chain(timers).min();
        let pending = self.sync && self.places.iter().any(|place| !place.queue.is_empty());
        let soon = self.now.after(Duration::from_micros(100));
        self.now = if pending { soon } else { next.unwrap_or(soon).max(soon) };
        for index in 0..self.places.len() {
            for timer in Timer::ALL {
                if self.places[index].timers[*timer as usize].is_some_and(|at| at <= self.now) {
                    self.places[index].timers[*timer as usize] = None;
                    self.input(index, Input::Timer(*timer));
                }
            }
            if self.sync {
                self.sync_disk(index);
            }
        }
        let now = self.now;
        let mut due: Vec<_> = self.wire.extract_if(.., |(at, ..)| *at <= now).collect();
        due.sort_by_key(|(at, ..)| *at);
        for (_, to, from, body) in due {
            self.input(to, Input::Message { from, body });
        }
    }

    pub(crate) fn ask(&mut self, index: usize, key: &str, action: Action, level: Level) -> RequestId {
        let ask = Box::new(Ask { name: name(key), action, level });
        self.command(index, Command::Store { ask, deadline: Duration::from_secs(2) })
    }

    /// Runs until a request is answered.
    pub(crate) fn finish(&mut self, request: RequestId) -> Result<Answer, Failure> {
        let end = self.now.after(Duration::from_secs(10));
        loop {
            if let Some(at) = self.replies.iter().position(|(id, _)| *id == request) {
                return match self.replies.swap_remove(at).1 {
                    Ok(Reply::Store(answer)) => Ok(*answer),
                    Ok(other) => panic!("{other:?}"),
                    Err(failure) => Err(failure),
                };
            }
            assert!(self.now < end, "{request:?} is answered");
            self.step();
        }
    }

    pub(crate) fn act(&mut self, index: usize, key: &str, action: Action) -> Result<Answer, Failure> {
        let request = self.ask(index, key, action, Level::Quorum);
        self.finish(request)
    }

    pub(crate) fn put(&mut self, index: usize, key: &str, value: &str) -> Version {
        let answer = self.act(index, key, put(value)).expect("put");
        changed(&answer).0
    }

    pub(crate) fn get(&mut self, index: usize, key: &str) -> Option<String> {
        let answer = self.act(index, key, Action::Get).expect("get");
        value(answer).map(|value| String::from_utf8(value.bytes).expect("text"))
    }

    pub(crate) fn members(&mut self, index: usize, key: &str) -> Vec<String> {
        let answer = self.act(index, key, Action::Members).expect("members");
        let Found::Members(values) = answer.found else { panic!("{answer:?}") };
        let mut values: Vec<String> =
            values.into_iter().map(|value| String::from_utf8(value.bytes).expect("text")).collect();
        values.sort();
        values
    }

    /// Returns the node that comes first in the view of a key.
    pub(crate) fn leader(&self, key: &str) -> usize {
        let slot = Store::slot_of(name(key).id, &self.config);
        let views = self.places.iter().filter_map(|place| place.node.as_ref()?.store()?.view(slot));
        let (newest, _) = views.max_by_key(|(view, _)| view.epoch).expect("the slot has a view");
        let first = newest.members.first().expect("it has members").id;
        self.places.iter().position(|place| place.contact.id == first).expect("it is here")
    }

    /// Says how many members views have, and how many of them serve, over all slots.
    pub(crate) fn views(&self) -> Vec<(u64, usize, usize)> {
        (0..self.config.slots)
            .map(|slot| {
                let views = self.places.iter().filter_map(|place| place.node.as_ref()?.store()?.view(slot));
                let newest = views.clone().max_by_key(|(view, _)| view.epoch);
                let Some((newest, _)) = newest else { return (0, 0, 0) };
                let serving = views.filter(|(view, serves)| view.epoch == newest.epoch && *serves).count();
                (newest.epoch, newest.members.len(), serving)
            })
            .collect()
    }
}

/// Places a key by its first letters, so that tests can choose its slot.
pub(crate) fn name(key: &str) -> Name {
    let place =
        key.bytes().fold(0u128, |place, byte| place.wrapping_mul(0x0100_0193).wrapping_add(byte.into()));
    Name { id: Id::new(place.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)), bytes: key.into() }
}

pub(crate) fn put(value: &str) -> Action {
    Action::Change { change: Change::Put { value: value.into(), ttl: None }, condition: Condition::Always }
}

pub(crate) fn put_if(value: &str, condition: Condition) -> Action {
    Action::Change { change: Change::Put { value: value.into(), ttl: None }, condition }
}

pub(crate) fn change(change: Change) -> Action {
    Action::Change { change, condition: Condition::Always }
}

pub(crate) fn digest(value: &str) -> Digest {
    let mut digest = [0; 16];
    for (at, byte) in value.bytes().enumerate() {
        digest[at % 16] ^= byte;
    }
    Digest(digest)
}

pub(crate) fn add(value: &str) -> Action {
    Action::Add { digest: digest(value), value: value.into(), ttl: None }
}

pub(crate) fn changed(answer: &Answer) -> (Version, bool, Option<i64>) {
    match answer.found {
        Found::Changed { version, created, number } => (version, created, number),
        _ => panic!("{answer:?}"),
    }
}

pub(crate) fn value(answer: Answer) -> Option<Value> {
    match answer.found {
        Found::Value(value) => value,
        _ => panic!("{answer:?}"),
    }
}

pub(crate) fn trouble(result: Result<Answer, Failure>) -> Trouble {
    match result {
        Err(Failure::Store(trouble)) => trouble,
        other => panic!("{other:?}"),
    }
}
