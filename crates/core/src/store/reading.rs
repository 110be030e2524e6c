//! Operations that read: a quorum agrees on what is there, or is made to.

use alloc::vec::Vec;

use super::Store;
use super::message::{Response, Step, Verdict};
use super::op::{Action, CopyAt, Found, Level, Listed, Name, Trouble, Value};
use super::operation::{ITEMS, Stage, Then, Writing};
use super::record::{Cell, Kind, Record};
use super::version::Version;
use super::view::Cut;
use crate::config::Safeguard;
use crate::edge::Ctx;
use crate::overlay::Routes;

impl Store {
    /// Reads a record: the value of a key, or only what kind of thing the key holds.
    pub(super) fn read(
        &mut self,
        id: u32,
        cell: Cell,
        mine: Option<Record>,
        head: bool,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        self.stage(id, Stage::Reading { cell, mine, heard: Vec::new(), head }, ring, cx);
    }

    pub(super) fn list(
        &mut self,
        id: u32,
        name: Name,
        head: Option<Record>,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(number) = self.ops.get(&id).map(|op| op.slot) else { return };
        let Ok((records, ..)) = self.set_of(&name, head, cx) else { return self.doubt(number, cx) };
        let mine = records
            .into_iter()
            .filter_map(|(cell, bytes)| Record::read(&cell, &bytes.0).ok().map(|record| (cell, record)))
            .collect();
        self.stage(id, Stage::Listing { name, mine, heard: Vec::new(), parts: Vec::new() }, ring, cx);
    }

    /// A member has told something.
    pub(super) fn heard(
        &mut self,
        id: u32,
        place: u8,
        verdict: Verdict,
        wanted: usize,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        match (&mut op.stage, verdict) {
            (Stage::Reading { cell, mine, heard, .. }, verdict) => {
                let record = match verdict {
                    Verdict::Same => Ok(mine.clone()),
                    Verdict::Holds(bytes) => bytes.map(|bytes| Record::read(cell, &bytes.0)).transpose(),
                    _ => return,
                };
                let Ok(record) = record else { return };
                if heard.iter().all(|(at, _)| *at != place) {
                    heard.push((place, record));
                }
                if heard.len() >= wanted {
                    self.agree(id, wanted, ring, cx);
                }
            }
            (Stage::Listing { name, mine, heard, parts }, verdict) => {
                let list = match verdict {
                    Verdict::Same => mine.clone(),
                    Verdict::Listed(records, more) => {
                        let last = records.last().map(|(cell, _)| cell.clone());
                        let page = records.into_iter().filter_map(|(cell, bytes)| {
                            Record::read(&cell, &bytes.0).ok().map(|record| (cell, record))
                        });
                        // Pages of one member are put together. One that comes again replaces nothing: cells are unique.
                        let at = parts.iter().position(|(at, _)| *at == place).unwrap_or_else(|| {
                            parts.push((place, Vec::new()));
                            parts.len() - 1
                        });
                        for (cell, record) in page {
                            if parts[at].1.last().is_none_or(|(last, _)| *last < cell) {
                                parts[at].1.push((cell, record));
                            }
                        }
                        if more && let Some(after) = last {
                            let cell = Cell::of(name);
                            let step = Step::List { cell, known: Default::default(), after: Some(after) };
                            return self.ask_step(id, place, step, ring, cx);
                        }
                        parts.swap_remove(at).1
                    }
                    _ => return,
                };
                if heard.iter().all(|(at, _)| *at != place) {
                    heard.push((place, list));
                }
                self.listed(id, ring, cx);
            }
            (Stage::Looking { heard, .. }, Verdict::Ranked(_, version)) => {
                if heard.iter().all(|(at, _)| *at != place) {
                    heard.push((place, version));
                }
                self.looked(id, false, ring, cx);
            }
            (Stage::Walking { heard, .. }, Verdict::Keys(keys, more)) => {
                if heard.iter().all(|(at, ..)| *at != place) {
                    heard.push((place, keys, more));
                }
                if heard.len() >= wanted {
                    self.walked(id, ring, cx);
                }
            }
            _ => {}
        }
    }

    /// Enough members have told what they have: if enough have the same, that is it; otherwise they get it first.
    fn agree(&mut self, id: u32, wanted: usize, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let Stage::Reading { cell, heard, head, .. } = &op.stage else { return };
        let highest = heard.iter().filter_map(|(_, record)| record.clone()).max_by_key(Record::rank);
        let rank = highest.as_ref().map(Record::rank);
        let have = heard.iter().filter(|(_, record)| record.as_ref().map(Record::rank) == rank);
        let have = have.fold(0u16, |all, (at, _)| all | 1 << at);
        let (cell, head) = (cell.clone(), *head);
        let live = highest.clone().filter(|record| record.is_live(self.time(cx)));
        let enough = have.count_ones() as usize >= wanted || !cx.config.rule(Safeguard::ReadRepair);
        let Some(record) = highest.filter(|_| !enough) else {
            return self.read_done(id, live, head, have.count_ones() as usize, ring, cx);
        };
        let found = match &live {
            Some(record) if record.kind() == Kind::Set && !head => {
                // Whatever is told about it, it is there.
                return self.repair(id, cell, record.clone(), have, Then::Fail(Trouble::WrongKind), ring, cx);
            }
            _ => Found::Value(live.as_ref().map(value)),
        };
        let then = match head {
            false => Then::Tell(found),
            // The set, or what took its place, is settled: try again.
            true => Then::Again,
        };
        self.repair(id, cell, record, have, then, ring, cx);
    }

    #[expect(clippy::too_many_arguments, reason = "everything that makes a repair")]
    fn repair(
        &mut self,
        id: u32,
        cell: Cell,
        record: Record,
        have: u16,
        then: Then,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let items = alloc::vec![Writing { cell, record, set: None, have, refused: 0, own: false }];
        self.stage(id, Stage::Writing { items, then }, ring, cx);
    }

    fn read_done(
        &mut self,
        id: u32,
        live: Option<Record>,
        head: bool,
        acked: usize,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(op) = self.ops.get(&id) else { return };
        let kind = live.as_ref().map(Record::kind);
        if !head {
            return match live {
                Some(record) if record.kind() == Kind::Set => self.fail(id, Trouble::WrongKind, ring, cx),
                live => self.done(id, Found::Value(live.as_ref().map(value)), acked, ring, cx),
            };
        }
        match (&op.ask.action, kind) {
            (_, Some(Kind::Value)) => self.fail(id, Trouble::WrongKind, ring, cx),
            (Action::Remove { .. }, None) => {
                let found = Found::Changed { version: Version::ZERO, created: false, number: None };
                self.done(id, found, acked, ring, cx);
            }
            // What this node had was out of date, and no longer is: a new version, a new try.
            _ => self.close(id, Response::Outdated(self.latest(cx)), ring, cx),
        }
    }

    /// Looks whether enough members have told their set.
    fn listed(&mut self, id: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let Stage::Listing { heard, name, .. } = &op.stage else { return };
        let members = self.slots.get(&op.slot).map_or(1, |slot| slot.view.members.len());
        let wanted = op.wanted(members);
        if heard.len() < wanted {
            return;
        }
        // By cell: the greatest record, and who has it.
        let mut all: alloc::collections::BTreeMap<Cell, (Record, u16)> = Default::default();
        for (place, list) in heard {
            for (cell, record) in list {
                let entry = all.entry(cell.clone()).or_insert_with(|| (record.clone(), 0));
                if record.rank() > entry.0.rank() {
                    *entry = (record.clone(), 0);
                }
                if record.rank() == entry.0.rank() {
                    entry.1 |= 1 << place;
                }
            }
        }
        let head_cell = Cell::of(name);
        let head = all.get(&head_cell).map(|(record, _)| record.clone());
        let time = self.time(cx);
        let head = head.filter(|head| head.is_live(time));
        let set = match head.as_ref().map(|head| (head.kind(), head.set())) {
            Some((Kind::Set, set)) => Some(set),
            Some(_) => return self.fail(id, Trouble::WrongKind, ring, cx),
            None => None,
        };
        let ours = |cell: &Cell, record: &Record| !cell.member || Some(record.set()) == set;
        let mut items: Vec<Writing> = Vec::new();
        for (cell, (record, have)) in &all {
            let few = (have.count_ones() as usize) < wanted && cx.config.rule(Safeguard::ReadRepair);
            if few && ours(cell, record) && items.len() < ITEMS {
                let (cell, record) = (cell.clone(), record.clone());
                items.push(Writing { cell, record, set: None, have: *have, refused: 0, own: false });
            }
        }
        let values: Vec<Value> = all
            .iter()
            .filter(|(cell, (record, _))| cell.member && ours(cell, record) && record.is_live(time))
            .map(|(_, (record, _))| Value { bytes: record.member_value().to_vec(), ..value(record) })
            .collect();
        let found = Found::Members(values);
        if items.is_empty() {
            let acked = heard.len();
            return self.done(id, found, acked, ring, cx);
        }
        // More than fit one round: the rest is found when it is read again.
        let then = if items.len() < ITEMS { Then::Tell(found) } else { Then::Again };
        self.stage(id, Stage::Writing { items, then }, ring, cx);
    }

    /// Tells where the copies are, once all have answered or it has taken long enough.
    pub(super) fn looked(&mut self, id: u32, late: bool, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let Stage::Looking { heard, .. } = &op.stage else { return };
        let Some(slot) = self.slots.get(&op.slot) else { return };
        if heard.len() < slot.view.members.len() && !late {
            return;
        }
        let copies = slot.view.members.iter().enumerate().map(|(at, member)| CopyAt {
            node: member.id,
            version: heard.iter().find(|(place, _)| usize::from(*place) == at).map(|(_, version)| *version),
        });
        let found = Found::Place { slot: op.slot, epoch: slot.view.epoch, copies: copies.collect() };
        let acked = heard.len();
        self.done(id, found, acked, ring, cx);
    }

    /// Puts the keys that members told together.
    fn walked(&mut self, id: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let Stage::Walking { heard, .. } = &op.stage else { return };
        // Beyond the end of the shortest page, somebody may have keys it did not tell.
        let reach = heard.iter().filter(|(.., more)| *more).filter_map(|(_, keys, _)| keys.last());
        let reach = reach.map(|listed| listed.name.clone()).min();
        let mut keys: Vec<Listed> = Vec::new();
        for listed in heard.iter().flat_map(|(_, keys, _)| keys) {
            if reach.as_ref().is_some_and(|reach| listed.name > *reach) {
                continue;
            }
            match keys.binary_search_by(|known| known.name.cmp(&listed.name)) {
                Ok(at) if keys[at].version < listed.version => keys[at] = listed.clone(),
                Ok(_) => {}
                Err(at) => keys.insert(at, listed.clone()),
            }
        }
        let time = self.time(cx);
        keys.retain(|listed| listed.expires.is_none_or(|ends| ends > time));
        let cut = Cut::of(cx.config.slots);
        let next = match reach {
            Some(name) => Some((name.id, name.bytes)),
            None if op.slot + 1 < cut.count() => Some((cut.start(op.slot + 1), Vec::new())),
            None => None,
        };
        let acked = heard.len();
        self.done(id, Found::Keys { keys, next }, acked, ring, cx);
    }

    /// A member is down: reads that wait for it ask the others.
    pub(super) fn retry_reads(&mut self, peer: crate::id::NodeId, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let ids: Vec<u32> = self.ops.keys().copied().collect();
        for id in ids {
            let Some(op) = self.ops.get(&id) else { continue };
            let waits = self.slots.get(&op.slot).is_some_and(|slot| slot.view.place(peer).is_some());
            if waits && op.ask.level != Level::One {
                self.ask_members(id, true, ring, cx);
            }
        }
        self.ask_lost(peer, ring, cx);
    }
}

/// Returns a record as users get it.
pub(super) fn value(record: &Record) -> Value {
    Value { bytes: record.value().to_vec(), version: record.version(), expires: record.ends() }
}
