//! What must hold, and what must happen somewhere.

use stateright::Property;

use super::Left;
use super::act::World;
use super::plan::{Kind, Plan};
use super::state::{Phase, Stage, State, quorum};

/// The properties of a plan: what must happen somewhere is asked only where it can.
pub(super) fn of(plan: &Plan) -> Vec<Property<World>> {
    let mut all = vec![
        Property::always("the history can be explained", |_: &World, state: &State| state.linear),
        Property::always("one conditional write of each version", |world, state| one_cas(&world.plan, state)),
        Property::always("one view per epoch", |_, state| one_view(state)),
        Property::always("every quorum knows what was acknowledged", |world, state| {
            acked(&world.plan, state)
        }),
        Property::always("somebody holds the decided state", |_, state| held(state)),
    ];
    // What the other rules are missed for is what clients notice, not this.
    if plan.left.iter().all(|left| *left == Left::OneStep) {
        all.push(Property::always("who accepted a view holds its state", |_, state: &State| {
            let kept = state.nodes.iter().map(|node| &node.now);
            kept.filter_map(|now| Some((now.view_accepted?, now.rec))).all(|(next, rec)| next.start == rec)
        }));
    }
    let asks = |kind: fn(&Kind) -> bool| plan.ops.iter().any(|(k, _)| kind(k));
    if !plan.changes.is_empty() {
        all.push(Property::sometimes("a change of the view completes", |_, state| changed(state)));
    }
    if asks(|kind| *kind == Kind::Read) {
        all.push(Property::sometimes("a read returns", |_, state: &State| {
            state.ops.iter().any(|op| matches!(op.phase, Phase::Read { .. }))
        }));
    }
    if asks(|kind| *kind == Kind::Read) && asks(|kind| *kind != Kind::Read) && plan.order.is_empty() {
        all.push(Property::sometimes("a read repairs", |_, state: &State| {
            state.ops.iter().any(|op| op.repaired && matches!(op.phase, Phase::Read { .. }))
        }));
    }
    if asks(|kind| matches!(kind, Kind::CasFirst)) {
        all.push(Property::sometimes("a conditional write succeeds", |world, state| {
            any(&world.plan, state, is_cas, |phase| matches!(phase, Phase::Ok { .. }))
        }));
        all.push(Property::sometimes("a conditional write fails", |world, state| {
            any(&world.plan, state, is_cas, |phase| phase == Phase::Failed)
        }));
    }
    if !plan.changes.is_empty() && asks(|kind| *kind == Kind::Write) && plan.turns > 0 {
        all.push(Property::sometimes(
            "a write of one epoch is acknowledged in the next",
            |world: &World, state: &State| {
                (0..state.ops.len()).any(|at| {
                    let op = &state.ops[at];
                    let later = matches!(op.phase, Phase::Ok { epoch, .. } if epoch > op.began_in);
                    world.plan.ops[at].0 == Kind::Write && later
                })
            },
        ));
    }
    all
}

fn is_cas(kind: Kind) -> bool {
    matches!(kind, Kind::CasFirst | Kind::CasAfter(_))
}

fn any(plan: &Plan, state: &State, kind: fn(Kind) -> bool, phase: fn(Phase) -> bool) -> bool {
    state.ops.iter().zip(plan.ops).any(|(op, (k, _))| kind(*k) && phase(op.phase))
}

/// Of several conditional writes that expect the same version, at most one succeeds.
fn one_cas(plan: &Plan, state: &State) -> bool {
    let won = |at: &usize| is_cas(plan.ops[*at].0) && matches!(state.ops[*at].phase, Phase::Ok { .. });
    let won: Vec<usize> = (0..state.ops.len()).filter(won).collect();
    won.iter().all(|a| won.iter().all(|b| a == b || state.ops[*a].expects != state.ops[*b].expects))
}

/// Whoever decides an epoch's successor decides the same.
fn one_view(state: &State) -> bool {
    let mut installs = state.installs().collect::<Vec<_>>();
    installs.dedup_by_key(|install| install.0);
    installs.len() == state.installs().count()
}

/// No quorum of replicas that serve lies behind what a client was told is written.
fn acked(plan: &Plan, state: &State) -> bool {
    let most = state.ops.iter().zip(plan.ops).filter_map(|(op, _)| match op.phase {
        Phase::Ok { version, .. } => Some(version),
        _ => None,
    });
    let Some(most) = most.max() else { return true };
    (0..3).all(|epoch| {
        let members = state.members(plan, epoch);
        let behind = |node: &u8| {
            let now = &state.nodes[usize::from(*node)].now;
            state.serves(plan, *node, epoch) && now.rec.ballot < most
        };
        let behind = (0..state.nodes.len() as u8).filter(behind).count();
        members == 0 || (behind as u32) < quorum(members)
    })
}

/// The state the newest decided view starts from is somewhere. Worlds lose fewer disks than a quorum.
fn held(state: &State) -> bool {
    let Some((epoch, _, start)) = state.installs().last() else { return true };
    state.nodes.iter().any(|node| {
        let now = &node.now;
        let member = now.members != 0;
        member
            && (now.epoch == epoch && now.caught_up
                || now.epoch + 1 == epoch && now.frozen && now.rec == start)
    })
}

/// A quorum of a later view has caught up with it.
fn changed(state: &State) -> bool {
    let decided = state.changes.iter().any(|change| matches!(change.stage, Stage::Decided { .. }));
    let last = state.installs().last();
    decided
        && last.is_some_and(|(epoch, members, _)| {
            let up = state.nodes.iter().filter(|node| node.now.epoch == epoch && node.now.caught_up).count();
            up as u32 >= quorum(members)
        })
}
