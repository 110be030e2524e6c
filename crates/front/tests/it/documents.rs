//! What a node tells about itself, others and the ring.

use kringle_front::http::Options;
use kringle_runtime::transport::mem::Hub;
use kringle_runtime::{Builder, Seed};
use serde_json::json;

use crate::client::{get, post, request};
use crate::rings::{Ring, builder, seed};

#[tokio::test]
async fn status_ring_and_nodes_tell_of_everybody() {
    let ring = Ring::start(3, Options::default()).await;
    let ids: Vec<String> = ring.nodes.iter().map(|node| node.id().to_string()).collect();
    let status = get(ring.address(), "/v1/status").await.document("kringle.status/1");
    assert_eq!(status["self"]["id"], *ids[0]);
    assert_eq!(status["self"]["status"], "ready");
    assert_eq!(status["survey"]["nodes"].as_array().unwrap().len(), 3);
    let local = get(ring.address(), "/v1/status?local=true").await.document("kringle.status/1");
    assert!(local["survey"].is_null());
    let survey = get(ring.address(), "/v1/ring").await.document("kringle.ring/1");
    assert_eq!(survey["survey"]["by"], *ids[0]);
    let cut = get(ring.address(), "/v1/ring?limit=2").await.document("kringle.ring/1");
    assert_eq!(cut["survey"]["cut"], true);
    let nodes = get(ring.address(), "/v1/nodes").await.document("kringle.nodes/1");
    let names = nodes["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap());
    assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), 3);
    let peers = get(ring.address(), "/v1/peers").await.document("kringle.peers/1");
    assert_eq!((&peers["id"], peers["peers"].as_array().unwrap().len()), (&json!(ids[0]), 2));
    ring.stop().await;
}

#[tokio::test]
async fn a_node_is_found_by_id_start_name_and_self() {
    let ring = Ring::start(3, Options::default()).await;
    let ids: Vec<String> = ring.nodes.iter().map(|node| node.id().to_string()).collect();
    for (text, id) in [
        ("self", &ids[0]),
        (&*ids[1], &ids[1]),
        (&ids[2].to_uppercase(), &ids[2]),
        (&ids[2][..12], &ids[2]),
        ("node-0", &ids[0]),
        ("node-2", &ids[2]),
        ("node%2d2", &ids[2]),
    ] {
        let node = get(ring.address(), &format!("/v1/nodes/{text}")).await.document("kringle.node/1");
        assert_eq!(node["node"]["id"], **id, "{text}");
    }
    for text in ["nobody", "%ff", "%1b%5b2J", &"f".repeat(31)] {
        let reply = get(ring.address(), &format!("/v1/nodes/{text}")).await;
        assert!([400, 404].contains(&reply.status), "{reply:?}");
        assert!(!reply.body.contains(&0x1b));
    }
    get(ring.address(), &format!("/v1/nodes/{:032x}", 1)).await.problem("KR0404");
    ring.stop().await;
}

#[tokio::test]
async fn the_tables_of_another_node_come_over_the_ring() {
    let ring = Ring::start(3, Options::default()).await;
    let id = ring.nodes[1].id().to_string();
    let at = |rest: &str| format!("/v1/nodes/{id}/{rest}");
    let tables = get(ring.address(), &at("table")).await.document("kringle.tables/1");
    assert_eq!((&tables["tables"]["id"], &tables["tables"]["base"]), (&json!(id), &json!(4)));
    let leaves = get(ring.address(), &at("leafset")).await.document("kringle.leafset/1");
    assert_eq!(
        (&leaves["id"], leaves["left"].is_array(), leaves["right"].is_array()),
        (&json!(id), true, true)
    );
    let beside = get(ring.address(), &at("neighbours")).await.document("kringle.neighbours/1");
    assert!(beside["id"] == *id && beside["neighbours"].is_array());
    let peers = get(ring.address(), &at("peers")).await.document("kringle.peers/1");
    assert_eq!((&peers["id"], peers["peers"].as_array().unwrap().len()), (&json!(id), 2));
    ring.stop().await;
}

#[tokio::test]
async fn settings_are_those_the_node_was_started_with() {
    let config = json!({"http": "127.0.0.1:7480", "schema": "x", "a": {"b": "<\u{1b}>"}});
    let ring = Ring::start(1, Options { config, ..Options::default() }).await;
    let reply = get(ring.address(), "/v1/config").await;
    let config = reply.document("kringle.config/1");
    assert_eq!((&config["http"], &config["a"]["b"]), (&json!("127.0.0.1:7480"), &json!("<\u{1b}>")));
    assert!(!reply.text().contains(['<', '\u{1b}']));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    ring.stop().await;
}

#[tokio::test]
async fn health_metrics_and_the_first_page_answer() {
    let ring = Ring::start(1, Options::default()).await;
    assert_eq!(get(ring.address(), "/livez").await.text(), "ok\n");
    assert_eq!(get(ring.address(), "/readyz").await.text(), "ready\n");
    let metrics = get(ring.address(), "/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(metrics.text().ends_with("# EOF\n"), "{metrics:?}");
    let page = get(ring.address(), "/").await;
    assert!(
        page.text().contains("/v1/status") && page.header("content-type").unwrap().starts_with("text/plain")
    );
    let head = request(ring.address(), "HEAD", "/livez", "Connection: close\r\n", b"").await;
    assert_eq!((head.status, &*head.body), (200, &b""[..]));
    ring.stop().await;
}

#[tokio::test]
async fn a_port_moves_to_another_node_and_speaks_for_nobody_that_has_ended() {
    let ring = Ring::start(2, Options::default()).await;
    let other = ring.nodes[1].id().to_string();
    ring.nodes[0].stop().await;
    let reply = get(ring.address(), "/readyz").await;
    assert_eq!(reply.status, 503);
    reply.problem("KR0521");
    assert_eq!(get(ring.address(), "/livez").await.status, 200);
    ring.target.set(ring.nodes[1].clone());
    let status = get(ring.address(), "/v1/status?local=true").await;
    assert_eq!(status.header("kringle-node"), Some(&*other));
    assert_eq!(status.document("kringle.status/1")["self"]["id"], *other);
    ring.stop().await;
}

#[tokio::test]
async fn a_node_is_told_to_end_and_answers_before_it_does() {
    for (path, doing) in [("/v1/node/stop", "stop"), ("/v1/node/leave", "leave")] {
        let ring = Ring::start(2, Options::default()).await;
        let reply = post(ring.address(), path, "").await;
        assert_eq!((reply.status, &reply.document("kringle.accepted/1")["doing"]), (202, &json!(doing)));
        let ending = tokio::time::timeout(crate::client::PATIENCE, ring.nodes[0].ended()).await.unwrap();
        assert_eq!(format!("{ending:?}"), if doing == "stop" { "Stopped" } else { "Left" });
        ring.stop().await;
    }
}

#[tokio::test]
async fn a_node_that_finds_nobody_is_not_ready_until_it_is_told_of_somebody() {
    let hub = Hub::default();
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let lost = builder(&hub, 0).join([Seed::Address(nowhere)]).start().await.unwrap();
    let other = builder(&hub, 1).start().await.unwrap();
    let mut ring = Ring::open(hub, lost, Options::default()).await;
    ring.nodes.push(other);
    ring.ready(1).await;
    let reply = get(ring.address(), "/readyz").await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert_eq!(reply.problem("KR0520")["node_status"], "out");
    get(ring.address(), "/v1/lookup/k").await.problem("KR0520");
    let seeds = json!({"seeds": [seed(&ring.nodes[1]).to_string()]});
    let reply = post(ring.address(), "/v1/cluster/join?deadline=20s", seeds.to_string()).await;
    assert_eq!((reply.status, &reply.document("kringle.joined/1")["cluster"]), (200, &json!("t")));
    ring.ready(0).await;
    // Part of the ring is not yet ready: it gets the slots it is to hold first.
    let ready = async {
        while get(ring.address(), "/readyz").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::client::PATIENCE, ready).await.expect("it becomes ready");
    ring.stop().await;
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let hub = Hub::default();
    let node = builder(&hub, 0).secret("a secret that is long enough").start().await.unwrap();
    let ring = Ring::open(hub, node, Options::default()).await;
    let reply = post(ring.address(), "/v1/tokens", "{\"lifetime\":\"10m\"}").await;
    let token = reply.document("kringle.token/1");
    assert!(reply.status == 201 && token["token"].is_string(), "{reply:?}");
    let tokens = get(ring.address(), "/v1/tokens").await.document("kringle.tokens/1");
    let listed = &tokens["tokens"][0];
    assert_eq!(listed["state"], "open");
    assert!(listed["expires"].as_u64().unwrap().abs_diff(token["expires"].as_u64().unwrap()) <= 1);
    let path = format!("/v1/tokens/{}", listed["id"].as_str().unwrap());
    assert_eq!(request(ring.address(), "DELETE", &path, "", b"").await.status, 204);
    let tokens = get(ring.address(), "/v1/tokens").await.document("kringle.tokens/1");
    assert_eq!(tokens["tokens"][0]["state"], "revoked");
    request(ring.address(), "DELETE", "/v1/tokens/none", "", b"").await.problem("KR0404");
    ring.stop().await;
}

#[tokio::test]
async fn a_disk_is_read_from_end_to_end_when_told() {
    let (hub, dir) =
        (Hub::default(), std::env::temp_dir().join(format!("kringle-scrub-{}", std::process::id())));
    let node =
        Builder::new("t").tune(|settings| settings.slots = 16).memory(&hub).data(&dir).start().await.unwrap();
    let ring = Ring::open(hub, node, Options::default()).await;
    ring.ready(0).await;
    let before = get(ring.address(), "/v1/scrub").await.document("kringle.scrub/1");
    assert_eq!((&before["running"], &before["started_ms"]), (&json!(false), &json!(0)));
    post(ring.address(), "/v1/scrub?rate=0", "").await.problem("KR0400");
    let reply = post(ring.address(), "/v1/scrub?rate=1000000000", "").await;
    assert_eq!(
        (reply.status, reply.document("kringle.scrub/1")["started_ms"].as_u64() > Some(0)),
        (202, true)
    );
    let done = loop {
        let report = get(ring.address(), "/v1/scrub").await.document("kringle.scrub/1");
        if report["running"] == json!(false) {
            break report;
        }
        tokio::task::yield_now().await;
    };
    assert!(done["finished_ms"].as_u64() > Some(0), "{done}");
    assert_eq!((&done["damaged_files"], &done["damaged_records"]), (&json!([]), &json!(0)));
    ring.stop().await;
    std::fs::remove_dir_all(&dir).unwrap();
    // A node in memory has nothing to read.
    let ring = Ring::start(1, Options::default()).await;
    assert_eq!(get(ring.address(), "/v1/scrub").await.status, 501);
    ring.stop().await;
}

#[tokio::test]
async fn a_node_without_a_secret_says_why_it_makes_no_tokens() {
    let ring = Ring::start(1, Options::default()).await;
    let tokens = get(ring.address(), "/v1/tokens").await.document("kringle.tokens/1");
    assert_eq!(tokens["tokens"], json!([]));
    post(ring.address(), "/v1/tokens", "").await.problem("KR0409");
    let reply = request(ring.address(), "DELETE", "/v1/tokens/none", "", b"").await;
    assert!([404, 409].contains(&reply.status), "{reply:?}");
    ring.stop().await;
}
