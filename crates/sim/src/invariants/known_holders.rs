//! Whoever grants a lease knows its holder.

use kringle_core::contact::Contact;
use kringle_core::node::Node;
use kringle_core::overlay::Status;
use kringle_core::time::Time;

use crate::world::World;

/// Checks that every holder of a lease is its grantor's neighbour, or that the grantor knows a nearer one. A grantor that
/// has stopped, left or started anew can not be asked.
pub fn lease_holders_are_known(world: &World) -> Result<(), String> {
    let nodes: Vec<(&Node, Time)> = world.running().map(|(index, node)| (node, world.clock(index))).collect();
    holders_are_known(&nodes).map_err(|problem| format!("at {:?} {problem}", world.now()))
}

/// The same for any nodes, each with what its clock shows.
pub fn holders_are_known(nodes: &[(&Node, Time)]) -> Result<(), String> {
    for (node, now) in nodes {
        let me = node.me();
        let in_ring = |node: &Node| matches!(node.status(), Status::Ok | Status::Ready);
        let Some(pastry) = node.overlay().as_pastry().filter(|_| in_ring(node)) else { continue };
        let lessors = pastry.lessors(*now).into_iter().zip([true, false]);
        for ((lessor, life), on_our_left) in lessors.filter_map(|(lessor, left)| Some((lessor?, left))) {
            let same = |other: Contact| other.id == lessor && other.incarnation == life;
            let grantor = nodes.iter().find(|(other, _)| same(other.me()) && in_ring(other));
            let Some(grantor) = grantor.and_then(|(other, _)| other.overlay().as_pastry()) else { continue };
            let leaf_set = grantor.router().leaf_set();
            let neighbour = if on_our_left { leaf_set.right().next() } else { leaf_set.left().next() };
            let distance = |to: Contact| match on_our_left {
                true => lessor.clockwise_to(to.id),
                false => to.id.clockwise_to(lessor),
            };
            if neighbour.is_none_or(|neighbour| distance(neighbour) > distance(me)) {
                return Err(format!("{me:?} holds a lease from {lessor}, which does not know it"));
            }
        }
    }
    Ok(())
}
