//! Text files people hand to the simulator: read line by line, refused with the line that is wrong.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A file that can not be used. Nothing was taken from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file, unless the text came from elsewhere.
    pub path: Option<PathBuf>,
    /// The line that is wrong, counted from 1; none if it is the file as a whole.
    pub line: Option<usize>,
    /// What is wrong, and what was expected.
    pub problem: String,
}

impl FileError {
    pub(crate) fn at(line: usize, problem: impl Into<String>) -> FileError {
        FileError { path: None, line: Some(line), problem: problem.into() }
    }

    pub(crate) fn whole(problem: impl Into<String>) -> FileError {
        FileError { path: None, line: None, problem: problem.into() }
    }

    pub(crate) fn in_file(self, path: &Path) -> FileError {
        FileError { path: Some(path.to_owned()), ..self }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => write!(f, "{}:{line}: {}", path.display(), self.problem),
            (Some(path), None) => write!(f, "{}: {}", path.display(), self.problem),
            (None, Some(line)) => write!(f, "line {line}: {}", self.problem),
            (None, None) => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for FileError {}

/// The longest line read. A row of the largest matrix fits well; a disk image without line ends does not fill memory.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Returns what a line says, or none if it is blank or a comment.
pub(crate) fn content(line: &str) -> Option<&str> {
    let line = line.trim();
    (!line.is_empty() && !line.starts_with('#')).then_some(line)
}

/// Hands every line of a text to `take`, with its number.
pub(crate) fn text_lines(
    text: &str,
    mut take: impl FnMut(usize, &str) -> Result<(), FileError>,
) -> Result<(), FileError> {
    text.lines().enumerate().try_for_each(|(index, line)| take(index + 1, line))
}

/// Hands every line of a file to `take`, with its number, without ever holding the whole file.
pub(crate) fn file_lines(
    path: &Path,
    mut take: impl FnMut(usize, &str) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let file = File::open(path).map_err(|error| FileError::whole(format!("can not be opened: {error}")))?;
    let mut reader = BufReader::new(file);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut bytes);
        read.map_err(|error| FileError::at(number, format!("can not be read: {error}")))?;
        if bytes.is_empty() {
            break;
        }
        if bytes.len() > LINE_BYTES_MAX {
            return Err(FileError::at(
                number,
                format!("is longer than {LINE_BYTES_MAX} bytes; expected a text file"),
            ));
        }
        let line = str::from_utf8(&bytes);
        take(number, line.map_err(|_| FileError::at(number, "is not UTF-8; expected a text file"))?)?;
    }
    Ok(())
}
