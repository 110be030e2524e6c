//! What lies between the nodes: delay, loss, duplication, cut links.

use std::collections::BTreeSet;
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};

/// Where nodes are, which decides how long a message takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Topology {
    /// Every pair alike: a random delay between two bounds for every message.
    Flat {
        /// Shortest delay.
        min: Duration,
        /// Longest delay.
        max: Duration,
    },
    /// Random points in a square, as in the Pastry paper: delay is distance.
    Plane {
        /// Delay from one corner to the next.
        side: Duration,
    },
}

/// Keeps positions apart from other things drawn from the same seed.
const POSITIONS: u64 = 3 << 40;

/// A network that treats messages badly, as far as it is told to.
#[derive(Clone, Debug)]
pub struct Network {
    /// Delays.
    pub topology: Topology,
    /// How many of a million messages are lost.
    pub loss_per_million: u32,
    /// How many of a million messages arrive twice.
    pub doubled_per_million: u32,
    /// Whether only nodes that have talked before have a connection; otherwise everybody has.
    pub sparse: bool,
    cuts: BTreeSet<(u32, u32)>,
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
            sparse: false,
            cuts: BTreeSet::new(),
            seed,
            dice: SeededDice::derive(seed, u64::MAX),
        }
    }

    /// Cuts the link from one node to another, in this direction only.
    pub fn cut(&mut self, from: u32, to: u32) {
        self.cuts.insert((from, to));
    }

    /// Cuts both directions.
    pub fn cut_both(&mut self, a: u32, b: u32) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Mends both directions of a link.
    pub fn mend_both(&mut self, a: u32, b: u32) {
        self.cuts.remove(&(a, b));
        self.cuts.remove(&(b, a));
    }

    /// Mends everything.
    pub fn mend(&mut self) {
        self.cuts.clear();
    }

    /// Decides the fate of one message: after which delays copies of it arrive. None is lost.
    pub fn transmit(&mut self, from: u32, to: u32) -> [Option<Duration>; 2] {
        let mut copies = [None, None];
        if !self.cuts.is_empty() && self.cuts.contains(&(from, to)) {
            return copies;
        }
        if self.happens(self.loss_per_million) {
            return copies;
        }
        copies[0] = Some(self.delay(from, to));
        if self.happens(self.doubled_per_million) {
            copies[1] = Some(self.delay(from, to) * 2);
        }
        copies
    }

    fn happens(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.dice.below(1_000_000) < per_million as usize
    }

    /// Returns the delay of one message.
    pub fn delay(&mut self, from: u32, to: u32) -> Duration {
        match self.topology {
            Topology::Flat { min, max } => {
                let spread = (max.saturating_sub(min)).as_micros() as usize;
                min + Duration::from_micros(self.dice.below(spread + 1) as u64)
            }
            Topology::Plane { side } => {
                let ((ax, ay), (bx, by)) = (self.position(from), self.position(to));
                side.mul_f64((ax - bx).hypot(ay - by)).max(Duration::from_micros(1))
            }
        }
    }

    /// Returns where a node is, each coordinate from 0 to 1. Drawn from the seed, not stored.
    pub fn position(&self, node: u32) -> (f64, f64) {
        let mut dice = SeededDice::derive(self.seed ^ POSITIONS, node.into());
        let mut unit = || (dice.roll() >> 11) as f64 / (1u64 << 53) as f64;
        (unit(), unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_one_way_and_mended() {
        let flat = Topology::Flat { min: Duration::from_millis(1), max: Duration::from_millis(2) };
        let mut network = Network::new(flat, 1);
        network.cut(1, 2);
        assert_eq!(network.transmit(1, 2), [None, None]);
        assert!(network.transmit(2, 1)[0].is_some());
        network.mend();
        assert!(network.transmit(1, 2)[0].is_some_and(|delay| delay >= Duration::from_millis(1)));
    }

    #[test]
    fn loss_and_duplication_happen_as_often_as_told() {
        let flat = Topology::Flat { min: Duration::from_millis(1), max: Duration::from_millis(1) };
        let mut network = Network::new(flat, 1);
        network.loss_per_million = 100_000;
        network.doubled_per_million = 200_000;
        let fates: Vec<_> = (0..10_000).map(|_| network.transmit(1, 2)).collect();
        let lost = fates.iter().filter(|copies| copies[0].is_none()).count();
        let doubled = fates.iter().filter(|copies| copies[1].is_some()).count();
        assert!((900..1100).contains(&lost), "{lost}");
        assert!((1650..1950).contains(&doubled), "{doubled}");
    }

    #[test]
    fn distance_on_the_plane_is_symmetric_and_drawn_from_the_seed() {
        let plane = Topology::Plane { side: Duration::from_millis(100) };
        let (mut one, mut other) = (Network::new(plane, 1), Network::new(plane, 2));
        assert_eq!(one.delay(3, 4), one.delay(4, 3));
        assert_ne!(one.delay(3, 4), other.delay(3, 4));
        assert!(one.delay(3, 4) <= Duration::from_millis(142));
    }
}
