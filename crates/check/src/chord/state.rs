//! A world in one moment, what can happen next, and what comes of it.

use super::hash::mix;
use super::parts::{
    FlightNo, KEEPALIVE, Kind, Known, KnownFlight, Node, NodeNo, OPEN, PROBE, PROBED, Parts, Places, RECTIFY,
    REJOIN, STALE, each, only,
};
use super::steps::{Fired, Input, Steps};
use super::world::{IDS_MAX, World, contact};

/// A world in one moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Who is where; places beyond the world's ids stay as they are.
    pub(super) nodes: [NodeNo; IDS_MAX as usize],
    /// What is on its way: a set, in order of the numbers.
    pub(super) flight: Vec<FlightNo>,
    pub(super) left: Left,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) joins: u8,
    pub(super) failures: u8,
    pub(super) restarts: u8,
    pub(super) false_timeouts: u8,
    pub(super) losses: u8,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Deliver(FlightNo),
    Lose(FlightNo),
    Fire(u8, Fired),
    /// The request timer fires though the answer would come.
    FalseTimeout(u8),
    /// A node's open question and its answer are delivered.
    Exchange(u8),
    /// A node joins, starts over or comes back, through another.
    Join(u8, u8),
    Forget(u8, u8),
    /// The overlay's own probes find one gone that a node lists.
    Lost(u8, u8),
    Fail(u8),
}

/// What a step has shown besides the state it leads to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) seen: u16,
    pub(super) broken: Option<&'static str>,
}

impl Clone for State {
    fn clone(&self) -> State {
        State { nodes: self.nodes, flight: self.flight.clone(), left: self.left }
    }

    /// Keeps the room that is there: a search does this for every step.
    fn clone_from(&mut self, other: &State) {
        (self.nodes, self.left) = (other.nodes, other.left);
        self.flight.clone_from(&other.flight);
    }
}

impl State {
    /// Returns the ring of the founders.
    pub(super) fn start(steps: &mut Steps) -> State {
        let world = steps.parts.world;
        let members: Vec<_> = world.places().map(|at| contact(at, 1)).collect();
        let unborn = steps.parts.node_no(Node::Unborn);
        let mut nodes = [unborn; IDS_MAX as usize];
        for at in world.places() {
            nodes[usize::from(at)] = steps.founder(at, &members);
        }
        let World { joins, failures, restarts, false_timeouts, losses, .. } = world;
        State { nodes, flight: Vec::new(), left: Left { joins, failures, restarts, false_timeouts, losses } }
    }

    pub(super) fn node<'a>(&self, at: u8, parts: &'a Parts) -> &'a Known {
        parts.node(self.nodes[usize::from(at)])
    }

    /// Returns the running nodes with their places.
    pub(super) fn live<'a>(&'a self, parts: &'a Parts) -> impl Iterator<Item = (u8, &'a Known)> {
        let all = (0..parts.world.ids).map(|at| (at, self.node(at, parts)));
        all.filter(|(_, known)| known.live)
    }

    /// Returns where running members are.
    pub(super) fn members(&self, parts: &Parts) -> Places {
        self.live(parts).filter(|(_, known)| known.joined).fold(0, |set, (at, _)| set | only(at))
    }

    fn flights<'a>(&'a self, parts: &'a Parts) -> impl Iterator<Item = (FlightNo, &'a KnownFlight)> {
        self.flight.iter().map(|no| (*no, parts.flight(*no)))
    }

    /// Says whether the open question of a node can still be answered: it is on its way to somebody who runs, waits
    /// there, or the answer is on its way.
    pub(super) fn may_be_answered(&self, at: u8, target: u8, parts: &Parts) -> bool {
        let there = self.node(target, parts);
        if there.live && there.waiting & only(at) != 0 {
            return true;
        }
        self.flights(parts).any(|(_, flight)| {
            let (open, to) = (flight.asker == at && flight.number == OPEN, flight.to);
            open && match flight.kind {
                Kind::Question => there.live && to == target,
                Kind::Answer => flight.from == target,
                Kind::Busy | Kind::Other => false,
            }
        })
    }

    /// Lists what can happen.
    pub(super) fn actions(&self, parts: &Parts, out: &mut Vec<Action>) {
        out.clear();
        let world = &parts.world;
        let members = self.members(parts);
        for (no, flight) in self.flights(parts) {
            // With atomic steps the open question and its answer travel by themselves.
            let travels = world.atomic && flight.number == OPEN && flight.kind != Kind::Other;
            if self.node(flight.to, parts).live && !travels {
                out.push(Action::Deliver(no));
                if self.left.losses > 0 {
                    out.push(Action::Lose(no));
                }
            }
        }
        for (at, known) in self.live(parts) {
            self.timers(at, known, parts, out);
            if known.armed & REJOIN != 0 {
                self.rejoin(at, known, members, out);
            }
            if self.left.failures > 0 && self.may_fail(at, parts) {
                out.push(Action::Fail(at));
            }
            let gone = |peer: &u8| matches!(self.node(*peer, parts).node, Node::Dead(_));
            let lost = each(known.listed & !known.suspects).filter(gone);
            out.extend(lost.map(|peer| Action::Lost(at, peer)));
            if known.full {
                // The overlay goes by time; here a suspect is silent for long if it is gone.
                out.extend(each(known.suspects).filter(gone).map(|suspect| Action::Forget(at, suspect)));
            }
        }
        for at in 0..world.ids {
            let may = match &self.node(at, parts).node {
                Node::Unborn => self.left.joins > 0,
                Node::Dead(_) => self.left.restarts > 0,
                Node::Live(..) => false,
            };
            if may {
                out.extend(each(members).map(|via| Action::Join(at, via)));
            }
        }
    }

    /// The timers of a node that would do something.
    fn timers(&self, at: u8, known: &Known, parts: &Parts, out: &mut Vec<Action>) {
        let Some(target) = known.target else {
            if known.joined {
                out.push(Action::Fire(at, Fired::Tick));
            }
            if known.armed & RECTIFY != 0 {
                out.push(Action::Fire(at, Fired::Rectify));
            }
            return self.probe(at, known, parts, out);
        };
        if !self.may_be_answered(at, target, parts) {
            out.push(Action::Fire(at, Fired::Request));
        } else if parts.world.atomic {
            // Whoever is busy itself is asked later.
            if self.node(target, parts).target.is_none() {
                out.push(Action::Exchange(at));
            }
        }
        if self.left.false_timeouts > 0 && self.may_be_answered(at, target, parts) {
            out.push(Action::FalseTimeout(at));
        }
        // Everybody who waits was told so once. Again matters only if that was lost.
        let told = |asker: u8| {
            self.node(asker, parts).heard_busy
                || self.flights(parts).any(|(_, flight)| flight.kind == Kind::Busy && flight.to == asker)
        };
        let keepalive = parts.world.losses > 0 && known.armed & KEEPALIVE != 0;
        if keepalive && !each(known.waiting).all(told) {
            out.push(Action::Fire(at, Fired::Keepalive));
        }
        self.probe(at, known, parts, out);
    }

    /// Asking suspects matters if one of them runs, and if it was not asked already.
    fn probe(&self, at: u8, known: &Known, parts: &Parts, out: &mut Vec<Action>) {
        let runs = |suspect: u8| self.node(suspect, parts).live;
        let asked = |flight: &KnownFlight| flight.asker == at && flight.number == PROBED;
        if known.armed & PROBE != 0
            && each(known.suspects).any(runs)
            && !self.flights(parts).any(|(_, flight)| asked(flight))
        {
            out.push(Action::Fire(at, Fired::Probe));
        }
    }

    /// A join starts again at the node it knows while that one runs, and at any other member otherwise.
    fn rejoin(&self, at: u8, known: &Known, members: Places, out: &mut Vec<Action>) {
        let via = known.ring().map(|ring| super::world::place(ring.known().id));
        match via.filter(|via| members & only(*via) != 0) {
            Some(_) => out.push(Action::Fire(at, Fired::Rejoin)),
            None => out.extend(each(members & !only(at)).map(|via| Action::Join(at, via))),
        }
    }

    /// The assumption of the proof: afterwards every member still lists one that runs, so does every list on its way,
    /// and enough principals are left. Whoever is not a member may fail at any time.
    fn may_fail(&self, at: u8, parts: &Parts) -> bool {
        let joined = self.node(at, parts).joined;
        if !joined || parts.world.any_failure {
            return true;
        }
        let left = self.members(parts) & !only(at);
        let listed = self.live(parts).filter(|(of, known)| *of != at && known.joined);
        listed.map(|(_, known)| known.listed).all(|listed| listed & left != 0)
            && self.lists_in_flight(left, parts)
            && (parts.world.is_too_small()
                || self.principals_without(at, left, parts).count_ones() > parts.world.successors.into())
    }

    /// Says whether every list on its way names a running member: with its sender in front and cut to length, and a list
    /// that a joiner takes over also without.
    pub(super) fn lists_in_flight(&self, members: Places, parts: &Parts) -> bool {
        self.flights(parts).filter(|(_, flight)| flight.has_list).all(|(_, flight)| {
            let sender = only(flight.from);
            let listed = flight.listed_after_sender | sender;
            let counts = flight.listed != 0 || members & sender != 0;
            !counts || listed & members != 0 && (flight.listed == 0 || flight.listed & members != 0)
        })
    }

    /// Returns the members that no member's list passes over, no joiner's plan, and no list on its way to one of them.
    pub(super) fn principals(&self, members: Places, parts: &Parts) -> Places {
        self.principals_without(IDS_MAX, members, parts)
    }

    /// The same if one node were not there.
    fn principals_without(&self, gone: u8, members: Places, parts: &Parts) -> Places {
        let lists = self.live(parts).filter(|(at, _)| *at != gone).map(|(_, known)| known.skipped);
        let arrives = |flight: &KnownFlight| flight.has_list && self.node(flight.to, parts).live;
        let flights = self.flights(parts).filter(|(_, flight)| arrives(flight));
        let flying = flights.filter(|(_, flight)| flight.to != gone).map(|(_, flight)| flight.skipped);
        members & !lists.chain(flying).fold(0, |all, skipped| all | skipped)
    }

    /// Does what happens.
    pub(super) fn apply(&mut self, action: Action, steps: &mut Steps, shown: &mut Shown) {
        match action {
            Action::Deliver(no) => self.deliver(no, steps, shown),
            Action::Lose(no) => {
                self.remove(no);
                self.left.losses -= 1;
            }
            Action::Fire(at, timer) => self.step(at, Input::Fire(timer), steps, shown),
            Action::FalseTimeout(at) => {
                self.left.false_timeouts -= 1;
                self.step(at, Input::Fire(Fired::Request), steps, shown);
            }
            Action::Exchange(at) => self.exchange(at, steps, shown),
            Action::Join(at, via) => {
                match &self.node(at, &steps.parts).node {
                    Node::Unborn => self.left.joins -= 1,
                    Node::Dead(_) => self.left.restarts -= 1,
                    Node::Live(..) => {}
                }
                let life = self.node(via, &steps.parts).incarnation();
                self.step(at, Input::Join { via, life }, steps, shown);
            }
            Action::Forget(at, suspect) => self.step(at, Input::Forget(suspect), steps, shown),
            Action::Lost(at, peer) => {
                let life = self.node(peer, &steps.parts).incarnation();
                self.step(at, Input::Lost { peer, life }, steps, shown);
            }
            Action::Fail(at) => self.fail(at, steps),
        }
        if steps.parts.world.atomic {
            match action {
                Action::Fire(at, _) | Action::FalseTimeout(at) | Action::Lost(at, _) => {
                    self.finish(at, steps, shown)
                }
                _ => {}
            }
            self.notify(steps, shown);
        }
    }

    /// With atomic steps a Notify arrives at once, unless it may be lost: it waits at its receiver as it is.
    fn notify(&mut self, steps: &mut Steps, shown: &mut Shown) {
        if steps.parts.world.losses > 0 {
            return;
        }
        let first = |state: &State, parts: &Parts| {
            state.flight.iter().copied().find(|no| parts.flight(*no).kind == Kind::Other)
        };
        while let Some(no) = first(self, &steps.parts) {
            self.deliver(no, steps, shown);
        }
    }

    fn remove(&mut self, no: FlightNo) {
        if let Ok(at) = self.flight.binary_search(&no) {
            self.flight.remove(at);
        }
    }

    fn insert(&mut self, no: FlightNo) {
        if let Err(at) = self.flight.binary_search(&no) {
            self.flight.insert(at, no);
        }
    }

    fn deliver(&mut self, no: FlightNo, steps: &mut Steps, shown: &mut Shown) {
        self.remove(no);
        let to = steps.parts.flight(no).to;
        self.step(to, Input::Deliver(no), steps, shown);
    }

    fn fail(&mut self, at: u8, steps: &mut Steps) {
        self.left.failures -= 1;
        let life = self.node(at, &steps.parts).incarnation();
        self.nodes[usize::from(at)] = steps.parts.node_no(Node::Dead(life));
        let parts = &steps.parts;
        if self.left.restarts == 0 {
            // Nobody will ever receive these.
            self.flight.retain(|no| parts.flight(*no).to != at);
        }
    }

    /// Takes a step of one node and sends what it sends.
    fn step(&mut self, at: u8, input: Input, steps: &mut Steps, shown: &mut Shown) {
        let before = self.nodes[usize::from(at)];
        let was_live = steps.parts.node(before).live;
        let outcome = steps.step(at, before, input);
        let (node, sent) = (outcome.node, outcome.sent);
        let (closed, closed_probe) = (outcome.closed || !was_live, outcome.closed_probe || !was_live);
        shown.seen |= outcome.seen;
        shown.broken = shown.broken.or(outcome.broken);
        self.nodes[usize::from(at)] = node;
        for (number, is) in [(OPEN, closed), (PROBED, closed_probe)] {
            if is {
                self.close(at, number, steps, shown);
            }
        }
        for nth in sent.0..sent.1 {
            let no = steps.sent(nth);
            if self.will_matter(no, &steps.parts) {
                self.insert(no);
            }
        }
    }

    /// Says whether it makes a difference that a message arrives.
    fn will_matter(&self, no: FlightNo, parts: &Parts) -> bool {
        let flight = parts.flight(no);
        let answers = matches!(flight.kind, Kind::Answer | Kind::Busy);
        if answers && flight.number == STALE && forgets_answers(&parts.world) {
            return false;
        }
        self.node(flight.to, parts).live || self.left.restarts > 0
    }

    /// A question is not open any more: wherever its number is, it is only an old one now.
    fn close(&mut self, asker: u8, number: u32, steps: &mut Steps, shown: &mut Shown) {
        let is_it = |parts: &Parts, no: FlightNo| {
            let flight = parts.flight(no);
            flight.asker == asker && flight.number == number && flight.kind != Kind::Other
        };
        while let Some(no) = self.flight.iter().copied().find(|no| is_it(&steps.parts, *no)) {
            self.remove(no);
            let mut flight = steps.parts.flight(no).flight.clone();
            flight.message.set_nonce(STALE);
            let no = steps.parts.flight_no(flight);
            if self.will_matter(no, &steps.parts) {
                self.insert(no);
            }
        }
        for at in 0..steps.parts.world.ids {
            if number == OPEN && self.node(at, &steps.parts).waiting & only(asker) != 0 {
                let outcome = steps.step(at, self.nodes[usize::from(at)], Input::Close { asker, number });
                shown.broken = shown.broken.or(outcome.broken);
                self.nodes[usize::from(at)] = outcome.node;
            }
        }
    }

    /// Delivers the open question of a node, and the answer if one comes at once.
    fn exchange(&mut self, at: u8, steps: &mut Steps, shown: &mut Shown) {
        for kind in [Kind::Question, Kind::Answer] {
            let is_it =
                |flight: &KnownFlight| flight.asker == at && flight.number == OPEN && flight.kind == kind;
            let found = self.flights(&steps.parts).find(|(_, flight)| is_it(flight)).map(|(no, _)| no);
            if let Some(no) = found.filter(|no| self.node(steps.parts.flight(*no).to, &steps.parts).live) {
                self.deliver(no, steps, shown);
            }
        }
    }

    /// Runs the query of a member to its end, if nobody is in the way. Joins go on step by step.
    fn finish(&mut self, at: u8, steps: &mut Steps, shown: &mut Shown) {
        // A query asks at most every entry of a list, and one node more each time.
        for _ in 0..4 * IDS_MAX {
            let known = self.node(at, &steps.parts);
            let Some(target) = known.target.filter(|_| known.joined && !known.joining) else { return };
            if !self.may_be_answered(at, target, &steps.parts) {
                self.step(at, Input::Fire(Fired::Request), steps, shown);
            } else if self.node(target, &steps.parts).target.is_none() || self.is_ping(at, &steps.parts) {
                self.exchange(at, steps, shown);
            } else {
                return;
            }
        }
    }

    fn is_ping(&self, at: u8, parts: &Parts) -> bool {
        use kringle_core::overlay::chord::ring::Query;
        let query = self.node(at, parts).ring().and_then(|ring| ring.cur_request()).map(|open| open.query);
        matches!(query, Some(Query::Rectify(_)))
    }

    /// Returns the number by which the state is known, the same for states that differ in how far the ring is turned.
    pub(super) fn fingerprint(&self, parts: &Parts) -> u64 {
        let left = self.left;
        let left = [left.joins, left.failures, left.restarts, left.false_timeouts, left.losses];
        let left = left.iter().fold(1, |all, count| all << 8 | u64::from(*count));
        self.shape(parts) ^ mix(mix(left))
    }

    /// The same, whatever may still happen.
    pub(super) fn shape(&self, parts: &Parts) -> u64 {
        let ids = parts.world.ids;
        let one = |(nth, turn): (usize, &u8)| {
            let mut sum: u64 = 0;
            for at in 0..ids {
                let hash = parts.node_hash(self.nodes[usize::from(at)], nth);
                let place = u64::from((at + turn) % ids);
                sum = sum.wrapping_add(mix(hash.wrapping_add(place << 56 | place)));
            }
            self.flight.iter().fold(sum, |sum, no| sum.wrapping_add(parts.flight_hash(*no, nth)))
        };
        parts.turns.iter().enumerate().map(one).min().map_or(0, mix)
    }
}

/// Says whether answers to questions that are not open any more can be forgotten at once: then they are refused whenever
/// they arrive, and nothing else is learnt from them.
fn forgets_answers(world: &World) -> bool {
    use kringle_core::config::Safeguard;
    world.restarts == 0 && world.without != Some(Safeguard::ThisLife)
}
