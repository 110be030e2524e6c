//! Everything follows from the seed.

use std::time::Duration;

use kringle_core::config::{Config, Settings};
use kringle_core::contact::{Addr, Contact};
use kringle_core::id::{Id, NodeId};
use kringle_core::message::BodyKind;
use kringle_core::node::Node;
use kringle_core::overlay::{AnyOverlay, echo::Echo};
use kringle_sim::world::World;

fn trace_of(seed: u64) -> (u64, u64) {
    let mut world = World::new(Settings::demo(), seed);
    world.network.loss_per_million = 20_000;
    world.network.doubled_per_million = 20_000;
    world.grow(40);
    world.crash(7);
    world.run_for(Duration::from_secs(60));
    (world.trace_hash(), world.handled())
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(trace_of(7), trace_of(7));
    assert_ne!(trace_of(7), trace_of(8));
}

#[test]
fn the_world_drives_any_node_over_the_edge() {
    fn echo(id: NodeId, incarnation: u32, addr: Addr, _: &Config) -> Node {
        Node::over(AnyOverlay::Echo(Echo::new(Contact::new(id, incarnation, addr))))
    }
    let mut world = World::of(echo, Settings::default(), 1);
    world.through_wire = true;
    let (first, second) = (world.spawn(Id::new(1)), world.spawn(Id::new(2)));
    world.create(first);
    let request = world.join(second, &[first]);
    assert!(world.finish(request).is_ok());
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.tally.messages(BodyKind::Echo), 101, "the ball bounces until its count runs out");
    let request = world.lookup(first, Id::MAX);
    assert!(world.finish(request).is_ok());
}
