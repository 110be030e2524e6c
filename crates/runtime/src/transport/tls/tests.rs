//! Handshakes over pipes in memory: who gets in, and what is refused.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf, duplex};

use super::*;

fn node(seed: u8) -> (Tls, PublicKey) {
    let identity = Identity::from_seed([seed; 32]);
    (Tls::new(&identity), identity.public())
}

type Outcome<S> = Result<(TlsStream<S>, PublicKey), HandshakeError>;

/// Runs both sides of a handshake.
async fn meet(
    caller: &Tls,
    answerer: &Tls,
    expected: Option<NodeId>,
) -> (Outcome<DuplexStream>, Outcome<DuplexStream>) {
    let (here, there) = duplex(16 << 10);
    tokio::join!(caller.connect(here, expected), answerer.accept(there))
}

#[tokio::test]
async fn both_sides_learn_each_others_key_and_can_talk() {
    let ((a, a_key), (b, b_key)) = (node(1), node(2));
    for expected in [Some(b_key.id()), None] {
        let (called, answered) = meet(&a, &b, expected).await;
        let ((mut called, found_b), (mut answered, found_a)) = (called.unwrap(), answered.unwrap());
        assert_eq!((found_a, found_b), (a_key, b_key));
        called.write_all(b"hello").await.unwrap();
        called.flush().await.unwrap();
        let mut read = [0; 5];
        answered.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"hello");
        let state = called.get_ref().1;
        assert_eq!(state.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
        assert_eq!(state.handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}

#[tokio::test]
async fn another_node_than_the_expected_one_is_refused_by_the_caller() {
    let ((a, _), (b, b_key)) = (node(1), node(2));
    let wanted = b_key.id().plus(1);
    let (called, answered) = meet(&a, &b, Some(wanted)).await;
    assert!(
        matches!(called, Err(HandshakeError::WrongId { expected, found }) if expected == wanted && found == b_key.id())
    );
    assert!(matches!(answered, Err(HandshakeError::Refused(_))));
}

#[tokio::test]
async fn nobody_talks_to_its_own_key() {
    let (a, key) = node(1);
    for expected in [Some(key.id()), None] {
        let (called, answered) = meet(&a, &a, expected).await;
        assert!(matches!(called, Err(HandshakeError::OwnKey)));
        assert!(answered.is_err());
    }
    // The answering side refuses its own key also from a caller that does not look.
    let (here, there) = duplex(16 << 10);
    let careless = Tls { client: Arc::new(client_of(1, |_| {})), ..a.clone() };
    let (_, answered) = tokio::join!(careless.connect(here, None), a.accept(there));
    assert!(matches!(answered, Err(HandshakeError::OwnKey)));
}

/// A client that checks nothing, with the key of this node, changed as the test likes.
fn client_of(seed: u8, change: impl FnOnce(&mut ClientConfig)) -> ClientConfig {
    // Its own key is one that nobody has.
    let careless = Verifier { own: PublicKey::from_bytes([0; 32]) };
    let provider = Arc::new(ring::default_provider());
    let key = own_key(&provider, &Identity::from_seed([seed; 32]));
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(careless))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    client.enable_sni = false;
    change(&mut client);
    client
}

async fn answer_to(change: impl FnOnce(&mut ClientConfig)) -> Outcome<DuplexStream> {
    let (b, _) = node(2);
    let caller = Tls { client: Arc::new(client_of(1, change)), ..b.clone() };
    let (here, there) = duplex(16 << 10);
    let (_, answered) = tokio::join!(caller.connect(here, None), b.accept(there));
    answered
}

/// Shows these keys, or none, in the place of the one that is wanted.
#[derive(Debug)]
struct Shows(Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

/// An ordinary TLS client without a certificate.
#[derive(Debug)]
struct KnowsNoRawKeys;

impl ResolvesClientCert for KnowsNoRawKeys {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_caller_without_a_key_is_refused() {
    assert!(answer_to(|_| {}).await.is_ok());
    let none = answer_to(|client| client.client_auth_cert_resolver = Arc::new(Shows(None))).await;
    assert!(matches!(none, Err(HandshakeError::NoKey)), "{:?}", none.err());
    let ordinary = answer_to(|client| client.client_auth_cert_resolver = Arc::new(KnowsNoRawKeys)).await;
    assert!(matches!(ordinary, Err(HandshakeError::Tls(_))), "{:?}", ordinary.err());
}

#[tokio::test]
async fn a_refused_caller_learns_it_when_reading() {
    let ((a, _), (b, _)) = (node(1), node(2));
    let keyless =
        Tls { client: Arc::new(client_of(1, |c| c.client_auth_cert_resolver = Arc::new(Shows(None)))), ..a };
    let (called, answered) = meet(&keyless, &b, None).await;
    assert!(answered.is_err());
    let error = called.unwrap().0.read_u8().await.unwrap_err();
    assert!(matches!(explain(error), HandshakeError::Refused(_)));
}

#[tokio::test]
async fn a_caller_with_anything_but_one_raw_key_that_it_holds_is_refused() {
    let (own, other) = (Identity::from_seed([1; 32]), Identity::from_seed([3; 32]));
    let shown = |keys: Vec<Vec<u8>>| {
        let signing = Arc::clone(&own_key(&ring::default_provider(), &own).key);
        Arc::new(CertifiedKey::new(keys.into_iter().map(CertificateDer::from).collect(), signing))
    };
    let spki = own.public().spki().to_vec();
    let vectors = [
        ("trailing byte", vec![[spki.as_slice(), &[0]].concat()]),
        ("bare bytes", vec![own.public().to_bytes().to_vec()]),
        ("two keys", vec![spki.clone(), spki.clone()]),
        ("somebody else's key", vec![other.public().spki().to_vec()]),
        ("key of small order", vec![PublicKey::from_bytes([0; 32]).spki().to_vec()]),
        ("X.509", vec![vec![0x30, 0x82, 0x01, 0x00, 0x30, 0x81]]),
    ];
    for (what, keys) in vectors {
        let key = shown(keys);
        let answered =
            answer_to(|client| client.client_auth_cert_resolver = Arc::new(Shows(Some(key)))).await;
        assert!(matches!(answered, Err(HandshakeError::BadKey | HandshakeError::Tls(_))), "{what}");
    }
}

#[tokio::test]
async fn a_caller_that_does_not_name_our_protocol_is_refused() {
    for protocols in [vec![], vec![b"h2".to_vec()], vec![b"kringle/0".to_vec(), b"kringle/10".to_vec()]] {
        let answered = answer_to(|client| client.alpn_protocols = protocols.clone()).await;
        assert!(matches!(answered, Err(HandshakeError::OtherProtocol)), "{protocols:?}");
    }
}

#[tokio::test]
async fn an_answerer_that_does_not_name_our_protocol_is_refused() {
    let ((a, _), (mut b, _)) = (node(1), node(2));
    for protocols in [vec![], vec![b"h2".to_vec()]] {
        let mut server = ServerConfig::clone(&b.server);
        server.alpn_protocols = protocols.clone();
        b.server = Arc::new(server);
        let (called, _) = meet(&a, &b, None).await;
        assert!(matches!(called, Err(HandshakeError::OtherProtocol)), "{protocols:?}");
    }
}

/// Sends bytes to a fresh answerer, and returns what it made of them and what it sent back.
async fn answer_to_bytes(bytes: &[u8]) -> (HandshakeError, Vec<u8>) {
    let (b, _) = node(2);
    let (mut here, there) = duplex(64 << 10);
    here.write_all(bytes).await.unwrap();
    here.shutdown().await.unwrap();
    let error = b.accept(there).await.expect_err("no handshake took place");
    let mut reply = Vec::new();
    here.read_to_end(&mut reply).await.unwrap();
    (error, reply)
}

/// The first message of a client that knows TLS 1.2 and nothing later.
fn hello_of_tls_12() -> Vec<u8> {
    let mut hello = vec![3, 3];
    hello.extend_from_slice(&[7; 32]); // random
    hello.extend_from_slice(&[0, 0, 2, 0xc0, 0x2b, 1, 0]); // no session, one cipher suite, no compression
    let extensions = [
        [0x00, 0x0a, 0, 4, 0, 2, 0x00, 0x1d].as_slice(), // group x25519
        &[0x00, 0x0d, 0, 4, 0, 2, 0x08, 0x07],           // signature ed25519
        &[0x00, 0x17, 0, 0],                             // extended master secret
    ]
    .concat();
    hello.extend_from_slice(&(extensions.len() as u16).to_be_bytes());
    hello.extend_from_slice(&extensions);
    let length = (hello.len() as u32).to_be_bytes();
    let message = [&[1], &length[1..], hello.as_slice()].concat();
    [&[22, 3, 1], (message.len() as u16).to_be_bytes().as_slice(), message.as_slice()].concat()
}

#[tokio::test]
async fn tls_12_is_refused_with_an_alert() {
    let (error, reply) = answer_to_bytes(&hello_of_tls_12()).await;
    assert!(matches!(&error, HandshakeError::Tls(_)), "{error:?}");
    // One record: an alert (21), fatal (2), protocol_version (70).
    assert_eq!((reply[0], &reply[5..]), (21, [2, 70].as_slice()));
}

#[tokio::test]
async fn bytes_that_are_not_tls_are_refused() {
    let vectors: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: kringle\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        &[0; 64],
        &[0xff; 64],
        &[22, 3, 1, 0xff, 0xff, 1],
        &[21, 3, 3, 0, 2, 2, 40],
    ];
    for bytes in vectors {
        let (error, _) = answer_to_bytes(bytes).await;
        assert!(
            matches!(error, HandshakeError::Tls(_) | HandshakeError::Refused(_) | HandshakeError::Closed),
            "{error:?}"
        );
    }
    let (error, reply) = answer_to_bytes(&[]).await;
    assert!(matches!(error, HandshakeError::Closed) && reply.is_empty(), "{error:?}");
}

#[tokio::test]
async fn the_callers_first_message_names_nobody() {
    let ((a, a_key), (_, b_key)) = (node(1), node(2));
    let (here, mut there) = duplex(16 << 10);
    let mut hello = vec![0; 16 << 10];
    let read = async {
        let length = there.read(&mut hello).await.unwrap();
        drop(there);
        length
    };
    let (called, length) = tokio::join!(a.connect(here, Some(b_key.id())), read);
    assert!(matches!(called, Err(HandshakeError::Closed)));
    let hello = &hello[..length];
    let contains = |part: &[u8]| hello.windows(part.len()).any(|window| window == part);
    assert!(contains(PROTOCOL));
    assert!(!contains(b".kringle") && !contains(b_key.id().to_string().as_bytes()));
    assert!(!contains(&a_key.to_bytes()) && !contains(&b_key.to_bytes()));
}

/// A stream that flips bits in what is written: at byte `at` of the next record, once `at` is set.
struct Damaging {
    inner: DuplexStream,
    at: Arc<AtomicUsize>,
}

const UNHARMED: usize = usize::MAX;
const MARKER: &[u8; 13] = b"do not change";

impl AsyncRead for Damaging {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Damaging {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut bytes = buf.to_vec();
        match self.at.swap(UNHARMED, Ordering::Relaxed) {
            UNHARMED => {}
            // The five bytes in front are not secret and partly ignored; all others count.
            at => {
                let at = 5 + at % (bytes.len() - 5);
                bytes[at] ^= 1 << (at % 8);
            }
        }
        Pin::new(&mut self.inner).poll_write(cx, &bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Has each side send one record, damaged at a byte or not, and says what arrives.
async fn send_damaged(a: &Tls, b: &Tls, damage: usize) -> [io::Result<[u8; 13]>; 2] {
    let (here, there) = duplex(16 << 10);
    let at = [UNHARMED, UNHARMED].map(|at| Arc::new(AtomicUsize::new(at)));
    let here = Damaging { inner: here, at: Arc::clone(&at[0]) };
    let there = Damaging { inner: there, at: Arc::clone(&at[1]) };
    let (called, answered) = tokio::join!(a.connect(here, None), b.accept(there));
    let mut ends = [called.unwrap().0, answered.unwrap().0];
    for (end, at) in ends.iter_mut().zip(&at) {
        at.store(damage, Ordering::Relaxed);
        end.write_all(MARKER).await.unwrap();
        end.flush().await.unwrap();
    }
    let [mut called, mut answered] = ends;
    let (mut read_a, mut read_b) = ([0; 13], [0; 13]);
    [
        called.read_exact(&mut read_a).await.map(|_| read_a),
        answered.read_exact(&mut read_b).await.map(|_| read_b),
    ]
}

/// Reliability row A-02: 1,000 damaged records, 0 accepted, and each ends its own connection only.
#[tokio::test]
async fn damaged_records_are_never_accepted() {
    let ((a, _), (b, _)) = (node(1), node(2));
    for damage in 0..500 {
        for arrived in send_damaged(&a, &b, damage).await {
            assert!(
                matches!(&arrived, Err(e) if e.kind() == io::ErrorKind::InvalidData),
                "{damage}: {arrived:?}"
            );
        }
    }
    for arrived in send_damaged(&a, &b, UNHARMED).await {
        assert_eq!(arrived.unwrap(), *MARKER);
    }
}
