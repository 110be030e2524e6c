//! E6 of the Pastry paper: whether a route meets the nearest of a key's replicas first.

use kringle_core::config::Settings;
use kringle_core::contact::Contact;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::id::{Id, Key};
use kringle_core::overlay::pastry::router::Router;

use crate::lab::params::{
    BASE, LEAF_SET, LOOKUPS, NEIGHBOURHOOD, NETWORK, NODES, OWNERSHIP, REPLICAS, ROUNDS, SPARES,
};
use crate::lab::{Halt, Lab, Scenario};
use crate::model::Model;
use crate::report::{Axis, Figure, Histogram, Plot, Role, Series, Shape, Table, Want};
use crate::world::World;

/// See the module.
pub(super) const PASTRY_REPLICAS: Scenario = Scenario {
    name: "pastry-replicas",
    about: "how often a message reaches the nearest of a key's replicas first",
    anchor: "Pastry (Middleware 2001), experiment E6: 10,000 nodes, b=3, L=8, M=16, k=5; 100,000 pairs of client and key",
    params: &[
        (NODES, "10000"),
        (LOOKUPS, "100000"),
        (REPLICAS, "5"),
        (ROUNDS, "8"),
        (BASE, "3"),
        (LEAF_SET, "8"),
        (NEIGHBOURHOOD, "16"),
        (SPARES, "0"),
        (NETWORK, "plane"),
        (OWNERSHIP, "hint"),
    ],
    run,
};

/// Keeps clients and keys apart from other things drawn from the same seed.
const PAIRS: u64 = 9 << 40;

/// Who chooses the replica. All but the first are computed: the product has no such choice yet.
const WAYS: [&str; 3] = [
    "nobody: first replica on the path",
    "first node whose leaf set covers the key, the nearest to itself",
    "first node that knows all replicas, the nearest to itself",
];

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let k = lab.count(REPLICAS);
    lab.report.tables.push(Table {
        title: format!("Which of the {k} replicas, by distance from the client"),
        columns: ["leaf set", "choice", "nearest", "two nearest", "no replica", "lost", "wrong"]
            .map(str::to_owned)
            .to_vec(),
        rows: Vec::new(),
    });
    let leaf_set = lab.count(LEAF_SET);
    let given = ranks(lab, leaf_set)?;
    conclude(lab, leaf_set, k, &given);
    // A static model says that the paper's shares need twice the paper's leaf set.
    let doubled = ranks(lab, 2 * leaf_set)?;
    if let [_, covering, _] = doubled.as_slice() {
        let percent = |name: String, share: f64| Figure::new(name, share * 100.0, 1, "%");
        let name = |which: &str| format!("{which}, if the covering node chose, L={}", 2 * leaf_set);
        let two = covering.share(0) + covering.share(1);
        lab.report.figures.extend([
            percent(name("nearest"), covering.share(0)).paper(68.0),
            percent(name("one of the two nearest"), two).paper(87.0),
        ]);
    }
    let remarks = [
        "beside no choice stand the paper's shares without its density heuristic, beside the choice of a node that knows all \
         replicas those with it; Kringle has neither yet",
        "a static model with perfect tables gives 57 % with L=8 and 68 % with L=16 if the node that covers the key forwards \
         to the replica nearest to itself: the paper most likely ran with L=16",
        "\"no replica\": the covering node chose one that is not among the true replicas, since its leaf set ends too near; the \
         static model leaves those out",
        "choices are computed from leaf sets and true distances after the lookup; no message was sent by them",
    ];
    lab.report.remarks.extend(remarks.map(str::to_owned));
    Ok(())
}

/// Lets a ring grow and counts, for each way to choose, the ranks of the replicas chosen.
fn ranks(lab: &mut Lab<'_>, leaf_set: usize) -> Result<Vec<Histogram>, Halt> {
    let k = lab.count(REPLICAS);
    let mut world = lab.world_of(Settings { leaf_set: leaf_set as u16, ..lab.settings() })?;
    let nodes = lab.count(NODES);
    lab.grow(&mut world, nodes)?;
    let (rounds, lookups) = (lab.count(ROUNDS), lab.count(LOOKUPS));
    lab.rounds(&mut world, rounds)?;
    let model = Model::of(&world);
    let mut dice = SeededDice::derive(lab.seed, PAIRS);
    let next = |_: &World| {
        let client = model.members()[dice.below(model.members().len())].addr.0;
        let key = Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()));
        (client, key, model.owner(key).addr.0)
    };
    let name = |way| format!("rank of the replica by distance from the client, L={leaf_set}: {way}");
    let mut counts: Vec<Histogram> = WAYS.iter().map(|way| Histogram::new(name(way))).collect();
    let hops = format!("hops to the owner, L={leaf_set}");
    let routes =
        lab.traced(&mut world, &hops, (lookups, 20_000), next, |world, (client, key, _), path| {
            let replicas: Vec<u32> = model.nearest(key, k).iter().map(|node| node.addr.0).collect();
            let chosen = choices(world, key, k, &replicas, path);
            for (counts, chosen) in counts.iter_mut().zip(chosen) {
                counts.add(chosen.and_then(|node| rank(world, client, node, &replicas)).unwrap_or(k) as u64);
            }
        })?;
    lab.keep(&format!("{nodes} nodes, L={leaf_set}"), &world);
    for (way, counts) in WAYS.iter().zip(&counts) {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let row = [counts.share(0), counts.share(0) + counts.share(1), counts.share(k as u64)].map(percent);
        let (lost, wrong) = (routes.lost.to_string(), routes.wrong.to_string());
        let [nearest, two, none] = row;
        if let Some(table) = lab.report.tables.last_mut() {
            table.rows.push(vec![leaf_set.to_string(), (*way).to_owned(), nearest, two, none, lost, wrong]);
        }
    }
    lab.report.counts.extend(counts.iter().cloned());
    lab.report.counts.push(routes.hops);
    Ok(counts)
}

/// The replica each way ends at, in the order of [`WAYS`].
fn choices(world: &World, key: Key, k: usize, replicas: &[u32], path: &[u32]) -> [Option<u32>; 3] {
    let first = path.iter().copied().find(|node| replicas.contains(node));
    let routers = || path.iter().filter_map(|node| Some(world.node(*node)?.overlay().as_pastry()?.router()));
    let nearest = |router: &Router| {
        let known = router.leaf_set().replicas(key, router.me(), k).into_iter().map(|node| node.addr.0);
        known.min_by_key(|node| world.network.direct(router.me().addr.0, *node))
    };
    let covering = routers().find(|router| router.leaf_set().covers(key));
    let knowing = routers().find(|router| knows(router, key, k));
    [first, covering.and_then(nearest), knowing.and_then(nearest)]
}

/// Says whether the `k` nodes nearest to a key in this leaf set are so for sure: nobody beyond its ends is nearer.
fn knows(router: &Router, key: Key, k: usize) -> bool {
    let leaf_set = router.leaf_set();
    let ends = [leaf_set.left().next_back(), leaf_set.right().next_back()];
    let farthest = leaf_set.replicas(key, router.me(), k).last().map(|node| key.closeness(node.id));
    let within = |end: &Contact| farthest.is_some_and(|farthest| farthest <= key.closeness(end.id));
    leaf_set.is_whole() || leaf_set.covers(key) && ends.iter().flatten().all(within)
}

/// How many of the replicas are nearer to the client than this one.
fn rank(world: &World, client: u32, node: u32, replicas: &[u32]) -> Option<usize> {
    let distance = |node: u32| world.network.direct(client, node);
    let nearer = replicas.iter().filter(|other| distance(**other) < distance(node)).count();
    replicas.contains(&node).then_some(nearer)
}

fn conclude(lab: &mut Lab<'_>, leaf_set: usize, k: usize, counts: &[Histogram]) {
    let percent = |name: &str, share: f64| Figure::new(name, share * 100.0, 1, "%");
    let two = |counts: &Histogram| counts.share(0) + counts.share(1);
    let [first, covering, knowing] = counts else { return };
    lab.report.figures.extend([
        percent("nearest replica, no choice", first.share(0))
            .paper(68.0)
            .limit(100.0)
            .want(Want::AtLeast(68.0)),
        percent("one of the two nearest, no choice", two(first))
            .paper(87.0)
            .limit(100.0)
            .want(Want::AtLeast(87.0)),
        percent("nearest, if the covering node chose", covering.share(0)),
        percent("one of the two nearest, if the covering node chose", two(covering)),
        percent("nearest, if the first to know all replicas chose", knowing.share(0)).paper(76.0),
        percent("one of the two nearest, if the first to know all replicas chose", two(knowing)).paper(92.0),
    ]);
    let series = WAYS.iter().zip(counts).map(|(way, counts)| Series {
        name: (*way).to_owned(),
        role: Role::Ours,
        points: (0..=k as u64).map(|rank| (rank as f64 + 1.0, counts.share(rank))).collect(),
    });
    lab.report.plots.push(Plot {
        name: "ranks".to_owned(),
        title: format!("Replica reached by distance from the client, k={k}, L={leaf_set}"),
        shape: Shape::Bars,
        x: Axis { label: format!("rank among the {k} replicas; {} is none of them", k + 1), log: false },
        y: Axis { label: "share of messages".to_owned(), log: false },
        series: series.collect(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::tests::{figure, run};

    #[test]
    fn a_choice_beats_none_and_whoever_knows_all_replicas_names_one_of_them() {
        let given = [("nodes", "300"), ("lookups", "1000"), ("rounds", "2"), ("leaf-set", "16")];
        let report = run(&PASTRY_REPLICAS, &given);
        let shares = [
            "nearest replica, no choice",
            "nearest, if the covering node chose",
            "nearest, if the first to know all replicas chose",
        ];
        let shares = shares.map(|name| figure(&report, name));
        assert!(shares.iter().all(|share| *share > 25.0), "chance gives a fifth: {shares:?}");
        assert!(shares[2] > shares[0], "a choice is better than none: {shares:?}");
        // Whoever knows all replicas never names a node that is none.
        assert!(report.counts.iter().filter(|counts| counts.name.ends_with("to itself")).count() == 4);
        let knowing = report.counts.iter().filter(|counts| counts.name.contains("knows all replicas"));
        assert!(knowing.into_iter().all(|counts| counts.share(5) == 0.0));
        assert!(report.counts.iter().all(|counts| counts.total() == 1000));
        assert!(report.tables[0].rows.iter().all(|row| row[5] == "0" && row[6] == "0"));
    }
}
