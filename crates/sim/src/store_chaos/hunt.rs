//! Many seeds, side by side: for a search that only tells what went wrong.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{SetUp, Summary, Violation, run};

/// What a hunt has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hunted {
    /// Seeds that were run.
    pub runs: u64,
    /// Of these, the ones that broke something.
    pub failed: u64,
    /// Operations of clients in runs that ended well.
    pub operations: u64,
    /// Faults in these.
    pub faults: u64,
}

/// Runs every seed of a range, `threads` at a time, and tells each violation as it is found. `set_up` makes what a
/// seed runs with. Ends early when `go_on` says so.
///
/// Runs do not depend on each other or on `threads`; only the order in which violations are told does.
pub fn hunt(
    seeds: RangeInclusive<u64>,
    threads: usize,
    set_up: &(dyn Fn(u64) -> SetUp + Sync),
    go_on: &(dyn Fn() -> bool + Sync),
    tell: &mut (dyn FnMut(&Violation) + Send),
) -> Hunted {
    let next = AtomicU64::new(*seeds.start());
    let told = Mutex::new((Hunted::default(), tell));
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while go_on() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    let outcome = run(seed, &set_up(seed));
                    let Ok(mut told) = told.lock() else { return };
                    told.0.add(&outcome);
                    if let Err(violation) = &outcome {
                        (told.1)(violation);
                    }
                }
            });
        }
    });
    told.into_inner().map_or_else(|poisoned| poisoned.into_inner().0, |told| told.0)
}

impl Hunted {
    fn add(&mut self, outcome: &Result<Summary, Violation>) {
        self.runs += 1;
        match outcome {
            Ok(summary) => {
                self.operations += summary.operations.values().sum::<u64>();
                self.faults += summary.faults.values().sum::<u64>();
            }
            Err(_) => self.failed += 1,
        }
    }
}
