//! Nodes that store crash, stand still, stop and leave, under load. What was acknowledged stays.
//!
//! Every load writes down what was acknowledged (see `ring/ledger.rs`); in the end all of it is read.

use std::collections::BTreeMap;
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};
use rustix::process::Signal;

use crate::ring::control::{Starting, settle};
use crate::ring::ledger::{Entry, Promises, name};
use crate::ring::protocol::{Ask, Last, Options, now};
use crate::ring::storing::StoreLoad;
use crate::store_support::{Cluster, DEADLINE, get, holders, keys, modest, options, put, write};
use crate::support::{LATE, LONG, launcher, until};

/// How long a load runs before, between and after events.
const WHILE: Duration = Duration::from_secs(2);

#[test]
fn what_one_of_five_wrote_all_can_read() {
    let cluster = Cluster::start(5);
    let keys = keys("k", 40);
    for acked in put(&cluster.nodes[0], &keys, 1) {
        assert!(acked.acked >= 2, "acknowledged by {} copies", acked.acked);
    }
    for node in &cluster.nodes {
        assert_eq!(get(node, &keys, "quorum"), vec![Ok(Some((1, true))); keys.len()]);
    }
    // Every node in turn writes what another one wrote before.
    for (at, key) in keys.iter().enumerate() {
        write(&cluster.nodes[at % 5], key, 2, (at % 2 == 0).then_some(50));
    }
    for node in &cluster.nodes {
        for (at, found) in get(node, &keys, "quorum").into_iter().enumerate() {
            assert_eq!(found, Ok((at % 2 == 0).then_some((2, true))), "{}", keys[at]);
        }
    }
    assert!(holders(&cluster, &keys).iter().all(|place| place.len() == 3));
}

#[test]
fn a_holder_is_killed_under_load_and_nothing_is_lost() {
    let mut cluster = Cluster::start(5);
    let first = keys("first", 20);
    put(&cluster.nodes[0], &first, 1);
    cluster.load_all();
    std::thread::sleep(WHILE);
    let victim = holders(&cluster, &first[..1])[0][0];
    println!("pid {} is killed", cluster.nodes[victim].pid);
    cluster.nodes.remove(victim).kill();
    std::thread::sleep(WHILE * 2);
    let (_, promises) = cluster.end_loads();
    cluster.verify(&promises);
    let node = &cluster.nodes[0];
    assert_eq!(get(node, &first, "quorum"), vec![Ok(Some((1, true))); first.len()]);
    // Its copies are made elsewhere, without it.
    cluster.serves();
    cluster.verify(&promises);
}

/// Goal: no number of crashes loses anything, if the disks stay. Method: one of three, at random, is killed and started
/// again, fifty times; each life has keys of its own, and writes, reads and deletes them until it is killed.
#[test]
fn fifty_kills_of_three_nodes_lose_nothing() {
    let mut cluster = Cluster::start(3);
    cluster.load_all();
    let mut dice = SeededDice::new(3);
    for _ in 0..50 {
        let victim = dice.below(3);
        cluster.nodes[victim].signal(Signal::KILL);
        cluster.restart(victim);
        cluster.load(victim, modest());
        std::thread::sleep(Duration::from_millis(50 + dice.below(200) as u64));
    }
    std::thread::sleep(WHILE);
    let (_, promises) = cluster.end_loads();
    cluster.verify(&promises);
}

/// Waits until every node has written down whom it knows: without that it would not know whom to join.
fn until_written_down(cluster: &Cluster) {
    until("everybody has written down whom it knows", LONG, || {
        (0..cluster.nodes.len()).all(|at| {
            let known = std::fs::read_to_string(cluster.data(at).join("peers.json")).unwrap_or_default();
            let addresses = cluster.nodes.iter().map(|node| node.address.to_string());
            addresses.filter(|address| known.contains(address)).count() == cluster.nodes.len() - 1
        })
    });
}

/// F-03.
#[test]
fn all_nodes_killed_at_once_lose_nothing() {
    let mut cluster = Cluster::start(5);
    for _ in 0..2 {
        cluster.load_all();
        until_written_down(&cluster);
        std::thread::sleep(WHILE);
        for node in &cluster.nodes {
            node.signal(Signal::KILL);
        }
        let addresses: Vec<_> = cluster.nodes.iter().map(|node| node.address).collect();
        cluster.nodes.clear();
        // Each comes back where it was, and nobody is told whom to join.
        let start = |at: usize| Options { listen: Some(addresses[at]), ..options(Some(cluster.data(at))) };
        let starting: Vec<Starting> = (0..5).map(|at| launcher().spawn(&start(at))).collect();
        cluster.nodes = starting.into_iter().map(|starting| starting.started().unwrap()).collect();
        settle(&cluster.nodes, 8, LONG).unwrap();
        let promises = cluster.promises();
        cluster.verify(&promises);
        let _ = cluster.end_loads();
        cluster.serves();
    }
}

/// What a load with one worker per key, and its keys, looks like.
fn one_each() -> StoreLoad {
    StoreLoad { outstanding: 16, keys: 16, deletes: 0, pause_us: 20_000, ..modest() }
}

/// Checks that every operation ended in time.
fn all_in_time(promises: &Promises) {
    for (name, entry) in &promises.entries {
        let took = Duration::from_micros(entry.end.saturating_sub(entry.start));
        assert!(took <= DEADLINE + LATE, "{name} had a deadline of {DEADLINE:?}: {entry:?}");
    }
}

/// Returns the operations on each key in a time: those that succeeded, and those that failed.
fn in_time(promises: &Promises, from: u64, to: u64) -> BTreeMap<&str, (Vec<&Entry>, Vec<&Entry>)> {
    let mut found: BTreeMap<&str, (Vec<&Entry>, Vec<&Entry>)> = BTreeMap::new();
    for (name, entry) in &promises.entries {
        let (good, bad) = found.entry(name).or_default();
        if entry.start >= from && entry.end <= to {
            if entry.is_success() {
                good.push(entry);
            } else if entry.is_failure() {
                bad.push(entry);
            }
        }
    }
    found
}

fn stop(cluster: &Cluster, stopped: &[usize], signal: Signal) -> u64 {
    stopped.iter().map(|at| cluster.nodes[*at].signal(signal)).max().unwrap()
}

/// One of five stands still: every key has two copies that answer, and goes on being read and written.
#[test]
fn a_minority_that_stands_still_keeps_nobody_from_writing() {
    let mut cluster = Cluster::start(5);
    for at in 0..4 {
        cluster.load(at, one_each());
    }
    std::thread::sleep(WHILE);
    let from = stop(&cluster, &[4], Signal::STOP);
    std::thread::sleep(WHILE * 5);
    let to = now();
    stop(&cluster, &[4], Signal::CONT);
    std::thread::sleep(WHILE);
    let (_, promises) = cluster.end_loads();
    all_in_time(&promises);
    for (name, (good, bad)) in in_time(&promises, from, to) {
        assert!(!good.is_empty(), "{name} was not answered in {} ms: {bad:?}", (to - from) / 1000);
    }
    cluster.verify(&promises);
}

/// Three of five stand still: a key whose copies are with them is refused in time, and nothing is pretended; when they
/// go on, so does everything.
#[test]
fn a_majority_that_stands_still_is_not_pretended_away() {
    let mut cluster = Cluster::start(5);
    for at in 0..2 {
        cluster.load(at, one_each());
    }
    std::thread::sleep(WHILE);
    let names: Vec<String> =
        (1..=2).flat_map(|life| (0..16).map(move |key| name(&format!("life{life}"), key))).collect();
    let held = holders(&cluster, &names);
    let stopped = [2, 3, 4];
    let from = stop(&cluster, &stopped, Signal::STOP);
    std::thread::sleep(WHILE * 5);
    let to = now();
    stop(&cluster, &stopped, Signal::CONT);
    let resumed = now();
    std::thread::sleep(WHILE * 5);
    let (_, promises) = cluster.end_loads();
    all_in_time(&promises);
    let during = in_time(&promises, from, to);
    let mut lonely = 0;
    for (name, place) in names.iter().zip(&held) {
        let Some((good, bad)) = during.get(name.as_str()) else { continue };
        // Two of three stand still, and did so from the first operation on.
        if place.iter().filter(|at| stopped.contains(at)).count() >= 2 {
            lonely += 1;
            assert!(good.is_empty(), "{name} at {place:?} was answered by a minority: {good:?}");
            assert!(!bad.is_empty(), "{name} at {place:?} was not even refused");
        }
    }
    assert!(lonely > 0, "no key was with those who stood still: {held:?}");
    for (name, (good, bad)) in in_time(&promises, resumed, u64::MAX) {
        assert!(!good.is_empty(), "{name} does not work again: {bad:?}");
    }
    cluster.verify(&promises);
}

#[test]
fn a_rolling_restart_under_load_loses_nothing() {
    let mut cluster = Cluster::start(5);
    cluster.load_all();
    for at in 0..5 {
        std::thread::sleep(WHILE / 2);
        cluster.nodes[at].signal(Signal::TERM);
        let (last, status) = cluster.nodes[at].ended(LONG).unwrap();
        assert_eq!((last, status.code()), (Some(Last::Stopped), Some(0)));
        cluster.restart(at);
        cluster.load(at, modest());
    }
    std::thread::sleep(WHILE);
    let (_, promises) = cluster.end_loads();
    cluster.verify(&promises);
    cluster.serves();
}

/// F-06: whoever leaves hands its copies over first. Two leave, one after the other, for good; with what is left there
/// are three copies of everything.
#[test]
fn a_polite_leave_under_load_loses_nothing() {
    let mut cluster = Cluster::start(5);
    cluster.load_all();
    for _ in 0..2 {
        std::thread::sleep(WHILE);
        let leaver = cluster.nodes.pop().unwrap();
        let () = leaver.begin(Ask::Leave).get(LONG * 3).unwrap_or_default();
        let (last, status) = leaver.ended(LONG).unwrap();
        assert_eq!((last, status.code()), (Some(Last::Left), Some(0)));
    }
    std::thread::sleep(WHILE);
    let (_, promises) = cluster.end_loads();
    cluster.verify(&promises);
    cluster.serves();
    cluster.verify(&promises);
}
