//! What a node is to be like.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use kringle_core::config::{OverlayKind, Settings};
use kringle_runtime::app::App;
use kringle_runtime::builder::StartError;
use kringle_runtime::identity::credentials::Credentials;
use kringle_runtime::seeds::SeedError;
use kringle_runtime::transport::mem::Hub;

use crate::input::{IntoSeed, seeds};
use crate::node::Node;

/// Collects what a node needs, then [starts](Builder::start) it. Made by [`Node::builder`].
///
/// Everything but the cluster's name has a default: alone, on loopback at a free port, nothing kept on disk, nobody
/// asked for a secret.
#[must_use = "a node begins to exist with `start`"]
pub struct Builder {
    inner: kringle_runtime::Builder,
}

impl Builder {
    pub(crate) fn new(cluster: String) -> Builder {
        Builder { inner: kringle_runtime::Builder::new(cluster) }
    }

    fn map(self, change: impl FnOnce(kringle_runtime::Builder) -> kringle_runtime::Builder) -> Builder {
        Builder { inner: change(self.inner) }
    }

    /// Joins the ring these nodes belong to: `host:port`, `host` (port 7400), or addresses. Repeat as needed. They are
    /// tried again and again until one answers. Without any, and without peers remembered in [`data`](Builder::data),
    /// the node starts a ring of its own.
    pub fn join<S: IntoSeed>(self, members: impl IntoIterator<Item = S>) -> Result<Builder, SeedError> {
        let seeds = seeds(members)?;
        Ok(self.map(|inner| inner.join(seeds)))
    }

    /// Registers an application for messages of one purpose, 16 or above. One per purpose; an [`Arc`] of an application
    /// is one, too, so the program can keep a hold of it.
    pub fn app(self, purpose: u32, app: impl App) -> Builder {
        self.map(|inner| inner.app(purpose, Arc::new(app)))
    }

    /// Replaces the settings of the protocol. Those that all nodes of a cluster share are used to found one; a node that
    /// joins takes the cluster's values, and is refused if one given here is another one. What is the default counts as
    /// not given; see [`require`](Builder::require).
    pub fn settings(self, settings: Settings) -> Builder {
        self.map(|inner| inner.settings(settings))
    }

    /// Changes the settings of the protocol. What is changed counts as given, as in [`settings`](Builder::settings).
    pub fn tune(self, tune: impl FnOnce(&mut Settings)) -> Builder {
        self.map(|inner| inner.tune(tune))
    }

    /// Chooses how the ring is organised: Pastry unless this is called. Fixed when a cluster is founded: a node with
    /// another overlay is not let in.
    pub fn overlay(self, overlay: OverlayKind) -> Builder {
        self.map(|inner| inner.overlay(overlay))
    }

    /// Refuses to join a cluster in which one of these settings is another one than here, also if it is the default here.
    /// Names are those of `kringle start`.
    pub fn require<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Builder {
        self.map(|inner| inner.require(names))
    }

    /// Names the node, for people.
    pub fn name(self, name: impl Into<String>) -> Builder {
        self.map(|inner| inner.name(name))
    }

    /// Says where the node is. Peers of other regions count as `factor` times as far as they are.
    pub fn region(self, region: impl Into<String>, factor: u32) -> Builder {
        self.map(|inner| inner.region(region, factor))
    }

    /// Keeps identity, incarnation and known peers in this directory: started again, it is the same node. Without one
    /// the node forgets when it ends.
    pub fn data(self, directory: impl Into<PathBuf>) -> Builder {
        self.map(|inner| inner.data(directory))
    }

    /// Sets an older store in the data directory aside (`store.discarded-<n>`), so that the node joins with an empty
    /// one. Needs [`data`](Builder::data) and [`join`](Builder::join). Once: a start that is told so again right
    /// afterwards keeps the store it has by then.
    pub fn discard(self) -> Builder {
        self.map(kringle_runtime::Builder::discard)
    }

    /// Gives the cluster's secret: only members can connect, and this node can admit others.
    pub fn secret(self, secret: impl Into<String>) -> Builder {
        self.map(|inner| inner.secret(secret))
    }

    /// Gives a join token, made by a member that holds the secret.
    pub fn token(self, token: impl Into<String>) -> Builder {
        self.map(|inner| inner.token(token))
    }

    /// Uses this key instead of a new one, for rings that are the same every time. Not together with
    /// [`data`](Builder::data).
    pub fn key(self, seed: [u8; 32]) -> Builder {
        self.map(|inner| inner.key(seed))
    }

    /// Listens for peers here. Repeat for several addresses; port 0 takes a free one.
    pub fn listen(self, address: SocketAddr) -> Builder {
        self.map(|inner| inner.listen(address))
    }

    /// Tells peers to come here instead of to where the node listens. At most four.
    pub fn advertise(self, address: SocketAddr) -> Builder {
        self.map(|inner| inner.advertise(address))
    }

    /// Talks to the nodes of this hub, inside the process, instead of over sockets.
    pub fn memory(self, hub: &Hub) -> Builder {
        self.map(|inner| inner.memory(hub))
    }

    /// Shows these credentials to peers and asks them for theirs, besides the cluster's own certificates.
    pub fn credentials(self, credentials: impl Credentials + 'static) -> Builder {
        self.map(|inner| inner.credentials(Arc::new(credentials)))
    }

    /// Starts the node on a thread of its own. Returns when it listens; see [`Node::ready`] for when it is part of a
    /// ring.
    pub async fn start(self) -> Result<Node, StartError> {
        Ok(Node::from(self.inner.start().await?))
    }

    /// Starts the node on the current thread: for many nodes in one process.
    ///
    /// # Panics
    /// Outside of a [`tokio::task::LocalSet`] on a runtime with I/O and time.
    pub async fn start_here(self) -> Result<Node, StartError> {
        Ok(Node::from(self.inner.start_here().await?))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
