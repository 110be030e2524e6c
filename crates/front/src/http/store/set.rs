//! The values of a set.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use kringle_core::store::op::{Action, Ask, Found};
use kringle_runtime::key;
use serde::Serialize;

use super::input::{Reading, Storing, Writing, ask, digest, level, limits, name, ttl, unconditional};
use super::output::{Counts, Member, changed, missing, removed, unfitting, written};
use crate::http::answer::{Answer, document};
use crate::http::input::{Params, body, deadline, segment};
use crate::http::router::Shared;
use crate::store::Data;
use crate::text::Bytes;

/// Adds the body.
pub(in crate::http) async fn add(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Storing>,
    uri: Uri,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let ttl = ttl(params.ttl)?;
    unconditional(&headers)?;
    let value = body(&headers, from, limits.value, &shared.options).await?;
    let action = Action::Add { digest: key::digest_of(&value), value, ttl };
    let done = ask(&data, Ask { name: name.clone(), action, level: level(params.w) }, deadline).await?;
    written(&headers, &name, &done, (StatusCode::CREATED, StatusCode::OK))
}

/// Lists them all.
pub(in crate::http) async fn list(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Reading>,
    uri: Uri,
) -> Answer {
    #[derive(Serialize)]
    struct Listed {
        key: Bytes,
        values: Vec<Member>,
        #[serde(flatten)]
        counts: Counts,
    }
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let members = Ask { name: name.clone(), action: Action::Members, level: level(params.r) };
    let done = ask(&data, members, deadline).await?;
    let counts = Counts::of(&done);
    match done.found {
        Found::Members(values) if values.is_empty() => Err(missing(&name)),
        Found::Members(values) => {
            let (key, values) = (Bytes::new(&name.bytes), values.iter().map(Member::of).collect());
            Ok(counts.told(document("kringle.values/1", Listed { key, values, counts })?))
        }
        _ => Err(unfitting()),
    }
}

/// Removes one. It need not be there.
pub(in crate::http) async fn remove(
    State(shared): State<Shared>,
    Extension(data): Extension<Data>,
    Params(params): Params<Writing>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    let limits = limits(&shared, &data).await?;
    let (name, deadline) = (name(&uri, limits)?, deadline(params.timeout)?);
    let action = Action::Remove { digest: digest(&segment(&uri, 4))? };
    unconditional(&headers)?;
    let done = ask(&data, Ask { name: name.clone(), action, level: level(params.w) }, deadline).await?;
    let existed = changed(&done)?.created;
    removed(&headers, &name, &done, existed)
}
