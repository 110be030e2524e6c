//! A store on the disk: one database, one table per space.

use std::cell::OnceCell;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use fjall::{Database, Keyspace};
use kringle_core::records::{Bytes, Gap, Space, Write};
use tokio::sync::Notify;

use super::files::{Files, Ready};
use super::header::Owner;
use super::overlay::Overlay;
use super::salvage::Damage;
use super::scrub::{Found, Scrub, Scrubber};
use super::writer::{Figures, KEY_MAX, Writer};
use super::{Opened, StoreError};
use crate::home::{Home, HomeError};

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
    gaps: Vec<Gap>,
    damage: Damage,
    /// While it is being opened again.
    repair: Option<Repair>,
    scrubber: Scrubber,
}

struct Repair {
    thread: JoinHandle<()>,
    outcome: Arc<OnceLock<Result<Ready, HomeError>>>,
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

impl Disk {
    /// Opens the store of a data directory, or makes one; see [`Files::open`].
    pub(super) fn open(home: &Home, owner: Owner) -> Result<(Disk, Opened), HomeError> {
        let files = Files::of(home);
        let born = files.judge(home, &owner)?;
        let ready = files.open(born, &owner)?;
        let wake = Arc::new(Notify::new());
        let (opened, scrubber) = (ready.opened, Scrubber::new(files.scrub.clone()));
        let mut disk = Disk {
            files,
            owner,
            open: None,
            wake,
            reported: 0,
            born: opened.born,
            trouble: OnceCell::new(),
            gaps: Vec::new(),
            damage: Damage::default(),
            repair: None,
            scrubber,
        };
        disk.take(ready)?;
        Ok((disk, opened))
    }

    /// Begins to work with a store that was opened.
    fn take(&mut self, ready: Ready) -> Result<(), HomeError> {
        let Ready { tables, commits, opened, gaps, damage } = ready;
        let writer =
            Writer::start(tables.clone(), self.files.mark.clone(), (opened.born, commits), &self.wake)
                .map_err(|e| HomeError::from_io(&self.files.store, e))?;
        self.open = Some(Open { overlay: Overlay::default(), writer, tables });
        (self.born, self.reported, self.trouble) = (opened.born, 0, OnceCell::new());
        (self.gaps, self.damage) = (gaps, damage);
        Ok(())
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
        let done = open.writer.done()?;
        if done <= self.reported {
            return Ok(None);
        }
        self.reported = done;
        open.overlay.settle(done);
        if !std::mem::take(&mut self.gaps).is_empty() {
            // The first thing the core wrote is what it makes of the gaps.
            self.files.settle(self.born).map_err(|error| StoreError::disk(error.to_string()))?;
        }
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
        // The database takes no bound longer than the longest key. Nothing lies between such a bound and its beginning.
        let short = |key: &'_ [u8]| key[..key.len().min(KEY_MAX)].to_vec();
        let first =
            if from.len() > KEY_MAX { Bound::Excluded(short(from)) } else { Bound::Included(from.to_vec()) };
        if from.len() > KEY_MAX && short(from) == short(to) {
            return;
        }
        let end = if to.len() > KEY_MAX { Bound::Included(short(to)) } else { Bound::Excluded(to.to_vec()) };
        let below = open.tables.spaces[space as usize].range((first, end)).map(fjall::Guard::into_inner);
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

    /// Returns what could not be read of this store. Once something the core has written is durable, there is none.
    pub(super) fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    pub(super) fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Begins to read everything, at most so many bytes per second; unless that is under way.
    pub(super) fn scrub(&mut self, rate: u64) -> Result<(), HomeError> {
        let Some(open) = &self.open else { return Ok(()) };
        let home = self.files.home.clone();
        let started = self.scrubber.start(open.tables.clone(), home, rate, &self.wake);
        started.map_err(|e| HomeError::from_io(&self.files.store, e))
    }

    pub(super) fn scrub_report(&self) -> Scrub {
        self.scrubber.report()
    }

    /// Takes what a scrub has found: keys whose record is damaged. If there is more, see [`Disk::trouble`].
    pub(super) fn scrub_found(&mut self) -> Vec<Gap> {
        let Found { trouble, gaps } = self.scrubber.found();
        if let Some(trouble) = trouble
            && self.open.is_some()
        {
            let _ = self.trouble.set(trouble);
        }
        gaps
    }

    /// Closes the store as a crash would and opens it again, on a thread of its own. `deep`: everything is read, and what
    /// cannot be is replaced.
    pub(super) fn repair(&mut self, deep: bool) -> Result<(), HomeError> {
        if self.repair.is_some() {
            return Ok(());
        }
        let (open, scrub) = (self.open.take(), self.scrubber.let_go());
        let (files, owner, born, wake) = (self.files.clone(), self.owner, self.born, self.wake.clone());
        let outcome = Arc::new(OnceLock::new());
        let tell = outcome.clone();
        let work = move || {
            if let Some(scrub) = scrub {
                let _ = scrub.join();
            }
            if let Some(mut open) = open
                && !open.writer.stop(false)
            {
                return Err(HomeError::Damaged { path: files.store, why: "the database hangs".into() });
            }
            if deep {
                files.condemn(born)?;
            }
            files.open(Some(born), &owner)
        };
        let path = self.files.store.clone();
        let hurt = move || HomeError::Damaged { path, why: "the database panicked".into() };
        let thread = std::thread::Builder::new().name("kringle-salvage".into()).spawn(move || {
            let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(hurt()));
            let _ = tell.set(done);
            wake.notify_one();
        });
        let thread = thread.map_err(|e| HomeError::from_io(&self.files.store, e))?;
        self.repair = Some(Repair { thread, outcome });
        Ok(())
    }

    /// Says whether the store has been opened again since [`Disk::repair`], if that has ended.
    pub(super) fn repaired(&mut self) -> Option<Result<Opened, HomeError>> {
        self.repair.as_ref()?.outcome.get()?;
        let Repair { thread, outcome } = self.repair.take()?;
        let _ = thread.join();
        let ready = Arc::try_unwrap(outcome).ok()?.into_inner()?;
        Some(ready.and_then(|ready| {
            let opened = ready.opened;
            self.take(ready).map(|()| opened)
        }))
    }

    /// Says whether the store is being opened again.
    pub(super) fn is_in_repair(&self) -> bool {
        self.repair.is_some()
    }

    /// Empties the store. Nothing that was asked for before is reported any more.
    pub(super) fn wipe(&mut self) -> Result<u32, HomeError> {
        self.end_repair();
        self.scrubber.stop();
        if let Some(mut open) = self.open.take()
            && !open.writer.stop(false)
        {
            return Err(HomeError::Damaged { path: self.files.store.clone(), why: "it hangs".into() });
        }
        let ready = self.files.begin(&self.owner, false)?;
        self.take(ready)?;
        Ok(self.born)
    }

    /// Closes the store and gives it another name.
    pub(super) fn keep_aside(&mut self) -> Result<(), HomeError> {
        self.end_repair();
        self.scrubber.stop();
        if let Some(mut open) = self.open.take()
            && !open.writer.stop(false)
        {
            return Err(HomeError::Damaged { path: self.files.store.clone(), why: "it hangs".into() });
        }
        if let Some(aside) = self.files.set_aside()? {
            tracing::warn!(kept = %aside.display(), "the store was set aside");
        }
        Ok(())
    }

    /// Says why the store was lost.
    pub(super) fn blame(&mut self, why: &str) {
        self.damage.lost = Some(why.to_owned());
    }

    fn end_repair(&mut self) {
        if let Some(Repair { thread, .. }) = self.repair.take() {
            self.files.stop.store(true, Ordering::Relaxed);
            let _ = thread.join();
            self.files.stop.store(false, Ordering::Relaxed);
        }
    }

    /// Closes the store: with everything that was asked for, or as a crash would.
    pub(super) fn close(&mut self, clean: bool) {
        self.end_repair();
        self.scrubber.stop();
        let Some(mut open) = self.open.take() else { return };
        open.writer.stop(clean && self.trouble.get().is_none());
        drop(open);
        if self.trouble.get().is_some()
            && let Err(error) = self.files.condemn(self.born)
        {
            tracing::error!(%error, "cannot write down that the store is damaged");
        }
    }

    /// Writes everything that is in memory into tables.
    #[cfg(test)]
    pub(super) fn flush(&self) {
        let tables = &self.open.as_ref().expect("the store is open").tables;
        for space in tables.spaces.iter().chain([&tables.engine]) {
            space.rotate_memtable_and_wait().unwrap();
        }
    }

    /// Lets a salvage end after so many steps as if the process had crashed.
    #[cfg(test)]
    pub(super) fn open_and_crash(home: &Home, owner: Owner, steps: u32) -> Result<(), HomeError> {
        let files = Files::of(home);
        files.crash.store(steps, Ordering::Relaxed);
        let born = files.judge(home, &owner)?;
        files.open(born, &owner).map(drop)
    }

    #[cfg(test)]
    pub(super) fn break_disk(&self, error: StoreError) {
        self.open.as_ref().expect("the store is open").writer.break_disk(error);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close(false);
    }
}
