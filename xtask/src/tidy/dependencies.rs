//! Every dependency has its reason, and every reason its dependency, in `docs/dependencies.md`.

use std::collections::{BTreeMap, BTreeSet};

use super::Problem;
use super::manifest::Manifest;
use super::markdown::Document;
use super::tree::Tree;

pub(super) const FILE: &str = "docs/dependencies.md";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let Some(text) = tree.text(FILE) else { return vec![Problem::missing(FILE)] };
    let rows = Document::parse(text).rows();
    let explained: BTreeMap<&str, usize> =
        rows.iter().filter_map(|row| Some((row.cells.first()?.trim_matches('`'), row.line))).collect();
    let used = used(tree);
    let mut problems = Vec::new();
    for (name, (path, line)) in &used {
        if !explained.contains_key(name.as_str()) {
            problems.push(Problem::new(path, *line, format!("{name} has no row in {FILE}")));
        }
    }
    for (name, line) in explained {
        if !used.contains_key(name) {
            problems.push(Problem::new(FILE, line, format!("no manifest names {name}")));
        }
    }
    problems
}

/// Returns the dependencies that are not ours, with the place where each is named first.
fn used(tree: &Tree) -> BTreeMap<String, (&str, usize)> {
    let manifests: Vec<(&str, Manifest)> =
        tree.manifests().map(|(path, text)| (path, Manifest::parse(text))).collect();
    let ours: BTreeSet<&str> =
        manifests.iter().filter_map(|(_, manifest)| manifest.package.as_deref()).collect();
    let mut used = BTreeMap::new();
    for (path, manifest) in &manifests {
        for dependency in &manifest.dependencies {
            if !dependency.by_path && !ours.contains(dependency.name.as_str()) {
                used.entry(dependency.name.clone()).or_insert((*path, dependency.line));
            }
        }
    }
    used
}
