//! Spans of time as people write them: `250ms`, `2s`, `10m`, `4h`, `1d`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a span of time: a number, with a fraction if need be, and a unit.
pub(crate) fn read(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is not a span of time; write a number and a unit: 250ms, 2s, 10m, 4h, 1d");
    let at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
    let millis = (number * *factor as f64).round();
    // Longer than anybody means, and the clock's arithmetic stays far from its limits.
    if millis > 1e14 { Err(wrong()) } else { Ok(Duration::from_millis(millis as u64)) }
}

/// Writes a span so that [`read`] reads it back to the millisecond.
pub(crate) fn exact(span: Duration) -> String {
    let millis = span.as_millis();
    let fits = |(_, factor): &&(&str, u64)| millis > 0 && millis.is_multiple_of(u128::from(*factor));
    match UNITS.iter().rev().find(fits) {
        Some((unit, factor)) => format!("{}{unit}", millis / u128::from(*factor)),
        None => format!("{millis}ms"),
    }
}

/// Writes about how long a span is, in at most two units.
pub(crate) fn rough(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_and_written() {
        for (text, millis) in [("250ms", 250), ("2s", 2_000), ("10m", 600_000), ("4h", 14_400_000)] {
            assert_eq!(read(text), Ok(Duration::from_millis(millis)));
            assert_eq!(exact(Duration::from_millis(millis)), text);
        }
        assert_eq!(read("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(read("1d"), read("24h"));
        assert_eq!(exact(Duration::ZERO), "0ms");
        assert_eq!(exact(Duration::from_millis(1_500)), "1500ms");
        for bad in ["", "2", "s", "-1s", "2 s", "1e3s", "2x", "1.2.3s", "99999999999d", "infs"] {
            assert!(read(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn rough_spans_have_two_units() {
        for (seconds, text) in [(9, "9s"), (134, "2m14s"), (7_500, "2h05m"), (180_000, "2d02h")] {
            assert_eq!(rough(Duration::from_secs(seconds)), text);
        }
        assert_eq!(rough(Duration::from_millis(350)), "350ms");
    }
}
