//! Stores that are not opened: of others, of other versions, in pieces, on disks that can not be written.

use std::fs;
use std::process::Command;

use super::*;
use crate::engine::Cause;

/// A closed store with one entry.
fn made(owner: Owner) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _) = Engine::disk(&Home::open(dir.path()).unwrap(), owner).unwrap();
    engine.persist(1, vec![put(Space::Data, b"a", b"1")]);
    engine.close(true);
    dir
}

fn swap(one: &Path, other: &Path, name: &str) {
    let aside = one.join("aside");
    fs::rename(one.join(name), &aside).unwrap();
    fs::rename(other.join(name), one.join(name)).unwrap();
    fs::rename(aside, other.join(name)).unwrap();
}

fn says(error: &HomeError, what: &str) {
    assert!(error.to_string().contains(what), "{error} does not say {what:?}");
    assert!(!error.remedy().is_empty());
}

#[test]
fn the_store_of_another_node_or_cluster() {
    let dir = made(owner());
    let error = refused(dir.path(), Owner { node: NodeId::new(8), ..owner() });
    says(&error, &dir.path().display().to_string());
    says(&error, &NodeId::new(7).to_string());
    let error = refused(dir.path(), Owner { cluster: ClusterId([2; 16]), ..owner() });
    says(&error, "belongs to");
    assert_eq!(entries(&open(dir.path()).0, Space::Data).len(), 1, "it is as it was");
}

#[test]
fn stores_that_were_swapped() {
    let other_owner = Owner { node: NodeId::new(8), ..owner() };
    let (one, other) = (made(owner()), made(other_owner));
    let parts: [&[&str]; 4] =
        [&["store", "store.format", "store.mark"], &["store", "store.mark"], &["store"], &["store.mark"]];
    for names in parts {
        names.iter().for_each(|name| swap(one.path(), other.path(), name));
        says(&refused(one.path(), owner()), &one.path().display().to_string());
        says(&refused(other.path(), other_owner), &other.path().display().to_string());
        names.iter().for_each(|name| swap(one.path(), other.path(), name));
        let (engine, opened) = open(one.path());
        assert!(!opened.fresh, "{names:?}");
        assert_eq!(entries(&engine, Space::Data).len(), 1);
    }
}

#[test]
fn a_format_that_can_not_be_read() {
    let dir = made(owner());
    let path = dir.path().join("store.format");
    let good = fs::read_to_string(&path).unwrap();
    let bad = [
        (String::new(), "damaged"),
        ("{".into(), "damaged"),
        ("[1, 2]".into(), "damaged"),
        (good.replace("\"format\": 1", "\"format\": 2"), "newer"),
        (good.replace("fjall-3", "leaf-1"), "engine"),
        (good.replace("\"born\"", "\"burn\""), "damaged"),
    ];
    for (text, what) in bad {
        fs::write(&path, text).unwrap();
        let error = refused(dir.path(), owner());
        says(&error, what);
        says(&error, "store.format");
    }
    fs::remove_file(&path).unwrap();
    says(&refused(dir.path(), owner()), "missing");
    fs::write(&path, good).unwrap();
    assert_eq!(entries(&open(dir.path()).0, Space::Data).len(), 1, "it is as it was");
}

#[test]
fn a_file_in_place_of_the_database() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("store"), "not a directory").unwrap();
    says(&refused(dir.path(), owner()), "store");
    assert!(dir.path().join("store").is_file());
}

#[test]
fn a_store_that_was_not_finished_is_made_again() {
    let dir = made(owner());
    let path = dir.path().join("store.format");
    let format = fs::read_to_string(&path).unwrap();
    fs::write(&path, format.replace("\"made\": true", "\"made\": false")).unwrap();
    let (engine, opened) = open(dir.path());
    assert!(opened.fresh && !opened.suspect);
    assert!(entries(&engine, Space::Data).is_empty());
}

#[test]
fn the_same_store_twice() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let (engine, _) = Engine::disk(&home, owner()).unwrap();
    assert!(matches!(Engine::disk(&home, owner()), Err(HomeError::InUse { .. })));
    drop(home);
    // The store alone keeps the lock of the directory.
    assert!(matches!(Home::open(dir.path()), Err(HomeError::InUse { .. })));
    drop(engine);
    open(dir.path());
}

/// A file system of its own, unmounted at the end.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// `None` if this user may not mount.
    fn tmpfs(size: &str) -> Option<Mounted> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir.path()).output();
        mount.is_ok_and(|done| done.status.success()).then(|| Mounted(dir))
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(Command::new("mount").args(["-o", &options]).arg(self.0.path()).status().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_directory_that_can_not_be_written() {
    let began = Instant::now();
    if let Some(mounted) = Mounted::tmpfs("8m") {
        let path = mounted.0.path();
        open(path).0.close(true);
        mounted.remount("ro");
        let Err(error) = Home::open(path) else { panic!("it can not be written") };
        says(&error, &path.display().to_string());
        assert!(error.remedy().contains("right to read and write"));
    } else {
        println!("this user may not mount: a directory without the right to write instead");
        use std::os::unix::fs::PermissionsExt;
        let dir = made(owner());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
        let opened = Home::open(dir.path());
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        if rustix::process::geteuid().is_root() {
            println!("root may write everywhere: only a path through a file can be refused");
            let path = dir.path().join("store.mark").join("data");
            says(&Home::open(&path).err().unwrap(), "store.mark");
        } else {
            says(&opened.err().unwrap(), &dir.path().display().to_string());
        }
    }
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let Some(mounted) = Mounted::tmpfs("4m") else {
        println!(
            "this user may not mount: see nothing_is_reported_after_the_disk_failed, with an injected failure"
        );
        return nothing_is_reported_after_the_disk_failed();
    };
    let path = mounted.0.path();
    let (mut engine, _) = open(path);
    let (mut ticket, mut done) = (0, 0);
    let error = loop {
        ticket += 1;
        assert!(ticket < 1000, "the disk never fills");
        engine.persist(ticket, vec![put(Space::Data, ticket.to_be_bytes(), vec![7; 50_000])]);
        match engine.progress() {
            Ok(progress) => done = progress.unwrap_or(done),
            Err(error) => break error,
        }
        while done + 4 < ticket
            && let Ok(progress) = engine.progress()
        {
            done = progress.unwrap_or(done);
        }
    };
    println!("after {done} of {ticket}: {error}");
    assert!(done > 10);
    assert_eq!(error.cause, Cause::Full);
    // With room, it can be opened again.
    mounted.remount("size=64m");
    engine.repair(false).unwrap();
    let until = Instant::now() + LONG;
    let opened = loop {
        match engine.repaired() {
            Some(opened) => break opened.unwrap(),
            None => assert!(Instant::now() < until),
        }
        std::thread::yield_now();
    };
    assert!(!opened.suspect && !opened.fresh);
    for ticket in 1..=done {
        assert!(engine.read(Space::Data, &ticket.to_be_bytes()).is_some_and(|value| *value == [7; 50_000]));
    }
    engine.persist(1, vec![put(Space::Data, b"again", b"")]);
    durable(&mut engine, 1);
}
