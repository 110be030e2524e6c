//! The whole configuration of a node: plain settings, the rules between them, and presets.

use core::fmt;
use core::ops::Deref;
use core::time::Duration;

use crate::id::Base;
pub use crate::safeguard::Safeguard;

/// Names a cluster on the wire; frames of another one are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClusterId(pub [u8; 16]);

/// What proximity is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// The round trip of the probe that showed the peer alive.
    RoundTrip,
    /// Whatever the application returns for [`crate::edge::Output::Measure`].
    Application,
}

/// The overlays a cluster can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverlayKind {
    /// Prefix routing with leaf sets.
    Pastry,
    /// A ring with successor lists and fingers.
    Chord,
}

/// What it takes to deliver for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ownership {
    /// The leaf set says so. No gap after a crash, but two nodes may deliver for one key until they know each other.
    Hint,
    /// Unexpired leases from both ring neighbours: inside one connected part of the network, two nodes never deliver
    /// for one key at the same time.
    Lease,
}

/// Settings as people write them. [`Settings::check`] turns them into a [`Config`].
///
/// Numbers marked *paper* come from the Pastry, Wendy or Bamboo texts, *guess* from us; none is measured yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster this node belongs to.
    pub cluster: ClusterId,

    /// Digits are base 2^b. Larger b: fewer hops, larger tables. 4 is the papers' choice.
    pub base: Base,
    /// Members of the leaf set, both sides together; even, 2 to 512. Larger: more deaths at once survived, more
    /// probes per join. Wendy: 32.
    pub leaf_set: u16,
    /// Members of the neighbourhood set, 0 to 512. Wendy: 32.
    pub neighbourhood: u16,
    /// Further nodes kept per routing-table cell, 0 to 8: used at once when the first is silent.
    pub spares: u8,
    /// Copies a record will have; at least one more leaf than that must be on each side.
    pub replicas: u8,
    /// How many per cent nearer a node must be to displace the holder of a cell, 0 to 90. Lower: better tables,
    /// more flapping with jittery round trips. Bamboo: 10.
    pub nearer_percent: u8,
    /// What proximity means.
    pub metric: Metric,
    /// How many measured proximities of nodes outside the tables are remembered. Fewer: more pings in maintenance.
    pub proximity_cache: u16,
    /// How long such a measurement is believed. Wendy: an hour.
    pub proximity_age: Duration,

    /// What it takes to deliver for a key.
    pub ownership: Ownership,
    /// How long a lease lasts. Shorter: a crashed node's keys are taken over sooner, more traffic between neighbours,
    /// and a pause of this length costs ownership. Renewed three times in that span. (guess)
    pub lease: Duration,
    /// By how many per cent two clocks may run apart, 0 to 20. Holders count that much less, grantors that much more.
    pub drift_percent: u8,

    /// A safeguard to leave out. Only builds for testing (feature `mutants`) accept one.
    pub without: Option<Safeguard>,

    /// Hops a message may take. *paper* bounds it by the number of digits plus the leaf set; this catches loops.
    pub hops_max: u8,
    /// Shortest wait for a hop's acknowledgement. Must exceed a scheduling hiccup. (guess)
    pub hop_timeout_min: Duration,
    /// Longest wait, also used while the round trip is unknown. (guess)
    pub hop_timeout_max: Duration,
    /// How often one node may send one message on before giving up. FreePastry: 10; but a whole side of the leaf set may
    /// have died at once, and each member of it is tried twice.
    pub hop_attempts: u8,
    /// How long one node may keep a message before it tells the origin that there is no route. (guess)
    pub transit_max: Duration,
    /// Messages in transit a node holds; beyond that it does not take more. (guess)
    pub transits: u16,
    /// Delivered messages remembered, so that a second copy is not delivered. (guess)
    pub seen: u16,
    /// How long they are remembered; longer than `transit_max`.
    pub seen_for: Duration,
    /// Requests of users open at once. (guess)
    pub requests: u16,
    /// Longest deadline a request may have; longer ones are cut to it.
    pub deadline_max: Duration,
    /// Bytes an application's message may have.
    pub payload: u32,

    /// Shortest wait for the answer to a probe. (guess)
    pub probe_timeout_min: Duration,
    /// Longest wait, also used while the round trip is unknown. (guess)
    pub probe_timeout_max: Duration,
    /// Probes without an answer that make a peer dead, 1 to 7. Lower: faster repair, more false alarms under loss.
    pub probe_attempts: u8,
    /// Other leaves asked to probe in our stead before a peer is called dead.
    pub probe_relays: u8,
    /// Probes open at once; further candidates are dropped, not queued: they will be heard of again. (guess)
    pub probes: u16,
    /// How often the two ring neighbours are checked if they are silent. (guess)
    pub heartbeat: Duration,

    /// How often leaf sets are exchanged with a random leaf. FreePastry: 60 s, Bamboo: 4 s.
    pub leaf_exchange: Duration,
    /// How often each row is swapped with a random member of it. FreePastry: 900 s.
    pub row_swap: Duration,
    /// How often neighbourhood sets are exchanged. (guess)
    pub neighbourhood_exchange: Duration,
    /// How often a vanished peer, or a seed, is asked whether there is another ring. (guess)
    pub heal: Duration,
    /// Bytes per second that background work may send on average.
    pub budget: u32,
    /// Bytes it may send at once after a quiet time.
    pub budget_burst: u32,

    /// Whether a joiner looks for a nearby node before it joins. Off: fewer messages, worse tables.
    pub find_nearby: bool,
    /// Whether it joins first and looks for nearby nodes when it is ready, by asking the nearest it knows. Off: as in the
    /// paper, a join takes three times as many round trips, one after the other.
    pub join_first: bool,
    /// How long a join may take before it is tried through another seed. (guess)
    pub join_timeout: Duration,
    /// First pause between two attempts; doubled up to `join_backoff_max`. FreePastry: 2 s.
    pub join_backoff_min: Duration,
    /// Longest pause. FreePastry: 60 s.
    pub join_backoff_max: Duration,
    /// How long a joiner is helped before the next one is. A join takes a few round trips. (guess)
    pub help_timeout: Duration,
    /// Joiners that may wait for a helper.
    pub help_queue: u8,
    /// How long a leaving node still passes on what it has in hand.
    pub leave_grace: Duration,

    /// Which overlay the cluster uses; the same everywhere, for ever.
    pub overlay: OverlayKind,
    /// Chord: successors a node keeps, 2 to 32, and at least `replicas`. More: more deaths in a row survived, longer
    /// lists in every exchange. Rings of up to that many and two more know all their members. (reliability.md: 8)
    pub successors: u8,
    /// Chord: how often the successor is asked for its predecessor and list. Shorter: a newcomer is known sooner, and a
    /// dead one gone; more traffic. Jittered.
    pub tick: Duration,
    /// Chord: how long a question may stay unanswered before it is asked again, up to `probe_attempts` times.
    pub query_timeout: Duration,
    /// Chord: how often those who wait for a busy node are told so; shorter than `query_timeout`.
    pub keepalive: Duration,
    /// Chord: how long a node waits for better candidates before it looks whether one is its predecessor. (guess)
    pub rectify: Duration,
    /// Chord: how often each finger is looked up anew.
    pub fingers: Duration,
    /// Chord: how long a silent successor is asked for, if the list is full without it.
    pub suspect_for: Duration,

    /// Parts the id space is cut into for the store, a power of two up to 65,536; the same everywhere, for ever.
    pub slots: u32,
    /// Bytes a key may have, up to 65,000.
    pub key_max: u32,
    /// Bytes a value may have, and all values of a set together, up to 1 MiB.
    pub value_max: u32,
    /// Values a set may have, up to 65,536.
    pub set_max: u32,
    /// Operations one node coordinates at a time; more are refused as busy. (guess)
    pub operations: u32,
    /// How long a silent replica is waited for before it is asked again. (guess)
    pub store_retry: Duration,
    /// How often the copies of a slot are compared. Shorter: damage is found sooner, more traffic. (guess)
    pub sweep: Duration,
    /// How long a deleted record is remembered at least.
    pub tombstone_age: Duration,
    /// How long a node that stopped politely is waited for before its copies are made elsewhere.
    pub rejoin_grace: Duration,
    /// How long a leaving node hands its copies over at most.
    pub drain: Duration,
    /// How far ahead of cluster time, and of all that is stored, a version may be; further is refused.
    pub clock_ahead: Duration,
    /// How long a replica is down before its views go on without it, if no other node can take its place.
    pub dead_after: Duration,
    /// Bytes of records a node fetches in a second while it becomes a replica; zero: as fast as it can.
    pub transfer_rate: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cluster: ClusterId::default(),
            base: Base::HEX,
            leaf_set: 32,
            neighbourhood: 32,
            spares: 2,
            replicas: 3,
            nearer_percent: 10,
            metric: Metric::RoundTrip,
            proximity_cache: 4096,
            proximity_age: Duration::from_secs(3600),
            ownership: Ownership::Lease,
            lease: Duration::from_secs(10),
            drift_percent: 1,
            without: None,
            hops_max: 64,
            hop_timeout_min: Duration::from_millis(50),
            hop_timeout_max: Duration::from_millis(500),
            hop_attempts: 40,
            transit_max: Duration::from_secs(30),
            transits: 4096,
            seen: 4096,
            seen_for: Duration::from_secs(60),
            requests: 4096,
            deadline_max: Duration::from_secs(86_400),
            payload: 64 * 1024,
            probe_timeout_min: Duration::from_millis(100),
            probe_timeout_max: Duration::from_millis(500),
            probe_attempts: 3,
            probe_relays: 3,
            probes: 512,
            heartbeat: Duration::from_secs(2),
            leaf_exchange: Duration::from_secs(30),
            row_swap: Duration::from_secs(300),
            neighbourhood_exchange: Duration::from_secs(300),
            heal: Duration::from_secs(5),
            budget: 4096,
            budget_burst: 64 * 1024,
            find_nearby: true,
            join_first: true,
            join_timeout: Duration::from_secs(3),
            join_backoff_min: Duration::from_millis(500),
            join_backoff_max: Duration::from_secs(60),
            help_timeout: Duration::from_secs(2),
            help_queue: 64,
            leave_grace: Duration::from_millis(500),
            overlay: OverlayKind::Pastry,
            successors: 8,
            tick: Duration::from_secs(1),
            query_timeout: Duration::from_millis(500),
            keepalive: Duration::from_millis(200),
            rectify: Duration::from_millis(100),
            fingers: Duration::from_secs(30),
            suspect_for: Duration::from_secs(10),
            slots: 4096,
            key_max: 1024,
            value_max: 1 << 20,
            set_max: 65_536,
            operations: 4096,
            store_retry: Duration::from_millis(200),
            sweep: Duration::from_secs(60),
            tombstone_age: Duration::from_secs(86_400),
            rejoin_grace: Duration::from_secs(60),
            drain: Duration::from_secs(30),
            clock_ahead: Duration::from_secs(5),
            dead_after: Duration::from_secs(600),
            transfer_rate: 16 << 20,
        }
    }
}

impl Settings {
    /// For machines far apart: patient timeouts.
    pub fn wan() -> Settings {
        Settings {
            hop_timeout_min: Duration::from_millis(200),
            hop_timeout_max: Duration::from_secs(2),
            probe_timeout_min: Duration::from_millis(300),
            probe_timeout_max: Duration::from_secs(3),
            query_timeout: Duration::from_secs(3),
            heartbeat: Duration::from_secs(10),
            leaf_exchange: Duration::from_secs(60),
            // Time for three probes of a peer whose round trip is not known.
            transit_max: Duration::from_secs(30),
            seen_for: Duration::from_secs(60),
            join_timeout: Duration::from_secs(10),
            ..Settings::default()
        }
    }

    /// For demonstrations: 64 nodes already take several hops.
    pub fn demo() -> Settings {
        Settings { leaf_set: 8, neighbourhood: 8, lease: Duration::from_secs(1), ..Settings::default() }
    }

    /// For studying overlays as the papers did: exact round trips, so the nearest node always wins a cell; a joiner looks
    /// for a nearby node first; no leases and no healing, which the papers do not have.
    pub fn lab() -> Settings {
        let never = Duration::from_secs(30 * 86_400);
        Settings {
            nearer_percent: 0,
            proximity_cache: 16,
            ownership: Ownership::Hint,
            join_first: false,
            heal: never,
            ..Settings::default()
        }
    }

    /// Raises the time limits that a long lease needs: messages for a crashed node wait for its lease to end.
    pub fn fit_lease(&mut self) {
        self.transit_max = self.transit_max.max(self.lease.saturating_mul(2));
        self.seen_for = self.seen_for.max(self.transit_max.saturating_mul(2));
    }

    /// Checks every rule and yields a configuration a node can use.
    pub fn check(self) -> Result<Config, ConfigError> {
        let rules = [
            (self.leaf_set.is_multiple_of(2), "leaf-set", "must be even: it has two sides"),
            ((2..=512).contains(&self.leaf_set), "leaf-set", "must be 2 to 512"),
            (self.neighbourhood <= 512, "neighbourhood", "must be at most 512"),
            (self.spares <= 8, "spares", "must be at most 8"),
            (
                self.leaf_set / 2 > u16::from(self.replicas),
                "leaf-set",
                "half of it must be at least replicas + 1",
            ),
            ((2..=32).contains(&self.successors), "successors", "must be 2 to 32"),
            (
                self.overlay != OverlayKind::Chord || self.successors >= self.replicas,
                "successors",
                "must be at least replicas",
            ),
            (self.keepalive < self.query_timeout, "keepalive", "must be shorter than query-timeout"),
            (self.nearer_percent <= 90, "nearer-percent", "must be at most 90"),
            ((1..=254).contains(&self.hops_max), "hops-max", "must be 1 to 254"),
            (self.replicas <= 15, "replicas", "must be at most 15"),
            (
                self.slots.is_power_of_two() && self.slots <= 65_536,
                "slots",
                "must be a power of two, at most 65,536",
            ),
            // With its place and a digest it must fit what storage engines take as a key.
            ((1..=65_000).contains(&self.key_max), "key-max", "must be 1 to 65,000 bytes"),
            ((1..=1 << 20).contains(&self.value_max), "value-max", "must be 1 byte to 1 MiB"),
            ((1..=65_536).contains(&self.set_max), "set-max", "must be 1 to 65,536"),
            (self.operations >= 1, "operations", "must be at least 1"),
            (self.seen >= 1, "seen", "must be at least 1"),
            (self.hop_attempts >= 1, "hop-attempts", "must be at least 1"),
            ((1..=7).contains(&self.probe_attempts), "probe-attempts", "must be 1 to 7"),
            (
                self.hop_timeout_min <= self.hop_timeout_max,
                "hop-timeout-min",
                "must not exceed hop-timeout-max",
            ),
            (
                self.probe_timeout_min <= self.probe_timeout_max,
                "probe-timeout-min",
                "must not exceed probe-timeout-max",
            ),
            (
                self.without.is_none() || cfg!(feature = "mutants"),
                "without",
                "is for builds made for testing",
            ),
            (self.drift_percent <= 20, "drift-percent", "must be at most 20"),
            (self.seen_for > self.transit_max, "seen-for", "must exceed transit-max, or copies slip through"),
            (
                self.join_backoff_min <= self.join_backoff_max,
                "join-backoff-min",
                "must not exceed join-backoff-max",
            ),
            (self.payload as usize <= crate::wire::PAYLOAD_MAX, "payload", "must be at most 64 KiB"),
            (
                [
                    self.proximity_age,
                    self.hop_timeout_max,
                    self.transit_max,
                    self.seen_for,
                    self.deadline_max,
                    self.probe_timeout_max,
                    self.heartbeat,
                    self.leaf_exchange,
                    self.row_swap,
                    self.neighbourhood_exchange,
                    self.heal,
                    self.lease,
                    self.join_timeout,
                    self.join_backoff_max,
                    self.help_timeout,
                    self.leave_grace,
                    self.tick,
                    self.query_timeout,
                    self.rectify,
                    self.fingers,
                    self.suspect_for,
                    self.store_retry,
                    self.sweep,
                    self.tombstone_age,
                    self.rejoin_grace,
                    self.drain,
                    self.clock_ahead,
                    self.dead_after,
                ]
                .iter()
                .all(|span| *span <= Duration::from_secs(30 * 86_400)),
                "timeouts",
                "must be at most thirty days",
            ),
            (
                self.ownership == Ownership::Hint || self.transit_max > self.lease.saturating_mul(3) / 2,
                "transit-max",
                "must exceed one and a half leases, or messages for a crashed node are given up too early",
            ),
            (
                [
                    self.hop_timeout_min,
                    self.probe_timeout_min,
                    self.heartbeat,
                    self.leaf_exchange,
                    self.row_swap,
                    self.neighbourhood_exchange,
                    self.heal,
                    self.join_timeout,
                    self.join_backoff_min,
                    self.help_timeout,
                    self.tick,
                    self.keepalive,
                    self.rectify,
                    self.fingers,
                    self.lease / 10,
                    self.store_retry,
                    self.sweep,
                ]
                .iter()
                .all(|span| *span >= Duration::from_millis(1)),
                "timeouts",
                "must be at least a millisecond",
            ),
        ];
        match rules.iter().find(|(holds, ..)| !holds) {
            Some(&(_, setting, rule)) => Err(ConfigError { setting, rule }),
            None => Ok(Config(self)),
        }
    }
}

/// Settings that passed [`Settings::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config(Settings);

impl Config {
    /// Says whether a safeguard is in force.
    #[inline]
    pub fn rule(&self, safeguard: Safeguard) -> bool {
        !cfg!(feature = "mutants") || self.without != Some(safeguard)
    }

    /// Returns how long the holder of a lease may rely on it, counted from sending the request.
    pub fn lease_held(&self) -> Duration {
        self.lease * u32::from(100 - self.drift_percent) / 100
    }

    /// Returns how long the grantor of a lease is bound by it, counted from receiving the request.
    pub fn lease_granted(&self) -> Duration {
        self.lease * u32::from(100 + self.drift_percent) / 100
    }

    /// Returns the members on one side of the leaf set.
    pub fn leaf_side(&self) -> usize {
        usize::from(self.leaf_set / 2)
    }
}

impl Deref for Config {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.0
    }
}

/// A setting that breaks a rule. Nothing was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The setting, as written in files and flags.
    pub setting: &'static str,
    /// The rule it breaks.
    pub rule: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.rule)
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn presets_pass_their_own_rules() {
        for settings in [Settings::default(), Settings::wan(), Settings::demo(), Settings::lab()] {
            assert!(settings.check().is_ok());
        }
    }

    #[test]
    fn each_rule_refuses_by_name() {
        type Spoil = fn(&mut Settings);
        let bad: [(&str, Spoil); 18] = [
            ("successors", |s| s.successors = 1),
            ("successors", |s| (s.successors, s.overlay) = (2, OverlayKind::Chord)),
            ("keepalive", |s| s.keepalive = s.query_timeout),
            ("hops-max", |s| s.hops_max = 255),
            ("seen", |s| s.seen = 0),
            ("timeouts", |s| s.probe_timeout_max = Duration::MAX),
            ("leaf-set", |s| s.leaf_set = 7),
            ("leaf-set", |s| s.leaf_set = 0),
            ("leaf-set", |s| s.leaf_set = 6),
            ("neighbourhood", |s| s.neighbourhood = 513),
            ("spares", |s| s.spares = 9),
            ("nearer-percent", |s| s.nearer_percent = 91),
            ("hops-max", |s| s.hops_max = 0),
            ("probe-attempts", |s| s.probe_attempts = 0),
            ("seen-for", |s| s.seen_for = s.transit_max),
            ("payload", |s| s.payload = 1 << 20),
            ("hop-timeout-min", |s| s.hop_timeout_min = Duration::from_secs(9)),
            ("timeouts", |s| s.heartbeat = Duration::ZERO),
        ];
        for (setting, spoil) in bad {
            let mut settings = Settings::default();
            spoil(&mut settings);
            let error = settings.check().unwrap_err();
            assert_eq!(error.setting, setting);
            assert!(error.to_string().starts_with(setting));
        }
    }
}
