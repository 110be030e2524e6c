//! Chord's ring, every order: the shipped machine, driven through all states of a small world.
//!
//! A [`World`] says who founds the ring and what may happen: joins, failures, false timeouts, lost messages. Its states
//! are those of [`kringle_core::overlay::chord::ring::Ring`] machines, the messages between them and the timers they have
//! armed. [`search`] visits every one of them, breadth first, and judges it: by the inductive invariant of the proof, by
//! the properties that follow from it, and by whether the ring heals from there.
//!
//! No protocol is written here. What makes it fast is that the parts of a state are few: every state of a node and every
//! message is kept once, and every step of a node is taken once. What keeps it finite is that question numbers count only
//! as open, probed or old. `docs/verify-chord.md` says which states are taken for the same and why that is sound.

pub mod forming;
mod hash;
mod judge;
mod parts;
mod rest;
mod search;
mod seen;
mod state;
mod steps;
pub mod suite;
mod tell;
mod world;

pub use search::{Broken, Found, Limits, Progress, search};
pub use world::{IDS_MAX, STILL, World};
