//! Keys and messages.

use kringle_front::http::Options;
use kringle_runtime::key::key_of;
use serde_json::json;

use crate::client::{get, post, request};
use crate::rings::Ring;

#[tokio::test]
async fn a_key_is_looked_up_by_text_bytes_and_id() {
    let ring = Ring::start(3, Options::default()).await;
    let reply = get(ring.address(), "/v1/lookup/caf%C3%A9").await;
    let hops = reply.header("kringle-hops").unwrap().to_owned();
    let found = reply.document("kringle.lookup/1");
    assert_eq!(
        (&found["text"], &found["found"]["key"]),
        (&json!("caf\u{e9}"), &json!(key_of("caf\u{e9}").to_string()))
    );
    assert_eq!(found["found"]["hops"].to_string(), hops);
    assert_eq!(found["replicas"].as_array().unwrap().len(), 3);
    assert_eq!(found["replicas"][0], found["found"]["root"]);
    let bytes = get(ring.address(), "/v1/lookup/%ff").await.document("kringle.lookup/1");
    assert_eq!(
        (&bytes["text"], &bytes["found"]["key"]),
        (&json!({"base64": "/w=="}), &json!(key_of(b"\xff").to_string()))
    );
    let id = ring.nodes[2].id().to_string();
    let by_id =
        get(ring.address(), &format!("/v1/lookup?id={id}&replicas=0")).await.document("kringle.lookup/1");
    assert_eq!((&by_id["text"], &by_id["found"]["root"]), (&json!(null), &json!(id)));
    assert_eq!(by_id["replicas"], json!([]));
    ring.stop().await;
}

#[tokio::test]
async fn a_trace_names_every_hop_from_the_origin_to_the_root() {
    let ring = Ring::start(3, Options::default()).await;
    let id = ring.nodes[1].id().to_string();
    let trace =
        get(ring.address(), &format!("/v1/lookup?id={id}&trace=true")).await.document("kringle.trace/1");
    let path = trace["found"]["path"].as_array().unwrap();
    assert_eq!(path.first().unwrap()["node"], ring.nodes[0].id().to_string());
    assert_eq!(path.last().unwrap()["node"], *id);
    ring.stop().await;
}

#[tokio::test]
async fn a_message_comes_back_as_the_application_answered_it() {
    let ring = Ring::start(3, Options::default()).await;
    let id = ring.nodes[1].id().to_string();
    let path = format!("/v1/route?id={id}&deadline=5s");
    let reply = post(ring.address(), &path, b"\xffab").await;
    assert_eq!((reply.status, &*reply.body), (200, &b"ba\xff"[..]));
    assert_eq!((reply.header("kringle-root"), reply.header("kringle-hops")), (Some(&*id), Some("1")));
    let nothing = post(ring.address(), &path, "").await;
    assert_eq!((nothing.status, &*nothing.body), (204, &b""[..]));
    let json = "Accept: application/json\r\n";
    let text = request(ring.address(), "POST", &path, json, b"ab").await.document("kringle.delivered/1");
    assert_eq!((&text["root"], &text["answer"]), (&json!(id), &json!({"text": "ba"})));
    let bytes = request(ring.address(), "POST", &path, json, b"\xff").await.document("kringle.delivered/1");
    assert_eq!(bytes["answer"], json!({"base64": "/w=="}));
    let none = request(ring.address(), "POST", &path, json, b"").await.document("kringle.delivered/1");
    assert_eq!(none["answer"], json!(null));
    ring.stop().await;
}

#[tokio::test]
async fn a_message_goes_to_one_node_or_is_said_not_to_have_gone() {
    let ring = Ring::start(3, Options::default()).await;
    let reply = post(ring.address(), "/v1/nodes/node-2/send", "xyz").await;
    assert_eq!(reply.body, b"zyx");
    assert_eq!(reply.header("kringle-root"), Some(&*ring.nodes[2].id().to_string()));
    let problem = post(ring.address(), &format!("/v1/nodes/{:032x}/send", 1), "x").await.problem("KR0404");
    assert_eq!(problem["outcome"], "none");
    ring.stop().await;
}

#[tokio::test]
async fn the_largest_message_passes() {
    let ring = Ring::start(1, Options::default()).await;
    let body = vec![b'x'; 64 * 1024];
    assert_eq!(post(ring.address(), "/v1/route/k", &body).await.body, body);
    post(ring.address(), "/v1/route/k", [b'x'; 64 * 1024 + 1]).await.problem("KR0413");
    ring.stop().await;
}
