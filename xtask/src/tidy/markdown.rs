//! As much of Markdown as the rules need: prose apart from fenced blocks, and the rows of tables.

/// A document, taken apart. Lines are counted from 1.
#[derive(Debug, Default)]
pub(super) struct Document<'a> {
    /// Every line outside of fenced blocks.
    pub(super) prose: Vec<(usize, &'a str)>,
    /// The fenced blocks.
    pub(super) fences: Vec<Fence<'a>>,
}

/// A fenced block.
#[derive(Debug)]
pub(super) struct Fence<'a> {
    /// What stands behind the opening fence.
    pub(super) language: &'a str,
    /// The lines within.
    pub(super) lines: Vec<(usize, &'a str)>,
}

/// A row of a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) line: usize,
    pub(super) cells: Vec<&'a str>,
}

impl<'a> Document<'a> {
    /// Takes a document apart. A block that is never closed ends with the document.
    pub(super) fn parse(text: &'a str) -> Document<'a> {
        let mut document = Document::default();
        let mut open: Option<&str> = None;
        for (at, line) in text.lines().enumerate() {
            let ticks = line.trim_start();
            let ticks = &ticks[..ticks.len() - ticks.trim_start_matches('`').len()];
            match (open, document.fences.last_mut()) {
                (Some(fence), _) if ticks.len() >= fence.len() && line.trim() == ticks => open = None,
                (Some(_), Some(block)) => block.lines.push((at + 1, line)),
                _ if ticks.len() >= 3 => {
                    open = Some(ticks);
                    let language = line.trim_start().trim_start_matches('`').trim();
                    document.fences.push(Fence { language, lines: Vec::new() });
                }
                _ => document.prose.push((at + 1, line)),
            }
        }
        document
    }

    /// Returns the rows of all tables, without their headings.
    pub(super) fn rows(&self) -> Vec<Row<'a>> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        for &(line, text) in &self.prose {
            let Some(cells) = text.trim().strip_prefix('|') else { continue };
            let cells: Vec<&str> =
                cells.strip_suffix('|').unwrap_or(cells).split('|').map(str::trim).collect();
            if cells.iter().all(|cell| cell.contains("--") && cell.trim_matches(['-', ':']).is_empty()) {
                rows.pop();
            } else {
                rows.push(Row { line, cells });
            }
        }
        rows
    }
}

/// Returns the parts of a text between single backticks.
pub(super) fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns a text without the parts between single backticks.
pub(super) fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_prose_are_told_apart() {
        let text = "one\n```console\n$ two\n````\nthree\n````text\n```\n````\n  ``` rust\nfour";
        let document = Document::parse(text);
        assert_eq!(document.prose, [(1, "one"), (5, "three")]);
        let blocks: Vec<_> = document.fences.iter().map(|f| (f.language, f.lines.as_slice())).collect();
        assert_eq!(
            blocks,
            [("console", &[(3, "$ two")][..]), ("text", &[(7, "```")]), ("rust", &[(10, "four")])]
        );
    }

    #[test]
    fn rows_come_without_their_headings() {
        let text = "| a | b |\n|---|:--:|\n| 1 | `2` |\nprose\n| c |\n|--|\n| - |";
        let rows = Document::parse(text).rows();
        let cells: Vec<_> = rows.iter().map(|row| (row.line, row.cells.join(","))).collect();
        assert_eq!(cells, [(3, "1,`2`".into()), (7, "-".into())]);
        assert_eq!(code_spans("a `b` c `d`").collect::<Vec<_>>(), ["b", "d"]);
        assert_eq!(without_code("a `b` c `d`e"), "a  c e");
    }
}
