//! Rings form, answer and change.

use std::time::Duration;

use kringle_runtime::key::key_of;
use kringle_runtime::transport::mem::Hub;

use crate::support::{LONG, Place, nearest, ring, run};

async fn every_lookup_is_right(place: Place, count: usize) {
    let nodes = ring(&place, count).await;
    for at in 0..40 {
        let key = format!("key {at}");
        let asked = &nodes[at % nodes.len()];
        let found = asked.lookup(key_of(&key), LONG).await.unwrap();
        assert_eq!(found.root, nearest(&nodes, &key).to_string(), "{key}");
    }
    let survey = nodes[1].survey(100, LONG).await.unwrap();
    assert_eq!(survey.nodes.len(), count);
    assert!(survey.whole, "{survey:#?}");
}

#[test]
fn a_ring_in_memory_answers_rightly() {
    run(every_lookup_is_right(Place::Memory(Hub::new()), 12));
}

#[test]
fn a_ring_on_sockets_answers_rightly() {
    run(every_lookup_is_right(Place::Sockets, 6));
}

#[test]
fn a_node_on_its_own_thread_answers() {
    run(async {
        let node = kringle_runtime::Builder::new("alone").start().await.unwrap();
        node.ready().await.unwrap();
        let found = node.lookup(key_of("x"), LONG).await.unwrap();
        assert_eq!(found.root, node.id().to_string());
        assert_eq!(node.stop().await, kringle_runtime::Ending::Stopped);
        assert!(node.lookup(key_of("x"), Duration::from_secs(1)).await.is_err());
    });
}
