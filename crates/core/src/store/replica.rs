//! One step of an operation at one member of a view: promise, accept, tell.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::coding::{Shared, Sum};
use super::message::{Message, Packet, Step, Verdict};
use super::op::{Listed, Name};
use super::record::{Cell, Damaged, Kind, Rank, Record, is_other_write};
use super::version::Version;
use super::view::{Cut, Standing};
use super::{After, SetSize, Store};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::Ctx;
use crate::id::Id;
use crate::message::Body;
use crate::records::Space;

/// Bytes of records one answer may have.
pub(super) const ANSWER_MAX: usize = 512 * 1024;
/// Keys one answer may have.
pub(super) const KEYS_MAX: u32 = 1000;
/// Sets whose size is remembered.
const SIZES_MAX: usize = 256;

/// The records that make up a set, the key's own first; their sum; their bytes.
type Set = (Vec<(Cell, Shared)>, Sum, usize);

impl Store {
    /// A coordinator wants a step done here.
    pub(super) fn on_do(
        &mut self,
        from: Contact,
        nonce: u32,
        slot: u32,
        epoch: u64,
        step: Step,
        cx: &mut Ctx<'_>,
    ) {
        let (verdict, wait) = self.perform(slot, epoch, &step, cx);
        if let Verdict::WrongView(mine) = verdict
            && mine < epoch
        {
            self.word(from.id, slot, super::Word::Seek { epoch: mine });
        }
        let message = Message::Did { nonce, verdict, age: self.age };
        if wait > self.durable {
            self.after.push_back((wait, After::Tell(from, Box::new(message))));
        } else {
            cx.send(from, Body::Store(Box::new(Packet { message, contacts: Vec::new() })));
        }
    }

    /// Does a step. Returns what came of it, and the ticket that must be durable before that is told.
    pub(super) fn perform(
        &mut self,
        number: u32,
        epoch: u64,
        step: &Step,
        cx: &mut Ctx<'_>,
    ) -> (Verdict, u64) {
        self.step(number, epoch, step, true, cx)
    }

    /// Says what would come of a step, and stores nothing.
    pub(super) fn check_step(
        &mut self,
        number: u32,
        epoch: u64,
        step: &Step,
        cx: &mut Ctx<'_>,
    ) -> (Verdict, u64) {
        self.step(number, epoch, step, false, cx)
    }

    fn step(
        &mut self,
        number: u32,
        epoch: u64,
        step: &Step,
        store: bool,
        cx: &mut Ctx<'_>,
    ) -> (Verdict, u64) {
        let Some(slot) = self.slots.get(&number) else { return (Verdict::WrongView(0), 0) };
        if slot.view.epoch != epoch || slot.standing == Standing::Outside {
            return (Verdict::WrongView(slot.view.epoch), 0);
        }
        if !self.is_proved(slot) {
            return (Verdict::NotReady, 0);
        }
        let frozen = slot.promised.is_some() && cx.config.rule(Safeguard::Freeze);
        let behind = !slot.is_ready() && cx.config.rule(Safeguard::CatchUp);
        if frozen || behind {
            return (Verdict::NotReady, 0);
        }
        let cell = match step {
            Step::Accept { cell, .. }
            | Step::Prepare { cell, .. }
            | Step::Read { cell, .. }
            | Step::List { cell, .. } => cell,
            Step::Keys { after, limit } => {
                let wait = self.unsynced.values().max().copied().unwrap_or(0);
                return (self.keys(number, after, *limit, cx), wait);
            }
        };
        if cell.id().is_none_or(|id| Cut::of(cx.config.slots).slot(id) != number) || cell.name().is_none() {
            return (Verdict::Malformed, 0);
        }
        let Ok(held) = self.held(cell, cx) else {
            self.doubt(number, cx);
            return (Verdict::NotReady, 0);
        };
        let settled = match cx.config.rule(Safeguard::SyncFirst) {
            true => self.unsynced.get(cell).copied().unwrap_or(0),
            false => 0,
        };
        match step {
            Step::Accept { record, set, agreed, .. } => {
                self.accept(number, cell, (record, set.map(|set| (set, *agreed))), held, store, cx)
            }
            Step::Prepare { ballot, .. } => self.prepare(number, cell, *ballot, held, cx),
            Step::Read { known, brief, .. } => {
                let rank = held.as_ref().map_or(Rank::default(), Record::rank);
                let version = held.as_ref().map_or(Version::ZERO, Record::version);
                let verdict = match (rank == *known, brief) {
                    (true, false) => Verdict::Same,
                    (false, false) => Verdict::Holds(held.map(|record| Shared(record.bytes().clone()))),
                    (_, true) => Verdict::Ranked(rank, version),
                };
                (verdict, settled)
            }
            Step::List { known, after, .. } => {
                let Some(name) = cell.name() else { return (Verdict::Malformed, 0) };
                let Ok((mut records, sum, _)) = self.set_of(&name, held, cx) else {
                    self.doubt(number, cx);
                    return (Verdict::NotReady, 0);
                };
                let newest = self.unsynced.iter().filter(|(cell, _)| cell.name().as_ref() == Some(&name));
                let wait = newest.map(|(_, ticket)| *ticket).max().unwrap_or(0);
                if sum == *known && after.is_none() {
                    return (Verdict::Same, wait);
                }
                if let Some(after) = after {
                    records.retain(|(cell, _)| cell > after);
                }
                // As many as fit one answer; the coordinator asks for the rest.
                let mut bytes = 0;
                let fits = records.iter().take_while(|(cell, record)| {
                    bytes += cell.key.0.len() + record.0.len();
                    bytes <= ANSWER_MAX
                });
                let fits = fits.count().max(1);
                let more = records.len() > fits;
                records.truncate(fits);
                (Verdict::Listed(records, more), wait)
            }
            Step::Keys { .. } => (Verdict::Malformed, 0),
        }
    }

    fn accept(
        &mut self,
        number: u32,
        cell: &Cell,
        (record, set): (&Shared, Option<(u64, Option<Version>)>),
        held: Option<Record>,
        store: bool,
        cx: &mut Ctx<'_>,
    ) -> (Verdict, u64) {
        let Ok(record) = Record::read(cell, &record.0) else { return (Verdict::Malformed, 0) };
        if !self.is_admissible(record.ballot(), cx) && cx.config.rule(Safeguard::ClockAhead) {
            return (Verdict::Ahead, 0);
        }
        let sync = cx.config.rule(Safeguard::SyncFirst);
        let mut unsynced = self.unsynced.get(cell).copied();
        if let Some((set, agreed)) = set {
            let Some(name) = cell.name() else { return (Verdict::Malformed, 0) };
            let head_cell = Cell::of(&name);
            let Ok(head) = self.held(&head_cell, cx) else {
                self.doubt(number, cx);
                return (Verdict::NotReady, 0);
            };
            // What is added must not only be in the same set: a quorum that has both the value and the ballot is what a delete
            // from before can not get past.
            let is_it = |head: &Record| head.kind() == Kind::Set && head.set() == set;
            let is_agreed = |head: &Record| agreed.is_none_or(|ballot| head.ballot() == ballot);
            if !head.as_ref().is_some_and(|head| is_it(head) && is_agreed(head)) {
                return (Verdict::OtherSet(head.map(|head| Shared(head.bytes().clone()))), 0);
            }
            unsynced = unsynced.max(self.unsynced.get(&head_cell).copied());
        }
        let rank = held.as_ref().map_or(Rank::default(), Record::rank);
        if rank == record.rank() {
            return (Verdict::Taken, if sync { unsynced.unwrap_or(0) } else { 0 });
        }
        // Not before it is clear that the record is not there already: it may be asked for twice.
        let same = |held: &Record| held.version() == record.version() && held.kind() == record.kind();
        if !self.room && !record.is_tombstone() && !held.as_ref().is_some_and(same) {
            return (Verdict::NoSpace, 0);
        }
        let promised = self.promise(number, cell, cx);
        let bound = if cx.config.rule(Safeguard::Promises) { promised } else { Version::ZERO };
        // Two nodes may have made the same version: only the first write under it counts.
        let other = held.as_ref().is_some_and(|held| is_other_write(held, &record));
        if record.ballot() < bound || record.rank() < rank || other {
            return (Verdict::Refused(promised.max(rank.ballot)), 0);
        }
        if !store {
            return (Verdict::Taken, 0);
        }
        self.raise(record.ballot(), cx);
        self.put(number, cell, held.as_ref(), Some(&record));
        (Verdict::Taken, if sync { self.this_ticket() } else { 0 })
    }

    fn prepare(
        &mut self,
        number: u32,
        cell: &Cell,
        ballot: Version,
        held: Option<Record>,
        cx: &mut Ctx<'_>,
    ) -> (Verdict, u64) {
        if !self.is_admissible(ballot, cx) {
            return (Verdict::Ahead, 0);
        }
        let greatest =
            self.promise(number, cell, cx).max(held.as_ref().map_or(Version::ZERO, Record::ballot));
        if ballot <= greatest {
            return (Verdict::Refused(greatest), 0);
        }
        self.make_promise(number, cell, ballot);
        (Verdict::Promised(held.map(|record| Shared(record.bytes().clone()))), self.this_ticket())
    }

    /// Returns the records that make up the set of a key, the key's own first; their sum; their bytes.
    pub(super) fn set_of(&self, name: &Name, head: Option<Record>, cx: &Ctx<'_>) -> Result<Set, Damaged> {
        let (mut records, mut sum, mut bytes) = (Vec::new(), Sum::default(), 0);
        let Some(head) = head else { return Ok((records, sum, bytes)) };
        sum.mix(head.sum());
        records.push((Cell::of(name), Shared(head.bytes().clone())));
        if head.kind() != Kind::Set {
            return Ok((records, sum, bytes));
        }
        self.each_member(name, cx, |cell, record| {
            if record.set() == head.set() {
                sum.mix(record.sum());
                bytes += record.bytes().len() + cell.key.0.len();
                records.push((cell, Shared(record.bytes().clone())));
            }
        })?;
        Ok((records, sum, bytes))
    }

    /// Gives the records of all values of a key to `each`. Says whether all of them are whole.
    fn each_member(
        &self,
        name: &Name,
        cx: &Ctx<'_>,
        mut each: impl FnMut(Cell, Record),
    ) -> Result<(), Damaged> {
        let from = Cell::members(name);
        let mut to = from.clone();
        to.extend_from_slice(&[0xff; 17]);
        let mut whole = Ok(());
        self.scan(Space::Members, (&from, &to), cx.records, &mut |key, value| {
            let cell = Cell { member: true, key: Shared(key.into()) };
            match Record::read(&cell, &value.into()) {
                Ok(record) => each(cell, record),
                Err(damaged) => whole = Err(damaged),
            }
            whole.is_ok()
        });
        whole
    }

    /// Returns how large a set is here.
    pub(super) fn set_size(&mut self, name: &Name, set: u64, cx: &Ctx<'_>) -> (u32, u64) {
        let head = Cell::of(name);
        if let Some(size) = self.sizes.get(&head)
            && size.set == set
        {
            return (size.values, size.bytes);
        }
        let (mut values, mut bytes) = (0, 0);
        // What is damaged is found when it is read; for a limit it does not matter.
        let _ = self.each_member(name, cx, |_, record| {
            if record.set() == set && record.kind() == Kind::Member {
                values += 1;
                bytes += record.member_value().len() as u64;
            }
        });
        if self.sizes.len() >= SIZES_MAX {
            self.sizes.pop_first();
        }
        self.sizes.insert(head, SetSize { set, values, bytes });
        (values, bytes)
    }

    fn keys(&self, number: u32, after: &Cell, limit: u32, cx: &Ctx<'_>) -> Verdict {
        let (start, end) = Cut::of(cx.config.slots).range(number);
        let mut from = after.key.0.to_vec();
        // The next key there can be.
        from.push(0);
        let from = from.max(start);
        let limit = limit.clamp(1, KEYS_MAX) as usize;
        let (mut keys, mut more, mut bytes) = (Vec::new(), false, 0);
        self.scan(Space::Data, (&from, &end), cx.records, &mut |key, value| {
            let cell = Cell { member: false, key: Shared(key.into()) };
            let (Ok(record), Some(id)) = (Record::read(&cell, &value.into()), Id::from_first_bytes(key).ok())
            else {
                return true;
            };
            if keys.len() == limit || bytes > ANSWER_MAX {
                more = true;
                return false;
            }
            bytes += key.len() + 40;
            keys.push(Listed {
                name: Name { id, bytes: key[16..].to_vec() },
                version: record.version(),
                is_set: record.kind() == Kind::Set,
                // A key without a value is told too: another member may have an older record of it.
                expires: if record.kind() == Kind::Gone { Some(0) } else { record.ends() },
            });
            true
        });
        Verdict::Keys(keys, more)
    }
}
