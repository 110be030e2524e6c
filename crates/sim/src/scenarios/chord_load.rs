//! How evenly keys are spread over Chord's nodes, and what virtual nodes bring (ToN 2003, section VI-B).

use kringle_core::dice::SeededDice;
use kringle_core::id::Id;
use kringle_core::overlay::Overlay;

use super::mass_failure::random_key;
use crate::lab::chord::{lines, series, table};
use crate::lab::params::{KEYS, NODES, SUCCESSORS};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Figure, Role, Want};

/// See the module.
pub(super) const CHORD_LOAD: Scenario = Scenario {
    name: "chord-load",
    about: "keys per Chord node, and how virtual nodes even them out",
    anchor: "Chord (ToN 2003), section VI-B: 10,000 nodes, 100,000 to 1,000,000 keys; with 500,000 the 99th percentile \
             is 4.6 times the mean and the most 9.1 times; 1 to 20 virtual nodes each bring it from 4.8 to 1.6",
    params: &[(NODES, "10000"), (KEYS, "1000000"), (SUCCESSORS, "8")],
    run,
};

/// Virtual nodes per node, and the paper's 1st and 99th percentile relative to the mean, as far as it gives them.
const VIRTUAL: [(usize, Option<f64>, Option<f64>); 5] = [
    (1, Some(0.0), Some(4.8)),
    (2, None, None),
    (5, None, None),
    (10, None, None),
    (20, Some(0.5), Some(1.6)),
];
/// The paper counts keys in so many steps.
const STEPS: usize = 10;
/// Keep keys and virtual nodes apart from other things drawn from the same seed.
const DRAWN: u64 = 22 << 40;
const PLACES: u64 = 23 << 40;

/// Keys on each node, sorted.
struct Load(Vec<usize>);

impl Load {
    fn mean(&self) -> f64 {
        self.0.iter().sum::<usize>() as f64 / self.0.len() as f64
    }

    /// So large a part of the nodes holds at most this, relative to the mean.
    fn quantile(&self, part: f64) -> f64 {
        let at = ((self.0.len() as f64 * part).ceil() as usize).clamp(1, self.0.len()) - 1;
        self.0[at] as f64 / self.mean().max(1e-9)
    }
}

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, most) = (lab.count(NODES), lab.count(KEYS));
    let world = lab.chord_ring(lab.chord_settings(None), nodes)?;
    let mut dice = SeededDice::derive(lab.seed, DRAWN);
    let keys: Vec<Id> = (0..most).map(|_| random_key(&mut dice)).collect();
    let columns =
        ["keys", "mean per node", "1st percentile / mean", "99th / mean", "max / mean", "nodes without"];
    lab.report.tables.push(table("Keys per node", &columns));
    let (mut middle, mut curve) = (None, Vec::new());
    for step in 1..=STEPS {
        lab.progress("keys are spread", step as f64 / STEPS as f64)?;
        let count = most * step / STEPS;
        let mut sorted = keys[..count].to_vec();
        sorted.sort_unstable();
        // Each node says itself which part of the ring is its own.
        let held = world.ready().map(|(_, node)| {
            let range = node.overlay().range();
            let me = node.me().id;
            let before = sorted.partition_point(|key| *key <= me);
            let around =
                (1..=count).take_while(|step| range.contains(sorted[(before + count - step) % count]));
            around.count()
        });
        let mut held: Vec<usize> = held.collect();
        held.sort_unstable();
        let none = held.iter().filter(|count| **count == 0).count();
        let placed: usize = held.iter().sum();
        let load = Load(held);
        if placed != count {
            return Err(Halt::Broken(format!("{count} keys, of which {placed} are some node's")));
        }
        let ratios = [0.01, 0.99, 1.0].map(|part| load.quantile(part));
        let mut row = vec![count.to_string(), format!("{:.1}", load.mean())];
        row.extend(ratios.map(|ratio| format!("{ratio:.2}")));
        row.push(none.to_string());
        lab.report.tables[0].rows.push(row);
        curve.push((count as f64, ratios[1]));
        if step * 2 == STEPS {
            middle = Some(ratios);
        }
    }
    lab.keep(&format!("{nodes} nodes"), &world);
    let papers = nodes == 10_000 && most == 1_000_000;
    if let Some([_, p99, max]) = middle {
        let half = most / 2;
        let figures = [
            (format!("99th percentile with {half} keys"), p99, 4.6),
            (format!("most with {half} keys"), max, 9.1),
        ];
        for (name, ours, paper) in figures {
            let figure = Figure::new(name, ours, 2, "times the mean");
            lab.report.figures.push(if papers { figure.paper(paper) } else { figure });
        }
    }
    lab.report.plots.push(lines(
        "keys",
        "99th percentile of the keys per node, relative to the mean",
        ("keys", false),
        "times the mean",
        vec![series("Kringle", Role::Ours, curve)],
    ));
    virtual_nodes(lab, &keys, papers)
}

/// The paper's model: each node has several places.
fn virtual_nodes(lab: &mut Lab<'_>, keys: &[Id], papers: bool) -> Result<(), Halt> {
    let nodes = lab.count(NODES);
    let columns = ["virtual nodes", "1st percentile / mean", "paper", "99th / mean", "paper", "max / mean"];
    lab.report.tables.push(table("Virtual nodes, a model", &columns));
    let (mut low, mut high, mut paper) = (Vec::new(), Vec::new(), Vec::new());
    for (each, first, last) in VIRTUAL {
        lab.progress("virtual nodes", each as f64 / 20.0)?;
        let mut dice = SeededDice::derive(lab.seed, PLACES);
        let mut places: Vec<(Id, usize)> =
            (0..nodes * each).map(|place| (random_key(&mut dice), place / each)).collect();
        places.sort_unstable();
        let mut held = vec![0; nodes];
        for key in keys {
            let at = places.partition_point(|(id, _)| id < key) % places.len();
            held[places[at].1] += 1;
        }
        held.sort_unstable();
        let load = Load(held);
        let [p1, p99, max] = [0.01, 0.99, 1.0].map(|part| load.quantile(part));
        let text = |paper: Option<f64>| paper.map_or("-".to_owned(), |paper| format!("{paper:.1}"));
        lab.report.tables[1].rows.push(vec![
            each.to_string(),
            format!("{p1:.2}"),
            text(first),
            format!("{p99:.2}"),
            text(last),
            format!("{max:.2}"),
        ]);
        low.push((each as f64, p1));
        high.push((each as f64, p99));
        paper.extend(last.map(|last| (each as f64, last)));
        for (name, ours, theirs) in [("1st", p1, first), ("99th", p99, last)] {
            if let Some(theirs) = theirs.filter(|_| papers) {
                let name = format!("{name} percentile, {each} virtual nodes");
                let figure = Figure::new(name, ours, 2, "times the mean").paper(theirs);
                lab.report.figures.push(figure.want(Want::Between((theirs - 0.3).max(0.0), theirs + 0.3)));
            }
        }
    }
    lab.report.plots.push(lines(
        "virtual",
        "Keys per node against virtual nodes, relative to the mean",
        ("virtual nodes per node", false),
        "times the mean",
        vec![
            series("99th percentile", Role::Ours, high),
            series("1st percentile", Role::Ours, low),
            series("Chord, 99th percentile", Role::Paper, paper),
        ],
    ));
    lab.report.remarks.push(
        "the first table is what simulated nodes say is theirs; the second a model, as in the paper: Kringle has no \
         virtual nodes"
            .to_owned(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figure, run};
    use super::*;

    #[test]
    fn every_key_is_one_nodes_and_virtual_nodes_even_them_out() {
        let report = run(&CHORD_LOAD, &[("nodes", "300"), ("keys", "30000")]);
        assert!(figure(&report, "99th percentile with 15000 keys") > 2.5);
        let rows = &report.tables[1].rows;
        let last = |at: usize| rows[at][3].parse::<f64>().unwrap();
        assert!(last(0) > 3.0 && last(4) < 2.0, "{rows:?}");
        assert_eq!(report.tables[0].rows.len(), STEPS);
    }
}
