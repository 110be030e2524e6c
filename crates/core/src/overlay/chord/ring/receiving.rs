//! What a node makes of a message.

use super::{
    DELAYED_MAX, Effect, JoinEnd, Message, Out, Query, Request, Ring, RingTimer, Rules, STEPS_MAX, between,
};
use crate::config::Safeguard;
use crate::contact::Contact;
use crate::edge::Refusal;
use crate::overlay::chord::message::Asker;

impl Ring {
    /// Handles a message. The transport has proved who sent it.
    pub fn receive(&mut self, from: Contact, message: Message, rules: &Rules, out: Out<'_>) {
        let start = out.len();
        if from.id == self.ptr.id {
            return out.push(Effect::Refused(Refusal::FromSelf));
        }
        // A client is not asked which life it is in: it is nobody's neighbour.
        if !message.is_of_client() && !self.hear(from, rules, out) {
            return;
        }
        match message {
            Message::Notify => self.on_notify(from, out),
            Message::Ping { nonce } => self.on_ping(from, nonce, out),
            Message::Leaving { list } => self.on_leaving(from, &list, rules, out),
            _ if message.is_of_client() => out.extend(self.answer(from, &message)),
            _ if message.is_question() => self.on_question(from, message, rules, out),
            Message::Pong { nonce } if self.is_probed(from, nonce) => self.alive(from, rules, out),
            Message::Busy { nonce } => self.on_busy(from, nonce, rules, out),
            answer => self.on_answer(from, answer, rules, out),
        }
        self.flush_delayed(start, out);
    }

    /// VC-18
    fn on_notify(&mut self, from: Contact, out: Out<'_>) {
        // Nobody but a member can have a predecessor; and a candidate without a timer would be stuck.
        if !self.joined {
            return out.push(Effect::Refused(Refusal::NotJoined));
        }
        match self.rectify_with {
            None => {
                self.rectify_with = Some(from);
                out.push(Effect::Arm(RingTimer::RectifyTick));
            }
            Some(candidate) if between(candidate.id, from.id, self.ptr.id) => self.rectify_with = Some(from),
            Some(_) => {}
        }
    }

    /// VC-19, but only a member answers: who is not one is nobody's predecessor either.
    fn on_ping(&self, from: Contact, nonce: u32, out: Out<'_>) {
        out.push(match self.joined {
            true => Effect::Send(from, Message::Pong { nonce }),
            false => Effect::Refused(Refusal::NotJoined),
        });
    }

    /// VC-20, VC-29
    fn on_question(&mut self, from: Contact, question: Message, rules: &Rules, out: Out<'_>) {
        let Some(request) = &self.cur_request else {
            return out.extend(self.answer(from, &question));
        };
        let heard_busy = request.heard_busy && rules.keeps(Safeguard::GiveUp);
        let nonce = question.nonce().unwrap_or_default();
        self.delayed_queries.retain(|(source, _)| source.id != from.id);
        if self.delayed_queries.is_empty() {
            out.push(Effect::Arm(RingTimer::KeepaliveTick));
        }
        let full = self.delayed_queries.len() >= DELAYED_MAX;
        if full {
            // Only so many can wait; all are answered below, this one at once.
            self.give_up(rules, out);
            return out.extend(self.answer(from, &question));
        }
        self.delayed_queries.insert(0, (from, question));
        if heard_busy {
            self.give_up(rules, out);
        } else {
            out.push(Effect::Send(from, Message::Busy { nonce }));
        }
    }

    /// VC-28. Who waits while others wait for it might wait for itself: such a node gives its query up.
    fn on_busy(&mut self, from: Contact, nonce: u32, rules: &Rules, out: Out<'_>) {
        if !self.is_open(from, nonce, rules) {
            return out.push(Effect::Refused(Refusal::Unsolicited));
        }
        if let Some(request) = &mut self.cur_request {
            let nonce = request.message.nonce().unwrap_or_default();
            request.heard_busy = true;
            out.push(Effect::Arm(RingTimer::Request { target: request.target.id, nonce }));
        }
        if !self.delayed_queries.is_empty() && rules.keeps(Safeguard::GiveUp) {
            self.give_up(rules, out);
        }
    }

    /// VC-21: an answer counts if it is from the node that was asked, and for the question that is open.
    fn on_answer(&mut self, from: Contact, answer: Message, rules: &Rules, out: Out<'_>) {
        let open = self.is_open(from, answer.nonce().unwrap_or_default(), rules);
        let Some(request) = self.cur_request.clone().filter(|_| open) else {
            return out.push(Effect::Refused(Refusal::Unsolicited));
        };
        match (request.query, answer) {
            (Query::Rectify(candidate), Message::Pong { .. }) => self.on_pong(candidate, out),
            (Query::Stabilize, Message::GotPredAndSuccs { pred, list, .. }) => {
                self.on_pred_and_succs(from, pred, &list, rules, out);
            }
            (Query::Stabilize2(node) | Query::Merge(node), Message::GotSuccList { list, .. }) => {
                let merges = matches!(request.query, Query::Merge(_));
                self.on_better_successor(node, &list, merges, rules, out);
            }
            (Query::Join(_), Message::GotBestPredecessor { node, .. }) => {
                self.on_best_predecessor(from, node, &request, rules, out);
            }
            (Query::Join(_), Message::GotSuccList { list, .. }) => {
                self.on_predecessors_list(from, &list, rules, out);
            }
            (Query::Join2(head), Message::GotSuccList { list, .. }) => {
                self.on_heads_list(head, &list, rules, out);
            }
            _ => out.push(Effect::Refused(Refusal::Unsolicited)),
        }
    }

    /// VC-22
    fn on_pong(&mut self, candidate: Contact, out: Out<'_>) {
        self.end_query(out);
        if self.pred.is_none_or(|pred| between(pred.id, candidate.id, self.ptr.id)) {
            self.pred = Some(candidate);
        }
    }

    /// VC-23
    fn on_pred_and_succs(
        &mut self,
        from: Contact,
        pred: Option<Contact>,
        list: &[Contact],
        rules: &Rules,
        out: Out<'_>,
    ) {
        if !Ring::is_credible(from.id, list, rules) {
            self.end_query(out);
            return out.push(Effect::Refused(Refusal::BadList));
        }
        if pred.is_none() && !rules.keeps(Safeguard::AlwaysNotify) {
            self.end_query(out);
            return;
        }
        if list.is_empty() {
            // A member that lost its successors, or one that is coming back. Our own list is better than none. It may
            // have another head by now than the one that was asked.
            self.suspects.retain(|suspect| suspect.id != from.id);
            self.vouch(from.id, false);
            self.insert(from, rules);
        } else {
            self.follow(from, list, rules);
        }
        match pred.filter(|pred| between(self.ptr.id, pred.id, from.id)) {
            Some(better) if rules.keeps(Safeguard::AskFirst) => {
                self.start_query(Query::Stabilize2(better), rules, out);
            }
            Some(better) => {
                self.end_query(out);
                self.insert(better, rules);
                self.notify_head(out);
            }
            None => {
                self.end_query(out);
                out.push(Effect::Send(from, Message::Notify));
            }
        }
    }

    /// VC-24. The old head is told, too, while it is still in the list: one of the two Notifys may be lost.
    fn on_better_successor(
        &mut self,
        node: Contact,
        list: &[Contact],
        merges: bool,
        rules: &Rules,
        out: Out<'_>,
    ) {
        self.end_query(out);
        if list.is_empty() || !Ring::is_credible(node.id, list, rules) {
            out.push(Effect::Refused(if list.is_empty() { Refusal::NotJoined } else { Refusal::BadList }));
            return self.notify_head(out);
        }
        let before = core::mem::take(&mut self.succ_list);
        self.follow(node, list, rules);
        if merges {
            // The two rings know different nodes; both sides' are kept.
            before.iter().for_each(|known| self.insert(*known, rules));
        }
        let old = before.first().filter(|old| self.succ_list.iter().skip(1).any(|new| new.id == old.id));
        if !rules.keeps(Safeguard::NotifyNew) {
            return out.extend(before.first().map(|old| Effect::Send(*old, Message::Notify)));
        }
        self.notify_head(out);
        out.extend(old.map(|old| Effect::Send(*old, Message::Notify)));
    }

    /// VC-25: one step nearer to the predecessor, or there.
    fn on_best_predecessor(
        &mut self,
        from: Contact,
        node: Contact,
        request: &Request,
        rules: &Rules,
        out: Out<'_>,
    ) {
        self.end_query(out);
        let nonce = self.nonce();
        let steps = request.steps.saturating_add(1);
        if node.id == from.id {
            let message = Message::GetSuccList { nonce, asker: Asker::Peer };
            self.ask(from, request.query, message, steps, rules, out);
        } else if between(from.id, node.id, self.ptr.id) && steps < STEPS_MAX {
            let message = Message::GetBestPredecessor { nonce, of: self.ptr.id, asker: Asker::Peer };
            self.ask(node, request.query, message, steps, rules, out);
        } else {
            out.push(Effect::Refused(Refusal::BadList));
            self.end_join(JoinEnd::Astray, rules, out);
        }
    }

    /// VC-26, R-20: the list of the predecessor-to-be names the successor-to-be, which is asked itself.
    fn on_predecessors_list(&mut self, from: Contact, list: &[Contact], rules: &Rules, out: Out<'_>) {
        self.end_query(out);
        if !Ring::is_credible(from.id, list, rules) {
            out.push(Effect::Refused(Refusal::BadList));
            return self.end_join(JoinEnd::Astray, rules, out);
        }
        match list.first() {
            Some(head) if between(from.id, self.ptr.id, head.id) => {
                if rules.keeps(Safeguard::AskHead) {
                    self.start_query(Query::Join2(*head), rules, out);
                } else {
                    self.enter(*head, &list[1..], rules, out);
                }
            }
            _ => self.end_join(JoinEnd::Astray, rules, out),
        }
    }

    /// VC-27
    fn on_heads_list(&mut self, head: Contact, list: &[Contact], rules: &Rules, out: Out<'_>) {
        self.end_query(out);
        if list.is_empty() || !Ring::is_credible(head.id, list, rules) {
            out.push(Effect::Refused(if list.is_empty() { Refusal::NotJoined } else { Refusal::BadList }));
            return self.end_join(JoinEnd::Astray, rules, out);
        }
        self.enter(head, list, rules, out);
    }

    /// Becomes part of the ring.
    fn enter(&mut self, head: Contact, list: &[Contact], rules: &Rules, out: Out<'_>) {
        self.follow(head, list, rules);
        self.joined = true;
        out.push(Effect::Arm(RingTimer::Tick));
        out.push(Effect::Joined);
    }

    /// A peer says goodbye. Whoever comes after it is asked before it takes its place.
    fn on_leaving(&mut self, from: Contact, list: &[Contact], rules: &Rules, out: Out<'_>) {
        if !Ring::is_credible(from.id, list, rules) {
            return out.push(Effect::Refused(Refusal::BadList));
        }
        let was_head = self.succ_list.first().is_some_and(|head| head.id == from.id);
        self.bury(|node| node.id == from.id, rules, out);
        if !was_head || self.cur_request.is_some() {
            return;
        }
        let next = list.iter().find(|node| node.id != self.ptr.id);
        match next.filter(|_| self.succ_list.is_empty() && self.joined) {
            Some(next) => self.start_query(Query::Merge(*next), rules, out),
            None => self.stabilize(rules, out),
        }
    }

    /// VC-13. The list is given without the asker: its own list ends before itself, and if it is looking for its place
    /// again, what this node knows of it is from before.
    pub(super) fn answer(&self, to: Contact, question: &Message) -> Option<Effect> {
        let answer = match *question {
            Message::GetBestPredecessor { nonce, of, .. } => {
                Message::GotBestPredecessor { nonce, node: self.best_predecessor(of) }
            }
            Message::GetSuccList { nonce, .. } => Message::GotSuccList { nonce, list: self.list_for(to.id) },
            Message::GetPredAndSuccs { nonce } => {
                Message::GotPredAndSuccs { nonce, pred: self.pred, list: self.list_for(self.ptr.id) }
            }
            _ => return None,
        };
        Some(Effect::Send(to, answer))
    }

    pub(super) fn is_open(&self, from: Contact, nonce: u32, rules: &Rules) -> bool {
        self.cur_request.as_ref().is_some_and(|request| {
            let numbered = request.message.nonce() == Some(nonce) || !rules.keeps(Safeguard::ThisLife);
            numbered && self.is_from_target(&request.target, &from, rules)
        })
    }

    pub(super) fn is_probed(&self, from: Contact, nonce: u32) -> bool {
        self.probe == Some(nonce) && self.suspects.iter().any(|suspect| suspect.id == from.id)
    }
}
