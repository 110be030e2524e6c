//! The commands over scenarios of our own: small ones, and one that must be stopped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use kringle_core::id::Id;
use kringle_sim::lab::params::{LEAF_SET, LOOKUPS, NETWORK, NODES, SPARES};
use kringle_sim::lab::{Halt, Lab, Scenario};
use kringle_sim::report::{Figure, Report};
use kringle_sim::world::World;
use serde_json::Value;

use super::paper::Paper;
use super::{Answer, Bench, SimCommand, flags, paper};
use crate::failure::Ending;
use crate::{Cli, Command};

/// A ring that grows and is asked a little.
const DEMO: Scenario = Scenario {
    name: "demo-hops",
    about: "hops in a small ring",
    anchor: "nobody's figure 1",
    params: &[(NODES, "60"), (LOOKUPS, "20"), (LEAF_SET, "8"), (NETWORK, "plane")],
    run: |lab| {
        let settings = lab.settings();
        settings.clone().check().map_err(|error| Halt::Impossible(error.to_string()))?;
        lab.progress("joins", 0.0)?;
        let mut world = World::new(settings, lab.seed);
        world.grow(lab.count(NODES));
        lab.progress("lookups", 0.0)?;
        let mut hops = 0;
        for at in 0..lab.count(LOOKUPS) {
            let key = Id::new(u128::from(lab.seed) * 77 + at as u128 * (u128::MAX / 97));
            let request = world.lookup(at as u32 % world.len() as u32, key);
            hops += usize::from(world.finish(request).is_ok());
        }
        lab.keep("demo", &world);
        let events = world.handled() as f64 / world.len() as f64;
        lab.report.figures.push(Figure::new("events per node", events, 1, "").paper(5.0));
        lab.report.figures.push(Figure::new("answers", hops as f64, 0, "lookups"));
        lab.progress("lookups", 1.0)
    },
};

/// Keeps a figure, then finds something that must not be.
const BROKEN: Scenario = Scenario {
    name: "demo-broken",
    about: "something is always wrong",
    anchor: "",
    params: &[(NODES, "100"), (SPARES, "0")],
    run: |lab| {
        measure(lab);
        Err(Halt::Broken("two nodes deliver the same key".into()))
    },
};

/// Simulates nothing, so that it may be large.
const LARGE: Scenario = Scenario {
    name: "demo-large",
    about: "large, but quick",
    anchor: "",
    params: &[(NODES, "40000"), (LOOKUPS, "1e6")],
    run: |lab| {
        measure(lab);
        Ok(())
    },
};

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Gets a first result and is stopped before the second.
const STOPS: Scenario = Scenario {
    name: "demo-stops",
    about: "Ctrl-C in the middle",
    anchor: "",
    params: &[(NODES, "100")],
    run: |lab| {
        lab.progress("first half", 0.0)?;
        measure(lab);
        // With this seed nobody wants it to end.
        if lab.seed != 7 {
            STOPPED.store(true, Ordering::Relaxed);
        }
        lab.progress("second half", 0.0)
    },
};

const ALL: &[&Scenario] = &[&DEMO, &BROKEN, &LARGE, &STOPS];

const PAPERS: &[Paper] = &[
    Paper { name: "good", title: "A good paper", scenarios: &["demo-large", "demo-hops"] },
    Paper { name: "bad", title: "A bad paper", scenarios: &["demo-broken", "demo-large"] },
    Paper { name: "long", title: "A long paper", scenarios: &["demo-large", "demo-stops", "demo-hops"] },
    Paper { name: "lost", title: "A lost paper", scenarios: &["demo-gone"] },
];

fn measure(lab: &mut Lab<'_>) {
    let value = lab.count(NODES) as f64 + lab.seed as f64;
    lab.report.figures.push(Figure::new("size", value, 0, "nodes"));
}

/// What a command has said, early and at its end.
struct Told {
    text: String,
    /// Exit code and message, of one that failed.
    failure: Option<(ExitCode, String)>,
}

impl Told {
    fn good(self) -> String {
        assert!(self.failure.is_none(), "{:?}", self.failure);
        self.text
    }

    fn failed(self, code: u8) -> String {
        let (found, message) = self.failure.expect("it fails");
        assert_eq!(found, ExitCode::from(code), "{message}");
        assert!(message.starts_with("kringle: ") && message.lines().count() == 2, "{message}");
        message
    }
}

fn ask(words: &[&str]) -> Told {
    static NEVER: AtomicBool = AtomicBool::new(false);
    ask_with(words, &NEVER, None)
}

fn ask_with(words: &[&str], stop: &AtomicBool, free: Option<u64>) -> Told {
    let cli = Cli::try_parse_from(["kringle", "sim"].iter().chain(words)).expect("the words are right");
    let Command::Sim(args) = cli.command else { panic!("this is about the simulator") };
    let mut said = Vec::new();
    let mut bench = Bench { scenarios: ALL, stop, out: &mut said, free, json: cli.json, quiet: true };
    let answer: Answer = match &args.command {
        SimCommand::Paper(args) => paper::paper(&mut bench, args, PAPERS),
        command => bench.run(command),
    };
    let said = String::from_utf8(said).expect("all output is UTF-8");
    let (text, failure) = match answer {
        Ok((text, Ending::Good)) => (text, None),
        Ok((text, Ending::Bad)) => {
            let message = format!("kringle: {}\n see above", text.trim_end().replace('\n', "; "));
            (text, Some((ExitCode::FAILURE, message)))
        }
        Ok((text, Ending::Failed(failure))) => (text, Some((failure.exit_code(), failure.to_string()))),
        Err(failure) => (String::new(), Some((failure.exit_code(), failure.to_string()))),
    };
    Told { text: said + &text, failure }
}

/// A directory of its own for a test, not made yet, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("kringle-sim-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn names(&self) -> Vec<String> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn report(path: impl AsRef<Path>) -> Report {
    Report::from_json(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn scenarios_are_listed_with_what_they_take() {
    let all = ask(&["list"]).good();
    assert!(all.contains("demo-hops     hops in a small ring\n              nobody's figure 1\n"), "{all}");
    let one = ask(&["list", "demo-hops"]).good();
    let row = one.lines().find(|line| line.starts_with("--nodes")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..5], ["--nodes", "60", "2", "to", "8000000"]);
    let json: Value = serde_json::from_str(&ask(&["list", "--json"]).good()).unwrap();
    assert_eq!(json["schema"], "kringle.sim-list/1");
    assert_eq!(json["scenarios"][0]["parameters"][1]["default"], "20");
}

#[test]
fn a_name_mistyped_is_answered_with_those_near_it() {
    for command in ["run", "list"] {
        let said = ask(&[command, "demo-hop"]).failed(2);
        assert!(
            said.contains("no scenario \"demo-hop\"") && said.contains("Did you mean demo-hops"),
            "{said}"
        );
        assert!(said.contains("kringle sim list"), "{said}");
        assert!(ask(&[command, "Demo-Large"]).failed(2).contains("demo-large"));
        assert!(!ask(&[command, "chord"]).failed(2).contains("Did you mean"));
    }
}

#[test]
fn a_run_says_its_seed_first_and_writes_nothing_unasked() {
    let text = ask(&["run", "demo-hops", "--nodes", "5e1", "--leaf-set", "8"]).good();
    assert!(
        text.starts_with("seed      1\nscenario  demo-hops: hops in a small ring\nchanged   --nodes 5e1\n")
    );
    for part in [
        "events per node",
        "ring      demo: 50 nodes, each a kringle_core::node::Node of ",
        "trace ",
        "cost      ",
        "reproduce with:  kringle sim run demo-hops --seed 1 --nodes 5e1\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("wrote"), "{text}");
}

#[test]
fn a_run_is_written_and_replayed() {
    let out = Scratch::new("replayed");
    let text = ask(&["run", "demo-hops", "--seed", "3", "--nodes", "40", "--out", out.path()]).good();
    let file = out.file("demo-hops-3.json");
    assert!(text.ends_with(&format!("reproduce with:  kringle sim replay {file}\n")), "{text}");
    assert_eq!(out.names(), ["demo-hops-3.json", "demo-hops-3.md"]);
    let written = report(&file);
    assert!(written.complete && written.seed == 3 && written.code.starts_with(env!("CARGO_PKG_VERSION")));
    assert_eq!(written.command, "kringle sim run demo-hops --seed 3 --nodes 40");
    assert_eq!(written.parameters["leaf-set"], "8");
    let machine = &written.machine;
    assert!(machine.seconds > 0.0 && machine.events_per_second > 0.0);
    assert!(machine.peak_memory > 0 || !cfg!(target_os = "linux"));

    let same = ask(&["replay", &file]).good();
    assert!(same.contains(&format!("same: trace {}\n", written.worlds[0].trace)), "{same}");
    assert!(!same.contains("code  "), "{same}");
    let json = ask(&["replay", &file, "--json"]).good();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema"], &json["same"]), (&"kringle.sim-replay/1".into(), &true.into()));

    let mut other = written.clone();
    other.worlds[0].trace = "0".repeat(16);
    other.code = "0.0.9+unknown".into();
    fs::write(&file, other.to_json()).unwrap();
    let told = ask(&["replay", &file]);
    assert!(told.text.contains("the report is from 0.0.9+unknown"), "{}", told.text);
    assert!(told.failed(1).contains("different: trace of ring 'demo'"));
}

#[test]
fn a_run_as_json_is_one_document() {
    let text = ask(&["run", "demo-hops", "--nodes", "30", "--json"]).good();
    assert_eq!(Report::from_json(&text).unwrap().scenario, "demo-hops");
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let out = Scratch::new("refused");
    fs::create_dir(&out.0).unwrap();
    let file = out.file("report.json");
    assert!(ask(&["replay", &file]).failed(2).contains("cannot read it"));
    assert!(ask(&["replay", out.path()]).failed(2).contains("cannot read it"));
    fs::write(&file, "{\n  \"schema\": \"kringle.sim/1\",\n  \"seed\": }").unwrap();
    assert!(ask(&["replay", &file]).failed(2).contains("line 3"));
    fs::write(&file, [0xff, 0xfe]).unwrap();
    ask(&["replay", &file]).failed(2);

    let (given, never) = (Default::default(), &mut kringle_sim::lab::Unwatched);
    let good = DEMO.run(&given, 1, never).unwrap().0;
    let refused = |change: fn(&mut Report)| {
        let mut report = good.clone();
        change(&mut report);
        fs::write(&file, report.to_json()).unwrap();
        ask(&["replay", &file]).failed(2)
    };
    assert!(refused(|report| report.schema = "kringle.sim/9".into()).contains("kringle.sim/9"));
    assert!(refused(|report| report.scenario = "demo-hopps".into()).contains("Did you mean demo-hops"));
    let strange = refused(|report| drop(report.parameters.insert("dead".into(), "5".into())));
    assert!(strange.contains("no --dead"), "{strange}");
    let bad = refused(|report| drop(report.parameters.insert("nodes".into(), "0".into())));
    assert!(bad.contains("--nodes: 0 is out of range"), "{bad}");
}

#[test]
fn wrong_parameters_are_refused_before_anything_is_made() {
    let out = Scratch::new("untouched");
    let with = |words: &[&str]| ask(&[&["run", "demo-hops", "--out", out.path()], words].concat()).failed(2);
    assert!(with(&["--nodes", "1"]).contains("--nodes: 1 is out of range: 2 to 8000000"));
    assert!(with(&["--nodes", "-5"]).contains("--nodes: \"-5\" is not a whole number"));
    assert!(with(&["--dead", "5"]).contains("this scenario has no --dead; it has --leaf-set"));
    assert!(with(&["--leaf-set", "7"]).contains("must be even"));
    assert!(!out.0.exists());
    let file = Scratch::new("file");
    fs::write(&file.0, "").unwrap();
    let said = ask(&["run", "demo-hops", "--out", &file.file("below")]).failed(2);
    assert!(said.contains("cannot write to"), "{said}");
    fs::remove_file(&file.0).unwrap();
}

#[test]
fn every_parameter_there_is_is_a_flag() {
    let names = kringle_sim::lab::params::ALL.iter().map(|param| format!("--{}=5", param.name));
    let words: Vec<String> =
        ["kringle", "sim", "run", "x"].map(str::to_owned).into_iter().chain(names).collect();
    let Ok(Cli { command: Command::Sim(args), .. }) = Cli::try_parse_from(&words) else {
        panic!("all are taken")
    };
    let SimCommand::Run(args) = args.command else { panic!("it is a run") };
    assert_eq!(args.given.0.len(), kringle_sim::lab::params::ALL.len());
}

#[test]
fn commands_can_be_given_to_a_shell() {
    let all = [("nodes", "1e3"), ("lookups", "2e1"), ("network", "matrix:it's here")];
    let all = all.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let line = flags::command_line("run", &DEMO, Some(2), &all);
    assert_eq!(line, r"kringle sim run demo-hops --seed 2 --nodes 1e3 --network 'matrix:it'\''s here'");
}

#[test]
fn what_does_not_fit_in_memory_is_refused_unless_forced() {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let tight = Some(100 << 20);
    let said = ask_with(&["run", "demo-large"], &NEVER, tight).failed(2);
    assert!(said.contains("this needs about ") && said.contains(" and 100.0 MiB are free"), "{said}");
    assert!(said.contains("fewer --nodes, or --force"), "{said}");
    ask_with(&["run", "demo-large", "--force"], &NEVER, tight).good();
    ask_with(&["run", "demo-large", "--nodes", "1e3"], &NEVER, tight).good();
    let out = Scratch::new("tight");
    let words = ["sweep", "demo-large", "--vary", "nodes=1e3,2e3", "--out", out.path(), "--threads"];
    ask_with(&[&words[..], &["1"]].concat(), &NEVER, tight).good();
    let said = ask_with(&[&words[..], &["2"]].concat(), &NEVER, tight).failed(2);
    assert!(said.contains("fewer --threads"), "{said}");
    ask_with(&["paper", "good", "--out", out.path()], &NEVER, tight).failed(2);
}

#[test]
fn a_broken_run_is_kept_and_fails() {
    let out = Scratch::new("broken");
    let told = ask(&["run", "demo-broken", "--out", out.path()]);
    let file = out.file("demo-broken-1.json");
    assert!(told.text.contains("size") && told.text.contains("wrote"), "{}", told.text);
    let said = told.failed(1);
    assert!(said.contains("two nodes deliver the same key"), "{said}");
    assert!(said.contains(&format!("kringle sim replay {file}")), "{said}");
    assert!(!report(&file).complete);
    let again = ask(&["replay", &file]).good();
    assert!(again.contains("same: ") && again.contains("broken: two nodes deliver"), "{again}");
}

#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let out = Scratch::new("stops");
    // One test for all commands: they share the switch.
    let begin = || STOPPED.store(false, Ordering::Relaxed);
    let told = ask_with(&["run", "demo-stops", "--out", out.path()], &STOPPED, None);
    assert!(told.text.contains("size"), "{}", told.text);
    let said = told.failed(130);
    assert!(said.contains("interrupted") && said.contains("kringle sim run demo-stops --seed 1"), "{said}");
    let file = out.file("demo-stops-1.json");
    let written = report(&file);
    assert!(!written.complete && written.figures.len() == 1);
    begin();
    assert!(ask(&["replay", &file]).failed(2).contains("interrupted"));

    let none = Scratch::new("stops-at-once");
    STOPPED.store(true, Ordering::Relaxed);
    ask_with(&["run", "demo-stops", "--out", none.path()], &STOPPED, None).failed(130);
    let vary = ["sweep", "demo-stops", "--vary", "nodes=10,20", "--out", none.path()];
    ask_with(&vary, &STOPPED, None).failed(130);
    ask_with(&["paper", "good", "--out", none.path()], &STOPPED, None).failed(130);
    assert!(!none.0.exists());

    begin();
    let vary = ["sweep", "demo-stops", "--vary", "nodes=10", "--seeds", "7,8,9", "--threads", "1", "--out"];
    let told = ask_with(&[&vary[..], &[out.path()]].concat(), &STOPPED, None);
    assert!(told.text.contains("2 of 3 runs are missing"), "{}", told.text);
    told.failed(130);
    let json: Value = serde_json::from_str(&fs::read_to_string(out.file("sweep.json")).unwrap()).unwrap();
    assert_eq!(json["complete"], false);
    let ends: Vec<&Value> =
        json["combos"][0]["runs"].as_array().unwrap().iter().map(|run| &run["end"]).collect();
    assert_eq!(ends, ["complete", "interrupted", "interrupted"]);

    begin();
    let said = ask_with(&["paper", "long", "--out", out.path()], &STOPPED, None).failed(130);
    assert!(said.contains("interrupted in demo-stops, 2 of 3"), "{said}");
    let page = fs::read_to_string(out.file("long.html")).unwrap();
    assert!(page.contains("not all of them") && page.contains("demo-stops"));
    assert!(!out.0.join("demo-hops.json").exists());
    begin();
}

#[test]
fn a_sweep_is_the_same_on_any_number_of_threads() {
    let out = Scratch::new("threads");
    let sweep = |threads: &str| {
        let words =
            ["sweep", "demo-hops", "--vary", "leaf-set=8,16", "--vary", "nodes=20,40", "--seeds", "1..3"];
        ask(&[&words[..], &["--lookups", "5", "--threads", threads, "--out", out.path()]].concat()).good();
        let text = fs::read_to_string(out.file("sweep.json")).unwrap();
        let mut json: Value = serde_json::from_str(&text).unwrap();
        let machine = json.as_object_mut().unwrap().remove("machine").unwrap();
        assert_eq!(machine["threads"].to_string(), threads);
        (json, fs::read_to_string(out.file("sweep.md")).unwrap())
    };
    let (json, markdown) = sweep("1");
    assert_eq!(sweep("4"), (json.clone(), markdown.clone()));
    assert_eq!(out.names(), ["sweep.json", "sweep.md"], "two parameters make no line");
    assert_eq!(json["schema"], "kringle.sim-sweep/1");
    let combos = json["combos"].as_array().unwrap();
    let parameters: Vec<[&str; 2]> = combos
        .iter()
        .map(|combo| ["leaf-set", "nodes"].map(|name| combo["parameters"][name].as_str().unwrap()))
        .collect();
    assert_eq!(parameters, [["8", "20"], ["8", "40"], ["16", "20"], ["16", "40"]]);
    assert_eq!(combos[0]["runs"].as_array().unwrap().len(), 3);
    assert!(markdown.contains("| leaf-set=8 nodes=20 | events per node |"), "{markdown}");
}

#[test]
fn a_sweep_over_one_number_is_drawn() {
    let out = Scratch::new("drawn");
    let words = ["sweep", "demo-large", "--vary", "nodes=10,1000", "--seeds", "1..3", "--out", out.path()];
    let text = ask(&words).good();
    assert_eq!(out.names(), ["sweep-size.svg", "sweep.json", "sweep.md"]);
    // Sizes 11, 12, 13: t is 4.303, so the interval is 4.303 / sqrt(3).
    let row = text.lines().find(|line| line.starts_with("nodes=10 ")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, ["nodes=10", "size", "(nodes)", "12", "±2.5", "11", "13", "3"]);
    let json: Value = serde_json::from_str(&fs::read_to_string(out.file("sweep.json")).unwrap()).unwrap();
    assert_eq!(json["combos"][1]["figures"][0]["mean"], 1002.0);
    assert_eq!(json["combos"][1]["runs"][2]["values"]["size"], 1003.0);
}

#[test]
fn a_sweep_that_makes_no_sense_is_refused() {
    let out = Scratch::new("senseless");
    let with =
        |words: &[&str]| ask(&[&["sweep", "demo-hops", "--out", out.path()], words].concat()).failed(2);
    let nodes = ["--vary", "nodes=10,20"];
    let cases: [(&[&str], &str); 10] = [
        (&["--vary", "nodes"], "separated by commas"),
        (&["--vary", "dead=1,2"], "this scenario has no dead"),
        (&["--vary", "nodes=10,"], "is not a whole number"),
        (&["--vary", "nodes=1000,1e3"], "1e3 is there twice"),
        (&["--vary", "nodes=10", "--nodes", "20"], "nodes is given twice"),
        (&[&nodes[..], &nodes[..]].concat(), "nodes is given twice"),
        (&[&nodes[..], &["--seeds", "9..1"]].concat(), "neither a range nor a list"),
        (&[&nodes[..], &["--seeds", "1,1"]].concat(), "a seed is there twice"),
        (&[&nodes[..], &["--seeds", "1..5001"]].concat(), "these are 10002 runs; a sweep has at most 10000"),
        (&[&nodes[..], &["--seeds", "0..18446744073709551615"]].concat(), "at most 10000"),
    ];
    for (words, wanted) in cases {
        let said = with(words);
        assert!(said.contains(wanted), "{said}");
    }
    // Only the scenario knows that leaf sets are even; nothing was run, so nothing is written.
    assert!(with(&["--vary", "leaf-set=7,9", "--seeds", "1"]).contains("must be even"));
    assert!(!out.0.exists());
}

#[test]
fn a_sweep_goes_on_past_what_breaks() {
    let out = Scratch::new("breaks");
    let told = ask(&["sweep", "demo-broken", "--vary", "nodes=10,20", "--seeds", "4", "--out", out.path()]);
    assert!(
        told.text.contains("see it again: kringle sim run demo-broken --seed 4 --nodes 20"),
        "{}",
        told.text
    );
    assert!(told.failed(1).contains("kringle sim run demo-broken --seed 4 --nodes 10"));
    assert_eq!(out.names(), ["sweep.json", "sweep.md"]);
}

#[test]
fn a_hunt_runs_every_seed_and_refuses_what_it_does_not_know() {
    let calm =
        "clock step,short clock step,several clock steps,start with a wrong clock,rot,lost disk,old disk";
    let told = ask(&["hunt", "--seeds", "1..3", "--duration", "1s", "--nodes", "4", "--leave-out", calm]);
    assert!(told.good().starts_with("0 of 3 runs failed; "));
    assert!(ask(&["hunt", "--seeds", "3..1"]).failed(2).contains("--seeds 3..1: not a range"));
    assert!(ask(&["hunt", "--leave-out", "flood"]).failed(2).contains("there is no fault \"flood\""));
    assert!(ask(&["hunt", "--duration", "soon"]).failed(2).contains("not a span of time"));
    assert!(ask(&["hunt", "--nodes", "0"]).failed(2).contains("out of range: 1 to 200"));
}

#[test]
fn a_paper_becomes_a_page() {
    let out = Scratch::new("paper");
    let text = ask(&["paper", "good", "--out", out.path(), "--quick", "--seed", "5"]).good();
    assert!(
        text.contains("1 of 2\nseed      5\n") && text.contains("changed   --nodes 2000 --lookups 50000")
    );
    let names = ["demo-hops.json", "demo-hops.md", "demo-large.json", "demo-large.md", "good.html"];
    assert_eq!(out.names(), names);
    let page = fs::read_to_string(out.file("good.html")).unwrap();
    assert!(page.contains("A good paper (quick: lookups and rings of 20,000 or more divided by 20)"));
    let small = report(out.file("demo-hops.json"));
    assert_eq!((small.parameters["nodes"].as_str(), small.parameters["lookups"].as_str()), ("60", "1"));
    ask(&["replay", &out.file("demo-hops.json")]).good();
}

#[test]
fn a_paper_goes_on_past_what_breaks() {
    let out = Scratch::new("bad-paper");
    let said = ask(&["paper", "bad", "--out", out.path()]).failed(1);
    assert!(said.contains("demo-broken: broken: two nodes") && said.contains("demo-broken.json"), "{said}");
    assert!(out.0.join("bad.html").exists() && out.0.join("demo-large.json").exists());
    assert!(ask(&["paper", "goood", "--out", out.path()]).failed(2).contains("Did you mean good?"));
    assert!(ask(&["paper", "lost", "--out", out.path()]).failed(1).contains("no scenario \"demo-gone\""));
}

#[test]
fn every_experiment_of_every_paper_exists() {
    for paper in paper::PAPERS {
        for name in paper.scenarios {
            assert!(kringle_sim::scenarios::find(name).is_some(), "{}: {name}", paper.name);
        }
    }
}
