//! The order of everything that happened to one key (reliability.md, K-04 and K-12): every answer must be what one
//! register, asked one thing at a time in some order that respects who was answered before whom was asked, would say.
//!
//! Versions are part of it: they grow along that order, and a condition on a version is judged by it. So a conditional
//! write on a version that was replaced, even by an equal value, is found. But a value that stays may get a higher version:
//! a ballot that only agrees on it may give it one, and a write that needs several has had several. [`Rules::renewals`]
//! says whether that may be. What timed out may have
//! happened at any time after it was asked, once, or never; but before anything acknowledged that was asked for long after
//! it ([`Rules::late`]).

mod search;
mod shrink;

use super::{Action, Condition, Effect, Finding, Operation, Outcome, Rules, Version, by_key};
use search::{Start, Verdict};

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Keys whose operations have an order.
    pub keys: u64,
    /// Their operations.
    pub operations: u64,
    /// Keys for which no order was found and not all were tried: more than the budget allows.
    pub undecided: Vec<String>,
}

/// Looks for an order of the operations of every key. Keys that hold sets are left out.
///
/// # Errors
/// The first key without one, with as few of its operations as show it.
pub fn check(history: &[Operation], rules: &Rules) -> Result<Looked, Finding> {
    let mut looked = Looked::default();
    for (key, operations) in by_key(history) {
        let of_a_set = |operation: &&Operation| {
            matches!(operation.action, Action::Add { .. } | Action::Remove { .. } | Action::Members)
        };
        if operations.iter().any(of_a_set) {
            continue;
        }
        let operations: Vec<Operation> = operations.into_iter().cloned().collect();
        match search::judge(&operations, Start::Empty, rules) {
            Verdict::Good => {
                looked.keys += 1;
                looked.operations += operations.len() as u64;
            }
            Verdict::Undecided => looked.undecided.push(key.to_owned()),
            Verdict::Bad(reason) => {
                let history = shrink::shortest(operations, rules);
                let problem = reason.or_else(|| overdue(&history, rules)).or_else(|| diagnose(&history));
                let problem = problem.unwrap_or_else(|| "no order explains these answers".to_owned());
                return Err(Finding { checker: "register", key: key.to_owned(), problem, history });
            }
        }
    }
    Ok(looked)
}

/// Returns the version an operation made, if it did for sure and said so.
fn made(operation: &Operation) -> Option<Version> {
    match operation.outcome {
        Outcome::Changed { version, .. } if version != Version::ZERO => Some(version),
        _ => None,
    }
}

/// Finds a write of unknown outcome that was read after a later acknowledged change, which it must not replace.
fn overdue(history: &[Operation], rules: &Rules) -> Option<String> {
    for read in history {
        let Some(seen) = read.seen() else { continue };
        let wrote =
            |other: &&Operation| matches!(&other.action, Action::Write { value, .. } if *value == seen.value);
        let mut writers = history.iter().filter(wrote);
        let (Some(writer), None) = (writers.next(), writers.next()) else { continue };
        let replaced = |change: &&Operation| {
            change.is_change() && change.invoked > writer.overdue(rules) && change.ends() < read.invoked
        };
        if let Some(change) = history.iter().find(replaced) {
            let later = change.invoked.since(writer.invoked);
            return Some(format!(
                "overdue: {} of unknown outcome replaced {}, which was asked for {later:?} later and acknowledged",
                writer.action, change.action
            ));
        }
    }
    None
}

/// Puts a name to what is wrong, if it is one of the things that usually are.
fn diagnose(history: &[Operation]) -> Option<String> {
    let expected = |operation: &Operation| match operation.action {
        Action::Write { condition: Condition::Version(version), .. }
        | Action::Delete { condition: Condition::Version(version) } => Some(version),
        _ => None,
    };
    let certain = || history.iter().filter(|operation| operation.effect() == Effect::Certain);
    for (at, one) in history.iter().enumerate().filter(|(_, one)| one.effect() == Effect::Certain) {
        let Some(version) = expected(one) else { continue };
        let twin = |other: &&Operation| other.effect() == Effect::Certain && expected(other) == Some(version);
        if history[at + 1..].iter().find(twin).is_some() {
            return Some(format!("two conditional writes succeeded on {version:?}"));
        }
        if certain().any(|other| other.ends() < one.invoked && made(other) > Some(version)) {
            return Some(format!("a conditional write succeeded on {version:?}, which had been replaced"));
        }
    }
    for read in history {
        let Outcome::Value(found) = &read.outcome else { continue };
        let before = certain().filter(|change| change.ends() < read.invoked);
        let Some(latest) = before.max_by_key(|change| made(change)) else { continue };
        let deleted = matches!(latest.action, Action::Delete { .. });
        match found {
            None if !deleted => return Some(format!("lost: nothing was read after {}", latest.action)),
            Some(seen) if Some(seen.version) < made(latest) && deleted => {
                return Some(format!("{} was deleted and is back", seen.value));
            }
            Some(seen) if Some(seen.version) < made(latest) => {
                return Some(format!("a stale read: {} was read after {}", seen.value, latest.action));
            }
            _ => {}
        }
    }
    None
}
