//! What Pastry promises about distance, on the plane.

use std::time::Duration;

use kringle_core::config::{Metric, Settings};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Reply};
use kringle_core::id::Id;
use kringle_core::message::Rule;
use kringle_sim::invariants::owner;
use kringle_sim::network::Topology;
use kringle_sim::world::World;

fn on_the_plane(settings: Settings, nodes: usize, seed: u64) -> World {
    let mut world = World::new(settings, seed);
    world.network.topology = Topology::Plane { side: Duration::from_millis(50) };
    world.grow(nodes);
    world
}

fn lab() -> Settings {
    Settings { leaf_set: 8, neighbourhood: 8, row_swap: Duration::from_secs(60), ..Settings::lab() }
}

/// The mean proximity of the holders of one row, over all nodes.
fn mean_of_row(world: &World, row: u8) -> f64 {
    let tables = world.ready().filter_map(|(_, node)| node.overlay().as_pastry());
    let cells = tables.flat_map(|pastry| pastry.router().table().row(row).collect::<Vec<_>>());
    let (mut sum, mut count) = (0.0, 0.0);
    for (_, entry) in cells {
        sum += f64::from(entry.proximity.0);
        count += 1.0;
    }
    sum / count
}

#[test]
fn nearby_search_ends_near_the_joiner() {
    // A joiner's neighbourhood set begins with that of the node it joined through: if that node is near, the joiner
    // knows many of its nearest nodes at once.
    let nearest_known = |find_nearby: bool| {
        let mut world = on_the_plane(Settings { find_nearby, ..lab() }, 100, 5);
        let mut known = 0;
        for _ in 0..20 {
            let joiner = world.spawn_random();
            let mut others: Vec<u32> = world.ready().map(|(index, _)| index).collect();
            let request = world.join(joiner, &[3]);
            assert_eq!(world.finish(request), Ok(Reply::Joined));
            others.sort_by_key(|other| world.network.delay(joiner, *other));
            let pastry = world.node(joiner).and_then(|node| node.overlay().as_pastry());
            let members = pastry.expect("it has joined").router().neighbourhood().members();
            known += members.filter(|contact| others[..8].contains(&contact.addr.0)).count();
        }
        known
    };
    let (with, without) = (nearest_known(true), nearest_known(false));
    assert!(with > without, "nearest nodes found with the search {with}, without {without}");
    assert!(with >= 20 * 4, "{with} of {} nearest nodes are known right after the join", 20 * 8);
}

#[test]
fn cells_of_later_rows_are_farther_away_and_swapping_rows_brings_them_nearer() {
    let mut world = on_the_plane(lab(), 200, 7);
    let joined: Vec<f64> = (0..2).map(|row| mean_of_row(&world, row)).collect();
    assert!(joined[0] * 1.5 < joined[1], "hops grow longer with the row: {joined:?}");
    world.run_for(Duration::from_secs(400));
    let kept: Vec<f64> = (0..2).map(|row| mean_of_row(&world, row)).collect();
    assert!(kept[0] <= joined[0] && kept[1] < joined[1], "before {joined:?}, after upkeep {kept:?}");
}

#[test]
fn routes_are_right_even_if_distances_make_no_sense() {
    // A metric that breaks the triangle inequality spoils locality, never the answer: every delay is random anew.
    let mut world = World::new(lab(), 9);
    world.network.topology = Topology::Flat { min: Duration::from_millis(1), max: Duration::from_millis(90) };
    world.grow(120);
    world.run_for(Duration::from_secs(60));
    let mut dice = SeededDice::new(9);
    for _ in 0..200 {
        let key = Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()));
        let from = dice.below(120) as u32;
        let deadline = Duration::from_secs(10);
        let request = world.command(from, Command::Lookup { key, trace: true, deadline });
        let Ok(Reply::Found { root, hops, path, .. }) = world.finish(request) else {
            panic!("{key} is found")
        };
        assert_eq!(Some(root.id), owner(&world, key));
        assert!(hops <= 5);
        assert_eq!(path.last().map(|hop| hop.rule), Some(Rule::Here));
    }
}

#[test]
fn the_applications_own_metric_fills_the_tables() {
    let settings = Settings { metric: Metric::Application, ..lab() };
    let world = on_the_plane(settings, 60, 3);
    let entries = world.ready().filter_map(|(_, node)| node.overlay().as_pastry());
    let entries: Vec<_> =
        entries.flat_map(|pastry| pastry.router().table().holders().collect::<Vec<_>>()).collect();
    let measured =
        entries.iter().filter(|e| e.proximity != kringle_core::contact::Proximity::UNKNOWN).count();
    assert!(measured * 10 > entries.len() * 9, "{measured} of {} entries are measured", entries.len());
}
