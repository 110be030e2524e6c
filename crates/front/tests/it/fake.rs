//! A store in a map, with the answers a ring would give: what clients see can be tested without one.
//!
//! Keys that begin with `trouble:` have the trouble they name. Used by the tests of the command line, too.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kringle_core::id::{Id, Key};
use kringle_core::store::op::{
    Action, Answer, Ask, Change, Condition, CopyAt, Digest, Found, Happened, Level, Listed, Trouble, Value,
};
use kringle_core::store::version::Version;
use kringle_front::store::{Pending, Store};
use kringle_runtime::RequestError;

/// The largest value it takes. A node's own limit is checked before.
const VALUE_MAX: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Fake {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: BTreeMap<(Key, Vec<u8>), Record>,
    clock: u64,
    /// Everything that was asked, for whoever wants to see.
    asked: Vec<Ask>,
}

enum Record {
    One(Value),
    Set(BTreeMap<Digest, Value>),
}

impl Fake {
    /// Returns what was asked since the last time.
    #[allow(dead_code, reason = "only some of those who share this file look")]
    pub(crate) fn asked(&self) -> Vec<Ask> {
        std::mem::take(&mut self.state.lock().expect("no test panics in here").asked)
    }
}

impl Store for Fake {
    fn ask(&self, ask: Ask, _: Duration) -> Pending<'_> {
        Box::pin(async move {
            // Later than the rest of the window, so that an order which comes by chance does not come.
            for _ in 0..ask.name.bytes.len() % 5 {
                tokio::task::yield_now().await;
            }
            let mut state = self.state.lock().expect("no test panics in here");
            state.asked.push(ask.clone());
            state.answer(ask)
        })
    }
}

impl State {
    fn answer(&mut self, ask: Ask) -> Result<Answer, RequestError> {
        if let Some(name) = ask.name.bytes.strip_prefix(b"trouble:") {
            return Err(trouble(&String::from_utf8_lossy(name)));
        }
        let (acked, wanted) = match ask.level {
            Level::One => (1, 1),
            Level::Quorum => (2, 2),
            Level::All => (3, 3),
        };
        let found = self.found(ask).map_err(RequestError::Store)?;
        Ok(Answer { found, acked, wanted, replicas: 3, hops: 1 })
    }

    fn found(&mut self, ask: Ask) -> Result<Found, Trouble> {
        let at = (ask.name.id, ask.name.bytes);
        self.forget();
        match ask.action {
            Action::Get => match self.records.get(&at) {
                None => Ok(Found::Value(None)),
                Some(Record::One(value)) => Ok(Found::Value(Some(value.clone()))),
                Some(Record::Set(_)) => Err(Trouble::WrongKind),
            },
            Action::Members => match self.records.get(&at) {
                None => Ok(Found::Members(Vec::new())),
                Some(Record::One(_)) => Err(Trouble::WrongKind),
                Some(Record::Set(values)) => Ok(Found::Members(values.values().cloned().collect())),
            },
            Action::Change { change, condition } => self.change(at, change, condition),
            Action::Add { digest, value, ttl } => {
                let version = self.version();
                let record = self.records.entry(at).or_insert_with(|| Record::Set(BTreeMap::new()));
                let Record::Set(values) = record else { return Err(Trouble::WrongKind) };
                let value = Value { bytes: value, version, expires: ends(ttl) };
                let created = values.insert(digest, value).is_none();
                Ok(Found::Changed { version, created, number: None })
            }
            Action::Remove { digest } => {
                let version = self.version();
                let existed = match self.records.get_mut(&at) {
                    None => false,
                    Some(Record::One(_)) => return Err(Trouble::WrongKind),
                    Some(Record::Set(values)) => values.remove(&digest).is_some(),
                };
                let version = if existed { version } else { Version::ZERO };
                self.records.retain(|_, record| !matches!(record, Record::Set(values) if values.is_empty()));
                Ok(Found::Changed { version, created: existed, number: None })
            }
            Action::Place => {
                let version = self.records.get(&at).map_or(Version::ZERO, Record::version);
                let copy = |id: u128, version| CopyAt { node: Id::new(id << 120), version };
                let copies = vec![copy(0x5b, Some(version)), copy(0x5a, Some(version)), copy(0x5c, None)];
                Ok(Found::Place { slot: 7, epoch: 3, copies })
            }
            Action::Keys { after, limit } => Ok(self.keys((at.0, after), limit as usize)),
        }
    }

    fn change(&mut self, at: (Key, Vec<u8>), change: Change, condition: Condition) -> Result<Found, Trouble> {
        let current = self.records.get(&at).map_or(Version::ZERO, Record::version);
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => current == Version::ZERO,
            Condition::Present => current != Version::ZERO,
            Condition::Version(version) => current == version,
        };
        if !holds {
            return Err(Trouble::ConditionFailed(current));
        }
        let created = current == Version::ZERO;
        let version = self.version();
        let done = |created, number| Ok(Found::Changed { version, created, number });
        let old = match self.records.get(&at) {
            Some(Record::Set(_)) if !matches!(change, Change::Put { .. } | Change::Delete) => {
                return Err(Trouble::WrongKind);
            }
            Some(Record::One(value)) => Some(value.clone()),
            _ => None,
        };
        match change {
            Change::Put { value, .. } if value.len() > VALUE_MAX => {
                Err(Trouble::TooLarge { limit: VALUE_MAX as u32 })
            }
            Change::Put { value, ttl } => {
                self.records.insert(at, Record::One(Value { bytes: value, version, expires: ends(ttl) }));
                done(created, None)
            }
            Change::Delete => {
                self.records.remove(&at);
                done(created, None)
            }
            Change::Increment(by) => {
                let text = old.as_ref().map_or(&b"0"[..], |value| &value.bytes);
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
                let number = number.ok_or(Trouble::WrongKind)?.checked_add(by).ok_or(Trouble::OutOfRange)?;
                let expires = old.and_then(|value| value.expires);
                let value = Value { bytes: number.to_string().into_bytes(), version, expires };
                self.records.insert(at, Record::One(value));
                done(created, Some(number))
            }
            Change::Expire(ttl) => {
                let value = old.ok_or(Trouble::ConditionFailed(Version::ZERO))?;
                self.records.insert(at, Record::One(Value { version, expires: ends(ttl), ..value }));
                done(false, None)
            }
        }
    }

    /// Lists keys after a place, with an empty page now and then, as a ring has.
    fn keys(&self, from: (Key, Vec<u8>), limit: usize) -> Found {
        let rest = self.records.iter().filter(|(at, _)| **at > from || at.0 == from.0 && from.1.is_empty());
        let limit = limit.min(3);
        let keys: Vec<Listed> = rest
            .clone()
            .take(limit)
            .map(|((id, bytes), record)| Listed {
                name: kringle_core::store::op::Name { id: *id, bytes: bytes.clone() },
                version: record.version(),
                is_set: matches!(record, Record::Set(_)),
                expires: match record {
                    Record::One(value) => value.expires,
                    Record::Set(_) => None,
                },
            })
            .collect();
        let more = rest.count() > limit;
        let next = keys.last().filter(|_| more).map(|last| (last.name.id, last.name.bytes.clone()));
        Found::Keys { keys, next }
    }

    fn forget(&mut self) {
        let now = now();
        let ended = |value: &Value| value.expires.is_some_and(|at| at <= now);
        self.records.retain(|_, record| match record {
            Record::One(value) => !ended(value),
            Record::Set(values) => {
                values.retain(|_, value| !ended(value));
                !values.is_empty()
            }
        });
    }

    fn version(&mut self) -> Version {
        self.clock = Version::at(now()).0.max(self.clock + 16);
        Version(self.clock)
    }
}

impl Record {
    fn version(&self) -> Version {
        match self {
            Record::One(value) => value.version,
            Record::Set(values) => values.values().map(|value| value.version).max().unwrap_or(Version::ZERO),
        }
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(now.as_millis()).expect("and before the year 500 million")
}

fn ends(ttl: Option<Duration>) -> Option<u64> {
    ttl.map(|ttl| now() + u64::try_from(ttl.as_millis()).expect("checked before"))
}

fn trouble(name: &str) -> RequestError {
    let few = |happened| Trouble::TooFewReplicas { acked: 1, wanted: 2, happened };
    RequestError::Store(match name {
        "few" => few(Happened::No),
        "some" => few(Happened::Some),
        "lost" => few(Happened::Unknown),
        "timeout" => return RequestError::Timeout,
        "slow" => Trouble::Timeout { happened: Happened::Unknown },
        "kind" => Trouble::WrongKind,
        "large" => Trouble::TooLarge { limit: 5 },
        "range" => Trouble::OutOfRange,
        "bad" => Trouble::BadRequest,
        "space" => Trouble::NoSpace { happened: Happened::No },
        "clock" => Trouble::ClockOff,
        "busy" => Trouble::Busy,
        "damaged" => Trouble::Damaged,
        "none" => return RequestError::NoStore,
        "gone" => return RequestError::Gone,
        _ => Trouble::ConditionFailed(Version(7)),
    })
}
