//! Where answers and notes go: data to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};

use clap::{ArgMatches, Args};
use serde_json::Value;

use crate::failure::Failure;

/// What `--json` is without a value, and what it is if it is not there.
pub(crate) const DOCUMENT: &str = "document";
pub(crate) const NO_JSON: &str = "no";
const LINES: &str = "lines";

/// How `--json` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    /// One document over several lines.
    Document,
    /// One line for each member of a list, or the document on one line if it is none.
    Lines,
}

/// Reads the value of `--json`: whether JSON is wanted at all. See [`Json::of`] for how.
pub(crate) fn wants_json(text: &str) -> Result<bool, String> {
    match text {
        NO_JSON => Ok(false),
        DOCUMENT | LINES => Ok(true),
        _ => Err("write --json or --json=lines".into()),
    }
}

/// How much a command says beside its answer.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Manners {
    /// Say nothing on standard error but errors
    #[arg(short, long, display_order = 110)]
    pub(crate) quiet: bool,
    /// Say more on standard error; twice for still more
    #[arg(short, long, display_order = 111, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Manners {
    /// Says something on standard error, unless it is to be quiet.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            // Nobody is left to tell if this fails.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Says something only the curious want to know.
    pub(crate) fn detail(self, text: impl FnOnce() -> String) {
        if self.verbose > 0 && !self.quiet {
            let _ = writeln!(io::stderr(), "{}", text());
        }
    }
}

/// Writes a whole answer. A reader that has seen enough (`kringle table ... | head -1`) is no failure.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    send(bytes).map(drop)
}

/// Writes a part of an answer, and says whether anybody still reads.
pub(crate) fn send(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::output(&error)),
        Ok(()) => Ok(true),
    }
}

/// Says whether a person looks at standard output.
pub(crate) fn is_watched() -> bool {
    io::stdout().is_terminal()
}

/// Writes one document over several lines.
pub(crate) fn document(value: &Value) -> String {
    format!("{value:#}\n")
}

impl Json {
    /// Returns how JSON is wanted, if it is.
    pub(crate) fn of(matches: &ArgMatches) -> Json {
        let mut texts = matches.get_raw("json").into_iter().flatten();
        if texts.any(|text| text == LINES) { Json::Lines } else { Json::Document }
    }

    /// Writes a document. `list` points to the list that `lines` takes apart.
    pub(crate) fn write(self, value: &Value, list: &str) -> String {
        match (self, value.pointer(list)) {
            (Json::Document, _) => document(value),
            (Json::Lines, Some(Value::Array(items))) => {
                items.iter().map(|item| format!("{item}\n")).collect()
            }
            (Json::Lines, _) => format!("{value}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_taken_apart_into_lines() {
        let value = json!({ "schema": "x/1", "peers": [{ "id": "a" }, { "id": "b" }] });
        assert_eq!(Json::Lines.write(&value, "/peers"), "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
        let whole = Json::Lines.write(&value, "/nobody");
        assert_eq!(whole.lines().count(), 1);
        assert!(Json::Document.write(&value, "/peers").lines().count() > 3);
    }
}
