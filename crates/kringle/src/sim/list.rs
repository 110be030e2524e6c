//! `kringle sim list`: what can be run.

use std::fmt::Write as _;

use clap::Args;
use kringle_sim::lab::Scenario;
use serde_json::{Value, json};

use super::{Answer, Bench, flags};
use crate::failure::Ending;

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Show the parameters of this scenario
    name: Option<String>,
}

pub(super) fn list(bench: &Bench<'_>, args: &ListArgs) -> Answer {
    let shown = match &args.name {
        Some(name) => vec![bench.find(name)?],
        None => bench.scenarios.to_vec(),
    };
    let text = match (bench.json, &args.name) {
        (true, _) => {
            let scenarios: Vec<Value> = shown.iter().map(|scenario| describe(scenario)).collect();
            format!("{:#}\n", json!({ "schema": "kringle.sim-list/1", "scenarios": scenarios }))
        }
        (false, Some(_)) => shown.iter().map(|scenario| one(scenario)).collect(),
        (false, None) => all(&shown),
    };
    Ok((text, Ending::Good))
}

fn all(scenarios: &[&Scenario]) -> String {
    let wide = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for scenario in scenarios {
        let _ = writeln!(text, "{:wide$}   {}", scenario.name, scenario.about);
        if !scenario.anchor.is_empty() {
            let _ = writeln!(text, "{:wide$}   {}", "", scenario.anchor);
        }
    }
    text
}

fn one(scenario: &Scenario) -> String {
    let mut text = format!("{}: {}\n", scenario.name, scenario.about);
    if !scenario.anchor.is_empty() {
        let _ = writeln!(text, "{}", scenario.anchor);
    }
    let mut rows =
        vec![["parameter".to_owned(), "default".to_owned(), "range".to_owned(), "meaning".to_owned()]];
    rows.extend(scenario.params.iter().map(|(param, default)| {
        let flag = format!("--{}", param.name);
        [flag, (*default).to_owned(), flags::range(param.kind), param.about.to_owned()]
    }));
    text.push('\n');
    text += &columns(&rows);
    let _ = write!(text, "\nRun it:  kringle sim run {}\n", scenario.name);
    text
}

/// Writes rows with their cells under each other.
pub(super) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}   ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn describe(scenario: &Scenario) -> Value {
    let parameters = scenario.params.iter().map(|(param, default)| {
        json!({
            "name": param.name,
            "default": default,
            "range": flags::range(param.kind),
            "about": param.about,
        })
    });
    json!({
        "name": scenario.name,
        "about": scenario.about,
        "anchor": scenario.anchor,
        "parameters": parameters.collect::<Vec<Value>>(),
    })
}
