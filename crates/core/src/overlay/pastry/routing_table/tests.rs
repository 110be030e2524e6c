use proptest::prelude::*;

use super::*;
use crate::contact::Addr;
use crate::id::Id;

fn lecture(text: &str) -> Id {
    Id::parse_text(text, Base::new(2).unwrap(), 8).unwrap()
}

fn contact(id: Id) -> Contact {
    Contact::new(id, 1, Addr(id.value() as u32))
}

/// The table of ocaml-pastry's notes, row by row; the own digit and empty cells are left out.
const LECTURE: [(&str, u8, u8); 17] = [
    ("02212102", 0, 0),
    ("22301203", 0, 2),
    ("31203203", 0, 3),
    ("11301233", 1, 1),
    ("12230203", 1, 2),
    ("13021022", 1, 3),
    ("10031203", 2, 0),
    ("10132102", 2, 1),
    ("10323302", 2, 3),
    ("10200230", 3, 0),
    ("10211302", 3, 1),
    ("10222302", 3, 2),
    ("10230322", 4, 0),
    ("10231000", 4, 1),
    ("10232121", 4, 2),
    ("10233001", 5, 0),
    ("10233232", 5, 2),
];

#[test]
fn every_node_of_the_lecture_maps_to_its_printed_cell() {
    let mut table = RoutingTable::new(lecture("10233102"), Base::new(2).unwrap(), 0);
    for (node, row, column) in LECTURE.into_iter().chain([("10233120", 6, 2)]) {
        assert_eq!(table.place(lecture(node)), Some((row, column)), "{node}");
        assert_eq!(table.offer(contact(lecture(node)), Proximity(1), 0), Offer::Filled);
        assert_eq!(table.lookup(lecture(node)), Some((contact(lecture(node)), Rule::Cell { row, column })));
    }
    assert_eq!(table.depth(), 7);
    assert_eq!(table.holders().count(), 18);
    assert_eq!(table.place(lecture("10233102")), None);
    table.check_invariants();
}

#[test]
fn the_two_ids_of_wendys_join_test_share_sixteen_digits() {
    // "this is a test N" and "this is some oth": row 16, and the second has digit 7 there.
    let me = Id::from_bytes(b"this is a test N").unwrap();
    let other = Id::from_bytes(b"this is some oth").unwrap();
    assert_eq!(RoutingTable::new(me, Base::HEX, 0).place(other), Some((16, 7)));
}

#[test]
fn a_cell_goes_to_the_nearest_and_keeps_spares_in_order() {
    let me = Id::ZERO;
    let node = |n: u128| contact(Id::new(0xf << 124 | n));
    let mut table = RoutingTable::new(me, Base::HEX, 2);
    assert_eq!(table.offer(node(1), Proximity(100), 10), Offer::Filled);
    assert_eq!(table.offer(node(2), Proximity(95), 10), Offer::Spare, "5 % nearer is not clearly nearer");
    assert_eq!(table.offer(node(3), Proximity(80), 10), Offer::Improved);
    assert_eq!(table.offer(node(4), Proximity(300), 10), Offer::TooFar);
    assert_eq!(table.offer(node(5), Proximity(90), 10), Offer::Spare);
    let order: Vec<u128> = table.cell(0, 15).map(|e| e.contact.id.value() & 0xff).collect();
    assert_eq!(order, [3, 5, 2], "holder, then spares by proximity; the farthest is gone");
    table.check_invariants();
    assert_eq!(table.remove(node(3).id), Removal::Promoted);
    assert_eq!(table.lookup(node(9).id).unwrap().0, node(5));
    let avoid = table.lookup_except(node(9).id, |id| id == node(5).id);
    assert_eq!(avoid, Some((node(2), Rule::Spare { row: 0, column: 15 })));
    assert_eq!(table.remove(node(2).id), Removal::Spare);
    assert_eq!(table.remove(node(5).id), Removal::Emptied { row: 0, column: 15 });
    assert_eq!(table.depth(), 0);
}

#[test]
fn removal_never_evicts_another_node() {
    // ocaml-pastry empties the slot a key would occupy, whoever sits there.
    let mut table = RoutingTable::new(Id::ZERO, Base::HEX, 0);
    let (held, other) = (contact(Id::new(0xf << 124 | 1)), contact(Id::new(0xf << 124 | 2)));
    table.offer(held, Proximity(1), 0);
    assert_eq!(table.remove(other.id), Removal::Absent);
    assert_eq!(table.lookup(other.id).unwrap().0, held);
    assert_eq!(table.remove(Id::ZERO), Removal::Absent);
}

#[test]
fn unknown_proximity_loses_against_any_measurement() {
    let mut table = RoutingTable::new(Id::ZERO, Base::HEX, 1);
    let node = |n: u128| contact(Id::new(0xf << 124 | n));
    table.offer(node(1), Proximity::UNKNOWN, 10);
    assert_eq!(table.offer(node(2), Proximity::UNKNOWN, 10), Offer::Spare);
    assert_eq!(table.offer(node(3), Proximity(4_000_000), 10), Offer::Improved);
    assert_eq!(table.offer(node(2), Proximity(7), 10), Offer::Known);
    assert_eq!(table.lookup(node(9).id).unwrap().0, node(2), "a spare measured nearer takes over");
    assert_eq!(table.offer(node(2), Proximity(8_000_000), 10), Offer::Known);
    assert_eq!(table.lookup(node(9).id).unwrap().0, node(3), "a holder measured farther steps back");
    table.check_invariants();
}

#[test]
fn incarnations_are_compared() {
    let mut table = RoutingTable::new(Id::ZERO, Base::HEX, 1);
    let node = |incarnation, addr| Contact::new(Id::MAX, incarnation, Addr(addr));
    table.offer(node(2, 1), Proximity(5), 0);
    assert_eq!(table.offer(node(1, 1), Proximity(1), 0), Offer::Stale);
    assert_eq!(table.offer(node(2, 9), Proximity(1), 0), Offer::Conflict);
    assert_eq!(table.offer(node(3, 9), Proximity::UNKNOWN, 0), Offer::Known);
    assert_eq!(table.get(Id::MAX), Some(Entry { contact: node(3, 9), proximity: Proximity(5) }));
    assert_eq!(table.offer(Contact::new(Id::ZERO, 9, Addr(0)), Proximity(1), 0), Offer::Myself);
}

proptest! {
    #[test]
    fn lookup_finds_a_node_that_shares_more_digits(
        me in any::<u128>(), nodes in prop::collection::vec((any::<u128>(), 0u32..64, 0u32..1000), 0..60),
        bits in 1u8..=8, spares in 0u8..3, remove in prop::collection::vec(0usize..60, 0..30), key in any::<u128>(), shared in 0u32..32,
    ) {
        let base = Base::new(bits).unwrap();
        let me = Id::new(me);
        let mut table = RoutingTable::new(me, base, spares);
        let near = |value: u128, keep: u32| Id::new(me.value() ^ (value >> keep));
        for (value, keep, proximity) in &nodes {
            table.offer(contact(near(*value, *keep)), Proximity(*proximity), 0);
            table.check_invariants();
        }
        for at in remove {
            if let Some((value, keep, _)) = nodes.get(at) {
                let id = near(*value, *keep);
                table.remove(id);
                prop_assert_eq!(table.get(id), None);
                table.check_invariants();
            }
        }
        let key = near(key, shared);
        if let Some((found, _)) = table.lookup(key) {
            prop_assert!(found.id.shared_digits(key, base) > me.shared_digits(key, base));
        }
        prop_assert_eq!(table.lookup(key), table.lookup_except(key, |_| false));
        // The holder of a cell is never farther than a spare that was there when it was chosen.
        for row in 0..table.depth() {
            for (column, holder) in table.row(row) {
                prop_assert!(table.cell(row, column).all(|e| holder.proximity <= e.proximity));
            }
        }
    }
}
