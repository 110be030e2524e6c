//! Hashes that do not see by how far a ring is turned.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::world::place_of_half;

/// Spreads a word over all its bits.
#[inline]
pub(super) fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    let folded = (product >> 64) as u64 ^ product as u64;
    (folded ^ folded >> 29).wrapping_mul(0xa076_1d64_78bd_642f)
}

/// Hashes a value as if every id in it were `turn` places farther on a ring of `ids`.
pub(super) fn turned(value: &impl Hash, turn: u8, ids: u8) -> u64 {
    let mut hasher = Turned { hash: 0x243f_6a88_85a3_08d3, turn, ids };
    value.hash(&mut hasher);
    hasher.finish()
}

struct Turned {
    hash: u64,
    turn: u8,
    ids: u8,
}

impl Turned {
    fn add(&mut self, word: u64) {
        self.hash = mix(self.hash.rotate_left(29) ^ word).wrapping_add(word);
    }
}

impl Hasher for Turned {
    fn finish(&self) -> u64 {
        mix(self.hash)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.add(number.into());
    }

    /// Only ids are hashed in halves; the upper one says which.
    fn write_u64(&mut self, half: u64) {
        match place_of_half(half) {
            Some(at) => self.add(1 << 40 | u64::from((at + self.turn) % self.ids)),
            None => self.add(half),
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.add(number as u64);
    }
}

/// For tables whose keys are numbers.
pub(super) type Numbers = BuildHasherDefault<Number>;

/// Hashes one number.
#[derive(Default)]
pub(super) struct Number(u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = mix(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(number);
    }
}
