//! What every overlay must show in a ring of many nodes, written once and run for each.
//!
//! A behaviour builds its own world from a seed, so a failure is repeated by the seed it prints. All of them encode and
//! decode every message, and let every node check its own invariants after every input. Together they must have seen
//! every kind of message and note there is: a kind that never occurs would be a hole in this suite.

use std::time::Duration;

use kringle_core::config::{OverlayKind, Ownership, Settings};
use kringle_core::contact::{Addr, Contact};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Failure, Input, Reply, RequestId, Verdict};
use kringle_core::id::{Id, Key};
use kringle_core::message::{App, Body, BodyKind, HopAck, Payload, Routed, Stage};
use kringle_core::node::Node;
use kringle_core::overlay::pastry::router::Router;
use kringle_core::overlay::{NextHop, Status};

use crate::invariants::{neighbours_are_exact, one_root_per_key, owner};
use crate::tally::Tally;
use crate::world::{Maker, World};

/// An overlay to be tried.
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// How its nodes are made.
    pub make: Maker,
    /// With which settings.
    pub settings: Settings,
    /// Messages and notes that can not occur with it.
    pub impossible: &'static [&'static str],
    /// Messages its background work sends within a budget.
    pub upkeep: &'static [BodyKind],
}

/// A behaviour: builds a world, asserts, and returns what happened in it.
pub type Behaviour = fn(&Subject, u64) -> Tally;

/// All behaviours with their names.
pub const BEHAVIOURS: &[(&str, Behaviour)] = &[
    ("a ring of one and of two", ring_of_one_and_two),
    ("joins converge, one after the other", joins_converge),
    ("joins converge, all at once", joins_converge_at_once),
    ("joins converge although messages are lost and doubled", joins_converge_under_loss),
    ("every key has one root", every_key_has_one_root),
    ("messages are delivered once, at the root", messages_are_delivered_once),
    ("no message is lost to one dead hop", no_message_is_lost_to_one_dead_hop),
    ("polite leaves heal", leaves_heal),
    ("crashes heal, also adjacent ones", crashes_heal),
    ("a whole leaf set and a third of the ring die, the rest finds together", mass_failure_heals),
    ("a restarted node comes back under the same id", restarted_nodes_come_back),
    ("a broken link is not a death", broken_link_is_not_a_death),
    ("a silent node costs no message while it is in doubt", paused_node_costs_no_message),
    ("applications may change and stop what they forward", applications_have_a_say),
    ("receipts find their way without a connection", receipts_find_their_way),
    ("joiners that crowd one node are all helped", crowded_helper_serves_everybody),
    ("background work keeps within its budget", background_work_keeps_its_budget),
    ("messages for one node reach it, or their sender is told that it is not there", direct_messages),
    ("a ring that died as a whole comes back by itself", full_outage_heals),
    ("rings that are introduced grow together", introduced_rings_merge),
    ("bad messages change nothing", bad_messages_change_nothing),
    ("replayed messages change nothing", replayed_messages_change_nothing),
];

/// Runs all behaviours, prints what occurred, and fails if something never did.
///
/// # Panics
/// If a behaviour is not shown.
pub fn run(subject: &Subject, seed: u64) {
    let mut tally = Tally::default();
    for (name, behaviour) in BEHAVIOURS {
        println!("{}: {name} (seed {seed})", subject.name);
        tally.add(&behaviour(subject, seed));
    }
    println!("{tally}");
    let mut missing = tally.missing(subject.impossible);
    // Overlays have no store; what stores say to each other occurs where they are tested.
    missing.retain(|name| !name.starts_with("store-"));
    assert!(missing.is_empty(), "never occurred in this suite: {missing:?}");
}

fn world(subject: &Subject, seed: u64) -> World {
    let mut world = World::of(subject.make, subject.settings.clone(), seed);
    world.through_wire = true;
    world
}

fn grown(subject: &Subject, seed: u64, nodes: usize) -> World {
    let mut world = world(subject, seed);
    world.grow(nodes);
    settle(&mut world);
    world
}

/// Waits until the ring is as it should be. A dead leaf that is nobody's neighbour is found by exchanging leaf sets with a
/// random one at a time, so in a large leaf set the last of many may take a while.
fn settle(world: &mut World) {
    let healed = world.run_until(Duration::from_secs(1500), |world| {
        world.running().all(|(_, node)| node.status() == Status::Ready) && neighbours_are_exact(world).is_ok()
    });
    let stuck: Vec<_> = world.running().filter(|(_, node)| node.status() != Status::Ready).collect();
    let stuck: Vec<_> = stuck.iter().map(|(index, node)| (index, node.status())).collect();
    assert!(
        healed,
        "not healed at {:?}: {:?}, not ready: {stuck:?}",
        world.now(),
        neighbours_are_exact(world)
    );
}

fn random_key(dice: &mut SeededDice) -> Key {
    Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()))
}

fn random_running(world: &World, dice: &mut SeededDice) -> u32 {
    let running: Vec<u32> = world.ready().map(|(index, _)| index).collect();
    running[dice.below(running.len())]
}

/// Keys of every kind: random ones, every node's own id and its neighbours, the ends of the space, exact middles.
fn telling_keys(world: &World, dice: &mut SeededDice) -> Vec<Key> {
    let mut ids: Vec<Id> = world.ready().map(|(_, node)| node.me().id).collect();
    ids.sort();
    let mut keys = vec![Id::ZERO, Id::MAX, Id::new(1 << 127)];
    for (at, id) in ids.iter().enumerate() {
        let next = ids[(at + 1) % ids.len()];
        let middle = id.middle_to(next);
        keys.extend([*id, id.plus(1), id.minus(1), middle, middle.plus(1)]);
    }
    keys.extend((0..100).map(|_| random_key(dice)));
    keys
}

/// Looks keys up from random nodes and checks that the answer names the owner.
fn lookups_are_right(world: &mut World, dice: &mut SeededDice, count: usize) {
    for _ in 0..count {
        let (from, key) = (random_running(world, dice), random_key(dice));
        let request = world.lookup(from, key);
        let found = world.finish(request);
        let Ok(Reply::Found { root, .. }) = found else { panic!("lookup of {key} from {from}: {found:?}") };
        assert_eq!(Some(root.id), owner(world, key), "lookup of {key} from {from}");
    }
}

/// Checks that each of these routed messages was delivered exactly once, at the node that owns its key now.
fn delivered_once(world: &mut World, sent: &[(RequestId, Key)]) {
    for (request, key) in sent {
        let delivered = world.finish(*request);
        let Ok(Reply::Delivered { root, answer, .. }) = delivered else { panic!("{key}: {delivered:?}") };
        assert_eq!(Some(root.id), owner(world, *key), "{key} was delivered elsewhere");
        assert_eq!(answer, Some(b"cba".to_vec()));
        let copies = world.deliveries().iter().filter(|delivery| delivery.key == *key).count();
        assert_eq!(copies, 1, "{key} was delivered {copies} times");
    }
}

fn ring_of_one_and_two(subject: &Subject, seed: u64) -> Tally {
    let mut world = world(subject, seed);
    // Ids at both ends of the space: neighbours, if the ring is one.
    let (first, second) = (world.spawn(Id::ZERO), world.spawn(Id::MAX));
    let request = world.lookup(first, Id::MAX);
    assert_eq!(world.finish(request), Err(Failure::NotJoined));
    let request = world.create(first);
    assert_eq!(world.finish(request), Ok(Reply::Joined));
    let request = world.lookup(first, Id::MAX);
    assert!(matches!(world.finish(request), Ok(Reply::Found { root, hops: 0, .. }) if root.id == Id::ZERO));
    let request = world.join(second, &[second]);
    assert_eq!(world.finish(request), Err(Failure::NoSeeds));
    let request = world.join(second, &[first]);
    assert_eq!(world.finish(request), Ok(Reply::Joined));
    settle(&mut world);
    let mut dice = SeededDice::new(seed);
    one_root_per_key(&world, &telling_keys(&world, &mut dice)).expect("two nodes share the ring");
    let request = world.create(first);
    assert_eq!(world.finish(request), Err(Failure::AlreadyJoined));
    world.crash(second);
    if subject.settings.ownership == Ownership::Lease {
        // Alone after having had a peer means cut off: it must not answer for what the other may be answering for.
        let isolated =
            |world: &World| world.node(first).is_some_and(|node| node.status() == Status::Isolated);
        assert!(world.run_until(Duration::from_secs(60), isolated));
        assert!(!world.node(first).is_some_and(|node| node.delivers(Id::ZERO, world.now(), world.config())));
        // The other comes back: two who look for a ring are one.
        world.restart(second);
        world.join(second, &[first]);
        settle(&mut world);
        lookups_are_right(&mut world, &mut dice, 5);
    } else {
        // A founder without seeds is a ring of one again.
        settle(&mut world);
        lookups_are_right(&mut world, &mut dice, 5);
    }
    world.tally.clone()
}

fn joins_converge(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 80);
    let mut dice = SeededDice::new(seed);
    lookups_are_right(&mut world, &mut dice, 100);
    world.tally.clone()
}

fn joins_converge_at_once(subject: &Subject, seed: u64) -> Tally {
    let mut world = world(subject, seed);
    world.grow(3);
    for _ in 0..60 {
        let node = world.spawn_random();
        world.join(node, &[node % 3, 0]);
    }
    settle(&mut world);
    lookups_are_right(&mut world, &mut SeededDice::new(seed), 100);
    world.tally.clone()
}

fn joins_converge_under_loss(subject: &Subject, seed: u64) -> Tally {
    let mut world = world(subject, seed);
    world.network.loss_per_million = 50_000;
    world.network.doubled_per_million = 50_000;
    world.grow(1);
    for node in 1..50 {
        world.spawn_random();
        world.join(node, &[node / 2, 0]);
        world.run_for(Duration::from_millis(300));
    }
    world.run_until(Duration::from_secs(600), |world| {
        world.running().all(|(_, node)| node.status() == Status::Ready)
    });
    world.network.loss_per_million = 0;
    settle(&mut world);
    lookups_are_right(&mut world, &mut SeededDice::new(seed), 100);
    world.tally.clone()
}

fn every_key_has_one_root(subject: &Subject, seed: u64) -> Tally {
    let world = grown(subject, seed, 60);
    let keys = telling_keys(&world, &mut SeededDice::new(seed));
    one_root_per_key(&world, &keys).expect("every key has one root");
    // Following the decisions of the nodes leads there from everywhere, in few hops.
    for key in keys {
        for (start, _) in world.ready() {
            let (mut at, mut hops) = (start, 0);
            while let Some(NextHop::Peer(next, _)) = world.node(at).map(|node| node.next_hop(key)) {
                at = next.addr.0;
                hops += 1;
                assert!(hops <= 10, "{key} from {start} takes more than ten hops");
            }
            assert_eq!(world.node(at).map(|node| node.me().id), owner(&world, key));
        }
    }
    world.tally.clone()
}

fn messages_are_delivered_once(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 60);
    world.network.loss_per_million = 50_000;
    world.network.doubled_per_million = 100_000;
    let mut dice = SeededDice::new(seed);
    let mut sent = Vec::new();
    for _ in 0..300 {
        let (from, key) = (random_running(&world, &mut dice), random_key(&mut dice));
        sent.push((world.route(from, key, b"abc"), key));
        world.run_for(Duration::from_millis(20));
    }
    world.run_for(Duration::from_secs(20));
    for answered in world.take_replies() {
        let Some((_, key)) = sent.iter().find(|(request, _)| *request == answered.request) else { continue };
        // A receipt may be lost, a message may not: what was delivered was delivered once, at its owner.
        match answered.reply {
            Ok(Reply::Delivered { root, .. }) => assert_eq!(Some(root.id), owner(&world, *key)),
            Err(Failure::Timeout) => {}
            other => panic!("{key}: {other:?}"),
        }
    }
    for (_, key) in &sent {
        let copies = world.deliveries().iter().filter(|delivery| delivery.key == *key).count();
        assert_eq!(copies, 1, "{key} was delivered {copies} times");
    }
    world.tally.clone()
}

fn no_message_is_lost_to_one_dead_hop(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 100);
    let mut dice = SeededDice::new(seed);
    for _ in 0..30 {
        let (from, key) = (random_running(&world, &mut dice), random_key(&mut dice));
        let Some(NextHop::Peer(next, _)) = world.node(from).map(|node| node.next_hop(key)) else { continue };
        // The first hop dies just now: nobody has noticed.
        world.crash(next.addr.0);
        let request = world.route(from, key, b"abc");
        delivered_once(&mut world, &[(request, key)]);
    }
    settle(&mut world);
    world.tally.clone()
}

fn direct_messages(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 60);
    let mut dice = SeededDice::new(seed);
    let deadline = Duration::from_secs(30);
    let app = || App { purpose: 16, bytes: b"abc".to_vec() };
    for _ in 0..50 {
        let (from, to) = (random_running(&world, &mut dice), random_running(&world, &mut dice));
        let to = world.contact(to).id;
        let request = world.command(from, Command::Send { to, app: app(), deadline });
        let sent = world.finish(request);
        let Ok(Reply::Delivered { root, answer, .. }) = sent else { panic!("{to}: {sent:?}") };
        assert_eq!((root.id, answer), (to, Some(b"cba".to_vec())));
        // Beside a node is nobody.
        let request = world.command(from, Command::Send { to: to.plus(1), app: app(), deadline });
        assert_eq!(world.finish(request), Err(Failure::NotThere));
    }
    world.tally.clone()
}

fn full_outage_heals(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 12);
    let all: Vec<u32> = world.running().map(|(index, _)| index).collect();
    all.iter().for_each(|node| world.crash(*node));
    world.run_for(Duration::from_secs(60));
    let mut dice = SeededDice::new(seed);
    let mut requests = Vec::new();
    for node in &all {
        world.restart(*node);
        // Everybody remembers a few others, some of which may not come back for a while.
        let mut known: Vec<u32> = all.iter().copied().filter(|other| other != node).collect();
        while known.len() > 4 {
            known.swap_remove(dice.below(known.len()));
        }
        let seeds = known.iter().map(|other| world.contact(*other)).collect();
        requests.push(world.command(*node, Command::Rejoin { seeds }));
        world.run_for(Duration::from_millis(dice.below(3000) as u64));
    }
    for request in requests {
        assert_eq!(world.finish(request), Ok(Reply::Joined));
    }
    settle(&mut world);
    lookups_are_right(&mut world, &mut dice, 50);
    world.tally.clone()
}

fn introduced_rings_merge(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 10);
    let second = world.spawn_random();
    let request = world.create(second);
    assert_eq!(world.finish(request), Ok(Reply::Joined));
    let joins: Vec<RequestId> = (0..5)
        .map(|_| {
            let node = world.spawn_random();
            world.join(node, &[second])
        })
        .collect();
    for join in joins {
        assert_eq!(world.finish(join), Ok(Reply::Joined));
    }
    let peers = vec![world.contact(0)];
    let request = world.command(second, Command::Meet { peers });
    assert_eq!(world.finish(request), Ok(Reply::Joined));
    settle(&mut world);
    lookups_are_right(&mut world, &mut SeededDice::new(seed), 50);
    world.tally.clone()
}

fn leaves_heal(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 60);
    let mut dice = SeededDice::new(seed);
    for _ in 0..20 {
        let leaver = random_running(&world, &mut dice);
        // A message is under way to the leaver while it goes.
        let from = random_running(&world, &mut dice);
        let key = world.contact(leaver).id;
        let under_way = world.route(from, key, b"abc");
        let request = world.command(leaver, Command::Leave);
        assert_eq!(world.finish(request), Ok(Reply::Left));
        assert_eq!(world.node(leaver).map(|node| node.status()), Some(Status::Out));
        world.crash(leaver);
        if from != leaver {
            assert!(matches!(world.finish(under_way), Ok(Reply::Delivered { .. })));
        }
    }
    settle(&mut world);
    lookups_are_right(&mut world, &mut dice, 100);
    world.tally.clone()
}

fn crashes_heal(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 80);
    let mut dice = SeededDice::new(seed);
    // As many neighbours at once as leave one on each side of everybody, and single ones elsewhere.
    let mut ring: Vec<(Id, u32)> = world.ready().map(|(index, node)| (node.me().id, index)).collect();
    ring.sort();
    let beside = match subject.settings.overlay {
        OverlayKind::Pastry => subject.settings.leaf_set / 2,
        OverlayKind::Chord => subject.settings.successors.into(),
    };
    let adjacent = usize::from(beside.min(8)) - 1;
    ring[10..10 + adjacent].iter().for_each(|(_, node)| world.crash(*node));
    for at in (20..80).step_by(6) {
        world.crash(ring[at + dice.below(3)].1);
    }
    // While nobody has noticed, messages still arrive where they belong.
    for _ in 0..50 {
        let (from, key) = (random_running(&world, &mut dice), random_key(&mut dice));
        let request = world.route(from, key, b"abc");
        delivered_once(&mut world, &[(request, key)]);
    }
    settle(&mut world);
    lookups_are_right(&mut world, &mut dice, 100);
    world.tally.clone()
}

fn mass_failure_heals(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 120);
    let mut dice = SeededDice::new(seed);
    let mut ring: Vec<(Id, u32)> = world.ready().map(|(index, node)| (node.me().id, index)).collect();
    ring.sort();
    // A whole leaf set around one node, so that it loses everybody beside it, and every third node elsewhere.
    let row = usize::from(subject.settings.leaf_set) + 1;
    for (at, (_, node)) in ring.iter().enumerate() {
        let lone = at == 20 + row / 2;
        if (20..20 + row).contains(&at) && !lone || at > 30 && at % 3 == 0 {
            world.crash(*node);
        }
    }
    world.run_for(Duration::from_secs(60));
    settle(&mut world);
    lookups_are_right(&mut world, &mut dice, 100);
    world.tally.clone()
}

fn restarted_nodes_come_back(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 40);
    let mut dice = SeededDice::new(seed);
    for _ in 0..10 {
        let node = random_running(&world, &mut dice);
        let seed_node = (node + 1) % world.len() as u32;
        // At once: the others still have the earlier life in their tables.
        world.restart(node);
        let request = world.join(node, &[seed_node]);
        assert_eq!(world.finish(request), Ok(Reply::Joined));
    }
    settle(&mut world);
    lookups_are_right(&mut world, &mut dice, 100);
    world.tally.clone()
}

fn broken_link_is_not_a_death(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 30);
    let mut ring: Vec<(Id, u32)> = world.ready().map(|(index, node)| (node.me().id, index)).collect();
    ring.sort();
    let (a, b) = (ring[3].1, ring[4].1);
    world.network.cut_both(a, b);
    world.run_for(Duration::from_secs(60));
    neighbours_are_exact(&world).expect("neighbours that can not talk still know each other");
    let half = world.tally.notes(kringle_core::edge::NoteKind::HalfReachable);
    assert!(half > 0, "the doubt was settled by others");
    world.network.mend();
    world.run_for(Duration::from_secs(60));
    settle(&mut world);
    let mut dice = SeededDice::new(seed);
    lookups_are_right(&mut world, &mut dice, 50);
    // A link broken for good, and a message that has no other way: an error within the deadline.
    world.network.cut_both(a, b);
    let key = world.contact(b).id;
    let deadline = Duration::from_secs(15);
    let app = App { purpose: 16, bytes: b"abc".to_vec() };
    let request = world.command(a, Command::Route { key, app, deadline });
    let start = world.now();
    let reply = world.finish(request);
    // Unless somebody else has a way.
    let right = |root: Contact| root.id == key;
    let is_right = match reply {
        Err(Failure::NoRoute | Failure::Timeout) => true,
        Ok(Reply::Delivered { root, .. }) => right(root),
        _ => false,
    };
    assert!(is_right, "{reply:?}");
    assert!(world.now().since(start) <= deadline);
    world.tally.clone()
}

fn paused_node_costs_no_message(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 40);
    let mut dice = SeededDice::new(seed);
    let silent = random_running(&world, &mut dice);
    for other in 0..world.len() as u32 {
        world.network.cut_both(silent, other);
    }
    let mut sent = Vec::new();
    for _ in 0..40 {
        let from = loop {
            let from = random_running(&world, &mut dice);
            if from != silent {
                break from;
            }
        };
        let key = world.contact(silent).id.plus(u128::from(dice.roll() as u8));
        sent.push((world.route(from, key, b"abc"), key));
    }
    // Too short to be found dead: the messages wait and arrive.
    world.run_for(Duration::from_millis(400));
    world.network.mend();
    for (request, key) in sent {
        assert!(matches!(world.finish(request), Ok(Reply::Delivered { .. })), "{key}");
    }
    settle(&mut world);
    world.tally.clone()
}

fn applications_have_a_say(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 60);
    world.on_forward(|_, routed, to| {
        let Payload::App(app) = &routed.payload else { return None };
        match app.bytes.as_slice() {
            b"stop" => Some(Verdict::Stop),
            b"change" => {
                Some(Verdict::Changed { to, app: App { purpose: app.purpose, bytes: b"changed".to_vec() } })
            }
            _ => None,
        }
    });
    let mut dice = SeededDice::new(seed);
    let (mut stopped, mut changed) = (0, 0);
    for _ in 0..20 {
        let (from, key) = (random_running(&world, &mut dice), random_key(&mut dice));
        let own = owner(&world, key) == Some(world.contact(from).id);
        let request = world.route(from, key, b"stop");
        match world.finish(request) {
            Err(Failure::Stopped) if !own => stopped += 1,
            reply => assert!(own, "{reply:?}"),
        }
        let request = world.route(from, key, b"change");
        match world.finish(request) {
            Ok(Reply::Delivered { answer, .. }) if answer == Some(b"degnahc".to_vec()) => changed += 1,
            reply => assert!(own, "{reply:?}"),
        }
    }
    assert!(stopped > 10 && changed > 10);
    world.tally.clone()
}

fn receipts_find_their_way(subject: &Subject, seed: u64) -> Tally {
    let mut world = world(subject, seed);
    world.network.sparse = true;
    world.grow(100);
    settle(&mut world);
    let mut dice = SeededDice::new(seed);
    for trace in [false, true] {
        for _ in 0..50 {
            let (from, key) = (random_running(&world, &mut dice), random_key(&mut dice));
            let request =
                world.command(from, Command::Lookup { key, trace, deadline: Duration::from_secs(10) });
            let found = world.finish(request);
            let Ok(Reply::Found { root, hops, path, .. }) = found else { panic!("{found:?}") };
            assert_eq!(Some(root.id), owner(&world, key));
            assert_eq!(path.len(), if trace { usize::from(hops) + 1 } else { 0 }, "every hop says its rule");
        }
    }
    world.tally.clone()
}

fn crowded_helper_serves_everybody(subject: &Subject, seed: u64) -> Tally {
    let settings = Settings { help_queue: 4, ..subject.settings.clone() };
    let mut world = World::of(subject.make, settings, seed);
    world.through_wire = true;
    let first = world.spawn(Id::new(1 << 100));
    world.create(first);
    let mut dice = SeededDice::new(seed);
    for _ in 0..20 {
        let node = world.spawn(random_key(&mut dice));
        world.join(node, &[first]);
    }
    settle(&mut world);
    lookups_are_right(&mut world, &mut dice, 50);
    world.tally.clone()
}

fn background_work_keeps_its_budget(subject: &Subject, seed: u64) -> Tally {
    let upkeep =
        |world: &World| -> u64 { subject.upkeep.iter().map(|kind| world.tally.messages(*kind)).sum() };
    // With a quarter of the ring in every list there is little upkeep to save.
    let (nodes, budget_burst) = match subject.settings.overlay {
        OverlayKind::Chord => (8 * usize::from(subject.settings.successors).max(5), 1000),
        // Room for one exchange of the widest row: with less there would be no upkeep, whatever the budget.
        OverlayKind::Pastry => (40, 3000),
    };
    let traffic = |budget: u32| {
        let settings = Settings { budget, budget_burst, ..subject.settings.clone() };
        let mut world = World::of(subject.make, settings, seed);
        world.through_wire = true;
        world.grow(nodes);
        // Newcomers are measured by their neighbours.
        world.run_for(Duration::from_secs(10));
        let before = upkeep(&world);
        world.run_for(Duration::from_secs(120));
        (upkeep(&world) - before, world)
    };
    let (plenty, _) = traffic(1 << 20);
    let (little, mut world) = traffic(10);
    assert!(little * 3 < plenty * 2, "{little} messages with a small budget, {plenty} with a large one");
    // What must happen happens all the same.
    world.crash(5);
    settle(&mut world);
    world.tally.clone()
}

/// What a node knows, for comparing.
#[derive(Debug, PartialEq)]
enum Known {
    Pastry(Box<Router>),
    /// Predecessor and successors.
    Chord(Option<Contact>, Vec<Contact>),
    Nothing,
}

/// What every running node knows, for comparing.
fn tables(world: &World) -> Vec<(Status, Known)> {
    let known = |node: &Node| match (node.overlay().as_pastry(), node.overlay().as_chord()) {
        (Some(pastry), _) => Known::Pastry(Box::new(pastry.router().clone())),
        (_, Some(chord)) => Known::Chord(chord.predecessor(), chord.successors()),
        _ => Known::Nothing,
    };
    world.running().map(|(_, node)| (node.status(), known(node))).collect()
}

/// Everything a stranger, a liar or a broken disk could send, to every node of a ring.
fn bad_messages_change_nothing(subject: &Subject, seed: u64) -> Tally {
    let mut world = grown(subject, seed, 30);
    let mut dice = SeededDice::new(seed);
    let nodes: Vec<u32> = world.ready().map(|(index, _)| index).collect();
    let before = tables(&world);
    for &node in &nodes {
        let me = world.contact(node);
        let peer = world.contact((node + 1) % world.len() as u32);
        let stranger = Contact::new(random_key(&mut dice), 1, Addr(9999));
        let stale = Contact { incarnation: 0, ..peer };
        let twin = Contact { addr: Addr(7777), ..peer };
        let message = |from, body| Input::Message { from, body };
        let routed = |hops, payload| {
            Body::Routed(Routed {
                key: me.id,
                origin: stranger,
                payload,
                serial: 1,
                hop: 1,
                hops,
                stage: Stage::Prefix,
            })
        };
        let unsolicited = [
            Body::Pong(dice.roll() as u32),
            Body::PongVia { nonce: dice.roll() as u32, target: peer.id },
            Body::HopAck(HopAck { hop: dice.roll() as u32, taken: false, better: Some(stranger) }),
            Body::PingVia { nonce: 1, target: stranger },
        ];
        unsolicited.into_iter().for_each(|body| world.input(node, message(peer, body)));
        world.input(node, message(me, Body::Ping(1)));
        world.input(node, message(stale, Body::Ping(1)));
        world.input(node, message(twin, Body::Ping(1)));
        world.input(node, message(peer, routed(200, Payload::Lookup)));
        // Bytes: cut off, bent, of another cluster, of another time, far too long.
        let mut frame = Vec::new();
        kringle_core::wire::encode(
            &Body::Ping(7),
            world.config().cluster,
            &kringle_core::wire::IndexBook,
            &mut frame,
        );
        world.bytes(peer, node, &frame[..20]);
        for (at, value) in [(4, b'X'), (7, 99), (8, 200), (16, 1), (0, 0xff)] {
            let mut bent = frame.clone();
            bent[at] = value;
            world.bytes(peer, node, &bent);
        }
    }
    // Nothing in any table has moved, and everybody still answers.
    assert_eq!(tables(&world), before);
    settle(&mut world);
    lookups_are_right(&mut world, &mut dice, 30);
    world.tally.clone()
}

/// Every message of a ring's whole youth, once more.
fn replayed_messages_change_nothing(subject: &Subject, seed: u64) -> Tally {
    let mut world = world(subject, seed);
    world.record();
    world.grow(25);
    let mut dice = SeededDice::new(seed);
    let key = random_key(&mut dice);
    let request = world.route(3, key, b"abc");
    delivered_once(&mut world, &[(request, key)]);
    settle(&mut world);
    let recording = world.take_recording();
    // A live node that shows itself again may become a spare or fill an empty cell; nobody loses a neighbour or a cell.
    let duties = |world: &World| -> Vec<(Vec<Contact>, Vec<Contact>)> {
        let holders =
            |router: &Router| router.table().holders().map(|entry| entry.contact).collect::<Vec<_>>();
        let of = |(_, known)| match known {
            Known::Pastry(router) => (router.leaf_set().arc(), holders(&router)),
            Known::Chord(pred, successors) => (successors.into_iter().chain(pred).collect(), Vec::new()),
            Known::Nothing => (Vec::new(), Vec::new()),
        };
        tables(world).into_iter().map(of).collect()
    };
    let (before, delivered) = (duties(&world), world.deliveries().len());
    assert!(recording.len() > 300);
    for (node, input) in recording {
        world.input(node, input);
    }
    for ((leaves, holders), (leaves_before, holders_before)) in duties(&world).iter().zip(&before) {
        assert_eq!(leaves, leaves_before, "a replayed message changed a leaf set");
        let kept = holders_before.iter().all(|holder| holders.contains(holder));
        assert!(kept, "a replayed message changed a table");
    }
    assert_eq!(world.deliveries().len(), delivered, "what was delivered is not delivered again");
    world.take_replies();
    world.run_for(Duration::from_secs(5));
    settle(&mut world);
    lookups_are_right(&mut world, &mut dice, 30);
    world.tally.clone()
}
