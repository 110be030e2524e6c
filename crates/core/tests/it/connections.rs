//! What a node makes of connections that open late, break, or never come about, and of messages for one node.

use kringle_core::contact::{Contact, Proximity};
use kringle_core::edge::{Command, Failure, Input, Output, Refusal, Reply, RequestId, Timer};
use kringle_core::message::{Body, Outcome, Payload, Receipt, Routed};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{LeafProbe, Message};

use crate::harness::*;

const ME: u32 = 0x1000_0000;
const PEER: u32 = 0x4000_0000;

fn ring() -> Driver {
    let peers: Vec<Contact> = (2..=6).map(|at| peer(at * 0x1000_0000)).collect();
    Driver::ready(peer(ME), &peers, calm())
}

fn replies(outputs: &[Output]) -> Vec<Result<Reply, Failure>> {
    let reply = |output: &Output| match output {
        Output::Reply { reply, .. } => Some(reply.clone()),
        _ => None,
    };
    outputs.iter().filter_map(reply).collect()
}

#[test]
fn a_round_trip_is_timed_from_when_the_connection_is_open() {
    for opened in [true, false] {
        let mut node = ring();
        let nonce = ping_to(&node.feed(Input::Lost { peer: peer(PEER).id }), peer(PEER));
        // Dialling takes its time.
        node.wait(millis(80));
        if opened {
            assert_eq!(node.feed(Input::Opened { peer: peer(PEER).id }), []);
        }
        node.wait(millis(3));
        node.hear(peer(PEER), Body::Pong(nonce));
        let measured = node.pastry().router().proximity(peer(PEER).id);
        assert_eq!(measured, Some(Proximity(if opened { 3_000 } else { 83_000 })));
    }
}

#[test]
fn a_peer_that_takes_long_to_dial_is_not_suspected_for_it() {
    let mut node = ring();
    node.measure(peer(PEER), millis(1));
    node.feed(Input::Lost { peer: peer(PEER).id });
    let patience = node.left(Timer::Probe);
    node.wait(patience - millis(1));
    node.feed(Input::Opened { peer: peer(PEER).id });
    // The old deadline passes and nothing is sent again: the probe has left only just now.
    assert_eq!(sent(&node.wait(millis(10))), []);
    assert!(sent(&node.wait(patience)).iter().any(|(to, _)| *to == peer(PEER)));
}

#[test]
fn a_broken_connection_makes_a_known_peer_suspect_and_it_is_probed_at_once() {
    let mut node = ring();
    let outputs = node.feed(Input::Lost { peer: peer(PEER).id });
    assert!(node.suspects(peer(PEER)));
    ping_to(&outputs, peer(PEER));
    let before = node.node.clone();
    assert_eq!(node.feed(Input::Lost { peer: peer(STRANGER).id }), []);
    assert!(node.node == before, "a stranger may come and go");
}

#[test]
fn a_probe_that_can_not_be_sent_is_not_waited_for_as_if_it_had_been() {
    let dies_after = |refused: bool| {
        let mut node = ring();
        let start = node.now;
        let mut outputs = node.feed(Input::Lost { peer: peer(PEER).id });
        while node.knows(peer(PEER)) {
            let probes = sent(&outputs).into_iter().filter(|(to, _)| *to == peer(PEER));
            for (to, body) in probes.filter(|_| refused).collect::<Vec<_>>() {
                node.feed(Input::Unsent { to, body });
            }
            outputs = node.wait(millis(10));
        }
        node.now.since(start).as_millis()
    };
    assert_eq!((dies_after(true), dies_after(false)), (300, 3_000));
}

#[test]
fn an_acknowledgement_tells_how_near_a_hop_is_if_nobody_knows() {
    let mut node = ring();
    assert_eq!(node.pastry().router().proximity(peer(PEER).id), None);
    let outputs = node.lookup(7, peer(PEER).id);
    let hop = sent(&outputs).into_iter().find_map(|(_, body)| match body {
        Body::Routed(routed) => Some(routed.hop),
        _ => None,
    });
    node.wait(millis(4));
    node.hear(peer(PEER), ack(hop.unwrap()));
    assert_eq!(node.pastry().router().proximity(peer(PEER).id), Some(Proximity(4_000)));
}

#[test]
fn a_join_that_can_not_be_sent_goes_on_to_the_next_seed() {
    let (mut node, join) = Driver::joining(peer(ME), peer(PEER), calm());
    let slow = node.left(Timer::Join);
    node.feed(Input::Unsent { to: peer(PEER), body: Body::Routed(join.clone()) });
    assert!(node.left(Timer::Join) < slow, "it still waits for an answer that can not come");
    // Once is enough: it is not counted against the next attempt.
    let before = node.node.clone();
    node.feed(Input::Unsent { to: peer(PEER), body: Body::Routed(join) });
    assert!(node.node == before);
}

#[test]
fn whoever_comes_back_can_be_found_by_others_who_do() {
    let seeds = vec![peer(PEER)];
    let mut back = Driver::out(peer(ME), calm());
    back.command(1, Command::Rejoin { seeds: seeds.clone() });
    assert_eq!(back.node.status(), Status::Isolated);
    let mut new = Driver::out(peer(ME), calm());
    new.command(1, Command::Join { seeds });
    assert_eq!(new.node.status(), Status::Joining);
    // The newcomer has nothing to offer; the other one takes the join, and looks around before it helps.
    let join = || Body::Routed(join_from(peer(0x2000_0000), 5));
    let taken = |outputs: &[Output]| {
        sent(outputs).iter().any(|(_, body)| matches!(body, Body::HopAck(ack) if ack.taken))
    };
    assert!(taken(&back.hear(peer(0x2000_0000), join())));
    assert!(!taken(&new.hear(peer(0x2000_0000), join())));
}

#[test]
fn strangers_one_is_introduced_to_are_asked_for_their_ring_and_leaves_are_not() {
    let mut node = ring();
    let peers = vec![peer(PEER), peer(STRANGER), peer(ME)];
    let outputs = node.command(9, Command::Meet { peers: peers.clone() });
    assert_eq!(replies(&outputs), [Ok(Reply::Joined)]);
    let asked: Vec<Contact> = sent(&outputs).into_iter().map(|(to, _)| to).collect();
    assert_eq!(asked, [peer(STRANGER)]);
    let mut out = Driver::out(peer(ME), calm());
    assert_eq!(replies(&out.command(9, Command::Meet { peers })), [Err(Failure::NotJoined)]);
}

#[test]
fn what_a_goodbye_has_overtaken_does_not_bring_the_leaver_back() {
    let mut node = ring();
    let probe =
        || Message::LeafProbe(Box::new(LeafProbe { nonce: 5, seen: None, leaves: Vec::new(), digest: None }));
    node.hear_pastry(peer(PEER), Message::Goodbye(Box::default()));
    assert!(!node.knows(peer(PEER)));
    assert!(node.refuses(peer(PEER), Body::Pastry(probe()), Refusal::Departed));
    assert_eq!(sent(&node.push(&[peer(PEER)])), [], "nor is it asked");
    assert!(!node.knows(peer(PEER)));
    // A new life is another matter, and so is whatever comes much later.
    let mut same = node.node.clone();
    node.hear_pastry(Contact { incarnation: 2, ..peer(PEER) }, probe());
    assert!(node.knows(peer(PEER)));
    std::mem::swap(&mut node.node, &mut same);
    node.wait(millis(2000));
    node.hear_pastry(peer(PEER), probe());
    assert!(node.knows(peer(PEER)));
}

fn send(node: &mut Driver, to: Contact, bytes: &[u8]) -> Vec<Output> {
    node.command(7, Command::Send { to: to.id, app: app(bytes), deadline: millis(900) })
}

fn direct_from(origin: Contact, to: Contact) -> Routed {
    Routed { payload: Payload::Direct(Box::new(app(b"bytes"))), ..lookup_from(origin, to.id, 3) }
}

#[test]
fn a_message_for_one_node_goes_straight_to_it_past_the_applications() {
    let mut node = ring();
    let outputs = send(&mut node, peer(PEER), b"bytes");
    let [(to, Body::Routed(routed))] = &sent(&outputs)[..] else { panic!("{outputs:?}") };
    assert_eq!((*to, routed.key), (peer(PEER), peer(PEER).id));
    let large = vec![0; 1 << 20];
    assert_eq!(replies(&send(&mut node, peer(PEER), &large)), [Err(Failure::TooLarge)]);
}

#[test]
fn a_message_for_this_node_is_delivered_whatever_its_leases_say() {
    let mut node = ring();
    let outputs = node.hear(peer(PEER), Body::Routed(direct_from(peer(PEER), peer(ME))));
    let delivered = outputs.iter().find_map(|output| match output {
        Output::Deliver { not_after, .. } => Some(*not_after),
        _ => None,
    });
    assert_eq!(delivered, Some(None));
    let again = node.hear(peer(PEER), Body::Routed(direct_from(peer(PEER), peer(ME))));
    assert!(!again.iter().any(|output| matches!(output, Output::Deliver { .. })));
}

#[test]
fn a_message_for_a_node_that_is_not_there_comes_back() {
    let mut node = ring();
    let beside = Contact { id: peer(ME).id.plus(1), ..peer(ME) };
    let outputs = node.hear(peer(PEER), Body::Routed(direct_from(peer(PEER), beside)));
    let back = |(_, body): &(Contact, Body)| match body {
        Body::Receipt(receipt) => receipt.outcome == Outcome::NotThere,
        _ => false,
    };
    assert!(sent(&outputs).iter().any(back));
    assert_eq!(replies(&send(&mut node, beside, b"")), [Err(Failure::NotThere)]);
    // And told to whoever asked, when it comes from elsewhere.
    let outputs = send(&mut node, peer(STRANGER), b"");
    let routed = sent(&outputs).into_iter().find_map(|(_, body)| match body {
        Body::Routed(routed) => Some(routed),
        _ => None,
    });
    let serial = routed.unwrap().serial;
    let (to, by, outcome) = (peer(ME), peer(PEER), Outcome::NotThere);
    let receipt = Receipt { to, serial, hops: 1, by, outcome };
    let outputs = node.hear(peer(PEER), Body::Receipt(Box::new(receipt)));
    let expected = Output::Reply { request: RequestId(7), reply: Err(Failure::NotThere) };
    assert!(outputs.contains(&expected));
}
