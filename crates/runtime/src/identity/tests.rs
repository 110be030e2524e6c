//! Keys: fixed vectors, and what they must not do.

use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::book::Tokens;
use super::cluster::{Cluster, Secret};
use super::*;

fn node(seed: u8) -> Identity {
    Identity::from_seed([seed; 32])
}

#[test]
fn a_fixed_seed_gives_fixed_keys_and_a_fixed_id() {
    // RFC 8032, section 7.1, test 1.
    let seed = text::unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
    let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let identity = Identity::from_seed(seed.clone().try_into().unwrap());
    assert_eq!(identity.seed().as_slice(), seed);
    assert_eq!(identity.public().to_string(), public);
    assert_eq!(text::hex(&identity.public().spki()), format!("302a300506032b6570032100{public}"));
    assert_eq!(text::hex(&identity.pkcs8()), format!("302e020100300506032b657004220420{}", text::hex(&seed)));
    assert_eq!(
        text::hex(&identity.sign(b"")),
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b\
         d25bf5f0595bbe24655141438e7a100b"
    );
    assert_eq!(identity.id().to_string(), "4007e24a72d86b22f9d64faadd401216");
}

#[test]
fn tls_loads_our_private_key_and_gives_our_public_key_back() {
    let identity = node(7);
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.pkcs8()));
    let key = rustls::crypto::ring::default_provider().key_provider.load_private_key(private).unwrap();
    assert_eq!(key.public_key().unwrap().as_ref(), identity.public().spki());
}

#[test]
fn a_public_key_has_one_form_only() {
    let public = node(7).public();
    let spki = public.spki();
    assert_eq!(PublicKey::from_spki(&spki), Some(public));
    assert_eq!(PublicKey::from_spki(&spki[..43]), None);
    assert_eq!(PublicKey::from_spki(&[&spki[..], &[0]].concat()), None);
    assert_eq!(PublicKey::from_spki(&public.to_bytes()), None);
    for at in 0..12 {
        let mut other = spki;
        other[at] ^= 1;
        assert_eq!(PublicKey::from_spki(&other), None, "byte {at}");
    }
    assert_eq!(PublicKey::from_text(&public.to_string()), Some(public));
    assert_eq!(PublicKey::from_text("00"), None);
}

#[test]
fn new_keys_differ() {
    assert_ne!(Identity::generate().unwrap().id(), Identity::generate().unwrap().id());
}

#[test]
fn signatures_fit_one_message_and_one_key() {
    let signature = node(1).sign(b"rye");
    assert!(node(1).public().verify(b"rye", &signature));
    assert!(!node(1).public().verify(b"oat", &signature));
    assert!(!node(2).public().verify(b"rye", &signature));
}

#[test]
fn a_key_of_small_order_verifies_nothing() {
    // With the neutral element as key and as R, and S = 0, plain Ed25519 accepts every message.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let mut signature = [0; 64];
    signature[0] = 1;
    assert!(!PublicKey::from_bytes(neutral).verify(b"anything", &signature));
}

#[test]
fn debug_output_holds_no_secret() {
    let identity = node(0xab);
    assert_eq!(format!("{identity:?}"), format!("Identity({})", identity.id()));
    let cluster = Cluster::with_secret("blue", &Secret::from_text("rye")).unwrap();
    let shown = format!("{cluster:?}");
    assert!(!shown.contains(&Secret::from_text("rye").text()) && shown.contains("blue"), "{shown}");
    let token = Tokens::in_memory(&identity, cluster.id()).issue(Duration::from_secs(60), 0).unwrap();
    let shown = format!("{token:?}");
    let mac = text::hex(&token.to_bytes()[44..]);
    assert!(!shown.contains(&token.id()) && !shown.contains(&mac), "{shown}");
}
