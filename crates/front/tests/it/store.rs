//! Values, sets, counting and expiry.

use std::net::SocketAddr;

use kringle_core::store::op::{Action, Change, Condition, Level};
use kringle_front::http::Options;
use kringle_runtime::key::digest_of;
use serde_json::json;

use crate::client::{Client, Reply, get, post, request};
use crate::rings::Ring;

const JSON: &str = "Accept: application/json\r\n";

async fn put(to: SocketAddr, path: &str, body: impl AsRef<[u8]>) -> Reply {
    request(to, "PUT", path, "", body.as_ref()).await
}

async fn delete(to: SocketAddr, path: &str) -> Reply {
    request(to, "DELETE", path, "", b"").await
}

fn tag(reply: &Reply) -> String {
    reply.header("etag").expect("an entity tag").to_owned()
}

#[tokio::test]
async fn a_value_is_stored_read_replaced_and_removed() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    let new = put(to, "/v1/kv/greeting", "hello ring").await;
    assert_eq!((new.status, &*new.body), (201, &b""[..]));
    assert_eq!((new.header("kringle-replicas"), new.header("kringle-hops")), (Some("2/3"), Some("1")));
    let version = tag(&new);
    assert!(version.len() == 18 && version.starts_with('"') && version.ends_with('"'), "{version}");
    let read = get(to, "/v1/kv/greeting").await;
    assert_eq!((read.status, &*read.body), (200, &b"hello ring"[..]));
    assert_eq!(tag(&read), version);
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));
    assert_eq!((read.header("kringle-replicas"), read.header("kringle-expires")), (Some("2/3"), None));
    let again = put(to, "/v1/kv/greeting", "hello again").await;
    assert_eq!((again.status, again.header("content-length")), (204, None));
    assert!(tag(&again) > version);
    let gone = delete(to, "/v1/kv/greeting").await;
    assert_eq!((gone.status, gone.header("kringle-replicas")), (204, Some("2/3")));
    assert_eq!(delete(to, "/v1/kv/greeting").await.status, 204, "there need not be any");
    let problem = get(to, "/v1/kv/greeting").await.problem("KR0404");
    assert_eq!((&problem["detail"], &problem["outcome"]), (&json!("no such key: greeting"), &json!("none")));
    ring.stop().await;
}

#[tokio::test]
async fn keys_and_values_are_any_bytes() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    for (path, value) in [
        ("/v1/kv/%00", &b""[..]),
        ("/v1/kv/%ff%2F%20", b"\x00\xff\r\n"),
        ("/v1/kv/..", b"dots"),
        ("/v1/kv/%2e%2e", b"dots"),
        ("/v1/kv/a+b", b"plus"),
    ] {
        put(to, path, value).await;
        let read = get(to, path).await;
        assert_eq!((read.status, &*read.body), (200, value), "{path}");
        assert_eq!(read.header("content-length"), Some(&*value.len().to_string()));
    }
    assert_eq!(get(to, "/v1/kv/%2E.").await.body, b"dots");
    let long = format!("/v1/kv/{}", "x".repeat(1024));
    assert_eq!(put(to, &long, "v").await.status, 201);
    let too_long = put(to, &format!("{long}x"), "v").await.problem("KR0413");
    assert_eq!((&too_long["limit"], &too_long["outcome"]), (&json!(1024), &json!("none")));
    ring.stop().await;
}

#[tokio::test]
async fn an_empty_key_is_refused_on_every_path() {
    let (ring, fake) = Ring::with_store(Options::default()).await;
    for (method, path) in [
        ("PUT", "/v1/kv/"),
        ("PUT", "/v1/kv"),
        ("GET", "/v1/kv/"),
        ("DELETE", "/v1/kv/"),
        ("GET", "/v1/kv//values"),
        ("POST", "/v1/kv//values"),
        ("DELETE", "/v1/kv//values/00000000000000000000000000000000"),
        ("GET", "/v1/kv//ttl"),
        ("PUT", "/v1/kv//ttl?ttl=1s"),
        ("POST", "/v1/kv//increment"),
        ("GET", "/v1/place/"),
        ("GET", "/v1/place"),
    ] {
        let problem = request(ring.address(), method, path, "", b"").await.problem("KR0400");
        assert!(problem["detail"].as_str().unwrap().contains("the key is empty"), "{problem}");
    }
    assert_eq!(fake.asked(), []);
    ring.stop().await;
}

#[tokio::test]
async fn whoever_asks_for_json_gets_it() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    let new = request(to, "PUT", "/v1/kv/k?ttl=1h&w=all", JSON, b"text").await;
    assert_eq!(new.status, 201);
    let version = tag(&new).trim_matches('"').to_owned();
    let document = new.document("kringle.written/1");
    assert_eq!(
        document,
        json!({ "schema": "kringle.written/1", "key": "k", "version": version, "created": true,
            "acked": 3, "wanted": 3, "replicas": 3, "hops": 1 })
    );
    let reply = request(to, "GET", "/v1/kv/k", JSON, b"").await;
    let expires = reply.header("kringle-expires").unwrap().to_owned();
    let read = reply.document("kringle.value/1");
    assert_eq!(
        (&read["key"], &read["value"], &read["version"]),
        (&json!("k"), &json!("text"), &json!(version))
    );
    assert_eq!(read["expires"], *expires);
    assert!(expires.ends_with('Z') && expires.len() == 24, "{expires}");
    let left = read["ttl_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    assert_eq!(request(to, "PUT", "/v1/kv/k", JSON, b"\xff").await.status, 200, "204 has no room for it");
    let read = request(to, "GET", "/v1/kv/k", JSON, b"").await.document("kringle.value/1");
    assert_eq!((&read["value"], &read["expires"]), (&json!({ "base64": "/w==" }), &json!(null)));
    let gone = request(to, "DELETE", "/v1/kv/k", JSON, b"").await.document("kringle.removed/1");
    assert_eq!((&gone["existed"], &gone["acked"]), (&json!(true), &json!(2)));
    let gone = request(to, "DELETE", "/v1/kv/k", JSON, b"").await.document("kringle.removed/1");
    assert_eq!(gone["existed"], json!(false));
    ring.stop().await;
}

#[tokio::test]
async fn head_tells_all_but_the_value() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let mut client = Client::open(ring.address()).await;
    put(ring.address(), "/v1/kv/k?ttl=1h", "hello").await;
    client.send("HEAD /v1/kv/k HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let head = String::from_utf8(client.until(b"\r\n\r\n").await.unwrap()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-length: 5\r\n"), "{head}");
    assert!(head.contains("etag: \"") && head.contains("kringle-expires: "), "{head}");
    client.send("HEAD /v1/kv/nope HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let rest = String::from_utf8(client.rest().await).unwrap();
    assert!(rest.starts_with("HTTP/1.1 404 ") && rest.ends_with("\r\n\r\n"), "{rest}");
    ring.stop().await;
}

#[tokio::test]
async fn conditions_hold_or_name_the_current_version() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    let with = |method: &'static str, header: String| async move {
        request(to, method, "/v1/kv/k", &format!("{header}\r\n"), b"v").await
    };
    let missing = with("PUT", "If-Match: *".into()).await.problem("KR0412");
    assert_eq!(missing["current"], json!(null));
    let first = with("PUT", "If-None-Match: *".into()).await;
    assert_eq!(first.status, 201);
    let current = tag(&first);
    let taken = with("PUT", "If-None-Match: *".into()).await.problem("KR0412");
    assert_eq!(taken["current"], *current.trim_matches('"'));
    let second = with("PUT", format!("If-Match: {current}")).await;
    assert_eq!(second.status, 204);
    with("PUT", format!("If-Match: {current}")).await.problem("KR0412");
    with("DELETE", format!("If-Match: {current}")).await.problem("KR0412");
    let known = request(to, "GET", "/v1/kv/k", &format!("If-None-Match: {}\r\n", tag(&second)), b"").await;
    assert_eq!((known.status, &*known.body, tag(&known)), (304, &b""[..], tag(&second)));
    let other = request(to, "GET", "/v1/kv/k", &format!("If-None-Match: {current}\r\n"), b"").await;
    assert_eq!((other.status, &*other.body), (200, &b"v"[..]));
    for header in [
        "If-Match: \"seven\"",
        "If-Match: 7",
        "If-None-Match: \"0000000000000007\"",
        "If-Match: \"0000000000000007\"\r\nIf-None-Match: *",
        "If-Match: \"0000000000000007\"\r\nIf-Match: \"0000000000000008\"",
    ] {
        with("PUT", header.into()).await.problem("KR0400");
        with("DELETE", header.into()).await.problem("KR0400");
    }
    assert_eq!(with("DELETE", format!("If-Match: {}", tag(&second))).await.status, 204);
    ring.stop().await;
}

#[tokio::test]
async fn parameters_reach_the_store_or_are_refused() {
    let (ring, fake) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    put(to, "/v1/kv/k?ttl=10m&w=one&timeout=250ms", "v").await;
    let asked = fake.asked().remove(0);
    let ttl = Some(std::time::Duration::from_secs(600));
    let change = Change::Put { value: b"v".to_vec(), ttl };
    assert_eq!(asked.action, Action::Change { change, condition: Condition::Always });
    assert_eq!((asked.level, &*asked.name.bytes), (Level::One, &b"k"[..]));
    assert_eq!(get(to, "/v1/kv/k?r=all&deadline=1s").await.header("kringle-replicas"), Some("3/3"));
    assert_eq!(fake.asked().remove(0).level, Level::All);
    for (path, word) in [
        ("/v1/kv/k?ttl=0s", "longer than nothing"),
        ("/v1/kv/k?ttl=-1s", "whole number"),
        ("/v1/kv/k?ttl=1e30s", "units"),
        ("/v1/kv/k?ttl=99999999999999999999s", "longer than a duration"),
        ("/v1/kv/k?ttl=18446744073709551615ms", "36500 days"),
        ("/v1/kv/k?ttl=10%20parsecs", "units"),
        ("/v1/kv/k?ttl=", "missing"),
        ("/v1/kv/k?ttl=1s&ttl=2s", "duplicate"),
        ("/v1/kv/k?w=two", "quorum"),
        ("/v1/kv/k?r=one", "unknown field"),
        ("/v1/kv/k?tll=1s", "tll"),
        ("/v1/kv/k?timeout=0s", "deadline"),
        ("/v1/kv/k?id=0123456789abcdef0123456789abcdef", "unknown field"),
    ] {
        let problem = put(to, path, "v").await.problem("KR0400");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{path}: {problem}");
    }
    assert_eq!(fake.asked(), []);
    ring.stop().await;
}

#[tokio::test]
async fn values_have_a_limit_announced_or_not() {
    let (ring, fake) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    let largest = vec![b'x'; 1 << 20];
    assert_eq!(put(to, "/v1/kv/k", &largest).await.status, 201);
    assert_eq!(get(to, "/v1/kv/k").await.body, largest);
    fake.asked();
    let mut client = Client::open(to).await;
    client.send("PUT /v1/kv/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n").await;
    // Nothing of it was sent yet: the answer is early.
    assert_eq!(client.answer().await.unwrap().problem("KR0413")["limit"], 1 << 20);
    let mut client = Client::open(to).await;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(17);
    let head = "PUT /v1/kv/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}{chunk}0\r\n\r\n")).await;
    client.answer().await.unwrap().problem("KR0413");
    let mut client = Client::open(to).await;
    let head = "POST /v1/kv/k/values HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n";
    client.send(head).await;
    client.answer().await.unwrap().problem("KR0413");
    assert_eq!(fake.asked(), []);
    ring.stop().await;
}

#[tokio::test]
async fn every_trouble_is_told_with_its_code() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    for (name, code, field, value) in [
        ("few", "KR0503", "outcome", json!("none")),
        ("few", "KR0503", "acked", json!(1)),
        ("few", "KR0503", "wanted", json!(2)),
        ("some", "KR0503", "outcome", json!("some")),
        ("lost", "KR0503", "outcome", json!("unknown")),
        ("timeout", "KR0504", "outcome", json!("unknown")),
        ("slow", "KR0504", "outcome", json!("unknown")),
        ("kind", "KR0409", "outcome", json!("none")),
        ("large", "KR0413", "limit", json!(5)),
        ("range", "KR0400", "outcome", json!("none")),
        ("bad", "KR0400", "outcome", json!("none")),
        ("space", "KR0507", "outcome", json!("none")),
        ("clock", "KR0523", "outcome", json!("none")),
        ("busy", "KR0429", "outcome", json!("none")),
        ("damaged", "KR0524", "outcome", json!("none")),
        ("condition", "KR0412", "current", json!("0000000000000007")),
        ("none", "KR0501", "outcome", json!("none")),
        ("gone", "KR0521", "outcome", json!("unknown")),
    ] {
        let problem = put(to, &format!("/v1/kv/trouble:{name}"), "v").await.problem(code);
        assert_eq!(problem[field], value, "{problem}");
    }
    let reply = put(to, "/v1/kv/trouble:busy", "v").await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
    let problem = get(to, "/v1/kv/trouble:timeout").await.problem("KR0504");
    assert_eq!(problem["outcome"], "none", "a read changes nothing");
    ring.stop().await;
}

#[tokio::test]
async fn a_set_has_values_and_no_value() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    let added = post(to, "/v1/kv/s/values", "a").await;
    assert_eq!((added.status, added.header("kringle-replicas")), (201, Some("2/3")));
    assert_eq!(post(to, "/v1/kv/s/values", "a").await.status, 200, "it is there already");
    assert_eq!(post(to, "/v1/kv/s/values?ttl=1h", b"\xff").await.status, 201);
    assert_eq!(post(to, "/v1/kv/s/values", "").await.status, 201, "an empty value is one");
    let list = get(to, "/v1/kv/s/values").await.document("kringle.values/1");
    let values = list["values"].as_array().unwrap();
    let digests: Vec<&str> = values.iter().map(|value| value["digest"].as_str().unwrap()).collect();
    assert!(values.len() == 3 && digests.is_sorted(), "{list}");
    let of = |bytes: &[u8]| format!("{:032x}", u128::from_be_bytes(digest_of(bytes).0));
    let one = values.iter().find(|value| value["digest"] == *of(b"\xff")).unwrap();
    assert_eq!(one["value"], json!({ "base64": "/w==" }));
    assert!(one["expires"].is_string() && one["version"].as_str().unwrap().len() == 16);
    get(to, "/v1/kv/s").await.problem("KR0409");
    assert_eq!(put(to, "/v1/kv/one", "v").await.status, 201);
    post(to, "/v1/kv/one/values", "a").await.problem("KR0409");
    get(to, "/v1/kv/one/values").await.problem("KR0409");
    let path = format!("/v1/kv/s/values/{}", of(b"a"));
    let gone = request(to, "DELETE", &path, JSON, b"").await.document("kringle.removed/1");
    assert_eq!(gone["existed"], json!(true));
    assert_eq!(delete(to, &path).await.status, 204, "it need not be there");
    for digest in ["x", "", &of(b"a")[1..]] {
        let reply = delete(to, &format!("/v1/kv/s/values/{digest}")).await;
        assert!(matches!(reply.status, 400 | 404), "{reply:?}");
    }
    let conditional = request(to, "POST", "/v1/kv/s/values", "If-None-Match: *\r\n", b"a").await;
    conditional.problem("KR0400");
    get(to, "/v1/kv/nope/values").await.problem("KR0404");
    ring.stop().await;
}

#[tokio::test]
async fn a_number_is_counted_up_and_down() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    let one = post(to, "/v1/kv/n/increment", "").await;
    assert_eq!((one.status, one.text()), (200, "1\n"));
    assert!(one.header("etag").is_some() && one.header("kringle-replicas") == Some("2/3"));
    assert_eq!(post(to, "/v1/kv/n/increment?by=-3", "").await.text(), "-2\n");
    let json = request(to, "POST", "/v1/kv/n/increment?by=44", JSON, b"").await.document("kringle.number/1");
    assert_eq!((&json["number"], &json["created"]), (&json!(42), &json!(false)));
    assert_eq!(get(to, "/v1/kv/n").await.body, b"42");
    post(to, &format!("/v1/kv/n/increment?by={}", i64::MAX), "").await.problem("KR0400");
    post(to, "/v1/kv/n/increment?by=9223372036854775808", "").await.problem("KR0400");
    post(to, "/v1/kv/n/increment?by=much", "").await.problem("KR0400");
    put(to, "/v1/kv/text", "text").await;
    post(to, "/v1/kv/text/increment", "").await.problem("KR0409");
    ring.stop().await;
}

#[tokio::test]
async fn expiry_is_shown_set_and_cleared() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    put(to, "/v1/kv/k", "v").await;
    let shown = get(to, "/v1/kv/k/ttl").await.document("kringle.ttl/1");
    assert_eq!((&shown["expires"], &shown["ttl_ms"]), (&json!(null), &json!(null)));
    let set = put(to, "/v1/kv/k/ttl?ttl=1h", "").await;
    assert_eq!((set.status, set.header("etag").is_some()), (204, true));
    let shown = get(to, "/v1/kv/k/ttl").await.document("kringle.ttl/1");
    assert!(shown["expires"].is_string() && shown["ttl_ms"].as_u64().unwrap() > 3_500_000, "{shown}");
    assert_eq!(put(to, "/v1/kv/k/ttl", "2h\n").await.status, 204);
    assert!(get(to, "/v1/kv/k/ttl").await.json()["ttl_ms"].as_u64().unwrap() > 7_100_000);
    assert_eq!(delete(to, "/v1/kv/k/ttl").await.status, 204);
    assert_eq!(get(to, "/v1/kv/k/ttl").await.json()["ttl_ms"], json!(null));
    for (path, body) in [
        ("/v1/kv/k/ttl", ""),
        ("/v1/kv/k/ttl", "soon"),
        ("/v1/kv/k/ttl?ttl=1h", "1h"),
        ("/v1/kv/k/ttl?ttl=0s", ""),
    ] {
        put(to, path, body).await.problem("KR0400");
    }
    for (method, path) in
        [("GET", "/v1/kv/no/ttl"), ("PUT", "/v1/kv/no/ttl?ttl=1s"), ("DELETE", "/v1/kv/no/ttl")]
    {
        request(to, method, path, "", b"").await.problem("KR0404");
    }
    ring.stop().await;
}

#[tokio::test]
async fn other_methods_and_pages_of_other_sites_are_refused() {
    let (ring, fake) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    let reply = post(to, "/v1/kv/k", "v").await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("GET,HEAD,PUT,DELETE")));
    let reply = request(to, "PUT", "/v1/kv/k", "Origin: http://evil.example\r\n", b"v").await;
    reply.problem("KR0403");
    assert_eq!(fake.asked(), []);
    ring.stop().await;
}

/// Which node answers, and how, is the core's. This only sees that the paths reach it.
#[tokio::test]
async fn a_ring_stores_what_it_is_given() {
    let ring = Ring::start(3, Options::default()).await;
    let to = ring.address();
    assert_eq!(put(to, "/v1/kv/greeting", "hello ring").await.status, 201);
    assert_eq!(get(to, "/v1/kv/greeting").await.body, b"hello ring");
    assert_eq!(post(to, "/v1/kv/n/increment?by=2", "").await.text(), "2\n");
    assert_eq!(post(to, "/v1/kv/s/values", "a").await.status, 201);
    assert_eq!(get(to, "/v1/kv/s/values").await.json()["values"][0]["value"], "a");
    assert_eq!(put(to, "/v1/kv/greeting/ttl?ttl=1h", "").await.status, 204);
    let keys = get(to, "/v1/keys?timeout=20s").await.document("kringle.keys/1");
    assert_eq!((keys["keys"].as_array().unwrap().len(), &keys["cursor"]), (3, &json!(null)));
    // Copies are made as nodes join, and that goes on for a while after they have.
    let end = std::time::Instant::now() + crate::client::PATIENCE;
    loop {
        let place = get(to, "/v1/place/greeting").await.document("kringle.place/1");
        if place["copies"].as_array().unwrap().len() == 3 && place["agree"] == 3 {
            break;
        }
        assert!(std::time::Instant::now() < end, "{place}");
    }
    assert_eq!(delete(to, "/v1/kv/greeting").await.status, 204);
    get(to, "/v1/kv/greeting").await.problem("KR0404");
    get(to, "/v1/kv/nope/ttl").await.problem("KR0404");
    put(to, "/v1/kv/nope/ttl?ttl=1h", "").await.problem("KR0404");
    ring.stop().await;
}
