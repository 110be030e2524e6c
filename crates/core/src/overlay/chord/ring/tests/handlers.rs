//! Each handler by itself: one state, one input, all effects.

use super::*;

/// Node 2 of the start ring: predecessor 4, successors 5 1 3.
fn ring() -> Ring {
    let mut ring = Ring::new(node(2), 0);
    ring.start_ring(&nodes(&[1, 2, 3, 4, 5]), &RULES, &mut Vec::new());
    ring
}

fn receive(ring: &mut Ring, from: usize, message: Message) -> Vec<Effect> {
    receive_with(ring, node(from), message, RULES)
}

fn receive_with(ring: &mut Ring, from: Contact, message: Message, rules: Rules) -> Vec<Effect> {
    let mut out = Vec::new();
    ring.receive(from, message, &rules, &mut out);
    ring.check_invariants(&rules);
    out
}

fn fire(ring: &mut Ring, timer: RingTimer) -> Vec<Effect> {
    fire_with(ring, timer, RULES)
}

fn fire_with(ring: &mut Ring, timer: RingTimer, rules: Rules) -> Vec<Effect> {
    let mut out = Vec::new();
    ring.fire(timer, &rules, &mut out);
    ring.check_invariants(&rules);
    out
}

/// The number and timer of the open question.
fn open(ring: &Ring) -> (Nonce, RingTimer) {
    let request = ring.cur_request().expect("a question is open");
    let nonce = request.message.nonce().expect("questions have numbers");
    (nonce, RingTimer::Request { target: request.target.id, nonce })
}

fn stabilizing() -> (Ring, Nonce) {
    let mut ring = ring();
    fire(&mut ring, RingTimer::Tick);
    let nonce = open(&ring).0;
    (ring, nonce)
}

fn succs(nonce: Nonce, pred: Option<usize>, list: &[usize]) -> Message {
    Message::GotPredAndSuccs { nonce, pred: pred.map(node), list: nodes(list) }
}

fn sends(effects: &[Effect]) -> Vec<(usize, Message)> {
    let sent = |effect: &Effect| match effect {
        Effect::Send(to, message) => Some((to.addr.0 as usize, message.clone())),
        _ => None,
    };
    effects.iter().filter_map(sent).collect()
}

#[test]
fn tick_stabilizes_and_starts_again() {
    let mut ring = ring();
    let effects = fire(&mut ring, RingTimer::Tick);
    let (nonce, timer) = open(&ring);
    assert_eq!(
        effects,
        [
            Effect::Send(node(5), Message::GetPredAndSuccs { nonce }),
            Effect::Arm(timer),
            Effect::Arm(RingTimer::Tick)
        ]
    );
    assert_eq!(fire(&mut ring, RingTimer::Tick), [Effect::Arm(RingTimer::Tick)], "busy: only the next tick");
}

#[test]
fn stabilize_takes_the_list_and_notifies() {
    let (mut ring, nonce) = stabilizing();
    let timer = open(&ring).1;
    let effects = receive(&mut ring, 5, succs(nonce, Some(2), &[7, 1, 3]));
    assert_eq!(effects, [Effect::Clear(timer), Effect::Send(node(5), Message::Notify)]);
    assert_eq!(names(ring.succ_list()), [5, 7, 1]);
}

#[test]
fn a_successor_without_predecessor_is_notified_too() {
    let (mut ring, nonce) = stabilizing();
    let effects = receive(&mut ring, 5, succs(nonce, None, &[7, 1, 3]));
    assert_eq!(sends(&effects), [(5, Message::Notify)]);
    assert_eq!(names(ring.succ_list()), [5, 7, 1]);

    let (mut ring, nonce) = stabilizing();
    let seed = without(Safeguard::AlwaysNotify);
    let effects = receive_with(&mut ring, node(5), succs(nonce, None, &[7, 1, 3]), seed);
    assert!(sends(&effects).is_empty(), "the seed's text");
    assert_eq!(names(ring.succ_list()), [5, 1, 3]);
}

#[test]
fn a_better_successor_is_asked_before_it_is_adopted() {
    let (mut ring, nonce) = stabilizing();
    let effects = receive(&mut ring, 5, succs(nonce, Some(6), &[1, 3, 4]));
    let (second, timer) = open(&ring);
    assert_eq!(sends(&effects), [(6, Message::GetSuccList { nonce: second, asker: Asker::Peer })]);
    assert_eq!(names(ring.succ_list()), [5, 1, 3]);
    let effects = receive(&mut ring, 6, Message::GotSuccList { nonce: second, list: nodes(&[5, 1, 3]) });
    assert_eq!(
        effects,
        [
            Effect::Clear(timer),
            Effect::Send(node(6), Message::Notify),
            Effect::Send(node(5), Message::Notify)
        ]
    );
    assert_eq!(names(ring.succ_list()), [6, 5, 1]);

    let (mut ring, nonce) = stabilizing();
    let rash = without(Safeguard::AskFirst);
    receive_with(&mut ring, node(5), succs(nonce, Some(6), &[1, 3, 4]), rash);
    assert_eq!(names(ring.succ_list()), [6, 5, 1]);
}

#[test]
fn a_better_successor_that_is_silent_changes_nothing() {
    let (mut ring, nonce) = stabilizing();
    receive(&mut ring, 5, succs(nonce, Some(6), &[1, 3, 4]));
    let (_, timer) = open(&ring);
    let effects = fire(&mut ring, timer);
    assert_eq!(effects, [Effect::Clear(timer), Effect::Send(node(5), Message::Notify)]);
    assert_eq!(names(ring.succ_list()), [5, 1, 3]);
    assert!(ring.suspects().is_empty());
}

#[test]
fn the_seed_text_notifies_the_old_successor() {
    let rules = without(Safeguard::NotifyNew);
    let (mut ring, nonce) = stabilizing();
    receive_with(&mut ring, node(5), succs(nonce, Some(6), &[1, 3, 4]), rules);
    let answer = Message::GotSuccList { nonce: open(&ring).0, list: nodes(&[5, 1, 3]) };
    let effects = receive_with(&mut ring, node(6), answer, rules);
    assert_eq!(sends(&effects), [(5, Message::Notify)]);
}

#[test]
fn a_silent_successor_is_suspected_and_comes_back() {
    let (mut ring, _) = stabilizing();
    let timer = open(&ring).1;
    let effects = fire(&mut ring, timer);
    assert!(effects.contains(&Effect::Suspected(node(5))));
    assert!(effects.contains(&Effect::Arm(RingTimer::Probe)));
    assert_eq!((names(ring.succ_list()), names(ring.suspects())), ([1, 3].into(), [5].into()));
    assert_eq!(names(&ring.extended()), [5, 1, 3]);
    assert_eq!(sends(&effects).len(), 1, "the next one is asked at once");

    let effects = fire(&mut ring, RingTimer::Probe);
    let [(5, Message::Ping { nonce })] = sends(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!(
        receive(&mut ring, 5, Message::Pong { nonce: nonce + 9 }),
        [Effect::Refused(Refusal::Unsolicited)]
    );
    assert_eq!(receive(&mut ring, 5, Message::Pong { nonce }), [Effect::Cleared(node(5))]);
    assert_eq!(names(ring.succ_list()), [5, 1, 3]);
    assert!(ring.suspects().is_empty());
    assert!(fire(&mut ring, RingTimer::Probe).is_empty());
}

#[test]
fn a_suspect_is_kept_until_the_list_is_full_without_it() {
    let (mut ring, _) = stabilizing();
    let timer = open(&ring).1;
    fire(&mut ring, timer);
    ring.forget(node(5).id, &RULES);
    assert_eq!(names(ring.suspects()), [5], "two of three are left");
    let nonce = open(&ring).0;
    receive(&mut ring, 1, succs(nonce, Some(2), &[3, 4, 2]));
    assert_eq!(names(ring.succ_list()), [1, 3, 4], "up to this node itself");
    ring.forget(node(5).id, &RULES);
    assert!(ring.suspects().is_empty());

    let (mut ring, _) = stabilizing();
    let timer = open(&ring).1;
    fire_with(&mut ring, timer, without(Safeguard::Suspects));
    assert!(ring.suspects().is_empty());
}

#[test]
fn every_successor_silent_leaves_suspects_only() {
    let (mut ring, _) = stabilizing();
    for _ in 0..3 {
        let timer = open(&ring).1;
        fire(&mut ring, timer);
    }
    assert!(ring.succ_list().is_empty() && ring.cur_request().is_none());
    assert_eq!(names(ring.suspects()), [5, 1, 3]);
    assert_eq!(fire(&mut ring, RingTimer::Tick), [Effect::Arm(RingTimer::Tick)], "never without a timer");
    let mut out = Vec::new();
    ring.alive(node(1), &RULES, &mut out);
    assert_eq!(names(ring.succ_list()), [1]);
}

#[test]
fn a_lost_question_is_asked_again_first() {
    let patient = Rules { attempts: 2, ..RULES };
    let (mut ring, nonce) = stabilizing();
    let timer = open(&ring).1;
    let again = fire_with(&mut ring, timer, patient);
    assert_eq!(again, [Effect::Send(node(5), Message::GetPredAndSuccs { nonce }), Effect::Arm(timer)]);
    fire_with(&mut ring, timer, patient);
    assert_eq!(names(ring.suspects()), [5]);
    assert!(fire(&mut ring, timer).is_empty(), "stale timers do nothing");
}

#[test]
fn notify_chooses_the_nearest_candidate_and_waits() {
    let mut ring = ring();
    assert_eq!(receive(&mut ring, 3, Message::Notify), [Effect::Arm(RingTimer::RectifyTick)]);
    assert_eq!(receive(&mut ring, 4, Message::Notify), []);
    assert_eq!(receive(&mut ring, 1, Message::Notify), []);
    assert_eq!(ring.rectify_with(), Some(node(4)));
    assert_eq!(ring.pred(), Some(node(4)), "Notify never touches it");
    let mut out = Ring::new(node(6), 0);
    assert_eq!(receive(&mut out, 3, Message::Notify), [Effect::Refused(Refusal::NotJoined)]);
}

/// Node 5 of a ring without 6 hears from 6, which lies between its predecessor 2 and itself.
fn rectifying(rules: Rules) -> (Ring, Vec<Effect>) {
    let mut ring = Ring::new(node(5), 0);
    ring.start_ring(&nodes(&[1, 2, 3, 4, 5]), &rules, &mut Vec::new());
    receive(&mut ring, 6, Message::Notify);
    let effects = fire_with(&mut ring, RingTimer::RectifyTick, rules);
    assert_eq!(ring.rectify_with(), None);
    (ring, effects)
}

#[test]
fn rectify_asks_the_predecessor_first() {
    let (mut ring, effects) = rectifying(RULES);
    let (nonce, timer) = open(&ring);
    assert_eq!(sends(&effects), [(2, Message::Ping { nonce })]);
    assert_eq!(ring.pred(), Some(node(2)));
    let mut silent = ring.clone();
    assert_eq!(receive(&mut ring, 2, Message::Pong { nonce }), [Effect::Clear(timer)]);
    assert_eq!(ring.pred(), Some(node(6)));
    fire(&mut silent, timer);
    assert_eq!(silent.pred(), Some(node(6)));
}

#[test]
fn a_worse_candidate_takes_over_only_from_a_silent_predecessor() {
    for answers in [true, false] {
        let mut ring = ring();
        receive(&mut ring, 3, Message::Notify);
        fire(&mut ring, RingTimer::RectifyTick);
        let (nonce, timer) = open(&ring);
        if answers {
            receive(&mut ring, 4, Message::Pong { nonce });
        } else {
            fire(&mut ring, timer);
        }
        assert_eq!(ring.pred(), Some(node(if answers { 4 } else { 3 })));
    }
    let mut ring = ring();
    let rash = without(Safeguard::AskPredecessor);
    receive(&mut ring, 3, Message::Notify);
    assert!(fire_with(&mut ring, RingTimer::RectifyTick, rash).is_empty());
    assert_eq!(ring.pred(), Some(node(4)), "never asked whether it lives");
}

#[test]
fn rectify_waits_while_busy() {
    let (mut ring, _) = stabilizing();
    receive(&mut ring, 4, Message::Notify);
    assert_eq!(fire(&mut ring, RingTimer::RectifyTick), [Effect::Arm(RingTimer::RectifyTick)]);
    assert_eq!(ring.rectify_with(), Some(node(4)));
}

#[test]
fn a_busy_node_delays_questions_and_answers_pings_and_clients() {
    let (mut ring, nonce) = stabilizing();
    assert_eq!(
        receive(&mut ring, 4, Message::GetPredAndSuccs { nonce: 7 }),
        [Effect::Arm(RingTimer::KeepaliveTick), Effect::Send(node(4), Message::Busy { nonce: 7 })]
    );
    let again = receive(&mut ring, 4, Message::GetPredAndSuccs { nonce: 7 });
    assert_eq!(sends(&again), [(4, Message::Busy { nonce: 7 })]);
    assert_eq!(ring.delayed_queries().len(), 1, "a set");
    assert_eq!(
        receive(&mut ring, 3, Message::Ping { nonce: 8 }),
        [Effect::Send(node(3), Message::Pong { nonce: 8 })]
    );
    let of = Id::new(RDOENGES);
    let asked = receive(&mut ring, 8, Message::GetBestPredecessor { nonce: 9, of, asker: Asker::Client });
    assert_eq!(asked, [Effect::Send(node(8), Message::GotBestPredecessor { nonce: 9, node: node(2) })]);
    assert_eq!(
        fire(&mut ring, RingTimer::KeepaliveTick),
        [Effect::Send(node(4), Message::Busy { nonce: 7 }), Effect::Arm(RingTimer::KeepaliveTick)]
    );
    let effects = receive(&mut ring, 5, succs(nonce, Some(2), &[1, 3, 4]));
    assert_eq!(effects[0], Effect::Send(node(4), succs(7, Some(4), &[5, 1, 3])), "who waited comes first");
    assert_eq!(effects.last(), Some(&Effect::Clear(RingTimer::KeepaliveTick)));
    assert!(ring.delayed_queries().is_empty());
}

#[test]
fn busy_alone_is_waited_for() {
    let (mut ring, nonce) = stabilizing();
    let timer = open(&ring).1;
    assert_eq!(receive(&mut ring, 5, Message::Busy { nonce }), [Effect::Arm(timer)]);
    assert!(ring.cur_request().is_some_and(|request| request.heard_busy));
}

#[test]
fn busy_and_a_waiting_asker_in_either_order_give_the_query_up() {
    for busy_first in [true, false] {
        let (mut ring, nonce) = stabilizing();
        let before = ring.succ_list().to_vec();
        let (busy, question) = (Message::Busy { nonce }, Message::GetPredAndSuccs { nonce: 7 });
        let effects = if busy_first {
            receive(&mut ring, 5, busy);
            receive(&mut ring, 4, question)
        } else {
            receive(&mut ring, 4, question);
            receive(&mut ring, 5, busy)
        };
        assert_eq!(effects[0], Effect::Send(node(4), succs(7, Some(4), &[5, 1, 3])));
        assert!(effects.contains(&Effect::Arm(RingTimer::Retry)) && effects.contains(&Effect::GaveUp));
        assert!(ring.cur_request().is_none() && ring.delayed_queries().is_empty());
        assert_eq!(ring.succ_list(), before);
        assert_eq!(sends(&fire(&mut ring, RingTimer::Retry)).len(), 1);
    }
}

#[test]
fn a_given_up_stabilize2_notifies_the_head() {
    let (mut ring, nonce) = stabilizing();
    receive(&mut ring, 5, succs(nonce, Some(6), &[1, 3, 4]));
    let nonce = open(&ring).0;
    receive(&mut ring, 6, Message::Busy { nonce });
    let effects = receive(&mut ring, 4, Message::GetSuccList { nonce: 7, asker: Asker::Peer });
    assert_eq!(
        sends(&effects),
        [(4, Message::GotSuccList { nonce: 7, list: nodes(&[5, 1, 3]) }), (5, Message::Notify)]
    );
}

#[test]
fn too_many_askers_are_answered_instead_of_kept() {
    let (mut ring, _) = stabilizing();
    let asker = |n: u32| Contact::new(Id::new(u128::from(n) + 1), 1, Addr(100 + n));
    for n in 0..DELAYED_MAX as u32 {
        receive_with(&mut ring, asker(n), Message::GetPredAndSuccs { nonce: n }, RULES);
    }
    assert_eq!(ring.delayed_queries().len(), DELAYED_MAX);
    let effects = receive_with(&mut ring, asker(500), Message::GetPredAndSuccs { nonce: 5 }, RULES);
    assert_eq!(sends(&effects).len(), DELAYED_MAX + 1);
    assert!(ring.delayed_queries().is_empty() && ring.cur_request().is_none());
}

#[test]
fn answers_count_only_from_whom_and_for_what_was_asked() {
    let (mut ring, nonce) = stabilizing();
    let before = ring.clone();
    let good = succs(nonce, Some(2), &[1, 3, 4]);
    let refused = [Effect::Refused(Refusal::Unsolicited)];
    assert_eq!(receive(&mut ring, 1, good.clone()), refused);
    assert_eq!(receive(&mut ring, 5, succs(nonce + 1, Some(2), &[1, 3, 4])), refused);
    assert_eq!(receive(&mut ring, 5, Message::Pong { nonce }), refused, "not an answer to that question");
    assert_eq!(receive(&mut ring, 5, Message::Busy { nonce: nonce + 1 }), refused);
    assert_eq!(ring, before);
    let lax = without(Safeguard::ThisLife);
    let late = succs(nonce + 1, Some(2), &[1, 3, 4]);
    assert!(!sends(&receive_with(&mut ring, node(5), late, lax)).is_empty());
    assert_eq!(receive(&mut ring, 5, good), refused, "no longer open");
}

#[test]
fn a_later_life_ends_the_earlier_one_and_an_earlier_one_is_not_heard() {
    let (mut ring, _) = stabilizing();
    let later = Contact { incarnation: 2, ..node(5) };
    let effects = receive_with(&mut ring, later, Message::Ping { nonce: 1 }, RULES);
    assert_eq!(names(ring.succ_list()), [1, 3]);
    assert!(ring.suspects().is_empty(), "it is certainly dead");
    assert_eq!(sends(&effects).len(), 2, "the next one is asked, the ping answered");
    receive_with(&mut ring, Contact { incarnation: 2, ..node(4) }, Message::Notify, RULES);
    assert_eq!((ring.pred(), ring.rectify_with().map(|c| c.incarnation)), (None, Some(2)));
    assert_eq!(receive(&mut ring, 4, Message::Notify), [Effect::Refused(Refusal::StaleIncarnation)]);
}

#[test]
fn who_looks_for_its_place_has_none() {
    let mut ring = ring();
    let of = node(5).id;
    let effects = receive(&mut ring, 5, Message::GetBestPredecessor { nonce: 3, of, asker: Asker::Peer });
    assert_eq!(sends(&effects), [(5, Message::GotBestPredecessor { nonce: 3, node: node(2) })]);
    let effects = receive(&mut ring, 5, Message::GetSuccList { nonce: 4, asker: Asker::Peer });
    assert_eq!(sends(&effects), [(5, Message::GotSuccList { nonce: 4, list: nodes(&[1, 3]) })]);
    assert_eq!(names(ring.succ_list()), [5, 1, 3], "nothing is changed by asking");
}

#[test]
fn impossible_lists_are_refused() {
    let bad: [&[usize]; 4] = [&[5, 1], &[1, 1], &[3, 1], &[1, 3, 5]];
    for list in bad {
        let (mut ring, nonce) = stabilizing();
        let effects = receive(&mut ring, 5, succs(nonce, Some(2), list));
        assert!(effects.contains(&Effect::Refused(Refusal::BadList)), "{list:?}");
        assert_eq!(names(ring.succ_list()), [5, 1, 3]);
        assert!(ring.cur_request().is_none());
    }
    let (mut ring, nonce) = stabilizing();
    receive_with(&mut ring, node(5), succs(nonce, Some(2), &[3, 1]), without(Safeguard::CheckLists));
    assert_eq!(names(ring.succ_list()), [5, 3, 1]);
}

#[test]
fn a_small_ring_ends_at_this_node() {
    let (mut ring, nonce) = stabilizing();
    receive(&mut ring, 5, succs(nonce, Some(2), &[4, 2]));
    assert_eq!(names(ring.succ_list()), [5, 4]);
}

#[test]
fn a_successor_without_successors_does_not_take_ours() {
    let (mut ring, nonce) = stabilizing();
    let effects = receive(&mut ring, 5, succs(nonce, None, &[]));
    assert_eq!(sends(&effects), [(5, Message::Notify)]);
    assert_eq!(names(ring.succ_list()), [5, 1, 3]);
}

/// Found by the simulator's monitor of the ring: 5 was suspected and came back while 1, which had left, was asked.
#[test]
fn an_empty_answer_leaves_the_list_though_its_head_has_changed() {
    let (mut ring, _) = stabilizing();
    let timer = open(&ring).1;
    fire(&mut ring, timer);
    let (asked, _) = open(&ring);
    let effects = fire(&mut ring, RingTimer::Probe);
    let [(5, Message::Ping { nonce })] = sends(&effects)[..] else { panic!("{effects:?}") };
    receive(&mut ring, 5, Message::Pong { nonce });
    receive(&mut ring, 1, succs(asked, None, &[]));
    assert_eq!(names(ring.succ_list()), [5, 1, 3]);
}

#[test]
fn a_node_of_no_ring_answers_with_nothing() {
    let mut out = Ring::new(node(6), 0);
    assert_eq!(
        receive(&mut out, 1, Message::GetPredAndSuccs { nonce: 4 }),
        [Effect::Send(node(1), succs(4, None, &[]))]
    );
    assert_eq!(receive(&mut out, 1, Message::Ping { nonce: 4 }), [Effect::Refused(Refusal::NotJoined)]);
    assert_eq!(receive(&mut out, 6, Message::Notify), [Effect::Refused(Refusal::FromSelf)]);
}

fn joining() -> Ring {
    let mut ring = Ring::new(node(6), 0);
    ring.start_join(node(1), &RULES, &mut Vec::new());
    ring
}

#[test]
fn a_join_that_comes_to_nothing_starts_again() {
    let mut ring = joining();
    let timer = open(&ring).1;
    let silent = fire(&mut ring.clone(), timer);
    assert_eq!(silent[1..], [Effect::JoinEnded(JoinEnd::Silent), Effect::Arm(RingTimer::Rejoin)]);
    let inert = fire_with(&mut ring.clone(), timer, without(Safeguard::JoinAgain));
    assert_eq!(inert[1..], [Effect::JoinEnded(JoinEnd::Silent)], "the seed's: for ever unjoined");
    fire(&mut ring, timer);
    let again = fire(&mut ring, RingTimer::Rejoin);
    assert!(matches!(sends(&again)[..], [(1, Message::GetBestPredecessor { .. })]));
}

#[test]
fn a_join_that_is_led_astray_ends() {
    // A step must come nearer; a list must have this node between its owner and its head.
    let mut ring = joining();
    let nonce = open(&ring).0;
    let effects = receive(&mut ring, 1, Message::GotBestPredecessor { nonce, node: node(5) });
    assert!(effects.contains(&Effect::JoinEnded(JoinEnd::Astray)));
    for list in [&[][..], &[3, 4][..]] {
        let mut ring = joining();
        let nonce = open(&ring).0;
        receive(&mut ring, 1, Message::GotBestPredecessor { nonce, node: node(1) });
        let nonce = open(&ring).0;
        let effects = receive(&mut ring, 1, Message::GotSuccList { nonce, list: nodes(list) });
        assert!(effects.contains(&Effect::JoinEnded(JoinEnd::Astray)));
        assert!(effects.contains(&Effect::Arm(RingTimer::Rejoin)));
        assert!(!ring.joined());
    }
}

#[test]
fn a_silent_head_ends_the_join() {
    let mut ring = joining();
    for node in [node(2), node(2)] {
        let request = ring.cur_request().expect("under way").target;
        let nonce = open(&ring).0;
        receive_with(&mut ring, request, Message::GotBestPredecessor { nonce, node }, RULES);
    }
    let nonce = open(&ring).0;
    receive(&mut ring, 2, Message::GotSuccList { nonce, list: nodes(&[5, 1, 3]) });
    let timer = open(&ring).1;
    assert_eq!(ring.cur_request().map(|request| request.query), Some(Query::Join2(node(5))));
    assert!(fire(&mut ring, timer).contains(&Effect::JoinEnded(JoinEnd::Silent)));
    assert!(!ring.joined());
}

#[test]
fn rings_grow_together_by_asking() {
    let mut ring = ring();
    let mut out = Vec::new();
    assert!(!ring.merge(node(1), &RULES, &mut out), "the present successor is nearer");
    assert!(ring.merge(node(6), &RULES, &mut out));
    assert!(!ring.merge(node(8), &RULES, &mut out), "one query at a time");
    let nonce = open(&ring).0;
    let effects = receive(&mut ring, 6, Message::GotSuccList { nonce, list: nodes(&[7]) });
    assert_eq!(names(ring.succ_list()), [6, 5, 7]);
    assert_eq!(sends(&effects), [(6, Message::Notify), (5, Message::Notify)]);
}

#[test]
fn the_last_successors_goodbye_names_the_next() {
    let mut ring = Ring::new(node(2), 0);
    ring.start_ring(&nodes(&[2, 5]), &RULES, &mut Vec::new());
    let effects = receive(&mut ring, 5, Message::Leaving { list: nodes(&[1, 3]) });
    assert!(matches!(sends(&effects)[..], [(1, Message::GetSuccList { .. })]));
    assert_eq!(ring.pred(), None);
}

/// Found by the model checker: 6 joins through 1, which fails and comes back.
#[test]
fn a_join_that_meets_a_later_life_goes_on_with_it() {
    let mut ring = Ring::new(node(6), 0);
    ring.start_join(node(1), &RULES, &mut Vec::new());
    let again = Contact { incarnation: 2, ..node(1) };
    let (nonce, _) = open(&ring);
    let effects = receive_with(&mut ring, again, Message::Busy { nonce }, RULES);
    assert!(effects.contains(&Effect::JoinEnded(JoinEnd::Silent)), "{effects:?}");
    let effects = fire(&mut ring, RingTimer::Rejoin);
    assert!(matches!(effects[..], [Effect::Send(to, _), ..] if to == again), "{effects:?}");
    let (nonce, _) = open(&ring);
    let effects = receive_with(&mut ring, again, Message::GotBestPredecessor { nonce, node: node(2) }, RULES);
    assert_eq!(sends(&effects).len(), 1, "{effects:?}");
    assert_eq!(ring.cur_request().map(|request| request.target), Some(node(2)));
}
