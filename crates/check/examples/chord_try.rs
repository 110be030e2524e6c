//! Temporary.
use std::sync::atomic::AtomicBool;
use kringle_check::chord::*;
fn main() {
    let mut w = STILL;
    let mut l = Limits::default();
    l.states = usize::MAX;
    let mut ids = None;
    for a in std::env::args().skip(1) {
        let (k, v) = a.split_once('=').unwrap_or((&a, "1"));
        let n = v.parse::<u64>().unwrap_or(1);
        match k {
            "r" => w.successors = n as u8, "f" => w.founders = n as u8, "j" => w.joins = n as u8, "x" => w.failures = n as u8,
            "rs" => w.restarts = n as u8, "ft" => w.false_timeouts = n as u8, "l" => w.losses = n as u8, "a" => w.atomic = true,
            "any" => w.any_failure = true, "codec" => w.codec = true, "ids" => ids = Some(n as u8), "max" => l.states = n as usize,
            "rest" => l.rest_every = n, "nos" => l.judge_steps = false, "rounds" => l.rounds = n as u8,
            "w" => w.without = kringle_check::gate::rule(v), _ => panic!("{k}"),
        }
    }
    w.ids = ids.unwrap_or(World::usual_ids(w.founders, w.joins));
    let f = search(w, l, &AtomicBool::new(false), |p| eprint!("\r{p:?}    ")).unwrap();
    eprintln!();
    println!("{w}: {} states {} steps depth {} {:.1?} {}/s {} MB complete {} rested {} rounds {} parts {:?} unseen {:?}", f.states, f.steps, f.depth, f.time, (f.states as f64/f.time.as_secs_f64()) as u64, f.bytes>>20, f.complete, f.rested, f.rounds, f.parts, f.unseen);
    if let Some(b) = f.broken { println!("BROKEN {} in {}", b.property, b.schedule.len()); for s in b.schedule { println!("  {s}"); } for n in b.nodes { println!("  = {n}"); } }
}
