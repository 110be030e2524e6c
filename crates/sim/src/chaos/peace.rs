//! The second phase: nothing goes wrong any more, and everything must become well.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use kringle_core::config::OverlayKind;
use kringle_core::dice::SeededDice;
use kringle_core::edge::{Reply, RequestId};
use kringle_core::id::{Key, NodeId};
use kringle_core::overlay::Status;
use kringle_core::time::Time;

use super::faults::random_key;
use super::watch::Watcher;
use super::{Broken, Invariant, Moment, SetUp, Summary};
use crate::invariants::{
    Places, leaf_sets_are_exact, neighbours_are_exact, one_root_per_key, owner, ring_is_ideal,
};
use crate::world::World;

/// How often the ring is looked at until it is whole.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a question may stay unanswered.
const PATIENCE: Duration = Duration::from_secs(25);
/// Questions asked of each node.
const QUESTIONS: usize = 3;

/// Waits until the ring is whole, then asks.
pub(super) fn come(
    world: &mut World,
    set_up: &SetUp,
    dice: &mut SeededDice,
    watcher: &mut Watcher,
    summary: &mut Summary,
    time: &Cell<Time>,
) -> Result<(), Broken> {
    watcher.moved();
    watcher.mended(world);
    let start = world.now();
    let keys: Vec<Key> = (0..20).map(|_| random_key(dice)).collect();
    loop {
        if let Some(sabotage) = set_up.sabotage {
            sabotage(world, Moment::Look);
            watcher.moved();
        }
        let found = judge(world, &keys, watcher);
        let waited = world.now().since(start);
        match found {
            Ok(()) => {
                summary.whole_after = waited;
                break;
            }
            Err(broken) if waited >= set_up.deadline => return Err(broken),
            Err(_) => {}
        }
        world.run_watched(LOOK_EVERY, |world| {
            time.set(world.now());
            watcher.look(world)
        })?;
        watcher.is_whole_again(world);
    }
    watcher.is_whole_again(world);
    if let Some(sabotage) = set_up.sabotage {
        sabotage(world, Moment::Asked);
    }
    summary.nodes = world.running().count();
    summary.lookups = ask(world, dice, watcher)?;
    Ok(())
}

/// Says what keeps the ring from being whole.
fn judge(world: &World, keys: &[Key], watcher: &mut Watcher) -> Result<(), Broken> {
    watcher.count(Invariant::Ready);
    let unready: Vec<(u32, Status)> = world
        .running()
        .filter(|(_, node)| node.status() != Status::Ready)
        .map(|(index, node)| (index, node.status()))
        .collect();
    if !unready.is_empty() {
        return Err((Invariant::Ready, format!("not ready: {unready:?}")));
    }
    watcher.count(Invariant::OneRoot);
    // Every id, and the points at which one node's part ends and the next one's begins.
    let places = Places::of_ready(world);
    let mut telling: Vec<Key> = keys.to_vec();
    for (at, (id, _)) in places.all().iter().enumerate() {
        let middle = id.middle_to(places.all()[(at + 1) % places.len()].0);
        telling.extend([*id, middle, middle.plus(1)]);
    }
    one_root_per_key(world, &telling).map_err(|problem| (Invariant::OneRoot, problem))?;
    if world.config().overlay == OverlayKind::Chord {
        watcher.count(Invariant::IdealRing);
        let ideal = neighbours_are_exact(world).and_then(|()| ring_is_ideal(world));
        ideal.map_err(|problem| (Invariant::IdealRing, problem))?;
    } else {
        watcher.count(Invariant::LeafSets);
        leaf_sets_are_exact(world).map_err(|problem| (Invariant::LeafSets, problem))?;
    }
    watcher.count(Invariant::NoSuspects);
    for (index, node) in world.running() {
        let pastry = node.overlay().as_pastry().map(|pastry| pastry.suspects().to_vec());
        let chord = node.overlay().as_chord().map(|chord| chord.suspects());
        let suspects = pastry.or(chord).unwrap_or_default();
        if !suspects.is_empty() {
            return Err((Invariant::NoSuspects, format!("node {index} suspects {suspects:?}")));
        }
    }
    Ok(())
}

/// Asks every node some questions, half of them by sending bytes to be answered.
fn ask(world: &mut World, dice: &mut SeededDice, watcher: &mut Watcher) -> Result<usize, Broken> {
    world.take_replies();
    world.take_deliveries();
    let places = Places::of_ready(world);
    let mut asked: Vec<(RequestId, u32, Key)> = Vec::new();
    for (_, node) in places.all() {
        for question in 0..QUESTIONS {
            let key = random_key(dice);
            let request =
                if question % 2 == 0 { world.lookup(*node, key) } else { world.route(*node, key, b"abc") };
            asked.push((request, *node, key));
        }
    }
    let end = world.now().after(PATIENCE);
    let mut replies = BTreeMap::new();
    while replies.len() < asked.len() && world.now() < end {
        world.run_watched(LOOK_EVERY, |world| watcher.look(world))?;
        let new = world.take_replies().into_iter().filter(|answered| answered.request >= asked[0].0);
        replies.extend(new.map(|answered| (answered.request, answered.reply)));
    }
    for (request, node, key) in &asked {
        watcher.count(Invariant::Lookups);
        let owner: Option<NodeId> = owner(world, *key);
        let root = match replies.get(request) {
            Some(Ok(Reply::Found { root, .. } | Reply::Delivered { root, .. })) => root,
            other => {
                let problem = format!("node {node} asked for {key} and got {other:?}");
                return Err((Invariant::Lookups, problem));
            }
        };
        if Some(root.id) != owner {
            let problem = format!("node {node} asked for {key}: answered by {root:?}, owned by {owner:?}");
            return Err((Invariant::Lookups, problem));
        }
    }
    Ok(asked.len())
}
