//! The `kringle` command line: what can be asked, and how it ends.
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage or
//! input, 130 interrupted.

mod canned;
mod demo;
mod failure;
mod notation;
mod route;
mod sim;
mod table;
mod teaching;
mod verify;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use kringle_core::id::Id;
use serde_json::json;

use crate::failure::{Ending, Failure};
use crate::notation::Notation;
use crate::teaching::{Sizes, Teaching};

/// A simulated ring is millions of small lists that grow: a sixth faster than with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Start here:
  kringle table --example lecture
  kringle route --example";

const TABLE_EXAMPLES: &str = "\
Examples:
  kringle table --example lecture
      the node drawn in the Pastry paper and in the lecture

  kringle table --example 2 8 ring.txt
      ids of 8 digits in base 4 (b=2), one per line; the first is the node itself

  printf '%s\\n' 10233102 10233033 31203203 | kringle table --example 2 8 -
      the same from standard input

  kringle table --example 4 32 ring.txt --leaf-set 8 --json
      for programs; the document names its schema, kringle.table/1

In FILE blank lines and lines that start with # are skipped. The order of the lines is proximity: the \
first candidate for a cell gets it, and the first nodes are the neighbourhood set. Bases above 32 (b=6 \
to 8) write a digit as two hexadecimal characters and join digits with dots: 0a.7f.01";

const ROUTE_EXAMPLES: &str = "\
Examples:
  kringle route --example
      the two decisions of the lecture: a table cell, and the rare case

  kringle route --example 65b23c05
      one of them; any other key of 8 hexadecimal digits is explained over the first table

  kringle route --example 31203203 --table ring.txt --base 2 --digits 8
      a key over your own ring; see 'kringle table --help' for the file

  kringle route --example 65523c05 --json
      for programs; the document names its schema, kringle.route/1

Distances are numbers in the base of the ids.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  kringle verify pastry
      every model, each up to its bound; exit code 1 if a property is broken

  kringle verify pastry --model two-joiners --states 50000000 --seconds 600
      one model for longer

  kringle verify pastry --replay schedule.txt
      drive the simulator through a schedule that was printed

  kringle verify pastry --gate
      leave every rule out in turn; needs a build with --features mutants";

const SIM_EXAMPLES: &str = "\
Examples:
  kringle sim list
      what can be run

  kringle sim run pastry-hops --nodes 1e4 --seed 7 --out run7
      one experiment: numbers, pictures and what it takes to repeat it

  kringle sim sweep pastry-hops --vary leaf-set=16,32 --seeds 1..10 --out sweep
      many: mean and 95 % interval over seeds

  kringle sim replay run7/pastry-hops-7.json
      the same again; exit code 1 if anything comes out differently

  kringle sim paper pastry --out pastry
      every experiment of a paper on one page";

/// Kringle: a self-organising distributed hash table.
#[derive(Debug, Parser)]
#[command(name = "kringle", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    /// Print one JSON document instead of text
    #[arg(long, global = true, display_order = 100)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a whole ring in this process, and play with it
    Demo(demo::DemoArgs),
    /// Print a node's leaf set, routing table and neighbourhood set
    #[command(after_help = TABLE_EXAMPLES)]
    Table(TableArgs),
    /// Explain in words where a node sends a message, and why
    #[command(after_help = ROUTE_EXAMPLES)]
    Route(RouteArgs),
    /// Check a protocol: few nodes, every order of what can happen
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// Run experiments with many simulated nodes, and repeat the papers'
    #[command(after_help = SIM_EXAMPLES)]
    Sim(sim::SimArgs),
    /// Print the version
    Version,
}

#[derive(Debug, Args)]
#[command(override_usage = "kringle table --example lecture [--json]
       kringle table --example <B> <DIGITS> <FILE> [--leaf-set L] [--neighbourhood M] [--json]")]
struct TableArgs {
    /// Show a teaching node: 'lecture', or the node a FILE describes, with DIGITS digits in base 2^B ('-' is
    /// standard input)
    #[arg(long, num_args = 1..=3, value_name = "lecture | B DIGITS FILE")]
    example: Option<Vec<OsString>>,
    /// Members of the leaf set, both sides together: even, 2 to 512 [default: 2^B]
    #[arg(long, value_name = "L", value_parser = leaf_set_size)]
    leaf_set: Option<u16>,
    /// Members of the neighbourhood set: 0 to 512 [default: 2^B]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u16).range(0..=512))]
    neighbourhood: Option<u16>,
}

#[derive(Debug, Args)]
#[command(override_usage = "kringle route --example [KEY] [--json]
       kringle route --example <KEY> --table <FILE> --base <B> --digits <N> [--leaf-set L] [--json]")]
struct RouteArgs {
    /// Explain over a teaching node instead of a running one
    #[arg(long)]
    example: bool,
    /// The key to explain, written like the node's ids; without it, the lecture's two keys
    key: Option<String>,
    /// Explain over the node this file describes ('-' is standard input)
    #[arg(long, value_name = "FILE", requires_all = ["key", "base", "digits"])]
    table: Option<OsString>,
    /// With --table: ids are written in base 2^B, B from 1 to 8
    #[arg(long, value_name = "B", requires = "table")]
    base: Option<String>,
    /// With --table: how many digits an id has
    #[arg(long, value_name = "N", requires = "table")]
    digits: Option<String>,
    /// With --table: members of the leaf set, both sides together: even, 2 to 512 [default: 2^B]
    #[arg(long, value_name = "L", value_parser = leaf_set_size, requires = "table")]
    leaf_set: Option<u16>,
}

fn leaf_set_size(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(size) if (2..=512).contains(&size) && size % 2 == 0 => Ok(size),
        _ => Err("must be an even number from 2 to 512: the leaf set has two equal sides".into()),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = |text: String| (text, Ending::Good);
    let answer = match cli.command {
        Command::Demo(args) => demo::run(&args, cli.json).map(|ending| (String::new(), ending)),
        Command::Table(args) => table_command(args, cli.json).map(done),
        Command::Route(args) => route_command(args, cli.json).map(done),
        Command::Verify(args) => {
            verify::run(&args, cli.json).map(|verdict| (verdict.text, verdict.good.into()))
        }
        Command::Sim(args) => sim::run(&args, cli.json),
        Command::Version => Ok(done(version(cli.json))),
    };
    let ending = match answer.and_then(|(text, ending)| print(&text).map(|()| ending)) {
        Ok(ending) => ending,
        Err(failure) => Ending::Failed(failure),
    };
    match ending {
        Ending::Good => ExitCode::SUCCESS,
        Ending::Bad => ExitCode::FAILURE,
        Ending::Failed(failure) => {
            // Nobody is left to tell if this fails too; the exit code still says it.
            let _ = writeln!(io::stderr(), "{failure}");
            failure.exit_code()
        }
    }
}

/// Writes a whole answer. A reader that has seen enough (`kringle table ... | head -1`) is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::output(&error)),
        _ => Ok(()),
    }
}

fn version(json: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if json {
        let commit = env!("KRINGLE_COMMIT");
        document(&json!({ "schema": "kringle.version/1", "version": version, "commit": commit }))
    } else {
        format!("kringle {version}\n")
    }
}

fn table_command(args: TableArgs, json: bool) -> Result<String, Failure> {
    let Some(example) = args.example else {
        return Err(Failure::usage(
            "table needs a running node, and this version cannot run one yet",
            "Look at a teaching node instead: kringle table --example lecture",
        ));
    };
    let node = match example.as_slice() {
        [name] if name == "lecture" => {
            if args.leaf_set.is_some() || args.neighbourhood.is_some() {
                return Err(Failure::usage(
                    "the lecture's node is a fixed picture; --leaf-set and --neighbourhood cannot change it",
                    "Leave them out, or describe a node of your own: kringle table --example B DIGITS FILE",
                ));
            }
            canned::lecture()
        }
        [b, digits, file] => {
            let notation = Notation::read(&b.to_string_lossy(), &digits.to_string_lossy())?;
            let sizes = Sizes::new(notation, args.leaf_set, args.neighbourhood);
            Teaching::read(file, notation, sizes)?
        }
        [name] => {
            return Err(Failure::usage(
                format!("there is no example {name:?}"),
                "Write --example lecture, or --example B DIGITS FILE for a node of your own.",
            ));
        }
        _ => {
            return Err(Failure::usage(
                "--example B DIGITS FILE needs all three values",
                "For instance: kringle table --example 2 8 ring.txt",
            ));
        }
    };
    Ok(if json { document(&table::json(&node)) } else { table::text(&node) })
}

fn route_command(args: RouteArgs, json: bool) -> Result<String, Failure> {
    if !args.example {
        return Err(Failure::usage(
            "route needs a running node, and this version cannot run one yet",
            "Let a teaching node decide instead: kringle route --example",
        ));
    }
    let read_key = |text: &str, notation: Notation| -> Result<Id, Failure> {
        notation.parse(text).map_err(|failure| failure.at(format_args!("key {text:?}")))
    };
    let mut cases: Vec<(Teaching, Id)> = Vec::new();
    match (args.key, args.table, args.base.zip(args.digits)) {
        (Some(key), Some(file), Some((b, digits))) => {
            let notation = Notation::read(&b, &digits)?;
            // The key first: it is the cheaper mistake to find, and a file from a pipe can be read only once.
            let key = read_key(&key, notation)?;
            cases.push((Teaching::read(&file, notation, Sizes::new(notation, args.leaf_set, None))?, key));
        }
        (Some(key), ..) => {
            let key = read_key(&key, canned::full_row().notation())?;
            let own = canned::route_cases().into_iter().find(|(_, canned)| *canned == key);
            cases.push(own.unwrap_or_else(|| (canned::full_row(), key)));
        }
        (None, ..) => cases.extend(canned::route_cases()),
    }
    let explanations: Vec<_> = cases.iter().map(|(node, key)| route::explain(node, *key)).collect();
    Ok(if json {
        document(&route::json(&explanations))
    } else {
        let texts: Vec<String> = explanations.iter().map(route::text).collect();
        texts.join("\n")
    })
}

fn document(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn leaf_sets_are_even_and_bounded() {
        assert_eq!(leaf_set_size("2"), Ok(2));
        assert_eq!(leaf_set_size("512"), Ok(512));
        for bad in ["0", "7", "514", "-2", "many", ""] {
            assert!(leaf_set_size(bad).is_err(), "{bad:?} was taken");
        }
    }
}
