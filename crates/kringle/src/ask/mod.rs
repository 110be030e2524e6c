//! The commands that ask a running node.

pub(crate) mod admin;
pub(crate) mod base64;
pub(crate) mod events;
pub(crate) mod key;
pub(crate) mod report;
