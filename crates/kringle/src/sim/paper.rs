//! `kringle sim paper`: every experiment of a paper, on one page.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use kringle_sim::lab::params::{LOOKUPS, NODES, Params, count};
use kringle_sim::lab::{Halt, Scenario};
use kringle_sim::report::{Report, html, write_file};
use serde_json::json;

use super::execute::execute;
use super::{Answer, Bench, memory, near, output, refused, run};
use crate::failure::{Ending, Failure};

/// What `--quick` divides by.
const QUICK: u64 = 20;

/// Rings below this are quick enough.
const LARGE: u64 = 20_000;

/// A paper whose experiments can be repeated.
pub(super) struct Paper {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) scenarios: &'static [&'static str],
}

pub(super) const PAPERS: &[Paper] = &[
    Paper {
        name: "pastry",
        title: "The experiments of the Pastry paper, repeated",
        scenarios: &[
            "pastry-hops",
            "pastry-distance",
            "pastry-speed",
            "pastry-tables",
            "pastry-replicas",
            "pastry-failures",
            "join-cost",
        ],
    },
    Paper {
        name: "chord",
        title: "The experiments of the Chord paper, repeated",
        scenarios: &["chord-load", "chord-path", "chord-mass-failure", "chord-churn", "chord-stretch"],
    },
];

#[derive(Debug, Args)]
pub(super) struct PaperArgs {
    /// The paper: pastry or chord
    pub(super) name: String,
    /// Write the reports and the page to this directory
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Divide lookups and large rings by 20
    #[arg(long)]
    pub(super) quick: bool,
    /// What decides everything drawn at random
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(super) seed: u64,
    /// Run even if there seems to be too little memory
    #[arg(long)]
    pub(super) force: bool,
}

pub(super) fn paper(bench: &mut Bench<'_>, args: &PaperArgs, papers: &[Paper]) -> Answer {
    let paper = find(papers, &args.name)?;
    let missing = |name: &str| {
        Failure::failed(
            format!("this build has no scenario {name:?}"),
            "This is our mistake; please report it.",
        )
    };
    let mut runs: Vec<(&Scenario, BTreeMap<String, String>)> = Vec::new();
    for name in paper.scenarios {
        let scenario = bench.find(name).map_err(|_| missing(name))?;
        let given = if args.quick { quick(scenario) } else { BTreeMap::new() };
        let all = Params::new(scenario.params, &given).map_err(|problem| refused(scenario, problem))?.all();
        if !args.force {
            memory::check(memory::estimate(&all), bench.free, "--quick")?;
        }
        runs.push((scenario, all));
    }
    output::check_directory(&args.out)?;

    let mut reports: Vec<Report> = Vec::new();
    // The first trouble is told at the end; what can still be run is run.
    let mut trouble: Option<Failure> = None;
    let cut = |at: usize, scenario: &Scenario| {
        let what = format!("interrupted in {}, {} of {}", scenario.name, at + 1, runs.len());
        Failure::interrupted(what, "What is done until then is kept; run it again for all.")
    };
    for (at, (scenario, all)) in runs.iter().enumerate() {
        if bench.stop.load(Ordering::Relaxed) {
            trouble = Some(cut(at, scenario));
            break;
        }
        bench.say(&format!("\n{} of {}\n{}", at + 1, runs.len(), output::head(scenario, args.seed, all)))?;
        memory::forget_peak();
        let mut progress = bench.progress();
        let ended = execute(scenario, all, args.seed, &mut progress);
        progress.finish();
        let (report, halt) = match ended {
            Ok(ended) => ended,
            Err(problem) => {
                trouble.get_or_insert(refused(scenario, problem).at(scenario.name));
                continue;
            }
        };
        let mut text = output::tail(&report);
        let mut again = report.command.clone();
        if output::is_worth_keeping(&report) {
            let (wrote, replay) = run::keep(&report, &args.out, scenario.name)?;
            (text, again) = (text + &wrote, replay);
            reports.push(report);
        }
        bench.say(&text)?;
        match halt {
            Some(Halt::Interrupted) => {
                trouble = Some(cut(at, scenario));
                break;
            }
            Some(halt) => {
                let what = format!("{}: broken: {halt}", scenario.name);
                let remedy = format!("See it again: {again}");
                trouble.get_or_insert(Failure::failed(what, remedy));
            }
            None => {}
        }
    }

    let mut text = String::new();
    let page = args.out.join(format!("{}.html", paper.name));
    if !reports.is_empty() {
        let title = title(paper, args.quick, reports.len() < runs.len());
        write_file(&page, html::page(&title, &reports).as_bytes())
            .map_err(|error| output::unwritten(&args.out, &error))?;
        text = format!("\n{}", output::wrote(std::slice::from_ref(&page)));
    }
    if bench.json {
        bench.say(&text)?;
        let complete = reports.iter().filter(|report| report.complete).map(|report| &report.scenario);
        let value = json!({
            "schema": "kringle.sim-paper/1",
            "paper": paper.name,
            "seed": args.seed,
            "quick": args.quick,
            "page": (!reports.is_empty()).then(|| page.display().to_string()),
            "scenarios": paper.scenarios,
            "complete": complete.collect::<Vec<_>>(),
        });
        text = format!("{value:#}\n");
    }
    Ok((text, trouble.map_or(Ending::Good, Ending::Failed)))
}

fn find<'p>(papers: &'p [Paper], name: &str) -> Result<&'p Paper, Failure> {
    papers.iter().find(|paper| paper.name == name).ok_or_else(|| {
        let known: Vec<&str> = papers.iter().map(|paper| paper.name).collect();
        let meant = near(name, known.iter().copied());
        let hint =
            if meant.is_empty() { String::new() } else { format!("Did you mean {}? ", meant.join(" or ")) };
        let remedy = format!("{hint}The papers known are: {}", known.join(", "));
        Failure::usage(format!("there is no paper {name:?}"), remedy)
    })
}

fn title(paper: &Paper, quick: bool, partly: bool) -> String {
    let mut title = paper.title.to_owned();
    if quick {
        title +=
            &format!(" (quick: lookups and rings of {} or more divided by {QUICK})", output::grouped(LARGE));
    }
    if partly {
        title += " (not all of them)";
    }
    title
}

/// Returns smaller values where a scenario's own would take long.
fn quick(scenario: &Scenario) -> BTreeMap<String, String> {
    let smaller = scenario.params.iter().filter_map(|(param, own)| {
        let own = count(own)?;
        let less = match param.name {
            name if name == NODES.name && own >= LARGE => own / QUICK,
            name if name == LOOKUPS.name => (own / QUICK).max(1),
            _ => return None,
        };
        Some((param.name.to_owned(), less.to_string()))
    });
    smaller.collect()
}
