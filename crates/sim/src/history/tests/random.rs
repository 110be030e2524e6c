//! Histories of a real register, with the times of questions and answers stretched around the moments things happened.

use std::collections::BTreeMap;

use kringle_core::dice::{Dice, SeededDice};
use proptest::prelude::*;

use super::*;

/// How histories are made.
struct Shape {
    operations: usize,
    /// Up to how many operations one overlaps to either side.
    overlap: usize,
    /// How many of a hundred are not answered.
    unanswered: usize,
    numbers: bool,
}

/// Runs a register, one operation every ten milliseconds.
fn history(dice: &mut SeededDice, shape: &Shape) -> Vec<Operation> {
    let mut state: Option<(String, Version)> = None;
    let mut versions = vec![Version(1)];
    let mut history = Vec::new();
    for at in 0..shape.operations as u64 {
        let now = 10_000 + at * 10;
        let version = Version(1000 + at * 10);
        let is = state.as_ref().map_or(Version::ZERO, |(_, version)| *version);
        let condition = match dice.below(6) {
            0 => Condition::Absent,
            1 => Condition::Present,
            2 => Condition::Version(is),
            3 => Condition::Version(versions[dice.below(versions.len())]),
            _ => Condition::Always,
        };
        let holds = match condition {
            Condition::Always => true,
            Condition::Absent => state.is_none(),
            Condition::Present => state.is_some(),
            Condition::Version(version) => state.is_some() && version == is,
        };
        let happens = dice.below(2) == 0;
        let answered = dice.below(100) >= shape.unanswered;
        let action = match dice.below(if shape.numbers { 12 } else { 9 }) {
            0..=3 => Action::Read,
            4..=7 if shape.numbers => write_if(&dice.below(5).to_string(), condition),
            4..=7 => write_if(&format!("w{at}"), condition),
            8 => Action::Delete { condition },
            _ => Action::Increment(1 + dice.below(3) as i64),
        };
        // Not answered: it may have happened or not.
        let effective = answered || happens;
        let outcome = match &action {
            Action::Read => Outcome::Value(
                state.as_ref().map(|(value, version)| Seen { value: value.clone(), version: *version }),
            ),
            Action::Write { .. } | Action::Delete { .. } if !holds => Outcome::ConditionFailed(is),
            Action::Write { value, .. } => {
                if effective {
                    state = Some((value.clone(), version));
                }
                Outcome::Changed { version, number: None }
            }
            Action::Increment(by) => {
                let before = state.as_ref().map_or(0, |(value, _)| value.parse().unwrap_or(0));
                if effective {
                    state = Some(((before + by).to_string(), version));
                }
                Outcome::Changed { version, number: Some(before + by) }
            }
            _ => {
                let changed = state.is_some();
                if effective {
                    state = None;
                }
                Outcome::Changed { version: if changed { version } else { Version::ZERO }, number: None }
            }
        };
        versions.extend(state.as_ref().map(|(_, version)| *version));
        let mut stretch = || dice.below(shape.overlap * 10 + 1) as u64;
        let (from, to) = (now - 1 - stretch(), now + 1 + stretch());
        let refused = matches!(outcome, Outcome::ConditionFailed(_));
        let (to, outcome) = match answered {
            true => (to, outcome),
            false if refused || !effective => (0, Outcome::Open),
            false if dice.below(2) == 0 => (0, Outcome::Open),
            false => (to, Outcome::Failed(Happened::Unknown)),
        };
        history.push(op(at as u32, from, to, action, outcome));
    }
    history
}

/// Breaks one answer: a read shows what another read showed, or a write on a condition succeeds that did not.
fn mutate(history: &mut [Operation], dice: &mut SeededDice) -> bool {
    let reads: Vec<usize> = (0..history.len()).filter(|at| history[*at].seen().is_some()).collect();
    let by_value: BTreeMap<&str, usize> =
        reads.iter().filter_map(|at| Some((history[*at].seen()?.value.as_str(), *at))).collect();
    if by_value.len() < 3 {
        return false;
    }
    let (one, other) = (reads[dice.below(reads.len())], reads[dice.below(reads.len())]);
    if history[one].outcome == history[other].outcome {
        return false;
    }
    history[one].outcome = history[other].outcome.clone();
    true
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_register_did_passes(seed: u64, overlap in 0usize..6, unanswered in 0usize..40, numbers: bool) {
        let shape = Shape { operations: 60, overlap, unanswered, numbers };
        let history = history(&mut SeededDice::new(seed), &shape);
        if let Err(finding) = check(&history) {
            prop_assert!(false, "{}", finding);
        }
    }
}

#[test]
fn long_histories_are_decided() {
    for seed in 0..30 {
        for numbers in [false, true] {
            let shape = Shape { operations: 200, overlap: 5, unanswered: 10, numbers };
            let history = history(&mut SeededDice::new(seed), &shape);
            let looked =
                register::check(&history, &Rules::default()).unwrap_or_else(|finding| panic!("{finding}"));
            assert_eq!((looked.keys, looked.undecided.len()), (1, 0), "seed {seed}");
        }
    }
}

#[test]
fn most_wrong_answers_are_found() {
    let (mut planted, mut caught, mut undecided, mut longest) = (0, 0, 0, 0);
    for seed in 0..400 {
        let mut dice = SeededDice::new(seed);
        let shape = Shape { operations: 100, overlap: 2, unanswered: 10, numbers: false };
        let mut history = history(&mut dice, &shape);
        if !mutate(&mut history, &mut dice) {
            continue;
        }
        planted += 1;
        match register::check(&history, &Rules::default()) {
            Err(finding) => {
                caught += 1;
                longest = longest.max(finding.history.len());
            }
            Ok(looked) => undecided += looked.undecided.len(),
        }
    }
    println!("{caught} of {planted} caught, {undecided} undecided, the longest told in {longest}");
    assert!(
        planted > 200 && caught * 10 > planted * 9 && undecided == 0,
        "{caught} of {planted}, {undecided}"
    );
    assert!(longest <= 25, "{longest}");
}
