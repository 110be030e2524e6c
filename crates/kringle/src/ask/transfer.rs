//! `export` and `import`: all keys of a cluster as lines of JSON, and back as new writes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kringle_front::text::{Bytes, line};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Asked, Client};
use crate::duration;
use crate::failure::{Answer, Ending, Failure};
use crate::output::{self, Json, Manners};

/// What the first line of an export says.
const SCHEMA: &str = "kringle.export/1";
/// Keys that are asked for at a time.
const PAGE: usize = 1000;
/// Keys that are read at a time: as many as a node reads at once.
const ABREAST: usize = 64;
/// Operations of one batch, and about how many bytes; a node takes ten times and twice as many.
const OPERATIONS: usize = 1000;
const BYTES: usize = 4 << 20;
/// A line of an export is no longer: a set of 1 MiB, escaped or in base64, with what is around each value.
const LINE_MAX: u64 = 32 << 20;
/// Failures that are named one by one.
const NAMED: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The file to write [default: standard output]
    file: Option<PathBuf>,
    #[command(flatten)]
    manners: Manners,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file to read [default: standard input]
    file: Option<PathBuf>,
    /// Keep keys that exist [default: overwrite them]
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    manners: Manners,
}

/// Where an export goes. A file has another name until it is complete.
enum Sink {
    Pipe,
    File { out: BufWriter<File>, partial: PathBuf, path: PathBuf },
}

impl Sink {
    fn open(path: Option<&PathBuf>) -> Result<Sink, Failure> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else { return Ok(Sink::Pipe) };
        let mut name: OsString = path.clone().into_os_string();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let file = File::create(&partial).map_err(|error| unwritten(&partial, &error))?;
        Ok(Sink::File { out: BufWriter::new(file), partial, path: path.clone() })
    }

    /// Writes lines. Returns whether the reader is still there.
    fn send(&mut self, lines: &str) -> Result<bool, Failure> {
        match self {
            Sink::Pipe => output::send(lines.as_bytes()),
            Sink::File { out, partial, .. } => {
                out.write_all(lines.as_bytes()).map_err(|error| unwritten(partial, &error))?;
                Ok(true)
            }
        }
    }

    fn close(self, complete: bool) -> Result<(), Failure> {
        let Sink::File { out, partial, path } = self else { return Ok(()) };
        let file = out.into_inner().map_err(|error| unwritten(&partial, error.error()))?;
        file.sync_all().map_err(|error| unwritten(&partial, &error))?;
        match complete {
            true => std::fs::rename(&partial, &path).map_err(|error| unwritten(&path, &error)),
            false => Ok(()),
        }
    }
}

fn unwritten(path: &std::path::Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("cannot write {}: {error}", path.display()),
        "Make room, or name another file; nothing in the cluster was changed.",
    )
}

/// What came of the keys.
#[derive(Default)]
struct Tally {
    done: u64,
    kept: u64,
    failed: u64,
    first: Option<String>,
}

impl Tally {
    /// Counts a failure, and names it if there are few.
    fn fail(&mut self, key: &Bytes, why: &str, manners: Manners) {
        self.failed += 1;
        let what = format!("{}: {why}", line(&key.clone().into_bytes().unwrap_or_default()));
        if self.failed as usize <= NAMED {
            manners.note(&what);
        }
        self.first.get_or_insert(what);
    }
}

/// Says what a problem document says.
fn reason(problem: &Value) -> String {
    let text = |name: &str| problem[name].as_str().unwrap_or("no reason");
    format!("{} ({})", text("detail"), text("code"))
}

/// Writes all keys of the cluster, page by page.
pub(crate) fn export(asked: &Asked, args: &ExportArgs, json: Option<Json>) -> Answer {
    let client = Client::new(asked, args.manners)?;
    let cluster: String = client.read(&client.get("status?local=true")?, "/self/cluster")?;
    let mut sink = Sink::open(args.file.as_ref())?;
    let (mut tally, mut cursor) = (Tally::default(), String::new());
    let mut reads = sink.send(&format!("{}\n", json!({ "schema": SCHEMA, "cluster": cluster })))?;
    while reads {
        let path = format!("keys?limit={PAGE}&cursor={cursor}&timeout={}", client.deadline());
        let document = client.get(&path)?;
        let keys: Vec<Listed> = client.read(&document, "/keys")?;
        for keys in keys.chunks(ABREAST) {
            reads = sink.send(&read(&client, keys, &mut tally, args.manners)?)?;
            if !reads {
                break;
            }
        }
        match client.read(&document, "/cursor")? {
            Some(next) => cursor = next,
            None => break,
        }
    }
    let complete = tally.failed == 0;
    if complete && reads {
        sink.send(&format!("{}\n", json!({ "end": { "keys": tally.done } })))?;
    }
    sink.close(complete)?;
    let Tally { done, failed, first, .. } = tally;
    let ending = match first {
        None => Ending::Good,
        Some(first) => Ending::Failed(Failure::failed(
            format!("{failed} keys could not be read; the first: {first}"),
            "Try again when 'kringle status' shows no missing nodes; --timeout allows more time.",
        )),
    };
    args.manners.note(&format!("exported  {}", keys(done)));
    let document = json!({ "schema": "kringle.exported/1", "keys": done, "failed": failed });
    // On standard output, the export itself is the answer.
    let text = json.filter(|_| args.file.is_some()).map_or(String::new(), |json| json.write(&document, ""));
    Ok((text, ending))
}

fn keys(count: u64) -> String {
    if count == 1 { "1 key".into() } else { format!("{count} keys") }
}

/// A key of a page.
#[derive(Deserialize)]
struct Listed {
    key: Bytes,
    kind: String,
}

/// Reads some keys. One that is gone by now is left out.
fn read(client: &Client, keys: &[Listed], tally: &mut Tally, manners: Manners) -> Result<String, Failure> {
    let ask = |listed: &Listed| {
        let op = if listed.kind == "set" { "values" } else { "get" };
        json!({ "op": op, "key": listed.key })
    };
    let answers = client.batch(&keys.iter().map(ask).collect::<Vec<Value>>())?;
    let mut lines = String::new();
    for (listed, answer) in keys.iter().zip(answers) {
        let shown = |value: &Value| {
            let mut shown = json!({ "value": value["value"] });
            if let Some(left) = value["ttl_ms"].as_u64() {
                shown["ttl_ms"] = left.into();
            }
            shown
        };
        match (answer["status"].as_u64(), answer["values"].as_array()) {
            (Some(200), None) => {
                let mut line = shown(&answer);
                line["key"] = json!(listed.key);
                lines.push_str(&format!("{line}\n"));
                tally.done += 1;
            }
            (Some(200), Some(values)) => {
                let values: Vec<Value> = values.iter().map(shown).collect();
                lines.push_str(&format!("{}\n", json!({ "key": listed.key, "values": values })));
                tally.done += 1;
            }
            (Some(404), _) => {}
            _ => tally.fail(&listed.key, &reason(&answer), manners),
        }
    }
    Ok(lines)
}

/// A line of an export.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Head {
        schema: String,
    },
    End {
        end: End,
    },
    Set {
        key: Bytes,
        values: Vec<Shown>,
    },
    Value {
        key: Bytes,
        #[serde(flatten)]
        shown: Shown,
    },
}

#[derive(Deserialize)]
struct End {
    keys: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Shown {
    value: Bytes,
    ttl_ms: Option<u64>,
}

impl Shown {
    /// Writes an operation that stores it.
    fn operation(&self, op: &str, key: &Bytes, if_absent: bool) -> Value {
        let mut operation = json!({ "op": op, "key": key, "value": self.value });
        if let Some(left) = self.ttl_ms {
            operation["ttl"] = duration::exact(Duration::from_millis(left.max(1))).into();
        }
        if if_absent {
            operation["if_absent"] = true.into();
        }
        operation
    }
}

/// One key of an export.
struct Entry {
    key: Bytes,
    values: Vec<Shown>,
    is_set: bool,
}

/// Stores the keys of an export.
pub(crate) fn import(asked: &Asked, args: &ImportArgs, json: Option<Json>) -> Answer {
    let client = Client::new(asked, args.manners)?;
    // Before a long file is read for nothing.
    client.get("status?local=true")?;
    let path = args.file.as_ref().filter(|path| path.as_os_str() != "-");
    let place = path.map_or("standard input".into(), |path| path.display().to_string());
    let mut input: Box<dyn BufRead> = match path {
        None => Box::new(io::stdin().lock()),
        Some(path) => Box::new(BufReader::new(File::open(path).map_err(|error| {
            Failure::usage(
                format!("{place}: cannot read it: {error}"),
                "Name a file that 'kringle export' wrote.",
            )
        })?)),
    };
    let mut importer =
        Importer { client, if_absent: args.if_absent, manners: args.manners, tally: Tally::default() };
    let (mut entries, mut size, mut number, mut said) = (Vec::new(), 0, 0_u64, None);
    let mut text = String::new();
    loop {
        text.clear();
        number += 1;
        let bad = |what: String| {
            let what = format!("{place}:{number}: {what}");
            Failure::usage(
                what,
                "Name a file that 'kringle export' wrote; lines before this one may have been stored.",
            )
        };
        let length =
            io::Read::take(&mut input, LINE_MAX).read_line(&mut text).map_err(|e| bad(e.to_string()))?;
        if length == 0 {
            break;
        }
        if length as u64 == LINE_MAX {
            return Err(bad(format!("the line is longer than {LINE_MAX} bytes")));
        }
        let line: Line =
            serde_json::from_str(&text).map_err(|_| bad("this is no line of an export".into()))?;
        let entry = match line {
            Line::Head { schema } if number == 1 && schema == SCHEMA => continue,
            Line::Head { schema } => return Err(bad(format!("{schema:?} is not {SCHEMA:?} on line 1"))),
            _ if number == 1 => return Err(bad(format!("it does not begin with the schema {SCHEMA:?}"))),
            Line::End { end } => {
                said = Some(end.keys);
                continue;
            }
            Line::Set { key, values } => Entry { key, values, is_set: true },
            Line::Value { key, shown } => Entry { key, values: vec![shown], is_set: false },
        };
        size += length;
        entries.push(entry);
        if size >= BYTES || entries.len() >= OPERATIONS / 2 {
            importer.store(&entries)?;
            entries.clear();
            size = 0;
        }
    }
    importer.store(&entries)?;
    let Tally { done, kept, failed, first } = importer.tally;
    let found = done + kept + failed;
    let ending = match first {
        Some(first) => Ending::Failed(Failure::failed(
            format!("{failed} of {found} keys were not stored; the first: {first}"),
            "Import it again: what is stored already does no harm.",
        )),
        None if said != Some(found) => Ending::Failed(Failure::failed(
            format!("{place} has {} and no end: it is not complete", keys(found)),
            "Export again; the keys it has were stored.",
        )),
        None => Ending::Good,
    };
    let rest = if kept > 0 { format!(", kept {}", keys(kept)) } else { String::new() };
    args.manners.note(&format!("imported  {}{rest}", keys(done)));
    let document = json!({ "schema": "kringle.imported/1", "keys": found, "stored": done, "kept": kept, "failed": failed });
    Ok((json.map_or(String::new(), |json| json.write(&document, "")), ending))
}

struct Importer {
    client: Client,
    if_absent: bool,
    manners: Manners,
    tally: Tally,
}

/// What came of a key so far.
enum State {
    Stored,
    Kept,
    Failed(String),
}

impl Importer {
    /// Stores some keys.
    fn store(&mut self, entries: &[Entry]) -> Result<(), Failure> {
        let mut states: Vec<State> = entries.iter().map(|_| State::Stored).collect();
        if self.if_absent {
            // Adding to a set has no condition, so it is looked at first.
            let sets: Vec<usize> = (0..entries.len()).filter(|at| entries[*at].is_set).collect();
            let asks = sets.iter().map(|at| (*at, json!({ "op": "values", "key": entries[*at].key })));
            self.run(asks.collect(), |at, answer| match answer["status"].as_u64() {
                Some(404) => {}
                Some(200 | 409) => states[at] = State::Kept,
                _ => states[at] = State::Failed(reason(answer)),
            })?;
        }
        let mut operations = Vec::new();
        for (at, entry) in entries.iter().enumerate().filter(|(at, _)| matches!(states[*at], State::Stored)) {
            if entry.is_set && !self.if_absent {
                operations.push((at, json!({ "op": "delete", "key": entry.key })));
            }
            let op = if entry.is_set { "add" } else { "put" };
            let condition = self.if_absent && !entry.is_set;
            operations
                .extend(entry.values.iter().map(|value| (at, value.operation(op, &entry.key, condition))));
        }
        let (mut again, if_absent) = (Vec::new(), self.if_absent);
        self.run(operations, |at, answer| match answer["status"].as_u64() {
            Some(200) => {}
            Some(409 | 412) if if_absent => states[at] = State::Kept,
            // A set stands where a value is to be.
            Some(409) if !entries[at].is_set => again.push(at),
            _ => states[at] = State::Failed(reason(answer)),
        })?;
        let replace = again.iter().flat_map(|at| {
            let entry = &entries[*at];
            let put = entry.values.iter().map(|value| value.operation("put", &entry.key, false));
            [json!({ "op": "delete", "key": entry.key })].into_iter().chain(put).map(|ask| (*at, ask))
        });
        self.run(replace.collect(), |at, answer| {
            if answer["status"].as_u64() != Some(200) {
                states[at] = State::Failed(reason(answer));
            }
        })?;
        for (entry, state) in entries.iter().zip(states) {
            match state {
                State::Stored => self.tally.done += 1,
                State::Kept => self.tally.kept += 1,
                State::Failed(why) => self.tally.fail(&entry.key, &why, self.manners),
            }
        }
        Ok(())
    }

    /// Does operations in batches that a node takes, in their order for each key.
    fn run(
        &self,
        operations: Vec<(usize, Value)>,
        mut each: impl FnMut(usize, &Value),
    ) -> Result<(), Failure> {
        let (mut batch, mut whose, mut size) = (Vec::new(), Vec::new(), 0);
        let mut operations = operations.into_iter().peekable();
        while let Some((at, operation)) = operations.next() {
            size += operation.to_string().len();
            batch.push(operation);
            whose.push(at);
            let next = operations.peek().map_or(usize::MAX, |(_, next)| next.to_string().len());
            if batch.len() >= OPERATIONS || size.saturating_add(next) > BYTES {
                let answers = self.client.batch(&batch)?;
                whose.iter().zip(&answers).for_each(|(at, answer)| each(*at, answer));
                (batch, whose, size) = (Vec::new(), Vec::new(), 0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_what_they_are() {
        let read = |text: &str| serde_json::from_str::<Line>(text);
        assert!(matches!(read(r#"{"schema":"kringle.export/1","cluster":"c"}"#), Ok(Line::Head { .. })));
        assert!(matches!(read(r#"{"end":{"keys":3}}"#), Ok(Line::End { end: End { keys: 3 } })));
        let Ok(Line::Value { key, shown }) = read(r#"{"key":{"base64":"/w=="},"value":"v","ttl_ms":1500}"#)
        else {
            panic!()
        };
        assert_eq!(key.clone().into_bytes().unwrap(), b"\xff");
        assert_eq!(
            shown.operation("put", &key, true),
            json!({ "op": "put", "key": { "base64": "/w==" }, "value": "v", "ttl": "1500ms", "if_absent": true })
        );
        let Ok(Line::Set { values, .. }) = read(r#"{"key":"s","values":[{"value":"a"},{"value":"b"}]}"#)
        else {
            panic!()
        };
        assert_eq!(values.len(), 2);
        assert!(read(r#"{"key":"k"}"#).is_err() && read("[]").is_err());
    }
}
