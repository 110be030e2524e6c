//! A ring that was cut in two is one again soon, however long the cut was.

use std::time::Duration;

use kringle_core::config::{OverlayKind, Settings};
use kringle_sim::invariants::neighbours_are_exact;
use kringle_sim::store_chaos::STORE;
use kringle_sim::world::{DiskOptions, World};

use crate::seeds;

/// All views have all their copies, and all members serve.
fn is_whole(world: &World) -> bool {
    let slots = 0..world.config().slots;
    let serves = |slot: u32| {
        let views: Vec<_> = world.running().filter_map(|(_, node)| node.store()?.view(slot)).collect();
        let newest = views.iter().map(|(view, _)| view.epoch).max();
        views.iter().filter(|(view, serves)| Some(view.epoch) == newest && *serves).count() == 3
    };
    world.running().count() == world.ready().count()
        && neighbours_are_exact(world).is_ok()
        && slots.into_iter().all(serves)
}

#[test]
fn ring_is_one_again_soon_after_a_cut_of_any_length() {
    for overlay in [OverlayKind::Pastry, OverlayKind::Chord] {
        for (seed, cut) in seeds(1..4).zip([60, 600, 3600].into_iter().cycle()) {
            let settings = Settings { overlay, slots: 16, ..Settings::default() };
            let mut world = World::new(settings, seed).with_store(STORE, DiskOptions::default());
            world.grow(5);
            assert!(world.run_until(Duration::from_secs(60), is_whole), "{overlay:?} seed {seed}");
            world.network.split_by(vec![0, 1, 0, 1, 0]);
            world.run_for(Duration::from_secs(cut));
            assert!(!is_whole(&world));
            world.network.mend();
            let whole = world.run_until(Duration::from_secs(10), is_whole);
            assert!(whole, "{overlay:?} seed {seed}: not one ring ten seconds after {cut} s");
        }
    }
}
