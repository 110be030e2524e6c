//! Cluster time: the clock that versions, times to live and liveness of records are judged by.
//!
//! It is this node's monotonic clock plus an offset. The offset starts from the wall clock and is then the median of what
//! other members say, so a wall clock that is wrong, or is set while the node runs, moves nothing. A node makes no version
//! and serves no slot before it has compared clocks once ([`ClusterTime::is_settled`]).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::message::{ClockReading, Message};
use super::version::Version;
use super::view::Slot;
use super::{Sought, Store};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::Ctx;
use crate::id::NodeId;
use crate::overlay::Routes;
use crate::records::{Space, Write};
use crate::time::Time;

/// How long a reading of another node's clock counts. Monotonic clocks drift by less than 0.2 ms in a second.
const READING: Duration = Duration::from_secs(300);
/// How often clocks are compared before cluster time is known.
const ASK: Duration = Duration::from_millis(200);
/// How long a node that starts together with others waits for all members it knows of; then for more than half of them;
/// then for any other node. After that it goes by its own clock.
const WAIT_FOR_ALL: Duration = Duration::from_secs(1);
const WAIT_FOR_MOST: Duration = Duration::from_secs(5);
const WAIT_FOR_ANY: Duration = Duration::from_secs(10);
/// How far the times of two nodes may be apart for one to follow the other.
const APART: u64 = 1000;
/// Questions to one node that may be open: at one every 200 ms, the answers of more than three seconds.
const QUESTIONS_MAX: usize = 16;
/// Microseconds after which an answer says nothing about clocks: up to half of them may be missing from it. Longer than the
/// round trips a cluster is made for.
const ANSWERED: u64 = 3_000_000;
/// Members whose clocks are compared, until cluster time is known and afterwards.
const CLOCKS: usize = 16;
const CLOCKS_SETTLED: usize = 4;
/// How far what different disks know of cluster time may be apart, in milliseconds, after nodes that ran together stop together.
/// They write it down once a minute or more often.
const KEPT: i64 = 120_000;
/// How far ahead of cluster time a hybrid clock may be raised by what other nodes say: ten years. Versions have room for
/// thousands; a peer that says more is wrong, and would use that room up.
const FARTHEST: u64 = 10 * 366 * 86_400_000;

/// The offset of cluster time, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct ClusterTime {
    /// Cluster time as an earlier life knew it: it is later now, whatever wall clocks say.
    known: u64,
    /// Milliseconds from this node's monotonic clock to cluster time.
    offset: Option<i64>,
    settled: bool,
    /// When the node began to look for cluster time, and when it last asked.
    since: Option<Time>,
    asked: Option<Time>,
    readings: BTreeMap<NodeId, Reading>,
}

/// The clocks of another node, as offsets from this node's monotonic clock in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reading {
    time: i64,
    wall: i64,
    settled: bool,
    at: Time,
}

/// What a node can say about its clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClockView {
    /// Whether cluster time is known.
    pub settled: bool,
    /// How far this node's wall clock is ahead of cluster time, in milliseconds.
    pub ahead: i64,
    /// How far it is ahead of the median of all wall clocks, if there are three or more to judge by.
    pub off: Option<i64>,
    /// Other nodes whose clocks have been read lately.
    pub clocks: u32,
    /// How far versions are ahead of cluster time, in milliseconds.
    pub hybrid_ahead: i64,
}

fn millis(now: Time) -> i64 {
    i64::try_from(now.micros() / 1000).unwrap_or(i64::MAX)
}

fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    // Of two in the middle the lower: a clock that is behind hides no record before its time.
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}

impl ClusterTime {
    /// Reads it.
    fn at(&self, now: Time, wall: u64) -> u64 {
        match self.offset {
            Some(offset) => u64::try_from(millis(now).saturating_add(offset)).unwrap_or(0),
            None => wall.max(self.known),
        }
    }

    /// Begins a life on a disk that knows this time.
    pub(super) fn since(known: u64) -> ClusterTime {
        ClusterTime { known, ..ClusterTime::default() }
    }

    /// Starts from the wall clock, once.
    pub(super) fn start(&mut self, now: Time, wall: u64) {
        if self.offset.is_none() {
            let start = i64::try_from(wall.max(self.known)).unwrap_or(i64::MAX);
            self.offset = Some(start.saturating_sub(millis(now)));
        }
    }

    /// There is no other node whose time could be meant: this node's is the cluster's.
    pub(super) fn found(&mut self) {
        self.settled = true;
    }

    /// Returns since when the node has had a place in the ring.
    pub(super) fn part_since(&self) -> Option<Time> {
        self.since
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    fn fresh(&self, now: Time) -> impl Iterator<Item = (&NodeId, &Reading)> {
        self.readings.iter().filter(move |(_, reading)| now.since(reading.at) < READING)
    }

    /// Says whether enough clocks have been read to know the time: one that is wrong must not be the only one.
    fn has_heard_enough(&self, known: usize, now: Time) -> bool {
        let (alone, known) = (known == 0, known.max(2));
        let least = match self.since.map_or(Duration::ZERO, |since| now.since(since)) {
            waited if waited < WAIT_FOR_ALL => known,
            waited if waited < WAIT_FOR_MOST => known / 2 + 1,
            waited if waited < WAIT_FOR_ANY => 2,
            // Cut off, with slots of its own to serve.
            _ if alone => 1,
            _ => 2,
        };
        self.fresh(now).count() + 1 >= least
    }

    /// Takes what the readings say. `known` is how many members there are on the disk's views, this node included; zero: it
    /// has slots that it holds alone. `is_blank`: it has no view, and they are the nodes around it.
    fn adjust(&mut self, me: NodeId, (known, is_blank): (usize, bool), now: Time, wall: u64) {
        self.start(now, wall);
        let Some(own) = self.offset else { return };
        let settled: Vec<(NodeId, i64)> = self
            .fresh(now)
            .filter(|(_, reading)| reading.settled)
            .map(|(id, reading)| (*id, reading.time))
            .collect();
        let offset = match (self.settled, settled.as_slice()) {
            // Nothing to compare with.
            (true, []) => None,
            // Of two the one with the lower id is followed, so that they do not drift apart. If they are apart already, it
            // cannot be said which one is wrong.
            (true, [(id, time)]) => (*id < me && time.abs_diff(own) <= APART).then_some(*time),
            (true, several) => median(several.iter().map(|(_, time)| *time).chain([own]).collect()),
            (false, _) if !self.has_heard_enough(known, now) => None,
            // Those that hold something find the time out first. A node that holds nothing would have only two clocks to go by
            // (chaos seed 150074).
            (false, []) if is_blank => None,
            // All have just started: the wall clocks decide. Not one that was set back to before what this node knows: of two
            // the lower is taken, and what had ended would be there again (chaos seed 6000237).
            (false, []) => {
                let known = i64::try_from(self.known).unwrap_or(i64::MAX).saturating_sub(millis(now));
                let walls = self.fresh(now).map(|(_, reading)| reading.wall);
                median(walls.filter(|wall| wall.saturating_add(KEPT) >= known).chain([own]).collect())
            }
            // A node that comes into a cluster takes the cluster's time, whatever its own clock says.
            (false, several) => median(several.iter().map(|(_, time)| *time).collect()),
        };
        if let Some(offset) = offset {
            (self.offset, self.settled) = (Some(offset), true);
        }
    }
}

impl Store {
    /// Returns cluster time, in milliseconds since 1970.
    pub(super) fn time(&self, cx: &Ctx<'_>) -> u64 {
        if !cx.config.rule(Safeguard::ClusterTime) {
            return cx.wall;
        }
        self.time.at(cx.now, cx.wall)
    }

    /// Reads the wall clock, once in a life: what it is set to afterwards moves nothing.
    pub(crate) fn start_clock(&mut self, cx: &Ctx<'_>) {
        self.time.start(cx.now, cx.wall);
    }

    /// Writes cluster time down: it does not go back, also if all nodes start again with clocks that were set back.
    pub(super) fn keep_time(&mut self, cx: &Ctx<'_>) {
        if self.time.settled {
            let (key, value) = (super::TIME_KEY.into(), Some(self.time(cx).to_be_bytes().as_slice().into()));
            self.writes.push(Write { space: Space::Meta, key, value });
        }
    }

    /// Says whether cluster time is known: versions may be made, and times to live judged.
    pub(super) fn knows_time(&self) -> bool {
        self.time.settled
    }

    /// Returns the members of all views this node has.
    fn known_members(&self) -> BTreeSet<NodeId> {
        let members = self.slots.values().flat_map(|slot| slot.view.members.iter().map(|member| member.id));
        members.filter(|id| !self.retired.contains(id)).collect()
    }

    /// Returns how many members are to be heard before the time is known; zero: this node has slots that it holds alone, and
    /// may go by its own clock if it hears none. And whether it has no view, and asks those around it.
    fn known_count(&self, members: &BTreeSet<NodeId>, around: usize) -> (usize, bool) {
        let sole = |slot: &Slot| slot.view.members.iter().all(|m| m.id == self.me.id || self.is_lost(m));
        match members.len() {
            _ if self.slots.values().any(sole) => (0, false),
            0 => (1 + around.min(2), true),
            known => (known, false),
        }
    }

    /// Compares clocks with the nodes around, often until cluster time is known.
    pub(super) fn seek_time(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.time.start(cx.now, cx.wall);
        if !self.may_serve(ring) {
            return;
        }
        self.time.since.get_or_insert(cx.now);
        if self.time.settled {
            return;
        }
        let members = self.known_members();
        let around = ring.neighbours().len();
        let alone = around == 0 && members.iter().all(|id| *id == self.me.id) && !members.is_empty();
        if alone {
            self.time.found();
        } else {
            self.time.adjust(self.me.id, self.known_count(&members, around), cx.now, cx.wall);
        }
        if self.time.settled {
            self.on_time(cx);
        } else if self.time.asked.is_none_or(|asked| cx.now.since(asked) >= ASK) {
            self.compare_clocks(ring, cx);
        }
    }

    /// Cluster time is known now.
    fn on_time(&mut self, cx: &Ctx<'_>) {
        self.restless = true;
        self.clock.lead = self.clock.hybrid.wall().saturating_sub(self.time(cx)).min(FARTHEST);
    }

    /// Asks other nodes for their clocks.
    pub(super) fn compare_clocks(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.time.asked = Some(cx.now);
        let members = self.known_members().into_iter();
        let around = ring.neighbours().into_iter().map(|peer| peer.id);
        let mut peers: Vec<NodeId> = Vec::new();
        for id in around.chain(members) {
            if id != self.me.id && !peers.contains(&id) && peers.len() < CLOCKS {
                peers.push(id);
            }
        }
        if self.time.settled && peers.len() > CLOCKS_SETTLED {
            // Others each time, in turn by chance.
            let start = (cx.dice.roll() % peers.len() as u64) as usize;
            peers.rotate_left(start);
            peers.truncate(CLOCKS_SETTLED);
        }
        for peer in peers {
            self.tell_clock(peer, ring, cx);
        }
    }

    fn clock_reading(&self, nonce: u32, is_answer: bool, ring: &dyn Routes, cx: &Ctx<'_>) -> ClockReading {
        ClockReading {
            nonce,
            is_answer,
            time: self.time(cx),
            // Before cluster time is known: what this node would take it for.
            wall: if self.time.settled { cx.wall } else { self.time(cx) },
            settled: self.time.settled,
            hybrid: self.clock.hybrid,
            born: self.me.born,
            retired: self.retired.iter().copied().collect(),
            has_room: self.room,
            leaving: self.wants_to_leave(ring),
        }
    }

    /// Tells one node this node's clocks, and asks for its own.
    pub(super) fn tell_clock(&mut self, to: NodeId, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(contact) = self.contact(to, ring) else { return self.seek(Sought::Node(to), ring, cx) };
        let (nonce, now) = (cx.dice.roll() as u32, cx.now);
        let questions = &mut self.peer(contact).questions;
        if questions.len() >= QUESTIONS_MAX {
            questions.remove(0);
        }
        questions.push((nonce, now));
        let reading = self.clock_reading(nonce, false, ring, cx);
        self.send(to, Message::Clock(reading), ring, cx);
    }

    /// Another node tells its clocks.
    pub(super) fn on_clock(
        &mut self,
        from: Contact,
        reading: ClockReading,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        self.time.start(cx.now, cx.wall);
        self.peer(from).has_store = true;
        if core::mem::replace(&mut self.peer(from).full, !reading.has_room) == reading.has_room {
            self.restless = true;
        }
        self.raise(reading.hybrid, cx);
        self.on_retired(&reading.retired, ring, cx);
        let is_now = from.incarnation >= self.peer(from).contact.incarnation;
        if reading.leaving && is_now && !core::mem::replace(&mut self.peer(from).leaving, true) {
            // What was asked before may be answered with what was true before.
            self.peer(from).questions.clear();
            self.restless = true;
        }
        if !reading.is_answer {
            let answer = self.clock_reading(reading.nonce, true, ring, cx);
            self.send(from.id, Message::Clock(answer), ring, cx);
            // It may be another disk than this node knows of, which only an answer to a question of its own can tell.
            if self.peer(from).born != Some(reading.born) {
                self.ask_born(from.id, ring, cx);
            }
            return;
        }
        // An unknown answer does not end what is open: it would be asked again, and so on for ever.
        let questions = &mut self.peer(from).questions;
        let Some(&(_, sent)) = questions.iter().find(|(nonce, _)| *nonce == reading.nonce) else { return };
        questions.clear();
        let knows_leaving = self.leaving.is_some();
        let peer = self.peer(from);
        (peer.leaving, peer.knows_leaving) = (reading.leaving, knows_leaving);
        self.on_born(from, reading.born);
        let (now, sent) = (cx.now.micros(), sent.micros());
        if now - sent > ANSWERED {
            return;
        }
        // What it said was true in the middle of the round trip, more or less.
        let middle = millis(Time::from_micros(sent + (now - sent) / 2));
        let offset = |clock: u64| i64::try_from(clock).unwrap_or(i64::MAX).saturating_sub(middle);
        let (time, wall) = (offset(reading.time), offset(reading.wall));
        if self.time.readings.len() >= CLOCKS * 2 && !self.time.readings.contains_key(&from.id) {
            let now = cx.now;
            self.time.readings.retain(|_, reading| now.since(reading.at) < READING);
            if self.time.readings.len() >= CLOCKS * 2 {
                self.time.readings.pop_first();
            }
        }
        let settled = reading.settled;
        self.time.readings.insert(from.id, Reading { time, wall, settled, at: cx.now });
        let known = self.known_count(&self.known_members(), ring.neighbours().len());
        let before = self.time.settled;
        self.time.adjust(self.me.id, known, cx.now, cx.wall);
        if self.time.settled && !before {
            self.on_time(cx);
            self.go_on(ring, cx);
        }
    }

    /// Raises the hybrid clock to a version that other nodes have: no ballot made here from now on is lower.
    pub(super) fn raise(&mut self, version: Version, cx: &Ctx<'_>) {
        let time = self.time(cx);
        if version.wall() > time.saturating_add(FARTHEST) {
            return;
        }
        self.clock.hybrid = self.clock.hybrid.max(version);
        if self.time.settled {
            self.clock.lead = self.clock.lead.max(version.wall().saturating_sub(time));
        }
    }

    pub(super) fn ahead(cx: &Ctx<'_>) -> u64 {
        u64::try_from(cx.config.clock_ahead.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns how far versions have to be ahead of cluster time, because those that are stored are: more than clocks
    /// may differ. Versions then go on with time from there, so that a later write has the higher one.
    fn lead(&self, cx: &Ctx<'_>) -> u64 {
        if self.clock.lead > Self::ahead(cx) { self.clock.lead } else { 0 }
    }

    /// Returns a version above all that are stored here.
    pub(super) fn latest(&self, cx: &Ctx<'_>) -> Version {
        let lead = self.lead(cx);
        let now = if lead > 0 { self.time(cx).saturating_add(lead) } else { 0 };
        self.clock.hybrid.max(Version::at(now))
    }

    /// Says whether a version may be taken: it is not far beyond this node's time, and where versions have got to.
    pub(super) fn is_admissible(&self, version: Version, cx: &Ctx<'_>) -> bool {
        let latest = self.time(cx).saturating_add(self.lead(cx));
        version.wall() <= latest.saturating_add(Self::ahead(cx))
    }

    /// Returns what a plain write must be above, if versions here are far ahead of cluster time. A writer that does not
    /// know that would make a version below those of earlier writes.
    pub(super) fn floor(&self, cx: &Ctx<'_>) -> Version {
        match self.lead(cx) {
            0 => Version::ZERO,
            lead => Version::at((self.time(cx).saturating_add(lead)).saturating_sub(Self::ahead(cx))),
        }
    }

    /// Makes a version above `floor`. `None`: not before cluster time is known and the bound has been moved.
    pub(super) fn make_version(&mut self, floor: Version, cx: &Ctx<'_>) -> Option<Version> {
        let vouched = self.proof == super::Proof::Given || self.peers.values().any(|peer| peer.vouched);
        if !self.time.settled || !vouched {
            return None;
        }
        // The last digits of ids: the first are alike among neighbours.
        let tag = self.me.id.value() as u16 ^ self.me.born as u16;
        let base = floor.max(Version::at(self.time(cx)));
        // What was made while the clock was far ahead binds nothing: all that was stored is in the floor.
        let near = self.clock.last.wall() <= base.wall().saturating_add(Self::ahead(cx));
        let version = if near { base.max(self.clock.last) } else { base }.next(tag);
        if self.move_bound(version) {
            self.keep_time(cx);
        }
        if version.wall() >= self.clock.bound {
            return None;
        }
        self.clock.last = version;
        Some(version)
    }

    /// Looks at the clocks.
    pub fn clock_view(&self, now: Time, wall: u64) -> ClockView {
        let time = self.time.at(now, wall);
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let own = signed(wall).saturating_sub(millis(now));
        let mut walls: Vec<i64> = self.time.fresh(now).map(|(_, reading)| reading.wall).collect();
        let clocks = walls.len() as u32;
        walls.push(own);
        ClockView {
            settled: self.time.settled,
            ahead: signed(wall).saturating_sub(signed(time)),
            off: (clocks >= 2).then(|| median(walls)).flatten().map(|median| own.saturating_sub(median)),
            clocks,
            hybrid_ahead: signed(self.clock.hybrid.wall()).saturating_sub(signed(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    const NOW: Time = Time::from_micros(5_000_000);

    fn reading(time: i64, wall: i64, settled: bool) -> Reading {
        Reading { time, wall, settled, at: NOW }
    }

    fn time(offset: i64, settled: bool, readings: &[Reading]) -> ClusterTime {
        let readings = readings.iter().enumerate().map(|(at, reading)| (Id::new(at as u128 + 1), *reading));
        let readings = readings.collect();
        ClusterTime { known: 0, offset: Some(offset), settled, since: Some(NOW), asked: None, readings }
    }

    #[test]
    fn joining_node_takes_the_time_of_settled_members() {
        let mut time = time(3_600_000, false, &[reading(10, 10, true), reading(12, 9_999, true)]);
        time.adjust(Id::new(9), (1, false), NOW, 0);
        assert_eq!((time.offset, time.settled), (Some(10), true));
    }

    #[test]
    fn wrong_clock_among_three_starting_nodes_is_outvoted() {
        for own in [0, 3_600_000] {
            let other = 3_600_000 - own;
            let mut time = time(own, false, &[reading(other, other, false), reading(5, 5, false)]);
            time.adjust(Id::new(9), (3, false), NOW, 0);
            assert_eq!((time.offset, time.settled), (Some(5), true), "own clock {own}");
        }
    }

    #[test]
    fn node_that_holds_nothing_lets_others_find_the_time_out() {
        let mut blank = time(-119_000, false, &[reading(0, 0, false), reading(5, 5, false)]);
        blank.adjust(Id::new(9), (3, true), NOW.after(WAIT_FOR_ANY), 0);
        assert!(!blank.settled);
        blank.readings.insert(Id::new(1), reading(0, 0, true));
        blank.adjust(Id::new(9), (3, true), NOW.after(WAIT_FOR_ANY), 0);
        assert_eq!((blank.offset, blank.settled), (Some(0), true));
    }

    #[test]
    fn clock_set_back_to_before_the_known_time_does_not_count() {
        let known = 4_000_000;
        for (wall, taken) in [(known - 3_600_000, known), (known - 60_000, known - 60_000)] {
            let mut time = time(known, false, &[reading(wall, wall, false)]);
            time.known = known as u64 + NOW.micros() / 1000;
            time.adjust(Id::new(9), (2, false), NOW, 0);
            assert_eq!((time.offset, time.settled), (Some(taken), true));
        }
    }

    #[test]
    fn starting_node_waits_for_all_members_and_then_for_a_majority() {
        let mut two_of_three = time(0, false, &[reading(3_600_000, 3_600_000, false)]);
        two_of_three.adjust(Id::new(9), (3, false), NOW, 0);
        assert!(!two_of_three.settled);
        two_of_three.adjust(Id::new(9), (3, false), NOW.after(WAIT_FOR_ALL), 0);
        assert_eq!((two_of_three.offset, two_of_three.settled), (Some(0), true), "the lower of two");
        let mut one_of_three = time(0, false, &[]);
        one_of_three.adjust(Id::new(9), (3, false), NOW.after(WAIT_FOR_ALL), 0);
        assert!(!one_of_three.settled);
    }

    #[test]
    fn settled_time_follows_the_median_and_ignores_the_wall_clock() {
        let mut time = time(100, true, &[reading(3_600_000, 0, true), reading(104, 0, true)]);
        time.adjust(Id::new(9), (3, false), NOW, 7_777_777);
        assert_eq!(time.offset, Some(104));
        assert_eq!(time.at(NOW, 7_777_777), 5_104);
    }

    #[test]
    fn of_two_the_lower_id_is_followed() {
        let mut higher = time(100, true, &[reading(150, 0, true)]);
        higher.adjust(Id::new(9), (2, false), NOW, 0);
        assert_eq!(higher.offset, Some(150));
        let mut lower = time(100, true, &[reading(150, 0, true)]);
        lower.adjust(Id::ZERO, (2, false), NOW, 0);
        assert_eq!(lower.offset, Some(100));
    }
}
