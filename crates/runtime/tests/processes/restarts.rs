//! Nodes come back.

use std::time::Duration;

use kringle_core::id::NodeId;
use rustix::process::Signal;

use crate::ring::control::{Process, Starting, check, settle};
use crate::ring::protocol::{Options, Record, now};
use crate::support::{
    LONG, address, describe, end_streams, judge, launcher, leases, ring, show, stream, until,
};

const DEADLINE: Duration = Duration::from_secs(5);

fn options(folder: &std::path::Path, test: u16, at: usize) -> Options {
    let data = Some(folder.join(at.to_string()));
    Options { data, listen: Some(address(test, at)), ..leases(1000) }
}

/// Goal: every node can be restarted in turn, and whoever asks meanwhile gets an answer or an error in time, and no wrong
/// one. The same nodes come back, in later lives, without being told whom to join.
#[test]
fn a_rolling_restart_keeps_the_ring() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = ring(8, |at| options(folder.path(), 1, at));
    let everybody: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    for (node, seed) in nodes.iter().zip(300..) {
        stream(node, 20, DEADLINE, seed, false);
    }
    for at in 0..nodes.len() {
        let mut records: Vec<Record> = end_streams(&[&nodes[at]], DEADLINE).concat();
        let old = &nodes[at];
        let stopped = old.signal(Signal::TERM);
        old.ended(Duration::from_secs(10)).unwrap();
        let new = launcher().start(&options(folder.path(), 1, at)).unwrap();
        assert_eq!(new.id, old.id);
        assert!(new.incarnation > old.incarnation, "{} after {}", new.incarnation, old.incarnation);
        new.ready(LONG).unwrap();
        nodes[at] = new;
        settle(&nodes, 16, LONG).unwrap();
        let settled = now();
        let others: Vec<&Process> = nodes.iter().filter(|node| node.id != everybody[at]).collect();
        let during: Vec<Record> = end_streams(&others, DEADLINE).concat();
        describe(&format!("restart {at}, pid {}", nodes[at].pid), &during, stopped);
        records.extend(during);
        judge(&records, &everybody, everybody[at], (stopped, settled), DEADLINE);
        for (node, seed) in nodes.iter().zip(300 + 100 * at as u64..) {
            stream(node, 20, DEADLINE, seed, false);
        }
    }
    check(&nodes, 32, 5).unwrap();
}

#[test]
fn a_full_outage_heals_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = ring(5, |at| options(folder.path(), 2, at));
    let lives: Vec<(NodeId, u32)> = nodes.iter().map(|node| (node.id, node.incarnation)).collect();
    until("everybody has written down whom it knows", LONG, || {
        (0..5).all(|at| {
            let known = std::fs::read_to_string(folder.path().join(at.to_string()).join("peers.json"));
            let known = known.unwrap_or_default();
            lives.iter().filter(|(id, _)| known.contains(&id.to_string())).count() == 4
        })
    });
    for node in &nodes {
        node.signal(Signal::KILL);
    }
    drop(nodes);
    let starting: Vec<Starting> = (0..5).map(|at| launcher().spawn(&options(folder.path(), 2, at))).collect();
    let nodes: Vec<Process> = starting.into_iter().map(|starting| starting.started().unwrap()).collect();
    show(&nodes);
    for (node, (id, incarnation)) in nodes.iter().zip(&lives) {
        assert_eq!(node.id, *id);
        assert!(node.incarnation > *incarnation);
    }
    let took = settle(&nodes, 32, LONG).unwrap();
    println!("after a full outage all answer rightly {took:?} after the last has said who it is");
}
