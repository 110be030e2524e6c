//! One or more samples of every kind of message, with the values at the edges, and the contacts in them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use super::*;
use crate::overlay::chord::{Asker, Message as Chord};
use crate::overlay::pastry::routing_table::Entry;
use crate::overlay::pastry::{Flank, LeaseRecall, LeaseReply, LeaseRequest};

pub(super) const CLUSTER: ClusterId = ClusterId(*b"kringle-wire-v1.");

/// An address book without memory that shows every shape of a contact: the number says how many endpoints there are
/// and of which family the first is, and can be read back from it. Remembers what it was told to learn.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) learnt: Vec<(NodeId, u32, Vec<SocketAddr>)>,
}

impl AddressBook for Book {
    fn endpoints(&self, addr: Addr, each: &mut dyn FnMut(SocketAddr)) {
        for nth in 0..=addr.0 % 4 {
            let ip = if (addr.0 % 2 + nth).is_multiple_of(2) {
                IpAddr::V4(Ipv4Addr::from(addr.0))
            } else {
                IpAddr::V6(Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(addr.0)))
            };
            each(SocketAddr::new(ip, 7400 + nth as u16));
        }
    }

    fn learn(&mut self, id: NodeId, incarnation: u32, endpoints: &[SocketAddr]) -> Addr {
        self.learnt.push((id, incarnation, endpoints.to_vec()));
        match endpoints[0].ip() {
            IpAddr::V4(ip) => Addr(ip.into()),
            IpAddr::V6(ip) => Addr(u128::from(ip) as u32),
        }
    }
}

// Contacts with one to four addresses, both families first, and the ends of every number.
pub(super) fn zero() -> Contact {
    Contact::new(Id::ZERO, 0, Addr(0))
}

pub(super) fn two() -> Contact {
    Contact::new(Id::new(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef), 1, Addr(0x0a00_0001))
}

pub(super) fn three() -> Contact {
    Contact::new(Id::new(1 << 127), 0x8000_0000, Addr(0x0a00_0002))
}

pub(super) fn last() -> Contact {
    Contact::new(Id::MAX, u32::MAX, Addr(u32::MAX))
}

pub(super) fn everybody() -> Vec<Contact> {
    vec![zero(), two(), three(), last()]
}

pub(super) const NO_CHANGES: Versions = Versions { leaf_set: 0, table: 0, neighbourhood: 0 };
pub(super) const MOST_CHANGES: Versions =
    Versions { leaf_set: u32::MAX, table: u32::MAX - 1, neighbourhood: u32::MAX - 2 };

pub(super) fn rules() -> Vec<Rule> {
    vec![
        Rule::LeafSet,
        Rule::Cell { row: 0, column: 0 },
        Rule::Cell { row: 127, column: 255 },
        Rule::Spare { row: 31, column: 15 },
        Rule::RareCase,
        Rule::Here,
    ]
}

/// The rules that came later; what was recorded before them stays as it was.
fn chord_rules() -> Vec<Rule> {
    vec![Rule::SuccessorList, Rule::Finger { bit: 0 }, Rule::Finger { bit: u8::MAX }, Rule::Predecessor]
}

pub(super) fn path() -> Vec<Hop> {
    path_by(rules())
}

fn path_by(rules: Vec<Rule>) -> Vec<Hop> {
    let proximities = [Proximity(0), Proximity(1), Proximity::UNKNOWN].into_iter().cycle();
    let hops = rules.into_iter().zip(everybody().into_iter().cycle()).zip(proximities);
    hops.map(|((rule, node), proximity)| Hop { node, rule, proximity }).collect()
}

pub(super) fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Found(Vec::new()),
        Outcome::Found(path()),
        Outcome::Delivered(None),
        Outcome::Delivered(Some(Vec::new())),
        Outcome::Delivered(Some((0..=40).collect())),
        Outcome::Stopped,
        Outcome::TooManyHops,
        Outcome::NoRoute,
        Outcome::Nearest(path()),
        Outcome::NotThere,
    ]
}

pub(super) fn parts() -> Vec<What> {
    vec![
        What::LeafSet,
        What::Row(0),
        What::Row(u8::MAX),
        What::Cell { row: 0, column: 0 },
        What::Cell { row: u8::MAX, column: u8::MAX },
        What::Neighbourhood,
    ]
}

pub(super) fn receipts() -> Vec<Receipt> {
    let ends = [(zero(), 0, 0, last()), (last(), u32::MAX, u8::MAX, zero()), (two(), 1, 24, three())];
    let both = outcomes().into_iter().zip(ends.into_iter().cycle());
    both.map(|(outcome, (to, serial, hops, by))| Receipt { to, serial, hops, by, outcome }).collect()
}

pub(super) fn joins() -> [Join; 2] {
    [
        Join { nonce: 0, rows_done: 0, path: Vec::new(), contacts: Vec::new() },
        Join {
            nonce: u32::MAX,
            rows_done: u8::MAX,
            path: vec![(zero(), NO_CHANGES), (last(), MOST_CHANGES), (two(), NO_CHANGES)],
            contacts: everybody(),
        },
    ]
}

/// Wraps a payload in a routed message whose numbers are all at their smallest.
pub(super) fn first(payload: Payload) -> Body {
    let (key, origin) = (Id::ZERO, zero());
    Body::Routed(Routed { key, origin, payload, serial: 0, hop: 0, hops: 0, stage: Stage::Prefix })
}

/// The same at their largest.
pub(super) fn most(payload: Payload) -> Body {
    let (key, origin, end) = (Id::MAX, last(), u32::MAX);
    Body::Routed(Routed { key, origin, payload, serial: end, hop: end, hops: u8::MAX, stage: Stage::Leaf })
}

/// Messages of one kind, from the plainest to the fullest. No other samples are needed than those that show a
/// different way of being written. Their order names the golden files: add at the end.
pub(super) fn samples_of(kind: BodyKind) -> Vec<Body> {
    let pastry = |messages: Vec<Message>| messages.into_iter().map(Body::Pastry).collect();
    match kind {
        BodyKind::Lookup => vec![first(Payload::Lookup), most(Payload::Lookup)],
        BodyKind::Trace => {
            vec![
                first(Payload::Trace(Box::default())),
                most(Payload::Trace(Box::new(path()))),
                first(Payload::Trace(Box::new(path_by(chord_rules())))),
            ]
        }
        BodyKind::App => {
            let app = |purpose, bytes| Payload::App(Box::new(App { purpose, bytes }));
            vec![first(app(0, Vec::new())), most(app(u32::MAX, (0..=255).collect()))]
        }
        BodyKind::Direct => {
            let direct = |purpose, bytes| Payload::Direct(Box::new(App { purpose, bytes }));
            vec![first(direct(1, Vec::new())), most(direct(u32::MAX, vec![7; 9]))]
        }
        BodyKind::Join => {
            let [plain, full] = joins().map(|join| Payload::Join(Box::new(join)));
            vec![first(plain), most(full)]
        }
        BodyKind::RoutedReceipt => receipts()
            .into_iter()
            .enumerate()
            .map(|(n, receipt)| {
                let payload = Payload::Receipt(Box::new(receipt));
                if n % 2 == 0 { first(payload) } else { most(payload) }
            })
            .collect(),
        BodyKind::HopAck => vec![
            Body::HopAck(HopAck { hop: 0, taken: false, better: None }),
            Body::HopAck(HopAck { hop: u32::MAX, taken: true, better: None }),
            Body::HopAck(HopAck { hop: 1, taken: true, better: Some(last()) }),
        ],
        BodyKind::Receipt => receipts().into_iter().map(|receipt| Body::Receipt(Box::new(receipt))).collect(),
        BodyKind::Ping => vec![Body::Ping(0), Body::Ping(u32::MAX)],
        BodyKind::Pong => vec![Body::Pong(0), Body::Pong(u32::MAX)],
        BodyKind::PingVia => vec![
            Body::PingVia { nonce: 0, target: zero() },
            Body::PingVia { nonce: u32::MAX, target: last() },
        ],
        BodyKind::PongVia => vec![
            Body::PongVia { nonce: 0, target: Id::ZERO },
            Body::PongVia { nonce: u32::MAX, target: Id::MAX },
        ],
        BodyKind::JoinReply => {
            let [plain, full] = joins();
            let (leaves, versions) = (Vec::new(), NO_CHANGES);
            let plain = JoinReply { join: plain, whole: false, leaves, versions };
            let full = JoinReply { join: full, whole: true, leaves: everybody(), versions: MOST_CHANGES };
            pastry(vec![Message::JoinReply(Box::new(plain)), Message::JoinReply(Box::new(full))])
        }
        BodyKind::JoinRefused => pastry(vec![
            Message::JoinRefused { nonce: 0, reason: JoinRefusal::Busy },
            Message::JoinRefused { nonce: u32::MAX, reason: JoinRefusal::IdTaken },
        ]),
        BodyKind::LeafProbe => pastry(vec![
            Message::LeafProbe(Box::new(LeafProbe {
                nonce: 0,
                seen: None,
                leaves: Vec::new(),
                digest: None,
            })),
            Message::LeafProbe(Box::new(LeafProbe {
                nonce: 1,
                seen: Some(0),
                leaves: vec![two()],
                digest: None,
            })),
            Message::LeafProbe(Box::new(LeafProbe {
                nonce: u32::MAX,
                seen: Some(u32::MAX),
                leaves: everybody(),
                digest: None,
            })),
            Message::LeafProbe(Box::new(LeafProbe {
                nonce: 2,
                seen: None,
                leaves: Vec::new(),
                digest: Some(u32::MAX),
            })),
        ]),
        BodyKind::LeafReply => pastry(vec![
            Message::LeafReply(Box::new(LeafReply { nonce: 0, version: 0, leaves: None })),
            Message::LeafReply(Box::new(LeafReply { nonce: 1, version: 1, leaves: Some(Vec::new()) })),
            Message::LeafReply(Box::new(LeafReply {
                nonce: u32::MAX,
                version: u32::MAX,
                leaves: Some(everybody()),
            })),
        ]),
        BodyKind::Announce => pastry(vec![
            Message::Announce(Announce { seen: None, proximity: Proximity::UNKNOWN, round: 0 }),
            Message::Announce(Announce { seen: Some(NO_CHANGES), proximity: Proximity(0), round: 1 }),
            Message::Announce(Announce { seen: Some(MOST_CHANGES), proximity: Proximity(1), round: u8::MAX }),
        ]),
        BodyKind::Race => pastry(vec![
            Message::Race(Box::new(Race { versions: NO_CHANGES, round: 0, contacts: Vec::new() })),
            Message::Race(Box::new(Race { versions: MOST_CHANGES, round: u8::MAX, contacts: everybody() })),
        ]),
        BodyKind::StateRequest => {
            let ends = [(0, Vec::new()), (u32::MAX, unmeasured(everybody()))];
            let both = parts().into_iter().zip(ends.into_iter().cycle());
            let proximity = Proximity::UNKNOWN;
            let make = |(what, (nonce, push))| StateRequest { nonce, what, push, proximity };
            let near = StateRequest {
                nonce: 1,
                what: What::Row(0),
                push: measured(everybody()),
                proximity: Proximity(u32::MAX - 1),
            };
            let all = both.map(make).chain([near]);
            pastry(all.map(|request| Message::StateRequest(Box::new(request))).collect())
        }
        BodyKind::StateReply => {
            let ends = [(u32::MAX, unmeasured(everybody())), (0, Vec::new())];
            let both = parts().into_iter().zip(ends.into_iter().cycle());
            let make = |(what, (nonce, contacts))| StateReply { nonce, what, contacts };
            let near = StateReply { nonce: 1, what: What::Row(0), contacts: measured(everybody()) };
            let all = both.map(make).chain([near]);
            pastry(all.map(|reply| Message::StateReply(Box::new(reply))).collect())
        }
        BodyKind::Goodbye => {
            pastry(vec![Message::Goodbye(Box::default()), Message::Goodbye(Box::new(everybody()))])
        }
        BodyKind::Obituary => pastry(vec![Message::Obituary(zero()), Message::Obituary(last())]),
        BodyKind::LeaseRequest => {
            let plain =
                LeaseRequest { nonce: 0, side: Flank::Left, holds: 0, leaves: Vec::new(), same: false };
            let full = LeaseRequest {
                nonce: u32::MAX,
                side: Flank::Right,
                holds: u32::MAX,
                leaves: everybody(),
                same: false,
            };
            let same = LeaseRequest { same: true, ..plain.clone() };
            pastry([plain, full, same].map(|request| Message::LeaseRequest(Box::new(request))).into())
        }
        BodyKind::LeaseReply => {
            let plain = LeaseReply { nonce: 0, granted: false, holds: 0, leaves: Vec::new(), same: false };
            let full = LeaseReply {
                nonce: u32::MAX,
                granted: true,
                holds: u32::MAX,
                leaves: everybody(),
                same: false,
            };
            let same = LeaseReply { granted: true, same: true, ..plain.clone() };
            pastry([plain, full, same].map(|reply| Message::LeaseReply(Box::new(reply))).into())
        }
        BodyKind::LeaseRecall => {
            let recall =
                |nonce, side, nearer| Message::LeaseRecall(Box::new(LeaseRecall { nonce, side, nearer }));
            pastry(vec![recall(0, Flank::Left, zero()), recall(u32::MAX, Flank::Right, last())])
        }
        BodyKind::LeaseReturn => pastry(vec![
            Message::LeaseReturn { nonce: 0, nearer: None },
            Message::LeaseReturn { nonce: u32::MAX, nearer: Some(Id::MAX) },
        ]),
        kind if kind.is_of_chord() => chord_samples_of(kind).into_iter().map(Body::Chord).collect(),
        kind if kind.is_of_store() => super::store_samples::samples_of(kind),
        BodyKind::Echo => vec![Body::Echo(0), Body::Echo(u32::MAX)],
        _ => Vec::new(),
    }
}

fn chord_samples_of(kind: BodyKind) -> Vec<Chord> {
    let most = u32::MAX;
    match kind {
        BodyKind::GetBestPredecessor => vec![
            Chord::GetBestPredecessor { nonce: 0, of: Id::ZERO, asker: Asker::Peer },
            Chord::GetBestPredecessor { nonce: most, of: Id::MAX, asker: Asker::Client },
        ],
        BodyKind::GotBestPredecessor => vec![
            Chord::GotBestPredecessor { nonce: 0, node: zero() },
            Chord::GotBestPredecessor { nonce: most, node: last() },
        ],
        BodyKind::GetSuccList => vec![
            Chord::GetSuccList { nonce: 0, asker: Asker::Peer },
            Chord::GetSuccList { nonce: most, asker: Asker::Client },
        ],
        BodyKind::GotSuccList => vec![
            Chord::GotSuccList { nonce: 0, list: Vec::new() },
            Chord::GotSuccList { nonce: most, list: everybody() },
        ],
        BodyKind::GetPredAndSuccs => {
            vec![Chord::GetPredAndSuccs { nonce: 0 }, Chord::GetPredAndSuccs { nonce: most }]
        }
        BodyKind::GotPredAndSuccs => vec![
            Chord::GotPredAndSuccs { nonce: 0, pred: None, list: Vec::new() },
            Chord::GotPredAndSuccs { nonce: most, pred: Some(last()), list: everybody() },
        ],
        BodyKind::Notify => vec![Chord::Notify],
        BodyKind::Busy => vec![Chord::Busy { nonce: 0 }, Chord::Busy { nonce: most }],
        BodyKind::RingPing => vec![Chord::Ping { nonce: 0 }, Chord::Ping { nonce: most }],
        BodyKind::RingPong => vec![Chord::Pong { nonce: 0 }, Chord::Pong { nonce: most }],
        BodyKind::Leaving => {
            vec![Chord::Leaving { list: Vec::new() }, Chord::Leaving { list: everybody() }]
        }
        BodyKind::Apply => vec![Chord::Apply],
        BodyKind::Referred => {
            vec![
                Chord::Referred { nonce: 0, to: zero(), ring: false },
                Chord::Referred { nonce: most, to: last(), ring: true },
            ]
        }
        BodyKind::Seal => {
            vec![
                Chord::Seal { epoch: 0, base: 0, ring: false, list: Vec::new() },
                Chord::Seal { epoch: most, base: most, ring: true, list: everybody() },
            ]
        }
        BodyKind::Sealed => {
            vec![
                Chord::Sealed { epoch: 0, agreed: false, ring: true },
                Chord::Sealed { epoch: most, agreed: true, ring: false },
            ]
        }
        BodyKind::Commit => vec![
            Chord::Commit { epoch: 0, ring: false, list: Vec::new() },
            Chord::Commit { epoch: most, ring: true, list: everybody() },
        ],
        _ => Vec::new(),
    }
}

/// All samples, by the name of their golden file.
pub(super) fn samples() -> BTreeMap<String, Body> {
    let mut all = BTreeMap::new();
    for kind in BodyKind::ALL {
        let bodies = samples_of(*kind);
        assert!(!bodies.is_empty(), "no sample of {kind:?}");
        for (n, body) in bodies.into_iter().enumerate() {
            assert_eq!(body.kind(), *kind, "sample {n} of {kind:?} is another kind");
            all.insert(format!("{}-{n}", kind.name()), body);
        }
    }
    all
}

/// Lists the contacts a message names, in no particular order.
pub(super) fn contacts_in(body: &Body) -> Vec<Contact> {
    let of_path = |path: &[Hop]| path.iter().map(|hop| hop.node).collect::<Vec<_>>();
    let of_join = |join: &Join| {
        join.path.iter().map(|(contact, _)| *contact).chain(join.contacts.iter().copied()).collect::<Vec<_>>()
    };
    let of_receipt = |receipt: &Receipt| match &receipt.outcome {
        Outcome::Found(path) | Outcome::Nearest(path) => {
            [of_path(path), vec![receipt.to, receipt.by]].concat()
        }
        _ => vec![receipt.to, receipt.by],
    };
    match body {
        Body::Routed(routed) => {
            let carried = match &routed.payload {
                Payload::Lookup | Payload::App(_) | Payload::Direct(_) => Vec::new(),
                Payload::Trace(path) => of_path(path),
                Payload::Join(join) => of_join(join),
                Payload::Receipt(receipt) => of_receipt(receipt),
            };
            [vec![routed.origin], carried].concat()
        }
        Body::HopAck(ack) => ack.better.into_iter().collect(),
        Body::Receipt(receipt) => of_receipt(receipt),
        Body::Store(packet) => packet.contacts.clone(),
        Body::PingVia { target, .. } => vec![*target],
        Body::Chord(message) => match message {
            Chord::GotBestPredecessor { node, .. } => vec![*node],
            Chord::Referred { to, .. } => vec![*to],
            Chord::GotPredAndSuccs { pred, list, .. } => pred.iter().chain(list).copied().collect(),
            Chord::GotSuccList { list, .. }
            | Chord::Leaving { list }
            | Chord::Seal { list, .. }
            | Chord::Commit { list, .. } => list.clone(),
            _ => Vec::new(),
        },
        Body::Ping(_) | Body::Pong(_) | Body::PongVia { .. } | Body::Echo(_) => Vec::new(),
        Body::Pastry(message) => match message {
            Message::JoinReply(reply) => [of_join(&reply.join), reply.leaves.clone()].concat(),
            Message::JoinRefused { .. } | Message::Announce(_) => Vec::new(),
            Message::LeafProbe(probe) => probe.leaves.clone(),
            Message::LeafReply(reply) => reply.leaves.clone().unwrap_or_default(),
            Message::Race(race) => race.contacts.clone(),
            Message::StateRequest(request) => request.push.iter().map(|entry| entry.contact).collect(),
            Message::StateReply(reply) => reply.contacts.iter().map(|entry| entry.contact).collect(),
            Message::Goodbye(leaves) => leaves.to_vec(),
            Message::Obituary(dead) => vec![*dead],
            Message::LeaseRequest(request) => request.leaves.clone(),
            Message::LeaseReply(reply) => reply.leaves.clone(),
            Message::LeaseRecall(recall) => vec![recall.nearer],
            Message::LeaseReturn { .. } => Vec::new(),
        },
    }
}

fn unmeasured(contacts: Vec<Contact>) -> Vec<Entry> {
    contacts.into_iter().map(Entry::unmeasured).collect()
}

/// Contacts that are near and far, and one nobody has measured.
fn measured(contacts: Vec<Contact>) -> Vec<Entry> {
    let distances = [0, 1, u32::MAX - 1, u32::MAX];
    contacts
        .into_iter()
        .zip(distances.into_iter().cycle())
        .map(|(contact, distance)| Entry { contact, proximity: Proximity(distance) })
        .collect()
}
