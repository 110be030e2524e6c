//! A service on bare key-based routing: for every key, one node keeps its counter. Nobody decides who; the ring does.
//!
//! `deliver` answers at the node that is responsible for a key. `forward` sees the messages that pass through a node
//! and may change them or stop them.
//!
//! Run it with: cargo run --example request_reply

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kringle::{App, Error, Hub, Key, Message, MessageError, Node, NodeId, RequestError, Settings};

/// Which application messages are for; the first number that is free for applications.
const COUNTER: u32 = 16;

/// What each node runs.
#[derive(Default)]
struct Counter {
    counts: Mutex<HashMap<Key, u64>>,
    passed: AtomicUsize,
}

impl App for Counter {
    fn deliver(&self, key: Key, message: Message) -> Option<Vec<u8>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_default();
        match message.bytes.as_slice() {
            b"add one" => *count += 1,
            b"add ten" => *count += 10,
            _ => {}
        }
        Some(count.to_string().into_bytes())
    }

    fn forward(&self, _key: Key, message: &mut Message, _next: &mut NodeId) -> bool {
        self.passed.fetch_add(1, Ordering::Relaxed);
        match message.bytes.as_slice() {
            // Whatever forward leaves behind is what arrives.
            b"add a lot" => message.bytes = b"add ten".to_vec(),
            // This goes nowhere, and its origin is told.
            b"reset" => return false,
            _ => {}
        }
        true
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run().await
}

/// The whole program; the tests run it, too.
pub(crate) async fn run() -> Result<(), Error> {
    // Six nodes that talk inside this process, each on a thread of its own.
    let hub = Hub::new();
    let (mut nodes, mut counters): (Vec<Node>, Vec<Arc<Counter>>) = Default::default();
    for _ in 0..6 {
        let counter = Arc::new(Counter::default());
        let builder = Node::builder("counters").settings(Settings::demo()).memory(&hub);
        let builder = builder.app(COUNTER, counter.clone());
        let node = builder.join(nodes.first().map(Node::address))?.start().await?;
        node.ready().within(Duration::from_secs(20)).await?;
        nodes.push(node);
        counters.push(counter);
    }

    // Every node adds one to the same key: they all reach the same counter.
    let mut last = String::new();
    for node in &nodes {
        let reply = node.route("visitors", "add one").purpose(COUNTER).await?;
        last = text(reply.answer);
        println!("{} asked, {} counted: {last}", short(node.id()), short(reply.root));
    }
    assert_eq!(last, "6");

    // Somebody who does not keep the counter itself: its own node is the first to see the message pass.
    let root = nodes[0].lookup("visitors").await?.root;
    let asking = nodes.iter().find(|node| node.id() != root).unwrap_or(&nodes[0]);
    let reply = asking.route("visitors", "add a lot").await?;
    println!("\"add a lot\" was changed on the way: {}", text(reply.answer));

    match asking.route("visitors", "reset").await {
        Err(MessageError::Request(RequestError::Stopped)) => println!("\"reset\" was stopped on the way"),
        other => println!("\"reset\" was not stopped: {other:?}"),
    }
    let reply = asking.route("visitors", "how many?").await?;
    assert_eq!(text(reply.answer), "16");

    let passed: usize = counters.iter().map(|counter| counter.passed.load(Ordering::Relaxed)).sum();
    println!("{passed} messages passed through forward");
    for node in &nodes {
        node.stop().await;
    }
    Ok(())
}

fn text(answer: Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(&answer.unwrap_or_default()).into_owned()
}

fn short(id: NodeId) -> String {
    id.to_string()[..6].to_owned()
}
