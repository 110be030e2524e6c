//! Many Kringle nodes, one seed.
//!
//! [`world::World`] drives the product's own nodes under virtual time: everything that happens is drawn from one seed,
//! so a run can be repeated exactly. [`network`] loses, delays, doubles and cuts; [`invariants`] say what must hold
//! for all nodes together; [`conformance`] is what every overlay must show, written once. [`scenarios`] are experiments
//! that run in a [`lab`] and end in a [`report`], beside what a [`model`] with perfect tables says is possible.

pub mod chaos;
pub mod churn;
pub mod conformance;
pub mod history;
pub mod invariants;
pub mod lab;
pub mod model;
pub mod network;
mod queue;
pub mod report;
pub mod scenarios;
pub mod store_chaos;
pub mod store_load;
pub mod tally;
pub mod world;
