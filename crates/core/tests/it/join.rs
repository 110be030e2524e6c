//! How a node comes into a ring, from its own side: which messages it sends, whom it takes in, and when it is ready.

use kringle_core::config::{OverlayKind, Settings};
use kringle_core::contact::{Contact, Proximity};
use kringle_core::edge::{Command, Event, Failure, Note, Output, Refusal, Reply, Timer};
use kringle_core::message::{Body, Payload, Routed, Stage};
use kringle_core::overlay::Status;
use kringle_core::overlay::chord::Message as Chord;
use kringle_core::overlay::pastry::{Announce, Join, JoinRefusal, Message, Versions, What};
use kringle_core::overlay::timing::FIRST;
use kringle_core::range::IdRange;

use crate::harness::*;

const ME: u32 = 0x1000_0000;
/// The root of our id, and with it our neighbour.
const ROOT: u32 = 0x1200_0000;
/// Leaves of the root on either side of us.
const LEFT: u32 = 0x0f00_0000;
const RIGHT: u32 = 0x1400_0000;
/// Nodes too far away to be leaves.
const HOP: u32 = 0x8000_0000;
const FAR: u32 = 0x9000_0000;

/// The join as it arrives at the root, after hops have put something in.
fn carried(routed: &Routed, path: &[(Contact, Versions)], contacts: &[Contact]) -> Routed {
    let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
    let join = Join { path: path.to_vec(), contacts: contacts.to_vec(), ..Join::clone(join) };
    Routed { payload: Payload::Join(Box::new(join)), ..routed.clone() }
}

fn joined(outputs: &[Output]) -> bool {
    replies(outputs) == [(0, Ok(Reply::Joined))]
}

#[test]
fn a_join_leaves_with_the_own_id_as_key() {
    let mut node = Driver::out(peer(ME), Settings { find_nearby: false, ..calm() });
    let outputs = node.command(0, Command::Join { seeds: vec![peer(ROOT), peer(FAR)] });
    let routed = routed_to(&outputs, peer(ROOT));
    let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
    assert_eq!((routed.key, routed.origin, routed.hops), (peer(ME).id, peer(ME), 1));
    assert_eq!(routed.stage, Stage::Prefix);
    assert_eq!((join.rows_done, &join.path, &join.contacts), (0, &vec![], &vec![]));
    assert_eq!(events(&outputs), [Event::StatusChanged(Status::Joining)]);
    assert_eq!(replies(&outputs), []);
}

#[test]
fn a_silent_seed_is_followed_by_the_next_after_pauses_that_grow_up_to_a_maximum() {
    let settings = Settings { find_nearby: false, join_backoff_max: millis(4000), ..calm() };
    let mut node = Driver::out(peer(ME), settings);
    let seeds = [peer(ROOT), peer(FAR)];
    let mut outputs = node.command(0, Command::Join { seeds: seeds.to_vec() });
    for attempt in 0..8 {
        routed_to(&outputs, seeds[attempt % 2]);
        assert_eq!(node.left(Timer::Join), FIRST, "no round trip was measured");
        let late = node.fire(Timer::Join);
        assert_eq!(notes(&late), [Note::JoinRetried]);
        assert_eq!(sent(&late), []);
        // Longer from round to round. Jittered: half to one and a half times the nominal pause.
        let nominal = millis(500 << (attempt / 2)).min(millis(4000));
        let pause = node.left(Timer::Join);
        assert!(pause >= nominal / 2 && pause < nominal * 3 / 2, "pause {attempt}: {pause:?}");
        outputs = node.fire(Timer::Join);
    }
    assert_eq!(node.node.status(), Status::Joining);
}

#[test]
fn a_seed_that_does_not_answer_the_search_is_followed_by_the_next() {
    let mut node = Driver::out(peer(ME), calm());
    let outputs = node.command(0, Command::Join { seeds: vec![peer(FAR), peer(ROOT)] });
    assert_eq!(request_in(&outputs).0, peer(FAR));
    let late = node.wait(FIRST);
    assert_eq!(count(&late, Note::JoinRetried), 1);
    let outputs = node.wait(node.left(Timer::Join));
    assert_eq!(request_in(&outputs).0, peer(ROOT));
}

#[test]
fn a_seed_that_cannot_help_now_is_followed_by_the_next() {
    let settings = Settings { find_nearby: false, ..calm() };
    for busy in [false, true] {
        let mut node = Driver::out(peer(ME), settings.clone());
        let outputs = node.command(0, Command::Join { seeds: vec![peer(FAR), peer(ROOT)] });
        let routed = routed_to(&outputs, peer(FAR));
        let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
        let refusal = Message::JoinRefused { nonce: join.nonce, reason: JoinRefusal::Busy };
        let answer = if busy { Body::Pastry(refusal) } else { no_ack(routed.hop) };
        assert_eq!(notes(&node.hear(peer(FAR), answer)), [Note::JoinRetried]);
        routed_to(&node.fire(Timer::Join), peer(ROOT));
    }
}

#[test]
fn a_join_that_names_nobody_else_fails_and_founds_nothing() {
    let mut node = Driver::out(peer(ME), calm());
    for seeds in [vec![], vec![peer(ME)], vec![life(ME, 9)]] {
        let outputs = node.command(3, Command::Join { seeds });
        assert_eq!(replies(&outputs), [(3, Err(Failure::NoSeeds))]);
        assert_eq!(outputs.len(), 1);
        assert_eq!(node.node.status(), Status::Out);
    }
}

#[test]
fn creating_founds_a_ring_of_one_that_is_ready_at_once() {
    let mut node = Driver::out(peer(ME), calm());
    let outputs = node.command(4, Command::Create);
    assert_eq!(replies(&outputs), [(4, Ok(Reply::Joined))]);
    assert_eq!(events(&outputs), [Event::StatusChanged(Status::Ready), Event::RangeGained(IdRange::Full)]);
    assert_eq!(sent(&outputs), []);
    assert_eq!(node.node.range(), IdRange::Full);
}

#[test]
fn contacts_of_a_join_reply_enter_no_table_before_they_answer() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    let routed = carried(&routed, &[(peer(HOP), Versions::default())], &[peer(FAR)]);
    let outputs = node.hear(peer(ROOT), join_reply(&routed, false, &[peer(LEFT), peer(RIGHT)]));
    let named = [LEFT, ROOT, RIGHT, HOP, FAR].map(peer);
    assert_eq!(probed(&outputs), named);
    assert_eq!(
        leaf_probes(&outputs).len(),
        3,
        "leaves are told that they have a neighbour, others only pinged"
    );
    assert!(!named.iter().any(|contact| node.knows(*contact)));
    for (contact, answer) in sent(&outputs).iter().filter_map(|(to, body)| Some((*to, answer_to(body)?))) {
        assert!(!node.knows(contact));
        node.hear(contact, answer);
        assert!(node.knows(contact));
    }
    assert_eq!(node.leaves(), [ROOT, RIGHT, LEFT].map(peer));
    assert_eq!(node.cell(peer(FAR)), [peer(FAR)]);
}

#[test]
fn a_dead_candidate_does_not_stop_a_join_and_enters_no_table() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    let routed = carried(&routed, &[], &[peer(FAR)]);
    let outputs = node.hear(peer(ROOT), join_reply(&routed, false, &[peer(LEFT), peer(RIGHT)]));
    for live in [ROOT, LEFT].map(peer) {
        let probe = leaf_probe_to(&outputs, live);
        assert!(!joined(&node.hear(live, leaf_reply(probe.nonce, None))));
    }
    // Three attempts, the waits growing from the longest one, since nothing is known about the silent two.
    let start = node.now;
    let mut outputs = node.fire(Timer::Probe);
    while !joined(&outputs) {
        assert_eq!(probed(&outputs), [RIGHT, FAR].map(peer));
        outputs = node.fire(Timer::Probe);
    }
    assert_eq!(node.now.since(start), node.config.probe_timeout_max * 6);
    assert_eq!(node.leaves(), [ROOT, LEFT].map(peer));
    assert!(!node.knows(peer(RIGHT)) && !node.knows(peer(FAR)));
}

#[test]
fn a_joiner_is_ready_exactly_when_its_last_leaf_probe_is_closed() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    let routed = carried(&routed, &[], &[peer(FAR)]);
    let probes = node.hear(peer(ROOT), join_reply(&routed, false, &[peer(LEFT), peer(RIGHT)]));
    assert_eq!(events(&probes), [Event::StatusChanged(Status::Waiting)]);
    let start = node.now;
    for leaf in [RIGHT, ROOT].map(peer) {
        let outputs = node.hear(leaf, leaf_reply(leaf_probe_to(&probes, leaf).nonce, None));
        assert!(!joined(&outputs) && node.node.status() == Status::Waiting);
        assert_eq!(node.node.range(), IdRange::Empty);
    }
    // The ping to the far node is still open: it is no leaf, so nobody waits for it.
    let outputs = node.hear(peer(LEFT), leaf_reply(leaf_probe_to(&probes, peer(LEFT)).nonce, None));
    assert!(joined(&outputs) && node.node.status() == Status::Ready);
    assert_eq!(node.now, start);
    assert!(events(&outputs).contains(&Event::StatusChanged(Status::Ready)));
    assert!(events(&outputs).contains(&Event::RangeGained(node.node.range())));
}

#[test]
fn leaves_named_by_leaves_are_probed_before_a_joiner_is_ready() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    let probes = node.hear(peer(ROOT), join_reply(&routed, false, &[]));
    assert_eq!(probed(&probes), [peer(ROOT)]);
    let nonce = leaf_probe_to(&probes, peer(ROOT)).nonce;
    let outputs = node.hear(peer(ROOT), leaf_reply(nonce, Some(&[LEFT, ME, RIGHT].map(peer))));
    assert_eq!(probed(&outputs), [LEFT, RIGHT].map(peer));
    assert!(!joined(&outputs));
    assert!(replies(&node.answer_probes(outputs)).contains(&(0, Ok(Reply::Joined))));
    assert_eq!(node.leaves(), [ROOT, RIGHT, LEFT].map(peer));
}

#[test]
fn a_join_whose_leaves_are_all_silent_starts_over() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    node.hear(peer(ROOT), join_reply(&routed, true, &[peer(LEFT)]));
    assert_eq!(node.node.status(), Status::Waiting);
    let outputs = node.wait(node.config.probe_timeout_max * 6);
    assert_eq!(count(&outputs, Note::JoinRetried), 1);
    assert_eq!((node.node.status(), replies(&outputs)), (Status::Joining, vec![]));
    routed_to(&node.wait(node.left(Timer::Join)), peer(ROOT));
}

#[test]
fn a_ready_joiner_announces_itself_to_its_table_with_versions_seen_first_hand_only() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    let seen = Versions { leaf_set: 3, table: 5, neighbourhood: 7 };
    let routed = carried(&routed, &[(peer(HOP), seen)], &[peer(FAR)]);
    let probes = node.hear(peer(ROOT), join_reply(&routed, false, &[peer(LEFT), peer(RIGHT)]));
    for far in [HOP, FAR].map(peer) {
        assert_eq!(announces(&node.hear(far, Body::Pong(ping_to(&probes, far)))), [], "not yet");
    }
    let outputs = node.answer_probes(probes);
    let announce = |seen| Announce { seen, proximity: Proximity(1), round: 0 };
    let root = Some(Versions::default());
    // Leaves know the joiner from its probes; the root is told all the same, because it waits to help the next.
    let expected = [(HOP, Some(seen)), (FAR, None), (ROOT, root)];
    assert_eq!(announces(&outputs), expected.map(|(to, seen)| (peer(to), announce(seen))));
}

#[test]
fn a_node_that_answers_after_the_join_is_announced_to_when_it_enters_the_table() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    let routed = carried(&routed, &[], &[peer(FAR)]);
    let probes = node.hear(peer(ROOT), join_reply(&routed, false, &[]));
    let outputs = node.hear(peer(ROOT), leaf_reply(leaf_probe_to(&probes, peer(ROOT)).nonce, None));
    assert!(joined(&outputs));
    assert!(announces(&outputs).iter().all(|(to, _)| *to != peer(FAR)));
    let outputs = node.answer_after(peer(FAR), &probes, millis(20));
    let announce = Announce { seen: None, proximity: Proximity(20_000), round: 0 };
    assert_eq!(announces(&outputs), [(peer(FAR), announce)]);
    assert_eq!(node.cell(peer(FAR)), [peer(FAR)]);
}

#[test]
fn every_root_that_helped_is_told_when_the_joiner_is_ready() {
    // A root that had the first attempt in its queue answers it after another root has answered the second.
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    let probes = node.hear(peer(ROOT), join_reply(&routed, false, &[peer(LEFT)]));
    assert_eq!(node.hear(peer(LEFT), join_reply(&routed, false, &[peer(RIGHT)])), []);
    let outputs = node.answer_probes(probes);
    let told: Vec<Contact> = announces(&outputs).into_iter().map(|(to, _)| to).collect();
    assert_eq!(told, [ROOT, LEFT].map(peer));
}

#[test]
fn two_nodes_end_in_each_others_leaf_set_and_table() {
    let founder = Driver::founder(peer(ROOT), calm());
    let mut nodes = [founder, Driver::out(peer(ME), calm())];
    let outputs = nodes[1].command(0, Command::Join { seeds: vec![peer(ROOT)] });
    let outputs = carry(&mut nodes, 1, outputs);
    assert_eq!(replies(&outputs), [(0, Ok(Reply::Joined))]);
    for (node, other) in [(&nodes[0], peer(ME)), (&nodes[1], peer(ROOT))] {
        assert_eq!(node.node.status(), Status::Ready);
        assert_eq!(node.leaves(), [other]);
        assert_eq!(node.cell(other), [other]);
        assert!(node.pastry().router().leaf_set().is_whole());
    }
    assert_eq!(nodes[0].node.range(), IdRange::complement(nodes[1].node.range()));
}

#[test]
fn a_taken_id_ends_the_join_for_good() {
    let (mut node, routed) = Driver::joining(peer(ME), peer(ROOT), calm());
    let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
    let refused = |nonce| Body::Pastry(Message::JoinRefused { nonce, reason: JoinRefusal::IdTaken });
    assert!(node.refuses(peer(ROOT), refused(join.nonce ^ 1), Refusal::Unsolicited));
    let outputs = node.hear(peer(ROOT), refused(join.nonce));
    assert_eq!(replies(&outputs), [(0, Err(Failure::JoinRefused(JoinRefusal::IdTaken)))]);
    assert_eq!(node.node.status(), Status::Out);
    let later = node.wait(millis(100_000));
    assert_eq!((sent(&later), replies(&later)), (vec![], vec![]), "nothing is tried again");
}

#[test]
fn a_node_whose_id_was_refused_keeps_nothing_of_that_ring() {
    let mut node = Driver::out(peer(ME), calm());
    let outputs = node.command(0, Command::Join { seeds: vec![peer(FAR)] });
    // The search has already put the seed into the table when the join is refused.
    node.answer_after(peer(FAR), &outputs, millis(10));
    let outputs = node.hear_pastry(peer(FAR), reply(request_in(&outputs).1.nonce, What::LeafSet, &[]));
    let outputs = node.hear_pastry(peer(FAR), reply(request_in(&outputs).1.nonce, What::Row(0), &[]));
    let routed = routed_to(&outputs, peer(FAR));
    let Payload::Join(join) = &routed.payload else { panic!("not a join: {routed:?}") };
    let refused = Message::JoinRefused { nonce: join.nonce, reason: JoinRefusal::IdTaken };
    node.hear_pastry(peer(FAR), refused);
    assert!(!node.knows(peer(FAR)));
    let outputs = node.command(1, Command::Create);
    assert_eq!(replies(&outputs), [(1, Ok(Reply::Joined))]);
    assert_eq!(node.node.range(), IdRange::Full, "a founder answers for everything");
}

// The search for a nearby node to join through.

/// A node of the ring that is not near.
const SEED: u32 = 0x8000_0000;

/// Answers the pings to these peers, each so long after the one before.
fn pong_in_turn(node: &mut Driver, outputs: &[Output], answers: &[(u32, u64)]) -> Vec<Output> {
    let mut last = Vec::new();
    for (digits, later) in answers {
        let nonce = ping_to(outputs, peer(*digits));
        assert_eq!(sent(&node.wait(millis(*later))), []);
        last = node.hear(peer(*digits), Body::Pong(nonce));
    }
    last
}

/// Checks who is asked for what, and answers that.
fn answer_search(
    node: &mut Driver,
    outputs: &[Output],
    asked: (u32, What),
    what: What,
    named: &[u32],
) -> Vec<Output> {
    let (at, ask) = request_in(outputs);
    assert_eq!((at, ask.what, &ask.push), (peer(asked.0), asked.1, &vec![]));
    let named: Vec<Contact> = named.iter().map(|digits| peer(*digits)).collect();
    node.hear_pastry(at, reply(ask.nonce, what, &named))
}

#[test]
fn the_search_walks_over_leaf_set_and_rows_to_the_nearest_node_and_joins_through_it() {
    let [leaf, slow, third, second, first, last] =
        [0x8100_0000, 0x8200_0000, 0x8110_0000, 0x8300_0000, 0x9000_0000, 0xa000_0000];
    let mut node = Driver::out(peer(ME), calm());
    let start = node.command(0, Command::Join { seeds: vec![peer(SEED)] });
    assert_eq!(pings(&start).len(), 1);
    pong_in_turn(&mut node, &start, &[(SEED, 50)]);

    // The leaf set of the seed has a nearer node, and one that is farther away.
    let outputs = answer_search(&mut node, &start, (SEED, What::LeafSet), What::LeafSet, &[leaf, slow, ME]);
    assert_eq!(probed(&outputs), [leaf, slow].map(peer), "a joiner does not ask itself");
    let outputs = pong_in_turn(&mut node, &outputs, &[(leaf, 20), (slow, 40)]);
    assert_eq!(notes(&outputs).last(), Some(&Note::NearerSeed));

    // Its rows from the last one down; who is nearer is asked for the next.
    let outputs =
        answer_search(&mut node, &outputs, (leaf, What::Row(u8::MAX)), What::Row(2), &[third, leaf]);
    assert_eq!(probed(&outputs), [peer(third)], "what was measured is not measured again");
    let outputs = pong_in_turn(&mut node, &outputs, &[(third, 15)]);
    let outputs = answer_search(&mut node, &outputs, (third, What::Row(1)), What::Row(1), &[second]);
    let outputs = pong_in_turn(&mut node, &outputs, &[(second, 30)]);

    // Row 0 is repeated as long as that leads to somebody nearer.
    let outputs = answer_search(&mut node, &outputs, (third, What::Row(0)), What::Row(0), &[first]);
    let outputs = pong_in_turn(&mut node, &outputs, &[(first, 5)]);
    let outputs = answer_search(&mut node, &outputs, (first, What::Row(0)), What::Row(0), &[last]);
    let outputs = pong_in_turn(&mut node, &outputs, &[(last, 9)]);
    assert_eq!(routed_to(&outputs, peer(first)).key, peer(ME).id);
}

#[test]
fn a_dead_node_does_not_stop_the_search() {
    let (near, dead) = (0x8100_0000, 0x8200_0000);
    let mut node = Driver::out(peer(ME), calm());
    let start = node.command(0, Command::Join { seeds: vec![peer(SEED)] });
    pong_in_turn(&mut node, &start, &[(SEED, 50)]);
    let outputs = answer_search(&mut node, &start, (SEED, What::LeafSet), What::LeafSet, &[near, dead]);
    let outputs = pong_in_turn(&mut node, &outputs, &[(near, 20)]);
    assert_eq!(sent(&outputs), [], "the other may still turn out to be nearer");
    // As long as an answer of the nearest so far may take, and not until it is found dead.
    let outputs = node.fire(Timer::Probe);
    assert_eq!(request_in(&outputs).0, peer(near));
    assert!(!node.knows(peer(dead)));
}

#[test]
fn the_search_ends_whatever_a_seed_answers() {
    // A seed that calls every answer a leaf set, or always names the last row there can be.
    for what in [What::LeafSet, What::Row(u8::MAX), What::Row(3)] {
        let mut node = Driver::out(peer(ME), calm());
        let mut outputs = node.command(0, Command::Join { seeds: vec![peer(SEED)] });
        let nonce = ping_to(&outputs, peer(SEED));
        node.hear(peer(SEED), Body::Pong(nonce));
        let mut asked = 0;
        while let Some((at, ask)) = requests(&outputs).pop() {
            asked += 1;
            assert!(asked < 300, "asked without end for {what:?}");
            outputs = node.hear_pastry(at, reply(ask.nonce, what, &[]));
        }
        let retried = count(&outputs, Note::JoinRetried) == 1;
        assert!(retried || routed(&outputs).len() == 1, "neither joins nor tries another seed: {outputs:?}");
    }
}

/// Chaos seed 1001427 over Chord: a node that looked for its ring asked the others as who they had been before they restarted.
#[test]
fn a_seed_that_restarted_is_asked_in_its_later_life() {
    let settings = Settings { overlay: OverlayKind::Chord, ..calm() };
    let mut node = Driver::out(peer(ME), settings);
    let first = node.command(0, Command::Join { seeds: vec![peer(ROOT)] });
    let asked = |outputs: &[Output]| -> Vec<Contact> {
        let applies = sent(outputs).into_iter().filter(|(_, body)| *body == Body::Chord(Chord::Apply));
        applies.map(|(to, _)| to).collect()
    };
    assert_eq!(asked(&first), [peer(ROOT)]);
    node.hear(life(ROOT, 2), Body::Ping(1));
    assert_eq!(asked(&node.fire(Timer::Join)), [life(ROOT, 2)]);
}
