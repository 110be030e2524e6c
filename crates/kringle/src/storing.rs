//! The store: values and sets of values under keys, held by several nodes.
//!
//! Like other requests, each is first said and then awaited; see [`Node`] for how to make them. A write that is
//! acknowledged at [`Level::Quorum`], which is the default, stays, and is read by everybody who reads so.

use std::future::IntoFuture;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kringle_core::id::NodeId;
use kringle_core::store::op::{Action, Answer, Ask, Change, Condition, Found, Happened, Level, Name};
use kringle_core::store::version::Version;
use kringle_runtime::error::RequestError;
use kringle_runtime::handle::Handle;
use kringle_runtime::key::{digest_of, name_of};

use crate::error::StoreError;
use crate::node::Node;
use crate::request::{Pending, WITHIN, request};

/// How many copies took part in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Copies that had it, durably, when this was answered.
    pub acked: u8,
    /// Copies the level asks for.
    pub wanted: u8,
    /// Copies there are to be.
    pub all: u8,
}

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The bytes.
    pub value: Vec<u8>,
    /// The version: of the key, or of this value in its set.
    pub version: Version,
    /// When it ends; `None`: it stays.
    pub expires: Option<SystemTime>,
}

/// What a write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The version of the key now; of the value, in a set.
    pub version: Version,
    /// Whether there was nothing before.
    pub created: bool,
    /// How many copies have it.
    pub copies: Copies,
    /// Hops it took to whoever coordinated.
    pub hops: u8,
}

/// What a removal came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Whether there was something.
    pub existed: bool,
    /// How many copies have forgotten it.
    pub copies: Copies,
    /// Hops it took to whoever coordinated.
    pub hops: u8,
}

/// What counting came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The number now.
    pub number: i64,
    /// What the write came to.
    pub written: Written,
}

/// How long a key stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It has no value.
    Absent,
    /// Until it is changed.
    Endless,
    /// Until then.
    Until(SystemTime),
}

/// Where the copies of a key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot of the key: the part of the ring whose copies are kept together.
    pub slot: u32,
    /// How often the nodes that keep it have changed.
    pub epoch: u64,
    /// The nodes, nearest to the slot first.
    pub copies: Vec<CopyOf>,
}

/// One copy of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOf {
    /// Who holds it.
    pub node: NodeId,
    /// What it holds.
    pub state: CopyState,
}

/// What a node holds of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// It did not say.
    Silent,
    /// Nothing.
    Nothing,
    /// This version.
    At(Version),
}

/// What a request to the store is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) name: Name,
    pub(crate) action: Action,
    pub(crate) level: Level,
}

impl Told {
    pub(crate) fn new(key: impl AsRef<[u8]>, action: Action) -> Told {
        Told { name: name_of(key.as_ref()), action, level: Level::default() }
    }

    pub(crate) fn change(key: impl AsRef<[u8]>, change: Change) -> Told {
        Told::new(key, Action::Change { change, condition: Condition::Always })
    }

    fn set_condition(&mut self, wanted: Condition) {
        if let Action::Change { condition, .. } = &mut self.action {
            *condition = wanted;
        }
    }

    fn set_ttl(&mut self, wanted: Duration) {
        match &mut self.action {
            Action::Change { change: Change::Put { ttl, .. }, .. } | Action::Add { ttl, .. } => {
                *ttl = Some(wanted)
            }
            _ => {}
        }
    }

    pub(crate) async fn ask(self, handle: &Handle, within: Duration) -> Result<Answer, StoreError> {
        let Told { name, action, level } = self;
        let reads = matches!(action, Action::Get | Action::Members | Action::Place | Action::Keys { .. });
        handle.store(Ask { name, action, level }, within).await.map_err(|error| match error {
            RequestError::Timeout if reads => StoreError::Timeout { outcome: Happened::No },
            RequestError::Timeout => StoreError::Timeout { outcome: Happened::Unknown },
            other => StoreError::from(other),
        })
    }
}

/// Adds [`level`](GetRequest::level) to a request.
macro_rules! with_level {
    ($($name:ident),*) => {$(
        impl $name {
            /// Waits for so many copies instead of more than half.
            pub fn level(mut self, level: Level) -> Self {
                self.told.level = level;
                self
            }
        }
    )*};
}

/// Adds conditions to a request.
macro_rules! with_conditions {
    ($($name:ident),*) => {$(
        impl $name {
            /// Only if the key is at this version; otherwise [`StoreError::ConditionFailed`].
            pub fn if_version(mut self, version: Version) -> Self {
                self.told.set_condition(Condition::Version(version));
                self
            }

            /// Only if the key has a value; otherwise [`StoreError::ConditionFailed`].
            pub fn if_present(mut self) -> Self {
                self.told.set_condition(Condition::Present);
                self
            }
        }
    )*};
}

request! {
    /// Stores a value. Made by [`Node::put`].
    PutRequest { told: Told } -> Result<Written, StoreError>, run
}

request! {
    /// Reads a value. Made by [`Node::get`].
    GetRequest { told: Told } -> Result<Option<Stored>, StoreError>, run
}

request! {
    /// Asks whether a key has a value or a set. Made by [`Node::exists`].
    ExistsRequest { told: Told } -> Result<bool, StoreError>, run
}

request! {
    /// Removes whatever is under a key. Made by [`Node::delete`].
    DeleteRequest { told: Told } -> Result<Removed, StoreError>, run
}

request! {
    /// Makes a number greater. Made by [`Node::increment`].
    IncrementRequest { told: Told } -> Result<Counted, StoreError>, run
}

request! {
    /// Asks how long a value stays. Made by [`Node::ttl`].
    TtlRequest { told: Told } -> Result<Lifetime, StoreError>, run
}

request! {
    /// Says how long a value stays. Made by [`Node::expire`] and [`Node::persist`].
    ExpireRequest { told: Told } -> Result<Written, StoreError>, run
}

request! {
    /// Adds a value to a set. Made by [`Node::add`].
    AddRequest { told: Told } -> Result<Written, StoreError>, run
}

request! {
    /// Removes a value from a set. Made by [`Node::remove`].
    RemoveRequest { told: Told } -> Result<Removed, StoreError>, run
}

request! {
    /// Reads the values of a set. Made by [`Node::values`].
    ValuesRequest { told: Told } -> Result<Vec<Stored>, StoreError>, run
}

request! {
    /// Asks where the copies of a key are. Made by [`Node::place`].
    PlaceRequest { told: Told } -> Result<Place, StoreError>, run
}

with_level! {
    PutRequest, GetRequest, ExistsRequest, DeleteRequest, IncrementRequest, TtlRequest, ExpireRequest, AddRequest,
    RemoveRequest, ValuesRequest
}
with_conditions! { PutRequest, DeleteRequest, IncrementRequest, ExpireRequest }

impl PutRequest {
    /// Lets the value end after so long.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.told.set_ttl(ttl);
        self
    }

    /// Only if the key has no value yet; otherwise [`StoreError::ConditionFailed`].
    pub fn if_absent(mut self) -> Self {
        self.told.set_condition(Condition::Absent);
        self
    }

    async fn run(self) -> Result<Written, StoreError> {
        written(&self.told.ask(&self.handle, self.within).await?)
    }
}

impl GetRequest {
    async fn run(self) -> Result<Option<Stored>, StoreError> {
        read(self.told.ask(&self.handle, self.within).await?)
    }
}

impl ExistsRequest {
    async fn run(self) -> Result<bool, StoreError> {
        match self.told.clone().ask(&self.handle, self.within).await {
            Ok(answer) => Ok(read(answer)?.is_some()),
            // It is a set, and that counts if there is something in it.
            Err(StoreError::WrongKind) => {
                let told = Told { action: Action::Members, ..self.told };
                let answer = told.ask(&self.handle, self.within).await?;
                Ok(matches!(answer.found, Found::Members(values) if !values.is_empty()))
            }
            Err(error) => Err(error),
        }
    }
}

impl DeleteRequest {
    async fn run(self) -> Result<Removed, StoreError> {
        removed(&self.told.ask(&self.handle, self.within).await?, true)
    }
}

impl IncrementRequest {
    async fn run(self) -> Result<Counted, StoreError> {
        counted(&self.told.ask(&self.handle, self.within).await?)
    }
}

impl TtlRequest {
    async fn run(self) -> Result<Lifetime, StoreError> {
        let stored = read(self.told.ask(&self.handle, self.within).await?)?;
        Ok(match stored.map(|stored| stored.expires) {
            None => Lifetime::Absent,
            Some(None) => Lifetime::Endless,
            Some(Some(until)) => Lifetime::Until(until),
        })
    }
}

impl ExpireRequest {
    async fn run(self) -> Result<Written, StoreError> {
        match self.told.ask(&self.handle, self.within).await {
            Ok(answer) => written(&answer),
            Err(StoreError::ConditionFailed { current: None }) => Err(StoreError::NotFound),
            Err(error) => Err(error),
        }
    }
}

impl AddRequest {
    /// Lets the value end after so long.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.told.set_ttl(ttl);
        self
    }

    async fn run(self) -> Result<Written, StoreError> {
        written(&self.told.ask(&self.handle, self.within).await?)
    }
}

impl RemoveRequest {
    async fn run(self) -> Result<Removed, StoreError> {
        removed(&self.told.ask(&self.handle, self.within).await?, false)
    }
}

impl ValuesRequest {
    async fn run(self) -> Result<Vec<Stored>, StoreError> {
        match self.told.ask(&self.handle, self.within).await?.found {
            Found::Members(values) => Ok(values.into_iter().map(Stored::from).collect()),
            _ => Err(unfitting()),
        }
    }
}

impl PlaceRequest {
    async fn run(self) -> Result<Place, StoreError> {
        placed(self.told.ask(&self.handle, self.within).await?)
    }
}

impl Node {
    /// Stores a value under a key, in place of whatever was there.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(node: kringle::Node) -> Result<(), kringle::Error> {
    /// let first = node.put("greeting", "hello ring").ttl(Duration::from_secs(600)).await?;
    /// println!("stored as {} by {} of {} copies", first.version, first.copies.acked, first.copies.all);
    ///
    /// // Only if nobody else has changed it meanwhile.
    /// match node.put("greeting", "hello again").if_version(first.version).await {
    ///     Ok(second) => assert!(second.version > first.version),
    ///     Err(kringle::StoreError::ConditionFailed { current }) => println!("it is at {current:?}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> PutRequest {
        let told = Told::change(key, Change::Put { value: value.into(), ttl: None });
        PutRequest { handle: self.handle.clone(), within: WITHIN, told }
    }

    /// Reads the value under a key; `None` if there is none.
    ///
    /// ```no_run
    /// # async fn example(node: kringle::Node) -> Result<(), kringle::Error> {
    /// if let Some(found) = node.get("greeting").level(kringle::Level::One).await? {
    ///     println!("{} bytes at version {}", found.value.len(), found.version);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> GetRequest {
        GetRequest { handle: self.handle.clone(), within: WITHIN, told: Told::new(key, Action::Get) }
    }

    /// Asks whether a key has a value or a set.
    pub fn exists(&self, key: impl AsRef<[u8]>) -> ExistsRequest {
        ExistsRequest { handle: self.handle.clone(), within: WITHIN, told: Told::new(key, Action::Get) }
    }

    /// Removes the value, or the whole set, under a key. There need not be any.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> DeleteRequest {
        let told = Told::change(key, Change::Delete);
        DeleteRequest { handle: self.handle.clone(), within: WITHIN, told }
    }

    /// Makes the decimal number under a key greater by so much. A key without a value counts as 0.
    ///
    /// ```no_run
    /// # async fn example(node: kringle::Node) -> Result<(), kringle::Error> {
    /// let visits = node.increment("visits", 1).await?.number;
    /// # Ok(())
    /// # }
    /// ```
    pub fn increment(&self, key: impl AsRef<[u8]>, by: i64) -> IncrementRequest {
        let told = Told::change(key, Change::Increment(by));
        IncrementRequest { handle: self.handle.clone(), within: WITHIN, told }
    }

    /// Asks how long the value under a key stays.
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> TtlRequest {
        TtlRequest { handle: self.handle.clone(), within: WITHIN, told: Told::new(key, Action::Get) }
    }

    /// Lets the value under a key end after so long. [`StoreError::NotFound`] if there is none.
    pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> ExpireRequest {
        let told = Told::change(key, Change::Expire(Some(ttl)));
        ExpireRequest { handle: self.handle.clone(), within: WITHIN, told }
    }

    /// Lets the value under a key stay. [`StoreError::NotFound`] if there is none.
    pub fn persist(&self, key: impl AsRef<[u8]>) -> ExpireRequest {
        let told = Told::change(key, Change::Expire(None));
        ExpireRequest { handle: self.handle.clone(), within: WITHIN, told }
    }

    /// Adds a value to the set under a key. [`Written::created`] says whether it is new.
    ///
    /// ```no_run
    /// # async fn example(node: kringle::Node) -> Result<(), kringle::Error> {
    /// node.add("room", "ada").await?;
    /// node.add("room", "grace").await?;
    /// node.remove("room", "ada").await?;
    /// assert_eq!(node.values("room").await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn add(&self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> AddRequest {
        let value = value.into();
        let told = Told::new(key, Action::Add { digest: digest_of(&value), value, ttl: None });
        AddRequest { handle: self.handle.clone(), within: WITHIN, told }
    }

    /// Removes a value from the set under a key. It need not be there.
    pub fn remove(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> RemoveRequest {
        let told = Told::new(key, Action::Remove { digest: digest_of(value) });
        RemoveRequest { handle: self.handle.clone(), within: WITHIN, told }
    }

    /// Reads the values of the set under a key, in no order that means anything. None if there is no set.
    pub fn values(&self, key: impl AsRef<[u8]>) -> ValuesRequest {
        ValuesRequest { handle: self.handle.clone(), within: WITHIN, told: Told::new(key, Action::Members) }
    }

    /// Asks which nodes hold a key, and which version each has.
    pub fn place(&self, key: impl AsRef<[u8]>) -> PlaceRequest {
        PlaceRequest { handle: self.handle.clone(), within: WITHIN, told: Told::new(key, Action::Place) }
    }
}

impl Copies {
    fn of(answer: &Answer) -> Copies {
        Copies { acked: answer.acked, wanted: answer.wanted, all: answer.replicas }
    }
}

impl From<kringle_core::store::op::Value> for Stored {
    fn from(value: kringle_core::store::op::Value) -> Stored {
        Stored { value: value.bytes, version: value.version, expires: value.expires.map(moment) }
    }
}

pub(crate) fn moment(at_ms: u64) -> SystemTime {
    let far = || UNIX_EPOCH + Duration::from_secs(u32::MAX.into());
    UNIX_EPOCH.checked_add(Duration::from_millis(at_ms)).unwrap_or_else(far)
}

/// A node that answers another question than it was asked. It can not happen with one version of this crate.
pub(crate) fn unfitting() -> StoreError {
    StoreError::Request(RequestError::Ended)
}

pub(crate) fn written(answer: &Answer) -> Result<Written, StoreError> {
    match answer.found {
        Found::Changed { version, created, .. } => {
            Ok(Written { version, created, copies: Copies::of(answer), hops: answer.hops })
        }
        _ => Err(unfitting()),
    }
}

/// The answer to the removal of a key says whether there was nothing, that of a value of a set whether there was
/// something.
pub(crate) fn removed(answer: &Answer, whole: bool) -> Result<Removed, StoreError> {
    let Written { created, copies, hops, .. } = written(answer)?;
    Ok(Removed { existed: created != whole, copies, hops })
}

pub(crate) fn counted(answer: &Answer) -> Result<Counted, StoreError> {
    match answer.found {
        Found::Changed { number: Some(number), .. } => Ok(Counted { number, written: written(answer)? }),
        _ => Err(unfitting()),
    }
}

pub(crate) fn read(answer: Answer) -> Result<Option<Stored>, StoreError> {
    match answer.found {
        Found::Value(value) => Ok(value.map(Stored::from)),
        _ => Err(unfitting()),
    }
}

fn placed(answer: Answer) -> Result<Place, StoreError> {
    let Found::Place { slot, epoch, copies } = answer.found else { return Err(unfitting()) };
    let state = |version: Option<Version>| match version {
        None => CopyState::Silent,
        Some(Version::ZERO) => CopyState::Nothing,
        Some(version) => CopyState::At(version),
    };
    let copies = copies.iter().map(|copy| CopyOf { node: copy.node, state: state(copy.version) });
    Ok(Place { slot, epoch, copies: copies.collect() })
}

#[cfg(test)]
#[path = "storing/tests.rs"]
mod tests;
