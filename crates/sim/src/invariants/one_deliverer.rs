//! At no instant are two nodes entitled to deliver one key (Lu, "Formal verification of the Pastry protocol":
//! consistency). Holds always with leases, inside one connected part of the network.

use kringle_core::id::{Id, Key};
use kringle_core::node::Node;
use kringle_core::overlay::Overlay;
use kringle_core::range::IdRange;

use super::Places;
use crate::world::World;

/// Checks that at most one running node would deliver each of these keys now. A paused node counts: it would deliver if
/// it were given a message before it has read its clock, which is why drivers read it right before the call.
pub fn one_deliverer_per_key(world: &World, keys: &[Key]) -> Result<(), String> {
    for key in keys {
        let delivers =
            world.running().filter(|(index, node)| node.delivers(*key, world.clock(*index), world.config()));
        let nodes: Vec<(u32, Id)> = delivers.map(|(index, node)| (index, node.me().id)).collect();
        if nodes.len() > 1 {
            return Err(format!("at {:?} key {key} is delivered by {nodes:?}", world.now()));
        }
    }
    Ok(())
}

/// Checks that no key has two deliverers among all running nodes of each part: `part` says in which part a node is, and
/// nothing for nodes that are not judged. Looks at what each may deliver as a whole, so it takes no keys.
pub fn one_deliverer(world: &World, part: impl Fn(u32) -> Option<u32>) -> Result<(), String> {
    let claim = |(index, node): (u32, &Node)| Some((part(index)?, claim(world, index, node)?, index));
    let mut claims: Vec<(u32, (Id, u128), u32)> = world.running().filter_map(claim).collect();
    claims.sort_unstable();
    for group in claims.chunk_by(|one, other| one.0 == other.0).filter(|group| group.len() > 1) {
        for (at, (_, (start, length), index)) in group.iter().enumerate() {
            let (_, (next, _), other) = group[(at + 1) % group.len()];
            if start.clockwise_to(next) < *length {
                return Err(two_deliver(world, next, *index, other));
            }
        }
    }
    Ok(())
}

/// Checks that nobody up to `reach` places beside a node and in the same part delivers what that node delivers.
pub fn one_deliverer_beside(
    world: &World,
    places: &Places,
    node: u32,
    reach: usize,
    part: impl Fn(u32) -> Option<u32>,
) -> Result<(), String> {
    let claim = |index: u32| claim(world, index, world.node(index)?);
    let (Some(mine), Some(group)) = (claim(node), part(node)) else { return Ok(()) };
    let (start, length) = mine;
    for other in places.beside(world.contact(node).id, reach).filter(|other| part(*other) == Some(group)) {
        let Some((begin, extent)) = claim(other) else { continue };
        let common = match (start.clockwise_to(begin) < length, begin.clockwise_to(start) < extent) {
            (true, _) => begin,
            (_, true) => start,
            _ => continue,
        };
        return Err(two_deliver(world, common, node, other));
    }
    Ok(())
}

/// What a node may deliver right now: from where on and how far. All of the ring is one short of it.
fn claim(world: &World, index: u32, node: &Node) -> Option<(Id, u128)> {
    let range = node.range();
    if range == IdRange::Empty || node.overlay().entitled(world.clock(index), world.config()).is_none() {
        return None;
    }
    match range {
        IdRange::Empty => None,
        IdRange::Full => Some((node.me().id, u128::MAX)),
        IdRange::Arc { start, end } => Some((start, start.clockwise_to(end))),
    }
}

fn two_deliver(world: &World, key: Key, one: u32, other: u32) -> String {
    let nodes = [one, other].map(|index| (index, world.contact(index).id));
    format!("at {:?} key {key} is delivered by {nodes:?}", world.now())
}

/// Returns the keys that tell who delivers what in a ring of these nodes: every id, the points beside it, and the middles
/// between all pairs, where one range ends and the next begins whoever is missing.
pub fn telling_keys(ids: &[Id]) -> Vec<Key> {
    let beside = ids.iter().flat_map(|id| [*id, id.plus(1), id.minus(1)]);
    let between = ids.iter().flat_map(|a| ids.iter().filter(move |b| a != *b).map(|b| a.middle_to(*b)));
    let mut keys: Vec<Key> = beside.chain(between.flat_map(|middle| [middle, middle.plus(1)])).collect();
    keys.sort();
    keys.dedup();
    keys
}
