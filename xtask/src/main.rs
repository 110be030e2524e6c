//! The chores of this repository: `cargo xtask <chore>`.
//!
//! Standard library only: the checks must build in a few seconds, before and without anything they check.

mod cargo;
mod faults;
mod fuzz;
mod races;
mod suite;
mod tidy;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use cargo::Call;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test                everything a change has to pass
  test races          the races on record: rule, result with it and without it
  tidy                style as a test, the examples of README.md included
  bench NAME [ARG]..  one benchmark, with its own arguments; NAME is one of: core, leases, node, store
  faults [ROW]..      real nodes with real faults on a network of namespaces; --list lists the rows, --help the options
  fuzz [SECONDS]      every fuzz target for that long (60 unless told), from a fixed seed
";

/// Benchmarks by name: the package and the example in it that holds each.
const BENCHMARKS: [(&str, &str, &str); 4] = [
    ("core", "kringle-sim", "bench_core"),
    ("leases", "kringle-sim", "bench_leases"),
    ("node", "kringle-runtime", "bench_node"),
    ("store", "kringle-runtime", "bench_store"),
];

const FUZZ_SECONDS: u64 = 60;

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let chore = match parse(&args) {
        Ok(chore) => chore,
        Err(why) => {
            eprint!("{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match root().and_then(|root| match chore {
        Chore::Test => suite::run(&root),
        Chore::Races => races::run(&root),
        Chore::Tidy => tidy::run(&root),
        Chore::Bench { package, example, args } => bench(package, example, args).run(&root),
        Chore::Faults { args } => faults::run(&root, args),
        Chore::Fuzz { seconds } => fuzz::run(&root, seconds),
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Chore<'a> {
    Test,
    Races,
    Tidy,
    Bench { package: &'static str, example: &'static str, args: &'a [String] },
    Faults { args: &'a [String] },
    Fuzz { seconds: u64 },
}

fn parse(args: &[String]) -> Result<Chore<'_>, String> {
    let Some((chore, rest)) = args.split_first() else { return Err("no chore given".into()) };
    match (chore.as_str(), rest) {
        ("test", []) => Ok(Chore::Test),
        ("test", [part]) if part == "races" => Ok(Chore::Races),
        ("tidy", []) => Ok(Chore::Tidy),
        ("bench", [name, args @ ..]) => match BENCHMARKS.iter().find(|(known, ..)| known == name) {
            Some(&(_, package, example)) => Ok(Chore::Bench { package, example, args }),
            None => Err(format!("no benchmark is called {name:?}")),
        },
        ("bench", []) => Err("bench needs the name of a benchmark".into()),
        ("faults", args) => Ok(Chore::Faults { args }),
        ("fuzz", []) => Ok(Chore::Fuzz { seconds: FUZZ_SECONDS }),
        ("fuzz", [seconds]) => match seconds.parse() {
            // libFuzzer takes zero for "for ever".
            Ok(seconds) if seconds > 0 => Ok(Chore::Fuzz { seconds }),
            _ => Err(format!("fuzz needs a number of seconds, not {seconds:?}")),
        },
        ("test" | "tidy" | "fuzz", _) => Err(format!("too many arguments for {chore}")),
        _ => Err(format!("no chore is called {chore:?}")),
    }
}

fn bench(package: &str, example: &str, args: &[String]) -> Call {
    Call::new("run --release --locked -p").args([package, "--example", example, "--"]).args(args)
}

/// Returns the root of the repository. Asked of cargo when running, so that no path of the building machine is kept.
fn root() -> Result<PathBuf, String> {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = xtask.as_deref().and_then(|xtask| xtask.parent());
    root.map(PathBuf::from).ok_or_else(|| "start this with `cargo xtask`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<String, String> {
        let args: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(&args).map(|chore| format!("{chore:?}"))
    }

    #[test]
    fn every_chore_is_understood() {
        assert_eq!(parse_line("test"), Ok("Test".into()));
        assert_eq!(parse_line("test races"), Ok("Races".into()));
        assert_eq!(parse_line("tidy"), Ok("Tidy".into()));
        let bench = r#"Bench { package: "kringle-sim", example: "bench_core", args: ["--nodes", "5"] }"#;
        assert_eq!(parse_line("bench core --nodes 5"), Ok(bench.into()));
        assert_eq!(parse_line("faults F-13"), Ok(r#"Faults { args: ["F-13"] }"#.into()));
        assert_eq!(parse_line("fuzz"), Ok("Fuzz { seconds: 60 }".into()));
        assert_eq!(parse_line("fuzz 5"), Ok("Fuzz { seconds: 5 }".into()));
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (line, why) in [
            ("", "no chore given"),
            ("ci", "no chore is called \"ci\""),
            ("test now", "too many arguments for test"),
            ("bench", "bench needs the name of a benchmark"),
            ("bench warp", "no benchmark is called \"warp\""),
            ("fuzz long", "fuzz needs a number of seconds, not \"long\""),
            ("fuzz 0", "fuzz needs a number of seconds, not \"0\""),
        ] {
            assert_eq!(parse_line(line), Err(why.into()));
        }
    }

    #[test]
    fn the_usage_names_every_benchmark() {
        for (name, ..) in BENCHMARKS {
            assert!(USAGE.contains(name));
        }
    }

    #[test]
    fn a_benchmark_gets_its_own_arguments() {
        let call = bench("kringle-sim", "bench_core", &["--nodes".into(), "5".into()]);
        let expected = "cargo run --release --locked -p kringle-sim --example bench_core -- --nodes 5";
        assert_eq!(call.to_string(), expected);
    }
}
