//! The simulator as people start it, and how it refuses. What it runs is tested beside its commands.

use crate::{kringle, kringle_with_input};

#[test]
fn help_names_every_command_and_parameter() {
    let help = kringle(&["sim", "--help"]).succeeded();
    for command in ["list", "run", "sweep", "replay", "paper"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    let help = kringle(&["sim", "run", "--help"]).succeeded();
    for flag in [
        "--seed <SEED>",
        "--out <DIR>",
        "--force",
        "--nodes <N>",
        "--session <TIME>",
        "-q, --quiet",
        "--json",
    ] {
        assert!(help.contains(flag), "{flag}: {help}");
    }
}

#[test]
fn the_list_is_for_programs_too() {
    let json = kringle(&["sim", "list", "--json"]).json();
    assert_eq!(json["schema"], "kringle.sim-list/1");
    let names = json["scenarios"].as_array().expect("a list").iter().map(|scenario| &scenario["name"]);
    let text = kringle(&["sim", "list"]).succeeded();
    for name in names {
        assert!(text.contains(name.as_str().expect("names are text")), "{text}");
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    for args in [&["sim", "run", "nonsense"][..], &["sim", "list", "nonsense", "--json"]] {
        let said = kringle(args).refused();
        assert!(said.contains("no scenario \"nonsense\"") && said.contains("kringle sim list"), "{said}");
    }
    let said = kringle(&["sim", "paper", "tapestry", "--out", "never-made"]).refused();
    assert!(said.contains("no paper \"tapestry\"") && said.contains("known are: pastry"), "{said}");
    let said = kringle(&["sim", "replay", "no/such/file.json"]).refused();
    assert!(said.contains("no/such/file.json: cannot read it"), "{said}");
    let said = kringle_with_input(&["sim", "replay", "-"], "{\n\n\"schema\": 7}").refused();
    assert!(said.contains("line 3"), "{said}");
    // These are clap's own words; the code is the same.
    for args in [
        &["sim"][..],
        &["sim", "run"],
        &["sim", "run", "x", "--seed", "many"],
        &["sim", "run", "x", "--overlay", "chord"],
        &["sim", "sweep", "x", "--out", "y"],
        &["sim", "sweep", "x", "--vary", "nodes=10"],
        &["sim", "sweep", "x", "--vary", "nodes=10", "--out", "y", "--threads", "0"],
        &["sim", "paper", "pastry"],
    ] {
        assert_eq!(kringle(args).code, Some(2), "{args:?}");
    }
}
