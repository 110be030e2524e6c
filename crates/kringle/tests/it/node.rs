//! Commands about nodes, as far as they need none: nobody to ask, and settings that can not be.

use std::net::{Ipv4Addr, TcpListener};

use crate::{Run, command, kringle};

/// A port that nobody listens on: it was free a moment ago.
fn silent_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    listener.local_addr().expect("it is bound").port()
}

fn with_variable(args: &[&str], name: &str, value: &str) -> Run {
    let output = command(args).env(name, value).output().expect("the binary was built for this test");
    let text = |bytes| String::from_utf8(bytes).expect("all output is UTF-8");
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn without_a_node_to_ask_every_command_says_so() {
    let url = format!("http://127.0.0.1:{}", silent_port());
    let id = "aaf4c61ddcc5e8a2dabede0f3b482cd9";
    let commands: [&[&str]; 34] = [
        &["status"],
        &["ring"],
        &["peers", "--json"],
        &["node", "a3b9"],
        &["node", "self", "leafset"],
        &["table"],
        &["table", "a3b9"],
        &["lookup", "hello"],
        &["trace", "--id", id],
        &["route", "hello", "world"],
        &["events", "--limit", "1"],
        &["join", "host-a:7400"],
        &["copies"],
        &["copies", "2"],
        &["leave", "--yes"],
        &["stop"],
        &["scrub"],
        &["scrub", "--status"],
        &["token", "new"],
        &["token", "list"],
        &["token", "revoke", "x"],
        &["config", "show", "--running"],
        &["put", "k", "v"],
        &["get", "k"],
        &["get", "k", "--all"],
        &["add", "k", "v"],
        &["del", "k"],
        &["ttl", "k"],
        &["incr", "k"],
        &["keys"],
        &["place", "k"],
        &["export"],
        &["import", "Cargo.toml"],
        &["bench", "--seconds", "1"],
    ];
    for args in commands {
        let run = kringle(&[args, &["--node", &url]].concat());
        assert_eq!((run.code, run.stdout.as_str()), (Some(4), ""), "{args:?}: {}", run.stderr);
        let (first, second) = run.stderr.split_once('\n').unwrap();
        assert!(first.starts_with(&format!("kringle: cannot reach a node at {url}: ")), "{first}");
        assert!(second.contains("kringle start") && second.contains("--node"), "{second}");
    }
}

#[test]
fn the_node_to_ask_is_named_by_flag_before_variable() {
    let port = silent_port();
    let named = with_variable(&["status"], "KRINGLE_NODE", &format!("127.0.0.1:{port}"));
    assert!(named.code == Some(4) && named.stderr.contains(&format!(":{port}: ")), "{}", named.stderr);
    let other = silent_port();
    let flag = ["--node", &format!("127.0.0.1:{other}"), "status"];
    let named = with_variable(&flag, "KRINGLE_NODE", "http://[nonsense");
    assert!(named.code == Some(4) && named.stderr.contains(&format!(":{other}: ")), "{}", named.stderr);
    let said = kringle(&["status", "--node", "https://host"]).refused();
    assert!(said.contains("does not speak https"), "{said}");
}

#[test]
fn what_can_not_be_asked_is_refused_before_anybody_is() {
    for (args, what) in [
        (&["lookup", ""][..], "the key is empty"),
        (&["trace", "--id", "hello"], "\"hello\" is not an id"),
        (&["route", "--id", "aaf4"], "is not an id"),
        (&["status", "--node", "a b"], "is not the address of a node"),
        (&["status", "--node", "a", "--node", "b"], "2 nodes are named, and one is asked"),
        (&["put", "", "v"], "the key is empty"),
        (&["get", ""], "the key is empty"),
        (&["place", ""], "the key is empty"),
        (&["put", "k", "@no/such/file"], "no/such/file: cannot read it"),
        (&["keys", "--match", "a\\"], "the pattern ends with a \\"),
    ] {
        let said = kringle(args).refused();
        assert!(said.contains(what), "{said}");
    }
    // These are clap's own words; the code is the same.
    for args in [
        &["node"][..],
        &["node", "a", "everything"],
        &["join"],
        &["join", "http://x"],
        &["route"],
        &["route", "--example", "65b23c05", "message"],
        &["route", "key", "--table", "ring.txt", "--base", "2", "--digits", "8"],
        &["table", "a3b9", "--example", "lecture"],
        &["table", "--leaf-set", "8"],
        &["leave", "--plan", "--yes"],
        &["token"],
        &["status", "--timeout", "5"],
        &["status", "--watch=often"],
        &["status", "--json=yaml"],
        &["start", "--frobnicate"],
        &["put"],
        &["put", "k", "v", "--ttl", "10 parsecs"],
        &["put", "k", "v", "--ttl", "-1s"],
        &["put", "k", "v", "--ttl", "1e30s"],
        &["put", "k", "v", "--if-version", "seven"],
        &["put", "k", "v", "--if-version", "018bcfe568000010", "--if-absent"],
        &["put", "k", "v", "-w", "two"],
        &["get", "k", "--hex", "--base64"],
        &["add", "k"],
        &["del", "k", "v", "--if-version", "018bcfe568000010"],
        &["ttl", "k", "10m", "--clear"],
        &["incr", "k", "1.5"],
        &["keys", "--limit", "0"],
        &["bench", "--put", "--get"],
        &["bench", "--outstanding", "0"],
    ] {
        assert_eq!(kringle(args).code, Some(2), "{args:?}");
    }
}

#[test]
fn a_node_that_could_be_misused_is_not_started() {
    let said = kringle(&["start", "--http", "0.0.0.0:0"]).refused();
    assert!(said.contains("clients are not asked who they are") && said.contains("--insecure"), "{said}");
    let said = kringle(&["start", "--http", "off", "--listen", "0.0.0.0:0"]).refused();
    assert!(said.contains("strangers") && said.contains("--secret-file"), "{said}");
    for line in [&["start", "--discard"][..], &["start", "--discard", "--data", "d"]] {
        let said = kringle(line).refused();
        assert!(said.contains("only to join another cluster") && said.contains("--join"), "{said}");
    }
    let said = kringle(&["start", "--resp", "127.0.0.1:0"]).refused();
    assert!(said.contains("this version does not speak RESP yet"), "{said}");
    let said = with_variable(&["start"], "KRINGLE_OVERLAY", "mesh").refused();
    assert!(said.contains("KRINGLE_OVERLAY: this version has no overlay \"mesh\""), "{said}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for args in [
        ["start", "--http", &address, "--listen", "127.0.0.1:0"],
        ["start", "--http", "off", "--listen", &address],
    ] {
        let run = kringle(&args);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(run.stderr.contains(&address) && run.stderr.contains("has this port"), "{}", run.stderr);
    }
}

#[test]
fn settings_are_shown_with_where_they_came_from() {
    let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("settings.toml");
    std::fs::write(&file, "cluster = \"blue\"\nleaf-set = 16\nlisten = [\"127.0.0.1:0\"]\n").unwrap();
    let path = file.to_str().unwrap();
    let args =
        ["config", "show", "--json", "--origin", "--config", path, "--cluster", "red", "--token", "kj1-x"];
    let run = with_variable(&args, "KRINGLE_LEAF_SET", "24");
    assert!(!run.stdout.contains("kj1-x"), "{}", run.stdout);
    let json = run.json();
    assert_eq!(json["schema"], "kringle.config/1");
    let of = |name: &str| (json["settings"][name]["value"].clone(), json["settings"][name]["origin"].clone());
    assert_eq!(of("cluster"), ("red".into(), "flag".into()));
    assert_eq!(of("leaf-set"), ("24".into(), "env KRINGLE_LEAF_SET".into()));
    assert_eq!(of("listen"), (serde_json::json!(["127.0.0.1:0"]), format!("file {path}").into()));
    assert_eq!(of("http"), ("127.0.0.1:7480".into(), "default".into()));
    std::fs::write(&file, "listn = \"127.0.0.1:0\"\n").unwrap();
    let said = kringle(&["config", "show", "--config", path]).refused();
    assert!(
        said.contains("there is no setting \"listn\"") && said.contains("Did you mean listen?"),
        "{said}"
    );
    let said = kringle(&["start", "--config", "no/such/file"]).refused();
    assert!(said.contains("cannot read it"), "{said}");
}

#[test]
fn codes_are_explained() {
    let text = kringle(&["explain", "kr0504"]).succeeded();
    assert!(text.starts_with("KR0504  ") && text.contains("exit code 5"), "{text}");
    assert!(kringle(&["explain"]).succeeded().lines().count() > 10);
    assert_eq!(kringle(&["explain", "--json", "KR0404"]).json()["error"]["exit"], 3);
    assert_eq!(kringle(&["explain", "KR9999"]).code, Some(3));
}
