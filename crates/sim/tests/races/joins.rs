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

/// A joiner is stopped in the middle of its join; meanwhile others join beside it, and it is given up.
fn joiner_overtaken(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0xa0, 0x60, 0x50, 0x70], 2);
    world.join(2, &[0]);
    watch(&mut world, millis(dice(seed).below(60) as u64))?;
    world.pause(2);
    world.join(3, &[0]);
    world.join(4, &[1]);
    watch(&mut world, seconds(6))?;
    world.resume(2);
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(60))
}

#[test]
fn j3_others_join_between_a_join_reply_and_the_last_probe() {
    race("J3", Safeguard::AddFirst, joiner_overtaken);
}

/// Many joins at once through one node, with leaf sets of one on each side, and no failure at all.
fn crowd(settings: Settings, seed: u64) -> Fate {
    let settings = Settings { leaf_set: 2, replicas: 0, ownership: Ownership::Hint, ..settings };
    let mut dice = dice(seed);
    let ids: Vec<u8> = (0..12).map(|n| n * 21).collect();
    let mut world = world(settings, seed, &ids, 1);
    for node in 1..12 {
        world.join(node, &[0]);
        world.run_for(millis(dice.below(3) as u64));
    }
    heals(&mut world, seconds(8))
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
    // An answer of the right neighbour is caught on its way.
    world.record();
    world.run_for(seconds(4));
    let grants = world.take_recording().into_iter().filter(|(to, input)| *to == 0 && grants(input));
    let Some((_, old)) = grants.last() else { return Err("no lease was renewed".into()) };
    // The node is cut off. The others wait until its leases have run out.
    for other in [1, 2] {
        world.network.cut_both(0, other);
    }
    for _ in 0..60 {
        watch(&mut world, millis(100 + dice.below(200) as u64))?;
        world.input(0, old.clone());
    }
    world.network.mend();
    heals(&mut world, seconds(60))
}

fn grants(input: &kringle_core::edge::Input) -> bool {
    use kringle_core::edge::Input;
    use kringle_core::message::Body;
    use kringle_core::overlay::pastry::Message;
    matches!(input, Input::Message { body: Body::Pastry(Message::LeaseReply(reply)), .. } if reply.granted)
}

#[test]
fn j6_an_answer_nobody_waits_for_pushes_a_node_on() {
    race("J6", Safeguard::SolicitedOnly, old_answer);
}

/// Two joiners become each other's neighbours.
fn two_new_neighbours(settings: Settings, seed: u64) -> Fate {
    let mut world = world(settings, seed, &[0x20, 0x60, 0xa0], 1);
    world.join(1, &[0]);
    world.run_for(millis(dice(seed).below(100) as u64));
    world.join(2, &[0]);
    watch(&mut world, seconds(10))?;
    heals(&mut world, seconds(10))
}

#[test]
fn j7_two_new_neighbours_wait_for_each_other() {
    race("J7", Safeguard::GrantBeforeReady, two_new_neighbours);
}
