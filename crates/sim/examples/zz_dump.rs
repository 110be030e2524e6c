use kringle_sim::store_chaos::{SetUp, world};
use std::time::Duration;
fn main() {
    let seed: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let set_up = SetUp::new(8, Duration::from_secs(60));
    let (world, result) = world(seed, &set_up, &mut kringle_sim::store_load::OwnStore, &mut |_| true);
    match result {
        Ok(s) => println!("{s:?}"),
        Err(v) => println!("{v}"),
    }
    for (index, node) in world.running() {
        println!(
            "=== node {index} {:x} {:?} born {:?}",
            (node.me().id.value() >> 112) as u16,
            node.status(),
            world.born(index)
        );
        for line in node.store().unwrap().dump() {
            println!("{line}");
        }
    }
}
