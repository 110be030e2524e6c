//! How frames reach other nodes.

pub mod tls;
