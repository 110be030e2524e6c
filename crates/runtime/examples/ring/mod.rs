//! Real nodes as processes, and how to control them: for `ring_node`, the benchmark, and the tests of processes.
//!
//! `protocol` is what a node and its controller say to each other, a line of JSON at a time, over the standard input and
//! output of the node; `node` is the process itself; `control` starts, asks, stops and ends such processes. `load` and
//! `storing` are what a node does when it is measured; `ledger` is what it writes down meanwhile, and how that is judged.

// Each program that includes this uses a part of it.
#![allow(dead_code, reason = "shared by several programs")]

pub(crate) mod control;
pub(crate) mod histogram;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod node;
pub(crate) mod protocol;
pub(crate) mod storing;
pub(crate) mod table;
