//! How a property was broken, written down: one step per line, as short as it could be made.

use std::fmt::{self, Write};
use std::str::FromStr;

use stateright::Model;

use crate::action::Action;
use crate::model::Ring;
use crate::properties;
use crate::state::State;

/// A counter-example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The model it is about.
    pub model: String,
    /// The property that is broken in the end.
    pub property: String,
    /// The steps from the start of the model.
    pub actions: Vec<Action>,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model: {}", self.model)?;
        writeln!(f, "breaks: {}", self.property)?;
        for (at, action) in self.actions.iter().enumerate() {
            writeln!(f, "{:3}. {action}", at + 1)?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = String;

    /// Reads what `Display` wrote. Lines that are neither a heading nor a numbered step are remarks.
    fn from_str(text: &str) -> Result<Schedule, String> {
        let mut schedule = Schedule { model: String::new(), property: String::new(), actions: Vec::new() };
        for line in text.lines().map(str::trim) {
            if let Some(model) = line.strip_prefix("model: ") {
                schedule.model = model.into();
            } else if let Some(property) = line.strip_prefix("breaks: ") {
                schedule.property = property.into();
            } else if let Some((number, step)) = line.split_once(". ")
                && number.chars().all(|digit| digit.is_ascii_digit())
            {
                schedule.actions.push(step.parse()?);
            }
        }
        if schedule.model.is_empty() { Err("no line says \"model: NAME\"".into()) } else { Ok(schedule) }
    }
}

impl Schedule {
    /// Follows the schedule and tells what happens: the time of every step, and in the end who delivers what, and the
    /// state of every node.
    pub fn tell(&self, ring: &Ring) -> String {
        let mut text = format!("model: {}\nbreaks: {}\n", self.model, self.property);
        let mut state = ring.start().clone();
        let begin = state.now;
        for (at, action) in self.actions.iter().enumerate() {
            let next = ring.after(&state, *action);
            let remark = if next.is_some() { "" } else { "   (not possible)" };
            state = next.unwrap_or(state);
            let millis = state.now.since(begin).as_micros() as f64 / 1000.0;
            let _ = writeln!(text, "{:3}. {action}{remark}\n         at {millis} ms", at + 1);
        }
        if let Some((key, one, other)) = properties::two_deliverers(ring, &state) {
            let _ = writeln!(text, "both {one} and {other} deliver {key}");
        }
        if let Some((key, one, nearest)) = properties::nearer_one(ring, &state) {
            let _ = writeln!(text, "{one} delivers {key}, but {nearest} is nearer");
        }
        if let Some((one, other)) = state.delivered_twice {
            let _ = writeln!(text, "{one} gave a message to its application that {other} may deliver");
        }
        if let Some(broken) = &state.broken {
            let _ = writeln!(text, "{broken}");
        }
        if self.property.contains("peace")
            && let Err(problem) = properties::comes_to_rest(ring, &state)
        {
            let _ = writeln!(text, "left in peace: {problem}");
        }
        for (index, node) in state.running() {
            let _ = writeln!(text, "\nnode {index}: {node:?}");
        }
        text
    }
}

/// Leaves out steps as long as the same thing goes wrong in the end, and what comes after that.
pub(crate) fn shorten(ring: &Ring, actions: Vec<Action>, broken: impl Fn(&State) -> bool) -> Vec<Action> {
    let mut best = follow(ring, &actions, &broken).unwrap_or(actions);
    let mut chunk = best.len().div_ceil(2).max(1);
    loop {
        let before = best.len();
        let mut at = 0;
        while at < best.len() {
            let end = (at + chunk).min(best.len());
            let fewer: Vec<Action> = best[..at].iter().chain(&best[end..]).copied().collect();
            match follow(ring, &fewer, &broken) {
                Some(shorter) if shorter.len() < best.len() => best = shorter,
                _ => at = end,
            }
        }
        if chunk == 1 && best.len() == before {
            return best;
        }
        chunk = (chunk / 2).max(1);
    }
}

/// Says whether two nodes deliver one key in the end, if the steps that are possible are taken.
pub fn ends_with_two_deliverers(ring: &Ring, actions: &[Action]) -> bool {
    follow(ring, actions, &|state| properties::two_deliverers(ring, state).is_some()).is_some()
}

/// Takes the steps that are possible, and returns them up to where it goes wrong.
fn follow(ring: &Ring, actions: &[Action], broken: &impl Fn(&State) -> bool) -> Option<Vec<Action>> {
    let mut state = ring.start().clone();
    let mut taken = Vec::new();
    for action in actions {
        let mut possible = Vec::new();
        ring.actions(&state, &mut possible);
        if !possible.contains(action) {
            continue;
        }
        let Some(next) = ring.after(&state, *action) else { continue };
        state = next;
        taken.push(*action);
        if broken(&state) {
            return Some(taken);
        }
    }
    None
}
