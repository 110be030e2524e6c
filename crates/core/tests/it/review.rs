//! What a critical reader of this protocol tried: liars, late packets, other lives. Each once went wrong.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::contact::{Addr, Contact};
use kringle_core::edge::{Command, Note, Output, Refusal, Timer};
use kringle_core::message::{Body, Routed, Stage};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{JoinRefusal, LeafReply, Message};

use crate::harness::*;

const ME: u32 = 0x1800_0000;
/// A node of a large ring, with four leaves on each side.
fn full_sides() -> Driver {
    let settings = Settings { leaf_set: 8, replicas: 1, ..calm() };
    let leaves = [
        0x1801_0000,
        0x1802_0000,
        0x1803_0000,
        0x1804_0000,
        0x17ff_0000,
        0x17fe_0000,
        0x17fd_0000,
        0x17fc_0000,
    ];
    Driver::ready(peer(ME), &leaves.map(peer), settings)
}

const NEAR: [u32; 2] = [0x1801_0000, 0x17ff_0000];

#[test]
fn a_lie_about_an_address_does_not_bury_a_live_node() {
    let mut node = Driver::ready(peer(ME), &[0x2000_0000, 0x9000_0000].map(peer), calm());
    let x = peer(0x3000_0000);
    let lie = Contact { addr: Addr(666), ..x };
    let outputs = node.push(&[lie]);
    assert_eq!(probed(&outputs), [lie]);
    // The real one shows itself, first hand, and is a leaf.
    node.introduce(x);
    assert!(node.leaves().contains(&x));
    let outputs = node.wait(Duration::from_secs(5));
    assert_eq!(
        count(&outputs, Note::Died(x)) + count(&outputs, Note::Died(lie)),
        0,
        "a live node was buried; obituaries: {}",
        sent(&outputs).iter().filter(|(_, b)| matches!(b, Body::Pastry(Message::Obituary(_)))).count()
    );
    assert!(node.knows(x));
}

#[test]
fn silence_of_an_earlier_life_does_not_bury_the_later() {
    let mut node = Driver::ready(peer(ME), &[0x2000_0000, 0x9000_0000].map(peer), calm());
    let old = peer(0x3000_0000);
    node.push(&[old]);
    let new = Contact { incarnation: 2, addr: Addr(99), ..old };
    node.introduce(new);
    node.wait(Duration::from_secs(5));
    assert!(node.knows(new));
}

#[test]
fn a_node_that_is_no_leaf_dies_by_our_own_probes_alone() {
    let mut node = full_sides();
    let k = peer(0x1900_0000);
    node.introduce(k);
    assert!(node.knows(k) && !node.leaves().contains(&k));
    // A leaf says goodbye; the end of the side is asked, and names k, which is in the table already.
    let outputs = node.hear_pastry(peer(0x1804_0000), Message::Goodbye(Box::default()));
    let probe = leaf_probe_to(&outputs, peer(0x1803_0000));
    let arc = [0x1801_0000, 0x1802_0000, 0x1900_0000].map(peer);
    let mut outputs = node.hear(peer(0x1803_0000), leaf_reply(probe.nonce, Some(&arc)));
    assert_eq!(probed(&outputs), [k]);
    outputs.extend(node.wait(Duration::from_secs(10)));
    let about = |outputs: &[Output]| {
        sent(outputs)
            .iter()
            .filter(|(_, body)| matches!(body, Body::PingVia { target, .. } if *target == k))
            .count()
    };
    assert_eq!((count(&outputs, Note::Died(k)), about(&outputs)), (1, 0));
    assert_eq!(count(&outputs, Note::Suspected(k)), 1, "doubted before");
    assert!(!node.knows(k));
}

#[test]
fn only_a_relay_that_was_asked_can_vouch() {
    let mut node = Driver::ready(peer(ME), &[0x2000_0000, 0x9000_0000].map(peer), calm());
    let dead = peer(0x2000_0000);
    let nonce = ping_to(&node.hear_pastry(peer(STRANGER), Message::Obituary(dead)), dead);
    assert!(node.refuses(peer(STRANGER), Body::PongVia { nonce, target: dead.id }, Refusal::Unsolicited));
}

#[test]
fn a_liar_does_not_keep_a_dead_node_in_the_tables() {
    let settings = Settings { heartbeat: millis(2000), ..calm() };
    let mut node = Driver::ready(peer(ME), &[0x2000_0000, 0x9000_0000].map(peer), settings);
    let dead = peer(0x2000_0000);
    for _ in 0..4000 {
        let outputs = node.wait(millis(50));
        for (to, body) in sent(&outputs) {
            if to != dead
                && let Some(answer) = answer_to(&body)
            {
                node.hear(to, answer);
            }
            if to == dead {
                let nonce = match body {
                    Body::Ping(n) => n,
                    Body::Pastry(Message::LeafProbe(p)) => p.nonce,
                    _ => continue,
                };
                node.hear(peer(STRANGER), Body::PongVia { nonce, target: dead.id });
            }
        }
    }
    assert!(!node.knows(dead), "200 s later");
}

#[test]
fn a_message_that_comes_back_before_its_acknowledgement_is_not_lost() {
    // Right side empty; the table leads to b, for whom we are the nearest: it sends the message back.
    let settings = Settings { neighbourhood: 0, ..narrow() };
    let mut node = Driver::ready(peer(ME), &NEAR.map(peer), settings);
    let b = peer(0x2fff_0000);
    node.announce(b, 1);
    node.announce(peer(0x8000_0000), 1);
    node.hear_pastry(peer(NEAR[0]), Message::Goodbye(Box::default()));
    let outputs = node.lookup(1, key(0x2000_0001));
    let (to, routed) = routed(&outputs).into_iter().next().expect("goes on");
    assert_eq!(to, b, "{routed:?}");
    // b acknowledges and sends it back (leaf-set step to us); the two packets overtake each other.
    let back = Routed { hop: 4711, hops: routed.hops + 1, stage: Stage::Leaf, ..routed.clone() };
    let outputs = node.hear(b, Body::Routed(back));
    assert!(sent(&outputs).contains(&(b, ack(4711))), "taken: {outputs:?}");
    node.hear(b, ack(routed.hop));
    let outputs = node.wait(Duration::from_secs(30));
    let said = replies(&outputs);
    assert!(!said.is_empty(), "acknowledged to b, forgotten here: nobody has the message");
}

#[test]
fn a_pong_does_not_end_a_search_for_a_side() {
    let settings = Settings { neighbourhood: 0, ..narrow() };
    let mut node = Driver::ready(peer(ME), &NEAR.map(peer), settings);
    let far = peer(0x4000_0000);
    node.announce(far, 1);
    node.announce(peer(0x8000_0000), 1);
    let nearer = peer(0x1900_0000);
    // A ping to it is under way when the right side runs empty.
    let ping = ping_to(&node.hear_pastry(peer(STRANGER), Message::Obituary(far)), far);
    let outputs = node.hear_pastry(peer(NEAR[0]), Message::Goodbye(Box::default()));
    let probe = leaf_probe_to(&outputs, far);
    assert_eq!(probe.nonce, ping);
    node.hear(far, Body::Pong(ping));
    let known = [peer(ME), nearer, peer(0x8000_0000)];
    node.hear(far, leaf_reply(probe.nonce, Some(&known)));
    assert_eq!(node.leaves(), [peer(NEAR[1])], "a farther one would claim what is not ours");
}

#[test]
fn a_leaf_asked_for_repair_is_asked_for_all_its_leaves() {
    let settings = Settings { leaf_set: 4, replicas: 1, heartbeat: millis(2000), ..calm() };
    let all = [0x1801_0000, 0x1802_0000, 0x17ff_0000, 0x17fe_0000, 0x8000_0000].map(peer);
    let mut node = Driver::ready(peer(ME), &all, settings);
    // A few heartbeats; the right neighbour b has no c any more and says so: d comes after it.
    let (b, c, d) = (peer(0x1801_0000), peer(0x1802_0000), peer(0x1803_0000));
    let version = 7;
    let arc = [peer(0x17ff_0000), peer(ME), d, peer(0x1804_0000)];
    let answer = |node: &mut Driver, outputs: Vec<Output>| {
        let mut asked = 0;
        let mut queue: std::collections::VecDeque<Output> = outputs.into();
        while let Some(output) = queue.pop_front() {
            asked += usize::from(output == Output::Note(Note::LeafAsked));
            let Output::Send { to, body, .. } = &output else { continue };
            if *to == c {
                continue;
            }
            match body {
                Body::Pastry(Message::LeafProbe(p)) if *to == b => {
                    let leaves = (p.seen != Some(version)).then(|| arc.to_vec());
                    let m = Message::LeafReply(Box::new(LeafReply { nonce: p.nonce, version, leaves }));
                    queue.extend(node.hear_pastry(b, m));
                }
                body => {
                    if let Some(a) = answer_to(body) {
                        queue.extend(node.hear(*to, a));
                    }
                }
            }
        }
        asked
    };
    for _ in 0..100 {
        let o = node.wait(millis(50));
        answer(&mut node, o);
    }
    // Now c is found dead here, too.
    let mut o = node.hear_pastry(peer(STRANGER), Message::Obituary(c));
    let mut asked = 0;
    for _ in 0..6000 {
        asked += answer(&mut node, o);
        o = node.wait(millis(50));
    }
    assert!(!node.knows(c));
    assert!(
        node.leaves().contains(&d),
        "five minutes and {asked} questions later the side is still short: {:?}",
        node.leaves()
    );
}

#[test]
fn what_was_seen_of_an_earlier_life_is_not_seen_of_the_later() {
    let settings = Settings { heartbeat: millis(2000), ..calm() };
    let mut node = Driver::ready(peer(ME), &[0x2000_0000, 0x9000_0000].map(peer), settings);
    let o = node.wait(millis(3000));
    node.answer_probes(o);
    node.introduce(life(0x2000_0000, 2));
    let outputs = node.wait(millis(7300));
    let probes = leaf_probes(&outputs);
    let p = probes.iter().find(|(to, _)| to.id == peer(0x2000_0000).id).expect("probed");
    assert_eq!(p.1.seen, None, "the new life has its own counters");
}

#[test]
fn a_claimed_nearness_displaces_nobody() {
    let settings = Settings { neighbourhood: 1, ..calm() };
    let mut node = Driver::ready(peer(ME), &[0x2000_0000, 0x9000_0000].map(peer), settings);
    node.measure(peer(0x2000_0000), millis(5));
    let near: Vec<Contact> = node.pastry().router().neighbourhood().members().collect();
    assert_eq!(near, [peer(0x2000_0000)]);
    node.claim(peer(0x5000_0000), 1);
    let near: Vec<Contact> = node.pastry().router().neighbourhood().members().collect();
    assert_eq!(near, [peer(0x2000_0000)], "displaced by a claim nobody measured");
}

#[test]
fn events_do_not_use_up_the_attempts_of_a_held_message() {
    let mut node = Driver::ready(peer(ME), &[peer(0x2000_0000)], calm());
    let owner = peer(0x2000_0000);
    let start = node.now;
    let mut outputs = node.lookup(1, owner.id);
    let mut said = Vec::new();
    for n in 0..12u32 {
        // The owner is busy for a moment.
        for (to, r) in routed(&outputs) {
            if to == owner {
                said.extend(replies(&node.hear(owner, no_ack(r.hop))));
            }
        }
        // Somebody else joins far away.
        outputs = node.introduce(peer(0x8000_0000 + n * 0x0100_0000));
        said.extend(replies(&outputs));
    }
    assert!(said.is_empty(), "given up after {:?}: {said:?}", node.now.since(start));
}

#[test]
fn a_join_is_refused_only_by_whom_was_asked() {
    let mut node = Driver::out(peer(ME), calm());
    let outputs = node.command(0, Command::Join { seeds: vec![peer(0x2000_0000)] });
    let (_, ask) = request_in(&outputs);
    node.hear_pastry(peer(STRANGER), Message::JoinRefused { nonce: ask.nonce, reason: JoinRefusal::IdTaken });
    assert_eq!(node.node.status(), Status::Joining, "a stranger ended the join for good");
}

#[test]
fn a_full_node_still_acknowledges_what_it_looks_after() {
    let mut node =
        Driver::ready(peer(ME), &[peer(0x2000_0000), peer(0x9000_0000)], Settings { transits: 1, ..calm() });
    let m = app_from(peer(0x9000_0000), key(0x2000_0000), 5);
    node.hear(peer(0x9000_0000), Body::Routed(m.clone()));
    let outputs = node.hear(peer(0x9000_0000), Body::Routed(Routed { hop: 6, ..m }));
    assert!(sent(&outputs).contains(&(peer(0x9000_0000), ack(6))), "{outputs:?}");
}

#[test]
fn a_late_acknowledgement_of_the_first_copy_counts() {
    let mut node = Driver::ready(peer(ME), &[peer(0x2000_0000), peer(0x9000_0000)], calm());
    let owner = peer(0x2000_0000);
    let outputs = node.lookup(1, owner.id);
    let first = routed_to(&outputs, owner);
    let outputs = node.fire(Timer::Hop);
    let second = routed_to(&outputs, owner);
    assert_eq!(first.hop, second.hop, "either acknowledgement will do");
    let outputs = node.hear(owner, ack(first.hop));
    assert_eq!(refusals(&outputs), [], "the owner has said that it looks after it");
}

#[test]
fn a_claimed_nearness_does_not_hold_a_cell_against_a_measured_one() {
    // The claim fills the cell, as documented; a nearer one that is measured should be able to take it.
    let mut node = Driver::ready(peer(ME), &[0x1900_0000, 0x1700_0000].map(peer), narrow());
    let liar = peer(0x5000_0000);
    node.claim(liar, 1);
    let o = node.push(&[peer(0x5100_0000)]);
    node.answer_after(peer(0x5100_0000), &o, millis(1));
    // Row swaps etc. never measure a holder; the liar stays at 1 us whatever it really is.
    assert_eq!(node.cell(liar)[0], peer(0x5100_0000), "held by a claim of one microsecond");
}

#[test]
fn a_liar_does_not_keep_a_side_empty() {
    let settings = Settings { neighbourhood: 0, heartbeat: millis(2000), ..narrow() };
    let mut node = Driver::ready(peer(ME), &NEAR.map(peer), settings);
    let (liar, honest) = (peer(0x4000_0000), peer(0x5000_0000));
    node.announce(liar, 1);
    node.announce(honest, 1);
    let mut outputs = node.hear_pastry(peer(NEAR[0]), Message::Goodbye(Box::default()));
    let mut n = 0u32;
    for _ in 0..6000 {
        let mut queue: std::collections::VecDeque<Output> = outputs.drain(..).collect();
        while let Some(o) = queue.pop_front() {
            let Output::Send { to, body, .. } = &o else { continue };
            if *to == liar
                && let Body::Pastry(Message::LeafProbe(p)) = body
            {
                n += 1;
                let phantom = peer(0x1900_0000 + n);
                queue.extend(node.hear(liar, leaf_reply(p.nonce, Some(&[peer(ME), phantom]))));
            } else if ([NEAR[1], 0x5000_0000].map(peer).contains(to) || *to == liar)
                && let Some(a) = answer_to(body)
            {
                queue.extend(node.hear(*to, a));
            }
        }
        outputs = node.wait(millis(50));
    }
    assert!(node.leaves().len() == 2, "five minutes, {n} lies: {:?}", node.leaves());
}

#[test]
fn the_leaves_a_goodbye_brings_are_probed_at_once_in_a_large_ring() {
    let mut node = full_sides();
    node.introduce(peer(0x8000_0000));
    let heir = peer(0x1900_0000);
    let arc: Vec<Contact> =
        [0x17ff_0000, ME, 0x1801_0000, 0x1802_0000, 0x1803_0000, 0x1900_0000].map(peer).to_vec();
    let outputs = node.hear_pastry(peer(0x1804_0000), Message::Goodbye(Box::new(arc)));
    assert!(leaf_probes(&outputs).iter().any(|(to, _)| *to == heir), "{:?}", sent(&outputs));
}

#[test]
fn messages_of_different_kinds_are_different_messages() {
    // Same origin, same serial, one lookup and one routed receipt: different messages.
    let mut node = Driver::ready(peer(ME), &[peer(0x2000_0000), peer(0x9000_0000)], calm());
    let origin = peer(0x9000_0000);
    let lookup = lookup_from(origin, key(0x2000_0000), 5);
    let app = app_from(origin, key(0x2000_0001), 5);
    node.hear(origin, Body::Routed(lookup));
    let outputs = node.hear(origin, Body::Routed(Routed { hop: 77, ..app }));
    assert_eq!(count(&outputs, Note::Duplicate), 0);
}

#[test]
fn a_joiner_that_is_ready_elsewhere_gives_up_its_turn() {
    // A joiner already helped elsewhere and ready, whose earlier join still waits here, holds up the next for the whole time.
    let mut node = Driver::founder(peer(ME), calm());
    node.hear(peer(0x3000_0000), Body::Routed(join_from(peer(0x3000_0000), 1)));
    node.hear(peer(0x2000_0000), Body::Routed(join_from(peer(0x2000_0000), 2)));
    node.hear(peer(0x1900_0000), Body::Routed(join_from(peer(0x1900_0000), 3)));
    // 2000.. is ready through somebody else and has announced itself here.
    node.introduce(peer(0x2000_0000));
    node.announce(peer(0x2000_0000), 5);
    node.introduce(peer(0x3000_0000));
    let outputs = node.announce(peer(0x3000_0000), 5);
    let helped: Vec<Contact> = sent(&outputs)
        .into_iter()
        .filter_map(|(to, b)| matches!(b, Body::Pastry(Message::JoinReply(_))).then_some(to))
        .collect();
    assert_ne!(helped.first(), Some(&peer(0x2000_0000)), "is ready already");
}

#[test]
fn a_stranger_cannot_end_a_request_with_a_guessed_number() {
    use kringle_core::message::{Outcome, Receipt};
    let mut node = Driver::ready(peer(ME), &[peer(0x2000_0000), peer(0x9000_0000)], calm());
    let first = routed_to(&node.lookup(1, key(0x2000_0000)), peer(0x2000_0000)).serial;
    // Whoever has seen the first number knows the second.
    node.lookup(2, key(0x2000_0000));
    let forged = Receipt {
        to: peer(ME),
        serial: first.wrapping_add(1),
        hops: 1,
        by: peer(STRANGER),
        outcome: Outcome::Found(vec![]),
    };
    let outputs = node.hear(peer(STRANGER), Body::Receipt(Box::new(forged)));
    assert_eq!(replies(&outputs), [], "the user is told that a stranger owns the key");
}
