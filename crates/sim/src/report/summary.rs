//! A report in a terminal: a line for each figure.

use super::number::NONE;
use super::{Figure, Report};

impl Report {
    /// Returns a line for each figure, in columns, without colours, then the remarks; a last line tells if the run was
    /// cut short.
    pub fn summary(&self) -> String {
        let rows: Vec<[String; 6]> = self.all_figures().map(cells).collect();
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: [usize; 6] = std::array::from_fn(width);
        let mut text = String::new();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                match column {
                    // Numbers stand under each other by their last digit, which have equally many digits as a rule.
                    1 => line += &format!("{cell:>width$}"),
                    2 => line += &format!(" {cell:<width$}   "),
                    _ if width > 0 => line += &format!("{cell:<width$}   "),
                    _ => {}
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
        for remark in &self.remarks {
            text += &format!("note      {remark}\n");
        }
        if !self.complete {
            text += "not complete: these are the figures until then\n";
        }
        text
    }
}

fn cells(figure: &Figure) -> [String; 6] {
    let named =
        |name: &str, text: String| if text == NONE { String::new() } else { format!("{name} {text}") };
    let wanted = named("wanted", figure.want_text());
    [
        figure.name.clone(),
        figure.ours_text(),
        figure.unit.clone(),
        named("paper", figure.paper_text()),
        named("limit", figure.limit_text()),
        if wanted.is_empty() { wanted } else { format!("{wanted}  {}", figure.verdict()) },
    ]
}
