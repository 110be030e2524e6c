//! Node processes, each on a host of its own.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::client::{Client, wait_for};
use super::json::Value;
use super::net::{Net, run};
use super::{Options, note};

/// Where every node awaits peers and clients.
pub(super) const PEERS: u16 = 7400;
const CLIENTS: u16 = 7480;
/// How long a ring may take to form.
const FORMING: Duration = Duration::from_secs(120);

/// How a node is started; the rest is the same for all.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    /// Peers it joins; none: it founds a ring.
    pub(super) join: Vec<String>,
    /// Descriptors it may have open.
    pub(super) descriptors: Option<u32>,
    /// Where peers are told to come.
    pub(super) advertise: Option<String>,
    /// Where it listens for peers, if not where all do.
    pub(super) port: Option<u16>,
    /// Further arguments.
    pub(super) more: Vec<String>,
}

/// A node: its host, its process if it runs, its directory.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) host: usize,
    pub(super) id: String,
    start: Start,
    child: Option<Child>,
    /// The process has been stopped by a signal of ours and not been continued.
    stopped: bool,
}

/// Nodes on hosts behind one bridge.
#[derive(Debug)]
pub(super) struct Ring {
    // Dropped before the network they run on.
    pub(super) nodes: Vec<Node>,
    pub(super) net: Net,
    pub(super) client: Client,
    folder: PathBuf,
    program: PathBuf,
    overlay: String,
    /// How often processes ended that were not told to.
    pub(super) unexpected_exits: Vec<String>,
}

impl Ring {
    /// Prepares a network without nodes.
    pub(super) fn empty(options: &Options) -> Result<Ring, String> {
        let folder = options.folder.clone();
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let secret = folder.join("secret");
        std::fs::write(&secret, "faults").map_err(|error| format!("{}: {error}", secret.display()))?;
        // Nodes refuse a secret that others can read.
        run(&format!("chmod 600 {}", secret.display()))?;
        Ok(Ring {
            nodes: Vec::new(),
            net: Net::new()?,
            client: Client::new(),
            folder,
            program: options.program.clone(),
            overlay: options.overlay.clone(),
            unexpected_exits: Vec::new(),
        })
    }

    /// Starts this many nodes, the others joining the first three, and waits until they are one ring and ready.
    pub(super) fn new(options: &Options, nodes: usize) -> Result<Ring, String> {
        let mut ring = Ring::empty(options)?;
        ring.grow(nodes)?;
        let (_, time) = ring.wait_green(FORMING)?;
        note(&format!(
            "{nodes} nodes are one ring and ready, {:.1} s after the last start",
            time.as_secs_f64()
        ));
        Ok(ring)
    }

    /// Adds nodes, and waits only until each listens.
    pub(super) fn grow(&mut self, nodes: usize) -> Result<(), String> {
        for _ in 0..nodes {
            let join = self.seeds();
            self.add(Start { join, ..Start::default() })?;
        }
        Ok(())
    }

    /// Returns the addresses that newcomers join.
    pub(super) fn seeds(&self) -> Vec<String> {
        (0..self.nodes.len().min(3)).map(|node| self.peer_address(node)).collect()
    }

    /// Adds a host with a node and waits until it listens.
    pub(super) fn add(&mut self, start: Start) -> Result<usize, String> {
        let at = self.add_unstarted(start)?;
        self.start(at)?;
        self.wait_listening(at)?;
        Ok(at)
    }

    /// Adds a host for a node that is started later.
    pub(super) fn add_unstarted(&mut self, start: Start) -> Result<usize, String> {
        let host = self.net.add_host()?;
        self.nodes.push(Node { host, id: String::new(), start, child: None, stopped: false });
        Ok(self.nodes.len() - 1)
    }

    /// Starts the process of a node.
    pub(super) fn start(&mut self, at: usize) -> Result<(), String> {
        let address = self.net.address(self.nodes[at].host);
        let ready = self.ready_file(at);
        let _ = std::fs::remove_file(&ready);
        let node = &mut self.nodes[at];
        let log = File::options().create(true).append(true).open(self.folder.join(format!("{at}.log")));
        let log = log.map_err(|error| format!("a log: {error}"))?;
        let mut command = self.net.command(node.host);
        if let Some(descriptors) = node.start.descriptors {
            command.arg("prlimit").arg(format!("--nofile={descriptors}"));
        }
        let port = node.start.port.unwrap_or(PEERS);
        command.arg(&self.program).args(["start", "--cluster", "faults", "--insecure"]);
        command.args(["--overlay", &self.overlay, "--name", &format!("n{at}")]);
        command.args(["--listen", &format!("{address}:{port}"), "--http", &format!("{address}:{CLIENTS}")]);
        command.arg("--data").arg(self.folder.join(format!("{at}")));
        command.arg("--secret-file").arg(self.folder.join("secret")).arg("--ready-file").arg(&ready);
        if !node.start.join.is_empty() {
            command.arg("--join").arg(node.start.join.join(","));
        }
        if let Some(advertise) = &node.start.advertise {
            command.args(["--advertise", advertise]);
        }
        command.args(&node.start.more);
        let error_log = log.try_clone().map_err(|error| format!("a log: {error}"))?;
        // In a group of their own: Ctrl-C is for us, and we end them.
        command.stdin(Stdio::null()).stdout(log).stderr(error_log).process_group(0);
        node.child = Some(command.spawn().map_err(|error| format!("ip netns exec: {error}"))?);
        node.stopped = false;
        Ok(())
    }

    /// Waits until a node that was started listens, and notes its id.
    pub(super) fn wait_listening(&mut self, at: usize) -> Result<Duration, String> {
        let ready = self.ready_file(at);
        let child = &mut self.nodes[at].child;
        let (id, time) = wait_for(&format!("node {at} listens"), FORMING, || {
            if child.as_mut().is_none_or(|child| child.try_wait().ok().flatten().is_some()) {
                return Some(None);
            }
            let text = std::fs::read_to_string(&ready).ok()?;
            Value::parse(&text)["id"].as_str().map(|id| Some(id.to_owned()))
        })?;
        self.nodes[at].id = id.ok_or_else(|| format!("node {at} ended at once: {}", self.last_line(at)))?;
        Ok(time)
    }

    /// Kills a node's process at once.
    pub(super) fn kill(&mut self, at: usize) {
        self.nodes[at].kill();
    }

    /// Kills a node and starts it again, without waiting for it.
    pub(super) fn restart(&mut self, at: usize) -> Result<(), String> {
        self.kill(at);
        self.start(at)
    }

    /// Changes how a node will be started the next time.
    pub(super) fn set_start(&mut self, at: usize, change: impl FnOnce(&mut Start)) {
        change(&mut self.nodes[at].start);
    }

    /// Sends a signal to a node's process.
    pub(super) fn signal(&mut self, at: usize, signal: &str) -> Result<(), String> {
        let node = &mut self.nodes[at];
        let pid = node.child.as_ref().map(Child::id).ok_or("the node does not run")?;
        node.stopped = signal == "STOP";
        run(&format!("kill -{signal} {pid}"))
    }

    /// Waits until a node's process ends by itself, and returns how.
    pub(super) fn wait_exit(&mut self, at: usize, limit: Duration) -> Result<(ExitStatus, Duration), String> {
        let mut child = self.nodes[at].child.take().ok_or("the node does not run")?;
        let ended = wait_for(&format!("node {at} ends"), limit, || child.try_wait().ok().flatten());
        if ended.is_err() {
            self.nodes[at].child = Some(child);
        }
        ended
    }

    /// Returns where a node answers clients.
    pub(super) fn url(&self, at: usize) -> String {
        format!("{}:{CLIENTS}", self.net.address(self.nodes[at].host))
    }

    /// Returns where a node answers clients, for all nodes.
    pub(super) fn urls(&self) -> Vec<String> {
        (0..self.nodes.len()).map(|at| self.url(at)).collect()
    }

    /// Returns where peers reach a node.
    pub(super) fn peer_address(&self, at: usize) -> String {
        let start = &self.nodes[at].start;
        let listens = || format!("{}:{}", self.net.address(self.nodes[at].host), start.port.unwrap_or(PEERS));
        start.advertise.clone().unwrap_or_else(listens)
    }

    /// Returns what a node says about itself, without asking others.
    pub(super) fn summary(&self, at: usize) -> Option<Value> {
        self.client.look(&self.url(at), "/v1/status?local=true").map(|status| status["self"].clone())
    }

    /// Returns the most memory a node's process has had, in bytes, if it runs.
    pub(super) fn peak_memory(&self, at: usize) -> Option<u64> {
        let pid = self.nodes[at].child.as_ref()?.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    }

    /// Returns the nodes that run and have not been stopped.
    pub(super) fn running(&self) -> Vec<usize> {
        let runs = |node: &Node| node.child.is_some() && !node.stopped;
        (0..self.nodes.len()).filter(|at| runs(&self.nodes[*at])).collect()
    }

    /// Says whether these nodes are one ring: each is in it, and has the right neighbours.
    pub(super) fn is_one_ring(&self, nodes: &[usize]) -> bool {
        let summaries: Vec<Value> = nodes.iter().map_while(|at| self.summary(*at)).collect();
        summaries.len() == nodes.len() && is_one_ring(&summaries)
    }

    /// Says whether a node reports that it can do its part.
    pub(super) fn is_ready(&self, at: usize) -> bool {
        self.client.look(&self.url(at), "/readyz").is_some()
    }

    /// Says whether all running nodes are one ring and ready.
    pub(super) fn is_green(&self) -> bool {
        let nodes = self.running();
        self.is_one_ring(&nodes) && nodes.iter().all(|at| self.is_ready(*at))
    }

    /// Waits until all running nodes are one ring and ready.
    pub(super) fn wait_green(&self, limit: Duration) -> Result<((), Duration), String> {
        wait_for("one ring, all nodes ready", limit, || self.is_green().then_some(()))
            .map_err(|why| format!("{why}; {}", self.describe()))
    }

    /// Says in a line what the nodes say about themselves.
    pub(super) fn describe(&self) -> String {
        let of = |at: usize| {
            let summary = self.summary(at).unwrap_or(Value::Null);
            let text =
                |name: &str| summary[name].as_str().map_or("?".into(), |text| text.chars().take(4).collect());
            let (left, id, right): (String, String, String) = (text("left"), text("id"), text("right"));
            let ready = self.client.send("GET", &self.url(at), "/readyz", &[], Duration::from_secs(1));
            let cause = ready.document()["detail"].as_str().unwrap_or_default().to_owned();
            format!("n{at} {left}<{id}>{right} {} {cause}", summary["status"].as_str().unwrap_or("silent"))
        };
        self.running().into_iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// Returns the sum of a counter over all running nodes.
    pub(super) fn count(&self, counter: &str) -> f64 {
        self.running().iter().filter_map(|at| self.client.counter(&self.url(*at), counter)).sum()
    }

    /// Notes processes that have ended though they were not told to. Returns how many panics are in the logs.
    pub(super) fn inspect(&mut self) -> usize {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            if let Some(status) = node.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                node.child = None;
                let how =
                    status.signal().map_or_else(|| format!("{status}"), |signal| format!("signal {signal}"));
                self.unexpected_exits.push(format!("node {at} ended: {how}"));
            }
        }
        let logs = (0..self.nodes.len()).map(|at| self.log(at));
        logs.map(|log| log.matches("panicked at").count()).sum()
    }

    /// Returns what a node has logged.
    pub(super) fn log(&self, at: usize) -> String {
        std::fs::read_to_string(self.folder.join(format!("{at}.log"))).unwrap_or_default()
    }

    fn last_line(&self, at: usize) -> String {
        self.log(at).lines().last().unwrap_or("nothing logged").to_owned()
    }

    fn ready_file(&self, at: usize) -> PathBuf {
        self.folder.join(format!("{at}.ready"))
    }

    /// Times something that is repeated until it holds; `None`: it did not within the limit.
    pub(super) fn time_until(
        &self,
        since: Instant,
        limit: Duration,
        mut holds: impl FnMut(&Ring) -> bool,
    ) -> Result<Option<Duration>, String> {
        while !holds(self) {
            if since.elapsed() > limit {
                return Ok(None);
            }
            super::pause(Duration::from_millis(100));
        }
        Ok(Some(since.elapsed()))
    }
}

impl Node {
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.stopped = false;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says whether the nodes are in a ring in the order of their ids, with no other node in it.
fn is_one_ring(summaries: &[Value]) -> bool {
    let mut nodes: Vec<[&str; 3]> = Vec::new();
    for summary in summaries {
        if !matches!(summary["status"].as_str(), Some("ready" | "ok")) {
            return false;
        }
        let text = |name: &str| summary[name].as_str().unwrap_or_default();
        nodes.push([text("id"), text("left"), text("right")]);
    }
    nodes.sort_unstable();
    if nodes.len() == 1 {
        return nodes[0][1].is_empty() && nodes[0][2].is_empty();
    }
    let next = |at: usize| nodes[(at + 1) % nodes.len()];
    (0..nodes.len()).all(|at| nodes[at][2] == next(at)[0] && next(at)[1] == nodes[at][0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, left: &str, right: &str) -> Value {
        Value::parse(&format!(
            r#"{{ "id": "{id}", "left": "{left}", "right": "{right}", "status": "ready" }}"#
        ))
    }

    #[test]
    fn one_ring_is_told_from_two() {
        let ring = [node("a", "c", "b"), node("c", "b", "a"), node("b", "a", "c")];
        assert!(is_one_ring(&ring) && is_one_ring(&[node("a", "", "")]));
        let two = [node("a", "b", "b"), node("b", "a", "a"), node("c", "d", "d"), node("d", "c", "c")];
        assert!(!is_one_ring(&two) && is_one_ring(&two[..2]));
        let mut silent = ring;
        silent[1] = Value::Null;
        assert!(!is_one_ring(&silent));
    }
}
