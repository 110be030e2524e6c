//! Samples of what stores say to each other: every shape there is, with the values at the edges.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::samples::{everybody, last};
use super::*;
use crate::store::coding::{Shared, Sum};
use crate::store::message::{
    ClockReading, Compare, Item, Message, Packet, Response, SlotReport, Step, StoreReport, Verdict, Word,
};
use crate::store::op::{
    Action, Answer, Ask, Change, Condition, CopyAt, Digest, Found, Happened, Level, Listed, Name, Trouble,
    Value,
};
use crate::store::record::{Cell, Kind, Origin, Rank, Record};
use crate::store::version::Version;
use crate::store::view::{Ballot, Member, Next, View};

const END: Version = Version(u64::MAX);

fn name() -> Name {
    Name { id: Id::new(7), bytes: b"greeting".to_vec() }
}

fn record() -> (Cell, Shared) {
    let (cell, origin) = (Cell::of(&name()), Origin { node: Id::MAX, serial: 9 });
    let record = Record::make(&cell, Kind::Value, Version(77), origin, u64::MAX, b"hello");
    (cell, Shared(record.bytes().clone()))
}

fn view() -> View {
    let members = vec![Member { id: Id::ZERO, born: 0 }, Member { id: Id::MAX, born: u32::MAX }];
    View { epoch: u64::MAX, lineage: 1, members, survivors: vec![Id::MAX] }
}

fn asks() -> Vec<Message> {
    let ttl = Some(Duration::from_millis(1500));
    let change = |change, condition| Action::Change { change, condition };
    let value = || vec![0, 255];
    let actions = [
        Action::Get,
        change(Change::Put { value: value(), ttl }, Condition::Always),
        change(Change::Put { value: Vec::new(), ttl: None }, Condition::Absent),
        change(Change::Delete, Condition::Version(END)),
        change(Change::Increment(i64::MIN), Condition::Present),
        change(Change::Expire(None), Condition::Always),
        Action::Add { digest: Digest([7; 16]), value: value(), ttl },
        Action::Remove { digest: Digest([0; 16]) },
        Action::Members,
        Action::Place,
        Action::Keys { after: b"a".to_vec(), limit: u32::MAX },
    ];
    let levels = [Level::One, Level::Quorum, Level::All];
    actions
        .into_iter()
        .zip(levels.into_iter().cycle())
        .map(|(action, level)| Message::Ask {
            serial: u32::MAX,
            ask: Ask { name: name(), action, level },
            version: END,
            patience: 2000,
            turn: 3,
            at: u64::MAX,
            until: u64::MAX,
        })
        .collect()
}

fn answers() -> Vec<Message> {
    let value = Value { bytes: b"v".to_vec(), version: END, expires: Some(1) };
    let listed = Listed { name: name(), version: END, is_set: true, expires: None };
    let copies = vec![CopyAt { node: Id::MAX, version: Some(END) }, CopyAt { node: Id::ZERO, version: None }];
    let found = [
        Found::Value(None),
        Found::Value(Some(value.clone())),
        Found::Changed { version: END, created: true, number: Some(-1) },
        Found::Members(vec![value]),
        Found::Place { slot: 4095, epoch: 3, copies },
        Found::Keys { keys: vec![listed], next: Some((Id::MAX, b"k".to_vec())) },
        Found::Keys { keys: Vec::new(), next: None },
    ];
    let done = found.map(|found| Response::Done(Answer { found, acked: 2, wanted: 2, replicas: 3, hops: 1 }));
    let troubles = [
        Trouble::TooFewReplicas { acked: 1, wanted: 2, happened: Happened::Some },
        Trouble::Timeout { happened: Happened::Unknown },
        Trouble::ConditionFailed(END),
        Trouble::WrongKind,
        Trouble::TooLarge { limit: u32::MAX },
        Trouble::OutOfRange,
        Trouble::BadRequest,
        Trouble::NoSpace { happened: Happened::Some },
        Trouble::ClockOff,
        Trouble::Busy,
        Trouble::Damaged,
    ];
    let failed = troubles.map(Response::Failed);
    let rest = [Response::Outdated(END), Response::Elsewhere { begun: false }];
    let all = done.into_iter().chain(failed).chain(rest);
    all.map(|response| Message::Answer { serial: 1, response, turn: 3 }).collect()
}

fn steps() -> Vec<Message> {
    let (cell, record) = record();
    let member = Cell::member(&name(), Digest([9; 16]));
    let rank = Rank { ballot: END, set: u64::MAX, sum: Sum(u128::MAX) };
    let steps = [
        Step::Accept { cell: cell.clone(), record, set: None, agreed: None },
        Step::Accept {
            cell: member,
            record: Shared(Vec::new().into()),
            set: Some(u64::MAX),
            agreed: Some(END),
        },
        Step::Prepare { cell: cell.clone(), ballot: END },
        Step::Read { cell: cell.clone(), known: rank, brief: true },
        Step::List { cell: cell.clone(), known: Sum(1), after: Some(cell.clone()) },
        Step::Keys { after: cell, limit: 1000 },
    ];
    steps
        .into_iter()
        .map(|step| Message::Do { nonce: u32::MAX, slot: 65_535, epoch: u64::MAX, step })
        .collect()
}

fn verdicts() -> Vec<Message> {
    let (cell, record) = record();
    let listed = Listed { name: name(), version: END, is_set: false, expires: Some(0) };
    let verdicts = [
        Verdict::Taken,
        Verdict::Refused(END),
        Verdict::Promised(None),
        Verdict::Promised(Some(record.clone())),
        Verdict::Same,
        Verdict::Holds(Some(record.clone())),
        Verdict::Ranked(Rank::default(), END),
        Verdict::Listed(vec![(cell, record.clone())], true),
        Verdict::Keys(vec![listed], true),
        Verdict::OtherSet(Some(record)),
        Verdict::WrongView(u64::MAX),
        Verdict::NotReady,
        Verdict::NoSpace,
        Verdict::Ahead,
        Verdict::Malformed,
    ];
    verdicts.into_iter().map(|verdict| Message::Did { nonce: 0, verdict, age: u64::MAX }).collect()
}

fn words() -> Vec<Message> {
    let (epoch, ballot, state) = (u64::MAX, Ballot { round: u32::MAX, node: Id::MAX }, Sum(u128::MAX));
    let next = Next { members: view().members, state };
    let words = [
        Word::Freeze { epoch, ballot },
        Word::Frozen { epoch, ballot, state, counts: true, accepted: Some((ballot, next.clone())) },
        Word::Settle { epoch, ballot, state },
        Word::Settled { epoch, ballot, state },
        Word::Propose { epoch, ballot, next },
        Word::Accepted { epoch, ballot },
        Word::Nack { epoch, promised: ballot },
        Word::View { view: view(), entered: state },
        Word::Seek { epoch },
        Word::Learn { view: view(), urgent: true },
        Word::Hurry { epoch },
        Word::Rebuild { epoch, survivors: vec![Id::MAX] },
        Word::Learnt { epoch, born: u32::MAX },
        Word::State { epoch, state },
        Word::Forget { epoch },
        Word::Safe { epoch },
        Word::Collect { epoch, state, before: END, expired: u64::MAX },
        Word::Same { epoch, state },
        Word::Stranger { born: 1 },
    ];
    let one = |word| Message::Slots(vec![Item { slot: 1, word }]);
    let all = Message::Slots(words.iter().map(|word| Item { slot: 65_535, word: word.clone() }).collect());
    words.into_iter().map(one).chain([Message::Slots(Vec::new()), all]).collect()
}

/// Messages of one kind; their order names the golden files: add at the end.
pub(super) fn samples_of(kind: BodyKind) -> Vec<Body> {
    let (cell, record) = record();
    let (nonce, epoch, state) = (1, u64::MAX, Sum(2));
    let messages = match kind {
        BodyKind::StoreAsk => asks(),
        BodyKind::StoreAnswer => answers(),
        BodyKind::StoreDo => steps(),
        BodyKind::StoreDid => verdicts(),
        BodyKind::StoreSlots => words(),
        BodyKind::StorePull => vec![
            Message::Pull {
                nonce,
                slot: 0,
                parts: Vec::new(),
                after: None,
                any: false,
                bytes: 0,
                doubts: false,
                doubted: Vec::new(),
            },
            Message::Pull {
                nonce,
                slot: 1,
                parts: vec![Sum(u128::MAX); 64],
                after: Some(cell),
                any: true,
                bytes: 8192,
                doubts: true,
                doubted: vec![7, u64::MAX],
            },
        ],
        BodyKind::StorePage => vec![
            Message::Page {
                nonce,
                epoch: 0,
                state,
                ready: false,
                parts: vec![],
                records: vec![],
                more: false,
            },
            Message::Page {
                nonce,
                epoch,
                state,
                ready: true,
                parts: vec![0, 63],
                records: vec![(cell, record)],
                more: true,
            },
        ],
        BodyKind::StoreCompare => vec![
            Message::Compare(Compare { sum: state, reply: None, born: 0, age: 0, known: 0 }),
            Message::Compare(Compare {
                sum: state,
                reply: Some(true),
                born: u32::MAX,
                age: 1,
                known: u64::MAX,
            }),
        ],
        BodyKind::StorePausing => vec![Message::Pausing],
        BodyKind::StoreClock => vec![
            Message::Clock(ClockReading {
                nonce: 0,
                is_answer: false,
                time: 0,
                wall: 0,
                settled: false,
                hybrid: Version::ZERO,
                born: 0,
                retired: Vec::new(),
                has_room: false,
                leaving: false,
            }),
            Message::Clock(ClockReading {
                nonce: u32::MAX,
                is_answer: true,
                time: u64::MAX,
                wall: u64::MAX,
                settled: true,
                hybrid: END,
                born: u32::MAX,
                retired: vec![Id::MAX],
                has_room: true,
                leaving: true,
            }),
        ],
        BodyKind::StoreSurvey => vec![Message::Survey { freeze: false }, Message::Survey { freeze: true }],
        BodyKind::StoreSurveyed => {
            let stuck = SlotReport { slot: 1, epoch, records: 7, ready: true, members: vec![Id::MAX] };
            vec![Message::Surveyed(StoreReport { lineage: 5, healthy: vec![255, 0], stuck: vec![stuck] })]
        }
        _ => Vec::new(),
    };
    let packet = |(n, message)| {
        let contacts = match n % 3 {
            0 => Vec::new(),
            1 => vec![last()],
            _ => everybody(),
        };
        Body::Store(Box::new(Packet { message, contacts }))
    };
    messages.into_iter().enumerate().map(packet).collect()
}
