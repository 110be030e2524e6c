//! What was acknowledged and is gone (reliability.md, K-02 and K-03).
//!
//! Every acknowledged write must be what the last read of its key found, or something that came after it must be. Writes
//! whose outcome is not known are counted: later there, or not.

use super::{Action, Effect, Finding, Operation, Outcome, Rules, Version, by_key};

/// What became of the writes of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Writes that were acknowledged and looked for afterwards.
    pub acked: u64,
    /// Of these, found as they were written.
    pub present: u64,
    /// Of these, rightly replaced by something later.
    pub replaced: u64,
    /// Writes whose outcome nobody knew, found later.
    pub unknown_present: u64,
    /// And not found later.
    pub unknown_absent: u64,
}

/// Looks for every acknowledged write in the last read of its key.
///
/// # Errors
/// The first that is lost, or was said never to happen and is there.
pub fn check(history: &[Operation], rules: &Rules) -> Result<Ledger, Finding> {
    let mut ledger = Ledger::default();
    for (key, operations) in by_key(history) {
        let reads = operations.iter().filter(|read| matches!(read.outcome, Outcome::Value(_)));
        let Some(last) = reads.max_by_key(|read| read.invoked) else { continue };
        // Numbers come about in many ways: there only versions tell.
        let counts = operations.iter().any(|operation| matches!(operation.action, Action::Increment(_)));
        for write in &operations {
            let Action::Write { value, .. } = &write.action else { continue };
            let found = last.seen().is_some_and(|seen| match counts {
                true => seen.version == version_of(write),
                false => seen.value == *value,
            });
            let finding = |problem: String| Finding {
                checker: "ledger",
                key: key.to_owned(),
                problem,
                history: vec![(*write).clone(), (*last).clone()],
            };
            match write.effect() {
                Effect::Certain if write.ends() < last.invoked => {
                    ledger.acked += 1;
                    if found {
                        ledger.present += 1;
                    } else if is_replaced(write, last, &operations, rules) {
                        ledger.replaced += 1;
                    } else {
                        return Err(finding(format!("lost: {value} was acknowledged and is gone")));
                    }
                }
                Effect::Possible if counts => {}
                Effect::Possible if found => ledger.unknown_present += 1,
                Effect::Possible => ledger.unknown_absent += 1,
                Effect::Never if found => {
                    return Err(finding(format!("{value} was said never to happen, and is there")));
                }
                Effect::Certain | Effect::Never => {}
            }
        }
    }
    Ok(ledger)
}

/// Says whether a read rightly found something other than what was written.
fn is_replaced(write: &Operation, read: &Operation, operations: &[&Operation], rules: &Rules) -> bool {
    let version = version_of(write);
    match read.seen() {
        // Versions are the order in which writes stand. One that is older replaces nothing.
        Some(seen) => seen.version > version,
        None => operations.iter().any(|other| {
            let may_come_between = other.ends() >= write.invoked && read.completed >= Some(other.invoked);
            let ended = |ttl| {
                let expiry = other.expiry(ttl, rules.slack);
                expiry.is_some_and(|(earliest, _)| read.completed >= Some(earliest))
            };
            other.effect() != Effect::Never
                && may_come_between
                && match &other.action {
                    Action::Delete { .. } => true,
                    Action::Write { ttl, .. } => ended(*ttl),
                    Action::Expire(ttl) => ended(*ttl),
                    _ => false,
                }
        }),
    }
}

fn version_of(operation: &Operation) -> Version {
    match operation.outcome {
        Outcome::Changed { version, .. } => version,
        _ => Version::ZERO,
    }
}
