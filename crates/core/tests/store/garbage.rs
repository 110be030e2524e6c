//! Nothing grows for ever: deleted sets, values that ended, promises, tombstones while a member is dead.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::records::Space;
use kringle_core::store::op::{Action, Change, Condition, Trouble};

use crate::cluster::*;

fn short_lived() -> Settings {
    Settings { tombstone_age: Duration::from_secs(20), dead_after: Duration::from_secs(30), ..settings() }
}

fn ready(count: usize) -> Cluster {
    let mut cluster = Cluster::of(count, short_lived(), 1);
    cluster.run(Duration::from_secs(3));
    cluster
}

fn left(cluster: &Cluster, space: Space) -> Vec<usize> {
    let running = cluster.places.iter().filter(|place| place.node.is_some());
    running.map(|place| place.seen.len(space)).collect()
}

fn bytes(cluster: &Cluster, space: Space) -> usize {
    let entries = cluster.places.iter().flat_map(|place| place.seen.entries(space));
    entries.map(|(_, value)| value.len()).sum()
}

#[test]
fn values_of_deleted_and_replaced_sets_are_dropped() {
    for replace in [false, true] {
        let mut cluster = ready(3);
        for n in 0..30 {
            cluster.act(n % 3, "set", add(&format!("value {n}"))).expect("added");
        }
        cluster.act(0, "kept", add("stays")).expect("added");
        let action = if replace { put("value") } else { change(Change::Delete) };
        cluster.act(1, "set", action).expect("done");
        cluster.run(Duration::from_secs(60));
        assert_eq!(left(&cluster, Space::Members), [1, 1, 1]);
        assert_eq!(cluster.members(2, "kept"), ["stays"]);
        let expected = if replace { Err(Trouble::WrongKind) } else { Ok(Vec::<String>::new()) };
        match expected {
            Ok(none) => assert_eq!(cluster.members(0, "set"), none),
            Err(wrong) => assert_eq!(trouble(cluster.act(0, "set", Action::Members)), wrong),
        }
    }
}

#[test]
fn bytes_of_a_value_go_when_it_ends_and_the_tombstone_later() {
    let mut cluster = ready(3);
    for n in 0..10 {
        let ttl = Some(Duration::from_secs(5));
        cluster.act(0, &format!("k{n}"), change(Change::Put { value: vec![7; 10_000], ttl })).expect("put");
    }
    assert!(bytes(&cluster, Space::Data) > 300_000);
    cluster.run(Duration::from_secs(18));
    assert!(bytes(&cluster, Space::Data) < 10_000, "{}", bytes(&cluster, Space::Data));
    assert_eq!(left(&cluster, Space::Data), [10, 10, 10], "tombstones stay");
    assert_eq!(cluster.get(1, "k1"), None);
    cluster.run(Duration::from_secs(30));
    assert_eq!(left(&cluster, Space::Data), [0, 0, 0]);
}

#[test]
fn promises_of_failed_conditional_writes_are_dropped() {
    let mut cluster = ready(3);
    cluster.put(0, "k", "v");
    for n in 0..20 {
        let _ = cluster.act(n % 3, "k", put_if("x", Condition::Absent));
        let _ = cluster.act(n % 3, &format!("none {n}"), put_if("x", Condition::Present));
    }
    assert!(left(&cluster, Space::Promises).iter().sum::<usize>() > 20);
    // Something has to be collected at all: a tombstone in every slot.
    for n in 0..40 {
        cluster.put(0, &format!("gone {n}"), "v");
        cluster.act(0, &format!("gone {n}"), change(Change::Delete)).expect("deleted");
    }
    cluster.run(Duration::from_secs(60));
    assert_eq!(left(&cluster, Space::Promises), [0, 0, 0]);
}

#[test]
fn dead_member_does_not_stop_garbage_collection() {
    let mut cluster = ready(3);
    for n in 0..20 {
        cluster.put(0, &format!("k{n}"), "v");
    }
    cluster.crash(2);
    for n in 0..20 {
        cluster.act(0, &format!("k{n}"), change(Change::Delete)).expect("deleted");
    }
    cluster.run(Duration::from_secs(120));
    assert_eq!(left(&cluster, Space::Data), [0, 0]);
    cluster.restart(2);
    cluster.run(Duration::from_secs(10));
    assert!(cluster.views().iter().all(|(_, members, serving)| (*members, *serving) == (3, 3)));
    for n in 0..20 {
        assert_eq!(cluster.get(2, &format!("k{n}")), None, "nothing comes back");
    }
}

#[test]
fn churned_set_above_one_answer_stays_readable() {
    let mut cluster = ready(3);
    // Values that come and go leave tombstones; with their keys these are more than fits one answer.
    let long = "k".repeat(1000);
    for n in 0..700 {
        let value = format!("value {n}");
        cluster.act(0, &long, add(&value)).expect("added");
        if n % 10 != 0 {
            let digest = digest(&value);
            cluster.act(1, &long, Action::Remove { digest }).expect("removed");
        }
    }
    assert_eq!(cluster.members(2, &long).len(), 70);
    // And if copies differ.
    cluster.crash(0);
    cluster.act(1, &long, add("another")).expect("added");
    cluster.restart(0);
    assert_eq!(cluster.members(0, &long).len(), 71);
}
