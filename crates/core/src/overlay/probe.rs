//! Failure detection shared by the overlays: a peer is dead only if it does not answer this node's own probes.
//!
//! A peer that misses its first probe is *suspected*: it stays in the tables but messages go around it. Before the
//! last attempt a few other peers are asked to probe it too, since a broken path is not a dead node. The same probes
//! measure round trips and show that a node heard of second hand exists, before any table takes it in.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::contact::Contact;
use crate::edge::{Ctx, Event, Note, Refusal, Timer};
use crate::id::NodeId;
use crate::message::{Body, Nonce};
use crate::time::Time;

/// What a probe is for; several reasons may share one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Why(u8);

impl Why {
    /// Nothing is expected of it any more.
    const NOTHING: Why = Why(0);
    /// The peer is in a table: its silence means suspicion, then death.
    pub const WATCH: Why = Why(1);
    /// The peer belongs into the leaf set: a leaf probe is sent instead of a ping.
    pub const LEAF: Why = Why(2);
    /// The peer may be good for a table.
    pub const VET: Why = Why(4);
    /// The peer may be a nearby node to join through.
    pub const NEARBY: Why = Why(8);
    /// The peer became known by joining: announce when it enters the table.
    pub const JOIN: Why = Why(16);

    /// A side of the leaf set is empty, and the peer is on the way to whom we look for.
    pub const SEEK: Why = Why(32);
    /// The peer is known to belong to our left side.
    pub const LEFT: Why = Why(64);
    /// The peer is known to belong to our right side.
    pub const RIGHT: Why = Why(128);

    /// What only the answer to a leaf probe can settle.
    const ABOUT_LEAVES: Why = Why(2 | 32 | 64 | 128);

    /// Returns both reasons.
    pub const fn and(self, other: Why) -> Why {
        Why(self.0 | other.0)
    }

    /// Says whether one of the given reasons applies.
    pub const fn has(self, other: Why) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the part of the reasons that is among these.
    pub const fn only(self, other: Why) -> Why {
        Why(self.0 & other.0)
    }

    const fn without(self, other: Why) -> Why {
        Why(self.0 & !other.0)
    }
}

/// All open probes of a node, and whom it suspects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Prober {
    /// Sorted. First, since every routing decision looks whether there are any.
    suspects: Vec<NodeId>,
    /// By peer. A join has hundreds open at once, most of the time there is none.
    probes: BTreeMap<NodeId, Probe>,
    relays: Vec<Relay>,
    next: Nonce,
    /// When the timer is set to fire, if it is.
    armed: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Probe {
    peer: Contact,
    /// Attempt n carries nonce `first + n`, so that a late answer still counts and is timed right.
    first: Nonce,
    attempt: u8,
    first_sent: Time,
    sent: Time,
    deadline: Time,
    why: Why,
    /// Whether the latest attempt was one to a watched peer, so that others were asked before the last.
    watched: bool,
    /// Whether a ping was sent besides the leaf probe, so that its answer is expected, too.
    pinged: bool,
    /// Who was asked to look, too.
    relays: Vec<NodeId>,
}

/// A ping on behalf of another node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Relay {
    asker: Contact,
    theirs: Nonce,
    target: NodeId,
    mine: Nonce,
    until: Time,
}

/// Relayed pings open at once. They are rare and short; more would be somebody's mistake or mischief.
const RELAYS_MAX: usize = 32;

/// A peer has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// How long the answer took, if that is certain.
    pub rtt: Option<Duration>,
    /// What the probe was for.
    pub why: Why,
    /// Whether it was suspected until now.
    pub cleared: bool,
}

/// What is to be done about probes that are due.
#[derive(Debug, Default)]
pub struct Due {
    /// Send these probes again. The flag says that this is the last attempt.
    pub again: Vec<(Contact, Nonce, Why, bool)>,
    /// These peers never answered.
    pub failed: Vec<(Contact, Why)>,
}

impl Prober {
    /// Starts numbering at random, so that answers meant for an earlier life do not fit.
    pub fn seed(&mut self, cx: &mut Ctx<'_>) {
        self.next = cx.dice.roll() as Nonce;
    }

    /// Opens a probe and returns the nonce to send, or `None` if there is nothing to send: one is open already, or
    /// there are too many. The caller sends, because only it knows what a leaf probe carries.
    pub fn start(&mut self, peer: Contact, why: Why, wait: Duration, cx: &mut Ctx<'_>) -> Option<Nonce> {
        // What is known of the peer now is better than what a probe to another life or address of it could show.
        let fresh = |probe: &&mut Probe| probe.peer == peer && probe.why != Why::NOTHING;
        if let Some(probe) = self.probes.get_mut(&peer.id).filter(fresh) {
            // A ping may be on its way; a leaf probe goes out besides and is answered by the same nonce.
            let send = why.has(Why::LEAF) && !probe.why.has(Why::LEAF);
            probe.why = probe.why.and(why);
            probe.pinged |= !why.has(Why::LEAF);
            return send.then(|| probe.first.wrapping_add(probe.attempt.into()));
        }
        if self.probes.remove(&peer.id).is_none() && self.probes.len() >= cx.config.probes.into() {
            cx.refuse(Refusal::Full);
            return None;
        }
        let first = self.next;
        self.next = self.next.wrapping_add(8);
        let deadline = cx.now.after(wait);
        let pinged = !why.has(Why::LEAF);
        let relays = Vec::new();
        let probe = Probe {
            peer,
            first,
            attempt: 0,
            first_sent: cx.now,
            sent: cx.now,
            deadline,
            why,
            watched: why.has(Why::WATCH),
            pinged,
            relays,
        };
        self.probes.insert(peer.id, probe);
        self.arm(deadline, cx);
        Some(first)
    }

    /// What was sent to a peer has left only now: its answer is timed from here, and waited for from here.
    pub fn opened(&mut self, peer: NodeId, wait: Duration, cx: &mut Ctx<'_>) {
        let Some(probe) = self.probes.get_mut(&peer) else { return };
        if probe.attempt == 0 {
            probe.first_sent = cx.now;
        }
        probe.sent = cx.now;
        // Later than the timer is set for: it finds nothing due, and is set again.
        probe.deadline = probe.deadline.max(cx.now.after(wait));
    }

    /// A probe could not be sent: nobody listens there, or there is no way. No answer will come, so the next attempt need
    /// not wait for one; but others who are asked to look, too, need a moment.
    pub fn unsent(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        let soon = cx.now.after(cx.config.probe_timeout_min);
        if let Some(probe) = self.probes.get_mut(&peer).filter(|probe| soon < probe.deadline) {
            probe.deadline = soon;
            self.arm(soon, cx);
        }
    }

    /// Takes an answer. An answer by ping keeps a probe open whose leaf probe is still to be answered.
    pub fn answer(
        &mut self,
        from: NodeId,
        nonce: Nonce,
        by_leaf: bool,
        cx: &mut Ctx<'_>,
    ) -> Option<Answered> {
        let fits = |probe: &&mut Probe| {
            nonce.wrapping_sub(probe.first) <= Nonce::from(probe.attempt)
                // What is open for a late pong only has had its leaf reply.
                && !(by_leaf && probe.why == Why::NOTHING)
        };
        let probe = self.probes.get_mut(&from).filter(fits)?;
        let attempt = nonce.wrapping_sub(probe.first);
        let rtt = if attempt == Nonce::from(probe.attempt) {
            Some(cx.now.since(probe.sent))
        } else if attempt == 0 {
            Some(cx.now.since(probe.first_sent))
        } else {
            None
        };
        let why = probe.why;
        let (answered, left) = if by_leaf {
            (why, Why::NOTHING)
        } else if why.has(Why::LEAF) {
            (why.without(Why::ABOUT_LEAVES), why.only(Why::ABOUT_LEAVES.and(Why::JOIN)))
        } else {
            (why, Why::NOTHING)
        };
        probe.why = left;
        if by_leaf && probe.pinged {
            // Stay open for the answer to the ping, which is still to come and means nothing any more.
        } else if probe.why == Why::NOTHING {
            self.probes.remove(&from);
        } else {
            probe.pinged = false;
        }
        let cleared = self.clear(from);
        Some(Answered { rtt, why: answered, cleared })
    }

    /// Remembers who was asked to look, too: nobody else can vouch.
    pub fn asked_via(&mut self, target: NodeId, relay: NodeId) {
        if let Some(probe) = self.probes.get_mut(&target) {
            probe.relays.push(relay);
        }
    }

    /// Ends a probe whose peer was reached by another. Returns what it was for.
    pub fn answer_via(
        &mut self,
        relay: NodeId,
        target: NodeId,
        nonce: Nonce,
        cx: &mut Ctx<'_>,
    ) -> Option<(Contact, Why)> {
        let fits = |probe: &&Probe| {
            probe.relays.contains(&relay) && nonce.wrapping_sub(probe.first) <= Nonce::from(probe.attempt)
        };
        self.probes.get(&target).filter(fits)?;
        let probe = self.probes.remove(&target)?;
        // The peer is there, so the connection is not.
        cx.out.raise(Event::Unanswered(probe.peer));
        Some((probe.peer, probe.why))
    }

    /// Goes through the probes whose time is up.
    pub fn due(&mut self, wait: impl Fn(NodeId) -> Duration, cx: &mut Ctx<'_>) -> Due {
        let mut due = Due::default();
        let attempts = cx.config.probe_attempts;
        let mut suspects = Vec::new();
        self.probes.retain(|_, probe| {
            if probe.deadline > cx.now {
                return true;
            }
            if probe.why == Why::NOTHING {
                return false;
            }
            probe.attempt += 1;
            let watched = probe.why.has(Why::WATCH);
            // The last attempt to measure a node may be under way when its death becomes the question. Others have not been
            // asked then, so there is one more: without it, a leaf behind a broken link was taken for dead.
            if probe.attempt >= attempts && (probe.watched || !watched) {
                due.failed.push((probe.peer, probe.why));
                return false;
            }
            if watched {
                suspects.push(probe.peer);
            }
            probe.watched = watched;
            // A node that takes that long is not nearby: the search goes on without it.
            probe.why = probe.why.without(Why::NEARBY);
            probe.sent = cx.now;
            // Each attempt waits longer: what was lost to congestion is not helped by haste.
            probe.deadline = cx.now.after(wait(probe.peer.id) * (1 + u32::from(probe.attempt)));
            let nonce = probe.first.wrapping_add(probe.attempt.into());
            due.again.push((probe.peer, nonce, probe.why, probe.attempt + 1 >= attempts));
            true
        });
        for peer in suspects {
            self.suspect(peer, cx);
        }
        for (peer, _) in &due.failed {
            cx.out.raise(Event::Unanswered(*peer));
        }
        self.armed = None;
        if let Some(earliest) = self.probes.values().map(|probe| probe.deadline).min() {
            self.arm(earliest, cx);
        }
        due
    }

    fn arm(&mut self, deadline: Time, cx: &mut Ctx<'_>) {
        if self.armed.is_none_or(|armed| deadline < armed) {
            self.armed = Some(deadline);
            cx.set_timer(Timer::Probe, deadline.since(cx.now));
        }
    }

    /// Says whether a probe for one of these reasons is open.
    pub fn has_open(&self, why: Why) -> bool {
        self.probes.values().any(|probe| probe.why.has(why))
    }

    /// Says whether a search on this side is under way.
    pub fn is_seeking(&self, side: Why) -> bool {
        self.probes.values().any(|probe| probe.why.has(Why::SEEK) && probe.why.has(side))
    }

    /// Says whether a peer is being probed.
    pub fn is_open(&self, id: NodeId) -> bool {
        self.is_open_for(id, Why(u8::MAX))
    }

    /// Says whether a peer is being probed for one of these reasons.
    pub fn is_open_for(&self, id: NodeId, why: Why) -> bool {
        self.probes.get(&id).is_some_and(|probe| probe.why.has(why))
    }

    /// Returns the peers being probed for one of these reasons.
    pub fn open(&self, why: Why) -> impl Iterator<Item = NodeId> + '_ {
        self.probes.values().filter(move |probe| probe.why.has(why)).map(|probe| probe.peer.id)
    }

    /// Returns the nonce of the open probe of a peer.
    pub fn open_nonce(&self, peer: NodeId) -> Option<Nonce> {
        self.probes.get(&peer).map(|probe| probe.first)
    }

    /// Expects no answer any more: this node was stopped for so long that none would mean anything.
    pub fn close_all(&mut self) {
        self.probes.clear();
    }

    /// Ends all probes for one reason.
    pub fn drop_reason(&mut self, why: Why) {
        self.probes.retain(|_, probe| {
            probe.why = probe.why.without(why);
            probe.why != Why::NOTHING
        });
    }

    /// Forgets a peer altogether.
    pub fn forget(&mut self, id: NodeId) {
        self.probes.remove(&id);
        self.clear(id);
    }

    /// Doubts a peer. Returns whether that is new.
    pub fn suspect(&mut self, peer: Contact, cx: &mut Ctx<'_>) -> bool {
        match self.suspects.binary_search(&peer.id) {
            Ok(_) => false,
            Err(at) => {
                self.suspects.insert(at, peer.id);
                cx.note(Note::Suspected(peer));
                true
            }
        }
    }

    /// Ends doubts about a peer. Returns whether there were any.
    pub fn clear(&mut self, id: NodeId) -> bool {
        let found = self.suspects.binary_search(&id);
        found.map(|at| self.suspects.remove(at)).is_ok()
    }

    /// Returns whom this node doubts.
    pub fn suspects(&self) -> &[NodeId] {
        &self.suspects
    }

    /// Pings `target` for another node.
    pub fn relay(&mut self, asker: Contact, theirs: Nonce, target: Contact, cx: &mut Ctx<'_>) {
        self.relays.retain(|relay| relay.until > cx.now);
        if self.relays.len() >= RELAYS_MAX {
            cx.refuse(Refusal::Full);
            return;
        }
        let mine = self.next;
        self.next = self.next.wrapping_add(8);
        let until = cx.now.after(cx.config.probe_timeout_max * 4);
        self.relays.push(Relay { asker, theirs, target: target.id, mine, until });
        cx.send(target, Body::Ping(mine));
    }

    /// Passes the answer to a relayed ping on. Returns whether it was one.
    pub fn relayed(&mut self, from: NodeId, nonce: Nonce, cx: &mut Ctx<'_>) -> bool {
        let Some(at) = self.relays.iter().position(|relay| relay.target == from && relay.mine == nonce)
        else {
            return false;
        };
        let relay = self.relays.swap_remove(at);
        cx.send(relay.asker, Body::PongVia { nonce: relay.theirs, target: relay.target });
        true
    }

    /// Returns the heap memory held, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.probes.len() * size_of::<(NodeId, Probe)>()
            + self.relays.capacity() * size_of::<Relay>()
            + self.suspects.capacity() * size_of::<NodeId>()
    }

    /// Checks order and bounds.
    ///
    /// # Panics
    /// If one is broken: that is a mistake in this module.
    pub fn check_invariants(&self) {
        assert!(self.suspects.is_sorted());
        assert!(self.relays.len() <= RELAYS_MAX);
        assert!(self.probes.iter().all(|(id, probe)| *id == probe.peer.id));
    }
}
