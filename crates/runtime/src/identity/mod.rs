//! Who a node is: an Ed25519 key, and the id that follows from it.
//!
//! A node's id is a hash of its public key, so nobody can choose a place on the ring and nobody can speak for an id
//! without its key. TLS proves the key (see [`crate::transport::tls`]), a [`cluster::Certificate`] proves that the
//! key belongs to the cluster, and a [`token::Token`] is what a newcomer brings to get that certificate.
//!
//! The two DER forms that TLS wants are a fixed prefix and 32 bytes each. They are written by hand: no X.509, nothing
//! that expires, no certificate library.

use std::{fmt, io};

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use kringle_core::id::NodeId;

pub mod book;
pub mod cluster;
pub mod credentials;
pub(crate) mod text;
pub mod token;

/// What precedes the 32 key bytes in an Ed25519 SubjectPublicKeyInfo (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// What precedes the 32 seed bytes in an Ed25519 PKCS#8 private key (RFC 8410, section 7).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The key of this node. It never leaves the process except into the key file; `Debug` shows the id alone.
pub struct Identity {
    key: SigningKey,
    public: PublicKey,
}

impl Identity {
    /// Makes a new key. Fails only if the operating system has no random bytes.
    pub fn generate() -> io::Result<Identity> {
        Ok(Identity::from_seed(random()?))
    }

    /// Makes the key that belongs to this seed: always the same one.
    pub fn from_seed(seed: [u8; 32]) -> Identity {
        let key = SigningKey::from_bytes(&seed);
        let public = PublicKey(key.verifying_key().to_bytes());
        Identity { key, public }
    }

    /// Returns the seed, for the key file and for keys derived from it. It is the secret: show it to nobody.
    pub fn seed(&self) -> &[u8; 32] {
        self.key.as_bytes()
    }

    /// Returns this node's id.
    pub fn id(&self) -> NodeId {
        self.public.id()
    }

    /// Returns the public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs a message. The caller starts it with words that say what kind of message it is, so that a signature
    /// made for one purpose is worth nothing for another.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }

    /// Returns the private key in the form TLS loads. It contains the secret.
    pub fn pkcs8(&self) -> Vec<u8> {
        [PKCS8_PREFIX.as_slice(), self.seed()].concat()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.id())
    }
}

/// The public half of a key, of a node or of a cluster.
///
/// Any 32 bytes can be held; bytes that are no point on the curve simply verify nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Makes a key from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> PublicKey {
        PublicKey(bytes)
    }

    /// Returns the 32 bytes.
    pub const fn to_bytes(self) -> [u8; 32] {
        self.0
    }

    /// Reads the 64 hexadecimal digits that `Display` writes.
    pub fn from_text(text: &str) -> Option<PublicKey> {
        text::unhex(text)?.try_into().ok().map(PublicKey)
    }

    /// Returns the id of the node that holds this key: the first 16 bytes of BLAKE3 over the SPKI, big-endian.
    pub fn id(&self) -> NodeId {
        NodeId::new(u128::from_be_bytes(first_16(blake3::hash(&self.spki()).as_bytes())))
    }

    /// Returns the key as a SubjectPublicKeyInfo, the form in which TLS shows it.
    pub fn spki(&self) -> [u8; 44] {
        let mut spki = [0; 44];
        spki[..12].copy_from_slice(&SPKI_PREFIX);
        spki[12..].copy_from_slice(&self.0);
        spki
    }

    /// Reads a SubjectPublicKeyInfo: exactly the form [`PublicKey::spki`] writes, so that a key has one form only and
    /// therefore one id only.
    pub fn from_spki(spki: &[u8]) -> Option<PublicKey> {
        spki.strip_prefix(&SPKI_PREFIX)?.try_into().ok().map(PublicKey)
    }

    /// Says whether the holder of this key signed `message`.
    ///
    /// Strict (see dalek's `verify_strict`): keys and signatures of small order, which fit many messages, fit none.
    pub fn verify(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        VerifyingKey::from_bytes(&self.0)
            .is_ok_and(|key| key.verify_strict(message, &Signature::from_bytes(signature)).is_ok())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// Draws random bytes from the operating system.
fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| io::Error::other(format!("no random bytes: {e}")))?;
    Ok(bytes)
}

/// Returns the first half of a hash.
fn first_16(hash: &[u8; 32]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&hash[..16]);
    first
}

#[cfg(test)]
mod tests;
