//! The experiments. One file each; see `docs/simulator.md` for how to write one.

mod chaos;
mod churn;
mod mass_failure;
mod pastry_hops;
mod split_heal;

use crate::lab::Scenario;

/// Every scenario there is, in the order of the papers.
pub const ALL: &[&Scenario] = &[
    &pastry_hops::PASTRY_HOPS,
    &pastry_hops::PASTRY_DISTANCE,
    &mass_failure::MASS_FAILURE,
    &split_heal::SPLIT_HEAL,
    &churn::CHURN_SCENARIO,
    &chaos::CHAOS,
];

/// Returns the scenario with this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name).copied()
}
