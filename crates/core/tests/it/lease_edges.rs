//! Leases at their edges: being cut off, growing together again, and peers that lie.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::Contact;
use kringle_core::edge::{Failure, Note, Refusal, Timer};
use kringle_core::message::{Body, Payload};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Flank, JoinRefusal, Message};

use crate::harness::*;
use crate::leasing::*;

/// A node that had one peer, which vanished without a word.
fn isolated() -> Driver {
    let mut node = Driver::entitled(peer(ME), &[peer(RIGHT)], leased());
    node.hear_pastry(peer(STRANGER), Message::Obituary(peer(RIGHT)));
    // Kept for as long as it may hold what we displaced.
    let outputs = node.wait(millis(13_000));
    assert_eq!(count(&outputs, Note::Isolated), 1);
    assert_eq!(node.node.status(), Status::Isolated);
    node
}

#[test]
fn a_node_that_lost_everybody_delivers_nothing_and_looks_for_whoever_was_there_last() {
    let mut node = isolated();
    assert!(!node.delivers());
    assert_eq!(replies(&node.route(3, key(ME), b"x")), [(3, Err(Failure::NotJoined))]);
    let outputs = node.hear(peer(LEFT), Body::Routed(app_from(peer(LEFT), key(ME), 5)));
    assert_eq!(sent(&outputs), [(peer(LEFT), no_ack(5))]);
    let outputs = node.wait(node.left(Timer::Join) + millis(5000));
    assert!(routed(&outputs).iter().all(|(to, routed)| *to == peer(RIGHT) && routed.origin == peer(ME)));
    assert!(!routed(&outputs).is_empty());
}

#[test]
fn a_node_that_lost_everybody_helps_others_on_their_second_asking() {
    let mut node = isolated();
    let joiner = peer(LEFT);
    let outputs = node.hear(joiner, Body::Routed(join_from(joiner, 8)));
    let refused = Message::JoinRefused { nonce: 8, reason: JoinRefusal::Busy };
    assert_eq!(sent_to(&outputs, joiner), [ack(8), Body::Pastry(refused)]);
    // First it tries all its seeds itself.
    let again = node.hear(joiner, Body::Routed(join_from(joiner, 9)));
    assert!(sent_to(&again, joiner).iter().all(|body| !matches!(body, Body::Pastry(Message::JoinReply(_)))));
    node.wait(millis(20_000));
    let outputs = node.hear(joiner, Body::Routed(join_from(joiner, 10)));
    let [_, Body::Pastry(Message::JoinReply(reply))] = &sent_to(&outputs, joiner)[..] else {
        panic!("no help: {outputs:?}")
    };
    // Whoever it lost may be there for others.
    assert_eq!((reply.whole, &reply.leaves), (true, &vec![peer(RIGHT)]));
    assert_eq!(node.node.status(), Status::Isolated);
}

#[test]
fn isolation_ends_when_somebody_takes_us_for_its_neighbour() {
    let mut node = isolated();
    // Whoever was beyond those we lost holds nothing of theirs any more.
    node.wait(millis(11_000));
    let outputs = node.introduce(peer(LEFT));
    assert_eq!((node.node.status(), node.leaves()), (Status::Ok, vec![peer(LEFT)]));
    assert_eq!(asked_whom(&outputs), [(peer(LEFT), Flank::Left), (peer(LEFT), Flank::Right)]);
    assert!(node.request(LEFT, 5, Flank::Right).granted, "two that were cut off are a ring");
    assert!(!node.delivers());
    node.grant_all(&outputs);
    assert!(node.delivers() && node.node.status() == Status::Ready);
}

#[test]
fn a_node_that_lost_everybody_grants_nothing_and_answers_no_ping() {
    let mut node = isolated();
    assert!(node.refuses(peer(RIGHT), Body::Pastry(ask(5, Flank::Left, 0, &[])), Refusal::NotJoined));
    assert!(node.refuses(peer(RIGHT), Body::Ping(5), Refusal::NotJoined));
}

#[test]
fn a_join_whose_leases_do_not_come_starts_over_after_four_of_them() {
    let (mut node, _) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let start = node.now;
    while node.node.status() == Status::Ok {
        let outputs = node.wait(millis(10));
        node.answer_probes(outputs);
    }
    assert_eq!(node.now.since(start), millis(40_400));
    assert_eq!(node.node.status(), Status::Joining);
}

#[test]
fn the_lease_of_a_side_that_ran_empty_is_lost() {
    let (mut node, join) = Driver::joining(peer(ME), peer(RIGHT), leased());
    let outputs = node.hear(peer(RIGHT), join_reply(&join, false, &[peer(LEFT)]));
    let outputs = node.answer_probes(outputs);
    node.grant_all(&outputs);
    assert!(node.delivers());
    let outputs = node.hear_pastry(peer(LEFT), Message::Goodbye(Box::default()));
    assert_eq!(count(&outputs, Note::LeaseLost), 1);
    assert_eq!((node.leaves(), node.delivers()), (vec![peer(RIGHT)], false));
}

// Vanished peers.

/// Settings under which vanished peers are asked every five seconds, give or take half.
pub(crate) fn healing() -> Settings {
    Settings { heal: Duration::from_secs(5), budget_burst: u32::MAX, ..leased() }
}

/// A node whose farther leaf has vanished.
fn bereft() -> Driver {
    let mut node = Driver::entitled(peer(ME), &[LEFT, FAR_RIGHT, RIGHT].map(peer), healing());
    node.hear_pastry(peer(STRANGER), Message::Obituary(peer(FAR_RIGHT)));
    node.live_without(1000, &[peer(FAR_RIGHT)]);
    assert!(!node.knows(peer(FAR_RIGHT)));
    node
}

#[test]
fn a_vanished_peer_is_asked_for_its_ring_at_every_turn() {
    let mut node = bereft();
    let outputs = node.live_without(60_000, &[peer(FAR_RIGHT)]);
    let asked = count(&outputs, Note::HealAsked);
    assert!((8..=24).contains(&asked), "{asked}");
    let joins = routed(&outputs);
    assert_eq!(joins.len(), asked);
    for (to, join) in joins {
        // The seed of the node is among those known, so only the vanished one is worth asking.
        assert_eq!((to, join.key, join.origin, join.hops), (peer(FAR_RIGHT), peer(ME).id, peer(ME), 1));
        assert!(matches!(join.payload, Payload::Join(_)));
    }
}

/// Waits until the vanished peer is asked.
fn heal_join(node: &mut Driver) -> kringle_core::message::Routed {
    loop {
        let outputs = node.live_without(10, &[peer(FAR_RIGHT)]);
        if let Some((to, join)) = routed(&outputs).pop() {
            assert_eq!(to, peer(FAR_RIGHT));
            return join;
        }
    }
}

#[test]
fn a_vanished_peer_that_takes_the_question_is_not_asked_again() {
    let mut node = bereft();
    let join = heal_join(&mut node);
    node.hear(peer(FAR_RIGHT), no_ack(join.hop));
    let join = heal_join(&mut node);
    assert!(node.refuses(peer(LEFT), ack(join.hop), Refusal::Unsolicited));
    node.hear(peer(FAR_RIGHT), ack(join.hop));
    let outputs = node.live_without(60_000, &[peer(FAR_RIGHT)]);
    assert_eq!(count(&outputs, Note::HealAsked), 0);
}

#[test]
fn an_answer_from_another_ring_has_its_leaves_probed() {
    let mut node = bereft();
    let join = heal_join(&mut node);
    let other = peer(0x8200_0000);
    let outputs = node.hear(other, join_reply(&join, false, &[NEARER_LEFT, NEARER_RIGHT].map(peer)));
    assert_eq!(count(&outputs, Note::HealAnswered), 1);
    assert_eq!(probed(&outputs), [peer(NEARER_LEFT), other, peer(NEARER_RIGHT)]);
    assert_eq!(announces(&outputs).len(), 1, "it waits to hear that we are done");
    assert!(node.refuses(other, join_reply(&join, false, &[]), Refusal::Unsolicited), "once");
}

#[test]
fn an_answer_from_one_of_our_leaves_is_taken_for_our_own_ring() {
    let mut node = bereft();
    let mut join = heal_join(&mut node);
    let Payload::Join(inner) = &mut join.payload else { panic!("not a join") };
    inner.contacts = vec![peer(0x1000_0000)];
    let outputs = node.hear(peer(LEFT), join_reply(&join, false, &[peer(RIGHT), peer(NEARER_LEFT)]));
    // Nobody far away is measured for it; a leaf we have missed is probed all the same.
    assert_eq!((probed(&outputs), announces(&outputs).len()), (vec![peer(NEARER_LEFT)], 1));
    let pinged = sent(&outputs).iter().any(|(to, _)| *to == peer(0x1000_0000));
    assert!(!pinged, "{outputs:?}");
}

#[test]
fn an_answer_to_another_question_is_refused() {
    let mut node = bereft();
    let mut join = heal_join(&mut node);
    let Payload::Join(inner) = &mut join.payload else { panic!("not a join") };
    inner.nonce ^= 1;
    let reply = join_reply(&join, false, &[peer(NEARER_LEFT)]);
    assert!(node.refuses(peer(FAR_RIGHT), reply, Refusal::Unsolicited));
}

#[test]
fn at_most_256_vanished_peers_are_remembered() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT].map(peer), healing());
    let guests: Vec<Contact> = (0..300).map(|n| peer(0x8100_0000 + n)).collect();
    for guest in &guests {
        node.introduce(*guest);
        node.hear_pastry(peer(STRANGER), Message::Obituary(*guest));
        node.live_without(11_000, &guests);
        assert!(!node.knows(*guest));
    }
    let mut named = Vec::new();
    for _ in 0..300 {
        let outputs = node.live_without(1000, &guests);
        named.extend(routed(&outputs).into_iter().map(|(to, _)| to));
    }
    assert!(named.len() > 30 && named.iter().all(|to| guests[300 - 256..].contains(to)), "{named:?}");
}

// Lies.

#[test]
fn strangers_cannot_answer_or_return() {
    let mut node = Driver::between();
    for from in [STRANGER, LEFT, RIGHT] {
        for message in
            [answer(0, true, 0, &[]), answer(1, false, 9, &[peer(NEARER_LEFT)]), give_back(0, None)]
        {
            assert!(node.refuses(peer(from), Body::Pastry(message), Refusal::Unsolicited));
        }
    }
    let before = node.node.clone();
    for side in [Flank::Left, Flank::Right] {
        let outputs = node.hear_pastry(peer(STRANGER), recall(3, side, peer(NEARER_LEFT)));
        assert_eq!(outputs.len(), 1, "all it gets is its own number back: {outputs:?}");
    }
    assert!(node.node == before);
}

#[test]
fn an_answer_by_another_than_the_one_asked_is_refused() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(LEFT)).nonce;
    for from in [RIGHT, STRANGER] {
        let reply = Body::Pastry(answer(nonce, true, 0, &[]));
        assert!(node.refuses(peer(from), reply, Refusal::Unsolicited));
    }
}

/// A list no honest node sends: ourselves, the same peer again and again, and many who would be beside us.
pub(crate) fn long_list() -> Vec<Contact> {
    let contact = |n| match n % 3 {
        0 => peer(ME),
        1 => peer(RIGHT),
        _ => peer(ME + 1 + n),
    };
    (0..1000).map(contact).collect()
}

#[test]
fn long_lists_with_ourselves_and_twins_are_no_reason_to_grant_or_to_probe_anybody_twice() {
    let mut node = Driver::between();
    let asker = node.hear_pastry(peer(RIGHT), ask(5, Flank::Left, u32::MAX, &long_list()));
    assert!(!answered(&asker, peer(RIGHT)).granted);
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    let nonce = asked_of(&outputs, peer(LEFT)).nonce;
    let grantor = node.hear_pastry(peer(LEFT), answer(nonce, true, u32::MAX, &long_list()));
    assert_eq!(count(&grantor, Note::LeaseRefused), 1);
    for outputs in [asker, grantor] {
        let probed = probed(&outputs);
        assert!(probed.len() <= node.config.probes.into() && !probed.contains(&peer(ME)));
        assert!(probed.windows(2).all(|pair| pair[0] != pair[1]));
    }
}

#[test]
fn ten_thousand_askers_leave_no_more_than_a_few_grants() {
    let mut node = Driver::between();
    let before = node.node.memory().0.open;
    for n in (1..=10_000).rev() {
        node.request(ME + n, n, Flank::Left);
    }
    assert!(node.node.memory().0.open < before + 64 * 1024, "{}", node.node.memory().0.open);
    assert!(node.delivers());
}
