//! How a node comes into a ring: it applies to a seed. A small ring admits it to the list of all members; a large one
//! tells it to look for its place (VC-16). Every step may fail; then the next seed is tried, after a pause.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::message::Message;
use super::{Chord, SEEDS_MAX};
use crate::contact::Contact;
use crate::edge::{Ctx, Failure, Note, Output, Reply, RequestId, Timer};
use crate::message::Body;
use crate::overlay::Status;

/// A join under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Joining {
    /// Who wants to know; nobody for a node that lost its ring.
    request: Option<RequestId>,
    /// Whether the seeds are all there was: if they come back together, they are the ring.
    back: bool,
    attempt: u16,
    /// How often the present seed has sent us on.
    referrals: u8,
    /// Who was asked last.
    asked: Option<Contact>,
    /// The lowest node that comes back, too, and at which attempt it was heard.
    lower: Option<(Contact, u16)>,
}

/// How often a seed may send a joiner on.
const REFERRALS_MAX: u8 = 8;
/// Rounds through all seeds before a node that comes back believes that nobody is there; with many seeds fewer, but
/// each is asked.
const ROUNDS: u16 = 3;
const ATTEMPTS: u16 = 12;
/// How many times as long others are left to begin before this node does.
const PATIENCE: u16 = 3;
/// For how many attempts a node that comes back with us, with a lower id, is left to begin.
const LEFT_TO: u16 = 6;

impl Chord {
    pub(super) fn start_join(
        &mut self,
        request: RequestId,
        seeds: Vec<Contact>,
        back: bool,
        cx: &mut Ctx<'_>,
    ) {
        if self.status != Status::Out {
            return cx.out.push(Output::Reply { request, reply: Err(Failure::AlreadyJoined) });
        }
        for seed in seeds.into_iter().rev() {
            self.remember_seed(seed);
        }
        if self.seeds.is_empty() {
            return cx.out.push(Output::Reply { request, reply: Err(Failure::NoSeeds) });
        }
        self.seed_numbers(cx);
        self.joining = Some(Box::new(Joining {
            request: Some(request),
            back,
            attempt: 0,
            referrals: 0,
            asked: None,
            lower: None,
        }));
        self.try_seed(cx);
    }

    pub(super) fn remember_seed(&mut self, seed: Contact) {
        if seed.id != self.me.id {
            // What is known of it now is better than what was known before.
            self.seeds.retain(|other| other.id != seed.id);
            self.seeds.truncate(SEEDS_MAX - 1);
            self.seeds.insert(0, seed);
        }
    }

    /// Starts over through these nodes: the ring has gone on without us, or goes over to another.
    pub(super) fn join_again(&mut self, through: Vec<Contact>, cx: &mut Ctx<'_>) {
        let request = self.joining.take().and_then(|joining| joining.request);
        for seed in through.into_iter().take(SEEDS_MAX / 2) {
            self.remember_seed(seed);
        }
        self.large = false;
        self.forming = super::Forming::new(self.me);
        self.with_ring(cx, |ring, _, out| ring.leave(out));
        self.fingers = super::Fingers::default();
        self.joining = Some(Box::new(Joining {
            request,
            // All the others may be looking for their ring, too.
            back: true,
            attempt: 0,
            referrals: 0,
            asked: None,
            lower: None,
        }));
        self.try_seed(cx);
    }

    fn try_seed(&mut self, cx: &mut Ctx<'_>) {
        let Some(joining) = self.joining.as_deref_mut() else { return };
        let seed = self.seeds[usize::from(joining.attempt) % self.seeds.len()];
        (joining.referrals, joining.asked) = (0, Some(seed));
        // The first few attempts are quick: most often the ring is only busy.
        let doublings = u32::from(joining.attempt / 4).min(10);
        let most = if joining.back { cx.config.join_timeout } else { cx.config.join_backoff_max };
        let pause = cx.config.join_backoff_min.saturating_mul(1 << doublings).min(most);
        joining.attempt = joining.attempt.saturating_add(1);
        cx.send(seed, Body::Chord(Message::Apply));
        let span = cx.dice.jitter(pause);
        cx.set_timer(Timer::Join, span);
    }

    pub(super) fn on_join_timer(&mut self, cx: &mut Ctx<'_>) {
        if self.is_member() {
            return;
        }
        let Some(joining) = self.joining.as_deref_mut() else { return };
        if self.ring.cur_request().is_some() {
            // On its way; it says itself when it has come to nothing.
            let span = cx.dice.jitter(cx.config.join_timeout);
            return cx.set_timer(Timer::Join, span);
        }
        cx.note(Note::JoinRetried);
        joining.lower = joining.lower.filter(|(_, heard)| joining.attempt - heard <= LEFT_TO);
        let seeds = u16::try_from(self.seeds.len()).unwrap_or(u16::MAX);
        let enough = seeds.saturating_mul(ROUNDS).min(ATTEMPTS).max(seeds);
        // Whoever should begin may be new here and wait for somebody who was there before.
        let begins = joining.lower.is_none() || joining.attempt >= enough.saturating_mul(PATIENCE);
        if joining.back && joining.attempt >= enough && begins {
            return self.with_forming(cx, |forming, _, out| forming.found(out));
        }
        self.try_seed(cx);
    }

    /// The join is over, one way or the other.
    pub(super) fn end_join(&mut self, result: Result<Reply, Failure>, cx: &mut Ctx<'_>) {
        let joining = self.joining.take();
        if let Some(request) = joining.and_then(|joining| joining.request) {
            cx.out.push(Output::Reply { request, reply: result });
        }
    }

    /// Somebody wants to come in.
    pub(super) fn on_apply(&mut self, from: Contact, cx: &mut Ctx<'_>) {
        if self.large && self.ring.joined() {
            return cx.send(from, Body::Chord(Message::Referred { nonce: 0, to: self.me, ring: true }));
        }
        let Some(joining) = self.joining.as_deref_mut().filter(|joining| joining.back) else {
            return self.with_forming(cx, |forming, rules, out| {
                forming.receive(from, Message::Apply, rules, out);
            });
        };
        // Two who look for their ring: the lower one begins, if nobody else has.
        let lower = joining.lower.map_or(self.me, |(lower, _)| lower);
        if from.id <= lower.id {
            joining.lower = Some((from, joining.attempt));
        } else {
            cx.send(from, Body::Chord(Message::Referred { nonce: 0, to: lower, ring: false }));
        }
    }

    /// Somebody sends us on.
    pub(super) fn on_referred(&mut self, from: Contact, to: Contact, ring: bool, cx: &mut Ctx<'_>) {
        if to.id == self.me.id {
            return;
        }
        if !self.is_member() {
            let Some(joining) = self.joining.as_deref_mut() else { return };
            let asked = joining.asked.is_some_and(|asked| asked.id == from.id);
            if !asked || joining.referrals >= REFERRALS_MAX || self.ring.cur_request().is_some() {
                return;
            }
            joining.referrals += 1;
            if ring {
                return self.with_ring(cx, |ring, rules, out| ring.start_join(to, rules, out));
            }
            if joining.back && to.id < self.me.id {
                joining.lower = Some((to, joining.attempt));
            }
            joining.asked = Some(to);
            return cx.send(to, Body::Chord(Message::Apply));
        }
        match (self.large, ring) {
            // A node of another ring, perhaps, that should be our successor: it is asked first.
            (true, true) if to == from => self.with_ring(cx, |ring, rules, out| {
                ring.merge(to, rules, out);
            }),
            (true, true) => {}
            // A small group invites us; it is the one to come, unless we are all alone.
            (true, false) if self.ring.succ_list().is_empty() => self.go_over(to, cx),
            (true, false) => {
                cx.send(from, Body::Chord(Message::Referred { nonce: 0, to: self.me, ring: true }));
            }
            (false, _) if self.forming.members().iter().any(|member| member.id == to.id) => {}
            (false, _) if self.forming.members().contains(&from) => self.go_over(to, cx),
            (false, true) => self.dissolve(to, cx),
            (false, false) => self.look_for_ring(to, cx),
        }
    }

    /// This small group becomes part of another ring.
    pub(super) fn dissolve(&mut self, into: Contact, cx: &mut Ctx<'_>) {
        cx.note(Note::Dissolved);
        for member in self.successors() {
            cx.send(member, Body::Chord(Message::Referred { nonce: 0, to: into, ring: false }));
        }
        self.go_over(into, cx);
    }

    fn go_over(&mut self, into: Contact, cx: &mut Ctx<'_>) {
        self.join_again(alloc::vec![into], cx);
    }
}
