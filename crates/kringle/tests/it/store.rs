//! Commands of the store, against a node whose store is made up; and those that need a real one.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use kringle::{Batch, Hub, Lifetime, Node, Outcome, StoreError};
use kringle_front::Target;
use kringle_front::http::{Options, serve};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::fake::Fake;
use crate::library::{ring, run, settings};
use crate::{Run, command, kringle_with_input};

/// A node with a port, on a thread of its own, gone with this.
pub(crate) struct Served {
    pub(crate) url: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start() -> Served {
        let ((tell, told), (end, ended)) = (mpsc::channel(), oneshot::channel());
        let thread = std::thread::spawn(move || {
            run(async move {
                let node = Node::builder("blue").settings(settings()).memory(&Hub::new()).start();
                let node = node.await.expect("a node starts");
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let target = Target::new(node.handle().clone()).with_store(Arc::new(Fake::default()));
                let server = serve(listener, target, Options::default()).expect("an open port");
                tell.send(format!("http://{}", server.address())).expect("somebody waits");
                let _ = ended.await;
                server.stop().await;
                node.stop().await;
            });
        });
        Served { url: told.recv().expect("it starts"), end: Some(end), thread: Some(thread) }
    }

    pub(crate) fn run(&self, line: &[&str]) -> Run {
        self.run_with(line, "")
    }

    pub(crate) fn run_with(&self, line: &[&str], input: &str) -> Run {
        kringle_with_input(&[line, &["--node", &self.url]].concat(), input)
    }

    /// Runs a command that must succeed, and returns what it says to people and to programs.
    pub(crate) fn done(&self, line: &[&str]) -> (String, String) {
        let run = self.run(line);
        assert_eq!(run.code, Some(0), "{line:?}: {}", run.stderr);
        (run.stdout, run.stderr)
    }

    /// Runs a command that must fail, and returns its exit code and what it says.
    fn failed(&self, line: &[&str]) -> (Option<i32>, String) {
        let run = self.run(line);
        assert_eq!(run.stdout, "", "data never comes with a failure");
        assert_eq!(run.stderr.lines().count(), 2, "one line of cause, one of remedy: {}", run.stderr);
        (run.code, run.stderr)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn values_are_stored_read_and_deleted() {
    let served = Served::start();
    let (out, said) = served.done(&["put", "greeting", "hello ring", "--ttl", "10m"]);
    assert_eq!(out, "");
    assert!(said.starts_with("stored  greeting  version "), "{said}");
    assert!(said.contains("  2/3 replicas  1 hop  ") && said.ends_with(" ms  expires in 10m\n"), "{said}");
    // Exactly the bytes: it is no terminal.
    assert_eq!(served.done(&["get", "greeting"]), ("hello ring".into(), String::new()));
    assert_eq!(served.done(&["get", "greeting", "--hex"]).0, "68656c6c6f2072696e67\n");
    assert_eq!(served.done(&["get", "greeting", "--base64", "-r", "one"]).0, "aGVsbG8gcmluZw==\n");
    let (meta, _) = served.done(&["get", "greeting", "--meta"]);
    let version = meta.lines().nth(1).unwrap().strip_prefix("version   ").unwrap().to_owned();
    assert!(said.contains(&version) && meta.contains("\nsize      10 bytes\nexpires   20"), "{meta}");
    assert_eq!(served.failed(&["put", "greeting", "x", "--if-absent"]).0, Some(6));
    let (code, said) = served.failed(&["put", "greeting", "x", "--if-version", "0000000000000007"]);
    assert!(code == Some(6) && said.contains(&version) && said.contains("KR0412"), "{said}");
    served.done(&["put", "greeting", "hello again", "--if-version", &version, "-w", "all", "-q"]);
    assert_eq!(served.failed(&["del", "greeting", "--if-version", &version]).0, Some(6));
    let (_, said) = served.done(&["del", "greeting"]);
    assert!(said.starts_with("deleted  greeting  2/3 replicas  1 hop  "), "{said}");
    assert!(served.done(&["del", "greeting"]).1.starts_with("was not there  greeting  "));
    let (code, said) = served.failed(&["get", "greeting"]);
    assert_eq!((code, said.lines().next()), (Some(3), Some("kringle: no such key: greeting (KR0404)")));
}

#[test]
fn values_come_from_pipes_and_files_and_go_there() {
    let served = Served::start();
    let text = "line\nline\n\u{e9}";
    assert_eq!(served.run_with(&["put", "piped"], text).code, Some(0));
    assert_eq!(served.done(&["get", "piped"]).0, text);
    assert_eq!(served.run_with(&["put", "dash", "-"], text).code, Some(0));
    assert_eq!(served.done(&["get", "dash"]).0, text);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("value.bin");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
    served.done(&["put", "file", &format!("@{}", path.display())]);
    let output = command(&["get", "file", "--node", &served.url]).output().unwrap();
    assert_eq!(output.stdout, bytes);
    served.done(&["put", "empty", ""]);
    assert_eq!(served.done(&["get", "empty"]), (String::new(), String::new()));
    let large = served.run_with(&["put", "large"], &"x".repeat((1 << 20) + 1));
    assert!(large.code == Some(8) && large.stderr.contains("KR0413"), "{}", large.stderr);
    let long = "k".repeat(1025);
    assert_eq!(served.failed(&["put", &long, "v"]).0, Some(8));
}

#[test]
fn sets_counters_and_ends_have_commands_too() {
    let served = Served::start();
    assert!(served.done(&["add", "room", "ada"]).1.starts_with("added  room  "));
    assert!(served.done(&["add", "room", "ada"]).1.starts_with("there already  room  "));
    served.done(&["add", "room", "grace", "--ttl", "1h"]);
    let (all, _) = served.done(&["get", "room", "--all"]);
    let mut names: Vec<&str> = all.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["ada", "grace"]);
    let (meta, _) = served.done(&["get", "room", "--all", "--meta"]);
    assert!(meta.starts_with("DIGEST ") && meta.contains("grace") && meta.lines().count() == 3, "{meta}");
    assert_eq!(served.failed(&["get", "room"]).0, Some(1), "it is a set");
    assert!(served.done(&["del", "room", "ada"]).1.starts_with("deleted  room  "));
    assert_eq!(served.done(&["get", "room", "--all"]).0, "grace\n");
    assert_eq!(served.done(&["incr", "n"]).0, "1\n");
    assert_eq!(served.done(&["incr", "n", "-3"]).0, "-2\n");
    assert_eq!(served.done(&["ttl", "n"]).0, "stays\n");
    assert!(served.done(&["ttl", "n", "2h"]).1.ends_with("expires in 2h\n"));
    assert!(served.done(&["ttl", "n"]).0.starts_with("1h59m"));
    assert!(served.done(&["ttl", "n", "--clear"]).1.starts_with("stays  n  version "));
    assert_eq!(served.failed(&["ttl", "nope"]).0, Some(3));
    assert_eq!(served.failed(&["ttl", "nope", "1h"]).0, Some(3));
}

#[test]
fn what_goes_wrong_has_the_exit_code_of_its_kind() {
    let served = Served::start();
    for (name, code) in [
        ("few", 5),
        ("some", 5),
        ("slow", 5),
        ("kind", 1),
        ("large", 8),
        ("range", 2),
        ("space", 8),
        ("clock", 4),
        ("busy", 5),
        ("damaged", 4),
        ("condition", 6),
        ("none", 2),
    ] {
        let (exit, said) = served.failed(&["put", &format!("trouble:{name}"), "v"]);
        assert!(exit == Some(code) && said.contains("(KR0"), "{name}: {exit:?} {said}");
    }
}

#[test]
fn keys_are_listed_and_placed() {
    let served = Served::start();
    assert_eq!(served.done(&["keys"]).0, "");
    for key in ["user:1", "user:2", "other", "a b"] {
        served.done(&["put", key, "v"]);
    }
    let (all, _) = served.done(&["keys"]);
    assert_eq!(all.lines().count(), 4);
    let mut users: Vec<String> =
        served.done(&["keys", "--match", "user:?"]).0.lines().map(String::from).collect();
    users.sort_unstable();
    assert_eq!(users, ["user:1", "user:2"]);
    assert_eq!(served.done(&["keys", "--limit", "3"]).0.lines().count(), 3);
    let (long, _) = served.done(&["keys", "-l"]);
    assert!(long.starts_with("VERSION ") && long.lines().count() == 5, "{long}");
    assert_eq!(served.done(&["keys", "-l", "--no-header"]).0.lines().count(), 4);
    let document: Value = serde_json::from_str(&served.done(&["keys", "--json"]).0).unwrap();
    assert_eq!((document["keys"].as_array().unwrap().len(), &document["cursor"]), (4, &json!(null)));
    for line in served.done(&["keys", "--json=lines"]).0.lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["key"].is_string());
    }
    let (place, _) = served.done(&["place", "other"]);
    assert!(
        place.starts_with("root     5b0000  version ") && place.contains("SILENT        2 of 3 agree\n"),
        "{place}"
    );
}

#[test]
fn json_is_what_the_node_says() {
    let served = Served::start();
    let json = |line: &[&str]| -> Value { serde_json::from_str(&served.done(line).0).unwrap() };
    let written = json(&["put", "k", "v", "--json"]);
    assert_eq!((&written["schema"], &written["created"]), (&json!("kringle.written/1"), &json!(true)));
    let read = json(&["get", "k", "--json"]);
    assert_eq!((&read["schema"], &read["value"]), (&json!("kringle.value/1"), &json!("v")));
    assert_eq!(read["version"], written["version"]);
    assert_eq!(json(&["incr", "n", "5", "--json"])["number"], 5);
    assert_eq!(json(&["ttl", "k", "--json"])["ttl_ms"], json!(null));
    assert_eq!(json(&["del", "k", "--json"])["existed"], true);
    assert_eq!(json(&["add", "s", "v", "--json"])["schema"], "kringle.written/1");
    assert_eq!(json(&["get", "s", "--all", "--json"])["values"][0]["value"], "v");
    assert_eq!(json(&["place", "k", "--json"])["schema"], "kringle.place/1");
}

#[test]
fn a_load_is_put_on_a_node_and_measured() {
    let served = Served::start();
    let flags = ["bench", "--seconds", "1", "--keys", "50", "--outstanding", "4", "--seed", "7"];
    let (text, said) = served.done(&[&flags[..], &["--node", &served.url]].concat());
    assert!(said.contains("seed 7\n") && said.lines().count() == 1, "{said}");
    assert!(
        text.starts_with("bench   50 % reads, 100 bytes, 50 keys, 4 outstanding, quorum, 2 nodes   seed 7\n"),
        "{text}"
    );
    for word in [
        "\nload    50 keys written",
        "\ntotal   ",
        "0 errors",
        "\nput     ",
        "\nget     ",
        "p99.9 ",
        " us of CPU per operation",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let report: Value =
        serde_json::from_str(&served.done(&[&flags[..], &["--put", "--json", "-q"]].concat()).0).unwrap();
    assert_eq!(
        (&report["schema"], &report["complete"], &report["load"]),
        (&json!("kringle.bench/1"), &json!(true), &json!(null))
    );
    assert!(report["run"]["put"]["count"].as_u64().unwrap() > 50, "{report}");
    let keys = served.done(&["keys", "--match", "bench:7:*"]).0;
    assert_eq!(keys.lines().count(), 50);
}

#[cfg(unix)]
#[test]
fn a_load_that_is_interrupted_says_what_it_has() {
    let served = Served::start();
    let mut child = command(&["bench", "--put", "--seconds", "60", "--node", &served.url]).spawn().unwrap();
    // Its first line comes before its first request.
    let mut first = [0; 1];
    std::io::Read::read_exact(child.stderr.as_mut().unwrap(), &mut first).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(
        text.contains("\nput     ") && text.ends_with("not complete: these are the figures until then\n"),
        "{text}"
    );
}

#[test]
fn programs_store_in_a_ring() {
    run(async {
        let nodes = ring(3).await;
        let (here, there) = (&nodes[0], &nodes[2]);
        let first = here.put("greeting", "hello").await.unwrap();
        assert!(first.created && first.copies.acked >= first.copies.wanted);
        assert_eq!(there.get("greeting").await.unwrap().unwrap().value, b"hello");
        assert_eq!(there.get("nope").await.unwrap(), None);
        assert!(here.exists("greeting").await.unwrap() && !here.exists("nope").await.unwrap());
        let taken = there.put("greeting", "x").if_absent().await.unwrap_err();
        assert_eq!(taken, StoreError::ConditionFailed { current: Some(first.version) });
        there.put("greeting", "again").if_version(first.version).await.unwrap();
        assert_eq!(here.ttl("greeting").await.unwrap(), Lifetime::Endless);
        here.expire("greeting", std::time::Duration::from_secs(3600)).await.unwrap();
        assert!(matches!(there.ttl("greeting").await.unwrap(), Lifetime::Until(_)));
        here.persist("greeting").await.unwrap();
        assert_eq!(there.ttl("nope").await.unwrap(), Lifetime::Absent);
        assert_eq!(there.persist("nope").await.unwrap_err(), StoreError::NotFound);
        assert_eq!(here.increment("n", 5).await.unwrap().number, 5);
        assert!(here.add("set", "a").await.unwrap().created);
        assert!(!there.add("set", "a").await.unwrap().created);
        assert_eq!(there.values("set").await.unwrap().len(), 1);
        assert_eq!(there.get("set").await.unwrap_err(), StoreError::WrongKind);
        assert!(here.exists("set").await.unwrap());
        assert!(here.remove("set", "a").await.unwrap().existed);
        assert!(!here.exists("set").await.unwrap(), "a set without values is as good as none");
        assert!(here.values("set").await.unwrap().is_empty());
        here.delete("set").await.unwrap();
        // Copies are made as nodes join, and that goes on for a while after they have; `run` ends what does not end.
        while here.place("greeting").await.unwrap().copies.len() < 3 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let batch = Batch::new().put("b", "1").increment("b", 1).get("b").delete("b").get("b");
        let outcomes = here.batch(batch).await;
        assert!(matches!(&outcomes[2], Ok(Outcome::Value(Some(stored))) if stored.value == b"2"));
        assert!(matches!(&outcomes[4], Ok(Outcome::Value(None))));
        let all = here.keys().within(std::time::Duration::from_secs(20)).await.unwrap();
        assert!(all.keys.len() == 2 && all.next.is_none(), "{all:?}");
        let (mut keys, mut page) = (Vec::new(), here.keys().limit(1).await.unwrap());
        loop {
            keys.extend(page.keys.iter().map(|found| found.key.clone()));
            let Some(next) = page.next else { break };
            page = there.keys().from(next).limit(1).await.unwrap();
        }
        keys.sort_unstable();
        assert_eq!(keys, [b"greeting".to_vec(), b"n".to_vec()]);
        assert!(there.delete("greeting").await.unwrap().existed);
        assert!(!there.delete("greeting").await.unwrap().existed);
    });
}

#[test]
fn the_demo_stores_too() {
    let lines = "put greeting hello ring\nget greeting\nadd room ada\nget room\nincr n 3\nttl greeting 10m\n\
                 ttl greeting clear\nttl greeting\nkeys gr*\nplace greeting\ndel greeting\nget greeting\n";
    let run = kringle_with_input(&["demo", "--nodes", "8"], lines);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let out: Vec<&str> = run.stdout.lines().collect();
    assert!(out[0].starts_with("stored  greeting  version ") && out[0].contains(" replicas  "), "{out:?}");
    assert_eq!((out[1], out[3], out[4]), ("hello ring", "ada", "3"));
    assert!(out[5].starts_with("changed  greeting") && out[6].starts_with("stays  greeting"), "{out:?}");
    assert_eq!((out[7], out[8]), ("stays", "greeting"));
    assert!(out[9].starts_with("root  ") && out.iter().any(|line| line.ends_with(" agree")), "{out:?}");
    assert!(out.last().unwrap().starts_with("deleted  greeting"), "{out:?}");
    assert!(run.stderr.contains("kringle: there is no such key\n"), "{}", run.stderr);
}
