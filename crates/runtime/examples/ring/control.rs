//! Starts nodes as processes, asks them, and ends them.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kringle_core::id::{Key, NodeId};
use kringle_runtime::report::{Event, Summary};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ledger;
use super::load::Keys;
use super::protocol::{Ask, First, Last, Line, Options, Question, Record, VARIABLE, now};
use super::storing::{StoreLoad, StoreLoaded};

/// How long a node may take to start or to answer what it can answer at once.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// How to start a process that becomes a node: this very program, with these arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launcher {
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
    /// A program and its arguments that start this one.
    pub(crate) wrapper: Vec<String>,
}

impl Launcher {
    /// Starts a process and does not wait for it.
    pub(crate) fn spawn(&self, options: &Options) -> Starting {
        let program = std::env::current_exe().expect("a program knows where it is");
        let json = serde_json::to_string(options).expect("options can be written");
        let mut command = match self.wrapper.split_first() {
            None => Command::new(program),
            Some((wrapper, arguments)) => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(program);
                command
            }
        };
        let mut child = command
            .args(&self.arguments)
            .env(VARIABLE, json)
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("a process can be started");
        let at = Instant::now();
        let (tell, told) = channel();
        let (first, started) = channel();
        let (last, ended) = channel();
        let waiting = Arc::new(Mutex::new(HashMap::new()));
        let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
        let answers: Waiting = waiting.clone();
        std::thread::spawn(move || {
            for line in lines.lines() {
                let Ok(line) = line else { return };
                match serde_json::from_str(&line) {
                    Ok(Line::First(line)) => drop(first.send(line)),
                    Ok(Line::Ended { ended }) => drop(last.send(ended)),
                    Ok(Line::Answer { n, answer }) => {
                        let asked = answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&n);
                        if let Some(asked) = asked {
                            let asked: Sender<Value> = asked;
                            let _ = asked.send(answer);
                        }
                    }
                    // Something else that a program prints.
                    Err(_) => {}
                }
            }
            // Nobody will answer any more.
            answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
            drop(tell);
        });
        let input = child.stdin.take();
        Starting {
            process: Process {
                pid: child.id(),
                child: Mutex::new(child),
                input: Mutex::new(input),
                waiting,
                next: AtomicU64::new(1),
                ended: Mutex::new(ended),
                done: Mutex::new(told),
                id: NodeId::ZERO,
                address: SocketAddr::from(([0; 4], 0)),
                incarnation: 0,
                at,
                start: Duration::ZERO,
            },
            started,
        }
    }

    /// Starts a node and waits until it runs; the reason if it does not.
    pub(crate) fn start(&self, options: &Options) -> Result<Process, String> {
        self.spawn(options).started()
    }
}

type Waiting = Arc<Mutex<HashMap<u64, Sender<Value>>>>;

/// A process that has not said who it is yet.
pub(crate) struct Starting {
    process: Process,
    started: Receiver<First>,
}

impl Starting {
    /// Waits for its first word.
    pub(crate) fn started(self) -> Result<Process, String> {
        let mut process = self.process;
        match self.started.recv_timeout(SOON) {
            Ok(First::Started { pid, id, address, incarnation, start_us }) => {
                process.id = id.parse().map_err(|error| format!("{error}"))?;
                (process.address, process.incarnation) = (address, incarnation);
                // Not the child if that is a wrapper.
                process.pid = pid;
                process.start = Duration::from_micros(start_us);
                Ok(process)
            }
            Ok(First::Failed { what, remedy }) => Err(format!("{what} ({remedy})")),
            Err(error) => Err(format!("process {} said nothing: {error}", process.pid)),
        }
    }
}

/// A node in a process of its own. It is ended with this value.
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) incarnation: u32,
    /// When it was started.
    pub(crate) at: Instant,
    /// How long the node took to start, its store included, without the process around it.
    pub(crate) start: Duration,
    child: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    waiting: Waiting,
    next: AtomicU64,
    ended: Mutex<Receiver<Last>>,
    /// Disconnects when the process has closed its output.
    done: Mutex<Receiver<()>>,
}

/// An answer that has not come yet.
pub(crate) struct Pending {
    from: Receiver<Value>,
    pid: u32,
}

impl Pending {
    /// Waits for it.
    pub(crate) fn get<T: DeserializeOwned>(self, within: Duration) -> Result<T, String> {
        let value = self.from.recv_timeout(within).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("process {} did not answer within {within:?}", self.pid),
            RecvTimeoutError::Disconnected => format!("process {} has ended", self.pid),
        })?;
        if let Some(error) = value.get("error").and_then(Value::as_str) {
            return Err(error.into());
        }
        serde_json::from_value(value).map_err(|error| error.to_string())
    }
}

impl Process {
    /// Asks something; the answer is fetched later.
    pub(crate) fn begin(&self, ask: Ask) -> Pending {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, from) = channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(n, tell);
        let mut line = serde_json::to_string(&Question { n, ask }).expect("a question can be written");
        line.push('\n');
        if let Some(input) = &mut *self.input.lock().unwrap_or_else(PoisonError::into_inner)
            && input.write_all(line.as_bytes()).is_err()
        {
            // It has ended: so does the waiting.
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&n);
        }
        Pending { from, pid: self.pid }
    }

    /// Asks something and waits for the answer.
    pub(crate) fn ask<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, String> {
        self.begin(ask).get(SOON)
    }

    pub(crate) fn summary(&self) -> Result<Summary, String> {
        self.ask(Ask::Summary)
    }

    pub(crate) fn events(&self) -> Result<Vec<Event>, String> {
        self.ask(Ask::Events)
    }

    /// Waits until the node is part of a ring.
    pub(crate) fn ready(&self, within: Duration) -> Result<(), String> {
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        match self.begin(Ask::Ready { within_ms }).get(within + SOON)? {
            true => Ok(()),
            false => Err(format!("process {} was not ready within {within:?}", self.pid)),
        }
    }

    /// Returns one of its counters.
    pub(crate) fn counter(&self, name: &str) -> Result<u64, String> {
        let text: String = self.ask(Ask::Metrics)?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| format!("no counter {name}"))
    }

    /// Returns how many messages of each kind it has sent.
    pub(crate) fn sent(&self) -> Result<BTreeMap<String, u64>, String> {
        let text: String = self.ask(Ask::Metrics)?;
        let of_kind = |line: &str| {
            let (kind, count) =
                line.strip_prefix("kringle_messages_sent_total{kind=\"")?.split_once("\"} ")?;
            Some((kind.to_string(), count.parse().ok()?))
        };
        Ok(text.lines().filter_map(of_kind).collect())
    }

    /// Sends a signal. Returns when, by the machine's clock.
    pub(crate) fn signal(&self, signal: Signal) -> u64 {
        let at = now();
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = kill_process(pid, signal);
        }
        at
    }

    /// Ends it at once, as a crash would. Returns when.
    pub(crate) fn kill(self) -> u64 {
        let at = self.signal(Signal::KILL);
        drop(self);
        at
    }

    /// Waits until it has ended by itself: what it said last, and how the process ended.
    pub(crate) fn ended(&self, within: Duration) -> Result<(Option<Last>, ExitStatus), String> {
        let end = Instant::now() + within;
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        match done.recv_timeout(within) {
            Err(RecvTimeoutError::Disconnected) => {}
            _ => return Err(format!("process {} is still running after {within:?}", self.pid)),
        }
        let last = self.ended.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok();
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok((last, status)),
                Ok(None) if Instant::now() < end + SOON => std::thread::sleep(Duration::from_millis(1)),
                Ok(None) => return Err(format!("process {} does not end", self.pid)),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> Option<u64> {
        self.memory("VmRSS:")
    }

    /// A kind of memory in bytes, by its name in `/proc/PID/status`.
    pub(crate) fn memory(&self, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
    }

    /// Processor time used so far.
    pub(crate) fn processor(&self) -> Option<Duration> {
        // The scheduler's own account, in nanoseconds; what `stat` shows is rounded to ticks.
        let mut nanos = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid)).ok()? {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            nanos += text.split_whitespace().next()?.parse::<u64>().ok()?;
        }
        Some(Duration::from_nanos(nanos))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Both fail only if it is gone already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Returns the node among these that answers for a key.
pub(crate) fn nearest(ids: impl IntoIterator<Item = NodeId>, key: Key) -> Option<NodeId> {
    ids.into_iter().min_by_key(|id| key.closeness(*id))
}

/// Starts a ring: the first node alone, the others side by side, each told of the first.
pub(crate) fn form(launcher: &Launcher, count: usize, options: impl Fn(usize) -> Options) -> Vec<Process> {
    let first = launcher.start(&options(0)).expect("the first node starts");
    let join = vec![first.address];
    let others: Vec<Starting> =
        (1..count).map(|at| launcher.spawn(&Options { join: join.clone(), ..options(at) })).collect();
    let others = others.into_iter().map(|starting| starting.started().expect("a node starts"));
    std::iter::once(first).chain(others).collect()
}

/// Lets every node look up `each` keys and returns the first answer that is not right.
pub(crate) fn check(nodes: &[Process], each: usize, seed: u64) -> Result<(), String> {
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
    let asked: Vec<Pending> = nodes
        .iter()
        .zip(seed..)
        .map(|(node, seed)| {
            let keys = Keys::new(seed * 1_000_003).take(each).map(|key| key.to_string()).collect();
            node.begin(Ask::Lookup { keys, deadline_ms: 2_000 })
        })
        .collect();
    for (pending, node) in asked.into_iter().zip(nodes) {
        let records: Vec<Record> = pending.get(SOON)?;
        for record in records {
            let right = nearest(ids.iter().copied(), record.key.0);
            match &record.outcome {
                Ok((root, _)) if Some(root.0) == right && record.is_final => {}
                outcome => {
                    let right = right.map(|id| id.to_string()).unwrap_or_default();
                    return Err(format!(
                        "{} (pid {}) asked for {}: {outcome:?}, final {}, not {right}",
                        node.id, node.pid, record.key.0, record.is_final
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Waits until every sampled lookup of every node is right, all in one round. Returns how long that took.
pub(crate) fn settle(nodes: &[Process], each: usize, within: Duration) -> Result<Duration, String> {
    let start = Instant::now();
    for round in 1.. {
        match check(nodes, each, round) {
            Ok(()) => break,
            Err(why) if start.elapsed() > within => return Err(why),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok(start.elapsed())
}

/// Waits until every node can write and read, and sampled keys have as many copies as they should. Returns how long that
/// took.
pub(crate) fn serve(nodes: &[&Process], copies: usize, within: Duration) -> Result<Duration, String> {
    let start = Instant::now();
    for round in 1.. {
        match check_store(nodes, copies, round) {
            Ok(()) => break,
            Err(why) if start.elapsed() > within => return Err(format!("not within {within:?}: {why}")),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    Ok(start.elapsed())
}

/// How many keys each node tries.
const SAMPLE: u32 = 16;

fn check_store(nodes: &[&Process], copies: usize, round: u64) -> Result<(), String> {
    let prefix = |node: &Process| format!("settle{round}-{}", node.pid);
    let load = |node: &&Process| StoreLoad {
        outstanding: SAMPLE as usize,
        keys: SAMPLE,
        prefix: prefix(node),
        fill: true,
        deadline_ms: 3_000,
        ..StoreLoad::default()
    };
    let writing: Vec<Pending> = nodes.iter().map(|node| node.begin(Ask::StoreLoad(load(node)))).collect();
    for (pending, node) in writing.into_iter().zip(nodes) {
        let done: StoreLoaded = pending.get(SOON)?;
        if done.failed() > 0 {
            return Err(format!(
                "{} (pid {}) wrote {}, failed {:?}",
                node.id, node.pid, done.done, done.errors
            ));
        }
    }
    let keys = |node: &Process| (0..SAMPLE).map(|key| ledger::name(&prefix(node), key)).collect();
    let asking: Vec<Pending> =
        nodes.iter().map(|node| node.begin(Ask::Places { keys: keys(node), deadline_ms: 3_000 })).collect();
    for (pending, node) in asking.into_iter().zip(nodes) {
        let places: Vec<Vec<String>> = pending.get(Duration::from_secs(3) * SAMPLE + SOON)?;
        if let Some(place) = places.iter().find(|place| place.len() != copies) {
            return Err(format!("{} (pid {}) says a key is at {place:?}", node.id, node.pid));
        }
    }
    Ok(())
}
