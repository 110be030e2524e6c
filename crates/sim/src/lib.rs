//! Many Kringle nodes, one seed.
//!
//! [`world::World`] drives the product's own nodes under virtual time: everything that happens is drawn from one seed,
//! so a run can be repeated exactly. [`network`] loses, delays, doubles and cuts; [`invariants`] say what must hold
//! for all nodes together; [`conformance`] is what every overlay must show, written once.

pub mod churn;
pub mod conformance;
pub mod invariants;
pub mod network;
mod queue;
pub mod tally;
pub mod world;
