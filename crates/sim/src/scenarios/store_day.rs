//! A day in the life of a store: nodes come and go all the time, and nothing acknowledged is lost.
//!
//! Every node stays for an exponentially long session. Half of them say goodbye, the others die. With `--dead 0` all of
//! them come back with their disks within ten minutes; with more, that part of them never does, and a new node comes
//! instead. Clients write and read all day, and read everything once more in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::Command;
use kringle_core::overlay::Status;
use kringle_core::time::Time;

use crate::lab::params::{DEAD, DURATION, NODES, REPLICAS, SESSION};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Figure, Want};
use crate::store_chaos::{STORE, Summary, judge};
use crate::store_load::{Load, LoadSetUp, OwnStore, Sweep};
use crate::world::{DiskOptions, World};

/// See the module.
pub(super) const STORE_DAY: Scenario = Scenario {
    name: "store-day",
    about: "nodes come and go for a day while clients use the store: nothing acknowledged is lost",
    anchor: "",
    params: &[(NODES, "1000"), (DURATION, "24h"), (SESSION, "47m"), (REPLICAS, "3"), (DEAD, "0")],
    run,
};

/// Within how long whoever left is back.
const AWAY: Duration = Duration::from_secs(600);
/// How often it is looked at which slots can be used.
const LOOK: Duration = Duration::from_secs(10);
/// How long everything may take to come to rest in the end.
const REST: Duration = Duration::from_secs(300);
/// Keeps comings and goings apart from other things drawn from the same seed.
const DAY: u64 = 17 << 40;

/// What happens next to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It dies.
    Die,
    /// It says goodbye.
    Leave,
    /// It is back.
    Return,
}

struct Day {
    dice: SeededDice,
    session: Duration,
    dead_percent: f64,
    plan: BTreeMap<(Time, u32), Next>,
    /// Nodes that said goodbye and are not gone yet.
    leaving: Vec<u32>,
    counts: BTreeMap<&'static str, u64>,
    looked: Time,
    /// Seconds of single slots without a quorum that serves.
    unavailable: f64,
    worst: usize,
}

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, copies) = (lab.count(NODES), lab.count(REPLICAS));
    if nodes <= copies {
        return Err(Halt::Impossible(format!("--nodes: {nodes} is too few for {copies} copies")));
    }
    // As many as the product has, unless there would be far more of them for each node than in a large ring.
    let slots = (nodes * 16).next_power_of_two().clamp(64, 4096) as u32;
    let settings = Settings { replicas: copies as u8, slots, ..Settings::default() };
    let mut world = World::new(settings, lab.seed).with_store(STORE, DiskOptions::default());
    // What nodes check of themselves is checked by store-chaos; here it would be most of the work.
    world.check = false;
    let mut going = Ok(());
    world.grow_together(nodes, |world| {
        going = lab.progress("nodes join", world.len() as f64 / nodes as f64);
        going.is_ok()
    });
    going?;
    let think = LoadSetUp { per_key: 100, think: Duration::from_secs(2), ..LoadSetUp::default() };
    let mut load = Load::new(lab.seed, think);
    let mut day = Day {
        dice: SeededDice::derive(lab.seed ^ DAY, 0),
        session: lab.params.span(SESSION),
        dead_percent: lab.params.real(DEAD),
        plan: BTreeMap::new(),
        leaving: Vec::new(),
        counts: BTreeMap::new(),
        looked: world.now(),
        unavailable: 0.0,
        worst: 0,
    };
    for node in 0..nodes as u32 {
        day.stays(node, world.now());
    }
    let (start, span) = (world.now(), lab.params.span(DURATION));
    let end = start.after(span);
    while world.now() < end {
        lab.progress("the day", world.now().since(start).as_secs_f64() / span.as_secs_f64())?;
        day.happens(&mut world);
        let next = day.plan.keys().next().map_or(end, |(at, _)| *at).min(end);
        let span = next.since(world.now()).min(LOOK);
        load.run(&mut world, &mut OwnStore, span);
        day.look(&world);
    }
    day.everybody_returns(&mut world);
    let rest = world.now().after(REST);
    while world.now() < rest && unusable(&world) > 0 {
        load.run(&mut world, &mut OwnStore, Duration::from_secs(1));
    }
    let rested = unusable(&world);
    let read = load.sweep(&mut world, &mut OwnStore, Sweep::Read, REST);
    let mut summary = Summary::default();
    let judged = judge(load.history(), &Default::default(), &mut summary);
    lab.keep("store-day", &world);
    let report = &mut lab.report;
    let lost = f64::from(u8::from(judged.is_err()));
    report.figures.push(Figure::new("violations", lost, 0, "").want(Want::AtMost(0.0)));
    let unread = f64::from(u8::from(read.is_err()));
    report
        .figures
        .push(Figure::new("keys that can not be read in the end", unread, 0, "").want(Want::AtMost(0.0)));
    let seconds = f64::from(world.config().slots) * span.as_secs_f64();
    let figures = [
        ("acknowledged writes looked for", summary.ledger.acked as f64, 0, ""),
        ("operations", summary.operations.values().sum::<u64>() as f64, 0, ""),
        ("operations that failed", summary.operations.get("failed").copied().unwrap_or(0) as f64, 0, ""),
        (
            "operations that failed and may have happened",
            summary.operations.get("failed, may have happened").copied().unwrap_or(0) as f64,
            0,
            "",
        ),
        ("deaths", day.count("deaths"), 0, ""),
        ("goodbyes", day.count("goodbyes"), 0, ""),
        ("gone for good", day.count("gone for good"), 0, ""),
        ("slot-seconds unavailable", day.unavailable, 0, "s"),
        ("part of all slot-seconds", day.unavailable / seconds * 1e6, 1, "millionths"),
        ("slots unavailable at the worst moment", day.worst as f64, 0, ""),
        ("slots unavailable in the end", rested as f64, 0, ""),
        ("events", world.handled() as f64, 0, ""),
    ];
    report.figures.extend(figures.map(|(name, value, digits, unit)| Figure::new(name, value, digits, unit)));
    judged.map_err(|(invariant, text)| Halt::Broken(format!("{}: {text}", invariant.name())))?;
    read.map_err(Halt::Broken)
}

impl Day {
    fn count(&self, what: &str) -> f64 {
        self.counts.get(what).copied().unwrap_or(0) as f64
    }

    fn counts(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Draws how a session ends, and when.
    fn stays(&mut self, node: u32, now: Time) {
        let unit = (self.dice.roll() >> 11) as f64 / (1u64 << 53) as f64;
        let session = self.session.mul_f64(-(1.0 - unit).ln());
        let next = if self.dice.below(2) == 0 { Next::Die } else { Next::Leave };
        self.plan.insert((now.after(session), node), next);
    }

    /// Lets happen what is due.
    fn happens(&mut self, world: &mut World) {
        let gone =
            |world: &World, node: u32| world.node(node).is_none_or(|node| node.status() == Status::Out);
        for node in self.leaving.extract_if(.., |node| gone(world, *node)).collect::<Vec<u32>>() {
            world.crash(node);
            self.is_away(world, node);
        }
        while let Some(((at, node), next)) = self.plan.first_key_value().map(|(key, next)| (*key, *next))
            && at <= world.now()
        {
            self.plan.remove(&(at, node));
            let ready = world.node(node).is_some_and(|node| node.status() == Status::Ready);
            match next {
                Next::Leave if ready => {
                    self.counts("goodbyes");
                    world.command(node, Command::Leave);
                    self.leaving.push(node);
                }
                // Whoever is not in the ring yet has nobody to say goodbye to.
                Next::Die | Next::Leave => {
                    self.counts("deaths");
                    world.crash(node);
                    self.is_away(world, node);
                }
                Next::Return => {
                    world.restart(node);
                    let seeds = self.seeds(world);
                    world.command(
                        node,
                        Command::Rejoin { seeds: seeds.iter().map(|seed| world.contact(*seed)).collect() },
                    );
                    self.stays(node, world.now());
                }
            }
        }
    }

    /// A node is away: it comes back, or another does instead.
    fn is_away(&mut self, world: &mut World, node: u32) {
        if (self.dice.below(10_000) as f64) < self.dead_percent * 100.0 {
            self.counts("gone for good");
            let (joiner, seeds) = (world.spawn_random(), self.seeds(world));
            world.join(joiner, &seeds);
            self.stays(joiner, world.now());
        } else {
            let away = Duration::from_millis(self.dice.below(AWAY.as_millis() as usize) as u64);
            self.plan.insert((world.now().after(away), node), Next::Return);
        }
    }

    /// Draws nodes to join through.
    fn seeds(&mut self, world: &World) -> Vec<u32> {
        let ready: Vec<u32> = world.ready().map(|(node, _)| node).collect();
        (0..3.min(ready.len())).map(|_| ready[self.dice.below(ready.len())]).collect()
    }

    /// Adds up what can not be used.
    fn look(&mut self, world: &World) {
        let since = world.now().since(self.looked);
        if since < LOOK {
            return;
        }
        self.looked = world.now();
        let stuck = unusable(world);
        self.worst = self.worst.max(stuck);
        self.unavailable += stuck as f64 * since.as_secs_f64();
    }

    /// The day is over: whoever is away and not gone for good comes back.
    fn everybody_returns(&mut self, world: &mut World) {
        for node in std::mem::take(&mut self.leaving) {
            world.run_until(Duration::from_secs(60), |world| {
                world.node(node).is_none_or(|node| node.status() == Status::Out)
            });
            world.crash(node);
            self.is_away(world, node);
        }
        let plan = std::mem::take(&mut self.plan);
        for (_, node) in plan.into_iter().filter(|(_, next)| *next == Next::Return).map(|(key, _)| key) {
            world.restart(node);
            let seeds = self.seeds(world).iter().map(|seed| world.contact(*seed)).collect();
            world.command(node, Command::Rejoin { seeds });
        }
    }
}

/// Counts the slots of which no quorum of the newest view serves.
fn unusable(world: &World) -> usize {
    // By slot: the newest epoch, its quorum, and how many of its members serve.
    let mut slots = vec![(0u64, 0usize, 0usize); world.config().slots as usize];
    for store in
        world.running().filter(|(node, _)| !world.is_paused(*node)).filter_map(|(_, node)| node.store())
    {
        for (slot, view, serves) in store.views() {
            let entry = &mut slots[slot as usize];
            if view.epoch > entry.0 {
                *entry = (view.epoch, view.quorum(), 0);
            }
            if view.epoch == entry.0 && serves {
                entry.2 += 1;
            }
        }
    }
    slots.iter().filter(|(_, quorum, serving)| serving < quorum || *quorum == 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::tests::{figure, run};

    #[test]
    fn an_hour_of_comings_and_goings_loses_nothing() {
        let given = [("nodes", "20"), ("duration", "20m"), ("session", "10m")];
        let report = run(&STORE_DAY, &given);
        assert!(figure(&report, "deaths") > 5.0 && figure(&report, "goodbyes") > 5.0);
        assert!(figure(&report, "acknowledged writes looked for") > 100.0);
        assert_eq!(figure(&report, "slots unavailable in the end"), 0.0);
    }

    #[test]
    fn with_five_copies_nodes_may_go_for_good() {
        let given =
            [("nodes", "20"), ("duration", "20m"), ("session", "10m"), ("replicas", "5"), ("dead", "90")];
        let report = run(&STORE_DAY, &given);
        assert!(figure(&report, "gone for good") > 10.0);
        assert_eq!(figure(&report, "keys that can not be read in the end"), 0.0);
    }
}
