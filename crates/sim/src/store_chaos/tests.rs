//! A perfect store passes, and every planted bug is found: of the stand-in, since these are tests of the test.

use super::*;
use crate::store_load::fake::{Bug, PerfectStore};

fn no_store(node: Node, _: u32, _: &dyn Records, _: &Config) -> Node {
    node
}

fn set_up() -> SetUp {
    SetUp { make: no_store, ..SetUp::new(8, Duration::from_secs(40)) }
}

fn fake(seed: u64, bug: Option<Bug>, set_up: &SetUp) -> Result<Summary, Violation> {
    world(seed, set_up, &mut PerfectStore::new(seed, bug), &mut |_| true).1
}

#[test]
fn a_perfect_store_passes_and_a_run_tells_what_it_did() {
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 1..13 {
        let summary = fake(seed, None, &set_up()).unwrap_or_else(|violation| panic!("{violation}"));
        summary.faults.iter().for_each(|(name, count)| *faults.entry(name).or_default() += count);
        assert!(summary.operations["ok"] > 300 && summary.keys >= 18, "{summary:?}");
        assert!(summary.order.undecided == 0 && summary.order.keys >= 15 && summary.sets > 0, "{summary:?}");
    }
    // What nobody stores can not rot.
    assert_eq!(faults.len(), 20, "{faults:?}");
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let summary = |seed| fake(seed, None, &set_up()).unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(summary(1), summary(1));
    assert_ne!(summary(1).trace, summary(2).trace);
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Bug::ALL {
        let expected: &[Invariant] = match bug {
            Bug::LosesWrites | Bug::ReadsStale => &[Invariant::Order, Invariant::Ledger],
            Bug::IgnoresConditions | Bug::Miscounts => &[Invariant::Order],
            Bug::LosesAdds | Bug::KeepsRemoved => &[Invariant::Sets],
            Bug::Lies => &[Invariant::Order, Invariant::Ledger, Invariant::Sets],
            Bug::OutlivesTtl | Bug::UndoesDeletes => &[Invariant::Order, Invariant::Sets],
            Bug::IsMute => &[Invariant::Answers],
            Bug::GivesUp => &[Invariant::Alive],
        };
        let found = (1..20).find_map(|seed| fake(seed, Some(bug), &set_up()).err());
        let Some(violation) = found else { panic!("{bug:?} is never found") };
        println!("{bug:?}: {violation}\n");
        assert!(expected.contains(&violation.invariant), "{bug:?}: {violation}");
    }
}

#[test]
fn a_ring_that_stays_apart_is_found() {
    let set_up = SetUp { ring_deadline: Duration::ZERO, ..set_up() };
    let found = (1..30).find_map(|seed| fake(seed, None, &set_up).err()).expect("nobody is ready at once");
    assert_eq!((found.invariant, found.phase), (Invariant::Ready, Phase::Liveness));
    let command = "kringle sim run store-chaos --seed";
    assert!(found.to_string().contains(command), "{found}");
}

#[test]
fn nodes_without_a_store_are_found() {
    let violation = run(1, &SetUp { deadline: Duration::from_secs(3), ..set_up() }).expect_err("no store");
    assert_eq!(violation.invariant, Invariant::Alive);
    assert!(violation.description.contains("keys can not be read"), "{violation}");
}

#[test]
fn no_more_disks_are_lost_than_may_be() {
    for seed in 1..13 {
        let (world, _) = world(seed, &set_up(), &mut PerfectStore::new(seed, None), &mut |_| true);
        assert!(world.len() - world.running().count() <= set_up().losses_max, "seed {seed}");
    }
}
