//! The files of a store, and whether they can be trusted.
//!
//! | file                | holds                                                                             |
//! |---------------------|-----------------------------------------------------------------------------------|
//! | `store`             | the database                                                                      |
//! | `store.format`      | its format, whose it is, and which filling of it this is                          |
//! | `store.mark`        | how many commits were synced, as counted outside the database                     |
//! | `store.salvaged`    | what was lost when damaged tables were replaced; see `salvage`                    |
//! | `store.scrub`       | when all of it was last read, and what was found                                  |
//! | `store.salvage`     | a database that is being made from a damaged one                                  |
//! | `store.damaged-<n>` | a database as it was found damaged: the last two are kept, for a look into them   |
//!
//! All of it is covered by the lock of the data directory.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fjall::compaction::Leveled;
use fjall::{Database, KeyspaceCreateOptions, LsmError, PersistMode};
use kringle_core::records::{Gap, Space};

use super::disk::Tables;
use super::header::{Format, Mark, Owner};
use super::journal::{self, Record, Seen};
use super::salvage::{Damage, Note};
use super::table::{is_damage, is_unreadable};
use super::{Opened, salvage};
use crate::home::{Home, HomeError, Slot, sync_dir};

/// Blocks of tables kept in memory.
const CACHE: u64 = 16 << 20;
/// The least the database accepts; all of it is replayed at a start.
const JOURNALS: u64 = 64 << 20;
/// New entries of one space that are kept in memory before they become a table.
pub(super) const MEMTABLE: u64 = if cfg!(test) { 256 << 10 } else { 8 << 20 };
/// Tables are small, so that the largest compaction (one table and about ten below it) is short, and finds room on a
/// disk that is as full as we let it become.
const TABLE: u64 = MEMTABLE / 2;
/// Files kept open.
const FILES_LEAST: usize = 16;
/// The table that counts commits; no space of the core has this name.
const ENGINE: &str = "engine";
/// The only key in it.
pub(super) const COMMITS: &[u8] = b"commits";
/// The database's own format that this build reads and writes.
pub(super) const VERSION: [u8; 4] = *b"FJL\x03";

/// Where the parts of a store are.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) home: PathBuf,
    pub(super) store: PathBuf,
    format: Slot,
    pub(super) mark: Slot,
    pub(super) note: Slot,
    pub(super) scrub: Slot,
    /// Set when what is under way is not wanted any more.
    pub(super) stop: Arc<AtomicBool>,
    /// Steps of a salvage until it ends as if the process had crashed.
    #[cfg(test)]
    pub(super) crash: Arc<std::sync::atomic::AtomicU32>,
}

/// Why a database was not opened.
#[derive(Debug)]
pub(super) enum Fault {
    /// It has lost something it had promised to keep, and does not know what.
    Damaged(String),
    /// Some of its tables cannot be read; the others can.
    Tables(String, salvage::Check),
    /// It may be fine; this is not the moment.
    Refused(HomeError),
}

impl From<HomeError> for Fault {
    fn from(error: HomeError) -> Fault {
        Fault::Refused(error)
    }
}

/// A store that was opened.
pub(super) struct Ready {
    pub(super) tables: Tables,
    pub(super) commits: u64,
    pub(super) opened: Opened,
    /// What the last salvage could not read and the core has not yet taken note of.
    pub(super) gaps: Vec<Gap>,
    pub(super) damage: Damage,
}

/// How tables are compacted.
pub(super) fn strategy() -> Leveled {
    Leveled::default().with_table_target_size(TABLE)
}

impl Files {
    pub(super) fn of(home: &Home) -> Files {
        Files {
            home: home.dir().to_owned(),
            store: home.dir().join("store"),
            format: home.slot("store.format"),
            mark: home.slot("store.mark"),
            note: home.slot("store.salvaged"),
            scrub: home.slot("store.scrub"),
            stop: Arc::default(),
            #[cfg(test)]
            crash: Arc::default(),
        }
    }

    /// Refuses a store that is not this node's, or of a format this build does not know. Returns its number if there is
    /// one.
    pub(super) fn judge(&self, home: &Home, owner: &Owner) -> Result<Option<u32>, HomeError> {
        let format = Format::read(home, &self.format, owner)?;
        if format.is_none() && (self.store.exists() || self.mark.exists()) {
            return Err(self.format.damaged("it is missing, although there is a store"));
        }
        Ok(format.filter(|format| format.made).map(|format| format.born))
    }

    /// Opens the store, or makes one. If tables are damaged, they are replaced by what can be read of them. A store that
    /// lost something and cannot say what is set aside, and an empty one made instead.
    pub(super) fn open(&self, born: Option<u32>, owner: &Owner) -> Result<Ready, HomeError> {
        let Some(born) = born else { return self.begin(owner, false) };
        self.finish_swap(born)?;
        let mut found = self.inspect(born);
        if let Err(Fault::Tables(why, check)) = found {
            tracing::error!(why, "the store has damaged tables: building a new one from what can be read");
            found = self.rebuild(born, check).and_then(|()| self.inspect(born));
        }
        match found {
            Ok((tables, commits, torn)) => {
                let note = Note::read(&self.note, born)?;
                let gaps = note.as_ref().map(Note::open_gaps).unwrap_or_default();
                let mut damage = note.map(|note| note.damage(&self.home)).unwrap_or_default();
                damage.torn_bytes = torn;
                let opened = Opened { fresh: false, suspect: false, born };
                Ok(Ready { tables, commits, opened, gaps, damage })
            }
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Damaged(why) | Fault::Tables(why, _)) => {
                let aside = self.set_aside()?;
                let kept = aside.as_deref().unwrap_or(Path::new("nothing")).display();
                tracing::error!(why, %kept, "the store can not be trusted: starting with an empty one");
                let mut ready = self.begin(owner, true)?;
                ready.damage.lost = Some(why);
                Ok(ready)
            }
        }
    }

    pub(super) fn begin(&self, owner: &Owner, suspect: bool) -> Result<Ready, HomeError> {
        let (tables, born) = self.make(owner)?;
        let opened = Opened { fresh: true, suspect, born };
        Ok(Ready { tables, commits: 0, opened, gaps: Vec::new(), damage: Damage::default() })
    }

    /// Makes an empty store where there is none, or where there is one that is not wanted any more.
    ///
    /// The format says first that it is being made: whenever this is interrupted, the next start begins it anew.
    pub(super) fn make(&self, owner: &Owner) -> Result<(Tables, u32), HomeError> {
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
        let tables = self.open_tables(&self.store).map_err(|fault| match fault {
            Fault::Refused(error) => error,
            Fault::Damaged(why) | Fault::Tables(why, _) => {
                HomeError::Damaged { path: self.store.clone(), why }
            }
        })?;
        sync_dir(&self.home).map_err(failed)?;
        self.mark.write_json(&Mark { born: format.born, commits: 0, condemned: false })?;
        format.made = true;
        self.format.write_json(&format)?;
        Ok((tables, format.born))
    }

    /// Opens the database that should be there and finds out whether it has kept everything. Also returns how many bytes at
    /// the end of its journal belong to a commit that was interrupted.
    fn inspect(&self, born: u32) -> Result<(Tables, u64, u64), Fault> {
        let damaged = |why: &str| Err(Fault::Damaged(why.to_owned()));
        let mark = self.read_mark(born)?;
        if !self.store.is_dir() {
            return damaged("the database is gone");
        }
        self.check_version()?;
        let seen = journal::look(&self.store, born).map_err(|e| HomeError::from_io(&self.store, e))?;
        let (tables, commits) = if mark.condemned {
            // Something could not be read. Everything is, before anything is promised again.
            let check = self.check(&self.store)?;
            if !check.is_good() {
                return Err(Fault::Tables(check.text(), check));
            }
            let (tables, commits) = self.open_or_mend(&self.store, born, &seen)?;
            tracing::warn!("the store failed to read something; now all of it can be read");
            self.mark.write_json(&Mark { condemned: false, ..mark })?;
            (tables, commits)
        } else {
            // What lists the tables is not checked by the database.
            salvage::check_lists(&self.store).or_else(|why| {
                let check = self.check(&self.store)?;
                Err(if check.is_good() { Fault::Damaged(why) } else { Fault::Tables(why, check) })
            })?;
            self.open_or_mend(&self.store, born, &seen)?
        };
        Files::check_count(commits, &mark, &seen)?;
        let torn = seen.behind(commits);
        if torn > 0 {
            let dropped = seen.commits.saturating_sub(commits);
            tracing::warn!(
                bytes = torn,
                commits = dropped,
                "dropped a torn end of the journal: never acknowledged"
            );
        }
        Ok((tables, commits, torn))
    }

    pub(super) fn read_mark(&self, born: u32) -> Result<Mark, Fault> {
        let path = self.mark.path().display();
        let Some(bytes) = self.mark.read()? else {
            return Err(Fault::Damaged(format!("{path}, its mark, is missing")));
        };
        let Ok(mark) = serde_json::from_slice::<Mark>(&bytes) else {
            return Err(Fault::Damaged(format!("{path}, its mark, cannot be read")));
        };
        if mark.born != born {
            return Err(self.mark.damaged("it belongs to another store").into());
        }
        Ok(mark)
    }

    /// Writes down that something could not be read: at the next start, everything is.
    pub(super) fn condemn(&self, born: u32) -> Result<(), HomeError> {
        match self.read_mark(born) {
            Ok(mark) => self.mark.write_json(&Mark { condemned: true, ..mark }),
            Err(Fault::Refused(error)) => Err(error),
            // That is noticed anyway.
            Err(_) => Ok(()),
        }
    }

    /// Says whether a database that knows of so many commits has kept everything.
    pub(super) fn check_count(commits: u64, mark: &Mark, seen: &Seen) -> Result<(), Fault> {
        if commits < mark.commits {
            let lost = mark.commits - commits;
            return Err(Fault::Damaged(format!("{lost} commits are missing, of {}", mark.commits)));
        }
        if seen.commits > commits + 1 {
            let newest = seen.newest.as_deref().unwrap_or(Path::new("its journal")).display();
            return Err(Fault::Damaged(format!("{newest} is damaged in the middle")));
        }
        Ok(())
    }

    /// Refuses a database that a later version has written. It is no damage, and may not be thrown away.
    fn check_version(&self) -> Result<(), Fault> {
        let path = self.store.join("version");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if is_damage(&e) => return Err(Fault::Damaged(format!("{} is missing", path.display()))),
            Err(e) => return Err(HomeError::from_io(&path, e).into()),
        };
        match bytes.strip_prefix(&VERSION[..3]).and_then(<[u8]>::first) {
            Some(found) if *found > VERSION[3] => {
                Err(HomeError::Newer { path, found: u32::from(*found), known: u32::from(VERSION[3]) }.into())
            }
            _ => Ok(()),
        }
    }

    /// Opens a database; if that fails although its tables are good, it is the end of its journal.
    pub(super) fn open_or_mend(&self, dir: &Path, born: u32, seen: &Seen) -> Result<(Tables, u64), Fault> {
        let why = match self.open_counted(dir, born) {
            Err(Fault::Damaged(why)) => why,
            Err(Fault::Refused(HomeError::Io { source, .. })) if is_unreadable(&source) => source.to_string(),
            other => return other,
        };
        let check = self.check(dir)?;
        if !check.is_good() {
            return Err(Fault::Tables(why, check));
        }
        self.mend(dir, born, seen, why)
    }

    /// A loss of power may leave any mixture of old and new bytes where the last commit was being written, and the
    /// database takes some of those for damage. That commit was never reported: without it, the store is whole.
    fn mend(&self, dir: &Path, born: u32, seen: &Seen, why: String) -> Result<(Tables, u64), Fault> {
        let Some(newest) = &seen.newest else { return Err(Fault::Damaged(why)) };
        for at in &seen.cuts {
            journal::cut(newest, *at).map_err(|e| HomeError::from_io(newest, e))?;
            match self.open_counted(dir, born) {
                Err(Fault::Damaged(_)) => {}
                Ok(opened) => {
                    tracing::warn!(why, "the last commit was interrupted; it was never reported");
                    return Ok(opened);
                }
                Err(refused) => return Err(refused),
            }
        }
        Err(Fault::Damaged(format!("{}: {why}", newest.display())))
    }

    /// Opens the database and reads how many commits it knows.
    fn open_counted(&self, dir: &Path, born: u32) -> Result<(Tables, u64), Fault> {
        let tables = self.open_tables(dir)?;
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

    pub(super) fn open_tables(&self, dir: &Path) -> Result<Tables, Fault> {
        // Some damage is found by assertions of the database.
        let opened = catch_unwind(AssertUnwindSafe(|| -> fjall::Result<Tables> {
            let db = Database::builder(dir)
                .cache_size(CACHE)
                .max_journaling_size(JOURNALS)
                .max_cached_files(Some(
                    crate::descriptors::shares().map_or(FILES_LEAST, |shares| shares.tables()),
                ))
                // A second one would turn in circles while the first compacts.
                .worker_threads(1)
                .open()?;
            let table = |name: &str| {
                db.keyspace(name, || {
                    KeyspaceCreateOptions::default()
                        // The writer sees to it: see `Task::make_room`.
                        .max_memtable_size(4 * MEMTABLE)
                        .compaction_strategy(Arc::new(strategy()))
                })
            };
            // The order numbers them in a new database: see `salvage`.
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
    pub(super) fn fault(&self, error: fjall::Error) -> Fault {
        match error {
            fjall::Error::Io(e) | fjall::Error::Storage(LsmError::Io(e)) if !is_damage(&e) => {
                HomeError::from_io(&self.store, e).into()
            }
            fjall::Error::Locked => HomeError::InUse { path: self.store.clone(), pid: None }.into(),
            fjall::Error::InvalidVersion(Some(version)) => {
                let why = format!("it was written by another version of the engine ({version:?})");
                HomeError::Damaged { path: self.store.clone(), why }.into()
            }
            // The list of tables has been checked: a later version wrote it.
            fjall::Error::Storage(LsmError::InvalidVersion(found)) => {
                let (path, known) = (self.store.clone(), u32::from(VERSION[3]));
                HomeError::Newer { path, found: u32::from(found), known }.into()
            }
            error => Fault::Damaged(error.to_string()),
        }
    }

    /// Moves a store out of the way.
    pub(super) fn set_aside(&self) -> Result<Option<PathBuf>, HomeError> {
        if !self.store.exists() {
            return Ok(None);
        }
        let failed = |e| HomeError::from_io(&self.home, e);
        let aside = self.home.join(self.next_aside()?);
        fs::rename(&self.store, &aside).map_err(failed)?;
        sync_dir(&self.home).map_err(failed)?;
        Ok(Some(aside))
    }

    /// Returns a name for a damaged store. Of those that were kept, all but the last are removed: they would fill the disk.
    pub(super) fn next_aside(&self) -> Result<String, HomeError> {
        const ASIDE: &str = "store.damaged-";
        let failed = |e| HomeError::from_io(&self.home, e);
        let mut kept: Vec<(u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.home).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if let Some(number) = entry.file_name().to_str().and_then(|name| name.strip_prefix(ASIDE)) {
                kept.push((number.parse().unwrap_or(0), entry.path()));
            }
        }
        kept.sort();
        let last = kept.pop().map_or(0, |(number, _)| number);
        for (_, path) in kept {
            fs::remove_dir_all(&path).map_err(|e| HomeError::from_io(&path, e))?;
        }
        Ok(format!("{ASIDE}{}", last + 1))
    }
}
