//! A small ring: every member knows all of them.
//!
//! Zave's ring is sound only from a base of r + 1 members with complete lists, so smaller ones are kept otherwise: one
//! list of all members, with a number. The member with the lowest id proposes the next list; whoever agrees to a list
//! agrees to none with that number or below; when everybody on it and a majority of the list before has agreed, it
//! holds. From r + 3 members on, all of them start the ring from that very list.
//!
//! A pure machine like [`super::ring`], with the same effects. Whoever is certainly gone (it said so, or came back in a
//! later life) does not count for the majority; whoever is only silent does, so that two halves of a split group
//! can not both go on.

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
    /// The number of the list that holds; 0 while there is none.
    epoch: u32,
    /// All members, by id.
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
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Agreed {
    epoch: u32,
    list: Vec<Contact>,
    proposer: Contact,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proposal {
    epoch: u32,
    list: Vec<Contact>,
    agreed: Vec<NodeId>,
    /// How often it was sent.
    rounds: u8,
}

/// Applicants remembered; further ones apply again.
const APPLICANTS_MAX: usize = 64;
/// How often an applicant is sent a list before it is left out of the next.
const ROUNDS_MAX: u8 = 3;

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
        }
    }

    /// Becomes the only member.
    pub fn found(&mut self, out: Out<'_>) {
        let me = self.me;
        *self = Forming { epoch: 1, members: alloc::vec![me], ..Forming::new(me) };
        out.push(Effect::Committed);
        out.push(Effect::Arm(RingTimer::Form));
    }

    /// Returns all members, by id; none if this node is not one.
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

    /// Says whether the members are enough for a ring without lists of all.
    pub fn is_enough(&self, rules: &Rules) -> bool {
        self.members.len() >= if rules.keeps(Safeguard::Forming) { rules.successors + 3 } else { 2 }
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
            Message::Seal { epoch, base, list } => self.on_seal(from, epoch, base, list, out),
            Message::Sealed { epoch, agreed } => self.on_sealed(from, epoch, agreed, rules, out),
            Message::Commit { epoch, list } => self.on_commit(from, epoch, list, out),
            _ => out.push(Effect::Refused(Refusal::Unsolicited)),
        }
    }

    /// Time to repeat what was not answered, and to hear whether there is a later list.
    pub fn fire(&mut self, rules: &Rules, out: Out<'_>) {
        if self.members.is_empty() && self.agreed.is_none() {
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
                self.proposal = None;
                return self.propose(rules, out);
            }
            let seal = Message::Seal { epoch: proposal.epoch, base: self.epoch, list: proposal.list.clone() };
            out.extend(proposal.list.iter().filter(silent).map(|node| Effect::Send(*node, seal.clone())));
            return;
        }
        self.propose(rules, out);
        // Whoever decides says so if there is a later list, with this node on it or not.
        let agreed = self.agreed.as_ref();
        let to = agreed.map(|agreed| agreed.proposer).or(self.leader());
        if let Some(to) = to.filter(|to| to.id != self.me.id) {
            let epoch = agreed.map_or(self.epoch, |agreed| agreed.epoch);
            out.push(Effect::Send(to, Message::Sealed { epoch, agreed: true }));
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
                out.push(Effect::Send(from, Message::Referred { to: leader, ring: false }));
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
        let mine = self.leader().is_some_and(|leader| leader.id == self.me.id);
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
        self.highest = self.highest.max(self.epoch).saturating_add(1);
        let epoch = self.highest;
        let agreed = alloc::vec![self.me.id];
        let seal = Message::Seal { epoch, base: self.epoch, list: list.clone() };
        let others = list.iter().filter(|node| node.id != self.me.id);
        out.extend(others.map(|node| Effect::Send(*node, seal.clone())));
        out.push(Effect::Arm(RingTimer::Form));
        self.agreed = Some(Agreed { epoch, list: list.clone(), proposer: self.me });
        self.proposal = Some(Proposal { epoch, list, agreed, rounds: 0 });
        self.conclude(out);
    }

    fn on_seal(&mut self, from: Contact, epoch: u32, base: u32, list: Vec<Contact>, out: Out<'_>) {
        if !list.contains(&self.me) || !list.iter().any(|node| node.id == from.id) || !is_sorted(&list) {
            return out.push(Effect::Refused(Refusal::BadList));
        }
        self.highest = self.highest.max(epoch);
        let same = self.agreed.as_ref().is_some_and(|agreed| agreed.epoch == epoch && agreed.list == list);
        let bound = self.agreed.as_ref().map_or(self.epoch, |agreed| agreed.epoch.max(self.epoch));
        if self.epoch > base && !self.members.is_empty() {
            // It has missed a list; with that it can propose again.
            out.push(Effect::Send(from, Message::Sealed { epoch: bound, agreed: false }));
            return out.push(Effect::Send(from, self.commit()));
        }
        if epoch <= bound && !same {
            return out.push(Effect::Send(from, Message::Sealed { epoch: bound, agreed: false }));
        }
        self.agreed = Some(Agreed { epoch, list, proposer: from });
        self.proposal = None;
        out.push(Effect::Send(from, Message::Sealed { epoch, agreed: true }));
        out.push(Effect::Arm(RingTimer::Form));
    }

    fn on_sealed(&mut self, from: Contact, epoch: u32, agreed: bool, rules: &Rules, out: Out<'_>) {
        self.highest = self.highest.max(epoch);
        match &mut self.proposal {
            Some(proposal) if agreed && proposal.epoch == epoch => {
                let listed = proposal.list.contains(&from);
                if listed && !proposal.agreed.contains(&from.id) {
                    proposal.agreed.push(from.id);
                }
                self.conclude(out);
            }
            Some(proposal) if !agreed && epoch >= proposal.epoch => {
                self.proposal = None;
                self.propose(rules, out);
            }
            // Somebody who may not have seen the latest list take effect, and may not be on it.
            _ if agreed && !self.members.is_empty() && epoch <= self.epoch => {
                out.push(Effect::Send(from, self.commit()));
            }
            _ => {}
        }
    }

    /// Makes the proposal hold if enough have agreed.
    fn conclude(&mut self, out: Out<'_>) {
        let Some(proposal) = &self.proposal else { return };
        let all = proposal.list.iter().all(|node| proposal.agreed.contains(&node.id));
        let majority = self.voters().filter(|voter| proposal.agreed.contains(&voter.id)).count();
        if !all || 2 * majority <= self.voters().count() {
            return;
        }
        let (epoch, list) = (proposal.epoch, proposal.list.clone());
        self.take(epoch, list, out);
        let others = self.members.iter().filter(|node| node.id != self.me.id);
        out.extend(others.map(|node| Effect::Send(*node, self.commit())));
    }

    fn on_commit(&mut self, from: Contact, epoch: u32, list: Vec<Contact>, out: Out<'_>) {
        self.highest = self.highest.max(epoch);
        let fellow = self.members.iter().chain(self.agreed.iter().flat_map(|agreed| &agreed.list));
        let known = fellow.clone().any(|node| node.id == from.id);
        let fresh = self.members.is_empty() || epoch > self.epoch;
        if !fresh || !(known || self.members.is_empty()) || !is_sorted(&list) {
            return;
        }
        if list.contains(&self.me) {
            self.take(epoch, list, out);
        } else if !self.members.is_empty() {
            // The others have gone on without this node.
            *self = Forming::new(self.me);
            out.push(Effect::Expelled);
        }
    }

    fn take(&mut self, epoch: u32, list: Vec<Contact>, out: Out<'_>) {
        (self.epoch, self.members) = (epoch, list);
        self.highest = self.highest.max(epoch);
        self.agreed = self.agreed.take().filter(|agreed| agreed.epoch > epoch);
        self.proposal = None;
        self.applicants.retain(|applicant| !self.members.contains(applicant));
        self.dead.retain(|dead| self.members.iter().any(|member| member.id == *dead));
        self.gone.clear();
        // Those who still wait turn to whoever decides now.
        if let Some(leader) = self.leader().filter(|leader| leader.id != self.me.id) {
            let referred = Message::Referred { to: leader, ring: false };
            out.extend(self.applicants.drain(..).map(|waiting| Effect::Send(waiting, referred.clone())));
        }
        out.push(Effect::Committed);
        out.push(Effect::Arm(RingTimer::Form));
    }

    /// The members whose agreement is needed by the next list: those that are not certainly gone.
    fn voters(&self) -> impl Iterator<Item = &Contact> {
        self.members.iter().filter(|member| !self.gone.contains(&member.id))
    }

    fn commit(&self) -> Message {
        Message::Commit { epoch: self.epoch, list: self.members.clone() }
    }

    /// Checks what must always hold inside one node.
    ///
    /// # Panics
    /// If something does not hold: a mistake of ours.
    pub fn check_invariants(&self) {
        assert!(is_sorted(&self.members));
        assert!(self.members.is_empty() || self.members.contains(&self.me), "a member is on its own list");
        assert!(self.applicants.len() <= APPLICANTS_MAX);
        assert!(self.gone.iter().all(|gone| self.dead.contains(gone)));
    }

    /// Returns the heap memory held, in bytes, roughly.
    pub fn heap_bytes(&self) -> usize {
        let lists = [&self.members, &self.applicants].map(Vec::capacity).iter().sum::<usize>();
        lists * size_of::<Contact>() + (self.dead.capacity() + self.gone.capacity()) * size_of::<NodeId>()
    }
}

/// Says whether a list can be one of members: by id, nobody twice, not too long.
fn is_sorted(list: &[Contact]) -> bool {
    list.len() <= LIST_MAX && list.windows(2).all(|pair| pair[0].id < pair[1].id)
}

/// Members a list may have, whatever its sender's settings are.
const LIST_MAX: usize = 256;

#[cfg(test)]
mod tests;
