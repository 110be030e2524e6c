//! One value: store it, read it, remove it.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use kringle_core::store::op::{Action, Ask, Change, Found};

use super::input::{Reading, Storing, Writing, ask, change, condition, level, limits, name, ttl};
use super::output::{Counts, changed, missing, read, removed, unfitting, written};
use crate::http::answer::Answer;
use crate::http::input::{Params, body, deadline};
use crate::http::router::Shared;
use crate::store::Data;

/// Stores the body.
pub(in crate::http) async fn put(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Storing>,
    uri: Uri,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let (ttl, condition) = (ttl(params.ttl)?, condition(&headers)?);
    let value = body(&headers, from, limits.value, &shared.options).await?;
    let put = change(name.clone(), Change::Put { value, ttl }, condition, level(params.w));
    let done = ask(&data, put, deadline).await?;
    written(&headers, &name, &done, (StatusCode::CREATED, StatusCode::NO_CONTENT))
}

/// Reads it.
pub(in crate::http) async fn get(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Reading>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let get = Ask { name: name.clone(), action: Action::Get, level: level(params.r) };
    let done = ask(&data, get, deadline).await?;
    let counts = Counts::of(&done);
    match done.found {
        Found::Value(Some(value)) => read(&headers, &name, value, counts),
        Found::Value(None) => Err(missing(&name)),
        _ => Err(unfitting()),
    }
}

/// Removes it, and a set too. There need not be any.
pub(in crate::http) async fn delete(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Writing>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let delete = change(name.clone(), Change::Delete, condition(&headers)?, level(params.w));
    let done = ask(&data, delete, deadline).await?;
    let existed = !changed(&done)?.created;
    removed(&headers, &name, &done, existed)
}
