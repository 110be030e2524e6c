//! A plan as a model for stateright.

use std::time::Duration;

use kringle_core::config::{Config, ConfigError, Safeguard};
use kringle_core::id::{Id, Key};
use kringle_core::overlay::Status;
use kringle_sim::invariants::telling_keys;
use stateright::{Model, Property};

use crate::action::Action;
use crate::plan::{Faults, Plan};
use crate::properties;
use crate::state::{Rules, State};

/// A ring of few nodes in which everything the plan allows can happen, in every order.
#[derive(Clone, Debug)]
pub struct Ring {
    plan: Plan,
    config: Config,
    seeds: Vec<u8>,
    /// Keys that tell who delivers what.
    pub(crate) keys: Vec<Key>,
    /// How the ready nodes came to be.
    setup: Vec<Action>,
    start: State,
    /// One in so many states is left in peace, to see whether it comes to rest. None if this is 0.
    pub(crate) rest_every: u64,
}

/// How long the nodes of a ring are left in peace before a model starts, so that what joining left open is over.
const SETTLE: Duration = Duration::from_secs(3);

impl Ring {
    /// Makes the model of a plan, with a safeguard left out if the build allows that.
    ///
    /// # Panics
    /// If the nodes that are to be ready from the start do not get there: then nothing can be said about the plan.
    pub fn new(plan: Plan, without: Option<Safeguard>) -> Result<Ring, ConfigError> {
        let config = plan.settings(without).check()?;
        let ids: Vec<Id> = plan.ids.iter().map(|byte| Id::new(u128::from(*byte) << 120)).collect();
        let start = State::new(&ids, Faults::default(), &config);
        let keys = telling_keys(&ids);
        let seeds = (0..plan.ready).collect();
        let mut ring = Ring { plan, config, seeds, keys, setup: Vec::new(), start, rest_every: 0 };
        let mut state = ring.start.clone();
        ring.setup_step(&mut state, Action::Create(0));
        for node in 1..plan.ready {
            ring.setup_step(&mut state, Action::Join(node));
            ring.settle(&mut state);
        }
        ring.settle(&mut state);
        let ready = |node: u8| state.running().any(|(at, n)| at == node && n.status() == Status::Ready);
        assert!((0..plan.ready).all(ready), "the ring of {} is formed", plan.name);
        state.left = plan.faults;
        state.since = state.now;
        state.breaks(plan.broken);
        ring.start = state;
        Ok(ring)
    }

    fn setup_step(&mut self, state: &mut State, action: Action) {
        assert!(state.step(action, &self.rules()), "{action} is possible while the ring is formed");
        self.setup.push(action);
    }

    fn settle(&mut self, state: &mut State) {
        let end = state.now.after(SETTLE);
        while let Some(action) = fair(state, end) {
            self.setup_step(state, action);
        }
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the configuration of all nodes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the steps that make the ready nodes.
    pub fn setup(&self) -> &[Action] {
        &self.setup
    }

    /// Returns where the model starts.
    pub fn start(&self) -> &State {
        &self.start
    }

    /// Lets one in so many states come to rest, to see whether the ring is whole then.
    pub fn resting(self, every: u64) -> Ring {
        Ring { rest_every: every, ..self }
    }

    pub(crate) fn rules(&self) -> Rules<'_> {
        let key = Id::new(u128::from(self.plan.key) << 120);
        Rules { config: &self.config, seeds: &self.seeds, key }
    }

    /// Takes one step from a state, if it is possible.
    pub(crate) fn after(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        next.step(action, &self.rules()).then_some(next)
    }

    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        let count = state.slots.len() as u8;
        let all_ready = state.running().all(|(_, node)| node.status() == Status::Ready);
        let calm = state.now >= state.since.after(self.plan.lull);
        for node in 0..count {
            let slot = &state.slots[usize::from(node)];
            let runs = slot.node.is_some();
            if runs && slot.paused.is_some() {
                if calm {
                    actions.push(Action::Resume(node));
                }
                continue;
            }
            let status = slot.node.as_ref().map(|node| node.status());
            if runs && !slot.told {
                // Whoever has left stays away.
                if status == Some(Status::Out) && left.leaves == self.plan.faults.leaves {
                    actions.push(Action::Join(node));
                }
                continue;
            }
            // A newcomer goes again: the founders stay, or there would be nothing to join.
            if status == Some(Status::Ready) && left.leaves.0 > 0 && node >= self.plan.ready && all_ready {
                actions.push(Action::Leave(node));
            }
            if runs && left.pauses.0 > 0 && (!self.plan.faults_after_joins || all_ready) {
                actions.push(Action::Pause(node));
            }
            if runs && left.crashes.0 > 0 {
                actions.push(Action::Crash(node));
            }
            if !runs && left.restarts.0 > 0 {
                actions.push(Action::Restart(node));
            }
            let ready = slot.node.as_ref().is_some_and(|node| node.status() == Status::Ready);
            if ready && left.routes.0 > 0 {
                actions.push(Action::Route(node));
            }
            if left.cut_offs.0 > 0 && state.cuts.is_empty() {
                actions.push(Action::CutOff(node));
            }
            for other in (0..count).filter(|other| *other != node) {
                let suspect = Action::Suspect(node, other);
                let exists = state.slots[usize::from(other)].node.is_some();
                // Only whom a node knows can it find dead; trying is the way to see that.
                if runs && exists && left.suspicions.0 > 0 && self.after(state, suspect).is_some() {
                    actions.push(suspect);
                }
                if left.cuts.0 > 0 && node < other && !state.cuts.contains(&(node, other)) {
                    actions.push(Action::Cut(node, other));
                }
            }
        }
        if calm && !state.cuts.is_empty() && self.plan.broken.is_empty() {
            actions.push(Action::Mend);
        }
        if left.relays.0 > 0 && self.after(state, Action::Relay).is_some() {
            actions.push(Action::Relay);
        }
    }
}

/// The next step of a schedule without faults in which nothing is slow: the oldest message, the first timer.
pub(crate) fn fair(state: &State, end: kringle_core::time::Time) -> Option<Action> {
    let waits = |slot: &crate::state::Slot| slot.paused.is_none() && !slot.upcalls.is_empty();
    if let Some(node) = state.slots.iter().position(waits) {
        return Some(Action::Upcall(node as u8));
    }
    if let Some(flight) = state.flights().first() {
        return Some(Action::Deliver(*flight));
    }
    let (node, timer) = *state.due().first()?;
    (state.deadline() <= end).then_some(Action::Fire(node, timer))
}

impl Model for Ring {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start.clone()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.faults(state, actions);
        for flight in state.flights() {
            actions.push(Action::Deliver(flight));
            if state.left.losses.0 > 0 {
                actions.push(Action::Lose(flight));
            }
            if state.left.doubles.0 > 0 {
                actions.push(Action::Double(flight));
            }
        }
        for (node, slot) in state.slots.iter().enumerate() {
            if slot.paused.is_none() && !slot.upcalls.is_empty() {
                actions.push(Action::Upcall(node as u8));
            }
        }
        let deadline = state.deadline();
        let slow = state.is_busy() && deadline > state.now;
        if deadline <= state.since.after(self.plan.span) && (!slow || state.left.late.0 > 0) {
            actions.extend(state.due().into_iter().map(|(node, timer)| Action::Fire(node, timer)));
        }
        // A search that ends at its bound has seen more kinds of states if it does not always turn the same way.
        let count = actions.len();
        if count > 1 {
            actions.rotate_left((state.fingerprint() % count as u64) as usize);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.after(state, action)
    }

    fn properties(&self) -> Vec<Property<Ring>> {
        properties::of(&self.plan)
    }
}
