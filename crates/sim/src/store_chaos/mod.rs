//! The store while everything goes wrong, and afterwards.
//!
//! Two phases, as in [`crate::chaos`]. In the first, the seed draws faults: of the network, of nodes, of disks and of
//! clocks, while clients write, read and count. In the second all faults end: within a deadline every key there has been
//! must be readable and writable again. Then everything the clients saw, from the first moment to the last, is judged by
//! the checkers of [`crate::history`].
//!
//! What the store promises to survive is limited, so the faults are. Every bound stands at its fault, in `faults.rs`.
//! [`SetUp::drawn`] draws the size of the cluster, too: one node to twelve. [`hunt`] runs many seeds.

mod faults;
pub mod hunt;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kringle_core::config::{Config, OverlayKind, Ownership, Safeguard, Settings};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::node::Node;
use kringle_core::overlay::Status;
use kringle_core::records::Records;
use kringle_core::store::Store;
use kringle_core::time::Time;

use self::faults::Faults;
pub use crate::chaos::Phase;
use crate::history::{Effect, Finding, Operation, Outcome, Rules, ledger, monotone, register, set};
use crate::store_load::{Desk, Load, LoadSetUp, OwnStore, Sweep};
use crate::world::{DiskOptions, StoreMaker, World};

/// Gives the nodes of the scenario their store.
pub const STORE: StoreMaker = with_store;

/// The rules of the store that can be left out (feature `mutants`). For each there must be a seed that misses it. What
/// happens without `start-over` or `catch-up` is too rare for seeds; the model in `kringle-check` shows it.
pub const SAFEGUARDS: &[Safeguard] = &[
    Safeguard::Freeze,
    Safeguard::Settle,
    Safeguard::SyncFirst,
    Safeguard::Promises,
    Safeguard::ReadRepair,
    Safeguard::Born,
    Safeguard::ClusterTime,
];

fn with_store(node: Node, born: u32, records: &dyn Records, config: &Config) -> Node {
    let store = Store::open(node.me(), born, records, config);
    node.with_store(store)
}

/// What a run is made of, besides its seed.
#[derive(Clone, Debug)]
pub struct SetUp {
    /// Nodes at the start.
    pub nodes: usize,
    /// How long things go wrong.
    pub duration: Duration,
    /// The clients.
    pub load: LoadSetUp,
    /// How nodes get their store.
    pub make: StoreMaker,
    /// Which overlay the store stands on.
    pub overlay: OverlayKind,
    /// What disks are like.
    pub disks: DiskOptions,
    /// After how long a change of unknown outcome must not replace an acknowledged one: see [`Rules::late`].
    pub late: Option<Duration>,
    /// Faults that are not drawn, by name: see [`fault_names`].
    pub leave_out: Vec<&'static str>,
    /// How long the ring may take until every node is ready, once everything is well.
    pub ring_deadline: Duration,
    /// How long it may then take until every key can be read and written.
    pub deadline: Duration,
    /// For tests: a rule left out (feature `mutants`).
    pub without: Option<Safeguard>,
    /// For tests: other settings than those drawn.
    pub adjust: Option<fn(Settings) -> Settings>,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// What each node checks itself.
    NodeRules,
    /// What was acknowledged is there.
    Ledger,
    /// What happened to a key has an order.
    Order,
    /// Sets lose nothing and revive nothing.
    Sets,
    /// No read is older than one before it.
    Monotone,
    /// Every question is answered, by a node that is there.
    Answers,
    /// Every node becomes ready when all is well.
    Ready,
    /// Every key can be read and written when all is well.
    Alive,
    /// The order of what happened to every key can be told.
    Decided,
}

/// What happened in a run that ended well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Inputs that nodes handled.
    pub events: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Operations by what came of them.
    pub operations: BTreeMap<&'static str, u64>,
    /// Keys there have been.
    pub keys: usize,
    /// What became of the writes.
    pub ledger: ledger::Ledger,
    /// Keys whose operations were put in order.
    pub order: register::Looked,
    /// Values looked for in sets.
    pub sets: u64,
    /// Reads compared with those before.
    pub reads: u64,
    /// How long the nodes took to be ready once all was well.
    pub ready_after: Duration,
    /// How long after that every key had been read, written and read again.
    pub alive_after: Duration,
    /// Running nodes at the end.
    pub nodes: usize,
    /// A hash of everything that happened in the world.
    pub trace: u64,
}

/// Something that must hold and did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed of the run.
    pub seed: u64,
    /// When, in the run's own order.
    pub phase: Phase,
    /// What was broken.
    pub invariant: Invariant,
    /// When, in simulated time.
    pub time: Time,
    /// What was seen.
    pub description: String,
    /// The command that shows it again.
    pub replay: String,
}

/// What was broken, and how.
type Broken = (Invariant, String);

impl Invariant {
    /// All of them.
    pub const ALL: [Invariant; 9] = [
        Invariant::NodeRules,
        Invariant::Ledger,
        Invariant::Order,
        Invariant::Sets,
        Invariant::Monotone,
        Invariant::Answers,
        Invariant::Ready,
        Invariant::Alive,
        Invariant::Decided,
    ];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Invariant::NodeRules => "node-rules",
            Invariant::Ledger => "ledger",
            Invariant::Order => "order",
            Invariant::Sets => "sets",
            Invariant::Monotone => "monotone",
            Invariant::Answers => "answers",
            Invariant::Ready => "ready",
            Invariant::Alive => "alive",
            Invariant::Decided => "decided",
        }
    }
}

impl SetUp {
    /// So many nodes, in trouble for so long.
    pub fn new(nodes: usize, duration: Duration) -> SetUp {
        SetUp {
            nodes,
            duration,
            load: LoadSetUp::default(),
            overlay: OverlayKind::Pastry,
            make: STORE,
            disks: DiskOptions { leaves_some: true, ..DiskOptions::default() },
            late: Some(CLOCK_AHEAD),
            leave_out: Vec::new(),
            ring_deadline: Duration::from_secs(180),
            deadline: Duration::from_secs(60),
            without: None,
            adjust: None,
        }
    }

    /// As many nodes as the seed says, one to twelve, in trouble for so long.
    pub fn drawn(seed: u64, duration: Duration) -> SetUp {
        SetUp::new(1 + SeededDice::derive(seed ^ CHAOS, 1).below(NODES_MAX), duration)
    }

    /// Returns the command that runs a seed once more.
    pub fn replay(&self, seed: u64) -> String {
        let (nodes, millis) = (self.nodes, self.duration.as_millis());
        let planted = self.without.is_some() || self.adjust.is_some();
        let planted = if planted { "  # with the bug its test plants" } else { "" };
        let overlay = if self.overlay == OverlayKind::Chord { " --overlay chord" } else { "" };
        if self.leave_out.is_empty() {
            return format!(
                "kringle sim run store-chaos --seed {seed} --nodes {nodes} --duration {millis}ms{overlay}{planted}"
            );
        }
        let leave_out = self.leave_out.join(",");
        format!(
            "kringle sim hunt --seeds {seed} --nodes {nodes} --duration {millis}ms{overlay} --leave-out \"{leave_out}\"{planted}"
        )
    }

    /// Returns what checkers may assume of clocks. It does not depend on how far the time of day of nodes is off: cluster
    /// time does not follow it.
    pub fn rules(&self) -> Rules {
        Rules { slack: TTL_SLACK + CLOCK_AHEAD, late: self.late, ..Rules::default() }
    }

    /// Draws the settings of a run: few slots, small leaf sets and short waits, so that views change often in a minute.
    fn settings(&self, dice: &mut SeededDice) -> Settings {
        let mut one_of = |choices: [u64; 3]| choices[dice.below(3)];
        let leaf_set = one_of([8, 8, 16]);
        // Half of the leaf set must be more than the copies.
        let replicas = if leaf_set == 16 && one_of([0, 0, 1]) == 1 { 5 } else { REPLICAS };
        let settings = Settings {
            ownership: if one_of([0, 1, 1]) == 1 { Ownership::Lease } else { Ownership::Hint },
            leaf_set: leaf_set as u16,
            replicas,
            neighbourhood: 8,
            lease: Duration::from_secs(one_of([1, 2, 4])),
            drift_percent: 1,
            heartbeat: Duration::from_millis(500),
            leaf_exchange: Duration::from_millis(16_000 / leaf_set),
            row_swap: Duration::from_secs(20),
            join_backoff_max: Duration::from_secs(10),
            slots: one_of([4, 16, 64]) as u32,
            sweep: Duration::from_secs(one_of([2, 5, 20])),
            rejoin_grace: Duration::from_secs(one_of([0, 2, 10])),
            drain: Duration::from_secs(10),
            clock_ahead: CLOCK_AHEAD,
            without: self.without,
            overlay: self.overlay,
            // Lists so short that a ring of eight does not know all its members, in most runs.
            successors: if leaf_set == 8 { REPLICAS } else { 8 },
            ..Settings::default()
        };
        self.adjust.map_or(settings.clone(), |adjust| adjust(settings))
    }
}

/// Returns the names of all faults.
pub fn fault_names() -> BTreeSet<&'static str> {
    Faults::names()
}

/// Copies of every key, in most runs; five in others.
const REPLICAS: u8 = 3;
/// The largest cluster that a seed draws.
pub const NODES_MAX: usize = 12;
/// How far a version may be ahead of the cluster's time.
const CLOCK_AHEAD: Duration = Duration::from_secs(5);
/// By how much cluster times of nodes differ at most, and how long an answer takes, together.
const TTL_SLACK: Duration = Duration::from_secs(6);
/// Keeps faults apart from other things drawn from the same seed.
const CHAOS: u64 = 13 << 40;

/// Runs a seed.
///
/// # Errors
/// The first thing that must hold and did not.
pub fn run(seed: u64, set_up: &SetUp) -> Result<Summary, Violation> {
    world(seed, set_up, &mut OwnStore, &mut |_| true).1
}

/// Runs a seed and returns the world as well. Clients hand their operations in at `desk`. `go_on` is told how much is
/// done, and may end the faults early.
pub fn world(
    seed: u64,
    set_up: &SetUp,
    desk: &mut dyn Desk,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> (World, Result<Summary, Violation>) {
    let mut dice = SeededDice::derive(seed ^ CHAOS, 0);
    let settings = set_up.settings(&mut dice);
    let mut world = World::new(settings, seed).with_store(set_up.make, set_up.disks);
    world.through_wire = dice.below(4) == 0;
    let mut load = Load::new(seed, set_up.load);
    let mut phase = Phase::Safety;
    let mut summary = Summary::default();
    // A node that finds itself broken panics; here that is a finding like any other.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        world.grow(set_up.nodes);
        // Until it is on the first node's disk, there is no cluster that could be lost.
        world.run_for(Duration::from_millis(100));
        let mut faults = Faults::new(&mut dice, set_up);
        let end = world.now().after(set_up.duration);
        while world.now() < end {
            let part = 1.0 - end.since(world.now()).as_secs_f64() / set_up.duration.as_secs_f64().max(1e-6);
            if !go_on(part) {
                break;
            }
            faults.draw(&mut world, &mut dice);
            let next = world.now().after(Duration::from_millis(dice.below(1500) as u64)).min(end);
            while world.now() < next {
                let quiet = faults.quiet(world.now(), next.since(world.now()));
                load.run(&mut world, desk, quiet);
                faults.end_due(&mut world);
            }
        }
        phase = Phase::Liveness;
        summary.faults = std::mem::take(&mut faults.drawn);
        faults.end(&mut world);
        peace(&mut world, set_up, &mut load, desk, &mut faults, &mut summary)
    }));
    let ended = match outcome {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a node panicked");
            Err((Invariant::NodeRules, text.to_owned()))
        }
    };
    // What clients saw is judged even if the run ended badly: a lost write is worse than one that can not be made.
    let judged = judge(load.history(), &set_up.rules(), &mut summary).inspect_err(|_| phase = Phase::Safety);
    let silent = load
        .ignored()
        .first()
        .map_or(Ok(()), |operation| Err((Invariant::Answers, format!("key {}: {operation}", operation.key))));
    summary.events = world.handled();
    summary.trace = world.trace_hash();
    summary.keys = load.keys();
    summary.nodes = world.running().count();
    let outcome = judged.and(silent).and(ended);
    let result = outcome.map(|()| summary).map_err(|(invariant, description)| Violation {
        seed,
        phase,
        invariant,
        time: world.now(),
        description,
        replay: set_up.replay(seed),
    });
    (world, result)
}

/// The second phase: nothing goes wrong any more, and everything must become well.
fn peace(
    world: &mut World,
    set_up: &SetUp,
    load: &mut Load,
    desk: &mut dyn Desk,
    faults: &mut Faults,
    summary: &mut Summary,
) -> Result<(), Broken> {
    let start = world.now();
    let unready = |world: &World| -> Vec<(u32, Status)> {
        let nodes = world.running().map(|(index, node)| (index, node.status()));
        nodes.filter(|(_, status)| *status != Status::Ready).collect()
    };
    while !unready(world).is_empty() {
        if world.now().since(start) >= set_up.ring_deadline {
            return Err((Invariant::Ready, format!("not ready: {:?}", unready(world))));
        }
        load.run(world, desk, Duration::from_millis(500));
        // A node that was told to leave does so when no slot needs it any more.
        faults.bury_in_peace(world);
    }
    summary.ready_after = world.now().since(start);
    let start = world.now();
    // What was written last is read as well.
    for sweep in [Sweep::Read, Sweep::Write, Sweep::Read] {
        let left = set_up.deadline.saturating_sub(world.now().since(start));
        load.sweep(world, desk, sweep, left).map_err(|problem| (Invariant::Alive, problem))?;
    }
    summary.alive_after = world.now().since(start);
    Ok(())
}

/// Asks every checker.
pub(crate) fn judge(history: &[Operation], rules: &Rules, summary: &mut Summary) -> Result<(), Broken> {
    for operation in history {
        let what = match (&operation.outcome, operation.effect()) {
            (Outcome::ConditionFailed(_), _) => "condition failed",
            (Outcome::Open, _) => "no answer",
            (Outcome::Failed(_), Effect::Possible) => "failed, may have happened",
            (Outcome::Failed(_), _) => "failed",
            _ => "ok",
        };
        *summary.operations.entry(what).or_default() += 1;
    }
    let broken = |invariant| move |finding: Finding| (invariant, finding.to_string());
    summary.ledger = ledger::check(history, rules).map_err(broken(Invariant::Ledger))?;
    summary.sets = set::check(history, rules).map_err(broken(Invariant::Sets))?;
    summary.order = register::check(history, rules).map_err(broken(Invariant::Order))?;
    summary.reads = monotone::check(history).map_err(broken(Invariant::Monotone))?;
    if let Some(key) = &summary.order.undecided.first() {
        let keys = summary.order.undecided.len();
        return Err((
            Invariant::Decided,
            format!("no order found in time for {keys} keys; the first is {key}"),
        ));
    }
    Ok(())
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { seed, phase, invariant, time, description, replay } = self;
        write!(f, "{} broken in the phase of {phase:?} at {time:?}: {description}", invariant.name())?;
        write!(f, "\nseed {seed}; once more: {replay}")
    }
}

impl std::error::Error for Violation {}
