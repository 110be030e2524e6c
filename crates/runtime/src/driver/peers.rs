//! Connections: opened, accepted, judged, kept, closed.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use kringle_core::contact::Contact;
use kringle_core::edge::{Dial, Input};
use kringle_core::id::NodeId;
use kringle_core::message::Body;
use kringle_core::wire::HEADER;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::relaying::DIRECT_ALONE;
use super::{CONTROL, Driver, Network, Shell};
use crate::clock::unix_ms;
use crate::identity::{Identity, PublicKey};
use crate::protocol::COPIES;
use crate::report::What;
use crate::transport::hello::{Greeting, Hello, Purpose, Refused, Why};
use crate::transport::link::{self, End, Ends, Link};
use crate::transport::mem::Doorway;
use crate::transport::stream::{Metered, Stream};
use crate::transport::tls::{HandshakeError, Tls};

/// How long an address may take to accept a connection, and after how long it is tried again: the kernel would ask at
/// ever longer intervals, and notice late that a cut is over.
const CONNECT: Duration = Duration::from_secs(5);
const CONNECT_AGAIN: Duration = Duration::from_millis(2500);
/// To the end of the greeting: three round trips, each of up to two seconds.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(8);
/// A connection over which nothing came back for so long is ended when probes stay unanswered.
pub(super) const SILENT: Duration = Duration::from_millis(500);
/// After so long without an acknowledgement the kernel gives up a connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// How long the next address of a peer waits for the one before it.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// Bytes somebody may send before it is known who it is.
const STRANGER_MAX: u64 = 4096;
/// Messages that may wait for one connection to open.
const WAITING_MAX: usize = 1024;
/// Messages that may wait for all connections being opened.
const WAITING_ALL_MAX: usize = 16_384;
/// How many seconds ahead of our clock a life of ours may be that others know.
const FAR_AHEAD: u64 = 7 * 86_400;

/// The connections with one peer.
#[derive(Default)]
pub(super) struct PeerLinks {
    main: Option<Rc<Link>>,
    bulk: Option<Rc<Link>>,
}

impl PeerLinks {
    pub(super) fn all(&self) -> impl Iterator<Item = Rc<Link>> + use<> {
        self.main.clone().into_iter().chain(self.bulk.clone())
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.main.is_some()) + usize::from(self.bulk.is_some())
    }

    /// The connection for everything but large frames.
    pub(super) fn main(&self) -> Option<Rc<Link>> {
        self.main.clone()
    }

    pub(super) fn is_open(&self, bulk: bool) -> bool {
        let link = if bulk { &self.bulk } else { &self.main };
        link.as_ref().is_some_and(|link| link.is_open())
    }

    fn slot(&mut self, bulk: bool) -> &mut Option<Rc<Link>> {
        if bulk { &mut self.bulk } else { &mut self.main }
    }
}

/// A connection being opened, and what waits for it.
#[derive(Default)]
pub(super) struct Dialling {
    waiting: Vec<(Contact, Body)>,
}

impl Dialling {
    /// Forgets what waits. Returns how much that was.
    pub(super) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.waiting).len()
    }
}

/// Why a peer could not be reached.
#[derive(Debug)]
pub(super) enum DialError {
    /// Nobody answered there.
    Unreachable(String),
    /// The one who answered is this very node.
    Myself,
    /// The peer turned us away.
    Refused(Refused),
    /// We turned the peer away.
    Unwelcome(Refused),
}

impl std::fmt::Display for DialError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DialError::Unreachable(why) => write!(f, "{why}"),
            DialError::Myself => write!(f, "this is the node itself"),
            DialError::Refused(refused) => write!(f, "refused: {}", refused.text),
            DialError::Unwelcome(refused) => write!(f, "not accepted: {}", refused.text),
        }
    }
}

impl DialError {
    /// Says whether trying again is in vain.
    pub(super) fn stays(&self) -> bool {
        matches!(
            self.why(),
            Some(
                Why::Version
                    | Why::Cluster
                    | Why::Membership
                    | Why::Credentials
                    | Why::Lineage
                    | Why::Retired
            )
        )
    }

    /// Says why one of the two turned the other away, if one did.
    pub(super) fn why(&self) -> Option<Why> {
        match self {
            DialError::Refused(refused) | DialError::Unwelcome(refused) => Some(refused.why),
            DialError::Unreachable(_) | DialError::Myself => None,
        }
    }

    /// Says what keeps the two apart if it is their lineages.
    pub(super) fn founded_apart(&self) -> Option<&str> {
        match self {
            DialError::Refused(refused) | DialError::Unwelcome(refused) if refused.why == Why::Lineage => {
                Some(&refused.text)
            }
            _ => None,
        }
    }
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> DialError {
        DialError::Unreachable(error.to_string())
    }
}

impl From<HandshakeError> for DialError {
    fn from(error: HandshakeError) -> DialError {
        match error {
            HandshakeError::OwnKey => DialError::Myself,
            error => DialError::Unreachable(error.to_string()),
        }
    }
}

/// A stream whose other end has proved its key.
pub(super) struct Proved {
    pub(super) stream: Stream,
    pub(super) key: PublicKey,
    /// Lifts the limit of what a stranger may send.
    pub(super) admit: Option<Rc<std::cell::Cell<u64>>>,
}

/// Connects, and asks anew every now and then.
pub(super) async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let connecting = async {
        loop {
            if let Ok(done) = timeout(CONNECT_AGAIN, TcpStream::connect(to)).await {
                return done;
            }
        }
    };
    match timeout(CONNECT, connecting).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within five seconds")),
    }
}

/// Sets what every connection between nodes needs.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED.as_millis() as u32)?;
    Ok(())
}

// Opening.
impl Shell {
    /// Reaches one address.
    pub(super) async fn reach(&self, to: SocketAddr, expected: Option<NodeId>) -> Result<Proved, DialError> {
        match &self.network {
            Network::Tls(tls) => self.reach_by_tls(tls, to, expected).await,
            Network::Memory(hub) => {
                let me = self.driver.borrow().me.identity.public();
                let (stream, key) = hub.dial(to, me, expected).map_err(|error| match error.kind() {
                    io::ErrorKind::AddrInUse => DialError::Myself,
                    _ => DialError::from(error),
                })?;
                Ok(Proved { stream: Stream::Memory(stream), key, admit: None })
            }
        }
    }

    async fn reach_by_tls(
        &self,
        tls: &Tls,
        to: SocketAddr,
        expected: Option<NodeId>,
    ) -> Result<Proved, DialError> {
        #[cfg(test)]
        if self.unreachable.borrow().contains(&to) {
            return Err(DialError::Unreachable("cut off by the test".into()));
        }
        let socket = connect(to).await?;
        prepare(&socket)?;
        let (metered, admit) = self.meter(socket);
        let (stream, key) = tls.connect(metered, expected).await?;
        Ok(Proved { stream: Stream::Tls(Box::new(stream)), key, admit: Some(admit) })
    }

    fn meter(&self, socket: TcpStream) -> (Metered, Rc<std::cell::Cell<u64>>) {
        let metrics = &self.driver.borrow().metrics;
        Metered::new(socket, metrics.bytes_received.clone(), metrics.bytes_sent.clone(), STRANGER_MAX)
    }

    /// Opens a connection to a peer at one of its addresses, each tried a little after the one before.
    pub(super) async fn open(
        self: &Rc<Shell>,
        endpoints: Vec<SocketAddr>,
        expected: Option<NodeId>,
        purpose: Purpose,
    ) -> Result<Rc<Link>, DialError> {
        let attempt = move |to: SocketAddr, shell: Rc<Shell>| async move {
            let proved = shell.reach(to, expected).await?;
            shell.greet(proved, purpose).await
        };
        let opening = async {
            let [only] = endpoints.as_slice() else {
                let mut attempts = JoinSet::new();
                for (at, to) in endpoints.iter().copied().enumerate() {
                    let shell = self.clone();
                    attempts.spawn_local(async move {
                        sleep(NEXT_ADDRESS * at as u32).await;
                        attempt(to, shell).await
                    });
                }
                let mut last = DialError::Unreachable("no address is known".into());
                while let Some(done) = attempts.join_next().await {
                    match done {
                        Ok(Ok(link)) => return Ok(link),
                        Ok(Err(error @ (DialError::Refused(_) | DialError::Unwelcome(_)))) => {
                            return Err(error);
                        }
                        Ok(Err(error)) => last = error,
                        Err(error) => last = DialError::Unreachable(error.to_string()),
                    }
                }
                return Err(last);
            };
            attempt(*only, self.clone()).await
        };
        match timeout(HANDSHAKE, opening).await {
            Ok(result) => result,
            Err(_) => Err(DialError::Unreachable("no greeting in time".into())),
        }
    }

    /// Greets whoever we have reached, and makes a link of it.
    pub(super) async fn greet(
        self: &Rc<Shell>,
        proved: Proved,
        purpose: Purpose,
    ) -> Result<Rc<Link>, DialError> {
        let Proved { mut stream, key, admit } = proved;
        let hello = self.driver.borrow().hello(purpose, key.id());
        let (said, offered) = ((hello.incarnation, hello.lineage), (hello.yields, hello.adopts));
        if let (None, Some(token)) = (&hello.certificate, &self.driver.borrow().me.token)
            && token.issuer() != key.id()
        {
            let text = format!("the token was made by node {}: join through that one", token.issuer());
            return Err(DialError::Unwelcome(Refused::new(Why::Membership, text)));
        }
        let asked = self.clock.now();
        Greeting::Hello(Box::new(hello)).write(&mut stream).await?;
        let theirs = match Greeting::read(&mut stream).await? {
            Greeting::Hello(hello) => hello,
            Greeting::Refused(refused) => {
                self.enter(|driver| driver.was_refused(key.id(), &refused));
                return Err(DialError::Refused(refused));
            }
            _ => {
                return Err(DialError::Unreachable("an answer out of turn".into()));
            }
        };
        let rtt = u32::try_from(self.clock.now().since(asked).as_micros()).unwrap_or(u32::MAX);
        if let Err(refused) = self.enter(|driver| driver.judge_answer(&theirs, &key, offered)) {
            let _ = Greeting::Refused(refused.clone()).write(&mut stream).await;
            return Err(DialError::Unwelcome(refused));
        }
        Greeting::Agreed.write(&mut stream).await?;
        if let Some(admit) = admit {
            admit.set(0);
        }
        let link = self
            .enter(|driver| driver.admit_link(said, &key, &theirs, purpose, Some(rtt)))
            .map_err(DialError::Unwelcome)?;
        spawn_local(self.clone().attend(stream, link.clone()));
        Ok(link)
    }

    /// Asks who is at these addresses that has our own key, in which life.
    pub(super) async fn ask_who(&self, endpoints: &[SocketAddr]) -> Option<Hello> {
        let stranger = Identity::generate().ok()?;
        let me = self.driver.borrow().me.identity.id();
        for to in endpoints.iter().copied() {
            let asking = async {
                let mut stream = match &self.network {
                    Network::Tls(_) => {
                        let (metered, _) = self.meter(connect(to).await.ok()?);
                        let (stream, _) = Tls::new(&stranger).connect(metered, Some(me)).await.ok()?;
                        Stream::Tls(Box::new(stream))
                    }
                    Network::Memory(hub) => Stream::Memory(hub.dial(to, stranger.public(), Some(me)).ok()?.0),
                };
                let hello = self.driver.borrow().hello(Purpose::Who, me);
                Greeting::Hello(Box::new(hello)).write(&mut stream).await.ok()?;
                match Greeting::read(&mut stream).await.ok()? {
                    Greeting::Hello(hello) => Some(*hello),
                    _ => None,
                }
            };
            if let Ok(Some(hello)) = timeout(HANDSHAKE, asking).await {
                return Some(hello);
            }
        }
        None
    }

    /// Carries a link's bytes until it ends.
    async fn attend(self: Rc<Shell>, stream: Stream, link: Rc<Link>) {
        let end = link::run(stream, link.clone(), &*self).await;
        self.enter(|driver| driver.link_ended(&link, &end));
    }

    /// Opens a connection for a message, in a task of its own.
    async fn dial(self: Rc<Shell>, to: NodeId, bulk: bool, endpoints: Vec<SocketAddr>) {
        let purpose = if bulk { Purpose::Bulk } else { Purpose::Peer };
        let mut opening = std::pin::pin!(self.open(endpoints, Some(to), purpose));
        let opened = match timeout(DIRECT_ALONE, &mut opening).await {
            Ok(opened) => opened,
            Err(_) => {
                self.enter(|driver| driver.seek(to, bulk));
                opening.await
            }
        };
        self.enter(|driver| {
            let unreachable = matches!(opened, Err(DialError::Unreachable(_)));
            driver.dialled(to, bulk, opened);
            if unreachable {
                driver.seek(to, bulk);
            }
        });
    }

    /// Finds out who is at an address, by opening a connection to it.
    pub(super) async fn resolve(self: &Rc<Shell>, to: SocketAddr) -> Result<Contact, DialError> {
        self.open(vec![to], None, Purpose::Peer).await.map(|link| link.contact())
    }
}

// Accepting.
impl Shell {
    /// Accepts connections on a socket until the node ends.
    pub(crate) async fn listen(self: Rc<Shell>, listener: TcpListener) {
        loop {
            let Ok((socket, from)) = listener.accept().await else {
                // Out of descriptors, most likely: others may be closed by then.
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Some(knock) = self.gate.knock(from.ip(), Instant::now()) else {
                self.driver.borrow().metrics.turned_away.inc();
                continue;
            };
            let shell = self.clone();
            spawn_local(async move {
                let handshake = async {
                    // A silent connection does not take the turn of another one.
                    socket.readable().await?;
                    knock.heard();
                    let turn = knock.turn().await;
                    let admitted = shell.accept_socket(socket).await;
                    drop(turn);
                    admitted
                };
                let done = tokio::select! {
                    done = timeout(HANDSHAKE, handshake) => done,
                    () = knock.sent_away() => {
                        shell.driver.borrow().metrics.turned_away.inc();
                        return;
                    }
                };
                match done {
                    Ok(Ok(Some((stream, link)))) => {
                        drop(knock);
                        shell.attend(stream, link).await;
                    }
                    Ok(Ok(None)) => {}
                    Ok(Err(error)) => shell.failed_handshake(from, &error.to_string()),
                    Err(_) => shell.failed_handshake(from, "it took too long"),
                }
            });
            // The connection that was closed for this one ends now.
            tokio::task::yield_now().await;
        }
    }

    fn failed_handshake(&self, from: SocketAddr, why: &str) {
        tracing::debug!(%from, why, "handshake failed");
        self.driver.borrow().metrics.handshake_failed.inc();
    }

    async fn accept_socket(
        self: &Rc<Shell>,
        socket: TcpStream,
    ) -> Result<Option<(Stream, Rc<Link>)>, DialError> {
        let Network::Tls(tls) = &self.network else { return Ok(None) };
        prepare(&socket)?;
        let (metered, admit) = self.meter(socket);
        let (stream, key) = tls.accept(metered).await?;
        let stream = Stream::Tls(Box::new(stream));
        self.admit(Proved { stream, key, admit: Some(admit) }).await
    }

    /// Accepts connections from the hub until the node ends.
    pub(crate) async fn listen_at(self: Rc<Shell>, mut doorway: Doorway) {
        while let Some((stream, key)) = doorway.arrivals.recv().await {
            let shell = self.clone();
            spawn_local(async move {
                let proved = Proved { stream: Stream::Memory(stream), key, admit: None };
                if let Ok(Ok(Some((stream, link)))) = timeout(HANDSHAKE, shell.admit(proved)).await {
                    shell.attend(stream, link).await;
                }
            });
        }
    }

    /// Hears who has come and lets it in, or says why not.
    async fn admit(self: &Rc<Shell>, proved: Proved) -> Result<Option<(Stream, Rc<Link>)>, DialError> {
        let Proved { mut stream, key, admit } = proved;
        let Greeting::Hello(theirs) = Greeting::read(&mut stream).await? else {
            return Err(DialError::Unreachable("the first word was no greeting".into()));
        };
        let mut ours = self.driver.borrow().hello(theirs.purpose, key.id());
        let said = (ours.incarnation, ours.lineage);
        if theirs.purpose == Purpose::Who {
            (ours.certificate, ours.credentials, ours.endpoints) = (None, None, Vec::new());
            (ours.lineage, ours.records, ours.yields) = (None, 0, false);
            Greeting::Hello(Box::new(ours)).write(&mut stream).await?;
            return Ok(None);
        }
        match self.enter(|driver| driver.judge(&theirs, &key)) {
            Ok(granted) => ours.granted = granted.map(|certificate| certificate.encode()),
            Err(refused) => {
                self.enter(|driver| driver.turned_away(key.id(), &refused));
                Greeting::Refused(refused.clone()).write(&mut stream).await?;
                return Err(DialError::Unwelcome(refused));
            }
        }
        let third = match theirs.purpose {
            Purpose::Relay => match self.reach_for(theirs.relay).await {
                Ok(socket) => Some(socket),
                Err(refused) => {
                    Greeting::Refused(refused.clone()).write(&mut stream).await?;
                    return Err(DialError::Unwelcome(refused));
                }
            },
            _ => None,
        };
        if let Some(admit) = admit {
            // Frames may follow its agreement at once, in the same packet.
            admit.set(0);
        }
        Greeting::Hello(Box::new(ours)).write(&mut stream).await?;
        match Greeting::read(&mut stream).await? {
            Greeting::Agreed => {}
            Greeting::Refused(refused) => {
                self.enter(|driver| driver.was_refused(key.id(), &refused));
                return Err(DialError::Refused(refused));
            }
            _ => {
                return Err(DialError::Unreachable("a greeting out of turn".into()));
            }
        }
        if let Some(socket) = third {
            self.carry(stream, socket);
            return Ok(None);
        }
        let link = self
            .enter(|driver| {
                driver.metrics.accepted.inc();
                driver.admit_link(said, &key, &theirs, theirs.purpose, None)
            })
            .map_err(DialError::Unwelcome)?;
        Ok(Some((stream, link)))
    }
}

// What the driver knows and decides.
impl Driver {
    /// Returns the connection to use for a peer, if there is one.
    pub(super) fn link(&self, to: Contact, bulk: bool) -> Option<Rc<Link>> {
        let links = self.links.get(&to.id)?;
        let link = if bulk { &links.bulk } else { &links.main };
        // What is meant for a later life must not go to the one before.
        link.as_ref().filter(|link| link.is_open() && link.incarnation >= to.incarnation).cloned()
    }

    /// Opens a connection for a message.
    pub(super) fn dial(&mut self, to: Contact, bulk: bool, body: Body) {
        let room = self.waiting_to_leave < WAITING_ALL_MAX;
        if let Some(dialling) = self.dialling_to(to, bulk)
            && dialling.waiting.len() < WAITING_MAX
            && room
        {
            dialling.waiting.push((to, body));
            self.waiting_to_leave += 1;
        } else {
            self.metrics.dropped.inc();
            self.soon.push_back(Input::Unsent { to, body });
        }
    }

    pub(super) fn dial_to_measure(&mut self, to: Contact) {
        // Once it is open, the distance is told.
        let _ = self.dialling_to(to, false);
    }

    fn dialling_to(&mut self, to: Contact, bulk: bool) -> Option<&mut Dialling> {
        let key = (to.id, bulk);
        if !self.dialling.contains_key(&key) {
            let endpoints = self.book.get(to.addr).to_vec();
            let shell = self.shell.upgrade()?;
            if self.dialling.len() >= self.shares.dials() || to.id == self.me.identity.id() {
                return None;
            }
            self.dialling.insert(key, Dialling::default());
            spawn_local(shell.dial(to.id, bulk, endpoints));
        }
        self.dialling.get_mut(&key)
    }

    pub(super) fn dialled(&mut self, to: NodeId, bulk: bool, opened: Result<Rc<Link>, DialError>) {
        let Some(Dialling { waiting }) = self.dialling.remove(&(to, bulk)) else { return };
        self.waiting_to_leave -= waiting.len();
        match opened {
            Ok(link) => {
                self.metrics.dialled.inc();
                let opened = link.contact();
                for (to, body) in waiting {
                    // Not "over this link": the peer may have dialled at the same time, and its connection stayed.
                    if self.link(to, bulk).is_some() {
                        self.send(to, body, Dial::Never);
                    } else if link.incarnation < to.incarnation || !self.put(&link, &body) {
                        self.soon.push_back(Input::Unsent { to, body });
                    }
                }
                if !bulk {
                    self.input(Input::Opened { peer: opened.id });
                    self.tell_distance(&link);
                }
            }
            Err(error) => {
                self.metrics.dial_failed.inc();
                tracing::debug!(peer = %to, %error, "cannot reach a peer");
                for (to, body) in waiting {
                    // It may have reached us meanwhile; if not, the core is told.
                    self.send(to, body, Dial::Never);
                }
                self.settle();
            }
        }
    }

    /// Takes a connection over, if what was said at its beginning still holds: greeting takes time, and others come
    /// meanwhile. A round trip is known to the one who dialled.
    fn admit_link(
        &mut self,
        (incarnation, lineage): (u32, Option<u64>),
        key: &PublicKey,
        hello: &Hello,
        purpose: Purpose,
        rtt: Option<u32>,
    ) -> Result<Rc<Link>, Refused> {
        if self.ending.is_some() {
            return Err(Refused::new(Why::Stopping, "this node stops"));
        }
        if incarnation != self.me.incarnation {
            return Err(Refused::new(Why::Other, "this node has begun a new life meanwhile"));
        }
        self.judge_plain(hello, key.id())?;
        self.check_protocol(hello)?;
        self.check_lineage(hello, key.id())?;
        match hello.lineage {
            Some(lineage) => self.adopt_lineage(lineage)?,
            // The peer would not know, and could take another one.
            None if lineage != self.lineage() => {
                return Err(Refused::new(Why::Other, "this node has joined a cluster meanwhile; try again"));
            }
            None => {}
        }
        let link = self.register(key, hello, purpose, rtt.is_some(), rtt);
        let theirs = hello.protocol.value(COPIES).unwrap_or(0);
        self.hear_copies(hello.copies_version, theirs);
        if theirs != u64::from(self.config.replicas) {
            // It may have changed since this node greeted.
            self.tell_copies(&link);
        }
        Ok(link)
    }

    /// Takes a connection over whose ends have agreed.
    fn register(
        &mut self,
        key: &PublicKey,
        hello: &Hello,
        purpose: Purpose,
        dialled: bool,
        rtt: Option<u32>,
    ) -> Rc<Link> {
        let peer = key.id();
        let bulk = purpose == Purpose::Bulk;
        self.next_link += 1;
        let addr = self.book.prove(peer, hello.incarnation, &hello.endpoints);
        self.lives.insert(peer, (hello.incarnation, hello.instance));
        let link = Link::new(Ends {
            serial: self.next_link,
            peer,
            incarnation: hello.incarnation,
            instance: hello.instance,
            addr,
            region: hello.region.clone(),
            bulk,
            dialled,
            rtt,
            now: self.now,
        });
        let me = self.me.identity.id();
        let old = self.links.entry(peer).or_default().slot(bulk).replace(link.clone());
        if let Some(old) = old {
            let same = old.incarnation == link.incarnation && old.instance == link.instance;
            let dialler = |link: &Link| if link.dialled { me } else { peer };
            if same && old.is_open() && dialler(&old) != dialler(&link) && dialler(&old) < dialler(&link) {
                // Both dialled at the same time: both keep the one that the lower id has opened.
                *self.links.entry(peer).or_default().slot(bulk) = Some(old);
                self.dismiss(&link, &Refused::new(Why::Orderly, "there is a connection already"));
            } else if same {
                self.dismiss(&old, &Refused::new(Why::Orderly, "there is a newer connection"));
            } else {
                let later = Some((link.incarnation, hello.endpoints.clone()));
                let text = "a later life of this node has come".into();
                self.dismiss(&old, &Refused { why: Why::Superseded, text, later });
            }
        }
        if self.links.len() > self.shares.links() {
            self.close_quietest();
        }
        link
    }

    /// Ends the connections with a peer that does not answer.
    pub(super) fn hang_up(&mut self, peer: Contact) {
        // Inside a process nothing is sent twice, so nothing waits behind it.
        if self.shell.upgrade().is_none_or(|shell| matches!(shell.network, Network::Memory(_))) {
            return;
        }
        for link in self.links.get(&peer.id).into_iter().flat_map(PeerLinks::all) {
            // Something may have come from it by another way than the answer to a probe.
            let silent = link.unheard.get().is_some_and(|since| self.now.since(since) >= SILENT);
            if link.incarnation <= peer.incarnation && silent {
                link.orderly.set(true);
                link.close(false);
            }
        }
    }

    fn close_quietest(&mut self) {
        let quietest = self.links.values().flat_map(PeerLinks::all).min_by_key(|link| link.used.get());
        if let Some(link) = quietest {
            self.dismiss(&link, &Refused::new(Why::Orderly, "too many connections"));
        }
    }

    /// Says a last word and closes a link when it has left.
    pub(super) fn dismiss(&mut self, link: &Rc<Link>, last: &Refused) {
        if !link.is_open() {
            return;
        }
        link.orderly.set(true);
        let queued = self.put_control(link, &Greeting::Refused(last.clone()));
        link.close(queued.is_some());
    }

    /// Queues a greeting over an open connection. Returns what [`Link::queue`] does.
    pub(super) fn put_control(&self, link: &Link, greeting: &Greeting) -> Option<bool> {
        let word = greeting.encode();
        link.queue(self.now, |out| {
            // As a frame with a mark of its own; without the length a greeting begins with.
            let word = &word[2..];
            let mut header = [0; HEADER];
            header[..4].copy_from_slice(&(word.len() as u32).to_be_bytes());
            header[4..6].copy_from_slice(CONTROL);
            out.extend_from_slice(&header);
            out.extend_from_slice(word);
        })
    }

    /// Handles a greeting over an open connection.
    pub(super) fn control(&mut self, link: &Rc<Link>, bytes: &[u8]) {
        let refused = match Greeting::decode(bytes) {
            Some(Greeting::Refused(refused)) => refused,
            Some(Greeting::Copies { version, count }) => return self.hear_copies(version, count),
            Some(Greeting::Seeking { peer }) => return self.seeks(link, peer),
            Some(Greeting::Hears { peer }) => return self.heard_by(link, peer),
            _ => return,
        };
        tracing::debug!(peer = %link.peer, why = refused.text, "a peer closes the connection");
        link.orderly.set(refused.why == Why::Orderly);
        self.was_refused(link.peer, &refused);
        // What we still have for it can not leave this way: the connection ends, and is opened again if needed.
        link.close(true);
    }

    /// Somebody does not want us.
    fn was_refused(&mut self, peer: NodeId, refused: &Refused) {
        if matches!(refused.why, Why::Superseded | Why::Twin)
            && let Some((incarnation, endpoints)) = refused.later.clone()
            && incarnation >= self.me.incarnation
            && !endpoints.is_empty()
            // Lives are counted by the clock; one that is far ahead of it is an invention.
            && u64::from(incarnation) < unix_ms() / 1000 + FAR_AHEAD
        {
            self.doubt_myself(incarnation, endpoints);
        }
        if matches!(refused.why, Why::Orderly | Why::Stopping)
            || refused.why == Why::Lineage && !self.is_news_of(peer)
        {
            return;
        }
        // A stranger at the address of a seed cannot end this node: the peer has proved an id that members told us.
        if refused.why == Why::Retired && self.book.find(peer).is_some() {
            return self.retired(self.me.identity.id());
        }
        tracing::warn!(%peer, why = refused.text, "a peer refuses this node");
        self.tell(What::Refused { peer: peer.to_string(), reason: refused.text.clone() });
    }

    fn turned_away(&mut self, peer: NodeId, refused: &Refused) {
        self.metrics.handshake_failed.inc();
        // Two rings that know each other would say it again and again.
        if refused.why == Why::Lineage && !self.is_news_of(peer) {
            return;
        }
        tracing::warn!(%peer, why = refused.text, "refused a node");
        self.tell(What::Refused { peer: peer.to_string(), reason: refused.text.clone() });
    }

    fn link_ended(&mut self, link: &Rc<Link>, end: &End) {
        if let Some(links) = self.links.get_mut(&link.peer) {
            let slot = links.slot(link.bulk);
            if slot.as_ref().is_none_or(|current| current.serial != link.serial) {
                return;
            }
            *slot = None;
            if links.count() == 0 {
                self.links.remove(&link.peer);
            }
        }
        tracing::trace!(peer = %link.peer, ?end, "connection ended");
        if !link.bulk && !link.orderly.get() && self.ending.is_none() {
            self.input(Input::Lost { peer: link.peer });
        }
    }
}
