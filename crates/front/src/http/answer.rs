//! How answers are written: documents with a schema, problems, and the headers all of them carry.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use kringle_core::id::NodeId;
use serde::Serialize;

use crate::errors::{Kind, Problem};
use crate::text;

/// Names the node that answered.
pub const NODE: HeaderName = HeaderName::from_static("kringle-node");
/// Says how many hops a routed request took.
pub const HOPS: HeaderName = HeaderName::from_static("kringle-hops");
/// Names the node whose application got a message.
pub const ROOT: HeaderName = HeaderName::from_static("kringle-root");

/// Says how many copies had something, and how many there are to be: `2/3`.
pub const REPLICAS: HeaderName = HeaderName::from_static("kringle-replicas");
/// Says when a value ends, as RFC 3339 writes it.
pub const EXPIRES: HeaderName = HeaderName::from_static("kringle-expires");

/// What a handler gives back.
pub(super) type Answer = Result<Response, Problem>;

/// A document and the name of its schema, which comes first.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'a str,
    #[serde(flatten)]
    content: T,
}

/// Answers with a JSON document of this schema.
pub(super) fn document(schema: &str, content: impl Serialize) -> Answer {
    let bytes = text::json(&Document { schema, content })
        .map_err(|error| Problem::new(Kind::Internal, format!("the answer can not be written: {error}")))?;
    Ok(([(CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// Says that something will be done.
pub(super) fn accepted(doing: &str) -> Answer {
    #[derive(Serialize)]
    struct Accepted<'a> {
        doing: &'a str,
    }
    Ok((StatusCode::ACCEPTED, document("kringle.accepted/1", Accepted { doing })?).into_response())
}

/// Adds how many hops it took.
pub(super) fn with_hops(mut response: Response, hops: u8) -> Response {
    response.headers_mut().insert(HOPS, HeaderValue::from(u16::from(hops)));
    response
}

/// Returns an id as the value of a header.
pub(super) fn id_value(id: NodeId) -> HeaderValue {
    HeaderValue::from_str(&id.to_string()).unwrap_or(HeaderValue::from_static(""))
}

/// Carries a problem to `finish`, which knows what it is about.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the problem in an answer, if there is one, and adds the headers that all answers have.
pub(super) fn finish(mut response: Response, path: &str, node: NodeId) -> Response {
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>() {
        problem.instance.get_or_insert_with(|| path.into());
        write(&problem, &mut response);
    }
    let headers = response.headers_mut();
    headers.insert(NODE, id_value(node));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn write(problem: &Problem, response: &mut Response) {
    // Extras are JSON values already, so this can not fail; if it could, the status would still say what is wrong.
    *response.body_mut() = Body::from(text::json(&problem.document()).unwrap_or_default());
    *response.status_mut() =
        StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    // It is that of the body this one replaces.
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(seconds) = problem.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}
