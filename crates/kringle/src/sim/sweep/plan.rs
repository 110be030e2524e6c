//! What a sweep runs: every combination of values, each with every seed.

use std::collections::{BTreeMap, BTreeSet};

use kringle_sim::lab::Scenario;
use kringle_sim::lab::params::{Param, Params};

use crate::failure::Failure;
use crate::sim::{flags, refused};

/// Whoever wants more has mistyped a range.
const RUNS_MAX: u64 = 10_000;

/// A parameter with its values.
#[derive(Debug)]
pub(super) struct Vary {
    pub(super) param: &'static Param,
    pub(super) values: Vec<String>,
}

/// Everything a sweep will run, checked.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) vary: Vec<Vary>,
    pub(super) seeds: Vec<u64>,
    /// The parameters of every combination, those that are the same in all included.
    pub(super) combinations: Vec<BTreeMap<String, String>>,
}

impl Plan {
    pub(super) fn new(
        scenario: &Scenario,
        fixed: &BTreeMap<String, String>,
        vary: &[String],
        seeds: &str,
    ) -> Result<Plan, Failure> {
        let vary: Vec<Vary> = vary.iter().map(|text| read_vary(scenario, text)).collect::<Result<_, _>>()?;
        let mut names = BTreeSet::new();
        for name in vary.iter().map(|vary| vary.param.name) {
            if !names.insert(name) || fixed.contains_key(name) {
                let what = format!("--vary {name}: {name} is given twice");
                return Err(Failure::usage(what, "Write all its values in one --vary, separated by commas."));
            }
        }
        let seeds = Seeds::read(seeds)?;
        let sizes = vary.iter().map(|vary| vary.values.len() as u64).chain([seeds.count()]);
        let runs = sizes.fold(1_u64, u64::saturating_mul);
        if runs > RUNS_MAX {
            let what = format!("these are {runs} runs; a sweep has at most {RUNS_MAX}");
            return Err(Failure::usage(what, "Vary less, or take fewer --seeds."));
        }
        let mut combinations = vec![fixed.clone()];
        for vary in &vary {
            let with = |combination: &BTreeMap<String, String>, value: &String| {
                let mut combination = combination.clone();
                combination.insert(vary.param.name.to_owned(), value.clone());
                combination
            };
            combinations = combinations
                .iter()
                .flat_map(|combination| vary.values.iter().map(move |value| with(combination, value)))
                .collect();
        }
        let check = |given: &BTreeMap<String, String>| {
            Params::new(scenario.params, given)
                .map(|params| params.all())
                .map_err(|problem| refused(scenario, problem))
        };
        let combinations = combinations.iter().map(check).collect::<Result<_, _>>()?;
        Ok(Plan { vary, seeds: seeds.all(), combinations })
    }

    /// Returns a combination and a seed for each run, in order.
    pub(super) fn runs(&self) -> Vec<(usize, u64)> {
        let combinations = 0..self.combinations.len();
        combinations.flat_map(|at| self.seeds.iter().map(move |seed| (at, *seed))).collect()
    }

    /// Returns the values of a combination that others do not have: `leaf-set=16 nodes=1e3`.
    pub(super) fn label(&self, at: usize) -> String {
        let values = self.vary.iter().map(|vary| {
            let name = vary.param.name;
            format!("{name}={}", self.combinations[at][name])
        });
        values.collect::<Vec<String>>().join(" ")
    }
}

fn read_vary(scenario: &Scenario, text: &str) -> Result<Vary, Failure> {
    let refuse = |why: String| {
        Failure::usage(format!("--vary {text}: {why}"), "For instance: --vary leaf-set=16,32,64")
    };
    let Some((name, values)) = text.split_once('=') else {
        return Err(refuse("a name, '=' and values separated by commas are needed".into()));
    };
    let name = name.trim().trim_start_matches("--");
    let Some((param, _)) = scenario.params.iter().find(|(param, _)| param.name == name) else {
        let names: Vec<&str> = scenario.params.iter().map(|(param, _)| param.name).collect();
        return Err(refuse(format!("this scenario has no {name}; it has {}", names.join(", "))));
    };
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    let mut seen = Vec::new();
    for value in &values {
        param.check(value).map_err(refuse)?;
        let meaning = flags::number(param, value).map_or(value.clone(), |number| number.to_string());
        if seen.contains(&meaning) {
            return Err(refuse(format!("{value} is there twice")));
        }
        seen.push(meaning);
    }
    Ok(Vary { param, values })
}

/// Seeds as they are written.
enum Seeds {
    /// First and last.
    Range(u64, u64),
    List(Vec<u64>),
}

impl Seeds {
    fn read(text: &str) -> Result<Seeds, Failure> {
        let refuse = || {
            Failure::usage(
                format!("--seeds {text}: that is neither a range nor a list"),
                "Write --seeds 1..10 for the ten from 1 to 10, or --seeds 3,5,8.",
            )
        };
        let number = |text: &str| text.trim().parse::<u64>().ok();
        if let Some((first, last)) = text.split_once("..") {
            let ends = number(first).zip(number(last.trim_start_matches('=')));
            let (first, last) = ends.filter(|(first, last)| first <= last).ok_or_else(refuse)?;
            return Ok(Seeds::Range(first, last));
        }
        let list: Vec<u64> = text.split(',').map(number).collect::<Option<_>>().ok_or_else(refuse)?;
        let different: BTreeSet<u64> = list.iter().copied().collect();
        if different.len() < list.len() {
            let what = format!("--seeds {text}: a seed is there twice");
            return Err(Failure::usage(what, "The same seed brings the same outcome; name it once."));
        }
        Ok(Seeds::List(list))
    }

    fn count(&self) -> u64 {
        match self {
            Seeds::Range(first, last) => (last - first).saturating_add(1),
            Seeds::List(list) => list.len() as u64,
        }
    }

    fn all(self) -> Vec<u64> {
        match self {
            Seeds::Range(first, last) => (first..=last).collect(),
            Seeds::List(list) => list,
        }
    }
}
