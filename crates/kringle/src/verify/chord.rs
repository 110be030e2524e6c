//! Chord's ring, every order: one world that is told, or the set that every change is tried on.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use clap::Args;
use kringle_check::chord::forming::{self, FoundGroup, GROUPS, TOO_EARLY, TOO_LONG, search_group};
use kringle_check::chord::suite::{self, GATE, RUNS};
use kringle_check::chord::{Found, Limits, Progress, World, search};
use kringle_core::config::Safeguard;
use serde_json::{Value, json};

use super::{Verdict, begin, needs_mutants, progress, rule};
use crate::failure::{Ending, Failure};
use crate::sim::stop;

const NOT_COVERED: &str = "\
Not covered: more nodes, or more going wrong, than a world has; two equal messages in flight at once; polite leaves and
merging rings; what the overlay around the ring decides (fingers, routing, ownership, when a suspect is forgotten); and
whatever lies beyond the limit wherever a search was cut off.
";

#[derive(Debug, Args)]
pub(crate) struct ChordArgs {
    /// Entries of a successor list
    #[arg(long, value_name = "R")]
    successors: Option<u8>,
    /// Members of the ring at the start, more than a list has entries
    #[arg(long, value_name = "N")]
    founders: Option<u8>,
    /// Places on the ring, those of the founders included; joiners take any that is free
    #[arg(long, value_name = "N")]
    ids: Option<u8>,
    /// Nodes that join
    #[arg(long, value_name = "N")]
    joins: Option<u8>,
    /// Nodes that fail
    #[arg(long, value_name = "N")]
    failures: Option<u8>,
    /// Failed nodes that come back
    #[arg(long, value_name = "N")]
    restarts: Option<u8>,
    /// Times a node takes another for silent that is not
    #[arg(long, value_name = "N")]
    false_timeouts: Option<u8>,
    /// Messages that are lost
    #[arg(long, value_name = "N")]
    loss: Option<u8>,
    /// A question and its answer are one step, and a tick runs its query to the end
    #[arg(long)]
    atomic: bool,
    /// Encode and decode every message on its way
    #[arg(long)]
    codec: bool,
    /// Let nodes fail also where the proof assumes that they do not; judges lists and timers only
    #[arg(long)]
    any_failure: bool,
    /// End a search after this many states
    #[arg(long, value_name = "STATES", default_value_t = 5_000_000)]
    limit: usize,
    /// Look from one in so many states whether the ring heals, besides those with nothing in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    rest_every: u64,
    /// Leave one rule out, to see that it is missed
    #[arg(long, value_name = "RULE")]
    without: Option<String>,
    /// Leave out each rule of the gate in turn: every one must be missed
    #[arg(long, conflicts_with_all = [
        "successors", "founders", "ids", "joins", "failures", "restarts", "false_timeouts", "loss", "atomic",
        "codec", "any_failure", "without",
    ])]
    gate: bool,
}

impl ChordArgs {
    /// Says whether a world was told.
    fn tells_world(&self) -> bool {
        let numbers = [
            self.successors,
            self.founders,
            self.ids,
            self.joins,
            self.failures,
            self.restarts,
            self.false_timeouts,
            self.loss,
        ];
        let flags = [self.atomic, self.codec, self.any_failure, self.without.is_some()];
        numbers.iter().any(Option::is_some) || flags.contains(&true)
    }

    fn world(&self, without: Option<Safeguard>) -> World {
        let successors = self.successors.unwrap_or(2);
        let founders = self.founders.unwrap_or_else(|| successors.saturating_add(1));
        let joins = self.joins.unwrap_or(0);
        World {
            successors,
            founders,
            ids: self.ids.unwrap_or_else(|| World::usual_ids(founders, joins)),
            joins,
            failures: self.failures.unwrap_or(0),
            restarts: self.restarts.unwrap_or(0),
            false_timeouts: self.false_timeouts.unwrap_or(0),
            losses: self.loss.unwrap_or(0),
            atomic: self.atomic,
            any_failure: self.any_failure,
            codec: self.codec,
            without,
        }
    }
}

pub(super) fn run(args: &ChordArgs, json: bool) -> Result<Verdict, Failure> {
    let without = args.without.as_deref().map(rule).transpose()?;
    if without.is_some() || args.gate {
        needs_mutants("chord")?;
    }
    stop::listen();
    if args.gate {
        return run_gate(json);
    }
    let refused = |why: String| Failure::usage(why, "See 'kringle verify chord --help'.");
    let (names, found): (Vec<&str>, Vec<Found>) = if args.tells_world() {
        let world = args.world(without);
        world.check().map_err(refused)?;
        let limits = Limits { states: args.limit, rest_every: args.rest_every, ..Limits::default() };
        begin(&world.to_string());
        let told = |now: Progress| {
            progress(&format!("{} states, depth {}, {} to go on from", now.states, now.depth, now.open));
        };
        (vec!["world"], vec![search(world, limits, &stop::STOP, told).map_err(refused)?])
    } else {
        let found = suite::run(args.limit, &stop::STOP, begin).map_err(refused)?;
        (RUNS.map(|run| run.name).to_vec(), found)
    };
    let mut groups = Vec::new();
    if !args.tells_world() {
        for (name, group, states) in GROUPS {
            begin(name);
            groups.push((name, search_group(group, states.min(args.limit), &stop::STOP)));
        }
    }
    progress("");
    let good = found.iter().all(|found| found.broken.is_none())
        && groups.iter().all(|(_, found)| found.broken.is_none());
    let text = if json {
        let worlds = names.iter().zip(&found).map(|(name, found)| world_json(name, found));
        let groups = groups.iter().map(|(name, found)| group_json(name, found));
        let worlds: Vec<Value> = worlds.chain(groups).collect();
        let value = json!({
            "schema": "kringle.verify/1",
            "protocol": "chord",
            "without": args.without,
            "bounds": { "states": args.limit },
            "models": worlds,
            "good": good,
        });
        format!("{value:#}\n")
    } else {
        let worlds = names.iter().zip(&found).map(|(name, found)| world_text(name, found));
        let groups = groups.iter().map(|(name, found)| group_text(name, found));
        let worlds: Vec<String> = worlds.chain(groups).collect();
        format!("{}\nA search ends after {} states at most.\n\n{NOT_COVERED}", worlds.join("\n"), args.limit)
    };
    Ok(Verdict { text, ending: ending(good) })
}

/// What was found until Ctrl-C is shown; the exit code says that it is not all.
fn ending(good: bool) -> Ending {
    if good && stop::STOP.load(Ordering::Relaxed) {
        return Ending::Failed(Failure::interrupted("interrupted", "Run it again to search to the end."));
    }
    good.into()
}

fn per_second(found: &Found) -> u64 {
    (found.states as f64 / found.time.as_secs_f64().max(1e-6)) as u64
}

fn ended(found: &Found) -> &'static str {
    match (found.complete, &found.broken) {
        (true, _) => "every state seen",
        (false, Some(_)) => "ended by what it found",
        (false, None) => "cut off",
    }
}

fn world_text(name: &str, found: &Found) -> String {
    let mut text = format!("{name}: {}\n", found.world);
    let _ = writeln!(
        text,
        "  {} states, {} steps, depth {}, {:.1} s, {} states/s, {} MB, {}",
        found.states,
        found.steps,
        found.depth,
        found.time.as_secs_f64(),
        per_second(found),
        found.bytes >> 20,
        ended(found)
    );
    if found.rested > 0 {
        let _ = writeln!(
            text,
            "  left in peace in {} of them: the ring was ideal after {} rounds at most",
            found.rested, found.rounds
        );
    }
    let Some(broken) = &found.broken else {
        let _ = writeln!(text, "  hold in all of them: {}", found.properties.join("; "));
        return text;
    };
    let _ = writeln!(text, "  BROKEN: {}\n", broken.property);
    for (nth, line) in broken.schedule.iter().enumerate() {
        let _ = writeln!(text, "{:5}. {line}", nth + 1);
    }
    let _ = writeln!(text, "\n  then");
    for line in &broken.nodes {
        let _ = writeln!(text, "    {line}");
    }
    text
}

fn world_json(name: &str, found: &Found) -> Value {
    json!({
        "model": name,
        "bounds": found.world.to_string(),
        "unique_states": found.states,
        "steps": found.steps,
        "depth": found.depth,
        "seconds": found.time.as_secs_f64(),
        "states_per_second": per_second(found),
        "bytes": found.bytes,
        "complete": found.complete,
        "left_in_peace": found.rested,
        "rounds_max": found.rounds,
        "properties": found.properties,
        "never_happened": found.unseen,
        "broken": found.broken.as_ref().map(|broken| broken.property),
        "schedule": found.broken.as_ref().map(|broken| &broken.schedule),
        "good": found.broken.is_none(),
    })
}

fn group_text(name: &str, found: &FoundGroup) -> String {
    let ended = match (found.complete, &found.broken) {
        (true, _) => "every state seen",
        (false, Some(_)) => "ended by what it found",
        (false, None) => "cut off",
    };
    let mut text = format!("{name}: {}\n", found.group);
    let (states, depth, seconds) = (found.states, found.depth, found.time.as_secs_f64());
    let _ = writeln!(text, "  {states} states, depth {depth}, {seconds:.1} s, {ended}");
    let Some((property, schedule)) = &found.broken else {
        let _ = writeln!(text, "  hold in all of them: {}", forming::PROPERTIES.join("; "));
        return text;
    };
    let _ = writeln!(text, "  BROKEN: {property}\n");
    for (nth, line) in schedule.iter().enumerate() {
        let _ = writeln!(text, "{:5}. {line}", nth + 1);
    }
    text
}

fn group_json(name: &str, found: &FoundGroup) -> Value {
    json!({
        "model": name,
        "bounds": found.group.to_string(),
        "unique_states": found.states,
        "depth": found.depth,
        "seconds": found.time.as_secs_f64(),
        "complete": found.complete,
        "properties": forming::PROPERTIES,
        "broken": found.broken.as_ref().map(|(property, _)| property),
        "schedule": found.broken.as_ref().map(|(_, schedule)| schedule),
        "good": found.broken.is_none(),
    })
}

/// A rule left out, and what came of it: the world, the broken property with the length of its schedule, the states.
type Missed = (&'static str, String, Option<(&'static str, usize)>, usize);

fn run_gate(json: bool) -> Result<Verdict, Failure> {
    let found = suite::gate(&stop::STOP, |rule| begin(&format!("without {rule}")))
        .map_err(|why| Failure::usage(why, "This is our mistake; please report it."))?;
    let groups = [(Safeguard::Forming, TOO_EARLY), (Safeguard::WayBack, TOO_LONG)];
    let groups = groups.map(|(rule, group)| (rule, search_group(group, usize::MAX, &stop::STOP)));
    progress("");
    let mut rows: Vec<Missed> = Vec::new();
    for (found, rule) in found.iter().zip(GATE) {
        let broken = found.broken.as_ref().map(|broken| (broken.property, broken.schedule.len()));
        rows.push((rule.rule.name(), found.world.to_string(), broken, found.states));
    }
    for (rule, found) in groups {
        let broken = found.broken.map(|(property, schedule)| (property, schedule.len()));
        rows.push((rule.name(), found.group.to_string(), broken, found.states));
    }
    let good = rows.len() > GATE.len() && rows.iter().all(|(_, _, broken, _)| broken.is_some());
    let text = if json {
        let rules = rows.iter().map(|(rule, world, broken, states)| {
            json!({
                "rule": rule,
                "model": world,
                "broken": broken.map(|(property, _)| property),
                "steps": broken.map(|(_, steps)| steps),
                "states": states,
            })
        });
        let rules: Vec<Value> = rules.collect();
        format!("{:#}\n", json!({ "schema": "kringle.verify-gate/1", "rules": rules, "good": good }))
    } else {
        let mut text = format!("{:16} {:>6} {:>9}  {}\n", "without", "steps", "states", "broken");
        for (rule, _, broken, states) in &rows {
            let (what, steps) = match broken {
                Some((property, steps)) => (*property, steps.to_string()),
                None => ("NOT MISSED", String::new()),
            };
            let _ = writeln!(text, "{rule:16} {steps:>6} {states:>9}  {what}");
        }
        text
    };
    Ok(Verdict { text, ending: ending(good) })
}
