//! How what the store found is written.

use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use kringle_core::store::op::{Answer as Done, Found, Name, Value};
use kringle_core::store::version::Version;
use kringle_runtime::key;
use serde::Serialize;

use super::input::digits;
use crate::errors::{Kind, Problem};
use crate::http::answer::{Answer, EXPIRES, REPLICAS, document, with_hops};
use crate::http::input::wants_json;
use crate::moment;
use crate::text::{self, Bytes};

/// How many copies took part, and how far they were: in every document about a key.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Counts {
    acked: u8,
    wanted: u8,
    replicas: u8,
    hops: u8,
}

impl Counts {
    pub(super) fn of(done: &Done) -> Counts {
        let Done { acked, wanted, replicas, hops, .. } = *done;
        Counts { acked, wanted, replicas, hops }
    }

    /// Adds the headers that say the same.
    pub(super) fn told(self, mut response: Response) -> Response {
        insert(&mut response, REPLICAS, &format!("{}/{}", self.acked, self.replicas));
        with_hops(response, self.hops)
    }
}

/// When something ends: the moment for programs, and what is left of it for whoever has another clock.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ends {
    pub(super) expires: Option<String>,
    pub(super) ttl_ms: Option<u64>,
}

impl Ends {
    pub(super) fn of(expires: Option<u64>) -> Ends {
        let left = |at| u64::try_from(moment::left(at).as_millis()).unwrap_or(u64::MAX);
        Ends { expires: expires.map(moment::timestamp), ttl_ms: expires.map(left) }
    }
}

/// A value in a document.
#[derive(Serialize)]
pub(super) struct Shown {
    pub(super) value: Bytes,
    pub(super) version: String,
    #[serde(flatten)]
    pub(super) ends: Ends,
}

impl Shown {
    pub(super) fn of(value: &Value) -> Shown {
        let Value { bytes, version, expires } = value;
        Shown { value: Bytes::new(bytes), version: version.to_string(), ends: Ends::of(*expires) }
    }
}

/// A value of a set in a document.
#[derive(Serialize)]
pub(super) struct Member {
    digest: String,
    #[serde(flatten)]
    shown: Shown,
}

impl Member {
    pub(super) fn of(value: &Value) -> Member {
        Member { digest: digits(key::digest_of(&value.bytes)), shown: Shown::of(value) }
    }
}

/// What a write came to.
pub(super) struct Changed {
    pub(super) version: Version,
    pub(super) created: bool,
    pub(super) number: Option<i64>,
}

/// Takes a write's answer apart.
pub(super) fn changed(done: &Done) -> Result<Changed, Problem> {
    match done.found {
        Found::Changed { version, created, number } => Ok(Changed { version, created, number }),
        _ => Err(unfitting()),
    }
}

/// A node that answers another question than it was asked.
pub(super) fn unfitting() -> Problem {
    Problem::new(Kind::Internal, "the store answered another question than it was asked")
}

/// There is nothing under a key.
pub(super) fn missing(name: &Name) -> Problem {
    Problem::new(Kind::NotFound, format!("no such key: {}", text::line(&name.bytes))).with("outcome", "none")
}

/// Answers a write: with a document if the client wants JSON, and otherwise with these statuses and nothing more.
pub(super) fn written(
    headers: &HeaderMap,
    name: &Name,
    done: &Done,
    (created, replaced): (StatusCode, StatusCode),
) -> Answer {
    #[derive(Serialize)]
    struct Written {
        key: Bytes,
        version: Option<String>,
        created: bool,
        #[serde(flatten)]
        counts: Counts,
    }
    let changed = changed(done)?;
    let status = if changed.created { created } else { replaced };
    let mut response = match wants_json(headers) {
        true => {
            let written = Written {
                key: Bytes::new(&name.bytes),
                version: text_of(changed.version),
                created: changed.created,
                counts: Counts::of(done),
            };
            let status = if status == StatusCode::NO_CONTENT { StatusCode::OK } else { status };
            (status, document("kringle.written/1", written)?).into_response()
        }
        false => status.into_response(),
    };
    tag(&mut response, changed.version);
    Ok(Counts::of(done).told(response))
}

/// Answers a removal, and whether there was something.
pub(super) fn removed(headers: &HeaderMap, name: &Name, done: &Done, existed: bool) -> Answer {
    #[derive(Serialize)]
    struct Removed {
        key: Bytes,
        existed: bool,
        version: Option<String>,
        #[serde(flatten)]
        counts: Counts,
    }
    let changed = changed(done)?;
    let response = match wants_json(headers) {
        true => {
            let (key, version) = (Bytes::new(&name.bytes), text_of(changed.version));
            let removed = Removed { key, existed, version, counts: Counts::of(done) };
            document("kringle.removed/1", removed)?
        }
        false => StatusCode::NO_CONTENT.into_response(),
    };
    Ok(Counts::of(done).told(response))
}

/// Answers with a value: its bytes as they are, or inside a document if the client wants JSON.
pub(super) fn read(headers: &HeaderMap, name: &Name, value: Value, counts: Counts) -> Answer {
    #[derive(Serialize)]
    struct Read {
        key: Bytes,
        #[serde(flatten)]
        shown: Shown,
        #[serde(flatten)]
        counts: Counts,
    }
    let (version, expires) = (value.version, value.expires);
    let mut response = match (super::input::is_known(headers, version), wants_json(headers)) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => {
            let read = Read { key: Bytes::new(&name.bytes), shown: Shown::of(&value), counts };
            document("kringle.value/1", read)?
        }
        (false, false) => ([(CONTENT_TYPE, "application/octet-stream")], value.bytes).into_response(),
    };
    tag(&mut response, version);
    if let Some(at) = expires {
        insert(&mut response, EXPIRES, &moment::timestamp(at));
    }
    Ok(counts.told(response))
}

/// Writes a version; zero is none.
pub(super) fn text_of(version: Version) -> Option<String> {
    (version != Version::ZERO).then(|| version.to_string())
}

/// Adds the version as an entity tag.
pub(super) fn tag(response: &mut Response, version: Version) {
    if let Some(text) = text_of(version) {
        insert(response, ETAG, &format!("\"{text}\""));
    }
}

fn insert(response: &mut Response, name: axum::http::HeaderName, text: &str) {
    // Digits and signs always fit.
    if let Ok(value) = HeaderValue::from_str(text) {
        response.headers_mut().insert(name, value);
    }
}
