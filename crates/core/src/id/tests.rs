//! The vectors of the five sources, the bugs of the originals, and a naive model for every base.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::num::NonZeroU8;

use proptest::prelude::*;

use super::*;

fn id(text: &str) -> Id {
    text.parse().unwrap()
}

fn bytes(byte: u8) -> Id {
    Id::from_bytes(&[byte; 16]).unwrap()
}

/// An id whose first hexadecimal digit is given and whose others are zero.
fn first(digit: u8) -> Id {
    Id::ZERO.with_digit(0, digit, Base::HEX).unwrap()
}

#[test]
fn node_id_text_and_bytes_vectors() {
    assert_eq!(Id::ZERO.to_string(), "0".repeat(32));
    assert_eq!(Id::MAX.to_string(), "f".repeat(32));
    assert_eq!(id("00000000000000000000000000000001").value(), 1);
    for length in [0, 15, 17] {
        assert_eq!(Id::from_bytes(&[7; 17][..length]), Err(IdError::Length { wanted: 16, found: length }));
    }
    assert_eq!(Id::from_first_bytes(&[7; 15]), Err(IdError::Length { wanted: 16, found: 15 }));
    assert_eq!(Id::from_first_bytes(&[7; 40]), Id::from_bytes(&[7; 16]));
    let counting = id("0123456789abcdeffedcba9876543210");
    let digits: Vec<u8> = (0..32).map(|at| counting.digit(at, Base::HEX).unwrap()).collect();
    let expected: Vec<u8> = (0..16).chain((0..16).rev()).collect();
    assert_eq!(digits, expected);
    assert_eq!(counting.digit(32, Base::HEX), None);
}

#[test]
fn hex_decodes_either_case_and_refuses_the_rest() {
    assert_eq!(id("6E7779707679686566786D6373797763"), id("6e7779707679686566786d6373797763"));
    assert!(matches!(Id::from_str("test"), Err(IdError::Digits { wanted: 32, found: 4 })));
    let bad = "0".repeat(31) + "g";
    assert_eq!(Id::from_str(&bad), Err(IdError::Digit { at: 31, found: 'g', base: Base::HEX }));
    assert_eq!(Id::from_str(&bad).unwrap_err().to_string(), "digit 32: 'g' is not a digit of base 16");
}

#[test]
fn side_vectors_of_wendy() {
    // Wendy's -1 is "y lies clockwise of x".
    let cases = [
        (Id::ZERO, Id::ZERO, Side::Same),
        (Id::ZERO, bytes(0x11), Side::Clockwise),
        (bytes(0x11), Id::ZERO, Side::CounterClockwise),
        (Id::ZERO, Id::MAX, Side::CounterClockwise),
        (Id::MAX, Id::ZERO, Side::Clockwise),
        (id("fffffffffffff90000f7310101010101"), id("00000000000006ffff08cefefefefeff"), Side::Clockwise),
    ];
    for (x, y, side) in cases {
        assert_eq!(x.side_of(y), side, "{x} {y}");
    }
}

#[test]
fn clockwise_and_between_vectors_of_freepastry() {
    for (a, b, expected) in
        [(0, 1, true), (1, 0, false), (0, 8, true), (8, 0, true), (0, 9, false), (9, 0, true)]
    {
        assert_eq!(first(a).side_of(first(b)) == Side::Clockwise, expected, "clockwise({a}, {b})");
    }
    assert_eq!(first(3).side_of(first(3)), Side::Same);
    let cases = [
        (0, 1, 2, true),
        (2, 1, 0, false),
        (0, 4, 2, false),
        (2, 4, 0, true),
        (15, 0, 1, true),
        (1, 0, 15, false),
        (4, 4, 7, true),
        (4, 7, 7, false),
        (4, 4, 4, false),
        (4, 5, 4, false),
    ];
    for (from, x, to, expected) in cases {
        assert_eq!(first(x).is_between(first(from), first(to)), expected, "between({from}, {x}, {to})");
    }
}

#[test]
fn distance_vectors() {
    let fd = bytes(0xfd);
    assert_eq!(fd.distance(fd.minus(2)), 2);
    assert_eq!(fd.minus(2).distance(fd), 2);
    assert_eq!(Id::ZERO.distance(Id::MAX), 1);
    assert_eq!(Id::MAX.distance(Id::ZERO), 1);
    assert_eq!(fd.distance(fd), 0);
    assert_eq!(fd.long_distance(fd), None);
    assert_eq!(Id::ZERO.long_distance(Id::MAX), Some(u128::MAX));
}

#[test]
fn distance_is_right_when_the_low_halves_are_equal() {
    // Wendy is short by 2^64 here.
    assert_eq!(Id::ZERO.distance(first(15)), 1 << 124);
    assert_eq!(first(15).distance(Id::ZERO), 1 << 124);
    assert_eq!(Id::ZERO.distance(first(8)), 1 << 127);
}

#[test]
fn shared_digit_vectors() {
    let share = |a: &str, b: &str| id(a).shared_digits(id(b), Base::HEX);
    let fd = "fd".repeat(16);
    assert_eq!(share(&fd, &("fdfddd".to_string() + &"fd".repeat(13))), 4);
    assert_eq!(share(&"df".repeat(16), &("dfdfdfaf".to_string() + &"df".repeat(12))), 6);
    assert_eq!(share(&("fdfddd".to_string() + &"fd".repeat(13)), &"df".repeat(16)), 0);
    assert_eq!(share(&fd, &fd), 32);
    let zero = "0".repeat(32);
    assert_eq!(share(&zero, &("01".to_string() + &"00".repeat(15))), 1);
    assert_eq!(share(&zero, &("00".repeat(7) + "01" + &"00".repeat(8))), 15);
    assert_eq!(Id::from_bytes(b"1000000000000000").unwrap().shared_digits(Id::ZERO, Base::HEX), 0);
}

#[test]
fn shared_digits_are_right_at_digits_10_and_26() {
    // Wendy reports 11 and 27 here.
    for at in 0..32 {
        let other = Id::MAX.with_digit(at, 0, Base::HEX).unwrap();
        assert_eq!(Id::MAX.shared_digits(other, Base::HEX), at);
    }
}

#[test]
fn closest_vectors_of_ocaml_pastry() {
    let one_first = id("01000000000000000000000000000000");
    let two_first = id("02000000000000000000000000000000");
    for (key, near, far) in [
        (Id::ZERO, Id::new(1), one_first),
        (Id::ZERO, Id::new(1), Id::new(2)),
        (Id::ZERO, one_first, two_first),
        (
            id("6e7779707679686566786d6373797763"),
            id("69707470726a69716c70627578747469"),
            id("686a676b727264646a6e656b726b6d74"),
        ),
        // The prefix of the far one is longer: the original picks it.
        (first(2), id("1fffffffffffffffffffffffffffffff"), id("2fffffffffffffffffffffffffffffff")),
        (first(5), first(4), id("6f000000000000000000000000000000")),
        // Round the end of the ring, where the original has no wrap.
        (Id::ZERO, Id::MAX, Id::new(2)),
    ] {
        assert_eq!(key.closest(near, far), near);
        assert_eq!(key.closest(far, near), near);
    }
}

#[test]
fn a_tie_goes_to_the_node_met_first_counter_clockwise() {
    assert_eq!(Id::ZERO.closest(Id::MAX, Id::new(1)), Id::MAX);
    assert_eq!(Id::ZERO.closest(Id::new(1), Id::MAX), Id::MAX);
    assert_eq!(Id::new(10).closest(Id::new(12), Id::new(8)), Id::new(8));
    // The point opposite is met the same way from both sides: it is one node, so there is no tie.
    assert_eq!(Id::ZERO.closeness(first(8)).distance(), 1 << 127);
}

#[test]
fn the_middle_belongs_to_the_node_before_it() {
    for (a, b) in [(Id::new(10), Id::new(20)), (Id::new(10), Id::new(21)), (Id::MAX, Id::new(3))] {
        let middle = a.middle_to(b);
        assert_eq!(middle.closest(a, b), a);
        assert_eq!(middle.plus(1).closest(a, b), b);
    }
}

#[test]
fn lecture_reads_bits_as_digits() {
    let bits = Id::new(0b1000_1111_1010u128 << 116);
    assert_eq!(bits.text(Base::HEX, 3), "8fa");
}

#[test]
fn reciprocal_division_is_exact_for_every_base() {
    for b in 1..=8 {
        let base = Base::new(b).unwrap();
        for bits in 0..=128 {
            assert_eq!(u32::from(base.digits_in(bits)), bits / u32::from(b), "b={b} bits={bits}");
        }
    }
    assert_eq!(Base::new(0), None);
    assert_eq!(Base::new(9), None);
}

#[test]
fn alternates_are_spread_evenly_around_the_ring() {
    let of = NonZeroU8::new(4).unwrap();
    let spread: Vec<Id> = (0..4).map(|n| first(3).alternate(n, of)).collect();
    assert_eq!(spread, [first(3), first(7), first(11), first(15)]);
    assert_eq!(first(3).alternate(4, of), first(3));
    assert_eq!(first(3).alternate(1, NonZeroU8::new(1).unwrap()), first(3));
    assert_eq!(Id::ZERO.alternate(1, NonZeroU8::new(3).unwrap()).value(), u128::MAX / 3);
}

#[test]
fn short_last_digit_takes_only_the_bits_that_are_left() {
    for (b, digits, last_values) in
        [(3, 43, 4u16), (5, 26, 8), (6, 22, 4), (7, 19, 4), (4, 32, 16), (8, 16, 256)]
    {
        let base = Base::new(b).unwrap();
        assert_eq!(base.digits(), digits);
        let last = digits - 1;
        for value in 0..last_values {
            let made = Id::ZERO.with_digit(last, value as u8, base).unwrap();
            assert_eq!(made.value(), value.into());
        }
        if last_values < 256 {
            assert_eq!(Id::ZERO.with_digit(last, last_values as u8, base), None, "b={b}");
        }
    }
}

#[test]
fn text_in_large_bases_is_dotted_and_bad_text_is_refused() {
    let base = Base::new(8).unwrap();
    assert_eq!(Id::MAX.text(base, 3), "ff.ff.ff");
    assert!(Id::parse_text("ff.f", base, 2).is_err());
    assert!(Id::parse_text("ff.+f", base, 2).is_err());
    assert!(Id::parse_text("ff", base, 2).is_err());
    assert!(Id::parse_text("ff", base, 17).is_err());
    assert!(Id::parse_text("4", Base::new(2).unwrap(), 1).is_err());
    assert!(Id::parse_text("é", Base::new(2).unwrap(), 1).is_err());
}

/// The naive model: an id as a list of 128 bits, most significant first.
fn bits_of(id: Id) -> Vec<u8> {
    (0..128).map(|i| (id.value() >> (127 - i) & 1) as u8).collect()
}

fn naive_digits(id: Id, b: u8) -> Vec<u8> {
    bits_of(id).chunks(b.into()).map(|chunk| chunk.iter().fold(0, |acc, bit| acc << 1 | bit)).collect()
}

/// Distance in a 129-bit-safe way: by walking both arcs as (borrow, value) pairs of decimal halves.
fn naive_distance(a: Id, b: Id) -> u128 {
    let (low, high) = if a.value() < b.value() { (a.value(), b.value()) } else { (b.value(), a.value()) };
    let direct = high - low;
    // The other way round is 2^128 - direct, computed without leaving u128.
    let around = if direct == 0 { 0 } else { u128::MAX - direct + 1 };
    direct.min(around)
}

fn any_id() -> impl Strategy<Value = Id> {
    prop_oneof![
        4 => any::<u128>().prop_map(Id::new),
        1 => (0u128..4).prop_map(Id::new),
        1 => (0u128..4).prop_map(|n| Id::MAX.minus(n)),
        1 => (0u32..128).prop_map(|n| Id::new(1 << n)),
    ]
}

/// A second id that shares a random number of leading bits with the first, so that long prefixes are tried.
fn any_pair() -> impl Strategy<Value = (Id, Id)> {
    (any_id(), any_id(), 0u32..=128).prop_map(|(a, b, shared)| {
        let keep = if shared == 0 { 0 } else { u128::MAX << (128 - shared) };
        (a, Id::new(a.value() & keep | b.value() & !keep))
    })
}

proptest! {
    #[test]
    fn digits_agree_with_the_naive_model_in_every_base((a, b) in any_pair(), bits in 1u8..=8) {
        let base = Base::new(bits).unwrap();
        let (da, db) = (naive_digits(a, bits), naive_digits(b, bits));
        prop_assert_eq!(da.len(), usize::from(base.digits()));
        for at in 0..base.digits() {
            prop_assert_eq!(a.digit(at, base), Some(da[usize::from(at)]));
            let changed = a.with_digit(at, db[usize::from(at)], base).unwrap();
            let mut expected = da.clone();
            expected[usize::from(at)] = db[usize::from(at)];
            prop_assert_eq!(naive_digits(changed, bits), expected);
        }
        let shared = da.iter().zip(&db).take_while(|(x, y)| x == y).count();
        prop_assert_eq!(usize::from(a.shared_digits(b, base)), shared);
        let msd = bits_of(a).iter().zip(&bits_of(b)).position(|(x, y)| x != y);
        prop_assert_eq!(a.first_differing_bit(b).map(usize::from), msd);
    }

    #[test]
    fn text_round_trips_in_every_base(a in any_id(), bits in 1u8..=8, digits in 1u8..=128) {
        let base = Base::new(bits).unwrap();
        let digits = digits.min(base.digits());
        let cut = a.text(base, digits);
        let back = Id::parse_text(&cut, base, digits).unwrap();
        prop_assert_eq!(back.text(base, digits), cut);
        prop_assert_eq!(Id::parse_text(&a.text(base, base.digits()), base, base.digits()).unwrap(), a);
    }

    #[test]
    fn distance_agrees_with_the_naive_model((a, b) in any_pair()) {
        prop_assert_eq!(a.distance(b), naive_distance(a, b));
        prop_assert_eq!(a.distance(b), b.distance(a));
        prop_assert_eq!(a.closeness(b).distance(), a.distance(b));
        let by = a.clockwise_to(b);
        prop_assert_eq!(a.plus(by), b);
        prop_assert_eq!(b.minus(by), a);
    }

    #[test]
    fn closest_is_symmetric_and_of_three_keys_two_win(a in any_id(), b in any_id(), c in any_id()) {
        prop_assert_eq!(a.closest(b, c), a.closest(c, b));
        if a != b && b != c && a != c {
            // Property of ocaml-pastry: the three answers hold exactly two distinct values. On a ring all three
            // can differ only when two of the distances are equal.
            let mut answers = [a.closest(b, c), b.closest(a, c), c.closest(a, b)];
            answers.sort();
            let distinct = 1 + usize::from(answers[0] != answers[1]) + usize::from(answers[1] != answers[2]);
            let ties = a.distance(b) == a.distance(c) || b.distance(a) == b.distance(c) || c.distance(a) == c.distance(b);
            prop_assert!(distinct == 2 || ties, "{answers:?}");
        }
    }
}
