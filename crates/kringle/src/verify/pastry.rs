//! Pastry with leases: the models, their gate, and schedules in the simulator.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kringle_check::explore::{Bounds, Finding, Report, Search, explore, survey, together};
use kringle_check::gate::{self, Caught};
use kringle_check::model::Ring;
use kringle_check::plan::{PLANS, Plan};
use kringle_check::replay::replay;
use kringle_check::schedule::Schedule;
use kringle_core::config::Safeguard;
use serde_json::{Value, json};

use super::{Verdict, begin, needs_mutants, progress, rule};
use crate::failure::Failure;

/// One in so many states is left in peace, to see whether the ring comes to rest.
const REST_EVERY: u64 = 20_000;

/// The property that is tried on those.
const REST: &str = "left in peace, the ring is whole";

/// The seed of the random walks, unless told.
const SEED: u64 = 1;

const NOT_COVERED: &str = "\
Not covered: more nodes than the models have; more faults than their bounds; clocks that drift apart; the relayed
probes and repeated attempts of a real configuration (a model's nodes probe once); healing of rings cut apart; and whatever lies beyond a bound wherever a model was cut off. Two parts of two or more nodes each
may both deliver, which is promised to nobody and tried by no model.
";

#[derive(Debug, Args)]
pub(crate) struct PastryArgs {
    /// Only this model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// End a model's search after this many states
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    states: usize,
    /// End a model's search after this many seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u64,
    /// Search on so many threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    threads: u8,
    /// Walk at random from this seed instead of depth first
    #[arg(long, value_name = "SEED")]
    walk: Option<u64>,
    /// Leave one rule out, to see that it is missed
    #[arg(long, value_name = "RULE")]
    without: Option<String>,
    /// Drive the simulator through the schedule in this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "gate", "walk"])]
    replay: Option<PathBuf>,
    /// Leave out each of the ten rules of the gate in turn: every one must be missed by some model
    #[arg(long, conflicts_with_all = ["model", "without", "walk"])]
    gate: bool,
}

pub(super) fn run(args: &PastryArgs, json: bool) -> Result<Verdict, Failure> {
    let without = args.without.as_deref().map(rule).transpose()?;
    if without.is_some() || args.gate {
        needs_mutants("pastry")?;
    }
    let time = Duration::from_secs(args.seconds);
    let bounds = Bounds { states: args.states, time, threads: args.threads.into() };
    if let Some(file) = &args.replay {
        return replay_file(file, without, json);
    }
    if args.gate { run_gate(bounds, json) } else { run_models(args, without, bounds, json) }
}

fn plan(name: &str) -> Result<Plan, Failure> {
    let names: Vec<&str> = PLANS.iter().map(|plan| plan.name).collect();
    Plan::named(name).ok_or_else(|| {
        Failure::usage(format!("there is no model {name:?}"), format!("The models are {}.", names.join(", ")))
    })
}

fn ring(plan: Plan, without: Option<Safeguard>) -> Result<Ring, Failure> {
    let refused = |error: kringle_core::config::ConfigError| {
        Failure::usage(
            format!("the settings of {}: {error}", plan.name),
            "This is our mistake; please report it.",
        )
    };
    Ok(Ring::new(plan, without).map_err(refused)?.resting(REST_EVERY))
}

/// A model and what its searches have found.
struct Looked {
    ring: Ring,
    reports: Vec<Report>,
    findings: Vec<Finding>,
}

impl Looked {
    fn is_good(&self) -> bool {
        self.findings.iter().all(|finding| finding.holds)
    }

    fn schedule(&self) -> Option<&Schedule> {
        self.reports.iter().find_map(|report| report.counter_example.as_ref())
    }
}

fn run_models(
    args: &PastryArgs,
    without: Option<Safeguard>,
    bounds: Bounds,
    json: bool,
) -> Result<Verdict, Failure> {
    let plans = match &args.model {
        Some(name) => vec![plan(name)?],
        None => PLANS.to_vec(),
    };
    let mut looked = Vec::new();
    for plan in plans {
        begin(plan.name);
        let ring = ring(plan, without)?;
        let told = |states: usize| progress(&format!("{}: {states} states", plan.name));
        let reports = match args.walk {
            Some(seed) => vec![explore(&ring, Search::Walks(seed), bounds, told)],
            None => survey(&ring, bounds, SEED, told),
        };
        progress("");
        let findings = together(&reports);
        looked.push(Looked { ring, reports, findings });
    }
    let good = looked.iter().all(Looked::is_good);
    let text = if json {
        let models: Vec<Value> = looked.iter().map(model_json).collect();
        let value = json!({
            "schema": "kringle.verify/1",
            "protocol": "pastry",
            "without": args.without,
            "bounds": { "states": bounds.states, "seconds": args.seconds, "threads": bounds.threads },
            "models": models,
            "good": good,
        });
        format!("{value:#}\n")
    } else {
        let models: Vec<String> = looked.iter().map(model_text).collect();
        let bounds = format!(
            "Each search ends after {} states or {} s, on {} threads; walks from seed {}, a quarter of the states.\n",
            bounds.states,
            args.seconds,
            bounds.threads,
            args.walk.unwrap_or(SEED)
        );
        format!("{}\n{bounds}\n{NOT_COVERED}", models.join("\n"))
    };
    Ok(Verdict { text, ending: good.into() })
}

fn per_second(report: &Report) -> u64 {
    (report.states as f64 / report.time.as_secs_f64().max(1e-6)) as u64
}

fn model_text(looked: &Looked) -> String {
    let plan = looked.ring.plan();
    let mut text = format!("{}: {}\n  {}\n", plan.name, plan.about, plan.bounds());
    for report in &looked.reports {
        let ended = match (report.complete, &report.counter_example) {
            (true, _) => "every state seen",
            (false, Some(_)) => "ended by what it found",
            (false, None) => "cut off by the bound",
        };
        let _ = writeln!(
            text,
            "  {}: {} states, {} of them different, depth {}, {:.1} s, {} states/s, {ended}",
            way(report),
            report.states,
            report.unique,
            report.depth,
            report.time.as_secs_f64(),
            per_second(report)
        );
    }
    for finding in &looked.findings {
        let result = match (finding.sometimes, finding.holds) {
            (false, true) if finding.property == REST => "holds in those tried, one in 20,000",
            (false, true) => "holds in all of them",
            (false, false) => "BROKEN",
            (true, true) => "happens",
            (true, false) => "NEVER HAPPENS",
        };
        let _ = writeln!(text, "  {}: {result}", finding.property);
    }
    if let Some(schedule) = looked.schedule() {
        let _ = writeln!(text, "\n{}", schedule.tell(&looked.ring));
    }
    text
}

fn way(report: &Report) -> &'static str {
    match report.search {
        Search::Depth => "depth first",
        Search::Breadth => "breadth first",
        Search::Walks(_) => "random walks",
    }
}

fn model_json(looked: &Looked) -> Value {
    let properties = looked.findings.iter().map(|finding| {
        let expected = if finding.sometimes { "sometimes" } else { "always" };
        json!({ "property": finding.property, "expected": expected, "holds": finding.holds })
    });
    let searches = looked.reports.iter().map(|report| {
        json!({
            "search": way(report),
            "states": report.states,
            "unique_states": report.unique,
            "depth": report.depth,
            "seconds": report.time.as_secs_f64(),
            "states_per_second": per_second(report),
            "complete": report.complete,
        })
    });
    let plan = looked.ring.plan();
    json!({
        "model": plan.name,
        "about": plan.about,
        "bounds": plan.bounds(),
        "searches": searches.collect::<Vec<Value>>(),
        "properties": properties.collect::<Vec<Value>>(),
        "schedule": looked.schedule().map(ToString::to_string),
        "good": looked.is_good(),
    })
}

fn run_gate(bounds: Bounds, json: bool) -> Result<Verdict, Failure> {
    let mut all: Vec<Caught> = Vec::new();
    for rule in gate::RULES {
        begin(&format!("without {}", rule.0));
        let caught = gate::try_without(rule, bounds)
            .map_err(|error| Failure::usage(error.to_string(), "This is our mistake; please report it."))?;
        all.push(caught);
    }
    progress("");
    let good = all.iter().all(|caught| caught.by.is_some());
    let steps = |report: &Report| report.counter_example.as_ref().map_or(0, |found| found.actions.len());
    let text = if json {
        let rules = all.iter().map(|caught| {
            json!({
                "rule": caught.rule,
                "model": caught.by.as_ref().map(|report| report.model),
                "steps": caught.by.as_ref().map(steps),
                "states": caught.states,
            })
        });
        let rules: Vec<Value> = rules.collect();
        format!("{:#}\n", json!({ "schema": "kringle.verify-gate/1", "rules": rules, "good": good }))
    } else {
        let mut text = format!("{:20} {:22} {:>6} {:>10}\n", "without", "caught by", "steps", "states");
        for caught in &all {
            let (model, steps) = match &caught.by {
                Some(report) => (report.model, steps(report).to_string()),
                None => ("NOT CAUGHT", String::new()),
            };
            let _ = writeln!(text, "{:20} {model:22} {steps:>6} {:>10}", caught.rule, caught.states);
        }
        text
    };
    Ok(Verdict { text, ending: good.into() })
}

fn replay_file(file: &PathBuf, without: Option<Safeguard>, json: bool) -> Result<Verdict, Failure> {
    let place = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(
            format!("{place}: cannot read it: {error}"),
            "Name a file that holds a printed schedule.",
        )
    })?;
    let schedule: Schedule = text.parse().map_err(|error| {
        Failure::usage(format!("{place}: {error}"), "Keep what 'kringle verify' printed.")
    })?;
    let replayed = replay(plan(&schedule.model)?, &schedule, without)
        .map_err(|error| Failure::usage(error.to_string(), "This is our mistake; please report it."))?;
    let good = replayed.broken.is_none();
    let text = if json {
        let broken = replayed.broken.as_ref().map(|(step, what)| json!({ "step": step, "what": what }));
        let value = json!({
            "schema": "kringle.verify-replay/1",
            "model": schedule.model,
            "steps": schedule.actions.len(),
            "not_possible": replayed.skipped,
            "broken": broken,
        });
        format!("{value:#}\n")
    } else {
        let mut text = format!("{}: {} steps in the simulator\n", schedule.model, schedule.actions.len());
        if !replayed.skipped.is_empty() {
            let _ = writeln!(text, "not possible, left out: steps {:?}", replayed.skipped);
        }
        let _ = match replayed.broken {
            Some((step, what)) => writeln!(text, "after step {step}: {what}"),
            None => writeln!(text, "no key had two deliverers"),
        };
        text
    };
    Ok(Verdict { text, ending: good.into() })
}
