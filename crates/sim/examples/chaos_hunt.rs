use kringle_core::config::Ownership;
use kringle_sim::chaos::{SetUp, run};
use std::time::{Duration, Instant};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n = |i: usize| args[i].parse::<u64>().unwrap();
    let own = if args.get(5).is_some_and(|a| a == "hint") { Ownership::Hint } else { Ownership::Lease };
    let set_up = SetUp::new(n(3) as usize, Duration::from_secs(n(4)), own);
    let t = Instant::now();
    let (mut events, mut slow, mut bad) = (0, 0.0f64, 0);
    for seed in n(1)..n(2) {
        match run(seed, &set_up) {
            Ok(s) => {
                events += s.events;
                slow = slow.max(s.whole_after.as_secs_f64());
                if s.whole_after.as_secs() > 60 { println!("seed {seed} took {:?}", s.whole_after); }
            }
            Err(v) => { bad += 1; println!("seed {seed}: {v}"); }
        }
    }
    println!("{bad} bad, {events} events in {:?}, slowest {slow}", t.elapsed());
}
