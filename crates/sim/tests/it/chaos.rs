//! Two-phase chaos: many seeds, old failures, and a planted bug for every invariant.

use std::time::Duration;

use kringle_core::config::{Ownership, Safeguard, Settings};
use kringle_core::edge::{Input, Verdict};
use kringle_core::message::Body;
use kringle_core::overlay::pastry::Message;
use kringle_sim::chaos::{Invariant, Moment, SetUp, run};
use kringle_sim::world::World;

use crate::seeds;

fn set_up(ownership: Ownership) -> SetUp {
    SetUp::new(10, Duration::from_secs(60), ownership)
}

fn all_end_well(seeds: impl IntoIterator<Item = u64>, set_up: &SetUp) {
    let mut failed = Vec::new();
    for seed in seeds {
        if let Err(violation) = run(seed, set_up) {
            println!("seed {seed}: {violation}");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// `KRINGLE_SEEDS` tries others.
#[test]
fn chaos_ends_well_with_leases() {
    all_end_well(seeds(1..121), &set_up(Ownership::Lease));
}

#[test]
fn chaos_ends_well_by_hint() {
    all_end_well(seeds(1..41), &set_up(Ownership::Hint));
}

#[test]
fn chaos_ends_well_in_larger_rings() {
    let large = SetUp::new(40, Duration::from_secs(60), Ownership::Lease);
    all_end_well(seeds(1..9), &large);
}

#[test]
fn chaos_regression_seeds_stay_fixed() {
    let lines = include_str!("../../seeds/chaos.txt").lines().filter(|line| !line.starts_with('#'));
    let seeds = lines.map(|line| {
        let (seed, why) = line.split_once('#').unwrap_or_else(|| panic!("not SEED  # why: {line}"));
        assert!(!why.trim().is_empty(), "not SEED  # why: {line}");
        seed.trim().parse::<u64>().unwrap_or_else(|_| panic!("a seed is a number: {line}"))
    });
    all_end_well(seeds.collect::<Vec<_>>(), &set_up(Ownership::Lease));
}

/// The first of some ready nodes forgets a leaf: a goodbye that nobody has said.
fn forget_leaf(world: &mut World, moment: Moment, pick: fn(&[u32]) -> u32) {
    let Some((node, running)) = world.ready().next().filter(|_| moment == Moment::Look) else { return };
    let Some(pastry) = running.overlay().as_pastry() else { return };
    let right: Vec<u32> = pastry.router().leaf_set().right().map(|leaf| leaf.addr.0).collect();
    if right.is_empty() {
        return;
    }
    let from = world.contact(pick(&right));
    world.input(node, Input::Message { from, body: Body::Pastry(Message::Goodbye(Box::default())) });
}

/// A planted bug for every invariant.
fn planted() -> Vec<(Invariant, SetUp)> {
    let plain = || set_up(Ownership::Lease);
    let without = |rule| SetUp { without: Some(rule), ..plain() };
    let hasty = |sabotage| SetUp { sabotage: Some(sabotage), deadline: Duration::from_secs(60), ..plain() };
    let by_hint = |sabotage| SetUp { ownership: Ownership::Hint, ..hasty(sabotage) };
    vec![
        // Nodes remember more of what they delivered than they may.
        (
            Invariant::NodeRules,
            SetUp { limits: Some(|settings| Settings { seen: 1, ..settings }), ..plain() },
        ),
        (Invariant::OneDeliverer, without(Safeguard::ReadyNeedsLeases)),
        (Invariant::KnownHolders, without(Safeguard::AddFirst)),
        // A node starts again, and nobody tells it to join.
        (
            Invariant::Ready,
            hasty(|world, moment| {
                if moment == Moment::Look {
                    world.restart(0);
                }
            }),
        ),
        // The nearest leaf is forgotten: two nodes answer for what was its. With leases that would be caught before.
        (Invariant::OneRoot, by_hint(|world, moment| forget_leaf(world, moment, |right| right[0]))),
        // The farthest leaf is forgotten: nobody answers for anything wrong yet.
        (
            Invariant::LeafSets,
            by_hint(|world, moment| forget_leaf(world, moment, |right| right[right.len() - 1])),
        ),
        // Two ring neighbours can not talk to each other, and nobody mends it.
        (
            Invariant::NoSuspects,
            hasty(|world, moment| {
                let first = world.ready().next().map(|(node, running)| (node, running.overlay().as_pastry()));
                let Some((node, Some(pastry))) = first else { return };
                let next = pastry.router().leaf_set().right().next().map(|leaf| leaf.addr.0);
                if let (Moment::Look, Some(next)) = (moment, next) {
                    world.network.cut(next, node);
                }
            }),
        ),
        // Somebody's application swallows what it should forward.
        (
            Invariant::Lookups,
            hasty(|world, moment| {
                if moment == Moment::Asked {
                    world.on_forward(|_, _, _| Some(Verdict::Stop));
                }
            }),
        ),
    ]
}

#[test]
fn every_invariant_catches_its_planted_bug() {
    let planted = planted();
    assert_eq!(planted.iter().map(|(invariant, _)| *invariant).collect::<Vec<_>>(), Invariant::ALL);
    for (invariant, bug) in planted {
        all_end_well(1..21, &SetUp { without: None, sabotage: None, limits: None, ..bug.clone() });
        let caught =
            (1..=200).find_map(|seed| run(seed, &bug).err().filter(|found| found.invariant == invariant));
        let Some(violation) = caught else { panic!("{} is never caught", invariant.name()) };
        println!("chaos | {} | seed {}: {violation}", invariant.name(), violation.seed);
    }
}
