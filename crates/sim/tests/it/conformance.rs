//! The overlay conformance suite, run for Pastry and for Chord.

use std::time::Duration;

use kringle_core::config::{Metric, OverlayKind, Ownership, Settings};
use kringle_core::id::Base;
use kringle_core::message::BodyKind;
use kringle_core::node::Node;
use kringle_sim::conformance::{self, Subject};

use crate::seeds;

fn pastry() -> Subject {
    // Small leaf sets, so that rings of a hundred nodes need their tables; short periods, so that upkeep takes part.
    let settings = Settings {
        leaf_exchange: Duration::from_secs(10),
        row_swap: Duration::from_secs(20),
        neighbourhood_exchange: Duration::from_secs(30),
        // Shorter than what the suite's requests wait, so that giving up occurs.
        transit_max: Duration::from_secs(10),
        seen_for: Duration::from_secs(30),
        ..Settings::demo()
    };
    // `echo` is the stand-in overlay's; a delivery comes too late only where a node is stopped in its tracks, and
    // leases are refused for long only while links stay broken.
    Subject {
        name: "pastry",
        make: Node::pastry,
        settings,
        impossible: &[
            "echo",
            "deliver-refused",
            "leases-overdue",
            // Chord's.
            "get-best-predecessor",
            "got-best-predecessor",
            "get-succ-list",
            "got-succ-list",
            "get-pred-and-succs",
            "got-pred-and-succs",
            "notify",
            "busy",
            "ring-ping",
            "ring-pong",
            "leaving",
            "apply",
            "referred",
            "seal",
            "sealed",
            "commit",
            "forwarded-successor-list",
            "forwarded-finger",
            "forwarded-predecessor",
            "gave-way",
            "list-holds",
            "finger-found",
            "dissolved",
            "went-back",
        ],
        upkeep: &[BodyKind::StateRequest, BodyKind::Ping],
    }
}

fn pastry_by_hint() -> Subject {
    let settings = Settings { ownership: Ownership::Hint, ..pastry().settings };
    let impossible = &[
        "echo",
        "deliver-refused",
        "lease-request",
        "lease-reply",
        "lease-recall",
        "lease-return",
        "lease-granted",
        "lease-refused",
        "lease-lost",
        "lease-displaced",
        "lease-recalled",
        "leases-overdue",
        "verifying",
        "kept-dead",
        // Chord's.
        "get-best-predecessor",
        "got-best-predecessor",
        "get-succ-list",
        "got-succ-list",
        "get-pred-and-succs",
        "got-pred-and-succs",
        "notify",
        "busy",
        "ring-ping",
        "ring-pong",
        "leaving",
        "apply",
        "referred",
        "seal",
        "sealed",
        "commit",
        "forwarded-successor-list",
        "forwarded-finger",
        "forwarded-predecessor",
        "gave-way",
        "list-holds",
        "finger-found",
        "dissolved",
        "went-back",
    ];
    Subject { name: "pastry by hint", settings, impossible, ..pastry() }
}

fn chord() -> Subject {
    let settings = Settings {
        overlay: OverlayKind::Chord,
        transit_max: Duration::from_secs(10),
        seen_for: Duration::from_secs(30),
        ..Settings::demo()
    };
    Subject {
        name: "chord",
        make: Node::chord,
        settings,
        impossible: &[
            "echo",
            "deliver-refused",
            // Whatever is cut off here, somebody has a way.
            "gave-up",
            // No ring here shrinks that far; `way_back` is about those.
            "went-back",
            // Pastry's.
            "join",
            "join-reply",
            "join-refused",
            "leaf-probe",
            "leaf-reply",
            "announce",
            "race",
            "state-request",
            "state-reply",
            "goodbye",
            "obituary",
            "lease-request",
            "lease-reply",
            "lease-recall",
            "lease-return",
            "forwarded-leaf-set",
            "forwarded-cell",
            "forwarded-spare",
            "forwarded-rare-case",
            "helping",
            "queued",
            "nearer-seed",
            "raced",
            "cell-filled",
            "cell-improved",
            "spare-promoted",
            "cell-asked",
            "lazy-repair",
            "leaf-asked",
            "leaf-sought",
            "lease-granted",
            "lease-refused",
            "lease-lost",
            "lease-displaced",
            "lease-recalled",
            "leases-overdue",
            "verifying",
            "kept-dead",
        ],
        upkeep: &[BodyKind::Lookup],
    }
}

#[test]
fn chord_conforms_and_every_kind_of_message_and_note_occurs() {
    conformance::run(&chord(), 1);
}

/// Further seeds, one behaviour after the other; `KRINGLE_SEEDS` tries others.
#[test]
fn chord_conforms_with_other_seeds() {
    for seed in seeds(2..5) {
        for (name, behaviour) in conformance::BEHAVIOURS {
            println!("chord, seed {seed}: {name}");
            behaviour(&chord(), seed);
        }
    }
}

/// Short and long lists, slow upkeep, the application's metric.
#[test]
fn chord_conforms_in_other_shapes() {
    let shapes = [
        Settings { successors: 3, ..chord().settings },
        Settings { successors: 5, ..chord().settings },
        Settings { successors: 10, ..chord().settings },
        Settings { tick: Duration::from_secs(3), rectify: Duration::from_secs(1), ..chord().settings },
        Settings { metric: Metric::Application, proximity_cache: 0, ..chord().settings },
    ];
    for (shape, settings) in shapes.into_iter().enumerate() {
        let subject = Subject { settings, ..chord() };
        for (name, behaviour) in conformance::BEHAVIOURS {
            println!("shape {shape}: {name}");
            behaviour(&subject, 1);
        }
    }
}

#[test]
fn pastry_conforms_and_every_kind_of_message_and_note_occurs() {
    conformance::run(&pastry(), 1);
}

#[test]
fn pastry_by_hint_conforms_and_every_kind_of_message_and_note_occurs() {
    conformance::run(&pastry_by_hint(), 1);
}

#[test]
fn regression_seeds_stay_fixed() {
    let subject = pastry_by_hint();
    let lines = include_str!("../../seeds/conformance.txt").lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let mut parts = line.split('|').map(str::trim);
        let (Some(seed), Some(name), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
            panic!("not seed | behaviour | what it caught: {line}");
        };
        let behaviour = conformance::BEHAVIOURS.iter().find(|(known, _)| *known == name);
        let (_, behaviour) = behaviour.unwrap_or_else(|| panic!("no such behaviour: {name}"));
        println!("{line}");
        behaviour(&subject, seed.parse().expect("a seed is a number"));
    }
}

/// Further seeds, one behaviour after the other; `KRINGLE_SEEDS` tries others.
#[test]
fn pastry_conforms_with_other_seeds() {
    for seed in seeds(2..5) {
        for subject in [pastry(), pastry_by_hint()] {
            for (name, behaviour) in conformance::BEHAVIOURS {
                println!("{}, seed {seed}: {name}", subject.name);
                behaviour(&subject, seed);
            }
        }
    }
}

/// Every base, tables without spares or neighbours, large and tiny leaf sets, no search, the application's metric.
#[test]
fn pastry_conforms_in_other_shapes() {
    let base = |b: u8| Base::new(b).expect("1 to 8");
    let shapes = [
        Settings { base: base(1), ..pastry().settings },
        Settings { base: base(3), spares: 0, ..pastry().settings },
        Settings { base: base(8), neighbourhood: 0, ..pastry().settings },
        Settings { leaf_set: 4, replicas: 1, ..pastry().settings },
        Settings { leaf_set: 32, ..pastry().settings },
        Settings { find_nearby: false, proximity_cache: 0, ..pastry().settings },
        Settings { metric: Metric::Application, ..pastry().settings },
    ];
    for (shape, settings) in shapes.into_iter().enumerate() {
        let subject = Subject { settings, ..pastry() };
        for (name, behaviour) in conformance::BEHAVIOURS {
            println!("shape {shape}: {name}");
            behaviour(&subject, 1);
        }
    }
}
