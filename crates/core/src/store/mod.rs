//! The store: a replicated map of keys to values and sets, over any overlay.
//!
//! The ring is cut into slots; each slot has a view, the nodes that hold it. A node whose user asks for something
//! (`asking`) sends it to a member of the view, which coordinates it (`coordinating`): the members do their steps
//! (`replica`) under one epoch of the view, and half of them plus one decide. Versions order everything that is ever
//! written to a cell, whether with a condition or without. Views change one member at a time (`changing`): the
//! old view is frozen, its state settled, and the new one begins with exactly that state, which its members get from each
//! other (`pulling`). `tending` sees to it that views follow the ring and that copies stay equal.
//!
//! Everything is written down before it is answered: answers wait in `after` for the ticket of their write.

mod asking;
mod changing;
mod cluster_time;
pub mod coding;
mod conditional;
mod coordinating;
mod doubting;
mod garbage;
mod keeping;
mod leaving;
pub mod message;
pub mod op;
mod operation;
mod promises;
mod pulling;
mod reading;
pub mod record;
mod recovery;
mod repeating;
mod replica;
mod seen;
mod sets;
mod survey;
mod tending;
pub mod version;
pub mod view;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use self::asking::Asking;
pub use self::cluster_time::ClockView;
use self::cluster_time::ClusterTime;
use self::coding::Sum;
use self::keeping::Ages;
use self::leaving::Leaving;
use self::message::{Item, Message, Packet, Verdict, Word};
use self::operation::Operation;
use self::pulling::{Pulling, Rate};
use self::record::{Cell, Origin};
pub use self::recovery::RecoveryPlan;
use self::recovery::{Rebuild, Recovery};
use self::seen::Seen;
pub use self::survey::{Survey, Unready, Unreliable};
use self::version::Version;
use self::view::{Cut, Kept, Member, Slot, Standing, View};
use crate::config::Config;
use crate::contact::Contact;
use crate::edge::{Ctx, Event, Refusal, Timer};
use crate::id::NodeId;
use crate::message::Body;
use crate::overlay::{Routes, Status};
use crate::records::{Records, Space, Write};
use crate::time::Time;

/// How far ahead of the wall clock the durable bound of versions is set.
const BOUND_AHEAD: u64 = 2000;
/// When less than this is left of it, it is set anew.
const BOUND_LEFT: u64 = 1000;
/// Slots one frame tells about.
const ITEMS_MAX: usize = 1000;
/// Nodes whose contact is remembered.
const PEERS_MAX: usize = 4096;
/// How often an idle store looks after its slots.
const IDLE: Duration = Duration::from_secs(2);
/// How often one whose views have to change does.
const UNSETTLED: Duration = Duration::from_millis(200);
/// How often a busy one does.
const BUSY: Duration = Duration::from_millis(25);

const CLOCK_KEY: &[u8] = b"clock";
const TIME_KEY: &[u8] = b"time";
const AGE_KEY: &[u8] = b"age";
/// The number of this disk, made when it got its first view.
const BORN_KEY: &[u8] = b"born";
/// How often the age of a disk that is written to goes up.
const AGEING: Duration = Duration::from_millis(50);
/// How often a node that comes back asks others to say that its disk is the one they knew.
const PROOF: Duration = Duration::from_millis(500);

/// The store of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    me: Member,
    clock: Clock,
    time: ClusterTime,
    slots: BTreeMap<u32, Slot>,
    /// Requests of this node's user.
    asks: BTreeMap<u32, Asking>,
    /// Operations this node coordinates, by number.
    ops: BTreeMap<u32, Operation>,
    /// Conditional operations on one cell follow one another.
    lines: BTreeMap<Cell, VecDeque<u32>>,
    /// Requests of other nodes, conditional and plain ones: one that comes twice is done once.
    seen: Seen<Origin, (Version, u8)>,
    seen_plain: Seen<Origin, (Version, u8)>,
    /// Who holds slots this node does not hold, as far as it was told.
    cache: BTreeMap<u32, Vec<Contact>>,
    peers: BTreeMap<NodeId, Peer>,
    /// Members of views that have not been heard of since the start, and since when they count as dead.
    unmet: BTreeMap<NodeId, Time>,
    pulls: BTreeMap<u32, Pulling>,
    /// Slots whose view is about to change.
    changing: BTreeSet<u32>,
    /// Slots this node is to become a member of, and who said so.
    learners: BTreeMap<u32, NodeId>,
    /// Former replicas that still have the records of slots this node has not caught up with. The members that have them may
    /// be dead.
    former: BTreeMap<u32, NodeId>,
    /// Slots this node said it has the records of, because it is to become a member, and when.
    learnt: BTreeMap<u32, Time>,
    /// Slots whose view may have to change.
    unsettled: BTreeSet<u32>,
    /// Whether slots to pull were named in this call. They are looked at once: a message names thousands.
    pull_soon: bool,
    /// Slots that wait for their turn to be pulled.
    to_pull: BTreeSet<u32>,
    /// Slots whose records this node has begun to doubt: what it answered itself, as a coordinator, is void.
    voided: BTreeSet<u32>,
    /// Lookups under way, by number.
    seeking: BTreeMap<u32, Seeking>,
    /// How many values known sets have, and how many bytes.
    sizes: BTreeMap<Cell, SetSize>,
    next: u32,
    /// The ticket of the last write, and of the last that is durable.
    ticket: u64,
    durable: u64,
    /// What waits for a ticket.
    after: VecDeque<(u64, After)>,
    /// The tickets of cells that are not durable yet.
    unsynced: BTreeMap<Cell, u64>,
    /// Collected during a call: what to write, and what to tell whom about slots.
    writes: Vec<Write>,
    outgoing: BTreeMap<NodeId, Vec<Item>>,
    room: bool,
    /// How far the disk has come: goes up while it is written to, and never goes back on a disk that is what it was.
    age: u64,
    aged: Time,
    /// How far the disks of other members had come when they were last heard of.
    ages: Ages,
    proof: Proof,
    /// It began with views of an earlier life: they may be older than what others know.
    reopened: bool,
    leaving: Option<Leaving>,
    /// Nodes that were retired for good.
    retired: BTreeSet<NodeId>,
    recovery: Option<Box<Recovery>>,
    rebuilds: BTreeMap<u32, Rebuild>,
    rate: Rate,
    /// Slots that a write waits for: their views are completed first.
    urgent: BTreeSet<u32>,
    armed: Option<Time>,
    /// When copies are compared next, and when views are looked at next.
    sweep: Time,
    /// When members that are down were last asked whether they are back.
    looked: Time,
    /// Since when this node has asked others about its disk, and whether it has waited for all of them.
    proving: Option<Time>,
    waited: bool,
    /// When this store first looked for them.
    began: Option<Time>,
    tend: Time,
    /// Whether something about views is to be looked at soon.
    restless: bool,
    /// Slots whose view can be looked at right away.
    eager: BTreeSet<u32>,
    /// Slots whose records changed in this call.
    touched: BTreeSet<u32>,
    /// Slots whose view or standing changed in this call.
    moved: BTreeSet<u32>,
}

/// What is known about another node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Peer {
    contact: Contact,
    /// Found dead, since then.
    down: Option<Time>,
    /// Whether this node's store has heard from it.
    met: bool,
    /// Owes an answer for long.
    silent: bool,
    /// What was last sent to it could not be handed to the network.
    unreached: bool,
    /// Wants out.
    leaving: bool,
    /// Whether it has answered, in this life, since this node said that it wants out.
    knows_leaving: bool,
    /// Said it would be back until then.
    pausing: Option<Time>,
    /// Its disk, as it said when asked.
    born: Option<u32>,
    /// Whether it has said that this node's disk is the one it knew.
    vouched: bool,
    /// When it last compared copies with this node.
    compared: Time,
    /// Questions about its clocks and disk that are open, and when they were asked. Several, because the round trip may be
    /// longer than the time between two.
    questions: Vec<(u32, Time)>,
    /// Whether it is known to have a store.
    has_store: bool,
    /// When it was last told of this store.
    greeted: Time,
    /// Its disk has no room.
    full: bool,
    /// It cannot serve its slots right now: others are asked first until then.
    unready: Option<Time>,
}

/// How large a set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SetSize {
    set: u64,
    values: u32,
    bytes: u64,
}

/// What is done once a write is durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum After {
    /// Tell the coordinator.
    Tell(Contact, Box<Message>),
    /// Tell a member about a slot.
    Word(NodeId, Box<Item>),
    /// This node coordinates itself.
    Take(u32, Box<Verdict>),
    /// This node tries to change a view itself.
    Own(Box<Item>),
    /// Versions up to this wall time may be used.
    Bound(u64),
    /// The disk has come this far.
    Age(u64),
}

/// A lookup under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seeking {
    what: Sought,
    since: Time,
}

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sought {
    /// Whoever answers for a slot this node is far from.
    Slot(u32),
    /// A member of a view, of which this node knows no more than its id: disks remember views, but not ways.
    Node(NodeId),
}

/// Whether this node's disk is known to be the one others knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Proof {
    /// It is, or there is nobody to ask.
    Given,
    /// Others are to say so, since then.
    Wanted(Option<Time>),
    /// Somebody knew it when it had come further: it is an old copy. Nothing on it counts.
    Failed,
}

/// The clock versions are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Clock {
    /// The last version this node made.
    last: Version,
    /// The highest version of a record that is stored here, or that other members have.
    hybrid: Version,
    /// How far that was ahead of cluster time at most, in milliseconds.
    lead: u64,
    /// Wall times up to which versions may be made, durably; and what was asked for.
    bound: u64,
    asked: u64,
}

impl Store {
    /// Makes the store of a node from what is on its disk. `born` is a number made when that disk was empty.
    pub fn open(me: Contact, born: u32, records: &dyn Records, config: &Config) -> Store {
        let mut slots: Vec<(u32, Kept)> = Vec::new();
        records.scan(Space::Views, &[], &[0xff; 8], &mut |key, value| {
            let number = key.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            if let (Some(number), Ok(kept)) = (number, minicbor::decode::<Kept>(value)) {
                slots.push((number, kept));
            }
            true
        });
        let is_blank = slots.is_empty();
        let kept = records.read(Space::Meta, BORN_KEY);
        let kept = kept.and_then(|bytes| Some(u32::from_be_bytes(*bytes.first_chunk()?)));
        let born = match is_blank {
            // It may be an old copy of a disk that had views, and nothing on it can tell: so it counts as a new disk.
            true => born ^ me.incarnation.rotate_left(16),
            false => kept.unwrap_or(born),
        };
        let me = Member { id: me.id, born };
        let number = |key| {
            let bytes = records.read(Space::Meta, key);
            bytes.and_then(|bytes| Some(u64::from_be_bytes(*bytes.first_chunk()?))).unwrap_or(0)
        };
        let bound = number(CLOCK_KEY);
        let mut store = Store {
            me,
            clock: Clock { last: Version::at(bound), hybrid: Version::ZERO, lead: 0, bound, asked: bound },
            time: ClusterTime::since(number(TIME_KEY)),
            slots: BTreeMap::new(),
            asks: BTreeMap::new(),
            ops: BTreeMap::new(),
            lines: BTreeMap::new(),
            seen: Seen::default(),
            seen_plain: Seen::default(),
            cache: BTreeMap::new(),
            peers: BTreeMap::new(),
            unmet: BTreeMap::new(),
            pulls: BTreeMap::new(),
            changing: BTreeSet::new(),
            learners: BTreeMap::new(),
            former: BTreeMap::new(),
            learnt: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            pull_soon: false,
            to_pull: BTreeSet::new(),
            voided: BTreeSet::new(),
            seeking: BTreeMap::new(),
            sizes: BTreeMap::new(),
            next: 0,
            ticket: 0,
            durable: 0,
            after: VecDeque::new(),
            unsynced: BTreeMap::new(),
            writes: Vec::new(),
            outgoing: BTreeMap::new(),
            room: true,
            age: number(AGE_KEY),
            aged: Time::ZERO,
            ages: Ages::read(records),
            proof: Proof::Given,
            reopened: !is_blank,
            leaving: None,
            retired: BTreeSet::new(),
            recovery: None,
            rebuilds: BTreeMap::new(),
            rate: Rate::default(),
            urgent: BTreeSet::new(),
            armed: None,
            sweep: Time::ZERO,
            looked: Time::ZERO,
            began: None,
            proving: None,
            waited: false,
            tend: Time::ZERO,
            restless: true,
            eager: BTreeSet::new(),
            touched: BTreeSet::new(),
            moved: BTreeSet::new(),
        };
        store.read_retired(records);
        if is_blank {
            let value = Some(born.to_be_bytes().as_slice().into());
            store.writes.push(Write { space: Space::Meta, key: BORN_KEY.into(), value });
        }
        for (number, kept) in slots {
            let mut slot = Slot::new(kept.view, kept.entered, kept.standing, Time::ZERO);
            (slot.promised, slot.accepted) = (kept.promised, kept.accepted);
            if !slot.view.has(me) {
                slot.standing = Standing::Outside;
            }
            if slot.promised.is_some() || kept.abstains {
                store.changing.insert(number);
            }
            if matches!(slot.standing, Standing::Behind | Standing::Doubting(_)) {
                store.to_pull.insert(number);
            }
            (slot.remembered, slot.abstains) = (kept.remembered, kept.abstains);
            slot.doubted = kept.doubted;
            store.slots.insert(number, slot);
            store.read_tally(number, records, config);
        }
        if store.slots.values().any(|slot| slot.view.members.len() > 1) {
            store.proof = Proof::Wanted(None);
        }
        store
    }

    /// The first node of a cluster holds everything.
    pub(crate) fn found_cluster(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if !self.slots.is_empty() {
            return;
        }
        let lineage = cx.dice.roll();
        self.time.start(cx.now, cx.wall);
        self.time.found();
        for number in 0..Cut::of(cx.config.slots).count() {
            let view = View { epoch: 1, lineage, members: alloc::vec![self.me], survivors: Vec::new() };
            self.slots.insert(number, Slot::new(view, Some(Sum::default()), Standing::Ready, cx.now));
            self.keep(number);
        }
        self.finish(ring, cx);
    }

    /// Returns the ticket of what is written in this call.
    fn this_ticket(&self) -> u64 {
        self.ticket + 1
    }

    fn nonce(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1) & 0x00ff_ffff;
        self.next
    }

    /// Sees to it that versions up to this one may be made, after a restart, too.
    fn move_bound(&mut self, version: Version) -> bool {
        let moves = version.wall() + BOUND_LEFT > self.clock.asked;
        if moves {
            let bound = version.wall() + BOUND_AHEAD;
            self.clock.asked = bound;
            let (key, value) = (CLOCK_KEY.into(), Some(bound.to_be_bytes().as_slice().into()));
            self.writes.push(Write { space: Space::Meta, key, value });
            self.after.push_back((self.this_ticket(), After::Bound(bound)));
        }
        moves
    }

    /// Says whether this node has a place in the ring. The store does not wait for leases: its own votes decide.
    fn is_part(ring: &dyn Routes) -> bool {
        matches!(ring.status(), Status::Ok | Status::Ready | Status::Leaving | Status::Isolated)
    }

    /// Says whether this node may serve what it holds. One that comes back with slots does not wait for the ring: it knows
    /// the other members. Views do not change before it has its place.
    fn may_serve(&self, ring: &dyn Routes) -> bool {
        Self::is_part(ring) || (self.reopened && ring.status() != Status::Out)
    }

    /// Takes note of nodes that this one knew in an earlier life.
    pub(crate) fn meet(&mut self, peers: &[Contact]) {
        let me = self.me.id;
        for peer in peers.iter().filter(|peer| peer.id != me) {
            self.peer(*peer);
        }
        self.restless = true;
    }

    fn contact(&self, id: NodeId, ring: &dyn Routes) -> Option<Contact> {
        ring.contact(id).or_else(|| self.peers.get(&id).map(|peer| peer.contact))
    }

    /// Returns since when a node is known to be dead, or counts as dead because it has not been met.
    fn down_since(&self, id: NodeId) -> Option<Time> {
        self.peers.get(&id).and_then(|peer| peer.down).or_else(|| self.unmet.get(&id).copied())
    }

    fn is_down(&self, id: NodeId) -> bool {
        self.down_since(id).is_some()
    }

    fn is_unready(&self, id: NodeId, cx: &Ctx<'_>) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.unready.is_some_and(|until| until > cx.now))
    }

    fn is_quiet(&self, id: NodeId) -> bool {
        self.is_down(id) || self.peers.get(&id).is_some_and(|peer| peer.silent)
    }

    fn peer(&mut self, contact: Contact) -> &mut Peer {
        if self.peers.len() >= PEERS_MAX && !self.peers.contains_key(&contact.id) {
            // Whoever it is will be heard of again.
            self.peers.pop_first();
        }
        let fresh = Peer {
            contact,
            down: None,
            met: false,
            silent: false,
            unreached: false,
            leaving: false,
            knows_leaving: false,
            pausing: None,
            born: None,
            vouched: false,
            compared: Time::ZERO,
            questions: Vec::new(),
            has_store: false,
            greeted: Time::ZERO,
            full: false,
            unready: None,
        };
        let peer = self.peers.entry(contact.id).or_insert(fresh);
        if contact.incarnation > peer.contact.incarnation {
            (peer.leaving, peer.knows_leaving, peer.pausing) = (false, false, None);
            self.restless = true;
        }
        if contact.incarnation >= peer.contact.incarnation {
            peer.contact = contact;
        }
        peer
    }

    fn send(&mut self, to: NodeId, message: Message, ring: &dyn Routes, cx: &mut Ctx<'_>) -> bool {
        let Some(contact) = self.contact(to, ring) else {
            self.seek(Sought::Node(to), ring, cx);
            return false;
        };
        cx.send(contact, Body::Store(Box::new(Packet { message, contacts: Vec::new() })));
        true
    }

    /// Tells a node something about a slot; to itself it is said at once.
    fn word(&mut self, to: NodeId, slot: u32, word: Word) {
        self.outgoing.entry(to).or_default().push(Item { slot, word });
    }

    /// Handles a message from another node's store.
    pub(crate) fn handle(&mut self, from: Contact, packet: Packet, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.unmet.remove(&from.id);
        let peer = self.peer(from);
        (peer.silent, peer.down, peer.met, peer.unreached) = (false, None, true, false);
        let Packet { message, contacts } = packet;
        match message {
            Message::Ask { serial, ask, version, patience, turn, at, until } => {
                let times = (version, at);
                self.asked(from, (serial, turn), ask, times, (patience, until), ring, cx);
            }
            Message::Answer { serial, response, turn } => {
                self.answered(from.id, (serial, turn), response, contacts, ring, cx);
            }
            Message::Do { nonce, slot, epoch, step } => self.on_do(from, nonce, slot, epoch, step, cx),
            Message::Did { nonce, verdict, age } => {
                let born = self.peers.get(&from.id).and_then(|peer| peer.born);
                self.note_age(from.id, born, age);
                self.take(nonce, from.id, verdict, ring, cx);
            }
            Message::Slots(items) => {
                for item in items {
                    self.on_word(from.id, item, ring, cx);
                }
            }
            Message::Pull { nonce, slot, parts, after, any, bytes, doubts, doubted } => {
                if doubts && after.is_none() {
                    self.void_answers(slot, ring, cx);
                }
                let limit = if bytes == 0 { usize::MAX } else { bytes as usize };
                let doubted = doubts.then_some(doubted.as_slice());
                self.on_pull(from, nonce, slot, &parts, after, (any, doubted, limit), cx);
            }
            Message::Page { .. } => self.on_page(from.id, message, ring, cx),
            Message::Compare(compare) => self.on_compare(from, compare, ring, cx),
            Message::Clock(reading) => self.on_clock(from, reading, ring, cx),
            Message::Survey { freeze } => self.on_survey(from, freeze, ring, cx),
            Message::Surveyed(report) => self.on_surveyed(from.id, report, cx),
            Message::Pausing => {
                let until = cx.now.after(cx.config.rejoin_grace);
                self.peer(from).pausing = Some(until);
            }
        }
        self.finish(ring, cx);
    }

    /// A message could not be handed to the network.
    pub(crate) fn unsent(&mut self, to: Contact, packet: Packet, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let peer = self.peer(to);
        (peer.silent, peer.unreached) = (true, true);
        if let Message::Ask { serial, .. } = packet.message {
            self.ask_unsent(serial, to.id, ring, cx);
        }
        self.finish(ring, cx);
    }

    /// A connection broke: what this node asked the peer for is asked of another replica, not waited for.
    pub(crate) fn on_lost(&mut self, peer: NodeId, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if let Some(known) = self.peers.get_mut(&peer) {
            known.silent = true;
            self.ask_lost(peer, ring, cx);
            self.finish(ring, cx);
        }
    }

    /// Everything up to this ticket is durable.
    pub(crate) fn persisted(&mut self, ticket: u64, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.durable = self.durable.max(ticket);
        self.unsynced.retain(|_, needs| *needs > ticket);
        while let Some((needs, _)) = self.after.front()
            && *needs <= ticket
        {
            let Some((_, after)) = self.after.pop_front() else { break };
            match after {
                After::Tell(to, message) => {
                    let packet = Packet { message: *message, contacts: Vec::new() };
                    cx.send(to, Body::Store(Box::new(packet)));
                }
                After::Word(to, item) => self.word(to, item.slot, item.word),
                After::Take(nonce, verdict) => self.take(nonce, self.me.id, *verdict, ring, cx),
                After::Own(item) => self.on_word(self.me.id, *item, ring, cx),
                After::Age(age) => self.age = age,
                After::Bound(bound) => {
                    self.clock.bound = self.clock.bound.max(bound);
                    self.go_on(ring, cx);
                }
            }
        }
        self.finish(ring, cx);
    }

    /// There are to be more or fewer copies: every view is looked at again.
    pub(crate) fn reconfigured(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.restless = true;
        self.finish(ring, cx);
    }

    /// The disk has room, or not. Others are told, so that they do not count on this node for new copies.
    pub(crate) fn set_room(&mut self, enough: bool, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if core::mem::replace(&mut self.room, enough) != enough {
            self.compare_clocks(ring, cx);
            self.finish(ring, cx);
        }
    }

    /// Something changed in the ring.
    pub(crate) fn on_event(&mut self, event: &Event, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        match event {
            Event::PeerDown(contact) | Event::PeerDied(contact) => {
                let now = cx.now;
                let peer = self.peer(*contact);
                peer.down.get_or_insert(now);
                self.restless = true;
                self.retry_reads(contact.id, ring, cx);
            }
            Event::PeerUp(contact) => {
                let known = self.peers.get(&contact.id).map(|peer| peer.contact.incarnation);
                if known.is_some_and(|known| known < contact.incarnation) {
                    // It was restarted: what it was asked before is forgotten.
                    self.ask_lost(contact.id, ring, cx);
                }
                self.unmet.remove(&contact.id);
                let peer = self.peer(*contact);
                (peer.down, peer.silent, peer.leaving, peer.pausing) = (None, false, false, None);
                self.restless = true;
                // Whoever was away may have missed something.
                self.sweep = self.sweep.min(cx.now.after(Duration::from_millis(500)));
            }
            Event::PeerLives(contact) => {
                self.unmet.remove(&contact.id);
                self.peer(*contact).down = None;
                self.restless = true;
            }
            Event::NeighboursChanged => self.restless = true,
            _ => return,
        }
        self.finish(ring, cx);
    }

    /// The timer is due.
    pub(crate) fn on_timer(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.armed = None;
        self.seek_time(ring, cx);
        self.prove(ring, cx);
        self.go_on(ring, cx);
        self.repeat(ring, cx);
        self.pull_on(ring, cx);
        self.recover_on(cx);
        self.rebuild_on(cx);
        self.look_for_members(ring, cx);
        self.tend(ring, cx);
        self.finish(ring, cx);
    }

    /// The end of every call: what was decided is written down and told, and the timer set.
    fn finish(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if self.restless && Self::is_part(ring) && cx.now >= self.tend {
            self.tend(ring, cx);
        }
        if core::mem::take(&mut self.pull_soon) {
            self.pull_on(ring, cx);
        }
        self.flush(ring, cx);
        let busy = !self.asks.is_empty()
            || !self.ops.is_empty()
            || !self.pulls.is_empty()
            || !self.to_pull.is_empty()
            || self.leaving.is_some()
            || self.recovery.is_some()
            || !self.rebuilds.is_empty()
            || (!self.time.is_settled() && self.may_serve(ring))
            || matches!(self.proof, Proof::Wanted(_))
            || !self.changing.is_empty();
        if !busy && self.slots.is_empty() && !self.restless {
            return;
        }
        let wait = match (busy || self.restless, self.unsettled.is_empty()) {
            (true, _) => BUSY,
            (false, false) => UNSETTLED,
            (false, true) => IDLE.min(self.sweep.since(cx.now)).max(BUSY),
        };
        let at = cx.now.after(wait);
        if self.armed.is_none_or(|armed| armed > at || armed < cx.now) {
            self.armed = Some(at);
            cx.set_timer(Timer::Store, wait);
        }
    }

    fn flush(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        // What a node tells itself may lead to more.
        loop {
            while let Some(items) = self.outgoing.remove(&self.me.id) {
                for item in items {
                    self.on_word(self.me.id, item, ring, cx);
                }
            }
            for number in core::mem::take(&mut self.voided) {
                self.void_answers(number, ring, cx);
            }
            self.tend_eagerly(ring, cx);
            self.start_over(ring, cx);
            let idle = self.eager.is_empty() && self.moved.is_empty() && self.voided.is_empty();
            if idle && !self.outgoing.contains_key(&self.me.id) {
                break;
            }
        }
        for (to, items) in core::mem::take(&mut self.outgoing) {
            let Some(contact) = self.contact(to, ring) else {
                self.seek(Sought::Node(to), ring, cx);
                continue;
            };
            for chunk in items.chunks(ITEMS_MAX) {
                let packet = Packet { message: Message::Slots(chunk.to_vec()), contacts: Vec::new() };
                cx.send(contact, Body::Store(Box::new(packet)));
            }
        }
    }

    /// Ends everything: this node is out of the ring.
    pub(crate) fn end(&mut self, cx: &mut Ctx<'_>) {
        self.end_asks(cx);
        self.ops.clear();
        self.lines.clear();
    }

    /// Checks what must always hold.
    ///
    /// # Panics
    /// If something does not hold: a mistake of ours.
    pub fn check_invariants(&self, config: &Config) {
        assert!(self.writes.is_empty() && self.outgoing.is_empty(), "everything decided was handed over");
        assert!(self.ops.len() <= config.operations as usize);
        for (number, slot) in &self.slots {
            assert!(*number < config.slots);
            assert_eq!(slot.view.has(self.me), slot.standing != Standing::Outside, "slot {number}");
            assert!(slot.view.members.len() <= 16 && !slot.view.members.is_empty());
        }
        assert!(self.peers.len() <= PEERS_MAX);
    }
}
