//! E1, E2 and E3 of the Pastry paper: how many hops a message takes, and how far it travels.

use std::collections::BTreeSet;

use crate::lab::params::{BASE, LEAF_SET, LOOKUPS, NEIGHBOURHOOD, NETWORK, NODES, OWNERSHIP, ROUNDS, SPARES};
use crate::lab::ring::{Routes, entries};
use crate::lab::{Halt, Lab, Scenario};
use crate::model::Model;
use crate::report::{Axis, Figure, Plot, Ring, Role, Series, Shape, Table, Want};
use crate::world::World;

/// See the module.
pub(super) const PASTRY_HOPS: Scenario = Scenario {
    name: "pastry-hops",
    about: "hops per message against the size of the ring, and their distribution",
    anchor: "Pastry (Middleware 2001), experiments E1 and E2: 1,000 to 100,000 nodes, b=4, L=16, M=32, 200,000 \
             messages between random pairs",
    params: &[
        (NODES, "100000"),
        (LOOKUPS, "200000"),
        (ROUNDS, "5"),
        (BASE, "4"),
        (LEAF_SET, "16"),
        (NEIGHBOURHOOD, "32"),
        (SPARES, "0"),
        (NETWORK, "plane"),
        (OWNERSHIP, "hint"),
    ],
    run: |lab| sizes(lab, Focus::Hops),
};

/// E3: the same runs, seen from how far messages travel.
pub(super) const PASTRY_DISTANCE: Scenario = Scenario {
    name: "pastry-distance",
    about: "distance messages travel against the distance a complete routing table would take",
    anchor: "Pastry (Middleware 2001), experiment E3: the set-up of E1; sum of the hops' distances over the distance \
             between the ends",
    params: PASTRY_HOPS.params,
    run: |lab| sizes(lab, Focus::Distance),
};

#[derive(Clone, Copy, PartialEq)]
enum Focus {
    Hops,
    Distance,
}

/// The paper's bars for 100,000 nodes: which part of the messages takes so many hops.
const PAPER_BARS: [(u64, f64); 6] =
    [(1, 0.0006), (2, 0.0156), (3, 0.1643), (4, 0.6449), (5, 0.1745), (6, 0.0)];

/// How many messages are routed through the model: enough for two digits after the point, few enough to take seconds.
fn modelled(nodes: usize) -> usize {
    (2_000_000_000 / nodes.max(1)).clamp(2_000, 20_000)
}

fn sizes(lab: &mut Lab<'_>, focus: Focus) -> Result<(), Halt> {
    let most = lab.count(NODES);
    let mut sizes: Vec<usize> = [1_000, 10_000, 100_000].into_iter().filter(|size| *size < most).collect();
    sizes.push(most);
    let columns: &[&str] = match focus {
        Focus::Hops => &["nodes", "mean hops", "p50", "p99", "max", "log N", "entries", "lost", "wrong"],
        Focus::Distance => &["nodes", "distance", "mean of ratios", "mean hops", "entries", "lost", "wrong"],
    };
    let title = match focus {
        Focus::Hops => "Hops by size of the ring",
        Focus::Distance => "Distance relative to a complete routing table",
    };
    lab.report.tables.push(Table {
        title: title.to_owned(),
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        rows: Vec::new(),
    });
    lab.report.plots.push(curve(focus));
    for nodes in sizes {
        let mut world = lab.world()?;
        lab.grow(&mut world, nodes)?;
        let rounds = lab.count(ROUNDS);
        lab.rounds(&mut world, rounds)?;
        let name = format!("hops of messages among {nodes} nodes");
        let lookups = lab.count(LOOKUPS);
        let routes = lab.routes(&mut world, &name, lookups)?;
        lab.keep(&format!("{nodes} nodes"), &world);
        tell(lab, focus, &world, &routes, nodes == most);
    }
    Ok(())
}

fn tell(lab: &mut Lab<'_>, focus: Focus, world: &World, routes: &Routes, last: bool) {
    let nodes = world.len();
    let base = lab.count(BASE);
    let levels = (nodes as f64).log2() / base as f64;
    let (mean, distance) = (routes.hops.mean(), routes.distance());
    let entries = entries(world);
    let lost = [routes.lost.to_string(), routes.wrong.to_string()];
    let mut row = vec![nodes.to_string()];
    match focus {
        Focus::Hops => {
            let quantile = |part| routes.hops.quantile(part).to_string();
            row.extend([format!("{mean:.3}"), quantile(0.5), quantile(0.99), quantile(1.0)]);
            row.extend([format!("{levels:.2}"), format!("{entries:.1}")]);
        }
        Focus::Distance => {
            row.extend([format!("{distance:.3}"), format!("{:.3}", routes.mean_ratio())]);
            row.extend([format!("{mean:.3}"), format!("{entries:.1}")]);
        }
    }
    row.extend(lost);
    if let Some(table) = lab.report.tables.last_mut() {
        table.rows.push(row);
    }
    if let Some(plot) = lab.report.plots.first_mut() {
        plot.series[0].points.push((nodes as f64, if focus == Focus::Hops { mean } else { distance }));
        if focus == Focus::Hops {
            plot.series[1].points.push((nodes as f64, levels));
        }
    }
    lab.report.counts.push(routes.hops.clone());
    if last {
        conclude(lab, focus, world, routes, entries);
    }
}

/// The figures of the largest ring.
fn conclude(lab: &mut Lab<'_>, focus: Focus, world: &World, routes: &Routes, entries: f64) {
    let (nodes, b, leaf_set) = (world.len(), lab.count(BASE), lab.count(LEAF_SET));
    // The same nodes in the same places with perfect tables.
    let limit = Model::of(world).routes("hops with perfect tables", modelled(nodes), lab.seed);
    // The bars are the paper's only in the paper's own set-up.
    let paper = nodes == 100_000 && b == 4 && leaf_set == 16 && lab.params.text(NETWORK).starts_with("plane");
    let mut hops = Figure::new("mean hops", routes.hops.mean(), 3, "hops").limit(limit.hops.mean());
    let mut distance = Figure::new("relative distance", routes.distance(), 3, "").limit(limit.distance());
    lab.report.counts.push(limit.hops);
    if paper {
        hops = hops.paper(3.98).want(Want::Between(3.96, 4.0));
        distance = distance.want(Want::Between(1.3, 1.4));
    }
    // What more state than in 2001 should bring.
    match (nodes, b, leaf_set) {
        (100_000, 8, 256) => hops.want = Some(Want::AtMost(2.25)),
        (1_000_000, 8, 64) => hops.want = Some(Want::AtMost(2.95)),
        (100_000, 4, 256) => distance.want = Some(Want::AtMost(1.18)),
        _ => {}
    }
    let quantile = |part| routes.hops.quantile(part);
    lab.report.remarks.push(format!(
        "mean {:.2} hops, p50 {}, p99 {}, max {}, among {nodes} nodes",
        routes.hops.mean(),
        quantile(0.5),
        quantile(0.99),
        quantile(1.0),
    ));
    lab.report.figures.push(hops);
    lab.report.figures.push(distance);
    if focus == Focus::Hops {
        let most = routes.hops.quantile(1.0).max(6);
        let mut series =
            vec![Series { name: "Kringle".to_owned(), role: Role::Ours, points: routes.hops.bars(1..=most) }];
        if paper {
            let points = PAPER_BARS.iter().map(|(hops, share)| (*hops as f64, *share)).collect();
            series.push(Series { name: "Pastry 2001".to_owned(), role: Role::Paper, points });
            for (hops, share) in PAPER_BARS {
                let bar = Figure::new(format!("share of {hops} hops"), routes.hops.share(hops), 4, "");
                let want = Want::Between((share - 0.005).max(0.0), share + 0.005);
                lab.report.figures.push(bar.paper(share).want(want));
            }
        }
        lab.report.plots.push(Plot {
            name: "distribution".to_owned(),
            title: format!("Hops per message, {nodes} nodes, b={b}, L={leaf_set}"),
            shape: Shape::Bars,
            x: Axis { label: "hops".to_owned(), log: false },
            y: Axis { label: "share of messages".to_owned(), log: false },
            series,
        });
    }
    lab.report.figures.push(Figure::new("entries per node", entries, 1, ""));
    lab.tell_state(world);
    let count = |name: &str, count: u64| Figure::new(name, count as f64, 0, "").want(Want::AtMost(0.0));
    lab.report.figures.push(count("messages lost", routes.lost));
    lab.report.figures.push(count("messages to the wrong node", routes.wrong));
    let others = lab.report.worlds.split_last().map_or(0, |(largest, smaller)| {
        smaller.iter().map(|ring| kinds(ring).symmetric_difference(&kinds(largest)).count()).sum::<usize>()
    });
    // No light twin: what nodes say to each other does not depend on how many there are.
    lab.report.figures.push(count("kinds of messages that not all sizes have", others as u64));
}

/// The kinds of messages that occurred in a ring.
fn kinds(ring: &Ring) -> BTreeSet<&str> {
    ring.messages.iter().filter(|(_, count)| **count > 0).map(|(kind, _)| kind.as_str()).collect()
}

fn curve(focus: Focus) -> Plot {
    let series = |name: &str, role, points: &[(f64, f64)]| Series {
        name: name.to_owned(),
        role,
        points: points.to_vec(),
    };
    let (name, title, label, series) = match focus {
        Focus::Hops => (
            "hops",
            "Hops per message against the size of the ring",
            "mean hops",
            vec![series("Kringle", Role::Ours, &[]), series("log N", Role::Limit, &[])],
        ),
        Focus::Distance => (
            "distance",
            "Distance relative to a complete routing table",
            "distance travelled / direct distance",
            vec![
                series("Kringle", Role::Ours, &[]),
                // Read off the paper's figure: 1.3 to 1.4 for all sizes.
                series("Pastry 2001, upper end", Role::Paper, &[(1e3, 1.4), (1e5, 1.4)]),
                series("Pastry 2001, lower end", Role::Paper, &[(1e3, 1.3), (1e5, 1.3)]),
            ],
        ),
    };
    Plot {
        name: name.to_owned(),
        title: title.to_owned(),
        shape: Shape::Lines,
        x: Axis { label: "nodes".to_owned(), log: true },
        y: Axis { label: label.to_owned(), log: false },
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use crate::report::Report;

    #[test]
    fn bars_and_means_can_be_computed_again_from_the_json() {
        let report = run(&PASTRY_HOPS, &[("nodes", "400"), ("lookups", "3000"), ("rounds", "2")]);
        let read = Report::from_json(&report.to_json()).unwrap();
        let raw =
            read.counts.iter().find(|counts| counts.name == "hops of messages among 400 nodes").unwrap();
        let (total, sum) =
            raw.counts.iter().fold((0, 0), |(total, sum), (hops, count)| (total + count, sum + hops * count));
        assert_eq!(total, 3000);
        let mean = read.figures.iter().find(|figure| figure.name == "mean hops").unwrap();
        assert!((mean.ours - sum as f64 / total as f64).abs() < 1e-12);
        let bars = &read.plots.iter().find(|plot| plot.name == "distribution").unwrap().series[0].points;
        for (hops, share) in bars {
            let count = raw.counts.get(&(*hops as u64)).copied().unwrap_or_default();
            assert!((share - count as f64 / total as f64).abs() < 1e-12, "{hops} hops");
        }
        assert!((bars.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(read.to_markdown().contains(&format!("| mean hops | {:.3} hops |", mean.ours)));
    }

    #[test]
    fn a_small_ring_is_as_good_as_perfect_tables() {
        let report = run(&PASTRY_DISTANCE, &[("nodes", "500"), ("lookups", "4000"), ("rounds", "5")]);
        for (name, slack) in [("mean hops", 0.03), ("relative distance", 0.06)] {
            let figure = report.figures.iter().find(|figure| figure.name == name).unwrap();
            assert!((figure.ours - figure.limit.unwrap()).abs() < slack, "{name}: {figure:?}");
        }
        assert!(report.figures.iter().all(|figure| figure.met() != Some(false)));
    }
}
