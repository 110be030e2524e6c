//! Reports on a terminal and in directories.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use kringle_sim::lab::Scenario;
use kringle_sim::report::Report;

use super::execute::was_cut;
use super::{flags, memory};
use crate::failure::Failure;

/// Returns what is said before a run: the seed first, for nothing can be repeated without it.
pub(super) fn head(
    scenario: &Scenario,
    seed: u64,
    all: &std::collections::BTreeMap<String, String>,
) -> String {
    let mut text = format!("seed      {seed}\nscenario  {}: {}\n", scenario.name, scenario.about);
    let changed: Vec<String> = flags::differing(scenario, all)
        .into_iter()
        .map(|(name, value)| format!("--{name} {}", flags::quoted(&value)))
        .collect();
    if !changed.is_empty() {
        let _ = writeln!(text, "changed   {}", changed.join(" "));
    }
    text
}

/// Returns what is said after a run: figures, rings, cost.
pub(super) fn tail(report: &Report) -> String {
    let mut text = report.summary();
    for ring in &report.worlds {
        let _ = writeln!(
            text,
            "ring      {}: {} nodes, each a {} of {} bytes and its tables; {} events, trace {}",
            ring.name,
            grouped(ring.nodes),
            ring.node_type,
            grouped(ring.node_size),
            grouped(ring.events),
            ring.trace
        );
    }
    let _ = writeln!(
        text,
        "cost      {:.1} s, {} events/s{}",
        report.machine.seconds,
        grouped(report.machine.events_per_second as u64),
        peak(report.machine.peak_memory)
    );
    text
}

/// Returns how much memory it took, if the system has told.
pub(super) fn peak(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!(", {} peak", memory::bytes(bytes)) }
}

/// Says whether a report is worth a file: not if it was cut short before there was anything in it.
pub(super) fn is_worth_keeping(report: &Report) -> bool {
    let Report { figures, counts, tables, plots, worlds, .. } = report;
    let is_empty =
        figures.is_empty() && counts.is_empty() && tables.is_empty() && plots.is_empty() && worlds.is_empty();
    !(is_empty && was_cut(report))
}

/// Returns the line that says what was written.
pub(super) fn wrote(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("wrote     {}\n", names.join("  "))
}

/// Finds out whether files can be written to a directory, before it takes an hour to have some. Leaves nothing behind.
pub(super) fn check_directory(dir: &Path) -> Result<(), Failure> {
    let refuse = |place: &Path, why: String| {
        Failure::usage(
            format!("--out {}: cannot write to {}: {why}", dir.display(), place.display()),
            "Name a directory that can be written to; it need not exist.",
        )
    };
    if dir.as_os_str().is_empty() {
        return Err(Failure::usage("--out is empty", "Name a directory; it need not exist."));
    }
    // What is not there yet will be made in the nearest that is.
    let exists = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
    let place = dir.ancestors().find(exists).unwrap_or(dir);
    let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    match fs::metadata(place) {
        Ok(data) if !data.is_dir() => return Err(refuse(place, "it is not a directory".into())),
        Ok(_) => {}
        Err(error) => return Err(refuse(place, error.to_string())),
    }
    // Another thread may try the same place.
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let number = TRIES.fetch_add(1, Ordering::Relaxed);
    let probe = place.join(format!(".kringle-{}-{number}.tmp", std::process::id()));
    let tried = fs::File::create(&probe).and_then(|_| fs::remove_file(&probe));
    tried.map_err(|error| refuse(place, error.to_string()))
}

/// A directory that could be written to before the run, and now cannot.
pub(super) fn unwritten(dir: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("{}: cannot write to it: {error}", dir.display()),
        "Make room, or write somewhere else; what was measured is above.",
    )
}

/// Writes a whole number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        let numbers = [0, 999, 1000, 1_234_567];
        assert_eq!(numbers.map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_directory_is_tried_and_left_as_it_was() {
        let base = std::env::temp_dir().join(format!("kringle-out-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let file = base.join("file");
        fs::write(&file, "").unwrap();
        assert!(check_directory(&base.join("a/b/c")).is_ok());
        assert!(check_directory(&base).is_ok());
        assert!(check_directory(Path::new("not-there")).is_ok());
        for bad in [file.clone(), file.join("below"), PathBuf::new()] {
            assert!(check_directory(&bad).is_err(), "{bad:?}");
        }
        let left: Vec<_> = fs::read_dir(&base).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [file]);
        fs::remove_dir_all(base).unwrap();
    }
}
