//! Whoever grants a lease knows its holder.

use kringle_core::contact::Contact;

use crate::world::World;

/// Checks that every holder of a lease is its grantor's neighbour, or that the grantor knows a nearer one. A grantor that
/// has stopped or started anew can not be asked.
pub fn lease_holders_are_known(world: &World) -> Result<(), String> {
    for (index, node) in world.running() {
        let me = node.me();
        let Some(pastry) = node.overlay().as_pastry() else { continue };
        let lessors = pastry.lessors(world.clock(index)).into_iter().zip([true, false]);
        for ((lessor, life), on_our_left) in lessors.filter_map(|(lessor, left)| Some((lessor?, left))) {
            let same = |other: Contact| other.id == lessor && other.incarnation == life;
            let grantor = world.running().find(|(_, other)| same(other.me()));
            let Some(grantor) = grantor.and_then(|(_, other)| other.overlay().as_pastry()) else { continue };
            let leaf_set = grantor.router().leaf_set();
            let neighbour = if on_our_left { leaf_set.right().next() } else { leaf_set.left().next() };
            let distance = |to: Contact| match on_our_left {
                true => lessor.clockwise_to(to.id),
                false => to.id.clockwise_to(lessor),
            };
            if neighbour.is_none_or(|neighbour| distance(neighbour) > distance(me)) {
                let now = world.now();
                return Err(format!("at {now:?} {me:?} holds a lease from {lessor}, which does not know it"));
            }
        }
    }
    Ok(())
}
