//! A new database from what can be read of a damaged one.
//!
//! It is made beside the old one, as `store.salvage`: good tables are linked, damaged ones written anew from their good
//! blocks, journals copied. What the bad blocks covered are *gaps*: ranges of keys of which something may be missing. What
//! is found in a gap and may be older than what is missing is removed. Then `store.salvaged` is written, which says that
//! the new one is complete and what its gaps are, and the two change places. A crash at any moment leaves the old one, or
//! the new one and its gaps. The core is told of the gaps at every start until it has written down what it makes of them.
//!
//! It is the same store afterwards, with the same number, because all it has lost are its gaps. If that cannot be said,
//! the store is lost: the list of tables of a space is damaged, or something of the space `meta`, which the core cannot
//! get from other replicas.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use fjall::{OwnedWriteBatch, PersistMode};
use kringle_core::records::{Bytes, Gap, Space};
use lsm_tree::AbstractTree;
use serde::{Deserialize, Serialize};

use super::disk::Tables;
use super::files::{COMMITS, Fault, Files, VERSION};
use super::journal::{self, Record};
use super::table::{Hole, Manifest};
use crate::clock::unix_ms;
use crate::home::{HomeError, Slot, sync_dir};
use crate::identity::text;

/// Keyspaces as the database numbers them: its own, the spaces of the core, and the one that counts commits.
const OWN: usize = 0;
const COUNT: usize = Space::ALL.len() + 2;
/// Files that are named in a report.
const NAMED: usize = 16;

/// What was found damaged in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// How often damaged tables were replaced.
    pub times: u32,
    /// When that was last, in milliseconds since 1970.
    pub at_ms: u64,
    /// The files that were damaged then, at most 16.
    pub files: Vec<String>,
    /// Ranges of keys of which something may have been missing then.
    pub gaps: u64,
    /// Bytes in the blocks that were lost then, and entries, as far as that is known.
    pub bytes: u64,
    /// See `bytes`.
    pub entries: u64,
    /// Where the damaged store was kept.
    pub kept: Option<String>,
    /// Bytes at the end of the journal that the last start dropped: a commit that was never acknowledged.
    pub torn_bytes: u64,
    /// Why the store was lost and had to begin empty, if it was.
    pub lost: Option<String>,
}

/// `store.salvaged`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Note {
    born: u32,
    at_ms: u64,
    times: u32,
    /// Whether the new store is in its place.
    swapped: bool,
    /// Whether the core has taken note of the gaps.
    settled: bool,
    /// What the damaged store is called now.
    aside: String,
    files: Vec<String>,
    bytes: u64,
    entries: u64,
    gaps: Vec<GapText>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GapText {
    space: String,
    from: String,
    to: String,
}

impl GapText {
    fn gap(&self) -> Option<Gap> {
        let space = Space::ALL.iter().find(|space| space.name() == self.space)?;
        let bytes = |hex: &str| text::unhex(hex).map(Bytes::from);
        Some(Gap { space: *space, from: bytes(&self.from)?, to: bytes(&self.to)? })
    }
}

impl Note {
    /// Reads the note about a store, if there is one.
    pub(super) fn read(slot: &Slot, born: u32) -> Result<Option<Note>, HomeError> {
        let Some(bytes) = slot.read()? else { return Ok(None) };
        let note: Note = serde_json::from_slice(&bytes).map_err(|e| slot.damaged(e.to_string()))?;
        if note.gaps.iter().any(|gap| gap.gap().is_none()) {
            return Err(slot.damaged("it names a gap that is none"));
        }
        Ok(Some(note).filter(|note| note.born == born))
    }

    /// Returns the gaps the core has not taken note of.
    pub(super) fn open_gaps(&self) -> Vec<Gap> {
        let gaps = self.gaps.iter().filter(|_| !self.settled);
        gaps.filter_map(GapText::gap).collect()
    }

    pub(super) fn damage(self, home: &Path) -> Damage {
        let kept = home.join(&self.aside);
        Damage {
            times: self.times,
            at_ms: self.at_ms,
            files: self.files,
            gaps: self.gaps.len() as u64,
            bytes: self.bytes,
            entries: self.entries,
            kept: kept.exists().then(|| kept.display().to_string()),
            ..Damage::default()
        }
    }
}

/// Which parts of a database cannot be read.
#[derive(Debug)]
pub(super) struct Check {
    keyspaces: Vec<Checked>,
    /// Whether the file that says what wrote it does not.
    version: Option<PathBuf>,
}

struct Checked {
    folder: PathBuf,
    /// The list of its tables, or why that cannot be read.
    list: Result<Manifest, String>,
    /// The damaged ones.
    bad: Vec<usize>,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checked")
            .field("folder", &self.folder)
            .field("bad", &self.bad)
            .finish_non_exhaustive()
    }
}

impl Check {
    pub(super) fn is_good(&self) -> bool {
        self.version.is_none()
            && self.keyspaces.iter().all(|space| space.list.is_ok() && space.bad.is_empty())
    }

    /// Returns the files that are damaged.
    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.version.iter().cloned().collect();
        for space in &self.keyspaces {
            match &space.list {
                Ok(list) => files.extend(space.bad.iter().map(|at| list.path(&list.tables[*at]))),
                Err(_) => files.push(space.folder.join("current")),
            }
        }
        files
    }

    /// Names the damaged files.
    pub(super) fn text(&self) -> String {
        let files = self.files();
        let names: Vec<String> = files.iter().take(4).map(|path| path.display().to_string()).collect();
        let more = if files.len() > 4 { format!(" and {} more", files.len() - 4) } else { String::new() };
        format!("damaged: {}{more}", names.join(", "))
    }
}

/// Checks what lists the tables of a database.
pub(super) fn check_lists(store: &Path) -> Result<(), String> {
    (0..COUNT).try_for_each(|number| match Manifest::read(&folder(store, number)) {
        Ok(_) | Err(Fault::Refused(_)) => Ok(()),
        Err(Fault::Damaged(why) | Fault::Tables(why, _)) => Err(why),
    })
}

fn folder(store: &Path, number: usize) -> PathBuf {
    store.join("keyspaces").join(number.to_string())
}

impl Files {
    /// Reads everything and says what is damaged.
    pub(super) fn check(&self, store: &Path) -> Result<Check, Fault> {
        let mut keyspaces = Vec::new();
        for number in 0..COUNT {
            let folder = folder(store, number);
            let list = match Manifest::read(&folder) {
                Ok(list) => Ok(list),
                Err(Fault::Damaged(why) | Fault::Tables(why, _)) => Err(why),
                Err(refused) => return Err(refused),
            };
            let mut bad = Vec::new();
            for (at, table) in list.iter().flat_map(|list| &list.tables).enumerate() {
                self.go_on()?;
                if let Ok(list) = &list
                    && !list.is_intact(table, &mut |_| {})?
                {
                    bad.push(at);
                }
            }
            keyspaces.push(Checked { folder, list, bad });
        }
        let version = store.join("version");
        let version =
            Some(version).filter(|path| fs::read(path).is_ok_and(|bytes| !bytes.starts_with(&VERSION[..3])));
        Ok(Check { keyspaces, version })
    }

    /// Builds a new database from what can be read, and puts it into the place of the damaged one.
    pub(super) fn rebuild(&self, born: u32, check: Check) -> Result<(), Fault> {
        let files = check.files();
        let mark = self.read_mark(born)?;
        let mut note = match Note::read(&self.note, born)? {
            Some(note) => note,
            None => Note {
                born,
                at_ms: 0,
                times: 0,
                swapped: true,
                settled: true,
                aside: String::new(),
                files: Vec::new(),
                bytes: 0,
                entries: 0,
                gaps: Vec::new(),
            },
        };
        // What the core has not taken note of yet stays in doubt.
        note.gaps.retain(|_| !note.settled);
        (note.bytes, note.entries) = (0, 0);

        let new = self.home.join("store.salvage");
        remove(&new)?;
        copy(&self.store, &new, false)?;
        self.go_on()?;
        let mut holes = Vec::new();
        for (number, space) in check.keyspaces.into_iter().enumerate() {
            let target = folder(&new, number);
            let mut list = match space.list {
                Ok(list) => list,
                Err(_) if number == OWN => {
                    self.replace_own(&target)?;
                    continue;
                }
                Err(why) => return Err(Fault::Damaged(why)),
            };
            if space.bad.is_empty() {
                continue;
            }
            let mut is_whole = true;
            for at in space.bad {
                self.go_on()?;
                let mended = list.mend(at, &target)?;
                // What the database keeps for itself is the same everywhere, and not lost.
                if number != OWN {
                    note.bytes += mended.bytes;
                    note.entries += mended.entries.unwrap_or(0);
                }
                let before = holes.len();
                holes.extend(mended.into_holes().map(|hole| (number, hole)));
                is_whole &= holes.len() == before;
                if !is_whole && number == Space::Meta as usize + 1 {
                    let path = list.path(&list.tables[at]);
                    return Err(Fault::Damaged(format!(
                        "{} is damaged, and its like is nowhere",
                        path.display()
                    )));
                }
            }
            if number == OWN && !is_whole {
                self.replace_own(&target)?;
                continue;
            }
            list.write(&target)?;
        }
        if check.version.is_some() {
            let path = new.join("version");
            fs::write(&path, VERSION).map_err(|e| HomeError::from_io(&path, e))?;
        }
        sync_tree(&new)?;
        self.go_on()?;

        // The new one may have to be mended at the end of its journal, as any other.
        let failed = |e| HomeError::from_io(&new, e);
        let seen = journal::look(&new, born).map_err(failed)?;
        let (tables, commits) = self.open_or_mend(&new, born, &seen)?;
        Files::check_count(commits, &mark, &seen)?;
        if !is_numbered(&tables) {
            return Err(Fault::Damaged("the spaces of the store have other numbers than they should".into()));
        }
        self.clear(&tables, &holes, Record { born, commits: commits + 1, ticket: 0 })?;
        drop(tables);
        self.go_on()?;

        for (number, hole) in holes {
            // The last one counts commits, and has been judged by its count.
            let Some(space) = number.checked_sub(1).and_then(|at| Space::ALL.get(at)) else { continue };
            let (from, to) = (text::hex(&hole.from), text::hex(&hole.to));
            note.gaps.push(GapText { space: space.name().to_owned(), from, to });
        }
        let name = |path: &PathBuf| path.strip_prefix(&self.home).unwrap_or(path).display().to_string();
        note.files = files.iter().take(NAMED).map(name).collect();
        (note.swapped, note.settled) = (false, note.gaps.is_empty());
        (note.at_ms, note.times) = (unix_ms(), note.times + 1);
        note.aside = self.next_aside()?;
        self.note.write_json(&note)?;
        self.go_on()?;
        self.finish_swap(born)?;
        let kept = self.home.join(&note.aside);
        tracing::error!(
            files = ?note.files, gaps = note.gaps.len(), bytes = note.bytes, entries = note.entries, kept = %kept.display(),
            "the store goes on without what could not be read"
        );
        Ok(())
    }

    /// Puts a new store into its place, if one is complete and not there yet.
    pub(super) fn finish_swap(&self, born: u32) -> Result<(), HomeError> {
        let Some(mut note) = Note::read(&self.note, born)?.filter(|note| !note.swapped) else {
            return Ok(());
        };
        let failed = |e| HomeError::from_io(&self.home, e);
        let (new, aside) = (self.home.join("store.salvage"), self.home.join(&note.aside));
        if new.exists() {
            if self.store.exists() {
                fs::rename(&self.store, &aside).map_err(failed)?;
                sync_dir(&self.home).map_err(failed)?;
            }
            self.go_on()?;
            fs::rename(&new, &self.store).map_err(failed)?;
            sync_dir(&self.home).map_err(failed)?;
            self.go_on()?;
        }
        // All of it was read, and what could not be is gone.
        if let Ok(mark) = self.read_mark(born) {
            self.mark.write_json(&super::header::Mark { condemned: false, ..mark })?;
        }
        self.go_on()?;
        note.swapped = true;
        self.note.write_json(&note)
    }

    /// Writes down that the core has taken note of all gaps.
    pub(super) fn settle(&self, born: u32) -> Result<(), HomeError> {
        match Note::read(&self.note, born)? {
            Some(note) if !note.settled => self.note.write_json(&Note { settled: true, ..note }),
            _ => Ok(()),
        }
    }

    /// Replaces the database's own keyspace, which holds nothing but the names and settings of the others: those are the
    /// same in every store.
    fn replace_own(&self, target: &Path) -> Result<(), Fault> {
        let scratch = self.home.join("store.scratch");
        remove(&scratch)?;
        fs::create_dir(&scratch).map_err(|e| HomeError::from_io(&scratch, e))?;
        drop(self.open_tables(&scratch)?);
        remove(target)?;
        copy(&folder(&scratch, OWN), target, true)?;
        remove(&scratch)?;
        Ok(())
    }

    /// Removes what is in a hole and may be older than what is missing there.
    fn clear(&self, tables: &Tables, holes: &[(usize, Hole)], record: Record) -> Result<(), Fault> {
        let mut batch =
            OwnedWriteBatch::with_capacity(tables.db.clone(), 1).durability(Some(PersistMode::SyncAll));
        for (number, hole) in holes {
            let Some(space) = number.checked_sub(1).and_then(|at| tables.spaces.get(at)) else {
                continue;
            };
            for entry in space.range(hole.from.clone()..hole.to.clone()) {
                let key = entry.key().map_err(|error| self.fault(error))?;
                let found =
                    space.tree.get_internal_entry(&key, u64::MAX).map_err(|e| self.fault(e.into()))?;
                if hole.covers(&key, found.map(|entry| entry.key.seqno)) {
                    batch.remove(space, key);
                }
            }
        }
        batch.insert(&tables.engine, COMMITS, record.encode());
        batch.commit().map_err(|error| self.fault(error))
    }

    /// Says whether to go on: not if the node has ended meanwhile.
    fn go_on(&self) -> Result<(), HomeError> {
        let ends = || Err(HomeError::from_io(&self.store, io::ErrorKind::Interrupted.into()));
        #[cfg(test)]
        match self.crash.load(Ordering::Relaxed) {
            0 => {}
            1 => return ends(),
            left => self.crash.store(left - 1, Ordering::Relaxed),
        }
        if self.stop.load(Ordering::Relaxed) { ends() } else { Ok(()) }
    }
}

/// Says whether spaces are numbered as they are in a new store.
fn is_numbered(tables: &Tables) -> bool {
    let mut spaces = tables.spaces.iter().chain([&tables.engine]).zip(1..);
    spaces.all(|(space, number)| space.tree.tree_config().path.ends_with(folder(Path::new(""), number)))
}

fn remove(dir: &Path) -> Result<(), HomeError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(HomeError::from_io(dir, e)),
        _ => Ok(()),
    }
}

/// Copies a database that is closed. Tables are never changed, so a link will do; unless `all` is to be copied.
fn copy(from: &Path, to: &Path, all: bool) -> Result<(), HomeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |e| HomeError::from_io(&path, e)
    };
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(to).map_err(failed(to))?;
    let is_tables = from.file_name().is_some_and(|name| name == "tables");
    for entry in fs::read_dir(from).map_err(failed(from))? {
        let source = entry.map_err(failed(from))?.path();
        let Some(name) = source.file_name() else { continue };
        let target = to.join(name);
        if source.is_dir() {
            copy(&source, &target, all)?;
        } else if all || !is_tables || fs::hard_link(&source, &target).is_err() {
            match fs::copy(&source, &target) {
                // A table that cannot be read is written anew from what can.
                Err(e) if is_tables && e.kind() != io::ErrorKind::StorageFull => {}
                copied => drop(copied.map_err(failed(&target))?),
            }
        }
    }
    Ok(())
}

/// Makes what was copied last.
fn sync_tree(dir: &Path) -> Result<(), HomeError> {
    let failed = |e| HomeError::from_io(dir, e);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            File::open(&path).and_then(|file| file.sync_all()).map_err(|e| HomeError::from_io(&path, e))?;
        }
    }
    sync_dir(dir).map_err(failed)
}
