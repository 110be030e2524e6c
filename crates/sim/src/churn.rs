//! Who comes and goes when: drawn from a seed, or read from a trace of a real system.
//!
//! Independent of the world that is churned: [`Sessions`] only says what happens next, and whoever runs the world does
//! it.

mod lifetime;
mod trace;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use kringle_core::dice::SeededDice;

use lifetime::Lifetime;

pub use trace::Trace;

/// How nodes come and go.
///
/// In the random ones nodes arrive at random (a Poisson process) as often as it takes to keep the population at its
/// size on average, stay for a session, and never return: each arrival is a new node. In a trace they do return.
#[derive(Clone, Debug, PartialEq)]
pub enum Churn {
    /// Exponential sessions, as in the simulations of the Chord and MSPastry papers: how long a node will stay does not
    /// depend on how long it has been there.
    Poisson {
        /// Mean length of a session, a millisecond to ten years.
        mean_session: Duration,
    },
    /// Weibull sessions. Below a shape of 1, many are short and some very long: who has been there for long will stay.
    /// Measured systems were found at shapes around 0.5.
    Weibull {
        /// From 0.2 to 5; 1 is the exponential distribution.
        shape: f64,
        /// Mean length of a session, a millisecond to ten years.
        mean_session: Duration,
    },
    /// What was seen to happen.
    Trace(Trace),
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This node comes: a new one the first time, the same one again later.
    Up(u32),
    /// This node goes, without a word.
    Down(u32),
}

/// Something that happens at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, since the start.
    pub at: Duration,
    /// What.
    pub what: Change,
}

/// Keeps churn apart from other things drawn from the same seed.
const CHURN: u64 = 9 << 40;

impl Churn {
    /// Starts from the beginning. The error names what is out of range.
    ///
    /// Random churn begins with `nodes` nodes that come at once and have been there for a while already, as if we had
    /// started to look at a system long in use; it never ends. A trace has its own nodes and ends when it ends.
    pub fn sessions(&self, nodes: u32, seed: u64) -> Result<Sessions, String> {
        let lifetime = match self {
            Churn::Poisson { mean_session } => Lifetime::new(1.0, *mean_session)?,
            Churn::Weibull { shape, mean_session } => Lifetime::new(*shape, *mean_session)?,
            Churn::Trace(trace) => return Ok(Sessions(Source::Trace { trace: trace.clone(), next: 0 })),
        };
        if nodes == 0 {
            return Err("a population of 0; expected at least 1 node".into());
        }
        let mut dice = SeededDice::derive(seed ^ CHURN, 0);
        let gap = lifetime.mean() / f64::from(nodes);
        let next_arrival = lifetime::exponential(gap, &mut dice);
        let population = Population {
            founders: nodes,
            lifetime,
            gap,
            arrived: 0,
            next_arrival,
            ends: BinaryHeap::new(),
            dice,
        };
        Ok(Sessions(Source::Random(Box::new(population))))
    }
}

/// What happens, in order of time. Made by [`Churn::sessions`].
#[derive(Clone, Debug)]
pub struct Sessions(Source);

#[derive(Clone, Debug)]
enum Source {
    Random(Box<Population>),
    Trace { trace: Trace, next: usize },
}

impl Iterator for Sessions {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        match &mut self.0 {
            Source::Random(population) => population.next(),
            Source::Trace { trace, next } => {
                let event = trace.events().get(*next).copied()?;
                *next += 1;
                Some(event)
            }
        }
    }
}

/// A population that is renewed all the time.
#[derive(Clone, Debug)]
struct Population {
    /// How many are there from the start.
    founders: u32,
    lifetime: Lifetime,
    /// Mean time between arrivals, in seconds.
    gap: f64,
    arrived: u32,
    next_arrival: Duration,
    /// When those who are there will go, the next one on top.
    ends: BinaryHeap<Reverse<(Duration, u32)>>,
    dice: SeededDice,
}

impl Population {
    /// Returns what happens next, none once node numbers have run out.
    fn next(&mut self) -> Option<Event> {
        if self.arrived < self.founders {
            let remaining = self.lifetime.remaining(&mut self.dice);
            return self.arrive(Duration::ZERO, remaining);
        }
        if let Some(Reverse((at, node))) = self.ends.peek().copied()
            && at <= self.next_arrival
        {
            self.ends.pop();
            return Some(Event { at, what: Change::Down(node) });
        }
        let at = self.next_arrival;
        self.next_arrival = at.saturating_add(lifetime::exponential(self.gap, &mut self.dice));
        let session = self.lifetime.session(&mut self.dice);
        self.arrive(at, session)
    }

    fn arrive(&mut self, at: Duration, session: Duration) -> Option<Event> {
        let node = self.arrived;
        self.arrived = node.checked_add(1)?;
        self.ends.push(Reverse((at.saturating_add(session), node)));
        Some(Event { at, what: Change::Up(node) })
    }
}
