//! Bytes of strangers on the node port.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};
use kringle_runtime::identity::Identity;
use kringle_runtime::identity::cluster::Cluster;
use kringle_runtime::transport::tls::{PROTOCOL, Tls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring as provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::ring::control::{Process, check, settle};
use crate::ring::protocol::Options;
use crate::support::{LONG, launcher, leases, ring, until};

/// How much a node may grow by what strangers do.
const GROWTH: u64 = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

fn counter(node: &Process, name: &str) -> u64 {
    node.counter(name).unwrap()
}

fn connect(to: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Reads until the other side closes; panics if it does not.
fn until_closed(socket: &mut TcpStream) {
    let mut buffer = [0; 4096];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the node keeps the connection: {error}"),
        }
    }
}

/// Goal: whatever strangers send, the ring answers rightly meanwhile and afterwards, and the node does not grow.
#[test]
fn garbage_and_silence_on_the_port_change_nothing() {
    let mut nodes = ring(4, |_| leases(1000));
    let to = nodes[1].address;
    let before = nodes[1].resident().unwrap();
    let mut dice = SeededDice::new(1);
    for at in 0..1000 {
        let mut socket = connect(to);
        let length = 1 + dice.below(3000);
        let mut bytes: Vec<u8> = (0..length).map(|_| dice.roll() as u8).collect();
        if at % 4 == 0 {
            // The beginning of something that could be TLS.
            bytes.splice(0..0, [22, 3, 1, 64, 0, 1, 0, 63, 252, 3, 3]);
        }
        // The node may have closed by the time all is written.
        let _ = socket.write_all(&bytes);
        if at % 50 == 0 {
            until_closed(&mut socket);
            check(&nodes, 4, at).unwrap();
        }
    }
    println!("after 1,000 connections with garbage: {} KiB more", grown(&nodes[1], before) >> 10);

    let silent: Vec<TcpStream> = (0..300).map(|_| connect(to)).collect();
    for seed in 0..10 {
        check(&nodes, 8, seed).unwrap();
    }
    for mut socket in silent {
        until_closed(&mut socket);
    }
    println!("after 300 silent connections: {} KiB more", grown(&nodes[1], before) >> 10);

    for _ in 0..10 {
        let mut socket = connect(to);
        let much = vec![0x16; 1 << 20];
        while socket.write_all(&much).is_ok() {}
    }
    check(&nodes, 16, 3).unwrap();
    let growth = grown(&nodes[1], before);
    println!("after ten endless connections: {} KiB more", growth >> 10);
    assert!(growth <= GROWTH, "the node grew by {growth} bytes");

    let late = launcher().start(&Options { join: vec![to], ..leases(1000) }).unwrap();
    late.ready(LONG).unwrap();
    nodes.push(late);
    settle(&nodes, 16, LONG).unwrap();
}

fn grown(node: &Process, before: u64) -> u64 {
    node.resident().unwrap().saturating_sub(before)
}

/// Goal: whoever gets through TLS gets no further with what is not a greeting, or with a frame that is too large.
#[test]
fn greetings_and_frames_of_any_size_are_survived() {
    // The default: a stranger whose settings differ would be turned away before it can send a frame.
    let nodes = ring(3, |_| {
        let mut options = leases(10_000);
        options.slots = None;
        options
    });
    let node = &nodes[0];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = node.resident().unwrap();
    runtime.block_on(async {
        for (what, bytes) in [
            ("a greeting that is too long", vec![0xff; 70_000]),
            ("a greeting that is none", [vec![0, 200], vec![0x5a; 200]].concat()),
            ("an empty greeting", vec![0, 0]),
            ("a frame where a greeting belongs", frame(16)),
        ] {
            let mut stream = tls(node.address).await;
            // The node may close before all is written.
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            assert!(is_closed(&mut stream).await, "{what}: the node keeps the connection");
        }
        let refused = counter(node, r#"kringle_refused_total{kind="oversized"}"#);
        for at in 0..20 {
            let mut stream = tls(node.address).await;
            stream.write_all(&hello()).await.unwrap();
            let length = stream.read_u16().await.unwrap();
            stream.read_exact(&mut vec![0; usize::from(length)]).await.unwrap();
            // An agreement, then a frame that announces four gigabytes, and a good part of it.
            let _ = stream.write_all(&[0, 3, 0xa1, 0, 2]).await;
            let _ = stream.write_all(&frame(u32::MAX - at)).await;
            let _ = stream.write_all(&vec![0; 1 << 20]).await;
            assert!(is_closed(&mut stream).await, "the node keeps the connection after an oversized frame");
        }
        assert_eq!(counter(node, r#"kringle_refused_total{kind="oversized"}"#), refused + 20);
    });
    let growth = grown(node, before);
    println!("after oversized greetings and frames: {} KiB more", growth >> 10);
    assert!(growth <= GROWTH, "the node grew by {growth} bytes");
    check(&nodes, 32, 1).unwrap();
}

async fn tls(to: SocketAddr) -> tokio_rustls::TlsStream<tokio::net::TcpStream> {
    let socket = tokio::net::TcpStream::connect(to).await.unwrap();
    Tls::new(&Identity::generate().unwrap()).connect(socket, None).await.unwrap().0
}

/// Says whether the other side closes, whatever it says before that.
async fn is_closed(stream: &mut (impl AsyncReadExt + Unpin)) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.is_ok()
}

/// The greeting of a node of the tests' cluster, written by hand.
fn hello() -> Vec<u8> {
    let mut body = vec![0xa9];
    let mut encoder = minicbor::Encoder::new(&mut body);
    for (field, value) in [(0, 0), (1, 1), (2, 1), (3, 0), (6, 1), (7, 1)] {
        encoder.u8(field).unwrap().u64(value).unwrap();
    }
    encoder.u8(4).unwrap().bytes(&Cluster::open("ring").unwrap().id().0).unwrap();
    encoder.u8(5).unwrap().str("ring").unwrap();
    encoder.u8(8).unwrap().bytes(&[4, 127, 0, 0, 1, 0, 9]).unwrap();
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&length[..], &body].concat()
}

/// The header of a frame that announces so many bytes.
fn frame(length: u32) -> Vec<u8> {
    let mut frame = vec![0; 32];
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame[4..6].copy_from_slice(b"KR");
    frame
}

/// Takes any key for good and shows none.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[test]
fn a_tls_client_without_a_key_is_not_let_in() {
    let nodes = ring(2, |_| leases(1000));
    let failed = counter(&nodes[0], "kringle_handshakes_failed_total");
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpStream::connect(nodes[0].address).await.unwrap();
        let name = ServerName::try_from("kringle").unwrap();
        let connected = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, socket).await;
        // In TLS 1.3 the caller is done first and hears of the refusal when it reads.
        if let Ok(mut stream) = connected {
            let _ = stream.write_all(&hello()).await;
            let mut byte = [0];
            let read = tokio::time::timeout(PATIENCE, stream.read(&mut byte)).await.unwrap();
            assert!(!matches!(read, Ok(1..)), "it was answered");
        }
    });
    until("the node counts it", LONG, || counter(&nodes[0], "kringle_handshakes_failed_total") > failed);
    check(&nodes, 16, 1).unwrap();
}
