//! The rows: which fault, under which load, and what passes.

use super::check::Check;
use super::options::Options;
use super::{calm, crowd, heal, join, network, process, slow};

/// One fault and its demands.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: &'static str,
    /// The fault.
    pub(super) what: &'static str,
    /// What has to be measured for the row to pass. Rows with a load also demand that all is ready
    /// within 60 s after the fault, and what `verdict` checks.
    pub(super) passes: &'static str,
    /// Whether it belongs to `cargo xtask test`.
    pub(super) sample: bool,
    pub(super) run: fn(&Options) -> Result<Vec<Check>, String>,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        id: "sample",
        what: "partition of 5 nodes into 2 / 3 for 10 s, heal",
        passes: "one ring, and no failed operation later, <= 10 s after healing",
        sample: true,
        run: heal::sample,
    },
    Row {
        id: "link-sample",
        what: "one link between ring neighbours of 4 nodes cut both ways for 12 s",
        passes: "as F-13",
        sample: true,
        run: network::link_cut_sample,
    },
    Row {
        id: "heal",
        what: "partition of 7 nodes into 3 / 4 (--parts) for 60 s (--cut), heal",
        passes: "one ring, and no failed operation later, <= 10 s after healing",
        sample: false,
        run: heal::heal,
    },
    Row {
        id: "rtt",
        what: "5 nodes with round trips of 100 ms, 500 ms, 1 s, 2 s",
        passes: "one ring, all ready <= 60 s; no death in 60 s",
        sample: false,
        run: slow::round_trips,
    },
    Row {
        id: "crowd",
        what: "a node with 1,024 / 256 / 96 descriptors; 1,200 silent peers, then 500 idle clients",
        passes: "with 64 it refuses to start; else it lives, says its shares, serves earlier clients, and new ones <= 5 s after the crowd left",
        sample: false,
        run: crowd::crowds,
    },
    Row {
        id: "storm",
        what: "12 nodes join 3 at the same instant",
        passes: "all ready <= 15 s; p99 of clients of the three <= 40 ms; their errors 0",
        sample: false,
        run: join::storm,
    },
    Row {
        id: "idle",
        what: "64 nodes without load for 2 min",
        passes: "<= 250 B/s per node above TCP",
        sample: false,
        run: calm::idle,
    },
    Row {
        id: "silence",
        what: "SIGSTOP of 1 of 16 nodes, ten times",
        passes: "all others have removed it <= 12 s",
        sample: false,
        run: calm::silence,
    },
    Row {
        id: "replay",
        what: "what nodes have sent is sent once more by a stranger",
        passes: "no connection is accepted; all are closed within 6 s",
        sample: false,
        run: slow::replay,
    },
    Row {
        id: "F-01",
        what: "kill -9 of one node, start after 5 s, 20 times",
        passes: "errors <= 1 % during 15 s, 0 after; back in the ring <= 10 s",
        sample: false,
        run: process::kill_one,
    },
    Row {
        id: "F-02",
        what: "kill -9 of a random node every 3 s, start at once, 1,000 times",
        passes: "lost 0; the process listens <= 1 s, p99",
        sample: false,
        run: process::kill_loop,
    },
    Row {
        id: "F-03",
        what: "kill -9 of all nodes at once, start all",
        passes: "lost 0; serving again <= 10 s after the last start",
        sample: false,
        run: process::kill_all,
    },
    Row {
        id: "F-04",
        what: "kill -9 in the first 2 s of a start, 50 times in a row",
        passes: "the next start listens <= 5 s",
        sample: false,
        run: process::kill_starting,
    },
    Row {
        id: "F-05",
        what: "SIGTERM to one node",
        passes: "exit <= 10 s with code 0 or 143; errors 0 at the others",
        sample: false,
        run: process::terminate,
    },
    Row {
        id: "F-06",
        what: "polite leave of one node of 7",
        passes: "errors 0; no part of the ring without a deliverer for more than 1 s",
        sample: false,
        run: process::leave,
    },
    Row {
        id: "F-07",
        what: "SIGSTOP of an owner for 1, 5, 15, 60 s",
        passes: "two deliverers 0; increments and sets add up",
        sample: false,
        run: process::stop_owner,
    },
    Row {
        id: "F-08",
        what: "SIGSTOP of 3 of 7 nodes for 20 s",
        passes: "keys with a quorum: errors <= 5 % after 12 s; others: errors with an outcome",
        sample: false,
        run: process::stop_three,
    },
    Row {
        id: "F-09",
        what: "4 busy loops beside the nodes for 60 s",
        passes: "no false suspicion longer than 5 s; p99 <= ten times what it was",
        sample: false,
        run: process::hog,
    },
    Row {
        id: "F-10",
        what: "16 clients send values of 64 KiB to 64 MiB for 30 s",
        passes: "no node has more than 256 MiB; none ends",
        sample: false,
        run: crowd::value_flood,
    },
    Row {
        id: "F-11",
        what: "a node with 128 descriptors, 300 idle clients",
        passes: "earlier clients are served; new ones <= 5 s after the crowd left",
        sample: false,
        run: crowd::few_descriptors,
    },
    Row {
        id: "F-13",
        what: "one link between ring neighbours cut both ways for 30 s",
        passes: "two deliverers 0; lookups through third nodes >= 99.9 %, at the two >= 99 % from 5 s on",
        sample: false,
        run: network::link_cut,
    },
    Row {
        id: "F-14",
        what: "one-way cut between ring neighbours for 45 s",
        passes: "errors <= 2 % in the first 15 s, then 0",
        sample: false,
        run: network::one_way_cut,
    },
    Row {
        id: "F-15",
        what: "partition 3 / 4 for 60 s, heal",
        passes: "majority: errors <= 5 % after 15 s; minority: writes refused with an outcome; one ring <= 30 s after healing",
        sample: false,
        run: network::two_parts,
    },
    Row {
        id: "F-16",
        what: "partition 1 / 6 for 60 s, heal",
        passes: "the single node is isolated <= 12 s and serves no write",
        sample: false,
        run: network::one_alone,
    },
    Row {
        id: "F-17",
        what: "partition 3 / 2 / 2 for 60 s, heal",
        passes: "writes without a quorum are refused with an outcome; one ring <= 45 s after healing",
        sample: false,
        run: network::three_parts,
    },
    Row {
        id: "F-18",
        what: "one node cut off for 2 s of every 4 s, for 5 min",
        passes: "ring changes by that node <= 10; errors at the others <= 0.5 %",
        sample: false,
        run: network::flapping,
    },
    Row {
        id: "F-20",
        what: "loss of 1, 5, 20 % of all packets, 30 s each",
        passes: "errors <= 0.1, 1, 5 %; two deliverers 0",
        sample: false,
        run: network::loss,
    },
    Row {
        id: "F-22",
        what: "200 ms of jitter between all nodes, one node 2 s away",
        passes: "false suspicions <= 1 per node-hour",
        sample: false,
        run: slow::jitter,
    },
    Row {
        id: "F-23",
        what: "one node has 128 kbit/s",
        passes: "p99 at the others <= twice what it was; errors 0",
        sample: false,
        run: slow::narrow,
    },
    Row {
        id: "F-24",
        what: "connections break in the middle of a frame, 1,000 times",
        passes: "p99 <= 1 s; no partial effects",
        sample: false,
        run: slow::broken_frames,
    },
    Row {
        id: "F-25",
        what: "one node's connections are accepted and never answered",
        passes: "deadline of 2 s honoured, +- 10 %; errors 0 at the others after 15 s",
        sample: false,
        run: slow::black_hole,
    },
    Row {
        id: "F-26",
        what: "a node restarts on another port",
        passes: "same id, new address known everywhere <= 15 s",
        sample: false,
        run: join::new_address,
    },
    Row {
        id: "F-27",
        what: "the only seed is down while 5 members live on",
        passes: "members: errors 0 after 15 s; a newcomer says KR0520 and is ready <= 10 s after the seed returned",
        sample: false,
        run: join::no_seed,
    },
    Row {
        id: "F-47",
        what: "2, 5, 20 nodes join at the same instant through one seed",
        passes: "all ready <= 15 s",
        sample: false,
        run: join::join_together,
    },
    Row {
        id: "F-52",
        what: "a node joins or leaves every 5 s, for 10 min",
        passes: "lost 0, stale 0",
        sample: false,
        run: join::come_and_go,
    },
    Row {
        id: "F-54",
        what: "a node of another cluster is told to join",
        passes: "refused with exit code 4; the ring stays as it was",
        sample: false,
        run: join::wrong_cluster,
    },
    Row {
        id: "F-56",
        what: "rejoin under the same id 1 s after kill -9, 100 times",
        passes: "never twice in the ring",
        sample: false,
        run: join::rejoin,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_different_ids() {
        let mut ids: Vec<&str> = ROWS.iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROWS.len());
    }
}
