//! Routing on the tables of one moment: nobody is repaired because nothing happens.

use std::collections::BTreeSet;

use kringle_core::id::{Key, NodeId};
use kringle_core::message::{Rule, Stage};
use kringle_core::overlay::NextHop;

use crate::lab::ring::{Lookup, Routes};
use crate::world::World;

/// Follows the routing decisions of the nodes that live, each leaving out the dead. A lookup is lost where a decision
/// leads nowhere.
pub(super) fn routes(world: &World, lookups: &[Lookup], dead: &BTreeSet<NodeId>) -> Routes {
    let mut routes = Routes::new("hops on the tables of the moment of the deaths");
    for (from, key, root) in lookups {
        match route(world, *from, *key, dead) {
            Some(path) => {
                routes.wrong += u64::from(path.last() != Some(root));
                routes.add(path.len() as u64 - 1, &path, &world.network);
            }
            None => routes.lost += 1,
        }
    }
    routes
}

fn route(world: &World, from: u32, key: Key, dead: &BTreeSet<NodeId>) -> Option<Vec<u32>> {
    let (mut path, mut at, mut stage) = (vec![from], from, Stage::Prefix);
    loop {
        let router = world.node(at)?.overlay().as_pastry()?.router();
        match router.next_hop_except(key, stage, &|id| dead.contains(&id), None) {
            NextHop::Peer(next, rule) if path.len() <= usize::from(world.config().hops_max) => {
                at = next.addr.0;
                path.push(at);
                if rule == Rule::LeafSet {
                    stage = Stage::Leaf;
                }
            }
            // Only a dead node would be nearer: this one is the nearest that lives.
            NextHop::Here | NextHop::Wait => return Some(path),
            NextHop::Peer(..) | NextHop::NotReady => return None,
        }
    }
}
