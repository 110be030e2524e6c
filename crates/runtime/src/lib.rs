//! What a Kringle node does: sockets, disk, clock and applications around one [`kringle_core::node::Node`].
//!
//! [`Builder`] starts a node on a thread and a runtime of its own; [`Handle`] is how the rest of the program talks to it.
//! Inside, `driver` owns the node and is the only caller of `Node::handle`; [`transport`] carries frames; [`identity`]
//! says who a node is and who may join; [`home`] is its data directory.

pub mod app;
pub mod book;
pub mod builder;
pub mod clock;
pub mod describe;
pub mod descriptors;
mod driver;
pub mod engine;
pub mod error;
pub mod handle;
pub mod home;
pub mod identity;
pub mod key;
mod launch;
mod metrics;
mod monitor;
pub mod overlays;
pub mod protocol;
pub mod readiness;
pub mod report;
pub mod seeds;
pub mod transport;

pub use app::{Answer, App, AppError, Message};
pub use builder::{Builder, StartError};
pub use engine::{MIN_FREE, SCRUB_EVERY, SCRUB_RATE, Scrub, StoreKind};
pub use error::RequestError;
pub use handle::{Ending, Events, Handle};
pub use seeds::Seed;
