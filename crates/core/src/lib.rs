//! What a Kringle node decides.
//!
//! A node is one pure value, [`node::Node`]. Everything it learns arrives as an [`edge::Input`], everything it wants
//! done leaves as an [`edge::Output`]. Nothing in this crate reads a clock, opens a socket, starts a thread, asks the
//! operating system for randomness or depends on the order of a hash map. Whoever drives it (the simulator today,
//! a runtime and a checker to come) drives the same value, so a bug seen in one can be replayed in another.
//!
//! A tour, from the bottom: [`id`] and [`range`] are the ring; [`time`], [`dice`] and [`records`] are what the outside
//! world looks like from here; [`message`] is what nodes say to each other and [`wire`] how that is written;
//! [`overlay`] decides who is responsible for a key and keeps the tables for it; `courier` looks after messages
//! under way; [`node`] puts these together.
//!
//! ```
//! use kringle_core::config::Settings;
//! use kringle_core::contact::Addr;
//! use kringle_core::dice::SeededDice;
//! use kringle_core::edge::{Command, Ctx, Input, Output, Outbox, Reply, RequestId};
//! use kringle_core::id::Id;
//! use kringle_core::node::Node;
//! use kringle_core::records::NoRecords;
//! use kringle_core::time::Time;
//!
//! let config = Settings::default().check().unwrap();
//! let mut node = Node::pastry(Id::new(7), 1, Addr(0), &config);
//! let (mut dice, mut out) = (SeededDice::new(1), Outbox::new());
//! let mut cx =
//!     Ctx { now: Time::ZERO, wall: 0, config: &config, dice: &mut dice, records: &NoRecords, out: &mut out };
//! node.handle(Input::Command { request: RequestId(1), command: Command::Create }, &mut cx);
//! let joined = Output::Reply { request: RequestId(1), reply: Ok(Reply::Joined) };
//! assert!(out.drain().any(|output| output == joined));
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod contact;
mod courier;
pub mod dice;
pub mod edge;
pub mod id;
mod kinds;
pub mod message;
pub mod node;
pub mod overlay;
pub mod range;
pub mod records;
mod safeguard;
pub mod store;
pub mod time;
pub mod wire;
