//! Anything a peer may say: no panic, no endless talk, no growth without bound. Members of a cluster are trusted with
//! the data, so what is stored may be wrong afterwards; the node itself must not be.

use std::time::Duration;

use kringle_core::contact::{Addr, Contact};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::Input;
use kringle_core::id::Id;
use kringle_core::message::Body;
use kringle_core::store::coding::{Shared, Sum};
use kringle_core::store::message::{
    ClockReading, Compare, Item, Message, Packet, Response, SlotReport, Step, StoreReport, Verdict, Word,
};
use kringle_core::store::op::{
    Action, Answer, Ask, Change, Condition, Found, Happened, Level, Listed, Name, Trouble,
};
use kringle_core::store::record::{Cell, Kind, Origin, Rank, Record};
use kringle_core::store::version::Version;
use kringle_core::store::view::{Ballot, Member, Next, View};

use crate::cluster::*;

/// Draws messages whose parts fit together now and then.
struct Liar {
    dice: SeededDice,
    members: Vec<Contact>,
    slots: u32,
}

impl Liar {
    fn below(&mut self, end: u64) -> u64 {
        self.dice.roll() % end
    }

    fn name(&mut self) -> Name {
        match self.below(12) {
            0 => Name { id: Id::MAX, bytes: vec![0xff; 3] },
            1 => Name { id: Id::ZERO, bytes: Vec::new() },
            n => name(["a", "b", "c", "d"][n as usize % 4]),
        }
    }

    fn cell(&mut self) -> Cell {
        let name = self.name();
        match self.below(8) {
            0 => Cell { member: true, key: Shared(vec![1; 20].into()) },
            1 => Cell { member: false, key: Shared(Vec::new().into()) },
            2 => {
                // A member whose key is longer than it says.
                let mut key = Cell::members(&name);
                key.extend_from_slice(&[0; 40]);
                Cell { member: true, key: Shared(key.into()) }
            }
            3 | 4 => Cell::member(&name, digest("x")),
            _ => Cell::of(&name),
        }
    }

    fn version(&mut self) -> Version {
        match self.below(6) {
            0 => Version(self.dice.roll()),
            1 => Version(u64::MAX),
            2 => Version::ZERO,
            n => Version(Version::at(WALL + self.below(5000)).0 + n),
        }
    }

    fn record(&mut self, cell: &Cell) -> Shared {
        if self.below(10) == 0 {
            return Shared(vec![1; self.below(80) as usize].into());
        }
        let kind = match (cell.member, self.below(3)) {
            (true, 0) => Kind::MemberGone,
            (true, _) => Kind::Member,
            (false, 0) => Kind::Gone,
            (false, 1) => Kind::Set,
            (false, _) => Kind::Value,
        };
        let origin = Origin { node: self.id(), serial: self.below(3) as u32 };
        let (version, ends) = (self.version(), [0, 1, WALL + 100, u64::MAX][self.below(4) as usize]);
        let value = [b"12345678".as_slice(), b"", b"x", b"9223372036854775807"][self.below(4) as usize];
        Shared(Record::make(cell, kind, version, origin, ends, value).bytes().clone())
    }

    fn id(&mut self) -> Id {
        let at = self.below(self.members.len() as u64 + 1) as usize;
        self.members.get(at).map_or(Id::new(99), |contact| contact.id)
    }

    fn sum(&mut self) -> Sum {
        [Sum(0), Sum(u128::MAX), Sum(7)][self.below(3) as usize]
    }

    fn view(&mut self) -> View {
        let count = [0, 1, 2, 3, 3, 4, 16, 17][self.below(8) as usize];
        let members = (0..count).map(|_| Member { id: self.id(), born: self.below(6) as u32 }).collect();
        let epoch = [0, 1, 2, 5, 9, (1 << 40) + 2, u64::MAX][self.below(7) as usize];
        let survivors = (0..self.below(3)).map(|_| self.id()).collect();
        View { epoch, lineage: self.below(2), members, survivors }
    }

    fn word(&mut self) -> Word {
        let epoch = [0, 1, 4, 5, 6, u64::MAX][self.below(6) as usize];
        let ballot = Ballot { round: [0, 1, 7, u32::MAX - 1][self.below(4) as usize], node: self.id() };
        let state = self.sum();
        let next = Next { members: self.view().members, state };
        match self.below(19) {
            0 => Word::Freeze { epoch, ballot },
            1 => Word::Frozen { epoch, ballot, state, counts: true, accepted: Some((ballot, next)) },
            2 => Word::Settle { epoch, ballot, state },
            3 => Word::Settled { epoch, ballot, state },
            4 => Word::Propose { epoch, ballot, next },
            5 => Word::Accepted { epoch, ballot },
            6 => Word::Nack { epoch, promised: ballot },
            7 => Word::View { view: self.view(), entered: state },
            8 => Word::Seek { epoch },
            9 => Word::Learn { view: self.view(), urgent: self.below(2) == 0 },
            10 => Word::Learnt { epoch, born: 1 },
            11 => Word::State { epoch, state },
            12 => Word::Forget { epoch },
            13 => Word::Safe { epoch },
            14 => Word::Collect { epoch, state, before: self.version(), expired: self.dice.roll() },
            15 => Word::Same { epoch, state },
            16 => Word::Hurry { epoch },
            17 => Word::Rebuild { epoch, survivors: vec![self.id(), self.id()] },
            _ => Word::Stranger { born: self.below(3) as u32 },
        }
    }

    fn step(&mut self) -> Step {
        let cell = self.cell();
        match self.below(5) {
            0 => Step::Accept {
                record: self.record(&cell),
                cell,
                set: [None, Some(7)][self.below(2) as usize],
                agreed: [None, Some(Version(7))][self.below(2) as usize],
            },
            1 => Step::Prepare { cell, ballot: self.version() },
            2 => Step::Read { cell, known: Rank::default(), brief: self.below(2) == 0 },
            3 => Step::List {
                after: [None, Some(cell.clone())][self.below(2) as usize].clone(),
                cell,
                known: self.sum(),
            },
            _ => Step::Keys { after: cell, limit: [0, 5, u32::MAX][self.below(3) as usize] },
        }
    }

    fn verdict(&mut self) -> Verdict {
        let cell = self.cell();
        let record = self.record(&cell);
        let listed = Listed { name: self.name(), version: self.version(), is_set: true, expires: None };
        match self.below(15) {
            0 | 1 => Verdict::Taken,
            2 => Verdict::Refused(self.version()),
            3 => Verdict::Promised(Some(record)),
            4 => Verdict::Promised(None),
            5 => Verdict::Same,
            6 => Verdict::Holds(Some(record)),
            7 => Verdict::Ranked(Rank::default(), self.version()),
            8 => Verdict::Listed(vec![(cell, record)], self.below(2) == 0),
            9 => Verdict::Keys(vec![listed], self.below(2) == 0),
            10 => Verdict::OtherSet(Some(record)),
            11 => Verdict::WrongView(self.below(9)),
            12 => Verdict::NotReady,
            13 => Verdict::Ahead,
            _ => Verdict::NoSpace,
        }
    }

    fn action(&mut self) -> Action {
        let ttl = [None, Some(Duration::ZERO), Some(Duration::MAX)][self.below(3) as usize];
        let value = b"7".to_vec();
        let put = Change::Put { value: value.clone(), ttl };
        let changes = [put, Change::Delete, Change::Increment(i64::MAX), Change::Expire(ttl)];
        let conditions = [Condition::Always, Condition::Absent, Condition::Version(self.version())];
        match self.below(7) {
            0 => Action::Get,
            1 | 2 => Action::Change {
                change: changes[self.below(4) as usize].clone(),
                condition: conditions[self.below(3) as usize],
            },
            3 => Action::Add { digest: digest("x"), value, ttl },
            4 => Action::Remove { digest: digest("x") },
            5 => Action::Members,
            _ => Action::Keys { after: vec![0xff; 4], limit: u32::MAX },
        }
    }

    fn message(&mut self) -> Message {
        let nonce = (self.below(40) << 16 | self.below(6) << 8 | [0, 1, 255][self.below(3) as usize]) as u32;
        let slot = self.below(u64::from(self.slots) + 1) as u32;
        match self.below(15) {
            0 | 1 => {
                let ask = Ask { name: self.name(), action: self.action(), level: Level::Quorum };
                let patience = [0, 100, u32::MAX][self.below(3) as usize];
                let (version, turn) = (self.version(), self.below(3) as u8);
                Message::Ask {
                    serial: nonce,
                    ask,
                    version,
                    patience,
                    turn,
                    at: self.dice.roll(),
                    until: self.dice.roll(),
                }
            }
            2 => {
                let found = Found::Value(None);
                let answer = Answer { found, acked: 1, wanted: 1, replicas: 1, hops: 0 };
                let trouble = Trouble::TooFewReplicas { acked: 0, wanted: 9, happened: Happened::No };
                let all = [
                    Response::Done(answer),
                    Response::Failed(trouble),
                    Response::Outdated(self.version()),
                    Response::Elsewhere { begun: false },
                ];
                Message::Answer { serial: nonce, response: all[self.below(4) as usize].clone(), turn: 1 }
            }
            3 | 4 => {
                let epoch = [1, 4, 5, 6][self.below(4) as usize];
                Message::Do { nonce, slot, epoch, step: self.step() }
            }
            5 | 6 => Message::Did { nonce, verdict: self.verdict(), age: self.below(3) },
            7 | 8 => {
                let count = self.below(4);
                Message::Slots((0..count).map(|_| Item { slot, word: self.word() }).collect())
            }
            9 => {
                let parts = vec![self.sum(); [0, 64, 65][self.below(3) as usize]];
                Message::Pull {
                    nonce: nonce & 0xff,
                    slot,
                    parts,
                    after: Some(self.cell()),
                    any: self.below(2) == 0,
                    bytes: 1,
                    doubts: self.below(2) == 0,
                    doubted: vec![7; self.below(3) as usize],
                }
            }
            10 => {
                let cell = self.cell();
                let record = self.record(&cell);
                let (epoch, state, ready) = (self.below(7), self.sum(), self.below(2) == 0);
                let (parts, more) = (vec![0, 63, 64, u16::MAX], self.below(2) == 0);
                let nonce = self.below(200) as u32;
                let records = vec![(cell, record)];
                Message::Page { nonce, epoch, state, ready, parts, records, more }
            }
            11 => Message::Clock(ClockReading {
                nonce,
                is_answer: self.below(2) == 0,
                time: self.dice.roll(),
                wall: self.dice.roll(),
                settled: self.below(2) == 0,
                hybrid: self.version(),
                born: self.below(3) as u32,
                retired: if self.below(50) == 0 { vec![Id::new(99)] } else { Vec::new() },
                has_room: self.below(5) > 0,
                leaving: self.below(8) == 0,
            }),
            12 => Message::Survey { freeze: self.below(4) == 0 },
            13 => {
                let members = vec![self.id()];
                let stuck = vec![SlotReport { slot, epoch: self.below(9), records: 5, ready: true, members }];
                Message::Surveyed(StoreReport { lineage: 1, healthy: vec![1], stuck })
            }
            _ => {
                let reply = [None, Some(true), Some(false)][self.below(3) as usize];
                let (sum, age, known) = (self.sum(), self.below(9), self.below(9));
                Message::Compare(Compare { sum, reply, born: 3, age, known })
            }
        }
    }
}

#[test]
fn no_message_brings_a_store_down() {
    for seed in 0..12 {
        let mut cluster = Cluster::ready(4);
        for key in ["a", "b", "c"] {
            cluster.put(0, key, "v");
        }
        let members: Vec<Contact> = cluster.places.iter().map(|place| place.contact).collect();
        let mut liar = Liar { dice: SeededDice::new(seed), members, slots: cluster.config.slots };
        for n in 0..4_000 {
            let message = liar.message();
            let to = liar.below(4) as usize;
            let from = match liar.below(5) as usize {
                at if at < 4 => cluster.places[at].contact,
                _ => Contact::new(Id::new(77), 1, Addr(3)),
            };
            let contacts = if liar.below(4) == 0 { liar.members.clone() } else { Vec::new() };
            let body = Body::Store(Box::new(Packet { message, contacts }));
            cluster.input(to, Input::Message { from, body });
            if n % 7 == 0 {
                let action = liar.action();
                let key = ["a", "b", "c", "d"][liar.below(4) as usize];
                cluster.ask(liar.below(4) as usize, key, action, Level::Quorum);
            }
            if n % 5 == 0 {
                cluster.run(Duration::from_millis(1));
            }
            assert!(cluster.wire.len() < 5_000, "seed {seed}: the nodes talk without end");
        }
        cluster.run(Duration::from_secs(10));
        let asked = cluster.replies.len();
        assert!(asked >= 4_000 / 7, "seed {seed}: every request is answered, {asked}");
    }
}
