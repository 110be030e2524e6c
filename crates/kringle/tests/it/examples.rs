//! The example programs, run to their end.

#[path = "../../examples/embed.rs"]
mod embed;
#[path = "../../examples/presence.rs"]
mod presence;
#[path = "../../examples/request_reply.rs"]
mod request_reply;

use crate::library::run;

#[test]
fn three_nodes_in_one_program() {
    run(embed::run()).unwrap();
}

#[test]
fn a_service_that_answers() {
    run(request_reply::run()).unwrap();
}

#[test]
fn who_is_there() {
    run(presence::run()).unwrap();
}
