//! Reports as Markdown, to be read beside their pictures.

use std::fmt::Write as _;

use super::write::plot_file;
use super::{Report, Table};

impl Report {
    /// Returns the report as Markdown, with its pictures expected beside it as `<scenario>-<plot>.svg`.
    pub fn to_markdown(&self) -> String {
        self.markdown(&self.scenario)
    }

    /// Returns the report as Markdown, with its pictures expected beside it under another stem.
    pub(super) fn markdown(&self, stem: &str) -> String {
        let mut text = format!("# {}: {}\n\n", escape(&self.scenario), escape(&self.title));
        let _ = write!(text, "**{}**\n\n", self.verdict());
        if !self.anchor.is_empty() {
            let _ = write!(text, "{}\n\n", escape(&self.anchor));
        }
        let _ = write!(
            text,
            "Repeat it with seed {} and code {}:\n\n{}\n",
            self.seed,
            escape(&self.code),
            block(&self.command)
        );
        section(&mut text, &self.figure_table());
        for plot in &self.plots {
            let _ = write!(text, "![{}]({})\n\n", escape(&plot.title), link(&plot_file(stem, plot)));
        }
        for of in [&self.tables[..], &[self.parameter_table(), self.ring_table(), self.message_table()]] {
            of.iter().for_each(|table| section(&mut text, table));
        }
        if !self.remarks.is_empty() {
            text += "## Remarks\n\n";
            self.remarks.iter().for_each(|remark| text += &format!("- {}\n", escape(remark)));
            text.push('\n');
        }
        section(&mut text, &self.cost_table());
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}

/// Writes a table under its title; nothing if it is empty.
fn section(text: &mut String, table: &Table) {
    if table.rows.is_empty() || table.columns.is_empty() {
        return;
    }
    let _ = write!(text, "## {}\n\n", escape(&table.title));
    row(text, &table.columns, table.columns.len());
    let rule = |numeric| if numeric { "---:" } else { "---" };
    let rules: Vec<&str> = table.numeric().into_iter().map(rule).collect();
    let _ = writeln!(text, "| {} |", rules.join(" | "));
    table.rows.iter().for_each(|cells| row(text, cells, table.columns.len()));
    text.push('\n');
}

fn row(text: &mut String, cells: &[String], columns: usize) {
    text.push('|');
    for cell in cells.iter().map(String::as_str).chain(std::iter::repeat("")).take(columns.max(cells.len())) {
        let _ = write!(text, " {} |", escape(cell));
    }
    text.push('\n');
}

/// Makes a text mean itself, in a line and in a cell of a table.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => escaped.push(' '),
            '<' => escaped += "&lt;",
            '&' => escaped += "&amp;",
            '|' | '\\' | '*' | '`' | '[' | ']' => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// A block of code by its indentation: nothing in it can end it.
fn block(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// Makes a file name a link.
fn link(file: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
    file.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
