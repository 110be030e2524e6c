//! Faults of processes: F-01 to F-09.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::check::{Check, settle, span, verdict};
use super::load::{Dice, Kind, L1, L2, Load, Profile, Sample};
use super::note;
use super::options::Options;
use super::pause;
use super::ring::Ring;
use super::watch::{Watch, doubles, longest, longest_gap};

const NODES: usize = 7;
/// How long the load runs before the fault.
const BEFORE: Duration = Duration::from_secs(5);

/// F-01: one node is killed and started again after 5 s, 20 times.
pub(super) fn kill_one(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L1)?;
    pause(BEFORE);
    let (mut slowest, mut worst, mut late) = (Some(Duration::ZERO), None, 0);
    let repeats = options.repeats.unwrap_or(20);
    for repeat in 0..repeats {
        let victim = repeat % NODES;
        note(&format!("n{victim} killed ({} of {repeats})", repeat + 1));
        // Clients of the dead node go to the others, as a client with two addresses does.
        let others: Vec<usize> = (0..NODES).filter(|at| *at != victim).collect();
        load.aim(&ring, &others);
        let from = load.now();
        ring.kill(victim);
        pause(Duration::from_secs(5));
        ring.start(victim)?;
        let started = Instant::now();
        let back = ring.time_until(started, Duration::from_secs(60), Ring::is_green)?;
        slowest = slowest.zip(back).map(|(slowest, back)| slowest.max(back));
        let end = from + Duration::from_secs(15);
        pause(end.saturating_sub(load.now()));
        let window = load.window(from, end, |_| true);
        load.aim(&ring, &ring.running());
        let settled = load.now();
        pause(Duration::from_secs(5));
        late += load.window(settled, load.now(), |_| true).errors;
        if worst.as_ref().is_none_or(|worst: &super::load::Window| worst.percent() < window.percent()) {
            worst = Some(window);
        }
    }
    let settled = settle(&ring, Instant::now())?;
    let mut checks = vec![
        Check::errors("errors in the 15 s after a kill, worst", 1.0, &worst.unwrap_or_default()),
        Check::at_most("errors later", 0, late),
        Check::within(
            "back in the ring and ready after the start, slowest",
            Duration::from_secs(10),
            slowest,
        ),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-02: a random node is killed every 3 s and started at once, 1,000 times.
pub(super) fn kill_loop(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L1)?;
    let mut dice = Dice::new(2);
    let mut opens = Vec::new();
    let repeats = options.repeats.unwrap_or(1_000);
    let start = load.now();
    for repeat in 0..repeats {
        let victim = dice.below(NODES as u64) as usize;
        ring.kill(victim);
        let begun = Instant::now();
        ring.start(victim)?;
        ring.wait_listening(victim)?;
        opens.push(begun.elapsed());
        pause(Duration::from_secs(3).saturating_sub(begun.elapsed()));
        if repeat % 20 == 19 {
            note(&format!("{} of {repeats} kills", repeat + 1));
        }
    }
    let during = load.window(start, load.now(), |_| true);
    opens.sort_unstable();
    let slow = opens.get(opens.len() * 99 / 100).copied();
    let settled = settle(&ring, Instant::now())?;
    let mut checks = vec![
        Check::within("start of the process until it listens, p99", Duration::from_secs(1), slow),
        Check::info("errors", during.text()),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-03: all nodes are killed at once and started again.
pub(super) fn kill_all(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L2)?;
    pause(BEFORE);
    note("all killed");
    (0..NODES).for_each(|at| ring.kill(at));
    (0..NODES).try_for_each(|at| ring.start(at))?;
    let (started, started_at) = (Instant::now(), load.now());
    let settled = settle(&ring, started)?;
    let (served, after) = load.wait_served(started_at, Duration::from_secs(120))?;
    let mut checks = vec![
        Check::within("last failed operation after the last start", Duration::from_secs(10), served),
        Check::info("errors after the last start", after.text()),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-04: a node is killed in the first 2 s of its start, 50 times in a row.
pub(super) fn kill_starting(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, 3)?;
    let mut dice = Dice::new(4);
    let repeats = options.repeats.unwrap_or(50);
    for _ in 0..repeats {
        ring.restart(2)?;
        pause(Duration::from_millis(dice.below(2_000)));
    }
    note(&format!("{repeats} starts were killed"));
    ring.restart(2)?;
    let listens = ring.wait_listening(2)?;
    let started = Instant::now();
    let green = ring.time_until(started, Duration::from_secs(60), Ring::is_green)?;
    let mut checks = vec![Check::within("the next start listens", Duration::from_secs(5), Some(listens))];
    checks.push(Check::within("one ring, all ready, after it", Duration::from_secs(60), green));
    checks.push(super::check::processes(&mut ring));
    Ok(checks)
}

/// F-05: SIGTERM to one node.
pub(super) fn terminate(options: &Options) -> Result<Vec<Check>, String> {
    leave_by(options, "SIGTERM", |ring, victim| ring.signal(victim, "TERM"))
}

/// F-06: a polite leave of one node of seven.
pub(super) fn leave(options: &Options) -> Result<Vec<Check>, String> {
    leave_by(options, "leave", |ring, victim| {
        let reply =
            ring.client.send("POST", &ring.url(victim), "/v1/node/leave", &[], Duration::from_secs(2));
        if reply.is_served() { Ok(()) } else { Err(format!("leave was answered with {}", reply.cause())) }
    })
}

fn leave_by(
    options: &Options,
    name: &str,
    tell: impl Fn(&mut Ring, usize) -> Result<(), String>,
) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L1)?;
    let victim = NODES - 1;
    let others: Vec<usize> = (0..victim).collect();
    load.aim(&ring, &others);
    pause(Duration::from_secs(12));
    let watch = Watch::start(&ring);
    pause(Duration::from_secs(1));
    note(&format!("{name} to n{victim}"));
    let (begun, from) = (Instant::now(), load.now());
    tell(&mut ring, victim)?;
    let exit = ring.wait_exit(victim, Duration::from_secs(60));
    note(&format!("ended: {exit:?}"));
    let settled = settle(&ring, begun)?;
    let during = load.window(from, load.now(), |_| true);
    let gap = longest_gap(&watch.since(begun));
    let ended = exit.as_ref().ok().map(|(_, time)| *time);
    let code = exit.as_ref().ok().and_then(|(status, _)| status.code());
    let mut checks = vec![
        Check::within("the process ends", Duration::from_secs(10), ended),
        Check::new("exit code", "0 or 143", format!("{code:?}"), matches!(code, Some(0 | 143))),
        Check::errors("errors at the others", 0.0, &during),
    ];
    let gap_limit = Duration::from_secs(1);
    match name == "leave" {
        true => checks.push(Check::within(
            "longest time a part of the ring had no deliverer",
            gap_limit,
            Some(gap),
        )),
        false => checks.push(Check::info("longest time a part of the ring had no deliverer", span(gap))),
    }
    checks.push(settled);
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-07: SIGSTOP of an owner for 1, 5, 15 and 60 s.
pub(super) fn stop_owner(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L2)?;
    let watch = Watch::start(&ring);
    pause(BEFORE);
    let (begun, victim) = (Instant::now(), NODES - 1);
    let others: Vec<usize> = (0..victim).collect();
    let mut checks = Vec::new();
    for seconds in [1, 5, 15, 60] {
        note(&format!("n{victim} stopped for {seconds} s"));
        load.aim(&ring, &others);
        let from = load.now();
        ring.signal(victim, "STOP")?;
        pause(Duration::from_secs(seconds));
        ring.signal(victim, "CONT")?;
        load.aim(&ring, &ring.running());
        let window = load.window(from, load.now(), |_| true);
        checks.push(Check::info(&format!("errors while stopped for {seconds} s"), window.text()));
        let green = ring.time_until(Instant::now(), Duration::from_secs(60), Ring::is_green)?;
        checks.push(Check::within(
            &format!("one ring, all ready, after {seconds} s"),
            Duration::from_secs(60),
            green,
        ));
        pause(Duration::from_secs(3));
    }
    let all = ring.running();
    checks.push(Check::at_most(
        "rounds with two deliverers for a key",
        0,
        doubles(&watch.since(begun), &all),
    ));
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-08: SIGSTOP of three nodes of seven for 20 s.
pub(super) fn stop_three(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, NODES)?;
    let profile = Profile { keys: 500, lookups: 0, ..L1 };
    let mut load = Load::start(&ring, profile)?;
    pause(BEFORE);
    let stopped = [4, 5, 6];
    note("where keys are");
    let dead: Vec<String> = stopped.iter().map(|at| ring.nodes[*at].id.clone()).collect();
    let mut lost: BTreeMap<usize, usize> = BTreeMap::new();
    for key in 0..profile.keys {
        let place = ring.client.look(&ring.url(key % 4), &format!("/v1/place/k{key}"));
        let place = place.ok_or_else(|| format!("no node said where k{key} is"))?;
        let copies = place["copies"].list().iter();
        let nodes = copies.filter_map(|copy| copy["node"].as_str());
        lost.insert(key, nodes.filter(|node| dead.iter().any(|id| id == node)).count());
    }
    load.aim(&ring, &[0, 1, 2, 3]);
    note("n4, n5 and n6 stopped for 20 s");
    let from = load.now();
    stopped.iter().try_for_each(|at| ring.signal(*at, "STOP"))?;
    pause(options.cut.unwrap_or(Duration::from_secs(20)));
    stopped.iter().try_for_each(|at| ring.signal(*at, "CONT"))?;
    let (woken, end) = (Instant::now(), load.now());
    let settled = settle(&ring, woken)?;
    let copies_lost = |sample: &Sample| sample.key.and_then(|key| lost.get(&key)).copied().unwrap_or(0);
    let late = from + Duration::from_secs(12);
    let majority = load.window(late, end, |sample| copies_lost(sample) < 2);
    let minority = load.window(late, end, |sample| copies_lost(sample) >= 2);
    let mute = |sample: &Sample| copies_lost(sample) >= 2 && sample.kind == Kind::Write && !sample.stated;
    let mut checks = vec![
        Check::errors("keys with a quorum: errors after 12 s", 5.0, &majority),
        Check::info("keys without a quorum: errors after 12 s", minority.text()),
        Check::at_most(
            "keys without a quorum: writes that failed without an outcome",
            0,
            load.window(from, end, mute).operations,
        ),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// Busy loops. They end when this is dropped.
struct Hogs(Vec<Child>);

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// F-09: four busy loops beside the nodes.
pub(super) fn hog(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L1)?;
    let watch = Watch::start(&ring);
    let quiet_from = load.now();
    pause(Duration::from_secs(15));
    let quiet = load.window(quiet_from, load.now(), |_| true);
    note("four busy loops");
    let mut hogs = Hogs(Vec::new());
    for _ in 0..4 {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        hogs.0.push(command.spawn().map_err(|error| format!("sh: {error}"))?);
    }
    let (begun, from) = (Instant::now(), load.now());
    pause(options.cut.unwrap_or(Duration::from_secs(60)));
    let busy = load.window(from, load.now(), |_| true);
    drop(hogs);
    let rounds = watch.since(begun);
    let suspected = |id: &String| {
        longest(&rounds, |round| round.nodes.iter().flatten().any(|seen| seen.suspects.contains(id)))
    };
    let longest = ring.nodes.iter().map(|node| suspected(&node.id)).max().unwrap_or_default();
    let settled = settle(&ring, Instant::now())?;
    let mut checks = vec![
        Check::within("longest false suspicion", Duration::from_secs(5), Some(longest)),
        Check::within("p99 (quiet, ten times)", quiet.p99 * 10, Some(busy.p99)),
        Check::info("p99 quiet", span(quiet.p99)),
        Check::info("errors", busy.text()),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}
