//! What users can ask for, and what they get.

use std::time::Duration;

use kringle_core::edge::Input;
use kringle_core::message::Body;
use kringle_core::records::{Records, Space};
use kringle_core::store::Store;
use kringle_core::store::message::{Message, Packet, Step, Verdict};
use kringle_core::store::op::{Action, Change, Condition, Found, Happened, Level, Trouble};
use kringle_core::store::record::Cell;
use kringle_core::store::version::Version;

use crate::cluster::*;

#[test]
fn what_is_put_at_one_node_is_got_at_every_other() {
    let mut cluster = Cluster::ready(5);
    for (at, key) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        assert_eq!(cluster.get(at % 5, key), None);
        cluster.put(at % 5, key, &format!("value of {key}"));
    }
    for node in 0..5 {
        for key in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(cluster.get(node, key), Some(format!("value of {key}")));
        }
    }
}

#[test]
fn an_answer_says_how_many_copies_there_are() {
    let mut cluster = Cluster::ready(5);
    for (level, wanted) in [(Level::One, 1), (Level::Quorum, 2), (Level::All, 3)] {
        let request = cluster.ask(3, "k", put("v"), level);
        let answer = cluster.finish(request).unwrap();
        assert_eq!((answer.wanted, answer.replicas), (wanted, 3));
        assert!(answer.acked >= wanted && answer.acked <= 3, "{answer:?}");
        let request = cluster.ask(3, "k", Action::Get, level);
        assert_eq!(value(cluster.finish(request).unwrap()).unwrap().bytes, b"v");
    }
}

#[test]
fn a_put_replaces_and_a_delete_removes() {
    let mut cluster = Cluster::ready(3);
    let answer = cluster.act(0, "k", put("one")).unwrap();
    let (first, created, _) = changed(&answer);
    assert!(created);
    let answer = cluster.act(1, "k", put("two")).unwrap();
    let (second, created, _) = changed(&answer);
    assert!(!created && second > first);
    assert_eq!(cluster.get(2, "k").as_deref(), Some("two"));
    cluster.act(2, "k", change(Change::Delete)).unwrap();
    assert_eq!(cluster.get(0, "k"), None);
    let answer = cluster.act(0, "k", put("three")).unwrap();
    assert!(changed(&answer).1);
}

#[test]
fn conditions_hold_or_the_current_version_is_told() {
    let mut cluster = Cluster::ready(4);
    let version = changed(&cluster.act(0, "k", put_if("one", Condition::Absent)).unwrap()).0;
    let again = cluster.act(1, "k", put_if("two", Condition::Absent));
    assert_eq!(trouble(again), Trouble::ConditionFailed(version));
    let answer = cluster.act(2, "k", put_if("two", Condition::Version(version))).unwrap();
    let next = changed(&answer).0;
    assert!(next > version);
    let stale = cluster.act(3, "k", put_if("three", Condition::Version(version)));
    assert_eq!(trouble(stale), Trouble::ConditionFailed(next));
    assert_eq!(cluster.get(0, "k").as_deref(), Some("two"));
    let none = cluster.act(1, "nothing", put_if("x", Condition::Present));
    assert_eq!(trouble(none), Trouble::ConditionFailed(Version::ZERO));
}

#[test]
fn increments_from_everywhere_add_up() {
    let mut cluster = Cluster::ready(5);
    let mut requests = Vec::new();
    for node in 0..5 {
        for _ in 0..4 {
            requests.push(cluster.ask(node, "n", change(Change::Increment(1)), Level::Quorum));
        }
    }
    let mut numbers: Vec<i64> =
        requests.into_iter().map(|request| changed(&cluster.finish(request).unwrap()).2.unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<i64>>());
    assert_eq!(cluster.get(0, "n").as_deref(), Some("20"));
    cluster.put(0, "text", "not a number");
    assert_eq!(trouble(cluster.act(0, "text", change(Change::Increment(1)))), Trouble::WrongKind);
    cluster.put(0, "most", &i64::MAX.to_string());
    assert_eq!(trouble(cluster.act(0, "most", change(Change::Increment(1)))), Trouble::OutOfRange);
}

#[test]
fn sets_take_values_and_give_them_back() {
    let mut cluster = Cluster::ready(4);
    assert!(changed(&cluster.act(0, "s", add("x")).unwrap()).1);
    assert!(changed(&cluster.act(1, "s", add("y")).unwrap()).1);
    assert!(!changed(&cluster.act(2, "s", add("x")).unwrap()).1, "it was there");
    assert_eq!(cluster.members(3, "s"), ["x", "y"]);
    let removed = cluster.act(0, "s", Action::Remove { digest: digest("x") }).unwrap();
    assert!(changed(&removed).1);
    let removed = cluster.act(0, "s", Action::Remove { digest: digest("x") }).unwrap();
    assert!(!changed(&removed).1);
    assert_eq!(cluster.members(1, "s"), ["y"]);
    assert_eq!(trouble(cluster.act(2, "s", Action::Get)), Trouble::WrongKind);
    cluster.put(0, "v", "value");
    assert_eq!(trouble(cluster.act(1, "v", add("z"))), Trouble::WrongKind);
    assert_eq!(trouble(cluster.act(1, "v", Action::Members)), Trouble::WrongKind);
    // A value takes the place of a set, and what was in the set does not come back.
    cluster.put(2, "s", "value");
    assert_eq!(cluster.get(3, "s").as_deref(), Some("value"));
    cluster.act(0, "s", change(Change::Delete)).unwrap();
    cluster.act(1, "s", add("new")).unwrap();
    assert_eq!(cluster.members(2, "s"), ["new"]);
}

#[test]
fn a_time_to_live_ends() {
    let mut cluster = Cluster::ready(3);
    let second = Some(Duration::from_secs(1));
    cluster.act(0, "k", change(Change::Put { value: b"v".to_vec(), ttl: second })).unwrap();
    let got = value(cluster.act(1, "k", Action::Get).unwrap()).unwrap();
    assert!(got.expires.unwrap() > WALL);
    cluster.run(Duration::from_millis(1100));
    assert_eq!(cluster.get(1, "k"), None);
    cluster.put(0, "k", "again");
    cluster.act(0, "k", change(Change::Expire(second))).unwrap();
    cluster.act(0, "k", change(Change::Expire(None))).unwrap();
    cluster.run(Duration::from_secs(2));
    assert_eq!(cluster.get(2, "k").as_deref(), Some("again"));
    let gone = cluster.act(0, "no", change(Change::Expire(second)));
    assert_eq!(trouble(gone), Trouble::ConditionFailed(Version::ZERO));
    cluster.act(0, "s", Action::Add { digest: digest("m"), value: b"m".to_vec(), ttl: second }).unwrap();
    cluster.act(0, "s", add("n")).unwrap();
    assert_eq!(cluster.members(1, "s"), ["m", "n"]);
    cluster.run(Duration::from_millis(1100));
    assert_eq!(cluster.members(1, "s"), ["n"]);
}

/// Says what a member answered a coordinator.
fn verdict(body: &Body) -> Option<&Verdict> {
    match body {
        Body::Store(packet) => match &packet.message {
            Message::Did { verdict, .. } => Some(verdict),
            _ => None,
        },
        _ => None,
    }
}

/// Chaos seed 11000216: a key was to be kept for ever. One member took that, the others promised a higher ballot first; then the
/// key's time was over.
#[test]
fn what_one_member_took_is_not_found_after_the_condition_failed() {
    const MOMENT: Duration = Duration::from_micros(100);
    let mut cluster = Cluster::ready(3);
    let ttl = Some(Duration::from_millis(100));
    cluster.act(0, "k", change(Change::Put { value: b"v".to_vec(), ttl })).unwrap();
    let (slot, cell) = (Store::slot_of(name("k").id, &cluster.config), Cell::of(&name("k")));
    let store = cluster.places[0].node.as_ref().and_then(|node| node.store()).unwrap();
    let view = store.view(slot).unwrap().0.clone();
    let at = |id| cluster.places.iter().position(|place| place.contact.id == id).unwrap();
    let [leader, taker, third] = [0, 1, 2].map(|place| at(view.members[place].id));
    let held = |cluster: &Cluster, node: usize| cluster.places[node].seen.read(Space::Data, &cell.key.0);
    while (0..3).any(|node| held(&cluster, node).is_none()) {
        cluster.run(MOMENT);
    }
    let before = held(&cluster, leader);

    let request = cluster.ask(leader, "k", change(Change::Expire(None)), Level::Quorum);
    let mut promises = 0;
    while promises < 2 {
        cluster.run(MOMENT);
        let soon = cluster.now.after(Duration::from_millis(1));
        let promised = cluster
            .wire
            .iter_mut()
            .filter(|(_, to, _, body)| *to == leader && matches!(verdict(body), Some(Verdict::Promised(_))));
        promises = promised.map(|(at, ..)| *at = soon).count();
    }
    // Another coordinator prepares a ballot, and is never heard of again.
    let ballot = Version::at(WALL + cluster.now.micros() / 1000 + 50);
    for (node, from) in [(leader, third), (third, taker)] {
        let step = Step::Prepare { cell: cell.clone(), ballot };
        let message = Message::Do { nonce: 7, slot, epoch: view.epoch, step };
        let body = Body::Store(Box::new(Packet { message, contacts: Vec::new() }));
        let from = cluster.places[from].contact;
        cluster.input(node, Input::Message { from, body });
        cluster.sync_disk(node);
    }
    // One takes it, but can not say so; another refuses it, and that is heard when the time is over.
    let late = cluster.now.after(Duration::from_millis(150));
    let (mut taken, mut refused) = (false, false);
    while !(taken && refused) {
        cluster.run(MOMENT);
        if !taken && held(&cluster, taker) != before {
            taken = true;
            cluster.cut = vec![(leader, taker)];
        }
        for (at, to, _, body) in &mut cluster.wire {
            if *to == leader && matches!(verdict(body), Some(Verdict::Refused(_))) {
                refused = true;
                *at = late;
            }
        }
        assert!(cluster.now < late, "one takes it and one refuses it");
    }
    assert!(held(&cluster, leader) == before && held(&cluster, third) == before);
    assert_eq!(trouble(cluster.finish(request)), Trouble::ConditionFailed(Version::ZERO));
    // Every read quorum now has the member that took it.
    cluster.cut = vec![(leader, third)];
    assert_eq!(cluster.get(taker, "k"), None, "it was not kept");
}

#[test]
fn a_walk_visits_every_key_once() {
    let mut cluster = Cluster::ready(5);
    let mut keys: Vec<String> = (0..50).map(|n| format!("key {n}")).collect();
    for (at, key) in keys.iter().enumerate() {
        cluster.put(at % 5, key, "v");
    }
    cluster.act(0, "key 7", change(Change::Delete)).unwrap();
    keys.remove(7);
    let (mut found, mut place) = (Vec::new(), Some((kringle_core::id::Id::ZERO, Vec::new())));
    while let Some((id, after)) = place {
        let ask = kringle_core::store::op::Ask {
            name: kringle_core::store::op::Name { id, bytes: Vec::new() },
            action: Action::Keys { after, limit: 7 },
            level: Level::Quorum,
        };
        let command =
            kringle_core::edge::Command::Store { ask: Box::new(ask), deadline: Duration::from_secs(2) };
        let request = cluster.command(2, command);
        let Found::Keys { keys, next } = cluster.finish(request).unwrap().found else { panic!() };
        found.extend(keys.into_iter().map(|listed| String::from_utf8(listed.name.bytes).unwrap()));
        place = next;
    }
    found.sort();
    keys.sort();
    assert_eq!(found, keys);
}

#[test]
fn a_place_names_the_copies() {
    let mut cluster = Cluster::ready(5);
    let version = cluster.put(0, "k", "v");
    cluster.run(Duration::from_millis(50));
    let Found::Place { copies, .. } = cluster.act(1, "k", Action::Place).unwrap().found else { panic!() };
    assert_eq!(copies.iter().map(|copy| copy.version).collect::<Vec<_>>(), [Some(version); 3]);
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut cluster = Cluster::ready(3);
    assert_eq!(trouble(cluster.act(0, "", put("v"))), Trouble::BadRequest);
    let long = "k".repeat(1025);
    assert_eq!(trouble(cluster.act(0, &long, put("v"))), Trouble::TooLarge { limit: 1024 });
    let large = "v".repeat((1 << 20) + 1);
    assert_eq!(trouble(cluster.act(0, "k", put(&large))), Trouble::TooLarge { limit: 1 << 20 });
    for ttl in [Duration::ZERO, Duration::from_micros(10), Duration::MAX] {
        let action = change(Change::Put { value: b"v".to_vec(), ttl: Some(ttl) });
        assert_eq!(trouble(cluster.act(0, "k", action)), Trouble::BadRequest);
    }
    assert_eq!(cluster.get(1, "k"), None);
    cluster.put(0, "empty", "");
    assert_eq!(cluster.get(1, "empty").as_deref(), Some(""));
    cluster.put(0, "large", &"v".repeat(1 << 20));
    assert_eq!(cluster.get(2, "large").unwrap().len(), 1 << 20);
}

#[test]
fn a_set_has_a_limit() {
    let settings = kringle_core::config::Settings { set_max: 3, value_max: 100, ..settings() };
    let mut cluster = Cluster::of(3, settings, 1);
    cluster.run(Duration::from_secs(3));
    for value in ["a", "b", "c"] {
        cluster.act(0, "s", add(value)).unwrap();
    }
    assert_eq!(trouble(cluster.act(1, "s", add("d"))), Trouble::TooLarge { limit: 3 });
    cluster.act(1, "s", add("a")).unwrap();
    cluster.act(1, "s", Action::Remove { digest: digest("a") }).unwrap();
    cluster.act(1, "s", add("d")).unwrap();
    cluster.act(0, "t", add(&"x".repeat(60))).unwrap();
    assert_eq!(trouble(cluster.act(1, "t", add(&"y".repeat(60)))), Trouble::TooLarge { limit: 100 });
}

/// Chaos seed 13000433 over Chord: the network delivers a request twice. The coordinator's disk is full the first time, and has
/// room the second time.
#[test]
fn request_that_arrives_twice_is_not_done_after_it_was_refused() {
    let mut cluster = Cluster::ready(2);
    let leader = cluster.leader("key");
    let asker = 1 - leader;
    cluster.input(leader, Input::Room { enough: false });
    let request = cluster.ask(asker, "key", put("refused"), Level::Quorum);
    let mut copies = Vec::new();
    while copies.is_empty() {
        cluster.run(Duration::from_micros(100));
        let requests = cluster.wire.iter().filter(
            |(.., body)| matches!(body, Body::Store(packet) if matches!(packet.message, Message::Ask { .. })),
        );
        copies = requests.map(|(_, to, from, body)| (*to, *from, body.clone())).collect();
    }
    assert_eq!(trouble(cluster.finish(request)), Trouble::NoSpace { happened: Happened::No });
    cluster.input(leader, Input::Room { enough: true });
    for (to, from, body) in copies {
        cluster.input(to, Input::Message { from, body });
    }
    cluster.run(Duration::from_secs(1));
    assert_eq!(cluster.get(asker, "key"), None, "the client was told that it did not happen");
    cluster.put(asker, "key", "later");
    assert_eq!(cluster.get(asker, "key").as_deref(), Some("later"));
}
