//! Moments and spans as programs read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes milliseconds since 1970 as RFC 3339, in UTC.
pub fn timestamp(at_ms: u64) -> String {
    let (days, rest) = (at_ms / 86_400_000, at_ms % 86_400_000);
    // Days since 1 March of year 0, in eras of 400 years; the year begins in March, so leap days come last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (seconds, millis) = (rest / 1_000, rest % 1_000);
    format!(
        "{:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        era * 400 + year + next,
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Returns how long it is until a moment in milliseconds since 1970; nothing if it has passed.
pub fn left(until_ms: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(until_ms).saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_programs_expect_them() {
        for (at_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_763_230_622_123, "2025-11-15T18:17:02.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(at_ms), text);
        }
    }

    #[test]
    fn nothing_is_left_until_yesterday() {
        assert_eq!(left(1), Duration::ZERO);
        assert!(left(u64::MAX) > Duration::from_secs(1 << 40));
    }
}
