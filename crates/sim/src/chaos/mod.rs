//! Everything goes wrong for a while, then nothing any more: what must always hold is looked at after every event, what
//! must come to hold is waited for.
//!
//! A run has two phases (as TigerBeetle's VOPR has). In the first, the seed draws faults of every kind, and safety is
//! judged: for the nodes an event touched after each event, for the whole ring after every thousandth. In the second all
//! faults end, and the ring must become one again within a deadline and answer every question rightly.
//!
//! One deliverer per key is promised inside one connected part of the network. So links are cut only as long as they
//! leave the running nodes in one piece, and after a partition nodes are judged together only if they were on the same
//! side of it, until the ring is whole again.

mod faults;
mod peace;
#[cfg(test)]
mod tests;
mod watch;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kringle_core::config::{OverlayKind, Ownership, Safeguard, Settings};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::time::Time;

use self::faults::Faults;
use self::watch::Watcher;
use crate::world::World;

/// What a run is made of, besides its seed.
#[derive(Clone, Debug)]
pub struct SetUp {
    /// Nodes at the start.
    pub nodes: usize,
    /// How long things go wrong.
    pub duration: Duration,
    /// Whether one deliverer per key is promised. Chord has no leases and never does.
    pub ownership: Ownership,
    /// Which overlay the nodes use.
    pub overlay: OverlayKind,
    /// How long the ring may take to become whole once everything is well.
    pub deadline: Duration,
    /// For tests: a rule left out (feature `mutants`).
    pub without: Option<Safeguard>,
    /// For tests: something that breaks the world behind the nodes' backs.
    pub sabotage: Option<Sabotage>,
    /// For tests: limits nodes are held to instead of their own.
    pub limits: Option<fn(Settings) -> Settings>,
}

/// Breaks a world at some moments.
pub type Sabotage = fn(&mut World, Moment);

/// When a world may be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before each look whether the ring is whole.
    Look,
    /// Before the last questions are asked.
    Asked,
}

/// One of the two phases of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Anything may go wrong; nothing that was promised may.
    Safety,
    /// Nothing goes wrong any more; everything must become well.
    Liveness,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// What each node checks itself.
    NodeRules,
    /// At no instant do two nodes deliver one key.
    OneDeliverer,
    /// Whoever grants a lease knows its holder.
    KnownHolders,
    /// Every running node is ready.
    Ready,
    /// Every key has the nearest node as its only root.
    OneRoot,
    /// Leaf sets are exact.
    LeafSets,
    /// Nobody is suspected.
    NoSuspects,
    /// Every question is answered rightly.
    Lookups,
    /// Chord: the five properties of a ring that always hold.
    RingProperties,
    /// Chord: the two properties that a ring comes to have.
    IdealRing,
}

/// What happened in a run that ended well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Inputs that nodes handled.
    pub events: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often each invariant was looked at.
    pub checks: BTreeMap<&'static str, u64>,
    /// How long the ring took to become whole.
    pub whole_after: Duration,
    /// Running nodes at the end.
    pub nodes: usize,
    /// Questions asked at the end.
    pub lookups: usize,
    /// A hash of everything that happened.
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

impl Invariant {
    /// Those of Pastry with leases, in the order they are looked at.
    pub const ALL: [Invariant; 8] = [
        Invariant::NodeRules,
        Invariant::OneDeliverer,
        Invariant::KnownHolders,
        Invariant::Ready,
        Invariant::OneRoot,
        Invariant::LeafSets,
        Invariant::NoSuspects,
        Invariant::Lookups,
    ];

    /// Those of Chord, in the order they are looked at.
    pub const OF_CHORD: [Invariant; 7] = [
        Invariant::NodeRules,
        Invariant::RingProperties,
        Invariant::Ready,
        Invariant::OneRoot,
        Invariant::IdealRing,
        Invariant::NoSuspects,
        Invariant::Lookups,
    ];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Invariant::NodeRules => "node-rules",
            Invariant::OneDeliverer => "one-deliverer",
            Invariant::KnownHolders => "known-holders",
            Invariant::Ready => "ready",
            Invariant::OneRoot => "one-root",
            Invariant::LeafSets => "leaf-sets",
            Invariant::NoSuspects => "no-suspects",
            Invariant::Lookups => "lookups",
            Invariant::RingProperties => "ring-properties",
            Invariant::IdealRing => "ideal-ring",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.phase {
            Phase::Safety => "while things went wrong",
            Phase::Liveness => "after everything was well",
        };
        let (invariant, time) = (self.invariant.name(), self.time);
        write!(f, "{invariant} broken {phase}, at {time:?}: {}\n  {}", self.description, self.replay)
    }
}

impl SetUp {
    /// So many nodes, in trouble for so long.
    pub fn new(nodes: usize, duration: Duration, ownership: Ownership) -> SetUp {
        SetUp {
            nodes,
            duration,
            ownership,
            overlay: OverlayKind::Pastry,
            deadline: Duration::from_secs(180),
            without: None,
            sabotage: None,
            limits: None,
        }
    }

    /// What nodes are held to: without leases, hints.
    fn promised(&self) -> Ownership {
        if self.overlay == OverlayKind::Chord { Ownership::Hint } else { self.ownership }
    }

    /// Returns the command that runs a seed once more.
    pub fn replay(&self, seed: u64) -> String {
        let ownership = if self.promised() == Ownership::Lease { "lease" } else { "hint" };
        let overlay = if self.overlay == OverlayKind::Chord { " --overlay chord" } else { "" };
        let (nodes, millis) = (self.nodes, self.duration.as_millis());
        let planted = self.without.is_some() || self.sabotage.is_some() || self.limits.is_some();
        let planted = if planted { "  # with the bug its test plants" } else { "" };
        format!(
            "kringle sim run chaos --seed {seed} --nodes {nodes} --duration {millis}ms --ownership {ownership}{overlay}{planted}"
        )
    }

    /// Draws the settings of a run: small leaf sets and short leases of several kinds, so that much happens in a minute.
    fn settings(&self, dice: &mut SeededDice) -> Settings {
        let mut one_of = |choices: [u64; 3]| choices[dice.below(3)];
        let leaf_set = one_of([4, 8, 16]);
        let lab = Settings::default();
        let (successors, tick) = match self.overlay {
            OverlayKind::Chord => (one_of([3, 5, 8]) as u8, Duration::from_millis(one_of([500, 1000, 3000]))),
            OverlayKind::Pastry => (lab.successors, lab.tick),
        };
        Settings {
            overlay: self.overlay,
            successors,
            tick,
            ownership: self.promised(),
            leaf_set: leaf_set as u16,
            replicas: 1,
            neighbourhood: 8,
            lease: Duration::from_secs(one_of([1, 4, 10])),
            drift_percent: one_of([1, 5, 20]) as u8,
            heartbeat: Duration::from_millis(one_of([500, 500, 2000])),
            // A dead leaf that is nobody's neighbour is found when it is drawn for an exchange: every 16 s on average,
            // so that the deadline is eleven times that.
            leaf_exchange: Duration::from_millis(16_000 / leaf_set),
            row_swap: Duration::from_secs(20),
            join_backoff_max: Duration::from_secs(10),
            without: self.without,
            ..lab
        }
    }
}

/// Keeps faults apart from other things drawn from the same seed.
const CHAOS: u64 = 11 << 40;

/// Runs a seed.
///
/// # Errors
/// The first thing that must hold and did not.
pub fn run(seed: u64, set_up: &SetUp) -> Result<Summary, Violation> {
    world(seed, set_up, &mut |_| true).1
}

/// Runs a seed and returns the world as well. `go_on` is told how much is done, and may end the faults early.
pub fn world(
    seed: u64,
    set_up: &SetUp,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> (World, Result<Summary, Violation>) {
    let mut dice = SeededDice::derive(seed ^ CHAOS, 0);
    let settings = set_up.settings(&mut dice);
    let mut world = World::new(settings.clone(), seed);
    world.check = false;
    world.through_wire = dice.below(4) == 0;
    let limits = set_up.limits.map_or(settings.clone(), |limits| limits(settings));
    let limits = limits.check().expect("the limits of a run pass their rules");
    let mut watcher = Watcher::new(set_up.promised(), set_up.overlay, limits);
    let (phase, time) = (Cell::new(Phase::Safety), Cell::new(Time::ZERO));
    let mut summary = Summary::default();
    // A node that finds itself broken panics; here that is a finding like any other.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        world.grow(set_up.nodes);
        let mut faults = Faults::new(&mut dice, set_up.nodes);
        let end = world.now().after(set_up.duration);
        while world.now() < end {
            let part = 1.0 - end.since(world.now()).as_secs_f64() / set_up.duration.as_secs_f64().max(1e-6);
            if !go_on(part) {
                break;
            }
            faults.draw(&mut world, &mut dice, &mut watcher)?;
            let span = Duration::from_millis(dice.below(1500) as u64).min(end.since(world.now()));
            world.run_watched(span, |world| {
                time.set(world.now());
                watcher.look(world)
            })?;
            watcher.is_whole_again(&world);
        }
        phase.set(Phase::Liveness);
        summary.faults = std::mem::take(&mut faults.drawn);
        faults.end(&mut world);
        peace::come(&mut world, set_up, &mut dice, &mut watcher, &mut summary, &time)
    }));
    let broken = match outcome {
        Ok(result) => result.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a node panicked");
            Some((Invariant::NodeRules, text.to_owned()))
        }
    };
    summary.events = world.handled();
    summary.checks = watcher.told();
    summary.trace = world.trace_hash();
    let result = match broken {
        None => Ok(summary),
        Some((invariant, description)) => Err(Violation {
            seed,
            phase: phase.get(),
            invariant,
            time: time.get().max(world.now()),
            description,
            replay: set_up.replay(seed),
        }),
    };
    (world, result)
}

/// What was broken, and how.
type Broken = (Invariant, String);
