//! Too many connections for the descriptors a node has: crowds, F-11.

use std::net::{SocketAddr, TcpStream};
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

/// Nodes with few descriptors and crowds at their ports.
pub(super) fn crowds(options: &Options) -> Result<Vec<Check>, String> {
    allow_connections()?;
    let mut checks = Vec::new();
    for descriptors in [1_024, 256, 64] {
        note(&format!("a node with {descriptors} descriptors"));
        let (mut ring, small) = match ring_with(options, descriptors) {
            Ok(found) => found,
            Err(why) => {
                checks.push(Check::new(&format!("{descriptors} descriptors: ring"), "forms", why, false));
                continue;
            }
        };
        for (crowd, port, name) in [(PEER_CROWD, PEERS, "silent peers"), (CLIENT_CROWD, 7480, "idle clients")]
        {
            let what = format!("{descriptors} descriptors, {crowd} {name}");
            checks.extend(crowd_at(&mut ring, small, crowd, port, &what)?);
        }
        let process = processes(&mut ring);
        checks.push(Check { what: format!("{descriptors} descriptors: {}", process.what), ..process });
    }
    Ok(checks)
}

/// F-11: 128 descriptors and more clients than that.
pub(super) fn few_descriptors(options: &Options) -> Result<Vec<Check>, String> {
    allow_connections()?;
    let (mut ring, small) = ring_with(options, 128)?;
    let mut checks = crowd_at(&mut ring, small, 300, 7480, "300 idle clients")?;
    checks.push(processes(&mut ring));
    Ok(checks)
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
    if !write(&old, "before").is_served() {
        return Err("the node did not serve before the crowd came".into());
    }
    let host = url.split(':').next().unwrap_or_default();
    let address: SocketAddr = format!("{host}:{port}").parse().map_err(|error| format!("{url}: {error}"))?;
    let mut held = Vec::new();
    let begun = Instant::now();
    while held.len() < crowd && begun.elapsed() < Duration::from_secs(20) {
        match TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            Ok(stream) => held.push(stream),
            // Its queue is full, which is one way to be polite.
            Err(_) => break,
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
