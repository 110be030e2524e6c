//! What a node does, seen from outside: inputs go in, outputs are compared. One module per topic.
//!
//! Rings of many nodes are the simulator's business. Here a single [`harness::Driver`] plays everybody else, so that
//! each rule can be shown with the exact messages it consists of.

mod agreement;
mod connections;
mod grants;
mod harness;
mod helping;
mod hostile;
mod join;
mod lease_edges;
mod lease_review;
mod leases;
mod leasing;
mod maintenance;
mod membership;
mod mixture;
mod outputs;
mod probing;
mod quiet;
mod receipts;
mod repair;
mod rerouting;
mod review;
mod routing;
mod rules;
mod state;
mod waking;
