//! Chord rings that shrink: with r + 1 members or fewer they are lists of all members again, by one agreement.

use std::time::Duration;

use kringle_core::config::{OverlayKind, Safeguard, Settings};
use kringle_core::contact::Contact;
use kringle_core::edge::Command;
use kringle_core::overlay::chord::Chord;
use kringle_sim::invariants::neighbours_are_exact;
use kringle_sim::world::World;

use crate::seeds;

const SOON: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings { overlay: OverlayKind::Chord, successors: 3, ..Settings::demo() }
}

/// A ring from eight members on, a list beside it below ten.
fn longer() -> Settings {
    Settings { successors: 5, ..settings() }
}

/// Grows a ring one by one, and waits until it is one.
fn ring(settings: Settings, count: usize, seed: u64) -> World {
    let mut world = World::new(settings, seed);
    world.grow(count);
    assert!(world.run_until(SOON, |world| is_well(world, true)), "seed {seed}: {}", told(&world));
    world
}

fn chords(world: &World) -> impl Iterator<Item = &Chord> {
    world.running().filter_map(|(_, node)| node.overlay().as_chord())
}

/// All running nodes know who is beside them, and all or none of them go by the ring.
fn is_well(world: &World, large: bool) -> bool {
    let all = world.running().count() == world.ready().count();
    all && chords(world).all(|chord| chord.is_large() == large) && neighbours_are_exact(world).is_ok()
}

/// All running nodes have the same list, and it is that of all of them.
fn has_list(world: &World) -> bool {
    let mut running: Vec<Contact> = world.running().map(|(_, node)| node.me()).collect();
    running.sort_by_key(|node| node.id);
    chords(world).all(|chord| chord.forming().members() == running)
}

fn told(world: &World) -> String {
    let one = |chord: &Chord| {
        let list: Vec<u32> = chord.forming().members().iter().map(|node| node.addr.0).collect();
        let succ: Vec<u32> = chord.successors().iter().map(|node| node.addr.0).collect();
        format!(
            "large {} epoch {} list {list:?} successors {succ:?}",
            chord.is_large(),
            chord.forming().epoch()
        )
    };
    let nodes =
        world.running().filter_map(|(at, node)| Some((at, node.status(), node.overlay().as_chord()?)));
    let told: String =
        nodes.map(|(at, status, chord)| format!("\n  {at} {status:?} {}", one(chord))).collect();
    format!("{:?}{told}", neighbours_are_exact(world))
}

fn expect(world: &mut World, what: &str, seed: u64, holds: impl Fn(&World) -> bool) {
    assert!(world.run_until(SOON, holds), "seed {seed}: {what}: {}", told(world));
}

fn running(world: &World) -> Vec<u32> {
    world.running().map(|(at, _)| at).collect()
}

fn join(world: &mut World) {
    let through = running(world)[0];
    let node = world.spawn_random();
    world.join(node, &[through]);
}

#[test]
fn a_list_is_kept_beside_a_ring_that_is_not_too_large() {
    for seed in seeds(1..6) {
        let mut world = ring(longer(), 8, seed);
        join(&mut world);
        world.crash(2);
        join(&mut world);
        expect(&mut world, "the list is that of the ring", seed, |world| {
            is_well(world, true) && has_list(world)
        });
        (0..4).for_each(|_| join(&mut world));
        let void = |world: &World| chords(world).all(|chord| chord.forming().members().is_empty());
        expect(&mut world, "thirteen are too many", seed, |world| is_well(world, true) && void(world));
    }
}

#[test]
fn a_ring_that_shrinks_becomes_a_list_and_grows_again() {
    for seed in seeds(1..11) {
        let mut world = ring(settings(), 12, seed);
        while running(&world).len() > 4 {
            let last = *running(&world).last().expect("some are left");
            // Half of them say goodbye.
            match last % 2 {
                0 => world.crash(last),
                _ => {
                    let request = world.command(last, Command::Leave);
                    world.finish(request).expect("it leaves");
                    world.crash(last);
                }
            }
            world.run_for(Duration::from_secs(20));
        }
        expect(&mut world, "four are no ring", seed, |world| is_well(world, false) && has_list(world));
        join(&mut world);
        expect(&mut world, "five are none yet", seed, |world| is_well(world, false) && has_list(world));
        join(&mut world);
        expect(&mut world, "six are one", seed, |world| is_well(world, true));
        let gone = running(&world)[1];
        world.crash(gone);
        world.run_for(Duration::from_secs(30));
        expect(&mut world, "five still are", seed, |world| is_well(world, true) && has_list(world));
    }
}

/// The rule makes the difference: without it, the ring stays one below what its proof needs.
#[test]
fn without_the_way_back_a_ring_stays_one() {
    let mut world = ring(Settings { without: Some(Safeguard::WayBack), ..settings() }, 6, 1);
    for node in [1, 2, 3] {
        world.crash(node);
        world.run_for(Duration::from_secs(30));
    }
    assert!(is_well(&world, true), "{}", told(&world));
}

/// Somebody joins while the others agree to end the ring. It is let wait, or finds that it came too late.
#[test]
fn who_comes_while_a_ring_ends_is_not_lost() {
    for seed in seeds(1..41) {
        let mut world = ring(settings(), 6, seed);
        world.crash(1);
        world.crash(3);
        // The moments between the crash, the end of the ring and the time after.
        world.run_for(Duration::from_millis(150 * seed));
        join(&mut world);
        expect(&mut world, "five of them, and one list", seed, |world| {
            has_list(world) && (is_well(world, false) || is_well(world, true))
        });
    }
}

/// Who was away while the ring ended comes to the group; the group does not go over to it.
#[test]
fn a_group_does_not_follow_one_that_was_away() {
    for seed in seeds(1..21) {
        let mut world = ring(settings(), 6, seed);
        world.crash(1);
        expect(&mut world, "five are a ring with a list", seed, |world| {
            is_well(world, true) && has_list(world)
        });
        let away = *running(&world).last().expect("some are left");
        world.network.split_by((0..6).map(|node| (node == away).into()).collect());
        world.run_for(Duration::from_secs(30));
        let small = chords(&world).filter(|chord| !chord.is_large()).count();
        assert_eq!(small, 4, "seed {seed}: {}", told(&world));
        let before = chords(&world).map(|chord| chord.forming().epoch()).max();
        world.network.mend();
        expect(&mut world, "five of one group", seed, |world| is_well(world, false) && has_list(world));
        // A group that had dissolved would count from one again.
        let after = chords(&world).map(|chord| chord.forming().epoch()).min();
        assert!(after > before, "seed {seed}: {}", told(&world));
    }
}

/// A half that is no majority of the list keeps its ring: the other may still be there. Once they meet, they are one.
#[test]
fn two_halves_do_not_both_make_lists() {
    for seed in seeds(1..31) {
        let mut world = ring(longer(), 8, seed);
        expect(&mut world, "they have a list", seed, |world| is_well(world, true) && has_list(world));
        let half = running(&world)[..4].to_vec();
        world.network.split_by((0..8).map(|node| half.contains(&node).into()).collect());
        world.run_for(Duration::from_secs(60));
        assert!(chords(&world).all(Chord::is_large), "seed {seed}: {}", told(&world));
        world.network.mend();
        expect(&mut world, "one ring", seed, |world| is_well(world, true));
    }
}
