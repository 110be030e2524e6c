//! Damaged records while a view changes.
//!
//! A member tells its state by a sum that it keeps, and does not read its records for that. So a damaged record is found only
//! when it is read: by a write, by a member that gets the state, by a proposer that merges. The view change is the one that
//! ships: a proposer freezes, merges the states in place, lets members settle on the result in place, then proposes. A view
//! that may have been decided is proposed again if a frozen member still has the state it begins with: a quorum had that
//! state when it was accepted. Damage takes this away, so a frozen member that lost such a state must not vote without it.

use stateright::{Model, Property};

use super::quorum;

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A member in doubt promises no ballot and tells no state.
    VotesNot,
    /// Doubt ends after n-q+1 others have told what they have, not after the first.
    Enough,
    /// A proposer that finds its own record damaged while it merges gives the round up.
    GivesUp,
    /// A member that finds its record damaged while it sends its state sends nothing, and doubts.
    SourceDoubts,
    /// A member that would be the only one left reads its record before it accepts.
    LastReads,
    /// A member whose view entry is damaged is no member any more.
    ViewLost,
    /// A frozen member that finds a record damaged votes again with the very state it had, or in the next epoch. In a view of
    /// two it may take what the other one has, which is part of every quorum.
    FrozenBinds,
    /// That is so for a member that has not caught up, too: it may have settled on a state.
    BehindDoubts,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 8] = [
        Left::VotesNot,
        Left::Enough,
        Left::GivesUp,
        Left::SourceDoubts,
        Left::LastReads,
        Left::ViewLost,
        Left::FrozenBinds,
        Left::BehindDoubts,
    ];
}

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// The record. Nobody knows before it is read.
    Record,
    /// What the member knows of the view: its promise and what it accepted. Found by the disk.
    View,
}

/// A world. Nodes are bits in sets of members.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Its name.
    pub name: &'static str,
    /// How many members the first view has.
    pub members: u8,
    /// How many nodes there are.
    pub nodes: u8,
    /// Members that have not caught up. If there are any, the view began with the first write.
    pub behind: u8,
    /// Who proposes which members. Each once; ballots rise in this order.
    pub proposals: &'static [(u8, u8)],
    /// The members that each write reaches.
    pub writes: [u8; 2],
    /// What may be damaged, each once.
    pub damages: &'static [(u8, Damage)],
    /// The rules that are left out.
    pub left: &'static [Left],
}

const BASE: World = World {
    name: "",
    members: 3,
    nodes: 3,
    behind: 0,
    proposals: &[],
    writes: [0b101, 0b011],
    damages: &[],
    left: &[],
};

/// Worlds that are soon searched to the end.
pub const WORLDS: &[World] = &[
    World {
        name: "two",
        members: 2,
        nodes: 2,
        proposals: &[(0, 0b11), (1, 0b01)],
        writes: [0b11; 2],
        damages: &[(0, Damage::Record)],
        ..BASE
    },
    World { name: "three", proposals: &[(0, 0b011), (1, 0b110)], damages: &[(0, Damage::Record)], ..BASE },
    // One member has more than the others settle on.
    World {
        name: "three-later",
        proposals: &[(1, 0b011), (2, 0b101)],
        writes: [0b011, 0b100],
        damages: &[(0, Damage::Record)],
        ..BASE
    },
    World {
        name: "three-behind",
        behind: 0b001,
        proposals: &[(1, 0b011), (2, 0b101)],
        damages: &[(0, Damage::Record)],
        ..BASE
    },
    World {
        name: "three-views",
        proposals: &[(0, 0b011), (1, 0b110)],
        damages: &[(0, Damage::View)],
        ..BASE
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    Ready,
    Behind,
    Doubting {
        heard: u8,
        remembered: u8,
        behind: bool,
    },
    Outside,
    /// Its disk counts as lost.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Next {
    members: u8,
    state: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    epoch: u8,
    members: u8,
    /// The state its epoch began with.
    entered: u8,
    promised: u8,
    accepted: Option<(u8, Next)>,
    standing: Standing,
    /// The greatest write it has, by the sum it keeps.
    record: u8,
    /// That cannot be read, and the member does not know.
    damaged: bool,
}

impl Node {
    fn doubts(&self) -> bool {
        matches!(self.standing, Standing::Doubting { .. })
    }

    fn serves(&self) -> bool {
        self.standing == Standing::Ready && self.promised == 0
    }
}

/// What a frozen member told: its state, whether it had caught up, what it had accepted.
type Told = (u8, bool, Option<(u8, Next)>);

const NODES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Round {
    Idle,
    Over,
    Freezing([Option<Told>; NODES]),
    Settling { state: u8, found: Option<Next>, settled: u8 },
    Proposing { next: Next, accepted: u8 },
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: Vec<Node>,
    rounds: Vec<Round>,
    decided: Vec<Next>,
    /// Who has stored each write in the first epoch.
    stored: [u8; 2],
    /// The greatest write that was acknowledged.
    acked: u8,
    damages: u8,
    cleared: bool,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are nodes, proposals, decisions and writes by their place")]
pub enum Act {
    /// A member stores a write and says so.
    Store { write: u8, node: u8 },
    /// Something is damaged.
    Damage(u8),
    /// A member reads its record.
    Read(u8),
    /// A member tells a doubting one what it has.
    Tell { from: u8, to: u8 },
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
    /// The proposer hears that enough members have: the view is decided, and the proposer has it.
    Decide(u8),
    /// A node hears of a decided view.
    Install { decision: u8, node: u8 },
    /// A member catches up.
    Pull { from: u8, to: u8 },
    /// A node that is outside drops its records.
    Drop(u8),
}

impl World {
    /// Finds a world by its name.
    pub fn named(name: &str) -> Option<World> {
        WORLDS.iter().find(|world| world.name == name).copied()
    }

    /// The same without some rules.
    pub fn without(self, left: &'static [Left]) -> World {
        World { left, ..self }
    }

    fn has(&self, rule: Left) -> bool {
        !self.left.contains(&rule)
    }

    /// How many members of the first view are a quorum.
    fn quorum(&self) -> u32 {
        quorum(self.members.into())
    }
}

impl State {
    fn new(world: &World) -> State {
        let entered = u8::from(world.behind != 0);
        let node = |node: u8| {
            let (standing, record) = match () {
                () if node >= world.members => (Standing::Outside, 0),
                () if world.behind & 1 << node != 0 => (Standing::Behind, 0),
                () => (Standing::Ready, entered),
            };
            Node {
                epoch: 0,
                members: (1 << world.members) - 1,
                entered,
                promised: 0,
                accepted: None,
                standing,
                record,
                damaged: false,
            }
        };
        State {
            nodes: (0..world.nodes).map(node).collect(),
            rounds: vec![Round::Idle; world.proposals.len()],
            decided: Vec::new(),
            stored: [0; 2],
            acked: entered,
            damages: 0,
            cleared: false,
        }
    }

    fn node(&mut self, node: u8) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    /// A member has found its record damaged.
    fn doubt(&mut self, world: &World, node: u8) {
        let it = self.node(node);
        let (remembered, behind) = (it.record, it.standing == Standing::Behind);
        (it.record, it.damaged) = (0, false);
        let settled = behind && it.promised != 0 && world.has(Left::BehindDoubts);
        if it.standing == Standing::Ready || settled {
            it.standing = Standing::Doubting { heard: 0, remembered, behind };
        }
        // What it answered before is void.
        for stored in &mut self.stored {
            *stored &= !(1 << node);
        }
        self.give_up(world, node);
    }

    fn give_up(&mut self, world: &World, node: u8) {
        for (round, (by, _)) in self.rounds.iter_mut().zip(world.proposals) {
            if *by == node && *round != Round::Idle {
                *round = Round::Over;
            }
        }
    }

    /// Whether a member can send its state. If not, it finds out now.
    fn sends(&mut self, world: &World, node: u8) -> bool {
        let damaged = self.node(node).damaged;
        if damaged && world.has(Left::SourceDoubts) {
            self.doubt(world, node);
        }
        !damaged
    }

    fn store(&mut self, world: &World, write: u8, node: u8) -> bool {
        let it = self.node(node);
        if !it.serves() || it.epoch != 0 || world.writes[usize::from(write - 1)] & 1 << node == 0 {
            return false;
        }
        if it.damaged {
            self.doubt(world, node);
            return true;
        }
        if it.record > write {
            return false;
        }
        it.record = write;
        let stored = &mut self.stored[usize::from(write - 1)];
        *stored |= 1 << node;
        if stored.count_ones() >= world.quorum() {
            self.acked = self.acked.max(write);
        }
        true
    }

    fn damage(&mut self, world: &World, damage: u8) -> bool {
        let (node, what) = world.damages[usize::from(damage)];
        let first = self.damages & 1 << damage == 0;
        self.damages |= 1 << damage;
        let it = self.node(node);
        match what {
            Damage::Record => {
                // The only copy of a view of one is not made up for by any rule.
                let alone =
                    it.members == 1 << node || it.accepted.is_some_and(|(_, next)| next.members == 1 << node);
                let there = it.record != 0 && !it.damaged && !alone;
                it.damaged = true;
                first && there
            }
            Damage::View => {
                (it.promised, it.accepted) = (0, None);
                if world.has(Left::ViewLost) {
                    (it.standing, it.record, it.damaged) = (Standing::Lost, 0, false);
                }
                let before = it.epoch == 0;
                self.give_up(world, node);
                first && before
            }
        }
    }

    fn tell(&mut self, world: &World, from: u8, to: u8) -> bool {
        let source = self.nodes[usize::from(from)];
        let it = self.node(to);
        let Standing::Doubting { mut heard, remembered, behind } = it.standing else { return false };
        let silent = matches!(source.standing, Standing::Outside | Standing::Lost);
        if from == to || silent || source.epoch != it.epoch || heard & 1 << from != 0 {
            return false;
        }
        if !source.damaged {
            it.record = it.record.max(source.record);
        }
        if source.standing == Standing::Ready {
            heard |= 1 << from;
        }
        let members = it.members.count_ones();
        let wanted = if world.has(Left::Enough) { members - quorum(members) + 1 } else { 1 };
        let bound = (it.promised != 0 && members > 2 || behind) && world.has(Left::FrozenBinds);
        let whole = it.record == remembered;
        it.standing = match () {
            () if whole && behind => Standing::Behind,
            () if whole || heard.count_ones() >= wanted && !bound => Standing::Ready,
            () => Standing::Doubting { heard, remembered, behind },
        };
        self.cleared |= !self.nodes[usize::from(to)].doubts();
        true
    }

    fn propose(&mut self, world: &World, proposal: u8) -> bool {
        let by = world.proposals[usize::from(proposal)].0;
        let it = self.nodes[usize::from(by)];
        let free = |round: &Round| matches!(round, Round::Idle | Round::Over);
        let others = world.proposals.iter().zip(&self.rounds).all(|(p, round)| p.0 != by || free(round));
        let round = &mut self.rounds[usize::from(proposal)];
        if *round != Round::Idle
            || it.epoch != 0
            || it.standing != Standing::Ready
            || it.promised > proposal
            || !others
        {
            return false;
        }
        *round = Round::Freezing([None; NODES]);
        self.freeze(world, proposal, by)
    }

    fn freeze(&mut self, world: &World, proposal: u8, node: u8) -> bool {
        let Round::Freezing(told) = &mut self.rounds[usize::from(proposal)] else { return false };
        let it = &mut self.nodes[usize::from(node)];
        let votes = match it.standing {
            Standing::Ready | Standing::Behind => true,
            Standing::Doubting { .. } => !world.has(Left::VotesNot),
            Standing::Outside | Standing::Lost => false,
        };
        if it.epoch != 0 || !votes || it.promised > proposal || told[usize::from(node)].is_some() {
            return false;
        }
        it.promised = proposal + 1;
        told[usize::from(node)] = Some((it.record, it.standing != Standing::Behind, it.accepted));
        true
    }

    fn merge(&mut self, world: &World, proposal: u8) -> bool {
        let by = world.proposals[usize::from(proposal)].0;
        let Round::Freezing(told) = self.rounds[usize::from(proposal)] else { return false };
        let told = || (0u8..).zip(told).filter_map(|(node, told)| Some((node, told?)));
        if (told().count() as u32) < world.quorum() || told().all(|(node, _)| node != by) {
            return false;
        }
        let Node { record: mine, promised, .. } = self.nodes[usize::from(by)];
        if promised != proposal + 1 {
            return false;
        }
        let found = told().filter_map(|(_, told)| told.2).max().map(|(_, next)| next);
        let found = found.filter(|next| told().any(|(_, told)| told.0 == next.state));
        if let Some(next) = found {
            let source = told().find(|(_, told)| told.0 == next.state);
            if let Some((source, _)) = source.filter(|_| mine != next.state) {
                if !self.sends(world, source) || self.nodes[usize::from(source)].record != next.state {
                    self.rounds[usize::from(proposal)] = Round::Over;
                    return true;
                }
                (self.node(by).record, self.node(by).damaged) = (next.state, false);
            }
        } else {
            for (source, told) in told().filter(|(node, told)| *node != by && told.1 && told.0 != mine) {
                if !self.sends(world, source) && world.has(Left::SourceDoubts) {
                    self.rounds[usize::from(proposal)] = Round::Over;
                    return true;
                }
                let record = if self.node(source).damaged { 0 } else { told.0 };
                if record != 0 && self.node(by).damaged {
                    if world.has(Left::GivesUp) {
                        self.doubt(world, by);
                        return true;
                    }
                    (self.node(by).record, self.node(by).damaged) = (0, false);
                }
                self.node(by).record = self.node(by).record.max(record);
            }
        }
        let state = self.nodes[usize::from(by)].record;
        self.rounds[usize::from(proposal)] = Round::Settling { state, found, settled: 1 << by };
        true
    }

    fn settle(&mut self, world: &World, proposal: u8, node: u8) -> bool {
        let by = world.proposals[usize::from(proposal)].0;
        let Round::Settling { state, found, settled } = self.rounds[usize::from(proposal)] else {
            return false;
        };
        let it = self.nodes[usize::from(node)];
        if it.epoch != 0 || it.promised != proposal + 1 || settled & 1 << node != 0 {
            return false;
        }
        if it.record != state {
            if self.node(by).record != state || !self.sends(world, by) {
                return self.rounds[usize::from(proposal)] == Round::Over;
            }
            (self.node(node).record, self.node(node).damaged) = (state, false);
        }
        let settled = settled | 1 << node;
        self.rounds[usize::from(proposal)] = Round::Settling { state, found, settled };
        true
    }

    fn offer(&mut self, world: &World, proposal: u8) -> bool {
        let members = world.proposals[usize::from(proposal)].1;
        let Round::Settling { state, found, settled } = self.rounds[usize::from(proposal)] else {
            return false;
        };
        let next = found.unwrap_or(Next { members, state });
        if settled.count_ones() >= world.quorum() {
            self.rounds[usize::from(proposal)] = Round::Proposing { next, accepted: 0 };
        }
        settled.count_ones() >= world.quorum()
    }

    fn accept(&mut self, world: &World, proposal: u8, node: u8) -> bool {
        let Round::Proposing { next, accepted } = self.rounds[usize::from(proposal)] else { return false };
        let it = self.node(node);
        let votes = matches!(it.standing, Standing::Ready | Standing::Behind);
        if it.epoch != 0 || !votes || it.promised > proposal + 1 || accepted & 1 << node != 0 {
            return false;
        }
        let last = next.members & it.members == 1 << node && it.standing == Standing::Ready;
        if last && it.damaged && world.has(Left::LastReads) {
            self.doubt(world, node);
            return true;
        }
        it.promised = proposal + 1;
        it.accepted = Some((proposal + 1, next));
        let accepted = accepted | 1 << node;
        self.rounds[usize::from(proposal)] = Round::Proposing { next, accepted };
        true
    }

    fn decide(&mut self, world: &World, proposal: u8) -> bool {
        let Round::Proposing { next, accepted } = self.rounds[usize::from(proposal)] else { return false };
        if accepted.count_ones() < world.quorum() {
            return false;
        }
        self.decided.push(next);
        self.decided.dedup();
        self.install(world, self.decided.len() as u8 - 1, world.proposals[usize::from(proposal)].0)
    }

    fn install(&mut self, world: &World, decision: u8, node: u8) -> bool {
        let Next { members, state } = self.decided[usize::from(decision)];
        let it = self.node(node);
        if it.epoch != 0 || it.standing == Standing::Lost {
            return false;
        }
        let standing = match members & 1 << node != 0 {
            true if it.record == state && it.standing != Standing::Outside => Standing::Ready,
            true => Standing::Behind,
            false => Standing::Outside,
        };
        *it = Node { epoch: 1, members, entered: state, promised: 0, accepted: None, standing, ..*it };
        self.give_up(world, node);
        true
    }

    fn pull(&mut self, world: &World, from: u8, to: u8) -> bool {
        let (source, it) = (self.nodes[usize::from(from)], self.nodes[usize::from(to)]);
        let ready = source.standing == Standing::Ready && source.epoch == it.epoch;
        let same = source.record == it.entered && !source.doubts() && source.standing != Standing::Lost;
        if it.standing != Standing::Behind || it.promised != 0 || from == to || !(ready || same) {
            return false;
        }
        if self.sends(world, from) {
            let it = self.node(to);
            (it.record, it.damaged, it.standing) = (source.record, false, Standing::Ready);
        }
        true
    }

    fn drop_records(&mut self, node: u8) -> bool {
        let it = self.nodes[usize::from(node)];
        let ready = |other: &&Node| other.epoch == it.epoch && other.standing == Standing::Ready;
        let ready = self.nodes.iter().filter(ready).count() as u32;
        if it.standing != Standing::Outside || it.epoch == 0 || ready < quorum(it.members.count_ones()) {
            return false;
        }
        (self.node(node).record, self.node(node).damaged) = (0, false);
        true
    }

    fn knows_acked(&self) -> bool {
        let lacks = |node: &Node| node.serves() && !node.damaged && node.record < self.acked;
        self.nodes.iter().filter(|node| node.serves()).all(|node| {
            let same = |other: &&Node| (other.epoch, other.members) == (node.epoch, node.members);
            let lacks = self.nodes.iter().filter(same).filter(|other| lacks(other)).count() as u32;
            lacks < quorum(node.members.count_ones())
        })
    }

    fn holds_acked(&self) -> bool {
        self.nodes.iter().any(|node| !node.damaged && node.record >= self.acked)
    }
}

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, acts: &mut Vec<Act>) {
        acts.extend((0..self.damages.len() as u8).map(Act::Damage));
        for node in 0..self.nodes {
            acts.extend([Act::Read(node), Act::Drop(node)]);
            acts.extend((1..=2).map(|write| Act::Store { write, node }));
            acts.extend((0..state.decided.len() as u8).map(|decision| Act::Install { decision, node }));
            for to in 0..self.nodes {
                acts.extend([Act::Tell { from: node, to }, Act::Pull { from: node, to }]);
            }
            for proposal in 0..self.proposals.len() as u8 {
                acts.extend(match state.rounds[usize::from(proposal)] {
                    Round::Freezing(_) => Some(Act::Freeze { proposal, node }),
                    Round::Settling { .. } => Some(Act::Settle { proposal, node }),
                    Round::Proposing { .. } => Some(Act::Accept { proposal, node }),
                    _ => None,
                });
            }
        }
        for proposal in 0..self.proposals.len() as u8 {
            acts.extend([Act::Propose, Act::Merge, Act::Offer, Act::Decide].map(|act| act(proposal)));
        }
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let mut next = state.clone();
        let done = match act {
            Act::Store { write, node } => next.store(self, write, node),
            Act::Damage(damage) => next.damage(self, damage),
            Act::Read(node) => {
                let damaged = next.node(node).damaged;
                if damaged {
                    next.doubt(self, node);
                }
                damaged
            }
            Act::Tell { from, to } => next.tell(self, from, to),
            Act::Propose(proposal) => next.propose(self, proposal),
            Act::Freeze { proposal, node } => next.freeze(self, proposal, node),
            Act::Merge(proposal) => next.merge(self, proposal),
            Act::Settle { proposal, node } => next.settle(self, proposal, node),
            Act::Offer(proposal) => next.offer(self, proposal),
            Act::Accept { proposal, node } => next.accept(self, proposal, node),
            Act::Decide(proposal) => next.decide(self, proposal),
            Act::Install { decision, node } => next.install(self, decision, node),
            Act::Pull { from, to } => next.pull(self, from, to),
            Act::Drop(node) => next.drop_records(node),
        };
        (done && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let mut all = vec![
            Property::always("one view per epoch", |_: &World, state: &State| state.decided.len() < 2),
            Property::always("every quorum knows what was acknowledged", |_: &World, state: &State| {
                state.knows_acked()
            }),
            Property::always("somebody holds what was acknowledged", |_: &World, state: &State| {
                state.holds_acked()
            }),
            Property::sometimes("a quorum of a new view serves", |_: &World, state: &State| {
                let serves = |node: &&Node| node.epoch == 1 && node.serves();
                let members = state.decided.first().map_or(u32::MAX, |next| next.members.count_ones());
                state.nodes.iter().filter(serves).count() as u32 > members / 2
            }),
            Property::sometimes("a write is acknowledged", |_: &World, state: &State| state.acked != 0),
        ];
        if self.damages.iter().any(|(_, what)| *what == Damage::Record) {
            all.push(Property::sometimes("a doubt ends", |_: &World, state: &State| state.cleared));
        }
        all
    }
}
