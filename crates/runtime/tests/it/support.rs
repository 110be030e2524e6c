//! Rings of real nodes, small and quick.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::id::NodeId;
use kringle_runtime::key::key_of;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Builder, Handle, Seed};

/// Longer than anything here should ever take.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Where nodes of a test live.
#[derive(Clone)]
pub(crate) enum Place {
    /// Inside the process.
    Memory(Hub),
    /// On loopback sockets.
    Sockets,
}

/// Settings with short leases.
pub(crate) fn quick() -> Settings {
    Settings::demo()
}

/// Starts a node that founds a ring, or joins the one of `seed`.
pub(crate) async fn node(place: &Place, seed: Option<&Handle>) -> Handle {
    let builder = builder(place, seed);
    builder.start_here().await.unwrap()
}

/// The same, not started yet.
pub(crate) fn builder(place: &Place, seed: Option<&Handle>) -> Builder {
    let builder = Builder::new("test").settings(quick());
    let builder = match place {
        Place::Memory(hub) => builder.memory(hub),
        Place::Sockets => builder,
    };
    builder.join(seed.map(|seed| Seed::Address(seed.info().bound[0])))
}

/// Starts a ring and waits until everybody is ready.
pub(crate) async fn ring(place: &Place, count: usize) -> Vec<Handle> {
    let mut nodes = vec![node(place, None).await];
    for _ in 1..count {
        nodes.push(node(place, Some(&nodes[0])).await);
    }
    for node in &nodes {
        tokio::time::timeout(LONG, node.ready()).await.expect("in time").unwrap();
    }
    nodes
}

/// The node among these that is nearest to a key.
pub(crate) fn nearest(nodes: &[Handle], key: &str) -> NodeId {
    let key = key_of(key);
    nodes.iter().map(Handle::id).min_by_key(|id| key.closeness(*id)).unwrap()
}

/// Runs a test on one thread with a place for local tasks.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test ends in time");
    });
}

/// Waits until something holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..2000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}
