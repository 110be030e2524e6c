//! `keys` and `place`: which keys there are, and where one is kept.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use kringle_front::glob::Glob;
use kringle_front::text::Bytes;
use kringle_runtime::report::Summary;
use serde_json::{Value, json};

use super::key::address;
use crate::client::{Asked, Client, segment};
use crate::failure::Failure;
use crate::output::{self, Json, Manners};
use crate::show::Columns;
use crate::show::store::{self as paper, Copy, Listed};

/// Keys that are asked for at a time.
const PAGE: u64 = 1000;

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    /// Only keys like this: '*' stands for any bytes, '?' for one, '\' makes the next plain
    #[arg(long = "match", value_name = "GLOB")]
    pattern: Option<OsString>,
    /// So many keys at most [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// With version, kind and end
    #[arg(short, long)]
    long: bool,
    /// With -l: leave out everything but the rows, for scripts
    #[arg(long)]
    no_header: bool,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The key
    key: OsString,
    /// Write ids in full
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    manners: Manners,
}

/// Lists keys, page by page, for as long as somebody reads.
pub(crate) fn keys(asked: &Asked, args: &KeysArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let pattern = match &args.pattern {
        None => String::new(),
        Some(text) => {
            let bytes = text.as_encoded_bytes();
            Glob::new(bytes).map_err(|error| {
                Failure::usage(
                    error.to_string(),
                    "Write a pattern like --match 'user:*', in quotes for the shell.",
                )
            })?;
            format!("&match={}", segment(bytes))
        }
    };
    let (mut left, mut cursor, mut all) = (args.limit.unwrap_or(u64::MAX), String::new(), Vec::new());
    let mut headed = args.no_header;
    loop {
        let page = left.min(PAGE);
        let path = format!("keys?limit={page}&cursor={cursor}{pattern}&timeout={}", client.deadline());
        let document = client.get(&path)?;
        let found: Vec<Value> = client.read(&document, "/keys")?;
        left = left.saturating_sub(found.len() as u64);
        let next: Option<String> = client.read(&document, "/cursor")?;
        match json {
            Some(Json::Document) => all.extend(found),
            Some(Json::Lines) => {
                let lines: String = found.iter().map(|key| format!("{key}\n")).collect();
                if !output::send(lines.as_bytes())? {
                    return Ok(String::new());
                }
            }
            None => {
                let listed = found.iter().map(listed).collect::<Option<Vec<Listed>>>();
                let listed = listed.ok_or_else(|| client.foreign(&"a list of keys that is none"))?;
                let text = match args.long {
                    true => paper::keys(&listed, Columns { no_header: headed, long: false }),
                    false => listed.iter().map(|listed| format!("{}\n", listed.line())).collect(),
                };
                headed |= !listed.is_empty();
                if !listed.is_empty() && !output::send(text.as_bytes())? {
                    return Ok(String::new());
                }
            }
        }
        match next {
            Some(next) if left > 0 => cursor = next,
            next => {
                let document = json!({ "schema": "kringle.keys/1", "keys": all, "cursor": next });
                return Ok(match json {
                    Some(Json::Document) => output::document(&document),
                    _ => String::new(),
                });
            }
        }
    }
}

fn listed(document: &Value) -> Option<Listed> {
    let key: Bytes = serde_json::from_value(document["key"].clone()).ok()?;
    Some(Listed {
        key: key.into_bytes()?,
        kind: document["kind"].as_str()?.to_owned(),
        version: document["version"].as_str().unwrap_or("-").to_owned(),
        left: document["ttl_ms"].as_u64().map(Duration::from_millis),
    })
}

/// Shows where the copies of a key are, and whether they agree.
pub(crate) fn place(asked: &Asked, args: &PlaceArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let path = address("place", args.key.as_encoded_bytes(), false)?;
    let document = client.get(&format!("{path}timeout={}", client.deadline()))?;
    if let Some(json) = json {
        return Ok(json.write(&document, "/copies"));
    }
    let copies: Vec<Value> = client.read(&document, "/copies")?;
    let name = |id: &str| -> Option<String> {
        // A welcome extra; a node that is silent has no name for now.
        let node =
            client.get(&format!("nodes/{}?deadline={}", segment(id.as_bytes()), client.deadline())).ok()?;
        client.read::<Summary>(&node, "/node").ok()?.name
    };
    let copy = |document: &Value| {
        let (node, state) = (document["node"].as_str()?.to_owned(), document["state"].as_str()?.to_owned());
        let name = if state == "silent" { None } else { name(&node) };
        Some(Copy { node, name, state, version: document["version"].as_str().map(String::from) })
    };
    let copies = copies.iter().map(copy).collect::<Option<Vec<Copy>>>();
    let copies = copies.ok_or_else(|| client.foreign(&"a list of copies that is none"))?;
    Ok(paper::place(&copies, args.long))
}
