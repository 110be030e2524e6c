//! What clients of a store saw, and whether a store that keeps its promises can have shown it to them.
//!
//! Nothing in here knows how the store works. A history is a list of [`Operation`]s with the times they were asked and
//! answered; each checker is a pure function of it: [`ledger`] for what was acknowledged and is gone, [`register`] for
//! the order of everything that happened to one key, [`set`] for values of sets, [`monotone`] for versions that go back.

pub mod ledger;
pub mod monotone;
pub mod register;
pub mod set;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub use kringle_core::store::op::{Condition, Happened};
pub use kringle_core::store::version::Version;
use kringle_core::time::Time;

/// Something a client asked of the store, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who asked. A client asks one thing at a time.
    pub client: u32,
    /// Of which key.
    pub key: String,
    /// For what.
    pub action: Action,
    /// When it was asked.
    pub invoked: Time,
    /// When it was answered, if it was.
    pub completed: Option<Time>,
    /// The answer.
    pub outcome: Outcome,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the value.
    Read,
    /// Write a value, if a condition holds. No two writes of a history have the same, apart from numbers.
    Write {
        /// The value.
        value: String,
        /// How long it stays.
        ttl: Option<Duration>,
        /// If what.
        condition: Condition,
    },
    /// Take the value away, if a condition holds.
    Delete {
        /// If what.
        condition: Condition,
    },
    /// Add to a number. Nothing counts as 0.
    Increment(i64),
    /// Give the value another time to live. There must be one.
    Expire(Option<Duration>),
    /// Add a value to the set.
    Add {
        /// The value.
        value: String,
        /// How long it stays.
        ttl: Option<Duration>,
    },
    /// Remove a value from the set.
    Remove {
        /// The value.
        value: String,
    },
    /// Read the set.
    Members,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody has answered.
    Open,
    /// The value that was read, if there is one.
    Value(Option<Seen>),
    /// It was done.
    Changed {
        /// The version now; zero if nothing had to be changed.
        version: Version,
        /// The new number, of an increment.
        number: Option<i64>,
    },
    /// The values of the set.
    Members(Vec<Seen>),
    /// The condition did not hold: this was the version, zero if there was no value.
    ConditionFailed(Version),
    /// It failed. For what would have changed nothing anyway, whether it happened does not matter.
    Failed(Happened),
}

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The value.
    pub value: String,
    /// Its version.
    pub version: Version,
}

/// Whether an operation changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It did, between the times it was asked and answered.
    Certain,
    /// It may have, or may do so at any time, once at most.
    Possible,
    /// It did not and never will.
    Never,
}

/// What a checker may assume, and how long it may think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// By how much the end of a value's time to live may be off.
    pub slack: Duration,
    /// A change whose outcome is not known never replaces one that was acknowledged and asked for more than this later.
    /// `None`: it may do so at any time.
    pub late: Option<Duration>,
    /// Whether a value that stays may get a higher version. If not, one that is seen at two is a finding.
    pub renewals: bool,
    /// How many steps the search for an order may take per key.
    pub budget: usize,
}

/// Something in a history that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which checker found it.
    pub checker: &'static str,
    /// At which key.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// The operations that show it, as few as possible.
    pub history: Vec<Operation>,
}

/// Later than everything.
pub(crate) const NEVER: Time = Time::from_micros(u64::MAX);

impl Default for Rules {
    fn default() -> Rules {
        Rules { slack: Duration::from_secs(5), late: None, renewals: true, budget: 5_000_000 }
    }
}

impl Operation {
    /// Says whether the operation changed something.
    pub fn effect(&self) -> Effect {
        match (&self.action, &self.outcome) {
            (Action::Read | Action::Members, _) => Effect::Never,
            (_, Outcome::Changed { .. }) => Effect::Certain,
            (_, Outcome::Open | Outcome::Failed(Happened::Some | Happened::Unknown)) => Effect::Possible,
            _ => Effect::Never,
        }
    }

    /// Returns the time by which it has had its effect. What only may happen may do so at any time.
    pub fn ends(&self) -> Time {
        match self.effect() {
            Effect::Possible => NEVER,
            Effect::Certain | Effect::Never => self.completed.unwrap_or(NEVER),
        }
    }

    /// Says whether the operation was acknowledged and changed something. What had nothing to change left nothing behind
    /// that a later change could replace.
    pub(crate) fn is_change(&self) -> bool {
        let nothing = matches!(self.outcome, Outcome::Changed { version: Version::ZERO, .. });
        self.effect() == Effect::Certain && !nothing
    }

    /// Returns the time after which nothing acknowledged may have been asked for that this change replaces. An increment
    /// builds on what is there, whenever it happens: it undoes nothing.
    pub(crate) fn overdue(&self, rules: &Rules) -> Time {
        match (self.effect(), rules.late, &self.action) {
            (_, _, Action::Increment(_)) => NEVER,
            (Effect::Possible, Some(late), _) => self.invoked.after(late),
            _ => NEVER,
        }
    }

    /// Returns the value that was read, if this was a read and found one.
    pub fn seen(&self) -> Option<&Seen> {
        match &self.outcome {
            Outcome::Value(seen) => seen.as_ref(),
            _ => None,
        }
    }

    /// Returns when a time to live that starts with this operation may end at the earliest, and at the latest.
    pub(crate) fn expiry(&self, ttl: Option<Duration>, slack: Duration) -> Option<(Time, Time)> {
        let ttl = ttl?;
        // With more slack than time to live it may be over as soon as it is asked for, by a clock that is ahead.
        let earliest = self.invoked.after(ttl.saturating_sub(slack));
        let latest = match self.ends() {
            NEVER => NEVER,
            end => end.after(ttl).after(slack),
        };
        Some((earliest, latest))
    }
}

/// Sorts operations by their keys, each key's in the order they were asked.
pub(crate) fn by_key(history: &[Operation]) -> BTreeMap<&str, Vec<&Operation>> {
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        keys.entry(&operation.key).or_default().push(operation);
    }
    keys.values_mut().for_each(|operations| operations.sort_by_key(|operation| operation.invoked));
    keys
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answered = self.completed.map_or_else(|| "...".to_owned(), |at| format!("{at:?}"));
        let asked = format!("{:?}", self.invoked);
        write!(f, "{asked:>12} to {answered:>12}  client {:<3} {} -> ", self.client, self.action)?;
        match &self.outcome {
            Outcome::Open => write!(f, "no answer"),
            Outcome::Value(None) => write!(f, "nothing"),
            Outcome::Value(Some(seen)) => write!(f, "{seen}"),
            Outcome::Changed { version, number: None } => write!(f, "ok, {version:?}"),
            Outcome::Changed { version, number: Some(number) } => write!(f, "{number}, {version:?}"),
            Outcome::Members(members) => {
                let members: Vec<String> = members.iter().map(|seen| seen.value.clone()).collect();
                write!(f, "{{{}}}", members.join(", "))
            }
            Outcome::ConditionFailed(version) => write!(f, "condition failed: is {version:?}"),
            Outcome::Failed(Happened::No) => write!(f, "failed, did not happen"),
            Outcome::Failed(Happened::Some) => write!(f, "failed, some copies have it"),
            Outcome::Failed(Happened::Unknown) => write!(f, "failed, not known whether it happened"),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}", self.value, self.version)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stays = |ttl: &Option<Duration>| ttl.map_or_else(String::new, |ttl| format!(" for {ttl:?}"));
        let when = |condition: &Condition| match condition {
            Condition::Always => String::new(),
            Condition::Absent => " if absent".to_owned(),
            Condition::Present => " if present".to_owned(),
            Condition::Version(version) => format!(" if at {version:?}"),
        };
        match self {
            Action::Read => write!(f, "read"),
            Action::Write { value, ttl, condition } => {
                write!(f, "write {value}{}{}", stays(ttl), when(condition))
            }
            Action::Delete { condition } => write!(f, "delete{}", when(condition)),
            Action::Increment(by) => write!(f, "increment by {by}"),
            Action::Expire(None) => write!(f, "keep for ever"),
            Action::Expire(ttl) => write!(f, "keep{}", stays(ttl)),
            Action::Add { value, ttl } => write!(f, "add {value}{}", stays(ttl)),
            Action::Remove { value } => write!(f, "remove {value}"),
            Action::Members => write!(f, "read the set"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: key {}: {}", self.checker, self.key, self.problem)?;
        self.history.iter().try_for_each(|operation| write!(f, "\n  {operation}"))
    }
}

impl std::error::Error for Finding {}
