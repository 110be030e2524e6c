//! E5 of the Pastry paper: how good the routing tables are that joins leave behind.

use kringle_core::config::Settings;
use kringle_core::message::BodyKind;
use kringle_core::overlay::pastry::router::Router;

use super::UNDISTURBED;
use crate::lab::params::{BASE, LEAF_SET, NEIGHBOURHOOD, NETWORK, NODES, OWNERSHIP, ROUNDS, SPARES};
use crate::lab::ring::routers;
use crate::lab::traffic::Traffic;
use crate::lab::{Halt, Lab, Scenario};
use crate::model::Model;
use crate::report::{Axis, Figure, Histogram, Plot, Role, Series, Shape, Table, Want};
use crate::world::World;

/// See the module.
pub(super) const PASTRY_TABLES: Scenario = Scenario {
    name: "pastry-tables",
    about: "routing-table entries that are missing or not the nearest, by level",
    anchor: "Pastry (Middleware 2001), experiment E5: 5,000 nodes join one by one, b=4, L=16, M=32; levels 0 to 3",
    params: &[
        (NODES, "5000"),
        (ROUNDS, "8"),
        (BASE, "4"),
        (LEAF_SET, "16"),
        (NEIGHBOURHOOD, "32"),
        (SPARES, "0"),
        (NETWORK, "plane"),
        (OWNERSHIP, "hint"),
    ],
    run,
};

/// Levels that are looked at, as in the paper.
const LEVELS: u8 = 4;
/// How many nodes join between two looks at the clock.
const STEP: usize = 50;

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, rounds) = (lab.count(NODES), lab.count(ROUNDS));
    let mut world = lab.world_of(Settings { heartbeat: UNDISTURBED, ..lab.settings() })?;
    while world.len() < nodes {
        lab.progress("nodes join one by one", world.len() as f64 / nodes as f64)?;
        world.grow(STEP.min(nodes - world.len()));
    }
    world.run_for(super::AFTERMATH);
    let joins = Traffic::since(&Default::default(), &world.tally);
    lab.report.tables.push(Table {
        title: "Entries that are missing or not the nearest, per node".to_owned(),
        columns: [
            "",
            "level 0",
            "level 1",
            "level 2",
            "level 3",
            "mean",
            "missing",
            "overlooked",
            "messages per node",
            "pings",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: Vec::new(),
    });
    let model = Model::of(&world);
    let mut stages = vec![stage(lab, &world, &model, "after the joins", &joins)];
    for round in 1..=rounds {
        let before = world.tally.clone();
        lab.rounds(&mut world, 1)?;
        let name = format!("after round {round}");
        stages.push(stage(lab, &world, &model, &name, &Traffic::since(&before, &world.tally)));
    }
    lab.keep(&format!("{nodes} nodes"), &world);
    conclude(lab, &stages, &joins, nodes);
    Ok(())
}

/// What was found at one moment: entries that could be better, per node, by level.
struct Stage {
    name: String,
    levels: Vec<f64>,
}

impl Stage {
    fn mean(&self) -> f64 {
        self.levels.iter().sum::<f64>() / self.levels.len().max(1) as f64
    }
}

/// Looks at all tables, and writes down what it finds with what it took to get there.
fn stage(lab: &mut Lab<'_>, world: &World, model: &Model, name: &str, traffic: &Traffic) -> Stage {
    let mut counts: Vec<Histogram> = (0..LEVELS)
        .map(|level| Histogram::new(format!("entries not optimal per node at level {level}, {name}")))
        .collect();
    let (mut missing, mut overlooked) = (0, 0);
    for (_, router) in routers(world) {
        for (level, counts) in counts.iter_mut().enumerate() {
            let flaws = flaws(router, model, level as u8);
            missing += flaws.missing;
            overlooked += flaws.overlooked;
            counts.add(flaws.missing + flaws.farther);
        }
    }
    let nodes = model.members().len() as f64;
    let stage = Stage { name: name.to_owned(), levels: counts.iter().map(Histogram::mean).collect() };
    let pings = traffic.of(&[BodyKind::Ping, BodyKind::Pong]);
    let mut row = vec![name.to_owned()];
    row.extend(stage.levels.iter().map(|level| format!("{level:.3}")));
    row.extend([format!("{:.3}", stage.mean()), format!("{:.4}", missing as f64 / nodes)]);
    row.push(format!("{:.3}", overlooked as f64 / nodes));
    row.extend([traffic.requests_and_replies(), pings].map(|count| format!("{:.1}", count / nodes)));
    if let Some(table) = lab.report.tables.last_mut() {
        table.rows.push(row);
    }
    lab.report.counts.extend(counts);
    stage
}

/// What is wrong with a row.
#[derive(Debug, Default, PartialEq)]
struct Flaws {
    /// Cells that are empty though somebody fits.
    missing: u64,
    /// Cells whose holder is not the nearest of those who fit.
    farther: u64,
    /// Those of both kinds of which the nearest is a leaf or a spare: known, and still not the holder.
    overlooked: u64,
}

fn flaws(router: &Router, model: &Model, row: u8) -> Flaws {
    let (me, table) = (router.me(), router.table());
    let mut flaws = Flaws::default();
    for column in 0..table.base().columns() {
        let column = column as u8;
        if me.id.digit(row, table.base()) == Some(column) {
            continue;
        }
        let Some((nearest, best)) = model.holder(me, row, column) else { continue };
        match table.cell(row, column).next() {
            None => flaws.missing += 1,
            Some(holder) if model.distance(me, holder.contact) > best => flaws.farther += 1,
            Some(_) => continue,
        }
        flaws.overlooked += u64::from(router.get_routed(nearest.id).is_some());
    }
    flaws
}

fn conclude(lab: &mut Lab<'_>, stages: &[Stage], joins: &Traffic, nodes: usize) {
    let (Some(first), Some(last)) = (stages.first(), stages.last()) else { return };
    let per_join = |count: f64| count / nodes as f64;
    let series = |stage: &Stage| Series {
        name: format!("Kringle, {}", stage.name),
        role: Role::Ours,
        points: stage.levels.iter().enumerate().map(|(level, mean)| (level as f64, *mean)).collect(),
    };
    let mut bars = vec![series(first)];
    if stages.len() > 1 {
        bars.push(series(last));
    }
    let bound = (0..LEVELS).map(|level| (f64::from(level), 1.0)).collect();
    bars.push(Series { name: "Pastry 2001 stays below".to_owned(), role: Role::Paper, points: bound });
    let (b, leaf_set) = (lab.count(BASE), lab.count(LEAF_SET));
    lab.report.plots.push(Plot {
        name: "levels".to_owned(),
        title: format!("Entries that could be better, {nodes} nodes, b={b}, L={leaf_set}"),
        shape: Shape::Bars,
        x: Axis { label: "level of the routing table".to_owned(), log: false },
        y: Axis { label: "entries per node".to_owned(), log: false },
        series: bars,
    });
    let figure = |name: &str, ours: f64, digits: u8| Figure::new(name, ours, digits, "entries");
    let messages = |name: &str, count: f64| Figure::new(name, per_join(count), 1, "messages");
    lab.report.figures.extend([
        figure("not optimal per level, at the end", last.mean(), 3)
            .paper(1.0)
            .limit(0.0)
            .want(Want::AtMost(0.5)),
        figure("not optimal per level, after the joins", first.mean(), 3).paper(1.0).limit(0.0),
        messages("requests and replies per join", joins.requests_and_replies()),
        messages("acknowledgements per join", joins.of(&[BodyKind::HopAck])),
        messages("pings and their answers per join", joins.of(&[BodyKind::Ping, BodyKind::Pong])),
    ]);
    let remarks = [
        "the paper says \"less than one per level\" for its best method (WTF) and gives no other numbers; 1.0 stands for \
         that bound",
        "means are over the levels and over all nodes; a cell counts if some node fits it and it is empty, or its holder is \
         not the nearest that fits",
        "missing, of all levels together: empty though somebody fits; overlooked: the nearest that fits is a leaf or a spare and \
         still does not hold the cell",
        "messages per join are the mean over all joins, from the first node on; heartbeats are off, nobody dies",
        "the paper has no maintenance rounds here: compare its number with the row after the joins",
    ];
    lab.report.remarks.extend(remarks.map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use kringle_core::contact::Proximity;
    use kringle_core::overlay::pastry::leaf_set::Source;

    use super::*;
    use crate::scenarios::tests::{figure, run};

    #[test]
    fn perfect_tables_have_no_flaws_and_a_removed_holder_is_one() {
        let mut world = World::new(Settings::lab(), 1);
        world.network.topology = crate::network::Topology::parse("plane", 1).unwrap();
        world.grow_together(100, |_| true);
        let model = Model::of(&world);
        let me = model.members()[17];
        let mut router = Router::new(me, world.config());
        for node in model.holders(me, 0) {
            let proximity = Proximity(model.distance(me, node).as_micros() as u32);
            router.add(node, proximity, Source::Elsewhere, world.config());
        }
        assert!((0..LEVELS).all(|row| flaws(&router, &model, row) == Flaws::default()));
        // Another node that fits takes the cell of the nearest one, which is farther; nobody takes it: that is missing.
        let column = if me.id.digit(0, world.config().base) == Some(0) { 1 } else { 0 };
        let (holder, best) = model.holder(me, 0, column).unwrap();
        router.remove(holder.id);
        assert_eq!(flaws(&router, &model, 0), Flaws { missing: 1, ..Flaws::default() });
        let fitting = model.fitting(me.id, 0, column);
        let other = fitting.iter().find(|node| model.distance(me, **node) > best).unwrap();
        router.add(*other, Proximity(1), Source::Elsewhere, world.config());
        assert_eq!(flaws(&router, &model, 0), Flaws { farther: 1, ..Flaws::default() });
    }

    #[test]
    fn rounds_of_upkeep_leave_fewer_flaws_than_joins_do() {
        let report = run(&PASTRY_TABLES, &[("nodes", "250"), ("rounds", "2")]);
        let first = figure(&report, "not optimal per level, after the joins");
        let last = figure(&report, "not optimal per level, at the end");
        assert!(last <= first && last < 1.0, "{first} after the joins, {last} at the end");
        assert_eq!(report.counts.len(), 3 * usize::from(LEVELS));
        assert!(report.counts.iter().all(|counts| counts.total() == 250));
        let mean: f64 = report.counts[..4].iter().map(Histogram::mean).sum::<f64>() / 4.0;
        assert!((mean - first).abs() < 1e-9, "the figure can be computed from the counts");
    }
}
