//! The repository in memory: the names of all files, and the text of those that rules read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders of build products and fuzzing finds; like hidden folders they are not part of the repository.
const SKIPPED: [&str; 3] = ["target", "corpus", "artifacts"];

/// Hidden folders that are part of it.
const HIDDEN: [&str; 2] = [".cargo", ".ci"];

/// What rules look at. Paths are relative to the root and written with slashes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the repository. It is walked, not asked of git: an exported copy has to pass as well.
    pub(super) fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type().map_err(fail)?.is_dir() {
                let hidden = name.starts_with('.') && !HIDDEN.contains(&name.as_str());
                if !hidden && !SKIPPED.contains(&name.as_str()) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else {
                let text = match is_read(&path) {
                    true => {
                        Some(fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?)
                    }
                    false => None,
                };
                self.files.insert(path, text);
            }
        }
        Ok(())
    }

    /// Returns the text of a file, if there is such a file and rules read its kind.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Returns path and text of all files whose name ends like this.
    pub(super) fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let texts = self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)));
        texts.filter(move |(path, _)| path.ends_with(end))
    }

    /// Returns path and text of the manifests of all packages, and of the workspace.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ending("Cargo.toml")
    }

    /// Says whether there is a file or folder of this name; the empty name is the root.
    pub(super) fn contains(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// Returns the names of all functions.
    pub(super) fn functions(&self) -> BTreeSet<&str> {
        let lines = self.ending(".rs").flat_map(|(_, text)| text.lines());
        lines.filter_map(function_name).collect()
    }
}

#[cfg(test)]
impl Tree {
    /// Puts a file in place of whatever has that name.
    pub(super) fn put(&mut self, path: &str, text: &str) {
        self.files.insert(path.into(), is_read(path).then(|| text.into()));
    }

    /// Takes a file away.
    pub(super) fn remove(&mut self, path: &str) {
        self.files.remove(path);
    }
}

fn is_read(path: &str) -> bool {
    [".rs", ".md", "Cargo.toml"].iter().any(|end| path.ends_with(end)) || path == super::documents::CI
}

/// Returns the name of the function that is declared in a line.
fn function_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("//") {
        return None;
    }
    let (before, after) = line.split_once("fn ")?;
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (before.is_empty() || before.ends_with(' ')).then_some(&after[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").unwrap().contains("this_repository_can_be_read"));
        assert!(tree.functions().contains("this_repository_can_be_read"));
        assert!(tree.contains("") && tree.contains("xtask") && tree.contains("xtask/src/main.rs"));
        assert!(!tree.contains("xtas") && !tree.contains("target") && !tree.contains(".git"));
        assert_eq!(tree.text("Cargo.lock"), None, "present, but of no kind that rules read");
        assert!(tree.contains("Cargo.lock"));
    }

    #[test]
    fn functions_are_found_by_their_declaration() {
        assert_eq!(function_name("    pub(crate) const fn leaf_set(&self) {"), Some("leaf_set"));
        assert_eq!(function_name("fn generic<T>(t: T)"), Some("generic"));
        assert_eq!(function_name("// fn gone()"), None);
        assert_eq!(function_name("let often = 3;"), None);
        assert_eq!(function_name("call(offn (x))"), None);
    }
}
