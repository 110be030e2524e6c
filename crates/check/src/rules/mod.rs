//! Rules of the store that were added later, each as a small model of its own: few nodes, every order.
//!
//! [`crate::store_rules`] has the register and the view change. These models leave out of it what a rule does not touch,
//! so that each can be searched to the end. Like it, they share no code with the store. Every rule of a model can be
//! left out by its name, and must then be missed: see `tests/rules.rs`.

pub mod acknowledging;
pub mod damaged_promises;
pub mod damaged_views;
pub mod doubting;
pub mod lineages;
pub mod lost_disks;
pub mod recovering;
pub mod suite;
pub mod versions;

/// Returns how many members are more than half of so many.
fn quorum(members: u32) -> u32 {
    members / 2 + 1
}
