//! The demo, driven through a pipe as a script would.

use kringle::{Id, key_of};

use crate::{Run, kringle, kringle_with_input};

/// Runs commands in a ring of eight and returns what they printed.
fn demo(lines: &str) -> Run {
    kringle_with_input(&["demo", "--nodes", "8"], lines)
}

fn ids(ring: &str) -> Vec<Id> {
    ring.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
}

#[test]
fn it_greets_answers_and_ends() {
    let run = demo("status\nquit\n");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("demo   8 nodes, Pastry b=4 L=8        up in "), "{}", run.stderr);
    assert!(run.stderr.contains("seed 42 - the same ring every time. Nothing is written to disk."));
    assert!(
        run.stdout.starts_with("cluster  demo   pastry b=4 L=8   8 nodes up, 0 suspect, 0 down\n"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("\nring     whole "), "{}", run.stdout);
    assert_eq!(run.stdout.lines().filter(|line| line.contains(" demo-")).count(), 8);
}

#[test]
fn it_ends_with_its_input_too() {
    let run = demo("");
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
}

#[test]
fn the_trace_ends_at_the_nearest_node() {
    let run = demo("ring\ntrace hello\nlookup hello\nroute hello good morning\n");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let (ring, rest) = run.stdout.split_once("key  \"hello\"").unwrap();
    let ids = ids(ring);
    assert_eq!(ids.len(), 8);
    assert!(ids.is_sorted());
    let key = key_of("hello");
    let nearest = ids.iter().copied().min_by_key(|id| key.closeness(*id)).unwrap().to_string();
    let root = rest.lines().find(|line| line.ends_with("root")).unwrap();
    assert!(root.contains(&nearest[..6]), "{nearest} in {rest}");
    assert!(rest.contains("id aaf4c61ddcc5e8a2dabede0f3b482cd9   from "), "{rest}");
    assert!(rest.contains("log16(8) = 0.8    worst case 32 rows"), "{rest}");
    let mut nearer = ids.clone();
    nearer.sort_by_key(|id| key.closeness(*id));
    let replicas: Vec<String> = nearer[..3].iter().map(|id| id.to_string()[..6].to_owned()).collect();
    assert!(rest.contains(&format!("\nreplicas  {}\n", replicas.join("  "))), "{rest}");
    // Whoever is the root says so itself.
    let name =
        ring.lines().find(|line| line.starts_with(&nearest)).unwrap().split_whitespace().nth(1).unwrap();
    assert!(rest.contains(&format!("root  {} ({name})   ", &nearest[..6])), "{rest}");
    assert!(rest.contains(&format!("answer     {name}: good morning\n")), "{rest}");
}

#[test]
fn nodes_are_looked_at() {
    let run = demo("node demo-2\ntable\npeers 3\nevents\nhelp\n");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains(" demo-2\n"), "{}", run.stdout);
    assert!(run.stdout.contains("\nLeaf set "), "{}", run.stdout);
    assert!(run.stdout.contains("\nRouting table\n"), "{}", run.stdout);
    // Everybody else is in the leaf set of a ring of eight.
    let leaf = |line: &&str| line.contains(" up ") && (line.contains(" left") || line.contains(" right"));
    assert_eq!(run.stdout.lines().filter(leaf).count(), 7, "{}", run.stdout);
    assert!(run.stdout.contains("  kill NODE "), "{}", run.stdout);
}

#[test]
fn nodes_come_and_go() {
    let run = demo("kill demo-5\nring\nspawn 2\nleave 6\nring\n");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains(" (demo-5) crashed.  ring repaired in "), "{}", run.stdout);
    let (first, second) = run.stdout.split_once(" joined in ").unwrap();
    assert!(!first.contains(" demo-5 ") && ids(first).len() == 7, "{first}");
    assert!(second.contains(" (demo-6) said goodbye."), "{second}");
    assert!(second.contains(" demo-10 ") && !second.contains(" demo-6 "), "{second}");
    assert_eq!(ids(second.split_once("goodbye").unwrap().1).len(), 8);
}

#[test]
fn mistakes_are_explained_and_forgiven() {
    let run = demo("fly\ntrace\nkill nobody\nkill demo-99\nspawn 5000\ntrace ''\n\nlookup x\n");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for what in [
        "kringle: there is no command \"fly\"\n         Type 'help'",
        "kringle: trace needs something more\n",
        "kringle: there is no node \"nobody\"\n",
        "kringle: there is no node \"demo-99\"\n",
        "kringle: \"5000\" is no number of nodes to start\n",
        "kringle: a key has at least one byte\n",
    ] {
        assert!(run.stderr.contains(what), "{what}: {}", run.stderr);
    }
    assert_eq!(run.stdout.lines().count(), 2, "only the last one has an answer: {}", run.stdout);
}

#[test]
fn sizes_and_json_are_refused() {
    assert_eq!(kringle(&["demo", "--nodes", "0"]).code, Some(2));
    assert_eq!(kringle(&["demo", "--nodes", "1001"]).code, Some(2));
    assert!(kringle(&["demo", "--json"]).refused().contains("it has no JSON"));
}
