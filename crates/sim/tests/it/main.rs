//! Rings of many nodes, each behaviour from one seed.

mod chaos;
mod churn;
mod conformance;
mod determinism;
mod healing;
mod idle;
mod leases;
mod locality;
mod relays;
mod round_trips;
mod store;
mod way_back;
mod wendy;

use std::ops::Range;

/// The seeds to try: those of the test, or what `KRINGLE_SEEDS` says: one, or `from..to` without the last.
fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("KRINGLE_SEEDS") else { return usual };
    let number = |part: &str| part.parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)).map(|(from, to)| from..to),
        None => number(&text).map(|seed| seed..seed + 1),
    };
    let range = range.filter(|range| !range.is_empty());
    range.unwrap_or_else(|| panic!("KRINGLE_SEEDS is a seed or from..to, not {text:?}"))
}
