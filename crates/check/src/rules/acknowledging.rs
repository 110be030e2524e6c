//! What an acknowledgement needs while a view grows.
//!
//! Three nodes join one after the other, the view grows from one member to three, one write goes on meanwhile, and one node
//! dies for good with its disk. Nodes learn late of each other, so a coordinator counts fewer nodes than there are. A
//! view change is one step here: [`super::lost_disks`] and [`crate::store_rules`] have its parts.

use stateright::{Model, Property};

use super::quorum;

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// An acknowledgement needs a view with as many members as there should be copies.
    ViewIsLarge,
    /// An acknowledgement needs as many members as are a quorum of the copies there should be.
    QuorumOfCopies,
}

/// A world: the rules that are left out, and how many nodes die.
#[derive(Clone, Debug)]
pub struct World {
    /// The rules that are left out.
    pub left: &'static [Left],
    /// How many nodes die.
    pub deaths: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    /// The nodes it knows, itself included.
    knows: u8,
    /// The epoch it is in, if it is a member of one.
    epoch: Option<u8>,
    caught_up: bool,
    has: bool,
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: [Node; 3],
    joined: u8,
    dead: u8,
    deaths: u8,
    /// The members of each epoch.
    views: Vec<u8>,
    /// Whether the newest epoch began with the write.
    began_with: bool,
    coordinator: Option<u8>,
    /// Who has stored the write, by epoch.
    acks: [u8; 3],
    /// How many nodes the coordinator knew when it acknowledged the write.
    acked: Option<u8>,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are nodes")]
pub enum Act {
    /// A node joins.
    Join(u8),
    /// A node learns of another one.
    Learn { node: u8, of: u8 },
    /// A quorum of the view changes it: it takes in one node.
    Grow { quorum: u8, by: u8, takes: u8 },
    /// A member catches up.
    Pull { from: u8, to: u8 },
    /// A node coordinates the write.
    Begin(u8),
    /// A member stores the write.
    Store(u8),
    /// The coordinator acknowledges.
    Ack,
    /// A node dies for good.
    Die(u8),
}

impl State {
    fn epoch(&self) -> u8 {
        self.views.len() as u8 - 1
    }

    fn view(&self) -> u8 {
        self.views[self.views.len() - 1]
    }

    fn is_up(&self, node: u8) -> bool {
        self.joined & !self.dead & 1 << node != 0
    }

    fn serves(&self, node: u8) -> bool {
        let it = &self.nodes[usize::from(node)];
        self.is_up(node) && it.epoch == Some(self.epoch()) && it.caught_up
    }

    fn grow(&mut self, by: u8, q: u8, takes: u8) -> bool {
        let (view, epoch) = (self.view(), self.epoch());
        let knows = self.nodes[usize::from(by)].knows;
        if self.views.len() == 3
            || q & 1 << by == 0
            || q & !view != 0
            || q.count_ones() < quorum(view.count_ones())
            || view & 1 << takes != 0
            || knows & 1 << takes == 0
            || (0..3).any(|node| q & 1 << node != 0 && !self.serves(node))
        {
            return false;
        }
        let merged = (0..3).any(|node| q & 1 << node != 0 && self.nodes[node].has);
        for node in (0..3).filter(|node| q & 1 << node != 0) {
            self.nodes[node].has = merged;
        }
        self.views.push(view | 1 << takes);
        self.began_with = merged;
        for node in 0..3u8 {
            if self.view() & 1 << node == 0 || !self.is_up(node) {
                continue;
            }
            let it = &mut self.nodes[usize::from(node)];
            it.caught_up = q & 1 << node != 0 || it.epoch == Some(epoch) && it.has == merged && it.caught_up;
            it.has &= it.caught_up;
            it.epoch = Some(epoch + 1);
        }
        true
    }

    fn pull(&mut self, from: u8, to: u8) -> bool {
        if !self.serves(from) || !self.is_up(to) {
            return false;
        }
        let has = self.nodes[usize::from(from)].has;
        let it = &mut self.nodes[usize::from(to)];
        if it.epoch != Some(self.views.len() as u8 - 1) || it.caught_up {
            return false;
        }
        (it.has, it.caught_up) = (has, true);
        true
    }

    fn ack(&mut self, world: &World) -> bool {
        let Some(by) = self.coordinator.filter(|by| self.is_up(*by) && self.acked.is_none()) else {
            return false;
        };
        let known = self.nodes[usize::from(by)].knows.count_ones();
        (0..self.views.len()).any(|epoch| {
            let members = self.views[epoch].count_ones();
            let copies = if world.left.contains(&Left::QuorumOfCopies) { 0 } else { quorum(known) };
            let large = members >= known || world.left.contains(&Left::ViewIsLarge);
            let enough = self.acks[epoch].count_ones() >= quorum(members).max(copies);
            if large && enough {
                self.acked = Some(known as u8);
            }
            large && enough
        })
    }

    fn survives(&self) -> bool {
        (0..3).any(|node| self.is_up(node) && self.nodes[usize::from(node)].has)
    }

    /// Whether a quorum of the newest view is left, some member of which has the write.
    fn is_readable(&self) -> bool {
        let left = (self.view() & !self.dead).count_ones();
        left >= quorum(self.view().count_ones())
            && (0..3).any(|n| self.serves(n) && self.nodes[usize::from(n)].has)
    }
}

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        let node =
            |at: u8| Node { knows: 1 << at, epoch: (at == 0).then_some(0), caught_up: at == 0, has: false };
        vec![State {
            nodes: [node(0), node(1), node(2)],
            joined: 1,
            dead: 0,
            deaths: self.deaths,
            views: vec![1],
            began_with: false,
            coordinator: None,
            acks: [0; 3],
            acked: None,
        }]
    }

    fn actions(&self, _: &State, acts: &mut Vec<Act>) {
        acts.push(Act::Ack);
        for node in 0..3 {
            acts.extend([Act::Join(node), Act::Begin(node), Act::Store(node), Act::Die(node)]);
            for other in 0..3 {
                acts.extend([Act::Learn { node, of: other }, Act::Pull { from: node, to: other }]);
                acts.extend((1..8).map(|quorum| Act::Grow { quorum, by: node, takes: other }));
            }
        }
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let mut next = state.clone();
        let done = match act {
            Act::Join(node) => {
                next.joined |= 1 << node;
                true
            }
            Act::Learn { node, of } => {
                next.nodes[usize::from(node)].knows |= 1 << of;
                next.is_up(node) && next.is_up(of)
            }
            Act::Grow { quorum, by, takes } => next.grow(by, quorum, takes),
            Act::Pull { from, to } => next.pull(from, to),
            Act::Begin(node) => {
                let first = next.coordinator.replace(node).is_none();
                first && next.is_up(node)
            }
            Act::Store(node) => {
                next.nodes[usize::from(node)].has = true;
                let epoch = usize::from(next.epoch());
                next.acks[epoch] |= 1 << node;
                next.coordinator.is_some() && next.serves(node)
            }
            Act::Ack => next.ack(self),
            Act::Die(node) => {
                let can = next.deaths > 0 && next.is_up(node);
                next.deaths = next.deaths.saturating_sub(1);
                next.dead |= 1 << node;
                next.nodes[usize::from(node)] = Node { knows: 0, epoch: None, caught_up: false, has: false };
                can
            }
        };
        (done && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always(
                "what a coordinator of two acknowledged survives one disk",
                |_: &World, state: &State| state.acked.is_none_or(|known| known < 2) || state.survives(),
            ),
            Property::always(
                "what a coordinator of three acknowledged is readable without one",
                |_: &World, state: &State| state.acked.is_none_or(|known| known < 3) || state.is_readable(),
            ),
            Property::sometimes("a coordinator of one acknowledges", |_: &World, state: &State| {
                state.acked == Some(1)
            }),
            Property::sometimes("a coordinator of three acknowledges", |_: &World, state: &State| {
                state.acked == Some(3)
            }),
            Property::sometimes("a coordinator knows too few", |_: &World, state: &State| {
                state.acked == Some(1) && state.joined == 0b111
            }),
            Property::sometimes("a write that one node knew of is lost", |_: &World, state: &State| {
                state.acked == Some(1) && !state.survives()
            }),
        ]
    }
}
