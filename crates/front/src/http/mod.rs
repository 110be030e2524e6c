//! HTTP with JSON: the port that the command line, scripts and programs use.
//!
//! [`serve`] runs HTTP/1.1 on a listener, on whatever tokio runtime it is called in. Nobody is asked for a name here: a
//! port that is not on loopback is the caller's decision. Every wait has an end and every amount a limit, all in
//! [`Options`]; other hosts' names and other sites' pages are refused (`guard`). HTTP/2 is left out on purpose.

mod admin;
mod answer;
mod connection;
mod events;
mod guard;
mod input;
mod look;
mod messages;
mod router;
mod store;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::target::Target;
use guard::Guard;
use router::Desk;

pub use answer::{EXPIRES, HOPS, NODE, REPLICAS, ROOT};
pub use input::{DEADLINE, DEADLINE_MAX, KEY_MAX};
pub use look::{SURVEY, SURVEY_MAX};
pub use store::{BATCH_MAX, LINES_MAX, PAGE, PAGE_MAX, TTL_MAX};

/// The port of HTTP if nobody says otherwise.
pub const PORT: u16 = 7480;

/// Connections that are told there is no room, at a time; more are closed without a word.
const REFUSALS: usize = 64;
/// How long to wait after the system refused to accept, which it does when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a port does and how long it waits.
#[derive(Clone, Debug)]
pub struct Options {
    /// What `GET /v1/config` tells: an object. Whoever passes it leaves out secrets.
    pub config: serde_json::Value,
    /// Names this port answers for besides those of loopback and the address it is bound to.
    pub hosts: Vec<String>,
    /// Answers for every name. Then a web page can reach the node through a name of its own.
    pub any_host: bool,
    /// Connections at a time. More get 503.
    pub connections: usize,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub header_wait: Duration,
    /// How long a body may be silent before the minimum rate of 1 KiB per second counts.
    pub body_wait: Duration,
    /// How long a client may take nothing of what it asked for.
    pub write_wait: Duration,
    /// How often followers of events hear something.
    pub ping: Duration,
    /// How long requests under way may take when the port closes.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            config: serde_json::Value::Null,
            hosts: Vec::new(),
            any_host: false,
            connections: 1000,
            header_wait: Duration::from_secs(10),
            body_wait: Duration::from_secs(10),
            write_wait: Duration::from_secs(30),
            ping: Duration::from_secs(15),
            drain: Duration::from_secs(5),
        }
    }
}

/// An open port. Dropping it closes the port as [`Server::stop`] does, without waiting for it.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port, lets requests under way end, and ends what takes longer than the options allow. Followers of
    /// events are ended at once.
    pub async fn stop(self) {
        let Server { stop, task, .. } = self;
        drop(stop);
        // It fails only if it panicked, and then it has ended too.
        let _ = task.await;
    }
}

/// Opens the port: answers requests on `listener` for the node `target` names at the time.
pub fn serve(listener: TcpListener, target: impl Into<Target>, options: Options) -> io::Result<Server> {
    let address = listener.local_addr()?;
    let guard = Guard::new(address, &options.hosts, options.any_host);
    let (stop, stopped) = watch::channel(());
    let desk = Desk::new(target.into(), guard, options.clone(), stopped.clone());
    let task = tokio::spawn(accept(listener, desk, Arc::new(options), stopped));
    Ok(Server { address, stop, task })
}

async fn accept(listener: TcpListener, desk: Desk, options: Arc<Options>, mut stop: watch::Receiver<()>) {
    let refusals = (options.connections / 4).clamp(1, REFUSALS);
    let (room, refusals) =
        (Arc::new(Semaphore::new(options.connections)), Arc::new(Semaphore::new(refusals)));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
            _ = stop.changed() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a client connection was not accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Ok(place) = Arc::clone(&room).try_acquire_owned() {
            let (desk, options, stop) = (desk.clone(), Arc::clone(&options), stop.clone());
            open.spawn(async move {
                connection::serve(stream, desk, &options, stop).await;
                drop(place);
            });
        } else if let Ok(place) = Arc::clone(&refusals).try_acquire_owned() {
            open.spawn(async move {
                connection::refuse(stream).await;
                drop(place);
            });
        }
    }
    drop(listener);
    let all = async { while open.join_next().await.is_some() {} };
    // Whoever is not done by then is cut off when `open` is dropped.
    let _ = timeout(options.drain, all).await;
}
