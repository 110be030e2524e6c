//! Background work: heartbeats, exchanges, measurements, and the budget that bounds them.

use std::time::Duration;

use kringle_core::config::{Metric, Ownership, Settings};
use kringle_core::contact::{Contact, Proximity};
use kringle_core::edge::{Input, Note, Output, Timer};
use kringle_core::message::Body;
use kringle_core::overlay::pastry::{Message, What};

use crate::harness::*;

const ME: u32 = 0x8000_0000;
const RIGHT: [u32; 2] = [0x9000_0000, 0xa000_0000];
const LEFT: [u32; 2] = [0x7000_0000, 0x6000_0000];

fn ring(settings: Settings) -> Driver {
    Driver::ready(peer(ME), &[RIGHT[0], RIGHT[1], LEFT[0], LEFT[1]].map(peer), settings)
}

fn beat(node: &mut Driver) -> Vec<Output> {
    node.feed(Input::Timer(Timer::Heartbeat))
}

#[test]
fn a_heartbeat_probes_exactly_the_ring_neighbours_not_heard_since_the_last() {
    let mut node = ring(calm());
    let outputs = beat(&mut node);
    assert_eq!(probed(&outputs), [LEFT[1], LEFT[0], RIGHT[0], RIGHT[1]].map(peer), "none was measured");
    assert_eq!(leaf_probes(&outputs).len(), 2, "a heartbeat says that we are neighbours");
    // The answers are heard after that beat, so the next one has nothing to do.
    node.answer_probes(outputs);
    assert_eq!(probed(&beat(&mut node)), []);
    // Anything heard counts, but only from the neighbour itself.
    node.hear(peer(RIGHT[0]), Body::Ping(1));
    node.hear(peer(RIGHT[1]), Body::Ping(1));
    node.hear(peer(LEFT[1]), Body::Ping(1));
    let outputs = beat(&mut node);
    assert_eq!(probed(&outputs), [peer(LEFT[0])]);
    node.answer_probes(outputs);
    assert_eq!(probed(&beat(&mut node)), [peer(RIGHT[0])]);
}

#[test]
fn a_heartbeat_watches_whoever_is_the_neighbour_by_now() {
    let mut node = ring(calm());
    let outputs = beat(&mut node);
    node.answer_probes(outputs);
    // One side gets a nearer node, the other loses its nearest, whose last word must not count for the next.
    let nearer = peer(0x8800_0000);
    node.introduce(nearer);
    node.hear_pastry(peer(LEFT[0]), Message::Goodbye(Box::default()));
    assert_eq!(probed(&beat(&mut node)), [peer(LEFT[1]), nearer]);
}

#[test]
fn a_neighbour_that_misses_heartbeats_is_suspected_and_then_dead() {
    let mut node = ring(calm());
    let probes = beat(&mut node);
    let alive = leaf_probe_to(&probes, peer(LEFT[0]));
    node.hear(peer(LEFT[0]), leaf_reply(alive.nonce, None));
    node.fire(Timer::Probe);
    assert!(node.suspects(peer(RIGHT[0])));
    node.fire(Timer::Probe);
    let outputs = node.fire(Timer::Probe);
    assert_eq!(count(&outputs, Note::Died(peer(RIGHT[0]))), 1);
    assert_eq!(node.leaves(), [RIGHT[1], LEFT[1], LEFT[0]].map(peer));
}

#[test]
fn a_heartbeat_looks_again_at_one_that_is_in_doubt() {
    let mut node = ring(calm());
    let probes = beat(&mut node);
    node.answer_probes(probes);
    // Reached by others only: kept in doubt without an open probe.
    node.hear_pastry(peer(STRANGER), Message::Obituary(peer(RIGHT[1])));
    node.fire(Timer::Probe);
    let nonce = ping_to(&node.fire(Timer::Probe), peer(RIGHT[1]));
    node.hear(peer(LEFT[0]), Body::PongVia { nonce, target: peer(RIGHT[1]).id });
    node.hear(peer(RIGHT[0]), Body::Ping(1));
    let outputs = beat(&mut node);
    assert_eq!(probed(&outputs), [peer(RIGHT[1])]);
    node.answer_probes(outputs);
    assert!(!node.suspects(peer(RIGHT[1])));
}

#[test]
fn a_heartbeat_does_not_repeat_leaves_the_neighbour_has_seen() {
    let mut node = ring(calm());
    let first = beat(&mut node);
    assert_eq!(leaf_probe_to(&first, peer(RIGHT[0])).leaves.len(), 4);
    node.answer_probes(first);
    assert_eq!(probed(&beat(&mut node)), []);
    let quiet = beat(&mut node);
    let probe = leaf_probe_to(&quiet, peer(RIGHT[0]));
    assert_eq!((probe.seen, probe.leaves.len()), (Some(1), 0), "neither side sends what the other has");
    node.answer_probes(quiet);
    node.introduce(peer(0xb000_0000));
    beat(&mut node);
    let changed = beat(&mut node);
    assert_eq!(leaf_probe_to(&changed, peer(RIGHT[0])).leaves.len(), 5);
}

#[test]
fn leaf_sets_are_exchanged_with_a_random_leaf_whose_silence_is_noticed() {
    let mut node = ring(calm());
    let mut partners = Vec::new();
    for _ in 0..40 {
        let outputs = node.feed(Input::Timer(Timer::LeafExchange));
        let [(partner, probe)] = &leaf_probes(&outputs)[..] else { panic!("{outputs:?}") };
        assert!(probe.digest.is_some());
        partners.push(*partner);
        // It names one we do not have, and gets ours.
        let outputs = node.hear(*partner, leaf_reply(probe.nonce, Some(&[peer(ME), peer(0xe000_0000)])));
        assert_eq!(probed(&outputs), [*partner, peer(0xe000_0000)]);
        let probe = leaf_probe_to(&outputs, *partner);
        assert_eq!(probe.leaves, node.pastry().router().leaf_set().arc());
        node.hear(*partner, leaf_reply(probe.nonce, None));
        node.wait(Duration::from_secs(5));
    }
    partners.sort();
    partners.dedup();
    assert_eq!(partners, [LEFT[1], LEFT[0], RIGHT[0], RIGHT[1]].map(peer), "each in its turn");
    let outputs = node.feed(Input::Timer(Timer::LeafExchange));
    let partner = leaf_probes(&outputs)[0].0;
    node.fire(Timer::Probe);
    assert!(node.suspects(partner));
}

#[test]
fn every_row_is_swapped_with_one_random_member_of_it() {
    // Rows 0 and 1 have several members, row 2 one.
    let rows = [vec![LEFT[1], LEFT[0], RIGHT[0]], vec![0x8100_0000, 0x8200_0000], vec![0x8010_0000]];
    let all: Vec<Contact> = rows.concat().into_iter().map(peer).collect();
    let mut node = Driver::ready(peer(ME), &all, calm());
    let outputs = node.feed(Input::Timer(Timer::RowSwap));
    let asked = requests(&outputs);
    assert_eq!(asked.len(), rows.len());
    for (row, (partner, ask)) in (0..).zip(asked) {
        let mut members: Vec<Contact> = rows[usize::from(row)].iter().map(|digits| peer(*digits)).collect();
        assert_eq!(ask.what, What::Row(row));
        assert!(members.contains(&partner));
        members.retain(|member| *member != partner);
        assert_eq!(contacts_of(&ask.push), members, "our own row in exchange");
    }
}

#[test]
fn neighbourhood_sets_are_exchanged_with_a_random_neighbour() {
    let mut node = ring(calm());
    assert_eq!(sent(&node.feed(Input::Timer(Timer::Neighbourhood))), [], "nobody has been measured yet");
    node.measure(peer(RIGHT[0]), millis(30));
    node.measure(peer(LEFT[1]), millis(10));
    let (partner, ask) = request_in(&node.feed(Input::Timer(Timer::Neighbourhood)));
    assert_eq!(ask.what, What::Neighbourhood);
    let mut both = [peer(LEFT[1]), peer(RIGHT[0])].to_vec();
    both.retain(|neighbour| *neighbour != partner);
    assert_eq!(contacts_of(&ask.push), both);
    // It names somebody near itself, who is measured and turns out to be near us as well.
    let near = peer(0xe000_0000);
    let outputs = node.hear_pastry(partner, reply(ask.nonce, ask.what, &[near]));
    let probe = leaf_probe_to(&outputs, near);
    node.wait(millis(5));
    node.hear(near, leaf_reply(probe.nonce, None));
    assert_eq!(node.pastry().router().neighbourhood().members().next(), Some(near));
}

#[test]
fn a_silent_partner_is_suspected_and_probed() {
    let mut node = ring(calm());
    node.measure(peer(RIGHT[0]), millis(30));
    let (partner, _) = request_in(&node.feed(Input::Timer(Timer::Neighbourhood)));
    let outputs = node.wait(node.left(Timer::Ask));
    assert_eq!((probed(&outputs), node.suspects(partner)), (vec![partner], true));
}

#[test]
fn periods_are_jittered() {
    let mut node = ring(Settings { ownership: Ownership::Hint, ..Settings::default() });
    let periods = [
        (Timer::Heartbeat, node.config.heartbeat),
        (Timer::LeafExchange, node.config.leaf_exchange),
        (Timer::RowSwap, node.config.row_swap),
        (Timer::Neighbourhood, node.config.neighbourhood_exchange),
    ];
    for (timer, period) in periods {
        let mut spans = Vec::new();
        for _ in 0..20 {
            node.feed(Input::Timer(timer));
            spans.push(node.left(timer));
        }
        assert!(spans.iter().all(|span| *span >= period / 2 && *span < period * 3 / 2), "{timer:?}");
        spans.sort();
        spans.dedup();
        assert!(spans.len() > 10, "{timer:?} hardly varies: {spans:?}");
    }
}

#[test]
fn background_work_stops_when_the_budget_is_spent_and_resumes_later() {
    let settings = Settings { budget: 100, budget_burst: 1000, ..narrow() };
    let mut node = Driver::ready(peer(ME), &[RIGHT[0], LEFT[0]].map(peer), settings);
    for digits in [RIGHT[1], LEFT[1], 0xe000_0000] {
        node.announce(peer(digits), 1);
    }
    node.measure(peer(RIGHT[1]), millis(1));
    // Candidates are probed until there is nothing left to spend.
    let many: Vec<Contact> = (1..60u32).map(|n| peer(0xc000_0000 + n * 0x0010_0000)).collect();
    let outputs = node.push(&many);
    let first = pings(&outputs).len();
    assert!(first > 0 && first < 10, "{first}");
    assert_eq!(count(&outputs, Note::BudgetSpent), many.len() - first);
    node.answer_probes(outputs);
    let work = [Timer::LeafExchange, Timer::RowSwap, Timer::Neighbourhood];
    for timer in work {
        let outputs = node.feed(Input::Timer(timer));
        assert_eq!((sent(&outputs), notes(&outputs)), (vec![], vec![Note::BudgetSpent]), "{timer:?}");
        assert!(node.due(timer).is_some(), "it comes back");
    }
    // So does the search for a lost cell, which is left to the row swap then.
    let outputs = node.hear_pastry(peer(0xe000_0000), Message::Goodbye(Box::default()));
    assert_eq!(requests(&outputs), []);
    assert!(count(&outputs, Note::BudgetSpent) > 0);
    // Watching neighbours is no luxury.
    let outputs = beat(&mut node);
    assert_eq!(probed(&outputs), [LEFT[0], RIGHT[0]].map(peer));
    node.answer_probes(outputs);

    for timer in work {
        node.wait(Duration::from_secs(10));
        let outputs = node.feed(Input::Timer(timer));
        assert!(!sent(&outputs).is_empty(), "{timer:?}");
        node.answer_probes(outputs);
    }
}

#[test]
fn a_join_does_not_wait_for_the_budget() {
    let settings = Settings { budget: 1, budget_burst: 1, ..calm() };
    let (mut node, routed) = Driver::joining(peer(ME), peer(RIGHT[0]), settings);
    let outputs = node.hear(peer(RIGHT[0]), join_reply(&routed, true, &[LEFT[0], LEFT[1]].map(peer)));
    assert_eq!(probed(&outputs).len(), 3);
}

/// A node whose application measures, with a holder at 100 in the cell of the candidate, which has just answered.
fn measured_by_application() -> (Driver, Contact, Contact) {
    let (holder, candidate) = (peer(0xe000_0000), peer(0xe100_0000));
    let settings = Settings { metric: Metric::Application, ..narrow() };
    let mut node = Driver::ready(peer(ME), &[RIGHT[0], LEFT[0]].map(peer), settings);
    node.announce(holder, 100);
    node.feed(Input::Measured { peer: holder.id, proximity: Proximity(100) });
    let outputs = node.push(&[candidate]);
    let outputs = node.answer_after(candidate, &outputs, millis(1));
    assert!(outputs.contains(&Output::Measure { peer: candidate }));
    assert_eq!(node.cell(holder)[0], holder, "the round trip means nothing to this application");
    (node, holder, candidate)
}

#[test]
fn the_application_measures_and_its_word_decides_a_cell() {
    for (proximity, wins) in [(50, true), (200, false)] {
        let (mut node, holder, candidate) = measured_by_application();
        let outputs = node.feed(Input::Measured { peer: candidate.id, proximity: Proximity(proximity) });
        assert_eq!(sent(&outputs), []);
        let expected = if wins { [candidate, holder] } else { [holder, candidate] };
        assert_eq!(node.cell(holder), expected);
        assert_eq!(node.pastry().router().proximity(candidate.id), Some(Proximity(proximity)));
    }
}

#[test]
fn what_the_application_has_measured_is_not_measured_again() {
    let (mut node, _, candidate) = measured_by_application();
    node.feed(Input::Measured { peer: candidate.id, proximity: Proximity(50) });
    let outputs = node.measure(candidate, millis(1));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Measure { .. })));
    assert_eq!(node.pastry().router().proximity(candidate.id), Some(Proximity(50)));
}
