//! What was measured against what is demanded.

use std::time::{Duration, Instant};

use super::load::{Found, Load, Window};
use super::ring::Ring;

/// How long after a fault all nodes have to be one ring and ready.
const GREEN: Duration = Duration::from_secs(60);
/// How long after a fault the load goes on at least, so that late failures are seen.
const AFTER: Duration = Duration::from_secs(20);

/// One measured value and its demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) what: String,
    pub(super) demanded: String,
    pub(super) measured: String,
    pub(super) passed: bool,
}

impl Check {
    pub(super) fn new(what: &str, demanded: &str, measured: impl Into<String>, passed: bool) -> Check {
        Check { what: what.into(), demanded: demanded.into(), measured: measured.into(), passed }
    }

    /// A row that did not come to its end.
    pub(super) fn not_run(why: &str) -> Check {
        Check::new("the row", "runs to its end", why, false)
    }

    /// A time with an upper limit; `None`: it did not happen while the row waited.
    pub(super) fn within(what: &str, limit: Duration, measured: Option<Duration>) -> Check {
        let text = measured.map_or_else(|| "not while the row waited".into(), span);
        let passed = measured.is_some_and(|measured| measured <= limit);
        Check::new(what, &format!("<= {}", span(limit)), text, passed)
    }

    /// A number with an upper limit.
    pub(super) fn at_most(what: &str, limit: usize, measured: usize) -> Check {
        let demanded = if limit == 0 { "0".into() } else { format!("<= {limit}") };
        Check::new(what, &demanded, measured.to_string(), measured <= limit)
    }

    /// A share of errors with an upper limit in percent.
    pub(super) fn errors(what: &str, limit: f64, window: &Window) -> Check {
        let demanded = if limit == 0.0 { "0".into() } else { format!("<= {limit} %") };
        Check::new(what, &demanded, window.text(), window.percent() <= limit)
    }

    /// A value that nothing is demanded of.
    pub(super) fn info(what: &str, measured: impl Into<String>) -> Check {
        Check::new(what, "-", measured, true)
    }

    pub(super) fn line(&self) -> String {
        format!("{}: {}: {} (demanded: {})", self.verdict(), self.what, self.measured, self.demanded)
    }

    /// Returns the result in a word; nothing is said of a value that nothing is demanded of.
    pub(super) fn verdict(&self) -> &'static str {
        match self.passed {
            true if self.demanded == "-" => "-",
            true => "pass",
            false => "FAIL",
        }
    }
}

/// Writes a time as people do.
pub(super) fn span(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Waits until all nodes are one ring and ready, then until the load has gone on for a while after the fault.
pub(super) fn settle(ring: &Ring, healed: Instant) -> Result<Check, String> {
    let green = ring.time_until(healed, GREEN, |ring| ring.is_green())?;
    if green.is_none() {
        super::note(&ring.describe());
    }
    super::pause(AFTER.saturating_sub(healed.elapsed()));
    Ok(Check::within("one ring, all ready, after the fault", GREEN, green))
}

/// Ends the load and checks what every row demands of it, and of the processes.
pub(super) fn verdict(ring: &mut Ring, load: &mut Load) -> Result<Vec<Check>, String> {
    Ok(vec![ledger(&load.finish(ring)?), processes(ring)])
}

/// What the ledger has to say.
fn ledger(found: &Found) -> Check {
    let Found { lost, stale, wrong, miscounted, missing, unread, examples } = found;
    let mut text = format!("lost {lost}, stale {stale}, wrong {wrong}");
    for (count, name) in [(miscounted, "miscounted"), (missing, "missing from sets"), (unread, "unreadable")]
    {
        if *count > 0 {
            text.push_str(&format!(", {name} {count}"));
        }
    }
    if let Some(example) = examples.first() {
        text.push_str(&format!(" ({example})"));
    }
    let bad = lost + stale + wrong + miscounted + missing + unread;
    Check::new("ledger", "lost 0, stale 0, wrong 0", text, bad == 0)
}

/// Whether all processes are alive and well.
pub(super) fn processes(ring: &mut Ring) -> Check {
    let panics = ring.inspect();
    let exits = &ring.unexpected_exits;
    let example = exits.first().map(|exit| format!(" ({exit})")).unwrap_or_default();
    let text = format!("panics {panics}, unexpected exits {}{example}", exits.len());
    Check::new("processes", "panics 0, unexpected exits 0", text, panics == 0 && exits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_what_never_happened_fails() {
        let limit = Duration::from_secs(5);
        assert!(Check::within("x", limit, Some(limit)).passed);
        assert!(!Check::within("x", limit, Some(limit + Duration::from_millis(1))).passed);
        assert!(!Check::within("x", limit, None).passed);
        assert!(Check::at_most("x", 0, 0).passed && !Check::at_most("x", 0, 1).passed);
        assert!(!Check::errors("x", 1.0, &Window::default()).passed, "no operation is no success");
    }

    #[test]
    fn the_ledger_names_what_it_found() {
        let found = Found { lost: 2, unread: 1, examples: vec!["k1: gone".into()], ..Found::default() };
        let check = ledger(&found);
        assert_eq!(check.measured, "lost 2, stale 0, wrong 0, unreadable 1 (k1: gone)");
        assert!(!check.passed && ledger(&Found::default()).passed);
    }
}
