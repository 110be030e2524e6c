//! Clients that are slow, loud, many, or speak something else.

use std::time::{Duration, Instant};

use kringle_front::http::Options;

use crate::client::{Client, PATIENCE, get};
use crate::rings::{Ring, hasty};

#[tokio::test]
async fn one_connection_carries_many_requests_and_pipelined_ones_are_answered_in_order() {
    let ring = Ring::start(1, Options::default()).await;
    let mut client = Client::open(ring.address()).await;
    client.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().text(), "ok\n");
    let three = ["/livez", "/nothing", "/v1/config"]
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: a.localhost\r\n\r\n"));
    client.send(three.concat()).await;
    let mut statuses = Vec::new();
    for _ in three {
        statuses.push(client.answer().await.unwrap().status);
    }
    assert_eq!(statuses, [200, 404, 200]);
    ring.stop().await;
}

#[tokio::test]
async fn slow_heads_are_closed_and_so_are_idle_connections() {
    let ring = Ring::start(1, hasty()).await;
    let start = Instant::now();
    let (mut silent, mut slow) = (Client::open(ring.address()).await, Client::open(ring.address()).await);
    slow.send("GET /livez HTTP/1.1\r\nHost: loc").await;
    assert_eq!(slow.rest().await, b"");
    assert_eq!(silent.rest().await, b"");
    assert!(start.elapsed() >= Duration::from_millis(300) && start.elapsed() < PATIENCE);
    ring.stop().await;
}

#[tokio::test]
async fn slow_clients_do_not_hold_up_others() {
    let ring = Ring::start(1, Options::default()).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut client = Client::open(ring.address()).await;
        client.send("GET /livez HTTP/1.1\r\nHost: l").await;
        slow.push(client);
    }
    assert_eq!(get(ring.address(), "/livez").await.status, 200);
    // Nor do they hold up the end.
    ring.stop().await;
}

#[tokio::test]
async fn a_slow_body_is_answered_with_408() {
    let ring = Ring::start(1, hasty()).await;
    let mut client = Client::open(ring.address()).await;
    client.send("POST /v1/route/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc").await;
    client.answer().await.unwrap().problem("KR0408");
    assert_eq!(client.rest().await, b"");
    ring.stop().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed() {
    let ring = Ring::start(1, hasty()).await;
    let mut client = Client::open(ring.address()).await;
    // Answers to all of these do not fit into what systems buffer, so that the node has to wait for the client.
    let many = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let sending = async {
        for _ in 0..1000 {
            client.send(&many).await;
        }
    };
    tokio::time::timeout(PATIENCE, sending).await.expect("the node closes the connection");
    ring.stop().await;
}

#[tokio::test]
async fn heads_that_are_too_large_are_answered_with_431() {
    let ring = Ring::start(1, Options::default()).await;
    for head in [
        format!("GET /livez HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000)),
        format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(100)),
    ] {
        let mut client = Client::open(ring.address()).await;
        client.send(head).await;
        assert_eq!(client.answer().await.map(|reply| reply.status), Some(431));
        assert_eq!(client.rest().await, b"");
    }
    ring.stop().await;
}

#[tokio::test]
async fn bodies_that_are_too_large_are_answered_with_413_announced_or_not() {
    let ring = Ring::start(1, Options::default()).await;
    let mut client = Client::open(ring.address()).await;
    client.send("POST /v1/route/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n").await;
    let problem = client.answer().await.unwrap().problem("KR0413");
    assert_eq!(problem["limit"], 64 * 1024);
    let mut client = Client::open(ring.address()).await;
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000)).repeat(20);
    let head = "POST /v1/route/k HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}{chunk}0\r\n\r\n")).await;
    client.answer().await.unwrap().problem("KR0413");
    ring.stop().await;
}

#[tokio::test]
async fn what_is_not_http_1_is_refused() {
    let ring = Ring::start(1, Options::default()).await;
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not for this port \r\n\r\n"[..],
        b"*1\r\n$4\r\nPING\r\n",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"GET /livez HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /li\x1bvez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: \x01\r\n\r\n",
        b"POST /v1/node/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/node/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ] {
        let mut client = Client::open(ring.address()).await;
        client.send(garbage).await;
        if let Some(reply) = client.answer().await {
            assert_eq!(reply.status, 400, "{garbage:?}");
        }
        assert_eq!(client.rest().await, b"", "{garbage:?}");
    }
    assert_eq!(get(ring.address(), "/readyz").await.status, 200);
    ring.stop().await;
}

#[tokio::test]
async fn http_2_is_refused() {
    let ring = Ring::start(1, Options::default()).await;
    let mut client = Client::open(ring.address()).await;
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    let heard = client.rest().await;
    assert!(heard.is_empty() || heard.starts_with(b"HTTP/1.1 4"), "{heard:?}");
    // An upgrade that is offered is not taken.
    let mut client = Client::open(ring.address()).await;
    let offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    client.send(format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{offer}\r\n")).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    ring.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_get_503_and_find_room_later() {
    let ring = Ring::start(1, Options { connections: 2, ..Options::default() }).await;
    let mut first = Client::open(ring.address()).await;
    let mut second = Client::open(ring.address()).await;
    for client in [&mut first, &mut second] {
        client.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
    let mut third = Client::open(ring.address()).await;
    third.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let reply = third.answer().await.unwrap();
    assert_eq!((reply.status, reply.json()["code"].as_str()), (503, Some("KR0522")));
    assert_eq!(reply.header("retry-after"), Some("5"));
    assert_eq!(third.rest().await, b"");
    first.send("GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert_eq!(first.answer().await.unwrap().status, 200);
    drop(first);
    let end = Instant::now() + PATIENCE;
    while get(ring.address(), "/livez").await.status != 200 {
        assert!(Instant::now() < end, "there is never room again");
    }
    ring.stop().await;
}

#[tokio::test]
async fn a_port_that_closes_finishes_what_is_under_way() {
    let ring = Ring::start(1, Options::default()).await;
    let mut client = Client::open(ring.address()).await;
    client.send("POST /v1/route/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na").await;
    // The head is read when a second connection, opened later, has its answer.
    assert_eq!(get(ring.address(), "/livez").await.status, 200);
    let address = ring.address();
    let stopping = tokio::spawn(ring.server.stop());
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    client.send("bc").await;
    assert_eq!(client.answer().await.unwrap().body, b"cba");
    assert_eq!(client.rest().await, b"");
    stopping.await.unwrap();
}
