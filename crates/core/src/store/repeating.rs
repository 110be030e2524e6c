//! What happens to operations as time goes by: views change under them, members stay silent, deadlines pass.

use alloc::vec::Vec;
use core::time::Duration;

use super::Store;
use super::message::Response;
use super::op::{Happened, Trouble};
use super::operation::{Stage, Then};
use super::record::Cell;
use super::view::Standing;
use crate::config::Safeguard;
use crate::edge::Ctx;
use crate::overlay::Routes;

/// How long an operation waits for its slot to be served here before it is sent elsewhere.
const WAIT: Duration = Duration::from_millis(300);

impl Store {
    /// The view of slots has changed: operations on them begin again under the new one.
    pub(super) fn start_over(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let moved = core::mem::take(&mut self.moved);
        if moved.is_empty() || self.ops.is_empty() {
            return;
        }
        let ids: Vec<u32> =
            self.ops.iter().filter(|(_, op)| moved.contains(&op.slot)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(op) = self.ops.get_mut(&id) else { continue };
            let Some(slot) = self.slots.get(&op.slot) else { continue };
            if slot.standing == Standing::Outside {
                let response = match op.proposed {
                    Some(_) => Response::Failed(self.too_few(id, Happened::Unknown)),
                    None => {
                        let begun = matches!(&op.stage, Stage::Writing { then: Then::Changed { .. }, .. });
                        Response::Elsewhere { begun }
                    }
                };
                self.close(id, response, ring, cx);
                continue;
            }
            if slot.view.epoch == op.epoch || !slot.serves() {
                continue;
            }
            op.since = cx.now;
            self.begin_again(id, ring, cx);
        }
    }

    /// A member of a slot lost records: what it answered before is void, and operations on the slot ask all members again.
    pub(super) fn void_answers(&mut self, number: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let ids: Vec<u32> = self.ops.iter().filter(|(_, op)| op.slot == number).map(|(id, _)| *id).collect();
        for id in ids {
            self.begin_again(id, ring, cx);
        }
    }

    /// Lets all members answer an operation again: a plain write is the same write, everything else starts over.
    pub(super) fn begin_again(&mut self, id: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        let Some(slot) = self.slots.get(&op.slot) else { return };
        let conditional =
            matches!(&op.stage, Stage::Writing { then: Then::Changed { ballot: true, .. }, .. });
        let plain = matches!(&op.stage, Stage::Writing { then: Then::Changed { ballot: false, .. }, .. });
        if plain || (conditional && !cx.config.rule(Safeguard::StartOver)) {
            op.epoch = slot.view.epoch;
            op.attempt = op.attempt.wrapping_add(1);
            // Members may have stored it before. If all refuse it now, it was replaced: it must not be written anew.
            op.repeated |= op.sent;
            if let Stage::Writing { items, .. } = &mut op.stage {
                items.iter_mut().for_each(|item| (item.have, item.refused, item.own) = (0, 0, false));
            }
            self.ask_members(id, false, ring, cx);
        } else {
            self.begin(id, ring, cx);
        }
    }

    /// Goes on with what waits for a slot, or for the clock.
    pub(super) fn go_on(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let waiting: Vec<u32> = self
            .ops
            .iter()
            .filter(|(_, op)| op.stage == Stage::Waiting && (op.rounds == 0 || op.again <= cx.now))
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let Some(op) = self.ops.get(&id) else { continue };
            if self.slots.get(&op.slot).is_some_and(|slot| slot.serves()) {
                if self.is_first(id, &Cell::of(&op.ask.name)) {
                    self.begin(id, ring, cx);
                }
            } else if op.proposed.is_none() && cx.now.since(op.since) > WAIT {
                self.close(id, Response::Elsewhere { begun: false }, ring, cx);
            }
        }
        self.ask_again(ring, cx);
    }

    /// Asks the silent again, and gives up what is late.
    pub(super) fn repeat(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let due: Vec<u32> = self
            .ops
            .iter()
            .filter(|(_, op)| op.again <= cx.now || op.deadline <= cx.now)
            .map(|(id, _)| *id)
            .collect();
        // Nodes may have died, or come, since.
        let copies = self.copies(ring, cx);
        for id in due {
            let Some(op) = self.ops.get_mut(&id) else { continue };
            if op.deadline <= cx.now {
                self.give_up(id, ring, cx);
                continue;
            }
            op.again = cx.now.after(cx.config.store_retry);
            op.copies = copies;
            // A member that is asked twice may refuse what it stored the first time, if it has stored something later since.
            op.repeated |=
                matches!(&op.stage, Stage::Writing { then: Then::Changed { ballot: false, .. }, .. });
            let (slot, late) = (op.slot, cx.now.since(op.since) > cx.config.store_retry * 2);
            let looking = matches!(op.stage, Stage::Looking { .. });
            if late && let Some(slot) = self.slots.get(&slot) {
                let open = self.unanswered(id, 0);
                let members = slot.view.members.clone();
                for (at, member) in members.iter().enumerate() {
                    if open & (1 << at) != 0
                        && let Some(peer) = self.peers.get_mut(&member.id)
                    {
                        peer.silent = true;
                    }
                }
            }
            if looking && late {
                self.looked(id, true, ring, cx);
            } else {
                self.ask_members(id, true, ring, cx);
                self.check_written(id, ring, cx);
            }
        }
    }

    /// An operation has run out of time.
    pub(super) fn give_up(&mut self, id: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let members = self.slots.get(&op.slot).map_or(1, |slot| slot.view.members.len());
        let wanted = op.wanted(members) as u8;
        let (acked, happened) = match &op.stage {
            Stage::Writing { items, then } => {
                let least = items.iter().map(|item| item.have.count_ones() as u8).min().unwrap_or(0);
                match then {
                    Then::Changed { .. } if least == 0 => (least, Happened::Unknown),
                    Then::Changed { .. } => (least, Happened::Some),
                    _ => (least, Happened::No),
                }
            }
            Stage::Reading { heard, .. } => (heard.len() as u8, Happened::No),
            Stage::Preparing { heard, .. } if op.proposed.is_none() => (heard.len() as u8, Happened::No),
            _ if op.proposed.is_some() => (0, Happened::Unknown),
            _ => (0, Happened::No),
        };
        let trouble = match op.trouble {
            Some(trouble) if happened == Happened::No => trouble,
            _ => Trouble::TooFewReplicas { acked, wanted, happened },
        };
        self.fail(id, trouble, ring, cx);
    }
}
