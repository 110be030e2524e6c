//! `cargo xtask test`: everything a change has to pass, cheapest first.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::cargo::Call;
use crate::{faults, tidy, tools};

type Step = (&'static str, fn(&Path) -> Result<(), String>);

const STEPS: [Step; 9] = [
    ("tools", |_| tools::ensure()),
    ("format", |root| Call::new("fmt --all --check").run(root)),
    ("lints", |root| Call::new("clippy --workspace --all-targets --locked -- -D warnings").run(root)),
    ("core alone", |root| {
        // On its own: in a build of the workspace its neighbours would switch features on for it.
        tidy::check_no_std(root)?;
        Call::new("build -p kringle-core --locked --lib").run(root)
    }),
    // libFuzzer's instrumentation wants unstable flags; compiling must not need another toolchain for that.
    ("fuzz targets", |root| {
        Call::new("check --locked --manifest-path fuzz/Cargo.toml").env("RUSTC_BOOTSTRAP", "1").run(root)
    }),
    // With all tools there, a test that leaves something out for want of one is a failure.
    ("tests", |root| {
        Call::new("test --workspace --features kringle/checks --locked")
            .env("KRINGLE_ALL_TOOLS", "1")
            .run(root)
    }),
    ("faults", |root| {
        // With the program that the tests were made with: its features differ from what a build of its own would have.
        println!("$ cargo xtask faults --sample --built");
        faults::run(root, &["--sample".into(), "--built".into()])
    }),
    ("documentation", |root| {
        Call::new("doc --workspace --no-deps --locked").env("RUSTDOCFLAGS", "-D warnings").run(root)
    }),
    ("tidy", |root| {
        println!("$ cargo xtask tidy");
        tidy::run(root)
    }),
];

/// Runs every step, up to the first that fails.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let start = Instant::now();
    run_steps(&STEPS, root)?;
    println!("all checks passed in {}", clock(start.elapsed()));
    // The line that tools which count look for; each step is a check, and the first that fails ends the run.
    println!("checks: {} passed, 0 failed", STEPS.len());
    Ok(())
}

fn run_steps(steps: &[Step], root: &Path) -> Result<(), String> {
    for (name, step) in steps {
        let start = Instant::now();
        let result = step(root);
        let time = clock(start.elapsed());
        result.map_err(|why| format!("{name} failed after {time}: {why}"))?;
        println!("{name}: {time}\n");
    }
    Ok(())
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_the_run_and_is_named() {
        let steps: [Step; 3] = [
            ("one", |_| Ok(())),
            ("two", |_| Err("it broke".into())),
            ("three", |_| panic!("a step after the failed one ran")),
        ];
        assert_eq!(run_steps(&steps, Path::new(".")), Err("two failed after 0:00: it broke".into()));
        assert_eq!(run_steps(&steps[..1], Path::new(".")), Ok(()));
    }

    #[test]
    fn times_are_minutes_and_seconds() {
        assert_eq!(clock(Duration::from_millis(9_900)), "0:09");
        assert_eq!(clock(Duration::from_secs(754)), "12:34");
    }
}
