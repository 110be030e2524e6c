//! The two join scenarios of Wendy's own tests, with its ids.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::edge::Reply;
use kringle_core::id::Id;
use kringle_core::overlay::pastry::router::Router;
use kringle_sim::world::World;

fn id(text: &[u8; 16]) -> Id {
    Id::from_bytes(text).expect("sixteen bytes")
}

fn joined(world: &mut World, node: u32, seed: u32) {
    let request = world.join(node, &[seed]);
    assert_eq!(world.finish(request), Ok(Reply::Joined));
}

fn router(world: &World, node: u32) -> &Router {
    world.node(node).and_then(|node| node.overlay().as_pastry()).expect("a Pastry node").router()
}

#[test]
fn two_nodes_end_in_all_three_tables_of_each_other() {
    let mut world = World::new(Settings::default(), 1);
    let (one, two) = (world.spawn(id(b"this is a test N")), world.spawn(id(b"this is some oth")));
    world.create(one);
    joined(&mut world, two, one);
    world.run_for(Duration::from_secs(3));
    for (node, other) in [(one, two), (two, one)] {
        let (router, other) = (router(&world, node), world.contact(other).id);
        assert!(router.leaf_set().get(other).is_some());
        assert!(router.table().get(other).is_some());
        assert!(router.neighbourhood().members().any(|contact| contact.id == other));
    }
    let cell = router(&world, one).table().cell(16, 7).next().map(|entry| entry.contact.id);
    assert_eq!(cell, Some(world.contact(two).id), "row 16, column 7");
}

#[test]
fn of_three_nodes_everybody_knows_everybody() {
    let mut world = World::new(Settings::default(), 1);
    let ids = [b"A test Node for ", b"just some other ", b"yet a third Node"];
    let nodes = ids.map(|text| world.spawn(id(text)));
    world.create(nodes[0]);
    joined(&mut world, nodes[1], nodes[0]);
    // The third joins through the second.
    joined(&mut world, nodes[2], nodes[1]);
    world.run_for(Duration::from_secs(3));
    for node in nodes {
        for other in nodes.into_iter().filter(|other| *other != node) {
            let (router, other) = (router(&world, node), world.contact(other).id);
            assert!(router.leaf_set().get(other).is_some() && router.table().get(other).is_some());
            assert!(router.neighbourhood().members().any(|contact| contact.id == other));
        }
    }
}
