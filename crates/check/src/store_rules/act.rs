//! The world as a model: what can happen next.

use stateright::{Model, Property};

use super::plan::Plan;
use super::props;
use super::state::{Mask, Msg, Phase, Stage, State};

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Invoke(u8),
    Deliver(Msg, u8),
    Ask { op: u8, node: u8 },
    Choose { op: u8, quorum: Mask },
    Finish(u8),
    Moves { op: u8, epoch: u8 },
    Retry(u8),
    ProposeChange(u8),
    Freeze { change: u8, node: u8 },
    Merge { change: u8, quorum: Mask },
    Push { change: u8, node: u8 },
    AcceptView { change: u8, node: u8 },
    Pull { from: u8, to: u8 },
    Forget(u8),
    Sync(u8),
    Crash(u8),
    Amnesia(u8),
}

/// A plan as a model.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    /// Whether only what changes something is offered: walks need that.
    pub(super) strict: bool,
}

impl Model for World {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.plan)]
    }

    fn actions(&self, state: &State, acts: &mut Vec<Act>) {
        let plan = &self.plan;
        let nodes = 0..state.nodes.len() as u8;
        for op in 0..state.ops.len() as u8 {
            match state.ops[usize::from(op)].phase {
                Phase::Idle => acts.push(Act::Invoke(op)),
                Phase::Query { .. } => acts.extend(nodes.clone().map(|node| Act::Ask { op, node })),
                Phase::Accept { .. } => acts.extend([Act::Finish(op), Act::Retry(op)]),
                Phase::Prepare { .. } => acts.push(Act::Retry(op)),
                _ => {}
            }
            acts.extend(state.choices(plan, op).into_iter().map(|quorum| Act::Choose { op, quorum }));
            if state.ops[usize::from(op)].phase.epoch().is_some() {
                acts.extend(state.installs().map(|(epoch, ..)| Act::Moves { op, epoch }));
            }
        }
        for change in 0..state.changes.len() as u8 {
            let stage = state.changes[usize::from(change)].stage;
            match stage {
                Stage::Idle => acts.push(Act::ProposeChange(change)),
                Stage::Dead => {}
                _ => acts.extend(nodes.clone().map(|node| Act::Freeze { change, node })),
            }
            if matches!(stage, Stage::Holding { .. }) {
                acts.extend(nodes.clone().map(|node| Act::Push { change, node }));
            }
            if matches!(stage, Stage::Proposed { .. } | Stage::Decided { .. }) {
                acts.extend(nodes.clone().map(|node| Act::AcceptView { change, node }));
            }
            let quorums = state.frozen_quorums(plan, change).into_iter();
            acts.extend(quorums.map(|quorum| Act::Merge { change, quorum }));
        }
        for node in nodes.clone() {
            let now = &state.nodes[usize::from(node)].now;
            for msg in &state.net {
                let fits = match msg {
                    Msg::Accept { epoch, .. } | Msg::Prepare { epoch, .. } => now.epoch == *epoch,
                    Msg::State { to, epoch, .. } => *to == node && now.epoch == *epoch,
                    Msg::Install { epoch, .. } => now.members == 0 || now.epoch < *epoch,
                };
                if fits {
                    acts.push(Act::Deliver(*msg, node));
                }
            }
            if now.members != 0 && !now.caught_up {
                acts.extend(nodes.clone().map(|from| Act::Pull { from, to: node }));
            }
            if plan.forget {
                acts.push(Act::Forget(node));
            }
            if plan.sync {
                acts.push(Act::Sync(node));
            }
            if state.crashes > 0 {
                acts.push(Act::Crash(node));
            }
            if state.amnesias > 0 {
                acts.push(Act::Amnesia(node));
            }
        }
        if self.strict {
            acts.retain(|act| self.next_state(state, *act).is_some());
        }
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let plan = &self.plan;
        let mut next = state.clone();
        let done = match act {
            Act::Invoke(op) => next.invoke(plan, op),
            Act::Deliver(msg, node) => next.deliver(plan, msg, node),
            Act::Ask { op, node } => next.ask(plan, op, node),
            Act::Choose { op, quorum } => next.choose(plan, op, quorum),
            Act::Finish(op) => next.finish(plan, op),
            Act::Moves { op, epoch } => next.moves(plan, op, epoch),
            Act::Retry(op) => next.retry(plan, op),
            Act::ProposeChange(change) => next.propose_change(plan, change),
            Act::Freeze { change, node } => next.freeze(plan, change, node),
            Act::Merge { change, quorum } => next.merge(plan, change, quorum),
            Act::Push { change, node } => next.push(plan, change, node),
            Act::AcceptView { change, node } => next.accept_view(plan, change, node),
            Act::Pull { from, to } => next.pull(plan, from, to),
            Act::Forget(node) => next.forget(node),
            Act::Sync(node) => next.sync(plan, node),
            Act::Crash(node) => next.crash(plan, node),
            Act::Amnesia(node) => next.amnesia(plan, node),
        };
        (done && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        props::of(&self.plan)
    }
}
