//! The rules that keep a ring one ring and a key with one deliverer, by name.
//!
//! Each exists because something goes wrong without it. Builds with the feature `mutants` can leave one out, so that
//! tests and the model checker show what: a rule that nobody misses is not understood.

use crate::kinds::kinds;

kinds! {
    /// A rule of the protocol.
    pub enum Safeguard {
        /// deliver only with unexpired leases of both sides; become ready only then.
        ReadyNeedsLeases = "ready-needs-leases",
        /// help one joiner at a time.
        OneJoiner = "one-joiner",
        /// a lease is for one side only.
        Sides = "sides",
        /// whoever holds a lease from us is not removed as dead before it has run out.
        KeepGranted = "keep-granted",
        /// the asker enters the leaf set before it is granted a lease, and only the neighbour is granted one.
        AddFirst = "add-first",
        /// a node that had peers and lost them all delivers nothing.
        Isolation = "isolation",
        /// answers count only while their question is open.
        SolicitedOnly = "solicited-only",
        /// a later incarnation replaces an earlier one at once, and an earlier one is not listened to.
        NewLife = "new-life",
        /// leases go by a clock that neither jumps nor stops. Kept by drivers.
        SteadyClock = "steady-clock",
        /// a delivery that comes after the end of the lease is not executed. Kept by drivers.
        NotAfter = "not-after",
        /// after a restart nothing is granted, and no ring joined, before the neighbours have told what they hold.
        RestartWaits = "restart-waits",
        /// only own probes find a peer dead; a report is a reason to probe.
        OwnProbes = "own-probes",
        /// vanished peers are asked for their ring.
        Heal = "heal",
        /// a polite leaver gives its leases back.
        ReturnLeases = "return-leases",
        /// A newcomer is granted a lease only when whoever holds it now knows the newcomer.
        Displaced = "displaced",
        /// Whoever is beyond a lost neighbour is kept for as long as it may hold a lease of that neighbour's.
        Inherit = "inherit",
        /// A lease is good only from the present neighbour, or from the one a nearer newcomer displaced.
        CurrentNeighbour = "current-neighbour",
        /// No lease while one side knows a node that would be the other's neighbour.
        Agreement = "agreement",
        /// A node grants only if it has lately heard from its whole leaf set, or held both leases.
        Verified = "verified",
        /// A node grants as soon as its leaf set is complete, not only when it holds leases itself.
        GrantBeforeReady = "grant-before-ready",
        /// A node that lost a whole side of its leaf set looks for the nearest node there.
        SeekSide = "seek-side",
        /// Store: a member that has promised a successor of its epoch serves nothing under it.
        Freeze = "freeze",
        /// Store: a member serves only once it has the state its epoch began with.
        CatchUp = "catch-up",
        /// Store: a new epoch begins with one state, which a quorum of the old one had.
        Settle = "settle",
        /// Store: nothing is acknowledged before it is durable.
        SyncFirst = "sync-first",
        /// Store: nothing lower than what was promised is taken.
        Promises = "promises",
        /// Store: a read returns what a quorum has, or makes it so first.
        ReadRepair = "read-repair",
        /// Store: a node that lost its disk is not the member it was.
        Born = "born",
        /// Store: a step of the wall clock moves no version and no end of a time to live.
        ClusterTime = "cluster-time",
        /// Store: a version far ahead of a member's clock is refused.
        ClockAhead = "clock-ahead",
        /// Store: a coordinator stores a plain write after another member has.
        StoreSecond = "store-second",
        /// Store: a write is acknowledged under a view that has as many members as there are to be copies.
        EnoughCopies = "enough-copies",
        /// Store: a set that was last agreed on long ago is agreed on once more before a value is added.
        FreshSets = "fresh-sets",
        /// Store: a conditional write starts over when the epoch changes under it.
        StartOver = "start-over",
        /// Chord, R-20: whoever may be a better successor is asked before it is one.
        AskFirst = "ask-first",
        /// Chord, R-20: a joiner asks its successor-to-be before it takes that node's list.
        AskHead = "ask-head",
        /// Chord, R-21: the predecessor is asked whether it is there before another takes its place.
        AskPredecessor = "ask-predecessor",
        /// Chord, R-22: a ring begins with a list of r + 3 members that all of them have agreed to.
        Forming = "forming",
        /// Chord, R-22: a ring that has shrunk to r + 1 members becomes a list of all of them again.
        WayBack = "way-back",
        /// Chord, R-23: every stabilization ends with a Notify, whatever the successor said.
        AlwaysNotify = "always-notify",
        /// Chord, R-24: who hears Busy while others wait for it gives its own query up.
        GiveUp = "give-up",
        /// Chord, R-25: a join that came to nothing starts again.
        JoinAgain = "join-again",
        /// Chord, R-26: a silent successor is suspected, not forgotten.
        Suspects = "suspects",
        /// Chord, R-27: answers count only from the life that was asked, and for the open question.
        ThisLife = "this-life",
        /// Chord, R-28: lists that can not be their sender's are refused.
        CheckLists = "check-lists",
        /// Chord: after a better successor was found, it is the one that is told.
        NotifyNew = "notify-new",
    }
}
