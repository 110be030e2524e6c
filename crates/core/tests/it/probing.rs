//! Failure detection: what counts as an answer, how long a node waits for one, and what others are asked to do.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::{Addr, Contact};
use kringle_core::edge::{Event, Input, Note, Output, Refusal, Timer};
use kringle_core::message::{Body, Nonce};
use kringle_core::overlay::pastry::Message;

use crate::harness::*;

const ME: u32 = 0x1000_0000;
const PEER: u32 = 0x4000_0000;

fn ring_of(n: u32) -> Driver {
    let peers: Vec<Contact> = (2..=n).map(|at| peer(at * 0x1000_0000)).collect();
    Driver::ready(peer(ME), &peers, calm())
}

fn obituary(node: &mut Driver, dead: Contact) -> Vec<Output> {
    node.hear_pastry(peer(STRANGER), Message::Obituary(dead))
}

fn relays_in(outputs: &[Output]) -> Vec<(Contact, Nonce, Contact)> {
    let via = |(to, body)| match body {
        Body::PingVia { nonce, target } => Some((to, nonce, target)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(via).collect()
}

#[test]
fn a_ping_is_answered_with_its_nonce() {
    let mut ready = ring_of(4);
    let (mut waiting, join) = Driver::joining(peer(ME), peer(PEER), calm());
    waiting.hear(peer(PEER), join_reply(&join, true, &[]));
    for node in [&mut ready, &mut waiting] {
        let before = node.node.clone();
        let outputs = node.hear(peer(STRANGER), Body::Ping(77));
        assert_eq!(sent(&outputs), [(peer(STRANGER), Body::Pong(77))]);
        assert!(node.node == before, "asking is no reason to be taken in");
    }
}

#[test]
fn only_the_answer_to_an_open_ping_counts() {
    let mut node = ring_of(4);
    let nonce = ping_to(&obituary(&mut node, peer(PEER)), peer(PEER));
    assert!(node.refuses(peer(PEER), Body::Pong(nonce.wrapping_add(1)), Refusal::Unsolicited));
    assert!(node.refuses(peer(PEER), Body::Pong(nonce.wrapping_sub(1)), Refusal::Unsolicited));
    assert!(node.refuses(peer(0x2000_0000), Body::Pong(nonce), Refusal::Unsolicited));
    assert!(node.refuses(peer(STRANGER), Body::Pong(nonce), Refusal::Unsolicited));
    assert_eq!(node.hear(peer(PEER), Body::Pong(nonce)), []);
    assert!(node.refuses(peer(PEER), Body::Pong(nonce), Refusal::Unsolicited));
    assert!(node.refuses(peer(PEER), leaf_reply(nonce, None), Refusal::Unsolicited));
}

#[test]
fn a_leaf_reply_counts_once_although_a_pong_is_still_to_come() {
    let mut node = ring_of(4);
    let nonce = ping_to(&obituary(&mut node, peer(PEER)), peer(PEER));
    // The neighbour's turn comes meanwhile: one probe for both, and both will be answered.
    let outputs = node.feed(Input::Timer(Timer::Heartbeat));
    assert!(leaf_probes(&outputs).iter().any(|(to, probe)| (*to, probe.nonce) == (peer(PEER), nonce)));
    node.wait(millis(20));
    node.hear(peer(PEER), leaf_reply(nonce, None));
    let proximity = node.pastry().router().proximity(peer(PEER).id);
    node.wait(millis(40));
    assert!(node.refuses(peer(PEER), leaf_reply(nonce, None), Refusal::Unsolicited), "the same again");
    assert_eq!(node.pastry().router().proximity(peer(PEER).id), proximity);
    assert_eq!(refusals(&node.hear(peer(PEER), Body::Pong(nonce))), []);
}

#[test]
fn a_late_answer_to_an_earlier_attempt_still_counts() {
    let mut node = ring_of(4);
    let first = ping_to(&obituary(&mut node, peer(PEER)), peer(PEER));
    let second = ping_to(&node.fire(Timer::Probe), peer(PEER));
    assert_ne!(first, second);
    assert!(node.suspects(peer(PEER)));
    let outputs = node.hear(peer(PEER), Body::Pong(first));
    assert_eq!(notes(&outputs), [Note::Cleared(peer(PEER))]);
    assert!(!node.suspects(peer(PEER)));
    assert_eq!(sent(&node.wait(Duration::from_secs(20))), []);
}

#[test]
fn waits_follow_the_measured_round_trip_within_bounds() {
    for (rtt, hop, probe) in [(10, 50, 100), (60, 180, 180), (100, 300, 300), (300, 500, 500)] {
        let mut node = ring_of(4);
        node.measure(peer(PEER), millis(rtt));
        node.lookup(1, peer(PEER).id);
        assert_eq!(node.left(Timer::Hop), millis(hop), "rtt {rtt}");
        // Each further attempt waits longer.
        let mut node = ring_of(4);
        node.measure(peer(PEER), millis(rtt));
        let mut at = node.now;
        obituary(&mut node, peer(PEER));
        for attempt in 1..3 {
            while probed(&node.fire(Timer::Probe)).is_empty() {}
            assert_eq!(node.now.since(at), millis(probe * attempt), "rtt {rtt}, attempt {attempt}");
            at = node.now;
        }
    }
    let mut node = ring_of(4);
    node.lookup(1, peer(PEER).id);
    assert_eq!(node.left(Timer::Hop), node.config.hop_timeout_max, "nothing is known yet");
    obituary(&mut node, peer(PEER));
    assert_eq!(node.left(Timer::Probe), node.config.probe_timeout_max);
}

#[test]
fn an_obituary_only_starts_a_probe() {
    let mut node = ring_of(4);
    let outputs = obituary(&mut node, peer(PEER));
    assert_eq!(probed(&outputs), [peer(PEER)]);
    assert_eq!(notes(&outputs), []);
    assert!(node.leaves().contains(&peer(PEER)) && !node.suspects(peer(PEER)));
    // Neither an unknown node nor another life of a known one is worth a look.
    let before = node.node.clone();
    for dead in [peer(STRANGER), life(0x2000_0000, 2), life(0x2000_0000, 0)] {
        assert_eq!(sent(&obituary(&mut node, dead)), []);
    }
    assert!(node.node == before);
}

#[test]
fn three_relays_are_asked_before_the_last_attempt() {
    let mut node = ring_of(8);
    // A relay that is in doubt itself is not asked.
    let doubtful = peer(0x2000_0000);
    obituary(&mut node, doubtful);
    node.fire(Timer::Probe);
    assert!(node.suspects(doubtful));

    let first = ping_to(&obituary(&mut node, peer(PEER)), peer(PEER));
    let mut outputs = node.fire(Timer::Probe);
    assert!(
        !relays_in(&outputs).iter().any(|(.., target)| *target == peer(PEER)),
        "not at the second attempt"
    );
    while !relays_in(&outputs).iter().any(|(.., target)| *target == peer(PEER)) {
        outputs = node.fire(Timer::Probe);
    }
    let last = ping_to(&outputs, peer(PEER));
    assert_eq!(last, first.wrapping_add(2));
    let asked: Vec<_> = relays_in(&outputs).into_iter().filter(|(.., t)| *t == peer(PEER)).collect();
    assert_eq!(asked.len(), 3);
    let mut relays: Vec<Contact> = asked.iter().map(|(to, ..)| *to).collect();
    relays.sort();
    relays.dedup();
    assert_eq!(relays.len(), 3, "three different ones");
    assert!(!relays.contains(&peer(PEER)) && !relays.contains(&doubtful));
    assert!(asked.iter().all(|(_, nonce, _)| *nonce == last));
}

#[test]
fn a_peer_that_others_reach_is_kept_but_avoided() {
    let mut node = ring_of(8);
    obituary(&mut node, peer(PEER));
    node.fire(Timer::Probe);
    let outputs = node.fire(Timer::Probe);
    let (relay, nonce, _) = relays_in(&outputs)[0];
    let answer = |nonce, target| Body::PongVia { nonce, target };
    assert!(node.refuses(relay, answer(nonce.wrapping_add(1), peer(PEER).id), Refusal::Unsolicited));
    assert!(node.refuses(relay, answer(nonce, peer(0x2000_0000).id), Refusal::Unsolicited));
    let outputs = node.hear(relay, answer(nonce, peer(PEER).id));
    assert_eq!(notes(&outputs), [Note::HalfReachable(peer(PEER))]);
    let unanswered = Event::Unanswered(peer(PEER));
    assert!(events(&outputs).contains(&unanswered), "the connection is opened anew, or by another way");
    assert!(node.leaves().contains(&peer(PEER)) && node.suspects(peer(PEER)));
    assert!(node.refuses(relay, answer(nonce, peer(PEER).id), Refusal::Unsolicited), "once");
    let outputs = node.wait(Duration::from_secs(20));
    assert_eq!((notes(&outputs), sent(&outputs)), (vec![], vec![]));
    let hop = routed(&node.lookup(1, peer(PEER).id))[0].0;
    assert_ne!(hop, peer(PEER));
}

#[test]
fn without_any_word_from_a_relay_the_peer_is_dead() {
    let mut node = ring_of(8);
    let outputs = node.kill(peer(PEER));
    assert_eq!(pings(&outputs).len(), 3);
    assert_eq!(relays_in(&outputs).len(), 3);
    assert!(!node.knows(peer(PEER)));
}

#[test]
fn others_are_asked_although_a_measurement_was_at_its_last_attempt() {
    let mut node = ring_of(8);
    // Others name it, and it was never measured.
    ping_to(&node.push(&[peer(PEER)]), peer(PEER));
    node.fire(Timer::Probe);
    assert_eq!(relays_in(&node.fire(Timer::Probe)), [], "it is only measured");
    obituary(&mut node, peer(PEER));
    let outputs = node.fire(Timer::Probe);
    assert_eq!(relays_in(&outputs).len(), 3);
    assert!(node.leaves().contains(&peer(PEER)));
    assert!(notes(&node.fire(Timer::Probe)).contains(&Note::Died(peer(PEER))), "once more, not for ever");
}

#[test]
fn a_relay_pings_for_others_only_whom_it_knows_itself() {
    let mut node = ring_of(4);
    let asker = peer(STRANGER);
    let ask = |target| Body::PingVia { nonce: 9, target };
    assert!(node.refuses(asker, ask(peer(0xe000_0000)), Refusal::UnknownTarget));
    // It pings at the address it knows, whatever the asker says.
    let elsewhere = Contact { addr: Addr(1), ..peer(PEER) };
    let outputs = node.hear(asker, ask(elsewhere));
    let nonce = ping_to(&outputs, peer(PEER));
    let outputs = node.hear(peer(PEER), Body::Pong(nonce));
    assert_eq!(sent(&outputs), [(asker, Body::PongVia { nonce: 9, target: peer(PEER).id })]);
    assert!(node.refuses(peer(PEER), Body::Pong(nonce), Refusal::Unsolicited));
}

#[test]
fn a_relay_does_not_ping_without_bound_for_others() {
    let mut node = ring_of(4);
    let ask = |nonce| Body::PingVia { nonce, target: peer(PEER) };
    let asked = (0..100).filter(|nonce| sent(&node.hear(peer(STRANGER), ask(*nonce))).len() == 1).count();
    assert!(asked < 100);
    assert!(node.refuses(peer(STRANGER), ask(200), Refusal::Full));
    node.wait(Duration::from_secs(10));
    assert_eq!(pings(&node.hear(peer(STRANGER), ask(201))).len(), 1, "old ones are forgotten");
}

#[test]
fn the_death_of_a_ring_neighbour_is_told_to_the_leaves() {
    let (beside, behind) = (peer(0x2000_0000), peer(0x3000_0000));
    let obituaries = |outputs: &[Output], dead| {
        let told =
            sent(outputs).into_iter().filter(|(_, body)| *body == Body::Pastry(Message::Obituary(dead)));
        told.map(|(to, _)| to).collect::<Vec<_>>()
    };
    let outputs = ring_of(5).kill(behind);
    assert_eq!(obituaries(&outputs, behind), [], "its own neighbours tell the others");
    let outputs = ring_of(5).kill(beside);
    assert_eq!(obituaries(&outputs, beside), [0x3000_0000, 0x4000_0000, 0x5000_0000].map(peer));
}

#[test]
fn a_peer_that_fell_out_of_every_table_is_no_suspect() {
    // No spares and no neighbourhood set: whom the leaf set drops is known nowhere else.
    let settings = Settings { spares: 0, neighbourhood: 0, ..narrow() };
    let (holder, leaf, nearer) = (peer(0x1900_0000), peer(0x1800_0000), peer(0x1001_0000));
    let rival = peer(0x1810_0000);
    let mut node = Driver::ready(peer(ME), &[peer(0x0fff_0000), rival, leaf, holder], settings);
    node.measure(rival, millis(1));
    assert_eq!((node.cell(leaf), node.leaves()[0]), (vec![rival], leaf));
    obituary(&mut node, leaf);
    node.introduce(nearer);
    assert!(!node.knows(leaf));
    while node.due(Timer::Probe).is_some() {
        node.fire(Timer::Probe);
        assert!(!node.suspects(leaf));
    }
}
