//! A store on the disk: one database, one table per space, and whether it can be trusted.
//!
//! | file                | holds                                                                        |
//! |---------------------|------------------------------------------------------------------------------|
//! | `store`             | the database                                                                 |
//! | `store.format`      | its format, whose it is, and which filling of it this is                     |
//! | `store.mark`        | how many commits were synced, as counted outside the database                |
//! | `store.damaged-<n>` | a database that could not be trusted, kept for whoever wants to look into it |
//!
//! All of it is covered by the lock of the data directory.

use std::cell::OnceCell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, LsmError, PersistMode};
use kringle_core::records::{Bytes, Space, Write};
use tokio::sync::Notify;

use super::header::{Format, Mark, Owner};
use super::journal::{self, Record, Seen};
use super::overlay::Overlay;
use super::writer::{Figures, Writer};
use super::{Opened, StoreError};
use crate::home::{Home, HomeError, Slot, sync_dir};

/// Blocks of tables kept in memory.
const CACHE: u64 = 16 << 20;
/// The least the database accepts; all of it is replayed at a start.
const JOURNALS: u64 = 64 << 20;
/// New entries of one space that are kept in memory before they become a table.
const MEMTABLE: u64 = 8 << 20;
/// Tables are small, so that the largest compaction (one table and about ten below it) is short, and finds room on a
/// disk that is as full as we let it become.
const TABLE: u64 = 4 << 20;
/// Files kept open.
const FILES: usize = 128;
/// The table that counts commits; no space of the core has this name.
const ENGINE: &str = "engine";
/// The only key in it.
pub(super) const COMMITS: &[u8] = b"commits";

/// An open store.
pub(super) struct Disk {
    files: Files,
    owner: Owner,
    /// `None` once it is closed.
    open: Option<Open>,
    wake: Arc<Notify>,
    /// The last ticket that was reported.
    reported: u64,
    born: u32,
    /// Set when what should be there could not be read.
    trouble: OnceCell<String>,
}

struct Open {
    overlay: Overlay,
    // Before the tables: it must have ended when the last handle to the database goes.
    writer: Writer,
    tables: Tables,
}

/// The database and its tables.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) spaces: [Keyspace; Space::ALL.len()],
    pub(super) engine: Keyspace,
    pub(super) db: Database,
}

/// Where the parts of a store are.
struct Files {
    home: PathBuf,
    store: PathBuf,
    format: Slot,
    mark: Slot,
}

/// Why a database was not opened.
enum Fault {
    /// What it holds can not be trusted.
    Damaged(String),
    /// It may be fine; this is not the moment.
    Refused(HomeError),
}

impl From<HomeError> for Fault {
    fn from(error: HomeError) -> Fault {
        Fault::Refused(error)
    }
}

impl Disk {
    /// Opens the store of a data directory, or makes one. A store that lost something it had promised to keep is set
    /// aside, and an empty one made instead.
    pub(super) fn open(home: &Home, owner: Owner) -> Result<(Disk, Opened), HomeError> {
        let files = Files {
            home: home.dir().to_owned(),
            store: home.dir().join("store"),
            format: home.slot("store.format"),
            mark: home.slot("store.mark"),
        };
        let format = Format::read(home, &files.format, &owner)?;
        if format.is_none() && (files.store.exists() || files.mark.exists()) {
            return Err(files.format.damaged("it is missing, although there is a store"));
        }
        let born = format.filter(|format| format.made).map(|format| format.born);
        let found = born.map(|born| files.inspect(born).map(|(tables, commits)| (tables, born, commits)));
        let (tables, born, commits, opened) = match found {
            Some(Ok((tables, born, commits))) => {
                (tables, born, commits, Opened { fresh: false, suspect: false, born })
            }
            Some(Err(Fault::Refused(error))) => return Err(error),
            Some(Err(Fault::Damaged(why))) => {
                let aside = files.set_aside()?;
                let kept = aside.as_deref().unwrap_or(Path::new("nothing")).display();
                tracing::error!(why, %kept, "the store can not be trusted: starting with an empty one");
                let (tables, born) = files.make(&owner)?;
                (tables, born, 0, Opened { fresh: true, suspect: true, born })
            }
            None => {
                let (tables, born) = files.make(&owner)?;
                (tables, born, 0, Opened { fresh: true, suspect: false, born })
            }
        };
        let wake = Arc::new(Notify::new());
        let open = Some(files.start(tables, born, commits, &wake)?);
        let disk = Disk { files, owner, open, wake, reported: 0, born, trouble: OnceCell::new() };
        Ok((disk, opened))
    }

    pub(super) fn born(&self) -> u32 {
        self.born
    }

    pub(super) fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    pub(super) fn persist(&mut self, ticket: u64, writes: Vec<Write>) {
        let Some(open) = &mut self.open else { return };
        let writes: Arc<[Write]> = writes.into();
        open.overlay.add(ticket, writes.clone());
        open.writer.ask(ticket, writes);
    }

    /// Returns the highest ticket that has become durable since the last call.
    pub(super) fn progress(&mut self) -> Result<Option<u64>, StoreError> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let done = open.writer.done().map_err(StoreError)?;
        if done <= self.reported {
            return Ok(None);
        }
        self.reported = done;
        open.overlay.settle(done);
        Ok(Some(done))
    }

    pub(super) fn read(&self, space: Space, key: &[u8]) -> Option<Bytes> {
        let open = self.open.as_ref()?;
        if let Some(covered) = open.overlay.get(space, key) {
            return covered.cloned();
        }
        match open.tables.spaces[space as usize].get(key) {
            Ok(value) => value.map(|value| Bytes::from(&*value)),
            Err(error) => {
                self.failed_to_read(space, &error);
                None
            }
        }
    }

    pub(super) fn scan(
        &self,
        (space, from, to): (Space, &[u8], &[u8]),
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) {
        let Some(open) = &self.open else { return };
        if from >= to {
            return;
        }
        let below = open.tables.spaces[space as usize].range(from..to).map(fjall::Guard::into_inner);
        if let Err(error) = open.overlay.scan((space, from, to), below, each) {
            self.failed_to_read(space, &error);
        }
    }

    fn failed_to_read(&self, space: Space, error: &fjall::Error) {
        let what = format!("cannot read {} from the store: {error}", space.name());
        let _ = self.trouble.set(what);
    }

    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.get().map(String::as_str)
    }

    pub(super) fn figures(&self) -> Figures {
        self.open.as_ref().map_or_else(Figures::default, |open| Figures {
            pending: open.overlay.len() as u64,
            ..open.writer.figures()
        })
    }

    /// Empties the store. Nothing that was asked for before is reported any more.
    pub(super) fn wipe(&mut self) -> Result<u32, HomeError> {
        if let Some(mut open) = self.open.take()
            && !open.writer.stop(false)
        {
            return Err(HomeError::Damaged { path: self.files.store.clone(), why: "it hangs".into() });
        }
        let (tables, born) = self.files.make(&self.owner)?;
        self.open = Some(self.files.start(tables, born, 0, &self.wake)?);
        (self.born, self.reported, self.trouble) = (born, 0, OnceCell::new());
        Ok(born)
    }

    /// Closes the store: with everything that was asked for, or as a crash would.
    pub(super) fn close(&mut self, clean: bool) {
        let Some(mut open) = self.open.take() else { return };
        open.writer.stop(clean && self.trouble.get().is_none());
        drop(open);
        if self.trouble.get().is_some() {
            let mark = Mark { born: self.born, commits: 0, condemned: true };
            if let Err(error) = self.files.mark.write_json(&mark) {
                tracing::error!(%error, "cannot write down that the store is damaged");
            }
        }
    }

    #[cfg(test)]
    pub(super) fn break_disk(&self) {
        self.open.as_ref().expect("the store is open").writer.break_disk();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close(false);
    }
}

impl Files {
    fn start(&self, tables: Tables, born: u32, commits: u64, wake: &Arc<Notify>) -> Result<Open, HomeError> {
        let writer = Writer::start(tables.clone(), self.mark.clone(), (born, commits), wake)
            .map_err(|e| HomeError::from_io(&self.store, e))?;
        Ok(Open { overlay: Overlay::default(), writer, tables })
    }

    /// Makes an empty store where there is none, or where there is one that is not wanted any more.
    ///
    /// The format says first that it is being made: whenever this is interrupted, the next start begins it anew.
    fn make(&self, owner: &Owner) -> Result<(Tables, u32), HomeError> {
        let failed = |e| HomeError::from_io(&self.store, e);
        let mut format = Format::new(owner).map_err(failed)?;
        self.format.write_json(&format)?;
        if self.store.exists() {
            fs::remove_dir_all(&self.store).map_err(failed)?;
        }
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.store).map_err(failed)?;
        let tables = self.open_tables().map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Damaged(why) => HomeError::Damaged { path: self.store.clone(), why },
        })?;
        sync_dir(&self.home).map_err(failed)?;
        self.mark.write_json(&Mark { born: format.born, commits: 0, condemned: false })?;
        format.made = true;
        self.format.write_json(&format)?;
        Ok((tables, format.born))
    }

    /// Opens the database that should be there and finds out whether it has kept everything.
    fn inspect(&self, born: u32) -> Result<(Tables, u64), Fault> {
        let damaged = |why: &str| Err(Fault::Damaged(why.to_owned()));
        let Some(bytes) = self.mark.read()? else { return damaged("its mark is missing") };
        let Ok(mark) = serde_json::from_slice::<Mark>(&bytes) else {
            return damaged("its mark can not be read");
        };
        if mark.born != born {
            return Err(self.mark.damaged("it belongs to another store").into());
        }
        if mark.condemned {
            return damaged("it failed to read what it had");
        }
        if !self.store.join("version").exists() {
            return damaged("the database is gone");
        }
        let seen = journal::look(&self.store, born).map_err(|e| HomeError::from_io(&self.store, e))?;
        let (tables, commits) = match self.open_counted(born) {
            Err(Fault::Damaged(why)) => self.mend(born, &seen, why)?,
            other => other?,
        };
        if commits < mark.commits {
            let lost = mark.commits - commits;
            return Err(Fault::Damaged(format!("{lost} commits are missing, of {}", mark.commits)));
        }
        if seen.commits > commits + 1 {
            return damaged("its journal is damaged in the middle");
        }
        Ok((tables, commits))
    }

    /// A loss of power may leave any mixture of old and new bytes where the last commit was being written, and the
    /// database takes some of those for damage. That commit was never reported: without it, the store is whole.
    fn mend(&self, born: u32, seen: &Seen, why: String) -> Result<(Tables, u64), Fault> {
        let Some(newest) = &seen.newest else { return Err(Fault::Damaged(why)) };
        for at in &seen.cuts {
            journal::cut(newest, *at).map_err(|e| HomeError::from_io(newest, e))?;
            match self.open_counted(born) {
                Err(Fault::Damaged(_)) => {}
                Ok(opened) => {
                    tracing::warn!(why, "the last commit was interrupted; it was never reported");
                    return Ok(opened);
                }
                Err(refused) => return Err(refused),
            }
        }
        Err(Fault::Damaged(why))
    }

    /// Opens the database and reads how many commits it knows.
    fn open_counted(&self, born: u32) -> Result<(Tables, u64), Fault> {
        let tables = self.open_tables()?;
        let record = tables.engine.get(COMMITS).map_err(|error| self.fault(error))?;
        let Some(bytes) = record else { return Ok((tables, 0)) };
        match Record::decode(&bytes) {
            None => Err(Fault::Damaged("its count can not be read".into())),
            Some(record) if record.born != born => {
                let why = "it is the database of another store".into();
                Err(HomeError::Damaged { path: self.store.clone(), why }.into())
            }
            Some(record) => Ok((tables, record.commits)),
        }
    }

    fn open_tables(&self) -> Result<Tables, Fault> {
        // Some damage is found by assertions of the database.
        let opened = catch_unwind(AssertUnwindSafe(|| -> fjall::Result<Tables> {
            let db = Database::builder(&self.store)
                .cache_size(CACHE)
                .max_journaling_size(JOURNALS)
                .max_cached_files(Some(FILES))
                // A second one would turn in circles while the first compacts.
                .worker_threads(1)
                .open()?;
            let table = |name: &str| {
                db.keyspace(name, || {
                    KeyspaceCreateOptions::default()
                        .max_memtable_size(MEMTABLE)
                        .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(TABLE)))
                })
            };
            let spaces = Space::ALL.iter().map(|space| table(space.name())).collect::<Result<Vec<_>, _>>()?;
            let Ok(spaces) = spaces.try_into() else { return Err(fjall::Error::Unrecoverable) };
            let engine = table(ENGINE)?;
            db.persist(PersistMode::SyncAll)?;
            Ok(Tables { spaces, engine, db })
        }));
        match opened {
            Ok(opened) => opened.map_err(|error| self.fault(error)),
            Err(_) => Err(Fault::Damaged("the database panicked while it was opened".into())),
        }
    }

    /// Tells damage from circumstances: only what is damaged may be thrown away.
    fn fault(&self, error: fjall::Error) -> Fault {
        use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
        match error {
            fjall::Error::Io(e) | fjall::Error::Storage(LsmError::Io(e))
                if !matches!(e.kind(), InvalidData | NotFound | UnexpectedEof) =>
            {
                HomeError::from_io(&self.store, e).into()
            }
            fjall::Error::Locked => HomeError::InUse { path: self.store.clone(), pid: None }.into(),
            fjall::Error::InvalidVersion(Some(version)) => {
                let why = format!("it was written by another version of the engine ({version:?})");
                HomeError::Damaged { path: self.store.clone(), why }.into()
            }
            error => Fault::Damaged(error.to_string()),
        }
    }

    /// Moves a store out of the way. The one that was moved before is removed: two would fill the disk.
    fn set_aside(&self) -> Result<Option<PathBuf>, HomeError> {
        const ASIDE: &str = "store.damaged-";
        let failed = |e| HomeError::from_io(&self.home, e);
        if !self.store.exists() {
            return Ok(None);
        }
        let mut last: u64 = 0;
        for entry in fs::read_dir(&self.home).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if let Some(number) = entry.file_name().to_str().and_then(|name| name.strip_prefix(ASIDE)) {
                last = last.max(number.parse().unwrap_or(0));
                fs::remove_dir_all(entry.path()).map_err(failed)?;
            }
        }
        let aside = self.home.join(format!("{ASIDE}{}", last + 1));
        fs::rename(&self.store, &aside).map_err(failed)?;
        sync_dir(&self.home).map_err(failed)?;
        Ok(Some(aside))
    }
}
