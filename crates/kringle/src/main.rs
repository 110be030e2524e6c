//! The `kringle` command line: what can be asked, and how it ends.
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage or
//! input, 3 not found, 4 no node to ask or not part of a ring, 5 no answer in time or too few copies, 6 a condition does
//! not hold, 7 not allowed, 8 too large, 130 interrupted, 143 terminated.

mod ask;
mod bench;
mod canned;
mod catalogue;
mod client;
mod demo;
mod duration;
mod example;
mod failure;
mod help;
mod notation;
mod output;
mod route;
mod show;
mod sim;
mod size;
mod start;
mod table;
mod teaching;
mod verify;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::json;

use crate::client::Asked;
use crate::failure::{Answer, Ending, Failure};
use crate::output::{Json, document};

/// A simulated ring is millions of small lists that grow: a sixth faster than with the system's allocator. A real node is
/// small, and twice as large with it.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Kringle: a self-organising distributed hash table.
#[derive(Debug, Parser)]
#[command(name = "kringle", version, max_term_width = 100, after_help = help::ALL)]
struct Cli {
    /// Print JSON instead of text: one document, or with =lines one line per member of a list
    #[arg(
        long,
        global = true,
        display_order = 100,
        value_name = "lines",
        num_args = 0..=1,
        require_equals = true,
        default_value = output::NO_JSON,
        default_missing_value = output::DOCUMENT,
        hide_default_value = true,
        value_parser = output::wants_json
    )]
    json: bool,
    #[command(flatten)]
    asked: Asked,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a whole ring in this process, and play with it
    Demo(demo::DemoArgs),
    /// Run a node
    #[command(after_help = help::START)]
    Start(start::StartArgs),
    /// Tell a running node whom to join, and wait for the outcome
    Join(ask::admin::JoinArgs),
    /// Show or change how many copies of a record the cluster keeps
    Copies(ask::admin::CopiesArgs),
    /// Say goodbye to the ring, and end the node; or retire a dead one
    Leave(ask::admin::LeaveArgs),
    /// Rebuild what has lost its quorum from what survives
    Recover(ask::admin::RecoverArgs),
    /// End the node without a goodbye: it keeps its identity and may come back
    Stop(ask::admin::StopArgs),
    /// Show the health of the whole cluster
    Status(ask::report::ReportArgs),
    /// List the nodes in ring order, with what each answers for
    Ring(ask::report::RingArgs),
    /// List whom this node knows
    Peers(ask::report::ReportArgs),
    /// Show everything about one node
    Node(ask::report::NodeArgs),
    /// Print a node's leaf set, routing table and neighbourhood set
    #[command(after_help = help::TABLE)]
    Table(ask::report::TableArgs),
    /// Store a value under a key
    #[command(after_help = help::PUT)]
    Put(ask::store::PutArgs),
    /// Read the value under a key
    #[command(after_help = help::GET)]
    Get(ask::store::GetArgs),
    /// Add a value to the set under a key
    Add(ask::store::AddArgs),
    /// Delete a key, or one value of a set
    Del(ask::store::DelArgs),
    /// Show, set or clear how long a value stays
    Ttl(ask::store::TtlArgs),
    /// Count with the number under a key
    Incr(ask::store::IncrArgs),
    /// List keys
    #[command(after_help = help::KEYS)]
    Keys(ask::keys::KeysArgs),
    /// Show where the copies of a key are, and whether they agree
    Place(ask::keys::PlaceArgs),
    /// Write all keys and values of the cluster to a file
    #[command(after_help = help::EXPORT)]
    Export(ask::transfer::ExportArgs),
    /// Store the keys and values of a file that 'export' wrote
    #[command(after_help = help::IMPORT)]
    Import(ask::transfer::ImportArgs),
    /// Ask who answers for a key
    Lookup(ask::key::KeyArgs),
    /// Follow the way to a key, hop by hop, with the rule used at each
    Trace(ask::key::KeyArgs),
    /// Carry a message to whoever answers for a key, or explain a decision
    #[command(after_help = help::ROUTE)]
    Route(ask::key::RouteArgs),
    /// Follow what happens at a node
    Events(ask::events::EventsArgs),
    /// Read everything on a node's disk, to find damage before a client does
    Scrub(ask::scrub::ScrubArgs),
    /// Make, list and revoke join tokens
    Token(ask::admin::TokenArgs),
    /// Show the settings 'start' would use
    Config(start::ConfigArgs),
    /// Explain an error code
    Explain(catalogue::ExplainArgs),
    /// Check a protocol: few nodes, every order of what can happen
    #[command(after_help = help::VERIFY)]
    Verify(verify::VerifyArgs),
    /// Run experiments with many simulated nodes, and repeat the papers'
    #[command(after_help = help::SIM)]
    Sim(sim::SimArgs),
    /// Put a load on running nodes, and measure
    #[command(after_help = help::BENCH)]
    Bench(bench::BenchArgs),
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let json = cli.json.then(|| Json::of(&matches));
    answer(cli, json).unwrap_or_else(|failure| {
        // Nobody is left to tell if this fails too; the exit code still says it.
        let _ = writeln!(io::stderr(), "{failure}");
        failure.exit_code()
    })
}

fn answer(cli: Cli, json: Option<Json>) -> Result<ExitCode, Failure> {
    let asked = &cli.asked;
    let done = |text: String| (text, Ending::Good);
    let answer: Answer = match cli.command {
        Command::Demo(args) => demo::run(&args, cli.json).map(|ending| (String::new(), ending)),
        Command::Start(args) => return start::start(&args).map(ExitCode::from),
        Command::Join(args) => ask::admin::join(asked, &args, json).map(done),
        Command::Copies(args) => ask::admin::copies(asked, &args, json).map(done),
        Command::Leave(args) => ask::admin::leave(asked, &args, json).map(done),
        Command::Recover(args) => ask::admin::recover(asked, &args, json).map(done),
        Command::Stop(args) => ask::admin::stop(asked, &args, json).map(done),
        Command::Status(args) => ask::report::status(asked, &args, json).map(done),
        Command::Ring(args) => ask::report::ring(asked, &args, json),
        Command::Peers(args) => ask::report::peers(asked, &args, json).map(done),
        Command::Node(args) => ask::report::node(asked, &args, json).map(done),
        Command::Table(args) => ask::report::table(asked, args, json).map(done),
        Command::Put(args) => ask::store::put(asked, &args, json).map(done),
        Command::Get(args) => ask::store::get(asked, &args, json).map(done),
        Command::Add(args) => ask::store::add(asked, &args, json).map(done),
        Command::Del(args) => ask::store::del(asked, &args, json).map(done),
        Command::Ttl(args) => ask::store::ttl(asked, &args, json).map(done),
        Command::Incr(args) => ask::store::incr(asked, &args, json).map(done),
        Command::Keys(args) => ask::keys::keys(asked, &args, json).map(done),
        Command::Place(args) => ask::keys::place(asked, &args, json).map(done),
        Command::Export(args) => ask::transfer::export(asked, &args, json),
        Command::Import(args) => ask::transfer::import(asked, &args, json),
        Command::Lookup(args) => ask::key::lookup(asked, &args, json).map(done),
        Command::Trace(args) => ask::key::trace(asked, &args, json).map(done),
        Command::Route(args) => ask::key::route(asked, args, json).map(done),
        Command::Events(args) => ask::events::follow(asked, &args, json).map(done),
        Command::Scrub(args) => ask::scrub::scrub(asked, &args, json),
        Command::Token(args) => ask::admin::token(asked, &args, json).map(done),
        Command::Config(args) => start::config(asked, &args, json).map(done),
        Command::Explain(args) => catalogue::explain(&args, json).map(done),
        Command::Verify(args) => verify::run(&args, cli.json).map(|verdict| (verdict.text, verdict.ending)),
        Command::Sim(args) => sim::run(&args, cli.json),
        Command::Bench(args) => bench::run(asked, &args, json),
        Command::Version => Ok(done(version(cli.json))),
    };
    let (text, ending) = answer?;
    output::print(text.as_bytes())?;
    match ending {
        Ending::Good => Ok(ExitCode::SUCCESS),
        Ending::Bad => Ok(ExitCode::FAILURE),
        Ending::Failed(failure) => Err(failure),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_is_a_document_or_lines_wherever_it_stands() {
        let read = |line: &str| {
            let matches = Cli::command().try_get_matches_from(line.split(' ')).ok()?;
            Cli::from_arg_matches(&matches).ok()?.json.then(|| Json::of(&matches))
        };
        assert_eq!(read("kringle ring"), None);
        assert_eq!(read("kringle ring --json"), Some(Json::Document));
        assert_eq!(read("kringle --json ring"), Some(Json::Document));
        assert_eq!(read("kringle ring --json=lines"), Some(Json::Lines));
        assert_eq!(read("kringle --json=lines ring"), Some(Json::Lines));
        assert!(Cli::try_parse_from(["kringle", "ring", "--json=yaml"]).is_err());
        assert!(Cli::try_parse_from(["kringle", "ring", "--json="]).is_err());
    }
}
