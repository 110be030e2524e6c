//! Ids and their arithmetic: a ring of 2^128 points, read as digits in base 2^b.
//!
//! Keys and nodes share one type and one space (as in Wendy). Two kinds of nearness are used and never mixed:
//! *prefix* nearness (how many leading digits are shared, what the routing table is built on) and *ring* nearness
//! (the shorter way round, what decides ownership). The originals got several of these functions wrong; each
//! mistake on record has a vector in the tests below.

use alloc::string::String;
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

/// A point on the ring of 2^128 ids, unsigned and big-endian.
///
/// `Ord` is the plain numeric order and exists for sorted containers. It says nothing about nearness:
/// for that use [`Id::closeness`], which knows the ring and the tie rule.
// Two u64 with 4-byte alignment: a contact is then 24 bytes and a table cell 28, without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(C, packed(4))]
pub struct Id {
    hi: u64,
    lo: u64,
}

/// The id of something that is looked up or stored.
pub type Key = Id;
/// The id of a node.
pub type NodeId = Id;

const HALF: u128 = 1 << 127;

impl Id {
    /// The point 0.
    pub const ZERO: Id = Id { hi: 0, lo: 0 };
    /// The point 2^128 - 1, the counter-clockwise neighbour of [`Id::ZERO`].
    pub const MAX: Id = Id { hi: u64::MAX, lo: u64::MAX };

    /// Makes the id with this numeric value.
    pub const fn new(value: u128) -> Id {
        Id { hi: (value >> 64) as u64, lo: value as u64 }
    }

    /// Returns the numeric value.
    pub const fn value(self) -> u128 {
        (self.hi as u128) << 64 | self.lo as u128
    }

    /// Makes an id from exactly 16 big-endian bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Id, IdError> {
        let bytes: [u8; 16] =
            bytes.try_into().map_err(|_| IdError::Length { wanted: 16, found: bytes.len() })?;
        Ok(Id::new(u128::from_be_bytes(bytes)))
    }

    /// Makes an id from the first 16 bytes of at least 16, as Wendy does: nothing is hashed.
    pub fn from_first_bytes(bytes: &[u8]) -> Result<Id, IdError> {
        Id::from_bytes(bytes.get(..16).unwrap_or(bytes))
    }

    /// Returns the 16 big-endian bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.value().to_be_bytes()
    }

    /// Steps `by` points clockwise, around the end of the ring if need be.
    pub const fn plus(self, by: u128) -> Id {
        Id::new(self.value().wrapping_add(by))
    }

    /// Steps `by` points counter-clockwise.
    pub const fn minus(self, by: u128) -> Id {
        Id::new(self.value().wrapping_sub(by))
    }

    /// Moves all bits left (towards the most significant digit), zeros coming in.
    pub const fn shifted_left(self, bits: u32) -> Id {
        Id::new(if bits < 128 { self.value() << bits } else { 0 })
    }

    /// Moves all bits right, zeros coming in.
    pub const fn shifted_right(self, bits: u32) -> Id {
        Id::new(if bits < 128 { self.value() >> bits } else { 0 })
    }

    /// Returns how far `other` is when walking clockwise only.
    pub const fn clockwise_to(self, other: Id) -> u128 {
        other.value().wrapping_sub(self.value())
    }

    /// Returns the shorter way round, which is at most 2^127.
    pub const fn distance(self, other: Id) -> u128 {
        let clockwise = self.clockwise_to(other);
        if clockwise <= HALF { clockwise } else { clockwise.wrapping_neg() }
    }

    /// Returns the longer way round, or `None` from a point to itself, where it would be the whole ring.
    pub fn long_distance(self, other: Id) -> Option<u128> {
        match self.distance(other) {
            0 => None,
            short => Some(short.wrapping_neg()),
        }
    }

    /// Says on which side of this point `other` lies. The point opposite counts as clockwise.
    pub fn side_of(self, other: Id) -> Side {
        match self.clockwise_to(other) {
            0 => Side::Same,
            d if d <= HALF => Side::Clockwise,
            _ => Side::CounterClockwise,
        }
    }

    /// Says whether this point lies on the arc that starts at `from` (included) and runs clockwise to `to` (not
    /// included). An arc with equal ends is empty; for whole rings see [`crate::range::IdRange`].
    pub fn is_between(self, from: Id, to: Id) -> bool {
        from.clockwise_to(self) < from.clockwise_to(to)
    }

    /// Returns the point half way along the clockwise arc to `other`; of the two nodes, `self` owns it.
    pub const fn middle_to(self, other: Id) -> Id {
        self.plus(self.clockwise_to(other) / 2)
    }

    /// Ranks `node` by how near it is to this key; smaller is nearer.
    ///
    /// Distances can be equal only for two nodes on opposite sides. Then the node met first going
    /// counter-clockwise from the key is nearer. The rule looks at key and ids alone, never at who asks.
    pub const fn closeness(self, node: Id) -> Closeness {
        let clockwise = self.clockwise_to(node);
        if clockwise < HALF {
            Closeness { distance: clockwise, clockwise: clockwise != 0 }
        } else {
            Closeness { distance: clockwise.wrapping_neg(), clockwise: false }
        }
    }

    /// Ranks `node` by how far after this key it comes, going clockwise.
    pub const fn followed_by(self, node: Id) -> Closeness {
        Closeness { distance: self.clockwise_to(node), clockwise: true }
    }

    /// Returns the nearer of two candidates to this key.
    pub fn closest(self, a: Id, b: Id) -> Id {
        if self.closeness(b) < self.closeness(a) { b } else { a }
    }

    /// Returns how many leading digits two ids share; equal ids share [`Base::digits`] of them.
    #[inline]
    pub const fn shared_digits(self, other: Id, base: Base) -> u8 {
        let bits = (self.value() ^ other.value()).leading_zeros();
        if bits == 128 { base.digits() } else { base.digits_in(bits) }
    }

    /// Returns digit `at`, digit 0 being the most significant, or `None` past the last digit.
    #[inline]
    pub const fn digit(self, at: u8, base: Base) -> Option<u8> {
        if at >= base.digits() {
            return None;
        }
        let (shift, width) = base.place(at);
        Some(((self.value() >> shift) & ((1 << width) - 1)) as u8)
    }

    /// Returns this id with one digit replaced: domain prefixes and stripes are made so. `None` if there is no such
    /// digit, or it cannot hold `digit`.
    pub fn with_digit(self, at: u8, digit: u8, base: Base) -> Option<Id> {
        if at >= base.digits() {
            return None;
        }
        let (shift, width) = base.place(at);
        let mask = ((1u128 << width) - 1) << shift;
        (u32::from(digit) < 1 << width).then(|| Id::new(self.value() & !mask | u128::from(digit) << shift))
    }

    /// Returns the `nth` of `of` points spread evenly around the ring, the 0th being this id.
    pub fn alternate(self, nth: u8, of: core::num::NonZeroU8) -> Id {
        let of = u128::from(of.get());
        // 2^128 / of without a 129-bit number: divide 2^128 - 1 and correct for exact divisors.
        let step = (u128::MAX / of).wrapping_add(u128::from(u128::MAX % of == of - 1));
        self.plus(step.wrapping_mul(u128::from(nth)))
    }

    /// Returns the position of the first bit in which two ids differ, 0 being the most significant.
    pub fn first_differing_bit(self, other: Id) -> Option<u8> {
        let bits = (self.value() ^ other.value()).leading_zeros();
        (bits < 128).then_some(bits as u8)
    }

    /// Writes the first `digits` digits in base 2^b: one character each up to base 32, otherwise two hexadecimal
    /// characters each, joined by dots.
    pub fn text(self, base: Base, digits: u8) -> String {
        let mut text = String::new();
        for at in 0..digits.min(base.digits()) {
            let digit = self.digit(at, base).unwrap_or(0);
            if base.bits() <= 5 {
                text.push(char::from_digit(digit.into(), 32).unwrap_or('?'));
            } else {
                if at > 0 {
                    text.push('.');
                }
                for half in [digit >> 4, digit & 15] {
                    text.push(char::from_digit(half.into(), 16).unwrap_or('?'));
                }
            }
        }
        text
    }

    /// Reads what [`Id::text`] writes: exactly `digits` digits, the rest of the id being zero.
    pub fn parse_text(text: &str, base: Base, digits: u8) -> Result<Id, IdError> {
        let mut id = Id::ZERO;
        let mut at: u8 = 0;
        let mut put = |at: u8, digit: Option<u32>, found: char| {
            let digit = digit.and_then(|d| u8::try_from(d).ok());
            id = digit.and_then(|d| id.with_digit(at, d, base)).ok_or(IdError::Digit { at, found, base })?;
            Ok::<(), IdError>(())
        };
        let wrong_length =
            || IdError::Digits { wanted: digits, found: text.chars().filter(|c| *c != '.').count() };
        if digits > base.digits() {
            return Err(IdError::TooManyDigits { wanted: digits, most: base.digits() });
        }
        if base.bits() <= 5 {
            if text.chars().count() != usize::from(digits) {
                return Err(wrong_length());
            }
            for found in text.chars() {
                put(at, found.to_digit(32), found)?;
                at += 1;
            }
        } else {
            if text.split('.').count() != usize::from(digits) {
                return Err(wrong_length());
            }
            for part in text.split('.') {
                let found = part.chars().next().unwrap_or('.');
                let plain = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
                put(at, plain.then(|| u32::from_str_radix(part, 16).ok()).flatten(), found)?;
                at += 1;
            }
        }
        Ok(id)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.value())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.value())
    }
}

impl FromStr for Id {
    type Err = IdError;

    /// Reads 32 hexadecimal digits of either case.
    fn from_str(text: &str) -> Result<Id, IdError> {
        Id::parse_text(text, Base::HEX, 32)
    }
}

/// Which way a point lies from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The two points are one.
    Same,
    /// Nearer by increasing ids; the point opposite counts here.
    Clockwise,
    /// Nearer by decreasing ids.
    CounterClockwise,
}

/// How near a node is to a key: ring distance, then the tie rule. Smaller is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closeness {
    distance: u128,
    clockwise: bool,
}

impl Closeness {
    /// Returns the ring distance alone.
    pub fn distance(self) -> u128 {
        self.distance
    }
}

impl Ord for Closeness {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.distance, self.clockwise).cmp(&(other.distance, other.clockwise))
    }
}

impl PartialOrd for Closeness {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The number base 2^b that ids are read in, b from 1 to 8.
///
/// When b does not divide 128 the last digit is short: for b = 3 there are 42 digits of three bits and one of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base(u8);

impl Base {
    /// Base 16, the papers' usual choice.
    pub const HEX: Base = Base(4);

    /// Makes base 2^b, or `None` unless b is 1 to 8.
    pub const fn new(b: u8) -> Option<Base> {
        if b >= 1 && b <= 8 { Some(Base(b)) } else { None }
    }

    /// Returns b, the bits of a whole digit.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns 2^b: how many values a whole digit has, and how many columns a routing table.
    pub const fn columns(self) -> u16 {
        1 << self.0
    }

    /// Returns how many digits an id has, the short one included; a routing table has as many rows.
    pub const fn digits(self) -> u8 {
        128u8.div_ceil(self.0)
    }

    /// Returns how many whole digits fit into `bits` leading bits. A table instead of a division: this sits in
    /// every routing decision.
    #[inline]
    const fn digits_in(self, bits: u32) -> u8 {
        // ceil(2^11 / b): exact for all bits below 129 and b up to 8, which a test checks by trying them all.
        const RECIPROCAL: [u32; 9] = [0, 2048, 1024, 683, 512, 410, 342, 293, 256];
        ((bits * RECIPROCAL[self.0 as usize]) >> 11) as u8
    }

    /// Returns where digit `at` sits: its lowest bit, and its width in bits.
    #[inline]
    const fn place(self, at: u8) -> (u32, u32) {
        let end = (at as u32 + 1) * self.0 as u32;
        if end <= 128 { (128 - end, self.0 as u32) } else { (0, self.0 as u32 - (end - 128)) }
    }
}

/// Why something is not an id. Nothing was changed; bad input is the only cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    /// The byte string has the wrong length.
    Length {
        /// How many bytes an id has.
        wanted: usize,
        /// How many there were.
        found: usize,
    },
    /// The text has the wrong number of digits.
    Digits {
        /// How many digits were asked for.
        wanted: u8,
        /// How many there were.
        found: usize,
    },
    /// More digits were asked for than an id has in this base.
    TooManyDigits {
        /// How many were asked for.
        wanted: u8,
        /// How many there are.
        most: u8,
    },
    /// A character is no digit of this base, or too large for the short last digit.
    Digit {
        /// Position of the digit, 0 being the first.
        at: u8,
        /// The character found.
        found: char,
        /// The base the text was read in.
        base: Base,
    },
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            IdError::Length { wanted, found } => write!(f, "an id has {wanted} bytes, found {found}"),
            IdError::Digits { wanted, found } => write!(f, "expected {wanted} digits, found {found}"),
            IdError::TooManyDigits { wanted, most } => {
                write!(f, "{wanted} digits asked for, an id has only {most} in this base")
            }
            IdError::Digit { at, found, base } => {
                write!(f, "digit {}: {found:?} is not a digit of base {}", u16::from(at) + 1, base.columns())
            }
        }
    }
}

impl core::error::Error for IdError {}

#[cfg(test)]
mod tests;
