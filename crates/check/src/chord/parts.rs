//! The parts a state is made of: nodes, each in a state of its own, and messages in flight.
//!
//! There are far fewer of either than there are worlds made of them. So each is kept once and named by a number, with
//! what is asked about it often worked out when it is first met.

use std::collections::HashMap;

use kringle_core::contact::Contact;
use kringle_core::overlay::chord::Message;
use kringle_core::overlay::chord::properties::skips;
use kringle_core::overlay::chord::ring::{Query, Ring, RingTimer};

use super::hash::{mix, turned};
use super::world::{World, contact, place};

/// Names a state of a node.
pub(super) type NodeNo = u32;
/// Names a message and its way.
pub(super) type FlightNo = u32;
/// A set of places.
pub(super) type Places = u16;

/// The set of one place.
pub(super) fn only(at: u8) -> Places {
    1 << at
}

/// Returns the places of a set.
pub(super) fn each(places: Places) -> impl Iterator<Item = u8> {
    (0..super::world::IDS_MAX).filter(move |at| places & only(*at) != 0)
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// Nobody yet.
    Unborn,
    /// A node that has failed, in this life.
    Dead(u32),
    /// A running node and its timers.
    Live(Box<Ring>, Armed),
}

/// The timers that are armed, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Armed(pub(super) u8);

pub(super) const TICK: u8 = 1;
pub(super) const RECTIFY: u8 = 2;
pub(super) const KEEPALIVE: u8 = 4;
pub(super) const REQUEST: u8 = 8;
pub(super) const REJOIN: u8 = 16;
pub(super) const PROBE: u8 = 32;

impl Armed {
    /// Returns the bit of a timer. [`RingTimer::Retry`] has none: it does what Tick does, which every member has armed
    /// at all times and which may fire whenever Retry may. [`RingTimer::Form`] is not the ring's.
    fn bit(timer: RingTimer) -> u8 {
        match timer {
            RingTimer::Tick => TICK,
            RingTimer::RectifyTick => RECTIFY,
            RingTimer::KeepaliveTick => KEEPALIVE,
            RingTimer::Request { .. } => REQUEST,
            RingTimer::Rejoin => REJOIN,
            RingTimer::Probe => PROBE,
            RingTimer::Retry | RingTimer::Form => 0,
        }
    }

    /// Returns the timers that matter to a node in this state. Any other that is armed would do nothing when it fires,
    /// and is armed again by what makes it matter: to be armed or not makes no difference then.
    pub(super) fn needed(ring: &Ring) -> Armed {
        let idle = ring.cur_request().is_none();
        let needs = [
            (TICK, ring.joined()),
            (REQUEST, !idle),
            (RECTIFY, ring.rectify_with().is_some()),
            (KEEPALIVE, !ring.delayed_queries().is_empty()),
            (REJOIN, idle && !ring.joined()),
            (PROBE, !ring.suspects().is_empty()),
        ];
        Armed(needs.iter().filter(|(_, needed)| *needed).fold(0, |armed, (bit, _)| armed | bit))
    }

    pub(super) fn arm(&mut self, timer: RingTimer) {
        self.0 |= Armed::bit(timer);
    }

    pub(super) fn clear(&mut self, timer: RingTimer) {
        self.0 &= !Armed::bit(timer);
    }
}

/// A state of a node, with what is asked about it often.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) node: Node,
    pub(super) live: bool,
    pub(super) joined: bool,
    pub(super) armed: u8,
    /// Whom its open question is for.
    pub(super) target: Option<u8>,
    /// Whether it was told that the target is busy.
    pub(super) heard_busy: bool,
    /// Whether it is looking for its place.
    pub(super) joining: bool,
    /// Those whose open question waits here.
    pub(super) waiting: Places,
    /// Those who have a question here, open or not.
    pub(super) delayed: Places,
    /// Whom it lists or suspects.
    pub(super) listed: Places,
    /// Whom its list passes over.
    pub(super) skipped: Places,
    pub(super) suspects: Places,
    /// Whether its list has all entries it may have.
    pub(super) full: bool,
    /// Whether its timers are those its state needs.
    pub(super) timed: bool,
    /// Stands for predecessor and lists: what [`kringle_core::overlay::chord::properties`] look at.
    pub(super) view: u64,
    /// Its list with the suspects put where they belong.
    pub(super) extended: Vec<Contact>,
}

impl Known {
    pub(super) fn ring(&self) -> Option<&Ring> {
        match &self.node {
            Node::Live(ring, _) => Some(ring),
            Node::Unborn | Node::Dead(_) => None,
        }
    }

    /// Returns which life the place is in.
    pub(super) fn incarnation(&self) -> u32 {
        match &self.node {
            Node::Unborn => 0,
            Node::Dead(incarnation) => *incarnation,
            Node::Live(ring, _) => ring.ptr().incarnation,
        }
    }

    fn of(node: Node, world: &World) -> Known {
        let mut known = Known {
            node,
            live: false,
            joined: false,
            armed: 0,
            target: None,
            heard_busy: false,
            joining: false,
            waiting: 0,
            delayed: 0,
            listed: 0,
            skipped: 0,
            suspects: 0,
            full: false,
            timed: true,
            view: 0,
            extended: Vec::new(),
        };
        let Node::Live(ring, armed) = &known.node else { return known };
        (known.live, known.joined, known.armed) = (true, ring.joined(), armed.0);
        if let Some(request) = ring.cur_request() {
            known.target = Some(place(request.target.id));
            known.heard_busy = request.heard_busy;
            known.joining = matches!(request.query, Query::Join(_) | Query::Join2(_));
        }
        for (source, question) in ring.delayed_queries() {
            known.delayed |= only(place(source.id));
            if question.nonce() == Some(OPEN) {
                known.waiting |= only(place(source.id));
            }
        }
        let extended = ring.extended();
        known.listed = set(&extended);
        // A joiner that asks its successor-to-be will pass over whoever comes in between until the answer is there: what it
        // knows counts like a list in flight.
        known.skipped = match ring.cur_request().map(|request| request.query) {
            Some(Query::Join2(head)) => passed_over(ring.ptr(), &[head], world.ids),
            _ if ring.joined() => passed_over(ring.ptr(), within(ring, &extended), world.ids),
            _ => 0,
        };
        known.suspects = set(ring.suspects());
        known.full = ring.succ_list().len() >= usize::from(world.successors);
        known.timed = Armed::needed(ring).0 == armed.0;
        known.view = turned(&(ring.ptr(), ring.pred(), &extended, ring.joined()), 0, world.ids);
        known.extended = extended;
        known
    }
}

/// The number of a node's open question, in every state that is kept.
pub(super) const OPEN: u32 = 1;
/// The number of its last round of questions to suspects.
pub(super) const PROBED: u32 = 2;
/// The number of any question that is neither.
pub(super) const STALE: u32 = 0;

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    pub(super) from: Contact,
    pub(super) to: u8,
    pub(super) message: Message,
}

/// What a message is to those who look at it from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Question,
    Answer,
    Busy,
    Other,
}

/// A message on its way, with what is asked about it often.
#[derive(Debug)]
pub(super) struct KnownFlight {
    pub(super) flight: Flight,
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) kind: Kind,
    /// Who numbered the question that this is, or answers.
    pub(super) asker: u8,
    /// Its number: [`OPEN`], [`PROBED`], [`STALE`], or [`STALE`] if it has none.
    pub(super) number: u32,
    /// Whether it carries a successor list.
    pub(super) has_list: bool,
    /// The first entries of that list: all, and all but the one for which its sender would leave no room.
    pub(super) listed: Places,
    pub(super) listed_after_sender: Places,
    /// Whom the list passes over, its sender in front.
    pub(super) skipped: Places,
}

impl KnownFlight {
    fn of(flight: Flight, world: &World) -> KnownFlight {
        let from = place(flight.from.id);
        let message = &flight.message;
        let kind = match message {
            Message::Busy { .. } => Kind::Busy,
            Message::Ping { .. } => Kind::Question,
            _ if message.is_question() => Kind::Question,
            _ if message.nonce().is_some() => Kind::Answer,
            _ => Kind::Other,
        };
        let list = match message {
            Message::GotSuccList { list, .. } | Message::GotPredAndSuccs { list, .. } => Some(list),
            _ => None,
        };
        let entries = list.map_or(&[][..], Vec::as_slice);
        let room = entries.len().min(usize::from(world.successors) - 1);
        KnownFlight {
            from,
            to: flight.to,
            kind,
            asker: if kind == Kind::Question { from } else { flight.to },
            number: message.nonce().unwrap_or(STALE),
            has_list: list.is_some(),
            listed: set(entries),
            listed_after_sender: set(&entries[..room]),
            skipped: passed_over(flight.from, entries, world.ids),
            flight,
        }
    }
}

/// Returns a list with suspects up to the last successor that is not one: what lies behind that is not listed any more,
/// only remembered.
fn within<'a>(ring: &Ring, extended: &'a [Contact]) -> &'a [Contact] {
    let last = ring.succ_list().last();
    let end = extended.iter().position(|node| Some(node) == last);
    end.map_or(extended, |end| &extended[..=end])
}

fn set(nodes: &[Contact]) -> Places {
    nodes.iter().fold(0, |set, node| set | only(place(node.id)))
}

fn passed_over(owner: Contact, list: &[Contact], ids: u8) -> Places {
    let passed = |at: &u8| skips(owner.id, list.iter().map(|node| node.id), contact(*at, 0).id);
    (0..ids).filter(passed).fold(0, |set, at| set | only(at))
}

/// All parts met so far.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) world: World,
    pub(super) turns: Vec<u8>,
    nodes: Vec<Known>,
    flights: Vec<KnownFlight>,
    /// For every node and every flight one hash for every way to turn the ring.
    node_hashes: Vec<u64>,
    flight_hashes: Vec<u64>,
    nodes_by: HashMap<Node, NodeNo>,
    flights_by: HashMap<Flight, FlightNo>,
}

impl Parts {
    pub(super) fn new(world: World) -> Parts {
        Parts {
            turns: world.turns(),
            world,
            nodes: Vec::new(),
            flights: Vec::new(),
            node_hashes: Vec::new(),
            flight_hashes: Vec::new(),
            nodes_by: HashMap::new(),
            flights_by: HashMap::new(),
        }
    }

    pub(super) fn node_no(&mut self, node: Node) -> NodeNo {
        if let Some(no) = self.nodes_by.get(&node) {
            return *no;
        }
        let no = self.nodes.len() as NodeNo;
        self.nodes.push(Known::of(node.clone(), &self.world));
        let ids = self.world.ids;
        self.node_hashes.extend(self.turns.iter().map(|turn| turned(&node, *turn, ids)));
        self.nodes_by.insert(node, no);
        no
    }

    pub(super) fn flight_no(&mut self, flight: Flight) -> FlightNo {
        if let Some(no) = self.flights_by.get(&flight) {
            return *no;
        }
        let no = self.flights.len() as FlightNo;
        self.flights.push(KnownFlight::of(flight.clone(), &self.world));
        // The place it goes to is hashed as an id, so that it is turned, too.
        let turning = (contact(flight.to, 0).id, flight.from, &flight.message);
        let ids = self.world.ids;
        self.flight_hashes.extend(self.turns.iter().map(|turn| mix(turned(&turning, *turn, ids))));
        self.flights_by.insert(flight, no);
        no
    }

    #[inline]
    pub(super) fn node(&self, no: NodeNo) -> &Known {
        &self.nodes[no as usize]
    }

    #[inline]
    pub(super) fn flight(&self, no: FlightNo) -> &KnownFlight {
        &self.flights[no as usize]
    }

    /// Returns the hash of a node for a way to turn the ring.
    #[inline]
    pub(super) fn node_hash(&self, no: NodeNo, turn: usize) -> u64 {
        self.node_hashes[no as usize * self.turns.len() + turn]
    }

    /// The same for a message.
    #[inline]
    pub(super) fn flight_hash(&self, no: FlightNo, turn: usize) -> u64 {
        self.flight_hashes[no as usize * self.turns.len() + turn]
    }

    /// Returns how many states of nodes and how many messages there are.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.nodes.len(), self.flights.len())
    }
}
