//! `same_outcome` overlooks nothing but where and with what the run was made.

use super::*;

#[test]
fn machine_command_and_code_may_differ() {
    let (one, mut other) = (sample(), sample());
    other.machine = Machine::default();
    other.command.push_str(" --jobs 2");
    other.code = "0.2.0".to_owned();
    assert_eq!(one.same_outcome(&other), Ok(()));
    assert_eq!(one.same_outcome(&Report::from_json(&one.to_json()).unwrap()), Ok(()));
}

#[test]
fn the_last_bit_of_a_number_counts_and_survives_json() {
    let (one, mut other) = (sample(), sample());
    other.figures[0].ours = f64::from_bits(other.figures[0].ours.to_bits() + 1);
    assert!(one.same_outcome(&other).is_err());
    let back = Report::from_json(&other.to_json()).unwrap();
    assert_eq!(other.same_outcome(&back), Ok(()));
}

type Change = fn(&mut Report);

#[test]
fn every_difference_is_named() {
    let changes: [(Change, &str); 32] = [
        (|r| r.schema = "x".into(), "schema: kringle.sim/1 here, x there"),
        (|r| r.scenario = "x".into(), "scenario: hops here, x there"),
        (|r| r.title = "x".into(), "title: Hops of a lookup here, x there"),
        (|r| r.anchor = "x".into(), "anchor: Pastry, figure 5: 100,000 nodes, b = 4 here, x there"),
        (|r| r.seed = 8, "seed: 7 here, 8 there"),
        (|r| r.parameters.clear(), "parameter 'nodes': 1e5 here, nothing there"),
        (|r| r.complete = false, "run: complete here, interrupted there"),
        (|r| r.figures[0].ours = 3.97, "figure 'mean hops': 4.0075 here, 3.97 there"),
        (|r| r.figures[0].digits = 3, "digits of figure 'mean hops': 2 here, 3 there"),
        (|r| r.figures[0].unit = "h".into(), "unit of figure 'mean hops': hops here, h there"),
        (|r| r.figures[0].paper = None, "paper's figure 'mean hops': 3.98 here, none there"),
        (|r| r.figures[0].limit = Some(2.0), "limit of figure 'mean hops': 3.97 here, 2 there"),
        (|r| r.figures[0].want = None, "what is wanted of figure 'mean hops' differs"),
        (|r| r.figures[0].name = "x".into(), "figure 'mean hops' here, 'x' there"),
        (|r| drop(r.figures.pop()), "figure 'lookups' is only here"),
        (|r| r.figures.push(Figure::new("new", 1.0, 0, "")), "figure 'new' is only there"),
        (|r| *r.counts[0].counts.entry(3).or_default() = 5, "counts 'hops' of 3: 1640 here, 5 there"),
        (|r| r.tables[0].columns[0].push('x'), "head of table 'Hops' differs"),
        (|r| r.tables[0].rows[0][1].push('x'), "row 1 of table 'Hops' differs"),
        (|r| r.plots[0].shape = Shape::Lines, "shape of plot 'hops' differs"),
        (
            |r| r.plots[0].title = "x".into(),
            "title of plot 'hops': Probability of the number of hops here, x there",
        ),
        (|r| r.plots[0].y.label = "x".into(), "y axis of plot 'hops': share of lookups here, x there"),
        (|r| r.plots[0].x.log = true, "scale of the x axis of plot 'hops' differs"),
        (|r| r.plots[0].series[0].role = Role::Paper, "role of series 'ours' of plot 'hops' differs"),
        (
            |r| r.plots[0].series[0].points[4].1 = 0.5,
            "y of point 5 of series 'ours' of plot 'hops': 0.645 here, 0.5 there",
        ),
        (|r| r.worlds[0].trace.push('0'), "trace of ring 'n=1000' differs"),
        (|r| r.worlds[0].nodes = 1, "nodes of ring 'n=1000': 1000 here, 1 there"),
        (|r| r.worlds[0].events = 1, "events of ring 'n=1000': 1234567 here, 1 there"),
        (|r| r.worlds[0].simulated_seconds = 1.0, "simulated seconds of ring 'n=1000': 12.5 here, 1 there"),
        (|r| r.worlds[0].node_size = 1, "node size of ring 'n=1000': 1096 here, 1 there"),
        (
            |r| *r.worlds[0].messages.entry("ack".into()).or_default() = 1,
            "messages 'ack' of ring 'n=1000': 0 here, 1 there",
        ),
        (|r| r.remarks.clear(), "remark 'A remark' is only here"),
    ];
    for (change, expected) in changes {
        let mut other = sample();
        change(&mut other);
        assert_eq!(sample().same_outcome(&other), Err(expected.to_owned()));
    }
}
