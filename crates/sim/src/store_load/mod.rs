//! Clients of the store in a [`World`]: each asks one thing at a time of a random ready node, and writes down what it
//! asked and what it heard, for the checkers of [`crate::history`].
//!
//! Keys are of four kinds, so that no answer depends on what else a key was used for: values, numbers, sets, and values
//! that end by themselves, which must be left alone for that. Every value is written once. A key that has seen enough is left alone and a new one takes its place: the search for an
//! order is fast for short histories.

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
mod translate;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, RequestId};
use kringle_core::id::Id;
use kringle_core::store::op::{Ask, Level, Name};
use kringle_core::time::Time;

use crate::history::{Action, Condition, Operation, Outcome, Seen, Version};
use crate::world::{Answered, World};

/// Where operations are handed in: the nodes' own store, or a stand-in of a test.
pub trait Desk {
    /// Hands an operation to a node. Returns the number its answer will carry.
    fn ask(&mut self, world: &mut World, node: u32, ask: Ask, deadline: Duration) -> RequestId;

    /// Takes the answers that have been given since.
    fn answers(&mut self, world: &mut World) -> Vec<Answered>;
}

/// The store of the nodes themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnStore;

impl Desk for OwnStore {
    fn ask(&mut self, world: &mut World, node: u32, ask: Ask, deadline: Duration) -> RequestId {
        world.command(node, Command::Store { ask: Box::new(ask), deadline })
    }

    fn answers(&mut self, world: &mut World) -> Vec<Answered> {
        world.take_replies()
    }
}

/// How often clients ask for what, relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Writes of values.
    pub put: usize,
    /// Reads of values and numbers.
    pub get: usize,
    /// Writes on a condition.
    pub cas: usize,
    /// Deletes of values and numbers.
    pub delete: usize,
    /// Writes with a time to live, and changes of one.
    pub ttl: usize,
    /// Increments of numbers.
    pub increment: usize,
    /// Additions to sets.
    pub add: usize,
    /// Removals from sets.
    pub remove: usize,
    /// Reads of sets.
    pub members: usize,
    /// Deletes of whole sets.
    pub clear: usize,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix {
            put: 4,
            get: 8,
            cas: 5,
            delete: 2,
            ttl: 2,
            increment: 4,
            add: 4,
            remove: 2,
            members: 4,
            clear: 1,
        }
    }
}

/// What a load is made of, besides its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSetUp {
    /// Clients, each with one operation at a time.
    pub clients: u32,
    /// Keys of each kind in use at a time; more of those whose values end.
    pub keys: usize,
    /// Operations after which a key is replaced by a new one.
    pub per_key: u32,
    /// What is asked for.
    pub mix: Mix,
    /// How long a node may take to answer.
    pub deadline: Duration,
    /// How long a client waits between an answer and its next question at most.
    pub think: Duration,
}

impl Default for LoadSetUp {
    fn default() -> LoadSetUp {
        LoadSetUp {
            clients: 6,
            keys: 3,
            per_key: 150,
            mix: Mix::default(),
            deadline: Duration::from_secs(2),
            think: Duration::from_millis(200),
        }
    }
}

/// What a last look at all keys does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Reads each.
    Read,
    /// Writes to each.
    Write,
}

/// Clients at work.
pub struct Load {
    set_up: LoadSetUp,
    seed: u64,
    dice: SeededDice,
    clients: Vec<Client>,
    keys: Vec<KeyInUse>,
    history: Vec<Operation>,
    /// Who waits for which answer.
    open: BTreeMap<RequestId, usize>,
    written: u64,
    /// Questions that a node which was there all the time did not answer.
    ignored: Vec<Operation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Value,
    Number,
    Set,
    /// A value with a time to live.
    Timed,
}

struct KeyInUse {
    name: String,
    sort: Sort,
    operations: u32,
    /// Increments so far.
    increments: u32,
    retired: bool,
    /// Some versions that were told, for conditions.
    versions: VecDeque<Version>,
    /// Some values of the set.
    values: VecDeque<String>,
}

#[derive(Default)]
struct Client {
    waiting: Option<Waiting>,
    idle_until: Time,
    node: Option<u32>,
}

struct Waiting {
    request: RequestId,
    /// Its place in the history.
    operation: usize,
    key: usize,
    node: u32,
    incarnation: u32,
    /// Whether the node was seen stopped meanwhile.
    stopped: bool,
    until: Time,
}

/// Keeps loads apart from other things drawn from the same seed.
const LOAD: u64 = 12 << 40;
/// How often clients look whether they have an answer.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// There are so many times as many keys whose values end: each is changed more rarely.
const TIMED: usize = 3;
/// How many different increments a number may have without ever getting out of range.
const DIGITS: u32 = 61;
/// How many of them a key in use keeps for the last look.
const DIGITS_LEFT: u32 = 11;
/// How many versions and values of a key are remembered.
const REMEMBERED: usize = 6;

impl Load {
    /// Makes clients that have not asked anything yet.
    pub fn new(seed: u64, set_up: LoadSetUp) -> Load {
        let mut load = Load {
            set_up,
            seed,
            dice: SeededDice::derive(seed ^ LOAD, 0),
            clients: (0..set_up.clients).map(|_| Client::default()).collect(),
            keys: Vec::new(),
            history: Vec::new(),
            open: BTreeMap::new(),
            written: 0,
            ignored: Vec::new(),
        };
        for (sort, times) in [(Sort::Value, 1), (Sort::Number, 1), (Sort::Set, 1), (Sort::Timed, TIMED)] {
            (0..set_up.keys.max(1) * times).for_each(|_| load.new_key(sort));
        }
        load
    }

    /// Returns everything that was asked and answered so far.
    pub fn history(&self) -> &[Operation] {
        &self.history
    }

    /// Returns the questions that a node which was running all the time, and not stopped, has left without an answer long
    /// after the deadline.
    pub fn ignored(&self) -> &[Operation] {
        &self.ignored
    }

    /// Returns how many keys there have been.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Lets the clients work for a while.
    pub fn run(&mut self, world: &mut World, desk: &mut dyn Desk, span: Duration) {
        let end = world.now().after(span);
        while world.now() < end {
            self.listen(world, desk);
            for client in 0..self.clients.len() {
                self.next(client, world, desk);
            }
            world.run_for(LOOK_EVERY.min(end.since(world.now())));
        }
        self.listen(world, desk);
    }

    /// Reads or writes every key there has been, each as often as it takes.
    ///
    /// # Errors
    /// Names the keys for which it did not succeed within this time, with what came back last.
    pub fn sweep(
        &mut self,
        world: &mut World,
        desk: &mut dyn Desk,
        sweep: Sweep,
        within: Duration,
    ) -> Result<(), String> {
        let end = world.now().after(within);
        let mut left: VecDeque<usize> = (0..self.keys.len()).collect();
        let mut asked: Vec<Option<(usize, usize)>> = vec![None; self.clients.len()];
        loop {
            self.listen(world, desk);
            for (client, asked) in asked.iter_mut().enumerate() {
                if self.clients[client].waiting.is_some() {
                    continue;
                }
                if let Some((key, operation)) = asked.take()
                    && !succeeded(&self.history[operation])
                {
                    left.push_back(key);
                }
                let Some(key) = left.pop_front() else { continue };
                let action = self.sweeping(key, sweep);
                match self.ask(client, key, action, world, desk) {
                    true => *asked = Some((key, self.history.len() - 1)),
                    false => left.push_back(key),
                }
            }
            if left.is_empty() && asked.iter().all(Option::is_none) {
                return Ok(());
            }
            if world.now() >= end {
                left.extend(asked.iter().flatten().map(|(key, _)| *key));
                return Err(self.describe(&left, sweep));
            }
            world.run_for(LOOK_EVERY);
        }
    }

    fn describe(&self, left: &VecDeque<usize>, sweep: Sweep) -> String {
        let lines = left.iter().map(|key| {
            let name = &self.keys[*key].name;
            let last = self.history.iter().rev().find(|operation| operation.key == *name);
            let last = last.map_or_else(|| "never asked".to_owned(), Operation::to_string);
            format!("\n  key {name}: {last}")
        });
        let what = if sweep == Sweep::Read { "read" } else { "written" };
        format!("{} of {} keys can not be {what}:{}", left.len(), self.keys.len(), lines.collect::<String>())
    }

    /// Takes answers, and gives up what has waited for too long.
    fn listen(&mut self, world: &mut World, desk: &mut dyn Desk) {
        for answered in desk.answers(world) {
            let Some(client) = self.open.remove(&answered.request) else { continue };
            self.take(client, answered);
        }
        for at in 0..self.clients.len() {
            let now = world.now();
            let Some(waiting) = &mut self.clients[at].waiting else { continue };
            let there = world.node(waiting.node).is_some()
                && world.contact(waiting.node).incarnation == waiting.incarnation;
            waiting.stopped |= world.is_paused(waiting.node);
            // A client notices that its connection broke.
            if there && now < waiting.until {
                continue;
            }
            if there && !waiting.stopped {
                self.ignored.push(self.history[waiting.operation].clone());
            }
            self.open.remove(&waiting.request);
            self.clients[at].waiting = None;
            self.clients[at].node = None;
        }
    }

    fn take(&mut self, client: usize, answered: Answered) {
        let Some(waiting) = self.clients[client].waiting.take() else { return };
        let operation = &mut self.history[waiting.operation];
        operation.outcome = translate::outcome(answered.reply);
        operation.completed = Some(answered.at);
        let key = &mut self.keys[waiting.key];
        let version = match &operation.outcome {
            Outcome::Value(Some(Seen { version, .. })) | Outcome::Changed { version, .. } => Some(*version),
            Outcome::ConditionFailed(version) => Some(*version),
            Outcome::Members(members) => {
                key.values.extend(members.last().map(|seen| seen.value.clone()));
                None
            }
            _ => {
                // Somebody else may know better.
                self.clients[client].node = None;
                None
            }
        };
        key.versions.extend(version.filter(|version| *version != Version::ZERO));
        while key.versions.len() > REMEMBERED {
            key.versions.pop_front();
        }
        while key.values.len() > REMEMBERED {
            key.values.pop_front();
        }
        let think = self.dice.below(self.set_up.think.as_micros() as usize + 1) as u64;
        self.clients[client].idle_until = answered.at.after(Duration::from_micros(think));
    }

    /// Lets a client ask its next question, if it has none.
    fn next(&mut self, client: usize, world: &mut World, desk: &mut dyn Desk) {
        let Client { waiting, idle_until, .. } = &self.clients[client];
        if waiting.is_some() || *idle_until > world.now() {
            return;
        }
        let (sort, action) = self.draw();
        let keys: Vec<usize> = (0..self.keys.len())
            .filter(|key| self.keys[*key].sort == sort && !self.keys[*key].retired)
            .collect();
        let key = keys[self.dice.below(keys.len())];
        let increments = self.keys[key].increments;
        let action = self.action(action, key);
        let asked = self.ask(client, key, action, world, desk);
        if !asked {
            // No node was asked: its digit is still free.
            self.keys[key].increments = increments;
        }
        let KeyInUse { operations, increments, .. } = self.keys[key];
        // Some increments are left for the last look.
        if asked && (operations >= self.set_up.per_key || increments + DIGITS_LEFT >= DIGITS) {
            self.keys[key].retired = true;
            self.new_key(sort);
        }
    }

    /// Asks a random ready node. Returns whether there was one.
    fn ask(
        &mut self,
        client: usize,
        key: usize,
        action: Action,
        world: &mut World,
        desk: &mut dyn Desk,
    ) -> bool {
        let ready: Vec<u32> =
            world.ready().map(|(node, _)| node).filter(|node| !world.is_paused(*node)).collect();
        let stays = self.clients[client].node.filter(|node| ready.contains(node) && self.dice.below(8) > 0);
        let Some(node) = stays.or_else(|| ready.get(self.dice.below(ready.len())).copied()) else {
            return false;
        };
        self.clients[client].node = Some(node);
        let name = self.keys[key].name.clone();
        self.keys[key].operations += 1;
        let ask = Ask { name: self.place(&name), action: translate::action(&action), level: Level::Quorum };
        let operation = Operation {
            client: client as u32,
            key: name,
            action,
            invoked: world.now(),
            completed: None,
            outcome: Outcome::Open,
        };
        self.history.push(operation);
        let incarnation = world.contact(node).incarnation;
        let request = desk.ask(world, node, ask, self.set_up.deadline);
        self.open.insert(request, client);
        // Clocks of nodes run at their own pace.
        let until = world.now().after(self.set_up.deadline * 2 + Duration::from_secs(1));
        let operation = self.history.len() - 1;
        self.clients[client].waiting =
            Some(Waiting { request, operation, key, node, incarnation, stopped: false, until });
        true
    }

    /// Returns where a key is placed. Any place will do, as long as it is always the same.
    fn place(&self, name: &str) -> Name {
        let mut dice = SeededDice::derive(self.seed ^ LOAD, translate::hash(name.as_bytes()));
        let id = Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()));
        Name { id, bytes: name.as_bytes().to_vec() }
    }

    fn new_key(&mut self, sort: Sort) {
        let letter = match sort {
            Sort::Value => 'v',
            Sort::Number => 'n',
            Sort::Set => 's',
            Sort::Timed => 't',
        };
        let name = format!("{letter}{}", self.keys.len());
        let (versions, values) = (VecDeque::new(), VecDeque::new());
        self.keys.push(KeyInUse {
            name,
            sort,
            operations: 0,
            increments: 0,
            retired: false,
            versions,
            values,
        });
    }

    fn new_value(&mut self) -> String {
        self.written += 1;
        format!("w{}", self.written)
    }

    fn sweeping(&mut self, key: usize, sweep: Sweep) -> Action {
        match (sweep, self.keys[key].sort) {
            (Sweep::Read, Sort::Set) => Action::Members,
            (Sweep::Read, _) => Action::Read,
            (Sweep::Write, Sort::Set) => Action::Add { value: self.new_value(), ttl: None },
            (Sweep::Write, Sort::Number) => self.increment(key),
            (Sweep::Write, Sort::Value | Sort::Timed) => self.write(Condition::Always, None),
        }
    }

    /// Draws what to ask for, and of which sort of key.
    fn draw(&mut self) -> (Sort, Draw) {
        let mix = self.set_up.mix;
        let weights = [
            (mix.put, Sort::Value, Draw::Put),
            (mix.get - mix.get / 4 * 2, Sort::Value, Draw::Get),
            (mix.get / 4, Sort::Number, Draw::Get),
            (mix.get / 4, Sort::Timed, Draw::Get),
            (mix.cas, Sort::Value, Draw::Cas),
            (mix.delete - mix.delete / 3, Sort::Value, Draw::Delete),
            (mix.delete / 3, Sort::Number, Draw::Delete),
            (mix.ttl, Sort::Timed, Draw::Ttl),
            (mix.increment, Sort::Number, Draw::Increment),
            (mix.add, Sort::Set, Draw::Add),
            (mix.remove, Sort::Set, Draw::Remove),
            (mix.members, Sort::Set, Draw::Members),
            (mix.clear, Sort::Set, Draw::Delete),
        ];
        let mut at = self.dice.below(weights.iter().map(|(weight, ..)| weight).sum());
        for (weight, sort, draw) in weights {
            if at < weight {
                return (sort, draw);
            }
            at -= weight;
        }
        (Sort::Value, Draw::Get)
    }

    fn action(&mut self, draw: Draw, key: usize) -> Action {
        match draw {
            Draw::Get => Action::Read,
            Draw::Put => self.write(Condition::Always, None),
            Draw::Cas => {
                let condition = self.condition(key);
                self.write(condition, None)
            }
            Draw::Delete => {
                let on_version = self.dice.below(4) == 0 && self.keys[key].sort == Sort::Value;
                let condition = if on_version { self.condition(key) } else { Condition::Always };
                Action::Delete { condition }
            }
            Draw::Ttl => {
                let ttl = Some(self.ttl());
                match self.dice.below(4) {
                    0 => Action::Expire(None),
                    1 => Action::Expire(ttl),
                    _ => self.write(Condition::Always, ttl),
                }
            }
            Draw::Increment => self.increment(key),
            Draw::Add => {
                let ttl = (self.dice.below(8) == 0).then(|| self.ttl());
                let value = match self.any_value(key).filter(|_| self.dice.below(4) == 0) {
                    Some(again) => again,
                    None => self.new_value(),
                };
                let values = &mut self.keys[key].values;
                values.push_back(value.clone());
                Action::Add { value, ttl }
            }
            Draw::Remove => match self.any_value(key) {
                Some(value) => Action::Remove { value },
                None => Action::Members,
            },
            Draw::Members => Action::Members,
        }
    }

    /// Short ones end while a key is in use; long ones are longer than what clocks may be off by.
    fn ttl(&mut self) -> Duration {
        match self.dice.below(3) {
            0 => Duration::from_millis(15_000 + self.dice.below(30_000) as u64),
            _ => Duration::from_millis(500 + self.dice.below(9_500) as u64),
        }
    }

    /// Every increment of a key is another power of two, up or down: a number tells which of them have happened. When a key
    /// has used them up, they come again.
    fn increment(&mut self, key: usize) -> Action {
        let digit = self.keys[key].increments % DIGITS;
        self.keys[key].increments += 1;
        let by = 1 << digit;
        Action::Increment(if self.dice.below(3) == 0 { -by } else { by })
    }

    fn write(&mut self, condition: Condition, ttl: Option<Duration>) -> Action {
        Action::Write { value: self.new_value(), ttl, condition }
    }

    fn condition(&mut self, key: usize) -> Condition {
        let versions = &self.keys[key].versions;
        let latest = versions.back().copied();
        let older = versions.get(self.dice.below(versions.len())).copied();
        match (self.dice.below(6), latest, older) {
            (0, ..) | (_, None, _) => Condition::Absent,
            (1, ..) => Condition::Present,
            (2, _, Some(older)) => Condition::Version(older),
            (_, Some(latest), _) => Condition::Version(latest),
        }
    }

    fn any_value(&mut self, key: usize) -> Option<String> {
        let at = self.dice.below(self.keys[key].values.len());
        self.keys[key].values.get(at).cloned()
    }
}

#[derive(Clone, Copy, Debug)]
enum Draw {
    Put,
    Get,
    Cas,
    Delete,
    Ttl,
    Increment,
    Add,
    Remove,
    Members,
}

fn succeeded(operation: &Operation) -> bool {
    matches!(operation.outcome, Outcome::Value(_) | Outcome::Members(_) | Outcome::Changed { .. })
}
