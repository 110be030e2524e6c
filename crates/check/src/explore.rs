//! The search: a model, bounds, and what was found.

use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, UniformChooser};

use crate::action::Action;
use crate::model::Ring;
use crate::schedule::{self, Schedule};
use crate::state::State;

/// How a model is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Every state, depth first.
    Depth,
    /// Every state, breadth first: the shortest schedules first, at more memory.
    Breadth,
    /// Random walks, from this seed.
    Walks(u64),
}

/// Where a search ends, if it does not end by itself.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// After this many states.
    pub states: usize,
    /// After this long.
    pub time: Duration,
    /// On so many threads.
    pub threads: usize,
}

/// A property and what became of it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What must hold always, or happen sometimes.
    pub property: &'static str,
    /// Whether it has to happen in some state, rather than to hold in all.
    pub sometimes: bool,
    /// Whether it did.
    pub holds: bool,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The model's name.
    pub model: &'static str,
    /// How it was searched.
    pub search: Search,
    /// States generated, the same one counted as often as it was met.
    pub states: usize,
    /// Different states.
    pub unique: usize,
    /// The longest schedule.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
    /// Whether every state of the model was seen.
    pub complete: bool,
    /// All properties.
    pub findings: Vec<Finding>,
    /// How the first broken property was broken.
    pub counter_example: Option<Schedule>,
}

impl Report {
    /// Says whether everything that must hold does, and, if all was seen, everything that must happen has.
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|finding| finding.holds || finding.sometimes && !self.complete)
    }
}

/// Searches a model. Calls back about once a second with the number of states so far.
pub fn explore(ring: &Ring, search: Search, bounds: Bounds, progress: impl FnMut(usize)) -> Report {
    let builder = ring
        .clone()
        .checker()
        .threads(bounds.threads)
        .target_state_count(bounds.states)
        .timeout(bounds.time)
        .finish_when(HasDiscoveries::AnyFailures);
    match search {
        Search::Depth => watch(ring, search, builder.spawn_dfs(), bounds, progress),
        Search::Breadth => watch(ring, search, builder.spawn_bfs(), bounds, progress),
        Search::Walks(seed) => {
            let checker = builder.spawn_simulation(seed, UniformChooser);
            let mut report = watch(ring, search, checker, bounds, progress);
            report.complete = false;
            report
        }
    }
}

/// Looks at a model in both ways: depth first as far as the bounds allow, then, unless every state was seen, along random
/// walks, which reach far fewer states but those at the far ends.
pub fn survey(ring: &Ring, bounds: Bounds, seed: u64, mut progress: impl FnMut(usize)) -> Vec<Report> {
    let depth = explore(ring, Search::Depth, bounds, &mut progress);
    if depth.complete || depth.counter_example.is_some() {
        return vec![depth];
    }
    let states = bounds.states / 4;
    let walks = explore(ring, Search::Walks(seed), Bounds { states, ..bounds }, progress);
    vec![depth, walks]
}

/// What several searches of one model have found together.
pub fn together(reports: &[Report]) -> Vec<Finding> {
    let mut findings = reports.first().map(|report| report.findings.clone()).unwrap_or_default();
    for finding in &mut findings {
        let same = |other: &&Finding| other.property == finding.property;
        let mut held = reports.iter().filter_map(|report| report.findings.iter().find(same)).map(|f| f.holds);
        finding.holds = if finding.sometimes { held.any(|holds| holds) } else { held.all(|holds| holds) };
    }
    findings
}

fn watch(
    ring: &Ring,
    search: Search,
    mut checker: impl Checker<Ring>,
    bounds: Bounds,
    mut progress: impl FnMut(usize),
) -> Report {
    let started = Instant::now();
    let threads = checker.handles();
    let mut told = started;
    while threads.iter().any(|thread| !thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(2));
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            progress(checker.state_count());
        }
    }
    for thread in threads {
        thread.join().expect("a search does not panic: nodes that do are caught");
    }
    let time = started.elapsed();
    let discoveries = checker.discoveries();
    let mut broken = None;
    let mut findings = Vec::new();
    for property in ring.properties() {
        let discovery = discoveries.get(property.name);
        let sometimes = property.expectation == Expectation::Sometimes;
        if let Some(path) = discovery.filter(|_| !sometimes) {
            let actions: Vec<Action> = path.clone().into_actions();
            broken.get_or_insert((property.name, actions));
        }
        let holds = discovery.is_some() == sometimes;
        findings.push(Finding { property: property.name, sometimes, holds });
    }
    let counter_example = broken.map(|(property, actions)| {
        let is_broken = |state: &State| !(ring.property(property).condition)(ring, state);
        let actions = schedule::shorten(ring, actions, is_broken);
        Schedule { model: ring.plan().name.into(), property: property.into(), actions }
    });
    let states = checker.state_count();
    let complete = counter_example.is_none() && states < bounds.states && time < bounds.time;
    Report {
        model: ring.plan().name,
        search,
        states,
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        time,
        complete,
        findings,
        counter_example,
    }
}
