//! Real nodes, each in a process of its own, on loopback: they form rings, crash, stop, come back, and are attacked.
//!
//! The processes are this very program (see [`a_node_for_the_other_tests`]), controlled over their standard input; each
//! test ends its own, and prints their pids.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../../examples/ring/mod.rs"]
mod ring;

mod clocks;
mod crashes;
mod identities;
mod restarts;
mod rings;
mod store_crashes;
mod store_disks;
mod store_faults;
mod store_support;
mod store_syncs;
mod strangers;
mod support;

/// What the processes of all tests run. Started by itself it has nothing to do.
#[test]
fn a_node_for_the_other_tests() {
    if let Ok(options) = std::env::var(ring::protocol::VARIABLE) {
        std::process::exit(ring::node::main(&options));
    }
}
