//! The traces of `lineage` 7.3: produced by a port of the seed's handlers, and followed exactly.

use super::*;

#[test]
fn clockwise_order_of_the_addresses() {
    let order = |n: usize| {
        let mut order: Vec<usize> = (1..=n).collect();
        order.sort_by_key(|i| node(*i).id);
        order
    };
    assert_eq!(order(5), [4, 2, 5, 1, 3]);
    assert_eq!(order(6), [4, 2, 6, 5, 1, 3]);
    assert_eq!(order(8), [4, 2, 8, 6, 5, 7, 1, 3]);
}

#[test]
fn between_is_open_at_both_ends() {
    let vectors = [
        ((1, 2, 3), true),
        ((1, 4, 3), false),
        ((8, 9, 3), true),
        ((8, 1, 3), true),
        ((8, 5, 3), false),
        ((5, 7, 5), true),
        ((5, 5, 5), false),
        ((2, 2, 3), false),
        ((2, 3, 3), false),
    ];
    for ((a, x, b), expected) in vectors {
        assert_eq!(between(Id::new(a), Id::new(x), Id::new(b)), expected, "{a} {x} {b}");
    }
}

#[test]
fn a_start_ring_is_complete_at_once() {
    let net = Net::of_ring(&[1, 2, 3, 4, 5], RULES);
    assert_eq!(net.state(4), (Some(3), [2, 5, 1].into()));
    assert_eq!(net.state(2), (Some(4), [5, 1, 3].into()));
    assert_eq!(net.state(5), (Some(2), [1, 3, 4].into()));
    assert_eq!(net.state(1), (Some(5), [3, 4, 2].into()));
    assert_eq!(net.state(3), (Some(1), [4, 2, 5].into()));
    assert!(net.is_ideal());
}

#[test]
fn best_predecessors_of_two_places() {
    let net = Net::of_ring(&[1, 2, 3, 4, 5], RULES);
    for place in [IDS[5], RDOENGES] {
        for (asked, expected) in [(1, 2), (2, 2), (3, 2), (4, 2), (5, 4)] {
            let best = net.rings[&asked].best_predecessor(Id::new(place));
            assert_eq!(names(&[best]), [expected], "asked at {asked}");
        }
    }
}

/// The seed's join: the predecessor's list is taken as it is.
#[test]
fn join_as_the_seeds_last_revision_does_it() {
    let mut net = Net::of_ring(&[1, 2, 3, 4, 5], without(Safeguard::AskHead));
    net.join(6, 1);
    net.drain();
    assert_eq!(
        net.transcript(),
        [
            "6->1 GetBestPredecessor",
            "1->6 GotBestPredecessor 2",
            "6->2 GetBestPredecessor",
            "2->6 GotBestPredecessor 2",
            "6->2 GetSuccList",
            "2->6 GotSuccList [5, 1, 3]",
        ]
    );
    assert_eq!(net.state(6), (None, [5, 1, 3].into()));
    after_the_join(&mut net);
}

/// Ours: the successor-to-be is asked itself before its list is taken.
#[test]
fn join_that_asks_the_head() {
    let mut net = Net::of_ring(&[1, 2, 3, 4, 5], RULES);
    net.join(6, 1);
    net.drain();
    assert_eq!(
        net.transcript(),
        [
            "6->1 GetBestPredecessor",
            "1->6 GotBestPredecessor 2",
            "6->2 GetBestPredecessor",
            "2->6 GotBestPredecessor 2",
            "6->2 GetSuccList",
            "2->6 GotSuccList [5, 1, 3]",
            "6->5 GetSuccList",
            "5->6 GotSuccList [1, 3, 4]",
        ]
    );
    assert_eq!(net.state(6), (None, [5, 1, 3].into()));
    assert!(net.reports.contains(&(6, Effect::Joined)));
    after_the_join(&mut net);
}

/// The first tick of the newcomer, then three rounds to the ideal ring.
fn after_the_join(net: &mut Net) {
    assert!(net.armed.contains(&(6, RingTimer::Tick)));
    net.fire(6, RingTimer::Tick);
    net.drain();
    assert_eq!(
        net.transcript(),
        ["6->5 GetPredAndSuccs", "5->6 GotPredAndSuccs Some(2) [1, 3, 4]", "6->5 Notify"]
    );
    assert!(net.armed.contains(&(5, RingTimer::RectifyTick)));
    net.round();
    assert_eq!(net.pred(5), Some(6));
    assert_eq!(net.succ(2), [5, 1, 3]);
    net.round();
    assert_eq!((net.succ(2), net.pred(6)), ([6, 5, 1].into(), Some(2)));
    net.round();
    assert_eq!((net.succ(4), net.succ(3)), ([2, 6, 5].into(), [4, 2, 6].into()));
    assert!(net.is_ideal());
}

/// All five tick before anything is delivered: everybody is busy, everybody waits.
fn all_tick_at_once(rules: Rules) -> Net {
    let mut net = Net::of_ring(&[1, 2, 3, 4, 5], rules);
    for i in 1..=5 {
        net.fire(i, RingTimer::Tick);
    }
    // Half of the messages are still to come when the Busys arrive.
    net.drain();
    net
}

#[test]
fn the_circle_of_waiting_nodes_is_broken() {
    let mut net = all_tick_at_once(RULES);
    for (i, ring) in &net.rings {
        assert!(ring.cur_request().is_none(), "{i} still waits");
        assert!(ring.delayed_queries().is_empty());
        assert!(!net.armed.contains(&(*i, RingTimer::KeepaliveTick)));
    }
    assert!(net.reports.iter().any(|(_, report)| *report == Effect::GaveUp));
    let retries = net.armed.iter().filter(|(_, timer)| *timer == RingTimer::Retry).count();
    assert!(retries > 0, "whoever gave up tries again");
    net.join(6, 1);
    for _ in 0..4 {
        net.round();
    }
    assert!(net.is_ideal());
}

/// What the seed does: nothing but keep-alives, for ever.
#[test]
fn without_giving_up_the_circle_stays() {
    let mut net = all_tick_at_once(without(Safeguard::GiveUp));
    for _ in 0..5 {
        for i in 1..=5 {
            let ring = &net.rings[&i];
            assert!(ring.cur_request().is_some() && ring.delayed_queries().len() == 1);
            net.fire(i, RingTimer::KeepaliveTick);
        }
        net.transcript();
        net.drain();
        assert!(net.transcript().is_empty(), "a Busy is answered by waiting");
    }
}

#[test]
fn a_crash_heals() {
    let mut net = Net::of_ring(&[1, 2, 3, 4, 5, 6, 7], RULES);
    net.rings.remove(&6);
    net.armed.retain(|(i, _)| *i != 6);
    for _ in 0..4 {
        net.round();
    }
    assert!(net.is_ideal());
    assert_eq!(names(net.rings[&2].suspects()), [6], "kept in mind");
    let id = node(6).id;
    net.step(2, |ring, rules, _| ring.forget(id, rules));
    assert!(net.rings[&2].suspects().is_empty());
}

#[test]
fn a_goodbye_heals_without_waiting() {
    let mut net = Net::of_ring(&[1, 2, 3, 4, 5, 6, 7], RULES);
    net.step(6, |ring, _, out| ring.leave(out));
    net.rings.get_mut(&6).expect("it is there").check_invariants(&RULES);
    net.drain();
    assert_eq!(net.succ(2), [5, 7, 1]);
    assert_eq!(net.pred(5), None, "whoever comes before says so itself");
    net.fire(5, RingTimer::RectifyTick);
    assert_eq!(net.pred(5), Some(2));
    net.rings.remove(&6);
    for _ in 0..3 {
        net.round();
    }
    assert!(net.is_ideal());
}
