//! How long a value stays, and counting with it: changes that keep what is there.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use kringle_core::store::op::{Action, Answer as Done, Ask, Change, Found, Name};
use serde::{Deserialize, Serialize};

use super::input::{
    Limits, Reading, Storing, Wish, Writing, ask, change, condition, level, limits, name, ttl,
};
use super::output::{Counts, Ends, changed, missing, tag, text_of, unfitting, written};
use crate::duration;
use crate::errors::{Kind, Problem};
use crate::http::answer::{Answer, document};
use crate::http::input::{Params, Span, body, deadline, wants_json};
use crate::http::router::Shared;
use crate::store::Data;
use crate::text::Bytes;

/// Bytes a time to live in a body may have.
const SPAN_MAX: usize = 64;

/// Tells how long a value stays.
pub(in crate::http) async fn show(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Reading>,
    uri: Uri,
) -> Answer {
    #[derive(Serialize)]
    struct Staying {
        key: Bytes,
        version: String,
        #[serde(flatten)]
        ends: Ends,
        #[serde(flatten)]
        counts: Counts,
    }
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let get = Ask { name: name.clone(), action: Action::Get, level: level(params.r) };
    let done = ask(&data, get, deadline).await?;
    let counts = Counts::of(&done);
    match done.found {
        Found::Value(Some(value)) => {
            let (key, version) = (Bytes::new(&name.bytes), value.version.to_string());
            let ends = Ends::of(value.expires);
            Ok(counts.told(document("kringle.ttl/1", Staying { key, version, ends, counts })?))
        }
        Found::Value(None) => Err(missing(&name)),
        _ => Err(unfitting()),
    }
}

/// Lets a value end after a time, which is in `?ttl=` or in the body.
pub(in crate::http) async fn set(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Storing>,
    uri: Uri,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let text = body(&headers, from, SPAN_MAX, &shared.options).await?;
    let wish = span(params.ttl, &text)?;
    let change = Change::Expire(ttl(Some(wish))?);
    expire(&data, limits, &uri, &headers, change, (params.w, params.timeout)).await
}

/// Lets a value stay.
pub(in crate::http) async fn clear(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Writing>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    expire(&data, limits, &uri, &headers, Change::Expire(None), (params.w, params.timeout)).await
}

async fn expire(
    data: &Data,
    limits: Limits,
    uri: &Uri,
    headers: &HeaderMap,
    to: Change,
    (w, timeout): (Option<Wish>, Option<Span>),
) -> Answer {
    let (name, deadline) = (name(uri, limits)?, deadline(timeout)?);
    let expire = change(name.clone(), to, condition(headers)?, level(w));
    let done = ask(data, expire, deadline).await.map_err(|problem| absent(problem, &name))?;
    written(headers, &name, &done, (StatusCode::NO_CONTENT, StatusCode::NO_CONTENT))
}

/// Nothing can be said about how long nothing stays: the condition that there is a value was not the client's.
pub(super) fn absent(problem: Problem, name: &Name) -> Problem {
    let none =
        problem.kind == Kind::ConditionFailed && problem.extras.get("current").is_some_and(|at| at.is_null());
    if none { missing(name) } else { problem }
}

fn span(parameter: Option<Span>, text: &[u8]) -> Result<Span, Problem> {
    let text = text.trim_ascii();
    match (parameter, text.is_empty()) {
        (Some(span), true) => Ok(span),
        (None, false) => {
            let text =
                std::str::from_utf8(text).map_err(|_| Problem::bad("the body is not a span of time"))?;
            duration::parse(text).map(Span).map_err(|error| Problem::bad(error.to_string()))
        }
        (Some(_), false) => Err(Problem::bad("give the time to live as ?ttl= or in the body, not both")),
        (None, true) => Err(Problem::bad("a time to live is missing; give one as ?ttl=10m or in the body")),
    }
}

/// Parameters of an increment.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Counting {
    by: Option<i64>,
    w: Option<Wish>,
    #[serde(alias = "deadline")]
    timeout: Option<Span>,
}

/// Makes a number greater, and answers with what it is now.
pub(in crate::http) async fn increment(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Counting>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let by = Change::Increment(params.by.unwrap_or(1));
    let done = ask(&data, change(name.clone(), by, condition(&headers)?, level(params.w)), deadline).await?;
    counted(&headers, &name, &done)
}

fn counted(headers: &HeaderMap, name: &Name, done: &Done) -> Answer {
    #[derive(Serialize)]
    struct Counted {
        key: Bytes,
        number: i64,
        version: Option<String>,
        created: bool,
        #[serde(flatten)]
        counts: Counts,
    }
    let (changed, counts) = (changed(done)?, Counts::of(done));
    let number = changed.number.ok_or_else(unfitting)?;
    let mut response = match wants_json(headers) {
        true => {
            let (key, version) = (Bytes::new(&name.bytes), text_of(changed.version));
            document("kringle.number/1", Counted { key, number, version, created: changed.created, counts })?
        }
        false => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{number}\n")).into_response(),
    };
    tag(&mut response, changed.version);
    Ok(counts.told(response))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_to_live_stands_in_one_place() {
        let ten = Span(Duration::from_secs(600));
        assert_eq!(span(Some(ten), b""), Ok(ten));
        assert_eq!(span(None, b" 10m\n"), Ok(ten));
        for (parameter, text) in
            [(Some(ten), &b"10m"[..]), (None, b""), (None, b"10 parsecs"), (None, b"\xff")]
        {
            assert_eq!(span(parameter, text).unwrap_err().code(), "KR0400");
        }
    }

    #[test]
    fn only_the_condition_that_nobody_named_is_a_missing_key() {
        let name = kringle_runtime::key::name_of("k");
        let failed =
            |current: Option<&str>| Problem::new(Kind::ConditionFailed, "x").with("current", current);
        assert_eq!(absent(failed(None), &name).code(), "KR0404");
        assert_eq!(absent(failed(Some("0000000000000007")), &name).code(), "KR0412");
        assert_eq!(absent(Problem::bad("x"), &name).code(), "KR0400");
    }
}
