use kringle_core::id::Id;
use kringle_core::store::op::{CopyAt, Value};

use super::*;
use crate::batch::{Batch, Outcome, chains};

fn answer(found: Found) -> Answer {
    Answer { found, acked: 2, wanted: 2, replicas: 3, hops: 1 }
}

const COPIES: Copies = Copies { acked: 2, wanted: 2, all: 3 };

#[test]
fn what_is_told_is_what_was_said() {
    let mut put = Told::change("k", Change::Put { value: b"v".to_vec(), ttl: None });
    put.set_ttl(Duration::from_secs(9));
    put.set_condition(Condition::Absent);
    let change = Change::Put { value: b"v".to_vec(), ttl: Some(Duration::from_secs(9)) };
    assert_eq!(put.action, Action::Change { change, condition: Condition::Absent });
    assert_eq!((put.name, put.level), (name_of("k"), Level::Quorum));
}

#[test]
fn answers_are_taken_apart() {
    let changed = |number| answer(Found::Changed { version: Version(7), created: true, number });
    let expected = Written { version: Version(7), created: true, copies: COPIES, hops: 1 };
    assert_eq!(written(&changed(None)), Ok(expected));
    assert!(!removed(&changed(None), true).unwrap().existed, "there was nothing before");
    assert_eq!(removed(&changed(None), false), Ok(Removed { existed: true, copies: COPIES, hops: 1 }));
    assert_eq!(counted(&changed(Some(-3))), Ok(Counted { number: -3, written: expected }));
    assert!(counted(&changed(None)).is_err());
    let value = Value { bytes: b"v".to_vec(), version: Version(7), expires: Some(1500) };
    let stored = read(answer(Found::Value(Some(value)))).unwrap().unwrap();
    assert_eq!(stored.expires, Some(UNIX_EPOCH + Duration::from_millis(1500)));
    assert_eq!(read(answer(Found::Value(None))), Ok(None));
    assert!(read(answer(Found::Members(Vec::new()))).is_err());
}

#[test]
fn places_keep_their_order() {
    let copy = |id, version| CopyAt { node: Id::new(id), version };
    let copies = vec![copy(3, Some(Version(7))), copy(1, None), copy(2, Some(Version::ZERO))];
    let place = placed(answer(Found::Place { slot: 4, epoch: 5, copies })).unwrap();
    let seen: Vec<CopyState> = place.copies.iter().map(|copy| copy.state).collect();
    assert_eq!(seen, [CopyState::At(Version(7)), CopyState::Silent, CopyState::Nothing]);
}

#[test]
fn moments_beyond_every_clock_do_not_break_it() {
    assert!(moment(u64::MAX) > UNIX_EPOCH);
}

#[test]
fn a_batch_keeps_the_operations_of_one_key_in_their_order() {
    let batch = Batch::new().put("a", "1").get("b").increment("a", 2).delete("b").add("c", "x").get("a");
    assert_eq!(batch.len(), 6);
    let chains = chains(&batch);
    assert_eq!(chains, [vec![0, 2, 5], vec![1, 3], vec![4]]);
}

#[test]
fn every_answer_of_a_batch_has_its_kind() {
    let changed = answer(Found::Changed { version: Version(7), created: false, number: Some(3) });
    assert!(
        matches!(Outcome::of(Some(true), changed.clone()), Ok(Outcome::Removed(removed)) if removed.existed)
    );
    assert!(matches!(Outcome::of(None, changed), Ok(Outcome::Counted(counted)) if counted.number == 3));
    let none = answer(Found::Value(None));
    assert!(matches!(Outcome::of(None, none), Ok(Outcome::Value(None))));
    let values = answer(Found::Members(Vec::new()));
    assert!(matches!(Outcome::of(None, values), Ok(Outcome::Values(values)) if values.is_empty()));
}
