//! TLS 1.3 with raw public keys: encryption between nodes, and the proof that a peer is who it is.
//!
//! Both sides show their Ed25519 key bare (RFC 7250) and sign the handshake with it. The id that was dialled is
//! compared with the hash of the key inside the handshake, so a wrong node is refused before it learns anything. No
//! certificates, no session tickets, no early data, no host name on the wire: nothing of one connection is used in
//! another, so there is nothing to replay.
//!
//! TLS says who the peer is, not whether it may be here: certificates and credentials come after it, encrypted.
//! Deadlines are the caller's.

use std::io;
use std::sync::Arc;

use kringle_core::id::NodeId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, CommonState, DigitallySignedStruct, DistinguishedName, OtherError,
    PeerIncompatible, ServerConfig, SignatureScheme,
};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::identity::{Identity, PublicKey};

/// What the two sides must agree to speak. It is part of what both sign, so nobody between them can change it.
pub const PROTOCOL: &[u8] = b"kringle/1";

/// Opens and accepts connections in the name of one node.
#[derive(Clone)]
pub struct Tls {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Tls {
    /// Prepares both sides for this node. Nothing global is set or used.
    pub fn new(identity: &Identity) -> Tls {
        let provider = Arc::new(ring::default_provider());
        let key = own_key(&provider, identity);
        let verifier = Arc::new(Verifier { own: identity.public() });

        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .expect("ring has cipher suites and groups for TLS 1.3")
            .with_client_cert_verifier(verifier.clone())
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&key))));
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.max_early_data_size = 0;

        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("ring has cipher suites and groups for TLS 1.3")
            .dangerous() // rustls' word for any verifier but its own, which wants X.509.
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_sni = false;

        Tls { server: Arc::new(server), client: Arc::new(client) }
    }

    /// Takes the answering side of a handshake, and returns the key that the peer has proved to hold.
    pub async fn accept<S>(&self, stream: S) -> Result<(TlsStream<S>, PublicKey), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = TlsAcceptor::from(Arc::clone(&self.server)).accept(stream).await.map_err(explain)?;
        let key = agreed(stream.get_ref().1)?;
        Ok((TlsStream::Server(stream), key))
    }

    /// Takes the calling side of a handshake, with the node `expected` or, without one, with whoever answers. Returns
    /// the key that the peer has proved to hold.
    ///
    /// In TLS 1.3 the caller is done first: if the peer refuses *our* key, that shows when reading from the stream.
    pub async fn connect<S>(
        &self,
        stream: S,
        expected: Option<NodeId>,
    ) -> Result<(TlsStream<S>, PublicKey), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connector = TlsConnector::from(Arc::clone(&self.client));
        let stream = connector.connect(name_for(expected), stream).await.map_err(explain)?;
        let key = agreed(stream.get_ref().1)?;
        Ok((TlsStream::Client(stream), key))
    }
}

/// Why there is no connection. Anybody on the network can cause any of these, and nothing but this connection is
/// affected.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// Another node answers there. Healthy when addresses are reused; the peer learnt nothing.
    #[error("expected node {expected}, but node {found} answers there")]
    WrongId {
        /// The node that was dialled.
        expected: NodeId,
        /// The node that answered.
        found: NodeId,
    },
    /// The peer shows our own key: we reached ourselves, somebody reflects our bytes, or the key was copied.
    #[error("the peer has this node's own key")]
    OwnKey,
    /// The peer shows no key at all.
    #[error("the peer shows no key")]
    NoKey,
    /// The peer shows something else than one bare Ed25519 key.
    #[error("the peer's key is not a raw Ed25519 key")]
    BadKey,
    /// The peer speaks TLS but not this protocol, or not this version of it.
    #[error("the peer does not speak {}", String::from_utf8_lossy(PROTOCOL))]
    OtherProtocol,
    /// The peer refused us and said so.
    #[error("the peer refused the handshake: {0}")]
    Refused(String),
    /// The connection ended in the middle.
    #[error("the connection was closed during the handshake")]
    Closed,
    /// What the peer sent is not a sound TLS 1.3 handshake: another protocol, an old version, or damage on the way.
    #[error("TLS: {0}")]
    Tls(String),
    /// The socket failed in another way.
    #[error(transparent)]
    Io(io::Error),
}

impl From<HandshakeError> for io::Error {
    fn from(error: HandshakeError) -> io::Error {
        match error {
            HandshakeError::Io(error) => error,
            HandshakeError::Closed => io::Error::new(io::ErrorKind::UnexpectedEof, error),
            _ => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// Judges the key a peer shows and its signature over the handshake. Used by both sides.
#[derive(Debug)]
struct Verifier {
    own: PublicKey,
}

impl Verifier {
    fn judge(
        &self,
        shown: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        expected: Option<NodeId>,
    ) -> Result<(), Refusal> {
        let key = PublicKey::from_spki(shown).filter(|_| rest.is_empty()).ok_or(Refusal::BadKey)?;
        if key == self.own {
            return Err(Refusal::OwnKey);
        }
        match expected {
            Some(expected) if key.id() != expected => Err(Refusal::WrongId { expected, found: key.id() }),
            _ => Ok(()),
        }
    }

    /// Checks with the same strict function as all other signatures, so that no key fits more handshakes than one.
    fn signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let bad = rustls::Error::InvalidCertificate(CertificateError::BadSignature);
        let (Some(key), Ok(signature)) = (PublicKey::from_spki(shown), signed.signature().try_into()) else {
            return Err(bad);
        };
        if signed.scheme == SignatureScheme::ED25519 && key.verify(message, signature) {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(bad)
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let expected =
            expected_in(name).ok_or_else(|| rustls::Error::General("not one of our names".into()))?;
        self.judge(shown, rest, expected)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.judge(shown, rest, None)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Our own reasons, on their way out through rustls.
#[derive(Clone, Copy, Debug, Error)]
enum Refusal {
    #[error("expected node {expected}, found {found}")]
    WrongId { expected: NodeId, found: NodeId },
    #[error("own key")]
    OwnKey,
    #[error("not a raw Ed25519 key")]
    BadKey,
}

impl From<Refusal> for rustls::Error {
    fn from(refusal: Refusal) -> rustls::Error {
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refusal))))
    }
}

/// Loads the node's key into rustls, with the bare public key in the place of a certificate.
fn own_key(provider: &CryptoProvider, identity: &Identity) -> Arc<CertifiedKey> {
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.pkcs8()));
    let key = provider
        .key_provider
        .load_private_key(private)
        .expect("an Ed25519 key in PKCS#8 form, which a test loads, differs from others in its seed only");
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(identity.public().spki().to_vec())], key))
}

/// Hands the expected id to the verifier in the only place there is for it: the server's name, which is not sent.
fn name_for(expected: Option<NodeId>) -> ServerName<'static> {
    let label = expected.map_or_else(|| "any".to_owned(), |id| id.to_string());
    ServerName::try_from(format!("{label}.kringle")).expect("32 hexadecimal digits or `any` are a DNS label")
}

/// Undoes [`name_for`].
fn expected_in(name: &ServerName<'_>) -> Option<Option<NodeId>> {
    let ServerName::DnsName(name) = name else { return None };
    match name.as_ref().strip_suffix(".kringle")? {
        "any" => Some(None),
        id => id.parse().ok().map(Some),
    }
}

/// Returns the peer's key after a handshake, if the peer also agreed to the protocol. A peer that names no protocol at
/// all passes rustls, but not this.
fn agreed(state: &CommonState) -> Result<PublicKey, HandshakeError> {
    if state.alpn_protocol() != Some(PROTOCOL) {
        return Err(HandshakeError::OtherProtocol);
    }
    let [shown] = state.peer_certificates().unwrap_or_default() else { return Err(HandshakeError::NoKey) };
    PublicKey::from_spki(shown).ok_or(HandshakeError::BadKey)
}

/// Finds out what an error of tokio-rustls means.
fn explain(error: io::Error) -> HandshakeError {
    use rustls::Error as E;
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<E>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected => HandshakeError::Closed,
            _ => HandshakeError::Io(error),
        };
    };
    match tls {
        E::InvalidCertificate(CertificateError::Other(OtherError(other))) => match other.downcast_ref() {
            Some(&Refusal::WrongId { expected, found }) => HandshakeError::WrongId { expected, found },
            Some(Refusal::OwnKey) => HandshakeError::OwnKey,
            Some(Refusal::BadKey) => HandshakeError::BadKey,
            None => HandshakeError::Tls(tls.to_string()),
        },
        E::NoCertificatesPresented => HandshakeError::NoKey,
        E::NoApplicationProtocol => HandshakeError::OtherProtocol,
        E::AlertReceived(rustls::AlertDescription::NoApplicationProtocol) => HandshakeError::OtherProtocol,
        E::AlertReceived(alert) => HandshakeError::Refused(format!("{alert:?}")),
        _ => HandshakeError::Tls(tls.to_string()),
    }
}

#[cfg(test)]
mod tests;
