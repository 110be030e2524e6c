//! Figures of the store: processes on loopback, TLS between them, values on the disk of this machine.
//!
//! `cargo xtask bench store [PART].. [--seed S] [--seconds N] [--cycles N] [--dir DIR] [--json]`. Parts: put, get,
//! latency, kills, stops, loop, restarts, reload, join; without one, all of them. Every node is a process of its own (this
//! very program) with the settings people get by default, and keeps what it stores below DIR (the temporary directory
//! unless told).
//! Progress goes to standard error.

mod ring;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::id::NodeId;
use ring::control::{self, Launcher, Pending, Process};
use ring::histogram::Histogram;
use ring::ledger::{Entry, Promises, Verdict, name};
use ring::protocol::{Ask, Options, VARIABLE, now};
use ring::storing::{StoreLoad, StoreLoaded};
use ring::table::Table;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

const LONG: Duration = Duration::from_secs(120);
const PARTS: [&str; 9] = ["put", "get", "latency", "kills", "stops", "loop", "restarts", "reload", "join"];
const USAGE: &str = "usage: bench_store [PART].. [--seed S] [--seconds N] [--cycles N] [--dir DIR] [--json]";
/// Copies of each value.
const COPIES: usize = 3;
/// Keys that are read and written as fast as possible.
const KEYS: u32 = 50_000;

struct Plan {
    parts: Vec<String>,
    seed: u64,
    seconds: u64,
    cycles: u64,
    dir: PathBuf,
    json: bool,
}

fn main() {
    if let Ok(options) = std::env::var(VARIABLE) {
        std::process::exit(ring::node::main(&options));
    }
    let plan = match plan() {
        Ok(plan) => plan,
        Err(problem) => {
            eprintln!("bench_store: {problem}\n{USAGE}");
            std::process::exit(2);
        }
    };
    let folder = expect(tempfile::Builder::new().prefix("bench_store-").tempdir_in(&plan.dir));
    let _ = FOLDER.set(folder.path().to_path_buf());
    clean_up_when_interrupted();
    let bench = Bench { table: Table { json: plan.json }, folder: folder.path().to_path_buf(), plan };
    bench.table.begin("store", bench.plan.seed);
    for part in &bench.plan.parts {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        eprintln!("{part}: seed {}, load {}", bench.plan.seed, load.trim());
        match part.as_str() {
            "put" => bench.put(),
            "get" => bench.get(),
            "latency" => bench.latency(),
            "kills" => bench.kills(),
            "stops" => bench.stops(),
            "restarts" => bench.restarts(),
            "reload" => bench.reload(),
            "join" => bench.join(),
            _ => bench.cycles(),
        }
    }
}

fn plan() -> Result<Plan, String> {
    let dir = std::env::temp_dir();
    let mut plan = Plan { parts: Vec::new(), seed: 1, seconds: 5, cycles: 1000, dir, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{option} needs a value"));
        let number =
            |value: String| value.parse::<u64>().map_err(|_| format!("{option}: {value:?} is not a number"));
        match option.as_str() {
            "--json" => plan.json = true,
            "--seed" => plan.seed = number(value()?)?,
            "--seconds" => plan.seconds = number(value()?)?.max(1),
            "--cycles" => plan.cycles = number(value()?)?,
            "--dir" => plan.dir = value()?.into(),
            part if PARTS.contains(&part) => plan.parts.push(option),
            _ => return Err(format!("{option:?} is neither a part nor an option")),
        }
    }
    if plan.parts.is_empty() {
        plan.parts = PARTS.map(String::from).into();
    }
    Ok(plan)
}

fn expect<T>(result: Result<T, impl std::fmt::Display>) -> T {
    result.unwrap_or_else(|why| {
        eprintln!("bench_store: {why}");
        give_up(1);
    })
}

/// Where this process keeps what is to be removed when it ends.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Ends at once. The nodes end by themselves when this process does; what they stored would stay.
fn give_up(code: i32) -> ! {
    if let Some(folder) = FOLDER.get() {
        let _ = std::fs::remove_dir_all(folder);
    }
    std::process::exit(code)
}

/// Removes what was stored when somebody ends this process.
fn clean_up_when_interrupted() {
    std::thread::spawn(|| {
        let runtime = expect(tokio::runtime::Builder::new_current_thread().enable_all().build());
        runtime.block_on(async {
            let mut terminate = expect(signal(SignalKind::terminate()));
            tokio::select! {
                _ = terminate.recv() => give_up(143),
                _ = tokio::signal::ctrl_c() => give_up(130),
            }
        });
    });
}

/// Waits until a node writes a key and reads it.
fn serves(node: &Process, key: &str) {
    let start = Instant::now();
    let deadline_ms = 2_000;
    while start.elapsed() < LONG {
        let write =
            Ask::Write { key: key.into(), number: 1, bytes: Some(100), level: "quorum".into(), deadline_ms };
        if node.begin(write).get::<ring::storing::Acked>(Duration::from_secs(4)).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    expect::<()>(Err(format!("a node does not serve within {LONG:?}")))
}

struct Bench {
    plan: Plan,
    table: Table,
    /// Data directories and ledgers are in here.
    folder: PathBuf,
}

/// A ring of nodes and where each keeps what it stores.
struct Ring {
    nodes: Vec<Process>,
    // Removed when the nodes have ended.
    folder: tempfile::TempDir,
}

impl Ring {
    /// How a node is started again.
    fn options(&self, at: usize, like: &Options) -> Options {
        options(self.folder.path(), at, like, true)
    }

    fn all(&self) -> Vec<&Process> {
        self.nodes.iter().collect()
    }

    /// Where the ledger of this name is.
    fn ledger(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.ledger"))
    }

    fn ledgers(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let paths = files.map(|file| file.path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "ledger")).collect()
    }
}

fn options(folder: &Path, at: usize, like: &Options, on_disk: bool) -> Options {
    Options { data: on_disk.then(|| folder.join(at.to_string())), ..like.clone() }
}

/// Processor time all these nodes have used.
fn used(nodes: &[&Process]) -> Duration {
    nodes.iter().filter_map(|node| node.processor()).sum()
}

impl Bench {
    fn ring(&self, count: usize, on_disk: bool) -> Ring {
        self.ring_like(&Options::default(), count, on_disk)
    }

    fn ring_like(&self, like: &Options, count: usize, on_disk: bool) -> Ring {
        let folder = expect(tempfile::tempdir_in(&self.folder));
        let options = |at| options(folder.path(), at, like, on_disk);
        let nodes = control::form(&Launcher::default(), count, options);
        let pids: Vec<String> = nodes.iter().map(|node| node.pid.to_string()).collect();
        eprintln!("pids {}", pids.join(" "));
        expect(control::settle(&nodes, 8, LONG));
        let took = expect(control::serve(&nodes.iter().collect::<Vec<_>>(), COPIES, LONG));
        eprintln!("{count} processes store {took:?} after their lookups are right");
        Ring { nodes, folder }
    }

    /// Lets nodes do the same at the same time, each with its own seed.
    fn run(&self, nodes: &[&Process], load: impl Fn(usize) -> StoreLoad) -> (StoreLoaded, Duration) {
        let before = used(nodes);
        let asked: Vec<Pending> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| {
                let seed = self.plan.seed * 1000 + at as u64;
                node.begin(Ask::StoreLoad(StoreLoad { seed, ..load(at) }))
            })
            .collect();
        let mut total = StoreLoaded::default();
        for pending in asked {
            total.merge(&expect(pending.get(LONG * 10)));
        }
        (total, used(nodes) - before)
    }

    /// Prints how a load went.
    fn show(&self, what: &str, asked: &str, goal: &str, (done, cpu): &(StoreLoaded, Duration)) {
        let each = done.done.max(1) as f64;
        self.table.row(what, done.done as f64 * 1e6 / done.micros.max(1) as f64, "/s", asked, goal);
        self.table.note("  processor time each, all nodes together", cpu.as_micros() as f64 / each, "us");
        for (share, name) in [(5_000, "p50"), (9_000, "p90"), (9_900, "p99"), (9_990, "p99.9")] {
            self.table.note(&format!("  {name}"), done.took.quantile(share) as f64 / 1e3, "ms");
        }
        self.table.note("  slowest", done.took.max() as f64 / 1e3, "ms");
        // The last slice may be a short one.
        let whole = &done.slices[..done.slices.len().saturating_sub(1)];
        let worst = whole.iter().min().copied().unwrap_or(0);
        self.table.note("  worst 100 ms", f64::from(worst) * 10.0, "/s");
        self.table.note("  hops to the coordinator, each", done.hops as f64 / each, "");
        self.table.note("  failed", done.failed() as f64, "");
        if !done.errors.is_empty() {
            eprintln!("{what}: {:?}", done.errors);
        }
    }

    fn load(&self) -> StoreLoad {
        StoreLoad { for_ms: self.plan.seconds * 1000, keys: KEYS, ..StoreLoad::default() }
    }

    /// Measures with 64 outstanding in all, and 64 per node.
    fn both(&self, ring: &Ring, what: &str, targets: [(&str, &str); 2], load: impl Fn() -> StoreLoad) {
        let nodes = ring.all();
        let count = nodes.len();
        let share = |at: usize| 64 / count + usize::from(at < 64 % count);
        let done = self.run(&nodes, |at| StoreLoad { outstanding: share(at), ..load() });
        self.show(&format!("{what}, 64 outstanding in all"), targets[0].0, targets[0].1, &done);
        let done = self.run(&nodes, |_| StoreLoad { outstanding: 64, ..load() });
        self.show(&format!("{what}, 64 outstanding per node"), targets[1].0, targets[1].1, &done);
    }

    fn put(&self) {
        let ring = self.ring(5, true);
        let what = "put, 100 B, quorum of 3 copies, 5 nodes, on disk";
        let targets = [("", ""), ("10,000 /s", "40,000 /s")];
        self.both(&ring, what, targets, || self.load());
    }

    fn get(&self) {
        let ring = self.ring(5, true);
        self.fill(&ring);
        for (level, asked, goal) in [("quorum", "25,000 /s", "50,000 /s"), ("one", "60,000 /s", "100,000 /s")]
        {
            let what = format!("get, 100 B, level {level} of 3 copies, 5 nodes, on disk");
            let load = || StoreLoad { gets: 100, level: level.into(), ..self.load() };
            self.both(&ring, &what, [("", ""), (asked, goal)], load);
        }
    }

    /// Gives every key a value.
    fn fill(&self, ring: &Ring) {
        let load = StoreLoad { fill: true, outstanding: 64, ..self.load() };
        let (done, _) = self.run(&[&ring.nodes[0]], |_| load.clone());
        eprintln!("{} values written, failed: {:?}", done.done, done.errors);
    }

    fn latency(&self) {
        for on_disk in [false, true] {
            let ring = self.ring(5, on_disk);
            let keys = 1000;
            let load = || StoreLoad { keys, ..self.load() };
            self.run(&[&ring.nodes[0]], |_| StoreLoad { fill: true, outstanding: 16, ..load() });
            let place = if on_disk { "on disk" } else { "in memory" };
            let loads = [
                ("put, quorum", load()),
                ("get, quorum", StoreLoad { gets: 100, ..load() }),
                ("get, one", StoreLoad { gets: 100, level: "one".into(), ..load() }),
            ];
            for (what, load) in loads {
                // The other nodes' time is measured, too.
                let before = used(&ring.all());
                let (done, _) = self.run(&[&ring.nodes[0]], |_| load.clone());
                let cpu = used(&ring.all()) - before;
                let what = format!("{what}, one outstanding, 5 nodes, {place}");
                // Nothing is asked of reads that do not leave the node half of the time.
                let is_asked = !on_disk && load.level == "quorum";
                let targets = if is_asked { ["250 us", "150 us", "2 ms"] } else { ["", "", ""] };
                let [asked, goal, tail] = targets;
                self.table.row(&format!("{what}, p50"), done.took.quantile(5_000) as f64, "us", asked, goal);
                self.table.row(&format!("{what}, p99"), done.took.quantile(9_900) as f64, "us", tail, "");
                self.table.note("  slowest", done.took.max() as f64 / 1e3, "ms");
                let each = cpu.as_micros() as f64 / done.done.max(1) as f64;
                self.table.note("  processor time each, all nodes together", each, "us");
                self.table.note("  failed", done.failed() as f64, "");
            }
        }
    }

    /// Begins a load that is written down, on one node.
    fn begin(&self, ring: &Ring, node: &Process, life: &str, load: &StoreLoad) -> Pending {
        let seed = self.plan.seed * 1000 + u64::from(node.pid);
        let (prefix, ledger) = (life.to_string(), Some(ring.ledger(life)));
        let load = StoreLoad { prefix, ledger, seed, for_ms: u64::MAX, ..load.clone() };
        node.begin(Ask::StoreLoad(load))
    }

    /// Reads everything that was acknowledged, and prints how much of it is not there.
    fn verify(&self, promises: &Promises, nodes: &[&Process]) {
        let start = Instant::now();
        let verdict = promises.verify(nodes, LONG);
        eprintln!("{} keys read within {:?}", verdict.keys, start.elapsed());
        if let Err(why) = verdict.check() {
            eprintln!("{why}");
        }
        for (_, entry) in promises.stale().iter().take(5) {
            eprintln!("stale: {entry:?}");
        }
        let Verdict { keys, lost, risen, wrong, unread } = verdict;
        self.table.row("  lost", (lost.len() + risen.len()) as f64, "", "0", "");
        self.table.row("  wrong", wrong.len() as f64, "", "0", "");
        self.table.row("  read back in time while it went on", promises.stale().len() as f64, "", "0", "");
        self.table.row("  not readable afterwards", unread.len() as f64, "", "0", "");
        self.table.note("  acknowledged writes", promises.acked() as f64, "");
        self.table.note("  keys", keys as f64, "");
    }

    fn kills(&self) {
        let mut ring = self.ring(16, true);
        let load = StoreLoad { outstanding: 4, keys: 2000, gets: 20, deadline_ms: 5_000, ..self.load() };
        let began = now();
        let mut loads: Vec<Pending> = Vec::new();
        for (at, node) in ring.nodes.iter().enumerate() {
            loads.push(self.begin(&ring, node, &format!("node{at}"), &load));
        }
        let mut dice = SeededDice::new(self.plan.seed);
        std::thread::sleep(Duration::from_secs(5));
        let first = now();
        let mut alive: Vec<usize> = (0..16).collect();
        for kill in 0..8 {
            let at = alive.remove(dice.below(alive.len()));
            ring.nodes[at].signal(Signal::KILL);
            eprintln!("kill {kill}: node {at}, pid {}", ring.nodes[at].pid);
            std::thread::sleep(Duration::from_secs(3));
        }
        std::thread::sleep(Duration::from_secs(5));
        let end = now();
        let ledgers = ring.ledgers();
        let survivors: Vec<PathBuf> = alive.iter().map(|at| ring.ledger(&format!("node{at}"))).collect();
        let mut at = 0;
        ring.nodes.retain(|_| {
            at += 1;
            alive.contains(&(at - 1))
        });
        for node in &ring.nodes {
            expect(node.ask::<()>(Ask::EndLoads));
        }
        // Those of the killed nodes have ended already.
        loads.into_iter().for_each(|load| drop(load.get::<StoreLoaded>(LONG)));
        let promises = expect(Promises::read(&survivors));
        let rate = |from: u64, to: u64| {
            let hits = |(_, entry): &&(String, Entry)| entry.is_success() && (from..to).contains(&entry.end);
            promises.entries.iter().filter(hits).count() as f64 * 1e6 / (to - from) as f64
        };
        let before = rate(began + 1_000_000, first);
        let seconds: Vec<f64> =
            (first..end - 999_999).step_by(1_000_000).map(|from| rate(from, from + 1_000_000)).collect();
        let shown: Vec<String> = seconds.iter().map(|rate| format!("{rate:.0}")).collect();
        eprintln!("operations per second of the survivors, from the first kill on: {}", shown.join(" "));
        let worst = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let what = "8 of 16 nodes killed, one every 3 s, 64 outstanding, the survivors'";
        self.table.note(&format!("{what} rate before"), before, "/s");
        self.table.note("  worst second after the first kill", worst, "/s");
        self.table.note("  the same, of the rate before", worst * 100.0 / before, "%");
        let failed = promises.entries.iter().filter(|(_, entry)| entry.is_failure()).count();
        self.table.note("  failed", failed as f64, "");
        let promises = expect(Promises::read(&ledgers));
        self.verify(&promises, &ring.all());
    }

    fn stops(&self) {
        let ring = self.ring(16, true);
        let mut dice = SeededDice::new(self.plan.seed);
        let mut order: Vec<usize> = (0..16).collect();
        let stopped: BTreeSet<usize> = (0..4).map(|_| order.remove(dice.below(order.len()))).collect();
        // Each key has somebody of its own who writes and reads it, so that one that waits keeps no other waiting.
        let keys = 16;
        let deadline = Duration::from_secs(2);
        let load = StoreLoad {
            outstanding: keys as usize,
            keys,
            gets: 30,
            pause_us: 20_000,
            deadline_ms: deadline.as_millis() as u64,
            ..self.load()
        };
        let loads: Vec<Pending> =
            order.iter().map(|at| self.begin(&ring, &ring.nodes[*at], &format!("node{at}"), &load)).collect();
        std::thread::sleep(Duration::from_secs(4));
        let away: BTreeSet<NodeId> = stopped.iter().map(|at| ring.nodes[*at].id).collect();
        let mut held: BTreeMap<String, usize> = BTreeMap::new();
        for at in &order {
            let names: Vec<String> = (0..keys).map(|key| name(&format!("node{at}"), key)).collect();
            let ask = Ask::Places { keys: names.clone(), deadline_ms: 5_000 };
            let places: Vec<Vec<String>> = expect(ring.nodes[*at].begin(ask).get(LONG));
            for (name, place) in names.into_iter().zip(places) {
                let holds = |id: &&String| id.parse::<NodeId>().is_ok_and(|id| away.contains(&id));
                held.insert(name, place.iter().filter(holds).count());
            }
        }
        let begin = now();
        for at in &stopped {
            ring.nodes[*at].signal(Signal::STOP);
        }
        eprintln!("stopped: {stopped:?}");
        std::thread::sleep(Duration::from_secs(10));
        let resumed = now();
        for at in &stopped {
            ring.nodes[*at].signal(Signal::CONT);
        }
        std::thread::sleep(Duration::from_secs(15));
        let end = now();
        for at in &order {
            expect(ring.nodes[*at].ask::<()>(Ask::EndLoads));
        }
        loads.into_iter().for_each(|load| drop(expect(load.get::<StoreLoaded>(LONG))));
        let promises = expect(Promises::read(&ring.ledgers()));
        // When each key was answered, as it should be.
        let mut good: BTreeMap<&str, Vec<u64>> =
            held.keys().map(|name| (name.as_str(), vec![begin])).collect();
        for (name, entry) in promises.entries.iter().filter(|(_, entry)| entry.is_success()) {
            if (begin..=end).contains(&entry.end)
                && let Some(times) = good.get_mut(name.as_str())
            {
                times.push(entry.end);
            }
        }
        let gap = |name: &str| {
            let mut times = good.get(name).cloned().unwrap_or_default();
            times.push(end);
            times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(0)
        };
        let majority: Vec<&str> =
            held.iter().filter(|(_, away)| **away <= 1).map(|(name, _)| name.as_str()).collect();
        let longest = majority.iter().map(|name| gap(name)).max().unwrap_or(0);
        let what = "4 of 16 nodes stopped for 10 s";
        self.table.note(
            &format!("{what}: a key with 2 of 3 copies, longest without success"),
            longest as f64 / 1e6,
            "s",
        );
        self.table.note("  such keys", majority.len() as f64, "");
        self.table.note("  keys with fewer copies", (held.len() - majority.len()) as f64, "");
        let failures: Vec<&Entry> =
            promises.entries.iter().map(|(_, entry)| entry).filter(|entry| entry.is_failure()).collect();
        let late = failures.iter().map(|entry| entry.end - entry.start).max().unwrap_or(0);
        let over = late.saturating_sub(deadline.as_micros() as u64) as f64 / 1e3;
        self.table.note("  failed", failures.len() as f64, "");
        self.table.note("  the latest of these, after its deadline", over, "ms");
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        failures.iter().for_each(|entry| *kinds.entry(&entry.why).or_default() += 1);
        eprintln!("failed: {kinds:?}");
        let back = |name: &&String| {
            let times = good.get(name.as_str()).into_iter().flatten();
            times.copied().find(|at| *at >= resumed).unwrap_or(end) - resumed
        };
        let last = held.keys().map(|name| back(&name)).max().unwrap_or(0);
        self.table.note("  every key works again after they went on", last as f64 / 1e6, "s");
        self.verify(&promises, &ring.all());
    }

    /// One of seven nodes is killed every three seconds and started again at once, while 200 writes a second go on; then
    /// five nodes are killed at the same moment.
    fn restarts(&self) {
        let like = Options::default();
        let mut ring = self.ring_like(&like, 7, true);
        let load = StoreLoad { keys: 500, pause_us: 35_000, deadline_ms: 5_000, ..self.load() };
        let mut dice = SeededDice::new(self.plan.seed);
        let mut serving = Histogram::default();
        for (at, node) in ring.nodes.iter().enumerate() {
            drop(self.begin(&ring, node, &format!("first{at}"), &load));
        }
        let kills = self.plan.cycles.min(40);
        for kill in 0..kills {
            std::thread::sleep(Duration::from_secs(3));
            let at = dice.below(ring.nodes.len());
            let join = ring.nodes.iter().map(|node| node.address).collect();
            ring.nodes[at].signal(Signal::KILL);
            drop(ring.nodes.remove(at));
            let killed = Instant::now();
            let node = expect(Launcher::default().start(&Options { join, ..ring.options(at, &like) }));
            serves(&node, &format!("probe/{kill}"));
            let took = killed.elapsed();
            serving.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            eprintln!("kill {kill}: node {at} serves again after {took:?}");
            drop(self.begin(&ring, &node, &format!("life{kill}"), &load));
            ring.nodes.insert(at, node);
        }
        std::thread::sleep(Duration::from_secs(1));
        for node in &ring.nodes {
            expect(node.ask::<()>(Ask::EndLoads));
        }
        std::thread::sleep(Duration::from_secs(1));
        let promises = expect(Promises::read(&ring.ledgers()));
        let failed = promises.entries.iter().filter(|(_, entry)| entry.is_failure()).count();
        let share = failed as f64 * 100.0 / promises.entries.len().max(1) as f64;
        let what =
            format!("one of 7 nodes killed and restarted every 3 s, {kills} times, 200 writes/s: failed");
        self.table.row(&what, share, "%", "0.5 %", "0.1 %");
        self.table.note("  operations", promises.entries.len() as f64, "");
        self.table.note("  failed or unknown", failed as f64, "");
        let seconds = |share| serving.quantile(share) as f64 / 1e6;
        self.table.note("  store served by the node again, p50", seconds(5_000), "s");
        self.table.row("  store served by the node again, p95", seconds(9_500), "s", "2 s", "1 s");
        self.verify(&promises, &ring.all());
        drop(ring);
        let mut ring = self.ring_like(&like, 5, true);
        for (at, node) in ring.nodes.iter().enumerate() {
            drop(self.begin(&ring, node, &format!("all{at}"), &load));
        }
        std::thread::sleep(Duration::from_secs(3));
        let addresses: Vec<_> = ring.nodes.iter().map(|node| node.address).collect();
        ring.nodes.iter().for_each(|node| _ = node.signal(Signal::KILL));
        ring.nodes.clear();
        let killed = Instant::now();
        // They listen where they listened before: that is where the others look for them.
        let starting: Vec<_> = (0..5)
            .map(|at| {
                let listen = Some(addresses[at]);
                Launcher::default().spawn(&Options { listen, ..ring.options(at, &like) })
            })
            .collect();
        ring.nodes = starting.into_iter().map(|starting| expect(starting.started())).collect();
        ring.nodes.iter().enumerate().for_each(|(at, node)| serves(node, &format!("again/{at}")));
        let took = killed.elapsed().as_secs_f64();
        self.table.row("all five nodes killed at once under load: all serve again", took, "s", "5 s", "2 s");
        let promises = expect(Promises::read(&ring.ledgers()));
        self.verify(&promises, &ring.all());
    }

    /// A node with a million records of a kibibyte is killed and started again.
    fn reload(&self) {
        let like = Options::default();
        let mut ring = self.ring_one(&like);
        let keys = u32::try_from(self.plan.cycles.saturating_mul(1000)).unwrap_or(u32::MAX);
        let fill = StoreLoad { fill: true, outstanding: 256, bytes: 1024, keys, ..self.load() };
        let (done, _) = self.run(&[&ring.nodes[0]], |_| fill.clone());
        eprintln!("{} values written, failed: {:?}", done.done, done.errors);
        ring.nodes[0].signal(Signal::KILL);
        drop(ring.nodes.remove(0));
        let killed = Instant::now();
        let node = expect(Launcher::default().start(&ring.options(0, &like)));
        serves(&node, "after");
        let what = format!("restart with {} records of 1 KiB: serving", done.done);
        self.table.row(&what, killed.elapsed().as_secs_f64(), "s", "5 s", "2 s");
    }

    /// A node joins five that hold two million records of a kibibyte, in three copies, while a thousand operations a second
    /// go on.
    fn join(&self) {
        let like = Options::default();
        let mut ring = self.ring_like(&like, 5, true);
        let keys = u32::try_from(self.plan.cycles.saturating_mul(2000)).unwrap_or(u32::MAX);
        let fill = StoreLoad { fill: true, outstanding: 256, bytes: 1024, keys, ..self.load() };
        let (done, _) = self.run(&[&ring.nodes[0]], |_| fill.clone());
        eprintln!("{} values written, failed: {:?}", done.done, done.errors);
        let load = |for_ms| StoreLoad { for_ms, gets: 50, pause_us: 5_000, bytes: 1024, keys, ..self.load() };
        let (before, _) = self.run(&ring.all(), |_| load(20_000));
        let join = ring.nodes.iter().map(|node| node.address).collect();
        let start = Instant::now();
        let node = expect(Launcher::default().start(&Options { join, ..ring.options(5, &like) }));
        let held = |node: &Process| expect(node.summary()).store.unwrap_or_default();
        let (mut during, mut moving) = (StoreLoaded::default(), true);
        while moving && start.elapsed() < LONG * 10 {
            let (done, _) = self.run(&ring.all(), |_| load(1_000));
            during.merge(&done);
            let new = held(&node);
            moving = new.slots == 0 || new.pulls > 0 || ring.nodes.iter().any(|node| held(node).moving > 0);
            eprintln!(
                "{:?}: {} slots, {} records, {} pulls",
                start.elapsed(),
                new.slots,
                new.copies,
                new.pulls
            );
        }
        let took = start.elapsed().as_secs_f64();
        let p99 = |loaded: &StoreLoaded| loaded.took.quantile(9_900) as f64 / 1e3;
        let records = held(&node).copies;
        let what = format!(
            "join into 5 nodes with {} records of 1 KiB, 3 copies: p99 during the move / before",
            done.done
        );
        self.table.row(&what, p99(&during) / p99(&before).max(1e-3), "x", "3 x", "1.5 x");
        self.table.note("  p99 before", p99(&before), "ms");
        self.table.note("  p99 during the move", p99(&during), "ms");
        self.table.note("  p50 before", before.took.quantile(5_000) as f64 / 1e3, "ms");
        self.table.note("  p50 during the move", during.took.quantile(5_000) as f64 / 1e3, "ms");
        self.table.note("  failed during the move", during.failed() as f64, "");
        self.table.note("  the move took", took, "s");
        self.table.note("  records moved", records as f64, "");
        ring.nodes.push(node);
    }

    fn ring_one(&self, like: &Options) -> Ring {
        let folder = expect(tempfile::tempdir_in(&self.folder));
        let node = expect(Launcher::default().start(&options(folder.path(), 0, like, true)));
        serves(&node, "first");
        Ring { nodes: vec![node], folder }
    }

    fn cycles(&self) {
        // A node that comes back waits for the leases of its last life to end.
        let like = Options { lease_ms: Some(1000), ..Options::default() };
        let mut ring = self.ring_like(&like, 3, true);
        let load = StoreLoad {
            outstanding: 4,
            keys: 32,
            gets: 20,
            deletes: 5,
            pause_us: 2_000,
            deadline_ms: 5_000,
            ..self.load()
        };
        let mut dice = SeededDice::new(self.plan.seed);
        let (mut opened, mut back) = (Histogram::default(), Histogram::default());
        let start = Instant::now();
        let mut said = start;
        for (at, node) in ring.nodes.iter().enumerate() {
            drop(self.begin(&ring, node, &format!("first{at}"), &load));
        }
        for cycle in 0..self.plan.cycles {
            let at = dice.below(3);
            let other = ring.nodes[(at + 1) % 3].address;
            ring.nodes[at].signal(Signal::KILL);
            // The directory is free when the process is gone.
            drop(ring.nodes.remove(at));
            let options = Options { join: vec![other], ..ring.options(at, &like) };
            let killed = Instant::now();
            let node = expect(Launcher::default().start(&options));
            expect(node.ready(LONG));
            opened.add(u64::try_from(node.start.as_micros()).unwrap_or(u64::MAX));
            back.add(u64::try_from(killed.elapsed().as_micros()).unwrap_or(u64::MAX));
            drop(self.begin(&ring, &node, &format!("life{cycle}"), &load));
            ring.nodes.insert(at, node);
            std::thread::sleep(Duration::from_millis(300).saturating_sub(killed.elapsed()));
            if said.elapsed() > Duration::from_secs(10) {
                said = Instant::now();
                eprintln!("{} cycles after {:?}", cycle + 1, start.elapsed());
            }
        }
        for node in &ring.nodes {
            expect(node.ask::<()>(Ask::EndLoads));
        }
        std::thread::sleep(Duration::from_secs(1));
        let what = format!("{} times one of 3 nodes killed and restarted, leases of 1 s", self.plan.cycles);
        self.table.note(&format!("{what}: time"), start.elapsed().as_secs_f64(), "s");
        let millis = |histogram: &Histogram, share| histogram.quantile(share) as f64 / 1e3;
        self.table.note("  start of a node, its store included, p50", millis(&opened, 5_000), "ms");
        self.table.row("  start of a node, its store included, p99", millis(&opened, 9_900), "ms", "1 s", "");
        self.table.note("  slowest", opened.max() as f64 / 1e3, "ms");
        self.table.note("  part of the ring again after, p50", millis(&back, 5_000), "ms");
        self.table.note("  part of the ring again after, p99", millis(&back, 9_900), "ms");
        let promises = expect(Promises::read(&ring.ledgers()));
        self.verify(&promises, &ring.all());
    }
}
