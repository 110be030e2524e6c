//! A stand-in overlay for tests of the edge: no ring, no tables. Every key is its own, every echo is returned.

use alloc::vec::Vec;
use core::time::Duration;

use super::timing::Timing;
use super::{Memory, NextHop, Overlay, Status};
use crate::config::Config;
use crate::contact::{Contact, Proximity};
use crate::edge::{Ctx, Event, Output, Refusal, Reply, RequestId, Timer};
use crate::id::{Closeness, Key, NodeId};
use crate::message::{Body, HopAck, Nonce, Routed, Rule, Stage};
use crate::range::IdRange;
use crate::time::Time;

/// Echoes until a count runs out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Echo {
    me: Contact,
    status: Status,
    heard: u32,
    /// Everybody else, who of them is away, and whether they are told apart at all.
    others: Vec<Contact>,
    away: Vec<NodeId>,
}

impl Echo {
    /// Makes a node that echoes.
    pub fn new(me: Contact) -> Echo {
        Echo { me, status: Status::Out, heard: 0, others: Vec::new(), away: Vec::new() }
    }

    /// Makes a node that knows everybody, and believes what it is told about who is away. For tests of services.
    pub fn among(me: Contact, others: Vec<Contact>) -> Echo {
        Echo { me, status: Status::Out, heard: 0, others, away: Vec::new() }
    }

    fn present(&self) -> impl Iterator<Item = Contact> + '_ {
        self.others.iter().copied().filter(|other| !self.away.contains(&other.id))
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

    fn next_hop(&self, key: Key, _: Stage, _: &[NodeId], _: Option<NodeId>) -> NextHop {
        if self.status != Status::Ready {
            return NextHop::NotReady;
        }
        let nearest = self.present().chain([self.me]).min_by_key(|node| key.closeness(node.id));
        match nearest {
            Some(node) if node.id != self.me.id => NextHop::Peer(node, Rule::LeafSet),
            _ => NextHop::Here,
        }
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

    fn replicas(&self, key: Key, n: usize) -> Vec<Contact> {
        let mut nodes: Vec<Contact> = self.present().chain([self.me]).collect();
        nodes.sort_by_key(|node| key.closeness(node.id));
        nodes.truncate(n);
        nodes
    }

    fn covers(&self, _: Key) -> bool {
        true
    }

    fn rank(&self, key: Key, node: NodeId) -> Closeness {
        key.closeness(node)
    }

    fn range(&self) -> IdRange {
        IdRange::Full
    }

    fn neighbours(&self) -> Vec<Contact> {
        self.present().collect()
    }

    fn contact(&self, id: NodeId) -> Option<Contact> {
        self.others.iter().copied().chain([self.me]).find(|node| node.id == id)
    }

    fn proximity(&self, _: NodeId, _: &Ctx<'_>) -> Option<Proximity> {
        None
    }

    fn timing(&self) -> Timing {
        Timing::default()
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

    fn on_met(&mut self, _: Contact, _: &mut Ctx<'_>) {}

    fn on_opened(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        self.away.retain(|away| *away != peer);
        if let Some(contact) = self.contact(peer) {
            cx.out.raise(Event::PeerUp(contact));
            cx.out.raise(Event::NeighboursChanged);
        }
    }

    fn on_lost(&mut self, peer: NodeId, cx: &mut Ctx<'_>) {
        if let Some(contact) = self.contact(peer)
            && !self.away.contains(&peer)
        {
            self.away.push(peer);
            cx.out.raise(Event::PeerDown(contact));
            cx.out.raise(Event::NeighboursChanged);
        }
    }

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

    fn on_found(&mut self, _: u32, _: Contact, _: &mut Ctx<'_>) -> bool {
        false
    }

    fn arrive(&mut self, _: Routed, cx: &mut Ctx<'_>) {
        cx.refuse(Refusal::WrongOverlay);
    }

    fn on_measured(&mut self, _: NodeId, _: Proximity, _: &mut Ctx<'_>) {}

    fn check_invariants(&self) {}

    fn memory(&self) -> Memory {
        Memory::default()
    }
}
