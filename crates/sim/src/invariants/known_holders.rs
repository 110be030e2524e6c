//! Whoever grants a lease knows its holder.

use kringle_core::id::NodeId;
use kringle_core::node::Node;
use kringle_core::overlay::Status;
use kringle_core::time::Time;

use super::Places;
use crate::world::World;

/// Checks that every holder of a lease is its grantor's neighbour, or that the grantor knows a nearer one. A grantor that
/// has stopped, left or started anew can not be asked.
pub fn lease_holders_are_known(world: &World) -> Result<(), String> {
    let places = Places::of_running(world);
    let problem = world.running().try_for_each(|(index, holder)| {
        holder_is_known(holder, world.clock(index), |id| world.node(places.find(id)?))
    });
    problem.map_err(|problem| format!("at {:?} {problem}", world.now()))
}

/// Checks the leases one node holds, and those the nodes up to `reach` places beside it hold from it.
pub fn lease_holders_beside(world: &World, places: &Places, node: u32, reach: usize) -> Result<(), String> {
    let Some(me) = world.node(node).map(|node| node.me().id) else { return Ok(()) };
    let check = |holder: u32, only: Option<u32>| {
        let Some(running) = world.node(holder) else { return Ok(()) };
        let grantor = |id| {
            let found = places.find(id).filter(|found| only.is_none_or(|only| only == *found));
            world.node(found?)
        };
        holder_is_known(running, world.clock(holder), grantor)
    };
    check(node, None)
        .and_then(|()| places.beside(me, reach).try_for_each(|holder| check(holder, Some(node))))
        .map_err(|problem| format!("at {:?} {problem}", world.now()))
}

/// The same for any nodes, each with what its clock shows.
pub fn holders_are_known(nodes: &[(&Node, Time)]) -> Result<(), String> {
    nodes.iter().try_for_each(|(holder, now)| {
        // Two lives of a node may be there at once.
        let lessors = holder.overlay().as_pastry().map_or([None; 2], |pastry| pastry.lessors(*now));
        let same = |other: &Node| {
            lessors.iter().flatten().any(|one| *one == (other.me().id, other.me().incarnation))
        };
        holder_is_known(holder, *now, |id| {
            nodes.iter().map(|(other, _)| *other).find(|other| other.me().id == id && same(other))
        })
    })
}

fn is_in_ring(node: &Node) -> bool {
    matches!(node.status(), Status::Ok | Status::Ready)
}

/// Checks the leases of one node, whose clock shows `now`; `find` returns the node with an id.
fn holder_is_known<'a>(
    holder: &Node,
    now: Time,
    find: impl Fn(NodeId) -> Option<&'a Node>,
) -> Result<(), String> {
    let me = holder.me();
    let Some(pastry) = holder.overlay().as_pastry().filter(|_| is_in_ring(holder)) else { return Ok(()) };
    for (lessor, on_our_left) in pastry.lessors(now).into_iter().zip([true, false]) {
        let Some((lessor, life)) = lessor else { continue };
        let grantor = find(lessor).filter(|grantor| grantor.me().incarnation == life && is_in_ring(grantor));
        let Some(grantor) = grantor.and_then(|grantor| grantor.overlay().as_pastry()) else { continue };
        let leaf_set = grantor.router().leaf_set();
        let neighbour = if on_our_left { leaf_set.right().next() } else { leaf_set.left().next() };
        let distance = |to: NodeId| match on_our_left {
            true => lessor.clockwise_to(to),
            false => to.clockwise_to(lessor),
        };
        if neighbour.is_none_or(|neighbour| distance(neighbour.id) > distance(me.id)) {
            return Err(format!("{me:?} holds a lease from {lessor}, which does not know it"));
        }
    }
    Ok(())
}
