//! Who may start a handshake: a bounded number at a time, and few from one part of the network, so that one noisy
//! neighbour keeps nobody else out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

use tokio::sync::Semaphore;

/// Handshakes under way or waiting, in all.
const ALL_MAX: usize = 1024;
/// Handshakes under way from one prefix.
const PREFIX_MAX: usize = 32;
/// Handshakes under way or waiting from one prefix; more are closed at once.
const PREFIX_WAITING_MAX: usize = 128;

/// Counts those who knock.
#[derive(Default)]
pub(crate) struct Gate {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    all: usize,
    prefixes: HashMap<IpAddr, Prefix>,
}

struct Prefix {
    knocking: usize,
    slots: Rc<Semaphore>,
}

/// A place before the gate. Given up when dropped.
pub(crate) struct Knock {
    gate: Rc<Gate>,
    prefix: IpAddr,
    slots: Rc<Semaphore>,
}

impl Gate {
    /// Lets somebody wait for a handshake, or turns it away.
    pub(crate) fn knock(self: &Rc<Gate>, from: IpAddr) -> Option<Knock> {
        let prefix = prefix(from);
        let inner = &mut *self.inner.borrow_mut();
        let fresh = || Prefix { knocking: 0, slots: Rc::new(Semaphore::new(PREFIX_MAX)) };
        if inner.all >= ALL_MAX {
            return None;
        }
        let entry = inner.prefixes.entry(prefix).or_insert_with(fresh);
        if entry.knocking >= PREFIX_WAITING_MAX {
            return None;
        }
        entry.knocking += 1;
        inner.all += 1;
        Some(Knock { gate: self.clone(), prefix, slots: entry.slots.clone() })
    }
}

impl Knock {
    /// Waits for one's turn; held until the handshake is over.
    pub(crate) async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.slots.acquire().await.ok()
    }
}

impl Drop for Knock {
    fn drop(&mut self) {
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
        let gate = Rc::new(Gate::default());
        let noisy: Vec<_> = (0..2000).filter_map(|n| gate.knock(IpAddr::from([10, 0, 0, n as u8]))).collect();
        assert_eq!(noisy.len(), PREFIX_WAITING_MAX);
        assert!(gate.knock(IpAddr::from([10, 0, 1, 1])).is_some());
        drop(noisy);
        assert!(gate.knock(IpAddr::from([10, 0, 0, 1])).is_some());
        assert!(gate.inner.borrow().prefixes.is_empty());
    }

    #[test]
    fn there_is_an_end_to_all_prefixes_together() {
        let gate = Rc::new(Gate::default());
        let knock = |n: u32| gate.knock(IpAddr::from([10, (n >> 8) as u8, n as u8, 1]));
        let all: Vec<_> = (0..5000).filter_map(knock).collect();
        assert_eq!(all.len(), ALL_MAX);
    }
}
