//! Lists of contacts and of things that begin with one: byte strings of records, each preceded by its length.
//!
//! A record is length (1 byte, not counting itself), id (16), incarnation (4), number of addresses (1), addresses
//! (4 or 6, then the bytes of the IP address and a port), then whatever the kind of list adds, then a tail that a
//! later version may have added and this one skips.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{ADDRESSES_MAX, AddressBook, CONTACTS_MAX, DecodeError};
use crate::contact::{Contact, Proximity};
use crate::id::Id;
use crate::overlay::pastry::routing_table::Entry;

/// Appends one record: a contact, and `extra` bytes that belong to it.
pub(super) fn write(contact: &Contact, extra: &[u8], book: &dyn AddressBook, out: &mut Vec<u8>) {
    let start = out.len();
    let mut head = [0; 22];
    head[1..17].copy_from_slice(&contact.id.to_bytes());
    head[17..21].copy_from_slice(&contact.incarnation.to_be_bytes());
    out.extend_from_slice(&head);
    let mut count = 0;
    book.endpoints(contact.addr, &mut |endpoint| {
        if count < ADDRESSES_MAX as u8 {
            count += 1;
            match endpoint.ip() {
                IpAddr::V4(ip) => {
                    let [a, b, c, d] = ip.octets();
                    out.extend_from_slice(&[4, a, b, c, d]);
                }
                IpAddr::V6(ip) => {
                    out.push(6);
                    out.extend_from_slice(&ip.octets());
                }
            }
            out.extend_from_slice(&endpoint.port().to_be_bytes());
        }
    });
    out[start + 21] = count;
    out.extend_from_slice(extra);
    // At most 1 + 16 + 4 + 1 + 4 * 19 + 17 bytes: fits one byte of length.
    out[start] = (out.len() - start - 1) as u8;
}

/// A list that has been checked, but not read: nothing is learnt from a message before all of it is known to be good.
#[derive(Clone, Copy, Default)]
pub(super) struct Unread<'b> {
    bytes: &'b [u8],
    count: usize,
}

/// The parts of a record, addresses still unread.
struct Record<'b> {
    id: Id,
    incarnation: u32,
    addresses: &'b [u8],
    extra: &'b [u8],
}

impl<'b> Unread<'b> {
    /// Checks a list whose records carry at least `extra` further bytes each.
    pub(super) fn check(bytes: &'b [u8], most: usize, extra: usize) -> Result<Unread<'b>, DecodeError> {
        let mut rest = bytes;
        let mut count = 0;
        while !rest.is_empty() {
            if count == most.min(CONTACTS_MAX) {
                return Err(DecodeError::Oversized);
            }
            let (record, after) = split(rest).ok_or(DecodeError::Malformed)?;
            if record.extra.len() < extra {
                return Err(DecodeError::Malformed);
            }
            count += 1;
            rest = after;
        }
        Ok(Unread { bytes, count })
    }

    /// Reads a checked list, giving each record to `make`.
    pub(super) fn read<T>(self, book: &mut dyn AddressBook, make: impl Fn(Contact, &[u8]) -> T) -> Vec<T> {
        let mut list = Vec::with_capacity(self.count);
        let mut rest = self.bytes;
        while let Some((record, after)) = split(rest) {
            let mut endpoints = [SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0); ADDRESSES_MAX];
            let mut count = 0;
            let mut addresses = record.addresses;
            while let Some((endpoint, after)) = endpoint(addresses) {
                endpoints[count] = endpoint;
                count += 1;
                addresses = after;
            }
            let addr = book.learn(record.id, record.incarnation, &endpoints[..count]);
            list.push(make(Contact::new(record.id, record.incarnation, addr), record.extra));
            rest = after;
        }
        list
    }

    /// Reads a checked list of bare contacts.
    pub(super) fn contacts(self, book: &mut dyn AddressBook) -> Vec<Contact> {
        self.read(book, |contact, _| contact)
    }

    /// Reads a checked list of contacts that may say how near they are; what is not told is unknown.
    pub(super) fn entries(self, book: &mut dyn AddressBook) -> Vec<Entry> {
        self.read(book, |contact, extra| {
            let told = extra.first_chunk::<4>().map(|bytes| Proximity(u32::from_be_bytes(*bytes)));
            Entry { contact, proximity: told.unwrap_or(Proximity::UNKNOWN) }
        })
    }

    /// Returns how many records there are.
    pub(super) fn len(self) -> usize {
        self.count
    }
}

/// Splits the first record off. Its addresses are as many as it says, each of a known family.
#[inline]
fn split(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (record, after) = rest.split_at_checked(length.into())?;
    let (id, record) = record.split_first_chunk::<16>()?;
    let (incarnation, record) = record.split_first_chunk::<4>()?;
    let (&count, record) = record.split_first()?;
    if count == 0 || usize::from(count) > ADDRESSES_MAX {
        return None;
    }
    let mut end = 0;
    for _ in 0..count {
        end += match record.get(end)? {
            4 => 7,
            6 => 19,
            _ => return None,
        };
    }
    let (addresses, extra) = record.split_at_checked(end)?;
    let id = Id::new(u128::from_be_bytes(*id));
    let incarnation = u32::from_be_bytes(*incarnation);
    Some((Record { id, incarnation, addresses, extra }, after))
}

/// Reads the first address.
#[inline]
fn endpoint(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (&family, rest) = bytes.split_first()?;
    let (ip, rest): (IpAddr, &[u8]) = match family {
        4 => rest.split_first_chunk::<4>().map(|(ip, rest)| (Ipv4Addr::from(*ip).into(), rest))?,
        _ => rest.split_first_chunk::<16>().map(|(ip, rest)| (Ipv6Addr::from(*ip).into(), rest))?,
    };
    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some((SocketAddr::new(ip, u16::from_be_bytes(*port)), rest))
}
