//! Rings of processes form.

use crate::ring::control::{check, form, settle};
use crate::ring::protocol::Options;
use crate::support::{LONG, launcher, ring, show};

#[test]
fn three_processes_form_a_ring() {
    let nodes = ring(3, |_| Options::default());
    check(&nodes, 64, 77).unwrap();
}

#[test]
fn sixteen_processes_form_a_ring() {
    let nodes = ring(16, |_| Options::default());
    check(&nodes, 32, 77).unwrap();
}

#[test]
fn sixty_four_processes_form_a_ring_and_hints_are_right() {
    let hints = |_| Options { hint: true, ..Options::default() };
    let nodes = form(&launcher(), 64, hints);
    show(&nodes);
    let took = settle(&nodes, 8, LONG).unwrap();
    println!("64 processes answer rightly {took:?} after the last has said who it is");
}
