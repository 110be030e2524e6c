//! Key-based routing.
pub mod pastry;
pub mod proximity;

use crate::contact::Contact;
use crate::message::Rule;

/// Where a message for a key goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextHop {
    /// This node is responsible.
    Here,
    /// To this peer, for this reason.
    Peer(Contact, Rule),
    /// The peer it should go to is in doubt: keep the message until that is settled.
    Wait,
    /// This node is not part of a ring.
    NotReady,
}

/// x
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// x
    Out,
}
