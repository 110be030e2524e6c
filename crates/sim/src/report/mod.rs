//! What a run found out, as data: written as JSON, drawn as SVG, told as Markdown and HTML.
//!
//! Everything but [`Machine`] follows from the code, the parameters and the seed; a replay must bring the same.

mod figure;
pub mod html;
mod json;
mod markdown;
mod number;
mod same;
mod summary;
mod svg;
mod tables;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

pub use self::write::write_file;

/// The name and version of the JSON documents.
pub const SCHEMA: &str = "kringle.sim/1";

/// The outcome of one run of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The scenario's name.
    pub scenario: String,
    /// What it shows, in a line.
    pub title: String,
    /// Which published experiment it repeats, and how that was set up.
    pub anchor: String,
    /// The command line that repeats the run.
    pub command: String,
    /// Version and commit of the code.
    pub code: String,
    /// What decided everything drawn at random.
    pub seed: u64,
    /// Every parameter, as it would be written on a command line.
    pub parameters: BTreeMap<String, String>,
    /// Whether the run came to its end; what was measured until an interruption is kept.
    pub complete: bool,
    /// The headline numbers.
    pub figures: Vec<Figure>,
    /// Raw counts, from which bars and means can be computed again.
    pub counts: Vec<Histogram>,
    /// Tables as in the papers.
    pub tables: Vec<Table>,
    /// What is drawn.
    pub plots: Vec<Plot>,
    /// The worlds that were simulated.
    pub worlds: Vec<Ring>,
    /// Remarks: what differs from the paper's set-up, what limits a figure.
    pub remarks: Vec<String>,
    /// What it cost on this machine; not part of what a replay compares.
    pub machine: Machine,
}

/// One number, beside what is known about it from elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The result.
    #[serde(deserialize_with = "json::number")]
    pub ours: f64,
    /// Digits after the point worth showing.
    pub digits: u8,
    /// `hops`, `%`, `messages`; may be empty.
    pub unit: String,
    /// What the paper reports.
    pub paper: Option<f64>,
    /// What a static model with perfect tables gives.
    pub limit: Option<f64>,
    /// What we want it to be.
    pub want: Option<Want>,
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Want {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// In this interval, ends included.
    Between(f64, f64),
}

/// How often each value occurred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// What was counted.
    pub name: String,
    /// Values and how often they occurred, in ascending order.
    pub counts: BTreeMap<u64, u64>,
}

/// A table for people to read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    /// Its rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

/// One picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Part of its file name: `hops`, `distance`. No two plots of a report share one.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Lines or bars.
    pub shape: Shape,
    /// Left to right.
    pub x: Axis,
    /// Bottom to top.
    pub y: Axis,
    /// What is drawn, first first.
    pub series: Vec<Series>,
}

/// How a plot is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// Points joined by lines.
    Lines,
    /// Groups of bars, one group for each x.
    Bars,
}

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What is along it, with its unit.
    pub label: String,
    /// Whether it is logarithmic.
    pub log: bool,
}

/// One line, or the bars of one colour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// Whose numbers these are; decides how they are drawn.
    pub role: Role,
    /// Its points, by x. What is not a number is a gap.
    #[serde(deserialize_with = "json::points")]
    pub points: Vec<(f64, f64)>,
}

/// Whose numbers a series shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Measured here.
    Ours,
    /// Published.
    Paper,
    /// The most that is possible, computed.
    Limit,
}

/// A simulated ring: what it was made of and what happened in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ring {
    /// What it was for.
    pub name: String,
    /// Nodes that lived in it.
    pub nodes: u64,
    /// The type of a node, as the compiler names it.
    pub node_type: String,
    /// The size of its value in bytes; tables are extra.
    pub node_size: u64,
    /// Inputs handled by nodes.
    pub events: u64,
    /// How much time passed in it.
    #[serde(deserialize_with = "json::number")]
    pub simulated_seconds: f64,
    /// A hash of everything that happened, in hexadecimal.
    pub trace: String,
    /// Messages by kind; every kind is there.
    pub messages: BTreeMap<String, u64>,
}

/// What a run cost where it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// How long it took.
    #[serde(deserialize_with = "json::number")]
    pub seconds: f64,
    /// Events in that time, over all rings.
    #[serde(deserialize_with = "json::number")]
    pub events_per_second: f64,
    /// The most memory the process held, in bytes; 0 if the system does not tell.
    pub peak_memory: u64,
    /// Figures that depend on the machine: speeds. Shown with the others, not compared.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Returns all figures: what follows from the seed, then what was timed here.
    pub fn all_figures(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().chain(&self.machine.figures)
    }
}

impl Want {
    /// Says whether a number is what was wanted.
    pub fn holds(self, ours: f64) -> bool {
        match self {
            Want::AtMost(most) => ours <= most,
            Want::AtLeast(least) => ours >= least,
            Want::Between(least, most) => (least..=most).contains(&ours),
        }
    }
}

impl Figure {
    /// A number with nothing beside it yet.
    pub fn new(name: impl Into<String>, ours: f64, digits: u8, unit: &str) -> Figure {
        let (name, unit) = (name.into(), unit.to_owned());
        Figure { name, ours, digits, unit, paper: None, limit: None, want: None }
    }

    /// Puts the published number beside it.
    pub fn paper(mut self, paper: f64) -> Figure {
        self.paper = Some(paper);
        self
    }

    /// Puts the computed limit beside it.
    pub fn limit(mut self, limit: f64) -> Figure {
        self.limit = Some(limit);
        self
    }

    /// Says what it should be.
    pub fn want(mut self, want: Want) -> Figure {
        self.want = Some(want);
        self
    }
}

impl Histogram {
    /// Nothing counted yet.
    pub fn new(name: impl Into<String>) -> Histogram {
        Histogram { name: name.into(), counts: BTreeMap::new() }
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        *self.counts.entry(value).or_default() += 1;
    }

    /// Returns how many values were counted.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the mean, or 0 of nothing.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.counts.iter().map(|(value, count)| *value as f64 * *count as f64).sum();
        sum / self.total().max(1) as f64
    }

    /// Returns which part of all was this value.
    pub fn share(&self, value: u64) -> f64 {
        self.counts.get(&value).copied().unwrap_or_default() as f64 / self.total().max(1) as f64
    }

    /// Returns the share of each value, as the bars of a plot.
    pub fn bars(&self, values: RangeInclusive<u64>) -> Vec<(f64, f64)> {
        values.map(|value| (value as f64, self.share(value))).collect()
    }

    /// Returns the value that a part of all do not exceed: 0.5 for the median.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (part * self.total() as f64).ceil().max(1.0) as u64;
        let mut so_far = 0;
        for (value, count) in &self.counts {
            so_far += count;
            if so_far >= wanted {
                return *value;
            }
        }
        0
    }
}
