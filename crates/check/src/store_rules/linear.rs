//! Whether there is an order of the operations that explains what clients were told.

use super::plan::{Kind, Plan};
use super::state::{Phase, State};

/// Says whether the history so far can be explained.
///
/// What is complete must have its place; what is not may have one, at any time after it began, or none.
pub(super) fn explains(plan: &Plan, state: &State) -> bool {
    let complete = (0..state.ops.len()).filter(|op| state.ops[*op].phase.is_complete());
    let all = complete.fold(0, |set, op| set | 1 << op);
    goes_on(plan, state, 0, all, 0)
}

/// Tries every operation as the next one. `current` wrote what the key holds.
fn goes_on(plan: &Plan, state: &State, placed: u8, all: u8, current: u8) -> bool {
    if placed & all == all {
        return true;
    }
    (0..state.ops.len()).any(|at| {
        let op = &state.ops[at];
        let own = at as u8 + 1;
        if placed & 1 << at != 0 || op.after & !placed != 0 || op.phase == Phase::Idle {
            return false;
        }
        let holds = match plan.ops[at].0 {
            Kind::CasFirst => current == 0,
            Kind::CasAfter(write) => current == write + 1,
            _ => true,
        };
        let next = match op.phase {
            Phase::Read { op } => (op == current).then_some(current),
            Phase::Failed => (!holds).then_some(current),
            _ if plan.ops[at].0 == Kind::Read => None,
            // A conditional write nobody has heard of again has an effect only where its condition holds.
            _ => holds.then_some(own),
        };
        next.is_some_and(|current| goes_on(plan, state, placed | 1 << at, all, current))
    })
}
