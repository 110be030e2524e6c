//! Randomness as the core knows it: asked for, never owned.

use core::time::Duration;

/// Where a node's random choices come from.
///
/// The runtime seeds it from the operating system, the simulator derives it from the run's seed, the checker answers
/// every possible way in turn.
pub trait Dice {
    /// Returns 64 random bits.
    fn roll(&mut self) -> u64;

    /// Returns a number below `limit`, or 0 for a limit of 0.
    fn below(&mut self, limit: usize) -> usize {
        // Multiply and shift: the bias is below 2^-32 for any list a node holds.
        ((u128::from(self.roll()) * limit as u128) >> 64) as usize
    }

    /// Returns `span` times a random factor from 0.5 up to 1.5, so that periodic work of many nodes does not align.
    fn jitter(&mut self, span: Duration) -> Duration {
        let thousandths = 500 + self.below(1000) as u32;
        span / 1000 * thousandths
    }
}

/// A small generator (SplitMix64) whose stream never changes between releases: a printed seed stays worth keeping.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeededDice(u64);

impl SeededDice {
    /// Starts the stream that belongs to `seed`.
    pub fn new(seed: u64) -> SeededDice {
        SeededDice(seed)
    }

    /// Starts an independent stream for part `part` of the thing seeded, for instance one node of a world.
    pub fn derive(seed: u64, part: u64) -> SeededDice {
        let mut mixer = SeededDice(seed ^ part.wrapping_mul(0xa076_1d64_78bd_642f));
        SeededDice(mixer.roll() ^ part)
    }
}

impl Dice for SeededDice {
    #[inline]
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        // First outputs of SplitMix64 for seed 1234567, as published with the algorithm.
        let mut dice = SeededDice::new(1_234_567);
        assert_eq!(dice.roll(), 6_457_827_717_110_365_317);
        assert_eq!(dice.roll(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut dice = SeededDice::new(1);
        let mut seen = [false; 7];
        for _ in 0..200 {
            seen[dice.below(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(dice.below(0), 0);
        let span = Duration::from_secs(10);
        for _ in 0..100 {
            let jittered = dice.jitter(span);
            assert!(jittered >= span / 2 && jittered < span * 3 / 2);
        }
    }
}
