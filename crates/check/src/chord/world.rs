//! Which nodes a world has, and what may happen in it.

use std::fmt;

use kringle_core::config::Safeguard;
use kringle_core::contact::{Addr, Contact};
use kringle_core::id::Id;
use kringle_core::overlay::chord::ring::Rules;

/// The most ids a world can have: nodes are bits of a word.
pub const IDS_MAX: u8 = 12;

/// The bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// How long successor lists are.
    pub successors: u8,
    /// Members of the ring it starts with, each with the full list.
    pub founders: u8,
    /// Places on the ring; those without a founder are free for joiners. Founders are spread evenly.
    pub ids: u8,
    /// How many nodes join.
    pub joins: u8,
    /// How many nodes fail.
    pub failures: u8,
    /// How many failed nodes come back, in a new life.
    pub restarts: u8,
    /// How often a node takes another for silent that is not.
    pub false_timeouts: u8,
    /// How many messages are lost.
    pub losses: u8,
    /// A question and its answer are one step, and a tick runs its query to the end.
    pub atomic: bool,
    /// Nodes fail also where the proof assumes that they do not.
    pub any_failure: bool,
    /// Every message is encoded and decoded on its way.
    pub codec: bool,
    /// A rule that is left out.
    pub without: Option<Safeguard>,
}

/// Nothing but a ring of three that stabilizes.
pub const STILL: World = World {
    successors: 2,
    founders: 3,
    ids: 3,
    joins: 0,
    failures: 0,
    restarts: 0,
    false_timeouts: 0,
    losses: 0,
    atomic: false,
    any_failure: false,
    codec: false,
    without: None,
};

impl World {
    /// Returns how many ids a world has unless told: one free place after every founder if somebody joins.
    pub fn usual_ids(founders: u8, joins: u8) -> u8 {
        if joins == 0 { founders } else { founders.saturating_mul(2).max(founders.saturating_add(joins)) }
    }

    /// Says what is wrong with the bounds.
    pub fn check(&self) -> Result<(), String> {
        let World { successors, founders, ids, joins, .. } = *self;
        if successors < 2 {
            return Err("successor lists have at least 2 entries".into());
        }
        if self.is_too_small() && self.without != Some(Safeguard::Forming) {
            return Err(format!("lists of {successors} need at least {} founders", successors + 1));
        }
        if founders == 0 {
            return Err("a ring has a founder".into());
        }
        if ids > IDS_MAX {
            return Err(format!("a world has at most {IDS_MAX} ids, not {ids}"));
        }
        if founders.saturating_add(joins) > ids {
            return Err(format!("{founders} founders and {joins} joiners need as many ids, not {ids}"));
        }
        if self.atomic && self.false_timeouts > 0 {
            return Err("false timeouts need single messages: an atomic question is never open".into());
        }
        if [joins, self.failures, self.restarts, self.false_timeouts, self.losses].iter().any(|n| *n > 15) {
            return Err("nothing may happen more than 15 times".into());
        }
        if self.restarts > self.failures {
            return Err("only nodes that have failed come back".into());
        }
        Ok(())
    }

    /// Says whether the ring begins with fewer members than the proof needs.
    pub(super) fn is_too_small(&self) -> bool {
        self.founders <= self.successors
    }

    /// Says whether the assumptions of the proof hold, and so its whole invariant must.
    pub fn is_assumed(&self) -> bool {
        let as_assumed = !self.is_too_small() && !self.any_failure;
        as_assumed && self.false_timeouts == 0 && self.restarts == 0
    }

    /// Returns the rules of the machine. A question is repeated so often that losses alone silence nobody.
    pub(super) fn rules(&self) -> Rules {
        Rules { successors: self.successors.into(), attempts: 1 + self.losses, without: self.without }
    }

    /// Returns where the founders are.
    pub(super) fn places(&self) -> impl Iterator<Item = u8> + use<> {
        let (ids, founders) = (u16::from(self.ids), u16::from(self.founders));
        (0..founders).map(move |nth| (nth * ids / founders) as u8)
    }

    /// Returns by how many places the world can be turned without looking different at its start.
    pub(super) fn turns(&self) -> Vec<u8> {
        if self.ids.is_multiple_of(self.founders) { self.places().collect() } else { vec![0] }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.atomic { "questions with their answers" } else { "single messages" };
        write!(f, "{level}, lists of {}, {} founders, {} ids", self.successors, self.founders, self.ids)?;
        let counted = [
            (self.joins, "joins"),
            (self.failures, if self.any_failure { "failures of anybody" } else { "failures" }),
            (self.restarts, "restarts"),
            (self.false_timeouts, "false timeouts"),
            (self.losses, "lost messages"),
        ];
        for (count, what) in counted.iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        if self.codec {
            f.write_str(", through the codec")?;
        }
        match self.without {
            Some(rule) => write!(f, ", without {}", rule.name()),
            None => Ok(()),
        }
    }
}

/// Marks the ids of a world, so that a hasher can tell them from other numbers.
const MARK: u64 = 0x4b52_494e;
const MARK_BITS: u64 = 0xffff_ffff;

/// Returns the node at a place.
pub(super) fn contact(at: u8, incarnation: u32) -> Contact {
    let hi = u128::from(u64::from(at) + 1) << 56 | u128::from(MARK);
    Contact::new(Id::new(hi << 64), incarnation, Addr(1))
}

/// Returns the place of an id.
pub(super) fn place(id: Id) -> u8 {
    place_of_half((id.value() >> 64) as u64).unwrap_or(0)
}

/// Returns the place whose id has this upper half, if one has.
pub(super) fn place_of_half(half: u64) -> Option<u8> {
    (half & MARK_BITS == MARK).then_some((half >> 56) as u8).and_then(|at| at.checked_sub(1))
}
