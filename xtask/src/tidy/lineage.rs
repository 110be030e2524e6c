//! `docs/lineage.md` has every row of every system we descend from, and each row tells the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::Problem;
use super::markdown::{self, Document, Row};
use super::tree::Tree;

pub(super) const FILE: &str = "docs/lineage.md";

/// The rows of each family, by number.
const ROWS: [(&str, &[RangeInclusive<u8>]); 7] = [
    ("OP", &[1..=34]),
    ("ZH", &[1..=31]),
    ("WE", &[1..=13, 20..=28, 30..=34, 40..=47, 50..=57, 60..=63, 70..=73]),
    ("LP", &[1..=19]),
    ("FP", &[1..=18, 20..=33, 40..=51]),
    ("BA", &[1..=21]),
    ("VC", &[1..=40]),
];

/// Returns the key of every row there must be.
pub(super) fn expected() -> impl Iterator<Item = String> {
    let numbers = |ranges: &'static [RangeInclusive<u8>]| ranges.iter().cloned().flatten();
    ROWS.into_iter()
        .flat_map(move |(family, ranges)| numbers(ranges).map(move |n| format!("{family}-{n:02}")))
}

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let Some(text) = tree.text(FILE) else { return vec![Problem::missing(FILE)] };
    let functions = tree.functions();
    let wanted: BTreeSet<String> = expected().collect();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    let rows = Document::parse(text).rows();
    for row in &rows {
        let key = row.cells.first().copied().unwrap_or_default();
        let mut report = |message| problems.push(Problem::new(FILE, row.line, message));
        if !wanted.contains(key) {
            report(format!("no family has a row {key}"));
        } else if let Some(first) = seen.insert(key, row.line) {
            report(format!("{key} stands in line {first} already"));
        } else if let Err(why) = judge(row, &functions) {
            report(format!("{key}: {why}"));
        }
    }
    let missing = wanted.iter().filter(|key| !seen.contains_key(key.as_str()));
    problems.extend(missing.map(|key| Problem::new(FILE, 1, format!("{key} is missing"))));
    problems
}

/// Says what is wrong with a row.
fn judge(row: &Row<'_>, functions: &BTreeSet<&str>) -> Result<(), String> {
    let [_, what, status, proof] = row.cells.as_slice() else {
        return Err(format!("{} cells instead of row, what, status, test or reason", row.cells.len()));
    };
    let explained = markdown::without_code(proof).contains(char::is_alphabetic);
    if what.is_empty() {
        return Err("it does not say what it is about".into());
    }
    match *status {
        "done" | "different" => {
            let unknown = markdown::code_spans(proof).find(|name| !functions.contains(name));
            if let Some(name) = unknown {
                return Err(format!("no function is called `{name}`"));
            }
            if markdown::code_spans(proof).next().is_none() {
                return Err("no test is named".into());
            }
            if *status == "different" && !explained {
                return Err("it does not say how and why it is different".into());
            }
        }
        "left out" if !explained => return Err("it does not say why it is left out".into()),
        "not yet" if !proof.contains("waits for ") => return Err("it does not say what it waits for".into()),
        "left out" | "not yet" => {}
        _ => return Err(format!("{status:?} is none of done, different, left out, not yet")),
    }
    Ok(())
}
