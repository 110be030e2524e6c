//! How records of a slot get from one node to another: whoever lacks them pulls.
//!
//! The puller says what it has, by sums over parts of the slot; the source sends the parts that differ. Either the puller
//! then has exactly what the source has, or the greater record of both for every cell.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::Store;
use super::coding::{Shared, Sum};
use super::message::{Message, Packet, Step, Word};
use super::record::{Cell, Record};
use super::view::{Ballot, Cut, PARTS, Slot, Standing};
use crate::contact::Contact;
use crate::edge::Ctx;
use crate::id::{Id, NodeId};
use crate::message::Body;
use crate::overlay::Routes;
use crate::records::{Records, Space};
use crate::time::Time;

/// Slots pulled at the same time. The first page of each is small, so that many small slots take few round trips.
const ABREAST: usize = 256;
/// Of these, those of which more than the first page is wanted.
const LARGE: usize = 32;
/// Bytes of records one page has, about; and the first page of a slot.
const PAGE: usize = 256 * 1024;
const FIRST_PAGE: usize = 8 * 1024;
/// How long a page is waited for.
const AGAIN: Duration = Duration::from_millis(500);
/// How much longer, for each other page that is waited for.
const EACH: Duration = Duration::from_millis(10);
/// How often a source is asked for the same page.
const TRIES: u8 = 6;

/// Returns how many slots are pulled at the same time: where round trips are longer than a fifth of a second, more by as much.
/// With 4,096 slots and round trips of 2 s, sixteen turns of 256 took 32 s.
fn abreast(ring: &dyn Routes) -> usize {
    ABREAST * ring.timing().times(Duration::from_millis(200))
}

/// A slot being pulled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pulling {
    slot: u32,
    from: NodeId,
    why: Why,
    parts: Vec<Sum>,
    after: Option<Cell>,
    /// The parts that differ, and what the source has of them.
    differ: BTreeSet<u16>,
    seen: BTreeSet<Cell>,
    again: Time,
    tries: u8,
    /// Waits for its turn to go on.
    parked: bool,
    /// For one that doubts its records: all others knew that when this one was asked.
    late: bool,
}

/// How fast records may be fetched: bytes that may be asked for, less than none after a large page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Rate {
    left: i64,
    at: Option<Time>,
}

impl Rate {
    /// Takes bytes that have come into account.
    fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Says whether more may be asked for.
    fn allows(&mut self, cx: &Ctx<'_>) -> bool {
        let rate = cx.config.transfer_rate;
        if rate == 0 {
            return true;
        }
        let passed = self.at.replace(cx.now).map_or(Duration::ZERO, |at| cx.now.since(at));
        let more = passed.as_micros().saturating_mul(u128::from(rate)) / 1_000_000;
        let most = i64::try_from(rate).unwrap_or(i64::MAX) / 10 + PAGE as i64;
        self.left = self.left.saturating_add(i64::try_from(more).unwrap_or(i64::MAX)).min(most);
        self.left > 0
    }
}

/// What a slot is pulled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Why {
    /// To get the state the epoch began with.
    CatchUp,
    /// To become a member.
    Learn,
    /// To put the states of the old view together.
    Merge { ballot: Ballot },
    /// To get the state that may have been decided on.
    Adopt { ballot: Ballot, state: Sum },
    /// Because the proposer said so.
    Settle { ballot: Ballot, state: Sum },
    /// Because own records are in doubt.
    Doubt,
    /// Because copies differ.
    Sweep,
    /// To rebuild a slot that has no quorum.
    Rebuild,
}

impl Why {
    /// Says whether the puller is to have exactly what the source has.
    fn is_exact(self) -> bool {
        matches!(self, Why::CatchUp | Why::Learn | Why::Adopt { .. } | Why::Settle { .. })
    }
}

impl Store {
    /// Adds up the records of a slot, by part. What is damaged is not there, so that it comes anew.
    fn sums(&self, number: u32, records: &dyn Records, cut: Cut) -> Vec<Sum> {
        let mut sums = alloc::vec![Sum::default(); PARTS];
        let (from, to) = cut.range(number);
        for (space, member) in [(Space::Data, false), (Space::Members, true)] {
            self.scan(space, (&from, &to), records, &mut |key, value| {
                let cell = Cell { member, key: Shared(key.into()) };
                if let (Ok(id), Ok(record)) = (Id::from_first_bytes(key), Record::read(&cell, &value.into()))
                {
                    sums[cut.part(id)].mix(record.sum());
                }
                true
            });
        }
        sums
    }

    /// Starts to pull a slot from a node.
    pub(super) fn pull(&mut self, number: u32, from: NodeId, why: Why, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if self.pulls.values().any(|pull| pull.slot == number && pull.from == from && pull.why == why) {
            return;
        }
        let nonce = self.nonce();
        let empty =
            self.slots.get(&number).is_some_and(|slot| slot.records == 0 && slot.state == Sum::default());
        let parts = if empty { Vec::new() } else { self.sums(number, cx.records, Cut::of(cx.config.slots)) };
        let (differ, seen, again) = (BTreeSet::new(), BTreeSet::new(), cx.now.after(AGAIN));
        let (after, parked, tries) = (None, false, 0);
        let late = self.slots.get(&number).is_some_and(Slot::is_known_to_doubt);
        let pull =
            Pulling { slot: number, from, why, parts, after, differ, seen, again, tries, parked, late };
        self.pulls.insert(nonce, pull);
        self.ask_page(nonce, ring, cx);
    }

    fn ask_page(&mut self, nonce: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let outstanding = self.pulls.len().min(ABREAST) as u32;
        let Some(pull) = self.pulls.get_mut(&nonce) else { return };
        // The more is under way, the longer an answer may take.
        pull.again = cx.now.after(AGAIN + EACH * outstanding);
        pull.parked = false;
        let (to, slot, parts, after) = (pull.from, pull.slot, pull.parts.clone(), pull.after.clone());
        let (any, doubts) = (pull.why == Why::Rebuild, pull.why == Why::Doubt);
        let bytes = if after.is_none() { FIRST_PAGE } else { PAGE } as u32;
        let doubted = self.slots.get(&slot).filter(|_| doubts).and_then(|slot| slot.doubted.clone());
        let doubted = doubted.unwrap_or_default();
        self.send(to, Message::Pull { nonce, slot, parts, after, any, bytes, doubts, doubted }, ring, cx);
    }

    /// Returns how many slots are waiting for a page that is not their first.
    fn large_pulls(&self) -> usize {
        self.pulls.values().filter(|pull| pull.after.is_some() && !pull.parked).count()
    }

    /// Asks for the next page of a slot, or lets it wait for its turn if so many `large` slots wait for theirs.
    fn ask_more(&mut self, nonce: u32, large: &mut usize, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(pull) = self.pulls.get_mut(&nonce) else { return };
        pull.parked = true;
        let learns = pull.why == Why::Learn;
        if *large <= LARGE && (!learns || self.rate.allows(cx)) {
            *large += 1;
            // Now, and not when it comes: many pages may be under way.
            self.rate.spend(PAGE);
            self.ask_page(nonce, ring, cx);
        }
    }

    /// What was pulled for an earlier epoch is no longer wanted.
    pub(super) fn drop_pulls(&mut self, number: u32) {
        self.pulls.retain(|_, pull| pull.slot != number);
    }

    /// Another node lacks records.
    #[expect(clippy::too_many_arguments, reason = "the parts of one message")]
    pub(super) fn on_pull(
        &mut self,
        from: Contact,
        nonce: u32,
        number: u32,
        parts: &[Sum],
        after: Option<Cell>,
        (any, doubted, limit): (bool, Option<&[u64]>, usize),
        cx: &mut Ctx<'_>,
    ) {
        let limit = limit.min(PAGE);
        let mut page = (0, Sum::default(), false);
        let (mut differ, mut records, mut more) = (Vec::new(), Vec::new(), false);
        let mut damaged = false;
        if let Some(slot) = self.slots.get(&number)
            // A replica that doubts its own records tells another one what it can read of them, too.
            && (any || doubted.is_some() || !matches!(slot.standing, Standing::Doubting(_)))
            && (parts.len() == PARTS || parts.is_empty())
        {
            page = (slot.view.epoch, slot.state, slot.standing == Standing::Ready);
            let cut = Cut::of(cx.config.slots);
            let start = after.as_ref().and_then(Cell::id).map_or(0, |id| cut.part(id));
            let mut bytes = 0;
            // A slot without records needs no look at the disk.
            let empty = slot.records == 0 && !matches!(slot.standing, Standing::Doubting(_));
            if empty {
                let has = |part: &usize| parts.get(*part).is_some_and(|sum| *sum != Sum::default());
                differ.extend((0..PARTS).filter(has).map(|part| part as u16));
            }
            for part in if empty { PARTS..PARTS } else { start..PARTS } {
                // Whoever says nothing has nothing.
                let theirs = parts.get(part).copied().unwrap_or_default();
                let (low, high) = cut.span(number, part, part + 1);
                let mut sum = Sum::default();
                for (space, member) in [(Space::Data, false), (Space::Members, true)] {
                    self.scan(space, (&low, &high), cx.records, &mut |key, value| {
                        let cell = Cell { member, key: Shared(key.into()) };
                        match Record::read(&cell, &value.into()) {
                            Ok(record) => sum.mix(record.sum()),
                            Err(_) => damaged = !any,
                        }
                        !damaged || doubted.is_some()
                    });
                }
                if sum == theirs {
                    continue;
                }
                differ.push(part as u16);
                for (space, member) in [(Space::Data, false), (Space::Members, true)] {
                    self.scan(space, (&low, &high), cx.records, &mut |key, value| {
                        let cell = Cell { member, key: Shared(key.into()) };
                        let first = part == start;
                        if first && after.as_ref().is_some_and(|after| cell <= *after) {
                            return true;
                        }
                        if bytes >= limit {
                            more = true;
                            return false;
                        }
                        bytes += key.len() + value.len();
                        records.push((cell, Shared(value.into())));
                        true
                    });
                }
                if more || (damaged && doubted.is_none()) {
                    break;
                }
            }
        }
        if damaged {
            self.doubt(number, cx);
        }
        if let Some(doubted) = doubted {
            page.2 = self.is_sure_of(number, doubted);
        } else if damaged {
            // The puller must ask another member, and so must this node.
            (page, records, more) = ((0, Sum::default(), false), Vec::new(), false);
        }
        let (epoch, state, ready) = page;
        let message = Message::Page { nonce, epoch, state, ready, parts: differ, records, more };
        cx.send(from, Body::Store(Box::new(Packet { message, contacts: Vec::new() })));
    }

    /// Records have come.
    pub(super) fn on_page(&mut self, from: NodeId, page: Message, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Message::Page { nonce, epoch, state, mut ready, parts, records, more } = page else {
            return;
        };
        let theirs = state;
        let Some(mut pull) = self.pulls.remove(&nonce) else { return };
        let current = match pull.why {
            Why::Merge { ballot } | Why::Adopt { ballot, .. } | Why::Settle { ballot, .. } => {
                self.slots.get(&pull.slot).is_some_and(|slot| slot.promised == Some(ballot))
            }
            // Whatever it was wanted for must still be so: what comes late would undo what came since.
            why => self.slots.get(&pull.slot).is_some_and(|slot| match why {
                Why::CatchUp => slot.standing == Standing::Behind && slot.promised.is_none(),
                Why::Learn => slot.standing == Standing::Outside,
                Why::Doubt => matches!(slot.standing, Standing::Doubting(_)),
                Why::Rebuild => self.rebuilds.contains_key(&pull.slot),
                _ => slot.serves(),
            }),
        };
        if pull.from != from || !current {
            return;
        }
        let cut = Cut::of(cx.config.slots);
        let number = pull.slot;
        let mine = self.slots.get(&number).map_or(0, |slot| slot.view.epoch);
        if epoch > mine && !matches!(pull.why, Why::Learn) {
            self.word(from, number, Word::Seek { epoch: mine });
        }
        let useful = match pull.why {
            Why::CatchUp => {
                let entered = self.slots.get(&number).and_then(|slot| slot.entered);
                // A former replica is a source for what the view began with, no more.
                ready &= self.slots.get(&number).is_some_and(|slot| slot.view.place(from).is_some());
                (ready && epoch == mine) || Some(state) == entered
            }
            Why::Learn => ready && epoch >= mine,
            Why::Sweep => ready && epoch == mine,
            // What a source that doubts itself has is right as far as it goes. It counts as heard only if it is sure of the
            // cells that are doubted here.
            Why::Doubt => epoch == mine,
            Why::Merge { .. } | Why::Rebuild => epoch == mine,
            // A source that has crashed may have lost what it had put together, and what it lacks is dropped here.
            Why::Adopt { state: wanted, .. } | Why::Settle { state: wanted, .. } => {
                epoch == mine && state == wanted
            }
        };
        if epoch == 0 || !useful {
            return self.pull_failed(number, pull.why);
        }
        let size = |records: &[(Cell, Shared)]| records.iter().map(|(_, record)| record.0.len()).sum();
        if pull.after.is_none() {
            self.rate.spend(size(&records));
        }
        pull.differ.extend(parts);
        pull.after = records.last().map(|(cell, _)| cell.clone()).or(pull.after);
        for (cell, bytes) in records {
            let right = cell.id().is_some_and(|id| cut.slot(id) == number);
            let Ok(record) = Record::read(&cell, &bytes.0) else { continue };
            if !right {
                continue;
            }
            self.pulled(number, &cell, &record, pull.why, cx);
            if pull.why.is_exact() {
                pull.seen.insert(cell);
            }
        }
        if more {
            pull.tries = 0;
            let mut large = self.large_pulls();
            self.pulls.insert(nonce, pull);
            return self.ask_more(nonce, &mut large, ring, cx);
        }
        if pull.why.is_exact() {
            self.drop_rest(number, &pull, cut, cx);
        }
        let state = self.slots.get(&number).map(|slot| (Some(slot.state), slot.entered));
        let short =
            pull.why == Why::CatchUp && !ready && state.is_some_and(|(state, entered)| state != entered);
        if short {
            // The source changed while we read it.
            return self.pull_failed(number, pull.why);
        }
        if pull.why == Why::Sweep
            && pull.differ.is_empty()
            && self.slots.get(&number).is_some_and(|slot| slot.state != theirs)
        {
            // All parts are equal and the sums are not: ours is wrong, or theirs.
            self.recount(number, cx.records, cx.config);
        }
        self.pull_done(number, pull.why, from, ready && pull.late, cx);
    }

    fn pulled(&mut self, number: u32, cell: &Cell, record: &Record, why: Why, cx: &mut Ctx<'_>) {
        if why == Why::Sweep {
            // As any other write: it counts only if nothing greater was taken or promised.
            let epoch = self.slots.get(&number).map_or(0, |slot| slot.view.epoch);
            let step = Step::Accept {
                cell: cell.clone(),
                record: Shared(record.bytes().clone()),
                set: None,
                agreed: None,
            };
            let room = core::mem::replace(&mut self.room, true);
            let _ = self.perform(number, epoch, &step, cx);
            self.room = room;
            return;
        }
        let doubted = self.slots.get(&number).and_then(|slot| slot.doubted.as_ref());
        if why == Why::Doubt && doubted.is_some_and(|doubted| !doubted.contains(&cell.digest())) {
            // It is as it was, and as others were told.
            return;
        }
        let held = match self.held(cell, cx) {
            Ok(held) => held,
            // What this node adds to the next view is not what it should be: it may have been later than what has come.
            Err(_) if matches!(why, Why::Merge { .. }) => return self.doubt(number, cx),
            Err(_) => {
                // It counts no longer, so that it can come anew.
                self.recount(number, cx.records, cx.config);
                None
            }
        };
        let takes = match &held {
            Some(held) if why.is_exact() => held.rank() != record.rank(),
            Some(held) => held.rank() < record.rank(),
            None => true,
        };
        if takes {
            self.raise(record.ballot(), cx);
            self.put(number, cell, held.as_ref(), Some(record));
        }
    }

    /// Forgets what the source does not have.
    fn drop_rest(&mut self, number: u32, pull: &Pulling, cut: Cut, cx: &mut Ctx<'_>) {
        let mut extra = Vec::new();
        for part in pull.differ.iter().filter(|part| usize::from(**part) < PARTS) {
            let (from, to) = cut.span(number, usize::from(*part), usize::from(*part) + 1);
            for (space, member) in [(Space::Data, false), (Space::Members, true)] {
                self.scan(space, (&from, &to), cx.records, &mut |key, value| {
                    let cell = Cell { member, key: Shared(key.into()) };
                    if !pull.seen.contains(&cell) {
                        extra.push((cell, value.to_vec()));
                    }
                    true
                });
            }
        }
        let mut damaged = false;
        for (cell, bytes) in extra {
            let old = Record::read(&cell, &bytes.into()).ok();
            damaged |= old.is_none();
            self.put(number, &cell, old.as_ref(), None);
        }
        if damaged {
            self.recount(number, cx.records, cx.config);
        }
    }

    fn pull_done(&mut self, number: u32, why: Why, from: NodeId, sure: bool, cx: &mut Ctx<'_>) {
        match why {
            Why::CatchUp => {
                let Some(slot) = self.slots.get_mut(&number) else { return };
                if slot.standing == Standing::Behind {
                    slot.standing = Standing::Ready;
                    self.to_pull.remove(&number);
                    self.former.remove(&number);
                    self.moved.insert(number);
                    self.eager.insert(number);
                    self.keep(number);
                }
            }
            Why::Learn => {
                self.to_pull.remove(&number);
                let Some(slot) = self.slots.get_mut(&number) else { return };
                slot.safe = 0;
                self.urgent.remove(&number);
                if let Some(sponsor) = self.learners.remove(&number) {
                    let (epoch, born) = (slot.view.epoch, self.me.born);
                    // Once it is on the disk: those that have the records now may leave because of it.
                    self.keep(number);
                    self.learnt.insert(number, cx.now);
                    self.word_after(sponsor, number, Word::Learnt { epoch, born });
                }
            }
            Why::Merge { ballot } | Why::Adopt { ballot, .. } => self.merged(from, number, ballot, cx),
            Why::Settle { ballot, state } => self.settled(from, number, ballot, state),
            Why::Doubt => self.doubt_heard(number, from, sure, cx),
            Why::Rebuild => self.rebuild_heard(number, from, cx),
            Why::Sweep => {}
        }
    }

    fn pull_failed(&mut self, number: u32, why: Why) {
        match why {
            // A survivor that does not tell what it has must not be passed over in silence.
            Why::Rebuild => _ = self.rebuilds.remove(&number),
            // Another source is tried in a while.
            Why::CatchUp | Why::Doubt => {
                self.to_pull.insert(number);
            }
            // Whoever wants this node says so again.
            Why::Learn => {
                self.to_pull.remove(&number);
                self.learners.remove(&number);
            }
            Why::Merge { .. } | Why::Adopt { .. } => {
                // Its member is not what it was: begin again.
                if let Some(slot) = self.slots.get_mut(&number) {
                    slot.round = None;
                }
            }
            Why::Settle { .. } | Why::Sweep => {}
        }
    }

    /// Goes on with pulls that got no answer, and starts those that wait.
    pub(super) fn pull_on(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let late: Vec<u32> = self
            .pulls
            .iter()
            .filter(|(_, pull)| pull.again <= cx.now || pull.parked)
            .map(|(nonce, _)| *nonce)
            .collect();
        let mut large = self.large_pulls();
        for nonce in late {
            let Some(pull) = self.pulls.get_mut(&nonce) else { continue };
            pull.tries += u8::from(!pull.parked);
            let (number, why, from, tries, parked) =
                (pull.slot, pull.why, pull.from, pull.tries, pull.parked);
            if parked {
                self.ask_more(nonce, &mut large, ring, cx);
            } else if tries >= TRIES || self.is_down(from) {
                self.pulls.remove(&nonce);
                self.pull_failed(number, why);
            } else {
                self.ask_page(nonce, ring, cx);
            }
        }
        let abreast = abreast(ring);
        if self.pulls.len() >= abreast {
            // A node that joins hears of thousands of slots at once: to order them all each time would take it minutes.
            return;
        }
        let busy: BTreeSet<u32> = self.pulls.values().map(|pull| pull.slot).collect();
        let learning = self.learners.keys().copied();
        let mut waiting: Vec<u32> = self.to_pull.iter().copied().chain(learning).collect();
        if waiting.len() > abreast {
            // What can not be had right now must not stand before everything else.
            let start = (cx.dice.roll() % waiting.len() as u64) as usize;
            waiting.rotate_left(start);
        }
        // A slot that a write waits for goes first.
        waiting.sort_by_key(|number| !self.urgent.contains(number));
        if !self.rate.allows(cx) {
            waiting.retain(|number| self.urgent.contains(number) || !self.learners.contains_key(number));
        }
        let mut unproved = false;
        for number in waiting {
            if self.pulls.len() >= abreast {
                break;
            }
            if busy.contains(&number) {
                continue;
            }
            let Some(slot) = self.slots.get(&number) else {
                self.to_pull.remove(&number);
                self.learners.remove(&number);
                continue;
            };
            if slot.promised.is_some() && !matches!(slot.standing, Standing::Doubting(_)) {
                continue;
            }
            let why = match slot.standing {
                Standing::Behind => Why::CatchUp,
                Standing::Doubting(_) => Why::Doubt,
                Standing::Outside if self.learners.contains_key(&number) => {
                    if !self.may_learn(slot) {
                        unproved = true;
                        continue;
                    }
                    Why::Learn
                }
                _ => {
                    self.to_pull.remove(&number);
                    self.learners.remove(&number);
                    self.former.remove(&number);
                    self.urgent.remove(&number);
                    continue;
                }
            };
            let heard = if let Standing::Doubting(heard) = slot.standing { heard } else { 0 };
            let former = self.former.get(&number).filter(|_| why == Why::CatchUp);
            let sources: Vec<NodeId> = slot
                .view
                .members
                .iter()
                .enumerate()
                // First all are asked, then what they say counts.
                .filter(|(at, member)| {
                    let done = if slot.is_known_to_doubt() { heard } else { slot.told };
                    member.id != self.me.id && (why != Why::Doubt || done & (1 << at) == 0)
                })
                .map(|(_, member)| member.id)
                .chain(former.copied())
                .filter(|id| !self.is_down(*id))
                .collect();
            if sources.is_empty() {
                continue;
            }
            let from = match why {
                Why::Learn => self.learners.get(&number).copied().unwrap_or(sources[0]),
                _ => sources[(cx.dice.roll() % sources.len() as u64) as usize],
            };
            self.pull(number, from, why, ring, cx);
        }
        if unproved {
            self.ask_vouchers(ring, cx);
        }
    }
}
