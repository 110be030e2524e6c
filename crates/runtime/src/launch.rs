//! From what was collected to a node that runs: identity, membership, sockets, driver.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use kringle_core::config::{ClusterId, Config, Metric, Settings};
use kringle_core::dice::SeededDice;
use kringle_core::node::Node;
use kringle_core::store::Store;
use kringle_core::wire::ADDRESSES_MAX;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;

use crate::app::PURPOSE_MIN;
use crate::book::Book;
use crate::builder::{Builder, StartError};
use crate::clock::{Clock, unix_ms};
use crate::describe::About;
use crate::descriptors::{self, Shares};
use crate::driver::{Me, Network, Parts, Scrubs, Shell};
use crate::engine::{Engine, Owner, Room, StoreKind};
use crate::handle::{CALLS_MAX, EVENTS_MAX, Ending, Handle, Info, Shared};
use crate::home::{Home, HomeError, Membership};
use crate::identity::Identity;
use crate::identity::book::Tokens;
use crate::identity::cluster::{Certificate, Cluster, Secret};
use crate::identity::token::Token;
use crate::protocol::{self, Protocol};
use crate::transport::mem::Doorway;
use crate::transport::tls::Tls;

/// Connections the system may hold for us until we accept them.
const BACKLOG: u32 = 1024;

/// Who this node is in its cluster.
struct Standing {
    cluster: Option<Cluster>,
    cluster_id: ClusterId,
    certificate: Option<Certificate>,
    token: Option<Token>,
    had_peers: bool,
    /// With the values that `cluster.json` has of those that the cluster shares.
    settings: Settings,
    copies_version: u64,
    lineage: Option<u64>,
    discarded: bool,
}

/// Prepares a node. The future runs it until it ends.
pub(crate) async fn launch(
    builder: Builder,
) -> Result<(Handle, impl Future<Output = Ending> + 'static), StartError> {
    check(&builder)?;
    let shares = shares(&builder)?;
    let home = builder.data.as_deref().map(Home::open).transpose().map_err(home_error)?;
    let identity = match (&home, builder.key) {
        (Some(home), _) => home.identity().map_err(home_error)?,
        (None, Some(seed)) => Identity::from_seed(seed),
        (None, None) => Identity::generate()?,
    };
    let mut standing = standing(&builder, home.as_ref(), &identity)?;
    let (said, mut settings) = (builder.said(), standing.settings.clone());
    settings.cluster = standing.cluster_id;
    if builder.region.is_some() {
        settings.metric = Metric::Application;
    }
    let config = settings.check()?;
    if let Some(home) = home.as_ref().filter(|_| builder.discard) {
        discard_store(home, &mut standing)?;
    }
    let (mut engine, room) = open_store(&builder, home.as_ref(), &identity, &config)?;

    let mut listeners = Vec::new();
    let mut doorway: Option<Doorway> = None;
    let network = match &builder.memory {
        Some(hub) => {
            doorway = Some(hub.enter(identity.public()));
            Network::Memory(hub.clone())
        }
        None => {
            listeners = listen(&builder.listen)?;
            Network::Tls(Tls::new(&identity))
        }
    };
    let mut bound = Vec::new();
    for listener in &listeners {
        bound.push(listener.local_addr()?);
    }
    bound.extend(doorway.as_ref().map(|doorway| doorway.address));
    let advertised = if builder.advertise.is_empty() { reachable(&bound) } else { builder.advertise };

    // Only now that nothing else can fail: every start takes a new life.
    let now = unix_ms() / 1000;
    let incarnation = match (&home, &builder.memory) {
        (Some(home), _) => home.next_incarnation(now).map_err(home_error)?,
        (None, Some(hub)) => hub.next_life(),
        (None, None) => u32::try_from(now).unwrap_or(u32::MAX),
    };
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
    let (dice, instance) = seed.split_at(8);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    let (book, addr) = Book::of(identity.id(), incarnation, &advertised);
    let tokens = match &home {
        Some(home) => Tokens::open(&identity, standing.cluster_id, home).map_err(home_error)?,
        None => Tokens::in_memory(&identity, standing.cluster_id),
    };
    let clock = Clock::new();
    let (calls, called) = mpsc::channel(CALLS_MAX);
    let (events, _) = broadcast::channel(EVENTS_MAX);
    let (ready, is_ready) = watch::channel(false);
    let (ended, has_ended) = watch::channel(None);
    let info = Info {
        id: identity.id(),
        incarnation,
        cluster: builder.cluster.clone(),
        bound,
        advertised: advertised.clone(),
        payload_max: config.payload,
        founded: builder.seeds.is_empty() && !standing.had_peers,
    };
    let about = About {
        cluster: builder.cluster,
        name: builder.name,
        region: builder.region,
        client: builder.client,
        endpoints: advertised,
        started: clock.now(),
    };
    let node = Node::by_config(identity.id(), incarnation, addr, &config);
    // A key that was given may have been used before, by whoever gave it.
    let first_life = !(standing.had_peers || builder.key.is_some() && builder.memory.is_none());
    let node = if first_life { node.in_its_first_life() } else { node };
    let node = give_store(node, &mut engine, &config).map_err(home_error)?;
    let shell = Shell::new(Parts {
        node,
        config,
        dice: SeededDice::new(number(dice)),
        clock,
        network,
        book,
        me: Me {
            identity,
            incarnation,
            instance: number(instance),
            cluster: standing.cluster,
            cluster_id: standing.cluster_id,
            certificate: standing.certificate,
            token: standing.token,
            tokens,
            credentials: builder.credentials,
            region_factor: builder.region_factor,
            said,
            copies_version: standing.copies_version,
            lineage: standing.lineage,
            first_life,
        },
        suspect: engine.damage().is_some_and(|damage| damage.lost.is_some()),
        engine,
        room,
        shares,
        scrubs: Scrubs { rate: builder.scrub_rate, every: builder.scrub_every },
        seeds: builder.seeds,
        apps: builder.apps,
        about,
        events: events.clone(),
        ready,
        ended,
        home,
        had_peers: standing.had_peers,
        discarded: standing.discarded,
    });
    let shared = Shared { info, calls, events, ended: has_ended, ready: is_ready };
    let handle = Handle { shared: Arc::new(shared) };
    let running = async move {
        let mut doors = JoinSet::new();
        for listener in listeners {
            doors.spawn_local(shell.clone().listen(listener));
        }
        if let Some(doorway) = doorway {
            doors.spawn_local(shell.clone().listen_at(doorway));
        }
        shell.run(called).await
    };
    Ok((handle, running))
}

/// Gives a node what it stores. The engine's number names the filling of the store: whatever others know of an earlier one
/// is void.
///
/// The one place where nodes get their store, after a start and after a rebirth. A node that is to store nothing has
/// none.
pub(crate) fn give_store(node: Node, engine: &mut Engine, config: &Config) -> Result<Node, HomeError> {
    if engine.born() == 0 {
        return Ok(node);
    }
    let mut store = Store::open(node.me(), engine.born(), engine, config);
    if store.doubt_gaps(engine.gaps(), engine, config).is_err() {
        let why = "views of slots could not be read";
        tracing::error!(why, "the store can not be trusted: starting with an empty one");
        engine.lose(why)?;
        store = Store::open(node.me(), engine.born(), engine, config);
    }
    Ok(node.with_store(store))
}

/// Sets an older store aside, unless the start before this one has done so: whoever leaves the flag in a script must not
/// lose the copies of every start.
fn discard_store(home: &Home, standing: &mut Standing) -> Result<(), StartError> {
    if standing.discarded {
        tracing::warn!("the old store was set aside by an earlier start; leave --discard out from now on");
        return Ok(());
    }
    match home.discard_store().map_err(home_error)? {
        Some(aside) => tracing::warn!(aside = %aside.display(), "the old store was set aside"),
        None => tracing::warn!("there is no old store to set aside"),
    }
    // Those peers are of the old store's cluster.
    home.set_peers(&[]).map_err(home_error)?;
    (standing.lineage, standing.discarded) = (None, true);
    let Some(cluster) = standing.cluster.clone() else { return Ok(()) };
    home.set_cluster(&standing.membership(cluster)).map_err(home_error)
}

/// Opens what the node will store in.
/// Shares out file descriptors. What stays inside the process needs none for connections.
fn shares(builder: &Builder) -> Result<Shares, StartError> {
    match (descriptors::shares(), &builder.memory) {
        (Err(_), Some(_)) => Ok(Shares { all: 0, disk: 0, peers: 64, strangers: 64, clients: 64 }),
        (shares, _) => shares.map_err(|error| StartError::Input {
            what: error.to_string(),
            remedy: "Raise the limit, for example with `ulimit -n 1024` or LimitNOFILE= of the service."
                .into(),
        }),
    }
}

fn open_store(
    builder: &Builder,
    home: Option<&Home>,
    identity: &Identity,
    config: &Config,
) -> Result<(Engine, Option<Room>), StartError> {
    let kind = builder.store.unwrap_or(if home.is_some() { StoreKind::Disk } else { StoreKind::Memory });
    if let Some(home) = home.filter(|home| kind != StoreKind::Disk && Engine::is_in(home)) {
        // Coming back to it later would bring back the dead.
        return Err(StartError::Input {
            what: format!("{} holds a store, which would fall behind", home.dir().display()),
            remedy: "Store on the disk, or use another data directory.".into(),
        });
    }
    match (kind, home) {
        (StoreKind::None, _) => Ok((Engine::none(), None)),
        (StoreKind::Memory, _) => Ok((Engine::memory()?.0, None)),
        (StoreKind::Disk, None) => Err(StartError::Input {
            what: "a store on the disk needs a data directory".into(),
            remedy: "Name one with --data DIR, or store in memory.".into(),
        }),
        (StoreKind::Disk, Some(home)) => {
            // The core puts up to 36 bytes around a key.
            let owner = Owner { node: identity.id(), cluster: config.cluster };
            let (engine, _) = Engine::disk(home, owner).map_err(home_error)?;
            let room = Room::new(home.dir(), builder.min_free, builder.free_space);
            Ok((engine, Some(room)))
        }
    }
}

fn check(builder: &Builder) -> Result<(), StartError> {
    let input = |what: String, remedy: &str| Err(StartError::Input { what, remedy: remedy.into() });
    if let Some((purpose, _)) = builder.apps.iter().find(|(purpose, _)| *purpose < PURPOSE_MIN) {
        return input(
            format!("purpose {purpose} is one of Kringle's own"),
            "Use 16 or above for applications.",
        );
    }
    let twice = |at: usize| builder.apps[..at].iter().any(|(purpose, _)| *purpose == builder.apps[at].0);
    if let Some(at) = (0..builder.apps.len()).find(|at| twice(*at)) {
        return input(
            format!("two applications for purpose {}", builder.apps[at].0),
            "Give each application a purpose of its own.",
        );
    }
    if builder.data.is_some() && builder.key.is_some() {
        return input("a key was given, and a data directory that has one".into(), "Leave one of them out.");
    }
    if builder.discard && (builder.data.is_none() || builder.seeds.is_empty()) {
        return input(
            "a store is discarded only to join another cluster".into(),
            "Name the data directory with --data and a member with --join, or leave --discard out.",
        );
    }
    if builder.advertise.len() > ADDRESSES_MAX {
        return input(format!("{} addresses to advertise", builder.advertise.len()), "Four is the most.");
    }
    if let Some(address) = builder.advertise.iter().find(|to| to.ip().is_unspecified() || to.port() == 0) {
        return input(
            format!("nobody can reach {address}"),
            "Advertise an address and a port that other nodes can dial.",
        );
    }
    Ok(())
}

/// Finds out what this node may show to others.
fn standing(builder: &Builder, home: Option<&Home>, identity: &Identity) -> Result<Standing, StartError> {
    let input = |what: String, remedy: &str| StartError::Input { what, remedy: remedy.into() };
    let name = builder.cluster.as_str();
    crate::identity::cluster::check_name(name).map_err(|error| {
        input(error.to_string(), "Use 1 to 64 of a-z, 0-9, '-', '_' and '.' for the name of a cluster.")
    })?;
    let kept = home.map(Home::cluster).transpose().map_err(home_error)?.flatten();
    let mut settings = builder.settings.clone();
    if let Some(kept) = kept {
        let Membership { cluster, certificate, had_peers, protocol, copies_version, lineage, discarded } =
            kept;
        if cluster.name() != name {
            return Err(input(
                format!("this data directory belongs to cluster {}, not to {name}", cluster.name()),
                "Start with that name, or with another directory.",
            ));
        }
        // A node that a ring turned away before it was part of one may try again with other settings.
        let may_change = !builder.seeds.is_empty() && (builder.discard || !had_peers && lineage.is_none());
        let (said, chosen) = (builder.said(), Protocol::of(&settings));
        let differ =
            chosen.differences(&protocol).into_iter().find(|number| said & protocol::bit(*number) != 0);
        if let Some(number) = differ.filter(|_| !may_change) {
            let show = |of: &Protocol| protocol::show(number, of.value(number));
            return Err(StartError::WrongCluster {
                what: format!(
                    "this data directory belongs to a cluster with {} {}, not {} (KR0421)",
                    protocol::name(number),
                    show(&protocol),
                    show(&chosen)
                ),
                remedy: format!("{} Nothing was changed.", protocol::remedy(number)),
            });
        }
        protocol.apply(protocol::ALL & !said, &mut settings).map_err(|what| {
            input(format!("cluster.json: {what}"), "Start the version of Kringle that wrote the directory.")
        })?;
        let certificate = certificate.or_else(|| cluster.certify(&identity.public()));
        let good = certificate.as_ref().is_some_and(|shown| cluster.check(shown, &identity.public()).is_ok());
        if !cluster.is_open() && !good {
            return Err(input(
                "the certificate in this data directory was made for another node".into(),
                "Do not piece directories together; start with an empty one and a new token.",
            ));
        }
        let nobody = builder.seeds.is_empty() && home.is_some_and(|home| home.peers().0.is_empty());
        if had_peers && nobody {
            return Err(input(
                "this node was part of a ring and knows nobody of it any more".into(),
                "Name a member with --join HOST:PORT; to begin anew, use an empty data directory.",
            ));
        }
        // The next start that is told to discard the store does so again.
        let forget = discarded && !builder.discard;
        let discarded = discarded && builder.discard;
        let changed = protocol != Protocol::of(&settings) || forget;
        let standing = Standing {
            cluster: Some(cluster.clone()),
            cluster_id: cluster.id(),
            certificate,
            token: None,
            had_peers,
            settings,
            copies_version,
            lineage,
            discarded,
        };
        if let Some(home) = home.filter(|_| changed) {
            home.set_cluster(&standing.membership(cluster)).map_err(home_error)?;
        }
        return Ok(standing);
    }
    let public = builder.memory.is_none() && builder.listen.iter().any(|address| !address.ip().is_loopback());
    let fresh = |cluster_id| Standing {
        cluster: None,
        cluster_id,
        certificate: None,
        token: None,
        had_peers: false,
        settings,
        copies_version: 0,
        lineage: None,
        discarded: false,
    };
    let named = |error: crate::identity::cluster::NameError| input(error.to_string(), "Choose another name.");
    if let Some(text) = &builder.token {
        let token: Token = text.trim().parse().map_err(|error: crate::identity::token::TokenError| {
            input(error.to_string(), "Copy the whole token, from kj1- to its end, or make a new one.")
        })?;
        if token.is_expired(unix_ms() / 1000) {
            return Err(input(
                "the token has expired".into(),
                "Make a new one on a member: kringle token new",
            ));
        }
        let standing = fresh(token.cluster());
        return Ok(Standing { token: Some(token), ..standing });
    }
    let secret = match &builder.secret {
        Some(text) => Some(Secret::from_text(text)),
        None if !public => None,
        None if builder.seeds.is_empty() => Some(Secret::generate()?),
        None => {
            return Err(input(
                "joining over a network needs a token: the cluster is private".into(),
                "Make one on a member (kringle token new) and give it with --token.",
            ));
        }
    };
    let cluster = match &secret {
        Some(secret) => Cluster::with_secret(name, secret).map_err(named)?,
        None => Cluster::open(name).map_err(named)?,
    };
    let certificate = cluster.certify(&identity.public()).filter(|_| !cluster.is_open());
    let standing = Standing { cluster: Some(cluster.clone()), certificate, ..fresh(cluster.id()) };
    if let Some(home) = home {
        if let Some(secret) = &secret {
            home.set_secret(&cluster, secret).map_err(home_error)?;
        }
        home.set_cluster(&standing.membership(cluster)).map_err(home_error)?;
    }
    Ok(standing)
}

impl Standing {
    /// Returns what is written down of it.
    fn membership(&self, cluster: Cluster) -> Membership {
        Membership {
            cluster,
            certificate: self.certificate,
            had_peers: self.had_peers,
            protocol: Protocol::of(&self.settings),
            copies_version: self.copies_version,
            lineage: self.lineage,
            discarded: self.discarded,
        }
    }
}

fn listen(wanted: &[SocketAddr]) -> Result<Vec<TcpListener>, StartError> {
    let alone = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    let wanted = if wanted.is_empty() { &alone } else { wanted };
    let bind = |address: SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A port whose last connections are only waiting to be forgotten can be taken again at once.
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    wanted
        .iter()
        .map(|&address| bind(address).map_err(|source| StartError::Listen { address, source }))
        .collect()
}

/// Turns "every address of this machine" into one that others can dial.
fn reachable(bound: &[SocketAddr]) -> Vec<SocketAddr> {
    let concrete = |address: &SocketAddr| match address.ip() {
        ip if !ip.is_unspecified() => *address,
        ip => SocketAddr::new(outward(ip), address.port()),
    };
    let mut found: Vec<SocketAddr> = bound.iter().map(concrete).collect();
    found.dedup();
    found.truncate(ADDRESSES_MAX);
    found
}

/// Returns the address this machine would use towards the rest of the network. Nothing is sent.
fn outward(unspecified: IpAddr) -> IpAddr {
    let (from, towards): (IpAddr, IpAddr) = match unspecified {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        IpAddr::V6(_) => {
            (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
        }
    };
    let chosen = UdpSocket::bind((from, 0)).and_then(|socket| {
        socket.connect((towards, 9))?;
        socket.local_addr()
    });
    let loopback =
        if unspecified.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    chosen.map_or(loopback, |address| address.ip())
}

fn home_error(error: HomeError) -> StartError {
    StartError::Home {
        what: error.to_string(),
        remedy: error.remedy(),
        in_use: matches!(error, HomeError::InUse { .. }),
    }
}
