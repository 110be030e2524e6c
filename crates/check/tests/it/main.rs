//! What the checker promises: models that are not idle, properties that are missed when a rule is, schedules that mean
//! the same to the simulator.

mod chord;
mod gate;
mod models;
mod schedules;

use std::time::Duration;

use kringle_check::explore::Bounds;

/// Small enough for every run of the tests. How far a search gets is decided by its states, never by the clock, and one
/// thread always takes the same way.
fn bounds(states: usize) -> Bounds {
    Bounds { states, time: Duration::from_secs(600), threads: 1 }
}
