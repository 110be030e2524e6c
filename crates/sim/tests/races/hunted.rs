//! What a hunt with random worlds found after all races on record were won.

use kringle_core::config::Settings;
use kringle_core::dice::Dice;
use kringle_core::edge::Command;
use kringle_core::id::Id;
use kringle_sim::network::Topology;

use super::*;

/// Every seed must end well; there is no single rule to leave out.
fn ends_well(seeds: u64, run: Run) {
    for seed in 1..=seeds {
        run(settings(None), seed).unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
    }
}

fn cut_off(world: &mut World, node: u32) {
    for other in (0..world.len() as u32).filter(|other| *other != node) {
        world.network.cut_both(node, other);
    }
}

fn spawn(world: &mut World, first: u8) -> u32 {
    world.spawn(Id::new(u128::from(first) << 120))
}

/// Both neighbours of a node are displaced by newcomers. It goes on with what is left of its displaced leases, grants
/// the newcomers theirs, and is stopped before they have granted it anything.
fn displaced_on_both_sides(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0xe0, 0x80], 3);
    for first in [0x60, 0xa0] {
        let node = spawn(&mut world, first);
        world.join(node, &[0, 1]);
    }
    // The moment in which both newcomers hold something from it, and it holds nothing from them.
    let lessors = |world: &World, node: u32| {
        let now = world.clock(node);
        let pastry = world.node(node).and_then(|node| node.overlay().as_pastry());
        pastry.map_or([None; 2], |pastry| pastry.lessors(now).map(|lessor| lessor.map(|(id, _)| id)))
    };
    let holds =
        |world: &World, node: u32, from: u32| lessors(world, node).contains(&Some(world.contact(from).id));
    let mut left = 3000;
    while !(holds(&world, 3, 2) && holds(&world, 4, 2)) && left > 0 {
        watch(&mut world, millis(1))?;
        left -= 1;
    }
    world.pause(2);
    watch(&mut world, millis(3800))?;
    world.resume(2);
    watch(&mut world, seconds(5))
}

#[test]
fn a_new_neighbour_may_hold_what_was_displaced() {
    ends_well(SEEDS, displaced_on_both_sides);
}

/// In the ring 1 - 0 - 4 - 3 - 2, node 0 is stopped and then 4 is cut off. Node 1 is bound to 0 and keeps it; to 4 it is not
/// bound, so 4 is forgotten first, though it still has a lease of 0's. A newcomer that never met 4 would grant 1 the rest.
fn forgotten_before_its_grantor(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { leaf_set: 4, lease: seconds(10), find_nearby: false, ..settings };
    let mut dice = dice(seed);
    let mut world = world(settings, seed, &[0xd8, 0xd0, 0x75, 0x45, 0x14], 5);
    world.run_for(seconds(10) + millis(dice.below(3300) as u64));
    world.pause(0);
    watch(&mut world, millis(1500 + dice.below(2000) as u64))?;
    let joiner = spawn(&mut world, 0x44);
    cut_off(&mut world, 4);
    world.join(joiner, &[1, 3]);
    watch(&mut world, seconds(12))
}

#[test]
fn whoever_was_forgotten_first_is_respected_all_the_same() {
    ends_well(60, forgotten_before_its_grantor);
}

/// A node was cut off and is isolated. The network is whole again, but it is between two attempts to join. Somebody who
/// has it as its only seed comes.
fn joiner_finds_the_lost_one(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x50, 0x80, 0xb0, 0xe0], 5);
    cut_off(&mut world, 2);
    watch(&mut world, seconds(60))?;
    world.network.mend();
    let joiner = spawn(&mut world, 0x70);
    world.join(joiner, &[2]);
    watch(&mut world, seconds(60))?;
    heals(&mut world, seconds(60))
}

#[test]
fn a_lost_node_finds_its_ring_before_it_helps_a_joiner() {
    ends_well(30, joiner_finds_the_lost_one);
}

/// Two nodes are a ring, and can not talk any more; both are isolated. Two joiners that can talk to everybody come, each
/// through one of them.
fn two_lost_ones_and_two_joiners(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x40, 0xc0], 2);
    world.network.cut_both(0, 1);
    watch(&mut world, seconds(20))?;
    for (first, via) in [(0x60, 0), (0xa0, 1)] {
        let node = spawn(&mut world, first);
        world.join(node, &[via]);
    }
    watch(&mut world, seconds(60))
}

#[test]
fn two_lost_nodes_do_not_found_two_rings() {
    ends_well(30, two_lost_ones_and_two_joiners);
}

/// A node leaves and joins again in the same life while its goodbyes are still under way.
fn late_goodbye(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x50, 0x80, 0xb0, 0xe0], 5);
    world.network.topology = Topology::Flat { min: millis(1500), max: millis(1500) };
    world.command(2, Command::Leave);
    world.network.topology = Topology::Flat { min: millis(1), max: millis(10) };
    watch(&mut world, millis(600))?;
    world.join(2, &[0, 1, 3, 4]);
    watch(&mut world, millis(890))?;
    world.pause(2);
    watch(&mut world, seconds(3))?;
    world.resume(2);
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn a_goodbye_of_an_earlier_stay_undoes_nothing() {
    ends_well(30, late_goodbye);
}

/// A joiner has many seeds, all but the last dead.
fn many_dead_seeds(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x50, 0x80], 3);
    let mut seeds: Vec<u32> = (0..15).map(|n| spawn(&mut world, 0x90 + n)).collect();
    seeds.iter().for_each(|node| world.crash(*node));
    seeds.push(0);
    let joiner = spawn(&mut world, 0x70);
    world.join(joiner, &seeds);
    match world.run_until(seconds(120), |world| is_ready(world, joiner)) {
        true => Ok(()),
        false => Err("the live seed was not found in two minutes".into()),
    }
}

#[test]
fn pauses_grow_from_round_to_round_not_from_seed_to_seed() {
    ends_well(5, many_dead_seeds);
}

/// Leaf sets of four, and all links across two borders cut: the ring must not close in two halves.
fn two_borders(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { leaf_set: 4, ..settings };
    let ids = [0x08, 0x18, 0x28, 0x38, 0x48, 0x58, 0x88, 0x98, 0xa8, 0xb8, 0xc8, 0xd8];
    let mut world = world(settings, seed, &ids, 12);
    for (a, b) in [(5, 6), (5, 7), (4, 6), (11, 0), (11, 1), (10, 0)] {
        world.network.cut_both(a, b);
    }
    watch(&mut world, seconds(60))
}

#[test]
fn small_leaf_sets_do_not_split() {
    ends_well(5, two_borders);
}

/// Both members of a ring lose power and come back at once. They have found each other and wait for leases when the
/// network fails for longer than either of them waits.
fn both_fail_once(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0xa0], 2);
    let nodes = [0, 1];
    nodes.iter().for_each(|node| world.crash(*node));
    nodes.iter().for_each(|node| world.restart(*node));
    for node in nodes {
        let seeds = nodes.iter().filter(|other| **other != node).map(|other| world.contact(*other)).collect();
        world.command(node, Command::Rejoin { seeds });
    }
    let waits = |world: &World| {
        world.running().all(|(_, node)| matches!(node.status(), Status::Waiting | Status::Ok))
    };
    if !world.run_until(seconds(60), waits) {
        return Err("they never wait for leases together".into());
    }
    nodes.iter().for_each(|node| cut_off(&mut world, *node));
    watch(&mut world, seconds(60))?;
    world.network.mend();
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn members_that_both_failed_once_form_their_ring_again() {
    ends_well(30, both_fail_once);
}
