//! `kringle sim run`: one scenario, one seed.

use std::path::{Path, PathBuf};

use clap::Args;
use kringle_sim::lab::Halt;
use kringle_sim::lab::params::Params;
use kringle_sim::report::Report;

use super::execute::execute;
use super::flags::{Given, quoted};
use super::{Answer, Bench, memory, output, refused};
use crate::failure::{Ending, Failure};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The scenario
    pub(super) name: String,
    /// What decides everything drawn at random
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(super) seed: u64,
    /// Write the report to this directory: JSON, pictures, Markdown
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Run even if there seems to be too little memory
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) given: Given,
}

pub(super) fn run(bench: &mut Bench<'_>, args: &RunArgs) -> Answer {
    let scenario = bench.find(&args.name)?;
    let refuse = |problem| refused(scenario, problem);
    let all = Params::new(scenario.params, &args.given.0).map_err(refuse)?.all();
    if let Some(dir) = &args.out {
        output::check_directory(dir)?;
    }
    if !args.force {
        memory::check(memory::estimate(&all), bench.free, "fewer --nodes")?;
    }
    bench.say(&output::head(scenario, args.seed, &all))?;
    memory::forget_peak();
    let mut progress = bench.progress();
    let ended = execute(scenario, &args.given.0, args.seed, &mut progress);
    progress.finish();
    let (report, halt) = ended.map_err(refuse)?;

    let mut text = output::tail(&report);
    let mut again = report.command.clone();
    let mut ending = Ending::Good;
    if let Some(dir) = args.out.as_ref().filter(|_| output::is_worth_keeping(&report)) {
        match keep(&report, dir, &format!("{}-{}", report.scenario, report.seed)) {
            Ok((wrote, replay)) => {
                text += &wrote;
                if halt != Some(Halt::Interrupted) {
                    again = replay;
                }
            }
            // There may be worse to tell at the end.
            Err(failure) if halt.is_some() => text += &format!("{failure}\n"),
            Err(failure) => ending = Ending::Failed(failure),
        }
    }
    text += &format!("reproduce with:  {again}\n");
    if let Some(halt) = halt {
        ending = Ending::Failed(early(&halt, &again));
    }
    if bench.json {
        bench.say(&text)?;
        text = report.to_json();
    }
    Ok((text, ending))
}

/// Writes a report. Returns the line that says so, and the command that repeats the run.
pub(super) fn keep(report: &Report, dir: &Path, stem: &str) -> Result<(String, String), Failure> {
    let paths = report.write(dir, stem).map_err(|error| output::unwritten(dir, &error))?;
    let json = dir.join(format!("{stem}.json"));
    Ok((output::wrote(&paths), format!("kringle sim replay {}", quoted(&json.to_string_lossy()))))
}

/// What is said of a run that did not come to its end.
fn early(halt: &Halt, again: &str) -> Failure {
    match halt {
        Halt::Interrupted => {
            let what = "interrupted; above is what was measured until then";
            Failure::interrupted(what, format!("Run it to its end: {again}"))
        }
        Halt::Broken(why) => Failure::failed(format!("broken: {why}"), format!("See it again: {again}")),
        Halt::Impossible(why) => Failure::usage(why.clone(), format!("It was: {again}")),
    }
}
