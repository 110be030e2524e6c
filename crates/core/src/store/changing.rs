//! How the view of a slot changes: one decision per epoch, by ballots among the members of that epoch.
//!
//! Whoever promises a ballot freezes: it serves nothing more under the epoch. With a quorum frozen, the proposer puts
//! their states together and lets a quorum have the result; only then is the successor proposed, members and state in
//! one. The successor begins with exactly that state: what a member had beyond it was acknowledged to nobody, and is
//! dropped.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::coding::Sum;
use super::message::{Item, Word};
use super::pulling::Why;
use super::view::{Ballot, Cut, Member, Next, Round, Slot, Standing, View};
use super::{After, Store};
use crate::config::Safeguard;
use crate::edge::{Ctx, Event};
use crate::id::NodeId;
use crate::overlay::{Routes, Status};

/// How long a frozen member waits for a decision before it tries itself; more by its place in the view.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long an attempt may take before it is made anew.
pub(super) const ROUND: Duration = Duration::from_secs(3);
/// How soon a member that did not answer is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Says whether a view will have a quorum as far as this round can tell: its members have voted, or have just said that
/// they have the records. Otherwise a node that died and was not found dead yet may be half of what is left when
/// another one leaves.
fn can_serve(slot: &Slot, wish: &[Member], votes: &[NodeId]) -> bool {
    let there = |member: &&Member| votes.contains(&member.id) || !slot.view.has(**member);
    wish.iter().filter(there).count() > wish.len() / 2
}

impl Store {
    /// Somebody, perhaps this node, says something about a slot.
    pub(super) fn on_word(&mut self, from: NodeId, item: Item, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Item { slot: number, word } = item;
        if number >= Cut::of(cx.config.slots).count() {
            return cx.refuse(super::Refusal::OutOfRange);
        }
        match word {
            Word::View { view, entered } => return self.on_view(from, number, view, entered, ring, cx),
            // A node whose store has been handed over is still in the ring for a moment (chaos seed 1000950 over Chord).
            Word::Learn { .. } if matches!(ring.status(), Status::Leaving | Status::Out) => return,
            Word::Learn { view, urgent } => return self.on_learn(from, number, view, urgent, cx),
            Word::Stranger { born } => {
                if self.peers.get(&from).is_none_or(|peer| peer.born != Some(born)) {
                    self.ask_born(from, ring, cx);
                }
                return;
            }
            _ => {}
        }
        let epoch = word.epoch();
        let Some(slot) = self.slots.get(&number) else { return };
        if let Word::Seek { .. } = word {
            if slot.view.epoch > epoch {
                self.tell_view(from, number);
            }
            return;
        }
        if let Word::Forget { .. } = word {
            return self.on_forget(from, number, epoch);
        }
        if let Word::Rebuild { survivors, .. } = word {
            if slot.view.epoch == epoch {
                self.on_rebuild(number, survivors, ring, cx);
            }
            return;
        }
        if slot.view.epoch > epoch {
            if from != self.me.id {
                self.tell_view(from, number);
            }
            return;
        }
        if slot.view.epoch < epoch {
            let epoch = slot.view.epoch;
            return self.word(from, number, Word::Seek { epoch });
        }
        match word {
            Word::Safe { .. } => self.on_safe(from, number, cx),
            Word::Learnt { born, .. } => self.on_learnt(from, number, born, cx),
            _ if slot.standing == Standing::Outside => {}
            Word::State { state, .. } => self.on_state(from, number, state, ring, cx),
            Word::Same { state, .. } => self.on_same(from, number, state),
            Word::Collect { state, before, expired, .. } => {
                self.on_collect(number, state, (before, expired), cx);
            }
            _ if !slot.view.members.iter().any(|member| member.id == from && !self.is_lost(member)) => {
                // Votes of a disk that is lost are void.
                cx.refuse(super::Refusal::Unsolicited);
            }
            Word::Hurry { .. } => self.on_hurry(number, cx),
            Word::Freeze { ballot, .. } => self.on_freeze(from, number, ballot, cx),
            Word::Frozen { ballot, state, counts, accepted, .. } => {
                self.on_frozen(from, number, ballot, (state, counts), accepted, ring, cx);
            }
            Word::Settle { ballot, state, .. } => self.on_settle(from, number, ballot, state, ring, cx),
            Word::Settled { ballot, state, .. } => self.on_settled(from, number, ballot, state, cx),
            Word::Propose { ballot, next, .. } => self.on_propose(from, number, ballot, next, cx),
            Word::Accepted { ballot, .. } => self.on_accepted(from, number, ballot, cx),
            Word::Nack { promised, .. } => self.on_nack(number, promised, cx),
            _ => {}
        }
    }

    /// Tells a node the view of a slot, if it is known what the view begins with.
    pub(super) fn tell_view(&mut self, to: NodeId, number: u32) {
        if let Some(slot) = self.slots.get(&number)
            && let Some(entered) = slot.entered
        {
            self.word(to, number, Word::View { view: slot.view.clone(), entered });
        }
    }

    /// Says a word once what was written in this call is durable.
    pub(super) fn word_after(&mut self, to: NodeId, slot: u32, word: Word) {
        let (ticket, item) = (self.this_ticket(), Box::new(Item { slot, word }));
        let after = if to == self.me.id { After::Own(item) } else { After::Word(to, item) };
        self.after.push_back((ticket, after));
    }

    /// Tries to make `wish` the members of the next epoch.
    pub(super) fn start_round(&mut self, number: u32, wish: Vec<Member>, cx: &mut Ctx<'_>) {
        let me = self.me.id;
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let round = slot.promised.map_or(0, |promised| promised.round).saturating_add(1);
        let ballot = Ballot { round, node: me };
        let epoch = slot.view.epoch;
        slot.since = cx.now;
        slot.round = Some(Box::new(Round {
            ballot,
            wish,
            frozen: Vec::new(),
            found: None,
            merging: Vec::new(),
            state: None,
            settled: Vec::new(),
            next: None,
            accepted: Vec::new(),
            begun: cx.now,
            again: cx.now.after(AGAIN),
        }));
        let members = slot.view.members.clone();
        self.changing.insert(number);
        for member in members {
            self.word(member.id, number, Word::Freeze { epoch, ballot });
        }
    }

    fn on_freeze(&mut self, from: NodeId, number: u32, ballot: Ballot, cx: &mut Ctx<'_>) {
        let proved = self.slots.get(&number).is_some_and(|slot| self.is_proved(slot));
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let epoch = slot.view.epoch;
        if matches!(slot.standing, Standing::Doubting(_)) || !proved || !slot.is_whole() {
            // It may have acknowledged what it can not show.
            return;
        }
        match slot.promised {
            Some(promised) if promised > ballot => {
                return self.word(from, number, Word::Nack { epoch, promised });
            }
            Some(promised) if promised == ballot => {}
            _ => {
                slot.promised = Some(ballot);
                slot.since = cx.now;
                if ballot.node != self.me.id {
                    slot.round = None;
                }
                self.changing.insert(number);
                // From here on, the records change only as the proposer says.
                self.drop_pulls(number);
                self.keep(number);
            }
        }
        let Some(slot) = self.slots.get(&number) else { return };
        let (state, accepted) = (slot.state, slot.accepted.clone());
        let counts = slot.standing == Standing::Ready;
        // Everything taken before is durable with the promise, or before it.
        self.keep(number);
        self.word_after(from, number, Word::Frozen { epoch, ballot, state, counts, accepted });
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one message")]
    fn on_frozen(
        &mut self,
        from: NodeId,
        number: u32,
        ballot: Ballot,
        (state, counts): (Sum, bool),
        accepted: Option<(Ballot, Next)>,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(round) = slot.round.as_mut().filter(|round| round.ballot == ballot) else { return };
        if round.frozen.iter().any(|(id, ..)| *id == from) {
            return;
        }
        round.frozen.push((from, state, counts));
        if round.state.is_some() || !round.merging.is_empty() {
            // A quorum has told enough, and its states are being put together: what another accepted before is not
            // proposed any more, or it would be with a state that no member is made to have.
            return;
        }
        if let Some(accepted) = accepted
            && round.found.as_ref().is_none_or(|found| found.0 < accepted.0)
        {
            round.found = Some(accepted);
        }
        self.freeze_done(number, ring, cx);
    }

    /// Puts the states of the frozen members together, once they are enough.
    fn freeze_done(&mut self, number: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get(&number) else { return };
        let Some(round) = &slot.round else { return };
        if round.state.is_some() || !round.merging.is_empty() {
            return;
        }
        let votes: Vec<NodeId> = round.frozen.iter().map(|(id, ..)| *id).collect();
        let counting = round.frozen.iter().filter(|(.., counts)| *counts).count();
        // This node puts the states together, so it must be one of them.
        if !votes.contains(&self.me.id) || !self.is_enough(slot, &votes, counting) {
            return;
        }
        if round.found.is_none() && !can_serve(slot, &round.wish, &votes) {
            return;
        }
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let mine = slot.state;
        slot.since = cx.now;
        let Some(round) = slot.round.as_mut() else { return };
        let ballot = round.ballot;
        if !cx.config.rule(Safeguard::Settle) {
            round.state = Some(mine);
            let next = round.found.clone().map(|(_, next)| next);
            let next = next.unwrap_or_else(|| Next { members: round.wish.clone(), state: mine });
            return self.propose_view(number, next, cx);
        }
        // What may have been decided already must be decided again; if it was, a quorum had its state then, and has it
        // still.
        if let Some((_, next)) = &round.found
            && round.frozen.iter().any(|(_, state, _)| *state == next.state)
        {
            let next = next.clone();
            if mine == next.state {
                return self.settle(number, cx);
            }
            let source = round.frozen.iter().find(|(_, state, _)| *state == next.state).map(|(id, ..)| *id);
            if let Some(source) = source {
                round.merging.push(source);
                self.pull(number, source, Why::Adopt { ballot, state: next.state }, ring, cx);
            }
            return;
        }
        round.found = None;
        let me = self.me.id;
        let others: Vec<NodeId> = round
            .frozen
            .iter()
            .filter(|(id, state, counts)| *id != me && *counts && *state != mine)
            .map(|(id, ..)| *id)
            .collect();
        round.merging.clone_from(&others);
        if others.is_empty() {
            return self.settle(number, cx);
        }
        for other in others {
            self.pull(number, other, Why::Merge { ballot }, ring, cx);
        }
    }

    /// A state has been put together with ours.
    pub(super) fn merged(&mut self, from: NodeId, number: u32, ballot: Ballot, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(round) = slot.round.as_mut().filter(|round| round.ballot == ballot) else { return };
        round.merging.retain(|id| *id != from);
        if round.merging.is_empty() && round.state.is_none() {
            self.settle(number, cx);
        }
    }

    /// This node has the state the next epoch is to begin with: a quorum must have it before anything is proposed.
    fn settle(&mut self, number: u32, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let (epoch, state) = (slot.view.epoch, slot.state);
        slot.since = cx.now;
        let Some(round) = slot.round.as_mut() else { return };
        round.state = Some(state);
        let ballot = round.ballot;
        // What was put together must be durable here before others build on it.
        let members = slot.view.members.clone();
        self.keep(number);
        for member in members {
            if member.id == self.me.id {
                self.word_after(member.id, number, Word::Settled { epoch, ballot, state });
            } else {
                self.word(member.id, number, Word::Settle { epoch, ballot, state });
            }
        }
    }

    fn on_settle(
        &mut self,
        from: NodeId,
        number: u32,
        ballot: Ballot,
        state: Sum,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let epoch = slot.view.epoch;
        match slot.promised {
            Some(promised) if promised == ballot => {
                slot.since = cx.now;
                if slot.state == state {
                    self.keep(number);
                    self.word_after(from, number, Word::Settled { epoch, ballot, state });
                } else {
                    self.pull(number, from, Why::Settle { ballot, state }, ring, cx);
                }
            }
            Some(promised) if promised > ballot => self.word(from, number, Word::Nack { epoch, promised }),
            _ => {}
        }
    }

    /// This node has got the state it was told to settle on.
    pub(super) fn settled(&mut self, to: NodeId, number: u32, ballot: Ballot, state: Sum) {
        let Some(slot) = self.slots.get(&number) else { return };
        if slot.promised == Some(ballot) && slot.state == state {
            let epoch = slot.view.epoch;
            self.keep(number);
            self.word_after(to, number, Word::Settled { epoch, ballot, state });
        }
    }

    fn on_settled(&mut self, from: NodeId, number: u32, ballot: Ballot, state: Sum, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(round) = slot.round.as_mut().filter(|round| round.ballot == ballot) else { return };
        if round.state == Some(state) && !round.settled.contains(&from) {
            round.settled.push(from);
            self.settle_done(number, cx);
        }
    }

    /// Proposes the next view, once enough members have the state it begins with.
    fn settle_done(&mut self, number: u32, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get(&number) else { return };
        let Some(round) = slot.round.as_ref().filter(|round| round.next.is_none()) else { return };
        let Some(state) = round.state else { return };
        if self.is_enough(slot, &round.settled, round.settled.len()) {
            let found = round.found.clone().map(|(_, next)| next);
            let votes: Vec<NodeId> = round.frozen.iter().map(|(id, ..)| *id).collect();
            let wish = || match can_serve(slot, &round.wish, &votes) {
                true => round.wish.clone(),
                false => self.remaining(slot),
            };
            let next = found.unwrap_or_else(|| Next { members: wish(), state });
            self.propose_view(number, next, cx);
        }
    }

    /// Returns the members of a view whose disks are not lost, or all if there are no such.
    fn remaining(&self, slot: &Slot) -> Vec<Member> {
        let members = &slot.view.members;
        let kept: Vec<Member> = members.iter().filter(|member| !self.is_lost(member)).copied().collect();
        if kept.is_empty() { members.clone() } else { kept }
    }

    fn propose_view(&mut self, number: u32, next: Next, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let epoch = slot.view.epoch;
        slot.since = cx.now;
        let Some(round) = slot.round.as_mut() else { return };
        round.next = Some(next.clone());
        round.again = cx.now.after(AGAIN);
        let ballot = round.ballot;
        let members = slot.view.members.clone();
        for member in members {
            self.word(member.id, number, Word::Propose { epoch, ballot, next: next.clone() });
        }
    }

    fn on_propose(&mut self, from: NodeId, number: u32, ballot: Ballot, next: Next, cx: &mut Ctx<'_>) {
        let proved = self.slots.get(&number).is_some_and(|slot| self.is_proved(slot));
        if self.slots.get(&number).is_some_and(|slot| self.is_last(slot, &next)) {
            // Damage that was not noticed so far can be mended now, and not later.
            self.recount(number, cx.records, cx.config);
        }
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let epoch = slot.view.epoch;
        if let Some(promised) = slot.promised.filter(|promised| *promised > ballot) {
            return self.word(from, number, Word::Nack { epoch, promised });
        }
        if next.members.is_empty()
            || next.members.len() > 16
            || matches!(slot.standing, Standing::Doubting(_))
            || !proved
            || !slot.is_whole()
        {
            return;
        }
        slot.promised = Some(ballot);
        slot.accepted = Some((ballot, next));
        slot.since = cx.now;
        self.changing.insert(number);
        self.keep(number);
        self.word_after(from, number, Word::Accepted { epoch, ballot });
    }

    /// Says whether of all members who have the records this node alone would stay.
    fn is_last(&self, slot: &Slot, next: &Next) -> bool {
        let mut others = slot
            .view
            .members
            .iter()
            .filter(|member| member.id != self.me.id && !self.is_lost(member))
            .peekable();
        let stays = |member: &Member| next.members.contains(member);
        slot.standing == Standing::Ready && stays(&self.me) && others.peek().is_some() && !others.any(stays)
    }

    fn on_accepted(&mut self, from: NodeId, number: u32, ballot: Ballot, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let Some(round) = slot.round.as_mut().filter(|round| round.ballot == ballot) else { return };
        if !round.accepted.contains(&from) {
            round.accepted.push(from);
            self.accept_done(number, cx);
        }
    }

    /// Tells everyone the next view, once enough members have accepted it.
    fn accept_done(&mut self, number: u32, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get(&number) else { return };
        let Some(round) = &slot.round else { return };
        let Some(next) = round.next.clone() else { return };
        if !self.is_enough(slot, &round.accepted, round.accepted.len()) {
            return;
        }
        let old = slot.view.members.clone();
        let view = View { epoch: slot.view.epoch + 1, members: next.members, ..slot.view.clone() };
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.round = None;
            slot.since = cx.now;
        }
        let mut all: Vec<NodeId> = old.iter().chain(&view.members).map(|member| member.id).collect();
        all.sort_unstable();
        all.dedup();
        for id in all {
            self.word(id, number, Word::View { view: view.clone(), entered: next.state });
        }
    }

    fn on_nack(&mut self, number: u32, promised: Ballot, cx: &mut Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        if slot.round.as_ref().is_some_and(|round| round.ballot < promised) {
            slot.round = None;
            slot.since = cx.now;
        }
    }

    /// A view that was decided.
    fn on_view(
        &mut self,
        from: NodeId,
        number: u32,
        view: View,
        entered: Sum,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        if !is_sound(&view) {
            return cx.refuse(super::Refusal::Malformed);
        }
        let me = self.me;
        // A node that lost its disk is not who it was.
        let mine = match cx.config.rule(Safeguard::Born) {
            true => view.has(me),
            false => view.place(me.id).is_some(),
        };
        if !mine && view.place(me.id).is_some() {
            self.word(from, number, Word::Stranger { born: me.born });
        }
        if let Some(slot) = self.slots.get_mut(&number).filter(|slot| slot.view == view) {
            // It was heard of before, from a node that did not say how it begins.
            slot.entered.get_or_insert(entered);
        }
        match self.slots.get(&number).map(|slot| (slot.view.epoch, slot.view.lineage)) {
            Some((epoch, lineage)) if epoch >= view.epoch || lineage != view.lineage => return,
            Some(_) if self.is_left_behind(number, &view) => {
                // What this node has was given up: it is set aside, never served.
                self.proof = super::Proof::Failed;
                return cx.out.raise(Event::StoreOutdated);
            }
            Some(_) => {}
            None if !mine => return,
            None => {
                let slot = Slot::new(view.clone(), Some(entered), Standing::Behind, cx.now);
                self.slots.insert(number, slot);
                self.recount(number, cx.records, cx.config);
            }
        }
        // What is known of a member's disk may be older than the view.
        for member in view.members.iter().filter(|member| member.id != me.id) {
            if let Some(peer) = self.peers.get_mut(&member.id)
                && peer.born.is_some_and(|born| born != member.born)
            {
                // Nor do answers to what was asked before the view count.
                (peer.born, peer.questions) = (None, Vec::new());
                self.ask_born(member.id, ring, cx);
            }
        }
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let learner = slot.learner.filter(|learner| view.place(learner.id).is_none());
        slot.view = view;
        slot.entered = Some(entered);
        (slot.promised, slot.accepted, slot.round, slot.learner) = (None, None, None, learner);
        (slot.agreed, slot.safe, slot.since) = (0, 0, cx.now);
        (slot.remembered, slot.abstains) = (None, false);
        slot.standing = match mine {
            true if slot.state == entered => Standing::Ready,
            true if !cx.config.rule(Safeguard::Settle) => Standing::Ready,
            true => Standing::Behind,
            false => Standing::Outside,
        };
        if slot.standing == Standing::Behind {
            self.to_pull.insert(number);
        }
        self.drop_pulls(number);
        self.drop_promises(number, cx);
        self.changing.remove(&number);
        self.urgent.remove(&number);
        self.moved.insert(number);
        self.eager.insert(number);
        self.keep(number);
        // Those who vouched for this node's disk may have known it less well than the members of the new view.
        let vouched = self.slots.get(&number).is_none_or(|slot| self.has_vouchers(slot));
        if mine && self.reopened && !vouched && self.proof == super::Proof::Given {
            self.proof = super::Proof::Wanted(None);
        }
    }

    /// Says whether a view was rebuilt without a quorum since this node was a member of the slot, and without this node.
    fn is_left_behind(&self, number: u32, view: &View) -> bool {
        let Some(slot) = self.slots.get(&number) else { return false };
        view.generation() > slot.view.generation()
            && slot.standing != Standing::Outside
            && !view.survivors.contains(&self.me.id)
    }

    /// Sees to slots whose view is changing: what is stuck is tried again.
    pub(super) fn hurry(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        // Each step of a round takes a round trip, and so does hearing of one.
        let timing = ring.timing();
        let (patience, most) = (timing.stretch(PATIENCE), timing.stretch(ROUND / 2) * 2);
        let numbers: Vec<u32> = self.changing.iter().copied().collect();
        for number in numbers {
            if self.slots.get(&number).is_some_and(|slot| !self.is_proved(slot)) {
                continue;
            }
            let remaining = self.slots.get(&number).map(|slot| self.remaining(slot));
            let Some(slot) = self.slots.get_mut(&number) else {
                self.changing.remove(&number);
                continue;
            };
            if slot.promised.is_none() && slot.round.is_none() && !slot.abstains {
                self.changing.remove(&number);
                continue;
            }
            let place = slot.view.place(self.me.id).unwrap_or(0) as u32;
            let waited = cx.now.since(slot.since);
            let wish = remaining.unwrap_or_default();
            if let Some(round) = slot.round.as_mut() {
                if waited > most {
                    slot.round = None;
                } else if round.again <= cx.now {
                    round.again = cx.now.after(timing.stretch(AGAIN));
                    // A member may have been found to have lost its disk since.
                    self.freeze_done(number, ring, cx);
                    self.settle_done(number, cx);
                    self.accept_done(number, cx);
                    self.repeat_round(number);
                }
            } else if slot.standing == Standing::Ready && waited > patience * (place + 1) {
                // Whoever began this is gone, or slower than we are.
                self.start_round(number, wish, cx);
            } else if waited > most && matches!(slot.standing, Standing::Doubting(_)) {
                // It can neither show its records nor change them: promises outlast damage. The others can decide without
                // it once they know that there is something to decide, and what they decide ends the doubt.
                self.start_round(number, wish, cx);
            } else if waited > most && slot.standing == Standing::Behind {
                // Others may know more.
                let (epoch, members) = (slot.view.epoch, slot.view.members.clone());
                slot.since = cx.now;
                let me = self.me.id;
                for member in members.iter().filter(|member| member.id != me) {
                    self.word(member.id, number, Word::Seek { epoch });
                }
            }
        }
    }

    /// Asks members that have not answered once more.
    fn repeat_round(&mut self, number: u32) {
        let Some(slot) = self.slots.get(&number) else { return };
        let Some(round) = &slot.round else { return };
        let (epoch, ballot) = (slot.view.epoch, round.ballot);
        let (done, word): (Vec<NodeId>, Word) = match (&round.next, round.state) {
            (Some(next), _) => (round.accepted.clone(), Word::Propose { epoch, ballot, next: next.clone() }),
            (None, Some(state)) => (round.settled.clone(), Word::Settle { epoch, ballot, state }),
            (None, None) => {
                (round.frozen.iter().map(|(id, ..)| *id).collect(), Word::Freeze { epoch, ballot })
            }
        };
        let members = slot.view.members.clone();
        for member in members.iter().filter(|member| !done.contains(&member.id)) {
            // What this node owes itself comes with its disk.
            if member.id != self.me.id {
                self.word(member.id, number, word.clone());
            }
        }
    }

    /// A node is told that it is to become a member.
    fn on_learn(&mut self, from: NodeId, number: u32, view: View, urgent: bool, cx: &mut Ctx<'_>) {
        if !is_sound(&view) || view.place(from).is_none() {
            return cx.refuse(super::Refusal::Malformed);
        }
        if view.has(self.me) || self.leaving.is_some() || !self.room {
            return;
        }
        if urgent {
            self.urgent.insert(number);
        }
        let known = self.slots.get(&number).map(|slot| (slot.view.epoch, slot.view.lineage));
        match known {
            Some((epoch, lineage)) if epoch > view.epoch || lineage != view.lineage => return,
            Some((epoch, _)) if epoch == view.epoch => {}
            Some(_) if self.is_left_behind(number, &view) => {
                self.proof = super::Proof::Failed;
                return cx.out.raise(Event::StoreOutdated);
            }
            _ => {
                if self.slots.get(&number).is_some_and(|slot| slot.view.has(self.me)) {
                    // Our own view is older: the newer one leaves us out.
                    self.moved.insert(number);
                }
                let epoch = view.epoch;
                match self.slots.get_mut(&number) {
                    Some(slot) => {
                        (slot.view, slot.entered) = (view, None);
                        slot.standing = Standing::Outside;
                        (slot.promised, slot.accepted, slot.round, slot.safe) = (None, None, None, 0);
                    }
                    None => {
                        self.slots.insert(number, Slot::new(view, None, Standing::Outside, cx.now));
                        self.recount(number, cx.records, cx.config);
                    }
                }
                self.changing.remove(&number);
                self.keep(number);
                // What the view begins with was not said.
                self.word(from, number, Word::Seek { epoch: epoch.saturating_sub(1) });
            }
        }
        if let Some(slot) = self.slots.get_mut(&number) {
            slot.since = cx.now;
        }
        self.learners.insert(number, from);
        self.pull_soon = true;
    }

    fn on_learnt(&mut self, from: NodeId, number: u32, born: u32, cx: &Ctx<'_>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        if let Some(learner) = &mut slot.learner
            && learner.id == from
        {
            learner.learnt = Some((born, cx.now));
            self.eager.insert(number);
        }
    }
}

/// Says whether a view can be one: epochs count up from one, so that the greatest numbers are nobody's.
fn is_sound(view: &View) -> bool {
    (1..1 << 62).contains(&view.epoch) && (1..=16).contains(&view.members.len())
}

impl Word {
    /// Returns the epoch it is about.
    fn epoch(&self) -> u64 {
        match self {
            Word::Freeze { epoch, .. }
            | Word::Frozen { epoch, .. }
            | Word::Settle { epoch, .. }
            | Word::Settled { epoch, .. }
            | Word::Propose { epoch, .. }
            | Word::Accepted { epoch, .. }
            | Word::Nack { epoch, .. }
            | Word::Seek { epoch }
            | Word::Learnt { epoch, .. }
            | Word::State { epoch, .. }
            | Word::Forget { epoch }
            | Word::Hurry { epoch }
            | Word::Rebuild { epoch, .. }
            | Word::Safe { epoch }
            | Word::Collect { epoch, .. }
            | Word::Same { epoch, .. } => *epoch,
            Word::View { view, .. } | Word::Learn { view, .. } => view.epoch,
            Word::Stranger { .. } => 0,
        }
    }
}
