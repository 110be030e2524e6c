//! Lost disks, dead nodes, full disks and a node that was cut off, with real processes: what is served, and what the
//! operator can do.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::processes::{Folder, Started, ended, until};

const KEYS: usize = 40;
const SLOTS: u64 = 4096;

/// The nodes of a cluster, each with a directory of its own.
struct Cluster {
    folder: Folder,
    nodes: Vec<Option<Started>>,
}

impl Cluster {
    /// Starts nodes, waits until all copies are there, and stores a value under every key.
    fn new(name: &str, count: usize, more: &[&str]) -> Cluster {
        let mut cluster = Cluster { folder: Folder::new(name), nodes: Vec::new() };
        (0..count).for_each(|at| cluster.start(at, more));
        cluster.settle(count as u64);
        cluster.put_all(0, "old", "all");
        cluster
    }

    fn data(&self, at: usize) -> PathBuf {
        self.folder.0.join(at.to_string())
    }

    fn node(&self, at: usize) -> &Started {
        self.nodes[at].as_ref().expect("it runs")
    }

    /// Starts a node. Ports are new each time, so a node that returns is told where another one is, too.
    fn start(&mut self, at: usize, more: &[&str]) {
        let seed = self.nodes.iter().flatten().next().map(|node| node.peers.clone());
        let join = seed.as_ref().map_or(vec![], |seed| vec!["--join", seed]);
        let node = Started::new(&self.data(at), &[&join, more].concat());
        self.nodes.resize_with(self.nodes.len().max(at + 1), || None);
        self.nodes[at] = Some(node);
    }

    /// Kills a node as `kill -9` does.
    fn kill(&mut self, at: usize) {
        self.nodes[at] = None;
    }

    fn id(&self, at: usize) -> String {
        let status = self.node(at).run(&["status", "--json"]).json();
        status["self"]["id"].as_str().expect("a node has an id").into()
    }

    /// Does an operation on every key, and returns the answers.
    fn batch(&self, at: usize, operation: impl Fn(String) -> Value) -> Vec<Value> {
        let lines: String = (0..KEYS).map(|key| format!("{}\n", operation(format!("key {key}")))).collect();
        let (_, text) = self.node(at).http("POST", "/v1/batch?timeout=5s", &lines);
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    fn put(&self, at: usize, value: &str, level: &str) -> Vec<Value> {
        self.batch(at, |key| json!({ "op": "put", "key": key, "value": value, "level": level }))
    }

    fn put_all(&self, at: usize, value: &str, level: &str) {
        until("every key is stored", || {
            let answers = self.put(at, value, level);
            (answers.len() == KEYS && answers.iter().all(|answer| answer["status"] == 200)).then_some(())
        });
    }

    fn get(&self, at: usize, level: &str) -> Vec<Value> {
        self.batch(at, |key| json!({ "op": "get", "key": key, "level": level }))
    }

    fn expect_all(&self, at: usize, value: &str) {
        until("every key is read", || {
            let answers = self.get(at, "quorum");
            (answers.len() == KEYS && answers.iter().all(|answer| answer["value"] == value)).then_some(())
        });
    }

    /// Adds up numbers that the nodes tell about their stores. `None`: they are not all there.
    fn totals<const N: usize>(&self, nodes: u64, names: [&str; N]) -> Option<[u64; N]> {
        let survey = self.nodes.iter().flatten().next()?.run(&["status", "--json"]);
        let survey: Value = serde_json::from_str(&survey.stdout).ok()?;
        let found = survey["survey"]["nodes"].as_array()?;
        let total =
            |name| found.iter().map(|node| node["store"][name].as_u64().expect("it is counted")).sum();
        (found.len() as u64 == nodes).then(|| names.map(total))
    }

    /// Waits until so many nodes hold every slot as often as they are to, and no slot is on its way.
    fn settle(&self, nodes: u64) {
        let copies = nodes.min(3);
        let names = ["slots", "records", "copies", "moving", "pulls", "under_replicated", "stuck", "waiting"];
        until("all copies are there", || {
            let [slots, records, held, rest @ ..] = self.totals(nodes, names)?;
            (slots == SLOTS * copies && held == records * copies && rest == [0; 5]).then_some(())
        });
    }
}

/// One replica of three survives.
#[test]
fn lost_quorum_is_rebuilt_by_recover_and_an_old_disk_is_set_aside() {
    let mut cluster = Cluster::new("recover", 3, &[]);
    cluster.node(0).until(&["put", "deleted later", "old", "-q"], |_| true);
    let dead = cluster.id(2);
    cluster.kill(1);
    cluster.kill(2);
    std::fs::remove_dir_all(cluster.data(1).join("store")).expect("it had a store");
    cluster.start(1, &[]);
    let text = cluster.node(1).until(&["recover"], |text| text.contains("0 have a quorum"));
    for part in [
        "slots    4096 in all",
        "rebuild  4096 slots, with the 41 records that survive",
        &format!("missing  {}: what only it had is lost", cluster.id(1)),
        &format!("missing  {dead}: what only it had is lost"),
        "Nothing was changed. To do it: kringle recover --yes",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let run = cluster.node(0).run(&["put", "refused", "new"]);
    assert_eq!(run.code, Some(5), "a dry run changes nothing: {}", run.stderr);

    let text = cluster.node(1).until(&["recover", "--yes"], |text| text.contains("Under way"));
    assert!(text.contains("rebuild  4096 slots"), "{text}");
    for at in 0..2 {
        cluster.expect_all(at, "old");
    }
    cluster.put_all(1, "new", "quorum");
    cluster.node(0).until(&["del", "deleted later", "-q"], |_| true);
    cluster.settle(2);
    cluster.node(0).until(&["recover"], |text| text.contains("Nothing to recover."));

    cluster.start(2, &[]);
    let kept = cluster.data(2).join("store.damaged-1");
    until("the old store is set aside", || {
        let answers = cluster.get(2, "one");
        assert!(answers.iter().all(|answer| answer["value"] != "old"), "{answers:?}");
        kept.is_dir().then_some(())
    });
    cluster.settle(3);
    cluster.expect_all(2, "new");
    until("what was deleted stays deleted", || {
        let code = cluster.node(2).run(&["get", "deleted later"]).code;
        assert_ne!(code, Some(0), "it is back");
        (code == Some(3)).then_some(())
    });
}

#[test]
fn retired_node_is_dropped_from_views_and_refused() {
    let mut cluster = Cluster::new("retire", 3, &[]);
    let id = cluster.id(2);
    let line = ["leave", &id, "--dead", "--yes"];
    let run = cluster.node(0).run(&line);
    assert!(run.code == Some(1) && run.stderr.contains("still there"), "{:?}: {}", run.code, run.stderr);
    cluster.kill(2);
    let run = cluster.node(0).run(&line[..3]);
    assert!(run.code == Some(2) && run.stderr.contains("repeat it with --yes"), "{}", run.stderr);
    cluster.node(0).until(&["status"], |text| text.contains("4096 slots under-replicated"));
    cluster.node(0).until(&line, |_| true);
    cluster.settle(2);
    // Another node takes the place.
    cluster.start(3, &[]);
    cluster.settle(3);
    cluster.expect_all(3, "old");
    cluster.put_all(1, "new", "all");

    let seed = cluster.node(3).peers.clone();
    for more in [&["--join", &seed][..], &[]] {
        let run = ended(&cluster.data(2), more);
        assert_eq!(run.code, Some(7), "{}", run.stderr);
        assert!(run.stderr.contains("was retired"), "{}", run.stderr);
    }
    cluster.settle(3);
}

/// Three nodes, so that no other node can take the place of the one that dies.
#[test]
fn views_go_on_without_a_node_that_is_down_for_longer_than_dead_after() {
    let mut patient = Cluster::new("dead-after-10m", 3, &["--dead-after", "10m"]);
    let mut quick = Cluster::new("dead-after-1s", 3, &["--dead-after", "1s"]);
    patient.kill(2);
    quick.kill(2);
    quick.settle(2);
    quick.put_all(0, "new", "all");
    let totals = patient.totals(2, ["under_replicated", "pairs"]);
    assert_eq!(totals, Some([SLOTS, 0]), "the node that died is still in the views");
}

#[test]
fn full_disk_of_one_replica_fails_writes_to_all_and_no_others() {
    let mut cluster = Cluster::new("full", 3, &[]);
    cluster.kill(2);
    // More than any disk has free.
    cluster.start(2, &["--min-free", "1000000000GiB"]);
    let ready = until("the node says that its disk is full", || {
        let (status, text) = cluster.node(2).http("GET", "/readyz", "");
        assert_ne!(status, 200, "{text}");
        text.contains("\"disk\"").then_some(text)
    });
    assert!(ready.contains("KR0507"), "{ready}");
    let mut turn = 0;
    until("every write to all replicas fails for lack of room", || {
        turn += 1;
        let value = format!("new {turn}");
        let answers = cluster.put(0, &value, "all");
        let full = |answer: &Value| answer["code"] == "KR0507" && answer["status"] == 507;
        assert!(answers.iter().all(|answer| answer["status"] != 200), "{answers:?}");
        // Nothing is written only where the full node leads and asked no other one.
        for (answer, read) in answers.iter().zip(cluster.get(1, "quorum")).filter(|(answer, _)| full(answer))
        {
            match answer["outcome"].as_str() {
                Some("none") => assert_ne!(read["value"], value, "{answer}"),
                outcome => assert_eq!(outcome, Some("some"), "{answer}"),
            }
        }
        (answers.len() == KEYS && answers.iter().all(full)).then_some(())
    });
    cluster.put_all(1, "newer", "quorum");
    cluster.expect_all(0, "newer");
    for at in 0..2 {
        until("the others are ready", || {
            (cluster.node(at).http("GET", "/readyz", "").0 == 200).then_some(())
        });
    }
    // With room again it catches up.
    cluster.kill(2);
    cluster.start(2, &[]);
    cluster.put_all(2, "newest", "all");
    until("it is ready", || (cluster.node(2).http("GET", "/readyz", "").0 == 200).then_some(()));
}

/// Four nodes: while one is cut off, another one begins to take its place. Transfers are slow, so that some slots are still on
/// their way when the node is back.
#[cfg(unix)]
#[test]
fn no_slot_is_left_moving_after_a_node_was_cut_off() {
    let cluster = Cluster::new("cut-off", 4, &["--transfer-rate", "256KiB"]);
    let value = "v".repeat(100 << 10);
    cluster.put_all(0, &value, "all");
    cluster.node(3).signal("STOP");
    until("slots move", || cluster.totals(3, ["moving"]).filter(|moving| *moving > [0]));
    cluster.node(3).signal("CONT");
    cluster.settle(4);
    cluster.expect_all(3, &value);
}
