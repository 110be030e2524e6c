//! The rules of the store that were added later: they hold in every world, and every one is missed when it is left out.

use std::time::Duration;

use kringle_check::explore::{Bounds, Search};
use kringle_check::search::{Found, search};

fn bounds(states: usize) -> Bounds {
    Bounds { states, time: Duration::from_secs(600), threads: 1 }
}

const ONE_VIEW: &str = "one view per epoch";
const KNOWN: &str = "every quorum knows what was acknowledged";

mod lost_disks {
    use super::*;
    use kringle_check::rules::lost_disks::{Left, PLANS, Plan, World};

    fn look(plan: Plan) -> Found {
        search(&World(plan), Search::Breadth, bounds(8_000_000))
    }

    #[test]
    fn survivors_of_lost_disks_decide_safely() {
        for plan in PLANS {
            let found = look(*plan);
            assert!(found.is_good(), "{}: {found:?}", plan.name);
        }
    }

    #[test]
    fn every_rule_about_lost_disks_is_missed() {
        for (left, world, property) in [
            (&[Left::Enough][..], "three", KNOWN),
            (&[Left::CaughtUp], "two-behind", KNOWN),
            (&[Left::EveryOther], "two", ONE_VIEW),
            (&[Left::AskedNow], "two-again", ONE_VIEW),
            (&[Left::DiskNumber], "three", KNOWN),
        ] {
            let found = look(Plan::named(world).expect("there is such a world").without(left));
            assert_eq!(found.broken.map(|broken| broken.0), Some(property), "{left:?} in {world}");
        }
        // This one costs no safety: the survivor of two decides nothing any more.
        let found =
            look(Plan::named("two-behind").expect("there is such a world").without(&[Left::Survivors]));
        assert!(found.complete && found.missing.contains(&"a view is decided"), "{found:?}");
    }

    #[test]
    fn lives_that_are_remembered_in_memory_only_are_not_enough() {
        let plan = Plan { remembers: true, ..Plan::named("two-again").expect("there is such a world") };
        let found = look(plan.without(&[Left::AskedNow]));
        assert_eq!(found.broken.map(|broken| broken.0), Some(ONE_VIEW));
        // Without a restart they are.
        let found = look(Plan { crashes: 0, ..plan }.without(&[Left::AskedNow]));
        assert!(found.complete && found.broken.is_none(), "{found:?}");
    }
}

mod versions {
    use super::*;
    use kringle_check::rules::versions::{Left, PLANS, Plan, World};

    fn look(world: &str, left: &'static [Left]) -> Found {
        let plan = Plan::named(world).expect("there is such a world").without(left);
        search(&World(plan), Search::Breadth, bounds(8_000_000))
    }

    const REPLACED: &str = "a write never replaces a later one";
    const STOPPED: &str = "writes never stop";

    #[test]
    fn a_wrong_clock_undoes_no_later_write_and_stops_none() {
        for plan in PLANS {
            let found = look(plan.name, &[]);
            assert!(found.is_good(), "{}: {found:?}", plan.name);
        }
    }

    #[test]
    fn every_rule_about_versions_is_missed() {
        for (left, world, property) in [
            (&[Left::StoresSecond][..], "error", REPLACED),
            (&[Left::UpperBound], "error", REPLACED),
            (&[Left::MessagesEnd], "error", REPLACED),
            (&[Left::RaisesWithoutLimit], "error", STOPPED),
            (&[Left::LowerBound], "offset-far", REPLACED),
        ] {
            let found = look(world, left);
            assert_eq!(found.broken.map(|broken| broken.0), Some(property), "{left:?} in {world}");
        }
    }

    #[test]
    fn a_hybrid_clock_far_ahead_keeps_no_promise() {
        // It stands still until time has come up to it: versions say nothing about time, whatever the bounds are.
        let found = look("far-everywhere", &[]);
        assert_eq!(found.broken.map(|broken| broken.0), Some(REPLACED));
        // And where it is shared among slots, other members refuse all that its node writes.
        let found = look("far-somewhere", &[]);
        assert_eq!(found.broken.map(|broken| broken.0), Some(STOPPED));
    }
}

mod acknowledging {
    use super::*;
    use kringle_check::rules::acknowledging::{Left, World};

    fn look(left: &'static [Left]) -> Found {
        search(&World { left, deaths: 1 }, Search::Breadth, bounds(1_000_000))
    }

    #[test]
    fn an_acknowledgement_means_copies() {
        let found = look(&[]);
        assert!(found.is_good(), "{found:?}");
        // A view with that many members has quorums that are large enough.
        let found = look(&[Left::QuorumOfCopies]);
        assert!(found.is_good(), "{found:?}");
    }

    #[test]
    fn every_rule_about_acknowledgements_is_missed() {
        for (left, property) in [
            (&[Left::ViewIsLarge][..], "what a coordinator of three acknowledged is readable without one"),
            (
                &[Left::ViewIsLarge, Left::QuorumOfCopies],
                "what a coordinator of two acknowledged survives one disk",
            ),
        ] {
            let found = look(left);
            assert_eq!(found.broken.map(|broken| broken.0), Some(property), "{left:?}");
        }
    }
}

mod recovering {
    use super::*;
    use kringle_check::rules::recovering::{Left, WORLDS, World};

    fn look(world: World) -> Found {
        search(&world, Search::Breadth, bounds(8_000_000))
    }

    #[test]
    fn a_recovered_lineage_is_the_only_one_that_is_served() {
        for world in WORLDS {
            let found = look(*world);
            assert!(found.is_good(), "{}: {found:?}", world.name);
        }
    }

    #[test]
    fn every_rule_about_recovery_is_missed() {
        for (left, world, property) in [
            (&[Left::FreezeFirst][..], "one-left", "what survivors had of acknowledged writes is kept"),
            (&[Left::EverySurvivor], "two-left", "what survivors had of acknowledged writes is kept"),
            (&[Left::RefusesLower], "majority-returns", "a lineage serves only what is its own"),
            (&[Left::SetAside], "one-returns", "a lineage serves only what is its own"),
            (&[Left::TieBreak], "two-recoveries", "nodes that have met serve one lineage"),
        ] {
            let found = look(World::named(world).expect("there is such a world").without(left));
            assert_eq!(found.broken.map(|broken| broken.0), Some(property), "{left:?} in {world}");
        }
    }
}

mod doubting {
    use super::*;
    use kringle_check::rules::doubting::{Left, WORLDS, World};

    fn look(world: World) -> Found {
        search(&world, Search::Breadth, bounds(8_000_000))
    }

    #[test]
    fn doubts_end_and_nothing_acknowledged_is_lost() {
        for world in WORLDS {
            let found = look(*world);
            assert!(found.is_good(), "{}: {found:?}", world.name);
        }
    }

    #[test]
    fn every_rule_about_doubt_is_missed() {
        for (left, world, property) in [
            (&[Left::Abstains][..], "three", KNOWN),
            (&[Left::VotesNot], "three", KNOWN),
            (&[Left::Enough], "three", KNOWN),
            (&[Left::OnlyWhole], "three-same", KNOWN),
            (&[Left::Waits], "three", KNOWN),
            (&[Left::TellsOthers], "three", "doubts end where enough is left"),
        ] {
            let found = look(World::named(world).expect("there is such a world").without(left));
            assert_eq!(found.broken.map(|broken| broken.0), Some(property), "{left:?} in {world}");
        }
    }
}

mod damaged_promises {
    use super::*;
    use kringle_check::rules::damaged_promises::{Left, WORLDS, World};

    const FOLLOWS: &str = "a conditional write follows what it has seen";
    const ENDS: &str = "doubts end where enough is left";

    fn look(world: World) -> Found {
        search(&world, Search::Breadth, bounds(8_000_000))
    }

    #[test]
    fn lost_promises_and_records_undo_nothing() {
        for world in WORLDS {
            let found = look(*world);
            assert!(found.is_good(), "{}: {found:?}", world.name);
        }
    }

    #[test]
    fn every_rule_about_lost_promises_is_missed() {
        for (left, world, property) in [
            (&[Left::Doubts][..], "three", KNOWN),
            (&[Left::Enough], "three", KNOWN),
            (&[Left::Abstains], "three-promises", FOLLOWS),
            (&[Left::AskedDrops], "three-others", KNOWN),
            (&[Left::AllAsked], "three-others", KNOWN),
            (&[Left::DropsAlways], "three-others", KNOWN),
            (&[Left::OwnDrops], "two", KNOWN),
            (&[Left::PromiseStays], "three", FOLLOWS),
            (&[Left::PromiseBinds], "three", FOLLOWS),
            (&[Left::AbstainerVotes], "three-abstain", ENDS),
        ] {
            let found = look(World::named(world).expect("there is such a world").without(left));
            assert_eq!(found.broken.map(|broken| broken.0), Some(property), "{left:?} in {world}");
        }
    }
}

mod damaged_views {
    use super::*;
    use kringle_check::rules::damaged_views::{Left, WORLDS, World};

    const HELD: &str = "somebody holds what was acknowledged";

    fn look(world: World) -> Found {
        search(&world, Search::Breadth, bounds(8_000_000))
    }

    #[test]
    fn damaged_records_undo_nothing_while_a_view_changes() {
        for world in WORLDS {
            let found = look(*world);
            assert!(found.is_good(), "{}: {found:?}", world.name);
        }
    }

    #[test]
    fn every_rule_about_damage_in_a_view_change_is_missed() {
        for (left, world, property) in [
            (&[Left::VotesNot][..], "three", KNOWN),
            (&[Left::Enough], "three", KNOWN),
            (&[Left::GivesUp], "three", HELD),
            (&[Left::SourceDoubts], "three", KNOWN),
            (&[Left::LastReads], "two", HELD),
            (&[Left::ViewLost], "three-views", KNOWN),
            (&[Left::FrozenBinds], "three-later", ONE_VIEW),
            (&[Left::BehindDoubts], "three-behind", ONE_VIEW),
        ] {
            let found = look(World::named(world).expect("there is such a world").without(left));
            assert_eq!(found.broken.map(|broken| broken.0), Some(property), "{left:?} in {world}");
        }
    }
}

mod lineages {
    use super::*;
    use kringle_check::rules::lineages::{Left, WORLDS, World};

    const OWN: &str = "a store holds only what is its own";
    const KEPT: &str = "what was created is kept";
    const LEFT: &str = "a store is left";

    fn look(world: World) -> Found {
        search(&world, Search::Breadth, bounds(8_000_000))
    }

    #[test]
    fn stores_that_were_founded_apart_stay_apart() {
        for world in WORLDS {
            let found = look(*world);
            assert!(found.is_good(), "{}: {found:?}", world.name);
        }
    }

    #[test]
    fn every_rule_about_lineages_is_missed() {
        for (left, world, property) in [
            (&[Left::Refuses][..], "two-founders", OWN),
            (&[Left::Adopts], "newcomer", "clients get what is their own"),
            (&[Left::StillSo], "newcomers", OWN),
            (&[Left::OnlyBlank], "two-founders", KEPT),
            (&[Left::LooksAgain], "joined-founder", KEPT),
            (&[Left::OneYields], "two-founders", LEFT),
            (&[Left::ViewsFit], "silent", KEPT),
            // What an old member has is dropped. It would be served if members did not take exactly what a view has.
            (&[Left::SetAside], "recovered", KEPT),
            (&[Left::SetAside, Left::Exact], "recovered", OWN),
        ] {
            let found = look(World::named(world).expect("there is such a world").without(left));
            assert_eq!(found.broken.map(|broken| broken.0), Some(property), "{left:?} in {world}");
        }
    }

    #[test]
    fn restart_within_a_greeting_can_cost_two_empty_stores() {
        // Which offers a node has accepted is kept in memory.
        let world = World::named("two-founders").expect("there is such a world");
        let found = look(World { restarts: 1, ..world });
        assert_eq!(found.broken.map(|broken| broken.0), Some(LEFT));
    }
}
