//! How long a node waits for answers: as long as they have taken so far.
//!
//! The bounds in the configuration fit machines near each other. Where round trips are longer than these, all waits
//! grow with what was measured. What is sent before anything was measured gets [`FIRST`]. Where the application measures
//! distances ([`Metric::Application`]), round trips say nothing, and the bounds alone hold.

use core::time::Duration;

use crate::config::{Config, Metric};
use crate::contact::Proximity;

/// How long the first answers of all may take.
pub const FIRST: Duration = Duration::from_secs(4);

/// The longest round trip that waits grow with. What takes longer was stopped for a while, and is not that far.
const LONGEST: Duration = Duration::from_millis(2500);

/// The shortest wait for a peer that was never measured: three tries then outlast [`LONGEST`].
const UNMEASURED: Duration = Duration::from_millis(500);

/// What a node has learnt about round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Timing {
    /// The longest round trip of late, in microseconds; zero if none was measured.
    slowest: u32,
}

impl Timing {
    /// Takes a measured round trip into account. Long ones are forgotten after some shorter ones.
    pub fn measured(&mut self, rtt: Duration, config: &Config) {
        if config.metric != Metric::RoundTrip {
            return;
        }
        let rtt = u32::try_from(rtt.min(LONGEST).as_micros()).unwrap_or(u32::MAX).max(1);
        self.slowest = rtt.max(self.slowest - self.slowest / 8);
    }

    /// Returns how long to wait for a peer that is so near, if that is known: three round trips, but within the bounds
    /// unless one round trip alone is longer. If it is not known, the longest of late stands for it: a joiner that waited
    /// as long as the bounds allow for a leaf that has died took 18 s with the settings for machines far apart.
    pub fn wait(
        &self,
        peer: Option<Proximity>,
        least: Duration,
        most: Duration,
        config: &Config,
    ) -> Duration {
        match peer {
            Some(Proximity(micros)) if config.metric == Metric::RoundTrip && micros < u32::MAX => {
                let rtt = Duration::from_micros(micros.into());
                (rtt * 3).clamp(least, most).max(half_more(rtt))
            }
            _ if self.slowest == 0 => most,
            _ => least.max(UNMEASURED).min(most).max(self.slow()),
        }
    }

    /// Returns how long to wait for something that takes so many round trips, and usually not longer than `usual`.
    pub fn at_least(&self, usual: Duration, trips: u32, config: &Config) -> Duration {
        match self.slowest {
            0 if config.metric == Metric::RoundTrip => usual.max(FIRST),
            _ => usual.max(self.slow() * trips),
        }
    }

    /// Returns how long to wait for an answer of any peer, and usually not longer than `usual`.
    pub fn stretch(&self, usual: Duration) -> Duration {
        usual.max(self.slow())
    }

    /// Returns how many times as long as `usual` answers may take: as many more may be under way.
    pub fn times(&self, usual: Duration) -> usize {
        usize::try_from(self.stretch(usual).as_micros() / usual.as_micros().max(1)).unwrap_or(1)
    }

    /// Returns the longest round trip of late and half of it more.
    fn slow(&self) -> Duration {
        half_more(Duration::from_micros(self.slowest.into()))
    }
}

fn half_more(rtt: Duration) -> Duration {
    let rtt = rtt.min(LONGEST);
    rtt + rtt / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_keep_to_the_bounds_unless_round_trips_are_longer() {
        let config = Settings::default().check().expect("they are right");
        let wait = |timing: &Timing, micros: Option<u32>| {
            timing.wait(micros.map(Proximity), SECOND / 10, SECOND / 2, &config)
        };
        let mut timing = Timing::default();
        assert_eq!(wait(&timing, Some(1_000)), SECOND / 10);
        assert_eq!(wait(&timing, Some(100_000)), SECOND * 3 / 10);
        assert_eq!(wait(&timing, Some(300_000)), SECOND / 2);
        assert_eq!(wait(&timing, Some(2_000_000)), SECOND * 3);
        assert_eq!(wait(&timing, None), SECOND / 2);
        timing.measured(SECOND * 2, &config);
        assert_eq!(wait(&timing, None), SECOND * 3);
        assert_eq!(timing.at_least(SECOND, 2, &config), SECOND * 6);
    }

    #[test]
    fn a_peer_that_was_never_measured_is_waited_for_like_the_slowest_of_late() {
        let config = Settings::wan().check().expect("they are right");
        let wait = |timing: &Timing| timing.wait(None, config.probe_timeout_min, SECOND * 3, &config);
        let mut timing = Timing::default();
        assert_eq!(wait(&timing), SECOND * 3);
        timing.measured(SECOND / 50, &config);
        assert_eq!(wait(&timing), UNMEASURED);
        timing.measured(SECOND * 2 / 5, &config);
        assert_eq!(wait(&timing), SECOND * 3 / 5);
        timing.measured(SECOND * 2, &config);
        assert_eq!(wait(&timing), SECOND * 3);
    }

    #[test]
    fn long_round_trips_are_forgotten_in_time() {
        let config = Settings::default().check().expect("they are right");
        let mut timing = Timing::default();
        assert_eq!(timing.at_least(SECOND, 1, &config), FIRST);
        timing.measured(SECOND * 2, &config);
        (0..1000).for_each(|_| timing.measured(SECOND / 1000, &config));
        assert_eq!(timing.at_least(SECOND, 1, &config), SECOND);
    }

    #[test]
    fn where_the_application_measures_the_bounds_hold() {
        let settings = Settings { metric: Metric::Application, ..Settings::default() };
        let config = settings.check().expect("they are right");
        let mut timing = Timing::default();
        timing.measured(SECOND * 2, &config);
        assert_eq!(timing.at_least(SECOND, 2, &config), SECOND);
        assert_eq!(timing.stretch(SECOND), SECOND);
    }
}
