//! Many operations on the store at once.

use std::collections::HashMap;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use kringle_core::store::op::{Action, Answer, Change, Found, Level};
use kringle_runtime::handle::Handle;
use kringle_runtime::key::digest_of;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::error::StoreError;
use crate::node::Node;
use crate::request::{Pending, WITHIN, request};
use crate::storing::{Counted, Removed, Stored, Told, Written, counted, read, removed, written};

/// How many operations run at the same time.
const WINDOW: usize = 64;

/// Operations to be done together. Those of one key are done in their order; others at the same time.
///
/// It is no transaction: each is done or not on its own.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    told: Vec<Told>,
}

impl Batch {
    /// Starts an empty one.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Returns how many operations there are.
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// Says whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Stores a value. Answers [`Outcome::Written`].
    #[must_use]
    pub fn put(self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> Batch {
        self.with(Told::change(key, Change::Put { value: value.into(), ttl: None }))
    }

    /// Stores a value that ends after so long. Answers [`Outcome::Written`].
    #[must_use]
    pub fn put_for(self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>, ttl: Duration) -> Batch {
        self.with(Told::change(key, Change::Put { value: value.into(), ttl: Some(ttl) }))
    }

    /// Reads a value. Answers [`Outcome::Value`].
    #[must_use]
    pub fn get(self, key: impl AsRef<[u8]>) -> Batch {
        self.with(Told::new(key, Action::Get))
    }

    /// Removes whatever is under a key. Answers [`Outcome::Removed`].
    #[must_use]
    pub fn delete(self, key: impl AsRef<[u8]>) -> Batch {
        self.with(Told::change(key, Change::Delete))
    }

    /// Makes a number greater. Answers [`Outcome::Counted`].
    #[must_use]
    pub fn increment(self, key: impl AsRef<[u8]>, by: i64) -> Batch {
        self.with(Told::change(key, Change::Increment(by)))
    }

    /// Adds a value to a set. Answers [`Outcome::Written`].
    #[must_use]
    pub fn add(self, key: impl AsRef<[u8]>, value: impl Into<Vec<u8>>) -> Batch {
        let value = value.into();
        self.with(Told::new(key, Action::Add { digest: digest_of(&value), value, ttl: None }))
    }

    /// Removes a value from a set. Answers [`Outcome::Removed`].
    #[must_use]
    pub fn remove(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Batch {
        self.with(Told::new(key, Action::Remove { digest: digest_of(value) }))
    }

    /// Reads the values of a set. Answers [`Outcome::Values`].
    #[must_use]
    pub fn values(self, key: impl AsRef<[u8]>) -> Batch {
        self.with(Told::new(key, Action::Members))
    }

    fn with(mut self, told: Told) -> Batch {
        self.told.push(told);
        self
    }
}

/// What came of one operation of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A value was stored or added.
    Written(Written),
    /// Something was removed, or was not there.
    Removed(Removed),
    /// A number was counted.
    Counted(Counted),
    /// The value, if there is one.
    Value(Option<Stored>),
    /// The values of a set.
    Values(Vec<Stored>),
}

impl Outcome {
    /// Makes it of an answer. A removal is of a whole key, or not.
    pub(crate) fn of(removes: Option<bool>, answer: Answer) -> Result<Outcome, StoreError> {
        if let Some(whole) = removes {
            return removed(&answer, whole).map(Outcome::Removed);
        }
        match &answer.found {
            Found::Changed { number: Some(_), .. } => counted(&answer).map(Outcome::Counted),
            Found::Changed { .. } => written(&answer).map(Outcome::Written),
            Found::Members(values) => Ok(Outcome::Values(values.iter().cloned().map(Stored::from).collect())),
            _ => read(answer).map(Outcome::Value),
        }
    }
}

request! {
    /// Does many operations. Made by [`Node::batch`]. Needs a Tokio runtime.
    BatchRequest { batch: Batch, level: Level } -> Vec<Result<Outcome, StoreError>>, run
}

impl Node {
    /// Does many operations, 64 at a time, and returns what came of each, in their order. `within` is for each of them.
    ///
    /// ```no_run
    /// # async fn example(node: kringle::Node) -> Result<(), kringle::Error> {
    /// let batch = kringle::Batch::new().put("a", "1").put("b", "2").get("a");
    /// for outcome in node.batch(batch).await {
    ///     println!("{:?}", outcome?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch(&self, batch: Batch) -> BatchRequest {
        BatchRequest { handle: self.handle.clone(), within: WITHIN, batch, level: Level::default() }
    }
}

impl BatchRequest {
    /// Waits for so many copies instead of more than half, in every operation.
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    async fn run(self) -> Vec<Result<Outcome, StoreError>> {
        let BatchRequest { handle, within, batch, level } = self;
        let room = Arc::new(Semaphore::new(WINDOW));
        let mut running = JoinSet::new();
        for chain in chains(&batch) {
            let told: Vec<(usize, Told)> =
                chain.into_iter().map(|at| (at, Told { level, ..batch.told[at].clone() })).collect();
            // It is never closed, so there is always a place some time.
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
            running.spawn(one_by_one(handle.clone(), told, within, place));
        }
        let mut outcomes: Vec<Option<Result<Outcome, StoreError>>> = vec![None; batch.len()];
        while let Some(done) = running.join_next().await {
            for (at, outcome) in done.unwrap_or_default() {
                outcomes[at] = Some(outcome);
            }
        }
        let lost = || Err(StoreError::Request(kringle_runtime::RequestError::Ended));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(lost)).collect()
    }
}

type Outcomes = Vec<(usize, Result<Outcome, StoreError>)>;

async fn one_by_one(
    handle: Handle,
    told: Vec<(usize, Told)>,
    within: Duration,
    place: tokio::sync::OwnedSemaphorePermit,
) -> Outcomes {
    let mut outcomes = Vec::with_capacity(told.len());
    for (at, told) in told {
        let removes = match told.action {
            Action::Remove { .. } => Some(false),
            Action::Change { change: Change::Delete, .. } => Some(true),
            _ => None,
        };
        let answer = told.ask(&handle, within).await;
        outcomes.push((at, answer.and_then(|answer| Outcome::of(removes, answer))));
    }
    drop(place);
    outcomes
}

/// Returns the places of the operations of each key, the keys by where they come first.
pub(crate) fn chains(batch: &Batch) -> Vec<Vec<usize>> {
    let (mut chains, mut known): (Vec<Vec<usize>>, HashMap<&[u8], usize>) = (Vec::new(), HashMap::new());
    for (at, told) in batch.told.iter().enumerate() {
        let chain = *known.entry(&told.name.bytes).or_insert(chains.len());
        match chains.get_mut(chain) {
            Some(chain) => chain.push(at),
            None => chains.push(vec![at]),
        }
    }
    chains
}
