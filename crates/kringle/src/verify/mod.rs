//! The model checkers on the command line.

mod chord;
mod pastry;
mod store;

use std::io::{self, IsTerminal, Write as _};

use clap::{Args, Subcommand};
use kringle_check::gate;
use kringle_core::config::Safeguard;

use crate::failure::{Ending, Failure};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(subcommand)]
    protocol: Protocol,
}

/// What to check.
#[derive(Debug, Subcommand)]
enum Protocol {
    /// Pastry with leases
    #[command(after_help = crate::help::VERIFY_PASTRY)]
    Pastry(pastry::PastryArgs),
    /// Chord's ring
    #[command(after_help = crate::help::VERIFY_CHORD)]
    Chord(chord::ChordArgs),
    /// The store's rules, as models
    #[command(after_help = crate::help::VERIFY_STORE)]
    Store(store::StoreArgs),
}

/// What a run says, and how it ended.
pub(crate) struct Verdict {
    pub(crate) text: String,
    pub(crate) ending: Ending,
}

pub(crate) fn run(args: &VerifyArgs, json: bool) -> Result<Verdict, Failure> {
    match &args.protocol {
        Protocol::Pastry(args) => pastry::run(args, json),
        Protocol::Chord(args) => chord::run(args, json),
        Protocol::Store(args) => store::run(args, json),
    }
}

fn rule(name: &str) -> Result<Safeguard, Failure> {
    let names: Vec<&str> = Safeguard::ALL.iter().map(|rule| rule.name()).collect();
    gate::rule(name).ok_or_else(|| {
        Failure::usage(format!("there is no rule {name:?}"), format!("The rules are {}.", names.join(", ")))
    })
}

fn needs_mutants(protocol: &str) -> Result<(), Failure> {
    if cfg!(feature = "mutants") {
        return Ok(());
    }
    let build = "Build one that can: cargo run --release -p kringle --features mutants -- verify";
    Err(Failure::usage("this build cannot leave a rule out", format!("{build} {protocol} ...")))
}

/// Progress goes to standard error: one line that is written over on a terminal, and a line per model otherwise.
fn progress(text: &str) {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r{text:70}\r");
    }
}

fn begin(what: &str) {
    if io::stderr().is_terminal() {
        progress(what);
    } else {
        let _ = writeln!(io::stderr(), "{what} ...");
    }
}
