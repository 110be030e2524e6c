//! What the tests of the store share.

use std::path::PathBuf;
use std::time::Duration;

use crate::ring::control::{self, Launcher, Pending, Process, SOON};
use crate::ring::ledger::{Fetched, Promises, Verdict};
use crate::ring::protocol::{Ask, Options};
use crate::ring::storing::{Acked, StoreLoad, StoreLoaded};
use crate::support::{LONG, launcher, leases, show};

/// Within this, a ring of processes has come to store again, on a busy machine as well.
pub(crate) const STORES: Duration = Duration::from_secs(60);
/// How long an operation of a load may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(3);

/// Nodes with data directories in a folder of their own, which also holds the ledgers.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Process>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) copies: usize,
    lives: usize,
    loads: Vec<(u32, Pending)>,
}

/// Short leases and few slots; copies are compared often, so that damage is found soon.
pub(crate) fn options(data: Option<PathBuf>) -> Options {
    Options { data, sweep_ms: Some(2_000), rejoin_grace_ms: Some(10_000), ..leases(1000) }
}

impl Cluster {
    /// Starts so many nodes, and waits until they store.
    pub(crate) fn start(count: usize) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let nodes = control::form(&launcher(), count, |at| options(Some(folder.path().join(at.to_string()))));
        show(&nodes);
        let cluster = Cluster { nodes, folder, copies: count.min(3), lives: 0, loads: Vec::new() };
        control::settle(&cluster.nodes, 8, LONG).unwrap();
        cluster.serves();
        cluster
    }

    pub(crate) fn data(&self, at: usize) -> PathBuf {
        self.folder.path().join(at.to_string())
    }

    /// Everybody that runs, or is only stopped.
    pub(crate) fn all(&self) -> Vec<&Process> {
        self.nodes.iter().collect()
    }

    /// Everybody but some.
    pub(crate) fn others(&self, but: &[usize]) -> Vec<&Process> {
        let is_other = |(at, _): &(usize, &Process)| !but.contains(at);
        self.nodes.iter().enumerate().filter(is_other).map(|(_, node)| node).collect()
    }

    /// Waits until every node writes and reads, and keys have all their copies.
    pub(crate) fn serves(&self) {
        let took = control::serve(&self.all(), self.copies, STORES).unwrap();
        println!("all store after {took:?}");
    }

    /// Starts the node with this data directory again, and waits until it is part of the ring.
    pub(crate) fn restart(&mut self, at: usize) {
        self.restart_with(&launcher(), at);
    }

    /// The same, started in another way.
    pub(crate) fn restart_with(&mut self, launcher: &Launcher, at: usize) {
        let join = self.others(&[at]).iter().map(|node| node.address).collect();
        // Its process must be gone before the directory is free.
        let old = self.nodes.remove(at);
        let id = old.id;
        old.kill();
        let node = launcher.start(&Options { join, ..options(Some(self.data(at))) }).unwrap();
        assert_eq!(node.id, id);
        node.ready(LONG).unwrap();
        self.nodes.insert(at, node);
    }

    /// Begins a load with a ledger on a node: keys of its own, a few operations at a time, at a modest pace.
    pub(crate) fn load(&mut self, at: usize, load: StoreLoad) {
        self.lives += 1;
        let name = format!("life{}", self.lives);
        let ledger = Some(self.folder.path().join(format!("{name}.ledger")));
        let seed = self.lives as u64;
        let load = StoreLoad { prefix: name, ledger, seed, for_ms: u64::MAX, ..load };
        let node = &self.nodes[at];
        self.loads.push((node.pid, node.begin(Ask::StoreLoad(load))));
    }

    /// The same on every node.
    pub(crate) fn load_all(&mut self) {
        for at in 0..self.nodes.len() {
            self.load(at, modest());
        }
    }

    /// Ends the loads of all nodes that run. Returns what those did that were not killed, and what was promised.
    pub(crate) fn end_loads(&mut self) -> (StoreLoaded, Promises) {
        let mut total = StoreLoaded::default();
        for node in &self.nodes {
            // One that was killed has no load any more.
            let _ = node.ask::<()>(Ask::EndLoads);
        }
        for (pid, load) in self.loads.drain(..) {
            let is_running = self.nodes.iter().any(|node| node.pid == pid);
            match load.get::<StoreLoaded>(DEADLINE + SOON) {
                Ok(loaded) => total.merge(&loaded),
                Err(why) => assert!(!is_running, "{why}"),
            }
        }
        println!("{} operations succeeded, others: {:?}", total.done, total.errors);
        (total, self.promises())
    }

    /// Reads all ledgers.
    pub(crate) fn promises(&self) -> Promises {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        let is_ledger = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ledger");
        Promises::read(&files.filter(is_ledger).collect::<Vec<_>>()).unwrap()
    }

    /// Reads everything that was acknowledged, from every node, and fails if any of it is not there.
    pub(crate) fn verify(&self, promises: &Promises) {
        let verdict = promises.verify(&self.all(), STORES);
        judge(promises, &verdict);
        println!("{} writes of {} keys were acknowledged, and kept", promises.acked(), verdict.keys);
    }
}

/// Fails if a promise was broken, or nothing was promised.
pub(crate) fn judge(promises: &Promises, verdict: &Verdict) {
    assert!(verdict.keys > 0, "nothing was acknowledged");
    verdict.check().unwrap();
    let stale = promises.stale();
    assert!(stale.is_empty(), "{} reads went back in time: {:?}", stale.len(), &stale[..stale.len().min(5)]);
}

/// A load that leaves room for everything else on a busy machine.
pub(crate) fn modest() -> StoreLoad {
    StoreLoad {
        outstanding: 4,
        keys: 64,
        gets: 25,
        deletes: 10,
        pause_us: 5_000,
        deadline_ms: u64::try_from(DEADLINE.as_millis()).unwrap(),
        ..StoreLoad::default()
    }
}

/// Gives each of these keys the value with this number, one after the other; all must be acknowledged.
pub(crate) fn put(node: &Process, keys: &[String], number: u64) -> Vec<Acked> {
    let put = |key: &String| try_write(node, key, number, Some(100)).unwrap();
    keys.iter().map(put).collect()
}

/// Writes, or deletes, once.
pub(crate) fn try_write(
    node: &Process,
    key: &str,
    number: u64,
    bytes: Option<usize>,
) -> Result<Acked, String> {
    let deadline_ms = u64::try_from(DEADLINE.as_millis()).unwrap();
    node.begin(Ask::Write { key: key.into(), number, bytes, level: "quorum".into(), deadline_ms })
        .get(DEADLINE + SOON)
}

/// Writes, or deletes, as often as it takes.
pub(crate) fn write(node: &Process, key: &str, number: u64, bytes: Option<usize>) -> Acked {
    let start = std::time::Instant::now();
    loop {
        match try_write(node, key, number, bytes) {
            Ok(acked) => return acked,
            Err(why) => assert!(start.elapsed() < STORES, "{key} can not be written: {why}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Reads these keys once.
pub(crate) fn get(node: &Process, keys: &[String], level: &str) -> Vec<Fetched> {
    let deadline_ms = u64::try_from(DEADLINE.as_millis()).unwrap();
    node.begin(Ask::Fetch { keys: keys.to_vec(), level: level.into(), deadline_ms })
        .get(DEADLINE + SOON)
        .unwrap()
}

/// Names keys.
pub(crate) fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{prefix}/{at}")).collect()
}

/// Says who holds each of these keys, by their place among the nodes.
pub(crate) fn holders(cluster: &Cluster, keys: &[String]) -> Vec<Vec<usize>> {
    let ask = Ask::Places { keys: keys.to_vec(), deadline_ms: 3_000 };
    let places: Vec<Vec<String>> = cluster.nodes[0].begin(ask).get(LONG * 4).unwrap();
    let at = |id: &String| cluster.nodes.iter().position(|node| node.id.to_string() == *id).unwrap();
    places.iter().map(|place| place.iter().map(at).collect()).collect()
}
