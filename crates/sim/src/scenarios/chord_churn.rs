//! Nodes of a Chord ring come and go while lookups go on (ToN 2003, section VI-E).

use std::collections::BTreeMap;
use std::time::Duration;

use kringle_core::dice::{Dice, SeededDice};
use kringle_core::edge::{Command, NoteKind, Reply, RequestId};
use kringle_core::id::{Id, Key};
use kringle_core::overlay::Status;
use kringle_core::time::Time;

use super::mass_failure::random_key;
use crate::lab::chord::{lines, series, table};
use crate::lab::params::{DURATION, LOOKUPS, NETWORK, NODES, RATE, STEPS, SUCCESSORS, TICK};
use crate::lab::{Halt, Lab, Scenario};
use crate::report::{Figure, Histogram, Role, Want};
use crate::world::World;

/// See the module.
pub(super) const CHORD_CHURN: Scenario = Scenario {
    name: "chord-churn",
    about: "lookups in Chord while nodes join and die: timeouts, and lookups that fail",
    anchor: "Chord (ToN 2003), section VI-E: 1,000 nodes, 20 successors, stabilisation every 30 s on average, joins and \
             leaves at 0.05 to 0.40 per second each, one lookup per second; 0 to 16 of 10,000 lookups failed",
    params: &[
        (NODES, "1000"),
        (LOOKUPS, "10000"),
        (SUCCESSORS, "20"),
        (TICK, "30s"),
        (RATE, "0.40"),
        (STEPS, "8"),
        (DURATION, "30m"),
        (NETWORK, "plane:100ms"),
    ],
    run,
};

/// The paper's timeouts per lookup and failures in 10,000 by joins, and leaves, per second.
const PAPER: [(f64, f64, f64); 8] = [
    (0.05, 0.05, 0.0),
    (0.10, 0.11, 0.0),
    (0.15, 0.16, 2.0),
    (0.20, 0.23, 5.0),
    (0.25, 0.30, 6.0),
    (0.30, 0.34, 8.0),
    (0.35, 0.42, 16.0),
    (0.40, 0.46, 15.0),
];
/// How long a lookup may stay unanswered.
const DEADLINE: Duration = Duration::from_secs(120);
/// How long its asker waits before it asks once more: whoever had the question in hand may have died with it.
const TRY: Duration = Duration::from_secs(20);
/// Members a newcomer knows.
const SEEDS: usize = 3;
/// Keeps coming, going and asking apart from other things drawn from the same seed.
const DRAWN: u64 = 26 << 40;

fn run(lab: &mut Lab<'_>) -> Result<(), Halt> {
    let (steps, most) = (lab.count(STEPS), lab.params.real(RATE));
    let columns = [
        "rate",
        "joins",
        "deaths",
        "lookups",
        "timeouts per lookup",
        "paper",
        "failed in 10,000",
        "paper",
        "lost",
        "wrong",
        "asker died",
        "asked again",
        "mean hops",
        "median ms",
        "p99 ms",
    ];
    lab.report.tables.push(table("Lookups by joins, and deaths, per second", &columns));
    let mut curves: [Vec<(f64, f64)>; 4] = Default::default();
    for step in 1..=steps {
        let rate = most * step as f64 / steps as f64;
        let paper = PAPER.iter().find(|row| (row.0 - rate).abs() < 1e-9);
        let settings = lab.chord_settings(Some(lab.params.span(TICK)));
        let mut world = lab.chord_ring(settings, lab.count(NODES))?;
        let mut ring = Ring::new(lab, &world, rate, step);
        ring.live(lab, &mut world)?;
        lab.keep(&format!("{rate:.2} joins and deaths per second"), &world);
        let answered = (ring.asked - ring.orphaned).max(1) as f64;
        let failed = (ring.lost + ring.wrong) as f64;
        let timeouts = ring.timeouts(&world);
        let text = |paper: Option<f64>, digits: usize| {
            paper.map_or("-".to_owned(), |paper| format!("{paper:.digits$}"))
        };
        lab.report.tables[0].rows.push(vec![
            format!("{rate:.2}"),
            ring.joins.to_string(),
            ring.deaths.to_string(),
            ring.asked.to_string(),
            format!("{timeouts:.3}"),
            text(paper.map(|row| row.1), 2),
            format!("{:.2}", failed / answered * 1e4),
            text(paper.map(|row| row.2), 0),
            ring.lost.to_string(),
            ring.wrong.to_string(),
            ring.orphaned.to_string(),
            ring.again.to_string(),
            format!("{:.2}", ring.hops.mean()),
            ring.waits.quantile(0.5).to_string(),
            ring.waits.quantile(0.99).to_string(),
        ]);
        curves[0].push((rate, failed / answered * 1e4));
        curves[1].push((rate, timeouts));
        if let Some((_, timeouts, failed)) = paper {
            curves[2].push((rate, *failed));
            curves[3].push((rate, *timeouts));
        }
        let figure = Figure::new(format!("lookups failed at {rate:.2}/s"), failed, 0, "");
        lab.report.figures.push(figure.want(Want::AtMost(0.0)));
        let mut figure = Figure::new(format!("timeouts per lookup at {rate:.2}/s"), timeouts, 3, "");
        figure.paper = paper.map(|row| row.1);
        lab.report.figures.push(figure);
        let reasons = ring.reasons.iter().map(|(reason, count)| format!("{count} {reason}"));
        let reasons: Vec<String> = reasons.collect();
        if !reasons.is_empty() {
            lab.report.remarks.push(format!("at {rate:.2}/s: {}", reasons.join(", ")));
        }
        lab.report.counts.extend([ring.hops, ring.waits]);
    }
    let [failed, timeouts, their_failed, their_timeouts] = curves;
    lab.report.plots.push(lines(
        "failures",
        "Lookups that failed, in 10,000",
        ("joins, and deaths, per second", false),
        "in 10,000",
        vec![series("Kringle", Role::Ours, failed), series("Chord 2003", Role::Paper, their_failed)],
    ));
    lab.report.plots.push(lines(
        "timeouts",
        "Timeouts per lookup",
        ("joins, and deaths, per second", false),
        "per lookup",
        vec![series("Kringle", Role::Ours, timeouts), series("Chord 2003", Role::Paper, their_timeouts)],
    ));
    lab.report.remarks.push(
        "whoever leaves does so without a word. Wrong: answered by a node although one nearer to the key was ready all \
         the time. Lost: not answered within two minutes, \
         though asked again every 20 s. Timeouts are those of all lookups, fingers' included"
            .to_owned(),
    );
    Ok(())
}

/// A lookup under way.
#[derive(Clone, Copy)]
struct Asked {
    at: Time,
    from: u32,
    key: Key,
}

/// The ring as somebody sees it who knows everything.
struct Ring {
    rate: f64,
    per_second: f64,
    /// Who is ready, and since when.
    members: BTreeMap<Id, (u32, Time)>,
    drawn: Vec<u32>,
    joining: BTreeMap<RequestId, u32>,
    open: BTreeMap<RequestId, Asked>,
    dice: SeededDice,
    joins: u64,
    deaths: u64,
    asked: u64,
    lost: u64,
    wrong: u64,
    /// Whoever asked was gone before the answer came.
    orphaned: u64,
    /// Questions that were asked once more.
    again: u64,
    /// Why, as far as somebody said so.
    reasons: BTreeMap<String, u64>,
    hops: Histogram,
    waits: Histogram,
    silent_before: u64,
    fingers_before: u64,
}

impl Ring {
    fn new(lab: &Lab<'_>, world: &World, rate: f64, step: usize) -> Ring {
        let span = lab.params.span(DURATION).as_secs_f64().max(1e-3);
        Ring {
            rate,
            per_second: lab.count(LOOKUPS) as f64 / span,
            members: world.ready().map(|(at, node)| (node.me().id, (at, Time::ZERO))).collect(),
            drawn: world.ready().map(|(at, _)| at).collect(),
            joining: BTreeMap::new(),
            open: BTreeMap::new(),
            dice: SeededDice::derive(lab.seed, DRAWN + step as u64),
            joins: 0,
            deaths: 0,
            asked: 0,
            lost: 0,
            wrong: 0,
            orphaned: 0,
            again: 0,
            reasons: BTreeMap::new(),
            hops: Histogram::new(format!("hops at {rate:.2}/s")),
            waits: Histogram::new(format!("milliseconds to the answer at {rate:.2}/s")),
            silent_before: silent(world),
            fingers_before: world.tally.notes(NoteKind::FingerFound),
        }
    }

    fn live(&mut self, lab: &mut Lab<'_>, world: &mut World) -> Result<(), Halt> {
        let (start, span) = (world.now(), lab.params.span(DURATION));
        let step = format!("nodes come and go, {:.2}/s", self.rate);
        let gap = |dice: &mut SeededDice, per_second: f64| {
            let unit = (dice.roll() >> 11) as f64 / (1u64 << 53) as f64;
            Duration::from_secs_f64(-(1.0 - unit).ln() / per_second)
        };
        let mut next = [self.rate, self.rate, self.per_second].map(|rate| gap(&mut self.dice, rate));
        let mut told = Duration::ZERO;
        world.take_replies();
        loop {
            let until = next[0].min(next[1]).min(next[2]);
            if until >= span {
                break;
            }
            if until >= told {
                lab.progress(&step, until.as_secs_f64() / span.as_secs_f64())?;
                told = until + span / 100;
            }
            let now = world.now().since(start);
            world.run_for(until.saturating_sub(now));
            self.take_answers(world);
            if until == next[0] {
                self.join(world);
                next[0] += gap(&mut self.dice, self.rate);
            } else if until == next[1] {
                self.die(world);
                next[1] += gap(&mut self.dice, self.rate);
            } else {
                self.ask(world);
                next[2] += gap(&mut self.dice, self.per_second);
            }
        }
        // The last lookups have their time, too; nobody comes or goes meanwhile.
        for _ in 0..=DEADLINE.as_secs() {
            if self.open.is_empty() {
                break;
            }
            world.run_for(Duration::from_secs(1));
            self.take_answers(world);
        }
        let open = std::mem::take(&mut self.open).len() as u64;
        self.lost += open;
        if open > 0 {
            *self.reasons.entry("never answered".to_owned()).or_default() += open;
        }
        Ok(())
    }

    fn join(&mut self, world: &mut World) {
        let node = world.spawn_random();
        let seeds: Vec<u32> = (0..SEEDS).map(|_| self.drawn[self.dice.below(self.drawn.len())]).collect();
        self.joins += 1;
        let request = world.join(node, &seeds);
        self.joining.insert(request, node);
    }

    fn die(&mut self, world: &mut World) {
        if self.drawn.len() <= 2 {
            return;
        }
        let node = self.drawn.swap_remove(self.dice.below(self.drawn.len()));
        self.members.remove(&world.contact(node).id);
        world.crash(node);
        self.deaths += 1;
        let before = self.open.len();
        self.open.retain(|_, asked| asked.from != node);
        self.orphaned += (before - self.open.len()) as u64;
    }

    fn ask(&mut self, world: &mut World) {
        let (from, key) = (self.drawn[self.dice.below(self.drawn.len())], random_key(&mut self.dice));
        let at = world.now();
        self.asked += 1;
        self.send(world, Asked { at, from, key });
        self.take_answers(world);
    }

    fn send(&mut self, world: &mut World, asked: Asked) {
        let command = Command::Lookup { key: asked.key, trace: false, deadline: TRY };
        let request = world.command(asked.from, command);
        self.open.insert(request, asked);
    }

    fn take_answers(&mut self, world: &mut World) {
        for answered in world.take_replies() {
            if let Some(node) = self.joining.remove(&answered.request) {
                if world.node(node).is_some_and(|node| node.status() == Status::Ready) {
                    self.members.insert(world.contact(node).id, (node, answered.at));
                    self.drawn.push(node);
                }
                continue;
            }
            let Some(asked) = self.open.remove(&answered.request) else { continue };
            match answered.reply {
                Ok(Reply::Found { root, hops, .. }) => {
                    self.hops.add(hops.into());
                    self.waits.add(answered.at.since(asked.at).as_millis() as u64);
                    self.wrong += u64::from(self.passed_over(&asked, root.id));
                }
                _ if answered.at.since(asked.at) + TRY <= DEADLINE => {
                    self.again += 1;
                    self.send(world, asked);
                }
                other => {
                    self.lost += 1;
                    *self.reasons.entry(format!("{other:?}")).or_default() += 1;
                }
            }
        }
    }

    /// Says whether somebody nearer to the key than `root` was ready all the time since it was asked for.
    fn passed_over(&self, asked: &Asked, root: Id) -> bool {
        let nearer = |(id, (_, since)): (&Id, &(u32, Time))| {
            asked.key.clockwise_to(*id) < asked.key.clockwise_to(root) && *since <= asked.at
        };
        // Members from the key on, around the end of the circle, up to the root.
        let after = self.members.range(asked.key..).chain(self.members.range(..asked.key));
        let upto = asked.key.clockwise_to(root);
        after.take_while(|(id, _)| asked.key.clockwise_to(**id) < upto).any(nearer)
    }

    /// Timeouts per lookup, of those for fingers, too.
    fn timeouts(&self, world: &World) -> f64 {
        let fingers = world.tally.notes(NoteKind::FingerFound) - self.fingers_before;
        (silent(world) - self.silent_before) as f64 / (self.asked + fingers).max(1) as f64
    }
}

/// How often a hop stayed silent so far.
fn silent(world: &World) -> u64 {
    world.tally.notes(NoteKind::Rerouted) + world.tally.notes(NoteKind::Resent)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{figure, run};
    use super::*;

    #[test]
    fn no_lookup_fails_while_a_small_ring_comes_and_goes() {
        let given =
            [("nodes", "100"), ("lookups", "300"), ("duration", "150s"), ("steps", "2"), ("rate", "0.2")];
        let report = run(&CHORD_CHURN, &given);
        assert_eq!(report.tables[0].rows.len(), 2);
        assert_eq!(figure(&report, "lookups failed at 0.20/s"), 0.0);
        let joins: u64 = report.tables[0].rows[1][1].parse().unwrap();
        assert!(joins > 10);
    }
}
