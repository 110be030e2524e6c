//! Whether a ring heals: one fixed fair schedule without further joins, failures and losses, from any state.

use std::collections::HashMap;

use super::hash::Numbers;
use super::judge;
use super::parts::{KEEPALIVE, Node, PROBE, RECTIFY, REJOIN, each};
use super::state::{Action, Left, Shown, State};
use super::steps::{Fired, Steps};
use super::world::place;

/// A ring that is not ideal after so many rounds never will be.
pub(super) const ROUNDS_MAX: u8 = 100;

/// More deliveries than that without a pause: messages that beget messages for ever.
const DELIVERIES_MAX: usize = 10_000;

/// Follows the schedule, and remembers where it has led.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Rounds to go from a state in which everything has arrived.
    rounds: HashMap<u64, u8, Numbers>,
}

impl Rest {
    /// Returns how many rounds it takes until the ring is ideal. `None`: it does not become so.
    pub(super) fn rounds(&mut self, state: &State, steps: &mut Steps) -> Option<u8> {
        let mut state = State { left: Left::default(), ..state.clone() };
        let atomic = std::mem::take(&mut steps.parts.world.atomic);
        let rounds = self.follow(&mut state, steps);
        steps.parts.world.atomic = atomic;
        rounds
    }

    fn follow(&mut self, state: &mut State, steps: &mut Steps) -> Option<u8> {
        let mut path = Vec::new();
        if !drain(state, steps) {
            return None;
        }
        let to_go = loop {
            let shape = state.shape(&steps.parts);
            if let Some(rounds) = self.rounds.get(&shape) {
                break *rounds;
            }
            if judge::is_ideal(state, &steps.parts) {
                self.rounds.insert(shape, 0);
                break 0;
            }
            // The schedule is fixed: whoever comes back to where it was will do so again.
            if path.len() >= ROUNDS_MAX.into() || path.contains(&shape) || !round(state, steps) {
                return None;
            }
            path.push(shape);
        };
        let mut rounds = to_go;
        for shape in path.into_iter().rev() {
            rounds = rounds.saturating_add(1);
            self.rounds.insert(shape, rounds);
        }
        (rounds <= ROUNDS_MAX).then_some(rounds)
    }

    /// Returns the memory held, in bytes, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.rounds.capacity() * 17
    }
}

/// Every timer of every node once, each followed by everything it leads to. `false` if that does not end.
fn round(state: &mut State, steps: &mut Steps) -> bool {
    let timers = [
        (RECTIFY, Fired::Rectify),
        (KEEPALIVE, Fired::Keepalive),
        (PROBE, Fired::Probe),
        (REJOIN, Fired::Rejoin),
        (super::parts::TICK, Fired::Tick),
    ];
    for at in 0..steps.parts.world.ids {
        for (bit, timer) in timers {
            let known = state.node(at, &steps.parts);
            if known.armed & bit == 0 {
                continue;
            }
            let action = match timer {
                Fired::Rejoin => rejoin(state, at, steps),
                _ => Some(Action::Fire(at, timer)),
            };
            if let Some(action) = action {
                state.apply(action, steps, &mut Shown::default());
            }
            if !drain(state, steps) {
                return false;
            }
        }
        let known = state.node(at, &steps.parts);
        let gone = |suspect: &u8| !state.node(*suspect, &steps.parts).live;
        let forgotten: Vec<u8> = each(known.suspects).filter(|_| known.full).filter(gone).collect();
        for suspect in forgotten {
            state.apply(Action::Forget(at, suspect), steps, &mut Shown::default());
        }
    }
    true
}

/// A join starts again through the node it knows, or through the first member if that one is gone.
fn rejoin(state: &State, at: u8, steps: &Steps) -> Option<Action> {
    let parts = &steps.parts;
    let members = state.members(parts);
    let via = state.node(at, parts).ring().map(|ring| place(ring.known().id));
    match via.filter(|via| each(members).any(|member| member == *via)) {
        Some(_) => Some(Action::Fire(at, Fired::Rejoin)),
        None => each(members).find(|member| *member != at).map(|via| Action::Join(at, via)),
    }
}

/// Delivers everything, and whatever that leads to; then silence is noticed where nothing can come any more. `false` if
/// that does not end.
pub(super) fn drain(state: &mut State, steps: &mut Steps) -> bool {
    for _ in 0..DELIVERIES_MAX {
        let parts = &steps.parts;
        // What is for nobody stays for ever where nodes come back, and is passed by.
        let deliverable =
            |no: &u32| !matches!(state.node(parts.flight(*no).to, parts).node, Node::Dead(_) | Node::Unborn);
        if let Some(no) = state.flight.iter().copied().find(deliverable) {
            state.apply(Action::Deliver(no), steps, &mut Shown::default());
            continue;
        }
        let silent = state.live(parts).find_map(|(at, known)| {
            let target = known.target?;
            (!state.may_be_answered(at, target, parts)).then_some(at)
        });
        match silent {
            Some(at) => state.apply(Action::Fire(at, Fired::Request), steps, &mut Shown::default()),
            None => return true,
        }
    }
    false
}
