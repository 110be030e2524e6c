//! Files of a store are cut, flipped and removed while it is closed.
//!
//! Whatever happens: either everything that was reported is there, or the store says that it can not be trusted.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::PathBuf;

use super::*;

/// Copies a closed store, without the parts of its files that were never written.
pub(super) fn copy(from: &Path) -> tempfile::TempDir {
    fn tree(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            if path.is_dir() {
                fs::create_dir(&target).unwrap();
                tree(&path, &target);
            } else {
                fs::write(&target, fs::read(&path).unwrap()).unwrap();
            }
        }
    }
    let to = tempfile::tempdir().unwrap();
    tree(from, to.path());
    to
}

fn journal(dir: &Path) -> PathBuf {
    dir.join("store/0.jnl")
}

/// Makes a store of this many commits, of one entry each, then closes it; also reduces its journal to what is written.
fn filled(commits: u64, clean: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).0.close(true);
    // From the second time it is opened, the journal is as long as what is in it.
    let (mut engine, _) = open(dir.path());
    for ticket in 1..=commits {
        engine.persist(ticket, vec![put(Space::Data, ticket.to_be_bytes(), [9; 150])]);
        durable(&mut engine, ticket);
    }
    engine.close(clean);
    dir
}

/// Says whether the first so many entries are there.
fn has(engine: &Engine, commits: u64) -> bool {
    (1..=commits)
        .all(|ticket| engine.read(Space::Data, &ticket.to_be_bytes()).is_some_and(|value| *value == [9; 150]))
}

pub(super) fn flip(path: &Path, at: u64, bit: u8) {
    let mut file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte[0] ^ (1 << bit)]).unwrap();
}

pub(super) fn aside(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("store.damaged-")).collect()
}

#[test]
fn a_bit_flipped_in_the_middle_of_the_journal_is_noticed() {
    for clean in [true, false] {
        let dir = filled(100, clean);
        let length = fs::metadata(journal(dir.path())).unwrap().len();
        assert!(length > 100 * 150 && length < 100 * 400, "{length}");
        let mut suspects = 0;
        // The last commits are another matter if nobody had time to count them.
        let end = length - 3 * length / 100;
        for at in (0..end).step_by(331) {
            let copy = copy(dir.path());
            flip(&journal(copy.path()), at, (at % 8) as u8);
            let (engine, opened) = open(copy.path());
            assert_eq!(opened.fresh, opened.suspect);
            if opened.suspect {
                suspects += 1;
                assert!(entries(&engine, Space::Data).is_empty(), "it begins empty");
                assert_eq!(aside(copy.path()).len(), 1);
            } else {
                assert!(has(&engine, 100), "a flip at {at} of {length} (clean: {clean}) went unnoticed");
            }
        }
        println!("clean: {clean}: {suspects} of {} flips made it suspect", end / 331 + 1);
        assert!(suspects > 50);
    }
}

#[test]
fn a_journal_cut_in_half_is_noticed() {
    let dir = filled(100, true);
    let length = fs::metadata(journal(dir.path())).unwrap().len();
    for part in [length / 2, length - length / 100, 0] {
        let copy = copy(dir.path());
        fs::OpenOptions::new().write(true).open(journal(copy.path())).unwrap().set_len(part).unwrap();
        let (mut engine, opened) = open(copy.path());
        assert!(opened.suspect && opened.fresh, "cut to {part} of {length}");
        // It goes on as a new one, and is trusted again.
        engine.persist(1, vec![put(Space::Data, b"new", b"")]);
        durable(&mut engine, 1);
        engine.close(true);
        let (engine, again) = open(copy.path());
        assert_eq!(again, Opened { fresh: false, suspect: false, born: opened.born });
        assert_eq!(entries(&engine, Space::Data).len(), 1);
    }
}

/// A store of 20 commits that were counted, and a large one, at the end of the journal, that nobody was told about.
fn interrupted() -> (tempfile::TempDir, u64) {
    let dir = filled(20, true);
    let (mut engine, _) = open(dir.path());
    let large = |name: u8| put(Space::Members, [name], vec![name; 3000]);
    engine.persist(1, vec![large(1), large(2), large(3)]);
    durable(&mut engine, 1);
    engine.close(false);
    let length = fs::metadata(journal(dir.path())).unwrap().len();
    (dir, length)
}

/// The store is trusted, and the last commit is there completely or not at all.
fn survives(dir: &Path, what: &str) {
    let (mut engine, opened) = open(dir);
    assert!(!opened.suspect && !opened.fresh, "{what}: suspect");
    assert!(has(&engine, 20), "{what}: lost something that was reported");
    let large = entries(&engine, Space::Members);
    assert!(large.is_empty() || large.len() == 3, "{what}: a part of a commit");
    assert!(large.iter().all(|(key, value)| *value == vec![key[0]; 3000]), "{what}: wrong bytes");
    // And it can be written to.
    engine.persist(1, vec![put(Space::Meta, b"after", b"")]);
    durable(&mut engine, 1);
    engine.close(false);
    let (engine, opened) = open(dir);
    assert!(
        !opened.suspect && has(&engine, 20) && engine.read(Space::Meta, b"after").is_some(),
        "{what}: afterwards"
    );
}

#[test]
fn a_last_commit_cut_anywhere_costs_nothing_that_was_reported() {
    let (dir, length) = interrupted();
    for cut in (1..=4096).step_by(61).chain(1..=20) {
        let copy = copy(dir.path());
        fs::OpenOptions::new().write(true).open(journal(copy.path())).unwrap().set_len(length - cut).unwrap();
        survives(copy.path(), &format!("{cut} bytes cut"));
    }
}

/// After a loss of power, later parts of a commit may be on the disk and earlier ones not.
#[test]
fn a_last_commit_with_holes_costs_nothing_that_was_reported() {
    let (dir, length) = interrupted();
    for back in (64..8192_u64).step_by(509) {
        for size in [16, 512, 4096] {
            let copy = copy(dir.path());
            let mut file = fs::OpenOptions::new().write(true).open(journal(copy.path())).unwrap();
            file.seek(SeekFrom::Start(length - back)).unwrap();
            file.write_all(&vec![0; size.min(back) as usize]).unwrap();
            survives(copy.path(), &format!("{size} bytes are missing, {back} before the end"));
        }
    }
}

#[test]
fn what_is_missing_is_noticed() {
    let dir = filled(10, true);
    let missing: [&[&str]; 5] =
        [&["store"], &["store/version"], &["store/0.jnl"], &["store.mark"], &["store", "store.mark"]];
    for names in missing {
        let copy = copy(dir.path());
        for name in names {
            let path = copy.path().join(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        assert!(open(copy.path()).1.suspect, "{names:?}");
    }
    fs::write(dir.path().join("store.mark"), "{").unwrap();
    assert!(open(dir.path()).1.suspect);
}

#[test]
fn only_the_last_two_damaged_stores_are_kept() {
    let dir = filled(10, true);
    for round in 1..=3 {
        fs::OpenOptions::new().write(true).open(journal(dir.path())).unwrap().set_len(0).unwrap();
        let (mut engine, opened) = open(dir.path());
        assert!(opened.suspect);
        let mut kept = aside(dir.path());
        kept.sort();
        let all: Vec<PathBuf> = (round - 1..=round)
            .filter(|at| *at > 0)
            .map(|at| dir.path().join(format!("store.damaged-{at}")))
            .collect();
        assert_eq!(kept, all);
        engine.persist(1, vec![put(Space::Data, b"a", b"1")]);
        engine.close(true);
    }
}
