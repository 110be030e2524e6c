//! The network is split in two halves for a while, and mended: how soon is the ring one again?

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::message::BodyKind;
use kringle_core::overlay::Status;

use super::mass_failure::product;
use crate::invariants::{exact_leaf_sets, exact_leaf_sets_among};
use crate::lab::params::{BASE, LEAF_SET, NETWORK, NODES, OWNERSHIP, SPLIT};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Axis, Figure, Plot, Role, Series, Shape, Table, Want};
use crate::world::World;

/// See the module.
pub(super) const SPLIT_HEAL: Scenario = Scenario {
    name: "split-heal",
    about: "two halves that could not talk for a while become one ring again",
    anchor: "Pastry (Middleware 2001), section 2.4: overlays that were split may stay so for ever; the remedy named \
             there was not measured",
    params: &[
        (NODES, "10000"),
        (SPLIT, "10m"),
        (BASE, "4"),
        (LEAF_SET, "32"),
        (NETWORK, "plane"),
        (OWNERSHIP, "lease"),
    ],
    run,
};

/// How often the ring is looked at: at first, until when that is, and later.
const OFTEN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
const SECOND: Duration = Duration::from_secs(1);
/// After this long a ring is not expected to become one any more.
const PATIENCE: Duration = Duration::from_secs(600);
/// How many seconds before the network is mended are drawn.
const SHOWN: u64 = 5;
/// What we want: the ring is one again within so many seconds.
const WANTED: f64 = 30.0;

fn messages(world: &World) -> u64 {
    BodyKind::ALL.iter().map(|kind| world.tally.messages(*kind)).sum()
}

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let nodes = lab.count(NODES);
    if nodes < 4 {
        return Err(Halt::Impossible(format!(
            "--nodes: {nodes} nodes have no two halves of two; expected at least 4"
        )));
    }
    let mut world = lab.world_of(product(lab, Settings::default()))?;
    lab.grow(&mut world, nodes)?;
    let settled = wait_until_exact(lab, &mut world, "the ring settles", &mut |_, _| {})?;
    if settled.is_none() {
        return Err(Halt::Broken(format!("the ring of {nodes} nodes did not settle before it was split")));
    }
    // By turns, so that both halves have the same size.
    world.network.split_by((0..nodes).map(|node| (node % 2) as u8).collect());
    let span = lab.params.span(SPLIT);
    let seconds = span.as_secs().max(1);
    let (mut points, sent) = (Vec::new(), messages(&world));
    for second in 0..seconds {
        lab.progress("the network is split", second as f64 / seconds as f64)?;
        if seconds - second <= SHOWN {
            points.push((second as f64 - seconds as f64, share(&world)));
        }
        world.run_for(span / seconds as u32);
    }
    let split_rate = (messages(&world) - sent) as f64 / nodes as f64 / span.as_secs_f64();
    let halves: usize = (0..2).map(|half| exact_leaf_sets_among(&world, |node| node % 2 == half)).sum();
    world.network.mend();
    let before = messages(&world);
    let mut rows = Vec::new();
    let healed = wait_until_exact(lab, &mut world, "the ring finds together", &mut |passed, world| {
        let (seconds, share) = (passed.as_secs_f64(), share(world));
        points.push((seconds, share));
        let per_node = (messages(world) - before) as f64 / nodes as f64;
        rows.push(vec![format!("{seconds:.2}"), format!("{share:.4}"), format!("{per_node:.1}")]);
    })?;
    let per_node = (messages(&world) - before) as f64 / nodes as f64;
    lab.keep(&format!("{nodes} nodes, split and mended"), &world);
    let report = &mut lab.report;
    let took = healed.unwrap_or(PATIENCE).as_secs_f64();
    report.figures.push(Figure::new("seconds until one ring", took, 2, "s").want(Want::AtMost(WANTED)));
    report.figures.push(Figure::new("messages per node meanwhile", per_node, 1, "messages"));
    let rate = per_node / took.max(1.0);
    let own = halves as f64 / nodes as f64 * 100.0;
    report.figures.push(Figure::new("nodes with exact leaf sets in their half before", own, 2, "%"));
    report.figures.push(Figure::new("messages per node and second meanwhile", rate, 2, "messages/s"));
    report.figures.push(Figure::new("messages per node and second while split", split_rate, 2, "messages/s"));
    if healed.is_none() {
        report.remarks.push(format!("the ring was not one within {PATIENCE:?}"));
    }
    report.remarks.push(
        "one ring: every node is ready and every leaf set is exact; looked at four times in each of the first \
         ten seconds, then once a second. Settings are the \
         product's defaults"
            .to_owned(),
    );
    report.remarks.push(format!("the network was split for {} s", span.as_secs_f64()));
    let columns = ["second", "exact leaf sets", "messages per node so far"].map(str::to_owned).to_vec();
    report.tables.push(Table { title: "After the network was mended".to_owned(), columns, rows });
    report.plots.push(Plot {
        name: "exact".to_owned(),
        title: format!("Nodes with exact leaf sets, {nodes} nodes split for {} s", span.as_secs_f64()),
        shape: Shape::Lines,
        x: Axis { label: "seconds since the network was mended".to_owned(), log: false },
        y: Axis { label: "share of nodes".to_owned(), log: false },
        series: vec![Series { name: "Kringle".to_owned(), role: Role::Ours, points }],
    });
    Ok(())
}

/// Which part of all running nodes knows exactly its true neighbours.
fn share(world: &World) -> f64 {
    exact_leaf_sets(world) as f64 / world.running().count().max(1) as f64
}

fn is_one_ring(world: &World) -> bool {
    world.running().all(|(_, node)| node.status() == Status::Ready)
        && exact_leaf_sets(world) == world.running().count()
}

/// Lets time pass until the ring is one, and returns how long it took.
fn wait_until_exact(
    lab: &mut Lab<'_>,
    world: &mut World,
    step: &str,
    each: &mut dyn FnMut(Duration, &World),
) -> Result<Option<Duration>, Halt> {
    let mut passed = Duration::ZERO;
    while passed <= PATIENCE {
        lab.progress(step, passed.as_secs_f64() / PATIENCE.as_secs_f64())?;
        each(passed, world);
        if is_one_ring(world) {
            return Ok(Some(passed));
        }
        let span = if passed < OFTEN.1 { OFTEN.0 } else { SECOND };
        world.run_for(span);
        passed += span;
    }
    Ok(None)
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
    fn a_small_ring_heals_after_a_minute_in_two_halves() {
        let small = given(&[("nodes", "120"), ("split", "60s")]);
        let (report, halt) = SPLIT_HEAL.run(&small, 1, &mut Unwatched).expect("possible");
        assert_eq!(halt, None);
        let figure = |name: &str| report.figures.iter().find(|figure| figure.name == name).expect(name).ours;
        assert!(figure("seconds until one ring") <= 60.0);
        assert!(figure("messages per node meanwhile") > 0.0);
        let points = &report.plots[0].series[0].points;
        let at = |second: f64| points.iter().find(|(x, _)| *x == second).expect("looked at").1;
        assert_eq!((at(-5.0), at(0.0)), (0.0, 0.0), "nobody knows the other half");
        assert!(figure("nodes with exact leaf sets in their half before") >= 90.0, "two rings before");
        assert_eq!(points.last().map(|(_, share)| *share), Some(1.0));
        assert_eq!((report.worlds.len(), report.worlds[0].nodes), (1, 120));
    }

    #[test]
    fn a_ring_without_halves_is_refused() {
        let refused = SPLIT_HEAL.run(&given(&[("nodes", "3")]), 1, &mut Unwatched);
        assert_eq!(
            refused.expect_err("too few"),
            "--nodes: 3 nodes have no two halves of two; expected at least 4"
        );
    }
}
