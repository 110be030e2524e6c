//! Tokens: good once, for a while, at one node; everything else is refused.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const NOW: u64 = 1_800_000_000;

fn node(seed: u8) -> Identity {
    Identity::from_seed([seed; 32])
}

fn book() -> Tokens {
    Tokens::in_memory(&node(1), ClusterId([9; 16]))
}

#[test]
fn a_token_survives_its_text_and_is_good_once() {
    let mut book = book();
    let token = book.issue(HOUR, NOW).unwrap();
    let text = token.text();
    assert!(text.starts_with("kj1-") && text.len() == 100, "{text}");
    let read: Token = format!(" {text}\n").parse().unwrap();
    assert!(read == token);
    assert_eq!((read.issuer(), read.cluster()), (node(1).id(), ClusterId([9; 16])));
    assert_eq!(read.expires(), NOW + 3600);
    assert_eq!(book.redeem(&read, NOW + 1), Ok(()));
    assert_eq!(book.redeem(&read, NOW + 1), Err(TokenError::AlreadyUsed));
    assert_eq!(book.redeem(&token, NOW + 7200), Err(TokenError::AlreadyUsed));
}

#[test]
fn a_token_damaged_anywhere_is_refused() {
    let mut book = book();
    let token = book.issue(HOUR, NOW).unwrap();
    for at in 0..Token::LENGTH {
        let mut bytes = token.to_bytes();
        bytes[at] ^= 0x10;
        let wanted = match at {
            0..16 => TokenError::UnknownIssuer(Token::from_bytes(&bytes).unwrap().issuer()),
            16..32 => TokenError::OtherCluster,
            _ => TokenError::Damaged,
        };
        assert_eq!(book.redeem(&Token::from_bytes(&bytes).unwrap(), NOW), Err(wanted), "byte {at}");
    }
    let text = token.text();
    for at in 0..text.len() {
        let mut letters = text.clone().into_bytes();
        letters[at] = if letters[at] == b'q' { b'r' } else { b'q' };
        let damaged: Result<Token, _> = String::from_utf8(letters).unwrap().parse();
        assert!(damaged.and_then(|token| book.redeem(&token, NOW)).is_err(), "letter {at}");
        assert!(text[..at].parse::<Token>().is_err(), "cut to {at}");
    }
    assert_eq!(book.redeem(&token, NOW), Ok(()), "the attempts did not use it up");
}

#[test]
fn what_is_no_token_is_told_from_a_damaged_one() {
    for wrong in ["", "kj1", "hello", "KJ1-aaaa", "kj2-aaaa"] {
        assert_eq!(wrong.parse::<Token>().err(), Some(TokenError::NotAToken), "{wrong}");
    }
    for wrong in ["kj1-", "kj1-aaaa", "kj1-0189", &format!("kj1-{}", "a".repeat(97)), "kj1-é"] {
        assert_eq!(wrong.parse::<Token>().err(), Some(TokenError::Damaged), "{wrong}");
    }
}

#[test]
fn a_token_ends_with_its_time() {
    let mut book = book();
    let token = book.issue(HOUR, NOW).unwrap();
    assert!(!token.is_expired(NOW + 3599) && token.is_expired(NOW + 3600));
    assert_eq!(book.redeem(&token, NOW + 3600), Err(TokenError::Expired));
    assert_eq!(book.redeem(&token, NOW + 3599), Ok(()));
    let endless = book.issue(Duration::MAX, NOW).unwrap();
    assert_eq!(endless.expires(), u64::from(u32::MAX));
}

#[test]
fn only_the_issuer_redeems_and_only_for_its_cluster() {
    let token = book().issue(HOUR, NOW).unwrap();
    let mut other_node = Tokens::in_memory(&node(2), ClusterId([9; 16]));
    let mut other_cluster = Tokens::in_memory(&node(1), ClusterId([8; 16]));
    assert_eq!(other_node.redeem(&token, NOW), Err(TokenError::UnknownIssuer(node(1).id())));
    assert_eq!(other_cluster.redeem(&token, NOW), Err(TokenError::OtherCluster));
    // A member forges a token in the issuer's name: it lacks the issuer's seed.
    let forged = Token::make(node(1).id(), ClusterId([9; 16]), [1; 8], u32::MAX, &[0; 32]);
    assert_eq!(book().redeem(&forged, NOW), Err(TokenError::Damaged));
}

#[test]
fn a_genuine_token_that_the_book_does_not_list_is_refused() {
    let token = book().issue(HOUR, NOW).unwrap();
    assert_eq!(book().redeem(&token, NOW), Err(TokenError::NotOnRecord));
}

#[test]
fn tokens_can_be_revoked_until_used() {
    let mut book = book();
    let (a, b) = (book.issue(HOUR, NOW).unwrap(), book.issue(HOUR * 2, NOW).unwrap());
    assert_eq!(book.revoke(&a.id()), Ok(()));
    assert_eq!(book.revoke(&a.id()), Ok(()));
    assert_eq!(book.redeem(&a, NOW), Err(TokenError::Revoked));
    assert_eq!(book.redeem(&b, NOW), Ok(()));
    assert_eq!(book.revoke(&b.id()), Err(TokenError::AlreadyUsed));
    for unknown in ["", "zz", "0011223344556677", "é"] {
        assert_eq!(book.revoke(unknown), Err(TokenError::NotOnRecord), "{unknown}");
    }
    let states: Vec<_> = book.list().into_iter().map(|info| (info.id, info.state)).collect();
    assert_eq!(states, [(a.id(), TokenState::Revoked), (b.id(), TokenState::Used)]);
}

#[test]
fn the_book_survives_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Tokens::open(&node(1), ClusterId([9; 16]), &Home::open(dir.path()).unwrap()).unwrap();
    let mut book = open();
    let [used, revoked, fresh] = [(); 3].map(|()| book.issue(HOUR, NOW).unwrap());
    book.redeem(&used, NOW).unwrap();
    book.revoke(&revoked.id()).unwrap();
    let list = book.list();
    drop(book);
    let mut book = open();
    assert_eq!(book.list(), list);
    assert_eq!(book.redeem(&used, NOW), Err(TokenError::AlreadyUsed));
    assert_eq!(book.redeem(&revoked, NOW), Err(TokenError::Revoked));
    assert_eq!(book.redeem(&fresh, NOW), Ok(()));
}

#[test]
fn a_token_that_cannot_be_struck_out_on_disk_lets_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut book = Tokens::open(&node(1), ClusterId([9; 16]), &Home::open(dir.path()).unwrap()).unwrap();
    let token = book.issue(HOUR, NOW).unwrap();
    // A directory in the place of the file to be written: writing fails, even for the superuser.
    let obstacle = dir.path().join("tokens.json.next");
    std::fs::create_dir(&obstacle).unwrap();
    assert!(matches!(book.redeem(&token, NOW), Err(TokenError::Unavailable(_))));
    assert!(matches!(book.issue(HOUR, NOW), Err(TokenError::Unavailable(_))));
    assert_eq!(book.list().len(), 1);
    std::fs::remove_dir(&obstacle).unwrap();
    assert_eq!(book.redeem(&token, NOW), Ok(()));
}

#[test]
fn a_damaged_book_is_an_error_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path()).unwrap();
    for content in ["", "{}", r#"{"tokens":[{"id":"0g","expires":1,"state":"open"}]}"#] {
        std::fs::write(dir.path().join("tokens.json"), content).unwrap();
        let error = Tokens::open(&node(1), ClusterId([9; 16]), &home).err().unwrap();
        assert!(matches!(error, HomeError::Damaged { .. }), "{error}");
        assert!(error.remedy().contains("remove"), "{}", error.remedy());
    }
}

#[test]
fn the_book_is_bounded_and_forgets_after_a_day() {
    let mut book = book();
    for nonce in 0..OPEN_TOKENS_MAX as u64 {
        let entry = Entry { expires: (NOW + 3600) as u32, state: TokenState::Open };
        book.entries.insert(nonce.to_be_bytes(), entry);
    }
    assert_eq!(book.issue(HOUR, NOW), Err(TokenError::TooMany));
    // Expired ones do not count as open, but stay on record for a day.
    let late = NOW + 3600;
    assert!(book.issue(HOUR, late).is_ok());
    assert_eq!(book.list().len(), OPEN_TOKENS_MAX + 1);
    assert!(book.issue(HOUR, late + 86_400).is_ok());
    assert_eq!(book.list().len(), 2);
}
