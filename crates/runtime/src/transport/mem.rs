//! A network inside the process, for demonstrations and tests.

/// The nodes of one process that can reach each other.
#[derive(Clone, Debug, Default)]
pub struct Hub {}
