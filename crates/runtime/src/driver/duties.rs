//! What a node does every now and then: it remembers its peers, closes what is not used, and gives up on whoever does
//! not read. And what it does once: leave, and deal in tokens.

use std::rc::Rc;
use std::time::Duration;

use kringle_core::contact::Contact;
use kringle_core::edge::{Command, Failure, Reply};
use kringle_core::id::NodeId;
use kringle_core::overlay::Status;
use kringle_core::time::Time;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use super::{Driver, PeerLinks, Shell};
use crate::clock::unix_ms;
use crate::handle::{Chore, Ending};
use crate::home::Remembered;
use crate::identity::book::TokenState;
use crate::readiness::clock_text;
use crate::report::TokenReport;
use crate::transport::hello::{Refused, Why};
use crate::transport::link::Link;

/// What a node is told that was retired.
pub(super) const RETIRED: &str =
    "this id was retired with `kringle leave ID --dead`: start with another data directory";
/// Peers that are written down as soon as they are met.
const ACQUAINTED: usize = 16;
/// How often the rounds are made.
const ROUND: Duration = Duration::from_secs(5);
/// A node that has not been part of a ring for so long looks at its seeds again.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// A connection over which nothing was said for so long is closed.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// A peer that has not read a byte, or not answered, for so long is given up.
const STUCK: Duration = Duration::from_secs(15);

impl Shell {
    pub(super) async fn do_duties(self: Rc<Shell>) {
        let mut ready_at = Instant::now();
        loop {
            sleep(ROUND).await;
            if self.driver.borrow().node.status() == Status::Ready {
                ready_at = Instant::now();
            } else if ready_at.elapsed() > LOOK_AGAIN {
                // Those we know may have moved, and a name may lead to others by now.
                ready_at = Instant::now();
                spawn_local(self.clone().look_again());
            }
            self.enter(|driver| {
                driver.sweep();
                driver.leave_relays();
                driver.watch_clock();
                driver.remember();
                let node = &driver.node;
                driver.book.trim(|id| node.routes().contact(id).is_some());
            });
        }
    }
}

impl Driver {
    /// Closes connections that are not used, or can not be.
    fn sweep(&mut self) {
        let links: Vec<Rc<Link>> = self.links.values().flat_map(PeerLinks::all).collect();
        for link in links {
            let long = |since: Option<Time>| since.is_some_and(|since| self.now.since(since) > STUCK);
            // What goes over the second connection of a peer is answered over the first.
            if long(link.stuck.get()) || !link.bulk && long(link.unheard.get()) {
                link.close(false);
                self.metrics.dropped.inc();
            } else if self.now.since(link.used.get()) > IDLE {
                self.metrics.idle_closed.inc();
                self.dismiss(&link, &Refused::new(Why::Orderly, "nothing was said for long"));
            }
        }
        // Lives of peers that are gone for good would add up over years.
        if self.lives.len() > 65_536 {
            let links = &self.links;
            self.lives.retain(|peer, _| links.contains_key(peer));
        }
    }

    /// Says in the log when the wall clock is off, and when it is right again.
    fn watch_clock(&mut self) {
        let Some(store) = self.node.store() else { return };
        let clock = store.clock_view(self.now, unix_ms());
        let limit = i64::try_from(self.config.clock_ahead.as_millis()).unwrap_or(i64::MAX);
        // With two nodes it cannot be said which clock is wrong; it can be said that they differ.
        let off = clock.off.unwrap_or(clock.ahead);
        let wrong = clock.settled && off.abs() > limit;
        if wrong != std::mem::replace(&mut self.clock_off, wrong) {
            match wrong {
                true => tracing::warn!(offset_ms = off, "{}", clock_text(off, clock.clocks)),
                false => tracing::info!(offset_ms = off, "the wall clock agrees with the other clocks again"),
            }
        }
    }

    /// A node was retired for good.
    pub(super) fn retired(&mut self, id: NodeId) {
        if id == self.node.me().id {
            return self.finish(Ending::Retired);
        }
        tracing::warn!(node = %id, "a node was retired for good; it is refused if it comes back");
        let links: Vec<Rc<Link>> = self.links.get(&id).into_iter().flat_map(PeerLinks::all).collect();
        for link in links {
            self.dismiss(&link, &Refused::new(Why::Retired, RETIRED));
        }
    }

    /// Writes down whom this node knows, if that has changed.
    pub(super) fn remember(&mut self) {
        self.note_lineage();
        if self.node.status() != Status::Ready {
            return;
        }
        // Those beside it first: they are the ring.
        let overlay = self.node.overlay();
        let beside: Vec<Contact> = match overlay.as_pastry() {
            Some(pastry) => pastry.router().leaf_set().members().to_vec(),
            None => self.node.routes().neighbours(),
        };
        let cells = overlay.as_pastry().map(|pastry| pastry.router().table().holders());
        let cells = cells.into_iter().flatten().map(|entry| entry.contact);
        let fingers = overlay.as_chord().map_or(&[][..], |chord| chord.fingers());
        let fingers = fingers.iter().map(|finger| finger.node);
        let mut known: Vec<Remembered> = Vec::new();
        for contact in beside.into_iter().chain(cells).chain(fingers) {
            if known.len() < crate::home::REMEMBERED_MAX && !known.iter().any(|peer| peer.id == contact.id) {
                let endpoints = self.book.get(contact.addr).to_vec();
                known.push(Remembered { id: contact.id, incarnation: contact.incarnation, endpoints });
            }
        }
        if known.is_empty() {
            return;
        }
        self.write_peers(&known);
        self.has_peers();
    }

    fn write_peers(&mut self, known: &[Remembered]) {
        let Some(home) = &self.home else { return };
        let mut hasher = blake3::Hasher::new();
        for peer in known {
            hasher.update(&peer.id.to_bytes()).update(&peer.incarnation.to_be_bytes());
            peer.endpoints.iter().for_each(|endpoint| {
                hasher.update(endpoint.to_string().as_bytes());
            });
        }
        let mut digest = [0; 8];
        hasher.finalize_xof().fill(&mut digest);
        let digest = u64::from_be_bytes(digest);
        if std::mem::replace(&mut self.remembered, digest) != digest
            && let Err(error) = home.set_peers(known)
        {
            tracing::warn!(%error, "cannot remember peers");
        }
    }

    /// Another node is in the ring. The first few are written down at once: if all nodes lose power now, each must find
    /// those it shares slots with.
    pub(super) fn met(&mut self, peer: Contact) {
        let known = self.met.iter().any(|known| known.id == peer.id);
        if !known && self.met.len() < ACQUAINTED {
            let endpoints = self.book.get(peer.addr).to_vec();
            self.met.push(Remembered { id: peer.id, incarnation: peer.incarnation, endpoints });
            let met = std::mem::take(&mut self.met);
            self.write_peers(&met);
            self.met = met;
        }
        self.has_peers();
    }

    /// From now on this identity has been part of a ring. On disk before anything is promised to anybody: the next life
    /// has to know that there may be promises.
    fn has_peers(&mut self) {
        if !std::mem::replace(&mut self.had_peers, true) {
            self.save_membership();
        }
    }

    /// Says goodbye, then ends.
    pub(super) fn leave(&mut self, reply: oneshot::Sender<Result<Reply, Failure>>) {
        let (left, has_left) = oneshot::channel();
        self.command(Command::Leave, left);
        let Some(shell) = self.shell.upgrade() else { return };
        spawn_local(async move {
            let answer = has_left.await.unwrap_or(Err(Failure::Ended));
            let done = matches!(answer, Ok(Reply::Left) | Err(Failure::NotJoined));
            shell.enter(|driver| {
                if done {
                    driver.forget_peers();
                    driver.finish(Ending::Left);
                }
            });
            let _ = reply.send(if done { Ok(Reply::Left) } else { answer });
        });
    }

    /// Whoever has left does not look for its old ring when it is started again.
    fn forget_peers(&mut self) {
        if let Some(home) = &self.home
            && let Err(error) = home.set_peers(&[])
        {
            tracing::warn!(%error, "cannot forget peers");
        }
    }

    pub(super) fn token(&mut self, chore: Chore) {
        match chore {
            Chore::Issue { lifetime, reply } => {
                let answer = match &self.me.cluster {
                    Some(cluster) if cluster.is_open() => {
                        Err("this cluster is open: whoever reaches it can join without a token".into())
                    }
                    Some(cluster) if cluster.can_certify() => self
                        .me
                        .tokens
                        .issue(lifetime, unix_ms() / 1000)
                        .map(|token| token.text())
                        .map_err(|error| error.to_string()),
                    _ => Err("this node does not hold the cluster's secret; ask one that does".into()),
                };
                let _ = reply.send(answer);
            }
            Chore::List { reply } => {
                let tokens = self.me.tokens.list().into_iter();
                let report = tokens.map(|token| TokenReport {
                    id: token.id,
                    expires: token.expires,
                    state: match token.state {
                        TokenState::Open => "open",
                        TokenState::Used => "used",
                        TokenState::Revoked => "revoked",
                    }
                    .into(),
                });
                let _ = reply.send(report.collect());
            }
            Chore::Revoke { id, reply } => {
                let answer = match self.me.tokens.revoke(&id) {
                    Ok(()) => Ok(true),
                    Err(crate::identity::token::TokenError::NotOnRecord) => Ok(false),
                    Err(error) => Err(error.to_string()),
                };
                let _ = reply.send(answer);
            }
        }
    }
}
