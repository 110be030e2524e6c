//! Rules for every source file.

use super::Problem;
use super::tree::Tree;

/// Marks of unfinished work, put together so that this file does not hold them.
const MARKS: [&str; 5] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("#[ig", "nore"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Past this many lines there is a second noun in a file.
const LINES_MAX: usize = 800;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".rs") {
        for (at, line) in text.lines().enumerate() {
            let marks = MARKS.iter().filter(|mark| line.contains(**mark));
            problems.extend(marks.map(|mark| Problem::new(path, at + 1, format!("unfinished: {mark}"))));
        }
        let lines = text.lines().count();
        if lines > LINES_MAX {
            let message = format!("{lines} lines, at most {LINES_MAX}: look for a second noun in it");
            problems.push(Problem::new(path, LINES_MAX + 1, message));
        }
    }
    problems
}
