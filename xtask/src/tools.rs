//! Tools the tests need beyond Rust. What is missing is installed where that can be done by itself; what stays missing
//! fails the run, since a test that is left out shows nothing.

use std::path::Path;
use std::process::Command;

/// What the test of clocks that are set preloads.
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Sees that everything is there.
pub(crate) fn ensure() -> Result<(), String> {
    if !cfg!(target_os = "linux") || has_faketime() {
        return Ok(());
    }
    for line in ["apt-get install -y --no-install-recommends faketime", "apt-get update"] {
        // The list of packages may have to be fetched first.
        if install(line) && has_faketime() {
            return Ok(());
        }
    }
    if install("apt-get install -y --no-install-recommends faketime") && has_faketime() {
        return Ok(());
    }
    Err("libfaketime is missing, and could not be installed; on Debian: apt-get install faketime".into())
}

fn has_faketime() -> bool {
    FAKETIME.iter().any(|path| Path::new(path).exists())
}

fn install(line: &str) -> bool {
    println!("$ {line}");
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    Command::new(program).args(words).status().is_ok_and(|status| status.success())
}
