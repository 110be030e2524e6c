//! Time as the core knows it: an integer the driver supplies.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::time::Duration;

/// A moment, in microseconds since a start only the driver knows.
///
/// Never read from a clock in here: the runtime passes a suspend-safe monotonic clock, the simulator its virtual one.
/// Arithmetic saturates, so a peer-supplied span can not wrap it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(u64);

impl Time {
    /// The driver's start.
    pub const ZERO: Time = Time(0);

    /// Makes the moment this many microseconds after the start.
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros)
    }

    /// Returns the microseconds since the start.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Returns the moment `span` later.
    pub fn after(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Returns how long ago `earlier` was, zero if it lies ahead.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Hash for Time {
    /// As a width nothing else in a node is hashed in: the checker tells moments from other numbers by it, since two
    /// states that differ only in how late it is are the same to it.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_i128(self.0.into());
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let late = Time::from_micros(u64::MAX - 1);
        assert_eq!(late.after(Duration::MAX).micros(), u64::MAX);
        assert_eq!(Time::ZERO.since(late), Duration::ZERO);
        assert_eq!(
            Time::ZERO.after(Duration::from_millis(3)).since(Time::from_micros(1_000)).as_micros(),
            2_000
        );
    }
}
