//! Conditional writes: a ballot on the members of the view. First a quorum promises and tells what it has, then what
//! is made of that is written under the ballot.

use alloc::vec::Vec;
use core::time::Duration;

use super::Store;
use super::message::{Response, Verdict};
use super::op::{Action, Change, Condition, Found, Happened, Trouble};
use super::operation::{Stage, Then, Writing, ends};
use super::reading::value;
use super::record::{Cell, Kind, Record};
use super::sets::is_stale;
use super::version::Version;
use crate::edge::Ctx;
use crate::overlay::Routes;

/// How often a conditional operation tries a higher ballot.
const ROUNDS: u8 = 32;

/// What a change makes of a record.
enum Made {
    Record { kind: Kind, ends: u64, value: Vec<u8>, created: bool, number: Option<i64> },
    Nothing(Found),
    Trouble(Trouble),
    Outdated(Version),
}

impl Store {
    /// Starts a conditional write, or starts it over, under a new ballot.
    pub(super) fn prepare_ballot(&mut self, id: u32, cell: Cell, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if self.ops.get(&id).is_some_and(|op| op.deadline <= cx.now) {
            return self.give_up(id, ring, cx);
        }
        let ballot = self.make_version(self.latest(cx), cx);
        let Some(op) = self.ops.get_mut(&id) else { return };
        let Some(ballot) = ballot else {
            op.stage = Stage::Waiting;
            return;
        };
        op.rounds += 1;
        if op.rounds > ROUNDS {
            let happened = if op.proposed.is_some() { Happened::Unknown } else { Happened::No };
            return self.fail(id, self.too_few(id, happened), ring, cx);
        }
        self.stage(id, Stage::Preparing { cell, ballot, heard: Vec::new(), refused: 0 }, ring, cx);
    }

    /// A member has promised, or not.
    pub(super) fn prepared(
        &mut self,
        id: u32,
        place: u8,
        verdict: Verdict,
        members: usize,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        let Stage::Preparing { heard, refused, cell, .. } = &mut op.stage else { return };
        match verdict {
            Verdict::Promised(bytes) => {
                let record = bytes.map(|bytes| Record::read(cell, &bytes.0)).transpose();
                match record {
                    Ok(record) if heard.iter().all(|(at, _)| *at != place) => heard.push((place, record)),
                    _ => return,
                }
            }
            _ => *refused |= 1 << place,
        }
        let quorum = members / 2 + 1;
        if heard.len() >= quorum {
            self.decide(id, ring, cx);
        } else if members - (refused.count_ones() as usize) < quorum {
            let cell = cell.clone();
            if let Some(trouble) = op.trouble {
                return self.fail(id, trouble, ring, cx);
            }
            // Somebody else is at it: a little later, by chance.
            if op.rounds > 2 {
                let pause = cx.dice.roll() % (u64::from(op.rounds) * 10);
                op.stage = Stage::Waiting;
                op.attempt = op.attempt.wrapping_add(1);
                op.again = cx.now.after(Duration::from_millis(pause));
                return;
            }
            self.prepare_ballot(id, cell, ring, cx);
        }
    }

    /// A quorum has promised: decides what is to be written, from the greatest record it told of.
    fn decide(&mut self, id: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let Stage::Preparing { cell, ballot, heard, .. } = &op.stage else { return };
        let (cell, ballot) = (cell.clone(), *ballot);
        let highest = heard.iter().filter_map(|(_, record)| record.clone()).max_by_key(Record::rank);
        let rank = highest.as_ref().map(Record::rank);
        let agreed = heard.iter().all(|(_, record)| record.as_ref().map(Record::rank) == rank);
        let base = highest.as_ref().map_or(Version::ZERO, Record::version);
        if let Some(based) = op.proposed {
            match &highest {
                Some(record) if record.origin() == op.origin => {
                    // Ours: it was accepted by some, and now by enough.
                    let number = core::str::from_utf8(record.value()).ok().and_then(|text| text.parse().ok());
                    let increment =
                        matches!(op.ask.action, Action::Change { change: Change::Increment(_), .. });
                    let created = based == Version::ZERO;
                    let then = match op.ask.action {
                        Action::Add { .. } => Then::Add,
                        _ => Then::Changed { created, number: number.filter(|_| increment), ballot: true },
                    };
                    return self.propose(id, cell.clone(), record.again(&cell, ballot), then, ring, cx);
                }
                _ if base == based => {}
                _ => {
                    let trouble = self.too_few(id, Happened::Unknown);
                    return self.fail(id, trouble, ring, cx);
                }
            }
        }
        let times = Times { now: self.time(cx), at: op.at };
        let made = make(&op.ask.action, highest.as_ref(), (op.version, ballot), times);
        let (origin, quorum, asked) = (op.origin, heard.len(), op.version);
        // What this operation proposed before may be with a member that was not heard now: it must not be told that it failed and
        // then be found there (chaos seed 11000216).
        let open = op.proposed.is_some();
        let add = matches!(op.ask.action, Action::Add { .. });
        let again = matches!(op.ask.action, Action::Add { .. } | Action::Remove { .. } | Action::Members);
        match (made, highest) {
            (Made::Outdated(version), _) => self.close(id, Response::Outdated(version), ring, cx),
            (Made::Record { kind, ends, value, created, number }, _) => {
                if value.len() > cx.config.value_max as usize {
                    let limit = cx.config.value_max;
                    return self.fail(id, Trouble::TooLarge { limit }, ring, cx);
                }
                let record = Record::make(&cell, kind, ballot, origin, ends, &value);
                let then = if add { Then::Add } else { Then::Changed { created, number, ballot: true } };
                if let Some(op) = self.ops.get_mut(&id) {
                    op.proposed = Some(base);
                }
                self.propose(id, cell, record, then, ring, cx);
            }
            // Nothing changes; but what is told must be what everybody will see from now on.
            (made, Some(record)) if !agreed || open || (add && is_stale(&record, asked, cx)) => {
                let record = record.again(&cell, ballot);
                let then = match made {
                    Made::Trouble(trouble) => Then::Fail(trouble),
                    Made::Nothing(_) if again => Then::Again,
                    Made::Nothing(found) => Then::Tell(found),
                    Made::Record { .. } | Made::Outdated(_) => return,
                };
                self.propose(id, cell, record, then, ring, cx);
            }
            (Made::Trouble(trouble), _) => self.fail(id, trouble, ring, cx),
            (Made::Nothing(found), _) => match again {
                // What the key holds is settled: go on with that.
                true => self.begin(id, ring, cx),
                false => self.done(id, found, quorum, ring, cx),
            },
        }
    }

    pub(super) fn propose(
        &mut self,
        id: u32,
        cell: Cell,
        record: Record,
        then: Then,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let item = Writing { cell, record, set: None, have: 0, refused: 0, own: false };
        self.stage(id, Stage::Writing { items: alloc::vec![item], then }, ring, cx);
    }
}

/// Cluster time now, and when the user asked.
#[derive(Clone, Copy)]
struct Times {
    now: u64,
    at: u64,
}

/// Works out what a conditional action makes of the record there is.
fn make(action: &Action, record: Option<&Record>, (asked, ballot): (Version, Version), times: Times) -> Made {
    let live = record.filter(|record| record.is_live(times.now));
    let version = live.map_or(Version::ZERO, Record::version);
    let Action::Change { change, condition } = action else {
        // A read, or what comes before a change of a set: it only has to be settled what there is. But the first value
        // of a set makes the set.
        return match live.map(Record::kind) {
            Some(Kind::Set) if *action == Action::Get => Made::Trouble(Trouble::WrongKind),
            _ if *action == Action::Get => Made::Nothing(Found::Value(live.map(value))),
            None if !matches!(action, Action::Add { .. }) => {
                Made::Nothing(Found::Changed { version, created: false, number: None })
            }
            // An add from before what is there now: whoever asked may have been served by another, long ago.
            None if record.is_some_and(|record| record.version() > asked) => Made::Outdated(ballot),
            None => Made::Record {
                kind: Kind::Set,
                ends: 0,
                value: asked.0.to_be_bytes().to_vec(),
                created: true,
                number: None,
            },
            Some(Kind::Set) => Made::Nothing(Found::Changed { version, created: false, number: None }),
            Some(_) => Made::Trouble(Trouble::WrongKind),
        };
    };
    let holds = match condition {
        Condition::Always => true,
        Condition::Absent => live.is_none(),
        Condition::Present => live.is_some(),
        Condition::Version(wanted) => version == *wanted && live.is_some(),
    };
    if !holds {
        return Made::Trouble(Trouble::ConditionFailed(version));
    }
    let created = live.is_none();
    match change {
        Change::Put { value, ttl } => {
            let (value, ends) = (value.clone(), ends(*ttl, times.at));
            Made::Record { kind: Kind::Value, ends, value, created, number: None }
        }
        Change::Delete if live.is_none() => {
            Made::Nothing(Found::Changed { version: Version::ZERO, created, number: None })
        }
        Change::Delete => {
            Made::Record { kind: Kind::Gone, ends: 0, value: Vec::new(), created, number: None }
        }
        Change::Increment(by) => {
            let before = match live {
                None => Some(0),
                Some(record) if record.kind() == Kind::Value => {
                    core::str::from_utf8(record.value()).ok().and_then(|text| text.parse::<i64>().ok())
                }
                Some(_) => None,
            };
            match before.map(|before| before.checked_add(*by)) {
                None => Made::Trouble(Trouble::WrongKind),
                Some(None) => Made::Trouble(Trouble::OutOfRange),
                Some(Some(number)) => Made::Record {
                    kind: Kind::Value,
                    ends: live.and_then(Record::ends).unwrap_or(0),
                    value: alloc::format!("{number}").into_bytes(),
                    created,
                    number: Some(number),
                },
            }
        }
        Change::Expire(ttl) => match live {
            None => Made::Trouble(Trouble::ConditionFailed(Version::ZERO)),
            Some(record) => Made::Record {
                kind: record.kind(),
                ends: ends(*ttl, times.at),
                value: record.value().to_vec(),
                created: false,
                number: None,
            },
        },
    }
}
