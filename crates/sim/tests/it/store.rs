//! The store under chaos: many seeds, and a planted bug for every rule.

use std::time::Duration;

use kringle_core::config::OverlayKind;
use kringle_sim::store_chaos::{SAFEGUARDS, SetUp, run};

use crate::seeds;

fn set_up() -> SetUp {
    SetUp::new(8, Duration::from_secs(60))
}

/// `KRINGLE_SEEDS` tries others.
#[test]
fn store_chaos_ends_well() {
    // There is no store before it has rules.
    if SAFEGUARDS.is_empty() {
        return;
    }
    // Seeds that once found something come after the first ones.
    let known = [90, 201, 283, 375, 400, 561, 610]
        .into_iter()
        .filter(|_| std::env::var_os("KRINGLE_SEEDS").is_none());
    let failed: Vec<u64> = seeds(1..61)
        .chain(known)
        .filter(|seed| run(*seed, &set_up()).inspect_err(|violation| println!("{violation}")).is_err())
        .collect();
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// The same store over Chord.
#[test]
fn store_chaos_over_chord_ends_well() {
    let set_up = SetUp { overlay: OverlayKind::Chord, ..set_up() };
    // Seeds that once found something, in runs of the command's length.
    let long = SetUp { duration: Duration::from_secs(120), ..set_up.clone() };
    let known = [231, 315, 528, 592, 644, 711, 754]
        .into_iter()
        .filter(|_| std::env::var_os("KRINGLE_SEEDS").is_none());
    let runs = seeds(1..11).map(|seed| (seed, &set_up)).chain(known.map(|seed| (seed, &long)));
    let failed: Vec<u64> = runs
        .filter(|(seed, set_up)| run(*seed, set_up).inspect_err(|violation| println!("{violation}")).is_err())
        .map(|(seed, _)| seed)
        .collect();
    assert!(failed.is_empty(), "seeds {failed:?}");
}

#[test]
fn every_rule_of_the_store_is_missed_when_it_is_left_out() {
    for rule in SAFEGUARDS {
        let bug = SetUp { without: Some(*rule), ..set_up() };
        let Some(violation) = (1..=800).find_map(|seed| run(seed, &bug).err()) else {
            panic!("nobody misses {}", rule.name())
        };
        println!("store | {} | seed {}: {violation}", rule.name(), violation.seed);
    }
}
