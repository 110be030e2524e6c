//! What comes with a request: parameters, a segment of the path, a body.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Query};
use axum::http::header::{ACCEPT, CONTENT_LENGTH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use futures_util::StreamExt;
use kringle_core::id::{Id, Key};
use kringle_runtime::{RequestError, key};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use super::Options;
use crate::duration;
use crate::errors::{Kind, Problem};

/// How long a request may take if it does not say.
pub const DEADLINE: Duration = Duration::from_secs(2);
/// How long a request may take at most; longer wishes get this.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Bytes a key may have.
pub const KEY_MAX: usize = 1024;
/// Bytes a second that a body must arrive with.
const BODY_RATE: u64 = 1024;
/// What a request gets beyond its deadline before the node's thread counts as silent.
pub(super) const SLACK: Duration = Duration::from_millis(500);

/// The parameters of a request. Unknown ones are refused: a misspelt deadline should not pass for the default.
pub(super) struct Params<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Params<T>, Problem> {
        let query = Query::try_from_uri(&parts.uri);
        query.map(|Query(params)| Params(params)).map_err(|error| {
            let reason =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Problem::bad(format!("the parameters can not be read: {}", cut(&reason)))
        })
    }
}

/// The parameter of requests that have no other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Within {
    pub(super) deadline: Option<Span>,
}

/// A span of time in a parameter or body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration::parse(&text).map(Span).map_err(serde::de::Error::custom)
    }
}

/// Returns how long a request may take.
pub(super) fn deadline(wish: Option<Span>) -> Result<Duration, Problem> {
    match wish {
        None => Ok(DEADLINE),
        Some(Span(Duration::ZERO)) => Err(Problem::bad("a deadline must be longer than nothing")),
        Some(Span(wish)) => Ok(wish.min(DEADLINE_MAX)),
    }
}

/// Waits for the node, and a moment longer than it should take. Without this a node whose thread hangs would keep its
/// clients forever.
pub(super) async fn ask<T>(
    deadline: Duration,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, Problem> {
    match timeout(deadline + SLACK, answer).await {
        Ok(answer) => answer.map_err(Problem::from),
        Err(_) => Err(Problem::from(RequestError::Timeout)),
    }
}

/// Returns one segment of a path as bytes, percent-decoded and nothing else. `/v1/lookup/x` has `x` at 2.
pub(super) fn segment(uri: &Uri, at: usize) -> Vec<u8> {
    let raw = uri.path().split('/').nth(at + 1).unwrap_or("");
    percent_encoding::percent_decode_str(raw).collect()
}

/// A place on the ring that a request names, and the text it came from.
pub(super) struct Place {
    pub(super) key: Key,
    pub(super) bytes: Option<Vec<u8>>,
}

/// Reads a key from the path, or an id from the parameters; exactly one of them must be there.
pub(super) fn place(uri: &Uri, id: Option<&str>) -> Result<Place, Problem> {
    let bytes = segment(uri, 2);
    match id {
        Some(_) if !bytes.is_empty() => Err(Problem::bad("give a key in the path or ?id=, not both")),
        Some(id) => {
            let key: Id =
                id.parse().map_err(|_| Problem::bad("?id= must have exactly 32 hexadecimal digits"))?;
            Ok(Place { key, bytes: None })
        }
        None if bytes.is_empty() => {
            Err(Problem::bad("the key is empty; give one in the path, or an id as ?id="))
        }
        None if bytes.len() > KEY_MAX => {
            let detail = format!("a key may have {KEY_MAX} bytes, and this one has {}", bytes.len());
            Err(Problem::new(Kind::TooLarge, detail).with("limit", KEY_MAX))
        }
        None => Ok(Place { key: key::key_of(&bytes), bytes: Some(bytes) }),
    }
}

/// Says whether a client asks for JSON by name.
pub(super) fn wants_json(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds =
        accepts.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next().unwrap_or(""));
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Reads a whole body of at most `most` bytes.
///
/// It may be silent for the time in the options, and must then have come at a minimum rate all along: a client that
/// sends a byte now and then is ended all the same.
pub(super) async fn body(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    options: &Options,
) -> Result<Vec<u8>, Problem> {
    let too_large = || {
        let detail = format!("the body is larger than {most} bytes");
        Problem::new(Kind::TooLarge, detail).with("limit", most).with("outcome", "none")
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let (start, mut bytes, mut chunks) = (Instant::now(), Vec::new(), body.into_data_stream());
    loop {
        let earned = Duration::from_secs(bytes.len() as u64 / BODY_RATE);
        let chunk = timeout_at(start + options.body_wait + earned, chunks.next());
        match chunk.await {
            Ok(Some(Ok(chunk))) if bytes.len() + chunk.len() > most => return Err(too_large()),
            Ok(Some(Ok(chunk))) => bytes.extend_from_slice(&chunk),
            Ok(Some(Err(_))) => return Err(Problem::bad("the body ended before it was complete")),
            Ok(None) => return Ok(bytes),
            Err(_) => return Err(Problem::new(Kind::Slow, "the body of the request came too slowly")),
        }
    }
}

/// Reads a small JSON document. An empty body counts as one without fields.
pub(super) async fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    from: Body,
    options: &Options,
) -> Result<T, Problem> {
    let bytes = body(headers, from, JSON_MAX, options).await?;
    let bytes = if bytes.is_empty() { b"{}".to_vec() } else { bytes };
    let bad = |error: serde_json::Error| format!("the body can not be read: {}", cut(&error.to_string()));
    serde_json::from_slice(&bytes).map_err(|error| Problem::bad(bad(error)))
}

/// Bytes a JSON document may have.
const JSON_MAX: usize = 64 * 1024;

/// Cuts a text that may repeat what a client sent.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(path: &str, id: Option<&str>) -> Result<Place, u16> {
        place(&path.parse().unwrap(), id).map_err(|problem| problem.status())
    }

    #[test]
    fn keys_are_percent_decoded_to_bytes_and_nothing_else() {
        for (path, bytes) in [
            ("/v1/lookup/hello", &b"hello"[..]),
            ("/v1/lookup/a%20b", b"a b"),
            ("/v1/lookup/a+b", b"a+b"),
            ("/v1/lookup/a%2Fb", b"a/b"),
            ("/v1/lookup/%ff%00", b"\xff\x00"),
            ("/v1/lookup/%2e%2E", b".."),
            ("/v1/lookup/%", b"%"),
            ("/v1/lookup/%C3%A9", "\u{e9}".as_bytes()),
        ] {
            let place = place_of(path, None).ok().unwrap();
            assert_eq!(place.bytes.as_deref(), Some(bytes), "{path}");
            assert_eq!(place.key, key::key_of(bytes));
        }
    }

    #[test]
    fn a_key_has_one_byte_to_the_limit_and_no_id_beside_it() {
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(place_of("/v1/lookup", None).err(), Some(400));
        assert_eq!(place_of("/v1/lookup/", None).err(), Some(400));
        assert_eq!(place_of("/v1/lookup/x", Some(id)).err(), Some(400));
        assert_eq!(place_of("/v1/lookup", Some("0123")).err(), Some(400));
        assert_eq!(place_of(&format!("/v1/lookup/{}", "x".repeat(1024)), None).err(), None);
        assert_eq!(place_of(&format!("/v1/lookup/{}", "%78".repeat(1025)), None).err(), Some(413));
        assert_eq!(place_of("/v1/lookup", Some(id)).ok().unwrap().key.to_string(), id);
    }

    #[test]
    fn json_is_written_only_for_whoever_asks_for_it() {
        let wants =
            |value: &'static str| wants_json(&HeaderMap::from_iter([(ACCEPT, value.parse().unwrap())]));
        assert!(wants("application/json") && wants("text/html, Application/JSON;q=0.9"));
        assert!(!wants("*/*") && !wants("application/jsonl") && !wants_json(&HeaderMap::new()));
    }

    #[test]
    fn deadlines_have_a_default_and_a_cap() {
        let of = |text: &str| deadline(Some(Span(duration::parse(text).unwrap())));
        assert_eq!(deadline(None), Ok(DEADLINE));
        assert_eq!(of("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(of("1d"), Ok(DEADLINE_MAX));
        assert_eq!(of("0s").unwrap_err().status(), 400);
    }
}
