//! The mutation gate: every rule left out on its own must be caught by some model.

use std::time::Duration;

use kringle_core::config::{ConfigError, Safeguard};

use crate::explore::{Bounds, Report, Search, explore};
use crate::model::Ring;
use crate::plan::{PLANS, Plan};

/// The rules, with the names used on the command line.
pub const RULES: [(&str, Safeguard); 11] = [
    ("ready-needs-leases", Safeguard::ReadyNeedsLeases),
    ("one-joiner", Safeguard::OneJoiner),
    ("sides", Safeguard::Sides),
    ("keep-granted", Safeguard::KeepGranted),
    ("add-first", Safeguard::AddFirst),
    ("isolation", Safeguard::Isolation),
    ("displaced", Safeguard::Displaced),
    ("current-neighbour", Safeguard::CurrentNeighbour),
    ("agreement", Safeguard::Agreement),
    ("not-after", Safeguard::NotAfter),
    ("restart-waits", Safeguard::RestartWaits),
];

/// One in so many states is left in peace.
const REST_EVERY: u64 = 5000;

/// Finds a rule by its name.
pub fn rule(name: &str) -> Option<Safeguard> {
    RULES.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
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
pub fn try_without(rule: &'static str, safeguard: Safeguard, bounds: Bounds) -> Result<Caught, ConfigError> {
    let mut states = 0;
    // A little of every model in every way first: most rules are missed soon.
    for share in [20, 1] {
        let bounds = Bounds { states: bounds.states / share, ..bounds };
        for plan in PLANS {
            for search in [Search::Depth, Search::Walks(1)] {
                let report = search_without(*plan, safeguard, search, bounds)?;
                states += report.states;
                if report.counter_example.is_some() {
                    return Ok(Caught { rule, by: Some(report), states });
                }
            }
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
    let time = bounds.time.max(Duration::from_millis(1));
    Ok(explore(&ring, search, Bounds { time, ..bounds }, |_| {}))
}
