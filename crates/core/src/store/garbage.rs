//! Garbage collection: tombstones, values that ended, values of deleted sets, promises of past epochs, and records of slots
//! this node no longer holds.
//!
//! What members drop, they drop together: the first member of a view, once all have said that they have the very same state,
//! tells them up to which version and which time. So copies stay equal, and nothing that one has dropped comes back from
//! another.

use alloc::vec::Vec;
use core::time::Duration;

use super::Store;
use super::coding::{Shared, Sum};
use super::message::Word;
use super::record::{Cell, Kind, Record};
use super::version::Version;
use super::view::{Cut, Slot, Standing};
use crate::edge::Ctx;
use crate::id::NodeId;
use crate::records::Space;

/// How long a slot this node does not hold is kept at least.
const KEPT: Duration = Duration::from_secs(30);

/// What becomes of a record that garbage collection looks at.
enum Fate {
    Stays,
    /// Its bytes go, a tombstone stays.
    Shrinks,
    Goes,
}

impl Store {
    /// Returns up to which version tombstones are dropped, and up to which time values that ended are: some time ago, so
    /// that members whose clocks differ a little drop the same.
    fn garbage_bounds(&self, cx: &Ctx<'_>) -> (Version, u64) {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let time = self.time(cx);
        let before = Version::at(time.saturating_sub(millis(cx.config.tombstone_age)));
        (before, time.saturating_sub(millis(cx.config.clock_ahead)))
    }

    /// Lets all members of a slot drop garbage, if all have the same state.
    pub(super) fn collect(&mut self, number: u32, cx: &mut Ctx<'_>) {
        let (before, expired) = self.garbage_bounds(cx);
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let others = (0..slot.view.members.len()).filter(|at| slot.view.members[*at] != self.me);
        let everyone = others.fold(0u16, |all, at| all | 1 << at);
        let due = slot.grave.is_some_and(|grave| grave < before)
            || slot.expiry.is_some_and(|expiry| expiry <= expired);
        if !due || slot.agreed & everyone != everyone || !self.time.is_settled() {
            return;
        }
        slot.agreed = 0;
        let (epoch, state, members) = (slot.view.epoch, slot.state, slot.view.members.clone());
        for member in members {
            self.word(member.id, number, Word::Collect { epoch, state, before, expired });
        }
    }

    /// Drops garbage, together with the other members.
    pub(super) fn on_collect(
        &mut self,
        number: u32,
        state: Sum,
        (before, expired): (Version, u64),
        cx: &mut Ctx<'_>,
    ) {
        let time = self.time(cx);
        let age = u64::try_from(cx.config.tombstone_age.as_millis()).unwrap_or(u64::MAX);
        // One member with a clock ahead must not make the others drop what is not over.
        let before = before.min(Version::at(time.saturating_sub(age)));
        let serves = |slot: &Slot| slot.serves() && slot.state == state;
        if expired > time || !self.knows_time() || !self.slots.get(&number).is_some_and(serves) {
            return;
        }
        let mut changed: Vec<(Cell, Record, Option<Record>)> = Vec::new();
        let (mut grave, mut expiry): (Option<Version>, Option<u64>) = (None, None);
        let (from, to) = Cut::of(cx.config.slots).range(number);
        let mut damaged = false;
        for (space, member) in [(Space::Data, false), (Space::Members, true)] {
            // The set that the values read last belong to.
            let mut head: Option<(Cell, Option<u64>)> = None;
            self.scan(space, (&from, &to), cx.records, &mut |key, value| {
                let cell = Cell { member, key: Shared(key.into()) };
                let Ok(record) = Record::read(&cell, &value.into()) else {
                    damaged = true;
                    return false;
                };
                let orphan = member
                    && cell.name().is_some_and(|name| {
                        let of = Cell::of(&name);
                        if head.as_ref().is_none_or(|(cell, _)| *cell != of) {
                            let record = self.held(&of, cx);
                            damaged |= record.is_err();
                            let live = record.ok().flatten();
                            let live = live.filter(|head| head.kind() == Kind::Set && head.is_live(expired));
                            head = Some((of, live.map(|head| head.set())));
                        }
                        head.as_ref().is_none_or(|(_, set)| *set != Some(record.set()))
                    });
                let fate = match record.is_live(expired) {
                    _ if orphan => Fate::Goes,
                    false if record.version() < before => Fate::Goes,
                    false if !record.is_tombstone() => Fate::Shrinks,
                    _ => Fate::Stays,
                };
                match fate {
                    Fate::Goes => changed.push((cell, record, None)),
                    Fate::Shrinks => {
                        let tombstone = record.as_tombstone(&cell);
                        grave = Some(grave.map_or(record.version(), |grave| grave.min(record.version())));
                        changed.push((cell, record, Some(tombstone)));
                    }
                    Fate::Stays if record.is_tombstone() => {
                        grave = Some(grave.map_or(record.version(), |grave| grave.min(record.version())));
                    }
                    Fate::Stays => {
                        if let Some(ends) = record.ends() {
                            expiry = Some(expiry.map_or(ends, |expiry| expiry.min(ends)));
                        }
                    }
                }
                true
            });
        }
        if damaged {
            // What belongs to a record that can not be read is no garbage.
            return self.doubt(number, cx);
        }
        for (cell, old, new) in changed {
            self.put(number, &cell, Some(&old), new.as_ref());
        }
        if let Some(slot) = self.slots.get_mut(&number) {
            (slot.grave, slot.expiry) = (grave, expiry);
        }
        self.drop_old_promises(number, before, cx);
    }

    /// Asks whether what this node no longer holds may be forgotten.
    pub(super) fn forget_what_is_old(&mut self, cx: &mut Ctx<'_>) {
        let outside: Vec<u32> = self
            .slots
            .iter()
            .filter(|(number, slot)| slot.records > 0 || self.learnt.contains_key(number))
            .filter(|(_, slot)| slot.standing == Standing::Outside && cx.now.since(slot.since) > KEPT)
            .map(|(number, _)| *number)
            .collect();
        for number in outside {
            self.ask_to_forget(number);
        }
    }

    /// Asks the members of a slot whether they can do without this node's copy.
    pub(super) fn ask_to_forget(&mut self, number: u32) {
        let Some(slot) = self.slots.get(&number) else { return };
        let epoch = slot.view.epoch;
        let answered = |place: usize| self.leaving.is_some() && slot.safe & 1 << place != 0;
        let members = slot.view.members.iter().map(|member| member.id).enumerate();
        let members = members.filter(|(place, id)| *id != self.me.id && !answered(*place));
        let members: Vec<NodeId> = members.map(|(_, id)| id).collect();
        for member in members {
            self.word(member, number, Word::Forget { epoch });
        }
    }

    pub(super) fn on_forget(&mut self, from: NodeId, number: u32, epoch: u64) {
        let Some(slot) = self.slots.get(&number) else { return };
        if slot.view.place(from).is_some() && slot.view.epoch >= epoch && slot.learner.is_none() {
            // Not as this one knows it.
            self.tell_view(from, number);
        } else if slot.view.epoch == epoch && slot.serves() {
            self.word(from, number, Word::Safe { epoch });
        } else if slot.view.epoch == epoch && slot.standing == Standing::Behind {
            self.former.insert(number, from);
        } else if slot.view.epoch > epoch {
            self.tell_view(from, number);
        }
    }

    /// A member has caught up with an epoch this node is not in: once more than half have, its copy is one too many. The
    /// epoch itself is never forgotten: somebody who slept since an earlier one may come and say that this node is a
    /// member of that.
    pub(super) fn on_safe(&mut self, from: NodeId, number: u32, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(place) = slot.view.place(from).filter(|_| slot.standing == Standing::Outside) else {
            return;
        };
        if self.leaving.is_some() {
            // What becomes of the disk is for its owner to say.
            return self.released(number, place, cx.now);
        }
        slot.safe |= 1 << place;
        if (slot.safe.count_ones() as usize) < slot.view.quorum() || self.learners.contains_key(&number) {
            return;
        }
        let mut cells = Vec::new();
        let (from, to) = Cut::of(cx.config.slots).range(number);
        for (space, member) in [(Space::Data, false), (Space::Members, true)] {
            self.scan(space, (&from, &to), cx.records, &mut |key, _| {
                cells.push(Cell { member, key: Shared(key.into()) });
                true
            });
        }
        for cell in cells {
            self.put(number, &cell, None, None);
        }
        self.recount(number, cx.records, cx.config);
        self.learnt.remove(&number);
        self.unsettled.remove(&number);
        self.to_pull.remove(&number);
    }
}
