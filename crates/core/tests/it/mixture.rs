//! Many inputs in no sensible order, from fixed seeds: whatever comes, the inner rules of a node hold, and every
//! command is answered exactly once.

use std::collections::BTreeMap;
use std::time::Duration;

use kringle_core::config::{Metric, Ownership, Settings};
use kringle_core::contact::{Addr, Contact, Proximity};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, Input, Output, RequestId, Timer, Verdict};
use kringle_core::id::Id;
use kringle_core::message::{Body, HopAck, Outcome, Payload, Receipt, Routed, Stage};
use kringle_core::overlay::Status;
use kringle_core::overlay::pastry::{
    Announce, Flank, Join, JoinRefusal, JoinReply, LeafProbe, LeafReply, LeaseRecall, LeaseReply,
    LeaseRequest, Message, Race, Versions, What,
};

use crate::harness::*;

/// The world around one node, played by dice.
struct Chaos {
    driver: Driver,
    dice: SeededDice,
    /// What the node has sent and nobody has answered yet.
    unanswered: Vec<(Contact, Body)>,
    next_request: u64,
    replies: BTreeMap<u64, usize>,
}

const ME: u32 = 0x1000_0000;

impl Chaos {
    fn new(seed: u64) -> Chaos {
        let mut dice = SeededDice::new(seed);
        let (leaf_set, replicas) = [(2, 0), (4, 1), (8, 3)][dice.below(3)];
        let settings = Settings {
            leaf_set,
            replicas,
            spares: dice.below(3) as u8,
            neighbourhood: [0, 2, 8][dice.below(3)],
            hop_attempts: 2 + dice.below(9) as u8,
            probes: [4, 512][dice.below(2)],
            transits: [2, 4096][dice.below(2)],
            requests: [1, 4096][dice.below(2)],
            help_queue: dice.below(3) as u8,
            budget_burst: [500, 65_536][dice.below(2)],
            find_nearby: dice.below(2) == 0,
            metric: [Metric::RoundTrip, Metric::Application][dice.below(2)],
            ownership: [Ownership::Lease, Ownership::Hint][dice.below(2)],
            ..Settings::default()
        };
        let driver = Driver::out(peer(ME), settings);
        Chaos { driver, dice, unanswered: Vec::new(), next_request: 0, replies: BTreeMap::new() }
    }

    /// One of few ids, so that the same ones meet again, mostly in the same life.
    fn contact(&mut self) -> Contact {
        let digits = match self.dice.below(12) {
            0 => ME,
            n => (n as u32 * 0x1555_0000) ^ ((self.dice.below(4) as u32) << 20),
        };
        let incarnation = if self.dice.below(20) == 0 { self.dice.below(4) as u32 } else { 1 };
        let addr = if self.dice.below(40) == 0 { Addr(3) } else { peer(digits).addr };
        Contact { incarnation, addr, ..peer(digits) }
    }

    fn contacts(&mut self) -> Vec<Contact> {
        (0..self.dice.below(6)).map(|_| self.contact()).collect()
    }

    fn key(&mut self) -> Id {
        if self.dice.below(2) == 0 { self.contact().id } else { key(self.dice.roll() as u32) }
    }

    fn what(&mut self) -> What {
        let (row, column) = (self.dice.below(40) as u8, self.dice.below(20) as u8);
        [What::LeafSet, What::Row(row), What::Cell { row, column }, What::Neighbourhood][self.dice.below(4)]
    }

    fn versions(&mut self) -> Versions {
        let mut count = || self.dice.below(9) as u32;
        Versions { leaf_set: count(), table: count(), neighbourhood: count() }
    }

    fn outcome(&mut self) -> Outcome {
        match self.dice.below(6) {
            0 => Outcome::Found(Vec::new()),
            5 => Outcome::Nearest(Vec::new()),
            1 => Outcome::Delivered(None),
            2 => Outcome::Stopped,
            3 => Outcome::TooManyHops,
            _ => Outcome::NoRoute,
        }
    }

    fn join(&mut self, nonce: u32) -> Join {
        let path = self.contacts().into_iter().map(|contact| (contact, Versions::default())).collect();
        Join { nonce, rows_done: self.dice.below(5) as u8, path, contacts: self.contacts() }
    }

    /// A message nobody is waiting for; nonces are small so that they fit now and then.
    fn unsolicited(&mut self) -> Body {
        let nonce = self.dice.below(20) as u32;
        let (contacts, versions) = (self.contacts(), self.versions());
        let (seen, round) = (Some(self.dice.below(5) as u32), self.dice.below(5) as u8);
        let proximity = Proximity(1 + self.dice.below(900_000) as u32);
        let side = [Flank::Left, Flank::Right][self.dice.below(2)];
        Body::Pastry(match self.dice.below(20) {
            16 => Message::LeaseRequest(Box::new(LeaseRequest {
                nonce,
                side,
                holds: nonce,
                leaves: contacts,
                same: nonce.is_multiple_of(4),
            })),
            17 => lease_reply(nonce, true, contacts),
            18 => Message::LeaseRecall(Box::new(LeaseRecall { nonce, side, nearer: self.contact() })),
            19 => {
                let nearer = (self.dice.below(2) == 0).then(|| self.contact().id);
                Message::LeaseReturn { nonce, nearer }
            }
            0 => return Body::Ping(nonce),
            1 => return Body::Pong(nonce),
            2 => return Body::PingVia { nonce, target: self.contact() },
            3 => return Body::PongVia { nonce, target: self.contact().id },
            4 => return Body::HopAck(HopAck { hop: nonce, taken: true, better: None }),
            5..=7 => return Body::Routed(self.routed(nonce)),
            8 => Message::JoinRefused { nonce, reason: JoinRefusal::Busy },
            9 => Message::LeafProbe(Box::new(LeafProbe { nonce, seen, leaves: contacts, digest: seen })),
            10 => Message::LeafReply(Box::new(LeafReply { nonce, version: 1, leaves: Some(contacts) })),
            11 => Message::Announce(Announce { seen: Some(versions), proximity, round }),
            12 => Message::Race(Box::new(Race { versions, round, contacts })),
            13 => request(nonce, self.what(), &contacts),
            14 => Message::Goodbye(Box::new(contacts)),
            _ => Message::Obituary(self.contact()),
        })
    }

    fn routed(&mut self, hop: u32) -> Routed {
        let (key, origin) = (self.key(), self.contact());
        let stage = [Stage::Prefix, Stage::Leaf][self.dice.below(2)];
        let (serial, hops) = (self.dice.below(30) as u32, self.dice.below(70) as u8);
        let outcome = self.outcome();
        let receipt = Receipt { to: self.contact(), serial, hops, by: origin, outcome };
        let (key, payload) = match self.dice.below(5) {
            0 => (key, Payload::Lookup),
            1 => (key, Payload::Trace(Box::default())),
            2 => (key, Payload::App(Box::new(app(b"bytes")))),
            3 => (origin.id, Payload::Join(Box::new(self.join(serial)))),
            _ => (receipt.to.id, Payload::Receipt(Box::new(receipt))),
        };
        Routed { key, origin, payload, serial, hop, hops, stage }
    }

    /// What somebody may answer to a message of the node, rightly or wrongly.
    fn answer(&mut self, body: &Body) -> Option<Body> {
        let contacts = self.contacts();
        Some(match body {
            Body::Ping(nonce) => Body::Pong(*nonce),
            Body::PingVia { nonce, target } => Body::PongVia { nonce: *nonce, target: target.id },
            Body::Pastry(Message::LeafProbe(probe)) => {
                leaf_reply(probe.nonce, (self.dice.below(2) == 0).then_some(&contacts[..]))
            }
            Body::Pastry(Message::LeaseRequest(ask)) => {
                let leaves = if self.dice.below(2) == 0 { Vec::new() } else { contacts };
                Body::Pastry(lease_reply(ask.nonce, self.dice.below(4) > 0, leaves))
            }
            Body::Pastry(Message::StateRequest(ask)) => {
                let what = if self.dice.below(4) == 0 { self.what() } else { ask.what };
                Body::Pastry(reply(ask.nonce, what, &contacts))
            }
            Body::Pastry(Message::Announce(announce)) => {
                let (versions, round) = (self.versions(), announce.round);
                Body::Pastry(Message::Race(Box::new(Race { versions, round, contacts })))
            }
            Body::Routed(routed) => match (&routed.payload, self.dice.below(5)) {
                (_, 0) => no_ack(routed.hop),
                (_, 1) => ack(routed.hop),
                (_, 2) => {
                    let better = Some(self.contact());
                    Body::HopAck(HopAck { hop: routed.hop, taken: true, better })
                }
                (Payload::Join(join), 3) if self.dice.below(3) == 0 => {
                    let reason = [JoinRefusal::Busy, JoinRefusal::IdTaken][self.dice.below(2)];
                    Body::Pastry(Message::JoinRefused { nonce: join.nonce, reason })
                }
                (Payload::Join(join), _) => {
                    let (join, whole) = (self.join(join.nonce), self.dice.below(2) == 0);
                    let versions = self.versions();
                    let reply = JoinReply { join, whole, leaves: contacts, versions };
                    Body::Pastry(Message::JoinReply(Box::new(reply)))
                }
                _ => {
                    let (to, by, outcome) = (routed.origin, self.contact(), self.outcome());
                    let receipt = Receipt { to, serial: routed.serial, hops: routed.hops, by, outcome };
                    Body::Receipt(Box::new(receipt))
                }
            },
            _ => return None,
        })
    }

    fn command(&mut self) -> Input {
        self.next_request += 1;
        let (key, deadline) = (self.key(), millis(self.dice.below(20_000) as u64));
        let command = match self.dice.below(10) {
            0 => Command::Create,
            1 | 2 => Command::Join { seeds: self.contacts() },
            3 => Command::Leave,
            4..=6 => Command::Lookup { key, trace: self.dice.below(2) == 0, deadline },
            _ => Command::Route { key, app: app(b"bytes"), deadline },
        };
        Input::Command { request: RequestId(self.next_request), command }
    }

    fn step(&mut self) {
        let waiting = self.unanswered.len();
        let input = match self.dice.below(20) {
            0..=9 if waiting > 0 => {
                let (from, body) = self.unanswered.swap_remove(self.dice.below(waiting));
                match (self.dice.below(12), self.answer(&body)) {
                    (0, _) | (_, None) => Input::Unsent { to: from, body },
                    (_, Some(body)) => Input::Message { from, body },
                }
            }
            0..=12 => Input::Message { from: self.contact(), body: self.unsolicited() },
            13 => self.command(),
            14 => {
                let to = peer(0x1555_0000);
                let verdicts = [Verdict::Stop, Verdict::Changed { to, app: app(b"other") }];
                let mut hops = self.unanswered.iter().filter_map(|(_, body)| match body {
                    Body::Routed(routed) => Some(routed.hop),
                    _ => None,
                });
                let hop = hops.next_back().unwrap_or(1);
                Input::Forwarded { hop, verdict: verdicts[self.dice.below(2)].clone() }
            }
            15 => Input::Measured { peer: self.contact().id, proximity: Proximity(self.dice.roll() as u32) },
            16 => Input::Timer(Timer::ALL[self.dice.below(Timer::ALL.len())]),
            _ => {
                let span = millis([1, 20, 300, 3000, 40_000][self.dice.below(5)]);
                let outputs = self.driver.wait(span);
                return self.note(outputs);
            }
        };
        let outputs = self.driver.feed(input);
        self.note(outputs);
    }

    fn note(&mut self, outputs: Vec<Output>) {
        for (request, _) in replies(&outputs) {
            *self.replies.entry(request).or_default() += 1;
        }
        for delivery in delivered(&outputs) {
            let Routed { origin: to, serial, hops, .. } = delivery;
            let outputs = self.driver.feed(Input::Answer { to, serial, hops, bytes: None });
            self.note(outputs);
        }
        // Refusing a joiner that has our id is the one thing a node has to say to it.
        let to_itself = sent(&outputs).into_iter().filter(|(to, _)| to.id == peer(ME).id);
        let is_refusal = |body: &Body| matches!(body, Body::Pastry(Message::JoinRefused { .. }));
        assert_eq!(to_itself.filter(|(_, body)| !is_refusal(body)).collect::<Vec<_>>(), []);
        self.unanswered.extend(sent(&outputs));
        let surplus = self.unanswered.len().saturating_sub(40);
        self.unanswered.drain(..surplus);
    }
}

#[test]
fn whatever_comes_the_inner_rules_hold_and_every_command_is_answered_once() {
    let mut reached = [0; 7];
    for seed in 0..400 {
        let mut chaos = Chaos::new(seed);
        for step in 0..300 {
            let before = chaos.driver.node.status();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| chaos.step()));
            assert!(result.is_ok(), "seed {seed}, step {step}, status {before:?}");
            reached[chaos.driver.node.status() as usize] += 1;
        }
        // Leaving ends everything that is still open.
        let outputs = chaos.driver.command(u64::MAX, Command::Leave);
        chaos.note(outputs);
        let outputs = chaos.driver.wait(Duration::from_secs(5));
        chaos.note(outputs);
        assert_eq!(chaos.driver.node.status(), Status::Out, "seed {seed}");
        let wrong: Vec<u64> =
            (1..=chaos.next_request).filter(|request| chaos.replies.get(request) != Some(&1)).collect();
        assert_eq!(wrong, [], "requests not answered once with seed {seed}: {:?}", chaos.replies);
    }
    assert!(reached.iter().all(|steps| *steps > 100), "a status is hardly ever reached: {reached:?}");
}

fn lease_reply(nonce: u32, granted: bool, leaves: Vec<Contact>) -> Message {
    Message::LeaseReply(Box::new(LeaseReply { nonce, granted, holds: 0, leaves, same: false }))
}
