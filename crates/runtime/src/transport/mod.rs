//! How frames reach other nodes.

pub mod mem;
pub mod tls;
