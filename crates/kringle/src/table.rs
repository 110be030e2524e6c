//! A node's state on paper, in the layout of the Pastry paper and the lecture.

use std::fmt::Write;

use kringle_core::contact::Contact;
use kringle_core::id::Id;
use serde_json::{Value, json};

use crate::notation::Notation;
use crate::teaching::Teaching;

/// Where lists start, below the headings.
const INDENT: usize = 14;
/// Where the cells of a routing table row start.
const ROW_INDENT: usize = 6;
/// A drawn grid may be this wide. Wider tables list their occupied cells instead.
const GRID_WIDTH: usize = 120;
/// Lists break here.
const LIST_WIDTH: usize = 110;

/// What is drawn: the tables of one node, a teaching one or a running one.
pub(crate) struct State {
    /// How ids are written. Ids of running nodes may be cut short.
    pub(crate) notation: Notation,
    /// How many digits an id really has.
    pub(crate) digits: u8,
    /// The node.
    pub(crate) me: Id,
    /// Members a full leaf set has.
    pub(crate) leaf_set: u16,
    /// Members a full neighbourhood set has.
    pub(crate) neighbourhood: u16,
    /// The smaller side of the leaf set, nearest first.
    pub(crate) left: Vec<Id>,
    /// The larger side of the leaf set, nearest first.
    pub(crate) right: Vec<Id>,
    /// Whether the leaf set holds the whole ring.
    pub(crate) whole: bool,
    /// The occupied cells of each row up to the last that has one, by column.
    pub(crate) rows: Vec<Vec<(u8, Id)>>,
    /// The neighbourhood set, nearest first.
    pub(crate) neighbours: Vec<Id>,
}

impl State {
    /// Takes a teaching node's.
    fn of(node: &Teaching) -> State {
        let router = node.router();
        let ids = |side: &mut dyn Iterator<Item = Contact>| side.map(|contact| contact.id).collect();
        let row = |row| router.table().row(row).map(|(column, entry)| (column, entry.contact.id)).collect();
        State {
            notation: node.notation(),
            digits: node.notation().digits(),
            me: node.me(),
            leaf_set: node.sizes().leaf_set,
            neighbourhood: node.sizes().neighbourhood,
            left: ids(&mut router.leaf_set().left()),
            right: ids(&mut router.leaf_set().right()),
            whole: router.leaf_set().is_whole(),
            rows: (0..router.table().depth()).map(row).collect(),
            neighbours: ids(&mut router.neighbourhood().members()),
        }
    }
}

/// Writes the whole state of a teaching node.
pub(crate) fn text(node: &Teaching) -> String {
    draw(&State::of(node))
}

/// Writes a whole state.
pub(crate) fn draw(node: &State) -> String {
    let notation = node.notation;
    let mut out = shape("Node", notation.text(node.me), notation, node.digits, node.leaf_set);
    let _ = writeln!(out, "   neighbourhood M={}\n", node.neighbourhood);
    leaf_set(node, &mut out);
    out.push_str("\nRouting table\n");
    if grid_width(notation) <= GRID_WIDTH {
        grid(node, &mut out)
    } else {
        list(node, &mut out)
    }
    if rows_shown(node) < node.digits {
        out.push_str("  ...\n");
    }
    out.push_str("\nNeighbourhood set\n");
    let names: Vec<String> = node.neighbours.iter().map(|id| notation.text(*id)).collect();
    let per_line = fitting(notation.width(), LIST_WIDTH - INDENT, 4);
    for line in names.chunks(per_line) {
        let _ = writeln!(out, "{:INDENT$}{}", "", line.join("  "));
    }
    if names.is_empty() {
        let _ = writeln!(out, "{:INDENT$}nobody", "");
    }
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Begins a report: what it is about, and the shape of the node's tables.
pub(crate) fn heading(what: &str, id: String, node: &Teaching) -> String {
    shape(what, id, node.notation(), node.notation().digits(), node.sizes().leaf_set)
}

fn shape(what: &str, id: String, notation: Notation, digits: u8, leaf_set: u16) -> String {
    let base = notation.base();
    format!(
        "{what} {id}   base {} (b={})   digits {digits}   leaf set L={leaf_set}",
        base.columns(),
        base.bits()
    )
}

/// Returns how many rows are worth showing: the occupied ones and the next, which shows that it is empty.
fn rows_shown(node: &State) -> u8 {
    u8::try_from(node.rows.len()).unwrap_or(u8::MAX).saturating_add(1).min(node.digits)
}

/// Returns how many things of a width fit beside each other, two blanks apart: 1, or a power of two up to `most`.
fn fitting(width: usize, room: usize, most: usize) -> usize {
    let mut count = most.max(1);
    while count > 1 && count * (width + 2) - 2 > room {
        count /= 2;
    }
    count
}

fn leaf_set(node: &State, out: &mut String) {
    let notation = node.notation;
    let names = |side: &[Id]| -> Vec<String> { side.iter().map(|leaf| notation.text(*leaf)).collect() };
    let (left, right) = (names(&node.left), names(&node.right));
    let longest = left.len().max(right.len());
    let most = if longest >= 8 {
        4
    } else if longest >= 4 {
        2
    } else {
        1
    };
    let per_line = fitting(notation.width(), (LIST_WIDTH - INDENT) / 2, most);
    let block = (per_line * (notation.width() + 2) - 2).max("SMALLER".len());
    let _ = writeln!(out, "{:INDENT$}{:block$}   LARGER", "Leaf set", "SMALLER");
    for line in 0..longest.div_ceil(per_line) {
        let part = |side: &[String]| side.chunks(per_line).nth(line).unwrap_or_default().join("  ");
        let _ = writeln!(out, "{:INDENT$}{:block$}   {}", "", part(&left), part(&right));
    }
    if longest == 0 {
        let _ = writeln!(out, "{:INDENT$}nobody: this node is the whole ring", "");
    } else if node.whole {
        let overlap = node.left.iter().any(|leaf| node.right.contains(leaf));
        let so = if overlap { ", so the sides overlap" } else { "" };
        let _ = writeln!(out, "{:INDENT$}the whole ring fits{so}", "");
    }
}

/// Returns how wide a cell is: an id and two dashes, but room for the heading of the first.
fn cell_width(notation: Notation) -> usize {
    (notation.width() + 2).max("digit 0".len())
}

fn grid_width(notation: Notation) -> usize {
    ROW_INDENT + usize::from(notation.base().columns()) * (cell_width(notation) + 3) - 3
}

/// One cell to print: its column, and what stands in it.
fn cells(node: &State, row: u8) -> Vec<(u8, String)> {
    let notation = node.notation;
    let holders = node.rows.get(usize::from(row)).map(Vec::as_slice).unwrap_or_default();
    let mut cells: Vec<(u8, String)> =
        holders.iter().map(|(column, id)| (*column, notation.dashed(*id, row))).collect();
    if let Some(own) = node.me.digit(row, notation.base()) {
        cells.push((own, format!("({})", notation.digit(own))));
    }
    cells.sort();
    cells
}

/// All columns under each other, as drawn in the paper.
fn grid(node: &State, out: &mut String) {
    let notation = node.notation;
    let (columns, width) = (notation.base().columns(), cell_width(notation));
    out.push_str(" row  ");
    for column in (0..=u8::MAX).take(columns.into()) {
        let name = if column == 0 { "digit 0".to_owned() } else { notation.digit(column) };
        let _ = write!(out, "{name:width$}   ");
    }
    out.push('\n');
    for row in 0..rows_shown(node) {
        let cells = cells(node, row);
        let _ = write!(out, "{row:3}   ");
        for column in (0..=u8::MAX).take(columns.into()) {
            let cell = cells.iter().find(|(at, _)| *at == column).map_or("", |(_, text)| text.as_str());
            let _ = write!(out, "{cell:width$}   ");
        }
        out.push('\n');
    }
}

/// Only the occupied cells of each row, in column order; the digit between the dashes names the column.
fn list(node: &State, out: &mut String) {
    let width = cell_width(node.notation);
    let per_line = ((LIST_WIDTH - ROW_INDENT + 3) / (width + 3)).max(1);
    out.push_str(" row  occupied cells; the node's own digit in brackets\n");
    for row in 0..rows_shown(node) {
        for (line, part) in cells(node, row).chunks(per_line).enumerate() {
            let number = if line == 0 { row.to_string() } else { String::new() };
            let _ = write!(out, "{number:>3}   ");
            for (_, cell) in part {
                let _ = write!(out, "{cell:width$}   ");
            }
            out.push('\n');
        }
    }
}

/// Writes the whole state for programs.
pub(crate) fn json(node: &Teaching) -> Value {
    let (notation, router) = (node.notation(), node.router());
    let text = |contact: Contact| notation.text(contact.id);
    let rows: Vec<Value> = (0..router.table().depth())
        .map(|row| {
            let cells: Vec<Value> = router
                .table()
                .row(row)
                .map(|(column, entry)| {
                    json!({ "column": column, "digit": notation.digit(column), "node": text(entry.contact) })
                })
                .collect();
            json!({ "row": row, "own_column": node.me().digit(row, notation.base()), "cells": cells })
        })
        .collect();
    json!({
        "schema": "kringle.table/1",
        "node": notation.text(node.me()),
        "b": notation.base().bits(),
        "base": notation.base().columns(),
        "digits": notation.digits(),
        "leaf_set": {
            "size": node.sizes().leaf_set,
            "whole": router.leaf_set().is_whole(),
            "smaller": router.leaf_set().left().map(text).collect::<Vec<_>>(),
            "larger": router.leaf_set().right().map(text).collect::<Vec<_>>(),
        },
        "routing_table": rows,
        "neighbourhood": {
            "size": node.sizes().neighbourhood,
            "members": router.neighbourhood().members().map(text).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use kringle_core::dice::{Dice, SeededDice};
    use kringle_core::id::Id;

    use super::*;
    use crate::teaching::Sizes;

    fn ring(b: u8, digits: u8, nodes: usize, seed: u64) -> Teaching {
        let notation = Notation::new(b, digits).unwrap();
        let mut dice = SeededDice::new(seed);
        let mut ids: Vec<Id> = Vec::new();
        while ids.len() < nodes {
            let full = Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()));
            let id = notation.parse(&notation.text(full)).unwrap();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let sizes = Sizes::new(notation, None, None);
        Teaching::from_ids(notation, sizes, ids[0], ids[1..].iter().copied())
    }

    #[test]
    fn no_line_is_wider_than_it_has_to_be() {
        for (b, digits, nodes) in
            [(1, 8, 50), (2, 16, 80), (3, 43, 80), (4, 8, 300), (4, 32, 300), (8, 16, 300)]
        {
            for line in text(&ring(b, digits, nodes, 1)).lines() {
                assert!(line.chars().count() <= GRID_WIDTH, "b={b} digits={digits}: {line}");
                assert_eq!(line, line.trim_end());
            }
        }
    }

    #[test]
    fn rows_end_one_after_the_last_occupied_one() {
        let deep = text(&ring(4, 32, 300, 2));
        let rows = ring(4, 32, 300, 2).router().table().depth();
        assert!(deep.contains(&format!("\n{rows:3}   (")), "{deep}");
        assert!(!deep.contains(&format!("\n{:3}   (", rows + 1)), "{deep}");
        assert!(deep.contains("\n  ...\n"));
        // All three digits of a crowded ring are in use: nothing is left to hint at.
        let full = text(&ring(1, 3, 8, 3));
        assert!(full.contains("\n  2   ") && !full.contains("..."), "{full}");
    }

    #[test]
    fn a_node_alone_says_so() {
        let alone = text(&ring(2, 8, 1, 4));
        assert!(alone.contains("nobody: this node is the whole ring"), "{alone}");
        assert!(alone.contains("Neighbourhood set\n              nobody\n"), "{alone}");
    }

    #[test]
    fn things_fit_in_powers_of_two() {
        assert_eq!(fitting(8, 96, 4), 4);
        assert_eq!(fitting(32, 96, 4), 2);
        assert_eq!(fitting(200, 96, 4), 1);
        assert_eq!(fitting(8, 96, 0), 1);
    }
}
