//! Whether the disk has room for more.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Free space below which no more is taken, unless something else is configured.
///
/// It must hold what the database needs without being asked: a memtable to be flushed, and the largest compaction.
pub const MIN_FREE: u64 = 64 << 20;
/// While there is much to do, free space is looked at this often.
const BUSY: Duration = Duration::from_millis(200);

/// Says how many bytes are free where a path is.
pub type Free = fn(&Path) -> io::Result<u64>;

/// Keeps an eye on the free space of a disk.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
    min_free: u64,
    free: Free,
    enough: bool,
    /// What was free at the last look.
    last: u64,
    pub(super) looked: Option<Instant>,
}

impl Room {
    /// Watches the disk of `path`.
    pub fn new(path: impl Into<PathBuf>, min_free: u64, free: Free) -> Room {
        Room { path: path.into(), min_free, free, enough: true, last: u64::MAX, looked: None }
    }

    /// Looks, unless that was only just done. Returns whether there is enough if that has changed.
    pub fn look(&mut self) -> Option<bool> {
        if self.looked.is_some_and(|at| at.elapsed() < BUSY) {
            return None;
        }
        self.looked = Some(Instant::now());
        // Not knowing is no reason to refuse anything: the disk will say so when it is written to.
        self.last = (self.free)(&self.path).unwrap_or(u64::MAX);
        // A little more before it is enough again, so that it does not go back and forth.
        let needed =
            if self.enough { self.min_free } else { self.min_free.saturating_add(self.min_free / 4) };
        let enough = self.last >= needed;
        (std::mem::replace(&mut self.enough, enough) != enough).then_some(enough)
    }

    /// Returns how many bytes were free at the last look, if that is known.
    pub fn free(&self) -> Option<u64> {
        Some(self.last).filter(|free| *free != u64::MAX)
    }

    /// Says whether there was enough at the last look.
    pub fn enough(&self) -> bool {
        self.enough
    }
}

/// Asks the file system how many bytes an ordinary user can still write.
pub fn free_space(path: &Path) -> io::Result<u64> {
    #[cfg(unix)]
    {
        let found = rustix::fs::statvfs(path)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(u64::MAX)
    }
}
