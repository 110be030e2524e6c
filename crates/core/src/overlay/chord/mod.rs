//! Chord: a ring kept by successor lists, as Zave corrected it.
//!
//! [`ring`] is the protocol itself, a machine without time that the model checker drives too.

mod message;
pub mod properties;
pub mod ring;

pub use message::*;
