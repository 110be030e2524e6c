//! Executes what a node wants done; the only match over `Output`.

use std::rc::Rc;
use std::time::Duration;

use kringle_core::contact::{Contact, Proximity};
use kringle_core::edge::{Dial, Event as CoreEvent, Input, Note, Output, Verdict};
use kringle_core::message::{App as Bytes, Body, Payload, Routed};
use kringle_core::overlay::Status;
use kringle_core::range::IdRange;
use kringle_core::wire;

use super::{Driver, NEVER, asks};
use crate::app::{AppError, Message};
use crate::describe;
use crate::report::What;
use crate::transport::link::Link;

/// Frames larger than this go over the connection for large ones.
const BULK: usize = 16 * 1024;
/// A question that is not answered within this time is not timed any more.
const TIMED: Duration = Duration::from_secs(5);

impl Driver {
    pub(super) fn execute(&mut self, output: Output) {
        match output {
            Output::Send { to, body, dial } => self.send(to, body, dial),
            Output::Forward { to, routed } => self.forward(to, *routed),
            Output::Deliver { routed, not_after } => self.deliver(*routed, not_after),
            Output::Measure { peer } => self.measure(peer),
            Output::SetTimer { timer, at } => self.timers[timer as usize] = at,
            Output::CancelTimer { timer } => self.timers[timer as usize] = NEVER,
            Output::Reply { request, reply } => {
                if let Some(waiting) = self.waiting.remove(&request) {
                    // Whoever asked may have stopped waiting.
                    let _ = waiting.send(reply);
                }
            }
            Output::Event(event) => self.event(event),
            Output::Persist { ticket, writes } => self.persist(ticket, writes),
            Output::Note(note) => self.note(note),
        }
    }

    pub(super) fn send(&mut self, to: Contact, body: Body, dial: Dial) {
        let bulk = is_large(&body);
        let Some(link) = self.link(to, bulk) else {
            return match dial {
                Dial::Never => self.soon.push_back(Input::Unsent { to, body }),
                Dial::IfNeeded => self.dial(to, bulk, body),
            };
        };
        if !self.put(&link, &body) {
            // A peer that does not read: as good as no connection.
            self.metrics.dropped.inc();
            self.soon.push_back(Input::Unsent { to, body });
        }
    }

    /// Writes a message into the queue of a link. `false`: there is no room.
    pub(super) fn put(&mut self, link: &Rc<Link>, body: &Body) -> bool {
        let (cluster, book) = (self.me.cluster_id(), &self.book);
        let Some(idle) = link.queue(self.now, |out| wire::encode(body, cluster, book, out)) else {
            return false;
        };
        if idle {
            self.dirty.push(link.clone());
        }
        if let Some(nonce) = asks(body)
            && link.timed.get().is_none_or(|(_, at)| self.now.since(at) > TIMED)
        {
            link.timed.set(Some((nonce, self.now)));
        }
        self.metrics.sent(body.kind());
        true
    }

    /// Asks the application for which a message is, then sends it on.
    fn forward(&mut self, to: Contact, mut routed: Routed) {
        let Payload::App(app) = &mut routed.payload else {
            return self.send(to, Body::Routed(routed), Dial::IfNeeded);
        };
        let Some((_, hook)) = self.apps.iter().find(|(purpose, _)| *purpose == app.purpose) else {
            return self.send(to, Body::Routed(routed), Dial::IfNeeded);
        };
        let mut message = Message {
            purpose: app.purpose,
            origin: routed.origin.id,
            hops: routed.hops,
            bytes: app.bytes.clone(),
        };
        let mut next = to.id;
        let hook = hook.clone();
        let hop = routed.hop;
        let goes_on = guarded(|| hook.forward(routed.key, &mut message, &mut next)).unwrap_or(true);
        if !goes_on {
            return self.soon.push_back(Input::Forwarded { hop, verdict: Verdict::Stop });
        }
        if message.bytes.len() > self.config.payload as usize {
            let _ = guarded(|| {
                hook.error(AppError::TooLarge { bytes: message.bytes.len(), limit: self.config.payload })
            });
            message.bytes.clone_from(&app.bytes);
        }
        let me = self.me.identity.id();
        let chosen = match self.node.routes().contact(next).filter(|contact| contact.id != me) {
            _ if next == to.id => to,
            Some(contact) => contact,
            None => {
                let _ = guarded(|| hook.error(AppError::UnknownHop(next)));
                to
            }
        };
        if chosen != to || message.bytes != app.bytes {
            app.bytes = message.bytes;
            let app = Bytes::clone(app);
            self.soon.push_back(Input::Forwarded { hop, verdict: Verdict::Changed { to: chosen, app } });
        }
        self.send(chosen, Body::Routed(routed), Dial::IfNeeded);
    }

    /// Nearness by region: the round trip, and more of it for a peer of another region.
    fn measure(&mut self, peer: Contact) {
        let Some(link) = self.link(peer, false) else { return self.dial_to_measure(peer) };
        if let Some(proximity) = self.distance(&link) {
            self.soon.push_back(Input::Measured { peer: peer.id, proximity });
        }
    }

    /// How far the peer at the other end of a link is, if a round trip has been seen.
    pub(super) fn distance(&self, link: &Link) -> Option<Proximity> {
        let foreign = self.about.region != link.region;
        let factor = if foreign { self.me.region_factor } else { 1 };
        link.rtt.get().map(|rtt| Proximity(rtt.saturating_mul(factor).min(u32::MAX - 1)))
    }

    fn event(&mut self, event: CoreEvent) {
        let ends = |range| match range {
            IdRange::Arc { start, end } => Some((start.to_string(), end.to_string())),
            IdRange::Empty | IdRange::Full => None,
        };
        let what = match event {
            CoreEvent::StatusChanged(status) => {
                self.status_changed(status);
                Some(What::Status { status: describe::status_text(status).into() })
            }
            CoreEvent::PeerUp(peer) => {
                self.joined.push(peer.id);
                self.met(peer);
                Some(What::PeerUp { peer: peer.id.to_string() })
            }
            CoreEvent::PeerDown(peer) => {
                self.left.push(peer.id);
                Some(What::PeerDown { peer: peer.id.to_string() })
            }
            CoreEvent::RangeGained(range) => ends(range).map(|(from, to)| What::RangeGained { from, to }),
            CoreEvent::RangeLost(range) => ends(range).map(|(from, to)| What::RangeLost { from, to }),
            CoreEvent::NeighboursChanged
            | CoreEvent::Settled(_)
            | CoreEvent::PeerDied(_)
            | CoreEvent::PeerLives(_) => None,
            CoreEvent::Unanswered(peer) => {
                self.hang_up(peer);
                None
            }
            CoreEvent::StoreOutdated => {
                self.store_outdated = true;
                None
            }
            CoreEvent::Retired(id) => {
                self.retired(id);
                None
            }
        };
        if let Some(what) = what {
            self.tell(what);
        }
    }

    fn status_changed(&mut self, status: Status) {
        tracing::debug!(status = describe::status_text(status), "status");
        self.ready.send_if_modified(|ready| {
            let before = std::mem::replace(ready, status == Status::Ready);
            before != *ready
        });
    }

    fn note(&mut self, note: Note) {
        self.metrics.note(note);
        let what = match note {
            Note::Suspected(peer) => What::Suspected { peer: peer.id.to_string() },
            Note::Cleared(peer) => What::Cleared { peer: peer.id.to_string() },
            Note::Died(peer) => What::Died { peer: peer.id.to_string() },
            Note::LeasesOverdue => {
                for (_, app) in &self.apps {
                    let _ = guarded(|| app.error(AppError::LeasesOverdue));
                }
                What::LeasesOverdue
            }
            _ => return,
        };
        self.tell(what);
    }
}

/// Calls an application. One that panics loses this call; the node goes on for the others.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Option<T> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    done.inspect_err(|_| tracing::error!("an application panicked")).ok()
}

/// Says whether a message is so large that it must not stand in front of others.
fn is_large(body: &Body) -> bool {
    match body {
        Body::Routed(Routed { payload: Payload::App(app) | Payload::Direct(app), .. }) => {
            app.bytes.len() > BULK
        }
        Body::Receipt(receipt) => match &receipt.outcome {
            kringle_core::message::Outcome::Delivered(Some(bytes)) => bytes.len() > BULK,
            _ => false,
        },
        Body::Store(packet) => packet.message.weight() > BULK,
        _ => false,
    }
}
