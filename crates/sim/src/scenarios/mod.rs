//! The experiments. One file each; see `docs/simulator.md` for how to write one.

mod pastry_hops;
mod pastry_speed;

use crate::lab::Scenario;

/// Every scenario there is, in the order of the papers.
pub const ALL: &[&Scenario] =
    &[&pastry_hops::PASTRY_HOPS, &pastry_hops::PASTRY_DISTANCE, &pastry_speed::PASTRY_SPEED];

/// Returns the scenario with this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name).copied()
}
