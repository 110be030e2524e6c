//! Reads everything that is stored, slowly and on a thread of its own, so that damage is found before a client finds it.
//!
//! First every table file, against the checksum it had when it was written: that covers what no read would touch. Then
//! every record, against the checksum it has carried since it was made. Tables that compaction replaces meanwhile stay
//! until they were read.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kringle_core::records::{Bytes, Gap, Space};
use kringle_core::store::coding::Shared;
use kringle_core::store::record::{Cell, Record};
use lsm_tree::AbstractTree;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::disk::Tables;
use super::table::{after, checksum_of_file, is_damage, is_unreadable};
use crate::clock::unix_ms;
use crate::home::Slot;

/// Bytes per second that are read unless something else is configured.
pub const SCRUB_RATE: u64 = 8 << 20;
/// How often everything is read unless something else is configured.
pub const SCRUB_EVERY: Duration = Duration::from_secs(7 * 24 * 3600);
/// Records read in one go.
const STEP: usize = 256;
/// The longest sleep between two looks whether to go on.
const NAP: Duration = Duration::from_millis(50);
/// Findings that are kept one by one.
const FOUND_MAX: usize = 1024;

/// How far a scrub has come, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// Whether it is under way.
    pub running: bool,
    /// When it began, in milliseconds since 1970; 0: there has been none.
    pub started_ms: u64,
    /// When it ended; 0: it has not, or was interrupted.
    pub finished_ms: u64,
    /// Bytes read so far, and bytes to read, as counted at its beginning.
    pub bytes: u64,
    /// See `bytes`.
    pub total_bytes: u64,
    /// Table files and records read so far.
    pub files: u64,
    /// See `files`.
    pub records: u64,
    /// Files that are damaged, at most 16, below the data directory.
    pub damaged_files: Vec<String>,
    /// Records whose checksum is wrong.
    pub damaged_records: u64,
    /// From when the next one is counted, in milliseconds since 1970.
    #[serde(default)]
    pub counted_from_ms: u64,
}

/// A scrub under way, or the last one.
pub(super) struct Scrubber {
    report: Arc<Mutex<Scrub>>,
    found: Arc<Mutex<Found>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    slot: Slot,
}

/// What was found and not told yet.
#[derive(Default)]
pub(super) struct Found {
    /// Says what cannot be read.
    pub(super) trouble: Option<String>,
    /// Keys of records that are not what they were.
    pub(super) gaps: Vec<Gap>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scrubber {
    /// Remembers the last one.
    pub(super) fn new(slot: Slot) -> Scrubber {
        let last = slot.read().ok().flatten().and_then(|bytes| serde_json::from_slice::<Scrub>(&bytes).ok());
        let mut report = last.unwrap_or_default();
        report.running = false;
        if report.counted_from_ms == 0 {
            report.counted_from_ms = unix_ms();
            // If it cannot be written, the next one is counted from the next start.
            let _ = slot.write_json(&report);
        }
        let (report, found) = (Arc::new(Mutex::new(report)), Arc::default());
        Scrubber { report, found, stop: Arc::default(), thread: None, slot }
    }

    pub(super) fn report(&self) -> Scrub {
        locked(&self.report).clone()
    }

    /// Takes what was found since the last call.
    pub(super) fn found(&self) -> Found {
        std::mem::take(&mut *locked(&self.found))
    }

    /// Begins, unless one is under way.
    pub(super) fn start(
        &mut self,
        tables: Tables,
        home: PathBuf,
        rate: u64,
        wake: &Arc<Notify>,
    ) -> std::io::Result<()> {
        if locked(&self.report).running {
            return Ok(());
        }
        self.stop();
        self.stop = Arc::default();
        let now = unix_ms();
        *locked(&self.report) =
            Scrub { running: true, started_ms: now, counted_from_ms: now, ..Scrub::default() };
        let work = Work {
            tables,
            home,
            rate: rate.max(1),
            report: self.report.clone(),
            found: self.found.clone(),
            stop: self.stop.clone(),
            wake: wake.clone(),
            began: Instant::now(),
            read: 0,
        };
        let (slot, report) = (self.slot.clone(), self.report.clone());
        let thread = std::thread::Builder::new().name("kringle-scrub".into()).spawn(move || {
            let wake = work.wake.clone();
            let completed = work.run();
            let mut report = locked(&report);
            report.running = false;
            if completed {
                report.finished_ms = unix_ms();
                tracing::info!(
                    files = report.files,
                    records = report.records,
                    bytes = report.bytes,
                    damaged_files = report.damaged_files.len(),
                    damaged_records = report.damaged_records,
                    "read everything that is stored"
                );
                if let Err(error) = slot.write_json(&*report) {
                    tracing::warn!(%error, "cannot write down that everything was read");
                }
            }
            wake.notify_one();
        });
        match thread {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                locked(&self.report).running = false;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends it.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Tells it to end, and returns what waits until it has.
    pub(super) fn let_go(&mut self) -> Option<JoinHandle<()>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()
    }
}

/// What the thread works with.
struct Work {
    tables: Tables,
    home: PathBuf,
    rate: u64,
    report: Arc<Mutex<Scrub>>,
    found: Arc<Mutex<Found>>,
    stop: Arc<AtomicBool>,
    wake: Arc<Notify>,
    began: Instant,
    read: u64,
}

impl Work {
    /// Reads everything. Says whether it came to the end.
    fn run(mut self) -> bool {
        let spaces: Vec<_> = self.tables.spaces.iter().chain([&self.tables.engine]).cloned().collect();
        let records: u64 =
            [Space::Data, Space::Members].map(|space| spaces[space as usize].disk_space()).iter().sum();
        let files: u64 = spaces.iter().map(fjall::Keyspace::disk_space).sum();
        locked(&self.report).total_bytes = files + records;
        if !spaces.iter().all(|space| self.read_files(space)) {
            return false;
        }
        let damaged = locked(&self.report).damaged_files.first().cloned();
        if let Some(file) = damaged {
            // The repair comes first, and reads all files once more.
            locked(&self.found).trouble = Some(format!("{file} is damaged"));
            return true;
        }
        [Space::Data, Space::Members].into_iter().all(|space| self.read_records(space))
    }

    fn read_files(&mut self, space: &fjall::Keyspace) -> bool {
        let folder = space.tree.tree_config().path.join("tables");
        // As long as this is held, no table in it is removed.
        let version = space.tree.current_version();
        for table in version.iter_tables() {
            let path = folder.join(table.id().to_string());
            let found = checksum_of_file(&path, &mut |bytes| self.pace(bytes));
            let is_good = match found {
                _ if self.stop.load(Ordering::Relaxed) => return false,
                Ok(sum) => sum == table.checksum().into_u128(),
                Err(e) if is_damage(&e) || is_unreadable(&e) => false,
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "cannot read a table, for now");
                    return false;
                }
            };
            locked(&self.report).files += 1;
            if !is_good {
                let name = path.strip_prefix(&self.home).unwrap_or(&path).display().to_string();
                tracing::error!(file = name, "a table of the store is damaged");
                let mut report = locked(&self.report);
                if report.damaged_files.len() < 16 {
                    report.damaged_files.push(name);
                }
            }
        }
        true
    }

    fn read_records(&mut self, space: Space) -> bool {
        let table = self.tables.spaces[space as usize].clone();
        let mut from = Vec::new();
        loop {
            let (mut last, mut bytes, mut read) = (None, 0, 0);
            for entry in table.range(from.clone()..).take(STEP) {
                let (key, value) = match entry.into_inner() {
                    Ok(entry) => entry,
                    Err(error) => {
                        let what = format!("cannot read {}: {error}", space.name());
                        locked(&self.found).trouble.get_or_insert(what);
                        return true;
                    }
                };
                (bytes, read) = (bytes + (key.len() + value.len()) as u64, read + 1);
                self.check_record(space, &key, &value);
                last = Some(after(&key));
            }
            locked(&self.report).records += read;
            self.pace(bytes);
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            match last {
                Some(next) => from = next,
                None => return true,
            }
        }
    }

    fn check_record(&self, space: Space, key: &[u8], value: &[u8]) {
        let cell = Cell { member: space == Space::Members, key: Shared(key.into()) };
        if Record::read(&cell, &Bytes::from(value)).is_ok() {
            return;
        }
        tracing::error!(space = space.name(), key = crate::identity::text::hex(key), "a record is damaged");
        locked(&self.report).damaged_records += 1;
        let mut found = locked(&self.found);
        if found.gaps.len() < FOUND_MAX {
            found.gaps.push(Gap { space, from: Bytes::from(key), to: Bytes::from(after(key)) });
        }
    }

    /// Counts what was read, and waits so that it is not more than the rate allows.
    fn pace(&mut self, bytes: u64) {
        self.read += bytes;
        locked(&self.report).bytes = self.read;
        let due = Duration::from_secs_f64(self.read as f64 / self.rate as f64);
        while let Some(wait) = due.checked_sub(self.began.elapsed()).filter(|wait| !wait.is_zero())
            && !self.stop.load(Ordering::Relaxed)
        {
            std::thread::sleep(wait.min(NAP));
        }
    }
}
