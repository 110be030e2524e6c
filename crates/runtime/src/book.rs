//! The address book: endpoints behind the core's opaque addresses.
//!
//! Every node id has one address for as long as the book remembers it. What a node says about itself, over a connection
//! that proved who it is, outweighs what others say; what others say is only a place to try, since dialling proves the id
//! again. Ids nobody has proved are forgotten, oldest first, when there are too many of them.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use kringle_core::contact::Addr;
use kringle_core::id::NodeId;
use kringle_core::wire::{ADDRESSES_MAX, AddressBook};

/// Ids remembered at most. A node's tables hold a few hundred; the rest is hearsay.
const ENTRIES_MAX: usize = 65_536;

/// Endpoints of nodes.
#[derive(Debug, Default)]
pub struct Book {
    entries: Vec<Entry>,
    by_id: HashMap<NodeId, u32>,
    /// Entries that rest on hearsay, oldest first; some may have been proved since.
    hearsay: VecDeque<u32>,
    free: Vec<u32>,
    /// Whose book it is: nobody else knows better where that is.
    own: Option<NodeId>,
}

#[derive(Debug)]
struct Entry {
    id: NodeId,
    incarnation: u32,
    /// How many of the endpoints the node itself has named; none, if it has said nothing.
    proved: usize,
    endpoints: Endpoints,
}

type Endpoints = Vec<SocketAddr>;

impl Book {
    /// Makes the book of a node, which is at these endpoints.
    pub fn of(id: NodeId, incarnation: u32, endpoints: &[SocketAddr]) -> (Book, Addr) {
        let mut book = Book { own: Some(id), ..Book::default() };
        let addr = book.prove(id, incarnation, endpoints);
        (book, addr)
    }

    /// Takes what a node says about itself.
    pub fn prove(&mut self, id: NodeId, incarnation: u32, endpoints: &[SocketAddr]) -> Addr {
        self.note(id, incarnation, endpoints, true)
    }

    /// Returns the endpoints of a node, if it is known.
    pub fn find(&self, id: NodeId) -> Option<&[SocketAddr]> {
        self.by_id.get(&id).map(|at| self.entries[*at as usize].endpoints.as_slice())
    }

    /// Returns the endpoints behind an address.
    pub fn get(&self, addr: Addr) -> &[SocketAddr] {
        self.entries.get(addr.0 as usize).map_or(&[], |entry| entry.endpoints.as_slice())
    }

    /// Returns how many nodes are known.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Says whether nobody is known.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    fn note(&mut self, id: NodeId, incarnation: u32, endpoints: &[SocketAddr], proved: bool) -> Addr {
        let endpoints = &endpoints[..endpoints.len().min(ADDRESSES_MAX)];
        if let Some(&at) = self.by_id.get(&id) {
            let entry = &mut self.entries[at as usize];
            let newer = incarnation > entry.incarnation;
            let news = !endpoints.is_empty() && self.own.is_none_or(|own| own != id || proved);
            if news && proved {
                // Whoever judged the connection has seen to it that no earlier life comes back.
                entry.endpoints = endpoints.to_vec();
                (entry.incarnation, entry.proved) = (incarnation, endpoints.len());
            } else if news && entry.proved == 0 && incarnation >= entry.incarnation {
                entry.endpoints = endpoints.to_vec();
                entry.incarnation = incarnation;
            } else if news && newer {
                // A later life may be elsewhere. That is hearsay: tried after what the node itself has said.
                entry.endpoints.truncate(entry.proved);
                let others = endpoints.iter().filter(|told| !entry.endpoints.contains(told));
                let others: Vec<SocketAddr> = others.copied().collect();
                entry.endpoints.extend(others);
                entry.endpoints.truncate(ADDRESSES_MAX);
            }
            return Addr(at);
        }
        let entry = Entry {
            id,
            incarnation,
            proved: if proved { endpoints.len() } else { 0 },
            endpoints: endpoints.to_vec(),
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.by_id.insert(id, at);
        if !proved {
            self.hearsay.push_back(at);
        }
        Addr(at)
    }

    /// Forgets hearsay beyond what may be kept, sparing what `is_used` says is in a table. Called by the driver between
    /// inputs, when the core holds no address it has not put into a table.
    pub fn trim(&mut self, is_used: impl Fn(NodeId) -> bool) {
        self.trim_to(ENTRIES_MAX, is_used);
    }

    fn trim_to(&mut self, most: usize, is_used: impl Fn(NodeId) -> bool) {
        let mut looks = self.hearsay.len();
        while self.by_id.len() > most && looks > 0 {
            looks -= 1;
            let Some(at) = self.hearsay.pop_front() else { return };
            let entry = &mut self.entries[at as usize];
            if entry.proved > 0 {
                continue;
            }
            if is_used(entry.id) {
                self.hearsay.push_back(at);
                continue;
            }
            // Its endpoints stay until the place is given to another: somebody may still hold the address.
            self.by_id.remove(&entry.id);
            self.free.push(at);
        }
        // Many came, proved who they are, and went.
        if self.by_id.len() > most {
            let own = self.own;
            let (by_id, free) = (&mut self.by_id, &mut self.free);
            by_id.retain(|id, at| {
                let stays = Some(*id) == own || is_used(*id);
                if !stays {
                    free.push(*at);
                }
                stays
            });
            let (by_id, entries) = (&self.by_id, &self.entries);
            let hearsay = by_id.values().filter(|at| entries[**at as usize].proved == 0);
            self.hearsay = hearsay.copied().collect();
        }
    }
}

impl AddressBook for Book {
    fn endpoints(&self, addr: Addr, each: &mut dyn FnMut(SocketAddr)) {
        self.get(addr).iter().copied().for_each(each);
    }

    fn learn(&mut self, id: NodeId, incarnation: u32, endpoints: &[SocketAddr]) -> Addr {
        self.note(id, incarnation, endpoints, false)
    }
}

#[cfg(test)]
mod tests {
    use kringle_core::id::Id;

    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn one_address_per_node_whatever_is_said_about_it() {
        let mut book = Book::default();
        let addr = book.learn(Id::new(1), 5, &[at(1)]);
        assert_eq!(book.learn(Id::new(1), 6, &[at(2)]), addr);
        assert_eq!(book.prove(Id::new(1), 6, &[at(3)]), addr);
        assert_eq!(book.get(addr), [at(3)]);
    }

    #[test]
    fn hearsay_does_not_move_a_node_that_spoke_for_itself() {
        let mut book = Book::default();
        let addr = book.prove(Id::new(1), 5, &[at(1)]);
        book.learn(Id::new(1), 5, &[at(66)]);
        book.learn(Id::new(1), 4, &[at(67)]);
        assert_eq!(book.get(addr), [at(1)]);
        // A later life may be somewhere else; that is tried, too, and forgotten when the node speaks again.
        book.learn(Id::new(1), u32::MAX, &[at(2)]);
        assert_eq!(book.get(addr), [at(1), at(2)]);
        book.prove(Id::new(1), 6, &[at(3)]);
        assert_eq!(book.get(addr), [at(3)]);
    }

    #[test]
    fn nobody_else_knows_where_we_are() {
        let (mut book, addr) = Book::of(Id::new(1), 5, &[at(1)]);
        book.learn(Id::new(1), u32::MAX, &[at(66)]);
        assert_eq!(book.get(addr), [at(1)]);
    }

    #[test]
    fn those_who_came_and_went_are_forgotten_in_the_end() {
        let (mut book, _) = Book::of(Id::new(1), 5, &[at(1)]);
        for id in 2..100 {
            book.prove(Id::new(id), 1, &[at(9)]);
        }
        book.trim_to(50, |id| id == Id::new(7));
        assert_eq!(book.len(), 2);
        assert!(book.find(Id::new(1)).is_some() && book.find(Id::new(7)).is_some());
    }

    #[test]
    fn hearsay_is_bounded_and_what_is_used_stays() {
        let mut book = Book::default();
        book.prove(Id::new(1), 1, &[at(1)]);
        for id in 2..100 {
            book.learn(Id::new(id), 1, &[at(9)]);
        }
        book.trim_to(10, |id| id == Id::new(2));
        assert_eq!(book.len(), 10);
        assert!(book.find(Id::new(1)).is_some() && book.find(Id::new(2)).is_some());
        let fresh = book.learn(Id::new(200), 1, &[at(3)]);
        assert_eq!(book.get(fresh), [at(3)]);
        book.trim_to(0, |_| true);
        assert_eq!(book.len(), 11);
    }
}
