//! Nodes agree on the settings that a cluster shares before they meet, and on the number of copies all the time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kringle_core::config::{OverlayKind, Ownership, Settings};
use kringle_core::id::Base;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Builder, Ending, Handle, RequestError, Seed, StartError, StoreKind};
use tokio::time::timeout;

use crate::support::{LONG, run, until};

fn builder(hub: &Hub) -> Builder {
    Builder::new("blue").memory(hub)
}

fn seed(node: &Handle) -> Seed {
    Seed::Address(node.info().bound[0])
}

async fn ready(builder: Builder) -> Handle {
    let node = builder.start_here().await.unwrap();
    timeout(LONG, node.ready()).await.expect("in time").unwrap();
    node
}

async fn settings(node: &Handle) -> Settings {
    node.look(|view| (**view.config).clone()).await.unwrap()
}

/// A shared setting: its name, the default, another value, and what gives it that one.
type Other = (&'static str, &'static str, &'static str, fn(&mut Settings));

const OTHERS: [Other; 9] = [
    ("overlay", "pastry", "chord", |settings| settings.overlay = OverlayKind::Chord),
    ("base", "4", "2", |settings| settings.base = Base::new(2).unwrap()),
    ("leaf-set", "32", "16", |settings| settings.leaf_set = 16),
    ("ownership", "lease", "hint", |settings| settings.ownership = Ownership::Hint),
    ("lease", "10s", "2s", |settings| settings.lease = Duration::from_secs(2)),
    ("slots", "4096", "64", |settings| settings.slots = 64),
    ("clock-ahead", "5s", "7s", |settings| settings.clock_ahead = Duration::from_secs(7)),
    ("successors", "8", "5", |settings| settings.successors = 5),
    ("copies", "3", "2", |settings| settings.replicas = 2),
];

#[test]
fn a_joiner_with_another_value_is_refused_with_both() {
    run(async {
        let hub = Hub::new();
        let usual = ready(builder(&hub)).await;
        for (name, ours, theirs, other) in OTHERS {
            let joiner = builder(&hub).tune(other).join([seed(&usual)]).start_here().await.unwrap();
            let Err(RequestError::WrongCluster(what)) = timeout(LONG, joiner.ready()).await.unwrap() else {
                panic!("{name}")
            };
            for part in [format!("{name} {ours}"), format!("{name} {theirs}"), "KR0421".into()] {
                assert!(what.contains(&part), "{part}: {what}");
            }
            assert!(matches!(joiner.ended().await, Ending::WrongCluster { .. }));
        }
        assert!(usual.neighbours().await.unwrap().is_empty());
    });
}

/// All shared settings with other values, in a Pastry cluster and in a Chord cluster.
#[test]
fn a_joiner_that_was_given_nothing_takes_the_values_of_the_cluster_and_keeps_them() {
    run(async {
        for others in [&OTHERS[1..], &OTHERS] {
            let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
            let founder = others.iter().fold(builder(&hub), |builder, (.., other)| builder.tune(other));
            let founder = ready(founder).await;
            let joiner = ready(builder(&hub).data(dir.path()).join([seed(&founder)])).await;
            let expected = settings(&founder).await;
            assert_eq!(settings(&joiner).await, expected);
            let met = async |node: &Handle| founder.neighbours().await.unwrap() == [node.id()];
            until("they know each other", || met(&joiner)).await;
            assert_eq!(joiner.stop().await, Ending::Stopped);
            // Another value is refused, and the default is one.
            for (name, usual, other, _) in others {
                let required = builder(&hub).data(dir.path()).require([*name]);
                let refused = required.start_here().await.err().expect("it does not start");
                assert!(matches!(refused, StartError::WrongCluster { .. }), "{refused}");
                let said = format!("cluster with {name} {other}, not {usual} (KR0421)");
                assert!(refused.to_string().contains(&said), "{refused}");
            }
            let again = ready(builder(&hub).data(dir.path())).await;
            assert_eq!(settings(&again).await, expected);
            until("they know each other again", || met(&again)).await;
        }
    });
}

#[test]
fn an_empty_founder_takes_them_with_the_lineage_and_one_with_another_value_goes_on_alone() {
    run(async {
        let hub = Hub::new();
        let founder = ready(builder(&hub).tune(|settings| settings.slots = 64)).await;
        let empty = ready(builder(&hub)).await;
        timeout(LONG, empty.join(vec![seed(&founder)])).await.unwrap().unwrap();
        until("one ring", || async { founder.neighbours().await.unwrap() == [empty.id()] }).await;
        assert_eq!(settings(&empty).await.slots, 64);
        let other = ready(builder(&hub).tune(|settings| settings.slots = 16)).await;
        let refused = timeout(LONG, other.join(vec![seed(&founder)])).await.unwrap();
        let Err(RequestError::WrongCluster(what)) = refused else { panic!("{refused:?}") };
        assert!(what.contains("slots 64") && what.contains("slots 16"), "{what}");
        assert!(other.is_ready() && settings(&other).await.slots == 16);
    });
}

#[test]
fn a_node_without_a_store_takes_them_too() {
    run(async {
        let hub = Hub::new();
        let founder = ready(builder(&hub).tune(|settings| settings.base = Base::new(2).unwrap())).await;
        let bare = ready(builder(&hub).store(StoreKind::None).join([seed(&founder)])).await;
        assert_eq!(settings(&bare).await.base.bits(), 2);
    });
}

/// Two that join each other, one of them insisting on a value: neither takes the other's before it is part of a ring.
#[test]
fn a_joiner_takes_nothing_from_another_joiner() {
    run(async {
        let hub = Hub::new();
        let ring = ready(builder(&hub)).await;
        let nowhere = Seed::Address("10.9.9.9:1".parse().unwrap());
        let lost = builder(&hub).tune(|settings| settings.slots = 64).join([nowhere.clone()]);
        let lost = lost.start_here().await.unwrap();
        let joiner = builder(&hub).join([seed(&lost)]).start_here().await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(settings(&joiner).await.slots, Settings::default().slots);
        timeout(LONG, joiner.join(vec![seed(&ring)])).await.unwrap().unwrap();
    });
}

fn kept_copies(dir: &Path) -> (u64, u64) {
    let text = fs::read_to_string(dir.join("cluster.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    (file["copies_version"].as_u64().unwrap(), file["protocol"]["copies"].as_u64().unwrap())
}

/// Slots of a node by how many members their views have.
async fn members(node: &Handle) -> Vec<usize> {
    let sizes = |view: &kringle_runtime::describe::View<'_>| {
        let store = view.node.store().unwrap();
        let mut sizes: Vec<usize> = store.views().map(|(_, view, _)| view.members.len()).collect();
        sizes.dedup();
        sizes
    };
    node.look(sizes).await.unwrap()
}

#[test]
fn the_number_of_copies_is_changed_everywhere_and_views_follow() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let new = || builder(&hub).tune(|settings| settings.slots = 16);
        let mut nodes = vec![ready(new()).await];
        for _ in 1..4 {
            nodes.push(ready(new().join([seed(&nodes[0])])).await);
        }
        let away = ready(builder(&hub).data(dir.path()).join([seed(&nodes[0])])).await;
        let all = |nodes: &[Handle], count: usize| {
            let nodes = nodes.to_vec();
            async move {
                for node in &nodes {
                    if members(node).await != [count] {
                        return false;
                    }
                }
                true
            }
        };
        until("three copies", || all(&nodes, 3)).await;
        assert_eq!(away.stop().await, Ending::Stopped);
        for count in [4, 2] {
            nodes[2].set_copies(count).await.unwrap().unwrap();
            until("all have that many", || all(&nodes, count.into())).await;
            for node in &nodes {
                assert_eq!(node.copies().await.unwrap(), count);
            }
        }
        // More than the leaf set has room for.
        assert_eq!(nodes[0].set_copies(16).await.unwrap().unwrap_err().setting, "leaf-set");
        assert_eq!(nodes[0].copies().await.unwrap(), 2);
        // A member that was away and a newcomer learn of it when they meet the others.
        let back = ready(builder(&hub).data(dir.path())).await;
        until("it learns", || async { back.copies().await.unwrap() == 2 }).await;
        assert_eq!(kept_copies(dir.path()), (2, 2));
        let newcomer = ready(builder(&hub).join([seed(&nodes[0])])).await;
        assert_eq!(newcomer.copies().await.unwrap(), 2);
    });
}

/// A ring in which nothing happens: no connection opens, nobody comes or goes, and copies are compared every ten minutes.
#[test]
fn the_number_of_copies_is_pushed_and_followed_in_a_ring_where_nothing_happens() {
    run(async {
        let hub = Hub::new();
        let new = || {
            builder(&hub).tune(|settings| {
                settings.slots = 16;
                settings.sweep = Duration::from_secs(600);
            })
        };
        let mut nodes = vec![ready(new()).await];
        for _ in 1..4 {
            nodes.push(ready(new().join([seed(&nodes[0])])).await);
        }
        for node in &nodes {
            until("three copies", || async { members(node).await == [3] }).await;
        }
        let settled = || async {
            let mut counts = Vec::new();
            for node in &nodes {
                counts.push(node.look(|view| view.node.store().unwrap().survey().moving).await.unwrap());
            }
            counts.iter().all(|moving| *moving == 0)
        };
        until("nothing moves", settled).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        nodes[1].set_copies(2).await.unwrap().unwrap();
        for node in &nodes {
            until("it hears", || async { node.copies().await.unwrap() == 2 }).await;
            until("views follow", || async { members(node).await == [2] }).await;
        }
    });
}
