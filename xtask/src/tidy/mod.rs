//! `cargo xtask tidy`: style as a test. Each module holds one family of rules.
//!
//! The rules look at a [`Tree`], the repository read into memory, so that tests can plant a violation of each.

mod arrows;
mod dependencies;
mod documents;
mod examples;
mod lineage;
mod links;
mod manifest;
mod markdown;
mod source;
mod tree;

use std::fmt;
use std::path::Path;

use tree::Tree;

/// Reports every broken rule.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let mut problems = check(&tree);
    problems.extend(examples::check(&tree, &mut |words| examples::run_kringle(root, words)));
    verdict(&problems)
}

/// Reports if the core is not declared to do without the standard library.
pub(crate) fn check_no_std(root: &Path) -> Result<(), String> {
    verdict(&arrows::no_std(&Tree::read(root)?))
}

/// All rules that need nothing but the files.
fn check(tree: &Tree) -> Vec<Problem> {
    let rules =
        [arrows::check, source::check, dependencies::check, lineage::check, documents::check, links::check];
    rules.iter().flat_map(|rule| rule(tree)).collect()
}

fn verdict(problems: &[Problem]) -> Result<(), String> {
    for problem in problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err("1 problem".into()),
        count => Err(format!("{count} problems")),
    }
}

/// A broken rule, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    path: String,
    /// Lines are counted from 1. What is missing altogether is reported at line 1.
    line: usize,
    message: String,
}

impl Problem {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Problem {
        Problem { path: path.into(), line, message: message.into() }
    }

    fn missing(path: &str) -> Problem {
        Problem::new(path, 1, "this file is missing")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Says whether `word` stands in `line` on its own, not as part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(part_of_name) && !line[at + word.len()..].starts_with(part_of_name)
    })
}

#[cfg(test)]
mod tests;
