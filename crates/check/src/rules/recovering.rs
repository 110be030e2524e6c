//! Recovery under a new lineage: what `recover` promises, and what it does not.
//!
//! An operator asserts that members of a view are dead for good and lets the survivors that are present begin a new
//! lineage with what they have. The assertion can be wrong: old members come back, among them a majority of the old view
//! that never heard of the recovery. Two operators can recover at once. One slot, three nodes; a node's records are a
//! set of writes.

use stateright::{Model, Property};

use super::quorum;

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A survivor serves nothing more of the old lineage once it has told what it has.
    FreezeFirst,
    /// A node refuses what belongs to a lower lineage than its own.
    RefusesLower,
    /// The records of a lower lineage are set aside, not kept.
    SetAside,
    /// Of two recoveries with the same number, one is greater.
    TieBreak,
    /// A recovery is complete when every survivor it names has told what it has.
    EverySurvivor,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 5] =
        [Left::FreezeFirst, Left::RefusesLower, Left::SetAside, Left::TieBreak, Left::EverySurvivor];
}

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Its name.
    pub name: &'static str,
    /// The survivors that each recovery names, as bits. The second one is the greater.
    pub survivors: &'static [u8],
    /// The nodes, as bits, that are dead for good from the start of the first recovery on.
    pub dead: u8,
    /// The rules that are left out.
    pub left: &'static [Left],
}

/// All worlds.
pub const WORLDS: &[World] = &[
    // The assertion is right: of three members one is left.
    World { name: "one-left", survivors: &[0b001], dead: 0b110, left: &[] },
    // The same with two that are left, of which one answers late.
    World { name: "two-left", survivors: &[0b011], dead: 0b100, left: &[] },
    // The assertion is wrong: the others come back, and are a majority of the old view.
    World { name: "majority-returns", survivors: &[0b001], dead: 0, left: &[] },
    World { name: "one-returns", survivors: &[0b011], dead: 0, left: &[] },
    // Two operators at once.
    World { name: "two-recoveries", survivors: &[0b001, 0b100], dead: 0, left: &[] },
];

const NODES: usize = 3;
const WRITES: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// Its lineage: 0 is the old one, others count recoveries from 1.
    lineage: u8,
    /// Whether it has told what it has to a recovery, by bits.
    told: u8,
    records: u8,
    aside: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct View {
    members: u8,
    start: u8,
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: [Node; NODES],
    /// What each recovery was told so far.
    told: [[Option<u8>; NODES]; 2],
    /// The view of each lineage.
    views: [Option<View>; 3],
    /// The lineage of each write, and who has stored it.
    writes: [Option<(u8, u8)>; WRITES as usize],
    acked: u8,
    dead: u8,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are writes, lineages, recoveries and nodes")]
pub enum Act {
    /// A write begins in a lineage.
    Begin { write: u8, lineage: u8 },
    /// A member stores a write and says so.
    Store { write: u8, node: u8 },
    /// The nodes that die do.
    Die,
    /// A survivor tells a recovery what it has.
    Tell { recovery: u8, node: u8 },
    /// A recovery begins its lineage.
    Recover(u8),
    /// A node tells another one of its lineage.
    Meet { from: u8, to: u8 },
    /// A lineage takes in a node that is outside.
    Add { by: u8, node: u8 },
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

    /// Whether a lineage is greater than another one.
    fn is_greater(&self, one: u8, other: u8) -> bool {
        one > other && (self.has(Left::TieBreak) || other == 0)
    }
}

impl State {
    fn is_up(&self, node: u8) -> bool {
        self.dead & 1 << node == 0
    }

    /// Whether a node acts as a member of a lineage.
    fn serves(&self, world: &World, node: u8, lineage: u8) -> bool {
        let it = &self.nodes[usize::from(node)];
        let member = self.views[usize::from(lineage)].is_some_and(|view| view.members & 1 << node != 0);
        let own = it.lineage == lineage || lineage < it.lineage && !world.has(Left::RefusesLower);
        let promised = (0..2u8).any(|r| it.told & 1 << r != 0 && world.is_greater(r + 1, lineage));
        self.is_up(node) && member && own && !(promised && world.has(Left::FreezeFirst))
    }

    fn store(&mut self, world: &World, write: u8, node: u8) -> bool {
        let Some((lineage, stored)) = self.writes[usize::from(write)] else { return false };
        if !self.serves(world, node, lineage) {
            return false;
        }
        let Some(view) = self.views[usize::from(lineage)] else { return false };
        self.nodes[usize::from(node)].records |= 1 << write;
        let stored = stored | 1 << node;
        self.writes[usize::from(write)] = Some((lineage, stored));
        if (stored & view.members).count_ones() >= quorum(view.members.count_ones()) {
            self.acked |= 1 << write;
        }
        true
    }

    fn tell(&mut self, world: &World, recovery: u8, node: u8) -> bool {
        let names = world.survivors[usize::from(recovery)];
        let it = &mut self.nodes[usize::from(node)];
        if names & 1 << node == 0 || it.lineage != 0 || it.told & 1 << recovery != 0 {
            return false;
        }
        it.told |= 1 << recovery;
        self.told[usize::from(recovery)][usize::from(node)] = Some(it.records);
        self.is_up(node) && self.views[usize::from(recovery) + 1].is_none()
    }

    fn recover(&mut self, world: &World, recovery: u8) -> bool {
        let at = usize::from(recovery);
        let names = world.survivors[at];
        let told = self.told[at];
        let all = (0..NODES).all(|node| names & 1 << node == 0 || told[node].is_some());
        let some = told.iter().any(Option::is_some);
        if self.views[at + 1].is_some() || !some || !all && world.has(Left::EverySurvivor) {
            return false;
        }
        let start = told.iter().flatten().fold(0, |all, records| all | records);
        self.views[at + 1] = Some(View { members: names, start });
        for node in 0..NODES as u8 {
            let own = self.nodes[usize::from(node)].lineage;
            if told[usize::from(node)].is_some() && self.is_up(node) && world.is_greater(recovery + 1, own) {
                self.enter(world, node, recovery + 1);
                break;
            }
        }
        true
    }

    /// A node enters a lineage.
    fn enter(&mut self, world: &World, node: u8, lineage: u8) {
        let it = &mut self.nodes[usize::from(node)];
        let Some(view) = self.views[usize::from(lineage)] else { return };
        it.lineage = lineage;
        if world.has(Left::SetAside) {
            it.aside |= it.records;
            it.records = 0;
        }
        if view.members & 1 << node != 0 {
            it.records |= view.start;
        }
    }

    fn meet(&mut self, world: &World, from: u8, to: u8) -> bool {
        let lineage = self.nodes[usize::from(from)].lineage;
        if !self.is_up(from)
            || !self.is_up(to)
            || !world.is_greater(lineage, self.nodes[usize::from(to)].lineage)
        {
            return false;
        }
        self.enter(world, to, lineage);
        true
    }

    fn add(&mut self, world: &World, by: u8, node: u8) -> bool {
        let lineage = self.nodes[usize::from(by)].lineage;
        let Some(view) = self.views[usize::from(lineage)] else { return false };
        let outside = self.nodes[usize::from(node)].lineage == lineage && view.members & 1 << node == 0;
        let serving: Vec<u8> = (0..NODES as u8).filter(|n| self.serves(world, *n, lineage)).collect();
        if lineage == 0
            || !outside
            || !self.is_up(node)
            || (serving.len() as u32) < quorum(view.members.count_ones())
        {
            return false;
        }
        let merged = serving.iter().fold(0, |all, member| all | self.nodes[usize::from(*member)].records);
        let members = view.members | 1 << node;
        self.views[usize::from(lineage)] = Some(View { members, start: merged });
        for member in serving.into_iter().chain([node]) {
            self.nodes[usize::from(member)].records |= merged;
        }
        true
    }

    /// What is served in a new lineage was there when it began, or was written in it.
    fn is_own(&self, world: &World) -> bool {
        (0..NODES as u8).all(|node| {
            let it = &self.nodes[usize::from(node)];
            let lineage = it.lineage;
            let Some(view) = self.views[usize::from(lineage)] else { return true };
            let written = (0..WRITES)
                .filter(|write| self.writes[usize::from(*write)].is_some_and(|w| w.0 == lineage))
                .fold(0, |all, write| all | 1 << write);
            lineage == 0 || !self.serves(world, node, lineage) || it.records & !(view.start | written) == 0
        })
    }

    /// No quorum of a new lineage lacks what was acknowledged in it.
    fn knows_acked(&self, world: &World) -> bool {
        (0..WRITES).filter(|write| self.acked & 1 << write != 0).all(|write| {
            let Some((lineage, _)) = self.writes[usize::from(write)] else { return true };
            let Some(view) = self.views[usize::from(lineage)] else { return true };
            let lacks = |node: &u8| {
                let it = &self.nodes[usize::from(*node)];
                self.serves(world, *node, lineage) && it.lineage == lineage && it.records & 1 << write == 0
            };
            let lacks = (0..NODES as u8).filter(lacks).count() as u32;
            lacks < quorum(view.members.count_ones())
        })
    }

    /// What was acknowledged before and a survivor had stored is in the state its lineage began with.
    fn keeps_what_survived(&self, world: &World) -> bool {
        (0..WRITES).filter(|write| self.acked & 1 << write != 0).all(|write| {
            let Some((0, stored)) = self.writes[usize::from(write)] else { return true };
            (0..world.survivors.len()).all(|recovery| {
                let Some(view) = self.views[recovery + 1] else { return true };
                stored & world.survivors[recovery] == 0 || view.start & 1 << write != 0
            })
        })
    }

    /// Once all that are up have met, one lineage is left.
    fn becomes_one(&self, world: &World) -> bool {
        let mut state = self.clone();
        for _ in 0..NODES {
            for from in 0..NODES as u8 {
                for to in 0..NODES as u8 {
                    state.meet(world, from, to);
                }
            }
        }
        let mut up = (0..NODES as u8).filter(|node| state.is_up(*node));
        let first = up.next().map(|node| state.nodes[usize::from(node)].lineage);
        up.all(|node| Some(state.nodes[usize::from(node)].lineage) == first)
    }
}

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            nodes: [Node { lineage: 0, told: 0, records: 0, aside: 0 }; NODES],
            told: [[None; NODES]; 2],
            views: [Some(View { members: 0b111, start: 0 }), None, None],
            writes: [None; WRITES as usize],
            acked: 0,
            dead: 0,
        }]
    }

    fn actions(&self, state: &State, acts: &mut Vec<Act>) {
        acts.push(Act::Die);
        for write in 0..WRITES {
            if state.writes[usize::from(write)].is_none() {
                // The first is a write of the old lineage, the last one of a new one.
                let lineages = if write == 0 { 0..=0 } else { write - 1..=2 };
                acts.extend(lineages.map(|lineage| Act::Begin { write, lineage }));
            }
        }
        for node in 0..NODES as u8 {
            acts.extend((0..WRITES).map(|write| Act::Store { write, node }));
            for recovery in 0..self.survivors.len() as u8 {
                acts.push(Act::Tell { recovery, node });
            }
            for other in (0..NODES as u8).filter(|other| *other != node) {
                acts.extend([Act::Meet { from: node, to: other }, Act::Add { by: node, node: other }]);
            }
        }
        acts.extend((0..self.survivors.len() as u8).map(Act::Recover));
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let mut next = state.clone();
        let done = match act {
            Act::Begin { write, lineage } => {
                next.writes[usize::from(write)] = Some((lineage, 0));
                next.views[usize::from(lineage)].is_some()
            }
            Act::Store { write, node } => next.store(self, write, node),
            Act::Die => {
                next.dead = self.dead;
                true
            }
            // The operator looks at what is there when the dead are.
            Act::Tell { recovery, node } => next.dead == self.dead && next.tell(self, recovery, node),
            Act::Recover(recovery) => next.recover(self, recovery),
            Act::Meet { from, to } => next.meet(self, from, to),
            Act::Add { by, node } => next.add(self, by, node),
        };
        (done && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let mut all = vec![
            Property::always("a lineage serves only what is its own", |world: &World, state: &State| {
                state.is_own(world)
            }),
            Property::always(
                "a lineage knows what was acknowledged in it",
                |world: &World, state: &State| state.knows_acked(world),
            ),
            Property::always(
                "what survivors had of acknowledged writes is kept",
                |world: &World, state: &State| state.keeps_what_survived(world),
            ),
            Property::always("nodes that have met serve one lineage", |world: &World, state: &State| {
                state.becomes_one(world)
            }),
            Property::sometimes("a write is acknowledged in a new lineage", |_: &World, state: &State| {
                let new = |write: &u8| state.writes[usize::from(*write)].is_some_and(|it| it.0 > 0);
                (0..WRITES).filter(new).any(|write| state.acked & 1 << write != 0)
            }),
        ];
        if self.dead == 0 {
            all.push(Property::sometimes("a returning node is outside", |_: &World, state: &State| {
                state.nodes.iter().any(|node| node.aside != 0 && node.records == 0)
            }));
        }
        if self.name == "majority-returns" {
            all.push(Property::sometimes(
                "a returning majority goes on until it hears",
                |_: &World, state: &State| {
                    // Not promised: what it acknowledged after the recovery is set aside.
                    let old = |write: &u8| state.writes[usize::from(*write)].is_some_and(|it| it.0 == 0);
                    (0..WRITES).filter(old).any(|write| {
                        state.acked & 1 << write != 0
                            && state.views[1].is_some()
                            && state
                                .nodes
                                .iter()
                                .all(|node| node.lineage == 1 && node.records & 1 << write == 0)
                    })
                },
            ));
        }
        all
    }
}
