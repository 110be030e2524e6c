//! What a node that comes back must not wait for for ever.

use std::time::Duration;

use kringle_core::edge::Input;
use kringle_core::message::Body;
use kringle_core::store::Store;
use kringle_core::store::message::{Item, Message, Packet, Word};
use kringle_core::store::view::Ballot;

use crate::cluster::{Cluster, name};

fn tell(cluster: &mut Cluster, to: usize, from: usize, message: Message) {
    let body = Body::Store(Box::new(Packet { message, contacts: Vec::new() }));
    let from = cluster.places[from].contact;
    cluster.input(to, Input::Message { from, body });
}

fn all_serve(cluster: &Cluster) -> bool {
    cluster.views().iter().all(|(_, members, serving)| members == serving)
}

#[test]
fn damage_found_when_a_disk_is_opened_is_repaired() {
    let mut cluster = Cluster::ready(3);
    cluster.put(0, "key", "value");
    cluster.run(Duration::from_secs(1));
    cluster.vanish(1);
    cluster.damage(1, "key");
    cluster.restart(1);
    cluster.run(Duration::from_secs(10));
    assert!(all_serve(&cluster), "{:?}", cluster.views());
}

/// It may not show its records, nor get others while it is frozen; and nobody else knows that it is.
#[test]
fn a_damaged_copy_that_is_frozen_is_repaired() {
    let mut cluster = Cluster::ready(3);
    cluster.put(0, "key", "value");
    cluster.run(Duration::from_secs(1));
    let slot = Store::slot_of(name("key").id, &cluster.config);
    let view = cluster.places[1].node.as_ref().and_then(|node| node.store()?.view(slot));
    let epoch = view.expect("three hold everything").0.epoch;
    cluster.cut = vec![(1, 0), (1, 2)];
    let ballot = Ballot { round: 1, node: cluster.places[0].contact.id };
    let items = vec![Item { slot, word: Word::Freeze { epoch, ballot } }];
    tell(&mut cluster, 1, 0, Message::Slots(items));
    cluster.sync_disk(1);
    cluster.vanish(1);
    cluster.cut.clear();
    cluster.damage(1, "key");
    cluster.restart(1);
    cluster.run(Duration::from_secs(15));
    assert!(all_serve(&cluster), "{:?}", cluster.views());
    assert_eq!(cluster.get(1, "key").as_deref(), Some("value"));
}
