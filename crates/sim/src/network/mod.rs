//! What lies between the nodes: delay, loss, duplication, reordering, cut links, partitions, slow nodes.
//!
//! Delays come from a [`Topology`], faults from the fields and verbs of [`Network`]. A fault that is off draws no dice,
//! so a run without it is the same run as before the fault existed.

mod faults;
mod file;
mod matrix;
mod spec;
mod topology;
mod transit_stub;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};

use faults::Partition;

pub(crate) use file::{content, file_lines, text_lines};

pub use file::FileError;
pub use matrix::Matrix;
pub use topology::Topology;
pub use transit_stub::{TransitStub, TransitStubConfig};

/// A network that treats messages badly, as far as it is told to.
#[derive(Clone, Debug)]
pub struct Network {
    /// Delays.
    pub topology: Topology,
    /// How many of a million messages are lost.
    pub loss_per_million: u32,
    /// How many of a million messages arrive twice.
    pub doubled_per_million: u32,
    /// How many of a million messages are held up, so that later ones overtake them.
    pub reordered_per_million: u32,
    /// How long such a message is held up at most.
    pub reorder_by: Duration,
    /// How many of a million pairs of nodes can not talk to each other, though others can talk to both. Which pairs
    /// is decided by the seed: the same ones after each [`Network::mend`], and more of them for a larger number.
    pub cut_pairs_per_million: u32,
    /// Whether nodes whose link is cut talk through a third one, as real nodes do. It takes them a moment to find one.
    pub relays: bool,
    /// Whether only nodes that have talked before have a connection; otherwise everybody has.
    pub sparse: bool,
    /// How many round trips it takes to open a connection, before its first message leaves. Real nodes need two behind a
    /// TCP connection: one to prove their keys, one to greet. Zero: connections are there.
    pub handshake: u32,
    cuts: BTreeSet<(u32, u32)>,
    partition: Partition,
    /// Slow nodes and their factors, sorted by node.
    slow: Vec<(u32, u32)>,
    seed: u64,
    dice: SeededDice,
}

impl Network {
    /// Makes a well-behaved network.
    pub fn new(topology: Topology, seed: u64) -> Network {
        Network {
            topology,
            loss_per_million: 0,
            doubled_per_million: 0,
            reordered_per_million: 0,
            reorder_by: Duration::ZERO,
            cut_pairs_per_million: 0,
            relays: false,
            sparse: false,
            handshake: 0,
            cuts: BTreeSet::new(),
            partition: Partition::Whole,
            slow: Vec::new(),
            seed,
            dice: SeededDice::derive(seed, u64::MAX),
        }
    }

    /// Decides the fate of one message: after which delays copies of it arrive. None is lost.
    pub fn transmit(&mut self, from: u32, to: u32) -> [Option<Duration>; 2] {
        let mut copies = [None, None];
        if self.is_cut(from, to) || self.happens(self.loss_per_million) {
            return copies;
        }
        let delay = self.delay(from, to);
        let held_up = self.held_up();
        copies[0] = Some(delay.saturating_add(held_up));
        if self.happens(self.doubled_per_million) {
            copies[1] = Some(self.delay(from, to).saturating_mul(2).saturating_add(held_up));
        }
        copies
    }

    /// The same for a message that goes through a third node. Connections keep the order, so nothing arrives twice.
    pub fn transmit_through(&mut self, from: u32, via: u32, to: u32) -> [Option<Duration>; 2] {
        let (there, on) = (self.transmit(from, via)[0], self.transmit(via, to)[0]);
        [there.zip(on).map(|(there, on)| there.saturating_add(on)), None]
    }

    /// Returns the delay of one message.
    pub fn delay(&mut self, from: u32, to: u32) -> Duration {
        let delay = match self.topology {
            Topology::Flat { min, max } => {
                let spread = (max.saturating_sub(min)).as_micros() as usize;
                min + Duration::from_micros(self.dice.below(spread + 1) as u64)
            }
            _ => self.topology.direct(self.seed, from, to),
        };
        self.slowed(delay, from, to)
    }

    /// Returns the delay of a message that goes straight from one node to another, without rolling dice: on
    /// [`Topology::Flat`] the mean. This is what the length of a route is compared with.
    pub fn direct(&self, from: u32, to: u32) -> Duration {
        self.slowed(self.topology.direct(self.seed, from, to), from, to)
    }

    /// Returns where a node is, each coordinate from 0 to 1. Drawn from the seed, not stored.
    ///
    /// On the plane these are its coordinates, on the sphere its longitude and its height above the south pole. The
    /// other topologies do not look at them.
    pub fn position(&self, node: u32) -> (f64, f64) {
        topology::point(self.seed, node)
    }

    fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.dice.below(1_000_000) < per_million as usize
    }

    fn held_up(&mut self) -> Duration {
        if !self.happens(self.reordered_per_million) {
            return Duration::ZERO;
        }
        Duration::from_micros(self.dice.below(self.reorder_by.as_micros() as usize + 1) as u64)
    }
}
