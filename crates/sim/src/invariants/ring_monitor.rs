//! The seven properties of a Chord ring that Zave names and chordpy's log checker looks at (VC-37): five that always
//! hold, after every event, and two that come to hold in peace.
//!
//! They are about rings that are large enough to do without lists of all members. A node that is silently suspected is
//! still believed to come next, so suspects count as successors for the five.

use kringle_core::contact::Contact;
use kringle_core::overlay::chord::properties::{ALWAYS, View, correct_node_data, ideal_ring};

use crate::world::World;

/// What one node believes, kept until it believes something else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Belief {
    contact: Contact,
    pred: Option<Contact>,
    list: Vec<Contact>,
}

/// Looks at a ring after every event. Most events change nobody's pointers; then what held before still holds.
#[derive(Clone, Debug, Default)]
pub struct RingMonitor {
    /// By place; `None` for those who are not running members of a large ring.
    beliefs: Vec<Option<Belief>>,
    stale: bool,
    /// Whole rings looked at.
    pub rings: u64,
}

impl RingMonitor {
    /// Nothing seen yet.
    pub fn new() -> RingMonitor {
        RingMonitor { stale: true, ..RingMonitor::default() }
    }

    /// Somebody came or went, or nobody looked for a while.
    pub fn moved(&mut self) {
        self.stale = true;
    }

    /// Looks at the ring after an event at this node. `Err` names the first of the five that does not hold.
    pub fn look(&mut self, world: &World, touched: u32) -> Result<(), String> {
        let at = touched as usize;
        if self.stale || self.beliefs.len() != world.len() {
            self.beliefs = (0..world.len() as u32).map(|node| belief(world, node, true)).collect();
            self.stale = false;
        } else if is_as_before(world, touched, &self.beliefs[at]) {
            return Ok(());
        } else {
            self.beliefs[at] = belief(world, touched, true);
        }
        self.rings += 1;
        let views = views(&self.beliefs);
        match ALWAYS.iter().find(|(_, holds)| !holds(&views)) {
            None => Ok(()),
            Some((name, _)) => Err(format!("not so: {name}; {}", told(&self.beliefs))),
        }
    }
}

/// Says whether the ring has become what it should be: right predecessors and successors, nobody listed who is gone, and
/// lists complete. `Err` names what is missing. Small rings have no such pointers, and are not judged.
pub fn ring_is_ideal(world: &World) -> Result<(), String> {
    let beliefs: Vec<Option<Belief>> =
        (0..world.len() as u32).map(|node| belief(world, node, false)).collect();
    if beliefs.iter().flatten().count() < world.running().count() {
        return Ok(());
    }
    let views = views(&beliefs);
    if !correct_node_data(&views) {
        return Err(format!("not so: correct node data; {}", told(&beliefs)));
    }
    if !ideal_ring(&views, world.config().successors.into()) {
        return Err(format!("not so: ideal ring; {}", told(&beliefs)));
    }
    Ok(())
}

/// Says whether every member would still have somebody after it if this node were gone: what the proof assumes of
/// failures, and so what faults have to respect.
pub fn can_do_without(world: &World, gone: u32) -> bool {
    let lives = |node: &Contact| {
        node.addr.0 != gone
            && world
                .node(node.addr.0)
                .is_some_and(|running| running.me() == *node && is_member(world, node.addr.0))
    };
    (0..world.len() as u32)
        .filter(|node| *node != gone)
        .filter_map(|node| belief(world, node, true))
        .all(|belief| belief.list.iter().any(lives))
}

fn is_member(world: &World, node: u32) -> bool {
    let chord = world.node(node).and_then(|node| node.overlay().as_chord());
    chord.is_some_and(|chord| chord.is_large() && chord.ring().joined())
}

fn belief(world: &World, node: u32, suspects: bool) -> Option<Belief> {
    let chord = world.node(node)?.overlay().as_chord()?;
    let ring = chord.ring();
    let list = || if suspects { ring.extended() } else { ring.succ_list().to_vec() };
    let member = chord.is_large() && ring.joined();
    member.then(|| Belief { contact: ring.ptr(), pred: ring.pred(), list: list() })
}

/// Compares without building anything, as long as nobody is suspected.
fn is_as_before(world: &World, node: u32, before: &Option<Belief>) -> bool {
    let chord = world.node(node).and_then(|node| node.overlay().as_chord());
    let ring = chord.filter(|chord| chord.is_large()).map(|chord| chord.ring()).filter(|ring| ring.joined());
    match (ring, before) {
        (None, None) => true,
        (Some(ring), Some(before)) if ring.suspects().is_empty() => {
            ring.ptr() == before.contact && ring.pred() == before.pred && ring.succ_list() == before.list
        }
        (Some(_), Some(before)) => belief(world, node, true).as_ref() == Some(before),
        _ => false,
    }
}

fn views(beliefs: &[Option<Belief>]) -> Vec<View<'_>> {
    let view = |belief: &'_ Belief| (belief.contact, belief.pred);
    beliefs
        .iter()
        .flatten()
        .map(|belief| {
            let (contact, pred) = view(belief);
            View { contact, pred, succ_list: &belief.list, joined: true }
        })
        .collect()
}

/// The ring in a line, by places in the world.
fn told(beliefs: &[Option<Belief>]) -> String {
    let mut sorted: Vec<&Belief> = beliefs.iter().flatten().collect();
    sorted.sort_by_key(|belief| belief.contact.id);
    let name = |node: &Contact| match node.incarnation {
        1 => node.addr.0.to_string(),
        life => format!("{}'{life}", node.addr.0),
    };
    let told = sorted.into_iter().map(|belief| {
        let list: Vec<String> = belief.list.iter().map(name).collect();
        let pred = belief.pred.as_ref().map_or("-".to_owned(), name);
        format!("{pred}<{}>{}", name(&belief.contact), list.join(","))
    });
    told.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use kringle_core::config::{OverlayKind, Settings};

    use super::*;

    #[test]
    fn a_ring_that_grew_is_ideal_and_the_monitor_sees_a_planted_fault() {
        let settings = Settings { overlay: OverlayKind::Chord, successors: 3, ..Settings::demo() };
        let mut world = World::new(settings, 1);
        world.grow(12);
        let settled =
            world.run_until(std::time::Duration::from_secs(60), |world| ring_is_ideal(world).is_ok());
        assert!(settled);
        let mut monitor = RingMonitor::new();
        monitor.look(&world, 0).expect("all five hold");
        monitor.look(&world, 1).expect("nothing has changed");
        assert_eq!(monitor.rings, 1);
        // Whoever has only dead ones after it is connected to nothing.
        let after: Vec<u32> = monitor.beliefs[0]
            .as_ref()
            .map(|belief| belief.list.iter().map(|node| node.addr.0).collect())
            .unwrap();
        assert!(can_do_without(&world, after[0]));
        after[..2].iter().for_each(|node| world.crash(*node));
        assert!(!can_do_without(&world, after[2]));
        world.crash(after[2]);
        monitor.moved();
        let broken = monitor.look(&world, 0).expect_err("planted");
        assert!(broken.contains("not so: "), "{broken}");
        assert!(ring_is_ideal(&world).is_err());
    }
}
