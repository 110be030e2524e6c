//! A node's tables computed the slow and obvious way, without a line of the product: ids are lists of digits, and
//! everything is looked up in the list of all nodes.

use std::collections::BTreeMap;

use kringle_core::dice::{Dice, SeededDice};

/// An id as its digits, most significant first.
pub(crate) type Digits = Vec<u8>;

/// A ring of nodes, the first being the one in question and the others in order of proximity.
pub(crate) struct Ring {
    pub(crate) b: u32,
    pub(crate) ids: Vec<Digits>,
}

impl Ring {
    /// Makes a ring of distinct random ids. Some get a prefix of the first, so that deep rows are used.
    pub(crate) fn random(b: u32, digits: usize, nodes: usize, seed: u64) -> Ring {
        let mut dice = SeededDice::new(seed);
        let mut ids: Vec<Digits> = Vec::new();
        while ids.len() < nodes {
            let mut id: Digits = (0..digits).map(|at| dice.below(values(b, at)) as u8).collect();
            if let Some(me) = ids.first()
                && dice.below(2) == 0
            {
                let shared = dice.below(digits);
                id[..shared].copy_from_slice(&me[..shared]);
            }
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ring { b, ids }
    }

    /// Writes an id as the command line does.
    pub(crate) fn text(&self, id: &[u8]) -> String {
        if self.b <= 5 {
            let symbols = b"0123456789abcdefghijklmnopqrstuv";
            id.iter().map(|digit| char::from(symbols[usize::from(*digit)])).collect()
        } else {
            id.iter().map(|digit| format!("{digit:02x}")).collect::<Vec<_>>().join(".")
        }
    }

    /// Writes the file that describes the first node.
    pub(crate) fn file(&self) -> String {
        self.ids.iter().map(|id| self.text(id) + "\n").collect()
    }

    /// Every occupied cell by row and column: the first node in the list that shares `row` digits and goes on with
    /// `column`.
    pub(crate) fn cells(&self) -> BTreeMap<(usize, u8), String> {
        let (me, others) = self.ids.split_first().expect("there is a node");
        let mut cells = BTreeMap::new();
        for row in 0..me.len() {
            for column in (0..=u8::MAX).filter(|column| *column != me[row]) {
                if let Some(first) = others.iter().find(|id| id[..row] == me[..row] && id[row] == column) {
                    cells.insert((row, column), self.text(first));
                }
            }
        }
        cells
    }

    /// The `side` next nodes going down from the first, and going up, each nearest first.
    pub(crate) fn leaves(&self, side: usize) -> (Vec<String>, Vec<String>) {
        let mut sorted: Vec<&Digits> = self.ids.iter().collect();
        sorted.sort();
        let at = sorted.iter().position(|id| **id == self.ids[0]).expect("it is in there");
        let nodes = sorted.len();
        let side = side.min(nodes - 1);
        let walk = |step: &dyn Fn(usize) -> usize| -> Vec<String> {
            (1..=side).map(|far| self.text(sorted[step(far) % nodes])).collect()
        };
        (walk(&|far| at + nodes - far), walk(&|far| at + far))
    }

    /// The first `most` nodes of the list.
    pub(crate) fn neighbours(&self, most: usize) -> Vec<String> {
        self.ids[1..].iter().take(most).map(|id| self.text(id)).collect()
    }
}

/// How many values a digit has: the last of 128 bits may be a short one.
fn values(b: u32, at: usize) -> usize {
    let left = 128 - b * at as u32;
    1 << b.min(left)
}
