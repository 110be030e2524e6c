//! The data operations: what a replica does with a message, what a coordinator does with answers.

use super::Left;
use super::linear;
use super::plan::{Kind, Plan};
use super::state::{Goal, Mask, Msg, NODES, Phase, Rec, Replies, Reply, State, quorum, quorums};

impl State {
    /// Whether a replica acts on data messages of an epoch.
    pub(super) fn serves(&self, plan: &Plan, node: u8, epoch: u8) -> bool {
        let now = &self.nodes[usize::from(node)].now;
        now.epoch == epoch
            && self.is_one_of(node, now.members)
            && (!now.frozen || !plan.has(Left::Freeze))
            && (now.caught_up || !plan.has(Left::CaughtUp))
            && plan.deaf & 1 << node == 0
    }

    /// Delivers a data message. Says whether anything came of it.
    pub(super) fn deliver(&mut self, plan: &Plan, msg: Msg, node: u8) -> bool {
        let bit = self.bit(node);
        match msg {
            Msg::Accept { op, epoch, rec, plain } => {
                if !self.serves(plan, node, epoch) {
                    return false;
                }
                let now = &mut self.nodes[usize::from(node)].now;
                let bound = !plain || plan.has(Left::PromiseBindsPlain);
                if now.rec.ballot != rec.ballot {
                    if rec.ballot < now.rec.ballot || bound && rec.ballot < now.promised {
                        return false;
                    }
                    now.rec = rec;
                }
                self.answer(plan, node, Reply::Ack { op, epoch, ballot: rec.ballot, bit });
            }
            Msg::Prepare { op, epoch, ballot } => {
                if !self.serves(plan, node, epoch) {
                    return false;
                }
                let now = &mut self.nodes[usize::from(node)].now;
                if ballot <= now.promised || ballot <= now.rec.ballot {
                    return false;
                }
                now.promised = ballot;
                let rec = now.rec;
                self.answer(plan, node, Reply::Promise { op, epoch, ballot, bit, rec });
            }
            Msg::State { epoch, to, rec } => return node == to && self.take_state(plan, node, epoch, rec),
            Msg::Install { epoch, members, start } => return self.install(plan, node, epoch, members, start),
        }
        true
    }

    /// Asks a replica for a read.
    pub(super) fn ask(&mut self, plan: &Plan, op: u8, node: u8) -> bool {
        let turn = self.ops[usize::from(op)].turn;
        let Phase::Query { epoch, replies } = self.ops[usize::from(op)].phase else { return false };
        let bit = self.bit(node);
        if replies[usize::from(bit)].is_some() || !self.serves(plan, node, epoch) {
            return false;
        }
        let rec = self.nodes[usize::from(node)].now.rec;
        self.answer(plan, node, Reply::Has { op, epoch, turn, bit, rec });
        true
    }

    /// A coordinator makes a number greater than all it has seen.
    fn number(&mut self, plan: &Plan, op: u8) -> u8 {
        let coordinator = plan.ops[usize::from(op)].1;
        let node = usize::from(plan.coordinators[usize::from(coordinator)]);
        let now = &self.nodes[node].now;
        let seen = &mut self.seen[usize::from(coordinator)];
        let most = (*seen).max(now.rec.ballot).max(now.promised);
        *seen = (most / 2 + 1) * 2 + coordinator;
        *seen
    }

    fn has_seen(&mut self, plan: &Plan, op: u8, rec: Rec) {
        let seen = &mut self.seen[usize::from(plan.ops[usize::from(op)].1)];
        *seen = rec.ballot.max(*seen);
    }

    /// A client asks.
    pub(super) fn invoke(&mut self, plan: &Plan, op: u8) -> bool {
        let at = usize::from(op);
        let (kind, coordinator) = plan.ops[at];
        let node = plan.coordinators[usize::from(coordinator)];
        let now = self.nodes[usize::from(node)].now;
        let done = |op: u8| self.ops[usize::from(op)].phase.is_complete();
        if self.ops[at].phase != Phase::Idle
            || !self.is_one_of(node, now.members)
            || plan.late & 1 << at != 0 && now.epoch == 0
            || plan.order.iter().any(|(first, then)| *then == op && !done(*first))
        {
            return false;
        }
        if let Kind::CasAfter(write) = kind {
            let Phase::Ok { version, .. } = self.ops[usize::from(write)].phase else { return false };
            self.ops[at].expects = version;
        }
        let complete = (0..self.ops.len()).filter(|op| self.ops[*op].phase.is_complete());
        self.ops[at].after = complete.fold(0, |set, op| set | 1 << op);
        self.ops[at].began_in = now.epoch;
        self.begin(plan, op, now.epoch);
        true
    }

    /// Begins an operation, or begins it again, in an epoch.
    fn begin(&mut self, plan: &Plan, op: u8, epoch: u8) {
        let at = usize::from(op);
        match plan.ops[at].0 {
            Kind::Write => {
                let version = self.number(plan, op);
                let rec = Rec { ballot: version, version, op: op + 1 };
                self.ops[at].phase = Phase::Write { epoch, rec, acks: [0; 3] };
                self.send(Msg::Accept { op, epoch, rec, plain: true });
            }
            Kind::Read => self.ops[at].phase = Phase::Query { epoch, replies: [None; 2 * NODES] },
            Kind::CasFirst | Kind::CasAfter(_) => self.prepare(plan, op, epoch),
        }
    }

    fn prepare(&mut self, plan: &Plan, op: u8, epoch: u8) {
        let ballot = self.number(plan, op);
        self.ops[usize::from(op)].phase = Phase::Prepare { epoch, ballot, promises: [None; 2 * NODES] };
        self.send(Msg::Prepare { op, epoch, ballot });
    }

    fn propose_rec(&mut self, op: u8, epoch: u8, rec: Rec, goal: Goal, acks: Mask) {
        let it = &mut self.ops[usize::from(op)];
        it.phase = Phase::Accept { epoch, rec, acks, goal };
        it.sent |= goal == Goal::Own;
        it.repaired |= goal == Goal::Return;
        self.send(Msg::Accept { op, epoch, rec, plain: false });
    }

    /// An operation hears of a newer epoch.
    pub(super) fn moves(&mut self, plan: &Plan, op: u8, to: u8) -> bool {
        let at = usize::from(op);
        let phase = self.ops[at].phase;
        if phase.epoch().is_none_or(|epoch| epoch >= to) {
            return false;
        }
        match phase {
            Phase::Write { rec, acks, .. } => {
                self.ops[at].phase = Phase::Write { epoch: to, rec, acks };
                self.send(Msg::Accept { op, epoch: to, rec, plain: true });
            }
            Phase::Accept { rec, goal: goal @ Goal::Own, .. } if !plan.has(Left::CasStartsOver) => {
                self.propose_rec(op, to, rec, goal, 0);
            }
            Phase::Accept { rec, goal: goal @ Goal::Return, .. } if !plan.has(Left::ReadStartsOver) => {
                self.propose_rec(op, to, rec, goal, 0);
            }
            _ => {
                self.ops[at].turn += 1;
                self.begin(plan, op, to);
            }
        }
        true
    }

    /// An operation starts over in its epoch, because it was refused or heard nothing.
    pub(super) fn retry(&mut self, plan: &Plan, op: u8) -> bool {
        let at = usize::from(op);
        if self.ops[at].turn >= plan.turns {
            return false;
        }
        let (kind, phase) = (plan.ops[at].0, self.ops[at].phase);
        match phase {
            Phase::Accept { epoch, .. } | Phase::Prepare { epoch, .. } => {
                self.ops[at].turn += 1;
                if kind == Kind::Read && plan.has(Left::ReadPrepares) {
                    self.prepare(plan, op, epoch);
                } else {
                    self.begin(plan, op, epoch);
                }
                true
            }
            _ => false,
        }
    }

    /// The quorums of answers an operation can look at.
    pub(super) fn choices(&self, plan: &Plan, op: u8) -> Vec<Mask> {
        let (epoch, replies) = match self.ops[usize::from(op)].phase {
            Phase::Prepare { epoch, promises, .. } => (epoch, promises),
            Phase::Query { epoch, replies } => (epoch, replies),
            _ => return Vec::new(),
        };
        let answered = replies.iter().enumerate().filter(|(_, reply)| reply.is_some());
        let answered = answered.fold(0, |set, (bit, _)| set | 1 << bit);
        quorums(self.members(plan, epoch), answered).collect()
    }

    /// An operation looks at the answers of a quorum.
    pub(super) fn choose(&mut self, plan: &Plan, op: u8, quorum: Mask) -> bool {
        let at = usize::from(op);
        match self.ops[at].phase {
            Phase::Query { epoch, replies } => {
                let (highest, having, same) = highest(&replies, quorum);
                self.has_seen(plan, op, highest);
                if same || !plan.has(Left::WriteBack) {
                    self.complete(plan, op, Phase::Read { op: highest.op });
                } else {
                    self.propose_rec(op, epoch, highest, Goal::Return, having);
                }
            }
            Phase::Prepare { epoch, ballot, promises } => {
                let (highest, _, same) = highest(&promises, quorum);
                self.has_seen(plan, op, highest);
                let version = if plan.has(Left::KeepVersion) { highest.version } else { ballot };
                let again = Rec { ballot, version, op: highest.op };
                let it = self.ops[at];
                if plan.ops[at].0 == Kind::Read {
                    self.propose_rec(op, epoch, again, Goal::Return, 0);
                } else if highest.op == op + 1 {
                    self.propose_rec(op, epoch, again, Goal::Own, 0);
                } else if highest.version == it.expects {
                    let own = Rec { ballot, version: ballot, op: op + 1 };
                    self.propose_rec(op, epoch, own, Goal::Own, 0);
                } else if it.sent {
                    self.ops[at].phase = Phase::Unknown;
                } else if same {
                    self.complete(plan, op, Phase::Failed);
                } else {
                    self.propose_rec(op, epoch, again, Goal::Fail, 0);
                }
            }
            _ => return false,
        }
        true
    }

    /// A replica has acknowledged an accept.
    pub(super) fn acked(&mut self, plan: &Plan, op: u8, epoch: u8, ballot: u8, bit: u8) {
        let members = self.members(plan, epoch);
        let enough = |acks: Mask| (acks & members).count_ones() >= quorum(members);
        let at = usize::from(op);
        match &mut self.ops[at].phase {
            Phase::Write { rec, acks, .. } => {
                let version = rec.version;
                let acks = &mut acks[usize::from(epoch)];
                *acks |= 1 << bit;
                if enough(*acks) {
                    self.complete(plan, op, Phase::Ok { epoch, version });
                }
            }
            Phase::Accept { epoch: now, rec, acks, goal } if (*now, rec.ballot) == (epoch, ballot) => {
                *acks |= 1 << bit;
                // A conditional write may miss that it is done; for the others that makes no difference.
                if enough(*acks) && *goal == Goal::Return {
                    let op_read = rec.op;
                    self.complete(plan, op, Phase::Read { op: op_read });
                }
            }
            _ => {}
        }
    }

    /// A conditional write notices that a quorum has acknowledged.
    pub(super) fn finish(&mut self, plan: &Plan, op: u8) -> bool {
        let Phase::Accept { epoch, rec, acks, goal } = self.ops[usize::from(op)].phase else { return false };
        let members = self.members(plan, epoch);
        if (acks & members).count_ones() < quorum(members) {
            return false;
        }
        let phase = if goal == Goal::Own { Phase::Ok { epoch, version: rec.version } } else { Phase::Failed };
        self.complete(plan, op, phase);
        true
    }

    fn complete(&mut self, plan: &Plan, op: u8, phase: Phase) {
        self.ops[usize::from(op)].phase = phase;
        self.linear &= linear::explains(plan, self);
    }
}

/// The highest record in a quorum of answers, who has it, and whether all do.
fn highest(replies: &Replies, quorum: Mask) -> (Rec, Mask, bool) {
    let of = |bit: &usize| quorum & 1 << bit != 0;
    let highest = (0..replies.len()).filter(of).filter_map(|bit| replies[bit]).max().unwrap_or_default();
    let having = (0..replies.len()).filter(of).filter(|bit| replies[*bit] == Some(highest));
    let having = having.fold(0, |set, bit| set | 1 << bit);
    (highest, having, having == quorum)
}
