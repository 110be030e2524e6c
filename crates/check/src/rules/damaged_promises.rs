//! Damaged promises: conditional writes while a member has lost what it promised, or the record it stored.
//!
//! One key and the members of one view. A ballot binds a member twice: it accepts nothing lower, and what it told with its
//! promise stays true until the write that asked has ended. A member whose record is damaged asks the others what they
//! have and counts again after n-q+1 of them, or once it has the very record it had. A member whose promise may be lost
//! waits for the next epoch, in which no promise counts. Writes that were under way keep arriving: nothing takes a
//! message back. A view change is one step here: [`super::damaged_views`] has its parts.

use stateright::{Model, Property};

use super::quorum;

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A member whose record is damaged serves nothing before its doubt has ended.
    Doubts,
    /// Doubt ends after n-q+1 others have told what they have, not after the first.
    Enough,
    /// A member whose promise may be lost serves nothing before the next epoch.
    Abstains,
    /// A coordinator that is asked by a doubting member drops the answers it has, and asks again.
    AskedDrops,
    /// What members tell counts only after all of them have been asked, unless the doubting one has the very record it had.
    AllAsked,
    /// So does one that serves nothing right now, because it doubts another record of the slot.
    DropsAlways,
    /// The coordinators on the doubting member itself do the same.
    OwnDrops,
    /// A promise stays beside the record that was written under it.
    PromiseStays,
    /// A doubting member that has promised a ballot serves again with the very record it had, or in the next epoch. In a
    /// view of two it may take what the other one has, which is part of every quorum.
    PromiseBinds,
    /// A member that waits for the next epoch votes for it, once its doubt has ended: two such members of three would wait for
    /// ever.
    AbstainerVotes,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 10] = [
        Left::Doubts,
        Left::Enough,
        Left::Abstains,
        Left::AskedDrops,
        Left::AllAsked,
        Left::DropsAlways,
        Left::OwnDrops,
        Left::PromiseStays,
        Left::PromiseBinds,
        Left::AbstainerVotes,
    ];
}

/// What is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// The record of the key. Found by reading it.
    Record,
    /// The promise. Found by the disk, and the node restarts.
    Promise,
    /// Another record of the same slot.
    Other,
    /// Another record of the same slot, for which it has promised a ballot: its doubt ends, and it abstains.
    OtherPromised,
}

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Its name.
    pub name: &'static str,
    /// How many members there are.
    pub members: u8,
    /// The writes: who coordinates each, and whether it is conditional. Versions and ballots rise in this order.
    pub writes: &'static [(u8, bool)],
    /// What may be damaged, each once.
    pub damages: &'static [(u8, Damage)],
    /// Whether a coordinator may crash.
    pub crashes: bool,
    /// Whether the view may change.
    pub changes: bool,
    /// The rules that are left out.
    pub left: &'static [Left],
}

const BASE: World =
    World { name: "", members: 3, writes: &[], damages: &[], crashes: false, changes: true, left: &[] };

/// Worlds that are soon searched to the end.
pub const WORLDS: &[World] = &[
    World {
        name: "two",
        members: 2,
        writes: &[(0, true), (1, false), (1, true)],
        damages: &[(0, Damage::Record), (1, Damage::Record)],
        crashes: true,
        ..BASE
    },
    World {
        name: "two-promises",
        members: 2,
        writes: &[(0, true), (1, false), (1, true)],
        damages: &[(0, Damage::Promise), (1, Damage::Record)],
        crashes: true,
        ..BASE
    },
    World {
        name: "three",
        writes: &[(1, false), (0, true)],
        damages: &[(0, Damage::Record)],
        crashes: true,
        ..BASE
    },
    World {
        name: "three-promises",
        writes: &[(1, false), (2, true)],
        damages: &[(0, Damage::Record), (1, Damage::Promise)],
        crashes: true,
        ..BASE
    },
    // A coordinator that doubts another record goes on counting answers.
    World {
        name: "three-others",
        writes: &[(1, false), (2, true)],
        damages: &[(0, Damage::Record), (1, Damage::Other)],
        ..BASE
    },
    // Two of three members wait for the next epoch, each because of another record.
    World {
        name: "three-abstain",
        writes: &[(1, false), (2, true)],
        damages: &[(0, Damage::Record), (1, Damage::OtherPromised)],
        ..BASE
    },
];

/// Worlds that take longer.
pub const LARGE: &[World] = &[
    World {
        name: "three-rivals",
        writes: &[(1, false), (2, true), (0, true)],
        damages: &[(0, Damage::Record)],
        crashes: true,
        ..BASE
    },
    World {
        name: "three-rivals-promises",
        writes: &[(1, false), (2, true), (0, true)],
        damages: &[(0, Damage::Promise), (2, Damage::Record)],
        crashes: true,
        ..BASE
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Doubt {
    /// Who has been asked, and who has told what it has.
    asked: u8,
    heard: u8,
    /// The record it had.
    remembered: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    /// The ballot it promised.
    promised: u8,
    /// The write it holds, counted from 1.
    record: u8,
    doubt: Option<Doubt>,
    abstains: bool,
    /// It doubts another record of the slot.
    other: bool,
}

impl Node {
    fn serves(&self) -> bool {
        self.votes() && !self.abstains
    }

    /// Says whether it takes part in a view change. A member that abstains does: it knows all that was acknowledged.
    fn votes(&self) -> bool {
        self.doubt.is_none() && !self.other
    }

    fn bound(&self) -> u8 {
        self.promised.max(self.record)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Write {
    begun: bool,
    /// Whether its coordinator still counts answers.
    live: bool,
    /// Whether its epoch is over: nobody takes it any more.
    over: bool,
    promises: u8,
    /// The greatest record that was told with the promises.
    base: u8,
    proposed: bool,
    stored: u8,
    acked: bool,
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: Vec<Node>,
    writes: Vec<Write>,
    damaged: u8,
    crashed: bool,
    changed: bool,
    cleared: bool,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are writes and nodes")]
pub enum Act {
    /// A write begins. Its coordinator promises a conditional one itself.
    Begin(u8),
    /// A member promises the ballot of a conditional write and tells what it has.
    Promise { write: u8, node: u8 },
    /// A quorum has promised: the coordinator stores the write and sends it to all. Or it crashes when it has sent it.
    Propose { write: u8, crash: bool },
    /// A member stores a write and says so.
    Store { write: u8, node: u8 },
    /// Something is damaged, and the member finds out.
    Damage(u8),
    /// A member has another damaged record back.
    Mend(u8),
    /// A doubting member asks another one what it has.
    Ask { from: u8, to: u8 },
    /// That one tells.
    Tell { from: u8, to: u8 },
    /// Members change the view.
    Change(u8),
}

impl World {
    /// Finds a world by its name.
    pub fn named(name: &str) -> Option<World> {
        WORLDS.iter().chain(LARGE).find(|world| world.name == name).copied()
    }

    /// The same without some rules.
    pub fn without(self, left: &'static [Left]) -> World {
        World { left, ..self }
    }

    fn has(&self, rule: Left) -> bool {
        !self.left.contains(&rule)
    }

    fn quorum(&self) -> u32 {
        quorum(self.members.into())
    }

    /// How many members meet every quorum.
    fn meets(&self) -> u32 {
        u32::from(self.members) - self.quorum() + 1
    }
}

impl State {
    fn node(&mut self, node: u8) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    fn write(&mut self, write: u8) -> &mut Write {
        &mut self.writes[usize::from(write)]
    }

    fn begin(&mut self, world: &World, write: u8) -> bool {
        let (by, conditional) = world.writes[usize::from(write)];
        let node = self.node(by);
        if !node.serves() || conditional && node.bound() > write {
            return false;
        }
        let base = node.record;
        if conditional {
            node.promised = write + 1;
        }
        let promises = if conditional { 1 << by } else { 0 };
        let it = self.write(write);
        let first = !it.begun;
        *it = Write { begun: true, live: true, promises, base, ..Write::default() };
        first
    }

    fn promise(&mut self, world: &World, write: u8, node: u8) -> bool {
        let it = self.writes[usize::from(write)];
        let node_now = self.node(node);
        if !world.writes[usize::from(write)].1
            || !it.live
            || it.proposed
            || !node_now.serves()
            || node_now.bound() > write
        {
            return false;
        }
        node_now.promised = write + 1;
        let record = node_now.record;
        let it = self.write(write);
        it.promises |= 1 << node;
        it.base = it.base.max(record);
        true
    }

    fn propose(&mut self, world: &World, write: u8, crash: bool) -> bool {
        let (by, conditional) = world.writes[usize::from(write)];
        let it = self.write(write);
        if !conditional || !it.live || it.proposed || it.promises.count_ones() < world.quorum() {
            return false;
        }
        it.proposed = true;
        if !crash {
            self.store(world, write, by);
            return true;
        }
        let first = !std::mem::replace(&mut self.crashed, true);
        self.drop_operations(world, by);
        world.crashes && first
    }

    /// A node forgets the operations it coordinates.
    fn drop_operations(&mut self, world: &World, node: u8) {
        for (write, plan) in self.writes.iter_mut().zip(world.writes) {
            write.live &= plan.0 != node;
        }
    }

    /// The answers that a node has got as a coordinator are void. A plain write is sent again, others begin anew, under another
    /// ballot.
    fn drop_answers(&mut self, world: &World, node: u8) {
        for (write, (by, conditional)) in self.writes.iter_mut().zip(world.writes) {
            if *by == node && !write.acked {
                write.live &= !conditional;
                write.stored = 0;
            }
        }
    }

    fn store(&mut self, world: &World, write: u8, node: u8) -> bool {
        let (by, conditional) = world.writes[usize::from(write)];
        let it = self.writes[usize::from(write)];
        let second = conditional || node != by || it.stored != 0;
        if !it.begun || it.over || conditional && !it.proposed || !second {
            return false;
        }
        let version = write + 1;
        let node_now = self.node(node);
        if !node_now.serves() || node_now.record != version && node_now.bound() > version {
            return false;
        }
        node_now.record = version;
        if !world.has(Left::PromiseStays) && node_now.promised <= version {
            node_now.promised = 0;
        }
        let it = self.write(write);
        if it.live {
            it.stored |= 1 << node;
            it.acked |= it.stored.count_ones() >= world.quorum();
            if node != by && !conditional {
                // The coordinator stores a plain write as soon as another member has.
                self.store(world, write, by);
            }
        }
        true
    }

    fn damage(&mut self, world: &World, damage: u8) -> bool {
        let (node, what) = world.damages[usize::from(damage)];
        let first = self.damaged & 1 << damage == 0;
        self.damaged |= 1 << damage;
        let it = self.node(node);
        let doubt = Doubt { asked: 0, heard: 0, remembered: it.record };
        match what {
            Damage::Record if it.record == 0 || it.doubt.is_some() => return false,
            Damage::Record => {
                it.record = 0;
                it.doubt = Some(doubt).filter(|_| world.has(Left::Doubts));
                if world.has(Left::OwnDrops) {
                    self.drop_answers(world, node);
                }
            }
            Damage::Promise if it.promised == 0 => return false,
            Damage::Promise => {
                it.promised = 0;
                it.doubt = it.doubt.or(Some(doubt));
                it.abstains = world.has(Left::Abstains);
                self.drop_operations(world, node);
            }
            Damage::Other => it.other = true,
            Damage::OtherPromised => {
                it.abstains = true;
                self.drop_answers(world, node);
            }
        }
        first
    }

    fn ask(&mut self, world: &World, from: u8, to: u8) -> bool {
        let Some(doubt) = &mut self.node(from).doubt else { return false };
        if from == to || doubt.asked & 1 << to != 0 {
            return false;
        }
        doubt.asked |= 1 << to;
        let serves = self.node(to).serves();
        if world.has(Left::AskedDrops) && (serves || world.has(Left::DropsAlways)) {
            self.drop_answers(world, to);
        }
        true
    }

    fn tell(&mut self, world: &World, from: u8, to: u8) -> bool {
        let source = self.nodes[usize::from(from)];
        let it = self.node(to);
        let Some(doubt) = &mut it.doubt else { return false };
        let others = u32::from(world.members) - 1;
        let all = doubt.asked.count_ones() == others || !world.has(Left::AllAsked);
        if source.doubt.is_some() || doubt.asked & !doubt.heard & 1 << from == 0 {
            return false;
        }
        it.record = it.record.max(source.record);
        // What was told before may be outdated by a write that counts an answer from before the damage.
        doubt.heard |= u8::from(all) << from;
        let enough = doubt.heard.count_ones() >= if world.has(Left::Enough) { world.meets() } else { 1 };
        let bound = it.promised != 0 && world.members > 2 && world.has(Left::PromiseBinds);
        let whole = it.record == doubt.remembered;
        it.abstains |= enough && !whole && bound;
        if whole && !it.abstains || enough {
            it.doubt = None;
            self.cleared |= !it.abstains;
        }
        true
    }

    /// The view changes: those that take part merge what they have, and all begin the next epoch with that.
    fn change(&mut self, world: &World, by: u8) -> bool {
        let takes_part = |node: &u8| by & 1 << node != 0;
        let members = || (0..world.members).filter(takes_part).map(|node| self.nodes[usize::from(node)]);
        let votes = |node: Node| if world.has(Left::AbstainerVotes) { node.votes() } else { node.serves() };
        if self.changed || by.count_ones() < world.quorum() || !members().all(votes) {
            return false;
        }
        let record = members().map(|node| node.record).max().unwrap_or_default();
        self.cleared |= self.nodes.iter().any(|node| node.doubt.is_some());
        self.nodes.fill(Node { record, ..Node::default() });
        for (write, (_, conditional)) in self.writes.iter_mut().zip(world.writes) {
            write.over = write.begun && *conditional;
            write.live &= !conditional;
            write.stored = 0;
        }
        self.changed = true;
        true
    }

    fn knows_acked(&self, world: &World) -> bool {
        let acked = self.writes.iter().rposition(|write| write.acked).map_or(0, |write| write as u8 + 1);
        let lacks = |node: &&Node| node.serves() && node.record < acked;
        (self.nodes.iter().filter(lacks).count() as u32) < world.quorum()
    }

    /// Nothing acknowledged lies between a conditional write that a member serves and what that is based on.
    fn follows(&self, world: &World) -> bool {
        self.nodes.iter().filter(|node| node.serves() && node.record > 0).all(|node| {
            let at = usize::from(node.record - 1);
            let base = usize::from(self.writes[at].base);
            !world.writes[at].1 || base > at || self.writes[base..at].iter().all(|write| !write.acked)
        })
    }

    /// Where enough members are whole, all doubts end: by what they tell, or with the next epoch.
    fn gets_out(&self, world: &World) -> bool {
        let mut state = State { changed: false, ..self.clone() };
        for node in &mut state.nodes {
            node.other = false;
        }
        let whole = self.nodes.iter().filter(|node| node.doubt.is_none()).count() as u32;
        if whole < world.meets() {
            return true;
        }
        let pairs = (0..world.members).flat_map(|from| (0..world.members).map(move |to| (from, to)));
        for (from, to) in pairs.clone() {
            state.ask(world, from, to);
        }
        for (from, to) in pairs {
            state.tell(world, from, to);
        }
        let those = |is: fn(&Node) -> bool| {
            let nodes = (0..world.members).filter(|node| is(&state.nodes[usize::from(*node)]));
            nodes.fold(0, |all, node| all | 1 << node)
        };
        let (serving, voting) = (those(Node::serves), those(Node::votes));
        let voting = if world.has(Left::AbstainerVotes) { voting } else { serving };
        serving == (1 << world.members) - 1 || state.change(world, voting)
    }
}

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            nodes: vec![Node::default(); self.members.into()],
            writes: vec![Write::default(); self.writes.len()],
            damaged: 0,
            crashed: false,
            changed: !self.changes,
            cleared: false,
        }]
    }

    fn actions(&self, _: &State, acts: &mut Vec<Act>) {
        for write in 0..self.writes.len() as u8 {
            acts.push(Act::Begin(write));
            acts.extend([false, true].map(|crash| Act::Propose { write, crash }));
            for node in 0..self.members {
                acts.extend([Act::Promise { write, node }, Act::Store { write, node }]);
            }
        }
        acts.extend((0..self.damages.len() as u8).map(Act::Damage));
        acts.extend((1..1 << self.members).map(Act::Change));
        for from in 0..self.members {
            acts.push(Act::Mend(from));
            for to in 0..self.members {
                acts.extend([Act::Ask { from, to }, Act::Tell { from, to }]);
            }
        }
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let mut next = state.clone();
        let done = match act {
            Act::Begin(write) => next.begin(self, write),
            Act::Promise { write, node } => next.promise(self, write, node),
            Act::Propose { write, crash } => next.propose(self, write, crash),
            Act::Store { write, node } => next.store(self, write, node),
            Act::Damage(damage) => next.damage(self, damage),
            Act::Mend(node) => {
                next.node(node).other = false;
                true
            }
            Act::Ask { from, to } => next.ask(self, from, to),
            Act::Tell { from, to } => next.tell(self, from, to),
            Act::Change(by) => next.change(self, by),
        };
        (done && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("every quorum knows what was acknowledged", |world: &World, state: &State| {
                state.knows_acked(world)
            }),
            Property::always(
                "a conditional write follows what it has seen",
                |world: &World, state: &State| state.follows(world),
            ),
            Property::always("doubts end where enough is left", |world: &World, state: &State| {
                state.gets_out(world)
            }),
            Property::sometimes("a conditional write is acknowledged", |world: &World, state: &State| {
                state
                    .writes
                    .iter()
                    .zip(world.writes)
                    .any(|(write, (_, conditional))| write.acked && *conditional)
            }),
            Property::sometimes("a write is acknowledged after a doubt", |_: &World, state: &State| {
                state.cleared && state.damaged != 0 && state.writes.iter().all(|write| write.acked)
            }),
        ]
    }
}
