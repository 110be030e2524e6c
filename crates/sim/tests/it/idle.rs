//! What nodes send that have nothing to do.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::message::BodyKind;
use kringle_sim::world::World;

/// What TLS adds to a message: header, type and tag of a record.
const RECORD: u64 = 22;
const SPAN: Duration = Duration::from_secs(300);

#[test]
fn idle_nodes_send_less_than_a_hundred_bytes_a_second() {
    let mut world = World::new(Settings::default(), 1);
    world.through_wire = true;
    world.grow(64);
    world.run_for(Duration::from_secs(60));
    let sent = |world: &World, kind: BodyKind| {
        let (messages, bytes) = (world.tally.messages(kind), world.tally.bytes(kind));
        (bytes + RECORD * messages) as f64 / 64.0 / SPAN.as_secs_f64()
    };
    let before: Vec<f64> = BodyKind::ALL.iter().map(|kind| sent(&world, *kind)).collect();
    world.run_for(SPAN);
    let mut all = 0.0;
    for (kind, before) in BodyKind::ALL.iter().zip(before) {
        let rate = sent(&world, *kind) - before;
        all += rate;
        if rate > 0.0 {
            println!("{:14} {rate:6.2} B/s", kind.name());
        }
    }
    println!("{:14} {all:6.2} B/s", "in all");
    assert!(all < 100.0, "{all} bytes a second");
}
