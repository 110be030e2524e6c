//! Keys and messages: who answers for a key, and bytes for the application there.

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use kringle_core::id::{Key, NodeId};
use kringle_runtime::Handle;
use kringle_runtime::app::PURPOSE_MIN;
use kringle_runtime::report::{Delivered, Entry, Found};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::answer::{Answer, ROOT, document, id_value, with_hops};
use super::input::{Params, Span, ask, body, deadline, place, wants_json};
use super::look::resolve;
use super::router::Shared;
use crate::errors::Problem;
use crate::text::{Bytes, base64};

/// How many replicas of a key can be asked for.
const REPLICAS_MAX: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lookup {
    trace: Option<bool>,
    /// Chord: node after node is asked, instead of passing the question on.
    iterative: Option<bool>,
    id: Option<String>,
    deadline: Option<Span>,
    replicas: Option<usize>,
}

/// Asks who answers for a key, and, with `trace`, by which way the question went.
pub(super) async fn lookup(
    Extension(node): Extension<Handle>,
    Params(params): Params<Lookup>,
    uri: Uri,
) -> Answer {
    #[derive(Serialize)]
    struct Looked {
        text: Option<Bytes>,
        found: Found,
        replicas: Vec<String>,
    }
    let place = place(&uri, params.id.as_deref())?;
    let (deadline, trace) = (deadline(params.deadline)?, params.trace == Some(true));
    if params.replicas.is_some_and(|count| count > REPLICAS_MAX) {
        return Err(Problem::bad(format!("replicas must be 0 to {REPLICAS_MAX}")));
    }
    let start = Instant::now();
    let found = match trace {
        _ if params.iterative == Some(true) => {
            let mut found = ask(deadline, node.walk(place.key, deadline)).await?;
            found.path.truncate(if trace { usize::MAX } else { 0 });
            found
        }
        true => ask(deadline, node.trace(place.key, deadline)).await?,
        false => ask(deadline, node.lookup(place.key, deadline)).await?,
    };
    let left = deadline.saturating_sub(start.elapsed());
    let replicas = replicas(&node, place.key, &found.root, params.replicas, left).await;
    let (schema, hops) = (if trace { "kringle.trace/1" } else { "kringle.lookup/1" }, found.hops);
    let text = place.bytes.as_deref().map(Bytes::new);
    Ok(with_hops(document(schema, Looked { text, found, replicas })?, hops))
}

/// Returns who should hold a key. The root knows its surroundings, so it is asked; without its answer nobody is named
/// rather than somebody wrong.
async fn replicas(node: &Handle, key: Key, root: &str, count: Option<usize>, left: Duration) -> Vec<String> {
    let count = match count {
        Some(count) => count,
        None => ask(left, node.look(|view| view.config.replicas.into())).await.unwrap_or(0),
    };
    let Ok(root) = root.parse::<NodeId>() else { return Vec::new() };
    if count == 0 || left.is_zero() {
        return Vec::new();
    }
    let nearest = match root == node.id() {
        true => ask(left, node.replicas(key, count)).await.unwrap_or_default(),
        false => match ask(left, node.tables_of(root, left)).await {
            Ok(tables) => nearest(key, count, root, &[tables.left, tables.right]),
            Err(_) => Vec::new(),
        },
    };
    nearest.iter().map(NodeId::to_string).collect()
}

fn nearest(key: Key, count: usize, root: NodeId, sides: &[Vec<Entry>]) -> Vec<NodeId> {
    let leaves = sides.iter().flatten().filter_map(|entry| entry.id.parse().ok());
    let mut ids: Vec<NodeId> = leaves.chain([root]).collect();
    ids.sort_by_key(|id| key.closeness(*id));
    ids.dedup();
    ids.truncate(count);
    ids
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    id: Option<String>,
    purpose: Option<u32>,
    deadline: Option<Span>,
}

/// Carries the body to the application at whoever answers for a key.
pub(super) async fn route(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(params): Params<Route>,
    uri: Uri,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    let (deadline, purpose) = (deadline(params.deadline)?, purpose(params.purpose)?);
    let key = place(&uri, params.id.as_deref())?.key;
    let bytes = body(&headers, from, message_max(&node), &shared.options).await?;
    delivered(ask(deadline, node.route(key, purpose, bytes, deadline)).await?, &headers)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Send {
    purpose: Option<u32>,
    deadline: Option<Span>,
}

/// Carries the body to the application at one node.
pub(super) async fn send(
    State(shared): State<Shared>,
    Extension(node): Extension<Handle>,
    Params(params): Params<Send>,
    uri: Uri,
    headers: HeaderMap,
    from: Body,
) -> Answer {
    let (deadline, purpose) = (deadline(params.deadline)?, purpose(params.purpose)?);
    let bytes = body(&headers, from, message_max(&node), &shared.options).await?;
    let to = resolve(&shared, &node, &uri, deadline).await?;
    delivered(ask(deadline, node.send(to, purpose, bytes, deadline)).await?, &headers)
}

fn message_max(node: &Handle) -> usize {
    node.info().payload_max as usize
}

fn purpose(wish: Option<u32>) -> Result<u32, Problem> {
    match wish.unwrap_or(PURPOSE_MIN) {
        purpose if purpose >= PURPOSE_MIN => Ok(purpose),
        _ => Err(Problem::bad(format!(
            "purpose must be {PURPOSE_MIN} or more; smaller ones are Kringle's own"
        ))),
    }
}

/// Answers with what the application said: its bytes as they are, or inside a document if the client wants JSON.
fn delivered(delivered: Delivered, headers: &HeaderMap) -> Answer {
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Said {
        Text(String),
        Base64(String),
    }
    #[derive(Serialize)]
    struct Done {
        root: String,
        hops: u8,
        answer: Option<Said>,
    }
    let Delivered { root, hops, answer } = delivered;
    let mut response = if wants_json(headers) {
        let said = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map_or_else(|error| Said::Base64(base64(error.as_bytes())), Said::Text)
        };
        document("kringle.delivered/1", Done { root: root.to_string(), hops, answer: answer.map(said) })?
    } else {
        match answer {
            Some(bytes) => ([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        }
    };
    response.headers_mut().insert(ROOT, id_value(root));
    Ok(with_hops(response, hops))
}

#[cfg(test)]
mod tests {
    use kringle_core::id::Id;

    use super::*;

    #[test]
    fn replicas_are_the_nearest_around_the_root() {
        let entry = |at: u128| Entry { id: Id::new(at).to_string(), rtt_us: None };
        let sides = [vec![entry(90), entry(50)], vec![entry(120), entry(90)]];
        let found = nearest(Id::new(101), 3, Id::new(100), &sides);
        assert_eq!(found, [Id::new(100), Id::new(90), Id::new(120)]);
    }

    #[test]
    fn purposes_of_kringle_are_not_for_clients() {
        assert_eq!(purpose(None), Ok(16));
        assert_eq!(purpose(Some(1)).unwrap_err().code(), "KR0400");
    }
}
