//! `start` and `config`: a node in this process, and what it would be started with.

mod choice;
mod http;
mod keys;
mod plan;
mod run;
mod signals;
mod words;

use clap::{Args, Subcommand};

use self::choice::Choice;
use self::keys::Given;
use crate::client::{Asked, Client};
use crate::failure::Failure;
use crate::output::{Json, Manners};

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every setting; the flags are those of 'start'
    Show(ShowArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// Say where each value came from
    #[arg(long)]
    origin: bool,
    /// Ask the running node instead; ports are those it has got
    #[arg(long)]
    running: bool,
    #[command(flatten)]
    given: Given,
}

/// Runs a node until it is told to end. Returns the exit code: after a signal it names that.
pub(crate) fn start(args: &StartArgs) -> Result<u8, Failure> {
    let choice = Choice::make(&args.given)?;
    let plan = plan::plan(&choice, args.manners)?;
    run::run(plan, &choice, args.manners)
}

/// Prints the settings.
pub(crate) fn config(asked: &Asked, args: &ConfigArgs, json: Option<Json>) -> Result<String, Failure> {
    let ConfigCommand::Show(show) = &args.command;
    if show.running {
        let settings = Client::new(asked, Manners::default())?.get("config")?;
        return Ok(json.unwrap_or(Json::Document).write(&settings, ""));
    }
    let choice = Choice::make(&show.given)?;
    // What can not be started is not shown as if it could.
    plan::plan(&choice, Manners::default())?;
    Ok(match json {
        Some(json) => json.write(&choice.document(show.origin), ""),
        None => choice.text(show.origin),
    })
}
