//! What can be used as a key, and what as a place to look for a ring.

use std::borrow::Cow;
use std::net::SocketAddr;

use kringle_core::id::{Id, Key};
use kringle_runtime::key::key_of;
use kringle_runtime::seeds::{Seed, SeedError};

/// Something that has a place on the ring. Text and bytes are hashed; an [`Id`] is that place itself.
///
/// ```
/// use kringle::{Id, IntoKey};
///
/// assert_eq!("hello".into_key(), b"hello".into_key());
/// assert_eq!("hello".into_key().to_string(), "aaf4c61ddcc5e8a2dabede0f3b482cd9");
/// assert_eq!(Id::new(7).into_key(), Id::new(7));
/// ```
pub trait IntoKey {
    /// Returns its place.
    fn into_key(self) -> Key;
}

impl IntoKey for Id {
    fn into_key(self) -> Key {
        self
    }
}

impl<T: AsRef<[u8]> + ?Sized> IntoKey for &T {
    fn into_key(self) -> Key {
        key_of(self)
    }
}

impl IntoKey for String {
    fn into_key(self) -> Key {
        key_of(self)
    }
}

impl IntoKey for Vec<u8> {
    fn into_key(self) -> Key {
        key_of(self)
    }
}

impl<const N: usize> IntoKey for [u8; N] {
    fn into_key(self) -> Key {
        key_of(self)
    }
}

impl IntoKey for Cow<'_, str> {
    fn into_key(self) -> Key {
        key_of(self.as_bytes())
    }
}

impl IntoKey for Cow<'_, [u8]> {
    fn into_key(self) -> Key {
        key_of(self)
    }
}

/// Something that names a member of a ring: `host:port`, an address, a [`Seed`].
pub trait IntoSeed {
    /// Reads it. Fails for text that is no `host:port`.
    fn into_seed(self) -> Result<Seed, SeedError>;
}

impl IntoSeed for Seed {
    fn into_seed(self) -> Result<Seed, SeedError> {
        Ok(self)
    }
}

impl IntoSeed for SocketAddr {
    fn into_seed(self) -> Result<Seed, SeedError> {
        Ok(Seed::Address(self))
    }
}

impl IntoSeed for &str {
    fn into_seed(self) -> Result<Seed, SeedError> {
        self.parse()
    }
}

impl IntoSeed for String {
    fn into_seed(self) -> Result<Seed, SeedError> {
        self.parse()
    }
}

impl IntoSeed for &String {
    fn into_seed(self) -> Result<Seed, SeedError> {
        self.parse()
    }
}

/// Reads a list of seeds; the first bad one ends it.
pub(crate) fn seeds<S: IntoSeed>(seeds: impl IntoIterator<Item = S>) -> Result<Vec<Seed>, SeedError> {
    seeds.into_iter().map(IntoSeed::into_seed).collect()
}
