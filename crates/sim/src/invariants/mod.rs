//! What must hold for all nodes together. One file per property; each returns what is wrong, or nothing.
//!
//! Some have a second form that looks at one node and those beside it only: what an event can have broken.

mod known_holders;
mod leaf_sets;
mod one_deliverer;
mod one_root;
mod places;
mod ring_monitor;
mod successors;

pub use known_holders::{holders_are_known, lease_holders_are_known, lease_holders_beside};
pub use leaf_sets::{exact_leaf_sets, exact_leaf_sets_among, leaf_sets_are_exact, true_leaves};
pub use one_deliverer::{one_deliverer, one_deliverer_beside, one_deliverer_per_key, telling_keys};
pub use one_root::{one_root_per_key, owner};
pub use places::Places;
pub use ring_monitor::{RingMonitor, can_do_without, ring_is_ideal};
pub use successors::neighbours_are_exact;
