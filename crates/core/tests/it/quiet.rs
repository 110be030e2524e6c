//! What a node does not send, and what it does not wait for.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::{Contact, Proximity};
use kringle_core::edge::{Command, Input, Note, Output, Timer};
use kringle_core::message::Body;
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Message, What};
use kringle_core::overlay::timing::FIRST;

use crate::harness::*;
use crate::leasing::leased;

const ME: u32 = 0x8000_0000;
/// The leaves of a node whose leaf set has four members, and those beyond.
const RING: [u32; 8] =
    [0x7c00_0000, 0x7d00_0000, 0x7e00_0000, 0x7f00_0000, 0x8100_0000, 0x8200_0000, 0x8300_0000, 0x8400_0000];

fn few_leaves() -> Settings {
    Settings { leaf_set: 4, replicas: 1, ..calm() }
}

fn ring(me: u32, settings: Settings) -> Driver {
    let others = RING.into_iter().chain([ME]).filter(|other| *other != me).map(peer);
    Driver::ready(peer(me), &others.collect::<Vec<_>>(), settings)
}

/// The exchange of leaf sets with a leaf that is no ring neighbour.
fn exchange(node: &mut Driver, with: Contact) -> Vec<Output> {
    for _ in 0..100 {
        let outputs = node.feed(Input::Timer(Timer::LeafExchange));
        if leaf_probes(&outputs).iter().any(|(to, _)| *to == with) {
            return outputs;
        }
        node.answer_probes(outputs);
    }
    panic!("{with:?} has not had its turn");
}

#[test]
fn leaf_sets_that_agree_are_not_sent() {
    let far = 0x8200_0000;
    let (mut node, mut other) = (ring(ME, few_leaves()), ring(far, few_leaves()));
    let outputs = exchange(&mut node, peer(far));
    let probe = leaf_probe_to(&outputs, peer(far));
    assert_eq!((probe.digest.is_some(), probe.leaves.len()), (true, 0));
    let answer = sent_to(&other.hear_pastry(peer(ME), Message::LeafProbe(Box::new(probe))), peer(ME));
    assert_has_no_leaves(&answer);
    assert_eq!(sent(&node.hear(peer(far), answer[0].clone())), []);
}

fn assert_has_no_leaves(answer: &[Body]) {
    assert!(
        matches!(answer, [Body::Pastry(Message::LeafReply(reply))] if reply.leaves.is_none()),
        "{answer:?}"
    );
}

#[test]
fn leaf_sets_that_differ_are_sent_in_both_directions() {
    let far = 0x8200_0000;
    let (mut node, mut other) = (ring(ME, few_leaves()), ring(far, few_leaves()));
    // Only one of the two knows a newcomer between them.
    other.introduce(peer(0x8180_0000));
    let outputs = exchange(&mut node, peer(far));
    let probe = leaf_probe_to(&outputs, peer(far));
    let answer = sent_to(&other.hear_pastry(peer(ME), Message::LeafProbe(Box::new(probe))), peer(ME));
    let outputs = node.hear(peer(far), answer[0].clone());
    leaf_probe_to(&outputs, peer(0x8180_0000));
    let probe = leaf_probe_to(&outputs, peer(far));
    assert_eq!((probe.digest, probe.leaves.len()), (None, 4));
    let answer = sent_to(&other.hear_pastry(peer(ME), Message::LeafProbe(Box::new(probe))), peer(ME));
    assert_has_no_leaves(&answer);
    // That ends it.
    assert_eq!(sent(&node.hear(peer(far), answer[0].clone())), []);
}

#[test]
fn a_leaf_set_with_a_gap_is_asked_for_in_full() {
    let mut node = ring(ME, few_leaves());
    let outputs = node.hear_pastry(peer(0x8100_0000), Message::Goodbye(Box::default()));
    let probe = leaf_probe_to(&outputs, peer(0x8200_0000));
    assert_eq!((probe.digest, probe.leaves.len()), (None, 3));
}

#[test]
fn a_neighbour_that_is_asked_for_a_lease_gets_no_heartbeat_unless_there_is_news() {
    let never = Duration::from_secs(1_000_000);
    for (heartbeat, quiet) in [(Duration::from_secs(2), true), (Duration::from_secs(1), false)] {
        let (left, right) = (peer(0x7000_0000), peer(0x9000_0000));
        let settings = Settings { heartbeat, leaf_exchange: never, ..leased() };
        let mut node = Driver::entitled(peer(ME), &[left, right], settings);
        let beat = |node: &mut Driver| {
            let outputs = node.feed(Input::Timer(Timer::Heartbeat));
            let probes = leaf_probes(&outputs).len();
            node.answer_probes(outputs);
            probes
        };
        // The first one tells the leaf set; after it, nothing is new.
        assert_eq!(beat(&mut node), 2);
        assert_eq!(beat(&mut node), 0, "they have just answered");
        assert_eq!(beat(&mut node), if quiet { 0 } else { 2 }, "a heartbeat of {heartbeat:?}");
        if quiet {
            node.introduce(peer(0xa000_0000));
            assert_eq!(beat(&mut node), 2);
        }
    }
}

#[test]
fn one_lost_leaf_is_replaced_by_one() {
    let settings = || Settings { leaf_set: 4, replicas: 1, ..calm() };
    for (lost, end, beyond) in
        [(0x8100_0000, 0x8200_0000, 0x8300_0000), (0x7f00_0000, 0x7e00_0000, 0x7d00_0000)]
    {
        let mut node = ring(ME, settings());
        let outputs = node.hear_pastry(peer(lost), Message::Goodbye(Box::default()));
        let nonce = leaf_probe_to(&outputs, peer(end)).nonce;
        let mut arc = RING.into_iter().filter(|leaf| *leaf != lost && *leaf != end).collect::<Vec<_>>();
        arc.push(ME);
        arc.sort_unstable();
        let outputs =
            node.hear(peer(end), leaf_reply(nonce, Some(&arc.into_iter().map(peer).collect::<Vec<_>>())));
        let probed: Vec<Contact> = leaf_probes(&outputs).into_iter().map(|(to, _)| to).collect();
        assert_eq!(probed, [peer(beyond)]);
    }
}

#[test]
fn a_silent_candidate_is_tried_once_and_one_found_dead_not_at_all() {
    let candidate = peer(0x1000_0000);
    let mut node = ring(ME, few_leaves());
    assert_eq!(probed(&node.push(&[candidate])), [candidate]);
    assert_eq!(sent(&node.fire(Timer::Probe)), []);
    assert_eq!(probed(&node.push(&[candidate])), [candidate], "it may have come since");
    node.fire(Timer::Probe);
    // A leaf that our probes found dead is not probed again because others name it.
    let dead = peer(0x8100_0000);
    let outputs = node.kill(dead);
    node.answer_probes(outputs);
    assert_eq!(probed(&node.push(&[dead])), []);
    node.wait(millis(3_000));
    assert_eq!(probed(&node.push(&[dead])), [dead], "all others would have noticed by now");
}

#[test]
fn a_dead_node_that_others_name_for_a_cell_is_not_measured_for_ten_minutes() {
    let (dead, heir) = (peer(0x8100_0000), peer(0x8080_0000));
    let mut node = ring(ME, few_leaves());
    let outputs = node.kill(dead);
    node.answer_probes(outputs);
    // Its place among the leaves is taken: only a cell of the routing table could want it.
    node.introduce(heir);
    node.introduce(peer(0x8200_0000));
    node.wait(Duration::from_secs(599));
    assert_eq!(probed(&node.push(&[dead])), []);
    node.wait(Duration::from_secs(2));
    assert_eq!(probed(&node.push(&[dead])), [dead]);
}

#[test]
fn a_joiner_waits_for_leaves_as_long_as_its_seed_took_to_acknowledge() {
    let (seed, leaf) = (peer(RING[0]), peer(RING[4]));
    let settings = Settings { find_nearby: false, probe_timeout_max: Duration::from_secs(3), ..calm() };
    for (took, wait) in [(millis(400), millis(600)), (millis(2_000), millis(3_000))] {
        let mut node = Driver::out(peer(ME), settings.clone());
        let routed = routed_to(&node.command(0, Command::Join { seeds: vec![seed] }), seed);
        node.wait(took);
        node.hear(seed, ack(routed.hop));
        let outputs = node.hear(seed, join_reply(&routed, true, &[leaf]));
        leaf_probe_to(&outputs, leaf);
        assert_eq!(node.left(Timer::Probe), wait, "the seed took {took:?}");
    }
}

#[test]
fn a_seed_that_acknowledges_is_given_the_time_a_join_takes() {
    let settings = Settings { find_nearby: false, join_timeout: Duration::from_secs(10), ..calm() };
    let mut node = Driver::out(peer(ME), settings);
    let routed = routed_to(&node.command(0, Command::Join { seeds: vec![peer(RING[0])] }), peer(RING[0]));
    assert_eq!(node.left(Timer::Join), FIRST);
    node.hear(peer(RING[0]), ack(routed.hop));
    assert_eq!(node.left(Timer::Join), Duration::from_secs(10));
}

#[test]
fn a_joiner_joins_at_once_and_looks_for_nearby_nodes_when_it_is_ready() {
    let (seed, near, nearer) = (peer(RING[3]), peer(0x1000_0000), peer(0x2000_0000));
    let mut node = Driver::out(peer(ME), Settings { join_first: true, ..calm() });
    let routed = routed_to(&node.command(0, Command::Join { seeds: vec![seed] }), seed);
    node.hear(seed, ack(routed.hop));
    let outputs = node.hear(seed, join_reply(&routed, true, &[]));
    node.answer_probes(outputs);
    assert_eq!(node.node.status(), Status::Ready);
    let outputs = node.announce(near, 10);
    node.answer_probes(outputs);
    // Everybody has answered at once, so the seed is the nearest.
    let outputs = node.fire(Timer::Neighbourhood);
    assert_eq!(count(&outputs, Note::NearerSeed), 1);
    let asked: Vec<(Contact, What)> =
        requests(&outputs).into_iter().map(|(to, ask)| (to, ask.what)).collect();
    let nearest = node.pastry().router().neighbourhood().entries()[0].contact;
    assert_eq!(asked, [(nearest, What::Neighbourhood), (nearest, What::Row(0))]);
    // What it names is measured; a nearer one is asked in turn, and if there is none, the search is over.
    let (_, ask) = &requests(&outputs)[0];
    let outputs = node.hear_pastry(nearest, reply(ask.nonce, What::Neighbourhood, &[nearer]));
    assert_eq!(probed(&outputs), [nearer]);
    node.fire(Timer::Neighbourhood);
    assert!(node.left(Timer::Neighbourhood) > Duration::from_secs(1000));
    assert_eq!(Proximity(1), node.pastry().router().neighbourhood().entries()[0].proximity);
}

#[test]
fn the_more_nodes_know_each_other_the_less_often_each_asks_vanished_peers() {
    let heal = Duration::from_secs(5);
    let mut node = Driver::founder(peer(ME), Settings { heal, ..calm() });
    let paces = |node: &mut Driver| {
        node.feed(Input::Timer(Timer::Heal));
        node.left(Timer::Heal).as_millis() as u64 / 2_500
    };
    assert!((1..3).contains(&paces(&mut node)));
    for n in 1..=32 {
        node.introduce(peer(ME + (n << 20)));
    }
    // Four times as long, jittered by half.
    assert!((4..12).contains(&paces(&mut node)));
    // One that vanished is back in the same life: the others may be, too.
    let lost = peer(ME + (7 << 20));
    let outputs = node.kill(lost);
    node.answer_probes(outputs);
    node.introduce(lost);
    assert!(node.left(Timer::Heal) < heal * 3 / 2);
    assert!((1..3).contains(&paces(&mut node)));
}
