//! The tables: on the terminal, and in docs/faults.md.

use std::collections::BTreeMap;
use std::path::Path;

use super::check::Check;
use super::rows::{ROWS, Row};

const FILE: &str = "docs/faults.md";
/// The results stand between these lines.
const BEGIN: &str = "<!-- results -->";
/// Characters of a value that fit in the table; the whole of it is on the terminal.
const VALUE_MAX: usize = 160;
const END: &str = "<!-- end of results -->";
const HEAD: &str = "| row | measured | demanded | value | result | command |\n|---|---|---|---|---|---|\n";

/// Lists rows for people.
pub(super) fn list(rows: &[&Row]) -> String {
    let line = |row: &&Row| format!("{:8}  {}\n{:8}  passes: {}\n", row.id, row.what, "", row.passes);
    rows.iter().map(line).collect()
}

/// Writes results for people.
pub(super) fn text(results: &[(&Row, Vec<Check>)]) -> String {
    let mut lines = vec![["row", "measured", "demanded", "value", "result"].map(String::from)];
    for (row, checks) in results {
        for check in checks {
            let cells = [row.id, &check.what, &check.demanded, &check.measured, check.verdict()];
            lines.push(cells.map(String::from));
        }
    }
    let wide = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths = [wide(0), wide(1), wide(2)];
    let shown = |line: &[String; 5]| {
        let [a, b, c] = widths;
        format!("{:6}  {:a$}  {:b$}  {:c$}  {}\n", line[4], line[0], line[1], line[2], line[3])
    };
    lines.iter().map(shown).collect()
}

/// Replaces the results of a row in the document, those with the same command.
pub(super) fn write(root: &Path, row: &Row, checks: &[Check], options: &str) -> Result<(), String> {
    let path = root.join(FILE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{FILE}: {error}"))?;
    let text = replaced(&text, row, checks, options).ok_or_else(|| format!("{FILE} has no line {BEGIN}"))?;
    std::fs::write(&path, text).map_err(|error| format!("{FILE}: {error}"))
}

fn replaced(text: &str, row: &Row, checks: &[Check], options: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (old, after) = rest.split_once(END)?;
    let mut lines: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for line in old.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let (Some(id), Some(command)) = (cells.first(), cells.last())
            && let Some(order) = ROWS.iter().position(|row| row.id == *id)
        {
            lines.entry((order, (*command).to_owned())).or_default().push(line.to_owned());
        }
    }
    let order = ROWS.iter().position(|known| known.id == row.id)?;
    let command = format!("`cargo xtask faults {}{options}`", row.id);
    let line = |check: &Check| {
        let plain = |text: &str| {
            let text = text.replace('|', "/").replace('\n', " ");
            let end = text.char_indices().nth(VALUE_MAX).map_or(text.len(), |(at, _)| at);
            if end < text.len() { format!("{} ...", &text[..end]) } else { text }
        };
        let result = if check.passed { check.verdict() } else { "**fail**" };
        let (what, demanded, value) = (plain(&check.what), plain(&check.demanded), plain(&check.measured));
        format!("| {} | {what} | {demanded} | {value} | {result} | {command} |", row.id)
    };
    let new = checks.iter().map(line).collect();
    lines.insert((order, command), new);
    let lines: Vec<String> = lines.into_values().flatten().collect();
    Some(format!("{before}{BEGIN}\n\n{HEAD}{}\n\n{END}{after}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, value: &str, options: &str) -> Option<String> {
        replaced(text, &ROWS[0], &[Check::new("time", "<= 1 s", value, true)], options)
    }

    #[test]
    fn results_replace_those_of_the_same_command_only() {
        let empty = format!("# Title\n\n{BEGIN}\n{END}\n\nend\n");
        let once = with(&empty, "1 ms", "").unwrap();
        let row = ROWS[0].id;
        assert!(
            once.contains(&format!("| {row} | time | <= 1 s | 1 ms | pass | `cargo xtask faults {row}` |"))
        );
        let again = with(&once, "2 ms", "").unwrap();
        assert!(again.contains("2 ms") && !again.contains("1 ms"));
        let other = with(&again, "3 ms", " --overlay chord").unwrap();
        assert!(other.contains("2 ms") && other.contains("3 ms"));
        assert!(other.starts_with("# Title\n") && other.ends_with("\n\nend\n"));
        assert_eq!(with("nothing", "1 ms", ""), None);
    }
}
