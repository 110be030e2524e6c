//! The models of the store's rules on the command line.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use kringle_check::explore::Bounds;
use kringle_check::rules::suite::runs;
use serde_json::{Value, json};

use super::{Verdict, begin, progress};
use crate::failure::Failure;

const NOT_COVERED: &str = "\
Not covered: the shipped store, which these models share no code with (the simulator drives it: kringle sim run store-chaos);
more nodes, keys and faults than a world has. Rules in them that the store does not have yet: docs/store-inside.md.
";

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Only this model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Search the large worlds too: minutes and gigabytes
    #[arg(long)]
    large: bool,
    /// End the search of a world after this many states
    #[arg(long, value_name = "N", default_value_t = 50_000_000)]
    states: usize,
    /// End the search of a world after this many seconds
    #[arg(long, value_name = "S", default_value_t = 600)]
    seconds: u64,
    /// Search on so many threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    threads: u8,
}

pub(super) fn run(args: &StoreArgs, json: bool) -> Result<Verdict, Failure> {
    let time = Duration::from_secs(args.seconds);
    let bounds = Bounds { states: args.states, time, threads: args.threads.into() };
    let all = runs();
    if let Some(name) = args.model.as_deref().filter(|name| all.iter().all(|run| run.model != *name)) {
        let mut names: Vec<&str> = all.iter().map(|run| run.model).collect();
        names.dedup();
        let names = format!("The models are {}.", names.join(", "));
        return Err(Failure::usage(format!("there is no model {name:?}"), names));
    }
    let wanted = all.iter().filter(|run| args.model.as_deref().is_none_or(|name| name == run.model));
    let (mut text, mut worlds, mut good) = (String::new(), Vec::<Value>::new(), true);
    for run in wanted.filter(|run| args.large || !run.large) {
        begin(&format!("{} {}", run.model, run.world));
        let found = run.look(bounds);
        progress("");
        // What was not seen to the end may still lack what must happen somewhere.
        let is_good = found.broken.is_none() && (found.missing.is_empty() || !found.complete);
        good &= is_good;
        let ended = match (found.complete, &found.broken) {
            (true, _) => "every state seen",
            (false, Some(_)) => "ended by what it found",
            (false, None) => "cut off by the bound",
        };
        let _ = writeln!(
            text,
            "{} {}: {} states, {} of them different, depth {}, {:.1} s, {ended}",
            run.model,
            run.world,
            found.states,
            found.unique,
            found.depth,
            found.time.as_secs_f64()
        );
        for name in &found.missing {
            let _ = writeln!(text, "  {name}: NEVER HAPPENS");
        }
        if let Some((name, schedule)) = &found.broken {
            let _ = writeln!(text, "  {name}: BROKEN\n    {}", schedule.join("\n    "));
        }
        worlds.push(json!({
            "model": run.model,
            "world": run.world,
            "states": found.states,
            "unique_states": found.unique,
            "depth": found.depth,
            "seconds": found.time.as_secs_f64(),
            "complete": found.complete,
            "broken": found.broken.as_ref().map(|broken| broken.0),
            "schedule": found.broken.as_ref().map(|broken| broken.1.clone()),
            "missing": found.missing,
            "good": is_good,
        }));
    }
    let text = if json {
        let value =
            json!({ "schema": "kringle.verify/1", "protocol": "store", "worlds": worlds, "good": good });
        format!("{value:#}\n")
    } else {
        format!("{text}\n{NOT_COVERED}")
    };
    Ok(Verdict { text, ending: good.into() })
}
