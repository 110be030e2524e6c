//! A transit-stub internet, as GT-ITM makes them and as the papers' simulations use them.
//!
//! Transit domains are joined at random, and so are the routers inside each. Every transit router has stub domains,
//! each linked to it by one gateway. Since a stub domain has one way out, shortest paths fall into three pieces that
//! are worked out in advance: up to the transit router, between transit routers, down again.

use std::sync::Arc;
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};

/// How large a transit-stub internet is, and how long its links.
///
/// The defaults are the 5,050 routers of the MSPastry simulations, with link delays of 50, 20 and 1 ms as in the Chord
/// paper, and nodes on LAN links of 1 ms. How densely routers are linked is not in the papers: a guess. More links make
/// paths shorter and more alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitStubConfig {
    /// Transit domains, 1 to 100.
    pub transit_domains: u32,
    /// Routers in each transit domain, 1 to 100; not more than 500 in all domains.
    pub transit_routers: u32,
    /// Stub domains at each transit router, 1 to 100.
    pub stub_domains: u32,
    /// Routers in each stub domain, 1 to 100; not more than 100,000 in all domains.
    pub stub_routers: u32,
    /// Chance of a link between any two transit domains, besides those that connect them all; at most 100.
    pub domain_links_percent: u32,
    /// Chance of a link between any two routers of a transit domain, besides those that connect them all; at most 100.
    pub transit_links_percent: u32,
    /// Chance of a link between any two routers of a stub domain, besides those that connect them all; at most 100.
    pub stub_links_percent: u32,
    /// Delay between transit routers, at most a second, like the other delays.
    pub transit_delay: Duration,
    /// Delay between a transit router and the gateway of a stub domain.
    pub gateway_delay: Duration,
    /// Delay between routers of a stub domain.
    pub stub_delay: Duration,
    /// Delay between a node and its router.
    pub lan_delay: Duration,
}

impl Default for TransitStubConfig {
    fn default() -> TransitStubConfig {
        TransitStubConfig {
            transit_domains: 10,
            transit_routers: 5,
            stub_domains: 10,
            stub_routers: 10,
            domain_links_percent: 30,
            transit_links_percent: 50,
            stub_links_percent: 30,
            transit_delay: Duration::from_millis(50),
            gateway_delay: Duration::from_millis(20),
            stub_delay: Duration::from_millis(1),
            lan_delay: Duration::from_millis(1),
        }
    }
}

impl TransitStubConfig {
    fn transit(&self) -> u32 {
        self.transit_domains * self.transit_routers
    }

    fn check(&self) -> Result<(), String> {
        let counts = [
            ("transit domains", self.transit_domains),
            ("transit routers", self.transit_routers),
            ("stub domains", self.stub_domains),
            ("stub routers", self.stub_routers),
        ];
        if let Some((what, count)) = counts.iter().find(|(_, count)| !(1..=100).contains(count)) {
            return Err(format!("{count} {what}; expected 1 to 100"));
        }
        let percents = [self.domain_links_percent, self.transit_links_percent, self.stub_links_percent];
        if let Some(percent) = percents.iter().find(|percent| **percent > 100) {
            return Err(format!("a chance of {percent} percent; expected at most 100"));
        }
        let delays = [self.transit_delay, self.gateway_delay, self.stub_delay, self.lan_delay];
        // Together with the counts this keeps every path within 32 bits of microseconds.
        if let Some(delay) = delays.iter().find(|delay| **delay > Duration::from_secs(1)) {
            return Err(format!("a link of {delay:?}; expected at most 1s"));
        }
        if self.transit() > 500 {
            return Err(format!("{} transit routers in all; expected at most 500", self.transit()));
        }
        match self.transit() * self.stub_domains * self.stub_routers {
            stub if stub > 100_000 => Err(format!("{stub} stub routers in all; expected at most 100000")),
            _ => Ok(()),
        }
    }
}

/// A transit-stub internet whose shortest paths are known. Clones share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitStub(Arc<Paths>);

/// All delays in microseconds.
#[derive(Debug, PartialEq, Eq)]
struct Paths {
    config: TransitStubConfig,
    /// Between any two transit routers.
    transit: Vec<u32>,
    /// From a node at a stub router up to the transit router of its domain, including the LAN.
    up: Vec<u32>,
    /// From each stub router to each router of its own domain.
    within: Vec<u32>,
    /// From a node to its router and from there to another node.
    both_lans: u32,
}

/// Keep routers and the nodes' places at them apart from other things drawn from the same seed.
const ROUTERS: u64 = 7 << 40;
const PLACES: u64 = 8 << 40;

impl TransitStub {
    /// Draws the routers and their links from the seed. The error names the setting that is out of range.
    pub fn new(config: TransitStubConfig, seed: u64) -> Result<TransitStub, String> {
        config.check()?;
        let mut dice = SeededDice::derive(seed ^ ROUTERS, 0);
        let transit = transit_paths(&config, &mut dice);
        let (mut up, mut within) = (Vec::new(), Vec::new());
        let size = config.stub_routers as usize;
        let (lan, gateway_delay) = (micros(config.lan_delay), micros(config.gateway_delay));
        for _ in 0..config.transit() * config.stub_domains {
            let links = connected(size, config.stub_links_percent, &mut dice);
            let paths = shortest(size, &links, micros(config.stub_delay));
            let gateway = dice.below(size);
            up.extend((0..size).map(|router| paths[router * size + gateway] + gateway_delay + lan));
            within.extend(paths);
        }
        Ok(TransitStub(Arc::new(Paths { config, transit, up, within, both_lans: 2 * lan })))
    }

    /// Returns what it was made from.
    pub fn config(&self) -> &TransitStubConfig {
        &self.0.config
    }

    /// Returns how many routers there are, transit and stub.
    pub fn routers(&self) -> u32 {
        self.0.config.transit() + self.0.up.len() as u32
    }

    /// Returns the stub router a node sits at: a number from 0, domain by domain. Nodes at the same router are on
    /// different LANs.
    pub fn router(&self, seed: u64, node: u32) -> u32 {
        SeededDice::derive(seed ^ PLACES, node.into()).below(self.0.up.len()) as u32
    }

    /// Returns the delay between two nodes, in microseconds.
    pub(super) fn micros(&self, seed: u64, from: u32, to: u32) -> u32 {
        if from == to {
            return 0;
        }
        self.between(self.router(seed, from), self.router(seed, to))
    }

    /// Returns the delay between nodes at two stub routers.
    fn between(&self, a: u32, b: u32) -> u32 {
        let Paths { config, transit, up, within, both_lans } = &*self.0;
        let (a_domain, b_domain) = (a / config.stub_routers, b / config.stub_routers);
        if a_domain == b_domain {
            let place = a * config.stub_routers + b % config.stub_routers;
            return within[place as usize] + both_lans;
        }
        let (a_transit, b_transit) = (a_domain / config.stub_domains, b_domain / config.stub_domains);
        let across = transit[(a_transit * config.transit() + b_transit) as usize];
        up[a as usize] + across + up[b as usize]
    }
}

/// Returns the delay between any two transit routers.
fn transit_paths(config: &TransitStubConfig, dice: &mut SeededDice) -> Vec<u32> {
    let size = config.transit_routers as usize;
    let mut links = Vec::new();
    for domain in 0..config.transit_domains as usize {
        let inner = connected(size, config.transit_links_percent, dice);
        links.extend(inner.into_iter().map(|(a, b)| (domain * size + a, domain * size + b)));
    }
    for (a, b) in connected(config.transit_domains as usize, config.domain_links_percent, dice) {
        links.push((a * size + dice.below(size), b * size + dice.below(size)));
    }
    shortest(config.transit() as usize, &links, micros(config.transit_delay))
}

/// Draws the links of a connected graph: a random tree, and each other pair with the chance given.
fn connected(size: usize, percent: u32, dice: &mut SeededDice) -> Vec<(usize, usize)> {
    let mut links = Vec::new();
    for a in 1..size {
        let parent = dice.below(a);
        links.push((a, parent));
        for b in (0..a).filter(|b| *b != parent) {
            if dice.below(100) < percent as usize {
                links.push((a, b));
            }
        }
    }
    links
}

/// Returns the delay of the shortest path between any two routers, row by row (Floyd and Warshall).
fn shortest(size: usize, links: &[(usize, usize)], delay: u32) -> Vec<u32> {
    let mut paths = vec![u32::MAX; size * size];
    for router in 0..size {
        paths[router * size + router] = 0;
    }
    for (a, b) in links {
        paths[a * size + b] = delay;
        paths[b * size + a] = delay;
    }
    for through in 0..size {
        for a in 0..size {
            let first = paths[a * size + through];
            for b in 0..size {
                let path = first.saturating_add(paths[through * size + b]);
                paths[a * size + b] = paths[a * size + b].min(path);
            }
        }
    }
    paths
}

/// Delays were checked to be at most a second.
fn micros(delay: Duration) -> u32 {
    delay.as_micros() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default(seed: u64) -> TransitStub {
        TransitStub::new(TransitStubConfig::default(), seed).unwrap()
    }

    #[test]
    fn the_default_has_the_routers_of_the_papers() {
        let internet = default(1);
        assert_eq!(internet.routers(), 5_050);
        assert_eq!(internet.0.transit.len(), 50 * 50);
        assert_eq!(internet.0.up.len(), 5_000);
        assert_eq!(internet.0.within.len(), 500 * 100);
    }

    #[test]
    fn every_router_reaches_every_other_the_same_way_back() {
        let internet = default(1);
        assert!(internet.0.transit.iter().all(|delay| *delay < 1_500_000), "a transit router is cut off");
        for a in (0..5_000).step_by(7) {
            for b in (0..5_000).step_by(13) {
                assert_eq!(internet.between(a, b), internet.between(b, a));
            }
        }
    }

    #[test]
    fn no_detour_is_shorter() {
        let internet = default(2);
        let lans = internet.0.both_lans;
        let mut dice = SeededDice::new(1);
        let transit = &internet.0.transit;
        for _ in 0..100_000 {
            // Half of the time close together, or three routers would hardly ever share a domain.
            let [a, b, c] = std::array::from_fn(|_| dice.below(50));
            assert!(transit[a * 50 + c] <= transit[a * 50 + b] + transit[b * 50 + c]);
            let limit = [30, 5_000][dice.below(2)];
            let [a, b, c] = std::array::from_fn(|_| dice.below(limit) as u32);
            // The detour visits router b, not a node on its LAN.
            let detour = internet.between(a, b) + internet.between(b, c) - lans;
            assert!(internet.between(a, c) <= detour, "{a} to {c} by {b}");
        }
    }

    #[test]
    fn paths_are_made_of_their_links() {
        let line = [(0, 1), (1, 2), (2, 3)];
        assert_eq!(shortest(4, &line, 5)[..4], [0, 5, 10, 15]);
        let ring = [(0, 1), (1, 2), (2, 3), (3, 0)];
        assert_eq!(shortest(4, &ring, 5)[..4], [0, 5, 10, 5]);

        let internet = default(1);
        assert_eq!(internet.between(17, 17), 2_000, "two nodes at one router");
        // Stub domains 0 and 1 hang at the same transit router: nothing between, two gateway links, up to nine stub
        // links each way.
        let neighbours = internet.between(3, 13);
        assert!((42_000..=60_000).contains(&neighbours) && neighbours.is_multiple_of(1_000), "{neighbours}");
    }

    #[test]
    fn links_are_as_dense_as_told() {
        let mut dice = SeededDice::new(1);
        assert_eq!(connected(40, 0, &mut dice).len(), 39, "a tree");
        assert_eq!(connected(40, 100, &mut dice).len(), 40 * 39 / 2, "everybody with everybody");
        let half = connected(100, 50, &mut dice).len();
        assert!((2_350..2_700).contains(&half), "{half}");
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let default = TransitStubConfig::default;
        let refused = |config: TransitStubConfig| TransitStub::new(config, 1).unwrap_err();
        let problem = refused(TransitStubConfig { transit_domains: 0, ..default() });
        assert_eq!(problem, "0 transit domains; expected 1 to 100");
        let problem = refused(TransitStubConfig { stub_routers: 101, ..default() });
        assert_eq!(problem, "101 stub routers; expected 1 to 100");
        let problem = refused(TransitStubConfig { stub_links_percent: 101, ..default() });
        assert_eq!(problem, "a chance of 101 percent; expected at most 100");
        let problem = refused(TransitStubConfig { lan_delay: Duration::from_secs(2), ..default() });
        assert_eq!(problem, "a link of 2s; expected at most 1s");
        let problem = refused(TransitStubConfig { transit_domains: 100, transit_routers: 100, ..default() });
        assert_eq!(problem, "10000 transit routers in all; expected at most 500");
        let problem = refused(TransitStubConfig { stub_domains: 100, stub_routers: 100, ..default() });
        assert_eq!(problem, "500000 stub routers in all; expected at most 100000");
        let smallest = TransitStubConfig {
            transit_domains: 1,
            transit_routers: 1,
            stub_domains: 1,
            stub_routers: 1,
            ..default()
        };
        assert_eq!(TransitStub::new(smallest, 1).unwrap().between(0, 0), 2_000);
    }
}
