//! Runs repeat, and tell what they did.

use super::*;

fn set_up(ownership: Ownership) -> SetUp {
    SetUp::new(8, Duration::from_secs(20), ownership)
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let summary = |seed| run(seed, &set_up(Ownership::Lease)).expect("ends well");
    assert_eq!(summary(1), summary(1));
    assert_ne!(summary(1).trace, summary(2).trace);
}

#[test]
fn a_run_says_what_it_did() {
    let summary = run(3, &set_up(Ownership::Lease)).expect("ends well");
    assert!(summary.events > 1000 && summary.nodes >= 4 && summary.lookups == 3 * summary.nodes);
    for invariant in Invariant::ALL {
        assert!(summary.checks.get(invariant.name()).is_some_and(|count| *count > 0), "{invariant:?}");
    }
    let hint = run(3, &set_up(Ownership::Hint)).expect("ends well");
    assert_eq!(hint.checks.get("one-deliverer"), None, "not promised without leases");
}

#[test]
fn a_violation_names_the_command_that_shows_it_again() {
    let set_up = SetUp { sabotage: Some(|_, _| panic!("a planted one")), ..set_up(Ownership::Lease) };
    let violation = run(7, &set_up).expect_err("planted");
    assert_eq!((violation.invariant, violation.phase), (Invariant::NodeRules, Phase::Liveness));
    let text = violation.to_string();
    let command = "kringle sim run chaos --seed 7 --nodes 8 --duration 20000ms --ownership lease";
    assert_eq!(super::SetUp { sabotage: None, ..set_up }.replay(7), command);
    assert!(text.contains("a planted one") && text.contains(command), "{text}");
}

#[test]
fn chord_is_replayed_as_chord() {
    let set_up = SetUp { overlay: OverlayKind::Chord, ..set_up(Ownership::Lease) };
    let command =
        "kringle sim run chaos --seed 7 --nodes 8 --duration 20000ms --ownership hint --overlay chord";
    assert_eq!(set_up.replay(7), command);
}

/// Seeds in which the ring came apart once: see `an_empty_answer_leaves_the_list_though_its_head_has_changed`.
#[test]
fn chaos_over_chord_ends_well() {
    let set_up =
        SetUp { overlay: OverlayKind::Chord, ..SetUp::new(24, Duration::from_secs(60), Ownership::Hint) };
    for seed in 1..9 {
        run(seed, &set_up).unwrap_or_else(|violation| panic!("{violation}"));
    }
    let set_up = SetUp { duration: Duration::from_secs(120), ..set_up };
    for seed in [588, 681] {
        run(seed, &set_up).unwrap_or_else(|violation| panic!("{violation}"));
    }
}
