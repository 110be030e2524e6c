//! Who is who: lives of one identity, leaving and coming back, and commands that come at the wrong time.

use kringle_core::contact::{Addr, Contact};
use kringle_core::edge::{Command, Event, Failure, Input, Note, Output, Refusal, Reply, RequestId, Timer};
use kringle_core::message::Body;
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{Message, What};
use kringle_core::range::IdRange;

use crate::harness::*;

const ME: u32 = 0x1000_0000;
const RIGHT: u32 = 0x4000_0000;
const LEFT: u32 = 0xc000_0000;

fn ring() -> Driver {
    Driver::ready(peer(ME), &[RIGHT, LEFT].map(peer), calm())
}

/// Every contact in any table, as it stands there.
fn contacts(node: &Driver) -> Vec<Contact> {
    let router = node.pastry().router();
    let table = router.table().all().map(|entry| entry.contact);
    let near = router.neighbourhood().members();
    router.leaf_set().members().iter().copied().chain(table).chain(near).collect()
}

#[test]
fn the_router_tells_its_node_its_tables_and_everybody_known_but_itself() {
    let (leaves, far) = ([0x1001_0000, 0x0fff_0000].map(peer), peer(0x8000_0000));
    let mut node = Driver::ready(peer(ME), &leaves, narrow());
    node.announce(far, 1);
    let router = node.pastry().router();
    assert_eq!((router.me(), node.node.me()), (peer(ME), peer(ME)));
    assert_eq!(router.leaf_set().members(), leaves);
    let mut table: Vec<Contact> = router.table().all().map(|entry| entry.contact).collect();
    table.sort();
    assert_eq!(table, [leaves[1], leaves[0], far]);
    let mut nodes: Vec<Contact> = router.nodes().collect();
    nodes.sort();
    assert_eq!(nodes, [leaves[1], leaves[0], far], "each once, this node not at all");
    let routes = node.node.routes();
    assert_eq!((routes.me(), routes.status()), (peer(ME), Status::Ready));
    assert_eq!(routes.neighbours(), [leaves[1], leaves[0]]);
    assert_eq!((routes.contact(far.id), routes.contact(peer(RIGHT).id)), (Some(far), None));
}

#[test]
fn a_later_life_replaces_an_earlier_one_at_once_in_every_table() {
    let mut node = ring();
    node.measure(peer(RIGHT), millis(10));
    assert_eq!(contacts(&node).iter().filter(|contact| contact.id == peer(RIGHT).id).count(), 3);
    let outputs = node.hear(life(RIGHT, 2), Body::Ping(1));
    assert_eq!(sent(&outputs), [(life(RIGHT, 2), Body::Pong(1))]);
    assert_eq!(node.leaves(), [life(RIGHT, 2), peer(LEFT)]);
    assert_eq!(node.cell(peer(RIGHT)), [life(RIGHT, 2)]);
    assert!(!contacts(&node).contains(&peer(RIGHT)), "nothing is left of the earlier one");
}

#[test]
fn a_later_life_known_only_by_its_nearness_can_answer_probes() {
    // The cell has two nearer spares, so that this one is a neighbour and nothing else.
    let digits = 0x8300_0000;
    let mut node = Driver::ready(peer(ME), &[0x1001_0000, 0x0fff_0000].map(peer), narrow());
    node.announce(peer(0x8000_0000), 1);
    for (n, rtt) in [(0x8100_0000, 10), (0x8200_0000, 20), (digits, 30)] {
        let outputs = node.push(&[peer(n)]);
        node.answer_after(peer(n), &outputs, millis(rtt));
    }
    assert!(node.knows(peer(digits)) && !node.cell(peer(digits)).contains(&peer(digits)));
    node.hear(life(digits, 2), Body::Ping(1));
    let dead = node.pastry().router().get(peer(digits).id);
    assert_ne!(dead, Some(peer(digits)), "the earlier life is still listed");
    if let Some(now) = dead {
        let outputs = node.hear_pastry(peer(STRANGER), Message::Obituary(now));
        let outputs = node.answer_after(now, &outputs, millis(5));
        assert_eq!(count(&outputs, Note::Refused(Refusal::Unsolicited)), 0);
    }
}

#[test]
fn a_later_life_ends_doubts_about_the_earlier() {
    let mut node = ring();
    node.hear_pastry(peer(STRANGER), Message::Obituary(peer(RIGHT)));
    node.fire(Timer::Probe);
    assert!(node.suspects(peer(RIGHT)));
    let outputs = node.hear(life(RIGHT, 2), Body::Ping(1));
    assert!(!node.suspects(peer(RIGHT)));
    assert!(events(&outputs).contains(&Event::Settled(peer(RIGHT).id)), "messages held for it can go");
}

#[test]
fn an_earlier_life_is_refused_and_changes_nothing() {
    let mut node = Driver::ready(peer(ME), &[life(RIGHT, 5), peer(LEFT)], calm());
    for body in [Body::Ping(1), Body::Pastry(Message::Goodbye(Box::default())), leaf_reply(0, None)] {
        assert!(node.refuses(life(RIGHT, 4), body, Refusal::StaleIncarnation));
    }
    let goodbye = Message::Goodbye(Box::default());
    assert_eq!(count(&node.hear_pastry(life(RIGHT, 5), goodbye), Note::Refused(Refusal::Unsolicited)), 0);
    assert!(!node.knows(peer(RIGHT)));
}

#[test]
fn the_same_life_at_another_address_is_refused_and_changes_nothing() {
    let mut node = ring();
    let twin = Contact { addr: Addr(7), ..peer(RIGHT) };
    for body in [Body::Ping(1), Body::Pastry(Message::Goodbye(Box::default())), leaf_reply(0, None)] {
        assert!(node.refuses(twin, body, Refusal::DuplicateId));
    }
}

#[test]
fn a_message_from_the_own_id_is_refused_and_changes_nothing() {
    let mut node = ring();
    for from in [peer(ME), life(ME, 9), Contact { addr: Addr(7), ..peer(ME) }] {
        assert!(node.refuses(from, Body::Ping(1), Refusal::FromSelf));
        assert!(node.refuses(from, leaf_reply(0, None), Refusal::FromSelf));
    }
}

#[test]
fn leaving_says_goodbye_to_everybody_known() {
    let (leaves, far) = ([0x1001_0000, 0x0fff_0000].map(peer), peer(0x8000_0000));
    let mut node = Driver::ready(peer(ME), &leaves, narrow());
    node.announce(far, 1);
    let outputs = node.command(4, Command::Leave);
    let goodbye = Body::Pastry(Message::Goodbye(Box::new(vec![leaves[1], leaves[0]])));
    let mut told = sent(&outputs);
    told.sort_by_key(|(to, _)| *to);
    assert_eq!(told, [leaves[1], leaves[0], far].map(|to| (to, goodbye.clone())));
    assert_eq!(node.node.status(), Status::Leaving);
    assert_eq!(replies(&outputs), [], "what is in hand gets its chance first");
    assert_eq!(node.left(Timer::Leave), node.config.leave_grace);
}

#[test]
fn a_leaving_node_is_silent_and_takes_nothing_new() {
    let mut node = ring();
    node.command(4, Command::Leave);
    assert!(node.refuses(peer(RIGHT), Body::Ping(1), Refusal::NotJoined));
    let before = node.node.clone();
    let outputs = node.hear(peer(RIGHT), Body::Routed(lookup_from(peer(LEFT), key(ME), 5)));
    assert_eq!(sent(&outputs), [(peer(RIGHT), no_ack(5))]);
    assert_eq!(notes(&outputs), [Note::Refused(Refusal::NotJoined)]);
    let ask = Body::Pastry(request(1, What::LeafSet, &[]));
    assert!(node.refuses(peer(RIGHT), ask, Refusal::NotJoined));
    assert!(node.node == before);
}

#[test]
fn a_leaving_node_passes_on_what_it_has_in_hand() {
    let mut node = ring();
    // Held, because the node it is for was not ready for it.
    let message = lookup_from(peer(LEFT), key(RIGHT), 5);
    let first = routed_to(&node.hear(peer(LEFT), Body::Routed(message)), peer(RIGHT));
    let outputs = node.hear(peer(RIGHT), no_ack(first.hop));
    assert_eq!(count(&outputs, Note::Held), 1);
    let outputs = node.command(4, Command::Leave);
    assert_eq!(routed_to(&outputs, peer(RIGHT)).serial, 5);
    // Silent hops are gone around as before.
    assert_eq!(routed_to(&node.fire(Timer::Hop), peer(RIGHT)).serial, 5);
}

#[test]
fn after_the_grace_a_node_is_out_and_can_join_again() {
    let mut node = ring();
    let open = routed_to(&node.lookup(3, key(RIGHT)), peer(RIGHT));
    node.hear(peer(RIGHT), ack(open.hop));
    let outputs = node.command(4, Command::Leave);
    assert_eq!(
        events(&outputs),
        [Event::StatusChanged(Status::Leaving), Event::RangeLost(ring().node.range())]
    );
    let outputs = node.wait(node.config.leave_grace);
    assert_eq!(replies(&outputs), [(4, Ok(Reply::Left)), (3, Err(Failure::Ended))]);
    assert_eq!((node.node.status(), node.node.range()), (Status::Out, IdRange::Empty));
    assert_eq!(contacts(&node), []);
    assert_eq!(sent(&node.wait(millis(1_000_000))), [], "no timer brings it back");

    let probes = node.command(5, Command::Join { seeds: vec![peer(RIGHT)] });
    assert_eq!(request_in(&probes).0, peer(RIGHT));
    assert_eq!(replies(&node.command(6, Command::Leave)).len(), 2);
    assert_eq!(replies(&node.command(7, Command::Create)), [(7, Ok(Reply::Joined))]);
    assert_eq!(node.node.range(), IdRange::Full);
}

#[test]
fn a_joiner_that_leaves_is_out_at_once() {
    let (joining, _) = Driver::joining(peer(ME), peer(RIGHT), calm());
    let (mut waiting, join) = Driver::joining(peer(ME), peer(RIGHT), calm());
    waiting.hear(peer(RIGHT), join_reply(&join, true, &[peer(LEFT)]));
    let mut isolated = Driver::joined(peer(ME), peer(RIGHT), &[], calm());
    isolated.kill(peer(RIGHT));
    assert_eq!(isolated.node.status(), Status::Isolated);
    for (mut node, join_is_open) in [(joining, true), (waiting, true), (isolated, false)] {
        let outputs = node.command(4, Command::Leave);
        let mut expected = vec![(4, Ok(Reply::Left))];
        expected.extend(join_is_open.then_some((0, Err(Failure::Ended))));
        expected.sort_by_key(|(request, _)| *request);
        assert_eq!(replies(&outputs), expected);
        assert_eq!((node.node.status(), sent(&outputs)), (Status::Out, vec![]));
        assert_eq!(contacts(&node), []);
    }
}

#[test]
fn commands_at_the_wrong_time_fail_and_change_nothing() {
    let (joining, _) = Driver::joining(peer(ME), peer(RIGHT), calm());
    let mut leaving = ring();
    leaving.command(9, Command::Leave);
    let mut isolated = Driver::joined(peer(ME), peer(RIGHT), &[], calm());
    isolated.kill(peer(RIGHT));
    let join = || Command::Join { seeds: vec![peer(LEFT)] };
    let fails = |node: &mut Driver, command, failure| {
        let before = node.node.clone();
        let outputs = node.command(5, command);
        let reply = Output::Reply { request: RequestId(5), reply: Err(failure) };
        assert_eq!(outputs, [reply]);
        assert!(node.node == before);
    };
    for mut node in [joining, ring(), leaving, isolated] {
        fails(&mut node, Command::Create, Failure::AlreadyJoined);
        fails(&mut node, join(), Failure::AlreadyJoined);
        if node.node.status() == Status::Leaving {
            fails(&mut node, Command::Leave, Failure::NotJoined);
        }
    }
    fails(&mut Driver::out(peer(ME), calm()), Command::Leave, Failure::NotJoined);
}

#[test]
fn a_leaving_founder_of_an_empty_ring_leaves_as_well() {
    let mut node = Driver::founder(peer(ME), calm());
    assert_eq!(sent(&node.command(1, Command::Leave)), []);
    assert_eq!(replies(&node.fire(Timer::Leave)), [(1, Ok(Reply::Left))]);
    assert_eq!(node.feed(Input::Timer(Timer::Leave)), []);
}
