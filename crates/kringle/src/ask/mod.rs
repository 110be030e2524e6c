//! The commands that ask a running node.

pub(crate) mod admin;
pub(crate) mod events;
pub(crate) mod key;
pub(crate) mod keys;
pub(crate) mod report;
pub(crate) mod scrub;
pub(crate) mod store;
pub(crate) mod transfer;
