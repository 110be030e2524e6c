//! The store under chaos: many seeds, and a planted bug for every rule.

use std::time::Duration;

use kringle_core::config::{OverlayKind, Safeguard};
use kringle_sim::store_chaos::{SAFEGUARDS, SetUp, fault_names, run};

use crate::seeds;

/// Faults left out where a rule of views or versions is left out: without them a seed gets to the rule sooner.
const OTHER_FAULTS: &[&str] = &[
    "clock step",
    "short clock step",
    "several clock steps",
    "start with a wrong clock",
    "lost disk",
    "old disk",
    "death for good",
    "lost identity",
    "rot",
];

/// Eight nodes for a minute, with all faults.
fn set_up() -> SetUp {
    SetUp::new(8, Duration::from_secs(60))
}

/// As many nodes as the seed says.
fn drawn(seed: u64) -> SetUp {
    SetUp::drawn(seed, Duration::from_secs(60))
}

/// Seeds of clusters of so many nodes that once ended badly, and what was wrong.
/// The generator has changed since: they are good seeds like others now. What they found has tests of its own.
const KEPT: &[(u64, usize)] = &[
    // A returning node whose join failed once was never helped again (the race beside it is exact).
    (940_095, 5),
    (940_112, 5),
    // Two replicas doubted different records of one slot, and waited for each other.
    (99, 1),
    (198, 2),
    // A read waited for a dead member because another one had promised a ballot that was never used.
    (25, 3),
    (547, 3),
    // The wall clock was read when the node had its place in the ring, not when it started.
    (75, 4),
    // A node stored a write, was asked again before its disk had synced, and refused it: it was written twice.
    (529, 1),
    // A coordinator that was stopped went on with a conditional write after its deadline.
    (17, 8),
];

fn failed(runs: impl Iterator<Item = (u64, SetUp)>) -> Vec<u64> {
    let fails = |(seed, set_up): &(u64, SetUp)| {
        run(*seed, set_up).inspect_err(|violation| println!("{violation}")).is_err()
    };
    runs.filter(fails).map(|(seed, _)| seed).collect()
}

#[test]
fn faults_that_are_left_out_exist() {
    let names = fault_names();
    assert!(OTHER_FAULTS.iter().all(|name| names.contains(name)), "{names:?}");
}

/// `KRINGLE_SEEDS` tries others.
#[test]
fn store_chaos_ends_well() {
    let eight = seeds(1..31).map(|seed| (seed, set_up()));
    let kept = KEPT
        .iter()
        .filter(|_| std::env::var_os("KRINGLE_SEEDS").is_none())
        .map(|(seed, nodes)| (*seed, SetUp::new(*nodes, Duration::from_secs(60))));
    let failed = failed(eight.chain(seeds(1..61).map(|seed| (seed, drawn(seed)))).chain(kept));
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// The same store over Chord.
#[test]
fn store_chaos_over_chord_ends_well() {
    let chord = |seed| SetUp { overlay: OverlayKind::Chord, ..drawn(seed) };
    // The only other replica had a new disk; its word was not waited for, and an old copy of a disk served.
    let disks = SetUp { overlay: OverlayKind::Chord, ..SetUp::new(3, Duration::from_secs(90)) };
    // Several nodes left at a time, and members far from a slot waited for the one that answers for it, which left, too.
    let leaving = SetUp { overlay: OverlayKind::Chord, ..SetUp::new(12, Duration::from_secs(600)) };
    let kept = [(70_002, disks), (9_000_162, leaving)];
    let failed = failed(seeds(1..31).map(|seed| (seed, chord(seed))).chain(kept));
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// Finds a seed that ends badly without a rule, and well with it.
fn is_missed(rule: Safeguard, set_up: &SetUp) {
    let bug = SetUp { without: Some(rule), ..set_up.clone() };
    let missed = |seed| run(seed, &bug).err().filter(|_| run(seed, set_up).is_ok());
    let Some(violation) = (1..=800).find_map(missed) else { panic!("no seed misses {}", rule.name()) };
    println!("store | {} | seed {}: {violation}", rule.name(), violation.seed);
}

fn with_few_faults() -> SetUp {
    SetUp { leave_out: OTHER_FAULTS.to_vec(), late: None, ..set_up() }
}

#[test]
fn every_rule_of_the_store_is_missed_when_it_is_left_out() {
    let special = [Safeguard::Born, Safeguard::ClusterTime, Safeguard::SyncFirst];
    let rules = SAFEGUARDS.iter().filter(|rule| !special.contains(rule));
    rules.for_each(|rule| is_missed(*rule, &with_few_faults()));
}

/// Only lost disks need this one.
#[test]
fn born_is_missed_when_it_is_left_out() {
    let mut disks = with_few_faults();
    disks.leave_out.retain(|name| !matches!(*name, "lost disk" | "old disk"));
    assert!(SAFEGUARDS.contains(&Safeguard::Born));
    is_missed(Safeguard::Born, &disks);
}

/// Only a power cut shows it, in the moment between an acknowledgement and the syncs of the disks: so no other faults than
/// these and slow disks, and few nodes, so that all of them get slow.
#[test]
fn sync_first_is_missed_when_it_is_left_out() {
    let leave_out = fault_names().into_iter().filter(|name| !matches!(*name, "power cut" | "slow disk"));
    let three = SetUp::new(3, Duration::from_secs(60));
    let cuts = SetUp { leave_out: leave_out.collect(), late: None, ..three };
    assert!(SAFEGUARDS.contains(&Safeguard::SyncFirst));
    is_missed(Safeguard::SyncFirst, &cuts);
}

/// Only clocks that step need this one.
#[test]
fn cluster_time_is_missed_when_it_is_left_out() {
    assert!(SAFEGUARDS.contains(&Safeguard::ClusterTime));
    is_missed(Safeguard::ClusterTime, &set_up());
}
