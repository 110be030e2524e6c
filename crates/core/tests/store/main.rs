//! The store of a few nodes over an overlay that knows everybody: no ring protocol in the way.

mod cluster;
mod holding;
mod hostile;
mod operations;
mod stuck;
