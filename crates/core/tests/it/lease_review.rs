//! What a review of the leases found, each with the test that showed it.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::edge::{Command, Note, Timer};
use kringle_core::message::Body;
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Flank, Message};

use crate::harness::*;
use crate::lease_edges::{healing, long_list};
use crate::leasing::*;

#[test]
fn a_list_longer_than_any_honest_one_costs_no_more_probes_than_an_honest_one() {
    let mut node = Driver::between();
    let outputs = node.hear_pastry(peer(STRANGER), ask(5, Flank::Left, 0, &long_list()));
    assert!(probed(&outputs).len() <= 8, "{}", probed(&outputs).len());
}

#[test]
fn ten_thousand_askers_that_return_for_each_other_leave_no_more_than_a_few_grants() {
    let mut node = Driver::between();
    for n in (1..=10_000).rev() {
        node.request(ME + n, n, Flank::Left);
        node.hear_pastry(peer(ME + n + 1), give_back(n + 1, Some(peer(ME + n).id)));
        node.request(ME + n, n, Flank::Left);
    }
    assert!(node.node.memory().0.open < 64 * 1024);
}

#[test]
fn a_restarted_node_honours_a_neighbour_that_is_late_to_tell() {
    let settings = Settings { leaf_set: 8, ..leased() };
    let (mut node, outputs) = Driver::asking(life(ME, 2), &[FAR_LEFT, LEFT, RIGHT].map(peer), settings);
    // The right one asks again and again, as it does every half a second while it is refused.
    for n in 0..8 {
        node.hear_pastry(peer(RIGHT), ask(n, Flank::Left, 9000, &[]));
    }
    let nonce = asked_of(&outputs, peer(LEFT)).nonce;
    node.hear_pastry(peer(LEFT), answer(nonce, true, 9000, &[]));
    let outputs = node.hear_pastry(peer(NEARER_LEFT), ask(20, Flank::Right, 0, &[]));
    assert!(!answered(&outputs, peer(NEARER_LEFT)).granted, "the left one holds a lease and knows nothing");
}

#[test]
fn a_return_to_a_restarted_node_frees_all_that_was_told() {
    let (mut node, outputs) = Driver::asking(life(ME, 2), &[LEFT, RIGHT].map(peer), leased());
    for nonce in [4, 5] {
        node.hear_pastry(peer(RIGHT), ask(nonce, Flank::Left, 9000, &[]));
    }
    let nonce = asked_of(&outputs, peer(LEFT)).nonce;
    node.hear_pastry(peer(LEFT), answer(nonce, true, 0, &[]));
    let outputs = node.hear_pastry(peer(NEARER_RIGHT), ask(6, Flank::Left, 0, &[]));
    for (to, recall) in recalls(&outputs) {
        node.hear_pastry(to, give_back(recall.nonce, Some(peer(NEARER_RIGHT).id)));
    }
    assert!(node.request(NEARER_RIGHT, 7, Flank::Left).granted);
}

#[test]
fn in_a_ring_of_two_a_return_to_a_restarted_node_is_for_the_side_recalled() {
    let (mut node, outputs) = Driver::asking(life(ME, 2), &[peer(RIGHT)], leased());
    for (to, request) in asked(&outputs) {
        node.hear_pastry(to, answer(request.nonce, true, 9000, &[peer(ME)]));
    }
    let outputs = node.hear_pastry(peer(NEARER_RIGHT), ask(6, Flank::Left, 0, &[]));
    let [(to, recall)] = recalls(&outputs).try_into().expect("one recall");
    node.hear_pastry(to, give_back(recall.nonce, Some(peer(NEARER_RIGHT).id)));
    let other = node.request(NEARER_LEFT, 8, Flank::Right);
    assert!(!other.granted, "the holder has said nothing about its right side");
    assert!(node.request(NEARER_RIGHT, 7, Flank::Left).granted);
}

#[test]
fn a_founder_that_granted_nothing_delivers_on_when_a_guest_leaves() {
    let mut node = Driver::founder(peer(ME), leased());
    node.introduce(peer(RIGHT));
    node.introduce(peer(NEARER_RIGHT));
    node.hear_pastry(peer(NEARER_RIGHT), Message::Goodbye(Box::default()));
    assert!(node.delivers());
}

#[test]
fn a_founder_that_granted_nothing_delivers_on_while_a_guest_takes_its_time() {
    let mut node = Driver::founder(peer(ME), leased());
    node.introduce(peer(RIGHT));
    for _ in 0..1500 {
        let outputs = node.wait(millis(10));
        node.answer_probes(outputs);
    }
    assert!(node.delivers());
}

#[test]
fn a_node_that_left_and_joins_again_waits_until_what_it_had_granted_is_over() {
    let (mut node, _) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    assert!(node.request(RIGHT, 5, Flank::Left).granted);
    let granted = node.now;
    let outputs = node.command(1, Command::Leave);
    assert!(sent(&outputs).iter().any(|(_, body)| matches!(body, Body::Pastry(Message::Goodbye(_)))));
    node.wait(node.config.leave_grace);
    assert_eq!(node.node.status(), Status::Out);
    // A goodbye that is still under way would undo what is granted to the new stay.
    let outputs = node.command(2, Command::Join { seeds: vec![peer(LEFT)] });
    assert_eq!((sent(&outputs), node.node.status()), (vec![], Status::Joining));
    assert_eq!(granted.after(node.config.lease_granted()), node.due(Timer::Join).expect("set"));
    let outputs = node.wait(node.left(Timer::Join));
    routed_to(&outputs, peer(LEFT));
}

#[test]
fn a_joiner_refused_for_long_raises_the_alarm() {
    let (mut node, _) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let mut outputs = Vec::new();
    for _ in 0..3200 {
        let step = node.wait(millis(10));
        outputs.extend(node.answer_probes(step));
    }
    assert!(count(&outputs, Note::LeasesOverdue) > 0);
}

#[test]
fn a_woken_node_does_not_hold_its_own_silence_against_its_neighbours() {
    let mut node = Driver::between();
    let due = node.left(Timer::Lease);
    node.wait(due);
    let outputs = node.stop_for(20_000);
    assert!(!node.suspects(peer(LEFT)) && count(&outputs, Note::Suspected(peer(LEFT))) == 0);
}

#[test]
fn a_lease_beyond_all_measure_is_refused_by_name() {
    let settings = Settings { lease: Duration::MAX, ..leased() };
    assert_eq!(settings.check().unwrap_err().setting, "timeouts");
}

#[test]
fn those_who_said_goodbye_are_not_looked_for() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, FAR_RIGHT, RIGHT].map(peer), healing());
    node.hear_pastry(peer(FAR_RIGHT), Message::Goodbye(Box::default()));
    let outputs = node.live_without(60_000, &[peer(FAR_RIGHT)]);
    assert_eq!(count(&outputs, Note::HealAsked), 0);
}

#[test]
fn a_founder_in_a_later_life_grants_at_once_when_the_quiet_time_is_long_over() {
    let mut node = Driver::founder(life(ME, 2), leased());
    node.wait(millis(3_600_000));
    assert!(node.request(RIGHT, 5, Flank::Left).granted);
}

#[test]
fn whoever_is_left_alone_by_a_goodbye_is_a_ring_of_one() {
    let mut node = Driver::entitled(peer(ME), &[peer(RIGHT)], leased());
    node.hear_pastry(peer(RIGHT), Message::Goodbye(Box::new(vec![peer(ME)])));
    assert!(node.delivers(), "the other has given everything back");
}

#[test]
fn a_leaf_that_others_reached_is_waited_for_no_longer() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    let outputs = node.stop_for(20_000);
    for (leaf, probe) in leaf_probes(&outputs).into_iter().filter(|(leaf, _)| *leaf != peer(FAR_RIGHT)) {
        node.hear(leaf, leaf_reply(probe.nonce, None));
    }
    let via = loop {
        let outputs = node.wait(millis(10));
        let via = sent(&outputs).into_iter().find_map(|(to, body)| match body {
            Body::PingVia { nonce, .. } => Some((to, nonce)),
            _ => None,
        });
        node.answer_probes(outputs.into_iter().filter(|output| !is_to(output, peer(FAR_RIGHT))).collect());
        if let Some(via) = via {
            break via;
        }
    };
    assert!(!node.request(LEFT, 5, Flank::Right).granted);
    node.hear(via.0, Body::PongVia { nonce: via.1, target: peer(FAR_RIGHT).id });
    assert!(node.request(LEFT, 6, Flank::Right).granted);
}
