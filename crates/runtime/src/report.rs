//! What a node tells about itself: plain data, the same inside a program, over HTTP and from node to node.
//!
//! Ids are 32 hexadecimal digits, distances powers of two, times milliseconds or microseconds as the name says.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// One node at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// What people call it, if they do.
    pub name: Option<String>,
    /// The cluster it belongs to.
    pub cluster: String,
    /// The overlay it runs.
    pub overlay: String,
    /// Digits are base 2^base.
    pub base: u8,
    /// Members a full leaf set has, both sides together.
    pub leaf_set: u16,
    /// Chord: successors a full list has. None: it is no Chord node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successors: Option<u8>,
    /// Chord: `forming` while all members have a list of all members, `ring` afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// `lease` or `hint`. Chord has no leases.
    pub ownership: String,
    /// The release of the program.
    pub version: String,
    /// Which life of this identity it is.
    pub incarnation: u32,
    /// How far it has come: out, joining, waiting, ok, ready, leaving, isolated.
    pub status: String,
    /// Whether it may deliver messages right now.
    pub entitled: bool,
    /// How long it has been running.
    pub uptime_ms: u64,
    /// Where peers reach it.
    pub endpoints: Vec<SocketAddr>,
    /// Where clients reach it, if they can.
    pub client: Option<String>,
    /// The region it was started in, if any.
    pub region: Option<String>,
    /// Its share of the ring, 0 to 1; 0 while it answers for nothing.
    pub share: f64,
    /// The part of the ring it answers for: the first id, and the one after the last. None: nothing, or all of it (see `share`).
    pub range: Option<(String, String)>,
    /// Its ring neighbour with the next smaller id, wrapping.
    pub left: Option<String>,
    /// Its ring neighbour with the next larger id, wrapping.
    pub right: Option<String>,
    /// Members of its leaf set right now; Chord: of its successor list, and its predecessor.
    pub leaves: usize,
    /// Nodes in all its tables.
    pub known: usize,
    /// Open connections to peers.
    pub connections: usize,
    /// Peers that are silent and being probed.
    pub suspects: Vec<String>,
    /// What it stores, if it does.
    #[serde(default)]
    pub store: Option<Held>,
    /// What is wrong with the disk it stores on, or was; `None` if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
}

/// What is wrong with the disk of a store, or was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// `ok`; `repair` while damaged tables are being replaced; `full` while the store waits for room. In the last two the
    /// node serves nothing.
    pub state: String,
    /// How often damage was found and repaired since the store began.
    pub repairs: u32,
    /// When that was last, in milliseconds since 1970; 0: never.
    pub repaired_ms: u64,
    /// The files that were damaged, at most 16, below the data directory.
    pub files: Vec<String>,
    /// Ranges of keys that had to be fetched from other replicas.
    pub gaps: u64,
    /// Bytes that could not be read.
    pub lost_bytes: u64,
    /// Entries that could not be read, as far as that is known.
    pub lost_entries: u64,
    /// Where the damaged store is kept.
    pub kept: Option<String>,
    /// Bytes of a commit that a crash interrupted, dropped by the last start. It was never acknowledged.
    pub torn_bytes: u64,
    /// Why the store had to begin empty when it was last opened, if it did.
    pub lost: Option<String>,
}

/// What a node stores, in numbers. Slots are counted by the node that speaks for them, so that sums over nodes are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Slots it has a copy of.
    pub slots: u32,
    /// Records in these copies, those that stand for deleted ones included.
    pub copies: u64,
    /// Records of the slots it speaks for.
    pub records: u64,
    /// Copies it can not serve right now.
    pub waiting: u32,
    /// Slots it speaks for that have a copy on a node that is down.
    pub under_replicated: u32,
    /// Slots it speaks for that have lost half their members or more.
    pub stuck: u32,
    /// Slots it speaks for that are about to get another copy.
    pub moving: u32,
    /// Slots it speaks for with two copies, which is less available than one.
    pub pairs: u32,
    /// Slots being copied to it.
    pub pulls: u32,
    /// Whether its disk has room.
    pub has_room: bool,
    /// Slots it does not trust its own records of, and fetches from others.
    #[serde(default)]
    pub doubting: u32,
    /// Slots that were rebuilt without a quorum (`kringle recover`).
    #[serde(default)]
    pub rebuilt: u32,
    /// Its clocks.
    #[serde(default)]
    pub clock: Clock,
}

/// The clocks of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Whether cluster time is known.
    pub settled: bool,
    /// How far the wall clock is ahead of cluster time, in milliseconds.
    pub ahead_ms: i64,
    /// How far it is ahead of the median of all wall clocks, if there are three or more.
    pub off_ms: Option<i64>,
    /// Other nodes whose clocks were read lately.
    pub compared: u32,
    /// How far versions are ahead of cluster time, in milliseconds.
    pub versions_ahead_ms: i64,
}

/// A peer as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its id.
    pub id: String,
    /// Which life of it is known.
    pub incarnation: u32,
    /// Where it can be reached.
    pub endpoints: Vec<SocketAddr>,
    /// The measured round trip.
    pub rtt_us: Option<u32>,
    /// `up` or `suspect`.
    pub state: String,
    /// Whether a connection is open.
    pub connected: bool,
    /// The relay, if that connection goes through another node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Where it is kept: `left`, `right`, `table`, `spare`, `neighbour`; Chord: `predecessor`, `successor`, `finger`,
    /// `suspect`.
    pub roles: Vec<String>,
}

/// The tables of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// The node.
    pub id: String,
    /// The overlay it runs. With `chord`, `left` is the predecessor and `right` the successor list.
    #[serde(default = "pastry")]
    pub overlay: String,
    /// Digits are base 2^base.
    pub base: u8,
    /// Members a full leaf set has.
    pub leaf_set: u16,
    /// Members a full neighbourhood set has.
    pub neighbourhood: u16,
    /// The left side of the leaf set, nearest first.
    pub left: Vec<Entry>,
    /// The right side of the leaf set, nearest first.
    pub right: Vec<Entry>,
    /// The cells of the routing table that have a holder, by row and column.
    pub cells: Vec<Cell>,
    /// The neighbourhood set, nearest first.
    pub neighbours: Vec<Entry>,
    /// What a Chord node has instead of cells and neighbours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chord: Option<ChordTables>,
}

fn pastry() -> String {
    "pastry".into()
}

/// The state of a Chord node, in the words of the seed system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChordTables {
    /// `forming` while all members have a list of all members, `ring` afterwards.
    pub mode: String,
    /// Successors a full list has.
    pub r: u8,
    /// The node before it, if it knows one.
    pub predecessor: Option<Entry>,
    /// The nodes after it, nearest first.
    pub successors: Vec<Entry>,
    /// The fingers, farthest first.
    pub fingers: Vec<FingerEntry>,
    /// Nodes in doubt.
    pub suspects: Vec<String>,
    /// Whether the ring has taken it in. In forming mode the list of members says so.
    pub joined: bool,
    /// The question it waits for the answer of, if there is one.
    pub query: Option<QueryEntry>,
    /// Who may be a better predecessor and will be looked at.
    pub rectify_with: Option<String>,
    /// How many ask it and wait until it has its own answer.
    pub delayed: usize,
    /// The number of the list of all members that holds. In ring mode: the last one.
    pub epoch: u32,
    /// All members, in forming mode only.
    pub members: Vec<String>,
}

/// Which properties of a Chord ring hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingCheck {
    /// The node that asked around.
    pub by: String,
    /// How many nodes have answered.
    pub nodes: usize,
    /// How many of them go by the ring; the others by a list of all members.
    pub ring: usize,
    /// Nodes that did not answer.
    pub silent: Vec<String>,
    /// Whether there are more nodes than were to be asked.
    pub cut: bool,
    /// The properties, in the order they are named by.
    pub properties: Vec<Property>,
}

/// A property of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Whether it holds at all times. The others come to hold when nobody comes or goes any more.
    pub always: bool,
    /// Whether it holds now.
    pub holds: bool,
}

impl RingCheck {
    /// Says whether what always holds does. If nodes are missing, they may be what is missing.
    pub fn is_good(&self) -> bool {
        self.properties.iter().all(|property| property.holds || !property.always)
    }
}

/// A finger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FingerEntry {
    /// It is the first node at least two to this power away.
    pub bit: u8,
    /// Where its interval begins.
    pub start: String,
    /// Where its interval ends: the first id that is not in it.
    pub end: String,
    /// The node.
    pub node: Entry,
}

/// A question a Chord node waits for the answer of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryEntry {
    /// What for: `Join`, `Join2`, `Stabilize`, `Stabilize2`, `Merge` or `Rectify`.
    pub name: String,
    /// Whom it was sent to.
    pub target: String,
    /// How often it was sent.
    pub attempts: u8,
    /// Whether the target has said that it is busy.
    pub busy: bool,
}

/// A node in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// How near it is, if measured.
    pub rtt_us: Option<u32>,
}

/// A cell of the routing table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Digits shared with this node.
    pub row: u8,
    /// The next digit.
    pub column: u8,
    /// Who messages go to.
    pub holder: Entry,
    /// Who takes over.
    pub spares: Vec<Entry>,
}

/// The nodes of a ring, as far as one node could reach them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// The node that asked around.
    pub by: String,
    /// Everybody that answered, by id.
    pub nodes: Vec<Summary>,
    /// Nodes somebody knows that did not answer in time.
    pub silent: Vec<String>,
    /// Whether there are more nodes than were asked.
    pub cut: bool,
    /// Whether everybody's ring neighbours are those this survey found beside it.
    pub whole: bool,
}

/// Who answers for a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The id of the key.
    pub key: String,
    /// The responsible node.
    pub root: String,
    /// Where it can be reached.
    pub endpoints: Vec<SocketAddr>,
    /// Hops the question took.
    pub hops: u8,
    /// Whether the node was entitled to deliver when it answered. If not, another may turn out to be.
    pub is_final: bool,
    /// How long it took.
    pub micros: u64,
    /// Every hop, the origin first and the root last; empty unless traced.
    pub path: Vec<Hop>,
}

/// One step of a traced route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The node that decided.
    pub node: String,
    /// Why it sent the message where it did, in words.
    pub rule: String,
    /// Digits the node shares with the key.
    pub shared: u8,
    /// How far the node is from the key: the exponent of two, in tenths. None: it is the key.
    pub distance_log2_tenths: Option<u32>,
    /// The round trip from this node to the next, as it knows it.
    pub rtt_us: Option<u32>,
}

/// A message that has been delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The node whose application got it.
    pub root: kringle_core::id::NodeId,
    /// Hops it took.
    pub hops: u8,
    /// What the application answered, if anything.
    pub answer: Option<Vec<u8>>,
}

/// Something that happened at a node, for whoever follows its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts the events of this node since it started; a gap means that the reader was too slow.
    pub serial: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// The node's status changed.
    Status {
        /// The new one.
        status: String,
    },
    /// A peer entered the leaf set.
    PeerUp {
        /// Who.
        peer: String,
    },
    /// A peer left the leaf set.
    PeerDown {
        /// Who.
        peer: String,
    },
    /// A peer missed a probe.
    Suspected {
        /// Who.
        peer: String,
    },
    /// A suspected peer answered.
    Cleared {
        /// Who.
        peer: String,
    },
    /// Probes found a peer dead.
    Died {
        /// Who.
        peer: String,
    },
    /// The node answers for a part of the ring it did not answer for before.
    RangeGained {
        /// First id.
        from: String,
        /// Last id.
        to: String,
    },
    /// The node no longer answers for a part of the ring.
    RangeLost {
        /// First id.
        from: String,
        /// Last id.
        to: String,
    },
    /// Somebody was refused, or refused us, and why.
    Refused {
        /// Who, as far as that is known.
        peer: String,
        /// Why.
        reason: String,
    },
    /// For three leases now the node has not been allowed to deliver.
    LeasesOverdue,
    /// The reader was too slow and missed events.
    Missed {
        /// How many.
        count: u64,
    },
}

/// A join token as its issuer knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenReport {
    /// Names the token, without being one.
    pub id: String,
    /// When it ends, in seconds since 1970.
    pub expires: u64,
    /// `open`, `used` or `revoked`.
    pub state: String,
}
