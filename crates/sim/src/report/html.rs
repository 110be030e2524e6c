//! Reports as one page that needs nothing beside it.

use std::fmt::Write as _;

use super::svg::escape;
use super::{Report, Table};

/// Returns a page with all of these reports: what was wanted of them first, then each in full.
pub fn page(title: &str, reports: &[Report]) -> String {
    let title = escape(title);
    let (met, wanted) =
        reports.iter().map(Report::score).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    let sections: String = reports.iter().enumerate().map(|(at, report)| section(at, report)).collect();
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p class="lead">{met} of {wanted} wanted figures met.</p>
{}{sections}</body>
</html>
"#,
        summary(reports)
    )
}

const STYLE: &str = include_str!("page.css");

/// Every figure of which something is wanted, with a link to its report.
fn summary(reports: &[Report]) -> String {
    let mut rows = String::new();
    for (at, report) in reports.iter().enumerate() {
        for figure in report.all_figures().filter(|figure| figure.want.is_some()) {
            let link = format!(r##"<a href="#run-{at}">{}</a>"##, escape(&report.scenario));
            let [name, ours, paper, want] =
                [figure.name.clone(), figure.ours_with_unit(), figure.paper_text(), figure.want_text()]
                    .map(|cell| escape(&cell));
            let numbers = format!(r#"<td class="number">{ours}</td><td class="number">{paper}</td>"#);
            let verdict = verdict_cell(figure.verdict());
            let _ =
                writeln!(rows, "<tr><td>{link}</td><td>{name}</td>{numbers}<td>{want}</td>{verdict}</tr>");
        }
    }
    if rows.is_empty() {
        // Then this is a list of contents.
        let item = |(at, report): (usize, &Report)| {
            format!(
                "<li><a href=\"#run-{at}\">{}</a>: {}</li>\n",
                escape(&report.scenario),
                escape(&report.title)
            )
        };
        return format!("<ul>\n{}</ul>\n", reports.iter().enumerate().map(item).collect::<String>());
    }
    let heads = "<th>scenario</th><th>figure</th><th class=\"number\">ours</th><th class=\"number\">paper</th>\
        <th>wanted</th><th>verdict</th>";
    grid(heads, &rows)
}

fn section(at: usize, report: &Report) -> String {
    let mut text = format!("<section id=\"run-{at}\">\n");
    let _ = writeln!(text, "<h2>{}: {}</h2>", escape(&report.scenario), escape(&report.title));
    let _ = writeln!(text, "<p class=\"lead\">{}</p>", escape(&report.verdict()));
    if !report.anchor.is_empty() {
        let _ = writeln!(text, "<h3>What the paper did</h3>\n<p>{}</p>", escape(&report.anchor));
    }
    text += &titled(&report.figure_table());
    for plot in &report.plots {
        let _ = write!(text, "<figure>\n{}</figure>\n", plot.to_svg());
    }
    report.tables.iter().for_each(|table| text += &titled(table));
    if !report.remarks.is_empty() {
        let remarks: String =
            report.remarks.iter().map(|remark| format!("<li>{}</li>\n", escape(remark))).collect();
        let _ = write!(text, "<h3>Remarks</h3>\n<ul>\n{remarks}</ul>\n");
    }
    let _ = write!(
        text,
        "<h3>How to reproduce</h3>\n<p>Seed {}, code {}.</p>\n<pre>{}</pre>\n",
        report.seed,
        escape(&report.code),
        escape(&report.command)
    );
    let folded = [
        &[report.parameter_table()][..],
        &[report.ring_table(), report.message_table()],
        &[report.cost_table()],
    ];
    for tables in folded {
        // The first gives the name; a table without rows has nothing to unfold.
        let names: Vec<String> = tables.iter().map(|table| table.title.to_lowercase()).collect();
        let shown: String = tables.iter().map(table).collect();
        if tables.iter().any(|table| !table.rows.is_empty()) {
            let _ = write!(
                text,
                "<details>\n<summary>{}</summary>\n{shown}</details>\n",
                escape(&names.join(", "))
            );
        }
    }
    text + "</section>\n"
}

fn titled(of: &Table) -> String {
    if of.rows.is_empty() { String::new() } else { format!("<h3>{}</h3>\n{}", escape(&of.title), table(of)) }
}

fn table(table: &Table) -> String {
    let numeric = table.numeric();
    let class = |at: usize| if numeric.get(at) == Some(&true) { " class=\"number\"" } else { "" };
    let head = |(at, head): (usize, &String)| format!("<th{}>{}</th>", class(at), escape(head));
    let heads: String = table.columns.iter().enumerate().map(head).collect();
    let mut rows = String::new();
    for row in &table.rows {
        let cell = |(at, cell): (usize, &String)| match table.columns.get(at).map(String::as_str) {
            Some("verdict") => verdict_cell(cell),
            _ => format!("<td{}>{}</td>", class(at), escape(cell)),
        };
        let cells: String = row.iter().enumerate().map(cell).collect();
        let _ = writeln!(rows, "<tr>{cells}</tr>");
    }
    grid(&heads, &rows)
}

/// A table that can be moved sideways where it is wider than the screen.
fn grid(heads: &str, rows: &str) -> String {
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// A verdict is a word; its colour only helps to find it.
fn verdict_cell(verdict: &str) -> String {
    let class = match verdict {
        "met" => " class=\"met\"",
        "MISSED" => " class=\"missed\"",
        _ => "",
    };
    format!("<td{class}>{}</td>", escape(verdict))
}
