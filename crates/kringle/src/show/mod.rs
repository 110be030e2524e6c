//! What nodes tell, on paper: columns, short ids, spans of time.

pub(crate) mod cluster;
pub(crate) mod event;
pub(crate) mod node;
pub(crate) mod store;
pub(crate) mod way;

use std::time::Duration;

use clap::Args;

use crate::duration;

/// Digits of an id that is cut short.
const SHORT: usize = 6;
/// Digits of a whole one.
const WHOLE: usize = 32;

/// How lists are written.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Columns {
    /// Leave out everything but the rows, for scripts
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Write ids in full
    #[arg(short, long)]
    pub(crate) long: bool,
}

/// How many digits of an id are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width(usize);

impl Width {
    /// Takes as many as it needs to tell these apart, and at least six; or all.
    pub(crate) fn of<'a>(ids: impl IntoIterator<Item = &'a str>, long: bool) -> Width {
        if long {
            return Width(WHOLE);
        }
        let mut ids: Vec<&str> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let shared = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
        let longest = ids.windows(2).map(shared).max().map_or(0, |shared| shared + 1);
        Width(longest.clamp(SHORT, WHOLE))
    }

    /// Cuts an id short.
    pub(crate) fn cut(self, id: &str) -> &str {
        id.get(..self.0).unwrap_or(id)
    }
}

/// Rows under headings, as wide as they have to be and never wrapped.
pub(crate) struct Sheet {
    heads: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Sheet {
    /// Starts a sheet. Columns whose heading starts with `>` are aligned to the right.
    pub(crate) fn new(heads: &'static [&'static str]) -> Sheet {
        Sheet { heads, rows: Vec::new() }
    }

    /// Adds a row. Cells beyond the last heading stand behind it, one blank away.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes the sheet.
    pub(crate) fn text(&self, columns: Columns) -> String {
        let names: Vec<&str> = self.heads.iter().map(|head| head.trim_start_matches('>')).collect();
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            cells.chain([names[at].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..names.len()).map(width).collect();
        let line = |cells: &[&str]| {
            let mut out = String::new();
            for (at, cell) in cells.iter().enumerate() {
                let right = self.heads.get(at).is_some_and(|head| head.starts_with('>'));
                match widths.get(at) {
                    Some(width) if right => out.push_str(&format!("{cell:>width$}  ")),
                    Some(width) => out.push_str(&format!("{cell:width$}  ")),
                    None => {
                        out.truncate(out.trim_end().len());
                        out.push_str(&format!(" {cell}"));
                    }
                }
            }
            format!("{}\n", out.trim_end())
        };
        let rows = self.rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        let head = (!columns.no_header).then(|| line(&names));
        head.into_iter().chain(rows).collect()
    }
}

/// Writes a round trip.
pub(crate) fn rtt(micros: Option<u32>) -> String {
    micros.map_or("-".into(), |micros| match micros {
        0..10_000 => format!("{:.2}ms", f64::from(micros) / 1e3),
        10_000..1_000_000 => format!("{:.0}ms", f64::from(micros) / 1e3),
        _ => format!("{:.1}s", f64::from(micros) / 1e6),
    })
}

/// Writes how long something took.
pub(crate) fn took(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// Writes how long a node has been running.
pub(crate) fn uptime(millis: u64) -> String {
    duration::rough(Duration::from_millis(millis))
}

/// Writes a share of the ring.
pub(crate) fn share(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Writes a number and what it counts.
pub(crate) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Made-up reports for the tests of layouts.

    use kringle_runtime::report::{Summary, Survey};

    /// An id of 32 digits from its first ones.
    pub(crate) fn id(start: &str) -> String {
        format!("{start:0<32}")
    }

    /// A healthy node.
    pub(crate) fn summary(start: &str, name: Option<&str>, port: u16) -> Summary {
        Summary {
            id: id(start),
            name: name.map(String::from),
            cluster: "demo".into(),
            overlay: "pastry".into(),
            base: 4,
            leaf_set: 8,
            successors: None,
            mode: None,
            ownership: "lease".into(),
            version: "0.1.0".into(),
            incarnation: 7,
            status: "ready".into(),
            entitled: true,
            uptime_ms: 134_000,
            endpoints: vec![([127, 0, 0, 1], port).into()],
            client: None,
            region: None,
            share: 0.25,
            range: Some((id("00"), id("40"))),
            left: Some(id("0af3c1")),
            right: Some(id("1d77e0")),
            leaves: 2,
            known: 2,
            connections: 2,
            suspects: Vec::new(),
            store: None,
            disk: None,
        }
    }

    /// A healthy ring of three, seen by the second.
    pub(crate) fn survey() -> Survey {
        let nodes =
            [("0af3c1", Some("demo-7"), 7407), ("1d77e0", Some("demo-2"), 7402), ("a3b90c", None, 7411)];
        Survey {
            by: id("1d77e0"),
            nodes: nodes.map(|(id, name, port)| summary(id, name, port)).into(),
            silent: Vec::new(),
            cut: false,
            whole: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_as_long_as_it_takes_to_tell_them_apart() {
        let ids = ["aabbccddee000000", "aabbccdd00000000", "1234567890abcdef"];
        assert_eq!(Width::of(ids, false).cut(ids[0]), "aabbccdde");
        assert_eq!(Width::of([ids[0], ids[0], ids[2]], false).cut(ids[0]), "aabbcc");
        assert_eq!(Width::of(ids, true).cut(ids[0]), ids[0]);
        assert_eq!(Width::of([], false).cut("short"), "short");
    }

    #[test]
    fn columns_line_up_and_extras_stand_behind_them() {
        let mut sheet = Sheet::new(&["ID", ">OWNS", "NAME"]);
        sheet.row(vec!["aabbcc".into(), "1.9%".into(), "one".into()]);
        sheet.row(vec!["dd".into(), "12.0%".into(), "x".into(), "*".into()]);
        let text = sheet.text(Columns::default());
        assert_eq!(text, "ID       OWNS  NAME\naabbcc   1.9%  one\ndd      12.0%  x *\n");
        let bare = sheet.text(Columns { no_header: true, long: false });
        assert!(text.ends_with(&bare) && bare.lines().count() == 2);
    }

    #[test]
    fn spans_are_short() {
        assert_eq!(rtt(None), "-");
        assert_eq!(rtt(Some(210)), "0.21ms");
        assert_eq!(rtt(Some(34_500)), "34ms");
        assert_eq!(took(560), "0.56 ms");
        assert_eq!(took(2_500_000), "2.5 s");
        assert_eq!(share(0.0194), "1.9%");
        assert_eq!((count(1, "node"), count(2, "node")), ("1 node".into(), "2 nodes".into()));
    }
}
