//! How messages are written: frames with a fixed header and a body that can grow.
//!
//! ```text
//!  0  length of the body, 4 bytes, big-endian        8  kind of message
//!  4  "KR"                                            9  flags, zero
//!  6  version the frame is written in                10  two bytes, zero
//!  7  oldest version that can read it                12  number that ties answer to question, 4 bytes
//!                                                     16  cluster id, 16 bytes
//! ```
//!
//! The body is a CBOR map with numbered fields. A reader skips fields it does not know and the tail of contacts it
//! does not know, so a newer node may add both and still be read by an older one; a change that an older reader must
//! not ignore raises "oldest version". Nothing is reserved from a length a peer claims: every count is checked against
//! a limit and against the bytes that are really there.

pub(crate) mod body;
mod chord;
mod contacts;

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::ClusterId;
use crate::contact::Addr;
use crate::edge::Refusal;
use crate::id::NodeId;
use crate::message::{Body, BodyKind};

/// The version this build writes.
pub const VERSION: u8 = 1;
/// The oldest version this build reads.
pub const OLDEST: u8 = 1;
/// Bytes of a frame's header.
pub const HEADER: usize = 32;
/// Bytes a frame's body may have: the largest value with the largest key, and room for the rest.
pub const BODY_MAX: usize = (1 << 20) + (128 << 10);
/// Bytes an application's message may have.
pub const PAYLOAD_MAX: usize = 64 * 1024;
/// Contacts a list may have.
pub const CONTACTS_MAX: usize = 2048;
/// Addresses a contact may have.
pub const ADDRESSES_MAX: usize = 4;

/// Translates between the core's opaque addresses and endpoints. The driver owns it, and bounds it.
pub trait AddressBook {
    /// Calls back with the endpoints behind an address, at least one and at most [`ADDRESSES_MAX`].
    fn endpoints(&self, addr: Addr, each: &mut dyn FnMut(SocketAddr));

    /// Returns the address for a node that was named with these endpoints.
    fn learn(&mut self, id: NodeId, incarnation: u32, endpoints: &[SocketAddr]) -> Addr;
}

/// An address book in which every number is its own address, for simulations: 10 becomes 0.0.0.10, port 7400.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexBook;

impl AddressBook for IndexBook {
    fn endpoints(&self, addr: Addr, each: &mut dyn FnMut(SocketAddr)) {
        each(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(addr.0)), 7400));
    }

    fn learn(&mut self, _: NodeId, _: u32, endpoints: &[SocketAddr]) -> Addr {
        match endpoints.first().map(SocketAddr::ip) {
            Some(IpAddr::V4(ip)) => Addr(ip.into()),
            _ => Addr(u32::MAX),
        }
    }
}

/// Why bytes are not a message. Nothing was learnt from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The frame is longer than these bytes: wait for more, or it was cut off.
    Truncated,
    /// Not a frame, or a body that breaks the rules of its kind.
    Malformed,
    /// The frame or a list in it is longer than allowed.
    Oversized,
    /// Only newer or only older versions can read this.
    WrongVersion {
        /// The version it is written in.
        version: u8,
        /// The oldest version that can read it.
        oldest: u8,
    },
    /// It belongs to another cluster.
    WrongCluster,
    /// A kind of message this build does not know. The frame can be skipped, see [`frame_length`].
    UnknownKind(u8),
}

impl DecodeError {
    /// Returns the reason to count this under.
    pub fn refusal(self) -> Refusal {
        match self {
            DecodeError::Truncated => Refusal::Truncated,
            DecodeError::Malformed => Refusal::Malformed,
            DecodeError::Oversized => Refusal::Oversized,
            DecodeError::WrongVersion { .. } => Refusal::WrongVersion,
            DecodeError::WrongCluster => Refusal::WrongCluster,
            DecodeError::UnknownKind(_) => Refusal::UnknownKind,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => write!(f, "the frame ends too early"),
            DecodeError::Malformed => write!(f, "not a message of this protocol"),
            DecodeError::Oversized => write!(f, "longer than a message may be"),
            DecodeError::WrongVersion { version, oldest } => write!(
                f,
                "written in version {version} for readers of version {oldest} or later, this is {VERSION}"
            ),
            DecodeError::WrongCluster => write!(f, "from another cluster"),
            DecodeError::UnknownKind(kind) => write!(f, "unknown kind of message {kind}"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    length: u32,
    version: u8,
    oldest: u8,
    kind: u8,
    request: u32,
    cluster: ClusterId,
}

impl Header {
    fn write(&self, out: &mut [u8]) {
        out[0..4].copy_from_slice(&self.length.to_be_bytes());
        out[4..6].copy_from_slice(b"KR");
        out[6..12].copy_from_slice(&[self.version, self.oldest, self.kind, 0, 0, 0]);
        out[12..16].copy_from_slice(&self.request.to_be_bytes());
        out[16..32].copy_from_slice(&self.cluster.0);
    }

    fn read(bytes: &[u8; HEADER]) -> Result<Header, DecodeError> {
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if &bytes[4..6] != b"KR" {
            return Err(DecodeError::Malformed);
        }
        let mut cluster = [0; 16];
        cluster.copy_from_slice(&bytes[16..]);
        Ok(Header {
            length: number(0),
            version: bytes[6],
            oldest: bytes[7],
            kind: bytes[8],
            request: number(12),
            cluster: ClusterId(cluster),
        })
    }
}

/// Appends the frame of a message to `out`.
pub fn encode(body: &Body, cluster: ClusterId, book: &dyn AddressBook, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + HEADER, 0);
    let request = body::encode(body, book, out);
    let length = u32::try_from(out.len() - start - HEADER).unwrap_or(u32::MAX);
    let kind = code(body.kind());
    Header { length, version: VERSION, oldest: OLDEST, kind, request, cluster }
        .write(&mut out[start..start + HEADER]);
}

/// Reads the first frame of `bytes` and returns the message and how many bytes it took.
///
/// Addresses are learnt only if the whole message is right.
pub fn decode(
    bytes: &[u8],
    cluster: ClusterId,
    book: &mut dyn AddressBook,
) -> Result<(Body, usize), DecodeError> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(DecodeError::Truncated)?;
    let header = Header::read(header)?;
    if header.oldest > VERSION || header.version < OLDEST {
        return Err(DecodeError::WrongVersion { version: header.version, oldest: header.oldest });
    }
    if header.cluster != cluster {
        return Err(DecodeError::WrongCluster);
    }
    let length = header.length as usize;
    if length > BODY_MAX {
        return Err(DecodeError::Oversized);
    }
    let body = rest.get(..length).ok_or(DecodeError::Truncated)?;
    let kind = BodyKind::ALL.iter().copied().find(|kind| code(*kind) == header.kind);
    let kind = kind.ok_or(DecodeError::UnknownKind(header.kind))?;
    Ok((body::decode(kind, header.request, body, book)?, HEADER + length))
}

/// Returns how many bytes the first frame of `bytes` has, so that one that is not understood can be skipped. `None`
/// while the length is not there yet.
pub fn frame_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*bytes.first_chunk::<4>()?);
    Some(HEADER + length as usize)
}

/// The number of a kind on the wire. Never changed, never used again.
const fn code(kind: BodyKind) -> u8 {
    match kind {
        BodyKind::Lookup => 1,
        BodyKind::Trace => 2,
        BodyKind::App => 3,
        BodyKind::Direct => 12,
        BodyKind::Join => 4,
        BodyKind::RoutedReceipt => 5,
        BodyKind::HopAck => 6,
        BodyKind::Receipt => 7,
        BodyKind::Ping => 8,
        BodyKind::Pong => 9,
        BodyKind::PingVia => 10,
        BodyKind::PongVia => 11,
        BodyKind::JoinReply => 16,
        BodyKind::JoinRefused => 17,
        BodyKind::LeafProbe => 18,
        BodyKind::LeafReply => 19,
        BodyKind::Announce => 20,
        BodyKind::Race => 21,
        BodyKind::StateRequest => 22,
        BodyKind::StateReply => 23,
        BodyKind::Goodbye => 24,
        BodyKind::Obituary => 25,
        BodyKind::LeaseRequest => 26,
        BodyKind::LeaseReply => 27,
        BodyKind::LeaseRecall => 28,
        BodyKind::LeaseReturn => 29,
        BodyKind::StoreAsk => 40,
        BodyKind::StoreAnswer => 41,
        BodyKind::StoreDo => 42,
        BodyKind::StoreDid => 43,
        BodyKind::StoreSlots => 44,
        BodyKind::StorePull => 45,
        BodyKind::StorePage => 46,
        BodyKind::StoreCompare => 47,
        // 48 was the store's goodbye.
        BodyKind::StorePausing => 49,
        BodyKind::StoreClock => 50,
        BodyKind::StoreSurvey => 51,
        BodyKind::StoreSurveyed => 52,
        BodyKind::GetBestPredecessor => 60,
        BodyKind::GotBestPredecessor => 61,
        BodyKind::GetSuccList => 62,
        BodyKind::GotSuccList => 63,
        BodyKind::GetPredAndSuccs => 64,
        BodyKind::GotPredAndSuccs => 65,
        BodyKind::Notify => 66,
        BodyKind::Busy => 67,
        BodyKind::RingPing => 68,
        BodyKind::RingPong => 69,
        BodyKind::Leaving => 70,
        BodyKind::Apply => 71,
        BodyKind::Referred => 72,
        BodyKind::Seal => 73,
        BodyKind::Sealed => 74,
        BodyKind::Commit => 75,
        BodyKind::Echo => 255,
    }
}

#[cfg(test)]
mod tests;
