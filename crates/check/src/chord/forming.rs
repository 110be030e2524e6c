//! The small ring, every order: how a group grows from one founder until a ring can begin, and how a ring that has shrunk
//! becomes a group again.
//!
//! Drives the shipped [`Forming`] machine. Around it only what any driver does: who applies asks a member and follows
//! referrals, whoever fails is found gone by those who list it, and a node begins its ring with the first list that is
//! long enough. Whoever counts the members of a ring finds those that run. Numbers of lists grow with every attempt, so how
//! often timers fire is part of the bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kringle_core::config::Safeguard;
use kringle_core::contact::Contact;
use kringle_core::overlay::chord::Message;
use kringle_core::overlay::chord::forming::Forming;
use kringle_core::overlay::chord::ring::{Effect, Rules};

use super::seen::Table;
use super::world::{contact, place};

/// The bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Entries of the successor lists of the ring that is to begin.
    pub successors: u8,
    /// Members of the ring it starts with, the list of all of them beside it; 0 for a founder who is alone.
    pub ring: u8,
    /// Nodes that apply, besides those.
    pub joins: u8,
    /// Nodes that fail.
    pub failures: u8,
    /// How often a member takes another for gone that is not.
    pub suspicions: u8,
    /// How often timers fire.
    pub fires: u8,
    /// How often somebody counts the members of the ring.
    pub counts: u8,
    /// A rule that is left out.
    pub without: Option<Safeguard>,
}

/// What must hold in every state.
pub const PROPERTIES: [&str; 6] = [OWN_RULES, ONE_LIST, ENOUGH, ONE_BEGINNING, SETTLES, BACK];

/// What a search has found.
#[derive(Clone, Debug)]
pub struct FoundGroup {
    /// The group that was searched.
    pub group: Group,
    /// Different states.
    pub states: usize,
    /// The longest of the shortest schedules.
    pub depth: usize,
    /// Whether every state was seen.
    pub complete: bool,
    /// Whether a ring began in some state.
    pub begins: bool,
    /// Whether a ring ended in some state.
    pub ends: bool,
    /// How long it took.
    pub time: Duration,
    /// What is broken, and the shortest schedule that leads there.
    pub broken: Option<(&'static str, Vec<String>)>,
}

/// Two lists of one number would be two groups.
const ONE_LIST: &str = "one list for every number";
/// Rings that begin differently are two rings.
const ONE_BEGINNING: &str = "all begin the ring with the same list";
/// What the proof of the ring starts from.
const ENOUGH: &str = "a ring begins with more members than a list has entries";
/// Nobody is left behind.
const SETTLES: &str = "left in peace, all who run are of one group";
/// A ring of fewer is not what was proved.
const BACK: &str = "left in peace, a ring of r + 1 members or fewer ends for all of them";
const OWN_RULES: &str = "no node breaks its own rules";

/// Rounds of everybody's timers after which a group must have settled.
const ROUNDS_MAX: usize = 24;

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all members of a model live, and a box would cost every copy"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Member {
    Unborn,
    Dead,
    /// It was told to join the ring, which is not this model's any more.
    Away,
    Live(Forming),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Moment {
    nodes: Vec<Member>,
    flight: BTreeSet<(u8, u8, Message)>,
    /// Every list that ever held, by number.
    held: BTreeMap<u32, Vec<Contact>>,
    /// What rings have begun with, and who has begun.
    begun: BTreeSet<(u32, Vec<Contact>)>,
    begun_by: u16,
    /// Whether a ring has ended for somebody.
    ended: bool,
    joins: u8,
    failures: u8,
    suspicions: u8,
    fires: u8,
    counts: u8,
}

#[derive(Clone, Debug)]
enum Act {
    Apply(u8, u8),
    Deliver(u8, u8, Message),
    Fire(u8),
    Count(u8),
    Fail(u8),
    Lost(u8, u8),
    Suspect(u8, u8),
    Alive(u8, u8),
}

/// Searches all states of a group, up to so many.
pub fn search_group(group: Group, states: usize, stop: &AtomicBool) -> FoundGroup {
    let started = Instant::now();
    let mut table = Table::new();
    let start = Moment::start(&group);
    let first = print(&start);
    table.insert(first, first);
    let (mut level, mut depth, mut begins, mut ends) = (vec![start], 0, false, false);
    let mut broken = None;
    'search: while !level.is_empty() {
        let mut next_level = Vec::new();
        for moment in &level {
            if table.len() >= states || stop.load(Ordering::Relaxed) {
                break 'search;
            }
            for act in moment.acts() {
                let mut next = moment.clone();
                let fault = next.take(&act, &group).err();
                let new = table.insert(print(&next), print(moment));
                begins |= !next.begun.is_empty();
                ends |= next.ended;
                let fault = fault.or_else(|| if new { next.fault(&group) } else { None });
                if let Some(property) = fault {
                    let mut way = table.way_to(print(moment));
                    way.push(print(&next));
                    broken = Some((property, tell(&group, &way)));
                    break 'search;
                }
                if new {
                    next_level.push(next);
                }
            }
        }
        level = next_level;
        depth += usize::from(!level.is_empty());
    }
    let complete = level.is_empty() && broken.is_none();
    FoundGroup { group, states: table.len(), depth, complete, begins, ends, time: started.elapsed(), broken }
}

fn print(moment: &Moment) -> u64 {
    let mut hasher = DefaultHasher::new();
    moment.hash(&mut hasher);
    hasher.finish().max(1)
}

fn tell(group: &Group, way: &[u64]) -> Vec<String> {
    let mut moment = Moment::start(group);
    let mut lines = Vec::new();
    for wanted in way.iter().skip(1) {
        let step = moment.acts().into_iter().find_map(|act| {
            let mut next = moment.clone();
            let _ = next.take(&act, group);
            (print(&next) == *wanted).then_some((act, next))
        });
        let Some((act, next)) = step else { break };
        lines.push(match act {
            Act::Apply(at, via) => format!("{at} applies to {via}"),
            Act::Deliver(from, to, message) => format!("deliver {from}->{to} {message:?}"),
            Act::Fire(at) => format!("{at} repeats what it said"),
            Act::Count(at) => format!("{at} counts the members"),
            Act::Fail(at) => format!("{at} fails"),
            Act::Lost(at, peer) => format!("{at} finds {peer} gone"),
            Act::Suspect(at, peer) => format!("{at} takes {peer} for gone, which it is not"),
            Act::Alive(at, peer) => format!("{at} hears {peer} again"),
        });
        moment = next;
    }
    lines
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ring {
            0 => write!(
                f,
                "a founder, {} who apply, a ring with lists of {} to come",
                self.joins, self.successors
            )?,
            ring => write!(f, "a ring of {ring} with lists of {}", self.successors)?,
        }
        let counted = [
            (self.failures, "failures"),
            (self.suspicions, "false suspicions"),
            (self.fires, "timers that fire"),
            (self.counts, "counts"),
        ];
        for (count, what) in counted.iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        match self.without {
            Some(rule) => write!(f, ", without {}", rule.name()),
            None => Ok(()),
        }
    }
}

impl Group {
    fn rules(&self) -> Rules {
        Rules { successors: self.successors.into(), attempts: 1, without: self.without }
    }
}

impl Moment {
    fn start(group: &Group) -> Moment {
        let mut moment = Moment::alone(group);
        if group.ring > 0 {
            moment.nodes = vec![Member::Dead; group.ring.into()];
            let list: Vec<Contact> = (0..group.ring).map(|at| contact(at, 1)).collect();
            let ring = Message::Commit { epoch: 1, ring: true, list: list.clone() };
            for at in 0..group.ring {
                let mut forming = Forming::new(contact(at, 1));
                forming.receive(
                    contact((at + 1) % group.ring, 1),
                    ring.clone(),
                    &group.rules(),
                    &mut Vec::new(),
                );
                moment.nodes[usize::from(at)] = Member::Live(forming);
                moment.begun_by |= 1 << at;
            }
            moment.held = BTreeMap::from([(1, list)]);
        }
        moment
    }

    fn alone(group: &Group) -> Moment {
        // The founder has neither the lowest nor the highest id, if there are enough of them.
        let founder = usize::from(group.joins / 2);
        let mut moment = Moment {
            nodes: vec![Member::Unborn; usize::from(group.joins) + 1],
            flight: BTreeSet::new(),
            held: BTreeMap::new(),
            begun: BTreeSet::new(),
            begun_by: 0,
            ended: false,
            joins: group.joins,
            failures: group.failures,
            suspicions: group.suspicions,
            fires: group.fires,
            counts: group.counts,
        };
        let mut forming = Forming::new(contact(founder as u8, 1));
        let mut out = Vec::new();
        forming.found(&mut out);
        moment.held.insert(forming.epoch(), forming.members().to_vec());
        moment.nodes[founder] = Member::Live(forming);
        moment
    }

    fn live(&self) -> impl Iterator<Item = (u8, &Forming)> {
        self.nodes.iter().enumerate().filter_map(|(at, node)| match node {
            Member::Live(forming) => Some((at as u8, forming)),
            _ => None,
        })
    }

    fn runs(&self, at: u8) -> bool {
        matches!(self.nodes[usize::from(at)], Member::Live(_))
    }

    fn acts(&self) -> Vec<Act> {
        let members: Vec<u8> =
            self.live().filter(|(_, forming)| !forming.members().is_empty()).map(|(at, _)| at).collect();
        let mut acts: Vec<Act> =
            self.flight.iter().map(|(from, to, message)| Act::Deliver(*from, *to, message.clone())).collect();
        for (at, node) in (0..).zip(&self.nodes) {
            let Member::Live(forming) = node else {
                if *node == Member::Unborn && self.joins > 0 {
                    acts.extend(members.iter().map(|via| Act::Apply(at, *via)));
                }
                continue;
            };
            if self.fires > 0 {
                acts.push(Act::Fire(at));
                // Whoever waits for long applies again; that is a timer, too.
                if forming.members().is_empty() {
                    acts.extend(members.iter().map(|via| Act::Apply(at, *via)));
                }
            }
            if self.failures > 0 {
                acts.push(Act::Fail(at));
            }
            // Neighbours find the dead of a ring; the list beside it is not about that.
            if forming.is_ring() {
                if self.counts > 0 {
                    acts.push(Act::Count(at));
                }
                continue;
            }
            for peer in forming.members().iter().map(|member| place(member.id)).filter(|peer| *peer != at) {
                match (forming.is_dead(contact(peer, 1).id), self.runs(peer)) {
                    (false, false) => acts.push(Act::Lost(at, peer)),
                    (false, true) if self.suspicions > 0 => acts.push(Act::Suspect(at, peer)),
                    (true, true) => acts.push(Act::Alive(at, peer)),
                    _ => {}
                }
            }
        }
        acts
    }

    fn take(&mut self, act: &Act, group: &Group) -> Result<(), &'static str> {
        let rules = group.rules();
        match act {
            Act::Apply(at, via) => {
                let node = &mut self.nodes[usize::from(*at)];
                if *node == Member::Unborn {
                    self.joins -= 1;
                    *node = Member::Live(Forming::new(contact(*at, 1)));
                } else {
                    self.fires = self.fires.saturating_sub(1);
                }
                self.send(*at, *via, Message::Apply);
                Ok(())
            }
            Act::Deliver(from, to, message) => {
                self.flight.remove(&(*from, *to, message.clone()));
                self.deliver(*from, *to, message, group)
            }
            Act::Fire(at) => {
                self.fires = self.fires.saturating_sub(1);
                self.step(*at, |forming, out| forming.fire(&rules, out))
            }
            Act::Count(at) => {
                self.counts = self.counts.saturating_sub(1);
                let members = self.live().filter(|(_, forming)| forming.is_ring());
                let members: Vec<Contact> = members.map(|(at, _)| contact(at, 1)).collect();
                self.step(*at, |forming, out| forming.update(members, &rules, out))
            }
            Act::Fail(at) => {
                self.failures -= 1;
                self.nodes[usize::from(*at)] = Member::Dead;
                self.flight.retain(|(_, to, _)| to != at);
                Ok(())
            }
            Act::Lost(at, peer) => {
                self.step(*at, |forming, out| forming.lost(contact(*peer, 1), &rules, out))
            }
            Act::Suspect(at, peer) => {
                self.suspicions -= 1;
                self.step(*at, |forming, out| forming.lost(contact(*peer, 1), &rules, out))
            }
            Act::Alive(at, peer) => self.step(*at, |forming, _| forming.alive(contact(*peer, 1).id)),
        }
    }

    fn send(&mut self, from: u8, to: u8, message: Message) {
        if self.runs(to) {
            self.flight.insert((from, to, message));
        }
    }

    fn deliver(&mut self, from: u8, to: u8, message: &Message, group: &Group) -> Result<(), &'static str> {
        let Member::Live(forming) = &self.nodes[usize::from(to)] else { return Ok(()) };
        let is_member = !forming.members().is_empty();
        match message {
            Message::Apply if self.begun_by & 1 << to != 0 => {
                self.send(to, from, Message::Referred { nonce: 0, to: contact(to, 1), ring: true });
                Ok(())
            }
            Message::Referred { .. } if is_member => Ok(()),
            Message::Referred { ring: true, .. } => {
                self.nodes[usize::from(to)] = Member::Away;
                self.flight.retain(|(_, receiver, _)| *receiver != to);
                Ok(())
            }
            Message::Referred { to: next, .. } => {
                self.send(to, place(next.id), Message::Apply);
                Ok(())
            }
            _ => {
                let rules = group.rules();
                self.step(to, |forming, out| {
                    forming.receive(contact(from, 1), message.clone(), &rules, out);
                })
            }
        }
    }

    /// Takes a step of one machine, and does what it wants done.
    fn step(
        &mut self,
        at: u8,
        call: impl FnOnce(&mut Forming, &mut Vec<Effect>),
    ) -> Result<(), &'static str> {
        let Member::Live(forming) = &mut self.nodes[usize::from(at)] else { return Ok(()) };
        let mut out = Vec::new();
        let handled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            call(forming, &mut out);
            forming.check_invariants();
        }));
        handled.map_err(|_| OWN_RULES)?;
        let (epoch, list) = (forming.epoch(), forming.members().to_vec());
        let enough = forming.is_ring();
        for effect in out {
            match effect {
                Effect::Send(to, message) => self.send(at, place(to.id), message),
                Effect::Committed => {
                    if self.held.entry(epoch).or_insert_with(|| list.clone()) != &list {
                        return Err(ONE_LIST);
                    }
                    if enough && self.begun_by & 1 << at == 0 {
                        self.begun_by |= 1 << at;
                        self.begun.insert((epoch, list.clone()));
                    } else if !enough && self.begun_by & 1 << at != 0 {
                        self.begun_by &= !(1 << at);
                        self.ended = true;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn fault(&self, group: &Group) -> Option<&'static str> {
        if self.begun.iter().any(|(_, list)| list.len() <= group.successors.into()) {
            return Some(ENOUGH);
        }
        if self.begun.len() > 1 {
            return Some(ONE_BEGINNING);
        }
        // States with messages on their way come to one without by steps of the search.
        let judged = self.flight.is_empty();
        let property = if group.ring > 0 { BACK } else { SETTLES };
        (judged && !self.settles(group)).then_some(property)
    }

    /// Says whether all who run become one group if nothing more happens to them. Without a majority they can not, and
    /// say so.
    fn settles(&self, group: &Group) -> bool {
        let mut moment = self.clone();
        for _ in 0..ROUNDS_MAX {
            if moment.is_settled(group) {
                return true;
            }
            let at_all: Vec<u8> = moment.live().map(|(at, _)| at).collect();
            for at in at_all {
                let quiet = |act: &Act| match act {
                    Act::Lost(by, _)
                    | Act::Alive(by, _)
                    | Act::Fire(by)
                    | Act::Count(by)
                    | Act::Apply(by, _) => *by == at,
                    _ => false,
                };
                (moment.fires, moment.counts) = (u8::MAX, u8::MAX);
                moment.joins = 0;
                let acts: Vec<Act> = moment.acts().into_iter().filter(quiet).collect();
                for act in acts {
                    if moment.take(&act, group).is_err() || !moment.drain(group) {
                        return false;
                    }
                }
            }
        }
        false
    }

    fn drain(&mut self, group: &Group) -> bool {
        for _ in 0..1000 {
            let Some((from, to, message)) = self.flight.pop_first() else { return true };
            if self.deliver(from, to, &message, group).is_err() {
                return false;
            }
        }
        false
    }

    fn is_settled(&self, group: &Group) -> bool {
        if group.ring > 0 {
            return self.is_settled_ring(group);
        }
        let cut_off = |(_, forming): (u8, &Forming)| forming.is_cut_off();
        if self.live().any(cut_off) || !self.live().any(|(_, forming)| !forming.members().is_empty()) {
            return true;
        }
        if let Some((_, list)) = self.begun.first() {
            // From here on the ring takes care of failures; everybody on the list is part of it.
            let part = |node: &Contact| {
                let at = place(node.id);
                !self.runs(at) || self.begun_by & 1 << at != 0
            };
            return list.iter().all(part);
        }
        let all: Vec<Contact> = self.live().map(|(at, _)| contact(at, 1)).collect();
        self.live().all(|(_, forming)| forming.members() == all)
    }

    /// Says whether a ring that has shrunk has ended, and one that has not goes on. Without most of the list before
    /// it goes on, too: the others may be on the other side of a cut.
    fn is_settled_ring(&self, group: &Group) -> bool {
        let live: Vec<Contact> = self.live().map(|(at, _)| contact(at, 1)).collect();
        let all = |ring: bool| {
            self.live().all(|(_, forming)| forming.is_ring() == ring && (ring || forming.members() == live))
        };
        let many = live.len() > usize::from(group.successors) + 1;
        let latest = self.held.last_key_value().map_or(0, |(_, list)| list.len());
        let cut_off = self.live().any(|(_, forming)| forming.is_cut_off());
        cut_off || all(false) || ((many || 2 * live.len() <= latest) && all(true))
    }
}

/// The groups that are searched unless told otherwise, and after how many states each.
pub const GROUPS: [(&str, Group, usize); 7] = [
    ("growing", Group { joins: 3, ..ALONE }, 300_000),
    ("growing-up", Group { joins: 4, ..ALONE }, 300_000),
    ("failing", Group { joins: 2, failures: 1, fires: 2, ..ALONE }, 300_000),
    ("suspecting", Group { joins: 2, suspicions: 1, fires: 1, ..ALONE }, 300_000),
    ("beginning", Group { joins: 4, failures: 1, fires: 0, ..ALONE }, 300_000),
    ("shrinking", Group { ring: 4, failures: 1, counts: 2, fires: 1, ..ALONE }, 600_000),
    ("ending", Group { ring: 5, failures: 2, counts: 2, ..ALONE }, 300_000),
];

const ALONE: Group = Group {
    successors: 2,
    ring: 0,
    joins: 0,
    failures: 0,
    suspicions: 0,
    fires: 0,
    counts: 0,
    without: None,
};

/// The group that misses the rule about how many a ring begins with.
pub const TOO_EARLY: Group = Group { joins: 1, without: Some(Safeguard::Forming), ..ALONE };

/// The ring that misses the rule about how few it ends with.
pub const TOO_LONG: Group =
    Group { ring: 4, failures: 1, counts: 1, without: Some(Safeguard::WayBack), ..ALONE };
