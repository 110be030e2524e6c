//! More than a node has room for: connections (crowds, F-11) and bytes (F-10).

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::check::{Check, processes};
use super::client::Client;
use super::net::run;
use super::note;
use super::options::Options;
use super::pause;
use super::ring::{PEERS, Ring, Start};

/// Silent connections to the peer port, and idle clients.
const PEER_CROWD: usize = 1_200;
const CLIENT_CROWD: usize = 500;
/// Fewer descriptors than this are too few for a node, as it says itself.
const LEAST: u32 = 96;

/// Nodes with few descriptors and crowds at their ports; one with too few does not start.
pub(super) fn crowds(options: &Options) -> Result<Vec<Check>, String> {
    allow_connections()?;
    let mut checks = vec![too_few(options, 64)?, too_few(options, LEAST - 1)?];
    for descriptors in [1_024, 256, LEAST] {
        note(&format!("a node with {descriptors} descriptors"));
        let (mut ring, small) = match ring_with(options, descriptors) {
            Ok(found) => found,
            Err(why) => {
                checks.push(Check::new(&format!("{descriptors} descriptors: ring"), "forms", why, false));
                continue;
            }
        };
        checks.push(said(&ring, small, descriptors));
        for (crowd, port, name) in [(PEER_CROWD, PEERS, "silent peers"), (CLIENT_CROWD, 7480, "idle clients")]
        {
            let what = format!("{descriptors} descriptors, {crowd} {name}");
            checks.extend(crowd_at(&mut ring, small, crowd, port, &what)?);
            let process = processes(&mut ring);
            if !ring.unexpected_exits.is_empty() {
                ring.unexpected_exits.clear();
                ring.start(small)?;
            }
            checks.push(Check { what: format!("{what}: {}", process.what), ..process });
        }
    }
    Ok(checks)
}

/// Whether a node with too few descriptors refuses to start, and says how many it needs.
fn too_few(options: &Options, descriptors: u32) -> Result<Check, String> {
    let mut ring = Ring::empty(options)?;
    let small = ring.add_unstarted(Start { descriptors: Some(descriptors), ..Start::default() })?;
    ring.start(small)?;
    let ended = ring.wait_exit(small, Duration::from_secs(10));
    let code = ended.ok().and_then(|(status, _)| status.code());
    let says = ring.log(small).contains(&format!("needs at least {LEAST}"));
    let text = format!("exit code {code:?}, says the minimum: {says}");
    let refused = code.is_some_and(|code| code != 0) && says;
    Ok(Check::new(&format!("{descriptors} descriptors"), "refused, with the minimum", text, refused))
}

/// Whether a node says how it shares out its descriptors: when it starts, and in `config show`.
fn said(ring: &Ring, small: usize, descriptors: u32) -> Check {
    let start = ring.log(small).contains(&format!("{descriptors} descriptors: "));
    let config = ring.client.look(&ring.url(small), "/v1/config").unwrap_or_default();
    let shown = config["descriptors"]["all"].as_f64() == Some(f64::from(descriptors));
    let text = format!("start {start}, config {shown}");
    Check::new(
        &format!("{descriptors} descriptors: said at start and in the config"),
        "both",
        text,
        start && shown,
    )
}

/// F-11: 128 descriptors and more clients than that.
pub(super) fn few_descriptors(options: &Options) -> Result<Vec<Check>, String> {
    allow_connections()?;
    let (mut ring, small) = ring_with(options, 128)?;
    let mut checks = crowd_at(&mut ring, small, 300, 7480, "300 idle clients")?;
    checks.push(processes(&mut ring));
    Ok(checks)
}

/// F-10: clients send values as large as they like, for 30 s.
pub(super) fn value_flood(options: &Options) -> Result<Vec<Check>, String> {
    const LIMIT: u64 = 256 << 20;
    let mut ring = Ring::new(options, 3)?;
    let time = options.cut.unwrap_or(Duration::from_secs(30));
    let (urls, end) = (ring.urls(), Instant::now() + time);
    note("16 clients send values of 64 KiB to 64 MiB");
    let sent = Mutex::new(BTreeMap::<String, usize>::new());
    std::thread::scope(|scope| {
        for worker in 0..16_usize {
            let (urls, sent) = (&urls, &sent);
            scope.spawn(move || {
                let client = Client::new();
                // The last two sizes are above what a node takes.
                let value =
                    vec![b'x'; [64 << 10, 256 << 10, 1 << 20, 1 << 20, 2 << 20, 64 << 20][worker % 6]];
                let mut round = 0;
                while Instant::now() < end {
                    round += 1;
                    let path = format!("/v1/kv/flood{worker}-{}?timeout=2s", round % 20);
                    let url = &urls[(worker + round) % urls.len()];
                    let reply = client.send("PUT", url, &path, &value, Duration::from_secs(5));
                    let answer = if reply.is_served() { "stored".into() } else { reply.cause() };
                    *sent.lock().unwrap_or_else(PoisonError::into_inner).entry(answer).or_default() += 1;
                }
            });
        }
    });
    let sent = sent.into_inner().unwrap_or_else(PoisonError::into_inner);
    let answers: Vec<String> = sent.iter().map(|(answer, count)| format!("{count}x {answer}")).collect();
    let memory = (0..ring.nodes.len()).filter_map(|at| ring.peak_memory(at)).max().unwrap_or(u64::MAX);
    let green = ring.time_until(Instant::now(), Duration::from_secs(60), Ring::is_green)?;
    let text = format!("{} MiB", memory >> 20);
    Ok(vec![
        Check::new("peak memory of a node", "<= 256 MiB", text, memory <= LIMIT),
        Check::info("answers", answers.join(", ")),
        Check::within("one ring, all ready, after the flood", Duration::from_secs(60), green),
        processes(&mut ring),
    ])
}

/// Lets this process have as many connections as a crowd needs.
fn allow_connections() -> Result<(), String> {
    run(&format!("prlimit --pid {} --nofile=8192:", std::process::id()))
}

/// Starts a ring of three whose last node has few descriptors.
fn ring_with(options: &Options, descriptors: u32) -> Result<(Ring, usize), String> {
    let mut ring = Ring::empty(options)?;
    ring.grow(2)?;
    let (join, descriptors) = (ring.seeds(), Some(descriptors));
    let small = ring.add(Start { join, descriptors, ..Start::default() })?;
    ring.wait_green(Duration::from_secs(60))?;
    Ok((ring, small))
}

fn crowd_at(
    ring: &mut Ring,
    small: usize,
    crowd: usize,
    port: u16,
    what: &str,
) -> Result<Vec<Check>, String> {
    let url = ring.url(small);
    let write = |client: &Client, key: &str| {
        let path = format!("/v1/kv/{key}?timeout=2s");
        client.send("PUT", &url, &path, b"x", Duration::from_secs(2))
    };
    let (old, new) = (Client::new(), Client::new());
    if ring
        .time_until(Instant::now(), Duration::from_secs(30), |_| write(&old, "before").is_served())?
        .is_none()
    {
        let cause = write(&old, "before").cause();
        return Ok(vec![Check::new(&format!("{what}: served before the crowd came"), "true", cause, false)]);
    }
    let host = url.split(':').next().unwrap_or_default();
    let address: SocketAddr = format!("{host}:{port}").parse().map_err(|error| format!("{url}: {error}"))?;
    let mut held = Vec::new();
    let begun = Instant::now();
    while held.len() < crowd && begun.elapsed() < Duration::from_secs(20) {
        match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
            Ok(stream) => held.push(stream),
            // Its queue is full: the node accepts slowly, or not at all.
            Err(_) => pause(Duration::from_millis(50)),
        }
    }
    note(&format!("{what}: {} connected", held.len()));
    let (mut served, mut tries) = (0, 0);
    let watched = Instant::now();
    while watched.elapsed() < Duration::from_secs(10) {
        tries += 1;
        served += usize::from(write(&old, "during").is_served());
        pause(Duration::from_millis(500));
    }
    let newcomer = write(&new, "new").is_served();
    let ready = (0..ring.nodes.len()).filter(|at| *at != small).all(|at| ring.is_ready(at));
    drop(held);
    let left = Instant::now();
    let fresh = Client::new();
    let back = ring.time_until(left, Duration::from_secs(30), |_| write(&fresh, "after").is_served())?;
    let text = format!("{served} of {tries}");
    let is_clients = port != PEERS;
    let mut checks = vec![
        Check::new(&format!("{what}: an earlier client is served"), "all", text, served == tries),
        Check::new(&format!("{what}: other nodes are ready"), "true", ready.to_string(), ready),
        Check::within(&format!("{what}: a new client is served afterwards"), Duration::from_secs(5), back),
    ];
    let demanded = if is_clients { "-" } else { "true" };
    checks.push(Check::new(
        &format!("{what}: a new client is served meanwhile"),
        demanded,
        newcomer.to_string(),
        is_clients || newcomer,
    ));
    Ok(checks)
}
