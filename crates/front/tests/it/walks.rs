//! Batches, lists of keys, and places.

use std::collections::BTreeSet;

use kringle_front::http::Options;
use serde_json::{Value, json};

use crate::client::{Client, Reply, get, post, request};
use crate::rings::Ring;

/// Reads an answer that comes in chunks, as its lines.
async fn batch(ring: &Ring, body: &str) -> Result<Vec<Value>, Reply> {
    let mut client = Client::open(ring.address()).await;
    let head = format!(
        "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(format!("{head}{body}")).await;
    let reply = client.answer().await.expect("an answer");
    if reply.status != 200 {
        return Err(reply);
    }
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let (rest, mut text) = (client.rest().await, Vec::new());
    let mut rest = rest.as_slice();
    loop {
        let at = rest.windows(2).position(|pair| pair == b"\r\n").expect("a chunk");
        let length =
            usize::from_str_radix(std::str::from_utf8(&rest[..at]).expect("digits"), 16).expect("a length");
        if length == 0 {
            break;
        }
        text.extend_from_slice(&rest[at + 2..at + 2 + length]);
        rest = &rest[at + 4 + length..];
    }
    Ok(text
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).expect("a document"))
        .collect())
}

#[tokio::test]
async fn a_batch_is_answered_line_by_line_in_order() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let lines = batch(
        &ring,
        r#"{"op":"put","key":"a","value":"1","ttl":"1h"}
           {"op":"get","key":"a"}

           {"op":"increment","key":"a","by":4}
           {"op":"get","key":"nope"}
           {"op":"put","key":"a","value":"x","if_absent":true}
           {"op":"add","key":{"base64":"/w=="},"value":"m"}
           {"op":"values","key":{"base64":"/w=="}}
           {"op":"expire","key":"nope","ttl":"1h"}
           {"op":"get","key":"trouble:some"}
           {"op":"delete","key":"a"}"#,
    )
    .await
    .unwrap();
    let seen: Vec<(u64, &str)> = lines
        .iter()
        .map(|line| (line["status"].as_u64().unwrap(), line["code"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(
        seen,
        [
            (200, ""),
            (200, ""),
            (200, ""),
            (404, "KR0404"),
            (412, "KR0412"),
            (200, ""),
            (200, ""),
            (404, "KR0404"),
            (503, "KR0503"),
            (200, "")
        ]
    );
    assert_eq!(
        (&lines[0]["created"], &lines[0]["acked"], &lines[0]["replicas"]),
        (&json!(true), &json!(2), &json!(3))
    );
    assert_eq!((&lines[1]["value"], &lines[1]["version"]), (&json!("1"), &lines[0]["version"]));
    assert!(lines[1]["ttl_ms"].as_u64().unwrap() > 3_500_000);
    assert_eq!(lines[2]["number"], 5);
    assert_eq!(lines[4]["current"], lines[2]["version"]);
    assert_eq!(lines[6]["values"][0]["value"], "m");
    assert_eq!(lines[8]["outcome"], "some");
    assert_eq!(lines[9]["existed"], true);
    ring.stop().await;
}

#[tokio::test]
async fn operations_of_one_key_run_in_their_order_however_many_there_are() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let keys = ["a", "bb", "ccc", "dddd", "eeeee"];
    let body: String = (0..2000)
        .map(|at| format!("{{\"op\":\"increment\",\"key\":\"{}\"}}\n", keys[at * 7 % keys.len()]))
        .collect();
    let lines = batch(&ring, &body).await.unwrap();
    assert_eq!(lines.len(), 2000);
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(line["number"], at / keys.len() + 1, "line {at}");
    }
    ring.stop().await;
}

#[tokio::test]
async fn a_batch_with_a_mistake_does_nothing() {
    let (ring, fake) = Ring::with_store(Options::default()).await;
    for (line, word) in [
        ("nonsense", "expected"),
        ("{\"op\":\"fly\",\"key\":\"k\"}", "fly"),
        ("{\"op\":\"get\",\"key\":\"\"}", "empty"),
        ("{\"op\":\"put\",\"key\":\"k\"}", "put needs a value"),
        ("{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\",\"ttl\":\"0s\"}", "longer than nothing"),
        ("{\"op\":\"get\",\"key\":\"k\"} x", "trailing"),
    ] {
        let body = format!("{{\"op\":\"put\",\"key\":\"k\",\"value\":\"v\"}}\n{line}\n");
        let problem = batch(&ring, &body).await.unwrap_err().problem("KR0400");
        assert_eq!((&problem["line"], &problem["outcome"]), (&json!(2), &json!("none")));
        assert!(problem["detail"].as_str().unwrap().contains(word), "{problem}");
    }
    let many = "{\"op\":\"get\",\"key\":\"k\"}\n".repeat(10_001);
    assert_eq!(batch(&ring, &many).await.unwrap_err().problem("KR0413")["limit"], 10_000);
    let mut client = Client::open(ring.address()).await;
    client.send("POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().problem("KR0413")["limit"], 8 << 20);
    assert_eq!(batch(&ring, "").await.unwrap(), [] as [Value; 0]);
    assert_eq!(batch(&ring, "\n\n").await.unwrap(), [] as [Value; 0]);
    assert_eq!(fake.asked(), []);
    post(ring.address(), "/v1/batch?ttl=1s", "").await.problem("KR0400");
    ring.stop().await;
}

#[tokio::test]
async fn a_batch_larger_than_the_window_of_a_connection_streams() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let value = "x".repeat(100_000);
    let put = format!("{{\"op\":\"put\",\"key\":\"k\",\"value\":\"{value}\"}}\n");
    let body = put + &"{\"op\":\"get\",\"key\":\"k\"}\n".repeat(200);
    let lines = batch(&ring, &body).await.unwrap();
    assert_eq!(lines.len(), 201);
    assert!(lines[1..].iter().all(|line| line["value"].as_str().unwrap().len() == 100_000));
    ring.stop().await;
}

async fn fill(ring: &Ring, keys: impl Iterator<Item = String>) {
    for key in keys {
        let path = format!("/v1/kv/{key}");
        assert_eq!(request(ring.address(), "PUT", &path, "", b"v").await.status, 201);
    }
}

/// Walks to the end, and returns the keys and how many pages it took.
async fn walk(ring: &Ring, query: &str) -> (Vec<Value>, usize) {
    let (mut keys, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("/v1/keys?cursor={cursor}{query}");
        let mut page = get(ring.address(), &path).await.document("kringle.keys/1");
        keys.append(page["keys"].as_array_mut().expect("a list"));
        pages += 1;
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return (keys, pages),
        }
    }
}

#[tokio::test]
async fn every_key_is_listed_once_whatever_the_size_of_a_page() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    assert_eq!(walk(&ring, "").await, (Vec::new(), 1));
    fill(&ring, (0..25).map(|at| format!("user:{at}")).chain(["%ff".into(), "a%2Fb".into()])).await;
    assert_eq!(post(ring.address(), "/v1/kv/set/values", "v").await.status, 201);
    let (all, pages) = walk(&ring, "").await;
    assert_eq!((all.len(), pages), (28, 1));
    let names: BTreeSet<String> = all.iter().map(|key| key["key"].to_string()).collect();
    assert!(names.len() == 28 && names.contains("{\"base64\":\"/w==\"}"), "{names:?}");
    for limit in [1, 2, 3, 4, 27, 28, 1000] {
        assert_eq!(walk(&ring, &format!("&limit={limit}")).await.0, all, "{limit}");
    }
    let set = all.iter().find(|key| key["key"] == "set").unwrap();
    assert_eq!((&set["kind"], &set["expires"]), (&json!("set"), &json!(null)));
    let one = all.iter().find(|key| key["key"] == "user:7").unwrap();
    assert!(one["kind"] == "value" && one["version"].as_str().unwrap().len() == 16);
    ring.stop().await;
}

#[tokio::test]
async fn patterns_are_bytes_and_pages_of_them_add_up() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    fill(&ring, (0..20).map(|at| format!("user:{at}")).chain(["%ff%00".into(), "other".into()])).await;
    for (pattern, count) in [
        ("user:*", 20),
        ("user:?", 10),
        ("*1*", 11),
        ("%ff%00", 1),
        ("%ff?", 1),
        ("?????", 1),
        ("nobody", 0),
        ("*", 22),
        ("", 0),
    ] {
        let (all, _) = walk(&ring, &format!("&match={pattern}")).await;
        assert_eq!(all.len(), count, "{pattern}");
        assert_eq!(walk(&ring, &format!("&match={pattern}&limit=3")).await.0, all, "{pattern}");
    }
    ring.stop().await;
}

#[tokio::test]
async fn walks_that_can_not_be_are_refused() {
    let (ring, fake) = Ring::with_store(Options::default()).await;
    for (path, word) in [
        ("/v1/keys?limit=0", "1 to 1000"),
        ("/v1/keys?limit=1001", "1 to 1000"),
        ("/v1/keys?limit=-1", "digit"),
        ("/v1/keys?cursor=nonsense", "cursor"),
        ("/v1/keys?cursor=0123456789abcdef0123456789abcdefz", "cursor"),
        ("/v1/keys?cursor=0123456789abcdef0123456789abcdef0", "cursor"),
        ("/v1/keys?match=a%5C", "backslash"),
        ("/v1/keys?pattern=a", "pattern"),
    ] {
        let problem = get(ring.address(), path).await.problem("KR0400");
        assert!(problem["detail"].as_str().unwrap().contains(word), "{path}: {problem}");
    }
    let long = format!("/v1/keys?match={}", "x".repeat(1025));
    get(ring.address(), &long).await.problem("KR0400");
    let long = format!("/v1/keys?cursor={}", "0".repeat(32 + 2 * 1025));
    get(ring.address(), &long).await.problem("KR0400");
    assert_eq!(fake.asked(), []);
    ring.stop().await;
}

#[tokio::test]
async fn a_place_names_the_copies_and_whether_they_agree() {
    let (ring, _) = Ring::with_store(Options::default()).await;
    let to = ring.address();
    let none = get(to, "/v1/place/k").await.document("kringle.place/1");
    assert_eq!((&none["version"], &none["agree"]), (&json!(null), &json!(2)));
    request(to, "PUT", "/v1/kv/k", "", b"v").await;
    let version = get(to, "/v1/kv/k").await.header("etag").unwrap().trim_matches('"').to_owned();
    let place = get(to, "/v1/place/k").await.document("kringle.place/1");
    assert_eq!((&place["slot"], &place["epoch"], &place["version"]), (&json!(7), &json!(3), &json!(version)));
    assert_eq!(
        place["copies"],
        json!([
            { "node": format!("5b{:030x}", 0), "state": "ok", "version": version },
            { "node": format!("5a{:030x}", 0), "state": "ok", "version": version },
            { "node": format!("5c{:030x}", 0), "state": "silent", "version": null },
        ])
    );
    get(to, "/v1/place/trouble:few").await.problem("KR0503");
    ring.stop().await;
}
