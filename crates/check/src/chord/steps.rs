//! Steps of one node: the shipped machine is run once for every state and input, and remembered.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use kringle_core::config::ClusterId;
use kringle_core::contact::Contact;
use kringle_core::message::Body;
use kringle_core::overlay::chord::Message;
use kringle_core::overlay::chord::ring::{Effect, Query, Ring, RingTimer, Rules};
use kringle_core::wire::{self, IndexBook};

use super::hash::Numbers;
use super::parts::{Armed, Flight, FlightNo, Known, Node, NodeNo, OPEN, PROBED, Parts, STALE};
use super::world::{World, contact, place};

/// What can happen to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Deliver(FlightNo),
    Fire(Fired),
    /// It is born, comes back, or starts over: joins through the node at this place, in this life of it.
    Join {
        via: u8,
        life: u32,
    },
    /// A suspect has been silent for long.
    Forget(u8),
    /// The overlay's own probes find one gone that it lists.
    Lost {
        peer: u8,
        life: u32,
    },
    /// The node at this place has closed the question of this number.
    Close {
        asker: u8,
        number: u32,
    },
}

/// Timers as a world fires them: it knows the open question of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fired {
    Tick,
    Rectify,
    Keepalive,
    Request,
    Rejoin,
    Probe,
}

impl Input {
    fn key(self) -> u64 {
        let (kind, rest) = match self {
            Input::Deliver(flight) => (0, u64::from(flight)),
            Input::Fire(timer) => (1, timer as u64),
            Input::Join { via, life } => (2, u64::from(via) | u64::from(life & 0xffff) << 8),
            Input::Forget(at) => (3, at.into()),
            Input::Lost { peer, life } => (5, u64::from(peer) | u64::from(life & 0xffff) << 8),
            Input::Close { asker, number } => (4, u64::from(asker) | u64::from(number) << 8),
        };
        kind << 28 | rest
    }
}

/// What came of a step.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) node: NodeNo,
    /// Where what it sends begins and ends: see [`Steps::sent`].
    pub(super) sent: (u32, u32),
    /// The question that was open is not any more.
    pub(super) closed: bool,
    /// The last round of questions to suspects is not the last any more.
    pub(super) closed_probe: bool,
    /// Things worth seeing once, as bits: the position in [`SEEN`].
    pub(super) seen: u16,
    /// A rule about single steps that this one breaks.
    pub(super) broken: Option<&'static str>,
}

/// Things a search should meet, or its world is idle.
pub(super) const SEEN: [&str; 7] = [
    "a node joined",
    "a join started again",
    "a query was given up for others",
    "a better successor was found",
    "a predecessor was replaced",
    "a successor was suspected",
    "a suspect came back",
];

/// A node that panics, or finds itself in a state it must not be in.
pub(super) const OWN_RULES: &str = "no node breaks its own rules";
/// R-20, as far as it can be seen from outside.
pub(super) const ADOPTED: &str = "a first successor is adopted when it answers";
///
pub(super) const TOLD: &str = "whoever has stabilized tells its first successor";
/// What is sent is what is received.
pub(super) const CODEC: &str = "the codec changes no message";

/// All steps taken so far.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) parts: Parts,
    rules: Rules,
    outcomes: Vec<Outcome>,
    /// What all of them send, one after the other.
    sent: Vec<FlightNo>,
    by_input: HashMap<u64, u32, Numbers>,
}

impl Steps {
    pub(super) fn new(world: World) -> Steps {
        Steps {
            parts: Parts::new(world),
            rules: world.rules(),
            outcomes: Vec::new(),
            sent: Vec::new(),
            by_input: HashMap::default(),
        }
    }

    /// Returns a founder in the state it starts in.
    pub(super) fn founder(&mut self, at: u8, members: &[Contact]) -> NodeNo {
        let mut ring = Ring::new(contact(at, 1), PROBED);
        let mut out = Vec::new();
        ring.start_ring(members, &self.rules, &mut out);
        self.after(ring, Armed::default(), out, None).node
    }

    /// Takes a step of the node at a place.
    pub(super) fn step(&mut self, at: u8, node: NodeNo, input: Input) -> &Outcome {
        // Nobody's state says whose it is.
        let born_at = if self.parts.node(node).live { 0 } else { u64::from(at) + 1 };
        let key = born_at << 60 | u64::from(node) << 32 | input.key();
        let no = match self.by_input.get(&key) {
            Some(no) => *no,
            None => {
                let outcome = self.run(at, node, input);
                self.outcomes.push(outcome);
                let no = (self.outcomes.len() - 1) as u32;
                self.by_input.insert(key, no);
                no
            }
        };
        &self.outcomes[no as usize]
    }

    fn run(&mut self, at: u8, node: NodeNo, input: Input) -> Outcome {
        let known = self.parts.node(node);
        let before = known.ring().cloned();
        let life = known.incarnation();
        let (mut ring, mut armed) = match &known.node {
            Node::Live(ring, armed) => ((**ring).clone(), *armed),
            Node::Unborn | Node::Dead(_) => (Ring::new(contact(at, life + 1), PROBED), Armed::default()),
        };
        let rules = self.rules;
        let mut out = Vec::new();
        let sender = match input {
            Input::Deliver(flight) => Some(self.parts.flight(flight).flight.from),
            _ => None,
        };
        let message = match input {
            Input::Deliver(flight) => Some(self.parts.flight(flight).flight.message.clone()),
            _ => None,
        };
        if let Input::Fire(timer) = input {
            armed.clear(ring_timer(timer, &ring));
        }
        let handled = catch_unwind(AssertUnwindSafe(|| {
            match input {
                Input::Deliver(_) => {
                    if let (Some(from), Some(message)) = (sender, message) {
                        ring.receive(from, message, &rules, &mut out);
                    }
                }
                Input::Fire(timer) => ring.fire(ring_timer(timer, &ring), &rules, &mut out),
                Input::Join { via, life } => ring.start_join(contact(via, life), &rules, &mut out),
                Input::Forget(suspect) => ring.forget(contact(suspect, 0).id, &rules),
                Input::Lost { peer, life } => ring.lost(contact(peer, life), &rules, &mut out),
                Input::Close { asker, number } => {
                    let asker = contact(asker, 0).id;
                    ring.renumber(
                        PROBED,
                        |of, nonce| {
                            if of == asker && nonce == number { STALE } else { nonce }
                        },
                    );
                }
            }
            // Without a rule a node may well be in a state it must not be in.
            if rules.without.is_none() {
                ring.check_invariants(&rules);
            }
        }));
        if handled.is_err() {
            return Outcome {
                node,
                sent: (0, 0),
                closed: false,
                closed_probe: false,
                seen: 0,
                broken: Some(OWN_RULES),
            };
        }
        let answered = match input {
            Input::Deliver(_) => sender,
            _ => None,
        };
        let broken = before.as_ref().and_then(|before| breaks(before, &ring, &out, answered));
        let mut outcome = self.after(ring, armed, out, before.as_ref());
        outcome.broken = outcome.broken.or(broken);
        outcome
    }

    /// Carries out what a node wants done, and gives its questions the numbers that every state has.
    fn after(
        &mut self,
        mut ring: Ring,
        mut armed: Armed,
        out: Vec<Effect>,
        before: Option<&Ring>,
    ) -> Outcome {
        let me = ring.ptr();
        let nonce = |ring: &Ring| ring.cur_request().and_then(|request| request.message.nonce());
        let open = nonce(&ring);
        let mut probed = None;
        let joined = before.is_some_and(|before| before.pred() != ring.pred() && before.pred().is_some());
        let mut seen = u16::from(joined && ring.pred().is_some()) << 4;
        ring.renumber(PROBED, |of, nonce| match nonce {
            _ if of != me.id => nonce,
            _ if Some(nonce) == open => OPEN,
            _ => {
                probed = Some(nonce);
                PROBED
            }
        });
        let (first, mut broken) = (self.sent.len() as u32, None);
        for effect in out {
            match effect {
                Effect::Send(to, mut message) => {
                    // Answers keep the number that the asker gave to the question.
                    let asks = message.is_question() || matches!(message, Message::Ping { .. });
                    if let Some(nonce) = message.nonce().filter(|_| asks) {
                        let number = |kept| match Some(nonce) {
                            this if this == open => OPEN,
                            this if this == kept => PROBED,
                            _ => STALE,
                        };
                        message.set_nonce(number(probed));
                    }
                    if self.parts.world.codec {
                        match through_codec(&message) {
                            Some(decoded) if decoded == message => message = decoded,
                            _ => broken = Some(CODEC),
                        }
                    }
                    let no = self.parts.flight_no(Flight { from: me, to: place(to.id), message });
                    self.sent.push(no);
                }
                Effect::Arm(timer) => armed.arm(timer),
                Effect::Clear(timer) => armed.clear(timer),
                Effect::Joined => seen |= 1,
                Effect::JoinEnded(_) => seen |= 1 << 1,
                Effect::GaveUp => seen |= 1 << 2,
                Effect::Suspected(_) => seen |= 1 << 5,
                Effect::Cleared(_) => seen |= 1 << 6,
                Effect::Refused(_) | Effect::Committed | Effect::Expelled(_) => {}
            }
        }
        let closed = before.is_some_and(|before| nonce(before).is_some() && open != Some(OPEN));
        if let Some(Query::Stabilize2(_)) = ring.cur_request().map(|request| request.query) {
            seen |= 1 << 3;
        }
        armed.0 &= Armed::needed(&ring).0;
        let node = self.parts.node_no(Node::Live(Box::new(ring), armed));
        let closed_probe = probed.is_some_and(|probed| probed != PROBED);
        let sent = (first, self.sent.len() as u32);
        Outcome { node, sent, closed, closed_probe, seen, broken }
    }

    /// Returns a message that a step sends.
    #[inline]
    pub(super) fn sent(&self, nth: u32) -> FlightNo {
        self.sent[nth as usize]
    }

    /// Returns how many states of nodes, messages and steps there are.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let (nodes, flights) = self.parts.counts();
        (nodes, flights, self.outcomes.len())
    }
}

fn ring_timer(timer: Fired, ring: &Ring) -> RingTimer {
    let open = ring.cur_request().map(|request| (request.target.id, request.message.nonce()));
    match (timer, open) {
        (Fired::Tick, _) => RingTimer::Tick,
        (Fired::Rectify, _) => RingTimer::RectifyTick,
        (Fired::Keepalive, _) => RingTimer::KeepaliveTick,
        (Fired::Rejoin, _) => RingTimer::Rejoin,
        (Fired::Probe, _) => RingTimer::Probe,
        (Fired::Request, Some((target, nonce))) => {
            RingTimer::Request { target, nonce: nonce.unwrap_or_default() }
        }
        (Fired::Request, None) => RingTimer::Request { target: ring.ptr().id, nonce: STALE },
    }
}

/// Looks at one step by itself.
fn breaks(before: &Ring, after: &Ring, out: &[Effect], from: Option<Contact>) -> Option<&'static str> {
    let refused = out.iter().any(|effect| matches!(effect, Effect::Refused(_)));
    let head = after.succ_list().first();
    let knew = |head: &Contact| before.extended().iter().any(|known| known.id == head.id);
    if let Some(head) = head.filter(|head| !knew(head))
        && from.is_none_or(|from| from.id != head.id)
    {
        return Some(ADOPTED);
    }
    let stabilizes = |ring: &Ring| {
        matches!(
            ring.cur_request().map(|request| request.query),
            Some(Query::Stabilize | Query::Stabilize2(_))
        )
    };
    let gave_up = out.contains(&Effect::GaveUp);
    let ended = stabilizes(before) && after.cur_request().is_none() && !refused && !gave_up;
    let tells = |head: &Contact| {
        out.iter().any(|effect| matches!(effect, Effect::Send(to, Message::Notify) if to.id == head.id))
    };
    let told = head.is_none_or(tells);
    (ended && from.is_some() && !told).then_some(TOLD)
}

/// Sends a message through the codec. `None` if it does not come out.
fn through_codec(message: &Message) -> Option<Message> {
    let mut bytes = Vec::new();
    wire::encode(&Body::Chord(message.clone()), ClusterId::default(), &IndexBook, &mut bytes);
    match wire::decode(&bytes, ClusterId::default(), &mut IndexBook) {
        Ok((Body::Chord(decoded), length)) if length == bytes.len() => Some(decoded),
        _ => None,
    }
}

/// What a node looks like in a schedule.
pub(super) fn describe(known: &Known) -> String {
    let Some(ring) = known.ring() else { return "gone".into() };
    let names =
        |list: &[Contact]| list.iter().map(|node| place(node.id).to_string()).collect::<Vec<_>>().join(" ");
    let pred = ring.pred().map_or("-".into(), |pred| place(pred.id).to_string());
    let mut text = format!("pred {pred}, succ [{}]", names(ring.succ_list()));
    if !ring.joined() {
        text = "not joined".into();
    }
    if !ring.suspects().is_empty() {
        text += &format!(", suspects [{}]", names(ring.suspects()));
    }
    if let Some(candidate) = ring.rectify_with() {
        text += &format!(", candidate {}", place(candidate.id));
    }
    if let Some(request) = ring.cur_request() {
        let query = match request.query {
            Query::Join(_) => "Join",
            Query::Join2(_) => "Join2",
            Query::Stabilize => "Stabilize",
            Query::Stabilize2(_) => "Stabilize2",
            Query::Merge(_) => "Merge",
            Query::Rectify(_) => "Rectify",
        };
        text += &format!(", {query} at {}", place(request.target.id));
    }
    if !ring.delayed_queries().is_empty() {
        let waiting: Vec<Contact> = ring.delayed_queries().iter().map(|(source, _)| *source).collect();
        text += &format!(", {} wait", names(&waiting));
    }
    text
}
