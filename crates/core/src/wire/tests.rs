//! The wire format, pinned: what is written today must be read for ever, and nothing a peer writes may do harm.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use std::fs;
use std::path::PathBuf;

mod samples;
mod store_samples;

use minicbor::data::{Int, Tag};
use minicbor::{Decoder, Encoder};

use samples::*;

use super::*;
use crate::contact::{Contact, Proximity};
use crate::id::Id;
use crate::message::{App, Hop, HopAck, Outcome, Payload, Receipt, Routed, Rule, Stage};
use crate::overlay::pastry::{
    Announce, Join, JoinRefusal, JoinReply, LeafProbe, LeafReply, Message, Race, StateReply, StateRequest,
    Versions, What,
};

fn encoded(body: &Body) -> Vec<u8> {
    let mut out = Vec::new();
    encode(body, CLUSTER, &Book::default(), &mut out);
    out
}

/// Decodes, and checks on the way that the address book was left alone if the message was refused.
fn decoded(bytes: &[u8]) -> Result<(Body, usize), DecodeError> {
    let mut book = Book::default();
    let result = decode(bytes, CLUSTER, &mut book);
    if let Err(error) = result {
        assert_eq!(book.learnt, [], "learnt from a message refused as {error:?}: {bytes:02x?}");
    }
    result
}

/// Makes a frame of this build's version around a body.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADER];
    let length = body.len() as u32;
    let header =
        Header { length, version: VERSION, oldest: OLDEST, kind, request: 0x0102_0304, cluster: CLUSTER };
    header.write(&mut frame);
    frame.extend_from_slice(body);
    frame
}

/// Writes the body's length anew after it was cut or lengthened.
fn patch_length(frame: &mut [u8]) {
    let length = (frame.len() - HEADER) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
}

/// The fields of a body: number, and the bytes of number and value together.
fn fields(body: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut decoder = Decoder::new(body);
    let count = decoder.map().unwrap().unwrap();
    (0..count)
        .map(|_| {
            let start = decoder.position();
            let number = decoder.u64().unwrap();
            decoder.skip().unwrap();
            (number, body[start..decoder.position()].to_vec())
        })
        .collect()
}

/// Puts fields together again.
fn map_of<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let fields: Vec<&[u8]> = fields.into_iter().collect();
    let mut body = Encoder::new(Vec::new());
    body.map(fields.len() as u64).unwrap();
    let mut body = body.into_writer();
    body.extend(fields.concat());
    body
}

/// One field with a byte string.
fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = Encoder::new(Vec::new());
    field.u8(number).unwrap().bytes(bytes).unwrap();
    field.into_writer()
}

fn number_field(number: u8, value: u64) -> Vec<u8> {
    let mut field = Encoder::new(Vec::new());
    field.u8(number).unwrap().u64(value).unwrap();
    field.into_writer()
}

/// The record of a contact, written by hand: addresses as they are, number of addresses as claimed.
fn record(addresses_claimed: u8, addresses: &[u8], tail: &[u8]) -> Vec<u8> {
    let mut record = vec![0];
    record.extend(two().id.to_bytes());
    record.extend(two().incarnation.to_be_bytes());
    record.push(addresses_claimed);
    record.extend(addresses);
    record.extend(tail);
    record[0] = (record.len() - 1) as u8;
    record
}

/// A v4 address 10.0.0.`n`, as written on the wire.
fn v4(n: u8) -> [u8; 7] {
    [4, 10, 0, 0, n, 0x1c, 0xe8]
}

/// A v6 address 2001:db8::`n`, as written on the wire.
fn v6(n: u8) -> [u8; 19] {
    [6, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n, 0x1c, 0xe8]
}

/// A goodbye, the plainest message with a list, around records written by hand.
fn goodbye_of(records: &[u8]) -> Vec<u8> {
    frame(code(BodyKind::Goodbye), &map_of([bytes_field(18, records).as_slice()]))
}

/// A message that is complete with no field at all, around fields written by hand.
fn ping_with(fields: &[&[u8]]) -> Vec<u8> {
    frame(code(BodyKind::Ping), &map_of(fields.iter().copied()))
}

#[test]
fn samples_cover_every_kind_and_every_choice_within_a_kind() {
    // Without a catch-all arm: whoever adds a choice is sent here by the compiler, and to the samples by the count.
    let rule = |rule: &Rule| match rule {
        Rule::LeafSet => 0,
        Rule::Cell { .. } => 1,
        Rule::Spare { .. } => 2,
        Rule::RareCase => 3,
        Rule::Here => 4,
        Rule::SuccessorList => 5,
        Rule::Finger { .. } => 6,
        Rule::Predecessor => 7,
    };
    let outcome = |outcome: &Outcome| match outcome {
        Outcome::Found(path) => usize::from(path.is_empty()),
        Outcome::Delivered(bytes) => 2 + usize::from(bytes.is_some()),
        Outcome::Stopped => 4,
        Outcome::TooManyHops => 5,
        Outcome::NoRoute => 6,
        Outcome::Nearest(_) => 7,
        Outcome::NotThere => 8,
        Outcome::Unhandled => 9,
    };
    let part = |what: &What| match what {
        What::LeafSet => 0,
        What::Row(_) => 1,
        What::Cell { .. } => 2,
        What::Neighbourhood => 3,
    };
    let reason = |reason: &JoinRefusal| match reason {
        JoinRefusal::Busy => 0,
        JoinRefusal::IdTaken => 1,
    };
    let (mut kinds, mut rules, mut outcomes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut asked, mut given, mut reasons) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for body in samples().values() {
        kinds.insert(body.kind());
        match body {
            Body::Routed(Routed { payload: Payload::Trace(path), .. }) => {
                rules.extend(path.iter().map(|hop| rule(&hop.rule)))
            }
            Body::Routed(Routed { payload: Payload::Receipt(receipt), .. }) => {
                outcomes.insert((true, outcome(&receipt.outcome)));
            }
            Body::Receipt(receipt) => {
                outcomes.insert((false, outcome(&receipt.outcome)));
            }
            Body::Pastry(Message::StateRequest(request)) => {
                asked.insert(part(&request.what));
            }
            Body::Pastry(Message::StateReply(reply)) => {
                given.insert(part(&reply.what));
            }
            Body::Pastry(Message::JoinRefused { reason: why, .. }) => {
                reasons.insert(reason(why));
            }
            _ => {}
        }
    }
    assert_eq!(kinds.len(), BodyKind::ALL.len());
    assert_eq!((rules.len(), outcomes.len()), (8, 2 * 9));
    assert_eq!((asked.len(), given.len(), reasons.len()), (4, 4, 2));
}

#[test]
fn every_kind_has_a_number_of_its_own() {
    let numbers: BTreeSet<u8> = BodyKind::ALL.iter().map(|kind| code(*kind)).collect();
    assert_eq!(numbers.len(), BodyKind::ALL.len());
    assert!(!numbers.contains(&0), "zeroed memory must not look like a message");
}

#[test]
fn what_is_encoded_decodes_to_the_same_and_each_contact_is_learnt_once() {
    for (name, body) in samples() {
        let bytes = encoded(&body);
        let mut book = Book::default();
        assert_eq!(decode(&bytes, CLUSTER, &mut book), Ok((body.clone(), bytes.len())), "{name}");
        let mut named: Vec<_> = contacts_in(&body).iter().map(|c| (c.id, c.incarnation)).collect();
        let mut learnt: Vec<_> = book.learnt.iter().map(|(id, incarnation, _)| (*id, *incarnation)).collect();
        named.sort();
        learnt.sort();
        assert_eq!(learnt, named, "{name}");
    }
}

#[test]
fn frames_back_to_back_decode_one_after_the_other() {
    let samples = samples();
    let mut stream = b"already sent".to_vec();
    let before = stream.len();
    for body in samples.values() {
        encode(body, CLUSTER, &Book::default(), &mut stream);
    }
    assert_eq!(&stream[..before], b"already sent", "encoding appends");
    let mut rest = &stream[before..];
    for (name, body) in &samples {
        let (read, length) = decoded(rest).unwrap();
        assert_eq!(read, *body, "{name}");
        rest = &rest[length..];
    }
    assert_eq!(rest, [0; 0]);
}

fn golden_directory() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "testdata", "wire-v1"].iter().collect()
}

fn to_hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

/// A leaf reply as a later version may write it, and what this version understands of it.
///
/// It has every kind of field this version does not know, fields of known numbers in unknown types, and contacts that
/// carry more than they do today.
fn from_the_future() -> (Vec<u8>, Body) {
    let mut body = Encoder::new(Vec::new());
    let tail = b"a public key, perhaps";
    let leaves = [record(1, &v4(1), tail), record(2, &[v6(2).as_slice(), &v4(2)].concat(), tail)].concat();
    (|| {
        body.map(29)?;
        // Numbers not in use yet, below and above the largest one this version looks at.
        body.u8(26)?.u32(7)?.u8(27)?.bytes(b"new")?.u8(31)?.u8(1)?.u8(40)?.u32(7)?.u8(41)?.bytes(b"new")?;
        body.u64(u64::MAX)?.u64(u64::MAX)?;
        body.u8(42)?
            .i8(-1)?
            .u8(43)?
            .i64(i64::MIN)?
            .u8(44)?
            .int(Int::try_from(-18_446_744_073_709_551_616_i128).unwrap())?;
        body.u8(45)?.str("text")?.u8(46)?.str("")?.u8(47)?.f32(1.5)?.u8(48)?.f64(-0.0)?;
        body.u8(49)?.bool(true)?.u8(50)?.null()?.u8(51)?.undefined()?.u8(52)?.simple(255)?;
        // The fields this version knows, in between.
        body.u8(18)?.bytes(&leaves)?.u8(19)?.u32(9)?;
        // Lists and maps within each other, of stated and of unstated length.
        body.u8(53)?.array(3)?.u8(1)?.array(0)?.map(1)?.str("key")?.array(2)?.null()?.bytes(&[])?;
        body.u8(54)?.begin_array()?.begin_map()?.u8(1)?.begin_array()?.end()?.end()?.end()?;
        body.u8(55)?.array(2)?.begin_array()?.u8(1)?.end()?.u8(2)?;
        body.u8(56)?.map(2)?.u8(1)?.map(0)?.u8(2)?.begin_map()?.end()?;
        body.u8(57)?.begin_bytes()?.bytes(b"in")?.bytes(b"parts")?.end()?;
        body.u8(58)?.begin_str()?.str("in")?.str("parts")?.end()?;
        body.u8(59)?.tag(Tag::new(0))?.str("1969-07-20T20:17:40Z")?;
        body.u8(60)?.tag(Tag::new(u64::MAX))?.tag(Tag::new(2))?.array(1)?.tag(Tag::new(1))?.u8(0)?;
        // A half float, which the encoder does not write.
        body.u8(61)?;
        body.writer_mut().extend([0xf9, 0x3c, 0x00]);
        // A known number in a type that is not its own means nothing to this version.
        body.u8(20)?.array(1)?.u8(20)?;
        Ok::<(), minicbor::encode::Error<core::convert::Infallible>>(())
    })()
    .unwrap();
    let body = body.into_writer();
    let mut bytes = frame(code(BodyKind::LeafReply), &body);
    (bytes[6], bytes[7]) = (2, 1);
    let leaf = |ip: IpAddr| Contact {
        addr: Book::default().learn(two().id, 1, &[SocketAddr::new(ip, 7400)]),
        ..two()
    };
    let leaves = vec![
        leaf(Ipv4Addr::new(10, 0, 0, 1).into()),
        leaf(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into()),
    ];
    let reply = LeafReply { nonce: 0x0102_0304, version: 9, leaves: Some(leaves) };
    (bytes, Body::Pastry(Message::LeafReply(Box::new(reply))))
}

/// `KRINGLE_BLESS=1` writes the files anew. Files that were part of a release may never change by that.
#[test]
fn golden_frames_are_read_and_written_as_on_the_day_they_were_recorded() {
    let directory = golden_directory();
    let mut expected: BTreeMap<String, (Vec<u8>, Body, bool)> = BTreeMap::new();
    for (name, body) in samples() {
        expected.insert(name + ".hex", (encoded(&body), body, true));
    }
    let (bytes, body) = from_the_future();
    expected.insert("from-the-future.hex".to_owned(), (bytes, body, false));
    let found = || -> BTreeSet<String> {
        let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    };
    if std::env::var_os("KRINGLE_BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(&directory).unwrap();
        found().iter().for_each(|name| fs::remove_file(directory.join(name)).unwrap());
        for (name, (bytes, ..)) in &expected {
            fs::write(directory.join(name), to_hex(bytes)).unwrap();
        }
    }
    assert_eq!(found(), expected.keys().cloned().collect(), "a golden file is missing, or one too many");
    for (name, (bytes, body, ours)) in expected {
        let golden = from_hex(&fs::read_to_string(directory.join(&name)).unwrap());
        assert_eq!(decoded(&golden), Ok((body.clone(), golden.len())), "{name} is read differently");
        assert_eq!(to_hex(&bytes), to_hex(&golden), "{name} is written differently");
        assert_eq!(encoded(&body) == golden, ours, "{name}: only what this version wrote is written again");
    }
}

#[test]
fn a_frame_by_a_newer_version_is_read_if_it_allows_that() {
    // "Oldest version that can read it" decides, not the version it is written in: version 7 may have added fields
    // that version 1 skips. Only a change nobody may ignore raises "oldest".
    for (name, body) in samples() {
        let mut bytes = encoded(&body);
        (bytes[6], bytes[7]) = (7, 1);
        assert_eq!(decoded(&bytes), Ok((body, bytes.len())), "{name}");
        (bytes[6], bytes[7]) = (7, VERSION + 1);
        let wrong = DecodeError::WrongVersion { version: 7, oldest: VERSION + 1 };
        assert_eq!(decoded(&bytes), Err(wrong), "{name}");
    }
}

#[test]
fn a_frame_cut_off_anywhere_is_truncated_and_one_that_denies_it_malformed() {
    for (name, body) in samples() {
        let bytes = encoded(&body);
        for cut in 0..bytes.len() {
            assert_eq!(decoded(&bytes[..cut]), Err(DecodeError::Truncated), "{name} cut to {cut}");
            if cut >= HEADER {
                let mut denying = bytes[..cut].to_vec();
                patch_length(&mut denying);
                assert_eq!(decoded(&denying), Err(DecodeError::Malformed), "{name} cut to {cut}");
            }
        }
        let mut longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(decoded(&longer), Ok((body, bytes.len())), "{name}: what follows is another frame's");
        patch_length(&mut longer);
        assert_eq!(decoded(&longer), Err(DecodeError::Malformed), "{name}: a body ends with its last field");
    }
}

#[test]
fn nothing_is_learnt_from_a_frame_that_is_refused() {
    let (future, _) = from_the_future();
    for bytes in samples().values().map(encoded).chain([future]) {
        let (mut read, mut refused) = (0, 0);
        for at in 0..bytes.len() {
            // Every single bit, and the values that are most likely to be special.
            let values = (0..8).map(|bit| bytes[at] ^ 1 << bit).chain([0, 0xff, !bytes[at]]);
            for value in values.filter(|value| *value != bytes[at]) {
                let mut changed = bytes.clone();
                changed[at] = value;
                match decoded(&changed) {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(read > 0 && refused > 0, "the check looked at nothing: {read} read, {refused} refused");
    }
}

#[test]
fn a_frame_with_several_faults_teaches_nothing() {
    // One good contact in front of each fault: it must not be learnt either.
    use crate::dice::{Dice, SeededDice};
    let mut dice = SeededDice::new(20);
    let samples: Vec<Vec<u8>> = samples().values().map(encoded).collect();
    for _ in 0..50_000 {
        let mut bytes = samples[dice.below(samples.len())].clone();
        for _ in 0..1 + dice.below(4) {
            let at = HEADER + dice.below(bytes.len() - HEADER);
            bytes[at] = dice.roll() as u8;
        }
        // Another kind's field list: most numbers are there, in other combinations.
        if dice.below(4) == 0 {
            bytes[8] = code(BodyKind::ALL[dice.below(BodyKind::ALL.len())]);
        }
        let _ = decoded(&bytes);
    }
}

#[test]
fn a_missing_field_is_malformed_unless_it_may_be_missing() {
    let may_be_missing = |kind: BodyKind, field: u64| match (kind, field) {
        // Better hop, predecessor, seen version, digest, leaf set that was seen, nobody nearer, distance that was not measured, path that was
        // not traced, answer that was not given.
        (BodyKind::HopAck, 12)
        | (BodyKind::GotPredAndSuccs, 16)
        | (BodyKind::StateRequest, 22)
        | (BodyKind::LeafProbe | BodyKind::Announce, 21)
        | (BodyKind::LeafProbe, 28)
        | (BodyKind::LeafReply | BodyKind::LeaseRequest | BodyKind::LeaseReply, 18)
        | (BodyKind::LeaseReturn, 25) => true,
        (BodyKind::Receipt | BodyKind::RoutedReceipt, 5 | 7) => true,
        // Nodes a store names.
        (kind, 10) if kind.is_of_store() => true,
        _ => false,
    };
    for (name, body) in samples() {
        let bytes = encoded(&body);
        let all = fields(&bytes[HEADER..]);
        for (left_out, _) in &all {
            let rest = all.iter().filter(|(number, _)| number != left_out).map(|(_, field)| field.as_slice());
            let mut short = [&bytes[..HEADER], map_of(rest).as_slice()].concat();
            patch_length(&mut short);
            match decoded(&short) {
                Ok((read, _)) => {
                    assert!(may_be_missing(body.kind(), *left_out), "{name} without {left_out}");
                    assert_ne!(read, body, "{name}: field {left_out} says nothing");
                }
                Err(error) => {
                    assert_eq!(error, DecodeError::Malformed, "{name} without {left_out}");
                    assert!(!may_be_missing(body.kind(), *left_out), "{name} without {left_out}");
                }
            }
        }
        // The order of the fields means nothing.
        let reversed = all.iter().rev().map(|(_, field)| field.as_slice());
        let mut reversed = [&bytes[..HEADER], map_of(reversed).as_slice()].concat();
        patch_length(&mut reversed);
        assert_eq!(decoded(&reversed), Ok((body, bytes.len())), "{name}");
    }
}

#[test]
fn each_fault_is_refused_by_its_name() {
    use DecodeError::{Malformed, Oversized, Truncated, UnknownKind, WrongCluster, WrongVersion};
    let ping = encoded(&Body::Ping(7));
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = ping.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    let pong = code(BodyKind::PongVia);
    let lookup = |field: &[u8]| {
        let full = encoded(&first(Payload::Lookup));
        let number = Decoder::new(field).u64().unwrap();
        let all = fields(&full[HEADER..]);
        let rest = all.iter().filter(|(other, _)| *other != number).map(|(_, field)| field.as_slice());
        frame(code(BodyKind::Lookup), &map_of(rest.chain([field])))
    };
    // A map head and a byte string head that claim 2^64 - 1 of what they count.
    let (endless_map, endless_bytes) =
        ([&[0xbb][..], &[0xff; 8]].concat(), [&[7, 0x5b][..], &[0xff; 8]].concat());
    let endless_arrays = [&[40][..], &[[0x9b].as_slice(), &[0xff; 8]].concat().repeat(3)].concat();
    let many = |count: usize| (0..count as u8).map(|n| number_field(100 + n, 0)).collect::<Vec<_>>();
    let refused: Vec<(&str, Vec<u8>, DecodeError)> = vec![
        ("nothing at all", Vec::new(), Truncated),
        ("half a header", ping[..HEADER / 2].to_vec(), Truncated),
        ("wrong magic", with(4, b"RK"), Malformed),
        ("half the magic", with(5, b"K"), Malformed),
        ("wrong cluster", with(HEADER - 1, b"!"), WrongCluster),
        ("only for newer readers", with(6, &[9, 2]), WrongVersion { version: 9, oldest: 2 }),
        ("too old", with(6, &[0, 0]), WrongVersion { version: 0, oldest: 0 }),
        ("unknown kind", with(8, &[200]), UnknownKind(200)),
        ("kind zero", with(8, &[0]), UnknownKind(0)),
        ("a length beyond the limit", with(0, &(BODY_MAX as u32 + 1).to_be_bytes()), Oversized),
        ("the greatest length there is", with(0, &[0xff; 4]), Oversized),
        ("a length within the limit, but not there", with(0, &(BODY_MAX as u32).to_be_bytes()), Truncated),
        ("an empty body", frame(code(BodyKind::Ping), &[]), Malformed),
        ("a body that is a list", frame(code(BodyKind::Ping), &[0x80]), Malformed),
        ("a map of unstated length", frame(code(BodyKind::Ping), &[0xbf, 0xff]), Malformed),
        (
            "more fields than allowed",
            ping_with(&many(33).iter().map(Vec::as_slice).collect::<Vec<_>>()),
            Oversized,
        ),
        ("a map that claims to be endless", frame(code(BodyKind::Ping), &endless_map), Oversized),
        ("fewer fields than claimed", frame(code(BodyKind::Ping), &[0xa2, 1, 1]), Malformed),
        ("more fields than claimed", frame(code(BodyKind::Ping), &[0xa1, 1, 1, 2, 2]), Malformed),
        ("a field named by text", ping_with(&[&[0x61, b'a', 0]]), Malformed),
        ("a field with a negative number", ping_with(&[&[0x20, 0]]), Malformed),
        ("bytes that claim to be endless", ping_with(&[&endless_bytes]), Malformed),
        ("text that is none", ping_with(&[&[40, 0x62, 0xff, 0xff]]), Malformed),
        ("lists that claim to be endless", ping_with(&[&endless_arrays]), Malformed),
        ("a reserved head", ping_with(&[&[40, 0x1c]]), Malformed),
        ("an id that is too short", frame(pong, &map_of([bytes_field(25, &[0; 15]).as_slice()])), Malformed),
        ("an id that is too long", frame(pong, &map_of([bytes_field(25, &[0; 17]).as_slice()])), Malformed),
        ("an id that is a number", frame(pong, &map_of([number_field(25, 0).as_slice()])), Malformed),
        (
            "an id in parts",
            frame(pong, &map_of([[&[0x18, 25, 0x5f, 0x50][..], &[0; 16], &[0xff]].concat().as_slice()])),
            Malformed,
        ),
        ("more hops than fit", lookup(&number_field(3, 256)), Malformed),
        ("a serial that does not fit", lookup(&number_field(2, 1 << 32)), Malformed),
        ("no origin", lookup(&bytes_field(1, &[])), Malformed),
        ("two origins", lookup(&bytes_field(1, &record(1, &v4(1), &[]).repeat(2))), Malformed),
        ("a contact without an address", goodbye_of(&record(0, &[], &[])), Malformed),
        ("a contact with five addresses", goodbye_of(&record(5, &v4(1).repeat(5), &[])), Malformed),
        ("fewer addresses than claimed", goodbye_of(&record(2, &v4(1), &[])), Malformed),
        ("an unknown address family", goodbye_of(&record(1, &[5, 10, 0, 0, 1, 0, 80], &[])), Malformed),
        (
            "an unknown family after a known one",
            goodbye_of(&record(2, &[v4(1), [5; 7]].concat(), &[])),
            Malformed,
        ),
        ("a contact of no length", goodbye_of(&[0]), Malformed),
        ("a contact longer than its list", goodbye_of(&record(1, &v4(1), &[])[..25]), Malformed),
        (
            "a good contact and a bad one",
            goodbye_of(&[record(1, &v4(1), &[]), record(0, &[], &[])].concat()),
            Malformed,
        ),
    ];
    for (fault, bytes, error) in refused {
        assert_eq!(decoded(&bytes), Err(error), "{fault}");
        let refusal = match error {
            Truncated => Refusal::Truncated,
            Malformed => Refusal::Malformed,
            Oversized => Refusal::Oversized,
            WrongVersion { .. } => Refusal::WrongVersion,
            WrongCluster => Refusal::WrongCluster,
            UnknownKind(_) => Refusal::UnknownKind,
        };
        assert_eq!(error.refusal(), refusal, "{fault}");
        assert!(!error.to_string().is_empty());
    }
    assert!(
        decoded(&ping_with(&many(32).iter().map(Vec::as_slice).collect::<Vec<_>>())).is_ok(),
        "as many as allowed"
    );
}

#[test]
fn a_choice_that_is_unknown_is_malformed() {
    let replaced = |body: Body, field: Vec<u8>| {
        let bytes = encoded(&body);
        let number = Decoder::new(&field).u64().unwrap();
        let all = fields(&bytes[HEADER..]);
        assert!(all.iter().any(|(other, _)| *other == number));
        let rest = all.iter().filter(|(other, _)| *other != number).map(|(_, field)| field.as_slice());
        frame(code(body.kind()), &map_of(rest.chain([field.as_slice()])))
    };
    let sample = |kind| samples_of(kind).swap_remove(0);
    let hop = |rule: u8| record(1, &v4(1), &[rule, 0, 0, 0, 0, 0, 0]);
    for (frame, ok) in [
        (replaced(sample(BodyKind::Receipt), number_field(15, 6)), true),
        (replaced(sample(BodyKind::Receipt), number_field(15, 8)), false),
        (replaced(sample(BodyKind::RoutedReceipt), number_field(15, 8)), false),
        (replaced(sample(BodyKind::LeaseRequest), number_field(27, 1)), true),
        (replaced(sample(BodyKind::LeaseRequest), number_field(27, 2)), false),
        (replaced(sample(BodyKind::GetSuccList), number_field(17, 1)), true),
        (replaced(sample(BodyKind::GetSuccList), number_field(17, 2)), false),
        (replaced(sample(BodyKind::Sealed), number_field(11, 2)), false),
        (replaced(sample(BodyKind::JoinRefused), number_field(20, 1)), true),
        (replaced(sample(BodyKind::JoinRefused), number_field(20, 2)), false),
        (replaced(sample(BodyKind::StateRequest), bytes_field(24, &[3])), true),
        (replaced(sample(BodyKind::StateRequest), bytes_field(24, &[4, 0, 0])), false),
        (replaced(sample(BodyKind::StateReply), bytes_field(24, &[])), false),
        (replaced(sample(BodyKind::StateReply), bytes_field(24, &[1])), false),
        (replaced(sample(BodyKind::StateReply), bytes_field(24, &[2, 1])), false),
        (replaced(sample(BodyKind::Trace), bytes_field(5, &hop(4))), true),
        (replaced(sample(BodyKind::Trace), bytes_field(5, &hop(7))), true),
        (replaced(sample(BodyKind::Trace), bytes_field(5, &hop(8))), false),
        (replaced(sample(BodyKind::Trace), bytes_field(5, &[hop(4), hop(8)].concat())), false),
        (replaced(sample(BodyKind::Trace), bytes_field(5, &record(1, &v4(1), &[0; 6]))), false),
        (replaced(sample(BodyKind::Join), bytes_field(5, &record(1, &v4(1), &[0; 12]))), true),
        (replaced(sample(BodyKind::Join), bytes_field(5, &record(1, &v4(1), &[0; 11]))), false),
    ] {
        let error = decoded(&frame).err();
        assert_eq!(error, if ok { None } else { Some(DecodeError::Malformed) }, "{frame:02x?}");
    }
}

#[test]
fn a_length_may_be_written_in_more_bytes_than_it_needs() {
    // Lists are written in place, before their length is known; other writers may do better, or worse.
    let record = record(1, &v4(1), &[]);
    let length = record.len() as u8;
    let mut read = Vec::new();
    for head in [
        &[0x58, length][..],
        &[0x59, 0, length],
        &[0x5a, 0, 0, 0, length],
        &[0x5b, 0, 0, 0, 0, 0, 0, 0, length],
    ] {
        let field = [&[18], head, &record].concat();
        read.push(decoded(&frame(code(BodyKind::Goodbye), &map_of([field.as_slice()]))).unwrap().0);
    }
    assert!(read.iter().all(|body| *body == read[0] && contacts_in(body).len() == 1), "{read:?}");
}

#[test]
fn lists_and_payloads_are_read_up_to_their_limit_and_not_beyond() {
    let goodbye = |count| Body::Pastry(Message::Goodbye(Box::new(vec![last(); count])));
    let trace = |count| first(Payload::Trace(Box::new(vec![path()[1]; count])));
    let join = |count| {
        let path = vec![(last(), MOST_CHANGES); count];
        let join = Join { nonce: 0, rows_done: 0, path, contacts: vec![last(); CONTACTS_MAX] };
        first(Payload::Join(Box::new(join)))
    };
    let app = |count| first(Payload::App(Box::new(App { purpose: 0, bytes: vec![7; count] })));
    let answer = |count| {
        let outcome = Outcome::Delivered(Some(vec![7; count]));
        Body::Receipt(Box::new(Receipt { to: zero(), serial: 0, hops: 0, by: last(), outcome }))
    };
    for (most, beyond) in [
        (goodbye(CONTACTS_MAX), goodbye(CONTACTS_MAX + 1)),
        (trace(255), trace(256)),
        (join(255), join(256)),
        (app(PAYLOAD_MAX), app(PAYLOAD_MAX + 1)),
        (answer(PAYLOAD_MAX), answer(PAYLOAD_MAX + 1)),
    ] {
        let bytes = encoded(&most);
        assert!(bytes.len() <= HEADER + BODY_MAX, "what a list may hold must fit into a frame");
        assert_eq!(decoded(&bytes), Ok((most, bytes.len())));
        assert_eq!(decoded(&encoded(&beyond)), Err(DecodeError::Oversized), "{:?}", beyond.kind());
    }
}

#[test]
fn a_frame_of_the_greatest_length_is_read() {
    let filler = |length: usize| ping_with(&[&bytes_field(40, &vec![0; length])]);
    // Map head, field number and the head of a long byte string.
    let overhead = 1 + 2 + 5;
    let bytes = filler(BODY_MAX - overhead);
    assert_eq!(bytes.len(), HEADER + BODY_MAX);
    assert_eq!(decoded(&bytes), Ok((Body::Ping(0x0102_0304), bytes.len())));
    assert_eq!(decoded(&filler(BODY_MAX - overhead + 1)), Err(DecodeError::Oversized));
}

#[test]
fn deeply_nested_unknown_fields_do_not_exhaust_the_stack() {
    const LEVELS: usize = 100_000;
    // Lists and maps of stated and of unstated length, tags, and lists whose rest is still to come.
    let shapes: [(&[u8], &[u8], &[u8]); 6] = [
        (&[0x81], &[0], &[]),
        (&[0xa1, 0], &[0], &[]),
        (&[0x9f], &[], &[0xff]),
        (&[0xbf, 0], &[0], &[0xff]),
        (&[0xc1], &[0], &[]),
        (&[0x82, 0x9f], &[], &[0xff, 0]),
    ];
    for (open, inside, close) in shapes {
        let field = [&[0x18, 40][..], &open.repeat(LEVELS), inside, &close.repeat(LEVELS)].concat();
        let bytes = ping_with(&[&field]);
        assert_eq!(decoded(&bytes), Ok((Body::Ping(0x0102_0304), bytes.len())), "{open:02x?}");
        let unclosed = ping_with(&[&[&[0x18, 40][..], &open.repeat(LEVELS)].concat()]);
        assert_eq!(decoded(&unclosed), Err(DecodeError::Malformed), "{open:02x?}");
    }
}

#[test]
fn a_contact_may_have_four_addresses_of_both_families() {
    let addresses = [v4(1).as_slice(), &v6(2), &v6(3), &v4(4)].concat();
    let bytes = goodbye_of(&record(4, &addresses, &[]));
    let mut book = Book::default();
    decode(&bytes, CLUSTER, &mut book).unwrap();
    let v6 = |n| SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into(), 7400);
    let v4 = |n| SocketAddr::new(Ipv4Addr::new(10, 0, 0, n).into(), 7400);
    assert_eq!(book.learnt, [(two().id, 1, vec![v4(1), v6(2), v6(3), v4(4)])]);
}

#[test]
fn addresses_beyond_the_fourth_are_left_out_when_writing() {
    struct Rich;
    impl AddressBook for Rich {
        fn endpoints(&self, _: Addr, each: &mut dyn FnMut(SocketAddr)) {
            (1..=9).for_each(|n| each(SocketAddr::new(Ipv6Addr::from(n).into(), n as u16)));
        }

        fn learn(&mut self, _: NodeId, _: u32, _: &[SocketAddr]) -> Addr {
            unreachable!("only written to")
        }
    }
    let mut bytes = Vec::new();
    encode(&Body::Pastry(Message::Goodbye(Box::new(everybody()))), CLUSTER, &Rich, &mut bytes);
    let mut book = Book::default();
    decode(&bytes, CLUSTER, &mut book).unwrap();
    assert_eq!(book.learnt.len(), 4);
    for (_, _, endpoints) in book.learnt {
        assert_eq!(endpoints.iter().map(SocketAddr::port).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}

#[test]
fn in_a_simulation_a_number_is_its_own_address() {
    for contact in everybody() {
        let body = Body::Pastry(Message::Obituary(contact));
        let mut bytes = Vec::new();
        encode(&body, CLUSTER, &IndexBook, &mut bytes);
        assert_eq!(decode(&bytes, CLUSTER, &mut IndexBook), Ok((body, bytes.len())));
    }
    let elsewhere = [SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 1)];
    assert_eq!(IndexBook.learn(Id::ZERO, 0, &elsewhere), Addr(u32::MAX), "an endpoint of no simulation");
}
