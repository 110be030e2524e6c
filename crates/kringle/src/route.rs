//! A routing decision in words.
//!
//! The decision is the product's own, [`Router::next_hop`]. The words are made of what that function looks at, step by
//! step: leaf set, cell, rare case. Whether both agree is tested over many nodes and keys.
//!
//! [`Router::next_hop`]: kringle_core::overlay::pastry::router::Router::next_hop

use std::fmt::Write;

use kringle_core::id::Id;
use kringle_core::message::{Rule, Stage};
use kringle_core::overlay::NextHop;
use serde_json::{Value, json};

use crate::table::heading;
use crate::teaching::Teaching;

/// Labels stand left of this.
const INDENT: usize = 13;
/// Sentences break here.
const WIDTH: usize = 100;
/// So many candidates show the idea; JSON has them all.
const CANDIDATES_SHOWN: usize = 8;

/// Everything that led to a decision.
pub(crate) struct Explanation<'a> {
    node: &'a Teaching,
    key: Id,
    /// Digits the node shares with the key.
    shared: u8,
    covered: bool,
    /// Leaves and the node itself, nearest to the key first. Right only for covered keys.
    leaves: Vec<Id>,
    /// Where the key points to in the table; `None` for the node's own id.
    cell: Option<Cell>,
    /// Known nodes that make progress, nearest to the key first.
    candidates: Vec<Id>,
    decision: NextHop,
}

/// The cell a key points to.
struct Cell {
    row: u8,
    column: u8,
    holder: Option<Id>,
    /// The columns of that row in which there is somebody.
    occupied: Vec<u8>,
}

/// Looks at everything a node decides by, and lets it decide.
pub(crate) fn explain(node: &Teaching, key: Id) -> Explanation<'_> {
    let (router, me, base) = (node.router(), node.me(), node.notation().base());
    let shared = me.shared_digits(key, base);
    let by_closeness = |mut ids: Vec<Id>| {
        ids.sort_by_key(|id| key.closeness(*id));
        ids
    };
    let cell = router.table().place(key).map(|(row, column)| Cell {
        row,
        column,
        holder: router.table().cell(row, column).next().map(|entry| entry.contact.id),
        occupied: router.table().row(row).map(|(column, _)| column).collect(),
    });
    let makes_progress =
        |id: &Id| id.shared_digits(key, base) >= shared && key.closeness(*id) < key.closeness(me);
    Explanation {
        node,
        key,
        shared: shared.min(node.notation().digits()),
        covered: router.leaf_set().covers(key),
        leaves: by_closeness(router.leaf_set().members().iter().map(|leaf| leaf.id).chain([me]).collect()),
        cell,
        candidates: by_closeness(router.nodes().map(|contact| contact.id).filter(makes_progress).collect()),
        decision: router.next_hop(key, Stage::Prefix),
    }
}

impl Explanation<'_> {
    fn id(&self, id: Id) -> String {
        self.node.notation().text(id)
    }

    /// Names a node, the deciding one as such.
    fn name(&self, id: Id) -> String {
        if id == self.node.me() { "this node".to_owned() } else { self.id(id) }
    }

    fn digit(&self, value: u8) -> String {
        self.node.notation().digit(value)
    }

    fn distance(&self, id: Id) -> String {
        self.node.notation().distance(self.key.distance(id))
    }

    /// Returns the farthest leaves, counter-clockwise and clockwise.
    fn ends(&self) -> (Id, Id) {
        let (leaves, me) = (self.node.router().leaf_set(), self.node.me());
        let left = leaves.left().next_back().map_or(me, |leaf| leaf.id);
        let right = leaves.right().next_back().map_or(me, |leaf| leaf.id);
        (left, right)
    }

    fn shared_words(&self) -> String {
        let notation = self.node.notation();
        let Some(Cell { row, column, .. }) = self.cell else {
            return format!("All {}: the key is this node's own id.", count(self.shared, "digit"));
        };
        let own = self.node.me().digit(row, notation.base()).unwrap_or(0);
        let (key, own) = (self.digit(column), self.digit(own));
        match self.shared {
            0 => format!("No digit: the key begins with {key}, the node with {own}."),
            shared => format!(
                "{} ({}). Then the key goes on with {key}, the node with {own}.",
                notation.prefix(self.key, shared),
                count(shared, "digit")
            ),
        }
    }

    fn leaf_set_words(&self) -> String {
        let leaves = self.node.router().leaf_set();
        let (left, right) = self.ends();
        let (before, beyond) = (self.key.clockwise_to(left), right.clockwise_to(self.key));
        let mut words = if leaves.is_whole() {
            "It is the whole ring, so it covers every key.".to_owned()
        } else {
            format!("It reaches clockwise from {} to {}.", self.name(left), self.name(right))
        };
        if !self.covered {
            let notation = self.node.notation();
            let gap = if before < beyond {
                format!("{} short of {}", notation.distance(before), self.name(left))
            } else {
                format!("{} beyond {}", notation.distance(beyond), self.name(right))
            };
            let _ = write!(words, " The key lies outside, {gap}: a node not known here may be nearer.");
            return words;
        }
        if !leaves.is_whole() {
            words.push_str(" The key lies between them, so the node nearest to it is known here.");
        }
        match self.leaves.as_slice() {
            [nearest, next, ..] => {
                let (name, next_name) = (self.name(*nearest), self.name(*next));
                let (distance, next_distance) = (self.distance(*nearest), self.distance(*next));
                let _ = write!(words, " Nearest is {name}, distance {distance}; ");
                let _ = write!(words, "then {next_name}, distance {next_distance}.");
                if self.key.distance(*nearest) == self.key.distance(*next) {
                    words.push_str(" In a tie the node met first going counter-clockwise from the key wins.");
                }
            }
            _ => words.push_str(" There is nobody else."),
        }
        words
    }

    fn table_words(&self, cell: &Cell) -> String {
        let (row, column) = (cell.row, self.digit(cell.column));
        let place =
            format!("Row {row} ({} shared), column {column} (the key's next digit)", count(row, "digit"));
        if let Some(holder) = cell.holder {
            let shares = holder.shared_digits(self.key, self.node.notation().base());
            return format!(
                "{place} holds {}. It shares {} with the key, this node only {}.",
                self.id(holder),
                count(shares.min(self.node.notation().digits()), "digit"),
                self.shared
            );
        }
        let occupied: Vec<String> = cell.occupied.iter().map(|column| self.digit(*column)).collect();
        if occupied.is_empty() {
            format!("{place} is empty, as is the whole row.")
        } else {
            format!("{place} is empty. The occupied columns of this row are {}.", occupied.join(" "))
        }
    }

    fn rare_case_words(&self) -> String {
        let rule = match self.shared {
            0 => "is nearer to the key than this node".to_owned(),
            shared => {
                format!(
                    "shares {} or more with the key and is nearer to it than this node",
                    count(shared, "digit")
                )
            }
        };
        let own = self.distance(self.node.me());
        if self.candidates.is_empty() {
            format!("No known node {rule} (distance {own}).")
        } else {
            format!(
                "A known node makes progress if it {rule} (distance {own}). The nearest such node takes it:"
            )
        }
    }

    fn candidate_lines(&self) -> Vec<String> {
        let notation = self.node.notation();
        let shown = &self.candidates[..self.candidates.len().min(CANDIDATES_SHOWN)];
        let widest = shown.iter().map(|id| self.distance(*id).len()).max().unwrap_or(0);
        let mut lines: Vec<String> = shown
            .iter()
            .map(|id| {
                let shares = id.shared_digits(self.key, notation.base()).min(notation.digits());
                let (id_text, distance) = (self.id(*id), self.distance(*id));
                let shares = count(shares, "digit");
                format!(
                    "{id_text}   distance {distance:>widest$}   shares {shares}   {}",
                    self.known_from(*id)
                )
            })
            .collect();
        let more = self.candidates.len() - shown.len();
        if more > 0 {
            lines.push(format!("and {more} more, none of them nearer"));
        }
        lines
    }

    /// Says which table knows a node.
    fn known_from(&self, id: Id) -> String {
        let router = self.node.router();
        match router.table().place(id) {
            Some((row, column)) if router.leaf_set().get(id).is_none() => {
                format!("row {row}, column {}", self.digit(column))
            }
            _ => "leaf set".to_owned(),
        }
    }

    /// Returns the rule for programs and for people.
    fn rule(&self) -> (&'static str, String) {
        match self.decision {
            NextHop::Peer(_, Rule::LeafSet) => ("leaf-set", "leaf set, numerically closest".to_owned()),
            NextHop::Peer(_, Rule::Cell { row, column }) => {
                ("cell", format!("routing table row {row}, column {}", self.digit(column)))
            }
            NextHop::Peer(_, Rule::RareCase) => {
                ("rare-case", "rare case: nearest known node that makes progress".to_owned())
            }
            NextHop::Here if self.covered => ("here", "leaf set: no node is closer".to_owned()),
            NextHop::Here => ("here", "no known node makes progress".to_owned()),
            NextHop::Peer(..) | NextHop::Wait | NextHop::NotReady => {
                unreachable!("nobody is silent or in doubt around a teaching node, and it is in its ring")
            }
        }
    }

    fn decision_words(&self) -> String {
        let (_, rule) = self.rule();
        match self.decision {
            NextHop::Peer(to, _) => format!("Forward to {}   ({rule})", self.id(to.id)),
            _ => format!("Deliver here   ({rule})"),
        }
    }

    fn json(&self) -> Value {
        let notation = self.node.notation();
        let candidate = |id: &Id| {
            let shares = id.shared_digits(self.key, notation.base()).min(notation.digits());
            json!({
                "node": self.id(*id),
                "distance": self.distance(*id),
                "shared_digits": shares,
            })
        };
        let (left, right) = self.ends();
        let nearest: Option<Vec<Value>> =
            self.covered.then(|| self.leaves.iter().take(2).map(candidate).collect());
        let cell = self.cell.as_ref().filter(|_| !self.covered);
        let rare = cell.filter(|cell| cell.holder.is_none());
        let to = match self.decision {
            NextHop::Peer(to, _) => Some(self.id(to.id)),
            _ => None,
        };
        let (rule, words) = self.rule();
        json!({
            "key": self.id(self.key),
            "node": self.id(self.node.me()),
            "b": notation.base().bits(),
            "digits": notation.digits(),
            "shared_digits": self.shared,
            "shared_prefix": notation.prefix(self.key, self.shared),
            "own_distance": self.distance(self.node.me()),
            "leaf_set": {
                "size": self.node.sizes().leaf_set,
                "whole": self.node.router().leaf_set().is_whole(),
                "from": self.id(left),
                "to": self.id(right),
                "covers_key": self.covered,
                "nearest": nearest,
            },
            "cell": cell.map(|cell| json!({
                "row": cell.row,
                "column": cell.column,
                "digit": self.digit(cell.column),
                "node": cell.holder.map(|holder| self.id(holder)),
                "occupied_columns": cell.occupied,
            })),
            "rare_case": rare.map(|_| json!({
                "candidates": self.candidates.iter().map(candidate).collect::<Vec<_>>(),
            })),
            "decision": {
                "action": if to.is_some() { "forward" } else { "deliver" },
                "to": to,
                "rule": rule,
                "words": words,
            },
        })
    }
}

/// Writes one explanation.
pub(crate) fn text(explanation: &Explanation<'_>) -> String {
    let node = explanation.node;
    let what = format!("Key {} at node", explanation.id(explanation.key));
    let mut out = heading(&what, explanation.id(node.me()), node);
    out.push_str("\n\n");
    paragraph(&mut out, "prefix", &explanation.shared_words());
    paragraph(&mut out, "leaf set", &explanation.leaf_set_words());
    // Without a cell the key is the node's own id, which every leaf set covers.
    if let Some(cell) = explanation.cell.as_ref().filter(|_| !explanation.covered) {
        paragraph(&mut out, "table", &explanation.table_words(cell));
        if cell.holder.is_none() {
            paragraph(&mut out, "rare case", &explanation.rare_case_words());
            for line in explanation.candidate_lines() {
                let _ = writeln!(out, "{:INDENT$}  {line}", "");
            }
        }
    } else {
        paragraph(&mut out, "table", "Not asked: the leaf set decides.");
    }
    // Not a paragraph: it is what scripts and eyes look for, so it stays one line however long the ids are.
    let _ = writeln!(out, "  {:<width$}{}", "decision", explanation.decision_words(), width = INDENT - 2);
    out
}

/// Writes explanations for programs, always as a list.
pub(crate) fn json(explanations: &[Explanation<'_>]) -> Value {
    let routes: Vec<Value> = explanations.iter().map(Explanation::json).collect();
    json!({ "schema": "kringle.route/1", "routes": routes })
}

fn count(number: u8, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Writes a labelled paragraph with a hanging indent.
fn paragraph(out: &mut String, label: &str, words: &str) {
    let _ = write!(out, "  {label:<width$}", width = INDENT - 2);
    let mut column = INDENT;
    for (at, word) in words.split(' ').enumerate() {
        let width = word.chars().count();
        if at > 0 && column + 1 + width > WIDTH {
            let _ = write!(out, "\n{:INDENT$}", "");
            column = INDENT;
        } else if at > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests;
