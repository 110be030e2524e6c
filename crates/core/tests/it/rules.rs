//! Rules that the other modules only meet in passing: each test here fails when its one rule is taken away.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::Contact;
use kringle_core::edge::{Command, Input, Note, Output, Refusal, Timer};
use kringle_core::message::{Body, Payload, Routed, Rule};
use kringle_core::overlay::pastry::{Join, JoinRefusal, Message};
use kringle_core::overlay::{NextHop, Status};

use crate::harness::*;

const ME: u32 = 0x1800_0000;
/// Leaves that share a digit with us, so that row 0 holds nobody but whom a test puts there.
const NEAR: [u32; 2] = [0x1801_0000, 0x17ff_0000];
const FAR: u32 = 0x8000_0000;

/// A node of a larger ring, with these nodes in its table besides its two leaves.
fn with_table(table: &[u32], settings: Settings) -> Driver {
    let mut node = Driver::ready(peer(ME), &NEAR.map(peer), settings);
    for digits in table {
        node.announce(peer(*digits), 1);
        assert_eq!(node.cell(peer(*digits))[0], peer(*digits));
    }
    node
}

fn goodbye(node: &mut Driver, from: Contact) -> Vec<Output> {
    node.hear_pastry(from, Message::Goodbye(Box::default()))
}

/// Has a peer miss one probe.
fn doubt(node: &mut Driver, peer: Contact) {
    node.hear_pastry(self::peer(STRANGER), Message::Obituary(peer));
    node.fire(Timer::Probe);
    assert!(node.suspects(peer));
}

#[test]
fn a_nearer_leaf_that_shares_fewer_digits_is_no_next_hop_in_the_rare_case() {
    // The left side reaches around most of the ring, so that its end is beyond the key.
    let me = peer(0x2000_0000);
    let leaves = [0x2001_0000, 0x3000_0000].map(peer);
    let mut node = Driver::ready(me, &leaves, narrow());
    let fits = peer(0x2100_0000);
    node.introduce(fits);
    assert_eq!(node.leaves(), leaves);
    let key = key(0x2f00_0000);
    assert_eq!(node.cell(Contact { id: key, ..me }), []);
    assert!(key.closeness(leaves[1].id) < key.closeness(fits.id));
    assert_eq!(node.node.next_hop(key), NextHop::Peer(fits, Rule::RareCase));
}

#[test]
fn a_join_reply_with_another_nonce_is_refused_and_changes_nothing() {
    let root = peer(0x2000_0000);
    let (mut node, routed) = Driver::joining(peer(ME), root, calm());
    let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
    let forged = Join { nonce: join.nonce.wrapping_add(100), ..Join::clone(join) };
    let forged = Routed { payload: Payload::Join(Box::new(forged)), ..routed.clone() };
    assert!(node.refuses(root, join_reply(&forged, true, &[peer(0x3000_0000)]), Refusal::Unsolicited));
    node.hear(root, join_reply(&routed, true, &[]));
    assert_eq!(node.node.status(), Status::Waiting, "the right one is still waited for");
}

#[test]
fn a_refusal_with_another_nonce_does_not_end_a_search() {
    let seed = peer(0x2000_0000);
    let mut node = Driver::out(peer(ME), calm());
    let (_, ask) = request_in(&node.command(0, Command::Join { seeds: vec![seed] }));
    for reason in [JoinRefusal::Busy, JoinRefusal::IdTaken] {
        let refusal = Message::JoinRefused { nonce: ask.nonce.wrapping_add(100), reason };
        assert!(node.refuses(seed, Body::Pastry(refusal), Refusal::Unsolicited));
    }
}

#[test]
fn a_refusal_with_another_nonce_does_not_end_a_join() {
    let seed = peer(0x2000_0000);
    let (mut node, routed) = Driver::joining(peer(ME), seed, calm());
    let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
    for reason in [JoinRefusal::Busy, JoinRefusal::IdTaken] {
        let refusal = Message::JoinRefused { nonce: join.nonce.wrapping_add(100), reason };
        assert!(node.refuses(seed, Body::Pastry(refusal), Refusal::Unsolicited));
    }
}

#[test]
fn a_heartbeat_asks_again_for_a_side_that_is_still_short() {
    let settings = Settings { leaf_set: 6, replicas: 1, ..calm() };
    let (right, left) = ([0x1801_0000, 0x1802_0000, 0x1803_0000], [0x17ff_0000, 0x17fe_0000, 0x17fd_0000]);
    let all: Vec<Contact> = [&right[..], &left, &[FAR]].concat().into_iter().map(peer).collect();
    for (lost, end) in [(right[2], right[1]), (left[2], left[1])] {
        let mut node = Driver::ready(peer(ME), &all, settings.clone());
        let outputs = goodbye(&mut node, peer(lost));
        leaf_probe_to(&outputs, peer(end));
        // The answer names nobody.
        node.answer_probes(outputs);
        assert_eq!(node.leaves().len(), 5);
        let outputs = node.feed(Input::Timer(Timer::Heartbeat));
        assert_eq!(count(&outputs, Note::LeafAsked), 1);
        leaf_probe_to(&outputs, peer(end));
    }
}

#[test]
fn a_joiner_with_dead_leaves_asks_both_short_ends_as_soon_as_it_is_ready() {
    let settings = Settings { leaf_set: 4, replicas: 1, ..calm() };
    let (root, left) = (peer(0x1801_0000), peer(0x17ff_0000));
    let dead = [0x17fe_0000, 0x1802_0000].map(peer);
    let (mut node, routed) = Driver::joining(peer(ME), root, settings);
    let outputs = node.hear(root, join_reply(&routed, false, &[dead[0], left, dead[1]]));
    node.answer_probes(
        outputs.into_iter().filter(|output| !dead.iter().any(|d| is_to(output, *d))).collect(),
    );
    let mut outputs = Vec::new();
    while node.node.status() == Status::Waiting {
        outputs = node.fire(Timer::Probe);
    }
    assert_eq!(node.node.status(), Status::Ready);
    assert_eq!(node.leaves(), [root, left]);
    assert_eq!(count(&outputs, Note::LeafAsked), 2);
    assert_eq!(probed(&outputs), [left, root]);
}

#[test]
fn a_suspect_that_acknowledges_a_message_is_cleared() {
    let suspect = peer(0x2000_0000);
    let mut node = Driver::ready(peer(ME), &[suspect, peer(0x9000_0000)], calm());
    node.hear_pastry(peer(STRANGER), Message::Obituary(suspect));
    node.wait(millis(100));
    let routed = routed_to(&node.lookup(1, suspect.id), suspect);
    node.fire(Timer::Probe);
    assert!(node.suspects(suspect));
    let outputs = node.hear(suspect, ack(routed.hop));
    assert_eq!(notes(&outputs), [Note::Cleared(suspect)]);
    assert!(!node.suspects(suspect));
}

/// A node that has just measured a candidate and found that the holder of its cell is nearer.
fn with_candidate_too_far() -> (Driver, Contact) {
    let settings = Settings { spares: 0, neighbourhood: 0, ..narrow() };
    let (mut node, candidate) = (with_table(&[FAR], settings), peer(0x8100_0000));
    let outputs = node.push(&[candidate]);
    node.answer_after(candidate, &outputs, millis(10));
    assert!(!node.knows(candidate));
    (node, candidate)
}

#[test]
fn a_candidate_found_too_far_is_not_measured_again_before_its_time() {
    let (mut node, candidate) = with_candidate_too_far();
    assert_eq!(node.push(&[candidate]), []);
    // Ages are kept in whole seconds.
    node.wait(node.config.proximity_age - millis(2000));
    assert_eq!(node.push(&[candidate]), []);
    node.wait(millis(4000));
    assert_eq!(probed(&node.push(&[candidate])), [candidate]);
}

#[test]
fn a_candidate_found_too_far_is_measured_again_if_its_cell_has_become_empty() {
    let (mut node, candidate) = with_candidate_too_far();
    goodbye(&mut node, peer(FAR));
    let outputs = node.push(&[candidate]);
    assert_eq!(probed(&outputs), [candidate]);
    node.answer_probes(outputs);
    assert_eq!(node.cell(candidate), [candidate]);
}

#[test]
fn a_suspect_is_not_asked_to_probe_for_others() {
    let [silent, suspect, good] = [0x2000_0000, 0x3000_0000, 0x9000_0000].map(peer);
    let mut node = Driver::ready(peer(ME), &[silent, suspect, good], calm());
    for doubted in [silent, suspect] {
        node.hear_pastry(peer(STRANGER), Message::Obituary(doubted));
    }
    node.fire(Timer::Probe);
    assert!(node.suspects(silent) && node.suspects(suspect));
    let outputs = node.fire(Timer::Probe);
    let relays = sent(&outputs).into_iter().filter_map(|(to, body)| match body {
        Body::PingVia { target, .. } => Some((to, target)),
        _ => None,
    });
    assert_eq!(relays.collect::<Vec<_>>(), [(good, silent), (good, suspect)]);
}

#[test]
fn a_search_for_a_side_does_not_begin_at_a_suspect() {
    let (nearest, next) = (peer(0x4000_0000), peer(FAR));
    let settings = Settings { neighbourhood: 0, ..narrow() };
    let mut node = with_table(&[0x4000_0000, FAR], settings);
    doubt(&mut node, nearest);
    let outputs = goodbye(&mut node, peer(NEAR[0]));
    assert_eq!(count(&outputs, Note::LeafSought), 1);
    assert_eq!(probed(&outputs), [next]);
}

#[test]
fn a_join_that_carries_all_it_may_is_passed_on_as_it_is() {
    let joiner = peer(0x8100_0000);
    for (carried, expected) in [(2047, 2048), (2048, 2048)] {
        let mut node = with_table(&[FAR, 0x4000_0000], narrow());
        let contacts = (0..carried).map(|n| peer(0x9000_0000 + n)).collect();
        let join = Join { nonce: 1, rows_done: 0, path: Vec::new(), contacts };
        let join = Routed { payload: Payload::Join(Box::new(join)), ..join_from(joiner, 1) };
        let passed = routed_to(&node.hear(joiner, Body::Routed(join)), peer(FAR));
        let Payload::Join(join) = passed.payload else { panic!("not a join: {passed:?}") };
        assert_eq!(join.contacts.len(), expected);
        assert_eq!(join.path.len(), 1, "the way is told all the same");
    }
}

#[test]
fn a_leaving_node_offers_a_message_to_the_next_leaf_if_the_first_does_not_take_it() {
    let (first, second) = (peer(0x2000_0000), peer(0x9000_0000));
    let mut node = Driver::ready(peer(ME), &[first, second], calm());
    // Held, because the node it is for was not ready for it.
    let message = lookup_from(peer(STRANGER), first.id, 5);
    let routed = routed_to(&node.hear(peer(STRANGER), Body::Routed(message)), first);
    node.hear(first, no_ack(routed.hop));
    let routed = routed_to(&node.command(4, Command::Leave), first);
    assert_eq!(routed_to(&node.hear(first, no_ack(routed.hop)), second).serial, 5);
}

#[test]
fn an_announcer_that_belongs_into_the_leaf_set_gets_a_leaf_probe() {
    let (holder, joiner) = (peer(0x2000_0000), peer(0x2100_0000));
    let mut node = Driver::ready(peer(ME), &[holder, peer(0x9000_0000)], calm());
    node.measure(holder, millis(10));
    // Farther than the holder of its cell, so that the table has no use for it.
    let outputs = node.claim(joiner, 50_000);
    assert_eq!(pings(&outputs), []);
    leaf_probe_to(&outputs, joiner);
    node.answer_probes(outputs);
    assert_eq!(node.leaves(), [holder, joiner, peer(0x9000_0000)]);
}

#[test]
fn a_node_without_a_right_side_claims_nothing_beyond_itself_there() {
    let settings = Settings { neighbourhood: 0, ..narrow() };
    let mut node = with_table(&[0x4000_0000, FAR], settings);
    goodbye(&mut node, peer(NEAR[0]));
    assert_eq!(node.leaves(), [peer(NEAR[1])]);
    let (me, beyond) = (key(ME), key(ME).plus(1));
    assert!(node.node.range().contains(me) && node.node.range().contains(me.minus(1)));
    assert!(!node.node.range().contains(beyond));
    assert_eq!(node.node.next_hop(me), NextHop::Here);
    assert_eq!(node.node.next_hop(beyond), NextHop::Wait);
}

#[test]
fn a_number_may_be_used_again_when_its_delivery_is_forgotten() {
    let origin = peer(0x2000_0000);
    let mut node = Driver::ready(peer(ME), &[origin, peer(0x9000_0000)], calm());
    let message = || Body::Routed(app_from(origin, key(ME), 5));
    assert_eq!(delivered(&node.hear(origin, message())).len(), 1);
    node.wait(node.config.seen_for - Duration::from_micros(1));
    let outputs = node.hear(origin, message());
    assert_eq!((delivered(&outputs).len(), count(&outputs, Note::Duplicate)), (0, 1));
    node.wait(Duration::from_micros(1));
    assert_eq!(delivered(&node.hear(origin, message())).len(), 1);
}

#[test]
fn a_leaf_that_has_to_go_fills_a_cell_that_has_become_empty() {
    let settings = Settings { spares: 0, neighbourhood: 0, ..narrow() };
    let (holder, leaf) = (peer(0x8200_0000), peer(0x8100_0000));
    let mut node = Driver::ready(peer(ME), &[holder, peer(NEAR[1]), leaf], settings);
    assert_eq!((node.leaves(), node.cell(leaf)), (vec![leaf, peer(NEAR[1])], vec![holder]));
    goodbye(&mut node, holder);
    assert_eq!(node.cell(leaf), []);
    node.introduce(peer(NEAR[0]));
    assert_eq!(node.leaves(), NEAR.map(peer));
    assert_eq!(node.cell(leaf), [leaf]);
}
