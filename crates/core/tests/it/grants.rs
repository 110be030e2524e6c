//! Leases from the side of the grantor: who gets one, what binds the grantor, and when it does not know enough to grant.

use kringle_core::config::Settings;
use kringle_core::edge::{Note, Output, Refusal};
use kringle_core::message::Body;
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Flank, LeaseRecall, LeaseReply, Message};

use crate::harness::*;
use crate::leasing::*;

#[test]
fn the_neighbour_on_the_matching_side_is_granted_a_lease() {
    let mut node = Driver::between();
    let leaves = [RIGHT, LEFT].map(peer).to_vec();
    let outputs = node.hear_pastry(peer(RIGHT), ask(5, Flank::Left, 0, &[]));
    // Not here for a whole lease: it can not speak for its place.
    let holds = u32::MAX;
    assert_eq!(
        answered(&outputs, peer(RIGHT)),
        LeaseReply { nonce: 5, granted: true, holds, leaves, same: false }
    );
    assert!(node.request(LEFT, 6, Flank::Right).granted);
}

#[test]
fn the_neighbour_on_the_other_side_is_refused() {
    let mut node = Driver::between();
    assert!(!node.request(RIGHT, 5, Flank::Right).granted);
    assert!(!node.request(LEFT, 6, Flank::Left).granted);
}

#[test]
fn an_asker_enters_the_leaf_set_before_it_is_answered() {
    let mut node = Driver::between();
    let reply = node.request(NEARER_RIGHT, 5, Flank::Left);
    assert!(node.leaves().contains(&peer(NEARER_RIGHT)));
    assert!(reply.leaves.contains(&peer(NEARER_RIGHT)));
    assert!(reply.granted, "nobody else holds anything on that side");
}

#[test]
fn whoever_is_not_the_neighbour_is_refused_and_told_who_is() {
    let mut node = Driver::between();
    let reply = node.request(FAR_RIGHT, 5, Flank::Left);
    assert!(!reply.granted && reply.leaves.contains(&peer(RIGHT)));
}

#[test]
fn a_request_is_answered_with_a_question() {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    for (to, request) in asked(&outputs) {
        node.hear_pastry(to, answer(request.nonce, false, 0, &[LEFT, RIGHT, ME].map(peer)));
    }
    let outputs = node.hear_pastry(peer(NEARER_RIGHT), ask(5, Flank::Left, 0, &[]));
    assert_eq!(asked_whom(&outputs), [(peer(NEARER_RIGHT), Flank::Right)]);
}

#[test]
fn a_node_grants_before_it_is_ready_itself() {
    let (mut node, _) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    assert!(node.request(LEFT, 5, Flank::Right).granted);
}

#[test]
fn a_node_that_still_probes_its_leaves_grants_nothing_and_names_nobody() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(RIGHT), leased());
    node.hear(peer(RIGHT), join_reply(&routed, true, &[peer(LEFT)]));
    assert_eq!(node.node.status(), Status::Waiting);
    let outputs = node.hear_pastry(peer(RIGHT), ask(5, Flank::Left, 0, &[]));
    let reply = answer(5, false, 0, &[]);
    assert_eq!(sent(&outputs), [(peer(RIGHT), Body::Pastry(reply))]);
    let mut out = Driver::out(peer(ME), leased());
    assert!(out.refuses(peer(RIGHT), Body::Pastry(ask(5, Flank::Left, 0, &[])), Refusal::NotJoined));
}

#[test]
fn an_asker_that_knows_a_nearer_neighbour_of_ours_is_refused_until_we_know_it_too() {
    let mut node = Driver::between();
    for unknown in [NEARER_RIGHT, NEARER_LEFT] {
        let request = ask(5, Flank::Left, 0, &[unknown, FAR_RIGHT].map(peer));
        let outputs = node.hear_pastry(peer(RIGHT), request);
        assert!(!answered(&outputs, peer(RIGHT)).granted);
        assert!(probed(&outputs).contains(&peer(unknown)));
    }
    let request = ask(5, Flank::Left, 0, &[LEFT, ME, FAR_RIGHT].map(peer));
    let outputs = node.hear_pastry(peer(RIGHT), request);
    assert!(answered(&outputs, peer(RIGHT)).granted);
}

/// Lets a peer miss every probe until it is given up. Everybody else lives.
fn silence(node: &mut Driver, dead: u32) -> Vec<Output> {
    node.hear_pastry(peer(STRANGER), Message::Obituary(peer(dead)));
    node.live_without(3500, &[peer(dead)])
}

#[test]
fn a_dead_peer_stays_as_long_as_the_grantor_is_bound_then_others_are_told() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    let start = node.now;
    assert!(node.request(RIGHT, 5, Flank::Left).granted);
    let outputs = silence(&mut node, RIGHT);
    assert_eq!(count(&outputs, Note::KeptDead(peer(RIGHT))), 1);
    // They need not wait for our lease.
    let told = || [FAR_RIGHT, LEFT].map(|to| (peer(to), peer(RIGHT))).to_vec();
    assert_eq!((count(&outputs, Note::Died(peer(RIGHT))), obituaries(&outputs)), (0, told()));
    assert!(node.leaves().contains(&peer(RIGHT)) && node.suspects(peer(RIGHT)));
    let rest = start.after(millis(10_090)).since(node.now).as_millis() as u64;
    let outputs = node.live_without(rest, &[peer(RIGHT)]);
    assert_eq!((count(&outputs, Note::Died(peer(RIGHT))), node.knows(peer(RIGHT))), (0, true));
    let outputs = node.live_without(10, &[peer(RIGHT)]);
    assert_eq!(node.now, start.after(millis(10_100)));
    assert_eq!((count(&outputs, Note::Died(peer(RIGHT))), node.knows(peer(RIGHT))), (1, false));
    assert_eq!(obituaries(&outputs), told());
    assert!(asked_whom(&outputs).contains(&(peer(FAR_RIGHT), Flank::Right)));
}

#[test]
fn a_dead_peer_without_a_grant_is_removed_at_once() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    // Whoever is new beside us may hold a lease of the one it displaced, or we did.
    node.live(10_200);
    let outputs = silence(&mut node, RIGHT);
    assert_eq!(count(&outputs, Note::KeptDead(peer(RIGHT))), 0);
    assert!(count(&outputs, Note::Died(peer(RIGHT))) == 1 && !node.knows(peer(RIGHT)));
}

#[test]
fn a_kept_peer_that_answers_again_is_not_removed_when_its_grant_ends() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    node.request(RIGHT, 5, Flank::Left);
    let outputs = silence(&mut node, RIGHT);
    assert_eq!(count(&outputs, Note::KeptDead(peer(RIGHT))), 1);
    let outputs = node.live(10_000);
    assert_eq!(count(&outputs, Note::Died(peer(RIGHT))), 0);
    assert!(node.knows(peer(RIGHT)) && !node.suspects(peer(RIGHT)));
}

#[test]
fn a_grant_that_has_run_out_keeps_nobody() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    node.live(2000);
    node.request(RIGHT, 5, Flank::Left);
    // The next look at the grants comes more than a second after this one has run out.
    node.live(10_200);
    node.hear_pastry(peer(STRANGER), Message::Obituary(peer(RIGHT)));
    let outputs = node.live_without(800, &[peer(RIGHT)]);
    assert_eq!((count(&outputs, Note::KeptDead(peer(RIGHT))), node.knows(peer(RIGHT))), (0, false));
}

#[test]
fn whoever_is_found_dead_late_is_not_kept_longer_than_its_grant() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    node.live(2000);
    node.request(RIGHT, 5, Flank::Left);
    node.live(8600);
    node.hear_pastry(peer(STRANGER), Message::Obituary(peer(RIGHT)));
    let outputs = node.live_without(800, &[peer(RIGHT)]);
    assert_eq!(count(&outputs, Note::KeptDead(peer(RIGHT))), 1);
    node.live_without(690, &[peer(RIGHT)]);
    assert!(node.knows(peer(RIGHT)));
    node.live_without(10, &[peer(RIGHT)]);
    assert!(!node.knows(peer(RIGHT)));
}

#[test]
fn a_kept_peer_is_avoided_even_where_one_probe_is_enough() {
    let settings = Settings { probe_attempts: 1, ..leased() };
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), settings);
    node.request(RIGHT, 5, Flank::Left);
    node.hear_pastry(peer(STRANGER), Message::Obituary(peer(RIGHT)));
    let outputs = node.wait(millis(500));
    assert_eq!(count(&outputs, Note::KeptDead(peer(RIGHT))), 1);
    assert!(node.suspects(peer(RIGHT)));
}

#[test]
fn a_new_life_of_a_kept_peer_is_not_removed_with_the_old_one() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    node.request(RIGHT, 5, Flank::Left);
    silence(&mut node, RIGHT);
    node.hear(life(RIGHT, 2), Body::Ping(1));
    node.live(10_000);
    assert!(node.knows(life(RIGHT, 2)));
}

#[test]
fn a_goodbye_releases_at_once() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    node.request(RIGHT, 5, Flank::Left);
    node.hear_pastry(peer(RIGHT), Message::Goodbye(Box::default()));
    assert!(!node.knows(peer(RIGHT)));
    assert!(node.request(FAR_RIGHT, 6, Flank::Left).granted);
}

#[test]
fn a_new_life_of_the_holder_releases_at_once() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    node.request(RIGHT, 5, Flank::Left);
    assert!(!node.request(NEARER_RIGHT, 6, Flank::Left).granted);
    node.hear(life(RIGHT, 2), Body::Ping(1));
    assert!(node.request(NEARER_RIGHT, 7, Flank::Left).granted);
}

#[test]
fn a_nearer_asker_waits_until_the_holder_knows_it() {
    let mut node = Driver::between();
    node.request(RIGHT, 5, Flank::Left);
    let newcomer = peer(NEARER_RIGHT);
    for _ in 0..2 {
        let outputs = node.hear_pastry(newcomer, ask(6, Flank::Left, 0, &[]));
        assert!(!answered(&outputs, newcomer).granted);
        let recall = LeaseRecall { nonce: 5, side: Flank::Left, nearer: newcomer };
        assert_eq!(recalls(&outputs), [(peer(RIGHT), recall)]);
        assert_eq!(count(&outputs, Note::LeaseRecalled), 1);
    }
    assert_eq!(node.hear_pastry(peer(RIGHT), give_back(5, Some(newcomer.id))), []);
    assert!(node.request(NEARER_RIGHT, 7, Flank::Left).granted);
}

#[test]
fn a_holder_that_knows_somebody_between_itself_and_the_asker_knows_enough() {
    let mut node = Driver::between();
    node.request(RIGHT, 5, Flank::Left);
    node.hear_pastry(peer(RIGHT), give_back(5, Some(peer(0x8c00_0000).id)));
    assert!(node.request(NEARER_RIGHT, 7, Flank::Left).granted);
    // But not if that one is nearer to the grantor than the asker.
    let mut node = Driver::between();
    node.request(RIGHT, 5, Flank::Left);
    node.hear_pastry(peer(RIGHT), give_back(5, Some(peer(0x8400_0000).id)));
    assert!(!node.request(NEARER_RIGHT, 7, Flank::Left).granted);
}

#[test]
fn a_lease_given_back_altogether_binds_nobody() {
    let mut node = Driver::between();
    node.live(10_200);
    node.request(RIGHT, 5, Flank::Left);
    node.hear_pastry(peer(RIGHT), give_back(5, None));
    assert!(node.request(NEARER_RIGHT, 7, Flank::Left).granted);
    let outputs = silence(&mut node, RIGHT);
    assert_eq!(count(&outputs, Note::KeptDead(peer(RIGHT))), 0);
}

#[test]
fn a_return_of_an_earlier_lease_or_by_somebody_else_is_refused() {
    let mut node = Driver::between();
    node.request(RIGHT, 5, Flank::Left);
    node.request(RIGHT, 6, Flank::Left);
    for (from, nonce) in [(RIGHT, 5), (LEFT, 6), (STRANGER, 6)] {
        for nearer in [None, Some(peer(NEARER_RIGHT).id)] {
            let given = Body::Pastry(give_back(nonce, nearer));
            assert!(node.refuses(peer(from), given, Refusal::Unsolicited));
        }
    }
    assert!(!node.request(NEARER_RIGHT, 7, Flank::Left).granted);
}

#[test]
fn a_nearer_asker_is_granted_when_the_other_lease_has_run_out() {
    let mut node = Driver::between();
    node.request(RIGHT, 5, Flank::Left);
    node.live(10_090);
    assert!(!node.request(NEARER_RIGHT, 7, Flank::Left).granted);
    node.live(10);
    assert!(node.request(NEARER_RIGHT, 8, Flank::Left).granted);
}

#[test]
fn a_lease_on_the_other_side_is_no_hindrance() {
    let mut node = Driver::entitled(peer(ME), &[peer(RIGHT)], leased());
    assert!(node.request(RIGHT, 5, Flank::Left).granted);
    let outputs = node.hear_pastry(peer(NEARER_LEFT), ask(6, Flank::Right, 0, &[]));
    assert!(answered(&outputs, peer(NEARER_LEFT)).granted && recalls(&outputs).is_empty());
}

#[test]
fn in_a_ring_of_two_the_recall_names_the_side_of_the_holder() {
    for (newcomer, side, nonce) in [(NEARER_RIGHT, Flank::Left, 5), (NEARER_LEFT, Flank::Right, 6)] {
        let mut node = Driver::entitled(peer(ME), &[peer(RIGHT)], leased());
        assert!(node.request(RIGHT, 5, Flank::Left).granted && node.request(RIGHT, 6, Flank::Right).granted);
        let outputs = node.hear_pastry(peer(newcomer), ask(7, side, 0, &[]));
        assert!(!answered(&outputs, peer(newcomer)).granted);
        let recall = LeaseRecall { nonce, side, nearer: peer(newcomer) };
        assert_eq!(recalls(&outputs), [(peer(RIGHT), recall)]);
        node.hear_pastry(peer(RIGHT), give_back(nonce, Some(peer(newcomer).id)));
        assert!(node.request(newcomer, 8, side).granted);
    }
}

#[test]
fn suspects_are_not_named_unless_they_hold_something() {
    let mut node = Driver::entitled(peer(ME), &[LEFT, RIGHT, FAR_RIGHT].map(peer), leased());
    node.request(RIGHT, 5, Flank::Left);
    for suspect in [RIGHT, FAR_RIGHT] {
        node.hear_pastry(peer(STRANGER), Message::Obituary(peer(suspect)));
    }
    node.wait(millis(150));
    assert!(node.suspects(peer(RIGHT)) && node.suspects(peer(FAR_RIGHT)));
    let leaves = node.request(LEFT, 6, Flank::Right).leaves;
    assert!(leaves.contains(&peer(RIGHT)) && !leaves.contains(&peer(FAR_RIGHT)));
}

// A founder.

#[test]
fn a_founder_delivers_until_its_first_grant_and_again_with_leases() {
    let mut node = Driver::founder(peer(ME), leased());
    assert!(node.delivers());
    let outputs = node.introduce(peer(RIGHT));
    assert_eq!(asked_whom(&outputs), [(peer(RIGHT), Flank::Left), (peer(RIGHT), Flank::Right)]);
    assert!(node.delivers());
    assert!(node.request(RIGHT, 5, Flank::Left).granted);
    assert!(!node.delivers());
    node.grant_all(&outputs);
    assert!(node.delivers());
}

#[test]
fn a_founder_whose_only_guest_left_before_any_grant_is_a_ring_of_one_again() {
    let mut node = Driver::founder(peer(ME), leased());
    node.introduce(peer(RIGHT));
    node.hear_pastry(peer(RIGHT), Message::Goodbye(Box::default()));
    assert_eq!(node.node.status(), Status::Ready);
    node.live(20_000);
    assert!(node.delivers());
}

#[test]
fn a_founder_that_gave_or_got_a_lease_does_not_go_on_alone() {
    for gives in [true, false] {
        let mut node = Driver::founder(peer(ME), leased());
        let outputs = node.introduce(peer(RIGHT));
        if gives {
            assert!(node.request(RIGHT, 5, Flank::Left).granted);
        } else {
            node.grant_all(&outputs);
        }
        node.wait(millis(15_000));
        assert_eq!((node.node.status(), node.delivers()), (Status::Isolated, false));
    }
}
