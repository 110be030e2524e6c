//! Populations keep their size, sessions their length, traces their order.

use std::collections::BTreeMap;

use crate::network::FileError;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn weibull() -> Churn {
    Churn::Weibull { shape: 0.5, mean_session: HOUR }
}

fn poisson() -> Churn {
    Churn::Poisson { mean_session: HOUR }
}

fn until(churn: &Churn, nodes: u32, seed: u64, end: Duration) -> Vec<Event> {
    churn.sessions(nodes, seed).unwrap().take_while(|event| event.at < end).collect()
}

#[test]
fn random_churn_begins_with_everybody_and_stays_in_order() {
    for churn in [poisson(), weibull()] {
        let events = until(&churn, 100, 1, HOUR * 10);
        let first: Vec<_> = events[..100].to_vec();
        let expected: Vec<_> =
            (0..100).map(|node| Event { at: Duration::ZERO, what: Change::Up(node) }).collect();
        assert_eq!(first, expected);
        assert!(events.is_sorted_by_key(|event| event.at));
        assert!(events[100].at > Duration::ZERO);
    }
}

#[test]
fn every_node_comes_once_and_goes_once() {
    for churn in [poisson(), weibull()] {
        let mut states = BTreeMap::new();
        for event in until(&churn, 100, 1, HOUR * 10) {
            let before = match event.what {
                Change::Up(node) => states.insert(node, "up"),
                Change::Down(node) => states.insert(node, "down"),
            };
            let expected = if matches!(event.what, Change::Up(_)) { None } else { Some("up") };
            assert_eq!(before, expected, "{event:?}");
        }
        let numbers: Vec<u32> = states.keys().copied().collect();
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>(), "numbered in order of arrival");
    }
}

/// Averages over twenty hours, and looks at every hour: a population that does not start in its steady state would dip
/// or swell at first, which happens if founders of a heavy-tailed one are treated as newcomers.
#[test]
fn the_population_keeps_its_size() {
    for churn in [poisson(), weibull()] {
        let mut size: i64 = 0;
        let mut hourly = Vec::new();
        for event in until(&churn, 2_000, 1, HOUR * 20) {
            while event.at > HOUR * hourly.len() as u32 {
                hourly.push(size);
            }
            size += if matches!(event.what, Change::Up(_)) { 1 } else { -1 };
        }
        assert!(hourly.iter().all(|size| (1_800..2_200).contains(size)), "{churn:?}: {hourly:?}");
        let mean = hourly.iter().sum::<i64>() as f64 / hourly.len() as f64;
        assert!((1_920.0..2_080.0).contains(&mean), "{churn:?}: {mean}");
    }
}

#[test]
fn arrivals_and_sessions_are_as_told() {
    let events = until(&poisson(), 1_000, 1, HOUR * 100);
    let arrivals = events.iter().filter(|event| matches!(event.what, Change::Up(_))).count() - 1_000;
    assert!((99_000..101_000).contains(&arrivals), "{arrivals}");
    let mut came = BTreeMap::new();
    let mut lengths = Vec::new();
    for event in &events {
        match event.what {
            Change::Up(node) => drop(came.insert(node, event.at)),
            Change::Down(node) if node >= 1_000 => lengths.push((event.at - came[&node]).as_secs_f64()),
            Change::Down(_) => {}
        }
    }
    let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
    assert!((3_500.0..3_650.0).contains(&mean), "{mean}");
    // Half of all exponential sessions end before ln 2 of the mean.
    let short = lengths.iter().filter(|length| **length < 3600.0 * 2f64.ln()).count() as f64;
    assert!((0.49..0.51).contains(&(short / lengths.len() as f64)), "{short}");
}

#[test]
fn a_seed_repeats_and_another_differs() {
    for churn in [poisson(), weibull()] {
        assert_eq!(until(&churn, 50, 1, HOUR), until(&churn, 50, 1, HOUR));
        assert_ne!(until(&churn, 50, 1, HOUR), until(&churn, 50, 2, HOUR));
    }
}

#[test]
fn a_shape_of_one_is_exponential() {
    let one = Churn::Weibull { shape: 1.0, mean_session: HOUR };
    assert_eq!(until(&one, 50, 1, HOUR), until(&poisson(), 50, 1, HOUR));
}

#[test]
fn impossible_churn_is_refused() {
    let refused = |churn: Churn, nodes| churn.sessions(nodes, 1).unwrap_err();
    assert_eq!(refused(poisson(), 0), "a population of 0; expected at least 1 node");
    let flat = Churn::Weibull { shape: 9.0, mean_session: HOUR };
    assert_eq!(refused(flat, 5), "a shape of 9; expected 0.2 to 5");
    let none = Churn::Poisson { mean_session: Duration::ZERO };
    assert_eq!(refused(none, 5), "a mean session of 0ns; expected a millisecond to ten years");
}

#[test]
fn a_trace_is_replayed_as_it_is_written() {
    let trace = Trace::parse("# two\n0 up bob\n\n1.5 up 17\n1.5 down bob\n  9 up bob\r\n").unwrap();
    assert_eq!(trace.names().collect::<Vec<_>>(), ["bob", "17"]);
    let event = |millis, what| Event { at: Duration::from_millis(millis), what };
    let expected = [
        event(0, Change::Up(0)),
        event(1_500, Change::Up(1)),
        event(1_500, Change::Down(0)),
        event(9_000, Change::Up(0)),
    ];
    assert_eq!(trace.events(), expected);
    let sessions = Churn::Trace(trace).sessions(0, 1).unwrap();
    assert_eq!(sessions.collect::<Vec<_>>(), expected);
}

#[test]
fn a_malformed_trace_is_refused_with_its_line() {
    let refused = |text: &str| Trace::parse(text).unwrap_err();
    let check = |text: &str, line: usize, problem: &str| {
        let expected = FileError { path: None, line: Some(line), problem: problem.to_owned() };
        assert_eq!(refused(text), expected, "{text:?}");
    };
    let seconds = "expected the time in seconds since the start";
    check("0 up a\n#\n1 left a\n", 3, "\"left\" is not known; expected up or down");
    check("0 up a\n1 up a\n", 2, "a is up already; expected the opposite");
    check("\n0 down a\n", 2, "a is down already; expected the opposite");
    check("0 up a\n1 down a\n2 down a\n", 3, "a is down already; expected the opposite");
    check("5 up a\n4.5 up b\n", 2, "4.5 is before 5; expected times in order");
    check("soon up a\n", 1, &format!("\"soon\" is not a number; {seconds}"));
    check("-1 up a\n", 1, &format!("-1 is no time; {seconds}"));
    check("NaN up a\n", 1, &format!("NaN is no time; {seconds}"));
    check("1e30 up a\n", 1, &format!("1e30 is no time; {seconds}"));
    check("0 up\n", 1, "has 2 words; expected 3: SECONDS up|down NODE");
    check("0 up a b\n", 1, "has 4 words; expected 3: SECONDS up|down NODE");
    assert_eq!(refused("# nothing\n").line, None);
    assert_eq!(refused("").to_string(), "has no events; expected lines such as 12.5 up alice");
    assert_eq!(refused("x up a").to_string(), format!("line 1: \"x\" is not a number; {seconds}"));
}

#[test]
fn a_trace_file_is_read_or_refused_with_its_name() {
    let path = std::env::temp_dir().join(format!("kringle-{}-trace.txt", std::process::id()));
    std::fs::write(&path, "0 up a\n1 up a\n").unwrap();
    let refused = Trace::read(&path).unwrap_err().to_string();
    std::fs::write(&path, "0 up a\n1 down a\n").unwrap();
    let read = Trace::read(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(refused, format!("{}:2: a is up already; expected the opposite", path.display()));
    assert_eq!(read, Trace::parse("0 up a\n1 down a\n"));
}
