//! How long a lookup in Chord takes, relative to asking the owner straight away (ToN 2003, section VI-F).

use kringle_core::dice::{Dice, SeededDice};

use super::mass_failure::random_key;
use crate::invariants::Places;
use crate::lab::chord::{series, table};
use crate::lab::params::{LOOKUPS, NODES, SUCCESSORS};
use crate::lab::{Halt, Lab, Scenario};
use crate::network::Topology;
use crate::report::{Axis, Figure, Plot, Role, Shape};

/// See the module.
pub(super) const CHORD_STRETCH: Scenario = Scenario {
    name: "chord-stretch",
    about: "time of a lookup in Chord relative to asking the owner straight away, recursive and iterative",
    anchor: "Chord (ToN 2003), section VI-F: 2^16 nodes in 3-d space or a transit-stub network, 10,000 lookups, one \
             candidate per finger; medians: iterative 7.8 and 7.2, recursive 4.5 and 4.1",
    params: &[(NODES, "16384"), (LOOKUPS, "10000"), (SUCCESSORS, "8")],
    run,
};

/// Networks, and the paper's medians: iterative, recursive. Its space has three dimensions, ours two.
const NETWORKS: [(&str, f64, f64); 2] = [("plane", 7.8, 4.5), ("transit-stub", 7.2, 4.1)];
/// The size of the paper's ring.
const PAPER: usize = 1 << 16;
/// Keeps keys apart from other things drawn from the same seed.
const KEYS: u64 = 25 << 40;

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, count) = (lab.count(NODES), lab.count(LOOKUPS));
    let columns = ["network", "way", "median", "p10", "p90", "paper's median", "mean hops", "lost", "wrong"];
    lab.report.tables.push(table("Time of a lookup, relative to the owner's round trip", &columns));
    let (mut ours, mut papers) = (Vec::new(), Vec::new());
    for (at, (network, iterative, recursive)) in NETWORKS.into_iter().enumerate() {
        let mut world = lab.chord_ring(lab.chord_settings(None), nodes)?;
        world.network.topology = Topology::parse(network, lab.seed).map_err(Halt::Impossible)?;
        let places = Places::of_ready(&world);
        let mut dice = SeededDice::derive(lab.seed, KEYS);
        let mut ratios: [Vec<f64>; 2] = Default::default();
        let name = format!("hops, {network}");
        let next = |world: &crate::world::World| {
            let (from, key) = (dice.below(world.len()) as u32, random_key(&mut dice));
            (from, key, places.successor(key).map_or(0, |(_, node)| node))
        };
        let routes = lab.traced(&mut world, &name, (count, 2000), next, |world, lookup, path| {
            let leg = |a: u32, b: u32| world.network.direct(a, b).as_secs_f64();
            let (from, root) = (lookup.0, path.last().copied().unwrap_or(lookup.0));
            let straight = 2.0 * leg(from, root);
            if root == from || straight <= 0.0 {
                return;
            }
            let asked: f64 = path.iter().skip(1).map(|node| 2.0 * leg(from, *node)).sum();
            let passed: f64 = path.windows(2).map(|pair| leg(pair[0], pair[1])).sum();
            ratios[0].push(asked / straight);
            ratios[1].push((passed + leg(root, from)) / straight);
        })?;
        lab.keep(&format!("{nodes} nodes, {network}"), &world);
        for ((way, paper), mut ratios) in
            [("iterative", iterative), ("recursive", recursive)].into_iter().zip(ratios)
        {
            ratios.sort_by(f64::total_cmp);
            let quantile = |part: f64| {
                let at = (ratios.len() as f64 * part) as usize;
                ratios.get(at.min(ratios.len().saturating_sub(1))).copied().unwrap_or_default()
            };
            lab.report.tables[0].rows.push(vec![
                network.to_owned(),
                way.to_owned(),
                format!("{:.2}", quantile(0.5)),
                format!("{:.2}", quantile(0.1)),
                format!("{:.2}", quantile(0.9)),
                format!("{paper:.1}"),
                format!("{:.2}", routes.hops.mean()),
                routes.lost.to_string(),
                routes.wrong.to_string(),
            ]);
            let figure = Figure::new(format!("{way}, {network}, median"), quantile(0.5), 2, "");
            lab.report.figures.push(if nodes == PAPER { figure.paper(paper) } else { figure });
            let x = (ours.len() + 1) as f64;
            ours.push((x, quantile(0.5)));
            papers.push((x, paper));
        }
        lab.progress("networks", (at + 1) as f64 / NETWORKS.len() as f64)?;
        lab.report.counts.push(routes.hops);
    }
    lab.report.plots.push(Plot {
        name: "stretch".to_owned(),
        title: format!("Time of a lookup, relative to the owner's round trip, {nodes} nodes"),
        shape: Shape::Bars,
        x: Axis { label: "1, 2: plane; 3, 4: transit-stub; iterative first".to_owned(), log: false },
        y: Axis { label: "times the owner's round trip".to_owned(), log: false },
        series: vec![
            series("Kringle", Role::Ours, ours),
            series("Chord, 65,536 nodes, 3-d space", Role::Paper, papers),
        ],
    });
    lab.report.remarks.push(
        "nodes pass lookups on (recursive); iterative is computed for the same nodes on the way, each asked by the \
         asker. The paper's space has three dimensions and its ring 65,536 nodes; smaller rings have shorter ways"
            .to_owned(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figure, run};
    use super::*;

    #[test]
    fn passing_on_is_faster_than_asking_around() {
        let report = run(&CHORD_STRETCH, &[("nodes", "200"), ("lookups", "500")]);
        for (network, ..) in NETWORKS {
            let median = |way: &str| figure(&report, &format!("{way}, {network}, median"));
            assert!(median("recursive") < median("iterative") && median("recursive") >= 1.0, "{network}");
        }
    }
}
