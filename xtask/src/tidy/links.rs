//! Relative links in Markdown lead somewhere.

use super::Problem;
use super::markdown::{self, Document};
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, prose) in Document::parse(text).prose {
            for target in targets(&markdown::without_code(prose)) {
                let file = target.split('#').next().unwrap_or_default();
                if is_relative(target) && !resolve(path, file).is_some_and(|found| tree.contains(&found)) {
                    problems.push(Problem::new(path, line, format!("the link to {target} leads nowhere")));
                }
            }
        }
    }
    problems
}

/// Returns the targets of `[text](target "title")` and `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let all = inline.chain(definition.map(|(_, target)| target));
    all.filter_map(|target| target.split_whitespace().next()).collect()
}

/// Says whether a link points into the repository: not into the same page, and not to another place by its scheme.
fn is_relative(target: &str) -> bool {
    let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
    !target.starts_with('#') && (scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// Returns the path a link leads to, or nothing if it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    // A leading slash means the root, for the readers we know of.
    let folder =
        if target.starts_with('/') { "" } else { from.rsplit_once('/').map_or("", |(folder, _)| folder) };
    let mut path: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()?),
            part => path.push(part),
        }
    }
    Some(path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_and_resolved() {
        let line = "see [a](b.md), ![c](d/e.svg \"f\") and [g](https://h.example/i)";
        assert_eq!(targets(line), ["b.md", "d/e.svg", "https://h.example/i"]);
        assert_eq!(targets("[j]: k.md"), ["k.md"]);
        assert!(is_relative("b.md#c") && is_relative("../b.md"));
        assert!(
            !is_relative("#b") && !is_relative("https://h.example") && !is_relative("mailto:a@h.example")
        );
        assert_eq!(resolve("docs/a.md", "../b/./c.md").as_deref(), Some("b/c.md"));
        assert_eq!(resolve("docs/a.md", "/b.md").as_deref(), Some("b.md"));
        assert_eq!(resolve("a.md", "../b.md"), None);
        assert_eq!(resolve("docs/a.md", "").as_deref(), Some("docs"));
    }
}
