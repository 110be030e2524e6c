//! What goes wrong, drawn from the seed.
//!
//! Every fault has a bound, and every bound is the other side of a promise of the store: what is beyond it, the store does
//! not promise to survive. The bounds are written at the faults, in [`Kind`], and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kringle_core::contact::Contact;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::Command;
use kringle_core::id::{Id, NodeId};
use kringle_core::node::Node;
use kringle_core::overlay::Status;
use kringle_core::records::{Bytes, Records, Space};
use kringle_core::store::Store;
use kringle_core::store::view::{Member, View};
use kringle_core::time::Time;

use super::SetUp;
use crate::world::{Snapshot, World};

/// Something that can go wrong, or be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Messages are lost, up to one in ten. No bound: nothing acknowledged depends on one message.
    Loss,
    /// Messages come twice, up to one in five. No bound.
    Duplication,
    /// Messages overtake each other, by up to three seconds. No bound.
    Reordering,
    /// A node does not hear another. At most half as many links as nodes at a time, so that rings form at all.
    OneWayCut,
    /// Two nodes do not hear each other. The same bound.
    Cut,
    /// The nodes are in two parts. One partition at a time.
    Partition,
    /// A node is slow, up to twenty times.
    Slow,
    /// The network is whole again.
    Mend,
    /// A node is stopped in its tracks, for any time. At most half of the nodes (at least one) are stopped or dead at a
    /// time. That is no promise: clients of a cluster that is down do nothing.
    Pause,
    /// A stopped node goes on.
    Resume,
    /// A node loses power and comes back with its disk, sooner or later. The bound of [`Kind::Pause`].
    Crash,
    /// A dead node comes back. Its clock is right, or see [`Kind::WrongStart`].
    Restart,
    /// All nodes lose power and come back at once. No bound: what was acknowledged is on disks.
    PowerCut,
    /// A new node joins. At most half as many more as at the start (at least one).
    Join,
    /// A node hands over what it has and leaves. It stays away if it may die for good ([`Kind::Death`]), since handing over
    /// has a deadline; otherwise it comes back with what it had.
    Leave,
    /// The time of day of a running node steps by a second to an hour, either way. No bound: cluster time runs by the
    /// steady clock, a step never moves it.
    ClockStep,
    /// The same for a tenth of a second to four seconds; then the clock is as it was before.
    ClockBlip,
    /// The same on several nodes at a time, even all.
    ClockSteps,
    /// The time of day of all nodes is right again.
    ClocksRight,
    /// A node restarts with a time of day that is off by a second to an hour. Cluster time starts from the time of day and
    /// is then the median of the members': so one such node at a time, and only while three others are ready and know the time;
    /// that is so for its later restarts, too. Every other start is with a clock that is right within [`SMALL`], but for a node
    /// that replaces an outdated disk: it starts as its clock is (seed 6000237).
    WrongStart,
    /// Syncs take up to 500 times as long.
    SlowDisk,
    /// A disk is full, or has room again. A full disk refuses writes; nothing is lost.
    FullDisk,
    /// A node dies and its disk is lost; it comes back with an empty one. Of every view of n members at most n - q disks
    /// (q is its quorum) are lost at a time, of a view of two one: the survivor goes on. Members that leave, or have not heard of the view, do not count. The
    /// next only when all copies are back: every view has as many members as it should, all of them serve, and no record is damaged or doubted.
    /// With one copy no disk may be lost.
    LostDisk,
    /// A node dies and its disk is as it was earlier. The bound of [`Kind::LostDisk`]; and all others are awake: a node
    /// that slept since then would agree with the old disk about the view. The old disk knows other members of all its
    /// views: a node that was alone in one has no member to ask about that slot (seed 1000519 over Chord); nor has it if the disks of all others were lost since (seed 8000805). It is older than [`OLD`]: how far the disks of others have come is
    /// written down once a second.
    OldDisk,
    /// A node comes back on the same address with an empty disk and a new id. The old id never returns, so the bound is
    /// that of [`Kind::Death`].
    LostIdentity,
    /// A node dies and never comes back. At most n - q members of any view at a time, and none of a view of two: its
    /// survivor cannot tell death from a cut. The next only when all copies are back. In a small Chord ring more than half
    /// of the members stay: half of them cannot know that they may go on, until an operator says so.
    Death,
    /// A bit of a stored record flips. Several nodes at a time, but of each key one copy at a time, and only in views of two
    /// or more all of whose members serve: n - q + 1 others must be able to tell what they have. Not while a lost disk is
    /// being filled, and not while a node leaves: what nobody has read since it was damaged may be the only copy then.
    Rot,
}

/// Every kind, with its name and how often it is drawn.
const KINDS: [(Kind, &str, usize); 27] = [
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
    (Kind::Restart, "restart", 5),
    (Kind::PowerCut, "power cut", 1),
    (Kind::Join, "join", 2),
    (Kind::Leave, "polite leave", 2),
    (Kind::ClockStep, "clock step", 2),
    (Kind::ClockBlip, "short clock step", 2),
    (Kind::ClockSteps, "several clock steps", 1),
    (Kind::ClocksRight, "clocks right", 1),
    (Kind::WrongStart, "start with a wrong clock", 1),
    (Kind::SlowDisk, "slow disk", 2),
    (Kind::FullDisk, "full disk", 1),
    (Kind::LostDisk, "lost disk", 3),
    (Kind::OldDisk, "old disk", 1),
    (Kind::LostIdentity, "lost identity", 1),
    (Kind::Death, "death for good", 1),
    (Kind::Rot, "rot", 3),
];

/// By how many milliseconds a clock may be off that counts as right. Far less than the five seconds that versions may be
/// ahead.
const SMALL: i64 = 500;
/// By how many milliseconds a clock steps, from and to: as often by seconds as by an hour.
const STEPS: [(usize, usize); 5] =
    [(1_000, 2_000), (2_000, 5_000), (5_000, 30_000), (30_000, 300_000), (300_000, 3_600_000)];

/// How old an old disk is at least.
const OLD: Duration = Duration::from_secs(3);

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
    /// Nodes whose disks are not made up for yet, since all copies were last there.
    lost: BTreeSet<u32>,
    /// How many members the smallest view had then.
    smallest: usize,
    /// Nodes that never come back.
    gone: BTreeSet<u32>,
    /// Nodes that have been part of the ring: they come back to it, others join it.
    joined: BTreeSet<u32>,
    /// What was on a disk earlier.
    old: Option<(Time, u32, Snapshot, Vec<Partners>)>,
    /// Damaged records: where, and what they look like.
    rotten: BTreeMap<(Space, Bytes), (u32, Bytes)>,
    /// Whether there have been such since all copies were last there: a node may doubt what it has after they are mended.
    doubts: bool,
    /// Clocks that go back to what they were, and when.
    blips: Vec<(Time, u32, i64)>,
    /// The node that was started with a wrong clock.
    misled: Option<u32>,
}

impl Faults {
    pub(super) fn new(dice: &mut SeededDice, set_up: &SetUp) -> Faults {
        let mut kinds = Vec::new();
        for (kind, name, weight) in KINDS {
            let always = matches!(kind, Kind::Resume | Kind::Mend | Kind::Restart);
            // Drawn for all kinds, so that leaving one out by name changes no other.
            let used = dice.below(3) > 0 || always;
            if used && !set_up.leave_out.contains(&name) {
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
            smallest: 0,
            gone: BTreeSet::new(),
            joined: BTreeSet::new(),
            old: None,
            rotten: BTreeMap::new(),
            doubts: false,
            blips: Vec::new(),
            misled: None,
        }
    }

    /// The names of everything that can be drawn.
    pub(super) fn names() -> BTreeSet<&'static str> {
        KINDS.iter().map(|(_, name, _)| *name).collect()
    }

    /// Lets something happen.
    pub(super) fn draw(&mut self, world: &mut World, dice: &mut SeededDice) {
        self.bury(world);
        self.joined.extend(world.ready().map(|(node, _)| node));
        let Some(&(kind, name)) = self.kinds.get(dice.below(self.kinds.len())) else { return };
        if self.happens(kind, world, dice) {
            *self.drawn.entry(name).or_default() += 1;
        }
    }

    /// Returns how long nothing happens by itself, at most so long.
    pub(super) fn quiet(&self, now: Time, most: Duration) -> Duration {
        self.blips.iter().map(|(at, ..)| at.since(now)).min().map_or(most, |due| due.min(most))
    }

    /// Ends what was to last until now.
    pub(super) fn end_due(&mut self, world: &mut World) {
        let now = world.now();
        self.blips.retain(|(at, node, before)| {
            if *at <= now {
                world.set_wall_offset(*node, *before);
            }
            *at > now
        });
    }

    fn happens(&mut self, kind: Kind, world: &mut World, dice: &mut SeededDice) -> bool {
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
                if self.cuts >= self.nodes / 2 || node == other {
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
                if !self.may_stop(world, node) {
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
                if !self.may_stop(world, node) {
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
                if world.running().count() >= self.nodes + (self.nodes / 2).max(1) {
                    return false;
                }
                let joiner = world.spawn_random();
                self.join(world, joiner);
            }
            Kind::Leave => {
                let ready = world.node(node).is_some_and(|node| node.status() == Status::Ready);
                let leaves = self.leaving.contains(&node);
                if !ready
                    || leaves
                    || self.doubts
                    || world.is_paused(node)
                    || self.left(world) <= 2
                    || !self.may_stop(world, node)
                {
                    return false;
                }
                if self.may_die(world, node) {
                    self.lost.insert(node);
                    self.gone.insert(node);
                }
                world.command(node, Command::Leave);
                self.leaving.push(node);
            }
            Kind::ClockStep => {
                let offset = step(dice);
                self.set_clock(world, node, offset);
            }
            Kind::ClockBlip => {
                if self.blips.iter().any(|(_, other, _)| *other == node) {
                    return false;
                }
                let (offset, before) = (step(dice), world.wall_offset(node));
                self.set_clock(world, node, offset);
                let length = [200, 1000, 4000][dice.below(3)];
                let length = Duration::from_millis(100 + dice.below(length) as u64);
                self.blips.push((world.now().after(length), node, before));
            }
            Kind::ClockSteps => {
                let offset = step(dice);
                let alike = dice.below(2) == 0;
                for node in 0..count as u32 {
                    let offset = if alike { offset } else { step(dice) };
                    if dice.below(2) == 0 {
                        self.set_clock(world, node, offset);
                    }
                }
            }
            Kind::ClocksRight => {
                for node in 0..count as u32 {
                    let small = dice.below(2 * SMALL as usize) as i64 - SMALL;
                    self.set_clock(world, node, small);
                }
            }
            Kind::WrongStart => {
                let led = can_be_told_the_time(world, node);
                if !led
                    || self.misled.is_some_and(|other| other != node)
                    || self.gone.contains(&node)
                    || self.leaving.contains(&node)
                {
                    return false;
                }
                self.set_clock(world, node, step(dice));
                self.misled = Some(node);
                world.crash(node);
                self.restart(world, node);
            }
            Kind::SlowDisk => world.slow_disk(node, [1, 10, 500][dice.below(3)]),
            Kind::FullDisk => world.fill_disk(node, dice.below(2) == 0),
            Kind::LostDisk => {
                if self.gone.contains(&node) || !self.may_lose(world) {
                    return false;
                }
                self.lose(node);
                world.forget(node);
            }
            Kind::OldDisk => return self.roll_back(world, node),
            Kind::LostIdentity => {
                if self.gone.contains(&node) || self.leaving.contains(&node) || !self.may_die(world, node) {
                    return false;
                }
                // Its new self can be lost, too, and is another member (seed 2000277 over Chord).
                self.lose(u32::MAX - (node << 16 | world.contact(node).incarnation & 0xffff));
                self.rotten.retain(|_, (rotten, _)| *rotten != node);
                self.joined.remove(&node);
                self.set_right(world, node);
                world.renew(node);
                self.join(world, node);
            }
            Kind::Death => {
                if self.gone.contains(&node) || self.leaving.contains(&node) || !self.may_die(world, node) {
                    return false;
                }
                self.lose(node);
                self.gone.insert(node);
                world.crash(node);
            }
            Kind::Rot => return self.rot(world, node, dice),
        }
        true
    }

    /// Sets the time of day of a node.
    fn set_clock(&mut self, world: &mut World, node: u32, offset: i64) {
        self.blips.retain(|(_, other, _)| *other != node);
        world.set_wall_offset(node, offset);
        if offset.abs() <= SMALL {
            self.misled = self.misled.filter(|misled| *misled != node);
        }
    }

    /// Sets the time of day of a node that is about to start right, unless it is the one that may be wrong.
    fn set_right(&mut self, world: &mut World, node: u32) {
        if world.wall_offset(node).abs() > SMALL
            && (self.misled != Some(node) || !can_be_told_the_time(world, node))
        {
            self.set_clock(world, node, 0);
        }
        self.blips.retain(|(_, other, _)| *other != node);
    }

    /// Keeps what is on a disk, and puts it back some time later.
    fn roll_back(&mut self, world: &mut World, node: u32) -> bool {
        let Some((taken, node, snapshot, partners)) = self.old.take() else {
            let members = partners(world, node);
            self.old = world.snapshot(node).map(|snapshot| (world.now(), node, snapshot, members));
            return false;
        };
        let awake = |node: u32| world.node(node).is_some() && !world.is_paused(node);
        let awake = (0..world.len() as u32).all(|node| awake(node) || self.gone.contains(&node));
        let there = |(node, disk): &(u32, Disk)| !self.gone.contains(node) && disk_of(world, *node) == *disk;
        let outdated = self.gone.contains(&node) || world.born(node) != Some(snapshot.born());
        if outdated || !partners.iter().all(|others| others.iter().any(there)) {
            // It is another disk by now, or no member is left that it would ask.
            return false;
        }
        if !awake || world.now().since(taken) < OLD || !self.may_lose(world) {
            self.old = Some((taken, node, snapshot, partners));
            return false;
        }
        self.lose(node);
        world.roll_back(node, &snapshot);
        true
    }

    /// Damages a record.
    fn rot(&mut self, world: &mut World, node: u32, dice: &mut SeededDice) -> bool {
        let space = [Space::Data, Space::Members][dice.below(2)];
        self.look(world);
        if !self.lost.is_empty() || !self.leaving.is_empty() || self.smallest < 2 || self.gone.contains(&node)
        {
            return false;
        }
        let rotten = &self.rotten;
        let config = world.config().clone();
        let two = |slot: &u32| whole_view(world, *slot).is_some_and(|view| view.members.len() >= 2);
        let whole: BTreeSet<u32> = (0..config.slots).filter(two).collect();
        let slot = |key: &Bytes| Id::from_first_bytes(key).map(|id| Store::slot_of(id, &config));
        let served = |key: &Bytes| slot(key).is_ok_and(|slot| whole.contains(&slot));
        let may = |key: &Bytes| !rotten.contains_key(&(space, key.clone())) && served(key);
        let Some((key, damaged)) = world.rot(node, space, &may) else {
            return false;
        };
        self.rotten.insert((space, key), (node, damaged));
        self.doubts = true;
        true
    }

    /// Everything stops at once, and all that ran comes back.
    fn power_cut(&mut self, world: &mut World) {
        let running: Vec<u32> = world.running().map(|(node, _)| node).collect();
        running.iter().for_each(|node| world.crash(*node));
        // What started with a wrong clock before, does not now: nobody is there to tell it the time.
        self.misled = None;
        for node in &running {
            self.set_right(world, *node);
            world.restart(*node);
        }
        running.iter().for_each(|node| self.come_back(world, *node));
        // Who was about to leave has forgotten that, and stays.
        for node in self.leaving.drain(..) {
            self.gone.remove(&node);
        }
    }

    /// Ends everything that goes wrong, and starts everybody who did not leave for good.
    pub(super) fn end(&mut self, world: &mut World) {
        world.network.quiet();
        self.blips.clear();
        for node in 0..world.len() as u32 {
            world.resume(node);
            world.set_wall_offset(node, 0);
            world.slow_disk(node, 1);
            world.fill_disk(node, false);
        }
        let stopped: Vec<u32> = (0..world.len() as u32)
            .filter(|node| world.node(*node).is_none() && !self.gone.contains(node))
            .collect();
        stopped.iter().for_each(|node| world.restart(*node));
        stopped.iter().for_each(|node| self.come_back(world, *node));
    }

    /// Takes away the nodes that have left. Returns those that may come back.
    pub(super) fn bury(&mut self, world: &mut World) -> Vec<u32> {
        let out = |node: &u32| world.node(*node).is_none_or(|node| node.status() == Status::Out);
        let (out, leaving): (Vec<u32>, Vec<u32>) = self.leaving.iter().partition(|node| out(node));
        self.leaving = leaving;
        for node in &out {
            if !world.is_paused(*node) {
                world.crash(*node);
            }
        }
        out.into_iter().filter(|node| !self.gone.contains(node)).collect()
    }

    /// The same in peace: those that may come back do.
    pub(super) fn bury_in_peace(&mut self, world: &mut World) {
        for node in self.bury(world) {
            self.restart(world, node);
        }
    }

    fn restart(&mut self, world: &mut World, node: u32) {
        self.set_right(world, node);
        world.restart(node);
        self.come_back(world, node);
    }

    /// Comes back through everybody it may have known. A node that never had a ring joins; one that never had peers is
    /// its ring.
    fn come_back(&self, world: &mut World, node: u32) {
        let others = (0..world.len() as u32).filter(|other| *other != node && !self.gone.contains(other));
        let mut seeds: Vec<u32> = others.collect();
        // Those that run are the best bet.
        seeds.sort_by_key(|other| world.node(*other).is_none());
        let contacts = seeds.iter().map(|other| world.contact(*other)).collect();
        if seeds.is_empty() {
            world.create(node);
        } else if self.joined.contains(&node) {
            world.command(node, Command::Rejoin { seeds: contacts });
        } else {
            world.command(node, Command::Join { seeds: contacts });
        }
    }

    fn join(&self, world: &mut World, joiner: u32) {
        let seeds: Vec<u32> =
            (0..world.len() as u32).filter(|seed| *seed != joiner && !self.gone.contains(seed)).collect();
        let (mut seeds, down): (Vec<u32>, Vec<u32>) =
            seeds.into_iter().partition(|seed| world.node(*seed).is_some());
        seeds.extend(down);
        world.join(joiner, &seeds);
    }

    /// How many nodes there are that did not go for good.
    fn left(&self, world: &World) -> usize {
        world.len() - self.gone.len()
    }

    /// See [`Kind::Pause`].
    fn may_stop(&self, world: &World, node: u32) -> bool {
        let stopped = |node: &u32| world.node(*node).is_none() || world.is_paused(*node);
        let down = (0..world.len() as u32).filter(|node| !self.gone.contains(node)).filter(stopped).count();
        !self.gone.contains(&node)
            && !stopped(&node)
            && self.lost.len() < 2
            && down < (self.left(world) / 2).max(1)
    }

    /// See [`Kind::LostDisk`].
    fn may_lose(&mut self, world: &World) -> bool {
        self.look(world);
        let disks = match self.smallest.min(members_now(world, &self.leaving)) {
            0 | 1 => 0,
            2 => 1,
            members => members - (members / 2 + 1),
        };
        !self.doubts && self.lost.len() < disks && self.may_be_second(world)
    }

    /// See [`Kind::Death`].
    fn may_die(&mut self, world: &World, node: u32) -> bool {
        self.look(world);
        if !outlives(world, node) {
            return false;
        }
        let smallest = self.smallest.min(members_now(world, &self.leaving));
        let disks = smallest.saturating_sub(smallest / 2 + 1);
        !self.doubts && self.lost.len() < disks && self.may_be_second(world) && self.left(world) > 2
    }

    /// Says whether a disk may be lost though another one has been and is not made up for: nobody else is away, or views
    /// would go on with fewer members than they had.
    fn may_be_second(&self, world: &World) -> bool {
        let away = |node: &u32| world.node(*node).is_none() || world.is_paused(*node);
        let others =
            (0..world.len() as u32).filter(|node| !self.gone.contains(node) && !self.lost.contains(node));
        self.lost.is_empty() || (others.filter(away).count() == 0 && self.leaving.is_empty())
    }

    fn lose(&mut self, node: u32) {
        self.lost.insert(node);
        self.rotten.retain(|_, (rotten, _)| *rotten != node);
    }

    /// Sees what has been made good.
    fn look(&mut self, world: &World) {
        if let Some(members) = smallest_view(world, &self.leaving, &self.gone) {
            self.lost.clear();
            // Not before: what took the place of a damaged record may be older than what that was.
            self.rotten.retain(|(space, key), (node, damaged)| {
                world.durable(*node).is_some_and(|disk| disk.read(*space, key).as_ref() == Some(damaged))
            });
            self.doubts = !self.rotten.is_empty();
            self.smallest = members;
        }
    }
}

/// Says whether more than half of every small Chord ring is there without a node.
fn outlives(world: &World, node: u32) -> bool {
    let here =
        |member: &Contact| world.running().any(|(index, other)| index != node && other.me() == *member);
    let lists =
        world.running().filter_map(|(_, other)| Some(other.overlay().as_chord()?.forming().members()));
    lists
        .into_iter()
        .all(|list| list.is_empty() || 2 * list.iter().filter(|member| here(member)).count() > list.len())
}

/// Says whether three nodes are ready and know the time, besides this one.
fn can_be_told_the_time(world: &World, node: u32) -> bool {
    let knows = |(index, other): &(u32, &Node)| {
        let settled = |store: &Store| store.clock_view(world.now(), world.wall(*index)).settled;
        // The stand-ins of tests have no time.
        *index != node && !world.is_paused(*index) && other.store().is_none_or(settled)
    };
    world.ready().filter(knows).count() >= 3
}

/// Draws by how many milliseconds a clock steps.
fn step(dice: &mut SeededDice) -> i64 {
    let (from, to) = STEPS[dice.below(STEPS.len())];
    let size = (from + dice.below(to - from + 1)) as i64;
    if dice.below(2) == 0 { size } else { -size }
}

/// Returns how many members that stay the smallest view has, if all slots have all their copies on nodes that run and serve them,
/// and none on a node that never comes back.
fn smallest_view(world: &World, leaving: &[u32], gone: &BTreeSet<u32>) -> Option<usize> {
    let ready = || world.ready().filter(|(index, _)| !world.is_paused(*index));
    let stays = ready().filter(|(index, _)| !leaving.contains(index)).count();
    let wanted = stays.min(world.config().replicas.into());
    if stays == 0 {
        return None;
    }
    // The stand-ins of tests have no slots.
    if ready().all(|(_, node)| node.store().is_none()) {
        return Some(wanted);
    }
    let mut smallest = usize::MAX;
    for slot in 0..world.config().slots {
        let newest = whole_view(world, slot)?;
        let lost = |member: &Member| gone.iter().any(|node| world.contact(*node).id == member.id);
        if newest.members.len() < wanted || newest.members.iter().any(lost) {
            return None;
        }
        let leaves = |member: &&Member| leaving.iter().any(|node| world.contact(*node).id == member.id);
        smallest = smallest.min(newest.members.len() - newest.members.iter().filter(leaves).count());
    }
    Some(smallest)
}

/// Returns the view of a slot, if all its members run and serve it.
fn whole_view(world: &World, slot: u32) -> Option<&View> {
    let ready = || world.ready().filter(|(index, _)| !world.is_paused(*index));
    let views = || ready().filter_map(|(_, node)| node.store()?.view(slot));
    let (newest, _) = views().max_by_key(|(view, _)| view.epoch)?;
    let serving = views().filter(|(view, serves)| view.epoch == newest.epoch && *serves).count();
    (serving == newest.members.len()).then_some(newest)
}

/// Returns how many members that stay the smallest view has by now: fewer than when all copies were there if a node was
/// away for long, or has voted for a smaller one (seed 2000148), or has not heard of the view (seed 6000359 over Chord).
fn members_now(world: &World, leaving: &[u32]) -> usize {
    // The stand-ins of tests have no slots.
    if world.running().all(|(_, node)| node.store().is_none()) {
        return usize::MAX;
    }
    let disks: BTreeMap<_, _> = (0..world.len() as u32)
        .filter(|node| !leaving.contains(node))
        .filter_map(|node| Some((world.contact(node).id, stored(world, node)?)))
        .collect();
    let newest = |slot| {
        let stores = || world.running().filter_map(|(_, node)| node.store());
        let view = stores().filter_map(|store| store.view(slot)).max_by_key(|(view, _)| view.epoch);
        let knows = |member: &&Member, epoch: u64| {
            disks
                .get(&member.id)
                .and_then(|disk| disk.view(slot))
                .is_some_and(|(view, _)| view.epoch >= epoch)
        };
        let know = view.map(|(view, _)| view.members.iter().filter(|it| knows(it, view.epoch)).count());
        let stay = |members: &[Member]| members.iter().filter(|it| disks.contains_key(&it.id)).count();
        let next = stores().filter_map(|store| store.next_members(slot)).map(stay);
        know.into_iter().chain(next).min().unwrap_or(0)
    };
    (0..world.config().slots).map(newest).min().unwrap_or(0)
}

/// Which disk a node has: whose it is, and the how manyth.
type Disk = (NodeId, Option<u32>);
/// The other members of a view, and which disks they have.
type Partners = Vec<(u32, Disk)>;

fn disk_of(world: &World, node: u32) -> Disk {
    (world.contact(node).id, world.born(node))
}

/// Returns the other members of each view on a node's disk.
fn partners(world: &World, node: u32) -> Vec<Partners> {
    let other = |member: &Member| {
        let mut nodes = (0..world.len() as u32).filter(|other| *other != node);
        nodes.find(|other| world.contact(*other).id == member.id).map(|other| (other, disk_of(world, other)))
    };
    let others = |view: &View| view.members.iter().filter_map(other).collect();
    let views = |store: Store| {
        (0..world.config().slots).filter_map(|slot| Some(others(store.view(slot)?.0))).collect()
    };
    stored(world, node).map_or_else(Vec::new, views)
}

/// Returns the store as it is on a node's disk. That may be older than what the node knows (seed 2000412 over Chord).
fn stored(world: &World, node: u32) -> Option<Store> {
    let born = world.born(node).unwrap_or_default();
    Some(Store::open(world.contact(node), born, world.durable(node)?, world.config()))
}
