//! What was asked for on the command line.

use std::path::PathBuf;
use std::time::Duration;

use super::rows::{ROWS, Row};

const USAGE: &str = "\
usage: cargo xtask faults [ROW].. [OPTION]..

  ROW                 an id from --list, all rows if none is named
  --list              list the rows: id, fault, what passes
  --sample            run the short rows that belong to `cargo xtask test`
  --overlay OVERLAY   pastry or chord [default: pastry]
  --cut DURATION      how long a fault lasts, instead of the row's own time
  --nodes N           nodes of the ring, instead of the row's own number
  --parts A/B[/C]     heal: sizes of the parts [default: half and half]
  --repeats N         how often a row repeats its fault, instead of its own number
  --write             put the results into docs/faults.md
  --release           try the release build [default: the debug build, as the tests do]
  --built             do not build: try the program that is there
  --keep              keep the logs of rows that pass, too
";

/// How rows are run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The node's program.
    pub(super) program: PathBuf,
    /// Where data directories and logs are.
    pub(super) folder: PathBuf,
    pub(super) overlay: String,
    pub(super) cut: Option<Duration>,
    pub(super) nodes: Option<usize>,
    pub(super) parts: Vec<usize>,
    pub(super) repeats: Option<usize>,
    pub(super) release: bool,
}

impl Options {
    /// Returns the options as one would type them behind the row.
    pub(super) fn command_line(&self) -> String {
        let mut line = String::new();
        if self.overlay != "pastry" {
            line.push_str(&format!(" --overlay {}", self.overlay));
        }
        if let Some(cut) = self.cut {
            line.push_str(&format!(" --cut {}s", cut.as_secs()));
        }
        if let Some(nodes) = self.nodes {
            line.push_str(&format!(" --nodes {nodes}"));
        }
        if !self.parts.is_empty() {
            let parts: Vec<String> = self.parts.iter().map(usize::to_string).collect();
            line.push_str(&format!(" --parts {}", parts.join("/")));
        }
        if let Some(repeats) = self.repeats {
            line.push_str(&format!(" --repeats {repeats}"));
        }
        if self.release {
            line.push_str(" --release");
        }
        line
    }
}

/// Everything the arguments say.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) options: Options,
    pub(super) rows: Vec<&'static Row>,
    pub(super) list: bool,
    pub(super) write: bool,
    pub(super) release: bool,
    pub(super) built: bool,
    pub(super) keep: bool,
}

/// Reads the arguments.
pub(super) fn parse(args: &[String]) -> Result<Wanted, String> {
    let wrong = |why: String| format!("{why}\n\n{USAGE}");
    let options = Options { overlay: "pastry".into(), ..Options::default() };
    let mut wanted = Wanted {
        options,
        rows: Vec::new(),
        list: false,
        write: false,
        release: false,
        built: false,
        keep: false,
    };
    let mut sample = false;
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| wrong(format!("{word} needs a value")));
        let number = |text: &str| {
            let number = text.parse::<usize>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| wrong(format!("{text:?} is not a number from 1 up")))
        };
        match word {
            "--list" => wanted.list = true,
            "--sample" => sample = true,
            "--write" => wanted.write = true,
            "--release" => (wanted.release, wanted.options.release) = (true, true),
            "--built" => wanted.built = true,
            "--keep" => wanted.keep = true,
            "--overlay" => {
                let overlay = value()?;
                if !["pastry", "chord"].contains(&overlay) {
                    return Err(wrong(format!("no overlay is called {overlay:?}")));
                }
                wanted.options.overlay = overlay.into();
            }
            "--cut" => {
                let text = value()?;
                wanted.options.cut = Some(Duration::from_secs(seconds(text).map_err(wrong)?));
            }
            "--nodes" => wanted.options.nodes = Some(number(value()?)?),
            "--repeats" => wanted.options.repeats = Some(number(value()?)?),
            "--parts" => {
                let parts: Result<Vec<usize>, String> = value()?.split('/').map(number).collect();
                wanted.options.parts = parts?;
            }
            "--help" | "-h" => return Err(USAGE.into()),
            _ => match ROWS.iter().find(|row| row.id.eq_ignore_ascii_case(word)) {
                Some(row) => wanted.rows.push(row),
                None => return Err(wrong(format!("no row is called {word:?}"))),
            },
        }
    }
    if wanted.rows.is_empty() {
        wanted.rows = ROWS.iter().filter(|row| !sample || row.sample).collect();
    }
    Ok(wanted)
}

/// Reads seconds or minutes: `60`, `60s`, `5m`.
fn seconds(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.strip_suffix('m') {
        Some(number) => (number, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let number = number.parse::<u64>().ok().filter(|number| (1..=86_400).contains(number));
    number.map(|number| number * factor).ok_or_else(|| format!("{text:?} is not a duration like 60s or 5m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Wanted, String> {
        let args: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(&args)
    }

    #[test]
    fn options_are_understood_and_can_be_typed_again() {
        let wanted = parse_line("heal --cut 2m --overlay chord --parts 3/2/2 --repeats 2 --nodes 7").unwrap();
        assert_eq!(wanted.rows.len(), 1);
        let line = wanted.options.command_line();
        assert_eq!(line, " --overlay chord --cut 120s --nodes 7 --parts 3/2/2 --repeats 2");
        assert_eq!(parse_line(&format!("heal{line}")).unwrap().options, wanted.options);
        assert_eq!(parse_line("").unwrap().rows.len(), ROWS.len());
        let sample = parse_line("--sample").unwrap().rows.len();
        assert!(sample > 0 && sample < ROWS.len());
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (line, why) in [
            ("F-99", "no row is called \"F-99\""),
            ("--cut", "--cut needs a value"),
            ("--cut soon", "\"soon\" is not a duration"),
            ("--overlay can", "no overlay is called \"can\""),
            ("--nodes 0", "\"0\" is not a number from 1 up"),
        ] {
            assert!(parse_line(line).unwrap_err().starts_with(why), "{line}");
        }
    }
}
