//! E8 of the Pastry paper: what a join costs.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::message::BodyKind;

use super::{AFTERMATH, UNDISTURBED};
use crate::invariants::leaf_sets_are_exact;
use crate::lab::params::{BASE, JOINS, LEAF_SET, NEIGHBOURHOOD, NETWORK, NODES, OWNERSHIP, SPARES};
use crate::lab::traffic::Traffic;
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Figure, Histogram, Table, Want};

/// See the module.
pub(super) const JOIN_COST: Scenario = Scenario {
    name: "join-cost",
    about: "messages and time a join takes in a ring that has grown",
    anchor: "Pastry (Middleware 2001), section 2.4: about 3 x 2^b x log N messages to the base 2^b; 100,000 nodes, b=4. \
             L=32 and M=32 are ours",
    params: &[
        (NODES, "100000"),
        (JOINS, "200"),
        (BASE, "4"),
        (LEAF_SET, "32"),
        (NEIGHBOURHOOD, "32"),
        (SPARES, "0"),
        (NETWORK, "plane"),
        (OWNERSHIP, "hint"),
    ],
    run,
};

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, joins) = (lab.count(NODES), lab.count(JOINS));
    // Nobody dies, and what neighbours say to each other every half minute would drown what a join takes.
    let mut world = lab.world_of(Settings { heartbeat: UNDISTURBED, ..lab.settings() })?;
    lab.grow(&mut world, nodes)?;
    // What the last wave still has to say.
    world.run_for(Duration::from_secs(60));
    let quiet = world.tally.clone();
    world.run_for(AFTERMATH);
    let background = Traffic::since(&quiet, &world.tally);

    let mut messages = Histogram::new("requests and replies of each join");
    let mut acks = Histogram::new("acknowledgements of each join");
    let mut pings = Histogram::new("pings and their answers of each join");
    let mut times = Histogram::new("milliseconds until each was part of the ring");
    let before = world.tally.clone();
    let started = world.now();
    for join in 0..joins {
        lab.progress("single joins", join as f64 / joins as f64)?;
        let (tally, at) = (world.tally.clone(), world.now());
        world.grow(1);
        times.add(world.now().since(at).as_millis() as u64);
        world.run_for(AFTERMATH);
        let part = world.now().since(at).as_secs_f64() / AFTERMATH.as_secs_f64();
        let traffic = Traffic::since(&tally, &world.tally).without(&background, part);
        messages.add(traffic.requests_and_replies().max(0.0).round() as u64);
        acks.add(traffic.of(&[BodyKind::HopAck]).max(0.0).round() as u64);
        pings.add(traffic.of(&[BodyKind::Ping, BodyKind::Pong]).max(0.0).round() as u64);
    }
    let part = world.now().since(started).as_secs_f64() / AFTERMATH.as_secs_f64();
    let traffic = Traffic::since(&before, &world.tally).without(&background, part);
    lab.keep(&format!("{nodes} nodes and {joins} more"), &world);
    kinds(lab, &traffic, joins);

    let (b, levels) = (lab.count(BASE), (nodes as f64).log2() / lab.count(BASE) as f64);
    let paper = 3.0 * f64::from(1u32 << b) * levels;
    let figure = |name: &str, counts: &Histogram| Figure::new(name, counts.mean(), 1, "messages");
    lab.report.figures.extend([
        figure("requests and replies per join", &messages).paper(paper).want(Want::AtMost(200.0)),
        figure("acknowledgements per join", &acks),
        figure("pings and their answers per join", &pings),
        Figure::new("median time to join", times.quantile(0.5) as f64, 0, "ms").want(Want::AtMost(2000.0)),
        Figure::new("99th percentile of it", times.quantile(0.99) as f64, 0, "ms"),
        Figure::new("messages in the background meanwhile", part * background.except(&[]), 0, "messages"),
    ]);
    let remarks = [
        "the paper's number is its formula, 3 x 2^b x log N; it counts neither pings nor acknowledgements"
            .to_owned(),
        format!(
            "a join is counted until {} s after its end; what was sent in the background of a span as long is left out",
            AFTERMATH.as_secs()
        ),
        "heartbeats are off; the ring has grown by joins only and had no maintenance round".to_owned(),
    ];
    lab.report.remarks.extend(remarks);
    lab.report.counts.extend([messages, acks, pings, times]);
    // Without heartbeats nothing mends what a join forgets: then its cost would be a bargain.
    leaf_sets_are_exact(&world).map_err(Halt::Broken)
}

/// The table by kind.
fn kinds(lab: &mut Lab<'_>, traffic: &Traffic, joins: usize) {
    let sent: Vec<(BodyKind, f64)> = traffic.kinds().filter(|(_, count)| *count > 0.5).collect();
    let rows = sent.iter().map(|(kind, count)| {
        vec![kind.name().to_owned(), format!("{count:.0}"), format!("{:.2}", count / joins as f64)]
    });
    lab.report.tables.push(Table {
        title: "Messages by kind".to_owned(),
        columns: ["kind", "messages", "per join"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::tests::{figure, run};

    #[test]
    fn a_join_is_told_to_all_leaves_and_nothing_is_counted_that_is_not_a_joins() {
        let report = run(&JOIN_COST, &[("nodes", "200"), ("joins", "10"), ("leaf-set", "16")]);
        assert!(report.counts.iter().all(|counts| counts.total() == 10));
        let messages = figure(&report, "requests and replies per join");
        assert!((16.0..400.0).contains(&messages), "{messages} messages");
        assert_eq!(figure(&report, "messages in the background meanwhile"), 0.0);
        // Every request was counted in one of the three classes, and once.
        let total: f64 = report.tables[0].rows.iter().map(|row| row[1].parse::<f64>().unwrap()).sum();
        let classes: f64 = report.counts[..3].iter().map(|counts| counts.mean() * 10.0).sum();
        assert!((total - classes).abs() < 1e-6, "{total} by kind, {classes} by class");
        let time = figure(&report, "median time to join");
        assert!((1.0..5000.0).contains(&time), "{time} ms");
    }
}
