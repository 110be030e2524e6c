//! Renewals in a calm ring: what both sides have agreed to is not told again, and is told at once when it has changed.

use kringle_core::edge::Output;
use kringle_core::overlay::pastry::{Flank, LeaseReply, LeaseRequest, Message};

use crate::harness::*;
use crate::leasing::*;

/// A node that holds leases of both neighbours, which have told it who is beside them.
fn holding() -> Driver {
    let (mut node, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    for (to, request) in asked(&outputs) {
        node.hear_pastry(to, answer(request.nonce, true, 0, &[peer(ME)]));
    }
    assert!(node.delivers());
    node
}

/// The requests of the next renewal.
fn renewals(node: &mut Driver) -> Vec<LeaseRequest> {
    let outputs = node.wait(millis(3_400));
    asked(&outputs).into_iter().map(|(_, request)| request).collect()
}

fn same_answer(request: &LeaseRequest) -> Message {
    let LeaseRequest { nonce, .. } = *request;
    Message::LeaseReply(Box::new(LeaseReply { nonce, granted: true, holds: 0, leaves: Vec::new(), same: true }))
}

fn same_ask(node: &mut Driver, from: u32, nonce: u32, side: Flank) -> LeaseReply {
    let request = LeaseRequest { nonce, side, holds: 0, leaves: Vec::new(), same: true };
    let outputs = node.hear_pastry(peer(from), Message::LeaseRequest(Box::new(request)));
    answered(&outputs, peer(from))
}

fn left_of(outputs: &[Output]) -> LeaseRequest {
    asked_of(outputs, peer(LEFT))
}

#[test]
fn a_renewal_leaves_out_what_has_not_changed() {
    let mut node = holding();
    let asked = renewals(&mut node);
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|request| request.same && request.leaves.is_empty()));
    for (request, from) in asked.iter().zip([LEFT, RIGHT]) {
        node.hear_pastry(peer(from), same_answer(request));
    }
    // And the next one, for as long as nothing changes.
    node.wait(millis(3_000));
    assert!(node.delivers());
    assert!(renewals(&mut node).iter().all(|request| request.same));
}

#[test]
fn a_changed_leaf_set_is_told_in_full() {
    let mut node = holding();
    node.introduce(peer(FAR_LEFT));
    let asked = renewals(&mut node);
    assert!(asked.iter().all(|request| !request.same && request.leaves.contains(&peer(FAR_LEFT))));
}

#[test]
fn an_answer_that_leaves_out_what_we_can_not_know_is_no_grant() {
    // The leaf set changed while the question was under way: the answer was to an older one.
    let mut node = holding();
    let outputs = node.wait(millis(3_400));
    let request = left_of(&outputs);
    node.introduce(peer(FAR_LEFT));
    let before = node.pastry().lessors(node.now);
    node.hear_pastry(peer(LEFT), same_answer(&request));
    assert_eq!(node.pastry().lessors(node.now), before, "the old lease stands, no new one came");
    let again = asked(&node.wait(millis(40)));
    assert!(again.iter().any(|(to, request)| *to == peer(LEFT) && !request.same));
    // A first answer can not be the same as anything.
    let (mut fresh, outputs) = Driver::asking(peer(ME), &[LEFT, RIGHT].map(peer), leased());
    for (to, request) in asked(&outputs) {
        fresh.hear_pastry(to, same_answer(&request));
    }
    assert!(!fresh.delivers());
}

#[test]
fn a_grantor_agrees_only_to_leaves_it_has_seen_with_its_own_unchanged() {
    let mut node = holding();
    let refused = same_ask(&mut node, LEFT, 5, Flank::Right);
    assert!(!refused.granted && !refused.same, "it has never seen them");
    let outputs = node.hear_pastry(peer(LEFT), ask(6, Flank::Right, 0, &[peer(ME)]));
    let full = answered(&outputs, peer(LEFT));
    assert!(full.granted && !full.same);
    let renewed = same_ask(&mut node, LEFT, 7, Flank::Right);
    assert!(renewed.granted && renewed.same && renewed.leaves.is_empty());
    node.introduce(peer(FAR_RIGHT));
    let refused = same_ask(&mut node, LEFT, 8, Flank::Right);
    assert!(!refused.granted && refused.leaves.contains(&peer(FAR_RIGHT)), "told in full");
}
