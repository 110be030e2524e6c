//! Nodes to talk to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kringle_core::id::Key;
use kringle_front::http::{Options, Server, serve};
use kringle_front::target::Target;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{App, Builder, Handle, Message, Seed};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::client::PATIENCE;

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
        let first = start(&hub, 0, Vec::new()).await;
        let target = Target::new(first.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = serve(listener, target.clone(), options).unwrap();
        let mut ring = Ring { hub, nodes: vec![first], target, server };
        for _ in 1..count {
            ring.add().await;
        }
        ring
    }

    /// Starts one more node and waits until it is in the ring.
    pub(crate) async fn add(&mut self) {
        let seed = Seed::Address(self.nodes[0].info().advertised[0]);
        let number = u8::try_from(self.nodes.len()).unwrap();
        self.nodes.push(start(&self.hub, number, vec![seed]).await);
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

async fn start(hub: &Hub, number: u8, seeds: Vec<Seed>) -> Handle {
    let builder = Builder::new("t").memory(hub).name(format!("node-{number}")).key([number + 1; 32]);
    let node = builder.app(16, Arc::new(Mirror)).join(seeds).start().await.unwrap();
    timeout(PATIENCE, node.ready()).await.expect("it joins in time").unwrap();
    node
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
