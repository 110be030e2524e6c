//! Every leaf set holds exactly the nearest live nodes on either side (Pastry, section 2.1 of the paper; lecture,
//! "leaf set"). Holds once a ring is left in peace.

use std::collections::BTreeSet;

use kringle_core::id::{Id, NodeId};
use kringle_core::node::Node;

use super::Places;
use crate::world::World;

/// Computes the leaf set a node should have, from all live ids.
pub fn true_leaves(me: NodeId, live: &[NodeId], side: usize) -> BTreeSet<NodeId> {
    let mut others: Vec<NodeId> = live.iter().copied().filter(|id| *id != me).collect();
    others.sort_by_key(|id| me.clockwise_to(*id));
    let right = others.iter().take(side);
    right.chain(others.iter().rev().take(side)).copied().collect()
}

/// Compares every ready node's leaf set with the truth.
pub fn leaf_sets_are_exact(world: &World) -> Result<(), String> {
    let places = Places::of_ready(world);
    let side = world.config().leaf_side();
    for (index, node) in world.ready() {
        if is_plainly_exact(node, &places, side) {
            continue;
        }
        let Some(found) = leaves(node) else { continue };
        let wanted = wanted(node.me().id, &places, side);
        if found == wanted {
            continue;
        }
        let missing: Vec<_> = wanted.difference(&found).collect();
        let extra: Vec<_> = found.difference(&wanted).collect();
        return Err(format!("leaf set of node {index}: missing {missing:?}, extra {extra:?}"));
    }
    Ok(())
}

/// Counts the ready nodes whose leaf sets are exact.
pub fn exact_leaf_sets(world: &World) -> usize {
    exact_leaf_sets_among(world, |_| true)
}

/// Counts the nodes whose leaf sets are exact, as if there were only some of the ready nodes.
pub fn exact_leaf_sets_among(world: &World, some: impl Fn(u32) -> bool) -> usize {
    let places = Places::of_some(world, &some);
    let side = world.config().leaf_side();
    world.ready().filter(|(index, node)| some(*index) && is_exact(node, &places, side)).count()
}

fn is_exact(node: &Node, places: &Places, side: usize) -> bool {
    is_plainly_exact(node, places, side)
        || leaves(node).is_none_or(|found| found == wanted(node.me().id, places, side))
}

/// Compares one leaf set with the truth, quickly: no set is built. May not see that one is exact.
fn is_plainly_exact(node: &Node, places: &Places, side: usize) -> bool {
    let Some(pastry) = node.overlay().as_pastry() else { return true };
    let leaf_set = pastry.router().leaf_set();
    let (all, me) = (places.all(), node.me().id);
    let others = all.len().saturating_sub(1);
    if leaf_set.members().len() != others.min(2 * side) {
        return false;
    }
    if others <= 2 * side {
        return leaf_set.members().iter().all(|leaf| places.find(leaf.id).is_some());
    }
    let Ok(at) = all.binary_search_by_key(&me, |(id, _)| *id) else { return false };
    let right =
        leaf_set.right().enumerate().all(|(step, leaf)| leaf.id == all[(at + step + 1) % all.len()].0);
    let left = leaf_set
        .left()
        .enumerate()
        .all(|(step, leaf)| leaf.id == all[(at + all.len() - step - 1) % all.len()].0);
    right && left && leaf_set.right().len() == side
}

fn leaves(node: &Node) -> Option<BTreeSet<NodeId>> {
    let leaf_set = node.overlay().as_pastry()?.router().leaf_set();
    Some(leaf_set.members().iter().map(|contact| contact.id).collect())
}

/// The nodes around `me` are enough; a whole sort per node would be quadratic.
fn wanted(me: NodeId, places: &Places, side: usize) -> BTreeSet<NodeId> {
    let live = places.all();
    let at = live.partition_point(|(id, _)| *id < me);
    let around: Vec<Id> = (0..live.len().min(2 * side + 1))
        .map(|step| live[(at + live.len() + step - side.min(live.len() - 1)) % live.len()].0)
        .collect();
    true_leaves(me, &around, side)
}
