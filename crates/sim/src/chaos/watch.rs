//! What must always hold, looked at after every event.

use std::collections::BTreeMap;

use kringle_core::config::{Config, OverlayKind, Ownership};
use kringle_core::overlay::Status;

use super::{Broken, Invariant};
use crate::invariants::{
    Places, RingMonitor, lease_holders_are_known, lease_holders_beside, neighbours_are_exact, one_deliverer,
    one_deliverer_beside,
};
use crate::world::World;

/// How many places beside a node are looked at after it was touched.
const REACH: usize = 4;
/// After how many events the whole ring is.
const WHOLE_EVERY: u64 = 1000;

/// Looks at a world after every event.
pub(super) struct Watcher {
    pub(super) checks: BTreeMap<&'static str, u64>,
    ownership: Ownership,
    /// Looks at whole rings, if they are Chord's.
    monitor: Option<RingMonitor>,
    limits: Config,
    /// Who is where; `None` if somebody came or went since.
    places: Option<Places>,
    /// Up to which input everything was looked at.
    seen: u64,
    events: u64,
    /// On which side of a partition each node was; nobody is judged together with the other side before the ring is
    /// whole again.
    parts: Option<Vec<Option<u32>>>,
    mended: bool,
}

impl Watcher {
    pub(super) fn new(ownership: Ownership, overlay: OverlayKind, limits: Config) -> Watcher {
        Watcher {
            checks: BTreeMap::new(),
            ownership,
            monitor: (overlay == OverlayKind::Chord).then(RingMonitor::new),
            limits,
            places: None,
            seen: 0,
            events: 0,
            parts: None,
            mended: true,
        }
    }

    /// Somebody came or went.
    pub(super) fn moved(&mut self) {
        self.places = None;
        if let Some(monitor) = &mut self.monitor {
            monitor.moved();
        }
    }

    /// The network is split.
    pub(super) fn split(&mut self, world: &World) {
        self.parts = Some((0..world.len() as u32).map(|node| Some(world.network.group(node))).collect());
        self.mended = false;
    }

    /// The network is one again; the ring is not yet.
    pub(super) fn mended(&mut self, world: &World) {
        self.mended = true;
        for (node, running) in world.running() {
            self.may_change_sides(node, running.status());
        }
    }

    /// Says whether nodes of two former sides of a partition may not know each other yet.
    pub(super) fn is_split(&self) -> bool {
        self.parts.is_some()
    }

    /// Judges all nodes together again once a ring that was split is one.
    pub(super) fn is_whole_again(&mut self, world: &World) {
        if self.parts.is_some() && self.mended {
            let ready = world.running().all(|(_, node)| node.status() == Status::Ready);
            if ready && neighbours_are_exact(world).is_ok() {
                self.parts = None;
            }
        }
    }

    /// Looks at what the last event may have broken.
    pub(super) fn look(&mut self, world: &World) -> Result<(), Broken> {
        if world.handled() == self.seen {
            return Ok(());
        }
        self.seen = world.handled();
        let node = world.touched();
        if let Some(running) = world.node(node) {
            self.count(Invariant::NodeRules);
            running.check_invariants(&self.limits);
            self.may_change_sides(node, running.status());
        }
        self.events += 1;
        if let Some(monitor) = &mut self.monitor {
            if self.parts.is_some() {
                // Two sides are two rings; from when they are one again on, all is looked at anew.
                monitor.moved();
            } else {
                *self.checks.entry(Invariant::RingProperties.name()).or_default() += 1;
                monitor.look(world, node).map_err(|problem| (Invariant::RingProperties, problem))?;
            }
        }
        if self.ownership == Ownership::Hint {
            return Ok(());
        }
        self.count(Invariant::OneDeliverer);
        self.count(Invariant::KnownHolders);
        let places = self.places.get_or_insert_with(|| Places::of_running(world));
        let part = |node: u32| match &self.parts {
            None => Some(0),
            // Who came later may be on either side.
            Some(parts) => parts.get(node as usize).copied().flatten(),
        };
        let broken = if self.events.is_multiple_of(WHOLE_EVERY) {
            (one_deliverer(world, part), lease_holders_are_known(world))
        } else {
            let deliverer = one_deliverer_beside(world, places, node, REACH, part);
            (deliverer, lease_holders_beside(world, places, node, REACH))
        };
        broken.0.map_err(|problem| (Invariant::OneDeliverer, problem))?;
        broken.1.map_err(|problem| (Invariant::KnownHolders, problem))
    }

    /// Who has lost its ring while two rings are within reach may join either.
    fn may_change_sides(&mut self, node: u32, status: Status) {
        let lost = !matches!(status, Status::Ok | Status::Ready);
        if let Some(part) = self.parts.as_mut().and_then(|parts| parts.get_mut(node as usize))
            && self.mended
            && lost
        {
            *part = None;
        }
    }

    /// Returns what was looked at how often.
    pub(super) fn told(self) -> BTreeMap<&'static str, u64> {
        let mut checks = self.checks;
        if let Some(monitor) = self.monitor {
            checks.insert("rings that had changed", monitor.rings);
        }
        checks
    }

    pub(super) fn count(&mut self, invariant: Invariant) {
        *self.checks.entry(invariant.name()).or_default() += 1;
    }
}
