//! One run of [`crate::chaos`], told as a report.

use kringle_core::config::{OverlayKind, Ownership};

use crate::chaos::{SetUp, world};
use crate::lab::params::{DURATION, NODES, OVERLAY, OWNERSHIP};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Figure, Table, Want};

/// See the module.
pub(super) const CHAOS: Scenario = Scenario {
    name: "chaos",
    about: "everything goes wrong for a while: nothing promised may break, and afterwards all must become well",
    anchor: "",
    params: &[(NODES, "40"), (DURATION, "10m"), (OWNERSHIP, "lease"), (OVERLAY, "pastry")],
    run,
};

/// Enough for links to be cut and nodes to die without an end.
const FEWEST: usize = 6;
/// Nodes join one after the other before things go wrong.
const MOST: usize = 2000;

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let nodes = lab.count(NODES);
    if !(FEWEST..=MOST).contains(&nodes) {
        return Err(Halt::Impossible(format!("--nodes: {nodes} is out of range here: {FEWEST} to {MOST}")));
    }
    let leases = lab.params.text(OWNERSHIP) == "lease";
    let ownership = if leases { Ownership::Lease } else { Ownership::Hint };
    let chord = lab.params.text(OVERLAY) == "chord";
    let overlay = if chord { OverlayKind::Chord } else { OverlayKind::Pastry };
    let set_up = SetUp { overlay, ..SetUp::new(nodes, lab.params.span(DURATION), ownership) };
    let seed = lab.seed;
    let mut interrupted = Ok(());
    let (world, outcome) = world(seed, &set_up, &mut |done| {
        interrupted = lab.progress("things go wrong", done);
        interrupted.is_ok()
    });
    lab.keep("chaos", &world);
    let report = &mut lab.report;
    let violations = Figure::new("violations", f64::from(u8::from(outcome.is_err())), 0, "");
    report.figures.push(violations.want(Want::AtMost(0.0)));
    report.figures.push(Figure::new("events", world.handled() as f64, 0, ""));
    if let Ok(summary) = &outcome {
        let faults: u64 = summary.faults.values().sum();
        let whole_after = summary.whole_after.as_secs_f64();
        report.figures.push(Figure::new("faults", faults as f64, 0, ""));
        report.figures.push(Figure::new("seconds until whole again", whole_after, 1, "s"));
        report.figures.push(Figure::new("nodes at the end", summary.nodes as f64, 0, ""));
        report.figures.push(Figure::new("questions answered rightly", summary.lookups as f64, 0, ""));
        for (title, counts) in [("Faults drawn", &summary.faults), ("Invariants looked at", &summary.checks)]
        {
            let rows =
                counts.iter().map(|(name, count)| vec![(*name).to_owned(), count.to_string()]).collect();
            let columns = ["what", "times"].map(str::to_owned).to_vec();
            report.tables.push(Table { title: title.to_owned(), columns, rows });
        }
    }
    interrupted?;
    outcome.map(|_| ()).map_err(|violation| Halt::Broken(violation.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::lab::Unwatched;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_run_tells_what_went_wrong_and_what_was_looked_at() {
        let small = given(&[("nodes", "8"), ("duration", "20s")]);
        let (report, halt) = CHAOS.run(&small, 3, &mut Unwatched).expect("possible");
        assert_eq!((halt, report.complete), (None, true));
        assert_eq!(report.figures[0].ours, 0.0);
        let faults: u64 = report.tables[0].rows.iter().map(|row| row[1].parse::<u64>().unwrap()).sum();
        assert!(faults >= 10);
        assert_eq!(report.tables[1].rows.len(), crate::chaos::Invariant::ALL.len());
        assert_eq!(report.worlds.len(), 1);
    }

    #[test]
    fn a_run_of_chord_looks_at_the_properties_of_its_ring() {
        let small = given(&[("nodes", "12"), ("duration", "20s"), ("overlay", "chord")]);
        let (report, halt) = CHAOS.run(&small, 3, &mut Unwatched).expect("possible");
        assert_eq!((halt, report.complete), (None, true));
        let looked = |name: &str| report.tables[1].rows.iter().any(|row| row[0] == name && row[1] != "0");
        for invariant in crate::chaos::Invariant::OF_CHORD {
            assert!(looked(invariant.name()), "{invariant:?}");
        }
    }

    #[test]
    fn a_ring_too_small_to_be_harmed_is_refused() {
        let refused = CHAOS.run(&given(&[("nodes", "5")]), 1, &mut Unwatched);
        assert_eq!(refused.expect_err("too few"), "--nodes: 5 is out of range here: 6 to 2000");
    }
}
