//! Which cluster a node belongs to, and how it proves that.
//!
//! A cluster has a name and a secret. From both follows a signing key, and from name and *public* key the cluster id
//! that every frame carries. So the id is a function of (name, secret), as two clusters that share a name by accident
//! need; and because the secret enters only by way of the public key, a newcomer who was told the id (it is in the
//! join token) can check the public key it is shown, without ever having seen the secret.
//!
//! With an empty secret the signing key is known to everybody who knows the name: on loopback and in demonstrations
//! each node certifies itself. Nothing is protected then, but nothing works differently either.

use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use kringle_core::config::ClusterId;
use thiserror::Error;

use super::{Identity, PublicKey, first_16, random, text};

/// The longest name of a cluster, in characters.
pub const NAME_LENGTH_MAX: usize = 64;

/// What members of a cluster share and nobody else knows. It has neither `Debug` nor `Display`: the only way to its
/// content is [`Secret::text`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Makes a new secret. Fails only if the operating system has no random bytes.
    pub fn generate() -> io::Result<Secret> {
        Ok(Secret(random()?))
    }

    /// Returns the secret that is none: see [`Cluster::open`].
    pub fn empty() -> Secret {
        Secret([0; 32])
    }

    /// Reads a secret: 64 hexadecimal digits are taken as they are, any other text is a pass phrase and is hashed.
    /// White space around it does not count; nothing at all is the empty secret.
    ///
    /// A stranger who has seen the cluster's public key can try phrases as fast as he can hash, so a phrase should be
    /// long; a generated secret is always better.
    pub fn from_text(text: &str) -> Secret {
        let text = text.trim();
        if text.is_empty() {
            return Secret::empty();
        }
        match text::unhex(&text.to_ascii_lowercase()).and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => Secret(bytes),
            None => Secret(blake3::derive_key("kringle v1 cluster pass phrase", text.as_bytes())),
        }
    }

    /// Returns the 64 digits that [`Secret::from_text`] reads. Only for the secret's own file, and for an operator
    /// who asked to see it.
    pub fn text(&self) -> String {
        text::hex(&self.0)
    }

    /// Says whether this is the empty secret.
    pub fn is_empty(&self) -> bool {
        *self == Secret::empty()
    }
}

/// A cluster as one node knows it: always its name, id and public key, and its signing key if we hold the secret.
pub struct Cluster {
    name: String,
    id: ClusterId,
    public: PublicKey,
    signing: Option<Identity>,
}

impl Cluster {
    /// Makes the cluster of this name that has no secret. Everybody can certify itself for it.
    pub fn open(name: &str) -> Result<Cluster, NameError> {
        Cluster::with_secret(name, &Secret::empty())
    }

    /// Makes the cluster of this name and secret; the result can certify.
    pub fn with_secret(name: &str, secret: &Secret) -> Result<Cluster, NameError> {
        check_name(name)?;
        let mut hasher = blake3::Hasher::new_derive_key("kringle v1 cluster signing key");
        let seed = add_name(&mut hasher, name).update(&secret.0).finalize();
        let signing = Identity::from_seed(*seed.as_bytes());
        let public = signing.public();
        Ok(Cluster { id: id_of(name, &public), name: name.to_owned(), public, signing: Some(signing) })
    }

    /// Makes the cluster as a member without the secret knows it. Such a node checks certificates but makes none.
    /// The caller compares [`Cluster::id`] with the id it was told before it believes `public`.
    pub fn member(name: &str, public: PublicKey) -> Result<Cluster, NameError> {
        let open = Cluster::open(name)?;
        if open.public == public {
            return Ok(open);
        }
        Ok(Cluster { id: id_of(name, &public), name: name.to_owned(), public, signing: None })
    }

    /// Returns the name people gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id that frames carry: a hash of name and public key.
    pub fn id(&self) -> ClusterId {
        self.id
    }

    /// Returns the key that certificates are checked with.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Says whether this cluster has no secret, so that its certificates prove nothing.
    pub fn is_open(&self) -> bool {
        Cluster::open(&self.name).is_ok_and(|open| open.public == self.public)
    }

    /// Says whether this node can make certificates.
    pub fn can_certify(&self) -> bool {
        self.signing.is_some()
    }

    /// Certifies that the holder of `node` belongs to this cluster, or returns `None` without the signing key.
    /// The caller has made sure of it: by a redeemed token, or because `node` is its own key.
    pub fn certify(&self, node: &PublicKey) -> Option<Certificate> {
        // A clock before 1970 counts as 1970: the date informs people, nothing depends on it.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.certify_at(node, now)
    }

    /// Checks that `certificate` makes the holder of `node` a member of this cluster: its signature, the node key it
    /// was made for and the cluster, all in this one function, so that no caller can forget a part.
    ///
    /// `node` must be the key that TLS just proved, never one that the peer merely sent: that is what makes a copied
    /// certificate worthless. Certificates do not expire; revocation is a list kept elsewhere.
    pub fn check(&self, certificate: &Certificate, node: &PublicKey) -> Result<(), CertificateError> {
        if certificate.cluster_key != self.public {
            return Err(CertificateError::OtherCluster);
        }
        let message = message(self.id, &self.public, node, certificate.issued);
        if !self.public.verify(&message, &certificate.signature) {
            return Err(CertificateError::Signature);
        }
        Ok(())
    }

    pub(super) fn certify_at(&self, node: &PublicKey, issued: u64) -> Option<Certificate> {
        let signing = self.signing.as_ref()?;
        let signature = signing.sign(&message(self.id, &self.public, node, issued));
        Some(Certificate { cluster_key: self.public, issued, signature })
    }
}

impl Clone for Cluster {
    fn clone(&self) -> Cluster {
        let signing = self.signing.as_ref().map(|key| Identity::from_seed(*key.seed()));
        Cluster { name: self.name.clone(), id: self.id, public: self.public, signing }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cluster { name, id, .. } = self;
        write!(f, "Cluster({name}, {}, can certify: {})", text::hex(&id.0), self.can_certify())
    }
}

/// The statement, signed by a cluster's key, that a node key belongs to it. It names neither node nor cluster: both
/// are put into the signed message by whoever checks, so a certificate cannot be read as being about anyone else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The key that signed.
    pub cluster_key: PublicKey,
    /// When, in seconds since 1970 by the signer's clock. It is signed, and informs people only.
    pub issued: u64,
    /// The signature.
    pub signature: [u8; 64],
}

impl Certificate {
    /// How long an encoded certificate is: version, key, date, signature.
    pub const LENGTH: usize = 1 + 32 + 8 + 64;
    const VERSION: u8 = 1;

    /// Returns the bytes for wire and disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Certificate::LENGTH);
        bytes.push(Certificate::VERSION);
        bytes.extend_from_slice(&self.cluster_key.to_bytes());
        bytes.extend_from_slice(&self.issued.to_be_bytes());
        bytes.extend_from_slice(&self.signature);
        bytes
    }

    /// Reads what [`Certificate::encode`] writes, to the byte. Only [`Cluster::check`] says whether it is worth
    /// anything.
    pub fn decode(bytes: &[u8]) -> Result<Certificate, CertificateError> {
        let wrong_length = CertificateError::Length { found: bytes.len() };
        let (version, rest) = bytes.split_first().ok_or(wrong_length)?;
        if *version != Certificate::VERSION {
            return Err(CertificateError::Version { found: *version });
        }
        let (key, rest) = rest.split_first_chunk().ok_or(wrong_length)?;
        let (issued, rest) = rest.split_first_chunk().ok_or(wrong_length)?;
        let signature = rest.try_into().map_err(|_| wrong_length)?;
        let cluster_key = PublicKey::from_bytes(*key);
        Ok(Certificate { cluster_key, issued: u64::from_be_bytes(*issued), signature })
    }
}

/// Why a certificate does not count. Nothing was changed. In healthy operation only
/// [`CertificateError::OtherCluster`] occurs, when nodes of two clusters meet by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// It is too short or too long.
    #[error("a certificate has {wanted} bytes, found {found}", wanted = Certificate::LENGTH)]
    Length {
        /// How many bytes there were.
        found: usize,
    },
    /// It has a format that this build does not know.
    #[error("certificate format {found} is not known here")]
    Version {
        /// The format found.
        found: u8,
    },
    /// It was made with the key of another cluster: another name, or another secret.
    #[error("the certificate belongs to another cluster")]
    OtherCluster,
    /// The signature does not cover this node key, this cluster and this date.
    #[error("the certificate was not made by this cluster for this node")]
    Signature,
}

/// Why a text is not the name of a cluster. Bad input is the only cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// It is empty or too long.
    #[error("a cluster name has 1 to {NAME_LENGTH_MAX} characters, found {found}")]
    Length {
        /// How many characters there were.
        found: usize,
    },
    /// It contains something else than lower-case letters, digits, `-`, `_` and `.`.
    #[error("character {} of the cluster name is {found:?}: only a-z, 0-9, '-', '_' and '.' are allowed", at + 1)]
    Character {
        /// Position of the first such character, 0 being the first.
        at: usize,
        /// The character.
        found: char,
    },
}

/// Checks that `name` can be the name of a cluster.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    if let Some((at, found)) = name.chars().enumerate().find(|(_, c)| !allowed(*c)) {
        return Err(NameError::Character { at, found });
    }
    match name.len() {
        1..=NAME_LENGTH_MAX => Ok(()),
        found => Err(NameError::Length { found }),
    }
}

fn id_of(name: &str, public: &PublicKey) -> ClusterId {
    let mut hasher = blake3::Hasher::new_derive_key("kringle v1 cluster id");
    ClusterId(first_16(add_name(&mut hasher, name).update(&public.to_bytes()).finalize().as_bytes()))
}

/// Adds a name behind its length, so that the end of a name is never mistaken for the start of what follows.
fn add_name<'a>(hasher: &'a mut blake3::Hasher, name: &str) -> &'a mut blake3::Hasher {
    hasher.update(&(name.len() as u64).to_be_bytes()).update(name.as_bytes())
}

/// Returns what is signed. Every part but the first has a fixed length, so two different statements never read alike;
/// the first keeps signatures for other purposes apart.
fn message(cluster: ClusterId, cluster_key: &PublicKey, node: &PublicKey, issued: u64) -> Vec<u8> {
    let mut message = b"kringle v1 membership certificate\0".to_vec();
    message.extend_from_slice(&cluster.0);
    message.extend_from_slice(&cluster_key.to_bytes());
    message.extend_from_slice(&node.to_bytes());
    message.extend_from_slice(&issued.to_be_bytes());
    message
}

#[cfg(test)]
mod tests;
