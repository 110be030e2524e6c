//! The mutation gate: each of these rules, left out on its own, must be caught by some model.

use kringle_core::config::{ConfigError, Safeguard};

use crate::explore::{Bounds, Report, Search, explore};
use crate::model::Ring;
use crate::plan::{PLANS, Plan};

/// A rule: its name on the command line, what it is, and where it is likely to be missed.
pub type Rule = (&'static str, Safeguard, &'static str, Search);

/// How a rule that is needed far from the start is missed soonest.
const WALKS: Search = Search::Walks(3);

/// The rules of the gate. The likely model is tried first, the others only if it finds nothing. The other rules have
/// their worlds among the races of the simulator.
pub const RULES: [Rule; 10] = [
    ("ready-needs-leases", Safeguard::ReadyNeedsLeases, "one-joiner", WALKS),
    ("one-joiner", Safeguard::OneJoiner, "crowd-by-hint", WALKS),
    ("sides", Safeguard::Sides, "long-pause", WALKS),
    ("keep-granted", Safeguard::KeepGranted, "suspicions", WALKS),
    ("add-first", Safeguard::AddFirst, "suspected-joiner", WALKS),
    ("isolation", Safeguard::Isolation, "left-alone", WALKS),
    ("displaced", Safeguard::Displaced, "passed-over", WALKS),
    ("current-neighbour", Safeguard::CurrentNeighbour, "newcomer-leaves", WALKS),
    ("agreement", Safeguard::Agreement, "line-of-links", WALKS),
    ("not-after", Safeguard::NotAfter, "long-pause", WALKS),
];

/// One in so many states is left in peace.
const REST_EVERY: u64 = 5000;

/// Finds a rule by its name.
pub fn rule(name: &str) -> Option<Safeguard> {
    Safeguard::ALL.iter().find(|rule| rule.name() == name).copied()
}

/// What became of one rule left out.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The rule's name.
    pub rule: &'static str,
    /// The search that caught it, if one did.
    pub by: Option<Report>,
    /// States looked at in all models together.
    pub states: usize,
}

/// Leaves out one rule, and tries one model after the other until one notices.
pub fn try_without(rule: Rule, bounds: Bounds) -> Result<Caught, ConfigError> {
    let (rule, safeguard, likely, search) = rule;
    let mut tries: Vec<(&Plan, Search)> =
        PLANS.iter().flat_map(|plan| [(plan, WALKS), (plan, Search::Depth)]).collect();
    tries.sort_by_key(|(plan, how)| (plan.name != likely, *how != search));
    let mut states = 0;
    for (plan, how) in tries {
        let report = search_without(*plan, safeguard, how, bounds)?;
        states += report.states;
        if report.counter_example.is_some() {
            return Ok(Caught { rule, by: Some(report), states });
        }
    }
    Ok(Caught { rule, by: None, states })
}

fn search_without(
    plan: Plan,
    safeguard: Safeguard,
    search: Search,
    bounds: Bounds,
) -> Result<Report, ConfigError> {
    let ring = Ring::new(plan, Some(safeguard))?.resting(REST_EVERY);
    Ok(explore(&ring, search, bounds, |_| {}))
}
