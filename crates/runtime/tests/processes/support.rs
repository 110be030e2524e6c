//! What the tests share.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use kringle_core::id::NodeId;
use kringle_runtime::report::{Event, What};

use crate::ring::control::{self, Launcher, Pending, Process, SOON, nearest};
use crate::ring::protocol::{Ask, Options, Record};

/// Within this, everything that has to happen has happened, on a busy machine as well.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// What may come on top of a deadline before a busy machine has seen that it is over.
pub(crate) const LATE: Duration = Duration::from_secs(2);

/// Starts this program as a node.
pub(crate) fn launcher() -> Launcher {
    let arguments = ["a_node_for_the_other_tests", "--exact", "--nocapture", "--test-threads=1"];
    Launcher { arguments: arguments.map(String::from).into(), ..Launcher::default() }
}

/// Short leases, so that a crash is over soon; few slots, so that what they store does not keep nodes from their leases.
pub(crate) fn leases(lease_ms: u64) -> Options {
    Options { lease_ms: Some(lease_ms), slots: Some(64), ..Options::default() }
}

/// An address nobody else takes, not even while its node is down: below the ports the system hands out, and on an
/// address of this process alone.
pub(crate) fn address(test: u16, at: usize) -> SocketAddr {
    let pid = std::process::id();
    let part = |number: u32| u8::try_from(number % 250).unwrap_or(0) + 1;
    let host = u8::try_from(at + 1).expect("a test has few nodes");
    SocketAddr::from((Ipv4Addr::new(127, part(pid), part(pid / 250), host), 10_000 + test))
}

/// Starts a ring, prints who is in it, and waits until every lookup is right.
pub(crate) fn ring(count: usize, options: impl Fn(usize) -> Options) -> Vec<Process> {
    let nodes = control::form(&launcher(), count, options);
    show(&nodes);
    let took = control::settle(&nodes, 8, LONG).unwrap();
    println!("{count} processes answer rightly {took:?} after the last has said who it is");
    nodes
}

pub(crate) fn show(nodes: &[Process]) {
    let pids: Vec<String> = nodes.iter().map(|node| node.pid.to_string()).collect();
    println!("pids {}", pids.join(" "));
}

/// Begins to ask for random keys at a node.
pub(crate) fn stream(node: &Process, every_ms: u64, deadline: Duration, seed: u64, route: bool) {
    let deadline_ms = u64::try_from(deadline.as_millis()).unwrap();
    let () = node.ask(Ask::Stream { every_ms, deadline_ms, seed, route }).unwrap();
}

/// Ends the streams of these nodes, and returns what came of each.
pub(crate) fn end_streams(nodes: &[&Process], deadline: Duration) -> Vec<Vec<Record>> {
    let pending: Vec<Pending> = nodes.iter().map(|node| node.begin(Ask::EndStreams)).collect();
    pending.into_iter().map(|pending| pending.get(deadline + SOON).unwrap()).collect()
}

/// Waits until something holds.
pub(crate) fn until(what: &str, within: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < within, "it did not come to this within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

/// Waits until a node tells that somebody was refused, for a reason with these words.
pub(crate) fn until_refused(node: &Process, words: &str) {
    let told = |event: &Event| matches!(&event.what, What::Refused { reason, .. } if reason.contains(words));
    until(&format!("pid {} tells of a refusal: {words}", node.pid), LONG, || {
        node.events().unwrap().iter().any(told)
    });
}

/// Checks answers of a time in which one node was away: each had an end in time, and every final one names the node
/// that answers for the key with that node, or without it if the question was open in that time.
pub(crate) fn judge(
    records: &[Record],
    everybody: &[NodeId],
    away: NodeId,
    when: (u64, u64),
    deadline: Duration,
) {
    assert!(!records.is_empty());
    for record in records {
        assert!(record.took() <= deadline + LATE, "a question with a deadline of {deadline:?}: {record:?}");
        let Some(root) = record.root().filter(|_| record.is_final) else { continue };
        let with = nearest(everybody.iter().copied(), record.key.0);
        let without = nearest(everybody.iter().copied().filter(|id| *id != away), record.key.0);
        let open = record.end >= when.0 && record.start <= when.1;
        let right = Some(root) == with || open && Some(root) == without;
        assert!(right, "{root} is wrong for {record:?}: {with:?}, and without {away}: {without:?}, {when:?}");
    }
}

/// Says how a stream of questions went.
pub(crate) fn describe(what: &str, records: &[Record], since: u64) {
    let errors = records.iter().filter(|record| record.outcome.is_err()).count();
    let slow = |record: &&Record| record.outcome.is_err() || record.took() > Duration::from_millis(500);
    let last = records.iter().filter(slow).map(|record| record.end).max().unwrap_or(since);
    let last = last.saturating_sub(since) / 1000;
    let count = records.len();
    println!("{what}: {count} questions, {errors} ended in an error, the last slow one after {last} ms");
}
