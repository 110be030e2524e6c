//! `kringle sim sweep`: a scenario with many parameters and seeds, side by side.

mod plan;
mod sheet;
mod stats;

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use std::{fs, io};

use clap::Args;
use kringle_sim::lab::{Halt, Scenario, Watch};
use kringle_sim::report::{Figure, write_file};
use rayon::prelude::*;
use serde_json::json;

use self::plan::Plan;
use self::sheet::Sheet;
use super::execute::{events, execute};
use super::flags::{Given, command_line, quoted};
use super::progress::Progress;
use super::{Answer, Bench, memory, output};
use crate::failure::{Ending, Failure};

#[derive(Debug, Args)]
pub(super) struct SweepArgs {
    /// The scenario
    pub(super) name: String,
    /// A parameter and its values; several times for every combination
    #[arg(long, value_name = "NAME=VALUE,...", required = true)]
    pub(super) vary: Vec<String>,
    /// Seeds of every combination: a range with both ends, or a list
    #[arg(long, value_name = "FIRST..LAST", default_value = "1..5")]
    pub(super) seeds: String,
    /// Runs side by side; they change nothing but the time it takes [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<NonZeroUsize>,
    /// Write tables and pictures to this directory
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Run even if there seems to be too little memory
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) given: Given,
}

/// A run of the sweep.
struct Done {
    seed: u64,
    /// What repeats it alone.
    command: String,
    end: End,
}

/// How it ended.
enum End {
    Whole(Kept),
    /// Somebody has ended the sweep.
    Cut,
    Broken(String),
    Impossible(String),
}

/// What is kept of a run: thousands of whole reports would not fit.
struct Kept {
    figures: Vec<Figure>,
    events: u64,
    traces: Vec<String>,
}

/// Sees only whether the sweep should end.
struct Silent<'a>(&'a AtomicBool);

impl Watch for Silent<'_> {
    fn progress(&mut self, _step: &str, _done: f64) {}

    fn interrupted(&mut self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) fn sweep(bench: &mut Bench<'_>, args: &SweepArgs) -> Answer {
    let scenario = bench.find(&args.name)?;
    let plan = Plan::new(scenario, &args.given.0, &args.vary, &args.seeds)?;
    output::check_directory(&args.out)?;
    let runs = plan.runs();
    let processors = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = args.threads.map_or_else(processors, NonZeroUsize::get).min(runs.len());
    if !args.force {
        let largest = plan.combinations.iter().map(memory::estimate).max().unwrap_or(0);
        let needed = largest.saturating_mul(threads as u64);
        memory::check(needed, bench.free, "fewer --threads, fewer --nodes")?;
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| {
        Failure::failed(format!("cannot start {threads} threads: {error}"), "Use fewer --threads.")
    })?;
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    bench.say(&format!(
        "seeds     {}\nscenario  {}: {}\nsweep     {} of {}, {}\n",
        args.seeds,
        scenario.name,
        scenario.about,
        count(runs.len(), "run"),
        count(plan.combinations.len(), "combination"),
        count(threads, "thread"),
    ))?;

    memory::forget_peak();
    let began = Instant::now();
    let progress = Mutex::new(bench.progress());
    let stop = bench.stop;
    let finished = AtomicUsize::new(0);
    let one = |(at, seed): &(usize, u64)| {
        let began = Instant::now();
        let done = run_one(scenario, &plan, *at, *seed, stop);
        let so_far = finished.fetch_add(1, Ordering::Relaxed) + 1;
        if !matches!(done.end, End::Cut) {
            let what = format!("{} seed {seed}, {:.1} s", plan.label(*at), began.elapsed().as_secs_f64());
            tell(&progress, so_far, runs.len(), &what);
        }
        done
    };
    // In order, whoever is done first. Single runs are handed out, for they may differ a lot.
    let done: Vec<Done> = pool.install(|| runs.par_iter().with_max_len(1).map(one).collect());
    if let Ok(mut progress) = progress.into_inner() {
        progress.finish();
    }

    let command = canonical(scenario, args);
    let sheet = Sheet::new(scenario, &plan, command, &done);
    let machine = json!({
        "seconds": began.elapsed().as_secs_f64(),
        "threads": threads,
        "peak_memory": memory::peak(),
    });
    let document = format!("{:#}\n", sheet.json(&machine));
    let mut text = sheet.text();
    let mut ending = ending(&done);
    if done.iter().any(|done| matches!(done.end, End::Whole(_) | End::Broken(_))) {
        match write(&sheet, &document, &args.out) {
            Ok(paths) => text += &output::wrote(&paths),
            Err(error) => ending = Ending::Failed(output::unwritten(&args.out, &error)),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    text += &format!("cost      {seconds:.1} s{}\n", output::peak(memory::peak()));
    if bench.json {
        bench.say(&text)?;
        text = document;
    }
    Ok((text, ending))
}

fn run_one(scenario: &Scenario, plan: &Plan, at: usize, seed: u64, stop: &AtomicBool) -> Done {
    let all = &plan.combinations[at];
    let command = command_line("run", scenario, Some(seed), all);
    if stop.load(Ordering::Relaxed) {
        return Done { seed, command, end: End::Cut };
    }
    // A mistake of ours in one run must not take the others along.
    let ended = catch_unwind(AssertUnwindSafe(|| execute(scenario, all, seed, &mut Silent(stop))));
    let end = match ended {
        Err(_) => End::Broken("the run panicked".into()),
        Ok(Err(why)) => End::Impossible(why),
        Ok(Ok((_, Some(Halt::Interrupted)))) => End::Cut,
        Ok(Ok((_, Some(halt)))) => End::Broken(halt.to_string()),
        Ok(Ok((report, None))) => End::Whole(Kept {
            events: events(&report),
            traces: report.worlds.into_iter().map(|ring| ring.trace).collect(),
            figures: report.figures,
        }),
    };
    Done { seed, command, end }
}

/// Tells that one more run is done: a bar, or a line each.
fn tell(progress: &Mutex<Progress<'_>>, so_far: usize, all: usize, what: &str) {
    if let Ok(mut progress) = progress.lock() {
        progress.part(so_far, all, what);
    }
}

fn ending(done: &[Done]) -> Ending {
    let first = |wanted: fn(&End) -> Option<&String>| {
        done.iter().find_map(|done| wanted(&done.end).map(|why| (why.clone(), done.command.clone())))
    };
    if let Some((why, command)) = first(|end| if let End::Broken(why) = end { Some(why) } else { None }) {
        return Ending::Failed(Failure::failed(format!("broken: {why}"), format!("See it again: {command}")));
    }
    if done.iter().any(|done| matches!(done.end, End::Cut)) {
        let remedy = "The runs that were done are kept; start it again for all.";
        return Ending::Failed(Failure::interrupted("interrupted", remedy));
    }
    match first(|end| if let End::Impossible(why) = end { Some(why) } else { None }) {
        Some((why, command)) => Ending::Failed(Failure::usage(why, format!("It was: {command}"))),
        None => Ending::Good,
    }
}

/// Returns the command that repeats the sweep; on how many threads does not matter.
fn canonical(scenario: &Scenario, args: &SweepArgs) -> String {
    let mut command = command_line("sweep", scenario, None, &args.given.0);
    for vary in &args.vary {
        command += &format!(" --vary {}", quoted(vary));
    }
    format!("{command} --seeds {} --out {}", quoted(&args.seeds), quoted(&args.out.to_string_lossy()))
}

fn write(sheet: &Sheet<'_>, document: &str, dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(dir)?;
    let mut files = vec![("sweep.json".to_owned(), document.to_owned())];
    files.push(("sweep.md".to_owned(), sheet.markdown()));
    files.extend(sheet.plots().iter().map(|plot| (format!("sweep-{}.svg", plot.name), plot.to_svg())));
    let mut paths = Vec::new();
    for (name, text) in files {
        let path = dir.join(name);
        write_file(&path, text.as_bytes())?;
        paths.push(path);
    }
    Ok(paths)
}
