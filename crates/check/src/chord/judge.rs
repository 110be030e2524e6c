//! What must hold in every state.

use std::collections::HashMap;

use kringle_core::overlay::chord::properties::{ALWAYS, View, ideal_ring};

use super::hash::{Numbers, mix};
use super::parts::{Parts, each, only};
use super::state::State;

/// The proof's invariant, first clause: more members than lists are long are passed over by no list.
pub(super) const PRINCIPALS: &str = "more principals than a list has entries";
/// Second clause.
pub(super) const SUCCESSORS: &str = "every member lists one that runs";
/// Third clause.
pub(super) const FLIGHTS: &str = "every list in flight names one that runs";
/// The assumption of the proof that the product does not have to make.
pub(super) const WAITING: &str = "nobody waits in a circle once everything has arrived";
/// A node without the timer it needs is stuck.
pub(super) const TIMERS: &str = "every node has the timers its state needs";
/// Whatever happened: left alone, the ring becomes ideal.
pub(super) const HEALS: &str = "left in peace, the ring becomes ideal";

/// Judges states. What depends on predecessors and lists alone is judged once for all states that share them.
#[derive(Debug, Default)]
pub(super) struct Judge {
    rings: HashMap<u64, Option<&'static str>, Numbers>,
}

impl Judge {
    /// Returns the first property that does not hold.
    pub(super) fn broken(&mut self, state: &State, parts: &Parts) -> Option<&'static str> {
        let world = &parts.world;
        if !state.live(parts).all(|(_, known)| known.timed) {
            return Some(TIMERS);
        }
        let members = state.members(parts);
        // A list is short of running members if nodes fail that must not.
        if !world.any_failure
            && !each(members).all(|at| state.node(at, parts).listed & members & !only(at) != 0)
        {
            return Some(SUCCESSORS);
        }
        if world.is_assumed() {
            if state.principals(members, parts).count_ones() <= world.successors.into() {
                return Some(PRINCIPALS);
            }
            if !state.lists_in_flight(members, parts) {
                return Some(FLIGHTS);
            }
        }
        // Who has not heard Busy because it was lost hears it again with the next keepalive.
        let lost = state.left.losses < world.losses;
        if state.flight.is_empty() && !lost && waits_in_circle(state, parts) {
            return Some(WAITING);
        }
        self.ring(state, parts)
    }

    fn ring(&mut self, state: &State, parts: &Parts) -> Option<&'static str> {
        let key = state
            .live(parts)
            .fold(0, |all: u64, (at, known)| all.wrapping_add(mix(known.view.wrapping_add(u64::from(at)))));
        *self.rings.entry(key).or_insert_with(|| {
            let views = views(state, parts, true);
            let lists_only = parts.world.any_failure;
            ALWAYS
                .iter()
                .filter(|(name, _)| !lists_only || *name == "ordered successor lists")
                .find(|(_, holds)| !holds(&views))
                .map(|(name, _)| *name)
        })
    }

    /// Returns the memory held, in bytes, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.rings.capacity() * 33
    }
}

/// Returns all properties, in the order they are looked at.
pub(super) fn names(world: &super::world::World) -> Vec<&'static str> {
    use super::steps::{ADOPTED, CODEC, OWN_RULES, TOLD};
    let mut names = vec![OWN_RULES, ADOPTED, TOLD, TIMERS];
    if world.codec {
        names.push(CODEC);
    }
    if !world.any_failure {
        names.push(SUCCESSORS);
    }
    if world.is_assumed() {
        names.extend([PRINCIPALS, FLIGHTS]);
    }
    names.push(WAITING);
    if world.any_failure {
        names.push("ordered successor lists");
    } else {
        names.extend(ALWAYS.iter().map(|(name, _)| *name));
        names.push(HEALS);
    }
    names
}

/// What the running nodes believe, with suspects in the lists or without.
fn views<'a>(state: &State, parts: &'a Parts, extended: bool) -> Vec<View<'a>> {
    let view = |at: u8| {
        let known = state.node(at, parts);
        known.ring().map(|ring| View {
            contact: ring.ptr(),
            pred: ring.pred(),
            succ_list: if extended { &known.extended } else { ring.succ_list() },
            joined: ring.joined(),
        })
    };
    (0..parts.world.ids).filter_map(view).collect()
}

/// Says whether every running node is a member and the ring is ideal.
pub(super) fn is_ideal(state: &State, parts: &Parts) -> bool {
    state.live(parts).all(|(_, known)| known.joined && known.target.is_none())
        && ideal_ring(&views(state, parts, false), parts.world.successors.into())
}

/// Says whether some nodes wait for each other and so for themselves.
fn waits_in_circle(state: &State, parts: &Parts) -> bool {
    let waits_for = |at: u8| {
        let target = state.node(at, parts).target?;
        let there = state.node(target, parts);
        (there.waiting & only(at) != 0).then_some(target)
    };
    (0..parts.world.ids).any(|start| {
        let mut at = Some(start);
        for _ in 0..parts.world.ids {
            at = at.and_then(waits_for);
            if at == Some(start) {
                return true;
            }
        }
        false
    })
}
