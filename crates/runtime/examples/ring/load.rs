//! What a node does to measure itself: as much as it can, or one thing after the other beside a bare connection.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::id::{Id, Key, NodeId};
use kringle_runtime::Handle;
use kringle_runtime::identity::Identity;
use kringle_runtime::transport::tls::Tls;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_local};

use super::protocol::PURPOSE;

/// How long one message or lookup of a measurement may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// What was done as fast as possible.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) done: u64,
    pub(crate) hops: u64,
    pub(crate) errors: u64,
    pub(crate) micros: u64,
    pub(crate) worst_us: u64,
}

/// How long lookups took, one after the other, and bare round trips between them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pace {
    pub(crate) lookups_us: Vec<f64>,
    pub(crate) bare_us: Vec<f64>,
    pub(crate) hops: u64,
}

/// Draws keys.
pub(crate) struct Keys(SeededDice);

impl Keys {
    pub(crate) fn new(seed: u64) -> Keys {
        Keys(SeededDice::new(seed))
    }
}

impl Iterator for Keys {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        Some(Id::new(u128::from(self.0.roll()) << 64 | u128::from(self.0.roll())))
    }
}

/// Keeps so many messages or lookups open for so long.
pub(crate) async fn load(
    node: &Handle,
    outstanding: usize,
    time: Duration,
    bytes: usize,
    seed: u64,
    lookup: bool,
) -> Loaded {
    let total = Rc::new(RefCell::new(Loaded::default()));
    let keys = Rc::new(RefCell::new(Keys::new(seed)));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..outstanding {
        let (node, total, keys) = (node.clone(), total.clone(), keys.clone());
        workers.spawn_local(async move {
            while start.elapsed() < time {
                let Some(key) = keys.borrow_mut().next() else { return };
                let asked = Instant::now();
                let hops = match lookup {
                    true => node.owner(key, DEADLINE).await.map(|(_, hops)| hops),
                    false => {
                        node.route(key, PURPOSE + 1, vec![7; bytes], DEADLINE).await.map(|done| done.hops)
                    }
                };
                let total = &mut *total.borrow_mut();
                let took = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
                total.worst_us = total.worst_us.max(took);
                match hops {
                    Ok(hops) => {
                        total.done += 1;
                        total.hops += u64::from(hops);
                    }
                    Err(_) => total.errors += 1,
                }
            }
        });
    }
    while workers.join_next().await.is_some() {}
    let mut total = total.borrow().clone();
    total.micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    total
}

/// Sends back what comes over bare TLS connections, until the process ends.
pub(crate) async fn echo() -> std::io::Result<SocketAddr> {
    let tls = Tls::new(&Identity::generate()?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    spawn_local(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let tls = tls.clone();
            spawn_local(async move {
                let _ = socket.set_nodelay(true);
                let Ok((mut stream, _)) = tls.accept(socket).await else { return };
                let mut buffer = vec![0; 4096];
                while let Ok(count) = stream.read(&mut buffer).await {
                    if count == 0 || stream.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                    let _ = stream.flush().await;
                }
            });
        }
    });
    Ok(address)
}

/// Looks up keys of other nodes one after the other; after each, sends as many bytes there and back over a bare connection.
pub(crate) async fn pace(
    node: &Handle,
    echoes: &[(String, SocketAddr)],
    rounds: usize,
    bytes: usize,
    seed: u64,
) -> Result<Pace, String> {
    let tls = Tls::new(&Identity::generate().map_err(|error| error.to_string())?);
    let mut bare = HashMap::new();
    for (id, address) in echoes {
        let id: NodeId = id.parse().map_err(|error| format!("{error}"))?;
        let socket = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        let (stream, _) = tls.connect(socket, None).await.map_err(|error| error.to_string())?;
        bare.insert(id, stream);
    }
    let mut pace = Pace::default();
    let mut keys = Keys::new(seed);
    let mut buffer = vec![7; bytes];
    let micros = |since: Instant| since.elapsed().as_nanos() as f64 / 1e3;
    while pace.lookups_us.len() < rounds {
        let Some(key) = keys.next() else { break };
        let start = Instant::now();
        let (root, hops) = node.owner(key, DEADLINE).await.map_err(|error| error.to_string())?;
        let took = micros(start);
        // What this node answers itself crosses no network.
        if root == node.id() {
            continue;
        }
        let Some(stream) = bare.get_mut(&root) else { return Err(format!("{root} is not known here")) };
        pace.lookups_us.push(took);
        pace.hops += u64::from(hops);
        let start = Instant::now();
        let there_and_back = async {
            stream.write_all(&buffer).await?;
            stream.flush().await?;
            stream.read_exact(&mut buffer).await
        };
        there_and_back.await.map_err(|error| error.to_string())?;
        pace.bare_us.push(micros(start));
    }
    Ok(pace)
}
