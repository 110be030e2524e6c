//! How rings grow, and how their upkeep is brought forward.

use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Reply, Timer};
use kringle_core::overlay::Status;

use super::{Alarm, SEEDS, World};
use crate::queue::Either;

/// Keeps the times of rounds apart from other things drawn from the same seed.
const ROUNDS: u64 = 4 << 40;
/// Nodes that join together do so in steps of this length.
const STEP: Duration = Duration::from_millis(20);
/// How many join in a step at most. A join has a hundred messages under way; few enough at a time, and what the
/// joiners know stays in the processor's cache.
const JOINERS_MAX: usize = 8;
/// A ring grows by an eighth in a second.
const STEPS_PER_RING: usize = 400;

impl World {
    /// Lets `count` more nodes with random ids join one after the other, each through a random earlier one, as fast as
    /// they can. The first node of an empty world starts the ring.
    ///
    /// # Panics
    /// If a join does not end within ten simulated minutes.
    pub fn grow(&mut self, count: usize) {
        for _ in 0..count {
            let node = self.spawn_random();
            let request = match node {
                0 => self.create(node),
                _ => {
                    let mut dice = SeededDice::derive(self.seed ^ SEEDS, node.into());
                    let seed = dice.below(node as usize) as u32;
                    self.join(node, &[seed])
                }
            };
            let reply = self.finish(request);
            assert_eq!(reply, Ok(Reply::Joined), "node {node} joins (seed {})", self.seed);
        }
    }

    /// Lets nodes join through random others until there are `count`, many at a time. Far faster than one by one, since
    /// a ring that waits has to be kept up all the while. Calls back every simulated second, and stops if told so.
    ///
    /// # Panics
    /// If a node has not joined within ten simulated minutes.
    pub fn grow_together(&mut self, count: usize, mut go_on: impl FnMut(&World) -> bool) {
        if self.is_empty() {
            self.grow(1);
        }
        let mut dice = SeededDice::derive(self.seed, SEEDS);
        let (mut settled, mut since, mut told) = (0, self.now, self.now);
        while settled < count.max(self.len()) {
            let before = settled;
            while self.is_ready(settled) {
                settled += 1;
            }
            if settled > before {
                since = self.now;
            }
            let waited = self.now.since(since);
            assert!(waited < Duration::from_secs(600), "node {settled} joins (seed {})", self.seed);
            let joiners =
                (settled / STEPS_PER_RING).clamp(1, JOINERS_MAX).min(count.saturating_sub(self.len()));
            for _ in 0..joiners {
                let node = self.spawn_random();
                let seeds = [dice.below(settled) as u32, dice.below(settled) as u32];
                self.join(node, &seeds);
            }
            // A small ring takes its time.
            self.run_for(STEP * (STEPS_PER_RING / settled).max(1) as u32);
            if self.now.since(told) >= Duration::from_secs(1) {
                told = self.now;
                self.replies.clear();
                if !go_on(self) {
                    return;
                }
            }
        }
        self.replies.clear();
    }

    fn is_ready(&self, node: usize) -> bool {
        let node = self.slots.get(node).and_then(|slot| slot.node.as_ref());
        node.is_some_and(|node| node.status() == Status::Ready)
    }

    /// Makes a timer of every ready node due within a span, each at its own time. Upkeep that would be spread over
    /// minutes happens in a round of its own this way.
    pub fn hasten(&mut self, timer: Timer, within: Duration) {
        let mut dice = SeededDice::derive(self.seed, ROUNDS ^ self.now.micros());
        for node in 0..self.slots.len() as u32 {
            let span = Duration::from_micros(dice.below(within.as_micros() as usize + 1) as u64);
            let slot = &mut self.slots[node as usize];
            if slot.node.as_ref().is_none_or(|node| node.status() != Status::Ready) {
                continue;
            }
            let (at, life) = (self.now.after(span), slot.life);
            slot.timers[timer as usize] = at;
            slot.due = slot.due.min(at);
            self.push(at, Either::Small(Alarm::Fires { node, life, timer }));
        }
    }
}
