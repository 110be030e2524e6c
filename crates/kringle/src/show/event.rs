//! One line per event, and times of day.

use kringle_runtime::report::{Event, What};

use super::Width;

/// Writes an event. Times are UTC: of the day for people, with the date for programs.
pub(crate) fn line(event: &Event, with_date: bool, long: bool) -> String {
    let width = Width::of([], long);
    let cut = |id: &String| width.cut(id).to_owned();
    let (name, rest) = match &event.what {
        What::Status { status } => ("status", status.clone()),
        What::PeerUp { peer } => ("peer-up", cut(peer)),
        What::PeerDown { peer } => ("peer-down", cut(peer)),
        What::Suspected { peer } => ("suspected", cut(peer)),
        What::Cleared { peer } => ("cleared", cut(peer)),
        What::Died { peer } => ("died", cut(peer)),
        What::RangeGained { from, to } => ("range-gained", format!("{} to {}", cut(from), cut(to))),
        What::RangeLost { from, to } => ("range-lost", format!("{} to {}", cut(from), cut(to))),
        What::Refused { peer, reason } => ("refused", format!("{}: {reason}", cut(peer))),
        What::LeasesOverdue => ("leases-overdue", "three leases without the right to deliver".into()),
        What::Missed { count } => ("missed", format!("{count} events: this reader was too slow")),
    };
    let time = timestamp(event.at_ms);
    let time = if with_date { time.as_str() } else { time.get(11..23).unwrap_or(&time) };
    format!("{time}  {name:14}  {rest}").trim_end().to_owned() + "\n"
}

/// Writes milliseconds since 1970 as RFC 3339, in UTC.
pub(crate) fn timestamp(at_ms: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::super::samples::id;
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
    fn an_event_is_a_line() {
        let event = |what| Event { serial: 1, at_ms: 1_763_230_622_123, what };
        let up = event(What::PeerUp { peer: id("a3b90c") });
        assert_eq!(line(&up, false, false), "18:17:02.123  peer-up         a3b90c\n");
        assert!(line(&up, true, true).starts_with("2025-11-15T18:17:02.123Z  peer-up         a3b90c000"));
        let lost = event(What::RangeLost { from: id("00"), to: id("1f") });
        assert_eq!(line(&lost, false, false), "18:17:02.123  range-lost      000000 to 1f0000\n");
    }
}
