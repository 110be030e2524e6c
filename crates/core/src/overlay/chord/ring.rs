//! The ring: Chord's state and handlers, as Zave corrected and Verdi Chord implemented them, with what practice needs.
//!
//! A pure machine without time. Messages and timers come in, [`Effect`]s come out; the overlay around it turns
//! [`Effect::Arm`] into real timers, the model checker into choices. Field and query names are those of the seed
//! system; its rules VC-10 to VC-34 stand at the code that follows them. What is added:
//!
//! - a node that hears Busy while others wait for it gives its own query up, so nobody waits in a circle;
//! - a join that ends badly arms a timer to start again;
//! - a successor that stays silent is suspected, not forgotten, and comes back when it answers;
//! - pointers carry incarnations, questions carry numbers, lists are checked before they are believed.
//!
//! `receiving` has the handlers of answers, `successors` the rules about lists. The rule that must never be broken: a
//! successor is adopted only after it has itself answered.

mod receiving;
mod successors;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

pub use successors::between;

use super::message::{Asker, Message};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::Refusal;
use crate::id::NodeId;
use crate::message::Nonce;

/// What the machine is told with every call: the part of the configuration it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How long successor lists are.
    pub successors: usize,
    /// How often a question is sent before its target counts as silent.
    pub attempts: u8,
    /// A rule to leave out, in builds made for testing.
    pub without: Option<Safeguard>,
}

impl Rules {
    /// Says whether a rule is in force.
    pub fn keeps(&self, safeguard: Safeguard) -> bool {
        !cfg!(any(test, feature = "mutants")) || self.without != Some(safeguard)
    }
}

/// One node's part of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ring {
    /// This node.
    ptr: Contact,
    /// Its predecessor, if it knows one.
    pred: Option<Contact>,
    /// The nodes after it, nearest first.
    succ_list: Vec<Contact>,
    /// The node it joins or joined through.
    known: Contact,
    /// Whether it is part of the ring.
    joined: bool,
    /// Who may be a better predecessor.
    rectify_with: Option<Contact>,
    /// The question it waits for the answer of.
    cur_request: Option<Request>,
    /// Who waits for its answer, newest first.
    delayed_queries: Vec<(Contact, Message)>,
    /// Successors that stayed silent, by distance. They are asked again until they answer or are forgotten.
    suspects: Vec<Contact>,
    /// Those of them whom others can reach: named to others, who may be able to, too. By id.
    vouched: Vec<NodeId>,
    /// The number of the last round of such questions.
    probe: Option<Nonce>,
    last_nonce: Nonce,
}

/// A question under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Whom it was sent to.
    pub target: Contact,
    /// What for.
    pub query: Query,
    /// What was sent.
    pub message: Message,
    /// Whether the target has said that it is busy.
    pub heard_busy: bool,
    /// How often it was sent.
    pub attempts: u8,
    /// Steps of a join so far.
    steps: u8,
}

/// What a node is doing about its place in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// Looks for its predecessor, starting at this node.
    Join(Contact),
    /// Asks its successor-to-be for its list.
    Join2(Contact),
    /// Asks its successor for predecessor and list.
    Stabilize,
    /// Asks a node that may be a better successor for its list.
    Stabilize2(Contact),
    /// Asks a node of another ring that should be its successor for its list.
    Merge(Contact),
    /// Sees whether its predecessor is there; this one wants to be it.
    Rectify(Contact),
}

/// The machine's timers. Arming one that is armed starts it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RingTimer {
    /// Time to stabilize.
    Tick,
    /// Time to look at who wants to be the predecessor.
    RectifyTick,
    /// Time to tell those who wait that they still have to.
    KeepaliveTick,
    /// The target of a question has been silent for long.
    Request {
        /// Whom it was sent to.
        target: NodeId,
        /// The question's number.
        nonce: Nonce,
    },
    /// A query was given up for others' sake: time to try again.
    Retry,
    /// A join came to nothing: time to start again.
    Rejoin,
    /// Time to see whether suspects are there.
    Probe,
    /// Time to repeat what was said about the list of all members; for [`super::forming`].
    Form,
}

/// What the machine wants done, or reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send this.
    Send(Contact, Message),
    /// Start a timer.
    Arm(RingTimer),
    /// Stop a timer.
    Clear(RingTimer),
    /// The node is part of the ring now.
    Joined,
    /// The join came to nothing.
    JoinEnded(JoinEnd),
    /// Something was not accepted; nothing changed.
    Refused(Refusal),
    /// A successor stayed silent.
    Suspected(Contact),
    /// A suspect answered.
    Cleared(Contact),
    /// A query was given up because others wait.
    GaveUp,
    /// A list of all members holds.
    Committed,
    /// The others have agreed on a list without this node; this one has said so.
    Expelled(Contact),
}

/// Why a join came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JoinEnd {
    /// A node on the way stayed silent.
    Silent,
    /// A node on the way was busy, and somebody waits for this one.
    Busy,
    /// The answers lead nowhere: the ring is changing, or somebody is not telling the truth.
    Astray,
}

/// Askers that can wait. When there are more, the node gives its own query up and answers them all.
const DELAYED_MAX: usize = 64;
/// Steps a join may take: a ring of that many lists' length. More means being led in circles.
const STEPS_MAX: u8 = u8::MAX;

/// Where a handler puts its effects.
type Out<'a> = &'a mut Vec<Effect>;

impl Ring {
    /// Makes a node that is not part of a ring. Numbers its questions from `nonce` on.
    pub fn new(ptr: Contact, nonce: Nonce) -> Ring {
        Ring {
            ptr,
            pred: None,
            succ_list: Vec::new(),
            known: ptr,
            joined: false,
            rectify_with: None,
            cur_request: None,
            delayed_queries: Vec::new(),
            suspects: Vec::new(),
            vouched: Vec::new(),
            probe: None,
            last_nonce: nonce,
        }
    }

    /// Starts to join the ring that `known` is part of (VC-16). Whatever this node was part of is forgotten.
    pub fn start_join(&mut self, known: Contact, rules: &Rules, out: Out<'_>) {
        self.reset(out);
        self.known = known;
        self.start_query(Query::Join(known), rules, out);
        self.flush_delayed(0, out);
    }

    /// Starts as part of a ring that is known completely (VC-17). `members` may contain this node.
    pub fn start_ring(&mut self, members: &[Contact], rules: &Rules, out: Out<'_>) {
        self.reset(out);
        let me = self.ptr.id;
        let mut ring: Vec<Contact> = members.iter().copied().filter(|member| member.id != me).collect();
        // In one list, the later life of an id is the one that counts.
        ring.sort_by_key(|member| (me.clockwise_to(member.id), core::cmp::Reverse(member.incarnation)));
        ring.dedup_by_key(|member| member.id);
        self.known = self.ptr;
        self.pred = ring.last().copied();
        ring.truncate(rules.successors);
        self.succ_list = ring;
        self.joined = true;
        out.push(Effect::Arm(RingTimer::Tick));
        out.push(Effect::Joined);
        self.flush_delayed(0, out);
    }

    /// Says goodbye to the predecessor and the successors, and is no longer part of the ring.
    pub fn leave(&mut self, out: Out<'_>) {
        if self.joined {
            for peer in self.succ_list.iter().chain(&self.pred) {
                out.push(Effect::Send(*peer, Message::Leaving { list: self.succ_list.clone() }));
            }
        }
        self.reset(out);
        self.flush_delayed(0, out);
    }

    /// The ring has ended, for everybody on it.
    pub fn end(&mut self, out: Out<'_>) {
        self.reset(out);
        self.suspects.clear();
        self.vouched.clear();
        self.flush_delayed(0, out);
    }

    /// Instead of an answer, a peer has said that it is not part of this ring. `false`: nobody has asked it.
    pub fn strike(&mut self, peer: Contact, nonce: Nonce, rules: &Rules, out: Out<'_>) -> bool {
        let start = out.len();
        let open = self.is_open(peer, nonce, rules) || self.is_probed(peer, nonce);
        if open {
            self.bury(|node| is_same_life(node, &peer), rules, out);
            self.flush_delayed(start, out);
        }
        open
    }

    /// Takes a node of what turned out to be another ring as successor, if it is nearer than the present one and
    /// answers: rings that were split grow together again. `false`: not now, or no reason to.
    pub fn merge(&mut self, with: Contact, rules: &Rules, out: Out<'_>) -> bool {
        let me = self.ptr.id;
        let nearer = match self.succ_list.first() {
            Some(head) => between(me, with.id, head.id),
            None => with.id != me,
        };
        let may = self.joined && self.cur_request.is_none() && nearer;
        if may {
            self.start_query(Query::Merge(with), rules, out);
        }
        may
    }

    /// Others say that they can reach a suspect, or no longer do.
    pub fn vouch(&mut self, id: NodeId, reached: bool) {
        self.vouched.retain(|other| *other != id);
        if reached && self.suspects.iter().any(|suspect| suspect.id == id) {
            self.vouched.push(id);
            self.vouched.sort();
        }
    }

    /// A suspect has been silent for long. It is forgotten if the list is full without it.
    pub fn forget(&mut self, id: NodeId, rules: &Rules) {
        if self.succ_list.len() >= rules.successors {
            self.vouch(id, false);
            self.suspects.retain(|suspect| suspect.id != id);
        }
    }

    /// The overlay's own probes have found a peer dead: as if it had not answered a question. A predecessor stays until
    /// another wants its place: only then does it matter, and this node may be the only one that can not reach it.
    pub fn lost(&mut self, peer: Contact, rules: &Rules, out: Out<'_>) {
        let start = out.len();
        let asked = |request: &Request| is_same_life(&request.target, &peer);
        if self.cur_request.as_ref().is_some_and(asked) {
            self.on_silence(true, rules, out);
        } else if let Some(at) = self.succ_list.iter().position(|node| is_same_life(node, &peer)) {
            self.succ_list.remove(at);
            if rules.keeps(Safeguard::Suspects) {
                self.suspect(peer, rules, out);
            }
        }
        self.flush_delayed(start, out);
    }

    /// A peer has shown itself in some message: if this is a later life of it, the earlier one is dead.
    pub fn heard(&mut self, from: Contact, rules: &Rules, out: Out<'_>) {
        let start = out.len();
        self.hear(from, rules, out);
        self.flush_delayed(start, out);
    }

    /// The overlay has its own proof that a suspect lives.
    pub fn alive(&mut self, peer: Contact, rules: &Rules, out: Out<'_>) {
        if let Some(at) = self.suspects.iter().position(|suspect| is_same_life(suspect, &peer)) {
            let suspect = self.suspects.remove(at);
            self.vouch(suspect.id, false);
            self.insert(suspect, rules);
            out.push(Effect::Cleared(suspect));
        }
    }

    /// A timer has fired. One that means nothing any more does nothing.
    pub fn fire(&mut self, timer: RingTimer, rules: &Rules, out: Out<'_>) {
        let start = out.len();
        match timer {
            // VC-31
            RingTimer::Tick => {
                self.stabilize(rules, out);
                if self.joined {
                    out.push(Effect::Arm(RingTimer::Tick));
                }
            }
            RingTimer::Retry => self.stabilize(rules, out),
            RingTimer::RectifyTick => self.rectify(rules, out),
            // VC-33
            RingTimer::KeepaliveTick => {
                for (source, question) in &self.delayed_queries {
                    let nonce = question.nonce().unwrap_or_default();
                    out.push(Effect::Send(*source, Message::Busy { nonce }));
                }
                if !self.delayed_queries.is_empty() {
                    out.push(Effect::Arm(RingTimer::KeepaliveTick));
                }
            }
            RingTimer::Request { target, nonce } => self.on_request_timer(target, nonce, rules, out),
            RingTimer::Form => {}
            RingTimer::Rejoin => {
                if !self.joined && self.cur_request.is_none() && self.known.id != self.ptr.id {
                    self.start_query(Query::Join(self.known), rules, out);
                }
            }
            RingTimer::Probe => {
                if !self.suspects.is_empty() {
                    let nonce = self.nonce();
                    self.probe = Some(nonce);
                    let ask = |suspect: &Contact| Effect::Send(*suspect, Message::Ping { nonce });
                    out.extend(self.suspects.iter().map(ask));
                    out.push(Effect::Arm(RingTimer::Probe));
                }
            }
        }
        self.flush_delayed(start, out);
    }

    fn stabilize(&mut self, rules: &Rules, out: Out<'_>) {
        if self.joined && self.cur_request.is_none() {
            self.start_query(Query::Stabilize, rules, out);
        }
    }

    /// VC-32, R-21
    fn rectify(&mut self, rules: &Rules, out: Out<'_>) {
        let Some(candidate) = self.rectify_with.filter(|_| self.joined) else { return };
        if self.cur_request.is_some() {
            return out.push(Effect::Arm(RingTimer::RectifyTick));
        }
        self.rectify_with = None;
        match self.pred {
            None => self.pred = Some(candidate),
            Some(_) if rules.keeps(Safeguard::AskPredecessor) => {
                self.start_query(Query::Rectify(candidate), rules, out);
            }
            Some(pred) if between(pred.id, candidate.id, self.ptr.id) => self.pred = Some(candidate),
            Some(_) => {}
        }
    }

    /// VC-34. What was lost on the way is sent again first.
    fn on_request_timer(&mut self, target: NodeId, nonce: Nonce, rules: &Rules, out: Out<'_>) {
        let open =
            |request: &&mut Request| request.target.id == target && request.message.nonce() == Some(nonce);
        let Some(request) = self.cur_request.as_mut().filter(open) else { return };
        if request.attempts < rules.attempts {
            request.attempts += 1;
            out.push(Effect::Send(request.target, request.message.clone()));
            out.push(Effect::Arm(RingTimer::Request { target, nonce }));
            return;
        }
        self.on_silence(true, rules, out);
    }

    /// The target of the open question is gone, or so it seems if it is only `suspected`.
    fn on_silence(&mut self, suspected: bool, rules: &Rules, out: Out<'_>) {
        let Some(request) = self.end_query(out) else { return };
        match request.query {
            Query::Rectify(candidate) => self.pred = Some(candidate),
            Query::Stabilize => {
                self.succ_list.retain(|node| node.id != request.target.id);
                if suspected && rules.keeps(Safeguard::Suspects) {
                    self.suspect(request.target, rules, out);
                }
                self.start_query(Query::Stabilize, rules, out);
            }
            Query::Stabilize2(_) | Query::Merge(_) => self.notify_head(out),
            Query::Join(_) | Query::Join2(_) => self.end_join(JoinEnd::Silent, rules, out),
        }
    }

    /// VC-10
    fn start_query(&mut self, query: Query, rules: &Rules, out: Out<'_>) {
        let target = match query {
            Query::Join(node) | Query::Join2(node) | Query::Stabilize2(node) | Query::Merge(node) => {
                Some(node)
            }
            Query::Stabilize => self.succ_list.first().copied(),
            Query::Rectify(_) => self.pred,
        };
        self.end_query(out);
        let Some(target) = target else { return };
        let nonce = self.nonce();
        let message = match query {
            Query::Join(_) => Message::GetBestPredecessor { nonce, of: self.ptr.id, asker: Asker::Peer },
            Query::Join2(_) | Query::Stabilize2(_) | Query::Merge(_) => {
                Message::GetSuccList { nonce, asker: Asker::Peer }
            }
            Query::Stabilize => Message::GetPredAndSuccs { nonce },
            Query::Rectify(_) => Message::Ping { nonce },
        };
        self.ask(target, query, message, 0, rules, out);
    }

    fn ask(
        &mut self,
        target: Contact,
        query: Query,
        message: Message,
        steps: u8,
        rules: &Rules,
        out: Out<'_>,
    ) {
        let nonce = message.nonce().unwrap_or_default();
        // A node that is asked to ask itself has been misled; nobody would answer.
        if target.id == self.ptr.id {
            if matches!(query, Query::Join(_) | Query::Join2(_)) {
                self.end_join(JoinEnd::Astray, rules, out);
            }
            return;
        }
        out.push(Effect::Send(target, message.clone()));
        out.push(Effect::Arm(RingTimer::Request { target: target.id, nonce }));
        self.cur_request = Some(Request { target, query, message, heard_busy: false, attempts: 1, steps });
    }

    /// VC-11
    fn end_query(&mut self, out: Out<'_>) -> Option<Request> {
        let request = self.cur_request.take()?;
        let nonce = request.message.nonce().unwrap_or_default();
        out.push(Effect::Clear(RingTimer::Request { target: request.target.id, nonce }));
        Some(request)
    }

    /// a join that came to nothing starts again.
    fn end_join(&mut self, why: JoinEnd, rules: &Rules, out: Out<'_>) {
        self.end_query(out);
        out.push(Effect::JoinEnded(why));
        if rules.keeps(Safeguard::JoinAgain) {
            out.push(Effect::Arm(RingTimer::Rejoin));
        }
    }

    /// Gives the open query up without having changed anything, so that those who wait can go on.
    fn give_up(&mut self, rules: &Rules, out: Out<'_>) {
        let Some(request) = self.end_query(out) else { return };
        out.push(Effect::GaveUp);
        match request.query {
            Query::Stabilize => out.push(Effect::Arm(RingTimer::Retry)),
            Query::Stabilize2(_) | Query::Merge(_) => {
                self.notify_head(out);
                out.push(Effect::Arm(RingTimer::Retry));
            }
            Query::Rectify(candidate) => {
                self.rectify_with = self.rectify_with.or(Some(candidate));
                out.push(Effect::Arm(RingTimer::RectifyTick));
            }
            Query::Join(_) | Query::Join2(_) => self.end_join(JoinEnd::Busy, rules, out),
        }
    }

    fn notify_head(&self, out: Out<'_>) {
        if let Some(head) = self.succ_list.first() {
            out.push(Effect::Send(*head, Message::Notify));
        }
    }

    /// VC-14. The answers go out before what else this step sends, from `start` on.
    fn flush_delayed(&mut self, start: usize, out: Out<'_>) {
        if self.cur_request.is_some() || self.delayed_queries.is_empty() {
            return;
        }
        let delayed = core::mem::take(&mut self.delayed_queries);
        let answers: Vec<Effect> =
            delayed.iter().filter_map(|(source, question)| self.answer(*source, question)).collect();
        out.splice(start..start, answers);
        out.push(Effect::Clear(RingTimer::KeepaliveTick));
    }

    /// Becomes a node that is not part of a ring. Suspects are kept: they are where to look for it again.
    fn reset(&mut self, out: Out<'_>) {
        if self.joined {
            out.push(Effect::Clear(RingTimer::Tick));
        }
        self.end_query(out);
        (self.pred, self.rectify_with, self.joined) = (None, None, false);
        self.succ_list.clear();
    }

    fn nonce(&mut self) -> Nonce {
        self.last_nonce = self.last_nonce.wrapping_add(1);
        self.last_nonce
    }
}

/// What can be asked about the state.
impl Ring {
    /// Returns this node.
    pub fn ptr(&self) -> Contact {
        self.ptr
    }

    /// Returns its predecessor, if it knows one.
    pub fn pred(&self) -> Option<Contact> {
        self.pred
    }

    /// Returns the nodes after it, nearest first.
    pub fn succ_list(&self) -> &[Contact] {
        &self.succ_list
    }

    /// Returns the node it joins or joined through.
    pub fn known(&self) -> Contact {
        self.known
    }

    /// Says whether it is part of the ring.
    pub fn joined(&self) -> bool {
        self.joined
    }

    /// Returns who may be a better predecessor.
    pub fn rectify_with(&self) -> Option<Contact> {
        self.rectify_with
    }

    /// Returns the question it waits for the answer of.
    pub fn cur_request(&self) -> Option<&Request> {
        self.cur_request.as_ref()
    }

    /// Returns who waits for its answer, newest first.
    pub fn delayed_queries(&self) -> &[(Contact, Message)] {
        &self.delayed_queries
    }

    /// Returns the successors that stayed silent, nearest first.
    pub fn suspects(&self) -> &[Contact] {
        &self.suspects
    }

    /// Returns every node this one believes to come after it, suspected or not, nearest first.
    pub fn extended(&self) -> Vec<Contact> {
        let mut nodes: Vec<Contact> = self.succ_list.iter().chain(&self.suspects).copied().collect();
        nodes.sort_by_key(|node| self.ptr.id.clockwise_to(node.id));
        nodes
    }

    /// Gives every number in the state another one, for checkers: states that differ only in those are the same.
    /// `number` is asked with the node that numbered the question. The next number of this node becomes `next`.
    /// What else has no consequences is forgotten: the steps of a join, which only an endless one would count, and
    /// whom a member once joined through.
    pub fn renumber(&mut self, next: Nonce, mut number: impl FnMut(NodeId, Nonce) -> Nonce) {
        let me = self.ptr.id;
        if let Some(request) = &mut self.cur_request {
            let nonce = request.message.nonce().unwrap_or_default();
            request.message.set_nonce(number(me, nonce));
            request.steps = 0;
        }
        if self.joined {
            self.known = self.ptr;
        }
        self.probe = self.probe.map(|nonce| number(me, nonce));
        for (source, question) in &mut self.delayed_queries {
            let nonce = question.nonce().unwrap_or_default();
            question.set_nonce(number(source.id, nonce));
        }
        self.last_nonce = next;
    }

    /// Checks what must always hold inside one node.
    ///
    /// # Panics
    /// If something does not hold: a mistake of ours.
    pub fn check_invariants(&self, rules: &Rules) {
        if rules.keeps(Safeguard::CheckLists) {
            let me = self.ptr.id;
            for list in [&self.succ_list, &self.suspects] {
                assert!(list.iter().all(|node| node.id != me), "a list contains its owner");
                assert!(
                    list.windows(2).all(|pair| me.clockwise_to(pair[0].id) < me.clockwise_to(pair[1].id)),
                    "a list is out of order"
                );
            }
        }
        assert!(self.succ_list.len() <= rules.successors);
        assert!(self.suspects.len() <= 2 * rules.successors);
        assert!(self.delayed_queries.len() <= DELAYED_MAX);
        assert!(self.cur_request.is_some() || self.delayed_queries.is_empty(), "somebody waits for nothing");
        assert!(
            self.joined || (self.pred.is_none() && self.succ_list.is_empty() && self.rectify_with.is_none())
        );
        let is_suspect = |id: &NodeId| self.suspects.iter().any(|suspect| suspect.id == *id);
        assert!(self.vouched.iter().all(is_suspect), "who is vouched for is suspected");
        let both = |node: &&Contact| self.suspects.iter().any(|suspect| suspect.id == node.id);
        assert!(!self.succ_list.iter().any(|node| both(&node)), "a successor is suspected");
    }

    /// Returns the heap memory held, in bytes, roughly.
    pub fn heap_bytes(&self) -> usize {
        (self.succ_list.capacity() + self.suspects.capacity()) * size_of::<Contact>()
            + self.delayed_queries.capacity() * size_of::<(Contact, Message)>()
    }
}

/// Says whether two pointers mean the same life of the same node.
fn is_same_life(a: &Contact, b: &Contact) -> bool {
    a.id == b.id && a.incarnation == b.incarnation
}
