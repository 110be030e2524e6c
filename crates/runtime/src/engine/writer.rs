//! The storage thread: takes whatever has been asked for, makes one commit of it, syncs, reports, and begins again.
//!
//! There is no timer: while one commit is being synced, the next one gathers. So a single write waits for nothing but
//! the disk, and many writes share its time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, OwnedWriteBatch, PersistMode};
use kringle_core::records::{Space, Write};
use lsm_tree::AbstractTree;
use tokio::sync::Notify;

use super::StoreError;
use super::compacting::Compacting;
use super::disk::Tables;
use super::files::{COMMITS, MEMTABLE, strategy};
use super::header::Mark;
use super::journal::Record;
use crate::home::{HomeError, Slot};

/// The mark is written at most this often.
const MARK: Duration = Duration::from_secs(1);
/// How long the end of a node waits for the disk.
const CLOSING: Duration = Duration::from_secs(10);
/// A commit that takes longer than this will not end. The database waits without a limit for its own workers.
const STUCK: Duration = Duration::from_secs(60);
/// Full memtables and new tables that are too many: fewer than the database waits for.
const MEMTABLES: usize = 2;
const TABLES: usize = 20;
/// What an entry takes in memory besides its key and value, about.
const ENTRY: usize = 64;
/// The longest key the database can take.
pub(super) const KEY_MAX: usize = u16::MAX as usize;

/// The storage thread, seen from the node's.
pub(super) struct Writer {
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// Writes that belong together.
struct Job {
    ticket: u64,
    writes: Arc<[Write]>,
}

/// What both threads see.
struct Shared {
    /// The highest ticket that is durable.
    done: AtomicU64,
    /// Why there will be no more.
    failed: OnceLock<StoreError>,
    /// Whether to end without doing what is left.
    abandon: AtomicBool,
    /// Set whenever `done` or `failed` has changed.
    wake: Arc<Notify>,
    since: Instant,
    /// When the commit under way began, in microseconds after `since`; 0: there is none.
    busy: AtomicU64,
    commits: AtomicU64,
    writes: AtomicU64,
    micros: AtomicU64,
    slowest: AtomicU64,
    #[cfg(test)]
    breaks: OnceLock<StoreError>,
}

/// What the storage thread has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Tickets that are not durable yet.
    pub pending: u64,
    /// Commits made since the store was opened.
    pub commits: u64,
    /// Entries written by them.
    pub writes: u64,
    /// Time they took, in microseconds.
    pub micros: u64,
    /// The slowest of them, in microseconds.
    pub slowest: u64,
}

impl Writer {
    /// Starts the thread. `commits` is how many there have been.
    pub(super) fn start(
        tables: Tables,
        mark: Slot,
        (born, commits): (u32, u64),
        wake: &Arc<Notify>,
    ) -> std::io::Result<Writer> {
        let shared = Arc::new(Shared {
            done: AtomicU64::new(0),
            failed: OnceLock::new(),
            abandon: AtomicBool::new(false),
            wake: wake.clone(),
            since: Instant::now(),
            busy: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            slowest: AtomicU64::new(0),
            #[cfg(test)]
            breaks: OnceLock::new(),
        });
        let (queue, jobs) = channel();
        let task = Task {
            tables,
            mark,
            born,
            commits,
            filled: [0; Space::ALL.len() + 1],
            marked: commits,
            marked_at: Instant::now(),
            shared: shared.clone(),
        };
        let folder = task.mark.dir().to_owned();
        let compacting = Compacting::start(task.tables.clone(), strategy())?;
        let thread = std::thread::Builder::new().name("kringle-disk".into()).spawn(move || {
            let shared = task.shared.clone();
            // Until this thread ends.
            let _compacting = compacting;
            let ended = catch_unwind(AssertUnwindSafe(|| task.run(&jobs)));
            if let Err(what) = ended.unwrap_or_else(|_| Err(StoreError::disk("the storage thread panicked")))
            {
                shared.fail(what.on_disk(&folder));
            }
        })?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), shared })
    }

    /// Asks for writes to be made durable, all or none, after those asked for before.
    pub(super) fn ask(&self, ticket: u64, writes: Arc<[Write]>) {
        if let Some(queue) = &self.queue {
            // If the thread has ended, it has said why.
            let _ = queue.send(Job { ticket, writes });
        }
    }

    /// Returns the highest ticket that is durable, or why there will be no more.
    pub(super) fn done(&self) -> Result<u64, StoreError> {
        if let Some(what) = self.shared.failed.get() {
            return Err(what.clone());
        }
        let busy = self.shared.busy.load(Ordering::Relaxed);
        if busy != 0 && self.shared.now().saturating_sub(busy) > STUCK.as_micros() as u64 {
            let what = format!("the disk has not answered for {} seconds", STUCK.as_secs());
            return Err(StoreError::disk(what));
        }
        Ok(self.shared.done.load(Ordering::Acquire))
    }

    /// Ends the thread: after everything asked for is durable, or at once. Says whether it has ended.
    pub(super) fn stop(&mut self, clean: bool) -> bool {
        self.shared.abandon.store(!clean, Ordering::Relaxed);
        self.queue = None;
        let Some(thread) = self.thread.take() else { return true };
        let until = Instant::now() + CLOSING;
        while !thread.is_finished() {
            if Instant::now() > until {
                // It hangs in the disk or in the database; ending must be possible all the same.
                tracing::error!("the storage thread does not end");
                return false;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        thread.join().is_ok()
    }

    pub(super) fn figures(&self) -> Figures {
        let Shared { commits, writes, micros, slowest, .. } = &*self.shared;
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Figures {
            pending: 0,
            commits: of(commits),
            writes: of(writes),
            micros: of(micros),
            slowest: of(slowest),
        }
    }

    /// Lets the next commit fail as if the disk had.
    #[cfg(test)]
    pub(super) fn break_disk(&self, error: StoreError) {
        let _ = self.shared.breaks.set(error);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop(false);
    }
}

impl Shared {
    /// Microseconds since the start, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    fn fail(&self, what: StoreError) {
        let _ = self.failed.set(what);
        self.wake.notify_one();
    }
}

/// What the thread works with.
struct Task {
    tables: Tables,
    mark: Slot,
    born: u32,
    commits: u64,
    /// Bytes that are kept in memory, by space; the last is the engine's own.
    filled: [u64; Space::ALL.len() + 1],
    /// The count in the mark, and when it was written there.
    marked: u64,
    marked_at: Instant,
    shared: Arc<Shared>,
}

impl Task {
    fn run(mut self, jobs: &Receiver<Job>) -> Result<(), StoreError> {
        let mut batch = Vec::new();
        loop {
            let first = if self.marked < self.commits {
                jobs.recv_timeout(MARK.saturating_sub(self.marked_at.elapsed()))
            } else {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            if self.shared.abandon.load(Ordering::Relaxed) {
                return Ok(());
            }
            match first {
                Ok(job) => {
                    batch.push(job);
                    batch.extend(jobs.try_iter());
                    self.commit(&batch)?;
                    batch.clear();
                }
                // Idle: see whether the database's own workers have failed meanwhile.
                Err(RecvTimeoutError::Timeout) => {
                    self.tables.db.persist(PersistMode::Buffer).map_err(|error| StoreError::of(&error))?;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.marked < self.commits && self.marked_at.elapsed() >= MARK {
                self.write_mark()?;
            }
        }
        self.write_mark()
    }

    fn commit(&mut self, jobs: &[Job]) -> Result<(), StoreError> {
        let Some(ticket) = jobs.last().map(|job| job.ticket) else { return Ok(()) };
        let began = self.shared.now();
        self.shared.busy.store(began, Ordering::Relaxed);
        let writes = last_of_each(jobs);
        let Tables { db, spaces, engine } = &self.tables;
        let batch = OwnedWriteBatch::with_capacity(db.clone(), writes.len() + 1);
        let mut batch = batch.durability(Some(PersistMode::SyncData));
        for Write { space, key, value } in &writes {
            if key.is_empty() || key.len() > KEY_MAX {
                return Err(StoreError::disk(format!("a mistake of ours: a key of {} bytes", key.len())));
            }
            let table = &spaces[*space as usize];
            match value {
                Some(value) => batch.insert(table, &**key, &**value),
                None => batch.remove(table, &**key),
            }
        }
        self.commits += 1;
        // The last entry: see `journal`.
        let record = Record { born: self.born, commits: self.commits, ticket };
        batch.insert(engine, COMMITS, record.encode());
        #[cfg(test)]
        if let Some(error) = self.shared.breaks.get() {
            return Err(error.clone());
        }
        // Synced when this returns. If it fails, nobody knows what is on the disk: not even another sync could tell.
        batch.commit().map_err(|error| StoreError::of(&error))?;
        self.make_room(&writes)?;
        self.shared.done.store(ticket, Ordering::Release);
        self.shared.busy.store(0, Ordering::Relaxed);
        let took = self.shared.now() - began;
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        self.shared.writes.fetch_add(writes.len() as u64, Ordering::Relaxed);
        self.shared.micros.fetch_add(took, Ordering::Relaxed);
        self.shared.slowest.fetch_max(took, Ordering::Relaxed);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Makes tables of what is kept in memory, once it is enough. The database would do so itself, but asks its worker with every commit
    /// until that is done. While the worker compacts, that fills the queue between them; then the worker waits for itself
    /// (fjall 3.1), and no commit ends any more.
    fn make_room(&mut self, writes: &[&Write]) -> Result<(), StoreError> {
        let Tables { db, spaces, engine } = &self.tables;
        for Write { space, key, value } in writes {
            let value = value.as_ref().map_or(0, |value| value.len());
            self.filled[*space as usize] += (key.len() + value + ENTRY) as u64;
        }
        self.filled[Space::ALL.len()] += ENTRY as u64;
        for (table, filled) in spaces.iter().chain([engine]).zip(&mut self.filled) {
            // While the worker is behind, the memtable may grow: waiting would hold up all commits.
            if *filled > 3 * MEMTABLE || (*filled > MEMTABLE && !is_behind(table)) {
                await_worker(db, table)?;
                table.rotate_memtable().map_err(|error| StoreError::of(&error))?;
                *filled = 0;
            }
        }
        Ok(())
    }

    /// Writes down, outside the database, what it must never fall behind.
    fn write_mark(&mut self) -> Result<(), StoreError> {
        self.marked_at = Instant::now();
        let mark = Mark { born: self.born, commits: self.commits, condemned: false };
        match self.mark.write_json(&mark) {
            Ok(()) => self.marked = self.commits,
            // A full disk is told to the node in time; the mark stays behind until there is room.
            Err(HomeError::Io { source, .. }) if source.kind() == std::io::ErrorKind::StorageFull => {
                tracing::warn!("no room for the mark of the store");
            }
            Err(error) => return Err(StoreError::disk(error.to_string())),
        }
        Ok(())
    }
}

/// Waits until the database has written most of its full memtables, and compacted most of its new tables. It would wait
/// for that itself, inside a commit, but without end if its worker has failed meanwhile (fjall 3.1: at four memtables or
/// thirty tables).
fn await_worker(db: &Database, table: &Keyspace) -> Result<(), StoreError> {
    while is_behind(table) {
        db.persist(PersistMode::Buffer).map_err(|error| StoreError::of(&error))?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn is_behind(table: &Keyspace) -> bool {
    table.tree.sealed_memtable_count() >= MEMTABLES || table.tree.l0_run_count() >= TABLES
}

/// Returns the last write of each key, in the order of keys: one batch has no order inside.
fn last_of_each(jobs: &[Job]) -> Vec<&Write> {
    let mut writes: Vec<&Write> = jobs.iter().flat_map(|job| job.writes.iter()).collect();
    writes.sort_by(|a, b| (a.space, &a.key).cmp(&(b.space, &b.key)));
    // Stable, so the last of equals came last.
    let mut kept: Vec<&Write> = Vec::with_capacity(writes.len());
    for write in writes {
        match kept.last_mut() {
            Some(last) if last.space == write.space && last.key == write.key => *last = write,
            _ => kept.push(write),
        }
    }
    kept
}
