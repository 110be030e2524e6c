//! A process that stores is killed at any moment, again and again.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::*;

/// Tells the child where to store, and which number to begin with.
const VARIABLE: &str = "KRINGLE_ENGINE_CHILD";

/// What the killed processes run: it stores numbers, one after the other, and says which are durable. Started by itself
/// it has nothing to do.
#[test]
fn a_child_for_the_other_tests() {
    let Ok(told) = std::env::var(VARIABLE) else { return };
    let (from, dir) = told.split_once(' ').unwrap();
    let from: u64 = from.parse().unwrap();
    let (mut engine, opened) = open(Path::new(dir));
    assert!(!opened.suspect);
    let mut out = std::io::stdout();
    let (mut next, mut done) = (0, 0);
    loop {
        while next < done + 16 {
            next += 1;
            let number = from + next;
            let last = put(Space::Meta, b"last", number.to_be_bytes());
            let mut writes = vec![put(Space::Data, number.to_be_bytes(), value(number)), last];
            if number > 100 {
                writes.push(remove(Space::Data, (number - 100).to_be_bytes()));
            }
            engine.persist(next, writes);
        }
        if let Some(ticket) = engine.progress().unwrap() {
            done = ticket;
            writeln!(out, "durable {}", from + done).unwrap();
            out.flush().unwrap();
        }
    }
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 100 + (number % 400) as usize]
}

#[test]
fn nothing_reported_is_lost_in_twenty_kills() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for kill in 0..20_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["engine::tests::kills::a_child_for_the_other_tests", "--exact", "--nocapture"])
            .env(VARIABLE, format!("{last} {}", dir.path().display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Some are killed while they make the store, or before anything is durable.
        let patience = [0, 1, 2, 7, 40, 200][kill as usize % 6];
        let mut durable = last;
        let mut take = |line: String| {
            // The harness of the child's tests writes without a line end.
            if let Some((_, number)) = line.split_once("durable ") {
                durable = durable.max(number.trim().parse().unwrap_or(0));
            }
        };
        if patience == 0 {
            std::thread::sleep(Duration::from_millis(kill * 3));
        }
        lines.by_ref().take(patience).for_each(|line| take(line.unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
        // The last line may be cut off: its number is then less than what was reported.
        lines.map_while(Result::ok).for_each(take);
        let (mut engine, opened) = open(dir.path());
        assert!(!opened.suspect, "kill {kill}");
        let stored = engine
            .read(Space::Meta, b"last")
            .map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()));
        assert!(stored >= durable, "kill {kill}: {durable} was reported, {stored} is the last");
        // In order, all or nothing: exactly the last hundred.
        let found = entries(&engine, Space::Data);
        assert_eq!(found.len() as u64, stored.min(100), "kill {kill}");
        for (at, (key, bytes)) in found.iter().enumerate() {
            let number = stored - found.len() as u64 + 1 + at as u64;
            assert_eq!(*key, number.to_be_bytes());
            assert_eq!(*bytes, value(number));
        }
        engine.close(kill % 2 == 0);
        last = stored;
    }
    println!("{last} writes survived");
    assert!(last > 100);
}
