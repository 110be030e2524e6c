//! Which documents there are, how long they may be, and what they must say.

use super::Problem;
use super::tree::Tree;

/// What continuous integration runs.
pub(super) const CI: &str = ".ci/run";

const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const FUZZ: &str = "fuzz/Cargo.toml";

const REQUIRED: [&str; 7] =
    [README, ARCHITECTURE, "CONTRIBUTING.md", "CHANGELOG.md", "docs/decisions.md", CI, FUZZ];

/// Documents that stay short enough to be read, with the number of lines they stay under.
const LINES_BELOW: [(&str, usize); 2] = [(README, 250), (ARCHITECTURE, 300)];

/// The one command that checks everything.
const TEST: &str = "cargo xtask test";

/// How the README starts the product.
const RUN: &str = "cargo run --release -- ";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        REQUIRED.iter().filter(|path| !tree.contains(path)).map(|path| Problem::missing(path)).collect();
    for (path, below) in LINES_BELOW {
        let lines = tree.text(path).map_or(0, |text| text.lines().count());
        if lines >= below {
            problems.push(Problem::new(path, below, format!("{lines} lines, it must stay under {below}")));
        }
    }
    if let Some(readme) = tree.text(README) {
        for command in [TEST, RUN] {
            if !readme.contains(command) {
                problems.push(Problem::new(README, 1, format!("it does not name `{}`", command.trim())));
            }
        }
    }
    if let Some(ci) = tree.text(CI)
        && !ci.lines().any(|line| !line.trim_start().starts_with('#') && line.contains(TEST))
    {
        problems.push(Problem::new(CI, 1, format!("it does not call `{TEST}`")));
    }
    problems
}
