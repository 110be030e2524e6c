//! What a member that found a record damaged, or lost a promise, may still say. The models `damaged-promises` and
//! `damaged-views` of the checker say why.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::edge::{Command, Input};
use kringle_core::message::Body;
use kringle_core::records::{Gap, Records, Space};
use kringle_core::store::Store;
use kringle_core::store::coding::{Shared, Sum};
use kringle_core::store::message::{Item, Message, Packet, Step, Verdict, Word};
use kringle_core::store::op::{Condition, Level};
use kringle_core::store::record::{Cell, Kind, Origin, Rank, Record};
use kringle_core::store::version::Version;
use kringle_core::store::view::{Ballot, Member, Next, View};

use crate::cluster::{Cluster, WALL, add, name, put_if, settings};

const MOMENT: Duration = Duration::from_micros(100);

fn tell(cluster: &mut Cluster, to: usize, from: usize, message: Message) {
    let body = Body::Store(Box::new(Packet { message, contacts: Vec::new() }));
    let from = cluster.places[from].contact;
    cluster.input(to, Input::Message { from, body });
    cluster.sync_disk(to);
}

fn slot(cluster: &Cluster) -> u32 {
    Store::slot_of(name("key").id, &cluster.config)
}

fn store(cluster: &Cluster, node: usize) -> &Store {
    cluster.places[node].node.as_ref().and_then(|node| node.store()).expect("it has a store")
}

fn view(cluster: &Cluster, node: usize) -> (View, bool) {
    let (view, serves) = store(cluster, node).view(slot(cluster)).expect("all hold everything");
    (view.clone(), serves)
}

fn doubts(cluster: &Cluster, node: usize) -> bool {
    store(cluster, node).survey().doubting > 0
}

/// Lets time pass until something is so. Loses the messages that `lose` says.
fn until(cluster: &mut Cluster, lose: impl Fn(usize, &Message) -> bool, so: impl Fn(&Cluster) -> bool) {
    let end = cluster.now.after(Duration::from_secs(10));
    while !so(cluster) {
        assert!(cluster.now < end, "it takes too long");
        cluster.run(MOMENT);
        cluster.wire.retain(|(_, to, _, body)| match body {
            Body::Store(packet) => !lose(*to, &packet.message),
            _ => true,
        });
    }
}

/// Says whether a message begins a view change.
fn is_freeze(_: usize, message: &Message) -> bool {
    let freezes = |item: &Item| matches!(item.word, Word::Freeze { .. });
    matches!(message, Message::Slots(items) if items.iter().any(freezes))
}

fn ask(cluster: &mut Cluster, to: usize, from: usize, step: Step) -> Verdict {
    let (slot, epoch) = (slot(cluster), view(cluster, to).0.epoch);
    tell(cluster, to, from, Message::Do { nonce: 7, slot, epoch, step });
    let verdict = cluster.wire.iter().rev().find_map(|(.., body)| match body {
        Body::Store(packet) => match &packet.message {
            Message::Did { nonce: 7, verdict, .. } => Some(verdict.clone()),
            _ => None,
        },
        _ => None,
    });
    verdict.expect("it is answered")
}

fn cell() -> Cell {
    Cell::of(&name("key"))
}

fn read(cluster: &mut Cluster, node: usize, from: usize) -> Verdict {
    ask(cluster, node, from, Step::Read { cell: cell(), known: Rank::default(), brief: false })
}

fn record(cluster: &Cluster, version: Version, value: &str) -> Record {
    let origin = Origin { node: cluster.places[0].contact.id, serial: 9 };
    Record::make(&cell(), Kind::Value, version, origin, 0, value.as_bytes())
}

fn accept(cluster: &mut Cluster, node: usize, from: usize, record: &Record) -> Verdict {
    let record = Shared(record.bytes().clone());
    ask(cluster, node, from, Step::Accept { cell: cell(), record, set: None, agreed: None })
}

/// A version some milliseconds from now.
fn version(cluster: &Cluster, ahead: u64) -> Version {
    Version::at(WALL + cluster.now.micros() / 1000 + ahead)
}

fn word(cluster: &mut Cluster, to: usize, from: usize, word: Word) {
    let slot = slot(cluster);
    tell(cluster, to, from, Message::Slots(vec![Item { slot, word }]));
}

fn frozen(cluster: &Cluster, ballot: Ballot) -> Option<(Sum, bool)> {
    let mut words = cluster.wire.iter().filter_map(|(.., body)| match body {
        Body::Store(packet) => match &packet.message {
            Message::Slots(items) => Some(items),
            _ => None,
        },
        _ => None,
    });
    words.find_map(|items| {
        items.iter().find_map(|item| match &item.word {
            Word::Frozen { ballot: it, state, accepted, .. } if *it == ballot => {
                Some((*state, accepted.is_some()))
            }
            _ => None,
        })
    })
}

/// A member reads all its records, to send them to another one.
fn find_damage(cluster: &mut Cluster, node: usize, from: usize) {
    let (slot, parts, doubted) = (slot(cluster), Vec::new(), Vec::new());
    let pull =
        Message::Pull { nonce: 1, slot, parts, after: None, any: false, bytes: 0, doubts: false, doubted };
    tell(cluster, node, from, pull);
}

fn ballot(cluster: &Cluster, round: u32, node: usize) -> Ballot {
    Ballot { round, node: cluster.places[node].contact.id }
}

#[test]
fn write_is_not_acknowledged_with_an_own_copy_that_was_lost() {
    let mut cluster = Cluster::ready(3);
    cluster.put(0, "key", "old");
    cluster.run(Duration::from_secs(1));
    let first = view(&cluster, 0).0.members[0].id;
    let at = cluster.places.iter().position(|place| place.contact.id == first).expect("it is there");
    let (other, third) = ((at + 1) % 3, (at + 2) % 3);
    let is_accept = |to: usize, message: &Message| {
        to != at && matches!(message, Message::Do { step: Step::Accept { .. }, .. })
    };
    let bytes = |cluster: &Cluster| cluster.places[at].safe.read(Space::Data, &cell().key.0);
    let before = bytes(&cluster);
    let request = cluster.ask(at, "key", put_if("new", Condition::Present), Level::Quorum);
    until(&mut cluster, is_accept, |cluster| bytes(cluster) != before);
    cluster.damage(at, "key");
    assert_eq!(read(&mut cluster, at, other), Verdict::NotReady);
    assert!(doubts(&cluster, at));
    until(&mut cluster, is_accept, |cluster| !doubts(cluster, at));
    // Now the write reaches one of the others.
    cluster.cut = vec![(at, third)];
    let acked = cluster.finish(request).is_ok();
    cluster.crash(other);
    cluster.cut.clear();
    cluster.run(Duration::from_millis(100));
    let value = cluster.get(third, "key");
    assert!(!acked || value.as_deref() == Some("new"), "acknowledged, and then {value:?} is read");
}

#[test]
fn promise_outlives_the_record_written_under_it() {
    let mut cluster = Cluster::ready(3);
    let (low, high) = (version(&cluster, 0), version(&cluster, 500));
    let promised = ask(&mut cluster, 1, 2, Step::Prepare { cell: cell(), ballot: high });
    assert_eq!(promised, Verdict::Promised(None));
    let (lower, higher) = (record(&cluster, low, "low"), record(&cluster, high, "high"));
    assert_eq!(accept(&mut cluster, 1, 2, &higher), Verdict::Taken);
    cluster.damage(1, "key");
    assert_eq!(read(&mut cluster, 1, 2), Verdict::NotReady);
    // Promises end with their epoch: no new one begins here.
    let end = cluster.now.after(Duration::from_secs(2));
    until(&mut cluster, is_freeze, |cluster| cluster.now >= end);
    let verdict = accept(&mut cluster, 1, 2, &lower);
    assert!(!matches!(verdict, Verdict::Taken), "it has promised not to: {verdict:?}");
}

#[test]
fn doubting_member_takes_nothing_below_its_promise_that_it_did_not_tell() {
    let mut cluster = Cluster::ready(3);
    let told = record(&cluster, version(&cluster, 0), "told");
    for node in 0..3 {
        assert_eq!(accept(&mut cluster, node, (node + 1) % 3, &told), Verdict::Taken);
    }
    let between = record(&cluster, version(&cluster, 200), "between");
    assert_eq!(accept(&mut cluster, 0, 2, &between), Verdict::Taken);
    let epoch = view(&cluster, 1).0.epoch;
    let step = Step::Prepare { cell: cell(), ballot: version(&cluster, 500) };
    assert_eq!(ask(&mut cluster, 1, 2, step), Verdict::Promised(Some(Shared(told.bytes().clone()))));
    cluster.damage(1, "key");
    assert_eq!(read(&mut cluster, 1, 2), Verdict::NotReady);
    // The one that has more is heard first.
    cluster.cut = vec![(1, 2)];
    cluster.run(Duration::from_millis(600));
    cluster.cut.clear();
    // The next epoch ends its promise, and the others can begin that.
    until(&mut cluster, |_, _| false, |cluster| !doubts(cluster, 1));
    let verdict = read(&mut cluster, 1, 2);
    assert_eq!(verdict, Verdict::Holds(Some(Shared(between.bytes().clone()))));
    assert!(view(&cluster, 1).0.epoch > epoch, "it told the record before, with a higher promise");
}

/// Chaos seed 200540 over Chord: two of three members waited for the next epoch, and the third had no quorum to begin it.
#[test]
fn two_of_three_that_cannot_keep_their_promises_vote_for_the_next_epoch() {
    for restart in [None, Some(5), Some(400)] {
        two_of_three_abstain(restart.map(Duration::from_millis));
    }
}

fn two_of_three_abstain(restart: Option<Duration>) {
    let mut cluster = Cluster::ready(3);
    let beside = |key: &String| Store::slot_of(name(key).id, &cluster.config) == slot(&cluster);
    let other = (0..).map(|number| format!("other {number}")).find(beside).expect("there are four slots");
    for key in ["key", &other] {
        cluster.put(0, key, "acknowledged");
    }
    cluster.run(Duration::from_secs(1));
    for (node, key) in [(1, "key"), (2, other.as_str())] {
        // Only this member has stored it, under a ballot that it promised.
        let (cell, ballot) = (Cell::of(&name(key)), version(&cluster, 500));
        let promised = ask(&mut cluster, node, 0, Step::Prepare { cell: cell.clone(), ballot });
        assert!(matches!(promised, Verdict::Promised(_)), "{promised:?}");
        let origin = Origin { node: cluster.places[0].contact.id, serial: 9 };
        let record = Record::make(&cell, Kind::Value, ballot, origin, 0, b"lost");
        let record = Shared(record.bytes().clone());
        let step = Step::Accept { cell: cell.clone(), record, set: None, agreed: None };
        assert_eq!(ask(&mut cluster, node, 0, step), Verdict::Taken);
        cluster.damage(node, key);
    }
    for (node, key) in [(1, "key"), (2, other.as_str())] {
        let cell = Cell::of(&name(key));
        let step = Step::Read { cell, known: Rank::default(), brief: false };
        assert_eq!(ask(&mut cluster, node, 0, step), Verdict::NotReady);
    }
    let epoch = view(&cluster, 0).0.epoch;
    if let Some(after) = restart {
        let end = cluster.now.after(after);
        until(&mut cluster, is_freeze, |cluster| cluster.now >= end);
        for node in [1, 2] {
            cluster.crash(node);
            cluster.restart(node);
        }
    }
    until(&mut cluster, |_, _| false, |cluster| (0..3).all(|node| view(cluster, node).1));
    assert!(view(&cluster, 0).0.epoch > epoch, "promises end with their epoch");
    for key in ["key", &other] {
        assert_eq!(cluster.get(2, key).as_deref(), Some("acknowledged"));
    }
}

#[test]
fn frozen_member_that_lost_the_state_it_accepted_does_not_vote_without_it() {
    // The order in which it asks the others is a matter of chance.
    for seed in 1..8 {
        let mut cluster = Cluster::of(3, settings(), seed);
        cluster.run(Duration::from_secs(5));
        cluster.put(0, "key", "value");
        cluster.run(Duration::from_secs(1));
        let View { epoch, members, .. } = view(&cluster, 1).0;
        // One has a write that nobody else knows.
        let more = record(&cluster, version(&cluster, 100), "more");
        assert_eq!(accept(&mut cluster, 2, 0, &more), Verdict::Taken);
        let first = ballot(&cluster, 1, 0);
        word(&mut cluster, 1, 0, Word::Freeze { epoch, ballot: first });
        let (state, _) = frozen(&cluster, first).expect("it promises");
        word(&mut cluster, 1, 0, Word::Settle { epoch, ballot: first, state });
        word(&mut cluster, 1, 0, Word::Propose { epoch, ballot: first, next: Next { members, state } });
        cluster.damage(1, "key");
        find_damage(&mut cluster, 1, 2);
        assert!(doubts(&cluster, 1));
        let end = cluster.now.after(Duration::from_millis(100));
        while doubts(&cluster, 1) && cluster.now < end {
            cluster.run(MOMENT);
        }
        assert_eq!(view(&cluster, 1).0.epoch, epoch, "nothing was decided meanwhile");
        let second = ballot(&cluster, 9, 2);
        word(&mut cluster, 1, 2, Word::Freeze { epoch, ballot: second });
        let voted = frozen(&cluster, second).filter(|(now, accepted)| *accepted && *now != state);
        assert_eq!(voted, None, "what it accepted may be decided and begins with {state:?}; seed {seed}");
    }
}

#[test]
fn member_behind_that_lost_the_state_it_settled_on_does_not_vote_without_it() {
    let mut cluster = Cluster::ready(3);
    cluster.put(0, "key", "value");
    cluster.run(Duration::from_secs(1));
    let more = record(&cluster, version(&cluster, 100), "more");
    assert_eq!(accept(&mut cluster, 0, 2, &more), Verdict::Taken);
    let mut next = view(&cluster, 1).0;
    let probe = ballot(&cluster, 1, 0);
    // What the state of the first is: it tells when it is frozen.
    word(&mut cluster, 0, 2, Word::Freeze { epoch: next.epoch, ballot: probe });
    let (state, _) = frozen(&cluster, probe).expect("it promises");
    next.epoch += 1;
    let epoch = next.epoch;
    for node in [0, 1] {
        word(&mut cluster, node, 2, Word::View { view: next.clone(), entered: state });
    }
    let first = ballot(&cluster, 2, 0);
    word(&mut cluster, 1, 0, Word::Freeze { epoch, ballot: first });
    word(&mut cluster, 1, 0, Word::Settle { epoch, ballot: first, state });
    let settled = |cluster: &Cluster| {
        let has = |item: &Item| matches!(item.word, Word::Settled { ballot, .. } if ballot == first);
        cluster.wire.iter().any(|(.., body)| match body {
            Body::Store(packet) => match &packet.message {
                Message::Slots(items) => items.iter().any(has),
                _ => false,
            },
            _ => false,
        })
    };
    until(&mut cluster, |_, _| false, settled);
    cluster.damage(1, "key");
    find_damage(&mut cluster, 1, 2);
    let second = ballot(&cluster, 9, 2);
    word(&mut cluster, 1, 2, Word::Freeze { epoch, ballot: second });
    let voted = frozen(&cluster, second).filter(|(now, _)| *now != state);
    assert_eq!(voted, None, "others count on it having {state:?}");
}

#[test]
fn lost_promise_in_a_view_of_two_is_made_up_for() {
    let mut cluster = Cluster::ready(2);
    cluster.put(0, "key", "value");
    cluster.run(Duration::from_secs(1));
    cluster.crash(1);
    cluster.places[1].gaps =
        vec![Gap { space: Space::Promises, from: [0].as_slice().into(), to: [2].as_slice().into() }];
    cluster.restart(1);
    cluster.run(Duration::from_secs(300));
    assert!(cluster.views().iter().all(|(_, members, serving)| members == serving), "{:?}", cluster.views());
}

/// Less than a quorum had it, so it was acknowledged to nobody; and the three others are enough to say so.
#[test]
fn two_of_five_that_lost_the_same_record_do_not_wait_for_each_other() {
    let settings = Settings { replicas: 5, leaf_set: 16, ..settings() };
    let mut cluster = Cluster::of(5, settings, 1);
    cluster.run(Duration::from_secs(5));
    cluster.put(0, "key", "old");
    cluster.run(Duration::from_secs(1));
    let new = record(&cluster, version(&cluster, 0), "new");
    for node in [1, 2] {
        assert_eq!(accept(&mut cluster, node, 0, &new), Verdict::Taken);
        cluster.damage(node, "key");
        assert_eq!(read(&mut cluster, node, 0), Verdict::NotReady);
    }
    until(&mut cluster, |_, _| false, |cluster| !doubts(cluster, 1) && !doubts(cluster, 2));
    assert_eq!(cluster.get(1, "key").as_deref(), Some("old"));
}

#[test]
fn what_was_told_before_all_were_asked_does_not_end_a_doubt() {
    let mut cluster = Cluster::ready(3);
    cluster.put(0, "key", "old");
    cluster.run(Duration::from_secs(1));
    let new = record(&cluster, version(&cluster, 0), "new");
    assert_eq!(accept(&mut cluster, 1, 2, &new), Verdict::Taken);
    cluster.damage(1, "key");
    assert_eq!(read(&mut cluster, 1, 2), Verdict::NotReady);
    cluster.cut = vec![(1, 2)];
    cluster.run(Duration::from_millis(200));
    // The coordinator has not been asked: for it, two have the write now.
    assert_eq!(accept(&mut cluster, 0, 2, &new), Verdict::Taken);
    cluster.cut = vec![(0, 1)];
    cluster.run(Duration::from_secs(2));
    assert!(doubts(&cluster, 1), "what it was told first is outdated");
    cluster.cut.clear();
    until(&mut cluster, |_, _| false, |cluster| !doubts(cluster, 1));
    assert_eq!(read(&mut cluster, 1, 2), Verdict::Holds(Some(Shared(new.bytes().clone()))));
}

/// Members that were told a wrong beginning would wait for records that nobody has.
#[test]
fn node_that_was_not_told_how_a_view_begins_does_not_tell_others() {
    let mut cluster = Cluster::ready(5);
    cluster.put(0, "key", "value");
    cluster.run(Duration::from_secs(1));
    let member = |cluster: &Cluster, node: usize| store(cluster, node).view(slot(cluster)).is_some();
    let (inside, outside): (Vec<usize>, Vec<usize>) = (0..5).partition(|node| member(&cluster, *node));
    let (first, outside, asker) = (inside[0], outside[0], inside[1]);
    let mut next = view(&cluster, first).0;
    let epoch = next.epoch;
    next.epoch += 1;
    let told = |cluster: &Cluster| {
        let is_next = |item: &Item| matches!(&item.word, Word::View { view, .. } if view.epoch == epoch + 1);
        let from = cluster.places[outside].contact;
        cluster.wire.iter().any(|(_, _, sender, body)| match body {
            Body::Store(packet) => match &packet.message {
                Message::Slots(items) => *sender == from && items.iter().any(is_next),
                _ => false,
            },
            _ => false,
        })
    };
    word(&mut cluster, outside, first, Word::Learn { view: next.clone(), urgent: false });
    word(&mut cluster, outside, asker, Word::Seek { epoch });
    assert!(!told(&cluster));
    word(&mut cluster, outside, first, Word::View { view: next, entered: Sum(7) });
    word(&mut cluster, outside, asker, Word::Seek { epoch });
    assert!(told(&cluster));
}

/// Chaos seed 300430 over Chord: a view began with records that one of its members had, and a former one. The member died.
#[test]
fn members_catch_up_from_a_former_replica_when_no_member_has_the_records() {
    let mut cluster = Cluster::ready(4);
    cluster.put(0, "key", "old");
    cluster.run(Duration::from_secs(1));
    let member = |node: &usize| store(&cluster, *node).view(slot(&cluster)).is_some();
    let (inside, outside): (Vec<usize>, Vec<usize>) = (0..4).partition(member);
    let [first, second, former] = inside[..] else { panic!("there are three copies") };
    let new = record(&cluster, version(&cluster, 0), "new");
    for node in [first, former] {
        assert_eq!(accept(&mut cluster, node, second, &new), Verdict::Taken);
    }
    let mut next = view(&cluster, first).0;
    let probe = ballot(&cluster, 1, second);
    word(&mut cluster, first, second, Word::Freeze { epoch: next.epoch, ballot: probe });
    let (entered, _) = frozen(&cluster, probe).expect("it promises");
    // Every node holds some slot.
    let views = (0..cluster.config.slots).filter_map(|slot| store(&cluster, outside[0]).view(slot));
    let newcomers = views.flat_map(|(view, _)| view.members.clone());
    let id = cluster.places[outside[0]].contact.id;
    let newcomer = newcomers.into_iter().find(|member| member.id == id).expect("it holds another slot");
    let leaves = cluster.places[former].contact.id;
    next.epoch += 1;
    next.members.retain(|member| member.id != leaves);
    next.members.push(newcomer);
    next.members.sort();
    for node in 0..4 {
        let from = if node == first { second } else { first };
        word(&mut cluster, node, from, Word::View { view: next.clone(), entered });
    }
    cluster.wire.clear();
    cluster.crash(first);
    cluster.run(Duration::from_secs(60));
    assert_eq!(cluster.get(second, "key").as_deref(), Some("new"));
    assert!(view(&cluster, second).1 && view(&cluster, outside[0]).1);
}

fn says_learnt(cluster: &Cluster) -> bool {
    let says = |item: &Item| matches!(item.word, Word::Learnt { .. });
    cluster.wire.iter().any(|(.., body)| match body {
        Body::Store(packet) => matches!(&packet.message, Message::Slots(items) if items.iter().any(says)),
        _ => false,
    })
}

/// Four nodes of which one has just told the first member of the key's slot that it has the records: the cluster, the members,
/// that node, and the view.
fn learner_about_to_be_voted_in() -> (Cluster, Vec<usize>, usize, View) {
    let mut cluster = Cluster::ready(4);
    cluster.put(0, "key", "value");
    cluster.run(Duration::from_secs(10));
    let member = |node: &usize| store(&cluster, *node).view(slot(&cluster)).is_some();
    let (inside, outside): (Vec<usize>, Vec<usize>) = (0..4).partition(member);
    let old = view(&cluster, inside[0]).0;
    word(&mut cluster, outside[0], inside[0], Word::Learn { view: old.clone(), urgent: false });
    until(&mut cluster, |_, _| false, says_learnt);
    (cluster, inside, outside[0], old)
}

/// Chaos seed 300435 over Chord: a node left when it held nothing, and others had just voted for it.
#[test]
fn leaving_node_that_has_just_got_the_records_of_a_slot_waits_for_the_vote() {
    let (mut cluster, _, leaver, _) = learner_about_to_be_voted_in();
    let leave = cluster.command(leaver, Command::Leave);
    let left = |cluster: &Cluster| cluster.replies.iter().any(|(request, _)| *request == leave);
    let others = cluster.config.drain;
    cluster.run(Duration::from_secs(5));
    assert!(!left(&cluster), "those that were told may still vote for it");
    cluster.run(others * 2);
    assert!(left(&cluster), "it leaves when they had time to");
}

/// Chaos seed 800269 over Chord: what members have accepted is decided when they see each other again, however late that is.
#[test]
fn leaving_node_stays_while_members_have_accepted_a_view_with_it() {
    let (mut cluster, inside, leaver, old) = learner_about_to_be_voted_in();
    let (sponsor, epoch) = (inside[0], old.epoch);
    let leave = cluster.command(leaver, Command::Leave);
    let left = |cluster: &Cluster| cluster.replies.iter().any(|(request, _)| *request == leave);
    // It holds nothing else any more.
    until(&mut cluster, |_, _| false, |cluster| store(cluster, leaver).survey().slots == 0);
    let probe = ballot(&cluster, 1, 0);
    word(&mut cluster, inside[1], sponsor, Word::Freeze { epoch, ballot: probe });
    let (state, _) = frozen(&cluster, probe).expect("it promises");
    let born = 1 << 16 | 1;
    let mut members = old.members[..2].to_vec();
    members.push(Member { id: cluster.places[leaver].contact.id, born });
    let ballot = ballot(&cluster, 9, sponsor);
    for acceptor in &inside[1..] {
        let next = Next { members: members.clone(), state };
        word(&mut cluster, *acceptor, sponsor, Word::Propose { epoch, ballot, next });
    }
    cluster.cut = vec![(inside[0], inside[1]), (inside[0], inside[2]), (inside[1], inside[2])];
    cluster.run(Duration::from_secs(15));
    assert!(!left(&cluster), "two members have accepted a view with it");
    cluster.cut.clear();
    // The drain time is not over yet.
    cluster.run(Duration::from_secs(10));
    assert!(left(&cluster), "it was in the view, and is in none any more");
    assert!(!view(&cluster, inside[1]).0.members.contains(&members[2]));
    assert_eq!(cluster.get(inside[1], "key").as_deref(), Some("value"));
}

#[test]
fn who_missed_that_a_set_was_agreed_on_learns_it_from_those_that_take_a_value() {
    let mut cluster = Cluster::ready(3);
    cluster.act(0, "key", add("a")).expect("added");
    let held = cluster.places[0].seen.read(Space::Data, &cell().key.0).expect("the set is there");
    let again = Record::read(&cell(), &held).expect("sound").again(&cell(), version(&cluster, 0));
    let leader = view(&cluster, 0).0.members[0].id;
    let leader = (0..3).find(|node| cluster.places[*node].contact.id == leader).expect("one of them");
    for node in (0..3).filter(|node| *node != leader) {
        assert_eq!(accept(&mut cluster, node, leader, &again), Verdict::Taken);
    }
    cluster.act(leader, "key", add("b")).expect("added");
    assert_eq!(cluster.members(leader, "key"), ["a", "b"]);
}
