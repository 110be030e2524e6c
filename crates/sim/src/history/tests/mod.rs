//! Good histories pass, and every kind of broken promise is found and called by its name.

mod planted;
mod random;

use std::time::Duration;

use kringle_core::time::Time;

use super::*;

/// Returns an operation on key `k`, at times in milliseconds. An end of 0: it was never answered.
pub(super) fn op(client: u32, from: u64, to: u64, action: Action, outcome: Outcome) -> Operation {
    let at = |millis: u64| Time::from_micros(millis * 1000);
    let completed = (to > 0).then(|| at(to));
    Operation { client, key: "k".to_owned(), action, invoked: at(from), completed, outcome }
}

pub(super) fn write(value: &str) -> Action {
    Action::Write { value: value.to_owned(), ttl: None, condition: Condition::Always }
}

pub(super) fn write_if(value: &str, condition: Condition) -> Action {
    Action::Write { value: value.to_owned(), ttl: None, condition }
}

pub(super) fn write_for(value: &str, ttl: u64) -> Action {
    let ttl = Some(Duration::from_millis(ttl));
    Action::Write { value: value.to_owned(), ttl, condition: Condition::Always }
}

pub(super) fn delete() -> Action {
    Action::Delete { condition: Condition::Always }
}

pub(super) fn add(value: &str) -> Action {
    Action::Add { value: value.to_owned(), ttl: None }
}

pub(super) fn remove(value: &str) -> Action {
    Action::Remove { value: value.to_owned() }
}

pub(super) fn ok(version: u64) -> Outcome {
    Outcome::Changed { version: Version(version), number: None }
}

pub(super) fn counted(number: i64, version: u64) -> Outcome {
    Outcome::Changed { version: Version(version), number: Some(number) }
}

pub(super) fn found(value: &str, version: u64) -> Outcome {
    Outcome::Value(Some(Seen { value: value.to_owned(), version: Version(version) }))
}

pub(super) fn nothing() -> Outcome {
    Outcome::Value(None)
}

pub(super) fn members(values: &[&str]) -> Outcome {
    let seen = |value: &&str| Seen { value: (*value).to_owned(), version: Version(1) };
    Outcome::Members(values.iter().map(seen).collect())
}

pub(super) fn unknown() -> Outcome {
    Outcome::Failed(Happened::Unknown)
}

/// Asks every checker.
pub(super) fn check(history: &[Operation]) -> Result<(), Finding> {
    let rules = Rules::default();
    register::check(history, &rules)?;
    set::check(history, &rules)?;
    monotone::check(history)?;
    ledger::check(history, &rules)?;
    Ok(())
}
