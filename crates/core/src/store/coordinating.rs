//! Operations as a member of the view coordinates them: writes, with and without condition.
//!
//! Every answer of a member carries the number of the operation, of the attempt and of the item it answers, so that
//! one that comes late counts for nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::coding::Shared;
use super::message::{Message, Packet, Response, Step, Verdict, Word};
use super::op::{Action, Answer, Ask, Change, Found, Happened, Name, Trouble};
use super::operation::{
    Client, HEAD, Operation, Stage, Then, Writing, ends, is_plain, is_read, is_repeatable,
};
use super::record::{Cell, Kind, Origin, Record, is_other_write};
use super::version::Version;
use super::view::{Cut, Slot, Standing};
use super::{After, Store};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::Ctx;
use crate::id::NodeId;
use crate::message::Body;
use crate::overlay::Routes;
use crate::time::Time;

impl Store {
    /// Another node asks this one to coordinate.
    #[expect(clippy::too_many_arguments, reason = "the parts of one message")]
    pub(super) fn asked(
        &mut self,
        from: Contact,
        (serial, turn): (u32, u8),
        ask: Ask,
        (version, at): (Version, u64),
        (patience, until): (u32, u64),
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let mut left = Duration::from_millis(patience.into()).min(cx.config.deadline_max);
        if !is_read(&ask.action) && self.knows_time() {
            left = left.min(Duration::from_millis(until.saturating_sub(self.time(cx))));
        }
        let deadline = cx.now.after(left);
        let origin = Origin { node: from.id, serial };
        let client = Client { peer: Some(from), turn };
        let mut again = false;
        if !is_read(&ask.action) {
            // A network may deliver a message twice. The asker counts its turns: one that is not later than the last is a copy.
            // Carried out again, it could do what the asker was told did not happen (chaos seed 13000433).
            let seen = match is_repeatable(&ask.action) {
                true => &mut self.seen_plain,
                false => &mut self.seen,
            };
            let before = seen.get(&origin).copied();
            if before.is_some_and(|(_, last)| (turn.wrapping_sub(last) as i8) <= 0) {
                return;
            }
            seen.note(origin, (version, turn));
            // What cannot be repeated is only asked for once more if the first turn had not begun it.
            again = is_repeatable(&ask.action) && before.is_some_and(|(last, _)| last == version);
            let same = |op: &&mut Operation| op.origin == origin && op.version == version;
            if again && let Some(op) = self.ops.values_mut().find(same) {
                op.client = client;
                return;
            }
        }
        self.coordinate(client, origin, Box::new(ask), (version, at), deadline, again, ring, cx);
    }

    /// Coordinates an operation.
    #[expect(clippy::too_many_arguments, reason = "everything that makes an operation")]
    pub(super) fn coordinate(
        &mut self,
        client: Client,
        origin: Origin,
        ask: Box<Ask>,
        (version, at): (Version, u64),
        deadline: Time,
        repeated: bool,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let slot = Cut::of(cx.config.slots).slot(ask.name.id);
        let response = if deadline <= cx.now {
            Some(Response::Failed(Trouble::Timeout { happened: Happened::No }))
        } else if ask.name.bytes.len() > cx.config.key_max as usize {
            Some(Response::Failed(Trouble::TooLarge { limit: cx.config.key_max }))
        } else if self.ops.len() >= cx.config.operations as usize {
            Some(Response::Failed(Trouble::Busy))
        } else if self.slots.get(&slot).is_none_or(|slot| slot.standing == Standing::Outside) {
            Some(Response::Elsewhere { begun: false })
        } else if self.slots.get(&slot).is_some_and(|slot| self.cannot_serve(slot)) {
            // Others can, and the asker knows them.
            Some(Response::Elsewhere { begun: false })
        } else if is_plain(&ask.action) && !self.is_admissible(version, cx) {
            Some(Response::Failed(Trouble::ClockOff))
        } else if is_plain(&ask.action) && version < self.floor(cx) {
            Some(Response::Outdated(self.latest(cx)))
        } else {
            None
        };
        if let Some(response) = response {
            let response = if repeated { response.perhaps() } else { response };
            return self.respond(client, origin.serial, slot, response, ring, cx);
        }
        let mut id = self.nonce() & 0xffff;
        while self.ops.contains_key(&id) {
            id = self.nonce() & 0xffff;
        }
        // What is far from this node's time was not said by a node that knows the time.
        let time = self.time(cx);
        let at = at.clamp(time.saturating_sub(60_000), time.saturating_add(60_000));
        let op = Operation {
            client,
            ask,
            version,
            at,
            copies: self.copies(ring, cx),
            origin,
            slot,
            epoch: 0,
            since: cx.now,
            deadline,
            again: cx.now.after(cx.config.store_retry),
            attempt: 0,
            rounds: 0,
            stage: Stage::Waiting,
            proposed: None,
            trouble: None,
            sent: false,
            repeated,
        };
        // Whatever touches a cell that a conditional operation is about follows that one.
        let cell = Cell::of(&op.ask.name);
        let in_line = !op.is_read() && (!op.is_plain() || self.lines.contains_key(&cell));
        self.ops.insert(id, op);
        if in_line {
            let line = self.lines.entry(cell).or_default();
            line.push_back(id);
            if line.len() > 1 {
                return;
            }
        }
        self.begin(id, ring, cx);
    }

    /// Says how an ask ended to whoever asked.
    fn respond(
        &mut self,
        client: Client,
        serial: u32,
        slot: u32,
        response: Response,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let members = self.slots.get(&slot).map(|slot| slot.view.members.clone()).unwrap_or_default();
        let mut contacts: Vec<Contact> =
            members.iter().filter_map(|member| self.contact(member.id, ring)).collect();
        if contacts.is_empty() {
            let middle = Cut::of(cx.config.slots).middle(slot);
            contacts = ring.replicas(middle, usize::from(cx.config.replicas) + 1);
        }
        let Client { peer, turn } = client;
        match peer {
            None => self.answered(self.me.id, (serial, turn), response, contacts, ring, cx),
            Some(to) => {
                let message = Message::Answer { serial, response, turn };
                cx.send(to, Body::Store(Box::new(Packet { message, contacts })));
            }
        }
    }

    /// Ends an operation and lets the next in line begin.
    pub(super) fn close(&mut self, id: u32, response: Response, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.remove(&id) else { return };
        let cell = Cell::of(&op.ask.name);
        let mut next = None;
        if let Some(line) = self.lines.get_mut(&cell)
            && let Some(at) = line.iter().position(|waiting| *waiting == id)
        {
            line.remove(at);
            next = line.front().copied().filter(|_| at == 0);
            if line.is_empty() {
                self.lines.remove(&cell);
            }
        }
        let response = if op.repeated { response.perhaps() } else { response };
        self.respond(op.client, op.origin.serial, op.slot, response, ring, cx);
        if let Some(next) = next {
            self.begin(next, ring, cx);
        }
    }

    /// Says that nobody can tell how many have it.
    pub(super) fn too_few(&self, id: u32, happened: Happened) -> Trouble {
        let op = self.ops.get(&id);
        let members = op.and_then(|op| self.slots.get(&op.slot)).map_or(1, |slot| slot.view.members.len());
        Trouble::TooFewReplicas { acked: 0, wanted: (members / 2 + 1) as u8, happened }
    }

    pub(super) fn fail(&mut self, id: u32, trouble: Trouble, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        // What was proposed may still be accepted.
        let proposed = self.ops.get(&id).is_some_and(|op| op.proposed.is_some());
        let trouble = if proposed { trouble.perhaps() } else { trouble };
        self.close(id, Response::Failed(trouble), ring, cx);
    }

    pub(super) fn done(&mut self, id: u32, found: Found, acked: usize, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let replicas = self.slots.get(&op.slot).map_or(1, |slot| slot.view.members.len());
        let wanted = op.wanted(replicas);
        let answer = Answer {
            found,
            acked: acked.max(1) as u8,
            wanted: wanted as u8,
            replicas: replicas as u8,
            hops: 0,
        };
        self.close(id, Response::Done(answer), ring, cx);
    }

    /// Says whether a slot will not be served here for some time: its disk has yet to be vouched for, cluster time is not
    /// known, or records are missing.
    fn cannot_serve(&self, slot: &Slot) -> bool {
        !slot.is_ready() || !self.is_proved(slot) || !self.knows_time()
    }

    /// Says whether an operation stands first in its line, or in none.
    pub(super) fn is_first(&self, id: u32, cell: &Cell) -> bool {
        self.lines.get(cell).is_none_or(|line| !line.contains(&id) || line.front() == Some(&id))
    }

    /// Begins an operation, or begins it again: the slot must be served here.
    pub(super) fn begin(&mut self, id: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        if op.deadline <= cx.now {
            // This node was stopped, or waited long: the asker has been told that it does not know.
            return self.give_up(id, ring, cx);
        }
        op.attempt = op.attempt.wrapping_add(1);
        op.stage = Stage::Waiting;
        let number = op.slot;
        let Some(slot) = self.slots.get(&number).filter(|slot| self.answers(slot)) else {
            return;
        };
        let (time, copies, knows) = (self.time(cx), self.copies(ring, cx), self.knows_time());
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.epoch = slot.view.epoch;
        op.copies = copies;
        op.again = cx.now.after(cx.config.store_retry);
        let at = op.at;
        let (ask, version, origin, number) = (op.ask.clone(), op.version, op.origin, op.slot);
        let cell = Cell::of(&ask.name);
        if !self.is_first(id, &cell) {
            return;
        }
        if !knows {
            return;
        }
        let Ok(held) = self.held(&cell, cx) else { return self.doubt(number, cx) };
        match &ask.action {
            Action::Get => self.read(id, cell, held, false, ring, cx),
            Action::Members => self.list(id, ask.name.clone(), held, ring, cx),
            Action::Place => self.stage(id, Stage::Looking { cell, heard: Vec::new() }, ring, cx),
            Action::Keys { after, limit } => {
                let after = Cell::of(&Name { id: ask.name.id, bytes: after.clone() });
                self.stage(id, Stage::Walking { after, limit: *limit, heard: Vec::new() }, ring, cx);
            }
            Action::Change { change, .. } if is_plain(&ask.action) => {
                let created = !held.as_ref().is_some_and(|held| held.is_live(time));
                let record = match change {
                    Change::Put { value, ttl } => {
                        Record::make(&cell, Kind::Value, version, origin, ends(*ttl, at), value)
                    }
                    _ => Record::make(&cell, Kind::Gone, version, origin, 0, &[]),
                };
                let then = Then::Changed { created, number: None, ballot: false };
                self.write_plain(id, cell, record, None, then, held, ring, cx);
            }
            Action::Change { .. } => self.prepare_ballot(id, cell, ring, cx),
            Action::Add { .. } | Action::Remove { .. } => self.change_set(id, &ask, held, ring, cx),
        }
    }

    /// Writes without looking, if nothing greater is known here.
    #[expect(clippy::too_many_arguments, reason = "everything that makes a write")]
    pub(super) fn write_plain(
        &mut self,
        id: u32,
        cell: Cell,
        record: Record,
        set: Option<(u64, Option<Version>)>,
        then: Then,
        held: Option<Record>,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        if let Some(held) = held
            && (held.rank() > record.rank() || is_other_write(&held, &record))
        {
            return self.close(id, Response::Outdated(held.version()), ring, cx);
        }
        let item = Writing { cell, record, set, have: 0, refused: 0, own: false };
        self.stage(id, Stage::Writing { items: alloc::vec![item], then }, ring, cx);
    }

    /// Enters a stage and asks the members.
    pub(super) fn stage(&mut self, id: u32, stage: Stage, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        op.attempt = op.attempt.wrapping_add(1);
        op.sent = false;
        op.stage = stage;
        op.again = cx.now.after(cx.config.store_retry);
        self.ask_members(id, false, ring, cx);
    }

    /// Asks the members that have not answered. For a read, as many as are needed; everybody if `all`.
    pub(super) fn ask_members(&mut self, id: u32, all: bool, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let Some(slot) = self.slots.get(&op.slot) else { return };
        if slot.view.epoch != op.epoch {
            return;
        }
        let (number, epoch, attempt) = (op.slot, op.epoch, op.attempt);
        let members: Vec<NodeId> = slot.view.members.iter().map(|member| member.id).collect();
        let wanted = op.wanted(members.len());
        let mut peers: Vec<usize> = (0..members.len()).filter(|at| members[*at] != self.me.id).collect();
        let reads = matches!(op.stage, Stage::Reading { .. } | Stage::Listing { .. } | Stage::Walking { .. });
        if reads && !all {
            // Whoever answers first; those that owe answers last.
            peers.sort_by_key(|at| self.is_quiet(members[*at]));
            peers.truncate(wanted - 1);
        }
        let me = members.iter().position(|id| *id == self.me.id);
        let steps = self.steps(id);
        for (item, step) in steps {
            let (nonce, silent) = (nonce(id, attempt, item), self.unanswered(id, item));
            // This node first: if it would not take it, the others need not be asked.
            if me.is_some_and(|me| silent & (1 << me) != 0) && !self.asked_itself(id, item) {
                if self.stores_second(id, item, cx) {
                    let (verdict, _) = self.check_step(number, epoch, &step, cx);
                    if verdict != Verdict::Taken {
                        self.take(nonce, self.me.id, verdict, ring, cx);
                    }
                } else {
                    self.perform_own(nonce, number, epoch, &step, ring, cx);
                }
                if self.ops.get(&id).is_none_or(|op| op.attempt != attempt) {
                    return;
                }
            }
            for at in peers.iter().copied().filter(|at| silent & (1 << at) != 0) {
                let message = Message::Do { nonce, slot: number, epoch, step: step.clone() };
                self.send(members[at], message, ring, cx);
            }
            if let Some(op) = self.ops.get_mut(&id) {
                op.sent = true;
            }
        }
    }

    /// Does a step as a member of the view this node coordinates for.
    fn perform_own(
        &mut self,
        nonce: u32,
        number: u32,
        epoch: u64,
        step: &Step,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let (verdict, wait) = self.perform(number, epoch, step, cx);
        if wait > self.durable {
            if let Some(Stage::Writing { items, .. }) =
                self.ops.get_mut(&(nonce >> 16)).map(|op| &mut op.stage)
                && let Some(item) = items.get_mut(nonce as u8 as usize)
            {
                item.own = true;
            }
            self.after.push_back((wait, After::Take(nonce, Box::new(verdict))));
        } else {
            self.take(nonce, self.me.id, verdict, ring, cx);
        }
    }

    /// Says whether this node has stored an item and waits for its disk. Asked again, it might refuse what it has stored.
    fn asked_itself(&self, id: u32, item: u8) -> bool {
        let Some(Stage::Writing { items, .. }) = self.ops.get(&id).map(|op| &op.stage) else { return false };
        items.get(usize::from(item)).is_some_and(|item| item.own)
    }

    /// Says whether this node must not store an item yet. A plain write is stored by another member first: that one's
    /// clock has judged the version, so a coordinator with a wrong clock keeps nothing that later writes would lose to.
    fn stores_second(&self, id: u32, item: u8, cx: &Ctx<'_>) -> bool {
        let Some(op) = self.ops.get(&id).filter(|_| cx.config.rule(Safeguard::StoreSecond)) else {
            return false;
        };
        let Some(slot) = self.slots.get(&op.slot).filter(|slot| slot.view.members.len() > 1) else {
            return false;
        };
        let Stage::Writing { items, then: Then::Changed { ballot: false, .. } } = &op.stage else {
            return false;
        };
        let me: u16 = slot.view.place(self.me.id).map_or(0, |me| 1 << me);
        items.get(usize::from(item)).is_some_and(|item| item.have & !me == 0)
    }

    /// Asks one member once more for the first item.
    fn ask_again_of(&mut self, id: u32, member: NodeId, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let (nonce, slot, epoch) = (nonce(id, op.attempt, 0), op.slot, op.epoch);
        if let Some((_, step)) = self.steps(id).into_iter().next() {
            self.send(member, Message::Do { nonce, slot, epoch, step }, ring, cx);
        }
    }

    /// Asks one member for something that follows from its last answer.
    pub(super) fn ask_step(&mut self, id: u32, place: u8, step: Step, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let (nonce, slot, epoch) = (nonce(id, op.attempt, 0), op.slot, op.epoch);
        let member = self.slots.get(&slot).and_then(|slot| slot.view.members.get(usize::from(place)));
        if let Some(member) = member.map(|member| member.id) {
            if member == self.me.id {
                return self.perform_own(nonce, slot, epoch, &step, ring, cx);
            }
            self.send(member, Message::Do { nonce, slot, epoch, step }, ring, cx);
        }
    }

    /// Returns what members are to do for an operation, by item.
    fn steps(&self, id: u32) -> Vec<(u8, Step)> {
        let Some(op) = self.ops.get(&id) else { return Vec::new() };
        match &op.stage {
            Stage::Waiting => Vec::new(),
            Stage::Writing { items, .. } => items
                .iter()
                .enumerate()
                .map(|(at, item)| {
                    let record = Shared(item.record.bytes().clone());
                    let (set, agreed) =
                        (item.set.map(|(set, _)| set), item.set.and_then(|(_, agreed)| agreed));
                    (at as u8, Step::Accept { cell: item.cell.clone(), record, set, agreed })
                })
                .collect(),
            Stage::Preparing { cell, ballot, .. } => {
                alloc::vec![(0, Step::Prepare { cell: cell.clone(), ballot: *ballot })]
            }
            Stage::Reading { cell, mine, .. } => {
                let known = mine.as_ref().map(Record::rank).unwrap_or_default();
                alloc::vec![(0, Step::Read { cell: cell.clone(), known, brief: false })]
            }
            Stage::Listing { name, mine, .. } => {
                let mut known = super::coding::Sum::default();
                mine.iter().for_each(|(_, record)| known.mix(record.sum()));
                alloc::vec![(0, Step::List { cell: Cell::of(name), known, after: None })]
            }
            Stage::Looking { cell, .. } => {
                alloc::vec![(0, Step::Read { cell: cell.clone(), known: Default::default(), brief: true })]
            }
            Stage::Walking { after, limit, .. } => {
                alloc::vec![(0, Step::Keys { after: after.clone(), limit: *limit })]
            }
        }
    }

    /// Returns the members whose answer to an item is open.
    pub(super) fn unanswered(&self, id: u32, item: u8) -> u16 {
        let Some(op) = self.ops.get(&id) else { return 0 };
        let heard = |places: &mut dyn Iterator<Item = u8>| places.fold(0, |all: u16, at| all | 1 << at);
        !match &op.stage {
            Stage::Waiting => u16::MAX,
            Stage::Writing { items, .. } => {
                items.get(usize::from(item)).map_or(u16::MAX, |item| item.have | item.refused)
            }
            Stage::Preparing { heard: list, refused, .. } => {
                heard(&mut list.iter().map(|(at, _)| *at)) | refused
            }
            Stage::Reading { heard: list, .. } => heard(&mut list.iter().map(|(at, _)| *at)),
            Stage::Listing { heard: list, .. } => heard(&mut list.iter().map(|(at, _)| *at)),
            Stage::Looking { heard: list, .. } => heard(&mut list.iter().map(|(at, _)| *at)),

            Stage::Walking { heard: list, .. } => heard(&mut list.iter().map(|(at, ..)| *at)),
        }
    }

    /// A member has answered.
    pub(super) fn take(
        &mut self,
        number: u32,
        from: NodeId,
        verdict: Verdict,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let (id, attempt, item) = (number >> 16, (number >> 8) as u8, number as u8);
        let Some(op) = self.ops.get_mut(&id).filter(|op| op.attempt == attempt) else { return };
        if op.deadline <= cx.now {
            return self.give_up(id, ring, cx);
        }
        let Some(slot) = self.slots.get(&op.slot) else { return };
        let (epoch, members) = (slot.view.epoch, slot.view.members.len());
        let Some(place) = slot.view.place(from).filter(|_| epoch == op.epoch) else { return };
        let (slot, place) = (op.slot, place as u8);
        match verdict {
            Verdict::WrongView(theirs) => {
                op.again = op.again.min(cx.now.after(super::BUSY));
                if theirs > epoch {
                    self.word(from, slot, Word::Seek { epoch });
                } else {
                    self.tell_view(from, slot);
                }
                return;
            }
            Verdict::NotReady => {
                op.again = op.again.min(cx.now.after(super::BUSY));
                return;
            }
            Verdict::NoSpace => op.trouble = Some(Trouble::NoSpace { happened: Happened::No }),
            Verdict::Ahead => {
                // A member that missed what made versions run ahead here learns of it, so that the next try succeeds.
                op.trouble = Some(Trouble::ClockOff);
                self.tell_clock(from, ring, cx);
            }
            Verdict::Refused(version) => self.raise(version, cx),
            _ => {}
        }
        let Some(op) = self.ops.get_mut(&id) else { return };
        let wanted = op.wanted(members);
        match (&mut op.stage, verdict) {
            (Stage::Writing { items, then }, verdict) => {
                if item == HEAD {
                    // The set is up to date there: the value follows, to that one only.
                    let follows = verdict == Verdict::Taken;
                    if follows {
                        self.ask_again_of(id, from, ring, cx);
                    }
                    return;
                }
                let Some(item) = items.get_mut(usize::from(item)) else { return };
                // Refused here, and nobody else was asked.
                if let Verdict::Refused(version) = verdict
                    && !op.sent
                    && matches!(then, Then::Changed { ballot: false, .. })
                {
                    return self.close(id, Response::Outdated(version), ring, cx);
                }
                match verdict {
                    Verdict::Taken => item.have |= 1 << place,
                    Verdict::OtherSet(head) => return self.other_set(id, from, head, ring, cx),
                    _ => item.refused |= 1 << place,
                }
                if verdict == Verdict::Taken && from != self.me.id {
                    self.store_own(id, ring, cx);
                }
                self.written(id, wanted, members, ring, cx);
            }
            (Stage::Preparing { .. }, verdict) => self.prepared(id, place, verdict, members, ring, cx),
            (_, verdict) => self.heard(id, place, verdict, wanted, ring, cx),
        }
    }

    /// Another member has stored what this node coordinates: now it may itself.
    fn store_own(&mut self, id: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let (attempt, number, epoch) = (op.attempt, op.slot, op.epoch);
        let Some(me) = self.slots.get(&number).and_then(|slot| slot.view.place(self.me.id)) else { return };
        for (item, step) in self.steps(id) {
            let asked = self.unanswered(id, item) & (1 << me) == 0
                || self.asked_itself(id, item)
                || self.stores_second(id, item, cx);
            if !asked && self.ops.get(&id).is_some_and(|op| op.attempt == attempt) {
                self.perform_own(nonce(id, attempt, item), number, epoch, &step, ring, cx);
            }
        }
    }

    /// Looks whether a write is complete although no member has answered since: there are to be fewer copies now.
    pub(super) fn check_written(&mut self, id: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(op) = self.ops.get(&id) else { return };
        let Some(slot) = self.slots.get(&op.slot).filter(|slot| slot.view.epoch == op.epoch) else { return };
        let members = slot.view.members.len();
        let Stage::Writing { items, .. } = &op.stage else { return };
        let wanted = op.wanted(members);
        if items.iter().all(|item| item.have.count_ones() as usize >= wanted.min(members)) {
            self.written(id, wanted, members, ring, cx);
        }
    }

    /// Looks whether enough members have taken everything, or can not any more.
    pub(super) fn written(
        &mut self,
        id: u32,
        wanted: usize,
        members: usize,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        let Stage::Writing { items, then } = &op.stage else { return };
        let least = items.iter().map(|item| item.have.count_ones() as usize).min().unwrap_or(members);
        if least >= wanted.min(members) && op.is_short(members) && matches!(then, Then::Changed { .. }) {
            // Acknowledged once the view has as many members as there are to be: it goes on under the next one.
            let slot = op.slot;
            return self.hurry_slot(slot);
        }
        if least >= wanted {
            let version = items.first().map_or(Version::ZERO, |item| item.record.version());
            return match then.clone() {
                Then::Changed { created, number, .. } => {
                    self.done(id, Found::Changed { version, created, number }, least, ring, cx);
                }
                Then::Tell(found) => self.done(id, found, least, ring, cx),
                Then::Fail(trouble) => self.fail(id, trouble, ring, cx),
                Then::Add | Then::Again => {
                    op.proposed = None;
                    self.begin(id, ring, cx);
                }
            };
        }
        // A member has promised a ballot above what was read, for an operation that was never heard of again: a ballot settles
        // it, instead of waiting for a member that may be dead.
        if matches!(then, Then::Tell(_) | Then::Again) && items.iter().any(|item| item.refused != 0) {
            let cell = Cell::of(&op.ask.name);
            return self.prepare_ballot(id, cell, ring, cx);
        }
        let possible = items.iter().map(|item| members - item.refused.count_ones() as usize).min();
        if possible.unwrap_or(members) >= wanted.min(members) {
            return;
        }
        // A member that was asked and has not answered may have taken it.
        let everybody = (1u32 << members) - 1;
        let taken = op.sent && items.iter().any(|item| u32::from(item.refused) != everybody);
        let happened = if least == 0 { Happened::Unknown } else { Happened::Some };
        match then {
            Then::Tell(_) | Then::Again => {}
            Then::Changed { ballot: true, .. } | Then::Fail(_) | Then::Add => {
                let cell = Cell::of(&op.ask.name);
                self.prepare_ballot(id, cell, ring, cx);
            }
            Then::Changed { .. } if !taken => {
                let response = match op.trouble {
                    Some(trouble) => Response::Failed(trouble),
                    None => Response::Outdated(self.latest(cx)),
                };
                self.close(id, response, ring, cx);
            }
            // Told as soon as it is known whether a member has it.
            Then::Changed { .. } if matches!(op.trouble, Some(Trouble::NoSpace { .. })) => {
                let answered = |item: &Writing| u32::from(item.have | item.refused) == everybody;
                if least == 0 && !items.iter().all(answered) {
                    return;
                }
                self.fail(id, Trouble::NoSpace { happened }, ring, cx);
            }
            Then::Changed { .. } => {
                let (acked, wanted) = (least as u8, wanted as u8);
                self.fail(id, Trouble::TooFewReplicas { acked, wanted, happened }, ring, cx);
            }
        }
    }
}

/// Packs the number of an operation, an attempt and an item.
pub(super) fn nonce(id: u32, attempt: u8, item: u8) -> u32 {
    id << 16 | u32::from(attempt) << 8 | u32::from(item)
}

impl Response {
    /// The same, if it may have been done before.
    fn perhaps(self) -> Response {
        match self {
            Response::Done(_) => self,
            Response::Failed(trouble) => Response::Failed(trouble.perhaps()),
            Response::Elsewhere { .. } => Response::Elsewhere { begun: true },
            Response::Outdated(_) => Response::Failed(Trouble::Timeout { happened: Happened::Unknown }),
        }
    }
}
