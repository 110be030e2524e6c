//! A short fuzz run with fixed seeds, for every build: whatever comes in, a node neither panics nor grows.
//!
//! The endless version of the same is in `fuzz/`.

#[path = "../../../fuzz/fuzz_targets/driver.rs"]
mod driver;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use driver::Driver;
use kringle_core::config::ClusterId;
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Input, NoteKind};
use kringle_core::id::Id;
use kringle_core::message::{App, Body, HopAck, Outcome, Payload, Receipt, Routed, Stage};
use kringle_core::overlay::Status;
use kringle_core::overlay::chord::Message as Chord;
use kringle_core::overlay::pastry::routing_table::Entry;
use kringle_core::overlay::pastry::{Announce, Join, LeafProbe, Message, StateRequest, What};
use kringle_core::wire::{self, CONTACTS_MAX, HEADER, IndexBook};

/// The cluster of the golden frames.
const CLUSTER: ClusterId = ClusterId(*b"kringle-wire-v1.");

/// The driver's configurations that together have every setting both ways, and the smallest one there is.
const VARIANTS: [u64; 5] = [0, 13, 18, 31, 32];

/// The same for Chord.
const OF_CHORD: [u64; 4] = [64, 64 + 13, 64 + 18, 64 + 32];

/// The golden frames of the wire format, but those this build has no message for.
fn frames() -> Vec<Vec<u8>> {
    let directory: PathBuf = [env!("CARGO_MANIFEST_DIR"), "testdata", "wire-v1"].iter().collect();
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .expect("golden frames")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    // The order of a directory is the machine's; the run must be the same everywhere.
    paths.sort();
    let frames = paths.iter().map(|path| {
        let text: Vec<u8> =
            fs::read(path).expect("a golden frame").into_iter().filter(|c| *c != b'\n').collect();
        let digit = |c: &u8| char::from(*c).to_digit(16).expect("hexadecimal") as u8;
        text.chunks(2).map(|pair| pair.iter().fold(0, |byte, c| byte << 4 | digit(c))).collect::<Vec<u8>>()
    });
    let frames: Vec<Vec<u8>> = frames.filter(|frame| read(frame).is_ok()).collect();
    assert!(frames.len() > 40, "only {} golden frames", frames.len());
    frames
}

fn read(bytes: &[u8]) -> Result<(Body, usize), wire::DecodeError> {
    wire::decode(bytes, CLUSTER, &mut IndexBook)
}

/// Spoils a frame in one of the ways frames get spoilt, or made to spoil.
fn mutate(frame: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut SeededDice) {
    let at = dice.below(frame.len());
    let end = at + dice.below((frame.len() - at).min(16) + 1);
    match dice.below(10) {
        0 => frame[at] ^= 1 << dice.below(8),
        1 => frame[at] = dice.roll() as u8,
        2 => frame[at..end].fill(0xff),
        3 => frame[at..end].iter_mut().for_each(|byte| *byte = dice.roll() as u8),
        4 => frame.truncate(at.max(1)),
        5 => {
            // The beginning of one, the end of another.
            let other = &others[dice.below(others.len())];
            frame.truncate(at.max(1));
            frame.extend_from_slice(&other[dice.below(other.len())..]);
        }
        6 => {
            let piece = frame[at..end].to_vec();
            frame.splice(at..at, piece);
        }
        7 => {
            frame.drain(at..end.min(at + frame.len() - 1));
        }
        8 => {
            frame[at] =
                [0x18, 0x1b, 0x3b, 0x58, 0x5b, 0x5f, 0x7f, 0x9b, 0x9f, 0xbb, 0xbf, 0xdb][dice.below(12)]
        }
        _ => {
            // Every field that says how long something is, off by a little or by much.
            let other = [frame[at].wrapping_add(1), frame[at].wrapping_sub(1), 0, 0x7f, 0x80, 0xff];
            frame[at] = other[dice.below(6)];
        }
    }
}

/// Makes a spoilt frame whose header still fits its body, most of the time: what is refused by its header says nothing
/// about bodies.
fn spoilt(frames: &[Vec<u8>], dice: &mut SeededDice) -> Vec<u8> {
    if dice.below(64) == 0 {
        return (0..dice.below(128)).map(|_| dice.roll() as u8).collect();
    }
    let intact = &frames[dice.below(frames.len())];
    let mut frame = intact.clone();
    for _ in 0..1 + dice.below(3) {
        mutate(&mut frame, frames, dice);
    }
    if frame.len() >= HEADER && dice.below(8) > 0 {
        let length = (frame.len() - HEADER) as u32;
        frame[..HEADER].copy_from_slice(&intact[..HEADER]);
        frame[..4].copy_from_slice(&length.to_be_bytes());
    }
    frame
}

/// Returns the lengths of the lists of contacts in a message, and of its paths.
fn list_lengths(body: &Body) -> (Vec<usize>, Vec<usize>) {
    let of_outcome = |outcome: &Outcome| match outcome {
        Outcome::Found(path) | Outcome::Nearest(path) => (vec![], vec![path.len()]),
        _ => (vec![], vec![]),
    };
    match body {
        Body::Routed(routed) => match &routed.payload {
            Payload::Trace(path) => (vec![], vec![path.len()]),
            Payload::Join(join) => (vec![join.contacts.len()], vec![join.path.len()]),
            Payload::Receipt(receipt) => of_outcome(&receipt.outcome),
            Payload::Lookup | Payload::App(_) | Payload::Direct(_) => (vec![], vec![]),
        },
        Body::Receipt(receipt) => of_outcome(&receipt.outcome),
        Body::Pastry(message) => match message {
            Message::JoinReply(reply) => {
                (vec![reply.join.contacts.len(), reply.leaves.len()], vec![reply.join.path.len()])
            }
            Message::LeafProbe(probe) => (vec![probe.leaves.len()], vec![]),
            Message::LeafReply(reply) => (vec![reply.leaves.as_ref().map_or(0, Vec::len)], vec![]),
            Message::Race(race) => (vec![race.contacts.len()], vec![]),
            Message::StateRequest(request) => (vec![request.push.len()], vec![]),
            Message::StateReply(reply) => (vec![reply.contacts.len()], vec![]),
            Message::Goodbye(leaves) => (vec![leaves.len()], vec![]),
            _ => (vec![], vec![]),
        },
        _ => (vec![], vec![]),
    }
}

#[test]
fn spoilt_frames_are_refused_or_read_within_the_limits() {
    let frames = frames();
    let mut dice = SeededDice::new(1);
    let mut accepted = 0;
    for n in 0..200_000 {
        let frame = spoilt(&frames, &mut dice);
        let Ok((body, length)) = read(&frame) else { continue };
        accepted += 1;
        assert!(length <= frame.len(), "frame {n}");
        let (lists, paths) = list_lengths(&body);
        assert!(lists.iter().all(|list| *list <= CONTACTS_MAX), "frame {n}");
        assert!(paths.iter().all(|path| *path <= usize::from(u8::MAX)), "frame {n}");
        // Whatever was understood can be said again, and is understood the same way.
        let mut again = Vec::new();
        wire::encode(&body, CLUSTER, &IndexBook, &mut again);
        assert_eq!(read(&again).as_ref(), Ok(&(body, again.len())), "frame {n}");
    }
    assert!((20_000..180_000).contains(&accepted), "{accepted} of 200,000 were accepted");
}

#[test]
fn a_node_survives_what_is_read_from_spoilt_frames() {
    let frames = frames();
    for (seed, status) in
        [Status::Ready, Status::Waiting, Status::Joining, Status::Leaving].into_iter().enumerate()
    {
        let mut dice = SeededDice::new(seed as u64);
        let mut driver = Driver::new(seed as u64);
        for n in 0..20_000 {
            if n % 64 == 0 {
                assert!(driver.bring(status), "{status:?}, input {n}");
            }
            match read(&spoilt(&frames, &mut dice)) {
                Ok((body, _)) => driver.hear(body, &mut dice),
                Err(_) => driver.step(&mut dice),
            }
        }
        driver.leave();
    }
}

/// Gives a node random inputs, most of them while it is in one status, and returns what happened in there.
fn explore(status: Status, inputs: usize) -> BTreeSet<NoteKind> {
    explore_in(&VARIANTS, status, inputs)
}

fn explore_in(variants: &[u64], status: Status, inputs: usize) -> BTreeSet<NoteKind> {
    let mut notes = BTreeSet::new();
    for &variant in variants {
        println!("{status:?}, variant {variant}");
        let mut choices = SeededDice::derive(variant, status as u64);
        let mut driver = Driver::new(variant);
        let mut there = 0;
        for input in 0..inputs {
            if input % 64 == 0 {
                assert!(driver.bring(status), "variant {variant}: not brought there before input {input}");
            }
            there += usize::from(driver.status() == status);
            driver.step(&mut choices);
        }
        assert!(there > inputs / 20, "variant {variant}: only {there} of {inputs} inputs came in {status:?}");
        driver.leave();
        notes.extend(driver.notes());
    }
    notes
}

#[test]
fn a_node_that_is_out_survives_any_input() {
    explore(Status::Out, 20_000);
}

#[test]
fn a_joining_node_survives_any_input() {
    explore(Status::Joining, 20_000);
}

#[test]
fn a_waiting_node_survives_any_input() {
    explore(Status::Waiting, 20_000);
}

#[test]
fn a_ready_node_survives_any_input() {
    let notes = explore(Status::Ready, 20_000);
    // A kind that never occurs is a hole in this test. A few are rare, and a change elsewhere may move them away.
    let of_chord = [
        NoteKind::BySuccessorList,
        NoteKind::ByFinger,
        NoteKind::ByPredecessor,
        NoteKind::GaveWay,
        NoteKind::ListHolds,
        NoteKind::FingerFound,
        NoteKind::Dissolved,
        NoteKind::WentBack,
    ];
    let never: Vec<&NoteKind> =
        NoteKind::ALL.iter().filter(|kind| !notes.contains(kind) && !of_chord.contains(kind)).collect();
    assert!(never.len() <= 3, "never happened: {never:?}");
}

#[test]
fn a_leaving_node_survives_any_input() {
    explore(Status::Leaving, 20_000);
}

#[test]
fn an_isolated_node_survives_any_input() {
    explore(Status::Isolated, 20_000);
}

#[test]
fn a_chord_node_survives_any_input() {
    let mut notes = BTreeSet::new();
    for status in
        [Status::Out, Status::Joining, Status::Waiting, Status::Ready, Status::Leaving, Status::Isolated]
    {
        notes.extend(explore_in(&OF_CHORD, status, 20_000));
    }
    let wanted = [
        NoteKind::BySuccessorList,
        NoteKind::ByPredecessor,
        NoteKind::GaveWay,
        NoteKind::ListHolds,
        NoteKind::FingerFound,
        NoteKind::Dissolved,
        NoteKind::WentBack,
    ];
    let never: Vec<&NoteKind> = wanted.iter().filter(|kind| !notes.contains(kind)).collect();
    assert!(never.is_empty(), "never happened: {never:?}");
}

/// Found by random inputs: it had nobody to look for its ring through.
#[test]
fn a_lone_founder_that_is_left_out_turns_to_whoever_said_so() {
    let mut driver = Driver::new(OF_CHORD[0]);
    driver.command(Command::Create);
    let (me, from) = (Contact::new(driver.me(), 1, Addr(0)), Contact::new(Id::new(9), 1, Addr(9)));
    for message in [
        Chord::Seal { epoch: 2, base: 1, ring: false, list: vec![from, me] },
        Chord::Commit { epoch: 3, ring: false, list: vec![from] },
    ] {
        driver.feed(Input::Message { from, body: Body::Chord(message) });
    }
    assert_eq!(driver.status(), Status::Joining);
    driver.leave();
}

/// Any node of a large ring.
fn anybody(dice: &mut SeededDice) -> Contact {
    let id = u128::from(dice.roll()) << 64 | u128::from(dice.roll());
    Contact::new(Id::new(id), 1, Addr(dice.roll() as u32))
}

fn routed(key: Id, payload: Payload, origin: Contact, serial: u32) -> Body {
    Body::Routed(Routed { key, origin, payload, serial, hop: serial, hops: 1, stage: Stage::Prefix })
}

/// Makes the `n`th input of a flood, each from or about another node.
type Flood = fn(u32, Id, &mut SeededDice) -> Input;

const FLOODS: [(&str, Flood); 14] = [
    ("pings", |n, _, dice| Input::Message { from: anybody(dice), body: Body::Ping(n) }),
    ("relayed pings", |nonce, _, dice| Input::Message {
        from: anybody(dice),
        body: Body::PingVia { nonce, target: anybody(dice) },
    }),
    ("lookups passing through", |n, _, dice| {
        let body = routed(anybody(dice).id, Payload::Lookup, anybody(dice), n);
        Input::Message { from: anybody(dice), body }
    }),
    ("messages for this node's application", |n, me, dice| {
        let payload = Payload::App(Box::new(App { purpose: 0, bytes: vec![7; 8] }));
        Input::Message { from: anybody(dice), body: routed(me, payload, anybody(dice), n) }
    }),
    ("joins beside this node", |nonce, me, dice| {
        let join = Join { nonce, rows_done: 0, path: Vec::new(), contacts: Vec::new() };
        let origin = Contact { id: me.plus(1 + u128::from(nonce)), ..anybody(dice) };
        Input::Message {
            from: anybody(dice),
            body: routed(origin.id, Payload::Join(Box::new(join)), origin, nonce),
        }
    }),
    ("receipts that come back", |serial, _, dice| {
        let (to, by) = (anybody(dice), anybody(dice));
        let receipt = Receipt { to, serial, hops: 1, by, outcome: Outcome::NoRoute };
        Input::Unsent { to, body: Body::Receipt(Box::new(receipt)) }
    }),
    ("answers of the application", |serial, _, dice| Input::Answer {
        to: anybody(dice),
        serial,
        hops: 1,
        bytes: None,
    }),
    ("measurements", |n, _, dice| Input::Measured { peer: anybody(dice).id, proximity: Proximity(n) }),
    ("leaf probes", |nonce, _, dice| {
        let leaves = (0..4).map(|_| anybody(dice)).collect();
        let body =
            Body::Pastry(Message::LeafProbe(Box::new(LeafProbe { nonce, seen: None, leaves, digest: None })));
        Input::Message { from: anybody(dice), body }
    }),
    ("announcements", |n, _, dice| {
        let announce = Announce { seen: None, proximity: Proximity(n), round: 0 };
        Input::Message { from: anybody(dice), body: Body::Pastry(Message::Announce(announce)) }
    }),
    ("state requests", |nonce, _, dice| {
        let entry = |contact| Entry { contact, proximity: Proximity(nonce) };
        let push = (0..4).map(|_| entry(anybody(dice))).collect();
        let proximity = Proximity(dice.roll() as u32);
        let request = StateRequest { nonce, what: What::LeafSet, push, proximity };
        Input::Message { from: anybody(dice), body: Body::Pastry(Message::StateRequest(Box::new(request))) }
    }),
    ("obituaries", |_, _, dice| Input::Message {
        from: anybody(dice),
        body: Body::Pastry(Message::Obituary(anybody(dice))),
    }),
    ("goodbyes", |_, _, dice| {
        let leaves = (0..4).map(|_| anybody(dice)).collect();
        Input::Message { from: anybody(dice), body: Body::Pastry(Message::Goodbye(Box::new(leaves))) }
    }),
    ("acknowledgements", |n, _, dice| {
        let ack = HopAck { hop: n, taken: false, better: Some(anybody(dice)) };
        Input::Message { from: anybody(dice), body: Body::HopAck(ack) }
    }),
];

#[test]
fn a_flood_of_one_kind_of_input_is_bounded() {
    for (name, flood) in FLOODS {
        println!("{name}");
        let mut dice = SeededDice::new(9);
        let mut driver = Driver::new(0);
        assert!(driver.bring(Status::Waiting) && driver.bring(Status::Ready));
        let me = driver.me();
        for n in 0..2_000 {
            driver.feed(flood(n, me, &mut dice));
        }
        // Nothing that was kept may come out all at once.
        for _ in 0..40 {
            driver.advance(Duration::from_millis(500));
        }
        driver.leave();
    }
}

#[test]
fn a_flood_of_commands_is_bounded_and_every_one_is_answered() {
    let mut dice = SeededDice::new(9);
    let mut driver = Driver::new(0);
    assert!(driver.bring(Status::Waiting) && driver.bring(Status::Ready));
    for n in 0..2_000 {
        let (key, deadline) = (anybody(&mut dice).id, Duration::from_secs(5));
        driver.command(match n % 4 {
            0 => Command::Lookup { key, trace: false, deadline },
            1 => Command::Lookup { key, trace: true, deadline },
            2 => Command::Route { key, app: App { purpose: 0, bytes: vec![7; 8] }, deadline },
            _ => Command::Join { seeds: vec![anybody(&mut dice)] },
        });
    }
    driver.leave();
}
