//! Death and departure: what a node does about the gaps.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::Contact;
use kringle_core::edge::{Event, Failure, Input, Note, Output, Timer};
use kringle_core::message::{Payload, Routed};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Message, What};
use kringle_core::range::IdRange;

use crate::harness::*;

const ME: u32 = 0x1800_0000;
/// Leaves that share a digit with us, so that row 0 holds nobody but whom a test puts there.
const NEAR: [u32; 2] = [0x1801_0000, 0x17ff_0000];
const LOST: u32 = 0x8000_0000;

fn goodbye(node: &mut Driver, from: Contact, leaves: &[Contact]) -> Vec<Output> {
    node.hear_pastry(from, Message::Goodbye(Box::new(leaves.to_vec())))
}

/// A node of a larger ring, with these nodes in its table besides its two leaves.
fn with_table(table: &[u32]) -> Driver {
    with_table_and(table, Settings { neighbourhood: 0, ..narrow() })
}

fn with_table_and(table: &[u32], settings: Settings) -> Driver {
    let mut node = Driver::ready(peer(ME), &NEAR.map(peer), settings);
    for digits in table {
        node.announce(peer(*digits), 1);
        assert_eq!(node.cell(peer(*digits))[0], peer(*digits));
    }
    node
}

#[test]
fn a_goodbye_removes_its_sender_at_once_and_the_leaves_it_brought_are_probed() {
    let (leaver, brought) = (peer(0x2000_0000), peer(0x3000_0000));
    let mut node = Driver::ready(peer(ME), &[leaver, peer(0x4000_0000)], calm());
    let outputs = goodbye(&mut node, leaver, &[brought, peer(ME), peer(0x4000_0000)]);
    assert!(!node.knows(leaver));
    assert!(events(&outputs).contains(&Event::PeerDown(leaver)));
    assert_eq!(probed(&outputs), [brought]);
    assert!(!node.knows(brought));
    node.answer_probes(outputs);
    assert_eq!(node.leaves(), [brought, peer(0x4000_0000)]);
}

#[test]
fn an_emptied_cell_is_filled_by_its_spare_without_asking() {
    let mut node = with_table(&[LOST, 0x4000_0000]);
    let outputs = node.push(&[peer(0x8100_0000)]);
    node.answer_after(peer(0x8100_0000), &outputs, millis(10));
    let outputs = goodbye(&mut node, peer(LOST), &[]);
    assert_eq!(node.cell(peer(LOST)), [peer(0x8100_0000)]);
    assert_eq!(notes(&outputs), [Note::SparePromoted]);
    assert_eq!(sent(&outputs), []);
}

#[test]
fn an_emptied_cell_is_asked_for_of_one_member_of_the_row_at_a_time_up_to_three_times() {
    let row = [0x4000_0000, 0x5000_0000, 0x6000_0000];
    let mut node = with_table(&[&[LOST], &row[..]].concat());
    let mut outputs = goodbye(&mut node, peer(LOST), &[]);
    for _ in 0..3 {
        assert_eq!(notes(&outputs), [Note::CellAsked]);
        let (member, ask) = request_in(&outputs);
        assert!(row.map(peer).contains(&member));
        assert_eq!((ask.what, &ask.push), (What::Cell { row: 0, column: 8 }, &vec![]));
        // It has nobody for that cell, either.
        outputs = node.hear_pastry(member, reply(ask.nonce, ask.what, &[]));
    }
    assert_eq!(outputs, []);
}

#[test]
fn a_node_named_for_an_emptied_cell_fills_it_once_it_answers() {
    let mut node = with_table(&[LOST, 0x4000_0000]);
    let (member, ask) = request_in(&goodbye(&mut node, peer(LOST), &[]));
    let outputs = node.hear_pastry(member, reply(ask.nonce, ask.what, &[peer(0x8765_0000)]));
    assert_eq!((requests(&outputs), probed(&outputs)), (vec![], vec![peer(0x8765_0000)]));
    assert_eq!(node.cell(peer(LOST)), []);
    node.answer_probes(outputs);
    assert_eq!(node.cell(peer(LOST)), [peer(0x8765_0000)]);
}

#[test]
fn a_member_that_does_not_answer_about_a_cell_is_suspected_and_another_asked() {
    let mut node = with_table(&[LOST, 0x4000_0000]);
    let (member, _) = request_in(&goodbye(&mut node, peer(LOST), &[]));
    assert_eq!(member, peer(0x4000_0000));
    let outputs = node.wait(node.left(Timer::Ask));
    assert!(node.suspects(member));
    assert_eq!(probed(&outputs), [member]);
    // Nobody else is in that row, so a later one is asked.
    let (next, ask) = request_in(&outputs);
    assert!(NEAR.map(peer).contains(&next));
    assert_eq!(ask.what, What::Cell { row: 0, column: 8 });
}

#[test]
fn an_emptied_cell_is_asked_for_in_later_rows_if_its_own_has_nobody() {
    let mut node = with_table(&[LOST]);
    let (member, ask) = request_in(&goodbye(&mut node, peer(LOST), &[]));
    assert_eq!(member, peer(NEAR[1]), "the first row in use after the empty one");
    assert_eq!(ask.what, What::Cell { row: 0, column: 8 });
}

#[test]
fn a_lost_leaf_is_asked_for_at_the_farthest_leaf_of_its_side() {
    let settings = Settings { leaf_set: 4, replicas: 1, ..calm() };
    let (right, left) = ([0x1801_0000, 0x1802_0000], [0x17ff_0000, 0x17fe_0000]);
    let all: Vec<Contact> = [&right[..], &left, &[LOST]].concat().into_iter().map(peer).collect();
    for (lost, end) in [(right[0], right[1]), (left[0], left[1]), (right[1], right[0]), (left[1], left[0])] {
        let mut node = Driver::ready(peer(ME), &all, settings.clone());
        assert!(!node.pastry().router().leaf_set().is_whole());
        let outputs = goodbye(&mut node, peer(lost), &[]);
        assert_eq!(count(&outputs, Note::LeafAsked), 1);
        let asked: Vec<Contact> = leaf_probes(&outputs).into_iter().map(|(to, _)| to).collect();
        assert_eq!(asked, [peer(end)]);
        // Its answer names the next one, which is taken in when it has answered, too.
        let beyond = peer(if lost > ME { 0x1803_0000 } else { 0x17fd_0000 });
        let mut arc = [peer(ME), beyond];
        arc.sort();
        let nonce = leaf_probe_to(&outputs, peer(end)).nonce;
        let outputs = node.hear(peer(end), leaf_reply(nonce, Some(&arc)));
        assert_eq!(probed(&outputs), [beyond]);
        node.answer_probes(outputs);
        assert!(node.leaves().contains(&beyond));
    }
}

#[test]
fn a_side_that_lost_everybody_is_sought_from_the_table_step_by_step() {
    let nearer = peer(0x1900_0000);
    let mut node = with_table(&[LOST, 0x4000_0000]);
    let outputs = goodbye(&mut node, peer(NEAR[0]), &[]);
    assert_eq!(count(&outputs, Note::LeafSought), 1);
    // The nearest known on that side is asked; it knows somebody between us, who knows nobody nearer.
    let probe = leaf_probe_to(&outputs, peer(0x4000_0000));
    assert_eq!(probed(&outputs), [peer(0x4000_0000)]);
    let known = [peer(ME), nearer, peer(LOST)];
    let outputs = node.hear(peer(0x4000_0000), leaf_reply(probe.nonce, Some(&known)));
    assert_eq!(node.leaves(), [peer(NEAR[1])], "a farther one would claim what is not ours");
    let probe = leaf_probe_to(&outputs, nearer);
    node.hear(nearer, leaf_reply(probe.nonce, Some(&[peer(ME), peer(0x4000_0000)])));
    assert_eq!(node.leaves(), [nearer, peer(NEAR[1])]);
}

#[test]
fn a_leaf_set_that_is_the_whole_ring_has_nobody_to_ask_for() {
    let mut node = Driver::ready(peer(ME), &[LOST, 0x9000_0000, 0xa000_0000].map(peer), calm());
    let outputs = goodbye(&mut node, peer(LOST), &[]);
    assert_eq!((count(&outputs, Note::LeafAsked), leaf_probes(&outputs)), (0, vec![]));
}

/// Has both leaves say goodbye. Returns what the node does about that.
fn lose_leaves(node: &mut Driver) -> Vec<Output> {
    let mut outputs = goodbye(node, peer(NEAR[0]), &[]);
    outputs.extend(goodbye(node, peer(NEAR[1]), &[]));
    assert_eq!(node.leaves(), []);
    outputs
}

#[test]
fn an_empty_leaf_set_is_refilled_from_the_table() {
    // In the second case both are less than half a ring away on the same side; one is next on the other all the same.
    for table in [[0x4000_0000, 0xc000_0000], [0x4000_0000, 0x8000_0000]] {
        let mut node = with_table(&table);
        let outputs = lose_leaves(&mut node);
        assert_eq!(count(&outputs, Note::LeafSought), 2);
        assert_eq!(leaf_probes(&outputs).into_iter().map(|(to, _)| to).collect::<Vec<_>>(), table.map(peer));
        node.answer_probes(outputs);
        assert_eq!(node.leaves(), table.map(peer));
        assert_eq!(node.node.status(), Status::Ready);
    }
}

#[test]
fn a_node_whose_table_is_dead_too_when_its_leaf_set_is_empty_is_alone() {
    let settings = Settings { heartbeat: millis(2000), ..narrow() };
    let mut node = with_table_and(&[LOST, 0x4000_0000], settings);
    let mut outputs = lose_leaves(&mut node);
    outputs.extend(node.wait(Duration::from_secs(60)));
    assert!(!node.knows(peer(LOST)) && !node.knows(peer(0x4000_0000)));
    assert_eq!(count(&outputs, Note::Isolated), 1);
    assert_eq!(node.node.range(), IdRange::Full);
}

#[test]
fn a_node_that_took_its_leaf_set_for_the_whole_ring_is_alone_too_when_its_table_is_dead() {
    let settings = Settings { heartbeat: millis(2000), ..narrow() };
    let mut node = Driver::joined(peer(ME), peer(NEAR[0]), &[peer(NEAR[1])], settings);
    node.announce(peer(LOST), 1);
    // The ends of the leaf set meet, although the table has another node: it has died unnoticed.
    let outputs = node.feed(Input::Timer(Timer::Heartbeat));
    let probe = leaf_probe_to(&outputs, peer(NEAR[0]));
    node.hear(peer(NEAR[0]), leaf_reply(probe.nonce, Some(&[peer(NEAR[1]), peer(ME)])));
    assert!(node.pastry().router().leaf_set().is_whole());
    lose_leaves(&mut node);
    let outputs = node.wait(Duration::from_secs(60));
    assert!(!node.knows(peer(LOST)));
    assert_eq!(count(&outputs, Note::Isolated), 1);
    assert_eq!(node.node.status(), Status::Isolated, "it looks for its seeds");
}

#[test]
fn a_founder_whose_last_peer_is_gone_is_a_ring_of_one_again() {
    let mut node = Driver::ready(peer(ME), &[peer(LOST)], calm());
    let outputs = node.kill(peer(LOST));
    assert_eq!(count(&outputs, Note::Isolated), 1);
    assert_eq!((node.node.status(), node.node.range()), (Status::Ready, IdRange::Full));
    assert_eq!(node.introduce(peer(LOST)).len(), 6, "and others may come; those it lost are asked for again");
    assert_eq!(node.leaves(), [peer(LOST)]);
}

#[test]
fn a_node_whose_last_peer_is_gone_looks_for_its_seeds() {
    let seed = peer(0x1900_0000);
    let mut node = Driver::joined(peer(ME), seed, &[], calm());
    node.lookup(5, seed.id);
    let outputs = node.kill(seed);
    assert_eq!(count(&outputs, Note::Isolated), 1);
    assert!(events(&outputs).contains(&Event::StatusChanged(Status::Isolated)));
    assert_eq!((node.node.status(), node.node.range()), (Status::Isolated, IdRange::Empty));
    assert_eq!(replies(&node.lookup(6, seed.id)), [(6, Err(Failure::NotJoined))]);
    let is_join = |routed: &Routed| matches!(routed.payload, Payload::Join(_));
    let (to, join) = routed(&outputs).into_iter().find(|(_, routed)| is_join(routed)).unwrap();
    assert_eq!(to, seed);

    // The seed is back, in a new life; nobody is told that we joined, because nobody asked for it.
    let seed = life(0x1900_0000, 2);
    let probes = node.hear(seed, join_reply(&join, true, &[]));
    let outputs = node.answer_probes(probes);
    assert_eq!((node.node.status(), node.leaves()), (Status::Ready, vec![seed]));
    assert!(!replies(&outputs).iter().any(|(request, _)| *request == 0));
}

#[test]
fn a_node_that_lost_its_ring_tries_its_seeds_in_turn() {
    let seed = peer(0x1900_0000);
    let mut node = Driver::joined(peer(ME), seed, &[], calm());
    node.kill(seed);
    for _ in 0..3 {
        let outputs = node.fire(Timer::Join);
        assert_eq!(count(&outputs, Note::JoinRetried), 1);
        assert_eq!(node.node.status(), Status::Isolated);
        routed_to(&node.fire(Timer::Join), seed);
    }
}

#[test]
fn a_lost_neighbour_is_asked_for_at_one_of_the_others() {
    let mut node = with_table_and(&[LOST, 0x4000_0000], narrow());
    node.measure(peer(LOST), millis(10));
    node.measure(peer(0x4000_0000), millis(20));
    let outputs = goodbye(&mut node, peer(LOST), &[]);
    let near: Vec<Contact> = node.pastry().router().neighbourhood().members().collect();
    assert_eq!(near, [peer(0x4000_0000)]);
    let asked = requests(&outputs).into_iter().filter(|(_, ask)| ask.what == What::Neighbourhood);
    assert_eq!(asked.map(|(to, _)| to).collect::<Vec<_>>(), near);
}
