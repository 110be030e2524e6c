//! The experiments. One file each; see `docs/simulator.md` for how to write one.

mod chaos;
mod chord_churn;
mod chord_load;
mod chord_mass_failure;
mod chord_path;
mod chord_stretch;
mod churn;
mod join_cost;
mod limits;
mod mass_failure;
mod pastry_failures;
mod pastry_hops;
mod pastry_replicas;
mod pastry_speed;
mod pastry_tables;
mod split_heal;
mod store_chaos;
mod store_day;

use std::time::Duration;

use crate::lab::Scenario;
pub use store_chaos::STORE_CHAOS;

/// Every scenario there is, in the order of the papers.
pub const ALL: &[&Scenario] = &[
    &pastry_hops::PASTRY_HOPS,
    &pastry_hops::PASTRY_DISTANCE,
    &pastry_speed::PASTRY_SPEED,
    &pastry_tables::PASTRY_TABLES,
    &pastry_replicas::PASTRY_REPLICAS,
    &pastry_failures::PASTRY_FAILURES,
    &join_cost::JOIN_COST,
    &chord_load::CHORD_LOAD,
    &chord_path::CHORD_PATH,
    &chord_mass_failure::CHORD_MASS_FAILURE,
    &chord_churn::CHORD_CHURN,
    &chord_stretch::CHORD_STRETCH,
    &limits::LIMITS,
    &mass_failure::MASS_FAILURE,
    &split_heal::SPLIT_HEAL,
    &churn::CHURN_SCENARIO,
    &chaos::CHAOS,
    &STORE_CHAOS,
    &store_day::STORE_DAY,
];

/// Returns the scenario with this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name).copied()
}

/// How often neighbours look after each other in experiments where nobody dies and messages are counted: never.
const UNDISTURBED: Duration = Duration::from_secs(30 * 86_400);
/// How long after a join the last message it caused has arrived.
const AFTERMATH: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Unwatched;
    use crate::report::Report;

    /// Runs a scenario with other values than the paper's.
    pub(super) fn run(scenario: &Scenario, given: &[(&str, &str)]) -> Report {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (report, halt) = scenario.run(&given, 1, &mut Unwatched).unwrap();
        assert_eq!(halt, None);
        report
    }

    /// Returns one of the figures.
    pub(super) fn figure(report: &Report, name: &str) -> f64 {
        let figure = report.figures.iter().find(|figure| figure.name == name);
        figure.unwrap_or_else(|| panic!("there is a figure {name:?}")).ours
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(find("pastry-hops").is_some() && find("pastry").is_none());
    }
}
