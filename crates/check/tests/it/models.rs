//! Every model, as far as a quick look goes.

use kringle_check::explore::{Search, explore};
use kringle_check::model::Ring;
use kringle_check::plan::{PLANS, Plan};

use crate::bounds;

#[test]
fn no_model_breaks_a_property() {
    for plan in PLANS {
        let ring = Ring::new(*plan, None).unwrap().resting(5000);
        for search in [Search::Depth, Search::Walks(1)] {
            let report = explore(&ring, search, bounds(20_000), |_| {});
            let told = report.counter_example.as_ref().map(|schedule| schedule.tell(&ring));
            assert!(report.is_good(), "{}: {:?}\n{}", plan.name, report.findings, told.unwrap_or_default());
            assert!(report.unique > 1000, "{} does next to nothing", plan.name);
        }
    }
}

#[test]
fn small_models_are_seen_to_the_end() {
    let ring = Ring::new(Plan::named("suspicions").unwrap(), None).unwrap();
    let report = explore(&ring, Search::Depth, bounds(1_000_000), |_| {});
    assert!(report.complete && report.is_good(), "{:?}", report.findings);
    // Two searches of everything see the same states, in whichever order.
    let again = explore(&ring, Search::Breadth, bounds(1_000_000), |_| {});
    assert_eq!(report.unique, again.unique);
}

#[test]
fn names_are_unique() {
    for plan in PLANS {
        assert_eq!(PLANS.iter().filter(|other| other.name == plan.name).count(), 1);
    }
}
