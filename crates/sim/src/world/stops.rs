//! Nodes that are stopped and go on, and clocks that do not.

use std::time::Duration;

use kringle_core::config::Safeguard;
use kringle_core::edge::Input;
use kringle_core::message::Routed;
use kringle_core::time::Time;

use super::{NEVER, World};

/// What waits for a node that is stopped.
#[derive(Default)]
pub(super) struct Paused {
    since: Time,
    /// A call of the application that was about to be made.
    upcall: Option<(Routed, Option<Time>)>,
    pub(super) arrived: Vec<Input>,
}

impl World {
    /// Stops a node in its tracks, as SIGSTOP does: it neither hears nor acts, and does not know.
    pub fn pause(&mut self, node: u32) {
        let now = self.now;
        self.slots[node as usize]
            .paused
            .get_or_insert_with(|| Box::new(Paused { since: now, ..Paused::default() }));
    }

    /// Stops a node as soon as it is about to call its application: between decision and effect.
    pub fn pause_before_upcall(&mut self, node: u32) {
        self.stop_before_upcall = Some(node);
    }

    pub(super) fn stop_in_upcall(&mut self, node: u32, routed: Routed, not_after: Option<Time>) {
        self.stop_before_upcall = None;
        self.pause(node);
        if let Some(paused) = &mut self.slots[node as usize].paused {
            paused.upcall = Some((routed, not_after));
        }
    }

    /// Says whether a node is stopped in its tracks.
    pub fn is_paused(&self, node: u32) -> bool {
        self.slots[node as usize].paused.is_some()
    }

    /// Lets a paused node go on: with the call it was about to make, then its timers that came due, then what has
    /// arrived.
    pub fn resume(&mut self, node: u32) {
        let Some(paused) = self.slots[node as usize].paused.take() else { return };
        let life = self.slots[node as usize].life;
        if let Some((routed, not_after)) = paused.upcall {
            self.upcall(node, routed, not_after);
        }
        while let Some(timer) = self.due_timer(node, life) {
            self.slots[node as usize].timers[timer as usize] = NEVER;
            self.input(node, Input::Timer(timer));
        }
        for input in paused.arrived {
            self.input(node, input);
        }
    }

    /// Lets a machine that slept go on. Its driver reads a clock that runs while the machine sleeps; with that rule left
    /// out, one that does not.
    pub fn wake(&mut self, node: u32) {
        let slept = self.slots[node as usize].paused.as_ref().map(|paused| self.now.since(paused.since));
        if let Some(slept) = slept.filter(|_| !self.config.rule(Safeguard::SteadyClock)) {
            self.set_back(node, slept);
        }
        self.resume(node);
    }

    /// Somebody sets the time of day back. No driver's timers go by it, unless that rule is left out.
    pub fn set_wall_clock_back(&mut self, node: u32, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.set_wall_offset(node, self.wall_offset(node).saturating_sub(millis));
        if !self.config.rule(Safeguard::SteadyClock) {
            self.set_back(node, by);
        }
    }
}
