//! Acknowledgements mean copies; lost disks and damaged records cost no more than they must; what is really gone has a way
//! out.

use std::ops::Range;
use std::time::Duration;

use kringle_core::config::{Safeguard, Settings};
use kringle_core::contact::Contact;
use kringle_core::edge::{Command, Failure, Input, Reply};
use kringle_core::message::Body;
use kringle_core::records::Space;
use kringle_core::store::message::{ClockReading, Message, Packet, Word};
use kringle_core::store::op::{Action, Change};
use kringle_core::store::record::Cell;
use kringle_core::store::version::Version;
use kringle_core::store::{RecoveryPlan, Store};

use crate::cluster::*;

fn keys() -> Vec<String> {
    (0..40).map(|n| format!("key {n}")).collect()
}

fn put_all(cluster: &mut Cluster, value: &str) {
    for key in keys() {
        cluster.put(0, &key, value);
    }
}

fn expect_all(cluster: &mut Cluster, nodes: Range<usize>, value: &str) {
    for (key, node) in keys().iter().flat_map(|key| nodes.clone().map(move |node| (key, node))) {
        assert_eq!(cluster.get(node, key).as_deref(), Some(value), "{key} at {node}");
    }
}

fn reply(cluster: &mut Cluster, node: usize, command: Command) -> Result<Reply, Failure> {
    let request = cluster.command(node, command);
    for _ in 0..100 {
        if let Some(at) = cluster.replies.iter().position(|(id, _)| *id == request) {
            return cluster.replies.swap_remove(at).1;
        }
        cluster.run(Duration::from_millis(100));
    }
    panic!("no reply");
}

fn recover(cluster: &mut Cluster, node: usize, confirmed: bool) -> RecoveryPlan {
    match reply(cluster, node, Command::Recover { confirmed }) {
        Ok(Reply::Recovery(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

/// Writes while views still grow. Returns how many were acknowledged, and how many of those the founder alone had then.
fn acknowledged_by_the_founder_alone(settings: Settings) -> (usize, usize) {
    let mut cluster = Cluster::of(3, settings, 1);
    // The others have said that they are there, and hold nothing yet.
    cluster.run(Duration::from_millis(1));
    let (mut acked, mut alone) = (0, 0);
    for key in keys() {
        if cluster.act(0, &key, put("v")).is_ok() {
            acked += 1;
            let cell = Cell::of(&name(&key));
            let holds = |at: usize| {
                cluster.places[at].safe.entries(Space::Data).iter().any(|(other, _)| *other == cell.key.0)
            };
            alone += usize::from(!holds(1) && !holds(2));
        }
    }
    (acked, alone)
}

#[test]
fn acknowledged_write_is_on_a_second_disk() {
    let (acked, alone) = acknowledged_by_the_founder_alone(settings());
    assert!(acked > 30 && alone == 0, "{alone} of {acked}");
    #[cfg(feature = "mutants")]
    {
        let settings = Settings { without: Some(Safeguard::EnoughCopies), ..settings() };
        let (_, alone) = acknowledged_by_the_founder_alone(settings);
        assert!(alone > 0, "the rule is what makes the difference");
    }
}

#[test]
fn survivor_of_two_goes_on_when_the_other_lost_its_disk() {
    for restart_survivor in [false, true] {
        let mut cluster = Cluster::ready(2);
        put_all(&mut cluster, "v");
        cluster.crash(1);
        if restart_survivor {
            cluster.crash(0);
        }
        cluster.forget(1);
        cluster.restart(1);
        if restart_survivor {
            cluster.restart(0);
        }
        cluster.run(Duration::from_secs(5));
        for key in keys() {
            for node in 0..2 {
                assert_eq!(cluster.get(node, &key).as_deref(), Some("v"), "{key} at {node}");
            }
            cluster.put(1, &key, "w");
        }
        assert!(cluster.views().iter().all(|(_, members, serving)| (*members, *serving) == (2, 2)));
        // And the other way round.
        cluster.crash(0);
        cluster.forget(0);
        cluster.restart(0);
        cluster.run(Duration::from_secs(5));
        expect_all(&mut cluster, 0..1, "w");
    }
}

#[test]
fn damaged_copy_in_a_view_of_two_is_repaired() {
    let mut cluster = Cluster::ready(2);
    cluster.put(0, "key", "value");
    cluster.vanish(1);
    cluster.damage(1, "key");
    cluster.restart(1);
    cluster.run(Duration::from_secs(10));
    assert!(cluster.views().iter().all(|(_, members, serving)| members == serving), "{:?}", cluster.views());
    assert_eq!(cluster.get(1, "key").as_deref(), Some("value"));
}

/// The other one leaves: what it has and this one does not know to be damaged goes with it.
#[test]
fn damage_is_found_before_the_last_whole_copy_leaves() {
    let mut cluster = Cluster::ready(2);
    put_all(&mut cluster, "v");
    cluster.run(Duration::from_secs(1));
    for key in keys() {
        cluster.damage(0, &key);
    }
    cluster.command(1, Command::Leave);
    cluster.run(Duration::from_secs(30));
    cluster.crash(1);
    assert!(cluster.views().iter().all(|(_, members, serving)| (*members, *serving) == (1, 1)));
    expect_all(&mut cluster, 0..1, "v");
}

/// The third has every record, and the sums on the damaged disks show that.
#[test]
fn damage_on_two_of_three_disks_is_repaired_from_the_third() {
    let mut cluster = Cluster::ready(3);
    put_all(&mut cluster, "v");
    cluster.run(Duration::from_secs(1));
    for node in [1, 2] {
        cluster.vanish(node);
        for key in keys() {
            cluster.damage(node, &key);
        }
    }
    cluster.restart(1);
    cluster.restart(2);
    cluster.run(Duration::from_secs(20));
    expect_all(&mut cluster, 0..3, "v");
}

#[test]
fn lost_quorum_is_rebuilt_only_when_the_operator_says_so() {
    let mut cluster = Cluster::ready(3);
    put_all(&mut cluster, "v");
    for node in [1, 2] {
        cluster.crash(node);
        cluster.forget(node);
        cluster.restart(node);
    }
    cluster.run(Duration::from_secs(5));
    assert!(cluster.act(0, "key 1", put("w")).is_err(), "two of three copies are gone");
    let plan = recover(&mut cluster, 1, false);
    let slots = cluster.config.slots;
    assert_eq!((plan.slots, plan.healthy, plan.rebuilt, plan.empty), (slots, 0, slots, 0), "{plan:?}");
    assert_eq!((plan.records, plan.missing.len(), plan.nodes.len()), (40, 2, 3), "{plan:?}");
    cluster.run(Duration::from_secs(5));
    assert!(cluster.act(0, "key 1", put("w")).is_err(), "a dry run changes nothing");
    assert!(recover(&mut cluster, 2, true).confirmed);
    cluster.run(Duration::from_secs(5));
    for key in keys() {
        for node in 0..3 {
            assert_eq!(cluster.get(node, &key).as_deref(), Some("v"), "{key} at {node}");
        }
        cluster.put(1, &key, "w");
    }
    assert!(cluster.views().iter().all(|(_, members, serving)| (*members, *serving) == (3, 3)));
    let plan = recover(&mut cluster, 0, false);
    assert_eq!((plan.healthy, plan.rebuilt), (slots, 0));
}

#[test]
fn member_that_returns_after_a_recovery_serves_nothing_of_what_it_had() {
    let mut cluster = Cluster::ready(3);
    put_all(&mut cluster, "v");
    cluster.crash(1);
    cluster.crash(2);
    cluster.run(Duration::from_secs(2));
    assert!(recover(&mut cluster, 0, true).confirmed);
    cluster.run(Duration::from_secs(2));
    put_all(&mut cluster, "w");
    cluster.restart(1);
    cluster.restart(2);
    cluster.run(Duration::from_secs(1));
    for key in keys() {
        for node in 0..3 {
            let found = cluster.act(node, &key, Action::Get);
            let found = found.ok().and_then(value).map(|value| value.bytes);
            assert!(found.is_none_or(|found| found == b"w"), "{key} at {node}");
        }
    }
    assert_eq!(cluster.outdated, [1, 2].into(), "what they have is to be set aside");
}

#[test]
fn retired_node_is_done_without() {
    let mut cluster = Cluster::ready(2);
    put_all(&mut cluster, "v");
    let (founder, other) = (cluster.places[0].contact.id, cluster.places[1].contact.id);
    let refused = reply(&mut cluster, 0, Command::Retire { id: other });
    assert_eq!(refused, Err(Failure::StillThere), "it answers");
    assert_eq!(reply(&mut cluster, 0, Command::Retire { id: founder }), Err(Failure::StillThere));
    cluster.crash(1);
    assert!(cluster.act(0, "key 1", put("w")).is_err(), "one of two");
    assert_eq!(reply(&mut cluster, 0, Command::Retire { id: other }), Ok(Reply::Retired));
    cluster.run(Duration::from_secs(3));
    for key in keys() {
        assert_eq!(cluster.get(0, &key).as_deref(), Some("v"));
        cluster.put(0, &key, "w");
    }
    // Known after a restart, too.
    cluster.crash(0);
    cluster.restart(0);
    cluster.run(Duration::from_secs(12));
    cluster.put(0, "key 1", "x");
}

/// Each of two replicas has lost what the other one has.
#[test]
fn two_replicas_that_lost_different_records_repair_each_other() {
    let mut cluster = Cluster::ready(2);
    put_all(&mut cluster, "v");
    cluster.run(Duration::from_secs(1));
    for (n, key) in keys().iter().enumerate() {
        let node = n % 2;
        if cluster.places[node].node.is_some() {
            cluster.vanish(node);
        }
        cluster.damage(node, key);
    }
    cluster.restart(0);
    cluster.restart(1);
    cluster.run(Duration::from_secs(20));
    expect_all(&mut cluster, 0..2, "v");
}

#[test]
fn three_replicas_that_lost_different_records_repair_each_other() {
    let mut cluster = Cluster::ready(3);
    put_all(&mut cluster, "v");
    cluster.run(Duration::from_secs(10));
    // Each misses something that the others have: what nobody's records ever added up to.
    for node in 0..3 {
        let (next, last) = ((node + 1) % 3, (node + 2) % 3);
        cluster.cut = vec![(node, next), (node, last)];
        cluster.put(next, &format!("key {node}"), "v");
    }
    cluster.cut.clear();
    (0..3).for_each(|node| cluster.vanish(node));
    for (n, key) in keys().iter().enumerate() {
        cluster.damage(n % 3, key);
    }
    (0..3).for_each(|node| cluster.restart(node));
    cluster.run(Duration::from_secs(20));
    expect_all(&mut cluster, 0..3, "v");
}

#[test]
fn old_copy_of_a_disk_is_known_after_everybody_was_down() {
    let mut cluster = Cluster::ready(3);
    put_all(&mut cluster, "v");
    let old = cluster.places[2].safe.clone();
    for round in 0..3 {
        cluster.run(Duration::from_millis(1500));
        put_all(&mut cluster, &format!("w{round}"));
    }
    (0..3).for_each(|node| cluster.crash(node));
    cluster.places[2].safe = old;
    (0..3).for_each(|node| cluster.restart(node));
    cluster.run(Duration::from_secs(5));
    assert!(cluster.outdated.contains(&2), "its store is to be set aside");
}

/// Only the coordinator of the last writes knows how far that disk had come.
#[test]
fn old_copy_of_a_disk_is_not_trusted_on_the_word_of_a_replica_that_knew_it_less_well() {
    let mut cluster = Cluster::ready(3);
    put_all(&mut cluster, "v");
    cluster.run(Duration::from_secs(2));
    let old = cluster.places[1].safe.clone();
    cluster.cut = vec![(0, 2), (1, 2)];
    put_all(&mut cluster, "w");
    cluster.vanish(1);
    cluster.places[1].safe = old;
    cluster.cut = vec![(0, 1)];
    cluster.restart(1);
    cluster.run(Duration::from_secs(1));
    let store = cluster.places[1].node.as_ref().and_then(|node| node.store()).expect("it runs");
    assert!(store.views().all(|(_, _, serves)| !serves), "acknowledged writes are undone");
    cluster.cut.clear();
    cluster.run(Duration::from_secs(2));
    assert!(cluster.outdated.contains(&1), "its store is to be set aside");
}

/// It was replaced in every view. Some still remember the disk.
#[test]
fn old_copy_of_a_disk_does_not_become_a_replica() {
    let mut known = 0;
    for away in 0..40 {
        let mut cluster = Cluster::of(4, settings(), away);
        cluster.run(Duration::from_secs(5));
        put_all(&mut cluster, "v");
        let old = cluster.places[3].safe.clone();
        for round in 0..3 {
            cluster.run(Duration::from_millis(1500));
            put_all(&mut cluster, &format!("w{round}"));
        }
        cluster.crash(3);
        cluster.run(Duration::from_millis(200 * away));
        let id = cluster.places[3].contact.id;
        let has_it = |cluster: &Cluster| {
            let stores = cluster.places[..3].iter().filter_map(|place| place.node.as_ref()?.store());
            stores.flat_map(Store::views).any(|(_, view, _)| view.place(id).is_some())
        };
        if has_it(&cluster) {
            continue;
        }
        cluster.places[3].safe = old;
        cluster.restart(3);
        for _ in 0..500 {
            cluster.run(Duration::from_millis(10));
            if cluster.outdated.contains(&3) {
                known += 1;
                assert!(!has_it(&cluster), "away {away}: a view has a member whose disk is set aside");
                break;
            }
        }
    }
    assert!(known > 0, "no old copy was found out");
}

/// The only other replica has lost its disk since the copy was made: it is not the one that the copy names, and it knows.
#[test]
fn old_copy_of_a_disk_is_known_to_a_replica_with_a_newer_disk() {
    let mut cluster = Cluster::ready(2);
    put_all(&mut cluster, "v");
    let old = cluster.places[1].safe.clone();
    cluster.crash(0);
    cluster.forget(0);
    cluster.restart(0);
    cluster.run(Duration::from_secs(5));
    put_all(&mut cluster, "w");
    cluster.run(Duration::from_secs(2));
    cluster.crash(1);
    cluster.places[1].safe = old;
    cluster.restart(1);
    cluster.run(Duration::from_secs(5));
    assert!(cluster.outdated.contains(&1), "its store is to be set aside");
    cluster.crash(1);
    cluster.forget(1);
    cluster.restart(1);
    cluster.run(Duration::from_secs(5));
    expect_all(&mut cluster, 0..2, "w");
}

#[test]
fn disk_that_is_as_it_was_before_its_first_slot_is_a_new_one() {
    let mut cluster = Cluster::of(3, settings(), 1);
    let old = cluster.places[2].safe.clone();
    cluster.run(Duration::from_secs(5));
    // Nodes 0 and 2 acknowledge something that node 1 misses.
    cluster.cut = vec![(0, 1), (1, 2)];
    put_all(&mut cluster, "v");
    (0..3).for_each(|node| cluster.crash(node));
    cluster.cut.clear();
    cluster.places[2].safe = old;
    cluster.restart(1);
    cluster.restart(2);
    cluster.run(Duration::from_secs(5));
    for key in keys() {
        let read = cluster.act(1, &key, Action::Get);
        assert!(read.is_err(), "{key}: whoever knows of it is away, {read:?}");
    }
    cluster.restart(0);
    cluster.run(Duration::from_secs(10));
    expect_all(&mut cluster, 1..2, "v");
}

#[test]
fn view_does_not_shrink_to_a_dead_half() {
    let mut cluster = Cluster::ready(3);
    put_all(&mut cluster, "v");
    // Nobody knows yet that node 2 is dead when node 1 is told to leave.
    cluster.vanish(2);
    cluster.command(1, Command::Leave);
    cluster.run(Duration::from_secs(3));
    let peer = cluster.places[2].contact.id;
    for node in 0..2 {
        cluster.input(node, Input::Lost { peer });
    }
    cluster.run(Duration::from_secs(60));
    expect_all(&mut cluster, 0..1, "v");
}

#[test]
fn node_that_leaves_waits_for_a_quorum_of_those_that_stay() {
    let mut cluster = Cluster::ready(3);
    put_all(&mut cluster, "v");
    // Node 1 comes back and does not hear of node 2: it may be gone for good.
    cluster.crash(1);
    cluster.cut = vec![(0, 2), (1, 2)];
    cluster.restart(1);
    cluster.run(Duration::from_secs(5));
    let leave = cluster.command(1, Command::Leave);
    let left = |cluster: &Cluster| cluster.replies.iter().any(|(request, _)| *request == leave);
    cluster.run(cluster.config.drain * 2);
    assert!(!left(&cluster), "without it there is no quorum");
    cluster.cut.clear();
    cluster.run(Duration::from_secs(30));
    assert!(left(&cluster), "with both others there is");
}

#[test]
fn values_of_a_set_whose_own_record_is_damaged_are_no_garbage() {
    let mut cluster = Cluster::ready(2);
    for value in ["a", "b", "c"] {
        cluster.act(0, "set", add(value)).expect("added");
    }
    // Something that ends is in every slot, so that garbage is collected.
    for key in keys() {
        let ttl = Some(Duration::from_secs(2));
        cluster.act(0, &key, change(Change::Put { value: b"v".to_vec(), ttl })).expect("written");
    }
    cluster.run(Duration::from_secs(1));
    for node in 0..2 {
        cluster.vanish(node);
    }
    cluster.damage(1, "set");
    cluster.damage_cell(0, &Cell::member(&name("set"), digest("a")));
    for node in 0..2 {
        cluster.restart(node);
    }
    cluster.run(Duration::from_secs(60));
    for node in 0..2 {
        assert_eq!(cluster.members(node, "set"), ["a", "b", "c"], "at {node}");
    }
}

#[test]
fn damaged_record_does_not_make_a_view_forget_what_it_was() {
    for damaged in 0..3 {
        let (dead, late) = ((damaged + 1) % 3, (damaged + 2) % 3);
        let settings = Settings { dead_after: Duration::from_secs(5), ..settings() };
        let mut cluster = Cluster::of(3, settings, 1);
        cluster.run(Duration::from_secs(5));
        put_all(&mut cluster, "v");
        cluster.run(Duration::from_secs(1));
        // One member misses the deletes. Of those that have them one dies, and the disk of the other is damaged.
        cluster.cut = vec![(late, damaged), (late, dead)];
        for key in keys() {
            cluster.act(dead, &key, change(Change::Delete)).expect("deleted");
        }
        cluster.vanish(damaged);
        for key in keys() {
            cluster.damage(damaged, &key);
        }
        cluster.crash(dead);
        cluster.cut.clear();
        cluster.restart(damaged);
        cluster.run(Duration::from_secs(20));
        cluster.restart(dead);
        cluster.run(Duration::from_secs(30));
        for key in keys() {
            assert_eq!(cluster.get(late, &key), None, "{key}, {damaged} is damaged");
        }
    }
}

/// The only other node leaves as soon as a newcomer has everything. The newcomer loses power before that is on its disk, if
/// it says so too early.
#[test]
fn newcomer_says_that_it_has_the_records_when_they_are_on_its_disk() {
    let mut cluster = Cluster::of(2, settings(), 1);
    cluster.crash(1);
    cluster.run(Duration::from_secs(2));
    put_all(&mut cluster, "v");
    cluster.restart(1);
    let learnt = |cluster: &Cluster| {
        let slots = |body: &Body| match body {
            Body::Store(packet) => match &packet.message {
                Message::Slots(items) => items.iter().any(|item| matches!(item.word, Word::Learnt { .. })),
                _ => false,
            },
            _ => false,
        };
        cluster.wire.iter().any(|(.., from, body)| from.id == cluster.places[1].contact.id && slots(body))
    };
    let end = cluster.now.after(Duration::from_secs(20));
    while !learnt(&cluster) {
        assert!(cluster.now < end, "it learns");
        cluster.run(Duration::from_micros(100));
    }
    let views = cluster.places[1].safe.entries(Space::Views).len();
    let records = cluster.places[1].safe.entries(Space::Data).len();
    assert!(views > 0 && records > 0, "{views} views and {records} records are on its disk");
}

/// Chaos seed 2000444 over Chord: both members that a slot had left, although a third node stayed.
#[test]
fn members_that_all_leave_wait_for_a_node_that_stays() {
    let mut cluster = Cluster::ready(4);
    put_all(&mut cluster, "v");
    cluster.cut = vec![(0, 3), (1, 3), (2, 3)];
    let leaves = [0, 1, 2].map(|node| cluster.command(node, Command::Leave));
    cluster.run(cluster.config.drain * 2);
    let left = |cluster: &Cluster| {
        leaves.iter().filter(|leave| cluster.replies.iter().any(|(request, _)| request == *leave)).count()
    };
    assert_eq!(left(&cluster), 0, "what they have is nowhere else");
    cluster.cut.clear();
    cluster.run(Duration::from_secs(60));
    assert_eq!(left(&cluster), 3);
    expect_all(&mut cluster, 3..4, "v");
}

/// Nobody stays that could take the records, and one that died long ago is not waited for.
#[test]
fn all_that_are_left_may_leave() {
    let mut cluster = Cluster::of(3, Settings { dead_after: Duration::from_secs(10), ..settings() }, 1);
    cluster.run(Duration::from_secs(5));
    put_all(&mut cluster, "v");
    cluster.crash(2);
    cluster.run(Duration::from_secs(60));
    assert!(cluster.views().iter().all(|(_, members, _)| *members == 2), "{:?}", cluster.views());
    let leaves = [0, 1].map(|node| cluster.command(node, Command::Leave));
    cluster.run(cluster.config.drain * 2);
    for leave in leaves {
        assert!(cluster.replies.iter().any(|(request, _)| *request == leave));
    }
}

#[test]
fn who_leaves_waits_until_those_that_stay_know() {
    // They might make it a member of a smaller view meanwhile (chaos seed 7000075).
    let mut cluster = Cluster::ready(4);
    cluster.cut = (0..4).filter(|node| *node != 1).map(|node| (node, 1)).collect();
    let leave = cluster.command(1, Command::Leave);
    let second = cluster.command(1, Command::Leave);
    assert_eq!(cluster.finish(second), Err(Failure::Ended));
    cluster.run(cluster.config.drain * 2);
    assert!(cluster.replies.iter().all(|(request, _)| *request != leave), "no other node knows");
    cluster.cut.clear();
    cluster.run(Duration::from_secs(3));
    assert!(cluster.replies.iter().any(|(request, _)| *request == leave), "it has gone");
}

/// What a node says of itself to all others, once.
fn tell_clock(cluster: &mut Cluster, from: Contact, leaving: bool) {
    let reading = ClockReading {
        nonce: 7,
        is_answer: false,
        time: 0,
        wall: 0,
        settled: false,
        hybrid: Version::ZERO,
        born: 0,
        retired: Vec::new(),
        has_room: true,
        leaving,
    };
    for to in 0..cluster.places.len() {
        if cluster.places[to].contact.id != from.id {
            let message = Message::Clock(reading.clone());
            let body = Body::Store(Box::new(Packet { message, contacts: Vec::new() }));
            cluster.input(to, Input::Message { from, body });
        }
    }
}

#[test]
fn who_is_said_to_leave_and_does_not_gets_its_place_back() {
    let mut cluster = Cluster::ready(3);
    let from = cluster.places[0].contact;
    tell_clock(&mut cluster, from, true);
    cluster.run(cluster.config.sweep * 2);
    assert!(cluster.views().iter().all(|(_, members, _)| *members == 3), "{:?}", cluster.views());
}

#[test]
fn a_later_life_of_a_node_that_left_is_counted_on() {
    let mut cluster = Cluster::ready(3);
    let mut from = cluster.places[0].contact;
    cluster.vanish(0);
    tell_clock(&mut cluster, from, true);
    cluster.run(Duration::from_secs(2));
    assert!(cluster.views().iter().any(|(_, members, _)| *members == 2), "{:?}", cluster.views());
    from.incarnation += 1;
    tell_clock(&mut cluster, from, false);
    let is_learn = |body: &Body| {
        let Body::Store(packet) = body else { return false };
        let Message::Slots(items) = &packet.message else { return false };
        items.iter().any(|item| matches!(item.word, Word::Learn { .. }))
    };
    let end = cluster.now.after(Duration::from_secs(2));
    while !cluster.wire.iter().any(|(_, to, _, body)| *to == 0 && is_learn(body)) {
        assert!(cluster.now < end, "no member asks it to take a copy");
        cluster.run(Duration::from_micros(100));
    }
}
