//! Arcs of the ring: what a node answers for, and the set algebra that hand-over and repair need.

use alloc::vec::Vec;

use crate::id::{Id, Key};

/// A part of the ring that is one piece: nothing, everything, or an arc.
///
/// Equal ends cannot say whether nothing or everything is meant, so both have names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdRange {
    /// No point.
    Empty,
    /// Every point.
    Full,
    /// The points from `start` (included) clockwise to `end` (not included); the two differ.
    Arc {
        /// The first point.
        start: Id,
        /// The point after the last.
        end: Id,
    },
}

impl IdRange {
    /// Makes the arc from `start` to `end`; equal ends make the empty range.
    pub fn arc(start: Id, end: Id) -> IdRange {
        if start == end { IdRange::Empty } else { IdRange::Arc { start, end } }
    }

    /// Says whether a point lies in the range.
    pub fn contains(self, key: Key) -> bool {
        match self {
            IdRange::Empty => false,
            IdRange::Full => true,
            IdRange::Arc { start, end } => key.is_between(start, end),
        }
    }

    /// Returns the part of the whole ring this is, from 0 to 1. For people, not for decisions.
    pub fn share(self) -> f64 {
        match self {
            IdRange::Empty => 0.0,
            IdRange::Full => 1.0,
            IdRange::Arc { start, end } => start.clockwise_to(end) as f64 / RING_SIZE,
        }
    }

    /// Returns everything that is not in the range.
    pub fn complement(self) -> IdRange {
        match self {
            IdRange::Empty => IdRange::Full,
            IdRange::Full => IdRange::Empty,
            IdRange::Arc { start, end } => IdRange::Arc { start: end, end: start },
        }
    }

    /// Returns what two ranges have in common: up to two pieces, since two arcs can meet at both ends.
    pub fn intersect(self, other: IdRange) -> Vec<IdRange> {
        match (self, other) {
            (IdRange::Empty, _) | (_, IdRange::Empty) => Vec::new(),
            (IdRange::Full, range) | (range, IdRange::Full) => alloc::vec![range],
            (IdRange::Arc { start: a, end: b }, IdRange::Arc { start: c, end: d }) => {
                if a == c {
                    let end = if a.clockwise_to(b) < a.clockwise_to(d) { b } else { d };
                    return alloc::vec![IdRange::arc(a, end)];
                }
                let mut pieces = Vec::new();
                // A common piece starts where one arc starts inside the other, and ends at the first end after it.
                for start in [a, c] {
                    if self.contains(start) && other.contains(start) {
                        let end = if start.clockwise_to(b) < start.clockwise_to(d) { b } else { d };
                        pieces.push(IdRange::arc(start, end));
                    }
                }
                pieces
            }
        }
    }

    /// Returns what is in this range and not in the other: up to two pieces.
    pub fn subtract(self, other: IdRange) -> Vec<IdRange> {
        self.intersect(other.complement())
    }

    /// Returns the pieces that are in exactly one of the two.
    pub fn differ(self, other: IdRange) -> Vec<IdRange> {
        let mut pieces = self.subtract(other);
        pieces.extend(other.subtract(self));
        pieces
    }

    /// Returns the union if it is one piece, which it is when the ranges overlap or touch.
    pub fn merge(self, other: IdRange) -> Option<IdRange> {
        match (self, other) {
            (IdRange::Empty, range) | (range, IdRange::Empty) => Some(range),
            (IdRange::Full, _) | (_, IdRange::Full) => Some(IdRange::Full),
            (IdRange::Arc { start: a, end: b }, IdRange::Arc { start: c, end: d }) => {
                let rest = self.complement().subtract(other);
                match rest.as_slice() {
                    [] => Some(IdRange::Full),
                    [one] => Some(one.complement()),
                    _ => {
                        debug_assert!(a != c && b != d, "two gaps need two separate arcs");
                        None
                    }
                }
            }
        }
    }

    /// Splits the range in the middle into its counter-clockwise and its clockwise half.
    pub fn halves(self) -> (IdRange, IdRange) {
        match self {
            IdRange::Empty => (IdRange::Empty, IdRange::Empty),
            IdRange::Full => {
                let opposite = Id::new(1 << 127);
                (IdRange::arc(Id::ZERO, opposite), IdRange::arc(opposite, Id::ZERO))
            }
            IdRange::Arc { start, end } => {
                let middle = start.middle_to(end);
                (IdRange::arc(start, middle), IdRange::arc(middle, end))
            }
        }
    }
}

/// 2^128, exactly representable; the core has no floating-point functions.
const RING_SIZE: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arc(start: u128, end: u128) -> IdRange {
        IdRange::arc(Id::new(start), Id::new(end))
    }

    #[test]
    fn ranges_overlap_across_zero() {
        // FreePastry's C0..40 and E0..20, placed in the last byte of a ring that wraps at 2^128.
        let wide = IdRange::arc(Id::ZERO.minus(0x40), Id::new(0x40));
        let narrow = IdRange::arc(Id::ZERO.minus(0x20), Id::new(0x20));
        assert_eq!(wide.intersect(narrow), [narrow]);
        assert_eq!(wide.merge(narrow), Some(wide));
        assert_eq!(wide.subtract(narrow).len(), 2);
        assert!(narrow.subtract(wide).is_empty());
    }

    #[test]
    fn two_arcs_can_meet_at_both_ends() {
        let (a, b) = (arc(0, 100), IdRange::arc(Id::new(90), Id::new(10)));
        assert_eq!(a.intersect(b).len(), 2);
        assert_eq!(a.merge(b), Some(IdRange::Full));
        assert_eq!(arc(0, 10).merge(arc(20, 30)), None);
        assert_eq!(arc(0, 10).merge(arc(10, 30)), Some(arc(0, 30)));
        assert_eq!(arc(0, 10).differ(arc(5, 15)).len(), 2);
    }

    #[test]
    fn empty_and_full_are_told_apart() {
        assert_eq!(IdRange::arc(Id::ZERO, Id::ZERO), IdRange::Empty);
        assert_eq!(IdRange::Empty.complement(), IdRange::Full);
        assert_eq!(IdRange::Full.share(), 1.0);
        assert_eq!(IdRange::Full.halves().0.share(), 0.5);
        assert_eq!(arc(4, 8).halves(), (arc(4, 6), arc(6, 8)));
    }

    fn small_range() -> impl Strategy<Value = IdRange> {
        // Sixteen possible ends make every way two arcs can lie to each other common.
        (0u8..18, 0u8..16).prop_map(|(start, end)| match start {
            16 => IdRange::Empty,
            17 => IdRange::Full,
            start => arc(u128::from(start) << 124, u128::from(end) << 124),
        })
    }

    proptest! {
        #[test]
        fn set_algebra_agrees_with_membership(a in small_range(), b in small_range()) {
            for point in 0..16u128 {
                let point = Id::new(point << 124);
                let (in_a, in_b) = (a.contains(point), b.contains(point));
                let count = |pieces: &[IdRange]| pieces.iter().filter(|piece| piece.contains(point)).count();
                prop_assert_eq!(count(&a.intersect(b)), usize::from(in_a && in_b));
                prop_assert_eq!(count(&a.subtract(b)), usize::from(in_a && !in_b));
                prop_assert_eq!(count(&a.differ(b)), usize::from(in_a != in_b));
                prop_assert_eq!(a.complement().contains(point), !in_a);
                if let Some(union) = a.merge(b) {
                    prop_assert_eq!(union.contains(point), in_a || in_b);
                }
                let (first, second) = a.halves();
                prop_assert_eq!(count(&[first, second]), usize::from(in_a));
            }
        }
    }
}
