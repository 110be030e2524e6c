//! The experiments. One file each; see `docs/simulator.md` for how to write one.

use crate::lab::Scenario;

/// Every scenario there is, in the order of the papers.
pub const ALL: &[&Scenario] = &[];

/// Returns the scenario with this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name).copied()
}
