//! A stand-in for the store, for tests of the tests: one map that answers everything rightly, or with a planted bug.

use std::collections::BTreeMap;
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Failure, Reply, RequestId};
use kringle_core::store::op::{
    Action, Answer, Ask, Change, Condition, Digest, Found, Happened, Trouble, Value,
};
use kringle_core::store::version::Version;
use kringle_core::time::Time;

use super::Desk;
use crate::world::{Answered, World};

/// A promise that is broken now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// An acknowledged write is not there.
    LosesWrites,
    /// A read returns what was there before.
    ReadsStale,
    /// A condition is not looked at.
    IgnoresConditions,
    /// What was deleted comes back.
    UndoesDeletes,
    /// An increment that was answered is forgotten.
    Miscounts,
    /// A value that was added is not there.
    LosesAdds,
    /// A value that was removed stays.
    KeepsRemoved,
    /// A write that is said not to have happened has.
    Lies,
    /// A value outlives its time.
    OutlivesTtl,
    /// A value ends before its time.
    CutsTtl,
    /// Times to live go by the time of day of whichever node is asked.
    TrustsClocks,
    /// A change whose outcome nobody knows happens long after that.
    ActsLate,
    /// A question stays without an answer.
    IsMute,
    /// One key can not be reached any more, even when all is well.
    GivesUp,
}

impl Bug {
    pub(crate) const ALL: [Bug; 14] = [
        Bug::LosesWrites,
        Bug::ReadsStale,
        Bug::IgnoresConditions,
        Bug::UndoesDeletes,
        Bug::Miscounts,
        Bug::LosesAdds,
        Bug::KeepsRemoved,
        Bug::Lies,
        Bug::OutlivesTtl,
        Bug::CutsTtl,
        Bug::TrustsClocks,
        Bug::ActsLate,
        Bug::IsMute,
        Bug::GivesUp,
    ];
}

/// How long answers take at most.
const DELAY: usize = 50_000;
/// One of so many answers is lost.
const LOST: usize = 30;
/// A bug shows once in so many times.
const RARE: usize = 12;

#[derive(Clone, Default)]
struct Entry {
    value: Option<Value>,
    before: Option<Value>,
    members: BTreeMap<Digest, Value>,
}

pub(crate) struct PerfectStore {
    entries: BTreeMap<Vec<u8>, Entry>,
    waiting: Vec<(Time, Answered)>,
    /// What happens later than anybody expects, and when.
    late: Vec<(Time, Ask)>,
    requests: u64,
    bug: Option<Bug>,
    dice: SeededDice,
    last: Version,
}

impl PerfectStore {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> PerfectStore {
        PerfectStore {
            entries: BTreeMap::new(),
            waiting: Vec::new(),
            late: Vec::new(),
            requests: 1 << 40,
            bug,
            dice: SeededDice::derive(seed, 77),
            last: Version::at(1),
        }
    }

    fn shows(&mut self, bug: Bug) -> bool {
        self.bug == Some(bug) && self.dice.below(RARE) == 0
    }

    /// Does what is asked for.
    fn act(&mut self, ask: Ask, wall: u64) -> Result<Found, Trouble> {
        let mut entry = self.entries.get(&ask.name.bytes).cloned().unwrap_or_default();
        if self.bug != Some(Bug::OutlivesTtl) {
            entry.value = entry.value.filter(|value| value.expires.is_none_or(|end| end > wall));
            entry.members.retain(|_, value| value.expires.is_none_or(|end| end > wall));
        }
        self.last = self.last.max(Version::at(wall)).next(0);
        let version = self.last;
        let cut = if self.bug == Some(Bug::CutsTtl) { 10 } else { 1 };
        let expires = |ttl: Option<Duration>| ttl.map(|ttl| wall + ttl.as_millis() as u64 / cut);
        let changed = |created, number, version: Version| Ok(Found::Changed { version, created, number });
        let mut forgets = false;
        let found = match ask.action {
            Action::Get => {
                let stale = self.shows(Bug::ReadsStale);
                return Ok(Found::Value(if stale { entry.before } else { entry.value }));
            }
            Action::Members => return Ok(Found::Members(entry.members.into_values().collect())),
            Action::Add { digest, value, ttl } => {
                forgets = self.shows(Bug::LosesAdds);
                let value = Value { bytes: value, version, expires: expires(ttl) };
                changed(entry.members.insert(digest, value).is_none(), None, version)
            }
            Action::Remove { digest } => {
                forgets = self.shows(Bug::KeepsRemoved);
                let there = entry.members.remove(&digest).is_some();
                changed(there, None, if there { version } else { Version::ZERO })
            }
            Action::Change { change, condition } => {
                let is = entry.value.as_ref().map_or(Version::ZERO, |value| value.version);
                let present = entry.value.is_some() || !entry.members.is_empty();
                let holds = match condition {
                    Condition::Always => true,
                    Condition::Absent => !present,
                    Condition::Present => present,
                    Condition::Version(version) => present && version == is,
                };
                if !holds && !self.shows(Bug::IgnoresConditions) {
                    return Err(Trouble::ConditionFailed(is));
                }
                let before = entry.value.clone();
                let created = !present;
                let mut number = None;
                let mut version = version;
                match change {
                    Change::Put { value, ttl } => {
                        forgets = self.shows(Bug::LosesWrites);
                        entry.value = Some(Value { bytes: value, version, expires: expires(ttl) });
                    }
                    Change::Delete => {
                        forgets = self.shows(Bug::UndoesDeletes);
                        (entry.value, entry.members) = (None, BTreeMap::new());
                        if !present {
                            version = Version::ZERO;
                        }
                    }
                    Change::Increment(by) => {
                        forgets = self.shows(Bug::Miscounts);
                        let text = |value: &Value| String::from_utf8_lossy(&value.bytes).into_owned();
                        let sum = by + before.as_ref().map_or(0, |value| text(value).parse().unwrap_or(0));
                        let expires = before.as_ref().and_then(|value| value.expires);
                        entry.value = Some(Value { bytes: sum.to_string().into_bytes(), version, expires });
                        number = Some(sum);
                    }
                    Change::Expire(ttl) => match &mut entry.value {
                        None => return Err(Trouble::ConditionFailed(Version::ZERO)),
                        Some(value) => (value.expires, value.version) = (expires(ttl), version),
                    },
                }
                entry.before = before;
                changed(created, number, version)
            }
            Action::Place | Action::Keys { .. } => return Err(Trouble::BadRequest),
        };
        if !forgets {
            self.entries.insert(ask.name.bytes, entry);
        }
        found
    }
}

impl PerfectStore {
    /// Returns the time of the cluster, in milliseconds: a perfect one, whatever the time of day of its nodes is.
    fn time(&self, world: &World, node: u32) -> u64 {
        let wall = world.wall(node);
        match self.bug {
            Some(Bug::TrustsClocks) => wall,
            _ => wall.saturating_add_signed(-world.wall_offset(node)),
        }
    }
}

impl Desk for PerfectStore {
    fn ask(&mut self, world: &mut World, node: u32, ask: Ask, deadline: Duration) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        let (now, time) = (world.now(), self.time(world, node));
        let (due, late) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = late;
        let due: Vec<(Time, Ask)> = due;
        for (_, ask) in due {
            let _ = self.act(ask, time);
        }
        let mut delay = Duration::from_micros(1 + self.dice.below(DELAY) as u64);
        let timeout = |happened| Err(Failure::Store(Trouble::Timeout { happened }));
        let reads = matches!(ask.action, Action::Get | Action::Members);
        let given_up = self.bug == Some(Bug::GivesUp) && ask.name.bytes == b"v0";
        let reply = if given_up {
            timeout(Happened::No)
        } else if self.shows(Bug::IsMute) {
            return request;
        } else if !reads && self.shows(Bug::Lies) {
            let _ = self.act(ask, time);
            timeout(Happened::No)
        } else if self.dice.below(LOST) == 0 {
            delay = deadline;
            if self.bug == Some(Bug::ActsLate) && !reads {
                let late = Duration::from_millis(6_000 + self.dice.below(15_000) as u64);
                self.late.push((now.after(late), ask));
            } else if self.dice.below(2) == 0 {
                let _ = self.act(ask, time);
            }
            timeout([Happened::Some, Happened::Unknown][self.dice.below(2)])
        } else {
            let answer =
                |found| Reply::Store(Box::new(Answer { found, acked: 2, wanted: 2, replicas: 3, hops: 1 }));
            self.act(ask, time).map(answer).map_err(Failure::Store)
        };
        let at = world.now().after(delay);
        self.waiting.push((at, Answered { at, node, request, reply }));
        request
    }

    fn answers(&mut self, world: &mut World) -> Vec<Answered> {
        world.take_replies();
        let now = world.now();
        let (due, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= now);
        self.waiting = waiting;
        let due: Vec<(Time, Answered)> = due;
        due.into_iter().map(|(_, answered)| answered).collect()
    }
}
