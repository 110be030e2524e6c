//! The overlay conformance suite, run for Pastry.

use std::time::Duration;

use kringle_core::config::Settings;
use kringle_core::node::Node;
use kringle_sim::conformance::{self, Subject};

fn pastry() -> Subject {
    // Small leaf sets, so that rings of a hundred nodes need their tables; short periods, so that upkeep takes part.
    let settings = Settings {
        leaf_exchange: Duration::from_secs(10),
        row_swap: Duration::from_secs(20),
        neighbourhood_exchange: Duration::from_secs(30),
        ..Settings::demo()
    };
    // `echo` is the stand-in overlay's.
    Subject { name: "pastry", make: Node::pastry, settings, impossible: &["echo"] }
}

#[test]
fn pastry_conforms_and_every_kind_of_message_and_note_occurs() {
    conformance::run(&pastry(), 1);
}
