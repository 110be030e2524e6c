//! Tables of the database, read below its surface.
//!
//! A table is a file of blocks, each with its own checksum: data in the order of keys, then an index, a filter and a
//! summary. The database gives up on a table of which one block is bad, and on all tables if it meets one while it
//! compacts. Here the good blocks of such a table are read, and the ranges of keys named that the bad ones covered.
//!
//! The list of tables (`current` names a file `v<n>`) holds a checksum of every table file.

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::checksum::ChecksummedWriter;
use lsm_tree::coding::Decode;
use lsm_tree::table::block::decoder::ParsedItem;
use lsm_tree::table::block::{BlockType, Header};
use lsm_tree::table::filter::standard_bloom;
use lsm_tree::table::{Block, DataBlock, Writer};
use lsm_tree::{Cache, Checksum, CompressionType, InternalValue, Table};

use super::files::Fault;
use crate::home::HomeError;

/// Bytes read together.
const CHUNK: usize = 64 << 10;
/// Above every key.
pub(super) const END: [u8; 1024] = [0xff; 1024];
/// Errors in a row after which the index of a table is not followed any further.
const ERRORS_MAX: usize = 100_000;

/// The list of the tables of one keyspace.
pub(super) struct Manifest {
    folder: PathBuf,
    id: u64,
    bytes: Vec<u8>,
    pub(super) tables: Vec<Listed>,
}

/// A table as the list knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: u64,
    level: u8,
    /// Tables of one run follow each other in the order of keys.
    run: usize,
    checksum: u128,
    /// Where the checksum stands in the list.
    at: usize,
}

impl Manifest {
    /// Reads the list of a keyspace and checks its checksum.
    pub(super) fn read(folder: &Path) -> Result<Manifest, Fault> {
        let read = |path: &Path| match fs::read(path) {
            Ok(bytes) => Ok(bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(damaged(path, "it is missing")),
            Err(e) => Err(HomeError::from_io(path, e).into()),
        };
        let current = folder.join("current");
        let bytes = read(&current)?;
        let mut fields = Fields(&bytes);
        let (Some(id), Some(checksum)) = (fields.u64(), fields.u128()) else {
            return Err(damaged(&current, "it is too short"));
        };
        let path = folder.join(format!("v{id}"));
        let bytes = match read(&path) {
            // The name comes from `current`.
            Err(Fault::Damaged(_)) => {
                return Err(damaged(&current, "the list of tables it names is missing"));
            }
            other => other?,
        };
        if checksum_of(&bytes) != checksum {
            return Err(damaged(&path, "its checksum is wrong"));
        }
        let tables = Manifest::parse(&bytes).ok_or_else(|| damaged(&path, "it cannot be understood"))?;
        Ok(Manifest { folder: folder.to_owned(), id, bytes, tables })
    }

    fn parse(bytes: &[u8]) -> Option<Vec<Listed>> {
        let archive = sfa::Reader::from_reader(&mut Cursor::new(bytes)).ok()?;
        let section = archive.toc().section(b"tables")?;
        let start = usize::try_from(section.pos()).ok()?;
        let end = start.checked_add(usize::try_from(section.len()).ok()?)?;
        let mut fields = Fields(bytes.get(start..end)?);
        let (mut tables, mut run) = (Vec::new(), 0);
        for level in 0..fields.u8()? {
            for _ in 0..fields.u8()? {
                run += 1;
                for _ in 0..fields.u32()? {
                    let id = fields.u64()?;
                    fields.u8()?;
                    let at = end - fields.0.len();
                    tables.push(Listed { id, level, run, checksum: fields.u128()?, at });
                    // The number added to all versions in it: only for tables made elsewhere.
                    fields.u64()?;
                }
            }
        }
        Some(tables)
    }

    pub(super) fn path(&self, table: &Listed) -> PathBuf {
        self.folder.join("tables").join(table.id.to_string())
    }

    /// Says whether a table file is what was written. `each` is told how many bytes were read, as they are.
    pub(super) fn is_intact(&self, table: &Listed, each: &mut dyn FnMut(u64)) -> Result<bool, HomeError> {
        let path = self.path(table);
        match checksum_of_file(&path, each) {
            Ok(checksum) => Ok(checksum == table.checksum),
            Err(e) if is_damage(&e) || is_unreadable(&e) => Ok(false),
            Err(e) => Err(HomeError::from_io(&path, e)),
        }
    }

    /// Replaces a table by what can be read of it, in the copy of a keyspace at `to`. The list of that copy is written by
    /// [`Manifest::write`].
    pub(super) fn mend(&mut self, number: usize, to: &Path) -> Result<Mended, HomeError> {
        let table = self.tables[number];
        let path = self.path(&table);
        let target = to.join("tables").join(table.id.to_string());
        let failed = |e: io::Error| HomeError::from_io(&target, e);
        let bytes = read_around(&path).unwrap_or_default();
        let about = About::read(&bytes);
        let bounds = match &about {
            Some(about) => (about.first.clone(), after(&about.last)),
            None => self.neighbours(number),
        };
        let mut mended = Mended::of(pieces(&path, &bytes, about.as_ref()), bounds);
        mended.newest = about.as_ref().map_or(u64::MAX, |about| about.newest);
        mended.old = recover(&path);
        mended.entries = about.map(|about| about.entries.saturating_sub(mended.kept.len() as u64));
        if mended.kept.is_empty() {
            // A table cannot be empty. This one says that something is not there which was lost in any case.
            let key = mended.holes.first().map_or(&[0][..], |hole| &hole.0);
            let key = if key.is_empty() { &[0][..] } else { key };
            let version = if mended.newest == u64::MAX { 0 } else { mended.newest };
            mended.kept.push(InternalValue::new_tombstone(key, version));
        }
        match fs::remove_file(&target) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let written = (|| -> lsm_tree::Result<()> {
            let mut writer = Writer::new(target.clone(), table.id, table.level)?;
            for entry in std::mem::take(&mut mended.kept) {
                writer.write(entry)?;
            }
            writer.finish()?;
            Ok(())
        })();
        written.map_err(|error| match error {
            lsm_tree::Error::Io(e) => failed(e),
            other => failed(io::Error::other(other.to_string())),
        })?;
        let checksum = checksum_of_file(&target, &mut |_| {}).map_err(failed)?;
        self.tables[number].checksum = checksum;
        self.bytes[table.at..table.at + 16].copy_from_slice(&checksum.to_le_bytes());
        Ok(mended)
    }

    /// Writes the list into the copy of a keyspace.
    pub(super) fn write(&self, to: &Path) -> Result<(), HomeError> {
        let mut current = self.id.to_le_bytes().to_vec();
        current.extend_from_slice(&checksum_of(&self.bytes).to_le_bytes());
        current.push(0);
        for (name, bytes) in [(format!("v{}", self.id), &self.bytes), ("current".to_owned(), &current)] {
            let path = to.join(name);
            let write = || {
                let mut file = File::create(&path)?;
                file.write_all(bytes)?;
                file.sync_all()
            };
            write().map_err(|e| HomeError::from_io(&path, e))?;
        }
        Ok(())
    }

    /// Returns between which keys a table lies, judged by the tables beside it in its run.
    fn neighbours(&self, number: usize) -> (Vec<u8>, Vec<u8>) {
        let about = |at: Option<usize>| {
            let beside = self.tables.get(at?).filter(|table| table.run == self.tables[number].run)?;
            About::read(&fs::read(self.path(beside)).ok()?)
        };
        let from = about(number.checked_sub(1)).map_or_else(Vec::new, |before| after(&before.last));
        let to = about(Some(number + 1)).map_or_else(|| END.to_vec(), |behind| behind.first);
        (from, to)
    }
}

/// What became of a damaged table.
#[derive(Default)]
pub(super) struct Mended {
    kept: Vec<InternalValue>,
    holes: Vec<(Vec<u8>, Vec<u8>)>,
    /// No version in the table is later than this one.
    newest: u64,
    /// The damaged table, if it can be asked.
    old: Option<Table>,
    /// Bytes of the blocks that were lost, and entries in them, if that is known.
    pub(super) bytes: u64,
    pub(super) entries: Option<u64>,
}

/// A range of keys of which something may be missing.
pub(super) struct Hole {
    pub(super) from: Vec<u8>,
    /// The first key that is not in it.
    pub(super) to: Vec<u8>,
    newest: u64,
    old: Option<Table>,
}

impl Hole {
    /// Says whether something newer than this version of a key may be missing.
    pub(super) fn covers(&self, key: &[u8], version: Option<u64>) -> bool {
        if version.is_some_and(|version| version > self.newest) {
            return false;
        }
        // Its filter knows nearly all keys that the damaged table never had.
        let hash = standard_bloom::Builder::get_hash(key);
        let ask = || self.old.as_ref().is_none_or(|old| old.get(key, u64::MAX, hash).is_err());
        catch_unwind(AssertUnwindSafe(ask)).unwrap_or(true)
    }
}

impl Mended {
    /// Returns the ranges of keys of which something may be missing.
    pub(super) fn into_holes(self) -> impl Iterator<Item = Hole> {
        let (newest, old) = (self.newest, self.old);
        self.holes.into_iter().map(move |(from, to)| Hole { from, to, newest, old: old.clone() })
    }

    fn of(pieces: Vec<Piece>, (first, end): (Vec<u8>, Vec<u8>)) -> Mended {
        let mut mended = Mended::default();
        let mut open: Option<Vec<u8>> = None;
        for piece in pieces {
            match piece {
                Piece::Lost(bytes) => {
                    mended.bytes += bytes;
                    let before = mended.kept.last().map(|entry| after(&entry.key.user_key));
                    open.get_or_insert_with(|| before.unwrap_or_else(|| first.clone()));
                }
                Piece::Entries(entries) => {
                    if let (Some(from), Some(next)) = (open.take_if(|_| !entries.is_empty()), entries.first())
                    {
                        // A later version of the next key may have been the last of what was lost.
                        mended.holes.push((from, after(&next.key.user_key)));
                    }
                    mended.kept.extend(entries);
                }
            }
        }
        if let Some(from) = open {
            let to = end.max(after(&from));
            mended.holes.push((from, to));
        }
        mended
    }
}

/// A part of the data of a table.
enum Piece {
    Entries(Vec<InternalValue>),
    /// So many bytes cannot be read.
    Lost(u64),
}

/// What the summary of a table says.
struct About {
    first: Vec<u8>,
    last: Vec<u8>,
    newest: u64,
    blocks: u64,
    entries: u64,
}

impl About {
    fn read(bytes: &[u8]) -> Option<About> {
        let read = || {
            let archive = sfa::Reader::from_reader(&mut Cursor::new(bytes)).ok()?;
            let section = archive.toc().section(b"meta")?;
            let start = usize::try_from(section.pos()).ok()?;
            let block = Block::from_reader(&mut bytes.get(start..)?, CompressionType::None).ok()?;
            if block.header.block_type != BlockType::Meta {
                return None;
            }
            let block = DataBlock::new(block);
            let field = |name: &[u8]| block.point_read(name, u64::MAX).map(|entry| entry.value.to_vec());
            let number = |name: &[u8]| Some(u64::from_le_bytes(field(name)?.try_into().ok()?));
            Some(About {
                first: field(b"key#min")?,
                last: field(b"key#max")?,
                newest: number(b"seqno#max")?,
                blocks: number(b"block_count#data")?,
                entries: number(b"item_count")?,
            })
        };
        catch_unwind(AssertUnwindSafe(read)).ok().flatten()
    }
}

/// Reads the data of a table: block after block, as long as every block says where the next one begins; otherwise by its
/// index; if that cannot be read either, up to where it ends.
fn pieces(path: &Path, bytes: &[u8], about: Option<&About>) -> Vec<Piece> {
    let (mut pieces, complete) = walk(bytes, about.map(|about| about.blocks));
    if complete {
        return pieces;
    }
    if let Some(pieces) = catch_unwind(|| by_index(path)).ok().flatten() {
        return pieces;
    }
    let read: u64 = pieces.iter().map(|piece| if let Piece::Lost(bytes) = piece { *bytes } else { 0 }).sum();
    pieces.push(Piece::Lost((bytes.len() as u64).saturating_sub(read)));
    pieces
}

/// Reads blocks from the beginning. Says whether all data was passed.
fn walk(bytes: &[u8], blocks: Option<u64>) -> (Vec<Piece>, bool) {
    let mut pieces = Vec::new();
    let (mut rest, mut seen) = (bytes, 0);
    loop {
        if blocks == Some(seen) {
            return (pieces, true);
        }
        // The header has a checksum of its own: if it can be read, its length is right.
        let Ok(header) = Header::decode_from(&mut &*rest) else { return (pieces, false) };
        if header.block_type != BlockType::Data {
            return (pieces, blocks.is_none());
        }
        let entries = Block::from_reader(&mut &*rest, CompressionType::None).ok().and_then(entries_of);
        pieces.push(entries.map_or(Piece::Lost(u64::from(header.data_length)), Piece::Entries));
        seen += 1;
        let length = Header::serialized_len() + header.data_length as usize;
        let Some(behind) = rest.get(length..) else { return (pieces, false) };
        rest = behind;
    }
}

fn entries_of(block: Block) -> Option<Vec<InternalValue>> {
    let read = || {
        let block = DataBlock::new(block);
        block.iter().map(|item| item.materialize(block.as_slice())).collect()
    };
    catch_unwind(AssertUnwindSafe(read)).ok()
}

/// Opens a table without looking at its data.
fn recover(path: &Path) -> Option<Table> {
    let open = || {
        let cache = Arc::new(Cache::with_capacity_bytes(1 << 20));
        Table::recover(path.to_owned(), Checksum::from_raw(0), 0, 0, cache, None, true, true).ok()
    };
    catch_unwind(open).ok().flatten()
}

fn by_index(path: &Path) -> Option<Vec<Piece>> {
    let table = recover(path)?;
    let (mut pieces, mut errors) = (Vec::new(), 0);
    for entry in table.iter() {
        match (entry, pieces.last_mut()) {
            (Ok(entry), Some(Piece::Entries(entries))) => entries.push(entry),
            (Ok(entry), _) => pieces.push(Piece::Entries(vec![entry])),
            (Err(_), _) => {
                errors += 1;
                // How large it was stands where it cannot be read.
                pieces.push(Piece::Lost(4096));
            }
        }
        if errors > ERRORS_MAX {
            return None;
        }
    }
    Some(pieces)
}

/// Returns the next key.
pub(super) fn after(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}

fn damaged(path: &Path, why: &str) -> Fault {
    Fault::Damaged(format!("{}: {why}", path.display()))
}

/// Tells damage from circumstances.
pub(super) fn is_damage(error: &io::Error) -> bool {
    // A file that is too short is found out by a place before its beginning.
    use io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | NotFound | UnexpectedEof)
}

/// Says whether the disk cannot give back what was written there.
pub(super) fn is_unreadable(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    cfg!(unix) && error.raw_os_error() == Some(EIO)
}

/// Reads a file, with zeros in place of what the disk cannot give back.
fn read_around(path: &Path) -> io::Result<Vec<u8>> {
    const SECTOR: usize = 4096;
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    match file.read_to_end(&mut bytes) {
        Err(e) if is_unreadable(&e) => {}
        read => return read.map(|_| bytes),
    }
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    bytes = vec![0; length];
    for (at, sector) in bytes.chunks_mut(SECTOR).enumerate() {
        file.seek(SeekFrom::Start((at * SECTOR) as u64))?;
        if file.read_exact(sector).is_err() {
            sector.fill(0);
        }
    }
    Ok(bytes)
}

fn checksum_of(bytes: &[u8]) -> u128 {
    let mut sum = ChecksummedWriter::new(io::sink());
    // Nothing is written anywhere.
    let _ = sum.write_all(bytes);
    sum.checksum().into_u128()
}

pub(super) fn checksum_of_file(path: &Path, each: &mut dyn FnMut(u64)) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut sum = ChecksummedWriter::new(io::sink());
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(sum.checksum().into_u128()),
            Ok(read) => {
                sum.write_all(&chunk[..read])?;
                each(read as u64);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Numbers one after the other, lowest byte first.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }
}
