//! `cargo xtask fuzz`: every fuzz target for a while, from a fixed seed.

use std::path::{Path, PathBuf};

use crate::cargo::Call;

const TARGETS: &str = "fuzz/fuzz_targets";

/// Runs every target in turn, up to the first that finds something.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<(), String> {
    let targets = targets(&root.join(TARGETS))?;
    if !Call::new("fuzz --version").succeeds(root) {
        return Err("cargo fuzz is not installed; `cargo install cargo-fuzz` does that".into());
    }
    targets.iter().try_for_each(|target| call(target, seconds).run(root))
}

fn call(target: &str, seconds: u64) -> Call {
    let (time, seed) = (format!("-max_total_time={seconds}"), "-seed=1");
    // Sanitizers are unstable flags; this lets the stable compiler take them.
    Call::new("fuzz run").args([target, "--", &time, seed]).env("RUSTC_BOOTSTRAP", "1")
}

/// Returns the names of the targets in a folder, of which there must be one.
fn targets(folder: &Path) -> Result<Vec<String>, String> {
    let fail = |error: std::io::Error| format!("{TARGETS}: {error}");
    let paths = std::fs::read_dir(folder).map_err(fail)?.map(|entry| Ok(entry?.path()));
    let names = names(&paths.collect::<Result<Vec<PathBuf>, _>>().map_err(fail)?);
    if names.is_empty() { Err(format!("{TARGETS} holds no target")) } else { Ok(names) }
}

/// Returns the names of the sources among some files, in a fixed order.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let sources = paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> =
        sources.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_runs_for_a_while_from_a_fixed_seed() {
        let expected = "RUSTC_BOOTSTRAP=1 cargo fuzz run wire -- -max_total_time=5 -seed=1";
        assert_eq!(call("wire", 5).to_string(), expected);
    }

    #[test]
    fn targets_are_the_sources_in_order_and_there_must_be_one() {
        assert_eq!(names(&["b/wire.rs", "b/node.rs", "b/notes.md"].map(PathBuf::from)), ["node", "wire"]);
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(targets(here), Err("fuzz/fuzz_targets holds no target".into()));
        assert!(targets(&here.join("nowhere")).unwrap_err().starts_with("fuzz/fuzz_targets: "));
    }
}
