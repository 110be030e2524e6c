//! What a newcomer brings to be let in: a join token.
//!
//! A token is made and redeemed by the same node, its issuer, which keeps a [`super::book::Tokens`]. It carries the
//! issuer's id, so the newcomer knows whom to ask and TLS proves that it asks the right one, and the cluster's id, so
//! the newcomer can check the cluster key it gets in return. It is good once and for a while.
//!
//! The text is `kj1-` and 96 letters of base 32. It is a secret until used: `Debug` hides the part that counts.

use std::fmt;
use std::str::FromStr;

use kringle_core::config::ClusterId;
use kringle_core::id::NodeId;
use thiserror::Error;

use super::text;

const START: &str = "kj1-";

/// A join token: issuer, cluster, nonce, expiry, and a MAC over these that only the issuer can make.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub(super) issuer: NodeId,
    pub(super) cluster: ClusterId,
    pub(super) nonce: [u8; 8],
    pub(super) expires: u32,
    mac: [u8; 16],
}

impl Token {
    /// How many bytes a token has: issuer, cluster, nonce, expiry, MAC.
    pub const LENGTH: usize = 16 + 16 + 8 + 4 + 16;

    /// Makes a token with its MAC under the issuer's key.
    pub(super) fn make(
        issuer: NodeId,
        cluster: ClusterId,
        nonce: [u8; 8],
        expires: u32,
        key: &[u8; 32],
    ) -> Token {
        let mut token = Token { issuer, cluster, nonce, expires, mac: [0; 16] };
        token.mac = token.mac_under(key);
        token
    }

    /// Says whether the MAC was made with this key, in a time that does not depend on where it differs.
    pub(super) fn is_made_with(&self, key: &[u8; 32]) -> bool {
        let differing = self.mac.iter().zip(self.mac_under(key)).fold(0, |seen, (a, b)| seen | (a ^ b));
        std::hint::black_box(differing) == 0
    }

    /// Returns the node that made the token, the only one that redeems it.
    pub fn issuer(&self) -> NodeId {
        self.issuer
    }

    /// Returns the cluster it leads into.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Returns the second, since 1970, from which on it is worth nothing.
    pub fn expires(&self) -> u64 {
        self.expires.into()
    }

    /// Says whether it is worth nothing any more at `now`, in seconds since 1970.
    pub fn is_expired(&self, now: u64) -> bool {
        now >= self.expires()
    }

    /// Returns the name under which the issuer's book lists it. It is no secret.
    pub fn id(&self) -> String {
        text::hex(&self.nonce)
    }

    /// Returns the text to hand to the newcomer. Whoever has it can join.
    pub fn text(&self) -> String {
        format!("{START}{}", text::base32(&self.to_bytes()))
    }

    /// Returns the bytes that are shown to the issuer.
    pub fn to_bytes(&self) -> [u8; Token::LENGTH] {
        let mut bytes = [0; Token::LENGTH];
        bytes[..44].copy_from_slice(&self.covered());
        bytes[44..].copy_from_slice(&self.mac);
        bytes
    }

    /// Reads what [`Token::to_bytes`] writes. Whether it is genuine, only the issuer can tell.
    pub fn from_bytes(bytes: &[u8]) -> Result<Token, TokenError> {
        let token = || {
            let (issuer, rest) = bytes.split_first_chunk()?;
            let (cluster, rest) = rest.split_first_chunk()?;
            let (nonce, rest) = rest.split_first_chunk()?;
            let (expires, rest) = rest.split_first_chunk()?;
            Some(Token {
                issuer: NodeId::new(u128::from_be_bytes(*issuer)),
                cluster: ClusterId(*cluster),
                nonce: *nonce,
                expires: u32::from_be_bytes(*expires),
                mac: rest.try_into().ok()?,
            })
        };
        token().ok_or(TokenError::Damaged)
    }

    /// Returns what the MAC covers: all the rest.
    fn covered(&self) -> [u8; 44] {
        let mut bytes = [0; 44];
        bytes[..16].copy_from_slice(&self.issuer.to_bytes());
        bytes[16..32].copy_from_slice(&self.cluster.0);
        bytes[32..40].copy_from_slice(&self.nonce);
        bytes[40..].copy_from_slice(&self.expires.to_be_bytes());
        bytes
    }

    fn mac_under(&self, key: &[u8; 32]) -> [u8; 16] {
        super::first_16(blake3::keyed_hash(key, &self.covered()).as_bytes())
    }
}

impl FromStr for Token {
    type Err = TokenError;

    /// Reads the text of a token; white space around it does not count.
    fn from_str(text: &str) -> Result<Token, TokenError> {
        let letters = text.trim().strip_prefix(START).ok_or(TokenError::NotAToken)?;
        Token::from_bytes(&text::unbase32(letters).ok_or(TokenError::Damaged)?)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = text::hex(&self.cluster.0);
        write!(f, "Token(issuer {}, cluster {cluster}, expires {})", self.issuer, self.expires)
    }
}

/// Why a token was not made, read, redeemed or revoked. In all cases nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The text does not start as a token does.
    #[error("this is not a join token: those start with {START}")]
    NotAToken,
    /// Letters are missing, superfluous or changed: it was not copied whole.
    #[error("the join token is damaged: copy it again, all of it")]
    Damaged,
    /// Its time is over. Happens in healthy operation: ask for a new one.
    #[error("the join token has expired: ask for a new one")]
    Expired,
    /// It leads into another cluster than the one that was asked.
    #[error("the join token is for another cluster")]
    OtherCluster,
    /// It was shown to a node that did not make it.
    #[error("the join token was made by another node: join at node {0}")]
    UnknownIssuer(NodeId),
    /// Somebody has joined with it.
    #[error("the join token was already used: ask for a new one")]
    AlreadyUsed,
    /// Its issuer took it back.
    #[error("the join token was revoked: ask for a new one")]
    Revoked,
    /// The issuer's book does not list it. The book was lost or is older than the token, so nobody can say whether it
    /// was used; it is refused.
    #[error("no such join token is on record: ask for a new one")]
    NotOnRecord,
    /// The book is full: there are too many tokens that nobody used yet.
    #[error("too many join tokens are open: revoke some, or wait until they expire")]
    TooMany,
    /// The issuer's disk or random source failed. Worth trying again.
    #[error("the join token could not be recorded: {0}")]
    Unavailable(String),
}
