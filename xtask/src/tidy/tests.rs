//! Every rule with a planted violation: a rule that cannot be broken checks nothing.

use super::*;

/// A small repository that breaks no rule.
fn good() -> Tree {
    let mut tree = Tree::default();
    for (path, text) in [
        ("Cargo.toml", "[workspace.dependencies]\nkringle-core = { path = \"crates/core\" }\nclap = \"4\"\n"),
        ("crates/core/Cargo.toml", "[package]\nname = \"kringle-core\"\n[dependencies]\n"),
        ("crates/core/src/lib.rs", "//! The core.\n\n#![no_std]\nfn shown() {}\n"),
        ("crates/core/src/message.rs", "struct Body;\n"),
        ("crates/core/src/overlay/mod.rs", "use crate::id::Id;\nuse crate::node_id;\n"),
        (
            "crates/sim/Cargo.toml",
            "[package]\nname = \"kringle-sim\"\n[dependencies]\nkringle-core.workspace = true\n",
        ),
        (
            "crates/kringle/Cargo.toml",
            "[package]\nname = \"kringle\"\n[dependencies]\nclap.workspace = true\n",
        ),
        ("xtask/Cargo.toml", "[package]\nname = \"xtask\"\n"),
        (
            "fuzz/Cargo.toml",
            "[package]\nname = \"fuzz\"\n[dependencies]\nkringle-core = { path = \"../crates/core\" }\n",
        ),
        ("README.md", "`cargo xtask test`, `cargo run --release -- demo`, [why](docs/decisions.md#one)\n"),
        ("ARCHITECTURE.md", "[folder](crates/core), [web](https://example.org/nowhere)\n"),
        ("CONTRIBUTING.md", ""),
        ("CHANGELOG.md", ""),
        ("docs/decisions.md", ""),
        ("docs/dependencies.md", "| crate | for |\n|---|---|\n| `clap` | flags |\n"),
        (".ci/run", "exec cargo xtask test\n"),
    ] {
        tree.put(path, text);
    }
    tree.put(lineage::FILE, &lineage_with("OP-01", "| OP-01 | ids | done | `shown` |"));
    tree
}

/// The complete list of rows, one of them as given.
fn lineage_with(key: &str, row: &str) -> String {
    let rows = lineage::expected().map(|expected| match expected == key {
        true => row.into(),
        false => format!("| {expected} | something | left out | no use for it |"),
    });
    ["| row | what | status | test or reason |", "|---|---|---|---|"]
        .map(String::from)
        .into_iter()
        .chain(rows)
        .filter(|row| !row.is_empty())
        .collect::<Vec<String>>()
        .join("\n")
}

/// Puts one file into the good repository and returns what is reported then.
fn planted(path: &str, text: &str) -> Vec<String> {
    let mut tree = good();
    tree.put(path, text);
    check(&tree).iter().map(|problem| problem.to_string()).collect()
}

/// The same for one row of the lineage.
fn planted_row(row: &str) -> Vec<String> {
    planted(lineage::FILE, &lineage_with("OP-02", row))
}

#[test]
fn a_good_repository_has_no_problem() {
    assert_eq!(check(&good()), []);
    assert_eq!(verdict(&check(&good())), Ok(()));
}

#[test]
fn problems_are_counted() {
    let problem = Problem::missing("README.md");
    assert_eq!(verdict(std::slice::from_ref(&problem)), Err("1 problem".into()));
    assert_eq!(verdict(&[problem.clone(), problem]), Err("2 problems".into()));
}

#[test]
fn arrows_between_crates_point_one_way() {
    let core = "[package]\nname = \"kringle-core\"\n[dev-dependencies]\nkringle-sim.workspace = true\n";
    assert_eq!(
        planted("crates/core/Cargo.toml", core),
        ["crates/core/Cargo.toml:4: kringle-core must not depend on kringle-sim"]
    );
    let sim = "[package]\nname = \"kringle-sim\"\n[dependencies]\nx = { path = \"../kringle\", package = \"kringle\" }\n";
    assert_eq!(
        planted("crates/sim/Cargo.toml", sim),
        ["crates/sim/Cargo.toml:4: kringle-sim must not depend on kringle"]
    );
    assert_eq!(
        planted("crates/extra/Cargo.toml", "[package]\nname = \"kringle-extra\"\n"),
        [
            "crates/extra/Cargo.toml:1: no rule says what kringle-extra may depend on: add one to the arrows of xtask"
        ]
    );
    assert_eq!(
        planted("xtask/Cargo.toml", "[package]\nname = \"xtask\"\n[dependencies]\nclap = \"4\"\n"),
        ["xtask/Cargo.toml:4: xtask uses the standard library only, not clap"]
    );
}

#[test]
fn the_overlay_does_not_look_up() {
    let path = "crates/core/src/overlay/pastry/mod.rs";
    for module in ["store", "pubsub", "node"] {
        for import in [format!("crate::{module}::Thing"), format!("crate::{{id::Id, {module}}}")] {
            let expected =
                format!("{path}:2: the overlay does not know crate::{module}, which is built on it");
            assert_eq!(planted(path, &format!("\nuse {import};\n")), [expected]);
        }
        assert_eq!(planted("crates/core/src/wire.rs", &format!("use crate::{module};\n")), [""; 0]);
    }
}

#[test]
fn messages_are_data() {
    let path = "crates/core/src/overlay/pastry/message.rs";
    let text = "struct Announce;\nimpl Announce {\n    fn handle(self, cx: &mut Ctx<'_>) {}\n}\n";
    assert_eq!(
        planted(path, text),
        [format!("{path}:3: messages are data: whatever takes a Ctx belongs to the layer")]
    );
    assert_eq!(planted(path, "struct Ctxual;\n"), [""; 0]);
}

#[test]
fn the_core_does_without_std() {
    let path = "crates/core/src/lib.rs";
    let expected =
        |line| [format!("{path}:{line}: the core starts with #![no_std], after its documentation")];
    assert_eq!(planted(path, "//! The core.\n\nfn shown() {}\n#![no_std]\n"), expected(3));
    assert_eq!(planted(path, "#![cfg_attr(not(test), no_std)]\nfn shown() {}\n"), expected(1));
}

#[test]
fn unfinished_work_is_found() {
    for mark in [
        concat!("to", "do!()"),
        concat!("unimpl", "emented!()"),
        concat!("#[ig", "nore]"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ] {
        let found = planted("crates/sim/src/lib.rs", &format!("fn a() {{\n    {mark}\n}}\n"));
        assert_eq!(found.len(), 1, "{mark}");
        assert!(found[0].starts_with("crates/sim/src/lib.rs:2: unfinished: "), "{found:?}");
    }
}

#[test]
fn long_files_are_found() {
    assert_eq!(planted("crates/sim/src/lib.rs", &"\n".repeat(800)), [""; 0]);
    assert_eq!(
        planted("crates/sim/src/lib.rs", &"\n".repeat(801)),
        ["crates/sim/src/lib.rs:801: 801 lines, at most 800: look for a second noun in it"]
    );
}

#[test]
fn dependencies_and_their_reasons_match() {
    let manifest = "[package]\nname = \"kringle-core\"\n[dependencies]\nminicbor = \"2\"\n";
    assert_eq!(
        planted("crates/core/Cargo.toml", manifest),
        ["crates/core/Cargo.toml:4: minicbor has no row in docs/dependencies.md"]
    );
    assert_eq!(
        planted("docs/dependencies.md", "| crate | for |\n|---|---|\n| `clap` | flags |\n| rand | dice |\n"),
        ["docs/dependencies.md:4: no manifest names rand"]
    );
}

#[test]
fn every_row_of_the_lineage_is_there_once() {
    assert_eq!(planted_row(""), ["docs/lineage.md:1: OP-02 is missing"]);
    let double = "| OP-02 | a | left out | b |\n| OP-02 | a | left out | b |";
    assert_eq!(planted_row(double), ["docs/lineage.md:5: OP-02 stands in line 4 already"]);
    let unknown = "| OP-02 | a | left out | b |\n| OP-99 | a | left out | b |";
    assert_eq!(planted_row(unknown), ["docs/lineage.md:5: no family has a row OP-99"]);
}

#[test]
fn every_row_of_the_lineage_tells_the_truth() {
    for fine in [
        "| OP-02 | ids | done | `shown` |",
        "| OP-02 | ids | different | 128 bits, not 160: enough. `shown` |",
        "| OP-02 | ids | left out | nobody needs it |",
        "| OP-02 | ids | not yet | waits for the store |",
    ] {
        assert_eq!(planted_row(fine), [""; 0], "{fine}");
    }
    for (row, why) in [
        ("| OP-02 | ids | done | `TEST?` |", "no function is called `TEST?`"),
        ("| OP-02 | ids | done | `shown`, `hidden` |", "no function is called `hidden`"),
        ("| OP-02 | ids | done | trust us |", "no test is named"),
        ("| OP-02 | ids | different | `shown` |", "it does not say how and why it is different"),
        ("| OP-02 | ids | left out | |", "it does not say why it is left out"),
        ("| OP-02 | ids | not yet | soon |", "it does not say what it waits for"),
        ("| OP-02 | ids | maybe | `shown` |", "\"maybe\" is none of done, different, left out, not yet"),
        ("| OP-02 | | done | `shown` |", "it does not say what it is about"),
        ("| OP-02 | ids | done |", "3 cells instead of row, what, status, test or reason"),
    ] {
        assert_eq!(planted_row(row), [format!("docs/lineage.md:4: OP-02: {why}")]);
    }
}

#[test]
fn documents_are_there_and_short() {
    for path in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/decisions.md",
        ".ci/run",
        "fuzz/Cargo.toml",
        "docs/lineage.md",
        "docs/dependencies.md",
        "crates/core/src/lib.rs",
    ] {
        let mut tree = good();
        tree.remove(path);
        let expected = Problem::new(path, 1, "this file is missing");
        assert!(check(&tree).contains(&expected), "{path}");
    }
    let long =
        |lines: usize| "`cargo xtask test`, `cargo run --release -- demo`".to_owned() + &"\n".repeat(lines);
    assert_eq!(planted("README.md", &long(249)), [""; 0]);
    assert_eq!(planted("README.md", &long(250)), ["README.md:250: 250 lines, it must stay under 250"]);
    assert_eq!(planted("ARCHITECTURE.md", &long(299)), [""; 0]);
    assert_eq!(
        planted("ARCHITECTURE.md", &long(300)),
        ["ARCHITECTURE.md:300: 300 lines, it must stay under 300"]
    );
}

#[test]
fn documents_name_their_commands() {
    assert_eq!(
        planted("README.md", "`cargo test`"),
        [
            "README.md:1: it does not name `cargo xtask test`",
            "README.md:1: it does not name `cargo run --release --`"
        ]
    );
    assert_eq!(
        planted(".ci/run", "# cargo xtask test\ntrue\n"),
        [".ci/run:1: it does not call `cargo xtask test`"]
    );
}

#[test]
fn links_lead_somewhere() {
    assert_eq!(planted("docs/decisions.md", "see [it](../README.md) and\n[this](lineage.md#op)"), [""; 0]);
    assert_eq!(
        planted(
            "docs/decisions.md",
            "one\n[two](README.md)\n```text\n[three](gone.md)\n```\n`[four](gone.md)`"
        ),
        ["docs/decisions.md:2: the link to README.md leads nowhere"]
    );
    assert_eq!(
        planted("docs/decisions.md", "[far](../../far.md)"),
        ["docs/decisions.md:1: the link to ../../far.md leads nowhere"]
    );
}
