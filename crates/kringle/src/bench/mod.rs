//! `kringle bench`: a load on running nodes, over HTTP, and how they bear it.
//!
//! Each outstanding request has a connection of its own that stays open; when one is answered the next is sent. All of
//! it runs on one thread. What is asked follows from the seed, apart from who is how fast.

mod histogram;
mod report;
mod wire;

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kringle_core::dice::{Dice, SeededDice};
use serde_json::json;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};

use crate::ask::store::Level;
use crate::client::Asked;
use crate::duration;
use crate::failure::{Answer, Ending, Failure};
use crate::output::{Json, Manners};
use report::{Report, Tally};
use wire::{Came, Wire};

/// How often the bar is drawn.
const REDRAW: Duration = Duration::from_millis(200);
/// Whatever takes less time needs no bar.
const PATIENCE: Duration = Duration::from_millis(500);
/// What a connection waits after it broke.
const PAUSE: Duration = Duration::from_millis(50);
/// How much later than the deadline of a request its connection is given up.
const GRACE: Duration = Duration::from_secs(2);
/// What errors without a code are called: the connection broke, or nothing came.
const BROKEN: &str = "connection";
const SILENT: &str = "no answer";
/// Bytes a value may have here. Nodes may allow less.
const SIZE_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Write
    #[arg(long, group = "kind")]
    put: bool,
    /// Read
    #[arg(long, group = "kind")]
    get: bool,
    /// Both, with so many reads in a hundred [default, with 50]
    #[arg(long, group = "kind", value_name = "READS", num_args = 0..=1, require_equals = true, default_missing_value = "50",
        value_parser = clap::value_parser!(u8).range(0..=100))]
    mixed: Option<u8>,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=SIZE_MAX))]
    size: u64,
    /// How many keys there are
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    keys: u32,
    /// Requests that wait for an answer at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    outstanding: u16,
    /// How long
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// How many copies to wait for, in writes and in reads
    #[arg(long, value_name = "LEVEL", default_value = "quorum")]
    level: Level,
    /// Which keys and values, and in which order [default: another one each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    #[command(flatten)]
    manners: Manners,
}

impl BenchArgs {
    /// Returns how many of a hundred requests read.
    fn reads(&self) -> u8 {
        match (self.put, self.get) {
            (true, _) => 0,
            (_, true) => 100,
            _ => self.mixed.unwrap_or(50),
        }
    }

    fn what(&self, nodes: usize) -> String {
        let kind = match self.reads() {
            0 => "writes".to_owned(),
            100 => "reads".to_owned(),
            reads => format!("{reads} % reads"),
        };
        let nodes = if nodes == 1 { String::new() } else { format!(", {nodes} nodes") };
        format!(
            "{kind}, {} bytes, {} keys, {} outstanding, {}{nodes}",
            self.size,
            self.keys,
            self.outstanding,
            self.level.word()
        )
    }
}

/// Puts a load on nodes until time is up, or somebody has seen enough.
pub(crate) fn run(asked: &Asked, args: &BenchArgs, json: Option<Json>) -> Answer {
    let nodes: Vec<String> =
        asked.nodes()?.iter().map(|node| node.trim_start_matches("http://").to_owned()).collect();
    let seed = args.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::from(now.subsec_nanos()) ^ now.as_secs()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::failed(
            format!("cannot start: {error}"),
            "Free some resources (memory, threads) and try again.",
        )
    })?;
    let load = Load { nodes, seed, timeout: asked.timeout(), reads: args.reads(), args };
    let report = LocalSet::new().block_on(&runtime, load.run())?;
    let text = match json {
        Some(json) => json.write(&report.json(), ""),
        None => report.text(),
    };
    let ending = match (report.complete, report.tally.done()) {
        (false, _) => Ending::Failed(Failure::interrupted(
            "the load was ended early",
            format!("The same again: kringle bench --seed {seed}, with the same flags."),
        )),
        (true, 0) => Ending::Bad,
        (true, _) => Ending::Good,
    };
    Ok((text, ending))
}

struct Load<'a> {
    nodes: Vec<String>,
    seed: u64,
    timeout: Duration,
    reads: u8,
    args: &'a BenchArgs,
}

/// What the connections of one phase share.
struct Phase {
    /// For writing all keys: the next one. `None`: any key, until time is up.
    next: Option<Cell<u32>>,
    keys: u32,
    reads: u8,
    over: Cell<bool>,
    tally: RefCell<Tally>,
}

impl Load<'_> {
    async fn run(&self) -> Result<Report, Failure> {
        for node in &self.nodes {
            self.reach(node).await?;
        }
        let what = self.args.what(self.nodes.len());
        let watched = io::stderr().is_terminal();
        if !watched {
            self.args.manners.note(&format!("{what}, {} s, seed {}", self.args.seconds, self.seed));
        }
        let load = match self.reads {
            0 => None,
            _ => Some(self.phase(Some(Cell::new(0)), "load").await),
        };
        let loaded = load.as_ref().is_none_or(|(_, _, complete)| *complete);
        let cpu = cpu();
        let (tally, spent, complete) = match loaded {
            true => self.phase(None, "bench").await,
            false => (Tally::default(), Duration::ZERO, false),
        };
        let cpu = cpu.zip(self::cpu()).map(|(before, after)| after.saturating_sub(before));
        let plan = json!({
            "nodes": self.nodes,
            "reads_percent": self.reads,
            "size": self.args.size,
            "keys": self.args.keys,
            "outstanding": self.args.outstanding,
            "seconds": self.args.seconds,
            "level": self.args.level.word(),
        });
        let load = load.map(|(tally, spent, _)| (tally, spent));
        Ok(Report { what, plan, seed: self.seed, tally, spent, cpu, load, complete })
    }

    /// Sees whether a node is there at all.
    async fn reach(&self, node: &str) -> Result<(), Failure> {
        let why = match timeout(self.timeout, Wire::open(node)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {}", duration::exact(self.timeout)),
        };
        Err(Failure::coded(
            4,
            format!("cannot reach a node at http://{node}: {why}"),
            "Start one with 'kringle start', or name another with --node URL.",
        ))
    }

    /// Runs one phase: what came of it, how long it took, and whether it came to its end.
    async fn phase(&self, next: Option<Cell<u32>>, name: &'static str) -> (Tally, Duration, bool) {
        let (loading, began) = (next.is_some(), Instant::now());
        let phase = Rc::new(Phase {
            keys: self.args.keys,
            reads: if loading { 0 } else { self.reads },
            next,
            over: Cell::new(false),
            tally: RefCell::default(),
        });
        let mut workers = tokio::task::JoinSet::new();
        for number in 0..self.args.outstanding {
            let worker = Worker::new(self, number, loading, Rc::clone(&phase));
            workers.spawn_local(worker.work());
        }
        let drawing =
            spawn_local(draw(Rc::clone(&phase), name, self.limit(loading), self.args.manners.quiet));
        let time = Duration::from_secs(self.args.seconds.into());
        let end = async {
            match loading {
                // It ends with the last key.
                true => std::future::pending().await,
                false => sleep(time).await,
            }
        };
        let complete = tokio::select! {
            () = async { while workers.join_next().await.is_some() {} } => true,
            () = end => true,
            _ = tokio::signal::ctrl_c() => false,
        };
        phase.over.set(true);
        let spent = began.elapsed();
        // What is under way may still be answered; whoever does not want to wait says so again.
        tokio::select! {
            () = async { while workers.join_next().await.is_some() {} } => {}
            _ = tokio::signal::ctrl_c() => workers.abort_all(),
        }
        drawing.abort();
        let _ = drawing.await;
        let tally = phase.tally.take();
        (tally, spent, complete)
    }

    fn limit(&self, loading: bool) -> Limit {
        match loading {
            true => Limit::Keys(self.args.keys),
            false => Limit::Time(Duration::from_secs(self.args.seconds.into())),
        }
    }
}

/// When a phase is done.
enum Limit {
    Keys(u32),
    Time(Duration),
}

/// Draws a bar on a terminal, if somebody has to wait.
async fn draw(phase: Rc<Phase>, name: &'static str, limit: Limit, quiet: bool) {
    if quiet || !io::stderr().is_terminal() {
        return;
    }
    let began = Instant::now();
    let bar = Bar(ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::hidden()));
    let style = ProgressStyle::with_template("{msg}  [{bar:30.}]  {percent} %   {prefix}");
    bar.0.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("##-"));
    bar.0.set_message(name);
    sleep(PATIENCE).await;
    bar.0.set_draw_target(ProgressDrawTarget::stderr());
    let mut before = 0;
    loop {
        let done = phase.tally.borrow().done();
        let share = match limit {
            Limit::Keys(keys) => done as f64 / f64::from(keys),
            Limit::Time(time) => began.elapsed().as_secs_f64() / time.as_secs_f64(),
        };
        bar.0.set_prefix(format!("{:.0}/s", (done - before) as f64 / REDRAW.as_secs_f64()));
        bar.0.set_position((share.min(1.0) * 1000.0) as u64);
        before = done;
        sleep(REDRAW).await;
    }
}

/// A bar that is gone when its phase is.
struct Bar(ProgressBar);

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// One connection and what is asked over it.
struct Worker {
    node: String,
    phase: Rc<Phase>,
    dice: SeededDice,
    value: Vec<u8>,
    /// The parts of a request that stay.
    prefix: String,
    tail: String,
    level: &'static str,
    patience: Duration,
}

impl Worker {
    fn new(load: &Load<'_>, number: u16, loading: bool, phase: Rc<Phase>) -> Worker {
        let node = load.nodes[usize::from(number) % load.nodes.len()].clone();
        let mut dice = SeededDice::derive(load.seed, u64::from(number) * 2 + u64::from(loading));
        // Letters: a value can be looked at.
        let value = (0..load.args.size).map(|_| b'a' + (dice.roll() % 26) as u8).collect();
        Worker {
            tail: format!(" HTTP/1.1\r\nHost: {node}\r\n"),
            prefix: format!("/v1/kv/bench:{}:", load.seed),
            level: load.args.level.word(),
            patience: load.timeout,
            node,
            phase,
            dice,
            value,
        }
    }

    async fn work(mut self) {
        let (mut wire, mut request) = (None, Vec::new());
        while let Some((key, reads)) = self.choose() {
            self.write(key, reads, &mut request);
            let began = Instant::now();
            let came = timeout(self.patience + GRACE, once(&mut wire, &self.node, &request)).await;
            let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            if let Some(error) = self.note(came, reads, micros) {
                *self.phase.tally.borrow_mut().errors.entry(error.clone()).or_default() += 1;
                if error == BROKEN || error == SILENT {
                    wire = None;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Notes what came of a request; returns the name of what went wrong, if something did.
    fn note(&self, came: Result<io::Result<Came>, Elapsed>, reads: bool, micros: u64) -> Option<String> {
        let mut tally = self.phase.tally.borrow_mut();
        match came {
            Ok(Ok(Came::Good)) => {
                if reads { &mut tally.gets } else { &mut tally.puts }.record(micros);
                None
            }
            Ok(Ok(Came::Bad(code))) => Some(code),
            Ok(Err(_)) => Some(BROKEN.into()),
            Err(_) => Some(SILENT.into()),
        }
    }

    /// Chooses a key, and whether it is read. `None`: it is over.
    fn choose(&mut self) -> Option<(u32, bool)> {
        if self.phase.over.get() {
            return None;
        }
        match &self.phase.next {
            Some(next) => {
                let key = next.get();
                next.set(key.saturating_add(1));
                (key < self.phase.keys).then_some((key, false))
            }
            None => {
                let key = self.dice.below(self.phase.keys as usize) as u32;
                Some((key, self.dice.below(100) < usize::from(self.phase.reads)))
            }
        }
    }

    fn write(&self, key: u32, reads: bool, request: &mut Vec<u8>) {
        let Worker { prefix, tail, level, .. } = self;
        let wait = duration::exact(self.patience);
        request.clear();
        match reads {
            true => {
                request.extend(format!("GET {prefix}{key}?r={level}&timeout={wait}{tail}\r\n").into_bytes())
            }
            false => {
                let length = self.value.len();
                let head = format!(
                    "PUT {prefix}{key}?w={level}&timeout={wait}{tail}Content-Length: {length}\r\n\r\n"
                );
                request.extend(head.into_bytes());
                request.extend_from_slice(&self.value);
            }
        }
    }
}

/// Asks over an open connection, or a new one.
async fn once(wire: &mut Option<Wire>, node: &str, request: &[u8]) -> io::Result<Came> {
    if wire.as_ref().is_none_or(|wire| !wire.is_open()) {
        *wire = Some(Wire::open(node).await?);
    }
    match wire {
        Some(wire) => wire.ask(request).await,
        None => Err(io::ErrorKind::NotConnected.into()),
    }
}

/// Returns how long this process has been running on a processor, if the system tells.
#[cfg(unix)]
fn cpu() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).ok()
}

#[cfg(not(unix))]
fn cpu() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Bench {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn args(line: &str) -> Option<BenchArgs> {
        Bench::try_parse_from(line.split(' ')).ok().map(|bench| bench.args)
    }

    #[test]
    fn one_kind_of_load_is_chosen() {
        for (line, reads) in [
            ("bench", 50),
            ("bench --put", 0),
            ("bench --get", 100),
            ("bench --mixed", 50),
            ("bench --mixed=80", 80),
        ] {
            assert_eq!(args(line).unwrap().reads(), reads, "{line}");
        }
        for line in [
            "bench --put --get",
            "bench --mixed=101",
            "bench --outstanding 0",
            "bench --size 1048577",
            "bench --keys 0",
        ] {
            assert!(args(line).is_none(), "{line} was taken");
        }
        assert_eq!(
            args("bench").unwrap().what(1),
            "50 % reads, 100 bytes, 10000 keys, 64 outstanding, quorum"
        );
    }

    #[test]
    fn requests_are_whole() {
        let args = args("bench --size 3 --level one").unwrap();
        let load = Load {
            nodes: vec!["h:1".into()],
            seed: 7,
            timeout: Duration::from_secs(5),
            reads: 50,
            args: &args,
        };
        let phase =
            Phase { next: None, keys: 10, reads: 50, over: Cell::new(false), tally: RefCell::default() };
        let worker = Worker::new(&load, 0, false, Rc::new(phase));
        let mut request = Vec::new();
        worker.write(4, true, &mut request);
        assert_eq!(request, b"GET /v1/kv/bench:7:4?r=one&timeout=5s HTTP/1.1\r\nHost: h:1\r\n\r\n");
        worker.write(4, false, &mut request);
        let text = String::from_utf8(request).unwrap();
        let head = "PUT /v1/kv/bench:7:4?w=one&timeout=5s HTTP/1.1\r\nHost: h:1\r\nContent-Length: 3\r\n\r\n";
        assert!(text.starts_with(head) && text.len() == head.len() + 3, "{text}");
    }
}
