//! Many nodes of a Chord ring die at once, and nobody stabilises (ToN 2003, section VI-D).

use std::collections::BTreeSet;

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::id::{Key, NodeId};
use kringle_core::message::{Rule, Stage};
use kringle_core::overlay::{NextHop, Overlay};

use super::mass_failure::random_key;
use crate::invariants::Places;
use crate::lab::chord::{lines, series, table};
use crate::lab::params::{DEAD, LOOKUPS, NETWORK, NODES, SUCCESSORS};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Figure, Histogram, Role, Want};
use crate::world::World;

/// See the module.
pub(super) const CHORD_MASS_FAILURE: Scenario = Scenario {
    name: "chord-mass-failure",
    about: "lookups in Chord right after a part of all nodes died at once, nothing repaired",
    anchor: "Chord (ToN 2003), section VI-D: 1,000 nodes, 20 successors, each node dies with probability 0 to 0.5, no \
             stabilisation, 10,000 lookups: none failed",
    params: &[(NODES, "1000"), (LOOKUPS, "10000"), (SUCCESSORS, "20"), (DEAD, "50"), (NETWORK, "plane")],
    run,
};

/// The paper's mean hops and timeouts per lookup by the part that died, in per cent.
const PAPER: [(f64, f64, f64); 6] = [
    (0.0, 3.84, 0.0),
    (10.0, 4.03, 0.6),
    (20.0, 4.22, 1.17),
    (30.0, 4.44, 2.02),
    (40.0, 4.69, 3.23),
    (50.0, 5.09, 5.1),
];
/// Keeps who dies and who asks apart from other things drawn from the same seed.
const DEATHS: u64 = 24 << 40;

/// What one lookup came to.
struct Walk {
    hops: u64,
    timeouts: u64,
    /// Whom the last node on the way takes for the owner.
    end: Option<u32>,
}

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, most) = (lab.count(NODES), lab.params.real(DEAD));
    if (nodes as f64 * (100.0 - most) / 100.0) < 2.0 {
        return Err(Halt::Impossible("--dead: at least two nodes must be left to ask each other".to_owned()));
    }
    let columns = [
        "dead %",
        "mean hops",
        "paper",
        "timeouts per lookup",
        "paper",
        "p90 of the timeouts",
        "failed",
        "paper",
    ];
    lab.report.tables.push(table("Lookups by the part of nodes that died", &columns));
    let mut shares: Vec<f64> = PAPER.iter().map(|row| row.0).filter(|share| *share < most).collect();
    shares.push(most);
    let mut curves: [Vec<(f64, f64)>; 4] = Default::default();
    for share in shares {
        lab.progress("nodes die", share / most.max(1.0))?;
        let paper = PAPER.iter().find(|row| row.0 == share);
        let mut world = lab.chord_ring(lab.chord_settings(None), nodes)?;
        let (hops, timeouts, failed) = die_and_ask(lab, &mut world, share);
        lab.keep(&format!("{nodes} nodes, {share} % of them die"), &world);
        let text = |paper: Option<f64>| paper.map_or("-".to_owned(), |paper| format!("{paper:.2}"));
        let report = &mut lab.report;
        report.tables[0].rows.push(vec![
            format!("{share}"),
            format!("{:.2}", hops.mean()),
            text(paper.map(|row| row.1)),
            format!("{:.2}", timeouts.mean()),
            text(paper.map(|row| row.2)),
            timeouts.quantile(0.9).to_string(),
            failed.to_string(),
            paper.map_or("-", |_| "0").to_owned(),
        ]);
        curves[0].push((share, hops.mean()));
        curves[1].push((share, timeouts.mean()));
        if let Some((_, hops, timeouts)) = paper {
            curves[2].push((share, *hops));
            curves[3].push((share, *timeouts));
        }
        let mut figures = vec![
            Figure::new(format!("mean hops, {share} % dead"), hops.mean(), 2, "hops"),
            Figure::new(format!("timeouts per lookup, {share} % dead"), timeouts.mean(), 2, ""),
        ];
        if let Some((_, hops, timeouts)) = paper.filter(|_| nodes == 1000) {
            figures[0].paper = Some(*hops);
            figures[1].paper = Some(*timeouts);
        }
        let failed = Figure::new(format!("lookups failed, {share} % dead"), failed as f64, 0, "");
        figures.push(failed.paper(0.0).want(Want::AtMost(0.0)));
        report.figures.extend(figures);
        report.counts.extend([hops, timeouts]);
    }
    let [hops, timeouts, their_hops, their_timeouts] = curves;
    lab.report.plots.push(lines(
        "failures",
        "Hops and timeouts per lookup against the part of nodes that died",
        ("dead, in per cent", false),
        "per lookup",
        vec![
            series("hops", Role::Ours, hops),
            series("timeouts", Role::Ours, timeouts),
            series("Chord, hops", Role::Paper, their_hops),
            series("Chord, timeouts", Role::Paper, their_timeouts),
        ],
    ));
    lab.report.remarks.push(
        "the asker goes from node to node, as in the paper, and learns who is dead by waiting; nobody else learns it. \
         Each step is the decision of the simulated node. A lookup ends with whom the last node before the key takes \
         for the owner; failed is if that is not the first live node after the key"
            .to_owned(),
    );
    Ok(())
}

fn die_and_ask(lab: &Lab<'_>, world: &mut World, share: f64) -> (Histogram, Histogram, u64) {
    let mut dice = SeededDice::derive(lab.seed, DEATHS);
    let mut alive: Vec<u32> = world.ready().map(|(node, _)| node).collect();
    let dead = (alive.len() as f64 * share / 100.0).round() as usize;
    let mut gone = BTreeSet::new();
    for _ in 0..dead {
        let node = alive.swap_remove(dice.below(alive.len()));
        gone.insert(world.contact(node).id);
        world.crash(node);
    }
    let places = Places::of_ready(world);
    let mut hops = Histogram::new(format!("hops, {share} % dead"));
    let mut timeouts = Histogram::new(format!("timeouts, {share} % dead"));
    let mut failed = 0;
    for _ in 0..lab.count(LOOKUPS) {
        let (from, key) = (alive[dice.below(alive.len())], random_key(&mut dice));
        let walk = walk(world, from, key, &gone);
        hops.add(walk.hops);
        timeouts.add(walk.timeouts);
        failed += u64::from(walk.end.is_none() || walk.end != places.successor(key).map(|(_, node)| node));
    }
    (hops, timeouts, failed)
}

/// Goes from node to node; whoever stays silent is left out from then on.
fn walk(world: &World, from: u32, key: Key, dead: &BTreeSet<NodeId>) -> Walk {
    let mut walk = Walk { hops: 0, timeouts: 0, end: None };
    let (mut at, mut avoid) = (from, Vec::new());
    while let Some(node) = world.node(at).filter(|_| walk.hops <= world.config().hops_max.into()) {
        match node.overlay().next_hop(key, Stage::Prefix, &avoid, None) {
            NextHop::Here => {
                walk.end = Some(at);
                break;
            }
            NextHop::Peer(next, _) if dead.contains(&next.id) => {
                walk.timeouts += 1;
                avoid.push(next.id);
            }
            NextHop::Peer(next, rule) => {
                walk.hops += 1;
                at = next.addr.0;
                if rule == Rule::SuccessorList {
                    walk.end = Some(at);
                    break;
                }
            }
            NextHop::Wait | NextHop::NotReady => break,
        }
    }
    walk
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figure, run};
    use super::*;

    #[test]
    fn half_of_a_small_ring_dies_and_no_lookup_fails() {
        let report = run(&CHORD_MASS_FAILURE, &[("nodes", "200"), ("lookups", "500")]);
        assert_eq!(report.tables[0].rows.len(), PAPER.len());
        for (share, ..) in PAPER {
            assert_eq!(figure(&report, &format!("lookups failed, {share} % dead")), 0.0);
        }
        assert_eq!(figure(&report, "timeouts per lookup, 0 % dead"), 0.0);
        assert!(figure(&report, "timeouts per lookup, 50 % dead") > 1.0);
    }
}
