//! Tools the tests need beyond Rust. What is missing is installed where that can be done by itself; what stays missing
//! fails the run, since a test that is left out shows nothing.

use std::path::Path;
use std::process::{Command, Stdio};

/// What the test of clocks that are set preloads.
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// What a tool is called in Debian, how to see whether it is there, and what it is for.
type Tool = (&'static str, fn() -> bool, &'static str);

const TOOLS: [Tool; 4] = [
    ("faketime", has_faketime, "sets the clock of a node"),
    ("strace", has_strace, "shows that a write was synced before it was acknowledged"),
    ("iproute2", || has_program("ip"), "puts nodes on a network of namespaces"),
    ("nftables", || has_program("nft"), "drops packets between nodes"),
];

/// Sees that everything is there.
pub(crate) fn ensure() -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    TOOLS.iter().try_for_each(ensure_one)
}

fn ensure_one((package, is_there, what): &Tool) -> Result<(), String> {
    let line = format!("apt-get install -y --no-install-recommends {package}");
    // The list of packages may have to be fetched first.
    for line in [&line, "apt-get update", &line] {
        if is_there() || (install(line) && is_there()) {
            return Ok(());
        }
    }
    Err(format!("{package} is missing, which {what}, and could not be installed; on Debian: {line}"))
}

fn has_faketime() -> bool {
    FAKETIME.iter().any(|path| Path::new(path).exists())
}

fn has_strace() -> bool {
    // Not only there: it has to be allowed to trace.
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Says whether there is a program of this name. It may stand where only root looks.
pub(crate) fn has_program(name: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|folder| Path::new(folder).join(name).exists())
}

fn install(line: &str) -> bool {
    println!("$ {line}");
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    Command::new(program).args(words).status().is_ok_and(|status| status.success())
}
