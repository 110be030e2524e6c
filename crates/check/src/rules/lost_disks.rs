//! View changes in which members have lost their disks.
//!
//! A view decision has three phases (freeze, settle, propose), and each is complete when a quorum has answered. The rule
//! checked here adds: a phase is also complete when every member that did not answer is known to have lost its disk and
//! at least n-q+1 of those that did had caught up with the epoch. Any q and any n-q+1 members have one in common, so
//! these members know every acknowledged write and every view that may have been decided.
//!
//! The view change is the one that ships: a proposer freezes, merges the states in place, lets members settle on the
//! result in place, then proposes. Members that have not caught up may promise and accept.

use stateright::{Model, Property};

use super::quorum;

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A phase can be complete without a quorum at all.
    Survivors,
    /// Without a quorum, at least n-q+1 members answered.
    Enough,
    /// Those n-q+1 had caught up, and so has the proposer.
    CaughtUp,
    /// Without a quorum, every other member is known to have lost its disk.
    EveryOther,
    /// A member is known to have lost its disk by an answer to a question that was asked in this epoch. Without it, any
    /// message of the node that names another disk will do, also one of an earlier life.
    AskedNow,
    /// An answer names the disk: a node with a new disk does not answer for the member it was.
    DiskNumber,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 6] =
        [Left::Survivors, Left::Enough, Left::CaughtUp, Left::EveryOther, Left::AskedNow, Left::DiskNumber];
}

/// Members, as bits: bit n + 4 d is node n with its disk number d.
pub type Members = u16;

const NODES: usize = 4;

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its name.
    pub name: &'static str,
    /// How many nodes there are.
    pub nodes: u8,
    /// The members of the first view.
    pub members: Members,
    /// Members of the first view that have not caught up with it. If there are any, it began with the first write.
    pub behind: Members,
    /// What may be proposed: the proposer, the epoch it ends, the members it wants. Each once; ballots rise in this order.
    pub proposals: &'static [(u8, u8, Members)],
    /// How many writes there are.
    pub writes: u8,
    /// How many disks may be lost.
    pub losses: u8,
    /// The nodes, as bits, that may lose theirs.
    pub losers: u8,
    /// How many nodes may crash and restart.
    pub crashes: u8,
    /// Whether receivers remember the lives they have seen and refuse messages of earlier ones. Counts only without
    /// [`Left::AskedNow`].
    pub remembers: bool,
    /// The rules that are left out.
    pub left: &'static [Left],
}

impl Plan {
    const BASE: Plan = Plan {
        name: "",
        nodes: 2,
        members: 0b0011,
        behind: 0,
        proposals: &[],
        writes: 1,
        losses: 1,
        losers: 0b1111,
        crashes: 0,
        remembers: false,
        left: &[],
    };

    /// Finds a world by its name.
    pub fn named(name: &str) -> Option<Plan> {
        PLANS.iter().chain(LARGE).find(|plan| plan.name == name).copied()
    }

    /// The same without some rules.
    pub fn without(self, left: &'static [Left]) -> Plan {
        Plan { left, ..self }
    }

    fn has(&self, rule: Left) -> bool {
        !self.left.contains(&rule)
    }
}

/// Worlds that are soon searched to the end.
pub const PLANS: &[Plan] = &[
    // Two members: the survivor decides, and takes the other one in again.
    Plan {
        name: "two",
        nodes: 3,
        proposals: &[(0, 0, 0b0010_0001), (1, 0, 0b0001_0010), (0, 0, 0b0101), (0, 1, 0b0101)],
        writes: 2,
        losses: 2,
        crashes: 1,
        ..Plan::BASE
    },
    // Two members, one of which has not caught up yet.
    Plan {
        name: "two-behind",
        nodes: 2,
        behind: 0b0010,
        proposals: &[(0, 0, 0b0010_0001), (1, 0, 0b0001_0010)],
        writes: 2,
        losses: 2,
        crashes: 1,
        ..Plan::BASE
    },
    // Two members, and the one that was taken in again outlives the other.
    Plan {
        name: "two-again",
        nodes: 3,
        proposals: &[(0, 0, 0b0010_0001), (0, 1, 0b0101), (1, 1, 0b0011_0000)],
        losses: 2,
        crashes: 1,
        ..Plan::BASE
    },
    // Three members: two lost disks are too many.
    Plan {
        name: "three",
        nodes: 3,
        members: 0b0111,
        proposals: &[(0, 0, 0b0010_0001), (1, 0, 0b0100_0010), (0, 0, 0b0001)],
        losses: 2,
        crashes: 1,
        ..Plan::BASE
    },
    // Four members: two may go.
    Plan { name: "four", nodes: 4, members: 0b1111, proposals: &[(0, 0, 0b0011)], losses: 3, ..Plan::BASE },
];

/// Worlds that take minutes.
pub const LARGE: &[Plan] = &[
    Plan {
        name: "two-again-rivals",
        nodes: 3,
        proposals: &[(0, 0, 0b0010_0001), (0, 1, 0b0101), (1, 1, 0b0010_0100), (1, 1, 0b0011_0000)],
        writes: 2,
        losses: 2,
        crashes: 1,
        ..Plan::BASE
    },
    Plan {
        name: "four-rivals",
        nodes: 4,
        members: 0b1111,
        proposals: &[(0, 0, 0b0011), (2, 0, 0b1100)],
        losses: 2,
        losers: 0b1100,
        ..Plan::BASE
    },
];

/// What a member keeps on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Disk {
    epoch: u8,
    members: Members,
    /// The state its epoch began with.
    start: u8,
    promised: u8,
    accepted: Option<(u8, Next)>,
    /// The greatest write it has.
    rec: u8,
    caught_up: bool,
}

const EMPTY: Disk =
    Disk { epoch: 0, members: 0, start: 0, promised: 0, accepted: None, rec: 0, caught_up: false };

/// What follows an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Next {
    members: Members,
    start: u8,
}

/// What a frozen member told: its state, whether it had caught up, what it had accepted.
type Told = (u8, bool, Option<(u8, Next)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    Over,
    Freezing { frozen: [Option<Told>; NODES] },
    Settling { state: u8, found: Option<Next>, counts: u8, settled: u8 },
    Proposing { next: Next, counts: u8, accepted: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// The number of its disk.
    number: u8,
    disk: Disk,
    /// Members of its epoch that it knows to have lost their disks. In memory.
    lost: Members,
    /// The greatest disk number it has seen of each node. In memory.
    seen: [u8; NODES],
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: Vec<Node>,
    stages: Vec<Stage>,
    /// Decisions: the epoch that begins, its members and the state it begins with.
    decided: Vec<(u8, Next)>,
    /// Who has stored each write, by epoch.
    acks: [[u8; 3]; 2],
    acked: u8,
    losses: u8,
    crashes: u8,
    alone: bool,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are nodes, proposals, writes and disk numbers by their place")]
pub enum Act {
    /// A member stores a write and says so.
    Store { write: u8, node: u8 },
    /// A proposal begins.
    Propose(u8),
    /// A member promises a ballot.
    Freeze { proposal: u8, node: u8 },
    /// The proposer merges what it was told.
    Merge(u8),
    /// A member takes the merged state.
    Settle { proposal: u8, node: u8 },
    /// Enough members have it: the next view is proposed.
    Offer(u8),
    /// A member accepts the next view.
    Accept { proposal: u8, node: u8 },
    /// A node hears of a decided view.
    Install { decision: u8, node: u8 },
    /// A member catches up.
    Pull { from: u8, to: u8 },
    /// A node asks another one for its disk.
    Ask { node: u8, about: u8 },
    /// A node gets an old message in which another one names its disk.
    Hear { node: u8, about: u8, number: u8 },
    /// A node crashes and restarts.
    Crash(u8),
    /// A node restarts with an empty disk.
    Lose(u8),
}

fn bits(of: Members) -> u8 {
    let of = of | of >> 8;
    ((of | of >> 4) & 0b1111) as u8
}

impl State {
    fn new(plan: &Plan) -> State {
        let node = |node: u8| {
            let bit = 1 << node;
            let member = plan.members & bit != 0;
            let caught_up = plan.behind & bit == 0;
            let start = u8::from(plan.behind != 0);
            let rec = if caught_up { start } else { 0 };
            let disk = Disk { members: plan.members, start, rec, caught_up, ..EMPTY };
            Node { number: 0, disk: if member { disk } else { EMPTY }, lost: 0, seen: [0; NODES] }
        };
        State {
            nodes: (0..plan.nodes).map(node).collect(),
            stages: vec![Stage::Idle; plan.proposals.len()],
            decided: Vec::new(),
            acks: [[0; 3]; 2],
            acked: if plan.behind == 0 { 0 } else { 1 << 1 },
            losses: plan.losses,
            crashes: plan.crashes,
            alone: false,
        }
    }

    fn bit(&self, node: u8) -> Members {
        1 << (node + 4 * self.nodes[usize::from(node)].number)
    }

    /// Whether a node is a member of the view it knows.
    fn is_member(&self, node: u8) -> bool {
        self.nodes[usize::from(node)].disk.members & self.bit(node) != 0
    }

    /// Whether a node is a member of its view, in the eyes of others.
    fn answers(&self, plan: &Plan, node: u8, epoch: u8) -> bool {
        let disk = &self.nodes[usize::from(node)].disk;
        let member = if plan.has(Left::DiskNumber) {
            self.is_member(node)
        } else {
            bits(disk.members) & 1 << node != 0
        };
        disk.epoch == epoch && member
    }

    fn serves(&self, plan: &Plan, node: u8) -> bool {
        let disk = &self.nodes[usize::from(node)].disk;
        self.answers(plan, node, disk.epoch) && disk.caught_up && disk.promised == 0
    }

    /// Whether a phase is complete: `answered` are nodes, `counts` those of them that had caught up.
    fn is_complete(&self, plan: &Plan, by: u8, answered: u8, counts: u8) -> bool {
        let node = &self.nodes[usize::from(by)];
        let n = node.disk.members.count_ones();
        let q = quorum(n);
        if answered & 1 << by == 0 {
            return false;
        }
        if answered.count_ones() >= q {
            return true;
        }
        let others = bits(node.disk.members) & !answered;
        let enough = if plan.has(Left::CaughtUp) { counts & answered } else { answered };
        plan.has(Left::Survivors)
            && (others & !bits(node.lost) == 0 || !plan.has(Left::EveryOther))
            && (enough.count_ones() > n - q || !plan.has(Left::Enough))
    }

    fn store(&mut self, plan: &Plan, write: u8, node: u8) -> bool {
        if !self.serves(plan, node) {
            return false;
        }
        let disk = &mut self.nodes[usize::from(node)].disk;
        if disk.rec > write {
            return false;
        }
        disk.rec = write;
        let (epoch, members) = (disk.epoch, disk.members);
        let acks = &mut self.acks[usize::from(write - 1)][usize::from(epoch)];
        *acks |= 1 << node;
        if acks.count_ones() >= quorum(members.count_ones()) {
            self.acked |= 1 << write;
        }
        true
    }

    fn propose(&mut self, plan: &Plan, proposal: u8) -> bool {
        let (by, epoch, wish) = plan.proposals[usize::from(proposal)];
        let node = &self.nodes[usize::from(by)];
        let fits = (0..plan.nodes).all(|n| {
            let known = 1 << (n + 4 * self.nodes[usize::from(n)].number);
            // Members are taken in with a disk that the proposer has heard of.
            let wished = wish & 0b1_0001_0001 << n;
            wished == 0 || wished == known || wished & node.disk.members != 0
        });
        let free = |stage: &Stage| matches!(stage, Stage::Idle | Stage::Over);
        let others = plan.proposals.iter().zip(&self.stages).all(|(p, stage)| p.0 != by || free(stage));
        if self.stages[usize::from(proposal)] != Stage::Idle
            || !self.is_member(by)
            || node.disk.epoch != epoch
            || !node.disk.caught_up && plan.has(Left::CaughtUp)
            || node.disk.promised > proposal
            || !fits
            || !others
        {
            return false;
        }
        self.stages[usize::from(proposal)] = Stage::Freezing { frozen: [None; NODES] };
        true
    }

    fn freeze(&mut self, plan: &Plan, proposal: u8, node: u8) -> bool {
        let epoch = plan.proposals[usize::from(proposal)].1;
        if !self.answers(plan, node, epoch) {
            return false;
        }
        let Stage::Freezing { frozen } = &mut self.stages[usize::from(proposal)] else { return false };
        let disk = &mut self.nodes[usize::from(node)].disk;
        if disk.promised > proposal {
            return false;
        }
        disk.promised = proposal + 1;
        frozen[usize::from(node)] = Some((disk.rec, disk.caught_up, disk.accepted));
        true
    }

    fn merge(&mut self, plan: &Plan, proposal: u8) -> bool {
        let by = plan.proposals[usize::from(proposal)].0;
        let Stage::Freezing { frozen } = self.stages[usize::from(proposal)] else { return false };
        let told = || frozen.iter().enumerate().filter_map(|(node, told)| Some((node, (*told)?)));
        let answered = told().fold(0, |set, (node, _)| set | 1 << node);
        let counts = told().filter(|(_, told)| told.1).fold(0, |set, (node, _)| set | 1 << node);
        if !self.is_complete(plan, by, answered, counts) {
            return false;
        }
        let found = told().filter_map(|(_, told)| told.2).max().map(|(_, next)| next);
        let found = found.filter(|next| told().any(|(_, told)| told.0 == next.start));
        let merged = told().filter(|(_, told)| told.1).map(|(_, told)| told.0).max().unwrap_or_default();
        let state = found.map_or(merged, |next| next.start);
        self.stages[usize::from(proposal)] = Stage::Settling { state, found, counts, settled: 0 };
        true
    }

    fn settle(&mut self, proposal: u8, node: u8) -> bool {
        let member = self.is_member(node);
        let Stage::Settling { state, settled, .. } = &mut self.stages[usize::from(proposal)] else {
            return false;
        };
        let disk = &mut self.nodes[usize::from(node)].disk;
        if !member || disk.promised != proposal + 1 || *settled & 1 << node != 0 {
            return false;
        }
        disk.rec = *state;
        *settled |= 1 << node;
        true
    }

    fn offer(&mut self, plan: &Plan, proposal: u8) -> bool {
        let (by, _, wish) = plan.proposals[usize::from(proposal)];
        let Stage::Settling { state, found, counts, settled } = self.stages[usize::from(proposal)] else {
            return false;
        };
        if !self.is_complete(plan, by, settled, counts) {
            return false;
        }
        let next = found.unwrap_or(Next { members: wish, start: state });
        self.stages[usize::from(proposal)] = Stage::Proposing { next, counts, accepted: 0 };
        true
    }

    fn accept(&mut self, plan: &Plan, proposal: u8, node: u8) -> bool {
        let (by, epoch, _) = plan.proposals[usize::from(proposal)];
        if !self.answers(plan, node, epoch) {
            return false;
        }
        let Stage::Proposing { next, counts, accepted } = self.stages[usize::from(proposal)] else {
            return false;
        };
        let disk = &mut self.nodes[usize::from(node)].disk;
        if disk.promised > proposal + 1 || accepted & 1 << node != 0 {
            return false;
        }
        disk.promised = proposal + 1;
        disk.accepted = Some((proposal + 1, next));
        let accepted = accepted | 1 << node;
        self.stages[usize::from(proposal)] = Stage::Proposing { next, counts, accepted };
        self.decide(plan, proposal, by, epoch);
        true
    }

    /// Decides a proposal, if enough have accepted it.
    fn decide(&mut self, plan: &Plan, proposal: u8, by: u8, epoch: u8) {
        let Stage::Proposing { next, counts, accepted } = self.stages[usize::from(proposal)] else { return };
        if self.nodes[usize::from(by)].disk.epoch != epoch || !self.is_complete(plan, by, accepted, counts) {
            return;
        }
        let members = self.nodes[usize::from(by)].disk.members;
        self.alone |= accepted.count_ones() < quorum(members.count_ones());
        let decision = (epoch + 1, next);
        if !self.decided.contains(&decision) {
            self.decided.push(decision);
            self.decided.sort_unstable();
        }
        self.stages[usize::from(proposal)] = Stage::Over;
    }

    fn install(&mut self, decision: u8, node: u8) -> bool {
        let (epoch, next) = self.decided[usize::from(decision)];
        let bit = self.bit(node);
        let it = &mut self.nodes[usize::from(node)];
        let disk = it.disk;
        if disk.members != 0 && disk.epoch >= epoch || next.members & bit == 0 {
            return false;
        }
        let caught_up = disk.members != 0 && disk.rec == next.start;
        let rec = if caught_up { disk.rec } else { 0 };
        it.disk = Disk { epoch, members: next.members, start: next.start, rec, caught_up, ..EMPTY };
        it.lost = 0;
        true
    }

    fn pull(&mut self, from: u8, to: u8) -> bool {
        let source = self.nodes[usize::from(from)].disk;
        let (from, to) = (self.is_member(from), usize::from(to));
        let disk = &mut self.nodes[to].disk;
        let same = source.epoch == disk.epoch && source.members == disk.members && source.caught_up;
        let before = source.promised != 0
            && source.epoch + 1 == disk.epoch
            && source.rec == disk.start
            && source.caught_up;
        if !from || disk.members == 0 || disk.caught_up || !(same || before) {
            return false;
        }
        disk.rec = source.rec;
        disk.caught_up = true;
        true
    }

    /// A node hears that another one has this disk.
    fn hear(&mut self, plan: &Plan, node: u8, about: u8, number: u8) -> bool {
        if node == about || !self.is_member(node) {
            return false;
        }
        let it = &mut self.nodes[usize::from(node)];
        let seen = &mut it.seen[usize::from(about)];
        if plan.remembers {
            if number < *seen {
                return false;
            }
            *seen = number;
        }
        let member = it.disk.members & 0b1_0001_0001 << about;
        if member == 0 || member == 1 << (about + 4 * number) {
            return plan.remembers;
        }
        it.lost |= member;
        true
    }

    fn restart(&mut self, plan: &Plan, node: u8) {
        let it = &mut self.nodes[usize::from(node)];
        (it.lost, it.seen) = (0, [0; NODES]);
        for (proposal, stage) in plan.proposals.iter().zip(&mut self.stages) {
            if proposal.0 == node && *stage != Stage::Idle {
                *stage = Stage::Over;
            }
        }
    }

    fn crash(&mut self, plan: &Plan, node: u8) -> bool {
        if self.crashes == 0 || !self.is_member(node) {
            return false;
        }
        self.crashes -= 1;
        self.restart(plan, node);
        true
    }

    fn lose(&mut self, plan: &Plan, node: u8) -> bool {
        if self.losses == 0
            || plan.losers & 1 << node == 0
            || !self.is_member(node)
            || self.nodes[usize::from(node)].number >= 2
        {
            return false;
        }
        self.losses -= 1;
        self.restart(plan, node);
        let it = &mut self.nodes[usize::from(node)];
        it.number += 1;
        it.disk = if plan.has(Left::DiskNumber) {
            EMPTY
        } else {
            // It is told of its view, and takes itself for the member it was.
            Disk { epoch: it.disk.epoch, members: it.disk.members, caught_up: true, ..EMPTY }
        };
        true
    }

    /// No quorum of members that serve lies behind what a client was told is written.
    fn acked_is_known(&self, plan: &Plan) -> bool {
        if self.acked == 0 {
            return true;
        }
        let most = 7 - self.acked.leading_zeros() as u8;
        let serving = || (0..plan.nodes).filter(|node| self.serves(plan, *node));
        serving().all(|node| {
            let disk = &self.nodes[usize::from(node)].disk;
            let behind = serving().filter(|other| {
                let other = &self.nodes[usize::from(*other)].disk;
                other.epoch == disk.epoch && other.members == disk.members && other.rec < most
            });
            (behind.count() as u32) < quorum(disk.members.count_ones())
        })
    }
}

/// A plan as a model.
#[derive(Clone, Debug)]
pub struct World(pub Plan);

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.0)]
    }

    fn actions(&self, state: &State, acts: &mut Vec<Act>) {
        let plan = &self.0;
        for node in 0..plan.nodes {
            acts.extend((1..=plan.writes).map(|write| Act::Store { write, node }));
            for proposal in 0..state.stages.len() as u8 {
                acts.extend(match state.stages[usize::from(proposal)] {
                    Stage::Freezing { .. } => Some(Act::Freeze { proposal, node }),
                    Stage::Settling { .. } => Some(Act::Settle { proposal, node }),
                    Stage::Proposing { .. } => Some(Act::Accept { proposal, node }),
                    _ => None,
                });
            }
            acts.extend((0..state.decided.len() as u8).map(|decision| Act::Install { decision, node }));
            for other in 0..plan.nodes {
                let known = state.nodes[usize::from(node)].disk;
                if known.members != 0 && !known.caught_up {
                    acts.push(Act::Pull { from: other, to: node });
                }
                acts.push(Act::Ask { node, about: other });
                if !plan.has(Left::AskedNow) {
                    let numbers = 0..state.nodes[usize::from(other)].number;
                    acts.extend(numbers.map(|number| Act::Hear { node, about: other, number }));
                }
            }
            acts.extend([Act::Crash(node), Act::Lose(node)]);
        }
        for proposal in 0..state.stages.len() as u8 {
            acts.extend(match state.stages[usize::from(proposal)] {
                Stage::Idle => Some(Act::Propose(proposal)),
                Stage::Freezing { .. } => Some(Act::Merge(proposal)),
                Stage::Settling { .. } => Some(Act::Offer(proposal)),
                _ => None,
            });
        }
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let plan = &self.0;
        let mut next = state.clone();
        let done = match act {
            Act::Store { write, node } => next.store(plan, write, node),
            Act::Propose(proposal) => next.propose(plan, proposal),
            Act::Freeze { proposal, node } => next.freeze(plan, proposal, node),
            Act::Merge(proposal) => next.merge(plan, proposal),
            Act::Settle { proposal, node } => next.settle(proposal, node),
            Act::Offer(proposal) => next.offer(plan, proposal),
            Act::Accept { proposal, node } => next.accept(plan, proposal, node),
            Act::Install { decision, node } => next.install(decision, node),
            Act::Pull { from, to } => next.pull(from, to),
            Act::Ask { node, about } => {
                let number = next.nodes[usize::from(about)].number;
                next.hear(plan, node, about, number)
            }
            Act::Hear { node, about, number } => next.hear(plan, node, about, number),
            Act::Crash(node) => next.crash(plan, node),
            Act::Lose(node) => next.lose(plan, node),
        };
        if !done {
            return None;
        }
        // What became known can complete what was accepted.
        if let Act::Ask { node, .. } | Act::Hear { node, .. } = act {
            for (proposal, (by, epoch, _)) in (0..).zip(plan.proposals) {
                if *by == node {
                    next.decide(plan, proposal, *by, *epoch);
                }
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let mut all = vec![
            Property::always("one view per epoch", |_: &World, state: &State| {
                state.decided.windows(2).all(|pair| pair[0].0 != pair[1].0)
            }),
            Property::always("every quorum knows what was acknowledged", |world: &World, state: &State| {
                state.acked_is_known(&world.0)
            }),
            Property::sometimes("a view is decided", |_, state: &State| !state.decided.is_empty()),
            Property::sometimes("a write is acknowledged", |_, state: &State| state.acked != 0),
        ];
        let n = self.0.members.count_ones();
        if n.is_multiple_of(2) {
            all.push(Property::sometimes("survivors decide without a quorum", |_, state: &State| {
                state.alone
            }));
            all.push(Property::sometimes("a quorum of a new view serves", |world: &World, state: &State| {
                (0..world.0.nodes).any(|node| {
                    let disk = &state.nodes[usize::from(node)].disk;
                    let same = |other: &u8| {
                        let it = &state.nodes[usize::from(*other)].disk;
                        it.epoch == disk.epoch && it.members == disk.members && state.serves(&world.0, *other)
                    };
                    let same = (0..world.0.nodes).filter(same).count() as u32;
                    state.alone && disk.epoch > 0 && same >= quorum(disk.members.count_ones())
                })
            }));
        }
        all
    }
}
