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
