//! What a Kringle node does: sockets, disk, clock and applications around one [`kringle_core::node::Node`].

pub mod home;
pub mod identity;
pub mod transport;
