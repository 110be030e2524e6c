//! One node, controlled over its standard input: `ring_node '{"cluster": "demo"}'`.
//!
//! Prints who it is as one line of JSON, then answers each line with one: `{"n": 1, "do": "summary"}`. What can be asked
//! is listed in `ring/protocol.rs`. It ends when its input does.

mod ring;

fn main() {
    let options = std::env::args().nth(1).unwrap_or_else(|| "{}".into());
    std::process::exit(ring::node::main(&options));
}
