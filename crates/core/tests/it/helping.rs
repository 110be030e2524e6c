//! How the nodes of a ring help a newcomer in: hops, the root, and those it announces itself to.

use kringle_core::config::Settings;
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::edge::{Note, Output, Refusal, Timer};
use kringle_core::message::{Body, Payload, Routed, Rule, Stage};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{
    Announce, Join, JoinRefusal, JoinReply, LeafProbe, LeafReply, Message, Race, Versions,
};
use kringle_core::overlay::timing::FIRST;

use crate::harness::*;

const ME: u32 = 0x1000_0000;
/// Another node of the ring, through which joins come.
const HOP: u32 = 0x8000_0000;

fn join_in(routed: &Routed) -> &Join {
    let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
    join
}

fn join_replies(outputs: &[Output]) -> Vec<(Contact, JoinReply)> {
    let reply = |(to, body)| match body {
        Body::Pastry(Message::JoinReply(reply)) => Some((to, *reply)),
        _ => None,
    };
    sent(outputs).into_iter().filter_map(reply).collect()
}

fn refused(nonce: u32, reason: JoinRefusal) -> Body {
    Body::Pastry(Message::JoinRefused { nonce, reason })
}

#[test]
fn a_passing_join_gains_this_hop_and_the_rows_the_joiner_can_use() {
    let joiner = peer(0x1234_0000);
    // Rows 0 and 1 fit a joiner that shares one digit, row 2 does not.
    let row0 = [0x8000_0000, 0x9000_0000].map(peer);
    let row1 = [0x1300_0000, 0x1800_0000].map(peer);
    let row2 = [0x1070_0000].map(peer);
    let mut node = Driver::ready(peer(ME), &[&row0[..], &row1, &row2].concat(), calm());
    node.measure(row0[1], millis(10));
    let me = (peer(ME), node.versions());

    // The first hop is near the joiner, so its neighbourhood set comes along.
    let passed = routed_to(&node.hear(joiner, Body::Routed(join_from(joiner, 1))), row1[0]);
    assert_eq!((passed.key, passed.origin, passed.serial, passed.hops), (joiner.id, joiner, 1, 2));
    assert_eq!(passed.stage, Stage::Leaf);
    let contacts = [&[row0[1]], &row0[..], &row1].concat();
    assert_eq!(*join_in(&passed), Join { nonce: 1, rows_done: 2, path: vec![me], contacts });

    // A later hop adds only rows that nobody has added before.
    let before = (peer(HOP), Versions { leaf_set: 1, table: 2, neighbourhood: 3 });
    let join = Join { nonce: 2, rows_done: 1, path: vec![before], contacts: vec![row0[0]] };
    let routed = Routed { payload: Payload::Join(Box::new(join)), ..join_from(joiner, 2) };
    let passed = routed_to(&node.hear(peer(HOP), Body::Routed(routed)), row1[0]);
    let contacts = [&row0[..1], &row1].concat();
    assert_eq!(*join_in(&passed), Join { nonce: 2, rows_done: 2, path: vec![before, me], contacts });
}

#[test]
fn a_join_goes_another_way_around_a_hop_that_does_not_answer() {
    let (silent, spare) = (peer(0x8000_0000), peer(0x8100_0000));
    let mut node = Driver::ready(peer(ME), &[0x1001_0000, 0x0fff_0000].map(peer), narrow());
    node.announce(silent, 1);
    let outputs = node.push(&[spare]);
    node.answer_after(spare, &outputs, millis(10));
    assert_eq!(node.cell(spare), [silent, spare]);

    let joiner = peer(0x8234_0000);
    let first = routed_to(&node.hear(joiner, Body::Routed(join_from(joiner, 1))), silent);
    let outputs = node.fire(Timer::Hop);
    let second = routed_to(&outputs, spare);
    assert_eq!(second, Routed { hop: second.hop, ..first });
    assert!(notes(&outputs).contains(&Note::Forwarded(Rule::Spare { row: 0, column: 8 })));
    ping_to(&outputs, silent);
    assert!(node.suspects(silent) && node.knows(silent));
}

#[test]
fn the_root_answers_a_join_once_with_everything_collected_and_its_leaf_set() {
    let leaves = [HOP, 0x1800_0000].map(peer);
    let mut node = Driver::ready(peer(ME), &leaves, calm());
    let joiner = peer(0x1010_0000);
    let before = (peer(HOP), Versions { leaf_set: 1, table: 2, neighbourhood: 3 });
    let given = [0x9000_0000, 0x1800_0000].map(peer);
    let join = Join { nonce: 5, rows_done: 1, path: vec![before], contacts: given.to_vec() };
    let routed = Routed { payload: Payload::Join(Box::new(join)), ..join_from(joiner, 5) };
    let versions = node.versions();
    let outputs = node.hear(peer(HOP), Body::Routed(routed));
    let path = vec![before, (peer(ME), versions)];
    // The row of the root repeats a contact the hop had given: each is sent once.
    let join = Join { nonce: 5, rows_done: 3, path, contacts: vec![peer(0x1800_0000), peer(0x9000_0000)] };
    let reply = JoinReply { join, whole: true, leaves: leaves.to_vec(), versions };
    let reply = Body::Pastry(Message::JoinReply(Box::new(reply)));
    assert_eq!(sent(&outputs), [(peer(HOP), ack(5)), (joiner, reply)]);
    assert!(!node.knows(joiner), "the joiner is taken in when it shows itself");
}

#[test]
fn a_joiner_known_from_an_earlier_life_is_helped_as_if_it_were_new() {
    let (digits, other) = (0x1010_0000, peer(0x1800_0000));
    let mut node = Driver::ready(peer(ME), &[peer(digits), other, peer(HOP)], calm());
    // It comes through another hop, so that we have not heard of its new life ourselves.
    let outputs = node.hear(peer(HOP), Body::Routed(join_from(life(digits, 2), 1)));
    let [(to, reply)]: [(Contact, JoinReply); 1] = join_replies(&outputs).try_into().unwrap();
    assert_eq!(to, life(digits, 2));
    assert_eq!(reply.leaves, [peer(HOP), other], "it is not told about itself");
}

#[test]
fn a_taken_id_is_refused() {
    let digits = 0x1010_0000;
    let mut node = Driver::ready(peer(ME), &[life(digits, 4), peer(HOP)], calm());
    let elsewhere = Contact { addr: Addr(99), ..life(digits, 4) };
    let own = Contact { addr: Addr(99), ..peer(ME) };
    for joiner in [elsewhere, life(digits, 3), own] {
        let outputs = node.hear(peer(HOP), Body::Routed(join_from(joiner, 1)));
        assert_eq!(sent_to(&outputs, joiner), [refused(1, JoinRefusal::IdTaken)]);
        assert_eq!(join_replies(&outputs), []);
    }
    let outputs = node.hear(peer(HOP), Body::Routed(join_from(life(digits, 4), 1)));
    assert_eq!(join_replies(&outputs).len(), 1, "the same node once more is no other");
}

#[test]
fn a_second_joiner_waits_and_its_join_is_routed_on_when_the_first_is_a_leaf() {
    let (first, second) = (peer(0x1001_0000), peer(0x1002_0000));
    let mut node = Driver::ready(peer(ME), &[peer(HOP)], calm());
    let outputs = node.hear(peer(HOP), Body::Routed(join_from(first, 1)));
    assert_eq!(join_replies(&outputs).len(), 1);
    assert_eq!(count(&outputs, Note::Helping), 1);
    let outputs = node.hear(peer(HOP), Body::Routed(join_from(second, 2)));
    assert_eq!((sent(&outputs), notes(&outputs)), (vec![(peer(HOP), ack(2))], vec![Note::Queued]));
    // A stranger's probe changes nothing.
    assert_eq!(routed(&node.introduce(peer(0x7000_0000))), []);
    // The first is nearer to the second than we are, so it is the root by now. It need not be ready for that.
    let passed = routed_to(&node.introduce(first), first);
    assert_eq!((passed.origin, join_in(&passed).nonce), (second, 2));
}

#[test]
fn a_joiner_that_dies_makes_way_for_the_next() {
    let (first, second) = (peer(0x1001_0000), peer(0x0fff_0000));
    // It is known from before, and has not probed us since it asked.
    let mut node = Driver::ready(peer(ME), &[peer(HOP), first], calm());
    node.hear(peer(HOP), Body::Routed(join_from(first, 1)));
    node.hear(peer(HOP), Body::Routed(join_from(second, 2)));
    let outputs = node.hear_pastry(first, Message::Goodbye(Box::default()));
    assert_eq!(join_replies(&outputs).len(), 1);
    assert_eq!(join_replies(&outputs)[0].0, second);
}

#[test]
fn a_queue_goes_on_past_joiners_that_belong_to_somebody_else_by_now() {
    let first = peer(0x1001_0000);
    let others = [peer(0x1002_0000), peer(0x1003_0000)];
    let mine = peer(0x0fff_0000);
    let mut node = Driver::ready(peer(ME), &[peer(HOP)], calm());
    node.hear(peer(HOP), Body::Routed(join_from(first, 1)));
    for (nonce, joiner) in (2..).zip([others[0], others[1], mine]) {
        node.hear(peer(HOP), Body::Routed(join_from(joiner, nonce)));
    }
    let mut outputs = node.introduce(first);
    // The first looks after the two from here on; otherwise they would be sent again.
    for (_, passed) in routed(&outputs) {
        outputs.extend(node.hear(first, ack(passed.hop)));
    }
    for _ in 0..4 {
        let later = node.wait(node.config.help_timeout);
        for (to, passed) in routed(&later) {
            node.hear(to, ack(passed.hop));
        }
        outputs.extend(later);
    }
    let passed: Vec<Contact> = routed(&outputs).iter().map(|(_, routed)| routed.origin).collect();
    assert_eq!(passed, others);
    assert_eq!(join_replies(&outputs).first().map(|(to, _)| *to), Some(mine));
}

#[test]
fn joiners_beyond_the_queue_are_told_to_come_back() {
    let mut node = Driver::ready(peer(ME), &[peer(HOP)], Settings { help_queue: 2, ..calm() });
    for (nonce, digits) in (1..).zip([0x1001_0000, 0x1002_0000, 0x1003_0000]) {
        let outputs = node.hear(peer(HOP), Body::Routed(join_from(peer(digits), nonce)));
        assert_eq!(sent(&outputs).len(), if nonce == 1 { 2 } else { 1 });
    }
    let late = peer(0x1004_0000);
    let outputs = node.hear(peer(HOP), Body::Routed(join_from(late, 4)));
    assert_eq!(sent_to(&outputs, late), [refused(4, JoinRefusal::Busy)]);
    // One that asks again only renews its place.
    let again = peer(0x1002_0000);
    let outputs = node.hear(peer(HOP), Body::Routed(join_from(again, 5)));
    assert_eq!(notes(&outputs), [Note::Queued]);
}

#[test]
fn a_node_helps_joiners_while_its_own_leases_are_on_their_way() {
    let (me, root, joiner) = (peer(ME), peer(HOP), peer(0x1001_0000));
    let (mut node, join) = Driver::joining(me, root, crate::leasing::leased());
    let outputs = node.hear(root, join_reply(&join, true, &[]));
    let held = node.hear(root, Body::Routed(join_from(joiner, 1)));
    assert_eq!(join_replies(&held), [], "its leaves have not answered yet");
    let probe = leaf_probe_to(&outputs, root);
    let mut outputs = node.hear(root, leaf_reply(probe.nonce, None));
    assert_eq!(node.node.status(), Status::Ok);
    outputs.extend(node.wait(node.config.hop_timeout_max));
    assert_eq!(join_replies(&outputs).len(), 1);
}

#[test]
fn help_is_dropped_after_its_time() {
    let (first, second) = (peer(0x1001_0000), peer(0x0fff_0000));
    let mut node = Driver::ready(peer(ME), &[peer(HOP)], calm());
    node.hear(peer(HOP), Body::Routed(join_from(first, 1)));
    node.hear(peer(HOP), Body::Routed(join_from(second, 2)));
    assert_eq!(node.left(Timer::Help), FIRST, "no round trip was measured");
    let outputs = node.fire(Timer::Help);
    assert_eq!(join_replies(&outputs).iter().map(|(to, _)| *to).collect::<Vec<_>>(), [second]);
    assert_eq!(sent(&node.fire(Timer::Help)), []);
}

#[test]
fn a_leaf_prober_is_a_leaf_before_the_answer_leaves() {
    let (old, new) = (peer(HOP), peer(0x1001_0000));
    let mut node = Driver::ready(peer(ME), &[old], calm());
    let before = node.versions().leaf_set;
    let probe =
        |nonce, seen| Message::LeafProbe(Box::new(LeafProbe { nonce, seen, leaves: vec![], digest: None }));
    let outputs = node.hear_pastry(new, probe(3, None));
    let after = node.versions().leaf_set;
    assert!(after > before);
    let reply = LeafReply { nonce: 3, version: after, leaves: Some(vec![old, new]) };
    assert_eq!(sent(&outputs), [(new, Body::Pastry(Message::LeafReply(Box::new(reply))))]);
    assert_eq!(node.leaves(), [new, old]);
    // Whoever has seen this version is not sent it again.
    let outputs = node.hear_pastry(new, probe(4, Some(after)));
    let reply = LeafReply { nonce: 4, version: after, leaves: None };
    assert_eq!(sent(&outputs), [(new, Body::Pastry(Message::LeafReply(Box::new(reply))))]);
}

#[test]
fn leaves_brought_by_a_leaf_probe_are_probed_first() {
    let (new, other) = (peer(0x1001_0000), peer(0x1002_0000));
    let mut node = Driver::founder(peer(ME), calm());
    let probe = LeafProbe { nonce: 3, seen: None, leaves: vec![other, peer(ME)], digest: None };
    let outputs = node.hear_pastry(new, Message::LeafProbe(Box::new(probe)));
    assert_eq!(probed(&outputs), [other]);
    assert_eq!(node.leaves(), [new]);
    node.answer_probes(outputs);
    assert_eq!(node.leaves(), [new, other]);
}

#[test]
fn an_announcement_built_on_old_tables_gets_one_race_and_the_announcer_is_taken_in_anyway() {
    let known = [peer(0x8000_0000), peer(0x1800_0000)];
    let new = peer(0x1234_0000);
    let fresh = Driver::ready(peer(ME), &known, calm()).versions();
    let old = |leaf_set: u32, table: u32| Versions {
        leaf_set: fresh.leaf_set - leaf_set,
        table: fresh.table - table,
        ..fresh
    };
    let (leaves, row) = (vec![known[0], known[1]], vec![known[1]]);
    let cases = [
        (old(0, 0), None),
        (old(1, 0), Some(leaves.clone())),
        (old(0, 1), Some(row.clone())),
        (old(1, 1), Some([leaves, row].concat())),
    ];
    for (seen, expected) in cases {
        let mut node = Driver::ready(peer(ME), &known, calm());
        let announce = Announce { seen: Some(seen), proximity: Proximity(9), round: 0 };
        let outputs = node.hear_pastry(new, Message::Announce(announce));
        assert_eq!(node.cell(new), [new]);
        assert!(node.leaves().contains(&new));
        let expected = expected.map(|contacts| Race { versions: node.versions(), round: 0, contacts });
        let races = sent_to(&outputs, new).into_iter().filter_map(|body| match body {
            Body::Pastry(Message::Race(race)) => Some(*race),
            _ => None,
        });
        assert_eq!(races.collect::<Vec<_>>(), Vec::from_iter(expected.clone()));
        assert_eq!(count(&outputs, Note::Raced), usize::from(expected.is_some()));
    }
}

#[test]
fn an_announcement_without_versions_or_in_a_late_round_causes_no_race() {
    let known = [peer(0x8000_0000), peer(0x1800_0000)];
    for (seen, round) in [(None, 0), (Some(Versions::default()), 3)] {
        let mut node = Driver::ready(peer(ME), &known, calm());
        let announce = Announce { seen, proximity: Proximity(9), round };
        let outputs = node.hear_pastry(peer(0x9000_0000), Message::Announce(announce));
        // It is measured, because what it says of its nearness is only a claim; nothing else is said.
        assert_eq!(probed(&outputs), [peer(0x9000_0000)]);
        assert_eq!(sent(&outputs).len(), 1);
        assert_eq!(node.cell(peer(0x9000_0000)), [peer(0x9000_0000)]);
    }
}

#[test]
fn a_race_is_answered_to_its_sender_only_and_ends_after_three_rounds() {
    let (from, named) = (peer(HOP), peer(0x9000_0000));
    let mut node = Driver::ready(peer(ME), &[from, peer(0x1800_0000)], calm());
    let versions = Versions { leaf_set: 9, table: 8, neighbourhood: 7 };
    for round in 0..3 {
        let race = Race { versions, round, contacts: vec![named] };
        let outputs = node.hear_pastry(from, Message::Race(Box::new(race)));
        let announce = Announce { seen: Some(versions), proximity: Proximity::UNKNOWN, round: round + 1 };
        assert_eq!(announces(&outputs), [(from, announce)]);
        // What changed is taken in like anything heard of: by a probe.
        assert_eq!(probed(&outputs), if round == 0 { vec![named] } else { vec![] });
    }
    let race = |round| Body::Pastry(Message::Race(Box::new(Race { versions, round, contacts: vec![] })));
    assert!(node.refuses(from, race(3), Refusal::Unsolicited));
    assert!(node.refuses(peer(STRANGER), race(0), Refusal::Unsolicited));
}

#[test]
fn an_announcement_fills_an_empty_cell_but_displaces_nobody_without_a_measurement() {
    let mut node = Driver::ready(peer(ME), &[0x1001_0000, 0x0fff_0000].map(peer), narrow());
    let [first, near, far] = [0x9000_0000, 0x9100_0000, 0x9200_0000].map(peer);
    assert_eq!(sent(&node.announce(first, 50_000)), []);
    assert_eq!(node.cell(first), [first]);
    // It says it is farther away than the holder: not even worth a look.
    assert_eq!(sent(&node.announce(far, 60_000)), []);
    assert_eq!(node.cell(first), [first]);
    // It says it is nearer: seen for ourselves.
    let outputs = node.announce(near, 1);
    assert_eq!(node.cell(first), [first]);
    assert_eq!(probed(&outputs), [near]);
    node.answer_after(near, &outputs, millis(10));
    assert_eq!(node.cell(first), [near, first]);
}
