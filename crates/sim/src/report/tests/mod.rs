//! What a report must keep, whoever writes or reads it.

mod files;
mod pictures;
mod replay;

use std::collections::BTreeMap;

use super::*;

/// A report with something of everything.
pub(super) fn sample() -> Report {
    let mut hops = Histogram::new("hops");
    for (value, count) in [(1, 3), (2, 61), (3, 1_640), (4, 6_450), (5, 1_846)] {
        hops.counts.insert(value, count);
    }
    let messages = [("lookup", 41_234_u64), ("ack", 0)];
    Report {
        schema: SCHEMA.to_owned(),
        scenario: "hops".to_owned(),
        title: "Hops of a lookup".to_owned(),
        anchor: "Pastry, figure 5: 100,000 nodes, b = 4".to_owned(),
        command: "kringle sim run hops --seed 7".to_owned(),
        code: "0.1.0 (3f2a1c0)".to_owned(),
        seed: 7,
        parameters: BTreeMap::from([("nodes".to_owned(), "1e5".to_owned())]),
        complete: true,
        figures: vec![
            Figure::new("mean hops", hops.mean(), 2, "hops")
                .paper(3.98)
                .limit(3.97)
                .want(Want::Between(3.96, 4.02)),
            Figure::new("most hops", 5.0, 0, "hops").want(Want::AtMost(4.0)),
            Figure::new("lookups", hops.total() as f64, 0, ""),
        ],
        tables: vec![Table {
            title: "Hops".to_owned(),
            columns: vec!["hops".to_owned(), "share | all".to_owned()],
            rows: vec![vec!["4".to_owned(), "0.645".to_owned()]],
        }],
        plots: vec![Plot {
            name: "hops".to_owned(),
            title: "Probability of the number of hops".to_owned(),
            shape: Shape::Bars,
            x: Axis { label: "hops".to_owned(), log: false },
            y: Axis { label: "share of lookups".to_owned(), log: false },
            series: vec![Series { name: "ours".to_owned(), role: Role::Ours, points: hops.bars(0..=6) }],
        }],
        counts: vec![hops],
        worlds: vec![Ring {
            name: "n=1000".to_owned(),
            nodes: 1_000,
            node_type: "kringle_core::node::Node".to_owned(),
            node_size: 1_096,
            events: 1_234_567,
            simulated_seconds: 12.5,
            trace: "0123456789abcdef".to_owned(),
            messages: messages.map(|(kind, count)| (kind.to_owned(), count)).into(),
        }],
        remarks: vec!["A remark".to_owned()],
        machine: Machine {
            seconds: 1.5,
            events_per_second: 823_044.0,
            peak_memory: 3 << 29,
            ..Machine::default()
        },
    }
}

#[test]
fn json_brings_back_what_was_written() {
    let report = sample();
    let text = report.to_json();
    assert!(text.ends_with("}\n"));
    assert_eq!(Report::from_json(&text).unwrap(), report);
    assert_eq!(Report::from_json(&text).unwrap().to_json(), text);
}

#[test]
fn what_is_not_a_number_survives_json() {
    let mut report = sample();
    report.figures[0].ours = f64::NAN;
    report.machine.events_per_second = f64::INFINITY;
    report.machine.figures.push(Figure::new("join", f64::NAN, 0, ""));
    report.plots[0].series[0].points[0].1 = f64::NEG_INFINITY;
    let back = Report::from_json(&report.to_json()).unwrap();
    assert!(back.figures[0].ours.is_nan());
    assert_eq!(report.same_outcome(&back), Ok(()));
    assert_eq!(back.to_json(), report.to_json());
}

#[test]
fn another_schema_is_refused_by_name() {
    let text = sample().to_json().replace("kringle.sim/1", "kringle.sim/2");
    let error = "kringle.sim/2 is not known; this build reads kringle.sim/1";
    assert_eq!(Report::from_json(&text), Err(error.to_owned()));
    // Even if nothing else is as it was.
    assert_eq!(Report::from_json(r#"{"schema": "kringle.sim/2"}"#), Err(error.to_owned()));
}

#[test]
fn errors_in_json_tell_where() {
    let error = Report::from_json("{\n  \"schema\": oops").unwrap_err();
    assert!(error.contains("line 2 column"), "{error}");
    let text = sample().to_json().replace("\"seed\": 7", "\"seed\": \"seven\"");
    let error = Report::from_json(&text).unwrap_err();
    assert!(error.contains("line 8 column") && error.contains("seven"), "{error}");
}

/// The data of a document is enough to compute what it shows: every bar, and the mean.
#[test]
fn bars_and_mean_follow_from_the_counts_in_the_document() {
    let report = Report::from_json(&sample().to_json()).unwrap();
    let counts = &report.counts[0].counts;
    let total: u64 = counts.values().sum();
    let bars = &report.plots[0].series[0].points;
    assert_eq!(bars.len(), 7);
    for (value, share) in bars {
        let count = counts.get(&(*value as u64)).copied().unwrap_or_default();
        assert!((share - count as f64 / total as f64).abs() < 1e-12, "bar of {value}");
    }
    let sum: u64 = counts.iter().map(|(value, count)| value * count).sum();
    assert!((report.figures[0].ours - sum as f64 / total as f64).abs() < 1e-12);
}

#[test]
fn a_terminal_gets_aligned_columns() {
    let expected = "\
mean hops     4.01 hops   paper 3.98   limit 3.97   wanted within 3.96 to 4.02  met
most hops        5 hops                             wanted at most 4  MISSED
lookups     10,000
note      A remark
";
    assert_eq!(sample().summary(), expected);
    let report = Report { complete: false, figures: Vec::new(), remarks: Vec::new(), ..sample() };
    assert_eq!(report.summary(), "not complete: these are the figures until then\n");
}

#[test]
fn a_result_is_not_rounded_into_its_bound() {
    let figure = Figure::new("hops", 4.004, 2, "").want(Want::AtMost(4.0));
    assert_eq!((figure.ours_text(), figure.verdict()), ("4.004".to_owned(), "MISSED"));
    let figure = Figure::new("lost", 0.0004, 2, "%").want(Want::AtMost(0.0005));
    assert_eq!(
        (figure.ours_with_unit(), figure.want_text()),
        ("0.00 %".to_owned(), "at most 0.0005".to_owned())
    );
}
