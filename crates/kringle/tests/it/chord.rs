//! Chord, with real processes: nodes are started as people start them, asked as people ask them, and killed.

use std::path::{Path, PathBuf};

use crate::processes::{Folder, Started, ended, until};

const CHORD: [&str; 4] = ["--overlay", "chord", "--successors", "3"];

/// Goal: what was acknowledged survives the crash of one of six, and the tools show Chord's state. Method: five processes
/// with short lists, which is one too few for a ring, and a sixth, which makes it one; then one is killed.
#[test]
fn one_of_many_chord_processes_is_killed_and_everything_is_readable() {
    let folder = Folder::new("crash");
    let data = |at: usize| -> PathBuf { folder.0.join(at.to_string()) };
    let mut nodes = vec![Started::new(&data(0), &CHORD)];
    for at in 1..5 {
        let seed = nodes[0].peers.clone();
        nodes.push(Started::new(&data(at), &[&CHORD[..], &["--join", &seed]].concat()));
    }
    let whole =
        |count: &'static str| move |text: &str| text.contains(count) && text.contains("ring     whole");
    let text = nodes[4].until(&["status"], whole("5 nodes up"));
    assert!(text.starts_with("cluster  c   chord r=3 forming   "), "{text}");
    assert!(nodes[1].run(&["table"]).succeeded().contains("forming: 5 members in list"));
    let seed = nodes[0].peers.clone();
    nodes.push(Started::new(&data(5), &[&CHORD[..], &["--join", &seed]].concat()));
    nodes[5].until(&["status"], whole("6 nodes up"));
    let text = nodes[5].until(&["table"], |text| text.contains("chord r=3   ring"));
    for part in ["Predecessor     ", "Successors      ", "Query           ", "Suspects        "] {
        assert!(text.contains(part), "{text}");
    }
    let document = nodes[5].run(&["table", "--json"]).json();
    assert_eq!(document["tables"]["overlay"], "chord");
    assert_eq!(document["tables"]["chord"]["mode"], "ring");
    assert_eq!(document["tables"]["chord"]["successors"].as_array().unwrap().len(), 3);

    for at in 0..8 {
        nodes[at % 6].until(&["put", &format!("k{at}"), &format!("v{at}"), "-q"], |_| true);
    }
    // A slot that has only two copies so far waits for the second if that is killed.
    nodes[0].until(&["status"], |text| text.contains("  0 slots under-replicated, 0 being copied"));
    let victim = nodes.remove(2);
    drop(victim);
    for at in 0..8 {
        for node in &nodes {
            node.until(&["get", &format!("k{at}")], |text| text == format!("v{at}"));
        }
    }
    nodes[0].until(&["status"], whole("5 nodes up"));
    // The monitor: nothing is broken, and in peace all comes to hold.
    let holds = |text: &str| !text.contains("BROKEN") && !text.contains("not yet");
    let text = nodes[3].until(&["ring", "--check"], holds);
    assert!(text.starts_with("5 nodes asked: 5 of a ring, 0 of a small group\n"), "{text}");
    assert_eq!(text.matches("holds").count(), 8, "{text}");
    assert_eq!(
        nodes[3].run(&["ring", "--check", "--json"]).json()["properties"].as_array().unwrap().len(),
        8
    );
    let root = |line: &[&str]| nodes[3].run(line).json()["found"]["root"].clone();
    until("both ways lead to the same node", || {
        (root(&["lookup", "k1", "--json"]) == root(&["lookup", "k1", "--iterative", "--json"])).then_some(())
    });
    let text = nodes[3].run(&["trace", "k1", "--iterative"]).succeeded();
    assert!(text.contains("the root itself was not asked"), "{text}");
}

#[test]
fn a_pastry_node_is_not_let_into_a_chord_cluster_and_a_directory_keeps_its_overlay() {
    let folder = Folder::new("kinds");
    let (one, two) = (folder.0.join("one"), folder.0.join("two"));
    let founder = Started::new(&one, &CHORD);
    let peers = founder.peers.clone();
    let refused = |data: &Path, more: &[&str]| {
        let run = ended(data, more);
        assert_ne!(run.code, Some(0), "{}", run.stderr);
        run.stderr
    };
    let said = refused(&two, &["--join", &peers, "--overlay", "pastry"]);
    assert!(said.contains("has overlay chord") && said.contains("overlay pastry (KR0421)"), "{said}");
    drop(founder);
    let said = refused(&one, &["--overlay", "pastry"]);
    assert!(said.contains("belongs to a cluster with overlay chord, not pastry (KR0421)"), "{said}");
    assert!(said.contains("without --overlay"), "{said}");
    Started::new(&one, &[]).until(&["status"], |text| text.contains("1 node up"));
}
