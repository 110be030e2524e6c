//! Every model, as far as a quick look goes.

use kringle_check::explore::{Search, explore, survey, together};
use kringle_check::model::Ring;
use kringle_check::plan::{PLANS, Plan};

use crate::bounds;

#[test]
fn no_model_breaks_a_property_and_none_is_idle() {
    for plan in PLANS {
        let ring = Ring::new(*plan, None).unwrap().resting(5000);
        let reports = survey(&ring, bounds(100_000), 1, |_| {});
        let told = reports.iter().find_map(|report| Some(report.counter_example.as_ref()?.tell(&ring)));
        for finding in together(&reports) {
            let (name, told) = (plan.name, told.as_deref().unwrap_or_default());
            assert!(finding.holds, "{name}: {}\n{told}", finding.property);
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
