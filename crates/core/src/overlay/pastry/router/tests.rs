use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::contact::Addr;
use crate::id::{Base, Id};

fn settings(leaf_set: u16, bits: u8) -> Settings {
    Settings {
        leaf_set,
        replicas: 0,
        base: Base::new(bits).unwrap(),
        nearer_percent: 0,
        ..Settings::default()
    }
}

fn contact(id: Id) -> Contact {
    Contact::new(id, 1, Addr(id.value() as u32))
}

fn hex8(text: &str) -> Id {
    Id::parse_text(text, Base::HEX, 8).unwrap()
}

/// A router of a node in a large ring: the leaf set is partial and empty until offered.
fn router(me: Id, settings: &Settings) -> Router {
    let mut router = Router::new(contact(me), settings);
    router.reset_leaf_set(LeafSet::partial(me, usize::from(settings.leaf_set / 2), me.plus(1 << 127)));
    router
}

#[test]
fn lecture_routes_by_the_cell_of_the_next_digit() {
    let settings = settings(16, 4);
    let mut router = router(hex8("65a1fc04"), &settings);
    for column in "0123456789bcdef".chars() {
        let node = alloc::format!("65{column}00000");
        router.add(contact(hex8(&node)), Proximity(1), Source::Elsewhere, &settings);
    }
    let next = router.next_hop(hex8("65b23c05"), Stage::Prefix);
    assert_eq!(next, NextHop::Peer(contact(hex8("65b00000")), Rule::Cell { row: 2, column: 11 }));
}

#[test]
fn lecture_rare_case_takes_the_numerically_nearer_node() {
    let settings = settings(16, 4);
    let mut router = router(hex8("65a1fc04"), &settings);
    for column in "1234789bcdf".chars() {
        // Worst case for the right answer: the highest 657x is nearest among its kind, the lowest 654x farthest.
        let node = alloc::format!("65{column}{}", if column == '7' { "00000" } else { "fffff" });
        router.add(contact(hex8(&node)), Proximity(1), Source::Elsewhere, &settings);
    }
    let next = router.next_hop(hex8("65523c05"), Stage::Prefix);
    assert_eq!(next, NextHop::Peer(contact(hex8("654fffff")), Rule::RareCase));
}

#[test]
fn lecture_join_rows_include_the_sender_itself_in_its_column() {
    let settings = settings(16, 4);
    let (first, second, joiner) = (hex8("65a1fc03"), hex8("76a1fc03"), hex8("75b2ff03"));
    // 65a1fc03 shares no digit with the joiner: row 0 only, and it belongs into column 6 of the joiner's row 0.
    let mut a = router(first, &settings);
    for node in ["05000000", "76a1fc03", "61000000", "65b00000"] {
        a.add(contact(hex8(node)), Proximity(1), Source::Elsewhere, &settings);
    }
    let rows: Vec<Id> = a.rows_for(joiner, 0).map(|entry| entry.contact.id).collect();
    assert_eq!(rows, [hex8("05000000"), hex8("76a1fc03")]);
    let mut x = router(joiner, &settings);
    x.add(contact(first), Proximity(1), Source::Elsewhere, &settings);
    assert_eq!(x.table().row(0).next().map(|(column, _)| column), Some(6));
    // 76a1fc03 shares one digit: row 1 is useful as well, row 0 has been collected.
    let mut b = router(second, &settings);
    for node in ["00000000", "71000000", "7a000000", "76000000"] {
        b.add(contact(hex8(node)), Proximity(1), Source::Elsewhere, &settings);
    }
    let rows: Vec<Id> = b.rows_for(joiner, 1).map(|entry| entry.contact.id).collect();
    assert_eq!(rows, [hex8("71000000"), hex8("7a000000")]);
}

#[test]
fn lecture_four_bit_figure_gives_key_12_to_node_10() {
    // l = 4, b = 2: the figure's ring has nodes 10 and 23 among others; node 23 looks key 12 up and finds node 10.
    let base = Base::new(2).unwrap();
    let id = |text: &str| Id::parse_text(text, base, 2).unwrap();
    let settings = settings(8, 2);
    let mut router = Router::new(contact(id("23")), &settings);
    for node in ["00", "03", "10", "22", "31"] {
        router.add(contact(id(node)), Proximity(1), Source::Leaf, &settings);
    }
    assert_eq!(router.next_hop(id("12"), Stage::Prefix), NextHop::Peer(contact(id("10")), Rule::LeafSet));
}

#[test]
fn a_leaf_set_hit_is_used_before_the_table() {
    // Wendy returns a leaf only in its error branch and falls through to the table.
    let settings = settings(2, 4);
    let me = hex8("20000000");
    let mut router = router(me, &settings);
    router.add(contact(hex8("20000010")), Proximity(1), Source::Leaf, &settings);
    router.add(contact(hex8("1ffffff0")), Proximity(1), Source::Leaf, &settings);
    let next = router.next_hop(hex8("2000000f"), Stage::Prefix);
    assert_eq!(next, NextHop::Peer(contact(hex8("20000010")), Rule::LeafSet));
    assert_eq!(router.next_hop(hex8("20000001"), Stage::Prefix), NextHop::Here);
}

#[test]
fn an_evicted_leaf_is_offered_to_the_table_again() {
    let settings = Settings { spares: 0, ..settings(2, 4) };
    let mut router = Router::new(contact(Id::new(1000)), &settings);
    for value in [1010, 990, 1 << 100] {
        router.add(contact(Id::new(value)), Proximity::UNKNOWN, Source::Leaf, &settings);
    }
    assert!(router.leaf_set().get(Id::new(1 << 100)).is_none());
    assert!(router.table().get(Id::new(1 << 100)).is_some());
    // A nearer leaf pushes 1010 out; the table keeps it.
    router.add(contact(Id::new(1001)), Proximity(5), Source::Leaf, &settings);
    assert!(router.leaf_set().get(Id::new(1010)).is_none());
    assert!(router.table().get(Id::new(1010)).is_some());
    router.check_invariants();
}

#[test]
fn removal_reaches_all_three_tables() {
    // Wendy stops at the first table that does not hold the node.
    let settings = Settings { spares: 0, ..settings(4, 4) };
    let mut router = Router::new(contact(Id::new(1000)), &settings);
    let node = contact(Id::new(1010));
    router.add(contact(Id::new(1015)), Proximity(1), Source::Leaf, &settings);
    router.add(node, Proximity(9), Source::Leaf, &settings);
    assert!(router.table().get(node.id).is_none(), "its cell is taken by a nearer node");
    let before = router.versions();
    let removed = router.remove(node.id);
    assert_eq!((removed.leaf, removed.cell, removed.neighbour), (Some(node), Removal::Absent, true));
    assert!(
        router.versions().leaf_set > before.leaf_set
            && router.versions().neighbourhood > before.neighbourhood
    );
    assert_eq!(router.versions().table, before.table);
    assert_eq!(router.get(node.id), None);
}

#[test]
fn versions_keep_the_maximum_of_each_counter() {
    let v = |leaf_set, table, neighbourhood| Versions { leaf_set, table, neighbourhood };
    let merged = Versions::default().merge(v(2, 3, 4));
    assert_eq!(merged, v(2, 3, 4));
    assert_eq!(merged.merge(v(3, 3, 3)), v(3, 3, 4));
}

#[test]
fn a_lone_node_is_responsible_for_everything() {
    let router = Router::new(contact(Id::ZERO), &settings(8, 4));
    for key in [Id::ZERO, Id::MAX, Id::new(1 << 127)] {
        assert_eq!(router.next_hop(key, Stage::Prefix), NextHop::Here);
        assert_eq!(router.next_hop_except(key, Stage::Leaf, &|_| true, None), NextHop::Here);
    }
}

#[test]
fn a_silent_owner_is_waited_for_and_never_replaced_by_a_guess() {
    let settings = settings(4, 4);
    let mut router = Router::new(contact(Id::new(1000)), &settings);
    router.add(contact(Id::new(1010)), Proximity(1), Source::Leaf, &settings);
    router.add(contact(Id::new(1030)), Proximity(1), Source::Leaf, &settings);
    let key = Id::new(1011);
    assert_eq!(router.next_hop(key, Stage::Prefix), NextHop::Peer(contact(Id::new(1010)), Rule::LeafSet));
    assert_eq!(router.next_hop_except(key, Stage::Prefix, &|id| id == Id::new(1010), None), NextHop::Wait);
    // Another leaf that is nearer than we are may know more.
    let key = Id::new(1019);
    let next = router.next_hop_except(key, Stage::Leaf, &|id| id == Id::new(1010), None);
    assert_eq!(next, NextHop::Peer(contact(Id::new(1030)), Rule::LeafSet));
}

proptest! {
    /// Every step makes progress in the pair (shared digits, ring distance), and with the leaf flag in distance.
    #[test]
    fn every_step_makes_progress(
        me in any::<u128>(), nodes in prop::collection::vec((any::<u128>(), 0u32..100), 0..80), bits in 1u8..=8,
        half in 1u16..6, key in any::<u128>(), shared in 0u32..100, leaf in any::<bool>(), avoid in any::<u128>(),
        whole in any::<bool>(),
    ) {
        let settings = settings(2 * half, bits);
        let me = Id::new(me);
        let mut router = if whole { Router::new(contact(me), &settings) } else { router(me, &settings) };
        for (value, keep) in nodes {
            let source = if value & 1 == 0 { Source::Leaf } else { Source::Elsewhere };
            router.add(contact(Id::new(me.value() ^ value >> keep)), Proximity(value as u32), source, &settings);
        }
        router.check_invariants();
        let key = Id::new(me.value() ^ key >> shared);
        let stage = if leaf { Stage::Leaf } else { Stage::Prefix };
        let base = settings.base;
        for next in [
            router.next_hop(key, stage),
            router.next_hop_except(key, stage, &|id| (id.value() ^ avoid) & 3 == 0, None),
        ] {
            if let NextHop::Peer(peer, rule) = next {
                let digits = (peer.id.shared_digits(key, base), me.shared_digits(key, base));
                let nearer = key.closeness(peer.id) < key.closeness(me);
                match rule {
                    Rule::LeafSet => prop_assert!(nearer),
                    Rule::Cell { row, column } | Rule::Spare { row, column } => {
                        prop_assert!(digits.0 > digits.1);
                        prop_assert_eq!((row, Some(column)), (digits.1, key.digit(digits.1, base)));
                    }
                    Rule::RareCase => prop_assert!(nearer && (leaf || digits.0 >= digits.1)),
                    _ => prop_assert!(false),
                }
            }
        }
        prop_assert_eq!(router.next_hop(key, stage), router.next_hop_except(key, stage, &|_| false, None));
    }
}

#[test]
fn with_an_empty_side_nothing_is_claimed_beyond_this_node() {
    let settings = settings(4, 4);
    let mut router = Router::new(contact(Id::new(1000)), &settings);
    for value in [900, 800, 1100, 1200, 1 << 120] {
        router.add(contact(Id::new(value)), Proximity(1), Source::Leaf, &settings);
    }
    router.remove(Id::new(900));
    router.remove(Id::new(800));
    // Whoever lives to the left now is not known: delivering its keys here would be a guess.
    assert_eq!(router.next_hop(Id::new(990), Stage::Prefix), NextHop::Wait);
    assert_eq!(router.next_hop(Id::new(1000), Stage::Prefix), NextHop::Here);
    assert_eq!(router.next_hop(Id::new(1020), Stage::Prefix), NextHop::Here);
    assert_eq!(
        router.next_hop(Id::new(1090), Stage::Leaf),
        NextHop::Peer(contact(Id::new(1100)), Rule::LeafSet)
    );
}
