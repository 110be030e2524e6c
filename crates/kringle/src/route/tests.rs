use kringle_core::dice::{Dice, SeededDice};

use super::*;
use crate::canned;
use crate::notation::Notation;
use crate::teaching::{Sizes, contact};

fn random_id(notation: Notation, dice: &mut SeededDice) -> Id {
    let full = Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()));
    notation.parse(&notation.text(full)).unwrap()
}

/// A key like any other, or one chosen to be awkward: near a known node, or half way between two.
fn random_key(node: &Teaching, dice: &mut SeededDice) -> Id {
    let notation = node.notation();
    let known: Vec<Id> = node.router().nodes().map(|contact| contact.id).chain([node.me()]).collect();
    let (a, b) = (known[dice.below(known.len())], known[dice.below(known.len())]);
    let full = match dice.below(4) {
        0 => a,
        1 => a.middle_to(b),
        2 => a.plus(u128::from(dice.roll()) << 40),
        _ => random_id(notation, dice),
    };
    notation.parse(&notation.text(full)).unwrap()
}

/// Draws the conclusion a reader would draw from the steps alone.
fn conclusion(told: &Explanation<'_>) -> NextHop {
    let step =
        |id: Id, rule| if id == told.node.me() { NextHop::Here } else { NextHop::Peer(contact(id), rule) };
    if told.covered {
        return step(told.leaves[0], Rule::LeafSet);
    }
    let cell = told.cell.as_ref().unwrap();
    match (cell.holder, told.candidates.first()) {
        (Some(holder), _) => step(holder, Rule::Cell { row: cell.row, column: cell.column }),
        (None, Some(nearest)) => step(*nearest, Rule::RareCase),
        (None, None) => NextHop::Here,
    }
}

fn agrees(node: &Teaching, key: Id) -> &'static str {
    let told = explain(node, key);
    assert_eq!(told.decision, node.router().next_hop(key, Stage::Prefix));
    assert_eq!(told.decision, conclusion(&told), "{}", text(&told));
    let words = text(&told);
    let last = words.lines().last().unwrap();
    match told.decision {
        NextHop::Peer(to, _) => {
            assert!(last.contains(&format!("Forward to {} ", node.notation().text(to.id))))
        }
        _ => assert!(last.contains("Deliver here ")),
    }
    assert!(words.lines().all(|line| line == line.trim_end()));
    let (rule, _) = told.rule();
    let written = told.json();
    assert_eq!(written["decision"]["rule"], rule);
    assert_eq!(written["cell"].is_null(), told.covered);
    rule
}

#[test]
fn the_words_never_contradict_the_decision() {
    let mut dice = SeededDice::new(7);
    let mut rules = std::collections::BTreeMap::new();
    for round in 0..200 {
        let b = 1 + dice.below(8) as u8;
        // Short ids make crowded rings, where every rule and many ties occur.
        let most = Notation::new(b, 1).unwrap().base().digits();
        let digits = if round % 3 == 0 { most } else { (12 / b).max(2) };
        let notation = Notation::new(b, digits).unwrap();
        let me = random_id(notation, &mut dice);
        let mut others: Vec<Id> = (0..dice.below(120)).map(|_| random_id(notation, &mut dice)).collect();
        others.retain(|id| *id != me);
        let sizes = Sizes::new(notation, Some(2 + 2 * dice.below(8) as u16), None);
        let node = Teaching::from_ids(notation, sizes, me, others);
        for _ in 0..100 {
            let key = random_key(&node, &mut dice);
            *rules.entry(agrees(&node, key)).or_insert(0) += 1;
        }
    }
    assert_eq!(
        rules.keys().copied().collect::<Vec<_>>(),
        ["cell", "here", "leaf-set", "rare-case"],
        "{rules:?}"
    );
    assert!(rules.values().all(|times| *times > 20), "every rule has to be met often: {rules:?}");
}

#[test]
fn the_words_agree_over_the_lectures_nodes() {
    let mut dice = SeededDice::new(8);
    let [(full, _), (gaps, _)] = canned::route_cases();
    for node in [full, gaps, canned::lecture()] {
        for _ in 0..2_000 {
            let key = random_key(&node, &mut dice);
            agrees(&node, key);
        }
    }
}

#[test]
fn the_own_id_stays_here() {
    let node = canned::full_row();
    let told = text(&explain(&node, node.me()));
    assert!(told.contains("All 8 digits: the key is this node's own id."), "{told}");
    assert!(told.contains("Deliver here   (leaf set: no node is closer)"), "{told}");
}

#[test]
fn a_tie_is_named() {
    let notation = Notation::new(4, 2).unwrap();
    let id = |text: &str| notation.parse(text).unwrap();
    let node =
        Teaching::from_ids(notation, Sizes::new(notation, Some(4), None), id("10"), [id("20"), id("30")]);
    let told = text(&explain(&node, id("28")));
    assert!(told.contains("In a tie the node"), "{told}");
    assert!(told.contains("Forward to 20 "), "{told}");
}

#[test]
fn somebody_alone_delivers_everything() {
    let notation = Notation::new(2, 4).unwrap();
    let node = Teaching::from_ids(notation, Sizes::new(notation, None, None), Id::ZERO, []);
    let told = text(&explain(&node, notation.parse("3333").unwrap()));
    assert!(told.contains("There is nobody else.") && told.contains("Deliver here"), "{told}");
}

#[test]
fn paragraphs_hang_and_break() {
    let mut out = String::new();
    paragraph(&mut out, "label", "word ".repeat(40).trim_end());
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= WIDTH));
    assert!(lines[0].starts_with("  label      word") && lines[1].starts_with("             word"));
}
