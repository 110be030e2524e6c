//! Connections take time to open, if the network says so.

use kringle_core::contact::Contact;
use kringle_core::edge::Input;
use kringle_core::time::Time;

use super::{Arrival, Either, World};

impl World {
    /// Opens a connection at once, as if it had been there: a driver has one with a seed before its node joins.
    pub fn connect(&mut self, one: u32, other: u32) {
        self.opened.insert((one.min(other), one.max(other)), self.now);
    }

    /// Returns when a message leaves: when the connection is open, which begins with the first message.
    pub(super) fn open(&mut self, from: u32, to: Contact) -> Time {
        if self.network.handshake == 0 {
            return self.now;
        }
        let link = (from.min(to.addr.0), from.max(to.addr.0));
        if let Some(opened) = self.opened.get(&link) {
            return self.now.max(*opened);
        }
        let opened = self.now.after(self.network.direct(from, to.addr.0) * 2 * self.network.handshake);
        self.opened.insert(link, opened);
        let (life, input) = (self.slots[from as usize].life, Input::Opened { peer: to.id });
        self.push(opened, Either::Large(Arrival { to: from, life, meant: None, input }));
        opened
    }
}
