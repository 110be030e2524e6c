//! `lookup`, `trace` and `route`: questions and messages to whoever answers for a key.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::time::Instant;

use clap::Args;
use kringle_core::id::Id;
use kringle_front::text::unbase64;
use kringle_runtime::report::{Found, Summary};
use serde_json::Value;

use super::report::leaf_set_size;
use crate::client::{Asked, Client, segment};
use crate::example::{self, Explained};
use crate::failure::Failure;
use crate::output::{self, Json, Manners};
use crate::show::way::{self, Way};

/// The purpose of a message if nobody names one: the first that is free for applications.
const PURPOSE: u32 = 16;
/// The most that is read from standard input. Nodes carry far less and say how much.
pub(crate) const INPUT_MAX: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// The key
    key: OsString,
    /// KEY is an id of 32 hexadecimal digits, not a name
    #[arg(long)]
    id: bool,
    /// Chord: ask node after node, as the seed's client does, instead of letting them pass the question on
    #[arg(long)]
    iterative: bool,
    /// Write ids in full
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
#[command(override_usage = "kringle route <KEY> [MSG] [--purpose N] [--id] [--json]
       kringle route --example [KEY] [--json]
       kringle route --example <KEY> --table <FILE> --base <B> --digits <N> [--leaf-set L] [--json]")]
pub(crate) struct RouteArgs {
    /// Explain over a teaching node instead of a running one
    #[arg(long)]
    example: bool,
    /// The key. With --example it is written like the node's ids; without it, the lecture's two keys
    #[arg(required_unless_present = "example")]
    key: Option<OsString>,
    /// The message, or '-' for standard input [default: an empty one]
    #[arg(conflicts_with = "example")]
    msg: Option<OsString>,
    /// What the message is for: applications register for a purpose, 16 or above [default: 16]
    #[arg(long, value_name = "N", conflicts_with = "example")]
    purpose: Option<u32>,
    /// KEY is an id of 32 hexadecimal digits, not a name
    #[arg(long, conflicts_with = "example")]
    id: bool,
    /// Explain over the node this file describes ('-' is standard input)
    #[arg(long, value_name = "FILE", requires_all = ["example", "key", "base", "digits"])]
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
    #[command(flatten)]
    manners: Manners,
}

/// Asks who answers for a key.
pub(crate) fn lookup(asked: &Asked, args: &KeyArgs, json: Option<Json>) -> Result<String, Failure> {
    find(asked, args, json, false)
}

/// Follows the way to a key.
pub(crate) fn trace(asked: &Asked, args: &KeyArgs, json: Option<Json>) -> Result<String, Failure> {
    find(asked, args, json, true)
}

fn find(asked: &Asked, args: &KeyArgs, json: Option<Json>, trace: bool) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let trace_flag = if trace { "&trace=true" } else { "" };
    let trace_flag = if args.iterative { format!("{trace_flag}&iterative=true") } else { trace_flag.into() };
    let path = address("lookup", args.key.as_encoded_bytes(), args.id)?;
    let document = client.get(&format!("{path}deadline={}{trace_flag}", client.deadline()))?;
    if let Some(json) = json {
        return Ok(json.write(&document, ""));
    }
    let found: Found = client.read(&document, "/found")?;
    let replicas: Option<Vec<String>> = client.read(&document, "/replicas")?;
    let replicas = replicas.unwrap_or_default();
    // Its name and size are a welcome extra.
    let origin = if trace { client.get("nodes/self").ok() } else { None };
    let origin: Option<Summary> = origin.and_then(|document| client.read(&document, "/node").ok());
    let name = args.key.to_string_lossy();
    let way = Way {
        text: (!args.id).then_some(name.as_ref()),
        found: &found,
        replicas: &replicas,
        origin: origin.as_ref(),
        nodes: None,
        long: args.long,
        iterative: args.iterative,
    };
    Ok(if trace { way::trace(&way) } else { way::lookup(&way) })
}

/// Carries a message to whoever answers for a key, or explains a decision of a teaching node.
pub(crate) fn route(asked: &Asked, args: RouteArgs, json: Option<Json>) -> Result<String, Failure> {
    let key = args.key.unwrap_or_default();
    if args.example {
        let text = |key: OsString| key.to_string_lossy().into_owned();
        let explained = Explained {
            key: Some(key).filter(|key| !key.is_empty()).map(text),
            table: args.table,
            notation: args.base.zip(args.digits),
            leaf_set: args.leaf_set,
        };
        return example::route(explained, json.is_some());
    }
    let client = Client::new(asked, args.manners)?;
    let path = address("route", key.as_encoded_bytes(), args.id)?;
    let message = message(args.msg)?;
    let purpose = args.purpose.unwrap_or(PURPOSE);
    let path = format!("{path}purpose={purpose}&deadline={}", client.deadline());
    let start = Instant::now();
    let document = client.post(&path, "application/octet-stream", &message)?;
    let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    if let Some(json) = json {
        return Ok(json.write(&document, ""));
    }
    let root: String = client.read(&document, "/root")?;
    let answer = answer(&document["answer"]);
    let hops = document["hops"].as_u64().unwrap_or(0);
    args.manners.note(&way::delivered(&root, hops, micros, answer.is_some()));
    let mut bytes = answer.unwrap_or_default();
    if output::is_watched() && bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    output::print(&bytes)?;
    Ok(String::new())
}

/// Returns the path of a question about a key, ready for more parameters.
pub(crate) fn address(verb: &str, key: &[u8], is_id: bool) -> Result<String, Failure> {
    let text = String::from_utf8_lossy(key);
    if key.is_empty() {
        return Err(Failure::usage("the key is empty", "A key has at least one character."));
    }
    if !is_id {
        return Ok(format!("{verb}/{}?", segment(key)));
    }
    let id: Id = text.parse().ok().filter(|_| key.len() == 32).ok_or_else(|| {
        Failure::usage(
            format!("{text:?} is not an id"),
            "With --id, write 32 hexadecimal digits; without it, any text is a key.",
        )
    })?;
    Ok(format!("{verb}?id={id}&"))
}

fn message(text: Option<OsString>) -> Result<Vec<u8>, Failure> {
    match text {
        Some(text) if text == "-" => standard_input("message"),
        Some(text) => Ok(text.as_encoded_bytes().to_vec()),
        None => Ok(Vec::new()),
    }
}

/// Reads all of standard input.
pub(crate) fn standard_input(what: &str) -> Result<Vec<u8>, Failure> {
    let (mut bytes, input) = (Vec::new(), io::stdin());
    if input.is_terminal() {
        Manners::default().note(&format!("type the {what}, then end it with Ctrl-D"));
    }
    input.lock().take(INPUT_MAX).read_to_end(&mut bytes).map_err(|error| {
        Failure::failed(format!("cannot read standard input: {error}"), format!("Pipe the {what} in again."))
    })?;
    Ok(bytes)
}

/// Returns the bytes an application answered, if it did.
fn answer(answer: &Value) -> Option<Vec<u8>> {
    let text = answer["text"].as_str().map(|text| text.as_bytes().to_vec());
    text.or_else(|| unbase64(answer["base64"].as_str()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_become_paths() {
        assert_eq!(address("lookup", b"a b", false).unwrap(), "lookup/a%20b?");
        let id = "aaf4c61ddcc5e8a2dabede0f3b482cd9";
        assert_eq!(address("route", id.as_bytes(), true).unwrap(), format!("route?id={id}&"));
        for (key, is_id) in [("", false), ("", true), ("hello", true), ("aaf4", true)] {
            assert_eq!(address("lookup", key.as_bytes(), is_id).unwrap_err().code(), 2, "{key:?}");
        }
    }

    #[test]
    fn answers_are_bytes_whatever_they_were_written_as() {
        assert_eq!(answer(&json!({ "text": "pong" })), Some(b"pong".to_vec()));
        assert_eq!(answer(&json!({ "base64": "/w==" })), Some(vec![0xff]));
        assert_eq!(answer(&Value::Null), None);
    }
}
