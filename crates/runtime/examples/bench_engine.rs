//! Figures of the storage engine: `bench_engine [DIR] [--seconds N]`.
//!
//! Durable writes with 1, 64 and 1024 tickets outstanding, of one entry of 150 bytes each; reads of what is there, of what
//! is not, and of what is pending; scans; how long it takes to open; memory. CPU time is that of the whole process, so
//! the workers of the database are in it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kringle_core::config::ClusterId;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::id::NodeId;
use kringle_core::records::{Bytes, Records, Space, Write};
use kringle_runtime::engine::{Engine, Opened, Owner};
use kringle_runtime::home::Home;

/// Bytes of a value.
const VALUE: usize = 150;

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut seconds = 3;
    let mut dir = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(seconds),
            _ => dir = Some(PathBuf::from(argument)),
        }
    }
    let dir =
        dir.unwrap_or_else(|| std::env::temp_dir().join(format!("bench_engine-{}", std::process::id())));
    std::fs::create_dir_all(&dir)?;
    let span = Duration::from_secs(seconds);
    let begun = memory();
    let (mut engine, opened) = open(&dir)?;
    println!("memory: {begun} KiB before, {} KiB with an open, empty store ({opened:?})", memory());
    let mut dice = SeededDice::new(1);
    let mut ticket = 0;
    for outstanding in [1, 64, 1024] {
        writes(&mut engine, &mut ticket, outstanding, span)?;
    }
    println!("memory: {} KiB after {ticket} writes", memory());
    reads(&engine, &mut dice, ticket, span);
    engine.close(true);
    let began = Instant::now();
    let (mut engine, opened) = open(&dir)?;
    println!("open: {:.1} ms ({opened:?}), memory {} KiB", began.elapsed().as_secs_f64() * 1e3, memory());
    engine.close(true);
    println!("disk: {} KiB", size(&dir)? / 1024);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn open(dir: &Path) -> Result<(Engine, Opened), Box<dyn std::error::Error>> {
    let owner = Owner { node: NodeId::new(1), cluster: ClusterId([0; 16]) };
    Ok(Engine::disk(&Home::open(dir)?, owner)?)
}

/// The key of a number: spread, as the places of keys on the ring are.
fn key(number: u64) -> Bytes {
    let mut key = [0; 24];
    key[..16].copy_from_slice(
        &u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes(),
    );
    key[16..].copy_from_slice(&number.to_be_bytes());
    Bytes::from(key)
}

fn writes(
    engine: &mut Engine,
    ticket: &mut u64,
    outstanding: u64,
    span: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let wake = engine.wake().ok_or("no disk")?;
    let before = engine.figures();
    let (began, cpu, first) = (Instant::now(), cpu(), *ticket);
    let mut asked_at: std::collections::VecDeque<(u64, Instant)> = Default::default();
    let mut waits: Vec<u32> = Vec::new();
    let mut done = *ticket;
    while began.elapsed() < span || done < *ticket {
        while *ticket < done + outstanding && began.elapsed() < span {
            *ticket += 1;
            let value = Some(Bytes::from([*ticket as u8; VALUE]));
            engine.persist(*ticket, vec![Write { space: Space::Data, key: key(*ticket), value }]);
            asked_at.push_back((*ticket, Instant::now()));
        }
        runtime.block_on(wake.notified());
        done = engine.progress()?.unwrap_or(done);
        while asked_at.front().is_some_and(|(ticket, _)| *ticket <= done) {
            waits.extend(asked_at.pop_front().map(|(_, at)| at.elapsed().as_micros() as u32));
        }
    }
    let (took, count) = (began.elapsed().as_secs_f64(), (*ticket - first) as f64);
    let after = engine.figures();
    waits.sort_unstable();
    let at = |part: usize| waits.get(waits.len() * part / 1000).copied().unwrap_or(0);
    println!(
        "{outstanding} outstanding: {:.0} durable writes/s, {:.1} in a commit, {:.2} us CPU each; \
         wait {} us p50, {} us p99, {} us p99.9; slowest commit {} us",
        count / took,
        (after.writes - before.writes) as f64 / (after.commits - before.commits) as f64,
        (self::cpu() - cpu) / count,
        at(500),
        at(990),
        at(999),
        after.slowest,
    );
    Ok(())
}

fn reads(engine: &Engine, dice: &mut SeededDice, last: u64, span: Duration) {
    let mut measure = |name: &str, read: &mut dyn FnMut(u64) -> usize| {
        let (began, cpu) = (Instant::now(), cpu());
        let (mut count, mut found) = (0_u64, 0);
        while began.elapsed() < span {
            for _ in 0..100 {
                found += read(1 + dice.roll() % last);
                count += 1;
            }
        }
        let rate = count as f64 / began.elapsed().as_secs_f64();
        println!("{name}: {rate:.0}/s, {:.2} us CPU each, {found} found", (self::cpu() - cpu) / count as f64);
    };
    measure("reads", &mut |number| usize::from(engine.read(Space::Data, &key(number)).is_some()));
    measure("reads of absent keys", &mut |number| {
        usize::from(engine.read(Space::Data, &key(number + last)).is_some())
    });
    measure("scans of 8 entries", &mut |number| {
        let mut found = 0;
        engine.scan(Space::Data, &key(number), &[0xff; 24], &mut |_, _| {
            found += 1;
            found < 8
        });
        found
    });
}

/// CPU time of this process, in microseconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) * 10_000.0
}

/// Resident memory of this process, in KiB.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Bytes that a directory takes.
fn size(dir: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() { size(&entry.path())? } else { about.blocks() * 512 };
    }
    Ok(sum)
}
