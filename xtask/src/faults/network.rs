//! Faults of the network: F-13 to F-18 and F-20.

use std::time::{Duration, Instant};

use super::check::{Check, settle, span, verdict};
use super::heal::split;
use super::load::{Kind, L1, L2, Load, Profile, Sample};
use super::note;
use super::options::Options;
use super::pause;
use super::ring::Ring;
use super::watch::{Watch, changes, doubles};

const NODES: usize = 7;
/// How long the load runs before the fault.
const BEFORE: Duration = Duration::from_secs(5);

/// A short cut of one link, for the test suite.
pub(super) fn link_cut_sample(options: &Options) -> Result<Vec<Check>, String> {
    let options = Options { nodes: Some(4), cut: Some(Duration::from_secs(12)), ..options.clone() };
    cut_link(&options, Profile { keys: 200, lookups: 100, ..L2 })
}

/// F-13: one link cut both ways, between ring neighbours.
pub(super) fn link_cut(options: &Options) -> Result<Vec<Check>, String> {
    cut_link(options, Profile { lookups: 100, ..L2 })
}

fn cut_link(options: &Options, profile: Profile) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, options.nodes.unwrap_or(NODES))?;
    let mut load = Load::start(&ring, profile)?;
    let watch = Watch::start(&ring);
    pause(BEFORE);
    let (a, b) = neighbours(&ring)?;
    note(&format!("link between n{a} and n{b} cut"));
    let (cut, cut_at) = (Instant::now(), load.now());
    ring.net.set_cut(a, b, true)?;
    ring.net.set_cut(b, a, true)?;
    pause(options.cut.unwrap_or(Duration::from_secs(30)));
    let relayed = ring.count("kringle_connections_by_relay_total ");
    ring.net.heal()?;
    let (healed, healed_at) = (Instant::now(), load.now());
    note("healed");
    let settled = settle(&ring, healed)?;
    let bridged = cut_at + Duration::from_secs(5);
    let at_the_two = load.window(bridged, healed_at, |sample| {
        (sample.node == a || sample.node == b) && sample.kind == Kind::Lookup
    });
    let third = |sample: &Sample| sample.node != a && sample.node != b;
    let lookups = load.window(cut_at, healed_at, |sample| third(sample) && sample.kind == Kind::Lookup);
    let stored = load.window(cut_at, healed_at, |sample| sample.kind != Kind::Lookup);
    let waiting = load
        .window(cut_at, healed_at, |sample| third(sample) && sample.kind == Kind::Lookup && !sample.stated);
    let all = ring.running();
    let mut checks = vec![
        Check::at_most("rounds with two deliverers for a key", 0, doubles(&watch.since(cut), &all)),
        Check::errors("failed lookups through third nodes", 0.1, &lookups),
        Check::errors("failed lookups at the two, from 5 s after the cut", 1.0, &at_the_two),
        Check::new("connections through a third node", ">= 1", relayed.to_string(), relayed >= 1.0),
        Check::info(
            "lookups that found a node which may not deliver",
            format!("{} of {}", waiting.operations, lookups.operations),
        ),
        Check::info("errors of the store while cut", stored.text()),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-14: packets from one node to its ring neighbour are dropped, those back are not.
pub(super) fn one_way_cut(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, options.nodes.unwrap_or(NODES))?;
    let mut load = Load::start(&ring, L1)?;
    pause(BEFORE);
    let (a, b) = neighbours(&ring)?;
    note(&format!("n{b} hears nothing from n{a}"));
    let cut_at = load.now();
    ring.net.set_cut(a, b, true)?;
    pause(options.cut.unwrap_or(Duration::from_secs(45)));
    ring.net.heal()?;
    let (healed, healed_at) = (Instant::now(), load.now());
    note("healed");
    let settled = settle(&ring, healed)?;
    let early = cut_at + Duration::from_secs(15);
    let mut checks = vec![
        Check::errors("errors in the first 15 s", 2.0, &load.window(cut_at, early, |_| true)),
        Check::errors("errors later", 0.0, &load.window(early, healed_at, |_| true)),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-15: 3 / 4 for 60 s.
pub(super) fn two_parts(options: &Options) -> Result<Vec<Check>, String> {
    parts(options, &[3, 4], L2, Duration::from_secs(30))
}

/// F-17: 3 / 2 / 2 for 60 s.
pub(super) fn three_parts(options: &Options) -> Result<Vec<Check>, String> {
    parts(options, &[3, 2, 2], L1, Duration::from_secs(45))
}

fn parts(
    options: &Options,
    sizes: &[usize],
    profile: Profile,
    limit: Duration,
) -> Result<Vec<Check>, String> {
    let cut = options.cut.unwrap_or(Duration::from_secs(60));
    let parts = split(sizes, NODES)?;
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, profile)?;
    pause(BEFORE);
    note(&format!("cut into {sizes:?} for {} s", cut.as_secs()));
    let cut_at = load.now();
    ring.net.partition(&parts)?;
    pause(cut);
    ring.net.heal()?;
    let (healed, healed_at) = (Instant::now(), load.now());
    note("healed");
    let all = ring.running();
    let one = ring.time_until(healed, Duration::from_secs(180), |ring| ring.is_one_ring(&all))?;
    let settled = settle(&ring, healed)?;
    let (served, after) = load.wait_served(healed_at, Duration::from_secs(120))?;
    let late = cut_at + Duration::from_secs(15);
    let mut checks = Vec::new();
    for part in &parts {
        let inside = |sample: &Sample| part.contains(&sample.node) && sample.kind != Kind::Lookup;
        let name = format!("part of {}", part.len());
        let window = load.window(late, healed_at, inside);
        match part.len() * 2 > NODES {
            true => checks.push(Check::errors(&format!("{name}: errors after 15 s"), 5.0, &window)),
            false => {
                let mute = |sample: &Sample| inside(sample) && sample.kind != Kind::Read && !sample.stated;
                let mute = load.window(late, healed_at, mute).operations;
                checks.push(Check::info(&format!("{name}: errors after 15 s"), window.text()));
                checks.push(Check::at_most(
                    &format!("{name}: writes that failed without an outcome"),
                    0,
                    mute,
                ));
            }
        }
    }
    checks.push(Check::within("one ring after healing", limit, one));
    checks.push(Check::within("last failed operation after healing", limit, served));
    checks.push(Check::info("errors after healing", after.text()));
    checks.push(settled);
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-16: one node is cut off from all others.
pub(super) fn one_alone(options: &Options) -> Result<Vec<Check>, String> {
    const LIMIT: Duration = Duration::from_secs(12);
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L1)?;
    let watch = Watch::start(&ring);
    pause(BEFORE);
    note("n6 cut off");
    let (cut, cut_at) = (Instant::now(), load.now());
    ring.net.partition(&split(&[NODES - 1, 1], NODES)?)?;
    let alone = NODES - 1;
    pause(options.cut.unwrap_or(Duration::from_secs(60)));
    ring.net.heal()?;
    let (healed, healed_at) = (Instant::now(), load.now());
    note("healed");
    let rounds = watch.since(cut);
    let isolated =
        rounds.iter().find(|round| round.nodes[alone].as_ref().is_some_and(|seen| seen.status == "isolated"));
    let statuses: std::collections::BTreeSet<&str> = rounds
        .iter()
        .filter_map(|round| round.nodes[alone].as_ref())
        .map(|seen| seen.status.as_str())
        .collect();
    let settled = settle(&ring, healed)?;
    let writes = |sample: &Sample| sample.node == alone && sample.kind == Kind::Write;
    // Without those that were under way when the cut ended.
    let window = load.window(cut_at + LIMIT, healed_at.saturating_sub(Duration::from_secs(3)), writes);
    let mut checks = vec![
        Check::within("the single node is isolated", LIMIT, isolated.map(|round| round.at - cut)),
        Check::info("its statuses", statuses.into_iter().collect::<Vec<_>>().join(", ")),
        Check::at_most("writes it served after 12 s", 0, window.operations - window.errors),
        Check::info(
            "errors at the six others after 12 s",
            load.window(cut_at + LIMIT, healed_at, |sample| sample.node != alone).text(),
        ),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-18: one node is cut off for 2 s and back for 2 s, again and again.
pub(super) fn flapping(options: &Options) -> Result<Vec<Check>, String> {
    const HALF: Duration = Duration::from_secs(2);
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L1)?;
    let watch = Watch::start(&ring);
    pause(BEFORE);
    let (flaky, id) = (NODES - 1, ring.nodes[NODES - 1].id.clone());
    let (begun, begun_at) = (Instant::now(), load.now());
    let time = options.cut.unwrap_or(Duration::from_secs(300));
    note(&format!("n{flaky} is cut off for 2 s of every 4 s, for {} s", time.as_secs()));
    let parts = split(&[NODES - 1, 1], NODES)?;
    while begun.elapsed() < time {
        ring.net.partition(&parts)?;
        pause(HALF);
        ring.net.heal()?;
        pause(HALF);
    }
    let (healed, healed_at) = (Instant::now(), load.now());
    note("healed");
    let settled = settle(&ring, healed)?;
    let is_neighbour = |round: &super::watch::Round| {
        let others = round.nodes[..flaky].iter().flatten();
        others.clone().any(|seen| seen.left == id || seen.right == id)
    };
    let others = load.window(begun_at, healed_at, |sample| sample.node != flaky);
    let mut checks = vec![
        Check::at_most("ring changes by that node", 10, changes(&watch.since(begun), is_neighbour)),
        Check::errors("errors at the others", 0.5, &others),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-20: packets are lost at random.
pub(super) fn loss(options: &Options) -> Result<Vec<Check>, String> {
    let time = options.cut.unwrap_or(Duration::from_secs(30));
    let mut ring = Ring::new(options, NODES)?;
    let mut load = Load::start(&ring, L1)?;
    let watch = Watch::start(&ring);
    pause(BEFORE);
    let (begun, mut checks) = (Instant::now(), Vec::new());
    for (percent, limit) in [(1, 0.1), (5, 1.0), (20, 5.0)] {
        note(&format!("{percent} % of all packets are lost for {} s", time.as_secs()));
        (0..NODES).try_for_each(|at| ring.net.set_loss(at, percent))?;
        let from = load.now();
        pause(time);
        let window = load.window(from, load.now(), |_| true);
        checks.push(Check::errors(&format!("errors at {percent} % loss"), limit, &window));
        checks.push(Check::info(&format!("p99 at {percent} % loss"), span(window.p99)));
    }
    (0..NODES).try_for_each(|at| ring.net.set_loss(at, 0))?;
    let healed = Instant::now();
    note("no loss");
    checks.push(settle(&ring, healed)?);
    let all = ring.running();
    checks.push(Check::at_most(
        "rounds with two deliverers for a key",
        0,
        doubles(&watch.since(begun), &all),
    ));
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// Returns two nodes that are ring neighbours.
pub(super) fn neighbours(ring: &Ring) -> Result<(usize, usize), String> {
    let right = ring.summary(0).and_then(|summary| Some(summary["right"].as_str()?.to_owned()));
    let right = right.ok_or("node 0 says nothing about its neighbours")?;
    let at =
        ring.nodes.iter().position(|node| node.id == right).ok_or("the neighbour of node 0 is unknown")?;
    Ok((0, at))
}
