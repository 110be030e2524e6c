//! Does what was typed.

use std::time::Duration;

use kringle::{IntoKey, Key, MessageError, Node, RequestError};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use super::command::{Command, HELP};
use super::data;
use super::journal::Journal;
use super::port::Port;
use super::ring::{Member, NODES_MAX, PURPOSE, Ring};
use super::show;
use crate::failure::Failure;
use crate::show::node;
use crate::show::way::{self, Way};

/// How long a question may take. Longer than it takes to get over a crash.
const WAIT: Duration = Duration::from_secs(10);
/// How long new nodes may take to join.
const GROW: Duration = Duration::from_secs(60);
/// Copies a key will have; for now, the nodes that would hold them.
const REPLICAS: usize = 3;

/// What comes after a command.
pub(crate) enum Next {
    /// This is printed, and the next line read.
    Answer(String),
    /// The demo ends.
    Quit,
}

/// A running demo.
pub(crate) struct Session {
    ring: Ring,
    port: Option<Port>,
    journal: Journal,
    /// Numbers of nodes that have ended, in whichever way.
    ended: (mpsc::UnboundedSender<usize>, mpsc::UnboundedReceiver<usize>),
}

impl Session {
    /// Takes over a ring that is ready.
    pub(crate) fn new(ring: Ring, port: Option<Port>) -> Session {
        let session = Session { ring, port, journal: Journal::default(), ended: mpsc::unbounded_channel() };
        session.ring.members().iter().for_each(|member| session.follow(member));
        session
    }

    fn follow(&self, member: &Member) {
        self.journal.follow(member);
        let (node, number, tell) = (member.node.clone(), member.number, self.ended.0.clone());
        spawn_local(async move {
            node.ended().await;
            // Nobody listens when the demo ends.
            let _ = tell.send(number);
        });
    }

    /// Waits until a node has ended that nobody ended here: whoever reaches the port can end the one behind it. Another
    /// one takes its place.
    pub(crate) async fn lose_one(&mut self) -> Result<(), Failure> {
        let Some(number) = self.ended.1.recv().await else { return std::future::pending().await };
        if self.ring.members().iter().any(|member| member.number == number) {
            self.ring.remove(number, 1).map_err(|_| {
                Failure::failed("the last node was ended from outside", "Start again: kringle demo")
            })?;
            self.move_port().await;
        }
        Ok(())
    }

    async fn move_port(&self) {
        if let Some(port) = &self.port {
            port.answer_with(self.ring.here().node.handle()).await;
        }
    }

    /// Ends every node.
    pub(crate) async fn end(&mut self) {
        self.ring.end().await;
    }

    /// Does what was typed.
    pub(crate) async fn execute(&mut self, command: Command) -> Result<Next, Failure> {
        let answer = match command {
            Command::Nothing => String::new(),
            Command::Help => HELP.to_owned(),
            Command::Quit => return Ok(Next::Quit),
            Command::Status => self.status().await?,
            Command::Ring => show::ring(&self.survey().await?),
            Command::Lookup(key) => self.lookup(&key).await?,
            Command::Trace(key) => self.trace(&key).await?,
            Command::Route(key, text) => self.route(&key, text).await?,
            Command::Store(wish) => data::grant(wish, self.here(), &self.ring).await?,
            Command::Spawn(count) => self.spawn(count).await?,
            Command::Kill(text) => self.kill(&text).await?,
            Command::Leave(text) => self.leave(&text).await?,
            Command::Node(text) => {
                let summary = self.ring.find(&text)?.node.summary().await;
                node::details(&summary.map_err(|error| unanswered(&error))?)
            }
            Command::Table(text) => {
                let tables = self.member(text)?.node.tables().await;
                node::tables(&tables.map_err(|error| unanswered(&error))?, false).unwrap_or_default()
            }
            Command::Peers(text) => {
                let peers = self.member(text)?.node.peers().await;
                show::peers(&peers.map_err(|error| unanswered(&error))?, &self.ring)
            }
            Command::Events(follow) => self.events(follow).await,
        };
        Ok(Next::Answer(answer))
    }

    /// Returns the node that was named, or the one that is asked if none was.
    fn member(&self, text: Option<String>) -> Result<&Member, Failure> {
        text.map_or(Ok(self.ring.here()), |text| self.ring.find(&text))
    }

    pub(super) fn here(&self) -> &Node {
        &self.ring.here().node
    }

    async fn survey(&self) -> Result<kringle::Survey, Failure> {
        self.here().survey().within(WAIT).await.map_err(|error| unanswered(&error))
    }

    async fn status(&self) -> Result<String, Failure> {
        let survey = self.survey().await?;
        let me = self.here().summary().await.map_err(|error| unanswered(&error))?;
        Ok(show::status(&me, &survey))
    }

    async fn lookup(&self, key: &str) -> Result<String, Failure> {
        let id = key_id(key)?;
        let hit = self.here().lookup(id).within(WAIT).await.map_err(|error| unanswered(&error))?;
        Ok(show::lookup(key, id, &hit, &self.ring))
    }

    async fn trace(&self, key: &str) -> Result<String, Failure> {
        let id = key_id(key)?;
        let found = self.here().trace(id).within(WAIT).await.map_err(|error| unanswered(&error))?;
        // The root knows best who is beside it.
        let root = self.ring.by_id(&found.root).map_or(self.here(), |member| &member.node);
        let replicas = root.replicas(id, REPLICAS).await.unwrap_or_default();
        let replicas: Vec<String> = replicas.iter().map(ToString::to_string).collect();
        let me = self.here().summary().await.map_err(|error| unanswered(&error))?;
        Ok(way::trace(&Way {
            text: Some(key),
            found: &found,
            replicas: &replicas,
            origin: Some(&me),
            nodes: Some(self.ring.members().len()),
            long: false,
            iterative: false,
        }))
    }

    async fn route(&self, key: &str, text: String) -> Result<String, Failure> {
        let id = key_id(key)?;
        let began = std::time::Instant::now();
        let sent = self.here().route(id, text).purpose(PURPOSE).within(WAIT).await;
        let delivered = sent.map_err(|error| match error {
            MessageError::Request(error) => unanswered(&error),
            error => Failure::failed(error.to_string(), "That should not happen; please tell us."),
        })?;
        Ok(show::delivered(&delivered, began.elapsed(), &self.ring))
    }

    async fn spawn(&mut self, count: usize) -> Result<String, Failure> {
        let room = NODES_MAX.saturating_sub(self.ring.members().len());
        if count > room {
            return Err(Failure::usage(
                format!("a demo has at most {NODES_MAX} nodes; there is room for {room} more"),
                "Write a smaller number, or end some first: kill NODE",
            ));
        }
        let began = std::time::Instant::now();
        let mut silent = |_| {};
        let new = tokio::time::timeout(GROW, self.ring.grow(count, &mut silent)).await.map_err(|_| {
            Failure::failed(
                format!("not everybody has joined within {} seconds", GROW.as_secs()),
                "Look with 'status': the ring may be healing.",
            )
        })??;
        new.iter().for_each(|member| self.follow(member));
        Ok(show::spawned(&new, began.elapsed(), self.ring.members().len()))
    }

    async fn kill(&mut self, text: &str) -> Result<String, Failure> {
        let member = self.take(text, 2).await?;
        member.node.handle().kill().await;
        let healed = self.ring.healed().await?;
        Ok(format!("{} crashed.  ring repaired in {}\n", member.title(), show::span(healed)))
    }

    async fn leave(&mut self, text: &str) -> Result<String, Failure> {
        let member = self.take(text, 1).await?;
        member.node.leave().await.map_err(|error| unanswered(&error))?;
        let healed = self.ring.healed().await?;
        Ok(format!("{} said goodbye.  ring closed in {}\n", member.title(), show::span(healed)))
    }

    /// Takes a node out of the list, if so many remain; if it was the one behind the port, another one answers from now on.
    async fn take(&mut self, text: &str, remaining: usize) -> Result<Member, Failure> {
        let number = self.ring.find(text)?.number;
        let member = self.ring.remove(number, remaining)?;
        self.move_port().await;
        Ok(member)
    }

    async fn events(&self, follow: Duration) -> String {
        let mut out = String::new();
        let until = tokio::time::Instant::now() + follow;
        loop {
            let (lost, entries) = self.journal.take();
            if lost > 0 {
                out.push_str(&format!("{lost} earlier events are not kept\n"));
            }
            out.extend(entries.iter().map(show::event));
            if tokio::time::timeout_at(until, self.journal.written()).await.is_err() {
                break;
            }
        }
        if out.is_empty() { "nothing has happened since the last time\n".into() } else { out }
    }
}

fn key_id(key: &str) -> Result<Key, Failure> {
    match key.is_empty() {
        true => {
            Err(Failure::usage("a key has at least one byte", "Write some text, for instance: trace hello"))
        }
        false => Ok(key.into_key()),
    }
}

fn unanswered(error: &RequestError) -> Failure {
    let remedy = match error {
        RequestError::Timeout | RequestError::NoRoute => {
            "The ring may be healing; look with 'status' and try again."
        }
        RequestError::TooLarge { .. } => "Send less.",
        _ => "Look with 'status' and try again.",
    };
    Failure::failed(error.to_string(), remedy)
}
