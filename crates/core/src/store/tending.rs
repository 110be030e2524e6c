//! What is done without being asked: views follow the ring, copies are compared, what is dead is dropped.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use xxhash_rust::xxh3::xxh3_128;

use super::asking::lookup;
use super::coding::{Shared, Sum};
use super::message::{Compare, Message, Packet, Word};
use super::pulling::Why;
use super::record::{Cell, Kind, Record};
use super::version::Version;
use super::view::{Cut, Learner, Member, Slot, Standing};
use super::{PROOF, Peer, Proof, Seeking, Sought, Store};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::{Ctx, Event};
use crate::id::NodeId;
use crate::message::Body;
use crate::overlay::{Routes, Status};
use crate::records::Space;

/// How often all views are looked at, at most.
const EVERY: Duration = Duration::from_millis(50);
/// How often somebody that is to become a member is told so.
const TOLD: Duration = Duration::from_secs(1);
/// Slots looked for at the same time, and nodes.
const SEEKING: usize = 16;
/// How long a lookup is waited for.
const SOUGHT: Duration = Duration::from_secs(2);
/// How long a slot this node does not hold is kept at least.
const KEPT: Duration = Duration::from_secs(30);

impl Store {
    /// Looks after views and copies.
    pub(super) fn tend(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.hurry(cx);
        if ring.status() != Status::Ready && ring.status() != Status::Leaving {
            return;
        }
        if self.restless && cx.now >= self.tend {
            self.restless = false;
            self.tend = cx.now.after(EVERY);
            self.unsettled.extend(self.slots.keys().copied());
        }
        let numbers: Vec<u32> = self.unsettled.iter().copied().collect();
        for number in numbers {
            if !self.tend_slot(number, ring, cx) {
                self.unsettled.remove(&number);
            }
        }
        if cx.now >= self.sweep {
            // Not all nodes at the same time.
            let half = cx.config.sweep / 2;
            let more = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
            self.sweep = cx.now.after(half + Duration::from_millis(cx.dice.roll() % more));
            self.compare(ring, cx);
            self.ask_to_forget(cx);
        }
    }

    /// Looks at views that something has just been learnt about.
    pub(super) fn tend_eagerly(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if ring.status() != Status::Ready && ring.status() != Status::Leaving {
            return self.unsettled.append(&mut self.eager);
        }
        while let Some(number) = self.eager.pop_first() {
            if self.tend_slot(number, ring, cx) {
                self.unsettled.insert(number);
            }
        }
    }

    /// Moves the view of a slot one step towards what the ring wishes. `false`: there is nothing to do.
    fn tend_slot(&mut self, number: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) -> bool {
        let Some(slot) = self.slots.get(&number) else { return false };
        if slot.standing == Standing::Outside {
            return false;
        }
        if !slot.serves() || slot.round.is_some() || !self.is_proved(slot) {
            return true;
        }
        if !ring.covers(Cut::of(cx.config.slots).middle(number)) {
            return self.tend_from_afar(number, ring, cx);
        }
        let members = &slot.view.members;
        let alive = |member: &&Member| !self.is_gone(member);
        // Somebody the ring does not know may be alive, but can not be waited for.
        let near = |member: &&Member| !self.is_gone(member) && ring.contact(member.id).is_some();
        // One of them acts, the others wait for it.
        if members.iter().find(near).is_none_or(|first| *first != self.me) {
            return false;
        }
        let copies = usize::from(cx.config.replicas).max(1);
        // The ring still has those that want out, and some that are dead.
        let goes = |peer: &Peer| peer.leaving || peer.down.is_some();
        let out: Vec<NodeId> = self.peers.iter().filter(|(_, peer)| goes(peer)).map(|(id, _)| *id).collect();
        let known = out.iter().filter(|id| ring.contact(**id).is_some()).count();
        let middle = Cut::of(cx.config.slots).middle(number);
        let mut wish: Vec<NodeId> = ring
            .replicas(middle, copies + known + 1)
            .iter()
            .map(|contact| contact.id)
            .filter(|id| !out.contains(id) && (self.leaving.is_none() || *id != self.me.id))
            .collect();
        wish.truncate(copies);
        if members.iter().filter(alive).count() < slot.view.quorum() {
            return true;
        }
        // Who is to go: the gone first, then those that want to, then the farthest.
        let mut extra: Vec<Member> = members
            .iter()
            .filter(|member| !wish.contains(&member.id) || self.is_other(member))
            .copied()
            .collect();
        extra.sort_by_key(|member| (!self.is_gone(member), near(&member), !out.contains(&member.id)));
        let missing: Vec<NodeId> =
            wish.iter().filter(|id| !members.iter().any(|member| member.id == **id)).copied().collect();
        let without =
            |gone: Member| members.iter().filter(|member| **member != gone).copied().collect::<Vec<_>>();
        let worst = extra.first().copied();
        if let Some(worst) = worst
            && members.len() > 1
            && (members.len() > copies
                || self.is_other(&worst)
                || (missing.is_empty() && self.wants_out(worst.id)))
        {
            let wish = without(worst);
            self.start_round(number, wish, cx);
            return true;
        }
        let Some(newcomer) = missing.first().copied().filter(|_| members.len() < copies || worst.is_some())
        else {
            return false;
        };
        if worst.is_some_and(|worst| members.len() >= copies && self.is_pausing(worst.id, cx)) {
            return true;
        }
        let ready = slot.learner.filter(|learner| learner.id == newcomer);
        match (ready, ready.and_then(|learner| learner.born)) {
            (Some(_), Some(born)) => {
                // The newcomer first, even if somebody is dead: who seems so may come back, and until the newcomer
                // counts, its copy may be needed.
                let mut wish = members.clone();
                wish.push(Member { id: newcomer, born });
                wish.sort_by_key(|member| ring.rank(middle, member.id));
                self.start_round(number, wish, cx);
            }
            (Some(learner), None) if cx.now.since(learner.told) < TOLD => {}
            _ => {
                let view = slot.view.clone();
                if let Some(slot) = self.slots.get_mut(&number) {
                    slot.learner = Some(Learner { id: newcomer, born: None, told: cx.now });
                }
                self.word(newcomer, number, Word::Learn { view });
            }
        }
        true
    }

    /// A member that is far from its slot can not tell who should hold it. Whoever answers for the slot can: it is found,
    /// and becomes a member.
    fn tend_from_afar(&mut self, number: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) -> bool {
        let Some(slot) = self.slots.get(&number) else { return false };
        let middle = Cut::of(cx.config.slots).middle(number);
        let members = &slot.view.members;
        if let Some(lost) = members.iter().find(|member| self.is_other(member)).filter(|_| members.len() > 1)
        {
            // It may be the very node that answers for the slot, which can become a member only when it is none.
            let wish = members.iter().filter(|member| *member != lost).copied().collect();
            self.start_round(number, wish, cx);
            return true;
        }
        match slot.learner {
            Some(Learner { id, born: Some(born), .. }) if slot.view.place(id).is_none() => {
                let mut wish = slot.view.members.clone();
                if wish.len() < 16 {
                    wish.push(Member { id, born });
                    wish.sort_by_key(|member| ring.rank(middle, member.id));
                    self.start_round(number, wish, cx);
                }
            }
            Some(learner) if cx.now.since(learner.told) < TOLD * 2 => {}
            _ => self.seek(Sought::Slot(number), ring, cx),
        }
        true
    }

    /// Asks the ring for somebody, unless that was done a moment ago. Answers can be lost, so nobody is waited for for
    /// ever.
    pub(super) fn seek(&mut self, what: Sought, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if !matches!(ring.status(), Status::Ready | Status::Leaving) {
            return;
        }
        self.seeking.retain(|_, seeking| cx.now.since(seeking.since) < SOUGHT);
        let alike = |other: &Sought| core::mem::discriminant(other) == core::mem::discriminant(&what);
        let open = self.seeking.values().filter(|seeking| alike(&seeking.what)).count();
        if open >= SEEKING || self.seeking.values().any(|seeking| seeking.what == what) {
            return;
        }
        let key = match what {
            Sought::Slot(number) => Cut::of(cx.config.slots).middle(number),
            Sought::Node(id) => id,
        };
        let serial = cx.dice.roll() as u32;
        self.seeking.insert(serial, Seeking { what, since: cx.now });
        cx.out.route(lookup(key, serial, ring));
    }

    /// Whoever answers for what was looked up was found, or not.
    pub(super) fn sought(&mut self, serial: u32, seeking: Seeking, root: Option<Contact>, cx: &mut Ctx<'_>) {
        let number = match seeking.what {
            Sought::Slot(number) => number,
            Sought::Node(id) => {
                match root.filter(|root| root.id == id) {
                    // What was to be said is said again by whoever wanted to.
                    Some(node) => _ = self.peer(node),
                    // It is not in the ring. Kept, so that it is not looked up again at once.
                    None => _ = self.seeking.insert(serial, seeking),
                }
                return;
            }
        };
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(root) = root.filter(|_| slot.serves()) else { return };
        if slot.view.place(root.id).is_some() {
            // It sees to the slot, unless it has lost the disk it had as a member: then it says so.
            let word = Word::View { view: slot.view.clone(), entered: slot.entered };
            self.peer(root);
            self.word(root.id, number, word);
            self.unsettled.remove(&number);
            return;
        }
        slot.learner = Some(Learner { id: root.id, born: None, told: cx.now });
        let view = slot.view.clone();
        self.peer(root);
        self.word(root.id, number, Word::Learn { view });
    }

    /// Says whether the node has another disk than the member had.
    fn is_other(&self, member: &Member) -> bool {
        self.peers.get(&member.id).is_some_and(|peer| peer.born.is_some_and(|born| born != member.born))
    }

    /// Says whether a member is dead, or not who it was.
    fn is_gone(&self, member: &Member) -> bool {
        self.is_down(member.id) || self.is_other(member)
    }

    fn wants_out(&self, id: NodeId) -> bool {
        match id == self.me.id {
            true => self.leaving.is_some(),
            false => self.peers.get(&id).is_some_and(|peer| peer.leaving),
        }
    }

    fn is_pausing(&self, id: NodeId, cx: &Ctx<'_>) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.pausing.is_some_and(|until| until > cx.now))
    }

    pub(super) fn tell_leaving(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.tell_all(&Message::Leaving, ring, cx);
    }

    /// Tells everybody who shares a slot with this node.
    fn tell_all(&mut self, message: &Message, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let members = self.slots.values().flat_map(|slot| slot.view.members.iter().map(|member| member.id));
        let peers: BTreeSet<NodeId> = members
            .chain(ring.neighbours().iter().map(|peer| peer.id))
            .filter(|id| *id != self.me.id)
            .collect();
        for peer in peers {
            self.send(peer, message.clone(), ring, cx);
        }
    }

    /// Says that this node stops for a while.
    pub(crate) fn pause(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        self.tell_all(&Message::Pausing, ring, cx);
    }

    /// Returns the slots this node and another share, of which `leader` comes first.
    fn shared(&self, leader: NodeId, other: NodeId) -> impl Iterator<Item = u32> + '_ {
        let shared = move |members: &[Member]| {
            members.first().is_some_and(|first| first.id == leader) && members.iter().any(|m| m.id == other)
        };
        let slots =
            self.slots.iter().filter(move |(_, slot)| slot.view.has(self.me) && shared(&slot.view.members));
        slots.map(|(number, _)| *number)
    }

    fn sum_of_shared(&self, leader: NodeId, other: NodeId) -> Sum {
        let mut sum = Sum::default();
        for number in self.shared(leader, other) {
            let Some(slot) = self.slots.get(&number) else { continue };
            let mut bytes = [0; 28];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            bytes[4..12].copy_from_slice(&slot.view.epoch.to_be_bytes());
            bytes[12..].copy_from_slice(&slot.state.0.to_be_bytes());
            sum.mix(Sum(xxh3_128(&bytes)));
        }
        sum
    }

    /// Asks for newer views of the slots that a node comes first in, as far as this one knows.
    fn seek_views(&mut self, leader: NodeId) {
        let numbers: Vec<u32> = self.shared(leader, self.me.id).collect();
        for number in numbers {
            let Some(epoch) = self.slots.get(&number).map(|slot| slot.view.epoch) else { continue };
            self.word(leader, number, Word::Seek { epoch });
        }
    }

    /// Asks everybody who has a copy of what this node looks after whether it is the same. Whoever should have asked this
    /// node, and has not for long, may know of views without it.
    fn compare(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let silence = cx.config.sweep * 2;
        let leaders: BTreeSet<NodeId> = self
            .slots
            .values()
            .filter(|slot| slot.view.has(self.me))
            .filter_map(|slot| slot.view.members.first())
            .map(|first| first.id)
            .filter(|id| *id != self.me.id)
            .filter(|id| self.peers.get(id).is_none_or(|peer| cx.now.since(peer.compared) > silence))
            .collect();
        for leader in leaders {
            self.seek_views(leader);
        }
        let mut peers: BTreeMap<NodeId, ()> = BTreeMap::new();
        for slot in self.slots.values() {
            if slot.view.members.first() == Some(&self.me) {
                peers.extend(slot.view.members.iter().skip(1).map(|member| (member.id, ())));
            }
        }
        for (peer, ()) in peers {
            let sum = self.sum_of_shared(self.me.id, peer);
            let compare = self.comparing(sum, None, peer, cx);
            self.send(peer, Message::Compare(compare), ring, cx);
        }
    }

    fn comparing(&self, sum: Sum, reply: Option<bool>, to: NodeId, cx: &Ctx<'_>) -> Compare {
        let known = self.peers.get(&to).map_or(0, |peer| peer.age);
        Compare { sum, wall: cx.wall, reply, born: self.me.born, age: self.age, known }
    }

    pub(super) fn on_compare(
        &mut self,
        from: Contact,
        compare: Compare,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Compare { sum, wall, reply, born, age, known } = compare;
        let offset = i128::from(wall) - i128::from(cx.wall);
        let now = cx.now;
        let peer = self.peer(from);
        peer.compared = now;
        peer.offset = Some(offset.clamp(i64::MIN.into(), i64::MAX.into()) as i64);
        // What was known of another disk says nothing about this one.
        if peer.born.replace(born).is_some_and(|before| before != born) {
            peer.age = 0;
            self.restless = true;
        }
        if reply.is_none() {
            // What this node remembers is told before it learns better.
            let same = self.sum_of_shared(from.id, self.me.id) == sum;
            let compare = self.comparing(sum, Some(same), from.id, cx);
            let packet = Packet { message: Message::Compare(compare), contacts: Vec::new() };
            cx.send(from, Body::Store(Box::new(packet)));
            if !same {
                self.seek_views(from.id);
            }
        }
        let peer = self.peer(from);
        peer.age = peer.age.max(age);
        if reply.is_some() {
            self.vouch(from, known, ring, cx);
        }
        match reply {
            None => {}
            Some(same) => {
                let numbers: Vec<u32> = self.shared(self.me.id, from.id).collect();
                for number in numbers {
                    let Some(slot) = self.slots.get(&number) else { continue };
                    let (epoch, state) = (slot.view.epoch, slot.state);
                    if same {
                        self.on_same(from.id, number, state);
                    } else {
                        self.word(from.id, number, Word::State { epoch, state });
                    }
                    self.collect(number, cx);
                }
            }
        }
    }

    /// Somebody says how far this node's disk had come when it last heard of it.
    fn vouch(&mut self, from: Contact, known: u64, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        if let Proof::Wanted(_) = self.proof
            && known > self.age
            && cx.config.rule(Safeguard::Born)
        {
            // This is an old copy of the disk: what was promised and taken since is not on it.
            self.proof = Proof::Failed;
            cx.out.raise(Event::StoreOutdated);
            return;
        }
        self.peer(from).vouched = true;
        self.prove(ring, cx);
    }

    /// A node that comes back serves no slot before as many of its other members as make a quorum with it have said that
    /// its disk is the one they knew. Nothing can be done without them anyway.
    pub(super) fn prove(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Proof::Wanted(asked) = self.proof else { return };
        if ring.status() != Status::Ready {
            return;
        }
        let proved = |slot: &Slot| self.vouched(slot) + 1 >= slot.view.quorum();
        if self.slots.values().filter(|slot| slot.view.has(self.me)).all(proved) {
            self.proof = Proof::Given;
            self.restless = true;
        } else if asked.is_none_or(|asked| cx.now.since(asked) >= PROOF) {
            self.proof = Proof::Wanted(Some(cx.now));
            let others: BTreeSet<NodeId> = self
                .slots
                .values()
                .flat_map(|slot| slot.view.members.iter().map(|member| member.id))
                .filter(|id| *id != self.me.id && !self.peers.get(id).is_some_and(|peer| peer.vouched))
                .collect();
            for other in others {
                let sum = self.sum_of_shared(self.me.id, other);
                let compare = self.comparing(sum, None, other, cx);
                self.send(other, Message::Compare(compare), ring, cx);
            }
        }
        // What waited for this goes on.
        self.moved.extend(self.slots.keys().copied());
    }

    /// Returns how many other members of a slot have vouched for this node's disk.
    fn vouched(&self, slot: &Slot) -> usize {
        // Whoever lost its own disk remembers nobody's.
        let others =
            slot.view.members.iter().filter(|member| member.id != self.me.id && !self.is_other(member));
        others.filter(|member| self.peers.get(&member.id).is_some_and(|peer| peer.vouched)).count()
    }

    /// Says whether this node's copy of a slot is known to be the one others knew.
    pub(super) fn is_proved(&self, slot: &Slot) -> bool {
        match self.proof {
            Proof::Given => true,
            Proof::Wanted(_) => self.vouched(slot) + 1 >= slot.view.quorum(),
            Proof::Failed => false,
        }
    }

    /// A member of a slot tells its state.
    pub(super) fn on_state(
        &mut self,
        from: NodeId,
        number: u32,
        state: Sum,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(slot) = self.slots.get(&number) else { return };
        let epoch = slot.view.epoch;
        let leads = slot.view.members.first().is_some_and(|first| first.id == from);
        if slot.state == state {
            return self.word(from, number, Word::Same { epoch, state });
        }
        let mine = slot.state;
        if !slot.serves() {
            return;
        }
        self.pull(number, from, Why::Sweep, ring, cx);
        if leads {
            // It does the same with us.
            self.word(from, number, Word::State { epoch, state: mine });
        }
    }

    pub(super) fn on_same(&mut self, from: NodeId, number: u32, state: Sum) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        if slot.state == state
            && let Some(place) = slot.view.place(from)
        {
            slot.agreed |= 1 << place;
        }
    }

    /// Lets all members of a slot drop what has been dead for long, if all of them know that it is.
    fn collect(&mut self, number: u32, cx: &mut Ctx<'_>) {
        let age = u64::try_from(cx.config.tombstone_age.as_millis()).unwrap_or(u64::MAX);
        let before = Version::at(cx.wall.saturating_sub(age));
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let others = (0..slot.view.members.len()).filter(|at| slot.view.members[*at] != self.me);
        let everybody = others.fold(0u16, |all, at| all | 1 << at);
        if slot.grave.is_none_or(|grave| grave >= before) || slot.agreed & everybody != everybody {
            return;
        }
        slot.agreed = 0;
        let (epoch, state, members) = (slot.view.epoch, slot.state, slot.view.members.clone());
        for member in members {
            self.word(member.id, number, Word::Collect { epoch, state, before });
        }
    }

    pub(super) fn on_collect(&mut self, number: u32, state: Sum, before: Version, cx: &mut Ctx<'_>) {
        let age = u64::try_from(cx.config.tombstone_age.as_millis()).unwrap_or(u64::MAX);
        let ahead = u64::try_from(cx.config.clock_ahead.as_millis()).unwrap_or(0);
        // Nobody may hurry the others.
        let before = before.min(Version::at(cx.wall.saturating_add(ahead).saturating_sub(age)));
        if !self.slots.get(&number).is_some_and(|slot| slot.serves() && slot.state == state) {
            return;
        }
        let (mut dead, mut grave): (Vec<(Cell, Record)>, Option<Version>) = (Vec::new(), None);
        let (from, to) = Cut::of(cx.config.slots).range(number);
        for (space, member) in [(Space::Data, false), (Space::Members, true)] {
            self.scan(space, (&from, &to), cx.records, &mut |key, value| {
                let cell = Cell { member, key: Shared(key.into()) };
                let Ok(record) = Record::read(&cell, &value.into()) else { return true };
                let over = !record.is_live(cx.wall);
                if over && record.version() < before {
                    dead.push((cell, record));
                } else if over || record.ends().is_some() {
                    grave = Some(grave.map_or(record.version(), |grave| grave.min(record.version())));
                }
                true
            });
        }
        // A set that is gone takes its values with it.
        dead.retain(|(cell, record)| cell.member || record.kind() != Kind::Member);
        for (cell, record) in dead {
            self.put(number, &cell, Some(&record), None);
        }
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.grave = grave;
        }
    }

    /// Asks whether what this node no longer holds may be forgotten.
    fn ask_to_forget(&mut self, cx: &mut Ctx<'_>) {
        let outside: Vec<u32> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.standing == Standing::Outside && slot.records > 0)
            .filter(|(_, slot)| cx.now.since(slot.since) > KEPT)
            .map(|(number, _)| *number)
            .collect();
        for number in outside {
            let Some(slot) = self.slots.get(&number) else { continue };
            let (epoch, members) = (slot.view.epoch, slot.view.members.clone());
            let me = self.me.id;
            for member in members.iter().filter(|member| member.id != me) {
                self.word(member.id, number, Word::Forget { epoch });
            }
        }
    }

    pub(super) fn on_forget(&mut self, from: NodeId, number: u32, epoch: u64) {
        let Some(slot) = self.slots.get(&number) else { return };
        if slot.view.place(from).is_some() && slot.view.epoch >= epoch && slot.learner.is_none() {
            // Not as this one knows it.
            let word = Word::View { view: slot.view.clone(), entered: slot.entered };
            self.word(from, number, word);
        } else if slot.view.epoch == epoch && slot.standing == Standing::Ready {
            self.word(from, number, Word::Safe { epoch });
        } else if slot.view.epoch > epoch {
            let word = Word::View { view: slot.view.clone(), entered: slot.entered };
            self.word(from, number, word);
        }
    }

    /// A member has caught up with an epoch this node is not in: once more than half have, its copy is one too many. The
    /// epoch itself is never forgotten: somebody who slept since an earlier one may come and say that this node is a
    /// member of that.
    pub(super) fn on_safe(&mut self, from: NodeId, number: u32, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(place) = slot.view.place(from).filter(|_| slot.standing == Standing::Outside) else {
            return;
        };
        slot.safe |= 1 << place;
        if (slot.safe.count_ones() as usize) < slot.view.quorum() || self.learners.contains_key(&number) {
            return;
        }
        let mut cells = Vec::new();
        let (from, to) = Cut::of(cx.config.slots).range(number);
        for (space, member) in [(Space::Data, false), (Space::Members, true)] {
            self.scan(space, (&from, &to), cx.records, &mut |key, _| {
                cells.push(Cell { member, key: Shared(key.into()) });
                true
            });
        }
        for cell in cells {
            self.put(number, &cell, None, None);
        }
        self.recount(number, cx.records, cx.config);
        self.unsettled.remove(&number);
        self.to_pull.remove(&number);
    }
}
