//! Partitions: what each part does, and how long the parts take to be one ring again.

use std::time::{Duration, Instant};

use super::check::{Check, settle, verdict};
use super::load::{L1, Load, Profile};
use super::note;
use super::options::Options;
use super::pause;
use super::ring::Ring;

/// How long the row waits for one ring.
const PATIENCE: Duration = Duration::from_secs(180);

/// The short partition of the test suite.
pub(super) fn sample(options: &Options) -> Result<Vec<Check>, String> {
    let options =
        Options { nodes: Some(5), parts: vec![2, 3], cut: Some(Duration::from_secs(10)), ..options.clone() };
    partition(&options, Profile { keys: 200, ..L1 })
}

/// A partition of any length into any parts.
pub(super) fn heal(options: &Options) -> Result<Vec<Check>, String> {
    partition(options, L1)
}

fn partition(options: &Options, profile: Profile) -> Result<Vec<Check>, String> {
    let nodes = options.nodes.unwrap_or(7);
    let cut = options.cut.unwrap_or(Duration::from_secs(60));
    let sizes =
        if options.parts.is_empty() { vec![nodes / 2, nodes - nodes / 2] } else { options.parts.clone() };
    let parts = split(&sizes, nodes)?;
    let limit = Duration::from_secs(10);
    let mut ring = Ring::new(options, nodes)?;
    let mut load = Load::start(&ring, profile)?;
    pause(Duration::from_secs(5));
    note(&format!("cut into {sizes:?} for {} s", cut.as_secs()));
    let cut_at = load.now();
    ring.net.partition(&parts)?;
    pause(cut);
    ring.net.heal()?;
    let (healed, healed_at) = (Instant::now(), load.now());
    note("healed");
    let all = ring.running();
    let one = ring.time_until(healed, PATIENCE, |ring| ring.is_one_ring(&all))?;
    note(&format!("one ring: {one:?}"));
    let settled = settle(&ring, healed)?;
    let during = load.window(cut_at, healed_at, |_| true);
    let (served, late) = load.wait_served(healed_at, PATIENCE)?;
    let mut checks = vec![
        Check::within("one ring after healing", limit, one),
        Check::within("last failed operation after healing", limit, served),
        Check::info("errors after healing", late.text()),
        settled,
        Check::info("errors while cut", during.text()),
    ];
    checks.extend(verdict(&mut ring, &mut load)?);
    Ok(checks)
}

/// Deals nodes into parts of these sizes.
pub(super) fn split(sizes: &[usize], nodes: usize) -> Result<Vec<Vec<usize>>, String> {
    if sizes.iter().sum::<usize>() != nodes || sizes.len() < 2 {
        return Err(format!("parts {sizes:?} do not make {nodes} nodes"));
    }
    let mut next = 0..nodes;
    Ok(sizes.iter().map(|size| next.by_ref().take(*size).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_node_once() {
        assert_eq!(split(&[2, 1], 3), Ok(vec![vec![0, 1], vec![2]]));
        assert!(split(&[2, 2], 3).is_err() && split(&[3], 3).is_err());
    }
}
