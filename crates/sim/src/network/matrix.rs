//! Measured delays between hosts, read from a file.

use std::path::Path;
use std::sync::Arc;

use kringle_core::dice::{Dice, SeededDice};

use super::file::{FileError, content, file_lines, text_lines};

/// A matrix of one-way delays between hosts.
///
/// The file is text. Blank lines and lines starting with `#` are skipped. Every other line is a row: delays in
/// milliseconds, decimals allowed, separated by white space or commas. There are as many rows as numbers in a row; row
/// `i`, number `j` is the delay from host `i` to host `j`, which need not be that from `j` to `i`. The diagonal must be
/// numbers, which are ignored. A delay below a microsecond counts as one.
///
/// ```text
/// # three hosts
/// 0    10.5  80
/// 11   0     75
/// 80   75.2  0
/// ```
///
/// Node `i` sits at host `i`. If there are more nodes than hosts, the others sit at hosts drawn from the seed. Nodes
/// that share a host are on a LAN: 1 ms from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    hosts: u32,
    /// Delays in microseconds, row by row.
    delays: Arc<[u32]>,
    path: Option<Arc<Path>>,
}

/// The largest matrix taken: at 4 bytes each its delays need 1.6 GB.
const HOSTS_MAX: usize = 20_000;

/// Between nodes that share a host.
const LAN_MICROS: u32 = 1_000;

/// Keeps hosts apart from other things drawn from the same seed.
const HOSTS: u64 = 6 << 40;

impl Matrix {
    /// Reads a matrix from a text.
    pub fn parse(text: &str) -> Result<Matrix, FileError> {
        let mut rows = Rows::default();
        text_lines(text, |number, line| rows.take(number, line))?;
        rows.finish()
    }

    /// Reads a matrix from a file.
    pub fn read(path: impl AsRef<Path>) -> Result<Matrix, FileError> {
        let path = path.as_ref();
        let mut rows = Rows::default();
        let read = file_lines(path, |number, line| rows.take(number, line)).and_then(|()| rows.finish());
        let matrix = read.map_err(|error| error.in_file(path))?;
        Ok(Matrix { path: Some(path.into()), ..matrix })
    }

    /// Returns how many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Returns the file it was read from, if it was.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the host a node sits at.
    pub fn host(&self, seed: u64, node: u32) -> u32 {
        if node < self.hosts {
            return node;
        }
        SeededDice::derive(seed ^ HOSTS, node.into()).below(self.hosts as usize) as u32
    }

    /// Returns the delay between two nodes, in microseconds.
    pub(super) fn micros(&self, seed: u64, from: u32, to: u32) -> u32 {
        let (a, b) = (self.host(seed, from), self.host(seed, to));
        if a == b {
            return LAN_MICROS;
        }
        self.delays[a as usize * self.hosts as usize + b as usize]
    }
}

/// The rows read so far.
#[derive(Default)]
struct Rows {
    /// Numbers in the first row, hence hosts.
    width: usize,
    rows: usize,
    last_line: usize,
    delays: Vec<u32>,
}

impl Rows {
    fn take(&mut self, number: usize, line: &str) -> Result<(), FileError> {
        let Some(line) = content(line) else { return Ok(()) };
        self.last_line = number;
        if self.rows > 0 && self.rows == self.width {
            let problem = format!(
                "is one row too many; expected {0} rows, as the first row has {0} numbers",
                self.width
            );
            return Err(FileError::at(number, problem));
        }
        let before = self.delays.len();
        for word in words(line) {
            self.delays.push(micros(word).map_err(|problem| FileError::at(number, problem))?);
            if self.rows == 0 && self.delays.len() > HOSTS_MAX {
                return Err(FileError::at(
                    number,
                    format!("has more than {HOSTS_MAX} numbers, the most taken"),
                ));
            }
        }
        let width = self.delays.len() - before;
        if self.rows == 0 {
            self.width = width;
            if width < 2 {
                return Err(FileError::at(
                    number,
                    "has 1 number; expected a row of at least 2, one per host",
                ));
            }
        } else if width != self.width {
            let problem = format!("has {width} numbers; expected {}, as in the first row", self.width);
            return Err(FileError::at(number, problem));
        }
        self.rows += 1;
        Ok(())
    }

    fn finish(self) -> Result<Matrix, FileError> {
        if self.rows == 0 {
            return Err(FileError::whole("has no rows; expected as many rows of delays as there are hosts"));
        }
        if self.rows < self.width {
            let problem = format!(
                "is the last of {} rows; expected {1}, as the first row has {1} numbers",
                self.rows, self.width
            );
            return Err(FileError::at(self.last_line, problem));
        }
        Ok(Matrix { hosts: self.width as u32, delays: self.delays.into(), path: None })
    }
}

/// Splits at white space or commas. Two commas in a row leave an empty word between them, which is no number.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').flat_map(|part| {
        let mut words = part.split_whitespace().peekable();
        let gap = words.peek().is_none().then_some("");
        words.chain(gap)
    })
}

fn micros(word: &str) -> Result<u32, String> {
    let expected = "expected a delay in milliseconds";
    let Ok(millis) = word.parse::<f64>() else { return Err(format!("{word:?} is not a number; {expected}")) };
    if !millis.is_finite() {
        return Err(format!("{word} is not finite; {expected}"));
    }
    if millis < 0.0 {
        return Err(format!("{word} is negative; {expected}"));
    }
    let micros = (millis * 1_000.0).round();
    if micros > u32::MAX.into() {
        return Err(format!("{word} is more than an hour; {expected}"));
    }
    Ok((micros as u32).max(1))
}
