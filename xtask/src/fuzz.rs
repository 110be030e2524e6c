//! `cargo xtask fuzz`: every fuzz target for a while, from a fixed seed.

use std::path::Path;

use crate::cargo::Call;

const MANIFEST: &str = "fuzz/Cargo.toml";

/// Runs every target in turn, up to the first that finds something.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<(), String> {
    let manifest =
        std::fs::read_to_string(root.join(MANIFEST)).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let targets = targets(&manifest);
    if targets.is_empty() {
        return Err(format!("{MANIFEST} names no target"));
    }
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

/// Returns the names of the binaries a manifest declares. Not every source beside them is one: some share code.
fn targets(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_binary = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_binary = line == "[[bin]]";
        } else if in_binary && let Some(name) = line.strip_prefix("name = ") {
            names.push(name.trim_matches('"').to_owned());
        }
    }
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
    fn targets_are_the_binaries_of_the_manifest() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"wire\"\npath = \"x\"\n\n[[bin]]\nname = \"node\"\n";
        assert_eq!(targets(manifest), ["wire", "node"]);
        assert_eq!(targets("[package]\nname = \"fuzz\"\n"), Vec::<String>::new());
    }

    #[test]
    fn a_missing_manifest_is_named() {
        let nowhere = Path::new(env!("CARGO_MANIFEST_DIR")).join("nowhere");
        assert!(run(&nowhere, 1).unwrap_err().starts_with("fuzz/Cargo.toml: "));
    }
}
