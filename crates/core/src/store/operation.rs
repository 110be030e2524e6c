//! Operations under way: what is asked, how far it has come, and what follows.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::op::{Action, Ask, Change, Condition, Found, Level, Listed, Name, Trouble};
use super::record::{Cell, Origin, Record};
use super::version::Version;
use crate::contact::Contact;
use crate::time::Time;

/// Records repaired at a time.
pub(super) const ITEMS: usize = 200;
/// The item that brings a member's set up to date; its answer is no answer to the write.
pub(super) const HEAD: u8 = 255;

/// One operation under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Operation {
    pub(super) client: Client,
    pub(super) ask: Box<Ask>,
    /// The version of what is written without condition. Made by the asker, so that it may ask twice.
    pub(super) version: Version,
    /// Cluster time at the asker, when it asked.
    pub(super) at: u64,
    /// Copies there are to be: as many as the cluster was made for, or as many as there are nodes.
    pub(super) copies: u8,
    pub(super) origin: Origin,
    pub(super) slot: u32,
    pub(super) epoch: u64,
    pub(super) since: Time,
    pub(super) deadline: Time,
    pub(super) again: Time,
    pub(super) attempt: u8,
    pub(super) rounds: u8,
    pub(super) stage: Stage,
    /// What a conditional write that may have been accepted was based on.
    pub(super) proposed: Option<Version>,
    /// Why members would not take it.
    pub(super) trouble: Option<Trouble>,
    /// Whether other members were asked in this attempt.
    pub(super) sent: bool,
    /// Whether the same request came before: whatever becomes of it now, it may have been done then.
    pub(super) repeated: bool,
}

/// Who wants to know: another node, or this one; and how often it has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) peer: Option<Contact>,
    pub(super) turn: u8,
}

/// How far an operation has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// For its turn, or for the slot to be served.
    Waiting,
    /// Members are to take records.
    Writing { items: Vec<Writing>, then: Then },
    /// Members are to promise a ballot.
    Preparing { cell: Cell, ballot: Version, heard: Vec<(u8, Option<Record>)>, refused: u16 },
    /// Members are to tell what they have.
    Reading { cell: Cell, mine: Option<Record>, heard: Vec<(u8, Option<Record>)>, head: bool },
    /// Members are to tell the set they have. `mine` counts once it is durable, like what others have.
    Listing { name: Name, mine: Records, heard: Vec<(u8, Records)>, parts: Vec<(u8, Records)> },
    /// Members are to tell the version they have.
    Looking { cell: Cell, heard: Vec<(u8, Version)> },

    /// Members are to tell the keys they have.
    Walking { after: Cell, limit: u32, heard: Vec<(u8, Vec<Listed>, bool)> },
}

/// Records of one set.
type Records = Vec<(Cell, Record)>;

/// A record on its way to the members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Writing {
    pub(super) cell: Cell,
    pub(super) record: Record,
    /// The set that members must hold, and the ballot it was agreed on under if that matters.
    pub(super) set: Option<(u64, Option<Version>)>,
    pub(super) have: u16,
    pub(super) refused: u16,
    /// This node was asked itself: its answer comes when its disk has synced.
    pub(super) own: bool,
}

/// What follows when enough members have taken the records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Then {
    /// The operation is done.
    Changed { created: bool, number: Option<i64>, ballot: bool },
    /// What was read may be told.
    Tell(Found),
    /// It failed, but what it saw is settled.
    Fail(Trouble),
    /// The set exists now: add to it.
    Add,
    /// What was read is settled: begin again.
    Again,
}

impl Operation {
    /// Returns how many members of a view must have answered.
    pub(super) fn wanted(&self, members: usize) -> usize {
        let quorum = members / 2 + 1;
        match self.ask.level {
            Level::One if !self.needs_quorum() => 1,
            Level::One | Level::Quorum if self.is_read() => quorum,
            // A view that has just begun to grow is not what the cluster promises.
            Level::One | Level::Quorum => quorum.max(usize::from(self.copies) / 2 + 1),
            Level::All => members,
        }
    }

    pub(super) fn needs_quorum(&self) -> bool {
        !self.is_plain() && !self.is_read()
    }

    /// Says whether a view has too few members for this operation to be acknowledged under it.
    pub(super) fn is_short(&self, members: usize) -> bool {
        let exempt = self.is_read() || (self.ask.level == Level::One && !self.needs_quorum());
        members < usize::from(self.copies) && !exempt
    }

    pub(super) fn is_read(&self) -> bool {
        is_read(&self.ask.action)
    }

    pub(super) fn is_plain(&self) -> bool {
        is_plain(&self.ask.action)
    }
}

/// Says whether an action changes nothing.
pub(super) fn is_read(action: &Action) -> bool {
    matches!(action, Action::Get | Action::Members | Action::Place | Action::Keys { .. })
}

/// Says whether an action is a write that needs no look at what is there.
pub(super) fn is_plain(action: &Action) -> bool {
    match action {
        Action::Add { .. } | Action::Remove { .. } => true,
        Action::Change { change, condition } => {
            *condition == Condition::Always && matches!(change, Change::Put { .. } | Change::Delete)
        }
        _ => false,
    }
}

/// Says whether an action may be carried out twice: a read, or a write that its version makes the same write. What
/// changes a set may not: between the two, the set can have been deleted and made anew.
pub(super) fn is_repeatable(action: &Action) -> bool {
    is_read(action) || (is_plain(action) && matches!(action, Action::Change { .. }))
}

/// Returns when something that is to stay this long ends.
pub(super) fn ends(ttl: Option<Duration>, at: u64) -> u64 {
    ttl.map_or(0, |ttl| at.saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)).max(1))
}
