//! How frames reach other nodes: one long-lived connection per peer, and one more for large frames when there are any.
//!
//! A connection begins with TLS, which proves both keys, and a greeting, which proves the cluster and the membership
//! (`hello`); only then do frames of the core's wire format flow (`link`). The memory transport skips TLS and nothing
//! else.

pub(crate) mod gate;
pub(crate) mod hello;
pub(crate) mod link;
pub mod mem;
pub(crate) mod stream;
pub mod tls;
