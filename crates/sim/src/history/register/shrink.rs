//! Makes a history without an order as short as possible: it ends where it goes wrong, and what does not matter for
//! that is left out. Only operations are left out without which a good history would still be good.

use std::collections::BTreeSet;

use super::search::{Start, Verdict, judge};
use crate::history::{Action, Condition, Effect, Operation, Outcome, Rules, Version};
use kringle_core::time::Time;

/// Returns the shortest history that still has no order, as far as can be found with a few tries.
pub(super) fn shortest(operations: Vec<Operation>, rules: &Rules) -> Vec<Operation> {
    // Each try has a share of the budget only: what can not be told quickly is kept.
    let rules = Rules { budget: rules.budget / 20, ..*rules };
    let bad_from =
        |start, operations: &[Operation]| matches!(judge(operations, start, &rules), Verdict::Bad(_));
    let bad = |operations: &[Operation]| bad_from(Start::Empty, operations);
    let mut ends: Vec<Time> = operations.iter().filter_map(|operation| operation.completed).collect();
    ends.sort();
    // A longer part of a bad history is bad as well.
    let end = ends.partition_point(|end| !bad(&until(&operations, *end)));
    let shortest = ends.get(end).map_or(operations.clone(), |end| until(&operations, *end));
    if !bad(&shortest) {
        return operations;
    }
    // What comes first does not matter if the rest is bad whatever the register was then.
    let mut starts: Vec<Time> = shortest.iter().map(|operation| operation.invoked).collect();
    starts.sort();
    let pauses = starts.iter().rev().filter(|start| is_pause(&shortest, **start));
    let mut late = pauses.map(|start| since(&shortest, *start));
    let late = late.find(|operations| bad_from(Start::Anything, operations));
    let start = if late.is_some() { Start::Anything } else { Start::Empty };
    let mut shortest = late.unwrap_or(shortest);
    let bad = |operations: &[Operation]| bad_from(start, operations);
    // What is judged asks for less than what is shown: without a condition a write needs nobody before it.
    let mut judged = shortest.clone();
    for at in 0..judged.len() {
        let mut eased = judged.clone();
        if ease(&mut eased[at]) && bad(&eased) {
            judged = eased;
        }
    }
    let mut again = true;
    while again {
        again = false;
        let mut at = judged.len();
        while at > 0 {
            at -= 1;
            let mut without = judged.clone();
            let removed = without.remove(at);
            if does_not_matter(&removed, &without) && bad(&without) {
                judged = without;
                shortest.remove(at);
                again = true;
            }
        }
    }
    shortest
}

/// Says whether everything that was asked before has been answered before, or never will be.
fn is_pause(operations: &[Operation], at: Time) -> bool {
    let over = |operation: &Operation| operation.effect() == Effect::Possible || operation.ends() < at;
    operations.iter().filter(|operation| operation.invoked < at).all(over)
}

/// Returns what was asked from a pause on, and what may still happen.
fn since(operations: &[Operation], start: Time) -> Vec<Operation> {
    let late = |operation: &&Operation| operation.invoked >= start || operation.effect() == Effect::Possible;
    operations.iter().filter(late).cloned().collect()
}

/// Takes the condition from a write. A good history stays good.
fn ease(operation: &mut Operation) -> bool {
    if operation.effect() == Effect::Never {
        return false;
    }
    match &mut operation.action {
        Action::Write { condition, .. } | Action::Delete { condition } if *condition != Condition::Always => {
            *condition = Condition::Always;
            true
        }
        _ => false,
    }
}

/// Returns what was known of a history at some moment.
fn until(operations: &[Operation], end: Time) -> Vec<Operation> {
    let known = operations.iter().filter(|operation| operation.invoked <= end).cloned();
    let known = known.map(|operation| match operation.completed {
        Some(completed) if completed > end => {
            Operation { completed: None, outcome: Outcome::Open, ..operation }
        }
        _ => operation,
    });
    known
        .filter(|operation| operation.completed.is_some() || operation.effect() == Effect::Possible)
        .collect()
}

/// Says whether a good history stays good without this operation.
fn does_not_matter(removed: &Operation, others: &[Operation]) -> bool {
    if removed.effect() == Effect::Never {
        return !matches!(removed.action, Action::Write { .. }) || !is_read(removed, others);
    }
    // Others may depend on there being a value, whichever.
    let depends = others.iter().any(|other| match &other.action {
        Action::Increment(_) | Action::Expire(_) => true,
        Action::Write { condition, ttl, .. } => {
            ttl.is_some() || matches!(condition, Condition::Present | Condition::Absent)
        }
        Action::Delete { condition } => matches!(condition, Condition::Present | Condition::Absent),
        _ => false,
    });
    let refused = others.iter().any(|other| matches!(other.outcome, Outcome::ConditionFailed(_)));
    let Action::Write { ttl: None, .. } = &removed.action else {
        // Whatever else may have happened or not, a reader needs it to explain what it saw.
        return false;
    };
    let version = super::made(removed);
    let named: BTreeSet<Version> = others.iter().flat_map(versions).collect();
    let is_named = version.is_some_and(|version| named.contains(&version)) || (version.is_none() && refused);
    !depends && !is_read(removed, others) && !is_named
}

fn is_read(write: &Operation, others: &[Operation]) -> bool {
    let Action::Write { value, .. } = &write.action else { return true };
    others.iter().any(|other| other.seen().is_some_and(|seen| seen.value == *value))
}

/// Returns the versions an operation speaks of, apart from one it made.
fn versions(operation: &Operation) -> Vec<Version> {
    let expected = match operation.action {
        Action::Write { condition: Condition::Version(version), .. }
        | Action::Delete { condition: Condition::Version(version) } => Some(version),
        _ => None,
    };
    let told = match &operation.outcome {
        Outcome::Value(Some(seen)) => Some(seen.version),
        Outcome::ConditionFailed(version) => Some(*version),
        _ => None,
    };
    expected.into_iter().chain(told).collect()
}
