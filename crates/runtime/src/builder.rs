//! Puts a node together and starts it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kringle_core::config::{ConfigError, OverlayKind, Settings};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::app::App;
use crate::engine::{Free, MIN_FREE, SCRUB_EVERY, SCRUB_RATE, StoreKind, free_space};
use crate::handle::Handle;
use crate::identity::credentials::Credentials;
use crate::launch::launch;
use crate::protocol::{Protocol, named, set_of};
use crate::seeds::Seed;
use crate::transport::mem::Hub;

/// Why a node was not started. Nothing was left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting breaks a rule.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A name, address, token or list can not be used as given.
    #[error("{what}")]
    Input {
        /// What is wrong.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// A port can not be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The data directory can not be used.
    #[error("{what}")]
    Home {
        /// What is wrong with it.
        what: String,
        /// What to do about it.
        remedy: String,
        /// Whether another process is using it.
        in_use: bool,
    },
    /// The data directory belongs to a cluster with another value of a setting that all its nodes share (KR0421).
    #[error("{what}")]
    WrongCluster {
        /// The setting and both values.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The system refused something every node needs.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl StartError {
    /// Says what to do about it.
    pub fn remedy(&self) -> String {
        match self {
            StartError::Config(_) => "Change the setting; nothing was started.".into(),
            StartError::Input { remedy, .. }
            | StartError::WrongCluster { remedy, .. }
            | StartError::Home { remedy, .. } => remedy.clone(),
            StartError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                "Another program has this port. Choose another with --listen HOST:PORT; port 0 takes a free one.".into()
            }
            StartError::Listen { .. } => "Choose an address of this machine with --listen HOST:PORT.".into(),
            StartError::System(_) => "Free some resources (memory, threads, file descriptors) and try again.".into(),
        }
    }
}

/// Collects what a node needs. Everything but the cluster's name has a default: alone, on loopback, in memory.
pub struct Builder {
    pub(crate) cluster: String,
    pub(crate) settings: Settings,
    /// Settings that were given although they may be the default: a set of [`crate::protocol`].
    pub(crate) required: u64,
    pub(crate) name: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) region_factor: u32,
    pub(crate) data: Option<PathBuf>,
    pub(crate) store: Option<StoreKind>,
    pub(crate) min_free: u64,
    pub(crate) free_space: Free,
    pub(crate) scrub_rate: u64,
    pub(crate) scrub_every: Duration,
    pub(crate) secret: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) advertise: Vec<SocketAddr>,
    pub(crate) client: Option<String>,
    pub(crate) seeds: Vec<Seed>,
    pub(crate) discard: bool,
    pub(crate) memory: Option<Hub>,
    pub(crate) apps: Vec<(u32, Arc<dyn App>)>,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
}

impl Builder {
    /// Starts from a cluster's name.
    pub fn new(cluster: impl Into<String>) -> Builder {
        Builder {
            cluster: cluster.into(),
            settings: Settings::default(),
            required: 0,
            name: None,
            region: None,
            region_factor: 5,
            data: None,
            store: None,
            min_free: MIN_FREE,
            free_space,
            scrub_rate: SCRUB_RATE,
            scrub_every: SCRUB_EVERY,
            secret: None,
            token: None,
            key: None,
            listen: Vec::new(),
            advertise: Vec::new(),
            client: None,
            seeds: Vec::new(),
            discard: false,
            memory: None,
            apps: Vec::new(),
            credentials: None,
        }
    }

    /// Replaces the settings of the protocol. Those that all nodes of a cluster share ([`crate::protocol`]) are used to
    /// found one; a node that joins takes the cluster's values, and is refused if one given here is another one. What is
    /// the default counts as not given; see [`Builder::require`].
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Changes the settings of the protocol. What is changed counts as given, as in [`Builder::settings`].
    pub fn tune(mut self, tune: impl FnOnce(&mut Settings)) -> Builder {
        let before = Protocol::of(&self.settings);
        tune(&mut self.settings);
        self.required |= set_of(&before.differences(&Protocol::of(&self.settings)));
        self
    }

    /// Refuses to join a cluster in which one of these settings is another one than here, also if it is the default here.
    /// Names are those of `kringle start`; settings that nodes do not share are ignored.
    pub fn require<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Builder {
        self.required = names.into_iter().fold(self.required, |set, name| set | named(name));
        self
    }

    /// Chooses how the ring is organised. Fixed when a cluster is founded: the same for all its nodes, for ever.
    pub fn overlay(mut self, overlay: OverlayKind) -> Builder {
        self.settings.overlay = overlay;
        self.require(["overlay"])
    }

    /// Returns which of the settings that a cluster shares were given.
    pub(crate) fn said(&self) -> u64 {
        let usual = Protocol::of(&Settings::default());
        self.required | set_of(&usual.differences(&Protocol::of(&self.settings)))
    }

    /// Names the node, for people.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Says where the node is. Peers of other regions count as `factor` times as far as they are.
    pub fn region(mut self, region: impl Into<String>, factor: u32) -> Builder {
        (self.region, self.region_factor) = (Some(region.into()), factor);
        self
    }

    /// Keeps identity, incarnation, known peers and stored values in this directory. Without one the node forgets when it ends.
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Builder {
        self.data = Some(directory.into());
        self
    }

    /// Says where the node stores its share of the values. Without it: on the disk if there is a data directory,
    /// otherwise in memory.
    pub fn store(mut self, kind: StoreKind) -> Builder {
        self.store = Some(kind);
        self
    }

    /// Takes no more values while the disk has less than this free, in bytes. A little more must be free before it
    /// takes some again.
    pub fn min_free(mut self, bytes: u64) -> Builder {
        self.min_free = bytes;
        self
    }

    /// Reads everything on the disk in the background, at most so many bytes per second, and so often by itself; never if
    /// that is zero.
    pub fn scrub(mut self, rate: u64, every: Duration) -> Builder {
        (self.scrub_rate, self.scrub_every) = (rate, every);
        self
    }

    /// Asks this function how much is free, instead of the file system.
    pub fn free_space(mut self, free: Free) -> Builder {
        self.free_space = free;
        self
    }

    /// Gives the cluster's secret: this node can admit others.
    pub fn secret(mut self, secret: impl Into<String>) -> Builder {
        self.secret = Some(secret.into());
        self
    }

    /// Gives a join token, made by a member.
    pub fn token(mut self, token: impl Into<String>) -> Builder {
        self.token = Some(token.into());
        self
    }

    /// Uses this key instead of a new one, for rings that are the same every time. Not together with `data`.
    pub fn key(mut self, seed: [u8; 32]) -> Builder {
        self.key = Some(seed);
        self
    }

    /// Listens for peers here. Repeat for several addresses; without any, on loopback at a free port.
    pub fn listen(mut self, address: SocketAddr) -> Builder {
        self.listen.push(address);
        self
    }

    /// Tells peers to come here instead of to where the node listens. At most four.
    pub fn advertise(mut self, address: SocketAddr) -> Builder {
        self.advertise.push(address);
        self
    }

    /// Tells others where clients reach this node.
    pub fn advertise_client(mut self, client: impl Into<String>) -> Builder {
        self.client = Some(client.into());
        self
    }

    /// Joins the ring these belong to. Repeat as needed. Without seeds, and without peers remembered from an earlier
    /// life, the node starts a ring of its own.
    pub fn join(mut self, seeds: impl IntoIterator<Item = Seed>) -> Builder {
        self.seeds.extend(seeds);
        self
    }

    /// Sets an older store in the data directory aside (`store.discarded-<n>`) and forgets the peers it had, so that
    /// the node joins with an empty store. Needs a data directory and seeds. Once: a start that is told so again right
    /// afterwards keeps the store it has by then.
    pub fn discard(mut self) -> Builder {
        self.discard = true;
        self
    }

    /// Talks to the nodes of this hub, inside the process, instead of over sockets.
    pub fn memory(mut self, hub: &Hub) -> Builder {
        self.memory = Some(hub.clone());
        self
    }

    /// Registers an application for messages of one purpose, 16 or above.
    pub fn app(mut self, purpose: u32, app: Arc<dyn App>) -> Builder {
        self.apps.push((purpose, app));
        self
    }

    /// Shows these credentials to peers and asks them for theirs, besides the cluster's own certificates.
    pub fn credentials(mut self, credentials: Arc<dyn Credentials>) -> Builder {
        self.credentials = Some(credentials);
        self
    }

    /// Starts the node on a thread and a runtime of its own. Returns when it listens; see [`Handle::ready`] for when it
    /// is part of a ring.
    pub async fn start(self) -> Result<Handle, StartError> {
        let (tell, told) = oneshot::channel();
        let thread = std::thread::Builder::new().name("kringle-node".into());
        thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(StartError::System(error)))),
            };
            LocalSet::new().block_on(&runtime, async {
                match launch(self).await {
                    Ok((handle, running)) => {
                        // Nobody waits for it any more: then nobody could ever stop it.
                        if tell.send(Ok(handle)).is_ok() {
                            running.await;
                        }
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
            });
        })?;
        told.await.unwrap_or_else(|_| Err(StartError::System(io::Error::other("the node's thread ended"))))
    }

    /// Starts the node on the current thread, inside the current [`LocalSet`]: for programs that are such a thread
    /// themselves, and for many nodes in one.
    pub async fn start_here(self) -> Result<Handle, StartError> {
        let (handle, running) = launch(self).await?;
        tokio::task::spawn_local(running);
        Ok(handle)
    }
}
