//! Leases and nodes that were stopped or restarted: what they know is old, what they granted they may have forgotten.

use kringle_core::edge::{Note, Output, Refusal, Timer};
use kringle_core::message::{Body, HopAck};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Flank, Message};

use crate::harness::*;
use crate::leasing::*;

// A node that was stopped.

#[test]
fn a_node_stopped_for_a_lease_hears_its_whole_leaf_set_before_it_grants() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    let outputs = node.stop_for(20_000);
    assert_eq!(count(&outputs, Note::Verifying), 1);
    let probes: Vec<_> = leaf_probes(&outputs).into_iter().map(|(to, _)| to).collect();
    assert_eq!(probes, [RIGHT, FAR_RIGHT, LEFT].map(peer));
    assert_eq!(count(&node.wait(millis(510)), Note::Verifying), 0, "once is enough");
    for (leaf, probe) in leaf_probes(&outputs) {
        assert!(!node.request(LEFT, 5, Flank::Right).granted, "{leaf:?} has not answered");
        node.hear(leaf, leaf_reply(probe.nonce, None));
    }
    assert!(node.request(LEFT, 6, Flank::Right).granted);
}

#[test]
fn a_leaf_that_is_given_up_is_waited_for_no_longer() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    let outputs = node.stop_for(20_000);
    for (leaf, probe) in leaf_probes(&outputs).into_iter().filter(|(leaf, _)| *leaf != peer(FAR_RIGHT)) {
        node.hear(leaf, leaf_reply(probe.nonce, None));
    }
    // Neighbours answer probes, but grant nothing: being entitled would do as well.
    let mut waited = 0;
    while !node.request(LEFT, 5, Flank::Right).granted {
        let outputs = node.wait(millis(10));
        node.answer_probes(outputs.into_iter().filter(|output| !is_to(output, peer(FAR_RIGHT))).collect());
        waited += 10;
    }
    assert_eq!(waited, 100 + 200 + 300, "three attempts");
}

#[test]
fn answers_that_waited_while_the_node_was_stopped_show_nothing() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let outputs = node.hear_pastry(peer(STRANGER), Message::Obituary(peer(LEFT)));
    let nonce = ping_to(&outputs, peer(LEFT));
    node.stop_for(20_000);
    assert!(node.refuses(peer(LEFT), Body::Pong(nonce), Refusal::Unsolicited));
}

#[test]
fn a_woken_node_takes_no_message_for_the_time_of_a_hop() {
    let mut node = Driver::between();
    node.stop_for(20_000);
    let refused = [(peer(LEFT), Body::HopAck(HopAck { hop: 5, taken: false, better: None }))];
    let routed = || Body::Routed(app_from(peer(LEFT), key(ME), 5));
    assert_eq!(sent(&node.hear(peer(LEFT), routed())), refused);
    node.live(490);
    assert_eq!(sent(&node.hear(peer(LEFT), routed())), refused);
    node.live(10);
    assert_eq!(delivered(&node.hear(peer(LEFT), routed())).len(), 1);
}

#[test]
fn a_timer_that_is_a_quarter_of_a_lease_late_is_late_enough() {
    for (late, waking) in [(2500, false), (2501, true)] {
        let mut node = Driver::between();
        let due = node.left(Timer::Lease);
        node.now = node.now.after(due + millis(late));
        node.wait(millis(0));
        let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 5)));
        assert_eq!(delivered(&outputs).is_empty(), waking, "{late}");
    }
}

#[test]
fn a_stopped_node_without_leases_is_sure_of_nothing_however_lately_it_was() {
    let (mut node, _) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let outputs = node.stop_for(4000);
    assert_eq!(count(&outputs, Note::Verifying), 1);
    assert!(!node.request(LEFT, 5, Flank::Right).granted);
}

#[test]
fn a_node_stopped_for_less_than_its_leases_still_grants() {
    let mut node = Driver::between();
    node.stop_for(7000);
    assert!(node.request(LEFT, 5, Flank::Right).granted);
}

#[test]
fn a_joiner_is_sure_of_its_surroundings_for_the_time_of_a_lease_from_beginning_to_probe() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(RIGHT), leased());
    let outputs = node.hear(peer(RIGHT), join_reply(&routed, true, &[peer(LEFT)]));
    let start = node.now;
    node.wait(millis(300));
    node.answer_probes(outputs);
    assert_eq!(node.node.status(), Status::Ok);
    node.now = start.after(millis(9899));
    assert!(node.request(LEFT, 5, Flank::Right).granted);
    node.now = start.after(millis(9900));
    assert!(!node.request(LEFT, 6, Flank::Right).granted);
}

// A node that was restarted.

/// A node in its second life that asks its neighbours.
fn restarted() -> (Driver, Vec<Output>) {
    Driver::asking(life(ME, 2), &[LEFT, RIGHT].map(peer), leased())
}

#[test]
fn a_restarted_node_is_quiet_until_both_neighbours_have_told_what_they_hold() {
    let (mut node, outputs) = restarted();
    assert!(!node.request(LEFT, 5, Flank::Right).granted);
    let outputs = node.grant_all(&outputs[..]);
    assert_eq!(replies(&outputs).len(), 1, "both have told");
    assert!(node.request(LEFT, 6, Flank::Right).granted);
    let (mut node, outputs) = restarted();
    let nonce = asked_of(&outputs, peer(RIGHT)).nonce;
    node.hear_pastry(peer(RIGHT), answer(nonce, true, 0, &[]));
    assert!(!node.request(RIGHT, 5, Flank::Left).granted, "the left one has not told");
    assert!(node.request(LEFT, 6, Flank::Right).granted, "a question tells, too");
}

#[test]
fn only_neighbours_can_end_the_quiet_of_a_restarted_node() {
    let (mut node, _) = restarted();
    node.request(FAR_LEFT, 5, Flank::Right);
    node.request(FAR_RIGHT, 6, Flank::Left);
    assert!(!node.request(LEFT, 7, Flank::Right).granted, "the right one has not told");
    assert!(node.request(RIGHT, 8, Flank::Left).granted);
}

#[test]
fn a_restarted_node_honours_what_its_neighbours_hold() {
    let (mut node, outputs) = restarted();
    for (to, request) in asked(&outputs) {
        let holds = if to == peer(RIGHT) { 6000 } else { 0 };
        node.hear_pastry(to, answer(request.nonce, true, holds, &[]));
    }
    assert!(!node.request(NEARER_RIGHT, 5, Flank::Left).granted);
    // As long as it may last by the slower of two clocks.
    node.live(6110);
    assert!(!node.request(NEARER_RIGHT, 6, Flank::Left).granted);
    node.live(10);
    assert!(node.request(NEARER_RIGHT, 7, Flank::Left).granted);
}

#[test]
fn a_question_tells_a_restarted_node_what_its_neighbour_holds() {
    let (mut node, outputs) = restarted();
    node.hear_pastry(peer(RIGHT), ask(5, Flank::Left, 6000, &[]));
    let nonce = asked_of(&outputs, peer(LEFT)).nonce;
    node.hear_pastry(peer(LEFT), answer(nonce, true, 0, &[]));
    let outputs = node.hear_pastry(peer(NEARER_RIGHT), ask(6, Flank::Left, 0, &[]));
    assert!(!answered(&outputs, peer(NEARER_RIGHT)).granted);
    assert_eq!(recalls(&outputs).len(), 1);
    // It returns what it holds by the number it was recalled with.
    let (to, recall) = recalls(&outputs)[0];
    node.hear_pastry(to, give_back(recall.nonce, Some(peer(NEARER_RIGHT).id)));
    assert!(node.request(NEARER_RIGHT, 7, Flank::Left).granted);
}

#[test]
fn a_restarted_node_is_quiet_no_longer_than_its_earlier_life_can_have_granted() {
    let (mut node, _) = restarted();
    let start = node.now;
    let mut outputs = Vec::new();
    while node.now < start.after(millis(10_090)) {
        let step = node.wait(millis(10));
        outputs.extend(node.answer_probes(step));
    }
    assert!(!node.request(LEFT, 5, Flank::Right).granted);
    let (mut node, _) = restarted();
    while node.now < start.after(millis(10_100)) {
        let step = node.wait(millis(10));
        node.answer_probes(step);
    }
    assert!(node.request(LEFT, 5, Flank::Right).granted);
}

#[test]
fn nobody_binds_a_restarted_node_for_longer_than_a_lease() {
    let (mut node, outputs) = restarted();
    for (to, request) in asked(&outputs) {
        node.hear_pastry(to, answer(request.nonce, true, u32::MAX - 1, &[]));
    }
    node.live(10_090);
    assert!(!node.request(NEARER_RIGHT, 5, Flank::Left).granted);
    node.live(10);
    assert!(node.request(NEARER_RIGHT, 6, Flank::Left).granted);
}

#[test]
fn what_somebody_claims_to_hold_means_nothing_to_a_node_in_its_first_life() {
    let mut node = Driver::between();
    node.hear_pastry(peer(FAR_RIGHT), ask(5, Flank::Left, u32::MAX, &[]));
    assert!(node.request(NEARER_RIGHT, 6, Flank::Left).granted);
}
