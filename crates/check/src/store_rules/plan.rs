//! Worlds: who there is, what is asked of them, what may go wrong.

use super::Left;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain write.
    Write,
    /// A write on the condition that nothing was ever written.
    CasFirst,
    /// A write on the condition that the key is as this operation, a write that has succeeded, left it.
    CasAfter(u8),
    /// A read.
    Read,
}

/// An operation and the coordinator, 0 or 1, that is asked for it.
pub type Asked = (Kind, u8);

/// A change of the view that may be proposed.
#[derive(Clone, Copy, Debug)]
pub struct Proposal {
    /// Who proposes.
    pub by: u8,
    /// The epoch it ends.
    pub epoch: u8,
    /// The members it wishes for: see [`Plan::members`].
    pub members: u8,
}

/// A world.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its name.
    pub name: &'static str,
    /// The members of the first view: bit n is node n, bit n + 4 is node n after it lost its disk.
    pub members: u8,
    /// The nodes of the two coordinators.
    pub coordinators: [u8; 2],
    /// What is asked, each once, in any order unless it says otherwise.
    pub ops: &'static [Asked],
    /// Pairs (a, b): operation b begins only after a is complete.
    pub order: &'static [(u8, u8)],
    /// Operations, as bits, that begin only in a later epoch.
    pub late: u8,
    /// What may be proposed, each once, in any order. Ballots rise in this order.
    pub changes: &'static [Proposal],
    /// How many nodes may crash and restart.
    pub crashes: u8,
    /// How many nodes may lose their disks.
    pub amnesias: u8,
    /// How often an operation may start over.
    pub turns: u8,
    /// Whether syncing is a step of its own.
    pub sync: bool,
    /// Whether removed members drop what they hold when they may.
    pub forget: bool,
    /// Records from before: node, ballot, promised ballot.
    pub ready: &'static [(u8, u8, u8)],
    /// Nodes that never answer.
    pub deaf: u8,
    /// Whether changes are proposed in their order.
    pub in_order: bool,
    /// Whether the state for a replica that catches up is on its way for some time.
    pub slow_states: bool,
    /// The rules that are left out.
    pub left: &'static [Left],
}

impl Plan {
    const BASE: Plan = Plan {
        name: "",
        members: 0b0111,
        coordinators: [0, 1],
        ops: &[],
        order: &[],
        late: 0,
        changes: &[],
        crashes: 0,
        amnesias: 0,
        turns: 1,
        sync: false,
        forget: false,
        ready: &[],
        deaf: 0,
        in_order: false,
        slow_states: false,
        left: &[],
    };

    /// Finds a world by its name.
    pub fn named(name: &str) -> Option<Plan> {
        PLANS.iter().find(|plan| plan.name == name).copied()
    }

    /// The same without some rules.
    pub fn without(self, left: &'static [Left]) -> Plan {
        Plan { left, ..self }
    }

    pub(super) fn has(&self, rule: Left) -> bool {
        !self.left.contains(&rule)
    }

    pub(super) fn answers_early(&self) -> bool {
        !self.has(Left::SyncFirst)
    }
}

use Kind::{CasAfter, CasFirst, Read, Write};

const fn by(by: u8, epoch: u8, members: u8) -> Proposal {
    Proposal { by, epoch, members }
}

/// All worlds.
pub const PLANS: &[Plan] = &[
    // One epoch: the register itself.
    Plan { name: "plain-and-read", ops: &[(Write, 0), (Write, 1), (Read, 0), (Read, 1)], ..Plan::BASE },
    Plan { name: "two-cas", ops: &[(CasFirst, 0), (CasFirst, 1), (Read, 0)], ..Plan::BASE },
    Plan { name: "cas-and-plain", ops: &[(CasFirst, 0), (Write, 1), (Read, 1)], ..Plan::BASE },
    Plan {
        name: "cas-after-write",
        ops: &[(Write, 0), (CasFirst, 1), (CasAfter(0), 0)],
        turns: 0,
        ..Plan::BASE
    },
    // One change of the view.
    Plan {
        name: "add-cas-plain",
        ops: &[(CasFirst, 0), (Write, 1), (Read, 1)],
        changes: &[by(0, 0, 0b1111)],
        ..Plan::BASE
    },
    Plan {
        name: "same-two-cas",
        ops: &[(CasFirst, 0), (CasFirst, 1), (Read, 1)],
        changes: &[by(1, 0, 0b0111)],
        ..Plan::BASE
    },
    Plan {
        name: "remove-plain-read",
        ops: &[(Write, 0), (Read, 1), (Read, 0)],
        changes: &[by(1, 0, 0b0011)],
        ..Plan::BASE
    },
    Plan {
        name: "full",
        ops: &[(CasFirst, 0), (Write, 1), (Write, 0), (Read, 1), (Read, 0)],
        changes: &[by(0, 0, 0b1111), by(1, 0, 0b0111)],
        crashes: 1,
        amnesias: 1,
        ..Plan::BASE
    },
    // Several proposers of one change.
    Plan { name: "rivals", changes: &[by(0, 0, 0b1111), by(1, 0, 0b0011), by(2, 0, 0b0111)], ..Plan::BASE },
    Plan {
        name: "rivals-and-loss",
        ops: &[(Write, 0)],
        changes: &[by(0, 0, 0b1111), by(1, 0, 0b0011), by(2, 0, 0b0111)],
        amnesias: 1,
        turns: 0,
        ..Plan::BASE
    },
    Plan {
        name: "one-holder",
        changes: &[by(0, 0, 0b0111), by(1, 0, 0b0111), by(2, 0, 0b0111)],
        // A quorum has what was acknowledged, the third has more.
        ready: &[(0, 2, 0), (1, 2, 0), (2, 5, 0)],
        amnesias: 1,
        in_order: true,
        ..Plan::BASE
    },
    // Two changes, one after the other.
    Plan {
        name: "add-then-remove",
        ops: &[(Write, 0), (Read, 1)],
        order: &[(0, 1)],
        changes: &[by(0, 0, 0b1111), by(1, 1, 0b1101)],
        forget: true,
        ..Plan::BASE
    },
    Plan {
        name: "remove-then-add",
        ops: &[(Write, 1), (Read, 1)],
        order: &[(0, 1)],
        changes: &[by(1, 0, 0b0110), by(1, 1, 0b1110)],
        forget: true,
        ..Plan::BASE
    },
    Plan {
        name: "reborn",
        ops: &[(Write, 1), (Read, 1)],
        order: &[(0, 1)],
        changes: &[by(1, 0, 0b0000_0110), by(1, 1, 0b0001_0110)],
        amnesias: 1,
        turns: 2,
        ..Plan::BASE
    },
    Plan {
        name: "read-over-change",
        ops: &[(CasFirst, 1), (CasFirst, 0), (Read, 1)],
        late: 0b010,
        changes: &[by(0, 0, 0b0111)],
        turns: 0,
        ..Plan::BASE
    },
    Plan {
        name: "slow-state",
        ops: &[(CasFirst, 1), (CasFirst, 0), (Read, 0)],
        late: 0b111,
        changes: &[by(0, 0, 0b1011)],
        members: 0b0011,
        ready: &[(0, 1, 0), (1, 1, 0)],
        turns: 0,
        slow_states: true,
        ..Plan::BASE
    },
    Plan {
        name: "crashed-coordinator",
        ops: &[(Write, 0), (Write, 0), (Read, 1), (Read, 1)],
        crashes: 1,
        turns: 0,
        ..Plan::BASE
    },
    Plan {
        name: "four-ballots",
        changes: &[by(0, 0, 0b0111), by(1, 0, 0b0111), by(2, 0, 0b0111), by(0, 0, 0b0111)],
        ready: &[(2, 2, 0)],
        amnesias: 1,
        in_order: true,
        ..Plan::BASE
    },
    // Two members at once: nothing in the rules should need that to be forbidden.
    Plan {
        name: "replace-at-once",
        ops: &[(Write, 0), (Read, 1)],
        changes: &[by(1, 0, 0b1110)],
        forget: true,
        ..Plan::BASE
    },
    // A dead member goes and a new one comes in one ballot, which two propose at once.
    Plan {
        name: "replace-dead",
        ops: &[(Write, 0), (Read, 1)],
        order: &[(0, 1)],
        changes: &[by(0, 0, 0b1011), by(1, 0, 0b1011)],
        deaf: 0b0100,
        turns: 0,
        ..Plan::BASE
    },
    // Two propose to replace different members, and the old ones drop what they hold.
    Plan {
        name: "replace-rivals",
        ops: &[(Write, 0)],
        changes: &[by(0, 0, 0b1011), by(1, 0, 0b1110)],
        turns: 0,
        forget: true,
        ..Plan::BASE
    },
    // Syncing as a step of its own, and a crash.
    Plan {
        name: "sync",
        ops: &[(Write, 0), (Read, 1)],
        order: &[(0, 1)],
        crashes: 1,
        sync: true,
        ..Plan::BASE
    },
    Plan {
        name: "sync-change",
        ops: &[(Write, 0), (Read, 1)],
        order: &[(0, 1)],
        changes: &[by(1, 0, 0b0111)],
        crashes: 1,
        sync: true,
        ..Plan::BASE
    },
    // A read behind what others left: one of three is away, one has promised, one has more.
    Plan {
        name: "behind-a-promise",
        ops: &[(Read, 0)],
        ready: &[(0, 2, 8), (1, 2, 8), (2, 5, 0)],
        deaf: 0b0010,
        turns: 2,
        ..Plan::BASE
    },
];
