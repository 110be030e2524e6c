//! Rings of processes form.

use crate::ring::control::{form, settle};
use crate::ring::protocol::Options;
use crate::support::{LONG, launcher, ring, show};

#[test]
fn three_processes_form_a_ring() {
    let nodes = ring(3, |_| Options::default());
    // A busy machine may let single lookups run out of time, but not all the time.
    settle(&nodes, 64, LONG).unwrap();
}

#[test]
fn sixteen_processes_form_a_ring() {
    let nodes = ring(16, |_| Options::default());
    settle(&nodes, 32, LONG).unwrap();
}

#[test]
fn sixty_four_processes_form_a_ring_and_hints_are_right() {
    let hints = |_| Options { hint: true, ..Options::default() };
    let nodes = form(&launcher(), 64, hints);
    show(&nodes);
    let took = settle(&nodes, 8, LONG).unwrap();
    println!("64 processes answer rightly {took:?} after the last has said who it is");
}
