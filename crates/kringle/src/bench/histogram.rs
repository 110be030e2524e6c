//! How long things took: buckets that are as wide as a sixty-fourth of what they hold.

/// Buckets for each doubling.
const FINE: u64 = 64;
const FINE_BITS: u32 = FINE.trailing_zeros();

/// Times in microseconds. A quantile is at most 1.6 % above the truth, and never below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    /// Notes one.
    pub(crate) fn record(&mut self, micros: u64) {
        let at = bucket(micros);
        if self.buckets.len() <= at {
            self.buckets.resize(at + 1, 0);
        }
        self.buckets[at] += 1;
        self.count += 1;
        self.max = self.max.max(micros);
    }

    /// Returns how many were noted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the longest.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Returns how long all but a share of them took at most.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return top(at).min(self.max);
            }
        }
        self.max
    }
}

/// Returns the bucket of a time.
fn bucket(micros: u64) -> usize {
    let doublings = (u64::BITS - micros.leading_zeros()).saturating_sub(FINE_BITS + 1);
    // Below the first doubling each time has a bucket; after it, its leading bits choose one.
    (u64::from(doublings) * FINE + (micros >> doublings)) as usize
}

/// Returns the longest time of a bucket.
fn top(at: usize) -> u64 {
    let at = at as u64;
    let doublings = (at / FINE).saturating_sub(1);
    let first = at - doublings * FINE;
    ((first + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_bucket_that_is_narrow() {
        let mut last = 0;
        for micros in (0..5000).chain((13..40).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]))
        {
            let at = bucket(micros);
            assert!(at >= last && top(at) >= micros, "{micros}");
            assert!(top(at) - micros <= micros / FINE, "{micros}: {}", top(at));
            last = at;
        }
    }

    #[test]
    fn quantiles_are_those_of_a_sorted_list() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.max()), (0, 0));
        (1..=1000).for_each(|micros| histogram.record(micros));
        assert_eq!((histogram.count(), histogram.max()), (1000, 1000));
        for (share, exact) in [(0.5, 500), (0.9, 900), (0.99, 990), (0.999, 999), (1.0, 1000)] {
            let found = histogram.quantile(share);
            assert!(found >= exact && found <= exact + exact / 60, "{share}: {found}");
        }
    }
}
