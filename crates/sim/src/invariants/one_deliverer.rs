//! At no instant are two nodes entitled to deliver one key (Lu, "Formal verification of the Pastry protocol":
//! consistency). Holds always with leases, inside one connected part of the network.

use kringle_core::id::{Id, Key};

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
