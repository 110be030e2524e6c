//! A key has one root: in Pastry the live node numerically nearest to it, ties going counter-clockwise; in Chord the
//! first live node at or after it.

use kringle_core::id::{Key, NodeId};
use kringle_core::overlay::NextHop;

use crate::world::World;

/// Returns the ready node that should answer for a key.
pub fn owner(world: &World, key: Key) -> Option<NodeId> {
    let ids = || world.ready().map(|(_, node)| node.me().id);
    if world.ready().any(|(_, node)| node.overlay().as_chord().is_some()) {
        return ids().min_by_key(|id| key.clockwise_to(*id));
    }
    ids().min_by_key(|id| key.closeness(*id))
}

/// Checks that exactly the nearest of all ready nodes would deliver a key.
pub fn one_root_per_key(world: &World, keys: &[Key]) -> Result<(), String> {
    for key in keys {
        let claims = world.ready().filter(|(_, node)| node.next_hop(*key) == NextHop::Here);
        let claims: Vec<NodeId> = claims.map(|(_, node)| node.me().id).collect();
        let owner = owner(world, *key);
        if claims.len() != 1 || Some(claims[0]) != owner {
            return Err(format!("key {key}: delivered by {claims:?}, owned by {owner:?}"));
        }
    }
    Ok(())
}
