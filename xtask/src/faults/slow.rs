//! Slow and broken connections, by proxies: round trips, F-22 to F-25.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::check::{Check, processes, settle, span, verdict};
use super::load::{DEADLINE, Kind, L1, Load, Sample};
use super::note;
use super::options::Options;
use super::pause;
use super::proxy::{Link, ring_behind};
use super::ring::{PEERS, Ring};
use super::watch::Watch;

const NODES: usize = 7;
/// Counts peers that were found dead.
pub(super) const DIED: &str = "kringle_notes_total{kind=\"died\"}";

/// Round trips of 100 ms to 2 s between all nodes: do they become a ring, and are nodes found dead.
pub(super) fn round_trips(options: &Options) -> Result<Vec<Check>, String> {
    let nodes = options.nodes.unwrap_or(5);
    let time = options.cut.unwrap_or(Duration::from_secs(60));
    let mut checks = Vec::new();
    for millis in [100, 500, 1_000, 2_000] {
        note(&format!("round trips of {millis} ms"));
        let link = Link { delay: Duration::from_millis(millis / 2), ..Link::default() };
        let (mut ring, proxies) = ring_behind(options, nodes, link)?;
        let limit = Duration::from_secs(60);
        let green = ring.time_until(Instant::now(), limit, Ring::is_green)?;
        checks.push(Check::within(&format!("{millis} ms: one ring, all ready"), limit, green));
        if green.is_none() {
            note("no ring at this distance: it forms without delay, then nodes move apart");
            (0..nodes).for_each(|at| proxies.set(at, Link::default()));
            if ring.time_until(Instant::now(), limit, Ring::is_green)?.is_none() {
                let what = format!("{millis} ms: one ring, all ready, without delay");
                checks.push(Check::within(&what, limit, None));
                continue;
            }
            (0..nodes).for_each(|at| proxies.set(at, link));
        }
        let before = ring.count(DIED);
        pause(time);
        let deaths = (ring.count(DIED) - before).max(0.0) as usize;
        checks.push(Check::at_most(&format!("{millis} ms: false deaths in {}", span(time)), 0, deaths));
        let put = || {
            let begun = Instant::now();
            let long = Duration::from_secs(20);
            let reply = ring.client.send("PUT", &ring.url(1), "/v1/kv/probe?timeout=20s", b"x", long);
            if reply.is_served() { span(begun.elapsed()) } else { reply.cause() }
        };
        checks.push(Check::info(&format!("{millis} ms: a write takes"), put()));
        let process = processes(&mut ring);
        checks.extend((!process.passed).then_some(process));
    }
    Ok(checks)
}

/// F-22: 200 ms +- 200 ms between all, one node 2 s away.
pub(super) fn jitter(options: &Options) -> Result<Vec<Check>, String> {
    let time = options.cut.unwrap_or(Duration::from_secs(120));
    let (mut ring, proxies) = ring_behind(options, NODES, Link::default())?;
    let (_, _) = ring.wait_green(Duration::from_secs(60))?;
    let link = Link { jitter: Duration::from_millis(200), ..Link::default() };
    (0..NODES).for_each(|at| proxies.set(at, link));
    let watch = Watch::start(&ring);
    pause(Duration::from_secs(10));
    let before = ring.count(DIED);
    proxies.set(NODES - 1, Link { delay: Duration::from_secs(1), ..link });
    note("n6 is 2 s away");
    let since = Instant::now();
    pause(time);
    let rounds = watch.since(since);
    let mut suspicions = 0;
    for pair in rounds.windows(2) {
        for (old, new) in pair[0].nodes.iter().zip(&pair[1].nodes) {
            let (Some(old), Some(new)) = (old, new) else { continue };
            suspicions += new.suspects.iter().filter(|id| !old.suspects.contains(id)).count();
        }
    }
    let hours = time.as_secs_f64() * NODES as f64 / 3600.0;
    let rate = suspicions as f64 / hours;
    let deaths = (ring.count(DIED) - before).max(0.0) as usize;
    Ok(vec![
        Check::new(
            "false suspicions per node-hour",
            "<= 1",
            format!("{rate:.1} ({suspicions})"),
            rate <= 1.0,
        ),
        Check::at_most("false deaths", 0, deaths),
        processes(&mut ring),
    ])
}

/// F-23: one node sends and receives 128 kbit/s at most.
pub(super) fn narrow(options: &Options) -> Result<Vec<Check>, String> {
    let (mut ring, proxies) = ring_behind(options, NODES, Link::default())?;
    ring.wait_green(Duration::from_secs(60))?;
    let mut load = Load::start(&ring, L1)?;
    let others: Vec<usize> = (0..NODES - 1).collect();
    load.aim(&ring, &others);
    pause(Duration::from_secs(10));
    let (from, to) = (Duration::ZERO, load.now());
    let before = load.window(from, to, |_| true);
    proxies.set(NODES - 1, Link { rate: Some(16_000), ..Link::default() });
    note("n6 has 128 kbit/s");
    let start = load.now();
    pause(options.cut.unwrap_or(Duration::from_secs(45)));
    let during = load.window(start, load.now(), |_| true);
    proxies.set(NODES - 1, Link::default());
    let healed = Instant::now();
    let settled = settle(&ring, healed)?;
    let limit = before.p99 * 2;
    let mut checks = vec![
        Check::within("p99 at the others (before, twice)", limit, Some(during.p99)),
        Check::errors("errors at the others", 0.0, &during),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-24: connections break in the middle of what they carry, 1,000 times.
pub(super) fn broken_frames(options: &Options) -> Result<Vec<Check>, String> {
    let times = options.repeats.unwrap_or(1_000);
    let (mut ring, proxies) = ring_behind(options, NODES, Link::default())?;
    ring.wait_green(Duration::from_secs(60))?;
    let mut load = Load::start(&ring, L1)?;
    pause(Duration::from_secs(5));
    let start = load.now();
    note(&format!("{times} connections break"));
    for time in 0..times {
        proxies.break_next();
        pause(Duration::from_millis(60));
        if time % 200 == 199 {
            note(&format!("{} broken, {} to come", time + 1 - proxies.breaks_left(), proxies.breaks_left()));
        }
    }
    while proxies.breaks_left() > 0 {
        pause(Duration::from_millis(50));
    }
    let (healed, end) = (Instant::now(), load.now());
    let settled = settle(&ring, healed)?;
    let during = load.window(start, end, |_| true);
    let (served, _) = load.wait_served(end, Duration::from_secs(60))?;
    let mut checks = vec![
        Check::within("p99 of operations (a reconnect included)", Duration::from_secs(1), Some(during.p99)),
        Check::info("errors while connections break", during.text()),
        Check::within("last failed operation afterwards", Duration::from_secs(1), served),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// F-25: one node's connections are accepted and never answered.
pub(super) fn black_hole(options: &Options) -> Result<Vec<Check>, String> {
    let (mut ring, proxies) = ring_behind(options, NODES, Link::default())?;
    ring.wait_green(Duration::from_secs(60))?;
    let mut load = Load::start(&ring, L1)?;
    let others: Vec<usize> = (0..NODES - 1).collect();
    load.aim(&ring, &others);
    pause(Duration::from_secs(5));
    note("n6 is behind a black hole");
    proxies.set(NODES - 1, Link { stalled: true, ..Link::default() });
    let start = load.now();
    pause(options.cut.unwrap_or(Duration::from_secs(45)));
    let end = load.now();
    proxies.set(NODES - 1, Link::default());
    let healed = Instant::now();
    note("healed");
    let settled = settle(&ring, healed)?;
    let stored = |sample: &Sample| sample.kind != Kind::Lookup;
    let late = load.window(start, end, |sample| sample.took > DEADLINE.mul_f64(1.1)).operations;
    let slowest = load.slowest(start, end);
    let mut checks = vec![
        Check::at_most("operations past their deadline of 2 s by more than 10 %", 0, late),
        Check::info("slowest operation", span(slowest)),
        Check::errors(
            "errors at the others after 15 s",
            0.0,
            &load.window(start + Duration::from_secs(15), end, stored),
        ),
        Check::info(
            "errors at the others in the first 15 s",
            load.window(start, start + Duration::from_secs(15), stored).text(),
        ),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// What nodes have sent to each other is sent once more, by a stranger.
pub(super) fn replay(options: &Options) -> Result<Vec<Check>, String> {
    const ACCEPTED: &str = "kringle_connections_accepted_total";
    let (mut ring, proxies) = ring_behind(options, 3, Link::default())?;
    ring.wait_green(Duration::from_secs(60))?;
    let mut load = Load::start(&ring, L1)?;
    pause(Duration::from_secs(5));
    let records = proxies.records();
    let before = ring.count(ACCEPTED);
    let repeats = options.repeats.unwrap_or(5);
    note(&format!("{} connections are replayed, {repeats} times", records.len()));
    let mut kept = 0;
    for _ in 0..repeats {
        let mut streams = Vec::new();
        for (host, bytes) in &records {
            let address = format!("{host}:{PEERS}").parse().map_err(|error| format!("{host}: {error}"))?;
            let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2));
            let mut stream = stream.map_err(|error| format!("{host}: {error}"))?;
            // The node may close before it has read everything.
            let _ = stream.write_all(bytes);
            streams.push(stream);
        }
        pause(Duration::from_secs(6));
        kept += streams.iter_mut().filter_map(|stream| is_kept(stream).then_some(())).count();
    }
    let accepted = (ring.count(ACCEPTED) - before).max(0.0) as usize;
    let settled = settle(&ring, Instant::now())?;
    let mut checks = vec![
        Check::at_most("replayed connections that were accepted", 0, accepted),
        Check::at_most("replayed connections still open after 6 s", 0, kept),
        settled,
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// Says whether a connection is still open, after reading what came.
fn is_kept(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    let _ = stream.set_nonblocking(true);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
