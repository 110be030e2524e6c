//! J1 to J7: races of nodes that join.

use kringle_core::config::{Ownership, Safeguard, Settings};
use kringle_core::dice::Dice;

use super::*;

/// A joiner delivers before its neighbours have it in their tables: one of them has not heard of it.
fn joiner_unknown_to_a_neighbour(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0xa0, 0x60], 2);
    world.network.cut_both(1, 2);
    world.join(2, &[0]);
    watch(&mut world, seconds(8))?;
    world.network.mend();
    watch(&mut world, seconds(8))?;
    heals(&mut world, seconds(60))
}

#[test]
fn j1_a_joiner_delivers_before_its_neighbours_know_it() {
    race("J1", Safeguard::ReadyNeedsLeases, joiner_unknown_to_a_neighbour);
}

/// Two joiners between the same two nodes that can not reach each other.
fn two_joiners_unaware_of_each_other(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0xa0, 0x50, 0x70], 2);
    world.network.cut_both(2, 3);
    world.join(2, &[0, 1]);
    world.run_for(millis(dice(seed).below(200) as u64));
    world.join(3, &[1, 0]);
    watch(&mut world, seconds(8))?;
    world.network.mend();
    watch(&mut world, seconds(8))?;
    heals(&mut world, seconds(60))
}

#[test]
fn j2_two_joiners_between_the_same_nodes_know_nothing_of_each_other() {
    race("J2", Safeguard::ReadyNeedsLeases, two_joiners_unaware_of_each_other);
}

/// A neighbour that has answered a joiner's probe loses sight of it before its lease is asked for, and drops it. When
/// the joiner asks, all it knows is that it was taken in once.
fn joiner_dropped_again(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { lease: seconds(10), probe_relays: 0, ..settings };
    let mut dice = dice(seed);
    let mut world = world(settings, seed, &[0x20, 0xa0, 0x60], 2);
    world.join(2, &[0]);
    watch_leases(&mut world, millis(dice.below(60) as u64))?;
    world.network.cut_both(1, 2);
    watch_leases(&mut world, millis(800 + dice.below(1500) as u64))?;
    world.network.mend();
    watch_leases(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn j3_the_neighbour_a_joiner_relies_on_is_no_longer_its_neighbour() {
    race("J3", Safeguard::AddFirst, joiner_dropped_again);
}

/// Many joins at once through one node, and no failure at all. Nobody asks for leases, which would hide it.
fn crowd(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { leaf_set: 4, ownership: Ownership::Hint, ..settings };
    let mut dice = dice(seed);
    let ids: Vec<u8> = (0..24).map(|n| (n * 37 % 256) as u8).collect();
    let mut world = world(settings, seed, &ids, 1);
    for node in 1..24 {
        world.join(node, &[0]);
        watch(&mut world, millis(dice.below(3) as u64))?;
    }
    watch(&mut world, seconds(3))?;
    heals(&mut world, seconds(15))
}

#[test]
fn j4_joins_alone_split_the_ring() {
    race("J4", Safeguard::OneJoiner, crowd);
}

/// A node crashes and comes back before anybody has noticed.
fn quick_return(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0, 0xe0], 4);
    world.run_for(millis(dice(seed).below(1000) as u64));
    world.restart(2);
    world.join(2, &[0, 1]);
    watch(&mut world, millis(1200))?;
    if is_ready(&world, 2) { Ok(()) } else { Err("its own earlier life keeps it out".into()) }
}

#[test]
fn j5_a_node_comes_back_before_its_old_entry_is_gone() {
    race("J5", Safeguard::NewLife, quick_return);
}

/// An answer to an earlier question arrives when a later one is open.
fn old_answer(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0], 3);
    let mut dice = dice(seed);
    // Answers of both neighbours are caught on their way.
    world.record();
    world.run_for(seconds(4));
    let caught = world.take_recording();
    let last = |from: u32| caught.iter().rev().find(|(to, input)| *to == 0 && grants(input, from));
    let (Some((_, left)), Some((_, right))) = (last(1), last(2)) else {
        return Err("no lease was renewed".into());
    };
    // The node is cut off. The others wait until its leases have run out.
    for other in [1, 2] {
        world.network.cut_both(0, other);
    }
    for _ in 0..60 {
        watch(&mut world, millis(100 + dice.below(200) as u64))?;
        world.input(0, left.clone());
        world.input(0, right.clone());
    }
    world.network.mend();
    heals(&mut world, seconds(60))
}

fn grants(input: &kringle_core::edge::Input, from: u32) -> bool {
    use kringle_core::edge::Input;
    use kringle_core::message::Body;
    use kringle_core::overlay::pastry::Message;
    matches!(input, Input::Message { from: peer, body: Body::Pastry(Message::LeaseReply(reply)) }
        if reply.granted && peer.addr.0 == from)
}

#[test]
fn j6_an_answer_nobody_waits_for_pushes_a_node_on() {
    race("J6", Safeguard::SolicitedOnly, old_answer);
}

/// Two joiners become each other's neighbours, helped by different nodes at the same time.
fn two_new_neighbours(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0xa0, 0x50, 0x70], 2);
    world.join(2, &[0]);
    world.run_for(millis(dice(seed).below(20) as u64));
    world.join(3, &[1]);
    watch(&mut world, seconds(3))?;
    heals(&mut world, seconds(1))
}

#[test]
fn j7_two_new_neighbours_wait_for_each_other() {
    race("J7", Safeguard::GrantBeforeReady, two_new_neighbours);
}
