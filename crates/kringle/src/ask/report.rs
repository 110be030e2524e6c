//! `status`, `ring`, `peers`, `node` and `table`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kringle_runtime::report::{Peer, RingCheck, Summary, Survey, Tables};
use serde_json::Value;

use crate::client::{Asked, Client, segment};
use crate::duration;
use crate::example::{self, Drawn};
use crate::failure::{Ending, Failure};
use crate::output::{self, Json, Manners};
use crate::show::{Columns, cluster, node as paper};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Draw it again and again [default: every 2s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
        value_parser = duration::read)]
    watch: Option<Duration>,
    #[command(flatten)]
    columns: Columns,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct RingArgs {
    /// Chord: say which properties of a ring hold; exit code 1 if one does not that always should
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// What of a node is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Leaf set, routing table and neighbourhood set, as the paper draws them.
    Table,
    /// The leaf set with round trips.
    Leafset,
    /// The neighbourhood set with round trips.
    Neighbours,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// The node's id, the first digits of it, its name, or 'self' for the node that is asked
    id: String,
    /// Only this of it
    part: Option<Part>,
    #[command(flatten)]
    columns: Columns,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
#[command(override_usage = "kringle table [ID] [--json]
       kringle table --example lecture [--json]
       kringle table --example <B> <DIGITS> <FILE> [--leaf-set L] [--neighbourhood M] [--json]")]
pub(crate) struct TableArgs {
    /// A running node: its id, the first digits of it, or its name [default: the node that is asked]
    #[arg(conflicts_with = "example")]
    id: Option<String>,
    /// Show a teaching node: 'lecture', or the node a FILE describes, with DIGITS digits in base 2^B ('-' is
    /// standard input)
    #[arg(long, num_args = 1..=3, value_name = "lecture | B DIGITS FILE")]
    example: Option<Vec<OsString>>,
    /// Members of the leaf set, both sides together: even, 2 to 512 [default: 2^B]
    #[arg(long, value_name = "L", value_parser = leaf_set_size, requires = "example")]
    leaf_set: Option<u16>,
    /// Members of the neighbourhood set: 0 to 512 [default: 2^B]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u16).range(0..=512), requires = "example")]
    neighbourhood: Option<u16>,
    /// Write ids in full
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    manners: Manners,
}

/// Reads the size of a leaf set.
pub(crate) fn leaf_set_size(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(size) if (2..=512).contains(&size) && size % 2 == 0 => Ok(size),
        _ => Err("must be an even number from 2 to 512: the leaf set has two equal sides".into()),
    }
}

/// Shows the health of the cluster.
pub(crate) fn status(asked: &Asked, args: &ReportArgs, json: Option<Json>) -> Result<String, Failure> {
    report(asked, args, &|client| {
        let document = client.get(&format!("status?deadline={}", client.deadline()))?;
        if let Some(json) = json {
            return Ok(json.write(&document, "/survey/nodes"));
        }
        let me: Summary = client.read(&document, "/self")?;
        let survey: Option<Survey> = client.read(&document, "/survey")?;
        // Round trips are a welcome extra; without them the picture is still right.
        let trips = client.get("peers").and_then(|peers| peers_of(client, &peers)).unwrap_or_default();
        let trips = trips.into_iter().filter_map(|peer| Some((peer.id, peer.rtt_us?)));
        let picture =
            cluster::Cluster { me: &me, survey: survey.as_ref(), trips: BTreeMap::from_iter(trips) };
        Ok(cluster::status(&picture, args.columns))
    })
}

/// Lists the ring, or judges it.
pub(crate) fn ring(asked: &Asked, args: &RingArgs, json: Option<Json>) -> Result<(String, Ending), Failure> {
    let RingArgs { check: false, report: args } = args else { return check(asked, &args.report, json) };
    let text = report(asked, args, &|client| {
        let document = client.get(&format!("ring?deadline={}", client.deadline()))?;
        match json {
            Some(json) => Ok(json.write(&document, "/survey/nodes")),
            None => Ok(cluster::ring(&client.read(&document, "/survey")?, args.columns)),
        }
    })?;
    Ok((text, Ending::Good))
}

fn check(asked: &Asked, args: &ReportArgs, json: Option<Json>) -> Result<(String, Ending), Failure> {
    let good = Cell::new(true);
    let text = report(asked, args, &|client| {
        let document = client.get(&format!("ring/check?deadline={}", client.deadline()))?;
        let check: RingCheck = client.read(&document, "")?;
        good.set(good.get() && check.is_good());
        match json {
            Some(json) => Ok(json.write(&document, "/properties")),
            None => Ok(cluster::check(&check)),
        }
    })?;
    Ok((text, good.get().into()))
}

/// Lists whom the node knows.
pub(crate) fn peers(asked: &Asked, args: &ReportArgs, json: Option<Json>) -> Result<String, Failure> {
    report(asked, args, &|client| {
        let document = client.get("peers")?;
        match json {
            Some(json) => Ok(json.write(&document, "/peers")),
            None => Ok(cluster::peers(&peers_of(client, &document)?, args.columns)),
        }
    })
}

fn peers_of(client: &Client, document: &Value) -> Result<Vec<Peer>, Failure> {
    client.read(document, "/peers")
}

/// Makes a report once, or again and again until somebody has seen enough.
fn report(
    asked: &Asked,
    args: &ReportArgs,
    make: &dyn Fn(&Client) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let Some(pause) = args.watch else { return make(&client) };
    let clear = if output::is_watched() { "\x1b[H\x1b[2J" } else { "" };
    loop {
        // A node that is gone for a moment may come back: that is what one watches for.
        let text = make(&client).unwrap_or_else(|failure| format!("{failure}\n"));
        let gap = if clear.is_empty() { "\n" } else { "" };
        if !output::send(format!("{clear}{text}{gap}").as_bytes())? {
            return Ok(String::new());
        }
        std::thread::sleep(pause.max(Duration::from_millis(100)));
    }
}

/// Shows one node.
pub(crate) fn node(asked: &Asked, args: &NodeArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let id = segment(args.id.as_bytes());
    let deadline = client.deadline();
    let Some(part) = args.part else {
        let document = client.get(&format!("nodes/{id}?deadline={deadline}"))?;
        return match json {
            Some(json) => Ok(json.write(&document, "")),
            None => Ok(paper::details(&client.read(&document, "/node")?)),
        };
    };
    if let Some(json) = json {
        let part = match part {
            Part::Table => "table",
            Part::Leafset => "leafset",
            Part::Neighbours => "neighbours",
        };
        return Ok(json.write(&client.get(&format!("nodes/{id}/{part}?deadline={deadline}"))?, ""));
    }
    let tables = tables_of(&client, &id)?.1;
    match part {
        Part::Table => drawn(&tables, args.columns.long),
        Part::Leafset => Ok(paper::leaf_set(&tables, args.columns)),
        Part::Neighbours => Ok(paper::neighbours(&tables, args.columns)),
    }
}

fn tables_of(client: &Client, id: &str) -> Result<(Value, Tables), Failure> {
    let document = client.get(&format!("nodes/{id}/table?deadline={}", client.deadline()))?;
    let tables = client.read(&document, "/tables")?;
    Ok((document, tables))
}

fn drawn(tables: &Tables, long: bool) -> Result<String, Failure> {
    paper::tables(tables, long).ok_or_else(|| {
        Failure::failed(
            "the node's tables make no sense to this version",
            "Compare 'kringle version' with the version that 'kringle status' shows.",
        )
    })
}

/// Draws the tables of a node, or of a teaching one.
pub(crate) fn table(asked: &Asked, args: TableArgs, json: Option<Json>) -> Result<String, Failure> {
    if let Some(example) = args.example {
        let drawn = Drawn { example, leaf_set: args.leaf_set, neighbourhood: args.neighbourhood };
        return example::table(&drawn, json.is_some());
    }
    let client = Client::new(asked, args.manners)?;
    let id = segment(args.id.as_deref().unwrap_or("self").as_bytes());
    let (document, tables) = tables_of(&client, &id)?;
    json.map_or_else(|| drawn(&tables, args.long), |json| Ok(json.write(&document, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_sets_are_even_and_bounded() {
        assert_eq!(leaf_set_size("2"), Ok(2));
        assert_eq!(leaf_set_size("512"), Ok(512));
        for bad in ["0", "7", "514", "-2", "many", ""] {
            assert!(leaf_set_size(bad).is_err(), "{bad:?} was taken");
        }
    }
}
