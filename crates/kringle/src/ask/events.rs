//! `events`: follows a node until it ends, or somebody has seen enough.

use std::io::{BufRead, BufReader};

use clap::Args;
use kringle_runtime::report::Event;
use serde_json::Value;

use crate::client::{Asked, Client};
use crate::failure::Failure;
use crate::output::{self, Json, Manners};
use crate::show::event;

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// End after this many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Write ids in full
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    manners: Manners,
}

/// Prints events as they come, one per line.
pub(crate) fn follow(asked: &Asked, args: &EventsArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let stream = BufReader::new(client.stream("events")?);
    for line in stream.lines() {
        if left == 0 {
            return Ok(String::new());
        }
        let line = line.map_err(|error| client.ended(Some(&error)))?;
        let Some(data) = data(&line) else { continue };
        let text = match json {
            Some(_) => format!("{data}\n"),
            // An event of a later version is shown as it came.
            None => match serde_json::from_value::<Event>(data.clone()) {
                Ok(event) => event::line(&event, !output::is_watched(), args.long),
                Err(_) => format!("{data}\n"),
            },
        };
        if !output::send(text.as_bytes())? {
            return Ok(String::new());
        }
        left -= 1;
        if left == 0 {
            return Ok(String::new());
        }
    }
    Err(client.ended(None))
}

/// Returns what a line of a stream of events carries, if anything. Ours fit on one line each.
fn data(line: &str) -> Option<Value> {
    serde_json::from_str(line.strip_prefix("data:")?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_lines_carry_events() {
        assert_eq!(data("data: {\"a\":1}").unwrap()["a"], 1);
        for other in ["", ": hello", "event: peer-up", "id: 3", "data: not json"] {
            assert_eq!(data(other), None);
        }
    }
}
