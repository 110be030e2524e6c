//! All that crosses the edge of the core: [`Input`] in, [`Output`] out, [`Ctx`] along with every call.
//!
//! The contract with whoever drives a node:
//! - Call [`crate::node::Node::handle`] with one input at a time and execute the outputs in order.
//! - Deliver every due timer before any other input. Setting a timer that is already set replaces it; a timer that
//!   fires although it was replaced or cancelled does no harm.
//! - Messages may be lost, doubled, late or out of order. Their sender has been proved by the transport.
//! - The core never calls an application. The driver does, when it executes [`Output::Forward`] and
//!   [`Output::Deliver`], and reports back with [`Input::Forwarded`] and [`Input::Answer`].

mod note;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

pub use self::note::*;
use crate::config::Config;
use crate::contact::{Contact, Proximity};
use crate::dice::Dice;
use crate::id::{Key, NodeId};
use crate::kinds::kinds;
use crate::message::{App, Body, Hop, Nonce, Routed, Rule};
use crate::overlay::{Status, pastry::JoinRefusal};
use crate::range::IdRange;
use crate::records::{Records, Write};
use crate::store::RecoveryPlan;
use crate::store::op::{Answer, Ask, Trouble};
use crate::time::Time;

/// What a call into the core may use: the time, the configuration, dice, local records, and somewhere to put outputs.
pub struct Ctx<'a> {
    /// The time of this call.
    pub now: Time,
    /// The checked configuration. The same for every call in a node's life.
    pub config: &'a Config,
    /// Random choices.
    pub dice: &'a mut dyn Dice,
    /// Milliseconds since 1970, as this machine believes. May jump; only versions and times to live go by it.
    pub wall: u64,
    /// What this node stores.
    pub records: &'a dyn Records,
    /// Collects what the node wants done.
    pub out: &'a mut Outbox,
}

impl Ctx<'_> {
    /// Sends a message, opening a connection if there is none.
    pub fn send(&mut self, to: Contact, body: Body) {
        self.out.push(Output::Send { to, body, dial: Dial::IfNeeded });
    }

    /// Arms a timer `span` from now, replacing it if it was armed.
    pub fn set_timer(&mut self, timer: Timer, span: Duration) {
        let at = self.now.after(span);
        self.out.push(Output::SetTimer { timer, at });
    }

    /// Tells the driver something worth counting or showing.
    pub fn note(&mut self, note: Note) {
        self.out.push(Output::Note(note));
    }

    /// Refuses something that came in, with the reason counted.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.note(Note::Refused(refusal));
    }
}

/// Collects outputs for the driver, and what the node's own layers react to first.
#[derive(Debug, Default)]
pub struct Outbox {
    outputs: Vec<Output>,
    raised: Vec<Raised>,
}

/// Something a layer tells its parent, `node.rs`.
#[derive(Debug)]
pub(crate) enum Raised {
    /// The other layers may react; then the driver is told.
    Event(Event),
    /// Route this message from here on.
    Route(Routed),
}

impl Outbox {
    /// Makes an empty outbox. Keep it and drain it: its memory is reused.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Adds an output.
    pub fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// Raises an event. `node.rs` lets the other layers react, then passes it to the driver.
    pub(crate) fn raise(&mut self, event: Event) {
        self.raised.push(Raised::Event(event));
    }

    /// Hands a message to the courier.
    pub(crate) fn route(&mut self, routed: Routed) {
        self.raised.push(Raised::Route(routed));
    }

    pub(crate) fn take_raised(&mut self) -> Vec<Raised> {
        core::mem::take(&mut self.raised)
    }

    /// Takes all outputs, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.outputs.drain(..)
    }

    /// Returns the outputs collected so far.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }
}

/// The driver's number for a request, returned with the reply. The core attaches no meaning to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Everything a node can learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The user wants something. Answered by exactly one [`Output::Reply`] with the same number.
    Command {
        /// The driver's number.
        request: RequestId,
        /// What is wanted.
        command: Command,
    },
    /// A peer said something. The transport has proved who.
    Message {
        /// The proved sender.
        from: Contact,
        /// What it said.
        body: Body,
    },
    /// A message could not be handed to the network: no connection and [`Dial::Never`], or dialling failed.
    Unsent {
        /// Whom it was for.
        to: Contact,
        /// The message, back again.
        body: Body,
    },
    /// A connection to a peer has been opened: whatever was sent to it before has left only now.
    Opened {
        /// The peer.
        peer: NodeId,
    },
    /// The connection to a peer broke without a word. It may have died, or only its connection.
    Lost {
        /// The peer.
        peer: NodeId,
    },
    /// A timer that was set is due.
    Timer(Timer),
    /// An application intervened in [`Output::Forward`]. Not needed when it let the message pass as it was.
    Forwarded {
        /// The hop of the forward.
        hop: Nonce,
        /// What the application decided.
        verdict: Verdict,
    },
    /// An application has dealt with an [`Output::Deliver`].
    Answer {
        /// The origin of the delivered message.
        to: Contact,
        /// The origin's number for it.
        serial: u32,
        /// Hops it had taken.
        hops: u8,
        /// The reply, if any. One larger than a message may be is refused, and the origin gets none.
        bytes: Option<Vec<u8>>,
    },
    /// There is no application for the purpose of an [`Output::Deliver`].
    Unhandled {
        /// The origin of the delivered message.
        to: Contact,
        /// The origin's number for it.
        serial: u32,
        /// Hops it had taken.
        hops: u8,
    },
    /// An [`Output::Deliver`] came too late to be executed.
    DeliverRefused {
        /// The message, back again.
        routed: Box<Routed>,
    },
    /// What [`Output::Persist`] asked for is on the disk, up to and including this ticket.
    Persisted {
        /// The ticket.
        ticket: u64,
    },
    /// The number of copies in the configuration has changed.
    Reconfigured,
    /// Whether the disk has room for more. Assumed until told otherwise.
    Room {
        /// Whether it has.
        enough: bool,
    },
    /// The application's metric for a peer, asked for by [`Output::Measure`].
    Measured {
        /// The peer.
        peer: NodeId,
        /// How near it is.
        proximity: Proximity,
    },
}

/// What the user of a node can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start a ring of one. Replies [`Reply::Joined`].
    Create,
    /// Join the ring these nodes belong to; tried in turn, again and again. Replies [`Reply::Joined`] when ready.
    Join {
        /// Nodes to start from, nearby ones first if that is known.
        seeds: Vec<Contact>,
    },
    /// Come back to a ring this identity was part of, through nodes it knew. As [`Command::Join`], but if all of them
    /// come back at the same time, they are the ring. Replies [`Reply::Joined`] when ready.
    Rejoin {
        /// Nodes to start from.
        seeds: Vec<Contact>,
    },
    /// Look whether these nodes are in another ring, and if so, let the rings grow together. Replies
    /// [`Reply::Joined`] at once. A node that is still joining takes them as further seeds; [`Failure::NotJoined`] if it
    /// is neither.
    Meet {
        /// Nodes to ask.
        peers: Vec<Contact>,
    },
    /// Say goodbye and stop answering. Replies [`Reply::Left`].
    Leave,
    /// This node stops for a while and will be back with all it has: nobody needs to make copies of it. Replies
    /// [`Reply::Paused`] at once.
    Pause,
    /// A node will not come back, nor will its disk: views go on without it, and it is refused if it does come back. Replies
    /// [`Reply::Retired`], or [`Failure::StillThere`].
    Retire {
        /// The node.
        id: NodeId,
    },
    /// Rebuild slots that have no quorum from what survives. Replies [`Reply::Recovery`].
    Recover {
        /// Whether to do it. Otherwise it is only said what would be done.
        confirmed: bool,
    },
    /// Ask who answers for a key. Replies [`Reply::Found`].
    Lookup {
        /// The key.
        key: Key,
        /// Whether every hop shall write down its rule.
        trace: bool,
        /// After this long: [`Failure::Timeout`].
        deadline: Duration,
    },
    /// Chord: ask node after node who answers for a key, as a client does, instead of letting them pass the question on.
    /// Replies [`Reply::Found`], never as final: the node found is not asked itself. Other overlays: [`Failure::NoRoute`].
    Walk {
        /// The key.
        key: Key,
        /// After this long: [`Failure::Timeout`].
        deadline: Duration,
    },
    /// Carry bytes to whoever answers for a key. Replies [`Reply::Delivered`].
    Route {
        /// The key.
        key: Key,
        /// Which application, and its bytes.
        app: App,
        /// After this long: [`Failure::Timeout`]; the message may still arrive.
        deadline: Duration,
    },
    /// Carry bytes to one node. Replies [`Reply::Delivered`].
    Send {
        /// The node.
        to: NodeId,
        /// Which application, and its bytes.
        app: App,
        /// After this long: [`Failure::Timeout`]; the message may still arrive.
        deadline: Duration,
    },
    /// Read or write the store. Replies [`Reply::Store`], or [`Failure::Store`].
    Store {
        /// What exactly.
        ask: Box<Ask>,
        /// After this long it is given up; the answer says whether it may have happened.
        deadline: Duration,
    },
}

/// What an application may do with a message passing through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Other bytes, or another next hop. The driver has already sent it so.
    Changed {
        /// The next hop used.
        to: Contact,
        /// The bytes sent.
        app: App,
    },
    /// The message goes no further. Its origin is told.
    Stop,
}

/// Everything a node can want done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Hand this to the network.
    Send {
        /// For whom.
        to: Contact,
        /// What.
        body: Body,
        /// Whether to open a connection for it.
        dial: Dial,
    },
    /// Ask the applications, then send `routed` to `to`. Report with [`Input::Forwarded`] if they intervened.
    Forward {
        /// The next hop.
        to: Contact,
        /// The message; its `hop` names this forward.
        routed: Box<Routed>,
    },
    /// Give the message to the application, then report with [`Input::Answer`].
    Deliver {
        /// The message.
        routed: Box<Routed>,
        /// Read the clock right before the call. If it is later than this, the node may no longer be the owner: do not
        /// call, report [`Input::DeliverRefused`].
        not_after: Option<Time>,
    },
    /// Measure how near a peer is by the application's metric, then report with [`Input::Measured`].
    Measure {
        /// The peer.
        peer: Contact,
    },
    /// Store these, all or none, after everything asked for before; show them in [`Records`] at once; report with
    /// [`Input::Persisted`] when they would survive a loss of power.
    Persist {
        /// Counts up by one.
        ticket: u64,
        /// What to store.
        writes: Vec<Write>,
    },
    /// Call back at this time with [`Input::Timer`].
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// When.
        at: Time,
    },
    /// Forget a timer.
    CancelTimer {
        /// Which timer.
        timer: Timer,
    },
    /// Answers a command.
    Reply {
        /// The driver's number.
        request: RequestId,
        /// The answer.
        reply: Result<Reply, Failure>,
    },
    /// Something changed that services and users care about.
    Event(Event),
    /// Something happened that is worth counting.
    Note(Note),
}

/// Whether sending may open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dial {
    /// Open one if there is none.
    IfNeeded,
    /// Only over an existing one; otherwise hand the message back with [`Input::Unsent`].
    Never,
}

kinds! {
    /// The timers of a node; each is armed at most once at a time.
    pub enum Timer {
        /// A hop owes an acknowledgement, or a held message is to be tried again.
        Hop = "hop",
        /// A user's request runs out.
        Request = "request",
        /// A probe is due to be repeated or given up.
        Probe = "probe",
        /// A question about state stays unanswered.
        Ask = "ask",
        /// A join makes no progress.
        Join = "join",
        /// A joiner that is being helped makes no progress.
        Help = "help",
        /// Time to see whether the ring neighbours are there.
        Heartbeat = "heartbeat",
        /// Time to exchange leaf sets with a random leaf.
        LeafExchange = "leaf-exchange",
        /// Time to swap rows with random members of them.
        RowSwap = "row-swap",
        /// Time to exchange neighbourhood sets.
        Neighbourhood = "neighbourhood",
        /// A lease is to be renewed, or runs out.
        Lease = "lease",
        /// Time to look for a ring we may have been cut off from.
        Heal = "heal",
        /// Messages in hand have had their chance: leave.
        Leave = "leave",
        /// Chord: time to ask the successor.
        Stabilize = "stabilize",
        /// Chord: time to look at who wants to be the predecessor.
        Rectify = "rectify",
        /// Chord: time to tell those who wait that they still have to.
        Keepalive = "keepalive",
        /// Chord: the node that was asked is silent.
        Query = "query",
        /// Chord: time to try again what was given up.
        Retry = "retry",
        /// Chord: time to see whether silent successors are there.
        Suspects = "suspects",
        /// Chord: time to repeat what was said about the list of all members.
        Form = "form",
        /// Chord: time to look fingers up.
        Fingers = "fingers",
        /// Chord: a node on a walk is silent.
        Walk = "walk",
        /// The store has something to repeat, to give up or to look after.
        Store = "store",
    }
}

/// A successful answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The node is part of a ring and answers for its range.
    Joined,
    /// The node has said goodbye.
    Left,
    /// Others know that the node will be back.
    Paused,
    /// The node counts as gone for good.
    Retired,
    /// What a recovery would do, or does.
    Recovery(Box<RecoveryPlan>),
    /// Who answers for the key.
    Found {
        /// The responsible node.
        root: Contact,
        /// Hops the question took.
        hops: u8,
        /// The rule of every hop, if traced.
        path: Vec<Hop>,
        /// Whether the node was entitled to deliver when it answered. If not, another may turn out to be.
        is_final: bool,
    },
    /// The message was given to the application at the responsible node.
    Delivered {
        /// The responsible node.
        root: Contact,
        /// Hops it took.
        hops: u8,
        /// What the application replied, if anything.
        answer: Option<Vec<u8>>,
    },
    /// The store did it.
    Store(Box<Answer>),
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// Nothing came back in time. A routed message may have been delivered all the same.
    Timeout,
    /// The node is not part of a ring. Nothing was sent.
    NotJoined,
    /// The node is part of a ring, or about to be. Nothing changed.
    AlreadyJoined,
    /// The node that was to be retired answers. Nothing changed; let it leave, or stop it first.
    StillThere,
    /// The join names nobody but this node. Nothing was sent.
    NoSeeds,
    /// The ring refused the join for good.
    JoinRefused(JoinRefusal),
    /// Too many requests are open. Nothing was sent; try again.
    Busy,
    /// The message is larger than the configured limit. Nothing was sent.
    TooLarge,
    /// An application on the way stopped the message. It was not delivered.
    Stopped,
    /// The message was for one node, which is not in the ring. It was not delivered.
    NotThere,
    /// The node that answers for the key has no application for the message's purpose. It was not delivered.
    Unhandled,
    /// The message ran out of hops. It was not delivered.
    TooManyHops,
    /// No next hop answered. It was not delivered by the node that says so.
    NoRoute,
    /// The node left or gave up before the request was done.
    Ended,
    /// The node has no store. Nothing was done.
    NoStore,
    /// The store did not do it, or can not say.
    Store(Trouble),
}

/// A change that services and users of a node care about. Past tense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node's status changed.
    StatusChanged(Status),
    /// A peer entered the leaf set.
    PeerUp(Contact),
    /// A peer left the leaf set: it said goodbye, or probes found it dead.
    PeerDown(Contact),
    /// Probes found a peer dead that stays in the leaf set until a lease of its has run out. Nothing is to be expected of it.
    PeerDied(Contact),
    /// Such a peer has shown that it lives.
    PeerLives(Contact),
    /// Probes of a peer stayed unanswered. What still waits to be sent to it is of no use: a driver ends its connections
    /// with that peer, and opens a new one for what is sent from now on.
    Unanswered(Contact),
    /// The leaf set changed.
    NeighboursChanged,
    /// This node answers for a part of the ring it did not answer for before.
    RangeGained(IdRange),
    /// This node no longer answers for a part of the ring.
    RangeLost(IdRange),
    /// Doubts about a peer ended, one way or the other: messages held because of them can go.
    Settled(NodeId),
    /// The disk of this node's store is an old copy: peers knew it when it had come further. The driver has to throw it away
    /// and start the node anew, with an empty store.
    StoreOutdated,
    /// This node, or another one, was retired for good: it is not to be talked to any more.
    Retired(NodeId),
}
