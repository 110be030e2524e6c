//! The counter inside every commit, and how it is found in a journal that the database may not read to its end.
//!
//! A commit is one batch of the journal; its last entry is a [`Record`]. Each commit is synced before the next begins,
//! so a loss of power can damage the last commit only. If the bytes of commit n + 2 are in the journal, commit n + 1
//! has been synced: should the database nevertheless end at n, the journal is damaged in its middle.
//!
//! This looks at the raw bytes and relies on little: values are stored as they are, and a batch ends with [`TRAILER`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Marks a record in the bytes of a journal.
const MAGIC: [u8; 8] = *b"KRcommit";
/// Ends a batch in the journal of the database.
const TRAILER: &[u8] = b"FJL\x03";
/// The length of a record.
const LENGTH: usize = 36;
/// Bytes looked at together. Journals are made long and empty: most blocks have nothing in them.
const BLOCK: usize = 64 * 1024;

/// What the last entry of every commit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Which filling of the store it belongs to.
    pub(super) born: u32,
    /// How many commits there have been, this one included.
    pub(super) commits: u64,
    /// The last ticket in it.
    pub(super) ticket: u64,
}

impl Record {
    pub(super) fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.born.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.commits.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.ticket.to_be_bytes());
        let check = check(&bytes[..28]);
        bytes[28..].copy_from_slice(&check);
        bytes
    }

    /// Reads a record at the beginning of these bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
        let (body, seal) = bytes.get(..LENGTH)?.split_at(28);
        if !body.starts_with(&MAGIC) || check(body) != seal {
            return None;
        }
        Some(Record {
            born: u32::from_be_bytes(body[8..12].try_into().ok()?),
            commits: u64::from_be_bytes(body[12..20].try_into().ok()?),
            ticket: u64::from_be_bytes(body[20..28].try_into().ok()?),
        })
    }
}

fn check(body: &[u8]) -> [u8; 8] {
    let mut digest = [0; 8];
    digest.copy_from_slice(&blake3::hash(body).as_bytes()[..8]);
    digest
}

/// What the raw bytes of the journals show.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The highest count, if there is any.
    pub(super) commits: u64,
    /// Where the newest journal can be cut so that its last one or two batches are gone: likeliest first.
    pub(super) cuts: Vec<u64>,
    /// The newest journal.
    pub(super) newest: Option<PathBuf>,
    /// Its last two commits, and where they end; and where its last byte that is not zero ends.
    last: [(u64, u64); 2],
    used: u64,
}

impl Seen {
    /// Returns how many bytes there are in the newest journal behind the last commit the database knows.
    pub(super) fn behind(&self, commits: u64) -> u64 {
        let end = self.last.iter().rev().find(|(count, _)| *count <= commits).map_or(0, |(_, end)| *end);
        self.used.saturating_sub(end)
    }
}

/// Looks for records of this filling in all journals of a database.
pub(super) fn look(dir: &Path, born: u32) -> io::Result<Seen> {
    let mut journals: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl")
            && let Some(number) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
        {
            journals.push((number, path));
        }
    }
    journals.sort();
    let mut seen = Seen::default();
    for (_, path) in journals {
        // The ends of the last two batches of this journal; before any batch there is its beginning.
        let mut last = [(0, 0); 2];
        seen.used = each_record(&path, |record, end| {
            if record.born == born {
                seen.commits = seen.commits.max(record.commits);
                last = [last[1], (record.commits, end)];
            }
        })?;
        seen.last = last;
        seen.cuts = vec![last[1].1, last[0].1];
        seen.cuts.dedup();
        seen.newest = Some(path);
    }
    Ok(seen)
}

/// Cuts a journal off.
pub(super) fn cut(path: &Path, at: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(at)?;
    file.sync_all()
}

/// Gives every record of a file to `found`, with the place where its batch ends. Returns where the last byte that is not
/// zero ends.
fn each_record(path: &Path, mut found: impl FnMut(Record, u64)) -> io::Result<u64> {
    /// What must be there after the first byte of a record to see it and the end of its batch.
    const TAIL: usize = LENGTH + 64;
    let mut file = File::open(path)?;
    // A window over the file: what is left of the block before, then the next one.
    let mut window = Vec::with_capacity(BLOCK + TAIL);
    let (mut start, mut used): (u64, u64) = (0, 0);
    loop {
        let kept = window.len();
        window.resize(kept + BLOCK, 0);
        let mut filled = kept;
        while filled < window.len() {
            match file.read(&mut window[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let ended = filled < window.len();
        window.truncate(filled);
        let searched = if ended { filled } else { filled.saturating_sub(TAIL) };
        if !is_zero(&window) {
            let last = window.iter().rposition(|byte| *byte != 0).unwrap_or(0);
            used = start + last as u64 + 1;
            for at in 0..searched {
                if window[at] == MAGIC[0]
                    && let Some(record) = Record::decode(&window[at..])
                {
                    let after = at + LENGTH;
                    let rest = &window[after..filled.min(after + 64)];
                    let trailer = rest.windows(TRAILER.len()).position(|bytes| bytes == TRAILER);
                    let end = after + trailer.map_or(rest.len(), |position| position + TRAILER.len());
                    found(record, start + end as u64);
                }
            }
        }
        if ended {
            return Ok(used);
        }
        window.drain(..searched);
        start += searched as u64;
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}
