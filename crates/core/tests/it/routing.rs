//! Messages that reach or pass a node while everybody answers.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::{Contact, Proximity};
use kringle_core::edge::{
    Command, Dial, Event, Failure, Input, Note, Output, Refusal, Reply, Timer, Verdict,
};
use kringle_core::message::{Body, Hop, HopAck, Outcome, Payload, Receipt, Routed, Rule, Stage};
use kringle_core::overlay::pastry::Message;
use kringle_core::overlay::{NextHop, Status};

use crate::harness::*;

const ME: u32 = 0x1000_0000;
const RIGHT: u32 = 0x4000_0000;
const LEFT: u32 = 0xc000_0000;
const ORIGIN: u32 = 0x9999_9999;

fn ring() -> Driver {
    Driver::ready(peer(ME), &[RIGHT, LEFT].map(peer), calm())
}

fn receipt(serial: u32, hops: u8, outcome: Outcome) -> Output {
    let receipt = Receipt { to: peer(ORIGIN), serial, hops, by: peer(ME), outcome };
    Output::Send { to: peer(ORIGIN), body: Body::Receipt(Box::new(receipt)), dial: Dial::Never }
}

#[test]
fn a_message_for_this_node_is_delivered_and_the_answer_goes_to_its_origin() {
    let mut node = ring();
    let message = app_from(peer(ORIGIN), key(0x1100_0000), 5);
    let outputs = node.hear(peer(RIGHT), Body::Routed(message.clone()));
    let acknowledged = Output::Send { to: peer(RIGHT), body: ack(5), dial: Dial::IfNeeded };
    let deliver = Output::Deliver { routed: Box::new(message), not_after: None };
    assert_eq!(outputs, [acknowledged, Output::Note(Note::Delivered), deliver]);
    for bytes in [Some(b"answer".to_vec()), None] {
        let answer = Input::Answer { to: peer(ORIGIN), serial: 5, hops: 1, bytes: bytes.clone() };
        assert_eq!(node.feed(answer), [receipt(5, 1, Outcome::Delivered(bytes))]);
    }
}

#[test]
fn the_answer_to_an_own_message_comes_back_as_reply() {
    let mut node = ring();
    let outputs = node.route(9, key(0x1100_0000), b"bytes");
    let [message]: [Routed; 1] = delivered(&outputs).try_into().unwrap();
    assert_eq!((message.origin, message.hops), (peer(ME), 0));
    let answer = Input::Answer { to: peer(ME), serial: message.serial, hops: 0, bytes: None };
    let reply = Reply::Delivered { root: peer(ME), hops: 0, answer: None };
    assert_eq!(replies(&node.feed(answer)), [(9, Ok(reply))]);
}

#[test]
fn a_message_for_another_node_is_offered_to_the_applications_and_goes_on() {
    let mut node = ring();
    let message = app_from(peer(ORIGIN), key(0x4100_0000), 5);
    let outputs = node.hear(peer(LEFT), Body::Routed(message.clone()));
    let [acknowledged, note, forward] = &outputs[..3] else { panic!("{outputs:?}") };
    assert_eq!(*acknowledged, Output::Send { to: peer(LEFT), body: ack(5), dial: Dial::IfNeeded });
    assert_eq!(*note, Output::Note(Note::Forwarded(Rule::LeafSet)));
    let Output::Forward { to, routed } = forward else { panic!("{outputs:?}") };
    assert_eq!(*to, peer(RIGHT));
    assert_eq!(**routed, Routed { hop: routed.hop, hops: 2, stage: Stage::Leaf, ..message });
    // Once the next hop has it, this node has nothing more to do with it.
    assert_eq!(node.hear(peer(RIGHT), ack(routed.hop)), []);
    assert_eq!(sent(&node.wait(Duration::from_secs(20))), []);
}

#[test]
fn bytes_changed_by_an_application_stay_changed() {
    let mut node = ring();
    let first = routed_to(&node.route(1, key(0x4100_0000), b"before"), peer(RIGHT));
    let verdict = Verdict::Changed { to: peer(RIGHT), app: app(b"after") };
    assert_eq!(node.feed(Input::Forwarded { hop: first.hop, verdict }), []);
    // The hop stays silent, so that the message is sent once more.
    let again = routed_to(&node.fire(Timer::Hop), peer(RIGHT));
    assert_eq!(again.payload, Payload::App(Box::new(app(b"after"))));
    assert_eq!(again.serial, first.serial);
}

#[test]
fn a_message_redirected_by_an_application_is_waited_for_there() {
    let mut node = ring();
    let first = routed_to(&node.route(1, key(0x4100_0000), b"bytes"), peer(RIGHT));
    let verdict = Verdict::Changed { to: peer(LEFT), app: app(b"bytes") };
    node.feed(Input::Forwarded { hop: first.hop, verdict });
    assert!(node.refuses(peer(RIGHT), ack(first.hop), Refusal::Unsolicited));
    assert_eq!(node.hear(peer(LEFT), ack(first.hop)), []);
    assert_eq!(sent(&node.wait(Duration::from_secs(20))), []);
}

#[test]
fn a_message_stopped_by_an_application_goes_nowhere_and_its_origin_is_told() {
    let mut node = ring();
    let message = app_from(peer(ORIGIN), key(0x4100_0000), 5);
    let first = routed_to(&node.hear(peer(LEFT), Body::Routed(message)), peer(RIGHT));
    let outputs = node.feed(Input::Forwarded { hop: first.hop, verdict: Verdict::Stop });
    assert_eq!(outputs, [receipt(5, 1, Outcome::Stopped)]);

    let own = routed_to(&node.route(3, key(0x4100_0000), b"bytes"), peer(RIGHT));
    let outputs = node.feed(Input::Forwarded { hop: own.hop, verdict: Verdict::Stop });
    assert_eq!(replies(&outputs), [(3, Err(Failure::Stopped))]);
    assert_eq!(sent(&node.wait(Duration::from_secs(20))), []);
    // A verdict about a message that is gone means nothing.
    assert_eq!(node.feed(Input::Forwarded { hop: own.hop, verdict: Verdict::Stop }), []);
}

#[test]
fn a_changed_leaf_set_is_reported_with_what_it_means() {
    let mut node = Driver::founder(peer(ME), calm());
    let whole = node.node.range();
    let outputs = node.introduce(peer(RIGHT));
    let lost = whole.subtract(node.node.range());
    let mut expected = vec![Event::PeerUp(peer(RIGHT)), Event::NeighboursChanged];
    expected.extend(lost.into_iter().map(Event::RangeLost));
    assert_eq!(events(&outputs), expected);
    assert_eq!(events(&node.introduce(peer(RIGHT))), [], "the same again is no change");

    let half = node.node.range();
    let outputs = node.hear_pastry(peer(RIGHT), Message::Goodbye(Box::default()));
    let mut expected =
        vec![Event::Settled(peer(RIGHT).id), Event::PeerDown(peer(RIGHT)), Event::NeighboursChanged];
    expected.extend(whole.subtract(half).into_iter().map(Event::RangeGained));
    assert_eq!(events(&outputs), expected);
}

#[test]
fn a_lookup_ends_with_the_responsible_node() {
    let mut node = ring();
    let found = |root, hops| Ok(Reply::Found { root, hops, path: vec![], is_final: true });
    assert_eq!(replies(&node.lookup(1, key(0x1100_0000))), [(1, found(peer(ME), 0))]);
    let asked = routed_to(&node.lookup(2, key(0x4100_0000)), peer(RIGHT));
    let outcome = Outcome::Found(vec![]);
    let receipt = Receipt { to: peer(ME), serial: asked.serial, hops: 1, by: peer(RIGHT), outcome };
    let outputs = node.hear(peer(RIGHT), Body::Receipt(Box::new(receipt)));
    assert_eq!(replies(&outputs), [(2, found(peer(RIGHT), 1))]);
    let outputs = node.hear(peer(LEFT), Body::Routed(lookup_from(peer(ORIGIN), key(0x1100_0000), 8)));
    assert_eq!(outputs.last(), Some(&self::receipt(8, 1, Outcome::Found(vec![]))));
}

#[test]
fn a_traced_lookup_names_every_hop_with_its_rule() {
    let mut node = ring();
    node.measure(peer(RIGHT), millis(20));
    let deadline = Duration::from_secs(1);
    let command = Command::Lookup { key: key(0x4100_0000), trace: true, deadline };
    let asked = routed_to(&node.command(1, command), peer(RIGHT));
    let here = Hop { node: peer(ME), rule: Rule::LeafSet, proximity: Proximity(20_000) };
    assert_eq!(asked.payload, Payload::Trace(Box::new(vec![here])));
    // A repetition is still one hop.
    let again = routed_to(&node.fire(Timer::Hop), peer(RIGHT));
    assert_eq!(again.payload, asked.payload);

    let before = Hop { node: peer(ORIGIN), rule: Rule::RareCase, proximity: Proximity(1) };
    let payload = Payload::Trace(Box::new(vec![before]));
    let routed = Routed { payload, ..lookup_from(peer(ORIGIN), key(0x1100_0000), 8) };
    let outputs = node.hear(peer(LEFT), Body::Routed(routed));
    let end = Hop { node: peer(ME), rule: Rule::Here, proximity: Proximity(0) };
    assert_eq!(outputs.last(), Some(&receipt(8, 1, Outcome::Found(vec![before, end]))));
}

#[test]
fn the_next_hop_does_not_depend_on_how_far_away_it_is() {
    let mut node = ring();
    let hop = |node: &Driver| node.node.next_hop(key(0x3000_0000));
    let before = hop(&node);
    node.measure(peer(RIGHT), millis(400));
    node.measure(peer(LEFT), millis(1));
    assert_eq!(hop(&node), before);
    assert_eq!(before, NextHop::Peer(peer(RIGHT), Rule::LeafSet));
}

#[test]
fn a_message_that_arrives_twice_is_delivered_once_and_acknowledged_twice() {
    let mut node = ring();
    let message = app_from(peer(ORIGIN), key(0x1100_0000), 5);
    assert_eq!(delivered(&node.hear(peer(RIGHT), Body::Routed(message.clone()))).len(), 1);
    // The second copy came another way.
    let copy = Routed { hop: 6, hops: 3, ..message };
    let outputs = node.hear(peer(LEFT), Body::Routed(copy));
    assert_eq!(sent(&outputs), [(peer(LEFT), ack(6))]);
    assert_eq!((delivered(&outputs), notes(&outputs)), (vec![], vec![Note::Duplicate]));
}

#[test]
fn a_message_under_way_is_not_taken_a_second_time() {
    let mut node = ring();
    let message = app_from(peer(ORIGIN), key(0x4100_0000), 5);
    routed_to(&node.hear(peer(LEFT), Body::Routed(message.clone())), peer(RIGHT));
    let outputs = node.hear(peer(LEFT), Body::Routed(Routed { hop: 6, ..message }));
    assert_eq!((sent(&outputs), notes(&outputs)), (vec![(peer(LEFT), ack(6))], vec![Note::Duplicate]));
}

#[test]
fn a_message_with_too_many_hops_is_refused_and_its_origin_told() {
    let mut node = Driver::ready(peer(ME), &[RIGHT, LEFT].map(peer), Settings { hops_max: 3, ..calm() });
    for target in [0x1100_0000, 0x4100_0000].map(key) {
        let allowed = Routed { hops: 3, ..app_from(peer(ORIGIN), target, 5) };
        assert_eq!(refusals(&node.hear(peer(LEFT), Body::Routed(allowed))), []);
        let message = Routed { hops: 4, ..app_from(peer(ORIGIN), target, 6) };
        let outputs = node.hear(peer(LEFT), Body::Routed(message));
        assert_eq!(refusals(&outputs), [Refusal::TooManyHops]);
        assert_eq!(outputs.last(), Some(&receipt(6, 4, Outcome::TooManyHops)));
        assert_eq!((delivered(&outputs), routed(&outputs)), (vec![], vec![]));
    }
}

#[test]
fn hops_are_counted_up_to_the_largest_limit_there_is() {
    // One more than the limit is representable, so the limit is noticed at the next hop, and beyond that nothing wraps.
    for hops in [254, u8::MAX] {
        let settings = Settings { hops_max: 254, ..calm() };
        let mut node = Driver::ready(peer(ME), &[RIGHT, LEFT].map(peer), settings);
        let message = Routed { hops, ..app_from(peer(ORIGIN), key(0x4100_0000), 5) };
        let outputs = node.hear(peer(LEFT), Body::Routed(message));
        assert_eq!(sent_to(&outputs, peer(LEFT)), [ack(5)]);
        assert_eq!(refusals(&outputs) == [Refusal::TooManyHops], hops == u8::MAX);
    }
}

#[test]
fn a_node_outside_a_ring_takes_no_messages() {
    let (joining, _) = Driver::joining(peer(ME), peer(RIGHT), calm());
    for mut node in [Driver::out(peer(ME), calm()), joining] {
        let before = node.node.clone();
        let outputs = node.hear(peer(LEFT), Body::Routed(lookup_from(peer(ORIGIN), key(0x1100_0000), 5)));
        assert_eq!(sent(&outputs), [(peer(LEFT), no_ack(5))]);
        assert_eq!(notes(&outputs), [Note::Refused(Refusal::NotJoined)]);
        assert!(node.node == before);
    }
}

#[test]
fn a_joiner_that_has_its_place_keeps_messages_and_passes_them_on_when_ready() {
    let (mut node, join) = Driver::joining(peer(ME), peer(RIGHT), calm());
    let probes = node.hear(peer(RIGHT), join_reply(&join, true, &[peer(LEFT)]));
    assert_eq!(node.node.status(), Status::Waiting);
    let early = [
        app_from(peer(ORIGIN), key(0x1100_0000), 5),
        lookup_from(peer(ORIGIN), key(0x4100_0000), 6),
        join_from(peer(0x1010_0000), 7),
    ];
    for message in early {
        let hop = message.hop;
        let outputs = node.hear(peer(LEFT), Body::Routed(message));
        assert_eq!((sent(&outputs), delivered(&outputs)), (vec![(peer(LEFT), ack(hop))], vec![]));
        assert_eq!(notes(&outputs), [Note::Held]);
    }
    let outputs = node.answer_probes(probes);
    assert_eq!(delivered(&outputs).len(), 1);
    assert_eq!(routed_to(&outputs, peer(RIGHT)).serial, 6);
    assert_eq!(count(&outputs, Note::Helping), 1);
}

#[test]
fn a_node_with_too_much_in_hand_takes_no_more() {
    let mut node = Driver::ready(peer(ME), &[RIGHT, LEFT].map(peer), Settings { transits: 1, ..calm() });
    node.hear(peer(LEFT), Body::Routed(lookup_from(peer(ORIGIN), key(0x4100_0000), 5)));
    let outputs = node.hear(peer(LEFT), Body::Routed(lookup_from(peer(ORIGIN), key(0x4100_0000), 6)));
    assert_eq!(sent(&outputs), [(peer(LEFT), no_ack(6))]);
    assert_eq!(refusals(&outputs), [Refusal::Full]);
}

#[test]
fn an_acknowledgement_names_a_better_entry_to_a_sender_that_gained_no_digit() {
    let better = peer(0x8100_0000);
    let mut node = Driver::ready(peer(ME), &[0x1001_0000, 0x0fff_0000].map(peer), narrow());
    node.announce(better, 1);
    let mut better_for = |from: Contact, target| {
        let outputs = node.hear(from, Body::Routed(lookup_from(peer(ORIGIN), target, 5)));
        let [first, ..] = &sent_to(&outputs, from)[..] else { panic!("{outputs:?}") };
        let Body::HopAck(HopAck { hop: 5, taken: true, better }) = first else { panic!("{first:?}") };
        for (to, on) in routed(&outputs) {
            node.hear(to, ack(on.hop));
        }
        *better
    };
    assert_eq!(better_for(peer(0x2000_0000), key(0x8222_0000)), Some(better));
    assert_eq!(better_for(peer(0x2000_0000), key(0x1222_0000)), None, "coming here gained a digit");
    assert_eq!(better_for(peer(0x8800_0000), key(0x8222_0000)), None, "it has one of its own");
    assert_eq!(better_for(peer(0x1001_0000), key(0x8222_0000)), None, "leaves come here for another reason");
}

#[test]
fn a_better_entry_named_by_a_hop_is_probed_and_enters_the_table() {
    let better = peer(0x8100_0000);
    let mut node = Driver::ready(peer(ME), &[0x1001_0000, 0x0fff_0000].map(peer), narrow());
    node.announce(peer(0x7000_0000), 1);
    let asked = routed_to(&node.lookup(1, key(0x8222_0000)), peer(0x7000_0000));
    let acknowledged = HopAck { hop: asked.hop, taken: true, better: Some(better) };
    let outputs = node.hear(peer(0x7000_0000), Body::HopAck(acknowledged));
    assert_eq!(notes(&outputs), [Note::LazyRepair]);
    assert_eq!(probed(&outputs), [better]);
    assert!(!node.knows(better));
    node.answer_after(better, &outputs, millis(10));
    routed_to(&node.lookup(2, key(0x8222_0000)), better);
}
