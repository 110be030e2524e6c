//! The search through a world.

use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, UniformChooser};

use super::act::World;
use super::plan::Plan;
use crate::explore::{Bounds, Search};

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The world's name.
    pub plan: &'static str,
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

/// Searches a world. Ends at the first broken property.
pub fn search(plan: Plan, how: Search, bounds: Bounds) -> Found {
    let world = World { plan, strict: matches!(how, Search::Walks(_)) };
    let builder = world
        .clone()
        .checker()
        .threads(bounds.threads)
        .target_state_count(bounds.states)
        .timeout(bounds.time)
        .finish_when(HasDiscoveries::AnyFailures);
    match how {
        Search::Depth => look(&world, builder.spawn_dfs(), bounds, true),
        Search::Breadth => look(&world, builder.spawn_bfs(), bounds, true),
        Search::Walks(seed) => look(&world, builder.spawn_simulation(seed, UniformChooser), bounds, false),
    }
}

fn look(world: &World, checker: impl Checker<World>, bounds: Bounds, all: bool) -> Found {
    let started = Instant::now();
    let checker = checker.join();
    let time = started.elapsed();
    let discoveries = checker.discoveries();
    let mut broken = None;
    let mut missing = Vec::new();
    for property in world.properties() {
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
        plan: world.plan.name,
        states,
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        time,
        complete: all && broken.is_none() && states < bounds.states && time < bounds.time,
        broken,
        missing,
    }
}
