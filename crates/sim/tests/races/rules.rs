//! Rules found necessary while building, each with the world that showed it.

use kringle_core::config::{Safeguard, Settings};
use kringle_core::dice::Dice;
use kringle_core::edge::{Command, Input};
use kringle_core::message::Body;
use kringle_core::overlay::Overlay;
use kringle_core::overlay::pastry::Message;

use super::*;

/// Two joiners between a node and the one that granted it a lease. They do not get through to the holder, only to each
/// other and to the grantor.
fn holder_passed_over(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { probe_relays: 0, lease: seconds(10), ..settings };
    // The holder 0, the grantor 1, and between them the joiners 2 and 3.
    let mut world = world(settings, seed, &[0x00, 0x64, 0x0a, 0x3c], 2);
    world.run_for(millis(dice(seed).below(1000) as u64));
    world.network.cut(2, 0);
    world.network.cut(3, 0);
    world.join(2, &[1]);
    watch(&mut world, seconds(2))?;
    world.join(3, &[1]);
    watch(&mut world, seconds(15))?;
    world.network.mend();
    watch(&mut world, seconds(15))?;
    heals(&mut world, seconds(60))
}

#[test]
fn a_lease_is_granted_again_only_when_its_holder_knows() {
    race("displaced lease", Safeguard::Displaced, holder_passed_over);
}

/// A newcomer displaces a neighbour, and leaves again politely. Meanwhile another has come that the displaced holder can
/// not reach: what its first neighbour granted it long ago must not reach that far again.
fn newcomer_leaves(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { lease: seconds(10), probe_relays: 0, find_nearby: false, ..settings };
    let mut world = world(settings, seed, &[0x10, 0xa0, 0x30, 0x60], 2);
    world.run_for(millis(dice(seed).below(3000) as u64));
    world.network.cut_both(0, 3);
    world.join(2, &[0]);
    watch(&mut world, millis(300))?;
    world.join(3, &[1]);
    watch(&mut world, seconds(5))?;
    world.command(2, Command::Leave);
    watch(&mut world, seconds(10))?;
    world.network.mend();
    watch(&mut world, seconds(15))?;
    world.crash(2);
    heals(&mut world, seconds(60))
}

#[test]
fn a_lease_is_good_only_from_the_present_neighbour() {
    race("newcomer leaves", Safeguard::CurrentNeighbour, newcomer_leaves);
}

/// Links in a line: two pairs, each of which would certify its own ring, and one node that knows both.
fn two_pairs_and_a_go_between(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { probe_relays: 0, ..settings };
    let ids = [0x00, 0x0a, 0x14, 0x3c, 0x50];
    let mut world = world(settings, seed, &ids, 5);
    world.run_for(millis(dice(seed).below(1000) as u64));
    let linked = [(3, 0), (0, 4), (4, 2), (2, 1)];
    for one in 0..5 {
        for other in 0..one {
            if !linked.contains(&(one, other)) && !linked.contains(&(other, one)) {
                world.network.cut_both(one, other);
            }
        }
    }
    watch(&mut world, seconds(30))?;
    world.network.mend();
    watch(&mut world, seconds(15))?;
    heals(&mut world, seconds(60))
}

#[test]
fn holder_and_grantor_agree_about_who_is_beside_them() {
    race("line of links", Safeguard::Agreement, two_pairs_and_a_go_between);
}

/// Three of seven nodes sleep at the same time for long, and wake to the ring they knew. A newcomer sits among them.
fn awake_together(settings: Settings, seed: u64) -> Fate {
    let ids = [0x10, 0x30, 0x50, 0x80, 0xb0, 0xe0, 0x40];
    let mut world = world(settings, seed, &ids, 6);
    world.run_for(millis(dice(seed).below(1000) as u64));
    for node in [0, 1, 2] {
        world.pause(node);
    }
    watch(&mut world, seconds(25))?;
    world.join(6, &[3]);
    watch(&mut world, seconds(15))?;
    for node in [0, 1, 2] {
        world.resume(node);
    }
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn whoever_was_out_of_touch_certifies_nothing() {
    race("awake together", Safeguard::Verified, awake_together);
}

/// Both grantors of a node crash while it is stopped, for less than a lease.
fn both_grantors_crash(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { lease: seconds(15), ..settings };
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xc0, 0xe0], 5);
    let mut dice = dice(seed);
    world.run_for(millis(dice.below(4000) as u64));
    world.pause(1);
    world.crash(0);
    world.crash(2);
    // The others need up to ten seconds to find three nodes dead; what it was granted may be some seconds old.
    watch(&mut world, millis(6_000 + dice.below(8800) as u64))?;
    world.resume(1);
    watch(&mut world, seconds(25))?;
    heals(&mut world, seconds(60))
}

#[test]
fn what_a_lost_neighbour_granted_binds_its_heirs() {
    race("both grantors crash", Safeguard::Inherit, both_grantors_crash);
}

/// Somebody spreads the news that a live node is dead.
fn false_report(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xe0], 4);
    world.run_for(millis(dice(seed).below(1000) as u64));
    let (liar, victim) = (world.contact(3), world.contact(1));
    let body = Body::Pastry(Message::Obituary(victim));
    for node in [0, 2] {
        world.input(node, Input::Message { from: liar, body: body.clone() });
    }
    let doubted = world.node(0).and_then(|node| node.overlay().as_pastry().map(|p| p.suspects().len()));
    watch(&mut world, seconds(8))?;
    if doubted == Some(0) { Ok(()) } else { Err("a report was taken for a death".into()) }
}

#[test]
fn only_own_probes_find_a_node_dead() {
    race("false report", Safeguard::OwnProbes, false_report);
}

/// The network is cut in two halves for long, and mended.
fn split_and_merge(settings: Settings, seed: u64) -> Fate {
    let ids: Vec<u8> = (0..8).map(|n| n * 32).collect();
    let mut world = world(settings, seed, &ids, 8);
    world.run_for(millis(dice(seed).below(1000) as u64));
    // Every other node is in the other half: nobody keeps a neighbour.
    for one in [0, 2, 4, 6] {
        for other in [1, 3, 5, 7] {
            world.network.cut_both(one, other);
        }
    }
    world.run_for(seconds(40));
    let halves = world.running().filter(|(_, node)| node.overlay().neighbours().len() == 3).count();
    if halves != 8 {
        return Err(format!("{halves} of 8 nodes are in a ring of four"));
    }
    world.network.mend();
    heals(&mut world, seconds(30))
}

#[test]
fn rings_that_were_cut_apart_become_one() {
    race("split and merge", Safeguard::Heal, split_and_merge);
}

/// A node leaves politely; its keys have an owner at once.
fn polite_leave(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { lease: seconds(10), ..settings };
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xe0], 4);
    world.run_for(millis(dice(seed).below(1000) as u64));
    let key = world.contact(1).id;
    world.command(1, Command::Leave);
    watch(&mut world, seconds(3))?;
    let delivers = |world: &World| {
        world.running().any(|(index, node)| node.delivers(key, world.clock(index), world.config()))
    };
    if delivers(&world) { Ok(()) } else { Err("nobody answers three seconds after a polite leave".into()) }
}

#[test]
fn a_polite_leaver_gives_its_leases_back() {
    race("polite leave", Safeguard::ReturnLeases, polite_leave);
}
