//! Questions about state: who is answered what, and what becomes of the answers.

use kringle_core::config::Settings;
use kringle_core::contact::{Contact, Proximity};
use kringle_core::edge::{Input, Note, Output, Refusal, Timer};
use kringle_core::message::Body;
use kringle_core::overlay::pastry::routing_table::Entry;
use kringle_core::overlay::pastry::{Message, StateReply, StateRequest, What};

use crate::harness::*;

const ME: u32 = 0x1000_0000;

fn asked(node: &mut Driver, what: What) -> Vec<Output> {
    node.hear_pastry(peer(STRANGER), request(8, what, &[]))
}

fn answer(what: What, contacts: &[Contact]) -> Vec<(Contact, Body)> {
    vec![(peer(STRANGER), Body::Pastry(reply(8, what, contacts)))]
}

/// The same with how near they are, in milliseconds.
fn near(what: What, contacts: &[(u32, Option<u32>)]) -> Vec<(Contact, Body)> {
    let entry = |(id, distance): &(u32, Option<u32>)| Entry {
        contact: peer(*id),
        proximity: distance.map_or(Proximity::UNKNOWN, |millis| Proximity(millis * 1000)),
    };
    let contacts = contacts.iter().map(entry).collect();
    let reply = StateReply { nonce: 8, what, contacts };
    vec![(peer(STRANGER), Body::Pastry(Message::StateReply(Box::new(reply))))]
}

#[test]
fn requests_for_state_are_answered() {
    let known = [0x8000_0000, 0x9000_0000, 0x1800_0000, 0x1070_0000, 0x1071_0000].map(peer);
    let mut node = Driver::ready(peer(ME), &known, calm());
    node.measure(known[2], millis(20));
    node.measure(known[0], millis(10));
    let before = node.node.clone();

    // Clockwise from the far end of the left side to that of the right one.
    let arc = [0x8000_0000, 0x9000_0000, 0x1070_0000, 0x1071_0000, 0x1800_0000].map(peer);
    assert_eq!(sent(&asked(&mut node, What::LeafSet)), answer(What::LeafSet, &arc));

    // A row comes with the node itself in its own column, and rows past the last mean the last.
    let row0 = [(0x8000_0000, Some(10)), (0x9000_0000, None), (ME, Some(0))];
    assert_eq!(sent(&asked(&mut node, What::Row(0))), near(What::Row(0), &row0));
    let row2 = [(0x1070_0000, None), (ME, Some(0))];
    for row in [2, 3, u8::MAX] {
        assert_eq!(sent(&asked(&mut node, What::Row(row))), near(What::Row(2), &row2));
    }

    // A cell is one of the asker's table: three nodes at most that fit there.
    let cell = What::Cell { row: 0, column: 1 };
    let fits = [0x1070_0000, 0x1071_0000, 0x1800_0000].map(peer);
    assert_eq!(sent(&asked(&mut node, cell)), answer(cell, &fits));
    let cell = What::Cell { row: 0, column: 4 };
    assert_eq!(sent(&asked(&mut node, cell)), answer(cell, &[]));

    let nearest = [(0x8000_0000, Some(10)), (0x1800_0000, Some(20))];
    assert_eq!(sent(&asked(&mut node, What::Neighbourhood)), near(What::Neighbourhood, &nearest));
    assert!(node.node == before, "answering changes nothing");
}

#[test]
fn a_cell_that_does_not_exist_is_refused() {
    let mut node = Driver::ready(peer(ME), &[peer(0x8000_0000)], calm());
    for (row, column) in [(32, 0), (0, 16), (u8::MAX, u8::MAX)] {
        let body = Body::Pastry(request(8, What::Cell { row, column }, &[]));
        assert!(node.refuses(peer(STRANGER), body, Refusal::OutOfRange));
    }
}

#[test]
fn an_empty_table_has_an_empty_row_zero() {
    let mut node = Driver::founder(peer(ME), calm());
    assert_eq!(sent(&asked(&mut node, What::Row(9))), near(What::Row(0), &[(ME, Some(0))]));
}

#[test]
fn a_node_that_can_not_win_is_not_measured() {
    // The holder of the cell is 10 ms away, and there are no spares and no neighbours to be had.
    let settings = Settings { spares: 0, neighbourhood: 0, ..narrow() };
    let mut node = Driver::ready(peer(ME), &[0x1001_0000, 0x0fff_0000].map(peer), settings);
    node.announce(peer(0x8000_0000), 1);
    node.measure(peer(0x8000_0000), millis(10));
    // Told by somebody 50 ms away: to be nearer than 10 ms, a node must be 40 to 60 ms from there.
    for (told, may_win) in [(20, false), (39, false), (45, true), (55, true), (61, false), (99, false)] {
        let push = vec![Entry { contact: peer(0x8100_0000), proximity: Proximity(told * 1000) }];
        let request = StateRequest { nonce: 8, what: What::Row(0), push, proximity: Proximity(50_000) };
        let outputs = crate::hostile::again(&node)
            .hear_pastry(peer(STRANGER), Message::StateRequest(Box::new(request)));
        assert_eq!(probed(&outputs).len(), usize::from(may_win), "{told} ms");
    }
    // An empty cell takes anybody, and what nobody has measured may be near.
    let push = vec![
        Entry { contact: peer(0x9000_0000), proximity: Proximity(99_000) },
        Entry::unmeasured(peer(0x8100_0000)),
    ];
    let request = StateRequest { nonce: 8, what: What::Row(0), push, proximity: Proximity(50_000) };
    let outputs = node.hear_pastry(peer(STRANGER), Message::StateRequest(Box::new(request)));
    assert_eq!(probed(&outputs).len(), 2);
}

#[test]
fn what_is_pushed_along_with_a_request_is_probed_first() {
    let candidates = [0x9000_0000, 0x8000_0000].map(peer);
    let mut node = Driver::ready(peer(ME), &[0x1001_0000, 0x0fff_0000, 0x4000_0000].map(peer), narrow());
    let outputs = node.hear_pastry(peer(STRANGER), request(8, What::LeafSet, &candidates));
    assert_eq!(probed(&outputs), [candidates[1], candidates[0]]);
    assert!(!candidates.iter().any(|candidate| node.knows(*candidate)));
    assert!(!node.knows(peer(STRANGER)), "asking is no reason to be taken in");
    node.answer_probes(outputs);
    assert!(candidates.iter().all(|candidate| node.cell(*candidate) == [*candidate]));
}

#[test]
fn an_answer_nobody_asked_for_is_refused_and_changes_nothing() {
    let known = peer(0x8000_0000);
    let mut node = Driver::ready(peer(ME), &[known], calm());
    for what in [What::LeafSet, What::Row(0), What::Neighbourhood] {
        for from in [known, peer(STRANGER)] {
            let body = Body::Pastry(reply(1, what, &[peer(0x9000_0000)]));
            assert!(node.refuses(from, body, Refusal::Unsolicited));
        }
    }
}

#[test]
fn contacts_of_an_answer_asked_for_are_probed_before_they_are_taken_in() {
    let (partner, named) = (peer(0x8000_0000), peer(0x9000_0000));
    // The leaves share a digit with us, so the partner has row 0 for itself.
    let mut node = Driver::ready(peer(0x1800_0000), &[0x1801_0000, 0x17ff_0000].map(peer), narrow());
    node.announce(partner, 1);
    let outputs = node.feed(Input::Timer(Timer::RowSwap));
    let (_, ask) = requests(&outputs).into_iter().find(|(to, _)| *to == partner).unwrap();
    // Only the one asked may answer, and only that question.
    let contacts = [named, peer(0x1800_0000), partner];
    let answer = |nonce| Body::Pastry(reply(nonce, What::Row(0), &contacts));
    assert!(node.refuses(partner, answer(ask.nonce.wrapping_add(77)), Refusal::Unsolicited));
    assert!(node.refuses(peer(STRANGER), answer(ask.nonce), Refusal::Unsolicited));
    let outputs = node.hear(partner, answer(ask.nonce));
    assert_eq!(probed(&outputs), [named]);
    assert!(!node.knows(named));
    let outputs = node.answer_after(named, &outputs, millis(10));
    assert_eq!(node.cell(named), [named]);
    assert_eq!(notes(&outputs), [Note::CellFilled]);
    assert_eq!(sent(&outputs), [], "a member of the ring does not announce itself");
    assert!(node.refuses(partner, answer(ask.nonce), Refusal::Unsolicited), "answered already");
}

#[test]
fn a_leaf_that_was_never_measured_is_measured_when_told_of() {
    // It holds its cell unmeasured: only its own probe of us told that it is there.
    let leaves = [0x1001_0000, 0x0fff_0000].map(peer);
    let mut node = Driver::ready(peer(ME), &leaves, narrow());
    let newcomer = peer(0x1000_8000);
    node.introduce(newcomer);
    assert!(node.leaves().contains(&newcomer));
    let outputs = node.push(&[newcomer]);
    assert_eq!(probed(&outputs), [newcomer]);
    node.answer_after(newcomer, &outputs, millis(5));
    assert!(probed(&node.push(&[newcomer])).is_empty(), "once is enough");
}
