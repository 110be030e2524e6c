//! Clients of a perfect store find nothing wrong; clients of a broken one do.

use kringle_core::config::{Ownership, Settings};

use super::fake::{Bug, PerfectStore};
use super::*;
use crate::history::{Finding, Rules, ledger, monotone, register, set};

fn world(seed: u64) -> World {
    let settings = Settings { ownership: Ownership::Hint, ..Settings::demo() };
    let mut world = World::new(settings, seed);
    world.check = false;
    world.grow(4);
    world
}

/// Lets clients work for a minute and looks at what they saw.
fn load(seed: u64, bug: Option<Bug>) -> (Load, World, PerfectStore, Result<(), Finding>) {
    let mut world = world(seed);
    let mut desk = PerfectStore::new(seed, bug);
    let mut load = Load::new(seed, LoadSetUp::default());
    load.run(&mut world, &mut desk, Duration::from_secs(60));
    let found = check(load.history());
    (load, world, desk, found)
}

fn check(history: &[Operation]) -> Result<(), Finding> {
    let rules = Rules { late: Some(Duration::from_secs(5)), ..Rules::default() };
    let looked = register::check(history, &rules)?;
    assert!(looked.undecided.is_empty());
    set::check(history, &rules)?;
    monotone::check(history)?;
    ledger::check(history, &rules)?;
    Ok(())
}

#[test]
fn a_perfect_store_is_found_perfect() {
    for seed in 0..8 {
        let (mut load, mut world, mut desk, found) = load(seed, None);
        found.unwrap_or_else(|finding| panic!("seed {seed}: {finding}"));
        assert!(load.history().len() > 1500 && load.keys() > 18 && load.ignored().is_empty());
        for sweep in [Sweep::Read, Sweep::Write, Sweep::Read] {
            load.sweep(&mut world, &mut desk, sweep, Duration::from_secs(60)).expect("every key is there");
        }
        check(load.history()).unwrap_or_else(|finding| panic!("seed {seed}: {finding}"));
        let ledger = ledger::check(load.history(), &Rules::default()).expect("nothing is lost");
        assert!(ledger.acked > 100 && ledger.unknown_present + ledger.unknown_absent > 5, "{ledger:?}");
    }
}

#[test]
fn every_sort_of_question_is_asked_and_answered() {
    let (load, ..) = load(1, None);
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for operation in load.history() {
        let what = match (&operation.action, &operation.outcome) {
            (_, Outcome::ConditionFailed(_)) => "refused",
            (_, Outcome::Failed(_)) => "failed",
            (Action::Read, Outcome::Value(None)) => "nothing",
            (Action::Read, _) => "read",
            (Action::Write { condition: Condition::Version(_), .. }, _) => "cas",
            (Action::Write { ttl: Some(_), .. }, _) => "write with a time to live",
            (Action::Write { .. }, _) => "write",
            (Action::Delete { .. }, _) => "delete",
            (Action::Increment(_), _) => "increment",
            (Action::Expire(_), _) => "expire",
            (Action::Add { .. }, _) => "add",
            (Action::Remove { .. }, _) => "remove",
            (Action::Members, _) => "members",
        };
        *seen.entry(what).or_default() += 1;
    }
    assert!(seen.len() == 13 && seen.values().all(|count| *count > 5), "{seen:?}");
}

#[test]
fn the_same_seed_asks_the_same() {
    assert_eq!(load(3, None).0.history(), load(3, None).0.history());
    assert_ne!(load(3, None).0.history(), load(4, None).0.history());
}

#[test]
fn every_planted_bug_is_found_by_its_checker() {
    for bug in Bug::ALL {
        let expected: &[&str] = match bug {
            Bug::LosesWrites | Bug::ReadsStale | Bug::IgnoresConditions => &["register"],
            Bug::UndoesDeletes | Bug::Miscounts => &["register"],
            Bug::LosesAdds | Bug::KeepsRemoved => &["set"],
            Bug::Lies | Bug::OutlivesTtl | Bug::CutsTtl | Bug::ActsLate => &["register", "set"],
            // Here all clocks are right.
            Bug::IsMute | Bug::GivesUp | Bug::TrustsClocks => continue,
        };
        let found: Vec<Finding> = (0..6).filter_map(|seed| load(seed, Some(bug)).3.err()).collect();
        assert!(found.len() >= 2, "{bug:?} is found in a minute or two");
        for finding in found {
            println!("{bug:?}: {finding}\n");
            assert!(expected.contains(&finding.checker), "{bug:?}: {finding}");
        }
    }
}

#[test]
fn silence_of_a_running_node_is_noticed() {
    let (load, ..) = load(1, Some(Bug::IsMute));
    assert!(!load.ignored().is_empty());
}

#[test]
fn a_key_that_can_not_be_reached_is_named() {
    let (mut load, mut world, mut desk, _) = load(1, Some(Bug::GivesUp));
    let problem = load.sweep(&mut world, &mut desk, Sweep::Read, Duration::from_secs(10)).expect_err("v0");
    assert!(problem.contains("1 of") && problem.contains("key v0: "), "{problem}");
}

#[test]
fn nodes_without_a_store_say_that_nothing_happened() {
    let mut world = world(1);
    let mut load = Load::new(1, LoadSetUp::default());
    load.run(&mut world, &mut OwnStore, Duration::from_secs(5));
    let refused = |operation: &Operation| {
        operation.outcome == Outcome::Failed(crate::history::Happened::No) || operation.completed.is_none()
    };
    assert!(load.history().len() > 50 && load.history().iter().all(refused));
}
