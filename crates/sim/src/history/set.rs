//! Values of sets (reliability.md, K-05): an acknowledged ADD is in every later read until a REM that saw it; a value
//! that was removed does not come back by itself; the order of ADDs does not matter.
//!
//! Each value of each set is judged by itself. What was read counts as well: a value that one read showed is not missing
//! in the next, unless something can have removed it in between. An ADD or REM whose outcome is not known undoes nothing
//! that was acknowledged and asked for long after it ([`Rules::late`]).

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Effect, Finding, NEVER, Operation, Outcome, Rules, by_key};
use kringle_core::time::Time;

/// Something that made a value be there, or not be there, at some moment of an interval.
struct Proof<'a> {
    from: Time,
    /// [`NEVER`] if it may be at any time.
    to: Time,
    /// Whether it was so for sure.
    certain: bool,
    /// When a value may be gone by itself, and when it must be.
    expiry: (Time, Time),
    /// What was acknowledged and asked for after this is not undone by it ([`Rules::late`]).
    overdue: Time,
    operation: &'a Operation,
}

/// Looks at every read of a set. Returns how many values were looked for in reads.
///
/// # Errors
/// The first value that is missing or should be.
pub fn check(history: &[Operation], rules: &Rules) -> Result<u64, Finding> {
    let mut looked = 0;
    for (key, operations) in by_key(history) {
        let values: BTreeSet<&str> = operations.iter().flat_map(|operation| named(operation)).collect();
        for value in values {
            looked += check_value(key, value, &operations, rules)?;
        }
    }
    Ok(looked)
}

/// Returns the values an operation speaks of.
fn named(operation: &Operation) -> Vec<&str> {
    match (&operation.action, &operation.outcome) {
        (Action::Add { value, .. } | Action::Remove { value }, _) => vec![value],
        (_, Outcome::Members(members)) => members.iter().map(|seen| seen.value.as_str()).collect(),
        _ => Vec::new(),
    }
}

fn check_value(key: &str, value: &str, operations: &[&Operation], rules: &Rules) -> Result<u64, Finding> {
    let mut adds: Vec<Proof<'_>> = Vec::new();
    let mut removals: Vec<Proof<'_>> = Vec::new();
    // A time to live makes values come and go with whoever is asked: then reads prove nothing about each other.
    let mut flickers = false;
    for operation in operations.iter().filter(|operation| operation.effect() != Effect::Never) {
        let certain = operation.effect() == Effect::Certain;
        let proof = |expiry| Proof {
            from: operation.invoked,
            to: operation.ends(),
            certain,
            expiry,
            overdue: operation.overdue(rules),
            operation,
        };
        match &operation.action {
            Action::Add { value: added, ttl } if added == value => {
                flickers |= ttl.is_some();
                adds.push(proof(operation.expiry(*ttl, rules.slack).unwrap_or((NEVER, NEVER))));
            }
            Action::Remove { value: removed } if removed == value => removals.push(proof((NEVER, NEVER))),
            Action::Delete { .. } => removals.push(proof((NEVER, NEVER))),
            _ => {}
        }
    }
    let mut looked = 0;
    let mut shown: BTreeMap<bool, Vec<Proof<'_>>> = BTreeMap::new();
    for read in operations {
        let (Outcome::Members(members), Some(completed)) = (&read.outcome, read.completed) else { continue };
        looked += 1;
        let there = members.iter().any(|seen| seen.value == value);
        let seen_before = if flickers { &[] } else { shown.get(&!there).map_or(&[][..], |seen| &seen[..]) };
        let problem = if there {
            too_much(value, &adds, &removals, seen_before, read, completed)
        } else {
            missing(value, &adds, &removals, seen_before, read, completed)
        };
        if let Some((mut problem, mut others)) = problem {
            let denied = |add: &&Operation| {
                let same = matches!(&add.action, Action::Add { value: added, .. } if added == value);
                there && same && add.effect() == Effect::Never && add.invoked <= completed
            };
            let denied: Vec<&Operation> = operations.iter().copied().filter(denied).collect();
            if !denied.is_empty() {
                problem.push_str("; adding it was said not to have happened");
                others.extend(denied);
                others.sort_by_key(|operation| operation.invoked);
            }
            let mut history: Vec<Operation> = others.into_iter().cloned().collect();
            history.push((*read).clone());
            return Err(Finding { checker: "set", key: key.to_owned(), problem, history });
        }
        let proof = Proof {
            from: read.invoked,
            to: completed,
            certain: true,
            expiry: (NEVER, NEVER),
            overdue: NEVER,
            operation: read,
        };
        shown.entry(there).or_default().push(proof);
    }
    Ok(looked)
}

/// Why a value must be in a read that does not show it.
fn missing<'a>(
    value: &str,
    adds: &[Proof<'a>],
    removals: &[Proof<'a>],
    seen: &[Proof<'a>],
    read: &Operation,
    completed: Time,
) -> Option<(String, Vec<&'a Operation>)> {
    let stays = |add: &&Proof<'_>| {
        let between = |other: &Proof<'_>| {
            let overdue = add.operation.is_change() && add.from > other.overdue;
            other.to >= add.from && other.from <= completed && !overdue
        };
        // The same value added again, for a time: it is gone after that.
        let ended = |again: &Proof<'_>| between(again) && again.expiry.0 <= completed;
        let removable = removals.iter().any(between) || adds.iter().any(ended);
        add.certain && add.to < read.invoked && completed < add.expiry.0 && !removable
    };
    if let Some(add) = adds.iter().find(stays) {
        return Some((format!("lost: {value} was added and is gone"), vec![add.operation]));
    }
    let before = seen.iter().find(stays)?;
    Some((format!("{value} was read, nobody removed it, and it is gone"), vec![before.operation]))
}

/// Why a value must not be in a read that shows it.
fn too_much<'a>(
    value: &str,
    adds: &[Proof<'a>],
    removals: &[Proof<'a>],
    seen: &[Proof<'a>],
    read: &Operation,
    completed: Time,
) -> Option<(String, Vec<&'a Operation>)> {
    let started: Vec<&Proof<'_>> = adds.iter().filter(|add| add.from <= completed).collect();
    if started.is_empty() {
        return Some((format!("{value} came from nowhere"), Vec::new()));
    }
    // Something that ended this add for sure: it came after it, and before the read.
    let ended_by = |add: &Proof<'_>| {
        let gone = removals.iter().chain(seen).find(|gone| {
            let overdue = gone.operation.is_change() && add.overdue < gone.from;
            gone.certain && (add.to < gone.from || overdue) && gone.to < read.invoked
        });
        gone.map(|gone| Some(gone.operation)).or_else(|| (add.expiry.1 < read.invoked).then_some(None))
    };
    let mut shown = Vec::new();
    for add in started {
        shown.push(add.operation);
        shown.extend(ended_by(add)?);
    }
    shown.sort_by_key(|operation| operation.invoked);
    shown.dedup();
    Some((format!("a zombie: {value} was gone and is back"), shown))
}
