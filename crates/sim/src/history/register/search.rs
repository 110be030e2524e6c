//! The search for an order: Wing and Gong's, remembering which sets of operations were seen to lead to which state
//! (Lowe, "Testing for linearizability").
//!
//! Three things keep it short. A read that fits where the search stands is put there at once: it changes nothing for
//! others. A write whose outcome is unknown has either been read, and then happened before that read was answered, or
//! nobody has seen it, and mostly it is as if it had never been. And what else may have happened is only tried where an answer
//! does not fit without it, or does not say what it found.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kringle_core::time::Time;

use crate::history::{Action, Condition, Effect, NEVER, Operation, Outcome, Rules, Version};

/// What the search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is an order.
    Good,
    /// There is none, perhaps for a reason that needs no search.
    Bad(Option<String>),
    /// The budget was not enough.
    Undecided,
}

/// What the register is before the first operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Empty.
    Empty,
    /// Whatever makes the answers right.
    Anything,
}

/// Judges the operations of one key.
pub(super) fn judge(operations: &[Operation], start: Start, rules: &Rules) -> Verdict {
    if let Some(reason) = from_nowhere(operations).filter(|_| start == Start::Empty) {
        return Verdict::Bad(Some(reason));
    }
    let mut search = Search {
        steps: steps(operations, rules),
        renewals: rules.renewals,
        seen: HashSet::new(),
        budget: rules.budget,
        done: Vec::new(),
    };
    search.done = vec![0; search.steps.len().div_ceil(64)];
    let (wild, known) = (start == Start::Anything, start == Start::Empty);
    if search.ends_well(State { wild, known, value: None, version: Version::ZERO, expiry: None }) {
        Verdict::Good
    } else if search.budget == 0 {
        Verdict::Undecided
    } else {
        Verdict::Bad(None)
    }
}

/// A value, short enough to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Value {
    Number(i64),
    /// Its place among all texts of the key.
    Text(u32),
}

/// The register between two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    /// Whether the value may be any, or none.
    wild: bool,
    value: Option<Value>,
    /// The version; of an earlier state if it is not `known`.
    version: Version,
    known: bool,
    /// When the value may be gone, and when it must be.
    expiry: Option<(Time, Time)>,
}

/// An operation as the search sees it.
#[derive(Clone, Debug)]
struct Step {
    invoked: Time,
    /// [`NEVER`] for what may happen at any time or not at all.
    completed: Time,
    required: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read(Option<(Value, Version)>),
    /// A condition that did not hold.
    Refused(Condition, Version),
    Change {
        how: How,
        condition: Condition,
        /// The version it made, if that is known. Zero: nothing had to be changed.
        made: Option<Version>,
        expiry: Option<(Time, Time)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Write(Value),
    Delete,
    /// By how much, and what it came to, if that is known.
    Increment(i64, Option<i64>),
    Expire,
}

/// Finds a value that was read and that nobody can have written.
fn from_nowhere(operations: &[Operation]) -> Option<String> {
    // Numbers come about in many ways.
    let counts = operations.iter().any(|operation| matches!(operation.action, Action::Increment(_)));
    if counts {
        return None;
    }
    for read in operations {
        let (Some(seen), Some(completed)) = (read.seen(), read.completed) else { continue };
        let mut writers = operations
            .iter()
            .filter(|other| matches!(&other.action, Action::Write { value, .. } if *value == seen.value))
            .peekable();
        if writers.peek().is_none() {
            return Some(format!("{} was read and never written", seen.value));
        }
        if writers.all(|writer| writer.effect() == Effect::Never || writer.invoked > completed) {
            return Some(format!(
                "{} was read, and writing it was refused or asked for only later",
                seen.value
            ));
        }
    }
    None
}

/// Returns what the search has to put in order.
fn steps(operations: &[Operation], rules: &Rules) -> Vec<Step> {
    let mut texts = Texts::default();
    let observed = Observed::of(operations, rules.renewals);
    let mut steps: Vec<Step> = Vec::new();
    for operation in operations {
        let mut required = operation.effect() != Effect::Possible;
        let mut completed = operation.ends();
        let mut ghost = false;
        let kind = match (&operation.action, &operation.outcome) {
            (_, Outcome::ConditionFailed(version)) => {
                let condition = match &operation.action {
                    Action::Write { condition, .. } | Action::Delete { condition } => *condition,
                    // A time to live is given to what is there.
                    _ => Condition::Present,
                };
                Kind::Refused(condition, *version)
            }
            (Action::Read, Outcome::Value(seen)) => {
                Kind::Read(seen.as_ref().map(|seen| (texts.value(&seen.value), seen.version)))
            }
            (action, outcome) if operation.effect() != Effect::Never => {
                let (mut made, mut number) = (None, None);
                if let Outcome::Changed { version, number: count } = outcome {
                    (made, number) = (Some(*version), *count);
                }
                let (how, condition, ttl) = match action {
                    Action::Write { value: text, ttl, condition } => {
                        if !required && !observed.numbers {
                            match observed.values.get(text.as_str()) {
                                // It happened before anybody was told of it.
                                Some((first, version)) => {
                                    (required, completed, made) = (true, *first, *version);
                                }
                                // All that nobody has read are alike.
                                None if observed.unattributed || observed.presence => ghost = true,
                                None => continue,
                            }
                        }
                        let value = if ghost { GHOST } else { texts.value(text) };
                        (How::Write(value), *condition, *ttl)
                    }
                    Action::Delete { condition } => (How::Delete, *condition, None),
                    Action::Increment(by) => (How::Increment(*by, number), Condition::Always, None),
                    Action::Expire(ttl) => (How::Expire, Condition::Present, *ttl),
                    _ => continue,
                };
                Kind::Change { how, condition, made, expiry: operation.expiry(ttl, rules.slack) }
            }
            _ => continue,
        };
        steps.push(Step { invoked: operation.invoked, completed, required, kind });
    }
    steps.sort_by_key(|step| step.invoked);
    steps
}

/// Gives every text a number.
#[derive(Default)]
struct Texts<'a>(BTreeMap<&'a str, u32>);

impl<'a> Texts<'a> {
    fn value(&mut self, text: &'a str) -> Value {
        // Only what an increment would write is a number.
        if let Some(number) = text.parse::<i64>().ok().filter(|number| number.to_string() == text) {
            return Value::Number(number);
        }
        let next = self.0.len() as u32;
        Value::Text(*self.0.entry(text).or_insert(next))
    }
}

/// What answers tell about writes that got none.
struct Observed<'a> {
    /// Values that were read: when the first read of them was answered, and their version, if it is the writer's.
    values: BTreeMap<&'a str, (Time, Option<Version>)>,
    /// Whether a refusal or a condition names a version that nobody is known to have made: it may be anybody's.
    unattributed: bool,
    /// Whether somebody needed there to be a value, and did not say which.
    presence: bool,
    /// Whether values are numbers that come about in many ways.
    numbers: bool,
}

/// A value that may have been written and was not read.
const GHOST: Value = Value::Text(u32::MAX);

impl<'a> Observed<'a> {
    fn of(operations: &'a [Operation], renewals: bool) -> Observed<'a> {
        let mut values: BTreeMap<&str, (Time, Option<Version>)> = BTreeMap::new();
        let mut versions = BTreeSet::from([Version::ZERO]);
        let expires = operations.iter().any(|operation| matches!(operation.action, Action::Expire(_)));
        let numbers = operations.iter().any(|operation| matches!(operation.action, Action::Increment(_)));
        for operation in operations {
            if let Outcome::Changed { version, .. } = operation.outcome {
                versions.insert(version);
            }
            let (Some(seen), Some(completed)) = (operation.seen(), operation.completed) else { continue };
            versions.insert(seen.version);
            let version = (!expires && !renewals).then_some(seen.version);
            let entry = values.entry(&seen.value).or_insert((completed, version));
            entry.0 = entry.0.min(completed);
            if entry.1 != version {
                entry.1 = None;
            }
        }
        let unattributed = operations.iter().any(|operation| match (&operation.outcome, &operation.action) {
            (Outcome::ConditionFailed(version), _) => !versions.contains(version),
            (_, Action::Write { condition: Condition::Version(version), .. })
            | (_, Action::Delete { condition: Condition::Version(version) }) => !versions.contains(version),
            _ => false,
        });
        let presence = operations.iter().any(|operation| match &operation.action {
            Action::Write { condition, .. } | Action::Delete { condition } => {
                *condition == Condition::Present && operation.effect() != Effect::Never
            }
            Action::Expire(_) => true,
            _ => false,
        });
        Observed { values, unattributed, presence, numbers }
    }
}

impl State {
    /// Says whether a step may find a value, and whether it may find none.
    fn there(&self, step: &Step) -> (bool, bool) {
        if self.wild {
            return (true, true);
        }
        match (self.value, self.expiry) {
            (None, _) => (false, true),
            (Some(_), None) => (true, false),
            (Some(_), Some((earliest, latest))) => (step.invoked <= latest, step.completed >= earliest),
        }
    }

    /// Returns the state in which the version of the value is known to be this one, if it can be.
    fn at(self, version: Version, renewals: bool) -> Option<State> {
        let fits = match self.known {
            true => self.version == version || (renewals && self.version < version),
            false => self.version < version,
        };
        fits.then_some(State { version, known: true, ..self })
    }

    /// Returns the state after a value was written.
    fn with(
        self,
        value: Option<Value>,
        made: Option<Version>,
        expiry: Option<(Time, Time)>,
    ) -> Option<State> {
        match made {
            Some(version) => {
                let state = State { wild: false, value, version, known: true, expiry };
                (version > self.version).then_some(state)
            }
            None => Some(State { wild: false, value, version: self.version, known: false, expiry }),
        }
    }

    /// Returns the state in which the value, if it may be any, is this one. It may end at any time.
    fn holding(self, value: Value) -> Option<State> {
        if self.wild {
            return Some(State {
                wild: false,
                value: Some(value),
                expiry: Some((Time::ZERO, NEVER)),
                ..self
            });
        }
        (self.value == Some(value)).then_some(self)
    }
}

impl Step {
    /// Returns the states this step may lead to: none if its answer does not fit.
    fn after(&self, state: State, renewals: bool) -> [Option<State>; 2] {
        let (present, absent) = state.there(self);
        match self.kind {
            // A value that ended by a clock that is ahead may be seen again by another.
            Kind::Read(None) => [absent.then_some(state), None],
            Kind::Read(Some((value, version))) => {
                let held = state.holding(value).filter(|_| present);
                [held.and_then(|state| state.at(version, renewals)), None]
            }
            Kind::Refused(condition, Version::ZERO) => {
                let fits = absent && condition != Condition::Absent;
                [fits.then_some(state), None]
            }
            Kind::Refused(condition, version) => {
                let holds = match condition {
                    Condition::Always | Condition::Present => true,
                    Condition::Absent => false,
                    Condition::Version(expected) => expected == version,
                };
                [state.at(version, renewals).filter(|_| present && !holds), None]
            }
            Kind::Change { how, condition, made, expiry } => {
                let held = match condition {
                    Condition::Always => Some(state),
                    Condition::Absent => absent.then_some(state),
                    Condition::Present => present.then_some(state),
                    Condition::Version(expected) => state.at(expected, renewals).filter(|_| present),
                };
                let Some(state) = held else { return [None, None] };
                self.changed(state, (present, absent), how, made, expiry)
            }
        }
    }

    fn changed(
        &self,
        state: State,
        (present, absent): (bool, bool),
        how: How,
        made: Option<Version>,
        expiry: Option<(Time, Time)>,
    ) -> [Option<State>; 2] {
        match how {
            How::Write(value) => [state.with(Some(value), made, expiry), None],
            // Nothing had to be deleted.
            How::Delete if made == Some(Version::ZERO) => [absent.then_some(state), None],
            How::Delete => [state.with(None, made, None), None],
            How::Expire => {
                let after = state.with(state.value, made, expiry).filter(|_| present);
                [after.map(|after| State { wild: state.wild, ..after }), None]
            }
            How::Increment(by, number) if state.wild => {
                let value = number.map(Value::Number);
                let after = state.with(value, made, Some((Time::ZERO, NEVER)));
                // Without a number nobody knows what it came to.
                [
                    after.map(|after| State { wild: number.is_none(), ..after }).filter(|_| by != i64::MIN),
                    None,
                ]
            }
            How::Increment(by, number) => {
                let counted = |before: i64, expiry| {
                    let sum = before.checked_add(by).filter(|sum| number.is_none_or(|number| number == *sum));
                    state.with(Some(Value::Number(sum?)), made, expiry)
                };
                // A number keeps its time to live when it is counted up.
                let on = match state.value {
                    Some(Value::Number(before)) if present => counted(before, state.expiry),
                    _ => None,
                };
                [on, absent.then(|| counted(0, None)).flatten()]
            }
        }
    }
}

struct Search {
    /// By the time they were asked.
    steps: Vec<Step>,
    /// What was tried: the steps done, and the state they led to.
    seen: HashSet<(Box<[u64]>, State)>,
    renewals: bool,
    budget: usize,
    done: Vec<u64>,
}

impl Search {
    fn is_done(&self, step: usize) -> bool {
        self.done[step / 64] >> (step % 64) & 1 == 1
    }

    fn flip(&mut self, step: usize) {
        self.done[step / 64] ^= 1 << (step % 64);
    }

    /// Says whether what is left can be put in order from here.
    fn ends_well(&mut self, state: State) -> bool {
        if self.budget == 0 {
            return false;
        }
        self.budget -= 1;
        let Some(next) = self.next() else { return true };
        // A look that fits and changes nothing can as well be taken now.
        let looks = |step: &Step| {
            step.required
                && !matches!(step.kind, Kind::Change { .. })
                && step.after(state, self.renewals)[0] == Some(state)
        };
        if let Some(&look) = next.iter().find(|step| looks(&self.steps[**step])) {
            return self.go_on(look, state);
        }
        if !self.seen.insert((self.done.clone().into_boxed_slice(), state)) {
            return false;
        }
        let (required, optional): (Vec<usize>, Vec<usize>) =
            next.into_iter().partition(|step| self.steps[*step].required);
        let mut stuck = state.expiry.is_some() || !state.known;
        for step in required {
            let after = self.steps[step].after(state, self.renewals);
            let vague = match self.steps[step].kind {
                Kind::Change { how: How::Expire, .. } => true,
                // Only a version was seen, and it may be a renewed one.
                Kind::Refused(..) | Kind::Change { condition: Condition::Version(_), .. } => self.renewals,
                _ => false,
            };
            stuck |= vague || after == [None, None];
            if after.into_iter().flatten().any(|state| self.go_on(step, state)) {
                return true;
            }
        }
        if !stuck {
            return false;
        }
        for (at, step) in optional.iter().enumerate() {
            // Of several that would do the same, the first asked.
            let kind = self.steps[*step].kind;
            if optional[..at].iter().any(|earlier| self.steps[*earlier].kind == kind) {
                continue;
            }
            if self.steps[*step]
                .after(state, self.renewals)
                .into_iter()
                .flatten()
                .any(|state| self.go_on(*step, state))
            {
                return true;
            }
        }
        false
    }

    fn go_on(&mut self, step: usize, state: State) -> bool {
        self.flip(step);
        let good = self.ends_well(state);
        self.flip(step);
        good
    }

    /// Returns the steps that may come next, those answered first in front. `None` if nothing has to.
    fn next(&self) -> Option<Vec<usize>> {
        let (mut next, mut end, mut left) = (Vec::new(), NEVER, false);
        for (at, step) in self.steps.iter().enumerate() {
            // Asked after somebody who is not in the order yet was answered.
            if step.invoked > end {
                break;
            }
            if !self.is_done(at) {
                next.push(at);
                if step.required {
                    left = true;
                    end = end.min(step.completed);
                }
            }
        }
        next.retain(|step| self.steps[*step].invoked <= end);
        next.sort_by_key(|step| self.steps[*step].completed);
        left.then_some(next)
    }
}
