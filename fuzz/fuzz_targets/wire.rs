//! Any bytes at all, as a frame: refused without a trace, or read and written again to the same.
#![no_main]

use std::net::SocketAddr;

use kringle_core::config::ClusterId;
use kringle_core::contact::Addr;
use kringle_core::id::NodeId;
use kringle_core::wire::{self, AddressBook, HEADER, IndexBook, OLDEST, VERSION};
use libfuzzer_sys::fuzz_target;

const CLUSTER: ClusterId = ClusterId([7; 16]);

/// Counts what it is told to learn.
struct Counting(usize);

impl AddressBook for Counting {
    fn endpoints(&self, addr: Addr, each: &mut dyn FnMut(SocketAddr)) {
        IndexBook.endpoints(addr, each);
    }

    fn learn(&mut self, id: NodeId, incarnation: u32, endpoints: &[SocketAddr]) -> Addr {
        self.0 += 1;
        IndexBook.learn(id, incarnation, endpoints)
    }
}

fn check(bytes: &[u8]) {
    let mut book = Counting(0);
    match wire::decode(bytes, CLUSTER, &mut book) {
        Err(error) => assert_eq!(book.0, 0, "learnt from a message refused as {error:?}"),
        Ok((body, length)) => {
            assert!(length <= bytes.len());
            let mut again = Vec::new();
            wire::encode(&body, CLUSTER, &book, &mut again);
            let read = wire::decode(&again, CLUSTER, &mut IndexBook);
            assert!(read == Ok((body, again.len())), "read differently the second time");
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // The same with a header that lets it in, so that the fuzzer need not guess sixteen bytes of cluster id.
    if let Some(body) = bytes.get(HEADER..) {
        let mut framed = bytes.to_vec();
        framed[..4].copy_from_slice(&(body.len() as u32).to_be_bytes());
        framed[4..8].copy_from_slice(&[b'K', b'R', VERSION, OLDEST]);
        framed[16..HEADER].copy_from_slice(&CLUSTER.0);
        check(&framed);
    }
});
