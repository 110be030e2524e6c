//! Certificates: fixed bytes, and every forgery that must be refused.

use super::*;

const NOW: u64 = 1_800_000_000;

fn node(seed: u8) -> Identity {
    Identity::from_seed([seed; 32])
}

#[test]
fn the_cluster_id_depends_on_name_and_secret_and_is_fixed() {
    let rye = Secret::from_text("rye");
    let id = |cluster: Cluster| text::hex(&cluster.id().0);
    let blue = id(Cluster::with_secret("blue", &rye).unwrap());
    assert_eq!(blue, "dbffe7dd6d8c398ec1e1158ec766c835");
    assert_eq!(id(Cluster::open("blue").unwrap()), "6c6bf933b8e63f7aee9825553aefdb25");
    assert_ne!(blue, id(Cluster::with_secret("red", &rye).unwrap()));
    assert_ne!(blue, id(Cluster::with_secret("blue", &Secret::from_text("oat")).unwrap()));
    assert_eq!(blue, id(Cluster::with_secret("blue", &Secret::from_text(" rye\n")).unwrap()));
}

#[test]
fn a_member_knows_the_same_cluster_but_cannot_certify() {
    let founder = Cluster::with_secret("blue", &Secret::generate().unwrap()).unwrap();
    let member = Cluster::member("blue", founder.public()).unwrap();
    assert_eq!((member.id(), member.name()), (founder.id(), "blue"));
    assert!(founder.can_certify() && founder.clone().can_certify() && !member.can_certify());
    assert_eq!(member.certify(&node(1).public()), None);
    assert!(!founder.is_open() && !member.is_open());
    let certificate = founder.certify(&node(1).public()).unwrap();
    assert!(certificate.issued > 1_700_000_000);
    assert_eq!(member.check(&certificate, &node(1).public()), Ok(()));
}

#[test]
fn in_an_open_cluster_everybody_certifies_itself() {
    let open = Cluster::open("demo").unwrap();
    let member = Cluster::member("demo", open.public()).unwrap();
    assert!(open.is_open() && member.is_open() && member.can_certify());
    let certificate = member.certify(&node(1).public()).unwrap();
    assert_eq!(open.check(&certificate, &node(1).public()), Ok(()));
}

#[test]
fn secrets_are_digits_or_phrases() {
    let secret = Secret::generate().unwrap();
    assert!(Secret::from_text(&secret.text()) == secret);
    assert!(Secret::from_text(&secret.text().to_uppercase()) == secret);
    assert!(Secret::from_text("rye") != Secret::from_text("oat"));
    assert!(Secret::from_text("  ").is_empty() && !secret.is_empty());
}

#[test]
fn certificates_have_fixed_bytes() {
    let cluster = Cluster::with_secret("blue", &Secret::from_text("rye")).unwrap();
    let certificate = cluster.certify_at(&node(1).public(), NOW).unwrap();
    let bytes = certificate.encode();
    assert_eq!(bytes.len(), Certificate::LENGTH);
    assert_eq!(
        blake3::hash(&bytes).to_hex().as_str(),
        "f86cc95c571a991d84ba6cb8772a3413c874a5cc23724226af7bb431a575f130"
    );
    assert_eq!(Certificate::decode(&bytes), Ok(certificate));
}

/// Reliability row A-35: whatever is not exactly the signature of this cluster's key over this node's key in this
/// cluster is refused, and by one function.
#[test]
fn forged_certificates_are_refused() {
    use CertificateError::{Length, OtherCluster, Signature, Version};
    let secret = Secret::from_text("rye");
    let blue = Cluster::with_secret("blue", &secret).unwrap();
    let red = Cluster::with_secret("red", &secret).unwrap();
    let other_blue = Cluster::with_secret("blue", &Secret::from_text("oat")).unwrap();
    let (a, b) = (node(1), node(2));
    let good = blue.certify_at(&a.public(), NOW).unwrap();
    assert_eq!(blue.check(&good, &a.public()), Ok(()));
    let judge = |bytes: &[u8], key: &PublicKey| blue.check(&Certificate::decode(bytes)?, key);
    let refused = |what: &str, certificate: Certificate, key: &PublicKey, why: CertificateError| {
        assert_eq!(judge(&certificate.encode(), key), Err(why), "{what}");
    };
    let by_another = |cluster: &Cluster| cluster.certify_at(&a.public(), NOW).unwrap();
    let with_our_key = |other: Certificate| Certificate { cluster_key: blue.public(), ..other };

    refused("another node's", good, &b.public(), Signature);
    refused("another secret's", by_another(&other_blue), &a.public(), OtherCluster);
    refused("another secret's under our key", with_our_key(by_another(&other_blue)), &a.public(), Signature);
    refused("another name's", by_another(&red), &a.public(), OtherCluster);
    refused("another name's under our key", with_our_key(by_another(&red)), &a.public(), Signature);
    refused("another date's", Certificate { issued: NOW + 1, ..good }, &a.public(), Signature);
    refused("without signature", Certificate { signature: [0; 64], ..good }, &a.public(), Signature);
    refused("for the cluster's own key", good, &blue.public(), Signature);

    // Roles swapped: the node signs, about itself, in the cluster's place.
    let own = message(blue.id(), &blue.public(), &a.public(), NOW);
    let by_node = Certificate { signature: a.sign(&own), ..good };
    refused("signed by the node itself", by_node, &a.public(), Signature);
    refused(
        "by and under the node's key",
        Certificate { cluster_key: a.public(), ..by_node },
        &a.public(),
        OtherCluster,
    );

    // A signature by the right key over the same facts, made for another purpose.
    let signing = blue.signing.as_ref().unwrap();
    let bare = Certificate { signature: signing.sign(&a.public().to_bytes()), ..good };
    refused("over the bare key", bare, &a.public(), Signature);
    let elsewhere = Certificate { signature: signing.sign(&own[1..]), ..good };
    refused("without the words in front", elsewhere, &a.public(), Signature);

    let bytes = good.encode();
    for length in 0..bytes.len() {
        assert_eq!(judge(&bytes[..length], &a.public()), Err(Length { found: length }), "cut to {length}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(judge(&longer, &a.public()), Err(Length { found: longer.len() }));
    for version in [0, 2, 255] {
        let mut other = bytes.clone();
        other[0] = version;
        assert_eq!(judge(&other, &a.public()), Err(Version { found: version }));
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(judge(&damaged, &a.public()).is_err(), "bit {bit}");
    }
}

#[test]
fn names_are_checked() {
    for good in ["a", "blue", "my-cluster_2.eu", &"x".repeat(64)] {
        assert_eq!(check_name(good), Ok(()), "{good}");
    }
    assert_eq!(check_name(""), Err(NameError::Length { found: 0 }));
    assert_eq!(check_name(&"x".repeat(65)), Err(NameError::Length { found: 65 }));
    assert_eq!(check_name("blÜe"), Err(NameError::Character { at: 2, found: 'Ü' }));
    for wrong in ["Blue", "two words", "a/b", "a\0", "a\n"] {
        assert!(matches!(check_name(wrong), Err(NameError::Character { .. })), "{wrong:?}");
        assert!(Cluster::open(wrong).is_err() && Cluster::member(wrong, node(1).public()).is_err());
    }
}
