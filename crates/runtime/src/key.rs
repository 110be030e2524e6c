//! Where a key lies on the ring.

use kringle_core::id::{Id, Key};
use sha1::{Digest, Sha1};

/// Returns the id of a key: the first 128 bits of its SHA-1. That places it and proves nothing.
pub fn key_of(bytes: impl AsRef<[u8]>) -> Key {
    let digest: [u8; 20] = Sha1::digest(bytes.as_ref()).into();
    let (first, _) = digest.split_first_chunk::<16>().expect("twenty bytes begin with sixteen");
    Id::new(u128::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lies_at_the_start_of_its_sha_1() {
        assert_eq!(key_of("hello").to_string(), "aaf4c61ddcc5e8a2dabede0f3b482cd9");
        assert_eq!(key_of("").to_string(), "da39a3ee5e6b4b0d3255bfef95601890");
    }
}
