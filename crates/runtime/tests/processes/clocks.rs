//! Clocks of people that are wrong, or are set. Leases and timeouts go by another clock; lives and tokens go by this one.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kringle_runtime::report::Event;

use crate::ring::control::{Launcher, check, settle};
use crate::ring::protocol::Options;
use crate::support::{LONG, launcher, leases, ring, until};

const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

fn unix() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u32::try_from(since.as_secs()).unwrap()
}

/// Returns libfaketime. Without it tests are left out, unless KRINGLE_ALL_TOOLS is set.
pub(crate) fn library() -> Option<&'static str> {
    let library = FAKETIME.into_iter().find(|path| Path::new(path).exists());
    if library.is_none() {
        assert!(std::env::var_os("KRINGLE_ALL_TOOLS").is_none(), "libfaketime is missing");
        println!("left out: libfaketime is not installed");
    }
    library
}

/// Starts nodes with another clock of people than everybody else.
pub(crate) fn faked(library: &str, setting: (&str, String)) -> Launcher {
    let variables = [
        ("LD_PRELOAD", library.to_string()),
        setting,
        ("FAKETIME_NO_CACHE", "1".into()),
        // What is set is the clock of people, not the one that counts on.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
    ];
    let variables = variables.map(|(name, value)| (name.to_string(), value)).into();
    Launcher { variables, ..launcher() }
}

/// Starts nodes that are an hour ahead, if there is a way to.
pub(crate) fn an_hour_ahead() -> Option<Launcher> {
    Some(faked(library()?, ("FAKETIME", "+3600s".into())))
}

/// The clock was an hour ahead in the last life, and is right now: the life after it is later all the same.
#[test]
fn a_clock_that_was_an_hour_ahead_does_not_make_a_node_older() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = ring(3, |_| leases(1000));
    let options =
        Options { data: Some(folder.path().to_path_buf()), join: vec![nodes[0].address], ..leases(1000) };
    let before = launcher().start(&options).unwrap();
    before.ready(LONG).unwrap();
    let id = before.id;
    before.kill();
    let ahead = unix() + 3600;
    std::fs::write(folder.path().join("incarnation"), format!("{ahead}\n")).unwrap();
    for life in 1..=2 {
        let node = launcher().start(&options).unwrap();
        assert_eq!((node.id, node.incarnation), (id, ahead + life));
        node.ready(LONG).unwrap();
        nodes.push(node);
        settle(&nodes, 16, LONG).unwrap();
        nodes.pop().unwrap().kill();
    }
}

/// A node whose clock is an hour ahead, then is set back by two hours, then forward by three: nobody notices, itself
/// included. Needs libfaketime (Debian: faketime); says so and passes without it, unless KRINGLE_ALL_TOOLS is set, as in `cargo xtask test`.
#[test]
fn setting_the_clock_of_a_node_disturbs_nobody() {
    let Some(library) = library() else { return };
    let folder = tempfile::tempdir().unwrap();
    let offset = folder.path().join("offset");
    let set = |text: &str| std::fs::write(&offset, text).unwrap();
    let mut nodes = ring(4, |_| leases(1000));
    set("+3600");
    let offset_file = ("FAKETIME_TIMESTAMP_FILE", offset.display().to_string());
    let launcher = faked(library, offset_file);
    let node = launcher.start(&Options { join: vec![nodes[0].address], ..leases(1000) }).unwrap();
    println!("pid {} is an hour ahead", node.pid);
    let ahead = |seconds: u32| u64::from(unix() + seconds) * 1000;
    let dated = |events: &[Event], after: u64| events.iter().any(|event| event.at_ms > after);
    until("what happens is dated an hour ahead", LONG, || dated(&node.events().unwrap(), ahead(3500)));
    let id = node.id;
    nodes.push(node);
    settle(&nodes, 16, LONG).unwrap();
    for step in ["-3600", "+7200"] {
        set(step);
        // Its leases of a second are renewed a few times by the clock it has now.
        let start = std::time::Instant::now();
        let mut seed = 0;
        while start.elapsed() < Duration::from_secs(3) {
            seed += 1;
            check(&nodes, 16, seed).unwrap();
        }
    }
    // The clock was really set: what happens now is dated two hours ahead.
    nodes.remove(1).kill();
    until("what happens is dated by the clock that was set", LONG, || {
        let stepped = nodes.iter().find(|node| node.id == id).unwrap();
        dated(&stepped.events().unwrap(), ahead(7000))
    });
    settle(&nodes, 16, LONG).unwrap();
}
