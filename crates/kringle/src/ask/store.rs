//! `put`, `get`, `add`, `del`, `ttl` and `incr`: values under keys.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use kringle_core::store::version::{NotAVersion, Version};
use kringle_front::text::{self, Bytes, base64};
use kringle_runtime::key::digest_of;
use serde_json::Value;

use super::key::{INPUT_MAX, address, standard_input};
use crate::client::{Asked, Client, Reply};
use crate::duration;
use crate::failure::Failure;
use crate::output::{self, Json, Manners};
use crate::show::Columns;
use crate::show::store::{self as paper, Done, Member};

/// The largest value a node can be set to take.
const VALUE_MAX: usize = 1 << 20;

/// How many copies to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// One: fast, and lost if that one is.
    One,
    /// More than half: what is acknowledged stays, and is read.
    Quorum,
    /// Every one.
    All,
}

impl Level {
    /// Returns the word that HTTP has for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Level::One => "one",
            Level::Quorum => "quorum",
            Level::All => "all",
        }
    }
}

/// What all commands that write have.
#[derive(Debug, Args)]
struct Writing {
    /// How many copies have to have it [default: quorum]
    #[arg(short = 'w', long = "write", value_name = "LEVEL")]
    level: Option<Level>,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// The key
    key: OsString,
    /// The value; '-' or nothing for standard input, @FILE for what is in a file
    value: Option<OsString>,
    /// Let it end after so long: 90s, 10m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = duration::read)]
    ttl: Option<Duration>,
    /// Only if the key is at this version
    #[arg(long, value_name = "VERSION", value_parser = version, conflicts_with = "if_absent")]
    if_version: Option<Version>,
    /// Only if the key has no value yet
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The key
    key: OsString,
    /// The values of a set, one per line
    #[arg(long)]
    all: bool,
    /// Version, size and end instead of the value
    #[arg(long)]
    meta: bool,
    /// How many copies have to agree [default: quorum]
    #[arg(short = 'r', long = "read", value_name = "LEVEL")]
    level: Option<Level>,
    /// The bytes as they are, on a terminal too
    #[arg(long, conflicts_with_all = ["hex", "base64"])]
    raw: bool,
    /// The bytes as hexadecimal digits
    #[arg(long, conflicts_with = "base64")]
    hex: bool,
    /// The bytes in base64
    #[arg(long)]
    base64: bool,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// The key of the set
    key: OsString,
    /// The value to add; '-' for standard input, @FILE for what is in a file
    value: OsString,
    /// Let it end after so long: 90s, 10m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = duration::read)]
    ttl: Option<Duration>,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Debug, Args)]
pub(crate) struct DelArgs {
    /// The key
    key: OsString,
    /// One value of a set; without it, all that is under the key
    value: Option<OsString>,
    /// Only if the key is at this version
    #[arg(long, value_name = "VERSION", value_parser = version, conflicts_with = "value")]
    if_version: Option<Version>,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Debug, Args)]
pub(crate) struct TtlArgs {
    /// The key
    key: OsString,
    /// How long it stays from now on; without it, show what is left
    #[arg(value_parser = duration::read, value_name = "TIME")]
    ttl: Option<Duration>,
    /// Let it stay
    #[arg(long, conflicts_with = "ttl")]
    clear: bool,
    #[command(flatten)]
    writing: Writing,
}

#[derive(Debug, Args)]
pub(crate) struct IncrArgs {
    /// The key
    key: OsString,
    /// How much greater the number gets
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    by: i64,
    #[command(flatten)]
    writing: Writing,
}

fn version(text: &str) -> Result<Version, NotAVersion> {
    text.trim_matches('"').parse()
}

/// Writes what the parameters of a request are, behind its path.
struct Path(String);

impl Path {
    /// Starts with a key and what of it is meant.
    fn new(client: &Client, key: &OsStr, rest: &str) -> Result<Path, Failure> {
        let path = address("kv", key.as_encoded_bytes(), false)?;
        Ok(Path(format!("{}{rest}?timeout={}", path.trim_end_matches('?'), client.deadline())))
    }

    fn with(mut self, name: &str, value: Option<impl std::fmt::Display>) -> Path {
        if let Some(value) = value {
            self.0.push_str(&format!("&{name}={value}"));
        }
        self
    }
}

fn if_version(version: Option<Version>) -> Option<(&'static str, String)> {
    version.map(|version| ("if-match", format!("\"{version}\"")))
}

/// Reads a value from where the command says it is. One that no node takes is refused here: a node says so without
/// reading it all, and that is easily taken for a broken connection.
fn value(text: Option<&OsStr>) -> Result<Vec<u8>, Failure> {
    let bytes = content(text)?;
    match bytes.len() {
        length if length > VALUE_MAX => Err(Failure::coded(
            8,
            format!("a value may have {VALUE_MAX} bytes, and this one has {} (KR0413)", more(length)),
            "Store less, or in parts. Nodes can be set to take less, never more.",
        )),
        _ => Ok(bytes),
    }
}

fn more(length: usize) -> String {
    if length as u64 == INPUT_MAX { format!("{INPUT_MAX} or more") } else { length.to_string() }
}

fn content(text: Option<&OsStr>) -> Result<Vec<u8>, Failure> {
    let bytes = text.map(OsStr::as_encoded_bytes);
    match bytes {
        None | Some(b"-") => standard_input("value"),
        Some([b'@', path @ ..]) if !path.is_empty() => {
            let path = String::from_utf8_lossy(path).into_owned();
            let mut bytes = Vec::new();
            let read = File::open(&path).and_then(|file| file.take(INPUT_MAX).read_to_end(&mut bytes));
            read.map(|_| bytes).map_err(|error| {
                Failure::usage(
                    format!("{path}: cannot read it: {error}"),
                    "@ stands before the name of a file; pipe a value that begins with @ into standard input.",
                )
            })
        }
        Some(bytes) => Ok(bytes.to_vec()),
    }
}

/// Stores a value.
pub(crate) fn put(asked: &Asked, args: &PutArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.writing.manners)?;
    let path = Path::new(&client, &args.key, "")?;
    let path = path.with("ttl", args.ttl.map(duration::exact)).with("w", args.writing.level.map(Level::word));
    let value = value(args.value.as_deref())?;
    let absent = args.if_absent.then(|| ("if-none-match", "*".to_owned()));
    let conditions: Vec<_> = if_version(args.if_version).into_iter().chain(absent).collect();
    let start = Instant::now();
    let document = client.change("PUT", &path.0, &conditions, Some(&value))?;
    let done = Done::of("stored", &args.key, start).until(args.ttl);
    told(args.writing.manners, json, &document, &done.version().line(&document))
}

/// Adds a value to a set.
pub(crate) fn add(asked: &Asked, args: &AddArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.writing.manners)?;
    let path = Path::new(&client, &args.key, "/values")?;
    let path = path.with("ttl", args.ttl.map(duration::exact)).with("w", args.writing.level.map(Level::word));
    let value = value(Some(&args.value))?;
    let start = Instant::now();
    let document = client.change("POST", &path.0, &[], Some(&value))?;
    let verb = if document["created"] == true { "added" } else { "there already" };
    let done = Done::of(verb, &args.key, start).until(args.ttl);
    told(args.writing.manners, json, &document, &done.line(&document))
}

/// Removes a key, or one value of a set.
pub(crate) fn del(asked: &Asked, args: &DelArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.writing.manners)?;
    let part = match &args.value {
        None => String::new(),
        Some(text) => {
            let digest = digest_of(value(Some(text))?);
            format!("/values/{:032x}", u128::from_be_bytes(digest.0))
        }
    };
    let path = Path::new(&client, &args.key, &part)?.with("w", args.writing.level.map(Level::word));
    let conditions: Vec<_> = if_version(args.if_version).into_iter().collect();
    let start = Instant::now();
    let document = client.change("DELETE", &path.0, &conditions, None)?;
    let verb = if document["existed"] == true { "deleted" } else { "was not there" };
    told(args.writing.manners, json, &document, &Done::of(verb, &args.key, start).line(&document))
}

/// Shows, sets or clears how long a value stays.
pub(crate) fn ttl(asked: &Asked, args: &TtlArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.writing.manners)?;
    let path = Path::new(&client, &args.key, "/ttl")?;
    let start = Instant::now();
    let level = args.writing.level.map(Level::word);
    if args.ttl.is_none() && !args.clear {
        let document = client.get(&path.with("r", level).0)?;
        let left = document["ttl_ms"].as_u64().map(Duration::from_millis);
        let text = left.map_or("stays\n".into(), |left| format!("{}\n", duration::rough(left)));
        return Ok(json.map_or(text, |json| json.write(&document, "")));
    }
    let path = path.with("w", level).with("ttl", args.ttl.map(duration::exact));
    let method = if args.clear { "DELETE" } else { "PUT" };
    let document = client.change(method, &path.0, &[], args.ttl.map(|_| &[][..]))?;
    let done = Done::of(if args.clear { "stays" } else { "changed" }, &args.key, start).until(args.ttl);
    told(args.writing.manners, json, &document, &done.version().line(&document))
}

/// Counts.
pub(crate) fn incr(asked: &Asked, args: &IncrArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.writing.manners)?;
    let path = Path::new(&client, &args.key, "/increment")?;
    let path = path.with("by", Some(args.by)).with("w", args.writing.level.map(Level::word));
    let start = Instant::now();
    let document = client.change("POST", &path.0, &[], Some(&[]))?;
    let line = Done::of("counted", &args.key, start).version().line(&document);
    let number: i64 = client.read(&document, "/number")?;
    told(args.writing.manners, json, &document, &line)
        .map(|text| if json.is_some() { text } else { format!("{number}\n") })
}

/// Tells the outcome: a document to programs, a note to people.
fn told(manners: Manners, json: Option<Json>, document: &Value, note: &str) -> Result<String, Failure> {
    if let Some(json) = json {
        return Ok(json.write(document, ""));
    }
    manners.note(note);
    Ok(String::new())
}

/// Reads a value, or the values of a set.
pub(crate) fn get(asked: &Asked, args: &GetArgs, json: Option<Json>) -> Result<String, Failure> {
    let client = Client::new(asked, args.manners)?;
    let path = Path::new(&client, &args.key, if args.all { "/values" } else { "" })?;
    let path = path.with("r", args.level.map(Level::word)).0;
    if let Some(json) = json {
        return Ok(json.write(&client.get(&path)?, "/values"));
    }
    if args.all {
        let members: Vec<Value> = client.read(&client.get(&path)?, "/values")?;
        let members =
            members.iter().map(member).collect::<Option<Vec<Member>>>().ok_or_else(|| strange(&client))?;
        if args.meta {
            return Ok(paper::members(&members, Columns::default()));
        }
        let mut out = Vec::new();
        for member in members {
            out.extend(shown(args, member.value));
            out.push(b'\n');
        }
        output::print(&out)?;
        return Ok(String::new());
    }
    let Reply { headers, body } = client.fetch(&path)?;
    if args.meta {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        return Ok(paper::meta(&text::line(args.key.as_encoded_bytes()), &body, header));
    }
    let mut out = shown(args, body);
    if output::is_watched() && out.last().is_some_and(|last| *last != b'\n') || args.hex || args.base64 {
        out.push(b'\n');
    }
    output::print(&out)?;
    Ok(String::new())
}

/// Writes bytes in the way that is wanted. A terminal gets no bytes that are no text: it might obey them.
fn shown(args: &GetArgs, bytes: Vec<u8>) -> Vec<u8> {
    let is_text = std::str::from_utf8(&bytes)
        .is_ok_and(|text| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')));
    if args.base64 {
        return base64(&bytes).into_bytes();
    }
    if args.hex || output::is_watched() && !is_text && !args.raw {
        if !args.hex {
            args.manners.note(
                "these bytes are no text, and shown as hexadecimal digits; --raw sends them as they are",
            );
        }
        return bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
    }
    bytes
}

fn member(document: &Value) -> Option<Member> {
    let value: Bytes = serde_json::from_value(document["value"].clone()).ok()?;
    Some(Member {
        digest: document["digest"].as_str()?.to_owned(),
        value: value.into_bytes()?,
        version: document["version"].as_str()?.to_owned(),
        left: document["ttl_ms"].as_u64().map(Duration::from_millis),
    })
}

fn strange(client: &Client) -> Failure {
    client.foreign(&"a list of values that is none")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Get {
        #[command(flatten)]
        args: GetArgs,
    }

    #[test]
    fn values_come_from_the_line_or_a_file() {
        let of = |text: &str| value(Some(OsStr::new(text)));
        assert_eq!(of("hello").unwrap(), b"hello");
        assert_eq!(of("").unwrap(), b"");
        assert_eq!(of("@").unwrap(), b"@");
        let missing = of("@no/such/file").unwrap_err();
        assert!(missing.code() == 2 && missing.to_string().contains("no/such/file: cannot read it"));
        let path = format!("@{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
        assert!(of(&path).unwrap().starts_with(b"[package]"));
    }

    #[test]
    fn bytes_are_shown_as_asked() {
        let shown = |line: &str| shown(&Get::parse_from(line.split(' ')).args, b"\xff\x00".to_vec());
        assert_eq!(shown("get k --hex"), b"ff00");
        assert_eq!(shown("get k --base64"), b"/wA=");
        assert_eq!(shown("get k --raw"), b"\xff\x00");
        assert!(Get::try_parse_from("get k --hex --base64".split(' ')).is_err());
    }

    #[test]
    fn versions_are_read_with_and_without_quotes() {
        assert_eq!(version("\"018bcfe568000010\""), Ok(Version(0x018b_cfe5_6800_0010)));
        assert_eq!(version("018bcfe568000010"), Ok(Version(0x018b_cfe5_6800_0010)));
        assert!(version("7").is_err());
    }

    #[test]
    fn members_are_read_from_their_document() {
        let document =
            json!({ "digest": "ab", "value": { "base64": "/w==" }, "version": "07", "ttl_ms": 1500 });
        let member = member(&document).unwrap();
        assert_eq!((&*member.value, member.left), (&b"\xff"[..], Some(Duration::from_millis(1500))));
        assert!(super::member(&json!({ "digest": "ab" })).is_none());
    }
}
