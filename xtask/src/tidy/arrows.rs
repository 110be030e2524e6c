//! Dependencies point one way: between crates, and between the modules of the core.

use std::collections::BTreeSet;

use super::manifest::Manifest;
use super::tree::Tree;
use super::{Problem, has_word};

/// Which of our packages each may depend on, in tests too. A new crate says here where it stands.
const ALLOWED: [(&str, &[&str]); 6] = [
    ("kringle-core", &[]),
    ("kringle-runtime", &["kringle-core"]),
    ("kringle-front", &["kringle-core", "kringle-runtime"]),
    ("kringle-sim", &["kringle-core"]),
    ("kringle-check", &["kringle-core", "kringle-sim"]),
    ("kringle", &["kringle-core", "kringle-sim", "kringle-check", "kringle-runtime", "kringle-front"]),
];

/// The package that has no dependencies at all.
const ALONE: &str = "xtask";

const CORE: &str = "crates/core/src/lib.rs";

/// Whatever is built on the overlay: it asks and is answered, it is never named below.
const ABOVE_THE_OVERLAY: [&str; 3] = ["store", "pubsub", "node"];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = between_crates(tree);
    for (path, text) in tree.ending(".rs") {
        if path.starts_with("crates/core/src/overlay/") {
            for (line, module) in modules_named(text) {
                if ABOVE_THE_OVERLAY.contains(&module) {
                    problems.push(Problem::new(
                        path,
                        line,
                        format!("the overlay does not know crate::{module}, which is built on it"),
                    ));
                }
            }
        }
        if path.starts_with("crates/core/src/") && path.ends_with("/message.rs") {
            let lines = text.lines().enumerate().filter(|(_, line)| has_word(line, "Ctx"));
            problems.extend(lines.map(|(at, _)| {
                Problem::new(path, at + 1, "messages are data: whatever takes a Ctx belongs to the layer")
            }));
        }
    }
    problems.extend(no_std(tree));
    problems
}

/// The first thing the core says after its comments is that it does without the standard library.
pub(super) fn no_std(tree: &Tree) -> Vec<Problem> {
    let Some(text) = tree.text(CORE) else { return vec![Problem::missing(CORE)] };
    let is_comment = |line: &str| line.trim().is_empty() || line.starts_with("//");
    let first = text.lines().enumerate().find(|(_, line)| !is_comment(line));
    match first {
        Some((_, "#![no_std]")) => Vec::new(),
        found => {
            let line = found.map_or(1, |(at, _)| at + 1);
            vec![Problem::new(CORE, line, "the core starts with #![no_std], after its documentation")]
        }
    }
}

fn between_crates(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let manifests: Vec<(&str, Manifest)> =
        tree.manifests().map(|(path, text)| (path, Manifest::parse(text))).collect();
    let ours: BTreeSet<&str> =
        manifests.iter().filter_map(|(_, manifest)| manifest.package.as_deref()).collect();
    for (path, manifest) in &manifests {
        let Some(package) = manifest.package.as_deref() else { continue };
        if package == ALONE {
            problems.extend(manifest.dependencies.iter().map(|dependency| {
                let message = format!("{package} uses the standard library only, not {}", dependency.name);
                Problem::new(path, dependency.line, message)
            }));
        }
        if !path.starts_with("crates/") {
            // The fuzz targets are nobody's dependency and use whatever they feed.
            continue;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == package) else {
            let message =
                format!("no rule says what {package} may depend on: add one to the arrows of xtask");
            problems.push(Problem::new(path, 1, message));
            continue;
        };
        for dependency in &manifest.dependencies {
            let name = dependency.name.as_str();
            if (dependency.by_path || ours.contains(name)) && !allowed.contains(&name) {
                let message = format!("{package} must not depend on {name}");
                problems.push(Problem::new(path, dependency.line, message));
            }
        }
    }
    problems
}

/// Returns every module of the crate's root that a source names, with its line: `crate::a` and `crate::{a, b::c}`.
fn modules_named(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, root) in text.match_indices("crate::") {
        let after = at + root.len();
        let starts = if text[after..].starts_with('{') { members(text, after) } else { vec![after] };
        for start in starts {
            let rest = text[start..].trim_start();
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest);
            let line = 1 + text[..text.len() - rest.len()].matches('\n').count();
            found.push((line, name));
        }
    }
    found
}

/// Returns where the members of a group of imports begin; the group's brace is at `open`.
fn members(text: &str, open: usize) -> Vec<usize> {
    let (mut starts, mut depth) = (Vec::new(), 0);
    for (at, c) in text[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match (c, depth) {
            ('{' | ',', 1) => starts.push(open + at + 1),
            (_, 0) => break,
            _ => {}
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_in_groups_and_paths() {
        let text = "use crate::store::Key;\nuse crate::{\n    id::{Id, node},\n    pubsub,\n};\nlet x = crate::node_id();";
        assert_eq!(modules_named(text), [(1, "store"), (3, "id"), (4, "pubsub"), (5, ""), (6, "node_id")]);
    }
}
