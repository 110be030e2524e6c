//! Relays: two nodes that cannot reach each other talk through a third.
//!
//! A node that cannot reach a peer asks some of the nodes it is connected with whether they hear that peer. The first that
//! says yes becomes the relay: it is dialled a second time, connects to the peer and copies bytes both ways. The two ends prove their keys to each other through it, so it can neither read nor change what it carries, and to
//! the peer this is a connection like any other. What travels that way is only slower.
//!
//! Without a common neighbour everything stays as it was. A relay carries no relayed connection further.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use kringle_core::edge::Input;
use kringle_core::id::NodeId;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::peers::{DialError, HANDSHAKE, Proved, SILENT, connect, prepare};
use super::{Driver, Network, Shell};
use crate::transport::hello::{Greeting, Purpose, Refused, Why};
use crate::transport::link::Link;
use crate::transport::stream::Stream;

/// How long a peer may take to accept a connection before others are asked whether they hear it.
pub(super) const DIRECT_ALONE: Duration = Duration::from_millis(300);
/// How many are asked, and how long their answers count.
const ASKED: usize = 4;
const ANSWERED: Duration = Duration::from_secs(2);
/// Peers that may be sought at a time.
const SOUGHT_MAX: usize = 64;
/// Connections of others that one node carries at a time.
const RELAYS_MAX: usize = 16;
/// How long the third node tries to reach the peer.
const REACH: Duration = Duration::from_secs(2);
/// A relayed connection ends after this; its ends try the direct way before they ask for another.
const LIFE: Duration = Duration::from_secs(15 * 60);

// The end that cannot reach a peer.
impl Driver {
    /// Asks those nearest to a peer whether they hear it.
    pub(super) fn seek(&mut self, peer: NodeId, bulk: bool) {
        let now = self.now;
        self.sought.retain(|_, asked| now.since(*asked) < ANSWERED);
        if self.sought.len() >= SOUGHT_MAX || self.sought.contains_key(&(peer, bulk)) {
            return;
        }
        self.sought.insert((peer, bulk), now);
        let mut via: Vec<Rc<Link>> = self.links.values().filter_map(|links| links.main()).collect();
        via.retain(|link| link.peer != peer && self.hears(link));
        via.sort_by_key(|link| (link.peer.distance(peer), link.peer));
        for link in via.into_iter().take(ASKED) {
            self.say(&link, &Greeting::Seeking { peer });
        }
    }

    /// A neighbour hears a peer that was sought.
    pub(super) fn heard_by(&mut self, via: &Rc<Link>, peer: NodeId) {
        for bulk in [false, true] {
            let asked = self.sought.remove(&(peer, bulk));
            let is_open = self.links.get(&peer).is_some_and(|links| links.is_open(bulk));
            if asked.is_none_or(|asked| self.now.since(asked) >= ANSWERED) || is_open {
                continue;
            }
            let Some(shell) = self.shell.upgrade() else { return };
            let endpoints = self.book.get(via.addr).to_vec();
            spawn_local(shell.open_by_relay(peer, bulk, via.peer, endpoints));
        }
    }

    /// A relayed connection is open, or is not.
    fn relayed(&mut self, peer: NodeId, bulk: bool, via: NodeId, opened: Result<Rc<Link>, DialError>) {
        let link = match opened {
            Ok(link) => link,
            Err(error) => return tracing::debug!(%peer, %via, %error, "cannot reach a peer through a relay"),
        };
        tracing::info!(%peer, %via, "a peer that cannot be reached is reached through another");
        link.via.set(Some(via));
        self.metrics.by_relay.inc();
        if self.dialling.contains_key(&(peer, bulk)) {
            self.dialled(peer, bulk, Ok(link));
        } else if !bulk {
            self.input(Input::Opened { peer });
            self.tell_distance(&link);
        }
    }

    /// Tries the direct way to peers that are reached through others.
    pub(super) fn leave_relays(&mut self) {
        let relayed = self.links.values().flat_map(super::peers::PeerLinks::all);
        let relayed: Vec<Rc<Link>> =
            relayed.filter(|link| link.is_open() && link.via.get().is_some()).collect();
        for link in relayed {
            let Some(shell) = self.shell.upgrade() else { return };
            let endpoints = self.book.get(link.addr).to_vec();
            // If it opens, it takes the place of the relayed one.
            spawn_local(async move { shell.open(endpoints, Some(link.peer), purpose(link.bulk)).await });
        }
    }

    /// Says whether something came from a peer of late, and not through another.
    fn hears(&self, link: &Link) -> bool {
        let silent = link.unheard.get().is_some_and(|since| self.now.since(since) >= SILENT);
        link.is_open() && link.via.get().is_none() && !silent
    }

    fn say(&mut self, link: &Rc<Link>, greeting: &Greeting) {
        if self.put_control(link, greeting) == Some(true) {
            self.dirty.push(link.clone());
        }
    }
}

impl Shell {
    async fn open_by_relay(
        self: Rc<Shell>,
        peer: NodeId,
        bulk: bool,
        via: NodeId,
        endpoints: Vec<SocketAddr>,
    ) {
        let opening = self.reach_by_relay(peer, bulk, via, endpoints);
        let opened = timeout(HANDSHAKE, opening).await;
        let opened = opened.unwrap_or_else(|_| Err(DialError::Unreachable("no greeting in time".into())));
        self.enter(|driver| driver.relayed(peer, bulk, via, opened));
    }

    async fn reach_by_relay(
        self: &Rc<Shell>,
        peer: NodeId,
        bulk: bool,
        via: NodeId,
        endpoints: Vec<SocketAddr>,
    ) -> Result<Rc<Link>, DialError> {
        let Network::Tls(tls) = &self.network else {
            return Err(DialError::Unreachable("inside a process there is nothing to relay".into()));
        };
        let mut last = DialError::Unreachable("no address is known".into());
        for to in endpoints {
            let Proved { mut stream, admit, .. } = match self.reach(to, Some(via)).await {
                Ok(proved) => proved,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            let mut hello = self.driver.borrow().hello(Purpose::Relay, via);
            hello.relay = Some(peer);
            Greeting::Hello(Box::new(hello)).write(&mut stream).await?;
            match Greeting::read(&mut stream).await? {
                // It is not trusted with anything: the peer proves its key itself.
                Greeting::Hello(_) => {}
                Greeting::Refused(refused) => return Err(DialError::Refused(refused)),
                _ => return Err(DialError::Unreachable("an answer out of turn".into())),
            }
            Greeting::Agreed.write(&mut stream).await?;
            if let Some(admit) = admit {
                admit.set(0);
            }
            let (stream, key) = tls.connect(stream, Some(peer)).await?;
            let proved = Proved { stream: Stream::Relayed(Box::new(stream)), key, admit: None };
            return self.greet(proved, purpose(bulk)).await;
        }
        Err(last)
    }
}

// The node in between.
impl Driver {
    /// A peer asks whether this node hears another one.
    pub(super) fn seeks(&mut self, asker: &Rc<Link>, peer: NodeId) {
        let link = self.links.get(&peer).and_then(|links| links.main());
        if link.is_some_and(|link| self.hears(&link)) && self.may_relay() {
            self.say(asker, &Greeting::Hears { peer });
        }
    }

    fn may_relay(&self) -> bool {
        // Each needs two descriptors.
        Rc::strong_count(&self.relays) <= RELAYS_MAX.min(self.shares.peers / 8)
    }

    /// Says where a peer listens to which a connection is to be carried.
    fn relay_to(&self, peer: Option<NodeId>) -> Result<Vec<SocketAddr>, Refused> {
        let link = peer.and_then(|peer| self.links.get(&peer)?.main()).filter(|link| self.hears(link));
        match link {
            _ if !self.may_relay() => {
                Err(Refused::new(Why::Other, "too many connections are carried already"))
            }
            Some(link) => Ok(self.book.get(link.addr).to_vec()),
            None => Err(Refused::new(Why::Other, "that node is not heard here")),
        }
    }
}

impl Shell {
    /// As the relay: connects to the peer that the asking node cannot reach.
    pub(super) async fn reach_for(&self, peer: Option<NodeId>) -> Result<TcpStream, Refused> {
        let endpoints = self.driver.borrow().relay_to(peer)?;
        for to in endpoints {
            if let Ok(Ok(socket)) = timeout(REACH, connect(to)).await
                && prepare(&socket).is_ok()
            {
                return Ok(socket);
            }
        }
        Err(Refused::new(Why::Other, "that node cannot be reached from here"))
    }

    /// Copies what comes from either side until one ends, or this node does.
    pub(super) fn carry(&self, mut stream: Stream, mut socket: TcpStream) {
        let driver = self.driver.borrow();
        let (place, carried) = (driver.relays.clone(), driver.metrics.relayed_bytes.clone());
        let mut ended = driver.ended.subscribe();
        driver.metrics.relayed.inc();
        spawn_local(async move {
            tokio::select! {
                done = timeout(LIFE, copy_bidirectional(&mut stream, &mut socket)) => {
                    if let Ok(Ok((there, back))) = done {
                        carried.inc_by(there + back);
                    }
                }
                // The process may go on without this node.
                _ = ended.wait_for(Option::is_some) => {}
            }
            drop(place);
        });
    }
}

fn purpose(bulk: bool) -> Purpose {
    if bulk { Purpose::Bulk } else { Purpose::Peer }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kringle_core::config::Settings;
    use tokio::time::{sleep, timeout};

    use super::super::testing::{enter, run};
    use super::*;
    use crate::transport::mem::Hub;
    use crate::{Builder, Handle, Seed};

    async fn ring(count: usize, hub: Option<&Hub>) -> Vec<Handle> {
        let mut nodes: Vec<Handle> = Vec::new();
        for _ in 0..count {
            let seed = nodes.first().map(|seed| Seed::Address(seed.info().bound[0]));
            let builder = Builder::new("t").settings(Settings::demo()).join(seed);
            let builder = match hub {
                Some(hub) => builder.memory(hub),
                None => builder,
            };
            nodes.push(builder.start_here().await.unwrap());
        }
        for node in &nodes {
            timeout(Duration::from_secs(20), node.ready()).await.expect("in time").unwrap();
        }
        nodes
    }

    #[test]
    fn a_relay_at_its_limit_refuses_and_does_not_offer_itself() {
        run(async {
            let nodes = ring(2, Some(&Hub::new())).await;
            let peer = nodes[1].id();
            enter(&nodes[0], move |driver| {
                let limit = RELAYS_MAX.min(driver.shares.peers / 8);
                let mut carried: Vec<Rc<()>> = (1..limit).map(|_| driver.relays.clone()).collect();
                assert!(driver.may_relay() && driver.relay_to(Some(peer)).is_ok(), "one more");
                carried.push(driver.relays.clone());
                let refused = driver.relay_to(Some(peer)).unwrap_err();
                assert!(refused.text.contains("too many"), "{}", refused.text);
                assert!(!driver.may_relay());
                carried.pop();
                assert!(driver.relay_to(Some(peer)).is_ok(), "a place is free again");
            })
            .await;
        });
    }

    /// Neither of two nodes reaches the other directly any more, and their connection ends.
    async fn cut(one: &Handle, other: &Handle) {
        for (at, to) in [(one, other), (other, one)] {
            let (peer, addresses) = (to.id(), to.info().bound.clone());
            enter(at, move |driver| {
                driver.shell.upgrade().unwrap().unreachable.borrow_mut().extend(addresses);
                driver
                    .links
                    .get(&peer)
                    .into_iter()
                    .flat_map(|links| links.all())
                    .for_each(|link| link.close(false));
            })
            .await;
        }
    }

    /// Waits until one of two nodes that are cut reaches the other, and returns through which node.
    async fn relay_between(one: &Handle, other: &Handle) -> NodeId {
        for _ in 0..2_000 {
            for (at, to) in [(one, other), (other, one)] {
                let peers = at.peers().await.unwrap();
                let via =
                    peers.into_iter().find(|peer| peer.id == to.id().to_string()).and_then(|peer| peer.via);
                if let Some(via) = via {
                    return via.parse().unwrap();
                }
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("the two never reach each other through a relay");
    }

    #[test]
    fn peers_name_the_relay_and_another_takes_over_when_it_is_killed() {
        run(async {
            let nodes = ring(4, None).await;
            cut(&nodes[0], &nodes[1]).await;
            let first = relay_between(&nodes[0], &nodes[1]).await;
            let relay = nodes[2..].iter().find(|node| node.id() == first).expect("one of the other two");
            relay.kill().await;
            for _ in 0..2_000 {
                let now = relay_between(&nodes[0], &nodes[1]).await;
                if now != first {
                    return assert!(nodes[2..].iter().any(|node| node.id() == now));
                }
                sleep(Duration::from_millis(10)).await;
            }
            panic!("the two never find another relay");
        });
    }
}
