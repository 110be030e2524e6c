//! A whole node: one pure value, one way in. All dispatch between the layers happens here.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::{Config, OverlayKind};
use crate::contact::{Addr, Contact};
use crate::courier::{Courier, Ended};
use crate::edge::{Command, Ctx, Event, Failure, Input, Output, Raised, Refusal, Reply, RequestId, Timer};
use crate::id::{Key, NodeId};
use crate::message::{Body, Outcome, Payload, Receipt, Routed, Stage};
use crate::overlay::chord::{Chord, Lookup, Step};
use crate::overlay::pastry::{Message, Pastry};
use crate::overlay::{AnyOverlay, Memory, NextHop, Overlay, Status};
use crate::range::IdRange;
use crate::records::Gap;
use crate::store::{Store, Unreliable};
use crate::time::Time;

/// A Kringle node. Everything it learns comes in through [`Node::handle`], everything it wants done leaves through
/// the outbox of the call.
///
/// Neither clock nor random generator nor counters are part of it: two nodes that are equal behave equally.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    overlay: AnyOverlay,
    courier: Courier,
    store: Option<Box<Store>>,
    /// Requests of this node's user that wait for a receipt.
    requests: Vec<Request>,
    /// Those of them that are lookups node by node.
    lookups: Vec<Lookup>,
    /// When the request timer is set to fire, if it is.
    armed: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    serial: u32,
    request: RequestId,
    deadline: Time,
}

impl Node {
    /// Makes a Pastry node that is not part of a ring.
    pub fn pastry(id: NodeId, incarnation: u32, addr: Addr, config: &Config) -> Node {
        Node::over(AnyOverlay::Pastry(Pastry::new(Contact::new(id, incarnation, addr), config)))
    }

    /// Makes a Chord node that is not part of a ring.
    pub fn chord(id: NodeId, incarnation: u32, addr: Addr, _config: &Config) -> Node {
        Node::over(AnyOverlay::Chord(Chord::new(Contact::new(id, incarnation, addr))))
    }

    /// Makes a node of the overlay that the configuration names.
    pub fn by_config(id: NodeId, incarnation: u32, addr: Addr, config: &Config) -> Node {
        match config.overlay {
            OverlayKind::Pastry => Node::pastry(id, incarnation, addr, config),
            OverlayKind::Chord => Node::chord(id, incarnation, addr, config),
        }
    }

    /// Says that this identity has never been part of a ring, whatever its incarnation is: there is no earlier life whose
    /// promises have to be waited for. Whoever can not be sure must not say so.
    #[must_use]
    pub fn in_its_first_life(mut self) -> Node {
        match &mut self.overlay {
            AnyOverlay::Pastry(pastry) => pastry.set_first_life(),
            // No life of a Chord node promises anything to the next.
            AnyOverlay::Chord(_) => {}
            #[cfg(any(test, feature = "fake"))]
            AnyOverlay::Echo(_) => {}
        }
        self
    }

    /// Makes a node over the given overlay.
    pub fn over(overlay: AnyOverlay) -> Node {
        Node {
            overlay,
            courier: Courier::default(),
            store: None,
            requests: Vec::new(),
            lookups: Vec::new(),
            armed: None,
        }
    }

    /// Takes one input and puts what is to be done into `cx.out`. Cannot fail: what is wrong with an input is noted,
    /// and nothing else happens.
    pub fn handle(&mut self, input: Input, cx: &mut Ctx<'_>) {
        if let Some(store) = &mut self.store {
            store.start_clock(cx);
        }
        self.take(input, cx);
        self.react(cx);
        let done = self.store.as_mut().and_then(|store| store.may_leave(&self.overlay, cx.now));
        if let Some(request) = done {
            self.overlay.leave(request, cx);
            self.react(cx);
        }
        if let Some(store) = &mut self.store {
            store.hand_over(cx);
        }
    }

    fn take(&mut self, input: Input, cx: &mut Ctx<'_>) {
        match input {
            Input::Command { request, command } => self.command(request, command, cx),
            Input::Message { from, body } => self.message(from, body, cx),
            Input::Unsent { to, body } => self.unsent(to, body, cx),
            Input::Opened { peer } => self.overlay.on_opened(peer, cx),
            Input::Lost { peer } => {
                self.overlay.on_lost(peer, cx);
                if let Some(store) = &mut self.store {
                    store.on_lost(peer, &self.overlay, cx);
                }
            }
            Input::Timer(Timer::Hop) => {
                let ended = self.courier.on_timer(&mut self.overlay, cx);
                self.end_all(ended, cx);
            }
            Input::Timer(Timer::Request) => self.on_request_timer(cx),
            Input::Timer(Timer::Store) => {
                if let Some(store) = &mut self.store {
                    store.on_timer(&self.overlay, cx);
                }
            }
            Input::Timer(timer) => self.overlay.on_timer(timer, cx),
            Input::Forwarded { hop, verdict } => {
                let ended = self.courier.forwarded(hop, verdict, &self.overlay, cx);
                self.end_all(ended, cx);
            }
            Input::Answer { to, serial, hops, bytes } => {
                // An answer nobody could read is as good as none.
                let fits = |bytes: &Vec<u8>| bytes.len() <= crate::wire::PAYLOAD_MAX;
                if bytes.as_ref().is_some_and(|bytes| !fits(bytes)) {
                    cx.refuse(Refusal::Oversized);
                }
                self.answer((to, serial, hops), Outcome::Delivered(bytes.filter(fits)), cx);
            }
            Input::Unhandled { to, serial, hops } => self.answer((to, serial, hops), Outcome::Unhandled, cx),
            Input::DeliverRefused { routed } => {
                let ended = self.courier.refused(*routed, &mut self.overlay, cx);
                self.end_all(ended, cx);
            }
            Input::Persisted { ticket } => {
                if let Some(store) = &mut self.store {
                    store.persisted(ticket, &self.overlay, cx);
                }
            }
            Input::Reconfigured => {
                if let Some(store) = &mut self.store {
                    store.reconfigured(&self.overlay, cx);
                }
            }
            Input::Room { enough } => {
                if let Some(store) = &mut self.store {
                    store.set_room(enough, &self.overlay, cx);
                }
            }
            Input::Measured { peer, proximity } => self.overlay.on_measured(peer, proximity, cx),
        }
    }

    /// Tells the origin of a message what became of it here.
    fn answer(&mut self, (to, serial, hops): (Contact, u32, u8), outcome: Outcome, cx: &mut Ctx<'_>) {
        let receipt = Receipt { to, serial, hops, by: self.overlay.me(), outcome };
        let ended = self.courier.send_receipt(receipt, &self.overlay, cx);
        self.end_all(ended, cx);
    }

    /// Lets the other layers react to what the overlay reported, until nothing new is reported.
    fn react(&mut self, cx: &mut Ctx<'_>) {
        loop {
            let raised = cx.out.take_raised();
            if raised.is_empty() {
                return;
            }
            for raised in raised {
                let ended: Vec<Ended> = match raised {
                    Raised::Event(event) => {
                        let ended = self.courier.on_event(&event, &mut self.overlay, cx);
                        if let Some(store) = &mut self.store {
                            store.on_event(&event, &self.overlay, cx);
                        }
                        if let Event::Retired(id) = &event {
                            self.overlay.on_retired(*id, cx);
                        }
                        cx.out.push(Output::Event(event));
                        ended
                    }
                    Raised::Route(routed) => {
                        self.courier.accept(routed, &mut self.overlay, cx).into_iter().collect()
                    }
                };
                self.end_all(ended, cx);
            }
            if self.overlay.status() == Status::Out {
                self.end_requests(cx);
            }
        }
    }

    fn command(&mut self, request: RequestId, command: Command, cx: &mut Ctx<'_>) {
        match command {
            Command::Create | Command::Join { .. } | Command::Rejoin { .. }
                if self.overlay.status() == Status::Out =>
            {
                self.courier.seed(cx);
            }
            _ => {}
        }
        match command {
            Command::Create => {
                self.overlay.create(request, cx);
                if let Some(store) = &mut self.store {
                    store.found_cluster(&self.overlay, cx);
                }
            }
            Command::Join { seeds } => self.overlay.join(request, seeds, false, cx),
            Command::Rejoin { seeds } => {
                if let Some(store) = &mut self.store {
                    store.meet(&seeds);
                }
                self.overlay.join(request, seeds, true, cx);
            }
            Command::Meet { peers } => self.overlay.meet(request, peers, cx),
            Command::Leave => {
                let ready = Overlay::status(&self.overlay) == Status::Ready;
                let wait = match &mut self.store {
                    // What this node holds is handed over first.
                    Some(store) if ready || store.is_leaving() => !store.leave(request, &self.overlay, cx),
                    _ => false,
                };
                if !wait {
                    self.overlay.leave(request, cx);
                }
            }
            Command::Store { ask, deadline } => match &mut self.store {
                Some(store) => store.ask(request, ask, deadline, &self.overlay, cx),
                None => cx.out.push(Output::Reply { request, reply: Err(Failure::NoStore) }),
            },
            Command::Retire { id } => match &mut self.store {
                Some(store) => store.retire(request, id, &self.overlay, cx),
                None => cx.out.push(Output::Reply { request, reply: Err(Failure::NoStore) }),
            },
            Command::Recover { confirmed } => match &mut self.store {
                Some(store) => store.recover(request, confirmed, &self.overlay, cx),
                None => cx.out.push(Output::Reply { request, reply: Err(Failure::NoStore) }),
            },
            Command::Pause => {
                if let Some(store) = &mut self.store {
                    store.pause(&self.overlay, cx);
                }
                cx.out.push(Output::Reply { request, reply: Ok(Reply::Paused) });
            }
            Command::Lookup { key, trace, deadline } => {
                let payload = if trace { Payload::Trace(Box::default()) } else { Payload::Lookup };
                self.request(request, key, payload, deadline, cx);
            }
            Command::Walk { key, deadline } => self.walk(request, key, deadline, cx),
            Command::Route { app, .. } | Command::Send { app, .. }
                if app.bytes.len() > cx.config.payload as usize =>
            {
                cx.out.push(Output::Reply { request, reply: Err(Failure::TooLarge) });
            }
            Command::Send { to, app, deadline } => {
                self.request(request, to, Payload::Direct(Box::new(app)), deadline, cx);
            }
            Command::Route { key, app, deadline } => {
                self.request(request, key, Payload::App(Box::new(app)), deadline, cx);
            }
        }
    }

    /// Sends a message of this node's user on its way.
    fn request(
        &mut self,
        request: RequestId,
        key: Key,
        payload: Payload,
        deadline: Duration,
        cx: &mut Ctx<'_>,
    ) {
        let Some(serial) = self.open(request, deadline, cx) else { return };
        let origin = self.overlay.me();
        let routed = Routed { key, origin, payload, serial, hop: 0, hops: 0, stage: Stage::Prefix };
        let ended = self.courier.accept(routed, &mut self.overlay, cx);
        self.end_all(ended, cx);
    }

    /// Writes down that this node's user waits for something. Returns its number; `None`: it can not be now.
    fn open(&mut self, request: RequestId, deadline: Duration, cx: &mut Ctx<'_>) -> Option<u32> {
        let failure = match self.overlay.status() {
            Status::Ready if self.requests.len() < usize::from(cx.config.requests) => None,
            Status::Ready => Some(Failure::Busy),
            _ => Some(Failure::NotJoined),
        };
        if let Some(failure) = failure {
            cx.out.push(Output::Reply { request, reply: Err(failure) });
            return None;
        }
        // Not to be guessed by whoever has seen another one: a receipt is believed by its number.
        let mut serial = cx.dice.roll() as u32;
        while self.requests.iter().any(|open| open.serial == serial) {
            serial = serial.wrapping_add(1);
        }
        let deadline = cx.now.after(deadline.min(cx.config.deadline_max));
        self.requests.push(Request { serial, request, deadline });
        self.arm_requests(cx);
        Some(serial)
    }

    /// Starts a lookup node by node.
    fn walk(&mut self, request: RequestId, key: Key, deadline: Duration, cx: &mut Ctx<'_>) {
        if self.overlay.as_chord().is_none() {
            return cx.out.push(Output::Reply { request, reply: Err(Failure::NoRoute) });
        }
        let Some(serial) = self.open(request, deadline, cx) else { return };
        let AnyOverlay::Chord(chord) = &self.overlay else { return };
        let (lookup, step) = Lookup::start(chord, serial, key, cx);
        self.lookups.push(lookup);
        self.walk_on(serial, step, cx);
    }

    /// Does what a lookup wants next.
    fn walk_on(&mut self, serial: u32, step: Step, cx: &mut Ctx<'_>) {
        let (root, path) = match step {
            Step::Ask(to, message) => return cx.send(to, Body::Chord(message)),
            Step::Found(root, path) => (Some(root), path),
            Step::Lost => (None, Vec::new()),
        };
        self.lookups.retain(|lookup| lookup.serial() != serial);
        let Some(at) = self.requests.iter().position(|request| request.serial == serial) else { return };
        let request = self.requests.swap_remove(at).request;
        let hops = u8::try_from(path.len().saturating_sub(1)).unwrap_or(u8::MAX);
        let reply = match root {
            Some(root) => Ok(Reply::Found { root, hops, path, is_final: false }),
            None => Err(Failure::NoRoute),
        };
        cx.out.push(Output::Reply { request, reply });
    }

    fn message(&mut self, from: Contact, body: Body, cx: &mut Ctx<'_>) {
        if !self.overlay.on_heard(from, cx) {
            return self.overlay.on_twin(from, &body, cx);
        }
        match body {
            Body::Routed(routed) => {
                let ended = self.courier.receive(from, routed, &mut self.overlay, cx);
                self.end_all(ended, cx);
            }
            Body::HopAck(ack) => match self.courier.acknowledged(from, ack, &mut self.overlay, cx) {
                Some(ended) => self.end_all(ended, cx),
                None if self.overlay.on_ack(from, &ack, cx) => {}
                None => cx.refuse(Refusal::Unsolicited),
            },
            Body::Receipt(receipt) => self.receipt(*receipt, cx),
            Body::Store(packet) => {
                self.overlay.on_met(from, cx);
                match &mut self.store {
                    Some(store) => store.handle(from, *packet, &self.overlay, cx),
                    None => cx.refuse(Refusal::UnknownKind),
                }
            }
            Body::Chord(message) => {
                let me = self.overlay.me();
                let step = self.lookups.iter_mut().find_map(|lookup| {
                    lookup.handle(me, from, &message, cx).map(|step| (lookup.serial(), step))
                });
                match step {
                    Some((serial, step)) => self.walk_on(serial, step, cx),
                    None => self.overlay.handle(from, Body::Chord(message), cx),
                }
            }
            body => self.overlay.handle(from, body, cx),
        }
    }

    fn unsent(&mut self, to: Contact, body: Body, cx: &mut Ctx<'_>) {
        match body {
            Body::Routed(Routed { payload: Payload::Join(join), origin, .. })
                if origin.id == self.overlay.me().id =>
            {
                self.overlay.on_join_unsent(to, join.nonce, cx);
            }
            Body::Routed(routed) => {
                let ended = self.courier.unsent(to, routed.hop, &mut self.overlay, cx);
                self.end_all(ended, cx);
            }
            Body::Receipt(receipt) => {
                let ended = self.courier.route_receipt(receipt, &mut self.overlay, cx);
                self.end_all(ended, cx);
            }
            Body::Ping(_) | Body::Pastry(Message::LeafProbe(_)) => self.overlay.on_probe_unsent(to.id, cx),
            Body::Store(packet) => {
                if let Some(store) = &mut self.store {
                    store.unsent(to, *packet, &self.overlay, cx);
                }
            }
            Body::Chord(message) => {
                let lost = self.lookups.iter().find(|lookup| lookup.has_asked(to.id, &message));
                if let Some(serial) = lost.map(Lookup::serial) {
                    self.walk_on(serial, Step::Lost, cx);
                }
            }
            // Everything else is repeated by its own timer.
            _ => {}
        }
    }

    fn end_all(&mut self, ended: impl IntoIterator<Item = Ended>, cx: &mut Ctx<'_>) {
        for ended in ended {
            match ended {
                Ended::Own(receipt) => self.receipt(receipt, cx),
                Ended::Overlay(routed) => self.overlay.arrive(routed, cx),
            }
        }
    }

    /// A message of this node's user has ended.
    fn receipt(&mut self, receipt: Receipt, cx: &mut Ctx<'_>) {
        let Receipt { to, serial, hops, by, outcome } = receipt;
        if to.id != self.overlay.me().id {
            return cx.refuse(Refusal::Misrouted);
        }
        let Some(at) = self.requests.iter().position(|request| request.serial == serial) else {
            let root = matches!(outcome, Outcome::Found(_) | Outcome::Nearest(_)).then_some(by);
            let stores = self.store.as_mut();
            let stored = stores.is_some_and(|store| store.found(serial, root, hops, &self.overlay, cx));
            if !stored && !root.is_some_and(|root| self.overlay.on_found(serial, root, cx)) {
                cx.refuse(Refusal::Unsolicited);
            }
            return;
        };
        let request = self.requests.swap_remove(at).request;
        let reply = match outcome {
            Outcome::Found(path) => Ok(Reply::Found { root: by, hops, path, is_final: true }),
            Outcome::Nearest(path) => Ok(Reply::Found { root: by, hops, path, is_final: false }),
            Outcome::Delivered(answer) => Ok(Reply::Delivered { root: by, hops, answer }),
            Outcome::Stopped => Err(Failure::Stopped),
            Outcome::NotThere => Err(Failure::NotThere),
            Outcome::Unhandled => Err(Failure::Unhandled),
            Outcome::TooManyHops => Err(Failure::TooManyHops),
            Outcome::NoRoute => Err(Failure::NoRoute),
        };
        cx.out.push(Output::Reply { request, reply });
    }

    fn on_request_timer(&mut self, cx: &mut Ctx<'_>) {
        self.armed = None;
        self.requests.retain(|open| {
            let late = open.deadline <= cx.now;
            if late {
                cx.out.push(Output::Reply { request: open.request, reply: Err(Failure::Timeout) });
            }
            !late
        });
        let requests = &self.requests;
        self.lookups.retain(|lookup| requests.iter().any(|open| open.serial == lookup.serial()));
        self.arm_requests(cx);
    }

    fn arm_requests(&mut self, cx: &mut Ctx<'_>) {
        if let Some(earliest) = self.requests.iter().map(|request| request.deadline).min()
            && self.armed.is_none_or(|armed| earliest < armed)
        {
            self.armed = Some(earliest);
            cx.set_timer(Timer::Request, earliest.since(cx.now));
        }
    }

    /// The node is out of the ring: whatever its user waits for will not come.
    fn end_requests(&mut self, cx: &mut Ctx<'_>) {
        self.courier.clear();
        self.lookups.clear();
        if let Some(store) = &mut self.store {
            store.end(cx);
        }
        for open in core::mem::take(&mut self.requests) {
            cx.out.push(Output::Reply { request: open.request, reply: Err(Failure::Ended) });
        }
    }

    /// Reads what handling a message reads, and returns something made of it: the node's own fields, or what it would
    /// look up about the sender. A driver of very many nodes asks several of them before it hands over their inputs:
    /// then their memory is fetched at the same time.
    pub fn warm_up(&self, peer: Option<NodeId>) -> u32 {
        self.overlay.as_pastry().map_or(0, |pastry| pastry.warm_up(peer))
    }

    /// Returns this node.
    pub fn me(&self) -> Contact {
        self.overlay.me()
    }

    /// Returns how far the node has come into a ring.
    pub fn status(&self) -> Status {
        self.overlay.status()
    }

    /// Decides where a fresh message for a key would go.
    #[inline]
    pub fn next_hop(&self, key: Key) -> NextHop {
        self.overlay.next_hop(key, Stage::Prefix, &[], None)
    }

    /// Says whether this node would deliver a key right now: it is the nearest it knows of, and entitled to.
    pub fn delivers(&self, key: Key, now: Time, config: &Config) -> bool {
        self.next_hop(key) == NextHop::Here && self.overlay.entitled(now, config).is_some()
    }

    /// Returns the `n` nodes that should hold a key, nearest first, as far as this node can tell.
    pub fn replicas(&self, key: Key, n: usize) -> Vec<Contact> {
        self.overlay.replicas(key, n)
    }

    /// Returns the part of the ring this node answers for right now.
    pub fn range(&self) -> IdRange {
        self.overlay.range()
    }

    /// Returns the overlay, for looking at its tables.
    pub fn overlay(&self) -> &AnyOverlay {
        &self.overlay
    }

    /// Returns what services may know of the overlay.
    pub fn routes(&self) -> &dyn crate::overlay::Routes {
        &self.overlay
    }

    /// Gives the node a store.
    #[must_use]
    pub fn with_store(mut self, store: Store) -> Node {
        self.store = Some(Box::new(store));
        self
    }

    /// Tells the store that something is missing from its disk, or not what it was. To be followed by its timer.
    ///
    /// # Errors
    /// See [`Store::doubt_gaps`].
    pub fn doubt_gaps(&mut self, gaps: &[Gap], cx: &mut Ctx<'_>) -> Result<(), Unreliable> {
        match &mut self.store {
            Some(store) => store.doubt_gaps(gaps, cx.records, cx.config),
            None => Ok(()),
        }
    }

    /// Takes the store away, because its disk cannot be read. What it was asked to do ends without an answer, and a node
    /// that waits for its store to be handed over leaves without.
    pub fn remove_store(&mut self, cx: &mut Ctx<'_>) {
        let Some(mut store) = self.store.take() else { return };
        store.end(cx);
        if let Some(request) = store.give_up_leaving() {
            self.overlay.leave(request, cx);
            self.react(cx);
        }
    }

    /// Returns the store, if the node has one.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_deref()
    }

    /// Returns the heap memory of the overlay by part, and of messages under way, in bytes.
    pub fn memory(&self) -> (Memory, usize) {
        let requests = self.requests.capacity() * size_of::<Request>();
        (self.overlay.memory(), self.courier.heap_bytes() + requests)
    }

    /// Checks what must always hold inside a node. Tests and simulations call it after every input.
    ///
    /// # Panics
    /// If something does not hold: a mistake of ours.
    pub fn check_invariants(&self, config: &Config) {
        self.overlay.check_invariants();
        self.courier.check_invariants(config);
        assert!(self.requests.len() <= usize::from(config.requests));
        assert!(self.lookups.len() <= self.requests.len(), "every lookup has somebody who waits for it");
        if let Some(store) = &self.store {
            store.check_invariants(config);
        }
    }
}
