//! What a node and its controller say to each other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kringle_core::config::{Ownership, Settings};
use kringle_core::id::{Key, NodeId};
use serde::{Deserialize, Serialize};

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
        settings
    }
}

/// The first line of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum First {
    /// It runs.
    Started { pid: u32, id: String, address: SocketAddr, incarnation: u32 },
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
