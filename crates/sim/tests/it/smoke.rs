use kringle_core::config::Settings;
use kringle_core::dice::*;
use kringle_core::edge::*;
use kringle_core::id::Id;
use kringle_sim::invariants::*;
use kringle_sim::world::World;
use std::time::Duration;

#[test]
fn smoke() {
    let n: usize = std::env::var("N").ok().and_then(|s| s.parse().ok()).unwrap_or(200);
    let mut w = World::new(Settings::default(), 7);
    w.check = n <= 1000;
    let t = std::time::Instant::now();
    w.grow(n);
    println!("grown at {:?} handled {} in {:?}", w.now(), w.handled(), t.elapsed());
    println!("{:?}", leaf_sets_are_exact(&w));
    println!("{}", w.tally);
    w.run_for(Duration::from_secs(60));
    println!("{:?}", leaf_sets_are_exact(&w));
    let mut d = SeededDice::new(1);
    let mut ok = 0;
    let mut hops = 0u32;
    for i in 0..1000 {
        let key = Id::new((d.roll() as u128) << 64 | d.roll() as u128);
        let n = d.below(n) as u32;
        let r = w.lookup(n, key);
        match w.finish(r) {
            Ok(Reply::Found { root, hops: h, .. }) => {
                if Some(root.id) == owner(&w, key) {
                    ok += 1;
                } else {
                    println!("wrong {i}")
                }
                hops += h as u32;
            }
            e => println!("{e:?}"),
        }
    }
    println!("ok {ok} hops {}", hops as f64 / 1000.0);
    println!("node size {}", std::mem::size_of::<kringle_core::node::Node>());
    println!("{}", w.tally);
}
