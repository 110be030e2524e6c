use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::contact::Addr;

fn contact(value: u128) -> Contact {
    Contact::new(Id::new(value), 1, Addr(value as u32))
}

fn leaf_set(me: u128, side: usize, others: &[u128]) -> LeafSet {
    let mut set = LeafSet::new(Id::new(me), side);
    for &other in others {
        set.offer(contact(other), Source::Leaf);
        set.check_invariants();
    }
    set
}

fn values(list: impl Iterator<Item = Contact>) -> Vec<u128> {
    list.map(|c| c.id.value()).collect()
}

#[test]
fn each_side_keeps_its_nearest_and_evicts_at_most_one() {
    let mut set = leaf_set(100, 2, &[90, 110, 80, 120]);
    assert_eq!(values(set.left()), [90, 80]);
    assert_eq!(values(set.right()), [110, 120]);
    assert_eq!(set.offer(contact(95), Source::Leaf), Offer::Added(Some(contact(80))));
    assert_eq!(values(set.left()), [95, 90]);
    assert_eq!(set.offer(contact(70), Source::Leaf), Offer::TooFar);
    assert_eq!(set.offer(contact(95), Source::Leaf), Offer::Known);
    assert_eq!(set.offer(contact(100), Source::Leaf), Offer::Myself);
    set.check_invariants();
}

#[test]
fn neighbours_are_found_across_zero() {
    // ocaml-pastry has no wrap anywhere: ids near 0 and near 2^128 never become neighbours there.
    let set = leaf_set(1, 1, &[u128::MAX, 5, 1 << 100]);
    assert_eq!(values(set.left()), [u128::MAX]);
    assert_eq!(values(set.right()), [5]);
    assert_eq!(set.nearest(Id::MAX), Some(contact(u128::MAX)));
    assert_eq!(
        set.nearest(Id::ZERO),
        Some(contact(u128::MAX)),
        "as far as we are, and met first counter-clockwise"
    );
    assert_eq!(set.nearest(Id::new(2)), None);
}

#[test]
fn small_rings_overlap_and_count_every_member_once() {
    let set = leaf_set(10, 4, &[20, 30, 40]);
    assert_eq!(set.members().len(), 3);
    assert_eq!(values(set.left()), [40, 30, 20]);
    assert_eq!(values(set.right()), [20, 30, 40]);
    assert!(set.is_whole() && set.is_complete());
    // Two per side and five others: no overlap, and the far side of the ring is not covered.
    let set = leaf_set(10, 2, &[20, 30, 40, 50, 60]);
    assert!(!set.is_whole() && set.is_complete());
    assert_eq!(set.members().len(), 4);
    assert!(!set.covers(Id::new(40)));
    // Four others just fit: the whole ring is known although the sides do not overlap.
    let set = leaf_set(10, 2, &[20, 30, 40, 50]);
    assert!(set.is_whole() && set.covers(Id::new(35)));
}

#[test]
fn a_hole_is_not_filled_from_the_other_end() {
    let mut set = leaf_set(1000, 2, &[900, 800, 1100, 1200, 5000]);
    assert!(!set.is_whole());
    set.remove(Id::new(800));
    set.check_invariants();
    assert_eq!(values(set.left()), [900]);
    // Heard of somewhere: it says nothing about who lies between.
    assert_eq!(set.offer(contact(5000), Source::Elsewhere), Offer::TooFar);
    assert_eq!(set.offer(contact(950), Source::Elsewhere), Offer::Added(None));
    assert_eq!(set.offer(contact(1300), Source::Leaf), Offer::TooFar, "the right side is full");
    set.remove(Id::new(950));
    assert_eq!(set.offer(contact(700), Source::Leaf), Offer::Added(None), "a neighbour's leaf set extends");
    assert!(!set.is_whole() && !set.covers(Id::new(699)) && set.covers(Id::new(700)));
    set.check_invariants();
}

#[test]
fn a_shrunken_ring_is_recognised_when_the_ends_meet() {
    let mut set = leaf_set(1000, 2, &[900, 800, 1100, 1200, 5000, 6000]);
    assert_eq!(values(set.members().iter().copied()), [1100, 1200, 800, 900]);
    assert!(!set.close(Id::new(1200), &[contact(5000), contact(1100)]), "5000 lies between the ends");
    assert!(!set.close(Id::new(1100), &[contact(800)]), "not asked of the end");
    assert!(set.close(Id::new(1200), &[contact(1100), contact(800), contact(1000)]));
    assert!(set.is_whole() && set.covers(Id::new(1 << 90)));
    // From nothing: the only peer knows me as its neighbour on both sides.
    let mut set = LeafSet::partial(Id::new(5), 2, Id::new(500));
    set.offer(contact(9), Source::Leaf);
    assert_eq!((set.left().len(), set.right().len()), (0, 1));
    assert!(set.close(Id::new(9), &[contact(5)]));
    assert_eq!((values(set.left()), values(set.right())), (alloc::vec![9], alloc::vec![9]));
    set.check_invariants();
}

#[test]
fn the_edge_says_which_side_a_far_node_is_on() {
    // All nodes lie just clockwise of zero, and we join opposite: by distance alone they would all be on one side.
    let mut set = LeafSet::partial(Id::new(1 << 127), 2, Id::new(2));
    for n in 1..5 {
        set.offer(contact(n), Source::Leaf);
    }
    assert_eq!(values(set.right()), [1, 2]);
    assert_eq!(values(set.left()), [4, 3]);
}

#[test]
fn range_test_is_right_on_the_lower_side() {
    // Wendy's lower bound is inverted: in-range keys are not found, out-of-range ones are routed to a leaf.
    let set = leaf_set(1000, 2, &[900, 800, 700, 1100, 1200, 1300]);
    for (key, covered) in
        [(800, true), (801, true), (950, true), (799, false), (700, false), (1200, true), (1201, false)]
    {
        assert_eq!(set.covers(Id::new(key)), covered, "{key}");
    }
    assert_eq!(set.nearest(Id::new(810)).map(|c| c.id.value()), Some(800));
    assert_eq!(set.nearest(Id::new(849)).map(|c| c.id.value()), Some(800));
    assert_eq!(set.nearest(Id::new(850)).map(|c| c.id.value()), Some(800), "a tie goes counter-clockwise");
    assert_eq!(set.nearest(Id::new(851)).map(|c| c.id.value()), Some(900));
    assert_eq!(set.nearest(Id::new(950)).map(|c| c.id.value()), Some(900));
    assert_eq!(set.nearest(Id::new(951)), None);
}

#[test]
fn leaf_set_decides_before_shared_digits_do() {
    // Bamboo: key 3000..., me 2fff..., other 3fff...: mine, although the other shares a digit with the key.
    let me = 0x2fff_ffffu128 << 96;
    let set = leaf_set(me, 1, &[0x3fff_ffff << 96]);
    let key = Id::new(0x3000_0000 << 96);
    assert!(set.covers(key));
    assert_eq!(set.nearest(key), None);
}

#[test]
fn a_later_incarnation_replaces_and_an_earlier_one_is_stale() {
    let mut set = leaf_set(10, 2, &[20]);
    let at = |incarnation, addr| Contact::new(Id::new(20), incarnation, Addr(addr));
    assert_eq!(set.offer(at(1, 99), Source::Leaf), Offer::Conflict);
    assert_eq!(set.offer(at(2, 99), Source::Leaf), Offer::Renewed);
    assert_eq!(set.offer(at(1, 20), Source::Leaf), Offer::Stale);
    assert_eq!(set.get(Id::new(20)), Some(at(2, 99)));
    set.check_invariants();
}

#[test]
fn a_lone_node_covers_everything_and_a_node_without_sides_nothing() {
    let set = leaf_set(10, 2, &[]);
    assert!(set.covers(Id::MAX) && set.is_whole() && set.is_complete());
    assert_eq!(set.nearest(Id::MAX), None);
    assert_eq!(set.range(), IdRange::Full);
    let set = LeafSet::partial(Id::new(10), 2, Id::MAX);
    assert!(set.covers(Id::new(10)) && !set.covers(Id::new(11)));
    assert_eq!(set.range(), IdRange::arc(Id::new(10), Id::new(11)));
}

#[test]
fn leaf_set_of_the_lecture_at_its_edges() {
    let base = crate::id::Base::new(2).unwrap();
    let id = |text: &str| Id::parse_text(text, base, 8).unwrap();
    let me = id("10233102");
    let mut set = LeafSet::partial(me, 4, me.plus(1 << 127));
    let leaves =
        ["10233033", "10233021", "10233001", "10233000", "10233120", "10233122", "10233230", "10233232"];
    for leaf in leaves {
        assert_eq!(set.offer(Contact::new(id(leaf), 1, Addr(0)), Source::Leaf), Offer::Added(None));
    }
    assert_eq!(set.left().next_back().map(|c| c.id), Some(id("10233000")));
    assert_eq!(set.right().next_back().map(|c| c.id), Some(id("10233232")));
    assert!(set.covers(id("10233000")) && !set.covers(id("10232333")));
    assert!(set.covers(id("10233232")) && !set.covers(id("10233233")));
    assert_eq!(set.arc().first().map(|c| c.id), Some(id("10233000")));
}

#[test]
fn ranges_of_every_rank_follow_the_rule_and_fill_the_ring() {
    // In a ring of n nodes with s leaves, the rank-q range of the node at offset p is known iff q < s/2 - |p| or
    // s + 1 >= n. (The source says s + 1 > n: FreePastry needs an overlap to know that nobody is missing.)
    for n in 1..=12usize {
        let ids: Vec<u128> = (0..n as u128).map(|i| (i * i + 3 * i + 1) << 110).collect();
        for half in 1..=4usize {
            let all_known = 2 * half + 1 >= n;
            let set = leaf_set(ids[0], half, &ids[1..]);
            assert_eq!(set.is_whole(), all_known);
            let most = (half as i32).min(n as i32 - 1);
            for p in -most..=most {
                let node = Id::new(ids[p.rem_euclid(n as i32) as usize]);
                for q in 0..n + 2 {
                    let known = q < half - p.unsigned_abs() as usize || all_known;
                    assert_eq!(
                        set.cumulative_range(node, q).is_some(),
                        known,
                        "n={n} half={half} p={p} q={q}"
                    );
                    if let Some(range) = set.cumulative_range(node, q) {
                        assert_eq!(range == IdRange::Full, q + 1 >= n);
                        assert_eq!(set.range_of_rank(node, q).unwrap().is_empty(), q >= n);
                    }
                }
                if all_known {
                    let ranks = (0..n).flat_map(|q| set.range_of_rank(node, q).unwrap());
                    let all: f64 = ranks.map(IdRange::share).sum();
                    assert!((all - 1.0).abs() < 1e-9, "the ranks of one node fill the ring");
                }
            }
            assert_eq!(set.cumulative_range(set.me, 0).unwrap_or(set.range()), set.range());
        }
    }
}

proptest! {
    #[test]
    fn nearest_agrees_with_brute_force(
        me in any::<u128>(), others in prop::collection::vec(any::<u128>(), 0..40), half in 1usize..8,
        key in any::<u128>(), near in 0usize..40, off in -3i128..4,
    ) {
        let set = leaf_set(me, half, &others);
        // Keys of every kind: anywhere, and right beside a member.
        let beside = others.get(near).copied().unwrap_or(me).wrapping_add_signed(off);
        for key in [Id::new(key), Id::new(beside)] {
            let known = || set.members().iter().map(|c| c.id).chain([Id::new(me)]);
            let best = known().min_by_key(|id| key.closeness(*id)).unwrap();
            if set.covers(key) {
                prop_assert_eq!(set.nearest(key).map_or(Id::new(me), |c| c.id), best);
                let all = others.iter().copied().chain([me]).map(Id::new).min_by_key(|id| key.closeness(*id));
                prop_assert_eq!(Some(best), all, "a covered key's owner is known");
            }
            let (except, skipped) = set.nearest_except(key, |_| false, None);
            prop_assert_eq!(except.map_or(Id::new(me), |c| c.id), best);
            prop_assert!(!skipped);
            let (without, skipped) = set.nearest_except(key, |id| id == best, None);
            if best != Id::new(me) {
                prop_assert!(skipped && without.is_none_or(|c| c.id != best));
            }
            prop_assert_eq!(set.range().contains(key), set.covers(key) && best == Id::new(me));
        }
    }

    #[test]
    fn order_of_arrival_does_not_matter(
        me in any::<u128>(), others in prop::collection::btree_set(any::<u128>(), 0..20), half in 1usize..5,
    ) {
        // Eviction happens iff there is no room, and always of the node that is far on both sides.
        let mut others: Vec<u128> = others.into_iter().filter(|id| *id != me).collect();
        let one = leaf_set(me, half, &others);
        prop_assert_eq!(one.members().len(), others.len().min(2 * half));
        others.sort_by_key(|id| id.rotate_left(13));
        prop_assert_eq!(leaf_set(me, half, &others), one);
    }

    #[test]
    fn removals_keep_order_and_bounds(
        me in any::<u128>(), steps in prop::collection::vec((any::<bool>(), 0u128..30), 0..80), half in 1usize..5,
    ) {
        let mut set = LeafSet::new(Id::new(me), half);
        for (add, which) in steps {
            let id = Id::new(me.wrapping_add(which.wrapping_mul(u128::MAX / 31)));
            if add {
                let wanted = set.wants(id, Source::Leaf);
                let offer = set.offer(contact(id.value()), Source::Leaf);
                prop_assert_eq!(wanted, matches!(offer, Offer::Added(_)));
            } else {
                set.remove(id);
                prop_assert_eq!(set.get(id), None);
            }
            set.check_invariants();
        }
    }
}

#[test]
fn a_neighbours_leaf_set_says_which_side_its_members_are_on() {
    // Two leaves a side. We are 1000 and have lost one of them on the right.
    let mut set = leaf_set(1000, 2, &[900, 800, 1100, 1200, 5000]);
    set.remove(Id::new(1200));
    let arc = |values: &[u128]| values.iter().map(|value| contact(*value)).collect::<Vec<_>>();
    // 1100 knows both sides of us: what comes before us on its arc is our left, whatever the distances.
    let told = arc(&[900, 1000, 1300, 1 << 127]);
    assert_eq!(set.side_of(Id::new(900), Id::new(1100), &told), Source::Left);
    assert_eq!(set.side_of(Id::new(1 << 127), Id::new(1100), &told), Source::Right);
    // 800 does not reach us: all it knows lies on its own side of us.
    let told = arc(&[600, 700, 850, 860]);
    assert_eq!(set.side_of(Id::new(600), Id::new(800), &told), Source::Left);
    assert_eq!(set.side_of(Id::new(1300), Id::new(1100), &arc(&[1050, 1300])), Source::Right);
    assert_eq!(set.side_of(Id::new(5), Id::new(77), &arc(&[1300, 1400])), Source::Leaf, "nobody we know");
    assert_eq!(set.side_of(Id::new(5), Id::new(77), &[]), Source::Leaf);
    // A node past the middle of the gap extends the side it is vouched for, and only that one.
    let far = contact(3 << 126);
    assert!(!set.wants(far.id, Source::Left) && !set.wants(far.id, Source::Elsewhere));
    assert_eq!(set.offer(far, Source::Right), Offer::Added(None));
    assert_eq!(set.right().next_back(), Some(far));
    set.check_invariants();
}

#[test]
fn two_nodes_with_right_leaf_sets_have_the_same_digest() {
    let ring: Vec<u128> = (0..20).map(|n| n * 1000 + n * n).collect();
    let set = |me: usize, nodes: &[u128]| {
        let others: Vec<u128> = nodes.iter().copied().filter(|id| *id != ring[me]).collect();
        leaf_set(ring[me], 4, &others)
    };
    let digest = |me: usize, peer: usize, nodes: &[u128]| {
        set(me, nodes).digest(contact(ring[me]), Id::new(ring[peer]))
    };
    for (me, ahead) in (0..20).flat_map(|me| (1..=4).map(move |ahead| (me, ahead))) {
        let peer = (me + ahead) % 20;
        assert!(digest(me, peer, &ring).is_some());
        assert_eq!(digest(me, peer, &ring), digest(peer, me, &ring));
        // One that only one of them has makes a difference wherever both would have it, and nowhere else.
        for missing in (0..20).filter(|missing| ![me, peer].contains(missing)) {
            let rest: Vec<u128> = ring.iter().copied().filter(|id| *id != ring[missing]).collect();
            let both = set(me, &ring).get(Id::new(ring[missing])).is_some()
                && set(peer, &ring).get(Id::new(ring[missing])).is_some();
            assert_eq!(digest(me, peer, &rest) != digest(peer, me, &ring), both, "{me} {peer} {missing}");
        }
    }
    assert_eq!(digest(0, 10, &ring), None, "not a leaf");
    // A whole ring, and one that has lost a leaf.
    assert_eq!(digest(0, 1, &ring[..5]), digest(1, 0, &ring[..5]));
    let mut set = set(0, &ring);
    set.remove(Id::new(ring[1]));
    assert_eq!(set.digest(contact(ring[0]), Id::new(ring[2])), None);
}
