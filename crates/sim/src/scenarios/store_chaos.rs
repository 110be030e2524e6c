//! One run of [`crate::store_chaos`], told as a report.

use std::collections::BTreeMap;

use kringle_core::config::OverlayKind;

use crate::lab::params::{DURATION, Kind, OVERLAY, Param};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Figure, Table, Want};
use crate::store_chaos::{SetUp, world};
use crate::store_load::OwnStore;

/// Here a single node will do.
const NODES: &Param = &Param { name: "nodes", about: "nodes at the start", kind: Kind::Count(1, MOST) };

/// See the module.
pub const STORE_CHAOS: Scenario = Scenario {
    name: "store-chaos",
    about: "clients use the store while everything goes wrong: nothing acknowledged is lost, no answer is out of order",
    anchor: "",
    params: &[(NODES, "8"), (DURATION, "2m"), (OVERLAY, "pastry")],
    run,
};

/// Nodes join one after the other before things go wrong.
const MOST: u64 = 200;

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let nodes = lab.count(NODES);
    let chord = lab.params.text(OVERLAY) == "chord";
    let overlay = if chord { OverlayKind::Chord } else { OverlayKind::Pastry };
    let set_up = SetUp { overlay, ..SetUp::new(nodes, lab.params.span(DURATION)) };
    let mut interrupted = Ok(());
    let (world, outcome) = world(lab.seed, &set_up, &mut OwnStore, &mut |done| {
        interrupted = lab.progress("things go wrong", done);
        interrupted.is_ok()
    });
    lab.keep("store-chaos", &world);
    let report = &mut lab.report;
    let violations = Figure::new("violations", f64::from(u8::from(outcome.is_err())), 0, "");
    report.figures.push(violations.want(Want::AtMost(0.0)));
    report.figures.push(Figure::new("events", world.handled() as f64, 0, ""));
    if let Ok(summary) = &outcome {
        let sum = |counts: &BTreeMap<&str, u64>| counts.values().sum::<u64>() as f64;
        let figures = [
            ("faults", sum(&summary.faults)),
            ("operations", sum(&summary.operations)),
            ("keys", summary.keys as f64),
            ("acknowledged writes looked for", summary.ledger.acked as f64),
            ("unknown writes found later", summary.ledger.unknown_present as f64),
            ("unknown writes not found later", summary.ledger.unknown_absent as f64),
            ("keys put in order", summary.order.keys as f64),
            ("keys too hard to put in order", summary.order.undecided.len() as f64),
            ("nodes at the end", summary.nodes as f64),
        ];
        report.figures.extend(figures.map(|(name, value)| Figure::new(name, value, 0, "")));
        let spans = [
            ("seconds until every node was ready", summary.ready_after),
            ("seconds until every key was read and written", summary.alive_after),
        ];
        report.figures.extend(spans.map(|(name, span)| Figure::new(name, span.as_secs_f64(), 1, "s")));
        for (title, counts) in [("Faults drawn", &summary.faults), ("Operations", &summary.operations)] {
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
    use super::*;
    use crate::lab::Unwatched;

    #[test]
    fn a_run_tells_what_went_wrong_and_what_was_asked() {
        let given =
            [("nodes", "6"), ("duration", "5s")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (report, halt) = STORE_CHAOS.run(&given.into(), 1, &mut Unwatched).expect("possible");
        assert_eq!((halt, report.complete, report.figures[0].ours), (None, true, 0.0));
        let asked: u64 = report.tables[1].rows.iter().map(|row| row[1].parse::<u64>().unwrap()).sum();
        assert!(report.tables[0].title == "Faults drawn" && asked > 50, "{asked}");
    }

    #[test]
    fn a_ring_too_large_to_grow_one_by_one_is_refused() {
        let given = BTreeMap::from([("nodes".to_owned(), "201".to_owned())]);
        let refused = STORE_CHAOS.run(&given, 1, &mut Unwatched);
        assert_eq!(refused.expect_err("too many"), "--nodes: 201 is out of range: 1 to 200");
    }
}
