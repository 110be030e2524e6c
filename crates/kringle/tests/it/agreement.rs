//! Settings that a cluster shares and `kringle join`, with real processes.

use crate::processes::{Folder, Started, ended};

#[test]
fn a_node_with_another_setting_is_refused_with_both_values_and_one_without_takes_the_clusters() {
    let folder = Folder::new("agreement");
    let data = |name: &str| folder.0.join(name);
    let founder = Started::up(&data("one"), &["--base", "2", "--lease", "2s"]);
    for (flag, value, both) in [
        ("--base", "4", "has base 2, and the node to join has base 4 (KR0421)"),
        ("--lease", "10s", "has lease 2s, and the node to join has lease 10s (KR0421)"),
        ("--leaf-set", "16", "has leaf-set 32, and the node to join has leaf-set 16 (KR0421)"),
        ("--ownership", "hint", "has ownership lease, and the node to join has ownership hint (KR0421)"),
    ] {
        let run = ended(&data("two"), &["--join", &founder.peers, flag, value]);
        assert_eq!(run.code, Some(4), "{}", run.stderr);
        assert!(run.stderr.contains(both), "{}", run.stderr);
    }
    let node = Started::up(&data("two"), &["--join", &founder.peers]);
    founder.until(&["status"], |text| text.contains("2 nodes up"));
    assert_eq!(node.run(&["node", "self", "--json"]).json()["node"]["base"], 2);
    drop(node);
    let run = ended(&data("two"), &["--base", "4"]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("with base 2, not 4 (KR0421)"), "{}", run.stderr);
    assert!(run.stderr.contains("without --base"), "{}", run.stderr);
    let node = Started::up(&data("two"), &[]);
    assert_eq!(node.run(&["copies"]).succeeded(), "3\n");
    node.until(&["copies", "2"], |text| text == "2\n");
    founder.until(&["copies"], |text| text == "2\n");
    node.until(&["copies", "15"], |text| text == "15\n");
    assert_eq!(node.run(&["copies", "16"]).code, Some(2));
}

#[test]
fn join_waits_for_the_outcome_and_tells_it() {
    let folder = Folder::new("outcomes");
    let data = |name: &str| folder.0.join(name);
    let red = Started::up(&data("red"), &["--cluster", "red"]);
    let node = Started::up(&data("one"), &[]);
    // A name with several addresses, of which some do not answer.
    let port = red.peers.rsplit_once(':').unwrap().1;
    for seed in [red.peers.clone(), format!("localhost:{port}")] {
        let run = node.run(&["join", &seed]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(4), ""), "{}", run.stderr);
        for part in ["cluster red", "kringle", "(KR0421)"] {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
    }
    node.until(&["status"], |text| text.contains("1 node up"));
    // Nobody there: the reason is told, too.
    let run = node.run(&["join", "127.0.0.1:1"]);
    assert_eq!(run.code, Some(5), "{}", run.stderr);
    assert!(run.stderr.contains("goes on trying: no seed answers: 127.0.0.1:1"), "{}", run.stderr);
    // While it does, a client hears the verdict about the seeds it names.
    let run = node.run(&["join", &red.peers]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    let other = Started::up(&data("two"), &[]);
    let run = node.run(&["join", &other.peers]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    other.until(&["status"], |text| text.contains("2 nodes up"));
}
