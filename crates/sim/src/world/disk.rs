//! Disks: what a node has asked to keep, and what it would find after a loss of power.
//!
//! Writes are seen at once and durable when a sync ends. One sync runs at a time and covers everything asked for before
//! it started, as group commit does. A crash loses what no sync has covered; options lose, damage or turn back more.

use std::time::Duration;

use kringle_core::config::Config;
use kringle_core::contact::Contact;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Input};
use kringle_core::node::Node;
use kringle_core::records::{Bytes, MemoryRecords, Records, Space, Write};

use super::{Alarm, Arrival, World};
use crate::queue::Either;

/// Gives a fresh node its store: the node, its birth number, what its disk holds, the configuration.
///
/// The birth number is the same for every start from one disk, and another one for each disk that was empty at a start.
pub type StoreMaker = fn(Node, u32, &dyn Records, &Config) -> Node;

/// What the disks of a world are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// A sync takes at least this long. Zero: it ends with the next event.
    pub sync_min: Duration,
    /// And at most this long.
    pub sync_max: Duration,
    /// Whether a crash may leave some of what no sync has covered: the first few writes, each whole. Real disks do.
    pub leaves_some: bool,
}

impl Default for DiskOptions {
    fn default() -> DiskOptions {
        DiskOptions {
            sync_min: Duration::from_micros(100),
            sync_max: Duration::from_millis(1),
            leaves_some: false,
        }
    }
}

/// What was durable on a disk at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    records: MemoryRecords,
    born: u32,
}

impl Snapshot {
    /// Returns the birth number of the disk.
    pub fn born(&self) -> u32 {
        self.born
    }
}

/// How the nodes of a world get their stores.
pub(super) struct Stores {
    make: StoreMaker,
    options: DiskOptions,
}

/// One disk.
pub(super) struct Disk {
    options: DiskOptions,
    /// What the node sees.
    visible: MemoryRecords,
    /// What is left after a loss of power.
    durable: MemoryRecords,
    /// Asked for and not durable yet, oldest first, with their tickets.
    waiting: Vec<(u64, Vec<Write>)>,
    /// How many of these the running sync covers; 0 if none runs.
    syncing: usize,
    /// The birth number of what is on the disk.
    born: u32,
    /// How often the disk was found empty at a start.
    births: u32,
    /// By how much syncs take longer than they should.
    slow: u32,
    full: bool,
    dice: SeededDice,
}

/// Keeps what disks draw apart from other things drawn from the same seed.
const DISKS: u64 = 5 << 40;
/// Keeps ids of renewed nodes apart from those of others.
const RENEWED: u64 = 1 << 60;

impl Disk {
    fn new(options: DiskOptions, seed: u64, node: u32) -> Disk {
        Disk {
            options,
            visible: MemoryRecords::default(),
            durable: MemoryRecords::default(),
            waiting: Vec::new(),
            syncing: 0,
            born: 0,
            births: 0,
            slow: 1,
            full: false,
            dice: SeededDice::derive(seed ^ DISKS, node.into()),
        }
    }

    pub(super) fn records(&self) -> &MemoryRecords {
        &self.visible
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn write(&mut self, ticket: u64, writes: Vec<Write>) {
        self.visible.apply(writes.iter().cloned());
        self.waiting.push((ticket, writes));
    }

    /// Forgets what no sync has covered.
    pub(super) fn lose_power(&mut self) {
        let dirty = !self.waiting.is_empty();
        if self.options.leaves_some {
            let left = self.dice.below(self.waiting.len() + 1);
            let left = self.waiting.drain(..left).flat_map(|(_, writes)| writes);
            self.durable.apply(left);
        }
        if dirty {
            self.visible = self.durable.clone();
        }
        self.waiting.clear();
        self.syncing = 0;
    }

    /// Returns the birth number for a node that starts with this disk.
    fn start(&mut self) -> u32 {
        if self.durable.is_empty() {
            self.births += 1;
            self.born = self.births;
        }
        self.born
    }

    fn replace(&mut self, records: MemoryRecords) {
        self.waiting.clear();
        self.syncing = 0;
        self.visible = records.clone();
        self.durable = records;
    }

    fn sync_delay(&mut self) -> Duration {
        let DiskOptions { sync_min, sync_max, .. } = self.options;
        let spread = sync_max.saturating_sub(sync_min).as_micros() as usize;
        (sync_min + Duration::from_micros(self.dice.below(spread + 1) as u64)) * self.slow
    }

    /// Ends the sync. Returns the last ticket it covered.
    fn end_sync(&mut self) -> Option<u64> {
        let covered = std::mem::take(&mut self.syncing);
        let ticket = self.waiting.get(covered.checked_sub(1)?)?.0;
        self.durable.apply(self.waiting.drain(..covered).flat_map(|(_, writes)| writes));
        Some(ticket)
    }
}

impl World {
    /// From now on every node has a disk, and a store that `make` gives it. For worlds without nodes.
    ///
    /// # Panics
    /// If there are nodes already: they would have none.
    #[must_use]
    pub fn with_store(mut self, make: StoreMaker, options: DiskOptions) -> World {
        assert!(self.is_empty(), "a world gets stores before it has nodes");
        self.stores = Some(Box::new(Stores { make, options }));
        self
    }

    /// Makes the node of a place, with its store if it is to have one.
    pub(super) fn start(
        &mut self,
        index: u32,
        Contact { id, incarnation, addr }: Contact,
        disk: Option<Box<Disk>>,
    ) -> (Option<Box<Disk>>, Node) {
        let node = (self.make)(id, incarnation, addr, &self.config);
        let Some(stores) = &self.stores else { return (None, node) };
        let mut disk = disk.unwrap_or_else(|| Box::new(Disk::new(stores.options, self.seed, index)));
        let born = disk.start();
        let node = (stores.make)(node, born, disk.records(), &self.config);
        (Some(disk), node)
    }

    /// Starts a sync if there is something to sync and none is under way.
    pub(super) fn start_sync(&mut self, node: u32) {
        let slot = &mut self.slots[node as usize];
        let Some(disk) = &mut slot.disk else { return };
        if disk.syncing > 0 || disk.waiting.is_empty() {
            return;
        }
        disk.syncing = disk.waiting.len();
        // In a world that follows a schedule the sync ends when it is told to.
        if self.held.is_none() {
            let (delay, life) = (disk.sync_delay(), slot.life);
            self.push(self.now.after(delay), Either::Small(Alarm::Synced { node, life }));
        }
    }

    /// A sync has ended. The node hears of it, later if it is stopped: its machine has synced all the same.
    pub(super) fn synced(&mut self, node: u32, life: u32) {
        let slot = &mut self.slots[node as usize];
        let Some(disk) = slot.disk.as_mut().filter(|_| slot.life == life) else { return };
        let Some(ticket) = disk.end_sync() else { return };
        self.mix(&[6, u64::from(node), ticket]);
        self.arrived(Arrival { to: node, life, meant: None, input: Input::Persisted { ticket } });
    }

    /// Ends the sync of a node that is under way, in a world that follows a schedule. Returns whether there was one.
    pub fn sync(&mut self, node: u32) -> bool {
        let disk = self.slots[node as usize].disk.as_mut();
        let Some(ticket) = disk.and_then(|disk| disk.end_sync()) else { return false };
        self.arrive(node, Input::Persisted { ticket });
        true
    }

    /// Returns what a node sees on its disk.
    pub fn records(&self, node: u32) -> Option<&MemoryRecords> {
        Some(&self.slots[node as usize].disk.as_ref()?.visible)
    }

    /// Returns what a node would find on its disk after a loss of power.
    pub fn durable(&self, node: u32) -> Option<&MemoryRecords> {
        Some(&self.slots[node as usize].disk.as_ref()?.durable)
    }

    /// Returns the birth number of what is on a node's disk.
    pub fn born(&self, node: u32) -> Option<u32> {
        Some(self.slots[node as usize].disk.as_ref()?.born)
    }

    /// Stops a node, and its disk is lost. It can be restarted with an empty one.
    pub fn forget(&mut self, node: u32) {
        self.crash(node);
        if let Some(disk) = &mut self.slots[node as usize].disk {
            disk.replace(MemoryRecords::default());
        }
    }

    /// Returns what is durable on a node's disk now. `None` if it has none.
    pub fn snapshot(&self, node: u32) -> Option<Snapshot> {
        let disk = self.slots[node as usize].disk.as_ref()?;
        Some(Snapshot { records: disk.durable.clone(), born: disk.born })
    }

    /// Stops a node, and puts back what was on its disk earlier. It can be restarted with that.
    pub fn roll_back(&mut self, node: u32, to: &Snapshot) {
        self.crash(node);
        if let Some(disk) = &mut self.slots[node as usize].disk {
            disk.replace(to.records.clone());
            disk.born = to.born;
        }
    }

    /// What a driver does when a node finds that its disk is an old copy: the node starts anew with an empty one, and
    /// comes back to its ring through whoever it was in touch with.
    pub(super) fn replace_disk(&mut self, node: u32) {
        let Some(running) = self.node(node) else { return };
        let mut seeds = running.routes().neighbours();
        if seeds.is_empty() {
            // Those it remembers, also those that are down: it may have found out before it had a place in the ring, or
            // after it was left alone.
            let mut others: Vec<u32> = (0..self.slots.len() as u32).filter(|other| *other != node).collect();
            others.sort_by_key(|other| self.node(*other).is_none());
            seeds = others.into_iter().map(|other| self.contact(other)).collect();
        }
        self.forget(node);
        self.restart(node);
        self.command(node, Command::Rejoin { seeds });
    }

    /// From now on the syncs of a node take so many times as long. A restart does not change it.
    pub fn slow_disk(&mut self, node: u32, factor: u32) {
        if let Some(disk) = &mut self.slots[node as usize].disk {
            disk.slow = factor.max(1);
        }
    }

    /// Fills up the disk of a node, or empties it so far that there is room again, and tells the node. Writes still
    /// succeed: a driver reports a full disk while it has some room in reserve. A restarted node is told again.
    pub fn fill_disk(&mut self, node: u32, full: bool) {
        let slot = &mut self.slots[node as usize];
        let life = slot.life;
        let Some(disk) = slot.disk.as_mut().filter(|disk| disk.full != full) else { return };
        disk.full = full;
        let input = Input::Room { enough: !full };
        if self.held.is_some() {
            return self.arrive(node, input);
        }
        self.arrived(Arrival { to: node, life, meant: None, input });
    }

    /// Flips a bit of a value that is stored in a space, under a key that may be chosen. Returns the key and what is there
    /// now; `None` if nothing durable is there.
    pub fn rot(
        &mut self,
        node: u32,
        space: Space,
        choose: &dyn Fn(&Bytes) -> bool,
    ) -> Option<(Bytes, Bytes)> {
        let disk = self.slots[node as usize].disk.as_mut()?;
        let mut entries = disk.durable.entries(space);
        entries.retain(|(key, value)| {
            !value.is_empty() && disk.visible.read(space, key).as_ref() == Some(value) && choose(key)
        });
        let at = disk.dice.below(entries.len());
        let (key, value) = entries.get(at)?;
        let mut damaged = value.to_vec();
        damaged[disk.dice.below(value.len())] ^= 1 << disk.dice.below(8);
        let damaged: Bytes = damaged.into();
        let write = Write { space, key: key.clone(), value: Some(damaged.clone()) };
        disk.visible.apply([write.clone()]);
        disk.durable.apply([write]);
        Some((key.clone(), damaged))
    }

    /// Stops a node for good, and puts another one on the same address: with a new id and an empty disk, not part of a
    /// ring yet.
    pub fn renew(&mut self, node: u32) {
        self.forget(node);
        let lives = u64::from(self.slots[node as usize].life);
        self.slots[node as usize].contact.id = self.random_id(RENEWED ^ lives << 20 ^ u64::from(node));
        self.restart(node);
    }
}

#[cfg(test)]
mod tests;
