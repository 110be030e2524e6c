//! The real binary, run as people and scripts run it.

mod agreement;
mod brute_force;
mod chord;
mod cli;
mod demo;
mod examples;
mod failures;
#[path = "../../../front/tests/it/fake.rs"]
mod fake;
mod library;
mod lineages;
mod node;
mod processes;
mod route;
mod sim;
mod store;
mod table;
mod verify;

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What a run left behind.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert_eq!(self.stderr, "");
        self.stdout
    }

    /// Checks for the two lines every failure of ours has, and returns them.
    fn refused(self) -> String {
        assert_eq!(self.code, Some(2), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "data never comes with a refusal");
        assert!(self.stderr.starts_with("kringle: "), "{}", self.stderr);
        assert_eq!(self.stderr.lines().count(), 2, "one line of cause, one of remedy: {}", self.stderr);
        self.stderr
    }

    fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.succeeded()).expect("--json prints JSON")
    }
}

fn kringle(args: &[&str]) -> Run {
    kringle_with_input(args, "")
}

fn kringle_with_input(args: &[&str], input: &str) -> Run {
    let mut child = command(args).spawn().expect("the binary was built for this test");
    // A run that refuses its arguments does not read: then nobody takes the input, which is fine.
    let _ = child.stdin.take().expect("stdin is a pipe").write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("the child can be waited for");
    let text = |bytes| String::from_utf8(bytes).expect("all output is UTF-8");
    Run { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kringle"));
    // What is set around the tests must not change them.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KRINGLE_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
