//! The example programs, run to their end.

#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/embed.rs"]
mod embed;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/presence.rs"]
mod presence;
#[expect(dead_code, reason = "its main is for those who run it")]
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
