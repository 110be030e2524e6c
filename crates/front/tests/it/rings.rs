//! Nodes to talk to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::id::Key;
use kringle_front::http::{Options, Server, serve};
use kringle_front::target::Target;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{App, Builder, Handle, Message, Seed};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::client::PATIENCE;
use crate::fake::Fake;

/// Answers with the bytes it got, the other way round, and not at all if there are none.
struct Mirror;

impl App for Mirror {
    fn deliver(&self, _: Key, message: Message) -> Option<Vec<u8>> {
        (!message.bytes.is_empty()).then(|| message.bytes.into_iter().rev().collect())
    }
}

/// Nodes that can reach each other, and the port of the first.
pub(crate) struct Ring {
    hub: Hub,
    pub(crate) nodes: Vec<Handle>,
    pub(crate) target: Target,
    pub(crate) server: Server,
}

impl Ring {
    /// Starts this many nodes, one after the other, and opens a port.
    pub(crate) async fn start(count: u8, options: Options) -> Ring {
        let hub = Hub::default();
        let first = builder(&hub, 0).start().await.expect("a node starts");
        let mut ring = Ring::open(hub, first, options).await;
        ring.ready(0).await;
        for _ in 1..count {
            ring.add().await;
        }
        ring
    }

    /// Starts one node and opens a port behind which a made-up store answers.
    pub(crate) async fn with_store(options: Options) -> (Ring, Arc<Fake>) {
        let (hub, fake) = (Hub::default(), Arc::new(Fake::default()));
        let first = builder(&hub, 0).start().await.expect("a node starts");
        let target = Target::new(first.clone()).with_store(fake.clone());
        (Ring::behind(hub, first, target, options).await, fake)
    }

    /// Opens a port for a node.
    pub(crate) async fn open(hub: Hub, first: Handle, options: Options) -> Ring {
        let target = Target::new(first.clone());
        Ring::behind(hub, first, target, options).await
    }

    async fn behind(hub: Hub, first: Handle, target: Target, options: Options) -> Ring {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = serve(listener, target.clone(), options).expect("an open port");
        Ring { hub, nodes: vec![first], target, server }
    }

    /// Starts one more node and waits until it is in the ring.
    pub(crate) async fn add(&mut self) {
        let number = self.nodes.len();
        let node = builder(&self.hub, number).join([seed(&self.nodes[0])]).start().await;
        self.nodes.push(node.expect("a node starts"));
        self.ready(number).await;
    }

    /// Waits until a node is in the ring.
    pub(crate) async fn ready(&self, number: usize) {
        timeout(PATIENCE, self.nodes[number].ready()).await.expect("it joins in time").expect("it joins");
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
        for node in self.nodes {
            node.stop().await;
        }
    }
}

/// A node of a test, not started yet.
pub(crate) fn builder(hub: &Hub, number: usize) -> Builder {
    let key = [u8::try_from(number + 1).expect("few nodes"); 32];
    // Thousands of slots change hands with every node that comes or goes; a few show as much.
    let settings = Settings { slots: 16, ..Settings::demo() };
    let builder = Builder::new("t").settings(settings).memory(hub).key(key);
    builder.name(format!("node-{number}")).app(16, Arc::new(Mirror))
}

/// Where a node is found.
pub(crate) fn seed(node: &Handle) -> Seed {
    Seed::Address(node.info().bound[0])
}

/// Options with short waits.
pub(crate) fn hasty() -> Options {
    Options {
        header_wait: Duration::from_millis(300),
        body_wait: Duration::from_millis(300),
        write_wait: Duration::from_millis(300),
        ..Options::default()
    }
}
