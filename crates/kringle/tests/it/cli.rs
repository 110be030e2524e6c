//! What the command line promises whatever the command: help, refusals, exit codes, manners.

use std::io::Write;
use std::path::PathBuf;

use crate::{command, kringle, kringle_with_input};

/// A file of its own for a test, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: &str) -> Scratch {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, content).expect("the build's own directory is writable");
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("build directories have plain names")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_version_is_told_in_every_way() {
    let version = format!("kringle {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(kringle(&["version"]).succeeded(), version);
    assert_eq!(kringle(&["--version"]).succeeded(), version);
    let json = kringle(&["version", "--json"]).json();
    assert_eq!(json["schema"], "kringle.version/1");
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    let commit = json["commit"].as_str().expect("the commit is text");
    assert!(commit == "unknown" || commit.chars().all(|c| c.is_ascii_hexdigit()), "{commit}");
}

#[test]
fn help_shows_examples_and_only_what_exists() {
    let help = kringle(&["--help"]).succeeded();
    for command in ["start", "join", "leave", "stop", "status", "ring", "peers", "node", "table", "lookup"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    for command in ["trace", "route", "events", "token", "config", "explain", "verify", "sim", "version"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    for command in ["put", "get", "add", "del", "ttl", "incr", "keys", "place", "export", "import", "bench"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    assert!(kringle(&["table", "--help"]).succeeded().contains("kringle table --example lecture"));
    assert!(kringle(&["route", "--help"]).succeeded().contains("kringle route --example 65b23c05"));
    assert_eq!(kringle(&[]).code, Some(2));
    assert_eq!(kringle(&["frobnicate"]).code, Some(2));
}

#[test]
fn files_are_read_from_disk_as_from_a_pipe() {
    let ring = "# mine\n10233102\n\n10233033\n31203203\n";
    let file = Scratch::new("ring.txt", ring);
    let from_disk = kringle(&["table", "--example", "2", "8", file.path()]).succeeded();
    assert_eq!(kringle_with_input(&["table", "--example", "2", "8", "-"], ring).succeeded(), from_disk);
    assert!(from_disk.contains("-3-1203203"), "{from_disk}");
}

#[test]
fn every_mistake_is_named_with_its_place() {
    let file = Scratch::new("mistakes.txt", "10233102\n10233033\n10233033\n");
    let said = kringle(&["table", "--example", "2", "8", file.path()]).refused();
    assert!(said.contains("mistakes.txt:3: 10233033 is on line 2 already"), "{said}");
    let cases = [
        ("10233102\n1023310\n", "stdin:2: an id has 8 digits, this has 7"),
        ("10233102\n10233104\n", "stdin:2: digit 8, \"4\", is not possible"),
        ("10233102\n3120320x\n", "stdin:2: digit 8, \"x\", is not possible"),
        ("10233102\n31203203\n10233102\n", "stdin:3: 10233102 is the node itself (line 1)"),
        ("# nobody\n", "stdin: there is no id in it"),
    ];
    for (input, wanted) in cases {
        let said = kringle_with_input(&["table", "--example", "2", "8", "-"], input).refused();
        assert!(said.starts_with(&format!("kringle: {wanted}")), "{said}");
        let args = ["route", "--example", "10233102", "--table", "-", "--base", "2", "--digits", "8"];
        assert_eq!(kringle_with_input(&args, input).refused(), said);
    }
}

#[test]
fn impossible_arguments_are_refused_with_a_way_out() {
    let cases: [(&[&str], &str, &str); 10] = [
        (
            &["table", "--example", "2", "8", "no/such/file"],
            "no/such/file: cannot read it",
            "readable text file",
        ),
        (&["table", "--example", "0", "8", "-"], "b cannot be \"0\"", "1 to 8"),
        (&["table", "--example", "9", "8", "-"], "b cannot be \"9\"", "1 to 8"),
        (&["table", "--example", "four", "8", "-"], "b cannot be \"four\"", "1 to 8"),
        (&["table", "--example", "4", "33", "-"], "cannot have \"33\" digits", "1 to 32"),
        (&["table", "--example", "7", "0", "-"], "cannot have \"0\" digits", "1 to 19"),
        (&["table", "--example", "wendy"], "there is no example \"wendy\"", "--example lecture"),
        (&["table", "--example", "2", "8"], "needs all three values", "--example 2 8 ring.txt"),
        (&["table", "--example", "lecture", "--leaf-set", "4"], "a fixed picture", "Leave them out"),
        (&["route", "--example", "65b23c0"], "key \"65b23c0\": an id has 8 digits, this has 7", "base 16"),
    ];
    for (args, what, remedy) in cases {
        let said = kringle(args).refused();
        let (first, second) = said.split_once('\n').expect("two lines");
        assert!(first.contains(what) && second.contains(remedy), "{said}");
    }
    // These are clap's own words; the code is the same.
    for args in [
        &["table", "--example", "2", "8", "-", "--leaf-set", "7"][..],
        &["table", "--example", "2", "8", "-", "--neighbourhood", "513"],
        &["table", "--example"],
        &["route", "--example", "--table", "ring.txt"],
        &["route", "--example", "10", "--base", "2"],
    ] {
        assert_eq!(kringle(args).code, Some(2), "{args:?}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = command(&["table", "--example", "2", "8", "-"]).spawn().unwrap();
    // The child waits for its input, so it writes only after its reader is gone.
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(b"10233102\n31203203\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&["table", "--example", "lecture"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to standard output"));
}
