//! The search for an order: Wing and Gong's, remembering which sets of operations were seen to lead to which state
//! (Lowe, "Testing for linearizability").
//!
//! Three things keep it short. A read that fits where the search stands is put there at once: it changes nothing for
//! others. A write whose outcome is unknown has either been read, and then happened before that read was answered, or
//! nobody has seen it, and mostly it is as if it had never been. And what else may have happened is only tried where an answer
//! does not fit without it, or does not say what it found. If the increments of unknown outcome are different powers of two, the
//! number somebody was told says which of them have happened: no others are tried.

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
    if let Some(reason) = renewed(operations).filter(|_| !rules.renewals) {
        return Verdict::Bad(Some(reason));
    }
    let mut search = Search {
        steps: steps(operations, rules),
        seen: HashSet::new(),
        keeps: operations.iter().any(|operation| matches!(operation.action, Action::Expire(_))),
        digits: are_digits(operations),
        budget: rules.budget,
        done: Vec::new(),
    };
    search.done = vec![0; search.steps.len().div_ceil(64)];
    let wild = start == Start::Anything;
    if search.ends_well(State {
        wild,
        value: None,
        least: Version::ZERO,
        told: None,
        seen: Version::ZERO,
        expiry: None,
    }) {
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
    /// The version is not lower than this.
    least: Version,
    /// Nor lower than this, for who asks after that time: the answer to whoever made it said so.
    told: Option<(Time, Version)>,
    /// The highest version somebody was told: whatever follows has a higher one.
    seen: Version,
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
    /// It comes before everything acknowledged that was asked for after this ([`Rules::late`]).
    overdue: Time,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read(Option<(Value, Version)>),
    /// A condition that did not hold, the version it was told, and whose that is, if that is known.
    Refused(Condition, Version, Option<Value>),
    Change {
        how: How,
        condition: Condition,
        /// Whose version the condition is on, if that is known.
        owner: Option<Value>,
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

/// Finds a value that was seen at two versions, though nobody gave it another time to live.
fn renewed(operations: &[Operation]) -> Option<String> {
    let many = |operation: &Operation| matches!(operation.action, Action::Expire(_) | Action::Increment(_));
    if operations.iter().any(many) {
        return None;
    }
    let mut versions: BTreeMap<&str, Version> = BTreeMap::new();
    for operation in operations {
        let (value, version) = match (&operation.action, &operation.outcome) {
            (_, Outcome::Value(Some(seen))) => (&seen.value, seen.version),
            (Action::Write { value, .. }, Outcome::Changed { version, .. }) => (value, *version),
            _ => continue,
        };
        let first = *versions.entry(value).or_insert(version);
        if first != version {
            return Some(format!("{value} is at {first:?} and at {version:?}"));
        }
    }
    None
}

/// Says whether the increments of unknown outcome are different powers of two, up or down, and nothing but increments and
/// deletes changes the number: then it tells which of them have happened.
fn are_digits(operations: &[Operation]) -> bool {
    let mut seen = BTreeSet::new();
    operations.iter().all(|operation| match operation.action {
        Action::Increment(by) if operation.effect() == Effect::Possible => {
            by.unsigned_abs().is_power_of_two() && seen.insert(by.unsigned_abs())
        }
        Action::Increment(_) | Action::Read => true,
        Action::Delete { condition } => condition == Condition::Always,
        _ => false,
    })
}

/// Returns what the search has to put in order.
fn steps(operations: &[Operation], rules: &Rules) -> Vec<Step> {
    let mut texts = Texts::default();
    let observed = Observed::of(operations);
    let owners = owners(operations, &mut texts);
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
                Kind::Refused(condition, *version, owners.get(version).copied())
            }
            (Action::Read, Outcome::Value(seen)) => {
                Kind::Read(seen.as_ref().map(|seen| (texts.value(&seen.value), seen.version)))
            }
            (action, outcome) if operation.effect() != Effect::Never => {
                let (made, number) = match outcome {
                    Outcome::Changed { version, number } => (Some(*version), *number),
                    _ => (None, None),
                };
                let (how, condition, ttl) = match action {
                    Action::Write { value: text, ttl, condition } => {
                        if !required && !observed.numbers {
                            match observed.values.get(text.as_str()) {
                                // It happened before anybody was told of it.
                                Some(first) => (required, completed) = (true, *first),
                                // All that nobody has read are alike. One that ended by itself has left nothing behind.
                                None if observed.unattributed || observed.presence || ttl.is_some() => {
                                    ghost = true
                                }
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
                let owner = match condition {
                    Condition::Version(version) => owners.get(&version).copied(),
                    _ => None,
                };
                Kind::Change { how, condition, owner, made, expiry: operation.expiry(ttl, rules.slack) }
            }
            _ => continue,
        };
        let overdue = operation.overdue(rules);
        steps.push(Step { invoked: operation.invoked, completed, required, overdue, kind });
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

/// Returns whose versions are, as far as answers say so.
fn owners<'a>(operations: &'a [Operation], texts: &mut Texts<'a>) -> BTreeMap<Version, Value> {
    let mut owners = BTreeMap::new();
    for operation in operations {
        let owned = match (&operation.action, &operation.outcome) {
            (_, Outcome::Value(Some(seen))) => (seen.version, texts.value(&seen.value)),
            (Action::Write { value, .. }, Outcome::Changed { version, .. }) => (*version, texts.value(value)),
            (_, Outcome::Changed { version, number: Some(number) }) => (*version, Value::Number(*number)),
            _ => continue,
        };
        owners.insert(owned.0, owned.1);
    }
    owners
}

/// What answers tell about writes that got none.
struct Observed<'a> {
    /// Values that were read, and when the first read of them was answered.
    values: BTreeMap<&'a str, Time>,
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
    fn of(operations: &'a [Operation]) -> Observed<'a> {
        let mut values: BTreeMap<&str, Time> = BTreeMap::new();
        let mut versions = BTreeSet::from([Version::ZERO]);
        let numbers = operations.iter().any(|operation| matches!(operation.action, Action::Increment(_)));
        for operation in operations {
            if let Outcome::Changed { version, .. } = operation.outcome {
                versions.insert(version);
            }
            let (Some(seen), Some(completed)) = (operation.seen(), operation.completed) else { continue };
            versions.insert(seen.version);
            let first = values.entry(&seen.value).or_insert(completed);
            *first = completed.min(*first);
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

    /// Returns the lowest version a step may find.
    fn least(&self, step: &Step) -> Version {
        match self.told {
            Some((at, version)) if step.invoked > at => version.max(self.least),
            _ => self.least,
        }
    }

    /// Returns the state in which a step can have found this version, and whose it is.
    fn at(self, version: Version, owner: Option<Value>, step: &Step) -> Option<State> {
        let held = owner.map_or(Some(self), |owner| self.holding(owner));
        let held = held.filter(|_| self.least(step) <= version)?;
        Some(State { seen: held.seen.max(version), ..held })
    }

    /// Returns the state after a step changed the value.
    fn with(
        self,
        value: Option<Value>,
        made: Option<Version>,
        expiry: Option<(Time, Time)>,
        step: &Step,
    ) -> Option<State> {
        let least = Version(self.least(step).max(self.seen).0 + 1);
        let told = made.map(|version| (step.completed, version));
        let state = State { wild: false, value, least, told, seen: Version::ZERO, expiry };
        made.is_none_or(|version| least <= version).then_some(state)
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
    /// Says whether this is a change that was acknowledged.
    fn is_acknowledged(&self) -> bool {
        matches!(self.kind, Kind::Change { made: Some(version), .. } if version != Version::ZERO)
    }

    /// Returns the states this step may lead to: none if its answer does not fit.
    fn after(&self, state: State) -> [Option<State>; 2] {
        let (present, absent) = state.there(self);
        match self.kind {
            // A value that ended by a clock that is ahead may be seen again by another.
            Kind::Read(None) => [absent.then_some(state), None],
            Kind::Read(Some((value, version))) => {
                [state.at(version, Some(value), self).filter(|_| present), None]
            }
            Kind::Refused(condition, Version::ZERO, _) => {
                let fits = absent && condition != Condition::Absent;
                [fits.then_some(state), None]
            }
            Kind::Refused(condition, version, owner) => {
                let holds = match condition {
                    Condition::Always | Condition::Present => true,
                    Condition::Absent => false,
                    Condition::Version(expected) => expected == version,
                };
                [state.at(version, owner, self).filter(|_| present && !holds), None]
            }
            Kind::Change { how, condition, owner, made, expiry } => {
                let held = match condition {
                    Condition::Always => Some(state),
                    Condition::Absent => absent.then_some(state),
                    Condition::Present => present.then_some(state),
                    Condition::Version(expected) => state.at(expected, owner, self).filter(|_| present),
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
            How::Write(value) => [state.with(Some(value), made, expiry, self), None],
            // Nothing had to be deleted.
            How::Delete if made == Some(Version::ZERO) => [absent.then_some(state), None],
            How::Delete => [state.with(None, made, None, self), None],
            How::Expire => {
                let after = state.with(state.value, made, expiry, self).filter(|_| present);
                [after.map(|after| State { wild: state.wild, ..after }), None]
            }
            How::Increment(by, number) if state.wild => {
                let value = number.map(Value::Number);
                let after = state.with(value, made, Some((Time::ZERO, NEVER)), self);
                // Without a number nobody knows what it came to.
                [
                    after.map(|after| State { wild: number.is_none(), ..after }).filter(|_| by != i64::MIN),
                    None,
                ]
            }
            How::Increment(by, number) => {
                let counted = |before: i64, expiry| {
                    let sum = before.checked_add(by).filter(|sum| number.is_none_or(|number| number == *sum));
                    state.with(Some(Value::Number(sum?)), made, expiry, self)
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
    /// Whether a value may stay and get another version: then versions tell one time it was there from another.
    keeps: bool,
    /// Whether a number tells which of the increments of unknown outcome have happened.
    digits: bool,
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
        // A look that fits and changes nothing can as well be taken now. If there is only one time its value was there,
        // that it was seen is no change: it will have been before that ends.
        let looks = |step: &Step| {
            let once = match step.kind {
                Kind::Change { .. } => return None,
                Kind::Read(Some((value, _))) | Kind::Refused(_, _, Some(value)) => {
                    matches!(value, Value::Text(_)) && !self.keeps
                }
                _ => false,
            };
            let after = step.after(state)[0]?;
            let same = State { seen: if once { state.seen } else { after.seen }, ..after } == state;
            (step.required && same).then_some(after)
        };
        let look = next.iter().find_map(|step| Some((*step, looks(&self.steps[*step])?)));
        if let Some((look, after)) = look {
            return self.go_on(look, after);
        }
        if !self.seen.insert((self.done.clone().into_boxed_slice(), state)) {
            return false;
        }
        let (required, optional): (Vec<usize>, Vec<usize>) =
            next.into_iter().partition(|step| self.steps[*step].required);
        let told = self.told_increments(state, &required, &optional);
        let mut stuck = state.expiry.is_some();
        for step in required {
            let after = self.steps[step].after(state);
            let vague = match self.steps[step].kind {
                Kind::Change { how: How::Expire, .. } => true,
                // Only a version was seen, and it may be anybody's.
                Kind::Refused(_, _, None) => true,
                Kind::Change { condition: Condition::Version(_), owner: None, .. } => true,
                _ => state.wild,
            };
            stuck |= vague || after == [None, None];
            if after.into_iter().flatten().any(|state| self.go_on(step, state)) {
                return true;
            }
        }
        for (at, step) in optional.iter().enumerate() {
            let kind = self.steps[*step].kind;
            // What gives a value another time to live gives it the version that was read, too: later is too late.
            if !stuck && !matches!(kind, Kind::Change { how: How::Expire, .. }) {
                continue;
            }
            if told.as_ref().is_some_and(
                |told| matches!(kind, Kind::Change { how: How::Increment(by, _), .. } if !told.contains(&by)),
            ) {
                continue;
            }
            // Of several that would do the same, the first asked.
            if optional[..at].iter().any(|earlier| self.steps[*earlier].kind == kind) {
                continue;
            }
            if self.steps[*step].after(state).into_iter().flatten().any(|state| self.go_on(*step, state)) {
                return true;
            }
        }
        false
    }

    /// Returns the increments of unknown outcome that lead to a number which one of the steps that must come was told.
    /// Others need not be tried before it. `None` if numbers do not tell.
    fn told_increments(&self, state: State, required: &[usize], optional: &[usize]) -> Option<BTreeSet<i64>> {
        let before = match state.value {
            None => 0,
            Some(Value::Number(number)) => number,
            Some(Value::Text(_)) => return None,
        };
        if !self.digits || state.wild || state.expiry.is_some() {
            return None;
        }
        let open: BTreeSet<(u32, i64)> = optional
            .iter()
            .filter_map(|step| match self.steps[*step].kind {
                Kind::Change { how: How::Increment(by, _), .. } => Some((by.trailing_zeros(), by)),
                _ => None,
            })
            .collect();
        let mut told = BTreeSet::new();
        for step in required {
            let found = match self.steps[*step].kind {
                Kind::Read(Some((Value::Number(number), _))) => number,
                Kind::Change { how: How::Increment(by, Some(number)), .. } => number.wrapping_sub(by),
                _ => continue,
            };
            // From the lowest digit on, each is there or not.
            let (mut left, mut used) = (found.wrapping_sub(before), Vec::new());
            for (digit, by) in &open {
                if left.trailing_zeros() == *digit {
                    left = left.wrapping_sub(*by);
                    used.push(*by);
                }
            }
            if left == 0 {
                told.extend(used);
            }
        }
        Some(told)
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
        // When the latest of what was acknowledged and is in the order was asked for.
        let mut acknowledged = Time::ZERO;
        for (at, step) in self.steps.iter().enumerate() {
            // Asked after somebody who is not in the order yet was answered.
            if step.invoked > end {
                break;
            }
            if self.is_done(at) {
                if step.is_acknowledged() {
                    acknowledged = acknowledged.max(step.invoked);
                }
                continue;
            }
            next.push(at);
            if step.required {
                left = true;
                end = end.min(step.completed);
            }
        }
        if next.iter().any(|step| self.steps[*step].required && self.steps[*step].overdue < acknowledged) {
            // Somebody has read it, so it happened; but it is too late for that.
            return Some(Vec::new());
        }
        next.retain(|step| {
            let step = &self.steps[*step];
            step.invoked <= end && step.overdue >= acknowledged
        });
        next.sort_by_key(|step| self.steps[*step].completed);
        left.then_some(next)
    }
}
