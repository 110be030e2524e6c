//! Requests that name the wrong host, path, method or site.

use kringle_front::http::Options;

use crate::client::{Client, get, post, request};
use crate::rings::Ring;

#[tokio::test]
async fn a_forged_host_is_answered_with_421_and_changes_nothing() {
    let ring = Ring::start(1, Options::default()).await;
    let mut client = Client::open(ring.address()).await;
    client.send("POST /v1/node/stop HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n").await;
    let reply = client.answer().await.unwrap();
    assert_eq!(reply.status, 421);
    assert_eq!(reply.problem("KR0421")["host"], "evil.example");
    client.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    ring.stop().await;
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing_and_are_not_told_that_they_may() {
    let ring = Ring::start(1, Options::default()).await;
    let origin = "Origin: http://evil.example\r\n";
    let reply = request(ring.address(), "POST", "/v1/node/stop", origin, b"").await;
    assert_eq!(reply.status, 403);
    reply.problem("KR0403");
    let reply = request(ring.address(), "GET", "/v1/peers", origin, b"").await;
    assert_eq!(reply.status, 200);
    let asked = format!("{origin}Access-Control-Request-Method: POST\r\n");
    let preflight = request(ring.address(), "OPTIONS", "/v1/node/stop", &asked, b"").await;
    assert_eq!(preflight.status, 405);
    for reply in [reply, preflight] {
        assert!(!reply.head.to_ascii_lowercase().contains("access-control"), "{reply:?}");
    }
    let own = format!("Origin: http://{}\r\n", ring.address());
    assert_eq!(request(ring.address(), "POST", "/v1/route/k", &own, b"ab").await.body, b"ba");
    ring.stop().await;
}

#[tokio::test]
async fn an_unknown_path_is_a_problem_and_so_is_a_wrong_method() {
    let ring = Ring::start(1, Options::default()).await;
    for path in
        ["/nothing", "/v1", "/v1/status/", "/v1/lookup/a/b", "/v1/nodes/self/nothing", "//livez", "/v2/ring"]
    {
        let reply = get(ring.address(), path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert_eq!(reply.problem("KR0404")["instance"], path);
        assert_eq!(reply.header("kringle-node"), Some(&*ring.nodes[0].id().to_string()));
    }
    for (method, path, allow) in [
        ("POST", "/v1/status", "GET,HEAD"),
        ("GET", "/v1/node/stop", "POST"),
        ("PUT", "/v1/tokens", "GET,HEAD,POST"),
    ] {
        let reply = request(ring.address(), method, path, "", b"").await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)));
        reply.problem("KR0405");
    }
    ring.stop().await;
}

#[tokio::test]
async fn parameters_that_can_not_be_read_are_named() {
    let ring = Ring::start(1, Options::default()).await;
    for (path, word) in [
        ("/v1/lookup/k?dedline=2s", "dedline"),
        ("/v1/lookup/k?deadline=2", "unit"),
        ("/v1/lookup/k?deadline=0s", "deadline"),
        ("/v1/lookup/k?trace=maybe", "true"),
        ("/v1/lookup/k?replicas=99", "replicas"),
        ("/v1/lookup?id=abc", "32"),
        ("/v1/lookup", "empty"),
        ("/v1/status?limit=0", "limit"),
        ("/v1/ring?limit=x", "digit"),
    ] {
        let problem = get(ring.address(), path).await.problem("KR0400");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    assert_eq!(post(ring.address(), "/v1/route/k?purpose=1", "x").await.problem("KR0400")["status"], 400);
    get(ring.address(), &format!("/v1/lookup/{}", "x".repeat(1025))).await.problem("KR0413");
    ring.stop().await;
}

#[tokio::test]
async fn documents_that_can_not_be_read_are_refused_however_deep_they_are() {
    let ring = Ring::start(1, Options::default()).await;
    let deep = "[".repeat(30_000);
    for body in [
        "",
        "{}",
        "[]",
        "nonsense",
        "{\"seeds\":[]}",
        "{\"seeds\":[\"a b\"]}",
        "{\"seeds\":[\"a\"],\"x\":1}",
        &deep,
        &format!("{{\"x\":{deep}"),
    ] {
        post(ring.address(), "/v1/cluster/join", body).await.problem("KR0400");
    }
    for body in
        ["{\"lifetime\":\"1\"}", "{\"lifetime\":\"0s\"}", "{\"lifetime\":\"31d\"}", "{\"lifetime\":5}"]
    {
        post(ring.address(), "/v1/tokens", body).await.problem("KR0400");
    }
    ring.stop().await;
}
