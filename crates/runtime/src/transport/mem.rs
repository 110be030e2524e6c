//! A network inside the process, for demonstrations and tests: the same frames, the same greetings, no sockets and no
//! encryption. Who is at the other end is known because the hub connects them.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use kringle_core::id::NodeId;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use crate::identity::PublicKey;

/// Connections that may wait to be accepted by one node.
const BACKLOG: usize = 1024;
/// Bytes one end may be ahead of the other.
const BUFFER: usize = 64 * 1024;

/// The nodes of one process that can reach each other.
#[derive(Clone, Default)]
pub struct Hub {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    places: HashMap<SocketAddr, Place>,
    given: u32,
    lives: u32,
}

struct Place {
    key: PublicKey,
    door: mpsc::Sender<(DuplexStream, PublicKey)>,
}

/// A node's place at the hub. Given up when dropped.
pub(crate) struct Doorway {
    pub(crate) address: SocketAddr,
    pub(crate) arrivals: mpsc::Receiver<(DuplexStream, PublicKey)>,
    hub: Hub,
}

impl Hub {
    /// Makes a hub without nodes.
    pub fn new() -> Hub {
        Hub::default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // Nothing that can panic happens under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number larger than every one before, for incarnations.
    pub(crate) fn next_life(&self) -> u32 {
        let mut inner = self.lock();
        inner.lives += 1;
        inner.lives
    }

    /// Takes a place.
    pub(crate) fn enter(&self, key: PublicKey) -> Doorway {
        let mut inner = self.lock();
        inner.given += 1;
        let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + (inner.given & 0x00ff_ffff));
        let address = SocketAddr::from((ip, crate::seeds::PORT));
        let (door, arrivals) = mpsc::channel(BACKLOG);
        inner.places.insert(address, Place { key, door });
        Doorway { address, arrivals, hub: self.clone() }
    }

    /// Connects to whoever is at an address.
    pub(crate) fn dial(
        &self,
        to: SocketAddr,
        me: PublicKey,
        expected: Option<NodeId>,
    ) -> io::Result<(DuplexStream, PublicKey)> {
        let inner = self.lock();
        let place = inner.places.get(&to).ok_or(io::ErrorKind::ConnectionRefused)?;
        if expected.is_some_and(|expected| expected != place.key.id()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "another node is at this address"));
        }
        if place.key == me {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "this is our own address"));
        }
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        place.door.try_send((theirs, me)).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok((ours, place.key))
    }
}

impl Drop for Doorway {
    fn drop(&mut self) {
        self.hub.lock().places.remove(&self.address);
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hub({} nodes)", self.lock().places.len())
    }
}
