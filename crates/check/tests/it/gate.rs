//! A rule that is left out is missed by a model.

use kringle_check::gate::{RULES, try_without};

use crate::bounds;

#[test]
fn a_rule_left_out_is_noticed_where_it_is_expected() {
    for rule in RULES {
        let caught = try_without(rule, bounds(300_000)).unwrap();
        let model = caught.by.map(|report| report.model);
        assert_eq!(model, Some(rule.2), "without {}, after {} states", rule.0, caught.states);
    }
}
