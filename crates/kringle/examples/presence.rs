//! Who is there: two applications on each node, told apart by purpose. One hears who comes and goes beside its node,
//! the other takes notes that are sent to one node directly. And what a node tells to whoever follows its events.
//!
//! Run it with: cargo run --example presence

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kringle::{App, Error, Node, NodeId, Settings, What, app_fn};

/// The application that watches.
const WATCH: u32 = 16;
/// The application that takes notes.
const NOTES: u32 = 17;

/// Writes down what a node's leaf set does.
struct Watch {
    name: &'static str,
    log: Mutex<Vec<String>>,
}

impl Watch {
    fn new(name: &'static str) -> Arc<Watch> {
        Arc::new(Watch { name, log: Mutex::default() })
    }

    fn note(&self, line: String) {
        println!("  {}: {line}", self.name);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl App for Watch {
    fn leaf_set_changed(&self, joined: &[NodeId], left: &[NodeId]) {
        self.note(format!("the leaf set changed: {} more, {} fewer", joined.len(), left.len()));
    }

    fn node_joined(&self, node: NodeId) {
        self.note(format!("{} came", short(node)));
    }

    fn node_left(&self, node: NodeId) {
        self.note(format!("{} went", short(node)));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run().await
}

/// The whole program; the tests run it, too.
pub(crate) async fn run() -> Result<(), Error> {
    let watch = Watch::new("first");
    let first = node(watch.clone(), None).await?;
    let mut events = first.events();
    println!("{} watches", short(first.id()));

    let second = node(Watch::new("second"), Some(&first)).await?;
    let third = node(Watch::new("third"), Some(&first)).await?;

    // Directly to one node, to the application for notes; the other one does not see it.
    let reply = second.send(third.id(), "see you").purpose(NOTES).await?;
    println!("{} answers: {}", short(reply.root), String::from_utf8_lossy(&reply.answer.unwrap_or_default()));
    assert_eq!(reply.root, third.id());

    // It leaves, and the first hears of it.
    third.leave().await?;
    let gone = third.id().to_string();
    let heard = async {
        while let Some(event) = events.next().await {
            println!("  event {}: {:?}", event.serial, event.what);
            if matches!(&event.what, What::PeerDown { peer } if *peer == gone) {
                return true;
            }
        }
        false
    };
    let heard = tokio::time::timeout(Duration::from_secs(20), heard).await.unwrap_or(false);
    assert!(heard, "nobody said that a node is gone");

    second.stop().await;
    first.stop().await;
    let log = watch.log.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(log.contains(&format!("{} came", short(third.id()))));
    assert!(log.contains(&format!("{} went", short(third.id()))));
    Ok(())
}

async fn node(watch: Arc<Watch>, member: Option<&Node>) -> Result<Node, Error> {
    let notes = app_fn(|_, message| {
        let text = String::from_utf8_lossy(&message.bytes).into_owned();
        Some(format!("noted {text:?} from {}", short(message.origin)).into_bytes())
    });
    let builder = Node::builder("presence").settings(Settings::demo()).app(WATCH, watch).app(NOTES, notes);
    let node = builder.join(member.map(Node::address))?.start().await?;
    node.ready().within(Duration::from_secs(20)).await?;
    Ok(node)
}

fn short(id: NodeId) -> String {
    id.to_string()[..6].to_owned()
}
