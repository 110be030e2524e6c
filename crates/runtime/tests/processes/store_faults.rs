//! What an ordinary week can bring: a clock that steps, a founder that dies young, a pair of nodes of which one lost its
//! disk.

use std::time::Duration;

use rustix::process::Signal;

use crate::clocks::{faked, library};
use crate::ring::control::{form, settle};
use crate::ring::ledger::Fetched;
use crate::ring::protocol::Options;
use crate::store_disks::delete_store;
use crate::store_support::{Cluster, STORES, get, keys, options, put, try_write, write};
use crate::support::{LONG, launcher, until};

const KEYS: usize = 60;

/// The clock of one node of three steps 25 s ahead while writes go through it, and back. What another node writes after
/// that is never replaced by what came through the stepped clock.
#[test]
fn a_stepped_clock_undoes_no_later_write() {
    let Some(library) = library() else { return };
    let mut cluster = Cluster::start(3);
    let offset = cluster.folder.path().join("offset");
    let set = |text: &str| std::fs::write(&offset, text).unwrap();
    set("+0");
    let stepped = faked(library, ("FAKETIME_TIMESTAMP_FILE", offset.display().to_string()));
    cluster.nodes[2].signal(Signal::KILL);
    cluster.restart_with(&stepped, 2);
    settle(&cluster.nodes, 8, LONG).unwrap();
    cluster.serves();
    let (values, deleted) = (keys("value", KEYS), keys("deleted", KEYS));
    set("+25");
    let all: Vec<String> = [&values[..], &deleted[..]].concat();
    let early = all.iter().filter(|key| try_write(&cluster.nodes[2], key, 1, Some(100)).is_ok()).count();
    println!("{early} of {} writes through the stepped clock were acknowledged", all.len());
    assert!(early > all.len() / 2, "a step of the wall clock stops no writes");
    set("+0");
    put(&cluster.nodes[0], &values, 2);
    for key in &deleted {
        write(&cluster.nodes[0], key, 2, None);
    }
    let start = std::time::Instant::now();
    // Until time has come up to where the clock stood.
    while start.elapsed() < Duration::from_secs(32) {
        for node in &cluster.nodes {
            let found = get(node, &values, "quorum");
            assert!(found.iter().all(|found| *found == Ok(Some((2, true)))), "{found:?}");
            let found = get(node, &deleted, "quorum");
            assert!(found.iter().all(|found| *found == Ok(None)), "{found:?}");
        }
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// Writes begin as soon as the first node answers, and go on while two more join. Then the founder dies with its disk.
#[test]
fn what_a_young_cluster_acknowledged_survives_its_founder() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = form(&launcher(), 3, |at| options(Some(folder.path().join(at.to_string()))));
    for node in &nodes {
        node.ready(LONG).unwrap();
    }
    let all = keys("young", KEYS);
    let acked: Vec<String> =
        all.iter().filter(|key| try_write(&nodes[0], key, 1, Some(100)).is_ok()).cloned().collect();
    let founder = nodes.remove(0);
    founder.signal(Signal::KILL);
    founder.kill();
    assert!(acked.len() > KEYS / 2, "only {} were acknowledged", acked.len());
    let is_there = |found: &Fetched| *found == Ok(Some((1, true)));
    until("everything acknowledged is read without the founder", STORES, || {
        get(&nodes[0], &acked, "quorum").iter().all(is_there)
            && get(&nodes[1], &acked, "quorum").iter().all(is_there)
    });
}

/// Two nodes; one loses its disk. The other has every acknowledged write and goes on, also after a restart.
#[test]
fn of_two_nodes_the_one_that_kept_its_disk_goes_on() {
    let mut cluster = Cluster::start(2);
    let all = keys("pair", KEYS);
    put(&cluster.nodes[0], &all, 1);
    for at in [1, 0] {
        cluster.nodes[at].signal(Signal::KILL);
        let _ = cluster.nodes[at].ended(LONG);
        delete_store(&cluster.data(at));
        cluster.restart(at);
        settle(&cluster.nodes, 8, LONG).unwrap();
        cluster.serves();
        for node in &cluster.nodes {
            assert_eq!(get(node, &all, "quorum"), vec![Ok(Some((1, true))); KEYS]);
        }
        let other = 1 - at;
        cluster.nodes[other].signal(Signal::KILL);
        let _ = cluster.nodes[other].ended(LONG);
        cluster.restart(other);
        settle(&cluster.nodes, 8, LONG).unwrap();
        cluster.serves();
    }
}

/// All nodes of a ring that is a moment old are killed, and started again with nothing but their directories.
#[test]
fn a_young_ring_that_was_killed_finds_itself_again() {
    let folder = tempfile::tempdir().unwrap();
    let own = |at: usize| options(Some(folder.path().join(at.to_string())));
    let nodes = form(&launcher(), 3, own);
    settle(&nodes, 8, LONG).unwrap();
    let all = keys("young", KEYS);
    put(&nodes[0], &all, 1);
    let addresses: Vec<_> = nodes.iter().map(|node| node.address).collect();
    nodes.iter().for_each(|node| _ = node.signal(Signal::KILL));
    drop(nodes);
    let again = |at: usize| launcher().spawn(&Options { listen: Some(addresses[at]), ..own(at) });
    let starting: Vec<_> = (0..3).map(again).collect();
    let nodes: Vec<_> = starting.into_iter().map(|node| node.started().unwrap()).collect();
    until("everything is read again", STORES, || {
        get(&nodes[2], &all, "quorum").iter().all(|found| *found == Ok(Some((1, true))))
    });
}
