//! Which nodes there are, and what may go wrong: the models by name.

use std::time::Duration;

use kringle_core::config::{Metric, Ownership, Safeguard, Settings};

/// How often something may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Count(pub u8);

impl Count {
    /// Uses one up. `false` if none is left.
    pub(crate) fn spend(&mut self) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        left
    }
}

/// What may go wrong, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Faults {
    /// Messages that are lost.
    pub losses: Count,
    /// Messages that arrive twice.
    pub doubles: Count,
    /// Moments that pass although messages are in flight.
    pub late: Count,
    /// Live nodes that are found dead.
    pub suspicions: Count,
    /// Nodes that stop without a word.
    pub crashes: Count,
    /// Newcomers that leave politely, once everybody is ready.
    pub leaves: Count,
    /// Stopped nodes that start again.
    pub restarts: Count,
    /// Nodes that are stopped in their tracks.
    pub pauses: Count,
    /// Links that are cut.
    pub cuts: Count,
    /// Nodes that are cut off from all others.
    pub cut_offs: Count,
    /// Cut links whose ends find a third node to talk through. What goes that way may take any time.
    pub relays: Count,
    /// Messages that users send.
    pub routes: Count,
}

/// One small world.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What it is called.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// The first byte of every node's id; the other bytes are zero.
    pub ids: &'static [u8],
    /// How many of these, from the first, are part of the ring from the start. The others may join at any time.
    pub ready: u8,
    /// Members of a leaf set.
    pub leaf_set: u16,
    /// What it takes to deliver.
    pub ownership: Ownership,
    /// Links that lead nowhere once the ring stands, each in one direction.
    pub broken: &'static [(u8, u8)],
    /// What may go wrong.
    pub faults: Faults,
    /// Whether nodes are stopped only once everybody is ready.
    pub faults_after_joins: bool,
    /// How far a model looks beyond the last thing that went wrong.
    pub span: Duration,
    /// How long after that at the earliest a paused node goes on, and links are mended.
    pub lull: Duration,
    /// How often neighbours are checked. Beyond the horizon if nobody has to be found dead.
    pub heartbeat: Duration,
    /// The first byte of the key users send to.
    pub key: u8,
    /// What must happen somewhere, or the model is idle.
    pub sometimes: &'static [Sometimes],
}

/// Something that must happen in some state of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sometimes {
    /// A node that was not ready at the start is.
    Joined,
    /// Two nodes may deliver at the same time, different keys.
    TwoDeliver,
    /// A ready node may not deliver.
    LeaseLost,
    /// A node doubts another.
    Suspected,
    /// A node is isolated.
    Isolated,
    /// A node in its second life is ready.
    Returned,
    /// An application was given a message.
    Delivered,
}

/// How often tables are exchanged: beyond the horizon of every model.
const UPKEEP: Duration = Duration::from_secs(60);

const NONE: Faults = Faults {
    losses: Count(0),
    doubles: Count(0),
    late: Count(0),
    suspicions: Count(0),
    crashes: Count(0),
    leaves: Count(0),
    restarts: Count(0),
    pauses: Count(0),
    cuts: Count(0),
    cut_offs: Count(0),
    relays: Count(0),
    routes: Count(0),
};

const BASE: Plan = Plan {
    name: "",
    about: "",
    ids: &[],
    ready: 0,
    leaf_set: 4,
    ownership: Ownership::Lease,
    broken: &[],
    faults: NONE,
    faults_after_joins: false,
    span: Duration::from_millis(1600),
    lull: Duration::ZERO,
    heartbeat: UPKEEP,
    key: 0x28,
    sometimes: &[],
};

/// All models.
pub const PLANS: &[Plan] = &[
    Plan {
        name: "first-join",
        about: "one ready node, one joiner, one message slow",
        ids: &[0x10, 0x50],
        ready: 1,
        faults: Faults { late: Count(1), ..NONE },
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver],
        ..BASE
    },
    Plan {
        name: "first-joins",
        about: "one ready node, two joiners",
        ids: &[0x10, 0x50, 0x90],
        ready: 1,
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver],
        ..BASE
    },
    Plan {
        name: "one-joiner",
        about: "two ready nodes, one joiner, one message lost",
        ids: &[0x10, 0x90, 0x30],
        ready: 2,
        faults: Faults { losses: Count(1), ..NONE },
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver],
        ..BASE
    },
    Plan {
        name: "slow-joiner",
        about: "two ready nodes, one joiner, two moments pass with messages in flight, one message doubled",
        ids: &[0x10, 0x90, 0x30],
        ready: 2,
        faults: Faults { late: Count(2), doubles: Count(1), ..NONE },
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver],
        ..BASE
    },
    Plan {
        name: "two-joiners",
        about: "two ready nodes, two joiners between them",
        ids: &[0x10, 0x90, 0x30, 0x40],
        ready: 2,
        faults: Faults { late: Count(1), ..NONE },
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver],
        ..BASE
    },
    Plan {
        name: "suspicions",
        about: "three ready nodes, two false suspicions",
        ids: &[0x10, 0x50, 0x90],
        ready: 3,
        faults: Faults { suspicions: Count(2), ..NONE },
        sometimes: &[Sometimes::TwoDeliver, Sometimes::Suspected],
        ..BASE
    },
    Plan {
        name: "suspicions-and-loss",
        about: "three ready nodes, two false suspicions, two messages lost, one moment passes with messages in flight",
        ids: &[0x10, 0x50, 0x90],
        ready: 3,
        faults: Faults { suspicions: Count(2), losses: Count(2), late: Count(1), ..NONE },
        sometimes: &[Sometimes::TwoDeliver, Sometimes::Suspected],
        ..BASE
    },
    Plan {
        name: "suspected-joiner",
        about: "two ready nodes, one joiner, one false suspicion, two moments pass with messages in flight",
        ids: &[0x10, 0x90, 0x30],
        ready: 2,
        faults: Faults { suspicions: Count(1), late: Count(2), ..NONE },
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver, Sometimes::Suspected],
        ..BASE
    },
    Plan {
        name: "cut-in-two",
        about: "two ready nodes, the link between them cut and mended",
        ids: &[0x10, 0x90],
        ready: 2,
        faults: Faults { cuts: Count(1), late: Count(1), ..NONE },
        heartbeat: Duration::from_millis(400),
        lull: Duration::from_millis(1800),
        span: Duration::from_millis(2600),
        sometimes: &[Sometimes::TwoDeliver, Sometimes::LeaseLost, Sometimes::Isolated],
        ..BASE
    },
    Plan {
        name: "left-alone",
        about: "two ready nodes, nothing gets through any more",
        ids: &[0x10, 0x90],
        ready: 2,
        broken: &[(0, 1), (1, 0)],
        heartbeat: Duration::from_millis(400),
        span: Duration::from_millis(3000),
        sometimes: &[Sometimes::TwoDeliver, Sometimes::LeaseLost, Sometimes::Isolated],
        ..BASE
    },
    Plan {
        name: "cut-one-off",
        about: "three ready nodes, one cut off from the others, or one link cut",
        ids: &[0x10, 0x50, 0x90],
        ready: 3,
        faults: Faults { cut_offs: Count(1), cuts: Count(1), ..NONE },
        heartbeat: Duration::from_millis(400),
        lull: Duration::from_millis(1800),
        span: Duration::from_millis(2600),
        sometimes: &[Sometimes::TwoDeliver, Sometimes::LeaseLost, Sometimes::Isolated],
        ..BASE
    },
    Plan {
        name: "relayed-link",
        about: "three ready nodes, one link cut, its ends talk through the third, at any pace",
        ids: &[0x10, 0x50, 0x90],
        ready: 3,
        faults: Faults { cuts: Count(1), relays: Count(1), ..NONE },
        heartbeat: Duration::from_millis(400),
        lull: Duration::from_millis(1800),
        span: Duration::from_millis(2600),
        sometimes: &[Sometimes::TwoDeliver, Sometimes::Suspected],
        ..BASE
    },
    Plan {
        name: "pause",
        about: "two ready nodes, one of them paused while a message is delivered to it",
        ids: &[0x10, 0x90],
        ready: 2,
        faults: Faults { pauses: Count(1), routes: Count(1), ..NONE },
        lull: Duration::from_millis(1100),
        sometimes: &[Sometimes::TwoDeliver, Sometimes::LeaseLost, Sometimes::Delivered],
        ..BASE
    },
    Plan {
        name: "long-pause",
        about: "three ready nodes, one paused before it gives a message to its application, until it is taken for dead",
        ids: &[0x10, 0x50, 0x90],
        ready: 3,
        faults: Faults { pauses: Count(1), routes: Count(1), ..NONE },
        heartbeat: Duration::from_millis(400),
        lull: Duration::from_millis(2100),
        span: Duration::from_millis(2400),
        sometimes: &[Sometimes::TwoDeliver, Sometimes::LeaseLost, Sometimes::Delivered],
        ..BASE
    },
    Plan {
        name: "restart",
        about: "three ready nodes, one crashes and comes back",
        ids: &[0x10, 0x50, 0x90],
        ready: 3,
        faults: Faults { crashes: Count(1), restarts: Count(1), ..NONE },
        sometimes: &[Sometimes::TwoDeliver, Sometimes::LeaseLost, Sometimes::Returned],
        ..BASE
    },
    Plan {
        name: "restarts",
        about: "three ready nodes, two crash and come back at once, two false suspicions",
        ids: &[0x10, 0x50, 0x90],
        ready: 3,
        faults: Faults { crashes: Count(2), restarts: Count(2), suspicions: Count(2), ..NONE },
        span: Duration::from_millis(400),
        sometimes: &[Sometimes::TwoDeliver, Sometimes::LeaseLost, Sometimes::Returned],
        ..BASE
    },
    Plan {
        name: "crowd-by-hint",
        about: "two ready nodes, two joiners between them, no leases and no faults at all",
        ids: &[0x00, 0x90, 0x30, 0x40],
        ready: 2,
        ownership: Ownership::Hint,
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver],
        ..BASE
    },
    Plan {
        name: "stopped-holder",
        about: "two ready nodes, one joiner, a node stopped until it is given up, for less than a lease",
        ids: &[0x20, 0xa0, 0x60],
        ready: 2,
        faults: Faults { pauses: Count(1), ..NONE },
        faults_after_joins: true,
        heartbeat: Duration::from_millis(100),
        lull: Duration::from_millis(400),
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver],
        ..BASE
    },
    Plan {
        name: "newcomer-leaves",
        about: "two ready nodes, two joiners, one of which leaves again; the other does not reach one of the first two",
        ids: &[0x10, 0xa0, 0x30, 0x60],
        ready: 2,
        broken: &[(0, 3), (3, 0)],
        faults: Faults { leaves: Count(1), ..NONE },
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver, Sometimes::LeaseLost],
        ..BASE
    },
    Plan {
        name: "passed-over",
        about: "two ready nodes, two joiners between them that do not get through to one of them",
        ids: &[0x00, 0x64, 0x0a, 0x3c],
        ready: 2,
        broken: &[(2, 0), (3, 0)],
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver],
        ..BASE
    },
    Plan {
        name: "line-of-links",
        about: "five ready nodes, links left in a line only",
        ids: &[0x00, 0x0a, 0x14, 0x3c, 0x50],
        ready: 5,
        leaf_set: 8,
        // 3 - 0 - 4 - 2 - 1 is left.
        broken: &[
            (0, 1),
            (1, 0),
            (0, 2),
            (2, 0),
            (1, 3),
            (3, 1),
            (1, 4),
            (4, 1),
            (2, 3),
            (3, 2),
            (3, 4),
            (4, 3),
        ],
        heartbeat: Duration::from_millis(400),
        span: Duration::from_millis(4000),
        sometimes: &[Sometimes::LeaseLost],
        ..BASE
    },
    Plan {
        name: "small-leaf-sets",
        about: "four ready nodes with a leaf on each side, one joiner, one false suspicion",
        ids: &[0x10, 0x50, 0x90, 0xd0, 0x30],
        ready: 4,
        leaf_set: 2,
        faults: Faults { suspicions: Count(1), ..NONE },
        sometimes: &[Sometimes::Joined, Sometimes::TwoDeliver, Sometimes::Suspected],
        ..BASE
    },
];

impl Plan {
    /// Finds a model by its name.
    pub fn named(name: &str) -> Option<Plan> {
        PLANS.iter().find(|plan| plan.name == name).copied()
    }

    /// Says in words what the model is bounded by.
    pub fn bounds(&self) -> String {
        let faults = &self.faults;
        let counted = [
            (faults.losses, "lost"),
            (faults.doubles, "doubled"),
            (faults.late, "moments with messages in flight"),
            (faults.suspicions, "false suspicions"),
            (faults.crashes, "crashes"),
            (faults.leaves, "polite leaves"),
            (faults.restarts, "restarts"),
            (faults.pauses, "pauses"),
            (faults.cuts, "cut links"),
            (faults.cut_offs, "nodes cut off"),
            (faults.relays, "relays"),
            (faults.routes, "messages"),
        ];
        let some = counted.iter().filter(|(count, _)| count.0 > 0);
        let mut parts: Vec<String> = some.map(|(count, what)| format!("{} {what}", count.0)).collect();
        if !self.broken.is_empty() {
            parts.push(format!("{} one-way links broken", self.broken.len()));
        }
        if parts.is_empty() {
            parts.push("nothing going wrong".into());
        }
        format!(
            "{} ready, {} joining, leaf set {}, by {}; at most {}; {:.1} s from the last disturbance",
            self.ready,
            self.ids.len() - usize::from(self.ready),
            self.leaf_set,
            if self.ownership == Ownership::Lease { "lease" } else { "hint" },
            parts.join(", "),
            self.span.as_secs_f64()
        )
    }

    /// Returns the settings of all nodes: nothing periodic within a model's horizon but leases, nothing measured,
    /// and short time-outs in round numbers.
    pub fn settings(&self, without: Option<Safeguard>) -> Settings {
        let brief = Duration::from_millis(100);
        Settings {
            leaf_set: self.leaf_set,
            replicas: u8::from(self.leaf_set > 2),
            neighbourhood: 0,
            spares: 0,
            metric: Metric::Application,
            ownership: self.ownership,
            lease: Duration::from_secs(1),
            without,
            hop_timeout_min: brief,
            hop_timeout_max: brief,
            transit_max: Duration::from_secs(5),
            seen_for: Duration::from_secs(10),
            probe_timeout_min: brief,
            probe_timeout_max: brief,
            probe_attempts: 1,
            probe_relays: 0,
            heartbeat: self.heartbeat,
            leaf_exchange: UPKEEP,
            row_swap: UPKEEP,
            neighbourhood_exchange: UPKEEP,
            heal: UPKEEP,
            budget: u32::MAX,
            budget_burst: u32::MAX,
            find_nearby: false,
            join_timeout: Duration::from_millis(300),
            join_backoff_min: brief,
            join_backoff_max: brief * 2,
            help_timeout: Duration::from_millis(500),
            ..Settings::default()
        }
    }
}
