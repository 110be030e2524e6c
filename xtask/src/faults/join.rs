//! Joining: storms, F-26, F-27, F-47, F-54, F-56.

use std::time::{Duration, Instant};

use super::check::{Check, processes, settle, span, verdict};
use super::json::Value;
use super::load::{Dice, L1, L2, Load, Profile};
use super::note;
use super::options::Options;
use super::pause;
use super::ring::{PEERS, Ring, Start};

/// Counts what came from an earlier life of a node and was refused.
const REFUSED: &str = "kringle_refused_total";

/// Twelve nodes join three at the same instant, beside clients of the three. Twelve nodes that found a ring each show before
/// how much of it is the machine's share.
pub(super) fn storm(options: &Options) -> Result<Vec<Check>, String> {
    let newcomers = options.nodes.unwrap_or(12);
    let mut ring = Ring::new(options, 3)?;
    let profile = Profile { clients: 16, keys: 500, writes: 20, reads: 60, lookups: 20, ..L1 };
    let mut load = Load::start(&ring, profile)?;
    let from = load.now();
    pause(Duration::from_secs(15));
    let before = load.window(from, load.now(), |_| true);
    note(&format!("{newcomers} unrelated nodes start"));
    let unrelated = prepare(&mut ring, newcomers, &Start::default())?;
    let from = load.now();
    unrelated.iter().try_for_each(|at| ring.start(*at))?;
    pause(Duration::from_secs(5));
    let beside = load.window(from, load.now(), |_| true);
    unrelated.iter().for_each(|at| ring.kill(*at));
    pause(Duration::from_secs(5));
    let join = vec![ring.peer_address(0)];
    let added = prepare(&mut ring, newcomers, &Start { join, ..Start::default() })?;
    let from = load.now();
    let ready = start_at_once(&mut ring, &added, Duration::from_secs(120))?;
    pause((from + Duration::from_secs(5)).saturating_sub(load.now()));
    let during = load.window(from, load.now(), |_| true);
    let settled = settle(&ring, Instant::now())?;
    let mut checks = vec![
        Check::within("all ready after the last start", Duration::from_secs(15), ready),
        Check::within("p99 of the bystander", Duration::from_millis(40), Some(during.p99)),
        Check::info("p99 before", span(before.p99)),
        Check::info("p99 beside as many unrelated nodes", span(beside.p99)),
        Check::errors("errors of the bystander", 0.0, &during),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-47: 2, 5 and 20 nodes join at the same instant through one seed.
pub(super) fn join_together(options: &Options) -> Result<Vec<Check>, String> {
    let mut checks = Vec::new();
    for newcomers in [2, 5, 20] {
        let mut ring = Ring::new(options, 3)?;
        let join = vec![ring.peer_address(0)];
        let added = prepare(&mut ring, newcomers, &Start { join, ..Start::default() })?;
        let ready = start_at_once(&mut ring, &added, Duration::from_secs(120))?;
        let limit = Duration::from_secs(15);
        checks.push(Check::within(
            &format!("{newcomers} nodes: all ready after the last start"),
            limit,
            ready,
        ));
        let process = processes(&mut ring);
        checks.extend((!process.passed).then_some(process));
    }
    Ok(checks)
}

/// Adds hosts for nodes that are started later.
fn prepare(ring: &mut Ring, nodes: usize, start: &Start) -> Result<Vec<usize>, String> {
    (0..nodes).map(|_| ring.add_unstarted(start.clone())).collect()
}

/// Starts nodes, and returns when all are one ring and ready.
fn start_at_once(ring: &mut Ring, added: &[usize], limit: Duration) -> Result<Option<Duration>, String> {
    note(&format!("{} nodes join", added.len()));
    added.iter().try_for_each(|at| ring.start(*at))?;
    let started = Instant::now();
    // Not more often: a node looks at all its slots for an answer, and clients wait meanwhile.
    let is_green = |ring: &Ring| {
        ring.is_green() || {
            pause(Duration::from_millis(400));
            false
        }
    };
    let ready = ring.time_until(started, limit, is_green)?;
    if ready.is_none() {
        note(&ring.describe());
    }
    Ok(ready)
}

/// F-26: a node restarts on another port.
pub(super) fn new_address(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, 7)?;
    let mut load = Load::start(&ring, L1)?;
    let others: Vec<usize> = (0..6).collect();
    load.aim(&ring, &others);
    pause(Duration::from_secs(5));
    let id = ring.nodes[6].id.clone();
    note("n6 restarts on another port");
    ring.kill(6);
    ring.set_start(6, |start| start.port = Some(PEERS + 7));
    ring.start(6)?;
    let started = Instant::now();
    ring.wait_listening(6)?;
    let is_known = |ring: &Ring| {
        others.iter().all(|at| {
            let peers = ring.client.look(&ring.url(*at), "/v1/peers").unwrap_or_default();
            let mut peers = peers["peers"].list().iter().filter(|peer| peer["id"] == *id.as_str());
            peers.any(|peer| {
                peer["endpoints"]
                    .list()
                    .iter()
                    .filter_map(Value::as_str)
                    .any(|at| at.ends_with(&format!(":{}", PEERS + 7)))
            })
        })
    };
    let known = ring.time_until(started, Duration::from_secs(60), is_known)?;
    let same = ring.nodes[6].id == id;
    let settled = settle(&ring, started)?;
    let mut checks = vec![
        Check::new("the same id", "true", same.to_string(), same),
        Check::within("the new address is known everywhere", Duration::from_secs(15), known),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-27: the only seed is down while five members live on, and another node wants to join.
pub(super) fn no_seed(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, 1)?;
    let join = vec![ring.peer_address(0)];
    for _ in 0..5 {
        ring.add(Start { join: join.clone(), ..Start::default() })?;
    }
    ring.wait_green(Duration::from_secs(60))?;
    let mut load = Load::start(&ring, L1)?;
    load.aim(&ring, &[1, 2, 3, 4, 5]);
    pause(Duration::from_secs(5));
    note("the seed is killed");
    let from = load.now();
    ring.kill(0);
    pause(Duration::from_secs(15));
    let newcomer = ring.add(Start { join, ..Start::default() })?;
    pause(Duration::from_secs(20));
    let end = load.now();
    let reply = ring.client.send("GET", &ring.url(newcomer), "/readyz", &[], Duration::from_secs(2));
    let code = String::from_utf8_lossy(&reply.body).contains("KR0520");
    note("the seed returns");
    ring.start(0)?;
    let started = Instant::now();
    ring.wait_listening(0)?;
    let joined = ring.time_until(started, Duration::from_secs(120), |ring| ring.is_ready(newcomer))?;
    let settled = settle(&ring, started)?;
    let late = load.window(from + Duration::from_secs(15), end, |_| true);
    let mut checks = vec![
        Check::errors("errors at the members after 15 s", 0.0, &late),
        Check::new("the newcomer says KR0520", "true", code.to_string(), code),
        Check::within("it is ready after the seed returned", Duration::from_secs(10), joined),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-54: a node of another cluster is told to join this one.
pub(super) fn wrong_cluster(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, 3)?;
    let more = vec!["--cluster".into(), "other".into()];
    let stranger = ring.add_unstarted(Start { join: ring.seeds(), more, ..Start::default() })?;
    ring.start(stranger)?;
    let ended = ring.wait_exit(stranger, Duration::from_secs(20));
    let text = ring.log(stranger);
    let code = ended.as_ref().ok().and_then(|(status, _)| status.code());
    ring.kill(stranger);
    let says = text.contains("KR0421") || text.contains("cluster");
    Ok(vec![
        Check::new("it ends with", "exit code 4", format!("{code:?}"), code == Some(4)),
        Check::new("it names the cluster as the cause", "true", says.to_string(), says),
        Check::new("the ring stays as it was", "true", ring.is_green().to_string(), ring.is_green()),
        processes(&mut ring),
    ])
}

/// F-56: a node is killed and back under its id after a second, 100 times.
pub(super) fn rejoin(options: &Options) -> Result<Vec<Check>, String> {
    let mut ring = Ring::new(options, 7)?;
    let mut load = Load::start(&ring, L1)?;
    let others: Vec<usize> = (0..6).collect();
    load.aim(&ring, &others);
    let repeats = options.repeats.unwrap_or(100);
    let mut doubled = 0;
    for repeat in 0..repeats {
        ring.kill(6);
        pause(Duration::from_secs(1));
        ring.start(6)?;
        ring.wait_listening(6)?;
        pause(Duration::from_secs(1));
        let document = ring.client.look(&ring.url(0), "/v1/ring?deadline=1s").unwrap_or_default();
        let nodes = document["survey"]["nodes"].list().iter();
        doubled += usize::from(nodes.filter(|node| node["name"] == *"n6").count() > 1);
        if repeat % 10 == 9 {
            note(&format!("{} of {repeats}", repeat + 1));
        }
    }
    let refused = ring.count(REFUSED);
    let settled = settle(&ring, Instant::now())?;
    let during = load.window(Duration::ZERO, load.now(), |_| true);
    let mut checks = vec![
        Check::at_most("rings with the node twice", 0, doubled),
        Check::info("refused messages, all reasons", format!("{refused:.0}")),
        Check::info("errors at the others", during.text()),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-52: a node joins or leaves every 5 s, for 10 min.
pub(super) fn come_and_go(options: &Options) -> Result<Vec<Check>, String> {
    let time = options.cut.unwrap_or(Duration::from_secs(600));
    let mut ring = Ring::new(options, 7)?;
    let mut load = Load::start(&ring, L2)?;
    let mut dice = Dice::new(52);
    let (begun, from) = (Instant::now(), load.now());
    let (mut joined, mut left) = (0, 0);
    while begun.elapsed() < time {
        let step = Instant::now();
        let members = ring.running();
        if members.len() <= 5 || (members.len() < 9 && dice.below(2) == 0) {
            let join = members.iter().take(3).map(|at| ring.peer_address(*at)).collect();
            ring.add(Start { join, ..Start::default() })?;
            joined += 1;
        } else {
            let victim = members[dice.below(members.len() as u64) as usize];
            let others: Vec<usize> = members.into_iter().filter(|at| *at != victim).collect();
            load.aim(&ring, &others);
            ring.client.send("POST", &ring.url(victim), "/v1/node/leave", &[], Duration::from_secs(2));
            ring.wait_exit(victim, Duration::from_secs(60))?;
            left += 1;
        }
        load.aim(&ring, &ring.running());
        pause(Duration::from_secs(5).saturating_sub(step.elapsed()));
    }
    note(&format!("{joined} joined, {left} left"));
    let during = load.window(from, load.now(), |_| true);
    let settled = settle(&ring, Instant::now())?;
    let mut checks = vec![Check::info("errors", during.text()), settled];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}
