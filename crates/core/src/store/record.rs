//! Records as they are stored and sent: the same bytes on every disk and every wire, with one checksum over key and
//! contents, made where the record is made and looked at wherever it is read.
//!
//! ```text
//!  0  format, 1        2  version, 8 bytes       26  the origin's number, 4 bytes    38  ballot, 8 bytes
//!  1  kind            10  origin, 16 bytes       30  end of life in ms, 8 bytes      46  flags, zero; value; 16 bytes of checksum
//! ```

use alloc::vec::Vec;

use minicbor::{Decode, Encode};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use super::coding::{Shared, Sum};
use super::op::{Digest, Name};
use super::version::Version;
use crate::id::{Id, NodeId};
use crate::records::{Bytes, Space};

const FORMAT: u8 = 1;
const HEAD: usize = 47;
const SUM: usize = 16;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A value of a key.
    Value = 1,
    /// A key without a value.
    Gone = 2,
    /// A key with a set of values; the record's value is the set's number.
    Set = 3,
    /// A value of a set: the set's number, then the value.
    Member = 4,
    /// A value that is no longer in the set of this number.
    MemberGone = 5,
}

/// Names one record: a key, or one value in the set of a key. What replicas promise and accept is per cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Cell {
    /// Whether it is a value of a set.
    #[n(0)]
    pub member: bool,
    /// Its key on the disk; begins with the id.
    #[n(1)]
    pub key: Shared,
}

impl Cell {
    /// The record of a key.
    pub fn of(name: &Name) -> Cell {
        let mut key = Vec::with_capacity(16 + name.bytes.len());
        key.extend_from_slice(&name.id.to_bytes());
        key.extend_from_slice(&name.bytes);
        Cell { member: false, key: Shared(key.into()) }
    }

    /// The record of a value of a set.
    pub fn member(name: &Name, digest: Digest) -> Cell {
        let mut key = Cell::members(name);
        key.extend_from_slice(&digest.0);
        Cell { member: true, key: Shared(key.into()) }
    }

    /// What the keys of all values of a set begin with.
    pub fn members(name: &Name) -> Vec<u8> {
        let mut key = Vec::with_capacity(36 + name.bytes.len());
        key.extend_from_slice(&name.id.to_bytes());
        key.extend_from_slice(&u32::try_from(name.bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
        key.extend_from_slice(&name.bytes);
        key
    }

    /// Returns where it is kept.
    pub fn space(&self) -> Space {
        if self.member { Space::Members } else { Space::Data }
    }

    /// Returns its place on the ring; `None` if it is malformed.
    pub fn id(&self) -> Option<Id> {
        let least = if self.member { 16 + 4 + 1 + 16 } else { 17 };
        if self.key.0.len() < least {
            return None;
        }
        Id::from_first_bytes(&self.key.0).ok()
    }

    /// Returns a short number that stands for it.
    pub(super) fn digest(&self) -> u64 {
        xxh3_64_with_seed(&self.key.0, u64::from(self.member))
    }

    /// Returns the name of the key it belongs to; `None` if it is malformed.
    pub fn name(&self) -> Option<Name> {
        let id = self.id()?;
        let bytes = if self.member {
            let length = u32::from_be_bytes(*self.key.0.get(16..)?.first_chunk::<4>()?) as usize;
            self.key.0.get(20..20usize.checked_add(length)?)?.to_vec()
        } else {
            self.key.0[16..].to_vec()
        };
        Some(Name { id, bytes })
    }
}

/// Which request made a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Origin {
    /// The node whose user asked.
    #[n(0)]
    pub node: NodeId,
    /// Its number for that.
    #[n(1)]
    pub serial: u32,
}

/// In which order records of one cell stand. What belongs to a younger set of the key counts more: a write to an earlier
/// one may have stayed half done, and must not come back. Otherwise it is the ballot; if two nodes made the same, the
/// checksum decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
pub struct Rank {
    /// The number of the set, for a value of one.
    #[n(1)]
    pub set: u64,
    /// The ballot it was last written under.
    #[n(0)]
    pub ballot: Version,
    /// The checksum.
    #[n(2)]
    pub sum: Sum,
}

/// A record that has been found whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    bytes: Bytes,
}

/// Bytes that are no record, or not the one they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Record {
    /// Makes a record.
    pub fn make(
        cell: &Cell,
        kind: Kind,
        version: Version,
        origin: Origin,
        ends: u64,
        value: &[u8],
    ) -> Record {
        Record::under(cell, kind, (version, version), origin, ends, value)
    }

    /// Makes the same record under a higher ballot. Whoever knows it by its version finds it unchanged.
    #[must_use]
    pub fn again(&self, cell: &Cell, ballot: Version) -> Record {
        let ends = self.ends().unwrap_or(0);
        Record::under(cell, self.kind(), (self.version(), ballot), self.origin(), ends, self.value())
    }

    fn under(
        cell: &Cell,
        kind: Kind,
        (version, ballot): (Version, Version),
        origin: Origin,
        ends: u64,
        value: &[u8],
    ) -> Record {
        let mut bytes = Vec::with_capacity(HEAD + value.len() + SUM);
        bytes.extend_from_slice(&[FORMAT, kind as u8]);
        bytes.extend_from_slice(&version.0.to_be_bytes());
        bytes.extend_from_slice(&origin.node.to_bytes());
        bytes.extend_from_slice(&origin.serial.to_be_bytes());
        bytes.extend_from_slice(&ends.to_be_bytes());
        bytes.extend_from_slice(&ballot.0.to_be_bytes());
        bytes.push(0);
        bytes.extend_from_slice(value);
        let sum = checksum(cell, &bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        Record { bytes: bytes.into() }
    }

    /// Reads a record, if it is whole and belongs to this cell.
    pub fn read(cell: &Cell, bytes: &Bytes) -> Result<Record, Damaged> {
        let (body, sum) = bytes.split_last_chunk::<SUM>().ok_or(Damaged)?;
        let right = body.len() >= HEAD
            && body[0] == FORMAT
            && kind_of(body[1])
                .is_some_and(|kind| matches!(kind, Kind::Member | Kind::MemberGone) == cell.member)
            && checksum(cell, body).to_be_bytes() == *sum;
        let record = Record { bytes: bytes.clone() };
        let has_number = !matches!(
            kind_of(body.get(1).copied().unwrap_or(0)),
            Some(Kind::Set | Kind::Member | Kind::MemberGone)
        );
        if right && (has_number || record.value().len() >= 8) { Ok(record) } else { Err(Damaged) }
    }

    fn number(&self, at: usize) -> u64 {
        self.bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Returns the bytes as they are stored.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns what it is.
    pub fn kind(&self) -> Kind {
        kind_of(self.bytes[1]).unwrap_or(Kind::Gone)
    }

    /// Returns its version, by which users know it.
    pub fn version(&self) -> Version {
        Version(self.number(2))
    }

    /// Returns the ballot it was last written under: its version, unless it had to be written again to make it stay.
    pub fn ballot(&self) -> Version {
        Version(self.number(38))
    }

    /// Returns its checksum.
    pub fn sum(&self) -> Sum {
        sum_of(&self.bytes)
    }

    /// Returns its place in the order of records. What is left of a value that ended stands above the value.
    pub fn rank(&self) -> Rank {
        let member = matches!(self.kind(), Kind::Member | Kind::MemberGone);
        let ended = self.is_tombstone() && self.ends().is_some();
        let sum = if ended { Sum(u128::MAX) } else { self.sum() };
        Rank { ballot: self.ballot(), set: if member { self.set() } else { 0 }, sum }
    }

    /// Says whether it stands for a deletion, or is what is left of a value that ended.
    pub fn is_tombstone(&self) -> bool {
        matches!(self.kind(), Kind::Gone | Kind::MemberGone)
    }

    /// Returns what is left of a value that ended: the same record without its bytes.
    #[must_use]
    pub fn as_tombstone(&self, cell: &Cell) -> Record {
        let set = self.set().to_be_bytes();
        let (kind, value): (Kind, &[u8]) =
            if cell.member { (Kind::MemberGone, &set) } else { (Kind::Gone, &[]) };
        let versions = (self.version(), self.ballot());
        Record::under(cell, kind, versions, self.origin(), self.ends().unwrap_or(0), value)
    }

    /// Returns which request made it.
    pub fn origin(&self) -> Origin {
        let node = Id::from_first_bytes(&self.bytes[10..]).unwrap_or_default();
        Origin { node, serial: (self.number(26) >> 32) as u32 }
    }

    /// Returns when it ends, if it does.
    pub fn ends(&self) -> Option<u64> {
        Some(self.number(30)).filter(|ends| *ends > 0)
    }

    /// Returns the value: the user's bytes, or the set's number and then the user's bytes.
    pub fn value(&self) -> &[u8] {
        &self.bytes[HEAD..self.bytes.len() - SUM]
    }

    /// Returns the number of the set it is, or is a value of.
    pub fn set(&self) -> u64 {
        self.number(HEAD)
    }

    /// Returns the user's bytes of a value of a set.
    pub fn member_value(&self) -> &[u8] {
        self.value().get(8..).unwrap_or(&[])
    }

    /// Says whether there is something here at this time. What has ended is as good as deleted.
    pub fn is_live(&self, wall: u64) -> bool {
        !self.is_tombstone() && self.ends().is_none_or(|ends| ends > wall)
    }
}

/// Says whether two nodes made the same version for different writes.
pub(super) fn is_other_write(held: &Record, record: &Record) -> bool {
    let place = |record: &Record| (record.rank().set, record.ballot());
    place(held) == place(record) && held.origin() != record.origin()
}

/// Returns the checksum a stored record carries, without looking whether it is right.
fn sum_of(bytes: &[u8]) -> Sum {
    Sum(bytes.last_chunk::<SUM>().map_or(0, |bytes| u128::from_be_bytes(*bytes)))
}

fn kind_of(byte: u8) -> Option<Kind> {
    [Kind::Value, Kind::Gone, Kind::Set, Kind::Member, Kind::MemberGone]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
}

fn checksum(cell: &Cell, body: &[u8]) -> u128 {
    xxh3_128_with_seed(body, cell.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name { id: Id::new(7), bytes: text.as_bytes().to_vec() }
    }

    fn origin() -> Origin {
        Origin { node: Id::new(9), serial: 0xdead_beef }
    }

    #[test]
    fn a_record_says_what_it_was_made_of() {
        let cell = Cell::of(&name("greeting"));
        let record = Record::make(&cell, Kind::Value, Version(77), origin(), 1234, b"hello");
        let read = Record::read(&cell, record.bytes()).expect("whole");
        assert_eq!((read.kind(), read.version(), read.origin()), (Kind::Value, Version(77), origin()));
        assert_eq!((read.ends(), read.value()), (Some(1234), b"hello".as_slice()));
        assert!(read.is_live(1233) && !read.is_live(1234));
        assert_eq!(cell.name(), Some(name("greeting")));
        let member = Cell::member(&name("greeting"), Digest([5; 16]));
        assert_eq!(member.name(), Some(name("greeting")));
    }

    #[test]
    fn of_one_add_to_two_sets_the_younger_counts() {
        let cell = Cell::member(&name("k"), Digest([1; 16]));
        for other in 0..20u64 {
            let record = |set: u64| {
                let value = [set.to_be_bytes().as_slice(), b"value"].concat();
                Record::make(&cell, Kind::Member, Version(99), origin(), 0, &value)
            };
            assert!(record(50).rank() > record(other).rank());
        }
    }

    #[test]
    fn written_again_it_is_greater_and_the_same() {
        let cell = Cell::of(&name("k"));
        let record = Record::make(&cell, Kind::Value, Version(7), origin(), 9, b"hello");
        let again = record.again(&cell, Version(8));
        assert!(again.rank() > record.rank());
        assert_eq!((again.version(), again.ballot()), (Version(7), Version(8)));
        assert_eq!((again.value(), again.origin(), again.ends()), (record.value(), origin(), Some(9)));
        assert_eq!(Record::read(&cell, again.bytes()), Ok(again.clone()));
    }

    #[test]
    fn ended_value_keeps_its_place_without_its_bytes() {
        let cell = Cell::of(&name("k"));
        for value in [b"hello".as_slice(), b"other", b"third"] {
            let record = Record::make(&cell, Kind::Value, Version(7), origin(), 9, value);
            let left = record.as_tombstone(&cell);
            assert!(left.rank() > record.rank() && left.rank().ballot == record.rank().ballot);
            assert_eq!((left.version(), left.ends(), left.value()), (Version(7), Some(9), b"".as_slice()));
            assert!(left.is_tombstone() && !left.is_live(0) && !is_other_write(&record, &left));
            assert_eq!(Record::read(&cell, left.bytes()), Ok(left.clone()));
        }
        let member = Cell::member(&name("k"), Digest([1; 16]));
        let value = [5u64.to_be_bytes().as_slice(), b"value"].concat();
        let record = Record::make(&member, Kind::Member, Version(7), origin(), 9, &value);
        assert_eq!((record.as_tombstone(&member).set(), record.as_tombstone(&member).value().len()), (5, 8));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let cell = Cell::of(&name("k"));
        let record = Record::make(&cell, Kind::Value, Version(1), origin(), 0, b"value");
        for at in 0..record.bytes().len() {
            for bit in 0..8 {
                let mut bytes = record.bytes().to_vec();
                bytes[at] ^= 1 << bit;
                assert_eq!(Record::read(&cell, &bytes.into()), Err(Damaged), "byte {at} bit {bit}");
            }
            assert_eq!(Record::read(&cell, &record.bytes()[..at].into()), Err(Damaged), "cut at {at}");
        }
    }

    #[test]
    fn a_record_of_another_key_is_not_taken_for_this_one() {
        let cell = Cell::of(&name("a"));
        let record = Record::make(&cell, Kind::Value, Version(1), origin(), 0, b"value");
        assert_eq!(Record::read(&Cell::of(&name("b")), record.bytes()), Err(Damaged));
        let member = Cell::member(&name("a"), Digest([0; 16]));
        assert_eq!(Record::read(&member, record.bytes()), Err(Damaged));
    }
}
