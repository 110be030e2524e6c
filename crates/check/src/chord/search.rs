//! The search: breadth first, every state once, the shortest schedule to whatever is broken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::judge::{self, Judge};
use super::rest::Rest;
use super::seen::Table;
use super::state::{Action, Left, Shown, State};
use super::steps::{SEEN, Steps};
use super::tell;
use super::world::{IDS_MAX, World};

/// Where a search ends, if it does not end by itself.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// After this many states.
    pub states: usize,
    /// From one in so many states the ring is left in peace, to see that it heals.
    pub rest_every: u64,
    /// Rounds after which it must have healed.
    pub rounds: u8,
    /// Whether steps are judged by themselves, too, and not only the states they lead to.
    pub judge_steps: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { states: 5_000_000, rest_every: 64, rounds: super::rest::ROUNDS_MAX, judge_steps: true }
    }
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Different states so far.
    pub states: usize,
    /// Steps from the start.
    pub depth: usize,
    /// States that are known and whose next steps are not.
    pub open: usize,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The world that was searched.
    pub world: World,
    /// Different states, those alike up to a turn of the ring counted once.
    pub states: usize,
    /// Steps taken between them.
    pub steps: usize,
    /// States in which the ring was left in peace.
    pub rested: usize,
    /// The most rounds it took to heal.
    pub rounds: u8,
    /// The longest of the shortest schedules.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
    /// Memory held at the end, in bytes.
    pub bytes: usize,
    /// States of single nodes, single messages, and steps of single nodes.
    pub parts: (usize, usize, usize),
    /// Whether every state was seen.
    pub complete: bool,
    /// What was checked.
    pub properties: Vec<&'static str>,
    /// Things that happened in no state.
    pub unseen: Vec<&'static str>,
    /// What is broken, and how.
    pub broken: Option<Broken>,
}

/// A broken property.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Its name.
    pub property: &'static str,
    /// The shortest schedule that leads there, a line each.
    pub schedule: Vec<String>,
    /// What every node believes in the end, a line each.
    pub nodes: Vec<String>,
}

/// Searches a world until something is broken, all is seen, or a limit is met. Calls back now and then; ends early when
/// `stop` is set.
///
/// # Errors
/// If the world makes no sense.
pub fn search(
    world: World,
    limits: Limits,
    stop: &AtomicBool,
    mut progress: impl FnMut(Progress),
) -> Result<Found, String> {
    world.check()?;
    let started = Instant::now();
    let mut search = Search::new(world, limits);
    let mut broken = search.start();
    let mut complete = false;
    let mut told = started;
    while broken.is_none() {
        let Some(state) = search.open.pop() else {
            complete = true;
            break;
        };
        broken = search.expand(&state);
        if search.table.len() >= limits.states || stop.load(Ordering::Relaxed) {
            break;
        }
        if search.expanded.is_multiple_of(1024) && told.elapsed() >= Duration::from_millis(500) {
            told = Instant::now();
            progress(Progress {
                states: search.table.len(),
                depth: search.open.depth,
                open: search.open.len(),
            });
        }
    }
    let broken = broken.map(|(property, print, last)| {
        let (schedule, nodes) = tell::schedule(world, &search.table.way_to(print), last);
        Broken { property, schedule, nodes }
    });
    Ok(search.found(started.elapsed(), complete, broken))
}

/// A broken property, the state it is broken in or after, and the step that broke it.
type Fault = (&'static str, u64, Option<Action>);

struct Search {
    limits: Limits,
    steps: Steps,
    judge: Judge,
    rest: Rest,
    table: Table,
    open: Open,
    expanded: u64,
    transitions: usize,
    rested: usize,
    rounds: u8,
    seen: u16,
    actions: Vec<Action>,
}

impl Search {
    fn new(world: World, limits: Limits) -> Search {
        Search {
            limits,
            steps: Steps::new(world),
            judge: Judge::default(),
            rest: Rest::default(),
            table: Table::new(),
            open: Open::new(world.ids),
            expanded: 0,
            transitions: 0,
            rested: 0,
            rounds: 0,
            seen: 0,
            actions: Vec::new(),
        }
    }

    fn start(&mut self) -> Option<Fault> {
        let state = State::start(&mut self.steps);
        let print = state.fingerprint(&self.steps.parts);
        self.table.insert(print, print);
        self.open.push(&state);
        self.open.turn();
        self.judge(&state, print)
    }

    fn expand(&mut self, state: &State) -> Option<Fault> {
        self.expanded += 1;
        let from = state.fingerprint(&self.steps.parts);
        let mut actions = std::mem::take(&mut self.actions);
        state.actions(&self.steps.parts, &mut actions);
        let mut fault = None;
        let mut next = state.clone();
        for action in &actions {
            next.clone_from(state);
            let mut shown = Shown::default();
            next.apply(*action, &mut self.steps, &mut shown);
            self.transitions += 1;
            self.seen |= shown.seen;
            if let Some(property) = shown.broken.filter(|_| self.limits.judge_steps) {
                fault = Some((property, from, Some(*action)));
                break;
            }
            let print = next.fingerprint(&self.steps.parts);
            if !self.table.insert(print, from) {
                continue;
            }
            fault = self.judge(&next, print);
            if fault.is_some() {
                break;
            }
            self.open.push(&next);
        }
        self.actions = actions;
        fault
    }

    fn judge(&mut self, state: &State, print: u64) -> Option<Fault> {
        let fault = |property| Some((property, print, None));
        if let Some(property) = self.judge.broken(state, &self.steps.parts) {
            return fault(property);
        }
        // Any other state comes to one like this by deliveries alone, which are among the steps of the search.
        let quiet = state.flight.is_empty();
        if !self.steps.parts.world.any_failure && (quiet || print.is_multiple_of(self.limits.rest_every)) {
            self.rested += 1;
            match self.rest.rounds(state, &mut self.steps) {
                Some(rounds) if rounds <= self.limits.rounds => self.rounds = self.rounds.max(rounds),
                _ => return fault(judge::HEALS),
            }
        }
        None
    }

    fn found(self, time: Duration, complete: bool, broken: Option<Broken>) -> Found {
        let world = self.steps.parts.world;
        let unseen = SEEN.iter().enumerate().filter(|(bit, _)| self.seen & 1 << bit == 0);
        Found {
            world,
            states: self.table.len(),
            steps: self.transitions,
            rested: self.rested,
            rounds: self.rounds,
            depth: self.open.depth,
            time,
            bytes: self.table.bytes() + self.open.bytes_max + self.judge.bytes() + self.rest.bytes(),
            parts: self.steps.counts(),
            complete: complete && broken.is_none(),
            properties: judge::names(&world),
            unseen: unseen.map(|(_, what)| *what).collect(),
            broken,
        }
    }
}

/// States whose next steps are not known: this level's and the next one's, packed.
struct Open {
    ids: usize,
    level: Vec<u32>,
    at: usize,
    next: Vec<u32>,
    next_len: usize,
    left: usize,
    depth: usize,
    bytes_max: usize,
}

impl Open {
    fn new(ids: u8) -> Open {
        Open {
            ids: ids.into(),
            level: Vec::new(),
            at: 0,
            next: Vec::new(),
            next_len: 0,
            left: 0,
            depth: 0,
            bytes_max: 0,
        }
    }

    fn len(&self) -> usize {
        self.left + self.next_len
    }

    fn push(&mut self, state: &State) {
        let Left { joins, failures, restarts, false_timeouts, losses } = state.left;
        let counts = [joins, failures, restarts, false_timeouts, losses];
        // Counts are small: no world has more of anything than it has ids, or than a search can take.
        let left = counts.iter().fold(0, |all, count| all << 4 | u32::from(*count & 15));
        self.next.push(left << 12 | state.flight.len() as u32);
        self.next.extend_from_slice(&state.nodes[..self.ids]);
        self.next.extend_from_slice(&state.flight);
        self.next_len += 1;
    }

    /// Goes on with the next level.
    fn turn(&mut self) {
        let words = self.level.capacity() + self.next.capacity();
        self.bytes_max = self.bytes_max.max(words * size_of::<u32>());
        std::mem::swap(&mut self.level, &mut self.next);
        self.next.clear();
        self.at = 0;
        self.left = std::mem::take(&mut self.next_len);
    }

    fn pop(&mut self) -> Option<State> {
        if self.left == 0 {
            if self.next_len == 0 {
                return None;
            }
            self.turn();
            self.depth += 1;
        }
        self.left -= 1;
        let head = self.level[self.at];
        let count = |nth: u32| (head >> (12 + 4 * nth) & 15) as u8;
        let left = Left {
            joins: count(4),
            failures: count(3),
            restarts: count(2),
            false_timeouts: count(1),
            losses: count(0),
        };
        let (from, flights) = (self.at + 1, (head & 0xfff) as usize);
        let mut nodes = [0; IDS_MAX as usize];
        nodes[..self.ids].copy_from_slice(&self.level[from..from + self.ids]);
        let flight = self.level[from + self.ids..from + self.ids + flights].to_vec();
        self.at = from + self.ids + flights;
        Some(State { nodes, flight, left })
    }
}
