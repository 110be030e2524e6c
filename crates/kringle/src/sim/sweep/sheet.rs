//! What a sweep found out: as JSON, as Markdown, on a terminal and drawn.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kringle_sim::lab::Scenario;
use kringle_sim::report::{Axis, Figure, Plot, Role, Series, Shape};
use serde_json::{Map, Value, json};

use super::plan::Plan;
use super::stats::Spread;
use super::{Done, End};
use crate::sim::list::columns;
use crate::sim::{code, flags};

/// Values this many times apart are drawn on a logarithmic axis.
const WIDE: f64 = 50.0;

/// All runs of a sweep, by combination.
pub(super) struct Sheet<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan,
    command: String,
    rows: Vec<Row<'a>>,
}

/// One combination of values.
struct Row<'a> {
    label: String,
    runs: &'a [Done],
    figures: Vec<(&'a Figure, Spread)>,
}

impl<'a> Sheet<'a> {
    /// `done` holds every run of the plan in its order.
    pub(super) fn new(
        scenario: &'a Scenario,
        plan: &'a Plan,
        command: String,
        done: &'a [Done],
    ) -> Sheet<'a> {
        let rows = done.chunks(plan.seeds.len()).enumerate().map(|(at, runs)| Row {
            label: plan.label(at),
            runs,
            figures: figures(runs),
        });
        Sheet { scenario, plan, command, rows: rows.collect() }
    }

    pub(super) fn json(&self, machine: &Value) -> Value {
        let vary =
            self.plan.vary.iter().map(|vary| json!({ "name": vary.param.name, "values": vary.values }));
        let combos: Vec<Value> =
            self.rows.iter().zip(&self.plan.combinations).map(|(row, all)| row.json(all)).collect();
        let complete =
            self.rows.iter().all(|row| row.runs.iter().all(|done| matches!(done.end, End::Whole(_))));
        json!({
            "schema": "kringle.sim-sweep/1",
            "scenario": self.scenario.name,
            "title": self.scenario.about,
            "anchor": self.scenario.anchor,
            "command": self.command,
            "code": code(),
            "vary": vary.collect::<Vec<Value>>(),
            "seeds": self.plan.seeds,
            "complete": complete,
            "combos": combos,
            "machine": machine,
        })
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!("# Sweep of {}\n\n{}\n\n", self.scenario.name, escaped(self.scenario.about));
        if !self.scenario.anchor.is_empty() {
            let _ = write!(text, "{}\n\n", escaped(self.scenario.anchor));
        }
        let _ = write!(text, "Code {}. Repeat it:\n\n```sh\n{}\n```\n\n", code(), self.command);
        let mut rows = self.cells().into_iter();
        for (at, row) in rows.by_ref().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
            if at == 0 {
                text += "|---|---|---:|---:|---:|---:|---:|\n";
            }
        }
        for line in self.missing() {
            let _ = write!(text, "\n- {}", escaped(&line));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }

    pub(super) fn text(&self) -> String {
        let mut text = columns(&self.cells());
        for line in self.missing() {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Returns a picture for each figure if there is one thing to draw it over.
    pub(super) fn plots(&self) -> Vec<Plot> {
        let [vary] = &self.plan.vary[..] else { return Vec::new() };
        let numbers = vary.values.iter().map(|value| flags::number(vary.param, value));
        let Some(xs) = numbers.collect::<Option<Vec<f64>>>().filter(|xs| xs.len() > 1) else {
            return Vec::new();
        };
        let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let x = Axis {
            label: format!("{} ({})", vary.param.name, vary.param.about),
            log: least > 0.0 && most >= WIDE * least,
        };
        let mut names = BTreeSet::new();
        let plot = |figure: &Figure| {
            let mut name = slug(&figure.name);
            while !names.insert(name.clone()) {
                name.push_str("-2");
            }
            let y = if figure.unit.is_empty() { figure.name.clone() } else { figure.unit.clone() };
            let title =
                format!("{}: {}, mean over {} seeds", self.scenario.name, figure.name, self.plan.seeds.len());
            let series = self.series(&xs, &figure.name);
            Plot { name, title, shape: Shape::Lines, x: x.clone(), y: Axis { label: y, log: false }, series }
        };
        self.figures().into_iter().map(plot).collect()
    }

    fn series(&self, xs: &[f64], name: &str) -> Vec<Series> {
        let series = |title: &str, role: Role, value: &dyn Fn(&Figure, &Spread) -> Option<f64>| {
            let found = xs.iter().zip(&self.rows).filter_map(|(x, row)| {
                let (figure, spread) = row.figures.iter().find(|(figure, _)| figure.name == name)?;
                Some((*x, value(figure, spread)?))
            });
            let mut points: Vec<(f64, f64)> = found.collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series { name: title.to_owned(), role, points }
        };
        let all = [
            series("ours", Role::Ours, &|_, spread| Some(spread.mean)),
            series("paper", Role::Paper, &|figure, _| figure.paper),
            series("limit", Role::Limit, &|figure, _| figure.limit),
        ];
        all.into_iter().filter(|series| !series.points.is_empty()).collect()
    }

    /// Returns every figure once, in the order in which they came.
    fn figures(&self) -> Vec<&Figure> {
        let mut found: Vec<&Figure> = Vec::new();
        for (figure, _) in self.rows.iter().flat_map(|row| &row.figures) {
            if found.iter().all(|other| other.name != figure.name) {
                found.push(figure);
            }
        }
        found
    }

    fn cells(&self) -> Vec<[String; 7]> {
        let head = ["parameters", "figure", "mean", "95 %", "min", "max", "runs"];
        let mut rows = vec![head.map(str::to_owned)];
        for row in &self.rows {
            for (figure, spread) in &row.figures {
                let digits = usize::from(figure.digits);
                let number = |value: f64| format!("{value:.digits$}");
                // An interval is narrower than what it is around: a digit more.
                let half = spread.half.map_or("-".into(), |half| format!("±{half:.*}", digits + 1));
                let unit = if figure.unit.is_empty() { String::new() } else { format!(" ({})", figure.unit) };
                rows.push([
                    row.label.clone(),
                    format!("{}{unit}", figure.name),
                    number(spread.mean),
                    half,
                    number(spread.min),
                    number(spread.max),
                    spread.count.to_string(),
                ]);
            }
        }
        rows
    }

    /// Returns a line for each run that is not part of the figures, and one for all that were not made.
    fn missing(&self) -> Vec<String> {
        let runs = || self.rows.iter().flat_map(|row| row.runs);
        let mut lines: Vec<String> = runs()
            .filter_map(|done| match &done.end {
                End::Broken(why) => Some(format!("broken: {why}; see it again: {}", done.command)),
                End::Impossible(why) => Some(format!("impossible: {why}: {}", done.command)),
                End::Whole(_) | End::Cut => None,
            })
            .collect();
        let cut = runs().filter(|done| matches!(done.end, End::Cut)).count();
        if cut > 0 {
            lines.push(format!("interrupted: {cut} of {} runs are missing", runs().count()));
        }
        lines
    }
}

impl Row<'_> {
    fn json(&self, parameters: &std::collections::BTreeMap<String, String>) -> Value {
        let figures = self.figures.iter().map(|(figure, spread)| {
            json!({
                "name": figure.name,
                "unit": figure.unit,
                "digits": figure.digits,
                "runs": spread.count,
                "mean": spread.mean,
                "half_interval_95": spread.half,
                "min": spread.min,
                "max": spread.max,
                "paper": figure.paper,
                "limit": figure.limit,
            })
        });
        let figures: Vec<Value> = figures.collect();
        let runs: Vec<Value> = self.runs.iter().map(run_json).collect();
        json!({ "parameters": parameters, "figures": figures, "runs": runs })
    }
}

fn run_json(done: &Done) -> Value {
    let mut value = Map::new();
    value.insert("seed".into(), json!(done.seed));
    value.insert("command".into(), json!(done.command));
    match &done.end {
        End::Whole(kept) => {
            let values = kept.figures.iter().map(|figure| (figure.name.clone(), json!(figure.ours)));
            value.insert("end".into(), json!("complete"));
            value.insert("values".into(), Value::Object(values.collect()));
            value.insert("events".into(), json!(kept.events));
            value.insert("traces".into(), json!(kept.traces));
        }
        End::Cut => {
            value.insert("end".into(), json!("interrupted"));
        }
        End::Broken(why) => {
            value.insert("end".into(), json!("broken"));
            value.insert("why".into(), json!(why));
        }
        End::Impossible(why) => {
            value.insert("end".into(), json!("impossible"));
            value.insert("why".into(), json!(why));
        }
    }
    Value::Object(value)
}

fn figures(runs: &[Done]) -> Vec<(&Figure, Spread)> {
    let whole =
        || runs.iter().filter_map(|done| if let End::Whole(kept) = &done.end { Some(kept) } else { None });
    let mut found: Vec<(&Figure, Spread)> = Vec::new();
    for figure in whole().flat_map(|kept| &kept.figures) {
        if found.iter().any(|(other, _)| other.name == figure.name) {
            continue;
        }
        let same = whole().filter_map(|kept| kept.figures.iter().find(|other| other.name == figure.name));
        let values: Vec<f64> = same.map(|figure| figure.ours).collect();
        if let Some(spread) = Spread::of(&values) {
            found.push((figure, spread));
        }
    }
    found
}

/// Returns a name that every file system takes.
fn slug(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).collect();
    let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "figure".to_owned() } else { words.join("-") }
}

fn escaped(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if "|\\`*_[]<>".contains(c) {
            plain.push('\\');
        }
        plain.push(if c == '\n' { ' ' } else { c });
    }
    plain
}
