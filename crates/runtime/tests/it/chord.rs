//! Rings of Chord nodes: they grow past the list of all members, lose nodes, and store; and the overlay of a cluster stays
//! what it was founded with.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use kringle_core::config::{OverlayKind, Settings};
use kringle_core::id::NodeId;
use kringle_core::store::op::{Action, Ask, Change, Condition, Found, Level, Name};
use kringle_runtime::builder::StartError;
use kringle_runtime::error::RequestError;
use kringle_runtime::key::key_of;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Builder, Ending, Handle, Seed};
use tokio::time::timeout;

use crate::support::{LONG, run, until};

const SOON: Duration = Duration::from_secs(5);

/// Short lists, so that six nodes are a ring.
fn settings() -> Settings {
    let tick = Duration::from_millis(200);
    Settings { successors: 3, tick, slots: 32, ..Settings::demo() }
}

fn chord(hub: &Hub, seed: Option<&Handle>) -> Builder {
    let builder = Builder::new("c").settings(settings()).overlay(OverlayKind::Chord).memory(hub);
    builder.join(seed.map(|seed| Seed::Address(seed.info().bound[0])))
}

async fn start(builder: Builder) -> Handle {
    let node = builder.start_here().await.unwrap();
    timeout(LONG, node.ready()).await.expect("in time").unwrap();
    node
}

/// The first of these at or after a key.
fn owner(nodes: &[Handle], key: &str) -> NodeId {
    let key = key_of(key);
    nodes.iter().map(Handle::id).min_by_key(|id| key.clockwise_to(*id)).unwrap()
}

/// Whether every node finds the owner of some keys, both ways.
async fn all_find(nodes: &[Handle]) -> bool {
    for node in nodes {
        for at in 0..8 {
            let key = format!("k{at}");
            let expected = owner(nodes, &key);
            let found = node.owner(key_of(&key), SOON).await.map(|(root, _)| root);
            let walked = node.walk(key_of(&key), SOON).await.map(|found| found.root);
            if found != Ok(expected) || walked != Ok(expected.to_string()) {
                return false;
            }
        }
    }
    true
}

async fn is_whole(node: &Handle, count: usize) -> bool {
    node.survey(64, SOON).await.is_ok_and(|survey| survey.whole && survey.nodes.len() == count)
}

async fn put(node: &Handle, key: &str, value: &str) -> bool {
    let name = Name { id: key_of(key), bytes: key.into() };
    let change = Change::Put { value: value.into(), ttl: None };
    let action = Action::Change { change, condition: Condition::Always };
    node.store(Ask { name, action, level: Level::Quorum }, SOON).await.is_ok()
}

async fn get(node: &Handle, key: &str) -> Option<Vec<u8>> {
    let name = Name { id: key_of(key), bytes: key.into() };
    let answer = node.store(Ask { name, action: Action::Get, level: Level::Quorum }, SOON).await.ok()?;
    let Found::Value(value) = answer.found else { panic!("{answer:?}") };
    value.map(|value| value.bytes)
}

#[test]
fn a_ring_grows_from_one_to_twelve_and_everybody_finds_every_key() {
    run(async {
        let hub = Hub::new();
        let mut nodes = vec![start(chord(&hub, None)).await];
        assert_eq!(nodes[0].summary().await.unwrap().mode.as_deref(), Some("forming"));
        assert!(all_find(&nodes).await);
        for count in 2..=12 {
            nodes.push(start(chord(&hub, nodes.first())).await);
            let node = nodes.last().unwrap();
            until("the newcomer sees the whole ring", || is_whole(node, count)).await;
        }
        until("everybody finds every key", || all_find(&nodes)).await;
        for node in &nodes {
            let summary = node.summary().await.unwrap();
            assert_eq!((summary.overlay.as_str(), summary.mode.as_deref()), ("chord", Some("ring")));
            let tables = node.tables().await.unwrap();
            let state = tables.chord.unwrap();
            assert_eq!((tables.overlay.as_str(), state.successors.len(), state.r), ("chord", 3, 3));
            assert_eq!(state.predecessor.map(|entry| entry.id), summary.left);
            assert!(node.peers().await.unwrap().iter().any(|peer| peer.roles.contains(&"successor".into())));
        }
        let traced = nodes[1].walk(key_of("k1"), SOON).await.unwrap();
        assert_eq!(traced.path.last().unwrap().node, traced.root);
        assert!(!traced.is_final && usize::from(traced.hops) == traced.path.len() - 1);
        // One node is asked about another.
        let other = nodes[1].tables_of(nodes[7].id(), SOON).await.unwrap();
        assert_eq!((other.id, other.overlay.as_str()), (nodes[7].id().to_string(), "chord"));
    });
}

#[test]
fn a_ring_heals_after_a_crash_and_a_goodbye_and_keeps_what_it_stores() {
    run(async {
        let hub = Hub::new();
        let mut nodes = vec![start(chord(&hub, None)).await];
        for _ in 1..8 {
            nodes.push(start(chord(&hub, nodes.first())).await);
            if nodes.len() == 3 {
                until("a few store", || put(&nodes[2], "early", "bird")).await;
            }
        }
        until("everybody finds every key", || all_find(&nodes)).await;
        for (at, node) in nodes.iter().enumerate() {
            let key = format!("v{at}");
            until("all is stored", || put(node, &key, "x")).await;
        }
        nodes.remove(5).kill().await;
        until("the ring heals", || all_find(&nodes)).await;
        nodes.remove(0).leave().await.unwrap();
        until("the ring closes", || all_find(&nodes)).await;
        until("it is whole", || is_whole(&nodes[3], 6)).await;
        for key in (0..8).map(|at| format!("v{at}")) {
            until("what was stored is there", || async { get(&nodes[2], &key).await == Some(b"x".to_vec()) })
                .await;
        }
        until("the first value, too", || async { get(&nodes[4], "early").await == Some(b"bird".to_vec()) })
            .await;
    });
}

/// The monitor on a real run: what always holds does while nodes come, crash and leave, and in peace the rest does, too.
#[test]
fn the_properties_of_a_ring_hold_while_it_changes() {
    run(async {
        let hub = Hub::new();
        let mut nodes = vec![start(chord(&hub, None)).await];
        let (asked, broken) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let watcher = {
            let (node, asked, broken) = (nodes[0].clone(), asked.clone(), broken.clone());
            tokio::task::spawn_local(async move {
                loop {
                    let Ok(check) = node.check_ring(64, SOON).await else { return };
                    asked.set(asked.get() + 1);
                    if !check.is_good() && check.silent.is_empty() {
                        broken.borrow_mut().push(check);
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
        };
        for _ in 1..10 {
            nodes.push(start(chord(&hub, nodes.first())).await);
        }
        until("everybody finds every key", || all_find(&nodes)).await;
        nodes.remove(5).kill().await;
        until("the ring heals", || all_find(&nodes)).await;
        nodes.remove(3).leave().await.unwrap();
        until("the ring closes", || all_find(&nodes)).await;
        let last = &nodes[4];
        until("all properties hold", || async {
            let check = last.check_ring(64, SOON).await.unwrap();
            (check.nodes, check.ring) == (8, 8) && check.properties.iter().all(|property| property.holds)
        })
        .await;
        watcher.abort();
        assert!(asked.get() > 2, "{} looks", asked.get());
        assert_eq!(*broken.borrow(), []);
    });
}

#[test]
fn a_node_comes_back_to_its_directory_in_a_later_life() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let first = start(chord(&hub, None)).await;
        let second = start(chord(&hub, Some(&first))).await;
        let node = start(chord(&hub, Some(&first)).data(dir.path())).await;
        until("three are a ring", || is_whole(&node, 3)).await;
        until("it stores", || put(&node, "k", "v")).await;
        let (id, incarnation) = (node.id(), node.info().incarnation);
        assert_eq!(node.stop().await, Ending::Stopped);
        // Nobody tells it whom to join.
        let again = start(chord(&hub, None).data(dir.path())).await;
        assert_eq!(again.id(), id);
        assert!(again.info().incarnation > incarnation);
        until("three are a ring again", || is_whole(&again, 3)).await;
        until("its value is there", || async { get(&second, "k").await == Some(b"v".to_vec()) }).await;
    });
}

async fn refused(dir: &Path, overlay: OverlayKind) -> String {
    let builder = Builder::new("c").settings(settings()).overlay(overlay).memory(&Hub::new()).data(dir);
    match builder.start_here().await {
        Err(StartError::WrongCluster { what, remedy }) => format!("{what}\n{remedy}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    }
}

#[test]
fn the_overlay_of_a_cluster_never_changes() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let founder = start(chord(&hub, None).data(dir.path())).await;
        until("it stores", || put(&founder, "k", "v")).await;
        let newcomer = tempfile::tempdir().unwrap();
        let other = |overlay| chord(&hub, Some(&founder)).overlay(overlay).data(newcomer.path());
        let pastry = other(OverlayKind::Pastry).start_here().await.unwrap();
        let Ending::WrongCluster { what } = timeout(LONG, pastry.ended()).await.unwrap() else { panic!() };
        assert!(what.contains("overlay chord") && what.contains("overlay pastry (KR0421)"), "{what}");
        // It was part of nothing yet: with the right one it gets in, from the same directory.
        let member = start(other(OverlayKind::Chord)).await;
        until("two are a ring", || is_whole(&member, 2)).await;
        member.stop().await;
        let said = refused(newcomer.path(), OverlayKind::Pastry).await;
        assert!(said.contains("overlay chord, not pastry (KR0421)") && said.contains("--overlay"), "{said}");
        // Nothing was lost.
        let member = start(chord(&hub, None).data(newcomer.path())).await;
        until("two are a ring again", || is_whole(&member, 2)).await;
        until("the value is there", || async { get(&member, "k").await == Some(b"v".to_vec()) }).await;
    });
}

#[test]
fn a_node_that_founded_its_cluster_alone_keeps_the_overlay_and_its_values() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let founder = start(chord(&hub, None).data(dir.path())).await;
        until("it stores", || put(&founder, "k", "v")).await;
        founder.stop().await;
        let said = refused(dir.path(), OverlayKind::Pastry).await;
        assert!(said.contains("overlay chord, not pastry"), "{said}");
        let again = start(chord(&hub, None).data(dir.path())).await;
        until("its value is there", || async { get(&again, "k").await == Some(b"v".to_vec()) }).await;
    });
}

#[test]
fn pastry_has_no_lookup_node_by_node() {
    run(async {
        let node = Builder::new("p").memory(&Hub::new()).start_here().await.unwrap();
        timeout(LONG, node.ready()).await.expect("in time").unwrap();
        assert_eq!(node.walk(key_of("k"), SOON).await, Err(RequestError::WrongOverlay));
        assert_eq!(node.tables().await.unwrap().overlay, "pastry");
    });
}
