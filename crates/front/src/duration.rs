//! Spans of time as people write them: `250ms`, `90s`, `10m`, `2h`, `1d`.
//!
//! One whole number and one unit. No fractions and no sums, so that there is one way to read each.

use std::time::Duration;

/// A text that is no span of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DurationError {
    /// There is nothing to read.
    Empty,
    /// A whole number does not come first.
    Number {
        /// The text.
        text: String,
    },
    /// The number has no unit, or one that is not known.
    Unit {
        /// The text.
        text: String,
    },
    /// The span is longer than can be counted.
    TooLong {
        /// The text.
        text: String,
    },
}

impl std::fmt::Display for DurationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DurationError::Empty => {
                write!(f, "a duration is missing; write one like 250ms, 90s, 10m, 2h or 1d")
            }
            DurationError::Number { text } => {
                write!(f, "{text:?} is not a duration: it must begin with a whole number, as in 1500ms")
            }
            DurationError::Unit { text } => {
                write!(f, "{text:?} is not a duration: the number needs one of the units ms, s, m, h, d")
            }
            DurationError::TooLong { text } => write!(f, "{text:?} is longer than a duration can be"),
        }
    }
}

impl std::error::Error for DurationError {}

/// Reads a span of time.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    // What is shown again is cut: the text may be as long as a request line.
    let shown = || text.chars().take(40).collect::<String>();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if number.is_empty() {
        return Err(DurationError::Number { text: shown() });
    }
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ if unit.starts_with('.') => return Err(DurationError::Number { text: shown() }),
        _ => return Err(DurationError::Unit { text: shown() }),
    };
    let number: Option<u64> = number.parse().ok();
    let millis = number.and_then(|number| number.checked_mul(millis));
    millis.map(Duration::from_millis).ok_or_else(|| DurationError::TooLong { text: shown() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, millis) in [
            ("250ms", 250),
            ("0s", 0),
            ("90s", 90_000),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_its_reason() {
        assert_eq!(parse(""), Err(DurationError::Empty));
        for text in ["s", "-1s", "+1s", " 1s", "1.5s", "x"] {
            assert!(matches!(parse(text), Err(DurationError::Number { .. })), "{text}");
        }
        for text in ["1", "1S", "1 s", "1sec", "1h30m", "1µs", "1s\u{1b}[2J"] {
            assert!(matches!(parse(text), Err(DurationError::Unit { .. })), "{text}");
        }
        for text in ["18446744073709551616ms", "18446744073709551615s", "999999999999999999999999d"] {
            assert!(matches!(parse(text), Err(DurationError::TooLong { .. })), "{text}");
        }
    }

    #[test]
    fn errors_show_no_control_characters_and_not_much_text() {
        let error = parse(&format!("1\u{1b}{}", "x".repeat(10_000))).unwrap_err().to_string();
        assert!(!error.contains('\u{1b}') && error.len() < 200, "{error}");
    }
}
