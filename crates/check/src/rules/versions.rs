//! Versions and clocks: which versions a member takes, so that a wrong clock undoes no later write and stops none.
//!
//! One key, few members, integers for time. Clocks differ by a skew; one node at a time may be in error, its clock far
//! ahead for a while. A write's messages live for a bounded time. The promise: a write never replaces one that was issued
//! more than clock-ahead, the life of a message and the skew later, and that was acknowledged.

use stateright::{Model, Property};

use super::quorum;

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A coordinator stores its own write only after another member has.
    StoresSecond,
    /// A member refuses versions that are too far ahead.
    UpperBound,
    /// A member refuses versions that are too far behind, and says what would do.
    LowerBound,
    /// What other members bring raises the clock without limit.
    RaisesWithoutLimit,
    /// A write's messages live for a bounded time.
    MessagesEnd,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 5] =
        [Left::StoresSecond, Left::UpperBound, Left::LowerBound, Left::RaisesWithoutLimit, Left::MessagesEnd];
}

/// What versions are measured against where records are far ahead of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// A node's hybrid clock: the greatest version it has stored or was brought. It stands still until time has come
    /// up to it.
    Hybrid,
    /// Cluster time plus the distance by which the view's first state was ahead of it, decided with the view. It runs.
    Offset,
}

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its name.
    pub name: &'static str,
    /// What versions are measured against.
    pub clock: Clock,
    /// How far every node's clock is ahead, always.
    pub skew: [u8; 3],
    /// How far the clock of a node in error is ahead, and how often there is one.
    pub error: (u8, u8),
    /// The greatest version of another key that is brought to members, or 0; and whether it stays with the node that got it.
    pub far: (u8, bool),
    /// When the search ends.
    pub end: u8,
    /// The rules that are left out.
    pub left: &'static [Left],
}

/// How far ahead a version may be.
const AHEAD: u8 = 1;
/// How long a write's messages live.
const LIFE: u8 = 1;
/// How far behind a version may be: a message's life and the skew.
const BEHIND: u8 = 2;

impl Plan {
    const BASE: Plan = Plan {
        name: "",
        clock: Clock::Hybrid,
        skew: [0, 1, 0],
        error: (0, 0),
        far: (0, false),
        end: 6,
        left: &[],
    };

    /// Finds a world by its name.
    pub fn named(name: &str) -> Option<Plan> {
        PLANS.iter().chain(LARGE).chain(REFUTED).find(|plan| plan.name == name).copied()
    }

    /// The same without some rules.
    pub fn without(self, left: &'static [Left]) -> Plan {
        Plan { left, ..self }
    }

    fn has(&self, rule: Left) -> bool {
        !self.left.contains(&rule)
    }

    /// After how long the promise holds.
    fn window(&self) -> u8 {
        let skew = self.skew.iter().copied().max().unwrap_or_default();
        match self.clock {
            Clock::Hybrid => AHEAD + LIFE + skew,
            // A writer that does not know the offset is let in by so much.
            Clock::Offset => AHEAD + LIFE + skew + BEHIND,
        }
    }
}

/// All worlds.
pub const PLANS: &[Plan] = &[
    Plan { name: "error", error: (5, 1), ..Plan::BASE },
    Plan { name: "offset-error", clock: Clock::Offset, skew: [0; 3], error: (7, 1), ..Plan::BASE },
    Plan { name: "offset-far", clock: Clock::Offset, skew: [0; 3], far: (9, false), ..Plan::BASE },
];

/// Worlds that take longer.
pub const LARGE: &[Plan] = &[
    Plan { name: "offset-error-skew", clock: Clock::Offset, error: (8, 1), end: 7, ..Plan::BASE },
    Plan { name: "offset-far-skew", clock: Clock::Offset, far: (9, false), end: 7, ..Plan::BASE },
];

/// Worlds in which the rules are not enough.
pub const REFUTED: &[Plan] = &[
    // A record of the same slot is far ahead: the hybrid clock stands still, so that versions say nothing about time.
    Plan { name: "far-everywhere", far: (9, false), ..Plan::BASE },
    // A record of another slot is far ahead at one node, which shares its hybrid clock among its slots.
    Plan { name: "far-somewhere", far: (9, true), ..Plan::BASE },
];

/// A version: its number, then the write, so that no two are equal.
type Version = (u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// Its hybrid clock, or the offset that it knows of.
    high: u8,
    rec: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Write {
    by: u8,
    number: u8,
    issued: u8,
    stored: u8,
    tries: u8,
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    time: u8,
    nodes: [Node; 3],
    /// The node in error.
    error: Option<u8>,
    errors: u8,
    /// The members' offset.
    offset: u8,
    /// Nodes that may still be brought something.
    brings: u8,
    writes: [Option<Write>; 2],
    raised: bool,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are writes and nodes")]
pub enum Act {
    /// Time goes on.
    Tick,
    /// A node's clock jumps ahead.
    Err(u8),
    /// It is right again.
    Mend,
    /// A node begins a write.
    Issue { write: u8, by: u8 },
    /// A write's message reaches a member.
    Deliver { write: u8, node: u8 },
    /// Anti-entropy copies the greater record.
    Repair { from: u8, to: u8 },
    /// Members are brought a far version of another key.
    Bring(u8),
}

/// What a member says to a write.
enum Said {
    Stored,
    Ahead,
    /// Refused as too low: something above this would do.
    Above(u8),
}

impl State {
    fn time_of(&self, plan: &Plan, node: u8) -> u8 {
        let error = if self.error == Some(node) { plan.error.0 } else { 0 };
        self.time + plan.skew[usize::from(node)] + error
    }

    /// The version a node makes.
    fn number(&self, plan: &Plan, node: u8) -> u8 {
        let (time, high) = (self.time_of(plan, node), self.nodes[usize::from(node)].high);
        match plan.clock {
            Clock::Hybrid => time.max(high + 1),
            Clock::Offset => time + high,
        }
    }

    fn receive(&mut self, plan: &Plan, node: u8, version: Version) -> Said {
        let time = self.time_of(plan, node);
        let it = &mut self.nodes[usize::from(node)];
        let now = match plan.clock {
            Clock::Hybrid => time.max(it.high),
            Clock::Offset => time + self.offset,
        };
        if plan.clock == Clock::Offset && it.high != self.offset {
            // It is frozen, or in an earlier epoch.
            return Said::Ahead;
        }
        if plan.has(Left::UpperBound) && version.0 > now + AHEAD {
            return Said::Ahead;
        }
        let least = match plan.clock {
            Clock::Hybrid if it.high > time + AHEAD => it.high - AHEAD,
            Clock::Hybrid => 0,
            Clock::Offset => now.saturating_sub(BEHIND),
        };
        if plan.has(Left::LowerBound) && version.0 < least {
            return Said::Above(if plan.clock == Clock::Hybrid { it.high } else { self.offset });
        }
        if it.rec > version {
            return Said::Above(if plan.clock == Clock::Hybrid {
                it.high.max(it.rec.0)
            } else {
                self.offset
            });
        }
        it.rec = version;
        if plan.clock == Clock::Hybrid {
            it.high = it.high.max(version.0);
        }
        Said::Stored
    }

    fn raise(&mut self, plan: &Plan, node: u8, to: u8) {
        let time = self.time_of(plan, node);
        if plan.has(Left::RaisesWithoutLimit) || to <= time + AHEAD {
            let it = &mut self.nodes[usize::from(node)];
            self.raised |= to > it.high;
            it.high = it.high.max(to);
        }
    }

    fn deliver(&mut self, plan: &Plan, write: u8, node: u8) -> bool {
        let at = usize::from(write);
        let Some(mut it) = self.writes[at] else { return false };
        let old = plan.has(Left::MessagesEnd) && self.time > it.issued + LIFE;
        let second = it.by != node || it.stored != 0 || !plan.has(Left::StoresSecond);
        if old || !second || it.stored & 1 << node != 0 {
            return false;
        }
        match self.receive(plan, node, (it.number, write)) {
            Said::Stored => it.stored |= 1 << node,
            Said::Ahead => return false,
            Said::Above(high) => {
                // A new version is made only for what no member has stored.
                if it.stored != 0 || it.tries == 0 {
                    return false;
                }
                it.tries -= 1;
                self.raise(plan, it.by, high);
                it.number = self.number(plan, it.by).max(it.number);
            }
        }
        self.writes[at] = Some(it);
        true
    }

    fn is_acked(write: &Write) -> bool {
        write.stored.count_ones() >= quorum(3)
    }

    /// Whether the promise about unknown outcomes holds.
    fn keeps_promise(&self, plan: &Plan) -> bool {
        let all = || (0..2u8).filter_map(|at| Some((at, self.writes[usize::from(at)]?)));
        all().filter(|(_, later)| State::is_acked(later)).all(|(b, later)| {
            all().all(|(a, earlier)| {
                let held = self.nodes.iter().any(|node| node.rec == (earlier.number, a));
                later.issued <= earlier.issued + plan.window()
                    || !held
                    || (earlier.number, a) < (later.number, b)
            })
        })
    }

    /// Whether a write of any node can be acknowledged soon, if the clocks are right and copies are repaired.
    fn can_write(&self, plan: &Plan) -> bool {
        if self.error.is_some() {
            return true;
        }
        (0..3).all(|by| {
            let mut state = self.clone();
            if plan.clock == Clock::Offset && state.offset > 0 {
                for node in 0..3 {
                    state.raise(plan, node, state.offset);
                }
            }
            for to in 0..3u8 {
                for from in 0..3u8 {
                    state.repair(plan, from, to);
                    let high = state.nodes[usize::from(from)].high;
                    if plan.clock == Clock::Hybrid && !plan.far.1 {
                        // The other key is in the same slot.
                        state.raise(plan, to, high);
                    }
                }
            }
            (0..5).any(|_| {
                let number = state.number(plan, by).max(1);
                let mut stored = 0;
                let mut above = 0;
                for node in 0..3 {
                    match state.receive(plan, node, (number, 2)) {
                        Said::Stored => stored += 1,
                        Said::Above(high) => above = above.max(high),
                        Said::Ahead => {}
                    }
                }
                state.raise(plan, by, above);
                state.time += 1;
                stored >= quorum(3)
            })
        })
    }

    fn repair(&mut self, plan: &Plan, from: u8, to: u8) -> bool {
        let rec = self.nodes[usize::from(from)].rec;
        let it = &mut self.nodes[usize::from(to)];
        if it.rec >= rec {
            return false;
        }
        it.rec = rec;
        if plan.clock == Clock::Hybrid {
            self.raise(plan, to, rec.0);
        }
        true
    }
}

/// A plan as a model.
#[derive(Clone, Debug)]
pub struct World(pub Plan);

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            time: 0,
            nodes: [Node { high: 0, rec: (0, 0) }; 3],
            error: None,
            errors: self.0.error.1,
            offset: 0,
            brings: if self.0.far.0 > 0 { 0b111 } else { 0 },
            writes: [None; 2],
            raised: false,
        }]
    }

    fn actions(&self, state: &State, acts: &mut Vec<Act>) {
        acts.extend([Act::Tick, Act::Mend]);
        for node in 0..3 {
            acts.extend([Act::Err(node), Act::Bring(node)]);
            for write in 0..2u8 {
                match state.writes[usize::from(write)] {
                    // Either write may win a tie: the one that is issued first has the greater tag.
                    None if write == 0 && state.writes[1].is_none() => {}
                    None => acts.push(Act::Issue { write, by: node }),
                    Some(_) => acts.push(Act::Deliver { write, node }),
                }
            }
            acts.extend((0..3).filter(|to| *to != node).map(|to| Act::Repair { from: node, to }));
        }
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let plan = &self.0;
        let mut next = state.clone();
        let done = match act {
            Act::Tick => {
                next.time += 1;
                next.time <= plan.end
            }
            Act::Err(node) => {
                let can = next.errors > 0 && next.error.is_none() && node < 2;
                next.errors = next.errors.saturating_sub(1);
                next.error = Some(node);
                can
            }
            Act::Mend => next.error.take().is_some(),
            Act::Issue { write, by } => {
                let number = next.number(plan, by);
                let issued = next.time;
                // What matters is what the second write comes after.
                if write == 1 && issued > u8::from(plan.far.0 == 0) {
                    return None;
                }
                next.writes[usize::from(write)] = Some(Write { by, number, issued, stored: 0, tries: 2 });
                true
            }
            Act::Deliver { write, node } => next.deliver(plan, write, node),
            Act::Repair { from, to } => next.repair(plan, from, to),
            Act::Bring(node) => {
                let can = next.brings & 1 << node != 0;
                if plan.clock == Clock::Offset && next.brings == 0b111 {
                    // A view change; members hear of it one by one.
                    if next.time > 0 {
                        return None;
                    }
                    next.offset = plan.far.0.saturating_sub(next.time);
                }
                next.brings &= !(1 << node);
                let high = if plan.clock == Clock::Offset { next.offset } else { plan.far.0 };
                next.raise(plan, node, high);
                can
            }
        };
        (done && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let mut all = vec![
            Property::always("a write never replaces a later one", |world: &World, state: &State| {
                state.keeps_promise(&world.0)
            }),
            Property::always("writes never stop", |world: &World, state: &State| state.can_write(&world.0)),
            Property::sometimes("two writes are acknowledged", |_, state: &State| {
                state.writes.iter().all(|write| write.as_ref().is_some_and(State::is_acked))
            }),
            Property::sometimes("a write is stored by some", |world: &World, state: &State| {
                state.writes.iter().flatten().any(|write| {
                    write.stored.count_ones() == 1 && state.time > write.issued + LIFE && world.0.end > 0
                })
            }),
        ];
        if self.0.far.0 > 0 {
            all.push(Property::sometimes("a clock is raised", |_, state: &State| state.raised));
        }
        if self.0.error.1 > 0 {
            all.push(Property::sometimes("a node in error writes in vain", |_, state: &State| {
                let vain = |write: &Write| write.stored == 0 && write.number > write.issued + 3 + AHEAD;
                state.writes.iter().flatten().any(vain)
            }));
        }
        all
    }
}
