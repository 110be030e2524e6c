//! Counters of one node, in the text format of Prometheus and OpenMetrics. Every node has its own: a hundred can live
//! in one process.

use std::fmt::Write;

use kringle_core::edge::{Note, NoteKind, Refusal};
use kringle_core::message::BodyKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::describe::View;
use crate::engine::{Damage, Figures, Room};

/// What a node counts.
pub(crate) struct Metrics {
    registry: Registry,
    sent: Vec<Counter>,
    received: Vec<Counter>,
    notes: Vec<Counter>,
    refused: Vec<Counter>,
    pub(crate) bytes_sent: Counter,
    pub(crate) bytes_received: Counter,
    /// Connections by how they came about or ended.
    pub(crate) dialled: Counter,
    pub(crate) dial_failed: Counter,
    pub(crate) accepted: Counter,
    pub(crate) handshake_failed: Counter,
    pub(crate) turned_away: Counter,
    pub(crate) founded_apart: Counter,
    pub(crate) idle_closed: Counter,
    pub(crate) by_relay: Counter,
    pub(crate) relayed: Counter,
    pub(crate) relayed_bytes: Counter,
    pub(crate) dropped: Counter,
    pub(crate) app_unknown: Counter,
    pub(crate) app_dropped: Counter,
    pub(crate) store_suspect: Counter,
    gauges: Gauges,
}

#[derive(Default)]
struct Gauges {
    ready: Gauge,
    leaves: Gauge,
    known: Gauge,
    suspects: Gauge,
    connections: Gauge,
    book: Gauge,
    uptime: Gauge,
    store_pending: Gauge,
    store_commits: Gauge,
    store_writes: Gauge,
    store_micros: Gauge,
    store_slowest: Gauge,
    store_free: Gauge,
    store_room: Gauge,
    store_away: Gauge,
    store_repairs: Gauge,
    store_gaps: Gauge,
    store_lost_bytes: Gauge,
    store_lost_entries: Gauge,
    store_torn_bytes: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("kringle");
        let mut family = |name: &str, help: &str, kinds: Vec<&'static str>| -> Vec<Counter> {
            let family = Family::<Kind, Counter>::default();
            registry.register(name, help, family.clone());
            // Created once, so that counting is one addition and every kind shows from the start.
            kinds.into_iter().map(|kind| family.get_or_create(&Kind { kind }).clone()).collect()
        };
        let bodies = || BodyKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>();
        let sent = family("messages_sent", "Messages sent to peers, by kind", bodies());
        let received = family("messages_received", "Messages received from peers, by kind", bodies());
        let names = NoteKind::ALL.iter().map(|kind| kind.name()).collect();
        let notes = family("notes", "What happened inside the node, by kind", names);
        let names = Refusal::ALL.iter().map(|kind| kind.name()).collect();
        let refused = family("refused", "What came in and was not accepted, by reason", names);
        let mut counter = |name: &str, help: &str| -> Counter {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let bytes_sent = counter("bytes_sent", "Bytes handed to connections with peers");
        let bytes_received = counter("bytes_received", "Bytes read from connections with peers");
        let dialled = counter("connections_dialled", "Connections opened to peers");
        let dial_failed = counter("dials_failed", "Attempts to reach a peer that failed");
        let accepted = counter("connections_accepted", "Connections accepted from peers");
        let handshake_failed = counter("handshakes_failed", "Handshakes on the peer port that failed");
        let turned_away =
            counter("connections_turned_away", "Connections closed because there were too many");
        let founded_apart = counter(
            "connections_founded_apart",
            "Connections refused, by either side, because the stores were founded apart",
        );
        let idle_closed = counter("connections_idle_closed", "Connections closed because nothing was said");
        let by_relay = counter("connections_by_relay", "Connections opened to peers through a third node");
        let relayed = counter("connections_relayed", "Connections of other nodes that this one carried");
        let relayed_bytes =
            counter("relayed_bytes", "Bytes of connections of other nodes that were closed in order");
        let dropped =
            counter("messages_dropped", "Messages not sent because the queue to their peer was full");
        let app_unknown = counter("app_unknown", "Messages for an application that is not registered here");
        let app_dropped =
            counter("app_dropped", "Messages dropped because an application had too many to answer");
        let store_suspect =
            counter("store_suspect", "Times the store had lost something and was replaced by an empty one");
        let gauges = Gauges::default();
        gauges.store_room.set(1);
        let mut gauge = |name: &str, help: &str, gauge: &Gauge| registry.register(name, help, gauge.clone());
        gauge("ready", "Whether the node is part of a ring", &gauges.ready);
        gauge("leaves", "Members of the leaf set", &gauges.leaves);
        gauge("known_nodes", "Nodes in all tables", &gauges.known);
        gauge("suspects", "Peers that are silent and being probed", &gauges.suspects);
        gauge("connections", "Open connections to peers", &gauges.connections);
        gauge("address_book", "Nodes in the address book", &gauges.book);
        gauge("uptime_seconds", "Since the node was started", &gauges.uptime);
        gauge("store_pending", "Writes asked for that are not durable yet", &gauges.store_pending);
        gauge("store_commits", "Commits to the disk since the start", &gauges.store_commits);
        gauge("store_writes", "Entries in them", &gauges.store_writes);
        gauge("store_commit_microseconds", "Time all commits took", &gauges.store_micros);
        gauge("store_commit_slowest_microseconds", "Time the slowest commit took", &gauges.store_slowest);
        gauge("store_free_bytes", "Free space of the disk the store is on", &gauges.store_free);
        gauge("store_room", "Whether the disk has room for more", &gauges.store_room);
        gauge("store_away", "Whether the store is being repaired, or waits for room", &gauges.store_away);
        gauge("store_repairs", "Times damaged tables were found and replaced", &gauges.store_repairs);
        gauge("store_gaps", "Ranges of keys that the last repair could not read", &gauges.store_gaps);
        gauge("store_lost_bytes", "Bytes that the last repair could not read", &gauges.store_lost_bytes);
        gauge(
            "store_lost_entries",
            "Entries that the last repair could not read",
            &gauges.store_lost_entries,
        );
        gauge(
            "store_torn_bytes",
            "Bytes of an interrupted commit that the start dropped",
            &gauges.store_torn_bytes,
        );
        Metrics {
            registry,
            sent,
            received,
            notes,
            refused,
            bytes_sent,
            bytes_received,
            dialled,
            dial_failed,
            accepted,
            handshake_failed,
            turned_away,
            founded_apart,
            idle_closed,
            by_relay,
            relayed,
            relayed_bytes,
            dropped,
            app_unknown,
            app_dropped,
            store_suspect,
            gauges,
        }
    }

    pub(crate) fn sent(&self, kind: BodyKind) {
        self.sent[kind as usize].inc();
    }

    pub(crate) fn received(&self, kind: BodyKind) {
        self.received[kind as usize].inc();
    }

    pub(crate) fn note(&self, note: Note) {
        self.notes[note.kind() as usize].inc();
        if let Note::Refused(refusal) = note {
            self.refused(refusal);
        }
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        self.refused[refusal as usize].inc();
    }

    /// Shows how the store is doing.
    pub(crate) fn store(&self, figures: &Figures, room: Option<&Room>) {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.gauges.store_pending, figures.pending);
        set(&self.gauges.store_commits, figures.commits);
        set(&self.gauges.store_writes, figures.writes);
        set(&self.gauges.store_micros, figures.micros);
        set(&self.gauges.store_slowest, figures.slowest);
        if let Some(room) = room {
            set(&self.gauges.store_free, room.free().unwrap_or(0));
            set(&self.gauges.store_room, u64::from(room.enough()));
        }
    }

    /// Shows what was found damaged.
    pub(crate) fn damage(&self, damage: &Damage, away: bool) {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.gauges.store_away, u64::from(away));
        set(&self.gauges.store_repairs, u64::from(damage.times));
        set(&self.gauges.store_gaps, damage.gaps);
        set(&self.gauges.store_lost_bytes, damage.bytes);
        set(&self.gauges.store_lost_entries, damage.entries);
        set(&self.gauges.store_torn_bytes, damage.torn_bytes);
    }

    pub(crate) fn text(&self, view: &View<'_>) -> String {
        let summary = view.summary();
        let set = |gauge: &Gauge, value: usize| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.gauges.ready, usize::from(summary.status == "ready"));
        set(&self.gauges.leaves, summary.leaves);
        set(&self.gauges.known, summary.known);
        set(&self.gauges.suspects, summary.suspects.len());
        set(&self.gauges.connections, summary.connections);
        set(&self.gauges.book, view.book.len());
        set(&self.gauges.uptime, usize::try_from(summary.uptime_ms / 1000).unwrap_or(usize::MAX));
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            let _ = writeln!(text, "# these counters could not be written");
        }
        text
    }
}
