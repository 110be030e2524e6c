//! Kringle: a self-organising distributed hash table, for programs that want a node of their own.
//!
//! A [`Node`] is one member of a ring. Every key belongs to exactly one live member, the one whose id is nearest to
//! it, and any member finds that one in a few hops. On top of this sits your [`App`]: it gets the messages for the keys
//! its node answers for, sees those that pass through, and hears who comes and goes.
//!
//! ```
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), kringle::Error> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! // A node without anybody to join starts a ring of its own. This one is on loopback and forgets when it ends.
//! let first = kringle::Node::builder("blue")
//! #   .settings(kringle::Settings::demo())
//!     .app(16, kringle::app_fn(|_key, message| Some([b"pong to ", message.bytes.as_slice()].concat())))
//!     .start()
//!     .await?;
//!
//! // Others join through any member. `host-a:7400` works as well as an address.
//! let second = kringle::Node::builder("blue")
//! #   .settings(kringle::Settings::demo())
//!     .join([first.address()])?
//!     .app(16, kringle::app_fn(|_key, _message| None))
//!     .start()
//!     .await?;
//! second.ready().await?;
//!
//! // Keys are hashed; an [`Id`] is used as it is.
//! let hit = second.lookup("some key").within(Duration::from_secs(5)).await?;
//! assert!(hit.root == first.id() || hit.root == second.id());
//!
//! // A message goes to whoever answers for its key, or to one node. The answer comes back.
//! let reply = second.route(first.id(), b"ping").await?;
//! assert_eq!(reply.answer.as_deref(), Some(&b"pong to ping"[..]));
//!
//! second.leave().await?;
//! first.stop().await;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # What there is
//!
//! - [`Builder`] says what a node is like: [`data`](Builder::data) keeps its identity between runs,
//!   [`secret`](Builder::secret) and [`token`](Builder::token) decide who may join, [`tune`](Builder::tune) changes the
//!   [`Settings`] of the protocol, [`memory`](Builder::memory) puts many nodes into one process without sockets.
//! - Requests go over the network, can be given a deadline with `within` (2 seconds if not), and are cancelled by
//!   dropping them: [`lookup`](Node::lookup), [`trace`](Node::trace), [`route`](Node::route), [`send`](Node::send),
//!   [`survey`](Node::survey).
//! - Questions are answered by what this node knows: [`next_hop`](Node::next_hop), [`replicas`](Node::replicas),
//!   [`range`](Node::range), [`is_responsible`](Node::is_responsible), [`neighbours`](Node::neighbours),
//!   [`proximity`](Node::proximity), [`is_alive`](Node::is_alive).
//! - The store keeps values under keys at several nodes: [`put`](Node::put), [`get`](Node::get),
//!   [`delete`](Node::delete), [`increment`](Node::increment), [`ttl`](Node::ttl), [`expire`](Node::expire); sets of
//!   values with [`add`](Node::add), [`remove`](Node::remove), [`values`](Node::values); many at once with
//!   [`batch`](Node::batch); [`keys`](Node::keys) lists what there is, [`place`](Node::place) where.
//! - [`events`](Node::events) follows what happens at the node.
//! - It ends by [`leave`](Node::leave), which says goodbye, or by [`stop`](Node::stop), which does not.
//!
//! Errors are one type per kind of operation; [`Error`] takes any of them, for `?`. Work that repeats is a task of
//! yours with a timer of yours: a [`Node`] is a cheap clone and can be used from any task and thread.
//!
//! The programs in `examples/` are complete. A program that embeds a node leaves the command line out:
//! `kringle = { version = "0.1", default-features = false }`.

mod app;
mod batch;
mod builder;
mod error;
mod input;
mod node;
mod question;
mod request;
mod storing;
mod walking;

pub use kringle_core::config::{ConfigError, Metric, OverlayKind, Ownership, Settings};
pub use kringle_core::id::{Base, Id, IdError, Key, NodeId, Side};
pub use kringle_core::range::IdRange;
pub use kringle_core::store::op::{Happened, Level};
pub use kringle_core::store::version::{NotAVersion, Version};
pub use kringle_runtime::app::{App, AppError, Message, PURPOSE_MIN};
pub use kringle_runtime::builder::StartError;
pub use kringle_runtime::error::RequestError;
pub use kringle_runtime::handle::{Ending, Events, Handle, Info};
pub use kringle_runtime::identity::credentials::{AcceptAll, Credentials, Passphrase};
pub use kringle_runtime::key::key_of;
pub use kringle_runtime::report::{
    Cell, ChordTables, Delivered, Entry, Event, FingerEntry, Found, Hop, Peer, QueryEntry, Summary, Survey,
    Tables, What,
};
pub use kringle_runtime::seeds::{Seed, SeedError};
pub use kringle_runtime::transport::mem::Hub;

pub use app::{AppFn, app_fn};
pub use batch::{Batch, BatchRequest, Outcome};
pub use builder::Builder;
pub use error::{Error, JoinError, MessageError, PeerError, StoreError};
pub use input::{IntoKey, IntoSeed};
pub use node::Node;
pub use question::NextHop;
pub use request::{
    Hit, LookupRequest, ReadyRequest, RouteRequest, SendRequest, SurveyRequest, TraceRequest, WITHIN,
};
pub use storing::{
    AddRequest, Copies, CopyOf, CopyState, Counted, DeleteRequest, ExistsRequest, ExpireRequest, GetRequest,
    IncrementRequest, Lifetime, Place, PlaceRequest, PutRequest, RemoveRequest, Removed, Stored, TtlRequest,
    ValuesRequest, Written,
};
pub use walking::{Cursor, KeyInfo, KeysRequest, Page};
