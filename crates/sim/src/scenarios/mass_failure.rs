//! A large part of the ring dies at once, and the rest goes on asking.

use std::time::Duration;

use kringle_core::config::{Ownership, Settings};
use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, NoteKind, Reply};
use kringle_core::id::{Base, Id};
use kringle_core::overlay::Status;
use kringle_core::time::Time;

use crate::invariants::Places;
use crate::lab::params::{
    BASE, DEAD, DURATION, LEAF_SET, LOOKUPS, NETWORK, NODES, OWNERSHIP, ROUNDS, SPARES,
};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Axis, Figure, Histogram, Plot, Role, Series, Shape, Table, Want};
use crate::world::World;

/// See the module.
pub(super) const MASS_FAILURE: Scenario = Scenario {
    name: "mass-failure",
    about: "lookups right after half of all nodes died at once",
    anchor: "Chord (ToN 2003), section VI-D: 1,000 nodes, each dies with probability 0.5, no stabilisation, 10,000 \
             lookups: none failed, 5.10 timeouts per lookup",
    params: &[
        (NODES, "100000"),
        (LOOKUPS, "1000000"),
        (DEAD, "50"),
        (DURATION, "30s"),
        (ROUNDS, "4"),
        (BASE, "4"),
        (LEAF_SET, "32"),
        (SPARES, "2"),
        (NETWORK, "plane"),
        (OWNERSHIP, "lease"),
    ],
    run,
};

/// How long a lookup may stay unanswered.
const DEADLINE: Duration = Duration::from_secs(60);
/// Lookups are sent in this rhythm.
const BEAT: Duration = Duration::from_millis(100);
/// From this second on the news of the deaths should have spread.
const SPREAD: usize = 10;
/// Chord's timeouts per lookup by the part of nodes that died, in per cent.
const CHORD: [(f64, f64); 6] =
    [(0.0, 0.0), (10.0, 0.6), (20.0, 1.17), (30.0, 2.02), (40.0, 3.23), (50.0, 5.1)];
/// Keeps who dies and who asks apart from other things drawn from the same seed.
const DEATHS: u64 = 12 << 40;

/// What happened in one second.
#[derive(Clone, Debug, Default)]
struct Second {
    sent: u64,
    lost: u64,
    wrong: u64,
    hops: u64,
    /// A hop stayed silent, and the message went another way or was sent once more.
    timeouts: u64,
    suspected: u64,
    died: u64,
}

/// A lookup under way.
struct Asked {
    second: usize,
    at: Time,
    root: Option<u32>,
    answered: bool,
}

/// The product's settings with the parameters of this run.
pub(super) fn product(lab: &Lab<'_>, preset: Settings) -> Settings {
    let or = |param, default: usize| if lab.params.has(param) { lab.count(param) } else { default };
    let leaf_set = or(LEAF_SET, preset.leaf_set.into()) as u16;
    Settings {
        base: Base::new(or(BASE, 4) as u8).unwrap_or(Base::HEX),
        leaf_set,
        spares: or(SPARES, preset.spares.into()) as u8,
        replicas: preset.replicas.min((leaf_set / 2).saturating_sub(1) as u8),
        ownership: if lab.params.text(OWNERSHIP) == "lease" { Ownership::Lease } else { Ownership::Hint },
        ..preset
    }
}

pub(super) fn random_key(dice: &mut SeededDice) -> Id {
    Id::new(u128::from(dice.roll()) << 64 | u128::from(dice.roll()))
}

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (nodes, share) = (lab.count(NODES), lab.params.real(DEAD));
    let dead = (nodes as f64 * share / 100.0).round() as usize;
    if nodes - dead < 2 {
        return Err(Halt::Impossible(format!(
            "--dead: of {nodes} nodes {dead} would die; at least two must be left to ask each other"
        )));
    }
    let mut world = lab.world_of(product(lab, Settings::default()))?;
    lab.grow(&mut world, nodes)?;
    let rounds = lab.count(ROUNDS);
    lab.rounds(&mut world, rounds)?;
    let mut dice = SeededDice::derive(lab.seed, DEATHS);
    let mut all: Vec<u32> = world.ready().map(|(node, _)| node).collect();
    for _ in 0..dead {
        world.crash(all.swap_remove(dice.below(all.len())));
    }
    let (seconds, hops, waits) = ask(lab, &mut world, &mut dice, &all)?;
    lab.keep(&format!("{nodes} nodes, {dead} of them die"), &world);
    tell(lab, &seconds, hops, waits);
    Ok(())
}

fn ask(
    lab: &mut Lab<'_>,
    world: &mut World,
    dice: &mut SeededDice,
    survivors: &[u32],
) -> Result<(Vec<Second>, Histogram, Histogram), Halt> {
    let (lookups, span) = (lab.count(LOOKUPS), lab.params.span(DURATION));
    let places = Places::of_ready(world);
    let beats = (span.as_millis() / BEAT.as_millis()).max(1) as usize;
    let mut seconds = vec![Second::default(); beats.div_ceil(10)];
    let mut asked: Vec<Asked> = Vec::with_capacity(lookups);
    let mut first = None;
    let (mut hops, mut waits) =
        (Histogram::new("hops of lookups after the deaths"), Histogram::new("milliseconds to the answer"));
    let notes = |world: &World| {
        let tally = |kind| world.tally.notes(kind);
        [
            tally(NoteKind::Rerouted) + tally(NoteKind::Resent),
            tally(NoteKind::Suspected),
            tally(NoteKind::Died),
        ]
    };
    world.take_replies();
    let mut before = notes(world);
    let drain = (DEADLINE.as_millis() / BEAT.as_millis()) as usize;
    let mut open = 0usize;
    for beat in 0..beats + drain {
        lab.progress("lookups", (beat as f64 / beats as f64).min(1.0))?;
        let last = beat.min(beats - 1) / 10;
        if beat < beats {
            for _ in asked.len()..lookups * (beat + 1) / beats {
                let key = random_key(dice);
                let mut from = survivors[dice.below(survivors.len())];
                // Who has lost its place for the moment has nobody to ask.
                for _ in 0..10 {
                    if world.node(from).is_some_and(|node| node.status() == Status::Ready) {
                        break;
                    }
                    from = survivors[dice.below(survivors.len())];
                }
                let command = Command::Lookup { key, trace: false, deadline: DEADLINE };
                let request = world.command(from, command);
                first.get_or_insert(request.0);
                let root = places.owner(key).map(|(_, node)| node);
                asked.push(Asked { second: last, at: world.now(), root, answered: false });
                seconds[last].sent += 1;
                open += 1;
            }
        } else if open == 0 {
            break;
        }
        world.run_for(BEAT);
        for answered in world.take_replies() {
            let at = first.and_then(|first| answered.request.0.checked_sub(first));
            let Some(asked) = at.and_then(|at| asked.get_mut(at as usize)) else { continue };
            asked.answered = true;
            open -= 1;
            let second = &mut seconds[asked.second];
            match answered.reply {
                Ok(Reply::Found { root, hops: took, .. }) => {
                    second.wrong += u64::from(Some(root.addr.0) != asked.root);
                    second.hops += u64::from(took);
                    hops.add(took.into());
                    waits.add(answered.at.since(asked.at).as_millis() as u64);
                }
                _ => second.lost += 1,
            }
        }
        let now = notes(world);
        if beat < beats {
            let second = &mut seconds[last];
            second.timeouts += now[0] - before[0];
            second.suspected += now[1] - before[1];
            second.died += now[2] - before[2];
        }
        before = now;
    }
    for asked in asked.iter().filter(|asked| !asked.answered) {
        seconds[asked.second].lost += 1;
    }
    Ok((seconds, hops, waits))
}

fn tell(lab: &mut Lab<'_>, seconds: &[Second], hops: Histogram, waits: Histogram) {
    let share = lab.params.real(DEAD);
    let chord = CHORD.iter().find(|(dead, _)| *dead == share).map(|(_, timeouts)| *timeouts);
    let total = |of: fn(&Second) -> u64, from: usize| seconds.iter().skip(from).map(of).sum::<u64>();
    let per = |count: u64, lookups: u64| count as f64 / lookups.max(1) as f64;
    let timeouts = |from| per(total(|s| s.timeouts, from), total(|s| s.sent, from));
    let report = &mut lab.report;
    let lost = Figure::new("lookups lost", total(|s| s.lost, 0) as f64, 0, "");
    report.figures.push(lost.paper(0.0).want(Want::AtMost(0.0)));
    report.figures.push(Figure::new(
        "lookups answered by the wrong node",
        total(|s| s.wrong, 0) as f64,
        0,
        "",
    ));
    if seconds.len() > SPREAD {
        let late = Figure::new("timeouts per lookup from the tenth second on", timeouts(SPREAD), 3, "");
        report.figures.push(late.want(Want::AtMost(1.0)));
    } else {
        report.remarks.push("--duration is too short to tell of the tenth second and later".to_owned());
    }
    let all = Figure::new("timeouts per lookup", timeouts(0), 3, "");
    report.figures.push(chord.map_or(all.clone(), |chord| all.paper(chord)));
    let mean = Figure::new("mean hops", hops.mean(), 3, "hops");
    report.figures.push(if share == 50.0 { mean.paper(5.09) } else { mean });
    for (name, part) in [("median wait", 0.5), ("99th percentile of the wait", 0.99)] {
        report.figures.push(Figure::new(name, waits.quantile(part) as f64, 0, "ms"));
    }
    let columns =
        ["second", "lookups", "timeouts per lookup", "suspected per lookup", "found dead", "mean hops"];
    let columns = columns.iter().chain(&["lost", "wrong"]).map(|column| (*column).to_owned()).collect();
    let row = |(at, s): (usize, &Second)| {
        let answered = s.sent - s.lost;
        let ratios = [per(s.timeouts, s.sent), per(s.suspected, s.sent)].map(|ratio| format!("{ratio:.3}"));
        let mut row = vec![at.to_string(), s.sent.to_string()];
        row.extend(ratios);
        row.extend([s.died.to_string(), format!("{:.3}", per(s.hops, answered))]);
        row.extend([s.lost.to_string(), s.wrong.to_string()]);
        row
    };
    let rows = seconds.iter().enumerate().map(row).collect();
    report.tables.push(Table { title: "Second by second after the deaths".to_owned(), columns, rows });
    let point = |(at, s): (usize, &Second)| (at as f64, per(s.timeouts, s.sent));
    let points = seconds.iter().enumerate().map(point).collect();
    let mut series = vec![Series { name: "Kringle".to_owned(), role: Role::Ours, points }];
    if let Some(chord) = chord {
        let points = vec![(0.0, chord), ((seconds.len() - 1) as f64, chord)];
        series.push(Series { name: "Chord, 1,000 nodes".to_owned(), role: Role::Paper, points });
    }
    report.plots.push(Plot {
        name: "timeouts".to_owned(),
        title: format!("Timeouts per lookup after {share} % of the nodes died"),
        shape: Shape::Lines,
        x: Axis { label: "seconds since the deaths".to_owned(), log: false },
        y: Axis { label: "timeouts per lookup".to_owned(), log: false },
        series,
    });
    report.counts.extend([hops, waits]);
    report.remarks.push(
        "upkeep runs as in the product's defaults; a timeout is a hop that stayed silent, so that the message went \
         another way or was sent once more"
            .to_owned(),
    );
    report.remarks.push(
        "right is the live node nearest to the key from the first moment on; Chord's run had 1,000 nodes and no \
         stabilisation"
            .to_owned(),
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::lab::Unwatched;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn nothing_is_lost_when_half_of_a_small_ring_dies() {
        let small = given(&[("nodes", "300"), ("lookups", "3000"), ("duration", "12s"), ("rounds", "1")]);
        let (report, halt) = MASS_FAILURE.run(&small, 1, &mut Unwatched).expect("possible");
        assert_eq!(halt, None);
        let figure = |name: &str| report.figures.iter().find(|figure| figure.name == name).expect(name).ours;
        assert_eq!(figure("lookups lost"), 0.0);
        assert!(figure("timeouts per lookup from the tenth second on") <= 1.0);
        assert!(figure("timeouts per lookup") > 0.0, "half of all hops are dead at first");
        assert_eq!(report.counts[0].total(), 3000);
        assert_eq!((report.worlds.len(), report.worlds[0].nodes), (1, 300));
        assert_eq!(report.tables[0].rows.len(), 12);
    }

    #[test]
    fn a_ring_in_which_nobody_could_ask_is_refused() {
        let refused = MASS_FAILURE.run(&given(&[("nodes", "3"), ("dead", "90")]), 1, &mut Unwatched);
        assert_eq!(
            refused.expect_err("one is left"),
            "--dead: of 3 nodes 3 would die; at least two must be left to ask each other"
        );
    }
}
