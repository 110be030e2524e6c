//! A few nodes on loopback and in memory: the wiring, not the protocol.

mod rings;
mod support;
