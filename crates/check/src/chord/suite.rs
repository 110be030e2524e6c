//! The worlds that every change is tried on, and the mutation gate: each rule, left out on its own, must be missed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kringle_core::config::Safeguard;

use super::search::{Found, Limits, search};
use super::world::{STILL, World};

/// A world with a name, and after how many states its search ends.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Its name.
    pub name: &'static str,
    /// Its bounds.
    pub world: World,
    /// States after which the search ends; `usize::MAX` if it is small enough to be seen to the end.
    pub states: usize,
}

const ATOMIC: World = World { atomic: true, ..STILL };
const ALL: usize = usize::MAX;

/// The worlds that are searched unless told otherwise.
pub const RUNS: [Run; 11] = [
    Run { name: "still", world: World { codec: true, ..STILL }, states: ALL },
    Run { name: "join-fail", world: World { ids: 6, joins: 2, failures: 2, ..ATOMIC }, states: ALL },
    Run { name: "four", world: World { founders: 4, ids: 8, joins: 1, failures: 2, ..ATOMIC }, states: ALL },
    Run {
        name: "lists-of-three",
        world: World { successors: 3, founders: 4, ids: 8, joins: 1, failures: 2, ..ATOMIC },
        states: ALL,
    },
    Run { name: "loss", world: World { ids: 6, joins: 1, losses: 1, ..ATOMIC }, states: ALL },
    Run {
        name: "anybody-fails",
        world: World { founders: 4, ids: 8, joins: 1, failures: 2, any_failure: true, ..ATOMIC },
        states: ALL,
    },
    Run {
        name: "restart",
        world: World { founders: 4, ids: 4, failures: 1, restarts: 1, ..ATOMIC },
        states: 2_000_000,
    },
    Run { name: "false-timeout", world: World { false_timeouts: 1, ..STILL }, states: 5_000_000 },
    Run { name: "join", world: World { ids: 4, joins: 1, ..STILL }, states: 5_000_000 },
    Run { name: "fail", world: World { founders: 4, ids: 4, failures: 1, ..STILL }, states: 5_000_000 },
    Run {
        name: "join-and-fail",
        world: World { founders: 4, ids: 5, joins: 1, failures: 1, codec: true, ..STILL },
        states: 5_000_000,
    },
];

/// A rule of the gate.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The rule.
    pub rule: Safeguard,
    /// The world that misses it.
    pub world: World,
    /// Whether single steps must be judged to see it: the states it leads to can be healed.
    pub by_step: bool,
}

const fn missed(rule: Safeguard, world: World) -> Rule {
    Rule { rule, world: World { without: Some(rule), ..world }, by_step: false }
}

const fn missed_by_step(rule: Safeguard, world: World) -> Rule {
    Rule { by_step: true, ..missed(rule, world) }
}

const JOIN_FAIL: World = World { ids: 6, joins: 1, failures: 1, ..ATOMIC };

/// The rules of the gate, each with the smallest world that misses it.
pub const GATE: [Rule; 10] = [
    missed(Safeguard::AskFirst, JOIN_FAIL),
    missed_by_step(Safeguard::AskHead, JOIN_FAIL),
    missed(Safeguard::AskPredecessor, JOIN_FAIL),
    missed(Safeguard::AlwaysNotify, World { ids: 6, joins: 1, losses: 1, ..ATOMIC }),
    missed(Safeguard::GiveUp, STILL),
    missed(Safeguard::JoinAgain, World { founders: 4, ids: 8, joins: 1, failures: 1, ..ATOMIC }),
    missed(Safeguard::Suspects, World { false_timeouts: 2, ..STILL }),
    missed(Safeguard::ThisLife, World { founders: 4, ids: 4, failures: 1, restarts: 1, ..ATOMIC }),
    missed(Safeguard::CheckLists, World { failures: 1, any_failure: true, ..ATOMIC }),
    missed_by_step(Safeguard::NotifyNew, World { ids: 6, joins: 1, ..ATOMIC }),
];

/// States after which a rule counts as not missed.
const GATE_STATES: usize = 2_000_000;

/// Searches several worlds, two at a time. The order of the answers is that of the worlds; those not begun when `stop`
/// was set are left out. Calls back when one begins.
///
/// # Errors
/// If a world makes no sense.
pub fn search_all(
    worlds: &[(World, Limits)],
    stop: &AtomicBool,
    begin: impl Fn(usize) + Sync,
) -> Result<Vec<Found>, String> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            let Some((world, limits)) = worlds.get(nth) else { break };
            begin(nth);
            let result = search(*world, *limits, stop, |_| {});
            found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((nth, result));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_by_key(|(nth, _)| *nth);
    found.into_iter().map(|(_, result)| result).collect()
}

/// Searches the worlds of [`RUNS`], none beyond `states`.
///
/// # Errors
/// If a world makes no sense.
pub fn run(
    states: usize,
    stop: &AtomicBool,
    begin: impl Fn(&'static str) + Sync,
) -> Result<Vec<Found>, String> {
    let limited = RUNS.map(|run| (run.world, Limits { states: run.states.min(states), ..Limits::default() }));
    search_all(&limited, stop, |nth| begin(RUNS[nth].name))
}

/// Leaves out every rule of the gate in turn.
///
/// # Errors
/// If a world makes no sense.
pub fn gate(stop: &AtomicBool, begin: impl Fn(&'static str) + Sync) -> Result<Vec<Found>, String> {
    let limited = GATE.map(|rule| {
        let limits = Limits { states: GATE_STATES, judge_steps: rule.by_step, ..Limits::default() };
        (rule.world, limits)
    });
    search_all(&limited, stop, |nth| begin(GATE[nth].rule.name()))
}
