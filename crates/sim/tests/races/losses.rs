//! L1 to L8: races of nodes that vanish, seem to vanish, or come back.

use kringle_core::config::{Safeguard, Settings};
use kringle_core::dice::Dice;
use kringle_core::id::Id;

use super::*;

/// A node is stopped for long enough to be missed, and for less than a lease.
fn missed_too_early(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xe0], 4);
    world.run_for(millis(dice(seed).below(1000) as u64));
    world.pause(1);
    watch(&mut world, millis(2600))?;
    world.resume(1);
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn l1_a_neighbour_takes_over_from_a_live_node() {
    race("L1", Safeguard::KeepGranted, missed_too_early);
}

/// Two neighbours can not talk to each other, both talk to a third; nobody is asked to look on their behalf.
fn no_link_between_neighbours(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { probe_relays: 0, ..settings };
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0], 3);
    world.run_for(millis(dice(seed).below(1000) as u64));
    world.network.cut_both(0, 1);
    watch(&mut world, seconds(20))?;
    world.network.mend();
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn l2_two_nodes_that_can_not_talk_share_a_neighbour() {
    race("L2", Safeguard::Sides, no_link_between_neighbours);
}

/// A node is stopped between its decision to deliver and the call of the application, for longer than its lease.
fn stopped_before_the_call(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xe0], 4);
    world.run_for(millis(dice(seed).below(1000) as u64));
    let key = Id::new(0x61 << 120);
    world.pause_before_upcall(1);
    world.route(3, key, b"abc");
    watch(&mut world, seconds(15))?;
    if !world.is_paused(1) {
        return Err("the message never came".into());
    }
    let before = world.deliveries().len();
    world.resume(1);
    let late = world.deliveries()[before..].iter().any(|delivery| delivery.node == 1);
    let others = world.running().filter(|(index, _)| *index != 1);
    let owner = others.filter(|(_, node)| node.delivers(key, world.now(), world.config())).count();
    if late && owner > 0 {
        return Err("delivered by a node that had lost the key".into());
    }
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn l3_a_node_is_stopped_for_longer_than_its_lease() {
    race("L3", Safeguard::NotAfter, stopped_before_the_call);
}

/// A node is cut off, and somebody sets its time of day back.
fn clock_set_back(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xe0], 4);
    world.run_for(millis(dice(seed).below(1000) as u64));
    for other in [0, 2, 3] {
        world.network.cut_both(1, other);
    }
    world.set_wall_clock_back(1, seconds(8));
    watch(&mut world, seconds(15))?;
    world.network.mend();
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn l4_the_wall_clock_is_set_back() {
    race("L4", Safeguard::SteadyClock, clock_set_back);
}

/// Both grantors of a node restart while it is stopped for less than a lease. Nobody else knows of it.
fn forgetful_grantors(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { leaf_set: 2, replicas: 0, ..settings };
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xc0, 0xe0], 5);
    world.run_for(millis(dice(seed).below(1000) as u64));
    world.pause(1);
    for grantor in [0, 2] {
        world.restart(grantor);
        world.join(grantor, &[3, 4]);
    }
    watch(&mut world, millis(3400))?;
    world.resume(1);
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn l5_a_grantor_restarts_and_forgets() {
    race("L5", Safeguard::RestartWaits, forgetful_grantors);
}

/// Two nodes lose sight of each other.
fn two_alone(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0xa0], 2);
    world.run_for(millis(dice(seed).below(1000) as u64));
    world.network.cut_both(0, 1);
    watch(&mut world, seconds(20))?;
    world.network.mend();
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn l6_two_nodes_lose_sight_of_each_other() {
    race("L6", Safeguard::Isolation, two_alone);
}

/// Everybody on one side of a leaf set dies at once.
fn a_whole_side_dies(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { leaf_set: 4, ..settings };
    let ids: Vec<u8> = (0..12).map(|n| n * 21).collect();
    let mut world = world(settings, seed, &ids, 12);
    world.run_for(millis(dice(seed).below(1000) as u64));
    let first = dice(seed).below(12) as u32;
    for step in 0..2 {
        world.crash((first + step) % 12);
    }
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(30))
}

#[test]
fn l7_a_whole_side_of_the_leaf_set_dies() {
    race("L7", Safeguard::SeekSide, a_whole_side_dies);
}

/// The machine sleeps for longer than a lease.
fn machine_sleeps(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xe0], 4);
    world.run_for(millis(dice(seed).below(1000) as u64));
    world.pause(1);
    watch(&mut world, seconds(15))?;
    world.wake(1);
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn l8_the_clock_stops_while_the_machine_sleeps() {
    race("L8", Safeguard::SteadyClock, machine_sleeps);
}
