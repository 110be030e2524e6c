//! A few nodes on loopback and in memory: the wiring, not the protocol.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod agreement;
mod apps;
mod chord;
mod lineages;
mod membership;
mod rings;
mod stores;
mod support;
