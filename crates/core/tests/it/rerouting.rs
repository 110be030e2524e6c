//! Messages whose next hop does not answer: another way, a second chance, or waiting until doubts have ended.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::Contact;
use kringle_core::edge::{Event, Failure, Input, Note, Output, Refusal, Reply, Timer};
use kringle_core::id::Key;
use kringle_core::message::{Body, Outcome, Receipt, Routed, Rule};

use crate::harness::*;

const ME: u32 = 0x1000_0000;
const RIGHT: u32 = 0x4000_0000;
const ORIGIN: u32 = 0x9999_9999;

/// Holder and spare of the cell for [`target`], and a node that is no better there but nearer than we are.
const FIRST: u32 = 0x8000_0000;
const SPARE: u32 = 0x8100_0000;
const OTHER: u32 = 0x5000_0000;

fn target() -> Key {
    key(0x8222_0000)
}

/// A node of a larger ring that knows three ways to the target.
fn three_ways(settings: Settings) -> Driver {
    let mut node = Driver::ready(peer(ME), &[0x1001_0000, 0x0fff_0000].map(peer), settings);
    node.announce(peer(FIRST), 1);
    node.announce(peer(OTHER), 1);
    let outputs = node.push(&[peer(SPARE)]);
    node.answer_after(peer(SPARE), &outputs, millis(10));
    assert_eq!(node.cell(peer(FIRST)), [FIRST, SPARE].map(peer));
    node
}

/// A ring of two, so that the other one is the only right hop for its keys.
fn pair(settings: Settings) -> Driver {
    Driver::ready(peer(ME), &[peer(RIGHT)], settings)
}

fn forwarded(outputs: &[Output]) -> Vec<Rule> {
    let rule = |note| match note {
        Note::Forwarded(rule) => Some(rule),
        _ => None,
    };
    notes(outputs).into_iter().filter_map(rule).collect()
}

#[test]
fn a_silent_hop_is_gone_around_at_once_and_only_suspected() {
    let mut node = three_ways(narrow());
    let message = app_from(peer(ORIGIN), target(), 5);
    let first = routed_to(&node.hear(peer(0x1001_0000), Body::Routed(message)), peer(FIRST));
    let cell = (0, 8);
    let ways = [(FIRST, SPARE, Rule::Spare { row: cell.0, column: cell.1 }), (SPARE, OTHER, Rule::RareCase)];
    for (silent, next, rule) in ways {
        let outputs = node.fire(Timer::Hop);
        let again = routed_to(&outputs, peer(next));
        assert_eq!(again, Routed { hop: again.hop, ..first.clone() });
        assert_eq!(forwarded(&outputs), [rule]);
        assert_eq!(count(&outputs, Note::Rerouted), 1);
        assert_eq!(count(&outputs, Note::Suspected(peer(silent))), 1);
        assert_eq!(probed(&outputs), [peer(silent)]);
        assert!(node.suspects(peer(silent)) && node.knows(peer(silent)));
    }
    // The first did get it and was only slow: its word comes too late to count for this hop.
    assert!(node.refuses(peer(FIRST), ack(first.hop), Refusal::Unsolicited));
}

#[test]
fn a_hop_that_cannot_be_dialled_is_gone_around_at_once() {
    let mut node = three_ways(narrow());
    let first = routed_to(&node.lookup(1, target()), peer(FIRST));
    let start = node.now;
    let outputs = node.feed(Input::Unsent { to: peer(FIRST), body: Body::Routed(first) });
    routed_to(&outputs, peer(SPARE));
    assert!(node.now == start && node.suspects(peer(FIRST)));
}

#[test]
fn a_hop_that_does_not_want_a_message_is_gone_around_without_suspicion() {
    let mut node = three_ways(narrow());
    let first = routed_to(&node.lookup(1, target()), peer(FIRST));
    let outputs = node.hear(peer(FIRST), no_ack(first.hop));
    routed_to(&outputs, peer(SPARE));
    assert_eq!(probed(&outputs), []);
    assert!(!node.suspects(peer(FIRST)));
}

#[test]
fn a_suspect_is_avoided_until_it_answers() {
    let mut node = three_ways(narrow());
    let asked = routed_to(&node.lookup(1, target()), peer(FIRST));
    let outputs = node.feed(Input::Unsent { to: peer(FIRST), body: Body::Routed(asked) });
    routed_to(&node.lookup(2, target()), peer(SPARE));
    let outputs = node.answer_after(peer(FIRST), &outputs, millis(10));
    assert_eq!(count(&outputs, Note::Cleared(peer(FIRST))), 1);
    assert_eq!(events(&outputs), [Event::Settled(peer(FIRST).id)]);
    assert!(!node.suspects(peer(FIRST)));
    routed_to(&node.lookup(3, target()), peer(FIRST));
}

#[test]
fn a_suspect_is_removed_only_after_all_probes() {
    let mut node = three_ways(narrow());
    let asked = routed_to(&node.lookup(1, target()), peer(FIRST));
    let outputs = node.feed(Input::Unsent { to: peer(FIRST), body: Body::Routed(asked) });
    node.hear(peer(SPARE), ack(routed_to(&outputs, peer(SPARE)).hop));
    for attempt in 1..node.config.probe_attempts {
        let outputs = node.wait(node.left(Timer::Probe));
        assert_eq!(probed(&outputs), [peer(FIRST)], "attempt {attempt}");
        assert_eq!(node.cell(peer(FIRST)), [FIRST, SPARE].map(peer));
    }
    let outputs = node.wait(node.left(Timer::Probe));
    assert_eq!(count(&outputs, Note::Died(peer(FIRST))), 1);
    assert!(!node.knows(peer(FIRST)) && !node.suspects(peer(FIRST)));
}

#[test]
fn a_message_is_given_up_after_so_many_attempts_and_its_origin_told() {
    for attempts in 1..4u8 {
        let mut node = three_ways(Settings { hop_attempts: attempts, ..narrow() });
        let message = lookup_from(peer(ORIGIN), target(), 5);
        let mut tried = routed(&node.hear(peer(0x1001_0000), Body::Routed(message)));
        let end = loop {
            let outputs = node.fire(Timer::Hop);
            match routed(&outputs).pop() {
                Some(next) => tried.push(next),
                None => break outputs,
            }
        };
        assert_eq!(tried.len(), usize::from(attempts));
        assert_eq!(count(&end, Note::GaveUp), 1);
        let receipt =
            Receipt { to: peer(ORIGIN), serial: 5, hops: 1, by: peer(ME), outcome: Outcome::NoRoute };
        assert_eq!(sent_to(&end, peer(ORIGIN)), [Body::Receipt(Box::new(receipt))]);
    }
}

#[test]
fn the_second_chance_of_an_owner_counts_as_an_attempt() {
    let mut node = pair(Settings { hop_attempts: 1, ..calm() });
    routed_to(&node.lookup(1, peer(RIGHT).id), peer(RIGHT));
    let outputs = node.fire(Timer::Hop);
    assert_eq!(routed(&outputs), []);
    assert_eq!(replies(&outputs), [(1, Err(Failure::NoRoute))]);
}

/// Routes a message to the silent owner of its key, up to the point where it is held.
fn held(node: &mut Driver) -> (Routed, Vec<Output>) {
    let first = routed_to(&node.route(1, peer(RIGHT).id, b"bytes"), peer(RIGHT));
    let outputs = node.fire(Timer::Hop);
    let again = routed_to(&outputs, peer(RIGHT));
    assert_eq!(again, Routed { hop: again.hop, ..first.clone() });
    assert_eq!(notes(&outputs), [Note::Resent]);
    assert!(!node.suspects(peer(RIGHT)), "one lost packet is no reason for doubt");
    let outputs = node.fire(Timer::Hop);
    assert_eq!((routed(&outputs), delivered(&outputs)), (vec![], vec![]));
    assert_eq!(count(&outputs, Note::Held), 1);
    assert!(node.suspects(peer(RIGHT)));
    (first, outputs)
}

#[test]
fn a_message_whose_owner_is_silent_is_held_and_sent_when_it_answers() {
    let mut node = pair(calm());
    let (first, outputs) = held(&mut node);
    let outputs = node.answer_after(peer(RIGHT), &outputs, millis(40));
    let again = routed_to(&outputs, peer(RIGHT));
    assert_eq!(again, Routed { hop: again.hop, ..first });
    node.hear(peer(RIGHT), ack(again.hop));
    assert_eq!(sent(&node.wait(Duration::from_secs(20))), []);
}

#[test]
fn a_message_whose_owner_is_silent_is_delivered_here_only_after_it_is_dead() {
    let mut node = pair(calm());
    let (first, _) = held(&mut node);
    let mut outputs = Vec::new();
    while !node.leaves().is_empty() {
        assert_eq!(delivered(&outputs), []);
        outputs = node.wait(millis(100));
    }
    assert_eq!(count(&outputs, Note::Died(peer(RIGHT))), 1);
    let [message]: [Routed; 1] = delivered(&outputs).try_into().unwrap();
    assert_eq!(message.serial, first.serial);
}

#[test]
fn a_message_is_held_no_longer_than_allowed() {
    let mut node = pair(Settings { transit_max: millis(1800), ..calm() });
    held(&mut node);
    let outputs = node.wait(millis(1200));
    assert_eq!(replies(&outputs), [(1, Err(Failure::NoRoute))]);
    assert_eq!(delivered(&outputs), []);
    assert!(node.knows(peer(RIGHT)), "its probes were not done yet");
}

#[test]
fn a_message_its_owner_is_not_ready_for_is_offered_again_later() {
    let mut node = pair(calm());
    let first = routed_to(&node.lookup(1, peer(RIGHT).id), peer(RIGHT));
    let outputs = node.hear(peer(RIGHT), no_ack(first.hop));
    assert_eq!((routed(&outputs), count(&outputs, Note::Held)), (vec![], 1));
    assert_eq!(node.left(Timer::Hop), node.config.hop_timeout_max);
    let again = routed_to(&node.fire(Timer::Hop), peer(RIGHT));
    assert!(!node.suspects(peer(RIGHT)));
    node.hear(peer(RIGHT), ack(again.hop));
    assert_eq!(sent(&node.wait(Duration::from_secs(20))), []);
}

#[test]
fn while_one_leaf_is_silent_the_next_nearest_gets_the_message() {
    // Three in a row: the one in the middle owns the key and is silent, the one behind it is next.
    let (owner, behind) = (peer(0x3000_0000), peer(0x3100_0000));
    let mut node = Driver::ready(peer(ME), &[owner, behind], calm());
    routed_to(&node.lookup(1, owner.id), owner);
    routed_to(&node.fire(Timer::Hop), owner);
    let outputs = node.fire(Timer::Hop);
    routed_to(&outputs, behind);
    assert_eq!(probed(&outputs), [owner]);
}

#[test]
fn lookups_of_a_dead_peers_keys_find_the_next_owner() {
    let mut node = pair(calm());
    node.kill(peer(RIGHT));
    let found: (u64, Result<Reply, Failure>) =
        (1, Ok(Reply::Found { root: peer(ME), hops: 0, path: Vec::new(), is_final: true }));
    assert_eq!(replies(&node.lookup(1, peer(RIGHT).id)), [found]);
    let known: Vec<Contact> = node.leaves();
    assert_eq!(known, []);
}
