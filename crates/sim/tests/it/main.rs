//! Rings of many nodes, each behaviour from one seed.

mod churn;
mod conformance;
mod determinism;
mod leases;
mod locality;
mod wendy;
