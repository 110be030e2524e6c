//! What the core tells for counters and traces.

use super::*;

/// Something that happened, for counters and traces. The core neither logs nor counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Something came in that was not accepted; nothing changed.
    Refused(Refusal),
    /// A routed message went on.
    Forwarded(Rule),
    /// A message came to its end here.
    Delivered,
    /// A next hop stayed silent, the message went another way.
    Rerouted,
    /// A next hop stayed silent, the message was sent to it once more: it is the only right one.
    Resent,
    /// A message waits: the node it should go to is in doubt or not ready.
    Held,
    /// A message was given up; its origin was told.
    GaveUp,
    /// A message arrived again and was not delivered again.
    Duplicate,
    /// A receipt could not go directly and was routed.
    ReceiptRouted,
    /// A peer missed a probe: kept, but avoided.
    Suspected(Contact),
    /// A suspected peer answered.
    Cleared(Contact),
    /// A peer is reachable through others only: kept, but avoided.
    HalfReachable(Contact),
    /// Probes found a peer dead.
    Died(Contact),
    /// A joiner is being helped.
    Helping,
    /// A joiner waits for another to be helped.
    Queued,
    /// A join attempt failed and will be repeated.
    JoinRetried,
    /// A nearer node than the seed was found to join through.
    NearerSeed,
    /// A joiner built on tables that had changed since.
    Raced,
    /// A routing-table cell was filled for the first time.
    CellFilled,
    /// A routing-table cell got a nearer node.
    CellImproved,
    /// A spare took over a cell.
    SparePromoted,
    /// A lost cell was asked for.
    CellAsked,
    /// A hop told about a better entry for a cell.
    LazyRepair,
    /// A lost leaf was asked for.
    LeafAsked,
    /// A side of the leaf set ran empty; the table leads to whoever comes there.
    LeafSought,
    /// The last peer is gone; the node looks for its ring.
    Isolated,
    /// Background work was put off to stay within the traffic budget.
    BudgetSpent,
    /// A neighbour granted a lease.
    LeaseGranted,
    /// A neighbour refused a lease: it has a nearer one, or is bound by another.
    LeaseRefused,
    /// A lease ran out, or its grantor is gone.
    LeaseLost,
    /// Somebody nearer than the grantor of a lease has come; the grantor was told.
    LeaseDisplaced,
    /// The holder of a lease was asked whether it knows a newcomer that wants it.
    LeaseRecalled,
    /// For three leases now, this node has not been allowed to deliver.
    LeasesOverdue,
    /// A node that has been out of touch hears its whole leaf set again before it grants anything.
    Verifying,
    /// A peer found dead stays in the leaf set until the lease it holds from us has run out.
    KeptDead(Contact),
    /// A delivery came too late and was taken back.
    DeliverRefused,
    /// A vanished peer was asked for its ring.
    HealAsked,
    /// A vanished peer's ring answered.
    HealAnswered,
    /// Chord: a query was given up because others wait.
    GaveWay,
    /// Chord: all members have agreed on a list.
    ListHolds,
    /// Chord: a finger was looked up.
    FingerFound,
    /// Chord: a small group goes over to another one.
    Dissolved,
    /// Chord: a ring that has become too small is a list of all members again.
    WentBack,
}

kinds! {
    /// Why something that came in was not accepted. Nothing was changed by it.
    pub enum Refusal {
        /// The bytes are not a message of this protocol.
        Malformed = "malformed",
        /// The bytes end too early.
        Truncated = "truncated",
        /// Longer than a message may be, or a list in it is.
        Oversized = "oversized",
        /// Written in a version this node can not read.
        WrongVersion = "wrong-version",
        /// From another cluster.
        WrongCluster = "wrong-cluster",
        /// A kind of message this node does not know.
        UnknownKind = "unknown-kind",
        /// An answer to a question that is not open: never asked, already answered, or asked of somebody else.
        Unsolicited = "unsolicited",
        /// Claims to come from this node itself.
        FromSelf = "from-self",
        /// From an earlier life of a peer that is known in a later one.
        StaleIncarnation = "stale-incarnation",
        /// Same id and incarnation as a known peer, other address.
        DuplicateId = "duplicate-id",
        /// From a peer that has just said goodbye: sent before, overtaken on the way.
        Departed = "departed",
        /// A message for another kind of overlay.
        WrongOverlay = "wrong-overlay",
        /// This node is not part of a ring.
        NotJoined = "not-joined",
        /// A row or column that does not exist.
        OutOfRange = "out-of-range",
        /// A receipt that reached a node it is not for.
        Misrouted = "misrouted",
        /// Took more hops than allowed.
        TooManyHops = "too-many-hops",
        /// A queue is full, of what came in or of what we wanted to ask.
        Full = "full",
        /// A relay was asked for a node that is not known here.
        UnknownTarget = "unknown-target",
        /// A list of nodes, or a step to one, that the sender's place on the ring makes impossible.
        BadList = "bad-list",
    }
}

kinds! {
    /// Kinds of notes, for counting.
    pub enum NoteKind {
        /// [`Note::Refused`]
        Refused = "refused",
        /// [`Note::Forwarded`] by [`Rule::LeafSet`]
        ByLeafSet = "forwarded-leaf-set",
        /// [`Note::Forwarded`] by [`Rule::Cell`]
        ByCell = "forwarded-cell",
        /// [`Note::Forwarded`] by [`Rule::Spare`]
        BySpare = "forwarded-spare",
        /// [`Note::Forwarded`] by [`Rule::RareCase`]
        ByRareCase = "forwarded-rare-case",
        /// [`Note::Forwarded`] by [`Rule::SuccessorList`]
        BySuccessorList = "forwarded-successor-list",
        /// [`Note::Forwarded`] by [`Rule::Finger`]
        ByFinger = "forwarded-finger",
        /// [`Note::Forwarded`] by [`Rule::Predecessor`]
        ByPredecessor = "forwarded-predecessor",
        /// [`Note::Delivered`]
        Delivered = "delivered",
        /// [`Note::Rerouted`]
        Rerouted = "rerouted",
        /// [`Note::Resent`]
        Resent = "resent",
        /// [`Note::Held`]
        Held = "held",
        /// [`Note::GaveUp`]
        GaveUp = "gave-up",
        /// [`Note::Duplicate`]
        Duplicate = "duplicate",
        /// [`Note::ReceiptRouted`]
        ReceiptRouted = "receipt-routed",
        /// [`Note::Suspected`]
        Suspected = "suspected",
        /// [`Note::Cleared`]
        Cleared = "cleared",
        /// [`Note::HalfReachable`]
        HalfReachable = "half-reachable",
        /// [`Note::Died`]
        Died = "died",
        /// [`Note::Helping`]
        Helping = "helping",
        /// [`Note::Queued`]
        Queued = "queued",
        /// [`Note::JoinRetried`]
        JoinRetried = "join-retried",
        /// [`Note::NearerSeed`]
        NearerSeed = "nearer-seed",
        /// [`Note::Raced`]
        Raced = "raced",
        /// [`Note::CellFilled`]
        CellFilled = "cell-filled",
        /// [`Note::CellImproved`]
        CellImproved = "cell-improved",
        /// [`Note::SparePromoted`]
        SparePromoted = "spare-promoted",
        /// [`Note::CellAsked`]
        CellAsked = "cell-asked",
        /// [`Note::LazyRepair`]
        LazyRepair = "lazy-repair",
        /// [`Note::LeafAsked`]
        LeafAsked = "leaf-asked",
        /// [`Note::LeafSought`]
        LeafSought = "leaf-sought",
        /// [`Note::Isolated`]
        Isolated = "isolated",
        /// [`Note::BudgetSpent`]
        BudgetSpent = "budget-spent",
        /// [`Note::LeaseGranted`]
        LeaseGranted = "lease-granted",
        /// [`Note::LeaseRefused`]
        LeaseRefused = "lease-refused",
        /// [`Note::LeaseLost`]
        LeaseLost = "lease-lost",
        /// [`Note::LeaseDisplaced`]
        LeaseDisplaced = "lease-displaced",
        /// [`Note::LeaseRecalled`]
        LeaseRecalled = "lease-recalled",
        /// [`Note::LeasesOverdue`]
        LeasesOverdue = "leases-overdue",
        /// [`Note::Verifying`]
        Verifying = "verifying",
        /// [`Note::KeptDead`]
        KeptDead = "kept-dead",
        /// [`Note::DeliverRefused`]
        DeliverRefused = "deliver-refused",
        /// [`Note::HealAsked`]
        HealAsked = "heal-asked",
        /// [`Note::HealAnswered`]
        HealAnswered = "heal-answered",
        /// [`Note::GaveWay`]
        GaveWay = "gave-way",
        /// [`Note::ListHolds`]
        ListHolds = "list-holds",
        /// [`Note::FingerFound`]
        FingerFound = "finger-found",
        /// [`Note::Dissolved`]
        Dissolved = "dissolved",
        /// [`Note::WentBack`]
        WentBack = "went-back",
    }
}

impl Note {
    /// Returns the kind to count this note by.
    pub fn kind(self) -> NoteKind {
        match self {
            Note::Refused(_) => NoteKind::Refused,
            Note::Forwarded(Rule::Cell { .. }) => NoteKind::ByCell,
            Note::Forwarded(Rule::Spare { .. }) => NoteKind::BySpare,
            Note::Forwarded(Rule::RareCase) => NoteKind::ByRareCase,
            Note::Forwarded(Rule::SuccessorList) => NoteKind::BySuccessorList,
            Note::Forwarded(Rule::Finger { .. }) => NoteKind::ByFinger,
            Note::Forwarded(Rule::Predecessor) => NoteKind::ByPredecessor,
            // `Here` is never a reason to forward; it stands with the rule it ends.
            Note::Forwarded(Rule::LeafSet | Rule::Here) => NoteKind::ByLeafSet,
            Note::Delivered => NoteKind::Delivered,
            Note::Rerouted => NoteKind::Rerouted,
            Note::Resent => NoteKind::Resent,
            Note::Held => NoteKind::Held,
            Note::GaveUp => NoteKind::GaveUp,
            Note::Duplicate => NoteKind::Duplicate,
            Note::ReceiptRouted => NoteKind::ReceiptRouted,
            Note::Suspected(_) => NoteKind::Suspected,
            Note::Cleared(_) => NoteKind::Cleared,
            Note::HalfReachable(_) => NoteKind::HalfReachable,
            Note::Died(_) => NoteKind::Died,
            Note::Helping => NoteKind::Helping,
            Note::Queued => NoteKind::Queued,
            Note::JoinRetried => NoteKind::JoinRetried,
            Note::NearerSeed => NoteKind::NearerSeed,
            Note::Raced => NoteKind::Raced,
            Note::CellFilled => NoteKind::CellFilled,
            Note::CellImproved => NoteKind::CellImproved,
            Note::SparePromoted => NoteKind::SparePromoted,
            Note::CellAsked => NoteKind::CellAsked,
            Note::LazyRepair => NoteKind::LazyRepair,
            Note::LeafAsked => NoteKind::LeafAsked,
            Note::LeafSought => NoteKind::LeafSought,
            Note::Isolated => NoteKind::Isolated,
            Note::BudgetSpent => NoteKind::BudgetSpent,
            Note::LeaseGranted => NoteKind::LeaseGranted,
            Note::LeaseRefused => NoteKind::LeaseRefused,
            Note::LeaseLost => NoteKind::LeaseLost,
            Note::LeaseDisplaced => NoteKind::LeaseDisplaced,
            Note::LeaseRecalled => NoteKind::LeaseRecalled,
            Note::LeasesOverdue => NoteKind::LeasesOverdue,
            Note::Verifying => NoteKind::Verifying,
            Note::KeptDead(_) => NoteKind::KeptDead,
            Note::DeliverRefused => NoteKind::DeliverRefused,
            Note::HealAsked => NoteKind::HealAsked,
            Note::HealAnswered => NoteKind::HealAnswered,
            Note::GaveWay => NoteKind::GaveWay,
            Note::ListHolds => NoteKind::ListHolds,
            Note::FingerFound => NoteKind::FingerFound,
            Note::Dissolved => NoteKind::Dissolved,
            Note::WentBack => NoteKind::WentBack,
        }
    }
}
