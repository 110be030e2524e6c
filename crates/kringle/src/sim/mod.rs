//! The simulator on the command line.

mod execute;
mod flags;
mod hunt;
mod list;
pub(crate) mod memory;
mod output;
mod paper;
mod progress;
mod replay;
mod run;
pub(crate) mod stop;
mod sweep;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use kringle_sim::lab::Scenario;
use kringle_sim::scenarios;

use self::progress::Progress;
use crate::failure::{Ending, Failure};

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Say nothing on standard error but errors
    #[arg(short, long, global = true, display_order = 101)]
    quiet: bool,
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    /// Show the scenarios there are, or the parameters of one
    List(list::ListArgs),
    /// Run a scenario
    Run(run::RunArgs),
    /// Run a scenario with many parameters and seeds, and compare
    Sweep(sweep::SweepArgs),
    /// Search many seeds of the store under chaos for one that fails
    Hunt(hunt::HuntArgs),
    /// Repeat a run and compare it with its report
    Replay(replay::ReplayArgs),
    /// Repeat every experiment of a paper, on one page
    Paper(paper::PaperArgs),
}

/// What a command says at its end, and how it ended.
type Answer = Result<(String, Ending), Failure>;

/// What a command finds around it.
struct Bench<'a> {
    /// What can be run.
    scenarios: &'a [&'a Scenario],
    /// Whether somebody wants it to end.
    stop: &'a AtomicBool,
    /// Where it says what cannot wait for the end.
    out: &'a mut dyn Write,
    /// The memory that can be had, if that is known.
    free: Option<u64>,
    json: bool,
    quiet: bool,
}

pub(crate) fn run(args: &SimArgs, json: bool) -> Answer {
    let mut bench = Bench {
        scenarios: scenarios::ALL,
        stop: &stop::STOP,
        out: &mut io::stdout(),
        free: memory::available(),
        json,
        quiet: args.quiet,
    };
    if !matches!(args.command, SimCommand::List(_)) {
        stop::listen();
    }
    bench.run(&args.command)
}

impl<'a> Bench<'a> {
    fn run(&mut self, command: &SimCommand) -> Answer {
        match command {
            SimCommand::List(args) => list::list(self, args),
            SimCommand::Run(args) => run::run(self, args),
            SimCommand::Sweep(args) => sweep::sweep(self, args),
            SimCommand::Hunt(args) => hunt::hunt(self, args),
            SimCommand::Replay(args) => replay::replay(self, args),
            SimCommand::Paper(args) => paper::paper(self, args, paper::PAPERS),
        }
    }

    fn find(&self, name: &str) -> Result<&'a Scenario, Failure> {
        let found = self.scenarios.iter().find(|scenario| scenario.name == name);
        found.copied().ok_or_else(|| {
            let near = near(name, self.scenarios.iter().map(|scenario| scenario.name));
            let hint = if near.is_empty() {
                "See what there is: kringle sim list".to_owned()
            } else {
                format!("Did you mean {}? See what there is: kringle sim list", near.join(" or "))
            };
            Failure::usage(format!("there is no scenario {name:?}"), hint)
        })
    }

    fn progress(&self) -> Progress<'a> {
        Progress::new(self.stop, self.quiet)
    }

    /// Says something before the end: on standard output, or beside it if that is to be JSON.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if self.json {
            if !self.quiet {
                let _ = write!(io::stderr(), "{text}");
            }
            return Ok(());
        }
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            // A reader that has seen enough does not end a run that writes files, too.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::output(&error)),
            _ => Ok(()),
        }
    }
}

/// Returns version and commit, as reports name the code.
fn code() -> String {
    format!("{}+{}", env!("CARGO_PKG_VERSION"), env!("KRINGLE_COMMIT"))
}

/// A parameter that a scenario refuses.
fn refused(scenario: &Scenario, problem: String) -> Failure {
    Failure::usage(problem, format!("See what it takes: kringle sim list {}", scenario.name))
}

/// Returns up to three names that somebody may have meant, nearest first.
fn near<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let name = name.to_lowercase();
    let far = (name.chars().count() / 3).max(2);
    let rated = names.filter_map(|other| {
        let contains = name.chars().count() >= 3 && (other.contains(&name) || name.contains(other));
        let distance = if contains { 1 } else { edits(&name, other) };
        (distance <= far).then_some((distance, other))
    });
    let mut rated: Vec<(usize, &str)> = rated.collect();
    rated.sort();
    rated.into_iter().take(3).map(|(_, other)| other).collect()
}

/// Returns how many letters must be put in, taken out or changed to make one word the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}
