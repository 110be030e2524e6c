//! Who a node is.
