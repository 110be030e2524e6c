//! What two states must have in common to be the same to the checker.
//!
//! Moments count relative to now, and only as far as they can matter: how long ago something was that has run out, and
//! how far ahead what lies beyond every horizon, is all the same. Nonces count by the order in which they are met: they
//! are compared with each other, never looked at.

use std::hash::Hasher;

use kringle_core::time::Time;

/// What lies farther back than any lease, time-out or span of a model lasts, in microseconds.
const PAST: i128 = 3_000_000;
/// What lies farther ahead than a model looks: periodic upkeep.
const AHEAD: i128 = 20_000_000;
/// Numbers from here on are nonces: `StillDice` starts them high, and everything that is counted stays small.
const NONCES: u32 = 1 << 20;
/// Keeps numbered nonces apart from plain numbers.
const NUMBERED: u64 = 0x6e6f_6e63_6500_0000;
/// Stands for any nonce that is not numbered yet, while the order of messages is decided.
const UNNUMBERED: u64 = NUMBERED - 1;

/// Hashes a state so that states which will behave alike have equal hashes.
pub(crate) struct Fingerprint {
    hash: u64,
    now: i128,
    nonces: Vec<u32>,
    /// Nonces met now get no number of their own.
    frozen: bool,
}

impl Fingerprint {
    pub(crate) fn at(now: Time) -> Fingerprint {
        Fingerprint {
            hash: 0x243f_6a88_85a3_08d3,
            now: now.micros().into(),
            nonces: Vec::new(),
            frozen: false,
        }
    }

    /// Hashes something by itself, with the nonces numbered so far.
    pub(crate) fn aside(&mut self, hash: impl FnOnce(&mut Fingerprint)) -> u64 {
        let before = std::mem::replace(&mut self.hash, 0);
        self.frozen = true;
        hash(self);
        self.frozen = false;
        std::mem::replace(&mut self.hash, before)
    }

    /// Multiplies and folds: every bit of the word reaches every bit of the hash.
    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.hash ^ word) * 0x9e37_79b9_7f4a_7c15_u128;
        self.hash = ((product >> 64) as u64 ^ product as u64).wrapping_add(word).rotate_left(23);
    }
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        // Once more, so that the last word is spread, too.
        let product = u128::from(self.hash ^ 0xa409_3822_299f_31d0) * 0xd6e8_feb8_6659_fd93_u128;
        (product >> 64) as u64 ^ product as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        if number < NONCES {
            return self.mix(number.into());
        }
        let known = self.nonces.iter().position(|nonce| *nonce == number);
        match known {
            Some(at) => self.mix(NUMBERED + at as u64),
            None if self.frozen => self.mix(UNNUMBERED),
            None => {
                self.mix(NUMBERED + self.nonces.len() as u64);
                self.nonces.push(number);
            }
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.mix(number as u64);
    }

    /// Only moments are hashed in this width.
    fn write_i128(&mut self, micros: i128) {
        self.mix((micros - self.now).clamp(-PAST, AHEAD) as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    fn of(now: u64, value: impl Hash) -> u64 {
        let mut hasher = Fingerprint::at(Time::from_micros(now));
        value.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn moments_count_relative_to_now() {
        let at = Time::from_micros;
        assert_eq!(of(5_000, at(6_000)), of(7_000, at(8_000)));
        assert_ne!(of(5_000, at(6_000)), of(5_000, at(6_001)));
        assert_eq!(of(9_000_000, at(1)), of(9_000_000, at(2)), "long past");
        assert_eq!(of(0, at(30_000_000)), of(0, at(u64::MAX)), "never, as far as a model looks");
    }

    #[test]
    fn nonces_count_by_what_they_are_equal_to() {
        let high = 1_u32 << 24;
        assert_eq!(of(0, (high, high + 1, high)), of(0, (high + 7, high + 3, high + 7)));
        assert_ne!(of(0, (high, high + 1, high)), of(0, (high, high + 1, high + 1)));
        assert_ne!(of(0, (1_u32, 2_u32)), of(0, (2_u32, 1_u32)));
    }
}
