//! Chord: a ring kept by successor lists, as Zave corrected it.
//!
//! [`ring`] is the protocol itself, a machine without time that the model checker drives too.

pub mod forming;
mod message;
pub mod ring;

pub use message::*;
