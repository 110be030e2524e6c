//! Counter-examples: short, readable, and the same to the simulator.

use kringle_check::explore::{Search, explore};
use kringle_check::gate;
use kringle_check::model::Ring;
use kringle_check::plan::Plan;
use kringle_check::replay::replay;
use kringle_check::schedule::{Schedule, ends_with_two_deliverers};

use crate::bounds;

/// Finds what goes wrong in a model without a rule.
fn counter_example(rule: &str, model: &str) -> (Plan, Schedule) {
    let plan = Plan::named(model).expect("there is such a model");
    let ring = Ring::new(plan, gate::rule(rule)).expect("tests may leave a rule out");
    let report = explore(&ring, Search::Walks(3), bounds(500_000), |_| {});
    (plan, report.counter_example.expect("something goes wrong without the rule"))
}

#[test]
fn a_schedule_breaks_the_simulator_without_the_rule_and_not_with_it() {
    for (rule, model) in [("keep-granted", "suspicions"), ("ready-needs-leases", "one-joiner")] {
        let (plan, schedule) = counter_example(rule, model);
        let without = replay(plan, &schedule, gate::rule(rule)).unwrap();
        assert_eq!(
            without.broken.as_ref().map(|(step, _)| *step),
            Some(schedule.actions.len()),
            "{schedule}"
        );
        assert_eq!(without.skipped, Vec::<usize>::new(), "the simulator can take every step: {schedule}");
        assert_eq!(replay(plan, &schedule, None).unwrap().broken, None, "{schedule}");
    }
}

#[test]
fn a_printed_schedule_can_be_read_back() {
    let (plan, schedule) = counter_example("keep-granted", "suspicions");
    assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()));
    // So can the longer form, with its remarks.
    let ring = Ring::new(plan, gate::rule("keep-granted")).unwrap();
    let told = schedule.tell(&ring);
    assert!(told.contains("both ") && told.contains("node 2: "), "{told}");
    assert_eq!(told.parse(), Ok(schedule));
    for bad in ["model: x\n1. fly 3", "model: x\n1. deliver 1 2 ping", "1. mend"] {
        assert!(bad.parse::<Schedule>().is_err(), "{bad:?} was read");
    }
}

#[test]
fn every_step_that_is_left_is_needed() {
    let (plan, schedule) = counter_example("ready-needs-leases", "one-joiner");
    let ring = Ring::new(plan, gate::rule("ready-needs-leases")).unwrap();
    assert!(ends_with_two_deliverers(&ring, &schedule.actions), "{schedule}");
    for at in 0..schedule.actions.len() {
        let mut fewer = schedule.actions.clone();
        fewer.remove(at);
        assert!(!ends_with_two_deliverers(&ring, &fewer), "step {}: {schedule}", at + 1);
    }
}
