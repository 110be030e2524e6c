use kringle_core::config::Settings;
use kringle_core::edge::NoteKind;
use kringle_core::message::BodyKind;
use kringle_sim::network::Topology;
use kringle_sim::world::World;
use std::time::{Duration, Instant};
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let n = a[0];
    let never = Duration::from_secs(30 * 86_400);
    let settings = Settings {
        heartbeat: Duration::from_secs(30),
        leaf_exchange: never,
        row_swap: never,
        neighbourhood_exchange: never,
        leaf_set: a[1] as u16,
        neighbourhood: a[2] as u16,
        spares: a[3] as u8,
        find_nearby: a[4] == 1,
        ..Settings::lab()
    };
    let mut world = World::new(settings, 1);
    world.network.topology = Topology::Plane { side: Duration::from_millis(50) };
    world.check = false;
    let start = Instant::now();
    world.grow_in_waves(n, |_| ());
    let s = start.elapsed().as_secs_f64();
    println!(
        "{} events {:.1}/node {s:.1}s {:.3} M/s sim {:?}",
        world.handled(),
        world.handled() as f64 / n as f64,
        world.handled() as f64 / s / 1e6,
        world.now()
    );
    for k in BodyKind::ALL {
        if world.tally.messages(*k) > 0 {
            println!("{:20} {:.2}", k.name(), world.tally.messages(*k) as f64 / n as f64);
        }
    }
    for k in NoteKind::ALL {
        if world.tally.notes(*k) > 0 {
            println!("   {:20} {:.2}", k.name(), world.tally.notes(*k) as f64 / n as f64);
        }
    }
}
