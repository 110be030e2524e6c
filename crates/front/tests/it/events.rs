//! Following what happens.

use std::time::Duration;

use kringle_front::http::Options;

use crate::client::Client;
use crate::rings::Ring;

async fn follow(ring: &Ring, path: &str) -> Client {
    let mut client = Client::open(ring.address()).await;
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
    let head = client.until(b"\r\n\r\n").await.expect("a head");
    let head = String::from_utf8_lossy(&head);
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/event-stream"), "{head}");
    client.until(b": events of ").await.expect("a greeting");
    client
}

#[tokio::test]
async fn a_node_that_joins_is_an_event() {
    let mut ring = Ring::start(1, Options::default()).await;
    let mut client = follow(&ring, "/v1/events").await;
    ring.add().await;
    client.until(b"event: peer-up\ndata: ").await.expect("the event");
    let data = client.until(b"\n\n").await.unwrap();
    let event: serde_json::Value = serde_json::from_slice(&data).unwrap();
    assert_eq!(
        (&event["event"], &event["peer"]),
        (&"peer-up".into(), &ring.nodes[1].id().to_string().into())
    );
    ring.stop().await;
    // The port is closed, and the stream with it: the last chunk has no bytes.
    assert!(client.rest().await.ends_with(b"0\r\n\r\n"));
}

#[tokio::test]
async fn a_stream_ends_after_as_many_events_as_wanted() {
    let mut ring = Ring::start(1, Options::default()).await;
    let mut client = follow(&ring, "/v1/events?limit=1").await;
    ring.add().await;
    let heard = client.until(b"0\r\n\r\n").await.expect("the end");
    assert_eq!(String::from_utf8(heard).unwrap().matches("id: ").count(), 1);
    ring.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_its_node() {
    let ring = Ring::start(1, Options::default()).await;
    let mut client = follow(&ring, "/v1/events").await;
    ring.nodes[0].stop().await;
    client.until(b"0\r\n\r\n").await.expect("the end");
    ring.stop().await;
}

#[tokio::test]
async fn a_quiet_stream_is_kept_alive() {
    let ring = Ring::start(1, Options { ping: Duration::from_millis(20), ..Options::default() }).await;
    let mut client = follow(&ring, "/v1/events").await;
    for _ in 0..3 {
        client.until(b": ping\n\n").await.expect("a ping");
    }
    ring.stop().await;
}
