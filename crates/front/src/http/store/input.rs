//! What a request asks of the store.

use std::time::Duration;

use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, Uri};
use kringle_core::store::op::{Action, Answer, Ask, Change, Condition, Digest, Level, Name};
use kringle_core::store::version::Version;
use kringle_runtime::key;
use serde::Deserialize;
use tokio::time::timeout;

use crate::errors::{Kind, Problem};
use crate::http::input::{DEADLINE, SLACK, Span, cut, segment};
use crate::http::router::Shared;
use crate::store::Data;
use crate::text;

/// The longest time to live: a hundred years.
pub const TTL_MAX: Duration = Duration::from_secs(36_500 * 86_400);

/// What a node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Limits {
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) slots: u32,
}

/// Asks the node what it takes, the first time.
pub(super) async fn limits(shared: &Shared, data: &Data) -> Result<Limits, Problem> {
    let look = || async {
        let limits = data.node.look(|view| Limits {
            key: view.config.key_max as usize,
            value: view.config.value_max as usize,
            slots: view.config.slots,
        });
        super::super::input::ask(DEADLINE, limits).await
    };
    shared.limits.get_or_try_init(look).await.copied()
}

/// Asks the store, and waits a moment longer than it should take.
pub(super) async fn ask(data: &Data, ask: Ask, deadline: Duration) -> Result<Answer, Problem> {
    match timeout(deadline + SLACK, data.ask(ask, deadline)).await {
        Ok(answer) => answer.map_err(Problem::from),
        Err(_) => {
            Err(Problem::new(Kind::Timeout, "the node did not answer in time").with("outcome", "unknown"))
        }
    }
}

/// How many copies a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Wish {
    One,
    Quorum,
    All,
}

/// Returns the level that was wished for.
pub(super) fn level(wish: Option<Wish>) -> Level {
    match wish {
        Some(Wish::One) => Level::One,
        Some(Wish::All) => Level::All,
        Some(Wish::Quorum) | None => Level::Quorum,
    }
}

/// Parameters of requests that write.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Writing {
    pub(super) w: Option<Wish>,
    #[serde(alias = "deadline")]
    pub(super) timeout: Option<Span>,
}

/// Parameters of requests that write something that may end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Storing {
    pub(super) ttl: Option<Span>,
    pub(super) w: Option<Wish>,
    #[serde(alias = "deadline")]
    pub(super) timeout: Option<Span>,
}

/// Parameters of requests that read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Reading {
    pub(super) r: Option<Wish>,
    #[serde(alias = "deadline")]
    pub(super) timeout: Option<Span>,
}

/// Makes the question of a change.
pub(super) fn change(name: Name, change: Change, condition: Condition, level: Level) -> Ask {
    Ask { name, action: Action::Change { change, condition }, level }
}

/// Reads the key in the path.
pub(super) fn name(uri: &Uri, limits: Limits) -> Result<Name, Problem> {
    named(segment(uri, 2), limits)
}

/// Checks a key.
pub(super) fn named(bytes: Vec<u8>, limits: Limits) -> Result<Name, Problem> {
    match bytes.len() {
        0 => Err(Problem::bad("the key is empty; a key has at least one byte")),
        length if length > limits.key => {
            let detail = format!("a key may have {} bytes, and this one has {length}", limits.key);
            Err(Problem::new(Kind::TooLarge, detail).with("limit", limits.key).with("outcome", "none"))
        }
        _ => Ok(key::name_of(bytes)),
    }
}

/// Checks a value.
pub(super) fn sized(bytes: Vec<u8>, limits: Limits) -> Result<Vec<u8>, Problem> {
    match bytes.len() {
        length if length > limits.value => {
            let detail = format!("a value may have {} bytes, and this one has {length}", limits.value);
            Err(Problem::new(Kind::TooLarge, detail).with("limit", limits.value).with("outcome", "none"))
        }
        _ => Ok(bytes),
    }
}

/// Checks a time to live.
pub(super) fn ttl(wish: Option<Span>) -> Result<Option<Duration>, Problem> {
    match wish {
        Some(Span(Duration::ZERO)) => {
            Err(Problem::bad("a time to live must be longer than nothing; to remove a value, delete it"))
        }
        Some(Span(ttl)) if ttl > TTL_MAX => Err(Problem::bad(format!(
            "a time to live may be {} days; leave it out for a value that stays",
            TTL_MAX.as_secs() / 86_400
        ))),
        wish => Ok(wish.map(|Span(ttl)| ttl)),
    }
}

/// Reads what must be so for a change to happen, from `If-Match` and `If-None-Match`.
pub(super) fn condition(headers: &HeaderMap) -> Result<Condition, Problem> {
    match (single(headers, IF_MATCH)?, single(headers, IF_NONE_MATCH)?) {
        (None, None) => Ok(Condition::Always),
        (Some(_), Some(_)) => Err(Problem::bad(
            "If-Match and If-None-Match exclude each other: name the version to replace, or * for a new key",
        )),
        (None, Some("*")) => Ok(Condition::Absent),
        (None, Some(_)) => Err(Problem::bad(
            "for a change, If-None-Match can only be * (the key has no value); If-Match names a version",
        )),
        (Some("*"), None) => Ok(Condition::Present),
        (Some(tag), None) => version(tag).map(Condition::Version),
    }
}

/// Refuses conditions where there is none: whoever sends one counts on it.
pub(super) fn unconditional(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.contains_key(IF_MATCH) || headers.contains_key(IF_NONE_MATCH) {
        true => {
            Err(Problem::bad("the values of a set have no conditions; leave If-Match and If-None-Match out"))
        }
        false => Ok(()),
    }
}

fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(Problem::bad(format!("the header {name} is not ASCII"))),
        },
        (Some(_), Some(_)) => Err(Problem::bad(format!("the header {name} is there more than once"))),
    }
}

/// Reads a version, with or without the quotes of an entity tag.
pub(super) fn version(text: &str) -> Result<Version, Problem> {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    match inner.parse() {
        Ok(Version::ZERO) => Err(Problem::bad(
            "nothing is ever at version zero; for a key without a value, send If-None-Match: *",
        )),
        Ok(version) => Ok(version),
        Err(_) => Err(Problem::bad(format!(
            "{:?} is not a version; a version is 16 hex digits, as the header ETag has them",
            cut(text)
        ))),
    }
}

/// Says whether `If-None-Match` of a read names this version: then the client has the value already.
pub(super) fn is_known(headers: &HeaderMap, version: Version) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(|tag| {
        let tag = tag.trim();
        tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
    });
    let text = version.to_string();
    tags.any(|tag| tag == "*" || tag.eq_ignore_ascii_case(&text))
}

/// Reads what a value of a set is called.
pub(super) fn digest(text: &[u8]) -> Result<Digest, Problem> {
    let digits = std::str::from_utf8(text).ok().filter(|text| text.len() == 32);
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let number = digits.and_then(|text| u128::from_str_radix(text, 16).ok());
    number.map(|number| Digest(number.to_be_bytes())).ok_or_else(|| {
        Problem::bad(format!(
            "{:?} is not the digest of a value; it has 32 hex digits, as GET on the set lists them",
            text::line(text)
        ))
    })
}

/// Writes what a value of a set is called.
pub(super) fn digits(digest: Digest) -> String {
    format!("{:032x}", u128::from_be_bytes(digest.0))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::duration;

    const LIMITS: Limits = Limits { key: 1024, value: 100, slots: 4096 };

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn keys_are_any_bytes_from_one_to_the_limit() {
        let of = |path: &str| name(&path.parse().unwrap(), LIMITS).map(|name| name.bytes);
        assert_eq!(of("/v1/kv/%00%ff/ttl").unwrap(), b"\x00\xff");
        assert_eq!(of("/v1/kv/a%2Fb").unwrap(), b"a/b");
        assert_eq!(of("/v1/kv/").unwrap_err().code(), "KR0400");
        assert_eq!(of("/v1/kv").unwrap_err().code(), "KR0400");
        assert_eq!(of("/v1/kv//values").unwrap_err().code(), "KR0400");
        assert_eq!(of(&format!("/v1/kv/{}", "x".repeat(1024))).unwrap().len(), 1024);
        let problem = of(&format!("/v1/kv/{}", "%ff".repeat(1025))).unwrap_err();
        assert_eq!((problem.code(), &problem.extras["limit"]), ("KR0413", &1024.into()));
    }

    #[test]
    fn a_time_to_live_is_neither_nothing_nor_for_ever() {
        let of = |text: &str| ttl(Some(Span(duration::parse(text).unwrap())));
        assert_eq!(of("10m"), Ok(Some(Duration::from_secs(600))));
        assert_eq!(ttl(None), Ok(None));
        assert_eq!(of("36500d"), Ok(Some(TTL_MAX)));
        for bad in ["0s", "36501d", "18446744073709551615ms"] {
            assert_eq!(of(bad).unwrap_err().code(), "KR0400", "{bad}");
        }
    }

    #[test]
    fn conditions_are_read_from_the_headers_that_http_has_for_them() {
        let seven = Version(7);
        for (pairs, expected) in [
            (&[][..], Condition::Always),
            (&[(IF_NONE_MATCH, "*")], Condition::Absent),
            (&[(IF_MATCH, "*")], Condition::Present),
            (&[(IF_MATCH, "\"0000000000000007\"")], Condition::Version(seven)),
            (&[(IF_MATCH, " 0000000000000007 ")], Condition::Version(seven)),
        ] {
            assert_eq!(condition(&headers(pairs)), Ok(expected), "{pairs:?}");
        }
        for pairs in [
            &[(IF_MATCH, "\"0000000000000007\""), (IF_NONE_MATCH, "*")][..],
            &[(IF_MATCH, "\"0000000000000007\""), (IF_MATCH, "\"0000000000000007\"")],
            &[(IF_MATCH, "7")],
            &[(IF_MATCH, "")],
            &[(IF_MATCH, "\"0000000000000007")],
            &[(IF_MATCH, "W/\"0000000000000007\"")],
            &[(IF_MATCH, "\"0000000000000007\", \"0000000000000008\"")],
            &[(IF_MATCH, "\"0000000000000000\"")],
            &[(IF_NONE_MATCH, "\"0000000000000007\"")],
        ] {
            assert_eq!(condition(&headers(pairs)).unwrap_err().code(), "KR0400", "{pairs:?}");
        }
        assert!(unconditional(&headers(&[])).is_ok());
        assert!(unconditional(&headers(&[(IF_MATCH, "*")])).is_err());
    }

    #[test]
    fn a_reader_may_name_what_it_has() {
        let knows = |value| is_known(&headers(&[(IF_NONE_MATCH, value)]), Version(0xab));
        assert!(knows("\"00000000000000ab\"") && knows("*") && knows("\"x\", W/\"00000000000000AB\""));
        assert!(!knows("\"00000000000000ac\"") && !is_known(&HeaderMap::new(), Version(0xab)));
    }

    #[test]
    fn digests_have_32_digits() {
        let text = "000102030405060708090a0b0c0d0e0f";
        assert_eq!(digits(digest(text.as_bytes()).unwrap()), text);
        for bad in [
            &b""[..],
            b"00",
            b"000102030405060708090a0b0c0d0e0g",
            b"+00102030405060708090a0b0c0d0e0f",
            b"\xff",
        ] {
            assert_eq!(digest(bad).unwrap_err().code(), "KR0400");
        }
    }
}
