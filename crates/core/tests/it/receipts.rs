//! How requests of a node's user end: by a receipt, by a failure known at once, or by their deadline.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::Contact;
use kringle_core::edge::{Command, Dial, Failure, Input, Note, Output, Refusal, Reply, RequestId, Timer};
use kringle_core::message::{Body, Outcome, Payload, Receipt, Routed, Stage};

use crate::harness::*;

const ME: u32 = 0x1000_0000;
const RIGHT: u32 = 0x4000_0000;
const LEFT: u32 = 0xc000_0000;
const ORIGIN: u32 = 0x4000_0999;

fn ring() -> Driver {
    Driver::ready(peer(ME), &[RIGHT, LEFT].map(peer), calm())
}

fn receipt(to: Contact, serial: u32, outcome: Outcome) -> Receipt {
    Receipt { to, serial, hops: 2, by: peer(LEFT), outcome }
}

/// A lookup whose first hop has taken it. Returns its serial.
fn open_lookup(node: &mut Driver, request: u64) -> u32 {
    let asked = routed_to(&node.lookup(request, key(0x4100_0000)), peer(RIGHT));
    node.hear(peer(RIGHT), ack(asked.hop));
    asked.serial
}

#[test]
fn a_receipt_opens_no_connection_and_is_routed_by_its_origin_if_there_is_none() {
    let mut node = ring();
    let asked = lookup_from(peer(ORIGIN), key(0x1100_0000), 5);
    let outputs = node.hear(peer(LEFT), Body::Routed(asked));
    let Some(Output::Send { to, body, dial: Dial::Never }) = outputs.last().cloned() else {
        panic!("{outputs:?}")
    };
    assert_eq!(to, peer(ORIGIN));
    let Body::Receipt(receipt) = body.clone() else { panic!("{body:?}") };

    let outputs = node.feed(Input::Unsent { to, body });
    assert_eq!(notes(&outputs)[0], Note::ReceiptRouted);
    let on = routed_to(&outputs, peer(RIGHT));
    assert_eq!((on.key, on.origin, on.hops), (peer(ORIGIN).id, peer(ME), 1));
    assert_eq!(on.payload, Payload::Receipt(receipt));
}

#[test]
fn a_receipt_completes_its_request_once() {
    let mut node = ring();
    let serial = open_lookup(&mut node, 7);
    let direct = |serial| Body::Receipt(Box::new(receipt(peer(ME), serial, Outcome::Found(vec![]))));
    assert!(node.refuses(peer(LEFT), direct(serial.wrapping_add(1)), Refusal::Unsolicited));
    let found = Reply::Found { root: peer(LEFT), hops: 2, path: vec![], is_final: true };
    let outputs = node.hear(peer(LEFT), direct(serial));
    assert_eq!(outputs, [Output::Reply { request: RequestId(7), reply: Ok(found) }]);
    assert!(node.refuses(peer(LEFT), direct(serial), Refusal::Unsolicited));
}

#[test]
fn a_routed_receipt_completes_its_request_too() {
    let mut node = ring();
    let serial = open_lookup(&mut node, 7);
    let payload = Payload::Receipt(Box::new(receipt(peer(ME), serial, Outcome::Found(vec![]))));
    let routed = Routed { payload, ..lookup_from(peer(LEFT), peer(ME).id, 3) };
    let outputs = node.hear(peer(RIGHT), Body::Routed(routed.clone()));
    assert_eq!(sent(&outputs), [(peer(RIGHT), ack(3))]);
    assert_eq!(replies(&outputs).len(), 1);
    let outputs = node.hear(peer(RIGHT), Body::Routed(routed));
    assert_eq!(notes(&outputs), [Note::Refused(Refusal::Unsolicited)]);
    assert_eq!(replies(&outputs), []);
}

#[test]
fn a_receipt_for_somebody_else_is_refused() {
    let mut node = ring();
    let serial = open_lookup(&mut node, 7);
    let stray = receipt(peer(0x1000_0001), serial, Outcome::Found(vec![]));
    let direct = Body::Receipt(Box::new(stray.clone()));
    assert!(node.refuses(peer(LEFT), direct, Refusal::Misrouted));
    // Routed to us because its origin is gone and we are the nearest left.
    let payload = Payload::Receipt(Box::new(stray));
    let routed = Routed { payload, ..lookup_from(peer(LEFT), peer(0x1000_0001).id, 3) };
    let before = node.node.clone();
    let outputs = node.hear(peer(RIGHT), Body::Routed(routed));
    assert_eq!(notes(&outputs), [Note::Refused(Refusal::Misrouted)]);
    assert_eq!(sent(&outputs), [(peer(RIGHT), ack(3))]);
    assert!(node.node == before);
}

#[test]
fn every_outcome_has_its_failure() {
    let cases = [
        (Outcome::Stopped, Err(Failure::Stopped)),
        (Outcome::TooManyHops, Err(Failure::TooManyHops)),
        (Outcome::NoRoute, Err(Failure::NoRoute)),
        (Outcome::Delivered(None), Ok(Reply::Delivered { root: peer(LEFT), hops: 2, answer: None })),
    ];
    for (outcome, expected) in cases {
        let mut node = ring();
        let serial = open_lookup(&mut node, 7);
        let body = Body::Receipt(Box::new(receipt(peer(ME), serial, outcome)));
        assert_eq!(replies(&node.hear(peer(LEFT), body)), [(7, expected)]);
    }
}

#[test]
fn nobody_is_told_how_a_receipt_or_a_join_ended() {
    // Otherwise two nodes could send each other receipts about receipts for ever.
    let mut node = Driver::ready(peer(ME), &[RIGHT, LEFT].map(peer), Settings { hops_max: 3, ..calm() });
    let payload = Payload::Receipt(Box::new(receipt(peer(ORIGIN), 1, Outcome::NoRoute)));
    let late = Routed { payload, hops: 4, ..lookup_from(peer(LEFT), peer(ORIGIN).id, 3) };
    assert_eq!(sent(&node.hear(peer(LEFT), Body::Routed(late))), [(peer(LEFT), ack(3))]);
    let late = Routed { hops: 4, stage: Stage::Leaf, ..join_from(peer(ORIGIN), 4) };
    assert_eq!(sent(&node.hear(peer(LEFT), Body::Routed(late))), [(peer(LEFT), ack(4))]);
}

#[test]
fn a_request_that_runs_out_of_time_fails_exactly_once() {
    let mut node = ring();
    let route = |deadline| Command::Route { key: key(0x4100_0000), app: app(b"bytes"), deadline };
    let asked = routed_to(&node.command(1, route(millis(900))), peer(RIGHT));
    node.hear(peer(RIGHT), ack(asked.hop));
    assert_eq!(node.left(Timer::Request), millis(900));
    // A later request with an earlier deadline moves the timer.
    let other = routed_to(&node.command(2, route(millis(300))), peer(RIGHT));
    node.hear(peer(RIGHT), ack(other.hop));
    assert_eq!(node.left(Timer::Request), millis(300));
    assert_eq!(replies(&node.wait(millis(299))), []);
    assert_eq!(replies(&node.wait(millis(1))), [(2, Err(Failure::Timeout))]);
    assert_eq!(replies(&node.wait(millis(600))), [(1, Err(Failure::Timeout))]);
    let late = Body::Receipt(Box::new(receipt(peer(ME), asked.serial, Outcome::Delivered(None))));
    assert!(node.refuses(peer(RIGHT), late, Refusal::Unsolicited));
    assert_eq!(replies(&node.wait(Duration::from_secs(100))), []);
}

#[test]
fn a_deadline_is_cut_to_the_longest_allowed() {
    let settings = Settings { deadline_max: millis(2000), ..calm() };
    let mut node = Driver::ready(peer(ME), &[peer(RIGHT)], settings);
    let asked = routed_to(&node.lookup(1, key(0x4100_0000)), peer(RIGHT));
    node.hear(peer(RIGHT), ack(asked.hop));
    assert_eq!(node.left(Timer::Request), millis(2000));
}

#[test]
fn requests_that_can_not_be_sent_fail_at_once_and_change_nothing() {
    let settings = Settings { requests: 1, payload: 4, ..calm() };
    let mut out = Driver::out(peer(ME), settings.clone());
    let (joining, _) = Driver::joining(peer(ME), peer(RIGHT), settings.clone());
    let mut joining = joining;
    let mut busy = Driver::ready(peer(ME), &[peer(RIGHT)], settings.clone());
    open_lookup(&mut busy, 1);
    let mut idle = Driver::ready(peer(ME), &[peer(RIGHT)], settings);
    let large = b"bytes";
    for (node, bytes, failure) in [
        (&mut out, &large[..4], Failure::NotJoined),
        (&mut joining, &large[..4], Failure::NotJoined),
        (&mut busy, &large[..4], Failure::Busy),
        (&mut idle, &large[..], Failure::TooLarge),
    ] {
        let before = node.node.clone();
        let outputs = node.route(5, key(0x4100_0000), bytes);
        assert_eq!((replies(&outputs), outputs.len()), (vec![(5, Err(failure))], 1));
        assert!(node.node == before);
    }
    assert_eq!(routed(&idle.route(6, key(0x4100_0000), &large[..4])).len(), 1, "as large as allowed");
}
