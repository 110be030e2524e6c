//! From what a history says to what the store understands, and back.

use kringle_core::edge::{Failure, Reply};
use kringle_core::store::op::{Action as Ask, Change, Digest, Found, Trouble, Value};

use crate::history::{Action, Condition, Happened, Outcome, Seen};

/// Returns what to ask the store.
pub(super) fn action(action: &Action) -> Ask {
    let bytes = |value: &String| value.as_bytes().to_vec();
    let change = |change, condition: Condition| Ask::Change { change, condition };
    match action {
        Action::Read => Ask::Get,
        Action::Write { value, ttl, condition } => {
            change(Change::Put { value: bytes(value), ttl: *ttl }, *condition)
        }
        Action::Delete { condition } => change(Change::Delete, *condition),
        Action::Increment(by) => change(Change::Increment(*by), Condition::Always),
        Action::Expire(ttl) => change(Change::Expire(*ttl), Condition::Always),
        Action::Add { value, ttl } => Ask::Add { digest: digest(value), value: bytes(value), ttl: *ttl },
        Action::Remove { value } => Ask::Remove { digest: digest(value) },
        Action::Members => Ask::Members,
    }
}

/// Returns what an answer says.
pub(super) fn outcome(reply: Result<Reply, Failure>) -> Outcome {
    match reply {
        Ok(Reply::Store(answer)) => match answer.found {
            Found::Value(value) => Outcome::Value(value.map(seen)),
            Found::Changed { version, number, .. } => Outcome::Changed { version, number },
            Found::Members(values) => Outcome::Members(values.into_iter().map(seen).collect()),
            // Nobody asks for these here.
            Found::Place { .. } | Found::Keys { .. } => Outcome::Failed(Happened::Unknown),
        },
        Err(Failure::Store(trouble)) => match trouble {
            Trouble::TooFewReplicas { happened, .. }
            | Trouble::Timeout { happened }
            | Trouble::NoSpace { happened } => Outcome::Failed(happened),
            Trouble::ConditionFailed(version) => Outcome::ConditionFailed(version),
            Trouble::WrongKind
            | Trouble::TooLarge { .. }
            | Trouble::OutOfRange
            | Trouble::BadRequest
            | Trouble::ClockOff
            | Trouble::Busy
            | Trouble::Damaged => Outcome::Failed(Happened::No),
        },
        Err(
            Failure::NotJoined
            | Failure::AlreadyJoined
            | Failure::NoSeeds
            | Failure::JoinRefused(_)
            | Failure::Busy
            | Failure::TooLarge
            | Failure::NoStore,
        ) => Outcome::Failed(Happened::No),
        // The others say that something was under way.
        Ok(_) | Err(_) => Outcome::Failed(Happened::Unknown),
    }
}

/// Damaged text stays readable: as a value that nobody has written.
fn seen(Value { bytes, version, .. }: Value) -> Seen {
    Seen { value: String::from_utf8_lossy(&bytes).into_owned(), version }
}

/// Names a value of a set. The store does not look into it, so it need not be the product's hash.
fn digest(value: &str) -> Digest {
    let (low, high) = (hash(value.as_bytes()), hash(format!("{value}+").as_bytes()));
    Digest((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
    })
}
