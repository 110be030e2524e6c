//! A world that follows a schedule: messages, timers and calls of the application wait until they are told to happen.
//! The model checker's counter-examples are replayed this way.

use std::collections::VecDeque;

use kringle_core::contact::Contact;
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Input, Timer};
use kringle_core::message::{Body, BodyKind, Routed};
use kringle_core::time::Time;

use super::{NEVER, World};

/// What waits.
#[derive(Default)]
pub(super) struct Held {
    messages: Vec<HeldMessage>,
    upcalls: Vec<(u32, Routed, Option<Time>)>,
    /// What follows from an input at once, but not from within it.
    soon: VecDeque<(u32, Input)>,
}

/// A message on its way for as long as the schedule wants.
#[derive(Clone, Debug)]
pub struct HeldMessage {
    /// Sent from here.
    pub from: u32,
    /// For this node.
    pub to: u32,
    sender: Contact,
    body: Body,
}

impl HeldMessage {
    /// Returns what kind of message it is.
    pub fn kind(&self) -> BodyKind {
        self.body.kind()
    }
}

impl Held {
    pub(super) fn message(&mut self, from: u32, to: u32, sender: Contact, body: Body) {
        self.messages.push(HeldMessage { from, to, sender, body });
    }

    pub(super) fn upcall(&mut self, node: u32, routed: Routed, not_after: Option<Time>) {
        self.upcalls.push((node, routed, not_after));
    }

    pub(super) fn soon(&mut self, node: u32, input: Input) {
        self.soon.push_back((node, input));
    }

    pub(super) fn next_soon(&mut self) -> Option<(u32, Input)> {
        self.soon.pop_front()
    }

    /// A node has stopped: what was meant for its present life does not arrive.
    pub(super) fn forget(&mut self, node: u32) {
        self.messages.retain(|message| message.to != node);
        self.upcalls.retain(|(at, ..)| *at != node);
        self.soon.retain(|(at, _)| *at != node);
    }
}

impl World {
    /// From now on nothing happens by itself, and nothing is left to chance: every node's dice show the same in every
    /// call. For worlds without nodes.
    ///
    /// # Panics
    /// If there are nodes already: they would have rolled other dice.
    pub fn hold(&mut self) {
        assert!(self.is_empty(), "a world is held before it has nodes");
        self.held = Some(Box::default());
    }

    /// Returns the messages on their way, in the order they were sent.
    pub fn held(&self) -> &[HeldMessage] {
        self.held.as_ref().map_or(&[], |held| &held.messages)
    }

    /// Lets a message arrive. A paused node gets it when it goes on.
    pub fn deliver_held(&mut self, at: usize) {
        if let Some(HeldMessage { to, sender, body, .. }) = self.take_held(at) {
            self.arrive(to, Input::Message { from: sender, body });
        }
    }

    /// Lets something arrive at a node that nobody here has sent.
    pub fn arrive(&mut self, to: u32, input: Input) {
        if let Some(paused) = &mut self.slots[to as usize].paused {
            return paused.arrived.push(input);
        }
        let life = self.slots[to as usize].life;
        // The contract of the edge: due timers before any other input.
        while let Some(timer) = self.due_timer(to, life) {
            self.fire(to, timer);
        }
        self.input(to, input);
    }

    /// Loses a message.
    pub fn drop_held(&mut self, at: usize) {
        self.take_held(at);
    }

    /// Doubles a message: the copy is the last on its way.
    pub fn double_held(&mut self, at: usize) {
        if let Some(held) = &mut self.held
            && let Some(message) = held.messages.get(at).cloned()
        {
            held.messages.push(message);
        }
    }

    fn take_held(&mut self, at: usize) -> Option<HeldMessage> {
        let held = self.held.as_mut()?;
        (at < held.messages.len()).then(|| held.messages.remove(at))
    }

    /// Returns when a timer is due, if it is set.
    pub fn deadline(&self, node: u32, timer: Timer) -> Option<Time> {
        let at = self.slots[node as usize].timers[timer as usize];
        (at != NEVER).then_some(at)
    }

    /// Lets time pass until a timer is due, and fires it. Returns whether it was set.
    pub fn fire(&mut self, node: u32, timer: Timer) -> bool {
        let Some(at) = self.deadline(node, timer) else { return false };
        self.now = self.now.max(at);
        self.slots[node as usize].timers[timer as usize] = NEVER;
        self.input(node, Input::Timer(timer));
        true
    }

    /// Makes the oldest call of an application that a node waits to make. Returns whether there was one.
    pub fn make_upcall(&mut self, node: u32) -> bool {
        let Some(held) = &mut self.held else { return false };
        let Some(at) = held.upcalls.iter().position(|(waiting, ..)| *waiting == node) else { return false };
        let (_, routed, not_after) = held.upcalls.remove(at);
        self.upcall(node, routed, not_after);
        while let Some((node, input)) = self.held.as_mut().and_then(|held| held.next_soon()) {
            self.input(node, input);
        }
        true
    }
}

/// The dice of a place in the world.
pub(super) enum SlotDice {
    Seeded(SeededDice),
    Still(StillDice),
}

impl SlotDice {
    pub(super) fn for_a_call(&mut self) -> &mut dyn Dice {
        match self {
            SlotDice::Seeded(dice) => dice,
            SlotDice::Still(dice) => {
                dice.rolls = 0;
                dice
            }
        }
    }
}

/// Dice that show the same in every call of a node, so that what it does depends on its state only.
#[derive(Clone, Debug)]
pub struct StillDice {
    node: u32,
    /// Lives differ: an answer to an earlier one is none to a later.
    life: u32,
    /// How often they were rolled in this call: numbers asked for one after the other differ, choices do not.
    rolls: u32,
}

impl StillDice {
    /// Makes the dice of a node. Their low halves are large, so that a nonce can be told from a counter.
    pub fn of(node: u32, life: u32) -> StillDice {
        StillDice { node, life, rolls: 0 }
    }
}

impl Dice for StillDice {
    fn roll(&mut self) -> u64 {
        self.rolls += 1;
        let (node, rolls) = (u64::from(self.node), u64::from(self.rolls));
        // The high half decides choices: a different one for every node, so that they do not act in step.
        let high = (0x2000_0000 + node * 0x1700_0000) & 0xffff_ffff;
        high << 32 | (rolls & 0xf) << 28 | (node & 0xf) << 24 | 1 << 23 | (u64::from(self.life) & 7) << 20
    }
}
