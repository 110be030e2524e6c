//! How two nodes greet each other once TLS has proved their keys, and why one may turn the other away.
//!
//! The dialler says hello first, the other answers with its own hello or a refusal, and the dialler ends with an empty
//! message or a refusal of its own: so both sides know the reason. Every message is two bytes of length and a CBOR map
//! with numbered fields; a reader skips fields it does not know.

use std::io;
use std::net::{IpAddr, SocketAddr};

use kringle_core::config::ClusterId;
use kringle_core::id::NodeId;
use kringle_core::wire::ADDRESSES_MAX;
use minicbor::{Decoder, Encoder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::protocol::{self, Protocol};

/// Bytes a greeting may have.
const GREETING_MAX: usize = 2048;
/// Bytes a text in a greeting may have.
const TEXT_MAX: usize = 512;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Frames between peers.
    Peer,
    /// Large frames between peers, so that they do not hold up small ones.
    Bulk,
    /// Nothing but the answer: who is there, in which life?
    Who,
    /// Bytes to and from a third node, which the dialler cannot reach.
    Relay,
}

/// What a node says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u8,
    pub(crate) oldest: u8,
    pub(crate) purpose: Purpose,
    pub(crate) cluster: ClusterId,
    pub(crate) cluster_name: String,
    /// The settings that all nodes of its cluster share.
    pub(crate) protocol: Protocol,
    /// Which of them it would change to the receiver's values: it is joining. A set of [`crate::protocol`].
    pub(crate) adopts: u64,
    /// How often the number of copies was changed; the latest change counts.
    pub(crate) copies_version: u64,
    pub(crate) incarnation: u32,
    /// Drawn when the process started: tells a node from its twin.
    pub(crate) instance: u64,
    pub(crate) endpoints: Vec<SocketAddr>,
    pub(crate) region: Option<String>,
    /// Proof of membership.
    pub(crate) certificate: Option<Vec<u8>>,
    /// A token to be exchanged for one.
    pub(crate) token: Option<String>,
    /// What the application's own credentials show.
    pub(crate) credentials: Option<Vec<u8>>,
    /// A fresh certificate for the receiver, whose token was good.
    pub(crate) granted: Option<Vec<u8>>,
    /// The lineage of its store. A node that has none fits every cluster; so does an older build, which does not say.
    pub(crate) lineage: Option<u64>,
    /// How many records its store has, tombstones included.
    pub(crate) records: u64,
    /// Whether it is joining, and would drop its own lineage for the receiver's: its store is empty.
    pub(crate) yields: bool,
    /// The third node, if bytes are to be relayed.
    pub(crate) relay: Option<NodeId>,
}

/// Why a node is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Version,
    Cluster,
    Membership,
    Credentials,
    /// A later life of the same id is known.
    Superseded,
    /// The same id is here, in the same life, from another process.
    Twin,
    Stopping,
    /// The connection is not needed any more; nothing is wrong.
    Orderly,
    /// The two stores were founded apart.
    Lineage,
    /// Its id was retired for good.
    Retired,
    Other,
}

/// A refusal with its reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) why: Why,
    pub(crate) text: String,
    /// The later life that is known of the one refused, and where.
    pub(crate) later: Option<(u32, Vec<SocketAddr>)>,
}

impl Refused {
    pub(crate) fn new(why: Why, text: impl Into<String>) -> Refused {
        Refused { why, text: text.into(), later: None }
    }
}

/// A greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    Hello(Box<Hello>),
    Refused(Refused),
    /// The dialler agrees.
    Agreed,
    /// The number of copies has changed: how often, and what it is now. Said over open connections.
    Copies {
        version: u64,
        count: u64,
    },
    /// Does the receiver hear this node, which the sender cannot reach? Said over open connections, like the answer.
    Seeking {
        peer: NodeId,
    },
    /// Yes, it does.
    Hears {
        peer: NodeId,
    },
}

const KIND: u8 = 0;
const VERSION: u8 = 1;
const OLDEST: u8 = 2;
const PURPOSE: u8 = 3;
const CLUSTER: u8 = 4;
const NAME: u8 = 5;
const INCARNATION: u8 = 6;
const INSTANCE: u8 = 7;
const ENDPOINTS: u8 = 8;
const REGION: u8 = 9;
const CERTIFICATE: u8 = 10;
const TOKEN: u8 = 11;
const CREDENTIALS: u8 = 12;
const GRANTED: u8 = 13;
const REASON: u8 = 14;
const TEXT: u8 = 15;
const OVERLAY: u8 = 16;
const LINEAGE: u8 = 17;
const RECORDS: u8 = 18;
const YIELDS: u8 = 19;
const PROTOCOL: u8 = 20;
const ADOPTS: u8 = 21;
const COPIES_VERSION: u8 = 22;
const COPIES: u8 = 23;
const PEER: u8 = 24;
/// Shared settings that a greeting may name.
const PROTOCOL_MAX: u64 = 32;

const IN_MEMORY: &str = "writing to memory does not fail";

impl Greeting {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer { out: vec![0, 0, 0], count: 0 };
        match self {
            Greeting::Hello(hello) => writer.hello(hello),
            Greeting::Refused(refused) => writer.refused(refused),
            Greeting::Agreed => writer.number(KIND, 2),
            Greeting::Copies { version, count } => {
                writer.number(KIND, 3);
                writer.number(COPIES_VERSION, *version);
                writer.number(COPIES, *count);
            }
            Greeting::Seeking { peer } => {
                writer.number(KIND, 4);
                writer.bytes(PEER, &peer.to_bytes());
            }
            Greeting::Hears { peer } => {
                writer.number(KIND, 5);
                writer.bytes(PEER, &peer.to_bytes());
            }
        }
        let Writer { mut out, count } = writer;
        out[2] = 0xa0 | count;
        let length = (out.len() - 2) as u16;
        out[..2].copy_from_slice(&length.to_be_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Greeting> {
        let fields = Fields::read(bytes).ok()?;
        match fields.number(KIND)? {
            0 => fields.hello().map(|hello| Greeting::Hello(Box::new(hello))),
            1 => fields.refused().map(Greeting::Refused),
            2 => Some(Greeting::Agreed),
            3 => Some(Greeting::Copies {
                version: fields.number(COPIES_VERSION)?,
                count: fields.number(COPIES)?,
            }),
            4 => Some(Greeting::Seeking { peer: fields.peer()? }),
            5 => Some(Greeting::Hears { peer: fields.peer()? }),
            _ => None,
        }
    }

    /// Sends it.
    pub(crate) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        to.write_all(&self.encode()).await?;
        to.flush().await
    }

    /// Waits for one.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Greeting> {
        let length = usize::from(from.read_u16().await?);
        let bad = |text| io::Error::new(io::ErrorKind::InvalidData, text);
        if length > GREETING_MAX {
            return Err(bad("a greeting that is too long"));
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).await?;
        Greeting::decode(&bytes).ok_or_else(|| bad("not a greeting"))
    }
}

struct Writer {
    out: Vec<u8>,
    count: u8,
}

impl Writer {
    fn field(&mut self, number: u8) -> Encoder<&mut Vec<u8>> {
        self.count += 1;
        let mut encoder = Encoder::new(&mut self.out);
        encoder.u8(number).expect(IN_MEMORY);
        encoder
    }

    fn number(&mut self, field: u8, value: u64) {
        self.field(field).u64(value).expect(IN_MEMORY);
    }

    fn bytes(&mut self, field: u8, bytes: &[u8]) {
        self.field(field).bytes(bytes).expect(IN_MEMORY);
    }

    fn text(&mut self, field: u8, text: &str) {
        let mut end = text.len().min(TEXT_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.field(field).str(&text[..end]).expect(IN_MEMORY);
    }

    fn endpoints(&mut self, endpoints: &[SocketAddr]) {
        let mut bytes = Vec::new();
        for endpoint in endpoints.iter().take(ADDRESSES_MAX) {
            match endpoint.ip() {
                IpAddr::V4(ip) => {
                    bytes.push(4);
                    bytes.extend_from_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    bytes.push(6);
                    bytes.extend_from_slice(&ip.octets());
                }
            }
            bytes.extend_from_slice(&endpoint.port().to_be_bytes());
        }
        self.bytes(ENDPOINTS, &bytes);
    }

    fn hello(&mut self, hello: &Hello) {
        self.number(KIND, 0);
        self.number(VERSION, hello.version.into());
        self.number(OLDEST, hello.oldest.into());
        let purpose = match hello.purpose {
            Purpose::Peer => 0,
            Purpose::Bulk => 1,
            Purpose::Who => 2,
            Purpose::Relay => 3,
        };
        self.number(PURPOSE, purpose);
        self.bytes(CLUSTER, &hello.cluster.0);
        self.text(NAME, &hello.cluster_name);
        self.number(INCARNATION, hello.incarnation.into());
        self.number(INSTANCE, hello.instance);
        self.endpoints(&hello.endpoints);
        // Builds that do not know the field have nothing but Pastry.
        if let Some(overlay) = hello.protocol.value(protocol::OVERLAY).filter(|overlay| *overlay != 0) {
            self.number(OVERLAY, overlay);
        }
        let told = hello.protocol.told();
        if !told.is_empty() {
            let mut map = self.field(PROTOCOL);
            map.map(told.len() as u64).expect(IN_MEMORY);
            for (number, value) in told {
                map.u64(number).and_then(|map| map.u64(value)).expect(IN_MEMORY);
            }
        }
        for (field, value) in [(ADOPTS, hello.adopts), (COPIES_VERSION, hello.copies_version)] {
            if value != 0 {
                self.number(field, value);
            }
        }
        if let Some(region) = &hello.region {
            self.text(REGION, region);
        }
        let optional =
            [(CERTIFICATE, &hello.certificate), (CREDENTIALS, &hello.credentials), (GRANTED, &hello.granted)];
        for (field, bytes) in optional {
            if let Some(bytes) = bytes {
                self.bytes(field, bytes);
            }
        }
        if let Some(token) = &hello.token {
            self.text(TOKEN, token);
        }
        if let Some(lineage) = hello.lineage {
            self.number(LINEAGE, lineage);
            self.number(RECORDS, hello.records);
        }
        if hello.yields {
            self.number(YIELDS, 1);
        }
        if let Some(peer) = &hello.relay {
            self.bytes(PEER, &peer.to_bytes());
        }
    }

    fn refused(&mut self, refused: &Refused) {
        self.number(KIND, 1);
        let reason = match refused.why {
            Why::Other => 0,
            Why::Version => 1,
            Why::Cluster => 2,
            Why::Membership => 3,
            Why::Credentials => 4,
            Why::Superseded => 5,
            Why::Twin => 6,
            Why::Stopping => 7,
            Why::Orderly => 8,
            Why::Lineage => 9,
            Why::Retired => 10,
        };
        self.number(REASON, reason);
        self.text(TEXT, &refused.text);
        if let Some((incarnation, endpoints)) = &refused.later {
            self.number(INCARNATION, (*incarnation).into());
            self.endpoints(endpoints);
        }
    }
}

/// The fields of a map, unread but for their places.
#[derive(Debug)]
struct Fields<'b> {
    found: Vec<(u64, &'b [u8])>,
}

impl<'b> Fields<'b> {
    fn read(bytes: &'b [u8]) -> Result<Fields<'b>, minicbor::decode::Error> {
        let mut decoder = Decoder::new(bytes);
        let count = decoder.map()?.filter(|count| *count <= 32);
        let count = count.ok_or_else(|| minicbor::decode::Error::message("too many fields"))?;
        let mut found = Vec::new();
        for _ in 0..count {
            let number = decoder.u64()?;
            let start = decoder.position();
            decoder.skip()?;
            found.push((number, &bytes[start..decoder.position()]));
        }
        Ok(Fields { found })
    }

    fn raw(&self, field: u8) -> Option<Decoder<'b>> {
        let found = self.found.iter().find(|(number, _)| *number == u64::from(field));
        found.map(|(_, bytes)| Decoder::new(bytes))
    }

    fn number(&self, field: u8) -> Option<u64> {
        self.raw(field)?.u64().ok()
    }

    fn bytes(&self, field: u8) -> Option<&'b [u8]> {
        self.raw(field)?.bytes().ok()
    }

    fn text(&self, field: u8) -> Option<String> {
        let text = self.raw(field)?.str().ok().filter(|text| text.len() <= TEXT_MAX)?;
        // It will be shown to people: nothing in it may move their cursor.
        Some(text.chars().filter(|c| !c.is_control()).collect())
    }

    fn endpoints(&self) -> Option<Vec<SocketAddr>> {
        let mut rest = self.bytes(ENDPOINTS)?;
        let mut endpoints = Vec::new();
        while let Some((family, after)) = rest.split_first() {
            let (ip, after): (IpAddr, &[u8]) = match family {
                4 => after.split_first_chunk::<4>().map(|(ip, after)| (IpAddr::from(*ip), after))?,
                6 => after.split_first_chunk::<16>().map(|(ip, after)| (IpAddr::from(*ip), after))?,
                _ => return None,
            };
            let (port, after) = after.split_first_chunk::<2>()?;
            endpoints.push(SocketAddr::new(ip, u16::from_be_bytes(*port)));
            rest = after;
        }
        Some(endpoints).filter(|endpoints| endpoints.len() <= ADDRESSES_MAX)
    }

    /// Reads the shared settings. `None`: they cannot be read.
    fn protocol(&self) -> Option<Protocol> {
        let mut told = vec![(protocol::OVERLAY, self.number(OVERLAY).unwrap_or(0))];
        if let Some(mut map) = self.raw(PROTOCOL) {
            for _ in 0..map.map().ok()?.filter(|count| *count <= PROTOCOL_MAX)? {
                told.push((map.u64().ok()?, map.u64().ok()?));
            }
        }
        Some(Protocol::heard(told))
    }

    fn hello(&self) -> Option<Hello> {
        let bytes = |field| self.bytes(field).map(<[u8]>::to_vec);
        Some(Hello {
            version: self.number(VERSION)?.try_into().ok()?,
            oldest: self.number(OLDEST)?.try_into().ok()?,
            purpose: match self.number(PURPOSE)? {
                0 => Purpose::Peer,
                1 => Purpose::Bulk,
                2 => Purpose::Who,
                3 => Purpose::Relay,
                _ => return None,
            },
            cluster: ClusterId(self.bytes(CLUSTER)?.try_into().ok()?),
            cluster_name: self.text(NAME)?,
            protocol: self.protocol()?,
            adopts: self.number(ADOPTS).unwrap_or(0),
            copies_version: self.number(COPIES_VERSION).unwrap_or(0),
            incarnation: self.number(INCARNATION)?.try_into().ok()?,
            instance: self.number(INSTANCE)?,
            endpoints: self.endpoints()?,
            region: self.text(REGION),
            certificate: bytes(CERTIFICATE),
            token: self.text(TOKEN),
            credentials: bytes(CREDENTIALS),
            granted: bytes(GRANTED),
            lineage: self.number(LINEAGE),
            records: self.number(RECORDS).unwrap_or(0),
            yields: self.number(YIELDS) == Some(1),
            relay: self.peer(),
        })
    }

    fn peer(&self) -> Option<NodeId> {
        NodeId::from_bytes(self.bytes(PEER)?).ok()
    }

    fn refused(&self) -> Option<Refused> {
        let why = match self.number(REASON)? {
            1 => Why::Version,
            2 => Why::Cluster,
            3 => Why::Membership,
            4 => Why::Credentials,
            5 => Why::Superseded,
            6 => Why::Twin,
            7 => Why::Stopping,
            8 => Why::Orderly,
            9 => Why::Lineage,
            10 => Why::Retired,
            _ => Why::Other,
        };
        let later = self.number(INCARNATION).and_then(|number| u32::try_from(number).ok());
        let later = later.map(|incarnation| (incarnation, self.endpoints().unwrap_or_default()));
        Some(Refused { why, text: self.text(TEXT)?, later })
    }
}

#[cfg(test)]
mod tests {
    use kringle_core::config::Settings;

    use super::*;

    fn hello() -> Hello {
        Hello {
            version: 1,
            oldest: 1,
            purpose: Purpose::Bulk,
            cluster: ClusterId([7; 16]),
            cluster_name: "blue".into(),
            protocol: Protocol::heard([(0, 1), (1, 2), (4, u64::MAX), (40, 7)]),
            adopts: u64::MAX,
            copies_version: u64::MAX,
            incarnation: u32::MAX,
            instance: u64::MAX,
            endpoints: vec!["127.0.0.1:7400".parse().unwrap(), "[::1]:7401".parse().unwrap()],
            region: Some("north".into()),
            certificate: Some(vec![1; 109]),
            token: Some("kj1-abc".into()),
            credentials: Some(vec![2; 32]),
            granted: None,
            lineage: Some(u64::MAX),
            records: u64::MAX,
            yields: true,
            relay: Some(NodeId::new(9)),
        }
    }

    fn greetings() -> Vec<Greeting> {
        let plain =
            Hello { adopts: 0, region: None, certificate: None, token: None, credentials: None, ..hello() };
        let plain =
            Hello { lineage: None, records: 0, yields: false, copies_version: 0, relay: None, ..plain };
        let plain = Hello { protocol: Protocol::heard([]), ..plain };
        let full = Hello { granted: Some(vec![3; 109]), ..hello() };
        let later = Some((9, vec!["10.0.0.1:7400".parse().unwrap()]));
        vec![
            Greeting::Hello(Box::new(hello())),
            Greeting::Hello(Box::new(plain)),
            Greeting::Hello(Box::new(full)),
            Greeting::Refused(Refused::new(Why::Lineage, "founded apart")),
            Greeting::Refused(Refused::new(Why::Retired, "retired")),
            Greeting::Refused(Refused::new(Why::Cluster, "this is blue")),
            Greeting::Refused(Refused { why: Why::Superseded, text: String::new(), later }),
            Greeting::Agreed,
            Greeting::Copies { version: u64::MAX, count: 5 },
            Greeting::Seeking { peer: NodeId::new(4) },
            Greeting::Hears { peer: NodeId::new(u128::MAX) },
        ]
    }

    #[test]
    fn greetings_survive_the_wire() {
        for greeting in greetings() {
            let bytes = greeting.encode();
            assert_eq!(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])), bytes.len() - 2);
            assert_eq!(Greeting::decode(&bytes[2..]), Some(greeting));
        }
    }

    #[test]
    fn a_damaged_greeting_is_refused_or_another_greeting_and_never_a_panic() {
        for greeting in greetings() {
            let bytes = greeting.encode();
            for end in 2..bytes.len() {
                let _ = Greeting::decode(&bytes[2..end]);
            }
            for at in 2..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    let _ = Greeting::decode(&damaged[2..]);
                }
            }
        }
    }

    #[test]
    fn a_greeting_with_default_settings_is_that_of_an_older_build() {
        let Greeting::Hello(plain) = &greetings()[1] else { panic!() };
        let bytes = Greeting::Hello(plain.clone()).encode();
        let fields = Fields::read(&bytes[2..]).unwrap();
        assert!(fields.found.iter().all(|(number, _)| *number < u64::from(OVERLAY)), "{fields:?}");
        assert_eq!(fields.hello().unwrap().protocol, Protocol::of(&Settings::default()));
    }

    #[test]
    fn texts_of_strangers_can_not_move_a_cursor() {
        let refused = Greeting::Refused(Refused::new(Why::Other, "a\x1b[2Jb\nc"));
        let Some(Greeting::Refused(refused)) = Greeting::decode(&refused.encode()[2..]) else { panic!() };
        assert_eq!(refused.text, "a[2Jbc");
    }
}
