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
fn what_does_not_exist_is_named_with_what_does() {
    let said = kringle(&["verify", "pastry", "--model", "none"]).refused();
    assert!(said.contains("no model \"none\"") && said.contains("two-joiners"), "{said}");
    let said = kringle(&["verify", "pastry", "--without", "nothing"]).refused();
    assert!(said.contains("no rule \"nothing\"") && said.contains("keep-granted"), "{said}");
    let said = kringle(&["verify", "pastry", "--replay", "no/such/file"]).refused();
    assert!(said.contains("no/such/file: cannot read it"), "{said}");
    assert_eq!(kringle(&["verify", "chord"]).code, Some(2));
}

#[cfg(not(feature = "mutants"))]
#[test]
fn a_release_leaves_no_rule_out() {
    for args in [&["verify", "pastry", "--gate"][..], &["verify", "pastry", "--without", "sides"]] {
        let said = kringle(args).refused();
        assert!(said.contains("--features mutants"), "{said}");
    }
}
