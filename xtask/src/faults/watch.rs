//! What all nodes say about themselves, over time.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::Client;
use super::json::Value;
use super::ring::Ring;

/// How long after a round of questions the next one begins.
const PERIOD: Duration = Duration::from_millis(200);

/// What one node said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) status: String,
    pub(super) left: String,
    pub(super) right: String,
    pub(super) suspects: Vec<String>,
    /// The part of the ring it may deliver for now: the first id, and the one after the last; the same twice: all of it.
    claim: Option<(u128, u128)>,
}

impl Seen {
    fn of(summary: &Value) -> Seen {
        let text = |name: &str| summary[name].as_str().unwrap_or_default().to_owned();
        let id = |value: &Value| u128::from_str_radix(value.as_str()?, 16).ok();
        let range = &summary["range"];
        let claim = match (id(&range[0]), id(&range[1])) {
            (Some(from), Some(to)) => Some((from, to)),
            _ => (summary["share"].as_f64() == Some(1.0)).then_some((0, 0)),
        };
        let suspects = summary["suspects"].list().iter();
        Seen {
            status: text("status"),
            left: text("left"),
            right: text("right"),
            suspects: suspects.filter_map(Value::as_str).map(String::from).collect(),
            claim: claim.filter(|_| summary["entitled"] == true),
        }
    }
}

/// One round: what each node said, in this order, or that it did not answer.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) at: Instant,
    pub(super) nodes: Vec<Option<Seen>>,
}

/// Asks all nodes again and again until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    rounds: Arc<Mutex<Vec<Round>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(ring: &Ring) -> Watch {
        let (rounds, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (urls, kept, stopped) = (ring.urls(), Arc::clone(&rounds), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let client = Client::new();
            let wait = Duration::from_millis(300);
            while !stopped.load(SeqCst) {
                let at = Instant::now();
                let look = |url: &String| {
                    let reply = client.send("GET", url, "/v1/status?local=true", &[], wait);
                    (reply.status == 200).then(|| Seen::of(&reply.document()["self"]))
                };
                let nodes = urls.iter().map(look).collect();
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(Round { at, nodes });
                std::thread::sleep(PERIOD);
            }
        });
        Watch { rounds, stop, thread: Some(thread) }
    }

    /// Returns the rounds since some time.
    pub(super) fn since(&self, start: Instant) -> Vec<Round> {
        let rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.iter().filter(|round| round.at >= start).cloned().collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Counts rounds in which two of these nodes may deliver for one key at one instant.
///
/// Nodes are asked one after the other. A double is counted only if one node claims a key in two rounds, and the other one,
/// asked in between, claims it as well.
pub(super) fn doubles(rounds: &[Round], nodes: &[usize]) -> usize {
    let is_double = |pair: &[Round]| {
        nodes.iter().any(|first| {
            let between = nodes.iter().filter(|second| *second > first);
            between.into_iter().any(|second| {
                let claim = |round: &Round, at: usize| round.nodes.get(at)?.as_ref()?.claim;
                let claims = [claim(&pair[0], *first), claim(&pair[0], *second), claim(&pair[1], *first)];
                claims.iter().all(Option::is_some) && meet(&claims.map(Option::unwrap_or_default))
            })
        })
    };
    rounds.windows(2).filter(|pair| is_double(pair)).count()
}

/// Says whether some id is in all of these parts of the ring.
fn meet(parts: &[(u128, u128)]) -> bool {
    let has =
        |(from, to): (u128, u128), id: u128| from == to || id.wrapping_sub(from) < to.wrapping_sub(from);
    parts.iter().any(|(start, _)| parts.iter().all(|part| has(*part, *start)))
}

/// Returns the longest time for which a part of the ring had no deliverer among these nodes.
pub(super) fn longest_gap(rounds: &[Round]) -> Duration {
    let is_covered = |round: &Round| {
        let parts: Vec<(u128, u128)> = round.nodes.iter().flatten().filter_map(|seen| seen.claim).collect();
        // Every part has to end where another one begins, or inside it.
        !parts.is_empty() && parts.iter().all(|(from, to)| from == to || meet_point(&parts, *to))
    };
    longest(rounds, |round| !is_covered(round))
}

fn meet_point(parts: &[(u128, u128)], id: u128) -> bool {
    parts.iter().any(|(from, to)| from == to || id.wrapping_sub(*from) < to.wrapping_sub(*from))
}

/// Returns the longest time for which something held in every round.
pub(super) fn longest(rounds: &[Round], holds: impl Fn(&Round) -> bool) -> Duration {
    let (mut longest, mut since) = (Duration::ZERO, None);
    for round in rounds {
        match holds(round) {
            true => longest = longest.max(round.at - *since.get_or_insert(round.at)),
            false => since = None,
        }
    }
    longest
}

/// Counts how often something changed from one round to the next.
pub(super) fn changes(rounds: &[Round], state: impl Fn(&Round) -> bool) -> usize {
    rounds.windows(2).filter(|pair| state(&pair[0]) != state(&pair[1])).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(start: Instant, at: u64, claims: &[Option<(u128, u128)>]) -> Round {
        let seen = |claim: &Option<(u128, u128)>| Some(Seen { claim: *claim, ..Seen::default() });
        Round { at: start + Duration::from_secs(at), nodes: claims.iter().map(seen).collect() }
    }

    #[test]
    fn a_double_needs_two_claims_that_hold_at_one_instant() {
        let start = Instant::now();
        let both =
            [round(start, 0, &[Some((0, 10)), Some((5, 20))]), round(start, 1, &[Some((0, 10)), None])];
        assert_eq!(doubles(&both, &[0, 1]), 1);
        assert_eq!(doubles(&both, &[0]), 0);
        let handed_over =
            [round(start, 0, &[Some((0, 10)), Some((5, 20))]), round(start, 1, &[Some((0, 5)), None])];
        assert_eq!(doubles(&handed_over, &[0, 1]), 0);
        assert!(meet(&[(u128::MAX - 1, 3), (2, 9)]) && meet(&[(7, 7), (2, 9)]) && !meet(&[(0, 2), (2, 9)]));
    }

    #[test]
    fn a_gap_lasts_until_every_part_has_a_deliverer() {
        let start = Instant::now();
        let whole = [Some((0, 10)), Some((10, 0))];
        let rounds = [
            round(start, 0, &whole),
            round(start, 1, &[Some((0, 10)), None]),
            round(start, 3, &[None, None]),
            round(start, 4, &whole),
        ];
        assert_eq!(longest_gap(&rounds), Duration::from_secs(2));
        assert_eq!(
            changes(&rounds, |round| round.nodes[1].as_ref().is_some_and(|seen| seen.claim.is_some())),
            2
        );
    }

    #[test]
    fn claims_are_those_of_entitled_nodes() {
        let text = |entitled: bool| {
            let range = r#"["0000000000000000000000000000000a", "00000000000000000000000000000014"]"#;
            let rest = r#""status": "ready", "share": 0.1, "suspects": ["x"]"#;
            format!(r#"{{ "entitled": {entitled}, "range": {range}, {rest} }}"#)
        };
        let seen = Seen::of(&Value::parse(&text(true)));
        assert_eq!((seen.claim, seen.suspects.len()), (Some((10, 20)), 1));
        assert_eq!(Seen::of(&Value::parse(&text(false))).claim, None);
    }
}
