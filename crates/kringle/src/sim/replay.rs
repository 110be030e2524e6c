//! `kringle sim replay`: the same run again, compared with its report.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use kringle_sim::lab::Halt;
use kringle_sim::lab::params::Params;
use kringle_sim::report::Report;
use serde_json::json;

use super::execute::{execute, was_cut};
use super::{Answer, Bench, code, memory, output, refused};
use crate::failure::{Ending, Failure};

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// The JSON file of a report ('-' is standard input)
    pub(super) file: PathBuf,
    /// Run even if there seems to be too little memory
    #[arg(long)]
    pub(super) force: bool,
}

pub(super) fn replay(bench: &mut Bench<'_>, args: &ReplayArgs) -> Answer {
    let place = args.file.display();
    let recorded = read(args)?;
    let scenario = bench.find(&recorded.scenario).map_err(|failure| failure.at(place.to_string()))?;
    let refuse = |problem| refused(scenario, problem).at(place.to_string());
    if was_cut(&recorded) {
        return Err(Failure::usage(
            format!("{place}: the run was interrupted; there is no whole outcome to compare with"),
            format!("Run it to its end: {}", recorded.command),
        ));
    }
    let all = Params::new(scenario.params, &recorded.parameters).map_err(refuse)?.all();
    if !args.force {
        memory::check(memory::estimate(&all), bench.free, "a machine with more memory")?;
    }
    bench.say(&output::head(scenario, recorded.seed, &all))?;
    let here = code();
    if recorded.code != here {
        bench.say(&format!("code      {here}; the report is from {}\n", recorded.code))?;
    }
    memory::forget_peak();
    let mut progress = bench.progress();
    let ended = execute(scenario, &recorded.parameters, recorded.seed, &mut progress);
    progress.finish();
    let (report, halt) = ended.map_err(refuse)?;
    if halt == Some(Halt::Interrupted) {
        let remedy = "Nothing is known about the outcome; run it again.";
        return Ok((String::new(), Ending::Failed(Failure::interrupted("interrupted", remedy))));
    }

    let difference = report.same_outcome(&recorded).err();
    let traces: Vec<&str> = report.worlds.iter().map(|ring| ring.trace.as_str()).collect();
    let same = difference.is_none();
    let text = if bench.json {
        let value = json!({
            "schema": "kringle.sim-replay/1",
            "scenario": report.scenario,
            "seed": report.seed,
            "same": same,
            "difference": difference,
            "traces": traces,
            "code": here,
            "recorded_code": recorded.code,
        });
        format!("{value:#}\n")
    } else {
        let mut text = match &difference {
            None => format!("same: trace {}\n", traces.join(" ")),
            Some(difference) => format!("different: {difference}\n"),
        };
        if let Some(halt) = halt {
            text += &format!("broken: {halt}\n");
        }
        text
    };
    Ok((text, same.into()))
}

fn read(args: &ReplayArgs) -> Result<Report, Failure> {
    let place = args.file.display();
    let text = if args.file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(&args.file)
    };
    let text = text.map_err(|error| {
        let remedy = "Name the JSON file that 'kringle sim run --out' wrote.";
        Failure::usage(format!("{place}: cannot read it: {error}"), remedy)
    })?;
    Report::from_json(&text).map_err(|problem| {
        let remedy = "Name the JSON file that 'kringle sim run --out' wrote, as it was written.";
        Failure::usage(format!("{place}: {problem}"), remedy)
    })
}
