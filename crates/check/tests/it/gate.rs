//! A rule that is left out is missed by a model.

use kringle_check::gate::{RULES, try_without};

use crate::bounds;

/// Rules that no model misses: either others cover for them in worlds this small, or the worlds are not found yet.
const NOT_CAUGHT: [&str; 6] =
    ["one-joiner", "add-first", "displaced", "current-neighbour", "agreement", "restart-waits"];

#[test]
fn a_rule_left_out_is_noticed_where_it_is_expected() {
    for rule in RULES.into_iter().filter(|(name, ..)| !NOT_CAUGHT.contains(name)) {
        let caught = try_without(rule, bounds(300_000)).unwrap();
        let model = caught.by.map(|report| report.model);
        assert_eq!(model, Some(rule.2), "without {}, after {} states", rule.0, caught.states);
    }
}
