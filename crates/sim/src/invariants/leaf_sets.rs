//! Every leaf set holds exactly the nearest live nodes on either side (Pastry, section 2.1 of the paper; lecture,
//! "leaf set"). Holds once a ring is left in peace.

use std::collections::BTreeSet;

use kringle_core::id::{Id, NodeId};

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
    let mut live: Vec<Id> = world.ready().map(|(_, node)| node.me().id).collect();
    live.sort();
    let side = world.config().leaf_side();
    for (index, node) in world.ready() {
        let Some(pastry) = node.overlay().as_pastry() else { continue };
        let leaf_set = pastry.router().leaf_set();
        let found: BTreeSet<NodeId> = leaf_set.members().iter().map(|contact| contact.id).collect();
        // The nodes around `me` in the sorted list are enough; a whole sort per node would be quadratic.
        let at = live.binary_search(&node.me().id).unwrap_or_else(|at| at);
        let around: Vec<Id> = (0..live.len().min(2 * side + 1))
            .map(|step| live[(at + live.len() + step - side.min(live.len() - 1)) % live.len()])
            .collect();
        let wanted = true_leaves(node.me().id, &around, side);
        if found != wanted {
            let missing: Vec<_> = wanted.difference(&found).collect();
            let extra: Vec<_> = found.difference(&wanted).collect();
            return Err(format!("leaf set of node {index}: missing {missing:?}, extra {extra:?}"));
        }
    }
    Ok(())
}
