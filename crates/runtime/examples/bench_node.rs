//! Figures of real nodes: processes on loopback, TLS between them.
//!
//! `cargo xtask bench node [PART].. [--seed S] [--seconds N] [--json]`. Parts: form, throughput, latency, idle, crash,
//! silence (SIGSTOP of 1 of 16 by hint, ten times), memory; without one, all of them. Every node is a process of its own
//! (this very program) with the settings people get by default; only `memory` is many nodes in one. Progress goes to
//! standard error.

mod ring;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kringle_core::config::Settings;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::id::NodeId;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Builder, Handle, Seed};
use ring::control::{self, Launcher, Pending, Process, nearest};
use ring::load::{Keys, Loaded, Pace};
use ring::protocol::{Ask, Options, Record, VARIABLE, now};
use ring::table::Table;
use rustix::process::Signal;

const LONG: Duration = Duration::from_secs(120);
const PARTS: [&str; 7] = ["form", "throughput", "latency", "idle", "crash", "silence", "memory"];
const USAGE: &str = "usage: bench_node [PART].. [--seed S] [--seconds N] [--json]";
/// Bytes of a routed message, and of a bare round trip.
const BYTES: usize = 100;
/// Nodes of one process started side by side.
const WAVE: usize = 32;
/// A question that took longer than this, or failed, shows that a crash is not over.
const SLOW: Duration = Duration::from_millis(250);
/// How long the questions around a crash may take.
const PATIENCE: Duration = Duration::from_secs(30);

struct Plan {
    parts: Vec<String>,
    seed: u64,
    seconds: u64,
    json: bool,
}

fn main() {
    if let Ok(options) = std::env::var(VARIABLE) {
        std::process::exit(ring::node::main(&options));
    }
    let plan = match plan() {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("bench_node: {problem}\n{USAGE}");
            std::process::exit(2);
        }
    };
    let table = Table { json: plan.json };
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_string();
    table.begin("node", plan.seed);
    for part in &plan.parts {
        eprintln!("{part}: load {}", read("/proc/loadavg"));
        match part.as_str() {
            "form" => form(&table),
            "throughput" => throughput(&table, plan.seed),
            "latency" => latency(&table, plan.seed),
            "idle" => idle(&table, Duration::from_secs(plan.seconds)),
            "crash" => crash(&table, plan.seed),
            "silence" => (0..10).for_each(|run| lose_one(&table, plan.seed + run, true, Signal::STOP)),
            _ => memory(&table, plan.seed),
        }
    }
}

fn plan() -> Result<Plan, String> {
    let mut plan = Plan { parts: Vec::new(), seed: 1, seconds: 60, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut number = || {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{name}: {value:?} is not a number"))
        };
        match name.as_str() {
            "--json" => plan.json = true,
            "--seed" => plan.seed = number()?,
            "--seconds" => plan.seconds = number()?.max(1),
            part if PARTS.contains(&part) => plan.parts.push(name),
            _ => return Err(format!("{name:?} is neither a part nor an option")),
        }
    }
    if plan.parts.is_empty() {
        plan.parts = PARTS.map(String::from).into();
    }
    Ok(plan)
}

/// Starts a ring and waits until it answers rightly. Returns how long that took from the start of the last process.
fn ring_of(count: usize, options: &Options) -> (Vec<Process>, Duration) {
    let nodes = control::form(&Launcher::default(), count, |_| options.clone());
    let pids: Vec<String> = nodes.iter().map(|node| node.pid.to_string()).collect();
    eprintln!("pids {}", pids.join(" "));
    expect(control::settle(&nodes, 8, LONG));
    let last = nodes.iter().map(|node| node.at).max();
    let took = last.map_or(Duration::ZERO, |last| last.elapsed());
    eprintln!("{count} processes answer rightly after {took:?}");
    (nodes, took)
}

fn expect<T>(result: Result<T, String>) -> T {
    result.unwrap_or_else(|why| {
        eprintln!("bench_node: {why}");
        std::process::exit(1);
    })
}

fn form(table: &Table) {
    for (count, asked, goal) in [(16, "1 s", "0.5 s"), (64, "5 s", "3 s")] {
        let mut runs: Vec<f64> =
            (0..5).map(|_| ring_of(count, &Options::default()).1.as_secs_f64()).collect();
        runs.sort_by(f64::total_cmp);
        let name = format!("form {count} processes until every sampled lookup is right");
        table.row(&format!("{name}, median of 5"), runs[2], "s", asked, goal);
        table.note(&format!("{name}, worst of 5"), runs[4], "s");
    }
}

fn throughput(table: &Table, seed: u64) {
    let (nodes, _) = ring_of(16, &Options::default());
    let rounds = [
        ("routed messages, 16 nodes, 64 outstanding in all", 4, "40,000", false),
        ("routed messages, 16 nodes, 64 outstanding per node", 64, "100,000", false),
        ("lookups, 16 nodes, 64 outstanding per node", 64, "", true),
    ];
    for (name, outstanding, asked, lookup) in rounds {
        let used = || nodes.iter().filter_map(Process::processor).sum::<Duration>();
        let before = used();
        let load = |seed| Ask::Load { outstanding, for_ms: 5_000, bytes: BYTES, seed, lookup };
        let pending: Vec<Pending> =
            nodes.iter().zip(seed..).map(|(node, seed)| node.begin(load(seed))).collect();
        let loads: Vec<Loaded> = pending.into_iter().map(|pending| expect(pending.get(LONG))).collect();
        let cpu = used() - before;
        let sum = |part: fn(&Loaded) -> u64| loads.iter().map(part).sum::<u64>() as f64;
        let seconds = loads.iter().map(|load| load.micros).max().unwrap_or(1) as f64 / 1e6;
        let done = sum(|load| load.done);
        table.row(name, done / seconds, "/s", asked, "");
        table.note("  hops each", sum(|load| load.hops) / done, "");
        table.note("  processor time each, all nodes together", cpu.as_micros() as f64 / done, "us");
        table.note("  failed", sum(|load| load.errors), "");
        let worst = loads.iter().map(|load| load.worst_us).max().unwrap_or(0);
        table.note("  slowest", worst as f64 / 1e3, "ms");
    }
}

fn latency(table: &Table, seed: u64) {
    for own_thread in [false, true] {
        let (nodes, _) = ring_of(16, &Options { own_thread, ..Options::default() });
        let echoes: Vec<(String, std::net::SocketAddr)> =
            nodes.iter().map(|node| (node.id.to_string(), expect(node.ask(Ask::Echo)))).collect();
        let pace = |rounds| Ask::Pace { echoes: echoes.clone(), rounds, bytes: BYTES, seed };
        let _: Pace = expect(nodes[0].begin(pace(500)).get(LONG));
        let Pace { mut lookups_us, mut bare_us, hops } = expect(nodes[0].begin(pace(20_000)).get(LONG));
        lookups_us.sort_by(f64::total_cmp);
        bare_us.sort_by(f64::total_cmp);
        let at = |sorted: &[f64], percent: usize| sorted[sorted.len() * percent / 100];
        let name = match own_thread {
            false => "lookup of another node's key, one outstanding, 16 nodes",
            true => "  the same, asked from another thread than the node's",
        };
        let (asked, tail, goal) = if own_thread { ("", "", "") } else { ("150 us", "1 ms", "100 us") };
        table.row(&format!("{name}, p50"), at(&lookups_us, 50), "us", asked, goal);
        table.row(&format!("{name}, p99"), at(&lookups_us, 99), "us", tail, "");
        table.note("  hops each", hops as f64 / lookups_us.len() as f64, "");
        table.note("  bare TLS round trip of 100 bytes between them, p50", at(&bare_us, 50), "us");
        table.note("  bare TLS round trip of 100 bytes between them, p99", at(&bare_us, 99), "us");
        table.note("  ratio of the medians", at(&lookups_us, 50) / at(&bare_us, 50), "");
    }
}

fn idle(table: &Table, time: Duration) {
    let (nodes, _) = ring_of(64, &Options::default());
    // What joining has set in motion comes to rest.
    std::thread::sleep(Duration::from_secs(20));
    let bytes = || -> Vec<u64> {
        nodes.iter().map(|node| expect(node.counter("kringle_bytes_sent_total"))).collect()
    };
    let cpu = || -> Vec<Duration> { nodes.iter().filter_map(Process::processor).collect() };
    let kinds = || -> Vec<BTreeMap<String, u64>> { nodes.iter().map(|node| expect(node.sent())).collect() };
    let (start, said, sent, used) = (Instant::now(), kinds(), bytes(), cpu());
    std::thread::sleep(time);
    let seconds = start.elapsed().as_secs_f64();
    let (used_after, sent_after, said_after) = (cpu(), bytes(), kinds());
    let rates: Vec<f64> = sent.iter().zip(&sent_after).map(|(a, b)| (b - a) as f64 / seconds).collect();
    let loads: Vec<f64> =
        used.iter().zip(&used_after).map(|(a, b)| (*b - *a).as_secs_f64() * 1e3 / seconds).collect();
    let resident: Vec<f64> =
        nodes.iter().filter_map(Process::resident).map(|bytes| bytes as f64 / f64::from(1 << 20)).collect();
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let worst = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    table.row("idle, 64 nodes: sent above TCP, each", mean(&rates), "B/s", "250 B/s", "100 B/s");
    table.note("  the busiest", worst(&rates), "B/s");
    table.row("idle, 64 nodes: processor time, each", mean(&loads), "ms/s", "0.5 ms/s", "");
    table.note("  the busiest", worst(&loads), "ms/s");
    table.row("idle, 64 nodes: resident memory, each", mean(&resident), "MiB", "12 MiB", "8 MiB");
    table.note("  the largest", worst(&resident), "MiB");
    for (name, of) in [("RssAnon:", "  of that its own"), ("RssFile:", "  of that the program, shared")] {
        let all: Vec<f64> = nodes
            .iter()
            .filter_map(|node| node.memory(name))
            .map(|bytes| bytes as f64 / f64::from(1 << 20))
            .collect();
        table.note(of, mean(&all), "MiB");
    }
    let connections = expect(nodes[0].summary()).connections;
    table.note("  connections of the first", connections as f64, "");
    let kinds = said_after.iter().flatten().map(|(kind, _)| kind).collect::<BTreeSet<_>>();
    let total =
        |said: &[BTreeMap<String, u64>], kind: &str| said.iter().filter_map(|of| of.get(kind)).sum::<u64>();
    let mut said: Vec<(u64, &String)> =
        kinds.into_iter().map(|kind| (total(&said_after, kind) - total(&said, kind), kind)).collect();
    said.sort_unstable_by(|a, b| b.cmp(a));
    for (count, kind) in said.into_iter().take(6) {
        table.note(&format!("  {kind} messages, each"), count as f64 / nodes.len() as f64 / seconds, "/s");
    }
}

fn crash(table: &Table, seed: u64) {
    for hint in [true, false] {
        for signal in [Signal::KILL, Signal::STOP] {
            lose_one(table, seed, hint, signal);
        }
    }
}

/// Ends or stops 1 of 16 nodes, and measures how long lookups notice it.
fn lose_one(table: &Table, seed: u64, hint: bool, signal: Signal) {
    let asked = if hint { "1 s" } else { "12 s" };
    let how = if signal == Signal::KILL { "SIGKILL" } else { "SIGSTOP" };
    let (mut nodes, _) = ring_of(16, &Options { hint, ..Options::default() });
    let everybody: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    let victim = nodes.remove(7);
    let deadline_ms = PATIENCE.as_millis() as u64;
    for (node, seed) in nodes.iter().zip(seed..) {
        let stream = Ask::Stream { every_ms: 10, deadline_ms, seed, route: false };
        expect(node.ask::<()>(stream));
    }
    std::thread::sleep(Duration::from_secs(1));
    let at = victim.signal(signal);
    expect(control::settle(&nodes, 16, LONG));
    let settled = now();
    std::thread::sleep(Duration::from_secs(2));
    let pending: Vec<Pending> = nodes.iter().map(|node| node.begin(Ask::EndStreams)).collect();
    let records: Vec<Record> =
        pending.into_iter().flat_map(|pending| expect(pending.get::<Vec<Record>>(LONG))).collect();
    let after: Vec<&Record> = records.iter().filter(|record| record.end >= at).collect();
    let slow = after.iter().filter(|record| record.outcome.is_err() || record.took() > SLOW);
    let last = slow.map(|record| record.end - at).max().unwrap_or(0);
    let wrong = records.iter().filter(|record| is_wrong(record, &everybody, victim.id, at)).count();
    let mode = if hint { "hint" } else { "lease of 10 s" };
    let name = format!("crash of 1 of 16 by {how}, {mode}");
    table.row(&format!("{name}: until all lookups succeed"), last as f64 / 1e6, "s", asked, "");
    let none = if hint { "" } else { "0" };
    table.row("  wrong answers", wrong as f64, "", none, "");
    let failed = records.iter().filter(|record| record.outcome.is_err()).count();
    table.note("  lookups that failed", failed as f64, "");
    table.note("  lookups in all", records.len() as f64, "");
    let slowest = after.iter().map(|record| record.took()).max().unwrap_or_default();
    table.note("  the slowest", slowest.as_secs_f64(), "s");
    table.note("  every sampled lookup right in one round", (settled - at) as f64 / 1e6, "s");
}

/// Says whether a final answer names somebody that answered for the key at no moment between question and answer.
fn is_wrong(record: &Record, everybody: &[NodeId], victim: NodeId, at: u64) -> bool {
    let Some(root) = record.root().filter(|_| record.is_final) else { return false };
    let with = nearest(everybody.iter().copied(), record.key.0);
    let without = nearest(everybody.iter().copied().filter(|id| *id != victim), record.key.0);
    let before = record.start <= at && Some(root) == with;
    let after = record.end >= at && Some(root) == without;
    !(before || after)
}

fn memory(table: &Table, seed: u64) {
    for (name, settings, asked) in
        [("default settings", Settings::default(), "10 s"), ("settings of the demo", Settings::demo(), "")]
    {
        let runtime = expect(
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string()),
        );
        let took = tokio::task::LocalSet::new().block_on(&runtime, form_in_memory(1000, &settings, seed));
        let name = format!("1,000 nodes in one process, {name}");
        let (ready, right) = match took {
            Ok(times) => times,
            Err(why) => {
                eprintln!("{name}: {why}");
                table.row(&format!("{name}: not formed within"), LONG.as_secs_f64(), "s", asked, "");
                continue;
            }
        };
        table.row(&format!("{name}: lookups right"), right.as_secs_f64(), "s", asked, "");
        table.note("  all ready", ready.as_secs_f64(), "s");
        let resident = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: f64 = resident.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0.0);
        table.note("  resident memory", pages * 4096.0 / f64::from(1 << 20), "MiB");
    }
}

async fn form_in_memory(
    count: usize,
    settings: &Settings,
    seed: u64,
) -> Result<(Duration, Duration), String> {
    let hub = Hub::new();
    let start = Instant::now();
    let mut nodes: Vec<Handle> = Vec::new();
    let mut dice = SeededDice::new(seed);
    while nodes.len() < count {
        // As many at a time as there are already, up to a limit: they all share one processor.
        let wave = nodes.len().clamp(1, WAVE).min(count - nodes.len());
        let members = nodes.len();
        for _ in 0..wave {
            let seeds = (members > 0).then(|| Seed::Address(nodes[dice.below(members)].info().bound[0]));
            let builder = Builder::new("bench").settings(settings.clone()).memory(&hub).join(seeds);
            nodes.push(builder.start_here().await.map_err(|error| error.to_string())?);
        }
        for node in &nodes[members..] {
            let left = LONG.saturating_sub(start.elapsed());
            if tokio::time::timeout(left, node.ready()).await.is_err() {
                let ready = nodes.iter().filter(|node| node.is_ready()).count();
                return Err(format!("only {ready} of {} nodes are ready after {LONG:?}", nodes.len()));
            }
        }
        if nodes.len() % 100 < wave {
            eprintln!("{} nodes ready after {:?}", nodes.len(), start.elapsed());
        }
    }
    let ready = start.elapsed();
    eprintln!("{count} nodes ready after {ready:?}");
    loop {
        let mut asking = tokio::task::JoinSet::new();
        for (node, key) in nodes.iter().zip(Keys::new(seed)) {
            let (node, right) = (node.clone(), nearest(nodes.iter().map(Handle::id), key));
            asking.spawn_local(async move {
                let found = node.lookup(key, Duration::from_secs(5)).await;
                found.is_ok_and(|found| found.is_final && Some(found.root) == right.map(|id| id.to_string()))
            });
        }
        let wrong = asking.join_all().await.iter().filter(|right| !**right).count();
        if wrong == 0 {
            break;
        }
        eprintln!("{wrong} lookups are not right after {:?}", start.elapsed());
        if start.elapsed() > LONG {
            return Err(format!("{wrong} of {count} lookups are not right after {LONG:?}"));
        }
    }
    // The nodes end with their tasks, all at once.
    Ok((ready, start.elapsed()))
}
