//! How long things took: a log-linear histogram, small enough to be sent as a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bits of a number that are kept: what is read off is at most a 64th too small.
const BITS: u32 = 6;

/// Counts numbers by size. Exact up to 127, then in 64 steps per power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Histogram {
    counts: BTreeMap<u32, u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn add(&mut self, number: u64) {
        *self.counts.entry(step(number)).or_default() += 1;
        self.count += 1;
        self.sum += number;
        self.max = self.max.max(number);
    }

    /// Adds everything another one has counted.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (step, count) in &other.counts {
            *self.counts.entry(*step).or_default() += count;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the number that this share of all numbers does not exceed, in parts of ten thousand.
    pub(crate) fn quantile(&self, share: u64) -> u64 {
        let rank = (self.count * share).div_ceil(10_000).max(1);
        let mut seen = 0;
        for (step, count) in &self.counts {
            seen += count;
            if seen >= rank {
                return least(*step);
            }
        }
        0
    }
}

/// Returns the step a number belongs to.
fn step(number: u64) -> u32 {
    let shift = number.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    (shift << BITS) + u32::try_from(number >> shift).unwrap_or(u32::MAX)
}

/// Returns the least number of a step.
fn least(step: u32) -> u64 {
    let shift = (step >> BITS).saturating_sub(1);
    u64::from(step - (shift << BITS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_found_again_within_a_64th() {
        let mut last = 0;
        for number in (0..2000).chain((11..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let (step, found) = (step(number), least(step(number)));
            assert!(found <= number && number - found <= number / 64, "{number} became {found}");
            assert!(step >= last, "{number}");
            last = step;
        }
    }

    #[test]
    fn shares_are_read_off_in_order() {
        let (mut all, mut half) = (Histogram::default(), Histogram::default());
        for number in 1..=100 {
            if number % 2 == 0 { half.add(number) } else { all.add(number) }
        }
        all.merge(&half);
        let shares = [0, 5_000, 9_000, 9_900, 10_000].map(|share| all.quantile(share));
        assert_eq!((shares, all.max(), all.count()), ([1, 50, 90, 99, 100], 100, 100));
        assert_eq!(Histogram::default().quantile(5_000), 0);
    }
}
