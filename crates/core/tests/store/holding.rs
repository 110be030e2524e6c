//! Who holds what: views grow, move, shrink; what was acknowledged stays.

use std::time::Duration;

use kringle_core::config::{Safeguard, Settings};
use kringle_core::edge::{Command, Failure, Input};
use kringle_core::message::Body;
use kringle_core::records::{Records, Space};
use kringle_core::store::Store;
use kringle_core::store::coding::Sum;
use kringle_core::store::message::{Item, Message, Packet, Word};
use kringle_core::store::op::{Action, Change, Happened, Level, Trouble};
use kringle_core::store::record::Cell;
use kringle_core::store::view::{Member, View};

use crate::cluster::*;

fn keys() -> Vec<String> {
    (0..40).map(|n| format!("key {n}")).collect()
}

fn fill(cluster: &mut Cluster) {
    for key in keys() {
        cluster.put(0, &key, &format!("value of {key}"));
    }
}

fn all_there(cluster: &mut Cluster, node: usize) {
    for key in keys() {
        assert_eq!(cluster.get(node, &key), Some(format!("value of {key}")), "{key}");
    }
}

#[test]
fn views_change_a_few_at_a_time() {
    let mut cluster = Cluster::of(2, Settings { slots: 256, ..settings() }, 1);
    let learns = |cluster: &Cluster| {
        let told = |body: &Body| {
            let Body::Store(packet) = body else { return 0 };
            let Message::Slots(items) = &packet.message else { return 0 };
            items.iter().filter(|item| matches!(item.word, Word::Learn { .. })).count()
        };
        cluster.wire.iter().map(|(.., body)| told(body)).sum::<usize>()
    };
    let mut most = 0;
    let end = cluster.now.after(Duration::from_secs(2));
    while cluster.now < end {
        cluster.run(Duration::from_micros(100));
        most = most.max(learns(&cluster));
    }
    assert!((1..=16).contains(&most), "{most} at a time");
    assert!(cluster.views().iter().all(|(_, members, _)| *members == 2), "{:?}", cluster.views());
}

#[test]
fn views_grow_with_the_cluster_and_no_further() {
    for count in 1..=6 {
        let cluster = Cluster::ready(count);
        let copies = count.min(3);
        for (_, members, serving) in cluster.views() {
            assert_eq!((members, serving), (copies, copies), "{count} nodes");
        }
    }
}

#[test]
fn a_dead_member_is_replaced_and_nothing_is_lost() {
    let mut cluster = Cluster::ready(5);
    fill(&mut cluster);
    for dead in [1, 2] {
        cluster.crash(dead);
        cluster.run(Duration::from_secs(3));
        assert!(cluster.views().iter().all(|(_, members, serving)| (*members, *serving) == (3, 3)));
        all_there(&mut cluster, 0);
    }
    cluster.crash(0);
    cluster.run(Duration::from_secs(3));
    all_there(&mut cluster, 3);
}

#[test]
fn one_at_a_time_all_nodes_are_replaced() {
    let mut cluster = Cluster::ready(5);
    fill(&mut cluster);
    for round in 0..10 {
        let node = round % 5;
        cluster.crash(node);
        cluster.run(Duration::from_secs(2));
        cluster.restart(node);
        cluster.run(Duration::from_secs(2));
        all_there(&mut cluster, (node + 1) % 5);
    }
}

#[test]
fn a_node_that_lost_its_disk_is_a_new_member() {
    let mut cluster = Cluster::ready(3);
    fill(&mut cluster);
    for node in [2, 0, 1] {
        cluster.crash(node);
        cluster.forget(node);
        cluster.run(Duration::from_millis(100));
        cluster.restart(node);
        cluster.run(Duration::from_secs(5));
        assert!(cluster.views().iter().all(|(_, members, serving)| (*members, *serving) == (3, 3)));
    }
    all_there(&mut cluster, 0);
}

#[test]
fn all_nodes_crash_and_come_back_with_what_was_synced() {
    let mut cluster = Cluster::ready(4);
    fill(&mut cluster);
    for node in 0..4 {
        cluster.crash(node);
    }
    for node in 0..4 {
        cluster.restart(node);
    }
    cluster.run(Duration::from_secs(3));
    all_there(&mut cluster, 2);
}

#[test]
fn nothing_is_acknowledged_before_it_is_durable() {
    let mut cluster = Cluster::ready(3);
    // The bound of the clock is durable, too.
    cluster.put(0, "k", "before");
    cluster.sync = false;
    let request = cluster.ask(0, "k", put("v"), Level::Quorum);
    cluster.run(Duration::from_secs(1));
    assert!(cluster.replies.iter().all(|(id, _)| *id != request));
    cluster.sync_disk(0);
    cluster.run(Duration::from_millis(100));
    assert!(cluster.replies.iter().all(|(id, _)| *id != request), "one of three is not enough");
    cluster.sync_disk(1);
    cluster.run(Duration::from_millis(100));
    assert!(cluster.replies.iter().any(|(id, reply)| *id == request && reply.is_ok()));
}

#[test]
fn a_minority_says_so() {
    let mut cluster = Cluster::ready(3);
    fill(&mut cluster);
    cluster.crash(1);
    cluster.crash(2);
    let failed = trouble(cluster.act(0, "key 1", put("new")));
    assert!(
        matches!(failed, Trouble::TooFewReplicas { acked: 0, wanted: 2, happened: Happened::Unknown }),
        "{failed:?}"
    );
    let failed = trouble(cluster.act(0, "key 2", Action::Get));
    assert!(matches!(failed, Trouble::TooFewReplicas { wanted: 2, .. }), "{failed:?}");
    let request = cluster.ask(0, "key 2", Action::Get, Level::One);
    assert_eq!(value(cluster.finish(request).unwrap()).unwrap().bytes, b"value of key 2");
    cluster.restart(1);
    cluster.run(Duration::from_secs(1));
    assert_eq!(cluster.get(1, "key 2").as_deref(), Some("value of key 2"));
}

#[test]
fn whoever_leaves_hands_its_copies_over_first() {
    let mut cluster = Cluster::ready(5);
    fill(&mut cluster);
    for node in [4, 3, 2, 1] {
        let request = cluster.command(node, Command::Leave);
        let end = cluster.now.after(Duration::from_secs(20));
        while !cluster.replies.iter().any(|(id, _)| *id == request) {
            assert!(cluster.now < end, "node {node} leaves");
            cluster.run(Duration::from_millis(10));
        }
        // Nothing of it is needed any more.
        cluster.crash(node);
        cluster.run(Duration::from_millis(500));
        all_there(&mut cluster, 0);
    }
    assert!(cluster.views().iter().all(|(_, members, serving)| (*members, *serving) == (1, 1)));
}

#[test]
fn a_copy_that_missed_something_gets_it() {
    let mut cluster = Cluster::ready(3);
    cluster.cut = vec![(0, 2), (1, 2)];
    fill(&mut cluster);
    cluster.cut.clear();
    cluster.run(Duration::from_secs(8));
    // The other two together are not a quorum without it any more.
    cluster.crash(0);
    all_there(&mut cluster, 2);
}

#[test]
fn a_node_without_a_ring_has_no_store_either() {
    let mut cluster = Cluster::of(1, settings(), 1);
    cluster.places[0].node = None;
    let contact = cluster.places[0].contact;
    let echo = kringle_core::overlay::echo::Echo::new(contact);
    let node = kringle_core::node::Node::over(kringle_core::overlay::AnyOverlay::Echo(echo));
    cluster.places[0].node = Some(node);
    assert_eq!(cluster.act(0, "k", put("v")), Err(Failure::NoStore));
}

#[test]
fn deleted_records_are_forgotten_when_everybody_knows() {
    let settings = kringle_core::config::Settings { tombstone_age: Duration::from_secs(20), ..settings() };
    let mut cluster = Cluster::of(3, settings, 1);
    cluster.run(Duration::from_secs(3));
    fill(&mut cluster);
    for key in keys() {
        cluster.act(1, &key, change(kringle_core::store::op::Change::Delete)).unwrap();
    }
    let left = |cluster: &Cluster| -> Vec<usize> {
        cluster.places.iter().map(|place| place.seen.len(kringle_core::records::Space::Data)).collect()
    };
    cluster.run(Duration::from_secs(10));
    assert_eq!(left(&cluster), [40, 40, 40], "not before their time");
    cluster.run(Duration::from_secs(40));
    assert_eq!(left(&cluster), [0, 0, 0]);
    assert_eq!(cluster.get(0, "key 1"), None);
}

#[test]
fn who_gave_a_slot_away_is_not_talked_into_an_older_epoch() {
    let mut cluster = Cluster::ready(5);
    fill(&mut cluster);
    // Long enough for everybody to forget the records that are others' now.
    cluster.run(Duration::from_secs(90));
    let store =
        |cluster: &Cluster, node: usize| cluster.places[node].node.clone().and_then(|n| n.store().cloned());
    let mut given = 0;
    for slot in 0..cluster.config.slots {
        if store(&cluster, 0).is_some_and(|store| store.view(slot).is_some()) {
            continue;
        }
        given += 1;
        let lineage =
            (1..5).find_map(|node| Some(store(&cluster, node)?.view(slot)?.0.lineage)).expect("held");
        // The first node held everything in the beginning. Somebody who slept since then says so.
        let members = vec![Member { id: cluster.places[0].contact.id, born: cluster.places[0].born }];
        let view = View { epoch: 1, lineage, members, survivors: Vec::new() };
        let items = vec![Item { slot, word: Word::View { view, entered: Sum::default() } }];
        let body = Body::Store(Box::new(Packet { message: Message::Slots(items), contacts: Vec::new() }));
        let from = cluster.places[1].contact;
        cluster.input(0, Input::Message { from, body });
        assert_eq!(store(&cluster, 0).and_then(|store| store.view(slot).map(|(view, _)| view.epoch)), None);
    }
    assert!(given > 0, "the first node holds all slots still");
    all_there(&mut cluster, 0);
}

#[test]
fn a_doubled_write_is_not_made_anew_over_a_later_one() {
    let mut cluster = Cluster::ready(5);
    let holds = |cluster: &Cluster, node: usize| {
        let slot = Store::slot_of(name("k").id, &cluster.config);
        cluster.places[node].node.as_ref().and_then(|n| n.store()?.view(slot)).is_some()
    };
    let asker = (0..5).find(|node| !holds(&cluster, *node)).expect("three of five hold it");
    let request = cluster.ask(asker, "k", put("first"), Level::Quorum);
    let is_ask =
        |body: &Body| matches!(body, Body::Store(packet) if matches!(packet.message, Message::Ask { .. }));
    let is_answer =
        |body: &Body| matches!(body, Body::Store(packet) if matches!(packet.message, Message::Answer { .. }));
    let (_, holder, from, doubled) = loop {
        match cluster.wire.iter().find(|(.., body)| is_ask(body)) {
            Some(ask) => break ask.clone(),
            None => cluster.run(Duration::from_micros(100)),
        }
    };
    // It is done, but the answer is lost.
    while !cluster.wire.iter().any(|(_, to, _, body)| *to == asker && is_answer(body)) {
        cluster.run(Duration::from_micros(100));
    }
    cluster.wire.retain(|(_, to, _, body)| *to != asker || !is_answer(body));
    cluster.put(holder, "k", "second");
    cluster.input(holder, Input::Message { from, body: doubled });
    let answer = cluster.finish(request);
    assert!(
        !matches!(answer, Err(Failure::Store(Trouble::Timeout { happened: Happened::No }))),
        "{answer:?}"
    );
    cluster.run(Duration::from_secs(1));
    assert_eq!(cluster.get(asker, "k").as_deref(), Some("second"));
}

#[test]
fn a_set_is_not_shown_before_it_is_durable() {
    let mut cluster = Cluster::ready(1);
    cluster.act(0, "set", add("a")).expect("added");
    cluster.sync = false;
    cluster.ask(0, "set", change(Change::Delete), Level::Quorum);
    cluster.run(Duration::from_millis(100));
    let read = cluster.ask(0, "set", Action::Members, Level::Quorum);
    cluster.run(Duration::from_millis(100));
    assert!(cluster.replies.iter().all(|(request, _)| *request != read), "the delete may be lost yet");
    cluster.crash(0);
    cluster.sync = true;
    cluster.restart(0);
    cluster.run(Duration::from_secs(1));
    assert_eq!(cluster.members(0, "set"), ["a"]);
}

/// Lets an action change the key of a set at one member, and nothing more: all nodes are restarted, and what is on its way
/// is lost. Returns the member.
fn change_one(cluster: &mut Cluster, action: Action) -> usize {
    let cell = Cell::of(&name("set")).key.0;
    let read = |cluster: &Cluster, node: usize| cluster.places[node].seen.read(Space::Data, &cell);
    let before: Vec<_> = (0..3).map(|node| read(cluster, node)).collect();
    cluster.ask(0, "set", action, Level::Quorum);
    let changed = loop {
        match (0..3).find(|node| read(cluster, *node) != before[*node]) {
            Some(node) => break node,
            None => cluster.run(Duration::from_micros(100)),
        }
    };
    cluster.wire.clear();
    for node in 0..3 {
        cluster.sync_disk(node);
        cluster.crash(node);
        cluster.restart(node);
    }
    changed
}

fn cut_off(cluster: &mut Cluster, alone: usize) {
    cluster.cut = (0..3).filter(|node| *node != alone).map(|node| (node, alone)).collect();
}

/// A delete of a set reaches one of three members; seven seconds later a value is added. Returns the set then.
fn set_after_a_late_delete(without: Option<Safeguard>) -> Vec<String> {
    let mut cluster = Cluster::of(3, Settings { without, ..settings() }, 1);
    cluster.run(Duration::from_secs(5));
    cluster.act(0, "set", add("a")).expect("added");
    cluster.run(Duration::from_secs(1));
    let late = change_one(&mut cluster, change(Change::Delete));
    cut_off(&mut cluster, late);
    cluster.run(Duration::from_secs(7));
    cluster.act((late + 1) % 3, "set", add("b")).expect("added");
    cluster.cut.clear();
    cluster.run(Duration::from_secs(20));
    cluster.members(0, "set")
}

#[test]
fn a_set_is_agreed_on_by_those_that_take_its_values() {
    let mut cluster = Cluster::ready(3);
    cluster.act(0, "set", add("a")).expect("added");
    cluster.run(Duration::from_secs(1));
    let late = change_one(&mut cluster, change(Change::Delete));
    cut_off(&mut cluster, late);
    cluster.run(Duration::from_secs(7));
    // One of the other two agrees with itself that the set is still there, and no more comes of it.
    let first = change_one(&mut cluster, add("b"));
    assert_ne!(first, late);
    cluster.run(Duration::from_secs(4));
    cluster.act(first, "set", add("c")).expect("added");
    // The third has taken the value: it must know of what was agreed, too, or the delete wins with its help.
    cut_off(&mut cluster, first);
    cluster.run(Duration::from_secs(2));
    assert_eq!(cluster.members(3 - first - late, "set"), ["a", "c"]);
}

#[test]
fn a_late_delete_of_a_set_takes_no_later_value() {
    assert!(set_after_a_late_delete(None).contains(&"b".to_owned()));
    #[cfg(feature = "mutants")]
    assert!(set_after_a_late_delete(Some(Safeguard::FreshSets)).is_empty(), "the rule makes the difference");
}
