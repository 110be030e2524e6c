//! Nodes crash, stand still and stop, while the others never stop asking.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kringle_core::id::NodeId;
use rustix::process::Signal;

use crate::ring::control::{Process, check, nearest, settle};
use crate::ring::protocol::{Ask, Delivery, Last, Record, now};
use crate::support::{LATE, describe, end_streams, judge, leases, ring, stream, until};

const LEASE: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(8);
/// How long questions are asked before and after the event.
const AROUND: Duration = Duration::from_millis(500);

/// Goal: in lease mode nobody is told of a wrong node, whatever it asks while one of eight crashes, and the crash is over
/// a lease and a little later. Method: every survivor asks a hundred times a second; each answer is judged afterwards.
#[test]
fn a_crash_misleads_nobody_and_is_over_a_lease_later() {
    let mut nodes = ring(8, |_| leases(2000));
    let everybody: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    let victim = nodes.remove(5);
    let away = victim.id;
    for (node, seed) in nodes.iter().zip(100..) {
        stream(node, 10, DEADLINE, seed, false);
    }
    std::thread::sleep(AROUND);
    let killed = victim.kill();
    settle(&nodes, 16, LEASE * 3 + Duration::from_secs(5)).unwrap();
    let settled = now();
    std::thread::sleep(AROUND);
    let records: Vec<Record> = end_streams(&nodes.iter().collect::<Vec<_>>(), DEADLINE).concat();
    describe("one of eight killed, leases of 2 s", &records, killed);
    println!("all sampled lookups right {} ms after the kill", (settled - killed) / 1000);
    judge(&records, &everybody, away, (killed, u64::MAX), DEADLINE);
    let after = records.iter().filter(|record| record.start > settled);
    for record in after {
        let right = nearest(nodes.iter().map(|node| node.id), record.key.0);
        assert_eq!(record.root(), right, "after the ring was whole: {record:?}");
    }
}

/// Goal: a node that stands still for longer than its leases, and goes on, never answers for what others have taken over,
/// and no message is delivered twice. Method: everybody, itself included, asks and routes all the time. For the keys of
/// the stopped node, time has three parts: it, its heir, and it again. Answers and deliveries have to fit such parts.
#[test]
fn a_node_that_stood_still_does_not_answer_for_what_it_lost() {
    let nodes = ring(8, |_| leases(2000));
    let everybody: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    let victim = &nodes[3];
    for (node, seed) in nodes.iter().zip(200..) {
        stream(node, 10, DEADLINE, seed, false);
        stream(node, 20, DEADLINE, seed + 100, true);
    }
    std::thread::sleep(AROUND);
    let stopped = victim.signal(Signal::STOP);
    let others: Vec<&Process> = nodes.iter().filter(|node| node.id != victim.id).collect();
    std::thread::sleep(LEASE + Duration::from_secs(3));
    let resumed = victim.signal(Signal::CONT);
    settle(&nodes, 16, LEASE * 3 + Duration::from_secs(10)).unwrap();
    let settled = now();
    std::thread::sleep(AROUND);
    check(&nodes, 16, 99).unwrap();

    let own: Vec<Record> = end_streams(&[victim], DEADLINE).concat();
    let records: Vec<Record> = end_streams(&others, DEADLINE).concat();
    describe("one of eight stopped for 5 s, leases of 2 s", &records, stopped);
    println!("all sampled lookups right {} ms after it went on", (settled - resumed) / 1000);
    judge(&records, &everybody, victim.id, (stopped, settled), DEADLINE);
    let (through, own): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|record| record.start <= resumed && record.end >= stopped);
    // What it had open when it stood still ends when it goes on, too late by its own clock only.
    assert!(through.iter().all(|record| record.end <= resumed + (DEADLINE + LATE).as_micros() as u64));
    judge(&own, &everybody, victim.id, (stopped, settled), DEADLINE);

    let mut delivered: BTreeMap<NodeId, Vec<Delivery>> = BTreeMap::new();
    for node in &nodes {
        delivered.insert(node.id, node.ask(Ask::Deliveries).unwrap());
    }
    let mut seen = BTreeSet::new();
    for delivery in delivered.values().flatten() {
        assert!(seen.insert((delivery.origin, delivery.serial)), "delivered twice: {delivery:?}");
    }
    // Who answered for the keys of the stopped node, and when: (from, to, the stopped node or the heir).
    let mut answers: BTreeMap<NodeId, Vec<(u64, u64, NodeId)>> = BTreeMap::new();
    let heir = |key| {
        let with = nearest(everybody.iter().copied(), key);
        let without = nearest(everybody.iter().copied().filter(|id| *id != victim.id), key);
        without.filter(|_| with == Some(victim.id))
    };
    let finals = records.iter().chain(&own).chain(&through).filter(|record| record.is_final);
    for record in finals {
        if let (Some(heir), Some(root)) = (heir(record.key.0), record.root()) {
            answers.entry(heir).or_default().push((record.start, record.end, root));
        }
    }
    for (node, deliveries) in &delivered {
        for delivery in deliveries {
            if let Some(heir) = heir(delivery.key.0) {
                answers.entry(heir).or_default().push((delivery.at, delivery.at, *node));
            }
        }
    }
    assert!(!answers.is_empty());
    for (heir, answers) in answers {
        let by_heir = || answers.iter().filter(|(.., root)| *root == heir);
        let (Some(first), Some(last)) =
            (by_heir().map(|(_, end, _)| *end).min(), by_heir().map(|(start, ..)| *start).max())
        else {
            continue;
        };
        println!("{heir} answered for it from {} ms after the stop on", (first - stopped) / 1000);
        for (start, end, root) in &answers {
            let within = *root == victim.id && *start > first && *end < last;
            assert!(
                !within,
                "the stopped node answered from {start} to {end}, its heir from {first} to {last}"
            );
        }
    }
}

#[test]
fn a_node_that_is_told_to_stop_is_missed_at_once() {
    let mut nodes = ring(4, |_| leases(1000));
    let victim = nodes.remove(2);
    victim.signal(Signal::TERM);
    let (last, status) = victim.ended(Duration::from_secs(5)).unwrap();
    assert_eq!((last, status.code()), (Some(Last::Stopped), Some(0)));
    let took = until("nobody has it in its leaf set", Duration::from_secs(2), || {
        nodes.iter().all(|node| node.summary().unwrap().leaves == 2)
    });
    println!("missed by all {took:?} after it had ended");
    settle(&nodes, 16, LEASE * 3).unwrap();
}
