//! A node described, for people and for other nodes: locally by a look at its tables, elsewhere by a message of
//! Kringle's own purpose that every node answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kringle_core::config::{Config, Ownership};
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::id::NodeId;
use kringle_core::node::Node;
use kringle_core::overlay::chord::Chord;
use kringle_core::overlay::chord::ring::Query;
use kringle_core::overlay::{Overlay, Status};
use kringle_core::range::IdRange;
use kringle_core::store::Store;
use kringle_core::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::book::Book;
use crate::clock::unix_ms;
use crate::error::RequestError;
use crate::metrics::Metrics;
use crate::monitor::Belief;
use crate::overlays;
use crate::report::{
    Cell, ChordTables, Clock, Disk, Entry, FingerEntry, Held, Peer, QueryEntry, Summary, Tables,
};

/// The purpose of messages that ask a node about itself.
pub(crate) const PURPOSE: u32 = 1;
/// Asks for a [`Summary`].
pub(crate) const SUMMARY: &[u8] = b"summary";
/// Asks for [`Tables`].
pub(crate) const TABLES: &[u8] = b"tables";
/// Asks for a list of [`Peer`]s.
pub(crate) const PEERS: &[u8] = b"peers";
/// Asks whom a Chord node believes to be before and after it.
pub(crate) const RING: &[u8] = b"ring";
/// Asks for a [`Summary`] and the ids of the leaf set.
pub(crate) const SURVEY: &[u8] = b"survey";

/// A look at a node between two inputs.
pub struct View<'a> {
    /// The node.
    pub node: &'a Node,
    /// Its configuration.
    pub config: &'a Config,
    /// The time of the look.
    pub now: Time,
    pub(crate) book: &'a Book,
    pub(crate) about: &'a About,
    pub(crate) metrics: &'a Metrics,
    pub(crate) disk: Option<Disk>,
    /// Whether a connection to a peer is open.
    pub(crate) linked: Box<dyn Fn(NodeId) -> Option<Option<NodeId>> + 'a>,
    pub(crate) connections: usize,
}

/// What the driver knows about its node besides the node.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) cluster: String,
    pub(crate) name: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) endpoints: Vec<SocketAddr>,
    pub(crate) started: Time,
}

impl View<'_> {
    /// Returns the endpoints behind an address of the core.
    pub fn endpoints(&self, addr: Addr) -> Vec<SocketAddr> {
        self.book.get(addr).to_vec()
    }

    /// Tells about the node at a glance.
    pub fn summary(&self) -> Summary {
        let (me, range) = (self.node.me(), self.node.range());
        let overlay = self.node.overlay();
        let chord = overlay.as_chord();
        let leaf_set = overlay.as_pastry().map(|pastry| pastry.router().leaf_set());
        let text = |contact: Contact| contact.id.to_string();
        let (left, right) = match chord {
            Some(chord) => (chord.predecessor(), chord.successors().first().copied()),
            None => (
                leaf_set.and_then(|leaf_set| leaf_set.left().next()),
                leaf_set.and_then(|leaf_set| leaf_set.right().next()),
            ),
        };
        Summary {
            id: me.id.to_string(),
            name: self.about.name.clone(),
            cluster: self.about.cluster.clone(),
            overlay: overlays::name(self.config.overlay).into(),
            base: self.config.base.bits(),
            leaf_set: self.config.leaf_set,
            successors: chord.map(|_| self.config.successors),
            mode: chord.map(|chord| mode(chord).into()),
            ownership: match self.config.ownership {
                Ownership::Lease if overlay.has_leases() || chord.is_none() => "lease".into(),
                _ => "hint".into(),
            },
            version: env!("CARGO_PKG_VERSION").into(),
            incarnation: me.incarnation,
            status: status_text(self.node.status()).into(),
            entitled: self.node.status() == Status::Ready
                && overlay.entitled(self.now, self.config).is_some(),
            uptime_ms: u64::try_from(self.now.since(self.about.started).as_millis()).unwrap_or(u64::MAX),
            endpoints: self.about.endpoints.clone(),
            client: self.about.client.clone(),
            region: self.about.region.clone(),
            share: range.share(),
            range: match range {
                IdRange::Arc { start, end } => Some((start.to_string(), end.to_string())),
                IdRange::Empty | IdRange::Full => None,
            },
            left: left.map(text),
            right: right.map(text),
            leaves: leaf_set.map_or_else(|| overlay.neighbours().len(), |leaf_set| leaf_set.members().len()),
            known: self.known().len(),
            connections: self.connections,
            suspects: self.suspects().iter().map(NodeId::to_string).collect(),
            store: self.node.store().map(|store| {
                let survey = store.survey();
                Held {
                    slots: survey.slots,
                    copies: survey.records,
                    records: survey.led_records,
                    waiting: survey.waiting,
                    under_replicated: survey.thin,
                    stuck: survey.stuck,
                    moving: survey.moving,
                    pairs: survey.pairs,
                    pulls: survey.pulls,
                    has_room: survey.has_room,
                    doubting: survey.doubting,
                    rebuilt: survey.rebuilt,
                    clock: self.clock(store),
                }
            }),
            disk: self.disk.clone(),
        }
    }

    fn clock(&self, store: &Store) -> Clock {
        let view = store.clock_view(self.now, unix_ms());
        Clock {
            settled: view.settled,
            ahead_ms: view.ahead,
            off_ms: view.off,
            compared: view.clocks,
            versions_ahead_ms: view.hybrid_ahead,
        }
    }

    /// Tells about the node's tables.
    pub fn tables(&self) -> Tables {
        let mut tables = Tables {
            id: self.node.me().id.to_string(),
            overlay: overlays::name(self.config.overlay).into(),
            base: self.config.base.bits(),
            leaf_set: self.config.leaf_set,
            neighbourhood: self.config.neighbourhood,
            left: Vec::new(),
            right: Vec::new(),
            cells: Vec::new(),
            neighbours: Vec::new(),
            chord: None,
        };
        if let Some(chord) = self.node.overlay().as_chord() {
            let state = self.chord_tables(chord);
            tables.left = state.predecessor.iter().cloned().collect();
            tables.right = state.successors.clone();
            tables.chord = Some(state);
        }
        let Some(pastry) = self.node.overlay().as_pastry() else { return tables };
        let router = pastry.router();
        let leaf = |contact: Contact| entry(contact, router.proximity(contact.id));
        tables.left = router.leaf_set().left().map(leaf).collect();
        tables.right = router.leaf_set().right().map(leaf).collect();
        let known =
            |e: &kringle_core::overlay::pastry::routing_table::Entry| entry(e.contact, Some(e.proximity));
        for row in 0..router.table().depth() {
            for (column, _) in router.table().row(row) {
                let mut cell = router.table().cell(row, column).map(known);
                if let Some(holder) = cell.next() {
                    tables.cells.push(Cell { row, column, holder, spares: cell.collect() });
                }
            }
        }
        tables.neighbours = router.neighbourhood().entries().iter().map(known).collect();
        tables
    }

    fn chord_tables(&self, chord: &Chord) -> ChordTables {
        let entry = |contact: Contact| entry(contact, chord.nearness(contact.id, self.now, self.config));
        let me = self.node.me().id;
        let finger = |finger: &kringle_core::overlay::chord::Finger| FingerEntry {
            bit: finger.bit,
            start: finger.start(me).to_string(),
            end: if finger.bit < 127 { me.plus(2 << finger.bit) } else { me }.to_string(),
            node: entry(finger.node),
        };
        let query = chord.ring().cur_request().map(|request| QueryEntry {
            name: match request.query {
                Query::Join(_) => "Join",
                Query::Join2(_) => "Join2",
                Query::Stabilize => "Stabilize",
                Query::Stabilize2(_) => "Stabilize2",
                Query::Merge(_) => "Merge",
                Query::Rectify(_) => "Rectify",
            }
            .into(),
            target: request.target.id.to_string(),
            attempts: request.attempts,
            busy: request.heard_busy,
        });
        let members: &[Contact] = if chord.is_large() { &[] } else { chord.forming().members() };
        ChordTables {
            mode: mode(chord).into(),
            r: self.config.successors,
            predecessor: chord.predecessor().map(entry),
            successors: chord.successors().into_iter().map(entry).collect(),
            fingers: chord.fingers().iter().map(finger).collect(),
            suspects: self.suspects().iter().map(NodeId::to_string).collect(),
            joined: chord.ring().joined(),
            query,
            rectify_with: chord.ring().rectify_with().map(|peer| peer.id.to_string()),
            delayed: chord.ring().delayed_queries().len(),
            epoch: chord.forming().epoch(),
            members: members.iter().map(|member| member.id.to_string()).collect(),
        }
    }

    /// Whom the node believes to be before and after it; `None` if it is not Chord's.
    pub(crate) fn belief(&self) -> Option<Belief> {
        let chord = self.node.overlay().as_chord()?;
        Some(Belief::of(chord, self.node.me(), self.config.successors))
    }

    /// Returns the nodes that are silent and being asked again.
    pub fn suspects(&self) -> Vec<NodeId> {
        let overlay = self.node.overlay();
        match overlay.as_chord() {
            Some(chord) => {
                let mut suspects = chord.suspects();
                suspects.sort_unstable();
                suspects.dedup();
                suspects
            }
            None => overlay.as_pastry().map(|pastry| pastry.suspects().to_vec()).unwrap_or_default(),
        }
    }

    /// Returns how near a node is, if it is known and was measured.
    pub fn proximity(&self, id: NodeId) -> Option<Proximity> {
        let overlay = self.node.overlay();
        match overlay.as_chord() {
            Some(chord) => chord.nearness(id, self.now, self.config),
            None => overlay.as_pastry().and_then(|pastry| pastry.router().proximity(id)),
        }
    }

    /// Tells about everybody the node knows, by id.
    pub fn peers(&self) -> Vec<Peer> {
        let suspects = self.suspects();
        let known = self.known().into_values();
        known
            .map(|(contact, proximity, roles)| Peer {
                id: contact.id.to_string(),
                incarnation: contact.incarnation,
                endpoints: self.endpoints(contact.addr),
                rtt_us: proximity.and_then(rtt),
                state: if suspects.contains(&contact.id) { "suspect" } else { "up" }.into(),
                connected: (self.linked)(contact.id).is_some(),
                via: (self.linked)(contact.id).flatten().map(|relay| relay.to_string()),
                roles: roles.into_iter().map(String::from).collect(),
            })
            .collect()
    }

    fn known(&self) -> BTreeMap<NodeId, (Contact, Option<Proximity>, Vec<&'static str>)> {
        let mut known: BTreeMap<NodeId, (Contact, Option<Proximity>, Vec<&'static str>)> = BTreeMap::new();
        if let Some(chord) = self.node.overlay().as_chord() {
            let mut add = |contact: Contact, role| {
                let fresh = || (contact, chord.nearness(contact.id, self.now, self.config), Vec::new());
                known.entry(contact.id).or_insert_with(fresh).2.push(role);
            };
            chord.predecessor().into_iter().for_each(|contact| add(contact, "predecessor"));
            chord.successors().into_iter().for_each(|contact| add(contact, "successor"));
            chord.fingers().iter().for_each(|finger| add(finger.node, "finger"));
            chord.ring().suspects().iter().for_each(|contact| add(*contact, "suspect"));
        }
        let Some(pastry) = self.node.overlay().as_pastry() else { return known };
        let router = pastry.router();
        let mut add = |contact: Contact, role| {
            let fresh = || (contact, router.proximity(contact.id), Vec::new());
            known.entry(contact.id).or_insert_with(fresh).2.push(role);
        };
        router.leaf_set().left().for_each(|contact| add(contact, "left"));
        router.leaf_set().right().for_each(|contact| add(contact, "right"));
        let holders: std::collections::BTreeSet<NodeId> =
            router.table().holders().map(|entry| entry.contact.id).collect();
        for entry in router.table().all() {
            add(entry.contact, if holders.contains(&entry.contact.id) { "table" } else { "spare" });
        }
        router.neighbourhood().members().for_each(|contact| add(contact, "neighbour"));
        known
    }

    /// Returns all counters as text.
    pub fn metrics(&self) -> String {
        self.metrics.text(self)
    }

    /// Answers a message of [`PURPOSE`]. An answer that would be too large is left out.
    pub(crate) fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let leaves =
            || self.node.routes().neighbours().iter().map(|leaf| leaf.id.to_string()).collect::<Vec<_>>();
        let bytes = match question {
            SUMMARY => write(&self.summary()),
            TABLES => write(&self.tables()),
            PEERS => write(&self.peers()),
            SURVEY => write(&(self.summary(), leaves())),
            RING => write(&self.belief()?),
            _ => return None,
        };
        Some(bytes).filter(|bytes| bytes.len() <= self.config.payload as usize)
    }
}

fn mode(chord: &Chord) -> &'static str {
    if chord.is_large() { "ring" } else { "forming" }
}

fn write(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("reports have text keys and finite numbers")
}

/// Reads what another node told about itself. A node that says nothing we understand is as good as not there.
pub(crate) fn read<T: DeserializeOwned>(answer: impl Into<Option<Vec<u8>>>) -> Result<T, RequestError> {
    let answer = answer.into().ok_or(RequestError::NotFound)?;
    serde_json::from_slice(&answer).map_err(|_| RequestError::NotFound)
}

fn entry(contact: Contact, proximity: Option<Proximity>) -> Entry {
    Entry { id: contact.id.to_string(), rtt_us: proximity.and_then(rtt) }
}

pub(crate) fn rtt(proximity: Proximity) -> Option<u32> {
    (proximity != Proximity::UNKNOWN).then_some(proximity.0)
}

/// Says whether everybody's ring neighbours are those beside it in this list, which is sorted by id.
pub(crate) fn is_whole(nodes: &[Summary]) -> bool {
    let n = nodes.len();
    nodes.iter().enumerate().all(|(at, node)| {
        let beside = |step: usize| Some(&nodes[(at + step) % n].id).filter(|id| **id != node.id);
        node.status == "ready" && node.left.as_ref() == beside(n - 1) && node.right.as_ref() == beside(1)
    })
}

/// The word for a status.
pub(crate) fn status_text(status: Status) -> &'static str {
    match status {
        Status::Out => "out",
        Status::Joining => "joining",
        Status::Waiting => "waiting",
        Status::Ok => "ok",
        Status::Ready => "ready",
        Status::Leaving => "leaving",
        Status::Isolated => "isolated",
    }
}
