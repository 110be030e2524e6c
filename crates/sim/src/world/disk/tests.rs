//! What a disk keeps, and what it loses.

use kringle_core::config::Settings;
use kringle_core::edge::Output;
use kringle_core::id::Id;

use super::*;

/// Gives nodes no store, but looks at what a store would be given.
fn no_store(node: Node, born: u32, records: &dyn Records, _: &Config) -> Node {
    assert!(born > 0);
    let mut entries = 0;
    records.scan(Space::Data, &[], &[0xff], &mut |_, _| {
        entries += 1;
        true
    });
    assert!(entries <= 3);
    node
}

fn world(options: DiskOptions) -> World {
    let mut world = World::new(Settings::demo(), 1).with_store(no_store, options);
    world.spawn(Id::new(1));
    world
}

fn persist(world: &mut World, ticket: u64, key: &str, value: Option<&str>) {
    let value = value.map(|value| Bytes::from(value.as_bytes()));
    let writes = vec![Write { space: Space::Data, key: key.as_bytes().into(), value }];
    world.execute(0, Output::Persist { ticket, writes });
}

fn read(records: Option<&MemoryRecords>, key: &str) -> Option<String> {
    let bytes = records?.read(Space::Data, key.as_bytes())?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn seen(world: &World, key: &str) -> Option<String> {
    read(world.records(0), key)
}

fn kept(world: &World, key: &str) -> Option<String> {
    read(world.durable(0), key)
}

#[test]
fn writes_are_seen_at_once_and_durable_after_a_sync() {
    let mut world = world(DiskOptions::default());
    persist(&mut world, 1, "a", Some("1"));
    world.start_sync(0);
    assert_eq!((seen(&world, "a").as_deref(), kept(&world, "a")), (Some("1"), None));
    world.run_for(Duration::from_micros(99));
    assert_eq!((kept(&world, "a"), world.handled()), (None, 0));
    world.run_for(Duration::from_millis(1));
    assert_eq!(kept(&world, "a").as_deref(), Some("1"));
    assert_eq!(world.handled(), 1, "the node is told");
}

#[test]
fn one_sync_covers_what_was_asked_before_it_started() {
    let mut world = world(DiskOptions::default());
    persist(&mut world, 1, "a", Some("1"));
    persist(&mut world, 2, "b", Some("2"));
    world.start_sync(0);
    persist(&mut world, 3, "c", Some("3"));
    world.start_sync(0);
    assert!(world.step());
    let all =
        |world: &World| [kept(world, "a"), kept(world, "b"), kept(world, "c")].map(|kept| kept.is_some());
    assert_eq!((all(&world), world.handled()), ([true, true, false], 1));
    assert!(world.step(), "the next sync started when the first had ended");
    assert_eq!((all(&world), world.handled()), ([true; 3], 2));
}

#[test]
fn a_crash_loses_what_was_not_synced() {
    let mut world = world(DiskOptions::default());
    persist(&mut world, 1, "a", Some("1"));
    world.start_sync(0);
    world.run_for(Duration::from_millis(2));
    persist(&mut world, 2, "a", None);
    persist(&mut world, 3, "b", Some("2"));
    world.start_sync(0);
    assert_eq!(seen(&world, "a"), None);
    world.crash(0);
    world.run_for(Duration::from_millis(2));
    world.restart(0);
    assert_eq!((seen(&world, "a").as_deref(), seen(&world, "b")), (Some("1"), None));
    assert_eq!((world.born(0), world.handled()), (Some(1), 1), "nobody is told of a sync of an earlier life");
}

#[test]
fn a_crash_may_leave_the_first_of_what_was_not_synced() {
    let mut left = [0; 4];
    for _ in 0..100 {
        let mut world = world(DiskOptions { leaves_some: true, ..DiskOptions::default() });
        world.slots[0].disk.as_mut().expect("a disk").dice = SeededDice::new(left.iter().sum());
        for (ticket, key) in ["a", "b", "c"].iter().enumerate() {
            persist(&mut world, ticket as u64 + 1, key, Some("1"));
        }
        world.crash(0);
        let kept = ["a", "b", "c"].map(|key| seen(&world, key).is_some());
        assert!(kept[0] >= kept[1] && kept[1] >= kept[2]);
        left[kept.iter().filter(|kept| **kept).count()] += 1;
    }
    assert!(left.iter().all(|times| *times > 10), "{left:?}");
}

#[test]
fn a_sync_that_takes_no_time_ends_with_the_next_event() {
    let mut world =
        world(DiskOptions { sync_min: Duration::ZERO, sync_max: Duration::ZERO, leaves_some: false });
    persist(&mut world, 1, "a", Some("1"));
    world.start_sync(0);
    assert_eq!(kept(&world, "a"), None);
    world.run_for(Duration::ZERO);
    assert_eq!(kept(&world, "a").as_deref(), Some("1"));
}

#[test]
fn a_slow_disk_takes_as_many_times_as_long() {
    let exact = Duration::from_micros(200);
    let mut world = world(DiskOptions { sync_min: exact, sync_max: exact, leaves_some: false });
    world.slow_disk(0, 500);
    persist(&mut world, 1, "a", Some("1"));
    world.start_sync(0);
    world.run_for(Duration::from_micros(99_999));
    assert_eq!(kept(&world, "a"), None);
    world.run_for(Duration::from_micros(1));
    assert_eq!(kept(&world, "a").as_deref(), Some("1"));
}

#[test]
fn a_stopped_node_hears_of_the_sync_when_it_goes_on() {
    let mut world = world(DiskOptions::default());
    persist(&mut world, 1, "a", Some("1"));
    world.start_sync(0);
    world.pause(0);
    world.run_for(Duration::from_millis(2));
    assert_eq!((kept(&world, "a").as_deref(), world.handled()), (Some("1"), 0));
    world.resume(0);
    assert_eq!(world.handled(), 1);
}

#[test]
fn an_empty_disk_is_a_birth_and_an_old_one_is_not() {
    let mut world = world(DiskOptions::default());
    let empty = world.snapshot(0).expect("a disk");
    persist(&mut world, 1, "a", Some("1"));
    world.start_sync(0);
    world.run_for(Duration::from_millis(2));
    let first = world.snapshot(0).expect("a disk");
    persist(&mut world, 2, "a", Some("2"));
    world.start_sync(0);
    world.run_for(Duration::from_millis(2));
    world.forget(0);
    world.restart(0);
    assert_eq!((seen(&world, "a"), world.born(0)), (None, Some(2)));
    world.roll_back(0, &first);
    world.restart(0);
    assert_eq!((seen(&world, "a").as_deref(), world.born(0)), (Some("1"), Some(1)));
    world.roll_back(0, &empty);
    world.restart(0);
    assert_eq!((seen(&world, "a"), world.born(0)), (None, Some(3)), "no number is used twice");
}

#[test]
fn rot_changes_one_bit_of_what_is_seen_and_kept() {
    let mut world = world(DiskOptions::default());
    assert_eq!(world.rot(0, Space::Data, &|_| true), None);
    persist(&mut world, 1, "a", Some("abc"));
    world.start_sync(0);
    world.run_for(Duration::from_millis(2));
    assert_eq!(world.rot(0, Space::Members, &|_| true), None);
    let (key, _) = world.rot(0, Space::Data, &|_| true).expect("there is a value");
    let bytes = world.durable(0).and_then(|records| records.read(Space::Data, &key)).expect("still there");
    let flipped: u32 = bytes.iter().zip(b"abc").map(|(new, old)| (new ^ old).count_ones()).sum();
    assert_eq!((&key[..], flipped), (&b"a"[..], 1));
    assert_eq!(world.records(0), world.durable(0));
}

#[test]
fn a_full_disk_is_told_to_the_node_and_to_its_next_life() {
    let mut world = world(DiskOptions::default());
    world.fill_disk(0, true);
    world.fill_disk(0, true);
    assert_eq!(world.handled(), 1);
    world.restart(0);
    assert_eq!(world.handled(), 2);
    world.fill_disk(0, false);
    world.restart(0);
    assert_eq!(world.handled(), 3);
}

#[test]
fn a_held_world_syncs_when_it_is_told_to() {
    let mut world = World::new(Settings::demo(), 1).with_store(no_store, DiskOptions::default());
    world.hold();
    world.spawn(Id::new(1));
    assert!(!world.sync(0));
    persist(&mut world, 1, "a", Some("1"));
    world.start_sync(0);
    persist(&mut world, 2, "b", Some("2"));
    assert!(world.sync(0));
    assert_eq!((kept(&world, "a").as_deref(), kept(&world, "b")), (Some("1"), None));
    assert!(world.sync(0) && kept(&world, "b").is_some());
}

#[test]
fn the_time_of_day_of_a_place_can_be_off() {
    let mut world = world(DiskOptions::default());
    world.spawn(Id::new(2));
    world.run_for(Duration::from_millis(1500));
    assert_eq!(world.wall(0), 1_700_000_001_500);
    world.set_wall_offset(0, -2000);
    world.set_drift(0, 1000);
    assert_eq!((world.wall(0), world.wall(1)), (1_699_999_999_500, 1_700_000_001_500));
    world.set_wall_clock_back(0, Duration::from_secs(1));
    world.restart(0);
    assert_eq!(world.wall_offset(0), -3000);
}
