//! What a node and its controller say to each other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kringle_core::config::{Ownership, Settings};
use kringle_core::id::{Key, NodeId};
use kringle_runtime::StoreKind;
use serde::{Deserialize, Serialize};

use super::storing::StoreLoad;

/// The variable that holds a process's [`Options`], if it is to be a node.
pub(crate) const VARIABLE: &str = "KRINGLE_RING_NODE";
/// The application every such node runs; it remembers what it was given.
pub(crate) const PURPOSE: u32 = 100;

/// How to start a node. What is not given is as the library has it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Options {
    pub(crate) cluster: String,
    pub(crate) data: Option<PathBuf>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) join: Vec<SocketAddr>,
    pub(crate) secret: Option<String>,
    /// Answers without leases.
    pub(crate) hint: bool,
    pub(crate) lease_ms: Option<u64>,
    pub(crate) leaf_set: Option<u16>,
    /// Runs the node on a thread of its own, as programs that embed one do.
    pub(crate) own_thread: bool,
    /// Where it stores, `none`, `memory` or `disk`; otherwise on the disk if it has a data directory.
    pub(crate) store: Option<String>,
    pub(crate) slots: Option<u32>,
    pub(crate) replicas: Option<u8>,
    pub(crate) sweep_ms: Option<u64>,
    pub(crate) rejoin_grace_ms: Option<u64>,
    pub(crate) drain_ms: Option<u64>,
}

impl Options {
    /// Returns the settings these options amount to.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        if self.hint {
            settings.ownership = Ownership::Hint;
        }
        if let Some(lease) = self.lease_ms {
            settings.lease = Duration::from_millis(lease);
        }
        if let Some(leaf_set) = self.leaf_set {
            settings.leaf_set = leaf_set;
        }
        if let Some(slots) = self.slots {
            settings.slots = slots;
        }
        if let Some(replicas) = self.replicas {
            settings.replicas = replicas;
        }
        let times = [
            (self.sweep_ms, &mut settings.sweep),
            (self.rejoin_grace_ms, &mut settings.rejoin_grace),
            (self.drain_ms, &mut settings.drain),
        ];
        for (ms, setting) in times {
            if let Some(ms) = ms {
                *setting = Duration::from_millis(ms);
            }
        }
        settings
    }

    /// Returns where it stores, if that is said.
    pub(crate) fn store(&self) -> Option<StoreKind> {
        Some(match self.store.as_deref()? {
            "none" => StoreKind::None,
            "memory" => StoreKind::Memory,
            _ => StoreKind::Disk,
        })
    }
}

/// The first line of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum First {
    /// It runs. What it stores was opened in the microseconds that its start took.
    Started { pid: u32, id: String, address: SocketAddr, incarnation: u32, start_us: u64 },
    /// It does not.
    Failed { what: String, remedy: String },
}

/// The last line of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Last {
    Stopped,
    Left,
    Twin(String),
    Refused(String),
    Failed(String),
}

/// A line to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) n: u64,
    #[serde(flatten)]
    pub(crate) ask: Ask,
}

/// A line of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    Answer { n: u64, answer: serde_json::Value },
    Ended { ended: Last },
    First(First),
}

/// What a node can be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Waits until it is part of a ring: `bool`.
    Ready { within_ms: u64 },
    /// Looks up keys, all at the same time: `Vec<Record>`.
    Lookup { keys: Vec<String>, deadline_ms: u64 },
    /// The node at a glance: `report::Summary`.
    Summary,
    /// Its counters: text.
    Metrics,
    /// All events since it started: `Vec<report::Event>`.
    Events,
    /// Begins to ask something about a random key, again and again, whether or not the last question is answered.
    Stream { every_ms: u64, deadline_ms: u64, seed: u64, route: bool },
    /// Ends all streams and waits for what is open: `Vec<Record>`.
    EndStreams,
    /// What its application was given: `Vec<Delivery>`.
    Deliveries,
    /// Routes messages, or looks up keys, as fast as it can: [`super::load::Loaded`].
    Load { outstanding: usize, for_ms: u64, bytes: usize, seed: u64, lookup: bool },
    /// Listens for bare TLS connections and sends back what comes: the address.
    Echo,
    /// Lookups one after the other, each followed by a bare round trip to where the key belongs: [`super::load::Pace`].
    Pace { echoes: Vec<(String, SocketAddr)>, rounds: usize, bytes: usize, seed: u64 },
    /// Writes one value with a number, or deletes it if `bytes` is `None`: [`super::storing::Acked`].
    Write { key: String, number: u64, bytes: Option<usize>, level: String, deadline_ms: u64 },
    /// Reads values, all at the same time: `Vec<`[`super::ledger::Fetched`]`>`.
    Fetch { keys: Vec<String>, level: String, deadline_ms: u64 },
    /// Who holds these keys: a list of ids for each.
    Places { keys: Vec<String>, deadline_ms: u64 },
    /// Reads and writes, as fast as it can or at some pace: [`super::storing::StoreLoaded`].
    StoreLoad(StoreLoad),
    /// Lets all such loads end.
    EndLoads,
    /// Ends without a goodbye.
    Stop,
    /// Ends with one.
    Leave,
}

/// One question about a key and what became of it. Times are microseconds of the machine's clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) key: Key128,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) routed: bool,
    pub(crate) serial: u64,
    pub(crate) is_final: bool,
    pub(crate) outcome: Result<(Key128, u8), String>,
}

impl Record {
    /// Returns the node that was named, or got the message.
    pub(crate) fn root(&self) -> Option<NodeId> {
        self.outcome.as_ref().ok().map(|(root, _)| root.0)
    }

    /// Returns how long it took.
    pub(crate) fn took(&self) -> Duration {
        Duration::from_micros(self.end - self.start)
    }
}

/// A message that an application got.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) origin: Key128,
    pub(crate) serial: u64,
    pub(crate) key: Key128,
    pub(crate) at: u64,
}

/// An id, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Key128(pub(crate) Key);

impl From<Key128> for String {
    fn from(key: Key128) -> String {
        key.0.to_string()
    }
}

impl TryFrom<String> for Key128 {
    type Error = String;

    fn try_from(text: String) -> Result<Key128, String> {
        text.parse().map(Key128).map_err(|error| format!("{error}"))
    }
}

/// The machine's clock in microseconds: the same in every process, and not to be set.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
