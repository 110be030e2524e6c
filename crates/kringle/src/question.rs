//! What a node knows by itself: nothing here is sent anywhere.

use std::time::Duration;

use kringle_core::contact::Proximity;
use kringle_core::id::{Key, NodeId};
use kringle_core::message::Stage;
use kringle_core::overlay::{self, Overlay, Status};
use kringle_core::range::IdRange;
use kringle_runtime::describe::View;
use kringle_runtime::error::RequestError;
use kringle_runtime::report::{Peer, Summary, Tables};

use crate::error::PeerError;
use crate::input::IntoKey;
use crate::node::Node;

/// Where a message for a key would go from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Nowhere: this node answers for it.
    Mine,
    /// To this node.
    Node(NodeId),
    /// It would wait: the node it should go to is in doubt.
    Wait,
    /// Nowhere: this node is not part of a ring.
    NotJoined,
}

impl Node {
    /// Says where a message for a key would go from here.
    pub async fn next_hop(&self, key: impl IntoKey) -> Result<NextHop, RequestError> {
        let key = key.into_key();
        let hop = self.handle.look(move |view| view.node.next_hop(key)).await?;
        Ok(match hop {
            overlay::NextHop::Here => NextHop::Mine,
            overlay::NextHop::Peer(peer, _) => NextHop::Node(peer.id),
            overlay::NextHop::Wait => NextHop::Wait,
            overlay::NextHop::NotReady => NextHop::NotJoined,
        })
    }

    /// Returns up to `n` nodes a message for a key could go to next, the best first: what would be used if those
    /// before it were silent. Ends with this node itself if nobody else is nearer.
    pub async fn local_lookup(&self, key: impl IntoKey, n: usize) -> Result<Vec<NodeId>, RequestError> {
        let key = key.into_key();
        self.handle.look(move |view| next_hops(view, key, n)).await
    }

    /// Returns the `n` nodes that should hold a key, nearest first, as far as this node can tell. Ask the key's root
    /// if it matters.
    pub async fn replicas(&self, key: impl IntoKey, n: usize) -> Result<Vec<NodeId>, RequestError> {
        self.handle.replicas(key.into_key(), n).await
    }

    /// Returns the part of the ring this node answers for; empty while it is part of none.
    pub async fn range(&self) -> Result<IdRange, RequestError> {
        self.handle.look(|view| view.node.range()).await
    }

    /// Says whether this node would deliver a message for a key right now: it is the nearest node, and its neighbours
    /// have leased it the right to.
    pub async fn is_responsible(&self, key: impl IntoKey) -> Result<bool, RequestError> {
        let key = key.into_key();
        let delivers = move |view: &View<'_>| {
            view.node.status() == Status::Ready && view.node.delivers(key, view.now, view.config)
        };
        self.handle.look(delivers).await
    }

    /// Returns the members of the leaf set: the nodes beside this one on the ring.
    pub async fn neighbours(&self) -> Result<Vec<NodeId>, RequestError> {
        self.handle.neighbours().await
    }

    /// Returns up to `n` nodes that are near in the network, the nearest first.
    pub async fn nearby(&self, n: usize) -> Result<Vec<NodeId>, RequestError> {
        let look = move |view: &View<'_>| {
            let Some(pastry) = view.node.overlay().as_pastry() else {
                // No set is kept for this: whoever is known and was measured, then.
                let known =
                    view.peers().into_iter().filter_map(|peer| Some((peer.rtt_us?, peer.id.parse().ok()?)));
                let mut near: Vec<(u32, NodeId)> = known.collect();
                near.sort_unstable();
                return near.into_iter().take(n).map(|(_, id)| id).collect();
            };
            pastry.router().neighbourhood().members().take(n).map(|contact| contact.id).collect()
        };
        self.handle.look(look).await
    }

    /// Returns the round trip to a node this one knows; `None` while it is not measured. With regions, or a metric of
    /// the application's, it is that metric in microseconds.
    pub async fn proximity(&self, node: NodeId) -> Result<Option<Duration>, PeerError> {
        self.about(node, move |view| {
            view.node.routes().contact(node)?;
            let known = view.proximity(node).filter(|near| *near != Proximity::UNKNOWN);
            Some(known.map(|near| Duration::from_micros(near.0.into())))
        })
        .await
    }

    /// Says whether a node this one knows is alive, as far as it knows: `false` while it is silent and being probed.
    /// A node that is found dead is soon not known any more.
    pub async fn is_alive(&self, node: NodeId) -> Result<bool, PeerError> {
        self.about(node, move |view| {
            view.node.routes().contact(node)?;
            Some(!view.suspects().contains(&node))
        })
        .await
    }

    async fn about<T: Send + 'static>(
        &self,
        node: NodeId,
        look: impl FnOnce(&View<'_>) -> Option<T> + Send + 'static,
    ) -> Result<T, PeerError> {
        if node == self.id() {
            return Err(PeerError::Myself(node));
        }
        self.handle.look(look).await?.ok_or(PeerError::Unknown(node))
    }

    /// Tells about this node at a glance.
    pub async fn summary(&self) -> Result<Summary, RequestError> {
        self.handle.summary().await
    }

    /// Tells about this node's tables.
    pub async fn tables(&self) -> Result<Tables, RequestError> {
        self.handle.tables().await
    }

    /// Tells about everybody this node knows.
    pub async fn peers(&self) -> Result<Vec<Peer>, RequestError> {
        self.handle.peers().await
    }
}

/// Asks for the next hop again and again, each time without those found before.
fn next_hops(view: &View<'_>, key: Key, n: usize) -> Vec<NodeId> {
    let mut found = Vec::new();
    while found.len() < n {
        match view.node.overlay().next_hop(key, Stage::Prefix, &found, None) {
            overlay::NextHop::Peer(peer, _) if !found.contains(&peer.id) => found.push(peer.id),
            overlay::NextHop::Here => {
                found.push(view.node.me().id);
                break;
            }
            _ => break,
        }
    }
    found
}
