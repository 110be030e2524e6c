//! A running node, from outside: ask it, follow it, end it.
//!
//! A handle is a cheap clone and can be used from any thread and any runtime. Dropping the future of a request
//! cancels the waiting; what was sent is not called back. Dropping every handle does not stop the node; `stop` does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kringle_core::config::{ConfigError, OverlayKind};
use kringle_core::edge::{Command, Failure, Reply};
use kringle_core::id::{Base, Key, NodeId};
use kringle_core::message::{App, Rule};
use kringle_core::store::RecoveryPlan;
use kringle_core::store::op::{Answer, Ask};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::describe::{self, View};
use crate::engine::Scrub;
use crate::error::RequestError;
use crate::readiness::Cause;
use crate::report::{Delivered, Event, Found, Hop, Peer, Summary, Survey, Tables, TokenReport, What};
use crate::seeds::Seed;

/// Requests that may wait for the node's thread; more make the caller wait.
pub(crate) const CALLS_MAX: usize = 1024;
/// Events a slow reader may be behind before it misses some.
pub(crate) const EVENTS_MAX: usize = 256;
/// How many nodes a survey asks at the same time.
const SURVEY_ABREAST: usize = 32;

/// What does not change while a node runs.
#[derive(Clone, Debug)]
pub struct Info {
    /// The node's id.
    pub id: NodeId,
    /// Which life of this identity it is.
    pub incarnation: u32,
    /// The name of its cluster.
    pub cluster: String,
    /// Where it really listens for peers.
    pub bound: Vec<SocketAddr>,
    /// Where it tells peers to reach it.
    pub advertised: Vec<SocketAddr>,
    /// Bytes a message may have.
    pub payload_max: u32,
    /// Whether it was started without anybody to join.
    pub founded: bool,
}

/// How a node ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was told to stop, and will come back as the same node.
    Stopped,
    /// It said goodbye.
    Left,
    /// The same identity runs somewhere else, in a later life.
    Twin {
        /// What is known about the other one.
        what: String,
    },
    /// The cluster it was to join has another name or secret, or another value of a setting that all nodes share.
    WrongCluster {
        /// What differs, and both values.
        what: String,
    },
    /// Every node it was to join turned it away, for a reason that will not go away by itself.
    Refused {
        /// The reason.
        what: String,
    },
    /// Its store and that of the cluster it was to join were founded apart. Its data is untouched.
    FoundedApart {
        /// The two lineages, and how many records each store has.
        what: String,
    },
    /// It was retired for good (`kringle leave ID --dead`): the cluster refuses its id.
    Retired,
    /// It can not go on.
    Failed {
        /// Why.
        what: String,
    },
}

/// A running node.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) info: Info,
    pub(crate) calls: mpsc::Sender<Call>,
    pub(crate) events: broadcast::Sender<Arc<Event>>,
    pub(crate) ended: watch::Receiver<Option<Ending>>,
    pub(crate) ready: watch::Receiver<bool>,
}

/// What a handle asks of the node's thread.
pub(crate) enum Call {
    Command {
        command: Command,
        reply: oneshot::Sender<Result<Reply, Failure>>,
    },
    Join {
        seeds: Vec<Seed>,
        reply: oneshot::Sender<Result<(), RequestError>>,
    },
    Look(Box<dyn FnOnce(&View<'_>) + Send>),
    Client(Option<String>),
    Token(Chore),
    Scrub {
        start: bool,
        rate: Option<u64>,
        reply: oneshot::Sender<Result<Option<Scrub>, String>>,
    },
    Copies {
        count: u8,
        reply: oneshot::Sender<Result<Result<(), ConfigError>, RequestError>>,
    },
    Leave {
        reply: oneshot::Sender<Result<Reply, Failure>>,
    },
    Stop,
    Kill,
    /// Does something to the driver itself.
    #[cfg(test)]
    Enter(Box<dyn FnOnce(&mut crate::driver::Driver) + Send>),
}

/// What can be done with join tokens.
pub(crate) enum Chore {
    Issue { lifetime: Duration, reply: oneshot::Sender<Result<String, String>> },
    List { reply: oneshot::Sender<Vec<TokenReport>> },
    Revoke { id: String, reply: oneshot::Sender<Result<bool, String>> },
}

impl Handle {
    /// Returns what does not change while the node runs.
    pub fn info(&self) -> &Info {
        &self.shared.info
    }

    /// Returns the node's id.
    pub fn id(&self) -> NodeId {
        self.shared.info.id
    }

    /// Joins the ring of these nodes, or of whoever answers among them; tried again and again until one does. Returns
    /// when the node is ready. If all of them refuse this node for good, it goes on as before.
    ///
    /// A node whose store was founded apart from theirs joins only if it has never had peers and stored nothing: it
    /// drops that store. See [`RequestError::FoundedApart`].
    pub async fn join(&self, seeds: Vec<Seed>) -> Result<(), RequestError> {
        self.ask(|reply| Call::Join { seeds, reply }).await?
    }

    /// Says goodbye and ends the node. Returns when it has ended.
    pub async fn leave(&self) -> Result<(), RequestError> {
        self.call(|reply| Call::Leave { reply }).await?;
        self.ended().await;
        Ok(())
    }

    /// Ends the node without a goodbye: it keeps its identity and may come back. Returns when it has ended.
    pub async fn stop(&self) -> Ending {
        // If nobody listens any more, it has ended already.
        let _ = self.shared.calls.send(Call::Stop).await;
        self.ended().await
    }

    /// Ends the node as a crash would: at once and without a word, for demonstrations and tests of what the others do
    /// about it. Returns when it has ended.
    pub async fn kill(&self) -> Ending {
        let _ = self.shared.calls.send(Call::Kill).await;
        self.ended().await
    }

    /// Waits until the node has ended, and says how.
    pub async fn ended(&self) -> Ending {
        let mut ended = self.shared.ended.clone();
        let ending = ended.wait_for(Option::is_some).await.ok().and_then(|ending| ending.clone());
        ending.unwrap_or(Ending::Failed { what: "its thread is gone".into() })
    }

    /// Waits until the node is part of a ring and may deliver. If the ring refuses the node for good, the node ends and
    /// this says why.
    pub async fn ready(&self) -> Result<(), RequestError> {
        let mut ready = self.shared.ready.clone();
        tokio::select! {
            Ok(_) = ready.wait_for(|ready| *ready) => Ok(()),
            ending = self.ended() => Err(ending.into()),
        }
    }

    /// Returns how many copies of a record the cluster keeps.
    pub async fn copies(&self) -> Result<u8, RequestError> {
        self.look(|view| view.config.replicas).await
    }

    /// Changes how many copies of a record the cluster keeps. All nodes learn of it, and copies are made or dropped. Fails
    /// inside if the leaf set or the successor list of the cluster is too short for so many.
    pub async fn set_copies(&self, count: u8) -> Result<Result<(), ConfigError>, RequestError> {
        self.ask(|reply| Call::Copies { count, reply }).await?
    }

    /// Says whether the node is part of a ring.
    pub fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    /// Asks who answers for a key.
    pub async fn lookup(&self, key: Key, deadline: Duration) -> Result<Found, RequestError> {
        self.find(key, false, deadline).await
    }

    /// Asks who answers for a key, and by which way the question went.
    pub async fn trace(&self, key: Key, deadline: Duration) -> Result<Found, RequestError> {
        self.find(key, true, deadline).await
    }

    /// Chord: asks node after node who answers for a key, instead of letting them pass the question on. The way is told
    /// always. The answer is never final, because the node found is not asked itself.
    pub async fn walk(&self, key: Key, deadline: Duration) -> Result<Found, RequestError> {
        let overlay = self.look(|view| view.config.overlay).await?;
        if overlay != OverlayKind::Chord {
            return Err(RequestError::WrongOverlay);
        }
        self.found(Command::Walk { key, deadline }, key, true).await
    }

    async fn find(&self, key: Key, trace: bool, deadline: Duration) -> Result<Found, RequestError> {
        self.found(Command::Lookup { key, trace, deadline }, key, trace).await
    }

    async fn found(&self, command: Command, key: Key, trace: bool) -> Result<Found, RequestError> {
        let start = Instant::now();
        let reply = self.command(command).await?;
        let Reply::Found { root, hops, path, is_final } = reply else { return Err(RequestError::Ended) };
        let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (endpoints, base) = match trace {
            true => self.look(move |view| (view.endpoints(root.addr), view.config.base)).await?,
            false => (Vec::new(), Base::HEX),
        };
        let path = path.iter().map(|hop| hop_report(key, hop, base)).collect();
        Ok(Found { key: key.to_string(), root: root.id.to_string(), endpoints, hops, is_final, micros, path })
    }

    /// Asks who answers for a key, and returns nothing but the node.
    pub async fn owner(&self, key: Key, deadline: Duration) -> Result<(NodeId, u8), RequestError> {
        match self.command(Command::Lookup { key, trace: false, deadline }).await? {
            Reply::Found { root, hops, .. } => Ok((root.id, hops)),
            _ => Err(RequestError::Ended),
        }
    }

    /// Carries bytes to the application at whoever answers for a key.
    pub async fn route(
        &self,
        key: Key,
        purpose: u32,
        bytes: Vec<u8>,
        deadline: Duration,
    ) -> Result<Delivered, RequestError> {
        self.delivered(Command::Route { key, app: App { purpose, bytes }, deadline }).await
    }

    /// Reads or writes the store.
    pub async fn store(&self, ask: Ask, deadline: Duration) -> Result<Answer, RequestError> {
        match self.command(Command::Store { ask: Box::new(ask), deadline }).await? {
            Reply::Store(answer) => Ok(*answer),
            _ => Err(RequestError::Ended),
        }
    }

    /// Carries bytes to the application at one node.
    pub async fn send(
        &self,
        to: NodeId,
        purpose: u32,
        bytes: Vec<u8>,
        deadline: Duration,
    ) -> Result<Delivered, RequestError> {
        self.delivered(Command::Send { to, app: App { purpose, bytes }, deadline }).await
    }

    async fn delivered(&self, command: Command) -> Result<Delivered, RequestError> {
        match self.command(command).await? {
            Reply::Delivered { root, hops, answer } => Ok(Delivered { root: root.id, hops, answer }),
            _ => Err(RequestError::Ended),
        }
    }

    /// Looks at the node, on its own thread, and returns what was made of it.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let (tell, told) = oneshot::channel();
        let look = Box::new(move |view: &View<'_>| drop(tell.send(look(view))));
        self.shared.calls.send(Call::Look(look)).await.map_err(|_| RequestError::Gone)?;
        told.await.map_err(|_| RequestError::Gone)
    }

    /// Tells about this node at a glance.
    pub async fn summary(&self) -> Result<Summary, RequestError> {
        self.look(|view| view.summary()).await
    }

    /// Returns why this node is not ready to do its part; empty: it is. [`Self::is_ready`] only says that it is part of a
    /// ring.
    pub async fn causes(&self) -> Result<Vec<Cause>, RequestError> {
        self.look(|view| view.causes()).await
    }

    /// Retires a node that will not come back, nor will its disk: views go on without it, and it is refused if it does.
    pub async fn retire(&self, id: NodeId) -> Result<(), RequestError> {
        self.command(Command::Retire { id }).await.map(drop)
    }

    /// Says what a recovery of slots without a quorum would do, or does it.
    pub async fn recover(&self, confirmed: bool) -> Result<RecoveryPlan, RequestError> {
        match self.command(Command::Recover { confirmed }).await? {
            Reply::Recovery(plan) => Ok(*plan),
            other => Err(RequestError::Refused(format!("unexpected reply: {other:?}"))),
        }
    }

    /// Tells about this node's tables.
    pub async fn tables(&self) -> Result<Tables, RequestError> {
        self.look(|view| view.tables()).await
    }

    /// Tells about everybody this node knows.
    pub async fn peers(&self) -> Result<Vec<Peer>, RequestError> {
        self.look(|view| view.peers()).await
    }

    /// Returns the `n` nodes that should hold a key, nearest first, as far as this node can tell.
    pub async fn replicas(&self, key: Key, n: usize) -> Result<Vec<NodeId>, RequestError> {
        self.look(move |view| view.node.replicas(key, n).iter().map(|contact| contact.id).collect()).await
    }

    /// Returns the nodes beside this one, in ring order.
    pub async fn neighbours(&self) -> Result<Vec<NodeId>, RequestError> {
        self.look(|view| view.node.routes().neighbours().iter().map(|contact| contact.id).collect()).await
    }

    /// Asks another node about itself.
    pub async fn summary_of(&self, id: NodeId, deadline: Duration) -> Result<Summary, RequestError> {
        if id == self.id() {
            return self.summary().await;
        }
        describe::read(self.describe(id, describe::SUMMARY, deadline).await?)
    }

    /// Asks another node about its tables.
    pub async fn tables_of(&self, id: NodeId, deadline: Duration) -> Result<Tables, RequestError> {
        if id == self.id() {
            return self.tables().await;
        }
        describe::read(self.describe(id, describe::TABLES, deadline).await?)
    }

    /// Asks another node about everybody it knows.
    pub async fn peers_of(&self, id: NodeId, deadline: Duration) -> Result<Vec<Peer>, RequestError> {
        if id == self.id() {
            return self.peers().await;
        }
        describe::read(self.describe(id, describe::PEERS, deadline).await?)
    }

    pub(crate) async fn describe(
        &self,
        id: NodeId,
        what: &[u8],
        deadline: Duration,
    ) -> Result<Option<Vec<u8>>, RequestError> {
        Ok(self.send(id, describe::PURPOSE, what.to_vec(), deadline).await?.answer)
    }

    /// Asks around the ring until everybody is found, or `most` nodes are.
    ///
    /// Each node that answers names its leaf set, so a ring of any size is walked; every question ends by `deadline`.
    pub async fn survey(&self, most: usize, deadline: Duration) -> Result<Survey, RequestError> {
        let end = Instant::now() + deadline;
        let mut found: BTreeMap<NodeId, Summary> = BTreeMap::new();
        let mut heard: BTreeSet<NodeId> = BTreeSet::from([self.id()]);
        let mut waiting: Vec<NodeId> = Vec::new();
        let mut silent = Vec::new();
        found.insert(self.id(), self.summary().await?);
        let mut learn = |ids: Vec<NodeId>, waiting: &mut Vec<NodeId>| {
            waiting.extend(ids.into_iter().filter(|id| heard.len() < most && heard.insert(*id)));
            heard.len() >= most
        };
        let mut cut = learn(self.neighbours().await?, &mut waiting);
        let mut asking = JoinSet::new();
        loop {
            while asking.len() < SURVEY_ABREAST
                && let Some(id) = waiting.pop()
            {
                let (handle, left) = (self.clone(), end.saturating_duration_since(Instant::now()));
                let wait = left.min(SURVEY_WAIT);
                asking.spawn(async move {
                    let answer = handle.describe(id, describe::SURVEY, wait).await;
                    (id, answer.and_then(describe::read::<(Summary, Vec<String>)>))
                });
            }
            let Some(answer) = asking.join_next().await else { break };
            let Ok((id, answer)) = answer else { continue };
            match answer {
                Ok((summary, leaves)) => {
                    found.insert(id, summary);
                    let ids = leaves.iter().filter_map(|leaf| leaf.parse().ok()).collect();
                    cut |= learn(ids, &mut waiting);
                }
                Err(RequestError::Gone) => return Err(RequestError::Gone),
                Err(_) => silent.push(id.to_string()),
            }
        }
        let nodes: Vec<Summary> = found.into_values().collect();
        let whole = !cut && silent.is_empty() && describe::is_whole(&nodes);
        Ok(Survey { by: self.id().to_string(), nodes, silent, cut, whole })
    }

    /// Follows what happens at this node from now on.
    pub fn events(&self) -> Events {
        Events { from: self.shared.events.subscribe(), last: 0, ended: self.shared.ended.clone() }
    }

    /// Returns all counters in the text format of Prometheus and OpenMetrics.
    pub async fn metrics(&self) -> Result<String, RequestError> {
        self.look(|view| view.metrics()).await
    }

    /// Tells the node where clients reach it, so that it can tell others.
    pub async fn set_client(&self, client: Option<String>) -> Result<(), RequestError> {
        self.shared.calls.send(Call::Client(client)).await.map_err(|_| RequestError::Gone)
    }

    /// Makes a join token that ends after `lifetime`. Fails with the reason if this node can not.
    pub async fn issue_token(&self, lifetime: Duration) -> Result<Result<String, String>, RequestError> {
        self.ask(|reply| Call::Token(Chore::Issue { lifetime, reply })).await
    }

    /// Lists the join tokens this node has made.
    pub async fn list_tokens(&self) -> Result<Vec<TokenReport>, RequestError> {
        self.ask(|reply| Call::Token(Chore::List { reply })).await
    }

    /// Begins to read everything this node stores, to find damage; at `rate` bytes per second, or as configured. Returns
    /// how far that has come: `None` if it stores nothing on a disk. One that is under way goes on.
    pub async fn scrub(&self, rate: Option<u64>) -> Result<Result<Option<Scrub>, String>, RequestError> {
        self.ask(|reply| Call::Scrub { start: true, rate, reply }).await
    }

    /// Tells about the scrub under way, or the last one.
    pub async fn scrub_report(&self) -> Result<Option<Scrub>, RequestError> {
        let told = self.ask(|reply| Call::Scrub { start: false, rate: None, reply }).await?;
        Ok(told.unwrap_or(None))
    }

    /// Revokes a join token of this node. Returns whether there was one.
    pub async fn revoke_token(&self, id: String) -> Result<Result<bool, String>, RequestError> {
        self.ask(|reply| Call::Token(Chore::Revoke { id, reply })).await
    }

    async fn command(&self, command: Command) -> Result<Reply, RequestError> {
        self.call(|reply| Call::Command { command, reply }).await
    }

    async fn call(
        &self,
        call: impl FnOnce(oneshot::Sender<Result<Reply, Failure>>) -> Call,
    ) -> Result<Reply, RequestError> {
        let answer = self.ask(call).await?;
        answer.map_err(|failure| RequestError::of(failure, self.shared.info.payload_max))
    }

    async fn ask<T>(&self, call: impl FnOnce(oneshot::Sender<T>) -> Call) -> Result<T, RequestError> {
        let (tell, told) = oneshot::channel();
        self.shared.calls.send(call(tell)).await.map_err(|_| RequestError::Gone)?;
        told.await.map_err(|_| RequestError::Gone)
    }
}

/// How long a survey waits for one node.
const SURVEY_WAIT: Duration = Duration::from_secs(2);

/// The events of a node, one after the other.
pub struct Events {
    from: broadcast::Receiver<Arc<Event>>,
    last: u64,
    ended: watch::Receiver<Option<Ending>>,
}

impl Events {
    /// Waits for the next event; `None` when the node has ended. A reader that is too slow is told how many it missed.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        let received = tokio::select! {
            biased;
            received = self.from.recv() => received,
            // The handles keep the channel open; and the last events may have come just now.
            _ = self.ended.wait_for(Option::is_some) => match self.from.try_recv() {
                Ok(event) => Ok(event),
                Err(broadcast::error::TryRecvError::Lagged(count)) => Err(broadcast::error::RecvError::Lagged(count)),
                Err(_) => Err(broadcast::error::RecvError::Closed),
            },
        };
        match received {
            Ok(event) => {
                self.last = event.serial;
                Some(event)
            }
            Err(broadcast::error::RecvError::Lagged(count)) => {
                self.last += count;
                let (serial, at_ms) = (self.last, crate::clock::unix_ms());
                Some(Arc::new(Event { serial, at_ms, what: What::Missed { count } }))
            }
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

fn hop_report(key: Key, hop: &kringle_core::message::Hop, base: Base) -> Hop {
    let distance = key.closeness(hop.node.id).distance();
    Hop {
        node: hop.node.id.to_string(),
        rule: rule_text(hop.rule),
        shared: hop.node.id.shared_digits(key, base),
        distance_log2_tenths: (distance > 0).then(|| ((distance as f64).log2() * 10.0).round() as u32),
        rtt_us: describe::rtt(hop.proximity).filter(|_| hop.rule != Rule::Here),
    }
}

fn rule_text(rule: Rule) -> String {
    match rule {
        Rule::LeafSet => "leaf set, numerically closest".into(),
        Rule::Cell { row, column } => format!("routing table row {row}, column {column:x}"),
        Rule::Spare { row, column } => format!("spare of row {row}, column {column:x}"),
        Rule::RareCase => "rare case: a nearer node that shares as many digits".into(),
        Rule::SuccessorList => "successor list: the first at or after the key".into(),
        Rule::Finger { bit: u8::MAX } => "the known node nearest before the key".into(),
        Rule::Finger { bit } => format!("finger {bit}"),
        Rule::Predecessor => "predecessor: one step back".into(),
        Rule::Here => "root".into(),
    }
}
