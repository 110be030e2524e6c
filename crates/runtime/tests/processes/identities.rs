//! Nodes that are not who, or where, they should be.

use std::path::Path;
use std::time::Duration;

use kringle_runtime::identity::Identity;
use kringle_runtime::transport::tls::{HandshakeError, Tls};

use crate::ring::control::{check, settle};
use crate::ring::protocol::{Last, Options};
use crate::support::{LONG, launcher, leases, ring, until, until_refused};

/// Copies a directory with everything in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            // Keeps who may read it.
            std::fs::copy(&path, target).unwrap();
        }
    }
}

#[test]
fn the_same_identity_twice_ends_one_of_the_two() {
    let folder = tempfile::tempdir().unwrap();
    let data = |name: &str| Some(folder.path().join(name));
    let mut nodes = ring(4, |at| Options { data: data(&at.to_string()), ..leases(1000) });
    copy(&folder.path().join("2"), &folder.path().join("copy"));
    let join = vec![nodes[0].address];
    let twin = launcher().start(&Options { data: data("copy"), join, ..leases(1000) }).unwrap();
    println!("pid {} has the identity of pid {}", twin.pid, nodes[2].pid);
    assert_eq!(twin.id, nodes[2].id);
    let mut ended = None;
    until("one of the two has ended", Duration::from_secs(10), || {
        ended = [&twin, &nodes[2]].iter().find_map(|node| node.ended(Duration::from_millis(10)).ok());
        ended.is_some()
    });
    let (last, status) = ended.unwrap();
    let Some(Last::Twin(why)) = last else { panic!("it said {last:?}") };
    println!("it said: {why}");
    assert_eq!(status.code(), Some(3));
    assert!(why.contains("the same identity"));
    if nodes[2].ended(Duration::ZERO).is_ok() {
        nodes[2] = twin;
    }
    settle(&nodes, 16, LONG).unwrap();
}

#[test]
fn a_data_directory_serves_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { data: Some(folder.path().into()), ..Options::default() };
    let node = launcher().start(&options).unwrap();
    let Err(why) = launcher().start(&options) else { panic!("the second was started") };
    println!("{why}");
    assert!(why.contains(&node.pid.to_string()), "it does not name the process: {why}");
    check(&[node], 8, 1).unwrap();
}

#[test]
fn nodes_of_other_clusters_are_refused_and_both_sides_say_why() {
    let secret = |text: &str| Some(text.to_string());
    let nodes = ring(2, |_| Options { cluster: "ours".into(), secret: secret("one"), ..leases(1000) });
    let join = vec![nodes[0].address];
    let strange =
        [("theirs", "one", "belongs to cluster ours, not to theirs"), ("ours", "two", "the secrets differ")];
    for (cluster, given, why) in strange {
        let options = Options { join: join.clone(), secret: secret(given), ..leases(1000) };
        let stranger = launcher().start(&Options { cluster: cluster.into(), ..options }).unwrap();
        let (last, status) = stranger.ended(LONG).unwrap();
        let Some(Last::Refused(heard)) = last else { panic!("it said {last:?}") };
        println!("pid {} was told: {heard}", stranger.pid);
        assert!(heard.contains(why), "{heard}");
        assert_eq!(status.code(), Some(4));
        until_refused(&nodes[0], why);
    }
    assert!(nodes.iter().all(|node| node.summary().unwrap().leaves == 1));
    check(&nodes, 16, 1).unwrap();
}

#[test]
fn whoever_answers_for_another_is_not_talked_to() {
    let nodes = ring(2, |_| leases(1000));
    let failed = nodes[0].counter("kringle_handshakes_failed_total").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let wrong = runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(nodes[0].address).await.unwrap();
        let me = Identity::generate().unwrap();
        Tls::new(&me).connect(socket, Some(nodes[1].id)).await
    });
    let Err(HandshakeError::WrongId { expected, found }) = wrong else {
        panic!("it was taken for the other")
    };
    assert_eq!((expected, found), (nodes[1].id, nodes[0].id));
    until("the one who was dialled counts it", LONG, || {
        nodes[0].counter("kringle_handshakes_failed_total").unwrap() > failed
    });
}

/// A node remembers others at addresses where somebody else lives now: it must not take them for those.
#[test]
fn a_remembered_address_with_another_node_is_no_way_in() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = ring(2, |_| leases(1000));
    let options = |join| Options { data: Some(folder.path().into()), join, ..leases(1000) };
    let node = launcher().start(&options(vec![nodes[0].address])).unwrap();
    node.ready(LONG).unwrap();
    let peers = folder.path().join("peers.json");
    until("it has written down whom it knows", LONG, || {
        let known = std::fs::read_to_string(&peers).unwrap_or_default();
        nodes.iter().all(|node| known.contains(&node.id.to_string()))
    });
    node.kill();
    let mut known = std::fs::read_to_string(&peers).unwrap();
    for node in &nodes {
        known = known.replace(&node.id.to_string(), &node.id.plus(1 << 100).to_string());
    }
    std::fs::write(&peers, known).unwrap();
    settle(&nodes, 16, LONG).unwrap();
    let node = launcher().start(&options(Vec::new())).unwrap();
    until("it has tried both", LONG, || node.counter("kringle_dials_failed_total").unwrap() >= 2);
    assert_ne!(node.summary().unwrap().status, "ready");
    assert!(nodes.iter().all(|node| node.summary().unwrap().leaves == 1));
}
