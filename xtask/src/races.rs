//! `cargo xtask test races`: the races on record, the rule each needs, and what happens with and without it.

use std::path::Path;
use std::process::Stdio;

use crate::cargo::Call;

/// Runs the races and prints them as a table. The output of a race that fails is shown as it is.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let call = Call::new("test --locked -p kringle-sim --test races -- --nocapture --test-threads=1");
    println!("$ {call}");
    let mut command = call.command(root);
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| format!("`{call}` did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        eprint!("{text}{}", String::from_utf8_lossy(&output.stderr));
        return Err(format!("`{call}` ended with {}", output.status));
    }
    let rows = rows(&text);
    if rows.is_empty() {
        return Err("no race has reported".into());
    }
    print!("{}", table(&rows));
    println!("{} races, each ends well with all rules and badly without its own", rows.len());
    Ok(())
}

/// What races print: `race | name | rule | with | without`. The test harness may have begun the line.
fn rows(output: &str) -> Vec<[&str; 4]> {
    let lines = output.lines().filter_map(|line| Some(line.split_once("race | ")?.1));
    let row = |line| -> Option<[&str; 4]> {
        let parts: Vec<&str> = str::splitn(line, 4, " | ").collect();
        parts.try_into().ok()
    };
    let mut rows: Vec<[&str; 4]> = lines.filter_map(row).collect();
    rows.sort_by_key(|row| (!row[0].starts_with(['J', 'L']), row[0]));
    rows
}

fn table(rows: &[[&str; 4]]) -> String {
    let head = ["race", "rule", "with it", "without it"];
    let wide = |column: usize| {
        rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths = [wide(0), wide(1), wide(2)];
    let line = |row: &[&str; 4]| {
        let [a, b, c] = widths;
        format!("{:a$}  {:b$}  {:c$}  {}\n", row[0], row[1], row[2], row[3])
    };
    [&head].into_iter().chain(rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_behind_the_harness_and_sorted() {
        let output = "running 2 tests\ntest l ... race | split | heal | well | bad | worse\nok\nrace | J1 | r | w | b\n";
        assert_eq!(rows(output), [["J1", "r", "w", "b"], ["split", "heal", "well", "bad | worse"]]);
        assert!(rows("no such line\nrace | half\n").is_empty());
    }

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let expected = "race  rule  with it  without it\nJ1    r     w        b\n";
        assert_eq!(table(&[["J1", "r", "w", "b"]]), expected);
    }
}
