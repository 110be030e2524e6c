//! The store of a few nodes over an overlay that knows everybody: no ring protocol in the way.

mod clocks;
mod cluster;
mod doubts;
mod garbage;
mod holding;
mod hostile;
mod lost_disks;
mod operations;
mod stuck;
