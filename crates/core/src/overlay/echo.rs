//! A stand-in overlay for tests of the edge: no ring, no tables. Every key is its own, every echo is returned.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Memory, NextHop, Overlay, Status};
use crate::config::Config;
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Event, Output, Refusal, Reply, RequestId, Timer};
use crate::id::{Key, NodeId};
use crate::message::{Body, HopAck, Nonce, Routed, Stage};
use crate::range::IdRange;
use crate::time::Time;

/// Echoes until a count runs out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Echo {
    me: Contact,
    status: Status,
    heard: u32,
}

impl Echo {
    /// Makes a node that echoes.
    pub fn new(me: Contact) -> Echo {
        Echo { me, status: Status::Out, heard: 0 }
    }

    /// Returns how many echoes have come in.
    pub fn heard(&self) -> u32 {
        self.heard
    }

    fn start(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        self.status = Status::Ready;
        cx.out.raise(Event::StatusChanged(Status::Ready));
        cx.out.push(Output::Reply { request, reply: Ok(Reply::Joined) });
    }
}

impl Overlay for Echo {
    fn me(&self) -> Contact {
        self.me
    }

    fn status(&self) -> Status {
        self.status
    }

    fn next_hop(&self, _: Key, _: Stage, _: &[NodeId], _: Option<NodeId>) -> NextHop {
        if self.status == Status::Ready { NextHop::Here } else { NextHop::NotReady }
    }

    fn entitled(&self, _: Time, _: &Config) -> Option<Time> {
        Some(Time::from_micros(u64::MAX))
    }

    fn is_waking(&self, _: Time) -> bool {
        false
    }

    fn has_leases(&self) -> bool {
        false
    }

    fn replicas(&self, _: Key, n: usize) -> Vec<Contact> {
        core::iter::once(self.me).take(n).collect()
    }

    fn range(&self) -> IdRange {
        IdRange::Full
    }

    fn neighbours(&self) -> Vec<Contact> {
        Vec::new()
    }

    fn proximity(&self, _: NodeId, _: &Ctx<'_>) -> Option<Proximity> {
        None
    }

    fn create(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        self.start(request, cx);
    }

    /// Sends every seed a ball that is to bounce 100 times.
    fn join(&mut self, request: RequestId, seeds: Vec<Contact>, _back: bool, cx: &mut Ctx<'_>) {
        self.start(request, cx);
        for seed in seeds {
            cx.send(seed, Body::Echo(100));
        }
    }

    fn meet(&mut self, request: RequestId, _: Vec<Contact>, cx: &mut Ctx<'_>) {
        cx.out.push(Output::Reply { request, reply: Ok(Reply::Joined) });
    }

    fn leave(&mut self, request: RequestId, cx: &mut Ctx<'_>) {
        self.status = Status::Out;
        cx.out.push(Output::Reply { request, reply: Ok(Reply::Left) });
    }

    fn on_heard(&mut self, _: Contact, _: &mut Ctx<'_>) -> bool {
        true
    }

    fn on_twin(&mut self, _: Contact, _: &Body, _: &mut Ctx<'_>) {}

    fn handle(&mut self, from: Contact, body: Body, cx: &mut Ctx<'_>) {
        match body {
            Body::Echo(left) => {
                self.heard += 1;
                if left > 0 {
                    cx.send(from, Body::Echo(left - 1));
                }
            }
            _ => cx.refuse(Refusal::WrongOverlay),
        }
    }

    fn on_timer(&mut self, _: Timer, _: &mut Ctx<'_>) {}

    fn on_silent(&mut self, _: Contact, _: &mut Ctx<'_>) {}

    fn on_join_unsent(&mut self, _: Contact, _: Nonce, _: &mut Ctx<'_>) {}

    fn on_opened(&mut self, _: NodeId, _: &mut Ctx<'_>) {}

    fn on_lost(&mut self, _: NodeId, _: &mut Ctx<'_>) {}

    fn on_answered(&mut self, _: Contact, _: Option<Duration>, _: &mut Ctx<'_>) {}

    fn on_probe_unsent(&mut self, _: NodeId, _: &mut Ctx<'_>) {}

    fn on_ack(&mut self, _: Contact, _: &HopAck, _: &mut Ctx<'_>) -> bool {
        false
    }

    fn on_better_hop(&mut self, _: Contact, _: &mut Ctx<'_>) {}

    fn better_hop(&self, _: NodeId, _: Key) -> Option<Contact> {
        None
    }

    fn pass(&mut self, _: &mut Routed, _: &mut Ctx<'_>) {}

    fn arrive(&mut self, _: Routed, cx: &mut Ctx<'_>) {
        cx.refuse(Refusal::WrongOverlay);
    }

    fn on_measured(&mut self, _: NodeId, _: Proximity, _: &mut Ctx<'_>) {}

    fn check_invariants(&self) {}

    fn memory(&self) -> Memory {
        Memory::default()
    }
}
