//! Histories written by hand: some are right, in others one promise is broken.

use super::*;

fn good(history: &[Operation]) {
    if let Err(finding) = check(history) {
        panic!("{finding}");
    }
}

/// Returns what the order of a key shows to be wrong, and how many operations it takes to show it.
fn register(history: &[Operation]) -> (String, usize) {
    let finding = register::check(history, &Rules::default()).expect_err("planted");
    assert_eq!((finding.checker, finding.key.as_str()), ("register", "k"));
    assert!(finding.to_string().lines().count() == finding.history.len() + 1, "{finding}");
    (finding.problem, finding.history.len())
}

fn set(history: &[Operation]) -> String {
    set::check(history, &Rules::default()).expect_err("planted").problem
}

#[test]
fn what_happens_in_order_is_right() {
    good(&[
        op(1, 0, 1, Action::Read, nothing()),
        op(1, 2, 3, write("a"), ok(10)),
        op(2, 4, 5, Action::Read, found("a", 10)),
        op(2, 6, 7, write_if("b", Condition::Version(Version(10))), ok(20)),
        op(1, 8, 9, write_if("c", Condition::Version(Version(10))), Outcome::ConditionFailed(Version(20))),
        op(1, 10, 11, delete(), ok(30)),
        op(1, 12, 13, write_if("d", Condition::Present), Outcome::ConditionFailed(Version::ZERO)),
        op(2, 14, 15, write_if("e", Condition::Absent), ok(40)),
        op(2, 16, 17, Action::Read, found("e", 40)),
    ]);
}

#[test]
fn what_happens_at_the_same_time_may_be_seen_in_any_one_order() {
    let writes = [op(1, 0, 100, write("a"), ok(10)), op(2, 0, 100, write("b"), ok(20))];
    let with = |reads: &[Operation]| [&writes[..], reads].concat();
    good(&with(&[
        op(3, 10, 20, Action::Read, nothing()),
        op(3, 30, 40, Action::Read, found("a", 10)),
        op(4, 35, 50, Action::Read, found("b", 20)),
    ]));
    let back =
        with(&[op(3, 30, 40, Action::Read, found("b", 20)), op(4, 41, 50, Action::Read, found("a", 10))]);
    assert_eq!(register(&back).0, "no order explains these answers");
    assert!(monotone::check(&back).expect_err("planted").problem.contains("stale"));
}

#[test]
fn what_is_not_known_may_happen_once_late_or_never() {
    let late = |reads: &[Operation]| {
        let writes = [op(1, 0, 2, write("a"), ok(10)), op(2, 3, 5, write("b"), unknown())];
        [&writes[..], reads].concat()
    };
    good(&late(&[op(3, 10, 11, Action::Read, found("a", 10))]));
    good(&late(&[
        op(3, 10, 11, Action::Read, found("a", 10)),
        op(3, 500, 501, Action::Read, found("b", 20)),
    ]));
    let twice = late(&[
        op(3, 10, 11, Action::Read, found("b", 20)),
        op(3, 12, 13, write("c"), ok(30)),
        op(3, 14, 15, Action::Read, found("b", 40)),
    ]);
    assert_eq!(register(&twice).1, 4, "all but the first write");
    good(&[
        op(1, 0, 1, write("a"), ok(10)),
        op(2, 2, 0, delete(), Outcome::Open),
        op(3, 3, 4, Action::Read, found("a", 10)),
        op(3, 5, 6, Action::Read, nothing()),
    ]);
}

/// An unknown outcome may come about late, but replaces nothing that was acknowledged and asked for long after it.
#[test]
fn what_is_overdue_replaces_nothing_acknowledged() {
    let strict = Rules { late: Some(Duration::from_secs(5)), ..Rules::default() };
    let history = |acknowledged: u64| {
        [
            op(1, 0, 2, write("a"), unknown()),
            op(2, acknowledged, acknowledged + 10, write("b"), ok(10)),
            op(3, acknowledged + 20, acknowledged + 30, Action::Read, found("a", 20)),
        ]
    };
    good(&history(5100));
    register::check(&history(4900), &strict).expect("it is not late");
    let finding = register::check(&history(5100), &strict).expect_err("overdue");
    assert!(finding.problem.starts_with("overdue: write a of unknown outcome replaced write b"), "{finding}");
    // What nobody acknowledged since may still come about, and so may what builds on what is there.
    let alone = [op(1, 0, 2, write("a"), unknown()), op(3, 9000, 9001, Action::Read, found("a", 20))];
    register::check(&alone, &strict).expect("nothing was replaced");
    let counts = [
        op(1, 0, 2, Action::Increment(4), unknown()),
        op(2, 6000, 6001, Action::Increment(1), counted(1, 10)),
        op(2, 6002, 6003, Action::Increment(2), counted(7, 20)),
    ];
    register::check(&counts, &strict).expect("increments undo nothing");

    let back = [
        op(1, 0, 2, add("a"), unknown()),
        op(2, 6000, 6001, remove("a"), ok(10)),
        op(3, 6010, 6011, Action::Members, members(&["a"])),
    ];
    good(&back);
    assert!(set::check(&back, &strict).expect_err("overdue").problem.contains("zombie"));
    let gone = [
        op(1, 0, 2, delete(), unknown()),
        op(2, 6000, 6001, add("a"), ok(10)),
        op(3, 6010, 6011, Action::Members, members(&[])),
    ];
    good(&gone);
    assert!(set::check(&gone, &strict).expect_err("overdue").problem.contains("lost"));
}

/// Forty increments of unknown outcome, and a number that says which of them have happened.
#[test]
fn numbers_tell_which_increments_happened() {
    let mut history: Vec<Operation> =
        (0..40).map(|n| op(n, u64::from(n), 50, Action::Increment(1 << n), unknown())).collect();
    let mut number = 0;
    for at in 0..20 {
        number += (1 << (2 * at)) + (1 << 50);
        let counted = counted(number, 10 + 10 * at);
        history.push(op(50, 100 + 10 * at, 101 + 10 * at, Action::Increment(1 << 50), counted));
    }
    let rules = Rules { budget: 1000, ..Rules::default() };
    let looked = register::check(&history, &rules).expect("there is an order");
    assert_eq!((looked.keys, looked.undecided), (1, Vec::new()));
    history.push(op(51, 900, 901, Action::Read, found(&(number + 1).to_string(), 999)));
    register::check(&history, &rules).expect_err("one increment twice");
}

#[test]
fn what_failed_for_good_is_never_seen() {
    let lie =
        [op(1, 0, 1, write("a"), Outcome::Failed(Happened::No)), op(2, 5, 6, Action::Read, found("a", 10))];
    assert_eq!(register(&lie).0, "a was read, and writing it was refused or asked for only later");
    let ledger = ledger::check(&lie, &Rules::default()).expect_err("planted");
    assert_eq!(ledger.problem, "a was said never to happen, and is there");
    assert_eq!(register(&[op(2, 5, 6, Action::Read, found("z", 1))]).0, "z was read and never written");
}

#[test]
fn a_lost_write_is_found() {
    let lost = [
        op(1, 0, 1, write("a"), ok(10)),
        op(3, 2, 3, Action::Read, found("a", 10)),
        op(2, 4, 5, write("b"), ok(20)),
        op(3, 6, 7, Action::Read, nothing()),
        op(3, 8, 9, Action::Read, nothing()),
    ];
    let (problem, length) = register(&lost);
    assert_eq!((problem.as_str(), length), ("lost: nothing was read after write b", 2));
    let ledger = ledger::check(&lost, &Rules::default()).expect_err("planted");
    assert_eq!(ledger.problem, "lost: a was acknowledged and is gone");
}

#[test]
fn a_stale_read_is_found() {
    let stale = [
        op(1, 0, 1, write("a"), ok(10)),
        op(1, 2, 3, write("b"), ok(20)),
        op(2, 3, 0, write("x"), Outcome::Open),
        op(2, 4, 5, Action::Read, found("a", 10)),
        op(2, 6, 7, Action::Read, found("b", 20)),
    ];
    let (problem, length) = register(&stale);
    assert_eq!((problem.as_str(), length), ("a stale read: a was read after write b", 2));
    assert!(monotone::check(&stale).expect_err("planted").problem.contains("a stale read"));
}

#[test]
fn two_successes_on_one_version_are_found() {
    let on = Condition::Version(Version(10));
    let double = [
        op(1, 0, 1, write("a"), ok(10)),
        op(2, 2, 9, write_if("b", on), ok(20)),
        op(3, 2, 9, write_if("c", on), ok(21)),
    ];
    assert_eq!(register(&double).0, "two conditional writes succeeded on va");
}

#[test]
fn a_condition_on_what_came_back_is_found() {
    // The same number again, but not the same version.
    let back = [
        op(1, 0, 1, write("1"), ok(10)),
        op(1, 2, 3, write("2"), ok(20)),
        op(1, 4, 5, write("1"), ok(30)),
        op(2, 6, 7, write_if("7", Condition::Version(Version(10))), ok(40)),
    ];
    assert_eq!(register(&back).0, "a conditional write succeeded on va, which had been replaced");
}

#[test]
fn a_delete_that_comes_undone_is_found() {
    let undone = [
        op(1, 0, 1, write("a"), ok(10)),
        op(1, 2, 3, delete(), ok(20)),
        op(2, 4, 5, Action::Read, nothing()),
        op(2, 6, 7, Action::Read, found("a", 10)),
    ];
    assert_eq!(register(&undone), ("a was deleted and is back".to_owned(), 2));
}

#[test]
fn counting_is_exact() {
    let increment = |client, from, to, outcome| op(client, from, to, Action::Increment(1), outcome);
    good(&[
        increment(1, 0, 10, counted(2, 20)),
        increment(2, 0, 10, counted(1, 10)),
        op(3, 11, 12, Action::Read, found("2", 20)),
    ]);
    good(&[
        increment(1, 0, 1, unknown()),
        increment(2, 2, 3, unknown()),
        increment(3, 4, 5, counted(2, 20)),
        increment(4, 6, 7, counted(4, 40)),
    ]);
    let one_too_many = [
        increment(1, 0, 1, unknown()),
        increment(3, 4, 5, counted(2, 20)),
        increment(4, 6, 7, counted(4, 40)),
    ];
    register(&one_too_many);
    register(&[increment(1, 0, 10, counted(1, 10)), increment(2, 0, 10, counted(1, 20))]);
}

#[test]
fn a_time_to_live_ends_in_time_and_not_before() {
    let slack = Duration::from_secs(5).as_millis() as u64;
    let life = 20_000;
    let with = |reads: &[Operation]| [&[op(1, 0, 10, write_for("a", life), ok(10))][..], reads].concat();
    let read = |at: u64, outcome| op(2, at, at + 1, Action::Read, outcome);
    good(&with(&[read(life - slack - 10, found("a", 10)), read(life + slack + 20, nothing())]));
    // Whoever is asked may be ahead or behind.
    good(&with(&[read(life, nothing()), read(life + 10, found("a", 10))]));
    register(&with(&[read(life - slack - 10, nothing())]));
    register(&with(&[read(life + slack + 20, found("a", 10))]));
    let keep = |ttl: Option<u64>| Action::Expire(ttl.map(Duration::from_millis));
    good(&with(&[op(1, 20, 30, keep(None), ok(20)), read(10 * life, found("a", 20))]));
    register(&with(&[op(1, 20, 30, keep(None), ok(20)), read(10 * life, nothing())]));
    let gone = [op(1, 0, 1, keep(None), Outcome::ConditionFailed(Version::ZERO))];
    good(&gone);
    // Store chaos, seed 21: the last time to live was given before the first read, though nobody was told so.
    good(&with(&[
        op(1, 20, 30, keep(None), ok(20)),
        op(1, 40, 50, keep(Some(life)), unknown()),
        read(life, found("a", 30)),
        read(life + 10, nothing()),
        read(life + 20, found("a", 30)),
    ]));
}

#[test]
fn one_version_is_one_value() {
    let two = [op(1, 0, 10, write("a"), ok(10)), op(2, 0, 10, write("b"), ok(10))];
    assert_eq!(monotone::check(&two).expect_err("planted").problem, "va is a and b");
}

#[test]
fn the_ledger_counts() {
    let history = [
        op(1, 0, 1, write("a"), ok(10)),
        op(1, 2, 3, write("b"), ok(20)),
        op(1, 4, 5, write("c"), unknown()),
        op(1, 6, 7, write("d"), unknown()),
        op(2, 8, 9, Action::Read, found("d", 30)),
    ];
    let ledger = ledger::check(&history, &Rules::default()).expect("nothing is lost");
    let expected =
        ledger::Ledger { acked: 2, present: 0, replaced: 2, unknown_present: 1, unknown_absent: 1 };
    assert_eq!(ledger, expected);
}

#[test]
fn sets_in_order_are_right() {
    good(&[
        op(1, 0, 1, add("x"), ok(1)),
        op(2, 0, 9, add("y"), ok(2)),
        op(3, 2, 3, Action::Members, members(&["x"])),
        op(3, 10, 11, Action::Members, members(&["x", "y"])),
        op(1, 12, 20, remove("x"), ok(3)),
        op(3, 13, 14, Action::Members, members(&["x", "y"])),
        op(4, 13, 14, Action::Members, members(&["y"])),
        op(3, 21, 22, Action::Members, members(&["y"])),
        op(1, 23, 24, add("z"), unknown()),
        op(3, 25, 26, Action::Members, members(&["y"])),
        op(3, 27, 28, Action::Members, members(&["y", "z"])),
    ]);
}

#[test]
fn a_lost_add_is_found() {
    let lost = [op(1, 0, 1, add("x"), ok(1)), op(2, 2, 3, Action::Members, members(&[]))];
    assert_eq!(set(&lost), "lost: x was added and is gone");
    let earlier = [
        op(1, 0, 1, remove("x"), ok(1)),
        op(1, 2, 3, add("x"), ok(2)),
        op(2, 4, 5, Action::Members, members(&[])),
    ];
    assert_eq!(set(&earlier), "lost: x was added and is gone", "a removal before it can not have seen it");
}

#[test]
fn a_value_that_was_read_and_vanishes_is_found() {
    let vanished = [
        op(1, 0, 1, add("x"), unknown()),
        op(2, 2, 3, Action::Members, members(&["x"])),
        op(2, 4, 5, Action::Members, members(&[])),
    ];
    assert_eq!(set(&vanished), "x was read, nobody removed it, and it is gone");
}

#[test]
fn a_zombie_is_found() {
    let removed = [
        op(1, 0, 1, add("x"), ok(1)),
        op(1, 2, 3, remove("x"), ok(2)),
        op(2, 4, 5, Action::Members, members(&["x"])),
    ];
    assert_eq!(set(&removed), "a zombie: x was gone and is back");
    let cleared = [removed[0].clone(), op(1, 2, 3, delete(), ok(2)), removed[2].clone()];
    assert_eq!(set(&cleared), "a zombie: x was gone and is back");
    let flickering = [
        op(1, 0, 1, add("x"), ok(1)),
        op(1, 2, 0, remove("x"), Outcome::Open),
        op(2, 4, 5, Action::Members, members(&[])),
        op(2, 6, 7, Action::Members, members(&["x"])),
    ];
    assert_eq!(set(&flickering), "a zombie: x was gone and is back");
    assert_eq!(set(&[op(2, 6, 7, Action::Members, members(&["x"]))]), "x came from nowhere");
}

#[test]
fn an_add_that_was_denied_is_named() {
    let lie =
        [op(1, 0, 1, add("x"), Outcome::Failed(Happened::No)), op(2, 6, 7, Action::Members, members(&["x"]))];
    assert_eq!(set(&lie), "x came from nowhere; adding it was said not to have happened");
}

#[test]
fn a_value_that_stays_may_get_a_higher_version() {
    let renewed = [
        op(1, 0, 1, write("a"), ok(10)),
        op(2, 2, 3, write_if("b", Condition::Version(Version(5))), Outcome::ConditionFailed(Version(15))),
        op(2, 4, 5, Action::Read, found("a", 15)),
        op(2, 6, 7, write_if("c", Condition::Version(Version(10))), Outcome::ConditionFailed(Version(15))),
    ];
    good(&renewed);
    let strict = Rules { renewals: false, ..Rules::default() };
    let finding = register::check(&renewed, &strict).expect_err("a version is for ever");
    assert_eq!((finding.problem.as_str(), finding.history.len()), ("a is at va and at vf", 2));
    // A write on a condition that took two ballots, and was read after the first.
    good(&[
        op(1, 0, 9, write_if("a", Condition::Absent), ok(20)),
        op(2, 2, 3, Action::Read, found("a", 10)),
        op(2, 10, 11, Action::Read, found("a", 20)),
    ]);
    let lower = [renewed[0].clone(), op(2, 4, 5, Action::Read, found("a", 5))];
    register(&lower);
}

#[test]
fn findings_can_be_read() {
    let undone = [
        op(1, 0, 1, write("a"), ok(10)),
        op(1, 2, 3, delete(), ok(20)),
        op(2, 6, 7, Action::Read, found("a", 10)),
    ];
    let text = register::check(&undone, &Rules::default()).expect_err("planted").to_string();
    let expected = "register: key k: a was deleted and is back
     0.002000s to    0.003000s  client 1   delete -> ok, v14
     0.006000s to    0.007000s  client 2   read -> a at va";
    assert_eq!(text, expected);
}
