//! `scrub`: a node reads everything on its disk.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use kringle_front::moment::timestamp;
use kringle_runtime::Scrub;
use serde_json::{Value, json};

use crate::client::{Asked, Client};
use crate::failure::{Answer, Ending, Failure};
use crate::output::{Json, Manners};
use crate::show::count;
use crate::sim::memory::bytes;
use crate::size;

/// How often the node is asked how far it is.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub(crate) struct ScrubArgs {
    /// Only show how far it is, or what the last one found
    #[arg(long, conflicts_with = "rate")]
    status: bool,
    /// Bytes to read per second, for instance 8MiB [default: the node's --scrub-rate]
    #[arg(long, value_name = "SIZE", value_parser = size::read)]
    rate: Option<u64>,
    #[command(flatten)]
    manners: Manners,
}

/// Lets a node read everything on its disk, and waits for the end.
pub(crate) fn scrub(asked: &Asked, args: &ScrubArgs, json: Option<Json>) -> Answer {
    let client = Client::new(asked, args.manners)?;
    let mut document = if args.status {
        client.get("scrub")?
    } else {
        let rate = args.rate.map_or(String::new(), |rate| format!("?rate={rate}"));
        client.post_json(&format!("scrub{rate}"), &json!({}))?
    };
    let mut report: Scrub = client.read(&document, "")?;
    let drawn = io::stderr().is_terminal() && json.is_none();
    while report.running && !args.status {
        if drawn {
            let _ = write!(io::stderr(), "\r{:<60}", progress(&report));
        }
        std::thread::sleep(LOOK);
        (document, report) = look(&client)?;
    }
    if drawn && !args.status {
        let _ = write!(io::stderr(), "\r{:60}\r", "");
    }
    let text = json.map_or_else(|| show(&report), |json| json.write(&document, ""));
    Ok((text, Ending::from(is_good(&report))))
}

fn look(client: &Client) -> Result<(Value, Scrub), Failure> {
    let document = client.get("scrub")?;
    let report = client.read(&document, "")?;
    Ok((document, report))
}

fn is_good(report: &Scrub) -> bool {
    report.damaged_files.is_empty() && report.damaged_records == 0
}

fn progress(report: &Scrub) -> String {
    let part = (report.bytes * 100).checked_div(report.total_bytes).unwrap_or(0).min(99);
    format!("reading: {part} %, {} of about {}", bytes(report.bytes), bytes(report.total_bytes))
}

/// Writes what a scrub found.
fn show(report: &Scrub) -> String {
    if report.started_ms == 0 {
        return "never scrubbed; 'kringle scrub' reads everything\n".into();
    }
    let state = match (report.running, report.finished_ms) {
        (true, _) => progress(report),
        (false, 0) => "interrupted; run it again".into(),
        (false, at) => format!("finished {}", timestamp(at)),
    };
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let mut text = format!(
        "started   {}\nstate     {state}\nread      {}, {}, {}\n",
        timestamp(report.started_ms),
        count(number(report.files), "file"),
        count(number(report.records), "record"),
        bytes(report.bytes),
    );
    text += &match (report.damaged_files.as_slice(), report.damaged_records) {
        ([], 0) => "damaged   nothing\n".into(),
        (files, records) => format!(
            "damaged   {}, {}: the node repairs them from other replicas; see 'kringle node self'\n{}",
            count(files.len(), "file"),
            count(number(records), "record"),
            files.iter().map(|file| format!("          {file}\n")).collect::<String>()
        ),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_was_read_and_found() {
        let mut report = Scrub::default();
        assert!(show(&report).starts_with("never"));
        (report.started_ms, report.running) = (1, true);
        (report.bytes, report.total_bytes) = (1 << 20, 4 << 20);
        assert!(show(&report).contains("25 %, 1.0 MiB of about 4.0 MiB"), "{}", show(&report));
        (report.running, report.finished_ms, report.files, report.records) = (false, 2, 3, 1);
        assert!(show(&report).contains("3 files, 1 record") && show(&report).contains("damaged   nothing"));
        assert!(is_good(&report));
        report.damaged_files.push("store/keyspaces/1/tables/7".into());
        assert!(show(&report).contains("1 file, 0 records") && show(&report).contains("tables/7"));
        assert!(!is_good(&report));
    }
}
