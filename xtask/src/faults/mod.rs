//! `cargo xtask faults`: real node processes on a network of namespaces, with real faults.
//!
//! A row is one fault with its load and its demands. It prints what it measured against what is demanded, and passes or
//! fails; a row that cannot run fails too, since what was not tried shows nothing.

mod calm;
mod check;
mod client;
mod crowd;
mod heal;
mod join;
mod load;
mod net;
mod network;
mod options;
mod process;
mod proxy;
mod ring;
mod rows;
mod slow;
mod table;
mod watch;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cargo::Call;
use check::Check;
use options::{Options, Wanted};
use rows::Row;

/// Whether Ctrl-C was pressed.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The row that runs, and since when.
static CURRENT: Mutex<Option<(&'static str, Instant)>> = Mutex::new(None);

/// Runs the rows that the arguments name.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), String> {
    let Wanted { mut options, rows, list, write, release, keep } = options::parse(args)?;
    if list {
        print!("{}", table::list(&rows));
        return Ok(());
    }
    let build = if release { "build --release --locked -p kringle" } else { "build --locked -p kringle" };
    Call::new(build).run(root)?;
    let target = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let target = target.parent().and_then(Path::parent).ok_or("start this with `cargo xtask`")?;
    options.program = target.join(if release { "release" } else { "debug" }).join("kringle");
    options.folder = target.join(format!("faults/{}", std::process::id()));
    // A second run in this process has its handler already.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, SeqCst));
    net::remove_leftovers();
    let possible = net::try_out();
    let mut results = Vec::new();
    for row in rows {
        let result = match &possible {
            Ok(()) => run_row(row, &options),
            Err(why) => Err(why.clone()),
        };
        let checks = result.unwrap_or_else(|why| vec![Check::not_run(&why)]);
        checks.iter().for_each(|check| note(&check.line()));
        let passed = checks.iter().all(|check| check.passed);
        if passed && !keep {
            let _ = std::fs::remove_dir_all(&options.folder);
        } else {
            keep_logs(&options.folder, row.id);
        }
        results.push((row, checks));
        if is_interrupted() {
            break;
        }
    }
    *current() = None;
    let _ = std::fs::remove_dir_all(&options.folder);
    let command = options.command_line();
    print!("\n{}", table::text(&results));
    if write {
        table::write(root, &results, &command)?;
    }
    if is_interrupted() {
        return Err("interrupted".into());
    }
    let failed = results.iter().filter(|(_, checks)| checks.iter().any(|check| !check.passed));
    let failed: Vec<&str> = failed.map(|(row, _)| row.id).collect();
    println!("rows: {} passed, {} failed", results.len() - failed.len(), failed.len());
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("failed: {}; logs are in target/faults", failed.join(", "))),
    }
}

fn run_row(row: &'static Row, options: &Options) -> Result<Vec<Check>, String> {
    *current() = Some((row.id, Instant::now()));
    note(row.what);
    (row.run)(options)
}

/// Keeps the logs of a row that failed where the next one does not overwrite them.
fn keep_logs(folder: &Path, row: &str) {
    let Some(kept) = folder.parent().map(|parent| parent.join(row)) else { return };
    let _ = std::fs::remove_dir_all(&kept);
    let _ = std::fs::create_dir_all(&kept);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            let _ = std::fs::copy(entry.path(), kept.join(entry.file_name()));
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// Prints a line of progress.
fn note(text: &str) {
    match *current() {
        Some((row, since)) => {
            let seconds = since.elapsed().as_secs();
            println!("[{row} {}:{:02}] {text}", seconds / 60, seconds % 60);
        }
        None => println!("{text}"),
    }
}

fn current() -> std::sync::MutexGuard<'static, Option<(&'static str, Instant)>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_interrupted() -> bool {
    INTERRUPTED.load(SeqCst)
}

/// Sleeps, unless the run is interrupted.
fn pause(time: Duration) -> Result<(), String> {
    let end = Instant::now() + time;
    loop {
        if is_interrupted() {
            return Err("interrupted".into());
        }
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Ok(()),
            left => std::thread::sleep(left.min(Duration::from_millis(50))),
        }
    }
}
