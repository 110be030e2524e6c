//! Clocks of nodes: most show the time of the world, some are set back or run too fast or too slow.

use std::time::Duration;

use kringle_core::edge::Timer;
use kringle_core::time::Time;

use super::{Alarm, NEVER, World};
use crate::queue::Either;

const MILLION: i128 = 1_000_000;

/// A clock that does not show the time of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    /// When it showed `shown`, by the time of the world.
    since: Time,
    /// In microseconds; before its own start after having been set back far.
    shown: i64,
    /// How many of a million it is ahead after a million.
    drift: i32,
    /// By how many milliseconds the time of day is off. It jumps by itself: nothing else here goes by it.
    wall_offset: i64,
}

/// The time of day when a world starts, in milliseconds since 1970.
const START: u64 = 1_700_000_000_000;

/// Returns the time of day that a clock, if it is not the world's, shows: milliseconds since 1970.
pub(super) fn wall(now: Time, clock: Option<&Clock>) -> u64 {
    let offset = clock.map_or(0, |clock| clock.wall_offset);
    (START + now.micros() / 1000).saturating_add_signed(offset)
}

impl Clock {
    /// Returns what the clock shows.
    pub(super) fn at(&self, now: Time) -> Time {
        let shown = self.micros(now);
        Time::from_micros(u64::try_from(shown.max(0)).unwrap_or(u64::MAX))
    }

    fn micros(&self, now: Time) -> i128 {
        let passed = i128::from(now.since(self.since).as_micros() as u64);
        i128::from(self.shown) + passed * (MILLION + i128::from(self.drift)) / MILLION
    }

    /// Returns when the clock will show a time: never too early.
    pub(super) fn when(&self, shown: Time) -> Time {
        let ahead = (i128::from(shown.micros()) - i128::from(self.shown)).max(0) * MILLION;
        let rate = MILLION + i128::from(self.drift);
        let passed = (ahead + rate - 1) / rate;
        let at = i128::from(self.since.micros()) + passed;
        Time::from_micros(u64::try_from(at).unwrap_or(u64::MAX).min(NEVER.micros() - 1))
    }
}

impl World {
    /// Returns what a node's clock shows.
    pub fn clock(&self, node: u32) -> Time {
        let clock = &self.slots[node as usize].clock;
        clock.as_ref().map_or(self.now, |clock| clock.at(self.now))
    }

    /// Returns the time of day as a node's machine believes, in milliseconds since 1970.
    pub fn wall(&self, node: u32) -> u64 {
        wall(self.now, self.slots[node as usize].clock.as_deref())
    }

    /// From now on the time of day of a node is off by so many milliseconds. No timer follows it, and a restart does not
    /// change it.
    pub fn set_wall_offset(&mut self, node: u32, millis: i64) {
        let (now, slot) = (self.now, &mut self.slots[node as usize]);
        let exact = || Box::new(Clock { since: now, shown: now.micros() as i64, drift: 0, wall_offset: 0 });
        slot.clock.get_or_insert_with(exact).wall_offset = millis;
    }

    /// Returns by how many milliseconds the time of day of a node is off.
    pub fn wall_offset(&self, node: u32) -> i64 {
        self.slots[node as usize].clock.as_ref().map_or(0, |clock| clock.wall_offset)
    }

    /// From now on the clock of a node runs faster by so many microseconds per second, or slower if negative. Its timers
    /// follow it, those that are set already as well. A restart does not change it.
    ///
    /// # Panics
    /// If it would run backwards, or more than twice as fast.
    pub fn set_drift(&mut self, node: u32, parts_per_million: i32) {
        assert!((-999_999..=1_000_000).contains(&parts_per_million), "a clock runs forward");
        let shown = self.shown(node);
        let wall_offset = self.wall_offset(node);
        self.replace_clock(node, Clock { since: self.now, shown, drift: parts_per_million, wall_offset });
    }

    /// A clock is behind by so much more, and so is everything planned by it.
    pub(super) fn set_back(&mut self, node: u32, by: Duration) {
        let drift = self.slots[node as usize].clock.as_ref().map_or(0, |clock| clock.drift);
        let shown = self.shown(node).saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX));
        let wall_offset = self.wall_offset(node);
        self.replace_clock(node, Clock { since: self.now, shown, drift, wall_offset });
    }

    fn shown(&self, node: u32) -> i64 {
        let clock = &self.slots[node as usize].clock;
        let shown = clock.as_ref().map_or(self.now.micros().into(), |clock| clock.micros(self.now));
        i64::try_from(shown).unwrap_or(i64::MAX)
    }

    /// Gives a node another clock. Timers were set by the old one, and fire when the new one shows the same.
    fn replace_clock(&mut self, node: u32, new: Clock) {
        let slot = &mut self.slots[node as usize];
        let old = slot.clock.replace(Box::new(new));
        let life = slot.life;
        for timer in Timer::ALL {
            let at = &mut slot.timers[*timer as usize];
            if *at == NEVER {
                continue;
            }
            let planned = old.as_ref().map_or(*at, |old| old.at(*at));
            *at = new.when(planned).max(self.now);
            slot.due = slot.due.min(*at);
            if self.held.is_none() {
                self.queue.push(*at, self.pushed, Either::Small(Alarm::Fires { node, life, timer: *timer }));
                self.pushed += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kringle_core::config::Settings;

    use super::*;

    #[test]
    fn a_clock_never_rings_early_and_at_most_a_moment_late() {
        for drift in [-999_999, -200_000, -7, 0, 3, 10_000, 1_000_000] {
            let clock = Clock { since: Time::from_micros(777), shown: 123, drift, wall_offset: 0 };
            for shown in [0, 123, 124, 1_000, 999_999, 86_400_000_000] {
                let (shown, at) = (Time::from_micros(shown), clock.when(Time::from_micros(shown)));
                assert!(clock.at(at) >= shown, "{drift}: {shown:?}");
                let before = Time::from_micros(at.micros().saturating_sub(1));
                assert!(at == clock.since || clock.at(before) < shown, "{drift}: {shown:?}");
            }
        }
    }

    /// How often a node's clock lets its heartbeats happen in a quiet ring follows its drift.
    #[test]
    fn timers_follow_the_clock_they_were_set_by() {
        let settings = Settings { heartbeat: Duration::from_secs(1), ..Settings::demo() };
        let mut world = World::new(settings, 1);
        world.grow(2);
        let before = world.deadline(1, Timer::Heartbeat).expect("heartbeats are on");
        let wait = before.since(world.now());
        world.set_drift(1, -500_000);
        let after = world.deadline(1, Timer::Heartbeat).expect("heartbeats are on");
        assert_eq!(after.since(world.now()), wait * 2, "a clock at half its speed takes twice as long");
        let (now, shown) = (world.now(), world.clock(1));
        world.run_for(Duration::from_secs(60));
        assert_eq!(world.clock(1).since(shown), Duration::from_secs(30));
        assert_eq!(world.clock(0).since(now), Duration::from_secs(60));
        world.set_drift(1, 1_000_000);
        let shown = world.clock(1);
        world.run_for(Duration::from_secs(60));
        assert_eq!(world.clock(1).since(shown), Duration::from_secs(120));
        assert_eq!(world.ready().count(), 2, "clocks beyond what leases allow for do not end a ring");
    }
}
