//! Leases from the side of the holder: when it asks, what it counts on, and what it delivers.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::edge::{Command, Event, Input, Note, Refusal, Reply, Timer};
use kringle_core::message::{Body, HopAck, Outcome};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Flank, LeaseRequest, Message};
use kringle_core::time::Time;

use crate::harness::*;
use crate::leasing::*;

#[test]
fn a_joiner_asks_both_neighbours_each_for_its_side() {
    let (node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    assert_eq!(asked_whom(&outputs), [(peer(LEFT), Flank::Left), (peer(RIGHT), Flank::Right)]);
    let LeaseRequest { holds, leaves, .. } = asked_of(&outputs, peer(LEFT));
    assert_eq!((holds, leaves), (u32::MAX, [RIGHT, LEFT].map(peer).to_vec()));
    assert_eq!(node.left(Timer::Lease), node.config.probe_timeout_max);
}

#[test]
fn requests_name_the_four_nearest_leaves_of_each_side_in_ring_order() {
    let ring = [2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14].map(|n: u32| peer(n << 28));
    let (_, outputs) = Driver::asking(peer(ME), &ring, leased());
    let expected = [4, 5, 6, 7, 9, 10, 11, 12].map(|n: u32| peer(n << 28));
    assert_eq!(asked_of(&outputs, peer(RIGHT)).leaves, expected);
}

#[test]
fn a_node_is_ready_only_with_the_leases_of_both_sides() {
    for first in [0, 1] {
        let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
        let requests = asked(&outputs);
        let (one, other) = (&requests[first], &requests[1 - first]);
        let outputs = node.hear_pastry(one.0, answer(one.1.nonce, true, 0, &[]));
        assert_eq!((notes(&outputs), replies(&outputs)), (vec![Note::LeaseGranted], vec![]));
        assert_eq!((node.node.status(), node.delivers()), (Status::Ok, false));
        let outputs = node.hear_pastry(other.0, answer(other.1.nonce, true, 0, &[]));
        assert_eq!(replies(&outputs), [(0, Ok(Reply::Joined))]);
        assert!(node.delivers());
    }
}

#[test]
fn a_refusal_is_slept_on_and_asked_again() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let (left, right) = (asked_of(&outputs, peer(LEFT)), asked_of(&outputs, peer(RIGHT)));
    node.hear_pastry(peer(RIGHT), answer(right.nonce, true, 0, &[]));
    node.wait(millis(100));
    let refused = node.hear_pastry(peer(LEFT), answer(left.nonce, false, 0, &[peer(ME), peer(RIGHT)]));
    assert_eq!(notes(&refused), [Note::LeaseRefused]);
    assert_eq!((sent(&refused), node.node.status()), (vec![], Status::Ok));
    // Soon at first, since most reasons are over in a moment, then less and less often.
    for pause in [31_250, 62_500, 125_000, 250_000, 500_000, 500_000].map(Duration::from_micros) {
        assert_eq!(sent(&node.wait(pause - millis(1))), []);
        let again = node.wait(millis(1));
        assert_eq!(asked_whom(&again), [(peer(LEFT), Flank::Left)]);
        let nonce = asked_of(&again, peer(LEFT)).nonce;
        node.hear_pastry(peer(LEFT), answer(nonce, false, 0, &[peer(ME), peer(RIGHT)]));
    }
    assert!(!node.suspects(peer(LEFT)), "it did answer");
}

#[test]
fn the_refused_learns_the_nearer_node_and_asks_that_one() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(LEFT)).nonce;
    let refused =
        node.hear_pastry(peer(LEFT), answer(nonce, false, 0, &[FAR_LEFT, NEARER_LEFT, ME].map(peer)));
    let probe = leaf_probe_to(&refused, peer(NEARER_LEFT));
    let outputs = node.hear(peer(NEARER_LEFT), leaf_reply(probe.nonce, None));
    assert_eq!(asked_whom(&outputs), [(peer(NEARER_LEFT), Flank::Left)]);
    assert!(node.refuses(peer(LEFT), Body::Pastry(answer(nonce, true, 0, &[])), Refusal::Unsolicited));
}

#[test]
fn whoever_refuses_without_naming_our_other_neighbour_makes_us_look_whether_that_one_is_there() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(LEFT)).nonce;
    let refused = node.hear_pastry(peer(LEFT), answer(nonce, false, 0, &[peer(ME)]));
    assert_eq!(pings(&refused).len(), 1);
    ping_to(&refused, peer(RIGHT));
}

#[test]
fn a_lease_is_renewed_after_a_third_of_its_time() {
    let mut node = Driver::between();
    assert_eq!(node.left(Timer::Lease), Duration::from_micros(3_333_333));
    assert_eq!(sent(&node.wait(millis(3333))), []);
    let outputs = node.wait(millis(1));
    assert_eq!(asked_whom(&outputs), [(peer(LEFT), Flank::Left), (peer(RIGHT), Flank::Right)]);
    let renewed_at = node.due(Timer::Lease).expect("set").since(Time::ZERO) - millis(500);
    node.grant_all(&outputs);
    let end = Time::ZERO.after(renewed_at + millis(9900));
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 1)));
    assert_eq!(not_after(&outputs), [Some(end)]);
}

#[test]
fn a_silent_neighbour_is_asked_again_and_suspected() {
    let (mut node, _) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    assert!(!node.suspects(peer(LEFT)));
    let outputs = node.wait(millis(500));
    assert!(node.suspects(peer(LEFT)) && node.suspects(peer(RIGHT)));
    assert_eq!(asked_whom(&outputs), [(peer(LEFT), Flank::Left), (peer(RIGHT), Flank::Right)]);
    assert_eq!(pings(&outputs).len(), 2);
    let nonce = asked_of(&outputs, peer(LEFT)).nonce;
    let outputs = node.hear_pastry(peer(LEFT), answer(nonce, true, 0, &[]));
    assert!(notes(&outputs).contains(&Note::Cleared(peer(LEFT))));
}

#[test]
fn the_answer_to_an_earlier_question_does_not_count() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let early = asked_of(&outputs, peer(LEFT)).nonce;
    node.wait(millis(500));
    assert!(node.refuses(peer(LEFT), Body::Pastry(answer(early, true, 0, &[])), Refusal::Unsolicited));
}

#[test]
fn the_holder_counts_from_asking_and_one_per_cent_less() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let asked_at = node.now;
    node.wait(millis(400));
    node.grant_all(&outputs);
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 1)));
    assert_eq!(not_after(&outputs), [Some(asked_at.after(millis(9900)))]);
    // Renewals stay unanswered, probes do not, so that only the lease can end.
    while node.now < asked_at.after(millis(9899)) {
        let outputs = node.wait(millis(1));
        node.answer_probes(outputs);
        assert!(node.delivers());
    }
    let outputs = node.wait(millis(1));
    assert_eq!(count(&outputs, Note::LeaseLost), 2);
    assert_eq!((node.delivers(), node.node.status()), (false, Status::Ready));
}

#[test]
fn a_lease_ends_by_the_clock_not_by_its_timer() {
    let node = Driver::between();
    let end = node.now.after(millis(9900));
    let last = node.now.after(Duration::from_micros(9_899_999));
    assert!(node.node.delivers(key(ME), last, &node.config));
    assert!(!node.node.delivers(key(ME), end, &node.config));
}

#[test]
fn a_lease_that_is_being_renewed_is_returned_by_the_number_of_the_renewal() {
    let mut node = Driver::between();
    let outputs = node.wait(node.left(Timer::Lease));
    let nonce = asked_of(&outputs, peer(RIGHT)).nonce;
    let outputs = node.introduce(peer(NEARER_RIGHT));
    assert_eq!(returns(&outputs), [(peer(RIGHT), nonce, Some(peer(NEARER_RIGHT).id))]);
}

#[test]
fn a_delivery_is_good_until_the_earlier_of_both_leases_ends() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let (asked_at, nonce) = (node.now, asked_of(&outputs, peer(LEFT)).nonce);
    node.hear_pastry(peer(LEFT), answer(nonce, true, 0, &[]));
    // The right one is silent at first.
    let again = node.wait(millis(500));
    node.answer_probes(again.clone());
    node.grant_all(&again);
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 1)));
    assert_eq!(not_after(&outputs), [Some(asked_at.after(millis(9900)))]);
    let outputs = node.live_without(4000, &[peer(RIGHT)]);
    assert!(count(&outputs, Note::LeaseGranted) >= 1);
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 2)));
    let right = asked_at.after(millis(500) + millis(9900));
    assert_eq!(not_after(&outputs), [Some(right)]);
}

/// A ready node whose leases have run out because both neighbours do not answer renewals, only probes.
fn lapsed() -> Driver {
    let mut node = Driver::between();
    for _ in 0..990 {
        let outputs = node.wait(millis(10));
        node.answer_probes(outputs);
    }
    assert!(!node.delivers() && node.node.status() == Status::Ready);
    node
}

#[test]
fn without_leases_a_message_is_taken_and_held_and_goes_when_they_come() {
    let mut node = lapsed();
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 5)));
    assert_eq!(sent(&outputs), [(peer(LEFT), Body::HopAck(HopAck { hop: 5, taken: true, better: None }))]);
    assert_eq!((notes(&outputs), delivered(&outputs)), (vec![Note::Held], vec![]));
    let outputs = node.live(600);
    assert_eq!(delivered(&outputs).iter().map(|routed| routed.serial).collect::<Vec<_>>(), [5]);
}

#[test]
fn without_leases_a_lookup_is_answered_as_not_final() {
    let mut node = lapsed();
    let outputs = node.lookup(3, key(ME));
    let found = |is_final| Ok(Reply::Found { root: peer(ME), hops: 0, path: vec![], is_final });
    assert_eq!(replies(&outputs), [(3, found(false))]);
    let outputs = node.hear(peer(LEFT), Body::Routed(lookup_from(peer(LEFT), key(ME), 5)));
    let outcomes: Vec<Outcome> = sent(&outputs)
        .into_iter()
        .filter_map(|(_, body)| match body {
            Body::Receipt(receipt) => Some(receipt.outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [Outcome::Nearest(vec![])]);
    node.live(600);
    assert_eq!(replies(&node.lookup(4, key(ME))), [(4, found(true))]);
}

#[test]
fn with_one_lease_only_nothing_is_delivered() {
    for silent in [LEFT, RIGHT] {
        let mut node = Driver::between();
        for _ in 0..1000 {
            let outputs = node.wait(millis(10));
            for (to, request) in asked(&outputs).into_iter().filter(|(to, _)| *to != peer(silent)) {
                node.hear_pastry(to, answer(request.nonce, true, 0, &[]));
            }
            node.answer_probes(outputs);
        }
        let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 5)));
        assert_eq!((node.delivers(), delivered(&outputs)), (false, vec![]));
    }
}

#[test]
fn a_refused_delivery_is_looked_after_again_and_delivered_once() {
    let mut node = Driver::between();
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 5)));
    let [routed] = delivered(&outputs).try_into().expect("one delivery");
    // The driver came to it only after the end of the leases.
    for _ in 0..990 {
        let outputs = node.wait(millis(10));
        node.answer_probes(outputs);
    }
    let outputs = node.feed(Input::DeliverRefused { routed: Box::new(routed) });
    assert_eq!((notes(&outputs), delivered(&outputs)), (vec![Note::DeliverRefused, Note::Held], vec![]));
    // A copy that comes meanwhile is the same message.
    let copy = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 5)));
    assert!(notes(&copy).contains(&Note::Duplicate));
    let outputs = node.live(2000);
    assert_eq!(delivered(&outputs).len(), 1);
    let copy = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 5)));
    assert_eq!(notes(&copy), [Note::Duplicate]);
}

#[test]
fn a_refused_delivery_goes_to_whoever_is_nearer_by_now() {
    let mut node = Driver::between();
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(0x8700_0000), 5)));
    let [routed] = delivered(&outputs).try_into().expect("one delivery");
    node.introduce(peer(NEARER_RIGHT));
    let outputs = node.feed(Input::DeliverRefused { routed: Box::new(routed) });
    assert_eq!(routed_to(&outputs, peer(NEARER_RIGHT)).serial, 5);
}

#[test]
fn a_nearer_newcomer_displaces_a_lease_and_the_grantor_is_told() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(RIGHT)).nonce;
    node.grant_all(&outputs);
    let outputs = node.introduce(peer(NEARER_RIGHT));
    assert_eq!(returns(&outputs), [(peer(RIGHT), nonce, Some(peer(NEARER_RIGHT).id))]);
    assert_eq!(count(&outputs, Note::LeaseDisplaced), 1);
    assert_eq!(asked_whom(&outputs), [(peer(NEARER_RIGHT), Flank::Right)]);
    // The rest of the range is delivered for as before.
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(0x8300_0000), 5)));
    assert_eq!(delivered(&outputs).len(), 1);
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(0x8500_0000), 6)));
    assert_eq!(routed_to(&outputs, peer(NEARER_RIGHT)).serial, 6);
}

#[test]
fn a_displaced_lease_is_void_when_the_newcomer_vanishes() {
    let mut node = Driver::between();
    node.introduce(peer(NEARER_RIGHT));
    let outputs = node.hear_pastry(peer(NEARER_RIGHT), Message::Goodbye(Box::default()));
    assert_eq!(count(&outputs, Note::LeaseLost), 1);
    assert_eq!(asked_whom(&outputs), [(peer(RIGHT), Flank::Right)]);
    assert!(!node.delivers());
}

#[test]
fn a_displaced_lease_shrinks_again_and_holds_only_up_to_the_nearest() {
    let mut node = Driver::between();
    node.introduce(peer(NEARER_RIGHT));
    let nearest = peer(0x8200_0000);
    let outputs = node.introduce(nearest);
    assert_eq!(
        returns(&outputs).iter().map(|given| (given.0, given.2)).collect::<Vec<_>>(),
        [(peer(RIGHT), Some(nearest.id))]
    );
    // The one that came first does not matter any more.
    let outputs = node.hear_pastry(peer(NEARER_RIGHT), Message::Goodbye(Box::default()));
    assert_eq!((count(&outputs, Note::LeaseLost), node.delivers()), (0, true));
    let outputs = node.hear_pastry(nearest, Message::Goodbye(Box::default()));
    assert_eq!((count(&outputs, Note::LeaseLost), node.delivers()), (1, false));
}

#[test]
fn a_newcomer_beyond_the_neighbour_changes_nothing() {
    let mut node = Driver::between();
    let outputs = node.introduce(peer(FAR_RIGHT));
    assert_eq!((asked(&outputs), returns(&outputs)), (vec![], vec![]));
    assert!(node.delivers());
}

#[test]
fn a_lease_of_a_neighbour_that_left_is_lost_at_once() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    let outputs = node.hear_pastry(peer(RIGHT), Message::Goodbye(Box::default()));
    assert_eq!((count(&outputs, Note::LeaseLost), node.delivers()), (1, false));
    assert_eq!(asked_whom(&outputs), [(peer(FAR_RIGHT), Flank::Right)]);
    node.grant_all(&outputs);
    assert!(node.delivers());
}

#[test]
fn a_recall_makes_the_holder_look_for_the_newcomer_and_return_what_it_shrinks() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(RIGHT)).nonce;
    node.grant_all(&outputs);
    let newcomer = peer(NEARER_RIGHT);
    let outputs = node.hear_pastry(peer(RIGHT), recall(nonce, Flank::Right, newcomer));
    assert_eq!(returns(&outputs), [], "not before it has seen for itself");
    let probe = leaf_probe_to(&outputs, newcomer);
    let outputs = node.hear(newcomer, leaf_reply(probe.nonce, None));
    assert_eq!(returns(&outputs), [(peer(RIGHT), nonce, Some(newcomer.id))]);
    // Asked again, because the return was lost.
    let outputs = node.hear_pastry(peer(RIGHT), recall(nonce, Flank::Right, newcomer));
    assert_eq!(sent(&outputs), [(peer(RIGHT), Body::Pastry(give_back(nonce, Some(newcomer.id))))]);
}

#[test]
fn a_recall_of_what_is_not_held_gives_it_back() {
    let mut node = Driver::between();
    let outputs = node.hear_pastry(peer(RIGHT), recall(77, Flank::Left, peer(NEARER_LEFT)));
    assert_eq!(returns(&outputs), [(peer(RIGHT), 77, None)]);
    assert_eq!(probed(&outputs), []);
    let outputs = node.hear_pastry(peer(FAR_RIGHT), recall(78, Flank::Right, peer(NEARER_RIGHT)));
    assert_eq!(sent(&outputs), [(peer(FAR_RIGHT), Body::Pastry(give_back(78, None)))]);
    assert!(node.delivers());
}

#[test]
fn a_recall_while_the_question_is_open_does_not_give_back_what_may_be_granted() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(RIGHT)).nonce;
    let outputs = node.hear_pastry(peer(RIGHT), recall(nonce, Flank::Right, peer(NEARER_RIGHT)));
    assert_eq!((returns(&outputs), probed(&outputs)), (vec![], vec![peer(NEARER_RIGHT)]));
}

#[test]
fn a_recall_that_names_ourselves_is_no_reason_for_anything() {
    let mut node = Driver::between();
    let before = node.node.clone();
    let outputs = node.hear_pastry(peer(RIGHT), recall(9, Flank::Right, peer(ME)));
    assert_eq!(outputs.len(), returns(&outputs).len());
    assert!(node.node == before);
}

#[test]
fn a_grantor_that_knows_a_nearer_neighbour_is_not_counted_on() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(RIGHT)).nonce;
    let outputs =
        node.hear_pastry(peer(RIGHT), answer(nonce, true, 0, &[NEARER_LEFT, ME, FAR_RIGHT].map(peer)));
    assert_eq!(notes(&outputs), [Note::LeaseRefused]);
    assert!(probed(&outputs).contains(&peer(NEARER_LEFT)));
    // Those beyond our neighbours are none of our business.
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(RIGHT)).nonce;
    let outputs =
        node.hear_pastry(peer(RIGHT), answer(nonce, true, 0, &[FAR_LEFT, LEFT, ME, FAR_RIGHT].map(peer)));
    assert!(notes(&outputs).contains(&Note::LeaseGranted));
}

#[test]
fn answers_tell_how_long_something_is_held_from_the_asker() {
    let mut node = Driver::between();
    assert_eq!(node.request(RIGHT, 1, Flank::Left).holds, u32::MAX, "new here");
    node.live(10_200);
    let holds = node.request(RIGHT, 2, Flank::Left).holds;
    node.wait(millis(1));
    assert_eq!(node.request(RIGHT, 3, Flank::Left).holds, holds - 1, "milliseconds");
    assert!((6_000..9_900).contains(&holds), "{holds}");
    assert_eq!(node.request(FAR_RIGHT, 1, Flank::Left).holds, 0);
}

#[test]
fn in_a_ring_of_two_each_side_needs_its_own_lease() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[peer(RIGHT)], leased());
    assert_eq!(asked_whom(&outputs), [(peer(RIGHT), Flank::Left), (peer(RIGHT), Flank::Right)]);
    let requests = asked(&outputs);
    node.hear_pastry(peer(RIGHT), answer(requests[0].1.nonce, true, 0, &[peer(ME)]));
    assert!(node.refuses(
        peer(RIGHT),
        Body::Pastry(answer(requests[0].1.nonce, true, 0, &[peer(ME)])),
        Refusal::Unsolicited
    ));
    assert_eq!(node.node.status(), Status::Ok);
    node.hear_pastry(peer(RIGHT), answer(requests[1].1.nonce, true, 0, &[peer(ME)]));
    assert!(node.delivers());
}

#[test]
fn in_a_ring_of_two_a_newcomer_displaces_the_lease_of_its_side_only() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[peer(RIGHT)], leased());
    let requests = asked(&outputs);
    node.grant_all(&outputs);
    let outputs = node.introduce(peer(NEARER_RIGHT));
    assert_eq!(returns(&outputs), [(peer(RIGHT), requests[1].1.nonce, Some(peer(NEARER_RIGHT).id))]);
    assert_eq!(asked_whom(&outputs), [(peer(NEARER_RIGHT), Flank::Right)]);
    assert!(node.delivers());
}

#[test]
fn two_nodes_give_each_other_what_they_need() {
    let founder = Driver::founder(peer(RIGHT), leased());
    let mut nodes = [founder, Driver::out(peer(ME), leased())];
    let outputs = nodes[1].command(0, Command::Join { seeds: vec![peer(RIGHT)] });
    carry(&mut nodes, 1, outputs);
    for _ in 0..100 {
        for at in [0, 1] {
            let outputs = nodes[at].wait(millis(10));
            carry(&mut nodes, at, outputs);
        }
    }
    for node in &nodes {
        assert!(node.node.status() == Status::Ready && node.delivers());
    }
}

#[test]
fn a_node_without_leases_for_three_of_them_raises_an_alarm_once_in_three() {
    let mut node = lapsed();
    let mut overdue = Vec::new();
    let start = node.now;
    for _ in 0..6500 {
        let outputs = node.wait(millis(10));
        if notes(&outputs).contains(&Note::LeasesOverdue) {
            overdue.push(node.now.since(start).as_secs());
        }
        node.answer_probes(outputs);
    }
    assert_eq!(overdue, [30, 60]);
}

#[test]
fn delivering_again_ends_the_count_towards_an_alarm() {
    let mut node = lapsed();
    for _ in 0..2500 {
        let outputs = node.wait(millis(10));
        node.answer_probes(outputs);
    }
    node.live(1000);
    assert!(node.delivers());
    let mut outputs = Vec::new();
    for _ in 0..3500 {
        let step = node.wait(millis(10));
        outputs.extend(node.answer_probes(step));
    }
    assert!(!node.delivers());
    assert_eq!(count(&outputs, Note::LeasesOverdue), 0);
}

#[test]
fn the_end_of_a_grant_wait_is_an_event_that_frees_messages() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let outputs = node.grant_all(&outputs);
    assert!(events(&outputs).contains(&Event::Settled(peer(LEFT).id)));
    assert!(events(&outputs).contains(&Event::Settled(peer(RIGHT).id)));
}

#[test]
fn a_hint_knows_no_leases() {
    let mut node = Driver::ready(peer(ME), &[LEFT, RIGHT].map(peer), calm());
    assert!(node.refuses(peer(LEFT), Body::Pastry(ask(1, Flank::Right, 0, &[])), Refusal::NotJoined));
    let newcomer = recall(1, Flank::Left, peer(NEARER_LEFT));
    for message in [answer(1, true, 0, &[]), newcomer, give_back(1, None)] {
        assert!(node.refuses(peer(LEFT), Body::Pastry(message), Refusal::Unsolicited));
    }
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 5)));
    assert_eq!(not_after(&outputs), [None]);
    assert_eq!(node.due(Timer::Lease), None);
}

#[test]
fn a_lease_follows_its_setting() {
    let settings = Settings { lease: Duration::from_secs(2), drift_percent: 10, ..leased() };
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT].map(peer), settings);
    let start = node.now;
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 1)));
    assert_eq!(not_after(&outputs), [Some(start.after(millis(1800)))]);
}

#[test]
fn a_join_that_starts_over_waits_until_nothing_is_held_from_it() {
    // The next attempt begins with an empty leaf set: a holder that is not in it would be forgotten.
    for granted in [false, true] {
        let (mut node, _) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
        if granted {
            assert!(node.request(LEFT, 7, Flank::Right).granted);
        }
        let held_until = node.now.after(node.config.lease_granted());
        node.feed(Input::Timer(Timer::Join));
        assert_eq!(node.node.status(), Status::Joining);
        let again = node.due(Timer::Join).unwrap();
        assert_eq!(again >= held_until, granted, "tries again at {again:?}, held until {held_until:?}");
    }
}
