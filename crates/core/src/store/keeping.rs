//! What is on the disk, as the store sees it: records, what they add up to, and what was written since the input came.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::coding::Shared;
use super::record::{Cell, Damaged, Kind, Record};
use super::view::{Cut, Standing, Tally};
use super::{AGE_KEY, AGEING, After, PEERS_MAX, Store};
use crate::config::Config;
use crate::edge::{Ctx, Output};
use crate::id::NodeId;
use crate::records::{Records, Space, Write};
use crate::time::Time;

/// Where the tally of a slot is kept.
const TALLY: u8 = b't';
/// Where the ages of other members' disks are kept, and how often they are written down.
const AGES_KEY: &[u8] = b"ages";
const AGES_KEPT: Duration = Duration::from_secs(1);

/// Cells of a slot that are doubted one by one. If there are more, the whole slot is.
pub(super) const DOUBTED_MAX: usize = 256;

/// A tally being made.
#[derive(Default)]
struct Count {
    tally: Tally,
    damaged: Vec<u64>,
}

impl Tally {
    fn add(&mut self, record: &Record) {
        self.last = self.last.max(record.ballot());
        if record.is_tombstone() {
            self.grave = Some(self.grave.map_or(record.version(), |grave| grave.min(record.version())));
        } else if let Some(ends) = record.ends() {
            self.expiry = Some(self.expiry.map_or(ends, |expiry| expiry.min(ends)));
        }
    }
}

impl Count {
    fn add(&mut self, member: bool, key: &[u8], value: &[u8]) {
        let cell = Cell { member, key: Shared(key.into()) };
        let Ok(record) = Record::read(&cell, &value.into()) else {
            self.damaged.push(cell.digest());
            return;
        };
        self.tally.state.mix(record.sum());
        self.tally.records += 1;
        self.tally.add(&record);
    }
}

/// How far the disks of other members had come when they were last heard of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Ages {
    /// By node: which disk, and its age.
    known: BTreeMap<NodeId, (u32, u64)>,
    changed: bool,
    kept: Time,
}

impl Ages {
    /// Takes them from the disk.
    pub(super) fn read(records: &dyn Records) -> Ages {
        let bytes = records.read(Space::Meta, AGES_KEY);
        let known = bytes.and_then(|bytes| minicbor::decode::<Vec<(NodeId, u32, u64)>>(&bytes).ok());
        let known = known.into_iter().flatten().map(|(id, born, age)| (id, (born, age))).collect();
        Ages { known, changed: false, kept: Time::ZERO }
    }

    /// Returns how far this disk of a node had come; zero if it is not known.
    pub(super) fn of(&self, id: NodeId, born: u32) -> u64 {
        self.known.get(&id).filter(|(known, _)| *known == born).map_or(0, |(_, age)| *age)
    }
}

impl Store {
    /// Counts the records of a slot anew, whole ones only. Damage makes the slot doubt itself.
    pub(super) fn recount(&mut self, number: u32, records: &dyn Records, config: &Config) {
        let (from, to) = Cut::of(config.slots).range(number);
        let mut count = Count::default();
        for (space, member) in [(Space::Data, false), (Space::Members, true)] {
            self.scan(space, (&from, &to), records, &mut |key, value| {
                count.add(member, key, value);
                true
            });
        }
        self.clock.hybrid = self.clock.hybrid.max(count.tally.last);
        let Some(slot) = self.slots.get_mut(&number) else { return };
        if !count.damaged.is_empty() && slot.standing == Standing::Ready {
            self.begin_doubt(number);
        }
        let Some(slot) = self.slots.get_mut(&number) else { return };
        if let Some(doubted) = &mut slot.doubted {
            doubted.extend(count.damaged);
            doubted.sort_unstable();
            doubted.dedup();
        }
        slot.doubted.take_if(|doubted| doubted.len() > DOUBTED_MAX);
        slot.set_tally(count.tally);
        self.touched.insert(number);
    }

    /// Takes what is known of the records from the disk, or counts them if that is not there.
    pub(super) fn read_tally(&mut self, number: u32, records: &dyn Records, config: &Config) {
        let bytes = records.read(Space::Meta, &tally_key(number));
        let tally = bytes.and_then(|bytes| minicbor::decode::<Tally>(&bytes).ok());
        match (tally, self.slots.get_mut(&number)) {
            (Some(tally), Some(slot)) => {
                slot.set_tally(tally);
                self.clock.hybrid = self.clock.hybrid.max(tally.last);
            }
            _ => self.recount(number, records, config),
        }
    }

    /// Writes down what must be known of a slot after a crash.
    pub(super) fn keep(&mut self, number: u32) {
        let value = self.slots.get(&number).map(|slot| {
            let bytes = minicbor::to_vec(slot.kept()).expect("writing to memory does not fail");
            bytes.into()
        });
        let key = number.to_be_bytes();
        self.writes.push(Write { space: Space::Views, key: key.as_slice().into(), value });
    }

    /// The end of an input, whatever it made the store do: what was written is handed over, at once and once only. Until
    /// then it is here and not in the records.
    pub(crate) fn hand_over(&mut self, cx: &mut Ctx<'_>) {
        for number in core::mem::take(&mut self.touched) {
            let Some(slot) = self.slots.get(&number) else { continue };
            let value = minicbor::to_vec(slot.tally()).expect("writing to memory does not fail");
            let (key, value) = (tally_key(number).as_slice().into(), Some(value.into()));
            self.writes.push(Write { space: Space::Meta, key, value });
        }
        if self.writes.is_empty() {
            return;
        }
        // Not before others have said that this disk is as old as they knew it: they are told the age.
        let proving = matches!(self.proof, super::Proof::Wanted(_));
        if cx.now.since(self.aged) >= AGEING && !proving {
            self.aged = cx.now;
            let (key, age) = (AGE_KEY.into(), self.age + 1);
            let value = Some(age.to_be_bytes().as_slice().into());
            self.writes.push(Write { space: Space::Meta, key, value });
            self.after.push_back((self.this_ticket(), After::Age(age)));
        }
        self.keep_ages(cx.now);
        self.ticket += 1;
        let writes = core::mem::take(&mut self.writes);
        cx.out.push(Output::Persist { ticket: self.ticket, writes });
    }

    /// Another node tells how far its disk has come. `None`: which disk that is, is not known.
    pub(super) fn note_age(&mut self, id: NodeId, born: Option<u32>, age: u64) {
        if self.ages.known.len() >= PEERS_MAX && !self.ages.known.contains_key(&id) {
            // Ages of nodes that share no slot are dropped when they are written down.
            return;
        }
        let entry = self.ages.known.entry(id).or_insert((born.unwrap_or_default(), 0));
        match born {
            // What was known of another disk says nothing about this one.
            Some(born) if born != entry.0 => *entry = (born, age),
            _ if age > entry.1 => entry.1 = age,
            _ => return,
        }
        self.ages.changed = true;
    }

    /// Writes down how far the disks of other members have come, once a second. Otherwise an old copy of a disk would not
    /// be known for one after everybody was down.
    fn keep_ages(&mut self, now: Time) {
        if !self.ages.changed || now.since(self.ages.kept) < AGES_KEPT {
            return;
        }
        let members = self.slots.values().flat_map(|slot| slot.view.members.iter().map(|member| member.id));
        let members: BTreeSet<NodeId> = members.collect();
        let ages = &mut self.ages;
        (ages.changed, ages.kept) = (false, now);
        ages.known.retain(|id, _| members.contains(id));
        let known: Vec<(NodeId, u32, u64)> =
            ages.known.iter().map(|(id, (born, age))| (*id, *born, *age)).collect();
        let value = minicbor::to_vec(known).expect("writing to memory does not fail");
        self.writes.push(Write { space: Space::Meta, key: AGES_KEY.into(), value: Some(value.into()) });
    }

    /// Gives the records between two keys to `each`, in order, what was written since the input included, until it says
    /// `false`.
    pub(super) fn scan(
        &self,
        space: Space,
        (from, to): (&[u8], &[u8]),
        records: &dyn Records,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) {
        let fresh =
            self.writes.iter().filter(|write| write.space == space && (from..to).contains(&&*write.key));
        let mut fresh: BTreeMap<&[u8], Option<&[u8]>> =
            fresh.map(|write| (&*write.key, write.value.as_deref())).collect();
        if fresh.is_empty() {
            return records.scan(space, from, to, each);
        }
        let mut on = true;
        records.scan(space, from, to, &mut |key, value| {
            while on && let Some(first) = fresh.first_entry().filter(|first| *first.key() < key) {
                let (key, value) = first.remove_entry();
                on = value.is_none_or(|value| each(key, value));
            }
            on = on
                && match fresh.remove(key) {
                    Some(changed) => changed.is_none_or(|value| each(key, value)),
                    None => each(key, value),
                };
            on
        });
        for (key, value) in fresh {
            on = on && value.is_none_or(|value| each(key, value));
        }
    }

    /// Reads a cell, what was written since the input included.
    pub(super) fn held(&self, cell: &Cell, cx: &Ctx<'_>) -> Result<Option<Record>, Damaged> {
        let space = cell.space();
        let fresh = self.writes.iter().rev().find(|write| write.space == space && write.key == cell.key.0);
        let bytes = match fresh {
            Some(write) => write.value.clone(),
            None => cx.records.read(space, &cell.key.0),
        };
        bytes.map(|bytes| Record::read(cell, &bytes)).transpose()
    }

    /// Stores a record, or forgets what is there.
    pub(super) fn put(&mut self, number: u32, cell: &Cell, old: Option<&Record>, new: Option<&Record>) {
        let ticket = self.this_ticket();
        if let Some(slot) = self.slots.get_mut(&number) {
            for record in old.iter().chain(&new) {
                slot.state.mix(record.sum());
            }
            slot.records = slot.records + u32::from(new.is_some()) - u32::from(old.is_some());
            slot.agreed = 0;
            let mut tally = slot.tally();
            if let Some(new) = new {
                tally.add(new);
            }
            if let Some(old) = old.filter(|old| old.kind() == Kind::Set)
                && new.is_none_or(|new| new.kind() != Kind::Set || new.set() != old.set())
            {
                // The values of the set are garbage from now on.
                tally.expiry = Some(0);
            }
            slot.set_tally(tally);
            self.touched.insert(number);
        }
        if cell.member
            && let Some(name) = cell.name()
            && let Some(size) = self.sizes.get_mut(&Cell::of(&name))
        {
            let weigh = |record: Option<&Record>| {
                let record = record.filter(|r| r.kind() == Kind::Member && r.set() == size.set);
                record.map_or((0, 0), |record| (1, record.member_value().len() as u64))
            };
            let (before, after) = (weigh(old), weigh(new));
            size.values = (size.values + after.0).saturating_sub(before.0);
            size.bytes = (size.bytes + after.1).saturating_sub(before.1);
        }
        let value = new.map(|record| record.bytes().clone());
        self.writes.push(Write { space: cell.space(), key: cell.key.0.clone(), value });
        self.unsynced.insert(cell.clone(), ticket);
    }
}

fn tally_key(number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [TALLY, a, b, c, d]
}
