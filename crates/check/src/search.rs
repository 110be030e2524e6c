//! The search through a model of rules: what was seen, what is broken, what never happened.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, UniformChooser};

use crate::explore::{Bounds, Search};

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// States met.
    pub states: usize,
    /// Different ones.
    pub unique: usize,
    /// The longest schedule.
    pub depth: usize,
    /// How long it took.
    pub time: Duration,
    /// Whether every state was seen.
    pub complete: bool,
    /// What must hold and does not, with the schedule that leads there.
    pub broken: Option<(&'static str, Vec<String>)>,
    /// What must happen and was not seen.
    pub missing: Vec<&'static str>,
}

impl Found {
    /// Says whether every state was seen, everything that must hold does, and everything that must happen has.
    pub fn is_good(&self) -> bool {
        self.complete && self.broken.is_none() && self.missing.is_empty()
    }
}

/// Searches a model. Ends at the first broken property.
pub fn search<M>(model: &M, how: Search, bounds: Bounds) -> Found
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let builder = model
        .clone()
        .checker()
        .threads(bounds.threads)
        .target_state_count(bounds.states)
        .timeout(bounds.time)
        .finish_when(HasDiscoveries::AnyFailures);
    match how {
        Search::Depth => look(model, builder.spawn_dfs(), bounds, true),
        Search::Breadth => look(model, builder.spawn_bfs(), bounds, true),
        Search::Walks(seed) => look(model, builder.spawn_simulation(seed, UniformChooser), bounds, false),
    }
}

fn look<M: Model>(model: &M, checker: impl Checker<M>, bounds: Bounds, all: bool) -> Found
where
    M::State: Clone + Debug + Hash + PartialEq,
    M::Action: Clone + Debug + PartialEq,
{
    let started = Instant::now();
    let checker = checker.join();
    let time = started.elapsed();
    let discoveries = checker.discoveries();
    let mut broken = None;
    let mut missing = Vec::new();
    for property in model.properties() {
        let discovery = discoveries.get(property.name);
        match (property.expectation, discovery) {
            (Expectation::Sometimes, None) => missing.push(property.name),
            (Expectation::Sometimes, Some(_)) | (_, None) => {}
            (_, Some(path)) => {
                let acts = path.clone().into_actions().iter().map(|act| format!("{act:?}")).collect();
                broken.get_or_insert((property.name, acts));
            }
        }
    }
    let states = checker.state_count();
    Found {
        states,
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        time,
        complete: all && broken.is_none() && states < bounds.states && time < bounds.time,
        broken,
        missing,
    }
}
