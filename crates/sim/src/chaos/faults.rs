//! What goes wrong, drawn from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::Command;
use kringle_core::id::Id;
use kringle_core::overlay::Status;

use super::Broken;
use super::watch::Watcher;
use crate::invariants::can_do_without;
use crate::world::World;

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
    Pause,
    Drift,
    Crash,
    Restart,
    Join,
    Leave,
    Resume,
    Mend,
    Messages,
}

/// Every kind, with its name and how often it is drawn.
const KINDS: [(Kind, &str, usize); 16] = [
    (Kind::Loss, "loss", 2),
    (Kind::Duplication, "duplication", 1),
    (Kind::Reordering, "reordering", 1),
    (Kind::OneWayCut, "one-way cut", 3),
    (Kind::Cut, "cut", 3),
    (Kind::Partition, "partition", 1),
    (Kind::Slow, "slow node", 2),
    (Kind::Pause, "pause", 4),
    (Kind::Drift, "drift", 2),
    (Kind::Crash, "crash", 3),
    (Kind::Restart, "restart", 3),
    (Kind::Join, "join", 3),
    (Kind::Leave, "polite leave", 2),
    (Kind::Resume, "resume", 3),
    (Kind::Mend, "mend", 2),
    (Kind::Messages, "messages", 2),
];

/// What is broken at the moment, and what has been.
pub(super) struct Faults {
    pub(super) drawn: BTreeMap<&'static str, u64>,
    /// The kinds this seed uses. Leaving some out lets others get farther.
    kinds: Vec<(Kind, &'static str)>,
    nodes: usize,
    cuts: BTreeSet<(u32, u32)>,
    /// Nodes that were told to leave.
    leaving: Vec<u32>,
}

impl Faults {
    pub(super) fn new(dice: &mut SeededDice, nodes: usize) -> Faults {
        let mut kinds = Vec::new();
        for (kind, name, weight) in KINDS {
            let always = matches!(kind, Kind::Resume | Kind::Mend | Kind::Messages | Kind::Restart);
            if always || dice.below(3) > 0 {
                kinds.extend(std::iter::repeat_n((kind, name), weight));
            }
        }
        Faults { drawn: BTreeMap::new(), kinds, nodes, cuts: BTreeSet::new(), leaving: Vec::new() }
    }

    /// Lets something happen.
    pub(super) fn draw(
        &mut self,
        world: &mut World,
        dice: &mut SeededDice,
        watcher: &mut Watcher,
    ) -> Result<(), Broken> {
        self.bury(world, watcher);
        let (kind, name) = self.kinds[dice.below(self.kinds.len())];
        if self.happens(kind, world, dice, watcher) {
            *self.drawn.entry(name).or_default() += 1;
        }
        watcher.look(world)
    }

    fn happens(
        &mut self,
        kind: Kind,
        world: &mut World,
        dice: &mut SeededDice,
        watcher: &mut Watcher,
    ) -> bool {
        let count = world.len();
        let node = dice.below(count) as u32;
        let other = (node + 1 + dice.below(count - 1) as u32) % count as u32;
        let network = &mut world.network;
        match kind {
            Kind::Loss => network.loss_per_million = dice.below(100_000) as u32,
            Kind::Duplication => network.doubled_per_million = dice.below(200_000) as u32,
            Kind::Reordering => {
                network.reordered_per_million = dice.below(200_000) as u32;
                network.reorder_by = Duration::from_millis(dice.below(3000) as u64);
            }
            Kind::OneWayCut | Kind::Cut => {
                let link = (node.min(other), node.max(other));
                if !self.cuts.insert(link) {
                    return false;
                }
                if !self.is_in_one_piece(world, None) {
                    self.cuts.remove(&link);
                    return false;
                }
                match kind {
                    Kind::Cut => world.network.cut_both(node, other),
                    _ => world.network.cut(node, other),
                }
            }
            Kind::Partition => {
                if watcher.is_split() {
                    return false;
                }
                let groups: Vec<u8> = (0..count).map(|_| dice.below(2) as u8).collect();
                world.network.split_by(groups);
                if !self.is_in_one_piece(world, None) {
                    world.network.split(1);
                    return false;
                }
                watcher.split(world);
            }
            Kind::Slow => network.slow(node, 1 + dice.below(20) as u32),
            Kind::Pause => {
                if !self.can_spare(world, node) {
                    return false;
                }
                world.pause(node);
            }
            Kind::Drift => {
                let most = usize::from(world.config().drift_percent) * 10_000;
                world.set_drift(node, dice.below(2 * most + 1) as i32 - most as i32);
            }
            Kind::Crash => {
                if !self.can_spare(world, node) {
                    return false;
                }
                world.crash(node);
                watcher.moved();
            }
            Kind::Restart => {
                if world.node(node).is_some() {
                    return false;
                }
                self.restart(world, node);
                watcher.moved();
            }
            Kind::Join => {
                if world.running().count() >= 2 * self.nodes {
                    return false;
                }
                let joiner = world.spawn_random();
                watcher.moved();
                self.join(world, joiner);
            }
            Kind::Leave => {
                let ready = world.node(node).is_some_and(|node| node.status() == Status::Ready);
                if !ready || world.is_paused(node) || !self.can_spare(world, node) {
                    return false;
                }
                world.command(node, Command::Leave);
                self.leaving.push(node);
            }
            Kind::Resume => {
                let paused: Vec<u32> = (0..count as u32).filter(|node| world.is_paused(*node)).collect();
                let Some(&node) = paused.get(dice.below(paused.len())) else { return false };
                world.resume(node);
            }
            Kind::Mend => {
                self.cuts.clear();
                world.network.mend();
                watcher.mended(world);
            }
            Kind::Messages => {
                let awake = |index: &u32| !world.is_paused(*index);
                let ready: Vec<u32> = world.ready().map(|(index, _)| index).filter(awake).collect();
                for node in ready {
                    let key = random_key(dice);
                    if dice.below(2) == 0 {
                        world.lookup(node, key)
                    } else {
                        world.route(node, key, b"abc")
                    };
                }
                world.take_replies();
                world.take_deliveries();
            }
        }
        true
    }

    /// Ends everything that goes wrong.
    pub(super) fn end(&mut self, world: &mut World) {
        world.network.quiet();
        (0..world.len() as u32).for_each(|node| world.resume(node));
        // Who is about to leave has had its say.
        for node in self.leaving.drain(..) {
            let gone = |world: &World| world.node(node).is_none_or(|node| node.status() != Status::Leaving);
            world.run_until(Duration::from_secs(30), gone);
            if world.node(node).is_some_and(|node| node.status() == Status::Out) {
                world.crash(node);
            }
        }
    }

    /// Takes away the nodes that have left.
    fn bury(&mut self, world: &mut World, watcher: &mut Watcher) {
        self.leaving.retain(|node| {
            let out = world.node(*node).is_none_or(|node| node.status() == Status::Out);
            if out && !world.is_paused(*node) {
                world.crash(*node);
                watcher.moved();
            }
            !out
        });
    }

    fn restart(&mut self, world: &mut World, node: u32) {
        world.restart(node);
        self.join(world, node);
    }

    fn join(&mut self, world: &mut World, node: u32) {
        let seeds: Vec<u32> =
            (0..world.len() as u32).filter(|seed| *seed != node && world.node(*seed).is_some()).collect();
        world.join(node, &seeds);
    }

    /// Says whether enough others are left, in one piece, if a node is gone.
    fn can_spare(&self, world: &World, node: u32) -> bool {
        let active = |index: u32| index != node && !world.is_paused(index) && !self.leaving.contains(&index);
        let left = world.ready().filter(|(index, _)| active(*index)).count();
        left * 2 >= self.nodes
            && left >= 3
            && self.is_in_one_piece(world, Some(node))
            && can_do_without(world, node)
    }

    /// Says whether all active nodes on each side of a partition reach each other, through others if need be, and one
    /// side has at least three.
    fn is_in_one_piece(&self, world: &World, without: Option<u32>) -> bool {
        let active = |index: &u32| Some(*index) != without && !world.is_paused(*index);
        let nodes: Vec<u32> = world.ready().map(|(index, _)| index).filter(active).collect();
        let mut largest = 0;
        for group in 0..2 {
            let mut rest: Vec<u32> =
                nodes.iter().copied().filter(|node| world.network.group(*node) == group).collect();
            largest = largest.max(rest.len());
            let mut reached: Vec<u32> = rest.pop().into_iter().collect();
            while let Some(at) = reached.pop() {
                let linked = |node: &u32| !self.cuts.contains(&(at.min(*node), at.max(*node)));
                let (next, others) = rest.iter().partition(|node| linked(node));
                rest = others;
                reached.extend::<Vec<u32>>(next);
            }
            if !rest.is_empty() {
                return false;
            }
        }
        largest >= 3
    }
}

pub(super) fn random_key(dice: &mut SeededDice) -> Id {
    Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()))
}
