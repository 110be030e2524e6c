//! Rings of many nodes, each behaviour from one seed.

mod conformance;
mod determinism;
mod locality;
mod wendy;
