//! The store under chaos: many seeds, and a planted bug for every rule.

use std::time::Duration;

use kringle_core::config::{OverlayKind, Safeguard};
use kringle_sim::store_chaos::{SAFEGUARDS, SetUp, fault_names, run};

use crate::seeds;

/// Faults that the store is promised to survive and does not yet (issue 14). A name leaves this list with the fix that
/// ends its failures; `kringle sim hunt` draws all of them.
const PENDING: &[&str] = &[
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

/// Also pending: a coordinator that was stopped goes on with conditional writes long after their deadline (seed 17 with
/// eight nodes), so what is overdue is not judged.
fn with_pending_left_out(set_up: SetUp) -> SetUp {
    SetUp { leave_out: PENDING.to_vec(), late: None, ..set_up }
}

/// Eight nodes for a minute.
fn set_up() -> SetUp {
    with_pending_left_out(SetUp::new(8, Duration::from_secs(60)))
}

/// As many nodes as the seed says.
fn drawn(seed: u64) -> SetUp {
    with_pending_left_out(SetUp::drawn(seed, Duration::from_secs(60)))
}

fn failed(runs: impl Iterator<Item = (u64, SetUp)>) -> Vec<u64> {
    let fails = |(seed, set_up): &(u64, SetUp)| {
        run(*seed, set_up).inspect_err(|violation| println!("{violation}")).is_err()
    };
    runs.filter(fails).map(|(seed, _)| seed).collect()
}

#[test]
fn pending_faults_exist() {
    let names = fault_names();
    assert!(PENDING.iter().all(|name| names.contains(name)), "{names:?}");
}

/// `KRINGLE_SEEDS` tries others.
#[test]
fn store_chaos_ends_well() {
    let eight = seeds(1..31).map(|seed| (seed, set_up()));
    // All members came back at once, each failed to join once, and none helped another again.
    let joining = [(940_095, 429), (940_112, 595)]
        .into_iter()
        .filter(|_| std::env::var_os("KRINGLE_SEEDS").is_none())
        .map(|(seed, span)| (seed, with_pending_left_out(SetUp::new(5, Duration::from_secs(span)))));
    let failed = failed(eight.chain(seeds(1..31).map(|seed| (seed, drawn(seed)))).chain(joining));
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// The same store over Chord.
#[test]
fn store_chaos_over_chord_ends_well() {
    let chord = |seed| SetUp { overlay: OverlayKind::Chord, ..drawn(seed) };
    let failed = failed(seeds(1..31).map(|seed| (seed, chord(seed))));
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// Finds a seed that ends badly without a rule, and well with it.
fn is_missed(rule: Safeguard, set_up: &SetUp) {
    let bug = SetUp { without: Some(rule), ..set_up.clone() };
    let missed = |seed| run(seed, &bug).err().filter(|_| run(seed, set_up).is_ok());
    let Some(violation) = (1..=800).find_map(missed) else { panic!("no seed misses {}", rule.name()) };
    println!("store | {} | seed {}: {violation}", rule.name(), violation.seed);
}

#[test]
fn every_rule_of_the_store_is_missed_when_it_is_left_out() {
    SAFEGUARDS.iter().filter(|rule| **rule != Safeguard::Born).for_each(|rule| is_missed(*rule, &set_up()));
}

/// Only lost disks need this one.
#[test]
fn born_is_missed_when_it_is_left_out() {
    let mut disks = set_up();
    disks.leave_out.retain(|name| !matches!(*name, "lost disk" | "old disk"));
    assert!(SAFEGUARDS.contains(&Safeguard::Born));
    is_missed(Safeguard::Born, &disks);
}
