//! What goes wrong, drawn from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::Command;
use kringle_core::overlay::Status;
use kringle_core::records::Space;

use super::SetUp;
use crate::world::{Snapshot, World};

/// Something that can go wrong, or be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Loss,
    Duplication,
    Reordering,
    OneWayCut,
    Cut,
    Partition,
    Slow,
    Mend,
    Pause,
    Resume,
    Crash,
    Restart,
    PowerCut,
    Join,
    Leave,
    Clock,
    SlowDisk,
    FullDisk,
    Amnesia,
    RollBack,
    Rot,
}

/// Every kind, with its name and how often it is drawn.
const KINDS: [(Kind, &str, usize); 21] = [
    (Kind::Loss, "loss", 2),
    (Kind::Duplication, "duplication", 1),
    (Kind::Reordering, "reordering", 1),
    (Kind::OneWayCut, "one-way cut", 2),
    (Kind::Cut, "cut", 2),
    (Kind::Partition, "partition", 2),
    (Kind::Slow, "slow node", 1),
    (Kind::Mend, "mend", 4),
    (Kind::Pause, "pause", 3),
    (Kind::Resume, "resume", 3),
    (Kind::Crash, "crash", 3),
    (Kind::Restart, "restart", 4),
    (Kind::PowerCut, "power cut", 1),
    (Kind::Join, "join", 2),
    (Kind::Leave, "polite leave", 2),
    (Kind::Clock, "clock", 3),
    (Kind::SlowDisk, "slow disk", 2),
    (Kind::FullDisk, "full disk", 1),
    (Kind::Amnesia, "lost disk", 2),
    (Kind::RollBack, "old disk", 1),
    (Kind::Rot, "rot", 1),
];

/// What is broken at the moment, and what has been.
pub(super) struct Faults {
    pub(super) drawn: BTreeMap<&'static str, u64>,
    /// The kinds this seed uses. Leaving some out lets others get farther.
    kinds: Vec<(Kind, &'static str)>,
    nodes: usize,
    cuts: usize,
    split: bool,
    /// Nodes that were told to leave.
    leaving: Vec<u32>,
    /// Nodes that do not have what they once stored.
    lost: BTreeSet<u32>,
    /// Nodes that left for good.
    gone: BTreeSet<u32>,
    /// What was on a disk earlier.
    old: Option<(u32, Snapshot)>,
}

impl Faults {
    pub(super) fn new(dice: &mut SeededDice, set_up: &SetUp) -> Faults {
        let mut kinds = Vec::new();
        for (kind, name, weight) in KINDS {
            let always = matches!(kind, Kind::Resume | Kind::Mend | Kind::Restart);
            if always || dice.below(3) > 0 {
                kinds.extend(std::iter::repeat_n((kind, name), weight));
            }
        }
        Faults {
            drawn: BTreeMap::new(),
            kinds,
            nodes: set_up.nodes,
            cuts: 0,
            split: false,
            leaving: Vec::new(),
            lost: BTreeSet::new(),
            gone: BTreeSet::new(),
            old: None,
        }
    }

    /// Lets something happen.
    pub(super) fn draw(&mut self, world: &mut World, dice: &mut SeededDice, set_up: &SetUp) {
        self.bury(world);
        if let Some(recovered) = set_up.recovered {
            self.lost.retain(|node| self.gone.contains(node) || !recovered(world, *node));
        }
        let (kind, name) = self.kinds[dice.below(self.kinds.len())];
        if self.happens(kind, world, dice, set_up) {
            *self.drawn.entry(name).or_default() += 1;
        }
    }

    fn happens(&mut self, kind: Kind, world: &mut World, dice: &mut SeededDice, set_up: &SetUp) -> bool {
        let count = world.len();
        let node = dice.below(count) as u32;
        let other = (node + 1 + dice.below(count.max(2) - 1) as u32) % count as u32;
        let network = &mut world.network;
        match kind {
            Kind::Loss => network.loss_per_million = dice.below(100_000) as u32,
            Kind::Duplication => network.doubled_per_million = dice.below(200_000) as u32,
            Kind::Reordering => {
                network.reordered_per_million = dice.below(200_000) as u32;
                network.reorder_by = Duration::from_millis(dice.below(3000) as u64);
            }
            Kind::OneWayCut | Kind::Cut => {
                if self.cuts >= self.nodes / 2 {
                    return false;
                }
                self.cuts += 1;
                match kind {
                    Kind::Cut => network.cut_both(node, other),
                    _ => network.cut(node, other),
                }
            }
            Kind::Partition => {
                if self.split {
                    return false;
                }
                self.split = true;
                network.split_by((0..count).map(|_| dice.below(2) as u8).collect());
            }
            Kind::Slow => network.slow(node, 1 + dice.below(20) as u32),
            Kind::Mend => {
                (self.cuts, self.split) = (0, false);
                network.mend();
            }
            Kind::Pause => {
                if !self.can_spare(world, node) {
                    return false;
                }
                world.pause(node);
            }
            Kind::Resume => {
                let paused: Vec<u32> = (0..count as u32).filter(|node| world.is_paused(*node)).collect();
                let Some(&node) = paused.get(dice.below(paused.len())) else { return false };
                world.resume(node);
            }
            Kind::Crash => {
                if !self.can_spare(world, node) {
                    return false;
                }
                world.crash(node);
            }
            Kind::Restart => {
                if world.node(node).is_some() || self.gone.contains(&node) {
                    return false;
                }
                self.restart(world, node);
            }
            Kind::PowerCut => self.power_cut(world),
            Kind::Join => {
                if world.running().count() >= self.nodes + self.nodes / 2 {
                    return false;
                }
                let joiner = world.spawn_random();
                let seeds: Vec<u32> =
                    world.running().map(|(seed, _)| seed).filter(|seed| *seed != joiner).collect();
                world.join(joiner, &seeds);
            }
            Kind::Leave => {
                let ready = world.node(node).is_some_and(|node| node.status() == Status::Ready);
                if !ready || world.is_paused(node) || !self.can_spare(world, node) {
                    return false;
                }
                world.command(node, Command::Leave);
                self.leaving.push(node);
                // Only so many may stay away; the others come back with what they had.
                if self.may_lose(world, node, set_up) {
                    self.lost.insert(node);
                    self.gone.insert(node);
                }
            }
            Kind::Clock => {
                let most = set_up.wall_offset_max.as_millis() as usize;
                world.set_wall_offset(node, dice.below(2 * most + 1) as i64 - most as i64);
            }
            Kind::SlowDisk => world.slow_disk(node, [1, 10, 500][dice.below(3)]),
            Kind::FullDisk => world.fill_disk(node, dice.below(2) == 0),
            Kind::Amnesia => {
                if !self.may_lose(world, node, set_up) || !self.can_spare(world, node) {
                    return false;
                }
                self.lost.insert(node);
                world.forget(node);
            }
            Kind::RollBack => return self.roll_back(world, node, set_up),
            Kind::Rot => {
                let space = [Space::Data, Space::Members][dice.below(2)];
                if !self.may_lose(world, node, set_up) || world.rot(node, space).is_none() {
                    return false;
                }
                self.lost.insert(node);
            }
        }
        true
    }

    /// Keeps what is on a disk, and puts it back some time later.
    fn roll_back(&mut self, world: &mut World, node: u32, set_up: &SetUp) -> bool {
        let Some((node, snapshot)) = self.old.take() else {
            self.old = world.snapshot(node).map(|snapshot| (node, snapshot));
            return false;
        };
        // Whoever sleeps can not tell that the disk had come further, and together with it would take the old view for the
        // present one. That is more than the store promises to survive.
        let awake =
            (0..world.len() as u32).all(|node| world.node(node).is_some() || self.gone.contains(&node));
        if !awake || !self.may_lose(world, node, set_up) || !self.can_spare(world, node) {
            self.old = Some((node, snapshot));
            return false;
        }
        self.lost.insert(node);
        world.roll_back(node, &snapshot);
        true
    }

    /// Everything stops at once, and all that ran comes back.
    fn power_cut(&mut self, world: &mut World) {
        let running: Vec<u32> = world.running().map(|(node, _)| node).collect();
        running.iter().for_each(|node| world.crash(*node));
        running.iter().for_each(|node| world.restart(*node));
        running.iter().for_each(|node| self.rejoin(world, *node));
        // Who was about to leave has forgotten that, and stays.
        for node in self.leaving.drain(..) {
            self.gone.remove(&node);
        }
    }

    /// Ends everything that goes wrong, and starts everybody who did not leave for good.
    pub(super) fn end(&mut self, world: &mut World) {
        world.network.quiet();
        for node in 0..world.len() as u32 {
            world.resume(node);
            world.set_wall_offset(node, 0);
            world.slow_disk(node, 1);
            world.fill_disk(node, false);
        }
        for node in self.leaving.clone() {
            let gone = |world: &World| world.node(node).is_none_or(|node| node.status() == Status::Out);
            world.run_until(Duration::from_secs(30), gone);
        }
        self.bury(world);
        let stopped: Vec<u32> = (0..world.len() as u32)
            .filter(|node| world.node(*node).is_none() && !self.gone.contains(node))
            .collect();
        stopped.iter().for_each(|node| world.restart(*node));
        stopped.iter().for_each(|node| self.rejoin(world, *node));
    }

    /// Takes away the nodes that have left.
    fn bury(&mut self, world: &mut World) {
        self.leaving.retain(|node| {
            let out = world.node(*node).is_none_or(|node| node.status() == Status::Out);
            if out && !world.is_paused(*node) {
                world.crash(*node);
            }
            !out
        });
    }

    fn restart(&mut self, world: &mut World, node: u32) {
        world.restart(node);
        self.rejoin(world, node);
    }

    /// Comes back through everybody it may have known.
    fn rejoin(&self, world: &mut World, node: u32) {
        let others = (0..world.len() as u32).filter(|other| *other != node && world.node(*other).is_some());
        let seeds = others.map(|other| world.contact(other)).collect();
        world.command(node, Command::Rejoin { seeds });
    }

    /// Says whether the store may have to do without what a node has stored: only so many at a time, and only while all
    /// copies are there. Of two copies, or of three of which one is still being made, none may be lost.
    fn may_lose(&self, world: &World, node: u32, set_up: &SetUp) -> bool {
        (self.lost.contains(&node) || self.lost.len() < set_up.losses_max)
            && all_copies_are_there(world, set_up)
    }

    /// Says whether enough others are left if a node is gone: a ring of too few falls apart.
    fn can_spare(&self, world: &World, node: u32) -> bool {
        let active = |index: u32| index != node && !world.is_paused(index) && !self.leaving.contains(&index);
        let left = world.ready().filter(|(index, _)| active(*index)).count();
        left * 2 >= self.nodes && left >= 3
    }
}

/// Says whether all slots have all their copies, on nodes that run and serve them.
fn all_copies_are_there(world: &World, set_up: &SetUp) -> bool {
    let stores = || world.ready().filter_map(|(_, node)| node.store());
    // The stand-ins of tests have no slots.
    if stores().next().is_none() {
        return true;
    }
    (0..world.config().slots).all(|slot| {
        let newest = stores().filter_map(|store| store.view(slot)).map(|(view, _)| view.epoch).max();
        let serving = stores().filter_map(|store| store.view(slot));
        let serving = serving.filter(|(view, serves)| Some(view.epoch) == newest && *serves);
        serving.count() > set_up.losses_max * 2
    })
}
