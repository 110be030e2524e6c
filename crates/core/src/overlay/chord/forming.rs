//! A small ring: every member knows all of them.
//!
//! Zave's ring is sound only from a base of r + 1 members with complete lists, so smaller ones are kept otherwise: one
//! list of all members, with a number. The member with the lowest id proposes the next list; whoever agrees to a list
//! agrees to none with that number or below; when everybody on it and a majority of the list before has agreed, it
//! holds. From r + 3 members on, all of them start the ring from that very list.
//!
//! The list is kept beside a ring of fewer than 2r members, so that it is there when the ring has shrunk to r + 1: then
//! the next one ends the ring for all of them, by the same agreement.
//!
//! A pure machine like [`super::ring`], with the same effects. A member that said goodbye or restarted does not count for
//! the majority unless the new list has it in its later life; a silent member counts, so that two halves of a split group
//! cannot both go on.

use alloc::vec::Vec;

use super::message::Message;
use super::ring::{Effect, RingTimer, Rules};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::Refusal;
use crate::id::{Id, NodeId};

/// One node's part of a small ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forming {
    me: Contact,
    /// The number of the latest list that held; 0 while there was none.
    epoch: u32,
    /// All members, by id. Beside a ring none if it is too large for a list, and those of before this node came may lack it.
    members: Vec<Contact>,
    /// The latest list this node has agreed to and not seen take effect.
    agreed: Option<Agreed>,
    /// The list this node has proposed.
    proposal: Option<Proposal>,
    /// Who wants to become a member.
    applicants: Vec<Contact>,
    /// Members that do not answer.
    dead: Vec<NodeId>,
    /// Those of them that certainly are none any more.
    gone: Vec<NodeId>,
    /// The highest number heard of.
    highest: u32,
    /// The highest number this node has agreed to a list of.
    promised: u32,
    /// Whether the list is kept beside a ring, which goes by lists of its own.
    ring: bool,
    /// Beside a ring: for how many more counts no other list is proposed.
    pause: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Agreed {
    epoch: u32,
    list: Vec<Contact>,
    ring: bool,
    proposer: Contact,
    /// How often its proposer was reminded.
    rounds: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proposal {
    epoch: u32,
    list: Vec<Contact>,
    ring: bool,
    agreed: Vec<NodeId>,
    /// How often it was sent.
    rounds: u8,
}

/// Applicants remembered; further ones apply again.
const APPLICANTS_MAX: usize = 64;
/// How often an applicant is sent a list before it is left out of the next.
const ROUNDS_MAX: u8 = 3;
/// For how many counts nobody is asked again after a list came to nothing beside a ring: whoever has agreed to it lets
/// others wait meanwhile, and they may be what was wrong with it.
const PAUSE: u8 = 5;
/// How far ahead a number may be of what a member knows.
const JUMP: u32 = 1 << 16;

type Out<'a> = &'a mut Vec<Effect>;

impl Forming {
    /// Makes a node that is not a member of anything.
    pub fn new(me: Contact) -> Forming {
        Forming {
            me,
            epoch: 0,
            members: Vec::new(),
            agreed: None,
            proposal: None,
            applicants: Vec::new(),
            dead: Vec::new(),
            gone: Vec::new(),
            highest: 0,
            promised: 0,
            ring: false,
            pause: 0,
        }
    }

    /// Becomes the only member.
    pub fn found(&mut self, out: Out<'_>) {
        let me = self.me;
        *self = Forming { epoch: 1, members: alloc::vec![me], ..Forming::new(me) };
        out.push(Effect::Committed);
        out.push(Effect::Arm(RingTimer::Form));
    }

    /// Returns all members, by id; none if this node is not one, or the ring is too large for a list.
    pub fn members(&self) -> &[Contact] {
        &self.members
    }

    /// Returns the number of the list.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Says whether a member does not answer.
    pub fn is_dead(&self, id: NodeId) -> bool {
        self.dead.contains(&id)
    }

    /// Says whether a member is certainly none any more, although the list still names it.
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.gone.contains(&id)
    }

    /// Says whether there is a ring, and the list is only kept beside it.
    pub fn is_ring(&self) -> bool {
        self.ring
    }

    /// Says whether so many members are a ring. Between the two numbers all stays as it is, so that one who comes and
    /// goes does not make everybody change.
    fn makes_ring(&self, members: usize, rules: &Rules) -> bool {
        let (enough, few) = turns(rules);
        members >= enough || (self.ring && (members > few || !rules.keeps(Safeguard::WayBack)))
    }

    /// This node has become part of a ring by asking. What it was asked before does not bind it here.
    pub fn enter_ring(&mut self) {
        (self.ring, self.agreed, self.proposal) = (true, None, None);
        self.applicants.clear();
    }

    /// Beside a ring: the node with the lowest id has found all its members.
    pub fn update(&mut self, mut members: Vec<Contact>, rules: &Rules, out: Out<'_>) {
        members.sort_by_key(|node| node.id);
        let latest = self.proposal.as_ref().map_or(&self.members, |proposal| &proposal.list);
        // Whoever agrees lets others wait: not for a list that can not hold, because too many are missing.
        self.pause = self.pause.saturating_sub(1);
        let may = self.ring && self.pause == 0 && self.is_majority(&members);
        if may && *latest != members && is_sorted(&members) {
            self.seal(members, rules, out);
        }
    }

    /// Beside a ring: the list that was proposed is not one of all members, it seems.
    fn withdraw(&mut self) {
        (self.proposal, self.pause) = (None, PAUSE);
        self.agreed = self.agreed.take().filter(|agreed| agreed.proposer.id != self.me.id);
    }

    /// Beside a ring: it has become too large for a list.
    pub fn outgrow(&mut self) {
        if self.ring {
            self.members.clear();
            self.withdraw();
        }
    }

    /// Beside a ring: a member has said goodbye, or is there in a later life. It does not count for a majority.
    pub fn farewell(&mut self, peer: Contact) {
        let was = |member: &Contact| member.id == peer.id && member.incarnation <= peer.incarnation;
        if self.ring && self.members.iter().any(was) && !self.gone.contains(&peer.id) {
            self.gone.push(peer.id);
            self.dead.push(peer.id);
        }
    }

    /// Says whether a list has most members of the list before it. A member that restarted counts if its later life is on
    /// the list: although it has forgotten what it agreed to, it may be the only other one left (chaos seed 200546). Beside
    /// a ring that was too large for a list there is nothing before.
    fn is_majority(&self, list: &[Contact]) -> bool {
        let votes = self.voters().filter(|voter| list.contains(voter)).count();
        let later = |gone: &NodeId| list.iter().any(|node| node.id == *gone);
        let restarted = self.gone.iter().filter(|gone| later(gone)).count();
        2 * (votes + restarted) > self.voters().count() + restarted || self.members.is_empty()
    }

    /// Says whether a number can be right. It grows by one with every attempt; one that is far ahead is a mistake or a lie,
    /// and would leave none for later lists.
    fn is_plausible(&self, epoch: u32) -> bool {
        self.members.is_empty() || epoch <= self.highest.max(self.epoch).saturating_add(JUMP)
    }

    /// Says whether this node has agreed to end the ring with a list that this one is not on: then it lets it wait.
    pub fn shuts_out(&self, node: Contact) -> bool {
        let ends = self.agreed.as_ref().is_some_and(|agreed| self.ring && !agreed.ring);
        ends && !self.is_fellow(node)
    }

    /// Says whether this is a member, or one-to-be by the list this node has agreed to.
    pub fn is_fellow(&self, node: Contact) -> bool {
        let agreed = self.agreed.iter().flat_map(|agreed| &agreed.list);
        self.members.iter().chain(agreed).any(|fellow| *fellow == node)
    }

    /// Says whether this node can not be sure to be on the side that goes on.
    pub fn is_cut_off(&self) -> bool {
        let answer = self.members.iter().filter(|member| !self.dead.contains(&member.id)).count();
        !self.members.is_empty() && 2 * answer <= self.voters().count()
    }

    /// Returns who decides: the lowest id of those that answer.
    pub fn leader(&self) -> Option<Contact> {
        self.members.iter().find(|member| !self.dead.contains(&member.id)).copied()
    }

    /// Returns the member that answers for a key: the first at or after it.
    pub fn owner(&self, key: Id) -> Option<Contact> {
        self.members.iter().min_by_key(|member| key.clockwise_to(member.id)).copied()
    }

    /// Probes have found a member dead.
    pub fn lost(&mut self, peer: Contact, rules: &Rules, out: Out<'_>) {
        if !self.members.iter().any(|member| member.id == peer.id && member.incarnation == peer.incarnation) {
            self.applicants.retain(|applicant| *applicant != peer);
            return;
        }
        if !self.dead.contains(&peer.id) {
            self.dead.push(peer.id);
            self.proposal = None;
        }
        self.propose(rules, out);
    }

    /// A member answers after all.
    pub fn alive(&mut self, id: NodeId) {
        if !self.gone.contains(&id) {
            self.dead.retain(|dead| *dead != id);
        }
    }

    /// A member has said goodbye, or is there in a later life.
    pub fn left(&mut self, peer: Contact, rules: &Rules, out: Out<'_>) {
        if self.members.iter().any(|member| member.id == peer.id && member.incarnation <= peer.incarnation) {
            if !self.gone.contains(&peer.id) {
                self.gone.push(peer.id);
            }
            self.dead.retain(|dead| *dead != peer.id);
            self.dead.push(peer.id);
            self.proposal = None;
            self.propose(rules, out);
        }
    }

    /// Handles a message.
    pub fn receive(&mut self, from: Contact, message: Message, rules: &Rules, out: Out<'_>) {
        match message {
            Message::Apply => self.on_apply(from, rules, out),
            Message::Seal { epoch, list, .. } | Message::Commit { epoch, list, .. }
                if !is_sorted(&list) || !self.is_plausible(epoch) =>
            {
                out.push(Effect::Refused(Refusal::BadList));
            }
            Message::Seal { ring, list, .. } | Message::Commit { ring, list, .. }
                if !list.is_empty() && !may_be(ring, list.len(), rules) =>
            {
                out.push(Effect::Refused(Refusal::BadList));
            }
            Message::Seal { epoch, base, ring, list } => self.on_seal(from, epoch, base, ring, list, out),
            Message::Sealed { epoch, agreed, ring } => self.on_sealed(from, epoch, agreed, ring, out),
            Message::Commit { epoch, ring, list } => self.on_commit(from, epoch, ring, list, out),
            _ => out.push(Effect::Refused(Refusal::Unsolicited)),
        }
    }

    /// Time to repeat what was not answered, and to hear whether there is a later list.
    pub fn fire(&mut self, rules: &Rules, out: Out<'_>) {
        if self.agreed.is_none() && (self.ring || self.members.is_empty()) {
            return;
        }
        out.push(Effect::Arm(RingTimer::Form));
        if let Some(proposal) = &mut self.proposal {
            proposal.rounds = proposal.rounds.saturating_add(1);
            let silent = |node: &&Contact| !proposal.agreed.contains(&node.id);
            if proposal.rounds > ROUNDS_MAX {
                // Whoever applied and is silent now applies again if it is there.
                let list = core::mem::take(&mut proposal.list);
                let silent: Vec<NodeId> = list.iter().filter(silent).map(|node| node.id).collect();
                self.applicants.retain(|applicant| !silent.contains(&applicant.id));
                if self.ring {
                    return self.withdraw();
                }
                self.proposal = None;
                return self.propose(rules, out);
            }
            let others = proposal.list.iter().filter(silent);
            let seal = proposal.seal(self.epoch);
            out.extend(others.map(|node| Effect::Send(*node, seal.clone())));
            return;
        }
        self.propose(rules, out);
        // A ring goes on without the list: what nobody concludes does not bind for long.
        if let Some(agreed) = self.agreed.as_mut().filter(|_| self.ring) {
            agreed.rounds = agreed.rounds.saturating_add(1);
            if agreed.rounds > ROUNDS_MAX {
                self.agreed = None;
                return;
            }
        }
        // Whoever decides says so if there is a later list, with this node on it or not.
        let agreed = self.agreed.as_ref();
        let epoch = agreed.map_or(self.epoch, |agreed| agreed.epoch);
        let reminder = self.sealed(epoch, true);
        let proposer = agreed.map(|agreed| agreed.proposer).filter(|proposer| !self.is_dead(proposer.id));
        match proposer.or(self.leader()) {
            Some(to) if to.id != self.me.id => out.push(Effect::Send(to, reminder)),
            // Who takes itself for the one who decides may have been left out by the others.
            _ => {
                let others = self.members.iter().filter(|node| node.id != self.me.id);
                out.extend(others.map(|node| Effect::Send(*node, reminder.clone())));
            }
        }
    }

    fn on_apply(&mut self, from: Contact, rules: &Rules, out: Out<'_>) {
        if self.members.is_empty() {
            return out.push(Effect::Refused(Refusal::NotJoined));
        }
        match self.members.iter().find(|member| member.id == from.id).copied() {
            Some(known) if known.incarnation > from.incarnation => {
                return out.push(Effect::Refused(Refusal::StaleIncarnation));
            }
            // The news that it is a member was lost.
            Some(known) if known.incarnation == from.incarnation => {
                return out.push(Effect::Send(from, self.commit()));
            }
            Some(_) => self.left(from, rules, out),
            None => {}
        }
        match self.leader() {
            Some(leader) if leader.id != self.me.id => {
                out.push(Effect::Send(from, Message::Referred { nonce: 0, to: leader, ring: false }));
            }
            _ if self.applicants.len() < APPLICANTS_MAX => {
                self.applicants.retain(|applicant| applicant.id != from.id);
                self.applicants.push(from);
                self.propose(rules, out);
            }
            _ => out.push(Effect::Refused(Refusal::Full)),
        }
    }

    /// Proposes the next list, if it is this node's turn and there is something to change.
    fn propose(&mut self, rules: &Rules, out: Out<'_>) {
        let mine = !self.ring && self.leader().is_some_and(|leader| leader.id == self.me.id);
        // A list that others may have seen take effect is where the next one starts.
        let pending = self.agreed.as_ref().filter(|agreed| agreed.proposer.id != self.me.id);
        let changes = !self.applicants.is_empty() || !self.dead.is_empty() || pending.is_some();
        if !mine || self.proposal.is_some() || !changes {
            return;
        }
        let base = pending.map_or(&self.members, |agreed| &agreed.list);
        let mut list: Vec<Contact> =
            base.iter().filter(|node| !self.dead.contains(&node.id)).copied().collect();
        // A list everybody has to agree to should not be too long; from here on the ring takes over anyway.
        for applicant in &self.applicants {
            if list.len() < (2 * rules.successors).max(rules.successors + 3) {
                list.retain(|node| node.id != applicant.id);
                list.push(*applicant);
            }
        }
        list.sort_by_key(|node| node.id);
        self.seal(list, rules, out);
    }

    fn seal(&mut self, list: Vec<Contact>, rules: &Rules, out: Out<'_>) {
        let ring = self.makes_ring(list.len(), rules);
        let Some(epoch) = self.highest.max(self.epoch).max(self.promised).checked_add(1) else { return };
        (self.highest, self.promised) = (epoch, epoch);
        let proposal =
            Proposal { epoch: self.highest, list, ring, agreed: alloc::vec![self.me.id], rounds: 0 };
        let seal = proposal.seal(self.epoch);
        let others = proposal.list.iter().filter(|node| node.id != self.me.id);
        out.extend(others.map(|node| Effect::Send(*node, seal.clone())));
        out.push(Effect::Arm(RingTimer::Form));
        let list = proposal.list.clone();
        self.agreed = Some(Agreed { epoch: proposal.epoch, list, ring, proposer: self.me, rounds: 0 });
        self.proposal = Some(proposal);
        self.conclude(out);
    }

    fn on_seal(
        &mut self,
        from: Contact,
        epoch: u32,
        base: u32,
        ring: bool,
        list: Vec<Contact>,
        out: Out<'_>,
    ) {
        if !list.contains(&self.me) || !list.contains(&from) {
            return out.push(Effect::Refused(Refusal::BadList));
        }
        self.highest = self.highest.max(epoch);
        let same = |agreed: &Agreed| agreed.epoch == epoch && agreed.ring == ring && agreed.list == list;
        let same = self.agreed.as_ref().is_some_and(same);
        let bound = self.promised.max(self.epoch);
        if self.epoch > base && (self.ring || !self.members.is_empty()) {
            // It has missed a list; with that it can propose again.
            out.push(Effect::Send(from, self.commit()));
            return out.push(Effect::Send(from, self.sealed(bound, false)));
        }
        // Who proposes may have no list any more. Whoever has one does not agree to a smaller half of it.
        let half = self.ring && base == self.epoch && !self.is_majority(&list);
        if half || (epoch <= bound && !same) {
            return out.push(Effect::Send(from, self.sealed(bound.max(epoch), false)));
        }
        self.agreed = Some(Agreed { epoch, list, ring, proposer: from, rounds: 0 });
        (self.promised, self.proposal) = (epoch, None);
        out.push(Effect::Send(from, self.sealed(epoch, true)));
        out.push(Effect::Arm(RingTimer::Form));
    }

    fn on_sealed(&mut self, from: Contact, epoch: u32, agreed: bool, ring: bool, out: Out<'_>) {
        let asked = self.proposal.as_ref().is_some_and(|proposal| proposal.list.contains(&from));
        if (asked || self.is_fellow(from)) && self.is_plausible(epoch) {
            self.highest = self.highest.max(epoch);
        }
        match &mut self.proposal {
            Some(proposal) if agreed && proposal.epoch == epoch => {
                let listed = proposal.list.contains(&from);
                if listed && !proposal.agreed.contains(&from.id) {
                    proposal.agreed.push(from.id);
                }
                self.conclude(out);
            }
            Some(proposal) if !agreed && asked && epoch >= proposal.epoch => match self.ring {
                true => self.withdraw(),
                // The timer proposes again, with what is known by then.
                false => self.proposal = None,
            },
            // Somebody who may not have seen the latest list take effect, and may not be on it; or one who waits for a list
            // this node no longer proposes.
            _ if agreed
                && self.ring
                && !ring
                && (epoch > self.promised || epoch <= self.epoch)
                && !self.members.contains(&from) =>
            {
                // This node has gone on to a ring that has no list, or not with that one, and has not agreed to end it: a node
                // that still counts on it comes, too.
                let epoch = self.epoch.max(epoch.saturating_add(1));
                out.push(Effect::Send(from, Message::Commit { epoch, ring: true, list: Vec::new() }));
            }
            _ if agreed && !self.members.is_empty() => out.push(Effect::Send(from, self.commit())),
            _ => {}
        }
    }

    /// Makes the proposal hold if enough have agreed.
    fn conclude(&mut self, out: Out<'_>) {
        let Some(proposal) = &self.proposal else { return };
        let all = proposal.list.iter().all(|node| proposal.agreed.contains(&node.id));
        if !all || !self.is_majority(&proposal.list) {
            return;
        }
        let (epoch, ring, list) = (proposal.epoch, proposal.ring, proposal.list.clone());
        self.take(epoch, ring, list, out);
        let others = self.members.iter().filter(|node| node.id != self.me.id);
        out.extend(others.map(|node| Effect::Send(*node, self.commit())));
    }

    fn on_commit(&mut self, from: Contact, epoch: u32, ring: bool, list: Vec<Contact>, out: Out<'_>) {
        let mut fellows = self.members.iter().chain(self.agreed.iter().flat_map(|agreed| &agreed.list));
        let fellow = fellows.any(|node| node.id == from.id);
        // What it has agreed to may have lapsed by the time it holds.
        let awaited = self.promised >= epoch && list.contains(&self.me) && list.contains(&from);
        let outside = self.members.is_empty() && !self.ring;
        if !(outside || epoch > self.epoch && (fellow || awaited)) {
            return;
        }
        self.highest = self.highest.max(epoch);
        // A ring does not end for a node that has not agreed: the list is of a group it was of before.
        if self.ring && !ring && list.contains(&self.me) && self.promised < epoch {
            return;
        }
        // Beside a ring, who has come since is part of it all the same; but no list takes the place of none only.
        let kept = self.ring && ring && (!list.is_empty() || self.members.is_empty());
        if list.contains(&self.me) || kept {
            self.take(epoch, ring, list, out);
        } else if !(self.members.is_empty() || self.ring && ring && list.is_empty()) {
            // The others have gone on without this node.
            *self = Forming::new(self.me);
            out.push(Effect::Expelled(from));
        }
    }

    fn take(&mut self, epoch: u32, ring: bool, list: Vec<Contact>, out: Out<'_>) {
        (self.epoch, self.ring, self.members) = (epoch, ring, list);
        self.highest = self.highest.max(epoch);
        self.agreed = self.agreed.take().filter(|agreed| agreed.epoch > epoch);
        self.proposal = None;
        self.applicants.retain(|applicant| !self.members.contains(applicant));
        self.dead.retain(|dead| !ring && self.members.iter().any(|member| member.id == *dead));
        self.gone.clear();
        // Those who still wait turn to whoever decides now.
        if let Some(leader) = self.leader().filter(|leader| leader.id != self.me.id) {
            let referred = Message::Referred { nonce: 0, to: leader, ring: false };
            out.extend(self.applicants.drain(..).map(|waiting| Effect::Send(waiting, referred.clone())));
        }
        out.push(Effect::Committed);
        out.push(Effect::Arm(RingTimer::Form));
    }

    /// The members whose agreement is needed by the next list: those that are not certainly gone.
    fn voters(&self) -> impl Iterator<Item = &Contact> {
        self.members.iter().filter(|member| !self.gone.contains(&member.id))
    }

    fn sealed(&self, epoch: u32, agreed: bool) -> Message {
        Message::Sealed { epoch, agreed, ring: self.ring }
    }

    /// The list that holds, as others are told of it.
    pub(super) fn commit(&self) -> Message {
        Message::Commit { epoch: self.epoch, ring: self.ring, list: self.members.clone() }
    }

    /// Checks what must always hold inside one node.
    ///
    /// # Panics
    /// If something does not hold: a mistake of ours.
    pub fn check_invariants(&self) {
        assert!(is_sorted(&self.members));
        let listed = self.members.is_empty() || self.members.contains(&self.me);
        assert!(listed || self.ring, "a member is on its own list");
        assert!(self.applicants.len() <= APPLICANTS_MAX);
        assert!(self.gone.iter().all(|gone| self.dead.contains(gone)));
    }

    /// Returns the heap memory held, in bytes, roughly.
    pub fn heap_bytes(&self) -> usize {
        let lists = [&self.members, &self.applicants].map(Vec::capacity).iter().sum::<usize>();
        let open = self.agreed.iter().map(|agreed| agreed.list.capacity());
        let open = open.chain(self.proposal.iter().map(|proposal| proposal.list.capacity())).sum::<usize>();
        (lists + open) * size_of::<Contact>()
            + (self.dead.capacity() + self.gone.capacity()) * size_of::<NodeId>()
    }
}

impl Proposal {
    fn seal(&self, base: u32) -> Message {
        Message::Seal { epoch: self.epoch, base, ring: self.ring, list: self.list.clone() }
    }
}

/// From how many members on there is a ring, and with how few it ends.
fn turns(rules: &Rules) -> (usize, usize) {
    match rules.keeps(Safeguard::Forming) {
        true => (rules.successors + 3, rules.successors + 1),
        false => (2, 1),
    }
}

/// Says whether so many can be a ring, or a group.
fn may_be(ring: bool, members: usize, rules: &Rules) -> bool {
    let (enough, few) = turns(rules);
    if ring { members > few } else { members < enough }
}

/// Says whether a list can be one of members: by id, nobody twice, not too long.
fn is_sorted(list: &[Contact]) -> bool {
    list.len() <= LIST_MAX && list.windows(2).all(|pair| pair[0].id < pair[1].id)
}

/// Members a list may have, whatever its sender's settings are.
const LIST_MAX: usize = 256;

#[cfg(test)]
mod tests;
