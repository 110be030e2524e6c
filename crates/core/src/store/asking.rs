//! Requests of this node's user: who holds the key, which of them to ask, and what to do when they do not answer.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::Store;
use super::message::{Message, Packet, Response};
use super::op::{Action, Ask, Change, Happened, Trouble};
use super::operation::{Client, is_plain, is_read, is_repeatable};
use super::record::Origin;
use super::version::Version;
use super::view::{Cut, Standing};
use crate::contact::Contact;
use crate::edge::{Ctx, Failure, Output, Reply, RequestId};
use crate::id::{Key, NodeId};
use crate::message::{Body, Payload, Routed, Stage as Leg};
use crate::overlay::{Routes, Toward};
use crate::time::Time;

/// How long a time to live may be: a thousand years.
const TTL_MAX: Duration = Duration::from_secs(1000 * 366 * 86_400);
/// The pause before holders that could not help are asked again.
const PAUSE: Duration = Duration::from_millis(25);
/// How often a version that turned out too low is made anew.
const VERSIONS: u8 = 16;
/// Slots whose holders are remembered.
const CACHE_MAX: usize = 65_536;
/// How long a replica that could not serve a request is asked after the others.
const UNREADY: Duration = Duration::from_secs(1);
/// A member that has not answered a write for this long is taken to be stopped, and another is asked.
const STUCK: Duration = Duration::from_millis(500);

/// A request under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asking {
    request: RequestId,
    ask: Box<Ask>,
    version: Version,
    /// What its version must be above, as members of the view have said.
    floor: Version,
    /// Cluster time when the user asked.
    at: u64,
    deadline: Time,
    leg: At,
    /// Who has been tried since it last made sense to.
    tried: Vec<NodeId>,
    versions: u8,
    hops: u8,
    /// How often the holders were looked for.
    lookups: u8,
    /// How often somebody was asked.
    turn: u8,
    /// Whether it may have been done already.
    risky: bool,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Looking for the holders.
    Lookup { serial: u32, since: Time },
    /// With this holder.
    With(NodeId, Time),
    /// Tried again at this time.
    Pause(Time),
}

impl Store {
    /// The user wants something.
    pub(crate) fn ask(
        &mut self,
        request: RequestId,
        ask: Box<Ask>,
        deadline: Duration,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        self.seek_time(ring, cx);
        let failure = match self.may_serve(ring) {
            true => check(&ask, cx).err().map(Failure::Store),
            false => Some(Failure::NotJoined),
        };
        let failure = failure.or_else(|| {
            let full = self.asks.len() >= usize::from(cx.config.requests);
            full.then_some(Failure::Store(Trouble::Busy))
        });
        if let Some(failure) = failure {
            return cx.out.push(Output::Reply { request, reply: Err(failure) });
        }
        let serial = loop {
            let serial = cx.dice.roll() as u32;
            if !self.asks.contains_key(&serial) {
                break serial;
            }
        };
        let deadline = cx.now.after(deadline.min(cx.config.deadline_max));
        let asking = Asking {
            request,
            ask,
            version: Version::ZERO,
            floor: Version::ZERO,
            at: self.time(cx),
            deadline,
            leg: At::Pause(cx.now),
            tried: Vec::new(),
            versions: 0,
            hops: 0,
            lookups: 0,
            turn: 0,
            risky: false,
        };
        self.asks.insert(serial, asking);
        self.pursue(serial, ring, cx);
        self.finish(ring, cx);
    }

    /// Takes the next step with a request.
    fn pursue(&mut self, serial: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let time = self.time(cx);
        let Some(asking) = self.asks.get_mut(&serial) else { return };
        if !is_read(&asking.ask.action) && !self.time.is_settled() {
            // A request that changes something says until when it may, by cluster time, and from when values are kept: what
            // this node takes for the time is not it yet (chaos seed 4000066).
            (asking.leg, asking.at) = (At::Pause(cx.now), 0);
            return;
        }
        if asking.at == 0 {
            asking.at = time;
        }
        if is_plain(&asking.ask.action) && asking.version == Version::ZERO {
            let floor = asking.floor;
            let version = self.make_version(floor, cx);
            let Some(asking) = self.asks.get_mut(&serial) else { return };
            match version {
                Some(version) => {
                    asking.version = version;
                    asking.at = time;
                }
                None => {
                    // Until cluster time is known and the clock's bound is durable.
                    asking.leg = At::Pause(cx.now);
                    return;
                }
            }
        }
        let Some(asking) = self.asks.get(&serial) else { return };
        let slot = Cut::of(cx.config.slots).slot(asking.ask.name.id);
        let holders = self.holders(slot, ring);
        if holders.is_empty() {
            return self.locate(serial, slot, ring, cx);
        }
        let reads = is_read(&asking.ask.action);
        // Writes go to the holder that comes first, so that it has them in order; reads stay here if they can.
        let here = holders.iter().find(|holder| reads && holder.id == self.me.id);
        let here = here.filter(|holder| !asking.tried.contains(&holder.id));
        let fresh = || holders.iter().filter(|holder| !asking.tried.contains(&holder.id));
        let next = here
            .or_else(|| fresh().find(|holder| !self.is_quiet(holder.id) && !self.is_unready(holder.id, cx)))
            .or_else(|| fresh().find(|holder| !self.is_quiet(holder.id)))
            .or_else(|| fresh().next());
        match next.copied() {
            Some(holder) => self.ask_holder(serial, holder, ring, cx),
            None => {
                // Nobody can help right now, or the holders are others by now.
                self.cache.remove(&slot);
                let Some(asking) = self.asks.get_mut(&serial) else { return };
                asking.tried.clear();
                asking.leg = At::Pause(cx.now.after(PAUSE));
            }
        }
    }

    /// Returns who holds a slot, as far as this node knows.
    fn holders(&self, slot: u32, ring: &dyn Routes) -> Vec<Contact> {
        match self.slots.get(&slot).filter(|slot| slot.standing != Standing::Outside) {
            Some(slot) => {
                slot.view.members.iter().filter_map(|member| self.contact(member.id, ring)).collect()
            }
            None => self.cache.get(&slot).cloned().unwrap_or_default(),
        }
    }

    fn locate(&mut self, serial: u32, slot: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let middle = Cut::of(cx.config.slots).middle(slot);
        match ring.toward(middle) {
            Toward::Near(root) => {
                self.remember(slot, alloc::vec![root]);
                self.pursue(serial, ring, cx);
            }
            // This node should hold it, but does not yet: whoever is beside it does. Or whoever should is dead.
            toward if toward == Toward::Here || (toward == Toward::Nowhere && ring.covers(middle)) => {
                let beside = ring.replicas(middle, usize::from(cx.config.replicas) * 2);
                let there = |node: &Contact| node.id != self.me.id && !self.is_down(node.id);
                let beside: Vec<Contact> = beside.into_iter().filter(there).collect();
                let Some(asking) = self.asks.get_mut(&serial) else { return };
                if beside.is_empty() {
                    asking.leg = At::Pause(cx.now.after(PAUSE));
                } else {
                    self.remember(slot, beside);
                    self.pursue(serial, ring, cx);
                }
            }
            Toward::Far => {
                let Some(asking) = self.asks.get_mut(&serial) else { return };
                let number = cx.dice.roll() as u32;
                asking.leg = At::Lookup { serial: number, since: cx.now };
                // Whoever answers for the slot may be dead while its lease runs. Those around it know who holds it.
                let slots = Cut::of(cx.config.slots);
                let aside = match asking.lookups {
                    0 => slot,
                    n if n % 2 == 1 => slot.wrapping_add(1 << n.min(6)),
                    n => slot.wrapping_sub(1 << n.min(6)),
                };
                asking.lookups = asking.lookups.saturating_add(1);
                cx.out.route(lookup(slots.middle(aside % slots.count()), number, ring));
            }
            Toward::Here | Toward::Nowhere => {
                // There is no ring yet: a node known from the last life may know who holds the slot.
                let known = self.peers.values().filter(|peer| peer.born.is_some() && peer.down.is_none());
                let known: Vec<Contact> = known.map(|peer| peer.contact).collect();
                let asked = self.asks.get_mut(&serial);
                if let Some(asking) = asked.filter(|_| known.is_empty() || !self.reopened) {
                    asking.leg = At::Pause(cx.now.after(PAUSE));
                } else {
                    self.remember(slot, known);
                    self.pursue(serial, ring, cx);
                }
            }
        }
    }

    fn remember(&mut self, slot: u32, holders: Vec<Contact>) {
        if self.cache.len() >= CACHE_MAX && !self.cache.contains_key(&slot) {
            self.cache.pop_first();
        }
        self.cache.insert(slot, holders);
    }

    /// A lookup of the store has come to its end. `false`: it was none of the store's.
    pub(crate) fn found(
        &mut self,
        number: u32,
        root: Option<Contact>,
        hops: u8,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) -> bool {
        if let Some(seeking) = self.seeking.remove(&number) {
            self.sought(number, seeking, root, ring, cx);
            self.finish(ring, cx);
            return true;
        }
        let is_it = |asking: &Asking| matches!(asking.leg, At::Lookup { serial, .. } if serial == number);
        let Some(serial) = self.asks.iter().find(|(_, asking)| is_it(asking)).map(|(serial, _)| *serial)
        else {
            return false;
        };
        let Some(asking) = self.asks.get_mut(&serial) else { return false };
        asking.leg = At::Pause(cx.now.after(PAUSE));
        asking.hops = hops;
        if let Some(root) = root {
            let slot = Cut::of(cx.config.slots).slot(asking.ask.name.id);
            self.remember(slot, alloc::vec![root]);
            self.pursue(serial, ring, cx);
        }
        self.finish(ring, cx);
        true
    }

    fn ask_holder(&mut self, serial: u32, holder: Contact, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(asking) = self.asks.get_mut(&serial) else { return };
        asking.leg = At::With(holder.id, cx.now);
        asking.tried.push(holder.id);
        asking.turn = asking.turn.wrapping_add(1);
        let (ask, version, turn, at) = (asking.ask.clone(), asking.version, asking.turn, asking.at);
        // Whoever coordinates gives up first, so that its answer still comes in time.
        let patience = asking.deadline.since(cx.now).mul_f32(0.9);
        if holder.id == self.me.id {
            let origin = Origin { node: self.me.id, serial };
            let deadline = cx.now.after(patience);
            let client = Client { peer: None, turn };
            return self.coordinate(client, origin, ask, (version, at), deadline, false, ring, cx);
        }
        let patience = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        asking.hops = asking.hops.max(1);
        let until = self.time(cx).saturating_add(patience.into());
        let message = Message::Ask { serial, ask: *ask, version, patience, turn, at, until };
        cx.send(holder, Body::Store(Box::new(Packet { message, contacts: Vec::new() })));
    }

    /// A holder has answered.
    pub(super) fn answered(
        &mut self,
        from: NodeId,
        (serial, turn): (u32, u8),
        response: Response,
        contacts: Vec<Contact>,
        ring: &dyn Routes,
        cx: &mut Ctx<'_>,
    ) {
        let Some(asking) = self.asks.get_mut(&serial) else { return };
        if !asking.tried.contains(&from) {
            return cx.refuse(crate::edge::Refusal::Unsolicited);
        }
        let slot = Cut::of(cx.config.slots).slot(asking.ask.name.id);
        let current = turn == asking.turn && matches!(asking.leg, At::With(holder, _) if holder == from);
        let hops = asking.hops;
        match response {
            Response::Done(mut answer) => {
                if from != self.me.id {
                    answer.hops = hops;
                    self.remember(slot, contacts);
                }
                self.reply(serial, Ok(Reply::Store(Box::new(answer))), cx);
            }
            // Another holder was asked meanwhile, and may do better.
            Response::Failed(_) if !current => {}
            Response::Failed(Trouble::ClockOff) if from != self.me.id => {
                if !contacts.is_empty() {
                    self.remember(slot, contacts);
                }
                self.try_another(serial, Trouble::ClockOff, ring, cx);
            }
            Response::Failed(trouble) => {
                // Another holder was asked before, and may have done it.
                let trouble = if asking.risky { trouble.perhaps() } else { trouble };
                self.reply(serial, Err(Failure::Store(trouble)), cx);
            }
            _ if !current => {}
            Response::Outdated(version) => {
                asking.versions += 1;
                if asking.versions > VERSIONS || asking.risky {
                    // Under another version it could be done twice.
                    let happened = if asking.risky { Happened::Unknown } else { Happened::No };
                    let trouble = Trouble::Timeout { happened };
                    return self.reply(serial, Err(Failure::Store(trouble)), cx);
                }
                asking.version = Version::ZERO;
                asking.floor = asking.floor.max(version);
                asking.tried.clear();
                asking.leg = At::Pause(cx.now);
                self.pursue(serial, ring, cx);
            }
            Response::Elsewhere { begun: true } if !is_repeatable(&asking.ask.action) => {
                let trouble = Trouble::Timeout { happened: Happened::Unknown };
                self.reply(serial, Err(Failure::Store(trouble)), cx);
            }
            Response::Elsewhere { begun } => {
                asking.risky |= begun;
                asking.leg = At::Pause(cx.now.after(PAUSE));
                if let Some(peer) = self.peers.get_mut(&from) {
                    // It holds the slot and does not serve it, or does not hold it: the next request asks another first.
                    peer.unready = Some(cx.now.after(UNREADY));
                }
                let known = self.cache.get(&slot).is_some_and(|known| *known == contacts);
                if from != self.me.id && !contacts.is_empty() && !known {
                    self.remember(slot, contacts);
                    self.pursue(serial, ring, cx);
                } else if self.has_untried(serial, slot, ring) {
                    self.pursue(serial, ring, cx);
                }
            }
        }
    }

    /// Says whether a replica is left that has not been asked.
    fn has_untried(&self, serial: u32, slot: u32, ring: &dyn Routes) -> bool {
        let Some(asking) = self.asks.get(&serial) else { return false };
        self.holders(slot, ring).iter().any(|holder| !asking.tried.contains(&holder.id))
    }

    /// Asks a replica that has not been asked, or all of them again, or gives up.
    fn try_another(&mut self, serial: u32, trouble: Trouble, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(asking) = self.asks.get(&serial) else { return };
        let slot = Cut::of(cx.config.slots).slot(asking.ask.name.id);
        if self.has_untried(serial, slot, ring) {
            return self.pursue(serial, ring, cx);
        }
        // What is known of the replicas has been used up: they are looked for anew.
        self.cache.remove(&slot);
        let Some(asking) = self.asks.get_mut(&serial) else { return };
        asking.versions += 1;
        if asking.versions <= VERSIONS / 4 && !asking.risky {
            asking.tried.clear();
            asking.version = Version::ZERO;
            asking.leg = At::Pause(cx.now.after(PAUSE * 4));
            return;
        }
        let trouble = if asking.risky { trouble.perhaps() } else { trouble };
        self.reply(serial, Err(Failure::Store(trouble)), cx);
    }

    fn reply(&mut self, serial: u32, reply: Result<Reply, Failure>, cx: &mut Ctx<'_>) {
        if let Some(asking) = self.asks.remove(&serial) {
            cx.out.push(Output::Reply { request: asking.request, reply });
        }
    }

    /// A request could not be handed to the network: nothing was done by that one.
    pub(super) fn ask_unsent(&mut self, serial: u32, to: NodeId, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let with = |asking: &Asking| matches!(asking.leg, At::With(holder, _) if holder == to);
        if self.asks.get(&serial).is_some_and(with) {
            self.pursue(serial, ring, cx);
        }
    }

    /// A holder is gone: whatever can safely be asked again is.
    pub(super) fn ask_lost(&mut self, peer: NodeId, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let with = |asking: &Asking| matches!(asking.leg, At::With(holder, _) if holder == peer);
        let serials: Vec<u32> =
            self.asks.iter().filter(|(_, asking)| with(asking)).map(|(serial, _)| *serial).collect();
        for serial in serials {
            self.ask_another(serial, ring, cx);
        }
    }

    /// Asks another holder, if asking twice does no harm.
    fn ask_another(&mut self, serial: u32, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let Some(asking) = self.asks.get_mut(&serial) else { return };
        if !is_repeatable(&asking.ask.action) {
            return;
        }
        asking.risky |= !is_read(&asking.ask.action);
        self.pursue(serial, ring, cx);
    }

    /// Goes on with requests that paused, that got no answer, or that are late.
    pub(super) fn ask_again(&mut self, ring: &dyn Routes, cx: &mut Ctx<'_>) {
        let serials: Vec<u32> = self.asks.keys().copied().collect();
        for serial in serials {
            let Some(asking) = self.asks.get(&serial) else { continue };
            if asking.deadline <= cx.now {
                let reads = is_read(&asking.ask.action);
                let sent = asking.risky || matches!(asking.leg, At::With(..));
                let happened = if sent && !reads { Happened::Unknown } else { Happened::No };
                self.reply(serial, Err(Failure::Store(Trouble::Timeout { happened })), cx);
                continue;
            }
            match asking.leg {
                At::Pause(until) if until <= cx.now => self.pursue(serial, ring, cx),
                At::With(holder, since) if holder != self.me.id && cx.now.since(since) >= STUCK => {
                    if let Some(peer) = self.peers.get_mut(&holder) {
                        peer.silent = true;
                    }
                    self.ask_another(serial, ring, cx);
                }
                At::Lookup { since, .. } if cx.now.since(since) >= STUCK => {
                    let Some(asking) = self.asks.get_mut(&serial) else { continue };
                    asking.leg = At::Pause(cx.now);
                    self.pursue(serial, ring, cx);
                }
                _ => {}
            }
        }
    }

    /// This node is out of the ring.
    pub(super) fn end_asks(&mut self, cx: &mut Ctx<'_>) {
        for (_, asking) in core::mem::take(&mut self.asks) {
            cx.out.push(Output::Reply { request: asking.request, reply: Err(Failure::Ended) });
        }
    }
}

/// Asks the ring who answers for an id.
pub(super) fn lookup(key: Key, serial: u32, ring: &dyn Routes) -> Routed {
    let (origin, payload) = (ring.me(), Payload::Lookup);
    Routed { key, origin, payload, serial, hop: 0, hops: 0, stage: Leg::Prefix }
}

/// Checks what can be checked before anybody is asked.
fn check(ask: &Ask, cx: &Ctx<'_>) -> Result<(), Trouble> {
    let walks = matches!(ask.action, Action::Keys { .. });
    let (key, limit) = (ask.name.bytes.len(), cx.config.key_max);
    if key == 0 && !walks {
        return Err(Trouble::BadRequest);
    }
    if key > limit as usize {
        return Err(Trouble::TooLarge { limit });
    }
    let (value, ttl) = match &ask.action {
        Action::Change { change: Change::Put { value, ttl }, .. } => (value.len(), *ttl),
        Action::Change { change: Change::Expire(ttl), .. } => (0, *ttl),
        Action::Add { value, ttl, .. } => (value.len(), *ttl),
        _ => (0, None),
    };
    if value > cx.config.value_max as usize {
        return Err(Trouble::TooLarge { limit: cx.config.value_max });
    }
    if ttl.is_some_and(|ttl| ttl < Duration::from_millis(1) || ttl > TTL_MAX) {
        return Err(Trouble::BadRequest);
    }
    Ok(())
}
