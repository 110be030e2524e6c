//! What is stored, on paper.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use kringle_front::text;
use serde_json::Value;

use super::{Columns, Sheet, Width, count, took};
use crate::duration;

/// A write that was done.
pub(crate) struct Done<'a> {
    verb: &'a str,
    key: String,
    took: Duration,
    until: Option<Duration>,
    version: bool,
}

impl<'a> Done<'a> {
    /// Says what was done to a key, and since when.
    pub(crate) fn of(verb: &'a str, key: &OsStr, start: Instant) -> Done<'a> {
        let key = text::line(key.as_encoded_bytes());
        Done { verb, key, took: start.elapsed(), until: None, version: false }
    }

    /// Says how long it stays, if it ends.
    pub(crate) fn until(self, until: Option<Duration>) -> Done<'a> {
        Done { until, ..self }
    }

    /// Shows the version, too.
    pub(crate) fn version(self) -> Done<'a> {
        Done { version: true, ..self }
    }

    /// Writes the line, with what the node's document says.
    pub(crate) fn line(&self, document: &Value) -> String {
        let number = |name: &str| document[name].as_u64().unwrap_or(0);
        let version = document["version"].as_str().filter(|_| self.version);
        let version = version.map_or(String::new(), |version| format!("  version {version}"));
        let until =
            self.until.map_or(String::new(), |until| format!("  expires in {}", duration::exact(until)));
        format!(
            "{}  {}{version}  {}/{} replicas  {}  {}{until}",
            self.verb,
            self.key,
            number("acked"),
            number("replicas"),
            count(usize::try_from(number("hops")).unwrap_or(0), "hop"),
            took(u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX)),
        )
    }
}

/// Writes all about a value but the value.
pub(crate) fn meta<'a>(key: &str, value: &[u8], header: impl Fn(&str) -> Option<&'a str>) -> String {
    let text = |name: &str| header(name).unwrap_or("-").trim_matches('"').to_owned();
    let expires = header("kringle-expires").unwrap_or("never");
    format!(
        "key       {key}\nversion   {}\nsize      {}\nexpires   {expires}\nreplicas  {}\n",
        text("etag"),
        count(value.len(), "byte"),
        text("kringle-replicas"),
    )
}

/// A value of a set.
pub(crate) struct Member {
    pub(crate) digest: String,
    pub(crate) value: Vec<u8>,
    pub(crate) version: String,
    pub(crate) left: Option<Duration>,
}

/// Lists the values of a set.
pub(crate) fn members(members: &[Member], columns: Columns) -> String {
    let mut sheet = Sheet::new(&["DIGEST", "VERSION", ">BYTES", ">ENDS-IN", "VALUE"]);
    for member in members {
        sheet.row(vec![
            member.digest.clone(),
            member.version.clone(),
            member.value.len().to_string(),
            left(member.left),
            text::line(&member.value),
        ]);
    }
    sheet.text(columns)
}

/// A key of a list.
pub(crate) struct Listed {
    pub(crate) key: Vec<u8>,
    pub(crate) kind: String,
    pub(crate) version: String,
    pub(crate) left: Option<Duration>,
}

impl Listed {
    /// Writes the key on a line of its own. Bytes that would break the line, or that are no text, are escaped.
    pub(crate) fn line(&self) -> String {
        match std::str::from_utf8(&self.key) {
            Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
            _ => self.key.escape_ascii().to_string(),
        }
    }
}

/// Lists keys with what is known about each.
pub(crate) fn keys(keys: &[Listed], columns: Columns) -> String {
    let mut sheet = Sheet::new(&["VERSION", "KIND", ">ENDS-IN", "KEY"]);
    for listed in keys {
        sheet.row(vec![
            listed.version.clone(),
            format!("{:5}", listed.kind),
            left(listed.left),
            listed.line(),
        ]);
    }
    sheet.text(columns)
}

fn left(left: Option<Duration>) -> String {
    left.map_or("-".into(), duration::rough)
}

/// One copy of a key.
pub(crate) struct Copy {
    pub(crate) node: String,
    pub(crate) name: Option<String>,
    pub(crate) state: String,
    pub(crate) version: Option<String>,
}

/// Writes where the copies of a key are.
pub(crate) fn place(copies: &[Copy], long: bool) -> String {
    let width = Width::of(copies.iter().map(|copy| copy.node.as_str()), long);
    let agree = copies.iter().filter(|copy| copy.state == "ok").count();
    let mut sheet = Sheet::new(&["COPY", "NODE", "VERSION", "STATE"]);
    for (at, copy) in copies.iter().enumerate() {
        let name = copy.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
        let version = copy.version.as_ref().map_or("no value".into(), |version| format!("version {version}"));
        let version = if copy.state == "silent" { "-".into() } else { version };
        let state = if copy.state == "ok" { copy.state.clone() } else { copy.state.to_uppercase() };
        let mut row = vec![
            if at == 0 { "root".into() } else { "replica".into() },
            format!("{}{name}", width.cut(&copy.node)),
            version,
            state,
        ];
        if at + 1 == copies.len() {
            row.push(format!("       {agree} of {} agree", copies.len()));
        }
        sheet.row(row);
    }
    sheet.text(Columns { no_header: true, long })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::samples::id;
    use super::*;

    #[test]
    fn a_write_says_how_it_went() {
        let document = json!({ "version": "018bcfe568000010", "acked": 3, "replicas": 3, "hops": 2 });
        let done = |verb| Done {
            took: Duration::from_micros(1200),
            ..Done::of(verb, OsStr::new("greeting"), Instant::now())
        };
        assert_eq!(
            done("stored").until(Some(Duration::from_secs(600))).version().line(&document),
            "stored  greeting  version 018bcfe568000010  3/3 replicas  2 hops  1.20 ms  expires in 10m"
        );
        assert_eq!(done("deleted").line(&document), "deleted  greeting  3/3 replicas  2 hops  1.20 ms");
    }

    #[test]
    fn metadata_stands_in_lines() {
        let header = |name: &str| match name {
            "etag" => Some("\"018bcfe568000010\""),
            "kringle-replicas" => Some("2/3"),
            _ => None,
        };
        assert_eq!(
            meta("k", b"hello", header),
            "key       k\nversion   018bcfe568000010\nsize      5 bytes\nexpires   never\nreplicas  2/3\n"
        );
    }

    #[test]
    fn keys_are_one_to_a_line_whatever_is_in_them() {
        let listed = |key: &[u8]| Listed {
            key: key.to_vec(),
            kind: "set".into(),
            version: "018bcfe568000010".into(),
            left: Some(Duration::from_secs(61)),
        };
        assert_eq!(listed("caf\u{e9} 1".as_bytes()).line(), "caf\u{e9} 1");
        assert_eq!(listed(b"a\nb").line(), "a\\nb");
        assert_eq!(listed(b"\xff").line(), "\\xff");
        let text = keys(&[listed(b"k")], Columns::default());
        assert_eq!(text, "VERSION           KIND   ENDS-IN  KEY\n018bcfe568000010  set      1m01s  k\n");
    }

    #[test]
    fn a_place_says_who_agrees() {
        let copy = |node: &str, name: Option<&str>, state: &str, version: Option<&str>| Copy {
            node: id(node),
            name: name.map(String::from),
            state: state.into(),
            version: version.map(String::from),
        };
        let copies = [
            copy("5b21e8", Some("demo-11"), "ok", Some("018bcfe568000010")),
            copy("5a90f3", Some("demo-4"), "behind", Some("018bcfe560000010")),
            copy("5c0d17", None, "silent", None),
        ];
        let text = "\
root     5b21e8 (demo-11)  version 018bcfe568000010  ok
replica  5a90f3 (demo-4)   version 018bcfe560000010  BEHIND
replica  5c0d17            -                         SILENT        1 of 3 agree
";
        assert_eq!(place(&copies, false), text);
    }
}
