//! What nodes say to each other, as data. Encoding is in [`crate::wire`], behaviour in the layer that handles it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::contact::{Contact, Proximity};
use crate::id::{Key, NodeId};
use crate::kinds::kinds;
use crate::overlay::{chord, pastry};
use crate::store::message as store;

/// Ties an answer to its question. Unique per node while the question is open.
pub type Nonce = u32;

/// One message between two nodes. The transport knows and has proved the sender, so it is not repeated here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// A message on its way to the node responsible for a key. Acknowledge it, then deliver it or pass it on.
    Routed(Routed),
    /// The answer to [`Body::Routed`] by the very next hop.
    HopAck(HopAck),
    /// The end of a routed message, told to its origin. Completes the request it names.
    Receipt(Box<Receipt>),
    /// Asks for a [`Body::Pong`] with the same nonce.
    Ping(Nonce),
    /// Answers a ping. Counts only while that ping is outstanding.
    Pong(Nonce),
    /// Asks the receiver to ping `target` on the sender's behalf; done only for targets it knows itself.
    PingVia {
        /// The sender's nonce, returned in [`Body::PongVia`].
        nonce: Nonce,
        /// The silent peer.
        target: Contact,
    },
    /// The relayed target answered.
    PongVia {
        /// The nonce of the request.
        nonce: Nonce,
        /// Who is alive.
        target: NodeId,
    },
    /// Pastry's own messages.
    Pastry(pastry::Message),
    /// Chord's own messages.
    Chord(chord::Message),
    /// What stores say to each other.
    Store(Box<store::Packet>),
    /// The stand-in overlay's only message: send it back.
    #[cfg(any(test, feature = "fake"))]
    Echo(u32),
}

// Bodies travel by value through the simulator's queue: their size is its speed.
const _: () = assert!(size_of::<Body>() <= 72);

/// A message under way to a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Routed {
    /// Where it goes.
    pub key: Key,
    /// Who sent it first; receipts go there.
    pub origin: Contact,
    /// What is carried.
    pub payload: Payload,
    /// The origin's number for it; with the origin it identifies the message everywhere.
    pub serial: u32,
    /// The sender's nonce for this hop, returned in the acknowledgement.
    pub hop: Nonce,
    /// Hops taken so far.
    pub hops: u8,
    /// Whether a leaf-set step has been taken.
    pub stage: Stage,
}

/// How far a routed message has come: decides which steps count as progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Prefix routing: more shared digits, or as many and strictly nearer.
    Prefix,
    /// A leaf-set step was taken: from here on only strictly nearer steps.
    Leaf,
}

/// What a routed message carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Asks the responsible node to name itself.
    Lookup,
    /// The same, each hop writing down why it chose the next.
    Trace(Box<Vec<Hop>>),
    /// An application's message.
    App(Box<App>),
    /// An application's message for the very node whose id is the key, and for nobody else. Leases do not matter: who
    /// that node is, is not in question.
    Direct(Box<App>),
    /// A newcomer looking for its place; hops add what it needs.
    Join(Box<pastry::Join>),
    /// A receipt that could not go directly. The key is the origin's id.
    Receipt(Box<Receipt>),
}

/// An application's message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct App {
    /// Which application it is for.
    pub purpose: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// One step of a traced route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The node that decided.
    pub node: Contact,
    /// Why it sent the message where it did.
    pub rule: Rule,
    /// How near the next hop is to it in the network, if it knows.
    pub proximity: Proximity,
}

/// Why a message went where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The key lies in the leaf set's range: numerically nearest member.
    LeafSet,
    /// Routing table, the cell of the next digit.
    Cell {
        /// Shared digits.
        row: u8,
        /// The next digit of the key.
        column: u8,
    },
    /// A spare of that cell, the first being silent.
    Spare {
        /// Shared digits.
        row: u8,
        /// The next digit of the key.
        column: u8,
    },
    /// No entry for the next digit: a known node with as many shared digits that is nearer to the key.
    RareCase,
    /// The key lies between this node and one of its successors: the first at or after it.
    SuccessorList,
    /// The known node that comes nearest to the key without passing it.
    Finger {
        /// Which power of two it was looked up for; 255 if it is known otherwise.
        bit: u8,
    },
    /// The key lies before this node's predecessor, although it came here as if it did not: one step back.
    Predecessor,
    /// This node is responsible itself.
    Here,
}

impl Rule {
    /// Says whether the next hop is the responsible node as far as the sender knows: no other would be right.
    pub fn names_owner(self) -> bool {
        matches!(self, Rule::LeafSet | Rule::SuccessorList | Rule::Predecessor)
    }
}

/// What the next hop says about a message it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HopAck {
    /// The nonce of the hop.
    pub hop: Nonce,
    /// Whether the receiver looks after the message from now on.
    pub taken: bool,
    /// A better next hop for this key than the receiver was, for the sender's table (lazy repair).
    pub better: Option<Contact>,
}

/// How a routed message ended, for its origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The origin it is for.
    pub to: Contact,
    /// The origin's number for the message.
    pub serial: u32,
    /// Hops the message took.
    pub hops: u8,
    /// The node that speaks: the responsible one, or the one that gave up.
    pub by: Contact,
    /// What happened.
    pub outcome: Outcome,
}

/// What became of a routed message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A lookup ended at the node that answers for the key; the path is there if it was traced.
    Found(Vec<Hop>),
    /// A lookup ended at the nearest node, which does not hold the leases to deliver right now.
    Nearest(Vec<Hop>),
    /// An application got it, and answered or not.
    Delivered(Option<Vec<u8>>),
    /// An application on the way stopped it.
    Stopped,
    /// It was for one node, which the nearest node does not know.
    NotThere,
    /// It arrived, and no application there handles its purpose.
    Unhandled,
    /// It would have needed more hops than allowed.
    TooManyHops,
    /// No next hop answered in time.
    NoRoute,
}

kinds! {
    /// The kinds of messages: the second byte of a frame's kind, and what drivers count by.
    pub enum BodyKind {
        /// [`Payload::Lookup`]
        Lookup = "lookup",
        /// [`Payload::Trace`]
        Trace = "trace",
        /// [`Payload::App`]
        App = "app",
        /// [`Payload::Direct`]
        Direct = "direct",
        /// [`Payload::Join`]
        Join = "join",
        /// [`Payload::Receipt`]
        RoutedReceipt = "routed-receipt",
        /// [`Body::HopAck`]
        HopAck = "hop-ack",
        /// [`Body::Receipt`]
        Receipt = "receipt",
        /// [`Body::Ping`]
        Ping = "ping",
        /// [`Body::Pong`]
        Pong = "pong",
        /// [`Body::PingVia`]
        PingVia = "ping-via",
        /// [`Body::PongVia`]
        PongVia = "pong-via",
        /// [`pastry::Message::JoinReply`]
        JoinReply = "join-reply",
        /// [`pastry::Message::JoinRefused`]
        JoinRefused = "join-refused",
        /// [`pastry::Message::LeafProbe`]
        LeafProbe = "leaf-probe",
        /// [`pastry::Message::LeafReply`]
        LeafReply = "leaf-reply",
        /// [`pastry::Message::Announce`]
        Announce = "announce",
        /// [`pastry::Message::Race`]
        Race = "race",
        /// [`pastry::Message::StateRequest`]
        StateRequest = "state-request",
        /// [`pastry::Message::StateReply`]
        StateReply = "state-reply",
        /// [`pastry::Message::Goodbye`]
        Goodbye = "goodbye",
        /// [`pastry::Message::Obituary`]
        Obituary = "obituary",
        /// [`pastry::Message::LeaseRequest`]
        LeaseRequest = "lease-request",
        /// [`pastry::Message::LeaseReply`]
        LeaseReply = "lease-reply",
        /// [`pastry::Message::LeaseRecall`]
        LeaseRecall = "lease-recall",
        /// [`pastry::Message::LeaseReturn`]
        LeaseReturn = "lease-return",
        /// [`chord::Message::GetBestPredecessor`]
        GetBestPredecessor = "get-best-predecessor",
        /// [`chord::Message::GotBestPredecessor`]
        GotBestPredecessor = "got-best-predecessor",
        /// [`chord::Message::GetSuccList`]
        GetSuccList = "get-succ-list",
        /// [`chord::Message::GotSuccList`]
        GotSuccList = "got-succ-list",
        /// [`chord::Message::GetPredAndSuccs`]
        GetPredAndSuccs = "get-pred-and-succs",
        /// [`chord::Message::GotPredAndSuccs`]
        GotPredAndSuccs = "got-pred-and-succs",
        /// [`chord::Message::Notify`]
        Notify = "notify",
        /// [`chord::Message::Busy`]
        Busy = "busy",
        /// [`chord::Message::Ping`]
        RingPing = "ring-ping",
        /// [`chord::Message::Pong`]
        RingPong = "ring-pong",
        /// [`chord::Message::Leaving`]
        Leaving = "leaving",
        /// [`chord::Message::Apply`]
        Apply = "apply",
        /// [`chord::Message::Referred`]
        Referred = "referred",
        /// [`chord::Message::Seal`]
        Seal = "seal",
        /// [`chord::Message::Sealed`]
        Sealed = "sealed",
        /// [`chord::Message::Commit`]
        Commit = "commit",
        /// [`store::Message::Ask`]
        StoreAsk = "store-ask",
        /// [`store::Message::Answer`]
        StoreAnswer = "store-answer",
        /// [`store::Message::Do`]
        StoreDo = "store-do",
        /// [`store::Message::Did`]
        StoreDid = "store-did",
        /// [`store::Message::Slots`]
        StoreSlots = "store-slots",
        /// [`store::Message::Pull`]
        StorePull = "store-pull",
        /// [`store::Message::Page`]
        StorePage = "store-page",
        /// [`store::Message::Compare`]
        StoreCompare = "store-compare",
        /// [`store::Message::Pausing`]
        StorePausing = "store-pausing",
        /// [`store::Message::Clock`]
        StoreClock = "store-clock",
        /// [`store::Message::Survey`]
        StoreSurvey = "store-survey",
        /// [`store::Message::Surveyed`]
        StoreSurveyed = "store-surveyed",
        /// The stand-in overlay's message.
        Echo = "echo",
    }
}

impl BodyKind {
    /// Says whether it is one of Chord's own.
    pub fn is_of_chord(self) -> bool {
        (BodyKind::GetBestPredecessor..=BodyKind::Commit).contains(&self)
    }

    /// Says whether it is the store's, and not the overlay's.
    pub fn is_of_store(self) -> bool {
        (BodyKind::StoreAsk..=BodyKind::StoreSurveyed).contains(&self)
    }
}

impl Body {
    /// Returns the kind of this message.
    pub fn kind(&self) -> BodyKind {
        use chord::Message as C;
        use pastry::Message as P;
        match self {
            Body::Routed(routed) => match routed.payload {
                Payload::Lookup => BodyKind::Lookup,
                Payload::Trace(_) => BodyKind::Trace,
                Payload::App(_) => BodyKind::App,
                Payload::Direct(_) => BodyKind::Direct,
                Payload::Join(_) => BodyKind::Join,
                Payload::Receipt(_) => BodyKind::RoutedReceipt,
            },
            Body::HopAck(_) => BodyKind::HopAck,
            Body::Receipt(_) => BodyKind::Receipt,
            Body::Ping(_) => BodyKind::Ping,
            Body::Pong(_) => BodyKind::Pong,
            Body::PingVia { .. } => BodyKind::PingVia,
            Body::PongVia { .. } => BodyKind::PongVia,
            Body::Pastry(P::JoinReply(_)) => BodyKind::JoinReply,
            Body::Pastry(P::JoinRefused { .. }) => BodyKind::JoinRefused,
            Body::Pastry(P::LeafProbe(_)) => BodyKind::LeafProbe,
            Body::Pastry(P::LeafReply(_)) => BodyKind::LeafReply,
            Body::Pastry(P::Announce(_)) => BodyKind::Announce,
            Body::Pastry(P::Race(_)) => BodyKind::Race,
            Body::Pastry(P::StateRequest(_)) => BodyKind::StateRequest,
            Body::Pastry(P::StateReply(_)) => BodyKind::StateReply,
            Body::Pastry(P::Goodbye(_)) => BodyKind::Goodbye,
            Body::Pastry(P::Obituary(_)) => BodyKind::Obituary,
            Body::Pastry(P::LeaseRequest(_)) => BodyKind::LeaseRequest,
            Body::Pastry(P::LeaseReply(_)) => BodyKind::LeaseReply,
            Body::Pastry(P::LeaseRecall(_)) => BodyKind::LeaseRecall,
            Body::Pastry(P::LeaseReturn { .. }) => BodyKind::LeaseReturn,
            Body::Chord(C::GetBestPredecessor { .. }) => BodyKind::GetBestPredecessor,
            Body::Chord(C::GotBestPredecessor { .. }) => BodyKind::GotBestPredecessor,
            Body::Chord(C::GetSuccList { .. }) => BodyKind::GetSuccList,
            Body::Chord(C::GotSuccList { .. }) => BodyKind::GotSuccList,
            Body::Chord(C::GetPredAndSuccs { .. }) => BodyKind::GetPredAndSuccs,
            Body::Chord(C::GotPredAndSuccs { .. }) => BodyKind::GotPredAndSuccs,
            Body::Chord(C::Notify) => BodyKind::Notify,
            Body::Chord(C::Busy { .. }) => BodyKind::Busy,
            Body::Chord(C::Ping { .. }) => BodyKind::RingPing,
            Body::Chord(C::Pong { .. }) => BodyKind::RingPong,
            Body::Chord(C::Leaving { .. }) => BodyKind::Leaving,
            Body::Chord(C::Apply) => BodyKind::Apply,
            Body::Chord(C::Referred { .. }) => BodyKind::Referred,
            Body::Chord(C::Seal { .. }) => BodyKind::Seal,
            Body::Chord(C::Sealed { .. }) => BodyKind::Sealed,
            Body::Chord(C::Commit { .. }) => BodyKind::Commit,
            Body::Store(packet) => match packet.message {
                store::Message::Ask { .. } => BodyKind::StoreAsk,
                store::Message::Answer { .. } => BodyKind::StoreAnswer,
                store::Message::Do { .. } => BodyKind::StoreDo,
                store::Message::Did { .. } => BodyKind::StoreDid,
                store::Message::Slots(_) => BodyKind::StoreSlots,
                store::Message::Pull { .. } => BodyKind::StorePull,
                store::Message::Page { .. } => BodyKind::StorePage,
                store::Message::Compare { .. } => BodyKind::StoreCompare,
                store::Message::Pausing => BodyKind::StorePausing,
                store::Message::Clock(_) => BodyKind::StoreClock,
                store::Message::Survey { .. } => BodyKind::StoreSurvey,
                store::Message::Surveyed(_) => BodyKind::StoreSurveyed,
            },
            #[cfg(any(test, feature = "fake"))]
            Body::Echo(_) => BodyKind::Echo,
        }
    }
}
