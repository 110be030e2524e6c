//! Versions: hybrid logical clock values, the one order in which writes of a key stand.

use core::fmt;
use core::str::FromStr;

/// The version of a record, and the ballot that decides it: milliseconds of wall time, 43 bits (until 2248); then a counter, 8
/// bits, that carries into the milliseconds; then a tag of the node that made it, 13 bits, so that two nodes hardly ever make
/// the same. If they do, the checksums of their records decide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

/// Bits below the milliseconds.
const FINE: u32 = 21;
/// Bits below the counter.
const TAG: u32 = 13;

impl Version {
    /// Before every version.
    pub const ZERO: Version = Version(0);

    /// Returns the lowest version of a wall time in milliseconds since 1970. Times beyond the last one, less some room for
    /// versions after it, are the last one.
    pub const fn at(wall: u64) -> Version {
        let last = (u64::MAX >> FINE) - (1 << FINE);
        Version(if wall < last { wall } else { last } << FINE)
    }

    /// Returns the wall time it was made at, or was carried to.
    pub const fn wall(self) -> u64 {
        self.0 >> FINE
    }

    /// Returns the first version after this one that a node with this tag can make.
    #[must_use]
    pub const fn next(self, tag: u16) -> Version {
        Version((((self.0 >> TAG) + 1) << TAG) | (tag as u64 & ((1 << TAG) - 1)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{:x}", self.0)
    }
}

/// Text that is not the 16 hex digits of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAVersion;

impl fmt::Display for NotAVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a version is 16 hex digits, as `get --meta` prints them")
    }
}

impl core::error::Error for NotAVersion {}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Version, NotAVersion> {
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotAVersion);
        }
        u64::from_str_radix(text, 16).map(Version).map_err(|_| NotAVersion)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn nodes_with_different_tags_never_make_the_same_version() {
        let start = Version::at(1_700_000_000_000);
        let (a, b) = (start.next(0), start.next(1));
        assert!(start < a && a < b && b < a.next(0) && b.next(0) > b);
        assert_eq!(a.wall(), 1_700_000_000_000);
    }

    #[test]
    fn no_time_is_too_late() {
        let last = Version::at(u64::MAX);
        assert!(last.next(u16::MAX) > last && last >= Version::at(7_000_000_000_000));
    }

    #[test]
    fn the_counter_carries() {
        let mut version = Version::at(5);
        for _ in 0..256 {
            let next = version.next(3);
            assert!(next > version);
            version = next;
        }
        assert_eq!(version.wall(), 6);
    }

    #[test]
    fn text_is_sixteen_hex_digits() {
        let version = Version(0x018b_cfe5_6800_0010);
        assert_eq!(version.to_string(), "018bcfe568000010");
        assert_eq!("018bcfe568000010".parse(), Ok(version));
        for bad in ["", "1", "018bcfe56800001g", "+18bcfe568000010", "018bcfe5680000100"] {
            assert_eq!(bad.parse::<Version>(), Err(NotAVersion), "{bad}");
        }
    }
}
