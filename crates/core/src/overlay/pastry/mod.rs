//! Pastry (seeds 000, 002, 003).

pub mod leaf_set;
mod message;
pub mod neighbourhood;
pub mod router;
pub mod routing_table;

pub use message::*;
