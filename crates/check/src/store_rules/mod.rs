//! The rules of the replicated store, as an abstract model: one slot, one key, few replicas, every order.
//!
//! This is written before the store itself and shares no code with it. It says what the rules say, so that a hole is
//! found in them and not in a program. A [`plan::Plan`] bounds a world, [`Left`] names a rule that is left out of it,
//! [`search`] looks for a state in which a property is broken.
//!
//! A message is never lost and never used up: a message that is not delivered is lost, one that is delivered twice is
//! doubled. Replies are kept with whoever asked, who looks at any quorum of them at any later time.

mod act;
mod data;
mod linear;
pub mod plan;
mod props;
mod state;
mod view;

use crate::explore::{Bounds, Search};
use crate::search::Found;

/// Searches a world. Ends at the first broken property.
pub fn search(plan: plan::Plan, how: Search, bounds: Bounds) -> Found {
    let strict = matches!(how, Search::Walks(_));
    crate::search::search(&act::World { plan, strict }, how, bounds)
}

/// A rule that can be left out, to see that it is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// A frozen replica serves no data operation.
    Freeze,
    /// The next view is decided together with a merged state, to which its members are reset.
    Merge,
    /// A plain write below a promise is refused.
    PromiseBindsPlain,
    /// A conditional write starts over in a new epoch, it does not send its accept again.
    CasStartsOver,
    /// A replica answers after its state is durable.
    SyncFirst,
    /// A read that saw different versions writes the highest back.
    WriteBack,
    /// A node that lost its disk is no member any more.
    Born,
    /// A replica that has not caught up does not count.
    CaughtUp,
    /// A read that was writing back starts over in a new epoch, it does not send its accept again.
    ReadStartsOver,
    /// A value that is proposed again keeps the version it was written with.
    KeepVersion,
    /// Accepting a next view promises its ballot, and so freezes.
    AcceptPromises,
    /// A next view is accepted together with the state it starts from, in one step.
    StateWithAccept,
    /// That one step is one: without it a replica takes the state first, in place, and accepts only while it has it.
    OneStep,
    /// A number is never made twice, also not after a crash.
    NumbersLast,
    /// A state that was asked for while catching up is not taken any more afterwards.
    LateState,
    /// A read that was refused while writing back proposes again under a ballot of its own.
    ReadPrepares,
}

impl Left {
    /// What the rules did not say when they were first written down.
    pub const AS_WRITTEN: &'static [Left] =
        &[Left::KeepVersion, Left::AcceptPromises, Left::StateWithAccept, Left::ReadPrepares];

    /// All of them.
    pub const ALL: [Left; 16] = [
        Left::Freeze,
        Left::Merge,
        Left::PromiseBindsPlain,
        Left::CasStartsOver,
        Left::SyncFirst,
        Left::WriteBack,
        Left::Born,
        Left::CaughtUp,
        Left::ReadStartsOver,
        Left::KeepVersion,
        Left::AcceptPromises,
        Left::StateWithAccept,
        Left::OneStep,
        Left::NumbersLast,
        Left::LateState,
        Left::ReadPrepares,
    ];
}
