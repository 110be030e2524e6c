//! A perfect store passes, and every planted bug is found: of the stand-in, since these are tests of the test.

use super::*;
use crate::store_load::fake::{Bug, PerfectStore};

fn no_store(node: Node, _: u32, _: &dyn Records, _: &Config) -> Node {
    node
}

fn set_up() -> SetUp {
    SetUp { make: no_store, ..SetUp::new(8, Duration::from_secs(60)) }
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
        assert!(summary.order.keys >= 15 && summary.sets > 0, "{summary:?}");
    }
    // What nobody stores cannot rot.
    let missing: Vec<&str> =
        fault_names().into_iter().filter(|name| !faults.contains_key(name) && *name != "rot").collect();
    assert!(missing.is_empty(), "{missing:?} are never drawn: {faults:?}");
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
            Bug::OutlivesTtl | Bug::UndoesDeletes | Bug::CutsTtl | Bug::ActsLate => {
                &[Invariant::Order, Invariant::Sets]
            }
            Bug::TrustsClocks => &[Invariant::Order, Invariant::Sets, Invariant::Ledger],
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
fn clusters_of_every_size_are_drawn_and_end_well() {
    let sizes: BTreeSet<usize> = (1..200).map(|seed| SetUp::drawn(seed, Duration::ZERO).nodes).collect();
    for seed in 1..60 {
        let set_up = SetUp { make: no_store, ..SetUp::drawn(seed, Duration::from_secs(10)) };
        let summary = fake(seed, None, &set_up).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(summary.nodes >= set_up.nodes.min(2), "{summary:?}");
    }
    assert_eq!(sizes, (1..=NODES_MAX).collect());
}

#[test]
fn faults_that_are_left_out_are_not_drawn() {
    let set_up = SetUp { leave_out: vec!["power cut", "lost disk"], ..set_up() };
    for seed in 1..5 {
        let summary = fake(seed, None, &set_up).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(!summary.faults.contains_key("power cut") && !summary.faults.contains_key("lost disk"));
    }
}

#[test]
fn a_key_whose_order_cannot_be_told_is_a_failure() {
    let mut load = Load::new(1, LoadSetUp::default());
    let mut calm = World::new(Settings::demo(), 1);
    calm.grow(1);
    load.run(&mut calm, &mut PerfectStore::new(1, None), Duration::from_secs(5));
    let rules = Rules { budget: 3, ..set_up().rules() };
    let (invariant, problem) =
        judge(load.history(), &rules, &mut Summary::default()).expect_err("three steps are too few");
    assert!(invariant == Invariant::Decided && problem.contains("no order found"), "{problem}");
}

#[test]
fn a_hunt_tells_only_what_went_wrong() {
    let seeds = 1..=4;
    let mut told = Vec::new();
    let set_up = |seed| SetUp {
        make: no_store,
        deadline: Duration::from_secs(1),
        // Nodes without a store answer nothing.
        ..SetUp::drawn(seed, Duration::from_secs(1))
    };
    let hunted = hunt::hunt(seeds, 2, &set_up, &|| true, &mut |violation| told.push(violation.seed));
    told.sort_unstable();
    assert_eq!((hunted.runs, hunted.failed, told), (4, 4, vec![1, 2, 3, 4]));
}
