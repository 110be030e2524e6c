//! Path length in Chord against the size of the ring (ToN 2003, section VI-C).

use kringle_core::dice::{Dice, SeededDice};

use super::mass_failure::random_key;
use crate::invariants::Places;
use crate::lab::chord::{lines, series, table};
use crate::lab::params::{LOOKUPS, NETWORK, NODES, SUCCESSORS};
use crate::lab::ring::Routes;
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Axis, Figure, Plot, Role, Shape, Want};
use crate::world::World;

/// See the module.
pub(super) const CHORD_PATH: Scenario = Scenario {
    name: "chord-path",
    about: "hops per lookup in Chord against the size of the ring, and their distribution",
    anchor: "Chord (ToN 2003), section VI-C: 2^3 to 2^14 nodes, 100 keys per node, each looked up from a random node: \
             half of log2 N hops",
    params: &[(NODES, "16384"), (LOOKUPS, "100000"), (SUCCESSORS, "8"), (NETWORK, "plane")],
    run,
};

/// The paper's smallest ring.
const FEWEST: usize = 8;
/// Keeps keys apart from other things drawn from the same seed.
const KEYS: u64 = 21 << 40;

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let most = lab.count(NODES);
    let mut sizes: Vec<usize> =
        (FEWEST.ilog2()..).map(|power| 1 << power).take_while(|size| *size < most).collect();
    sizes.push(most);
    let columns =
        ["nodes", "mean hops", "p1", "p50", "p99", "max", "half of log2 N", "fingers", "lost", "wrong"];
    lab.report.tables.push(table("Hops by size of the ring", &columns));
    lab.report.plots.push(lines(
        "hops",
        "Hops per lookup against the size of the ring",
        ("nodes", true),
        "mean hops",
        vec![
            series("Kringle", Role::Ours, Vec::new()),
            series("Chord: half of log2 N", Role::Paper, Vec::new()),
        ],
    ));
    for nodes in sizes {
        let mut world = lab.chord_ring(lab.chord_settings(None), nodes)?;
        let places = Places::of_ready(&world);
        let mut dice = SeededDice::derive(lab.seed, KEYS);
        // A small ring needs no more than the paper's hundred for each of its nodes.
        let count = lab.count(LOOKUPS).min(nodes * 100);
        let name = format!("hops of lookups among {nodes} nodes");
        let routes = lab.lookups(&mut world, &name, count, |world| {
            let (from, key) = (dice.below(world.len()) as u32, random_key(&mut dice));
            (from, key, places.successor(key).map_or(0, |(_, node)| node))
        })?;
        lab.keep(&format!("{nodes} nodes"), &world);
        tell(lab, &world, routes, nodes == most);
    }
    Ok(())
}

fn tell(lab: &mut Lab<'_>, world: &World, routes: Routes, last: bool) {
    let nodes = world.len();
    let (mean, half) = (routes.hops.mean(), (nodes as f64).log2() / 2.0);
    let chords = world.ready().filter_map(|(_, node)| node.overlay().as_chord());
    let fingers = chords.map(|chord| chord.fingers().len()).sum::<usize>() as f64 / nodes as f64;
    let quantile = |part| routes.hops.quantile(part).to_string();
    let report = &mut lab.report;
    report.tables[0].rows.push(vec![
        nodes.to_string(),
        format!("{mean:.3}"),
        quantile(0.01),
        quantile(0.5),
        quantile(0.99),
        quantile(1.0),
        format!("{half:.2}"),
        format!("{fingers:.1}"),
        routes.lost.to_string(),
        routes.wrong.to_string(),
    ]);
    report.plots[0].series[0].points.push((nodes as f64, mean));
    report.plots[0].series[1].points.push((nodes as f64, half));
    if last {
        let hops = Figure::new("mean hops", mean, 3, "hops").paper(half);
        report.figures.push(hops.want(Want::AtMost(half)));
        report.figures.push(Figure::new("fingers per node", fingers, 1, ""));
        for (name, count) in
            [("lookups lost", routes.lost), ("lookups answered by the wrong node", routes.wrong)]
        {
            report.figures.push(Figure::new(name, count as f64, 0, "").want(Want::AtMost(0.0)));
        }
        report.plots.push(Plot {
            name: "distribution".to_owned(),
            title: format!("Hops per lookup, {nodes} nodes"),
            shape: Shape::Bars,
            x: Axis { label: "hops".to_owned(), log: false },
            y: Axis { label: "share of lookups".to_owned(), log: false },
            series: vec![series("Kringle", Role::Ours, routes.hops.bars(0..=routes.hops.quantile(1.0)))],
        });
        report.remarks.push(
            "rings are formed complete: successors, predecessors and fingers are right from the start; a list of \
             --successors shortens the last steps"
                .to_owned(),
        );
    }
    report.counts.push(routes.hops);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figure, run};
    use super::*;

    #[test]
    fn ways_are_half_of_the_logarithm_long() {
        let report = run(&CHORD_PATH, &[("nodes", "256"), ("lookups", "2000"), ("successors", "2")]);
        assert_eq!(report.tables[0].rows.len(), 6);
        assert!((figure(&report, "mean hops") - 4.0).abs() < 0.8, "{}", figure(&report, "mean hops"));
        assert_eq!(
            figure(&report, "lookups lost") + figure(&report, "lookups answered by the wrong node"),
            0.0
        );
        assert_eq!(report.worlds.last().map(|ring| ring.nodes), Some(256));
    }
}
