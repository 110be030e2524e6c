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
mod json;
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

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cargo::Call;
use check::Check;
use options::{Options, Wanted};
use rows::Row;

/// Tells this program to clean up after a run.
const REAP: &str = "--reap";
/// The row that runs, and since when.
static CURRENT: Mutex<Option<(&'static str, Instant)>> = Mutex::new(None);

/// Runs the rows that the arguments name.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), String> {
    if let [REAP, run] = args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return reap(run);
    }
    let Wanted { mut options, rows, list, write, release, built, keep } = options::parse(args)?;
    if list {
        print!("{}", table::list(&rows));
        return Ok(());
    }
    let build = if release { "build --release --locked -p kringle" } else { "build --locked -p kringle" };
    if !built {
        Call::new(build).run(root)?;
    }
    let target = target()?;
    options.program = target.join(if release { "release" } else { "debug" }).join("kringle");
    options.folder = target.join(format!("faults/{}", std::process::id()));
    net::remove_leftovers();
    let _reaper = Reaper::start()?;
    let possible = net::try_out();
    let mut results = Vec::new();
    for row in rows {
        let result = match &possible {
            Ok(()) => run_row(row, &options),
            Err(why) => Err(why.clone()),
        };
        let mut checks = result.unwrap_or_else(|why| vec![Check::not_run(&why)]);
        checks.push(Check::info("load average of the machine", load_average()));
        checks.iter().for_each(|check| note(&check.line()));
        let passed = checks.iter().all(|check| check.passed);
        if passed && !keep {
            let _ = std::fs::remove_dir_all(&options.folder);
        } else {
            keep_logs(&options.folder, row.id);
        }
        if write {
            // Row by row, so that an interrupted run keeps what it has measured.
            table::write(root, row, &checks, &options.command_line())?;
        }
        results.push((row, checks));
    }
    *current() = None;
    let _ = std::fs::remove_dir_all(&options.folder);
    print!("\n{}", table::text(&results));
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

/// Removes what this run made if the run is interrupted or killed: a process of its own, which hears that this one has ended
/// because the pipe between them closes.
struct Reaper(Child);

impl Reaper {
    fn start() -> Result<Reaper, String> {
        let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
        let mut command = Command::new(program);
        command.args(["faults", REAP]).arg(std::process::id().to_string());
        // In a group of its own, which Ctrl-C does not end.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Reaper).map_err(|error| format!("the process that cleans up: {error}"))
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Waits until the run that started this process has ended, and removes what it made.
fn reap(run: &str) -> Result<(), String> {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let run: u32 = run.parse().map_err(|_| format!("{run:?} is not a process"))?;
    net::remove_all_of(run);
    let folder = target()?.join(format!("faults/{run}"));
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}

/// Returns the folder of build products.
fn target() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let target = program.parent().and_then(Path::parent).map(PathBuf::from);
    target.ok_or_else(|| "start this with `cargo xtask`".into())
}

/// Returns how many processes wanted a processor in the last minute. Times of a busy machine mean less.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{} on {processors} processors", text.split(' ').next().unwrap_or("?"))
}

fn pause(time: Duration) {
    std::thread::sleep(time);
}
