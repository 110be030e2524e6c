//! The store: a replicated map of keys to values and sets, over any overlay.

pub mod op;
pub mod version;
