//! Churn that was seen to happen, read from a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::network::{FileError, content, file_lines, text_lines};

use super::{Change, Event};

/// A trace of nodes that come and go.
///
/// The file is text. Blank lines and lines starting with `#` are skipped. Every other line says `SECONDS up NODE` or
/// `SECONDS down NODE`: the time since the start, decimals allowed, which must not go backwards; what happens; and to
/// whom. A node is any word or number, and is down at first. Nodes are numbered in the order in which they appear.
///
/// ```text
/// # two nodes
/// 0      up    alice
/// 12.5   up    10.0.0.7:4000
/// 3600   down  alice
/// 3700   up    alice
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    events: Arc<[Event]>,
    names: Arc<[Box<str>]>,
}

impl Trace {
    /// Reads a trace from a text.
    pub fn parse(text: &str) -> Result<Trace, FileError> {
        let mut record = Record::default();
        text_lines(text, |number, line| record.take(number, line))?;
        record.finish()
    }

    /// Reads a trace from a file.
    pub fn read(path: impl AsRef<Path>) -> Result<Trace, FileError> {
        let path = path.as_ref();
        let mut record = Record::default();
        let read = file_lines(path, |number, line| record.take(number, line)).and_then(|()| record.finish());
        read.map_err(|error| error.in_file(path))
    }

    /// Returns what happens, in order of time.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the nodes as the file calls them, in the order of their numbers.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

/// What was read so far.
#[derive(Default)]
struct Record {
    events: Vec<Event>,
    names: Vec<Box<str>>,
    numbers: BTreeMap<Box<str>, u32>,
    /// For each node, whether it is up.
    up: Vec<bool>,
}

impl Record {
    fn take(&mut self, number: usize, line: &str) -> Result<(), FileError> {
        let Some(line) = content(line) else { return Ok(()) };
        self.event(line).map_err(|problem| FileError::at(number, problem))
    }

    fn event(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let (Some(time), Some(what), Some(name), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            let count = line.split_whitespace().count();
            return Err(format!("has {count} words; expected 3: SECONDS up|down NODE"));
        };
        let at = self.time(time)?;
        let up = match what {
            "up" => true,
            "down" => false,
            _ => return Err(format!("{what:?} is not known; expected up or down")),
        };
        let node = self.node(name)?;
        let was_up = std::mem::replace(&mut self.up[node as usize], up);
        if was_up == up {
            return Err(format!("{name} is {what} already; expected the opposite"));
        }
        let what = if up { Change::Up(node) } else { Change::Down(node) };
        self.events.push(Event { at, what });
        Ok(())
    }

    fn time(&self, word: &str) -> Result<Duration, String> {
        let expected = "expected the time in seconds since the start";
        let Ok(seconds) = word.parse::<f64>() else {
            return Err(format!("{word:?} is not a number; {expected}"));
        };
        let Ok(at) = Duration::try_from_secs_f64(seconds) else {
            return Err(format!("{word} is no time; {expected}"));
        };
        match self.events.last() {
            Some(last) if at < last.at => {
                Err(format!("{word} is before {}; expected times in order", last.at.as_secs_f64()))
            }
            _ => Ok(at),
        }
    }

    fn node(&mut self, name: &str) -> Result<u32, String> {
        if let Some(node) = self.numbers.get(name) {
            return Ok(*node);
        }
        let node = u32::try_from(self.names.len()).map_err(|_| format!("{name} is one node too many"))?;
        self.numbers.insert(name.into(), node);
        self.names.push(name.into());
        self.up.push(false);
        Ok(node)
    }

    fn finish(self) -> Result<Trace, FileError> {
        if self.events.is_empty() {
            return Err(FileError::whole("has no events; expected lines such as 12.5 up alice"));
        }
        Ok(Trace { events: self.events.into(), names: self.names.into() })
    }
}
