//! Promises: ballots that conditional writes asked for. A member takes nothing below a ballot it promised, and what it told with
//! the promise stays true until the epoch is over.

use alloc::vec::Vec;

use super::Store;
use super::coding::Shared;
use super::record::Cell;
use super::version::Version;
use super::view::Cut;
use crate::edge::Ctx;
use crate::records::{Bytes, Space, Write};

impl Store {
    /// Promises a ballot for a cell. The promise stays when a record is written under it: the record may be damaged.
    pub(super) fn make_promise(&mut self, number: u32, cell: &Cell, ballot: Version) {
        let epoch = self.slots.get(&number).map_or(0, |slot| slot.view.epoch);
        let value = [epoch.to_be_bytes(), ballot.0.to_be_bytes()].concat();
        let (key, value) = (key_of(cell), Some(value.into()));
        self.writes.push(Write { space: Space::Promises, key, value });
    }

    /// Returns the ballot promised for a cell. Promises belong to their epoch: an operation of an earlier one cannot
    /// come back.
    pub(super) fn promise(&self, number: u32, cell: &Cell, cx: &Ctx<'_>) -> Version {
        let key = key_of(cell);
        let fresh = self.writes.iter().rev().find(|write| write.space == Space::Promises && write.key == key);
        let bytes = match fresh {
            Some(write) => write.value.clone(),
            None => cx.records.read(Space::Promises, &key),
        };
        let Some(slot) = self.slots.get(&number) else { return Version::ZERO };
        let promised = bytes.map(|bytes| read(&bytes)).filter(|(epoch, _)| *epoch == slot.view.epoch);
        promised.map_or(Version::ZERO, |(_, ballot)| ballot)
    }

    /// Gives the promises of a slot to `each`: the key they are kept under, and the epoch and the ballot.
    fn each_promise(&self, number: u32, cx: &Ctx<'_>, mut each: impl FnMut(&[u8], (u64, Version))) {
        let (from, to) = Cut::of(cx.config.slots).range(number);
        for member in [0, 1] {
            // The end of the last slot is as long as a key on a disk can be.
            let key = |bytes: &[u8]| [&[member], &bytes[..bytes.len().min(16)]].concat();
            self.scan(Space::Promises, (&key(&from), &key(&to)), cx.records, &mut |key, value| {
                each(key, read(value));
                true
            });
        }
    }

    /// Says whether a ballot was promised in this epoch for a cell whose record is doubted.
    pub(super) fn has_promised_doubted(&self, number: u32, cx: &Ctx<'_>) -> bool {
        let Some(slot) = self.slots.get(&number) else { return false };
        let doubted = |cell: &Cell| slot.doubted.as_ref().is_none_or(|all| all.contains(&cell.digest()));
        let mut found = false;
        self.each_promise(number, cx, |key, (epoch, _)| {
            let cell = Cell { member: key[0] == 1, key: Shared(key[1..].into()) };
            found |= epoch == slot.view.epoch && doubted(&cell);
        });
        found
    }

    /// Drops the promises of a slot: they belong to an epoch that is over.
    pub(super) fn drop_promises(&mut self, number: u32, cx: &Ctx<'_>) {
        self.drop_old_promises(number, Version(u64::MAX), cx);
    }

    /// Drops promises of ballots below a version: the operations they were made for ended long ago.
    pub(super) fn drop_old_promises(&mut self, number: u32, before: Version, cx: &Ctx<'_>) {
        let mut keys = Vec::new();
        self.each_promise(number, cx, |key, (_, ballot)| {
            if ballot < before {
                keys.push(key.to_vec());
            }
        });
        for key in keys {
            self.writes.push(Write { space: Space::Promises, key: key.into(), value: None });
        }
    }
}

/// Where the promise for a cell is kept.
fn key_of(cell: &Cell) -> Bytes {
    [&[u8::from(cell.member)], &*cell.key.0].concat().into()
}

/// Reads a promise: its epoch and its ballot.
fn read(bytes: &[u8]) -> (u64, Version) {
    let half = |at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
    };
    (half(0), Version(half(8)))
}
