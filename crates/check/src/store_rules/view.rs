//! The change of the view.

use super::Left;
use super::plan::Plan;
use super::state::{Kept, Mask, Msg, NO_EPOCH, Next, Phase, Rec, Reply, Stage, State, quorum, quorums};

impl State {
    /// The ballot of a proposed change, and the epoch it ends.
    fn ballot(plan: &Plan, change: u8) -> (u8, u8) {
        (change + 1, plan.changes[usize::from(change)].epoch)
    }

    /// Somebody wants another view.
    pub(super) fn propose_change(&mut self, plan: &Plan, change: u8) -> bool {
        let at = usize::from(change);
        let by = plan.changes[at].by;
        let now = &self.nodes[usize::from(by)].now;
        let early = plan.in_order && self.changes[..at].iter().any(|earlier| earlier.stage == Stage::Idle);
        if self.changes[at].stage != Stage::Idle
            || early
            || now.epoch != plan.changes[at].epoch
            || !self.is_one_of(by, now.members)
        {
            return false;
        }
        self.changes[at].stage = Stage::Freezing;
        true
    }

    /// Whether a replica takes part in changing the view of an epoch.
    fn takes_part(&self, plan: &Plan, node: u8, epoch: u8) -> bool {
        let now = &self.nodes[usize::from(node)].now;
        now.epoch == epoch
            && self.is_one_of(node, now.members)
            && (now.caught_up || !plan.has(Left::CaughtUp))
            && plan.deaf & 1 << node == 0
    }

    /// A replica is asked to promise a view ballot.
    pub(super) fn freeze(&mut self, plan: &Plan, change: u8, node: u8) -> bool {
        let (ballot, epoch) = State::ballot(plan, change);
        let stage = self.changes[usize::from(change)].stage;
        if matches!(stage, Stage::Idle | Stage::Dead) || !self.takes_part(plan, node, epoch) {
            return false;
        }
        let bit = self.bit(node);
        let now = &mut self.nodes[usize::from(node)].now;
        if ballot <= now.view_promised {
            return false;
        }
        now.view_promised = ballot;
        now.frozen = true;
        let (rec, accepted) = (now.rec, now.view_accepted);
        self.answer(plan, node, Reply::Frozen { change, bit, rec, accepted });
        true
    }

    /// The quorums of frozen replicas a proposer can look at.
    pub(super) fn frozen_quorums(&self, plan: &Plan, change: u8) -> Vec<Mask> {
        let it = &self.changes[usize::from(change)];
        if it.stage != Stage::Freezing {
            return Vec::new();
        }
        let answered = it.frozen.iter().enumerate().filter(|(_, reply)| reply.is_some());
        let answered = answered.fold(0, |set, (bit, _)| set | 1 << bit);
        quorums(self.members(plan, State::ballot(plan, change).1), answered).collect()
    }

    /// A proposer looks at what a quorum of frozen replicas holds.
    pub(super) fn merge(&mut self, plan: &Plan, change: u8, quorum: Mask) -> bool {
        let at = usize::from(change);
        let (ballot, _) = State::ballot(plan, change);
        let frozen = self.changes[at].frozen;
        let replies = || frozen.iter().enumerate().filter(move |(bit, _)| quorum & 1 << bit != 0);
        let replies = || replies().filter_map(|(bit, reply)| Some((bit, (*reply)?)));
        let accepted = replies().filter_map(|(_, (_, accepted))| accepted).max();
        self.changes[at].frozen = Default::default();
        let merged = replies().map(|(_, (rec, _))| rec).max().unwrap_or_default();
        let mine = Next { ballot, members: plan.changes[at].members, start: merged };
        let next = accepted.map_or(mine, |accepted| Next { ballot, ..accepted });
        let Next { start, .. } = next;
        let in_place = !plan.has(Left::OneStep);
        let pushes = in_place || accepted.is_none() && !plan.has(Left::StateWithAccept);
        if !pushes || !plan.has(Left::Merge) {
            self.changes[at].stage = Stage::Proposed { next, accepts: 0 };
            return true;
        }
        self.changes[at].stage = Stage::Holding { quorum, next, holds: 0 };
        let holds: Vec<usize> = replies().filter(|(_, (rec, _))| *rec == start).map(|(bit, _)| bit).collect();
        for bit in holds {
            self.held(plan, change, bit as u8);
        }
        true
    }

    /// A frozen replica is given the merged state.
    pub(super) fn push(&mut self, plan: &Plan, change: u8, node: u8) -> bool {
        let (ballot, epoch) = State::ballot(plan, change);
        let Stage::Holding { quorum, next, .. } = self.changes[usize::from(change)].stage else {
            return false;
        };
        if !self.takes_part(plan, node, epoch) || !self.is_one_of(node, quorum) {
            return false;
        }
        let bit = self.bit(node);
        let now = &mut self.nodes[usize::from(node)].now;
        if now.view_promised != ballot {
            return false;
        }
        now.rec = next.start;
        self.answer(plan, node, Reply::Holds { change, bit });
        true
    }

    /// A replica holds the merged state.
    pub(super) fn held(&mut self, plan: &Plan, change: u8, bit: u8) {
        let members = self.members(plan, State::ballot(plan, change).1);
        let stage = &mut self.changes[usize::from(change)].stage;
        if let Stage::Holding { next, holds, .. } = stage {
            *holds |= 1 << bit;
            if holds.count_ones() >= quorum(members) {
                *stage = Stage::Proposed { next: *next, accepts: 0 };
            }
        }
    }

    /// A replica is asked to accept a next view.
    pub(super) fn accept_view(&mut self, plan: &Plan, change: u8, node: u8) -> bool {
        let (ballot, epoch) = State::ballot(plan, change);
        let (Stage::Proposed { next, .. } | Stage::Decided { next }) =
            self.changes[usize::from(change)].stage
        else {
            return false;
        };
        if !self.takes_part(plan, node, epoch) {
            return false;
        }
        let bit = self.bit(node);
        let now = &mut self.nodes[usize::from(node)].now;
        if ballot < now.view_promised || now.view_accepted == Some(next) {
            return false;
        }
        if !plan.has(Left::OneStep) && now.rec != next.start {
            return false;
        }
        now.view_accepted = Some(next);
        if plan.has(Left::AcceptPromises) {
            now.view_promised = ballot;
            now.frozen = true;
        }
        if plan.has(Left::StateWithAccept) && plan.has(Left::Merge) {
            now.rec = next.start;
        }
        self.answer(plan, node, Reply::Accepted { change, bit });
        true
    }

    /// A replica has accepted a next view.
    pub(super) fn accepted(&mut self, plan: &Plan, change: u8, bit: u8) {
        let (_, epoch) = State::ballot(plan, change);
        let members = self.members(plan, epoch);
        let stage = &mut self.changes[usize::from(change)].stage;
        if let Stage::Proposed { next, accepts } = stage {
            *accepts |= 1 << bit;
            if (*accepts & members).count_ones() >= quorum(members) {
                let next = *next;
                *stage = Stage::Decided { next };
                let Next { members, start, .. } = next;
                self.send(Msg::Install { epoch: epoch + 1, members, start });
            }
        }
    }

    /// A replica hears of a decided view.
    pub(super) fn install(&mut self, plan: &Plan, node: u8, epoch: u8, members: Mask, start: Rec) -> bool {
        if !self.is_one_of(node, members) || plan.deaf & 1 << node != 0 {
            return false;
        }
        let now = &mut self.nodes[usize::from(node)].now;
        if now.epoch != NO_EPOCH && now.epoch >= epoch {
            return false;
        }
        let keeps = !plan.has(Left::Merge);
        let caught_up = now.rec == start || keeps;
        let rec = if caught_up { now.rec } else { Rec::default() };
        *now = Kept { epoch, members, start, caught_up, rec, ..Kept::empty(now.born) };
        true
    }

    /// The state another has for a replica that has not caught up.
    fn offer(&self, from: u8, to: u8) -> Option<Rec> {
        let source = self.nodes[usize::from(from)].now;
        let now = &self.nodes[usize::from(to)].now;
        let has = source.epoch == now.epoch && source.caught_up
            || source.frozen && source.epoch + 1 == now.epoch && source.rec == now.start;
        (!now.caught_up && now.members != 0 && has).then_some(source.rec)
    }

    /// A replica that has not caught up gets the state from another, or asks for it, where answers take their time.
    pub(super) fn pull(&mut self, plan: &Plan, from: u8, to: u8) -> bool {
        let Some(rec) = self.offer(from, to) else { return false };
        let now = &mut self.nodes[usize::from(to)].now;
        let epoch = now.epoch;
        if plan.slow_states {
            self.send(Msg::State { epoch, to, rec });
        } else {
            now.rec = rec;
            now.caught_up = true;
        }
        true
    }

    /// The state that a replica has asked for arrives.
    pub(super) fn take_state(&mut self, plan: &Plan, node: u8, epoch: u8, rec: Rec) -> bool {
        let now = &mut self.nodes[usize::from(node)].now;
        if now.members == 0 || now.epoch != epoch || now.caught_up && plan.has(Left::LateState) {
            return false;
        }
        now.rec = rec.max(now.rec);
        now.caught_up = true;
        true
    }

    /// A removed member drops what it holds, if a quorum of the next view has caught up.
    pub(super) fn forget(&mut self, node: u8) -> bool {
        let now = self.nodes[usize::from(node)].now;
        let next = self.installs().find(|(epoch, ..)| *epoch == now.epoch + 1);
        let Some((epoch, members, _)) = next else { return false };
        if self.is_one_of(node, members) {
            return false;
        }
        let up = |node: &u8| {
            let now = &self.nodes[usize::from(*node)].now;
            self.is_one_of(*node, members) && now.members != 0 && now.epoch >= epoch && now.caught_up
        };
        let up = (0..self.nodes.len() as u8).filter(up).count();
        if (up as u32) < quorum(members) {
            return false;
        }
        self.nodes[usize::from(node)].now = Kept::empty(now.born);
        true
    }

    /// A node starts again with what its disk has. What it was asked for is over.
    pub(super) fn crash(&mut self, plan: &Plan, node: u8) -> bool {
        if self.crashes == 0 {
            return false;
        }
        self.crashes -= 1;
        let replica = &mut self.nodes[usize::from(node)];
        replica.now = replica.disk.unwrap_or(replica.now);
        replica.owed.clear();
        self.drop_work(plan, node);
        true
    }

    /// A node loses its disk.
    pub(super) fn amnesia(&mut self, plan: &Plan, node: u8) -> bool {
        let old = self.nodes[usize::from(node)].now;
        if self.amnesias == 0 || old.members == 0 || old.born > 0 {
            return false;
        }
        self.amnesias -= 1;
        let now = if plan.has(Left::Born) {
            Kept::empty(old.born + 1)
        } else {
            // It is told of its view, and takes itself for the member it was.
            Kept { epoch: old.epoch, members: old.members, caught_up: true, ..Kept::empty(old.born) }
        };
        let replica = &mut self.nodes[usize::from(node)];
        replica.now = now;
        replica.disk = replica.disk.map(|_| now);
        replica.owed.clear();
        self.drop_work(plan, node);
        true
    }

    fn drop_work(&mut self, plan: &Plan, node: u8) {
        for (op, asked) in self.ops.iter_mut().zip(plan.ops) {
            let coordinator = usize::from(asked.1);
            if plan.coordinators[coordinator] == node && !plan.has(Left::NumbersLast) {
                self.seen[coordinator] = 0;
            }
            if plan.coordinators[coordinator] == node && op.phase.epoch().is_some() {
                op.phase = Phase::Unknown;
            }
        }
        for (change, proposal) in self.changes.iter_mut().zip(plan.changes) {
            // What was sent stays on its way.
            if proposal.by == node && matches!(change.stage, Stage::Freezing | Stage::Holding { .. }) {
                change.stage = Stage::Dead;
            }
        }
    }
}
