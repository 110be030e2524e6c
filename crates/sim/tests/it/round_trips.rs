//! The default settings work where round trips are long.

use std::time::Duration;

use kringle_core::config::{OverlayKind, Settings};
use kringle_core::edge::NoteKind;
use kringle_core::overlay::Status;
use kringle_sim::network::{Network, Topology};
use kringle_sim::store_chaos::STORE;
use kringle_sim::world::{DiskOptions, World};

use crate::seeds;

/// All are in the ring, and all slots have three copies that serve.
fn is_ready(world: &World) -> bool {
    let whole = |slot| {
        let views = world.running().filter_map(|(_, node)| node.store()?.view(slot));
        views.filter(|(_, serves)| *serves).count() == 3
    };
    world.running().all(|(_, node)| node.status() == Status::Ready) && (0..world.config().slots).all(whole)
}

#[test]
fn round_trips_of_two_seconds_are_no_deaths() {
    for overlay in [OverlayKind::Pastry, OverlayKind::Chord] {
        for (seed, half) in seeds(1..4).zip([250, 500, 1000].into_iter().cycle()) {
            let settings = Settings { overlay, slots: 64, ..Settings::default() };
            let mut world = World::new(settings, seed).with_store(STORE, DiskOptions::default());
            let half = Duration::from_millis(half);
            world.network =
                Network::new(Topology::Flat { min: half, max: half + Duration::from_millis(1) }, seed);
            let first = world.spawn_random();
            world.create(first);
            for _ in 1..5 {
                let node = world.spawn_random();
                world.join(node, &[first]);
            }
            let ready = world.run_until(Duration::from_secs(60), is_ready);
            assert!(ready, "{overlay:?} seed {seed}: not ready a minute after the start");
            world.run_for(Duration::from_secs(600));
            assert_eq!(world.tally.notes(NoteKind::Died), 0, "{overlay:?} seed {seed}");
            assert!(is_ready(&world), "{overlay:?} seed {seed}");
        }
    }
}

/// As real nodes find each other: a connection takes two round trips of its own, and only the one to the seed is there.
#[test]
fn nodes_two_seconds_apart_are_ready_within_a_minute_although_connections_take_time() {
    for overlay in [OverlayKind::Pastry, OverlayKind::Chord] {
        for seed in seeds(1..9) {
            let settings = Settings { overlay, slots: 64, ..Settings::default() };
            let mut world = World::new(settings, seed).with_store(STORE, DiskOptions::default());
            let (half, more) = (Duration::from_secs(1), Duration::from_millis(1));
            world.network = Network::new(Topology::Flat { min: half, max: half + more }, seed);
            world.network.handshake = 2;
            let first = world.spawn_random();
            world.create(first);
            let nodes: Vec<u32> = (1..5).map(|_| world.spawn_random()).collect();
            let greeting = half * 4;
            world.run_for(greeting);
            for node in nodes {
                world.connect(node, first);
                world.join(node, &[first]);
                world.run_for(Duration::from_millis(300));
            }
            let start = world.now();
            let ready = world.run_until(Duration::from_secs(60) - greeting, is_ready);
            println!("{overlay:?} seed {seed}: ready after {:?}", world.now().since(start) + greeting);
            assert!(ready, "{overlay:?} seed {seed}: not ready a minute after the start");
            world.run_for(Duration::from_secs(60));
            assert_eq!(world.tally.notes(NoteKind::Died), 0, "{overlay:?} seed {seed}");
        }
    }
}
