//! Stores that were founded apart never pretend to be one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kringle_core::store::Store;
use kringle_core::store::op::{Action, Ask, Change, Condition, Found, Level};
use kringle_runtime::builder::StartError;
use kringle_runtime::key::name_of;
use kringle_runtime::report::What;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Builder, Ending, Handle, RequestError, Seed, StoreKind};
use tokio::time::timeout;

use crate::support::{LONG, quick, run, until};

fn builder(hub: &Hub) -> Builder {
    Builder::new("blue").settings(quick()).tune(|settings| settings.slots = 16).memory(hub)
}

fn at(hub: &Hub, dir: &Path) -> Builder {
    builder(hub).data(dir)
}

fn seed(node: &Handle) -> Seed {
    Seed::Address(node.info().bound[0])
}

async fn ready(builder: Builder) -> Handle {
    let node = builder.start_here().await.unwrap();
    timeout(LONG, node.ready()).await.expect("in time").unwrap();
    node
}

async fn put(node: &Handle, key: &str, value: &str) {
    until("a write", async || {
        let change = Change::Put { value: value.into(), ttl: None };
        let action = Action::Change { change, condition: Condition::Always };
        let ask = Ask { name: name_of(key), action, level: Level::Quorum };
        node.store(ask, Duration::from_secs(2)).await.is_ok()
    })
    .await;
}

/// Reads at a node until it answers.
async fn get(node: &Handle, key: &str) -> Option<Vec<u8>> {
    let mut read = None;
    for _ in 0..500 {
        let ask = Ask { name: name_of(key), action: Action::Get, level: Level::Quorum };
        if let Ok(answer) = node.store(ask, Duration::from_secs(2)).await {
            let Found::Value(value) = answer.found else { panic!("{answer:?}") };
            read = Some(value.map(|value| value.bytes));
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    read.expect("it answers in time")
}

/// The lineage of a node's store, and how many records it has.
async fn lineage(node: &Handle) -> (Option<u64>, u64) {
    node.look(|view| (view.node.store().and_then(Store::lineage), view.node.store().unwrap().record_count()))
        .await
        .unwrap()
}

fn written_lineage(dir: &Path) -> Option<String> {
    let text = fs::read_to_string(dir.join("cluster.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["lineage"].as_str().map(String::from)
}

fn digits(lineage: Option<u64>) -> String {
    format!("{:016x}", lineage.unwrap())
}

async fn counter(node: &Handle, name: &str) -> u64 {
    let metrics = node.metrics().await.unwrap();
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap().parse().unwrap()
}

#[test]
fn a_founder_with_records_that_is_started_to_join_is_refused_and_keeps_them() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let founder = ready(at(&hub, dir.path())).await;
        put(&founder, "mine", "1").await;
        put(&founder, "too", "2").await;
        let (ours, _) = lineage(&founder).await;
        assert_eq!(written_lineage(dir.path()), Some(digits(ours)));
        founder.stop().await;

        let other = ready(builder(&hub)).await;
        put(&other, "theirs", "3").await;
        let (theirs, _) = lineage(&other).await;
        let nowhere = Seed::Address("10.9.9.9:1".parse().unwrap());
        let node = at(&hub, dir.path()).join([nowhere, seed(&other)]).start_here().await.unwrap();
        let Ending::FoundedApart { what } = timeout(LONG, node.ended()).await.unwrap() else { panic!() };
        for part in [&digits(ours)[..8], &digits(theirs)[..8], "2 records", "1 record"] {
            assert!(what.contains(part), "{part}: {what}");
        }
        assert_eq!(counter(&other, "kringle_connections_founded_apart_total").await, 1);
        assert_eq!(get(&other, "theirs").await.as_deref(), Some(&b"3"[..]));
        assert!(other.neighbours().await.unwrap().is_empty());

        let again = ready(at(&hub, dir.path())).await;
        assert_eq!(lineage(&again).await.0, ours);
        assert_eq!(get(&again, "mine").await.as_deref(), Some(&b"1"[..]));
        again.stop().await;
    });
}

#[test]
fn a_founder_without_records_drops_its_lineage_and_joins() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let founder = ready(at(&hub, dir.path())).await;
        let (ours, _) = lineage(&founder).await;
        founder.stop().await;
        let other = ready(builder(&hub)).await;
        put(&other, "theirs", "3").await;
        let (theirs, _) = lineage(&other).await;
        assert_ne!(ours, theirs);

        let joined = ready(at(&hub, dir.path()).join([seed(&other)])).await;
        assert_eq!(get(&joined, "theirs").await.as_deref(), Some(&b"3"[..]));
        assert_eq!(written_lineage(dir.path()), Some(digits(theirs)));
        until("it holds slots of that lineage", async || lineage(&joined).await.0 == theirs).await;
        assert_eq!(counter(&other, "kringle_connections_founded_apart_total").await, 0);
        joined.stop().await;
        // It is a member of that cluster from now on.
        let again = ready(at(&hub, dir.path())).await;
        assert_eq!(get(&again, "theirs").await.as_deref(), Some(&b"3"[..]));
        again.stop().await;
    });
}

#[test]
fn a_running_founder_joins_if_it_has_no_records_and_goes_on_alone_if_it_has() {
    run(async {
        let hub = Hub::new();
        let other = ready(builder(&hub)).await;
        put(&other, "theirs", "3").await;
        let (theirs, _) = lineage(&other).await;

        let full = ready(builder(&hub)).await;
        put(&full, "mine", "1").await;
        let refused = timeout(LONG, full.join(vec![seed(&other)])).await.unwrap();
        let Err(RequestError::FoundedApart(what)) = refused else { panic!("{refused:?}") };
        assert!(what.contains("1 record") && what.contains(&digits(theirs)[..8]), "{what}");
        // Again: it is counted, and not reported twice.
        let mut events = other.events();
        assert!(full.join(vec![seed(&other)]).await.is_err());
        assert_eq!(counter(&other, "kringle_connections_founded_apart_total").await, 2);
        assert!(full.is_ready());
        assert_eq!(get(&full, "mine").await.as_deref(), Some(&b"1"[..]));
        assert_eq!(get(&full, "theirs").await, None);

        let empty = ready(builder(&hub)).await;
        timeout(LONG, empty.join(vec![seed(&other)])).await.unwrap().unwrap();
        assert_eq!(get(&empty, "theirs").await.as_deref(), Some(&b"3"[..]));
        until("it holds slots of that lineage", async || lineage(&empty).await.0 == theirs).await;
        let told = timeout(LONG, events.next()).await.unwrap().unwrap();
        assert!(!matches!(told.what, What::Refused { .. }), "{told:?}");
    });
}

#[test]
fn of_two_empty_founders_that_join_each_other_exactly_one_yields() {
    run(async {
        for _ in 0..5 {
            let hub = Hub::new();
            let nodes = [ready(builder(&hub)).await, ready(builder(&hub)).await];
            let before = [lineage(&nodes[0]).await.0, lineage(&nodes[1]).await.0];
            let joins = (nodes[0].join(vec![seed(&nodes[1])]), nodes[1].join(vec![seed(&nodes[0])]));
            let (one, two) = timeout(LONG, async { tokio::join!(joins.0, joins.1) }).await.unwrap();
            assert!(one.is_ok() || two.is_ok(), "{one:?} {two:?}");
            until("they are one ring", async || {
                let beside = [nodes[0].neighbours().await.unwrap(), nodes[1].neighbours().await.unwrap()];
                beside.iter().all(|beside| beside.len() == 1)
            })
            .await;
            put(&nodes[0], "k", "v").await;
            assert_eq!(get(&nodes[1], "k").await.as_deref(), Some(&b"v"[..]));
            until("both hold the same", async || {
                let now = [lineage(&nodes[0]).await.0, lineage(&nodes[1]).await.0];
                now[0] == now[1] && before.contains(&now[0])
            })
            .await;
        }
    });
}

#[test]
fn members_of_two_rings_refuse_each_other_and_both_go_on() {
    run(async {
        let hub = Hub::new();
        let mut rings = Vec::new();
        for _ in 0..2 {
            let first = ready(builder(&hub)).await;
            let second = ready(builder(&hub).join([seed(&first)])).await;
            rings.push([first, second]);
        }
        // A member shares its views with others, so it is refused without a record, too.
        for (from, to) in [(&rings[0][1], &rings[1][0]), (&rings[1][1], &rings[0][0])] {
            let refused = timeout(LONG, from.join(vec![seed(to)])).await.unwrap();
            assert!(matches!(refused, Err(RequestError::FoundedApart(_))), "{refused:?}");
        }
        for (at, ring) in rings.iter().enumerate() {
            put(&ring[0], "k", &at.to_string()).await;
        }
        for (at, ring) in rings.iter().enumerate() {
            assert_eq!(get(&ring[1], "k").await, Some(at.to_string().into_bytes()));
            assert_eq!(ring[0].neighbours().await.unwrap(), [ring[1].id()]);
        }
    });
}

#[test]
fn a_node_that_stores_nothing_yet_takes_the_lineage_of_one_cluster_only() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        ready(at(&hub, dir.path())).await.stop().await;
        let others = [ready(builder(&hub)).await, ready(builder(&hub)).await];
        put(&others[0], "k", "0").await;
        put(&others[1], "k", "1").await;
        let node = ready(at(&hub, dir.path()).join(others.iter().map(seed))).await;
        let read = get(&node, "k").await.unwrap();
        let (joined, apart) = if read == b"0" { (0, 1) } else { (1, 0) };
        let (taken, _) = lineage(&others[joined]).await;
        assert_eq!(written_lineage(dir.path()), Some(digits(taken)));
        assert_eq!(node.neighbours().await.unwrap(), [others[joined].id()]);
        assert!(others[apart].neighbours().await.unwrap().is_empty());
        node.stop().await;
    });
}

#[test]
fn a_directory_without_a_lineage_takes_it_from_its_views() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let founder = ready(at(&hub, dir.path())).await;
        put(&founder, "mine", "1").await;
        let (ours, _) = lineage(&founder).await;
        founder.stop().await;
        let path = dir.path().join("cluster.json");
        let mut file: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert!(file.as_object_mut().unwrap().remove("lineage").is_some());
        fs::write(&path, file.to_string()).unwrap();
        let other = ready(builder(&hub)).await;
        let node = at(&hub, dir.path()).join([seed(&other)]).start_here().await.unwrap();
        let ending = timeout(LONG, node.ended()).await.unwrap();
        assert!(matches!(ending, Ending::FoundedApart { .. }), "{ending:?}");
        assert_eq!(written_lineage(dir.path()), Some(digits(ours)));
    });
}

#[test]
fn a_discarded_store_is_set_aside_once_and_the_node_joins_empty() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let founder = ready(at(&hub, dir.path())).await;
        put(&founder, "mine", "1").await;
        founder.stop().await;
        let Err(error) = at(&hub, dir.path()).discard().start_here().await else { panic!("it started") };
        assert!(matches!(error, StartError::Input { .. }), "{error}");
        let other = ready(builder(&hub)).await;
        put(&other, "theirs", "3").await;
        let discard = || at(&hub, dir.path()).join([seed(&other)]).discard();
        let aside = |number: u32| dir.path().join(format!("store.discarded-{number}"));
        // The second start is a script that was left as it is.
        for _ in 0..2 {
            let node = ready(discard()).await;
            assert_eq!(node.id(), founder.id());
            assert_eq!(get(&node, "theirs").await.as_deref(), Some(&b"3"[..]));
            assert_eq!(get(&node, "mine").await, None);
            assert!(aside(1).join("store").is_dir() && aside(1).join("store.format").is_file());
            assert!(!aside(2).exists(), "what it has stored since is not set aside");
            node.stop().await;
        }
        ready(at(&hub, dir.path())).await.stop().await;
        ready(discard()).await.stop().await;
        assert!(aside(2).exists(), "another start was in between");
    });
}

#[test]
fn a_new_member_writes_the_lineage_down_when_it_joins() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let first = ready(builder(&hub)).await;
        let (lineage, _) = lineage(&first).await;
        // One that stores nothing holds no view that could say it.
        for kind in [StoreKind::Disk, StoreKind::None] {
            let home = dir.path().join(format!("{kind:?}"));
            let member = ready(at(&hub, &home).store(kind).join([seed(&first)])).await;
            assert_eq!(written_lineage(&home), Some(digits(lineage)), "{kind:?}");
            member.stop().await;
        }
    });
}

/// A crash may come after the store was emptied and before the new lineage was written down.
#[test]
fn a_node_that_crashed_while_it_yielded_joins_or_founds_again() {
    run(async {
        let (hub, dir) = (Hub::new(), tempfile::tempdir().unwrap());
        let other = ready(builder(&hub)).await;
        put(&other, "theirs", "3").await;
        for join in [false, true] {
            let founder = ready(at(&hub, dir.path())).await;
            let (old, _) = lineage(&founder).await;
            founder.stop().await;
            fs::remove_dir_all(dir.path().join("store")).unwrap();
            fs::remove_file(dir.path().join("store.format")).unwrap();
            fs::remove_file(dir.path().join("store.mark")).unwrap();
            assert_eq!(written_lineage(dir.path()), Some(digits(old)));
            let node = ready(at(&hub, dir.path()).join(join.then(|| seed(&other)))).await;
            let expected = join.then_some(&b"3"[..]);
            assert_eq!(get(&node, "theirs").await.as_deref(), expected);
            assert_ne!(written_lineage(dir.path()), Some(digits(old)));
            node.stop().await;
        }
    });
}

/// Two new nodes know each other before either knows a cluster.
#[test]
fn nodes_that_met_before_they_had_a_lineage_do_not_connect_two_stores() {
    run(async {
        let hub = Hub::new();
        let (a, b) = (ready(builder(&hub)).await, ready(builder(&hub)).await);
        put(&a, "key", "a").await;
        put(&b, "key", "b").await;
        let nowhere = Seed::Address("10.9.9.9:1".parse().unwrap());
        let x = builder(&hub).join([nowhere]).start_here().await.unwrap();
        let y = builder(&hub).join([seed(&x)]).start_here().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _ = tokio::join!(x.join(vec![seed(&a)]), timeout(LONG, y.join(vec![seed(&b)])));
        tokio::time::sleep(Duration::from_secs(3)).await;
        for (one, other) in [(&x, &y), (&y, &x)] {
            let beside = one.neighbours().await.unwrap().contains(&other.id());
            let (one, other) = (lineage(one).await.0, lineage(other).await.0);
            assert!(!beside || one == other, "neighbours of lineages {one:?} and {other:?}");
        }
    });
}
