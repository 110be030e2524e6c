//! The store's rules: they hold in every world, every one of them is missed when it is left out, and what was missing
//! when they were first written down is found.

use std::time::Duration;

use kringle_check::explore::{Bounds, Search};
use kringle_check::search::Found;
use kringle_check::store_rules::plan::{PLANS, Plan, Proposal};
use kringle_check::store_rules::{Left, search};

/// How far a search gets is decided by its states, never by the clock, and one thread always takes the same way.
fn look(world: &str, left: &'static [Left], how: Search, states: usize) -> Found {
    let plan = Plan::named(world).expect("there is such a world").without(left);
    search(plan, how, Bounds { states, time: Duration::from_secs(600), threads: 1 })
}

/// Worlds small enough to be seen to the end.
const SMALL: &[&str] = &[
    "cas-after-write",
    "rivals",
    "remove-then-add",
    "replace-dead",
    "replace-rivals",
    "sync",
    "behind-a-promise",
];

#[test]
fn the_rules_hold_and_no_world_is_idle() {
    for plan in PLANS {
        let small = SMALL.contains(&plan.name);
        let deep = look(plan.name, &[], Search::Depth, if small { 1_000_000 } else { 40_000 });
        assert_eq!(deep.broken, None, "{}", plan.name);
        assert_eq!(deep.complete, small, "{}: {} states", plan.name, deep.states);
        if small {
            assert!(deep.missing.is_empty(), "{}: {:?}", plan.name, deep.missing);
            continue;
        }
        let far = look(plan.name, &[], Search::Walks(1), 80_000);
        assert_eq!(far.broken, None, "{}", plan.name);
        let never: Vec<_> = far.missing.iter().filter(|name| deep.missing.contains(name)).collect();
        assert!(never.is_empty(), "{}: {never:?}", plan.name);
    }
}

/// A rule, the world that misses it, and what is broken there.
type Missed = (&'static [Left], &'static str, Search, &'static str);

const EXPLAINED: &str = "the history can be explained";
const KNOWN: &str = "every quorum knows what was acknowledged";
const HELD: &str = "somebody holds the decided state";

const MISSED: &[Missed] = &[
    (&[Left::Freeze], "remove-then-add", Search::Breadth, KNOWN),
    (&[Left::Merge], "remove-then-add", Search::Breadth, KNOWN),
    (&[Left::PromiseBindsPlain], "cas-after-write", Search::Breadth, EXPLAINED),
    (&[Left::CasStartsOver], "same-two-cas", Search::Walks(1), EXPLAINED),
    (&[Left::SyncFirst], "sync", Search::Breadth, EXPLAINED),
    (&[Left::WriteBack], "remove-plain-read", Search::Breadth, EXPLAINED),
    (&[Left::Born], "reborn", Search::Breadth, KNOWN),
    (&[Left::CaughtUp], "remove-then-add", Search::Breadth, KNOWN),
    (&[Left::ReadStartsOver], "read-over-change", Search::Walks(9), EXPLAINED),
    (&[Left::KeepVersion], "cas-after-write", Search::Breadth, EXPLAINED),
    (&[Left::AcceptPromises], "rivals", Search::Breadth, "one view per epoch"),
    (&[Left::StateWithAccept], "one-holder", Search::Breadth, HELD),
    (&[Left::OneStep], "four-ballots", Search::Breadth, "who accepted a view holds its state"),
    (&[Left::NumbersLast], "crashed-coordinator", Search::Walks(1), EXPLAINED),
    (&[Left::LateState], "slow-state", Search::Walks(1), EXPLAINED),
];

#[test]
fn every_rule_is_missed() {
    for (left, world, how, property) in MISSED {
        let found = look(world, left, *how, 3_000_000);
        let broken = found.broken.map(|(broken, _)| broken);
        assert_eq!(broken, Some(*property), "{left:?} in {world} after {} states", found.states);
    }
    // This one costs no safety: what was asked never comes back.
    let found = look("behind-a-promise", &[Left::ReadPrepares], Search::Breadth, 10_000);
    assert!(found.complete && found.missing == ["a read returns"], "{found:?}");
    let missed = |left: &Left| MISSED.iter().any(|row| row.0 == [*left]) || *left == Left::ReadPrepares;
    assert!(Left::ALL.iter().all(missed));
}

#[test]
fn the_rules_as_first_written_have_holes() {
    for (world, how, property) in [
        ("cas-after-write", Search::Breadth, EXPLAINED),
        ("rivals", Search::Breadth, "one view per epoch"),
        ("one-holder", Search::Breadth, HELD),
    ] {
        let found = look(world, Left::AS_WRITTEN, how, 3_000_000);
        let broken = found.broken.map(|(broken, _)| broken);
        assert_eq!(broken, Some(property), "{world} after {} states", found.states);
    }
}

#[test]
fn two_members_may_change_at_once() {
    // The rule that a view differs by one member at most is not needed for safety: a quorum of the old view is frozen
    // and decides the state all of the new view starts from, so quorums of the two need not meet.
    let found = look("replace-at-once", &[], Search::Depth, 2_000_000);
    assert!(found.complete && found.broken.is_none() && found.missing.is_empty(), "{found:?}");
}

#[test]
fn a_dead_member_is_replaced_in_one_ballot() {
    for world in ["replace-dead", "replace-rivals"] {
        let found = look(world, &[], Search::Depth, 8_000_000);
        assert!(found.complete && found.broken.is_none() && found.missing.is_empty(), "{found:?}");
    }
    // Node 2 is dead and node 3 has come. In one ballot, the view can change again while node 1 is away too. Had node 3 been
    // added first, four members would need three: nothing can be decided any more.
    let base =
        Plan { changes: &[CHANGE], ops: &[], ..Plan::named("replace-dead").expect("there is such a world") };
    let one_ballot = Plan { members: 0b1011, deaf: 0b0010, ..base };
    let add_first = Plan { members: 0b1111, deaf: 0b0110, ..base };
    for (plan, missing) in [(one_ballot, &[][..]), (add_first, &["a change of the view completes"])] {
        let bounds = Bounds { states: 1_000_000, time: Duration::from_secs(600), threads: 1 };
        let found = search(plan, Search::Breadth, bounds);
        assert!(found.complete && found.broken.is_none() && found.missing == missing, "{found:?}");
    }
}

const CHANGE: Proposal = Proposal { by: 0, epoch: 0, members: 0b1011 };
