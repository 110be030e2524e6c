//! A store shows what was asked for at once, keeps what it reported, and says so when it could not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kringle_core::config::ClusterId;
use kringle_core::id::NodeId;
use kringle_core::records::{Bytes, MemoryRecords, Records, Space, Write};
use proptest::prelude::*;

use super::overlay::Overlay;
use super::{Engine, Opened, Owner, Room};
use crate::home::{Home, HomeError};

mod damage;
mod kills;
mod refusals;
mod salvage;

/// Longer than anything here should ever take.
const LONG: Duration = Duration::from_secs(30);

fn owner() -> Owner {
    Owner { node: NodeId::new(7), cluster: ClusterId([1; 16]) }
}

fn open(dir: &Path) -> (Engine, Opened) {
    Engine::disk(&Home::open(dir).unwrap(), owner()).unwrap()
}

fn refused(dir: &Path, owner: Owner) -> HomeError {
    match Engine::disk(&Home::open(dir).unwrap(), owner) {
        Ok(_) => panic!("this should not have been opened"),
        Err(error) => error,
    }
}

fn put(space: Space, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Write {
    Write { space, key: Bytes::from(key.as_ref()), value: Some(Bytes::from(value.as_ref())) }
}

fn remove(space: Space, key: impl AsRef<[u8]>) -> Write {
    Write { space, key: Bytes::from(key.as_ref()), value: None }
}

/// Waits until a ticket is durable.
fn durable(engine: &mut Engine, ticket: u64) {
    let until = Instant::now() + LONG;
    while engine.progress().unwrap().is_none_or(|done| done < ticket) {
        assert!(Instant::now() < until, "ticket {ticket} is never reported");
        std::thread::yield_now();
    }
}

fn entries(records: &impl Records, space: Space) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    records.scan(space, &[], &[0xff; 64], &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        true
    });
    all
}

#[test]
fn writes_show_at_once_and_are_reported_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, opened) = open(dir.path());
    assert!(opened.fresh && !opened.suspect && opened.born != 0);
    let mut last = 0;
    for ticket in 1..=300_u64 {
        assert_eq!(engine.persist(ticket, vec![put(Space::Data, b"k", ticket.to_be_bytes())]), None);
        assert_eq!(engine.read(Space::Data, b"k").as_deref(), Some(&ticket.to_be_bytes()[..]));
        assert_eq!(engine.read(Space::Meta, b"k"), None, "spaces are apart");
        if let Some(done) = engine.progress().unwrap() {
            assert!(done > last && done <= ticket);
            last = done;
        }
    }
    if last < 300 {
        durable(&mut engine, 300);
    }
    assert_eq!(engine.read(Space::Data, b"k").as_deref(), Some(&300_u64.to_be_bytes()[..]));
    let figures = engine.figures();
    assert_eq!(figures.pending, 0);
    assert!(figures.commits >= 1 && figures.commits <= 300, "{figures:?}");
}

#[test]
fn a_store_comes_back_with_everything_that_was_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, Opened { born, .. }) = open(dir.path());
    for ticket in 1..=50_u64 {
        let key = ticket.to_be_bytes();
        engine.persist(ticket, vec![put(Space::Data, key, b"v"), put(Space::Views, key, b"w")]);
    }
    engine.persist(51, vec![remove(Space::Data, 3_u64.to_be_bytes())]);
    durable(&mut engine, 51);
    engine.close(false);
    let (engine, opened) = open(dir.path());
    assert_eq!(opened, Opened { fresh: false, suspect: false, born });
    assert_eq!(engine.born(), born);
    assert_eq!(entries(&engine, Space::Data).len(), 49);
    assert_eq!(entries(&engine, Space::Views).len(), 50);
    assert_eq!(engine.read(Space::Data, &3_u64.to_be_bytes()), None);
}

#[test]
fn a_clean_end_keeps_what_was_asked_for_and_takes_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _) = open(dir.path());
    for ticket in 1..=20_u64 {
        engine.persist(ticket, vec![put(Space::Meta, ticket.to_be_bytes(), [0; 100])]);
    }
    engine.close(true);
    engine.persist(21, vec![put(Space::Meta, b"late", b"")]);
    assert_eq!(engine.read(Space::Meta, b"late"), None);
    assert_eq!(engine.progress(), Ok(None));
    let (engine, _) = open(dir.path());
    assert_eq!(entries(&engine, Space::Meta).len(), 20);
}

#[test]
fn a_write_is_all_or_nothing_and_the_last_of_a_key_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _) = open(dir.path());
    // Asked for faster than the disk is: some of these share a commit.
    for ticket in 1..=100_u64 {
        let (a, b) = (put(Space::Data, b"a", ticket.to_be_bytes()), put(Space::Members, b"b", b"x"));
        let again = if ticket % 2 == 0 { remove(Space::Members, b"b") } else { b.clone() };
        engine.persist(ticket, vec![a, b, again]);
    }
    engine.close(true);
    let (engine, _) = open(dir.path());
    assert_eq!(engine.read(Space::Data, b"a").as_deref(), Some(&100_u64.to_be_bytes()[..]));
    assert_eq!(engine.read(Space::Members, b"b"), None);
}

#[test]
fn a_range_may_end_above_the_longest_key() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _) = open(dir.path());
    let longest = vec![0xff; super::KEY_MAX];
    let keys = [b"a".to_vec(), vec![0xff; 100], longest.clone()];
    engine.persist(1, keys.iter().map(|key| put(Space::Data, key, b"")).collect());
    durable(&mut engine, 1);
    let found = |from: &[u8], to: &[u8]| {
        let mut found = Vec::new();
        engine.scan(Space::Data, from, to, &mut |key, _| {
            found.push(key.to_vec());
            true
        });
        found
    };
    let above = [&longest[..], &[0xff; 5]].concat();
    assert_eq!(found(&[], &above), keys);
    assert_eq!(found(&[], &longest), keys[..2], "the end is not part of it");
    assert_eq!(found(&longest, &above), keys[2..]);
    assert!(found(&above[..super::KEY_MAX + 1], &above).is_empty());
}

#[test]
fn a_wiped_store_is_empty_and_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, Opened { born, .. }) = open(dir.path());
    for ticket in 1..=50 {
        engine.persist(ticket, vec![put(Space::Promises, b"p", b"1"), put(Space::Data, [ticket as u8], b"")]);
    }
    let wake = engine.wake().unwrap();
    let fresh = engine.wipe().unwrap();
    assert_ne!(fresh, born);
    assert_eq!(engine.born(), fresh);
    assert!(Space::ALL.iter().all(|space| entries(&engine, *space).is_empty()));
    assert_eq!(engine.progress(), Ok(None), "what was asked for before is not reported");
    assert!(std::sync::Arc::ptr_eq(&wake, &engine.wake().unwrap()));
    // Tickets begin again.
    engine.persist(1, vec![put(Space::Promises, b"q", b"2")]);
    durable(&mut engine, 1);
    engine.close(false);
    let (engine, opened) = open(dir.path());
    assert_eq!(opened, Opened { fresh: false, suspect: false, born: fresh });
    assert_eq!(entries(&engine, Space::Promises), [(b"q".to_vec(), b"2".to_vec())]);
}

#[test]
fn in_memory_everything_is_durable_at_once() {
    let (mut engine, opened) = Engine::memory().unwrap();
    assert!(opened.fresh && !opened.suspect && opened.born != 0);
    assert_eq!(engine.persist(1, vec![put(Space::Data, b"a", b"1")]), Some(1));
    assert_eq!(engine.read(Space::Data, b"a").as_deref(), Some(&b"1"[..]));
    assert!(engine.wake().is_none());
    assert_ne!(engine.wipe().unwrap(), opened.born);
    assert_eq!(engine.read(Space::Data, b"a"), None);
    assert_eq!(Engine::none().persist(1, vec![put(Space::Data, b"a", b"1")]), None);
}

#[test]
fn nothing_is_reported_after_the_disk_failed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _) = open(dir.path());
    engine.persist(1, vec![put(Space::Data, b"a", b"1")]);
    durable(&mut engine, 1);
    engine.break_disk();
    engine.persist(2, vec![put(Space::Data, b"b", b"2")]);
    let until = Instant::now() + LONG;
    let error = loop {
        match engine.progress() {
            Ok(done) => assert_eq!(done, None),
            Err(error) => break error,
        }
        assert!(Instant::now() < until);
    };
    assert!(error.to_string().contains("broken by a test"), "{error}");
    engine.persist(3, vec![put(Space::Data, b"c", b"3")]);
    assert!(engine.progress().is_err(), "it stays so");
    engine.close(true);
    let (engine, opened) = open(dir.path());
    assert!(!opened.suspect);
    assert_eq!(entries(&engine, Space::Data), [(b"a".to_vec(), b"1".to_vec())]);
}

/// The database lets writes wait while too many new tables are there to be compacted.
#[test]
fn writes_go_on_however_much_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _) = open(dir.path());
    let mut key = 1u128;
    for ticket in 1..=1200 {
        let writes = (0..16).map(|_| {
            key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            put(Space::Data, key.to_be_bytes(), [7; 4096])
        });
        engine.persist(ticket, writes.collect());
        if ticket % 4 == 0 {
            durable(&mut engine, ticket);
        }
    }
}

#[test]
fn room_runs_out_and_comes_back_with_a_margin() {
    static FREE: AtomicU64 = AtomicU64::new(1000);
    let mut room = Room::new("/", 100, |_| Ok(FREE.load(Ordering::Relaxed)));
    let mut at = |free: u64| {
        FREE.store(free, Ordering::Relaxed);
        room.looked = None;
        room.look()
    };
    let seen = [500, 100, 99, 100, 124, 125, 100, 0, 1000].map(&mut at);
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(seen, [None, None, no, None, None, yes, None, no, yes]);
    assert_eq!(room.look(), None, "not looked at again at once");
    assert_eq!((room.enough(), room.free()), (true, Some(1000)));
    assert!(super::free_space(Path::new("/")).unwrap() > 0);
    let mut blind = Room::new("/", 100, |_| Err(std::io::Error::other("no idea")));
    assert_eq!((blind.look(), blind.free()), (None, None));
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Persist(Vec<(usize, u8, Option<u8>)>),
    /// So many of the pending tickets become durable.
    Settle(u8),
    Scan(usize, u8, u8, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..Space::ALL.len(), 0..24_u8, prop::option::of(any::<u8>()));
    let step = prop_oneof![
        4 => prop::collection::vec(write, 0..5).prop_map(Step::Persist),
        2 => any::<u8>().prop_map(Step::Settle),
        2 => (0..Space::ALL.len(), 0..26_u8, 0..26_u8, 0..6_usize).prop_map(|(s, a, b, n)| Step::Scan(s, a, b, n)),
    ];
    prop::collection::vec(step, 1..40)
}

fn writes_of(writes: &[(usize, u8, Option<u8>)]) -> Vec<Write> {
    let write = |(space, key, value): &(usize, u8, Option<u8>)| Write {
        space: Space::ALL[*space],
        key: Bytes::from([*key, 1]),
        value: value.map(|value| Bytes::from([value])),
    };
    writes.iter().map(write).collect()
}

/// At most `most` entries of a range.
fn some(records: &dyn Records, space: Space, range: (u8, u8), most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    records.scan(space, &[range.0], &[range.1], &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        found.len() <= most
    });
    found
}

/// An overlay over records of which only a prefix of the tickets has arrived.
struct Layers {
    below: MemoryRecords,
    overlay: Overlay,
}

impl Records for Layers {
    fn read(&self, space: Space, key: &[u8]) -> Option<Bytes> {
        match self.overlay.get(space, key) {
            Some(covered) => covered.cloned(),
            None => self.below.read(space, key),
        }
    }

    fn scan(&self, space: Space, from: &[u8], to: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let mut below = Vec::new();
        self.below.scan(space, from, to, &mut |key, value| {
            below.push(Ok::<_, ()>((key.to_vec(), value.to_vec())));
            true
        });
        if from < to {
            self.overlay.scan((space, from, to), below.into_iter(), each).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn layers_look_like_one_map(steps in steps(), early in any::<bool>()) {
        let mut model = MemoryRecords::default();
        let mut layers = Layers { below: MemoryRecords::default(), overlay: Overlay::default() };
        let mut pending: BTreeMap<u64, Vec<Write>> = BTreeMap::new();
        let mut ticket = 0;
        for step in steps {
            match step {
                Step::Persist(writes) => {
                    ticket += 1;
                    let writes = writes_of(&writes);
                    model.apply(writes.clone());
                    layers.overlay.add(ticket, writes.clone().into());
                    if early {
                        // The database may be ahead of what has been reported.
                        layers.below.apply(writes.clone());
                    }
                    pending.insert(ticket, writes);
                }
                Step::Settle(count) => {
                    for _ in 0..count % 4 {
                        let Some((done, writes)) = pending.pop_first() else { break };
                        if !early {
                            layers.below.apply(writes);
                        }
                        layers.overlay.settle(done);
                    }
                }
                Step::Scan(space, from, to, most) => {
                    let space = Space::ALL[space];
                    prop_assert_eq!(some(&layers, space, (from, to), most), some(&model, space, (from, to), most));
                }
            }
            for space in Space::ALL {
                prop_assert_eq!(entries(&layers, *space), entries(&model, *space));
                for key in 0..24 {
                    prop_assert_eq!(layers.read(*space, &[key, 1]), model.read(*space, &[key, 1]));
                }
            }
        }
        prop_assert_eq!(layers.overlay.len(), pending.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_disk_looks_like_memory(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let (mut engine, _) = open(dir.path());
        let mut model = MemoryRecords::default();
        let mut ticket = 0;
        for step in steps {
            match step {
                Step::Persist(writes) => {
                    ticket += 1;
                    model.apply(writes_of(&writes));
                    engine.persist(ticket, writes_of(&writes));
                }
                Step::Settle(255) => {
                    engine.close(true);
                    engine = open(dir.path()).0;
                    ticket = 0;
                }
                Step::Settle(_) => drop(engine.progress().unwrap()),
                Step::Scan(space, from, to, most) => {
                    let space = Space::ALL[space];
                    prop_assert_eq!(some(&engine, space, (from, to), most), some(&model, space, (from, to), most));
                }
            }
            for space in Space::ALL {
                prop_assert_eq!(entries(&engine, *space), entries(&model, *space));
            }
        }
        engine.close(true);
        let (engine, opened) = open(dir.path());
        prop_assert!(!opened.suspect);
        for space in Space::ALL {
            prop_assert_eq!(entries(&engine, *space), entries(&model, *space));
        }
    }
}
