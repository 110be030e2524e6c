//! Where a node keeps what it stores: in memory, or in a database on the disk.
//!
//! The node's thread holds an [`Engine`]. It reads from it directly, as [`Records`]; what it asks to persist shows at
//! once (`overlay`) and is made durable by a thread of its own (`writer`), which reports how far it has come. `disk`
//! works with the database; `files` opens it and decides whether it can be trusted, with the help of two small files
//! beside it (`header`) and a look at its journal (`journal`). If tables are damaged, `salvage` builds another database
//! from what can be read (`table`); `scrub` looks for damage. `room` watches the free space.

use std::path::Path;
use std::sync::Arc;

use kringle_core::records::{Bytes, Gap, MemoryRecords, Records, Space, Write};
use tokio::sync::Notify;

use crate::home::{Home, HomeError};

mod compacting;
mod disk;
mod files;
mod header;
mod journal;
mod overlay;
mod room;
mod salvage;
mod scrub;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use header::Owner;
pub use room::{Free, MIN_FREE, Room, free_space};
pub use salvage::Damage;
pub use scrub::{SCRUB_EVERY, SCRUB_RATE, Scrub};
pub use writer::Figures;

/// The longest key a store on the disk can take, with everything the core puts around it.
pub const KEY_MAX: usize = writer::KEY_MAX;

/// Where a node stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Nowhere: it routes for others.
    None,
    /// In memory; gone when it ends.
    Memory,
    /// In its data directory.
    Disk,
}

/// What was found when a store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Whether it begins empty.
    pub fresh: bool,
    /// Whether there was one that had lost something it had promised to keep. Then it begins empty, too.
    pub suspect: bool,
    /// Names this filling of the store: another number each time it begins empty, and never 0.
    pub born: u32,
}

/// Why a store can not go on: the disk failed, or the database did. What was reported as durable is; what was not, may
/// or may not be there after a restart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct StoreError {
    what: String,
    /// What can be done about it.
    pub cause: Cause,
}

/// A disk with less room is full.
const FULL: u64 = 1 << 20;

/// What can be done about a store that cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing: the disk does not do what it should.
    Disk,
    /// The disk is full. What was asked for last is not there; with room, the store can be opened again.
    Full,
    /// The database refuses to go on, probably because it met something it cannot read. See [`Engine::repair`].
    Database,
}

impl StoreError {
    pub(crate) fn disk(what: impl Into<String>) -> StoreError {
        StoreError { what: what.into(), cause: Cause::Disk }
    }

    /// Looks at the disk once more: a worker of the database that met a full one does not say so.
    fn on_disk(mut self, folder: &Path) -> StoreError {
        if self.cause == Cause::Database && free_space(folder).is_ok_and(|free| free < FULL) {
            self.cause = Cause::Full;
        }
        self
    }

    /// Sorts an error of the database while it writes.
    fn of(error: &fjall::Error) -> StoreError {
        use std::io::ErrorKind::StorageFull;
        let cause = match error {
            fjall::Error::Io(e) | fjall::Error::Storage(fjall::LsmError::Io(e))
                if e.kind() == StorageFull =>
            {
                Cause::Full
            }
            fjall::Error::Io(_) => Cause::Disk,
            fjall::Error::Storage(_) | fjall::Error::Poisoned => Cause::Database,
            _ => Cause::Disk,
        };
        StoreError { what: format!("the disk failed: {error}"), cause }
    }
}

/// What a node stores.
///
/// Made for one thread; nothing here waits for the disk, except opening, [`Engine::wipe`] and [`Engine::close`].
pub struct Engine(Kind);

enum Kind {
    None,
    Memory { records: MemoryRecords, born: u32 },
    Disk(Box<disk::Disk>),
}

impl Engine {
    /// Stores nothing.
    pub fn none() -> Engine {
        Engine(Kind::None)
    }

    /// Stores in memory.
    pub fn memory() -> std::io::Result<(Engine, Opened)> {
        let born = header::birth()?;
        let engine = Engine(Kind::Memory { records: MemoryRecords::default(), born });
        Ok((engine, Opened { fresh: true, suspect: false, born }))
    }

    /// Stores in a data directory, in which there may be a store already. It must be the owner's.
    ///
    /// A store that can not be trusted is set aside and replaced by an empty one; see [`Opened::suspect`].
    pub fn disk(home: &Home, owner: Owner) -> Result<(Engine, Opened), HomeError> {
        let (disk, opened) = disk::Disk::open(home, owner)?;
        Ok((Engine(Kind::Disk(Box::new(disk))), opened))
    }

    /// Says whether there is a store in a data directory.
    pub fn is_in(home: &Home) -> bool {
        home.slot("store.format").exists()
    }

    /// Returns the number of this filling of the store; 0 if there is no store.
    pub fn born(&self) -> u32 {
        match &self.0 {
            Kind::None => 0,
            Kind::Memory { born, .. } => *born,
            Kind::Disk(disk) => disk.born(),
        }
    }

    /// Stores these, all or none, after everything asked for before. They show at once. Returns the ticket if they are
    /// as durable as they will ever be; otherwise see [`Engine::progress`].
    pub fn persist(&mut self, ticket: u64, writes: Vec<Write>) -> Option<u64> {
        match &mut self.0 {
            Kind::None => None,
            Kind::Memory { records, .. } => {
                records.apply(writes);
                Some(ticket)
            }
            Kind::Disk(disk) => {
                disk.persist(ticket, writes);
                None
            }
        }
    }

    /// Returns the highest ticket that has become durable since the last call. To be called when [`Engine::wake`] says
    /// so, and every now and then.
    pub fn progress(&mut self) -> Result<Option<u64>, StoreError> {
        match &mut self.0 {
            Kind::None | Kind::Memory { .. } => Ok(None),
            Kind::Disk(disk) => disk.progress(),
        }
    }

    /// Returns what is notified when there is progress, if that takes time. It stays the same for ever.
    pub fn wake(&self) -> Option<Arc<Notify>> {
        match &self.0 {
            Kind::None | Kind::Memory { .. } => None,
            Kind::Disk(disk) => Some(disk.wake().clone()),
        }
    }

    /// Says what could not be read, if anything. What was read since then may lack something: nothing that follows
    /// from it may leave the node. See [`Engine::repair`].
    pub fn trouble(&self) -> Option<&str> {
        match &self.0 {
            Kind::None | Kind::Memory { .. } => None,
            Kind::Disk(disk) => disk.trouble(),
        }
    }

    /// Returns the ranges of keys that could not be read when the store was opened, and were not told to the core yet.
    pub fn gaps(&self) -> &[Gap] {
        match &self.0 {
            Kind::None | Kind::Memory { .. } => &[],
            Kind::Disk(disk) => disk.gaps(),
        }
    }

    /// Returns what was found damaged, now and in earlier runs.
    pub fn damage(&self) -> Option<&Damage> {
        match &self.0 {
            Kind::None | Kind::Memory { .. } => None,
            Kind::Disk(disk) => Some(disk.damage()),
        }
    }

    /// Begins to read everything on the disk in the background, at most so many bytes per second; unless that is under way.
    pub fn scrub(&mut self, rate: u64) -> Result<(), HomeError> {
        match &mut self.0 {
            Kind::None | Kind::Memory { .. } => Ok(()),
            Kind::Disk(disk) => disk.scrub(rate),
        }
    }

    /// Tells about the scrub under way, or the last one.
    pub fn scrub_report(&self) -> Option<Scrub> {
        match &self.0 {
            Kind::None | Kind::Memory { .. } => None,
            Kind::Disk(disk) => Some(disk.scrub_report()),
        }
    }

    /// Takes what a scrub has found since the last call: keys whose record is not what it was. If tables are damaged,
    /// [`Engine::trouble`] says so afterwards.
    pub fn scrub_found(&mut self) -> Vec<Gap> {
        match &mut self.0 {
            Kind::None | Kind::Memory { .. } => Vec::new(),
            Kind::Disk(disk) => disk.scrub_found(),
        }
    }

    /// Closes the store as a crash would and opens it again, on a thread of its own; until then it is a store of nothing.
    /// `deep`: everything is read first, and tables that cannot be are replaced by what can be read of them.
    pub fn repair(&mut self, deep: bool) -> Result<(), HomeError> {
        match &mut self.0 {
            Kind::None | Kind::Memory { .. } => Ok(()),
            Kind::Disk(disk) => disk.repair(deep),
        }
    }

    /// Says what came of [`Engine::repair`], once it has ended. [`Engine::wake`] is notified then.
    pub fn repaired(&mut self) -> Option<Result<Opened, HomeError>> {
        match &mut self.0 {
            Kind::None | Kind::Memory { .. } => None,
            Kind::Disk(disk) => disk.repaired(),
        }
    }

    /// Says whether a repair is under way.
    pub fn is_in_repair(&self) -> bool {
        matches!(&self.0, Kind::Disk(disk) if disk.is_in_repair())
    }

    /// Returns what the storage thread has done so far.
    pub fn figures(&self) -> Figures {
        match &self.0 {
            Kind::None | Kind::Memory { .. } => Figures::default(),
            Kind::Disk(disk) => disk.figures(),
        }
    }

    /// Forgets everything, for a node that begins a new life and must not be bound by what it kept from an old one.
    /// Returns the number of the new filling. Tickets may begin again; no earlier one is reported any more. If it
    /// fails, the store is closed, and begins empty at the next start.
    pub fn wipe(&mut self) -> Result<u32, HomeError> {
        match &mut self.0 {
            Kind::None => Ok(0),
            Kind::Memory { records, born } => {
                // Any other number will do if the system has no random one.
                let fresh = header::birth().unwrap_or_else(|_| born.checked_add(1).unwrap_or(1));
                (*records, *born) = (MemoryRecords::default(), fresh);
                Ok(fresh)
            }
            Kind::Disk(disk) => disk.wipe(),
        }
    }

    /// Gives the store another name, as a damaged one, and begins with an empty one. Returns the number of the new filling.
    pub fn set_aside(&mut self, why: &str) -> Result<u32, HomeError> {
        if let Kind::Disk(disk) = &mut self.0 {
            disk.keep_aside()?;
        }
        self.lose(why)
    }

    /// Does the same because the store cannot be relied on, and remembers why.
    pub fn lose(&mut self, why: &str) -> Result<u32, HomeError> {
        let born = self.wipe()?;
        if let Kind::Disk(disk) = &mut self.0 {
            disk.blame(why);
        }
        Ok(born)
    }

    /// Closes the store. If `clean`, everything asked for is durable afterwards; otherwise it ends as in a crash.
    /// Afterwards it is a store of nothing.
    pub fn close(&mut self, clean: bool) {
        if let Kind::Disk(disk) = &mut self.0 {
            disk.close(clean);
        }
        // With it goes the lock of the directory.
        self.0 = Kind::None;
    }

    #[cfg(test)]
    pub(crate) fn flush(&self) {
        match &self.0 {
            Kind::Disk(disk) => disk.flush(),
            _ => panic!("there is no disk"),
        }
    }

    /// Lets the next commit fail as if the disk had.
    #[cfg(test)]
    pub(crate) fn break_disk(&self) {
        self.fail_next(StoreError::disk("the disk was broken by a test"));
    }

    /// Lets the next commit fail as if the database had met a bad block.
    #[cfg(test)]
    pub(crate) fn break_database(&self) {
        self.fail_next(StoreError::of(&fjall::Error::Poisoned));
    }

    /// Lets the next commit fail as if the disk were full.
    #[cfg(test)]
    pub(crate) fn fill_disk(&self) {
        self.fail_next(StoreError::of(&fjall::Error::Io(std::io::ErrorKind::StorageFull.into())));
    }

    #[cfg(test)]
    fn fail_next(&self, error: StoreError) {
        match &self.0 {
            Kind::Disk(disk) => disk.break_disk(error),
            _ => panic!("there is no disk"),
        }
    }
}

impl Records for Engine {
    fn read(&self, space: Space, key: &[u8]) -> Option<Bytes> {
        match &self.0 {
            Kind::None => None,
            Kind::Memory { records, .. } => records.read(space, key),
            Kind::Disk(disk) => disk.read(space, key),
        }
    }

    fn scan(&self, space: Space, from: &[u8], to: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        match &self.0 {
            Kind::None => {}
            Kind::Memory { records, .. } => records.scan(space, from, to, each),
            Kind::Disk(disk) => disk.scan((space, from, to), each),
        }
    }
}
