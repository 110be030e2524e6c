//! The model checker as people run it.

use crate::kringle;

#[test]
fn a_model_is_searched_up_to_its_bound() {
    let args = ["verify", "pastry", "--model", "suspicions", "--states", "5000", "--threads", "1"];
    let run = kringle(&args);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("one deliverer per key: holds in all of them"), "{}", run.stdout);
    assert!(
        run.stdout.contains("cut off by the bound") && run.stdout.contains("Not covered:"),
        "{}",
        run.stdout
    );
    let json = kringle(&[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("--json prints JSON");
    assert_eq!(json["schema"], "kringle.verify/1");
    assert_eq!(json["models"][0]["model"], "suspicions");
    assert_eq!(json["good"], true);
}

#[test]
fn a_world_of_chord_is_searched_to_its_end() {
    let args = ["verify", "chord", "--successors", "2", "--codec"];
    let run = kringle(&args);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    for part in ["every state seen", "hold in all of them", "at most one ring", "Not covered:"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let json = kringle(&[&args[..], &["--limit", "2000", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("--json prints JSON");
    assert_eq!((&json["protocol"], &json["good"]), (&"chord".into(), &true.into()));
    assert_eq!(json["models"][0]["complete"], false);
}

#[test]
fn a_model_of_the_store_is_searched_to_its_end() {
    let args = ["verify", "store", "--model", "recovering"];
    let run = kringle(&args);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    for part in ["recovering two-recoveries:", "every state seen", "Not covered:"] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    let json = kringle(&[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("--json prints JSON");
    assert_eq!((&json["protocol"], &json["good"]), (&"store".into(), &true.into()));
    let said = kringle(&["verify", "store", "--model", "none"]).refused();
    assert!(said.contains("no model \"none\"") && said.contains("lost-disks"), "{said}");
}

#[cfg(feature = "mutants")]
#[test]
fn a_broken_ring_is_shown_step_by_step() {
    let run = kringle(&["verify", "chord", "--without", "give-up"]);
    assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("BROKEN: nobody waits in a circle"), "{}", run.stdout);
    assert!(run.stdout.contains("9. deliver"), "{}", run.stdout);
}

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    let said = kringle(&["verify", "pastry", "--model", "none"]).refused();
    assert!(said.contains("no model \"none\"") && said.contains("two-joiners"), "{said}");
    let said = kringle(&["verify", "pastry", "--without", "nothing"]).refused();
    assert!(said.contains("no rule \"nothing\"") && said.contains("keep-granted"), "{said}");
    let said = kringle(&["verify", "pastry", "--replay", "no/such/file"]).refused();
    assert!(said.contains("no/such/file: cannot read it"), "{said}");
    assert_eq!(kringle(&["verify", "mesh"]).code, Some(2));
    let said = kringle(&["verify", "chord", "--founders", "2"]).refused();
    assert!(said.contains("lists of 2 need at least 3 founders"), "{said}");
}

#[cfg(not(feature = "mutants"))]
#[test]
fn a_release_leaves_no_rule_out() {
    for args in [
        &["verify", "pastry", "--gate"][..],
        &["verify", "pastry", "--without", "sides"],
        &["verify", "chord", "--gate"],
        &["verify", "chord", "--without", "give-up"],
    ] {
        let said = kringle(args).refused();
        assert!(said.contains("--features mutants"), "{said}");
    }
}
