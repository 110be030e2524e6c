//! How one node refers to another.

use core::fmt;

use crate::id::{Id, NodeId};

/// Where a peer can be reached, as an opaque handle into the driver's address book.
///
/// Endpoints and public keys live there; the core only passes handles around. The simulator uses the node's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr(pub u32);

/// A reference to a node: who, which life of it, and where. A hint, never proof: the transport proves ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contact {
    /// The node's id.
    pub id: NodeId,
    /// Counts the lives of one identity; a higher number replaces a lower one everywhere.
    pub incarnation: u32,
    /// Where it can be reached.
    pub addr: Addr,
}

const _: () = assert!(size_of::<Contact>() == 24, "contacts fill tables: padding here costs every node");

impl Contact {
    /// Makes a contact.
    pub fn new(id: Id, incarnation: u32, addr: Addr) -> Contact {
        Contact { id, incarnation, addr }
    }
}

impl fmt::Debug for Contact {
    /// Short on purpose: eight digits tell nodes apart in a trace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}/{}@{}", (self.id.value() >> 96) as u32, self.incarnation, self.addr.0)
    }
}

/// How near a peer is in the network; smaller is nearer. Microseconds of round trip unless the application measures
/// something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Proximity(pub u32);

impl Proximity {
    /// Not measured yet; loses against anything measured.
    pub const UNKNOWN: Proximity = Proximity(u32::MAX);
}
