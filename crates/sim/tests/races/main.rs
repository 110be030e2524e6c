//! The races on record, each with the rule that decides it.
//!
//! A race is a small world in which a rule is needed. With all rules it ends well for every seed tried; with that one
//! rule left out it goes wrong for at least one. `cargo xtask test races` prints the table.

mod hunted;
mod joins;
mod losses;
mod rules;

use std::time::Duration;

use kringle_core::config::{Ownership, Safeguard, Settings};
use kringle_core::dice::SeededDice;
use kringle_core::id::{Id, Key};
use kringle_core::overlay::Status;
use kringle_sim::invariants::{
    leaf_sets_are_exact, lease_holders_are_known, one_deliverer_per_key, telling_keys,
};
use kringle_sim::world::World;

/// How a race ended: well, or with what.
type Fate = Result<(), String>;

/// A race, for one seed, with or without a rule.
type Run = fn(Settings, u64) -> Fate;

/// How many seeds are tried with all rules, and at most without one.
const SEEDS: u64 = 30;
const SEEDS_WITHOUT: u64 = 300;

/// Runs a race with all rules and without one, and prints a line for the table.
fn race(name: &str, rule: Safeguard, run: Run) {
    for seed in 1..=SEEDS {
        if let Err(problem) = run(settings(None), seed) {
            panic!("{name} with all rules, seed {seed}: {problem}");
        }
    }
    let missed = (1..=SEEDS_WITHOUT).find_map(|seed| Some((seed, run(settings(Some(rule)), seed).err()?)));
    let Some((seed, problem)) = missed else {
        panic!("{name}: nothing goes wrong without {}, in {SEEDS_WITHOUT} seeds", rule.name());
    };
    println!("race | {name} | {} | {SEEDS} seeds, all well | seed {seed}: {problem}", rule.name());
}

/// Small leaf sets and short leases; neighbours are missed after about a second and a half.
fn settings(without: Option<Safeguard>) -> Settings {
    Settings {
        ownership: Ownership::Lease,
        leaf_set: 8,
        replicas: 1,
        lease: Duration::from_secs(4),
        heartbeat: Duration::from_millis(500),
        leaf_exchange: Duration::from_secs(3),
        without,
        ..Settings::demo()
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A world whose nodes have these first bytes as ids; the first `ready` of them form a ring.
fn world(settings: Settings, seed: u64, ids: &[u8], ready: usize) -> World {
    let mut world = World::new(settings, seed);
    for (index, first) in ids.iter().enumerate() {
        world.spawn(Id::new(u128::from(*first) << 120));
        match index {
            0 => {
                world.create(0);
            }
            _ if index < ready => {
                world.join(index as u32, &[0]);
                let joined = world.run_until(seconds(60), |world| is_ready(world, index as u32));
                assert!(joined, "the ring grows");
            }
            _ => {}
        }
    }
    // Long enough for every node to have been there for a lease.
    let lease = world.config().lease;
    world.run_for(lease + seconds(6));
    world
}

fn is_ready(world: &World, node: u32) -> bool {
    world.node(node).is_some_and(|node| node.status() == Status::Ready)
}

fn dice(seed: u64) -> SeededDice {
    SeededDice::derive(seed, 99)
}

fn keys(world: &World) -> Vec<Key> {
    let ids: Vec<Id> = (0..world.len() as u32).map(|node| world.contact(node).id).collect();
    telling_keys(&ids)
}

/// Lets time pass and looks for two deliverers after every event.
fn watch(world: &mut World, span: Duration) -> Fate {
    let keys = self::keys(world);
    one_deliverer_per_key(world, &keys)?;
    world.run_watched(span, |world| one_deliverer_per_key(world, &keys))
}

/// The same, and for leases whose grantor does not know the holder.
fn watch_leases(world: &mut World, span: Duration) -> Fate {
    let keys = self::keys(world);
    world.run_watched(span, |world| {
        one_deliverer_per_key(world, &keys)?;
        lease_holders_are_known(world)
    })
}

/// Left in peace, every running node is ready, and every leaf set as it should be, within this time.
fn heals(world: &mut World, within: Duration) -> Fate {
    let whole = |world: &World| {
        world.running().all(|(index, _)| is_ready(world, index)) && leaf_sets_are_exact(world).is_ok()
    };
    if world.run_until(within, whole) {
        return Ok(());
    }
    let status: Vec<_> = world.running().map(|(index, node)| (index, node.status())).collect();
    Err(format!("not one ring after {within:?}: {status:?}"))
}
