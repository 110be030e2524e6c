//! A schedule in words.

use kringle_core::overlay::chord::Message;

use super::parts::{FlightNo, Parts, STALE};
use super::state::{Action, Shown, State};
use super::steps::{Fired, Steps, describe};
use super::world::{World, place};

/// Follows the fingerprints from the start, and then one step more if there is one. Returns the steps, and what every
/// node believes in the end.
pub(super) fn schedule(world: World, way: &[u64], last: Option<Action>) -> (Vec<String>, Vec<String>) {
    let mut steps = Steps::new(world);
    let mut state = State::start(&mut steps);
    let mut lines = Vec::new();
    let mut actions = Vec::new();
    for wanted in way.iter().skip(1) {
        state.actions(&steps.parts, &mut actions);
        let found = actions.iter().find_map(|action| {
            let mut next = state.clone();
            next.apply(*action, &mut steps, &mut Shown::default());
            (next.fingerprint(&steps.parts).max(1) == *wanted).then_some((*action, next))
        });
        let Some((action, next)) = found else { break };
        lines.push(line(action, &state, &next, &steps.parts));
        state = next;
    }
    // Messages have other numbers here than in the search: the step is found by what it is.
    if last.is_some() {
        state.actions(&steps.parts, &mut actions);
        let breaking = actions.iter().find_map(|action| {
            let (mut next, mut shown) = (state.clone(), Shown::default());
            next.apply(*action, &mut steps, &mut shown);
            shown.broken.map(|_| (*action, next))
        });
        if let Some((action, next)) = breaking {
            lines.push(line(action, &state, &next, &steps.parts));
            state = next;
        }
    }
    let nodes = (0..world.ids)
        .filter(|at| state.node(*at, &steps.parts).incarnation() > 0)
        .map(|at| format!("{at}: {}", describe(state.node(at, &steps.parts))))
        .chain(state.flight.iter().map(|no| format!("in flight: {}", flight(*no, &steps.parts))))
        .collect();
    (lines, nodes)
}

/// One step, and what the nodes that it changed believe then.
fn line(action: Action, before: &State, after: &State, parts: &Parts) -> String {
    let what = match action {
        Action::Deliver(no) => format!("deliver {}", flight(no, parts)),
        Action::Lose(no) => format!("lose {}", flight(no, parts)),
        Action::Fire(at, timer) => {
            let target = before.node(at, parts).target.map_or("?".into(), |target| target.to_string());
            match timer {
                Fired::Tick => format!("{at} stabilizes"),
                Fired::Rectify => format!("{at} looks at its candidate"),
                Fired::Keepalive => format!("{at} says again that it is busy"),
                Fired::Request => format!("{at} hears nothing from {target}"),
                Fired::Rejoin => format!("{at} joins again"),
                Fired::Probe => format!("{at} asks its suspects"),
            }
        }
        Action::FalseTimeout(at) => {
            let target = before.node(at, parts).target.map_or("?".into(), |target| target.to_string());
            format!("{at} takes {target} for silent, which it is not")
        }
        Action::Exchange(at) => format!("{at} asks and is answered"),
        Action::Join(at, via) => format!("{at} joins through {via}"),
        Action::Forget(at, suspect) => format!("{at} forgets {suspect}"),
        Action::Lost(at, peer) => format!("{at} finds {peer} gone"),
        Action::Fail(at) => format!("{at} fails"),
    };
    let changed = (0..parts.world.ids)
        .filter(|at| before.nodes[usize::from(*at)] != after.nodes[usize::from(*at)])
        .map(|at| format!("{at}: {}", describe(after.node(at, parts))));
    let changed: Vec<String> = changed.collect();
    if changed.is_empty() { what } else { format!("{what:44} | {}", changed.join(" | ")) }
}

fn flight(no: FlightNo, parts: &Parts) -> String {
    let known = parts.flight(no);
    let names = |list: &[kringle_core::contact::Contact]| {
        list.iter().map(|node| place(node.id).to_string()).collect::<Vec<_>>().join(" ")
    };
    let what = match &known.flight.message {
        Message::GotBestPredecessor { node, .. } => format!("GotBestPredecessor {}", place(node.id)),
        Message::GotSuccList { list, .. } => format!("GotSuccList [{}]", names(list)),
        Message::GotPredAndSuccs { pred, list, .. } => {
            let pred = pred.map_or("-".into(), |pred| place(pred.id).to_string());
            format!("GotPredAndSuccs {pred} [{}]", names(list))
        }
        other => {
            let debug = format!("{other:?}");
            debug.split([' ', '{', '(']).next().unwrap_or_default().to_string()
        }
    };
    let old = known.flight.message.nonce() == Some(STALE);
    format!("{}->{} {what}{}", known.from, known.to, if old { " (old)" } else { "" })
}
