//! Disks that lost something, and clocks that are wrong. What was acknowledged stays, and nothing comes back.
//!
//! In the tests of one disk, a value is on the disks of two nodes of three, the third one stands still; then one of the
//! two loses it. With the other one away, the third and the one that lost it are a quorum that knows nothing: they
//! must not answer that there is nothing. With it back, everything must be there.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::identities::copy;
use crate::ring::control::{Launcher, Process, settle};
use crate::ring::protocol::Options;
use crate::store_support::{Cluster, STORES, get, keys, options, put, try_write, write};
use crate::support::{LONG, launcher, until};

const KEYS: usize = 30;

/// Everything of the store in a data directory; who the node is stays.
pub(crate) fn delete_store(data: &Path) {
    std::fs::remove_dir_all(data.join("store")).unwrap();
    std::fs::remove_file(data.join("store.format")).unwrap();
    std::fs::remove_file(data.join("store.mark")).unwrap();
}

/// Flips a bit in the middle of what is written in the newest journal.
fn flip_a_bit(data: &Path) {
    let files = std::fs::read_dir(data.join("store")).unwrap().map(|file| file.unwrap().path());
    let mut journals: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "jnl")).collect();
    journals.sort();
    let journal = journals.last().unwrap();
    let bytes = std::fs::read(journal).unwrap();
    // Journals are made long, and empty.
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let at = end / 2;
    println!("a bit of byte {at} of {end} in {} is flipped", journal.display());
    let file = std::fs::OpenOptions::new().write(true).open(journal).unwrap();
    file.write_all_at(&[bytes[at] ^ 4], at as u64).unwrap();
}

/// Says what a node reads under each key, leaving out what it does not answer.
fn answers(node: &Process, keys: &[String]) -> Vec<(String, Option<(u64, bool)>)> {
    let found = get(node, keys, "quorum");
    keys.iter().cloned().zip(found).filter_map(|(key, found)| Some((key, found.ok()?))).collect()
}

/// What every test of one disk does: see the module's description. `damage` is given the data directory of the node that
/// loses something, and a copy of it from the beginning.
fn one_disk(damage: impl Fn(&Path, &Path)) {
    let mut cluster = Cluster::start(3);
    let (victim, witness, absent) = (0, 1, 2);
    let (kept, gone, fresh) = (keys("kept", KEYS), keys("gone", KEYS), keys("fresh", KEYS));
    put(&cluster.nodes[witness], &kept, 1);
    put(&cluster.nodes[witness], &gone, 1);
    // A copy of the beginning, taken while nobody writes to it.
    cluster.nodes[victim].signal(Signal::TERM);
    cluster.nodes[victim].ended(LONG).unwrap();
    let old = cluster.folder.path().join("old");
    copy(&cluster.data(victim), &old);
    cluster.restart(victim);
    settle(&cluster.nodes, 8, LONG).unwrap();
    cluster.serves();

    cluster.nodes[absent].signal(Signal::STOP);
    for key in &kept {
        write(&cluster.nodes[witness], key, 2, Some(100));
    }
    for key in &fresh {
        write(&cluster.nodes[witness], key, 2, Some(100));
    }
    for key in &gone {
        write(&cluster.nodes[witness], key, 2, None);
    }
    let is_right = |key: &str, found: Option<(u64, bool)>| match key.starts_with("gone") {
        true => found.is_none(),
        false => found == Some((2, true)),
    };
    let all: Vec<String> = [&kept[..], &gone[..], &fresh[..]].concat();
    cluster.nodes[victim].signal(Signal::KILL);
    let _ = cluster.nodes[victim].ended(LONG);
    damage(&cluster.data(victim), &old);
    cluster.nodes[witness].signal(Signal::STOP);
    cluster.nodes[absent].signal(Signal::CONT);
    // It may not become part of a ring while one of three stands still; the question is only what it answers.
    let join = vec![cluster.nodes[absent].address, cluster.nodes[witness].address];
    cluster.nodes.remove(victim).kill();
    let node = launcher().start(&Options { join, ..options(Some(cluster.data(victim))) }).unwrap();
    cluster.nodes.insert(victim, node);
    let start = std::time::Instant::now();
    let mut count = 0;
    while start.elapsed() < Duration::from_secs(12) {
        for at in [victim, absent] {
            for (key, found) in answers(&cluster.nodes[at], &all) {
                count += 1;
                assert!(is_right(&key, found), "node {at} answers {found:?} for {key}");
            }
        }
    }
    println!("{count} answers while the only one with everything was away");
    cluster.nodes[witness].signal(Signal::CONT);
    cluster.nodes[victim].ready(LONG).unwrap();
    let mut left: Vec<(usize, Vec<String>)> = (0..3).map(|at| (at, all.clone())).collect();
    until("every node reads everything", STORES, || {
        for (at, keys) in &mut left {
            for (key, found) in answers(&cluster.nodes[*at], keys) {
                assert!(is_right(&key, found), "node {at} answers {found:?} for {key}");
                keys.retain(|other| *other != key);
            }
        }
        left.iter().all(|(_, keys)| keys.is_empty())
    });
    // Now it is a copy like any other: without one of the other two, everything is there.
    cluster.serves();
    std::thread::sleep(Duration::from_secs(5));
    for away in [witness, absent] {
        cluster.nodes[away].signal(Signal::STOP);
        let mut left = all.clone();
        until("everything is read without one of them", STORES, || {
            for (key, found) in answers(&cluster.nodes[victim], &left) {
                assert!(is_right(&key, found), "without node {away}: {found:?} for {key}");
                left.retain(|other| *other != key);
            }
            left.is_empty()
        });
        cluster.nodes[away].signal(Signal::CONT);
        settle(&cluster.nodes, 8, LONG).unwrap();
        cluster.serves();
    }
}

/// F-35.
#[test]
fn a_node_whose_store_was_deleted_comes_back_and_loses_nothing() {
    one_disk(|data, _| delete_store(data));
}

/// F-41.
#[test]
fn a_node_with_an_old_copy_of_its_directory_brings_nothing_back() {
    one_disk(|data, old| {
        std::fs::remove_dir_all(data).unwrap();
        copy(old, data);
    });
}

/// F-33.
#[test]
fn a_bit_that_flipped_in_the_journal_is_served_to_nobody() {
    one_disk(|data, _| flip_a_bit(data));
}

/// Returns the table files of the records of a node.
fn tables(data: &Path) -> Vec<std::path::PathBuf> {
    let Ok(files) = std::fs::read_dir(data.join("store/keyspaces/1/tables")) else { return Vec::new() };
    // Files come and go while the database works.
    let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    files
}

/// Goal: a bit flipped in the tables of two nodes of three costs the block it is in, on each of them; the third has
/// everything. Method: enough is written for tables to exist; two nodes stop, a bit is flipped in every table of theirs,
/// at different places; both come back, and everything is read from every node. They repair what they had, under the same
/// name of their disk, and say which files were damaged.
#[test]
fn a_bit_that_flipped_in_the_tables_of_two_nodes_costs_nothing() {
    // Near the beginning of the one, near the end of the other: blocks of data in both.
    two_disks([1, 4]);
}

/// The same record on both: the third is the only one that has it.
#[test]
fn a_bit_that_flipped_at_the_same_place_on_two_nodes_costs_nothing() {
    two_disks([1, 1]);
}

/// Flips a bit in the tables of nodes 0 and 1, after so many fifths of each file.
fn two_disks(fifths: [usize; 2]) {
    let mut cluster = Cluster::start(3);
    let all = keys("k", 200);
    for key in &all {
        write(&cluster.nodes[0], key, 1, Some(60_000));
    }
    let damaged = [0, 1];
    until("there are tables", STORES, || damaged.iter().all(|at| !tables(&cluster.data(*at)).is_empty()));
    for at in damaged {
        cluster.nodes[at].signal(Signal::TERM);
        cluster.nodes[at].ended(LONG).unwrap();
    }
    for at in damaged {
        for path in tables(&cluster.data(at)) {
            let bytes = std::fs::read(&path).unwrap();
            let place = bytes.len() * fifths[at] / 5;
            println!("node {at}: a bit of byte {place} in {} is flipped", path.display());
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&[bytes[place] ^ 4], place as u64).unwrap();
        }
    }
    for at in damaged {
        cluster.restart(at);
    }
    settle(&cluster.nodes, 8, LONG).unwrap();
    let mut left: Vec<(usize, Vec<String>)> = (0..3).map(|at| (at, all.clone())).collect();
    until("every node reads everything", STORES, || {
        for (at, keys) in &mut left {
            for (key, found) in answers(&cluster.nodes[*at], keys) {
                assert_eq!(found, Some((1, true)), "node {at} answers {found:?} for {key}");
                keys.retain(|other| *other != key);
            }
        }
        left.iter().all(|(_, keys)| keys.is_empty())
    });
    cluster.serves();
    for at in damaged {
        let disk = cluster.nodes[at].summary().unwrap().disk.expect("it says what happened to its disk");
        println!("node {at}: {disk:?}");
        assert_eq!((disk.state.as_str(), disk.repairs, disk.lost.as_deref()), ("ok", 1, None));
        assert!(disk.gaps > 0 && disk.files[0].starts_with("store/keyspaces/1/tables/"), "{disk:?}");
        assert!(cluster.data(at).join("store.damaged-1").exists(), "what was damaged is kept");
    }
    assert_eq!(cluster.nodes[2].summary().unwrap().disk, None);
    // Each of them has everything again, without the one that was never damaged.
    until("nothing is copied any more", STORES, || {
        let is_done = |at: &usize| {
            let held = cluster.nodes[*at].summary().unwrap().store.unwrap();
            held.waiting == 0 && held.pulls == 0
        };
        damaged.iter().all(is_done)
    });
    cluster.nodes[2].signal(Signal::STOP);
    let mut left = all.clone();
    until("everything is read without the third", STORES, || {
        for (key, found) in answers(&cluster.nodes[0], &left) {
            assert_eq!(found, Some((1, true)), "{key}");
            left.retain(|other| *other != key);
        }
        left.is_empty()
    });
    cluster.nodes[2].signal(Signal::CONT);
}

#[test]
fn a_directory_that_stores_serves_one_process() {
    let cluster = Cluster::start(3);
    let before = keys("before", 5);
    put(&cluster.nodes[0], &before, 1);
    let Err(why) = launcher().start(&options(Some(cluster.data(0)))) else { panic!("it was started") };
    assert!(why.contains(&cluster.nodes[0].pid.to_string()), "it does not name the process: {why}");
    // The first one goes on.
    put(&cluster.nodes[0], &keys("after", 5), 1);
    assert_eq!(get(&cluster.nodes[0], &before, "quorum"), vec![Ok(Some((1, true))); 5]);
}

/// Goal: a node whose clock is an hour ahead does not hide what others write, and keeps nobody from writing. Method: it
/// writes a key, if it can, then another node does, which has to win; with nobody's clock changed in between.
/// Needs libfaketime; see `clocks`.
#[test]
fn a_clock_an_hour_ahead_hides_no_writes() {
    let Some(launcher) = crate::clocks::an_hour_ahead() else { return };
    let mut cluster = Cluster::start(5);
    let all = keys("k", 20);
    put(&cluster.nodes[0], &all, 1);
    wrong_clock(&mut cluster, 4, &launcher);
    let (mut taken, mut refused) = (0, Vec::new());
    for number in 1..=3 {
        for key in &all {
            match try_write(&cluster.nodes[4], key, number * 10 + 1, Some(100)) {
                Ok(_) => taken += 1,
                Err(why) => refused.push(why),
            }
            println!(
                "{key}, written by the node that is ahead {taken} times, refused {} times",
                refused.len()
            );
            write(&cluster.nodes[0], key, number * 10 + 2, Some(100));
            for at in [0, 2] {
                let found = get(&cluster.nodes[at], std::slice::from_ref(key), "quorum");
                assert_eq!(found, vec![Ok(Some((number * 10 + 2, true)))], "{key} at node {at}");
            }
        }
    }
    refused.dedup();
    println!("the node that is ahead wrote {taken} times; refused: {refused:?}");
    // Nor does it after it has been restarted, with the clock of everybody else.
    cluster.nodes[4].signal(Signal::KILL);
    cluster.restart(4);
    settle(&cluster.nodes, 8, LONG).unwrap();
    for key in &all {
        write(&cluster.nodes[4], key, 42, Some(100));
        let found = get(&cluster.nodes[1], std::slice::from_ref(key), "quorum");
        assert_eq!(found, vec![Ok(Some((42, true)))], "{key}");
    }
}

fn wrong_clock(cluster: &mut Cluster, at: usize, launcher: &Launcher) {
    cluster.nodes[at].signal(Signal::KILL);
    cluster.restart_with(launcher, at);
    println!("pid {} is an hour ahead", cluster.nodes[at].pid);
    settle(&cluster.nodes, 8, LONG).unwrap();
}
