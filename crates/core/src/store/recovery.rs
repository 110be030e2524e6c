//! What an operator can do when information is really gone: retire a node that will not come back, and rebuild views that
//! have no quorum any more from what survives.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::coding::Sum;
use super::message::{Message, SlotReport, StoreReport, Word};
use super::pulling::Why;
use super::view::{Ballot, Cut, GENERATION, Slot, Standing, View};
use super::{After, Store};
use crate::contact::Contact;
use crate::edge::{Ctx, Event, Failure, Output, Reply, RequestId};
use crate::id::NodeId;
use crate::overlay::Routes;
use crate::records::{Space, Write};
use crate::time::Time;

/// Nodes that can be retired.
const RETIRED_MAX: usize = 1024;
/// Of two recoveries at the same time one has the higher epoch, by chance, and the other one yields to it.
const RECOVERIES: u64 = GENERATION >> 8;
/// How long nodes have to report what they hold.
const REPORTS: Duration = Duration::from_secs(3);
/// How long survivors have to send what they have of a slot.
const REBUILD: Duration = Duration::from_secs(30);
const RETIRED_KEY: &[u8] = b"retired";
const SURVEYED_KEY: &[u8] = b"surveyed";

/// A recovery this node was asked for, while other nodes report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    request: RequestId,
    confirmed: bool,
    until: Time,
    open: BTreeSet<NodeId>,
    reports: BTreeMap<NodeId, StoreReport>,
}

/// A slot that this node rebuilds: survivors whose records are still missing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rebuild {
    survivors: Vec<NodeId>,
    open: BTreeSet<NodeId>,
    until: Time,
}

/// What a recovery would do, or does.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RecoveryPlan {
    /// Whether it is being done. Otherwise nothing has changed.
    pub confirmed: bool,
    /// Slots there are, and those that need no recovery.
    pub slots: u32,
    /// Slots with a quorum.
    pub healthy: u32,
    /// Slots without one, of which some replica is there.
    pub rebuilt: u32,
    /// Records these replicas have.
    pub records: u64,
    /// Slots no node that answered holds: they start empty.
    pub empty: u32,
    /// Replicas that are missing: what only they had is lost.
    pub missing: Vec<NodeId>,
    /// Nodes that answered, this one included.
    pub nodes: Vec<NodeId>,
    /// Nodes that did not answer in time. What they hold is counted as missing.
    pub silent: Vec<NodeId>,
}

impl Store {
    /// Reads which nodes were retired.
    pub(super) fn read_retired(&mut self, records: &dyn crate::records::Records) {
        let bytes = records.read(Space::Meta, RETIRED_KEY);
        let ids: Option<Vec<NodeId>> = bytes.and_then(|bytes| minicbor::decode(&bytes).ok());
        self.retired = ids.unwrap_or_default().into_iter().take(RETIRED_MAX).collect();
    }

    /// Returns the nodes that were retired for good.
    pub fn retired(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.retired.iter().copied()
    }

    /// The operator says that a node will not come back, with or without its disk.
    pub(crate) fn retire(&mut self, request: RequestId, id: NodeId, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let up = ring.contact(id).is_some_and(|_| !self.is_down(id));
        let reply = match () {
            () if id == self.me.id || (up && !self.retired.contains(&id)) => Err(Failure::StillThere),
            () if self.retired.len() >= RETIRED_MAX => Err(Failure::Busy),
            () => Ok(Reply::Retired),
        };
        let retires = reply.is_ok();
        cx.out.push(Output::Reply { request, reply });
        if retires {
            self.on_retired(&[id], ring, cx);
        }
        self.finish(ring, cx);
    }

    /// Nodes are told to have been retired.
    pub(super) fn on_retired(&mut self, ids: &[NodeId], ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let fresh: Vec<NodeId> = ids.iter().filter(|id| !self.retired.contains(id)).copied().collect();
        if fresh.is_empty() || self.retired.len() + fresh.len() > RETIRED_MAX {
            return;
        }
        self.retired.extend(&fresh);
        let ids: Vec<NodeId> = self.retired.iter().copied().collect();
        let value = minicbor::to_vec(ids).expect("writing to memory does not fail");
        self.writes.push(Write { space: Space::Meta, key: RETIRED_KEY.into(), value: Some(value.into()) });
        for id in fresh {
            cx.out.raise(Event::Retired(id));
        }
        self.restless = true;
        self.compare_clocks(ring, cx);
    }

    /// Returns what this node holds, as a recovery has to know it.
    fn report(&self, cx: &Ctx<'_>) -> StoreReport {
        let mut healthy = alloc::vec![0; (Cut::of(cx.config.slots).count() as usize).div_ceil(8)];
        let mut stuck = Vec::new();
        for (number, slot) in &self.slots {
            if slot.standing == Standing::Outside {
                continue;
            }
            if self.is_stuck(slot) {
                let members = slot.view.members.iter().map(|member| member.id).collect();
                let (epoch, records, ready) =
                    (slot.view.epoch, slot.records, slot.standing == Standing::Ready);
                stuck.push(SlotReport { slot: *number, epoch, records, ready, members });
            } else if let Some(byte) = healthy.get_mut(*number as usize / 8) {
                *byte |= 1 << (number % 8);
            }
        }
        let lineage = self.lineage().unwrap_or(0);
        StoreReport { lineage, healthy, stuck }
    }

    /// Says whether a slot cannot go on with the members that are there: no quorum, or none whose records can be relied on.
    fn is_stuck(&self, slot: &Slot) -> bool {
        let alone = slot.view.members.len() == 1 && matches!(slot.standing, Standing::Doubting(_));
        alone || !self.can_decide(slot)
    }

    /// The operator wants to know what a recovery would do, or wants it done.
    pub(crate) fn recover(
        &mut self,
        request: RequestId,
        confirmed: bool,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        if self.recovery.is_some() {
            return cx.out.push(Output::Reply { request, reply: Err(Failure::Busy) });
        }
        let around: Vec<Contact> = ring.neighbours();
        let known = self.peers.values().filter(|peer| peer.down.is_none()).map(|peer| peer.contact);
        let open: BTreeSet<NodeId> = known
            .chain(around)
            .map(|contact| contact.id)
            .filter(|id| *id != self.me.id && !self.retired.contains(id))
            .collect();
        if confirmed {
            self.freeze_stuck(self.me.id, cx);
        }
        let reports = [(self.me.id, self.report(cx))].into();
        let until = cx.now.after(REPORTS);
        self.recovery = Some(Box::new(Recovery { request, confirmed, until, open: open.clone(), reports }));
        for id in open {
            self.send(id, Message::Survey { freeze: confirmed }, ring, cx);
        }
        self.recover_on(cx);
        self.finish(ring, cx);
    }

    pub(super) fn on_survey(&mut self, from: Contact, freeze: bool, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if !freeze {
            let report = self.report(cx);
            self.send(from.id, Message::Surveyed(report), ring, cx);
            return;
        }
        self.freeze_stuck(from.id, cx);
        let report = Message::Surveyed(self.report(cx));
        self.after.push_back((self.this_ticket(), After::Tell(from, Box::new(report))));
        // Something is written, even if nothing is stuck here.
        self.writes.push(Write {
            space: Space::Meta,
            key: SURVEYED_KEY.into(),
            value: Some([1].as_slice().into()),
        });
    }

    /// Stops serving slots that have no quorum, before what they hold is told: what would be taken afterwards would be
    /// missing from the view that is rebuilt.
    fn freeze_stuck(&mut self, by: NodeId, cx: &Ctx<'_>) {
        let stuck: Vec<u32> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.standing != Standing::Outside && self.is_stuck(slot))
            .map(|(number, _)| *number)
            .collect();
        for number in stuck {
            let Some(slot) = self.slots.get_mut(&number) else { continue };
            let round = slot.promised.map_or(0, |promised| promised.round).saturating_add(1);
            slot.promised = Some(Ballot { round, node: by });
            (slot.round, slot.since) = (None, cx.now);
            self.changing.insert(number);
            self.keep(number);
        }
    }

    pub(super) fn on_surveyed(&mut self, from: NodeId, report: StoreReport, cx: &mut Ctx<'_>) {
        let Some(recovery) = &mut self.recovery else { return };
        if recovery.open.remove(&from) {
            recovery.reports.insert(from, report);
            self.recover_on(cx);
        }
    }

    /// Goes on with a recovery once all nodes have reported, or have had time to.
    pub(super) fn recover_on(&mut self, cx: &mut Ctx<'_>) {
        let late = |recovery: &Recovery| recovery.open.is_empty() || cx.now >= recovery.until;
        let Some(recovery) = self.recovery.take_if(|recovery| late(recovery)) else { return };
        let Recovery { request, confirmed, open, reports, .. } = *recovery;
        let lineage =
            self.lineage().or_else(|| reports.values().map(|report| report.lineage).find(|l| *l != 0));
        let count = Cut::of(cx.config.slots).count();
        let mut plan = RecoveryPlan {
            confirmed,
            slots: count,
            nodes: reports.keys().copied().collect(),
            silent: open.into_iter().collect(),
            ..RecoveryPlan::default()
        };
        let mut missing = BTreeSet::new();
        let generation =
            reports.values().flat_map(|report| &report.stuck).map(|slot| slot.epoch / GENERATION);
        let generation = generation.max().unwrap_or(0) + 1;
        for number in 0..count {
            let is_healthy = |report: &StoreReport| {
                report.healthy.get(number as usize / 8).is_some_and(|byte| byte & (1 << (number % 8)) != 0)
            };
            if reports.values().any(is_healthy) {
                plan.healthy += 1;
                continue;
            }
            // The latest epoch that is known; older ones were replaced by it.
            let holders: Vec<(NodeId, &SlotReport)> = reports
                .iter()
                .flat_map(|(id, report)| report.stuck.iter().map(move |slot| (*id, slot)))
                .filter(|(_, slot)| slot.slot == number)
                .collect();
            let epoch = holders.iter().map(|(_, slot)| slot.epoch).max();
            let latest = holders.iter().filter(|(_, slot)| Some(slot.epoch) == epoch);
            let survivors: Vec<NodeId> = latest.clone().map(|(id, _)| *id).take(16).collect();
            let best = latest.clone().max_by_key(|(_, slot)| (slot.ready, slot.records));
            let Some((leader, slot)) = best else {
                plan.empty += 1;
                if confirmed && let Some(lineage) = lineage {
                    self.start_empty(number, generation, lineage, cx);
                }
                continue;
            };
            plan.rebuilt += 1;
            plan.records += u64::from(slot.records);
            missing.extend(slot.members.iter().filter(|id| !survivors.contains(id)));
            if confirmed {
                self.word(*leader, number, Word::Rebuild { epoch: slot.epoch, survivors });
            }
        }
        plan.missing = missing.into_iter().collect();
        cx.out.push(Output::Reply { request, reply: Ok(Reply::Recovery(Box::new(plan))) });
    }

    /// No node that answered has anything of a slot: it begins again, empty.
    fn start_empty(&mut self, number: u32, generation: u64, lineage: u64, cx: &mut Ctx<'_>) {
        let known = self.slots.get(&number).map_or(0, |slot| slot.view.epoch);
        let epoch = (known / GENERATION + 1).max(generation) * GENERATION + 1 + cx.dice.roll() % RECOVERIES;
        let me = self.me;
        let view = View { epoch, lineage, members: alloc::vec![me], survivors: alloc::vec![me.id] };
        self.slots.insert(number, Slot::new(view, Some(Sum::default()), Standing::Ready, cx.now));
        self.recount(number, cx.records, cx.config);
        self.installed(number);
    }

    /// This node is to rebuild a slot from what it and other survivors have.
    pub(super) fn on_rebuild(
        &mut self,
        number: u32,
        survivors: Vec<NodeId>,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(slot) = self.slots.get(&number) else { return };
        let sound = survivors.len() <= 16 && survivors.contains(&self.me.id);
        // Frozen by the recovery, or about to be decided by the members that are back.
        if !sound || slot.standing == Standing::Outside || slot.promised.is_none() || !self.is_stuck(slot) {
            return;
        }
        if self.rebuilds.contains_key(&number) {
            return;
        }
        let open: BTreeSet<NodeId> = survivors.iter().copied().filter(|id| *id != self.me.id).collect();
        let until = cx.now.after(REBUILD);
        self.rebuilds.insert(number, Rebuild { survivors, open: open.clone(), until });
        for survivor in open {
            self.pull(number, survivor, Why::Rebuild, ring, cx);
        }
        self.rebuild_on(cx);
    }

    /// A survivor's records have come, or do not.
    pub(super) fn rebuild_heard(&mut self, number: u32, from: NodeId, cx: &mut Ctx<'_>) {
        if let Some(rebuild) = self.rebuilds.get_mut(&number) {
            rebuild.open.remove(&from);
            self.rebuild_on(cx);
        }
    }

    /// Installs the views of slots that are rebuilt, once every survivor has told what it has. A rebuild that takes too long
    /// is given up; the operator can ask again, without the survivor that is missing.
    pub(super) fn rebuild_on(&mut self, cx: &mut Ctx<'_>) {
        self.rebuilds.retain(|_, rebuild| rebuild.open.is_empty() || cx.now < rebuild.until);
        let done = |rebuild: &Rebuild| rebuild.open.is_empty();
        let numbers: Vec<u32> =
            self.rebuilds.iter().filter(|(_, rebuild)| done(rebuild)).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(rebuild) = self.rebuilds.remove(&number) else { continue };
            self.drop_pulls(number);
            self.drop_promises(number, cx);
            self.recount(number, cx.records, cx.config);
            let me = self.me;
            let Some(slot) = self.slots.get_mut(&number) else { continue };
            let old: Vec<NodeId> = slot.view.members.iter().map(|member| member.id).collect();
            slot.view.epoch = (slot.view.generation() + 1) * GENERATION + 1 + cx.dice.roll() % RECOVERIES;
            slot.view.members = alloc::vec![me];
            slot.view.survivors = rebuild.survivors;
            slot.entered = Some(slot.state);
            slot.standing = Standing::Ready;
            (slot.promised, slot.accepted, slot.round, slot.learner) = (None, None, None, None);
            (slot.agreed, slot.safe, slot.since) = (0, 0, cx.now);
            (slot.remembered, slot.abstains) = (None, false);
            for id in old.into_iter().filter(|id| *id != me.id) {
                self.tell_view(id, number);
            }
            self.installed(number);
        }
    }

    fn installed(&mut self, number: u32) {
        self.changing.remove(&number);
        self.to_pull.remove(&number);
        self.learners.remove(&number);
        self.moved.insert(number);
        self.eager.insert(number);
        self.keep(number);
        self.restless = true;
    }
}
