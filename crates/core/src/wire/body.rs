//! The bodies of messages: CBOR maps with numbered fields. A number, once given, keeps its meaning.

use alloc::boxed::Box;
use alloc::vec::Vec;

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use super::contacts::{self, Unread};
use super::{AddressBook, CONTACTS_MAX, DecodeError, PAYLOAD_MAX};
use crate::contact::{Contact, Proximity};
use crate::id::Id;
use crate::message::{App, Body, BodyKind, Hop, HopAck, Outcome, Payload, Receipt, Routed, Rule, Stage};
use crate::overlay::pastry::routing_table::Entry;
use crate::overlay::pastry::{
    Announce, Flank, Join, JoinRefusal, JoinReply, LeafProbe, LeafReply, LeaseRecall, LeaseReply,
    LeaseRequest, Message, Race, StateReply, StateRequest, Versions, What,
};
use crate::store::message::Packet;

/// Fields a body may have, known and unknown.
const FIELDS_MAX: u64 = 32;
/// Hops a trace or the path of a join may have.
pub(crate) const PATH_MAX: usize = 255;

/// Why encoding can not fail.
const IN_MEMORY: &str = "writing to memory does not fail";

// The fields. One list for all kinds: the same word has the same number everywhere.
pub(super) const KEY: u8 = 0;
const ORIGIN: u8 = 1;
const SERIAL: u8 = 2;
const HOPS: u8 = 3;
const STAGE: u8 = 4;
const PATH: u8 = 5;
const PURPOSE: u8 = 6;
const BYTES: u8 = 7;
const NONCE: u8 = 8;
const ROWS_DONE: u8 = 9;
pub(super) const CONTACTS: u8 = 10;
pub(super) const TAKEN: u8 = 11;
const BETTER: u8 = 12;
const TO: u8 = 13;
const BY: u8 = 14;
const OUTCOME: u8 = 15;
pub(super) const TARGET: u8 = 16;
pub(super) const WHOLE: u8 = 17;
const LEAVES: u8 = 18;
pub(super) const VERSIONS: u8 = 19;
const REASON: u8 = 20;
pub(super) const SEEN: u8 = 21;
const PROXIMITY: u8 = 22;
const ROUND: u8 = 23;
pub(super) const WHAT: u8 = 24;
const TARGET_ID: u8 = 25;
const HOLDS: u8 = 26;
const SIDE: u8 = 27;
const DIGEST: u8 = 28;

/// Appends the body and returns the number for the header.
pub(super) fn encode(body: &Body, book: &dyn AddressBook, out: &mut Vec<u8>) -> u32 {
    let head = out.len();
    out.push(0);
    let mut writer = Writer { out, count: 0, book };
    let request = writer.body(body);
    // No kind has more than 23 fields, so the head of the map is this one byte.
    let count = writer.count;
    out[head] = 0xa0 | count;
    request
}

pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    count: u8,
    book: &'a dyn AddressBook,
}

impl Writer<'_> {
    fn field(&mut self, number: u8) -> Encoder<&mut Vec<u8>> {
        self.count += 1;
        let mut encoder = Encoder::new(&mut *self.out);
        encoder.u8(number).expect(IN_MEMORY);
        encoder
    }

    pub(super) fn number(&mut self, field: u8, value: u32) {
        self.field(field).u32(value).expect(IN_MEMORY);
    }

    pub(super) fn bytes(&mut self, field: u8, bytes: &[u8]) {
        self.field(field).bytes(bytes).expect(IN_MEMORY);
    }

    /// Writes a byte string in place. Its length is known only afterwards, so it always takes four bytes.
    fn in_place(&mut self, field: u8, write: impl FnOnce(&mut Vec<u8>, &dyn AddressBook)) {
        self.field(field);
        self.out.extend_from_slice(&[0x5a, 0, 0, 0, 0]);
        let start = self.out.len();
        write(self.out, self.book);
        let length = u32::try_from(self.out.len() - start).unwrap_or(u32::MAX);
        self.out[start - 4..start].copy_from_slice(&length.to_be_bytes());
    }

    pub(super) fn contacts(&mut self, field: u8, list: &[Contact]) {
        self.in_place(field, |out, book| {
            out.reserve(30 * list.len());
            list.iter().for_each(|contact| contacts::write(contact, &[], book, out));
        });
    }

    fn entries(&mut self, field: u8, list: &[Entry]) {
        self.in_place(field, |out, book| {
            out.reserve(34 * list.len());
            for Entry { contact, proximity } in list {
                let told = proximity.0.to_be_bytes();
                let told: &[u8] = if *proximity == Proximity::UNKNOWN { &[] } else { &told };
                contacts::write(contact, told, book, out);
            }
        });
    }

    fn versions(&mut self, field: u8, versions: Versions) {
        self.bytes(field, &versions_bytes(versions));
    }

    fn body(&mut self, body: &Body) -> u32 {
        match body {
            Body::Routed(routed) => {
                self.routed(routed);
                routed.hop
            }
            Body::HopAck(HopAck { hop, taken, better }) => {
                self.number(TAKEN, (*taken).into());
                if let Some(better) = better {
                    self.contacts(BETTER, &[*better]);
                }
                *hop
            }
            Body::Receipt(receipt) => {
                self.receipt(receipt);
                receipt.serial
            }
            Body::Ping(nonce) | Body::Pong(nonce) => *nonce,
            Body::PingVia { nonce, target } => {
                self.contacts(TARGET, &[*target]);
                *nonce
            }
            Body::PongVia { nonce, target } => {
                self.bytes(TARGET_ID, &target.to_bytes());
                *nonce
            }
            Body::Pastry(message) => self.pastry(message),
            Body::Chord(message) => super::chord::encode(message, self),
            Body::Store(packet) => {
                if !packet.contacts.is_empty() {
                    self.contacts(CONTACTS, &packet.contacts);
                }
                self.in_place(BYTES, |out, _| minicbor::encode(&packet.message, out).expect(IN_MEMORY));
                packet.message.number()
            }
            #[cfg(any(test, feature = "fake"))]
            Body::Echo(left) => *left,
        }
    }

    fn routed(&mut self, routed: &Routed) {
        let Routed { key, origin, payload, serial, hops, stage, .. } = routed;
        self.bytes(KEY, &key.to_bytes());
        self.contacts(ORIGIN, &[*origin]);
        self.number(SERIAL, *serial);
        self.number(HOPS, (*hops).into());
        self.number(STAGE, (*stage == Stage::Leaf).into());
        match payload {
            Payload::Lookup => {}
            Payload::Trace(path) => self.path(path),
            Payload::App(app) | Payload::Direct(app) => {
                self.number(PURPOSE, app.purpose);
                self.bytes(BYTES, &app.bytes);
            }
            Payload::Join(join) => self.join(join),
            Payload::Receipt(receipt) => self.receipt(receipt),
        }
    }

    fn path(&mut self, path: &[Hop]) {
        self.in_place(PATH, |out, book| {
            for hop in path {
                let mut extra = [0; 7];
                extra[..3].copy_from_slice(&rule_bytes(hop.rule));
                extra[3..].copy_from_slice(&hop.proximity.0.to_be_bytes());
                contacts::write(&hop.node, &extra, book, out);
            }
        });
    }

    fn join(&mut self, join: &Join) {
        self.number(NONCE, join.nonce);
        self.number(ROWS_DONE, join.rows_done.into());
        self.in_place(PATH, |out, book| {
            for (contact, versions) in &join.path {
                contacts::write(contact, &versions_bytes(*versions), book, out);
            }
        });
        self.contacts(CONTACTS, &join.contacts);
    }

    fn receipt(&mut self, receipt: &Receipt) {
        let Receipt { to, serial, hops, by, outcome } = receipt;
        self.contacts(TO, &[*to]);
        self.contacts(BY, &[*by]);
        // A routed receipt has a serial and a hop count of its own; these are the message's.
        self.number(NONCE, *serial);
        self.number(ROUND, (*hops).into());
        self.number(
            OUTCOME,
            match outcome {
                Outcome::Found(_) => 0,
                Outcome::Delivered(_) => 1,
                Outcome::Stopped => 2,
                Outcome::TooManyHops => 3,
                Outcome::NoRoute => 4,
                Outcome::Nearest(_) => 5,
                Outcome::NotThere => 6,
                Outcome::Unhandled => 7,
            },
        );
        match outcome {
            Outcome::Found(path) | Outcome::Nearest(path) if !path.is_empty() => self.path(path),
            Outcome::Delivered(Some(bytes)) => self.bytes(BYTES, bytes),
            _ => {}
        }
    }

    fn pastry(&mut self, message: &Message) -> u32 {
        match message {
            Message::JoinReply(reply) => {
                self.join(&reply.join);
                self.number(WHOLE, reply.whole.into());
                self.contacts(LEAVES, &reply.leaves);
                self.versions(VERSIONS, reply.versions);
                reply.join.nonce
            }
            Message::JoinRefused { nonce, reason } => {
                self.number(REASON, if *reason == JoinRefusal::Busy { 0 } else { 1 });
                *nonce
            }
            Message::LeafProbe(probe) => {
                if let Some(seen) = probe.seen {
                    self.number(SEEN, seen);
                }
                if let Some(digest) = probe.digest {
                    self.number(DIGEST, digest);
                }
                self.contacts(LEAVES, &probe.leaves);
                probe.nonce
            }
            Message::LeafReply(reply) => {
                self.number(VERSIONS, reply.version);
                if let Some(leaves) = &reply.leaves {
                    self.contacts(LEAVES, leaves);
                }
                reply.nonce
            }
            Message::Announce(Announce { seen, proximity, round }) => {
                if let Some(seen) = seen {
                    self.versions(SEEN, *seen);
                }
                self.number(PROXIMITY, proximity.0);
                self.number(ROUND, (*round).into());
                0
            }
            Message::Race(race) => {
                self.versions(VERSIONS, race.versions);
                self.number(ROUND, race.round.into());
                self.contacts(CONTACTS, &race.contacts);
                0
            }
            Message::StateRequest(request) => {
                self.bytes(WHAT, &what_bytes(request.what));
                self.entries(CONTACTS, &request.push);
                if request.proximity != Proximity::UNKNOWN {
                    self.number(PROXIMITY, request.proximity.0);
                }
                request.nonce
            }
            Message::StateReply(reply) => {
                self.bytes(WHAT, &what_bytes(reply.what));
                self.entries(CONTACTS, &reply.contacts);
                reply.nonce
            }
            Message::Goodbye(leaves) => {
                self.contacts(LEAVES, leaves);
                0
            }
            Message::LeaseRequest(request) => {
                self.number(SIDE, (request.side == Flank::Right).into());
                self.number(HOLDS, request.holds);
                if !request.same {
                    self.contacts(LEAVES, &request.leaves);
                }
                request.nonce
            }
            Message::LeaseReply(reply) => {
                self.number(TAKEN, reply.granted.into());
                self.number(HOLDS, reply.holds);
                if !reply.same {
                    self.contacts(LEAVES, &reply.leaves);
                }
                reply.nonce
            }
            Message::LeaseRecall(recall) => {
                self.number(SIDE, (recall.side == Flank::Right).into());
                self.contacts(TARGET, &[recall.nearer]);
                recall.nonce
            }
            Message::LeaseReturn { nonce, nearer } => {
                if let Some(nearer) = nearer {
                    self.bytes(TARGET_ID, &nearer.to_bytes());
                }
                *nonce
            }
            Message::Obituary(dead) => {
                self.contacts(TARGET, &[*dead]);
                0
            }
        }
    }
}

/// All fields a body can have, as found. Lists are checked; what is missing is `None`.
#[derive(Default)]
pub(super) struct Fields<'b> {
    numbers: [Option<u32>; 32],
    bytes: [Option<&'b [u8]>; 32],
}

impl<'b> Fields<'b> {
    fn read(body: &'b [u8]) -> Result<Fields<'b>, DecodeError> {
        let mut decoder = Decoder::new(body);
        let count = decoder.map().ok().flatten().ok_or(DecodeError::Malformed)?;
        if count > FIELDS_MAX {
            return Err(DecodeError::Oversized);
        }
        let mut fields = Fields::default();
        for _ in 0..count {
            let number = decoder.u64().map_err(|_| DecodeError::Malformed)?;
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            match decoder.datatype().map_err(|_| DecodeError::Malformed)? {
                Type::U8 | Type::U16 | Type::U32 if at < fields.numbers.len() => {
                    fields.numbers[at] = Some(decoder.u32().map_err(|_| DecodeError::Malformed)?);
                }
                Type::Bytes if at < fields.bytes.len() => {
                    fields.bytes[at] = Some(decoder.bytes().map_err(|_| DecodeError::Malformed)?);
                }
                _ => decoder.skip().map_err(|_| DecodeError::Malformed)?,
            }
        }
        if decoder.position() != body.len() {
            return Err(DecodeError::Malformed);
        }
        Ok(fields)
    }

    pub(super) fn number(&self, field: u8) -> Result<u32, DecodeError> {
        self.numbers[usize::from(field)].ok_or(DecodeError::Malformed)
    }

    fn small(&self, field: u8) -> Result<u8, DecodeError> {
        u8::try_from(self.number(field)?).map_err(|_| DecodeError::Malformed)
    }

    pub(super) fn optional(&self, field: u8) -> Option<&'b [u8]> {
        self.bytes[usize::from(field)]
    }

    fn bytes(&self, field: u8) -> Result<&'b [u8], DecodeError> {
        self.optional(field).ok_or(DecodeError::Malformed)
    }

    fn payload(&self, field: u8) -> Result<Vec<u8>, DecodeError> {
        let bytes = self.bytes(field)?;
        if bytes.len() > PAYLOAD_MAX { Err(DecodeError::Oversized) } else { Ok(bytes.to_vec()) }
    }

    pub(super) fn id(&self, field: u8) -> Result<Id, DecodeError> {
        Id::from_bytes(self.bytes(field)?).map_err(|_| DecodeError::Malformed)
    }

    pub(super) fn list(&self, field: u8) -> Result<Unread<'b>, DecodeError> {
        Unread::check(self.bytes(field)?, CONTACTS_MAX, 0)
    }

    pub(super) fn one(&self, field: u8) -> Result<Unread<'b>, DecodeError> {
        let list = self.list(field)?;
        if list.len() == 1 { Ok(list) } else { Err(DecodeError::Malformed) }
    }

    fn versions(&self, field: u8) -> Result<Versions, DecodeError> {
        versions_from(self.bytes(field)?).ok_or(DecodeError::Malformed)
    }

    /// The leaves of a lease message; left out, they are the same as before.
    fn leaves_or_same(&self, book: &mut dyn AddressBook) -> Result<(Vec<Contact>, bool), DecodeError> {
        match self.optional(LEAVES) {
            Some(_) => Ok((self.list(LEAVES)?.contacts(book), false)),
            None => Ok((Vec::new(), true)),
        }
    }

    fn flank(&self) -> Result<Flank, DecodeError> {
        match self.number(SIDE)? {
            0 => Ok(Flank::Left),
            1 => Ok(Flank::Right),
            _ => Err(DecodeError::Malformed),
        }
    }

    fn what(&self) -> Result<What, DecodeError> {
        match *self.bytes(WHAT)? {
            [0, ..] => Ok(What::LeafSet),
            [1, row, ..] => Ok(What::Row(row)),
            [2, row, column, ..] => Ok(What::Cell { row, column }),
            [3, ..] => Ok(What::Neighbourhood),
            _ => Err(DecodeError::Malformed),
        }
    }

    /// Checks a traced path; the returned function reads it.
    fn hops(&self) -> Result<impl Fn(&mut dyn AddressBook) -> Vec<Hop> + use<'b>, DecodeError> {
        let list = Unread::check(self.bytes(PATH)?, PATH_MAX, 7)?;
        // Rules are part of every record: an unknown one is only found by reading, so look before learning.
        if list.read(&mut super::IndexBook, |_, extra| rule_from(extra)).contains(&None) {
            return Err(DecodeError::Malformed);
        }
        Ok(move |book: &mut dyn AddressBook| {
            list.read(book, |node, extra| Hop {
                node,
                rule: rule_from(extra).unwrap_or(Rule::Here),
                proximity: Proximity(u32::from_be_bytes([extra[3], extra[4], extra[5], extra[6]])),
            })
        })
    }

    fn join(&self) -> Result<impl Fn(&mut dyn AddressBook) -> Join + use<'b>, DecodeError> {
        let (nonce, rows_done) = (self.number(NONCE)?, self.small(ROWS_DONE)?);
        let path = Unread::check(self.bytes(PATH)?, PATH_MAX, 12)?;
        let contacts = self.list(CONTACTS)?;
        Ok(move |book: &mut dyn AddressBook| Join {
            nonce,
            rows_done,
            path: path.read(book, |contact, extra| (contact, versions_from(extra).unwrap_or_default())),
            contacts: contacts.contacts(book),
        })
    }

    fn receipt(&self, book: &mut dyn AddressBook) -> Result<Receipt, DecodeError> {
        let (to, by) = (self.one(TO)?, self.one(BY)?);
        let (serial, hops) = (self.number(NONCE)?, self.small(ROUND)?);
        let outcome = match self.number(OUTCOME)? {
            code @ (0 | 5) => {
                let path = match self.optional(PATH) {
                    None => Vec::new(),
                    Some(_) => self.hops()?(book),
                };
                if code == 0 { Outcome::Found(path) } else { Outcome::Nearest(path) }
            }
            1 if self.optional(BYTES).is_none() => Outcome::Delivered(None),
            1 => Outcome::Delivered(Some(self.payload(BYTES)?)),
            2 => Outcome::Stopped,
            3 => Outcome::TooManyHops,
            4 => Outcome::NoRoute,
            6 => Outcome::NotThere,
            7 => Outcome::Unhandled,
            _ => return Err(DecodeError::Malformed),
        };
        let (to, by) = (first(to, book)?, first(by, book)?);
        Ok(Receipt { to, serial, hops, by, outcome })
    }

    fn routed(
        &self,
        hop: u32,
        payload: impl FnOnce(&mut dyn AddressBook) -> Payload,
        book: &mut dyn AddressBook,
    ) -> Result<Body, DecodeError> {
        let origin = self.one(ORIGIN)?;
        let (key, serial, hops) = (self.id(KEY)?, self.number(SERIAL)?, self.small(HOPS)?);
        let stage = if self.number(STAGE)? == 0 { Stage::Prefix } else { Stage::Leaf };
        let origin = first(origin, book)?;
        Ok(Body::Routed(Routed { key, origin, payload: payload(book), serial, hop, hops, stage }))
    }
}

/// Reads the only contact of a list that was checked to have one.
pub(super) fn first(list: Unread<'_>, book: &mut dyn AddressBook) -> Result<Contact, DecodeError> {
    list.contacts(book).first().copied().ok_or(DecodeError::Malformed)
}

/// Reads a body of a known kind. Everything is checked before anything is learnt.
pub(super) fn decode(
    kind: BodyKind,
    request: u32,
    body: &[u8],
    book: &mut dyn AddressBook,
) -> Result<Body, DecodeError> {
    let fields = Fields::read(body)?;
    let pastry = |message| Ok(Body::Pastry(message));
    match kind {
        BodyKind::Lookup => fields.routed(request, |_| Payload::Lookup, book),
        BodyKind::Trace => {
            let hops = fields.hops()?;
            fields.routed(request, |book| Payload::Trace(Box::new(hops(book))), book)
        }
        BodyKind::App | BodyKind::Direct => {
            let app = Box::new(App { purpose: fields.number(PURPOSE)?, bytes: fields.payload(BYTES)? });
            let payload = if kind == BodyKind::App { Payload::App(app) } else { Payload::Direct(app) };
            fields.routed(request, |_| payload, book)
        }
        BodyKind::Join => {
            let join = fields.join()?;
            fields.routed(request, |book| Payload::Join(Box::new(join(book))), book)
        }
        BodyKind::RoutedReceipt => {
            // Checked once without learning: the outer message must be right, too.
            fields.routed(request, |_| Payload::Lookup, &mut super::IndexBook)?;
            let receipt = fields.receipt(book)?;
            fields.routed(request, |_| Payload::Receipt(Box::new(receipt)), book)
        }
        BodyKind::HopAck => {
            let taken = fields.number(TAKEN)? != 0;
            let better = fields.optional(BETTER).map(|_| fields.one(BETTER)).transpose()?;
            let better = better.map(|list| first(list, book)).transpose()?;
            Ok(Body::HopAck(HopAck { hop: request, taken, better }))
        }
        BodyKind::Receipt => Ok(Body::Receipt(Box::new(fields.receipt(book)?))),
        BodyKind::Ping => Ok(Body::Ping(request)),
        BodyKind::Pong => Ok(Body::Pong(request)),
        BodyKind::PingVia => Ok(Body::PingVia { nonce: request, target: first(fields.one(TARGET)?, book)? }),
        BodyKind::PongVia => Ok(Body::PongVia { nonce: request, target: fields.id(TARGET_ID)? }),
        BodyKind::JoinReply => {
            let (join, leaves) = (fields.join()?, fields.list(LEAVES)?);
            let (whole, versions) = (fields.number(WHOLE)? != 0, fields.versions(VERSIONS)?);
            let reply = JoinReply { join: join(book), whole, leaves: leaves.contacts(book), versions };
            pastry(Message::JoinReply(Box::new(reply)))
        }
        BodyKind::JoinRefused => {
            let reason = match fields.number(REASON)? {
                0 => JoinRefusal::Busy,
                1 => JoinRefusal::IdTaken,
                _ => return Err(DecodeError::Malformed),
            };
            pastry(Message::JoinRefused { nonce: request, reason })
        }
        BodyKind::LeafProbe => {
            let (seen, digest) = (fields.number(SEEN).ok(), fields.number(DIGEST).ok());
            let leaves = fields.list(LEAVES)?.contacts(book);
            pastry(Message::LeafProbe(Box::new(LeafProbe { nonce: request, seen, leaves, digest })))
        }
        BodyKind::LeafReply => {
            let version = fields.number(VERSIONS)?;
            let leaves = fields.optional(LEAVES).map(|_| fields.list(LEAVES)).transpose()?;
            let leaves = leaves.map(|list| list.contacts(book));
            pastry(Message::LeafReply(Box::new(LeafReply { nonce: request, version, leaves })))
        }
        BodyKind::Announce => {
            let seen = fields.optional(SEEN).map(|_| fields.versions(SEEN)).transpose()?;
            let (proximity, round) = (Proximity(fields.number(PROXIMITY)?), fields.small(ROUND)?);
            pastry(Message::Announce(Announce { seen, proximity, round }))
        }
        BodyKind::Race => {
            let (versions, round) = (fields.versions(VERSIONS)?, fields.small(ROUND)?);
            let contacts = fields.list(CONTACTS)?.contacts(book);
            pastry(Message::Race(Box::new(Race { versions, round, contacts })))
        }
        BodyKind::StateRequest => {
            let (what, push) = (fields.what()?, fields.list(CONTACTS)?.entries(book));
            let proximity = fields.number(PROXIMITY).map_or(Proximity::UNKNOWN, Proximity);
            pastry(Message::StateRequest(Box::new(StateRequest { nonce: request, what, push, proximity })))
        }
        BodyKind::StateReply => {
            let (what, contacts) = (fields.what()?, fields.list(CONTACTS)?.entries(book));
            pastry(Message::StateReply(Box::new(StateReply { nonce: request, what, contacts })))
        }
        BodyKind::Goodbye => pastry(Message::Goodbye(Box::new(fields.list(LEAVES)?.contacts(book)))),
        BodyKind::LeaseRequest => {
            let (side, holds) = (fields.flank()?, fields.number(HOLDS)?);
            let (leaves, same) = fields.leaves_or_same(book)?;
            let request = LeaseRequest { nonce: request, side, holds, leaves, same };
            pastry(Message::LeaseRequest(Box::new(request)))
        }
        BodyKind::LeaseReply => {
            let (granted, holds) = (fields.number(TAKEN)? != 0, fields.number(HOLDS)?);
            let (leaves, same) = fields.leaves_or_same(book)?;
            pastry(Message::LeaseReply(Box::new(LeaseReply { nonce: request, granted, holds, leaves, same })))
        }
        BodyKind::LeaseRecall => {
            let (side, nearer) = (fields.flank()?, first(fields.one(TARGET)?, book)?);
            pastry(Message::LeaseRecall(Box::new(LeaseRecall { nonce: request, side, nearer })))
        }
        BodyKind::LeaseReturn => {
            let nearer = fields.optional(TARGET_ID).map(|_| fields.id(TARGET_ID)).transpose()?;
            pastry(Message::LeaseReturn { nonce: request, nearer })
        }
        BodyKind::GetBestPredecessor
        | BodyKind::GotBestPredecessor
        | BodyKind::GetSuccList
        | BodyKind::GotSuccList
        | BodyKind::GetPredAndSuccs
        | BodyKind::GotPredAndSuccs
        | BodyKind::Notify
        | BodyKind::Busy
        | BodyKind::RingPing
        | BodyKind::RingPong
        | BodyKind::Leaving
        | BodyKind::Apply
        | BodyKind::Referred
        | BodyKind::Seal
        | BodyKind::Sealed
        | BodyKind::Commit => super::chord::decode(kind, request, &fields, book).map(Body::Chord),
        BodyKind::Obituary => pastry(Message::Obituary(first(fields.one(TARGET)?, book)?)),
        BodyKind::StoreAsk
        | BodyKind::StoreAnswer
        | BodyKind::StoreDo
        | BodyKind::StoreDid
        | BodyKind::StoreSlots
        | BodyKind::StorePull
        | BodyKind::StorePage
        | BodyKind::StoreCompare
        | BodyKind::StorePausing
        | BodyKind::StoreClock
        | BodyKind::StoreSurvey
        | BodyKind::StoreSurveyed => {
            let message = minicbor::decode(fields.bytes(BYTES)?).map_err(|_| DecodeError::Malformed)?;
            let mut body = Body::Store(Box::new(Packet { message, contacts: Vec::new() }));
            let list = fields.optional(CONTACTS).map(|_| fields.list(CONTACTS)).transpose()?;
            if body.kind() != kind {
                return Err(DecodeError::Malformed);
            }
            if let (Body::Store(packet), Some(list)) = (&mut body, list) {
                packet.contacts = list.contacts(book);
            }
            Ok(body)
        }
        #[cfg(any(test, feature = "fake"))]
        BodyKind::Echo => Ok(Body::Echo(request)),
        #[cfg(not(any(test, feature = "fake")))]
        BodyKind::Echo => Err(DecodeError::UnknownKind(u8::MAX)),
    }
}

fn versions_bytes(versions: Versions) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&versions.leaf_set.to_be_bytes());
    bytes[4..8].copy_from_slice(&versions.table.to_be_bytes());
    bytes[8..].copy_from_slice(&versions.neighbourhood.to_be_bytes());
    bytes
}

fn versions_from(bytes: &[u8]) -> Option<Versions> {
    let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    Some(Versions { leaf_set: number(0)?, table: number(4)?, neighbourhood: number(8)? })
}

fn rule_bytes(rule: Rule) -> [u8; 3] {
    match rule {
        Rule::LeafSet => [0, 0, 0],
        Rule::Cell { row, column } => [1, row, column],
        Rule::Spare { row, column } => [2, row, column],
        Rule::RareCase => [3, 0, 0],
        Rule::Here => [4, 0, 0],
        Rule::SuccessorList => [5, 0, 0],
        Rule::Finger { bit } => [6, bit, 0],
        Rule::Predecessor => [7, 0, 0],
    }
}

fn rule_from(bytes: &[u8]) -> Option<Rule> {
    match *bytes.first_chunk::<3>()? {
        [0, ..] => Some(Rule::LeafSet),
        [1, row, column] => Some(Rule::Cell { row, column }),
        [2, row, column] => Some(Rule::Spare { row, column }),
        [3, ..] => Some(Rule::RareCase),
        [4, ..] => Some(Rule::Here),
        [5, ..] => Some(Rule::SuccessorList),
        [6, bit, _] => Some(Rule::Finger { bit }),
        [7, ..] => Some(Rule::Predecessor),
        _ => None,
    }
}

fn what_bytes(what: What) -> [u8; 3] {
    match what {
        What::LeafSet => [0, 0, 0],
        What::Row(row) => [1, row, 0],
        What::Cell { row, column } => [2, row, column],
        What::Neighbourhood => [3, 0, 0],
    }
}
