//! Doubt: a member whose disk cannot be read in part, and how it comes to count again.
//!
//! A member that cannot read a key range neither serves nor votes with it, until n-q+1 other members have told what
//! they have: any write it acknowledged has q-1 other holders, and any n-q+1 others meet those. Two keys stand for two ranges.
//! A view change is one step here: [`super::lost_disks`] has its parts.

use stateright::{Model, Property};

use super::quorum;

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A member in doubt about a key does not serve it.
    Abstains,
    /// A member in doubt votes for no view with what it has of the key.
    VotesNot,
    /// Doubt ends after n-q+1 others have told, not after the first.
    Enough,
    /// A member that doubts a key itself tells nothing about it.
    OnlyWhole,
    /// A member asks only when no write that it may have stored before can be acknowledged any more.
    Waits,
    /// Members tell about one range while they doubt another.
    TellsOthers,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 6] =
        [Left::Abstains, Left::VotesNot, Left::Enough, Left::OnlyWhole, Left::Waits, Left::TellsOthers];
}

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Its name.
    pub name: &'static str,
    /// How many members there are.
    pub members: u8,
    /// What may be damaged: node and key.
    pub damages: &'static [(u8, u8)],
    /// Whether the view may change.
    pub changes: bool,
    /// The rules that are left out.
    pub left: &'static [Left],
}

/// All worlds.
pub const WORLDS: &[World] = &[
    World { name: "two", members: 2, damages: &[(0, 0), (1, 1)], changes: true, left: &[] },
    World { name: "three", members: 3, damages: &[(0, 0), (1, 1)], changes: true, left: &[] },
    World { name: "three-same", members: 3, damages: &[(0, 0), (1, 0)], changes: true, left: &[] },
    World { name: "four", members: 4, damages: &[(0, 0), (1, 0), (2, 1)], changes: false, left: &[] },
];

const KEYS: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Copy {
    has: bool,
    doubts: bool,
    heard: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Write {
    /// Who has stored it in this epoch, and said so.
    stored: u8,
    acked: bool,
    over: bool,
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: Vec<[Copy; KEYS]>,
    writes: [Write; KEYS],
    damaged: u8,
    changes: u8,
    cleared: u8,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are keys and nodes")]
pub enum Act {
    /// A member stores the write of a key and says so.
    Store { key: u8, node: u8 },
    /// The write of a key is over: no message of it arrives any more.
    End(u8),
    /// A member finds a key damaged.
    Damage(u8),
    /// A member tells another one what it has of a key.
    Tell { key: u8, from: u8, to: u8 },
    /// Members change the view.
    Change(u8),
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

    fn quorum(&self) -> u32 {
        quorum(self.members.into())
    }

    /// How many members meet every quorum.
    fn meets(&self) -> u32 {
        u32::from(self.members) - self.quorum() + 1
    }
}

impl State {
    fn copy(&mut self, node: u8, key: u8) -> &mut Copy {
        &mut self.nodes[usize::from(node)][usize::from(key)]
    }

    fn store(&mut self, world: &World, key: u8, node: u8) -> bool {
        let copy = self.copy(node, key);
        if copy.doubts && world.has(Left::Abstains) {
            return false;
        }
        copy.has = true;
        let write = &mut self.writes[usize::from(key)];
        if write.over {
            return false;
        }
        write.stored |= 1 << node;
        write.acked |= write.stored.count_ones() >= world.quorum();
        true
    }

    fn tell(&mut self, world: &World, key: u8, from: u8, to: u8) -> bool {
        let source = self.nodes[usize::from(from)];
        let told = source[usize::from(key)];
        let silent = told.doubts && world.has(Left::OnlyWhole)
            || source.iter().any(|copy| copy.doubts) && !world.has(Left::TellsOthers);
        let early = !self.writes[usize::from(key)].over && world.has(Left::Waits);
        let copy = self.copy(to, key);
        if from == to || silent || early || !copy.doubts || copy.heard & 1 << from != 0 {
            return false;
        }
        copy.has |= told.has;
        copy.heard |= 1 << from;
        if copy.heard.count_ones() >= if world.has(Left::Enough) { world.meets() } else { 1 } {
            (copy.doubts, copy.heard) = (false, 0);
            self.cleared += 1;
        }
        true
    }

    /// The view changes: those that take part merge what they have, and all begin the next epoch with that.
    fn change(&mut self, world: &World, by: u8) -> bool {
        let takes_part = |node: &u8| by & 1 << node != 0;
        let whole = |node: u8| self.nodes[usize::from(node)].iter().all(|copy| !copy.doubts);
        let mut members = (0..world.members).filter(takes_part);
        if self.changes == 0
            || by.count_ones() < world.quorum()
            || world.has(Left::VotesNot) && !members.all(whole)
        {
            return false;
        }
        self.changes -= 1;
        for key in 0..KEYS {
            let has = (0..world.members).filter(takes_part).any(|n| self.nodes[usize::from(n)][key].has);
            for node in &mut self.nodes {
                node[key] = Copy { has, ..Copy::default() };
            }
            // What was counted in the old epoch counts no more.
            self.writes[key].stored = 0;
        }
        true
    }

    fn knows_acked(&self, world: &World) -> bool {
        (0..KEYS).filter(|key| self.writes[*key].acked).all(|key| {
            let serves = |copy: &Copy| !copy.doubts || !world.has(Left::Abstains);
            let lacks = self.nodes.iter().map(|node| node[key]).filter(|copy| serves(copy) && !copy.has);
            (lacks.count() as u32) < world.quorum()
        })
    }

    /// Where enough members are whole, all doubts end.
    fn gets_out(&self, world: &World) -> bool {
        let mut state = self.clone();
        for key in 0..KEYS as u8 {
            let whole = self.nodes.iter().filter(|node| !node[usize::from(key)].doubts).count() as u32;
            if whole < world.meets() {
                return true;
            }
            state.writes[usize::from(key)].over = true;
        }
        for _ in 0..2 {
            for key in 0..KEYS as u8 {
                for from in 0..world.members {
                    for to in 0..world.members {
                        state.tell(world, key, from, to);
                    }
                }
            }
        }
        state.nodes.iter().flatten().all(|copy| !copy.doubts)
    }
}

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            nodes: vec![[Copy::default(); KEYS]; self.members.into()],
            writes: [Write::default(); KEYS],
            damaged: 0,
            changes: self.changes.into(),
            cleared: 0,
        }]
    }

    fn actions(&self, _: &State, acts: &mut Vec<Act>) {
        acts.extend((0..self.damages.len() as u8).map(Act::Damage));
        acts.extend((1..1 << self.members).map(Act::Change));
        for key in 0..KEYS as u8 {
            acts.push(Act::End(key));
            for node in 0..self.members {
                acts.push(Act::Store { key, node });
                acts.extend((0..self.members).map(|to| Act::Tell { key, from: node, to }));
            }
        }
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let mut next = state.clone();
        let done = match act {
            Act::Store { key, node } => next.store(self, key, node),
            Act::End(key) => {
                next.writes[usize::from(key)].over = true;
                true
            }
            Act::Damage(damage) => {
                let (node, key) = self.damages[usize::from(damage)];
                let first = next.damaged & 1 << damage == 0;
                next.damaged |= 1 << damage;
                *next.copy(node, key) = Copy { has: false, doubts: true, heard: 0 };
                first
            }
            Act::Tell { key, from, to } => next.tell(self, key, from, to),
            Act::Change(by) => next.change(self, by),
        };
        (done && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let mut all = vec![
            Property::always("every quorum knows what was acknowledged", |world: &World, state: &State| {
                state.knows_acked(world)
            }),
            Property::always("doubts end where enough is left", |world: &World, state: &State| {
                state.gets_out(world)
            }),
            Property::sometimes("writes are acknowledged", |_: &World, state: &State| {
                state.writes.iter().all(|write| write.acked)
            }),
        ];
        if self.name != "three-same" {
            all.push(Property::sometimes("all doubts end", |world: &World, state: &State| {
                usize::from(state.cleared) == world.damages.len()
            }));
        }
        all
    }
}
