//! What a world is made of.

use super::plan::Plan;

/// A set of members: bit `node` for a node as it was first born, bit `node + NODES` for its second birth.
pub(super) type Mask = u8;

/// How many nodes there can be.
pub(super) const NODES: usize = 4;

/// An epoch no view has.
pub(super) const NO_EPOCH: u8 = 9;

/// How many members are a quorum.
pub(super) fn quorum(members: Mask) -> u32 {
    members.count_ones() / 2 + 1
}

/// All smallest quorums of `members` that lie within `of`.
pub(super) fn quorums(members: Mask, of: Mask) -> impl Iterator<Item = Mask> {
    let of = of & members;
    (1..=of).filter(move |part| part & !of == 0 && part.count_ones() == quorum(members))
}

/// What a replica has accepted for the key. Ordered by ballot first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Rec {
    pub(super) ballot: u8,
    /// What clients know it by. The ballot it was first proposed with, if versions are kept.
    pub(super) version: u8,
    /// The operation that wrote it, counted from 1. 0 is what was there at the start.
    pub(super) op: u8,
}

/// A next view as a replica has accepted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Next {
    pub(super) ballot: u8,
    pub(super) members: Mask,
    pub(super) start: Rec,
}

/// What a replica keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    pub(super) born: u8,
    pub(super) epoch: u8,
    pub(super) members: Mask,
    /// The state the installed view starts from.
    pub(super) start: Rec,
    pub(super) caught_up: bool,
    pub(super) frozen: bool,
    pub(super) view_promised: u8,
    pub(super) view_accepted: Option<Next>,
    pub(super) rec: Rec,
    pub(super) promised: u8,
}

impl Kept {
    pub(super) fn empty(born: u8) -> Kept {
        Kept {
            born,
            epoch: NO_EPOCH,
            members: 0,
            start: Rec::default(),
            caught_up: false,
            frozen: false,
            view_promised: 0,
            view_accepted: None,
            rec: Rec::default(),
            promised: 0,
        }
    }
}

/// A replica: what it has now, and, where syncing is a step of its own, what the disk has and who waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Replica {
    pub(super) now: Kept,
    pub(super) disk: Option<Kept>,
    pub(super) owed: Vec<Reply>,
}

/// What a replica answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Ack { op: u8, epoch: u8, ballot: u8, bit: u8 },
    Promise { op: u8, epoch: u8, ballot: u8, bit: u8, rec: Rec },
    Has { op: u8, epoch: u8, turn: u8, bit: u8, rec: Rec },
    Frozen { change: u8, bit: u8, rec: Rec, accepted: Option<Next> },
    Holds { change: u8, bit: u8 },
    Accepted { change: u8, bit: u8 },
}

/// What can still be delivered to anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Msg {
    Accept { op: u8, epoch: u8, rec: Rec, plain: bool },
    Prepare { op: u8, epoch: u8, ballot: u8 },
    Install { epoch: u8, members: Mask, start: Rec },
    State { epoch: u8, to: u8, rec: Rec },
}

/// One record of each member that has answered.
pub(super) type Replies = [Option<Rec>; 2 * NODES];

/// Why a coordinator has sent an accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    /// It is the operation's own write.
    Own,
    /// It is another's, and with that the condition has failed.
    Fail,
    /// It is what a read will return.
    Return,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// A plain write; acks of every epoch it was sent in.
    Write {
        epoch: u8,
        rec: Rec,
        acks: [Mask; 3],
    },
    Prepare {
        epoch: u8,
        ballot: u8,
        promises: Replies,
    },
    Accept {
        epoch: u8,
        rec: Rec,
        acks: Mask,
        goal: Goal,
    },
    Query {
        epoch: u8,
        replies: Replies,
    },
    /// Written, acknowledged in this epoch, with this version.
    Ok {
        epoch: u8,
        version: u8,
    },
    /// The condition did not hold.
    Failed,
    /// This operation's value was read.
    Read {
        op: u8,
    },
    /// Its outcome will not be known.
    Unknown,
}

impl Phase {
    pub(super) fn is_complete(self) -> bool {
        matches!(self, Phase::Ok { .. } | Phase::Failed | Phase::Read { .. })
    }

    /// The epoch of an operation under way.
    pub(super) fn epoch(self) -> Option<u8> {
        match self {
            Phase::Write { epoch, .. }
            | Phase::Prepare { epoch, .. }
            | Phase::Accept { epoch, .. }
            | Phase::Query { epoch, .. } => Some(epoch),
            _ => None,
        }
    }
}

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Op {
    pub(super) phase: Phase,
    /// Which operations were complete when it began.
    pub(super) after: u8,
    pub(super) began_in: u8,
    /// How often it has started over.
    pub(super) turn: u8,
    /// Whether a conditional write has sent an accept of its own value.
    pub(super) sent: bool,
    /// The version a conditional write expects.
    pub(super) expects: u8,
    /// Whether a read wrote back.
    pub(super) repaired: bool,
}

/// How far a proposed change of the view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Freezing,
    Holding { quorum: Mask, next: Next, holds: Mask },
    Proposed { next: Next, accepts: Mask },
    Decided { next: Next },
    Dead,
}

/// A proposed change of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) stage: Stage,
    pub(super) frozen: [Option<(Rec, Option<Next>)>; 2 * NODES],
}

/// A world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) nodes: Vec<Replica>,
    pub(super) ops: Vec<Op>,
    pub(super) changes: Vec<Change>,
    /// In order, each once.
    pub(super) net: Vec<Msg>,
    /// The highest number each of the two coordinators has seen.
    pub(super) seen: [u8; 2],
    pub(super) crashes: u8,
    pub(super) amnesias: u8,
    /// Whether the history so far can be explained. Looked at when an operation completes.
    pub(super) linear: bool,
}

impl State {
    pub(super) fn new(plan: &Plan) -> State {
        let node = |node: usize| {
            let member = plan.members & 1 << node != 0;
            let mut now = Kept::empty(0);
            if member {
                now = Kept { epoch: 0, members: plan.members, caught_up: true, ..now };
            }
            if let Some((_, ballot, promised)) = plan.ready.iter().find(|(at, _, _)| usize::from(*at) == node)
            {
                now.rec = Rec { ballot: *ballot, version: 0, op: 0 };
                now.promised = *promised;
            }
            let disk = plan.sync.then_some(now);
            Replica { now, disk, owed: Vec::new() }
        };
        let op = Op {
            phase: Phase::Idle,
            after: 0,
            began_in: 0,
            turn: 0,
            sent: false,
            expects: 0,
            repaired: false,
        };
        let change = Change { stage: Stage::Idle, frozen: [None; 2 * NODES] };
        State {
            nodes: (0..NODES).map(node).collect(),
            ops: vec![op; plan.ops.len()],
            changes: vec![change; plan.changes.len()],
            net: Vec::new(),
            seen: [0; 2],
            crashes: plan.crashes,
            amnesias: plan.amnesias,
            linear: true,
        }
    }

    pub(super) fn send(&mut self, msg: Msg) {
        if let Err(at) = self.net.binary_search(&msg) {
            self.net.insert(at, msg);
        }
    }

    /// The number of the member a node is in its present life.
    pub(super) fn bit(&self, node: u8) -> u8 {
        node + self.nodes[usize::from(node)].now.born * NODES as u8
    }

    /// Whether a node, as it is now, is one of these members.
    pub(super) fn is_one_of(&self, node: u8, members: Mask) -> bool {
        members & 1 << self.bit(node) != 0
    }

    /// The decided views that somebody could have heard of, newest last.
    pub(super) fn installs(&self) -> impl Iterator<Item = (u8, Mask, Rec)> + '_ {
        self.net.iter().filter_map(|msg| match *msg {
            Msg::Install { epoch, members, start } => Some((epoch, members, start)),
            _ => None,
        })
    }

    /// The members of an epoch's view.
    pub(super) fn members(&self, plan: &Plan, epoch: u8) -> Mask {
        if epoch == 0 {
            return plan.members;
        }
        self.installs().find(|install| install.0 == epoch).map_or(0, |install| install.1)
    }

    /// Hands an answer over, at once or once the disk has it.
    pub(super) fn answer(&mut self, plan: &Plan, node: u8, reply: Reply) {
        let replica = &mut self.nodes[usize::from(node)];
        if replica.disk.is_some_and(|disk| disk != replica.now) && !plan.answers_early() {
            if !replica.owed.contains(&reply) {
                replica.owed.push(reply);
            }
        } else {
            self.take(plan, reply);
        }
    }

    /// The disk has everything now.
    pub(super) fn sync(&mut self, plan: &Plan, node: u8) -> bool {
        let replica = &mut self.nodes[usize::from(node)];
        if replica.disk.is_none_or(|disk| disk == replica.now) {
            return false;
        }
        replica.disk = Some(replica.now);
        for reply in std::mem::take(&mut replica.owed) {
            self.take(plan, reply);
        }
        true
    }

    fn take(&mut self, plan: &Plan, reply: Reply) {
        match reply {
            Reply::Ack { op, epoch, ballot, bit } => self.acked(plan, op, epoch, ballot, bit),
            Reply::Promise { op, epoch, ballot, bit, rec } => {
                if let Phase::Prepare { epoch: now, ballot: b, promises } =
                    &mut self.ops[usize::from(op)].phase
                    && (*now, *b) == (epoch, ballot)
                {
                    promises[usize::from(bit)] = Some(rec);
                }
            }
            Reply::Has { op, epoch, turn, bit, rec } => {
                let op = &mut self.ops[usize::from(op)];
                if let Phase::Query { epoch: now, replies } = &mut op.phase
                    && (*now, op.turn) == (epoch, turn)
                {
                    replies[usize::from(bit)].get_or_insert(rec);
                }
            }
            Reply::Frozen { change, bit, rec, accepted } => {
                let change = &mut self.changes[usize::from(change)];
                if change.stage == Stage::Freezing {
                    change.frozen[usize::from(bit)] = Some((rec, accepted));
                }
            }
            Reply::Holds { change, bit } => self.held(plan, change, bit),
            Reply::Accepted { change, bit } => self.accepted(plan, change, bit),
        }
    }
}
