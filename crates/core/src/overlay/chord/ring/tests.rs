//! The seed's vectors and traces, and each handler by itself. Nodes are called by the last number of their address:
//! node i is MD5("127.0.0.i"), read little-endian as Verdi Chord does.

mod handlers;
mod traces;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::*;
use crate::contact::Addr;
use crate::id::Id;

pub(super) const IDS: [u128; 8] = [
    0xd6b8_0cca_fb21_2cb3_29b1_4d62_4d76_28f5,
    0x5ec6_5ba4_5174_0a5a_2ce7_09d5_396c_41ab,
    0xf1a0_4f7e_6cb0_b32d_1baa_2440_434e_0894,
    0x3983_01e2_c3d5_53dd_567d_20f2_7347_8f58,
    0xb144_9a44_50b7_ebd4_7385_0567_e61e_6da4,
    0x8f8f_0dad_b507_8bc7_deef_22e8_8f47_bc97,
    0xc457_841a_768d_6a50_c7d0_3267_a022_b71b,
    0x7c36_d8c5_7257_f8e2_db3a_c557_2217_7460,
];
/// MD5("rdoenges"), between nodes 2 and 5.
pub(super) const RDOENGES: u128 = 0x92c9_3cce_17b9_001d_07a8_c516_3fec_e366;

/// The proof's list length of the extracted program, one attempt, and the rules as shipped.
pub(super) const RULES: Rules = Rules { successors: 3, attempts: 1, without: None };

pub(super) fn without(safeguard: Safeguard) -> Rules {
    Rules { without: Some(safeguard), ..RULES }
}

pub(super) fn node(i: usize) -> Contact {
    Contact::new(Id::new(IDS[i - 1]), 1, Addr(i as u32))
}

pub(super) fn nodes(list: &[usize]) -> Vec<Contact> {
    list.iter().map(|i| node(*i)).collect()
}

pub(super) fn names(list: &[Contact]) -> Vec<usize> {
    list.iter().map(|contact| contact.addr.0 as usize).collect()
}

/// A few rings, what is on its way between them, and the timers that are armed.
pub(super) struct Net {
    pub(super) rules: Rules,
    pub(super) rings: BTreeMap<usize, Ring>,
    pub(super) flight: VecDeque<(usize, usize, Message)>,
    pub(super) armed: BTreeSet<(usize, RingTimer)>,
    /// Every message sent, as (from, to, message).
    pub(super) sent: Vec<(usize, usize, Message)>,
    pub(super) reports: Vec<(usize, Effect)>,
}

impl Net {
    pub(super) fn of_ring(members: &[usize], rules: Rules) -> Net {
        let mut net = Net {
            rules,
            rings: BTreeMap::new(),
            flight: VecDeque::new(),
            armed: BTreeSet::new(),
            sent: Vec::new(),
            reports: Vec::new(),
        };
        let all = nodes(members);
        for i in members {
            net.add(*i);
            net.step(*i, |ring, rules, out| ring.start_ring(&all, rules, out));
        }
        net
    }

    pub(super) fn add(&mut self, i: usize) {
        self.rings.insert(i, Ring::new(node(i), 0));
    }

    pub(super) fn step(&mut self, i: usize, call: impl FnOnce(&mut Ring, &Rules, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        let ring = self.rings.get_mut(&i).expect("a node of this test");
        call(ring, &self.rules, &mut out);
        ring.check_invariants(&self.rules);
        for effect in out {
            match effect {
                Effect::Send(to, message) => {
                    let to = to.addr.0 as usize;
                    self.sent.push((i, to, message.clone()));
                    self.flight.push_back((i, to, message));
                }
                Effect::Arm(timer) => {
                    self.armed.insert((i, timer));
                }
                Effect::Clear(timer) => {
                    self.armed.remove(&(i, timer));
                }
                report => self.reports.push((i, report)),
            }
        }
    }

    pub(super) fn join(&mut self, i: usize, known: usize) {
        self.add(i);
        self.step(i, |ring, rules, out| ring.start_join(node(known), rules, out));
    }

    pub(super) fn fire(&mut self, i: usize, timer: RingTimer) {
        if self.armed.remove(&(i, timer)) {
            self.step(i, |ring, rules, out| ring.fire(timer, rules, out));
        }
    }

    /// Delivers what is on its way, and what that sends, until nothing is. Messages to nodes that do not exist vanish.
    pub(super) fn drain(&mut self) {
        while let Some((from, to, message)) = self.flight.pop_front() {
            if self.rings.contains_key(&to) {
                self.step(to, |ring, rules, out| ring.receive(node(from), message, rules, out));
            }
        }
    }

    /// Fires the request timers of everybody who waits for a node that is gone.
    pub(super) fn time_out(&mut self) {
        let gone = |target: NodeId| !self.rings.keys().any(|i| node(*i).id == target);
        let due: Vec<(usize, RingTimer)> = self
            .armed
            .iter()
            .copied()
            .filter(|(_, timer)| matches!(timer, RingTimer::Request { target, .. } if gone(*target)))
            .collect();
        for (i, timer) in due {
            self.fire(i, timer);
        }
    }

    /// A tick of every node in ring order, each to its end; then everybody's waiting candidates.
    pub(super) fn round(&mut self) {
        let mut order: Vec<usize> = self.rings.keys().copied().collect();
        order.sort_by_key(|i| node(*i).id);
        for timer in [RingTimer::Tick, RingTimer::RectifyTick] {
            for i in &order {
                self.fire(*i, timer);
                for _ in 0..8 {
                    self.drain();
                    self.time_out();
                }
            }
        }
    }

    pub(super) fn succ(&self, i: usize) -> Vec<usize> {
        names(self.rings[&i].succ_list())
    }

    pub(super) fn pred(&self, i: usize) -> Option<usize> {
        self.rings[&i].pred().map(|pred| pred.addr.0 as usize)
    }

    pub(super) fn state(&self, i: usize) -> (Option<usize>, Vec<usize>) {
        (self.pred(i), self.succ(i))
    }

    /// Says whether every member has the right predecessor and the right list.
    pub(super) fn is_ideal(&self) -> bool {
        let mut order: Vec<usize> =
            self.rings.iter().filter(|(_, ring)| ring.joined()).map(|(i, _)| *i).collect();
        order.sort_by_key(|i| node(*i).id);
        let n = order.len();
        let length = self.rules.successors.min(n - 1);
        (0..n).all(|at| {
            let wanted: Vec<usize> = (1..=length).map(|step| order[(at + step) % n]).collect();
            self.state(order[at]) == (Some(order[(at + n - 1) % n]), wanted)
        })
    }

    /// The messages since the last call, without their numbers, as `from→to kind [names]`.
    pub(super) fn transcript(&mut self) -> Vec<alloc::string::String> {
        core::mem::take(&mut self.sent)
            .into_iter()
            .map(|(from, to, message)| line(from, to, &message))
            .collect()
    }
}

fn line(from: usize, to: usize, message: &Message) -> alloc::string::String {
    use alloc::format;
    let what = match message {
        Message::GetBestPredecessor { .. } => "GetBestPredecessor".into(),
        Message::GotBestPredecessor { node, .. } => format!("GotBestPredecessor {}", node.addr.0),
        Message::GetSuccList { .. } => "GetSuccList".into(),
        Message::GotSuccList { list, .. } => format!("GotSuccList {:?}", names(list)),
        Message::GetPredAndSuccs { .. } => "GetPredAndSuccs".into(),
        Message::GotPredAndSuccs { pred, list, .. } => {
            format!("GotPredAndSuccs {:?} {:?}", pred.map(|pred| pred.addr.0), names(list))
        }
        Message::Notify => "Notify".into(),
        Message::Busy { .. } => "Busy".into(),
        Message::Ping { .. } => "Ping".into(),
        Message::Pong { .. } => "Pong".into(),
        Message::Leaving { list } => format!("Leaving {:?}", names(list)),
        other => format!("{other:?}"),
    };
    format!("{from}->{to} {what}")
}
