//! Chord's ring: every world holds, no world is idle, and every rule is missed when it is left out.

use std::sync::atomic::AtomicBool;

use kringle_check::chord::forming::{GROUPS, TOO_EARLY, TOO_LONG, search_group};
use kringle_check::chord::suite::{GATE, RUNS, gate, run};
use kringle_check::chord::{Limits, STILL, World, search};
use kringle_core::config::Safeguard;

/// States per world: how far a search gets is decided by them, never by the clock.
const STATES: usize = 60_000;

fn look(world: World, states: usize) -> kringle_check::chord::Found {
    let limits = Limits { states, ..Limits::default() };
    search(world, limits, &AtomicBool::new(false), |_| {}).expect("the world makes sense")
}

#[test]
fn every_world_holds() {
    let found = run(STATES, &AtomicBool::new(false), |_| {}).unwrap();
    assert_eq!(found.len(), RUNS.len());
    for (found, run) in found.iter().zip(RUNS) {
        assert!(found.broken.is_none(), "{}: {:#?}", run.name, found.broken);
        assert!(found.states > 100, "{}: {} states", run.name, found.states);
    }
    // What no world shows, nobody has checked.
    let missing = |what: &&str| found.iter().all(|found| found.unseen.contains(what));
    let never: Vec<&str> = found[0].unseen.iter().copied().filter(|what| missing(what)).collect();
    assert!(never.is_empty(), "{never:?}");
}

#[test]
fn every_rule_is_missed() {
    let found = gate(&AtomicBool::new(false), |_| {}).unwrap();
    for (found, rule) in found.iter().zip(GATE) {
        let broken = found.broken.as_ref();
        let steps = broken.map(|broken| broken.schedule.len());
        println!(
            "{:16} {:?} steps, {} states: {:?}",
            rule.rule.name(),
            steps,
            found.states,
            broken.map(|b| b.property)
        );
        assert!(broken.is_some(), "nobody misses {}", rule.rule.name());
    }
}

/// If this fails, the rule is missed in states after all, and the gate can say so.
#[test]
fn what_later_rounds_heal_is_seen_in_steps_only() {
    for rule in GATE.iter().filter(|rule| rule.by_step) {
        let limits = Limits { states: usize::MAX, judge_steps: false, ..Limits::default() };
        let found = search(rule.world, limits, &AtomicBool::new(false), |_| {}).unwrap();
        assert!(found.complete, "without {}: {:#?}", rule.rule.name(), found.broken);
    }
}

#[test]
fn a_small_world_is_seen_to_the_end_and_always_the_same() {
    let (once, again) = (look(STILL, usize::MAX), look(World { codec: true, ..STILL }, usize::MAX));
    assert!(once.complete && again.complete);
    assert_eq!((once.states, once.depth, once.steps), (again.states, again.depth, again.steps));
}

#[test]
fn a_turned_ring_is_the_same_ring() {
    // Four ids instead of three: nothing to turn, one place that stays free. Every state is met in each of its turns.
    let (turned, plain) = (look(STILL, usize::MAX), look(World { ids: 4, ..STILL }, usize::MAX));
    assert!(plain.states > 2 * turned.states && plain.states <= 3 * turned.states, "{plain:?}");
    assert_eq!(turned.depth, plain.depth);
}

#[test]
fn a_schedule_is_the_shortest_and_says_what_happens() {
    let found = look(World { without: Some(Safeguard::GiveUp), ..STILL }, usize::MAX);
    let broken = found.broken.expect("three nodes wait for each other");
    assert_eq!(broken.property, "nobody waits in a circle once everything has arrived");
    assert_eq!(broken.schedule.len(), 9, "{broken:#?}");
    assert!(broken.schedule[0].starts_with("0 stabilizes"), "{broken:#?}");
    assert!(broken.nodes.iter().all(|node| node.contains("wait")), "{broken:#?}");
}

#[test]
fn worlds_that_make_no_sense_are_refused() {
    for world in [
        World { founders: 2, ..STILL },
        World { successors: 1, ..STILL },
        World { joins: 1, ..STILL },
        World { ids: 13, ..STILL },
        World { restarts: 1, ..STILL },
        World { atomic: true, false_timeouts: 1, ..STILL },
        World { losses: 16, ..STILL },
    ] {
        assert!(world.check().is_err(), "{world}");
    }
}

#[test]
fn a_group_grows_into_one_ring_and_a_ring_shrinks_to_one_group() {
    let (mut begins, mut ends) = (false, false);
    for (name, group, states) in GROUPS {
        let found = search_group(group, states.min(STATES), &AtomicBool::new(false));
        assert!(found.broken.is_none(), "{name}: {:#?}", found.broken);
        begins |= found.begins;
        ends |= found.ends;
    }
    assert!(begins, "no group was large enough for a ring");
    assert!(ends, "no ring was small enough to end");
    let early = search_group(TOO_EARLY, usize::MAX, &AtomicBool::new(false));
    let (property, schedule) = early.broken.expect("a ring of two is too small");
    assert_eq!((property, schedule.len()), ("a ring begins with more members than a list has entries", 4));
    let long = search_group(TOO_LONG, usize::MAX, &AtomicBool::new(false));
    let (property, schedule) = long.broken.expect("a ring of three has lists of all");
    let back = "left in peace, a ring of r + 1 members or fewer ends for all of them";
    assert_eq!((property, schedule.len()), (back, 1));
}
