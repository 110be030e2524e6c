//! Who may start a handshake: a bounded number at a time, and few from one part of the network, so that one noisy
//! neighbour keeps nobody else out.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore};

/// Handshakes under way from one prefix.
const PREFIX_MAX: usize = 32;
/// Handshakes under way or waiting from one prefix; more are closed at once.
const PREFIX_WAITING_MAX: usize = 128;
/// How long a connection over which nothing has come yet is kept before it is closed in favour of a new one.
const GRACE: Duration = Duration::from_secs(1);

/// Counts those who knock.
pub(crate) struct Gate {
    /// Handshakes that may be under way or waiting, in all.
    most: usize,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    all: usize,
    next: u64,
    prefixes: HashMap<IpAddr, Prefix>,
    /// Those who have not said a word, the oldest first.
    silent: VecDeque<Silent>,
}

struct Prefix {
    knocking: usize,
    slots: Rc<Semaphore>,
}

struct Silent {
    serial: u64,
    prefix: IpAddr,
    since: Instant,
    leave: Rc<Notify>,
}

/// A place before the gate. Given up when dropped.
pub(crate) struct Knock {
    gate: Rc<Gate>,
    serial: u64,
    prefix: IpAddr,
    slots: Rc<Semaphore>,
    leave: Rc<Notify>,
}

impl Gate {
    pub(crate) fn new(most: usize) -> Rc<Gate> {
        Rc::new(Gate { most, inner: RefCell::default() })
    }

    /// Lets a new connection wait for its handshake, or turns it away. If there is no room, the connection that has been
    /// silent for longest is closed: so a crowd of silent connections does not keep peers out.
    pub(crate) fn knock(self: &Rc<Gate>, from: IpAddr, now: Instant) -> Option<Knock> {
        let prefix = prefix(from);
        let inner = &mut *self.inner.borrow_mut();
        let here = inner.prefixes.get(&prefix).map_or(0, |entry| entry.knocking);
        let (full, full_here) = (inner.all >= self.most, here >= PREFIX_WAITING_MAX.min(self.most / 2));
        if full || full_here {
            let may_go = |silent: &Silent| {
                (silent.prefix == prefix || !full_here) && now.duration_since(silent.since) >= GRACE
            };
            let at = inner.silent.iter().position(may_go)?;
            inner.silent.remove(at)?.leave.notify_one();
        }
        let fresh = || Prefix { knocking: 0, slots: Rc::new(Semaphore::new(PREFIX_MAX)) };
        let entry = inner.prefixes.entry(prefix).or_insert_with(fresh);
        entry.knocking += 1;
        inner.all += 1;
        inner.next += 1;
        let (serial, leave, slots) = (inner.next, Rc::new(Notify::new()), entry.slots.clone());
        inner.silent.push_back(Silent { serial, prefix, since: now, leave: leave.clone() });
        Some(Knock { gate: self.clone(), serial, prefix, slots, leave })
    }
}

impl Knock {
    /// It has said something.
    pub(crate) fn heard(&self) {
        self.gate.inner.borrow_mut().silent.retain(|silent| silent.serial != self.serial);
    }

    /// Waits until it has to go.
    pub(crate) async fn sent_away(&self) {
        self.leave.notified().await;
    }

    /// Waits for one's turn; held until the handshake is over.
    pub(crate) async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.slots.acquire().await.ok()
    }
}

impl Drop for Knock {
    fn drop(&mut self) {
        self.heard();
        let inner = &mut *self.gate.inner.borrow_mut();
        inner.all -= 1;
        if let Some(entry) = inner.prefixes.get_mut(&self.prefix) {
            entry.knocking -= 1;
            if entry.knocking == 0 {
                inner.prefixes.remove(&self.prefix);
            }
        }
    }
}

/// Returns the part of the network an address belongs to: /24, or /48.
fn prefix(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            IpAddr::from([a, b, c, 0])
        }
        IpAddr::V6(ip) => {
            let [a, b, c, ..] = ip.segments();
            IpAddr::from([a, b, c, 0, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_prefix_can_not_fill_the_gate() {
        let (gate, now) = (Gate::new(1024), Instant::now());
        let knock = |n: u32| gate.knock(IpAddr::from([10, 0, 0, n as u8]), now);
        let noisy: Vec<_> = (0..2000).filter_map(knock).collect();
        assert_eq!(noisy.len(), PREFIX_WAITING_MAX);
        assert!(gate.knock(IpAddr::from([10, 0, 1, 1]), now).is_some());
        drop(noisy);
        assert!(gate.knock(IpAddr::from([10, 0, 0, 1]), now).is_some());
        assert!(gate.inner.borrow().prefixes.is_empty());
    }

    #[test]
    fn there_is_an_end_to_all_prefixes_together() {
        let (gate, now) = (Gate::new(1024), Instant::now());
        let knock = |n: u32| gate.knock(IpAddr::from([10, (n >> 8) as u8, n as u8, 1]), now);
        let all: Vec<_> = (0..5000).filter_map(knock).collect();
        assert_eq!(all.len(), 1024);
    }

    #[test]
    fn the_connection_that_is_silent_for_longest_is_closed() {
        let (gate, start) = (Gate::new(8), Instant::now());
        let from = IpAddr::from([10, 0, 0, 1]);
        let crowd: Vec<_> = (0..4).filter_map(|_| gate.knock(from, start)).collect();
        crowd[0].heard();
        assert!(gate.knock(from, start).is_none(), "they have a moment");
        let later = start + GRACE;
        let newcomers: Vec<_> = (0..9).filter_map(|_| gate.knock(from, later)).collect();
        assert_eq!(newcomers.len(), 3, "one has said something and stays");
        assert_eq!(gate.inner.borrow().silent.len(), 3);
    }
}
