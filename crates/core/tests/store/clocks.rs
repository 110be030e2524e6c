//! Wrong clocks: they neither undo a later write nor stop writes, and hide no value before its time.

use std::time::Duration;

use kringle_core::config::{Safeguard, Settings};
use kringle_core::edge::{Failure, Input};
use kringle_core::message::Body;
use kringle_core::records::Space;
use kringle_core::store::Store;
use kringle_core::store::coding::Shared;
use kringle_core::store::message::{ClockReading, Message, Packet, Step, Verdict};
use kringle_core::store::op::{Action, Change, Condition, Happened, Level, Trouble};
use kringle_core::store::record::{Cell, Kind, Origin, Record};
use kringle_core::store::version::Version;

use crate::cluster::*;

const HOUR: i64 = 3_600_000;

fn keys() -> Vec<String> {
    (0..40).map(|n| format!("key {n}")).collect()
}

fn without(rule: Safeguard) -> Settings {
    Settings { without: Some(rule), ..settings() }
}

/// The scenario that undid 118 to 200 of 200 acknowledged writes: a step of 25 s while writes go through a node.
#[test]
fn writes_through_a_stepped_clock_never_replace_later_ones() {
    for count in [3, 5] {
        for deletes in [false, true] {
            let mut cluster = Cluster::ready(count);
            cluster.places[2].offset = 25_000;
            for key in keys() {
                let _ = cluster.act(2, &key, put("refused or early"));
            }
            cluster.places[2].offset = 0;
            for key in keys() {
                let action = if deletes { change(Change::Delete) } else { put("later") };
                cluster.act(0, &key, action).expect("acknowledged");
            }
            for _ in 0..4 {
                cluster.run(Duration::from_secs(10));
                for (n, key) in keys().iter().enumerate() {
                    let expected = (!deletes).then(|| "later".to_owned());
                    assert_eq!(cluster.get(n % count, key), expected, "{key} of {count} nodes");
                }
            }
        }
    }
}

#[test]
fn stepped_clock_stops_no_writes() {
    for offset in [HOUR, -HOUR, -5_000, 25_000] {
        for count in [1, 2, 3] {
            let mut cluster = Cluster::ready(count);
            cluster.put(0, "k", "before");
            cluster.places[0].offset = offset;
            cluster.run(Duration::from_secs(2));
            cluster.put(0, "k", "during");
            cluster.places[0].offset = 0;
            cluster.put(0, "k", "after");
            cluster.put(count - 1, "other", "after");
            assert_eq!(cluster.get(count - 1, "k").as_deref(), Some("after"));
        }
    }
}

#[cfg(feature = "mutants")]
#[test]
fn stepped_clock_stops_writes_without_cluster_time() {
    let mut cluster = Cluster::of(3, without(Safeguard::ClusterTime), 1);
    cluster.run(Duration::from_secs(5));
    cluster.places[0].offset = HOUR;
    let failed = keys().iter().filter(|key| cluster.act(0, key, put("v")).is_err()).count();
    assert!(failed > 0);
}

#[test]
fn restarted_node_with_a_wrong_clock_takes_the_time_of_the_others() {
    for offset in [HOUR, -HOUR] {
        let mut cluster = Cluster::ready(3);
        let ttl = Change::Put { value: b"v".to_vec(), ttl: Some(Duration::from_secs(600)) };
        cluster.act(0, "k", change(ttl)).expect("put");
        cluster.crash(2);
        cluster.places[2].offset = offset;
        cluster.restart(2);
        cluster.run(Duration::from_secs(3));
        for key in keys() {
            cluster.put(2, &key, "v");
            cluster.put(0, &key, "w");
            assert_eq!(cluster.get(1, &key).as_deref(), Some("w"));
        }
        assert_eq!(cluster.get(2, "k").as_deref(), Some("v"), "a value that has not ended");
        let store = cluster.places[2].node.as_ref().and_then(|node| node.store()).expect("it has a store");
        let wall = (WALL + cluster.now.micros() / 1000).saturating_add_signed(offset);
        let clock = store.clock_view(cluster.now, wall);
        assert!(clock.settled && (clock.ahead - offset).abs() < 1000, "{clock:?}");
        assert!(clock.off.is_some_and(|off| (off - offset).abs() < 1000), "{clock:?}");
    }
}

#[test]
fn wrong_clock_among_three_that_start_together_moves_nothing() {
    for wrong in 0..3 {
        let mut cluster = Cluster::ready(3);
        let ttl = Change::Put { value: b"v".to_vec(), ttl: Some(Duration::from_secs(600)) };
        cluster.act(0, "k", change(ttl)).expect("put");
        (0..3).for_each(|node| cluster.crash(node));
        cluster.places[wrong].offset = HOUR;
        (0..3).for_each(|node| cluster.restart(node));
        cluster.run(Duration::from_secs(3));
        for node in 0..3 {
            assert_eq!(cluster.get(node, "k").as_deref(), Some("v"));
            cluster.put(node, "k2", "v");
        }
    }
}

/// A cluster that ran an hour ahead and is restarted with right clocks: versions are ahead of time for an hour.
#[test]
fn versions_ahead_of_time_stop_no_writes_and_later_ones_win() {
    let mut cluster = Cluster::of(3, settings(), 1);
    (0..3).for_each(|node| cluster.places[node].offset = HOUR);
    cluster.run(Duration::from_secs(5));
    (0..3).for_each(|node| cluster.crash(node));
    (0..3).for_each(|node| cluster.places[node].offset = 0);
    (0..3).for_each(|node| cluster.restart(node));
    cluster.run(Duration::from_secs(5));
    for (n, key) in keys().iter().enumerate() {
        let first = cluster.put(n % 3, key, "first");
        let second = cluster.put((n + 1) % 3, key, "second");
        assert!(second > first);
        assert_eq!(cluster.get(n % 3, key).as_deref(), Some("second"));
        let number = cluster.act(n % 3, &format!("n{n}"), change(Change::Increment(1)));
        assert!(number.is_ok(), "{number:?}");
    }
}

/// A node joins whose versions were made by a clock an hour ahead: its hybrid clock is, the others' are not.
#[test]
fn one_node_far_ahead_stops_no_writes_of_the_others() {
    let mut cluster = Cluster::ready(3);
    fn tell(cluster: &mut Cluster, to: usize, from: usize, message: Message) {
        let body = Body::Store(Box::new(Packet { message, contacts: Vec::new() }));
        let from = cluster.places[from].contact;
        cluster.input(to, Input::Message { from, body });
    }
    // A record an hour ahead gets into one copy, as by a disk of an older release.
    let key = name("ahead");
    let cell = Cell::of(&key);
    let ahead = Version::at(WALL + HOUR as u64);
    let origin = Origin { node: cluster.places[1].contact.id, serial: 1 };
    let record = Record::make(&cell, Kind::Value, ahead, origin, 0, b"old");
    cluster.crash(1);
    let bytes = Some(record.bytes().clone());
    let write = kringle_core::records::Write { space: Space::Data, key: cell.key.0.clone(), value: bytes };
    let slot = Store::slot_of(key.id, &cluster.config);
    let tally = [b't'].iter().copied().chain(slot.to_be_bytes()).collect::<Vec<u8>>();
    let forget = kringle_core::records::Write { space: Space::Meta, key: tally.into(), value: None };
    cluster.places[1].safe.apply([write, forget]);
    cluster.restart(1);
    cluster.run(Duration::from_secs(1));
    tell(&mut cluster, 0, 1, Message::Survey { freeze: false });
    for n in 0..3 {
        for key in keys() {
            cluster.put(n, &key, "v");
        }
        cluster.put(n, "ahead", "new");
        assert_eq!(cluster.get((n + 1) % 3, "ahead").as_deref(), Some("new"));
    }
    cluster.run(Duration::from_secs(20));
    assert_eq!(cluster.get(0, "ahead").as_deref(), Some("new"));
}

fn accept_far_ahead(settings: Settings) -> bool {
    let mut cluster = Cluster::of(3, settings, 1);
    cluster.run(Duration::from_secs(5));
    let key = name("k");
    let cell = Cell::of(&key);
    let slot = Store::slot_of(key.id, &cluster.config);
    let epoch =
        cluster.places[1].node.as_ref().and_then(|node| node.store()?.view(slot)).expect("a view").0.epoch;
    let origin = Origin { node: cluster.places[0].contact.id, serial: 1 };
    let now = WALL + cluster.now.micros() / 1000;
    let record = Record::make(&cell, Kind::Value, Version::at(now + 25_000), origin, 0, b"v");
    let step =
        Step::Accept { cell: cell.clone(), record: Shared(record.bytes().clone()), set: None, agreed: None };
    let message = Message::Do { nonce: 7, slot, epoch, step };
    let body = Body::Store(Box::new(Packet { message, contacts: Vec::new() }));
    let from = cluster.places[0].contact;
    cluster.input(1, Input::Message { from, body });
    let answered = cluster.wire.iter().any(|(_, to, _, body)| {
        let Body::Store(packet) = body else { return false };
        *to == 0 && matches!(packet.message, Message::Did { nonce: 7, verdict: Verdict::Ahead, .. })
    });
    assert_eq!(answered, cluster.config.rule(Safeguard::ClockAhead));
    cluster.places[1].seen.entries(Space::Data).iter().any(|(key, _)| *key == cell.key.0)
}

#[test]
fn member_refuses_a_version_far_ahead_of_its_clock() {
    assert!(!accept_far_ahead(settings()));
    #[cfg(feature = "mutants")]
    assert!(accept_far_ahead(without(Safeguard::ClockAhead)), "the rule is what keeps it out");
}

fn keeps_what_it_alone_stored(settings: Settings) -> bool {
    let mut cluster = Cluster::of(3, settings, 1);
    cluster.run(Duration::from_secs(5));
    cluster.cut = vec![(0, 1), (0, 2)];
    let request = cluster.ask(0, "k", put("v"), Level::Quorum);
    let failed = cluster.finish(request);
    assert!(
        matches!(
            failed,
            Err(Failure::Store(
                Trouble::Timeout { happened: Happened::Unknown }
                    | Trouble::TooFewReplicas { happened: Happened::Unknown | Happened::Some, .. }
            ))
        ),
        "{failed:?}"
    );
    cluster.places[0].seen.len(Space::Data) > 0
}

#[test]
fn coordinator_stores_a_plain_write_after_another_member() {
    assert!(!keeps_what_it_alone_stored(settings()));
    #[cfg(feature = "mutants")]
    assert!(keeps_what_it_alone_stored(without(Safeguard::StoreSecond)));
}

#[test]
fn conditional_writes_work_with_stepped_clocks() {
    let mut cluster = Cluster::ready(3);
    for (n, offset) in [0, HOUR, -HOUR, 25_000, -5_000, 0].into_iter().enumerate() {
        cluster.places[n % 3].offset = offset;
        for node in 0..3 {
            let key = format!("lock {n} {node}");
            let first = cluster.act(node, &key, put_if("me", Condition::Absent));
            assert!(first.is_ok(), "{first:?}");
            let second = trouble(cluster.act((node + 1) % 3, &key, put_if("you", Condition::Absent)));
            assert!(matches!(second, Trouble::ConditionFailed(_)), "{second:?}");
        }
    }
}

/// Returns the questions about clocks that are on their way from node 1, which has yet to learn the time, to node 0.
fn questions(cluster: &Cluster) -> Vec<ClockReading> {
    let sent = cluster.wire.iter().filter(|(_, to, from, _)| *to == 0 && from.addr.0 == 1);
    let clocks = sent.filter_map(|(.., body)| match body {
        Body::Store(packet) => match &packet.message {
            Message::Clock(reading) if !reading.is_answer => Some(reading.clone()),
            _ => None,
        },
        _ => None,
    });
    clocks.collect()
}

fn next_question(cluster: &mut Cluster) -> ClockReading {
    let end = cluster.now.after(Duration::from_secs(5));
    while questions(cluster).is_empty() {
        assert!(cluster.now < end, "clocks are compared");
        cluster.run(Duration::from_micros(100));
    }
    questions(cluster).remove(0)
}

/// Node 0 tells node 1 its clocks.
fn tell_clock(cluster: &mut Cluster, reading: ClockReading) {
    let from = cluster.places[0].contact;
    let body = Body::Store(Box::new(Packet { message: Message::Clock(reading), contacts: Vec::new() }));
    cluster.input(1, Input::Message { from, body });
}

/// 64 idle processes asked each other for their clocks 5,000 times a second: an answer to an earlier question ended the
/// open one, so that it was asked again.
#[test]
fn unknown_answer_does_not_end_the_open_question() {
    let mut cluster = Cluster::of(2, settings(), 1);
    let open = next_question(&mut cluster);
    tell_clock(&mut cluster, ClockReading { nonce: open.nonce ^ 1, is_answer: true, ..open.clone() });
    // A disk that node 1 does not know: it would ask, had it not asked already.
    tell_clock(&mut cluster, ClockReading { nonce: 7, born: 99, ..open });
    assert_eq!(questions(&cluster).len(), 1);
}

/// With round trips of half a second no node became ready: every 200 ms a new question took the place of the last. An answer
/// that took longer than any round trip says nothing: up to half of that time may be missing from it.
#[test]
fn answer_that_comes_after_the_next_question_counts() {
    for (millis, counts) in [(1000, 1), (2900, 1), (3100, 0)] {
        let mut cluster = Cluster::of(2, settings(), 1);
        let first = next_question(&mut cluster);
        let clocks = |cluster: &Cluster| {
            let store =
                cluster.places[1].node.as_ref().and_then(|node| node.store()).expect("it has a store");
            store.clock_view(cluster.now, WALL).clocks
        };
        assert_eq!(clocks(&cluster), 0);
        cluster.wire.clear();
        cluster.cut = vec![(0, 1)];
        cluster.run(Duration::from_millis(millis));
        tell_clock(&mut cluster, ClockReading { is_answer: true, ..first });
        assert_eq!(clocks(&cluster), counts, "after {millis} ms");
    }
}

#[test]
fn value_that_a_node_with_a_wrong_clock_keeps_for_a_while_ends_in_time() {
    let mut cluster = Cluster::ready(3);
    cluster.crash(2);
    cluster.places[2].offset = HOUR;
    cluster.restart(2);
    // It does not know the time yet.
    let change = Change::Put { value: b"v".to_vec(), ttl: Some(Duration::from_secs(2)) };
    let action = Action::Change { change, condition: Condition::Absent };
    let request = cluster.ask(2, "k", action, Level::Quorum);
    cluster.finish(request).expect("it is told the time");
    assert_eq!(cluster.get(0, "k").as_deref(), Some("v"));
    cluster.run(Duration::from_secs(10));
    assert_eq!(cluster.get(0, "k"), None);
}
