//! One line per event.

use kringle_front::moment::timestamp;
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

#[cfg(test)]
mod tests {
    use super::super::samples::id;
    use super::*;

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
