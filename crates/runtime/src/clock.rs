//! The clocks of a machine: one that never stops or jumps, for everything a node decides; one for people.

use std::time::{SystemTime, UNIX_EPOCH};

use kringle_core::time::Time;

/// A clock that goes on while the machine sleeps and does not care what the wall clock says: a lease that ran out
/// during a suspend has run out.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: u64,
}

impl Clock {
    /// Starts a clock at one second, so that "a moment ago" exists from the beginning.
    pub fn new() -> Clock {
        Clock { start: now_micros().saturating_sub(1_000_000) }
    }

    /// Reads it.
    pub fn now(&self) -> Time {
        Time::from_micros(now_micros().saturating_sub(self.start))
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

#[cfg(target_os = "linux")]
fn now_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Both are positive: the clock counts from the start of the machine.
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Elsewhere the monotonic clock has to do; on some systems it stands still while the machine sleeps.
#[cfg(not(target_os = "linux"))]
fn now_micros() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    // A year ahead, so that a clock can start a second before "now".
    31_536_000_000_000 + u64::try_from(since.as_micros()).unwrap_or(u64::MAX / 2)
}

/// Returns the wall clock in milliseconds since 1970, zero before that.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_late_enough_and_goes_on() {
        let clock = Clock::new();
        let first = clock.now();
        assert!(first.micros() >= 1_000_000);
        while clock.now() == first {}
        assert!(clock.now() > first);
    }
}
