//! What must hold in every state, and what must happen in some.

use std::time::Duration;

use kringle_core::config::Safeguard;
use kringle_core::id::{Id, Key};
use kringle_core::node::Node;
use kringle_core::overlay::{Overlay, Status};
use kringle_core::time::Time;
use kringle_sim::invariants::{holders_are_known, true_leaves};
use stateright::Property;

use crate::action::Action;
use crate::model::{Ring, fair};
use crate::plan::{Plan, Sometimes};
use crate::state::State;

/// How long a ring left in peace may take to be whole again: several rounds of every periodic exchange.
const REST: Duration = Duration::from_secs(400);

/// Returns the properties of a model.
pub(crate) fn of(plan: &Plan) -> Vec<Property<Ring>> {
    let mut all = vec![
        Property::always("one deliverer per key", |ring: &Ring, state: &State| {
            two_deliverers(ring, state).is_none() && state.delivered_twice.is_none()
        }),
        Property::always("the deliverer is the nearest", |ring, state| nearer_one(ring, state).is_none()),
        Property::always("grantors know their holders", |ring: &Ring, state: &State| {
            let nodes: Vec<(&Node, Time)> = state.running().map(|(_, node)| (node, state.now)).collect();
            !judges_holders(ring) || holders_are_known(&nodes).is_ok()
        }),
        Property::always("nodes keep their own rules", |_, state: &State| state.broken.is_none()),
        Property::always("left in peace, the ring is whole", |ring: &Ring, state: &State| {
            let sampled = ring.rest_every > 0 && state.fingerprint().is_multiple_of(ring.rest_every);
            !sampled || comes_to_rest(ring, state).is_ok()
        }),
    ];
    all.extend(plan.sometimes.iter().map(|what| match what {
        Sometimes::Joined => Property::sometimes("a joiner becomes ready", |ring: &Ring, state: &State| {
            state.running().any(|(node, n)| node >= ring.plan().ready && n.status() == Status::Ready)
        }),
        Sometimes::TwoDeliver => {
            Property::sometimes("two nodes deliver", |ring, state| entitled(ring, state).count() > 1)
        }
        Sometimes::LeaseLost => Property::sometimes("a ready node may not deliver", |ring: &Ring, state| {
            let ready = state.running().filter(|(_, node)| node.status() == Status::Ready).count();
            entitled(ring, state).count() < ready
        }),
        Sometimes::Suspected => Property::sometimes("a node doubts another", |_, state: &State| {
            let doubts = |node: &Node| node.overlay().as_pastry().is_some_and(|p| !p.suspects().is_empty());
            state.running().any(|(_, node)| doubts(node))
        }),
        Sometimes::Isolated => Property::sometimes("a node is isolated", |_, state: &State| {
            state.running().any(|(_, node)| node.status() == Status::Isolated)
        }),
        Sometimes::Returned => Property::sometimes("a restarted node is ready", |_, state: &State| {
            state.running().any(|(_, n)| n.me().incarnation > 1 && n.status() == Status::Ready)
        }),
        Sometimes::Delivered => {
            Property::sometimes("a message is delivered", |_, state: &State| state.delivered)
        }
    }));
    all
}

/// Many a rule left out breaks this long before anything comes of it; then what comes of it is the better example.
pub(crate) fn judges_holders(ring: &Ring) -> bool {
    matches!(ring.config().without, None | Some(Safeguard::AddFirst))
}

/// Returns all nodes that may deliver something.
fn entitled<'a>(ring: &'a Ring, state: &'a State) -> impl Iterator<Item = (u8, &'a Node)> {
    let may = |node: &Node| {
        node.status() == Status::Ready && node.overlay().entitled(state.now, ring.config()).is_some()
    };
    state.running().filter(move |(_, node)| may(node))
}

/// Returns a key and two nodes that would both deliver it (P-S1).
pub(crate) fn two_deliverers(ring: &Ring, state: &State) -> Option<(Key, u8, u8)> {
    entitled(ring, state).nth(1)?;
    ring.keys.iter().find_map(|key| {
        let mut delivers = entitled(ring, state).filter(|(_, n)| n.delivers(*key, state.now, ring.config()));
        let (first, _) = delivers.next()?;
        delivers.next().map(|(second, _)| (*key, first, second))
    })
}

/// Returns a key, the node that would deliver it, and an entitled one that is nearer (P-S2).
pub(crate) fn nearer_one(ring: &Ring, state: &State) -> Option<(Key, u8, u8)> {
    ring.keys.iter().find_map(|key| {
        let (nearest, _) = entitled(ring, state).min_by_key(|(_, node)| key.closeness(node.me().id))?;
        let mut others = entitled(ring, state).filter(|(index, _)| *index != nearest);
        let (delivers, _) = others.find(|(_, node)| node.delivers(*key, state.now, ring.config()))?;
        Some((*key, delivers, nearest))
    })
}

/// Leaves a world in peace: everything mended and running, nothing lost or slow. Says what is still wrong in the end.
pub(crate) fn comes_to_rest(ring: &Ring, state: &State) -> Result<(), String> {
    let mut state = state.clone();
    let rules = ring.rules();
    if !state.cuts.is_empty() {
        state.step(Action::Mend, &rules);
    }
    for node in 0..state.slots.len() as u8 {
        state.step(Action::Resume(node), &rules);
    }
    let end = state.now.after(REST);
    loop {
        let next = fair(&state, end);
        // Looked at when nothing is in flight: then all is settled, or only time will help.
        if !matches!(next, Some(Action::Deliver(_) | Action::Upcall(_))) && is_whole(ring, &state).is_ok() {
            return Ok(());
        }
        match next {
            Some(action) => state.step(action, &rules),
            None => return is_whole(ring, &state),
        };
    }
}

fn is_whole(ring: &Ring, state: &State) -> Result<(), String> {
    let told = |node: u8| state.slots[usize::from(node)].told;
    let nodes: Vec<(u8, &Node)> = state.running().filter(|(node, _)| told(*node)).collect();
    // A node whose peers are all gone has nobody to be whole with; so have those that only ever wanted to join.
    let alone = nodes.len() < 2 || nodes.iter().all(|(_, node)| node.status() == Status::Joining);
    if alone {
        return Ok(());
    }
    let live: Vec<Id> = nodes.iter().map(|(_, node)| node.me().id).collect();
    for (index, node) in &nodes {
        let Some(pastry) = node.overlay().as_pastry() else { continue };
        let found = pastry.router().leaf_set().members().iter().map(|leaf| leaf.id).collect();
        let exact = true_leaves(node.me().id, &live, ring.config().leaf_side()) == found;
        if node.status() != Status::Ready || !exact {
            let status = node.status();
            return Err(format!(
                "node {index} is {status:?}, its leaf set is {}",
                if exact { "right" } else { "wrong" }
            ));
        }
    }
    Ok(())
}
