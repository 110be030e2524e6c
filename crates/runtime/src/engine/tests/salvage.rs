//! Tables are damaged: the store goes on with everything else, and says what may be missing.

use std::fs;
use std::path::PathBuf;

use kringle_core::records::Gap;

use super::damage::{aside, copy, flip};
use super::*;
use crate::engine::disk::Disk;

/// Entries of the spaces, of keys as the core has them.
const KEYS: u64 = 400;

fn key(at: u64) -> Vec<u8> {
    // Spread over the whole ring, in order.
    let mut key = (at * (u64::MAX / KEYS)).to_be_bytes().to_vec();
    key.extend_from_slice(&[7; 8]);
    key.extend_from_slice(format!("key-{at}").as_bytes());
    key
}

fn value(at: u64, round: u8) -> Vec<u8> {
    let mut value = vec![round; 180];
    value.extend_from_slice(&at.to_be_bytes());
    value
}

/// A closed store: three rounds of writes in tables, of which the second deletes and the third overwrites some, and a last
/// one in the journal alone.
fn filled() -> (tempfile::TempDir, MemoryRecords) {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _) = open(dir.path());
    let mut model = MemoryRecords::default();
    let mut ticket = 0;
    let mut write = |engine: &mut Engine, writes: Vec<Write>| {
        ticket += 1;
        model.apply(writes.clone());
        engine.persist(ticket, writes);
        durable(engine, ticket);
    };
    for round in 0..4_u8 {
        let mut writes = Vec::new();
        for at in (0..KEYS).filter(|at| round == 0 || at % 11 == u64::from(round)) {
            match round {
                1 => writes.push(remove(Space::Data, key(at))),
                _ => writes.push(put(Space::Data, key(at), value(at, round))),
            }
            if at % 3 == 0 {
                writes.push(put(Space::Members, key(at), value(at, round)));
                writes.push(put(Space::Promises, key(at), value(at, round)));
            }
            if at % 4 == 0 {
                writes.push(put(Space::Views, (at as u32).to_be_bytes(), value(at, round)));
            }
        }
        writes.push(put(Space::Meta, b"clock", [round; 8]));
        for part in writes.chunks(100) {
            write(&mut engine, part.to_vec());
        }
        if round < 3 {
            engine.flush();
        }
    }
    engine.close(true);
    // When it is opened again, its journal becomes as long as what is in it.
    open(dir.path()).0.close(true);
    (dir, model)
}

fn tables(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for space in fs::read_dir(dir.join("store/keyspaces")).unwrap() {
        let tables = space.unwrap().path().join("tables");
        found.extend(fs::read_dir(tables).unwrap().map(|entry| entry.unwrap().path()));
    }
    found.sort();
    found
}

/// Reads everything twice; what cannot be read is an error of the store, not an absent entry.
fn read_all(engine: &Engine) {
    for space in Space::ALL {
        entries(engine, *space);
        (0..KEYS).for_each(|at| drop(engine.read(*space, &key(at))));
    }
}

/// Opens a store whatever it takes: if damage only shows when it is read, the store is told to look at itself.
fn open_all(dir: &Path) -> (Engine, Opened) {
    let (mut engine, opened) = open(dir);
    read_all(&engine);
    if engine.trouble().is_none() {
        return (engine, opened);
    }
    engine.close(false);
    let (engine, opened) = open(dir);
    read_all(&engine);
    assert_eq!(engine.trouble(), None, "the second start reads everything");
    (engine, opened)
}

/// Everything outside the gaps is there and right; inside, what is there is right.
fn compare(engine: &Engine, model: &MemoryRecords, what: &str) -> usize {
    let mut missing = 0;
    let inside = |space: Space, key: &[u8]| {
        let in_it = |gap: &&Gap| gap.space == space && *gap.from <= *key && key < &*gap.to;
        engine.gaps().iter().any(|gap| in_it(&gap))
    };
    for space in Space::ALL {
        let (all, found) = (entries(model, *space), entries(engine, *space));
        for (key, value) in &found {
            assert_eq!(
                model.read(*space, key).as_deref(),
                Some(&**value),
                "{what}: {} has something wrong",
                space.name()
            );
        }
        for (key, _) in all {
            if engine.read(*space, &key).is_none() {
                missing += 1;
                assert!(inside(*space, &key), "{what}: {} lost something without a word", space.name());
            }
        }
    }
    missing
}

#[test]
fn a_bit_flipped_in_any_table_costs_its_block() {
    let (dir, model) = filled();
    let total: usize = Space::ALL.iter().map(|space| model.len(*space)).sum();
    let born = open(dir.path()).0.born();
    let (mut flips, mut salvaged, mut worst) = (0, 0, 0);
    for (number, path) in tables(dir.path()).iter().enumerate() {
        let name = path.strip_prefix(dir.path()).unwrap();
        let length = fs::metadata(path).unwrap().len();
        let steps = if length > 20_000 { 9 } else { 6 };
        for step in 0..steps {
            let at = (length - 1) * step / (steps - 1);
            let what = format!("{} at {at} of {length}", name.display());
            let copy = copy(dir.path());
            flip(&copy.path().join(name), at, (number as u64 + step) as u8 % 8);
            let (engine, opened) = open_all(copy.path());
            flips += 1;
            if opened.suspect {
                // Nothing else can be said of what the core keeps for itself.
                assert!(what.contains("keyspaces/5/"), "{what}: lost");
                continue;
            }
            assert_eq!(opened, Opened { fresh: false, suspect: false, born }, "{what}");
            worst = worst.max(compare(&engine, &model, &what));
            let damage = engine.damage().unwrap();
            if damage.times > 0 {
                salvaged += 1;
                assert_eq!(damage.files, [name.display().to_string()], "{what}");
                assert_eq!(aside(copy.path()).len(), 1);
            }
        }
    }
    println!("{flips} flips, {salvaged} salvaged; at worst {worst} of {total} entries missing");
    assert!(
        salvaged > flips / 2 && worst > 0 && worst < total / 8,
        "{salvaged} of {flips}, {worst} of {total}"
    );
}

#[test]
fn many_flips_at_once_cost_their_blocks() {
    let (dir, model) = filled();
    for round in 0..6_u64 {
        let copy = copy(dir.path());
        for (number, path) in tables(copy.path()).iter().enumerate() {
            // Lists and the core's own space aside: those may cost everything.
            if path.to_str().unwrap().contains("keyspaces/5/") {
                continue;
            }
            let length = fs::metadata(path).unwrap().len();
            for flips in 0..=round {
                flip(path, (flips * 7919 + round * 104_729 + number as u64 * 31) % length, 2);
            }
        }
        let (mut engine, opened) = open_all(copy.path());
        assert!(!opened.suspect, "round {round}");
        let missing = compare(&engine, &model, &format!("round {round}"));
        println!("round {round}: {missing} missing, {:?}", engine.damage());
        // It can be written to, and comes back.
        engine.persist(1, vec![put(Space::Data, b"after", b"1")]);
        durable(&mut engine, 1);
        assert!(engine.gaps().is_empty(), "taken note of");
        engine.close(false);
        let (engine, opened) = open(copy.path());
        assert!(!opened.suspect && engine.gaps().is_empty());
        assert!(engine.damage().unwrap().times > 0, "it is still known");
        read_all(&engine);
        assert!(engine.trouble().is_none());
        assert_eq!(engine.read(Space::Data, b"after").as_deref(), Some(&b"1"[..]));
    }
}

/// What was deleted stays deleted, although the table that says so is damaged and an older one has the value.
#[test]
fn nothing_comes_back_from_below_a_gap() {
    let (dir, model) = filled();
    let gone: Vec<u64> = (0..KEYS).filter(|at| at % 11 == 1).collect();
    for path in tables(dir.path()).iter().filter(|path| path.to_str().unwrap().contains("keyspaces/1/")) {
        let name = path.strip_prefix(dir.path()).unwrap();
        let length = fs::metadata(path).unwrap().len();
        for step in 0..8 {
            let copy = copy(dir.path());
            flip(&copy.path().join(name), length * step / 8, 1);
            let (engine, _) = open_all(copy.path());
            compare(&engine, &model, "deleted");
            assert!(gone.iter().all(|at| engine.read(Space::Data, &key(*at)).is_none()));
        }
    }
}

#[test]
fn a_table_that_is_gone_or_empty_costs_its_range() {
    let (dir, model) = filled();
    for path in tables(dir.path()).iter().filter(|path| path.to_str().unwrap().contains("keyspaces/1/")) {
        let name = path.strip_prefix(dir.path()).unwrap();
        let length = fs::metadata(path).unwrap().len();
        for cut in [None, Some(0), Some(length / 3)] {
            let copy = copy(dir.path());
            let target = copy.path().join(name);
            match cut {
                None => fs::remove_file(target).unwrap(),
                Some(length) => {
                    fs::OpenOptions::new().write(true).open(target).unwrap().set_len(length).unwrap();
                }
            }
            let (engine, opened) = open_all(copy.path());
            assert!(!opened.suspect);
            compare(&engine, &model, &format!("{} cut to {cut:?}", name.display()));
            assert!(!engine.gaps().is_empty());
        }
    }
}

#[test]
fn what_lists_the_tables_is_checked() {
    let (dir, model) = filled();
    for space in 0..=6 {
        let folder = format!("store/keyspaces/{space}");
        for name in fs::read_dir(dir.path().join(&folder)).unwrap().map(|entry| entry.unwrap().path()) {
            if name.is_dir() {
                continue;
            }
            let name = name.strip_prefix(dir.path()).unwrap().to_owned();
            let length = fs::metadata(dir.path().join(&name)).unwrap().len();
            for step in 0..6 {
                let copy = copy(dir.path());
                flip(&copy.path().join(&name), (length - 1) * step / 5, 4);
                let (engine, opened) = open_all(copy.path());
                if opened.suspect {
                    assert!(
                        space != 0 && engine.damage().unwrap().lost.as_ref().unwrap().contains("keyspaces")
                    );
                } else {
                    assert_eq!(compare(&engine, &model, &name.display().to_string()), 0);
                }
            }
        }
    }
}

#[test]
fn a_crash_at_any_moment_of_a_salvage_loses_nothing_more() {
    let (dir, model) = filled();
    let born = open(dir.path()).0.born();
    let table =
        tables(dir.path()).into_iter().find(|path| path.to_str().unwrap().contains("keyspaces/1/")).unwrap();
    let name = table.strip_prefix(dir.path()).unwrap();
    flip(&table, fs::metadata(&table).unwrap().len() / 2, 3);
    let (mut engine, _) = open(dir.path());
    read_all(&engine);
    assert!(engine.trouble().unwrap().contains("data"));
    engine.close(false);
    let mut crashes = 0;
    for steps in 1.. {
        let copy = copy(dir.path());
        let done = Disk::open_and_crash(&Home::open(copy.path()).unwrap(), owner(), steps);
        // A second one, in the middle of picking up the first.
        let _ = Disk::open_and_crash(&Home::open(copy.path()).unwrap(), owner(), 2);
        let (engine, opened) = open(copy.path());
        assert_eq!(opened, Opened { fresh: false, suspect: false, born }, "after {steps} steps");
        assert!(compare(&engine, &model, &format!("after {steps} steps")) > 0);
        read_all(&engine);
        assert!(engine.trouble().is_none());
        assert_eq!(engine.damage().unwrap().files, [name.display().to_string()]);
        assert_eq!(aside(copy.path()).len(), 1);
        assert!(!copy.path().join("store.salvage").exists());
        if done.is_ok() {
            break;
        }
        crashes += 1;
    }
    println!("{crashes} moments");
    assert!(crashes > 10);
}

#[test]
fn gaps_are_told_until_they_were_taken_note_of() {
    let (dir, model) = filled();
    let table =
        tables(dir.path()).into_iter().find(|path| path.to_str().unwrap().contains("keyspaces/1/")).unwrap();
    flip(&table, fs::metadata(&table).unwrap().len() / 2, 3);
    let (mut engine, _) = open_all(dir.path());
    let gaps = engine.gaps().to_vec();
    assert!(gaps.len() == 1 && gaps[0].space == Space::Data);
    engine.close(false);
    // Another one, before anything was done about the first.
    let other =
        tables(dir.path()).into_iter().find(|path| path.to_str().unwrap().contains("keyspaces/2/")).unwrap();
    flip(&other, fs::metadata(&other).unwrap().len() / 2, 3);
    let (mut engine, _) = open_all(dir.path());
    assert_eq!(engine.gaps()[0], gaps[0]);
    assert!(engine.gaps().len() == 2 && engine.gaps()[1].space == Space::Members);
    assert_eq!(engine.damage().unwrap().times, 2);
    compare(&engine, &model, "twice");
    engine.persist(1, vec![put(Space::Data, b"noted", b"")]);
    durable(&mut engine, 1);
    engine.close(false);
    assert!(open(dir.path()).0.gaps().is_empty());
}

/// While it is open, too: on a thread of its own, and what was asked for and not reported is not there afterwards.
#[test]
fn a_store_is_repaired_while_the_node_goes_on() {
    let (dir, model) = filled();
    let table =
        tables(dir.path()).into_iter().find(|path| path.to_str().unwrap().contains("keyspaces/1/")).unwrap();
    flip(&table, fs::metadata(&table).unwrap().len() / 2, 3);
    let (mut engine, opened) = open(dir.path());
    read_all(&engine);
    assert!(engine.trouble().is_some());
    let wake = engine.wake().unwrap();
    engine.repair(true).unwrap();
    assert!(engine.is_in_repair());
    assert_eq!(engine.read(Space::Meta, b"clock"), None, "a store of nothing");
    let until = Instant::now() + LONG;
    let done = loop {
        assert_eq!(engine.progress(), Ok(None));
        match engine.repaired() {
            Some(done) => break done.unwrap(),
            None => assert!(Instant::now() < until),
        }
        std::thread::yield_now();
    };
    assert_eq!(done, opened, "the same store");
    assert!(engine.trouble().is_none() && !engine.is_in_repair());
    assert!(std::sync::Arc::ptr_eq(&wake, &engine.wake().unwrap()));
    assert!(compare(&engine, &model, "repaired") > 0);
    engine.persist(1, vec![put(Space::Data, b"after", b"1")]);
    durable(&mut engine, 1);
    // One that ends in the middle of it leaves something that can be opened.
    engine.repair(true).unwrap();
    engine.close(true);
    let (engine, opened) = open(dir.path());
    assert!(!opened.suspect);
    assert_eq!(engine.read(Space::Data, b"after").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let (dir, model) = filled();
    fs::write(dir.path().join("store/version"), b"FJL\x04").unwrap();
    let error = refused(dir.path(), owner());
    let text = error.to_string();
    assert!(text.contains("format 4") && text.contains("up to 3") && text.contains("version"), "{text}");
    assert!(error.remedy().contains("newer kringle") && error.remedy().contains("--data"));
    assert!(aside(dir.path()).is_empty());
    fs::write(dir.path().join("store/version"), b"FJL\x03").unwrap();
    let (engine, opened) = open(dir.path());
    assert!(!opened.fresh && compare(&engine, &model, "untouched") == 0);
    drop(engine);
    // A damaged one is no newer one.
    fs::write(dir.path().join("store/version"), b"FKL\x03").unwrap();
    let (engine, opened) = open(dir.path());
    assert!(!opened.fresh && compare(&engine, &model, "repaired") == 0);
}

#[test]
fn a_torn_end_of_the_journal_is_counted() {
    let (dir, model) = filled();
    let journal = fs::read_dir(dir.path().join("store")).unwrap().map(|entry| entry.unwrap().path());
    let journal = journal.filter(|path| path.extension().is_some_and(|end| end == "jnl")).max().unwrap();
    // It is made long and empty.
    let used = |path: &Path| fs::read(path).unwrap().iter().rposition(|byte| *byte != 0).unwrap() as u64;
    let length = used(&journal);
    let (mut engine, _) = open(dir.path());
    assert_eq!(engine.damage().unwrap().torn_bytes, 0);
    engine.persist(1, vec![put(Space::Data, b"torn", vec![1; 5000])]);
    durable(&mut engine, 1);
    engine.close(false);
    let longer = used(&journal);
    assert!(longer > length);
    fs::OpenOptions::new().write(true).open(&journal).unwrap().set_len(longer - 100).unwrap();
    let (engine, opened) = open(dir.path());
    assert!(!opened.suspect && compare(&engine, &model, "torn") == 0);
    let torn = engine.damage().unwrap().torn_bytes;
    assert!(torn > 4000 && torn < 6000, "{torn}");
}

/// A store of records as the core makes them, some in tables, some in the journal; one of them is no record.
fn with_records() -> tempfile::TempDir {
    use kringle_core::id::Key;
    use kringle_core::store::op::Name;
    use kringle_core::store::record::{Cell, Kind, Origin, Record};
    use kringle_core::store::version::Version;
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _) = open(dir.path());
    for ticket in 1..=40_u64 {
        let name =
            Name { id: Key::new(u128::from(ticket) << 120), bytes: format!("key-{ticket}").into_bytes() };
        let cell = Cell::of(&name);
        let origin = Origin { node: NodeId::new(7), serial: 1 };
        let record = Record::make(&cell, Kind::Value, Version::at(ticket), origin, 0, &[1; 400]);
        engine.persist(ticket, vec![put(Space::Data, &*cell.key.0, &**record.bytes())]);
        durable(&mut engine, ticket);
        if ticket == 20 {
            engine.flush();
        }
    }
    engine.close(true);
    dir
}

/// Waits for the end of a scrub.
fn scrubbed(engine: &mut Engine, rate: u64) -> crate::engine::Scrub {
    engine.scrub(rate).unwrap();
    let until = Instant::now() + LONG;
    loop {
        match engine.scrub_report().unwrap() {
            report if !report.running => return report,
            _ => assert!(Instant::now() < until, "it never ends"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_scrub_reads_everything_and_finds_what_is_damaged() {
    let dir = with_records();
    let (mut engine, _) = open(dir.path());
    let good = scrubbed(&mut engine, 1 << 30);
    assert!(good.finished_ms > 0 && good.records == 40 && good.files > 0, "{good:?}");
    assert!(good.damaged_files.is_empty() && good.damaged_records == 0);
    assert!(engine.scrub_found().is_empty() && engine.trouble().is_none());
    // A record that was not right when it was written.
    let key = key(9);
    engine.persist(1, vec![put(Space::Data, &key, b"no record")]);
    durable(&mut engine, 1);
    let bad = scrubbed(&mut engine, 1 << 30);
    assert_eq!((bad.records, bad.damaged_records), (41, 1));
    let found = engine.scrub_found();
    assert!(found.len() == 1 && *found[0].from == *key && found[0].space == Space::Data);
    assert!(engine.trouble().is_none() && engine.scrub_found().is_empty());
    engine.close(true);
    // A bit flipped where no read would notice: in the filter, the index, the summary.
    let table =
        tables(dir.path()).into_iter().find(|path| path.to_str().unwrap().contains("keyspaces/1/")).unwrap();
    flip(&table, fs::metadata(&table).unwrap().len() * 9 / 10, 0);
    let (mut engine, _) = open(dir.path());
    assert_eq!(engine.scrub_report().unwrap(), bad, "it is remembered");
    if engine.damage().unwrap().times == 0 {
        let worse = scrubbed(&mut engine, 1 << 30);
        let name = table.strip_prefix(dir.path()).unwrap().display().to_string();
        assert_eq!(worse.damaged_files, [name]);
        engine.scrub_found();
        assert!(engine.trouble().is_some());
        engine.close(false);
        engine = open(dir.path()).0;
    }
    assert_eq!(engine.damage().unwrap().times, 1);
    assert!(scrubbed(&mut engine, 1 << 30).damaged_files.is_empty(), "and repaired");
    assert_eq!(entries(&engine, Space::Data).len(), 41);
}

#[test]
fn a_scrub_keeps_to_its_rate_and_ends_with_the_store() {
    let dir = with_records();
    let (mut engine, _) = open(dir.path());
    engine.scrub(1000).unwrap();
    engine.scrub(1 << 30).unwrap();
    let began = Instant::now();
    while engine.scrub_report().unwrap().bytes == 0 {
        std::thread::yield_now();
    }
    let report = engine.scrub_report().unwrap();
    assert!(report.running && report.finished_ms == 0 && report.total_bytes > 8000, "{report:?}");
    engine.close(true);
    assert!(began.elapsed() < Duration::from_secs(5), "nobody waits for it");
    let (engine, _) = open(dir.path());
    let report = engine.scrub_report().unwrap();
    assert!(!report.running && report.started_ms == 0, "one that was interrupted does not count: {report:?}");
}
