//! Where a key lies on the ring, and what the values of a set are called.

use kringle_core::id::{Id, Key};
use kringle_core::store::op;
use sha1::{Digest, Sha1};

/// Returns the id of a key: the first 128 bits of its SHA-1. That places it and proves nothing.
pub fn key_of(bytes: impl AsRef<[u8]>) -> Key {
    let digest: [u8; 20] = Sha1::digest(bytes.as_ref()).into();
    let (first, _) = digest.split_first_chunk::<16>().expect("twenty bytes begin with sixteen");
    Id::new(u128::from_be_bytes(*first))
}

/// Returns the name of a record: its key, and where that lies.
pub fn name_of(bytes: impl Into<Vec<u8>>) -> op::Name {
    let bytes = bytes.into();
    op::Name { id: key_of(&bytes), bytes }
}

/// Returns what a value of a set is called: the first 128 bits of its BLAKE3. Nobody can make two values of one name.
pub fn digest_of(value: impl AsRef<[u8]>) -> op::Digest {
    let digest = blake3::hash(value.as_ref());
    let (first, _) =
        digest.as_bytes().split_first_chunk::<16>().expect("thirty-two bytes begin with sixteen");
    op::Digest(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lies_at_the_start_of_its_sha_1() {
        assert_eq!(key_of("hello").to_string(), "aaf4c61ddcc5e8a2dabede0f3b482cd9");
        assert_eq!(key_of("").to_string(), "da39a3ee5e6b4b0d3255bfef95601890");
        assert_eq!(name_of("hello"), op::Name { id: key_of("hello"), bytes: b"hello".to_vec() });
    }

    #[test]
    fn a_value_of_a_set_is_called_by_the_start_of_its_blake_3() {
        let whole = *blake3::hash(b"hello").as_bytes();
        assert_eq!(digest_of("hello").0, whole[..16]);
        // The published hash of nothing.
        assert_eq!(digest_of("").0[..4], [0xaf, 0x13, 0x49, 0xb9]);
    }
}
