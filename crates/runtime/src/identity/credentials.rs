//! A further check between nodes, which the application may bring (Wendy's `Credentials`).
//!
//! It runs after TLS has proved both ids and after the certificates were checked, so it adds a condition and never
//! replaces one. What is shown travels encrypted.

use kringle_core::id::NodeId;

/// The most bytes [`Credentials::show`] may return; a connection that shows more is closed.
pub const SHOWN_LENGTH_MAX: usize = 1024;

/// Decides who may connect beyond what certificates say.
pub trait Credentials: Send + Sync {
    /// Returns what to show to a peer, at most [`SHOWN_LENGTH_MAX`] bytes. Both ids are proved by TLS.
    fn show(&self, me: NodeId, peer: NodeId) -> Vec<u8>;

    /// Judges what a peer has shown, which may be anything. An error closes the connection and its text is logged
    /// here; the peer does not see it.
    fn check(&self, me: NodeId, peer: NodeId, shown: &[u8]) -> Result<(), String>;
}

/// Asks for nothing and accepts everybody whom the certificates let in.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl Credentials for AcceptAll {
    fn show(&self, _me: NodeId, _peer: NodeId) -> Vec<u8> {
        Vec::new()
    }

    fn check(&self, _me: NodeId, _peer: NodeId, _shown: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// Accepts peers that know the same pass phrase. The phrase itself is never shown, only a hash that is good for one
/// shower and one viewer: a peer cannot use it towards a third node, nor send it back.
#[derive(Clone)]
pub struct Passphrase([u8; 32]);

impl Passphrase {
    /// Takes a phrase, every byte of it.
    pub fn new(phrase: &str) -> Passphrase {
        Passphrase(blake3::derive_key("kringle v1 credentials pass phrase", phrase.as_bytes()))
    }

    fn proof(&self, shower: NodeId, viewer: NodeId) -> blake3::Hash {
        let mut ids = [0; 32];
        ids[..16].copy_from_slice(&shower.to_bytes());
        ids[16..].copy_from_slice(&viewer.to_bytes());
        blake3::keyed_hash(&self.0, &ids)
    }
}

impl Credentials for Passphrase {
    fn show(&self, me: NodeId, peer: NodeId) -> Vec<u8> {
        self.proof(me, peer).as_bytes().to_vec()
    }

    fn check(&self, me: NodeId, peer: NodeId, shown: &[u8]) -> Result<(), String> {
        let shown: [u8; 32] = shown.try_into().map_err(|_| "no pass phrase was shown".to_owned())?;
        // Comparing two `blake3::Hash` takes the same time wherever they differ.
        if blake3::Hash::from(shown) == self.proof(peer, me) {
            Ok(())
        } else {
            Err("the pass phrase is another one".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId::new(10);
    const B: NodeId = NodeId::new(11);
    const C: NodeId = NodeId::new(12);

    #[test]
    fn the_same_phrase_is_accepted_and_another_is_not() {
        let (mine, same, other) = (Passphrase::new("rye"), Passphrase::new("rye"), Passphrase::new("oat"));
        assert_eq!(mine.check(A, B, &same.show(B, A)), Ok(()));
        assert!(mine.check(A, B, &other.show(B, A)).is_err());
    }

    #[test]
    fn what_was_shown_is_good_for_one_shower_and_one_viewer() {
        let phrase = Passphrase::new("rye");
        let shown = phrase.show(B, A);
        assert!(phrase.check(B, A, &shown).is_err(), "sent back");
        assert!(phrase.check(C, B, &shown).is_err(), "shown to a third node");
        assert!(phrase.check(A, C, &shown).is_err(), "shown by a third node");
    }

    #[test]
    fn anything_else_is_refused_without_a_panic() {
        let phrase = Passphrase::new("rye");
        for length in [0, 1, 31, 32, 33, SHOWN_LENGTH_MAX + 1] {
            assert!(phrase.check(A, B, &vec![0; length]).is_err(), "{length} bytes");
        }
        assert!(phrase.show(A, B).len() <= SHOWN_LENGTH_MAX);
    }

    #[test]
    fn accept_all_accepts_all() {
        assert_eq!(AcceptAll.check(A, B, &AcceptAll.show(B, A)), Ok(()));
        assert_eq!(AcceptAll.check(A, B, b"whatever"), Ok(()));
    }
}
