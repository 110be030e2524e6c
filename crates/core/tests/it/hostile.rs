//! Messages that should not have come: nothing happens but what must, and every refusal is counted.

use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::edge::{Command, Input, Note, NoteKind, Refusal, Timer, Verdict};
use kringle_core::message::{Body, BodyKind, Hop, HopAck, Outcome, Payload, Receipt, Routed, Rule};
use kringle_core::node::Node;
use kringle_core::overlay::Status;
use kringle_core::overlay::chord::{Asker, Message as Chord};
use kringle_core::overlay::pastry::{
    Announce, Flank, Join, JoinRefusal, JoinReply, LeafProbe, LeafReply, LeaseRecall, LeaseReply,
    LeaseRequest, Message, Race, Versions, What,
};

use crate::harness::*;

const ME: u32 = 0x1000_0000;
const OTHER: u32 = 0x4000_0000;

/// One message of every kind, naming these contacts wherever contacts are named.
fn samples(named: &[Contact]) -> Vec<Body> {
    let contacts = named.to_vec();
    let from = peer(STRANGER);
    let hop = Hop { node: from, rule: Rule::RareCase, proximity: Proximity(1) };
    let receipt = |to| Receipt { to, serial: 1, hops: 1, by: from, outcome: Outcome::NoRoute };
    let routed = |payload| Body::Routed(Routed { payload, ..lookup_from(from, key(0x1234_0000), 1) });
    let path = contacts.iter().map(|contact| (*contact, Versions::default())).collect();
    let join = Join { nonce: 1, rows_done: 0, path, contacts: contacts.clone() };
    let versions = Versions::default();
    let join_reply = JoinReply { join: join.clone(), whole: true, leaves: contacts.clone(), versions };
    let target = contacts[0];
    let pastry = [
        Message::JoinReply(Box::new(join_reply)),
        Message::JoinRefused { nonce: 1, reason: JoinRefusal::IdTaken },
        Message::LeafProbe(Box::new(LeafProbe {
            nonce: 1,
            seen: None,
            leaves: contacts.clone(),
            digest: None,
        })),
        Message::LeafReply(Box::new(LeafReply { nonce: 1, version: 1, leaves: Some(contacts.clone()) })),
        Message::Announce(Announce { seen: Some(versions), proximity: Proximity(1), round: 0 }),
        Message::Race(Box::new(Race { versions, round: 0, contacts: contacts.clone() })),
        request(1, What::LeafSet, &contacts),
        reply(1, What::LeafSet, &contacts),
        Message::Goodbye(Box::new(contacts.clone())),
        Message::Obituary(target),
        Message::LeaseRequest(Box::new(LeaseRequest {
            nonce: 1,
            side: Flank::Left,
            holds: 1,
            leaves: contacts.clone(),
            same: false,
        })),
        Message::LeaseReply(Box::new(LeaseReply {
            nonce: 1,
            granted: true,
            holds: 1,
            leaves: contacts,
            same: false,
        })),
        Message::LeaseRecall(Box::new(LeaseRecall { nonce: 1, side: Flank::Left, nearer: target })),
        Message::LeaseReturn { nonce: 1, nearer: None },
    ];
    let mut bodies = vec![
        routed(Payload::Lookup),
        routed(Payload::Trace(Box::new(vec![hop]))),
        routed(Payload::App(Box::new(app(b"bytes")))),
        routed(Payload::Direct(Box::new(app(b"bytes")))),
        routed(Payload::Join(Box::new(join))),
        routed(Payload::Receipt(Box::new(receipt(from)))),
        Body::HopAck(HopAck { hop: 1, taken: true, better: Some(target) }),
        Body::Receipt(Box::new(receipt(peer(ME)))),
        Body::Ping(1),
        Body::Pong(1),
        Body::PingVia { nonce: 1, target },
        Body::PongVia { nonce: 1, target: target.id },
    ];
    bodies.extend(pastry.map(Body::Pastry));
    let list = named.to_vec();
    let chord = [
        Chord::GetBestPredecessor { nonce: 1, of: from.id, asker: Asker::Peer },
        Chord::GotBestPredecessor { nonce: 1, node: target },
        Chord::GetSuccList { nonce: 1, asker: Asker::Client },
        Chord::GotSuccList { nonce: 1, list: list.clone() },
        Chord::GetPredAndSuccs { nonce: 1 },
        Chord::GotPredAndSuccs { nonce: 1, pred: None, list: list.clone() },
        Chord::Notify,
        Chord::Busy { nonce: 1 },
        Chord::Ping { nonce: 1 },
        Chord::Pong { nonce: 1 },
        Chord::Leaving { list: list.clone() },
        Chord::Apply,
        Chord::Referred { nonce: 0, to: target, ring: true },
        Chord::Seal { epoch: 1, base: 0, ring: false, list: list.clone() },
        Chord::Sealed { epoch: 1, agreed: true, ring: false },
        Chord::Commit { epoch: 1, ring: true, list },
    ];
    bodies.extend(chord.map(Body::Chord));
    bodies
}

/// What a lone node does with a message of each kind from somebody unknown.
enum Expected {
    /// Refuses it for this reason.
    Refused(Refusal),
    /// Answers, and stays as it is.
    Answered,
    /// Takes the sender, or what it brings, for real.
    Taken,
    /// Ignores it: there is nothing wrong with it, and nothing to do.
    Ignored,
}

fn expected(kind: BodyKind) -> Expected {
    use Expected::{Answered, Ignored, Refused, Taken};
    match kind {
        // A message for one node, which this one is not: its sender is told.
        BodyKind::Lookup | BodyKind::Trace | BodyKind::Ping | BodyKind::Direct => Answered,
        BodyKind::App | BodyKind::Join | BodyKind::LeafProbe | BodyKind::Announce => Taken,
        // The contacts pushed along are looked at.
        BodyKind::StateRequest => Taken,
        BodyKind::RoutedReceipt => Refused(Refusal::Misrouted),
        BodyKind::PingVia => Refused(Refusal::UnknownTarget),
        BodyKind::Obituary => Ignored,
        BodyKind::HopAck
        | BodyKind::Receipt
        | BodyKind::Pong
        | BodyKind::PongVia
        | BodyKind::JoinReply
        | BodyKind::JoinRefused
        | BodyKind::LeafReply
        | BodyKind::Race
        | BodyKind::StateReply
        | BodyKind::Goodbye
        | BodyKind::LeaseReply
        | BodyKind::LeaseRecall
        | BodyKind::LeaseReturn => Refused(Refusal::Unsolicited),
        kind if kind.is_of_chord() => Refused(Refusal::WrongOverlay),
        // These nodes go by hints.
        BodyKind::LeaseRequest => Refused(Refusal::NotJoined),
        // These nodes have no store.
        kind if kind.is_of_store() => Refused(Refusal::UnknownKind),
        _ => unreachable!("belongs to the stand-in overlay"),
    }
}

#[test]
fn there_is_a_sample_of_every_kind() {
    let mut kinds: Vec<BodyKind> = samples(&[peer(OTHER)]).iter().map(Body::kind).collect();
    kinds.push(BodyKind::Echo);
    let overlays = BodyKind::ALL.iter().copied().filter(|kind| !kind.is_of_store());
    assert_eq!(kinds, overlays.collect::<Vec<_>>());
}

#[test]
fn a_node_that_is_out_refuses_every_kind_of_message() {
    for body in samples(&[peer(OTHER)]) {
        let mut node = Driver::out(peer(ME), calm());
        let (kind, before) = (body.kind(), node.node.clone());
        let outputs = node.hear(peer(STRANGER), body);
        assert!(node.node == before, "{kind:?}");
        // A hop must be told that its message is not looked after; everything else is met with silence.
        let routed = kind <= BodyKind::RoutedReceipt;
        let answer = routed.then(|| (peer(STRANGER), no_ack(1)));
        assert_eq!(sent(&outputs), Vec::from_iter(answer), "{kind:?}");
        let expected = match kind {
            _ if routed => vec![Refusal::NotJoined],
            BodyKind::Ping
            | BodyKind::LeafProbe
            | BodyKind::Announce
            | BodyKind::StateRequest
            | BodyKind::LeaseRequest => {
                vec![Refusal::NotJoined]
            }
            BodyKind::PingVia => vec![Refusal::UnknownTarget],
            BodyKind::Obituary => vec![],
            kind if kind.is_of_chord() => vec![Refusal::WrongOverlay],
            _ => vec![Refusal::Unsolicited],
        };
        assert_eq!(refusals(&outputs), expected, "{kind:?}");
        assert_eq!((events(&outputs), replies(&outputs)), (vec![], vec![]), "{kind:?}");
    }
}

#[test]
fn a_lone_node_does_what_it_must_with_every_kind_of_message() {
    for body in samples(&[peer(OTHER)]) {
        let mut node = Driver::founder(peer(ME), calm());
        let (kind, before) = (body.kind(), node.node.clone());
        let outputs = node.hear(peer(STRANGER), body);
        let unchanged = node.node == before;
        match expected(kind) {
            Expected::Refused(refusal) => {
                assert!(unchanged && refusals(&outputs) == [refusal], "{kind:?}: {outputs:?}");
                let answered = sent(&outputs) == [(peer(STRANGER), ack(1))];
                assert!(sent(&outputs).is_empty() || answered && kind == BodyKind::RoutedReceipt, "{kind:?}");
            }
            Expected::Answered => {
                assert!(unchanged && refusals(&outputs).is_empty(), "{kind:?}: {outputs:?}");
                assert!(sent(&outputs).iter().all(|(to, _)| *to == peer(STRANGER)), "{kind:?}");
            }
            Expected::Taken => assert!(!unchanged && refusals(&outputs).is_empty(), "{kind:?}: {outputs:?}"),
            Expected::Ignored => assert!(unchanged && outputs.is_empty(), "{kind:?}: {outputs:?}"),
        }
    }
}

#[test]
fn messages_from_impossible_senders_are_refused_whatever_they_say() {
    let known = life(OTHER, 3);
    let node = Driver::ready(peer(ME), &[known, peer(0x8000_0000)], calm());
    let senders = [
        (peer(ME), Refusal::FromSelf),
        (life(ME, 7), Refusal::FromSelf),
        (life(OTHER, 2), Refusal::StaleIncarnation),
        (Contact { addr: Addr(5), ..known }, Refusal::DuplicateId),
    ];
    for (from, refusal) in senders {
        for body in samples(&[peer(0x9000_0000)]) {
            let mut node = again(&node);
            let (kind, before) = (body.kind(), node.node.clone());
            let outputs = node.hear(from, body);
            assert!(refusals(&outputs) == [refusal] && node.node == before, "{kind:?} from {from:?}");
            // Only a twin that looks for its place is told that its id is taken, at its own address.
            for (to, answer) in sent(&outputs) {
                assert_eq!((kind, to, answer.kind()), (BodyKind::StateRequest, from, BodyKind::JoinRefused));
                assert_ne!(from.addr, node.node.me().addr);
            }
        }
    }
}

#[test]
fn a_twin_that_wants_to_join_is_told_that_its_id_is_taken() {
    let node = Driver::ready(peer(ME), &[peer(OTHER), peer(0x8000_0000)], calm());
    let twin = Contact { addr: Addr(5), ..peer(OTHER) };
    let request = Body::Pastry(request(77, What::LeafSet, &[]));
    let refused = Message::JoinRefused { nonce: 77, reason: JoinRefusal::IdTaken };
    assert_eq!(sent(&again(&node).hear(twin, request)), [(twin, Body::Pastry(refused))]);
}

/// A second driver around the same node.
pub(crate) fn again(driver: &Driver) -> Driver {
    let mut copy = Driver::out(driver.node.me(), calm());
    copy.node = Node::clone(&driver.node);
    copy.now = driver.now;
    copy
}

#[test]
fn a_node_that_is_named_to_itself_is_neither_probed_nor_taken_in() {
    let known = peer(OTHER);
    let node = Driver::ready(peer(ME), &[known, peer(0x8000_0000)], calm());
    let names = [peer(ME), life(ME, 9), Contact { addr: Addr(5), ..peer(ME) }];
    for body in samples(&names) {
        let mut node = again(&node);
        let kind = body.kind();
        // The inner rules, checked after every input, say that a node is never in its own tables.
        let outputs = node.hear(known, body);
        assert!(!sent(&outputs).iter().any(|(to, _)| to.id == peer(ME).id), "{kind:?}: {outputs:?}");
    }
}

#[test]
fn timers_that_nobody_waits_for_do_no_harm() {
    let (joining, _) = Driver::joining(peer(ME), peer(OTHER), calm());
    let mut leaving = Driver::founder(peer(ME), calm());
    leaving.command(1, Command::Leave);
    for node in [Driver::out(peer(ME), calm()), Driver::founder(peer(ME), calm()), joining, leaving] {
        for timer in Timer::ALL {
            let (status, before) = (node.node.status(), node.node.clone());
            // These two end something, and nothing else.
            let ends = (status == Status::Joining && *timer == Timer::Join)
                || (status == Status::Leaving && *timer == Timer::Leave);
            let mut node = again(&node);
            let outputs = node.feed(Input::Timer(*timer));
            assert!(ends || node.node == before, "{timer:?} while {status:?}");
            assert_eq!(sent(&outputs), [], "{timer:?} while {status:?}");
        }
    }
}

#[test]
fn reports_about_things_that_are_not_open_do_no_harm() {
    let mut node = Driver::ready(peer(ME), &[peer(OTHER)], calm());
    let before = node.node.clone();
    for body in samples(&[peer(OTHER)]) {
        // A receipt that could not be sent is routed, which is tested elsewhere.
        if body.kind() != BodyKind::Receipt {
            assert_eq!(node.feed(Input::Unsent { to: peer(OTHER), body }), []);
        }
    }
    let changed = Verdict::Changed { to: peer(OTHER), app: app(b"bytes") };
    for verdict in [Verdict::Stop, changed] {
        assert_eq!(node.feed(Input::Forwarded { hop: 1, verdict }), []);
    }
    assert!(node.node == before);
}

#[test]
fn refusals_are_counted_as_what_they_are() {
    assert!(Refusal::ALL.iter().all(|refusal| Note::Refused(*refusal).kind() == NoteKind::Refused));
}
