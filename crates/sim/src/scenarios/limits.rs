//! What is possible: hops and distance of greedy prefix routing against what a node knows.

use kringle_core::config::Settings;
use kringle_core::id::Base;

use crate::lab::params::{LOOKUPS, MEASURED, NEIGHBOURHOOD, NETWORK, NODES, ROUNDS, SPARES};
use crate::lab::ring::{Routes, entries};
use crate::lab::{Halt, Lab, Scenario};
use crate::model::Model;
use crate::network::{Network, Topology};
use crate::report::{Axis, Figure, Plot, Role, Series, Shape, Table, Want};

/// See the module.
pub(super) const LIMITS: Scenario = Scenario {
    name: "limits",
    about: "hops and distance that perfect tables allow, by bits per digit and leaf set",
    anchor: "",
    params: &[
        (NODES, "100000"),
        (MEASURED, "2000"),
        (LOOKUPS, "5000"),
        (ROUNDS, "8"),
        (NEIGHBOURHOOD, "32"),
        (SPARES, "0"),
        (NETWORK, "plane"),
    ],
    run,
};

/// Bits per digit that are tried.
const BASES: [u8; 4] = [2, 4, 6, 8];
/// Leaf sets that are tried.
const LEAF_SETS: [u16; 5] = [16, 32, 64, 128, 256];
/// Bits per digit and leaf sets of the rings that are simulated.
const SIMULATED: [(u8, u16); 6] = [(2, 16), (4, 16), (4, 32), (4, 64), (6, 32), (8, 64)];
/// Nodes whose entries are counted in the model.
const SAMPLE: usize = 100;

/// What a set-up came to.
struct Point {
    entries: f64,
    routes: Routes,
}

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, measured) = (lab.count(NODES), lab.count(MEASURED));
    computed(lab, nodes)?;
    simulated(lab, measured)?;
    let remarks = [
        "the model bounds greedy prefix routing with that state, not every algorithm",
        "entries are distinct nodes: a leaf that also holds a cell counts once",
    ];
    lab.report.remarks.extend(remarks.map(str::to_owned));
    Ok(())
}

/// The model, for all set-ups.
fn computed(lab: &mut Lab<'_>, nodes: usize) -> Result<(), Halt> {
    let mut table = table(format!("Perfect tables, {nodes} nodes"), &["entries", "hops", "distance"]);
    let mut curves = Vec::new();
    let steps = (BASES.len() * LEAF_SETS.len()) as f64;
    for b in BASES {
        let mut curve = Vec::new();
        for leaf_set in LEAF_SETS {
            lab.progress("perfect tables", table.rows.len() as f64 / steps)?;
            let point = model(lab, nodes, b, leaf_set)?;
            let Point { entries, routes } = &point;
            table.rows.push(vec![
                b.to_string(),
                leaf_set.to_string(),
                format!("{entries:.0}"),
                format!("{:.2}", routes.hops.mean()),
                format!("{:.2}", routes.distance()),
            ]);
            lab.report.counts.push(routes.hops.clone());
            curve.push(point);
        }
        curves.push((format!("b={b}, {nodes} nodes, perfect"), Role::Limit, curve));
    }
    lab.report.tables.push(table);
    for (name, title, label, value) in VIEWS {
        let series = curves.iter().map(|(name, role, curve)| series(name, *role, curve, value)).collect();
        lab.report.plots.push(Plot {
            name: name.to_owned(),
            title: title.to_owned(),
            shape: Shape::Lines,
            x: Axis { label: "entries known per node".to_owned(), log: true },
            y: Axis { label: label.to_owned(), log: false },
            series,
        });
    }
    Ok(())
}

/// Rings that are simulated, beside the model of the same nodes.
fn simulated(lab: &mut Lab<'_>, nodes: usize) -> Result<(), Halt> {
    let columns = ["entries", "hops", "perfect hops", "distance", "perfect distance", "lost", "wrong"];
    lab.report.tables.push(table(format!("Simulated, {nodes} nodes"), &columns));
    let (mut ours, mut limits) = (Vec::new(), Vec::new());
    // Beyond what a perfect table takes, in per cent.
    let (mut hops_over, mut distance_over, mut unanswered): (f64, f64, u64) = (0.0, 0.0, 0);
    for (b, leaf_set) in SIMULATED {
        let base = Base::new(b).unwrap_or(Base::HEX);
        let mut world = lab.world_of(Settings { base, leaf_set, ..lab.settings() })?;
        lab.grow(&mut world, nodes)?;
        let (rounds, lookups) = (lab.count(ROUNDS), lab.count(LOOKUPS));
        lab.rounds(&mut world, rounds)?;
        let name = format!("hops, simulated, {nodes} nodes, b={b}, L={leaf_set}");
        let routes = lab.routes(&mut world, &name, lookups)?;
        lab.keep(&format!("{nodes} nodes, b={b}, L={leaf_set}"), &world);
        let perfect = Model::of(&world);
        let name = format!("hops, the same nodes with perfect tables, b={b}, L={leaf_set}");
        let limit = Point {
            entries: perfect.entries(SAMPLE, lab.seed),
            routes: perfect.routes(&name, lookups, lab.seed),
        };
        let point = Point { entries: entries(&world), routes };
        let over = |ours: f64, limit: f64| (ours / limit.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
        hops_over = hops_over.max(over(point.routes.hops.mean(), limit.routes.hops.mean()));
        distance_over = distance_over.max(over(point.routes.distance(), limit.routes.distance()));
        unanswered += point.routes.lost + point.routes.wrong;
        let row = vec![
            b.to_string(),
            leaf_set.to_string(),
            format!("{:.1}", point.entries),
            format!("{:.3}", point.routes.hops.mean()),
            format!("{:.3}", limit.routes.hops.mean()),
            format!("{:.3}", point.routes.distance()),
            format!("{:.3}", limit.routes.distance()),
            point.routes.lost.to_string(),
            point.routes.wrong.to_string(),
        ];
        if let Some(table) = lab.report.tables.last_mut() {
            table.rows.push(row);
        }
        lab.report.counts.extend([point.routes.hops.clone(), limit.routes.hops.clone()]);
        ours.push(point);
        limits.push(limit);
    }
    for (plot, (_, _, _, value)) in lab.report.plots.iter_mut().zip(VIEWS) {
        plot.series.push(series(&format!("Kringle, {nodes} nodes"), Role::Ours, &ours, value));
        plot.series.push(series(&format!("the same {nodes} nodes, perfect"), Role::Limit, &limits, value));
    }
    let figure = |name: &str, ours: f64, unit: &str| Figure::new(name, ours, 1, unit);
    lab.report.figures.extend([
        figure("most hops beyond perfect tables", hops_over, "%").want(Want::AtMost(2.0)),
        figure("most distance beyond perfect tables", distance_over, "%").want(Want::AtMost(5.0)),
        figure("lookups lost or wrong", unanswered as f64, "").want(Want::AtMost(0.0)),
    ]);
    Ok(())
}

fn model(lab: &Lab<'_>, nodes: usize, b: u8, leaf_set: u16) -> Result<Point, Halt> {
    let topology = Topology::parse(lab.params.text(NETWORK), lab.seed).map_err(Halt::Impossible)?;
    let base = Base::new(b).unwrap_or(Base::HEX);
    let model = Model::random(nodes, Network::new(topology, lab.seed), base, leaf_set.into(), lab.seed);
    let name = format!("hops, perfect tables, {nodes} nodes, b={b}, L={leaf_set}");
    let routes = model.routes(&name, lab.count(LOOKUPS), lab.seed);
    Ok(Point { entries: model.entries(SAMPLE, lab.seed), routes })
}

/// What is drawn of a point: name, title and label of the plot, and the value.
type View = (&'static str, &'static str, &'static str, fn(&Point) -> f64);

const VIEWS: [View; 2] = [
    ("hops", "Hops against what a node knows", "mean hops", |point| point.routes.hops.mean()),
    ("distance", "Distance against what a node knows", "distance travelled / direct distance", |point| {
        point.routes.distance()
    }),
];

fn series(name: &str, role: Role, points: &[Point], value: fn(&Point) -> f64) -> Series {
    let mut points: Vec<(f64, f64)> = points.iter().map(|point| (point.entries, value(point))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Series { name: name.to_owned(), role, points }
}

fn table(title: String, columns: &[&str]) -> Table {
    let columns = ["b", "L"].iter().chain(columns).map(|column| (*column).to_owned()).collect();
    Table { title, columns, rows: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::tests::run;

    #[test]
    fn more_state_takes_fewer_hops_and_simulated_rings_come_near_the_model() {
        let report =
            run(&LIMITS, &[("nodes", "1000"), ("measured", "150"), ("lookups", "400"), ("rounds", "3")]);
        let hops: Vec<f64> = report.tables[0].rows.iter().map(|row| row[3].parse().unwrap()).collect();
        assert_eq!(hops.len(), 20);
        assert!(hops.chunks(5).all(|same_base| same_base[0] > same_base[4]), "larger leaf sets: {hops:?}");
        assert!(hops[0] > hops[5] && hops[5] > hops[15], "larger digits: {hops:?}");
        for row in &report.tables[1].rows {
            let number = |at: usize| row[at].parse::<f64>().unwrap();
            assert!((number(3) / number(4) - 1.0).abs() < 0.1, "simulated and perfect hops: {row:?}");
            assert_eq!((number(7), number(8)), (0.0, 0.0));
        }
        assert_eq!(report.counts.len(), 20 + 2 * SIMULATED.len());
        assert!(report.counts.iter().all(|counts| counts.total() == 400));
    }
}
