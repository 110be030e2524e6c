//! Key-based routing: who is responsible for a key, and which peer is the next step there.
//!
//! [`Overlay`] states what every overlay must answer and how it is driven; [`AnyOverlay`] is the closed list of those
//! there are. Services on top see the overlay only through [`Routes`]. What all overlays must show in a ring of many
//! nodes is written once, as the conformance suite of the simulator crate.

mod budget;
pub mod chord;
#[cfg(any(test, feature = "fake"))]
pub mod echo;
pub mod pastry;
pub mod probe;
pub mod proximity;
pub mod timing;

use alloc::vec::Vec;
use core::time::Duration;

use self::timing::Timing;
use crate::config::Config;
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, RequestId, Timer};
use crate::id::{Closeness, Key, NodeId};
use crate::message::{Body, HopAck, Nonce, Routed, Rule, Stage};
use crate::range::IdRange;
use crate::time::Time;

/// How far a node has come into a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Not part of a ring.
    Out,
    /// Looking for its place; no peer may count on it yet.
    Joining,
    /// Has its place and makes itself known to its neighbours. Messages that come early are kept.
    Waiting,
    /// Its neighbours know it; it waits for their leases.
    Ok,
    /// Part of the ring; delivers for its range while it is entitled to.
    Ready,
    /// Said goodbye; passes on what it has in hand.
    Leaving,
    /// Had peers and lost them all; looks for its ring.
    Isolated,
}

/// Where a message for a key goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextHop {
    /// This node is responsible.
    Here,
    /// To this peer, for this reason.
    Peer(Contact, Rule),
    /// The peer it should go to is in doubt: keep the message until that is settled.
    Wait,
    /// This node does not route: it is not, or no longer, part of a ring.
    NotReady,
}

/// What every overlay can be asked and told. `node.rs` is the only caller.
pub trait Overlay {
    /// Returns this node.
    fn me(&self) -> Contact;

    /// Returns how far it has come.
    fn status(&self) -> Status;

    /// Decides where a message goes. Nodes in `avoid`, and those the overlay itself doubts, are left out; a node
    /// equal to `ignore` is treated as if it were not known at all.
    fn next_hop(&self, key: Key, stage: Stage, avoid: &[NodeId], ignore: Option<NodeId>) -> NextHop;

    /// Says until when this node may deliver keys that are [`NextHop::Here`]; `None`: not now.
    fn entitled(&self, now: Time, config: &Config) -> Option<Time>;

    /// Says whether this node was stopped for long and has only just gone on: what reaches it now may have waited, and
    /// whoever sent it has found another way.
    fn is_waking(&self, now: Time) -> bool;

    /// Says whether delivering depends on time at all.
    fn has_leases(&self) -> bool;

    /// Returns the `n` nodes that should hold a key, nearest first, as far as this node can tell.
    fn replicas(&self, key: Key, n: usize) -> Vec<Contact>;

    /// Says whether this node can tell: those beside it are those around the key.
    fn covers(&self, key: Key) -> bool;

    /// Ranks nodes as [`Self::replicas`] does: whoever answers for the key comes first.
    fn rank(&self, key: Key, node: NodeId) -> Closeness;

    /// Returns the part of the ring this node answers for right now.
    fn range(&self) -> IdRange;

    /// Returns the peers beside this node.
    fn neighbours(&self) -> Vec<Contact>;

    /// Returns how a node is reached, if it is in the tables.
    fn contact(&self, id: NodeId) -> Option<Contact>;

    /// Returns how near a peer is, if that was measured.
    fn proximity(&self, peer: NodeId, cx: &Ctx<'_>) -> Option<Proximity>;

    /// Returns what this node has learnt about round trips.
    fn timing(&self) -> Timing;

    /// Starts a ring of one.
    fn create(&mut self, request: RequestId, cx: &mut Ctx<'_>);

    /// Joins the ring of these nodes, or comes back to it.
    fn join(&mut self, request: RequestId, seeds: Vec<Contact>, back: bool, cx: &mut Ctx<'_>);

    /// Looks for another ring behind these nodes.
    fn meet(&mut self, request: RequestId, peers: Vec<Contact>, cx: &mut Ctx<'_>);

    /// Says goodbye.
    fn leave(&mut self, request: RequestId, cx: &mut Ctx<'_>);

    /// Takes note of the proved sender of any message. `false`: ignore that message.
    fn on_heard(&mut self, from: Contact, cx: &mut Ctx<'_>) -> bool;

    /// A node was retired: it never comes back, whatever it agreed to.
    fn on_retired(&mut self, _id: NodeId, _cx: &mut Ctx<'_>) {}

    /// A message was ignored because its sender's id is known as somebody else's. If it wants to join, it should know.
    fn on_twin(&mut self, from: Contact, body: &Body, cx: &mut Ctx<'_>);

    /// Handles one of the overlay's own messages, or a probe.
    fn handle(&mut self, from: Contact, body: Body, cx: &mut Ctx<'_>);

    /// Handles a timer of the overlay.
    fn on_timer(&mut self, timer: Timer, cx: &mut Ctx<'_>);

    /// A peer did not acknowledge a message in time, or could not be dialled.
    fn on_silent(&mut self, peer: Contact, cx: &mut Ctx<'_>);

    /// A join of this node could not even be handed to the network.
    fn on_join_unsent(&mut self, to: Contact, nonce: Nonce, cx: &mut Ctx<'_>);

    /// A connection to a peer has been opened.
    fn on_opened(&mut self, peer: NodeId, cx: &mut Ctx<'_>);

    /// A service heard from a peer, which the overlay may take for dead.
    fn on_met(&mut self, peer: Contact, cx: &mut Ctx<'_>);

    /// The connection to a peer broke.
    fn on_lost(&mut self, peer: NodeId, cx: &mut Ctx<'_>);

    /// A peer acknowledged a message. How long that took, if it is worth knowing.
    fn on_answered(&mut self, peer: Contact, rtt: Option<Duration>, cx: &mut Ctx<'_>);

    /// A probe could not even be handed to the network.
    fn on_probe_unsent(&mut self, peer: NodeId, cx: &mut Ctx<'_>);

    /// A hop acknowledgement for a message that was sent outside the usual way. `false`: not ours.
    fn on_ack(&mut self, from: Contact, ack: &HopAck, cx: &mut Ctx<'_>) -> bool;

    /// A hop named a better next hop than itself.
    fn on_better_hop(&mut self, better: Contact, cx: &mut Ctx<'_>);

    /// Returns a better next hop for a key than this node was, for the peer that sent a message here.
    fn better_hop(&self, sender: NodeId, key: Key) -> Option<Contact>;

    /// Adds to a message of the overlay that passes through.
    fn pass(&mut self, routed: &mut Routed, cx: &mut Ctx<'_>);

    /// A lookup that the overlay itself sent out has found a node. `false`: it was not the overlay's.
    fn on_found(&mut self, serial: u32, root: Contact, cx: &mut Ctx<'_>) -> bool;

    /// Handles a message of the overlay that has come to its end here.
    fn arrive(&mut self, routed: Routed, cx: &mut Ctx<'_>);

    /// The application has measured a peer.
    fn on_measured(&mut self, peer: NodeId, proximity: Proximity, cx: &mut Ctx<'_>);

    /// Checks what must always hold inside this node. Called after every input in tests and simulations.
    ///
    /// # Panics
    /// If something does not hold: a mistake of ours.
    fn check_invariants(&self);

    /// Returns the heap memory held, by part, in bytes.
    fn memory(&self) -> Memory;
}

/// Heap bytes of a node's overlay state, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Memory {
    /// Leaf set and the holders of the routing table.
    pub tables: usize,
    /// Spares of the routing table.
    pub spares: usize,
    /// Neighbourhood set.
    pub neighbourhood: usize,
    /// Remembered proximities.
    pub cache: usize,
    /// Open probes, questions and joins.
    pub open: usize,
}

/// Calls the same method of whichever overlay it is.
macro_rules! each {
    ($self:expr, $overlay:ident => $call:expr) => {
        match $self {
            AnyOverlay::Pastry($overlay) => $call,
            AnyOverlay::Chord($overlay) => $call,
            #[cfg(any(test, feature = "fake"))]
            AnyOverlay::Echo($overlay) => $call,
        }
    };
}

/// What services may know of the overlay, whichever it is.
pub trait Routes {
    /// Returns this node.
    fn me(&self) -> Contact;

    /// Returns how far it has come.
    fn status(&self) -> Status;

    /// Returns the peers beside it.
    fn neighbours(&self) -> Vec<Contact>;

    /// Returns the `n` nodes that should hold a key, nearest first, as far as this node can tell.
    fn replicas(&self, key: Key, n: usize) -> Vec<Contact>;

    /// Says whether this node can tell: those beside it are those around the key.
    fn covers(&self, key: Key) -> bool;

    /// Ranks nodes as [`Self::replicas`] does: whoever answers for the key comes first.
    fn rank(&self, key: Key, node: NodeId) -> Closeness;

    /// Returns how a node is reached, if it is in the tables.
    fn contact(&self, id: NodeId) -> Option<Contact>;

    /// Returns what this node has learnt about round trips.
    fn timing(&self) -> Timing;

    /// Says how far whoever answers for a key is.
    fn toward(&self, key: Key) -> Toward;
}

/// How far whoever answers for a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// It is this node.
    Here,
    /// It is this one, which is beside this node.
    Near(Contact),
    /// It has to be looked up.
    Far,
    /// There is no way there right now.
    Nowhere,
}

impl Routes for AnyOverlay {
    fn me(&self) -> Contact {
        Overlay::me(self)
    }

    fn status(&self) -> Status {
        Overlay::status(self)
    }

    fn neighbours(&self) -> Vec<Contact> {
        Overlay::neighbours(self)
    }

    fn replicas(&self, key: Key, n: usize) -> Vec<Contact> {
        Overlay::replicas(self, key, n)
    }

    fn covers(&self, key: Key) -> bool {
        Overlay::covers(self, key)
    }

    fn rank(&self, key: Key, node: NodeId) -> Closeness {
        Overlay::rank(self, key, node)
    }

    fn contact(&self, id: NodeId) -> Option<Contact> {
        each!(self, o => o.contact(id))
    }

    fn timing(&self) -> Timing {
        Overlay::timing(self)
    }

    fn toward(&self, key: Key) -> Toward {
        match self.next_hop(key, Stage::Prefix, &[], None) {
            NextHop::Here => Toward::Here,
            NextHop::Peer(contact, Rule::LeafSet | Rule::SuccessorList) => Toward::Near(contact),
            NextHop::Peer(..) => Toward::Far,
            NextHop::Wait | NextHop::NotReady => Toward::Nowhere,
        }
    }
}

/// The overlays there are.
#[expect(clippy::large_enum_variant, reason = "a process has few nodes, and a simulation nodes of one kind")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AnyOverlay {
    /// Pastry: prefix routing, leaf sets, proximity.
    Pastry(pastry::Pastry),
    /// Chord: a ring of successor lists, with fingers.
    Chord(chord::Chord),
    /// A stand-in that echoes.
    #[cfg(any(test, feature = "fake"))]
    Echo(echo::Echo),
}

impl AnyOverlay {
    /// Returns the Pastry node, if it is one.
    pub fn as_pastry(&self) -> Option<&pastry::Pastry> {
        match self {
            AnyOverlay::Pastry(pastry) => Some(pastry),
            _ => None,
        }
    }

    /// Returns the Chord node, if it is one.
    pub fn as_chord(&self) -> Option<&chord::Chord> {
        match self {
            AnyOverlay::Chord(chord) => Some(chord),
            _ => None,
        }
    }
}

impl Overlay for AnyOverlay {
    #[inline]
    fn me(&self) -> Contact {
        each!(self, o => o.me())
    }

    #[inline]
    fn status(&self) -> Status {
        each!(self, o => o.status())
    }

    #[inline]
    fn next_hop(&self, key: Key, stage: Stage, avoid: &[NodeId], ignore: Option<NodeId>) -> NextHop {
        each!(self, o => o.next_hop(key, stage, avoid, ignore))
    }

    fn entitled(&self, now: Time, config: &Config) -> Option<Time> {
        each!(self, o => o.entitled(now, config))
    }

    fn is_waking(&self, now: Time) -> bool {
        each!(self, o => o.is_waking(now))
    }

    fn has_leases(&self) -> bool {
        each!(self, o => o.has_leases())
    }

    fn replicas(&self, key: Key, n: usize) -> Vec<Contact> {
        each!(self, o => o.replicas(key, n))
    }

    fn covers(&self, key: Key) -> bool {
        each!(self, o => o.covers(key))
    }

    fn rank(&self, key: Key, node: NodeId) -> Closeness {
        each!(self, o => o.rank(key, node))
    }

    fn range(&self) -> IdRange {
        each!(self, o => o.range())
    }

    fn neighbours(&self) -> Vec<Contact> {
        each!(self, o => o.neighbours())
    }

    fn contact(&self, id: NodeId) -> Option<Contact> {
        each!(self, o => o.contact(id))
    }

    fn proximity(&self, peer: NodeId, cx: &Ctx<'_>) -> Option<Proximity> {
        each!(self, o => o.proximity(peer, cx))
    }

    fn timing(&self) -> Timing {
        each!(self, o => o.timing())
    }

    fn create(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        each!(self, o => o.create(request, cx));
    }

    fn join(&mut self, request: RequestId, seeds: Vec<Contact>, back: bool, cx: &mut Ctx<'_>) {
        each!(self, o => o.join(request, seeds, back, cx));
    }

    fn meet(&mut self, request: RequestId, peers: Vec<Contact>, cx: &mut Ctx<'_>) {
        each!(self, o => o.meet(request, peers, cx));
    }

    fn leave(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        each!(self, o => o.leave(request, cx));
    }

    fn on_retired(&mut self, id: NodeId, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_retired(id, cx));
    }

    fn on_heard(&mut self, from: Contact, cx: &mut Ctx<'_>) -> bool {
        each!(self, o => o.on_heard(from, cx))
    }

    fn on_twin(&mut self, from: Contact, body: &Body, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_twin(from, body, cx));
    }

    fn handle(&mut self, from: Contact, body: Body, cx: &mut Ctx<'_>) {
        each!(self, o => o.handle(from, body, cx));
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_timer(timer, cx));
    }

    fn on_silent(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_silent(peer, cx));
    }

    fn on_join_unsent(&mut self, to: Contact, nonce: Nonce, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_join_unsent(to, nonce, cx));
    }

    fn on_opened(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_opened(peer, cx));
    }

    fn on_met(&mut self, peer: Contact, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_met(peer, cx));
    }

    fn on_lost(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_lost(peer, cx));
    }

    fn on_answered(&mut self, peer: Contact, rtt: Option<Duration>, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_answered(peer, rtt, cx));
    }

    fn on_probe_unsent(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_probe_unsent(peer, cx));
    }

    fn on_ack(&mut self, from: Contact, ack: &HopAck, cx: &mut Ctx<'_>) -> bool {
        each!(self, o => o.on_ack(from, ack, cx))
    }

    fn on_better_hop(&mut self, better: Contact, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_better_hop(better, cx));
    }

    fn better_hop(&self, sender: NodeId, key: Key) -> Option<Contact> {
        each!(self, o => o.better_hop(sender, key))
    }

    fn pass(&mut self, routed: &mut Routed, cx: &mut Ctx<'_>) {
        each!(self, o => o.pass(routed, cx));
    }

    fn on_found(&mut self, serial: u32, root: Contact, cx: &mut Ctx<'_>) -> bool {
        each!(self, o => o.on_found(serial, root, cx))
    }

    fn arrive(&mut self, routed: Routed, cx: &mut Ctx<'_>) {
        each!(self, o => o.arrive(routed, cx));
    }

    fn on_measured(&mut self, peer: NodeId, proximity: Proximity, cx: &mut Ctx<'_>) {
        each!(self, o => o.on_measured(peer, proximity, cx));
    }

    fn check_invariants(&self) {
        each!(self, o => o.check_invariants());
    }

    fn memory(&self) -> Memory {
        each!(self, o => o.memory())
    }
}
