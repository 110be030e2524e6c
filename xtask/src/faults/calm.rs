//! Rings without load: what they cost, and how fast they notice silence.

use std::time::{Duration, Instant};

use super::check::{Check, processes, span};
use super::note;
use super::options::Options;
use super::pause;
use super::ring::Ring;

/// Traffic of 64 nodes without clients.
pub(super) fn idle(options: &Options) -> Result<Vec<Check>, String> {
    let nodes = options.nodes.unwrap_or(64);
    let time = options.cut.unwrap_or(Duration::from_secs(120));
    let mut ring = Ring::empty(options)?;
    ring.grow(nodes)?;
    let formed = ring.wait_green(Duration::from_secs(180))?.1;
    note(&format!("{nodes} nodes are one ring after {}", span(formed)));
    // Until leases are granted and slots are where they belong.
    pause(Duration::from_secs(60));
    let wire = |ring: &Ring| (0..nodes).map(|at| ring.net.traffic(at)).collect::<Result<Vec<_>, _>>();
    let sent = |ring: &Ring| -> Vec<f64> {
        let counter =
            |at: usize| ring.client.counter(&ring.url(at), "kringle_bytes_sent_total").unwrap_or(0.0);
        (0..nodes).map(counter).collect()
    };
    let (sent_before, before) = (sent(&ring), wire(&ring)?);
    note(&format!("nothing happens for {}", span(time)));
    pause(time);
    let (after, sent_after) = (wire(&ring)?, sent(&ring));
    let seconds = time.as_secs_f64();
    let rates: Vec<f64> =
        before.iter().zip(&after).map(|(old, new)| (new.1 - old.1) as f64 / seconds).collect();
    let above: Vec<f64> =
        sent_before.iter().zip(&sent_after).map(|(old, new)| (new - old) / seconds).collect();
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let most = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    let text = |rates: &[f64]| format!("{:.0} B/s, the busiest {:.0} B/s", mean(rates), most(rates));
    Ok(vec![
        Check::new("bytes sent above TCP, each", "<= 250 B/s", text(&above), mean(&above) <= 250.0),
        Check::info("bytes sent on the wire, each", text(&rates)),
        processes(&mut ring),
    ])
}

/// One node of 16 is stopped: how long until no other node counts on it.
pub(super) fn silence(options: &Options) -> Result<Vec<Check>, String> {
    let nodes = options.nodes.unwrap_or(16);
    let repeats = options.repeats.unwrap_or(10);
    let mut ring = Ring::new(options, nodes)?;
    pause(Duration::from_secs(15));
    let mut times = Vec::new();
    let mut unnoticed = 0;
    for repeat in 0..repeats {
        let victim = repeat % nodes;
        let id = ring.nodes[victim].id.clone();
        ring.signal(victim, "STOP")?;
        let stopped = Instant::now();
        let others = ring.running();
        let is_gone = |ring: &Ring| {
            others.iter().all(|at| {
                let peers = ring.client.look(&ring.url(*at), "/v1/peers");
                peers.is_some_and(|peers| {
                    let mut peers = peers["peers"].list().iter();
                    !peers.any(|peer| peer["id"] == *id.as_str() && peer["state"] == *"up")
                })
            })
        };
        let suspected = ring.time_until(stopped, Duration::from_secs(60), is_gone)?;
        let removed = ring.time_until(stopped, Duration::from_secs(60), |ring| ring.is_one_ring(&others))?;
        note(&format!(
            "{} of {repeats}: no longer up: {suspected:?}, out of the ring: {removed:?}",
            repeat + 1
        ));
        match removed.max(suspected).filter(|_| removed.is_some() && suspected.is_some()) {
            Some(time) => times.push(time),
            None => unnoticed += 1,
        }
        ring.signal(victim, "CONT")?;
        ring.wait_green(Duration::from_secs(60))?;
        pause(Duration::from_secs(3));
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied();
    let slowest = times.last().copied().filter(|_| unnoticed == 0);
    Ok(vec![
        Check::within("all others have removed it, slowest", Duration::from_secs(12), slowest),
        Check::info("median", median.map_or("-".into(), span)),
        processes(&mut ring),
    ])
}
