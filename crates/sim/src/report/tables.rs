//! What a report says in tables, the same in Markdown and in HTML.

use std::collections::BTreeSet;

use super::number::{NONE, fixed, grouped, iec};
use super::{Report, Ring, Table};

impl Report {
    /// The figures, each beside what is known of it.
    pub(super) fn figure_table(&self) -> Table {
        let rows = self.all_figures().map(|figure| {
            let told =
                [figure.paper_text(), figure.limit_text(), figure.want_text(), figure.verdict().to_owned()];
            [figure.name.clone(), figure.ours_with_unit()].into_iter().chain(told).collect()
        });
        table("Figures", &["figure", "ours", "paper", "limit", "wanted", "verdict"], rows.collect())
    }

    /// The parameters as given on a command line.
    pub(super) fn parameter_table(&self) -> Table {
        let rows = self.parameters.iter().map(|(name, value)| vec![name.clone(), value.clone()]);
        table("Parameters", &["parameter", "value"], rows.collect())
    }

    /// The rings that were simulated.
    pub(super) fn ring_table(&self) -> Table {
        let row = |ring: &Ring| {
            vec![
                ring.name.clone(),
                grouped(ring.nodes),
                ring.node_type.clone(),
                format!("{} B", grouped(ring.node_size)),
                grouped(ring.events),
                format!("{} s", fixed(ring.simulated_seconds, 1)),
                ring.trace.clone(),
            ]
        };
        let columns = ["ring", "nodes", "node type", "node size", "events", "simulated", "trace"];
        table("Rings", &columns, self.worlds.iter().map(row).collect())
    }

    /// The messages in each ring, a row for each kind and one for their sum.
    pub(super) fn message_table(&self) -> Table {
        let kinds: BTreeSet<&String> = self.worlds.iter().flat_map(|ring| ring.messages.keys()).collect();
        let row = |name: &str, count: &dyn Fn(&Ring) -> Option<u64>| {
            let counts = self.worlds.iter().map(|ring| count(ring).map_or(NONE.to_owned(), grouped));
            std::iter::once(name.to_owned()).chain(counts).collect()
        };
        let mut rows: Vec<Vec<String>> =
            kinds.iter().map(|kind| row(kind, &|ring| ring.messages.get(*kind).copied())).collect();
        rows.push(row("all", &|ring| Some(ring.messages.values().sum())));
        let columns: Vec<&str> =
            std::iter::once("kind").chain(self.worlds.iter().map(|ring| ring.name.as_str())).collect();
        table("Messages by kind", &columns, rows)
    }

    /// What the run cost where it ran.
    pub(super) fn cost_table(&self) -> Table {
        let machine = &self.machine;
        let memory = if machine.peak_memory == 0 { NONE.to_owned() } else { iec(machine.peak_memory) };
        let rows = vec![
            vec!["seconds".to_owned(), fixed(machine.seconds, 1)],
            vec!["events per second".to_owned(), fixed(machine.events_per_second, 0)],
            vec!["peak memory".to_owned(), memory],
        ];

        table("Cost on this machine", &["what", "value"], rows)
    }
}

impl Table {
    /// Says which columns hold numbers, which belong to the right.
    pub(super) fn numeric(&self) -> Vec<bool> {
        let column = |at: usize| self.rows.iter().filter_map(move |row| row.get(at));
        let numeric = |cell: &String| cell == NONE || cell.is_empty() || is_number(cell);
        (0..self.columns.len())
            .map(|at| column(at).all(numeric) && column(at).any(|cell| is_number(cell)))
            .collect()
    }
}

fn table(title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table {
        title: title.to_owned(),
        columns: columns.iter().map(|&column| column.to_owned()).collect(),
        rows,
    }
}

/// Says whether a cell is a number, maybe with a sign before and a unit after it.
fn is_number(cell: &str) -> bool {
    let number = cell.split_once(' ').map_or(cell, |(number, _)| number);
    let digits = number.trim_start_matches(['-', '+', '±', '~', '<', '>']).trim_end_matches('%');
    digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.chars().all(|digit| digit.is_ascii_digit() || ".,".contains(digit))
}
