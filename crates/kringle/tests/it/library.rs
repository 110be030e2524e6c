//! The library, used as a program would.

use std::time::Duration;

use kringle::{
    Error, Hub, Id, IdRange, JoinError, MessageError, NextHop, Node, PeerError, RequestError, Settings,
    StartError, app_fn, key_of,
};

/// Runs a program and gives up on it after a minute.
pub(crate) fn run<T>(program: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), program).await.expect("in time") })
}

/// Settings of nodes that are to be quick: thousands of slots change hands with every node that comes or goes, and a
/// few show as much.
pub(crate) fn settings() -> Settings {
    Settings { slots: 16, ..Settings::demo() }
}

pub(crate) async fn ring(count: usize) -> Vec<Node> {
    let hub = Hub::new();
    let mut nodes: Vec<Node> = Vec::new();
    for at in 0..count {
        let builder = Node::builder("blue").settings(settings()).memory(&hub).name(format!("node {at}"));
        let builder = builder.app(16, app_fn(|_, message| Some(message.bytes)));
        let builder = builder.join(nodes.first().map(Node::address)).expect("an address is a seed");
        let node = builder.start().await.expect("a node starts");
        node.ready().within(Duration::from_secs(20)).await.expect("it joins in time");
        nodes.push(node);
    }
    nodes
}

#[test]
fn a_node_answers_questions_about_keys() {
    run(async {
        let nodes = ring(4).await;
        for key in ["one", "two", "three", "four", "five", "six"] {
            let nearest = nodes.iter().map(Node::id).min_by_key(|id| key_of(key).closeness(*id)).unwrap();
            for node in &nodes {
                let mine = node.id() == nearest;
                assert_eq!(node.lookup(key).await.unwrap().root, nearest);
                // A lease may just be on its way, but not to a node that is not the nearest.
                while node.is_responsible(key).await.unwrap() != mine {
                    assert!(mine, "{key} is not its");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                assert_eq!(node.range().await.unwrap().contains(key_of(key)), mine);
                let next = if mine { NextHop::Mine } else { NextHop::Node(nearest) };
                assert_eq!(node.next_hop(key).await.unwrap(), next);
                assert_eq!(node.local_lookup(key, 1).await.unwrap(), [nearest]);
                assert_eq!(node.replicas(key, 2).await.unwrap()[0], nearest);
                let trace = node.trace(key).await.unwrap();
                assert_eq!(trace.path.last().unwrap().node, nearest.to_string());
            }
        }
        assert_eq!(nodes[0].lookup(nodes[2].id()).await.unwrap().root, nodes[2].id(), "an id is its own key");
        let survey = nodes[3].survey().await.unwrap();
        assert!(survey.whole && survey.nodes.len() == 4);
    });
}

#[test]
fn a_node_answers_questions_about_others() {
    run(async {
        let nodes = ring(3).await;
        let (me, other) = (&nodes[0], nodes[1].id());
        assert!(me.neighbours().await.unwrap().contains(&other));
        assert!(me.is_alive(other).await.unwrap());
        assert!(me.proximity(other).await.is_ok());
        assert_eq!(me.is_alive(me.id()).await, Err(PeerError::Myself(me.id())));
        assert_eq!(me.proximity(me.id()).await, Err(PeerError::Myself(me.id())));
        assert_eq!(me.is_alive(Id::ZERO).await, Err(PeerError::Unknown(Id::ZERO)));
        assert!(me.nearby(9).await.unwrap().len() <= 2);
        assert_eq!(me.summary().await.unwrap().name.as_deref(), Some("node 0"));
    });
}

#[test]
fn messages_come_back_and_bad_ones_are_refused() {
    run(async {
        let nodes = ring(3).await;
        for node in &nodes {
            let reply = nodes[0].send(node.id(), "hello").await.unwrap();
            assert_eq!((reply.root, reply.answer), (node.id(), Some(b"hello".to_vec())), "also to oneself");
            assert_eq!(
                node.route("key", b"hi").purpose(16).await.unwrap().answer.as_deref(),
                Some(&b"hi"[..])
            );
        }
        let reserved = nodes[0].route("key", "x").purpose(3).await;
        assert_eq!(reserved, Err(MessageError::ReservedPurpose { purpose: 3 }));
        let large = nodes[0].route("key", vec![0; 70_000]).await;
        assert_eq!(large, Err(MessageError::Request(RequestError::TooLarge { limit: 65_536 })));
        let nobody = nodes[0].send(Id::new(7), "x").await;
        assert_eq!(nobody, Err(MessageError::Request(RequestError::NotFound)));
    });
}

#[test]
fn mistakes_are_told_apart() {
    run(async {
        let bad = Node::builder("blue").join(["no port:"]).unwrap_err();
        assert_eq!(bad.to_string(), "\"no port:\" is not HOST:PORT");
        let reserved = Node::builder("blue").app(15, app_fn(|_, _| None)).start().await;
        assert!(matches!(reserved, Err(StartError::Input { .. })));
        let name = Node::builder("No Such Name").start().await.map_err(Error::from);
        assert!(matches!(name, Err(Error::Start(_))));

        let alone = Node::builder("blue").memory(&Hub::new()).start().await.unwrap();
        alone.ready().await.unwrap();
        assert_eq!(alone.range().await.unwrap(), IdRange::Full);
        assert_eq!(alone.next_hop("x").await.unwrap(), NextHop::Mine);
        assert!(matches!(alone.join([""]).await, Err(JoinError::Seed(_))));
        let myself = alone.join([alone.address()]).await;
        assert_eq!(myself, Err(JoinError::Request(RequestError::NoSeeds)));
        alone.stop().await;
        assert_eq!(alone.lookup("x").await, Err(RequestError::Gone));
        assert!(alone.events().next().await.is_none());
    });
}

#[test]
fn waiting_for_a_ring_that_is_not_there_ends() {
    run(async {
        let lost =
            Node::builder("blue").memory(&Hub::new()).join(["10.9.9.9:7400"]).unwrap().start().await.unwrap();
        assert_eq!(lost.ready().within(Duration::from_millis(50)).await, Err(RequestError::Timeout));
        assert_eq!(lost.lookup("x").await, Err(RequestError::NotJoined));
        assert_eq!(lost.next_hop("x").await.unwrap(), NextHop::NotJoined);
        assert!(!lost.is_responsible("x").await.unwrap());
        lost.stop().await;
    });
}

#[test]
fn requests_can_be_sent_between_threads() {
    fn sendable<T: Send + Sync>(_: &T) {}
    run(async {
        let nodes = ring(1).await;
        sendable(&nodes[0]);
        let node = nodes[0].clone();
        let root = tokio::spawn(async move { node.lookup("x").await }).await.unwrap().unwrap().root;
        assert_eq!(root, nodes[0].id());
    });
}
