use std::collections::BTreeSet;

use kringle_core::config::Settings;
use kringle_core::contact::Proximity;
use kringle_core::message::{Rule, Stage};
use kringle_core::overlay::NextHop;
use kringle_core::overlay::pastry::leaf_set::Source;
use kringle_core::overlay::pastry::router::Router;

use super::*;
use crate::invariants::true_leaves;
use crate::network::Topology;

fn plane(nodes: usize, b: u8, leaf_set: usize, seed: u64) -> Model {
    let network = Network::new(Topology::Plane { side: Duration::from_millis(50) }, seed);
    Model::random(nodes, network, Base::new(b).unwrap(), leaf_set, seed)
}

/// The router of a node that was told of everybody it should know.
fn perfect_router(model: &Model, me: Contact) -> Router {
    let settings = Settings {
        base: model.base,
        leaf_set: 2 * model.side as u16,
        spares: 0,
        replicas: 0,
        ..Settings::lab()
    };
    let mut router = Router::new(me, &settings);
    for node in model.leaves(me.id).chain(model.holders(me, 0)) {
        let proximity = Proximity(model.distance(me, node).as_micros() as u32);
        router.add(node, proximity, Source::Leaf, &settings);
    }
    router
}

#[test]
fn a_thousand_nodes_take_the_hops_and_distance_computed_for_the_paper() {
    let routes = plane(1000, 4, 16, 1).routes("hops", 20_000, 1);
    assert!((routes.hops.mean() - 2.48).abs() < 0.03, "{} hops", routes.hops.mean());
    assert!((routes.distance() - 1.33).abs() < 0.03, "distance {}", routes.distance());
    assert_eq!(routes.hops.total(), 20_000);
}

#[test]
fn decisions_are_those_of_a_router_with_the_same_tables() {
    let mut rules = BTreeSet::new();
    for (nodes, b, leaf_set) in [(12, 4, 16), (60, 1, 4), (300, 2, 4), (300, 3, 8), (400, 4, 2), (400, 8, 4)]
    {
        let model = plane(nodes, b, leaf_set, nodes as u64);
        let mut dice = SeededDice::new(7);
        for _ in 0..20 {
            let me = model.members()[dice.below(nodes)];
            let router = perfect_router(&model, me);
            for _ in 0..200 {
                // Near a node as often as anywhere: rows beyond the first are rarely met by chance.
                let near = model.members()[dice.below(nodes)].id;
                let key = near.plus((u128::from(dice.roll()) << 64) >> dice.below(127));
                let (theirs, rule) = match router.next_hop(key, Stage::Prefix) {
                    NextHop::Peer(peer, rule) => (Some(peer), Some(rule)),
                    NextHop::Here => (None, None),
                    other => panic!("{other:?} with perfect tables"),
                };
                let ours = model.next_hop(me, key);
                let far = |node: Option<Contact>| node.map(|node| model.distance(me, node));
                // Of two nodes equally far away either may hold the cell.
                let tie = matches!(rule, Some(Rule::Cell { .. })) && far(ours) == far(theirs);
                assert!(ours == theirs || tie, "b={b} {me:?} to {key}: {ours:?}, {rule:?} {theirs:?}");
                rules.insert(match rule {
                    None => "here",
                    Some(Rule::LeafSet) => "leaf set",
                    Some(Rule::RareCase) => "rare case",
                    Some(_) => "cell",
                });
            }
        }
    }
    assert_eq!(rules.len(), 4, "met: {rules:?}");
}

#[test]
fn ranges_of_sorted_ids_are_what_a_search_through_all_nodes_finds() {
    for (nodes, b, leaf_set) in [(1, 4, 4), (2, 4, 4), (5, 4, 4), (6, 4, 4), (100, 3, 8)] {
        let model = plane(nodes, b, leaf_set, 3);
        let all: Vec<Id> = model.members().iter().map(|member| member.id).collect();
        let mut dice = SeededDice::new(3);
        for me in model.members() {
            let leaves: BTreeSet<Id> = model.leaves(me.id).map(|leaf| leaf.id).collect();
            assert_eq!(leaves, true_leaves(me.id, &all, leaf_set / 2));
            let key = Id::new(u128::from(dice.roll()) << 64);
            let mut nearest = all.clone();
            nearest.sort_by_key(|id| key.closeness(*id));
            nearest.truncate(5);
            assert_eq!(model.nearest(key, 5).iter().map(|node| node.id).collect::<Vec<_>>(), nearest);
            assert_eq!(model.owner(key).id, nearest[0]);
            for row in 0..3 {
                for column in 0..model.base.columns() as u8 {
                    let fits = |id: &&Id| {
                        (0..row).all(|at| id.digit(at, model.base) == me.id.digit(at, model.base))
                            && id.digit(row, model.base) == Some(column)
                    };
                    assert_eq!(model.fitting(me.id, row, column).len(), all.iter().filter(fits).count());
                }
            }
        }
    }
}
