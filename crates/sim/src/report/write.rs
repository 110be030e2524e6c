//! Reports as files, each of them there in full or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{Plot, Report};

impl Report {
    /// Writes `STEM.json`, `STEM.md` and a `STEM-PLOT.svg` for each plot, in a directory that need not be there yet.
    /// Returns the paths in that order.
    ///
    /// # Errors
    /// If a file can not be written. What was written before it stays, whole.
    pub fn write(&self, dir: &Path, stem: &str) -> io::Result<Vec<PathBuf>> {
        fs::create_dir_all(dir)?;
        let mut paths = Vec::new();
        let mut keep = |name: String, text: String| {
            let path = dir.join(name);
            write_file(&path, text.as_bytes())?;
            paths.push(path);
            io::Result::Ok(())
        };
        // The data first: everything else can be made from it again.
        keep(format!("{stem}.json"), self.to_json())?;
        keep(format!("{stem}.md"), self.markdown(stem))?;
        for plot in &self.plots {
            keep(plot_file(stem, plot), plot.to_svg())?;
        }
        Ok(paths)
    }
}

/// Writes a file, or replaces it, whole: nobody ever sees a part of it.
///
/// # Errors
/// If it can not be written; a file that was there before is still there then.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display())));
    };
    // Beside the file, for a rename does not cross file systems; with our process in its name, for two may write.
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        // A rename may reach the disk before what was written, and a crash then leave an empty file.
        file.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        // The first error is the one to tell; that there may be nothing to remove is no other.
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// Returns the file name of a plot, of letters that every file system takes.
pub(super) fn plot_file(stem: &str, plot: &Plot) -> String {
    let plain = |letter: char| if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    format!("{stem}-{}.svg", plot.name.chars().map(plain).collect::<String>())
}
