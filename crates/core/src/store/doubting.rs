//! Doubt: a member whose record cannot be read serves nothing of the slot until it can say again what it said before.
//!
//! All other members tell it what they have; each drops the answers it got as a coordinator and asks again, so that none is
//! acknowledged by a copy that is lost. If the member then has the very records it had, nothing has happened. If not, what it
//! had may have been later than what the others have. It was not acknowledged then. But what it promised about it
//! still counts for others: it abstains, which means that it serves again in the next epoch, for which it votes. The models `damaged-promises` and `damaged-views` of
//! the checker say why.

use alloc::vec::Vec;

use super::Store;
use super::coding::Shared;
use super::keeping::DOUBTED_MAX;
use super::record::{Cell, Record};
use super::view::{Cut, Standing};
use crate::config::Config;
use crate::edge::Ctx;
use crate::id::NodeId;
use crate::records::{Records, Space};

impl Store {
    /// A record turned out to be damaged: nothing of the slot is served before all others have told what they have, or
    /// the records add up to what they did before.
    pub(super) fn doubt(&mut self, number: u32, cx: &Ctx<'_>) {
        self.doubt_slot(number, cx.records, cx.config);
    }

    pub(super) fn doubt_slot(&mut self, number: u32, records: &dyn Records, config: &Config) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        slot.round = None;
        match slot.standing {
            Standing::Ready => self.begin_doubt(number),
            // It may have settled on what it had: it does not vote without that.
            Standing::Behind if slot.promised.is_some() => _ = slot.remembered.get_or_insert(slot.state),
            _ => {}
        }
        // What is damaged no longer counts as being there, so that it can come anew.
        self.recount(number, records, config);
        self.to_pull.insert(number);
        self.keep(number);
    }

    /// From now on this node doubts what it has of a slot, and what it has told of it.
    pub(super) fn begin_doubt(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        slot.standing = Standing::Doubting(0);
        slot.remembered = Some(slot.state);
        (slot.doubted, slot.told) = (Some(Vec::new()), 0);
        self.to_pull.insert(number);
        self.voided.insert(number);
    }

    /// Says whether this node may be asked about cells that another one doubts, though it doubts others itself.
    pub(super) fn is_sure_of(&self, number: u32, cells: &[u64]) -> bool {
        let Some(slot) = self.slots.get(&number) else { return false };
        let Standing::Doubting(_) = slot.standing else { return slot.standing == Standing::Ready };
        let sure = |mine: &Vec<u64>| cells.iter().all(|cell| !mine.contains(cell));
        (1..=DOUBTED_MAX).contains(&cells.len()) && slot.doubted.as_ref().is_some_and(sure)
    }

    /// A member has told all that it has. `sure`: it does not doubt the same records, and it said so after all members had
    /// dropped the answers they had got from this one. What is said earlier may be outdated by a write that counts such an
    /// answer.
    pub(super) fn doubt_heard(&mut self, number: u32, from: NodeId, sure: bool, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Standing::Doubting(mut heard) = slot.standing else { return };
        let Some(place) = slot.view.place(from) else { return };
        slot.told |= 1 << place;
        heard |= u16::from(sure) << place;
        slot.standing = Standing::Doubting(heard);
        // In a view of two the other one is part of every quorum: what it has is enough.
        let changed = slot.remembered != Some(slot.state) && slot.view.members.len() > 2;
        // Every write quorum has a member among any n - q + 1.
        let enough = heard.count_ones() as usize > slot.view.members.len() - slot.view.quorum();
        let frozen = slot.promised.is_some();
        if enough && changed && (frozen || self.has_promised_doubted(number, cx)) {
            self.abstain(number);
        }
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let whole = slot.remembered == Some(slot.state) && !slot.abstains;
        // A member that abstains votes: it has all that was acknowledged. Unless it was frozen: then it has told a state that
        // it does not have any more.
        if whole || enough && !(frozen && changed) {
            slot.standing = Standing::Ready;
            slot.remembered = None;
            self.drop_damaged(number, cx);
            self.to_pull.remove(&number);
            self.moved.insert(number);
            self.eager.insert(number);
        } else if enough {
            self.to_pull.remove(&number);
        }
        self.keep(number);
    }

    /// This node may have promised what it does not know, or cannot keep: it takes part again in the next epoch.
    pub(super) fn abstain(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.abstains = true;
            self.changing.insert(number);
        }
    }

    /// Drops records that cannot be read. No other member has them, or they would have come anew.
    fn drop_damaged(&mut self, number: u32, cx: &Ctx<'_>) {
        let (from, to) = Cut::of(cx.config.slots).range(number);
        let mut damaged = Vec::new();
        for (space, member) in [(Space::Data, false), (Space::Members, true)] {
            self.scan(space, (&from, &to), cx.records, &mut |key, value| {
                let cell = Cell { member, key: Shared(key.into()) };
                if Record::read(&cell, &value.into()).is_err() {
                    damaged.push(cell);
                }
                true
            });
        }
        for cell in damaged {
            self.put(number, &cell, None, None);
        }
    }
}
