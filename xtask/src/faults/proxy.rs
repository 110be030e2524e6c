//! TCP proxies in front of the nodes' peer ports: delay, jitter, stall, bandwidth, broken connections.
//!
//! The kernel may have no `netem`, and a reset in the middle of a frame needs one that counts bytes anyway. Every node
//! advertises its proxy. What is set for a node holds for connections to it and for those from it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::load::Dice;
use super::options::Options;
use super::ring::{PEERS, Ring, Start};

/// How much is read at once, and how many such pieces are on their way.
const PIECE: usize = 16 << 10;
const PIECES: usize = 4096;
/// Bytes of a connection, and connections, that are recorded.
const RECORD: usize = 64 << 10;
const RECORDS: usize = 64;

/// What happens to the bytes to and from a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// How much later each way.
    pub(super) delay: Duration,
    /// Up to this much more, at random.
    pub(super) jitter: Duration,
    /// Connections are accepted and nothing goes through.
    pub(super) stalled: bool,
    /// Bytes per second each way.
    pub(super) rate: Option<u32>,
}

impl Link {
    fn with(self, other: Link) -> Link {
        Link {
            delay: self.delay.max(other.delay),
            jitter: self.jitter.max(other.jitter),
            stalled: self.stalled || other.stalled,
            rate: [self.rate, other.rate].into_iter().flatten().min(),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// Addresses of hosts, and what happens to their bytes.
    links: Mutex<Vec<(String, Link)>>,
    stop: AtomicBool,
    /// Connections that are to be broken in the middle of what comes next.
    breaks: AtomicUsize,
    /// What dialling nodes have sent over each connection, up to a limit, and to which host.
    records: Mutex<Vec<(String, Vec<u8>)>>,
}

impl Shared {
    fn link(&self, ends: &[String; 2]) -> Link {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let of_ends = links.iter().filter(|(host, _)| ends.contains(host));
        of_ends.fold(Link::default(), |link, (_, other)| link.with(*other))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }
}

/// The proxies of a ring. They end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    shared: Arc<Shared>,
}

impl Proxies {
    /// Starts a proxy for a host and returns its address.
    fn add(&self, gateway: &str, host: &str) -> Result<SocketAddr, String> {
        let listener = TcpListener::bind((gateway, 0)).map_err(|error| format!("a proxy: {error}"))?;
        let address = listener.local_addr().map_err(|error| format!("a proxy: {error}"))?;
        listener.set_nonblocking(true).map_err(|error| format!("a proxy: {error}"))?;
        self.shared.links.lock().unwrap_or_else(PoisonError::into_inner).push((host.into(), Link::default()));
        let (shared, host) = (Arc::clone(&self.shared), host.to_owned());
        std::thread::spawn(move || {
            while !shared.is_stopped() {
                match listener.accept() {
                    Ok((stream, from)) => {
                        let ends = [from.ip().to_string(), host.clone()];
                        let shared = Arc::clone(&shared);
                        std::thread::spawn(move || connect(&shared, stream, ends));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Ok(address)
    }

    /// Sets what happens to the bytes of a node.
    pub(super) fn set(&self, node: usize, link: Link) {
        self.shared.links.lock().unwrap_or_else(PoisonError::into_inner)[node].1 = link;
    }

    /// Breaks the connection that carries the next bytes, in the middle of them.
    pub(super) fn break_next(&self) {
        self.shared.breaks.fetch_add(1, SeqCst);
    }

    /// Returns how many connections are still to be broken.
    pub(super) fn breaks_left(&self) -> usize {
        self.shared.breaks.load(SeqCst)
    }
}

impl Proxies {
    /// Returns what was sent over the first connections, and to which host.
    pub(super) fn records(&self) -> Vec<(String, Vec<u8>)> {
        self.shared.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
    }
}

/// Starts nodes that are reached through proxies only, and waits until each listens.
pub(super) fn ring_behind(options: &Options, nodes: usize, link: Link) -> Result<(Ring, Proxies), String> {
    let (mut ring, proxies) = (Ring::empty(options)?, Proxies::default());
    for _ in 0..nodes {
        let join = ring.seeds();
        let at = ring.add_unstarted(Start { join, ..Start::default() })?;
        let address = proxies.add(&ring.net.gateway(), &ring.net.address(ring.nodes[at].host))?;
        proxies.set(at, link);
        ring.set_start(at, |start| start.advertise = Some(address.to_string()));
        ring.start(at)?;
        ring.wait_listening(at)?;
    }
    Ok((ring, proxies))
}

/// Carries the bytes of one connection.
fn connect(shared: &Arc<Shared>, near: TcpStream, ends: [String; 2]) {
    while shared.link(&ends).stalled && !shared.is_stopped() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let target: Option<SocketAddr> = format!("{}:{PEERS}", ends[1]).parse().ok();
    let far = target.and_then(|target| TcpStream::connect_timeout(&target, Duration::from_secs(5)).ok());
    let Some(far) = far.filter(|_| near.set_nonblocking(false).is_ok()) else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let Some((near2, far2)) = near.try_clone().ok().zip(far.try_clone().ok()) else { return };
    let record = {
        let mut records = shared.records.lock().unwrap_or_else(PoisonError::into_inner);
        let record = (records.len() < RECORDS).then_some(records.len());
        if record.is_some() {
            records.push((ends[1].clone(), Vec::new()));
        }
        record
    };
    pump(shared, near, far, ends.clone(), record);
    pump(shared, far2, near2, ends, None);
}

/// Carries bytes one way, each piece when it is due.
fn pump(shared: &Arc<Shared>, from: TcpStream, to: TcpStream, ends: [String; 2], record: Option<usize>) {
    let (sender, receiver) = sync_channel(PIECES);
    let (reading, writing) = (Arc::clone(shared), Arc::clone(shared));
    let ends2 = ends.clone();
    std::thread::spawn(move || read(&reading, from, &sender, &ends, record));
    std::thread::spawn(move || write(&writing, to, &receiver, &ends2));
}

fn read(
    shared: &Shared,
    mut from: TcpStream,
    to: &SyncSender<(Instant, Vec<u8>)>,
    ends: &[String; 2],
    record: Option<usize>,
) {
    let mut dice = Dice::new(u64::from(from.local_addr().map_or(0, |address| address.port())));
    let mut buffer = vec![0; PIECE];
    let mut last = Instant::now();
    let _ = from.set_read_timeout(Some(Duration::from_secs(1)));
    loop {
        let size = match from.peek(&mut buffer) {
            Ok(0) => break,
            Ok(size) => size,
            Err(error) if is_timeout(&error) && !shared.is_stopped() => continue,
            Err(_) => break,
        };
        let take_break = |breaks: usize| breaks.checked_sub(1);
        let broken = size > 1 && shared.breaks.fetch_update(SeqCst, SeqCst, take_break).is_ok();
        // What is left unread makes the kernel reset the connection.
        let size = if broken { size / 2 } else { size };
        if from.read_exact(&mut buffer[..size]).is_err() {
            break;
        }
        if let Some(record) = record {
            let mut records = shared.records.lock().unwrap_or_else(PoisonError::into_inner);
            let room = RECORD.saturating_sub(records[record].1.len()).min(size);
            records[record].1.extend_from_slice(&buffer[..room]);
        }
        let link = shared.link(ends);
        let jitter = link.jitter.mul_f64(dice.below(1000) as f64 / 1000.0);
        // Bytes never overtake each other.
        last = last.max(Instant::now() + link.delay + jitter);
        if to.send((last, buffer[..size].to_vec())).is_err() || broken {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Read);
}

fn write(shared: &Shared, mut to: TcpStream, from: &Receiver<(Instant, Vec<u8>)>, ends: &[String; 2]) {
    while let Ok((due, bytes)) = from.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut link = shared.link(ends);
        while link.stalled && !shared.is_stopped() {
            std::thread::sleep(Duration::from_millis(50));
            link = shared.link(ends);
        }
        if let Some(rate) = link.rate {
            std::thread::sleep(Duration::from_secs_f64(bytes.len() as f64 / f64::from(rate.max(1))));
        }
        if shared.is_stopped() || to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_end_decides() {
        let slow = Link { delay: Duration::from_millis(5), rate: Some(10), ..Link::default() };
        let stuck = Link { stalled: true, rate: Some(20), ..Link::default() };
        let both = slow.with(stuck);
        assert!(both.stalled && both.delay == slow.delay && both.rate == Some(10));
    }

    #[test]
    fn bytes_come_later_and_connections_break_in_the_middle() {
        let (Ok(here), Ok(there)) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"))
        else {
            panic!("no port on loopback");
        };
        let shared = Arc::new(Shared::default());
        let ends = ["127.0.0.1".to_owned(), "127.0.0.1".to_owned()];
        let delay = Duration::from_millis(100);
        shared.links.lock().unwrap().push((ends[0].clone(), Link { delay, ..Link::default() }));
        let mut client = TcpStream::connect(here.local_addr().unwrap()).unwrap();
        let far = TcpStream::connect(there.local_addr().unwrap()).unwrap();
        let (near, mut server) = (here.accept().unwrap().0, there.accept().unwrap().0);
        shared.records.lock().unwrap().push((ends[1].clone(), Vec::new()));
        pump(&shared, near, far, ends, Some(0));
        let start = Instant::now();
        client.write_all(b"hello").unwrap();
        let mut bytes = [0; 5];
        server.read_exact(&mut bytes).unwrap();
        assert!(&bytes == b"hello" && start.elapsed() >= delay);
        shared.breaks.store(1, SeqCst);
        client.write_all(b"frames").unwrap();
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"fra");
        assert_eq!(shared.records.lock().unwrap()[0].1, b"hellofra");
    }
}
