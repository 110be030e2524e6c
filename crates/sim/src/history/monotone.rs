//! Versions that go back (reliability.md, K-04): a value once returned, or acknowledged, is never followed by an older
//! one, whoever asks. And one version is one value.

use std::collections::BTreeMap;

use super::{Action, Effect, Finding, Operation, Outcome, Version, by_key};
use kringle_core::time::Time;

/// Looks at every read that found a value. Returns how many there were.
///
/// # Errors
/// The first that is older than what was seen before it.
pub fn check(history: &[Operation]) -> Result<u64, Finding> {
    let mut reads = 0;
    for (key, operations) in by_key(history) {
        let finding = |problem: String, operations: [&Operation; 2]| Finding {
            checker: "monotone",
            key: key.to_owned(),
            problem,
            history: operations.map(Operation::clone).to_vec(),
        };
        let mut values: BTreeMap<Version, (&str, &Operation)> = BTreeMap::new();
        for operation in &operations {
            let Some((value, version)) = shown(operation) else { continue };
            match values.get(&version) {
                None => drop(values.insert(version, (value, operation))),
                Some((other, before)) if *other != value => {
                    let problem = format!("{version:?} is {other} and {value}");
                    return Err(finding(problem, [before, operation]));
                }
                Some(_) => {}
            }
        }
        // By the time it was answered: what a later question must not fall behind.
        let mut known: Vec<(Time, Version, &Operation)> = operations
            .iter()
            .filter_map(|operation| Some((operation.completed?, version_of(operation)?, *operation)))
            .collect();
        known.sort_by_key(|(at, version, _)| (*at, *version));
        let (mut next, mut newest) = (0, None::<(Version, &Operation)>);
        for read in &operations {
            while let Some((at, version, operation)) = known.get(next).filter(|(at, ..)| *at < read.invoked) {
                debug_assert!(*at < read.invoked);
                if newest.is_none_or(|(newest, _)| *version > newest) {
                    newest = Some((*version, operation));
                }
                next += 1;
            }
            let Some(seen) = read.seen() else { continue };
            reads += 1;
            if let Some((_, before)) = newest.filter(|(newest, _)| *newest > seen.version) {
                let problem = format!("a stale read: {} came after something newer", seen.value);
                return Err(finding(problem, [before, read]));
            }
        }
    }
    Ok(reads)
}

/// Returns the version of the key as an answer told it.
fn version_of(operation: &Operation) -> Option<Version> {
    let version = match (&operation.action, &operation.outcome) {
        // Values of sets have versions of their own.
        (Action::Add { .. } | Action::Remove { .. }, _) => return None,
        (_, Outcome::Value(Some(seen))) => seen.version,
        (_, Outcome::Changed { version, .. } | Outcome::ConditionFailed(version)) => *version,
        _ => return None,
    };
    (version != Version::ZERO).then_some(version)
}

/// Returns a value and its version, if an answer shows both.
fn shown(operation: &Operation) -> Option<(&str, Version)> {
    match (&operation.action, &operation.outcome) {
        (_, Outcome::Value(Some(seen))) => Some((&seen.value, seen.version)),
        (Action::Write { value, .. }, Outcome::Changed { version, .. })
            if operation.effect() == Effect::Certain && *version != Version::ZERO =>
        {
            Some((value, *version))
        }
        _ => None,
    }
}
