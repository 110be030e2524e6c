//! One small file of the data directory, always replaced as a whole.
//!
//! Writing goes to a second file, which is synced and then renamed over the first, and the rename is synced too. So
//! after a crash or a power cut there is the old content or the new, never a mixture, and once `write` has returned
//! it is the new.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use serde::Serialize;

use super::HomeError;

/// How often a write is tried again that had no file descriptor, and after how long.
const ATTEMPTS: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);
/// The largest file that is read: ten times what the largest of them can become.
const LENGTH_MAX: u64 = 16 << 20;

/// A file that is read and written whole. It shares the directory's lock, so while it lives, no other process has the
/// directory open.
#[derive(Clone)]
pub struct Slot {
    path: PathBuf,
    dir: PathBuf,
    _lock: Arc<File>,
}

impl Slot {
    /// Returns the directory it is in.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn new(dir: &Path, name: &str, lock: &Arc<File>) -> Slot {
        Slot { path: dir.join(name), dir: dir.to_owned(), _lock: Arc::clone(lock) }
    }

    /// Returns where the file is, or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says whether the file is there.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Returns the content, or `None` if there is no such file.
    pub fn read(&self) -> Result<Option<Vec<u8>>, HomeError> {
        let Some(file) = self.open()? else { return Ok(None) };
        self.read_from(file).map(Some)
    }

    /// Returns the content of a file that only its owner may read; refuses if others may.
    pub fn read_private(&self) -> Result<Option<Vec<u8>>, HomeError> {
        let Some(file) = self.open()? else { return Ok(None) };
        // The mode of the file that is open, not of the path: nobody can swap it in between.
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let mode = file.metadata().map_err(|e| self.failed(e))?.mode() & 0o777;
            if mode & 0o077 != 0 {
                return Err(HomeError::Exposed { path: self.path.clone(), mode });
            }
        }
        self.read_from(file).map(Some)
    }

    /// Replaces the content. Only the owner may read the file, whatever it holds: so no secret is exposed by mistake.
    pub fn write(&self, content: &[u8]) -> Result<(), HomeError> {
        let mut attempts = 0;
        loop {
            match self.replace(content) {
                // Connections come and go: in a moment there may be a descriptor.
                Err(error) if is_out_of_descriptors(&error) && attempts < ATTEMPTS => {
                    attempts += 1;
                    std::thread::sleep(PAUSE);
                }
                done => return done.map_err(|e| self.failed(e)),
            }
        }
    }

    /// Replaces the content by a value as JSON, indented for people.
    pub fn write_json(&self, value: &impl Serialize) -> Result<(), HomeError> {
        let mut text = serde_json::to_vec_pretty(value).map_err(|e| self.failed(e.into()))?;
        text.push(b'\n');
        self.write(&text)
    }

    /// Makes the error that says what is wrong with the content.
    pub fn damaged(&self, why: impl Into<String>) -> HomeError {
        HomeError::Damaged { path: self.path.clone(), why: why.into() }
    }

    fn open(&self) -> Result<Option<File>, HomeError> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.failed(e)),
        }
    }

    fn read_from(&self, file: File) -> Result<Vec<u8>, HomeError> {
        let mut content = Vec::new();
        file.take(LENGTH_MAX + 1).read_to_end(&mut content).map_err(|e| self.failed(e))?;
        if content.len() as u64 > LENGTH_MAX {
            return Err(self.damaged("it is far too large"));
        }
        Ok(content)
    }

    fn replace(&self, content: &[u8]) -> io::Result<()> {
        let next = self.path.with_added_extension("next");
        // One may be left over from a crash, with any mode.
        match fs::remove_file(&next) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&next)?;
        file.write_all(content)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&next, &self.path)?;
        sync_dir(&self.dir)
    }

    fn failed(&self, error: io::Error) -> HomeError {
        HomeError::from_io(&self.path, error)
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Makes files that are created with these options readable for their owner only.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes creations and renames in a directory last. Elsewhere than on Unix the file system does so itself.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}
