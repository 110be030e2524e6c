//! Two ring neighbours that cannot talk to each other, though others can talk to both.

use std::time::Duration;

use kringle_core::config::{OverlayKind, Ownership, Settings};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{NoteKind, Reply};
use kringle_core::id::Id;
use kringle_sim::invariants::{one_deliverer_per_key, owner, telling_keys};
use kringle_sim::world::World;

use crate::seeds;

/// Cuts the link between two neighbours and returns how many of their lookups go wrong from five seconds on, of how many.
fn lookups_that_fail(overlay: OverlayKind, seed: u64, relays: bool) -> (usize, usize) {
    let settings = Settings { overlay, ownership: Ownership::Lease, ..Settings::default() };
    let mut world = World::new(settings, seed);
    world.grow(16);
    world.run_for(Duration::from_secs(60));
    let mut ring: Vec<(Id, u32)> = world.running().map(|(index, node)| (node.me().id, index)).collect();
    ring.sort();
    let ids: Vec<Id> = ring.iter().map(|(id, _)| *id).collect();
    let keys = telling_keys(&ids);
    let (a, b) = (ring[3].1, ring[4].1);
    world.network.relays = relays;
    world.network.cut_both(a, b);
    let watched = |world: &mut World, span| {
        let watched = world.run_watched(span, |world| one_deliverer_per_key(world, &keys));
        watched.unwrap_or_else(|two| panic!("{overlay:?} seed {seed}: {two}"));
    };
    watched(&mut world, Duration::from_secs(5));
    let mut dice = SeededDice::new(seed);
    let (mut failed, count) = (0, 200);
    for at in 0..count {
        let (from, to) = if at % 2 == 0 { (a, b) } else { (b, a) };
        // Half of the keys belong to the other of the two, and need this very link.
        let near = world.contact(to).id.minus(u128::from(dice.roll()));
        let any = Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()));
        let key = if at % 4 < 2 { near } else { any };
        let request = world.lookup(from, key);
        let right = owner(&world, key);
        let found = world.finish(request);
        failed += usize::from(!matches!(found, Ok(Reply::Found { root, .. }) if Some(root.id) == right));
        watched(&mut world, Duration::from_millis(100));
    }
    if relays {
        assert_eq!(world.tally.notes(NoteKind::Died), 0, "{overlay:?} seed {seed}");
    }
    (failed, count)
}

#[test]
fn neighbours_whose_link_is_cut_talk_through_others() {
    for overlay in [OverlayKind::Pastry, OverlayKind::Chord] {
        let (mut failed, mut all) = (0, 0);
        for seed in seeds(1..6) {
            let (some, count) = lookups_that_fail(overlay, seed, true);
            (failed, all) = (failed + some, all + count);
        }
        println!("{overlay:?}: {failed} of {all} lookups fail five seconds after the cut");
        assert!(failed * 100 <= all, "{overlay:?}: {failed} of {all}");
        let (without, all) = lookups_that_fail(overlay, 1, false);
        println!("{overlay:?}: {without} of {all} without relays");
        assert!(without * 100 > all, "{overlay:?}: the link is not needed, {without} of {all}");
    }
}
