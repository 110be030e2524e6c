//! Markdown, HTML, and how they get to disk.

use std::fs;
use std::path::PathBuf;

use super::*;

/// A directory of its own for each test, gone with it.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = Dir(std::env::temp_dir().join(format!("kringle-report-{name}-{}", std::process::id())));
        let _ = fs::remove_dir_all(&dir.0);
        dir
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn markdown_tells_everything() {
    let text = sample().to_markdown();
    for part in [
        "# hops: Hops of a lookup\n",
        "**1 of 2 wanted figures met.**\n",
        "    kringle sim run hops --seed 7\n",
        "seed 7 and code 0.1.0 (3f2a1c0)",
        "| figure | ours | paper | limit | wanted | verdict |\n",
        "| mean hops | 4.01 hops | 3.98 | 3.97 | within 3.96 to 4.02 | met |\n",
        "| most hops | 5 hops | – | – | at most 4 | MISSED |\n",
        "| lookups | 10,000 | – | – | – | – |\n",
        "![Probability of the number of hops](hops-hops.svg)\n",
        "| nodes | 1e5 |\n",
        "| n=1000 | 1,000 | kringle_core::node::Node | 1,096 B | 1,234,567 | 12.5 s | 0123456789abcdef |\n",
        "| lookup | 41,234 |\n",
        "| all | 41,234 |\n",
        "- A remark\n",
        "| events per second | 823,044 |\n",
        "| peak memory | 1.5 GiB |\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn markdown_cells_stay_cells() {
    let text = sample().to_markdown();
    assert!(text.contains("| hops | share \\| all |\n| ---: | ---: |\n| 4 | 0.645 |\n"), "{text}");
    let mut report = sample();
    report.tables[0].rows[0][1] = "two\nlines <b> `x`".to_owned();
    assert!(report.to_markdown().contains("| 4 | two lines &lt;b> \\`x\\` |\n"));
}

#[test]
fn an_interrupted_run_says_so() {
    let report = Report { complete: false, ..sample() };
    assert!(report.to_markdown().contains("**Interrupted: "));
    assert!(html::page("t", &[report]).contains("Interrupted: "));
}

#[test]
fn a_page_has_everything_inside_and_escaped() {
    let mut nasty = sample();
    let script = "<script>alert(1)</script>\"'&";
    nasty.title = script.to_owned();
    nasty.anchor = script.to_owned();
    nasty.command = script.to_owned();
    nasty.code = script.to_owned();
    nasty.scenario = script.to_owned();
    nasty.remarks = vec![script.to_owned()];
    nasty.figures[0].name = script.to_owned();
    nasty.figures[0].unit = script.to_owned();
    nasty.parameters.insert(script.to_owned(), script.to_owned());
    nasty.tables[0].title = script.to_owned();
    nasty.tables[0].columns[0] = script.to_owned();
    nasty.tables[0].rows[0][0] = script.to_owned();
    nasty.plots[0].title = script.to_owned();
    nasty.plots[0].series[0].name = script.to_owned();
    nasty.worlds[0].name = script.to_owned();
    nasty.worlds[0].messages.insert(script.to_owned(), 1);
    nasty.machine.figures.push(Figure::new(script, 1.0, 0, script));
    let page = html::page(script, &[sample(), nasty]);
    assert!(!page.contains("<script"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
    assert!(page.contains("2 of 4 wanted figures met."));
    assert!(page.contains("<a href=\"#run-0\">hops</a>") && page.contains("<section id=\"run-1\">"));
    assert!(page.contains("<pre>kringle sim run hops --seed 7</pre>"));
    assert!(page.contains("<td class=\"missed\">MISSED</td>"));
    for outside in [" src=", "@import", "<link", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn write_makes_whole_files_only() {
    let dir = Dir::new("whole");
    let inner = dir.0.join("a/b");
    let paths = sample().write(&inner, "run7").unwrap();
    let expected = ["run7.json", "run7.md", "run7-hops.svg"].map(|name| inner.join(name));
    assert_eq!(paths, expected);
    assert_eq!(fs::read_to_string(&paths[0]).unwrap(), sample().to_json());
    assert!(fs::read_to_string(&paths[1]).unwrap().contains("](run7-hops.svg)"));
    assert_eq!(Dir(inner).names(), ["run7-hops.svg", "run7.json", "run7.md"]);
}

#[test]
fn a_file_is_replaced_whole() {
    let dir = Dir::new("replaced");
    fs::create_dir_all(&dir.0).unwrap();
    let path = dir.0.join("run.json");
    fs::write(&path, "x".repeat(100_000)).unwrap();
    sample().write(&dir.0, "run").unwrap();
    assert_eq!(Report::from_json(&fs::read_to_string(&path).unwrap()), Ok(sample()));
    assert_eq!(dir.names(), ["run-hops.svg", "run.json", "run.md"]);
}

#[test]
fn what_fails_leaves_nothing_behind() {
    let dir = Dir::new("fails");
    // A directory is where the file should be: the rename fails.
    fs::create_dir_all(dir.0.join("run.md")).unwrap();
    assert!(sample().write(&dir.0, "run").is_err());
    assert_eq!(dir.names(), ["run.json", "run.md"]);
    assert!(write_file(&dir.0.join("none/at/all"), b"x").is_err());
    assert!(write_file(std::path::Path::new("/"), b"x").is_err());
}

#[test]
fn plot_names_can_not_leave_the_directory() {
    let dir = Dir::new("names");
    let mut report = sample();
    report.plots[0].name = "../a b".to_owned();
    let paths = report.write(&dir.0, "my run").unwrap();
    assert_eq!(paths[2], dir.0.join("my run-..-a-b.svg"));
    assert!(fs::read_to_string(&paths[1]).unwrap().contains("](my%20run-..-a-b.svg)"));
}
