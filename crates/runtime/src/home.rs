//! The data directory of a node.
